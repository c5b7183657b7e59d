//! Reads the audit log: who asked the API server for what, and what came of it. For counting writes.

use anyhow::{Context, Result};
use serde::Deserialize;

use super::plane::ControlPlane;

/// The file in the control plane's folder.
pub(super) const LOG: &str = "audit.log";

/// One request, as it was answered (`audit.k8s.io/v1` Event, level Metadata).
#[derive(Clone, Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct AuditEvent {
    /// `get`, `create`, `update`, `patch`, `delete`, `watch`, …
    pub verb: String,
    /// Path and query.
    #[serde(rename = "requestURI")]
    pub request_uri: String,
    /// Who asked.
    pub user: AuditUser,
    /// What it was about; absent for paths that are no resource.
    pub object_ref: Option<AuditObject>,
    /// The answer.
    pub response_status: Option<AuditStatus>,
}

/// Who asked.
#[derive(Clone, Debug, Deserialize)]
pub struct AuditUser {
    /// The name.
    #[serde(default)]
    pub username: String,
}

/// What a request was about. Empty where the request did not say.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct AuditObject {
    /// The API group; empty for the core group.
    pub api_group: String,
    /// The plural name.
    pub resource: String,
    /// Such as `status` or `scale`.
    pub subresource: String,
    /// Empty for objects of the whole cluster.
    pub namespace: String,
    /// Empty for lists, and for creations with a generated name.
    pub name: String,
}

/// What was answered.
#[derive(Clone, Debug, Deserialize)]
pub struct AuditStatus {
    /// The HTTP code.
    #[serde(default)]
    pub code: u16,
}

impl AuditEvent {
    /// Whether it changed something: a verb that writes, not refused, not a dry run.
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
    /// All requests so far, oldest first. Needs [`super::Options::audit`]. A request appears when it has been answered.
    ///
    /// # Errors
    /// There is no log, or it holds something else.
    pub fn audit_events(&self) -> Result<Vec<AuditEvent>> {
        let path = self.folder().join(LOG);
        let text = std::fs::read_to_string(&path).with_context(|| format!("reading {}", path.display()))?;
        // The last line may be half written.
        let whole = text.rfind('\n').map_or("", |end| text.get(..end).unwrap_or_default());
        whole
            .lines()
            .map(|line| serde_json::from_str(line).with_context(|| format!("reading {line}")))
            .collect()
    }
}
