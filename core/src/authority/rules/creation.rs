//! Creation: what may come into being beside its other half, and who leads it then.

use serde_json::Value;

use super::Judged;
use crate::api::cluster_x_k8s_io::annotation;
use crate::authority::spec::{Api, Decided, Kind, Observed, PairMember};
use crate::authority::state::{Lead, Seen};
use crate::conversion;
use crate::model::{FieldPath, Operation, Stored as _, Verdict, Violation, ViolationKind, Warning, is_same};

pub(super) const BESIDE_CLUSTER_API: &str = "authority-create-beside-cluster-api";
pub(super) const UNPAUSED: &str = "authority-capi-create-unpaused";
pub(super) const API: &str = "authority-api-known";
pub(super) const STATUS: &str = "authority-status-at-creation";
pub(super) const INEXPRESSIBLE: &str = "authority-capi-inexpressible";

/// Who leads an object of the Machine API that is created without saying so: Cluster API where it has one already.
pub(super) fn fill(judged: &Judged<'_>, verdict: &mut Verdict) -> Option<Api> {
    let new = judged.after()?;
    if new.requested.is_some() {
        return None;
    }
    match judged.counterpart() {
        Seen::There(_) => Some(Api::ClusterApi),
        Seen::Absent => Some(Api::MachineApi),
        Seen::Unknown => {
            judged.unknown(verdict, BESIDE_CLUSTER_API, "spec.authoritativeAPI", Api::ClusterApi);
            None
        }
    }
}

/// The first pass fills in who leads where nobody said so, which must not hide a word that means nothing: the schema, which
/// comes after it, would see a good one.
pub(super) fn refuse_unknown_api(judged: &Judged<'_>, verdict: &mut Verdict) {
    const PATH: &str = "spec.authoritativeAPI";
    let Some(said) = judged.edit.object.and_then(|object| object.at(PATH)) else {
        return;
    };
    let nothing = said.is_null() || *said == "";
    if nothing || said.as_str().and_then(Api::parse).is_some() {
        return;
    }
    verdict.deny(
        Violation::new(
            API,
            PATH,
            ViolationKind::NotSupported,
            "the API that should lead is MachineAPI or ClusterAPI",
        )
        .got(said)
        .advice("name one of the two; how the lead gets there is the sync controller's affair"),
    );
}

/// The API server drops a status at creation; whoever sends one believes that it counts.
pub(super) fn refuse_forged_status(judged: &Judged<'_>, verdict: &mut Verdict) {
    let status = judged.edit.object.and_then(|object| object.get("status"));
    let Some(status) = status.filter(|_| !judged.syncs()) else {
        return;
    };
    for field in ["authoritativeAPI", "synchronizedAPI", "synchronizedGeneration"] {
        if let Some(value) = status.get(field).filter(|value| !value.is_null() && **value != "") {
            verdict.deny(
                Violation::new(
                    STATUS,
                    format!("status.{field}").as_str(),
                    ViolationKind::Invalid,
                    "who leads is decided after an object was created, from spec.authoritativeAPI",
                )
                .got(value)
                .advice("remove the status from the manifest"),
            );
        }
    }
}

pub(super) fn judge(judged: &Judged<'_>, verdict: &mut Verdict) {
    let Some(new) = judged.after() else { return };
    match judged.subject.api {
        Api::MachineApi => beside_cluster_api(judged, new, verdict),
        Api::ClusterApi => beside_machine_api(judged, new, verdict),
    }
}

fn beside_cluster_api(judged: &Judged<'_>, new: &PairMember, verdict: &mut Verdict) {
    const PATH: &str = "spec.authoritativeAPI";
    if new.requested == Some(Api::ClusterApi) {
        return;
    }
    match judged.counterpart() {
        Seen::Absent => {}
        Seen::Unknown => {
            // The first pass said so already, where there was something to fill in.
            judged.unknown(verdict, BESIDE_CLUSTER_API, PATH, Api::ClusterApi);
        }
        Seen::There(_) => verdict.deny(
            Violation::new(
                BESIDE_CLUSTER_API,
                PATH,
                ViolationKind::Invalid,
                format!(
                    "{} exists and leads: both APIs would act on one instance",
                    judged.title(Api::ClusterApi)
                ),
            )
            .got(&Value::from(new.wanted().word()))
            .advice(
                "create it with spec.authoritativeAPI: ClusterAPI; once both are alike, it can be set to MachineAPI",
            ),
        ),
    }
}

fn beside_machine_api(judged: &Judged<'_>, new: &PairMember, verdict: &mut Verdict) {
    if judged.syncs() || new.is_paused() {
        return;
    }
    let path = FieldPath::new("metadata.annotations").key(annotation::PAUSED);
    let half = judged.find(Api::MachineApi);
    let why = match half {
        Seen::Absent => return,
        Seen::Unknown => return judged.unknown(verdict, UNPAUSED, path.as_str(), Api::MachineApi),
        Seen::There(_) if Lead::of(half) == Lead::Decided(Decided::Migrating) => format!(
            "{} is handing over the lead, and until then nobody acts",
            judged.title(Api::MachineApi)
        ),
        Seen::There(_) if Lead::of(half).locks(Api::ClusterApi) => format!(
            "{} leads: unpaused, both APIs would act on one instance",
            judged.title(Api::MachineApi)
        ),
        // The controllers of the Machine API say that they stopped. Its MachineHealthChecks have no such word.
        Seen::There(machine_api)
            if judged.subject.kind != Kind::MachineHealthCheck
                && !machine_api.paused.as_ref().is_some_and(Observed::holds) =>
        {
            format!(
                "the controllers of {} have not acknowledged yet that they stopped",
                judged.title(Api::MachineApi)
            )
        }
        Seen::There(_) => return,
    };
    verdict.deny(
        Violation::new(UNPAUSED, path, ViolationKind::Required, why).advice(format!(
            "set the annotation {}: \"\"; it is removed when Cluster API takes the lead",
            annotation::PAUSED
        )),
    );
}

/// Cluster API says more than the Machine API. Where it leads an object that both have, that is allowed, and stops the copy.
pub(super) fn warn_of_the_inexpressible(judged: &Judged<'_>, verdict: &mut Verdict) {
    if judged.subject.api != Api::ClusterApi || judged.syncs() || judged.controls() || !verdict.allowed() {
        return;
    }
    let (Some(object), old) = (judged.edit.object, judged.edit.old) else {
        return;
    };
    if old.is_some_and(|old| is_same(old.field("spec"), object.get("spec"))) {
        return;
    }
    let has_half = judged.find(Api::MachineApi).there().is_some();
    if !has_half {
        return;
    }
    let before = old.map(|old| conversion::issues(&old.whole())).unwrap_or_default();
    let now = conversion::issues(object);
    for issue in now.iter().filter(|issue| !before.contains(issue)) {
        verdict.warn(Warning::new(
            INEXPRESSIBLE,
            format!(
                "{}: {}: the Machine API's copy stops following{}; {}",
                issue.path,
                issue.reason,
                if judged.edit.operation == Operation::Create {
                    ""
                } else {
                    ", and the lead cannot go back"
                },
                issue.way_out
            ),
        ));
    }
}
