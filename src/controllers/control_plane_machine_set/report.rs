//! What is said of a set: its status, the ClusterOperator, figures and events. Each is written only when it differs from
//! what was said last.

use capstan_core::admission::Options;
use capstan_core::api::config_openshift_io::cluster_operator::{
    self, ClusterOperator, ClusterOperatorStatus, ObjectReference, OperandVersion,
};
use capstan_core::api::config_openshift_io::infrastructure;
use capstan_core::api::machine_openshift_io::control_plane_machine_set::{ControlPlaneMachineSetStatus, NAME};
use capstan_core::api::meta::Condition;
use capstan_core::cpms::plan::{Action, Step, overdue};
use capstan_core::cpms::status::{self, Counts, condition};
use jiff::{SignedDuration, Timestamp};
use serde_json::{Value, json};

use super::Controller;
use crate::controllers::assess::{Assessment, Reading};
use crate::controllers::caches::View;
use crate::controllers::cluster::{Cluster, Written};
use crate::controllers::events::News;
use crate::controllers::step_error::StepError;
use crate::controllers::write_tracker::is_older;

/// What our ClusterOperator says of Capstan itself, whatever the set is.
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

/// What was written into our ClusterOperator last, and how it was answered. A cache that stands still shows something older,
/// and what it does not show is not written again every time that somebody looks.
#[derive(Debug)]
pub(super) struct Said {
    uid: String,
    version: String,
    status: ClusterOperatorStatus,
}

impl Said {
    /// Whether the caches show the object as it was before.
    fn is_newer(&self, shown: &ClusterOperator) -> bool {
        let version = shown.metadata.resource_version.as_deref().unwrap_or_default();
        shown.metadata.uid() == self.uid && is_older(version, &self.version)
    }
}

/// What our ClusterOperator should say and does not.
#[derive(Debug)]
pub(super) struct Unsaid {
    /// Whether there is one.
    exists: bool,
    /// Whether it lacks nothing but conditions: then the rest is not written either.
    knows_parts: bool,
    status: ClusterOperatorStatus,
}

/// How long the same trouble lasts before it becomes the condition `Error`.
const TROUBLED: SignedDuration = SignedDuration::from_secs(80);

impl<C: Cluster> Controller<C> {
    /// Writes status and ClusterOperator, each only when it differs. Returns the status that the set should have.
    pub(super) async fn report(
        &mut self,
        view: &View,
        current: &Assessment,
        taken: &[&Step],
        errors: &[StepError],
        now: Timestamp,
    ) -> (ControlPlaneMachineSetStatus, Vec<StepError>) {
        let mut failed = Vec::new();
        let now = Timestamp::from_second(now.as_second()).unwrap_or(now);
        self.remember(errors, now);
        let previous = current.set.status.as_ref();
        let error = self.error(previous, now);
        let mut status = current.status(error.as_deref(), now);
        if self.drops_machines {
            status.machines.clear();
        }
        // A set that was patched in this look has another version by now; its own event brings us back.
        let patched = taken
            .iter()
            .any(|step| matches!(step.action, Action::PatchSet(_) | Action::RemoveRecords(_)));
        if previous != Some(&status) && !patched {
            let mut content = json!(status);
            if status.machines.is_empty()
                && let Some(content) = content.as_object_mut()
            {
                // A patch takes away only what it names.
                content.insert("machines".to_owned(), Value::Null);
            }
            match self.writer.status(&current.set, content).await {
                Ok(stored) => {
                    // OpenShift's definition does not know this field. It is not written again and again.
                    self.drops_machines |= !status.machines.is_empty() && !stored.lists_machines;
                    self.measure(previous, &status, now);
                }
                Err(failure) => failed.push(failure),
            }
        }
        if let Err(failure) = self.operator(view, Some(&status), current.is_active(), now).await {
            failed.push(failure);
        }
        (status, failed)
    }

    /// Writes the ClusterOperator.
    pub(super) async fn operator(
        &mut self,
        view: &View,
        set: Option<&ControlPlaneMachineSetStatus>,
        active: bool,
        now: Timestamp,
    ) -> Result<(), StepError> {
        let Some(unsaid) = self.unsaid(view, set, active, now) else {
            return Ok(());
        };
        let Unsaid {
            exists,
            knows_parts,
            status,
        } = unsaid;
        let content = if knows_parts {
            json!({"conditions": status.conditions})
        } else {
            json!(status)
        };
        let Written { uid, version, .. } = self.writer.operator(exists, content).await?;
        self.said = Some(Said { uid, version, status });
        Ok(())
    }

    /// What our ClusterOperator should say and does not.
    pub(super) fn unsaid(
        &self,
        view: &View,
        set: Option<&ControlPlaneMachineSetStatus>,
        active: bool,
        now: Timestamp,
    ) -> Option<Unsaid> {
        if !view.serves_cluster_operators {
            return None;
        }
        let now = Timestamp::from_second(now.as_second()).unwrap_or(now);
        let operators = view.snapshot.cluster_operators.as_ref();
        let there = operators.and_then(|operators| operators.get(cluster_operator::NAME));
        let none = ClusterOperator::default();
        let there_now = there.map_or(&none, |there| &**there);
        let before = match &self.said {
            Some(said) if said.is_newer(there_now) => &said.status,
            _ => &there_now.status,
        };
        let conditions = status::cluster_operator(set, active, &before.conditions, now);
        let knows_parts = there.is_some()
            && self.parts.versions == before.versions
            && self.parts.related_objects == before.related_objects;
        if knows_parts && conditions == before.conditions {
            return None;
        }
        let wanted = ClusterOperatorStatus {
            conditions,
            versions: self.parts.versions.clone(),
            related_objects: self.parts.related_objects.clone(),
            unknown_fields: before.unknown_fields.clone(),
        };
        Some(Unsaid {
            exists: there.is_some(),
            knows_parts,
            status: wanted,
        })
    }

    fn remember(&mut self, errors: &[StepError], now: Timestamp) {
        let lasting: Vec<String> = errors
            .iter()
            .filter(|failure| !failure.is_conflict())
            .map(ToString::to_string)
            .collect();
        self.failure = if lasting.is_empty() {
            None
        } else {
            let since = self.failure.as_ref().map_or(now, |(since, _)| *since);
            Some((since, lasting.join("; ")))
        };
    }

    /// What keeps the controller from working, if something has for long enough. A process that is new to it believes the
    /// one before: what was said lasts until something works again.
    fn error(&self, previous: Option<&ControlPlaneMachineSetStatus>, now: Timestamp) -> Option<String> {
        let (since, text) = self.failure.as_ref()?;
        let mut said = previous.iter().flat_map(|status| &status.conditions);
        let known = said.any(|there| there.type_ == condition::ERROR && there.status == "True");
        (known || now.duration_since(*since) >= TROUBLED).then(|| text.clone())
    }

    fn measure(
        &self,
        previous: Option<&ControlPlaneMachineSetStatus>,
        status: &ControlPlaneMachineSetStatus,
        now: Timestamp,
    ) {
        let progressing = |status: &ControlPlaneMachineSetStatus| -> Option<Condition> {
            let mut conditions = status.conditions.iter();
            conditions.find(|there| there.type_ == condition::PROGRESSING).cloned()
        };
        let (Some(before), Some(after)) = (previous.and_then(progressing), progressing(status)) else {
            return;
        };
        if before.status == "True" && after.status == "False" && after.reason == "AllReplicasUpdated" {
            self.metrics
                .rolled_out(now.duration_since(before.last_transition_time).as_secs_f64());
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

    /// Events: what was done, what is waited for, what stops.
    pub(super) fn tell(&mut self, current: &Assessment, taken: &[&Step], errors: &[StepError]) {
        let once = taken.iter().filter_map(|step| {
            let machine = step.machine().unwrap_or(NAME);
            let (reason, verb) = match &step.action {
                Action::Create { .. } => ("Created", "created machine"),
                Action::Delete { .. } => ("Deleted", "deleted machine"),
                Action::Patch { .. } => ("Updated", "updated machine"),
                Action::PatchSet(_) => ("Updated", "updated set"),
                Action::RemoveRecords(_) => return None,
            };
            let version = step
                .precondition
                .as_ref()
                .map_or("", |precondition| &precondition.resource_version);
            let because = step.because.strip_prefix(&format!("machine {machine}: "));
            Some(News {
                warning: false,
                reason,
                message: format!("{verb} {machine}: {}", because.unwrap_or(&step.because)).into(),
                key: format!("{machine} {version}"),
            })
        });
        let waits = current.plan.waits.iter().map(|wait| News {
            warning: false,
            reason: wait.reason.name(),
            message: wait.message.as_str().into(),
            key: format!("{:?} {}", wait.index, wait.machine().unwrap_or_default()),
        });
        let stops = current.plan.degraded.iter().map(|reason| News {
            warning: true,
            reason: reason.reason,
            message: reason.message.as_str().into(),
            key: format!("{:?}", current.set.metadata.generation),
        });
        let failures = errors
            .iter()
            .filter(|failure| !failure.is_conflict())
            .map(|failure| News {
                warning: true,
                reason: "Failed",
                message: failure.to_string().into(),
                key: failure.to_string(),
            });
        let lasting = waits.chain(stops).chain(failures).collect();
        self.events
            .say(&self.writer.cluster, &current.set, lasting, &once.collect::<Vec<_>>());
    }
}
