//! The parts of a status that the API server does not store as they are sent: a CRD that does not
//! have a field drops it.
//!
//! A reconcile compares a status with what is stored, so that it would send such a part again and
//! again. A part that is dropped is sent again only together with one that is stored, so that a CRD
//! that was corrected is found. Conditions are parts by their types, because their times differ.

use std::collections::BTreeMap;

use serde_json::{Value, json};

const CONDITIONS: &str = "conditions";

/// A field of a status, and the type of a condition. The type is empty for all other fields.
type Part = (String, String);

/// What was learned from the answers to the writes of the status of one object.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct NotStored {
    /// What was sent, and what was stored in its place.
    parts: BTreeMap<Part, [Value; 2]>,
}

impl NotStored {
    /// Whether everything was stored as it was sent.
    pub fn is_empty(&self) -> bool {
        self.parts.is_empty()
    }

    /// Compares the patch of a status with the status in the answer.
    pub fn learn(&mut self, patch: &Value, answer: &Value) {
        for (field, sent) in patch.get("status").and_then(Value::as_object).into_iter().flatten() {
            if field == CONDITIONS {
                for condition in sent.as_array().into_iter().flatten() {
                    let type_ = text(condition, "type");
                    self.note((field.clone(), type_.to_owned()), form(condition), kept(answer, type_));
                }
            } else {
                let stored = answer.get(field).cloned().unwrap_or_default();
                self.note((field.clone(), String::new()), sent.clone(), stored);
            }
        }
    }

    fn note(&mut self, part: Part, sent: Value, stored: Value) {
        if sent == stored {
            self.parts.remove(&part);
        } else {
            self.parts.insert(part, [sent, stored]);
        }
    }

    /// Whether a patch of the status of an object has only parts that were not stored before.
    pub fn repeats(&self, object: &Value, patch: &Value) -> bool {
        if self.parts.is_empty() {
            return false;
        }
        let status = object.get("status").unwrap_or(&Value::Null);
        let mut fields = patch.get("status").and_then(Value::as_object).into_iter().flatten();
        fields.all(|(field, wanted)| {
            if field == CONDITIONS {
                let mut conditions = wanted.as_array().into_iter().flatten();
                return conditions.all(|condition| {
                    let type_ = text(condition, "type");
                    let (wanted, stored) = (form(condition), kept(status, type_));
                    wanted == stored || self.is_known(&(field.clone(), type_.to_owned()), &wanted, &stored)
                });
            }
            let stored = status.get(field).unwrap_or(&Value::Null);
            self.is_known(&(field.clone(), String::new()), wanted, stored)
        })
    }

    /// Whether a part was dropped, or stored in another form, and is stored so still.
    fn is_known(&self, part: &Part, wanted: &Value, stored: &Value) -> bool {
        let known = self.parts.get(part);
        known.is_some_and(|[sent, kept]| kept == stored && (kept.is_null() || sent == wanted))
    }
}

/// The condition of a type in a status, without its times; null if the status does not have it.
fn kept(status: &Value, type_: &str) -> Value {
    let conditions = status.get(CONDITIONS).and_then(Value::as_array);
    let mut conditions = conditions.into_iter().flatten();
    let found = conditions.find(|condition| text(condition, "type") == type_);
    found.map(form).unwrap_or_default()
}

/// What counts of a condition.
fn form(condition: &Value) -> Value {
    let of = |field: &str| text(condition, field);
    json!({"status": of("status"), "reason": of("reason"), "message": of("message")})
}

fn text<'v>(condition: &'v Value, field: &str) -> &'v str {
    condition.get(field).and_then(Value::as_str).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_field_that_is_dropped_is_sent_again_only_with_one_that_is_stored() {
        let mut known = NotStored::default();
        let repeats = |known: &NotStored, status: &Value, patch: &Value| {
            known.repeats(&json!({ "status": status }), &json!({ "status": patch }))
        };
        let sent = json!({"phase": "Running", "selector": "a=b", "initialization": {"x": true}});
        assert!(!repeats(&known, &json!({}), &sent));
        let answer = json!({"phase": "Running", "initialization": {}});
        known.learn(&json!({ "status": sent }), &answer);
        let again = json!({"selector": "a=b", "initialization": {"x": true}});
        assert!(repeats(&known, &answer, &again));
        assert!(repeats(&known, &answer, &json!({"selector": "a=c"})));
        assert!(!repeats(
            &known,
            &answer,
            &json!({"selector": "a=c", "phase": "Pending"})
        ));
        assert!(!repeats(&known, &answer, &json!({"initialization": {"y": true}})));
        // A user corrects the CRD, or edits the field.
        assert!(!repeats(&known, &json!({"initialization": {"y": true}}), &again));
        known.learn(&json!({ "status": sent }), &sent);
        assert!(known.is_empty());
    }

    #[test]
    fn conditions_that_are_dropped_or_shortened_are_no_reason_for_a_write() {
        let mut known = NotStored::default();
        let condition = |type_: &str, message: &str| json!({"type": type_, "status": "True", "reason": "Why", "message": message, "lastTransitionTime": "x"});
        let list = |degraded: &str, ready: &str| {
            let all = [
                condition("Available", ""),
                condition("Degraded", degraded),
                condition("Ready", ready),
            ];
            json!({"status": {"conditions": all}})
        };
        let stored = json!({"status": {"conditions": [
            {"type": "Available", "status": "True", "reason": "Why"},
            {"type": "Ready", "status": "True", "reason": "Why", "message": "l"},
        ]}});
        assert!(!known.repeats(&stored, &list("m", "long")));
        known.learn(&list("m", "long"), &stored["status"]);
        assert!(known.repeats(&stored, &list("m", "long")));
        assert!(known.repeats(&stored, &list("another", "long")));
        assert!(!known.repeats(&stored, &list("m", "another")));
        assert!(!known.repeats(&json!({}), &list("m", "long")));
    }
}
