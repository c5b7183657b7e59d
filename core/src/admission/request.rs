//! The question: an AdmissionReview, read without building a tree for what no rule looks at.
//!
//! Everything is read in one go, the envelope by borrowing. `status` and `managedFields`, which are most of an object's
//! bytes and which no rule of a spec reads, are skipped. Where an object cannot be read, the review is read again with its
//! objects left as text: so there is an envelope to answer to, whatever the objects are.
//!
//! An old object that is, value by value, one that is known is not built at all, and of another only what the new one has not.

use std::borrow::Cow;

use serde::de::DeserializeSeed as _;
use serde_json::Value;
use serde_json::value::RawValue;
use thiserror::Error;

use super::objects::{Objects, Old};
use super::tree::Without;
use super::wire::{Envelope, GroupVersionKind, ReadObjects, Texts, Wire};
use crate::model::{Edit, Operation, Propagation, Stored, User};

/// The body is no AdmissionReview that could be answered: HTTP 400, since there is no uid to answer to.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[error("no AdmissionReview of admission.k8s.io/v1: {0}")]
pub struct NoReview(pub String);

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

impl<'a> Request<'a> {
    /// Reads a review: its objects with their status where the rules of their kind read it, and the old one beside a tree that
    /// it probably is, without what is not read.
    ///
    /// # Errors
    /// When the body is no AdmissionReview v1 with a request.
    pub fn read(body: &'a [u8], reads_status: bool, known: Option<&'a Value>) -> Result<Self, NoReview> {
        let unread = Without::unread(reads_status);
        // Checked once for the whole body, and not for every text in it.
        let whole = std::str::from_utf8(body).ok();
        if let Some(Ok(review)) = whole.map(|body| ReadObjects { known, unread }.read(body)) {
            return Self::of(
                &review.api_version,
                &review.kind,
                review.request.map(|(wire, objects)| (wire, Ok(objects))),
            );
        }
        let wrong = |error: serde_json::Error| NoReview(error.to_string());
        let review: Envelope<'a, Wire<'a>> = serde_json::from_slice(body).map_err(wrong)?;
        let texts: Envelope<'a, Texts<'a>> = serde_json::from_slice(body).map_err(wrong)?;
        let objects = || {
            let texts = texts.request.unwrap_or_default();
            Ok(Objects {
                object: read("object", texts.object, unread)?,
                old: read("oldObject", texts.old_object, unread)?.map(|value| Old::Tree(Cow::Owned(value))),
            })
        };
        Self::of(
            &review.api_version,
            &review.kind,
            review.request.map(|wire| (wire, objects())),
        )
    }

    fn of(
        api_version: &str,
        kind: &str,
        request: Option<(Wire<'a>, Result<Objects<'a>, String>)>,
    ) -> Result<Self, NoReview> {
        if api_version != "admission.k8s.io/v1" || kind != "AdmissionReview" {
            return Err(NoReview(format!("it is a {kind} of {api_version}")));
        }
        let (wire, objects) = request.ok_or_else(|| NoReview(String::from("it has no request")))?;
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
            objects,
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
        let named = |object: &'e dyn Stored| object.at("metadata.name")?.as_str();
        let name = match self.name.as_ref() {
            "" => {
                let new = objects.object.as_ref().and_then(|object| named(object));
                new.or_else(|| named(objects.old()?)).unwrap_or_default()
            }
            name => name,
        };
        Edit {
            operation: self.operation,
            subresource: &self.subresource,
            namespace: &self.namespace,
            name,
            object: objects.object.as_ref(),
            old: objects.old(),
            propagation: self.propagation,
            user: &self.user,
            dry_run: self.dry_run,
        }
    }
}

fn read(field: &str, raw: Option<&RawValue>, unread: Without<'_>) -> Result<Option<Value>, String> {
    let Some(raw) = raw else { return Ok(None) };
    let mut reader = serde_json::Deserializer::from_str(raw.get());
    let read = unread.deserialize(&mut reader);
    read.map(Some).map_err(|error| format!("request.{field}: {error}"))
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
        let body = review(&BARE.replace(
            "\"UPDATE\"",
            &format!("\"UPDATE\",\"object\":{text},\"oldObject\":{text}"),
        ));
        for reads_status in [false, true] {
            let mut expected: Value =
                serde_json::from_str(r#"{"metadata":{"name":"n"},"spec":{"a":[1]},"status":{"replicas":3}}"#).unwrap();
            if !reads_status {
                expected.as_object_mut().unwrap().remove("status");
            }
            let request = Request::read(body.as_bytes(), reads_status, None).unwrap();
            let objects = request.objects().unwrap();
            assert_eq!(objects.object.as_ref(), Some(&expected));
            assert_eq!(*objects.old().unwrap().whole(), expected);
        }
    }

    #[test]
    fn the_objects_are_read_in_whichever_order_they_come_and_never_twice() {
        let [object, old] = [r#""object":{"spec":{"a":1}}"#, r#""oldObject":{"spec":{"a":2}}"#];
        let request = |objects: &str| review(&BARE.replace("\"UPDATE\"", &format!("\"UPDATE\",{objects}")));
        for objects in [format!("{object},{old}"), format!("{old},{object}")] {
            let body = request(&objects);
            let read = Request::read(body.as_bytes(), true, None).unwrap();
            let objects = read.objects().unwrap();
            let spec = |object: &dyn Stored| object.at("spec.a").cloned();
            assert_eq!(objects.object.as_ref().and_then(|object| spec(object)), Some(1.into()));
            assert_eq!(objects.old().and_then(spec), Some(2.into()));
        }
        for twice in [object, old] {
            let body = request(&format!("{twice},{twice}"));
            let error = Request::read(body.as_bytes(), true, None).unwrap_err().to_string();
            assert!(error.contains("duplicate field"), "{error}");
        }
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
            let plainly = Request::read(body.as_bytes(), false, None).unwrap();
            let beside = Request::read(body.as_bytes(), false, Some(&known)).unwrap();
            let of = |request: &Request<'_>| {
                let objects = request.objects().map_err(str::to_owned)?;
                Ok::<_, String>((
                    objects.object.clone(),
                    objects.old().map(|old| old.whole().into_owned()),
                ))
            };
            assert_eq!(of(&plainly), of(&beside), "{old}");
            let borrowed = beside
                .objects()
                .is_ok_and(|objects| matches!(objects.old, Some(Old::Tree(Cow::Borrowed(_)))));
            assert_eq!(borrowed, is_known, "{old}");
        }
        assert!(Request::read(b"{", false, Some(&known)).is_err());
    }

    #[test]
    fn an_object_of_another_type_is_unreadable_and_the_envelope_is_not() {
        for text in ["[1]", "\"x\"", "3", "{\"metadata\":[]}"] {
            for field in ["object", "oldObject"] {
                let body = review(&BARE.replace("\"UPDATE\"", &format!("\"UPDATE\",\"{field}\":{text}")));
                let request = Request::read(body.as_bytes(), true, None).unwrap();
                let reason = request.objects().unwrap_err();
                assert!(reason.starts_with(&format!("request.{field}: ")), "{reason}");
            }
        }
    }

    #[test]
    fn the_propagation_policy_is_read_also_from_the_field_before_it() {
        let of = |options: &str| {
            let body = review(&BARE.replace("\"UPDATE\"", &format!("\"DELETE\",\"options\":{options}")));
            Request::read(body.as_bytes(), false, None).unwrap().propagation
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
            let error = Request::read(body.as_bytes(), false, None).unwrap_err().to_string();
            assert!(error.contains(why), "{error}");
        }
    }

    #[test]
    fn an_object_that_is_nested_too_deep_is_unreadable_and_the_envelope_is_not() {
        let deep = format!("{}1{}", "{\"a\":".repeat(1000), "}".repeat(1000));
        let body = review(&BARE.replace("\"UPDATE\"", &format!("\"UPDATE\",\"object\":{deep}")));
        let request = Request::read(body.as_bytes(), false, None).unwrap();
        assert!(request.objects().unwrap_err().contains("recursion limit"));
    }
}
