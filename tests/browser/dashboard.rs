//! A running `capstan dashboard`. It stops when it is dropped.

use std::io::Write as _;
use std::path::Path;
use std::process::Stdio;
use std::time::Duration;

use serde_json::{Value, json};
use tempfile::NamedTempFile;
use tokio::io::{AsyncBufReadExt as _, BufReader};
use tokio::process::{Child, Command};

/// The deadline of the start, also on a loaded machine.
const SOON: Duration = Duration::from_secs(60);

pub struct Dashboard {
    process: Child,
    /// The address of the page, with its token. It ends with a slash.
    pub address: String,
}

impl Dashboard {
    pub async fn start(arguments: &[&str]) -> Self {
        let mut command = Command::new(env!("CARGO_BIN_EXE_capstan"));
        command.arg("dashboard").args(arguments);
        let mut process = command.stdout(Stdio::piped()).kill_on_drop(true).spawn().unwrap();
        let mut line = String::new();
        let mut output = BufReader::new(process.stdout.take().unwrap());
        let read = tokio::time::timeout(SOON, output.read_line(&mut line)).await;
        read.expect("the dashboard must print its address").unwrap();
        assert!(line.starts_with("http://127.0.0.1:"), "{line:?}");
        Self {
            process,
            address: line.trim().to_owned(),
        }
    }

    /// Ends the process, so that its port is free.
    pub async fn stop(mut self) {
        self.process.kill().await.unwrap();
    }
}

/// A kubeconfig whose current context is a cluster that does not exist, and whose context `name`
/// is the cluster of another kubeconfig.
pub fn with_context(kubeconfig: &Path, name: &str) -> NamedTempFile {
    let text = std::fs::read_to_string(kubeconfig).unwrap();
    let mut all: Value = serde_saphyr::from_str(&text).unwrap();
    let own = all["contexts"][0]["context"].clone();
    let user = own["user"].clone();
    all["clusters"]
        .as_array_mut()
        .unwrap()
        .push(json!({"name": "gone", "cluster": {"server": "https://127.0.0.1:1"}}));
    all["contexts"] = json!([
        {"name": "gone", "context": {"cluster": "gone", "user": user}},
        {"name": name, "context": own},
    ]);
    all["current-context"] = json!("gone");
    let mut file = NamedTempFile::with_suffix(".json").unwrap();
    file.write_all(all.to_string().as_bytes()).unwrap();
    file
}
