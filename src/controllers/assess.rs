//! What core says about a set at one moment, whether the moment comes from the caches or from a live read.

use capstan_core::admission::Options;
use capstan_core::api::config_openshift_io::feature_gate::FeatureGate;
use capstan_core::api::machine_openshift_io::control_plane_machine_set::{
    ControlPlaneMachineSet, ControlPlaneMachineSetStatus,
};
use capstan_core::cpms::plan::{Plan, plan};
use capstan_core::cpms::spec::{ParseContext, SetState, Spec, parse};
use capstan_core::cpms::state::{Observed, Settings, State};
use capstan_core::cpms::{removal, status};
use capstan_core::model::Violation;
use jiff::Timestamp;

/// A set, and what is to be done about it.
#[derive(Debug)]
pub struct Assessment {
    /// The object.
    pub set: ControlPlaneMachineSet,
    /// What to do next.
    pub plan: Plan,
    /// How it was read.
    pub reading: Reading,
}

/// How a set was read.
#[derive(Debug)]
pub enum Reading {
    /// It is valid.
    Valid(Box<(Spec, State)>),
    /// It is not, and nothing is done with it.
    Invalid(Vec<Violation>),
    /// It is on its way out, valid or not.
    Leaving,
}

/// Reads a set and plans for it.
pub fn assess(
    set: ControlPlaneMachineSet,
    observed: Observed,
    gate: Option<&FeatureGate>,
    options: &Options,
    settings: Settings,
    now: Timestamp,
) -> Assessment {
    if set.metadata.is_deleting() {
        let mut plan = removal::steps(&set, &observed.machines);
        let unread: Vec<&str> = observed
            .unparsable
            .iter()
            .filter(|object| object.kind == "Machine")
            .map(|object| object.name.as_str())
            .collect();
        if !unread.is_empty() {
            // Nobody knows whether it names the set as its owner; the garbage collector would find out.
            plan.steps.retain(|step| step.machine.is_some());
            plan.notes.push(format!(
                "the finalizer stays while these machines cannot be read: {}",
                unread.join(", ")
            ));
        }
        return Assessment {
            set,
            plan,
            reading: Reading::Leaving,
        };
    }
    let context = ParseContext {
        infrastructure: observed.infrastructure.as_deref(),
        gates: options.gates(gate),
        ignore_gated_fields: true,
    };
    match parse(&set, &context) {
        Ok(spec) => {
            let state = State::observe(&spec, observed, settings);
            let plan = plan(&spec, &state, now);
            Assessment {
                set,
                plan,
                reading: Reading::Valid(Box::new((spec, state))),
            }
        }
        Err(violations) => Assessment {
            set,
            plan: Plan::default(),
            reading: Reading::Invalid(violations),
        },
    }
}

impl Assessment {
    /// The status that the set should have; `None` for one that is leaving.
    pub fn status(&self, error: Option<&str>, now: Timestamp) -> Option<ControlPlaneMachineSetStatus> {
        let previous = self.set.status.as_ref();
        match &self.reading {
            Reading::Valid(read) => {
                let (spec, state) = &**read;
                Some(status::status(spec, state, &self.plan, previous, error, now))
            }
            Reading::Invalid(violations) => Some(status::invalid_status(&self.set, violations, error, now)),
            Reading::Leaving => None,
        }
    }

    /// Whether the set acts.
    pub fn is_active(&self) -> bool {
        match &self.reading {
            Reading::Valid(read) => read.0.state == SetState::Active,
            Reading::Invalid(_) => self.set.spec.state.as_deref() == Some("Active"),
            Reading::Leaving => false,
        }
    }

    /// The state, if the set is valid.
    pub fn state(&self) -> Option<&State> {
        match &self.reading {
            Reading::Valid(read) => Some(&read.1),
            Reading::Invalid(_) | Reading::Leaving => None,
        }
    }

    /// The nodes that the next disruptive step depends on: those of the machines of its index.
    pub fn decisive_nodes(&self) -> Vec<String> {
        let index = self.plan.disruptive().and_then(|step| step.index);
        let (Some(index), Some(state)) = (index, self.state()) else {
            return Vec::new();
        };
        let names = state.of_index(index).filter_map(|machine| machine.node.name());
        names.map(str::to_owned).collect()
    }
}
