//! The warning about annotations of Capstan's domain that Capstan does not know: a misspelt one
//! would be ignored, also if it pauses a rollout.

use serde_json::Value;

use crate::api::machine_openshift_io::control_plane_machine_set::KIND;
use crate::cpms::changes::ROLL_ON_IMAGE_CHANGE;
use crate::cpms::pending_creates::LAST_CREATED;
use crate::cpms::spec::{PAUSED_ROLLOUT, PROGRESS_DEADLINE, RECREATE_ACKNOWLEDGED, ROLLOUT_LIMIT};
use crate::model::distance;
use crate::model::{Operation, PENDING_CREATIONS, RuleInfo, Stored, Verdict, Warning};

use super::domains::ACKNOWLEDGE;

const RULE: &str = "cpms-annotation-unknown";
const DOMAIN: &str = "capstan.dev";

/// What users may set.
const KNOWN: [&str; 6] = [
    ACKNOWLEDGE,
    PAUSED_ROLLOUT,
    PROGRESS_DEADLINE,
    RECREATE_ACKNOWLEDGED,
    ROLLOUT_LIMIT,
    ROLL_ON_IMAGE_CHANGE,
];
/// What Capstan writes.
const OWN: [&str; 4] = [
    PENDING_CREATIONS,
    LAST_CREATED,
    "capstan.dev/generated",
    "capstan.dev/last-repairs",
];

/// Warns of the annotations that an edit adds and that Capstan does not know.
pub(super) fn warn(old: Option<&dyn Stored>, object: &Value, verdict: &mut Verdict) {
    let all = object.pointer("/metadata/annotations").and_then(Value::as_object);
    let before = old.and_then(|old| old.at("metadata.annotations"));
    let unknown = all.into_iter().flatten().filter(|(key, _)| {
        let key = key.as_str();
        let is_known = KNOWN.contains(&key) || OWN.contains(&key);
        let domain = key.split_once('/').map(|(domain, _)| domain);
        domain == Some(DOMAIN) && !is_known && before.is_none_or(|before| before.get(key).is_none())
    });
    for (key, _) in unknown.take(4) {
        let similar = KNOWN.iter().filter_map(|known| Some((distance(known, key)?, known)));
        let hint = similar
            .min()
            .map_or_else(String::new, |(_, known)| format!(" (did you mean {known}?)"));
        let text = format!("metadata.annotations[{key}]: Capstan knows no such annotation{hint}, and ignores it");
        verdict.warn(Warning::new(RULE, text));
    }
}

pub(super) fn table() -> Vec<RuleInfo> {
    const BOTH: &[Operation] = &[Operation::Create, Operation::Update];
    let message = "warns of annotations of Capstan's domain that Capstan does not know";
    vec![RuleInfo::webhook(RULE, KIND, "metadata.annotations", BOTH, message)]
}
