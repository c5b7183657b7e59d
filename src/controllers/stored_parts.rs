//! What a controller knows of how its statuses are stored: the parts that a CRD drops.
//!
//! A patch that would only send such parts again is left out, so that a steady state writes
//! nothing. Nothing else is decided here; see `capstan_core::model::NotStored`.

use std::collections::BTreeMap;

use capstan_core::model::{NotStored, ObjectRef};
use serde_json::Value;

use crate::runtime::{Verb, Write, Written};

/// The parts of statuses that are not stored as they are sent, by object.
#[derive(Debug, Default)]
pub(super) struct StoredParts {
    objects: BTreeMap<ObjectRef, NotStored>,
    everything: NotStored,
}

impl StoredParts {
    /// What is not stored of the status of an object.
    pub(super) fn of(&self, object: &ObjectRef) -> &NotStored {
        self.objects.get(object).unwrap_or(&self.everything)
    }

    /// The patch of the status of an object, unless it only repeats what is not stored.
    pub(super) fn unless_repeated(&self, object: &ObjectRef, stored: &Value, patch: Option<Value>) -> Option<Value> {
        patch.filter(|patch| !self.of(object).repeats(stored, patch))
    }

    /// Learns from the answer to a write.
    pub(super) fn learn(&mut self, write: &Write, written: &Written) {
        let Verb::PatchStatus(patch) = &write.verb else { return };
        let mut known = self.objects.remove(&write.object).unwrap_or_default();
        known.learn(patch, &written.status);
        if !known.is_empty() {
            self.objects.insert(write.object.clone(), known);
        }
    }

    /// Forgets the other objects.
    pub(super) fn retain(&mut self, is_known: impl Fn(&ObjectRef) -> bool) {
        self.objects.retain(|object, _| is_known(object));
    }
}
