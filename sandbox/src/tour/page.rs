//! The page of the tour: `capstan dashboard` on loopback.

use std::path::Path;
use std::process::Stdio;
use std::time::Duration;

use anyhow::{Context as _, Result, ensure};
use tokio::io::{AsyncBufReadExt as _, BufReader};
use tokio::process::{Child, Command};

use super::rollout::MIN_READY;
use super::screen::Screen;
use crate::installation::Cluster;

/// The deadline of the start, also on a loaded machine.
const SOON: Duration = Duration::from_secs(60);

/// A running dashboard. It stops when this is dropped.
pub(super) struct Page {
    _process: Child,
    address: String,
}

impl Page {
    /// Starts the dashboard for a cluster, and reads the address that it prints.
    pub(super) async fn start(capstan: &Path, cluster: &Cluster) -> Result<Self> {
        let mut process = Command::new(capstan)
            .args(["dashboard", MIN_READY])
            .args(cluster.flags())
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .kill_on_drop(true)
            .spawn()
            .context("starting capstan dashboard")?;
        let output = process.stdout.take().context("capstan dashboard has no output")?;
        let mut address = String::new();
        let mut output = BufReader::new(output);
        let read = tokio::time::timeout(SOON, output.read_line(&mut address));
        read.await
            .context("capstan dashboard did not print its address in time")?
            .context("reading the address of the page")?;
        ensure!(!address.is_empty(), "capstan dashboard ended without an address");
        Ok(Self {
            _process: process,
            address: address.trim().to_owned(),
        })
    }

    /// Shows the address.
    pub(super) fn show(&self, screen: &mut Screen) {
        screen.blank();
        screen.plain(&format!(
            "Open this page in a browser and watch the control plane: {}",
            self.address
        ));
    }

    /// The address of the page.
    pub(super) fn address(&self) -> &str {
        &self.address
    }
}
