//! The question: an AdmissionReview, read without building a tree for what no rule looks at.
//!
//! Everything is read in one go, the envelope by borrowing. `status` and `managedFields`, which are most of an object's
//! bytes and which no rule of a spec reads, are skipped. Where an object cannot be read, the review is read again with its
//! objects left as text: so there is an envelope to answer to, whatever the objects are.
//!
//! An old object that is, value by value, one that is known is not built at all: the known one stands for it.

use std::borrow::Cow;
use std::collections::BTreeMap;

use serde::Deserialize;
use serde_json::Value;
use serde_json::value::RawValue;
use thiserror::Error;

use super::tree::{Tree, is_tree};
use crate::model::{Edit, Operation, Propagation, User};

/// The body is no AdmissionReview that could be answered: HTTP 400, since there is no uid to answer to.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[error("no AdmissionReview of admission.k8s.io/v1: {0}")]
pub struct NoReview(pub String);

#[derive(Deserialize)]
#[serde(bound(deserialize = "O: Deserialize<'de>, P: Deserialize<'de>"))]
struct Envelope<'a, O, P> {
    #[serde(rename = "apiVersion", borrow)]
    api_version: Cow<'a, str>,
    #[serde(borrow)]
    kind: Cow<'a, str>,
    #[serde(borrow)]
    request: Option<Wire<'a, O, P>>,
}

/// `O` and `P`: what the object and the old one are read as.
#[derive(Deserialize)]
#[serde(
    rename_all = "camelCase",
    bound(deserialize = "O: Deserialize<'de>, P: Deserialize<'de>")
)]
struct Wire<'a, O, P> {
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
    #[serde(default = "none")]
    object: Option<O>,
    #[serde(default = "none")]
    old_object: Option<P>,
    #[serde(default)]
    dry_run: Option<bool>,
    #[serde(default)]
    options: Option<DeleteOptions>,
}

fn none<O>() -> Option<O> {
    None
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
    extra: BTreeMap<String, Vec<String>>,
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
    objects: Result<Objects<'a>, String>,
}

/// The objects of a request, without `status` and `metadata.managedFields`.
#[derive(Debug, Default)]
pub struct Objects<'a> {
    /// The object as it would be.
    pub object: Option<Value>,
    /// The object as it is.
    pub old: Option<Cow<'a, Value>>,
}

impl<'a> Request<'a> {
    /// Reads the envelope of a review.
    ///
    /// # Errors
    /// When the body is no AdmissionReview v1 with a request.
    pub fn read(body: &'a [u8]) -> Result<Self, NoReview> {
        Self::read_as::<false>(body)
    }

    /// The same, where the old object is probably a known one: that one, without status and managed fields.
    ///
    /// # Errors
    /// As `read`.
    pub fn read_beside(body: &'a [u8], known: &'a Value) -> Result<Self, NoReview> {
        let whole = std::str::from_utf8(body).ok();
        match whole.map(serde_json::from_str::<Envelope<'a, Tree<false>, &'a RawValue>>) {
            Some(Ok(envelope)) => Self::of(envelope, |object, old| {
                Ok(Objects {
                    object: object.map(|Tree(value)| value),
                    old: match old {
                        Some(old) if is_tree::<false>(old.get(), known) => Some(Cow::Borrowed(known)),
                        old => read::<false>("oldObject", old)?.map(Cow::Owned),
                    },
                })
            }),
            _ => Self::read(body),
        }
    }

    /// Reads a review whose objects keep their status: for kinds whose status says who leads them.
    ///
    /// # Errors
    /// As `read`.
    pub fn read_with_status(body: &'a [u8]) -> Result<Self, NoReview> {
        Self::read_as::<true>(body)
    }

    fn read_as<const STATUS: bool>(body: &'a [u8]) -> Result<Self, NoReview> {
        // Checked once for the whole body, and not for every text in it.
        let whole = std::str::from_utf8(body).ok();
        if let Some(Ok(envelope)) = whole.map(serde_json::from_str::<Envelope<'a, Tree<STATUS>, Tree<STATUS>>>) {
            return Self::of(envelope, |object, old| {
                Ok(Objects {
                    object: object.map(|Tree(value)| value),
                    old: old.map(|Tree(value)| Cow::Owned(value)),
                })
            });
        }
        let envelope: Envelope<'a, &'a RawValue, &'a RawValue> =
            serde_json::from_slice(body).map_err(|error| NoReview(error.to_string()))?;
        Self::of(envelope, |object, old| {
            Ok(Objects {
                object: read::<STATUS>("object", object)?,
                old: read::<STATUS>("oldObject", old)?.map(Cow::Owned),
            })
        })
    }

    fn of<O, P>(
        envelope: Envelope<'a, O, P>,
        objects: impl FnOnce(Option<O>, Option<P>) -> Result<Objects<'a>, String>,
    ) -> Result<Self, NoReview> {
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
                extra: wire.user_info.extra,
            },
            dry_run: wire.dry_run.unwrap_or(false),
            propagation: options
                .propagation_policy
                .as_deref()
                .and_then(Propagation::parse)
                .or(orphan),
            objects: objects(wire.object, wire.old_object),
        })
    }

    /// The objects.
    ///
    /// # Errors
    /// When one of them is no object, or nested deeper than any real one.
    pub fn objects(&self) -> Result<&Objects<'a>, &str> {
        self.objects.as_ref().map_err(String::as_str)
    }

    /// The edit, over objects that were read.
    pub fn edit<'e>(&'e self, objects: &'e Objects<'_>) -> Edit<'e> {
        let named = |object: Option<&'e Value>| object?.pointer("/metadata/name")?.as_str();
        let name = match self.name.as_ref() {
            "" => named(objects.object.as_ref())
                .or(named(objects.old.as_deref()))
                .unwrap_or_default(),
            name => name,
        };
        Edit {
            operation: self.operation,
            subresource: &self.subresource,
            namespace: &self.namespace,
            name,
            object: objects.object.as_ref(),
            old: objects.old.as_deref(),
            propagation: self.propagation,
            user: &self.user,
            dry_run: self.dry_run,
        }
    }
}

fn read<const STATUS: bool>(field: &str, raw: Option<&RawValue>) -> Result<Option<Value>, String> {
    let Some(raw) = raw else { return Ok(None) };
    let read = read_object::<STATUS>(raw.get()).map_err(|error| format!("request.{field}: {error}"))?;
    Ok(Some(read))
}

/// Reads a Kubernetes object without the parts that no rule reads.
fn read_object<const STATUS: bool>(text: &str) -> Result<Value, serde_json::Error> {
    serde_json::from_str(text).map(|Tree::<STATUS>(value)| value)
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
        assert_eq!(read_object::<false>(text).unwrap(), expected);
    }

    #[test]
    fn a_known_old_object_is_not_built_and_another_is_read_as_ever() {
        let known: Value = serde_json::from_str(r#"{"metadata":{"name":"n"},"spec":{"a":[1]}}"#).unwrap();
        let olds = [
            r#"{"metadata":{"managedFields":[{}],"name":"n"},"spec":{"a":[1]},"status":{"b":2}}"#,
            r#"{"metadata":{"name":"n"},"spec":{"a":[2]}}"#,
            "null",
            "7",
            r#"{"metadata":[]}"#,
        ];
        for (old, is_known) in olds.into_iter().zip([true, false, false, false, false]) {
            let body = review(&BARE.replace("\"UPDATE\"", &format!("\"UPDATE\",\"object\":{{}},\"oldObject\":{old}")));
            let plainly = Request::read(body.as_bytes()).unwrap();
            let beside = Request::read_beside(body.as_bytes(), &known).unwrap();
            let of = |request: &Request<'_>| {
                let objects = request.objects().map_err(str::to_owned)?;
                Ok::<_, String>((objects.object.clone(), objects.old.clone().map(Cow::into_owned)))
            };
            assert_eq!(of(&plainly), of(&beside), "{old}");
            let borrowed = beside
                .objects()
                .is_ok_and(|objects| matches!(objects.old, Some(Cow::Borrowed(_))));
            assert_eq!(borrowed, is_known, "{old}");
        }
        assert!(Request::read_beside(b"{", &known).is_err());
    }

    #[test]
    fn an_object_of_another_type_is_unreadable() {
        for text in ["[1]", "\"x\"", "3", "{\"metadata\":[]}"] {
            assert!(read_object::<false>(text).is_err(), "{text}");
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
