//! The kind table: every kind that Capstan reads or writes.
//!
//! Caches, discovery, snapshots, RBAC and the simulation are derived from this table. A new kind is
//! one line here and one file in its module.

use std::borrow::Cow;

use super::bootstrap_cluster_x_k8s_io::{self, kubeadm_config};
use super::config_openshift_io::{cluster_operator, feature_gate, infrastructure};
use super::core_v1::{config_map, node};
use super::infrastructure_cluster_x_k8s_io::{self as platforms, CLUSTERS, OTHER_CLUSTERS, PLATFORMS};
use super::kind::{KindInfo, Scope};
use super::machine_openshift_io::{
    control_plane, control_plane_machine_set, machine, machine_health_check, machine_set,
};
use super::{cluster_x_k8s_io, config_openshift_io, controlplane_cluster_x_k8s_io, machine_openshift_io};
use controlplane_cluster_x_k8s_io::{kubeadm_control_plane, kubeadm_control_plane_template};

/// Machines of the Machine API.
pub static MACHINES: KindInfo = machine_api("v1beta1", machine::KIND, machine::PLURAL);
/// MachineSets of the Machine API.
pub static MACHINE_SETS: KindInfo = machine_api("v1beta1", machine_set::KIND, machine_set::PLURAL);
/// MachineHealthChecks of the Machine API.
pub static MACHINE_HEALTH_CHECKS: KindInfo =
    machine_api("v1beta1", machine_health_check::KIND, machine_health_check::PLURAL);
/// ControlPlaneMachineSets.
pub static CONTROL_PLANE_MACHINE_SETS: KindInfo =
    machine_api("v1", control_plane_machine_set::KIND, control_plane_machine_set::PLURAL);
/// ControlPlanes.
pub static CONTROL_PLANES: KindInfo = machine_api("v1alpha1", control_plane::KIND, control_plane::PLURAL);
/// Nodes.
pub static NODES: KindInfo = KindInfo::cluster("", "v1", node::KIND, "nodes");
/// ConfigMaps.
pub static CONFIG_MAPS: KindInfo = KindInfo::namespaced("", "v1", config_map::KIND, "configmaps");
/// Infrastructures.
pub static INFRASTRUCTURES: KindInfo = configuration(infrastructure::KIND, infrastructure::PLURAL);
/// FeatureGates.
pub static FEATURE_GATES: KindInfo = configuration(feature_gate::KIND, feature_gate::PLURAL);
/// ClusterOperators.
pub static CLUSTER_OPERATORS: KindInfo = configuration(cluster_operator::KIND, cluster_operator::PLURAL);
/// Machines of Cluster API.
pub static CLUSTER_API_MACHINES: KindInfo =
    cluster_api(cluster_x_k8s_io::machine::KIND, cluster_x_k8s_io::machine::PLURAL);
/// MachineSets of Cluster API.
pub static CLUSTER_API_MACHINE_SETS: KindInfo = cluster_api(
    cluster_x_k8s_io::machine_set::KIND,
    cluster_x_k8s_io::machine_set::PLURAL,
);
/// MachineHealthChecks of Cluster API.
pub static CLUSTER_API_MACHINE_HEALTH_CHECKS: KindInfo = cluster_api(
    cluster_x_k8s_io::machine_health_check::KIND,
    cluster_x_k8s_io::machine_health_check::PLURAL,
);
/// KubeadmControlPlanes.
pub static KUBEADM_CONTROL_PLANES: KindInfo =
    kubeadm_control_plane_api(kubeadm_control_plane::KIND, kubeadm_control_plane::PLURAL);
/// KubeadmControlPlaneTemplates.
pub static KUBEADM_CONTROL_PLANE_TEMPLATES: KindInfo = kubeadm_control_plane_api(
    kubeadm_control_plane_template::KIND,
    kubeadm_control_plane_template::PLURAL,
);
/// MachinePools of Cluster API.
pub static MACHINE_POOLS: KindInfo = cluster_api(
    cluster_x_k8s_io::machine_pool::KIND,
    cluster_x_k8s_io::machine_pool::PLURAL,
);
/// KubeadmConfigs.
pub static KUBEADM_CONFIGS: KindInfo = KindInfo::namespaced(
    bootstrap_cluster_x_k8s_io::GROUP,
    bootstrap_cluster_x_k8s_io::VERSION,
    kubeadm_config::KIND,
    kubeadm_config::PLURAL,
);
/// Clusters of Cluster API.
pub static CLUSTER_API_CLUSTERS: KindInfo =
    cluster_api(cluster_x_k8s_io::cluster::KIND, cluster_x_k8s_io::cluster::PLURAL);

const fn machine_api(version: &'static str, kind: &'static str, plural: &'static str) -> KindInfo {
    KindInfo::namespaced(machine_openshift_io::GROUP, version, kind, plural)
}

const fn configuration(kind: &'static str, plural: &'static str) -> KindInfo {
    KindInfo::cluster(config_openshift_io::GROUP, "v1", kind, plural)
}

const fn cluster_api(kind: &'static str, plural: &'static str) -> KindInfo {
    KindInfo::namespaced(cluster_x_k8s_io::GROUP, "v1beta2", kind, plural)
}

const fn kubeadm_control_plane_api(kind: &'static str, plural: &'static str) -> KindInfo {
    KindInfo::namespaced(
        controlplane_cluster_x_k8s_io::GROUP,
        controlplane_cluster_x_k8s_io::VERSION,
        kind,
        plural,
    )
}

/// The namespace of the objects of a kind that Capstan reads.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Home {
    /// The namespace of the Machine API.
    MachineApi,
    /// The namespace of Cluster API.
    ClusterApi,
    /// The namespace of the etcd members that cluster-etcd-operator manages.
    Etcd,
    /// The kind is cluster-scoped.
    Cluster,
}

/// A process, or a part of one, that needs a kind.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reader {
    /// The webhooks of ControlPlaneMachineSets.
    Admission,
    /// The guards of the mirrored pairs.
    Guards,
    /// The controllers.
    Controllers,
    /// The controllers of the mirrored pairs. The verbs of the table are not theirs.
    Mirroring,
    /// The controller of ControlPlanes. The verbs of the table are not its own.
    ControlPlaneControllers,
    /// The controller of KubeadmControlPlanes. The verbs of the table are not its own.
    KubeadmControlPlaneControllers,
    /// The controller of MachinePools. The verbs of the table are not its own.
    MachinePoolControllers,
    /// The webhooks of ControlPlanes. They also read what the webhooks of ControlPlaneMachineSets
    /// read.
    ControlPlanes,
}

/// One line of the kind table.
#[derive(Clone, Debug, PartialEq)]
pub struct KindEntry {
    /// The kind.
    pub kind: Cow<'static, KindInfo>,
    /// The namespace of its objects.
    pub home: Home,
    /// The only objects that are read; empty for all.
    pub names: &'static [&'static str],
    /// The parts of Capstan that read it.
    pub readers: &'static [Reader],
    /// The verbs with which the controllers write its objects.
    pub writes: &'static [&'static str],
    /// Whether the controllers write the status subresource.
    pub writes_status: bool,
}

const fn read(kind: &'static KindInfo, home: Home, readers: &'static [Reader]) -> KindEntry {
    KindEntry {
        kind: Cow::Borrowed(kind),
        home,
        names: &[],
        readers,
        writes: &[],
        writes_status: false,
    }
}

impl KindEntry {
    const fn only(mut self, names: &'static [&'static str]) -> Self {
        self.names = names;
        self
    }

    const fn written(mut self, verbs: &'static [&'static str], status: bool) -> Self {
        self.writes = verbs;
        self.writes_status = status;
        self
    }

    /// Whether a part of Capstan reads the kind.
    pub fn is_read_by(&self, reader: Reader) -> bool {
        self.readers.contains(&reader)
    }
}

const EVERY: &[Reader] = &[
    Reader::Admission,
    Reader::Guards,
    Reader::Controllers,
    Reader::ControlPlaneControllers,
    Reader::Mirroring,
];
const BOTH: &[Reader] = &[Reader::Admission, Reader::Controllers, Reader::ControlPlaneControllers];
const PAIRS: &[Reader] = &[Reader::Guards, Reader::Mirroring];
const KUBEADM: &[Reader] = &[Reader::KubeadmControlPlaneControllers];
/// The kind is judged offline. No part of an installed Capstan reads it, so it has no permissions.
const OFFLINE: &[Reader] = &[];

/// The kinds that are known when Capstan is built, apart from the infrastructure of Cluster API.
pub static KINDS: &[KindEntry] = &[
    read(&MACHINES, Home::MachineApi, EVERY).written(&["create", "patch", "delete"], false),
    read(
        &MACHINE_SETS,
        Home::MachineApi,
        &[Reader::Guards, Reader::Controllers, Reader::Mirroring],
    ),
    read(&CONTROL_PLANE_MACHINE_SETS, Home::MachineApi, BOTH).written(&["create", "patch"], true),
    read(&NODES, Home::Cluster, BOTH),
    read(
        &INFRASTRUCTURES,
        Home::Cluster,
        &[
            Reader::Admission,
            Reader::Controllers,
            Reader::ControlPlaneControllers,
            Reader::Mirroring,
        ],
    )
    .only(&[infrastructure::NAME]),
    read(&FEATURE_GATES, Home::Cluster, BOTH).only(&[feature_gate::NAME]),
    read(&CLUSTER_OPERATORS, Home::Cluster, BOTH)
        .only(&[cluster_operator::ETCD, cluster_operator::NAME])
        .written(&["create"], true),
    read(&CONFIG_MAPS, Home::Etcd, &[Reader::ControlPlaneControllers]).only(&[config_map::ETCD_ENDPOINTS]),
    read(
        &MACHINE_HEALTH_CHECKS,
        Home::MachineApi,
        &[Reader::Guards, Reader::ControlPlaneControllers, Reader::Mirroring],
    ),
    read(
        &CONTROL_PLANES,
        Home::MachineApi,
        &[Reader::ControlPlanes, Reader::ControlPlaneControllers],
    ),
    read(
        &CLUSTER_API_MACHINES,
        Home::ClusterApi,
        &[
            Reader::Guards,
            Reader::Mirroring,
            Reader::KubeadmControlPlaneControllers,
            Reader::MachinePoolControllers,
        ],
    ),
    read(&CLUSTER_API_MACHINE_SETS, Home::ClusterApi, PAIRS),
    read(&CLUSTER_API_MACHINE_HEALTH_CHECKS, Home::ClusterApi, PAIRS),
    read(&KUBEADM_CONTROL_PLANES, Home::ClusterApi, KUBEADM),
    read(&KUBEADM_CONFIGS, Home::ClusterApi, KUBEADM),
    read(
        &MACHINE_POOLS,
        Home::ClusterApi,
        &[Reader::KubeadmControlPlaneControllers, Reader::MachinePoolControllers],
    ),
    read(&KUBEADM_CONTROL_PLANE_TEMPLATES, Home::ClusterApi, OFFLINE),
    // The guards judge its deletion, and look up the objects that belong to it.
    read(
        &CLUSTER_API_CLUSTERS,
        Home::ClusterApi,
        &[
            Reader::Mirroring,
            Reader::KubeadmControlPlaneControllers,
            Reader::MachinePoolControllers,
        ],
    ),
];

/// The whole table: [`KINDS`], and the machines, machine templates and clusters of every platform.
pub fn all() -> impl Iterator<Item = KindEntry> {
    let machines = PLATFORMS.iter().flat_map(|platform| {
        [
            infrastructure_kind(platform.version, platform.machine, platform.machines, PAIRS),
            infrastructure_kind(platform.version, platform.template, platform.templates, PAIRS),
        ]
    });
    let read = CLUSTERS.iter().map(|cluster| (cluster, PAIRS));
    let others = OTHER_CLUSTERS.iter().map(|cluster| (cluster, &[][..]));
    let clusters = read
        .chain(others)
        .map(|(cluster, readers)| infrastructure_kind(cluster.version, cluster.kind, cluster.plural, readers));
    KINDS.iter().cloned().chain(machines).chain(clusters)
}

fn infrastructure_kind(
    version: &'static str,
    kind: &'static str,
    plural: &'static str,
    readers: &'static [Reader],
) -> KindEntry {
    let kind = KindInfo {
        group: Cow::Borrowed(platforms::GROUP),
        version: Cow::Borrowed(version),
        kind: Cow::Borrowed(kind),
        plural: Cow::Borrowed(plural),
        scope: Scope::Namespaced,
    };
    KindEntry {
        kind: Cow::Owned(kind),
        home: Home::ClusterApi,
        names: &[],
        readers,
        writes: &[],
        writes_status: false,
    }
}

/// The kind with this group and name, if the table has it.
pub fn find(group: &str, kind: &str) -> Option<KindEntry> {
    all().find(|entry| entry.kind.group == group && entry.kind.kind == kind)
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn the_table_agrees_with_the_wire_types() {
        assert_eq!(MACHINES.api_version(), machine::API_VERSION);
        assert_eq!(MACHINE_SETS.api_version(), machine_set::API_VERSION);
        assert_eq!(MACHINE_HEALTH_CHECKS.api_version(), machine_health_check::API_VERSION);
        assert_eq!(
            CONTROL_PLANE_MACHINE_SETS.api_version(),
            control_plane_machine_set::API_VERSION
        );
        assert_eq!(CONTROL_PLANES.api_version(), control_plane::API_VERSION);
        assert_eq!(INFRASTRUCTURES.api_version(), config_openshift_io::API_VERSION);
        assert_eq!(CLUSTER_API_MACHINES.api_version(), cluster_x_k8s_io::API_VERSION);
        assert_eq!(
            KUBEADM_CONTROL_PLANES.api_version(),
            controlplane_cluster_x_k8s_io::API_VERSION
        );
    }

    #[test]
    fn no_kind_is_in_the_table_twice() {
        let titles: Vec<String> = all().map(|entry| entry.kind.title()).collect();
        let different: BTreeSet<&String> = titles.iter().collect();
        assert_eq!(different.len(), titles.len());
        assert!(find("machine.openshift.io", "Machine").is_some());
        assert!(find("cluster.x-k8s.io", "Machine").is_some());
        assert!(find("example.org", "Machine").is_none());
    }
}
