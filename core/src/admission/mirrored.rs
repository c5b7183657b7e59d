//! The gates of what exists in the Machine API and in Cluster API: which kinds, at which routes, by the rules of `authority`.

use super::snapshot::{Snapshot, Source};
use super::table::{Admission, Gate, Outcome, Phase, Route};
use crate::api::machine_openshift_io::{machine, machine_health_check, machine_set};
use crate::api::{cluster_x_k8s_io, infrastructure_cluster_x_k8s_io, machine_openshift_io};
use crate::authority::rules::{self, Lookup, Subject};
use crate::authority::spec::Api;
pub(super) use crate::authority::spec::Kind;
use crate::model::Edit;

const MIRRORED: &[&str] = &[machine::PLURAL, machine_set::PLURAL, machine_health_check::PLURAL];

/// The first pass over the Machine API's half: it fills in who leads.
pub(super) const MUTATE_MACHINE_API: Route = Route {
    path: "/mutate-machine-openshift-io-v1beta1",
    phase: Phase::Mutate,
    group: machine_openshift_io::GROUP,
    resources: MIRRORED,
    subresources: &[],
};

/// The second pass over the Machine API's half.
pub(super) const VALIDATE_MACHINE_API: Route = Route {
    path: "/validate-machine-openshift-io-v1beta1",
    phase: Phase::Validate,
    subresources: &["scale", "status"],
    ..MUTATE_MACHINE_API
};

/// Cluster API's half, in which there is nothing to fill in.
pub(super) const VALIDATE_CLUSTER_API: Route = Route {
    path: "/validate-cluster-x-k8s-io-v1beta2",
    group: cluster_x_k8s_io::GROUP,
    resources: &[
        machine::PLURAL,
        machine_set::PLURAL,
        machine_health_check::PLURAL,
        cluster_x_k8s_io::cluster::PLURAL,
    ],
    ..VALIDATE_MACHINE_API
};

/// The infrastructure behind Cluster API's half.
pub(super) const VALIDATE_INFRASTRUCTURE: Route = Route {
    path: "/validate-infrastructure-cluster-x-k8s-io",
    phase: Phase::Validate,
    group: infrastructure_cluster_x_k8s_io::GROUP,
    resources: INFRASTRUCTURE,
    subresources: &["status"],
};

const fn gate(group: &'static str, kind: &'static str, resource: &'static str) -> Gate {
    Gate {
        group,
        kind,
        resource,
        judge,
        reads_status: true,
    }
}

const fn cluster_gate(group: &'static str, kind: &'static str, resource: &'static str) -> Gate {
    Gate {
        group,
        kind,
        resource,
        judge: judge_cluster,
        reads_status: false,
    }
}

/// Kinds of both APIs, and kinds and plurals of the infrastructure: what a literal has to spell out, since a gate borrows
/// for ever.
macro_rules! mirrored {
    ($($machine:literal $machines:literal $cluster:literal $clusters:literal,)*) => {
        pub(super) const GATES: &[Gate] = &[
            gate(machine_openshift_io::GROUP, machine::KIND, machine::PLURAL),
            gate(machine_openshift_io::GROUP, machine_set::KIND, machine_set::PLURAL),
            gate(machine_openshift_io::GROUP, machine_health_check::KIND, machine_health_check::PLURAL),
            gate(cluster_x_k8s_io::GROUP, machine::KIND, machine::PLURAL),
            gate(cluster_x_k8s_io::GROUP, machine_set::KIND, machine_set::PLURAL),
            gate(cluster_x_k8s_io::GROUP, machine_health_check::KIND, machine_health_check::PLURAL),
            $(
                gate(infrastructure_cluster_x_k8s_io::GROUP, $machine, concat!($machines, "s")),
                gate(
                    infrastructure_cluster_x_k8s_io::GROUP,
                    concat!($machine, "Template"),
                    concat!($machines, "templates"),
                ),
            )*
        ];
        const INFRASTRUCTURE: &[&str] = &[$($clusters, concat!($machines, "s"), concat!($machines, "templates"),)*];
        /// Cluster and the infrastructure clusters, of which only a deletion is judged.
        pub(super) const CLUSTER_GATES: &[Gate] = &[
            cluster_gate(cluster_x_k8s_io::GROUP, cluster_x_k8s_io::cluster::KIND, cluster_x_k8s_io::cluster::PLURAL),
            $(cluster_gate(infrastructure_cluster_x_k8s_io::GROUP, $cluster, $clusters),)*
        ];
        const QUALIFIED: &[(&str, &str, &str)] = &[
            $(
                ($machine, concat!($machine, ".infrastructure.cluster.x-k8s.io"),
                    concat!($machine, "Template.infrastructure.cluster.x-k8s.io")),
            )*
        ];
    };
}

mirrored! {
    "AWSMachine" "awsmachine" "AWSCluster" "awsclusters",
    "AzureMachine" "azuremachine" "AzureCluster" "azureclusters",
    "GCPMachine" "gcpmachine" "GCPCluster" "gcpclusters",
    "IBMPowerVSMachine" "ibmpowervsmachine" "IBMPowerVSCluster" "ibmpowervsclusters",
    "IBMVPCMachine" "ibmvpcmachine" "IBMVPCCluster" "ibmvpcclusters",
    "Metal3Machine" "metal3machine" "Metal3Cluster" "metal3clusters",
    "NutanixMachine" "nutanixmachine" "NutanixCluster" "nutanixclusters",
    "OpenStackMachine" "openstackmachine" "OpenStackCluster" "openstackclusters",
    "VSphereMachine" "vspheremachine" "VSphereCluster" "vsphereclusters",
}

/// What a kind is to `authority`; `None` for a kind that is not mirrored.
pub(super) fn subject(group: &str, kind: &str) -> Option<Subject> {
    let named = |kind: &str| match kind {
        machine::KIND => Some(Kind::Machine),
        machine_set::KIND => Some(Kind::MachineSet),
        machine_health_check::KIND => Some(Kind::MachineHealthCheck),
        _ => None,
    };
    let (api, of, qualified) = match group {
        machine_openshift_io::GROUP => {
            let of = named(kind)?;
            let qualified = match of {
                Kind::Machine => "Machine.machine.openshift.io",
                Kind::MachineSet => "MachineSet.machine.openshift.io",
                _ => "MachineHealthCheck.machine.openshift.io",
            };
            (Api::MachineApi, of, qualified)
        }
        cluster_x_k8s_io::GROUP => {
            let of = named(kind)?;
            let qualified = match of {
                Kind::Machine => "Machine.cluster.x-k8s.io",
                Kind::MachineSet => "MachineSet.cluster.x-k8s.io",
                _ => "MachineHealthCheck.cluster.x-k8s.io",
            };
            (Api::ClusterApi, of, qualified)
        }
        infrastructure_cluster_x_k8s_io::GROUP => {
            let (machine, template) = (kind, kind.strip_suffix("Template"));
            let known = |name: &str| QUALIFIED.iter().find(|(machine, _, _)| *machine == name);
            match (known(machine), template.and_then(known)) {
                (Some((_, qualified, _)), _) => (Api::ClusterApi, Kind::InfrastructureMachine, *qualified),
                (None, Some((_, _, qualified))) => (Api::ClusterApi, Kind::InfrastructureTemplate, *qualified),
                (None, None) => return None,
            }
        }
        _ => return None,
    };
    Some(Subject {
        api,
        kind: of,
        qualified,
    })
}

/// How the kinds of a rule file are called in a list of rules.
pub(super) fn kinds_of(file: &str) -> &'static str {
    match file {
        "authority-machine-api" => "Machine, MachineSet, MachineHealthCheck",
        "authority-cluster-api" => "Machine, MachineSet, MachineHealthCheck of Cluster API, and infrastructure",
        _ => "",
    }
}

fn judge(admission: &Admission, gate: &Gate, phase: Phase, edit: &Edit<'_>, snapshot: &Snapshot) -> Outcome {
    let Some(subject) = subject(gate.group, gate.kind) else {
        return Outcome::default();
    };
    let lookup = Lookup {
        mirrors: &snapshot.mirrors,
        config: &admission.options().authority,
        wait_for_unknown: snapshot.source == Source::Cluster,
    };
    match phase {
        Phase::Mutate => {
            let (verdict, patch) = rules::mutate(subject, edit, &lookup);
            Outcome { verdict, patch }
        }
        Phase::Validate => Outcome {
            verdict: rules::validate(subject, edit, &lookup, admission.rule_set()),
            patch: None,
        },
    }
}

fn judge_cluster(admission: &Admission, _gate: &Gate, phase: Phase, edit: &Edit<'_>, snapshot: &Snapshot) -> Outcome {
    let lookup = Lookup {
        mirrors: &snapshot.mirrors,
        config: &admission.options().authority,
        wait_for_unknown: snapshot.source == Source::Cluster,
    };
    match phase {
        Phase::Mutate => Outcome::default(),
        Phase::Validate => Outcome {
            verdict: rules::validate_cluster(edit, &lookup),
            patch: None,
        },
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cel::rules::built_in;

    #[test]
    fn every_gate_is_a_subject_with_rules_and_every_platform_has_its_gates() {
        let admission = Admission::new(crate::admission::Options::default()).unwrap();
        for gate in GATES {
            let subject = subject(gate.group, gate.kind).unwrap();
            assert_eq!(subject.qualified, format!("{}.{}", gate.kind, gate.group));
            assert!(
                !admission.rule_set().of_kind(subject.qualified).is_empty(),
                "{}",
                subject.qualified
            );
        }
        let has = |kind: &str, plural: &str| {
            GATES
                .iter()
                .any(|gate| gate.kind == kind && gate.resource == plural && INFRASTRUCTURE.contains(&plural))
        };
        for platform in infrastructure_cluster_x_k8s_io::PLATFORMS {
            assert!(has(platform.machine, platform.machines), "{}", platform.machine);
            assert!(has(platform.template, platform.templates), "{}", platform.template);
        }
    }

    #[test]
    fn every_kind_of_a_shared_rule_file_has_a_gate() {
        for file in built_in().unwrap().iter().filter(|file| !file.kinds.is_empty()) {
            for (group, kind) in file.kinds() {
                assert!(subject(group, kind).is_some(), "{kind}.{group}");
            }
            assert!(!kinds_of(&file.name).is_empty(), "{}", file.name);
        }
    }
}
