//! A CustomResourceDefinition as the API server uses it: a schema, and what the subresources add to
//! it.

use serde_json::Value;

use super::accept::Touched;
use super::node::Schema;
use super::{Outcome, SchemaError};
use crate::cel::rules::RuleFile;
use crate::model::{FieldPath, Violation, ViolationKind, sort_violations};

/// One version of a CustomResourceDefinition.
#[derive(Debug)]
pub struct Definition {
    /// What objects of this version look like.
    pub schema: Schema,
    kind: String,
    api_version: String,
    /// The status is written through its own subresource only.
    status_apart: bool,
    scale: Option<Scale>,
}

/// The paths of the scale subresource, as the definition writes them.
#[derive(Debug)]
struct Scale {
    spec_replicas: String,
    status_replicas: String,
    selector: Option<String>,
}

impl Definition {
    /// Parses the version of a definition that is called `version`, or else the one that is stored.
    /// `known` are the rules that have ids.
    ///
    /// # Errors
    /// When there is no such version, or its schema cannot be used.
    pub fn parse(definition: &Value, version: Option<&str>, known: &RuleFile) -> Result<Self, SchemaError> {
        let text = |value: &Value, pointer: &str| {
            let text = value.pointer(pointer).and_then(Value::as_str);
            text.unwrap_or_default().to_owned()
        };
        let missing = |reason: &str| SchemaError::Malformed {
            path: text(definition, "/metadata/name"),
            reason: reason.to_owned(),
        };
        let chosen = definition
            .pointer("/spec/versions")
            .and_then(Value::as_array)
            .into_iter()
            .flatten()
            .find(|candidate| match version {
                Some(name) => candidate.get("name").and_then(Value::as_str) == Some(name),
                None => candidate.get("storage") == Some(&Value::Bool(true)),
            })
            .ok_or_else(|| missing("the definition has no such version"))?;
        let schema = chosen
            .pointer("/schema/openAPIV3Schema")
            .ok_or_else(|| missing("the version has no schema"))?;
        let scale = chosen.pointer("/subresources/scale").map(|scale| Scale {
            spec_replicas: text(scale, "/specReplicasPath"),
            status_replicas: text(scale, "/statusReplicasPath"),
            selector: Some(text(scale, "/labelSelectorPath")).filter(|path| !path.is_empty()),
        });
        Ok(Self {
            schema: Schema::parse(schema, known)?,
            kind: text(definition, "/spec/names/kind"),
            api_version: format!("{}/{}", text(definition, "/spec/group"), text(chosen, "/name")),
            status_apart: chosen.pointer("/subresources/status").is_some(),
            scale,
        })
    }

    /// Whether an object is of this kind and version.
    pub fn describes(&self, object: &Value) -> bool {
        let is = |field: &str, wanted: &str| object.get(field).and_then(Value::as_str) == Some(wanted);
        is("kind", &self.kind) && is("apiVersion", &self.api_version)
    }

    /// Whether the status is written through its own subresource only.
    pub fn status_apart(&self) -> bool {
        self.status_apart
    }

    /// What an API server does with an object that is created or, where there is an `old` one,
    /// updated: it fills in defaults, prunes, leaves the status alone where that has its own
    /// subresource, and validates.
    pub fn apply(&self, object: &Value, old: Option<&Value>) -> Outcome {
        let mut object = object.clone();
        self.schema.set_defaults(&mut object);
        let unknown = self.schema.prune(&mut object);
        // What is stored is read with defaults: the old object is what a client would see of it.
        let old = old.map(|old| {
            let mut old = old.clone();
            self.schema.set_defaults(&mut old);
            self.schema.prune(&mut old);
            old
        });
        if let (true, Some(fields)) = (self.status_apart, object.as_object_mut()) {
            match old.as_ref().and_then(|old| old.get("status")) {
                Some(status) => fields.insert("status".into(), status.clone()),
                None => fields.remove("status"),
            };
        }
        let violations = self.check(&object, old.as_ref());
        Outcome {
            object,
            unknown,
            violations,
        }
    }
}

impl Definition {
    /// What is wrong with an object that has its defaults and is pruned, as is the `old` one.
    pub fn check(&self, object: &Value, old: Option<&Value>) -> Vec<Violation> {
        self.with_scale(object, self.schema.validate(object, old))
    }

    /// The same where the old object was judged by this definition before it was stored, and only
    /// the fields in `touched` differ: what is as it was is not looked at.
    pub fn check_over(&self, object: &Value, stored: &Value, touched: &[String]) -> Vec<Violation> {
        self.with_scale(object, self.schema.validate_over(object, stored, touched))
    }

    /// Whether nothing is wrong with an object of which only these fields differ from what was
    /// judged before, each of which [settles](Schema::settles). No is no verdict: ask
    /// [`Definition::check_over`].
    pub fn accepts(&self, touched: &[Touched<'_>]) -> bool {
        self.schema.accepts(touched) && self.scale.as_ref().is_none_or(|scale| scale.accepts(touched))
    }

    fn with_scale(&self, object: &Value, mut violations: Vec<Violation>) -> Vec<Violation> {
        if let Some(scale) = &self.scale {
            scale.check(object, &mut violations);
            sort_violations(&mut violations);
        }
        violations
    }
}

impl Scale {
    /// Whether what it points to is surely right, as far as it is touched.
    fn accepts(&self, touched: &[Touched<'_>]) -> bool {
        let right = |path: &str, is: fn(&Value) -> bool| {
            let path = path.trim_start_matches('.');
            let (field, rest) = path.split_once('.').unwrap_or((path, ""));
            let Some(value) = touched.iter().find(|one| one.name == field).map(|one| one.new) else {
                return true;
            };
            match value.map(|value| at(value, rest)) {
                None | Some(Ok(None)) => true,
                Some(Ok(Some(value))) => is(value),
                Some(Err(_)) => false,
            }
        };
        let counts = |value: &Value| {
            value
                .as_i64()
                .is_some_and(|count| (0..=i64::from(i32::MAX)).contains(&count))
        };
        right(&self.spec_replicas, counts)
            && right(&self.status_replicas, counts)
            && self
                .selector
                .as_deref()
                .is_none_or(|path| right(path, Value::is_string))
    }

    fn check(&self, object: &Value, found: &mut Vec<Violation>) {
        for path in [&self.spec_replicas, &self.status_replicas] {
            match at(object, path) {
                Err(reason) => deny(path, 0, &reason, found),
                Ok(None) => {}
                Ok(Some(value)) => match value.as_i64() {
                    None => deny(path, 0, &not_a(path, value, "int64"), found),
                    Some(count) if count < 0 => deny(path, count, "should be a non-negative integer", found),
                    Some(count) if count > i64::from(i32::MAX) => {
                        deny(path, count, "should be less than or equal to 2147483647", found);
                    }
                    Some(_) => {}
                },
            }
        }
        if let Some(path) = &self.selector {
            let reason = match at(object, path) {
                Err(reason) => reason,
                Ok(Some(value)) if !value.is_string() => not_a(path, value, "string"),
                Ok(_) => return,
            };
            let violation = Violation::new("schema-scale", path.as_str(), ViolationKind::Invalid, reason);
            found.push(violation.got(&Value::from("")));
        }
    }
}

fn deny(path: &str, count: i64, allowed: &str, found: &mut Vec<Violation>) {
    let violation = Violation::new("schema-scale", FieldPath::new(path), ViolationKind::Invalid, allowed);
    found.push(violation.got(&Value::from(count)));
}

/// The value at a path such as `.spec.replicas`, if the path leads somewhere.
fn at<'v>(object: &'v Value, path: &str) -> Result<Option<&'v Value>, String> {
    let mut value = object;
    let mut walked = String::new();
    for field in path.trim_start_matches('.').split('.') {
        walked.push('.');
        walked.push_str(field);
        let next = match value {
            Value::Null => None,
            Value::Object(map) => map.get(field),
            other => return Err(not_a(&walked, other, "map[string]interface{}")),
        };
        match next {
            Some(next) => value = next,
            None => return Ok(None),
        }
    }
    Ok(Some(value))
}

fn not_a(path: &str, value: &Value, wanted: &str) -> String {
    let type_ = match value {
        Value::Null => "<nil>",
        Value::Bool(_) => "bool",
        Value::Number(number) if number.is_i64() => "int64",
        Value::Number(_) => "float64",
        Value::String(_) => "string",
        Value::Array(_) => "[]interface {}",
        Value::Object(_) => "map[string]interface {}",
    };
    format!(
        "{path} accessor error: {} is of the type {type_}, expected {wanted}",
        as_go_prints(value)
    )
}

/// A value as Go's `%v` prints it.
fn as_go_prints(value: &Value) -> String {
    match value {
        Value::Null => String::from("<nil>"),
        Value::String(text) => text.clone(),
        Value::Array(list) => format!("[{}]", list.iter().map(as_go_prints).collect::<Vec<_>>().join(" ")),
        Value::Object(map) => {
            let entries: Vec<String> = map
                .iter()
                .map(|(name, value)| format!("{name}:{}", as_go_prints(value)))
                .collect();
            format!("map[{}]", entries.join(" "))
        }
        Value::Number(number) if !number.is_i64() => {
            number.as_f64().map(|number| number.to_string()).unwrap_or_default()
        }
        other => other.to_string(),
    }
}
