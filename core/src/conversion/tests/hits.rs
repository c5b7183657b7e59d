//! Counts which rules had something to do.

use std::cell::RefCell;
use std::collections::BTreeSet;

use crate::conversion::Api;
use crate::conversion::pass::rule::Rule;

thread_local! {
    static HITS: RefCell<BTreeSet<String>> = const { RefCell::new(BTreeSet::new()) };
}

/// The name of a rule in one direction.
pub(crate) fn name(rule: &'static Rule, from: Api) -> String {
    let kind = match rule {
        Rule::Field { .. } => "field",
        Rule::Object { .. } => "object",
        Rule::List { .. } => "list",
        Rule::Only { .. } => "only",
        Rule::Fixed { .. } => "fixed",
        Rule::Required { at, .. } => return format!("required {at} {from:?}"),
        Rule::Shared { .. } => "shared",
        Rule::Local { .. } => "local",
        Rule::Hand(_) => "hand",
        Rule::Inner { .. } => "inner",
    };
    let [machine_api, cluster_api] = [Api::MachineApi, Api::ClusterApi].map(|side| rule.paths(side).join("+"));
    format!("{kind} {machine_api}|{cluster_api} {from:?}")
}

/// Notes that a rule had something to do.
pub(crate) fn note(rule: &'static Rule, from: Api) {
    HITS.with_borrow_mut(|hits| hits.insert(name(rule, from)));
}

/// Takes what was noted on this thread.
pub(crate) fn take() -> BTreeSet<String> {
    HITS.with_borrow_mut(std::mem::take)
}
