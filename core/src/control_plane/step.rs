//! Parts that the steps and the waits of a plan are made of. Nothing here decides.

use serde_json::{Map, Value, json};

use super::action::{Step, Wait};
use super::gates::Blocked;
use super::spec::Spec;
use super::state::MachineState;
use crate::api::kinds::MACHINES;
use crate::api::machine_openshift_io::machine::Machine;
use crate::cpms::action::Action;
use crate::model::Precondition;

/// A reason to wait, about a machine or about none.
pub(super) fn waits(machine: Option<&MachineState>, blocked: Blocked) -> Wait {
    about(machine.map(|machine| &*machine.machine), blocked)
}

/// The same, for a machine without a state.
pub(super) fn about(machine: Option<&Machine>, (reason, message): Blocked) -> Wait {
    let of = |machine: &Machine| {
        let meta = &machine.metadata;
        MACHINES.object(meta.namespace.as_deref().unwrap_or_default(), meta.name())
    };
    Wait {
        subject: machine.map(of),
        ..Wait::new(reason, message)
    }
}

/// The version of a machine that a step is for.
pub(super) fn precondition(machine: &MachineState) -> Precondition {
    let meta = &machine.machine.metadata;
    Precondition {
        uid: meta.uid().to_owned(),
        resource_version: meta.resource_version.clone().unwrap_or_default(),
    }
}

/// A change of a machine in place: of fields of its metadata, and of its spec.
pub(super) fn patch(
    spec: &Spec,
    machine: &MachineState,
    fields: &[(&str, Value)],
    change: Option<&Value>,
    because: String,
) -> Step {
    let precondition = precondition(machine);
    let mut metadata: Map<String, Value> = precondition.metadata();
    for (field, value) in fields {
        metadata.insert((*field).to_owned(), value.clone());
    }
    let mut patch = json!({ "metadata": metadata });
    if let (Some(patch), Some(change)) = (patch.as_object_mut(), change) {
        patch.insert("spec".to_owned(), change.clone());
    }
    Step {
        action: Action::Patch {
            patch,
            failure_domain: machine.domain.clone(),
        },
        subject: MACHINES.object(&spec.namespace, machine.name()),
        index: None,
        because,
        precondition: Some(precondition),
    }
}
