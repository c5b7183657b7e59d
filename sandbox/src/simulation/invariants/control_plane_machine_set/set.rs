//! What the controller and other clients may write to the set.

use capstan_core::api::machine_openshift_io::control_plane_machine_set::{ControlPlaneMachineSet, FINALIZER};
use serde_json::Value;

use crate::api::{Change, ChangeKind, Object};
use crate::simulation::engine::schedule::MINUTE;
use crate::simulation::invariants::check::Check;
use crate::simulation::invariants::moment::Moment;
use crate::simulation::invariants::shared;
use crate::simulation::machine_api::kinds::SET_NAME;

/// The reasons for which an incomplete rollout may be reported as one that does not progress.
const STOPPED: [&str; 7] = [
    "RolloutPaused",
    "RolloutLimitReached",
    "WaitingForDelete",
    "OperatorDegraded",
    "Deleting",
    "Inactive",
    "ProgressDeadlineExceeded",
];
/// The controller may report within this time what it has just learned, in milliseconds.
const REPORTED_WITHIN: i64 = MINUTE;

/// A write to the set.
pub(crate) struct SetWrite<'a> {
    /// Whether the ControlPlaneMachineSet controller wrote.
    pub(crate) by_controller: bool,
    pub(crate) change: &'a Change,
    /// The set after the write.
    pub(crate) set: &'a ControlPlaneMachineSet,
    /// What is true now, before the write.
    pub(crate) now: &'a Moment,
    /// For how many milliseconds an index has had no machine of the template; `None` if each index
    /// has one, or if faults delay what the controller knows.
    pub(crate) incomplete_for: Option<i64>,
}

impl<'a> SetWrite<'a> {
    /// The checks of a write to the set. The first one that fails counts.
    pub(crate) const CHECKS: [Check<Self>; 8] = [
        Check::new("C5", unusual_name_or_replicas),
        Check::new("C4", deactivated),
        Check::new("C5", scaled),
        Check::new("G9", spec_changed_by_controller),
        Check::new("G6", generation_observed_early),
        Check::new("G6", transition_time_moved),
        Check::new("C6", released_too_early),
        Check::new("P6", completed_too_early),
    ];
}

impl SetWrite<'_> {
    /// The set before a write that changes it.
    fn before(&self) -> Option<&Object> {
        let old = self.change.old.as_deref();
        old.filter(|_| self.change.kind == ChangeKind::Modified)
    }

    /// The set before a write that changes its spec.
    fn before_spec(&self) -> Option<&Object> {
        self.before().filter(|old| !old.has_same(&self.change.object, "spec"))
    }
}

fn unusual_name_or_replicas(write: &SetWrite<'_>) -> Option<String> {
    let (name, replicas) = (write.set.metadata.name(), write.set.spec.replicas);
    let usual = name == SET_NAME && matches!(replicas, Some(3 | 5));
    (!usual).then(|| format!("set {name} with {replicas:?} replicas is stored"))
}

fn deactivated(write: &SetWrite<'_>) -> Option<String> {
    let was_active = write.before_spec()?.pointer("/spec/state")?.as_str() == Some("Active");
    let is_active = write.set.spec.state.as_deref() == Some("Active");
    (was_active && !is_active).then(|| "an Active set becomes Inactive".to_owned())
}

fn scaled(write: &SetWrite<'_>) -> Option<String> {
    let replicas = "/spec/replicas";
    let differ = write.before_spec()?.pointer(replicas) != write.change.object.pointer(replicas);
    differ.then(|| "spec.replicas changes".to_owned())
}

fn spec_changed_by_controller(write: &SetWrite<'_>) -> Option<String> {
    let changed = write.before_spec().is_some() && write.by_controller;
    changed.then(|| "a controller changes the spec of the set, which belongs to its user".to_owned())
}

fn generation_observed_early(write: &SetWrite<'_>) -> Option<String> {
    write.before().filter(|_| write.by_controller)?;
    shared::generation_observed_early(&write.change.object)
}

fn transition_time_moved(write: &SetWrite<'_>) -> Option<String> {
    let old = write.before().filter(|_| write.by_controller)?;
    shared::transition_time_moved(old, &write.change.object)
}

/// The finalizer of the set is removed after the last owner reference.
fn released_too_early(write: &SetWrite<'_>) -> Option<String> {
    let held = |object: &Object| {
        let list = object.pointer("/metadata/finalizers").and_then(Value::as_array);
        list.into_iter().flatten().any(|one| one.as_str() == Some(FINALIZER))
    };
    let had = write.change.old.as_ref().is_some_and(|old| held(old));
    let has = write.change.kind != ChangeKind::Deleted && held(&write.change.object);
    if !write.by_controller || !had || has {
        return None;
    }
    let uid = write.set.metadata.uid();
    let owned = write
        .now
        .machines
        .iter()
        .find(|(_, machine)| machine.metadata.owner_references.iter().any(|owner| owner.uid == uid));
    let (name, _) = owned?;
    Some(format!(
        "the finalizer of the set is removed while machine {name} has an owner reference to it"
    ))
}

/// The status says that a rollout does not progress, and it is neither complete nor stopped.
fn completed_too_early(write: &SetWrite<'_>) -> Option<String> {
    write.before().filter(|_| write.by_controller)?;
    let time = write.incomplete_for.filter(|time| *time > REPORTED_WITHIN)?;
    let mut conditions = write.set.status.as_ref()?.conditions.iter();
    let progressing = conditions.find(|condition| condition.type_ == "Progressing")?;
    let reason = progressing.reason.as_str();
    let wrong = progressing.status == "False" && !STOPPED.contains(&reason);
    wrong.then(|| {
        format!(
            "Progressing is False ({reason}), and a rollout has been incomplete for {}s",
            time / 1000
        )
    })
}
