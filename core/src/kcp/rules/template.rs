//! KubeadmControlPlaneTemplates: judged when they are created, and immutable afterwards.

use serde_json::Value;

use super::Judge;
use super::changes::changed;
use super::machine_template::metadata;
use super::table::{TEMPLATE_GATE, TEMPLATE_IMMUTABLE};
use crate::api::bootstrap_cluster_x_k8s_io::kubeadm_config::{CLOUD_CONFIG, KubeConfigExec, KubeadmConfigSpec};
use crate::api::controlplane_cluster_x_k8s_io::kubeadm_control_plane::{
    IntOrString, ROLLING_UPDATE, RolloutStrategy, Spec,
};
use crate::api::controlplane_cluster_x_k8s_io::kubeadm_control_plane_template::KubeadmControlPlaneTemplate;
use crate::kcp::spec::{Gates, read_for_rules};
use crate::model::{FieldPath, Violation, ViolationKind};

/// The path of the spec in a template.
const SPEC: &str = "spec.template.spec";

/// Judges a template; `old` for an update.
pub(super) fn judge(object: &Value, old: Option<&Value>, gates: Gates, found: &mut Vec<Violation>) {
    if old.is_none() && !gates.cluster_topology {
        let forbidden = TEMPLATE_GATE.violation("spec", ViolationKind::Forbidden);
        return found.push(forbidden.advice("turn on the feature gate in Cluster API"));
    }
    let new: KubeadmControlPlaneTemplate = match read_for_rules(object) {
        Ok(new) => new,
        Err(violation) => return found.push(*violation),
    };
    let old: Option<KubeadmControlPlaneTemplate> = old.and_then(|old| read_for_rules(old).ok());
    match old {
        Some(old) => immutable(old.spec.template.spec, new.spec.template.spec, found),
        None => {
            metadata(
                &new.spec.template.metadata,
                &FieldPath::from("spec.template.metadata"),
                found,
            );
            Judge {
                spec: &new.spec.template.spec,
                at: FieldPath::from(SPEC),
                gates,
                found,
            }
            .common();
        }
    }
}

/// An update leaves the spec as it is, apart from values that former versions of Cluster API set by
/// default.
fn immutable(mut old: Spec, mut new: Spec, found: &mut Vec<Violation>) {
    former_defaults(&mut old.kubeadm_config_spec);
    former_defaults(&mut new.kubeadm_config_spec);
    let strategy = &old.rollout.strategy;
    let was_default =
        strategy.type_ == ROLLING_UPDATE && strategy.rolling_update.max_surge == Some(IntOrString::Int(1));
    if was_default && new.rollout.strategy == RolloutStrategy::default() {
        new.rollout.strategy = strategy.clone();
    }
    let changed = changed(&old, &new, SPEC);
    if changed.is_empty() {
        return;
    }
    let fields: Vec<&str> = changed.iter().map(FieldPath::as_str).collect();
    let allowed = format!("must stay as it is; this update changes {}", fields.join(", "));
    let invalid = TEMPLATE_IMMUTABLE.because(SPEC, ViolationKind::Invalid, allowed);
    found.push(invalid.advice("create another template, and refer to it in the ClusterClass"));
}

fn former_defaults(config: &mut KubeadmConfigSpec) {
    let default = |field: &mut String, value: &str| {
        if field.is_empty() {
            value.clone_into(field);
        }
    };
    default(&mut config.format, CLOUD_CONFIG);
    default(
        &mut config.init_configuration.node_registration.image_pull_policy,
        "IfNotPresent",
    );
    default(
        &mut config.join_configuration.node_registration.image_pull_policy,
        "IfNotPresent",
    );
    let exec = &mut config.join_configuration.discovery.file.kube_config.user.exec;
    if *exec != KubeConfigExec::default() {
        default(&mut exec.api_version, "client.authentication.k8s.io/v1");
    }
}
