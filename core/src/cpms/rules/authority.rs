//! Which API is authoritative for the machines that a set creates. Both are allowed. A set does not
//! show whether the controllers of Cluster API run, so that the module warns.

use serde_json::Value;

use super::TEMPLATE;
use super::judged::Judged;
use crate::api::machine_openshift_io::authority::CLUSTER_API;
use crate::api::machine_openshift_io::control_plane_machine_set::KIND;
use crate::cpms::spec::ROLLOUT_LIMIT;
use crate::model::{Operation, RuleInfo, Verdict, Warning};

const HANDED_OVER: &str = "cpms-led-by-cluster-api";

/// Warns if an edit makes Cluster API authoritative for new machines, or activates such a set.
pub(super) fn warn(old: Option<&Judged<'_>>, new: &Judged<'_>, activated: bool, verdict: &mut Verdict) {
    if !is_handed_over(new) || (old.is_some_and(is_handed_over) && !activated) {
        return;
    }
    verdict.warn(Warning::new(
        HANDED_OVER,
        format!(
            "{TEMPLATE}.spec.authoritativeAPI: Cluster API is authoritative for new machines; without its controllers the first \
             one never becomes ready. Try one with {ROLLOUT_LIMIT}: \"1\""
        ),
    ));
}

fn is_handed_over(set: &Judged<'_>) -> bool {
    let authority = set
        .machine()
        .and_then(|machine| machine.get("spec")?.get("authoritativeAPI"));
    authority.and_then(Value::as_str) == Some(CLUSTER_API)
}

pub(super) fn table() -> Vec<RuleInfo> {
    vec![RuleInfo::webhook(
        HANDED_OVER,
        KIND,
        &format!("{TEMPLATE}.spec.authoritativeAPI"),
        &[Operation::Create, Operation::Update],
        "warns if Cluster API becomes authoritative for new machines of the set",
    )]
}
