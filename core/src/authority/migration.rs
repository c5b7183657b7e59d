//! Carries out the migration of a mirrored object: the step of [`plan`](super::plan)
//! for the objects as they are, and the write of that step.
//!
//! Every step states what must hold, and is checked again each time. So a controller that was
//! stopped anywhere continues, and two controllers at once do the same. The authority changes in
//! one write of `status.authoritativeAPI`, which fails if the Machine has changed since it was
//! read, for example because the migration was cancelled.
//!
//! Must never: begin while the controllers of the source are paused, finish without their
//! acknowledgement, or guess the direction of a migration that records none. The records of the
//! mirrors tell the way back (`recording`). A migration that ended after its mirror was deleted is
//! taken back before the controllers of Cluster API act.
//!
//! Source: the Converting Machine API to Cluster API enhancement, "Migration of resources";
//! decisions 12 and 13.

use jiff::Timestamp;

use super::pair::{Decision, FullObject, Pair, Write};
use super::plan::{Observed, Step};
use super::removal::{self, Fate};
use super::spec::{Api, Authority, ObservedCondition};
use super::sync::Fingerprint;
use super::{finalizers, pause, recording, report, sync};
use crate::conversion;

/// The state of the migration of a pair. `agrees` tells that the mirror was compared with its
/// source and there is nothing to write; `known` is the fingerprint that the comparison needed.
pub(super) fn observe(pair: &Pair, machine: &FullObject, agrees: bool, known: Option<&Fingerprint>) -> Observed {
    let member = &machine.member;
    let mut observed = Observed::of(member, pair.cluster_api.as_ref().map(|object| &*object.member));
    let condition = member.synchronized.as_ref();
    observed.synchronized = condition.is_some_and(ObservedCondition::is_true);
    let Some(source) = observed.source() else {
        return observed;
    };
    let target = source.other();
    observed.is_current = agrees && sync::is_current(pair, source, known);
    observed.source_is_ready = not_ready(pair, source).is_none();
    observed.source_paused = pause::is_acknowledged(pair, source);
    observed.target_paused = pause::is_closed(pair, target);
    observed.target_has_finalizers = finalizers::hand_over(pair, target).is_none();
    observed
}

/// Why a migration cannot begin. `None`: it can.
pub fn not_ready(pair: &Pair, from: Api) -> Option<String> {
    let source = pair.machine(from)?;
    if let Some(issue) = conversion::hand_over(&source.value) {
        return Some(format!("{}: {}", issue.path.as_str(), issue.reason));
    }
    let provisioned = match from {
        Api::MachineApi => matches!(source.member.phase.as_deref(), Some("Provisioned" | "Running")),
        Api::ClusterApi => source.member.provisioned == Some(true),
    };
    if !provisioned && !pair.is_parent() {
        return Some(format!(
            "the instance of the Machine in {} is not provisioned",
            from.title()
        ));
    }
    // A request that releases the mirror of the MachineSet may be stored late. It was decided while
    // the other API was authoritative for this Machine (V239).
    let mut sets = [Api::MachineApi, Api::ClusterApi].into_iter();
    if let Some(api) = sets.find(|api| pair.set(*api).is_some_and(|set| set.member.deleting)) {
        let name = pair.set(api).map(|set| set.member.name.as_str()).unwrap_or_default();
        return Some(format!("the MachineSet {name} in {} is being deleted", api.title()));
    }
    let cluster = pair.surroundings.cluster.as_deref();
    let paused = |cluster: &serde_json::Value| cluster.pointer("/spec/paused") == Some(&true.into());
    if cluster.is_some_and(paused) {
        return Some(String::from("the Cluster is paused, so Cluster API would not act"));
    }
    pause::not_running(pair, from)
}

/// Returns to a migration that ended while the mirror in Cluster API was being deleted. The write
/// that ends a migration fails if the object of the Machine API has changed, but not if the other
/// one has. A deletion that is requested before that write is the deletion of a mirror, which
/// reaches no instance. The migration goes back to the Machine API from here, because an object is
/// being deleted. A deletion between that write and the end of the pause has the same outcome: no
/// object records which of the two came first, and no controller of Cluster API acts yet.
pub(super) fn take_back(pair: &Pair, machine: &FullObject) -> Option<Write> {
    let member = &machine.member;
    let has_ended = member.status_authority == Some(Authority::Stable(Api::ClusterApi))
        && member
            .synchronized
            .as_ref()
            .is_some_and(|known| known.reason == report::CHANGED);
    let mirror = pair.cluster_api.as_ref().filter(|mirror| mirror.member.deleting)?;
    let is_paused = |object: &FullObject| object.member.is_paused_by_sync();
    let is_closed = is_paused(mirror) && pair.infrastructure.as_ref().is_none_or(is_paused);
    let stays = pair.is_parent() || removal::fate(pair, Api::ClusterApi, Api::MachineApi) == Fate::OnlyThis;
    let because = "the mirror in Cluster API was deleted before its controllers acted";
    (has_ended && is_closed && stays && !member.deleting)
        .then(|| report::authority(machine, Authority::Migrating, Api::MachineApi, because))
}

/// The write of a step, or what the step waits for.
pub fn carry_out(pair: &Pair, machine: &FullObject, step: Step, now: Timestamp) -> Decision {
    match step {
        Step::InitializeStatus(api) => report::authority(
            machine,
            Authority::Stable(api),
            api,
            "the status names no authoritative API",
        )
        .into(),
        Step::Idle(_) => Decision::Idle,
        Step::Stop => Decision::wait(stopped(pair, machine)),
        Step::AwaitRecord { .. } => Decision::wait(format!(
            "the migration waits until the status of the {} records what it needs to come back",
            pair.kind.title()
        )),
        Step::AwaitSynchronization { .. } | Step::Synchronize { .. } => Decision::wait(format!(
            "the migration waits until the mirror agrees with the authoritative {}",
            pair.kind.title()
        )),
        Step::AwaitSource { from } => {
            let reason = not_ready(pair, from).unwrap_or_default();
            Decision::wait(format!("the migration has not begun: {reason}"))
        }
        Step::Begin { from } => {
            let generation = pair.machine(from).and_then(|source| source.member.generation);
            report::begun(machine, from, generation).into()
        }
        Step::PauseSource { from } => pause::close(pair, from, true).unwrap_or_else(|| {
            let from = from.title();
            Decision::wait(format!(
                "the controllers of {from} have not acknowledged the pause of this migration"
            ))
        }),
        Step::HandOverFinalizers { to } => match finalizers::hand_over(pair, to) {
            Some(write) => write.into(),
            None => Decision::Idle,
        },
        Step::Finish { to } => report::finished(machine, pair.kind, to, now).into(),
        Step::PauseTarget { back_to } => pause::close(pair, back_to.other(), false).unwrap_or(Decision::Idle),
        Step::Cancel { back_to } => report::authority(
            machine,
            Authority::Stable(back_to),
            back_to,
            "the migration is cancelled",
        )
        .into(),
    }
}

/// Why a migration without a recorded source does not continue.
pub(super) fn stopped(pair: &Pair, machine: &FullObject) -> String {
    let mirror = pair.cluster_api.as_ref().map(|object| &*object.member);
    recording::stopped(recording::source(&machine.member, mirror))
}
