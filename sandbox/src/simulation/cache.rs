//! The caches of one replica: every kind lags by itself, can stand still, and can go back in time when it is read anew.

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;

use capstan::controllers::View;
use capstan_core::admission::{Snapshot, Source};
use capstan_core::api::config_openshift_io::cluster_operator::ClusterOperator;
use capstan_core::api::core_v1::node::Node;
use capstan_core::api::machine_openshift_io::control_plane_machine_set::ControlPlaneMachineSet;
use capstan_core::api::machine_openshift_io::machine::Machine;

use super::objects::{Sort, Typed};

/// Something that a watch says; `None`: the object is gone.
type News = (i64, String, Option<Typed>);

/// What a replica knows.
#[derive(Debug, Default)]
pub(super) struct Cache {
    machines: BTreeMap<String, Arc<Machine>>,
    sets: BTreeMap<String, Arc<ControlPlaneMachineSet>>,
    nodes: BTreeMap<String, Arc<Node>>,
    operators: BTreeMap<String, Arc<ClusterOperator>>,
    queues: [VecDeque<News>; 4],
    /// Nothing of a kind comes before this time.
    frozen: [i64; 4],
    view: Option<Arc<View>>,
}

impl Cache {
    /// Something happened; this replica hears of it at `due`, or once the kind moves again. Returns when.
    pub(super) fn push(&mut self, sort: Sort, due: i64, name: &str, typed: Option<Typed>) -> i64 {
        let at = sort.position();
        let frozen = self.frozen.get(at).copied().unwrap_or_default();
        let Some(queue) = self.queues.get_mut(at) else {
            return due;
        };
        let due = due.max(frozen).max(queue.back().map_or(0, |last| last.0));
        queue.push_back((due, name.to_owned(), typed));
        due
    }

    /// A kind stands still until a time.
    pub(super) fn freeze(&mut self, sort: Sort, until: i64) {
        if let Some(frozen) = self.frozen.get_mut(sort.position()) {
            *frozen = until.max(*frozen);
        }
        if let Some(queue) = self.queues.get_mut(sort.position()) {
            for news in queue {
                news.0 = news.0.max(until);
            }
        }
    }

    /// Takes in what is due. Returns whether anything was, and when the next is.
    pub(super) fn deliver(&mut self, sort: Sort, now: i64) -> (bool, Option<i64>) {
        let mut any = false;
        loop {
            let Some(queue) = self.queues.get_mut(sort.position()) else {
                return (any, None);
            };
            match queue.front() {
                Some((due, ..)) if *due <= now => {}
                next => return (any, next.map(|(due, ..)| *due)),
            }
            if let Some((_, name, typed)) = queue.pop_front() {
                self.put(sort, name, typed);
                any = true;
                self.view = None;
            }
        }
    }

    /// Everything of a kind, as one read gave it. What was still on its way is forgotten: the read is as new as it is.
    pub(super) fn replace(&mut self, sort: Sort, all: Vec<(String, Typed)>) {
        match sort {
            Sort::Machine => self.machines.clear(),
            Sort::Set => self.sets.clear(),
            Sort::Node => self.nodes.clear(),
            Sort::Operator => self.operators.clear(),
        }
        if let Some(queue) = self.queues.get_mut(sort.position()) {
            queue.clear();
        }
        for (name, typed) in all {
            self.put(sort, name, Some(typed));
        }
        self.view = None;
    }

    fn put(&mut self, sort: Sort, name: String, typed: Option<Typed>) {
        match typed {
            Some(Typed::Machine(machine)) => drop(self.machines.insert(name, machine)),
            Some(Typed::Set(set)) => drop(self.sets.insert(name, set)),
            Some(Typed::Node(node)) => drop(self.nodes.insert(name, node)),
            Some(Typed::Operator(operator)) => drop(self.operators.insert(name, operator)),
            None => match sort {
                Sort::Machine => drop(self.machines.remove(&name)),
                Sort::Set => drop(self.sets.remove(&name)),
                Sort::Node => drop(self.nodes.remove(&name)),
                Sort::Operator => drop(self.operators.remove(&name)),
            },
        }
    }

    /// What the controller is shown.
    pub(super) fn view(&mut self) -> Arc<View> {
        if let Some(view) = &self.view {
            return Arc::clone(view);
        }
        let snapshot = Snapshot {
            source: Source::Cluster,
            machines: Some(self.machines.values().cloned().collect()),
            nodes: Some(self.nodes.clone()),
            cluster_operators: Some(self.operators.clone()),
            control_plane_machine_sets: Some(self.sets.values().cloned().collect()),
            ..Snapshot::default()
        };
        let view = Arc::new(View {
            snapshot: Arc::new(snapshot),
            machine_sets: Some(Vec::new()),
            serves_cluster_operators: true,
            known: true,
            ..View::default()
        });
        self.view = Some(Arc::clone(&view));
        view
    }
}
