//! The kinds that exist in the Machine API and in Cluster API, and the infrastructure kinds of
//! Cluster API, as the rules of `authority` name them.

use std::sync::LazyLock;

use crate::api::infrastructure_cluster_x_k8s_io::{self as infrastructure, CLUSTERS, OTHER_CLUSTERS, PLATFORMS};
use crate::api::kind::KindInfo;
use crate::api::kinds;
use crate::authority::rules::Subject;
use crate::authority::spec::{Api, Kind};

/// A mirrored kind.
pub(super) struct MirroredKind {
    pub(super) kind: KindInfo,
    api: Api,
    role: Kind,
    /// The kind as rule files name it: `Machine.cluster.x-k8s.io`.
    qualified: String,
}

impl MirroredKind {
    fn new(kind: &KindInfo, api: Api, role: Kind) -> Self {
        Self {
            kind: kind.clone(),
            api,
            role,
            qualified: format!("{}.{}", kind.kind, kind.group),
        }
    }
}

static MIRRORED: LazyLock<Vec<MirroredKind>> = LazyLock::new(|| {
    let mut mirrored = vec![
        MirroredKind::new(&kinds::MACHINES, Api::MachineApi, Kind::Machine),
        MirroredKind::new(&kinds::MACHINE_SETS, Api::MachineApi, Kind::MachineSet),
        MirroredKind::new(&kinds::MACHINE_HEALTH_CHECKS, Api::MachineApi, Kind::MachineHealthCheck),
        MirroredKind::new(&kinds::CLUSTER_API_MACHINES, Api::ClusterApi, Kind::Machine),
        MirroredKind::new(&kinds::CLUSTER_API_MACHINE_SETS, Api::ClusterApi, Kind::MachineSet),
        MirroredKind::new(
            &kinds::CLUSTER_API_MACHINE_HEALTH_CHECKS,
            Api::ClusterApi,
            Kind::MachineHealthCheck,
        ),
    ];
    for platform in PLATFORMS {
        for (kind, role) in [
            (platform.machine, Kind::InfrastructureMachine),
            (platform.template, Kind::InfrastructureTemplate),
        ] {
            let entry = kinds::find(infrastructure::GROUP, kind);
            mirrored.extend(entry.map(|entry| MirroredKind::new(&entry.kind, Api::ClusterApi, role)));
        }
    }
    mirrored
});

/// Every mirrored kind.
pub(super) fn all() -> impl Iterator<Item = &'static MirroredKind> {
    MIRRORED.iter()
}

/// A kind as the rules of `authority` name it; `None` for a kind that is not mirrored.
pub(super) fn subject(group: &str, kind: &str) -> Option<Subject> {
    let found = all().find(|mirrored| mirrored.kind.group == group && mirrored.kind.kind == kind)?;
    Some(Subject {
        api: found.api,
        kind: found.role,
        qualified: &found.qualified,
    })
}

static CLUSTER_KINDS: LazyLock<Vec<KindInfo>> = LazyLock::new(|| {
    let infrastructure = CLUSTERS.iter().chain(OTHER_CLUSTERS);
    let entries = infrastructure.filter_map(|cluster| kinds::find(infrastructure::GROUP, cluster.kind));
    std::iter::once(kinds::CLUSTER_API_CLUSTERS.clone())
        .chain(entries.map(|entry| entry.kind.into_owned()))
        .collect()
});

/// Cluster and the infrastructure clusters. They are not mirrored; their deletion is judged.
pub(super) fn clusters() -> impl Iterator<Item = &'static KindInfo> {
    CLUSTER_KINDS.iter()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_machines_and_templates_of_every_platform_are_mirrored_kinds() {
        for platform in PLATFORMS {
            for (kind, plural, role) in [
                (platform.machine, platform.machines, Kind::InfrastructureMachine),
                (platform.template, platform.templates, Kind::InfrastructureTemplate),
            ] {
                let subject = subject(infrastructure::GROUP, kind).unwrap();
                assert_eq!((subject.api, subject.kind), (Api::ClusterApi, role));
                assert_eq!(subject.qualified, format!("{kind}.{}", infrastructure::GROUP));
                assert!(all().any(|mirrored| mirrored.kind.plural == plural));
            }
        }
        assert_eq!(subject("example.org", "Machine"), None);
    }
}
