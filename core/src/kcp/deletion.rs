//! Whether etcd needs the member of a control plane Machine for its quorum.
//!
//! The controller writes the answer to the Machine, and the policy
//! `capstan-control-plane-machines` refuses the deletion of a Machine with the annotation. Without
//! the refusal, the deletion would be accepted, and would wait at the hook of the Machine until
//! etcd recovers. This module must never decide about a step: the members are read again before
//! each one.

use jiff::{SignedDuration, Timestamp};
use serde_json::{Map, Value, json};

use super::state::{MachineState, State, condition};
use super::{membership, safety};
use crate::model::MembershipChange;

pub use super::state::REQUIRED;

/// How long etcd must be healthy before the annotation is removed. A member whose health changes
/// every few seconds would otherwise change the other Machines as often.
const RECOVERED: SignedDuration = SignedDuration::from_secs(60);

/// Whether a Machine may be deleted as far as etcd is concerned.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Need {
    /// Everything is being deleted, or etcd has no member for the Machine.
    None,
    /// Etcd keeps its quorum.
    Healthy,
    /// Etcd would lose its quorum, with the reason.
    Quorum(String),
    /// The members, or that of the Machine, are not known.
    Unknown,
}

/// Why etcd needs the member of a Machine. The deletion of a control plane or of a Cluster deletes
/// all Machines, so none of them is needed then.
fn need(state: &State, machine: &MachineState) -> Need {
    if state.cluster_is_deleting() || state.is_deleting() || !state.has_data() || !state.is_etcd_managed() {
        return Need::None;
    }
    let members = state.members().filter(|members| !members.is_empty());
    let (Some(mut members), Some(member)) = (members, machine.member.as_deref()) else {
        return Need::Unknown;
    };
    // A learner does not vote. It joins for a moment only, and the answer must not change for that.
    members.retain(|there| !there.is_learner);
    if !members.iter().any(|there| there.name == member) {
        return Need::None;
    }
    match safety::lost_quorum(&members, MembershipChange::Remove(member)) {
        None => Need::Healthy,
        Some(lost) => Need::Quorum(safety::why(lost, &format!("the removal of etcd member {member}"))),
    }
}

/// The merge patch of a Machine; `None` if its annotation is right. A Machine that is being deleted
/// keeps what it has, and so does one about which nothing is known: the last answer is the best one
/// while the managed cluster does not respond.
pub fn machine_patch(state: &State, machine: &MachineState, now: Timestamp) -> Option<Value> {
    if machine.is_deleting() {
        return None;
    }
    let wanted = match need(state, machine) {
        Need::Healthy if !has_recovered(state, now) => return None,
        Need::None | Need::Healthy => None,
        Need::Quorum(reason) => Some(reason),
        Need::Unknown => return None,
    };
    annotate(machine, wanted.as_deref())
}

/// Whether the health of no etcd member changed a short time ago.
fn has_recovered(state: &State, now: Timestamp) -> bool {
    let conditions = state
        .machines
        .iter()
        .filter_map(|machine| machine.condition(condition::ETCD_MEMBER));
    let mut changes = conditions.filter_map(|condition| condition.last_transition_time);
    changes.all(|changed| now.duration_since(changed) >= RECOVERED)
}

/// The merge patch of a Machine that the control plane itself deletes; `None` if nothing refuses
/// that. The policy knows the usual user of the controller only, and a controller of another name
/// must not wait for ever.
pub fn permit(machine: &MachineState) -> Option<Value> {
    annotate(machine, None)
}

fn annotate(machine: &MachineState, wanted: Option<&str>) -> Option<Value> {
    let metadata = &machine.machine.metadata;
    if metadata.annotations.get(REQUIRED).map(String::as_str) == wanted {
        return None;
    }
    let mut patched = membership::precondition(machine).metadata();
    patched.insert(
        String::from("annotations"),
        Value::Object(Map::from_iter([(REQUIRED.to_owned(), json!(wanted))])),
    );
    Some(json!({ "metadata": patched }))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::kcp::samples::{World, now};

    /// The annotation that the first machine gets: `Some(None)` removes it.
    fn change(world: &World) -> Option<Option<String>> {
        let state = world.state();
        let patch = machine_patch(&state, state.machine("m-0").unwrap(), now())?;
        Some(patch["metadata"]["annotations"][REQUIRED].as_str().map(str::to_owned))
    }

    /// Three machines, the second of which is not healthy.
    fn world() -> World {
        let mut world = World::new("abc");
        world.set(1, condition::ETCD_MEMBER, "False");
        world
    }

    /// The same after the first machine got its annotation.
    fn annotated() -> World {
        let mut world = world();
        let reason = change(&world).unwrap().unwrap();
        world.annotate(0, REQUIRED, &reason);
        world
    }

    #[test]
    fn a_machine_that_etcd_needs_for_its_quorum_says_so() {
        assert_eq!(change(&World::new("abc")), None);
        assert_eq!(
            change(&world()).unwrap().unwrap(),
            "the removal of etcd member n-0 would leave 1 healthy of 2 voting etcd members; 2 are needed"
        );
        assert_eq!(change(&annotated()), None, "nothing is written again");
        let state = world().state();
        let unhealthy = state.machine("m-1").unwrap();
        assert_eq!(
            machine_patch(&state, unhealthy, now()),
            None,
            "the unhealthy machine may go"
        );
        assert!(change(&World::new("a")).unwrap().is_some(), "the last member");
    }

    #[test]
    fn the_control_plane_removes_the_annotation_from_a_machine_that_it_deletes() {
        let permitted = |world: &World| {
            let state = world.state();
            let patch = permit(state.machine("m-0").unwrap())?;
            Some(patch["metadata"]["annotations"][REQUIRED].is_null())
        };
        assert_eq!(permitted(&world()), None);
        assert_eq!(permitted(&annotated()), Some(true));
    }

    #[test]
    fn a_learner_changes_nothing() {
        let mut world = World::new("abc");
        for machine in [1, 0] {
            world.etcd.as_mut().unwrap()["members"][machine]["learner"] = json!(true);
            assert_eq!(change(&world), None, "machine {machine}");
        }
    }

    #[test]
    fn the_annotation_is_removed_when_etcd_has_recovered_or_everything_is_deleted() {
        let mut recovered = annotated();
        recovered.set(1, condition::ETCD_MEMBER, "True");
        assert_eq!(change(&recovered), Some(None));
        let deleted = json!("2026-06-01T11:00:00Z");
        let mut control_plane = annotated();
        control_plane.control_plane["metadata"]["deletionTimestamp"] = deleted.clone();
        assert_eq!(change(&control_plane), Some(None));
        let mut cluster = annotated();
        cluster.cluster["metadata"]["deletionTimestamp"] = deleted;
        assert_eq!(change(&cluster), Some(None));
        assert_eq!(change(&annotated().external()), Some(None));
        let mut restored = annotated();
        restored.control_plane["status"]["initialization"] = json!({});
        assert_eq!(change(&restored), None, "a restore lost the status (V300)");
    }

    #[test]
    fn v279_the_annotation_stays_for_a_minute_after_etcd_has_recovered() {
        let mut world = annotated();
        world.set(1, condition::ETCD_MEMBER, "True");
        let mut changed = |at: &str| {
            let conditions = world.machines[1]["status"]["conditions"].as_array_mut().unwrap();
            let mut members = conditions.iter_mut();
            let member = members.find(|there| there["type"] == condition::ETCD_MEMBER).unwrap();
            member["lastTransitionTime"] = json!(at);
            change(&world)
        };
        assert_eq!(changed("2026-06-01T11:59:01Z"), None);
        assert_eq!(changed("2026-06-01T11:59:00Z"), Some(None));
    }

    #[test]
    fn the_annotation_stays_while_the_members_are_not_known() {
        let mut unknown = annotated();
        unknown.etcd = None;
        assert_eq!(change(&unknown), None);
        let mut deleted = annotated();
        deleted.set(1, condition::ETCD_MEMBER, "True");
        deleted.delete(0);
        assert_eq!(change(&deleted), None);
    }
}
