//! The JSON of an AdmissionReview, as far as it is read.
//!
//! The parts of an object that no rule reads are skipped while it is read:
//! `metadata.managedFields`, and the status where the rules of the kind do not read it. They are
//! most of the bytes of an object. Nothing here decides whether a review makes sense.

use std::collections::BTreeMap;
use std::fmt;

use serde::Deserialize;
use serde::de::{DeserializeSeed, Deserializer, Error, IgnoredAny, MapAccess, Visitor};
use serde_json::{Map, Value};

/// An AdmissionReview whose objects are read as `O`.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Envelope<O> {
    pub(super) api_version: String,
    pub(super) kind: String,
    pub(super) request: Option<EnvelopeRequest<O>>,
}

/// The request of a review.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct EnvelopeRequest<O> {
    pub(super) uid: String,
    pub(super) kind: GroupVersionKind,
    pub(super) resource: GroupVersionResource,
    #[serde(default)]
    pub(super) sub_resource: Option<String>,
    #[serde(default)]
    pub(super) name: Option<String>,
    #[serde(default)]
    pub(super) namespace: Option<String>,
    pub(super) operation: String,
    #[serde(default)]
    pub(super) user_info: UserInfo,
    #[serde(default)]
    pub(super) dry_run: Option<bool>,
    #[serde(default)]
    pub(super) options: Option<DeleteOptions>,
    #[serde(default = "none")]
    pub(super) object: Option<O>,
    #[serde(default = "none")]
    pub(super) old_object: Option<O>,
}

/// The default of an object. A derived default would require a default of `O`.
fn none<O>() -> Option<O> {
    None
}

/// A group, a version and a kind.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(default)]
pub struct GroupVersionKind {
    /// The API group; empty for the core group.
    pub group: String,
    /// The version.
    pub version: String,
    /// The kind.
    pub kind: String,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct GroupVersionResource {
    pub(super) group: String,
    pub(super) resource: String,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct UserInfo {
    pub(super) username: String,
    pub(super) groups: Vec<String>,
    pub(super) extra: BTreeMap<String, Vec<String>>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub(super) struct DeleteOptions {
    pub(super) propagation_policy: Option<String>,
    /// The field that `propagationPolicy` replaced. API servers still serve it.
    pub(super) orphan_dependents: Option<bool>,
}

/// A Kubernetes object without `metadata.managedFields`, and without its status unless `STATUS`.
#[derive(Debug)]
pub(super) struct ReviewedObject<const STATUS: bool>(pub(super) Value);

impl<'de, const STATUS: bool> Deserialize<'de> for ReviewedObject<STATUS> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let skipped = if STATUS { None } else { Some("status") };
        let object = deserializer.deserialize_map(Fields::OfObject { skipped })?;
        Ok(Self(object))
    }
}

/// Reads the fields of a JSON object, and skips one of them.
#[derive(Clone, Copy)]
enum Fields {
    /// The fields of a Kubernetes object.
    OfObject { skipped: Option<&'static str> },
    /// The fields of `metadata`.
    OfMetadata,
}

impl Fields {
    fn skips(self, name: &str) -> bool {
        match self {
            Self::OfObject { skipped } => skipped == Some(name),
            Self::OfMetadata => name == "managedFields",
        }
    }
}

impl<'de> DeserializeSeed<'de> for Fields {
    type Value = Value;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<Value, D::Error> {
        deserializer.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for Fields {
    type Value = Value;

    fn expecting(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("an object")
    }

    fn visit_unit<E: Error>(self) -> Result<Value, E> {
        Ok(Value::Null)
    }

    fn visit_map<A: MapAccess<'de>>(self, mut entries: A) -> Result<Value, A::Error> {
        let mut fields = Map::new();
        while let Some(name) = entries.next_key::<String>()? {
            if self.skips(&name) {
                entries.next_value::<IgnoredAny>()?;
                continue;
            }
            let value = match self {
                Self::OfObject { .. } if name == "metadata" => entries.next_value_seed(Self::OfMetadata)?,
                _ => entries.next_value()?,
            };
            fields.insert(name, value);
        }
        Ok(Value::Object(fields))
    }
}

impl<const STATUS: bool> From<ReviewedObject<STATUS>> for Value {
    fn from(object: ReviewedObject<STATUS>) -> Self {
        object.0
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    const TEXT: &str = r#"{"status": {"a": 1}, "metadata": {"managedFields": [{"a": {}}], "name": "n"},
        "spec": {"status": 1, "metadata": {"managedFields": 1}}}"#;

    #[test]
    fn managed_fields_and_status_are_skipped_only_at_the_top_of_an_object() {
        let without: ReviewedObject<false> = serde_json::from_str(TEXT).unwrap();
        let mut expected = json!({"metadata": {"name": "n"}, "spec": {"status": 1, "metadata": {"managedFields": 1}}});
        assert_eq!(without.0, expected);
        let with: ReviewedObject<true> = serde_json::from_str(TEXT).unwrap();
        expected["status"] = json!({"a": 1});
        assert_eq!(with.0, expected);
    }

    #[test]
    fn a_value_that_is_not_an_object_cannot_be_read_as_one() {
        for text in ["[1]", "\"x\"", "3", "true", "1.5", "-3", "{\"metadata\":[]}", "{", ""] {
            assert!(serde_json::from_str::<ReviewedObject<true>>(text).is_err(), "{text}");
        }
        let read: ReviewedObject<true> = serde_json::from_str(r#"{"metadata": null}"#).unwrap();
        assert_eq!(read.0, json!({"metadata": null}));
    }
}
