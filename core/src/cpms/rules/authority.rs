//! Which API leads the machines that a set makes. Both are allowed; what is foretold is what
//! Cluster API needs for it, since nothing of the set says whether it is there.

use serde_json::Value;

use super::TEMPLATE;
use super::judged::Judged;
use crate::api::machine_openshift_io::authority::CLUSTER_API;
use crate::api::machine_openshift_io::control_plane_machine_set::KIND;
use crate::cpms::spec::ROLLOUT_LIMIT;
use crate::model::{Operation, RuleInfo, Verdict, Warning};

const LED_BY_CLUSTER_API: &str = "cpms-led-by-cluster-api";

/// Warns where an edit hands the machines that come to Cluster API, or activates a set that does.
pub(super) fn warn(old: Option<&Judged<'_>>, new: &Judged<'_>, activated: bool, verdict: &mut Verdict) {
    if !is_handed_over(new) || (old.is_some_and(is_handed_over) && !activated) {
        return;
    }
    verdict.warn(Warning::new(
        LED_BY_CLUSTER_API,
        format!(
            "{TEMPLATE}.spec.authoritativeAPI: Cluster API leads every new machine, which comes up only where its controllers \
             run; else a rollout stops at the first. Annotation {ROLLOUT_LIMIT}: \"1\" tries one"
        ),
    ));
}

fn is_handed_over(set: &Judged<'_>) -> bool {
    let leads = set
        .machine()
        .and_then(|machine| machine.get("spec")?.get("authoritativeAPI"));
    leads.and_then(Value::as_str) == Some(CLUSTER_API)
}

pub(super) fn table() -> Vec<RuleInfo> {
    vec![RuleInfo::webhook(
        LED_BY_CLUSTER_API,
        KIND,
        &format!("{TEMPLATE}.spec.authoritativeAPI"),
        &[Operation::Create, Operation::Update],
        "warns when Cluster API is to lead the machines that the set makes",
    )]
}
