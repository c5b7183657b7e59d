//! The assessment of a set by core at one moment, from the caches or from a live read.

use std::sync::Arc;

use capstan_core::admission::Options;
use capstan_core::api::config_openshift_io::feature_gate::FeatureGate;
use capstan_core::api::machine_openshift_io::control_plane_machine_set::{
    ControlPlaneMachineSet, ControlPlaneMachineSetStatus,
};
use capstan_core::cpms::observed::{Observed, Settings};
use capstan_core::cpms::plan::{self, Plan};
use capstan_core::cpms::reconcile_cache::ReconcileCache;
use capstan_core::cpms::spec::{SetState, Spec};
use capstan_core::cpms::state::State;
use capstan_core::cpms::stored_template::TemplateQuestion;
use capstan_core::cpms::{degraded, removal, status};
use capstan_core::model::{Degradation, Violation};
use jiff::Timestamp;

/// A set, and what is to be done about it.
#[derive(Debug)]
pub struct Assessment {
    /// The object.
    pub set: Arc<ControlPlaneMachineSet>,
    /// What to do next.
    pub plan: Plan,
    /// How it was read.
    pub reading: Reading,
}

/// Whether a set is valid.
#[derive(Debug)]
pub enum Reading {
    /// It is valid.
    Valid(Box<(Spec, State)>),
    /// It is invalid, or cannot be decoded. Nothing is done with it, and the plan gives the reason.
    /// The list is empty for a set that cannot be decoded.
    Invalid(Vec<Violation>),
    /// It is being deleted, valid or not.
    Leaving,
}

/// Parses a set and plans for it. `cache` keeps derived values between reconciles.
pub fn assess(
    set: Arc<ControlPlaneMachineSet>,
    observed: Observed,
    gate: Option<&FeatureGate>,
    options: &Options,
    settings: Settings,
    now: Timestamp,
    cache: &mut ReconcileCache,
) -> Assessment {
    if set.metadata.is_deleting() {
        return Assessment {
            plan: removal::leave(&set, &observed),
            set,
            reading: Reading::Leaving,
        };
    }
    match cache.parse(&set, observed.infrastructure.as_ref(), options.gates(gate), true) {
        Ok(spec) => {
            let state = State::observe_with(&spec, observed, settings, cache);
            let plan = plan::plan(&spec, &state, now);
            Assessment {
                set,
                plan,
                reading: Reading::Valid(Box::new((spec, state))),
            }
        }
        Err(violations) => {
            let reasons = degraded::invalid(&violations);
            stopped(set, reasons, violations)
        }
    }
}

/// A set with which nothing is done.
pub(super) fn stopped(
    set: Arc<ControlPlaneMachineSet>,
    degraded: Vec<Degradation>,
    violations: Vec<Violation>,
) -> Assessment {
    Assessment {
        set,
        plan: Plan {
            degraded,
            ..Plan::default()
        },
        reading: Reading::Invalid(violations),
    }
}

impl Assessment {
    /// The status that the set should have.
    pub fn status(&self, error: Option<&str>, now: Timestamp) -> ControlPlaneMachineSetStatus {
        let previous = self.set.status.as_ref();
        match &self.reading {
            Reading::Valid(read) => {
                let (spec, state) = &**read;
                status::status(spec, state, &self.plan, previous, error, now)
            }
            Reading::Invalid(_) => status::stopped_status(&self.set, &self.plan.degraded, error, now),
            Reading::Leaving => status::leaving_status(&self.set, &self.plan, error, now),
        }
    }

    /// Whether the set is active.
    pub fn is_active(&self) -> bool {
        match &self.reading {
            Reading::Valid(read) => read.0.state == SetState::Active,
            Reading::Invalid(_) => self.set.spec.state.as_deref() == Some("Active"),
            // A set whose deletion is blocked needs attention. A set that is deleted does not.
            Reading::Leaving => !self.plan.degraded.is_empty(),
        }
    }

    /// The state, if the set is valid.
    pub fn state(&self) -> Option<&State> {
        match &self.reading {
            Reading::Valid(read) => Some(&read.1),
            Reading::Invalid(_) | Reading::Leaving => None,
        }
    }

    /// The dry run whose answer decides which machines are outdated; `None` if it is not needed.
    pub fn question(&self) -> Option<TemplateQuestion> {
        match &self.reading {
            Reading::Valid(read) => plan::question(&read.0, &read.1),
            Reading::Invalid(_) | Reading::Leaving => None,
        }
    }

    /// The nodes that the next disruptive step depends on, beside those of the control plane: those
    /// of the machines of its index. `None` without such a step.
    pub fn decisive_nodes(&self) -> Option<Vec<String>> {
        let step = self.plan.disruptive()?;
        let (Some(index), Some(state)) = (step.index, self.state()) else {
            return Some(Vec::new());
        };
        let names = state.of_index(index).filter_map(|machine| machine.node.name());
        Some(names.map(str::to_owned).collect())
    }
}
