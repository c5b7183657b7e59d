//! What the controllers of ControlPlaneMachineSets and ControlPlanes do alike with a plan of core:
//! steps become writes, creations are recorded first, and errors that last become a condition.
//!
//! Nothing here decides which step is taken, and nothing here writes.

use capstan_core::api::kinds;
use capstan_core::api::meta::{Condition, ObjectMeta};
use capstan_core::cpms::action::{Action, Step};
use capstan_core::cpms::pending_creates;
use capstan_core::cpms::status::condition;
use capstan_core::model::PendingCreation;
use jiff::{SignedDuration, Timestamp};
use serde_json::Value;

use super::pending_creates::PendingCreates;
use crate::runtime::{EventSpec, Moment, StepError, Verb, Write};

/// How long the same error lasts before it becomes the condition `Error`.
const LASTING: SignedDuration = SignedDuration::from_secs(80);

/// A step as a write to a machine in `namespace`, or, through `owner`, to the object that owns the
/// machines. `purpose` names the annotations of a new machine that must be those of a machine that
/// exists already. `None` if the new machine cannot be encoded.
pub(super) fn write(
    step: &Step,
    namespace: &str,
    purpose: &'static [&'static str],
    owner: impl FnOnce(Verb) -> Write,
) -> Option<Write> {
    let machine = |verb| {
        let name = step.machine().unwrap_or_default();
        Write::new(&kinds::MACHINES, namespace, name, verb)
    };
    Some(match &step.action {
        Action::Create { machine: wanted, .. } => match serde_json::to_value(wanted) {
            Ok(body) => machine(Verb::Create { body, purpose }),
            Err(error) => {
                tracing::error!(%error, machine = step.machine(), "the new machine cannot be encoded");
                return None;
            }
        },
        Action::Delete { .. } => machine(Verb::Delete {
            precondition: step
                .precondition
                .as_ref()
                .map(|there| (there.uid.clone(), there.resource_version.clone())),
        }),
        Action::Patch { patch, .. } => machine(Verb::Patch(patch.clone())),
        Action::PatchSet(patch) | Action::Records(patch) => owner(Verb::Patch(patch.clone())),
    })
}

/// Whether the step writes to the object that owns the machines.
pub(super) fn patches_owner(step: &Step) -> bool {
    matches!(step.action, Action::PatchSet(_) | Action::Records(_))
}

/// The patch that records in the owner of the machines, as it was read, that this process is about
/// to create a machine. `None` if the step creates none, or if the creation is recorded already.
/// The API server refuses the patch if the owner has changed since.
pub(super) fn record(
    pending: &mut PendingCreates,
    owner: &ObjectMeta,
    step: &Step,
    identity: &str,
    moment: Moment,
) -> Option<Value> {
    let new = pending_creates::creation(step, identity, moment.time)?;
    pending.request(&new.machine, moment.instant);
    // While the record cannot be read, the plan is degraded and creates nothing.
    let recorded = pending_creates::recorded(owner).ok()?;
    if pending.is_recorded(&new, &recorded, moment.instant) {
        return None;
    }
    let superseded = |earlier: &PendingCreation| pending.is_superseded_by(earlier, &new);
    let patch = pending_creates::record(owner, &new, superseded).ok()?;
    // Before the outcome is known: if the record is stored, it is not another process's.
    pending.record(new, moment.instant);
    Some(patch)
}

/// Remembers a creation that was not refused. It may still be carried out.
pub(super) fn failed(pending: &mut PendingCreates, step: &Step, identity: &str, error: &StepError, moment: Moment) {
    let Some(creation) = pending_creates::creation(step, identity, moment.time) else {
        return;
    };
    if let (Action::Create { machine, .. }, false) = (&step.action, error.is_refusal()) {
        pending.never_answered(creation.index, machine, moment.instant);
    }
}

/// What keeps the controller from working, if it has lasted long enough. A process that finds the
/// condition of the process before it (`known`) keeps the condition until a reconcile succeeds.
pub(super) fn lasting_error(failing: Option<&(Timestamp, String)>, known: bool, now: Timestamp) -> Option<&str> {
    let (since, text) = failing?;
    (known || now.duration_since(*since) >= LASTING).then_some(text.as_str())
}

/// Whether the condition about such an error is reported.
pub(super) fn reports_error(conditions: &[Condition]) -> bool {
    let mut conditions = conditions.iter();
    conditions.any(|there| there.type_ == condition::ERROR && there.status == "True")
}

/// The events about errors. Conflicts have no event: the next reconcile reads again.
pub(super) fn failures<'a>(errors: &'a [StepError]) -> impl Iterator<Item = EventSpec<'a>> {
    let errors = errors.iter().filter(|error| !error.is_conflict());
    errors.map(|error| EventSpec {
        warning: true,
        reason: "Failed",
        message: error.to_string().into(),
        key: error.to_string(),
    })
}

/// The event about a step. `owner` is the kind and the name of the object that owns the machines.
/// The bookkeeping of creations is no event.
pub(super) fn step_event(step: &Step, owner: &str) -> Option<EventSpec<'static>> {
    let (reason, verb) = match &step.action {
        Action::Create { .. } => ("Created", "created"),
        Action::Delete { .. } => ("Deleted", "deleted"),
        Action::Patch { .. } | Action::PatchSet(_) => ("Updated", "updated"),
        Action::Records(_) => return None,
    };
    let subject = match step.machine() {
        Some(machine) => format!("machine {machine}"),
        None => owner.to_owned(),
    };
    let version = step
        .precondition
        .as_ref()
        .map_or("", |precondition| &precondition.resource_version);
    let because = step.because.strip_prefix(&format!("{subject}: "));
    Some(EventSpec {
        warning: false,
        reason,
        message: format!("{verb} {subject}: {}", because.unwrap_or(&step.because)).into(),
        key: format!("{subject} {version}"),
    })
}
