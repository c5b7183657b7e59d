//! A line of a trace: the client, the request, and the difference that it made.
//!
//! A line contains only fields that differ, so that it stays short.

use serde_json::Value;

use crate::api::{Change, ChangeKind, Failure, Reply, Request, Verb};

/// The longest text in a line, in characters.
const LONGEST: usize = 110;
/// Fields that the API server or every writer changes. Traces leave them out.
const SILENT: [&str; 5] = [
    "/metadata/resourceVersion",
    "/metadata/generation",
    "/metadata/managedFields",
    "/status/observedGeneration",
    "/status/lastUpdated",
];

/// What an actor requested, and the result.
pub(super) fn line(
    actor: &str,
    request: &Request,
    answer: &Result<Reply, Failure>,
    changes: &[Change],
    abbreviations: &[(&str, &str)],
) -> String {
    let (verb, what) = (verb(&request.verb), what(request));
    let format = Format { abbreviations };
    match (answer, changes.first()) {
        (Err(failure), _) => {
            let reason = failure.message.split("is invalid: ").last().unwrap_or_default();
            // The same link ends every refusal of a rule.
            let reason = reason.split(" (https://").next().unwrap_or_default();
            format!(
                "{actor} {verb} {what}: refused, {} {}",
                failure.code,
                format.cut(reason)
            )
        }
        (Ok(_), None) => format!("{actor} {verb} {what}: no change"),
        (Ok(_), Some(change)) => format!("{actor} {verb} {what}{}", format.difference(change)),
    }
}

fn verb(verb: &Verb) -> &'static str {
    match verb {
        Verb::Create(..) => "creates",
        Verb::Update(..) | Verb::Patch(..) => "writes",
        Verb::Delete(_) => "deletes",
        _ => "reads",
    }
}

fn what(request: &Request) -> String {
    let target = &request.target;
    let kind = match target.plural.as_str() {
        "controlplanemachinesets" => "set",
        "clusteroperators" => "operator",
        other => other.strip_suffix('s').unwrap_or(other),
    };
    let name = match &request.verb {
        Verb::Create(object, _) => text(object, "/metadata/name"),
        _ => target.name.as_str(),
    };
    let part = if target.part.as_str().is_empty() {
        ""
    } else {
        "status of "
    };
    format!("{part}{kind} {name}")
}

fn text<'v>(object: &'v Value, pointer: &str) -> &'v str {
    object.pointer(pointer).and_then(Value::as_str).unwrap_or_default()
}

/// The path of a field of an object.
fn join(path: &str, field: &str) -> String {
    format!("{path}/{}", field.replace('/', "~1"))
}

/// How values are written.
struct Format<'a> {
    /// Texts that are replaced by shorter ones.
    abbreviations: &'a [(&'a str, &'a str)],
}

impl Format<'_> {
    fn difference(&self, change: &Change) -> String {
        match change.kind {
            ChangeKind::Added => {
                let value = "/spec/providerSpec/value";
                let whole = change.object.to_value();
                let kind = text(&whole, &format!("{value}/instanceType"));
                let zone = text(&whole, &format!("{value}/placement/availabilityZone"));
                if kind.is_empty() {
                    String::new()
                } else {
                    format!(": {kind} in {zone}")
                }
            }
            ChangeKind::Deleted => ": removed".to_owned(),
            ChangeKind::Modified => {
                let Some(old) = &change.old else { return String::new() };
                let mut parts = Vec::new();
                self.differences("", &old.to_value(), &change.object.to_value(), &mut parts);
                if parts.is_empty() {
                    parts.push("only resourceVersion or generation".to_owned());
                }
                format!(": {}", parts.join("; "))
            }
        }
    }

    fn differences(&self, path: &str, old: &Value, new: &Value, parts: &mut Vec<String>) {
        if old == new || SILENT.contains(&path) {
            return;
        }
        if path == "/status/conditions" {
            return self.conditions(old, new, parts);
        }
        let null = Value::Null;
        match (old, new) {
            (Value::Object(before), Value::Object(after)) => {
                for (key, value) in after {
                    self.differences(&join(path, key), before.get(key).unwrap_or(&null), value, parts);
                }
                for (key, value) in before.iter().filter(|(key, _)| !after.contains_key(*key)) {
                    self.differences(&join(path, key), value, &null, parts);
                }
            }
            (Value::Null, Value::Object(after)) if path == "/status" || path == "/metadata/annotations" => {
                for (key, value) in after {
                    self.differences(&join(path, key), &null, value, parts);
                }
            }
            _ => parts.push(self.field(path, new)),
        }
    }

    fn field(&self, path: &str, new: &Value) -> String {
        let name = path.rsplit('/').next().unwrap_or(path).replace("~1", "/");
        match new {
            Value::Null => format!("no {name}"),
            Value::String(text) => format!("{name} {}", self.cut(text)),
            Value::Array(list) => {
                let names: Vec<String> = list
                    .iter()
                    .map(|one| match (one.as_str(), one.get("name").and_then(Value::as_str)) {
                        (Some(text), _) | (None, Some(text)) => text.to_owned(),
                        _ => one.to_string(),
                    })
                    .collect();
                format!("{name} [{}]", self.cut(&names.join(", ")))
            }
            other => match other.get("name").and_then(Value::as_str) {
                Some(text) => format!("{name} {text}"),
                None => format!("{name} {}", self.cut(&other.to_string())),
            },
        }
    }

    /// Conditions that differ in more than their times. Those for general tools repeat the others
    /// of the same object.
    fn conditions(&self, old: &Value, new: &Value, parts: &mut Vec<String>) {
        let list = |value: &Value| value.as_array().cloned().unwrap_or_default();
        let before = list(old);
        let repeats = list(new).iter().any(|one| text(one, "/type") == "Degraded");
        for one in list(new) {
            let name = text(&one, "/type");
            if repeats && ["Ready", "Reconciling", "Stalled"].contains(&name) {
                continue;
            }
            let content = |one: &Value| ["/status", "/reason", "/message"].map(|field| text(one, field).to_owned());
            let then = before.iter().find(|old| text(old, "/type") == name);
            if then.map(content) == Some(content(&one)) {
                if then.map(|then| text(then, "/lastTransitionTime")) != Some(text(&one, "/lastTransitionTime")) {
                    parts.push(format!("{name} with another lastTransitionTime"));
                }
                continue;
            }
            let message = text(&one, "/message");
            let quoted = if message.is_empty() {
                String::new()
            } else {
                format!(" \"{}\"", self.cut(message))
            };
            let (status, reason) = (text(&one, "/status"), text(&one, "/reason"));
            parts.push(format!("{name} {status} {reason}{quoted}"));
        }
    }

    /// A text, abbreviated and cut.
    fn cut(&self, text: &str) -> String {
        let mut text = text.to_owned();
        for (long, short) in self.abbreviations {
            text = text.replace(long, short);
        }
        if text.chars().count() <= LONGEST {
            return text;
        }
        let mut short: String = text.chars().take(LONGEST - 1).collect();
        short.push('…');
        short
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_line_contains_only_fields_that_differ() {
        let old = json!({"metadata": {"resourceVersion": "1"}, "status": {"replicas": 3,
            "conditions": [{"type": "Progressing", "status": "False", "reason": "AllReplicasUpdated"},
                {"type": "Available", "status": "True", "reason": "AllReplicasAvailable"}]}});
        let new = json!({"metadata": {"resourceVersion": "2"}, "status": {"replicas": 4,
            "conditions": [{"type": "Progressing", "status": "True", "reason": "NeedsUpdateReplicas", "message": "index 0"},
                {"type": "Available", "status": "True", "reason": "AllReplicasAvailable"}]}});
        let mut parts = Vec::new();
        let format = Format { abbreviations: &[] };
        format.differences("", &old, &new, &mut parts);
        assert_eq!(
            parts,
            ["Progressing True NeedsUpdateReplicas \"index 0\"", "replicas 4"]
        );
    }
}
