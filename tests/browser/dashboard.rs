//! A running `capstan dashboard`. It stops when it is dropped.

use std::process::Stdio;
use std::time::Duration;

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
