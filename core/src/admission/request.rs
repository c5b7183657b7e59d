//! The request of an AdmissionReview.
//!
//! A review whose objects cannot be read still has an envelope, so the answer can carry its uid:
//! the envelope is then read a second time, with the objects as text. Nothing is judged here.

use serde::de::DeserializeOwned;
use serde_json::Value;
use serde_json::value::RawValue;
use thiserror::Error;

use super::caps;
use super::envelope::{Envelope, EnvelopeRequest, GroupVersionKind, ReviewedObject};
use crate::model::{Edit, Operation, Propagation, Stored, User, shorten};

/// The body is not an AdmissionReview that can be answered. The server answers with HTTP 400,
/// because an answer needs the uid of the request.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[error("must be an AdmissionReview of admission.k8s.io/v1: {0}")]
pub struct NoReview(pub String);

/// The request of a review.
#[derive(Debug)]
pub struct Request {
    /// The identifier of the request, which the answer repeats.
    pub uid: String,
    /// The kind of the object.
    pub kind: GroupVersionKind,
    /// The API group of the resource. For `scale`, this is the group of the scaled kind.
    pub group: String,
    /// The lower-case plural of the resource.
    pub resource: String,
    /// `scale`, `status`, or empty for the object itself.
    pub subresource: String,
    /// The name of the object; empty if the API server will generate it.
    pub name: String,
    /// The namespace of the object; empty for a cluster-scoped kind.
    pub namespace: String,
    /// The operation.
    pub operation: Operation,
    /// The user who made the request.
    pub user: User,
    /// Whether the request will not be stored.
    pub dry_run: bool,
    propagation: Option<Propagation>,
    objects: Result<Objects, String>,
}

/// The objects of a request, without the parts that no rule of their kind reads.
#[derive(Debug, Default)]
pub struct Objects {
    /// The object after the operation; `None` for a deletion.
    pub object: Option<Value>,
    /// The stored object; `None` for a creation.
    pub old: Option<Value>,
}

impl Request {
    /// Reads a review. The status of its objects is read only with `reads_status`.
    ///
    /// # Errors
    /// The body is not an AdmissionReview of v1 with a request.
    pub fn read(body: &[u8], reads_status: bool) -> Result<Self, NoReview> {
        if reads_status {
            Self::read_as::<ReviewedObject<true>>(body)
        } else {
            Self::read_as::<ReviewedObject<false>>(body)
        }
    }

    fn read_as<O: DeserializeOwned + Into<Value>>(body: &[u8]) -> Result<Self, NoReview> {
        let wrong = |error: &dyn std::fmt::Display| NoReview(shorten(&error.to_string(), caps::MAX_MESSAGE));
        let body = str::from_utf8(body).map_err(|error| wrong(&error))?;
        // The types of the envelope can be read from lists, too.
        if !body.trim_start().starts_with('{') {
            return Err(NoReview(String::from("the body is not a JSON object")));
        }
        if let Ok(review) = serde_json::from_str::<Envelope<O>>(body) {
            return Self::of(review, |object, old| {
                Ok(Objects {
                    object: object.map(Into::into),
                    old: old.map(Into::into),
                })
            });
        }
        let review: Envelope<&RawValue> = serde_json::from_str(body).map_err(|error| wrong(&error))?;
        Self::of(review, |object, old| {
            Ok(Objects {
                object: read_text::<O>("object", object)?,
                old: read_text::<O>("oldObject", old)?,
            })
        })
    }

    fn of<O>(
        review: Envelope<O>,
        objects: impl FnOnce(Option<O>, Option<O>) -> Result<Objects, String>,
    ) -> Result<Self, NoReview> {
        let Envelope {
            api_version,
            kind,
            request,
        } = review;
        if api_version != "admission.k8s.io/v1" || kind != "AdmissionReview" {
            let cut = |text: &str| shorten(text, caps::MAX_NAME);
            return Err(NoReview(format!(
                "the body is a {} of {}",
                cut(&kind),
                cut(&api_version)
            )));
        }
        let request = request.ok_or_else(|| NoReview(String::from("it has no request")))?;
        if request.uid.is_empty() {
            return Err(NoReview(String::from("request.uid is empty")));
        }
        if request.uid.len() > caps::MAX_UID {
            let length = request.uid.len();
            return Err(NoReview(format!(
                "request.uid must have at most {} bytes; it has {length}",
                caps::MAX_UID
            )));
        }
        let operation = Operation::parse(&request.operation).ok_or_else(|| {
            let operation = shorten(&request.operation, caps::MAX_NAME);
            NoReview(format!("request.operation is {operation:?}"))
        })?;
        let propagation = propagation(&request);
        Ok(Self {
            uid: request.uid,
            kind: request.kind,
            group: request.resource.group,
            resource: request.resource.resource,
            subresource: request.sub_resource.unwrap_or_default(),
            name: request.name.unwrap_or_default(),
            namespace: request.namespace.unwrap_or_default(),
            operation,
            user: User {
                name: request.user_info.username,
                groups: request.user_info.groups,
                extra: request.user_info.extra,
            },
            dry_run: request.dry_run.unwrap_or(false),
            propagation,
            objects: objects(request.object, request.old_object),
        })
    }

    /// The objects.
    ///
    /// # Errors
    /// One of them is not a JSON object, or is nested too deeply.
    pub fn objects(&self) -> Result<&Objects, &str> {
        self.objects.as_ref().map_err(String::as_str)
    }

    /// The edit that the request makes with these objects.
    pub fn edit<'e>(&'e self, objects: &'e Objects) -> Edit<'e> {
        let (object, old) = (objects.object.as_ref(), objects.old.as_ref());
        let named = |object: &'e Value| object.at("metadata.name")?.as_str();
        let name = match self.name.as_str() {
            "" => object
                .and_then(named)
                .or_else(|| old.and_then(named))
                .unwrap_or_default(),
            name => name,
        };
        Edit {
            operation: self.operation,
            subresource: &self.subresource,
            namespace: &self.namespace,
            name,
            object,
            old: old.map(|old| old as &dyn Stored),
            propagation: self.propagation,
            user: &self.user,
            dry_run: self.dry_run,
        }
    }
}

/// The propagation policy of a deletion, if the request specifies one.
fn propagation<O>(request: &EnvelopeRequest<O>) -> Option<Propagation> {
    let options = request.options.as_ref()?;
    let policy = options.propagation_policy.as_deref().and_then(Propagation::parse);
    let orphan = |orphan| {
        if orphan {
            Propagation::Orphan
        } else {
            Propagation::Background
        }
    };
    policy.or(options.orphan_dependents.map(orphan))
}

fn read_text<O: DeserializeOwned + Into<Value>>(field: &str, text: Option<&RawValue>) -> Result<Option<Value>, String> {
    let read = text.map(|text| serde_json::from_str::<O>(text.get())).transpose();
    let object = read.map_err(|error| format!("request.{field}: {error}"))?;
    Ok(object.map(Into::into))
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
    fn fields_that_no_rule_reads_are_skipped() {
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
            let request = Request::read(body.as_bytes(), reads_status).unwrap();
            let objects = request.objects().unwrap();
            assert_eq!(objects.object.as_ref(), Some(&expected));
            assert_eq!(objects.old.as_ref(), Some(&expected));
        }
    }

    #[test]
    fn w211_a_body_that_is_not_an_object_has_a_reason_without_names_of_types() {
        let list = format!(r#"["admission.k8s.io/v1","AdmissionReview",{BARE}]"#);
        for body in ["", "[]", "null", "review", &list] {
            let error = Request::read(body.as_bytes(), true).unwrap_err();
            assert_eq!(error.0, "the body is not a JSON object", "{body}");
        }
        assert!(Request::read(format!("\n {}", review(BARE)).as_bytes(), true).is_ok());
    }

    #[test]
    fn the_objects_are_read_in_any_order_and_a_second_one_is_refused() {
        let [object, old] = [r#""object":{"spec":{"a":1}}"#, r#""oldObject":{"spec":{"a":2}}"#];
        let request = |objects: &str| review(&BARE.replace("\"UPDATE\"", &format!("\"UPDATE\",{objects}")));
        for objects in [format!("{object},{old}"), format!("{old},{object}")] {
            let body = request(&objects);
            let read = Request::read(body.as_bytes(), true).unwrap();
            let objects = read.objects().unwrap();
            let spec = |object: &Value| object.at("spec.a").cloned();
            assert_eq!(objects.object.as_ref().and_then(spec), Some(1.into()));
            assert_eq!(objects.old.as_ref().and_then(spec), Some(2.into()));
        }
        for twice in [object, old] {
            let body = request(&format!("{twice},{twice}"));
            let error = Request::read(body.as_bytes(), true).unwrap_err().to_string();
            assert!(error.contains("duplicate field"), "{error}");
        }
    }

    #[test]
    fn an_object_that_is_not_a_json_object_is_unreadable_and_the_envelope_is_readable() {
        for text in ["[1]", "\"x\"", "3", "{\"metadata\":[]}"] {
            for field in ["object", "oldObject"] {
                let body = review(&BARE.replace("\"UPDATE\"", &format!("\"UPDATE\",\"{field}\":{text}")));
                let request = Request::read(body.as_bytes(), true).unwrap();
                let reason = request.objects().unwrap_err();
                assert!(reason.starts_with(&format!("request.{field}: ")), "{reason}");
            }
        }
    }

    #[test]
    fn the_propagation_policy_is_read_from_the_older_field_too() {
        let of = |options: &str| {
            let body = review(&BARE.replace("\"UPDATE\"", &format!("\"DELETE\",\"options\":{options}")));
            Request::read(body.as_bytes(), false).unwrap().propagation
        };
        assert_eq!(
            of(r#"{"propagationPolicy":"Foreground"}"#),
            Some(Propagation::Foreground)
        );
        assert_eq!(of(r#"{"orphanDependents":true}"#), Some(Propagation::Orphan));
        assert_eq!(
            of(r#"{"orphanDependents":true,"propagationPolicy":"Background"}"#),
            Some(Propagation::Background)
        );
        assert_eq!(of("{}"), None);
        assert_eq!(of("null"), None);
    }

    #[test]
    fn a_body_that_is_not_a_review_is_refused_with_a_reason() {
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
            let error = Request::read(body.as_bytes(), false).unwrap_err().to_string();
            assert!(error.contains(why), "{error}");
        }
    }

    #[test]
    fn n3_what_a_response_repeats_of_a_request_is_cut() {
        let long = "x".repeat(1 << 20);
        let control = "\\u0080".repeat(1 << 18);
        for body in [
            review(&BARE.replace("\"u\"", &format!("\"{long}\""))),
            review(&BARE.replace("UPDATE", &long)),
            review(&BARE.replace("UPDATE", &control)),
            review(BARE).replace("admission.k8s.io/v1", &long),
            review(BARE).replace("AdmissionReview", &long),
            review(&BARE.replace("\"uid\"", &format!("\"uid\":\"a\",\"uid\":\"{long}\",\"uid\""))),
        ] {
            let error = Request::read(body.as_bytes(), false).unwrap_err().to_string();
            assert!(error.len() < 2 * caps::MAX_MESSAGE, "{}", error.len());
        }
    }

    #[test]
    fn an_object_that_is_nested_too_deeply_is_unreadable_and_the_envelope_is_readable() {
        let deep = format!("{}1{}", "{\"a\":".repeat(1000), "}".repeat(1000));
        let body = review(&BARE.replace("\"UPDATE\"", &format!("\"UPDATE\",\"object\":{deep}")));
        let request = Request::read(body.as_bytes(), false).unwrap();
        assert!(request.objects().unwrap_err().contains("recursion limit"));
    }
}
