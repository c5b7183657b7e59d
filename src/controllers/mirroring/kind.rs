//! The kinds of which pairs are mirrored, each with a controller of its own.

use capstan_core::api::kind::KindInfo;
use capstan_core::api::kinds;
use capstan_core::authority::spec::Kind;

/// A mirrored kind.
pub(super) trait MirroredKind: std::fmt::Debug + Send + Sync + 'static {
    /// The name of the controller in metrics and logs.
    const NAME: &'static str;
    /// The kind of both objects.
    const PAIR: Kind;
    /// The kind in the Machine API.
    const MACHINE_API: &'static KindInfo;
    /// The kind in Cluster API.
    const CLUSTER_API: &'static KindInfo;
}

/// Machines.
#[derive(Debug)]
pub(super) struct Machines;
/// MachineSets.
#[derive(Debug)]
pub(super) struct Sets;
/// MachineHealthChecks.
#[derive(Debug)]
pub(super) struct Checks;

impl MirroredKind for Machines {
    const NAME: &'static str = "machine-mirroring";
    const PAIR: Kind = Kind::Machine;
    const MACHINE_API: &'static KindInfo = &kinds::MACHINES;
    const CLUSTER_API: &'static KindInfo = &kinds::CLUSTER_API_MACHINES;
}

impl MirroredKind for Sets {
    const NAME: &'static str = "machine-set-mirroring";
    const PAIR: Kind = Kind::MachineSet;
    const MACHINE_API: &'static KindInfo = &kinds::MACHINE_SETS;
    const CLUSTER_API: &'static KindInfo = &kinds::CLUSTER_API_MACHINE_SETS;
}

impl MirroredKind for Checks {
    const NAME: &'static str = "machine-health-check-mirroring";
    const PAIR: Kind = Kind::MachineHealthCheck;
    const MACHINE_API: &'static KindInfo = &kinds::MACHINE_HEALTH_CHECKS;
    const CLUSTER_API: &'static KindInfo = &kinds::CLUSTER_API_MACHINE_HEALTH_CHECKS;
}
