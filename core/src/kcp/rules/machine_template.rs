//! The template of the machines: infrastructure, taints, labels and annotations.

use std::collections::BTreeMap;

use serde_json::Value;

use super::Judge;
use super::table::{INFRASTRUCTURE, TAINT_KEY, TAINTS_GATE, TEMPLATE_METADATA};
use crate::api::controlplane_cluster_x_k8s_io::kubeadm_control_plane::{Spec, TemplateMeta};
use crate::kcp::qualified::key_problem;
use crate::model::{FieldPath, Violation, ViolationKind, is_label_value};

/// The most bytes of all annotations of an object.
const LARGEST_ANNOTATIONS: usize = 256 * 1024;
/// Keys that Cluster API sets and removes itself, and a key that Kubernetes has replaced.
const RESERVED_TAINTS: &[&str] = &[
    "node.cluster.x-k8s.io/uninitialized",
    "node.cluster.x-k8s.io/outdated-revision",
    "node-role.kubernetes.io/master",
];
/// Prefixes of keys that the kubelet, the node lifecycle controller and cloud controllers set.
const RESERVED_PREFIXES: &[&str] = &["node.kubernetes.io/", "node.cloudprovider.kubernetes.io/"];
/// The key with a reserved prefix that users set.
const OUT_OF_SERVICE: &str = "node.kubernetes.io/out-of-service";

/// The reference to infrastructure is complete.
pub(super) fn infrastructure(spec: &Spec, found: &mut Vec<Violation>) {
    let reference = &spec.machine_template.spec.infrastructure_ref;
    for (field, value) in [
        ("apiGroup", &reference.api_group),
        ("kind", &reference.kind),
        ("name", &reference.name),
    ] {
        if value.is_empty() {
            let path = FieldPath::from("spec.machineTemplate.spec.infrastructureRef").child(field);
            let invalid = INFRASTRUCTURE.because(path, ViolationKind::Invalid, "must not be empty");
            let advice = "name the template of the infrastructure machines";
            found.push(invalid.got(&Value::from("")).advice(advice));
        }
    }
}

impl Judge<'_> {
    pub(super) fn taints(&mut self) {
        let taints = &self.spec.machine_template.spec.taints;
        let path = self.path("machineTemplate.spec.taints");
        if !taints.is_empty() && !self.gates.taints {
            let forbidden = TAINTS_GATE.violation(path.clone(), ViolationKind::Forbidden);
            self.found
                .push(forbidden.advice("remove the taints, or turn on the feature gate in Cluster API"));
        }
        for (index, taint) in taints.iter().enumerate() {
            let path = path.index(index).child("key");
            let reserved = taint_problem(&taint.key).map(str::to_owned);
            let unreadable = key_problem(&taint.key).map(|problem| format!("must be a valid key: {problem}"));
            for problem in reserved.into_iter().chain(unreadable) {
                let invalid = TAINT_KEY.because(path.clone(), ViolationKind::Invalid, problem);
                let advice = "use a key with a prefix of your own, such as example.org/dedicated";
                self.found
                    .push(invalid.got(&Value::from(taint.key.as_str())).advice(advice));
            }
        }
    }

    pub(super) fn template_metadata(&mut self) {
        let path = self.path("machineTemplate.metadata");
        metadata(&self.spec.machine_template.metadata, &path, self.found);
    }
}

fn taint_problem(key: &str) -> Option<&'static str> {
    if RESERVED_TAINTS.contains(&key) {
        return Some("must not be a key that Cluster API or Kubernetes reserves");
    }
    let is_reserved = RESERVED_PREFIXES.iter().any(|prefix| key.starts_with(prefix));
    (is_reserved && key != OUT_OF_SERVICE).then_some(
        "must not have the prefix node.kubernetes.io/, except node.kubernetes.io/out-of-service, or the prefix \
         node.cloudprovider.kubernetes.io/",
    )
}

/// Labels and annotations are valid.
pub(super) fn metadata(metadata: &TemplateMeta, at: &FieldPath, found: &mut Vec<Violation>) {
    let invalid = |field: &str, got: &str, problem: &str| {
        let invalid = TEMPLATE_METADATA.because(
            at.child(field),
            ViolationKind::Invalid,
            format!("must be valid: {problem}"),
        );
        invalid.got(&Value::from(got)).advice("correct or remove the entry")
    };
    for (key, value) in &metadata.labels {
        found.extend(key_problem(key).map(|problem| invalid("labels", key, problem)));
        if !is_label_value(value) {
            let problem = "a value has at most 63 letters, digits, '-', '_' or '.', and begins and ends with a \
                           letter or digit";
            found.push(invalid("labels", value, problem));
        }
    }
    for key in metadata.annotations.keys() {
        // Annotations are compared without regard to case.
        found.extend(key_problem(&key.to_lowercase()).map(|problem| invalid("annotations", key, problem)));
    }
    if size(&metadata.annotations) > LARGEST_ANNOTATIONS {
        let allowed = format!("must have at most {LARGEST_ANNOTATIONS} bytes");
        let too_long = TEMPLATE_METADATA.because(at.child("annotations"), ViolationKind::TooLong, allowed);
        found.push(too_long.advice("remove annotations"));
    }
}

fn size(annotations: &BTreeMap<String, String>) -> usize {
    annotations.iter().map(|(key, value)| key.len() + value.len()).sum()
}
