//! Capstan in a cluster: its definitions and policies, and its server on this machine with the webhooks pointing at it.
//!
//! The manifests are those that the `capstan` binary prints, so what is tried here is what is installed elsewhere. It must
//! never install anything that it cannot name again to remove it.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Duration;

use anyhow::{Context, Result, bail};
use tokio::io::AsyncWriteExt as _;

use crate::control_plane::{ControlPlane, Output, Process, free_port, point_at, wait_until};

/// Longer than a loaded machine needs; what fails is noticed at once.
const SOON: Duration = Duration::from_secs(60);
/// Another process may take a port between its choice and its use.
const ATTEMPTS: usize = 5;
/// The namespace of the Machine API.
pub const NAMESPACE: &str = "openshift-machine-api";
/// The user that the server is in a cluster, by `manifests/rbac.yaml`.
pub const SERVICE_ACCOUNT: &str = "system:serviceaccount:openshift-machine-api:capstan-webhook";

/// A cluster, as kubectl reaches it.
#[derive(Clone, Debug)]
pub struct Cluster {
    kubectl: PathBuf,
    kubeconfig: Option<PathBuf>,
    context: Option<String>,
}

impl Cluster {
    /// A control plane of ours, as its administrator.
    ///
    /// # Errors
    /// Its kubeconfig cannot be written.
    pub fn of(plane: &ControlPlane) -> Result<Self> {
        Ok(Self {
            kubectl: plane.binaries().kubectl.clone(),
            kubeconfig: Some(plane.kubeconfig()?),
            context: None,
        })
    }

    /// A cluster of the user's, by the name of a context in a kubeconfig; in the user's own, unless another is given.
    pub fn of_context(kubectl: PathBuf, context: &str, kubeconfig: Option<PathBuf>) -> Self {
        Self {
            kubectl,
            kubeconfig,
            context: Some(context.to_owned()),
        }
    }

    /// The name of the context, for a cluster of the user's.
    pub fn context(&self) -> Option<&str> {
        self.context.as_deref()
    }

    /// kubectl, for this cluster.
    pub fn kubectl(&self) -> Command {
        let mut command = Command::new(&self.kubectl);
        if let Some(kubeconfig) = &self.kubeconfig {
            command.env("KUBECONFIG", kubeconfig);
        }
        if let Some(context) = &self.context {
            command.args(["--context", context]);
        }
        command
    }

    /// The flags with which `capstan serve` reaches this cluster.
    pub fn flags(&self) -> Vec<String> {
        let kubeconfig = self
            .kubeconfig
            .iter()
            .map(|path| format!("--kubeconfig={}", path.display()));
        let context = self.context.iter().map(|name| format!("--context={name}"));
        kubeconfig.chain(context).collect()
    }

    /// Runs kubectl with these arguments and this input. Its failure is an [`Output`], not an error.
    ///
    /// # Errors
    /// kubectl cannot be started.
    pub async fn run(&self, arguments: &[&str], stdin: &str) -> Result<Output> {
        let mut command = self.kubectl();
        command.args(arguments);
        run(command, stdin).await
    }

    /// Applies manifests on the server's side. CustomResourceDefinitions among them are served when it returns.
    ///
    /// # Errors
    /// The API server refuses one of them.
    pub async fn apply(&self, manifests: &str) -> Result<()> {
        let apply = [
            "apply",
            "--server-side",
            "--field-manager=capstan-sandbox",
            "--force-conflicts",
        ];
        let applied = self
            .run(&[&apply[..], &["-f", "-", "-o", "name"]].concat(), manifests)
            .await?;
        let applied = applied.checked()?;
        let mut wait = vec!["wait", "--for=condition=Established", "--timeout=60s"];
        let before = wait.len();
        let definitions = applied.stdout.lines();
        wait.extend(definitions.filter(|name| name.starts_with("customresourcedefinition")));
        if wait.len() > before {
            self.run(&wait, "").await?.checked()?;
        }
        Ok(())
    }
}

/// Runs a command to its end.
pub(crate) async fn run(mut command: Command, stdin: &str) -> Result<Output> {
    let program = command.get_program().to_string_lossy().into_owned();
    command
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped());
    let mut child = tokio::process::Command::from(command)
        .kill_on_drop(true)
        .spawn()
        .with_context(|| format!("starting {program}"))?;
    if let Some(mut input) = child.stdin.take() {
        // A program that does not read its input says so by its exit code.
        let _ = input.write_all(stdin.as_bytes()).await;
    }
    let output = child
        .wait_with_output()
        .await
        .with_context(|| format!("waiting for {program}"))?;
    Ok(Output {
        status: output.status.code().unwrap_or(-1),
        stdout: String::from_utf8_lossy(&output.stdout).into_owned(),
        stderr: String::from_utf8_lossy(&output.stderr).into_owned(),
        opened: Vec::new(),
    })
}

/// What `capstan manifests <what>` prints.
///
/// # Errors
/// The binary is not there, or fails.
pub async fn manifests(capstan: &Path, what: &str) -> Result<String> {
    let mut command = Command::new(capstan);
    command.args(["manifests", what]);
    Ok(run(command, "").await?.checked()?.stdout)
}

/// The server, on this machine. It ends when it is dropped, and with this process.
#[derive(Debug)]
pub struct Server {
    process: Process,
    port: u16,
    host: String,
    authority: String,
    webhooks: String,
}

impl Server {
    /// Starts `capstan serve` and waits until it is ready: its certificate is there, its caches are filled.
    ///
    /// `flags` say which cluster it looks at; `host` is the address of this machine under which the API server finds it,
    /// and the only one that it listens on. `folder` gets its log and the authority of its certificate.
    ///
    /// # Errors
    /// It cannot be started, ends, or is not ready in time; the error holds what it said last.
    pub async fn start(capstan: &Path, flags: &[String], host: &str, folder: &Path) -> Result<Self> {
        let webhooks = manifests(capstan, "webhooks").await?;
        let mut attempt = 1;
        loop {
            let (port, health) = (free_port()?, free_port()?);
            let mut command = Command::new(capstan);
            command
                .arg("serve")
                .args([format!("--listen={host}:{port}"), format!("--dns-name={host}")])
                .arg(format!("--health-addr=127.0.0.1:{health}"))
                .arg(format!("--dev-certificate={}", folder.display()))
                // Nobody balances load over it: it may leave at once.
                .args(["--shutdown-delay=0s", "--drain-timeout=2s"])
                .args(flags);
            let mut process = Process::spawn("capstan", command, &folder.join("capstan.log"))?;
            let ready = format!("http://127.0.0.1:{health}/readyz");
            match process.ready(&ready, SOON).await {
                Err(error) if attempt < ATTEMPTS && format!("{error:#}").contains("in use") => attempt += 1,
                Err(error) => return Err(error),
                Ok(()) => {
                    let path = folder.join("ca.crt");
                    let authority =
                        std::fs::read_to_string(&path).with_context(|| format!("reading {}", path.display()))?;
                    return Ok(Self {
                        process,
                        port,
                        host: host.to_owned(),
                        authority,
                        webhooks,
                    });
                }
            }
        }
    }

    /// The process.
    pub fn process(&mut self) -> &mut Process {
        &mut self.process
    }

    /// Registers the webhooks, pointing at this server, and waits until the API server asks it.
    ///
    /// # Errors
    /// The API server refuses them, or does not reach the server.
    pub async fn register(&self, cluster: &Cluster) -> Result<()> {
        self.register_within(cluster, SOON).await
    }

    /// The same, with a deadline: an API server elsewhere may never reach this machine.
    ///
    /// # Errors
    /// The API server refuses them, or does not reach the server in time.
    pub async fn register_within(&self, cluster: &Cluster, deadline: Duration) -> Result<()> {
        let webhooks = point_at(&self.webhooks, self.port, &self.authority)?;
        let here = |host: &str| format!("https://{host}:{}/", self.port);
        cluster
            .apply(&webhooks.replace(&here("127.0.0.1"), &here(&self.host)))
            .await?;
        // A set in a namespace where none may be is refused by a rule that only the webhook has, in its second pass.
        let probe = serde_json::json!({
            "apiVersion": "machine.openshift.io/v1",
            "kind": "ControlPlaneMachineSet",
            "metadata": {"name": "cluster", "namespace": "default"},
            "spec": {
                "selector": {},
                "template": {
                    "machineType": "machines_v1beta1_machine_openshift_io",
                    "machines_v1beta1_machine_openshift_io": {
                        "metadata": {"labels": {
                            "machine.openshift.io/cluster-api-cluster": "probe",
                            "machine.openshift.io/cluster-api-machine-role": "master",
                            "machine.openshift.io/cluster-api-machine-type": "master",
                        }},
                        "spec": {},
                    },
                },
            },
        });
        wait_until("the API server to ask the webhooks", deadline, async || {
            let create = ["create", "--dry-run=server", "-f", "-"];
            let output = cluster.run(&create, &probe.to_string()).await?;
            if output.stderr.contains("cpms-namespace") {
                return Ok(Some(()));
            }
            bail!("a probe that they refuse gave {output}")
        })
        .await
    }
}

/// Waits until the admission policies are in force, which takes about a second after they were applied. While webhooks are
/// registered too, nothing tells who refuses; then wait before they are.
///
/// # Errors
/// They did not refuse in time.
pub async fn policies_in_force(cluster: &Cluster) -> Result<()> {
    let probe = r#"{"apiVersion": "machine.openshift.io/v1", "kind": "ControlPlaneMachineSet", "metadata": {"name": "cluster",
        "namespace": "default", "finalizers": ["foregroundDeletion"]}, "spec": {"selector": {}, "template": {"machineType":
        "machines_v1beta1_machine_openshift_io", "machines_v1beta1_machine_openshift_io": {"spec": {}, "metadata": {"labels": {
        "machine.openshift.io/cluster-api-cluster": "probe", "machine.openshift.io/cluster-api-machine-role": "master",
        "machine.openshift.io/cluster-api-machine-type": "master"}}}}}}"#;
    wait_until("the policies to be in force", SOON, async || {
        let output = cluster.run(&["create", "--dry-run=server", "-f", "-"], probe).await?;
        if output.stderr.contains("ValidatingAdmissionPolicy") {
            return Ok(Some(()));
        }
        bail!("a probe that they refuse gave {output}")
    })
    .await
}
