//! Which controllers run in this process, and with what `capstan serve` starts them.
//!
//! Every feature has caches, metrics and a Lease of its own. Nothing here decides what a controller
//! does.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use anyhow::Context as _;
use capstan_core::authority::platforms::MirroredPlatforms;
use capstan_core::cpms::observed::Settings as PlanSettings;
use capstan_core::model::is_subdomain;
use jiff::SignedDuration;
use prometheus_client::registry::Registry;

use super::{Args, Connected, duration, election};
use crate::controllers::machine_pool::MachinePoolMetrics;
use crate::controllers::mirroring::{MirroringConfiguration, MirroringMetrics};
use crate::controllers::{self, Configuration, Metrics, control_plane, kubeadm_control_plane, machine_pool, mirroring};
use crate::runtime::{Caches, Metrics as RuntimeMetrics, Running, Shard};
use crate::workload::{Connections, EtcdRoute, Settings};

/// The shortest validity of a Lease.
const SHORTEST_LEASE: Duration = Duration::from_secs(2);
/// The longest validity of a Lease.
const LONGEST_LEASE: Duration = Duration::from_hours(1);

/// The metrics of the controllers that run in this process.
pub(super) struct RegisteredMetrics {
    sets: Option<Metrics>,
    mirroring: Option<MirroringMetrics>,
    control_plane: Option<Metrics>,
    kubeadm: Option<RuntimeMetrics>,
    machine_pool: Option<MachinePoolMetrics>,
}

impl RegisteredMetrics {
    /// The metrics, listed in `registry`.
    pub(super) fn register(args: &Args, registry: &mut Registry) -> Self {
        Self {
            sets: args.controllers.then(|| Metrics::register(registry)),
            mirroring: args.mirroring_controllers.then(|| {
                let runtime = RuntimeMetrics::register(registry);
                MirroringMetrics::register(registry, runtime)
            }),
            control_plane: args.control_plane_controllers.then(|| Metrics::register(registry)),
            kubeadm: args
                .kubeadm_control_plane_controllers
                .then(|| RuntimeMetrics::register(registry)),
            machine_pool: args.machine_pool_controllers.then(|| {
                let runtime = RuntimeMetrics::register(registry);
                MachinePoolMetrics::register(registry, runtime)
            }),
        }
    }
}

/// The caches of the controllers that have caches of their own.
pub(super) struct FeatureCaches {
    mirroring: Option<Arc<Caches>>,
    control_plane: Option<Arc<Caches>>,
    kubeadm: Option<Arc<Caches>>,
    machine_pool: Option<Arc<Caches>>,
}

impl FeatureCaches {
    /// Starts to watch what these controllers read.
    ///
    /// # Errors
    /// The name of this process cannot be that of a shard.
    pub(super) fn start(args: &Args, client: &kube::Client) -> anyhow::Result<Self> {
        let shard = shard(args)?;
        let kubeadm = || match &shard {
            Some(shard) => kubeadm_control_plane::caches_of_shard(client, shard),
            None => kubeadm_control_plane::caches(client),
        };
        Ok(Self {
            mirroring: args
                .mirroring_controllers
                .then(|| mirroring::caches(client, &namespaces(args))),
            control_plane: args
                .control_plane_controllers
                .then(|| control_plane::caches(client, &args.scope.namespace)),
            kubeadm: args.kubeadm_control_plane_controllers.then(kubeadm),
            machine_pool: args.machine_pool_controllers.then(|| machine_pool::caches(client)),
        })
    }

    /// All of them.
    pub(super) fn all(&self) -> Vec<Arc<Caches>> {
        let all = [&self.mirroring, &self.control_plane, &self.kubeadm, &self.machine_pool];
        all.into_iter().flatten().cloned().collect()
    }
}

/// The name of a Lease.
pub(super) fn lease_name(text: &str) -> Result<String, String> {
    if is_subdomain(text) {
        return Ok(text.to_owned());
    }
    Err(String::from(
        "must have at most 253 characters, only lower-case letters, digits, '-', and '.', and must begin and end with a \
         letter or digit",
    ))
}

/// The name of a process. A Lease whose holder has no name is free, so that two processes without a
/// name would lead at the same time.
pub(super) fn identity(text: &str) -> Result<String, String> {
    if !text.is_empty() && text.bytes().all(|letter| letter.is_ascii_graphic()) {
        return Ok(text.to_owned());
    }
    Err(String::from(
        "must not be empty, and must contain only letters, digits, and signs of ASCII",
    ))
}

/// How long a Lease is valid. A Lease counts whole seconds, and is renewed before a third of them
/// is left.
pub(super) fn lease_duration(text: &str) -> Result<Duration, String> {
    match duration(text)? {
        time if time < SHORTEST_LEASE => Err(format!("must be at least {SHORTEST_LEASE:?}")),
        time if time > LONGEST_LEASE => Err(String::from("must be at most 1h: no replica takes over before")),
        time => Ok(time),
    }
}

/// Starts the controllers.
pub(super) fn start(args: &Args, connected: &Connected, metrics: RegisteredMetrics) -> anyhow::Result<Vec<Running>> {
    let Connected { client, caches, own } = connected;
    let mut running = Vec::new();
    if let Some(metrics) = metrics.sets {
        let election = election(args, &args.lease);
        let configuration = Configuration {
            options: args.scope.options(),
            settings: PlanSettings {
                min_ready: SignedDuration::try_from(args.min_ready).context("--min-ready")?,
            },
            identity: election.identity.clone(),
        };
        running.push(controllers::start(client, caches, configuration, election, metrics));
    }
    if let (Some(metrics), Some(caches)) = (metrics.control_plane, &own.control_plane) {
        let election = election(args, &args.control_plane_lease);
        let configuration = control_plane::Configuration {
            options: args.scope.options(),
            etcd_members: etcd_members(args),
        };
        running.push(control_plane::start(client, caches, configuration, election, metrics));
    }
    if let (Some(metrics), Some(caches)) = (metrics.kubeadm, &own.kubeadm) {
        let election = election(args, &args.kubeadm_control_plane_lease);
        let settings = Settings {
            etcd_route: etcd_route(args),
            ..kubeadm_control_plane::settings()
        };
        let managed = Connections::new(client, settings);
        running.push(match shard(args)? {
            Some(shard) => kubeadm_control_plane::start_shard(client, caches, managed, election, &shard, metrics),
            None => kubeadm_control_plane::start(client, caches, managed, election, metrics),
        });
    }
    if let (Some(metrics), Some(caches)) = (metrics.machine_pool, &own.machine_pool) {
        let election = election(args, &args.machine_pool_lease);
        let managed = Connections::new(client, machine_pool::settings());
        let mode = args.machinepools.mode();
        running.push(machine_pool::start(client, caches, managed, mode, election, metrics));
    }
    if let (Some(metrics), Some(caches)) = (metrics.mirroring, &own.mirroring) {
        let election = election(args, &args.mirroring_lease);
        running.push(mirroring::start(client, caches, &namespaces(args), election, metrics));
    }
    Ok(running)
}

/// Stops the controllers, all at the same time.
pub(super) async fn stop(running: Vec<Running>) {
    futures::future::join_all(running.into_iter().map(Running::stop)).await;
}

fn etcd_route(args: &Args) -> EtcdRoute {
    match args.etcd_route {
        EtcdWay::Direct => EtcdRoute::Advertised,
        EtcdWay::PortForward => EtcdRoute::PortForward,
    }
}

/// Checks that there is the folder of the certificates for etcd. Its files may come later.
pub(super) fn check_etcd_certificates(folder: Option<&Path>) -> anyhow::Result<()> {
    let Some(folder) = folder else { return Ok(()) };
    let step = || format!("reading --etcd-certificates {}", folder.display());
    let found = std::fs::metadata(folder).with_context(step)?;
    anyhow::ensure!(
        found.is_dir(),
        "--etcd-certificates {} must be a folder with ca.crt, tls.crt, and tls.key",
        folder.display()
    );
    Ok(())
}

/// The component that manages etcd members. The arguments demand the folder of the certificates.
fn etcd_members(args: &Args) -> control_plane::EtcdMembers {
    match (args.etcd_members, &args.etcd_certificates) {
        (EtcdMembers::Capstan, Some(certificates)) => control_plane::EtcdMembers::Capstan {
            certificates: certificates.clone(),
        },
        _ => control_plane::EtcdMembers::Operator,
    }
}

/// The shard that this process is, if the objects are shared.
fn shard(args: &Args) -> anyhow::Result<Option<Shard>> {
    let Some(ring) = &args.shard_ring else {
        return Ok(None);
    };
    let name = election(args, "").identity;
    let shard = Shard::new(ring, &name).map_err(anyhow::Error::msg);
    shard.context("--shard-ring and --identity").map(Some)
}

/// The namespaces of both APIs.
fn namespaces(args: &Args) -> MirroringConfiguration {
    MirroringConfiguration {
        machine_api_namespace: args.scope.namespace.clone(),
        cluster_api_namespace: args.scope.authority.cluster_api_namespace.clone(),
        platforms: MirroredPlatforms::only(&args.mirrored_platforms),
    }
}

/// The component that manages the members of etcd.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub(in crate::cli) enum EtcdMembers {
    /// The etcd operator
    Operator,
    /// The nodes add their members, and Capstan removes them
    Capstan,
}

/// How etcd members of managed clusters are reached.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub(in crate::cli) enum EtcdWay {
    /// At the address in an annotation of the pod
    Direct,
    /// By port-forward to the pod, over WebSocket or SPDY
    PortForward,
}
