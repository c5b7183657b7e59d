//! What the last reconcile was based on, if it had nothing to do.
//!
//! Half of all changes that the caches show are the status that Capstan wrote itself. Such a change
//! does not trigger a reconcile: with equal inputs, and before time alone changes the answer, a
//! reconcile would plan the same and write nothing.

use std::sync::Arc;

use capstan_core::api::core_v1::node::Node;
use capstan_core::api::kind::KindInfo;
use capstan_core::api::kinds;
use capstan_core::api::machine_openshift_io::control_plane_machine_set::{
    ControlPlaneMachineSet, ControlPlaneMachineSetStatus,
};
use capstan_core::api::machine_openshift_io::machine::Machine;
use capstan_core::api::objects::{CachedObject, Index, Objects};
use jiff::Timestamp;

use crate::controllers::observed::{etcd, feature_gate, infrastructure, is_decodable};
use crate::runtime::View;

/// A reconcile that only had to report, and could.
#[derive(Debug)]
pub(super) struct Idle {
    pub(super) objects: Objects,
    pub(super) set: Arc<ControlPlaneMachineSet>,
    /// The status that the set has, or will have once the caches show it.
    pub(super) status: ControlPlaneMachineSetStatus,
    /// Whether the set is active.
    pub(super) active: bool,
    /// When it was reconciled.
    pub(super) reconciled: Timestamp,
    /// From when on time alone changes the answer.
    pub(super) at: Option<Timestamp>,
}

impl Idle {
    /// Whether a reconcile would find nothing new. The caller compares the ClusterOperator.
    pub(super) fn holds(&self, view: &View, set: &Arc<ControlPlaneMachineSet>, now: Timestamp) -> bool {
        let in_time = self.reconciled <= now && self.at.is_none_or(|at| now < at);
        in_time && is_decodable(&view.objects) && self.shows_the_same(&view.objects) && self.is_own_status(set)
    }

    /// Whether the very same objects are shown, apart from sets and our ClusterOperator.
    fn shows_the_same(&self, now: &Objects) -> bool {
        let before = &self.objects;
        same_objects::<Machine>(before, now, &kinds::MACHINES)
            && same_objects::<Node>(before, now, &kinds::NODES)
            && same(etcd(before).as_ref(), etcd(now).as_ref())
            && same(infrastructure(before), infrastructure(now))
            && same(feature_gate(before), feature_gate(now))
    }

    /// Whether the set is the one that was reconciled, with the status that was written.
    fn is_own_status(&self, set: &Arc<ControlPlaneMachineSet>) -> bool {
        let (before, now) = (&self.set.metadata, &set.metadata);
        set.status.as_ref() == Some(&self.status)
            && (Arc::ptr_eq(&self.set, set)
                || (before.uid == now.uid
                    && before.generation == now.generation
                    && before.deletion_timestamp == now.deletion_timestamp
                    && before.finalizers == now.finalizers
                    && before.annotations == now.annotations
                    && self.set.spec == set.spec))
    }
}

fn same_objects<T: CachedObject>(before: &Objects, now: &Objects, kind: &KindInfo) -> bool {
    let (Some(before), Some(now)) = (before.of::<T>(kind), now.of::<T>(kind)) else {
        return false;
    };
    Arc::ptr_eq(&before.objects, &now.objects) || same_entries(&before.objects, &now.objects)
}

fn same_entries<T>(before: &Index<T>, now: &Index<T>) -> bool {
    let mut pairs = before.iter().zip(now.iter());
    before.size() == now.size() && pairs.all(|(before, now)| before.0 == now.0 && Arc::ptr_eq(before.1, now.1))
}

fn same<T>(before: Option<&Arc<T>>, now: Option<&Arc<T>>) -> bool {
    match (before, now) {
        (Some(before), Some(now)) => Arc::ptr_eq(before, now),
        (None, None) => true,
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use capstan_core::api::objects::{KindObjects, Undecodable};
    use capstan_core::model::NamespacedName;
    use serde_json::{Value, json};

    use super::*;

    fn set(version: &str, generation: i64, updated: i64) -> Arc<ControlPlaneMachineSet> {
        let set = json!({
            "metadata": {"name": "cluster", "uid": "u", "resourceVersion": version, "generation": generation},
            "spec": {"replicas": 3}, "status": {"updatedReplicas": updated},
        });
        Arc::new(serde_json::from_value(set).unwrap())
    }

    fn view() -> View {
        let key = NamespacedName::new("", "a");
        let mut view = View::default();
        let machines: KindObjects<Machine> = [(key.clone(), Arc::default())].into_iter().collect();
        view.objects.insert(&kinds::MACHINES, machines);
        let nodes: KindObjects<Node> = [(key, Arc::default())].into_iter().collect();
        view.objects.insert(&kinds::NODES, nodes);
        view
    }

    fn at(second: i64) -> Timestamp {
        Timestamp::from_second(second).unwrap()
    }

    #[test]
    fn only_the_own_status_before_its_deadline_changes_nothing() {
        let view = view();
        let idle = Idle {
            objects: view.objects.clone(),
            set: set("1", 1, 0),
            status: set("2", 1, 3).status.clone().unwrap(),
            active: true,
            reconciled: at(10),
            at: Some(at(20)),
        };
        assert!(idle.holds(&view, &set("2", 1, 3), at(11)));
        assert!(!idle.holds(&view, &set("1", 1, 0), at(11)), "not written");
        assert!(!idle.holds(&view, &set("3", 1, 2), at(11)), "another status");
        assert!(!idle.holds(&view, &set("3", 2, 3), at(11)), "another spec");
        assert!(!idle.holds(&view, &set("2", 1, 3), at(20)), "too late");
        assert!(!idle.holds(&view, &set("2", 1, 3), at(9)), "the clock went back");
        let mut other = view.clone();
        let machines = [(NamespacedName::new("", "a"), Arc::<Machine>::default())];
        other.objects.insert(&kinds::MACHINES, machines.into_iter().collect());
        assert!(
            !idle.holds(&other, &set("2", 1, 3), at(11)),
            "another version of a machine"
        );
        let mut broken = view.clone();
        let mut machines = view.objects.of::<Machine>(&kinds::MACHINES).cloned().unwrap();
        let undecodable = Undecodable {
            reason: "why".to_owned(),
            raw: Arc::new(Value::Null),
        };
        machines.undecodable = Arc::new([(NamespacedName::new("", "b"), undecodable)].into_iter().collect());
        broken.objects.insert(&kinds::MACHINES, machines);
        assert!(!idle.holds(&broken, &set("2", 1, 3), at(11)));
    }
}
