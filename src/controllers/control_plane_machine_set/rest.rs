//! What a look came to rest on: a picture that differs from it only by the status that the look wrote says nothing new.
//!
//! Every status that is written comes back as a change of the caches, and half of all looks were looks at such echoes.
//! What a look does follows from what is compared here and from the time, and a look says until when the time does not
//! matter. So a look at an echo would plan the same, and write nothing.

use std::sync::Arc;

use capstan_core::admission::Snapshot;
use capstan_core::api::config_openshift_io::cluster_operator;
use capstan_core::api::machine_openshift_io::control_plane_machine_set::{
    ControlPlaneMachineSet, ControlPlaneMachineSetStatus,
};
use jiff::Timestamp;

use crate::controllers::caches::View;

/// A look that had nothing to do but to report, and could.
#[derive(Debug)]
pub(super) struct Rest {
    pub(super) snapshot: Arc<Snapshot>,
    pub(super) set: Arc<ControlPlaneMachineSet>,
    /// The status that the set has, or will have once the caches show it.
    pub(super) status: ControlPlaneMachineSetStatus,
    /// Whether the set acts.
    pub(super) active: bool,
    /// When it was looked.
    pub(super) looked: Timestamp,
    /// From when on time alone changes the answer.
    pub(super) at: Option<Timestamp>,
}

/// Whether every object could be read.
pub(super) fn is_readable(view: &View) -> bool {
    view.unreadable_machines.is_empty() && view.unreadable_sets.is_empty()
}

impl Rest {
    /// Whether a look would find nothing that the last one did not. What our ClusterOperator should say is for the
    /// caller to compare.
    pub(super) fn holds(&self, view: &View, set: &Arc<ControlPlaneMachineSet>, now: Timestamp) -> bool {
        let in_time = self.looked <= now && self.at.is_none_or(|at| now < at);
        in_time && is_readable(view) && self.shows_the_same(&view.snapshot) && self.is_echo(set)
    }

    /// The very same objects, but for sets and what Capstan says itself.
    fn shows_the_same(&self, now: &Snapshot) -> bool {
        let before = &self.snapshot;
        let machines = match (&before.machines, &now.machines) {
            (Some(before), Some(now)) => before.len() == now.len() && all_same(before.iter().zip(now)),
            _ => false,
        };
        let nodes = match (&before.nodes, &now.nodes) {
            (Some(before), Some(now)) => before.len() == now.len() && all_same(before.values().zip(now.values())),
            _ => false,
        };
        let etcd = |snapshot: &Snapshot| {
            snapshot
                .cluster_operators
                .as_ref()?
                .get(cluster_operator::ETCD)
                .cloned()
        };
        machines
            && nodes
            && same(etcd(before).as_ref(), etcd(now).as_ref())
            && same(before.infrastructure.as_ref(), now.infrastructure.as_ref())
            && same(before.feature_gate.as_ref(), now.feature_gate.as_ref())
    }

    /// The set that was looked at, with the status that was written.
    fn is_echo(&self, set: &Arc<ControlPlaneMachineSet>) -> bool {
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

fn all_same<'a, T: 'a>(mut pairs: impl Iterator<Item = (&'a Arc<T>, &'a Arc<T>)>) -> bool {
    pairs.all(|(before, now)| Arc::ptr_eq(before, now))
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
    use serde_json::json;

    use super::*;

    fn set(version: &str, generation: i64, updated: i64) -> Arc<ControlPlaneMachineSet> {
        let set = json!({
            "metadata": {"name": "cluster", "uid": "u", "resourceVersion": version, "generation": generation},
            "spec": {"replicas": 3}, "status": {"updatedReplicas": updated},
        });
        Arc::new(serde_json::from_value(set).unwrap())
    }

    fn view() -> View {
        let snapshot = Snapshot {
            machines: Some(vec![Arc::default()]),
            nodes: Some([("a".to_owned(), Arc::default())].into()),
            ..Snapshot::default()
        };
        View {
            snapshot: Arc::new(snapshot),
            ..View::default()
        }
    }

    fn at(second: i64) -> Timestamp {
        Timestamp::from_second(second).unwrap()
    }

    #[test]
    fn only_the_own_status_within_its_time_is_an_echo() {
        let view = view();
        let rest = Rest {
            snapshot: Arc::clone(&view.snapshot),
            set: set("1", 1, 0),
            status: set("2", 1, 3).status.clone().unwrap(),
            active: true,
            looked: at(10),
            at: Some(at(20)),
        };
        assert!(rest.holds(&view, &set("2", 1, 3), at(11)));
        assert!(!rest.holds(&view, &set("1", 1, 0), at(11)), "not written");
        assert!(!rest.holds(&view, &set("3", 1, 2), at(11)), "another status");
        assert!(!rest.holds(&view, &set("3", 2, 3), at(11)), "another spec");
        assert!(!rest.holds(&view, &set("2", 1, 3), at(20)), "too late");
        assert!(!rest.holds(&view, &set("2", 1, 3), at(9)), "the clock went back");
        let mut other = (*view.snapshot).clone();
        other.machines = Some(vec![Arc::default()]);
        let other = View {
            snapshot: Arc::new(other),
            ..View::default()
        };
        assert!(
            !rest.holds(&other, &set("2", 1, 3), at(11)),
            "another version of a machine"
        );
        let broken = View {
            unreadable_machines: [("a".to_owned(), "why".to_owned())].into(),
            ..view
        };
        assert!(!rest.holds(&broken, &set("2", 1, 3), at(11)));
    }
}
