//! The answer: an AdmissionReview in the documented format. The type of the crate `kube` writes a
//! patch as numbers, and denies with code 0 (decision 19).

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD as BASE64;
use serde::Serialize;

use super::caps;
use crate::api::kind::KindInfo;
use crate::model::{Verdict, Violation, ViolationKind, refusal_link, shorten};

/// The whole answer.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Review<'a> {
    api_version: &'static str,
    kind: &'static str,
    response: Response<'a>,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Response<'a> {
    uid: &'a str,
    allowed: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    status: Option<&'a Status>,
    #[serde(skip_serializing_if = "Option::is_none")]
    patch: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    patch_type: Option<&'static str>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    warnings: Vec<&'a str>,
}

/// `metav1.Status`: the reason of a refusal.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Status {
    /// Always `Failure`.
    pub status: &'static str,
    /// An explanation for users.
    pub message: String,
    /// The reason for programs: `Invalid`, `Forbidden`, `BadRequest`, `InternalError`.
    pub reason: &'static str,
    /// The object and its fields.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub details: Option<Details>,
    /// HTTP status code.
    pub code: u16,
}

/// The object and its fields.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Details {
    /// Name of the object.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub name: String,
    /// API group of the object.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub group: String,
    /// Kind of the object.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub kind: String,
    /// One entry for each field.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub causes: Vec<Cause>,
}

/// The violation of one field.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Cause {
    /// The reason, such as `FieldValueInvalid`.
    pub reason: &'static str,
    /// The value of the field, what is allowed, and what to do instead.
    pub message: String,
    /// The path of the field.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub field: String,
}

impl Status {
    /// A refusal without causes.
    pub fn plain(code: u16, reason: &'static str, message: impl Into<String>) -> Self {
        Self {
            status: "Failure",
            message: shorten(&message.into(), caps::MAX_MESSAGE),
            reason,
            details: None,
            code,
        }
    }
}

/// The status of a refusal, as Kubernetes writes it: 403 Forbidden for an operation that is refused
/// as a whole, 422 Invalid for fields.
pub(super) fn deny_status(kind: &KindInfo, name: &str, violations: &[Violation]) -> Status {
    let whole = violations
        .iter()
        .all(|violation| violation.path.is_root() && violation.kind == ViolationKind::Forbidden);
    let (violations, more) = caps::violations(violations);
    let name = &*shorten(name, caps::MAX_NAME);
    // kubectl shows the causes if there are any, and else the message. Both end with the link.
    let link = refusal_link(violations).map_or_else(String::new, |link| format!(" ({link})"));
    let mut causes: Vec<Cause> = violations
        .iter()
        .map(|violation| Cause {
            reason: violation.kind.reason(),
            message: shorten(&violation.detail(), caps::MAX_MESSAGE),
            field: shorten(violation.path.as_str(), caps::MAX_MESSAGE),
        })
        .collect();
    if let Some(last) = causes.last_mut() {
        last.message.push_str(&link);
    }
    let and_more = (more > 0).then(|| format!("and {more} more"));
    let details = |title: &str| Details {
        name: name.to_owned(),
        group: kind.group.to_string(),
        kind: title.to_owned(),
        causes,
    };
    if whole {
        let reasons = violations
            .iter()
            .map(|violation| shorten(&violation.plainly(), caps::MAX_MESSAGE));
        let reasons: Vec<String> = reasons.chain(and_more).collect();
        let message = format!(
            "{} {name:?} is forbidden: {}{link}",
            qualified(&kind.plural, &kind.group),
            reasons.join("; ")
        );
        return Status {
            status: "Failure",
            message,
            reason: "Forbidden",
            details: Some(details(&kind.plural)),
            code: 403,
        };
    }
    let reasons = violations
        .iter()
        .map(|violation| shorten(&violation.to_string(), caps::MAX_MESSAGE));
    let mut reasons: Vec<String> = reasons.chain(and_more).collect();
    let reasons = if reasons.len() == 1 {
        reasons.remove(0)
    } else {
        format!("[{}]", reasons.join(", "))
    };
    let message = format!(
        "{} {name:?} is invalid: {reasons}{link}",
        qualified(&kind.kind, &kind.group)
    );
    Status {
        status: "Failure",
        message,
        reason: "Invalid",
        details: Some(details(&kind.kind)),
        code: 422,
    }
}

fn qualified(kind: &str, group: &str) -> String {
    if group.is_empty() {
        kind.to_owned()
    } else {
        format!("{kind}.{group}")
    }
}

/// The bytes of an answer.
pub(super) fn encode(
    uid: &str,
    status: Option<&Status>,
    verdict: &Verdict,
    patch: Option<&json_patch::Patch>,
) -> Vec<u8> {
    let patch = patch
        .filter(|patch| status.is_none() && !patch.0.is_empty())
        .and_then(|patch| serde_json::to_vec(patch).ok());
    let review = Review {
        api_version: "admission.k8s.io/v1",
        kind: "AdmissionReview",
        response: Response {
            uid,
            allowed: status.is_none(),
            status,
            patch_type: patch.as_ref().map(|_| "JSONPatch"),
            patch: patch.map(|patch| BASE64.encode(patch)),
            warnings: verdict.warnings.iter().map(|warning| warning.text.as_str()).collect(),
        },
    };
    // Strings and numbers always serialise, and an answer is always required.
    serde_json::to_vec(&review).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    const THINGS: KindInfo = KindInfo::namespaced("g.io", "v1", "Thing", "things");

    #[test]
    fn an_operation_that_is_refused_as_a_whole_is_forbidden() {
        let violation = Violation::new(
            "r",
            "",
            ViolationKind::Forbidden,
            "foreground deletion deletes the machines",
        )
        .advice("use another propagation policy");
        let status = deny_status(&THINGS, "cluster", &[violation]);
        assert_eq!((status.code, status.reason), (403, "Forbidden"));
        assert_eq!(
            status.message,
            "things.g.io \"cluster\" is forbidden: foreground deletion deletes the machines; use another propagation policy [r] \
             (https://github.com/capstan-dev/capstan/blob/main/docs/rules.md#r)"
        );
    }

    #[test]
    fn fields_that_are_refused_make_the_object_invalid() {
        let violations = [
            Violation::new("a", "spec.a", ViolationKind::Invalid, "x").got(&json!(1)),
            Violation::new("b", "spec.b", ViolationKind::Forbidden, "y"),
        ];
        let status = deny_status(&THINGS, "cluster", &violations);
        assert_eq!((status.code, status.reason), (422, "Invalid"));
        assert_eq!(
            status.message,
            "Thing.g.io \"cluster\" is invalid: [spec.a: Invalid value: 1: x [a], spec.b: Forbidden: y [b]] \
             (https://github.com/capstan-dev/capstan/blob/main/docs/rules.md)"
        );
        let causes = status.details.unwrap().causes;
        assert_eq!(causes[0].message, "Invalid value: 1: x [a]");
        assert!(
            causes[1]
                .message
                .ends_with("y [b] (https://github.com/capstan-dev/capstan/blob/main/docs/rules.md)")
        );
    }

    #[test]
    fn n2_a_refusal_with_many_long_violations_has_a_bounded_size() {
        let violations: Vec<Violation> = (0..10_000)
            .map(|number| {
                let path = format!("spec.{}[{number}]", "x".repeat(10_000));
                Violation::new("r", path.as_str(), ViolationKind::Invalid, "y".repeat(10_000))
            })
            .collect();
        let status = deny_status(&THINGS, &"n".repeat(10_000), &violations);
        assert!(
            status.message.contains("and 9968 more] (https://"),
            "the others are counted"
        );
        let answer = encode("u", Some(&status), &Verdict::default(), None);
        assert!(answer.len() < 256 << 10, "{}", answer.len());
        let plain = Status::plain(400, "BadRequest", "z".repeat(1 << 20));
        assert!(encode("u", Some(&plain), &Verdict::default(), None).len() < 4096);
    }

    #[test]
    fn a_patch_is_base64_and_a_refusal_has_none() {
        let patch: json_patch::Patch =
            serde_json::from_value(json!([{"op": "add", "path": "/spec/a", "value": 1}])).unwrap();
        let answer: Value = serde_json::from_slice(&encode("u", None, &Verdict::default(), Some(&patch))).unwrap();
        let encoded = answer.pointer("/response/patch").and_then(Value::as_str).unwrap();
        assert_eq!(BASE64.decode(encoded).unwrap(), serde_json::to_vec(&patch).unwrap());
        assert_eq!(answer.pointer("/response/patchType"), Some(&json!("JSONPatch")));
        let denied = Status::plain(400, "BadRequest", "no");
        let answer: Value =
            serde_json::from_slice(&encode("u", Some(&denied), &Verdict::default(), Some(&patch))).unwrap();
        assert_eq!(answer.pointer("/response/patch"), None);
    }
}
