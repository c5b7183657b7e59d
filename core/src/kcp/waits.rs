//! What a reconcile waits for, with the object that it is about. This module decides nothing.

use super::action::{Wait, WaitReason, machine_ref};
use super::state::{MachineState, State};

/// A wait for the control plane as a whole.
pub(super) fn wait(reason: WaitReason, message: String) -> Wait {
    Wait {
        index: None,
        subject: None,
        reason,
        message,
        until: None,
    }
}

/// A wait for a machine.
pub(super) fn about(state: &State, machine: &MachineState, reason: WaitReason, message: String) -> Wait {
    Wait {
        subject: Some(machine_ref(state.namespace(), machine.name())),
        ..wait(reason, message)
    }
}
