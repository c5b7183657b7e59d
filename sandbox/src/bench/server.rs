//! The servers under measurement: `capstan serve` on loopback, as child processes, each with its
//! own certificate.

use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use anyhow::{Context as _, Result};

use super::load::Target;
use crate::control_plane::{Process, free_port, wait_until};

/// A running server.
pub(super) struct Server {
    process: Process,
    pub(super) target: Target,
}

impl Server {
    /// Starts `capstan serve` with these arguments, and waits until it accepts connections.
    ///
    /// Its log lines are formatted as in a cluster, and discarded: a file would fill the disk.
    pub(super) async fn start(capstan: &Path, folder: &Path, name: &str, arguments: &[&str]) -> Result<Self> {
        let address = SocketAddr::from(([127, 0, 0, 1], free_port()?));
        let health = SocketAddr::from(([127, 0, 0, 1], free_port()?));
        let certificates = folder.join(name);
        // The certificate of an earlier server would be taken for the one of this server.
        if certificates.exists() {
            std::fs::remove_dir_all(&certificates)?;
        }
        let mut command = Command::new(capstan);
        command
            .arg("serve")
            .args(["--listen", &address.to_string(), "--health-addr", &health.to_string()])
            .arg("--dev-certificate")
            .arg(&certificates)
            .args(arguments)
            .env_remove("CAPSTAN_LOG");
        let mut process = Process::spawn(name, command, Path::new("/dev/null"))?;
        let authority: PathBuf = certificates.join("ca.crt");
        process
            .ready(&format!("http://{health}/livez"), Duration::from_secs(20))
            .await?;
        let target = wait_until("the certificate of the server", Duration::from_secs(5), async || {
            authority.exists().then(|| Target::new(address, &authority)).transpose()
        })
        .await?;
        Ok(Self { process, target })
    }

    /// The processor time, user and system, that the process has used so far, in seconds.
    pub(super) fn cpu(&self) -> Result<f64> {
        let text = self.read("stat")?;
        // The second field is the name, in parentheses; it may contain spaces. Fields 14 and 15 are
        // the user and the system time.
        let fields = text.rsplit_once(')').context("the stat file has no process name")?.1;
        let ticks = fields
            .split_whitespace()
            .skip(11)
            .take(2)
            .map(|field| field.parse::<f64>().context("a time in the stat file is not a number"))
            .sum::<Result<f64>>()?;
        #[expect(clippy::cast_precision_loss, reason = "the number of ticks per second is small")]
        let per_second = rustix::param::clock_ticks_per_second() as f64;
        Ok(ticks / per_second)
    }

    /// The resident memory, in MiB.
    pub(super) fn resident(&self) -> Result<f64> {
        let text = self.read("status")?;
        let line = text.lines().find_map(|line| line.strip_prefix("VmRSS:"));
        let kib = line
            .and_then(|line| line.split_whitespace().next())
            .context("the status file has no VmRSS")?;
        Ok(kib.parse::<f64>()? / 1024.0)
    }

    fn read(&self, file: &str) -> Result<String> {
        let path = format!("/proc/{}/{file}", self.process.id());
        std::fs::read_to_string(&path).with_context(|| format!("reading {path}: the server may have exited"))
    }
}
