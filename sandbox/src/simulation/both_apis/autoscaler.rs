//! The cluster autoscaler: it scales the authoritative MachineSet. Before it scales in, it marks
//! the Machine that the MachineSet deletes first.
//!
//! It acts some time after it read the MachineSet. Admission refuses a write to the MachineSet of
//! the other API, and the autoscaler then reads again.

use capstan_core::api::cluster_x_k8s_io::annotation::DELETE_MACHINE;
use capstan_core::api::machine_openshift_io::machine;
use capstan_core::authority::pair::FullObject;
use capstan_core::authority::spec::Api;
use serde_json::{Value, json};

use crate::api::Part;
use crate::simulation::engine::world::{Actor, World};

use super::objects::{MACHINE, SET, WORKERS};
use super::state::{BothApis, Event, is_owned, key, source};

const AUTOSCALER: Actor = Actor::Named("autoscaler");
/// The most Machines that the autoscaler asks for.
const MOST: u64 = 5;

/// The annotation with which the autoscaler marks a Machine of an API.
fn mark(api: Api) -> &'static str {
    match api {
        Api::MachineApi => machine::DELETE_MACHINE,
        Api::ClusterApi => DELETE_MACHINE,
    }
}

/// Whether a Machine is marked in its API.
pub(super) fn is_marked(machine: &FullObject, api: Api) -> bool {
    machine.annotation(mark(api)).is_some()
}

fn replicas(set: &FullObject) -> u64 {
    set.value.pointer("/spec/replicas").and_then(Value::as_u64).unwrap_or(1)
}

impl World<BothApis> {
    /// The autoscaler reads the MachineSet, and asks for one Machine more or less after a delay in
    /// milliseconds.
    pub(super) fn autoscale(&mut self, grows: bool, delay: i64) {
        if let Some((api, _)) = self.authoritative(SET, WORKERS) {
            self.schedule(delay, Event::Scale(api, grows, delay));
        }
    }

    /// The autoscaler acts on what it read.
    pub(super) fn scale_read_set(&mut self, api: Api, grows: bool, delay: i64) {
        let Some((now, set)) = self.authoritative(SET, WORKERS) else {
            return;
        };
        if now != api {
            return self.autoscale(grows, delay);
        }
        let wanted = match grows {
            true => (replicas(&set) + 1).min(MOST),
            false => replicas(&set).saturating_sub(1),
        };
        if !grows {
            self.mark_one(api, &set);
        }
        let patch = json!({"spec": {"replicas": wanted}});
        let _answer = self.patch(AUTOSCALER, &key(SET, api, WORKERS), Part::Main, patch);
    }

    /// Marks a Machine of the MachineSet. A mark of the other object of a Machine is refused.
    fn mark_one(&mut self, api: Api, set: &FullObject) {
        let names = self.names();
        let is_candidate = |name: &&String| {
            let machine = self.get(&key(MACHINE, api, name));
            let authority = self.machine(name).as_deref().and_then(source);
            machine.is_some_and(|machine| is_owned(&machine, set.uid()) && !machine.member.deleting)
                && authority == Some(api)
        };
        if let Some(name) = names.iter().find(is_candidate) {
            let patch = json!({"metadata": {"annotations": {(mark(api)): "autoscaler"}}});
            let _answer = self.patch(AUTOSCALER, &key(MACHINE, api, name), Part::Main, patch);
        }
    }
}
