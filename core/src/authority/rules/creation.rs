//! Judges the creation of an object whose counterpart may exist in the other API.

use serde_json::{Value, json};

use super::{Context, cluster_api, machine_api};
use crate::api::cluster_x_k8s_io::{self, annotation};
use crate::authority;
use crate::authority::spec::{Api, Authority, Kind, ObservedCondition, PairMember};
use crate::authority::state::{Counterpart, PairAuthority, template_set};
use crate::conversion;
use crate::model::{FieldPath, Operation, RuleInfo, Stored as _, Verdict, Violation, ViolationKind, Warning, is_same};

const BESIDE_CLUSTER_API: &str = "authority-create-beside-cluster-api";
const UNPAUSED: &str = "authority-capi-create-unpaused";
const API: &str = "authority-api-known";
const STATUS: &str = "authority-status-at-creation";
const OWNERS: &str = "authority-create-owner-references";
const FINALIZER: &str = "authority-create-sync-finalizer";
const UNPAUSED_CHECK: &str = "authority-create-unpaused";
const TEMPLATE: &str = "authority-capi-create-template";
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
            "warns that the status of a new object is dropped",
        ),
        machine_api(
            OWNERS,
            "metadata.ownerReferences",
            &[Create],
            "must be empty on a mirror",
        ),
        machine_api(
            FINALIZER,
            "metadata.finalizers",
            &[Create],
            "must not contain sync.machine.openshift.io/finalizer on a mirror",
        ),
        machine_api(
            UNPAUSED_CHECK,
            "metadata.annotations",
            &[Create],
            "must contain cluster.x-k8s.io/paused on a MachineHealthCheck while Cluster API is authoritative",
        ),
        cluster_api(
            TEMPLATE,
            "metadata.name",
            &[Create],
            "must not be a name that the sync controller derives for the template of a mirror",
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

/// The value of a missing `spec.authoritativeAPI`: `ClusterAPI` if the object exists in Cluster API
/// and the sync controller has not marked it as a mirror.
pub(super) fn default_authority(context: &Context<'_>, verdict: &mut Verdict) -> Option<Api> {
    let new = context.after()?;
    if new.spec_authority.is_some() {
        return None;
    }
    match context.counterpart() {
        Counterpart::Found(member) if !member.is_paused_by_sync() => Some(Api::ClusterApi),
        Counterpart::Found(_) | Counterpart::Absent => Some(Api::MachineApi),
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

/// Warns of a status in the manifest, which the API server drops. Backups contain a status, so it
/// is not refused.
pub(super) fn warn_of_a_dropped_status(context: &Context<'_>, verdict: &mut Verdict) {
    let status = context.edit.object.and_then(|object| object.get("status"));
    let Some(status) = status.filter(|_| !context.by_sync_controller()) else {
        return;
    };
    for field in ["authoritativeAPI", "synchronizedAPI", "synchronizedGeneration"] {
        if status.get(field).is_some_and(|value| !value.is_null() && *value != "") {
            verdict.warn(Warning::new(
                STATUS,
                format!("status.{field}: dropped, because the object is new; the sync controller derives it from spec.authoritativeAPI"),
            ));
        }
    }
}

pub(super) fn validate(context: &Context<'_>, verdict: &mut Verdict) {
    let Some(new) = context.after() else { return };
    match context.subject.api {
        Api::MachineApi => {
            beside_cluster_api(context, new, verdict);
            refuse_unpaused_health_check(context, new, verdict);
        }
        Api::ClusterApi if context.subject.kind == Kind::InfrastructureTemplate => refuse_template(context, verdict),
        Api::ClusterApi => beside_machine_api(context, new, verdict),
    }
    refuse_owners_and_finalizer(context, new, verdict);
}

/// Pauses a MachineHealthCheck of the Machine API that is created with the authority ClusterAPI.
/// Its controller reads the same annotation as Cluster API and no status. Returns the patch
/// operation.
pub(super) fn pause_health_check(context: &Context<'_>, default: Option<Api>) -> Option<Value> {
    let new = context.after()?;
    let authority = new.spec_authority.or(default);
    if context.subject.kind != Kind::MachineHealthCheck || authority != Some(Api::ClusterApi) || new.is_paused() {
        return None;
    }
    let annotations = context.edit.object?.at("metadata.annotations");
    Some(if annotations.is_some_and(Value::is_object) {
        let key = annotation::PAUSED.replace('/', "~1");
        json!({"op": "add", "path": format!("/metadata/annotations/{key}"), "value": authority::PAUSED_BY_SYNC})
    } else {
        json!({"op": "add", "path": "/metadata/annotations", "value": {annotation::PAUSED: authority::PAUSED_BY_SYNC}})
    })
}

/// Refuses a second active MachineHealthCheck beside the one of Cluster API.
fn refuse_unpaused_health_check(context: &Context<'_>, new: &PairMember, verdict: &mut Verdict) {
    let is_mirror = context.subject.kind == Kind::MachineHealthCheck && new.spec_authority == Some(Api::ClusterApi);
    if !is_mirror || new.is_paused() || context.by_sync_controller() {
        return;
    }
    let path = FieldPath::new("metadata.annotations").key(annotation::PAUSED);
    match context.counterpart() {
        Counterpart::Absent => {}
        Counterpart::Unknown => context.report_unknown(verdict, UNPAUSED_CHECK, path.as_str(), Api::ClusterApi),
        Counterpart::Found(_) => {
            let title = context.title(Api::ClusterApi);
            let message = format!("must be set while {title} is authoritative: both would remediate the same machines");
            let advice = format!("set the annotation {}: \"\"", annotation::PAUSED);
            verdict.deny(Violation::new(UNPAUSED_CHECK, path, ViolationKind::Required, message).advice(advice));
        }
    }
}

/// Refuses a template under a name that the sync controller derives for a mirrored MachineSet. The
/// sync controller would use it instead of its own. A template needs no pause: no controller acts
/// on it.
fn refuse_template(context: &Context<'_>, verdict: &mut Verdict) {
    const PATH: &str = "metadata.name";
    let Some(set) = template_set(context.edit.name) else {
        return;
    };
    if context.by_sync_controller() || context.by_api_controller() {
        return;
    }
    let (mirrors, config) = (context.lookup.mirrors, context.lookup.config);
    let found = mirrors.find(Api::MachineApi, Kind::MachineSet, set, config);
    if found == Counterpart::Unknown {
        return context.report_unknown(verdict, TEMPLATE, PATH, Api::MachineApi);
    }
    if PairAuthority::of(found).locks(Api::ClusterApi) {
        let message = format!(
            "must not be a name that the sync controller derives from MachineSet {set}, for which the Machine API is authoritative"
        );
        verdict.deny(
            Violation::new(TEMPLATE, PATH, ViolationKind::Invalid, message)
                .got(&Value::from(context.edit.name))
                .advice("use a name that does not end with a hyphen and 8 hexadecimal digits"),
        );
    }
}

/// Refuses owner references and the sync finalizer on a mirror that a user creates. The garbage
/// collector would delete a mirror with an invented owner, and the finalizer would hold it forever.
fn refuse_owners_and_finalizer(context: &Context<'_>, new: &PairMember, verdict: &mut Verdict) {
    if context.by_sync_controller() || context.by_api_controller() {
        return;
    }
    let finalizers = context.edit.object.and_then(|object| object.at("metadata.finalizers"));
    let is_sync_finalizer = |name: &Value| *name == authority::FINALIZER;
    let has_finalizer = finalizers
        .and_then(Value::as_array)
        .is_some_and(|names| names.iter().any(is_sync_finalizer));
    let (owners, finalizer) = ("metadata.ownerReferences", "metadata.finalizers");
    let violations = [
        (!new.owners.is_empty()).then_some((
            OWNERS,
            owners,
            "must be empty on a mirror: only the sync controller sets its owner references",
            "remove the owner references from the manifest",
        )),
        has_finalizer.then_some((
            FINALIZER,
            finalizer,
            "must not contain sync.machine.openshift.io/finalizer on a mirror: only the sync controller adds it",
            "remove the finalizer from the manifest",
        )),
    ];
    let counterpart = context.counterpart();
    let is_mirror = match context.subject.api {
        Api::MachineApi => new.spec_authority == Some(Api::ClusterApi) && counterpart.found().is_some(),
        Api::ClusterApi => PairAuthority::of(counterpart).locks(Api::ClusterApi),
    };
    for (rule, path, message, advice) in violations.into_iter().flatten() {
        if is_mirror {
            verdict.deny(Violation::new(rule, path, ViolationKind::Forbidden, message).advice(advice));
        } else if counterpart == Counterpart::Unknown && verdict.allowed() {
            context.report_unknown(verdict, rule, path, context.subject.api.other());
        }
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
        // The sync controller has marked the object in Cluster API as a mirror: this creation
        // restores the authoritative object.
        Counterpart::Found(member) if member.is_paused_by_sync() => {}
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
        // The controller of MachineHealthChecks reads the pause annotation and reports no
        // condition.
        Counterpart::Found(machine_api)
            if context.subject.kind == Kind::MachineHealthCheck && !machine_api.is_paused() =>
        {
            format!(
                "must be set until {title} has the annotation {}: both would remediate the same machines",
                annotation::PAUSED
            )
        }
        // The other controllers of the Machine API report that they have stopped.
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
    // The conversion reads v1beta2. Other versions name the same fields differently.
    if object.get("apiVersion").and_then(Value::as_str) != Some(cluster_x_k8s_io::API_VERSION)
        && context.subject.kind.mirrored_kind() == context.subject.kind
    {
        return;
    }
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
