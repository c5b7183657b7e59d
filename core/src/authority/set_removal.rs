//! What the deletion of one MachineSet or MachineHealthCheck of a mirrored pair means for the
//! other, and for the Machines.
//!
//! | deleted | outcome |
//! |---|---|
//! | the authoritative object | its mirror is deleted too |
//! | the mirror in Cluster API | the mirror is made again |
//! | the mirror in the Machine API | the one in Cluster API stays, and is not mirrored any more |
//!
//! The deletion of a mirror reaches no instance. A MachineHealthCheck owns no Machine. The garbage
//! collector deletes what a deleted MachineSet owns. So a Machine whose instance the API of the
//! mirror holds loses its owner before the mirror is released. The mirrors of the other Machines
//! may be collected: `removal` does not let that reach an instance.
//!
//! Must never: release a mirror that owns an authoritative Machine, or remove a finalizer of the
//! authoritative controllers.
//!
//! Source: the Converting Machine API to Cluster API enhancement, "Deletion of Machines"; decision
//! 9.

use serde_json::Value;

use super::finalizers::{self, Removed};
use super::pair::{Decision, FullObject, Pair, Part, Write};
use super::spec::Api;
use super::{pause, removal, templates};

/// The finalizer with which the garbage collector removes the owner of the Machines.
const ORPHAN: &str = "orphan";

/// The next action for a pair of which at least one object is being deleted. `authority` is the
/// authoritative API.
pub(super) fn next(pair: &Pair, authority: Api) -> Decision {
    let stays = pair.machine(authority).is_some_and(|set| !set.member.deleting);
    let decided = match stays {
        true => mirror(pair, authority),
        false => authoritative(pair, authority),
    };
    decided.unwrap_or_else(|| {
        Decision::wait(format!(
            "other finalizers hold the {} that is being deleted",
            pair.kind.title()
        ))
    })
}

/// The authoritative object is being deleted, or is deleted already: the mirror follows.
fn authoritative(pair: &Pair, authority: Api) -> Option<Decision> {
    let other = authority.other();
    let (source, mirror) = (pair.machine(authority), pair.machine(other));
    if source.is_some_and(|source| source.has_finalizer(ORPHAN)) {
        // Otherwise the Machines of the mirror would be deleted with their owner.
        return Some(Decision::wait("the garbage collector has not released the Machines"));
    }
    if let Some(mirror) = mirror.filter(|mirror| !mirror.member.deleting) {
        let because = format!("the {} in {} is being deleted", pair.kind.title(), authority.title());
        return Some(Write::delete(Part::of(other), mirror, because).into());
    }
    if authority == Api::ClusterApi
        && let Some(write) = pause::unpause(pair)
    {
        return Some(write.into());
    }
    let is_held = |source: &FullObject| finalizers::is_held(Part::ClusterApi, source);
    if authority == Api::ClusterApi && source.is_some_and(is_held) {
        return Some(Decision::wait("the controllers of Cluster API delete the Machines"));
    }
    // The Machine API last: its object tells that the rest has to be removed.
    let removed = |api: Api| match api == authority {
        true => Removed::Own,
        false => Removed::OwnAndControllers,
    };
    let left = release(pair, Api::ClusterApi, removed(Api::ClusterApi));
    let left = left.or_else(|| templates::left_over(pair));
    left.or_else(|| {
        let is_gone = pair.cluster_api.is_none();
        is_gone
            .then(|| release(pair, Api::MachineApi, removed(Api::MachineApi)))
            .flatten()
    })
    .map(Decision::from)
}

/// Only the mirror is being deleted.
fn mirror(pair: &Pair, authority: Api) -> Option<Decision> {
    let api = authority.other();
    if let Some(write) = orphan(pair, api) {
        return Some(write.into());
    }
    let left = match api {
        // The authoritative object may still have the pause of its first copy.
        Api::MachineApi => pause::open(pair).or_else(|| release(pair, Api::ClusterApi, Removed::Own)),
        Api::ClusterApi => None,
    };
    left.or_else(|| release(pair, api, Removed::OwnAndControllers))
        .map(Decision::from)
}

/// Removes the owner of the next Machine whose instance the API of a mirror may hold.
fn orphan(pair: &Pair, api: Api) -> Option<Write> {
    let set = pair.machine(api)?;
    let mut members = pair.members.iter().enumerate();
    let (at, member) = members.find(|(_, member)| {
        member.api == api && member.is_authoritative && removal::is_owned_by(&member.object, set)
    })?;
    let is_set = |owner: &Value| owner.get("uid").and_then(Value::as_str) == Some(set.uid());
    let patch = removal::without_owners(&member.object, is_set);
    let because = "only the mirror of its MachineSet is deleted, and the Machine stays";
    Some(Write::patch(Part::Member(at), &member.object, patch, because))
}

/// An object of Cluster API without one in the Machine API. A mirror stays paused. If a user
/// deletes a paused one, its controllers never remove their finalizers, so the sync controller
/// does. It does not unpause the object: the controllers of a MachineSet that is being deleted
/// delete its Machines, and the deletion of a mirror reaches no instance (decision 87).
pub(super) fn unmirrored(pair: &Pair) -> Decision {
    let api = Api::ClusterApi;
    let is_left = |object: &FullObject| object.member.deleting && object.member.is_paused_by_sync();
    let write = match pair.cluster_api.as_ref().is_some_and(is_left) {
        true => orphan(pair, api).or_else(|| release(pair, api, Removed::OwnAndControllers)),
        false => release(pair, api, Removed::Own),
    };
    write.map_or(Decision::Idle, Decision::from)
}

fn release(pair: &Pair, api: Api, removed: Removed) -> Option<Write> {
    let set: &FullObject = pair.machine(api)?;
    let because = "nothing depends on it any more";
    finalizers::release(Part::of(api), set, removed, because)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::authority::FINALIZER;
    use crate::authority::pair::{Member, Verb};
    use crate::authority::spec::Kind;

    fn set(api: Api, deleting: bool, finalizers: &[&str]) -> FullObject {
        let deleted = deleting.then_some("2026-01-01T00:00:00Z");
        FullObject::from(
            json!({"kind": "MachineSet", "metadata": {"name": "s", "uid": api.as_str(),
            "resourceVersion": "1", "deletionTimestamp": deleted, "finalizers": finalizers}}),
        )
    }

    fn pair(machine_api: FullObject, cluster_api: FullObject) -> Pair {
        Pair {
            kind: Kind::MachineSet,
            name: String::from("s"),
            machine_api: Some(machine_api),
            cluster_api: Some(cluster_api),
            ..Pair::default()
        }
    }

    fn written(decision: &Decision) -> Option<(Part, &Verb)> {
        match decision {
            Decision::Write(write) => Some((write.part, &write.verb)),
            _ => None,
        }
    }

    #[test]
    fn a_deleted_mirror_loses_an_authoritative_machine_before_it_is_released() {
        let owned = |authority: &str| {
            let machine = json!({"metadata": {"name": "a", "uid": "m", "resourceVersion": "1", "ownerReferences": [
                {"kind": "MachineSet", "name": "s", "uid": "ClusterAPI"}]}});
            let machine_api = json!({"status": {"authoritativeAPI": authority}});
            Member::new(Api::ClusterApi, machine.into(), Some(&machine_api.into()))
        };
        let mirror = set(Api::ClusterApi, true, &[FINALIZER, finalizers::CLUSTER_API_SET]);
        let mut pair = pair(set(Api::MachineApi, false, &[FINALIZER]), mirror);
        for authority in ["ClusterAPI", "Migrating"] {
            pair.members = vec![owned("MachineAPI"), owned(authority)];
            let decision = next(&pair, Api::MachineApi);
            assert!(matches!(written(&decision), Some((Part::Member(1), _))), "{decision:?}");
        }
        pair.members = vec![owned("MachineAPI")];
        let decision = next(&pair, Api::MachineApi);
        assert!(
            matches!(written(&decision), Some((Part::ClusterApi, _))),
            "{decision:?}"
        );
    }

    #[test]
    fn m2_a_paused_set_without_one_in_the_machine_api_does_not_stay_in_deletion() {
        let left = |deleting: bool, pause: Option<&str>| {
            let finalizers = [FINALIZER, finalizers::CLUSTER_API_SET, "other"];
            let mut object = Value::clone(&set(Api::ClusterApi, deleting, &finalizers).value);
            if let Some(value) = pause {
                object["metadata"]["annotations"] = json!({"cluster.x-k8s.io/paused": value});
            }
            Pair {
                kind: Kind::MachineSet,
                cluster_api: Some(FullObject::from(object)),
                ..Pair::default()
            }
        };
        let kept = |pair: &Pair| match unmirrored(pair) {
            Decision::Write(write) => match write.verb {
                Verb::Patch(patch) => patch.pointer("/metadata/finalizers").cloned(),
                _ => None,
            },
            _ => None,
        };
        let sync = crate::authority::PAUSED_BY_SYNC;
        assert_eq!(kept(&left(true, Some(sync))), Some(json!(["other"])));
        // Without a deletion, or with the pause of a user, the finalizers of its controllers stay.
        let stays = Some(json!([finalizers::CLUSTER_API_SET, "other"]));
        for pair in [left(false, Some(sync)), left(true, Some("")), left(true, None)] {
            assert_eq!(kept(&pair), stays);
        }
        // An instance of its own Machines is not deleted with it.
        let machine = json!({"metadata": {"name": "a", "uid": "m", "resourceVersion": "1", "ownerReferences": [
            {"kind": "MachineSet", "name": "s", "uid": "ClusterAPI"}]}});
        let mut pair = left(true, Some(sync));
        pair.members = vec![Member::new(Api::ClusterApi, machine.into(), None)];
        let decision = unmirrored(&pair);
        assert!(matches!(written(&decision), Some((Part::Member(0), _))), "{decision:?}");
    }

    #[test]
    fn m3_an_authoritative_set_is_not_left_paused_when_its_mirror_is_deleted() {
        let mut paused = Value::clone(&set(Api::ClusterApi, false, &[FINALIZER]).value);
        paused["metadata"]["annotations"] = json!({"cluster.x-k8s.io/paused": crate::authority::PAUSED_BY_SYNC});
        let pair = pair(set(Api::MachineApi, true, &[FINALIZER]), FullObject::from(paused));
        let decision = next(&pair, Api::ClusterApi);
        let Some((Part::ClusterApi, Verb::Patch(patch))) = written(&decision) else {
            panic!("{decision:?}");
        };
        let pause = patch.pointer("/metadata/annotations/cluster.x-k8s.io~1paused");
        assert_eq!(pause, Some(&Value::Null), "{patch}");
    }

    #[test]
    fn the_mirror_of_a_deleted_set_waits_until_the_machines_are_orphaned() {
        let mirror = set(Api::ClusterApi, false, &[FINALIZER]);
        let orphaning = pair(set(Api::MachineApi, true, &[ORPHAN, FINALIZER]), mirror.clone());
        assert!(matches!(next(&orphaning, Api::MachineApi), Decision::Wait(_)));
        let decision = next(&pair(set(Api::MachineApi, true, &[FINALIZER]), mirror), Api::MachineApi);
        assert!(
            matches!(written(&decision), Some((Part::ClusterApi, Verb::Delete { .. }))),
            "{decision:?}"
        );
    }

    #[test]
    fn the_controllers_of_cluster_api_delete_the_machines_first() {
        let held = set(Api::ClusterApi, true, &[FINALIZER, finalizers::CLUSTER_API_SET]);
        let pair = pair(set(Api::MachineApi, true, &[FINALIZER]), held);
        assert!(matches!(next(&pair, Api::ClusterApi), Decision::Wait(_)));
    }
}
