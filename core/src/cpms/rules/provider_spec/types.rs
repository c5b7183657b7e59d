//! The types of the fields of a provider spec, and fields that the platform does not know.

use super::{Findings, Template, path};
use crate::model::{Verdict, Violation, ViolationKind, Warning};
use crate::platforms::ProviderSpec;
use crate::platforms::check::{Deviation, Similar, deviations};

const TYPE: &str = "cpms-provider-spec-type";
const UNKNOWN_FIELD: &str = "cpms-provider-spec-unknown-field";

/// How many deviations are collected.
const MOST: usize = 512;
/// How many unknown fields a warning names. It counts the others.
const LISTED: usize = 8;

pub(super) const RULES: &[(&str, &str, &str)] = &[
    (TYPE, "", "every field has the type that the platform gives it"),
    (UNKNOWN_FIELD, "", "warns of fields that the platform does not know"),
];

pub(super) fn judge(template: &Template<'_>, found: &mut Findings) {
    let Some(object) = template.value.as_object() else {
        return;
    };
    for deviation in deviations(template.kind, object, MOST) {
        match deviation {
            Deviation::WrongType {
                path: field,
                expected,
                value,
            } => {
                let at = path(&field);
                let violation = Violation::new(
                    TYPE,
                    at.as_str(),
                    ViolationKind::TypeInvalid,
                    format!("must be {expected}"),
                );
                found.verdict.deny(violation.got(value).advice(format!(
                    "correct the value: a {} cannot be decoded with it",
                    template.kind.kind
                )));
            }
            Deviation::Unknown {
                path: field,
                similar: Some(similar),
            } => found.unknown_fields.push(format!("{field} ({})", question(similar))),
            Deviation::Unknown { path, similar: None } => found.unknown_fields.push(path),
            Deviation::OtherCase { path: misspelt, field } => {
                let at = path(&misspelt);
                let allowed = format!("must be written {field}: the platform reads it as that field");
                let violation = Violation::new(TYPE, at.as_str(), ViolationKind::Invalid, allowed);
                found.verdict.deny(violation.advice(format!("write {field}, once")));
            }
        }
    }
}

/// Whether the user meant a known field of a similar name.
fn question(similar: Similar) -> String {
    let too = if similar.is_present { ", which is set too" } else { "" };
    format!("did you mean {}{too}?", similar.field)
}

/// Warns of unknown fields, in one warning.
pub(super) fn warn_of_unknown_fields(kind: ProviderSpec, fields: &[String], verdict: &mut Verdict) {
    if fields.is_empty() {
        return;
    }
    let mut listed: Vec<String> = fields.iter().take(LISTED).cloned().collect();
    if fields.len() > LISTED {
        listed.push(format!("and {} more", fields.len() - LISTED));
    }
    verdict.warn(Warning::new(
        UNKNOWN_FIELD,
        format!(
            "{}: unknown to {}: machines are created with it, and the platform may ignore it; correct a misspelling",
            path(&listed.join(", ")),
            kind.kind
        ),
    ));
}
