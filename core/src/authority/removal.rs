//! What the deletion of one Machine of a mirrored pair means for the other.
//!
//! | deleted | owner | outcome |
//! |---|---|---|
//! | in the Machine API | yes | the Machine in Cluster API is deleted too |
//! | in the Machine API | no | the Machine in Cluster API stays |
//! | in Cluster API | yes | the Machine in the Machine API is deleted too |
//! | in Cluster API | no | the Machine in the Machine API stays, and the mirror is made again |
//!
//! The owner of the authoritative Machine counts, and those of
//! [`PairMember::deciding_owner`](super::spec::PairMember::deciding_owner), as in the warnings of
//! admission. A mirror with an owner that is deleted because only the mirror of its MachineSet was
//! deleted does not count as deleted by a user: the other Machine stays, because the deletion of a
//! mirrored parent never reaches instances. A Machine that is deleted before its first copy to
//! Cluster API has ended is deleted with what was made of it.
//!
//! The authoritative controllers delete the instance and remove their finalizer. After that, the
//! sync controller removes its own finalizer and the finalizers of controllers that are paused.
//!
//! Must never: remove a finalizer of the authoritative controllers, or delete an authoritative
//! Machine without the request of its table row.
//!
//! Source: the Converting Machine API to Cluster API enhancement, "Summary of the rules outlined
//! above" and "Deletion of Machines"; decision 9.

use serde_json::{Map, Value, json};

use super::finalizers::{self, Removed};
use super::pair::{Decision, FullObject, Pair, Part, Write};
use super::pause;
use super::record;
use super::spec::{Api, Authority};

/// What happens to the other Machine of a pair.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fate {
    /// It is deleted too.
    Both,
    /// It stays.
    OnlyThis,
}

/// The row of the table for the deletion of the Machine of an API. `authority` is the authoritative
/// API.
pub fn fate(pair: &Pair, deleted: Api, authority: Api) -> Fate {
    // Nothing could complete the copy afterwards, and its Machine would never get an instance.
    if deleted == Api::MachineApi && authority == Api::ClusterApi && record::is_unfinished_copy(pair) {
        return Fate::Both;
    }
    let member = |api: Api| pair.machine(api).map(|object| &*object.member);
    let owner =
        member(deleted).and_then(|object| object.deciding_owner(member(deleted.other()), deleted, Some(authority)));
    let of_set = owner.is_some_and(|owner| owner.kind == "MachineSet");
    // Only the mirror of the MachineSet was deleted, and the garbage collector followed.
    let collected = deleted != authority && of_set && set_ends(pair, deleted) && set_stays(pair).is_some();
    match owner {
        Some(_) if !collected => Fate::Both,
        _ => Fate::OnlyThis,
    }
}

/// Whether the MachineSet that owns the Machine of an API ends.
fn set_ends(pair: &Pair, api: Api) -> bool {
    // A MachineSet that was created again under the same name is not the owner.
    let owns = |set: &FullObject| pair.machine(api).is_none_or(|machine| is_owned_by(machine, set));
    pair.set(api).is_none_or(|set| set.member.deleting || !owns(set))
}

/// The API of the authoritative MachineSet, if that MachineSet is not being deleted. A MachineSet
/// of the Machine API goes last if it is authoritative (`set_removal`), so one that is gone was the
/// mirror. During a migration of the MachineSets without a record, any of them counts.
fn set_stays(pair: &Pair) -> Option<Api> {
    let stays = |api: &Api| pair.set(*api).is_some_and(|set| !set.member.deleting);
    let Some(set) = &pair.machine_api_set else {
        return Some(Api::ClusterApi).filter(stays);
    };
    match set.member.authority() {
        Authority::Stable(api) => Some(api).filter(stays),
        Authority::Migrating => match set.member.synchronized_api {
            Some(api) => Some(api).filter(stays),
            None => [Api::MachineApi, Api::ClusterApi].into_iter().find(stays),
        },
    }
}

/// Removes the owner of a Machine whose instance the API of the Machine may hold, if only the
/// mirror of the MachineSet is being deleted. The sync controller does the same before it releases
/// that mirror (`set_removal`), but the Machine may be created, or become authoritative, after
/// that. `authority` is the authoritative API of the Machine.
pub(super) fn disown(pair: &Pair, authority: Authority) -> Option<Write> {
    let api = set_stays(pair)?.other();
    let machine = pair.machine(api).filter(|machine| !machine.member.deleting)?;
    let is_set = |kind: &str| kind == "MachineSet";
    let is_owned = machine.member.owner().is_some_and(|owner| is_set(&owner.kind));
    if !is_owned || authority == Authority::Stable(api.other()) || !set_ends(pair, api) {
        return None;
    }
    let because = "only the mirror of its MachineSet is deleted, and the Machine stays";
    let patch = without_owners(machine, |owner| {
        owner.get("kind").and_then(Value::as_str).is_some_and(is_set)
    });
    Some(Write::patch(Part::of(api), machine, patch, because))
}

/// Deletes a mirror in the Machine API whose creation arrived after its Machine in Cluster API was
/// deleted. Otherwise the Machine would be made again from it, without an instance.
pub(super) fn late_copy(pair: &Pair) -> Option<Write> {
    let machine = pair.machine_api.as_ref().filter(|_| record::is_late_copy(pair))?;
    let because = "the Machine in Cluster API was deleted before its mirror was created";
    Some(Write::delete(Part::MachineApi, machine, because))
}

/// The merge patch that removes some of the owner references of an object.
pub(super) fn without_owners(object: &FullObject, removed: impl Fn(&Value) -> bool) -> Map<String, Value> {
    let owners = object.value.pointer("/metadata/ownerReferences");
    let mut owners = owners.and_then(Value::as_array).cloned().unwrap_or_default();
    owners.retain(|owner| !removed(owner));
    Map::from_iter([(String::from("metadata"), json!({"ownerReferences": owners}))])
}

/// Whether an owner reference of an object has the uid of another one.
pub(super) fn is_owned_by(object: &FullObject, owner: &FullObject) -> bool {
    let owners = object
        .value
        .pointer("/metadata/ownerReferences")
        .and_then(Value::as_array);
    let mut uids = owners
        .into_iter()
        .flatten()
        .filter_map(|known| known.get("uid")?.as_str());
    uids.any(|uid| uid == owner.uid())
}

/// The next action for a pair of which at least one Machine is being deleted.
pub fn next(pair: &Pair, authority: Api) -> Decision {
    let deleting = |api: Api| pair.machine(api).is_some_and(|object| object.member.deleting);
    let exists = |api: Api| pair.machine(api).is_some();
    for api in [authority, authority.other()] {
        let other = api.other();
        if deleting(api)
            && !deleting(other)
            && let Some(object) = pair.machine(other)
        {
            return match fate(pair, api, authority) {
                Fate::Both => {
                    let because = format!("the Machine in {} is being deleted", api.title());
                    Write::delete(Part::of(other), object, because).into()
                }
                Fate::OnlyThis => only_this(pair, api, authority),
            };
        }
    }
    let parts = [Api::MachineApi, Api::ClusterApi];
    let carry_out = match authority {
        Api::MachineApi => machine_api_deletes(pair),
        Api::ClusterApi => cluster_api_deletes(pair),
    };
    if let Some(decision) = carry_out {
        return decision;
    }
    // The mirror first: its finalizers do not hold an instance.
    let order = [authority.other(), authority];
    let released = order.into_iter().filter(|api| exists(*api)).find_map(|api| {
        let removed = if api == authority {
            Removed::Own
        } else {
            Removed::OwnAndControllers
        };
        release(pair, api, removed)
    });
    let left = parts.into_iter().filter(|api| exists(*api)).map(Api::title);
    let left: Vec<&str> = left.collect();
    released.unwrap_or_else(|| {
        Decision::wait(format!(
            "other finalizers hold the Machine in {}",
            left.join(" and in ")
        ))
    })
}

/// The Machine of an API is deleted, and the other one stays.
fn only_this(pair: &Pair, deleted: Api, authority: Api) -> Decision {
    let is_mirror = deleted != authority;
    let wait = |decision: Option<Decision>| decision.unwrap_or(Decision::Idle);
    match (deleted, is_mirror) {
        (Api::MachineApi, _) => {
            if !is_mirror && let Some(decision) = machine_api_holds(pair) {
                return decision;
            }
            // The authoritative Machine may still have the pause of its first copy.
            if is_mirror && let Some(write) = pause::open(pair) {
                return write.into();
            }
            // The Machine in Cluster API is left alone. A mirror stays paused: without a pause, its
            // controllers could create an instance.
            let infrastructure = || release_part(pair, Part::Infrastructure, Removed::Own);
            let removed = if is_mirror {
                Removed::OwnAndControllers
            } else {
                Removed::Own
            };
            let left = infrastructure().or_else(|| release(pair, Api::ClusterApi, Removed::Own));
            wait(left.or_else(|| release(pair, Api::MachineApi, removed)))
        }
        (Api::ClusterApi, true) => {
            let gone = destroy_infrastructure(pair);
            wait(gone.or_else(|| release(pair, Api::ClusterApi, Removed::OwnAndControllers)))
        }
        (Api::ClusterApi, false) => {
            let held = cluster_api_deletes(pair);
            wait(held.or_else(|| release(pair, Api::ClusterApi, Removed::Own)))
        }
    }
}

/// Waits until the controllers of the Machine API deleted the instance.
fn machine_api_holds(pair: &Pair) -> Option<Decision> {
    let machine = pair.machine_api.as_ref()?;
    finalizers::is_held(Part::MachineApi, machine)
        .then(|| Decision::wait("the controllers of the Machine API delete the instance"))
}

/// The Machine API is authoritative: its controllers delete the instance, and the mirror of the
/// infrastructure follows.
fn machine_api_deletes(pair: &Pair) -> Option<Decision> {
    machine_api_holds(pair).or_else(|| destroy_infrastructure(pair))
}

/// Deletes a mirrored infrastructure machine, which holds no instance.
fn destroy_infrastructure(pair: &Pair) -> Option<Decision> {
    let infrastructure = pair.infrastructure.as_ref()?;
    if !infrastructure.member.deleting {
        let because = "it is the mirror of a Machine that is being deleted";
        return Some(Write::delete(Part::Infrastructure, infrastructure, because).into());
    }
    let released = release_part(pair, Part::Infrastructure, Removed::OwnAndControllers);
    Some(released.unwrap_or_else(|| held_by_others(infrastructure)))
}

/// Cluster API is authoritative: its controllers delete the infrastructure machine with the
/// instance, then their own finalizer.
fn cluster_api_deletes(pair: &Pair) -> Option<Decision> {
    if let Some(write) = pause::unpause(pair) {
        return Some(write.into());
    }
    let held = |object: &FullObject| finalizers::is_held(Part::ClusterApi, object);
    let machine_is_held = pair.cluster_api.as_ref().is_some_and(held);
    if let Some(infrastructure) = &pair.infrastructure {
        if !infrastructure.member.deleting && !machine_is_held {
            let because = "its Machine is being deleted";
            return Some(Write::delete(Part::Infrastructure, infrastructure, because).into());
        }
        if !infrastructure.member.deleting {
            return Some(Decision::wait(
                "Cluster API drains the node and deletes the infrastructure",
            ));
        }
        if finalizers::is_held(Part::Infrastructure, infrastructure) {
            return Some(Decision::wait("the infrastructure provider deletes the instance"));
        }
        let released = release_part(pair, Part::Infrastructure, Removed::Own);
        return Some(released.unwrap_or_else(|| held_by_others(infrastructure)));
    }
    machine_is_held.then(|| Decision::wait("Cluster API removes its finalizer"))
}

fn held_by_others(object: &FullObject) -> Decision {
    Decision::wait(format!("other finalizers hold {}", pause::title(object)))
}

fn release(pair: &Pair, api: Api, removed: Removed) -> Option<Decision> {
    release_part(pair, Part::of(api), removed)
}

fn release_part(pair: &Pair, part: Part, removed: Removed) -> Option<Decision> {
    let because = "the sync controller has nothing left to do with it";
    let write = finalizers::release(part, pair.part(part)?, removed, because)?;
    Some(write.into())
}

/// The next action for an infrastructure machine that is being deleted alone, and is not made
/// again. The controllers of a mirror are paused, and hold no instance.
pub(super) fn infrastructure(pair: &Pair, object: &FullObject) -> Decision {
    let authority = pair.machine_api.as_ref().map(|machine| machine.member.authority());
    let is_mirror = authority == Some(Authority::Stable(Api::MachineApi)) && object.member.is_paused_by_sync();
    if !is_mirror && finalizers::is_held(Part::Infrastructure, object) {
        return Decision::wait("the infrastructure provider deletes the instance");
    }
    let removed = match is_mirror {
        true => Removed::OwnAndControllers,
        false => Removed::Own,
    };
    release_part(pair, Part::Infrastructure, removed).unwrap_or_else(|| held_by_others(object))
}

/// The next action for objects of Cluster API that have no Machine in the Machine API: they are
/// released. A pause by the sync controller stays, because the authoritative object may return, and
/// because an unpaused mirror could create an instance. An object that is being deleted can create
/// none: it is unpaused, so that its controllers remove what they hold, and it does not stay in
/// deletion.
///
/// A Machine of a MachineSet whose first copy has not ended is deleted, as the row of the table for
/// its Machine in the Machine API demands: its creation arrived after that deletion.
pub fn unmirrored(pair: &Pair) -> Decision {
    let is_of_set = |machine: &&FullObject| {
        let owner = machine.member.owner();
        !machine.member.deleting && owner.is_some_and(|owner| owner.kind == "MachineSet")
    };
    let machine = pair.cluster_api.as_ref().filter(is_of_set);
    if let Some(machine) = machine.filter(|_| record::is_unfinished_copy(pair)) {
        let because = "its Machine in the Machine API is deleted, and the copy has not ended";
        return Write::delete(Part::ClusterApi, machine, because).into();
    }
    if let Some(write) = pause::unpause_deleted(pair) {
        return write.into();
    }
    let released = [Part::Infrastructure, Part::ClusterApi]
        .into_iter()
        .find_map(|part| release_part(pair, part, Removed::Own));
    released.unwrap_or(Decision::Idle)
}
