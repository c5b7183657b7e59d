//! The fields that an update may change.
//!
//! The difference between two specs is that of a JSON merge patch: a list or a field that is
//! removed is one change. Source: the list of fields in Cluster API's webhook.

use serde_json::{Map, Value};

use super::table::IMMUTABLE;
use crate::api::controlplane_cluster_x_k8s_io::kubeadm_control_plane::Spec;
use crate::kcp::canonical::{comparable, without_empty_fields};
use crate::model::{FieldPath, Violation, ViolationKind};

/// Parents, and the fields below them that may change. `x` allows `x` itself to be set or removed,
/// and `x+` also what is below it.
const ALLOWED: &[(&str, &[&str])] = &[
    (
        "spec",
        &["replicas", "version", "remediation+", "machineNaming+", "rollout+"],
    ),
    ("spec.machineTemplate", &["metadata+", "spec+"]),
    (
        "spec.kubeadmConfigSpec",
        &[
            "bootCommands",
            "preKubeadmCommands",
            "postKubeadmCommands",
            "files",
            "verbosity",
            "users",
            "ntp+",
            "ignition+",
            "diskSetup+",
            "format",
            "mounts",
        ],
    ),
    (
        "spec.kubeadmConfigSpec.clusterConfiguration",
        &[
            "etcd+",
            "dns+",
            "imageRepository",
            "featureGates+",
            "apiServer+",
            "controllerManager+",
            "scheduler+",
            "certificateValidityPeriodDays",
            "encryptionAlgorithm",
        ],
    ),
    (
        "spec.kubeadmConfigSpec.initConfiguration",
        &[
            "nodeRegistration+",
            "patches",
            "patches.directory",
            "skipPhases",
            "bootstrapTokens",
            "localAPIEndpoint+",
            "timeouts+",
        ],
    ),
    (
        "spec.kubeadmConfigSpec.joinConfiguration",
        &[
            "nodeRegistration+",
            "patches",
            "patches.directory",
            "skipPhases",
            "caCertPath",
            "controlPlane+",
            "discovery+",
            "timeouts+",
        ],
    ),
];

/// Refuses changes of other fields.
pub(super) fn judge(old: &Spec, new: &Spec, found: &mut Vec<Violation>) {
    for path in changed(old, new, "spec") {
        if !is_allowed(path.as_str()) {
            let forbidden = IMMUTABLE.violation(path, ViolationKind::Forbidden);
            let advice = "restore the field; to change it, create another control plane";
            found.push(forbidden.advice(advice));
        }
    }
}

/// The changed fields of two specs, below `root`.
pub(super) fn changed(old: &Spec, new: &Spec, root: &str) -> Vec<FieldPath> {
    // A wire type always has a JSON.
    let json = |spec: &Spec| without_empty_fields(&comparable(&serde_json::to_value(spec).unwrap_or_default()));
    let mut changed = Vec::new();
    compare(Some(&json(old)), Some(&json(new)), &FieldPath::from(root), &mut changed);
    changed
}

fn compare(old: Option<&Value>, new: Option<&Value>, at: &FieldPath, changed: &mut Vec<FieldPath>) {
    if old == new {
        return;
    }
    let Some(Value::Object(new)) = new else {
        return changed.push(at.clone());
    };
    if old.is_none() && new.is_empty() {
        // The presence of this field has a meaning.
        return changed.push(at.clone());
    }
    let nothing = Map::new();
    let old = old.and_then(Value::as_object).unwrap_or(&nothing);
    let removed = old.keys().filter(|name| !new.contains_key(*name));
    for name in new.keys().chain(removed) {
        compare(old.get(name), new.get(name), &at.child(name), changed);
    }
}

fn is_allowed(path: &str) -> bool {
    let below = |parent: &str| path.strip_prefix(parent)?.strip_prefix('.');
    ALLOWED
        .iter()
        .any(|(parent, fields)| below(parent).is_some_and(|field| fields.iter().any(|allowed| matches(allowed, field))))
}

fn matches(allowed: &str, field: &str) -> bool {
    match allowed.strip_suffix('+') {
        None => allowed == field,
        Some(name) => field
            .strip_prefix(name)
            .is_some_and(|rest| rest.is_empty() || rest.starts_with('.')),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_list_allows_fields_and_what_is_below_them() {
        let kubeadm = "spec.kubeadmConfigSpec";
        for (path, allowed) in [
            ("spec.replicas", true),
            ("spec.machineTemplate", false),
            ("spec.machineTemplate.metadata.labels.a", true),
            ("spec.machineTemplate.spec.infrastructureRef.name", true),
            ("spec.rollout", true),
            ("spec.rolloutStrategy", false),
            ("spec.rollout.before.certificatesExpiryDays", true),
            ("spec.kubeadmConfigSpec", false),
        ] {
            assert_eq!(is_allowed(path), allowed, "{path}");
        }
        for (field, allowed) in [
            ("clusterConfiguration", false),
            ("clusterConfiguration.certificatesDir", false),
            ("clusterConfiguration.controlPlaneEndpoint", false),
            ("clusterConfiguration.caCertificateValidityPeriodDays", false),
            ("clusterConfiguration.certificateValidityPeriodDays", true),
            ("clusterConfiguration.etcd.local.imageTag", true),
            ("clusterConfiguration.featureGates.a", true),
            ("initConfiguration", false),
            ("initConfiguration.patches.directory", true),
            ("initConfiguration.patches.other", false),
            ("joinConfiguration", false),
            ("joinConfiguration.caCertPath", true),
            ("joinConfiguration.nodeRegistration.taints", true),
            ("ntp.servers", true),
            ("files", true),
        ] {
            assert_eq!(is_allowed(&format!("{kubeadm}.{field}")), allowed, "{field}");
        }
    }
}
