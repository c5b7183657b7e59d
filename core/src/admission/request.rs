//! The question: an AdmissionReview, read without building a tree for what no rule looks at.
//!
//! The envelope comes first, by borrowing; the objects in it stay text until their gate is known. `status` and
//! `managedFields`, which are most of an object's bytes and which no rule of a spec reads, are skipped.

use std::borrow::Cow;
use std::fmt;

use serde::de::{DeserializeSeed, Deserializer, IgnoredAny, MapAccess, Visitor};
use serde::{Deserialize, de};
use serde_json::value::RawValue;
use serde_json::{Map, Value};
use thiserror::Error;

use crate::model::{Edit, Operation, Propagation, User};

/// The body is no AdmissionReview that could be answered: HTTP 400, since there is no uid to answer to.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[error("no AdmissionReview of admission.k8s.io/v1: {0}")]
pub struct NoReview(pub String);

#[derive(Deserialize)]
struct Envelope<'a> {
    #[serde(rename = "apiVersion", borrow)]
    api_version: Cow<'a, str>,
    #[serde(borrow)]
    kind: Cow<'a, str>,
    #[serde(borrow)]
    request: Option<Wire<'a>>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Wire<'a> {
    #[serde(borrow)]
    uid: Cow<'a, str>,
    #[serde(borrow)]
    kind: GroupVersionKind<'a>,
    #[serde(borrow)]
    resource: GroupVersionResource<'a>,
    #[serde(borrow, default)]
    sub_resource: Option<Cow<'a, str>>,
    #[serde(borrow, default)]
    name: Option<Cow<'a, str>>,
    #[serde(borrow, default)]
    namespace: Option<Cow<'a, str>>,
    #[serde(borrow)]
    operation: Cow<'a, str>,
    #[serde(default)]
    user_info: UserInfo,
    #[serde(borrow, default)]
    object: Option<&'a RawValue>,
    #[serde(borrow, default)]
    old_object: Option<&'a RawValue>,
    #[serde(default)]
    dry_run: Option<bool>,
    #[serde(default)]
    options: Option<DeleteOptions>,
}

/// A group, a version and a kind.
#[derive(Clone, Debug, Default, Deserialize)]
pub struct GroupVersionKind<'a> {
    /// Empty for the core group.
    #[serde(borrow, default)]
    pub group: Cow<'a, str>,
    /// The version.
    #[serde(borrow, default)]
    pub version: Cow<'a, str>,
    /// The kind.
    #[serde(borrow, default)]
    pub kind: Cow<'a, str>,
}

#[derive(Clone, Debug, Default, Deserialize)]
struct GroupVersionResource<'a> {
    #[serde(borrow, default)]
    group: Cow<'a, str>,
    #[serde(borrow, default)]
    resource: Cow<'a, str>,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct UserInfo {
    username: String,
    groups: Vec<String>,
}

#[derive(Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct DeleteOptions {
    propagation_policy: Option<String>,
    /// The field that `propagationPolicy` replaced; still served.
    orphan_dependents: Option<bool>,
}

/// The request of a review.
#[derive(Debug)]
pub struct Request<'a> {
    /// Identifies the review; the answer carries it.
    pub uid: Cow<'a, str>,
    /// The kind of the object.
    pub kind: GroupVersionKind<'a>,
    /// API group of the resource that the request goes to: for `scale`, that of the scaled kind.
    pub group: Cow<'a, str>,
    /// Plural of the resource.
    pub resource: Cow<'a, str>,
    /// `scale`, `status` or empty.
    pub subresource: Cow<'a, str>,
    /// Name of the object; empty when the API server will make one.
    pub name: Cow<'a, str>,
    /// Namespace of the object.
    pub namespace: Cow<'a, str>,
    /// What is done.
    pub operation: Operation,
    /// Who asks.
    pub user: User,
    /// Whether nothing will be stored.
    pub dry_run: bool,
    propagation: Option<Propagation>,
    object: Option<&'a RawValue>,
    old_object: Option<&'a RawValue>,
}

/// The objects of a request, once somebody wants to look at them.
#[derive(Debug)]
pub struct Objects {
    /// The object as it would be.
    pub object: Option<Value>,
    /// The object as it is.
    pub old: Option<Value>,
}

impl<'a> Request<'a> {
    /// Reads the envelope of a review.
    ///
    /// # Errors
    /// When the body is no AdmissionReview v1 with a request.
    pub fn read(body: &'a [u8]) -> Result<Self, NoReview> {
        let envelope: Envelope<'a> = serde_json::from_slice(body).map_err(|error| NoReview(error.to_string()))?;
        if envelope.api_version != "admission.k8s.io/v1" || envelope.kind != "AdmissionReview" {
            return Err(NoReview(format!(
                "it is a {} of {}",
                envelope.kind, envelope.api_version
            )));
        }
        let wire = envelope
            .request
            .ok_or_else(|| NoReview(String::from("it has no request")))?;
        if wire.uid.is_empty() {
            return Err(NoReview(String::from("request.uid is empty")));
        }
        let operation = Operation::parse(&wire.operation)
            .ok_or_else(|| NoReview(format!("request.operation is {:?}", wire.operation)))?;
        let options = wire.options.unwrap_or_default();
        let orphan = match options.orphan_dependents {
            Some(true) => Some(Propagation::Orphan),
            Some(false) => Some(Propagation::Background),
            None => None,
        };
        Ok(Self {
            uid: wire.uid,
            kind: wire.kind,
            group: wire.resource.group,
            resource: wire.resource.resource,
            subresource: wire.sub_resource.unwrap_or_default(),
            name: wire.name.unwrap_or_default(),
            namespace: wire.namespace.unwrap_or_default(),
            operation,
            user: User {
                name: wire.user_info.username,
                groups: wire.user_info.groups,
            },
            dry_run: wire.dry_run.unwrap_or(false),
            propagation: options
                .propagation_policy
                .as_deref()
                .and_then(Propagation::parse)
                .or(orphan),
            object: wire.object,
            old_object: wire.old_object,
        })
    }

    /// Reads the objects, without `status` and `metadata.managedFields`.
    ///
    /// # Errors
    /// When one of them is no object, or nested deeper than any real one.
    pub fn objects(&self) -> Result<Objects, String> {
        self.objects_without(&["status"])
    }

    /// Reads the objects with their status, without `metadata.managedFields`: for kinds whose status says who leads them.
    ///
    /// # Errors
    /// As `objects`.
    pub fn objects_with_status(&self) -> Result<Objects, String> {
        self.objects_without(&[])
    }

    fn objects_without(&self, skipped: &[&str]) -> Result<Objects, String> {
        let read = |field: &str, raw: Option<&RawValue>| match raw {
            None => Ok(None),
            Some(raw) if raw.get() == "null" => Ok(None),
            Some(raw) => read_object(raw.get(), skipped)
                .map(Some)
                .map_err(|error| format!("request.{field}: {error}")),
        };
        Ok(Objects {
            object: read("object", self.object)?,
            old: read("oldObject", self.old_object)?,
        })
    }

    /// The edit, over objects that were read.
    pub fn edit<'e>(&'e self, objects: &'e Objects) -> Edit<'e> {
        let named = |object: Option<&'e Value>| object?.pointer("/metadata/name")?.as_str();
        let name = match self.name.as_ref() {
            "" => named(objects.object.as_ref())
                .or(named(objects.old.as_ref()))
                .unwrap_or_default(),
            name => name,
        };
        Edit {
            operation: self.operation,
            subresource: &self.subresource,
            namespace: &self.namespace,
            name,
            object: objects.object.as_ref(),
            old: objects.old.as_ref(),
            propagation: self.propagation,
            user: &self.user,
            dry_run: self.dry_run,
        }
    }
}

/// Reads a Kubernetes object without the parts that no rule reads.
fn read_object(text: &str, skipped: &[&str]) -> Result<Value, serde_json::Error> {
    let mut reader = serde_json::Deserializer::from_str(text);
    let value = Without {
        skipped,
        below: Some(("metadata", &["managedFields"])),
    }
    .deserialize(&mut reader)?;
    reader.end()?;
    Ok(value)
}

/// Reads a map into a tree, leaving out some of its keys.
#[derive(Clone, Copy)]
struct Without<'s> {
    skipped: &'s [&'s str],
    below: Option<(&'s str, &'s [&'s str])>,
}

impl<'de> DeserializeSeed<'de> for Without<'_> {
    type Value = Value;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<Value, D::Error> {
        deserializer.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for Without<'_> {
    type Value = Value;

    fn expecting(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("an object")
    }

    fn visit_unit<E: de::Error>(self) -> Result<Value, E> {
        Ok(Value::Null)
    }

    fn visit_map<A: MapAccess<'de>>(self, mut entries: A) -> Result<Value, A::Error> {
        let mut map = Map::new();
        while let Some(key) = entries.next_key::<String>()? {
            if self.skipped.contains(&key.as_str()) {
                entries.next_value::<IgnoredAny>()?;
                continue;
            }
            let value = match self.below {
                Some((below, skipped)) if below == key => entries.next_value_seed(Without { skipped, below: None })?,
                _ => entries.next_value()?,
            };
            map.insert(key, value);
        }
        Ok(Value::Object(map))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn review(request: &str) -> String {
        format!(r#"{{"apiVersion":"admission.k8s.io/v1","kind":"AdmissionReview","request":{request}}}"#)
    }

    const BARE: &str = r#"{"uid":"u","kind":{"group":"g","version":"v1","kind":"K"},
        "resource":{"group":"g","version":"v1","resource":"ks"},"operation":"UPDATE"}"#;

    #[test]
    fn what_no_rule_reads_is_skipped() {
        let text = r#"{"metadata":{"name":"n","managedFields":[{"f":{}}]},"spec":{"a":[1]},"status":{"replicas":3}}"#;
        let expected: Value = serde_json::from_str(r#"{"metadata":{"name":"n"},"spec":{"a":[1]}}"#).unwrap();
        assert_eq!(read_object(text, &["status"]).unwrap(), expected);
    }

    #[test]
    fn an_object_of_another_type_is_unreadable() {
        for text in ["[1]", "\"x\"", "3", "{\"metadata\":[]}"] {
            assert!(read_object(text, &["status"]).is_err(), "{text}");
        }
    }

    #[test]
    fn the_propagation_policy_is_read_also_from_the_field_before_it() {
        let of = |options: &str| {
            let body = review(&BARE.replace("\"UPDATE\"", &format!("\"DELETE\",\"options\":{options}")));
            Request::read(body.as_bytes()).unwrap().propagation
        };
        assert_eq!(
            of(r#"{"propagationPolicy":"Foreground"}"#),
            Some(Propagation::Foreground)
        );
        assert_eq!(of(r#"{"orphanDependents":true}"#), Some(Propagation::Orphan));
        assert_eq!(of("{}"), None);
        assert_eq!(of("null"), None);
    }

    #[test]
    fn what_is_no_review_says_why() {
        for (body, why) in [
            (String::from("{"), "EOF"),
            (review("null"), "no request"),
            (review(&BARE.replace("\"u\"", "\"\"")), "uid is empty"),
            (review(&BARE.replace("UPDATE", "UPSERT")), "UPSERT"),
            (
                review(BARE).replace("admission.k8s.io/v1", "admission.k8s.io/v1beta1"),
                "v1beta1",
            ),
        ] {
            let error = Request::read(body.as_bytes()).unwrap_err().to_string();
            assert!(error.contains(why), "{error}");
        }
    }

    #[test]
    fn an_object_that_is_nested_too_deep_is_unreadable_and_the_envelope_is_not() {
        let deep = format!("{}1{}", "{\"a\":".repeat(1000), "}".repeat(1000));
        let body = review(&BARE.replace("\"UPDATE\"", &format!("\"UPDATE\",\"object\":{deep}")));
        let request = Request::read(body.as_bytes()).unwrap();
        assert!(request.objects().unwrap_err().contains("recursion limit"));
    }
}
