//! Refusals as an API server makes them: code, reason, message and details.

use serde_json::{Value, json};

use super::kinds::Kind;

/// A cause of a refusal: the path of the field, the message, and the reason.
pub(super) type Cause = (String, String, &'static str);

/// A request that was refused; it is answered with a `Status`.
#[derive(Clone, Debug, PartialEq)]
pub struct Failure {
    /// HTTP status code.
    pub code: u16,
    /// The machine-readable reason.
    pub reason: &'static str,
    /// The human-readable message.
    pub message: String,
    /// The `details` of the `Status`; null if there are none.
    pub details: Value,
}

impl Failure {
    /// A refusal without details.
    pub fn new(code: u16, reason: &'static str, message: impl Into<String>) -> Self {
        Self {
            code,
            reason,
            message: message.into(),
            details: Value::Null,
        }
    }

    /// 400: the request cannot be understood.
    pub fn bad_request(message: impl Into<String>) -> Self {
        Self::new(400, "BadRequest", message)
    }

    pub(super) fn unknown_resource() -> Self {
        Self::new(404, "NotFound", "the server could not find the requested resource")
    }

    pub(super) fn method_not_allowed() -> Self {
        let message = "the server does not allow this method on the requested resource";
        Self::new(405, "MethodNotAllowed", message)
    }

    fn about(kind: &Kind, name: &str, code: u16, reason: &'static str, message: String) -> Self {
        let mut details = json!({"name": name, "kind": kind.plural});
        if let (false, Some(details)) = (kind.group.is_empty(), details.as_object_mut()) {
            details.insert("group".into(), kind.group.clone().into());
        }
        Self {
            code,
            reason,
            message,
            details,
        }
    }

    /// 404: the object does not exist.
    pub fn not_found(kind: &Kind, name: &str) -> Self {
        let message = format!("{} {name:?} not found", kind.resource());
        Self::about(kind, name, 404, "NotFound", message)
    }

    pub(super) fn already_exists(kind: &Kind, name: &str) -> Self {
        let message = format!("{} {name:?} already exists", kind.resource());
        Self::about(kind, name, 409, "AlreadyExists", message)
    }

    /// 409: the object differs from what the writer expects.
    pub fn conflict(kind: &Kind, name: &str, why: &str) -> Self {
        let message = format!("Operation cannot be fulfilled on {} {name:?}: {why}", kind.resource());
        Self::about(kind, name, 409, "Conflict", message)
    }

    pub(super) fn modified(kind: &Kind, name: &str) -> Self {
        let why = "the object has been modified; please apply your changes to the latest version and try again";
        Self::conflict(kind, name, why)
    }

    pub(super) fn forbidden(kind: &Kind, name: &str, why: &str) -> Self {
        let message = format!("{} {name:?} is forbidden: {why}", kind.resource());
        Self::about(kind, name, 403, "Forbidden", message)
    }

    pub(super) fn invalid(kind: &Kind, name: &str, causes: &[Cause]) -> Self {
        let texts: Vec<String> = causes.iter().map(|(path, text, _)| format!("{path}: {text}")).collect();
        let texts = match texts.as_slice() {
            [one] => one.clone(),
            all => format!("[{}]", all.join(", ")),
        };
        let message = format!("{}.{} {name:?} is invalid: {texts}", kind.kind, kind.group);
        let mut failure = Self::about(kind, name, 422, "Invalid", message);
        if let Some(details) = failure.details.as_object_mut() {
            let causes: Vec<Value> = causes
                .iter()
                .map(|(path, text, reason)| json!({"field": path, "message": text, "reason": reason}))
                .collect();
            details.insert("causes".into(), causes.into());
            details.insert("kind".into(), kind.kind.clone().into());
        }
        failure
    }

    /// 410: the requested version is older than the oldest version that is kept.
    pub fn expired() -> Self {
        Self::new(410, "Expired", "too old resource version")
    }

    /// The `Status` object of the answer.
    pub fn status(&self) -> Value {
        let mut status = json!({
            "kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Failure",
            "message": self.message, "reason": self.reason, "code": self.code,
        });
        if let (true, Some(status)) = (self.reason.is_empty(), status.as_object_mut()) {
            status.remove("reason");
        }
        if let (false, Some(status)) = (self.details.is_null(), status.as_object_mut()) {
            status.insert("details".into(), self.details.clone());
        }
        status
    }
}
