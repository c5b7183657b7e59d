//! Defaults, pruning and validation of what is written, by the schema of the kind.
//!
//! Only the fields that differ from the stored object are processed: the others went through the
//! same steps before.

use std::sync::Arc;

use capstan_core::model::{Violation, ViolationKind};
use capstan_core::schema::Touched;
use serde_json::Value;

use crate::api::failure::Failure;
use crate::api::kinds::{Kind, Shape};
use crate::api::metadata;
use crate::api::object::Object;
use crate::api::request::WriteOptions;

/// Removes unknown fields, and returns their paths.
pub(super) fn prune(kind: &Kind, object: &mut Value) -> Vec<String> {
    let unknown = kind.schema().prune(object);
    unknown.into_iter().map(|path| path.as_str().to_owned()).collect()
}

/// Sets defaults and removes unknown fields in the fields that differ from the stored object.
///
/// Returns the paths of the removed fields, and whether the differing fields satisfy the types of
/// the schema, so that only its rules can refuse them.
pub(super) fn settle(kind: &Kind, object: &mut Object, old: Option<&Object>) -> (Vec<String>, bool) {
    let empty = Object::default();
    let old = old.unwrap_or(&empty);
    let schema = kind.schema();
    let settles = schema.has_all_defaults(|name| object.get(name).is_some())
        && object.changed(old).all(|(name, value)| schema.settles(name, value));
    let mut unknown = Vec::new();
    if !settles {
        let mut touched = serde_json::Map::new();
        for name in object.differing(old) {
            if let Some(value) = object.remove(&name) {
                touched.insert((*name).to_owned(), Arc::unwrap_or_clone(value));
            }
        }
        let mut touched = Value::Object(touched);
        schema.set_defaults(&mut touched);
        unknown = prune(kind, &mut touched);
        if let Value::Object(touched) = touched {
            for (name, value) in touched {
                if object.get(&name).is_none() {
                    object.insert(&name, value);
                }
            }
        }
    }
    kind.finish(object);
    (unknown, settles)
}

/// Reports unknown fields as `fieldValidation` asks: as an error, as warnings, or not at all.
pub(super) fn strict(
    kind: &Kind,
    unknown: &[String],
    options: &WriteOptions,
    warnings: &mut Vec<String>,
) -> Result<(), Failure> {
    if unknown.is_empty() {
        return Ok(());
    }
    let texts: Vec<String> = unknown.iter().map(|path| format!("unknown field {path:?}")).collect();
    match options.field_validation.as_str() {
        "Strict" => Err(Failure::bad_request(format!(
            "{} in version {:?} cannot be handled as a {}: strict decoding error: {}",
            kind.kind,
            kind.version,
            kind.kind,
            texts.join(", ")
        ))),
        "Ignore" => Ok(()),
        _ => {
            warnings.extend(texts);
            Ok(())
        }
    }
}

/// Validates an object. `old` is the stored object and the names of the fields that differ from it;
/// `settled` is the second result of [`settle`].
pub(super) fn validate(
    kind: &Kind,
    object: &Object,
    old: Option<(&Object, &[Arc<str>])>,
    settled: bool,
) -> Result<(), Failure> {
    let name = metadata::text(object, "name");
    let mut causes = metadata::check(kind, object, old.map(|(old, _)| old));
    if !(settled && accepts(kind, object, old)) {
        let is_custom = matches!(kind.shape, Shape::Custom(_));
        let found = violations(kind, object, old);
        let wrong_type = found
            .iter()
            .find(|violation| !is_custom && violation.kind == ViolationKind::TypeInvalid);
        if let Some(wrong_type) = wrong_type {
            // The Go type of a built-in kind cannot hold the value.
            return Err(Failure::bad_request(wrong_type.plainly()));
        }
        causes.extend(found.iter().map(|violation| {
            (
                violation.path.as_str().to_owned(),
                violation.plainly(),
                violation.kind.reason(),
            )
        }));
    }
    if causes.is_empty() {
        Ok(())
    } else {
        Err(Failure::invalid(kind, name, &causes))
    }
}

/// Whether the schema certainly accepts an object whose differing fields settle.
fn accepts(kind: &Kind, object: &Object, old: Option<(&Object, &[Arc<str>])>) -> bool {
    let touched: Vec<Touched<'_>> = match old {
        Some((old, touched)) => touched
            .iter()
            .map(|name| Touched {
                name,
                new: object.get(name),
                old: old.get(name),
            })
            .collect(),
        None => object
            .fields()
            .map(|(name, value)| Touched {
                name,
                new: Some(value),
                old: None,
            })
            .collect(),
    };
    // The API server ratchets: it does not validate an unchanged field again.
    let is_only_metadata = old.is_some() && touched.iter().all(|one| one.name == "metadata");
    match &kind.shape {
        Shape::Custom(_) if is_only_metadata => true,
        Shape::Custom(definition) => definition.accepts(&touched),
        Shape::BuiltIn(schema) => schema.accepts(&touched),
    }
}

/// The violations of the schema, by its types and by its rules.
fn violations(kind: &Kind, object: &Object, old: Option<(&Object, &[Arc<str>])>) -> Vec<Violation> {
    let new = object.to_value();
    let old = old.map(|(old, touched)| {
        let touched: Vec<String> = touched.iter().map(|name| (**name).to_owned()).collect();
        (old.to_value(), touched)
    });
    match (&kind.shape, &old) {
        (Shape::Custom(_), Some((_, touched))) if touched.iter().all(|field| field == "metadata") => Vec::new(),
        (Shape::Custom(definition), Some((old, touched))) => definition.check_over(&new, old, touched),
        (Shape::Custom(definition), None) => definition.check(&new, None),
        (Shape::BuiltIn(schema), Some((old, touched))) => schema.validate_over(&new, old, touched),
        (Shape::BuiltIn(schema), None) => schema.validate(&new, None),
    }
}
