//! A read or a write that failed: which step, on which object, why, and what to do about it.

use std::fmt;

use kube::core::Status;

/// A step that failed.
#[derive(Debug)]
pub struct StepError {
    /// What was being done, such as `deleting Thing one`.
    step: String,
    source: kube::Error,
    cause: Cause,
}

/// What made a step fail.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Cause {
    /// The request failed.
    Request,
    /// The API server accepted the write, and stored something else.
    NotStored,
    /// The write was stored, and another program undid it.
    Undone,
    /// Others delete what is created, so the creation waits.
    DeletedAgain,
    /// Others create again what is deleted, so the deletion waits.
    CreatedAgain,
}

impl StepError {
    /// A failed step, named as in `deleting Thing one`.
    pub fn new(step: impl Into<String>, source: kube::Error) -> Self {
        Self {
            step: step.into(),
            source,
            cause: Cause::Request,
        }
    }

    /// An object that changed while others were read, so that no decision follows from them.
    pub fn changed(step: impl Into<String>) -> Self {
        let status = Status::failure("the object changed while others were read", "Conflict").with_code(409);
        Self::new(step, kube::Error::Api(Box::new(status)))
    }

    /// A write that the API server accepted without storing these fields.
    pub(super) fn not_stored(step: impl Into<String>, fields: &[String]) -> Self {
        let text = format!(
            "the API server accepted the write and did not store {}",
            fields.join(", ")
        );
        Self {
            cause: Cause::NotStored,
            ..Self::new(step, kube::Error::Service(text.into()))
        }
    }

    /// A write of these fields that another program undoes each time.
    pub(super) fn undone(step: impl Into<String>, fields: &[String]) -> Self {
        let text = format!("another program undoes each write of {}", fields.join(", "));
        Self {
            cause: Cause::Undone,
            ..Self::new(step, kube::Error::Service(text.into()))
        }
    }

    /// A creation that waits, because others deleted this object soon after its creation.
    pub(super) fn deletes_again(step: impl Into<String>, lost: &str) -> Self {
        let text = format!("another program deletes what was just created, the last one {lost}");
        Self {
            cause: Cause::DeletedAgain,
            ..Self::new(step, kube::Error::Service(text.into()))
        }
    }

    /// A deletion that waits, because others created this object again soon after its deletion.
    pub(super) fn creates_again(step: impl Into<String>, returned: &str) -> Self {
        let text = format!("another program creates again what was deleted, the last one {returned}");
        Self {
            cause: Cause::CreatedAgain,
            ..Self::new(step, kube::Error::Service(text.into()))
        }
    }

    /// The object changed since it was read. The next reconcile decides anew.
    pub fn is_conflict(&self) -> bool {
        matches!(&self.source, kube::Error::Api(status) if status.code == 409)
    }

    /// What is to be created exists already, and was created for something else. A later attempt
    /// fails in the same way.
    pub fn is_name_taken(&self) -> bool {
        matches!(&self.source, kube::Error::Api(status) if status.code == 409 && status.reason == "AlreadyExists")
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
        if matches!(self.cause, Cause::NotStored | Cause::Undone) {
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
        match self.cause {
            Cause::Request => {}
            Cause::NotStored => {
                return "a webhook or an admission policy of the cluster takes the fields out: change it; the write is repeated \
                        after two minutes";
            }
            Cause::Undone => {
                return "metadata.managedFields of the object names the program: stop it, or change what Capstan writes; the \
                        write is repeated after two minutes";
            }
            Cause::CreatedAgain => {
                return "metadata.managedFields of the object names the program: stop it, or change its manifest; until then the \
                        next one is deleted later each time, at the latest after five minutes";
            }
            Cause::DeletedAgain => {
                return "find in the audit log of the API server who deletes it, and stop that; until then the next one is \
                        created later each time, at the latest after five minutes";
            }
        }
        let kube::Error::Api(status) = &self.source else {
            return "is the API server reachable? Retrying";
        };
        match status.code {
            401 => "the API server does not accept Capstan's credentials: check its service account",
            403 | 422 if is_denial(&status.message) => "an admission policy refuses the write: see its message",
            403 => "grant Capstan this permission: see manifests/components/controllers/rbac.yaml",
            404 => "does the cluster serve this kind? See capstan manifests crds",
            409 if self.is_name_taken() => {
                "the object of this name is not the one that Capstan creates, or is being deleted: remove it, or wait"
            }
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn w124_a_policy_that_denies_a_write_is_named_as_the_cause() {
        let denied = "ValidatingAdmissionPolicy 'p' with binding 'p' denied request: failed expression: false";
        for (code, message, cause) in [
            (422, denied, "an admission policy refuses the write"),
            (403, denied, "an admission policy refuses the write"),
            (422, "spec.a: Invalid value", "the API server finds the object invalid"),
        ] {
            let status = Status::failure(message, "Invalid").with_code(code);
            let error = StepError::new("deleting Thing a", kube::Error::Api(Box::new(status)));
            assert!(error.to_string().contains(cause), "{error}");
        }
    }
}
