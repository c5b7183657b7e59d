//! Installs Capstan in a cluster: its CRDs and policies, and a server on this machine that the
//! webhooks call.
//!
//! It installs the manifests that the `capstan` binary prints, so tests use the same manifests as
//! clusters. It must never create an object that it cannot name later to delete it.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Duration;

use anyhow::{Context, Result, bail};
use tokio::io::AsyncWriteExt as _;

use crate::control_plane::{Binaries, ControlPlane, KubectlCall, Output, Process, free_port, point_at, wait_until};

/// The deadline of each wait, also on a loaded machine. A failure is noticed at once.
const SOON: Duration = Duration::from_secs(60);
/// How many ports are tried. Another process can take a port after it was found free.
const ATTEMPTS: usize = 5;
/// The namespace of the Machine API.
pub const NAMESPACE: &str = "openshift-machine-api";
/// The user of the server in a cluster, as in `manifests/base/rbac.yaml`.
pub const SERVICE_ACCOUNT: &str = "system:serviceaccount:openshift-machine-api:capstan-webhook";

/// A cluster and the way in which kubectl connects to it.
#[derive(Clone, Debug)]
pub struct Cluster {
    kubectl: PathBuf,
    kubeconfig: Option<PathBuf>,
    context: Option<String>,
    /// The binaries and the folder of a control plane of the sandbox.
    plane: Option<(Binaries, PathBuf)>,
}

impl Cluster {
    /// A control plane of the sandbox, as its administrator.
    ///
    /// # Errors
    /// The kubeconfig file cannot be written.
    pub fn of(plane: &ControlPlane) -> Result<Self> {
        Ok(Self {
            kubectl: plane.binaries().kubectl.clone(),
            kubeconfig: Some(plane.kubeconfig()?),
            context: None,
            plane: Some((plane.binaries().clone(), plane.folder().to_owned())),
        })
    }

    /// A cluster of the user: a context in a kubeconfig file. Without a file, kubectl uses the
    /// default one of the user.
    pub fn of_context(kubectl: PathBuf, context: &str, kubeconfig: Option<PathBuf>) -> Self {
        Self {
            kubectl,
            kubeconfig,
            context: Some(context.to_owned()),
            plane: None,
        }
    }

    /// The name of the context, for a cluster of the user.
    pub fn context(&self) -> Option<&str> {
        self.context.as_deref()
    }

    /// A command that runs kubectl for this cluster.
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

    /// The flags with which `capstan serve` connects to this cluster.
    pub fn flags(&self) -> Vec<String> {
        let kubeconfig = self
            .kubeconfig
            .iter()
            .map(|path| format!("--kubeconfig={}", path.display()));
        let context = self.context.iter().map(|name| format!("--context={name}"));
        kubeconfig.chain(context).collect()
    }

    /// Runs kubectl with these arguments and this standard input. A failure of kubectl is an
    /// [`Output`], not an error.
    ///
    /// # Errors
    /// kubectl cannot be started.
    pub async fn run(&self, arguments: &[&str], stdin: &str) -> Result<Output> {
        if let (Some((binaries, home)), Some(kubeconfig)) = (&self.plane, &self.kubeconfig) {
            let scratch = tempfile::tempdir_in(home).context("creating a folder for kubectl")?;
            let arguments = arguments.iter().map(|argument| (*argument).to_owned()).collect();
            let call = KubectlCall::new(arguments, scratch.path(), home, stdin)?;
            let kubeconfig = kubeconfig.display().to_string();
            return call.with("KUBECONFIG", kubeconfig).run(binaries).await;
        }
        let mut command = self.kubectl();
        command.args(arguments);
        run(command, stdin).await
    }

    /// Applies manifests by server-side apply, and waits until CRDs among them are established.
    ///
    /// # Errors
    /// The API server refuses a manifest.
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
            self.wait_until_established(&wait).await?;
        }
        Ok(())
    }

    /// `kubectl wait` fails at once for a CRD that has no conditions yet, so it is repeated.
    async fn wait_until_established(&self, wait: &[&str]) -> Result<()> {
        let deadline = tokio::time::Instant::now() + std::time::Duration::from_mins(1);
        loop {
            let waited = self.run(wait, "").await?;
            let has_no_conditions = waited.stderr.contains("accessor error");
            if !has_no_conditions || tokio::time::Instant::now() > deadline {
                waited.checked()?;
                return Ok(());
            }
            tokio::time::sleep(std::time::Duration::from_millis(100)).await;
        }
    }
}

/// Runs a command until it exits.
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
        // The exit code tells whether the program failed; one that does not read its input is no
        // error here.
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

/// The output of `capstan manifests <what>`, for a default installation.
///
/// # Errors
/// The binary does not exist, or fails.
pub async fn manifests(capstan: &Path, what: &str) -> Result<String> {
    manifests_of(capstan, what, "admission").await
}

/// The output of `capstan manifests <what>` for features, which commas separate.
///
/// # Errors
/// The binary does not exist, or fails.
pub async fn manifests_of(capstan: &Path, what: &str, features: &str) -> Result<String> {
    let mut command = Command::new(capstan);
    command.args(["manifests", what, "--feature", features]);
    Ok(run(command, "").await?.checked()?.stdout)
}

/// A running `capstan serve` on this machine. It stops when it is dropped, and when this process
/// ends.
#[derive(Debug)]
pub struct Server {
    process: Process,
    port: u16,
    host: String,
    authority: String,
    webhooks: String,
}

impl Server {
    /// Starts `capstan serve`, and waits until it is ready: it has a certificate, and its caches
    /// are filled.
    ///
    /// `flags` select the cluster, and with `--mirroring`, `--kubeadm-control-plane`, or
    /// `--control-plane` the feature of that name. `host` is the address at which the API server
    /// reaches this machine, and the only address on which the server listens. `folder` receives
    /// the log and the CA certificate.
    ///
    /// # Errors
    /// The server cannot be started, exits, or is not ready in time; the error contains the end of
    /// its log.
    pub async fn start(capstan: &Path, flags: &[String], host: &str, folder: &Path) -> Result<Self> {
        let has = |name: &str| flags.iter().any(|flag| flag == name);
        let features = if has("--mirroring") {
            "admission,mirroring"
        } else if has("--kubeadm-control-plane") {
            "admission,kubeadm-control-plane"
        } else if has("--control-plane") {
            "admission,control-plane"
        } else {
            "admission"
        };
        let webhooks = manifests_of(capstan, "webhooks", features).await?;
        let mut attempt = 1;
        loop {
            let (port, health) = (free_port()?, free_port()?);
            let mut command = Command::new(capstan);
            command
                .arg("serve")
                .args([format!("--listen={host}:{port}"), format!("--dns-name={host}")])
                .arg(format!("--health-addr=127.0.0.1:{health}"))
                .arg(format!("--dev-certificate={}", folder.display()))
                // No load balancer is in front of it, so it can stop at once.
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

    /// The URL of a path of this server, and the PEM of the authority of its certificate.
    #[must_use]
    pub fn address(&self, path: &str) -> (String, &str) {
        (format!("https://{}:{}{path}", self.host, self.port), &self.authority)
    }

    /// The process.
    pub fn process(&mut self) -> &mut Process {
        &mut self.process
    }

    /// Registers the webhooks with the address of this server, and waits until the API server calls
    /// them.
    ///
    /// # Errors
    /// The API server refuses the webhooks, or cannot connect to this server.
    pub async fn register(&self, cluster: &Cluster) -> Result<()> {
        self.register_within(cluster, SOON).await
    }

    /// Like [`Server::register`], with a deadline, for an API server that may be unable to connect
    /// to this machine.
    ///
    /// # Errors
    /// The API server refuses the webhooks, or has not called this server before the deadline.
    pub async fn register_within(&self, cluster: &Cluster, deadline: Duration) -> Result<()> {
        let webhooks = point_at(&self.webhooks, self.port, &self.authority)?;
        let here = |host: &str| format!("https://{host}:{}/", self.port);
        cluster
            .apply(&webhooks.replace(&here("127.0.0.1"), &here(&self.host)))
            .await?;
        // Only the validating webhook refuses a set in this namespace. No policy has that rule.
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
        wait_until("the API server to call the webhooks", deadline, async || {
            let create = ["create", "--dry-run=server", "-f", "-"];
            let output = cluster.run(&create, &probe.to_string()).await?;
            if output.stderr.contains("cpms-namespace") {
                return Ok(Some(()));
            }
            bail!("the probe must be refused; the API server answered {output}")
        })
        .await
    }
}

/// Waits until the admission policies are in force, about a second after they were applied. Call it
/// before webhooks are registered, because a webhook would refuse the probe too.
///
/// # Errors
/// The policies did not refuse the probe before the deadline.
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
        bail!("the probe must be refused; the API server answered {output}")
    })
    .await
}
