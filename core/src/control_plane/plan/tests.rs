//! Plans in a simulated cluster: machines, nodes, and etcd with its operator.
//!
//! The operator adds a member for each ready node, first as a member that has not started. It
//! removes the member of a machine that is being deleted once etcd has more members than replicas
//! and keeps its quorum; then the machine disappears.

mod health_check;
mod members;
mod properties;
mod protections;
mod spread;

use std::sync::Arc;

use jiff::Timestamp;
use serde_json::{Value, json};

use super::*;
use crate::control_plane::degraded::FOREIGN;
use crate::control_plane::samples::control_plane;
use crate::control_plane::spec::parse;
use crate::cpms::created_from::CREATED_FROM;
use crate::cpms::observed::Observed;
use crate::cpms::spec::ParseContext;

/// The etcd member of a machine.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Member {
    None,
    Unstarted,
    Healthy,
    Unhealthy,
}

#[derive(Clone, Debug)]
struct Host {
    machine: Value,
    ready: bool,
    member: Member,
}

impl Host {
    fn name(&self) -> &str {
        self.machine["metadata"]["name"].as_str().unwrap()
    }

    fn is_deleting(&self) -> bool {
        self.machine["metadata"].get("deletionTimestamp").is_some()
    }
}

/// The cluster around a ControlPlane.
#[derive(Clone, Debug)]
struct World {
    object: Value,
    hosts: Vec<Host>,
    /// The voting members whose machine and node are gone.
    lost: Vec<String>,
    clock: i64,
}

impl World {
    /// A settled control plane of this size.
    fn settled(replicas: i64) -> Self {
        let mut world = Self {
            object: control_plane(replicas),
            hosts: Vec::new(),
            lost: Vec::new(),
            clock: 0,
        };
        world.settle();
        assert_eq!(world.hosts.len(), usize::try_from(replicas).unwrap());
        world
    }

    fn spec(&self) -> Spec {
        let object = serde_json::from_value(self.object.clone()).unwrap();
        parse(&object, "ocp-x7k2p", &ParseContext::default()).unwrap()
    }

    fn report(&self) -> String {
        let count = |member: Member| self.hosts.iter().filter(|one| one.member == member).count();
        let healthy = count(Member::Healthy);
        let all = healthy + count(Member::Unstarted) + count(Member::Unhealthy);
        if healthy == all {
            return format!("{all} members are available");
        }
        let mut text = format!("{healthy} of {all} members are available");
        text.push_str(&", a has not started".repeat(count(Member::Unstarted)));
        for one in self.hosts.iter().filter(|one| one.member == Member::Unhealthy) {
            text.push_str(&format!(", {} is unhealthy", one.name()));
        }
        text
    }

    fn observed(&self) -> Observed {
        let nodes = self.hosts.iter().map(|one| {
            let status = if one.ready { "True" } else { "False" };
            let node = json!({"apiVersion": "v1", "kind": "Node", "metadata": {"name": one.name()},
                "status": {"conditions": [{"type": "Ready", "status": status}]}});
            Arc::new(serde_json::from_value(node).unwrap())
        });
        let message = format!("EtcdMembersAvailable: {}", self.report());
        let etcd = json!({"metadata": {"name": "etcd"}, "status": {"conditions": [
            {"type": "Available", "status": "True", "message": message}, {"type": "Degraded", "status": "False"}]}});
        let machines = self
            .hosts
            .iter()
            .map(|one| serde_json::from_value(one.machine.clone()).unwrap());
        Observed {
            machines: machines.map(Arc::new).collect(),
            nodes: nodes.collect(),
            etcd: Some(Arc::new(serde_json::from_value(etcd).unwrap())),
            ..Observed::default()
        }
    }

    fn state(&self) -> State {
        State::observe(&self.spec(), self.observed())
    }

    fn plan(&self) -> Plan {
        plan(&self.spec(), &self.state())
    }

    fn now(&mut self) -> Timestamp {
        self.clock += 60;
        Timestamp::from_second(1_700_000_000 + self.clock).unwrap()
    }

    /// Executes a plan. Returns its steps as text.
    fn execute(&mut self, plan: &Plan) -> Vec<String> {
        let mut done = Vec::new();
        for step in &plan.steps {
            let at = self.now().to_string();
            let name = step.subject.name.clone();
            match &step.action {
                Action::Create { machine, .. } => {
                    let mut machine = serde_json::to_value(machine).unwrap();
                    machine["metadata"]["uid"] = json!(format!("uid-{at}"));
                    machine["metadata"]["creationTimestamp"] = json!(at);
                    machine["status"] = json!({"nodeRef": {"kind": "Node", "name": name}});
                    assert!(self.hosts.iter().all(|one| one.name() != name), "a name is used twice");
                    self.hosts.push(Host {
                        machine,
                        ready: false,
                        member: Member::None,
                    });
                }
                Action::Delete { .. } => self.delete(&name),
                Action::Patch { patch, .. } => {
                    let mut patch = patch.clone();
                    patch["metadata"].as_object_mut().unwrap().remove("resourceVersion");
                    json_patch::merge(&mut self.named(&name).machine, &patch);
                }
                Action::PatchSet(patch) | Action::Records(patch) => {
                    let mut patch = patch.clone();
                    patch["metadata"].as_object_mut().unwrap().remove("resourceVersion");
                    json_patch::merge(&mut self.object, &patch);
                }
            }
            done.push(format!("{} {}", step.verb(), name.rsplit('-').next().unwrap()));
        }
        done
    }

    fn named(&mut self, name: &str) -> &mut Host {
        self.hosts.iter_mut().find(|one| one.name() == name).unwrap()
    }

    fn delete(&mut self, name: &str) {
        let at = self.now().to_string();
        let metadata = self.named(name).machine["metadata"].as_object_mut().unwrap();
        metadata.entry("deletionTimestamp").or_insert(json!(at));
    }

    /// The voting members, and the healthy ones of them.
    fn voting(&self) -> (usize, usize) {
        let count = |member: Member| self.hosts.iter().filter(|one| one.member == member).count();
        (
            count(Member::Healthy) + count(Member::Unhealthy),
            count(Member::Healthy),
        )
    }

    /// Whether etcd has its quorum; an etcd without members has none to lose.
    fn has_quorum(&self) -> bool {
        let (voting, healthy) = self.voting();
        voting == 0 || healthy > voting / 2
    }

    /// The next change of the machines of one host, by number. Returns whether something changed.
    fn progress(&mut self, position: usize) -> bool {
        let replicas = usize::try_from(self.object["spec"]["replicas"].as_i64().unwrap()).unwrap();
        let (voting, healthy) = self.voting();
        let Some(one) = self.hosts.get_mut(position) else {
            return false;
        };
        let is_deleting = one.machine["metadata"].get("deletionTimestamp").is_some();
        match (one.ready, one.member) {
            (_, Member::Healthy | Member::Unhealthy) if is_deleting => {
                let rest = healthy - usize::from(one.member == Member::Healthy);
                // The operator keeps a member that is needed.
                if voting <= replicas || rest <= (voting - 1) / 2 {
                    return false;
                }
                self.hosts.remove(position);
            }
            (_, Member::None | Member::Unstarted) if is_deleting => drop(self.hosts.remove(position)),
            (false, Member::None) => one.ready = true,
            (true, Member::None) => one.member = Member::Unstarted,
            (true, Member::Unstarted) => one.member = Member::Healthy,
            // The MachineHealthCheck deletes an unhealthy machine.
            (false, Member::Unhealthy) => {
                let name = one.name().to_owned();
                self.delete(&name);
            }
            _ => return false,
        }
        true
    }

    /// Runs the controller and the cluster until nothing changes. Returns the steps.
    fn settle(&mut self) -> Vec<String> {
        let mut steps = Vec::new();
        for _ in 0..500 {
            let plan = self.plan();
            assert!(plan.degraded.is_empty(), "{:?}", plan.degraded);
            let done = self.execute(&plan);
            let moved = (0..self.hosts.len()).any(|position| self.progress(position));
            assert!(self.has_quorum(), "{self:?}");
            if done.is_empty() && !moved {
                return steps;
            }
            steps.extend(done);
        }
        panic!("it does not settle: {:?}", self.plan());
    }

    fn zones(&self) -> Vec<&str> {
        let mut zones: Vec<&str> = self
            .hosts
            .iter()
            .map(|one| {
                let placement = &one.machine["spec"]["providerSpec"]["value"]["placement"];
                placement["availabilityZone"].as_str().unwrap()
            })
            .collect();
        zones.sort_unstable();
        zones
    }
}

fn verbs(steps: &[String]) -> Vec<&str> {
    steps.iter().map(|step| step.split(' ').next().unwrap()).collect()
}

#[test]
fn a_control_plane_grows_and_shrinks_one_machine_at_a_time_and_stays_spread() {
    let mut world = World::settled(1);
    for (replicas, steps, most_in_a_zone) in [
        (3, "create create", 1),
        (5, "create create", 2),
        (7, "create create", 3),
    ] {
        world.object["spec"]["replicas"] = json!(replicas);
        assert_eq!(verbs(&world.settle()).join(" "), steps);
        let zones = world.zones();
        let most = zones
            .iter()
            .map(|zone| zones.iter().filter(|other| *other == zone).count())
            .max();
        assert_eq!(most, Some(most_in_a_zone), "{zones:?}");
    }
    for (replicas, zones) in [(5, 2), (3, 1), (1, 1)] {
        world.object["spec"]["replicas"] = json!(replicas);
        assert_eq!(verbs(&world.settle()), ["delete", "delete"]);
        let found = world.zones();
        let most = found
            .iter()
            .map(|zone| found.iter().filter(|other| *other == zone).count())
            .max();
        assert_eq!(most, Some(zones), "{found:?}");
    }
}

#[test]
fn the_oldest_machine_of_the_fullest_failure_domain_leaves() {
    let mut world = World::settled(5);
    let (first, zones) = (world.hosts[0].name().to_owned(), world.zones());
    assert_eq!(
        zones,
        ["us-east-1a", "us-east-1a", "us-east-1b", "us-east-1b", "us-east-1c"]
    );
    world.object["spec"]["replicas"] = json!(3);
    let next = world.plan();
    assert_eq!(next.steps[0].subject.name, first);
    assert_eq!(
        next.steps[0].precondition.as_ref().unwrap().uid,
        world.hosts[0].machine["metadata"]["uid"]
    );
}

#[test]
fn an_outdated_machine_is_marked_and_replaced_with_one_machine_more() {
    let mut world = World::settled(3);
    world.object["spec"]["providerSpec"]["value"]["instanceType"] = json!("m6i.2xlarge");
    let steps = world.settle();
    assert_eq!(verbs(&steps).join(" "), ["patch create delete"; 3].join(" "));
    assert_eq!(world.zones(), ["us-east-1a", "us-east-1b", "us-east-1c"]);
    assert!(
        world
            .state()
            .machines
            .iter()
            .all(|machine| machine.is_current() && !machine.is_marked)
    );
    assert!(world.plan().steps.is_empty() && world.plan().waits.is_empty());
}

#[test]
fn an_edit_of_shape_and_number_never_has_fewer_machines_than_the_smaller_number() {
    for (before, after) in [(3, 5), (5, 3), (3, 7), (7, 1)] {
        let mut world = World::settled(before);
        world.object["spec"]["replicas"] = json!(after);
        world.object["spec"]["providerSpec"]["value"]["instanceType"] = json!("m6i.2xlarge");
        world.object["metadata"]["annotations"] = json!({(ACKNOWLEDGED): RISK});
        let least = usize::try_from(before.min(after)).unwrap();
        for _ in 0..400 {
            let next = world.plan();
            world.execute(&next);
            let _moved = (0..world.hosts.len()).any(|position| world.progress(position));
            let healthy = world.voting().1;
            assert!(healthy >= least && world.has_quorum(), "{before} to {after}: {healthy}");
        }
        let state = world.state();
        assert_eq!(state.machines.len(), usize::try_from(after).unwrap());
        assert!(state.machines.iter().all(MachineState::is_current));
    }
}

#[test]
fn the_only_machine_is_replaced_after_an_acknowledgement() {
    let mut world = World::settled(1);
    world.object["spec"]["providerSpec"]["value"]["instanceType"] = json!("m6i.2xlarge");
    assert_eq!(world.plan().waits[0].reason, WaitReason::Acknowledgement);
    assert_eq!(world.settle(), [""; 0]);
    world.object["metadata"]["annotations"] = json!({(ACKNOWLEDGED): "yes"});
    assert_eq!(world.settle(), [""; 0], "it must name the risk");
    world.object["metadata"]["annotations"] = json!({(ACKNOWLEDGED): RISK});
    assert_eq!(verbs(&world.settle()), ["patch", "create", "delete"]);
}

#[test]
fn a_learner_and_a_member_that_has_not_started_stop_the_next_step() {
    for replicas in [3, 5] {
        let mut world = World::settled(1);
        world.object["spec"]["replicas"] = json!(replicas);
        let first = world.plan();
        assert_eq!(world.execute(&first), ["create 1"]);
        for member in [Member::None, Member::Unstarted] {
            let one = world.hosts.last_mut().unwrap();
            (one.ready, one.member) = (true, member);
            let next = world.plan();
            assert!(next.steps.is_empty(), "{member:?}");
            assert_eq!(next.waits[0].reason, WaitReason::EtcdMembers, "{member:?}");
        }
        world.hosts.last_mut().unwrap().ready = false;
        assert_eq!(world.plan().waits[0].reason, WaitReason::MachineReady);
    }
}

#[test]
fn one_failed_machine_is_repaired_and_two_wait_for_a_user() {
    let mut world = World::settled(3);
    let broken = |world: &mut World, position: usize| {
        let one = &mut world.hosts[position];
        (one.ready, one.member) = (false, Member::Unhealthy);
    };
    broken(&mut world, 0);
    assert_eq!(world.plan().waits[0].reason, WaitReason::MachineReady);
    let zones = world.zones().join(" ");
    assert_eq!(
        verbs(&world.settle()),
        ["create"],
        "the health check deletes the machine"
    );
    assert_eq!((world.hosts.len(), world.zones().join(" ")), (3, zones));
    let mut world = World::settled(5);
    for position in [1, 3] {
        broken(&mut world, position);
        let name = world.hosts[position].name().to_owned();
        world.delete(&name);
    }
    let next = world.plan();
    assert!(next.steps.is_empty());
    assert_eq!(next.waits[0].reason, WaitReason::EtcdQuorum);
}

/// The healthy member of a machine that is not known must not be counted as that of a machine whose
/// member is not healthy.
#[test]
fn the_unhealthy_member_of_a_standing_machine_is_no_lost_member() {
    let mut world = World::settled(3);
    let metadata = world.hosts[1].machine["metadata"].as_object_mut().unwrap();
    for field in ["labels", "ownerReferences", "annotations"] {
        metadata.remove(field);
    }
    world.hosts[2].member = Member::Unhealthy;
    let next = world.plan();
    assert!(next.disruptive().is_none(), "{next:?}");
    assert_eq!(next.waits[0].reason, WaitReason::EtcdHealthy, "{next:?}");
    assert!(next.waits[0].message.contains(world.hosts[2].name()));
}

#[test]
fn v212_a_machine_that_is_being_deleted_names_the_finalizers_that_hold_it() {
    let mut world = World::settled(3);
    let name = world.hosts[0].name().to_owned();
    world.delete(&name);
    world.named(&name).machine["metadata"]["finalizers"] = json!(["sync.machine.openshift.io/finalizer"]);
    for _ in 0..20 {
        let plan = world.plan();
        let mut waits = plan.waits.iter().map(|wait| wait.message.as_str());
        if let Some(message) = waits.find(|message| message.contains("is being deleted")) {
            let held =
                format!("machine {name} is being deleted; held by the finalizer sync.machine.openshift.io/finalizer");
            assert_eq!(message, held);
            return;
        }
        world.execute(&plan);
        // The deleted machine stays.
        for position in 1..world.hosts.len() {
            world.progress(position);
        }
    }
    panic!("no wait names the machine");
}

/// The member of a machine that is being deleted must not be counted as that of a new machine.
#[test]
fn the_member_of_a_leaving_machine_is_not_taken_for_that_of_a_new_one() {
    let mut world = World::settled(3);
    let name = world.hosts[0].name().to_owned();
    world.delete(&name);
    world.object["spec"]["replicas"] = json!(5);
    let first = world.plan();
    assert_eq!(verbs(&world.execute(&first)), ["create"]);
    world.hosts.last_mut().unwrap().ready = true;
    let next = world.plan();
    assert!(next.steps.is_empty());
    assert_eq!(next.waits[0].reason, WaitReason::EtcdMembers);
}

#[test]
fn an_unreadable_report_of_etcd_allows_no_step() {
    let mut world = World::settled(3);
    for replicas in [1, 5] {
        world.object["spec"]["replicas"] = json!(replicas);
        let mut observed = world.observed();
        for operator in [None, Some(Arc::default())] {
            observed.etcd = operator;
            let state = State::observe(&world.spec(), observed.clone());
            let next = plan(&world.spec(), &state);
            assert!(next.steps.is_empty());
            assert_eq!(next.waits[0].reason, WaitReason::EtcdHealthy);
        }
    }
}

#[test]
fn machines_without_a_controller_are_adopted_and_others_are_left_alone() {
    let mut world = World::settled(3);
    world.hosts[1].machine["metadata"]
        .as_object_mut()
        .unwrap()
        .remove("ownerReferences");
    let next = world.plan();
    assert_eq!(verbs(&world.execute(&next)), ["patch"]);
    assert!(world.plan().steps.is_empty());
    world.hosts[1].machine["metadata"]["ownerReferences"] = json!([{"apiVersion": "machine.openshift.io/v1",
        "kind": "ControlPlaneMachineSet", "name": "cluster", "uid": "other", "controller": true}]);
    world.object["spec"]["replicas"] = json!(5);
    let next = world.plan();
    assert!(next.steps.is_empty());
    assert_eq!(next.degraded[0].reason, FOREIGN);
    // A worker is no machine of the control plane.
    let mut world = World::settled(3);
    let mut worker = world.hosts[0].machine.clone();
    worker["metadata"]["name"] = json!("worker");
    worker["metadata"]["labels"] = json!({"machine.openshift.io/cluster-api-machine-role": "worker"});
    world.hosts.push(Host {
        machine: worker,
        ready: true,
        member: Member::None,
    });
    assert!(world.plan().steps.is_empty());
}

#[test]
fn a_machine_that_was_created_from_the_template_is_never_outdated() {
    let mut world = World::settled(3);
    for one in &mut world.hosts {
        one.machine["spec"]["providerSpec"]["value"]["instanceType"] = json!("changed-by-a-webhook");
    }
    assert!(world.plan().steps.is_empty());
    for one in &mut world.hosts {
        one.machine["metadata"]["annotations"]
            .as_object_mut()
            .unwrap()
            .remove(CREATED_FROM);
    }
    assert!(world.plan().disruptive().is_some(), "an adopted machine has no record");
}

#[test]
fn a_control_plane_that_is_being_deleted_changes_no_machine() {
    let mut world = World::settled(3);
    world.object["spec"]["replicas"] = json!(5);
    world.object["metadata"]["deletionTimestamp"] = json!("2026-01-01T00:00:00Z");
    assert!(world.plan().steps.is_empty());
}
