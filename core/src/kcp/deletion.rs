//! Whether a user may delete a control plane Machine now.
//!
//! A deletion that would take the quorum from etcd is refused. Without the refusal, the deletion
//! would be accepted, and would wait at the hook of the Machine until etcd recovers. No webhook
//! uses this rule yet.

use super::safety;
use super::state::State;
use crate::model::MembershipChange;

/// On a Machine, with any value: a user accepts that its deletion takes the quorum from etcd.
pub const ALLOW_QUORUM_LOSS: &str = "capstan.dev/allow-quorum-loss";

/// Why the deletion of a Machine is refused; `None` if it is allowed.
///
/// The deletion of a control plane, a Cluster, or a namespace deletes all Machines, so it is
/// always allowed. `namespace_is_deleted` tells whether the namespace is being deleted. If the etcd
/// members are unknown, the hook of the Machine decides later.
pub fn refusal(state: &State, machine: &str, namespace_is_deleted: bool) -> Option<String> {
    let cluster_is_deleted = state
        .cluster
        .as_ref()
        .is_some_and(|cluster| cluster.metadata.is_deleting());
    if namespace_is_deleted || cluster_is_deleted || state.is_deleting() || !state.is_initialized() {
        return None;
    }
    let machine = state.machine(machine)?;
    if machine.is_deleting() || machine.has(ALLOW_QUORUM_LOSS) {
        return None;
    }
    let members = state.members().filter(|members| !members.is_empty())?;
    let member = machine.member.as_deref()?;
    let lost = safety::lost_quorum(&members, MembershipChange::Remove(member))?;
    let what = format!("the removal of etcd member {member}");
    Some(format!(
        "must keep the quorum of etcd: {}. Repair the other members first, or set the annotation {ALLOW_QUORUM_LOSS} \
         on the Machine",
        safety::why(lost, &what)
    ))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::kcp::samples::World;
    use crate::kcp::state::condition;

    fn refused(world: &World) -> bool {
        refusal(&world.state(), "m-0", false).is_some()
    }

    /// Three machines, the second of which is not healthy.
    fn world() -> World {
        let mut world = World::new("abc");
        world.set(1, condition::ETCD_MEMBER, "False");
        world
    }

    #[test]
    fn a_deletion_that_would_lose_the_quorum_is_refused() {
        assert!(!refused(&World::new("abc")));
        assert_eq!(
            refusal(&world().state(), "m-0", false).unwrap(),
            "must keep the quorum of etcd: the removal of etcd member n-0 would leave 1 healthy of 2 voting etcd \
             members; 2 are needed. Repair the other members first, or set the annotation \
             capstan.dev/allow-quorum-loss on the Machine"
        );
        assert_eq!(
            refusal(&world().state(), "m-1", false),
            None,
            "the unhealthy machine may go"
        );
        assert!(refused(&World::new("a")), "the last member");
    }

    #[test]
    fn a_user_can_allow_the_deletion() {
        let mut world = world();
        world.annotate(0, ALLOW_QUORUM_LOSS, "");
        assert!(!refused(&world));
    }

    #[test]
    fn the_deletion_of_everything_is_allowed() {
        assert_eq!(refusal(&world().state(), "m-0", true), None);
        let deleted = json!("2026-06-01T11:00:00Z");
        let mut control_plane = world();
        control_plane.control_plane["metadata"]["deletionTimestamp"] = deleted.clone();
        assert!(!refused(&control_plane));
        let mut cluster = world();
        cluster.cluster["metadata"]["deletionTimestamp"] = deleted;
        assert!(!refused(&cluster));
    }

    #[test]
    fn a_deletion_without_an_effect_on_known_members_is_allowed() {
        assert_eq!(refusal(&world().state(), "other", false), None);
        assert!(!refused(&world().external()));
        let mut unknown = world();
        unknown.etcd = None;
        assert!(!refused(&unknown));
        let mut young = world();
        young.control_plane["status"]["initialization"] = json!({});
        assert!(!refused(&young));
        let mut again = world();
        again.delete(0);
        assert!(!refused(&again));
    }
}
