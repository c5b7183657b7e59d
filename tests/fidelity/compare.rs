//! Compares two answers after removing the values that always differ: times, versions and uids.

use std::collections::BTreeMap;
use std::fmt;

use serde_json::{Value, json};

use crate::generate::Call;
use crate::side::Answer;

/// A difference between the two answers to a request.
#[derive(Clone, Debug)]
pub(crate) struct Difference {
    pub(crate) seed: u64,
    pub(crate) step: usize,
    pub(crate) request: String,
    pub(crate) method: String,
    pub(crate) plural: String,
    /// The place of the difference: `code`, `reason`, `watch`, or a pointer into the object.
    pub(crate) at: String,
    pub(crate) real: Value,
    pub(crate) simulated: Value,
    /// The messages of the two answers, for refusals.
    pub(crate) texts: (String, String),
}

impl Difference {
    pub(crate) fn kind(&self) -> String {
        format!(
            "{} {} {} real {} simulated {}",
            self.method,
            self.plural,
            self.at,
            short(&self.real),
            short(&self.simulated)
        )
    }
}

fn short(value: &Value) -> String {
    value.to_string().chars().take(90).collect()
}

impl fmt::Display for Difference {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "seed {} step {}: {}\n    at {}: real {} simulated {}\n    texts: {:?}",
            self.seed, self.step, self.request, self.at, self.real, self.simulated, self.texts
        )
    }
}

/// The differences between two answers.
pub(crate) fn differences(seed: u64, step: usize, call: &Call, real: &Answer, simulated: &Answer) -> Vec<Difference> {
    let text = |answer: &Answer| answer.body["message"].as_str().unwrap_or_default().to_owned();
    let difference = |at: String, left: Value, right: Value| Difference {
        seed,
        step,
        request: call.to_string(),
        method: call.method.to_owned(),
        plural: plural(&call.path),
        at,
        real: left,
        simulated: right,
        texts: (text(real), text(simulated)),
    };
    if real.code != simulated.code {
        return vec![difference("code".into(), real.code.into(), simulated.code.into())];
    }
    if real.code >= 300 {
        let reason = |answer: &Answer| answer.body["reason"].clone();
        if reason(real) != reason(simulated) {
            return vec![difference("reason".into(), reason(real), reason(simulated))];
        }
        return Vec::new();
    }
    let mut found = Vec::new();
    pairs(
        "",
        &normal(&real.body),
        &normal(&simulated.body),
        &mut |at, left, right| {
            found.push(difference(at.to_owned(), left.clone(), right.clone()));
        },
    );
    found
}

fn plural(path: &str) -> String {
    let known = ["machines", "controlplanemachinesets", "configmaps", "leases", "nodes"];
    let plural = known
        .into_iter()
        .find(|plural| path.split('/').any(|part| part == *plural))
        .unwrap_or("namespaces");
    let part = ["status", "scale"]
        .into_iter()
        .find(|part| path.ends_with(&format!("/{part}")));
    part.map_or_else(|| plural.to_owned(), |part| format!("{plural}/{part}"))
}

fn normal(value: &Value) -> Value {
    let mut value = value.clone();
    normalise(&mut value, "");
    value
}

fn normalise(value: &mut Value, field: &str) {
    match value {
        Value::Object(map) => {
            for field in ["creationTimestamp", "deletionTimestamp", "time"] {
                if map.get(field).is_some_and(Value::is_string) {
                    map.insert(field.into(), "TIME".into());
                }
            }
            if map
                .get("resourceVersion")
                .and_then(Value::as_str)
                .is_some_and(|text| text.parse::<u64>().is_ok())
            {
                map.insert("resourceVersion".into(), "NEW".into());
            }
            if map
                .get("uid")
                .and_then(Value::as_str)
                .is_some_and(|text| text.len() == 36 && !text.starts_with("b4a3f1ad"))
            {
                map.insert("uid".into(), "UID".into());
            }
            if map.contains_key("items") {
                // Other sequences change the version of the list.
                map["metadata"]["resourceVersion"] = "LIST".into();
            }
            if map.get("continue").is_some_and(Value::is_string) {
                map.insert("continue".into(), "CONTINUE".into());
            }
            if let Some(name) = map.get("name").and_then(Value::as_str)
                && let Some((prefix, _)) = name.split_once("gen-")
            {
                map.insert("name".into(), format!("{prefix}gen-").into());
            }
            for (field, value) in map.iter_mut() {
                normalise(value, field);
            }
        }
        Value::Array(list) => {
            list.iter_mut().for_each(|value| normalise(value, field));
            if field == "managedFields" {
                // The order of the entries depends on times within one second.
                list.sort_by_key(|entry| format!("{}{}{}", entry["manager"], entry["operation"], entry["subresource"]));
            }
            if field == "items"
                && list.iter().any(|item| {
                    item["metadata"]["name"]
                        .as_str()
                        .is_some_and(|name| name.ends_with("gen-"))
                })
            {
                list.sort_by_key(|item| format!("{}{}", item["metadata"]["name"], item));
            }
        }
        _ => {}
    }
}

fn pairs(at: &str, left: &Value, right: &Value, found: &mut dyn FnMut(&str, &Value, &Value)) {
    if left == right {
        return;
    }
    match (left, right) {
        (Value::Object(left), Value::Object(right)) if !at.ends_with("fieldsV1") => {
            let mut keys: Vec<&String> = left.keys().chain(right.keys()).collect();
            keys.sort();
            keys.dedup();
            for key in keys {
                let (left, right) = (left.get(key), right.get(key));
                if left.is_some() != right.is_some() || left != right {
                    let missing = json!("(absent)");
                    let (left, right) = (left.unwrap_or(&missing), right.unwrap_or(&missing));

                    pairs(&format!("{at}/{key}"), left, right, found);
                }
            }
        }
        (Value::Array(left), Value::Array(right)) if left.len() == right.len() && !at.ends_with("finalizers") => {
            for (left, right) in left.iter().zip(right) {
                let name = left["manager"].as_str().map_or("*", |_| {
                    if left["operation"] == "Apply" {
                        "apply"
                    } else {
                        "update"
                    }
                });
                pairs(&format!("{at}/{name}"), left, right, found);
            }
        }
        _ => found(at, left, right),
    }
}

/// Compares the events of the watches: for each object and selector, in their order.
pub(crate) fn watches(real: Vec<Value>, simulated: Vec<Value>) -> Vec<Difference> {
    let group = |events: Vec<Value>| {
        let mut groups: BTreeMap<String, Vec<Value>> = BTreeMap::new();
        for event in events {
            let object = &event["object"];
            let text = |field: &str| object["metadata"][field].as_str().unwrap_or_default().to_owned();
            if text("name").contains("gen-")
                || event["type"] == "BOOKMARK"
                || (text("namespace") == "kube-system"
                    || text("namespace") == "default"
                    || text("namespace") == "kube-public"
                    || text("namespace") == "kube-node-lease")
            {
                continue;
            }
            let key = format!(
                "{} {}/{} {}",
                object["kind"],
                text("namespace"),
                text("name"),
                event["selected"]
            );
            let mut event = normal(&event);
            if let Some(meta) = event["object"]["metadata"].as_object_mut() {
                meta.remove("managedFields");
            }
            groups.entry(key).or_default().push(event);
        }
        groups
    };
    let (real, simulated) = (group(real), group(simulated));
    let mut keys: Vec<&String> = real.keys().chain(simulated.keys()).collect();
    keys.sort();
    keys.dedup();
    let mut found = Vec::new();
    for key in keys {
        let none = Vec::new();
        let (left, right) = (real.get(key).unwrap_or(&none), simulated.get(key).unwrap_or(&none));
        let mut report = |at: String, left: Value, right: Value| {
            found.push(Difference {
                seed: key
                    .split("fidelity-")
                    .nth(1)
                    .and_then(|rest| rest.split(['/', '-', ' ']).next()?.parse().ok())
                    .unwrap_or(0),
                step: 0,
                request: key.clone(),
                method: "WATCH".into(),
                plural: key.split(' ').next().unwrap_or_default().to_owned(),
                at,
                real: left,
                simulated: right,
                texts: Default::default(),
            });
        };
        let types = |events: &[Value]| -> Value {
            events
                .iter()
                .map(|event| event["type"].clone())
                .collect::<Vec<_>>()
                .into()
        };
        if types(left) != types(right) {
            report("types".into(), types(left), types(right));
            continue;
        }
        for (left, right) in left.iter().zip(right) {
            pairs("", left, right, &mut |at, left, right| {
                report(at.to_owned(), left.clone(), right.clone());
            });
        }
    }
    found
}
