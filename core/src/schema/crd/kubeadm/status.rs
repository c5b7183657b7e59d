//! The schema of the status of a KubeadmControlPlane.

use serde_json::{Value, json};

use super::build::Version::{V1Beta1, V1Beta2};
use super::build::{
    Object, Version, boolean, int32, int32_from, int32_from_in_v1beta2, keyed, matching, one_of, string, text, time,
};
use super::spec::CONDITION_TYPE;

const REASON: &str = "^[A-Za-z]([A-Za-z0-9_,:]*[A-Za-z0-9_])?$";
const REPLICAS: &str = "The number of machines.";
const READY: &str = "The number of machines that are ready.";
const AVAILABLE: &str = "The number of machines that are available.";
const UP_TO_DATE: &str = "The number of machines that are up to date.";
const UNAVAILABLE: &str = "The number of machines that are not ready yet.";
const CONDITIONS: &str = "The conditions.";
const FAILURE: &str = "Deprecated: why the control plane failed.";

/// The schema of the status.
pub(super) fn status(version: Version) -> Value {
    let generation = match version {
        V1Beta1 => json!({"type": "integer", "format": "int64"}),
        V1Beta2 => json!({"type": "integer", "format": "int64", "minimum": 1}),
    };
    let observed = Object::new(version)
        .required("version", text(256), "The version of Kubernetes.")
        .field("replicas", int32_from(1), "The number of machines with this version.")
        .build();
    let status = Object::new(version)
        .field("selector", text(4096), "The label selector of the machines, as text.")
        .field("replicas", int32(), REPLICAS)
        .field("readyReplicas", int32(), READY)
        .field("version", text(256), "Deprecated: the lowest version of the machines.")
        .field(
            "versions",
            keyed(&["version"], 1, 100, &observed),
            "The versions of the machines, from the lowest to the highest.",
        )
        .field(
            "observedGeneration",
            generation,
            "The generation of the last reconcile without an error.",
        )
        .field(
            "lastRemediation",
            last_remediation(version),
            "The last replacement of an unhealthy machine.",
        );
    match version {
        V1Beta1 => v1beta1(status).build(),
        V1Beta2 => v1beta2(status).not_empty(),
    }
}

fn v1beta2(status: Object) -> Object {
    let former = Object::new(V1Beta2)
        .field("conditions", former_conditions(V1Beta2), CONDITIONS)
        .field("failureReason", string(), FAILURE)
        .field("failureMessage", text(10240), FAILURE)
        .field("updatedReplicas", int32(), UP_TO_DATE)
        .field("readyReplicas", int32(), READY)
        .field("unavailableReplicas", int32(), UNAVAILABLE)
        .build();
    let initialization = Object::new(V1Beta2)
        .field(
            "controlPlaneInitialized",
            boolean(),
            "Whether the API server has accepted requests. It stays true.",
        )
        .not_empty();
    status
        .field("conditions", conditions(V1Beta2), CONDITIONS)
        .field("initialization", initialization, "How far the first machine is.")
        .field("availableReplicas", int32(), AVAILABLE)
        .field("upToDateReplicas", int32(), UP_TO_DATE)
        .field(
            "deprecated",
            Object::new(V1Beta2)
                .field("v1beta1", former, "The status of the version v1beta1.")
                .build(),
            "The status of former versions.",
        )
}

fn v1beta1(status: Object) -> Object {
    let later = Object::new(V1Beta1)
        .field("conditions", conditions(V1Beta1), CONDITIONS)
        .field("readyReplicas", int32(), READY)
        .field("availableReplicas", int32(), AVAILABLE)
        .field("upToDateReplicas", int32(), UP_TO_DATE)
        .build();
    status
        .field("conditions", former_conditions(V1Beta1), CONDITIONS)
        .field("failureReason", string(), FAILURE)
        .field("failureMessage", text(10240), FAILURE)
        .field(
            "initialized",
            boolean(),
            "Whether the control plane has its kubeadm-config.",
        )
        .field("ready", boolean(), "Whether the API server accepts requests.")
        .field("updatedReplicas", int32(), UP_TO_DATE)
        .field("unavailableReplicas", int32(), UNAVAILABLE)
        .field("v1beta2", later, "The status of the version v1beta2.")
}

fn last_remediation(version: Version) -> Value {
    let time_field = match version {
        V1Beta1 => "timestamp",
        V1Beta2 => "time",
    };
    Object::new(version)
        .required("machine", text(253), "The machine that was replaced.")
        .required(time_field, time(), "When it was replaced.")
        .required(
            "retryCount",
            int32_from_in_v1beta2(version, 0),
            "How many attempts failed before.",
        )
        .build()
}

fn conditions(version: Version) -> Value {
    let name = json!({"type": "string", "maxLength": 316, "pattern": CONDITION_TYPE});
    let generation = json!({"type": "integer", "format": "int64", "minimum": 0});
    let condition = Object::new(version)
        .required("type", name, "The type of the condition.")
        .required(
            "status",
            one_of(&["True", "False", "Unknown"]),
            "The status of the condition.",
        )
        .field(
            "observedGeneration",
            generation,
            "The generation that the condition is about.",
        )
        .required("lastTransitionTime", time(), "When the status changed last.")
        .required("reason", matching(1024, REASON), "The reason, for programs.")
        .required(
            "message",
            json!({"type": "string", "maxLength": 32768}),
            "The details, for people.",
        )
        .build();
    keyed(&["type"], 0, 32, &condition)
}

/// The conditions of `v1beta1`.
fn former_conditions(version: Version) -> Value {
    let condition = Object::new(version)
        .required("type", text(256), "The type of the condition.")
        .required("status", string(), "The status of the condition.")
        .field(
            "severity",
            json!({"type": "string", "maxLength": 32}),
            "How severe a status False is.",
        )
        .required("lastTransitionTime", time(), "When the status changed last.")
        .field("reason", text(256), "The reason, for programs.")
        .field("message", text(10240), "The details, for people.")
        .build();
    json!({"type": "array", "items": condition})
}
