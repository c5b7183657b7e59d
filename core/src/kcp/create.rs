//! The objects of a new machine.
//!
//! The name is derived from the machines that exist, so that a creation that is repeated after a
//! lost reply creates no second machine. The clone of the infrastructure template is left to the
//! shell, because the kind is unknown here.

use serde_json::json;

use super::action::{Action, Step, machine_ref};
use super::desired::{Bootstrap, config};
use super::naming::{Names, evaluate};
use super::outdated::{REVISION, revision};
use super::propagation;
use super::remediation;
use super::state::{MachineState, State, condition};
use crate::api::bootstrap_cluster_x_k8s_io::GROUP as BOOTSTRAP_GROUP;
use crate::api::bootstrap_cluster_x_k8s_io::kubeadm_config::{self, KubeadmConfig};
use crate::api::cluster_x_k8s_io::control_plane::{Bootstrap as MachineBootstrap, Machine, MachineSpec};
use crate::api::cluster_x_k8s_io::{API_VERSION, ContractReference, label, label_value, machine};
use crate::api::controlplane_cluster_x_k8s_io::annotation::{
    PRE_TERMINATE_HOOK, REMEDIATION_FOR, REMEDIATION_IN_PROGRESS,
};
use crate::api::controlplane_cluster_x_k8s_io::{self as control_plane_api, kubeadm_control_plane};
use crate::api::meta::{ObjectMeta, OwnerReference};
use crate::model::derived_suffix;

/// The template of names without one in the spec.
const DEFAULT_NAME: &str = "{{ .kubeadmControlPlane.name }}-{{ .random }}";

/// The step that creates a machine, in a failure domain if there is one.
///
/// # Errors
/// The template of names cannot be evaluated.
pub(super) fn create(
    state: &State,
    domain: Option<&str>,
    bootstrap: Bootstrap,
    because: String,
) -> Result<Step, String> {
    let name = name(state)?;
    let control_plane = &state.control_plane;
    let mut metadata = metadata(state, &name);
    let config = KubeadmConfig {
        api_version: format!("{BOOTSTRAP_GROUP}/v1beta2"),
        kind: kubeadm_config::KIND.to_owned(),
        metadata: ObjectMeta {
            owner_references: vec![owner(state, None)],
            ..metadata.clone()
        },
        spec: config(&control_plane.spec, bootstrap),
        ..KubeadmConfig::default()
    };
    let annotations = &mut metadata.annotations;
    annotations.insert(PRE_TERMINATE_HOOK.to_owned(), String::new());
    if let Some(record) = remediation::record_in_progress(state) {
        annotations.insert(REMEDIATION_FOR.to_owned(), record.to_owned());
    }
    metadata.owner_references = vec![owner(state, Some(true))];
    let spec = machine_spec(state, &name, domain);
    let record = propagation::record(state);
    metadata.annotations.insert(propagation::RECORD.to_owned(), record);
    let machine = Machine {
        api_version: API_VERSION.to_owned(),
        kind: machine::KIND.to_owned(),
        metadata,
        spec,
        ..Machine::default()
    };
    Ok(Step {
        action: Action::Create {
            machine: Box::new(machine),
            config: Box::new(config),
            bootstrap,
        },
        subject: machine_ref(state.namespace(), &name),
        index: None,
        because,
        precondition: None,
    })
}

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

/// The metadata that all objects of a new machine share.
fn metadata(state: &State, name: &str) -> ObjectMeta {
    let mut metadata = shared_metadata(state);
    let revision = revision(&state.control_plane.spec);
    metadata.annotations.insert(REVISION.to_owned(), revision);
    ObjectMeta {
        name: Some(name.to_owned()),
        ..metadata
    }
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

/// The control plane as the owner of an object.
pub(super) fn owner(state: &State, controller: Option<bool>) -> OwnerReference {
    OwnerReference {
        api_version: control_plane_api::API_VERSION.to_owned(),
        kind: kubeadm_control_plane::KIND.to_owned(),
        name: state.name().to_owned(),
        uid: state.control_plane.metadata.uid().to_owned(),
        controller,
        block_owner_deletion: controller,
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

/// The name of the next machine. No machine of the cluster has it.
fn name(state: &State) -> Result<String, String> {
    let metadata = &state.control_plane.metadata;
    let existing: Vec<&str> = state
        .machines
        .iter()
        .map(MachineState::name)
        .chain(state.foreign.iter().chain(&state.workers).map(String::as_str))
        .collect();
    let template = match state.control_plane.spec.machine_naming.template.as_str() {
        "" => DEFAULT_NAME,
        template => template,
    };
    // A machine that was remediated and its replacement must not have the same name.
    let remediation = state.annotation(REMEDIATION_IN_PROGRESS).unwrap_or_default();
    let version = &state.control_plane.spec.version;
    for attempt in 0..=existing.len() {
        let attempt = attempt.to_string();
        let mut parts = vec![metadata.uid(), metadata.name(), version, remediation, &attempt];
        parts.extend(&existing);
        let random = derived_suffix(&parts);
        let names = Names {
            cluster: &state.cluster_name,
            control_plane: metadata.name(),
            random: &random,
        };
        let name = evaluate(template, &names)?;
        if !existing.contains(&name.as_str()) {
            return Ok(name);
        }
    }
    Err(String::from(
        "must result in different names for different values of .random",
    ))
}
