//! The words for what an API server refuses, and for answers of other servers. This module decides
//! nothing, and prints no structure of the client.

use kube::core::Status;

/// The reason that the client gives to an answer without a Status.
const NO_STATUS: &str = "Failed to parse error data";

/// Whether an answer has no Status. An API server answers so for a kind that it does not serve, and
/// other servers always do.
pub(super) fn has_no_status(status: &Status) -> bool {
    status.reason == NO_STATUS
}

/// The refusal of the API server as one sentence.
pub(super) fn refusal(status: &Status) -> String {
    if has_no_status(status) {
        return format!(
            "the answer is {}, without a reason that an API server gives",
            status.code
        );
    }
    if status.code == 401 {
        return "the answer is 401 Unauthorized: the API server does not accept the credentials of the kubeconfig; \
                renew them, or log in again"
            .to_owned();
    }
    if status.message.is_empty() {
        return format!("the answer is {} {}", status.code, status.reason);
    }
    status.message.clone()
}

/// An error with its causes, each once, and without the structures of the client.
pub(super) fn sentence(error: &anyhow::Error) -> String {
    let mut parts: Vec<String> = Vec::new();
    for cause in error.chain() {
        if let Some(kube::Error::Api(status)) = cause.downcast_ref() {
            parts.push(refusal(status));
            break;
        }
        let text = cause.to_string();
        // Some errors repeat their causes.
        if parts.last().is_none_or(|last| !last.ends_with(&text)) {
            parts.push(text);
        }
    }
    parts.join(": ")
}
