//! The fields of the machine spec of the template that reach Nodes: labels, annotations and taints.
//! A Machine stores any of them, and a Node refuses those that are not valid.
//!
//! Sources: the validation of Nodes in `k8s.io/kubernetes`; the node link controller of OpenShift's
//! Machine API, which adds the labels and taints of a Machine to its Node. An edit is judged for
//! what it changes, and a set that becomes active as a whole.

use serde_json::Value;

use super::template_metadata::pairs;
use super::{Judged, Lookup, TEMPLATE};
use crate::api::machine_openshift_io::control_plane_machine_set::KIND;
use crate::cpms::template_metadata::{InvalidMetadata, invalid_metadata};
use crate::model::{
    FieldPath, Operation, RuleInfo, Verdict, Violation, ViolationKind, Warning, is_label_key, is_label_value,
};

const METADATA: &str = "cpms-node-metadata";
const TAINTS: &str = "cpms-node-taints";
const EVICTS: &str = "cpms-node-taint-evicts";
const PROVIDER_ID: &str = "cpms-provider-id-unused";

const NO_EXECUTE: &str = "NoExecute";
const EFFECTS: [&str; 3] = ["NoSchedule", "PreferNoSchedule", NO_EXECUTE];

/// Judges what an edit changes, or the whole of a set that becomes active.
pub(super) fn judge(
    old: Option<&Judged<'_>>,
    new: &Judged<'_>,
    activated: bool,
    lookup: &Lookup<'_>,
    verdict: &mut Verdict,
) {
    let known = old.filter(|_| !activated);
    judge_metadata(known, new, verdict);
    judge_taints(known, new, verdict);
    if new.is_active() {
        warn_of_evictions(known, new, lookup, verdict);
    }
    warn_of_provider_id(known, new, verdict);
}

fn path() -> FieldPath {
    FieldPath::from(TEMPLATE).child("spec")
}

fn field<'a>(set: &Judged<'a>, name: &str) -> Option<&'a Value> {
    set.machine()?.get("spec")?.get(name)
}

fn judge_metadata(known: Option<&Judged<'_>>, new: &Judged<'_>, verdict: &mut Verdict) {
    let invalid = |set: &Judged<'_>| -> Vec<InvalidMetadata> {
        let metadata = field(set, "metadata");
        invalid_metadata(&pairs(metadata, "labels"), &pairs(metadata, "annotations"))
    };
    let found = invalid(new);
    if found.is_empty() {
        return;
    }
    let known = known.map_or_else(Vec::new, invalid);
    for entry in found.into_iter().filter(|entry| !known.contains(entry)) {
        let path = path().child("metadata").child(entry.field).key(&entry.key);
        let violation = Violation::new(METADATA, path, ViolationKind::Invalid, entry.allowed);
        verdict.deny(
            violation
                .got(&Value::from(entry.value))
                .advice("correct or remove the entry: the API server refuses a Node that has it"),
        );
    }
}

/// A taint of the template.
#[derive(Clone, Copy, PartialEq)]
struct Taint<'a> {
    key: &'a str,
    value: &'a str,
    effect: &'a str,
}

impl Taint<'_> {
    /// The fields that a Node refuses: name, value, and what is allowed.
    fn violations(&self) -> impl Iterator<Item = (&'static str, &str, &'static str)> {
        const KEY: &str = "must be a name of 1 to 63 letters, digits, '-', '_' and '.', which begins and ends with a \
                           letter or digit; a DNS subdomain and '/' may precede it";
        const VALUE: &str = "must be at most 63 letters, digits, '-', '_' and '.', and begin and end with a letter or \
                             digit, if it is not empty";
        const EFFECT: &str = "must be NoSchedule, PreferNoSchedule or NoExecute";
        [
            ("key", self.key, KEY, is_label_key(self.key)),
            ("value", self.value, VALUE, is_label_value(self.value)),
            ("effect", self.effect, EFFECT, EFFECTS.contains(&self.effect)),
        ]
        .into_iter()
        .filter_map(|(field, value, allowed, is_valid)| (!is_valid).then_some((field, value, allowed)))
    }
}

fn taints<'a>(set: &Judged<'a>) -> Vec<Taint<'a>> {
    let list = field(set, "taints").and_then(Value::as_array);
    let taints = list.into_iter().flatten().map(|taint| {
        let text = |name: &str| taint.get(name).and_then(Value::as_str).unwrap_or_default();
        Taint {
            key: text("key"),
            value: text("value"),
            effect: text("effect"),
        }
    });
    taints.collect()
}

/// The taints that the edit adds, with their positions.
fn added<'a>(known: Option<&Judged<'a>>, new: &Judged<'a>) -> impl Iterator<Item = (usize, Taint<'a>)> {
    let known = known.map_or_else(Vec::new, taints);
    let all = taints(new).into_iter().enumerate();
    all.filter(move |(_, taint)| !known.contains(taint))
}

fn judge_taints(known: Option<&Judged<'_>>, new: &Judged<'_>, verdict: &mut Verdict) {
    for (position, taint) in added(known, new) {
        for (field, value, allowed) in taint.violations() {
            let path = path().child("taints").index(position).child(field);
            let violation = Violation::new(TAINTS, path, ViolationKind::Invalid, allowed);
            verdict.deny(
                violation
                    .got(&Value::from(value))
                    .advice("correct or remove the taint: the API server refuses a Node that has it"),
            );
        }
    }
}

/// Warns of a taint that evicts pods from the Nodes of machines that exist. The controller writes
/// the taints of the template to all of them at once.
fn warn_of_evictions(known: Option<&Judged<'_>>, new: &Judged<'_>, lookup: &Lookup<'_>, verdict: &mut Verdict) {
    for (position, taint) in added(known, new).filter(|(_, taint)| taint.effect == NO_EXECUTE) {
        let is_everywhere = lookup.control_plane().is_some_and(|machines| {
            machines.iter().all(|machine| {
                let mut taints = machine.spec.taints.iter();
                taints.any(|there| there.key == taint.key && there.effect == taint.effect)
            })
        });
        if is_everywhere {
            continue;
        }
        let text = format!(
            "{}: the taint {}:{NO_EXECUTE} reaches the Nodes of all machines of the set at once, also of those that \
             exist; every pod that does not tolerate it is evicted",
            path().child("taints").index(position),
            taint.key
        );
        verdict.warn(Warning::new(EVICTS, text));
    }
}

fn warn_of_provider_id(known: Option<&Judged<'_>>, new: &Judged<'_>, verdict: &mut Verdict) {
    const FIELD: &str = "providerID";
    let id = |set: &Judged<'_>| field(set, FIELD).filter(|id| !id.is_null()).cloned();
    let there = id(new);
    if there.is_some() && known.and_then(id) != there {
        let text = format!(
            "{}: no machine gets this value: the controller of the Machine API sets the providerID of each instance; \
             remove the field",
            path().child(FIELD)
        );
        verdict.warn(Warning::new(PROVIDER_ID, text));
    }
}

pub(super) fn table() -> Vec<RuleInfo> {
    const BOTH: &[Operation] = &[Operation::Create, Operation::Update];
    let rule =
        |id, field: &str, message| RuleInfo::webhook(id, KIND, &format!("{TEMPLATE}.spec.{field}"), BOTH, message);
    vec![
        rule(
            METADATA,
            "metadata",
            "the API server accepts the labels and annotations of Nodes",
        ),
        rule(TAINTS, "taints[]", "the API server accepts the taints of Nodes"),
        rule(
            EVICTS,
            "taints[]",
            "warns of a taint that evicts pods from the Nodes of machines that exist",
        ),
        rule(
            PROVIDER_ID,
            "providerID",
            "warns of the id of an instance, which no machine gets",
        ),
    ]
}
