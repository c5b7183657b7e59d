//! A read or a write that failed: which step, on which object, why, and what to do about it.

use std::fmt;

/// A step that failed.
#[derive(Debug)]
pub struct StepError {
    /// What was being done, such as `deleting Thing one`.
    step: String,
    source: kube::Error,
    /// Whether the API server accepted the write, and stored something else.
    not_stored: bool,
}

impl StepError {
    /// A failed step, named as in `deleting Thing one`.
    pub fn new(step: impl Into<String>, source: kube::Error) -> Self {
        Self {
            step: step.into(),
            source,
            not_stored: false,
        }
    }

    /// A write that the API server accepted without storing these fields.
    pub(super) fn not_stored(step: impl Into<String>, fields: &[String]) -> Self {
        let text = format!(
            "the API server accepted the write and did not store {}",
            fields.join(", ")
        );
        Self {
            not_stored: true,
            ..Self::new(step, kube::Error::Service(text.into()))
        }
    }

    /// The object changed since it was read. The next reconcile decides anew.
    pub fn is_conflict(&self) -> bool {
        matches!(&self.source, kube::Error::Api(status) if status.code == 409)
    }

    /// There is no such object.
    pub fn is_not_found(&self) -> bool {
        matches!(&self.source, kube::Error::Api(status) if status.code == 404)
    }

    /// The API server refused, so the write did not happen. Without an answer, or after an internal
    /// error of the server, the outcome is unknown.
    pub fn is_refusal(&self) -> bool {
        matches!(&self.source, kube::Error::Api(status) if (400..500).contains(&status.code))
    }

    /// A rule of the schema or of admission refused, or took fields out of the write. The same
    /// happens to the same request again.
    pub fn is_by_rule(&self) -> bool {
        if self.not_stored {
            return true;
        }
        let kube::Error::Api(status) = &self.source else {
            return false;
        };
        status.code == 422 || (status.code == 403 && is_denial(&status.message))
    }

    /// The fields that other field managers own with another value, if an apply conflicts with
    /// them.
    pub fn field_conflicts(&self) -> Vec<String> {
        let kube::Error::Api(status) = &self.source else {
            return Vec::new();
        };
        let causes = status.details.iter().flat_map(|details| &details.causes);
        causes
            .filter(|cause| status.code == 409 && cause.reason == "FieldManagerConflict")
            .map(|cause| cause.field.clone())
            .collect()
    }

    fn advice(&self) -> &'static str {
        if self.not_stored {
            return "a webhook or an admission policy of the cluster takes the fields out: change it; the write is repeated after \
                    two minutes";
        }
        let kube::Error::Api(status) = &self.source else {
            return "is the API server reachable? Retrying";
        };
        match status.code {
            401 => "the API server does not accept Capstan's credentials: check its service account",
            403 if is_denial(&status.message) => "an admission policy refuses the write: see its message",
            403 => "grant Capstan this permission: see manifests/components/controllers/rbac.yaml",
            404 => "does the cluster serve this kind? See capstan manifests crds",
            409 => "the object changed in the meantime; it is reconciled again",
            422 => "the API server finds the object invalid: correct what the message names",
            429 | 500..=599 => "the API server is overloaded or failing; retrying",
            _ => "retrying",
        }
    }
}

/// Whether a policy or a webhook refused, as opposed to a missing permission.
fn is_denial(message: &str) -> bool {
    ["denied the request", "denied request"]
        .iter()
        .any(|says| message.contains(says))
}

impl fmt::Display for StepError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let reason = match &self.source {
            kube::Error::Api(status) => status.message.clone(),
            other => other.to_string(),
        };
        write!(f, "{}: {reason} ({})", self.step, self.advice())
    }
}

impl std::error::Error for StepError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        Some(&self.source)
    }
}
