//! What is reported of a set: its status, the ClusterOperator, metrics and events. Each is written
//! only when it differs from what was written last.

use std::sync::Arc;

use capstan_core::admission::Options;
use capstan_core::api::config_openshift_io::cluster_operator::{
    self, ClusterOperator, ClusterOperatorStatus, ObjectReference, OperandVersion,
};
use capstan_core::api::config_openshift_io::infrastructure;
use capstan_core::api::kinds;
use capstan_core::api::machine_openshift_io::control_plane_machine_set::ControlPlaneMachineSetStatus;
use capstan_core::api::meta::Condition;
use capstan_core::cpms::plan::overdue;
use capstan_core::cpms::status::{self, Counts, condition};
use jiff::{SignedDuration, Timestamp};
use serde_json::{Value, json};

use super::idle::Idle;
use super::undecodable::conditions_of;
use super::{ControlPlaneMachineSets, Observed, State, core_step, status_patch};
use crate::controllers::assess::{Assessment, Reading};
use crate::controllers::observed::{is_decodable, serves_cluster_operators};
use crate::controllers::planned;
use crate::runtime::{EventSpec, Reconciled, Report, Verb, View, Write, Written, is_older};

/// While a node is away, what is reported of it changes with time alone.
const AWAY: SignedDuration = SignedDuration::from_mins(1);

/// What the ClusterOperator says of Capstan itself, with or without a set.
pub(super) fn parts(options: &Options) -> ClusterOperatorStatus {
    let version = match options.release_version.as_str() {
        "" => env!("CARGO_PKG_VERSION"),
        version => version,
    };
    let related = |group: &str, resource: &str, namespace: Option<&str>, name: &str| ObjectReference {
        group: group.to_owned(),
        resource: resource.to_owned(),
        namespace: namespace.map(str::to_owned),
        name: name.to_owned(),
    };
    let namespace = options.namespace.as_str();
    ClusterOperatorStatus {
        versions: vec![OperandVersion {
            name: "operator".to_owned(),
            version: version.to_owned(),
        }],
        related_objects: vec![
            related("", "namespaces", None, namespace),
            related("machine.openshift.io", "controlplanemachinesets", Some(namespace), ""),
            related("machine.openshift.io", "machines", Some(namespace), ""),
            related(
                "config.openshift.io",
                infrastructure::PLURAL,
                None,
                infrastructure::NAME,
            ),
        ],
        ..ClusterOperatorStatus::default()
    }
}

/// What was last written to our ClusterOperator, and the stored version. A cache that is behind
/// shows an older version, and must not cause the same write again.
#[derive(Debug)]
pub(super) struct LastWrite {
    uid: String,
    version: String,
    status: ClusterOperatorStatus,
}

impl LastWrite {
    /// Whether the caches still show the object as it was before.
    fn is_newer(&self, shown: &ClusterOperator) -> bool {
        let version = shown.metadata.resource_version.as_deref().unwrap_or_default();
        shown.metadata.uid() == self.uid && is_older(version, &self.version)
    }
}

/// What our ClusterOperator should report and does not.
#[derive(Debug)]
pub(super) struct OperatorChanges {
    /// Whether there is one.
    exists: bool,
    /// Whether only its conditions differ. Then nothing else is written.
    knows_parts: bool,
    status: ClusterOperatorStatus,
}

fn whole_seconds(time: Timestamp) -> Timestamp {
    Timestamp::from_second(time.as_second()).unwrap_or(time)
}

impl ControlPlaneMachineSets {
    /// The writes that bring the status of the set and the ClusterOperator up to date.
    pub(super) fn status_writes(&self, reconciled: &Reconciled<'_, Observed>, state: &mut State) -> Vec<Write> {
        let (view, now) = (reconciled.view, whole_seconds(reconciled.moment.time));
        let observed = reconciled.observed;
        let mut writes = Vec::new();
        let mut active = false;
        state.status = None;
        if let Some(current) = &observed.assessment {
            active = current.is_active();
            if observed.undecodable.is_some() && current.set.metadata.is_deleting() {
                // Its machines are released, and its status is left alone.
                return writes;
            }
            let (status, write) = self.set_status(current, reconciled, state, now);
            writes.extend(write);
            state.status = Some(status);
        }
        let operator = self.operator_changes(view, state.status.as_ref(), active, state, now);
        writes.extend(operator.into_iter().flat_map(OperatorChanges::into_writes));
        writes
    }

    /// The status that the set should have, and the write of it if it differs.
    fn set_status(
        &self,
        current: &Assessment,
        reconciled: &Reconciled<'_, Observed>,
        state: &State,
        now: Timestamp,
    ) -> (ControlPlaneMachineSetStatus, Option<Write>) {
        let previous = current.set.status.as_ref();
        if let Some(raw) = &reconciled.observed.undecodable {
            let status = current.status(None, now);
            let conditions = json!(status.conditions);
            let differs = conditions != *conditions_of(raw);
            let patch = status_patch(&current.set, json!({ "conditions": conditions }));
            return (status, differs.then(|| self.write_set(Verb::PatchStatus(patch))));
        }
        let conditions = previous.map_or(&[][..], |status| &status.conditions);
        let error = planned::lasting_error(reconciled.failing, planned::reports_error(conditions), now);
        let status = state.stored.expected(current.status(error, now));
        // A set that was patched in this reconcile has another version by now. Its change in the
        // caches triggers the next reconcile.
        let patched = reconciled
            .taken
            .iter()
            .filter_map(|step| core_step(reconciled.observed, *step))
            .any(planned::patches_owner);
        if previous == Some(&status) || patched {
            return (status, None);
        }
        let mut content = json!(status);
        if status.machines.is_empty()
            && let Some(content) = content.as_object_mut()
        {
            // A merge patch removes only what it names.
            content.insert("machines".to_owned(), Value::Null);
        }
        let patch = status_patch(&current.set, content);
        (status, Some(self.write_set(Verb::PatchStatus(patch))))
    }

    /// A status was stored.
    pub(super) fn status_stored(&self, observed: &Observed, write: &Write, written: &Written, state: &mut State) {
        if !matches!(write.verb, Verb::PatchStatus(_)) {
            return;
        }
        if kinds::CLUSTER_OPERATORS.is_kind_of(&write.object) {
            let Verb::PatchStatus(patch) = &write.verb else { return };
            let conditions = patch.pointer("/status/conditions").cloned().unwrap_or_default();
            let status = ClusterOperatorStatus {
                conditions: serde_json::from_value(conditions).unwrap_or_default(),
                ..self.parts.clone()
            };
            state.last_write = Some(LastWrite {
                uid: written.uid.clone(),
                version: written.version.clone(),
                status,
            });
            return;
        }
        let (Some(current), Some(status)) = (&observed.assessment, &state.status) else {
            return;
        };
        if observed.undecodable.is_none() {
            self.measure(current.set.status.as_ref(), status);
            // The status that the caches will show.
            state.status = Some(state.stored.learn(status.clone(), &written.status));
        }
    }

    /// What our ClusterOperator should report and does not.
    pub(super) fn operator_changes(
        &self,
        view: &View,
        set: Option<&ControlPlaneMachineSetStatus>,
        active: bool,
        state: &State,
        now: Timestamp,
    ) -> Option<OperatorChanges> {
        if !serves_cluster_operators(&view.objects) {
            return None;
        }
        let (kind, now) = (&kinds::CLUSTER_OPERATORS, whole_seconds(now));
        let existing = view.objects.get::<ClusterOperator>(kind, "", cluster_operator::NAME);
        let none = ClusterOperator::default();
        let shown = existing.map_or(&none, |existing| &**existing);
        let before = match &state.last_write {
            Some(last) if last.is_newer(shown) => &last.status,
            _ => &shown.status,
        };
        let conditions = status::cluster_operator(set, active, &before.conditions, now);
        let knows_parts = existing.is_some()
            && self.parts.versions == before.versions
            && self.parts.related_objects == before.related_objects;
        if knows_parts && conditions == before.conditions {
            return None;
        }
        let status = ClusterOperatorStatus {
            conditions,
            versions: self.parts.versions.clone(),
            related_objects: self.parts.related_objects.clone(),
            unknown_fields: before.unknown_fields.clone(),
        };
        Some(OperatorChanges {
            exists: existing.is_some(),
            knows_parts,
            status,
        })
    }

    /// Metrics, events, and when to reconcile again.
    pub(super) fn report_set<'a>(&self, reconciled: &Reconciled<'a, Observed>, state: &mut State) -> Report<'a> {
        let Some(current) = &reconciled.observed.assessment else {
            self.metrics.forget();
            return Report::default();
        };
        let now = reconciled.moment.time;
        let mut requeue_at = current.plan.reconcile_at;
        let undecodable = reconciled.observed.undecodable.is_some();
        if reconciled.reported && !(undecodable && current.set.metadata.is_deleting()) {
            self.count(current, now);
            let away = current
                .state()
                .is_some_and(|state| state.each_machine().any(|machine| machine.is_restarting(now)));
            let away = away.then(|| now.checked_add(AWAY).ok()).flatten();
            requeue_at = [requeue_at, away].into_iter().flatten().min();
            if reconciled.calm && reconciled.errors.is_empty() && is_decodable(&reconciled.view.objects) {
                state.idle = state.status.take().map(|status| Idle {
                    objects: reconciled.view.objects.clone(),
                    set: Arc::clone(&current.set),
                    status,
                    active: current.is_active(),
                    reconciled: now,
                    at: requeue_at,
                });
            }
        }
        Report {
            about: Some(current.set.metadata.clone()),
            lasting: lasting_events(current, reconciled),
            once: step_events(reconciled),
            requeue_at: requeue_at.filter(|_| !undecodable),
        }
    }

    fn measure(&self, previous: Option<&ControlPlaneMachineSetStatus>, status: &ControlPlaneMachineSetStatus) {
        let progressing = |status: &ControlPlaneMachineSetStatus| -> Option<Condition> {
            let mut conditions = status.conditions.iter();
            conditions.find(|there| there.type_ == condition::PROGRESSING).cloned()
        };
        let (Some(before), Some(after)) = (previous.and_then(progressing), progressing(status)) else {
            return;
        };
        if before.status == "True" && after.status == "False" && after.reason == "AllReplicasUpdated" {
            self.metrics.rolled_out(
                after
                    .last_transition_time
                    .duration_since(before.last_transition_time)
                    .as_secs_f64(),
            );
        }
    }

    pub(super) fn count(&self, current: &Assessment, now: Timestamp) {
        self.metrics
            .waits(current.plan.waits.iter().map(|wait| wait.reason.name()));
        let degraded = current.set.status.as_ref().and_then(|status| {
            let mut conditions = status.conditions.iter();
            let there = conditions.find(|there| there.type_ == condition::DEGRADED)?;
            (there.status == "True").then_some(there.last_transition_time)
        });
        let reasons: Vec<&'static str> = current.plan.degraded.iter().map(|reason| reason.reason).collect();
        let since = (!reasons.is_empty()).then(|| degraded.unwrap_or(now).as_second());
        self.metrics.degraded(reasons.into_iter(), since);
        if let Reading::Valid(read) = &current.reading {
            let (spec, state) = &**read;
            let counts = Counts::of(state, now);
            self.metrics.overdue(overdue(spec, state, now).len());
            let number = |count: usize| i64::try_from(count).unwrap_or(i64::MAX);
            self.metrics.machines(&[
                ("wanted", number(spec.replicas.count())),
                ("all", number(counts.replicas)),
                ("ready", number(counts.ready)),
                ("updated", number(counts.updated)),
                ("unavailable", number(counts.unavailable)),
            ]);
        }
    }
}

impl OperatorChanges {
    fn into_writes(self) -> Vec<Write> {
        let (kind, name) = (&kinds::CLUSTER_OPERATORS, cluster_operator::NAME);
        let status = if self.knows_parts {
            json!({"conditions": self.status.conditions})
        } else {
            json!(self.status)
        };
        let body = json!({
            "apiVersion": kind.api_version(), "kind": kind.kind, "metadata": {"name": name}, "spec": {},
        });
        let create = (!self.exists).then(|| Write::new(kind, "", name, Verb::Ensure(body)));
        let patch = Write::new(kind, "", name, Verb::PatchStatus(json!({ "status": status })));
        create.into_iter().chain([patch]).collect()
    }
}

/// One event for each step that was taken.
fn step_events<'a>(reconciled: &Reconciled<'a, Observed>) -> Vec<EventSpec<'a>> {
    let steps = reconciled.taken.iter();
    let steps = steps.filter_map(|step| core_step(reconciled.observed, *step));
    steps
        .filter_map(|step| planned::step_event(step, "set cluster"))
        .collect()
}

/// What is waited for, what stops the rollout, and what fails.
fn lasting_events<'a>(current: &'a Assessment, reconciled: &Reconciled<'a, Observed>) -> Vec<EventSpec<'a>> {
    let waits = current.plan.waits.iter().map(|wait| EventSpec {
        warning: false,
        reason: wait.reason.name(),
        message: wait.message.as_str().into(),
        key: format!("{:?} {}", wait.index, wait.machine().unwrap_or_default()),
    });
    let stops = current.plan.degraded.iter().map(|reason| EventSpec {
        warning: true,
        reason: reason.reason,
        message: reason.message.as_str().into(),
        key: format!("{:?}", current.set.metadata.generation),
    });
    waits.chain(stops).chain(planned::failures(reconciled.errors)).collect()
}
