//! A CustomResourceDefinition as the API server applies it: a schema, and the effects of the
//! subresources.

use serde_json::Value;

use super::accept::Touched;
use super::node::Schema;
use super::{Outcome, SchemaError};
use crate::cel::rules::RuleFile;
use crate::model::{FieldPath, Violation, ViolationKind, sort_violations};

/// One version of a CustomResourceDefinition.
#[derive(Debug)]
pub struct Definition {
    /// The schema of the objects.
    pub schema: Schema,
    kind: String,
    api_version: String,
    /// Whether the status is written only through the status subresource.
    status_apart: bool,
    scale: Option<Scale>,
}

/// The paths of the scale subresource, as in the CRD.
#[derive(Debug)]
struct Scale {
    spec_replicas: String,
    status_replicas: String,
    selector: Option<String>,
}

impl Definition {
    /// Parses the version of a CRD with the name `version`, or else the storage version. `known`
    /// are the rules that have ids.
    ///
    /// # Errors
    /// The version does not exist, or its schema is not valid.
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
            .ok_or_else(|| missing("the CRD has no such version"))?;
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

    /// Whether the status is written only through the status subresource.
    pub fn status_apart(&self) -> bool {
        self.status_apart
    }

    /// What an API server does with a create or, with an `old` object, an update: it adds defaults,
    /// prunes, keeps the stored status if the status has a subresource, and validates.
    pub fn apply(&self, object: &Value, old: Option<&Value>) -> Outcome {
        let mut object = object.clone();
        self.schema.set_defaults(&mut object);
        let unknown = self.schema.prune(&mut object);
        // The API server adds defaults to a stored object when it reads it.
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
    /// The violations of an object that has its defaults and is pruned. The same holds for `old`.
    pub fn check(&self, object: &Value, old: Option<&Value>) -> Vec<Violation> {
        self.with_scale(object, self.schema.validate(object, old))
    }

    /// The violations of an object whose old object was validated before it was stored, and that
    /// differs from it only in the fields `touched`. Other fields are not validated.
    pub fn check_over(&self, object: &Value, stored: &Value, touched: &[String]) -> Vec<Violation> {
        self.with_scale(object, self.schema.validate_over(object, stored, touched))
    }

    /// Whether an object is valid that differs from a validated object only in these fields, each
    /// of which [settles](Schema::settles). False is not a result: then call
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
    /// Whether the changed fields that the scale subresource reads are valid.
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

/// The value at a path such as `.spec.replicas`; `None` if the path has no value.
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

/// A value in the format of Go's `%v`.
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
