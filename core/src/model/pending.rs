//! Pending creations: machines that a controller has requested, and that the API server may still
//! create.
//!
//! A controller records a creation in an annotation of the object that it reconciles before it
//! sends the request. The next process and the next leader read the record there, and count a
//! machine that may still be created. The record is data with one codec, a compact JSON array. No
//! program reads the condition that describes the pending creations to users.
//!
//! An annotation that cannot be decoded is an error. If it were an empty list, the controller would
//! create a second machine. Nothing here decides when a creation is over.

use std::collections::BTreeMap;
use std::fmt;

use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use super::Precondition;

/// The annotation with the pending creations of an object.
pub const PENDING_CREATIONS: &str = "capstan.dev/pending-creations";

/// A machine that was requested.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct PendingCreation {
    /// The index in the control plane that the machine is for.
    pub index: u32,
    /// The name of the machine.
    pub machine: String,
    /// The identity of the process that requested it.
    pub requested_by: String,
    /// When that process requested it, by its own clock.
    pub requested_at: Timestamp,
    /// The revision that the machine is created from, if its own record of it may be lost.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub revision: Option<String>,
}

impl PendingCreation {
    /// Whether both are requests for the same machine.
    pub fn is_for_machine_of(&self, other: &Self) -> bool {
        self.is_for(other.index, &other.machine)
    }

    /// Whether this is a request for a machine of this name and index.
    pub fn is_for(&self, index: u32, machine: &str) -> bool {
        self.index == index && self.machine == machine
    }
}

/// The form of conditions.
impl fmt::Display for PendingCreation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "machine {} for index {}, requested by {} at {}",
            self.machine, self.index, self.requested_by, self.requested_at
        )
    }
}

/// The annotation [`PENDING_CREATIONS`] exists and is not a list of pending creations.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("annotation {PENDING_CREATIONS} cannot be read ({0})")]
pub struct UnreadablePendingCreations(String);

/// The pending creations in the annotations of an object, in the order in which they were recorded.
/// Fields of a newer version are ignored.
///
/// # Errors
/// The annotation exists and cannot be decoded.
pub fn pending_creations(
    annotations: &BTreeMap<String, String>,
) -> Result<Vec<PendingCreation>, UnreadablePendingCreations> {
    let Some(text) = annotations.get(PENDING_CREATIONS) else {
        return Ok(Vec::new());
    };
    serde_json::from_str(text).map_err(|error| UnreadablePendingCreations(error.to_string()))
}

/// The JSON merge patch that replaces the recorded pending creations with these. Without pending
/// creations, it removes the annotation.
pub fn pending_creations_patch(creations: &[PendingCreation], precondition: &Precondition) -> Value {
    let text = if creations.is_empty() {
        Value::Null
    } else {
        // Numbers, strings and times always serialise. An empty text would be an error for the
        // reader, which creates no machine then.
        Value::from(serde_json::to_string(creations).unwrap_or_default())
    };
    let mut metadata = precondition.metadata();
    metadata.insert("annotations".to_owned(), json!({ PENDING_CREATIONS: text }));
    json!({ "metadata": metadata })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn creation(index: u32) -> PendingCreation {
        PendingCreation {
            index,
            machine: format!("a-{index}"),
            requested_by: "one; two at three".to_owned(),
            requested_at: "2026-01-01T01:00:00Z".parse().unwrap(),
            revision: None,
        }
    }

    fn precondition() -> Precondition {
        Precondition {
            uid: "u".to_owned(),
            resource_version: "7".to_owned(),
        }
    }

    fn annotations(text: &str) -> BTreeMap<String, String> {
        [(PENDING_CREATIONS.to_owned(), text.to_owned())].into()
    }

    #[test]
    fn a_recorded_list_is_read_again() {
        let recorded = [creation(0), creation(2)];
        let patch = pending_creations_patch(&recorded, &precondition());
        let text = patch["metadata"]["annotations"][PENDING_CREATIONS].as_str().unwrap();
        let first =
            r#"[{"index":0,"machine":"a-0","requestedBy":"one; two at three","requestedAt":"2026-01-01T01:00:00Z"},"#;
        assert!(text.starts_with(first), "{text}");
        assert_eq!(pending_creations(&annotations(text)), Ok(recorded.to_vec()));
        assert_eq!(patch["metadata"]["uid"], "u");
        assert_eq!(patch["metadata"]["resourceVersion"], "7");
    }

    #[test]
    fn an_empty_list_removes_the_annotation() {
        let patch = pending_creations_patch(&[], &precondition());
        assert_eq!(patch["metadata"]["annotations"], json!({ PENDING_CREATIONS: null }));
        assert_eq!(pending_creations(&BTreeMap::new()), Ok(Vec::new()));
    }

    #[test]
    fn an_annotation_that_cannot_be_decoded_is_an_error() {
        for text in [
            "",
            "null",
            "{}",
            "[",
            "machine a-0 for index 0",
            r#"[{"index":0}]"#,
            r#"[{"index":-1,"machine":"a","requestedBy":"b","requestedAt":"2026-01-01T01:00:00Z"}]"#,
            r#"[{"index":0,"machine":"a","requestedBy":"b","requestedAt":"yesterday"}]"#,
        ] {
            let error = pending_creations(&annotations(text)).unwrap_err().to_string();
            assert!(
                error.starts_with("annotation capstan.dev/pending-creations"),
                "{text}: {error}"
            );
        }
    }

    #[test]
    fn fields_of_a_newer_version_are_ignored() {
        let text = r#"[{"index":0,"machine":"a-0","requestedBy":"b","requestedAt":"2026-01-01T01:00:00Z","zone":"c"}]"#;
        let read = pending_creations(&annotations(text)).unwrap();
        assert!(read.iter().any(|creation| creation.is_for(0, "a-0")));
    }
}
