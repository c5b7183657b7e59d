//! Converts the taints of machines.
//!
//! Must never: convert a taint that the webhooks of Cluster API refuse without an issue.

use serde_json::{Map, Value};

use super::tree::{self, Tree};
use super::{Api, Issue, metadata};
use crate::model::{is_label_key, is_label_value};

/// The largest number of taints of a Machine of Cluster API.
const MOST_TAINTS: usize = 64;
/// The taints with these prefixes belong to the kubelet, and to controllers of nodes and of clouds.
const RESERVED_PREFIXES: [&str; 2] = ["node.kubernetes.io/", "node.cloudprovider.kubernetes.io/"];
/// The only key with such a prefix that a user may set.
const OUT_OF_SERVICE: &str = "node.kubernetes.io/out-of-service";

/// Takes the taints of a machine of the Machine API, and returns those of Cluster API. `is_worker`
/// tells whether Cluster API takes the machine for a worker.
pub(super) fn to_cluster_api(spec: &mut Tree, is_worker: bool, issues: &mut Vec<Issue>) -> Vec<Value> {
    let mut converted = Vec::new();
    for mut taint in metadata::items(spec, "taints", issues) {
        if taint.take("timeAdded").is_some() {
            issues.push(Issue::loses(
                taint.path("timeAdded"),
                "Cluster API does not store the time when a taint was added",
                "no action is needed: the taint itself is kept",
            ));
        }
        let mut fields = fields(&mut taint, Api::ClusterApi, is_worker, issues);
        fields.insert(String::from("propagation"), "Always".into());
        converted.push((taint.root, Value::Object(fields)));
    }
    if converted.len() > MOST_TAINTS {
        issues.push(Issue::blocks(
            spec.path("taints"),
            format!("Cluster API allows at most {MOST_TAINTS} taints"),
            "use fewer taints",
        ));
    }
    let mut seen: Vec<(&str, &str)> = Vec::new();
    for (path, taint) in &converted {
        let field = |name| tree::text(taint, name).unwrap_or_default();
        let key = (field("key"), field("effect"));
        if seen.contains(&key) {
            issues.push(Issue::blocks(
                path.as_str(),
                "Cluster API allows one taint for each key and effect",
                "remove the duplicate",
            ));
        }
        seen.push(key);
    }
    converted.into_iter().map(|(_, taint)| taint).collect()
}

/// Takes the fields that a taint has in both APIs.
fn fields(taint: &mut Tree, to: Api, is_worker: bool, issues: &mut Vec<Issue>) -> Map<String, Value> {
    let mut fields = Map::new();
    for field in ["key", "value", "effect"] {
        if let Some(text) = taint.take_text(field) {
            fields.insert(field.to_owned(), text.into());
        } else if taint.get(field).is_some_and(|value| value.as_str() == Some("")) {
            taint.take(field);
        }
    }
    let text = |field: &str| fields.get(field).and_then(Value::as_str).unwrap_or_default();
    let mut block = |field: &str, reason: &str| {
        issues.push(Issue::blocks(taint.path(field), reason, "correct the taint"));
    };
    if !is_label_key(text("key")) {
        block(
            "key",
            "must be a qualified name: an optional DNS prefix and a name of at most 63 characters",
        );
    }
    if !is_label_value(text("value")) {
        block(
            "value",
            "must be at most 63 letters, digits, hyphens, underscores and dots",
        );
    }
    if !["NoSchedule", "PreferNoSchedule", "NoExecute"].contains(&text("effect")) {
        block("effect", "must be NoSchedule, PreferNoSchedule or NoExecute");
    }
    if let Some(reason) = reserved(text("key"), is_worker) {
        issues.push(Issue::blocks(
            taint.path("key"),
            reason,
            "remove the taint, or use a key of your own, such as example.org/dedicated",
        ));
    }
    metadata::report_rest(taint, to, issues);
    fields
}

/// Why Cluster API refuses the key of a taint (v1.14, internal/util/taints and
/// core/webhooks/admission/machine.go).
fn reserved(key: &str, is_worker: bool) -> Option<&'static str> {
    let of_kubernetes = RESERVED_PREFIXES.iter().any(|prefix| key.starts_with(prefix)) && key != OUT_OF_SERVICE;
    if of_kubernetes {
        return Some("Cluster API refuses the taint, because a controller of Kubernetes adds and removes it");
    }
    match key {
        "node.cluster.x-k8s.io/uninitialized" | "node.cluster.x-k8s.io/outdated-revision" => {
            Some("Cluster API refuses the taint, because it adds and removes it itself")
        }
        "node-role.kubernetes.io/master" => Some("Cluster API refuses this former taint of control plane nodes"),
        "node-role.kubernetes.io/control-plane" if is_worker => {
            Some("Cluster API refuses the taint on a machine without the label cluster.x-k8s.io/control-plane")
        }
        _ => None,
    }
}

/// Takes the taints of a machine of Cluster API, and returns those of the Machine API.
pub(super) fn to_machine_api(spec: &mut Tree, is_worker: bool, issues: &mut Vec<Issue>) -> Vec<Value> {
    let mut converted = Vec::new();
    for mut taint in metadata::items(spec, "taints", issues) {
        let propagation = taint.take("propagation");
        if propagation.is_some_and(|value| !matches!(value.as_str(), Some("" | "Always"))) {
            issues.push(Issue::blocks(
                taint.path("propagation"),
                "the Machine API always restores a removed taint",
                "set it to Always, or remove the taint",
            ));
        }
        converted.push(Value::Object(fields(&mut taint, Api::MachineApi, is_worker, issues)));
    }
    converted
}
