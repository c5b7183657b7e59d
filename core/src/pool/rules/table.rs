//! The rules of this module as data: id, field, and demand.

use crate::api::cluster_x_k8s_io::machine_pool::KIND;
use crate::model::{FieldPath, Operation, RuleInfo, Violation, ViolationKind};

const WRITES: &[Operation] = &[Operation::Create, Operation::Update];
const UPDATE: &[Operation] = &[Operation::Update];
const SHRINKS: &[Operation] = &[Operation::Update, Operation::Delete];

/// A rule.
pub(super) struct Rule {
    pub(super) id: &'static str,
    pub(super) path: &'static str,
    demand: &'static str,
    operations: &'static [Operation],
}

const fn rule(id: &'static str, path: &'static str, demand: &'static str) -> Rule {
    Rule {
        id,
        path,
        demand,
        operations: WRITES,
    }
}

impl Rule {
    const fn on(mut self, operations: &'static [Operation]) -> Self {
        self.operations = operations;
        self
    }

    /// A violation at the field of the rule.
    pub(super) fn violation(&self, kind: ViolationKind) -> Violation {
        self.at(FieldPath::new(self.path), kind)
    }

    /// A violation at another field.
    pub(super) fn at(&self, path: FieldPath, kind: ViolationKind) -> Violation {
        Violation::new(self.id, path, kind, self.demand)
    }
}

pub(super) const TYPE: Rule = rule("mp-type", "spec", "must have the types of the CRD");
pub(super) const REPLICAS: Rule = rule("mp-replicas", "spec.replicas", "must not be negative");
pub(super) const BOOTSTRAP: Rule = rule(
    "mp-bootstrap",
    "spec.template.spec.bootstrap",
    "must name the source of the bootstrap data",
);
pub(super) const IMMUTABLE_CLUSTER: Rule =
    rule("mp-cluster-immutable", "spec.clusterName", "the Cluster is immutable").on(UPDATE);
pub(super) const CLUSTER_NAME: Rule = rule(
    "mp-cluster-name",
    "spec.template.spec.clusterName",
    "must be the name in spec.clusterName",
);
pub(super) const VERSION: Rule = rule(
    "mp-version",
    "spec.template.spec.version",
    "must be a semantic version with a leading v",
);
pub(super) const METADATA: Rule = rule(
    "mp-template-metadata",
    "spec.template.metadata",
    "must be a valid label or annotation",
);
pub(super) const STRATEGY: Rule = rule(
    "mp-strategy",
    "metadata.annotations",
    "must be the JSON of spec.rollout or spec.remediation of a MachineDeployment",
);
pub(super) const LIMITS: Rule = rule(
    "mp-autoscaler-limits",
    "metadata.annotations",
    "must be a number of replicas, and the minimum must not exceed the maximum",
);
/// Warns of what an edit does to the machines.
pub(super) const PLAN: Rule = rule("mp-plan", "spec", "says what the edit does to the machines").on(SHRINKS);

/// Every rule.
pub(super) fn all() -> Vec<RuleInfo> {
    let rules = [
        &TYPE,
        &REPLICAS,
        &BOOTSTRAP,
        &IMMUTABLE_CLUSTER,
        &CLUSTER_NAME,
        &VERSION,
        &METADATA,
        &STRATEGY,
        &LIMITS,
        &PLAN,
    ];
    let info = |rule: &Rule| RuleInfo::webhook(rule.id, KIND, rule.path, rule.operations, rule.demand);
    rules.into_iter().map(info).collect()
}
