//! What core reads of a view: the set, its machines, nodes and operators.

use std::sync::Arc;

use capstan_core::api::config_openshift_io::cluster_operator::{self, ClusterOperator};
use capstan_core::api::config_openshift_io::feature_gate::{self, FeatureGate};
use capstan_core::api::config_openshift_io::infrastructure::{self, Infrastructure};
use capstan_core::api::core_v1::config_map::{ConfigMap, ETCD_ENDPOINTS, ETCD_NAMESPACE};
use capstan_core::api::core_v1::node::Node;
use capstan_core::api::kinds;
use capstan_core::api::machine_openshift_io::control_plane_machine_set::{ControlPlaneMachineSet, NAME};
use capstan_core::api::machine_openshift_io::machine::{self, Machine};
use capstan_core::api::objects::{ByKey, Objects, Undecodable};
use capstan_core::cpms::etcd::voters;
use capstan_core::cpms::observed::{Observed, Unparsable};
use capstan_core::model::NamespacedName;

use crate::runtime::View;

/// The set of a namespace as a view shows it.
#[derive(Clone, Debug)]
pub(super) enum SetInView<'a> {
    /// No set exists.
    Absent,
    /// This one.
    Found(&'a Arc<ControlPlaneMachineSet>),
    /// One that cannot be decoded.
    Undecodable(&'a Undecodable),
}

/// The set of a namespace; `None` while it is not known whether there is one.
pub(super) fn set_in<'a>(view: &'a View, namespace: &str) -> Option<SetInView<'a>> {
    let known = view
        .objects
        .of::<ControlPlaneMachineSet>(&kinds::CONTROL_PLANE_MACHINE_SETS)?;
    let key = NamespacedName::new(namespace, NAME);
    if let Some(undecodable) = known.undecodable.get(&key) {
        return Some(SetInView::Undecodable(undecodable));
    }
    Some(match known.objects.get(&key) {
        Some(set) => SetInView::Found(set),
        None => SetInView::Absent,
    })
}

/// Whether everything is known that decisions about a set depend on.
pub(super) fn is_complete(view: &View) -> bool {
    let objects = &view.objects;
    view.synced
        && objects.of::<Machine>(&kinds::MACHINES).is_some()
        && objects.of::<Node>(&kinds::NODES).is_some()
        && objects.of::<ClusterOperator>(&kinds::CLUSTER_OPERATORS).is_some()
}

/// Whether every machine and every set could be decoded.
pub(super) fn is_decodable(objects: &Objects) -> bool {
    let machines = objects.of::<Machine>(&kinds::MACHINES);
    let sets = objects.of::<ControlPlaneMachineSet>(&kinds::CONTROL_PLANE_MACHINE_SETS);
    machines.is_none_or(|known| known.undecodable.is_empty()) && sets.is_none_or(|known| known.undecodable.is_empty())
}

/// The set of a namespace, if there is one that can be decoded.
pub fn control_plane_machine_set<'a>(view: &'a View, namespace: &str) -> Option<&'a Arc<ControlPlaneMachineSet>> {
    match set_in(view, namespace)? {
        SetInView::Found(set) => Some(set),
        SetInView::Absent | SetInView::Undecodable(_) => None,
    }
}

/// All sets that can be decoded, and why the set of the one valid name cannot be.
pub fn control_plane_machine_sets(view: &View) -> (Vec<Arc<ControlPlaneMachineSet>>, Option<&str>) {
    let known = view
        .objects
        .of::<ControlPlaneMachineSet>(&kinds::CONTROL_PLANE_MACHINE_SETS);
    let Some(known) = known else {
        return (Vec::new(), None);
    };
    let mut undecodable = known.undecodable.iter().filter(|(key, _)| key.name == NAME);
    let reason = undecodable.next().map(|(_, undecodable)| undecodable.reason.as_str());
    (known.objects.values().cloned().collect(), reason)
}

/// The FeatureGate of the cluster.
pub(super) fn feature_gate(objects: &Objects) -> Option<&Arc<FeatureGate>> {
    objects.get(&kinds::FEATURE_GATES, "", feature_gate::NAME)
}

/// The Infrastructure of the cluster.
pub(super) fn infrastructure(objects: &Objects) -> Option<&Arc<Infrastructure>> {
    objects.get(&kinds::INFRASTRUCTURES, "", infrastructure::NAME)
}

/// Whether the cluster serves ClusterOperators; false also while that is unknown.
pub(super) fn serves_cluster_operators(objects: &Objects) -> bool {
    let known = objects.of::<ClusterOperator>(&kinds::CLUSTER_OPERATORS);
    known.is_some_and(|known| known.served)
}

/// The operator of etcd. One that cannot be decoded reports nothing, which is not the same as an
/// operator that reports health, or as no operator.
pub(super) fn etcd(objects: &Objects) -> Option<Arc<ClusterOperator>> {
    let known = objects.of::<ClusterOperator>(&kinds::CLUSTER_OPERATORS)?;
    let key = NamespacedName::new("", cluster_operator::ETCD);
    let silent = || known.undecodable.contains_key(&key).then(Arc::default);
    known.objects.get(&key).cloned().or_else(silent)
}

/// What a view shows, as core reads it.
pub fn observed(view: &View) -> Observed {
    let objects = &view.objects;
    let machines = objects.of::<Machine>(&kinds::MACHINES);
    let undecodable = machines.map(|known| unparsable(machine::KIND, &known.undecodable));
    Observed {
        machines: machines
            .map(|known| known.objects.values().cloned().collect())
            .unwrap_or_default(),
        nodes: objects
            .all::<Node>(&kinds::NODES)
            .into_iter()
            .flatten()
            .cloned()
            .collect(),
        infrastructure: infrastructure(objects).cloned(),
        etcd: etcd(objects),
        voters: objects
            .get::<ConfigMap>(&kinds::CONFIG_MAPS, ETCD_NAMESPACE, ETCD_ENDPOINTS)
            .map(|endpoints| voters(endpoints)),
        unparsable: undecodable.unwrap_or_default(),
        ..Observed::default()
    }
}

fn unparsable(kind: &str, objects: &ByKey<Undecodable>) -> Vec<Unparsable> {
    let objects = objects.iter().map(|(key, undecodable)| Unparsable {
        kind: kind.to_owned(),
        name: key.name.clone(),
        message: undecodable.reason.clone(),
    });
    objects.collect()
}

#[cfg(test)]
mod tests {
    use capstan_core::api::objects::KindObjects;
    use serde_json::json;

    use super::*;

    #[test]
    fn an_undecodable_operator_of_etcd_exists_and_reports_nothing() {
        let mut objects = Objects::default();
        assert_eq!(etcd(&objects), None);
        let mut known: KindObjects<ClusterOperator> = KindObjects::default();
        let undecodable = Undecodable {
            reason: "expected a sequence".to_owned(),
            raw: Arc::new(json!({"status": {"conditions": "healthy"}})),
        };
        known.undecodable = Arc::new([(NamespacedName::new("", "etcd"), undecodable)].into_iter().collect());
        objects.insert(&kinds::CLUSTER_OPERATORS, known);
        assert!(etcd(&objects).unwrap().status.conditions.is_empty());
    }
}
