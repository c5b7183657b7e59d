//! Warnings of the rollout that an edit starts: the fields that differ, the machines that are
//! replaced, their order and failure domains, and what the rollout waits for. The order comes from
//! the plan of the controller.

use std::collections::{BTreeMap, BTreeSet};

use jiff::{SignedDuration, Timestamp};
use serde_json::Value;

use super::TEMPLATE;
use super::judged::Judged;
use super::lookup::Lookup;
use crate::api::config_openshift_io::cluster_operator::ETCD;
use crate::api::machine_openshift_io::control_plane_machine_set::KIND;
use crate::cpms::action::{Action, Step, WaitReason};
use crate::cpms::changes::{Comparison, Difference, FieldChange, ROLL_ON_IMAGE_CHANGE, changes, differs};
use crate::cpms::observed::{Observed, Settings};
use crate::cpms::plan::plan;
use crate::cpms::preview::{Preview, preview};
use crate::cpms::spec::{ROLLOUT_LIMIT, Spec, Strategy};
use crate::cpms::state::State;
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
            changes_fields: activated || !edited.is_empty(),
        };
        match observed(lookup) {
            Some(observed) if spec.rollout.paused && !what.changes_fields => {
                warn_of_pause(spec, observed, verdict);
            }
            Some(observed) => {
                // Of an edit that leaves the template as it is, only what it changes is new.
                let moved = |known: &&Spec| known.strategy == spec.strategy && !known.rollout.paused;
                let before = known.filter(|_| !what.changes_fields).filter(moved);
                warn_of_plan(what, before, spec, observed, verdict);
            }
            // The user must know what an edit replaces before it is stored. A paused set replaces
            // nothing.
            None if lookup.machines.is_none() && lookup.wait_for_unknown && !spec.rollout.paused => {
                let path = format!("{TEMPLATE}.spec.providerSpec.value");
                let needed_for = format!("{} may replace machines", what.subject);
                lookup.unknown(verdict, KNOWN, &path, "the control plane Machines", &needed_for);
            }
            None => estimate(what, spec, comparison, &edited, lookup, verdict),
        }
    }
    if let Some(difference) = difference.filter(|difference| !comparison.images && difference.touches_images()) {
        warn_of_images(difference, comparison, &edited, verdict);
    }
}

/// How warnings name the edit.
#[derive(Clone, Copy)]
struct What {
    /// Such as `this edit`.
    subject: &'static str,
    /// Whether it changes fields of the template, or makes them take effect.
    changes_fields: bool,
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
    let state = State::observe(spec, observed, Settings::default());
    let outdated = state.each_machine().filter(|machine| !machine.is_current());
    let indexes: BTreeSet<u32> = outdated.map(|machine| machine.index).collect();
    if !indexes.is_empty() {
        let count = indexes.len();
        let text = format!("{count} machine(s) stay outdated while the annotation {PAUSED_ROLLOUT} pauses the rollout");
        verdict.warn(Warning::new(BLOCKED, text));
    }
}

/// What a rollout does with the machines that are outdated now.
struct Outlook {
    state: State,
    /// The outdated machines that stay in the set until the rollout, by index. During a rollout, an
    /// index has two machines, and one machine takes the place of both.
    outdated: BTreeMap<u32, Vec<FieldChange>>,
    /// The indexes whose machines stay outdated because the rollout is limited (W133).
    limited: BTreeSet<u32>,
    steps: Vec<Step>,
}

impl Outlook {
    fn of(spec: &Spec, observed: Observed, now: Timestamp) -> Self {
        let state = State::observe(spec, observed, Settings::default());
        let mut outdated = BTreeMap::new();
        for machine in state.each_machine() {
            if !machine.is_current() && !machine.is_deleting() {
                outdated.entry(machine.index).or_insert_with(|| machine.changes.clone());
            }
        }
        let ahead = if spec.strategy == Strategy::OnDelete || outdated.is_empty() {
            Preview::default()
        } else {
            preview(spec, &state, now)
        };
        let of_limit = ahead.end.waits.iter().filter(|wait| wait.reason == WaitReason::Limit);
        let limited = of_limit.filter_map(|wait| wait.index).collect();
        let steps = ahead.steps;
        Self {
            state,
            outdated,
            limited,
            steps,
        }
    }

    /// The indexes whose machines are replaced, and why.
    fn replaced(&self) -> BTreeMap<u32, &[FieldChange]> {
        let all = self.outdated.iter();
        let replaced = all.filter(|(index, _)| !self.limited.contains(index));
        replaced.map(|(index, changes)| (*index, changes.as_slice())).collect()
    }

    /// Warns of the machines that stay outdated.
    fn warn_of_limit(&self, spec: &Spec, verdict: &mut Verdict) {
        let stay = self
            .limited
            .iter()
            .filter(|index| self.outdated.contains_key(index))
            .count();
        if let Some(limit) = spec.rollout.limit.filter(|_| stay > 0) {
            let text = format!(
                "{stay} machine(s) stay outdated: the annotation {ROLLOUT_LIMIT} limits the rollout to {limit}"
            );
            verdict.warn(Warning::new(BLOCKED, text));
        }
    }
}

/// Warns of the rollout, with the plan of the controller. `before` is the stored set, if only what
/// differs from its rollout is new.
fn warn_of_plan(what: What, before: Option<&Spec>, spec: &Spec, observed: Observed, verdict: &mut Verdict) {
    let now = after_everything(&observed);
    let before = before.map(|before| Outlook::of(before, observed.clone(), now));
    let outlook = Outlook::of(spec, observed, now);
    let mut replaced = outlook.replaced();
    if before.as_ref().is_none_or(|before| before.limited != outlook.limited) {
        outlook.warn_of_limit(spec, verdict);
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
    let state = &outlook.state;
    let next = plan(spec, state, now);
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
    let creations: Vec<&Step> = outlook
        .steps
        .iter()
        .filter(|step| matches!(step.action, Action::Create { .. }))
        .collect();
    for (position, step) in creations.iter().enumerate().take(LISTED) {
        let replaced = step.index.and_then(|index| state.of_index(index).last());
        let place = step
            .failure_domain()
            .map_or_else(String::new, |domain| format!(" in {}", domain.place()));
        let (number, all) = (position + 1, creations.len());
        let machine = step.machine().unwrap_or_default();
        let text = match replaced {
            Some(replaced) => format!("{number} of {all}: {} is replaced by {machine}{place}", replaced.name),
            None => format!("{number} of {all}: {machine} is created{place}"),
        };
        verdict.warn(Warning::new(ROLLOUT, text));
    }
    if creations.len() > LISTED {
        let more = creations.len() - LISTED;
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
fn estimate(
    what: What,
    spec: &Spec,
    comparison: Comparison,
    edited: &[FieldChange],
    lookup: &Lookup<'_>,
    verdict: &mut Verdict,
) {
    let Some(machines) = lookup.control_plane() else {
        if !edited.is_empty() {
            announce(what, edited, None, spec, verdict);
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
fn announce(what: What, changes: &[FieldChange], count: Option<usize>, spec: &Spec, verdict: &mut Verdict) {
    let fields = listed(changes.iter().map(|change| change.field.clone()));
    let all = listed(changes.iter().map(ToString::to_string));
    let how = match spec.strategy {
        Strategy::OnDelete => "once you delete them",
        _ => "one at a time",
    };
    let changed = if what.changes_fields {
        format!("changes {} and ", fields.join(", "))
    } else {
        String::new()
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
