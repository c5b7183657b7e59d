//! The CustomResourceDefinitions of KubeadmControlPlane and KubeadmControlPlaneTemplate, each with
//! the stored version `v1beta2` and the older version `v1beta1`.
//!
//! The schemas contain every field of the API, so that a field is never pruned that Cluster API
//! keeps. Source: the CRDs of Cluster API 1.14, with which a test compares these. They differ only
//! in the rules of `webhooks/rules`, which apply to `v1beta2`, and in the descriptions.

mod build;
mod cluster;
mod components;
mod config;
mod nodes;
mod spec;
mod status;

use serde_json::{Map, Value, json};

use self::build::{Object, Version};
use self::spec::Of;
use super::{AGE, column, condition, with_type_meta};
use crate::api::controlplane_cluster_x_k8s_io::{GROUP, kubeadm_control_plane, kubeadm_control_plane_template};
use crate::api::machine_openshift_io::NAMESPACE;

/// The path of the server that converts objects between the versions.
pub const CONVERSION_PATH: &str = "/convert-controlplane-cluster-x-k8s-io";

/// The two CRDs.
pub(super) fn crds() -> Vec<Value> {
    vec![control_plane(), template()]
}

fn control_plane() -> Value {
    let version = |version: Version, name: &str, columns: Vec<Map<String, Value>>| {
        let root = Object::new(version);
        let (spec, described) = (spec::spec(version, Of::ControlPlane), "The desired control plane.");
        let root = match version {
            Version::V1Beta1 => root.field("spec", spec, described),
            Version::V1Beta2 => root.required("spec", spec, described),
        };
        let root = root.field("status", status::status(version), "The observed control plane.");
        let description = "A KubeadmControlPlane describes the control plane machines of a cluster, which kubeadm \
                           sets up.";
        let mut served = served(version, name, root.with("description", description.into()), &columns);
        if let Some(served) = served.as_object_mut() {
            let scale = json!({
                "specReplicasPath": ".spec.replicas",
                "statusReplicasPath": ".status.replicas",
                "labelSelectorPath": ".status.selector",
            });
            served.insert("subresources".into(), json!({"status": {}, "scale": scale}));
        }
        served
    };
    definition(
        kubeadm_control_plane::KIND,
        kubeadm_control_plane::PLURAL,
        &["kcp"],
        &[
            version(Version::V1Beta2, "v1beta2", columns()),
            version(Version::V1Beta1, "v1beta1", columns_v1beta1()),
        ],
    )
}

fn template() -> Value {
    let version = |version: Version, name: &str, columns: &[Map<String, Value>]| {
        let inner = Object::new(version).field(
            "metadata",
            spec::metadata(version),
            "Labels and annotations of the control planes.",
        );
        let (spec, described) = (spec::spec(version, Of::Template), "The spec of the control planes.");
        let inner = match version {
            Version::V1Beta1 => inner.required("spec", spec, described).build(),
            Version::V1Beta2 => inner.field("spec", spec, described).not_empty(),
        };
        let outer = Object::new(version)
            .required("template", inner, "The template.")
            .build();
        let description = "A KubeadmControlPlaneTemplate is the template of the KubeadmControlPlanes of a \
                           ClusterClass.";
        let root = Object::new(version)
            .field("spec", outer, "The template, which is immutable.")
            .with("description", description.into());
        let mut served = served(version, name, root, columns);
        if let Some(served) = served.as_object_mut() {
            served.insert("subresources".into(), json!({}));
        }
        served
    };
    let age = column("Age", "date", AGE, 0);
    let class = column(
        "ClusterClass",
        "string",
        ".metadata.ownerReferences[?(@.kind==\"ClusterClass\")].name",
        0,
    );
    definition(
        kubeadm_control_plane_template::KIND,
        kubeadm_control_plane_template::PLURAL,
        &[],
        &[
            version(Version::V1Beta2, "v1beta2", &[class, age.clone()]),
            version(Version::V1Beta1, "v1beta1", &[age]),
        ],
    )
}

fn served(version: Version, name: &str, root: Object, columns: &[Map<String, Value>]) -> Value {
    let is_stored = version == Version::V1Beta2;
    let mut served = json!({
        "name": name,
        "served": true,
        "storage": is_stored,
        "schema": {"openAPIV3Schema": with_type_meta(root.build())},
        "additionalPrinterColumns": columns,
    });
    if let (false, Some(served)) = (is_stored, served.as_object_mut()) {
        served.insert("deprecated".into(), true.into());
    }
    served
}

fn definition(kind: &str, plural: &str, short_names: &[&str], versions: &[Value]) -> Value {
    let mut names = json!({
        "kind": kind,
        "listKind": format!("{kind}List"),
        "plural": plural,
        "singular": kind.to_lowercase(),
        "categories": ["cluster-api"],
    });
    if let (false, Some(names)) = (short_names.is_empty(), names.as_object_mut()) {
        names.insert("shortNames".into(), short_names.into());
    }
    json!({
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {
            "name": format!("{plural}.{GROUP}"),
            // The contracts of Cluster API that the versions follow. Cluster API finds the version
            // of a reference by these labels.
            "labels": {"cluster.x-k8s.io/v1beta1": "v1beta1", "cluster.x-k8s.io/v1beta2": "v1beta2"},
        },
        "spec": {
            "group": GROUP,
            "names": names,
            "scope": "Namespaced",
            "conversion": {
                "strategy": "Webhook",
                "webhook": {
                    "conversionReviewVersions": ["v1"],
                    "clientConfig": {"service": {
                        "namespace": NAMESPACE,
                        "name": "capstan-webhook",
                        "port": 443,
                        "path": CONVERSION_PATH,
                    }},
                },
            },
            "versions": versions,
        },
    })
}

fn described(mut column: Map<String, Value>, description: &str) -> Map<String, Value> {
    column.insert("description".into(), description.into());
    column
}

/// The column with the name of the Cluster.
fn cluster() -> Map<String, Value> {
    let path = ".metadata.labels['cluster\\.x-k8s\\.io/cluster-name']";
    described(column("Cluster", "string", path, 0), "Cluster of the control plane")
}

fn columns() -> Vec<Map<String, Value>> {
    let count = |name, field, description| described(column(name, "integer", field, 0), description);
    vec![
        cluster(),
        described(
            condition("Available", "Available", 0),
            "Whether the control plane is available",
        ),
        count("Desired", ".spec.replicas", "Desired number of machines"),
        count("Current", ".status.replicas", "Number of machines"),
        count("Ready", ".status.readyReplicas", "Number of ready machines"),
        count("Available", ".status.availableReplicas", "Number of available machines"),
        count(
            "Up-to-date",
            ".status.upToDateReplicas",
            "Number of machines that are up to date",
        ),
        described(condition("Paused", "Paused", 10), "Whether reconciliation is paused"),
        described(
            column(
                "Initialized",
                "boolean",
                ".status.initialization.controlPlaneInitialized",
                0,
            ),
            "Whether the API server has accepted requests",
        ),
        column("Age", "date", AGE, 0),
        described(column("Version", "string", ".spec.version", 0), "Version of Kubernetes"),
    ]
}

fn columns_v1beta1() -> Vec<Map<String, Value>> {
    let count = |name, field, description| described(column(name, "integer", field, 0), description);
    vec![
        cluster(),
        described(
            column("Initialized", "boolean", ".status.initialized", 0),
            "Whether the control plane has its kubeadm-config",
        ),
        described(
            column("API Server Available", "boolean", ".status.ready", 0),
            "Whether the API server accepts requests",
        ),
        described(
            column("Desired", "integer", ".spec.replicas", 10),
            "Desired number of machines",
        ),
        count("Replicas", ".status.replicas", "Number of machines"),
        count("Ready", ".status.readyReplicas", "Number of ready machines"),
        count(
            "Updated",
            ".status.updatedReplicas",
            "Number of machines that are up to date",
        ),
        count(
            "Unavailable",
            ".status.unavailableReplicas",
            "Number of machines that are not ready yet",
        ),
        column("Age", "date", AGE, 0),
        described(column("Version", "string", ".spec.version", 0), "Version of Kubernetes"),
    ]
}
