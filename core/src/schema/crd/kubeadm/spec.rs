//! The schema of the spec of a KubeadmControlPlane, and of the spec in a template of one.

use serde_json::{Value, json};

use super::build::Version::{V1Beta1, V1Beta2};
use super::build::{
    Object, Version, int_or_string, int32, int32_from, int32_from_in_v1beta2, keyed, map, matching, one_of, string,
    text, time,
};
use super::config::kubeadm_config;

const SUBDOMAIN: &str = r"^[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*$";
const KIND: &str = r"^[a-zA-Z]([-a-zA-Z0-9]*[a-zA-Z0-9])?$";
/// A qualified name, as the type of a condition.
pub(super) const CONDITION_TYPE: &str =
    r"^([a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*/)?(([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9])$";
const TAINT_KEY: &str =
    r"^([a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*\/)?([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]$";
const TAINT_VALUE: &str = r"^(([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9])?$";

/// Whether the spec is that of an object or that in a template.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Of {
    /// A KubeadmControlPlane.
    ControlPlane,
    /// A KubeadmControlPlaneTemplate. The Cluster provides version, replicas, and infrastructure.
    Template,
}

/// The schema of the spec.
pub(super) fn spec(version: Version, of: Of) -> Value {
    let mut spec = Object::new(version);
    if of == Of::ControlPlane {
        spec = spec
            .field(
                "replicas",
                int32(),
                "The number of machines: odd, unless etcd is external. The default is 1.",
            )
            .required("version", text(256), "The version of Kubernetes, such as v1.34.2.");
    }
    let config = kubeadm_config(version);
    let described = "How kubeadm sets up the machines.";
    spec = match version {
        V1Beta1 => spec.required("kubeadmConfigSpec", config, described),
        V1Beta2 => spec.field("kubeadmConfigSpec", config, described),
    };
    let template = machine_template(version, of);
    let described = "How the machines are made.";
    spec = match of {
        Of::ControlPlane => spec.required("machineTemplate", template, described),
        Of::Template => spec.field("machineTemplate", template, described),
    };
    let before = "Conditions under which machines are replaced before they must be.";
    let after = "Machines that were created before this time are replaced, as soon as it is past.";
    spec = match version {
        V1Beta1 => spec
            .field("rolloutBefore", rollout_before(version), before)
            .field("rolloutAfter", time(), after)
            .field("rolloutStrategy", strategy(version), "How machines are replaced."),
        V1Beta2 => spec.field(
            "rollout",
            Object::new(version)
                .field("before", rollout_before(version), before)
                .field("after", time(), after)
                .field("strategy", strategy(version), "How machines are replaced.")
                .not_empty(),
            "When and how machines are replaced.",
        ),
    };
    let remediated = "How unhealthy machines are replaced.";
    let named = "The names of new machines.";
    match version {
        V1Beta1 => spec
            .field("remediationStrategy", remediation(version), remediated)
            .field("machineNamingStrategy", naming(version), named)
            .build(),
        V1Beta2 => {
            let spec = spec.field("remediation", remediation(version), remediated).field(
                "machineNaming",
                naming(version),
                named,
            );
            match of {
                Of::ControlPlane => spec.build(),
                Of::Template => spec.not_empty(),
            }
        }
    }
}

fn rollout_before(version: Version) -> Value {
    Object::new(version)
        .field(
            "certificatesExpiryDays",
            int32_from_in_v1beta2(version, 7),
            "Machines whose certificates expire within so many days are replaced.",
        )
        .not_empty()
}

fn strategy(version: Version) -> Value {
    let rolling = Object::new(version)
        .field(
            "maxSurge",
            int_or_string(),
            "How many machines are created in addition: 1, or 0 to delete a machine first. The default is 1.",
        )
        .not_empty();
    let strategy = Object::new(version)
        .required_in(V1Beta2, "type", one_of(&["RollingUpdate"]), "The type of the strategy.")
        .field("rollingUpdate", rolling, "Options of the type RollingUpdate.");
    match version {
        V1Beta1 => strategy
            .with(
                "default",
                json!({"type": "RollingUpdate", "rollingUpdate": {"maxSurge": 1}}),
            )
            .build(),
        V1Beta2 => strategy.not_empty(),
    }
}

fn remediation(version: Version) -> Value {
    let retries = "How often a machine that replaces an unhealthy machine may be replaced itself. Without it, there \
                   is no limit.";
    let retry = "How long to wait before the next attempt.";
    let healthy = "After this time, a machine that failed is not counted as a further attempt. The default is 1 hour.";
    let object = Object::new(version).field("maxRetry", int32(), retries);
    match version {
        V1Beta1 => object
            .field("retryPeriod", string(), retry)
            .field("minHealthyPeriod", string(), healthy)
            .build(),
        V1Beta2 => object
            .field("retryPeriodSeconds", int32_from(0), retry)
            .field("minHealthyPeriodSeconds", int32_from(0), healthy)
            .not_empty(),
    }
}

fn naming(version: Version) -> Value {
    Object::new(version)
        .field(
            "template",
            text(256),
            "A Go template with .cluster.name, .kubeadmControlPlane.name and {{ .random }}, which is required.",
        )
        .not_empty()
}

/// Labels and annotations.
pub(super) fn metadata(version: Version) -> Value {
    Object::new(version)
        .field("labels", map(&string()), "The labels.")
        .field("annotations", map(&string()), "The annotations.")
        .not_empty()
}

fn machine_template(version: Version, of: Of) -> Value {
    let described = "Labels and annotations of the machines. A change applies to running machines.";
    let template = Object::new(version).field("metadata", metadata(version), described);
    match (version, of) {
        (V1Beta1, _) => machine_spec_v1beta1(template, of).build(),
        (V1Beta2, Of::ControlPlane) => template
            .required("spec", machine_spec(version, of), "The spec of the machines.")
            .build(),
        (V1Beta2, Of::Template) => template
            .field("spec", machine_spec(version, of), "The spec of the machines.")
            .not_empty(),
    }
}

const DRAIN: &str = "How long a node is drained. 0 means no limit.";
const DETACH: &str = "How long to wait until the volumes of a node are detached. 0 means no limit.";
const DELETION: &str = "How long the deletion of a Node is attempted. 0 means no limit.";
const GATES: &str = "Conditions of a machine that must be True, or False, before the machine is ready.";
const TAINTS: &str = "The taints of the nodes that Cluster API manages.";
const INFRASTRUCTURE: &str = "The template of the infrastructure machines.";

fn machine_spec(version: Version, of: Of) -> Value {
    let deletion = Object::new(version)
        .field("nodeDrainTimeoutSeconds", int32_from(0), DRAIN)
        .field("nodeVolumeDetachTimeoutSeconds", int32_from(0), DETACH)
        .field("nodeDeletionTimeoutSeconds", int32_from(0), DELETION)
        .not_empty();
    let spec = Object::new(version)
        .field("deletion", deletion, "How machines are deleted.")
        .field("taints", taints(version), TAINTS);
    match of {
        Of::Template => spec.not_empty(),
        Of::ControlPlane => spec
            .required(
                "infrastructureRef",
                Object::new(version)
                    .required("apiGroup", matching(253, SUBDOMAIN), "The API group.")
                    .required("kind", matching(63, KIND), "The kind.")
                    .required("name", matching(253, SUBDOMAIN), "The name.")
                    .build(),
                INFRASTRUCTURE,
            )
            .field("readinessGates", readiness_gates(version, 1), GATES)
            .build(),
    }
}

/// The fields of the machine template, which are beside the metadata in `v1beta1`.
fn machine_spec_v1beta1(template: Object, of: Of) -> Object {
    let template = template
        .field("nodeDrainTimeout", string(), DRAIN)
        .field("nodeVolumeDetachTimeout", string(), DETACH)
        .field("nodeDeletionTimeout", string(), DELETION)
        .field("taints", taints(V1Beta1), TAINTS);
    if of == Of::Template {
        return template;
    }
    let reference = Object::new(V1Beta1)
        .field("apiVersion", string(), "The API group and the version.")
        .field("kind", string(), "The kind.")
        .field("name", string(), "The name.")
        .field("namespace", string(), "The namespace, which is that of this object.")
        .field("uid", string(), "Ignored.")
        .field("resourceVersion", string(), "Ignored.")
        .field("fieldPath", string(), "Ignored.")
        .atomic()
        .build();
    template.required("infrastructureRef", reference, INFRASTRUCTURE).field(
        "readinessGates",
        readiness_gates(V1Beta1, 0),
        GATES,
    )
}

fn readiness_gates(version: Version, least: u32) -> Value {
    let gate = Object::new(version)
        .required(
            "conditionType",
            matching(316, CONDITION_TYPE),
            "The type of the condition.",
        )
        .field(
            "polarity",
            one_of(&["Positive", "Negative"]),
            "Whether the condition must be True (Positive, the default) or False (Negative).",
        )
        .build();
    keyed(&["conditionType"], least, 32, &gate)
}

fn taints(version: Version) -> Value {
    let taint = Object::new(version)
        .required("key", matching(317, TAINT_KEY), "The key.")
        .field("value", matching(63, TAINT_VALUE), "The value.")
        .required(
            "effect",
            one_of(&["NoSchedule", "PreferNoSchedule", "NoExecute"]),
            "The effect on pods that do not tolerate the taint.",
        )
        .required(
            "propagation",
            one_of(&["Always", "OnInitialization"]),
            "Whether the taint is kept on the node, or only set when the node joins.",
        )
        .build();
    keyed(&["key", "effect"], 1, 64, &taint)
}
