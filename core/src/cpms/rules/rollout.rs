//! Warnings of what an edit sets in motion: which fields differ, and how many machines are replaced for it.

use super::{Judged, Lookup, TEMPLATE};
use crate::api::machine_openshift_io::control_plane_machine_set::KIND;
use crate::cpms::changes::{Comparison, FieldChange, ROLL_ON_IMAGE_CHANGE, changes};
use crate::cpms::spec::{Spec, Strategy};
use crate::model::{Operation, RuleInfo, Verdict, Warning};

const ROLLOUT: &str = "cpms-rollout";
const IMAGE: &str = "cpms-image-change-waits";

pub(super) fn warn(
    old: Option<&Judged>,
    new: &Judged,
    spec: &Spec,
    activated: bool,
    lookup: &Lookup<'_>,
    verdict: &mut Verdict,
) {
    let comparison = new.comparison();
    let machines = lookup.control_plane().unwrap_or_default();
    let specs = || {
        machines
            .iter()
            .filter_map(|machine| machine.spec.provider_spec.value.as_ref())
    };
    let differing: Vec<Vec<FieldChange>> = specs()
        .map(|machine| changes(&spec.template.provider_spec, machine, comparison))
        .filter(|changes| !changes.is_empty())
        .collect();
    let edited = match old.and_then(Judged::provider_spec) {
        Some(before) => changes(&spec.template.provider_spec, before, comparison),
        None => Vec::new(),
    };
    let shown = if activated || edited.is_empty() {
        differing.first().cloned().unwrap_or_default()
    } else {
        edited.clone()
    };
    let count = if lookup.machines.is_some() {
        differing.len()
    } else if edited.is_empty() {
        0
    } else {
        spec.replicas.count()
    };
    if count > 0 && (activated || !edited.is_empty()) && !shown.is_empty() {
        let fields: Vec<&str> = shown.iter().map(|change| change.field.as_str()).collect();
        let what = if activated { "activating this set" } else { "this edit" };
        let how = if spec.strategy == Strategy::OnDelete {
            "once you delete them"
        } else {
            "one at a time"
        };
        let all: Vec<String> = shown.iter().map(ToString::to_string).collect();
        verdict.warn(Warning::new(
            ROLLOUT,
            format!(
                "{what} changes {} and replaces {count} machine(s), {how}: {}",
                fields.join(", "),
                all.join("; ")
            ),
        ));
    }
    warn_of_images(old, spec, comparison, verdict);
}

fn warn_of_images(old: Option<&Judged>, spec: &Spec, comparison: Comparison, verdict: &mut Verdict) {
    let Some(before) = old.and_then(Judged::provider_spec) else {
        return;
    };
    if comparison.images {
        return;
    }
    let with_images = changes(
        &spec.template.provider_spec,
        before,
        Comparison {
            images: true,
            ..comparison
        },
    );
    let without: Vec<FieldChange> = changes(&spec.template.provider_spec, before, comparison);
    let images: Vec<&str> = with_images
        .iter()
        .filter(|change| !without.contains(change))
        .map(|change| change.field.as_str())
        .collect();
    if !images.is_empty() {
        verdict.warn(Warning::new(
            IMAGE,
            format!(
                "{TEMPLATE}.spec.providerSpec.value.{}: an image change alone replaces no machine; set the annotation \
                 {ROLL_ON_IMAGE_CHANGE}: \"true\" to roll it out",
                images.join(", ")
            ),
        ));
    }
}

pub(super) fn table() -> Vec<RuleInfo> {
    const BOTH: &[Operation] = &[Operation::Create, Operation::Update];
    let path = format!("{TEMPLATE}.spec.providerSpec.value");
    vec![
        RuleInfo::webhook(
            ROLLOUT,
            KIND,
            &path,
            BOTH,
            "warns of the machines that an edit replaces, and why",
        ),
        RuleInfo::webhook(
            IMAGE,
            KIND,
            &path,
            &[Operation::Update],
            "warns that an image change alone replaces no machine",
        ),
    ]
}
