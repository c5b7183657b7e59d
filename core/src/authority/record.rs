//! The record of what the sync controller copied to a mirror, in an annotation of the mirror.
//!
//! The record makes three decisions possible. A label or an annotation that the source loses is
//! removed from the mirror, and one that a user set on the mirror stays. The fingerprint of the
//! source tells whether the mirror was made from the source as it is now (decision 26). A
//! difference that was there after the last write is not written again, so that a default of the
//! API server does not cause endless writes.
//!
//! Must never: fail because of a record that cannot be read. It counts as absent.

use std::collections::{BTreeMap, BTreeSet};

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use super::pair::{FullObject, Pair};
use super::spec::{Api, PairMember};
use crate::api::machine_openshift_io::authority::MIRRORED;

/// The record.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Record {
    /// The API from which the object was copied, as in `spec.authoritativeAPI`.
    #[serde(default)]
    pub(super) from: String,
    /// The fingerprint of the source.
    #[serde(default)]
    pub(super) fingerprint: String,
    /// A hash of the spec that was wanted.
    #[serde(default)]
    pub(super) spec: String,
    /// The keys of the labels that were copied.
    #[serde(default, skip_serializing_if = "BTreeSet::is_empty")]
    pub(super) labels: BTreeSet<String>,
    /// The keys of the annotations that were copied.
    #[serde(default, skip_serializing_if = "BTreeSet::is_empty")]
    pub(super) annotations: BTreeSet<String>,
    /// A hash of the difference between the wanted and the stored spec that the last write tried to
    /// remove.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) tried: Option<String>,
    /// The creation of the object was requested, and the sync controller has not seen the object
    /// beside its source yet. A creation may arrive after the source is gone.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub(super) requested: bool,
}

impl Record {
    /// The record of a mirror.
    pub(super) fn of(mirror: &FullObject) -> Self {
        let text = mirror.annotation(MIRRORED).unwrap_or_default();
        serde_json::from_str(text).unwrap_or_default()
    }

    /// Whether an object has a record, also one that cannot be read.
    pub(super) fn is_on(member: &PairMember) -> bool {
        member.annotations.contains_key(MIRRORED)
    }

    /// Whether an object was copied from an API.
    pub(super) fn is_copy_from(member: &PairMember, api: Api) -> bool {
        let text = member.annotations.get(MIRRORED).map(String::as_str);
        let record = serde_json::from_str(text.unwrap_or_default());
        record.is_ok_and(|record: Self| record.from == api.as_str())
    }

    /// The record as the value of the annotation.
    pub(super) fn text(&self) -> String {
        serde_json::to_string(self).unwrap_or_default()
    }
}

/// Whether the first copy of a Machine that was created in the Machine API for Cluster API has not
/// ended: the Machine exists in Cluster API, and its infrastructure machine does not. So it has no
/// instance.
pub(super) fn is_unfinished_copy(pair: &Pair) -> bool {
    let is_first = |machine: &FullObject| {
        machine.member.is_paused_by_sync() && Record::of(machine).from == Api::MachineApi.as_str()
    };
    !pair.is_parent() && pair.infrastructure.is_none() && pair.cluster_api.as_ref().is_some_and(is_first)
}

/// Whether a Machine of the Machine API is the mirror of a Machine that was gone before the
/// creation of the mirror arrived. A mirror that is restored from a backup was seen beside its
/// source before.
pub(super) fn is_late_copy(pair: &Pair) -> bool {
    let record = pair.machine_api.as_ref().map(Record::of);
    let is_new = record.is_some_and(|record| record.requested && record.from == Api::ClusterApi.as_str());
    is_new && !pair.is_parent() && pair.cluster_api.is_none() && pair.infrastructure.is_none()
}

/// The merge patch of the labels or annotations of a mirror: every wanted entry is set, an entry
/// that was copied before and is not wanted any more is removed, and all others stay. Empty if
/// nothing changes.
pub(super) fn merge_entries(
    wanted: &Map<String, Value>,
    stored: &BTreeMap<String, String>,
    copied: &BTreeSet<String>,
) -> Map<String, Value> {
    let text = |key: &String| stored.get(key).map(String::as_str);
    let mut patch = Map::new();
    for (key, value) in wanted.iter().filter(|(key, value)| value.as_str() != text(key)) {
        patch.insert(key.clone(), value.clone());
    }
    let is_lost = |key: &&String| !wanted.contains_key(*key) && stored.contains_key(*key);
    patch.extend(copied.iter().filter(is_lost).map(|key| (key.clone(), Value::Null)));
    patch
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_label_of_a_user_stays_and_a_label_that_the_source_lost_is_removed() {
        let Value::Object(wanted) = json!({"kept": "1", "changed": "2", "new": "3"}) else {
            return;
        };
        let stored = [("kept", "1"), ("changed", "0"), ("lost", "x"), ("of-a-user", "y")];
        let stored = stored.map(|(key, value)| (key.to_owned(), value.to_owned())).into();
        let copied = ["kept", "changed", "lost", "gone"].map(str::to_owned).into();
        let patch = merge_entries(&wanted, &stored, &copied);
        assert_eq!(Value::Object(patch), json!({"changed": "2", "new": "3", "lost": null}));
    }

    #[test]
    fn a_record_that_cannot_be_read_counts_as_absent() {
        let object = |text: &str| FullObject::from(json!({"metadata": {"annotations": {MIRRORED: text}}}));
        assert_eq!(Record::of(&object("?")), Record::default());
        let record = Record {
            from: String::from("MachineAPI"),
            fingerprint: String::from("1"),
            labels: [String::from("a")].into(),
            ..Record::default()
        };
        assert_eq!(Record::of(&object(&record.text())), record);
    }
}
