//! Judges the creation of an object whose counterpart may exist in the other API.

use serde_json::Value;

use super::{Context, cluster_api, machine_api};
use crate::api::cluster_x_k8s_io::annotation;
use crate::authority::spec::{Api, Authority, Kind, ObservedCondition, PairMember};
use crate::authority::state::{Counterpart, PairAuthority};
use crate::conversion;
use crate::model::{FieldPath, Operation, RuleInfo, Stored as _, Verdict, Violation, ViolationKind, Warning, is_same};

const BESIDE_CLUSTER_API: &str = "authority-create-beside-cluster-api";
const UNPAUSED: &str = "authority-capi-create-unpaused";
const API: &str = "authority-api-known";
const STATUS: &str = "authority-status-at-creation";
const INEXPRESSIBLE: &str = "authority-capi-inexpressible";

/// The rules of this file.
pub(super) fn table() -> Vec<RuleInfo> {
    use Operation::{Create, Update};
    vec![
        machine_api(
            BESIDE_CLUSTER_API,
            "spec.authoritativeAPI",
            &[Create],
            "must be ClusterAPI if the object exists in Cluster API",
        ),
        machine_api(
            API,
            "spec.authoritativeAPI",
            &[Create, Update],
            "must be MachineAPI or ClusterAPI",
        ),
        machine_api(
            STATUS,
            "status",
            &[Create],
            "must not contain authoritativeAPI, synchronizedAPI or synchronizedGeneration",
        ),
        cluster_api(
            UNPAUSED,
            "metadata.annotations",
            &[Create],
            "must contain cluster.x-k8s.io/paused while the Machine API is authoritative",
        ),
        cluster_api(
            INEXPRESSIBLE,
            "spec",
            &[Create, Update],
            "warns of fields that the Machine API cannot express",
        ),
    ]
}

/// The value of a missing `spec.authoritativeAPI`: `ClusterAPI` if the object exists in Cluster
/// API.
pub(super) fn default_authority(context: &Context<'_>, verdict: &mut Verdict) -> Option<Api> {
    let new = context.after()?;
    if new.spec_authority.is_some() {
        return None;
    }
    match context.counterpart() {
        Counterpart::Found(_) => Some(Api::ClusterApi),
        Counterpart::Absent => Some(Api::MachineApi),
        Counterpart::Unknown => {
            context.report_unknown(verdict, BESIDE_CLUSTER_API, "spec.authoritativeAPI", Api::ClusterApi);
            None
        }
    }
}

/// Refuses a value of `spec.authoritativeAPI` that names no API. The mutating pass must not replace
/// such a value with the default, because the schema would then accept the object.
pub(super) fn refuse_unknown_api(context: &Context<'_>, verdict: &mut Verdict) {
    const PATH: &str = "spec.authoritativeAPI";
    let Some(value) = context.edit.object.and_then(|object| object.at(PATH)) else {
        return;
    };
    let empty = value.is_null() || *value == "";
    if empty || value.as_str().and_then(Api::parse).is_some() {
        return;
    }
    verdict.deny(
        Violation::new(
            API,
            PATH,
            ViolationKind::NotSupported,
            "must be MachineAPI or ClusterAPI",
        )
        .got(value)
        .advice("use one of these values; the sync controller sets status.authoritativeAPI to Migrating itself"),
    );
}

/// Refuses a status in the manifest. The API server drops it, so the user's intent would be lost.
pub(super) fn refuse_forged_status(context: &Context<'_>, verdict: &mut Verdict) {
    let status = context.edit.object.and_then(|object| object.get("status"));
    let Some(status) = status.filter(|_| !context.by_sync_controller()) else {
        return;
    };
    for field in ["authoritativeAPI", "synchronizedAPI", "synchronizedGeneration"] {
        if let Some(value) = status.get(field).filter(|value| !value.is_null() && **value != "") {
            verdict.deny(
                Violation::new(
                    STATUS,
                    format!("status.{field}").as_str(),
                    ViolationKind::Invalid,
                    "must not be set when an object is created: the sync controller derives it from spec.authoritativeAPI",
                )
                .got(value)
                .advice("remove the status from the manifest"),
            );
        }
    }
}

pub(super) fn validate(context: &Context<'_>, verdict: &mut Verdict) {
    let Some(new) = context.after() else { return };
    match context.subject.api {
        Api::MachineApi => beside_cluster_api(context, new, verdict),
        Api::ClusterApi => beside_machine_api(context, new, verdict),
    }
}

fn beside_cluster_api(context: &Context<'_>, new: &PairMember, verdict: &mut Verdict) {
    const PATH: &str = "spec.authoritativeAPI";
    if new.spec_authority == Some(Api::ClusterApi) {
        return;
    }
    match context.counterpart() {
        Counterpart::Absent => {}
        Counterpart::Unknown => {
            context.report_unknown(verdict, BESIDE_CLUSTER_API, PATH, Api::ClusterApi);
        }
        Counterpart::Found(_) => verdict.deny(
            Violation::new(
                BESIDE_CLUSTER_API,
                PATH,
                ViolationKind::Invalid,
                format!(
                    "must be ClusterAPI: {} exists, and both APIs would act on one instance",
                    context.title(Api::ClusterApi)
                ),
            )
            .got(&Value::from(new.desired_api().as_str()))
            .advice(
                "create the object with spec.authoritativeAPI: ClusterAPI; set it to MachineAPI after the objects are synchronized",
            ),
        ),
    }
}

fn beside_machine_api(context: &Context<'_>, new: &PairMember, verdict: &mut Verdict) {
    if context.by_sync_controller() || new.is_paused() {
        return;
    }
    let path = FieldPath::new("metadata.annotations").key(annotation::PAUSED);
    let counterpart = context.find(Api::MachineApi);
    let title = context.title(Api::MachineApi);
    let message = match counterpart {
        Counterpart::Absent => return,
        Counterpart::Unknown => {
            return context.report_unknown(verdict, UNPAUSED, path.as_str(), Api::MachineApi);
        }
        Counterpart::Found(_) if PairAuthority::of(counterpart) == PairAuthority::Known(Authority::Migrating) => {
            format!("must be set while {title} is migrating: neither API may act on the instance")
        }
        Counterpart::Found(_) if PairAuthority::of(counterpart).locks(Api::ClusterApi) => {
            format!("must be set while {title} is authoritative: both APIs would act on one instance")
        }
        // The controllers of the Machine API report that they have stopped. A MachineHealthCheck
        // has no such condition.
        Counterpart::Found(machine_api)
            if context.subject.kind != Kind::MachineHealthCheck
                && !machine_api.paused.as_ref().is_some_and(ObservedCondition::is_true) =>
        {
            format!("must be set until {title} has the condition Paused=True")
        }
        Counterpart::Found(_) => return,
    };
    verdict.deny(
        Violation::new(UNPAUSED, path, ViolationKind::Required, message).advice(format!(
            "set the annotation {}: \"\"; the sync controller removes it when Cluster API becomes authoritative",
            annotation::PAUSED
        )),
    );
}

/// Warns of fields that the Machine API cannot express. While Cluster API is authoritative such a
/// field is allowed, but the mirror cannot be synchronized any more.
pub(super) fn warn_of_the_inexpressible(context: &Context<'_>, verdict: &mut Verdict) {
    if context.subject.api != Api::ClusterApi
        || context.by_sync_controller()
        || context.by_api_controller()
        || !verdict.allowed()
    {
        return;
    }
    let (Some(object), old) = (context.edit.object, context.edit.old) else {
        return;
    };
    if old.is_some_and(|old| is_same(old.field("spec"), object.get("spec"))) {
        return;
    }
    let is_mirrored = context.find(Api::MachineApi).found().is_some();
    if !is_mirrored {
        return;
    }
    let before = old.map(|old| conversion::issues(&old.whole())).unwrap_or_default();
    let now = conversion::issues(object);
    let consequence = if context.edit.operation == Operation::Create {
        "the mirror in the Machine API cannot be synchronized"
    } else {
        "the mirror in the Machine API cannot be synchronized, and the Machine API cannot become authoritative"
    };
    for issue in now.iter().filter(|issue| !before.contains(issue)) {
        let text = format!("{}: {}; {consequence}; {}", issue.path, issue.reason, issue.way_out);
        verdict.warn(Warning::new(INEXPRESSIBLE, text));
    }
}
