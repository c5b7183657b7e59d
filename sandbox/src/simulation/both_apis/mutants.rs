//! Seeded bugs of the controllers, which the invariants must find: wrong writes, writes that are
//! not made, and decisions about what the caches or a live read do not show.

use std::sync::Arc;

use capstan::controllers::mirroring::simulated::StoredObject;
use capstan::runtime::View;
use capstan_core::api::kind::KindInfo;
use capstan_core::api::kinds as table;
use serde_json::{Value, json};

use crate::simulation::engine::kinds::KindId;
use crate::simulation::engine::port::Call;

use super::objects::{HEALTH_CHECK, INFRASTRUCTURE, MACHINE, MIRROR, MIRROR_CHECK, MIRROR_SET, SET};

const PAUSED: &str = "cluster.x-k8s.io/paused";
const OWN: &str = "sync.machine.openshift.io/finalizer";

/// A bug that the controllers have on purpose.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Mutant {
    /// A mirror in Cluster API is created without the pause.
    CreatesUnpaused,
    /// The infrastructure of a mirror is created without the pause.
    CreatesUnpausedInfrastructure,
    /// A migration from Cluster API does not pause it.
    NeverPauses,
    /// The pause of the infrastructure is left out.
    PausesMachineOnly,
    /// The target of a migration stays paused.
    NeverUnpauses,
    /// The infrastructure of the target stays paused.
    UnpausesMachineOnly,
    /// The acknowledgement of the pause is assumed.
    AssumesAcknowledgement,
    /// The same for MachineSets and MachineHealthChecks.
    AssumesAcknowledgementOfParents,
    /// A migration does not pass through `Migrating`.
    SkipsMigrating,
    /// `Migrating` does not record which API was authoritative.
    ForgetsSource,
    /// The target does not get the finalizer of its controllers.
    NoHandOver,
    /// The deletion of a mirror also removes the finalizer that holds the instance.
    ReleasesTooMuch,
    /// The finalizer of the sync controller is never added.
    NoFinalizer,
    /// The finalizer of the sync controller is never removed.
    KeepsFinalizer,
    /// The status of the Machine API is not initialized.
    NoStatus,
    /// Labels are not copied.
    DropsLabels,
    /// The record of the mirror is not updated with its spec.
    DropsRecord,
    /// The spec of a MachineSet is not copied.
    DropsSpecOfSet,
    /// The owner of a mirrored Machine is not set.
    DropsOwner,
    /// The deletion of a Machine without an owner is propagated.
    PropagatesWithoutOwner,
    /// The deletion of a Machine is never propagated.
    NeverPropagates,
    /// The Machines of a deleted mirror of a MachineSet keep their owner.
    KeepsOwner,
    /// The condition Synchronized is always True.
    AlwaysSynchronized,
    /// The MachineHealthCheck of the Machine API is not paused.
    ChecksBoth,
    /// The time of the condition Synchronized changes with each write.
    MovesTime,
    /// Writes have no preconditions, and nothing is read live.
    TrustsCaches,
}

impl Mutant {
    /// The bugs that no invariant finds. A migration begins only when the instance runs, so the
    /// controllers of the source create none in the moments until they acknowledge the pause.
    pub const SURVIVORS: [Self; 2] = [Self::AssumesAcknowledgement, Self::AssumesAcknowledgementOfParents];

    /// All bugs.
    pub const ALL: [Self; 26] = [
        Self::CreatesUnpaused,
        Self::CreatesUnpausedInfrastructure,
        Self::NeverPauses,
        Self::PausesMachineOnly,
        Self::NeverUnpauses,
        Self::UnpausesMachineOnly,
        Self::AssumesAcknowledgement,
        Self::AssumesAcknowledgementOfParents,
        Self::SkipsMigrating,
        Self::ForgetsSource,
        Self::NoHandOver,
        Self::ReleasesTooMuch,
        Self::NoFinalizer,
        Self::KeepsFinalizer,
        Self::NoStatus,
        Self::DropsLabels,
        Self::DropsRecord,
        Self::DropsSpecOfSet,
        Self::DropsOwner,
        Self::PropagatesWithoutOwner,
        Self::NeverPropagates,
        Self::KeepsOwner,
        Self::AlwaysSynchronized,
        Self::ChecksBoth,
        Self::MovesTime,
        Self::TrustsCaches,
    ];

    /// What the controllers see instead of their caches, and of a live read.
    pub(super) fn view(self, _controller: usize, view: &View) -> Option<View> {
        match self {
            Self::AssumesAcknowledgement => Some(changed(view, &[&table::MACHINES, &table::CLUSTER_API_MACHINES], ack)),
            Self::AssumesAcknowledgementOfParents => Some(changed(
                view,
                &[
                    &table::MACHINE_SETS,
                    &table::CLUSTER_API_MACHINE_SETS,
                    &table::CLUSTER_API_MACHINE_HEALTH_CHECKS,
                ],
                ack,
            )),
            _ => None,
        }
    }

    /// Alters a call. Returns false if it is not sent.
    pub(super) fn call(self, call: &mut Call) -> bool {
        match call {
            Call::Create(key, body) => {
                self.create(key.kind, body);
                true
            }
            Call::Patch { key, status, patch } => self.patch(key.kind, *status, patch),
            Call::Delete {
                key,
                uid,
                resource_version,
            } => {
                if self == Self::TrustsCaches {
                    (*uid, *resource_version) = (None, None);
                }
                let never = self == Self::NeverPropagates && [MACHINE, MIRROR].contains(&key.kind);
                !never
            }
            _ => true,
        }
    }

    fn create(self, kind: KindId, body: &mut Value) {
        let metadata = body.get_mut("metadata").and_then(Value::as_object_mut);
        let Some(metadata) = metadata else { return };
        let unpaused = match self {
            Self::CreatesUnpaused => [MIRROR, MIRROR_SET, MIRROR_CHECK].contains(&kind),
            Self::CreatesUnpausedInfrastructure => kind == INFRASTRUCTURE,
            _ => false,
        };
        if unpaused && let Some(Value::Object(annotations)) = metadata.get_mut("annotations") {
            annotations.remove(PAUSED);
        }
        if self == Self::NoFinalizer {
            metadata.remove("finalizers");
        }
        if self == Self::DropsOwner {
            metadata.remove("ownerReferences");
        }
        if self == Self::DropsLabels {
            metadata.remove("labels");
        }
    }

    fn patch(self, kind: KindId, status: bool, patch: &mut Value) -> bool {
        let pause = patch.pointer("/metadata/annotations/cluster.x-k8s.io~1paused").cloned();
        let pauses = pause.as_ref().is_some_and(Value::is_string);
        let unpauses = pause.as_ref().is_some_and(Value::is_null);
        let infrastructure = kind == INFRASTRUCTURE;
        let of_machine_api = [MACHINE, SET, HEALTH_CHECK].contains(&kind);
        let sent = match self {
            Self::NeverPauses => !pauses || of_machine_api,
            Self::PausesMachineOnly => !(pauses && infrastructure),
            Self::NeverUnpauses => !unpauses || of_machine_api,
            Self::UnpausesMachineOnly => !(unpauses && infrastructure),
            Self::ChecksBoth => !(pauses && kind == HEALTH_CHECK),
            Self::KeepsOwner => patch.pointer("/metadata/ownerReferences").is_none(),
            Self::NoStatus => !(status && patch.pointer("/status/authoritativeAPI").is_some()),
            _ => true,
        };
        if sent {
            self.change(kind, patch);
        }
        sent
    }

    fn change(self, kind: KindId, patch: &mut Value) {
        let version = patch.pointer("/metadata/resourceVersion").and_then(Value::as_str);
        let version = version.and_then(|version| version.parse().ok()).unwrap_or_default();
        if let Some(Value::Object(status)) = patch.get_mut("status") {
            self.change_status(status, version);
        }
        if self == Self::DropsSpecOfSet
            && [SET, MIRROR_SET].contains(&kind)
            && let Some(fields) = patch.as_object_mut()
        {
            fields.remove("spec");
        }
        let Some(Value::Object(metadata)) = patch.get_mut("metadata") else {
            return;
        };
        if self == Self::TrustsCaches {
            metadata.remove("resourceVersion");
            metadata.remove("uid");
        }
        if self == Self::DropsLabels {
            metadata.remove("labels");
        }
        if self == Self::DropsRecord
            && let Some(Value::Object(annotations)) = metadata.get_mut("annotations")
        {
            annotations.remove("capstan.dev/mirrored");
        }
        let Some(Value::Array(finalizers)) = metadata.get_mut("finalizers") else {
            return;
        };
        match self {
            Self::NoFinalizer => finalizers.retain(|name| name != OWN),
            Self::KeepsFinalizer if !finalizers.contains(&OWN.into()) => finalizers.push(OWN.into()),
            Self::NoHandOver => {
                finalizers.retain(|name| name != "awsmachine.infrastructure.cluster.x-k8s.io");
            }
            Self::ReleasesTooMuch => finalizers.retain(|name| name == OWN),
            _ => {}
        }
    }

    /// `version` is the version of the object.
    fn change_status(self, status: &mut serde_json::Map<String, Value>, version: u64) {
        let api = status
            .get("authoritativeAPI")
            .and_then(Value::as_str)
            .map(str::to_owned);
        match (self, api.as_deref()) {
            (Self::SkipsMigrating, Some("Migrating")) => {
                let target = match status.get("synchronizedAPI").and_then(Value::as_str) {
                    Some("MachineAPI") => "ClusterAPI",
                    _ => "MachineAPI",
                };
                status.insert(String::from("authoritativeAPI"), target.into());
                status.insert(String::from("synchronizedAPI"), target.into());
            }
            (Self::ForgetsSource, Some("Migrating")) => {
                status.insert(String::from("synchronizedAPI"), Value::Null);
            }
            _ => {}
        }
        let conditions = status.get_mut("conditions").and_then(Value::as_array_mut);
        for condition in conditions.into_iter().flatten() {
            if condition.get("type") != Some(&"Synchronized".into()) {
                continue;
            }
            if let Some(fields) = condition.as_object_mut() {
                if self == Self::AlwaysSynchronized {
                    fields.insert(String::from("status"), "True".into());
                    fields.remove("severity");
                }
                if self == Self::MovesTime {
                    let time = format!("2020-01-01T00:{:02}:{:02}Z", version / 60 % 60, version % 60);
                    fields.insert(String::from("lastTransitionTime"), time.into());
                }
            }
        }
    }
}

impl Mutant {
    /// Changes what a live read shows. Returns whether it did.
    pub(super) fn sees(self, kind: KindId, object: &mut Value) -> bool {
        let of_machine = [MACHINE, MIRROR].contains(&kind);
        match self {
            Self::AssumesAcknowledgement if of_machine || kind == INFRASTRUCTURE => ack(object),
            Self::AssumesAcknowledgementOfParents if [SET, MIRROR_SET, MIRROR_CHECK].contains(&kind) => ack(object),
            Self::PropagatesWithoutOwner if of_machine => owned(object),
            _ => false,
        }
    }
}

/// Pretends that the controllers acknowledged a pause.
fn ack(object: &mut Value) -> bool {
    let paused = object
        .pointer("/metadata/annotations/cluster.x-k8s.io~1paused")
        .is_some();
    let migrating = object.pointer("/status/authoritativeAPI") == Some(&"Migrating".into());
    let conditions = object.pointer_mut("/status/conditions").and_then(Value::as_array_mut);
    let Some(conditions) = conditions.filter(|_| paused || migrating) else {
        return false;
    };
    let reported = conditions
        .iter_mut()
        .find(|condition| condition.get("type") == Some(&"Paused".into()));
    let Some(status) = reported.and_then(|condition| condition.get_mut("status")) else {
        return false;
    };
    *status = "True".into();
    true
}

/// Pretends that a Machine has an owner.
fn owned(object: &mut Value) -> bool {
    let none = object.pointer("/metadata/ownerReferences").is_none();
    let deleting = object.pointer("/metadata/deletionTimestamp").is_some();
    let Some(metadata) = object.get_mut("metadata").and_then(Value::as_object_mut) else {
        return false;
    };
    if none && deleting {
        let owner = json!([{"apiVersion": "machine.openshift.io/v1", "kind": "ControlPlaneMachineSet",
            "name": "cluster", "uid": "x", "controller": true}]);
        metadata.insert(String::from("ownerReferences"), owner);
    }
    none && deleting
}

/// The view with changed objects of these kinds.
fn changed(view: &View, kinds: &[&KindInfo], change: fn(&mut Value) -> bool) -> View {
    let mut view = view.clone();
    for kind in kinds {
        let mut known = view.objects.of::<StoredObject>(kind).cloned().unwrap_or_default();
        let objects = Arc::make_mut(&mut known.objects);
        let all: Vec<_> = objects
            .iter()
            .map(|(key, object)| (key.clone(), Arc::clone(object)))
            .collect();
        for (key, object) in all {
            let mut value = object.value().clone();
            if change(&mut value) {
                objects.insert_mut(key, Arc::new(StoredObject::of(value)));
            }
        }
        view.objects.insert(kind, known);
    }
    view
}
