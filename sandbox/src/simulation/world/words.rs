//! A line of a trace: who did what, and what is different for it. Only what differs is told, so that a line stays a line.

use serde_json::Value;

use crate::api::{Change, ChangeKind, Failure, Reply, Request, Verb};
use crate::simulation::objects;

/// Longer texts are cut here.
const LONGEST: usize = 110;
/// What an API server counts by itself.
const SILENT: [&str; 5] = [
    "/metadata/resourceVersion",
    "/metadata/generation",
    "/metadata/managedFields",
    "/status/observedGeneration",
    "/status/lastUpdated",
];

/// What an actor asked for, and what came of it.
pub(super) fn line(actor: &str, request: &Request, answer: &Result<Reply, Failure>, changes: &[Change]) -> String {
    let (verb, what) = (verb(&request.verb), what(request));
    match (answer, changes.first()) {
        (Err(failure), _) => format!(
            "{actor} {verb} {what}: refused, {} {}",
            failure.code,
            cut(failure.message.split("is invalid: ").last().unwrap_or_default())
        ),
        (Ok(_), None) => format!("{actor} {verb} {what}: nothing changes"),
        (Ok(_), Some(change)) => format!("{actor} {verb} {what}{}", difference(change)),
    }
}

fn verb(verb: &Verb) -> &'static str {
    match verb {
        Verb::Create(..) => "makes",
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

/// What is different.
fn difference(change: &Change) -> String {
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
        ChangeKind::Deleted => ": it is gone".to_owned(),
        _ => {
            let Some(old) = &change.old else { return String::new() };
            let mut parts = Vec::new();
            differ("", &old.to_value(), &change.object.to_value(), &mut parts);
            if parts.is_empty() {
                parts.push("only what the server counts".to_owned());
            }
            format!(": {}", parts.join("; "))
        }
    }
}

fn differ(path: &str, old: &Value, new: &Value, parts: &mut Vec<String>) {
    if old == new || SILENT.contains(&path) {
        return;
    }
    if path == "/status/conditions" {
        return conditions(old, new, parts);
    }
    match (old, new) {
        (Value::Object(before), Value::Object(after)) => {
            for (key, value) in after {
                let gone = Value::Null;
                differ(
                    &format!("{path}/{}", key.replace('/', "~1")),
                    before.get(key).unwrap_or(&gone),
                    value,
                    parts,
                );
            }
            for (key, value) in before.iter().filter(|(key, _)| !after.contains_key(*key)) {
                differ(
                    &format!("{path}/{}", key.replace('/', "~1")),
                    value,
                    &Value::Null,
                    parts,
                );
            }
        }
        (Value::Null, Value::Object(after)) if path == "/status" || path == "/metadata/annotations" => {
            for (key, value) in after {
                differ(
                    &format!("{path}/{}", key.replace('/', "~1")),
                    &Value::Null,
                    value,
                    parts,
                );
            }
        }
        _ => parts.push(field(path, new)),
    }
}

fn field(path: &str, new: &Value) -> String {
    let name = path.rsplit('/').next().unwrap_or(path).replace("~1", "/");
    match new {
        Value::Null => format!("no {name}"),
        Value::String(text) => format!("{name} {}", cut(text)),
        Value::Array(list) => {
            let names: Vec<String> = list
                .iter()
                .map(|one| match (one.as_str(), one.get("name").and_then(Value::as_str)) {
                    (Some(text), _) | (None, Some(text)) => text.to_owned(),
                    _ => one.to_string(),
                })
                .collect();
            format!("{name} [{}]", cut(&names.join(", ")))
        }
        other => match other.get("name").and_then(Value::as_str) {
            Some(text) => format!("{name} {text}"),
            None => format!("{name} {}", cut(&other.to_string())),
        },
    }
}

/// Conditions that say something else than before.
fn conditions(old: &Value, new: &Value, parts: &mut Vec<String>) {
    let list = |value: &Value| value.as_array().cloned().unwrap_or_default();
    let before = list(old);
    for one in list(new) {
        let name = text(&one, "/type");
        let says = |one: &Value| ["/status", "/reason", "/message"].map(|field| text(one, field).to_owned());
        let then = before.iter().find(|old| text(old, "/type") == name);
        if then.map(says) == Some(says(&one)) {
            if then.map(|then| text(then, "/lastTransitionTime")) != Some(text(&one, "/lastTransitionTime")) {
                parts.push(format!("{name} since another time"));
            }
            continue;
        }
        let message = text(&one, "/message");
        let quoted = if message.is_empty() {
            String::new()
        } else {
            format!(" \"{}\"", cut(message))
        };
        parts.push(format!(
            "{name} {} {}{quoted}",
            text(&one, "/status"),
            text(&one, "/reason")
        ));
    }
}

fn cut(text: &str) -> String {
    let text = text.replace(objects::PREFIX, "master");
    if text.chars().count() <= LONGEST {
        return text;
    }
    let mut short: String = text.chars().take(LONGEST - 1).collect();
    short.push('…');
    short
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_line_tells_only_what_differs() {
        let old = json!({"metadata": {"resourceVersion": "1"}, "status": {"replicas": 3,
            "conditions": [{"type": "Progressing", "status": "False", "reason": "AllReplicasUpdated"},
                {"type": "Available", "status": "True", "reason": "AllReplicasAvailable"}]}});
        let new = json!({"metadata": {"resourceVersion": "2"}, "status": {"replicas": 4,
            "conditions": [{"type": "Progressing", "status": "True", "reason": "NeedsUpdateReplicas", "message": "index 0"},
                {"type": "Available", "status": "True", "reason": "AllReplicasAvailable"}]}});
        let mut parts = Vec::new();
        differ("", &old, &new, &mut parts);
        assert_eq!(
            parts,
            ["Progressing True NeedsUpdateReplicas \"index 0\"", "replicas 4"]
        );
    }
}
