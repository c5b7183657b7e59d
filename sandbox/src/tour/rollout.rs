//! The second part of the tour: follows the rollout that the last edit started.
//!
//! The machines are simulated. The controllers are the production controllers, and run as the
//! service account from the manifests. The tour shows `kubectl get machines --watch` during the
//! rollout, and `capstan status` at the end.

use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::Duration;

use anyhow::{Context as _, Result, bail};
use tokio::io::{AsyncBufReadExt as _, BufReader};
use tokio::process::Command;

use super::screen::Screen;
use crate::control_plane::ControlPlane;
use crate::infrastructure::{Options, Provider, Speeds};
use crate::installation::{NAMESPACE, Server};

/// The user of the controllers in a cluster, as in `manifests/components/controllers/rbac.yaml`.
const SERVICE_ACCOUNT: &str = "system:serviceaccount:openshift-machine-api:capstan-controllers";
/// How long a replacement must have been ready. The default of ten seconds is too long for a tour.
pub(super) const MIN_READY: &str = "--min-ready=1s";
/// The deadline of the rollout, also on a loaded machine.
const SOON: &str = "5m";

/// The controllers and the simulated machines. They stop when this is dropped.
pub(super) struct Machines {
    _controllers: Server,
    _provider: Provider,
}

impl Machines {
    pub(super) async fn start(capstan: &Path, plane: &ControlPlane) -> Result<Self> {
        let groups = ["system:serviceaccounts", "system:serviceaccounts:openshift-machine-api"];
        let kubeconfig = plane.kubeconfig_for(SERVICE_ACCOUNT, &groups)?;
        let folder = plane.folder().join("controllers");
        std::fs::create_dir_all(&folder).with_context(|| format!("creating {}", folder.display()))?;
        let flags = [
            format!("--kubeconfig={}", kubeconfig.display()),
            "--controllers".to_owned(),
            "--controllers-only".to_owned(),
            MIN_READY.to_owned(),
        ];
        Ok(Self {
            _controllers: Server::start(capstan, &flags, "127.0.0.1", &folder).await?,
            _provider: Provider::start(plane.client().await?, Options::new(NAMESPACE, Speeds::TOUR, 3)),
        })
    }
}

/// Follows the rollout until it is complete.
pub(super) async fn follow(capstan: &Path, plane: &ControlPlane, screen: &mut Screen) -> Result<()> {
    let kubeconfig = plane.kubeconfig()?;
    screen.command(
        "The rollout replaces one machine at a time, and deletes it when its replacement is ready.",
        "kubectl get machines --watch",
    );
    let mut kubectl = Command::new(&plane.binaries().kubectl)
        .args(["get", "machines", "--watch"])
        .env("KUBECONFIG", &kubeconfig)
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .kill_on_drop(true)
        .spawn()
        .context("starting kubectl")?;
    let mut lines = BufReader::new(kubectl.stdout.take().context("kubectl has no output")?).lines();
    let mut wait = capstan_command(capstan, &kubeconfig, &["wait", "--for=rollout", "--timeout", SOON]);
    let mut ended = std::pin::pin!(wait.output());
    let outcome = loop {
        tokio::select! {
            line = lines.next_line() => match line.context("reading the output of kubectl")? {
                Some(line) => screen.plain(&line),
                None => bail!("kubectl get --watch ended before the rollout"),
            },
            outcome = &mut ended => break outcome.context("waiting for the rollout")?,
        }
    };
    if !outcome.status.success() {
        bail!(
            "the rollout did not finish: {}",
            String::from_utf8_lossy(&outcome.stderr)
        );
    }
    // The last deletions may arrive after the rollout is reported as complete.
    while let Ok(Ok(Some(line))) = tokio::time::timeout(Duration::from_millis(500), lines.next_line()).await {
        screen.plain(&line);
    }
    screen.command("The rollout is complete.", "capstan status");
    let status = capstan_command(capstan, &kubeconfig, &["status"])
        .output()
        .await
        .context("running capstan status")?;
    screen.plain(String::from_utf8_lossy(&status.stdout).trim_end());
    Ok(())
}

fn capstan_command(capstan: &Path, kubeconfig: &PathBuf, arguments: &[&str]) -> Command {
    let mut command = Command::new(capstan);
    command
        .args(arguments)
        .arg(MIN_READY)
        .env("KUBECONFIG", kubeconfig)
        .stdin(Stdio::null())
        .kill_on_drop(true);
    command
}
