//! What the API server stores of the status of a set.
//!
//! A CRD that does not have a field drops it: OpenShift's has neither `status.selector` nor
//! `status.machines`. A status is compared with what was stored, and never with what was sent.
//! Otherwise the same status is written again and again.

use std::collections::BTreeSet;

use capstan_core::api::machine_openshift_io::control_plane_machine_set::ControlPlaneMachineSetStatus;
use serde::Deserialize as _;
use serde_json::{Value, json};

/// What was learned from the answers to writes of the status.
#[derive(Debug, Default)]
pub(super) struct StoredStatus {
    /// The fields of the first level that were sent and not stored.
    dropped: BTreeSet<String>,
    /// The last status that was sent and stored in another form, and that form.
    last: Option<(ControlPlaneMachineSetStatus, ControlPlaneMachineSetStatus)>,
}

impl StoredStatus {
    /// The status that is stored when `wanted` is written.
    pub(super) fn expected(&self, wanted: ControlPlaneMachineSetStatus) -> ControlPlaneMachineSetStatus {
        let wanted = self.without_dropped(wanted);
        match &self.last {
            Some((sent, stored)) if *sent == wanted => stored.clone(),
            _ => wanted,
        }
    }

    /// Compares a status that was sent with what was stored. Returns what was stored.
    pub(super) fn learn(&mut self, sent: ControlPlaneMachineSetStatus, answer: &Value) -> ControlPlaneMachineSetStatus {
        let Ok(stored) = ControlPlaneMachineSetStatus::deserialize(answer) else {
            // The answer has no status that can be read. The caches will show what is stored.
            return sent;
        };
        if stored == sent && self.dropped.is_empty() {
            self.last = None;
            return stored;
        }
        if let (Value::Object(fields), Value::Object(answer)) = (json!(sent), answer) {
            let missing = fields
                .into_iter()
                .filter(|(field, value)| !is_empty(value) && !answer.contains_key(field));
            self.dropped.extend(missing.map(|(field, _)| field));
        }
        let sent = self.without_dropped(sent);
        self.last = (sent != stored).then(|| (sent, stored.clone()));
        stored
    }

    fn without_dropped(&self, status: ControlPlaneMachineSetStatus) -> ControlPlaneMachineSetStatus {
        if self.dropped.is_empty() {
            return status;
        }
        let mut fields = json!(status);
        if let Some(fields) = fields.as_object_mut() {
            fields.retain(|field, _| !self.dropped.contains(field));
        }
        serde_json::from_value(fields).unwrap_or(status)
    }
}

/// Whether a value is the same as an absent one.
fn is_empty(value: &Value) -> bool {
    match value {
        Value::Null => true,
        Value::Array(items) => items.is_empty(),
        Value::Object(fields) => fields.is_empty(),
        Value::String(text) => text.is_empty(),
        Value::Bool(_) | Value::Number(_) => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn status(value: Value) -> ControlPlaneMachineSetStatus {
        serde_json::from_value(value).unwrap()
    }

    #[test]
    fn a_status_is_expected_as_it_was_stored() {
        let mut known = StoredStatus::default();
        let sent = status(json!({"replicas": 3, "selector": "a=b"}));
        assert_eq!(known.expected(sent.clone()), sent);
        let stored = known.learn(sent.clone(), &json!({"replicas": 3}));
        assert_eq!(stored, status(json!({"replicas": 3})));
        assert_eq!(known.expected(sent), stored);
        // The field is not expected in another status either.
        let other = status(json!({"replicas": 4, "selector": "a=b"}));
        assert_eq!(known.expected(other), status(json!({"replicas": 4})));
    }

    #[test]
    fn a_value_that_is_stored_in_another_form_is_expected_in_that_form() {
        let mut known = StoredStatus::default();
        let sent = status(json!({"replicas": 3, "updatedReplicas": 3}));
        let stored = known.learn(sent.clone(), &json!({"replicas": 3, "updatedReplicas": 2}));
        assert_eq!(known.expected(sent), stored);
        assert_eq!(known.learn(stored.clone(), &Value::Null), stored);
    }
}
