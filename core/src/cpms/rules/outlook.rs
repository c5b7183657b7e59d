//! What a rollout does with the machines that are outdated now, according to the preview of the
//! controller's plan. Warnings of an edit compare it before and after the edit. It must never judge
//! an edit.

use std::collections::{BTreeMap, BTreeSet};

use jiff::Timestamp;

use crate::cpms::action::{Action, Step, WaitReason};
use crate::cpms::changes::FieldChange;
use crate::cpms::observed::{Observed, Settings};
use crate::cpms::preview::{Preview, preview};
use crate::cpms::spec::{Spec, Strategy};
use crate::cpms::state::State;

/// The rest of a rollout.
pub(super) struct Outlook {
    pub(super) state: State,
    /// The outdated machines of which no deletion was requested, by index. During a rollout, an
    /// index has two machines, and one machine takes the place of both.
    pub(super) outdated: BTreeMap<u32, Vec<FieldChange>>,
    ahead: Preview,
}

impl Outlook {
    pub(super) fn of(spec: &Spec, observed: Observed, now: Timestamp) -> Self {
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
        Self { state, outdated, ahead }
    }

    /// The indexes whose machines stay outdated for this reason, at the end.
    pub(super) fn kept(&self, reason: WaitReason) -> BTreeSet<u32> {
        let waits = self.ahead.end.waits.iter().filter(|wait| wait.reason == reason);
        let indexes = waits.filter_map(|wait| wait.index);
        indexes.filter(|index| self.outdated.contains_key(index)).collect()
    }

    /// The indexes whose machines are replaced, and why.
    pub(super) fn replaced(&self) -> BTreeMap<u32, &[FieldChange]> {
        let limited = self.kept(WaitReason::Limit);
        let replaced = self.outdated.iter().filter(|(index, _)| !limited.contains(index));
        replaced.map(|(index, changes)| (*index, changes.as_slice())).collect()
    }

    /// The steps of each index in words, in the order of the first steps.
    pub(super) fn steps(&self) -> Vec<(u32, String)> {
        let mut order: Vec<u32> = Vec::new();
        let is_of_machine = |step: &&Step| matches!(step.action, Action::Create { .. } | Action::Delete { .. });
        for step in self.ahead.steps.iter().filter(is_of_machine) {
            if let Some(index) = step.index.filter(|index| !order.contains(index)) {
                order.push(index);
            }
        }
        order.into_iter().map(|index| (index, self.of_index(index))).collect()
    }

    /// What happens to the machines of an index. The last deletion is that of the machine which the
    /// others were to replace.
    fn of_index(&self, index: u32) -> String {
        let steps = || self.ahead.steps.iter().filter(move |step| step.index == Some(index));
        let created = steps().rfind(|step| matches!(step.action, Action::Create { .. }));
        let deleted: Vec<&str> = steps()
            .filter(|step| matches!(step.action, Action::Delete { .. }))
            .filter_map(Step::machine)
            .collect();
        let gone = deleted.last().map(|name| (*name).to_owned());
        let gone = gone.or_else(|| {
            let mut leaving = self.state.of_index(index).filter(|machine| machine.is_deleting());
            leaving.next().map(|machine| machine.name.clone())
        });
        let place = created.and_then(Step::failure_domain);
        let place = place.map_or_else(String::new, |domain| format!(" in {}", domain.place()));
        let stands = |name: &&str| !deleted.contains(name) && Some(*name) != gone.as_deref();
        let names = self.state.of_index(index).map(|machine| machine.name.as_str());
        let new = created.and_then(Step::machine).or_else(|| names.filter(stands).last());
        match (gone, new) {
            (Some(gone), Some(new)) => format!("{gone} is replaced by {new}{place}"),
            (Some(gone), None) => format!("{gone} is deleted"),
            (None, new) => format!("{} is created{place}", new.unwrap_or_default()),
        }
    }
}
