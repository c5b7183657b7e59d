//! One call of kubectl, in a process of its own or in a session.

use std::collections::BTreeMap;
use std::fmt;
use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::{Child, Command};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use serde::Serialize;

use super::super::plane::HEAP_GROWTH;
use super::super::process::{Tether, spawn_tethered};
use super::Output;

/// The time after which a call fails. kubectl itself has no deadline.
pub(super) const DEADLINE: Duration = Duration::from_secs(120);

/// The time between two checks whether a call has ended.
pub(super) const PAUSE: Duration = Duration::from_millis(5);

/// A call. Its folder is empty before it, and holds its streams and what an editor saves.
#[derive(Debug, Serialize)]
pub(crate) struct KubectlCall {
    arguments: Vec<String>,
    folder: PathBuf,
    environment: BTreeMap<&'static str, String>,
    stdin: PathBuf,
    stdout: PathBuf,
    stderr: PathBuf,
    /// The file in which a session stores the exit code.
    status: PathBuf,
}

impl fmt::Display for KubectlCall {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "kubectl {}", self.arguments.join(" "))
    }
}

impl KubectlCall {
    /// A call in this folder with this standard input. `home` keeps what kubectl learns about the
    /// cluster. No other configuration of the user affects the call.
    ///
    /// # Errors
    /// The standard input cannot be written.
    pub(crate) fn new(arguments: Vec<String>, folder: &Path, home: &Path, stdin: &str) -> Result<Self> {
        let text = |path: &Path| path.display().to_string();
        let path = std::env::var("PATH").unwrap_or_default();
        let call = Self {
            arguments,
            environment: BTreeMap::from([("PATH", path), ("HOME", text(home)), ("TMPDIR", text(folder))]),
            folder: folder.to_owned(),
            stdin: folder.join("stdin"),
            stdout: folder.join("stdout"),
            stderr: folder.join("stderr"),
            status: folder.join("status"),
        };
        fs::write(&call.stdin, stdin).context("writing the input of kubectl")?;
        Ok(call)
    }

    /// Adds a variable of the environment.
    pub(crate) fn with(mut self, name: &'static str, value: impl Into<String>) -> Self {
        self.environment.insert(name, value.into());
        self
    }

    /// What the call wrote, once it has ended with this exit code.
    pub(super) fn output(&self, status: i32) -> Result<Output> {
        let read = |path: &Path| fs::read_to_string(path).context("reading the output of kubectl");
        Ok(Output {
            status,
            stdout: read(&self.stdout)?,
            stderr: read(&self.stderr)?,
            opened: opened(&self.folder),
        })
    }

    /// The exit code that a session stored; `None` while the call runs.
    pub(super) fn status(&self) -> Result<Option<i32>> {
        let Ok(text) = fs::read_to_string(&self.status) else {
            return Ok(None);
        };
        let status = text
            .parse()
            .with_context(|| format!("the status of {self} is {text:?}"))?;
        Ok(Some(status))
    }

    /// Starts the call in a process of its own.
    pub(super) fn start(&self, kubectl: &Path) -> Result<Running> {
        let stream = |path: &Path| File::create(path).context("creating a file for the output of kubectl");
        let mut command = Command::new(kubectl);
        command
            .args(&self.arguments)
            .current_dir(&self.folder)
            .env_clear()
            .envs(&self.environment)
            .env("GOGC", HEAP_GROWTH)
            .stdin(File::open(&self.stdin).context("opening the input of kubectl")?)
            .stdout(stream(&self.stdout)?)
            .stderr(stream(&self.stderr)?);
        Ok(Running(
            spawn_tethered(command, Tether::SERVER).context("starting kubectl")?,
        ))
    }
}

/// A running kubectl, or a session. Dropping it kills the process.
pub(super) struct Running(pub(super) Child);

impl Running {
    /// Waits for the exit code.
    pub(super) async fn end(mut self, call: &KubectlCall) -> Result<i32> {
        let began = Instant::now();
        loop {
            if let Some(status) = self.0.try_wait().context("waiting for kubectl")? {
                return Ok(status.code().unwrap_or(-1));
            }
            if began.elapsed() > DEADLINE {
                bail!("{call} did not end within {DEADLINE:?}");
            }
            tokio::time::sleep(PAUSE).await;
        }
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        // Both calls do nothing if the process has exited.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

fn opened(folder: &Path) -> Vec<String> {
    (1..)
        .map_while(|number| fs::read_to_string(folder.join(format!("opened-{number}"))).ok())
        .collect()
}
