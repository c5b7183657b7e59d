//! Starts the control plane, waits until it is ready, and stops it.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Mutex;
use std::time::Duration;

use anyhow::{Context, Result, anyhow};
use k8s_openapi::ByteString;
use serde_json::{Value, json};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;
use tokio::sync::OnceCell;

use super::binaries::Binaries;
use super::certificates::{Authority, token_key};
use super::folder::Folder;
use super::kubeconfig::{self, ADMIN, MASTERS, with_certificate};
use super::ports::free_ports;
use super::process::Process;
use super::wait::get;
use crate::environment::Places;

/// The time in which each server must become ready, also on a loaded machine. A server that exits
/// is noticed at once.
const READY: Duration = Duration::from_secs(120);
/// How far the heap of an API server or of kubectl grows before it is collected, as a percentage of
/// what is in use. With Go's default of 100, an API server with all CRDs starts in 7 seconds of a
/// core, and 400 MB; with 400, in 5 seconds, and 720 MB. kubectl starts in 60 milliseconds of a
/// core in place of 85. Both use most of the processor time of the tests.
pub(super) const HEAP_GROWTH: &str = "400";
/// How many sets of ports are tried. Another process can take a port after it was found free.
const ATTEMPTS: usize = 5;
/// The controllers that every test can rely on.
const CONTROLLERS: [&str; 6] = [
    "garbage-collector-controller",
    "namespace-controller",
    "serviceaccount-controller",
    "root-ca-certificate-publisher-controller",
    "clusterrole-aggregation-controller",
    "validatingadmissionpolicy-status-controller",
];
/// Writes one line for each answered request, without bodies.
const AUDIT_POLICY: &str =
    "apiVersion: audit.k8s.io/v1\nkind: Policy\nomitStages: [RequestReceived]\nrules: [{level: Metadata}]\n";

/// The name of the audit log in the folder of the control plane.
pub(super) const AUDIT_LOG: &str = "audit.log";

/// What differs between control planes.
#[derive(Clone, Debug, Default)]
pub struct Options {
    /// Whether to write an audit log, which [`ControlPlane::audit_events`] reads.
    pub audit: bool,
    /// Whether to start no controllers: then nothing is garbage collected, and a deleted namespace
    /// stays.
    pub no_controllers: bool,
    /// Controllers to run in addition to the default ones, such as `deployment-controller`.
    pub controllers: Vec<String>,
    /// `--runtime-config` of the API server, such as `api/alpha=true`.
    pub runtime_config: Vec<String>,
    /// `--feature-gates` of the API server and the controllers, such as
    /// `MutatingAdmissionPolicy=true`.
    pub feature_gates: Vec<String>,
    /// The ports to try first: of etcd for clients, of etcd for peers, and of the API server. Free
    /// ports are chosen if one of them is taken.
    pub ports: Option<[u16; 3]>,
    /// Additional flags of the API server.
    pub api_server_flags: Vec<String>,
}

/// A running control plane on loopback. Dropping it stops its processes and removes its folder.
pub struct ControlPlane {
    // Fields are dropped in this order: dependent processes first, the folder last.
    controller_manager: Option<Process>,
    api_server: Option<Process>,
    etcd: Option<Process>,
    launch: Launch,
    pub(super) binaries: Binaries,
    pub(super) authority: Authority,
    pub(super) url: String,
    pub(super) kubeconfigs: Mutex<BTreeMap<String, PathBuf>>,
    pub(super) folder: Folder,
}

impl ControlPlane {
    /// Starts a control plane and waits until it is ready. This takes about three seconds once the
    /// binaries exist.
    ///
    /// # Errors
    /// The binaries are missing and cannot be built, or a server does not start; the error contains
    /// the end of its log.
    pub async fn start(options: Options) -> Result<Self> {
        let (binaries, folder) = tokio::task::spawn_blocking(|| {
            let runs = Places::from_environment().target.join("kube/run");
            Ok::<_, anyhow::Error>((Binaries::locate()?, Folder::create(&runs)?))
        })
        .await
        .context("locating the binaries")??;
        let plan = Plan::write(&options, binaries, folder)?;
        let mut ports = options.ports.map_or_else(free_ports, Ok)?;
        let mut attempt = 1;
        let (launch, etcd, api_server) = loop {
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
            api_server: Some(api_server),
            etcd: Some(etcd),
            url: launch.url.clone(),
            launch,
            binaries,
            authority,
            kubeconfigs,
            folder,
        };
        if !options.no_controllers {
            plane.start_controllers(&controller_arguments).await?;
        }
        Ok(plane)
    }

    /// The control plane that all tests of a process share. The first call starts it, and it stops
    /// with the process.
    ///
    /// # Errors
    /// As [`ControlPlane::start`].
    pub async fn shared() -> Result<&'static Self> {
        static SHARED: OnceCell<ControlPlane> = OnceCell::const_new();
        SHARED.get_or_try_init(|| Self::start(Options::default())).await
    }

    /// The address of the API server, such as `https://127.0.0.1:34567`.
    pub fn url(&self) -> &str {
        &self.url
    }

    /// The folder with data, logs and kubeconfig files. Tests can put files there.
    pub fn folder(&self) -> &Path {
        self.folder.path()
    }

    /// The binaries of the servers, and kubectl.
    pub fn binaries(&self) -> &Binaries {
        &self.binaries
    }

    /// The process ids of the API server, of etcd, and of the controller manager if it runs.
    pub fn processes(&self) -> Vec<u32> {
        let servers = [&self.api_server, &self.etcd, &self.controller_manager].map(Option::as_ref);
        servers.into_iter().flatten().map(Process::id).collect()
    }

    /// The value of a key in etcd, such as `/registry/example.com/foos/default/name`. A custom
    /// resource is JSON in the version that the API server stores.
    ///
    /// # Errors
    /// etcd does not answer, or has no such key.
    pub async fn stored(&self, key: &str) -> Result<Vec<u8>> {
        let body = json!({"key": ByteString(key.as_bytes().to_vec())}).to_string();
        let length = body.len();
        let request = format!(
            "POST /v3/kv/range HTTP/1.0\r\nHost: 127.0.0.1\r\nContent-Type: application/json\r\n\
             Content-Length: {length}\r\n\r\n{body}"
        );
        let answer = ask_etcd(self.launch.clients, &request).await?;
        let (_, body) = answer.split_once("\r\n\r\n").unwrap_or_default();
        let found: Value = serde_json::from_str(body).with_context(|| format!("etcd answers {answer:?}"))?;
        let value = found
            .pointer("/kvs/0/value")
            .with_context(|| format!("etcd has no key {key}"))?;
        let ByteString(bytes) = serde_json::from_value(value.clone()).context("decoding the value of etcd")?;
        Ok(bytes)
    }

    /// Copies the data of etcd into a new folder of this name, for [`ControlPlane::restore`]. The
    /// servers are stopped during the copy.
    ///
    /// # Errors
    /// A file cannot be copied, or a server does not start again.
    pub async fn back_up(&mut self, name: &str) -> Result<PathBuf> {
        let backup = self.folder().join(name);
        self.stop_servers();
        copy(&self.launch.data, &backup)?;
        self.start_servers().await?;
        Ok(backup)
    }

    /// Replaces the data of etcd by a backup, as a restore after a disaster does. Clients of the
    /// API server keep running.
    ///
    /// # Errors
    /// A file cannot be copied, or a server does not start again.
    pub async fn restore(&mut self, backup: &Path) -> Result<()> {
        self.stop_servers();
        let data = &self.launch.data;
        fs::remove_dir_all(data).with_context(|| format!("removing {}", data.display()))?;
        copy(backup, data)?;
        self.start_servers().await
    }

    /// Kills the API server and etcd.
    fn stop_servers(&mut self) {
        self.api_server = None;
        self.etcd = None;
    }

    async fn start_servers(&mut self) -> Result<()> {
        let (folder, authority) = (self.folder.path(), &self.authority);
        let etcd = self.etcd.insert(self.launch.etcd(&self.binaries, folder).await?);
        let api_server = self.launch.api_server(&self.binaries, folder, authority).await?;
        self.api_server = Some(api_server);
        etcd.still_runs()
    }

    /// Starts a server beside the control plane, such as Capstan. Its log is `<name>.log` in the
    /// folder. The server stops when it is dropped, and when this process ends.
    ///
    /// # Errors
    /// The server cannot be started, exits, or does not answer at `ready_url` in time.
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
        // Only a controller creates this object.
        process
            .wait_for("the controllers to work", READY, async || {
                get(&client, "/api/v1/namespaces/default/serviceaccounts/default").await
            })
            .await?;
        self.controller_manager = Some(process);
        Ok(())
    }
}

/// What every attempt shares: the written files, and the flags that name them.
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
            // The default reconciler refuses a loopback address as an endpoint and stops the
            // server.
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
            // Nothing connects to its port, so it needs none.
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
            api_server_arguments.push(flag("audit-log-path", folder.path().join(AUDIT_LOG)));
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

    /// Starts etcd and the API server on these ports: of etcd for clients, of etcd for peers, and
    /// of the API server.
    async fn attempt(&self, number: usize, ports: [u16; 3]) -> Result<(Launch, Process, Process)> {
        let folder = self.folder.path();
        let launch = Launch::new(folder.join(format!("etcd-{number}")), &self.api_server_arguments, ports);
        let mut etcd = launch.etcd(&self.binaries, folder).await?;
        let api_server = launch.api_server(&self.binaries, folder, &self.authority).await?;
        // If another etcd had answered on a port that this etcd could not bind, this etcd would
        // have exited.
        etcd.still_runs()?;
        Ok((launch, etcd, api_server))
    }
}

/// How etcd and the API server are started, also after a restore.
struct Launch {
    /// The folder with the data of etcd.
    data: PathBuf,
    /// The port of etcd for clients.
    clients: u16,
    etcd_arguments: Vec<String>,
    api_server_arguments: Vec<String>,
    url: String,
}

impl Launch {
    fn new(data: PathBuf, api_server_arguments: &[String], [clients, peers, secure]: [u16; 3]) -> Self {
        let store = format!("http://127.0.0.1:{clients}");
        let peer = format!("http://127.0.0.1:{peers}");
        let etcd_arguments = [
            format!("--data-dir={}", data.display()),
            "--unsafe-no-fsync".to_owned(),
            "--log-level=warn".to_owned(),
            format!("--listen-client-urls={store}"),
            format!("--advertise-client-urls={store}"),
            format!("--listen-peer-urls={peer}"),
            format!("--initial-advertise-peer-urls={peer}"),
            format!("--initial-cluster=default={peer}"),
        ];
        let mut api_server_arguments = api_server_arguments.to_vec();
        api_server_arguments.push(format!("--etcd-servers={store}"));
        api_server_arguments.push(format!("--secure-port={secure}"));
        Self {
            data,
            clients,
            etcd_arguments: etcd_arguments.to_vec(),
            api_server_arguments,
            url: format!("https://127.0.0.1:{secure}"),
        }
    }

    async fn etcd(&self, binaries: &Binaries, folder: &Path) -> Result<Process> {
        let mut command = Command::new(&binaries.etcd);
        command.args(&self.etcd_arguments);
        let mut etcd = Process::spawn("etcd", command, &folder.join("etcd.log"))?;
        let clients = self.clients;
        etcd.wait_for("etcd to be healthy", READY, async || etcd_is_healthy(clients).await)
            .await?;
        Ok(etcd)
    }

    async fn api_server(&self, binaries: &Binaries, folder: &Path, authority: &Authority) -> Result<Process> {
        let mut command = Command::new(&binaries.kube_apiserver);
        command.args(&self.api_server_arguments);
        if std::env::var_os("GOGC").is_none() {
            command.env("GOGC", HEAP_GROWTH);
        }
        let mut api_server = Process::spawn("kube-apiserver", command, &folder.join("kube-apiserver.log"))?;
        let client = kubeconfig::client(&with_certificate(&self.url, authority, ADMIN, &[MASTERS])?).await?;
        api_server
            .wait_for("kube-apiserver to be ready", READY, async || {
                get(&client, "/readyz").await
            })
            .await?;
        Ok(api_server)
    }
}

/// Copies a folder with its files and subfolders.
fn copy(from: &Path, to: &Path) -> Result<()> {
    let step = || format!("copying {} to {}", from.display(), to.display());
    fs::create_dir_all(to).with_context(step)?;
    for entry in fs::read_dir(from).with_context(step)? {
        let entry = entry.with_context(step)?;
        let target = to.join(entry.file_name());
        if entry.path().is_dir() {
            copy(&entry.path(), &target)?;
        } else {
            fs::copy(entry.path(), &target).with_context(step)?;
        }
    }
    Ok(())
}

/// Asks etcd for its health over plain HTTP, which etcd serves beside gRPC.
async fn etcd_is_healthy(port: u16) -> Result<()> {
    let answer = ask_etcd(port, "GET /health HTTP/1.0\r\nHost: 127.0.0.1\r\n\r\n").await?;
    if !answer.contains(r#""health":"true""#) {
        return Err(anyhow!("etcd answers {answer:?}"));
    }
    Ok(())
}

/// Sends a request to etcd over plain HTTP, and returns the answer with its headers.
async fn ask_etcd(port: u16, request: &str) -> Result<String> {
    let mut stream = TcpStream::connect(("127.0.0.1", port))
        .await
        .context("connecting to etcd")?;
    stream
        .write_all(request.as_bytes())
        .await
        .context("sending a request to etcd")?;
    let mut answer = String::new();
    stream
        .read_to_string(&mut answer)
        .await
        .context("reading the answer of etcd")?;
    Ok(answer)
}
