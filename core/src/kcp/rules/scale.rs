//! The number of machines, written to the object or to its scale subresource.

use serde_json::Value;

use super::table::{REPLICAS_ODD, REPLICAS_POSITIVE};
use crate::api::controlplane_cluster_x_k8s_io::kubeadm_control_plane::KubeadmControlPlane;
use crate::kcp::canonical::without_empty_fields;
use crate::kcp::spec::{TYPE_RULE, read_for_rules};
use crate::model::{Violation, ViolationKind};

/// Judges a Scale. `scaled` is the control plane, or else the Scale before the edit. Only the
/// control plane shows whether etcd is external, so a refusal without it is provisional.
pub(super) fn judge(scale: &Value, scaled: Option<&Value>, found: &mut Vec<Violation>) {
    let scale = without_empty_fields(scale);
    let replicas_of_scale = scale.pointer("/spec/replicas");
    // An API server reads an absent number as 0.
    let number = replicas_of_scale.map_or(Some(0), Value::as_i64);
    let Some(wanted) = number.filter(|number| i32::try_from(*number).is_ok()) else {
        let allowed = "must be a whole number of 32 bits";
        let invalid = Violation::new(TYPE_RULE, "spec.replicas", ViolationKind::TypeInvalid, allowed);
        let got = replicas_of_scale.cloned().unwrap_or_default();
        let advice = if got.is_string() {
            "write the number without quotation marks"
        } else {
            "correct the number"
        };
        return found.push(invalid.got(&got).advice(advice));
    };
    let is_known = scaled.is_some_and(|scaled| !is_scale(scaled));
    let control_plane: Option<KubeadmControlPlane> = scaled.and_then(|scaled| read_for_rules(scaled).ok());
    let external = control_plane.is_some_and(|control_plane| {
        let configuration = &control_plane.spec.kubeadm_config_spec.cluster_configuration;
        configuration.has_external_etcd()
    });
    let refused = replicas(wanted, external).into_iter();
    found.extend(refused.map(|violation| {
        if is_known {
            return violation;
        }
        let violation = violation.provisional();
        if wanted <= 0 {
            return violation;
        }
        // This text is sent only if the read fails.
        violation.advice(
            "the control plane that is scaled could not be read, and with external etcd the number may be even; repeat \
             the request, or edit spec.replicas of the control plane",
        )
    }));
}

/// Whether an object is a Scale, and not the control plane that it is about.
pub(super) fn is_scale(object: &Value) -> bool {
    object.get("kind").and_then(Value::as_str) == Some("Scale")
}

/// The reasons to refuse a number of machines.
pub(super) fn replicas(replicas: i64, external_etcd: bool) -> Vec<Violation> {
    let mut found = Vec::new();
    let advice = if external_etcd {
        "set 1 or more"
    } else {
        "set 1, 3 or 5"
    };
    if replicas <= 0 {
        found.push(REPLICAS_POSITIVE.violation("spec.replicas", ViolationKind::Forbidden));
    }
    if replicas % 2 == 0 && !external_etcd {
        found.push(REPLICAS_ODD.violation("spec.replicas", ViolationKind::Forbidden));
    }
    let detailed = found.into_iter().map(|violation| violation.got(&Value::from(replicas)));
    detailed.map(|violation| violation.advice(advice)).collect()
}
