//! The next action for a mirrored Machine, MachineSet, or MachineHealthCheck: the one entry for a
//! controller.
//!
//! The order is: `status.authoritativeAPI`, deletion, finalizers, pauses, the copy, the report, the
//! migration. Each call returns at most one write. The caller reads all objects again before the
//! next call, so that every decision is made for the objects as they are.
//!
//! Must never: let the controllers of both APIs act on one instance.

use jiff::Timestamp;
use serde_json::{Map, json};

use super::pair::{Decision, FullObject, Pair, Part, Write};
use super::plan::{self, Step};
use super::record;
use super::report::{self, Agreed, Synchronized};
use super::spec::{Api, Authority, Kind};
use super::sync::{self, Outcome};
use super::{finalizers, foreign, hooks, migration, pause, recording, removal, set_removal};
use crate::api::machine_openshift_io::authority::MIRRORED;

/// The next action for a pair.
pub fn next(pair: &Pair, now: Timestamp) -> Decision {
    let Some(machine) = &pair.machine_api else {
        return without_machine_api(pair);
    };
    let observed = migration::observe(pair, machine, false, None);
    let step = plan::next(&observed);
    match step {
        Step::InitializeStatus(_) | Step::Cancel { .. } | Step::PauseTarget { .. } => {
            return migration::carry_out(pair, machine, step, now);
        }
        Step::Stop => {
            let condition = Synchronized::blocked("MigrationStopped", migration::stopped(pair, machine));
            let write = report::synchronization(machine, &condition, None, now);
            return write.map_or_else(|| migration::carry_out(pair, machine, step, now), Decision::from);
        }
        _ => {}
    }
    let Some(source) = observed.source() else {
        return Decision::Idle;
    };
    let authority = machine.member.authority();
    let is_leading = authority == Authority::Stable(Api::MachineApi);
    if let Some(why) = foreign::in_the_way(pair, machine).filter(|_| is_leading) {
        return beside_foreign(pair, machine, why, now);
    }
    if let Some(write) = hooks::next(pair, source) {
        return write.into();
    }
    if let Some(write) = migration::take_back(pair, machine) {
        return write.into();
    }
    if observed.deleting {
        return match pair.is_parent() {
            true => set_removal::next(pair, source),
            false => removal::next(pair, source),
        };
    }
    if let Some(write) = removal::late_copy(pair) {
        return write.into();
    }
    if let Some(write) = finalizers::protect(pair) {
        return write.into();
    }
    if let Some(write) = removal::disown(pair, authority).filter(|_| !pair.is_parent()) {
        return write.into();
    }
    let from = direction(pair, source);
    if let Some(decision) = pauses(pair, authority, from) {
        return decision;
    }
    copy(pair, machine, from, now).unwrap_or_else(|step| migration::carry_out(pair, machine, step, now))
}

/// The next action for a pair while mirroring is switched off: only deletions continue, so that no
/// object keeps the finalizer of the sync controller for ever.
pub fn deletion(pair: &Pair, now: Timestamp) -> Decision {
    let is_deleting = |part: Part| pair.part(part).is_some_and(|object| object.member.deleting);
    let machine = pair.machine_api.as_ref();
    if !is_deleting(Part::MachineApi) && machine.is_some_and(|machine| foreign::in_the_way(pair, machine).is_some()) {
        return Decision::Idle;
    }
    // The next action for a pair that is being deleted never copies anything.
    if is_deleting(Part::MachineApi) || is_deleting(Part::ClusterApi) {
        return next(pair, now);
    }
    match &pair.infrastructure {
        Some(infrastructure) if infrastructure.member.deleting && !pair.is_parent() => {
            removal::infrastructure(pair, infrastructure)
        }
        _ => Decision::Idle,
    }
}

/// The next action beside an object of Cluster API that is not the mirror. That object is left
/// alone, also if the Machine is deleted.
fn beside_foreign(pair: &Pair, machine: &FullObject, why: String, now: Timestamp) -> Decision {
    if machine.member.deleting {
        let own = Pair {
            cluster_api: None,
            infrastructure: None,
            ..pair.clone()
        };
        return match pair.is_parent() {
            true => set_removal::next(&own, Api::MachineApi),
            false => removal::next(&own, Api::MachineApi),
        };
    }
    let condition = Synchronized::blocked(foreign::REASON, why.clone());
    let write = report::synchronization(machine, &condition, None, now);
    write.map_or_else(|| Decision::wait(why), Decision::from)
}

/// The API that is copied from. A Machine that was created in the Machine API with Cluster API as
/// its authority is copied to Cluster API once. Of a MachineSet, the infrastructure template is
/// created first, so the copy is complete when it exists.
fn direction(pair: &Pair, source: Api) -> Api {
    if pair.cluster_api.is_none() || record::is_unfinished_copy(pair) {
        return Api::MachineApi;
    }
    source
}

/// Closes the gate of the API that is not authoritative, and opens the other one. The controllers
/// of the Machine API read the status, so only their MachineHealthChecks have a gate.
fn pauses(pair: &Pair, authority: Authority, from: Api) -> Option<Decision> {
    match authority {
        Authority::Stable(Api::MachineApi) => {
            let closed = pause::close(pair, Api::ClusterApi, false);
            closed.or_else(|| pause::open_check(pair).map(Decision::from))
        }
        // The migration pauses the source itself, and waits for the acknowledgement.
        Authority::Migrating => None,
        Authority::Stable(Api::ClusterApi) if from == Api::MachineApi => None,
        Authority::Stable(Api::ClusterApi) => {
            if let Some(close) = pause::close(pair, Api::MachineApi, false) {
                return Some(close);
            }
            pause::open(pair).map(Decision::from)
        }
    }
}

/// The next write of the synchronization or of its report. `Err` if nothing is to be written, with
/// the next step of the migration.
fn copy(pair: &Pair, machine: &FullObject, from: Api, now: Timestamp) -> Result<Decision, Step> {
    let mut fingerprint = None;
    let (condition, agrees) = match sync::compare(pair, from, &mut fingerprint) {
        Outcome::Write(write) => return Ok(Decision::Write(write)),
        Outcome::Current(losses) => (Synchronized::agrees(pair.kind, from, &losses), true),
        Outcome::Blocked { reason, message } => (Synchronized::blocked(reason, message), false),
    };
    let source = pair.machine(from).filter(|_| agrees);
    let agreed = source.map(|source| Agreed {
        api: from,
        generation: source.member.generation,
    });
    if let Some(agreed) = agreed
        && let Some(decision) = unrecorded(pair.kind, machine, &condition, agreed, now)
    {
        return Ok(decision);
    }
    let step = plan::next(&migration::observe(pair, machine, agrees, fingerprint.as_ref()));
    // The begin of a migration reports the generation, too.
    let begins = matches!(step, Step::Begin { .. });
    let agreed = agreed.map(|agreed| Agreed {
        generation: agreed.generation.filter(|_| !begins),
        ..agreed
    });
    match report::synchronization(machine, &condition, agreed, now) {
        Some(write) => Ok(write.into()),
        None => forget(machine).filter(|_| agrees).map(Decision::from).ok_or(step),
    }
}

/// Reports that the status does not store what a requested migration needs to come back. `agrees`
/// is the condition of a mirror that agrees: a write of it had all fields.
fn unrecorded(
    kind: Kind,
    machine: &FullObject,
    agrees: &Synchronized,
    agreed: Agreed,
    now: Timestamp,
) -> Option<Decision> {
    let member = &machine.member;
    let is_requested = member.status_authority == Some(Authority::Stable(member.desired_api().other()));
    let missing = recording::missing(member, agreed.generation);
    if !is_requested || missing.is_empty() || !recording::is_tried(member, agrees) {
        return None;
    }
    let why = recording::not_stored(kind, agreed.api, &missing);
    let condition = Synchronized::blocked(recording::NOT_STORED, why.clone());
    let write = report::synchronization(machine, &condition, Some(agreed), now);
    Some(write.map_or_else(|| Decision::wait(why), Decision::from))
}

/// Removes the record of a mirror from an object of the Machine API that is authoritative again.
fn forget(machine: &FullObject) -> Option<Write> {
    let is_leading = machine.member.status_authority == Some(Authority::Stable(Api::MachineApi));
    machine.annotation(MIRRORED).filter(|_| is_leading)?;
    let patch = Map::from_iter([(String::from("metadata"), json!({"annotations": {MIRRORED: null}}))]);
    let because = "it is no mirror any more";
    Some(Write::patch(Part::MachineApi, machine, patch, because))
}

/// The next action without a Machine in the Machine API. A Machine of a MachineSet that both APIs
/// have is mirrored. Any other one is released. A MachineSet or a MachineHealthCheck of Cluster API
/// is never copied to the Machine API unasked.
fn without_machine_api(pair: &Pair) -> Decision {
    if pair.is_parent() {
        return set_removal::unmirrored(pair);
    }
    let Some(machine) = &pair.cluster_api else {
        return removal::unmirrored(pair);
    };
    let owner = machine.member.owner().filter(|owner| owner.kind == "MachineSet");
    let has_mirrored_set = owner.is_some() && pair.machine_api_set.as_ref().is_some_and(|set| !set.member.deleting);
    // A pause by the sync controller marks a mirror that lost its authoritative Machine.
    let is_mirror = machine.member.is_paused_by_sync();
    if !has_mirrored_set || is_mirror || machine.member.deleting {
        return removal::unmirrored(pair);
    }
    // Before its mirror exists: a deletion that is missed would leave a mirror without a Machine,
    // and the Machine would be made again from it.
    if let Some(write) = finalizers::protect(pair) {
        return write.into();
    }
    match sync::next(pair, Api::ClusterApi) {
        Outcome::Write(write) => Decision::Write(write),
        Outcome::Current(_) => Decision::Idle,
        Outcome::Blocked { reason, message } => Decision::wait(format!("{reason}: {message}")),
    }
}
