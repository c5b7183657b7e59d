//! The kind of the provider spec: it is immutable, and neither a kind of another platform nor one
//! that no platform has must replace the machines that exist.
//!
//! A misspelt kind would be immutable too, so that it may be corrected to the kind of the machines.

use serde_json::Value;

use super::{Judged, Lookup, TEMPLATE};
use crate::api::machine_openshift_io::control_plane_machine_set::KIND;
use crate::cpms::domains::Platform;
use crate::model::{Operation, RuleInfo, Verdict, Violation, ViolationKind};
use crate::platforms::{ALL, bare_metal, ibm_cloud, power_vs};

const IMMUTABLE: &str = "cpms-provider-spec-kind-immutable";
const OF_MACHINES: &str = "cpms-provider-spec-kind-of-machines";

fn path() -> String {
    format!("{TEMPLATE}.spec.providerSpec.value.kind")
}

fn is_known(kind: &str) -> bool {
    ALL.iter().any(|spec| spec.kind == kind)
}

/// The kind of the provider specs of all control plane Machines; `None` if there is no Machine, or
/// if the Machines have several kinds or one that no platform has.
fn of_machines<'a>(lookup: &Lookup<'a>) -> Option<&'a str> {
    let machines = lookup.control_plane()?;
    let mut kinds = machines
        .into_iter()
        .map(|machine| machine.spec.provider_spec.value.as_ref()?.get("kind")?.as_str());
    let first = kinds.next()??;
    (is_known(first) && kinds.all(|kind| kind == Some(first))).then_some(first)
}

/// The platform of the cluster, and the kind of its provider specs; `None` if it is unknown, or if
/// the platform has no provider spec.
fn of_cluster<'a>(lookup: &Lookup<'a>) -> Option<(&'a str, &'static str)> {
    let platform = lookup.infrastructure()?.platform()?;
    let kind = match platform {
        "BareMetal" => bare_metal::PROVIDER_SPEC.kind,
        "IBMCloud" => ibm_cloud::PROVIDER_SPEC.kind,
        "PowerVS" => power_vs::PROVIDER_SPEC.kind,
        other => Platform::from_name(other)?.kind(),
    };
    Some((platform, kind))
}

/// Refuses a set of another platform than that of the machines, or of the cluster if there is no
/// machine. It judges a set that is created or becomes active, and returns whether it is refused.
pub(super) fn judge_cluster(
    is_new: bool,
    activated: bool,
    new: &Judged<'_>,
    lookup: &Lookup<'_>,
    verdict: &mut Verdict,
) -> bool {
    let Some(kind) = new.kind().filter(|kind| (is_new || activated) && is_known(kind)) else {
        return false;
    };
    let wanted = match of_machines(lookup) {
        Some(machines) => Some((machines, String::from("the kind of the control plane Machines"))),
        None => of_cluster(lookup)
            .map(|(platform, kind)| (kind, format!("the kind of {platform}, the platform of the cluster"))),
    };
    let Some((wanted, whose)) = wanted.filter(|(wanted, _)| *wanted != kind) else {
        return false;
    };
    let allowed = format!("must be {wanted}, {whose}: {kind} is the kind of another platform");
    verdict.deny(
        Violation::new(OF_MACHINES, path().as_str(), ViolationKind::Invalid, allowed)
            .got(&Value::from(kind))
            .advice(
                "describe machines of the platform of the cluster: a control plane cannot move to another platform",
            ),
    );
    true
}

/// Refuses a change of the kind, except the correction of one that no platform has.
pub(super) fn judge_change(old: &Judged<'_>, new: &Judged<'_>, lookup: &Lookup<'_>, verdict: &mut Verdict) {
    let Some((before, after)) = old.kind().zip(new.kind()).filter(|(before, after)| before != after) else {
        return;
    };
    let machines = of_machines(lookup);
    if !is_known(before) && machines == Some(after) {
        return;
    }
    let advice = match machines {
        _ if is_known(before) => String::from("keep the value: a control plane cannot move to another platform"),
        Some(kind) => format!("write {kind}: no platform has the kind {before}"),
        None => format!(
            "keep the value, or delete the set, after which Capstan generates one with the kind of its Machines: no \
             platform has the kind {before}, and the machines stay"
        ),
    };
    let allowed = match machines {
        Some(kind) if !is_known(before) => format!("must be {kind}, the kind of the control plane Machines"),
        _ => format!("must stay {before}: the field is immutable"),
    };
    verdict.deny(
        Violation::new(IMMUTABLE, path().as_str(), ViolationKind::Invalid, allowed)
            .got(&Value::from(after))
            .advice(advice),
    );
}

/// Refuses a kind that no platform has in a set that would replace machines of a platform. An edit
/// of another field of a stored set is not refused.
pub(super) fn judge_activation(old: Option<&Judged<'_>>, new: &Judged<'_>, lookup: &Lookup<'_>, verdict: &mut Verdict) {
    let Some(kind) = new.kind().filter(|kind| new.is_active() && !is_known(kind)) else {
        return;
    };
    let is_refused = verdict.violations.iter().any(|violation| violation.rule == IMMUTABLE);
    if is_refused || old.is_some_and(|old| old.is_active() && old.kind() == Some(kind)) {
        return;
    }
    let Some(machines) = of_machines(lookup) else { return };
    let allowed =
        format!("must be {machines}, the kind of the control plane Machines: no platform has the kind {kind}");
    verdict.deny(
        Violation::new(OF_MACHINES, path().as_str(), ViolationKind::Invalid, allowed)
            .got(&Value::from(kind))
            .advice(format!("write {machines}")),
    );
}

pub(super) fn table() -> Vec<RuleInfo> {
    let rule = |id, operations: &[Operation], message| RuleInfo::webhook(id, KIND, &path(), operations, message);
    vec![
        rule(
            IMMUTABLE,
            &[Operation::Update],
            "the kind of the provider spec is immutable",
        ),
        rule(
            OF_MACHINES,
            &[Operation::Create, Operation::Update],
            "the kind of the provider spec is that of the Machines, or else of the platform of the cluster",
        ),
    ]
}
