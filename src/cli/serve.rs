//! `capstan serve`: assembles server, certificates, reviewer and controllers, and manages the
//! process from start to shutdown.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::Arc;
use std::time::Duration;

use anyhow::Context;
use capstan_core::admission::{self, Admission, Feature, LiveObjects, LiveReads, Options, Snapshot, Source};
use capstan_core::api::kinds::Reader;
use capstan_core::authority::platforms;
use futures::future::BoxFuture;
use jiff::SignedDuration;
use prometheus_client::registry::Registry;
use tokio::signal::unix::{SignalKind, signal};

use super::check;
use super::cluster::{Cluster, Enforcement, Scope};
use super::machine_pool::Machinepools;
use crate::controllers::{Caches, LiveReader};
use crate::runtime::{Caches as RuntimeCaches, Credentials, Election, Watches};
use crate::server::{
    Judge, Lifecycle, Limits, MetricsPort, Reviewer, Server, Settings, SnapshotSource, descriptors, logs,
};
use crate::tls::clients::Clients;
use crate::tls::files::{self, Files, Follower};
use crate::tls::issue::Names;
use crate::tls::self_managed::{self, SelfManaged};
use crate::tls::{Certificates, CipherSuite, MinVersion, Policy, development, rotation};

mod controllers;
mod infrastructure_versions;
mod metrics_clients;

use controllers::{EtcdMembers, EtcdWay, FeatureCaches, RegisteredMetrics, identity, lease_duration, lease_name};
use infrastructure_versions::InfrastructureVersions;

/// Run the admission webhook server and, with --controllers, the controllers.
///
/// The server needs a certificate from one of three sources: files that another
/// program writes (--tls-cert, --tls-key), a Secret that Capstan manages
/// (--self-managed-secret), or a certificate for this machine (--dev-certificate).
#[derive(Debug, clap::Args)]
#[command(override_usage = "capstan serve [OPTIONS] --tls-cert <FILE> --tls-key <FILE>
       capstan serve [OPTIONS] --self-managed-secret <NAMESPACE/NAME>
           --dns-name <NAME>
       capstan serve [OPTIONS] --dev-certificate <DIR>")]
#[command(group(clap::ArgGroup::new("certificate").required(true).multiple(false)
    .args(["tls_cert", "self_managed_secret", "dev_certificate"])))]
#[command(group(clap::ArgGroup::new("any_controllers").args(["controllers", "mirroring_controllers", "control_plane_controllers",
        "kubeadm_control_plane_controllers", "machine_pool_controllers"])))]
pub struct Args {
    /// Address of the webhooks (HTTPS).
    #[arg(long, default_value = "0.0.0.0:9443", value_name = "ADDRESS")]
    listen: SocketAddr,
    /// Address of /livez, /readyz and /metrics (plain HTTP).
    #[arg(long, default_value = "0.0.0.0:8081", value_name = "ADDRESS")]
    health_addr: SocketAddr,
    /// Address of /metrics over HTTPS, in place of that of --health-addr. A client needs
    /// a token whose user may get the URL /metrics.
    #[arg(long, value_name = "ADDRESS", conflicts_with = "snapshot")]
    metrics_addr: Option<SocketAddr>,

    /// Certificate chain, PEM. It is reloaded when its content changes.
    #[arg(long, value_name = "FILE", requires = "tls_key", help_heading = "Certificate")]
    tls_cert: Option<PathBuf>,
    /// Private key, PEM.
    #[arg(long, value_name = "FILE", requires = "tls_cert", help_heading = "Certificate")]
    tls_key: Option<PathBuf>,
    /// Secret in which Capstan keeps its CA and its certificate.
    #[arg(long, value_name = "NAMESPACE/NAME", value_parser = namespaced, requires = "dns_name",
        help_heading = "Certificate")]
    self_managed_secret: Option<(String, String)>,
    /// Webhook configuration whose caBundle Capstan writes; may be repeated. The default
    /// is capstan, with --mirroring also capstan-mirroring, with
    /// --kubeadm-control-plane also capstan-kubeadm-control-plane, with --control-plane
    /// also capstan-control-plane, and with --machine-pools also capstan-machine-pools.
    #[arg(
        long,
        value_name = "NAME",
        requires = "self_managed_secret",
        help_heading = "Certificate"
    )]
    webhook_configuration: Vec<String>,
    /// DNS name or IP address of the server, for example
    /// capstan-webhook.openshift-machine-api.svc; may be repeated.
    #[arg(long, value_name = "NAME", conflicts_with = "tls_cert", help_heading = "Certificate")]
    dns_name: Vec<String>,
    /// Issue a certificate for localhost and write its CA to DIR/ca.crt; "memory" writes
    /// nothing.
    #[arg(long, value_name = "DIR", help_heading = "Certificate")]
    dev_certificate: Option<PathBuf>,
    /// Oldest TLS version to accept.
    #[arg(
        long,
        value_enum,
        default_value = "1.2",
        value_name = "VERSION",
        help_heading = "Certificate"
    )]
    tls_min_version: MinVersion,
    /// Cipher suite to accept, by its name at IANA or in OpenSSL; may be repeated. The
    /// default is all suites that Capstan supports.
    #[arg(long, value_name = "NAME", value_delimiter = ',', value_parser = CipherSuite::named,
        help_heading = "Certificate")]
    tls_cipher_suite: Vec<CipherSuite>,
    /// CAs of client certificates, PEM. Clients without a certificate of one of them are
    /// refused. The file is read at the start.
    #[arg(long, value_name = "FILE", help_heading = "Certificate")]
    client_ca: Option<PathBuf>,
    /// Name that the certificate of a client must contain, as its common name or a
    /// subject alternative name; may be repeated. The default is any name.
    #[arg(long, value_name = "NAME", requires = "client_ca", help_heading = "Certificate")]
    client_name: Vec<String>,

    /// Time limit of a review; must be shorter than the webhook's timeoutSeconds.
    #[arg(long, default_value = "4s", value_parser = deadline, value_name = "TIME", help_heading = "Limits")]
    deadline: Duration,
    /// Limit of concurrent connections.
    #[arg(long, default_value_t = Limits::default().connections, value_parser = at_least_one, value_name = "NUMBER",
        help_heading = "Limits")]
    max_connections: usize,
    /// Limit of concurrent reviews; the server refuses more with 429.
    #[arg(long, default_value_t = Limits::default().reviews, value_parser = at_least_one, value_name = "NUMBER",
        help_heading = "Limits")]
    max_reviews: usize,
    /// How long the server accepts connections after SIGTERM, while not ready.
    #[arg(long, default_value = "10s", value_parser = duration, value_name = "TIME", help_heading = "Limits")]
    shutdown_delay: Duration,
    /// How long active requests may take after that.
    #[arg(long, default_value = "10s", value_parser = duration, value_name = "TIME", help_heading = "Limits")]
    drain_timeout: Duration,

    #[command(flatten)]
    cluster: Cluster,
    #[command(flatten)]
    scope: Scope,

    /// Also guard objects that exist in the Machine API and in Cluster API: serve the
    /// webhooks of the feature `mirroring`, and watch what their rules look up.
    #[arg(long, conflicts_with = "controllers_only", help_heading = "Cluster")]
    mirroring: bool,
    /// Also check and convert KubeadmControlPlanes, in place of the webhooks of Cluster
    /// API: serve the webhooks of the feature `kubeadm-control-plane`.
    #[arg(long, conflicts_with = "controllers_only", help_heading = "Cluster")]
    kubeadm_control_plane: bool,
    /// Also check ControlPlanes: serve the webhooks of the feature `control-plane`.
    #[arg(long, conflicts_with = "controllers_only", help_heading = "Cluster")]
    control_plane: bool,
    /// Also check MachinePools of Cluster API: serve the webhooks of the feature
    /// `machine-pools`.
    #[arg(long, conflicts_with = "controllers_only", help_heading = "Cluster")]
    machine_pools: bool,

    /// What happens to a request that breaks a rule.
    #[arg(
        long,
        value_enum,
        default_value = "deny",
        value_name = "ACTION",
        help_heading = "Cluster"
    )]
    enforcement: Enforcement,

    /// Also run the controllers, which manage machines.
    #[arg(long, help_heading = "Controllers")]
    controllers: bool,
    /// Also run the controllers that mirror and migrate the Machines of both APIs, in a
    /// process without --controllers.
    #[arg(long, help_heading = "Controllers")]
    mirroring_controllers: bool,
    /// With --mirroring-controllers: mirror only on these platforms, such as AWS. The default
    /// is all platforms.
    #[arg(long, value_name = "PLATFORM", value_delimiter = ',', value_parser = platforms::named,
        requires = "mirroring_controllers", conflicts_with_all = ["controllers", "control_plane_controllers",
        "kubeadm_control_plane_controllers", "machine_pool_controllers"], help_heading = "Controllers")]
    mirrored_platforms: Vec<&'static str>,
    /// Also run the controller that creates, replaces and deletes the machines of a
    /// ControlPlane, in a process without other controllers.
    #[arg(long, conflicts_with_all = ["controllers", "mirroring_controllers"], help_heading = "Controllers")]
    control_plane_controllers: bool,
    /// Also run the controller of KubeadmControlPlanes, in the place of the one of Cluster
    /// API, in a process without other controllers. It is incomplete.
    #[arg(long, conflicts_with_all = ["controllers", "mirroring_controllers", "control_plane_controllers"],
        help_heading = "Controllers")]
    kubeadm_control_plane_controllers: bool,
    /// Also run the controller of the Machines of MachinePools, in a process without other
    /// controllers.
    #[arg(long, conflicts_with_all = ["controllers", "mirroring_controllers", "control_plane_controllers",
        "kubeadm_control_plane_controllers"], help_heading = "Controllers")]
    machine_pool_controllers: bool,
    // clap does not check `requires` if a given flag conflicts with the required one.
    /// What --machine-pool-controllers manages.
    #[arg(
        long,
        value_enum,
        default_value = "extend",
        requires = "machine_pool_controllers",
        conflicts_with_all = ["controllers", "mirroring_controllers", "control_plane_controllers",
            "kubeadm_control_plane_controllers"],
        value_name = "MODE",
        help_heading = "Controllers"
    )]
    machinepools: Machinepools,
    /// The component that manages etcd members, with --control-plane-controllers: the etcd
    /// operator, or Capstan, which removes the member of a deleted machine before the
    /// machine goes.
    #[arg(
        long,
        value_enum,
        default_value = "operator",
        requires = "control_plane_controllers",
        conflicts_with_all = ["controllers", "mirroring_controllers", "kubeadm_control_plane_controllers",
            "machine_pool_controllers"],
        value_name = "COMPONENT",
        help_heading = "Controllers"
    )]
    etcd_members: EtcdMembers,
    /// Folder with ca.crt, tls.crt and tls.key of an etcd client, for
    /// --etcd-members=capstan.
    #[arg(
        long,
        required_if_eq("etcd_members", "capstan"),
        requires = "etcd_members",
        value_name = "DIR",
        help_heading = "Controllers"
    )]
    etcd_certificates: Option<PathBuf>,
    /// How --kubeadm-control-plane-controllers reaches etcd members, and API servers whose
    /// certificates it reads: at their addresses, or through the API server of their
    /// cluster, which forwards the connection to their pods.
    #[arg(
        long,
        value_enum,
        default_value = "direct",
        requires = "kubeadm_control_plane_controllers",
        conflicts_with_all = ["controllers", "mirroring_controllers", "control_plane_controllers",
            "machine_pool_controllers"],
        value_name = "ROUTE",
        help_heading = "Controllers"
    )]
    etcd_route: EtcdWay,
    /// Do not watch objects that only the webhooks need; for a process whose webhooks
    /// are not registered.
    #[arg(long, requires = "any_controllers", help_heading = "Controllers")]
    controllers_only: bool,
    /// How long the node of a replacement must be ready before the old machine is
    /// deleted.
    #[arg(long, default_value = "10s", value_parser = duration, value_name = "TIME", help_heading = "Controllers")]
    min_ready: Duration,
    /// Lease in --namespace for leader election.
    #[arg(long, default_value = "capstan", value_parser = lease_name, value_name = "NAME",
        help_heading = "Controllers")]
    lease: String,
    /// The same for --mirroring-controllers.
    #[arg(long, default_value = crate::controllers::mirroring::LEASE, value_parser = lease_name, value_name = "NAME",
        help_heading = "Controllers")]
    mirroring_lease: String,
    /// The same for --control-plane-controllers.
    #[arg(long, default_value = crate::controllers::control_plane::LEASE, value_parser = lease_name, value_name = "NAME",
        help_heading = "Controllers")]
    control_plane_lease: String,
    /// The same for --kubeadm-control-plane-controllers.
    #[arg(long, default_value = crate::controllers::kubeadm_control_plane::LEASE, value_parser = lease_name,
        value_name = "NAME", help_heading = "Controllers")]
    kubeadm_control_plane_lease: String,
    /// The same for --machine-pool-controllers.
    #[arg(long, default_value = crate::controllers::machine_pool::LEASE, value_parser = lease_name, value_name = "NAME",
        help_heading = "Controllers")]
    machine_pool_lease: String,
    /// Share the objects of --kubeadm-control-plane-controllers with other processes: work on
    /// those that the sharder of this ControllerRing assigns to --identity, with a Lease of
    /// that name.
    #[arg(
        long,
        requires = "kubeadm_control_plane_controllers",
        conflicts_with_all = ["controllers", "mirroring_controllers", "control_plane_controllers",
            "machine_pool_controllers"],
        value_name = "RING",
        help_heading = "Controllers"
    )]
    shard_ring: Option<String>,
    /// How long a Lease is valid without renewal.
    #[arg(long, default_value = "30s", value_parser = lease_duration, value_name = "TIME",
        help_heading = "Controllers")]
    lease_duration: Duration,
    /// Name of this process in the Lease, in requests and in events; it must be unique
    /// among running processes. The default is the host name and the process id.
    #[arg(long, env = "POD_NAME", value_parser = identity, value_name = "NAME", help_heading = "Controllers")]
    identity: Option<String>,

    /// Format of the log.
    #[arg(long, value_enum, default_value = "text", help_heading = "Logs")]
    log_format: logs::Format,
    /// Log filter, such as "info" or "info,capstan::review=off".
    #[arg(
        long,
        env = "CAPSTAN_LOG",
        default_value = "info",
        value_name = "FILTER",
        help_heading = "Logs"
    )]
    log: String,

    /// Export traces to this collector, by OTLP over gRPC without TLS.
    #[cfg(feature = "opentelemetry")]
    #[arg(long, env = "OTEL_EXPORTER_OTLP_ENDPOINT", value_name = "URL", help_heading = "Logs")]
    otlp_endpoint: Option<String>,

    /// Allow everything without reading objects: the baseline of the benchmark. A program that is
    /// installed is built without the feature, and does not know the flag.
    #[cfg(feature = "bench")]
    #[arg(long, hide = true, conflicts_with = "snapshot")]
    null_reviewer: bool,
    /// Use the objects of these files instead of a cluster: for the benchmark and for tests.
    #[arg(long, hide = true, value_name = "FILE|DIR")]
    snapshot: Vec<PathBuf>,
}

/// The CRDs with a conversion webhook.
pub(super) const KUBEADM_DEFINITIONS: [&str; 2] = [
    "kubeadmcontrolplanes.controlplane.cluster.x-k8s.io",
    "kubeadmcontrolplanetemplates.controlplane.cluster.x-k8s.io",
];

fn namespaced(text: &str) -> Result<(String, String), String> {
    match text.split_once('/') {
        Some((namespace, name)) if !namespace.is_empty() && !name.is_empty() && !name.contains('/') => {
            Ok((namespace.to_owned(), name.to_owned()))
        }
        _ => Err("must be NAMESPACE/NAME".to_owned()),
    }
}

/// Parses a duration. It may be negative.
pub(super) fn signed_duration(text: &str) -> Result<SignedDuration, &'static str> {
    text.parse().map_err(|_| "must be a duration such as 500ms, 4s or 1m")
}

pub(super) fn duration(text: &str) -> Result<Duration, String> {
    let span = signed_duration(text)?;
    Duration::try_from(span).map_err(|_| "must not be negative".to_owned())
}

/// Parses a moment of the command line.
pub(super) fn moment(text: &str) -> Result<jiff::Timestamp, String> {
    let advice = "must be a time in RFC 3339, such as 2026-01-31T12:00:00Z";
    text.parse().map_err(|_| advice.to_owned())
}

/// Parses the time limit of a review. The API server waits for a webhook for at most 30 seconds.
fn deadline(text: &str) -> Result<Duration, String> {
    const LONGEST: Duration = Duration::from_secs(30);
    match duration(text)? {
        time if time.is_zero() => Err("must be longer than 0s, or no review is answered".to_owned()),
        time if time >= LONGEST => {
            Err("must be shorter than the timeoutSeconds of the webhook, which is at most 30s".to_owned())
        }
        time => Ok(time),
    }
}

/// Parses a limit. With 0, the server would be ready and refuse everything.
fn at_least_one(text: &str) -> Result<usize, String> {
    match text.parse() {
        Ok(0) => Err("must be at least 1; with 0, the server answers no review".to_owned()),
        Ok(number) => Ok(number),
        Err(error) => Err(error.to_string()),
    }
}

/// Serves until a signal stops the process.
///
/// # Errors
///
/// The server cannot start, or a second signal interrupted the shutdown.
pub fn run(args: &Args) -> anyhow::Result<ExitCode> {
    // Reviews take microseconds. On a large machine, more threads would only use memory.
    let threads = std::thread::available_parallelism()
        .map_or(2, std::num::NonZero::get)
        .min(4);
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(threads)
        .enable_all()
        .build()?;
    let recording = {
        // The runtime keeps the connection of the traces.
        let _context = runtime.enter();
        Recording::start(args).context("starting the logs")?
    };
    let outcome = runtime.block_on(serve(args));
    let logs = recording.end_traces();
    // Tasks that were interrupted must not delay the end of the process.
    runtime.shutdown_background();
    drop(logs);
    outcome
}

/// The logs, and the traces of a program with this feature.
struct Recording {
    logs: logs::Logs,
    #[cfg(feature = "opentelemetry")]
    traces: Option<crate::server::traces::Traces>,
}

impl Recording {
    #[cfg(not(feature = "opentelemetry"))]
    fn start(args: &Args) -> anyhow::Result<Self> {
        let logs = logs::start(args.log_format, &args.log)?;
        Ok(Self { logs })
    }

    #[cfg(feature = "opentelemetry")]
    fn start(args: &Args) -> anyhow::Result<Self> {
        let Some(endpoint) = &args.otlp_endpoint else {
            let logs = logs::start(args.log_format, &args.log)?;
            return Ok(Self { logs, traces: None });
        };
        let (logs, traces) = logs::start_with_traces(args.log_format, &args.log, endpoint)?;
        Ok(Self {
            logs,
            traces: Some(traces),
        })
    }

    /// Exports the last spans, while the runtime still runs.
    fn end_traces(self) -> logs::Logs {
        #[cfg(feature = "opentelemetry")]
        drop(self.traces);
        self.logs
    }
}

async fn serve(args: &Args) -> anyhow::Result<ExitCode> {
    let (mut terminate, mut interrupt) = (signal(SignalKind::terminate())?, signal(SignalKind::interrupt())?);
    controllers::check_etcd_certificates(args.etcd_certificates.as_deref())?;
    let certificates = Certificates::new();
    let lifecycle = Lifecycle::new();
    let settings = Settings {
        listen: args.listen,
        health: args.health_addr,
        metrics: metrics_port(args).await?,
        tls: tls_policy(args)?,
        limits: Limits {
            deadline: args.deadline,
            connections: descriptors::connections_within_limit(args.max_connections),
            reviews: args.max_reviews,
            ..Limits::default()
        },
        shutdown_delay: args.shutdown_delay,
        drain_timeout: args.drain_timeout,
    };
    let mut registry = Registry::default();
    let metrics = RegisteredMetrics::register(args, &mut registry);
    let watches = Watches::register(&mut registry);
    let credentials = Credentials::register(&mut registry);
    let (reviewer, cluster) = reviewer(args, &watches, &credentials).await?;
    let server = Server::bind(settings, certificates.clone(), reviewer, registry, lifecycle.clone())
        .await
        .context("binding the sockets")?;
    provide_certificate(args, certificates).await?;
    tracing::info!(webhooks = %server.address()?, health = %server.health_address(), "serving");
    let controllers = match &cluster {
        Some(connected) => controllers::start(args, connected, metrics)?,
        None => Vec::new(),
    };

    let mut running = Box::pin(server.run());
    tokio::select! {
        _ = terminate.recv() => {}
        _ = interrupt.recv() => {}
        // The server ends only after a shutdown was requested.
        _ = &mut running => return Ok(ExitCode::SUCCESS),
    }
    lifecycle.shut_down();
    let ending = async {
        // Both stop at the same time: writes of the controllers are reviewed by the webhooks of
        // this process or of another one.
        tokio::join!(running, controllers::stop(controllers)).0
    };
    tokio::select! {
        cut = ending => {
            if cut > 0 {
                tracing::warn!(connections = cut, "shut down; closed connections that exceeded the drain timeout");
            } else {
                tracing::info!("shut down");
            }
            Ok(ExitCode::SUCCESS)
        }
        _ = terminate.recv() => anyhow::bail!("a second signal interrupted the shutdown"),
        _ = interrupt.recv() => anyhow::bail!("a second signal interrupted the shutdown"),
    }
}

/// The port of the metrics over TLS, if there is one.
async fn metrics_port(args: &Args) -> anyhow::Result<Option<MetricsPort>> {
    let Some(address) = args.metrics_addr else {
        return Ok(None);
    };
    let client = args.cluster.client().await?;
    let clients = Arc::new(metrics_clients::TokenReviews::new(client));
    Ok(Some(MetricsPort { address, clients }))
}

/// What the server accepts in a handshake.
fn tls_policy(args: &Args) -> anyhow::Result<Policy> {
    let clients = match &args.client_ca {
        Some(path) => {
            let pem = std::fs::read(path).with_context(|| format!("reading --client-ca {}", path.display()))?;
            let clients = Clients::new(&pem, args.client_name.clone());
            Some(clients.with_context(|| format!("--client-ca {}", path.display()))?)
        }
        None => None,
    };
    let policy = Policy {
        min_version: args.tls_min_version,
        cipher_suites: args.tls_cipher_suite.clone(),
        clients,
    };
    anyhow::ensure!(
        policy.has_suite(),
        "no --tls-cipher-suite is one of TLS 1.3, which --tls-min-version demands"
    );
    Ok(policy)
}

/// A client, and what it follows.
struct Connected {
    client: kube::Client,
    caches: Arc<Caches>,
    own: FeatureCaches,
}

/// The reviewer, with the client and the caches of its cluster.
async fn reviewer(
    args: &Args,
    watches: &Watches,
    credentials: &Credentials,
) -> anyhow::Result<(Arc<dyn Reviewer>, Option<Connected>)> {
    #[cfg(feature = "bench")]
    if args.null_reviewer {
        return Ok((
            Arc::new(crate::server::NullReviewer::new(vec!["/null".to_owned()])),
            None,
        ));
    }
    let options = Options {
        enforcement: match args.enforcement {
            Enforcement::Deny => admission::Enforcement::Deny,
            Enforcement::Warn => admission::Enforcement::Warn,
        },
        ..args.scope.options()
    };
    let admission = Admission::new(options).context("loading the rules")?;
    if !args.snapshot.is_empty() {
        let snapshot = Snapshot {
            source: Source::Cluster,
            ..check::snapshot(&args.snapshot)?
        };
        return Ok((
            Arc::new(Judge::new(
                admission,
                Arc::new(FixedSnapshot(Arc::new(snapshot))),
                &Feature::ALL,
            )),
            None,
        ));
    }
    let client = args.cluster.watched_client(watches, credentials).await?;
    let cluster_api = &args.scope.authority.cluster_api_namespace;
    let caches = Caches::start_for(&readers(args), &client, &args.scope.namespace, cluster_api);
    let own = FeatureCaches::start(args, &client)?;
    let source = CachedSnapshot {
        caches: Arc::clone(&caches),
        of_controllers: own.all(),
        // Reviews continue: a webhook that is not ready stops every edit of its objects.
        credentials: args.controllers_only.then(|| credentials.clone()),
        live: LiveReader::new(&client),
        versions: args
            .kubeadm_control_plane
            .then(|| InfrastructureVersions::follow(client.clone())),
    };
    let judge = Judge::new(admission, Arc::new(source), &served_features(args));
    let connected = Connected { client, caches, own };
    Ok((Arc::new(judge), Some(connected)))
}

/// The features whose webhooks this process serves.
fn served_features(args: &Args) -> Vec<Feature> {
    [
        (Feature::Admission, true),
        (Feature::Mirroring, args.mirroring),
        (Feature::KubeadmControlPlane, args.kubeadm_control_plane),
        (Feature::ControlPlane, args.control_plane),
        (Feature::MachinePools, args.machine_pools),
    ]
    .into_iter()
    .filter_map(|(feature, is_installed)| is_installed.then_some(feature))
    .collect()
}

/// The parts of Capstan that run in this process. It watches what they read and nothing else, so
/// that it needs no other permissions.
fn readers(args: &Args) -> Vec<Reader> {
    [
        (Reader::Admission, !args.controllers_only),
        (Reader::Controllers, args.controllers),
        (Reader::Guards, args.mirroring),
        (Reader::ControlPlanes, args.control_plane),
    ]
    .into_iter()
    .filter_map(|(reader, runs)| runs.then_some(reader))
    .collect()
}

/// The election with this Lease.
fn election(args: &Args, lease: &str) -> Election {
    let identity = args.identity.clone().unwrap_or_else(|| {
        let host = std::fs::read_to_string("/proc/sys/kernel/hostname").unwrap_or_default();
        format!("{}-{}", host.trim(), std::process::id())
    });
    Election {
        namespace: args.scope.namespace.clone(),
        name: lease.to_owned(),
        identity,
        duration: args.lease_duration,
    }
}

/// The caches as the reviewer's source of snapshots.
struct CachedSnapshot {
    caches: Arc<Caches>,
    /// The caches of the controllers that have caches of their own.
    of_controllers: Vec<Arc<RuntimeCaches>>,
    /// In a process without webhooks.
    credentials: Option<Credentials>,
    live: LiveReader,
    /// With the feature `kubeadm-control-plane`.
    versions: Option<InfrastructureVersions>,
}

impl SnapshotSource for CachedSnapshot {
    fn snapshot(&self) -> Arc<Snapshot> {
        self.caches.snapshot()
    }

    fn read(&self, reads: LiveReads) -> Option<BoxFuture<'static, LiveObjects>> {
        Some(Box::pin(self.live.clone().read(reads)))
    }

    fn infrastructure_version(&self, group: &str, kind: &str) -> Option<String> {
        self.versions.as_ref()?.of(group, kind)
    }

    fn ready(&self) -> Result<(), String> {
        if self.versions.as_ref().is_some_and(|versions| !versions.is_known()) {
            return Err("not synced: customresourcedefinitions".to_owned());
        }
        for caches in &self.of_controllers {
            caches.synced()?;
        }
        if let Some(credentials) = &self.credentials {
            credentials.accepted(jiff::Timestamp::now())?;
        }
        self.caches.synced()
    }
}

/// A snapshot that never changes.
struct FixedSnapshot(Arc<Snapshot>);

impl SnapshotSource for FixedSnapshot {
    fn snapshot(&self) -> Arc<Snapshot> {
        Arc::clone(&self.0)
    }

    fn ready(&self) -> Result<(), String> {
        Ok(())
    }
}

/// Obtains the certificate, and keeps it current in the background.
async fn provide_certificate(args: &Args, certificates: Certificates) -> anyhow::Result<()> {
    if let (Some(certificate), Some(key)) = (&args.tls_cert, &args.tls_key) {
        let files = Files {
            certificate: certificate.clone(),
            key: key.clone(),
        };
        let mut follower = Follower::new(files, certificates);
        // At the start, an invalid file is a configuration error and ends the process. A missing
        // file may be created later, for example by cert-manager.
        match follower.reload().await {
            Ok(_) => {}
            Err(files::Error::Read { path, source }) if source.kind() == std::io::ErrorKind::NotFound => {
                tracing::warn!(path = %path.display(), "the certificate file does not exist yet; not ready until it does");
            }
            Err(error) => return Err(error).context("loading the certificate"),
        }
        tokio::spawn(follower.follow(files::INTERVAL));
    } else if let Some((namespace, secret)) = args.self_managed_secret.clone() {
        let settings = self_managed::Settings {
            namespace,
            secret,
            configurations: webhook_configurations(args),
            definitions: if args.kubeadm_control_plane {
                KUBEADM_DEFINITIONS.map(str::to_owned).to_vec()
            } else {
                Vec::new()
            },
            names: Names::new(args.dns_name.iter().cloned())?,
            profile: rotation::Profile::default(),
        };
        let client = args.cluster.client().await?;
        tokio::spawn(SelfManaged::new(client, settings, certificates).run());
    } else if let Some(folder) = &args.dev_certificate {
        let folder = (folder.as_os_str() != "memory").then_some(folder.as_path());
        development::serve(&certificates, folder, &args.dns_name).context("issuing the development certificate")?;
    }
    Ok(())
}

/// The webhook configurations whose `caBundle` this process writes.
fn webhook_configurations(args: &Args) -> Vec<String> {
    if !args.webhook_configuration.is_empty() {
        return args.webhook_configuration.clone();
    }
    let served = served_features(args).into_iter();
    served.filter_map(Feature::webhook_configuration).collect()
}

#[cfg(test)]
mod tests {
    use super::{at_least_one, deadline, duration, namespaced};
    use clap::Parser as _;
    use std::time::Duration;

    #[test]
    fn w63_limits_with_which_no_review_is_answered_are_refused() {
        assert_eq!(at_least_one("1"), Ok(1));
        assert_eq!(deadline("29s"), Ok(Duration::from_secs(29)));
        assert!(at_least_one("0").is_err() && at_least_one("-1").is_err());
        for text in ["0s", "30s", "10m"] {
            assert!(deadline(text).is_err(), "{text}");
        }
    }

    /// Other controllers exclude those that a flag requires, and clap then drops the requirement.
    #[test]
    fn w100_a_flag_of_other_controllers_than_those_of_the_process_is_refused() {
        let refused = |flags: &[&str]| {
            let arguments = [&["capstan", "serve", "--dev-certificate", "a"], flags].concat();
            crate::cli::Cli::try_parse_from(arguments).is_err()
        };
        let all = [
            "--controllers",
            "--mirroring-controllers",
            "--control-plane-controllers",
            "--kubeadm-control-plane-controllers",
            "--machine-pool-controllers",
        ];
        for (of, flag) in [
            ("--mirroring-controllers", ["--mirrored-platforms", "AWS"]),
            ("--kubeadm-control-plane-controllers", ["--shard-ring", "a"]),
        ] {
            assert!(refused(&flag), "{flag:?}");
            for controllers in all {
                let flags = [&[controllers], &flag[..]].concat();
                assert_eq!(refused(&flags), controllers != of, "{flags:?}");
            }
        }
    }

    #[test]
    fn durations_have_units() {
        assert_eq!(duration("500ms"), Ok(Duration::from_millis(500)));
        assert_eq!(duration("1m30s"), Ok(Duration::from_secs(90)));
        assert_eq!(duration("0s"), Ok(Duration::ZERO));
        assert!(duration("-1s").is_err());
        assert!(duration("soon").is_err());
    }

    #[test]
    fn a_secret_is_given_with_its_namespace() {
        assert_eq!(namespaced("a/b"), Ok(("a".to_owned(), "b".to_owned())));
        assert!(["a", "a/", "/b", "a/b/c"].iter().all(|text| namespaced(text).is_err()));
    }
}
