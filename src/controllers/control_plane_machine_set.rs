//! The controller of ControlPlaneMachineSets.
//!
//! It observes the set with its machines, nodes and operators, hands them to core, and turns the
//! plan of core into writes. Only a step on which the caches and a live read agree creates or
//! deletes a machine. It writes nothing itself, and it decides nothing that core could decide.

mod idle;
pub(super) mod live;
mod report;
mod stored_status;
pub(super) mod template;
#[cfg(test)]
mod tests;
pub(super) mod undecodable;

use std::sync::Arc;

use capstan_core::admission::Options;
use capstan_core::api::config_openshift_io::cluster_operator::ClusterOperatorStatus;
use capstan_core::api::kind::KindInfo;
use capstan_core::api::kinds;
use capstan_core::api::machine_openshift_io::control_plane_machine_set::{
    ControlPlaneMachineSet, ControlPlaneMachineSetStatus, NAME,
};
use capstan_core::cpms::indexes::REPLACES;
use capstan_core::cpms::observed::{Observed as Cluster, Settings};
use capstan_core::cpms::pending_creates;
use capstan_core::cpms::plan;
use capstan_core::cpms::reconcile_cache::ReconcileCache;
use capstan_core::model::ObjectRef;
use jiff::Timestamp;
use serde_json::{Value, json};

use super::assess::{Assessment, assess};
use super::caches::controller_watches;
use super::metrics::Metrics;
use super::observed::{SetInView, feature_gate, is_complete, observed, set_in};
use super::pending_creates::PendingCreates;
use super::planned;
use crate::runtime::{
    self, Moment, Observation, Reconcile, Reconciled, Report, Source, Step, StepError, Verb, View, Watch, Write,
    Written,
};
use idle::Idle;
use report::LastWrite;
use stored_status::StoredStatus;
use template::Answers;

/// What is configured.
#[derive(Clone, Debug)]
pub struct Configuration {
    /// Namespace, gates, version.
    pub options: Options,
    /// What decides how fast a rollout goes.
    pub settings: Settings,
    /// The name of this process, in events and in records of creations.
    pub identity: String,
}

/// The controller.
#[derive(Debug)]
pub struct ControlPlaneMachineSets {
    configuration: Configuration,
    metrics: Metrics,
    /// How the API server stores templates.
    answers: Answers,
    /// What the ClusterOperator says of Capstan itself.
    parts: ClusterOperatorStatus,
}

/// What is kept of a set between reconciles.
#[derive(Debug, Default)]
pub struct State {
    cache: ReconcileCache,
    pending: PendingCreates,
    /// What the last reconcile was based on, if it had nothing to do.
    idle: Option<Idle>,
    /// What was written last to the ClusterOperator.
    last_write: Option<LastWrite>,
    /// The status that is being written to the set.
    status: Option<ControlPlaneMachineSetStatus>,
    /// What the API server stores of the status, if that is not what is sent.
    stored: StoredStatus,
}

/// A set and its surroundings.
#[derive(Debug)]
pub struct Observed {
    /// What core says about the set; `None` if there is no set.
    assessment: Option<Assessment>,
    /// The set as JSON, if it cannot be decoded.
    undecodable: Option<Arc<Value>>,
}

impl ControlPlaneMachineSets {
    /// The controller of the sets in the namespace of the options.
    pub fn new(configuration: Configuration, metrics: Metrics) -> Self {
        Self {
            parts: report::parts(&configuration.options),
            configuration,
            metrics,
            answers: Answers::default(),
        }
    }

    /// The key of the set: there is one name, in one namespace.
    pub fn object(&self) -> ObjectRef {
        kinds::CONTROL_PLANE_MACHINE_SETS.object(self.namespace(), NAME)
    }

    fn namespace(&self) -> &str {
        &self.configuration.options.namespace
    }

    fn assess(
        &self,
        set: Arc<ControlPlaneMachineSet>,
        observed: Cluster,
        view: &View,
        now: Timestamp,
        state: &mut State,
    ) -> Assessment {
        let gate = feature_gate(&view.objects).map(|gate| &**gate);
        let Configuration { options, settings, .. } = &self.configuration;
        assess(set, observed, gate, options, *settings, now, &mut state.cache)
    }

    fn observe_set(
        &self,
        set: &Arc<ControlPlaneMachineSet>,
        view: &View,
        source: Source,
        state: &mut State,
        moment: Moment,
    ) -> Observation<Observed> {
        if source == Source::Caches {
            let last = state.idle.take().filter(|last| last.holds(view, set, moment.time));
            if let Some(last) = last
                && self
                    .operator_changes(view, Some(&last.status), last.active, state, moment.time)
                    .is_none()
            {
                let at = last.at;
                state.idle = Some(last);
                return Observation::Idle(at);
            }
        }
        let mut cluster = observed(view);
        cluster.stored_templates = self.answers.all();
        let version = set.metadata.resource_version.as_deref().unwrap_or_default();
        let live = source == Source::Live;
        let recorded = pending_creates::recorded(&set.metadata);
        state.pending.read(recorded, version, live, moment.seen);
        state.pending.add_to(&mut cluster, moment.instant, moment.time);
        let assessment = self.assess(Arc::clone(set), cluster, view, moment.time, state);
        Observation::Found(Observed {
            assessment: Some(assessment),
            undecodable: None,
        })
    }

    /// A write to the set.
    fn write_set(&self, verb: Verb) -> Write {
        Write::new(&kinds::CONTROL_PLANE_MACHINE_SETS, self.namespace(), NAME, verb)
    }

    /// A step of core's plan, as a write. `next` is the disruptive step of the plan.
    fn step(&self, step: &plan::Step, next: Option<&plan::Step>) -> Option<Step> {
        let write = planned::write(step, self.namespace(), &[REPLACES], |verb| self.write_set(verb))?;
        let patches_set = planned::patches_owner(step);
        Some(Step {
            write,
            action: step.verb(),
            because: step.because.clone(),
            disruptive: step.is_disruptive(),
            // The finalizer of the set is removed only when nothing else is left to do.
            needs_success: step.is_disruptive() || (patches_set && step.machine().is_none()),
            // Machines get the set as their owner only after the finalizer of the set is stored.
            // Otherwise the garbage collector would delete them together with the set.
            gates_others: patches_set,
            optional: step.is_optional_before(next),
        })
    }
}

/// The position of a runtime step is the position of the step of core's plan.
fn core_step(observed: &Observed, position: usize) -> Option<&plan::Step> {
    observed.assessment.as_ref()?.plan.steps.get(position)
}

impl Reconcile for ControlPlaneMachineSets {
    const NAME: &'static str = "control-plane-machine-set";

    type State = State;
    type Observed = Observed;

    fn kind(&self) -> &KindInfo {
        &kinds::CONTROL_PLANE_MACHINE_SETS
    }

    fn watches(&self) -> Vec<Watch> {
        controller_watches(self.namespace())
    }

    fn all(&self, _view: &View) -> Vec<ObjectRef> {
        vec![self.object()]
    }

    /// The plan of the set depends on everything that is watched.
    fn affected(&self, _changed: &ObjectRef, _view: &View) -> Vec<ObjectRef> {
        vec![self.object()]
    }

    /// The ClusterOperator is reported also without a set.
    fn is_gone(&self, _object: &ObjectRef, _view: &View) -> bool {
        false
    }

    fn leadership(&self, is_leader: bool) {
        if !is_leader {
            self.metrics.forget();
        }
    }

    fn observe(
        &self,
        object: &ObjectRef,
        view: &View,
        source: Source,
        state: &mut State,
        moment: Moment,
    ) -> Observation<Observed> {
        if !view.synced {
            return Observation::Nothing;
        }
        match set_in(view, &object.namespace) {
            Some(SetInView::Undecodable(undecodable)) => {
                self.observe_undecodable(undecodable, view, source, state, moment)
            }
            Some(SetInView::Absent) if source == Source::Caches && is_complete(view) => Observation::Found(Observed {
                assessment: None,
                undecodable: None,
            }),
            Some(SetInView::Found(set)) if is_complete(view) => self.observe_set(set, view, source, state, moment),
            _ => Observation::Nothing,
        }
    }

    async fn inquire<C: runtime::Cluster>(&self, cluster: &C, observed: &Observed) -> bool {
        let question = observed.assessment.as_ref().and_then(Assessment::question);
        match question {
            Some(question) => self.answers.ask(cluster, question).await,
            None => false,
        }
    }

    async fn read_live<C: runtime::Cluster>(
        &self,
        _object: &ObjectRef,
        cluster: &C,
        view: &View,
        observed: &Observed,
    ) -> Result<Option<View>, StepError> {
        let decisive = observed.assessment.as_ref().and_then(Assessment::decisive_nodes);
        live::read(cluster, self.namespace(), view, decisive.as_deref())
            .await
            .map(Some)
    }

    fn plan(&self, observed: &Observed, _state: &mut State, _moment: Moment) -> Vec<Step> {
        let Some(assessment) = &observed.assessment else {
            return Vec::new();
        };
        let next = assessment.plan.disruptive();
        let steps = assessment.plan.steps.iter();
        steps.map_while(|step| self.step(step, next)).collect()
    }

    /// Records in the set, as it was read, that this process is about to create a machine. The
    /// record fails if the set changed since.
    fn before(&self, observed: &Observed, step: usize, state: &mut State, moment: Moment) -> Option<Write> {
        let (identity, set) = (&self.configuration.identity, &observed.assessment.as_ref()?.set);
        let step = core_step(observed, step)?;
        let patch = planned::record(&mut state.pending, &set.metadata, step, identity, moment)?;
        Some(self.write_set(Verb::Patch(patch)))
    }

    fn failed(
        &self,
        observed: &Observed,
        step: usize,
        error: &StepError,
        state: &mut State,
        moment: Moment,
    ) -> Option<Write> {
        let step = core_step(observed, step)?;
        planned::failed(&mut state.pending, step, &self.configuration.identity, error, moment);
        None
    }

    fn status(&self, reconciled: &Reconciled<'_, Observed>, state: &mut State) -> Vec<Write> {
        self.status_writes(reconciled, state)
    }

    fn stored(&self, observed: &Observed, write: &Write, written: &Written, state: &mut State) {
        self.status_stored(observed, write, written, state);
    }

    fn report<'a>(&self, reconciled: &Reconciled<'a, Observed>, state: &mut State) -> Report<'a> {
        self.report_set(reconciled, state)
    }
}

/// A patch of the status of a set as it was read. It fails if the set changed since.
fn status_patch(set: &ControlPlaneMachineSet, status: Value) -> Value {
    let meta = &set.metadata;
    let metadata = json!({"uid": meta.uid, "resourceVersion": meta.resource_version});
    fields([("metadata", metadata), ("status", status)])
}

/// An object of these fields, which are not copied.
fn fields<const N: usize>(fields: [(&str, Value); N]) -> Value {
    let fields = fields.into_iter().map(|(name, value)| (name.to_owned(), value));
    Value::Object(fields.collect())
}
