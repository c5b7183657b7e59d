//! The assessment of a ControlPlane by core at one moment, from the caches or from a live read.

use std::sync::Arc;

use capstan_core::admission::Options;
use capstan_core::api::kinds::{CONTROL_PLANES, MACHINE_HEALTH_CHECKS};
use capstan_core::api::machine_openshift_io::control_plane::{ControlPlane, ControlPlaneStatus, NAME};
use capstan_core::api::machine_openshift_io::label;
use capstan_core::api::machine_openshift_io::machine_health_check::MachineHealthCheck;
use capstan_core::api::objects::Undecodable;
use capstan_core::control_plane::action::{Plan, Step};
use capstan_core::control_plane::plan::{plan, question, retry_at};
use capstan_core::control_plane::spec::{Spec, parse};
use capstan_core::control_plane::state::{MachineState, State};
use capstan_core::control_plane::{degraded, health_check, lost_members, members, removal, status};
use capstan_core::cpms::observed::Observed;
use capstan_core::cpms::spec::ParseContext;
use capstan_core::cpms::status::condition;
use capstan_core::cpms::stored_template::TemplateQuestion;
use capstan_core::model::{Degradation, NamespacedName, NewCondition};
use jiff::{SignedDuration, Timestamp};
use serde_json::Value;

use super::undecodable::decodable_parts;
use crate::controllers::metrics::Metrics;
use crate::controllers::observed::{SetInView, feature_gate, observed, set_in};
use crate::runtime::View;

/// No watch reports the health of etcd members, so the controller asks them again after this time
/// while something waits.
const ASK_AGAIN: SignedDuration = SignedDuration::from_secs(10);

/// A ControlPlane, and what is to be done about it.
#[derive(Debug)]
pub struct Assessment {
    /// The object.
    pub(super) object: Arc<ControlPlane>,
    /// What to do next.
    pub(super) plan: Plan,
    /// The write to the health check.
    pub(super) health_check: Option<health_check::Change>,
    /// Whether machines are repaired; `None` if nothing is done with the object.
    repairs: Option<NewCondition>,
    /// The object as it is stored, if it cannot be decoded.
    pub(super) undecodable: Option<Arc<Value>>,
    /// How it was read; `None` if nothing is done with it, or if it is being deleted.
    read: Option<Box<(Spec, State)>>,
    /// What the removal of an object that is being deleted was planned from.
    leaving: Option<Box<Observed>>,
}

/// Parses a ControlPlane and plans for it.
pub(super) fn assess(
    object: Arc<ControlPlane>,
    observed: Observed,
    set: &SetInView<'_>,
    view: &View,
    options: &Options,
) -> Assessment {
    if object.metadata.is_deleting() {
        let health_check = health_check::leave(&object, stored_health_check(&object, view));
        let mut plan = removal::leave(&object, &observed);
        if health_check.is_some() {
            // The finalizer stays until the health check is gone.
            plan.steps.retain(|step| step.machine().is_some());
        }
        return Assessment {
            plan,
            object,
            health_check,
            repairs: None,
            undecodable: None,
            read: None,
            leaving: Some(Box::new(observed)),
        };
    }
    let reasons = beside(set);
    if !reasons.is_empty() {
        return stopped(object, reasons);
    }
    let infrastructure = observed.infrastructure.as_deref();
    let named = infrastructure.map(|found| found.status.infrastructure_name.as_str());
    let mut machines = observed.machines.iter();
    let labelled = machines.find_map(|machine| machine.metadata.labels.get(label::CLUSTER));
    let cluster = named.filter(|name| !name.is_empty()).or(labelled.map(String::as_str));
    let Some(cluster) = cluster.filter(|name| !name.is_empty()) else {
        return stopped(object, degraded::without_cluster_name());
    };
    let gate = feature_gate(&view.objects).map(|gate| &**gate);
    let context = ParseContext {
        infrastructure,
        gates: options.gates(gate),
        ignore_gated_fields: true,
    };
    match parse(&object, cluster, &context) {
        Ok(spec) => {
            let state = State::observe(&spec, observed);
            let found = stored_health_check(&object, view);
            Assessment {
                plan: plan(&spec, &state),
                health_check: health_check::change(&spec, &state, found),
                repairs: Some(health_check::condition(&spec, found)),
                object,
                undecodable: None,
                read: Some(Box::new((spec, state))),
                leaving: None,
            }
        }
        Err(violations) => stopped(object, degraded::invalid(&violations)),
    }
}

/// The health check of a ControlPlane.
fn stored_health_check<'v>(object: &ControlPlane, view: &'v View) -> Option<&'v MachineHealthCheck> {
    let namespace = object.metadata.namespace.as_deref().unwrap_or_default();
    let objects = &view.objects;
    let found = objects.get::<MachineHealthCheck>(&MACHINE_HEALTH_CHECKS, namespace, health_check::NAME);
    found.map(|found| &**found)
}

/// The assessment of a ControlPlane that cannot be decoded.
pub(super) fn unreadable(undecodable: &Undecodable, observed: Observed, view: &View, options: &Options) -> Assessment {
    let object = Arc::new(decodable_parts(&undecodable.raw));
    let mut assessment = if object.metadata.is_deleting() {
        assess(object, observed, &SetInView::Absent, view, options)
    } else {
        stopped(object, degraded::unreadable(&undecodable.reason))
    };
    assessment.undecodable = Some(Arc::clone(&undecodable.raw));
    assessment
}

/// The assessment of the ControlPlane in a view, without what only a running controller knows;
/// `None` without a ControlPlane.
pub fn of_view(view: &View, options: &Options) -> Option<Assessment> {
    let known = view.objects.of::<ControlPlane>(&CONTROL_PLANES)?;
    let key = NamespacedName::new(&*options.namespace, NAME);
    let mut around = observed(view);
    if let Some(undecodable) = known.undecodable.get(&key) {
        return Some(unreadable(undecodable, around, view, options));
    }
    let object = Arc::clone(known.objects.get(&key)?);
    around.own_members = members::assumed(&around.machines, &object);
    let set = set_in(view, &options.namespace)?;
    Some(assess(object, around, &set, view, options))
}

/// The reason of a ControlPlane beside a set that is Active, or that cannot be decoded.
fn beside(set: &SetInView<'_>) -> Vec<Degradation> {
    let reason = match set {
        SetInView::Absent => None,
        SetInView::Found(set) => degraded::beside_active_set([&***set]),
        SetInView::Undecodable(undecodable) => Some(degraded::beside_undecodable_set(&undecodable.reason)),
    };
    reason.into_iter().collect()
}

fn stopped(object: Arc<ControlPlane>, degraded: Vec<Degradation>) -> Assessment {
    Assessment {
        object,
        plan: Plan {
            degraded,
            ..Plan::default()
        },
        health_check: None,
        repairs: None,
        undecodable: None,
        read: None,
        leaving: None,
    }
}

impl Assessment {
    /// The object.
    pub fn object(&self) -> &ControlPlane {
        &self.object
    }

    /// What to do next.
    pub fn plan(&self) -> &Plan {
        &self.plan
    }

    /// How it was read; `None` if nothing is done with it.
    pub fn read(&self) -> Option<(&Spec, &State)> {
        self.read.as_ref().map(|read| (&read.0, &read.1))
    }

    /// What the plan was made of; `None` if nothing is done with the object.
    fn observed(&self) -> Option<&Observed> {
        let read = self.read.as_ref().map(|read| &read.1.observed);
        read.or(self.leaving.as_deref())
    }

    /// The status that the ControlPlane should have.
    pub(super) fn status(&self, error: Option<&str>, now: Timestamp) -> ControlPlaneStatus {
        match &self.read {
            Some(read) => {
                let previous = self.object.status.as_ref();
                status::status(
                    &read.0,
                    &read.1,
                    &self.plan,
                    previous,
                    (self.repairs.clone(), error),
                    now,
                )
            }
            None => status::stopped_status(&self.object, &self.plan, error, now),
        }
    }

    /// The dry run whose answer decides which machines are outdated; `None` if it is not needed.
    pub(super) fn question(&self) -> Option<TemplateQuestion> {
        let read = self.read.as_ref()?;
        question(&read.0, &read.1)
    }

    /// When the ControlPlane is reconciled again without a change of an object.
    pub(super) fn reconcile_at(&self, now: Timestamp) -> Option<Timestamp> {
        let retry = self.read.as_ref().and_then(|read| retry_at(&read.1, now));
        let manages = self.observed().is_some_and(|observed| observed.own_members.is_some());
        let waits = manages && (!self.plan.waits.is_empty() || lost_members::is_concerned(&self.plan));
        let ask = waits.then(|| now.checked_add(ASK_AGAIN).ok()).flatten();
        [self.plan.reconcile_at, retry, ask].into_iter().flatten().min()
    }

    /// Counts the machines, what the plan waits for, and what stops it.
    pub(super) fn count(&self, metrics: &Metrics, now: Timestamp) {
        metrics.waits(self.plan.waits.iter().map(|wait| wait.reason.name()));
        let conditions = self.object.status.iter().flat_map(|status| &status.conditions);
        let mut degraded = conditions.filter(|there| there.type_ == condition::DEGRADED && there.status == "True");
        let since = degraded.next().map_or(now, |there| there.last_transition_time);
        let reasons: Vec<&'static str> = self.plan.degraded.iter().map(|reason| reason.reason).collect();
        let since = (!reasons.is_empty()).then_some(since.as_second());
        metrics.degraded(reasons.into_iter(), since);
        let Some((spec, state)) = self.read() else { return };
        let number = |count: usize| i64::try_from(count).unwrap_or(i64::MAX);
        let count = |counts: &dyn Fn(&MachineState) -> bool| state.standing().filter(|machine| counts(machine)).count();
        let ready = count(&MachineState::is_ready);
        metrics.machines(&[
            ("wanted", number(spec.replicas)),
            ("all", number(state.machines.len())),
            ("ready", number(ready)),
            (
                "updated",
                number(count(&|machine| machine.is_current() && machine.is_ready())),
            ),
            ("unavailable", number(spec.replicas.saturating_sub(ready))),
        ]);
    }

    /// Whether a step releases a deleted machine.
    pub(super) fn releases(&self, step: &Step) -> bool {
        self.observed()
            .is_some_and(|observed| members::is_release(observed, step))
    }

    /// The etcd member that is removed before a step, and the members that may lead instead.
    pub(super) fn removed_member(&self, step: &Step) -> Option<(String, Vec<String>)> {
        let observed = self.observed()?;
        let member = members::removed_by(observed, step)?;
        let successors = members::successors(observed, member).into_iter().map(str::to_owned);
        Some((member.to_owned(), successors.collect()))
    }

    /// The nodes that the next disruptive step depends on, beside those of the control plane: those
    /// of the machines. `None` without such a step.
    pub(super) fn decisive_nodes(&self) -> Option<Vec<String>> {
        self.plan.disruptive()?;
        let machines = self.read.iter().flat_map(|read| &read.1.machines);
        Some(
            machines
                .filter_map(|machine| machine.node.name().map(str::to_owned))
                .collect(),
        )
    }
}
