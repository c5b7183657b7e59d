//! What the rules look up in the cluster, or in files.

use std::collections::BTreeMap;
use std::sync::Arc;

use super::stored::{ParsedOnce, Surroundings};
use crate::api::config_openshift_io::cluster_operator::ClusterOperator;
use crate::api::config_openshift_io::infrastructure::Infrastructure;
use crate::api::core_v1::node::Node;
use crate::api::machine_openshift_io::control_plane::ControlPlane;
use crate::api::machine_openshift_io::control_plane_machine_set::ControlPlaneMachineSet;
use crate::api::machine_openshift_io::label;
use crate::api::machine_openshift_io::machine::Machine;
use crate::cpms::spec::Gates;
use crate::model::{Verdict, Violation, ViolationKind, Warning};

/// What the rules may look up. `None` is unknown.
#[derive(Clone, Copy, Debug)]
pub struct Lookup<'a> {
    /// The Machines of the Machine API.
    pub machines: Option<&'a [Arc<Machine>]>,
    /// The stored sets.
    pub sets: Option<&'a [Arc<ControlPlaneMachineSet>]>,
    /// The stored ControlPlanes; unknown unless the feature `control-plane` is installed.
    pub control_planes: Option<&'a [Arc<ControlPlane>]>,
    /// The parsed stored set.
    pub parsed: &'a ParsedOnce,
    /// The Infrastructure `cluster`.
    pub infrastructure: Option<&'a Arc<Infrastructure>>,
    /// The nodes, by name.
    pub nodes: Option<&'a BTreeMap<String, Arc<Node>>>,
    /// The ClusterOperators, by name.
    pub cluster_operators: Option<&'a BTreeMap<String, Arc<ClusterOperator>>>,
    /// The feature gates.
    pub gates: Gates,
    /// Whether the FeatureGate of the cluster is unknown, so that the gates are the defaults.
    pub feature_gate_unknown: bool,
    /// The namespace of the Machine API.
    pub namespace: &'a str,
    /// Whether unknown objects will be known soon. If so, a rule that needs them refuses the edit;
    /// otherwise it warns.
    pub wait_for_unknown: bool,
}

impl<'a> Lookup<'a> {
    pub(super) fn infrastructure(&self) -> Option<&'a Infrastructure> {
        self.infrastructure.map(|infrastructure| &**infrastructure)
    }

    pub(super) fn surroundings(&self) -> Surroundings<'a> {
        Surroundings {
            sets: self.sets,
            infrastructure: self.infrastructure,
            gates: self.gates,
        }
    }

    /// The machines of the control plane, with and without an owner.
    pub fn control_plane(&self) -> Option<Vec<&'a Machine>> {
        let is_master = |machine: &&Machine| {
            let labels = &machine.metadata.labels;
            [label::ROLE, label::TYPE]
                .iter()
                .all(|key| labels.get(*key).is_some_and(|value| value == "master"))
        };
        Some(
            self.machines?
                .iter()
                .map(|machine| &**machine)
                .filter(is_master)
                .collect(),
        )
    }

    /// Reports that an object or a list of objects is unknown: as a refusal if it will be known
    /// soon, else as a warning.
    pub fn unknown(&self, verdict: &mut Verdict, rule: &str, path: &str, objects: &str, why: &str) {
        if self.wait_for_unknown {
            let allowed = format!("must wait until Capstan has read {objects}: {why}");
            let violation = Violation::new(rule, path, ViolationKind::Forbidden, allowed);
            verdict.deny(violation.advice("try again in a moment"));
        } else {
            let are = if objects.ends_with('s') { "are" } else { "is" };
            let text = format!("{path}: not checked, because {objects} {are} not given: {why}");
            verdict.warn(Warning::not_judged(rule, text));
        }
    }
}
