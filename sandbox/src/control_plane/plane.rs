//! Starts the control plane, knows when it is ready, and ends it.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Mutex;
use std::time::Duration;

use anyhow::{Context, Result, anyhow};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;
use tokio::sync::OnceCell;

use super::binaries::{Binaries, Places};
use super::certificates::{Authority, token_key};
use super::folder::Folder;
use super::process::Process;
use super::wait::{free_ports, get};

/// Longer than any of them takes on a loaded machine; what has ended is noticed at once.
const READY: Duration = Duration::from_secs(120);
/// Ports are free when they are chosen and may be taken when they are used.
const ATTEMPTS: usize = 5;
/// What every test may rely on: garbage collection, namespaces that go, service accounts, aggregated roles, policies'
/// status.
const CONTROLLERS: [&str; 6] = [
    "garbage-collector-controller",
    "namespace-controller",
    "serviceaccount-controller",
    "root-ca-certificate-publisher-controller",
    "clusterrole-aggregation-controller",
    "validatingadmissionpolicy-status-controller",
];
/// One line a request, when it is answered; no bodies.
const AUDIT_POLICY: &str =
    "apiVersion: audit.k8s.io/v1\nkind: Policy\nomitStages: [RequestReceived]\nrules: [{level: Metadata}]\n";

/// What differs from one control plane to the next.
#[derive(Clone, Debug, Default)]
pub struct Options {
    /// Write an audit log, one line a request; [`ControlPlane::audit_events`] reads it.
    pub audit: bool,
    /// Start no controllers: nothing is garbage collected, a namespace is never finished.
    pub no_controllers: bool,
    /// Controllers beside the usual ones, such as `deployment-controller`.
    pub controllers: Vec<String>,
    /// `--runtime-config` of the API server, such as `api/alpha=true`.
    pub runtime_config: Vec<String>,
    /// `--feature-gates` of the API server and the controllers, such as `MutatingAdmissionPolicy=true`.
    pub feature_gates: Vec<String>,
    /// Ports to try first, before free ones are chosen: etcd's for clients, etcd's for peers, the API server's.
    pub ports: Option<[u16; 3]>,
    /// Further flags of the API server.
    pub api_server_flags: Vec<String>,
}

/// A control plane that runs on loopback. Dropping it ends every process and removes its folder.
pub struct ControlPlane {
    // Dropped in this order: who depends goes first, the folder last.
    controller_manager: Option<Process>,
    api_server: Process,
    etcd: Process,
    pub(super) binaries: Binaries,
    pub(super) authority: Authority,
    pub(super) url: String,
    pub(super) kubeconfigs: Mutex<BTreeMap<String, PathBuf>>,
    pub(super) folder: Folder,
}

impl ControlPlane {
    /// Starts a control plane and waits until it is ready: about three seconds, after the binaries are there.
    ///
    /// # Errors
    /// No binaries and no way to build them, or a server that does not start; the error holds what it said last.
    pub async fn start(options: Options) -> Result<Self> {
        let (binaries, folder) = tokio::task::spawn_blocking(|| {
            let runs = Places::from_environment().target.join("kube/run");
            Ok::<_, anyhow::Error>((Binaries::locate()?, Folder::create(&runs)?))
        })
        .await
        .context("looking for the binaries")??;
        let plan = Plan::write(&options, binaries, folder)?;
        let mut ports = options.ports.map_or_else(free_ports, Ok)?;
        let mut attempt = 1;
        let (etcd, api_server, url) = loop {
            match plan.attempt(attempt, ports).await {
                Err(error) if attempt < ATTEMPTS && format!("{error:#}").contains("address already in use") => {
                    ports = free_ports()?;
                    attempt += 1;
                }
                result => break result?,
            }
        };
        let Plan {
            binaries,
            folder,
            authority,
            controller_arguments,
            ..
        } = plan;
        let kubeconfigs = Mutex::default();
        let mut plane = Self {
            controller_manager: None,
            api_server,
            etcd,
            binaries,
            authority,
            url,
            kubeconfigs,
            folder,
        };
        if !options.no_controllers {
            plane.start_controllers(&controller_arguments).await?;
        }
        Ok(plane)
    }

    /// The control plane that all tests of one process share. It is started by the first, and ends with the process.
    ///
    /// # Errors
    /// As [`ControlPlane::start`].
    pub async fn shared() -> Result<&'static Self> {
        static SHARED: OnceCell<ControlPlane> = OnceCell::const_new();
        SHARED.get_or_try_init(|| Self::start(Options::default())).await
    }

    /// Where the API server listens, such as `https://127.0.0.1:34567`.
    pub fn url(&self) -> &str {
        &self.url
    }

    /// The folder with data, logs and kubeconfig files. A place for a test's own files too.
    pub fn folder(&self) -> &Path {
        self.folder.path()
    }

    /// The programs that run, and kubectl.
    pub fn binaries(&self) -> &Binaries {
        &self.binaries
    }

    /// The process ids of the servers: the API server, etcd, and the controller manager if there is one.
    pub fn processes(&self) -> Vec<u32> {
        let servers = [
            Some(&self.api_server),
            Some(&self.etcd),
            self.controller_manager.as_ref(),
        ];
        servers.into_iter().flatten().map(Process::id).collect()
    }

    /// Starts a server beside the control plane, such as Capstan itself, with its log in the folder as `<name>.log`. It
    /// ends when it is dropped, and with this process.
    ///
    /// # Errors
    /// It cannot be started, it ends, or does not answer at `ready_url` in time.
    pub async fn start_server(&self, name: &str, command: Command, ready_url: &str) -> Result<Process> {
        let mut process = Process::spawn(name, command, &self.folder().join(format!("{name}.log")))?;
        process.ready(ready_url, READY).await?;
        Ok(process)
    }

    async fn start_controllers(&mut self, arguments: &[String]) -> Result<()> {
        let mut command = Command::new(&self.binaries.kube_controller_manager);
        command.args(arguments).arg("--kubeconfig").arg(self.kubeconfig()?);
        let log = self.folder().join("kube-controller-manager.log");
        let mut process = Process::spawn("kube-controller-manager", command, &log)?;
        let client = self.client().await?;
        // The first thing that only a controller makes.
        process
            .wait_for("the controllers to work", READY, async || {
                get(&client, "/api/v1/namespaces/default/serviceaccounts/default").await
            })
            .await?;
        self.controller_manager = Some(process);
        Ok(())
    }
}

/// What is the same for every attempt: files that are written, flags that follow from them.
struct Plan {
    binaries: Binaries,
    folder: Folder,
    authority: Authority,
    api_server_arguments: Vec<String>,
    controller_arguments: Vec<String>,
}

impl Plan {
    fn write(options: &Options, binaries: Binaries, folder: Folder) -> Result<Self> {
        let authority = Authority::new()?;
        let flag = |name: &str, path: PathBuf| format!("--{name}={}", path.display());
        let list = |name: &str, items: &[String]| format!("--{name}={}", items.join(","));
        let ca = folder.write("ca.crt", &authority.certificate())?;
        let server = authority.server()?;
        let (token_private, token_public) = token_key()?;
        let token_private = folder.write("token.key", &token_private)?;
        let mut api_server_arguments = vec![
            "--bind-address=127.0.0.1".to_owned(),
            "--advertise-address=127.0.0.1".to_owned(),
            // A loopback address cannot be an endpoint; the default reconciler would refuse it and end the server.
            "--endpoint-reconciler-type=none".to_owned(),
            "--service-cluster-ip-range=10.0.0.0/24".to_owned(),
            "--authorization-mode=Node,RBAC".to_owned(),
            "--allow-privileged=true".to_owned(),
            "--shutdown-delay-duration=0s".to_owned(),
            "--service-account-issuer=https://kubernetes.default.svc".to_owned(),
            flag("client-ca-file", ca.clone()),
            flag("tls-cert-file", folder.write("server.crt", &server.certificate)?),
            flag("tls-private-key-file", folder.write("server.key", &server.key)?),
            flag("service-account-key-file", folder.write("token.pub", &token_public)?),
            flag("service-account-signing-key-file", token_private.clone()),
            flag("cert-dir", folder.path().to_path_buf()),
        ];
        let mut controllers: Vec<String> = CONTROLLERS.map(str::to_owned).to_vec();
        controllers.extend_from_slice(&options.controllers);
        let mut controller_arguments = vec![
            "--leader-elect=false".to_owned(),
            "--use-service-account-credentials=true".to_owned(),
            // Nobody asks it anything; one port less to choose.
            "--secure-port=0".to_owned(),
            list("controllers", &controllers),
            flag("root-ca-file", ca),
            flag("service-account-private-key-file", token_private),
        ];
        if options.audit {
            api_server_arguments.push(flag(
                "audit-policy-file",
                folder.write("audit-policy.yaml", AUDIT_POLICY)?,
            ));
            api_server_arguments.push(flag("audit-log-path", folder.path().join(super::audit::LOG)));
        }
        if !options.runtime_config.is_empty() {
            api_server_arguments.push(list("runtime-config", &options.runtime_config));
        }
        if !options.feature_gates.is_empty() {
            api_server_arguments.push(list("feature-gates", &options.feature_gates));
            controller_arguments.push(list("feature-gates", &options.feature_gates));
        }
        api_server_arguments.extend_from_slice(&options.api_server_flags);
        Ok(Self {
            binaries,
            folder,
            authority,
            api_server_arguments,
            controller_arguments,
        })
    }

    /// Starts etcd and the API server on these ports: etcd's clients, etcd's peers, the API server.
    async fn attempt(&self, number: usize, [clients, peers, secure]: [u16; 3]) -> Result<(Process, Process, String)> {
        let store = format!("http://127.0.0.1:{clients}");
        let peer = format!("http://127.0.0.1:{peers}");
        let mut command = Command::new(&self.binaries.etcd);
        command
            .arg("--data-dir")
            .arg(self.folder.path().join(format!("etcd-{number}")))
            .args(["--unsafe-no-fsync", "--log-level=warn"])
            .args(["--listen-client-urls", &store, "--advertise-client-urls", &store])
            .args(["--listen-peer-urls", &peer, "--initial-advertise-peer-urls", &peer])
            .args(["--initial-cluster", &format!("default={peer}")]);
        let mut etcd = Process::spawn("etcd", command, &self.folder.path().join("etcd.log"))?;
        etcd.wait_for("etcd to be healthy", READY, async || etcd_is_healthy(clients).await)
            .await?;

        let url = format!("https://127.0.0.1:{secure}");
        let mut command = Command::new(&self.binaries.kube_apiserver);
        command
            .args(&self.api_server_arguments)
            .arg(format!("--etcd-servers={store}"))
            .arg(format!("--secure-port={secure}"));
        let log = self.folder.path().join("kube-apiserver.log");
        let mut api_server = Process::spawn("kube-apiserver", command, &log)?;
        let admin = super::access::kubeconfig(&url, &self.authority, super::access::ADMIN, &[super::access::MASTERS])?;
        let client = super::access::client(&admin).await?;
        api_server
            .wait_for("kube-apiserver to be ready", READY, async || {
                get(&client, "/readyz").await
            })
            .await?;
        // Had another etcd answered on a port that ours did not get, ours would have ended.
        etcd.still_runs()?;
        Ok((etcd, api_server, url))
    }
}

/// etcd answers plain HTTP beside gRPC; one line of it needs no client.
async fn etcd_is_healthy(port: u16) -> Result<bool> {
    let mut stream = TcpStream::connect(("127.0.0.1", port))
        .await
        .context("connecting to etcd")?;
    stream
        .write_all(b"GET /health HTTP/1.0\r\nHost: 127.0.0.1\r\n\r\n")
        .await
        .context("asking etcd")?;
    let mut answer = String::new();
    stream.read_to_string(&mut answer).await.context("hearing etcd")?;
    if !answer.contains(r#""health":"true""#) {
        return Err(anyhow!("etcd answers {answer:?}"));
    }
    Ok(true)
}
