//! Reads the audit log of the API server: the requests, their users and the response codes. Tests
//! count writes with it.

use anyhow::{Context, Result};
use serde::Deserialize;

use super::plane::{AUDIT_LOG, ControlPlane};

/// One answered request (an Event of `audit.k8s.io/v1`, level Metadata).
#[derive(Clone, Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct AuditEvent {
    /// `get`, `create`, `update`, `patch`, `delete`, `watch`, …
    pub verb: String,
    /// Path and query.
    #[serde(rename = "requestURI")]
    pub request_uri: String,
    /// The user that sent the request.
    pub user: AuditUser,
    /// The program that sent the request.
    #[serde(default)]
    pub user_agent: String,
    /// The object of the request; absent for paths that are not resources.
    pub object_ref: Option<AuditObject>,
    /// The response.
    pub response_status: Option<AuditStatus>,
}

/// The user of a request.
#[derive(Clone, Debug, Deserialize)]
pub struct AuditUser {
    /// The name of the user.
    #[serde(default)]
    pub username: String,
}

/// The object of a request. A field that the request did not name is empty.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct AuditObject {
    /// The API group; empty for the core group.
    pub api_group: String,
    /// The plural name.
    pub resource: String,
    /// The subresource, such as `status` or `scale`.
    pub subresource: String,
    /// The namespace; empty for cluster-scoped objects.
    pub namespace: String,
    /// The name; empty for lists and for creations with a generated name.
    pub name: String,
}

/// The response to a request.
#[derive(Clone, Debug, Deserialize)]
pub struct AuditStatus {
    /// The HTTP code.
    #[serde(default)]
    pub code: u16,
}

impl AuditEvent {
    /// Whether the request is a write that was accepted and was not a dry run.
    pub fn is_write(&self) -> bool {
        let writes = matches!(
            self.verb.as_str(),
            "create" | "update" | "patch" | "delete" | "deletecollection"
        );
        let accepted = self
            .response_status
            .as_ref()
            .is_some_and(|status| (200..300).contains(&status.code));
        writes && accepted && !self.request_uri.contains("dryRun=")
    }
}

impl ControlPlane {
    /// All requests answered so far, oldest first. The control plane must have been started with
    /// [`super::Options::audit`].
    ///
    /// # Errors
    /// The log does not exist, or a line of it is not an audit event.
    pub fn audit_events(&self) -> Result<Vec<AuditEvent>> {
        let path = self.folder().join(AUDIT_LOG);
        let text = std::fs::read_to_string(&path).with_context(|| format!("reading {}", path.display()))?;
        // The API server may be in the middle of writing the last line.
        let whole = text.rfind('\n').map_or("", |end| text.get(..end).unwrap_or_default());
        whole
            .lines()
            .map(|line| serde_json::from_str(line).with_context(|| format!("reading {line}")))
            .collect()
    }
}
