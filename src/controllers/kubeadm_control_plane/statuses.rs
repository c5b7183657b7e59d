//! The writes of the statuses of a control plane and of its machines.
//!
//! Core computes the statuses. Nothing here decides, and nothing here writes.

use std::collections::BTreeSet;
use std::time::Duration;

use capstan_core::api::kinds::{CLUSTER_API_MACHINES, KUBEADM_CONTROL_PLANES};
use capstan_core::api::meta::Condition;
use capstan_core::kcp::action::Step as CoreStep;
use capstan_core::kcp::plan::withdrawn_remediations;
use capstan_core::kcp::state::condition::OWNER_REMEDIATED;
use capstan_core::kcp::status::{STALLED, STEP_FAILS};
use capstan_core::kcp::stored;
use capstan_core::model::ObjectRef;
use jiff::Timestamp;
use tokio::time::Instant;

use super::Found;
use super::objects::WholeObject;
use crate::controllers::planned::lasting_error;
use crate::controllers::stored_parts::StoredParts;
use crate::runtime::{Reconciled, Verb, Write};

/// Failures that must follow each other before a wait between them counts as a part of them.
const REPEATED: u32 = 3;
/// The longest time between two of them.
const APART: Duration = Duration::from_secs(300);

/// What fails each time it is attempted. Between two attempts the plan can wait, for example for an
/// etcd member, so that a reconcile without a failure does not show that the step would succeed.
#[derive(Debug, Default)]
pub(super) struct Attempts {
    /// Since when, and the last failure.
    failing: Option<(Timestamp, String)>,
    /// When the last attempt failed, by this process's own clock.
    last: Option<Instant>,
    count: u32,
}

impl Attempts {
    /// A machine was created or deleted, or a member was removed.
    pub(super) fn succeeded(&mut self) {
        *self = Self::default();
    }

    /// What has been failing after this reconcile, and since when.
    pub(super) fn learn(&mut self, reconciled: &Reconciled<'_, Found>) -> Option<(Timestamp, String)> {
        let plan = &reconciled.observed.assessment.plan;
        let only_waits = !plan.waits.is_empty() && !plan.steps.iter().any(CoreStep::is_disruptive);
        let now = reconciled.moment.instant;
        let ends = |last| now.saturating_duration_since(last) > APART;
        if self.last.is_some_and(ends) {
            *self = Self::default();
        }
        let taken = reconciled.errors.iter().find(|error| error.is_name_taken());
        let taken = taken.map(|error| (reconciled.moment.time, error.to_string()));
        match reconciled.failing.cloned().or(taken) {
            Some((since, text)) => {
                let since = self.failing.as_ref().map_or(since, |(first, _)| *first);
                self.failing = Some((since, text));
                self.last = Some(now);
                self.count = self.count.saturating_add(u32::from(!reconciled.errors.is_empty()));
            }
            None if only_waits || !reconciled.errors.is_empty() => {}
            None => *self = Self::default(),
        }
        if self.count < REPEATED {
            return reconciled.failing.cloned();
        }
        self.failing.clone()
    }
}

/// The writes of the statuses. A patch that would only repeat what is not stored is left out.
pub(super) fn writes(
    reconciled: &Reconciled<'_, Found>,
    known: &mut StoredParts,
    failing: Option<&(Timestamp, String)>,
) -> Vec<Write> {
    let observed = reconciled.observed;
    let (assessment, namespace) = (&observed.assessment, &observed.key.namespace);
    let now = reconciled.moment.time;
    // An object that was patched in this reconcile has another version by now.
    let is_patched = |write: &Write| {
        let mut taken = reconciled.taken.iter().filter_map(|at| observed.planned.get(*at));
        taken.any(|planned| planned.step.write.object == write.object)
    };
    let mut writes = Vec::new();
    let generation = observed.object.metadata.generation;
    let generation = generation.filter(|_| reconciled.errors.is_empty());
    let mut status = assessment.status.clone();
    let conditions = &assessment.state.control_plane.status.conditions;
    let is_known = |one: &Condition| one.type_ == STALLED && one.reason == STEP_FAILS;
    if let Some(error) = lasting_error(failing, conditions.iter().any(is_known), now) {
        status.report_failing(error);
    }
    let own = stored::control_plane_patch(&observed.object.value, &status, assessment.initialized, generation, now);
    let own = known.unless_repeated(&observed.key, &observed.object.value, own);
    let own_name = &observed.key.name;
    writes.extend(own.map(|patch| Write::new(&KUBEADM_CONTROL_PLANES, namespace, own_name, Verb::PatchStatus(patch))));
    if !assessment.state.is_paused() {
        let withdrawn: BTreeSet<&str> = withdrawn_remediations(&assessment.state).into_iter().collect();
        for (machine, conditions) in &assessment.machines {
            let live = reconciled
                .view
                .objects
                .get::<WholeObject>(&CLUSTER_API_MACHINES, namespace, machine);
            let Some(live) = live else { continue };
            let withdrawn = withdrawn.contains(machine.as_str()).then_some(OWNER_REMEDIATED);
            let patch = stored::machine_patch(&live.value, conditions, withdrawn.as_slice(), now);
            let object = CLUSTER_API_MACHINES.object(namespace, machine);
            let patch = known.unless_repeated(&object, &live.value, patch);
            writes.extend(
                patch.map(|patch| Write::new(&CLUSTER_API_MACHINES, namespace, machine, Verb::PatchStatus(patch))),
            );
        }
    }
    writes.retain(|write| !is_patched(write));
    let machines = &assessment.machines;
    let is_machine = |object: &ObjectRef| machines.iter().any(|(name, _)| *name == object.name);
    known.retain(|object| KUBEADM_CONTROL_PLANES.is_kind_of(object) || is_machine(object));
    writes
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;
    use std::sync::Arc;

    use capstan_core::kcp::action::{Plan, Wait, WaitReason};
    use capstan_core::kcp::assessment::{Surroundings, assess};
    use capstan_core::kcp::observed::{Observed, ReadObject};
    use jiff::SignedDuration;
    use kube::core::Status;
    use serde_json::{Value, json};

    use super::super::inspect::Inspected;
    use super::*;
    use crate::runtime::{Source, StepError, View, Written};

    fn now() -> Timestamp {
        "2026-01-01T12:00:00Z".parse().unwrap()
    }

    fn found(object: &Value) -> Found {
        let object: WholeObject = serde_json::from_value(object.clone()).unwrap();
        let ReadObject::ControlPlane(control_plane) = object.read(&KUBEADM_CONTROL_PLANES).unwrap() else {
            panic!("{object:?}");
        };
        let nothing = Inspected::nothing("the managed cluster is not read");
        let surroundings = Surroundings {
            secrets: &[],
            inspection: &nothing.inspection,
            silent_for: None,
            has_configuration: false,
            recorded: &Ok(Vec::new()),
        };
        Found {
            key: KUBEADM_CONTROL_PLANES.object("default", "c"),
            assessment: assess(Observed::of_read(&control_plane, Vec::new()), &surroundings, now()),
            object: Arc::new(object),
            secrets: Vec::new(),
            unlabelled: BTreeSet::new(),
            managed: None,
            can_be_inspected: false,
            source: Source::Caches,
            planned: Vec::new(),
            configs: BTreeMap::new(),
            addon: Ok(None),
            now: now(),
        }
    }

    fn written(object: &Value, known: &mut StoredParts) -> Vec<Write> {
        let (view, found) = (View::default(), found(object));
        writes(&Reconciled::calm(&view, &found, now()), known, None)
    }

    #[test]
    fn v280_a_step_that_fails_each_time_is_reported_although_the_plan_waits_between_the_attempts() {
        let object = json!({"metadata": {"name": "c", "namespace": "default"}, "spec": {}});
        let (view, mut found) = (View::default(), found(&object));
        let wait = Wait::new(WaitReason::EtcdHealthy, String::new());
        found.assessment.plan = Plan {
            waits: vec![wait],
            ..Plan::default()
        };
        let error = || StepError::new("creating Machine m", kube::Error::Service("refused".into()));
        let taken = Status::failure("m exists", "AlreadyExists").with_code(409);
        let taken = [StepError::new("creating Machine m", kube::Error::Api(Box::new(taken)))];
        let attempt = |attempts: &mut Attempts, second: i64| {
            let since = now() + SignedDuration::from_secs(second);
            let failing = (since, error().to_string());
            let reconciled = Reconciled {
                errors: &[error()],
                failing: Some(&failing),
                ..Reconciled::calm(&view, &found, since)
            };
            attempts.learn(&reconciled).map(|(since, _)| since)
        };
        let waits = |attempts: &mut Attempts| attempts.learn(&Reconciled::calm(&view, &found, now()));
        let mut attempts = Attempts::default();
        for second in [0, 10] {
            assert!(attempt(&mut attempts, second).is_some());
            assert_eq!(waits(&mut attempts), None, "a single failure ends with the wait");
        }
        assert_eq!(attempt(&mut attempts, 20), Some(now()));
        assert_eq!(waits(&mut attempts), Some((now(), error().to_string())));
        let mut settled = self::found(&object);
        settled.assessment.plan = Plan::default();
        assert_eq!(attempts.learn(&Reconciled::calm(&view, &settled, now())), None);
        assert_eq!(waits(&mut attempts), None, "it is forgotten");
        for _ in 0..REPEATED {
            assert_eq!(waits(&mut attempts), None);
            attempts.learn(&Reconciled {
                errors: &taken,
                ..Reconciled::calm(&view, &found, now())
            });
        }
        assert!(waits(&mut attempts).unwrap().1.contains("remove it, or wait"));
        let mut later = Reconciled::calm(&view, &found, now());
        later.moment.instant += APART + Duration::from_secs(1);
        assert_eq!(attempts.learn(&later), None, "nothing was attempted for a long time");
        for second in [30, 40, 50] {
            attempt(&mut attempts, second);
        }
        attempts.succeeded();
        assert_eq!(waits(&mut attempts), None, "the step succeeded");
    }

    #[test]
    fn v222_a_status_that_the_crd_of_kubeadm_control_planes_prunes_is_written_once() {
        let mut object = json!({"apiVersion": "controlplane.cluster.x-k8s.io/v1beta2", "kind": "KubeadmControlPlane",
            "metadata": {"name": "c", "namespace": "default", "uid": "u", "resourceVersion": "1", "generation": 1,
                "labels": {"cluster.x-k8s.io/cluster-name": "c"}},
            "spec": {"replicas": 3, "version": "v1.33.0"}});
        let mut known = StoredParts::default();
        let first = written(&object, &mut known);
        let [write] = first.as_slice() else { panic!("{first:?}") };
        let Verb::PatchStatus(patch) = &write.verb else {
            panic!("{write:?}")
        };
        assert!(patch["status"]["selector"].is_string(), "{patch}");
        let mut answer = patch["status"].clone();
        let kept = answer.as_object_mut().unwrap();
        for field in ["selector", "replicas", "upToDateReplicas"] {
            kept.remove(field);
        }
        kept.retain(|_, value| !value.is_null());
        object["status"] = answer.clone();
        assert_eq!(written(&object, &mut known).len(), 1, "nothing is known of the answer");
        let stored = Written {
            status: answer,
            ..Written::default()
        };
        known.learn(write, &stored);
        assert_eq!(written(&object, &mut known), [], "nothing else differs");
        object["status"]["conditions"] = json!([]);
        assert_eq!(written(&object, &mut known).len(), 1, "a condition is lost");
    }
}
