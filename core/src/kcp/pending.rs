//! Creations of machines that are recorded in the control plane, and may still take effect.
//!
//! A controller records a creation before it sends the first request (decision 46). While a
//! recorded machine may still appear, no other machine is created or deleted: it would be one
//! machine more than planned. The same machine may be requested again, because its name is derived.
//!
//! The removal of a record also stores the name of the machine. The name of the next machine is
//! derived from it: a machine that is gone may have left an infrastructure machine of its name.
//!
//! A record also tells the revision that its machine was created from, and stays while the machine
//! does not tell it: a policy may drop annotations (V170).

use jiff::Timestamp;

use super::action::{Action, Plan, Step, Wait, WaitReason, control_plane_ref, machine_ref, precondition};
use super::outdated::REVISION;
use super::state::State;
use crate::api::meta::ObjectMeta;
use crate::model::{
    Degradation, PendingCreation, UnreadablePendingCreations, pending_creations, pending_creations_patch,
};

/// On a control plane: the name of the machine that it created last (decision 68).
pub const LAST_CREATED: &str = "capstan.dev/last-created";

/// A recorded creation.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Recorded {
    /// The record.
    pub creation: PendingCreation,
    /// Until when a request may still be carried out; `None` if every request was answered, or can
    /// no longer be carried out.
    pub until: Option<Timestamp>,
}

/// The creations that a control plane records.
///
/// # Errors
/// The annotation cannot be read.
pub fn recorded(control_plane: &ObjectMeta) -> Result<Vec<PendingCreation>, UnreadablePendingCreations> {
    pending_creations(&control_plane.annotations)
}

/// The record of a step that creates a machine; `None` for every other step.
pub fn creation(step: &Step, requested_by: &str, requested_at: Timestamp) -> Option<PendingCreation> {
    let Action::Create { machine, .. } = &step.action else {
        return None;
    };
    Some(PendingCreation {
        // The machines of a control plane have no index.
        index: 0,
        machine: machine.metadata.name().to_owned(),
        requested_by: requested_by.to_owned(),
        requested_at: Timestamp::from_second(requested_at.as_second()).unwrap_or(requested_at),
        revision: machine.metadata.annotations.get(REVISION).cloned(),
    })
}

/// The patch that records a creation in the control plane as it was read. An earlier record of the
/// same process for the same machine is replaced.
///
/// # Errors
/// The annotation cannot be read.
pub fn record(
    control_plane: &ObjectMeta,
    new: &PendingCreation,
) -> Result<serde_json::Value, UnreadablePendingCreations> {
    let mut records = recorded(control_plane)?;
    records.retain(|record| record.requested_by != new.requested_by || !record.is_for_machine_of(new));
    records.push(new.clone());
    Ok(pending_creations_patch(&records, &precondition(control_plane)))
}

/// Takes the records into account: removes the steps that must wait for them, and adds the step
/// that removes records which are over.
pub(super) fn hold(state: &State, recorded: &Result<Vec<Recorded>, UnreadablePendingCreations>, plan: &mut Plan) {
    let records = match recorded {
        Ok(records) => records,
        Err(error) => {
            plan.steps.retain(|step| !matches!(step.action, Action::Create { .. }));
            plan.degraded.push(Degradation {
                reason: "UnreadablePendingCreations",
                message: format!("{error}. Remove the annotation if no machine is being created"),
            });
            return;
        }
    };
    let coming: Vec<&Recorded> = records
        .iter()
        .filter(|record| record.until.is_some() && state.machine(&record.creation.machine).is_none())
        .collect();
    let is_requested_again = |step: &Step| match &step.action {
        Action::Create { machine, .. } => coming
            .iter()
            .all(|record| record.creation.machine == machine.metadata.name()),
        _ => false,
    };
    // The last write of a control plane that is being deleted removes the finalizer.
    let is_last = state.is_deleting() && state.machines.is_empty();
    let must_wait = |step: &Step| {
        let is_deletion = state.is_deleting() && matches!(step.action, Action::Delete { .. });
        (is_last || step.verb() == "create" || step.verb() == "delete") && !is_requested_again(step) && !is_deletion
    };
    if !coming.is_empty() && plan.steps.iter().any(must_wait) {
        plan.steps.retain(|step| !must_wait(step));
        for record in coming {
            let machine = &record.creation.machine;
            let message = format!("machine {machine} was requested and may still be created");
            plan.waits.push(Wait {
                subject: Some(machine_ref(state.namespace(), machine)),
                until: record.until,
                ..Wait::new(WaitReason::PendingCreation, message)
            });
            plan.reconcile_at = plan.reconcile_at.into_iter().chain(record.until).min();
        }
    }
    plan.steps.extend(cleanup(state, records, plan));
}

/// The removal of records that are over. It waits while the control plane is written anyway.
fn cleanup(state: &State, records: &[Recorded], plan: &Plan) -> Option<Step> {
    let is_open = |record: &&Recorded| record.until.is_some() || tells_revision(state, &record.creation);
    let open: Vec<PendingCreation> = records
        .iter()
        .filter(is_open)
        .map(|record| record.creation.clone())
        .collect();
    let is_written = |step: &Step| matches!(step.action, Action::PatchControlPlane(_) | Action::Create { .. });
    if open.len() == records.len() || plan.steps.iter().any(is_written) {
        return None;
    }
    let precondition = precondition(&state.control_plane.metadata);
    let mut patch = pending_creations_patch(&open, &precondition);
    if let (Some(name), Some(annotations)) = (last_created(state, records), patch.pointer_mut("/metadata/annotations"))
    {
        annotations[LAST_CREATED] = name.into();
    }
    Some(Step {
        action: Action::PatchControlPlane(patch),
        subject: control_plane_ref(state.namespace(), state.name()),
        index: None,
        because: String::from("requested machines were created, or cannot be created any more"),
        precondition: Some(precondition),
    })
}

/// The newest machine that exists, and whose creation is over. A machine that was refused must be
/// requested under the same name again, because its other objects may exist.
fn last_created<'r>(state: &State, records: &'r [Recorded]) -> Option<&'r str> {
    let over = records.iter().filter(|record| record.until.is_none());
    let over = over.map(|record| &record.creation);
    let existing = over.filter(|creation| state.machine(&creation.machine).is_some());
    let newest = existing.max_by_key(|creation| (creation.requested_at, &creation.machine));
    newest.map(|creation| creation.machine.as_str())
}

/// Whether a record alone tells the revision of its machine, which exists.
fn tells_revision(state: &State, creation: &PendingCreation) -> bool {
    let machine = state.machine(&creation.machine);
    let lacks_own = machine.is_some_and(|machine| !machine.machine.metadata.annotations.contains_key(REVISION));
    lacks_own && creation.revision.is_some()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::kcp::plan::plan;
    use crate::kcp::samples::{World, now};
    use crate::model::PENDING_CREATIONS;

    fn open(machine: &str) -> Recorded {
        Recorded {
            creation: PendingCreation {
                index: 0,
                machine: machine.to_owned(),
                requested_by: "one".to_owned(),
                requested_at: now(),
                revision: None,
            },
            until: Some(now()),
        }
    }

    /// The plan of a control plane that needs one machine more, with the name of that machine.
    fn growing() -> (State, Plan, String) {
        let mut world = World::new("abc");
        world.spec()["replicas"] = json!(5);
        let state = world.state();
        let plan = plan(&state, now());
        let name = plan.steps[0].machine_of_control_plane().unwrap().to_owned();
        (state, plan, name)
    }

    fn held(state: &State, plan: &Plan, records: Vec<Recorded>) -> (Vec<&'static str>, Vec<WaitReason>) {
        let mut plan = plan.clone();
        hold(state, &Ok(records), &mut plan);
        let verbs = plan.steps.iter().map(Step::verb).collect();
        (verbs, plan.waits.iter().map(|wait| wait.reason).collect())
    }

    #[test]
    fn while_a_requested_machine_may_appear_no_other_is_created_or_deleted() {
        let (state, plan, name) = growing();
        assert_eq!(held(&state, &plan, vec![]), (vec!["create"], vec![]));
        assert_eq!(
            held(&state, &plan, vec![open(&name)]),
            (vec!["create"], vec![]),
            "the same"
        );
        assert_eq!(
            held(&state, &plan, vec![open("other")]),
            (vec![], vec![WaitReason::PendingCreation])
        );
        assert_eq!(
            held(&state, &plan, vec![open("m-0")]),
            (vec!["create"], vec![]),
            "a machine that exists"
        );
        let mut shrinking = World::new("abcab");
        shrinking.spec()["replicas"] = json!(3);
        let state = shrinking.state();
        let plan = crate::kcp::plan::plan(&state, now());
        assert_eq!(held(&state, &plan, vec![]).0, ["delete"]);
        assert_eq!(held(&state, &plan, vec![open("other")]).0, [""; 0]);
    }

    #[test]
    fn a_control_plane_that_is_deleted_keeps_its_finalizer_while_a_machine_may_appear() {
        let mut world = World::new("");
        world.control_plane["metadata"]["deletionTimestamp"] = json!("2026-06-01T11:00:00Z");
        let state = world.state();
        let plan = plan(&state, now());
        assert_eq!(held(&state, &plan, vec![]).0, ["patch"]);
        assert_eq!(held(&state, &plan, vec![open("other")]).0, [""; 0]);
    }

    #[test]
    fn records_that_are_over_are_removed_when_nothing_else_is_written() {
        let state = World::new("abc").state();
        let over = Recorded {
            until: None,
            ..open("m-0")
        };
        let mut plan = Plan::default();
        hold(&state, &Ok(vec![over, open("m-1")]), &mut plan);
        let Action::PatchControlPlane(patch) = &plan.steps[0].action else {
            panic!("{plan:?}");
        };
        let text = patch["metadata"]["annotations"][PENDING_CREATIONS].as_str().unwrap();
        assert!(text.contains("m-1") && !text.contains("m-0"), "{text}");
    }

    #[test]
    fn v278_the_replacement_of_a_machine_that_is_gone_has_another_name() {
        let (_, _, first) = growing();
        let mut world = World::new("abc");
        world.machines[2]["metadata"]["name"] = json!(first);
        world.spec()["replicas"] = json!(5);
        let name_of_next = |world: &World| {
            let step = plan(&world.state(), now()).steps.remove(0);
            step.machine_of_control_plane().unwrap().to_owned()
        };
        let before = name_of_next(&world);
        let record = |machine: &str| Recorded {
            until: None,
            ..open(machine)
        };
        let stored = |records: Vec<Recorded>| {
            let mut plan = Plan::default();
            hold(&world.state(), &Ok(records), &mut plan);
            let Action::PatchControlPlane(patch) = &plan.steps[0].action else {
                panic!("{plan:?}");
            };
            patch["metadata"]["annotations"][LAST_CREATED]
                .as_str()
                .map(str::to_owned)
        };
        assert_eq!(stored(vec![record(&first)]), Some(first.clone()));
        assert_eq!(stored(vec![record("m-8")]), None, "a machine that was refused");
        world.control_plane["metadata"]["annotations"][LAST_CREATED] = json!(first);
        assert_ne!(name_of_next(&world), before);
        assert_eq!(name_of_next(&world), name_of_next(&world));
    }

    #[test]
    fn nothing_is_created_while_the_records_cannot_be_read() {
        let (state, mut plan, _) = growing();
        let unreadable = pending_creations(&[(PENDING_CREATIONS.to_owned(), String::from("?"))].into()).unwrap_err();
        hold(&state, &Err(unreadable), &mut plan);
        assert!(plan.steps.is_empty());
        assert_eq!(plan.degraded[0].reason, "UnreadablePendingCreations");
    }

    #[test]
    fn a_record_replaces_the_one_of_the_same_process() {
        let (state, plan, name) = growing();
        let first = creation(&plan.steps[0], "one", now()).unwrap();
        let mut metadata = state.control_plane.metadata;
        let patch = record(&metadata, &first).unwrap();
        let text = patch["metadata"]["annotations"][PENDING_CREATIONS].as_str().unwrap();
        metadata
            .annotations
            .insert(PENDING_CREATIONS.to_owned(), text.to_owned());
        for (by, count) in [("one", 1), ("two", 2)] {
            let second = creation(&plan.steps[0], by, now()).unwrap();
            let patch = record(&metadata, &second).unwrap();
            let text = patch["metadata"]["annotations"][PENDING_CREATIONS].as_str().unwrap();
            assert_eq!(text.matches(&name).count(), count, "{text}");
        }
        assert_eq!(
            creation(
                &Plan::default().steps.pop().unwrap_or_else(|| Step {
                    action: Action::RemoveMember { member: String::new() },
                    ..plan.steps[0].clone()
                }),
                "one",
                now()
            ),
            None
        );
    }
}
