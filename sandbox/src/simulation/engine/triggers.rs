//! Incidents that a state triggers, and not a time.
//!
//! A trigger names a call of the controllers. Its incident happens when the call is sent, so it
//! comes between what the controller read and the arrival of what it decided. The engine counts the
//! calls of all replicas; it must not look into them.

use super::port::Call;
use super::schedule::{CallKind, Incident};
use super::world::{Environment, World};

/// What a call does, if a trigger can name it.
fn kind_of_call(call: &Call) -> Option<CallKind> {
    match call {
        Call::List { .. } => Some(CallKind::List),
        Call::Create(..) => Some(CallKind::Create),
        Call::Patch { .. } | Call::Apply { .. } => Some(CallKind::Patch),
        Call::Delete { .. } => Some(CallKind::Delete),
        Call::Get(_) | Call::DryRun(..) => None,
    }
}

impl<E: Environment> World<E> {
    /// Lets the incidents happen that a call triggers.
    pub(super) fn trigger(&mut self, call: &Call) {
        if self.schedule.triggers.is_empty() || self.calm {
            return;
        }
        let Some(sent) = kind_of_call(call) else { return };
        let count = self.calls.entry((sent, call.kind())).or_default();
        *count += 1;
        let number = *count;
        let first = self.schedule.incidents.len();
        let triggers = self.schedule.triggers.iter().enumerate();
        let triggered = triggers.filter(|(position, trigger)| {
            let is_skipped = self.options.skipped.contains(&(first + position));
            !is_skipped && (trigger.call, trigger.kind, trigger.number) == (sent, call.kind(), number)
        });
        let incidents: Vec<Incident<E::Act>> = triggered.map(|(_, trigger)| trigger.incident.clone()).collect();
        for incident in incidents {
            self.happen(&incident);
        }
    }
}
