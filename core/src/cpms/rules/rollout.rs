//! Warnings of the rollout that an edit starts: the fields that differ, the machines that are
//! replaced, their order and failure domains, and what the rollout waits for. The order comes from
//! the plan of the controller.

use jiff::{SignedDuration, Timestamp};
use serde_json::Value;

use super::TEMPLATE;
use super::judged::Judged;
use super::lookup::Lookup;
use super::outlook::Outlook;
use crate::api::config_openshift_io::cluster_operator::ETCD;
use crate::api::machine_openshift_io::control_plane_machine_set::KIND;
use crate::cpms::action::WaitReason;
use crate::cpms::changes::{Comparison, Difference, FieldChange, ROLL_ON_IMAGE_CHANGE, changes, differs};
use crate::cpms::observed::Observed;
use crate::cpms::plan::plan;
use crate::cpms::spec::{ROLLOUT_LIMIT, Spec, Strategy};
use crate::model::{Operation, PAUSED_ROLLOUT, RuleInfo, Verdict, Warning};

const ROLLOUT: &str = "cpms-rollout";
const BLOCKED: &str = "cpms-rollout-waits";
const IMAGE: &str = "cpms-image-change-waits";
const KNOWN: &str = "cpms-rollout-known";
/// How many fields and how many replacements a warning lists. It counts the others.
const LISTED: usize = 8;

pub(super) fn warn(
    before: Option<&Value>,
    known: Option<&Spec>,
    new: &Judged<'_>,
    spec: &Spec,
    activated: bool,
    lookup: &Lookup<'_>,
    verdict: &mut Verdict,
) {
    let comparison = new.comparison();
    let difference = before.map(|before| Difference::between(&spec.template.provider_spec, before));
    let edited = difference
        .as_ref()
        .map_or_else(Vec::new, |difference| difference.changes(comparison));
    let moves = known.is_some_and(|known| {
        known.failure_domains != spec.failure_domains
            || known.strategy != spec.strategy
            || known.rollout != spec.rollout
    });
    if activated || moves || !edited.is_empty() {
        let what = What {
            subject: if activated { "activating this set" } else { "this edit" },
            is_activation: activated,
            edited: &edited,
        };
        let changes_fields = activated || !edited.is_empty();
        match observed(lookup) {
            Some(observed) if spec.rollout.paused && !changes_fields => {
                if known.is_none_or(|known| !known.rollout.paused) {
                    warn_of_pause(spec, observed, verdict);
                }
            }
            Some(observed) => {
                // Of an edit that leaves the template as it is, only what it changes is new.
                let moved = |known: &&Spec| known.strategy == spec.strategy && !known.rollout.paused;
                let before = known.filter(|_| !changes_fields).filter(moved);
                warn_of_plan(what, before, spec, observed, verdict);
            }
            // The user must know what an edit replaces before it is stored. A paused set replaces
            // nothing.
            None if lookup.machines.is_none() && lookup.wait_for_unknown && !spec.rollout.paused => {
                let path = format!("{TEMPLATE}.spec.providerSpec.value");
                let needed_for = format!("{} may replace machines", what.subject);
                lookup.unknown(verdict, KNOWN, &path, "the control plane Machines", &needed_for);
            }
            None => estimate(what, spec, comparison, lookup, verdict),
        }
    }
    if let Some(difference) = difference.filter(|difference| !comparison.images && difference.touches_images()) {
        warn_of_images(difference, comparison, &edited, verdict);
    }
}

/// How warnings name the edit.
#[derive(Clone, Copy)]
struct What<'a> {
    /// Such as `this edit`.
    subject: &'static str,
    /// Whether all differences of the machines take effect.
    is_activation: bool,
    /// The fields of the template that it changes.
    edited: &'a [FieldChange],
}

/// The cluster, where machines and nodes are known.
fn observed(lookup: &Lookup<'_>) -> Option<Observed> {
    let (machines, nodes) = (lookup.machines?, lookup.nodes?);
    Some(Observed {
        machines: machines.to_vec(),
        nodes: nodes.values().cloned().collect(),
        infrastructure: lookup.infrastructure.cloned(),
        etcd: lookup
            .cluster_operators
            .and_then(|operators| operators.get(ETCD))
            .cloned(),
        ..Observed::default()
    })
}

/// Warns of the machines that a pause keeps as they are. The edit itself changes no machine (W130).
fn warn_of_pause(spec: &Spec, observed: Observed, verdict: &mut Verdict) {
    let now = after_everything(&observed);
    let count = Outlook::of(spec, observed, now).kept(WaitReason::Pause).len();
    if count > 0 {
        let text = format!("{count} machine(s) stay outdated while the annotation {PAUSED_ROLLOUT} pauses the rollout");
        verdict.warn(Warning::new(BLOCKED, text));
    }
}

/// Warns of the machines that stay outdated because the rollout is limited (W133).
fn warn_of_limit(spec: &Spec, stay: usize, verdict: &mut Verdict) {
    if let Some(limit) = spec.rollout.limit.filter(|_| stay > 0) {
        let text =
            format!("{stay} machine(s) stay outdated: the annotation {ROLLOUT_LIMIT} limits the rollout to {limit}");
        verdict.warn(Warning::new(BLOCKED, text));
    }
}

/// Warns of the rollout, with the plan of the controller. `before` is the stored set, if only what
/// differs from its rollout is new.
fn warn_of_plan(what: What<'_>, before: Option<&Spec>, spec: &Spec, observed: Observed, verdict: &mut Verdict) {
    let now = after_everything(&observed);
    let before = before.map(|before| Outlook::of(before, observed.clone(), now));
    let outlook = Outlook::of(spec, observed, now);
    let mut replaced = outlook.replaced();
    let limited = outlook.kept(WaitReason::Limit);
    if before
        .as_ref()
        .is_none_or(|before| before.kept(WaitReason::Limit) != limited)
    {
        warn_of_limit(spec, limited.len(), verdict);
    }
    if let Some(before) = &before {
        let before = before.replaced();
        replaced.retain(|index, changes| before.get(index) != Some(changes));
    }
    let Some(first) = replaced.values().next() else { return };
    announce(what, first, Some(replaced.len()), spec, verdict);
    if spec.strategy == Strategy::OnDelete {
        return;
    }
    let next = plan(spec, &outlook.state, now);
    if let Some(reason) = next.degraded.first() {
        let text = format!("nothing is replaced yet ({}): {}", reason.reason, reason.message);
        return verdict.warn(Warning::new(BLOCKED, text));
    }
    if next.disruptive().is_none()
        && let Some(wait) = next
            .waits
            .iter()
            .find(|wait| wait.reason != WaitReason::OtherIndex)
            .or(next.waits.first())
    {
        verdict.warn(Warning::new(
            BLOCKED,
            format!("nothing is replaced yet: {}", wait.message),
        ));
    }
    // The other steps would be taken without the edit, too.
    let mut steps = outlook.steps();
    steps.retain(|(index, _)| what.is_activation || replaced.contains_key(index));
    let all = steps.len();
    for (position, (_, text)) in steps.into_iter().enumerate().take(LISTED) {
        verdict.warn(Warning::new(ROLLOUT, format!("{} of {all}: {text}", position + 1)));
    }
    if all > LISTED {
        let more = all - LISTED;
        verdict.warn(Warning::new(ROLLOUT, format!("and {more} more replacements")));
    }
}

/// An hour after every time in the cluster, so that every waiting period has passed. Admission has
/// no clock, and the order of a rollout does not depend on it.
fn after_everything(observed: &Observed) -> Timestamp {
    let machines = observed.machines.iter().flat_map(|machine| {
        [machine.metadata.creation_timestamp, machine.metadata.deletion_timestamp]
            .into_iter()
            .flatten()
    });
    let nodes = observed.nodes.iter().flat_map(|node| {
        node.status
            .conditions
            .iter()
            .filter_map(|condition| condition.last_transition_time)
    });
    let latest = machines.chain(nodes).max().unwrap_or(Timestamp::UNIX_EPOCH);
    latest.checked_add(SignedDuration::from_hours(1)).unwrap_or(latest)
}

/// Warns of the number of machines that differ from the template, if the nodes are unknown.
fn estimate(what: What<'_>, spec: &Spec, comparison: Comparison, lookup: &Lookup<'_>, verdict: &mut Verdict) {
    let Some(machines) = lookup.control_plane() else {
        if !what.edited.is_empty() {
            announce(what, what.edited, None, spec, verdict);
        }
        return;
    };
    let template = &spec.template.provider_spec;
    let mut specs = machines
        .iter()
        .filter_map(|machine| machine.spec.provider_spec.value.as_ref());
    let listed = |machine: &Value| Some(changes(template, machine, comparison)).filter(|changes| !changes.is_empty());
    if let Some(first) = specs.by_ref().find_map(listed) {
        // The warning lists the fields of the first machine, and counts the others.
        let others = specs.filter(|machine| differs(template, machine, comparison)).count();
        announce(what, &first, Some(1 + others), spec, verdict);
    }
}

/// The first texts of a list. The last one counts the others.
fn listed(texts: impl ExactSizeIterator<Item = String>) -> Vec<String> {
    let more = texts.len().saturating_sub(LISTED);
    let shown = texts.take(LISTED);
    shown.chain((more > 0).then(|| format!("and {more} more"))).collect()
}

/// `count` is the number of machines that differ from the template, and `None` if the Machines are
/// not known.
fn announce(what: What<'_>, changes: &[FieldChange], count: Option<usize>, spec: &Spec, verdict: &mut Verdict) {
    let changed = if what.is_activation { changes } else { what.edited };
    let fields = listed(changed.iter().map(|change| change.field.clone()));
    let all = listed(changes.iter().map(ToString::to_string));
    let how = match spec.strategy {
        Strategy::OnDelete => "once you delete them",
        _ => "one at a time",
    };
    let changed = if fields.is_empty() {
        String::new()
    } else {
        format!("changes {} and ", fields.join(", "))
    };
    let text = format!(
        "{} {changed}replaces {}, {how}: {}",
        what.subject,
        count.map_or_else(
            || String::from("the machines that differ"),
            |count| format!("{count} machine(s)")
        ),
        all.join("; ")
    );
    verdict.warn(Warning::new(ROLLOUT, text));
}

fn warn_of_images(difference: Difference, comparison: Comparison, edited: &[FieldChange], verdict: &mut Verdict) {
    let with_images = difference.into_changes(Comparison {
        images: true,
        ..comparison
    });
    let images: Vec<&str> = with_images
        .iter()
        .filter(|change| !edited.contains(change))
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
            BLOCKED,
            KIND,
            &path,
            BOTH,
            "warns of what a rollout that an edit starts waits for",
        ),
        RuleInfo::webhook(
            KNOWN,
            KIND,
            &path,
            BOTH,
            "an edit that may replace machines is refused until the Machines are known",
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
