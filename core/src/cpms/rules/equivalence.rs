//! When two sets parse alike: they differ in the provider spec only, and the provider specs name
//! the same place for machines.
//!
//! Most edits change the provider spec and nothing else. The rest of the parsed set then stays the
//! same, and is not parsed again. Values are compared, not versions or names.

use serde_json::Value;

use crate::api::machine_openshift_io::control_plane_machine_set::MACHINE_TYPE;
use crate::cpms::domains::{self, Platform};

/// Whether two provider specs are of one platform and agree in the fields from which failure
/// domains are completed. The rest of a parsed set does not depend on which of the two it has.
pub(super) fn have_same_place(left: &Value, right: &Value) -> bool {
    Platform::of(left).is_some_and(|platform| {
        let mut fields = domains::completing_fields(platform).iter();
        Platform::of(right) == Some(platform) && fields.all(|field| left.get(field) == right.get(field))
    })
}

/// Whether two sets are the same, apart from their provider specs and the number of their
/// generation. Both can then be decoded, or neither can.
pub(super) fn are_same_except_provider_spec(old: &Value, new: &Value) -> bool {
    let metadata = |name: &str, old: &Value, new: &Value| {
        let is_generation = || name == "generation" && old.is_i64() && new.is_i64();
        old == new || is_generation()
    };
    all_fields(old, new, |name, old, new| match name {
        "metadata" => all_fields(old, new, metadata),
        "spec" => are_same_except(&["template", MACHINE_TYPE, "spec", "providerSpec", "value"], old, new),
        _ => old == new,
    })
}

/// Whether two values are the same, apart from the value at `path`.
fn are_same_except(path: &[&str], old: &Value, new: &Value) -> bool {
    path.split_first().is_none_or(|(field, below)| {
        all_fields(old, new, |name, old, new| {
            if name == *field {
                are_same_except(below, old, new)
            } else {
                old == new
            }
        })
    })
}

/// Whether two objects have the same fields, and `same` holds for each. Values that are not objects
/// must be equal.
fn all_fields(old: &Value, new: &Value, same: impl Fn(&str, &Value, &Value) -> bool) -> bool {
    let (Value::Object(old), Value::Object(new)) = (old, new) else {
        return old == new;
    };
    let mut pairs = old.iter().zip(new);
    old.len() == new.len() && pairs.all(|((name, old), (other, new))| name == other && same(name, old, new))
}
