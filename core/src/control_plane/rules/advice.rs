//! Warnings with the whole plan of an edit: which machines are created and deleted, in which order
//! and where, and what the first step waits for. The steps come from the plan of the controller.

use serde_json::Value;

use crate::api::config_openshift_io::cluster_operator::ETCD;
use crate::api::machine_openshift_io::control_plane::{ControlPlane, KIND};
use crate::api::machine_openshift_io::label;
use crate::control_plane::action::Step;
use crate::control_plane::plan::plan;
use crate::control_plane::preview::preview;
use crate::control_plane::spec::parse;
use crate::control_plane::state::State;
use crate::cpms::observed::Observed;
use crate::cpms::rules::Lookup;
use crate::cpms::spec::ParseContext;
use crate::model::{Operation, RuleInfo, Verdict, Warning};

const PLAN: &str = "cp-plan";
const WAITS: &str = "cp-plan-waits";
/// How many steps are listed. The last warning counts the others.
const LISTED: usize = 12;

/// Warns of the plan of a ControlPlane as it would be stored. Without machines and nodes, nothing
/// is known.
pub(super) fn warn(object: &Value, lookup: &Lookup<'_>, verdict: &mut Verdict) {
    let (Some(machines), Some(nodes)) = (lookup.machines, lookup.nodes) else {
        let text = "the steps of this edit are not known, because Machines and Nodes are not given";
        return verdict.warn(Warning::not_judged(PLAN, text));
    };
    let Ok(object) = serde_json::from_value::<ControlPlane>(object.clone()) else {
        return;
    };
    let infrastructure = lookup.infrastructure.map(|found| &**found);
    let labelled = machines
        .iter()
        .find_map(|machine| machine.metadata.labels.get(label::CLUSTER));
    let cluster = labelled.map_or("", String::as_str);
    let context = ParseContext {
        infrastructure,
        gates: lookup.gates,
        ignore_gated_fields: true,
    };
    let Ok(spec) = parse(&object, cluster, &context) else {
        return;
    };
    let operators = lookup.cluster_operators;
    let observed = Observed {
        machines: machines.to_vec(),
        nodes: nodes.values().cloned().collect(),
        infrastructure: lookup.infrastructure.cloned(),
        etcd: operators.and_then(|operators| operators.get(ETCD)).cloned(),
        ..Observed::default()
    };
    let state = State::observe(&spec, observed);
    let ahead = preview(&spec, &state);
    let steps: Vec<&Step> = ahead.steps.iter().filter(|step| step.is_disruptive()).collect();
    let next = plan(&spec, &state);
    if let Some(reason) = next.degraded.first() {
        return verdict.warn(Warning::new(
            WAITS,
            format!("nothing happens yet ({}): {}", reason.reason, reason.message),
        ));
    }
    if let Some(wait) = ahead.waits.first() {
        verdict.warn(Warning::new(WAITS, format!("the first step waits: {}", wait.message)));
    }
    for (position, step) in steps.iter().enumerate().take(LISTED) {
        let place = step
            .failure_domain()
            .map_or_else(String::new, |domain| format!(" in {}", domain.place()));
        let text = format!(
            "{} of {}: {} {}{place}: {}",
            position + 1,
            steps.len(),
            step.verb(),
            step.subject.name,
            step.because
        );
        verdict.warn(Warning::new(PLAN, text));
    }
    if steps.len() > LISTED {
        verdict.warn(Warning::new(PLAN, format!("and {} more steps", steps.len() - LISTED)));
    }
}

/// The ControlPlane that a Scale scales, with the number of the Scale.
pub(super) fn scaled(stored: &Value, replicas: i64) -> Value {
    let mut scaled = stored.clone();
    if let Some(spec) = scaled.get_mut("spec").and_then(Value::as_object_mut) {
        spec.insert("replicas".to_owned(), Value::from(replicas));
    }
    scaled
}

pub(super) fn table() -> Vec<RuleInfo> {
    const BOTH: &[Operation] = &[Operation::Create, Operation::Update];
    vec![
        RuleInfo::webhook(PLAN, KIND, "spec", BOTH, "warns of the steps that an edit causes"),
        RuleInfo::webhook(
            WAITS,
            KIND,
            "spec",
            BOTH,
            "warns of what the first step of an edit waits for",
        ),
    ]
}
