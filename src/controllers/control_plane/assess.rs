//! The assessment of a ControlPlane by core at one moment, from the caches or from a live read.

use std::sync::Arc;

use capstan_core::admission::Options;
use capstan_core::api::kinds::MACHINE_HEALTH_CHECKS;
use capstan_core::api::machine_openshift_io::control_plane::{ControlPlane, ControlPlaneStatus};
use capstan_core::api::machine_openshift_io::label;
use capstan_core::api::machine_openshift_io::machine_health_check::MachineHealthCheck;
use capstan_core::control_plane::action::Plan;
use capstan_core::control_plane::plan::{plan, question, retry_at};
use capstan_core::control_plane::spec::{Spec, parse};
use capstan_core::control_plane::state::State;
use capstan_core::control_plane::{degraded, health_check, removal, status};
use capstan_core::cpms::observed::Observed;
use capstan_core::cpms::spec::ParseContext;
use capstan_core::cpms::stored_template::TemplateQuestion;
use capstan_core::model::{Degradation, NewCondition};
use jiff::Timestamp;

use crate::controllers::observed::{SetInView, feature_gate};
use crate::runtime::View;

/// A ControlPlane, and what is to be done about it.
#[derive(Debug)]
pub(in crate::controllers) struct Assessment {
    /// The object.
    pub(super) object: Arc<ControlPlane>,
    /// What to do next.
    pub(super) plan: Plan,
    /// The write to the health check.
    pub(super) health_check: Option<health_check::Change>,
    /// Whether machines are repaired; `None` if nothing is done with the object.
    repairs: Option<NewCondition>,
    /// How it was read; `None` if nothing is done with it, or if it is being deleted.
    read: Option<Box<(Spec, State)>>,
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
        return Assessment {
            plan: removal::leave(&object, &observed),
            object,
            health_check: None,
            repairs: None,
            read: None,
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
    let gate = feature_gate(&view.objects).map(|gate| &**gate);
    let context = ParseContext {
        infrastructure,
        gates: options.gates(gate),
        ignore_gated_fields: true,
    };
    match parse(&object, cluster.unwrap_or_default(), &context) {
        Ok(spec) => {
            let state = State::observe(&spec, observed);
            let namespace = object.metadata.namespace.as_deref().unwrap_or_default();
            let found = view
                .objects
                .get::<MachineHealthCheck>(&MACHINE_HEALTH_CHECKS, namespace, health_check::NAME);
            let found = found.map(|found| &**found);
            Assessment {
                plan: plan(&spec, &state),
                health_check: health_check::change(&spec, &state, found),
                repairs: Some(health_check::condition(&spec, found)),
                object,
                read: Some(Box::new((spec, state))),
            }
        }
        Err(violations) => stopped(object, degraded::invalid(&violations)),
    }
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
        read: None,
    }
}

impl Assessment {
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
        [self.plan.reconcile_at, retry].into_iter().flatten().min()
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
