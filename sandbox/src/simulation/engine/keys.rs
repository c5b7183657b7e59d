//! Keys: what a run reached, and during which incident. A search for new schedules keeps the
//! schedules that reach new keys. The environment decides what counts as reached.

use super::schedule::{Incident, MINUTE};
use super::world::{Environment, World};

/// An incident counts as active for this long, in milliseconds.
const ACTIVE: i64 = 10 * MINUTE;

impl<E: Environment> World<E> {
    /// Notes an incident that happens, if keys were requested.
    pub(super) fn note_incident(&mut self, incident: &Incident<E::Act>) {
        if self.options.keys {
            let text = format!("{incident:?}");
            let name = text.split(['(', ' ']).next().unwrap_or_default().to_owned();
            self.active.push((self.now + ACTIVE, name));
        }
    }

    /// Whether the outcome contains the keys that the run reached.
    pub(crate) fn notes_keys(&self) -> bool {
        self.options.keys
    }

    /// Notes a key for each incident that is active: what was reached, and during which incident.
    pub(crate) fn reach(&mut self, reached: &str) {
        let now = self.now;
        self.active.retain(|(until, _)| *until >= now);
        let names = self.active.iter().map(|(_, name)| name.as_str());
        let keys: Vec<String> = names
            .chain(["nothing"].into_iter().filter(|_| self.active.is_empty()))
            .map(|name| format!("{reached} during {name}"))
            .collect();
        self.outcome.keys.extend(keys);
    }
}
