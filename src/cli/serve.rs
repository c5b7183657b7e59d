//! `capstan serve`: puts server, certificates and reviewer together, and takes the process from start to end.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::Arc;
use std::time::Duration;

use anyhow::Context;
use capstan_core::admission::{Admission, Snapshot, Source};
use capstan_core::cpms::observed::Settings as PlanSettings;
use jiff::SignedDuration;
use prometheus_client::registry::Registry;
use tokio::signal::unix::{SignalKind, signal};

use super::check;
use super::cluster::{Cluster, Scope};
use crate::controllers::{Caches, Configuration, Controllers, Election, Metrics};
use crate::server::{Judge, Lifecycle, Limits, NullReviewer, Reviewer, Server, Settings, Surroundings, logs};
use crate::tls::files::{self, Files, Follower};
use crate::tls::issue::Names;
use crate::tls::self_managed::{self, SelfManaged};
use crate::tls::{Certificates, MinVersion, development, rotation};

/// Run the admission webhook server.
///
/// It needs a certificate, in one of three ways: files that something else writes (--tls-cert, --tls-key), a Secret that
/// capstan manages itself (--self-managed-secret), or one for this machine alone (--dev-certificate).
#[derive(Debug, clap::Args)]
#[command(group(clap::ArgGroup::new("certificate").required(true).multiple(false)
    .args(["tls_cert", "self_managed_secret", "dev_certificate"])))]
pub struct Args {
    /// Address of the webhooks (HTTPS).
    #[arg(long, default_value = "0.0.0.0:9443", value_name = "ADDRESS")]
    listen: SocketAddr,
    /// Address of /livez, /readyz and /metrics (plain HTTP).
    #[arg(long, default_value = "0.0.0.0:8081", value_name = "ADDRESS")]
    health_addr: SocketAddr,

    /// Certificate and chain, PEM. Reloaded when its content changes.
    #[arg(long, value_name = "FILE", requires = "tls_key", help_heading = "Certificate")]
    tls_cert: Option<PathBuf>,
    /// Private key, PEM.
    #[arg(long, value_name = "FILE", requires = "tls_cert", help_heading = "Certificate")]
    tls_key: Option<PathBuf>,
    /// Secret that capstan keeps authority and certificate in.
    #[arg(long, value_name = "NAMESPACE/NAME", value_parser = namespaced, requires = "dns_name",
        help_heading = "Certificate")]
    self_managed_secret: Option<(String, String)>,
    /// Validating or mutating webhook configuration whose caBundle is kept; may be repeated.
    #[arg(
        long,
        value_name = "NAME",
        requires = "self_managed_secret",
        help_heading = "Certificate"
    )]
    webhook_configuration: Vec<String>,
    /// Name or address that the certificate is for, such as capstan-webhook.openshift-machine-api.svc; may be repeated.
    #[arg(long, value_name = "NAME", conflicts_with = "tls_cert", help_heading = "Certificate")]
    dns_name: Vec<String>,
    /// Make a certificate for localhost and write its authority to DIR/ca.crt ("memory": write nothing).
    #[arg(long, value_name = "DIR", help_heading = "Certificate")]
    dev_certificate: Option<PathBuf>,
    /// Oldest version of TLS.
    #[arg(
        long,
        value_enum,
        default_value = "1.2",
        value_name = "VERSION",
        help_heading = "Certificate"
    )]
    tls_min_version: MinVersion,

    /// Time for one review; below the webhook's timeoutSeconds.
    #[arg(long, default_value = "4s", value_parser = duration, value_name = "TIME", help_heading = "Limits")]
    deadline: Duration,
    /// Connections at once.
    #[arg(long, default_value_t = Limits::default().connections, value_name = "NUMBER", help_heading = "Limits")]
    max_connections: usize,
    /// Reviews at once; more are answered with 429.
    #[arg(long, default_value_t = Limits::default().reviews, value_name = "NUMBER", help_heading = "Limits")]
    max_reviews: usize,
    /// Time between "not ready" and "no new connections" after SIGTERM.
    #[arg(long, default_value = "10s", value_parser = duration, value_name = "TIME", help_heading = "Limits")]
    shutdown_delay: Duration,
    /// Time for what runs to end after that.
    #[arg(long, default_value = "10s", value_parser = duration, value_name = "TIME", help_heading = "Limits")]
    drain_timeout: Duration,

    #[command(flatten)]
    cluster: Cluster,
    #[command(flatten)]
    scope: Scope,

    /// Run the controllers too, which act on the machines. Without it only edits are judged.
    #[arg(long, help_heading = "Controllers")]
    controllers: bool,
    /// Follow nothing that only the webhooks look up: for a process beside others that judge edits.
    #[arg(long, requires = "controllers", help_heading = "Controllers")]
    controllers_only: bool,
    /// How long the node of a replacement has been ready before the machine that it replaces is deleted.
    #[arg(long, default_value = "10s", value_parser = duration, value_name = "TIME", help_heading = "Controllers")]
    min_ready: Duration,
    /// Lease, in --namespace, by which one of several processes is chosen to act.
    #[arg(long, default_value = "capstan", value_name = "NAME", help_heading = "Controllers")]
    lease: String,
    /// How long a leader that does not answer keeps the others from acting.
    #[arg(long, default_value = "30s", value_parser = duration, value_name = "TIME", help_heading = "Controllers")]
    lease_duration: Duration,
    /// Name of this process in the Lease, in requests and in events, which no other may have while it runs; by default the
    /// host's name and the process id.
    #[arg(long, env = "POD_NAME", value_name = "NAME", help_heading = "Controllers")]
    identity: Option<String>,

    /// How log lines look.
    #[arg(long, value_enum, default_value = "text", help_heading = "Logs")]
    log_format: logs::Format,
    /// What is logged, such as "info" or "info,capstan::review=off".
    #[arg(
        long,
        env = "CAPSTAN_LOG",
        default_value = "info",
        value_name = "FILTER",
        help_heading = "Logs"
    )]
    log: String,

    /// Judge nothing, allow everything: the yardstick of the benchmark.
    #[arg(long, hide = true)]
    null_reviewer: bool,
    /// Look things up in these files, read once, instead of a cluster: what the benchmark holds against the yardstick.
    #[arg(long, hide = true, value_name = "FILE|DIR", conflicts_with = "null_reviewer")]
    snapshot: Vec<PathBuf>,
}

fn namespaced(text: &str) -> Result<(String, String), String> {
    match text.split_once('/') {
        Some((namespace, name)) if !namespace.is_empty() && !name.is_empty() && !name.contains('/') => {
            Ok((namespace.to_owned(), name.to_owned()))
        }
        _ => Err("expected NAMESPACE/NAME".to_owned()),
    }
}

fn duration(text: &str) -> Result<Duration, String> {
    let span: jiff::SignedDuration = text
        .parse()
        .map_err(|_| "expected a time such as 500ms, 4s or 1m".to_owned())?;
    Duration::try_from(span).map_err(|_| "expected a time that is not negative".to_owned())
}

/// Serves until a signal ends it.
///
/// # Errors
///
/// It cannot start, or a second signal cut off what ran.
pub fn run(args: &Args) -> anyhow::Result<ExitCode> {
    let logs = logs::start(args.log_format, &args.log).context("starting the logs")?;
    // Reviews take microseconds; more threads than that only cost memory on a large machine.
    let threads = std::thread::available_parallelism()
        .map_or(2, std::num::NonZero::get)
        .min(4);
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(threads)
        .enable_all()
        .build()?;
    let outcome = runtime.block_on(serve(args));
    // What was cut off must not hold up the end.
    runtime.shutdown_background();
    drop(logs);
    outcome
}

async fn serve(args: &Args) -> anyhow::Result<ExitCode> {
    let (mut terminate, mut interrupt) = (signal(SignalKind::terminate())?, signal(SignalKind::interrupt())?);
    let certificates = Certificates::new();
    let lifecycle = Lifecycle::new();
    let settings = Settings {
        listen: args.listen,
        health: args.health_addr,
        min_version: args.tls_min_version,
        limits: Limits {
            deadline: args.deadline,
            connections: args.max_connections,
            reviews: args.max_reviews,
            ..Limits::default()
        },
        shutdown_delay: args.shutdown_delay,
        drain_timeout: args.drain_timeout,
    };
    let mut registry = Registry::default();
    let metrics = args.controllers.then(|| Metrics::register(&mut registry));
    let (reviewer, cluster) = reviewer(args).await?;
    let server = Server::bind(settings, certificates.clone(), reviewer, registry, lifecycle.clone())
        .await
        .context("binding the sockets")?;
    certify(args, certificates).await?;
    tracing::info!(webhooks = %server.address()?, health = %server.health_address()?, "serving");
    let controllers = match (metrics, cluster) {
        (Some(metrics), Some((client, caches))) => Some(control(args, &client, &caches, metrics)?),
        _ => None,
    };

    let mut running = Box::pin(server.run());
    tokio::select! {
        _ = terminate.recv() => {}
        _ = interrupt.recv() => {}
        // It ends by itself only after it was asked to.
        _ = &mut running => return Ok(ExitCode::SUCCESS),
    }
    lifecycle.leave();
    let ending = async {
        // Side by side: what the controllers still write is judged by the webhooks, here or elsewhere.
        let controllers = async {
            if let Some(controllers) = controllers {
                controllers.stop().await;
            }
        };
        tokio::join!(running, controllers).0
    };
    tokio::select! {
        cut = ending => {
            if cut > 0 {
                tracing::warn!(connections = cut, "shut down; some connections did not end in time");
            } else {
                tracing::info!("shut down");
            }
            Ok(ExitCode::SUCCESS)
        }
        _ = terminate.recv() => anyhow::bail!("a second signal cut off what ran"),
        _ = interrupt.recv() => anyhow::bail!("a second signal cut off what ran"),
    }
}

/// Who judges, and the cluster that it looks at.
async fn reviewer(args: &Args) -> anyhow::Result<(Arc<dyn Reviewer>, Option<(kube::Client, Arc<Caches>)>)> {
    if args.null_reviewer {
        return Ok((Arc::new(NullReviewer::new(vec!["/null".to_owned()])), None));
    }
    let admission = Admission::new(args.scope.options()).context("reading the rules")?;
    if !args.snapshot.is_empty() {
        let snapshot = Snapshot {
            source: Source::Cluster,
            ..check::snapshot(&args.snapshot)?
        };
        return Ok((
            Arc::new(Judge::new(admission, Arc::new(Fixed(Arc::new(snapshot))))),
            None,
        ));
    }
    let client = args.cluster.client().await?;
    let cluster_api = &args.scope.authority.cluster_api_namespace;
    let caches = if args.controllers_only {
        Caches::start(&client, &args.scope.namespace)
    } else {
        Caches::start_mirrored(&client, &args.scope.namespace, cluster_api)
    };
    let judge = Judge::new(admission, Arc::new(Cached(Arc::clone(&caches))));
    Ok((Arc::new(judge), Some((client, caches))))
}

/// Who acts.
fn control(args: &Args, client: &kube::Client, caches: &Arc<Caches>, metrics: Metrics) -> anyhow::Result<Controllers> {
    let identity = args.identity.clone().unwrap_or_else(|| {
        let host = std::fs::read_to_string("/proc/sys/kernel/hostname").unwrap_or_default();
        format!("{}-{}", host.trim(), std::process::id())
    });
    let configuration = Configuration {
        options: args.scope.options(),
        settings: PlanSettings {
            min_ready: SignedDuration::try_from(args.min_ready).context("--min-ready")?,
        },
        identity: identity.clone(),
    };
    let election = Election {
        namespace: args.scope.namespace.clone(),
        name: args.lease.clone(),
        identity,
        duration: args.lease_duration,
    };
    Ok(Controllers::start(client, caches, configuration, election, metrics))
}

/// The caches, as the judge looks at them.
struct Cached(Arc<Caches>);

impl Surroundings for Cached {
    fn snapshot(&self) -> Arc<Snapshot> {
        self.0.snapshot()
    }

    fn ready(&self) -> Result<(), String> {
        self.0.synced()
    }
}

/// A cluster that never changes.
struct Fixed(Arc<Snapshot>);

impl Surroundings for Fixed {
    fn snapshot(&self) -> Arc<Snapshot> {
        Arc::clone(&self.0)
    }

    fn ready(&self) -> Result<(), String> {
        Ok(())
    }
}

/// Fills the slot, and keeps it filled in the background.
async fn certify(args: &Args, certificates: Certificates) -> anyhow::Result<()> {
    if let (Some(certificate), Some(key)) = (&args.tls_cert, &args.tls_key) {
        let files = Files {
            certificate: certificate.clone(),
            key: key.clone(),
        };
        let mut follower = Follower::new(files, certificates);
        // At the start a bad file is a mistake in the set-up, to be told at once; a missing one may come (cert-manager).
        match follower.look().await {
            Ok(_) => {}
            Err(files::Error::Read { path, source }) if source.kind() == std::io::ErrorKind::NotFound => {
                tracing::warn!(path = %path.display(), "no certificate yet; not ready until there is one");
            }
            Err(error) => return Err(error).context("loading the certificate"),
        }
        tokio::spawn(follower.follow(files::INTERVAL));
    } else if let Some((namespace, secret)) = args.self_managed_secret.clone() {
        let settings = self_managed::Settings {
            namespace,
            secret,
            configurations: args.webhook_configuration.clone(),
            names: Names::new(args.dns_name.iter().cloned())?,
            profile: rotation::Profile::default(),
        };
        let client = args.cluster.client().await?;
        tokio::spawn(SelfManaged::new(client, settings, certificates).run());
    } else if let Some(folder) = &args.dev_certificate {
        let folder = (folder.as_os_str() != "memory").then_some(folder.as_path());
        development::serve(&certificates, folder, &args.dns_name).context("making a certificate")?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::{duration, namespaced};
    use std::time::Duration;

    #[test]
    fn times_are_written_as_people_write_them() {
        assert_eq!(duration("500ms"), Ok(Duration::from_millis(500)));
        assert_eq!(duration("1m30s"), Ok(Duration::from_secs(90)));
        assert_eq!(duration("0s"), Ok(Duration::ZERO));
        assert!(duration("-1s").is_err());
        assert!(duration("soon").is_err());
    }

    #[test]
    fn a_secret_is_named_with_its_namespace() {
        assert_eq!(namespaced("a/b"), Ok(("a".to_owned(), "b".to_owned())));
        assert!(["a", "a/", "/b", "a/b/c"].iter().all(|text| namespaced(text).is_err()));
    }
}
