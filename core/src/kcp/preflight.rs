//! Why a control plane is not stable enough to create or to delete a machine.
//!
//! All controllers of machines take one step at a time, because these checks fail until the last
//! step is complete. A condition that is absent or `Unknown` fails like one that is `False`.

use super::action::{Wait, WaitReason, about};
use super::remediation;
use super::safety;
use super::state::{MachineState, State, condition};
use crate::model::MembershipChange;

/// The step that is checked.
#[derive(Clone, Copy, Debug)]
pub(super) enum Change<'a> {
    /// A machine is created.
    Create,
    /// This machine is deleted. Its own health does not matter.
    Delete(&'a MachineState),
}

/// What the step waits for; empty if it can be taken now.
pub(super) fn waits(state: &State, change: Change<'_>) -> Vec<Wait> {
    if state.machines.is_empty() {
        return Vec::new();
    }
    if let Some(version) = state.pending_version() {
        let message = format!("the Cluster is upgraded to {version}, which the control plane does not have yet");
        return vec![Wait::new(WaitReason::VersionPropagated, message)];
    }
    let has_certificates = state
        .condition("CertificatesAvailable")
        .is_some_and(|condition| condition.status == "True");
    if matches!(change, Change::Create) && !has_certificates {
        let message = String::from("a new machine cannot join: the condition CertificatesAvailable is not True");
        return vec![Wait::new(WaitReason::CertificatesAvailable, message)];
    }
    if matches!(change, Change::Create) && state.all_leave() {
        return successor(state);
    }
    let deleting: Vec<Wait> = state
        .deleting()
        .map(|machine| {
            let message = format!("machine {} is being deleted", machine.name());
            about(state, machine, WaitReason::MachineRemoved, message)
        })
        .collect();
    if !deleting.is_empty() {
        return deleting;
    }
    let unstable = unstable(state, change);
    let replaces = matches!(change, Change::Create) && remediation::record_in_progress(state).is_some();
    let mut found = if replaces && !unstable.is_empty() {
        replacement(state)
    } else {
        unstable
    };
    if found.is_empty() {
        found.extend(membership(state, change));
    }
    found
}

/// What is not healthy on the machines.
fn unstable(state: &State, change: Change<'_>) -> Vec<Wait> {
    let is_excluded =
        |machine: &MachineState| matches!(change, Change::Delete(excluded) if excluded.name() == machine.name());
    let others = state.machines.iter().filter(|machine| !is_excluded(machine));
    others.flat_map(|machine| unhealthy(state, machine)).collect()
}

fn unhealthy(state: &State, machine: &MachineState) -> Vec<Wait> {
    let name = machine.name();
    if machine.node().is_none() {
        let message = format!("machine {name} has no Node yet");
        return vec![about(state, machine, WaitReason::MachineReady, message)];
    }
    let failing = state.components().iter().filter(|type_| !machine.is_true(type_));
    failing
        .map(|type_| {
            let reason = if *type_ == condition::ETCD_MEMBER {
                WaitReason::EtcdHealthy
            } else {
                WaitReason::ControlPlaneHealthy
            };
            let message = match machine.condition(type_) {
                None => format!("machine {name} has no condition {type_}"),
                Some(found) if found.message.is_empty() => {
                    format!("condition {type_} of machine {name} is {}", found.status)
                }
                Some(found) => format!(
                    "condition {type_} of machine {name} is {} ({})",
                    found.status, found.message
                ),
            };
            about(state, machine, reason, message)
        })
        .collect()
}

/// The weaker checks for the replacement of a machine that was remediated. They let a control plane
/// with several failures recover.
fn replacement(state: &State) -> Vec<Wait> {
    let mut found = Vec::new();
    if !safety::serves_with_addition(state) {
        let message = "no machine has healthy components, so that a replacement cannot join";
        found.push(Wait::new(WaitReason::ControlPlaneHealthy, message.to_owned()));
    }
    let is_known = state.members().is_some_and(|members| !members.is_empty());
    if state.is_etcd_managed() && !is_known {
        let message = "the etcd members are unknown, so that a replacement cannot join";
        found.push(Wait::new(WaitReason::EtcdHealthy, message.to_owned()));
    }
    found
}

/// The checks for a machine that takes over from machines which are all being deleted. The pods on
/// such machines count as not healthy, so only etcd shows that a machine can join. External etcd
/// has no members here, and a machine needs none.
fn successor(state: &State) -> Vec<Wait> {
    if !state.is_etcd_managed() {
        return Vec::new();
    }
    if state.members().is_none_or(|members| members.is_empty()) {
        let message = "all machines are being deleted, and the etcd members are unknown, so that no machine can join";
        return vec![Wait::new(WaitReason::EtcdHealthy, message.to_owned())];
    }
    membership(state, Change::Create).into_iter().collect()
}

/// Whether the change of the etcd membership is safe. The conditions of the machines do not show a
/// member without a machine, a member that has not started, and a learner on the machine that is
/// deleted.
fn membership(state: &State, change: Change<'_>) -> Option<Wait> {
    let members = state.members().filter(|members| !members.is_empty())?;
    let (membership, what) = match change {
        Change::Create => (MembershipChange::Add, String::from("another etcd member")),
        Change::Delete(machine) => {
            let member = machine.member.as_deref()?;
            (
                MembershipChange::Remove(member),
                format!("the removal of etcd member {member}"),
            )
        }
    };
    let lost = safety::lost_quorum(&members, membership)?;
    Some(Wait::new(WaitReason::EtcdHealthy, safety::why(lost, &what)))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::api::controlplane_cluster_x_k8s_io::annotation::REMEDIATION_IN_PROGRESS;
    use crate::kcp::samples::World;

    fn reasons(found: &[Wait]) -> Vec<WaitReason> {
        found.iter().map(|wait| wait.reason).collect()
    }

    fn create(world: &World) -> Vec<WaitReason> {
        reasons(&waits(&world.state(), Change::Create))
    }

    fn delete(world: &World, machine: usize) -> Vec<WaitReason> {
        let state = world.state();
        reasons(&waits(&state, Change::Delete(&state.machines[machine])))
    }

    #[test]
    fn a_stable_control_plane_passes() {
        assert!(create(&World::new("abc")).is_empty());
        assert!(delete(&World::new("abc"), 0).is_empty());
        let mut world = World::new("abc");
        world.set(0, condition::LABELS_AND_TAINTS, "False");
        assert!(create(&world).is_empty(), "labels and taints do not matter");
    }

    #[test]
    fn a_control_plane_without_machines_passes() {
        let mut world = World::new("");
        world.control_plane["status"] = json!({});
        world.cluster["spec"]["topology"] = json!({"version": "v9.0.0"});
        assert!(create(&world).is_empty());
    }

    #[test]
    fn a_pending_version_is_the_only_wait() {
        let mut world = World::new("abc");
        world.cluster["spec"]["topology"] = json!({"version": "v1.31.0"});
        world.delete(0);
        assert_eq!(create(&world), [WaitReason::VersionPropagated]);
        assert_eq!(delete(&world, 1), [WaitReason::VersionPropagated]);
    }

    #[test]
    fn certificates_are_needed_only_to_create_a_machine() {
        let mut world = World::new("abc");
        world.control_plane["status"]["conditions"] = json!([]);
        assert_eq!(create(&world), [WaitReason::CertificatesAvailable]);
        assert!(delete(&world, 0).is_empty());
    }

    #[test]
    fn a_deletion_must_complete_before_the_next_step() {
        let mut world = World::new("abc");
        world.delete(1);
        world.set(0, condition::SCHEDULER, "False");
        assert_eq!(create(&world), [WaitReason::MachineRemoved]);
        assert_eq!(delete(&world, 0), [WaitReason::MachineRemoved]);
    }

    #[test]
    fn every_machine_but_the_deleted_one_must_be_healthy() {
        for (type_, reason) in [
            (condition::API_SERVER, WaitReason::ControlPlaneHealthy),
            (condition::CONTROLLER_MANAGER, WaitReason::ControlPlaneHealthy),
            (condition::SCHEDULER, WaitReason::ControlPlaneHealthy),
            (condition::ETCD_POD, WaitReason::ControlPlaneHealthy),
            (condition::ETCD_MEMBER, WaitReason::EtcdHealthy),
        ] {
            for status in ["False", "Unknown", ""] {
                let mut world = World::new("abc");
                world.set(1, type_, status);
                assert_eq!(create(&world), [reason], "{type_} {status}");
                assert_eq!(delete(&world, 0), [reason], "{type_} {status}");
                assert!(delete(&world, 1).is_empty(), "{type_} {status}");
            }
        }
        let mut world = World::new("abc");
        world.without_node(2);
        assert_eq!(create(&world), [WaitReason::MachineReady]);
    }

    #[test]
    fn conditions_of_etcd_are_not_needed_with_external_etcd() {
        let mut world = World::new("abc").external();
        world.set(1, condition::ETCD_MEMBER, "");
        world.set(1, condition::ETCD_POD, "");
        assert!(create(&world).is_empty());
    }

    #[test]
    fn a_replacement_is_created_while_one_machine_serves_and_the_quorum_is_safe() {
        let mut world = World::new("abca");
        world.spec()["replicas"] = json!(5);
        world.control_plane["metadata"]["annotations"] = json!({(REMEDIATION_IN_PROGRESS): "{}"});
        world.set(0, condition::ETCD_MEMBER, "False");
        world.set(0, condition::SCHEDULER, "False");
        assert!(create(&world).is_empty(), "one bad of four");
        assert_eq!(
            delete(&world, 1),
            [WaitReason::ControlPlaneHealthy, WaitReason::EtcdHealthy]
        );
        world.set(1, condition::ETCD_MEMBER, "False");
        assert_eq!(create(&world), [WaitReason::EtcdHealthy], "two bad of four");
        world.etcd = None;
        assert_eq!(create(&world), [WaitReason::EtcdHealthy], "unknown members");
        for machine in 0..4 {
            world.set(machine, condition::API_SERVER, "Unknown");
        }
        world.members();
        world.set(1, condition::ETCD_MEMBER, "True");
        assert_eq!(create(&world), [WaitReason::ControlPlaneHealthy]);
    }

    #[test]
    fn a_member_that_no_condition_shows_counts_for_the_quorum() {
        let mut world = World::new("abc");
        let members = |extra: serde_json::Value| json!([{"name": "n-0"}, {"name": "n-1"}, {"name": "n-2"}, extra]);
        world.etcd.as_mut().unwrap()["members"] = members(json!({"name": "", "learner": true}));
        assert_eq!(create(&world), [WaitReason::EtcdHealthy]);
        assert_eq!(delete(&world, 0), [WaitReason::EtcdHealthy]);
        world.etcd.as_mut().unwrap()["members"] = members(json!({"name": "x"}));
        assert!(create(&world).is_empty(), "a healthy member without a machine");
        world.etcd = None;
        assert!(create(&world).is_empty(), "the conditions alone decide");
        let mut world = World::new("ab");
        let members = json!([{"name": "n-0"}, {"name": "n-1"}, {"name": "x", "alarms": ["CORRUPT"]}]);
        world.etcd.as_mut().unwrap()["members"] = members;
        assert_eq!(create(&world), [WaitReason::EtcdHealthy]);
        assert_eq!(delete(&world, 0), [WaitReason::EtcdHealthy]);
    }
}
