//! What goes wrong with a write or a read, said so that a person can act on it: step, object, reason, and what to do.

use std::fmt;

/// A step that failed.
#[derive(Debug)]
pub(super) struct StepError {
    /// What was being done, such as `deleting Machine master-0`.
    step: String,
    source: kube::Error,
}

impl StepError {
    pub(super) fn new(step: impl Into<String>, source: kube::Error) -> Self {
        Self {
            step: step.into(),
            source,
        }
    }

    /// The world moved on since it was looked at: not a failure, the next look decides.
    pub(super) fn is_conflict(&self) -> bool {
        matches!(&self.source, kube::Error::Api(status) if status.code == 409)
    }

    /// The API server said no, so it was not done. Without an answer, or with a failure of the server, nobody knows.
    pub(super) fn is_refusal(&self) -> bool {
        matches!(&self.source, kube::Error::Api(status) if (400..500).contains(&status.code))
    }

    /// A rule said no, of the API server or of admission: the same is refused again.
    pub(super) fn is_by_rule(&self) -> bool {
        let kube::Error::Api(status) = &self.source else {
            return false;
        };
        status.code == 422 || (status.code == 403 && is_denial(&status.message))
    }

    fn advice(&self) -> &'static str {
        let kube::Error::Api(status) = &self.source else {
            return "is the API server reachable? It is tried again";
        };
        match status.code {
            401 => "the credentials of Capstan are not accepted: look at its service account",
            403 if is_denial(&status.message) => "an admission policy refuses it: see its message",
            403 => "grant Capstan this permission: see manifests/controllers-rbac.yaml",
            404 => "does the cluster serve this kind? See capstan manifests crds",
            409 => "it changed in the meantime; it is looked at again",
            422 => "the API server finds it invalid: correct what the message names",
            429 | 500..=599 => "the API server is busy or failing; it is tried again",
            _ => "it is tried again",
        }
    }
}

/// Whether a policy or a webhook forbids it, and not a missing permission.
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
