//! The controller of ControlPlanes.
//!
//! It observes the ControlPlane with its machines, nodes and operators, hands them to core, and
//! turns the plan of core into writes. Only a step on which the caches and a live read agree
//! creates or deletes a machine. Beside an Active ControlPlaneMachineSet it does nothing.

mod assess;
mod members;
mod running;
#[cfg(test)]
mod tests;
mod undecodable;

use std::sync::Arc;

use capstan_core::admission::Options;
use capstan_core::api::config_openshift_io::cluster_operator::{ClusterOperator, NAME as OPERATOR};
use capstan_core::api::kind::KindInfo;
use capstan_core::api::kinds;
use capstan_core::api::machine_openshift_io::control_plane::{ControlPlane, ControlPlaneStatus, NAME};
use capstan_core::control_plane::action::Step as CoreStep;
use capstan_core::control_plane::cluster_operator;
use capstan_core::control_plane::health_check::{self, Change};
use capstan_core::cpms::observed::Observed;
use capstan_core::cpms::pending_creates;
use capstan_core::model::{NamespacedName, ObjectRef, status_patch};
use jiff::Timestamp;
use serde_json::{Value, json};

use super::caches::watches_of;
use super::control_plane_machine_set::live;
use super::control_plane_machine_set::template::Answers;
use super::control_plane_machine_set::undecodable::conditions_of;
use super::metrics::Metrics;
use super::observed::{is_complete, observed, set_in};
use super::pending_creates::PendingCreates;
use super::planned;
use super::stored_parts::StoredParts;
use crate::runtime::{
    self, EventSpec, Moment, Observation, Reconcile, Reconciled, Report, Source, Step, StepError, Verb, View, Watch,
    Write, Written,
};
pub use assess::Assessment;
use members::OwnEtcd;

pub use assess::of_view;
pub use members::{Answer, EtcdMembers, EtcdPort};
pub use running::{Configuration, LEASE, caches, start};

/// The controller.
#[derive(Debug)]
pub struct ControlPlanes {
    options: Options,
    /// The name of this process, in events and in records of creations.
    identity: String,
    /// How the API server stores templates.
    answers: Answers,
    /// The members of etcd, where Capstan manages them.
    etcd: Option<OwnEtcd>,
    /// What is counted of the machines.
    metrics: Option<Metrics>,
}

/// What is kept of a ControlPlane between reconciles.
#[derive(Debug, Default)]
pub struct State {
    pending: PendingCreates,
    /// What the API server does not store of the status.
    stored: StoredParts,
}

impl ControlPlanes {
    /// The controller of the ControlPlane in the namespace of the options.
    pub fn new(options: Options, identity: String) -> Self {
        Self {
            options,
            identity,
            answers: Answers::default(),
            etcd: None,
            metrics: None,
        }
    }

    /// The same controller, which also removes the members of etcd.
    #[must_use]
    pub fn with_etcd(mut self, etcd: Option<Box<dyn EtcdPort>>) -> Self {
        self.etcd = etcd.map(OwnEtcd::new);
        self
    }

    /// The same controller, which also counts the machines.
    fn with_metrics(mut self, metrics: Metrics) -> Self {
        self.metrics = Some(metrics);
        self
    }

    fn namespace(&self) -> &str {
        &self.options.namespace
    }

    fn object(&self) -> ObjectRef {
        kinds::CONTROL_PLANES.object(self.namespace(), NAME)
    }

    /// A write to the ControlPlane.
    fn write(&self, verb: Verb) -> Write {
        Write::new(&kinds::CONTROL_PLANES, self.namespace(), NAME, verb)
    }

    /// The write to the health check. It waits for no machine: it limits what others may delete.
    fn health_check(&self, change: &Change) -> Step {
        let (action, verb) = match change {
            Change::Create(body) => (
                "create",
                Verb::Create {
                    body: body.clone(),
                    purpose: &[],
                },
            ),
            Change::Patch(patch) => ("patch", Verb::Patch(patch.clone())),
            Change::Delete(uid, version) => (
                "delete",
                Verb::Delete {
                    precondition: Some((uid.clone(), version.clone())),
                },
            ),
        };
        Step {
            write: Write::new(
                &kinds::MACHINE_HEALTH_CHECKS,
                self.namespace(),
                health_check::NAME,
                verb,
            ),
            action,
            because: change.because().to_owned(),
            disruptive: false,
            needs_success: false,
            gates_others: false,
            optional: false,
        }
    }

    /// The conditions of a ControlPlane that cannot be decoded. The rest of its status stays.
    fn unreadable_status(&self, observed: &Assessment, raw: &Value, state: &State, now: Timestamp) -> Option<Write> {
        let meta = &observed.object.metadata;
        let conditions = json!(observed.status(None, now).conditions);
        if conditions == *conditions_of(raw) || meta.is_deleting() {
            return None;
        }
        let patch = json!({
            "metadata": {"uid": meta.uid, "resourceVersion": meta.resource_version},
            "status": {"conditions": conditions},
        });
        let patch = state.stored.unless_repeated(&self.object(), raw, Some(patch))?;
        Some(self.write(Verb::PatchStatus(patch)))
    }

    /// The fields of the status that differ from the stored ones, other than those that the API
    /// server does not store.
    fn status_write(&self, object: &ControlPlane, status: &ControlPlaneStatus, state: &State) -> Option<Write> {
        let mut content = json!(status);
        let content = content.as_object_mut()?;
        for field in ["failureReason", "failureMessage"] {
            // A merge patch removes only what it names.
            content.entry(field).or_insert(Value::Null);
        }
        let stored = json!({"metadata": object.metadata, "status": object.status});
        let patch = status_patch(&stored, std::mem::take(content));
        let patch = state.stored.unless_repeated(&self.object(), &stored, patch)?;
        Some(self.write(Verb::PatchStatus(patch)))
    }

    /// A step of core's plan, as a write.
    fn step(&self, observed: &Assessment, step: &CoreStep) -> Option<Step> {
        let write = planned::write(step, self.namespace(), &[], |verb| self.write(verb))?;
        let patches_object = planned::patches_owner(step);
        Some(Step {
            write,
            action: step.verb(),
            because: step.because.clone(),
            disruptive: step.is_disruptive() || observed.releases(step),
            needs_success: step.is_disruptive() || patches_object,
            // Machines get the ControlPlane as their owner only after its finalizer is stored.
            gates_others: patches_object,
            optional: false,
        })
    }
}

/// The write of the condition of the ClusterOperator. A cluster without this object gets none.
fn operator_write(view: &View, status: &ControlPlaneStatus, now: Timestamp) -> Option<Write> {
    let (kind, name) = (&kinds::CLUSTER_OPERATORS, OPERATOR);
    let operator = view.objects.get::<ClusterOperator>(kind, "", name)?;
    let patch = cluster_operator::patch(operator, status, now)?;
    Some(Write::new(kind, "", name, Verb::PatchStatus(patch)))
}

impl Reconcile for ControlPlanes {
    const NAME: &'static str = "control-plane";

    type State = State;
    type Observed = Assessment;

    fn kind(&self) -> &KindInfo {
        &kinds::CONTROL_PLANES
    }

    fn watches(&self) -> Vec<Watch> {
        watches_of(kinds::Reader::ControlPlaneControllers, self.namespace())
    }

    fn all(&self, _view: &View) -> Vec<ObjectRef> {
        vec![self.object()]
    }

    /// The plan depends on everything that is watched.
    fn affected(&self, _changed: &ObjectRef, _view: &View) -> Vec<ObjectRef> {
        vec![self.object()]
    }

    fn observe(
        &self,
        object: &ObjectRef,
        view: &View,
        source: Source,
        state: &mut State,
        moment: Moment,
    ) -> Observation<Assessment> {
        let Some(known) = view.objects.of::<ControlPlane>(&kinds::CONTROL_PLANES) else {
            return Observation::Nothing;
        };
        if !is_complete(view) {
            return Observation::Nothing;
        }
        let key = NamespacedName::new(&object.namespace, NAME);
        if let Some(undecodable) = known.undecodable.get(&key) {
            if source == Source::Caches {
                let reason = &undecodable.reason;
                tracing::error!(reason, "the ControlPlane cannot be decoded; nothing is done with it");
            }
            let around = Observed {
                own_members: self.etcd.as_ref().map(OwnEtcd::answer),
                ..observed(view)
            };
            return Observation::Found(assess::unreadable(undecodable, around, view, &self.options));
        }
        let Some(found) = known.objects.get(&key) else {
            return Observation::Nothing;
        };
        let Some(set) = set_in(view, &object.namespace) else {
            return Observation::Nothing;
        };
        let mut cluster = observed(view);
        cluster.stored_templates = self.answers.all();
        cluster.own_members = self.etcd.as_ref().map(OwnEtcd::answer);
        let version = found.metadata.resource_version.as_deref().unwrap_or_default();
        let recorded = pending_creates::recorded(&found.metadata);
        let is_live = source == Source::Live;
        state.pending.read(recorded, version, is_live, moment.seen);
        state.pending.add_to(&mut cluster, moment.instant, moment.time);
        Observation::Found(assess::assess(Arc::clone(found), cluster, &set, view, &self.options))
    }

    fn leadership(&self, is_leader: bool) {
        if let Some(metrics) = self.metrics.as_ref().filter(|_| !is_leader) {
            metrics.forget();
        }
    }

    async fn inquire<C: runtime::Cluster>(&self, cluster: &C, observed: &Assessment) -> bool {
        let asked = match &self.etcd {
            Some(etcd) => etcd.refresh(cluster.instant()).await,
            None => false,
        };
        let answered = match observed.question() {
            Some(question) => self.answers.ask(cluster, question).await,
            None => false,
        };
        asked || answered
    }

    /// The ControlPlane is read first. What another leader creates after this changes the version
    /// with which a creation is recorded, and what it created before is in the answers below.
    async fn read_live<C: runtime::Cluster>(
        &self,
        _object: &ObjectRef,
        cluster: &C,
        view: &View,
        observed: &Assessment,
    ) -> Result<Option<View>, StepError> {
        if let Some(etcd) = &self.etcd {
            etcd.ask(cluster.instant()).await;
        }
        let own = cluster.get::<ControlPlane>(&kinds::CONTROL_PLANES, self.namespace(), NAME);
        let own = own
            .await
            .map_err(|error| StepError::new("reading the ControlPlane", error))?;
        let mut live = live::read(cluster, self.namespace(), view, observed.decisive_nodes().as_deref()).await?;
        live.put(
            &kinds::CONTROL_PLANES,
            &NamespacedName::new(self.namespace(), NAME),
            own,
        );
        Ok(Some(live))
    }

    fn plan(&self, observed: &Assessment, _state: &mut State, _moment: Moment) -> Vec<Step> {
        let planned = observed.plan.steps.iter();
        let mut steps: Vec<Step> = planned.map_while(|step| self.step(observed, step)).collect();
        // The positions of the other steps are those of the plan of core.
        if steps.len() == observed.plan.steps.len() {
            steps.extend(observed.health_check.as_ref().map(|change| self.health_check(change)));
        }
        steps
    }

    /// Records in the ControlPlane, as it was read, that this process is about to create a machine.
    /// The record fails if the ControlPlane changed since.
    fn before(&self, observed: &Assessment, step: usize, state: &mut State, moment: Moment) -> Option<Write> {
        let step = observed.plan.steps.get(step)?;
        let meta = &observed.object.metadata;
        let patch = planned::record(&mut state.pending, meta, step, &self.identity, moment)?;
        Some(self.write(Verb::Patch(patch)))
    }

    /// Removes the etcd member of a deleted machine before its hook is removed.
    async fn perform(&self, observed: &Assessment, step: usize) -> Result<(), StepError> {
        let step = observed.plan.steps.get(step);
        let (Some(step), Some(etcd)) = (step, &self.etcd) else {
            return Ok(());
        };
        let Some((member, successors)) = observed.removed_member(step) else {
            return Ok(());
        };
        let removed = etcd.remove(&member, &successors).await;
        removed.map_err(|error| {
            StepError::new(
                format!("removing etcd member {member}"),
                kube::Error::Service(error.into()),
            )
        })
    }

    fn failed(
        &self,
        observed: &Assessment,
        step: usize,
        error: &StepError,
        state: &mut State,
        moment: Moment,
    ) -> Option<Write> {
        let step = observed.plan.steps.get(step)?;
        planned::failed(&mut state.pending, step, &self.identity, error, moment);
        None
    }

    /// A cluster may not serve MachineHealthChecks. The condition `SelfHealing` reports this.
    fn tolerated(&self, observed: &Assessment, error: &StepError, _state: &mut State, _moment: Moment) -> bool {
        matches!(observed.health_check, Some(Change::Create(_))) && error.is_not_found()
    }

    fn status(&self, reconciled: &Reconciled<'_, Assessment>, state: &mut State) -> Vec<Write> {
        let observed = reconciled.observed;
        let now = Timestamp::from_second(reconciled.moment.time.as_second()).unwrap_or(reconciled.moment.time);
        let previous = observed.object.status.as_ref();
        let conditions = previous.map_or(&[][..], |status| &status.conditions);
        if let Some(raw) = &observed.undecodable {
            return Vec::from_iter(self.unreadable_status(observed, raw, state, now));
        }
        let error = planned::lasting_error(reconciled.failing, planned::reports_error(conditions), now);
        let status = observed.status(error, now);
        // A ControlPlane that was patched in this reconcile has another version by now. Its change
        // in the caches triggers the next reconcile.
        let patched = reconciled
            .taken
            .iter()
            .filter_map(|step| observed.plan.steps.get(*step))
            .any(planned::patches_owner);
        let mut writes = Vec::from_iter(operator_write(reconciled.view, &status, now));
        if previous == Some(&status) || patched {
            return writes;
        }
        let own = self.status_write(&observed.object, &status, state);
        writes.splice(0..0, own);
        writes
    }

    fn stored(&self, _observed: &Assessment, write: &Write, written: &Written, state: &mut State) {
        state.stored.learn(write, written);
    }

    fn report<'a>(&self, reconciled: &Reconciled<'a, Assessment>, _state: &mut State) -> Report<'a> {
        let observed = reconciled.observed;
        if let Some(metrics) = self.metrics.as_ref().filter(|_| reconciled.reported) {
            observed.count(metrics, reconciled.moment.time);
        }
        let waits = observed.plan.waits.iter().map(|wait| EventSpec {
            warning: false,
            reason: wait.reason.name(),
            message: wait.message.as_str().into(),
            key: wait.message.clone(),
        });
        let stops = observed.plan.degraded.iter().map(|reason| EventSpec {
            warning: true,
            reason: reason.reason,
            message: reason.message.as_str().into(),
            key: format!("{:?}", observed.object.metadata.generation),
        });
        let taken = reconciled.taken.iter();
        let taken = taken.filter_map(|step| observed.plan.steps.get(*step));
        Report {
            about: Some(observed.object.metadata.clone()),
            lasting: waits.chain(stops).chain(planned::failures(reconciled.errors)).collect(),
            once: taken
                .filter_map(|step| planned::step_event(step, "ControlPlane cluster"))
                .collect(),
            requeue_at: observed.reconcile_at(reconciled.moment.time),
        }
    }
}
