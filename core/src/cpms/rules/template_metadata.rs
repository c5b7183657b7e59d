//! The rule about labels and annotations of the template: the API server must accept a machine that
//! has them. It does not judge the labels of a control plane machine; see the parse for those.

use std::collections::BTreeMap;

use serde_json::Value;

use super::TEMPLATE;
use super::judged::Judged;
use crate::api::machine_openshift_io::control_plane_machine_set::KIND;
use crate::cpms::template_metadata::{InvalidMetadata, invalid_metadata};
use crate::model::{FieldPath, Operation, RuleInfo, Verdict, Violation, ViolationKind};

const RULE: &str = "cpms-template-metadata";

/// Refuses labels and annotations that the API server refuses. One that the stored set has already
/// is tolerated, until the set is activated.
pub(super) fn judge(old: Option<&Judged<'_>>, new: &Judged<'_>, activated: bool, verdict: &mut Verdict) {
    let found = invalid(new);
    if found.is_empty() {
        return;
    }
    let known = old.filter(|_| !activated).map_or_else(Vec::new, invalid);
    for entry in found.into_iter().filter(|entry| !known.contains(entry)) {
        let path = FieldPath::from(TEMPLATE)
            .child("metadata")
            .child(entry.field)
            .key(&entry.key);
        let violation = Violation::new(RULE, path, ViolationKind::Invalid, entry.allowed);
        verdict.deny(
            violation
                .got(&Value::from(entry.value))
                .advice("correct or remove the entry: the API server refuses a machine that has it"),
        );
    }
}

fn invalid(judged: &Judged<'_>) -> Vec<InvalidMetadata> {
    let metadata = judged.machine().and_then(|machine| machine.get("metadata"));
    invalid_metadata(&pairs(metadata, "labels"), &pairs(metadata, "annotations"))
}

/// The texts of a map in metadata.
pub(super) fn pairs(metadata: Option<&Value>, field: &str) -> BTreeMap<String, String> {
    let map = metadata.and_then(|metadata| metadata.get(field)?.as_object());
    let pairs = map.into_iter().flatten();
    pairs
        .filter_map(|(key, value)| Some((key.clone(), value.as_str()?.to_owned())))
        .collect()
}

/// The rule of this module.
pub(super) fn table() -> Vec<RuleInfo> {
    const BOTH: &[Operation] = &[Operation::Create, Operation::Update];
    vec![RuleInfo::webhook(
        RULE,
        KIND,
        &format!("{TEMPLATE}.metadata"),
        BOTH,
        "the API server accepts the labels and annotations of the template",
    )]
}
