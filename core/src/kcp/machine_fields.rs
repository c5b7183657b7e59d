//! The fields that every machine of a control plane has: those of a new machine, and those that
//! existing machines get without a rollout.
//!
//! Nothing here decides when a machine gets them.

use serde_json::json;

use super::state::{State, condition};
use crate::api::bootstrap_cluster_x_k8s_io::{GROUP as BOOTSTRAP_GROUP, kubeadm_config};
use crate::api::cluster_x_k8s_io::control_plane::{Bootstrap as MachineBootstrap, MachineSpec};
use crate::api::cluster_x_k8s_io::{ContractReference, label, label_value};
use crate::api::meta::ObjectMeta;

/// The desired state of a machine. Its objects have one name.
pub(super) fn machine_spec(state: &State, name: &str, domain: Option<&str>) -> MachineSpec {
    let control_plane = &state.control_plane.spec;
    let template = &control_plane.machine_template.spec;
    let reference = &template.infrastructure_ref;
    let mut spec = MachineSpec {
        cluster_name: state.cluster_name.clone(),
        bootstrap: MachineBootstrap {
            config_ref: ContractReference {
                api_group: BOOTSTRAP_GROUP.to_owned(),
                kind: kubeadm_config::KIND.to_owned(),
                name: name.to_owned(),
                ..ContractReference::default()
            },
            ..MachineBootstrap::default()
        },
        infrastructure_ref: ContractReference {
            api_group: reference.api_group.clone(),
            kind: reference
                .kind
                .strip_suffix("Template")
                .unwrap_or(&reference.kind)
                .to_owned(),
            name: name.to_owned(),
            ..ContractReference::default()
        },
        version: control_plane.version.clone(),
        failure_domain: domain.unwrap_or_default().to_owned(),
        readiness_gates: readiness_gates(state),
        ..MachineSpec::default()
    };
    // A wire type always serialises. Empty fields are absent.
    let deletion = serde_json::to_value(&template.deletion).unwrap_or_default();
    if deletion.as_object().is_some_and(|fields| !fields.is_empty()) {
        spec.unknown_fields.insert(String::from("deletion"), deletion);
    }
    if !template.taints.is_empty() {
        let taints = serde_json::to_value(&template.taints).unwrap_or_default();
        spec.unknown_fields.insert(String::from("taints"), taints);
    }
    spec
}

/// The metadata that all objects of all machines share.
pub(super) fn shared_metadata(state: &State) -> ObjectMeta {
    let template = &state.control_plane.spec.machine_template.metadata;
    let mut labels = template.labels.clone();
    labels.extend([
        (label::CLUSTER.to_owned(), state.cluster_name.clone()),
        (label::CONTROL_PLANE.to_owned(), String::new()),
        (label::CONTROL_PLANE_NAME.to_owned(), label_value(state.name())),
    ]);
    ObjectMeta {
        namespace: state.control_plane.metadata.namespace.clone(),
        labels,
        annotations: template.annotations.clone(),
        ..ObjectMeta::default()
    }
}

/// The conditions of a ready machine: those of the controller, and then those of the user.
fn readiness_gates(state: &State) -> Vec<serde_json::Value> {
    let mut types: Vec<&str> = vec![
        condition::LABELS_AND_TAINTS,
        condition::API_SERVER,
        condition::CONTROLLER_MANAGER,
        condition::SCHEDULER,
    ];
    if state.is_etcd_managed() {
        types.extend([condition::ETCD_POD, condition::ETCD_MEMBER]);
    }
    let of_user = &state.control_plane.spec.machine_template.spec.readiness_gates;
    let is_new = |gate: &&serde_json::Value| {
        let type_ = gate.get("conditionType").and_then(serde_json::Value::as_str);
        type_.is_none_or(|type_| !types.contains(&type_))
    };
    let own = types.iter().map(|type_| json!({ "conditionType": type_ }));
    own.chain(of_user.iter().filter(is_new).cloned()).collect()
}
