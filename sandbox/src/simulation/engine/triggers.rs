//! Triggers: what a state causes, and not a time.
//!
//! A trigger waits for a call of the controllers, or for a state of the store. The engine counts
//! the calls of all replicas, and how often each state begins. It must not look into the calls.

use serde_json::Value;

use crate::api::Object;

use super::faults::RequestFault;
use super::kinds::ObjectKey;
use super::port::Call;
use super::schedule::{CallKind, Effect, Incident, StoredState, Trigger, When};
use super::world::{Due, Environment, World};

/// What a call does, if a trigger can name it, and its object.
fn kind_of_call(call: &Call) -> Option<(CallKind, &ObjectKey)> {
    match call {
        Call::List { all, .. } => Some((CallKind::List, all)),
        Call::Create(key, _) => Some((CallKind::Create, key)),
        Call::Patch { key, .. } | Call::Apply { key, .. } => Some((CallKind::Patch, key)),
        Call::Delete { key, .. } => Some((CallKind::Delete, key)),
        Call::Get(_) | Call::DryRun(..) => None,
    }
}

impl StoredState {
    fn fits(&self, key: &ObjectKey, object: &Object) -> bool {
        let has = |(pointer, wanted): (&String, &Value)| match (object.pointer(pointer), wanted) {
            (there, Value::Null) => there.is_none(),
            (there, Value::Bool(true)) => there.is_some(),
            (there, wanted) => there == Some(wanted),
        };
        key.name.ends_with(&self.name) && self.fields.iter().all(has)
    }
}

impl<E: Environment> World<E> {
    /// The triggers that are not skipped, and their positions.
    fn active_triggers(&self) -> impl Iterator<Item = (usize, &Trigger<E::Act>)> {
        let first = self.schedule.incidents.len();
        let triggers = self.schedule.triggers.iter().enumerate();
        triggers.filter(move |(position, _)| !self.options.skipped.contains(&(first + position)))
    }

    /// Lets the incidents happen that a call triggers. Returns the fault that it meets.
    pub(super) fn trigger(&mut self, call: &Call) -> Option<RequestFault> {
        if self.calm {
            return None;
        }
        let (sent, key) = kind_of_call(call)?;
        let count = self.calls.entry((sent, key.kind)).or_default();
        *count += 1;
        if self.schedule.triggers.is_empty() {
            return None;
        }
        let waits = |trigger: &Trigger<E::Act>| match &trigger.when {
            When::Call {
                call,
                kind,
                name,
                number,
            } => ((*call, *kind) == (sent, key.kind) && key.name.ends_with(name)).then_some(*number),
            When::State(_) => None,
        };
        let waiting: Vec<(usize, u64, Effect<E::Act>)> = self
            .active_triggers()
            .filter_map(|(position, trigger)| Some((position, waits(trigger)?, trigger.then.clone())))
            .collect();
        let mut fault = None;
        for (position, number, effect) in waiting {
            let Some(progress) = self.progress.get_mut(position) else {
                continue;
            };
            progress.count += 1;
            if progress.count != number {
                continue;
            }
            match effect {
                Effect::Happens(incident) => self.happen(&incident),
                Effect::Meets(met) => fault = Some(met),
            }
        }
        fault
    }

    /// Notes the fault that a call meets at its rate, as a trigger that causes the same fault.
    pub(super) fn note_fault(&mut self, call: &Call, fault: RequestFault) {
        if let Some((call, key)) = kind_of_call(call).filter(|_| self.options.trace) {
            let number = self.calls.get(&(call, key.kind)).copied().unwrap_or_default();
            let (kind, name) = (key.kind, String::new());
            self.outcome.met.push((
                When::Call {
                    call,
                    kind,
                    name,
                    number,
                },
                fault,
            ));
        }
    }

    /// Notes which states begin or end with a change, and lets happen next what they trigger.
    pub(super) fn note_states(&mut self, key: &ObjectKey) {
        if self.schedule.triggers.is_empty() || self.calm {
            return;
        }
        let holds = |state: &StoredState| {
            let all = self.objects.of_kind(state.kind);
            let fitting = all.filter(|(key, version)| state.fits(key, &version.stored));
            fitting.take(state.count).count() == state.count
        };
        let states: Vec<(usize, bool, u64)> = self
            .active_triggers()
            .filter_map(|(position, trigger)| match &trigger.when {
                When::State(state) if state.kind == key.kind => Some((position, holds(state), state.number)),
                _ => None,
            })
            .collect();
        for (position, holds, number) in states {
            let Some(progress) = self.progress.get_mut(position) else {
                continue;
            };
            let begins = holds && !progress.holds;
            progress.holds = holds;
            progress.count += u64::from(begins);
            if begins && progress.count == number {
                self.after(0, Due::Triggered(position));
            }
        }
    }

    /// Lets the incident of a state happen.
    pub(super) fn happen_triggered(&mut self, position: usize) {
        let trigger = self.schedule.triggers.get(position);
        let incident: Option<Incident<E::Act>> = trigger.and_then(|trigger| match &trigger.then {
            Effect::Happens(incident) => Some(incident.clone()),
            Effect::Meets(_) => None,
        });
        if let Some(incident) = incident.filter(|_| !self.calm) {
            self.happen(&incident);
        }
    }
}
