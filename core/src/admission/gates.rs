//! The registry of gates. A new gate is one line in [`GATES`] and one file beside this registry.
//!
//! The routes, the rule files and the list of rules follow from the registry.

mod control_plane;
mod control_plane_machine_set;
mod kubeadm_control_plane;
mod machine_pool;
mod mirrored;

use std::sync::LazyLock;

use super::feature::Feature;
use super::gate::{Gate, Phase, Route, RuleSource};
use crate::api::kind::KindInfo;
use crate::cel::rules::{RuleError, RuleFile};
use crate::model::RuleInfo;

/// Every gate.
const GATES: &[&dyn Gate] = &[
    &control_plane_machine_set::ControlPlaneMachineSets,
    &mirrored::Mirrored,
    &kubeadm_control_plane::KubeadmControlPlanes,
    &control_plane::ControlPlanes,
    &machine_pool::MachinePools,
];

/// A kind, and the gate that judges it.
pub(super) struct GatedKind {
    pub(super) kind: KindInfo,
    pub(super) gate: &'static dyn Gate,
}

static KINDS: LazyLock<Vec<GatedKind>> = LazyLock::new(|| {
    let of_gate = |gate: &&'static dyn Gate| {
        let gate = *gate;
        gate.kinds().into_iter().map(move |kind| GatedKind { kind, gate })
    };
    GATES.iter().flat_map(of_gate).collect()
});

static ROUTES: LazyLock<Vec<Route>> = LazyLock::new(|| Feature::ALL.into_iter().flat_map(routes_of).collect());

/// Every route of the server. A test compares them with the webhook configurations in `webhooks/`.
pub fn routes() -> &'static [Route] {
    &ROUTES
}

/// The routes of a feature.
pub fn routes_of(feature: Feature) -> Vec<Route> {
    let installed = GATES.iter().filter(|gate| gate.feature() == feature);
    installed.flat_map(|gate| gate.routes()).collect()
}

/// The rule files of `webhooks/rules/`, which are compiled into the binary.
///
/// # Errors
/// A file is not a rule file. A test reads all of them.
pub fn rule_files() -> Result<Vec<RuleFile>, RuleError> {
    rule_sources()
        .map(|(_, source)| RuleFile::parse(source.path, source.text))
        .collect()
}

/// The rule files of a feature.
///
/// # Errors
/// A file is not a rule file. A test reads all of them.
pub fn rule_files_of(feature: Feature) -> Result<Vec<RuleFile>, RuleError> {
    rule_sources()
        .filter(|(gate, _)| gate.feature() == feature)
        .map(|(_, source)| RuleFile::parse(source.path, source.text))
        .collect()
}

/// Every rule file, with its gate, in the order of [`rule_files`].
pub(super) fn rule_sources() -> impl Iterator<Item = (&'static dyn Gate, &'static RuleSource)> {
    GATES
        .iter()
        .flat_map(|gate| gate.rule_sources().iter().map(move |source| (*gate, source)))
}

/// The rules in Rust of all gates.
pub(super) fn rules() -> Vec<RuleInfo> {
    GATES.iter().flat_map(|gate| gate.rules()).collect()
}

/// A kind by its group and name; `None` for a kind without a gate.
pub(super) fn by_kind(group: &str, kind: &str) -> Option<&'static GatedKind> {
    KINDS
        .iter()
        .find(|gated| gated.kind.group == group && gated.kind.kind == kind)
}

impl GatedKind {
    /// Whether updates of the subresource `status` are judged.
    pub(super) fn judges_status(&self) -> bool {
        let (group, status) = (&self.kind.group, format!("{}/status", self.kind.plural));
        let routes = self.gate.routes();
        let mut validating = routes.iter().filter(|route| route.phase == Phase::Validate);
        validating.any(|route| route.group == *group && route.subresources.contains(&status))
    }

    /// Whether a mutating pass precedes the validating pass.
    pub(super) fn is_mutated(&self) -> bool {
        let routes = self.gate.routes();
        let mut mutating = routes.iter().filter(|route| route.phase == Phase::Mutate);
        mutating.any(|route| route.group == self.kind.group && route.resources.contains(&&*self.kind.plural))
    }
}

/// A kind by its group and plural; `None` for a kind without a gate.
pub(super) fn by_resource(group: &str, resource: &str) -> Option<&'static GatedKind> {
    KINDS
        .iter()
        .find(|gated| gated.kind.group == group && gated.kind.plural == resource)
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;
    use crate::admission::mirrored_kinds;
    use crate::api::kinds;

    #[test]
    fn every_gated_kind_is_in_the_kind_table_and_has_one_gate() {
        let titles: BTreeSet<String> = KINDS.iter().map(|gated| gated.kind.title()).collect();
        assert_eq!(titles.len(), KINDS.len());
        for gated in KINDS.iter() {
            let entry = kinds::find(&gated.kind.group, &gated.kind.kind).unwrap();
            assert_eq!(KindInfo::clone(&entry.kind), gated.kind);
        }
    }

    #[test]
    fn the_routes_and_rule_files_of_a_gate_are_about_its_kinds_and_about_all_of_them() {
        for gate in GATES {
            let kinds: BTreeSet<(String, String)> = gate
                .kinds()
                .iter()
                .map(|kind| (kind.group.to_string(), kind.plural.to_string()))
                .collect();
            let routed: BTreeSet<(String, String)> = gate
                .routes()
                .iter()
                .flat_map(|route| {
                    route
                        .resources
                        .iter()
                        .map(|plural| (route.group.to_owned(), (*plural).to_owned()))
                })
                .collect();
            assert_eq!(routed, kinds);
            // The rules of clusters are in Rust.
            let clusters = mirrored_kinds::clusters().filter(|kind| gate.kinds().contains(kind));
            let mut ruled: BTreeSet<(String, String)> = clusters
                .map(|kind| (kind.group.to_string(), kind.plural.to_string()))
                .collect();
            for source in gate.rule_sources() {
                for (group, kind) in RuleFile::parse(source.path, source.text).unwrap().kinds() {
                    let gated = by_kind(group, kind).unwrap();
                    ruled.insert((group.to_owned(), gated.kind.plural.to_string()));
                }
            }
            // The rules of KubeadmControlPlanes and of MachinePools are in Rust.
            let in_rust = [Feature::KubeadmControlPlane, Feature::MachinePools];
            assert!(ruled == kinds || in_rust.contains(&gate.feature()));
        }
    }
}
