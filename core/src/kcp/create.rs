//! The objects of a new machine.
//!
//! The name is derived from the machines that exist, from the one that was created last, and from
//! the revision. A creation that is repeated after a lost reply creates no second machine, and a
//! creation that began with another spec is not continued (V134). The clone of the infrastructure
//! template is left to the shell, because the kind is unknown here.

use super::action::{Action, Step, machine_ref};
use super::desired::{Bootstrap, config};
use super::machine_fields::{machine_spec, shared_metadata};
use super::naming::{Names, evaluate};
use super::outdated::{REVISION, revision};
use super::pending::LAST_CREATED;
use super::propagation;
use super::remediation;
use super::state::{MachineState, State};
use crate::api::bootstrap_cluster_x_k8s_io::GROUP as BOOTSTRAP_GROUP;
use crate::api::bootstrap_cluster_x_k8s_io::kubeadm_config::{self, KubeadmConfig};
use crate::api::cluster_x_k8s_io::control_plane::Machine;
use crate::api::cluster_x_k8s_io::{API_VERSION, machine};
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
    let revision = revision(&state.control_plane.spec);
    for attempt in 0..=existing.len() + state.remains.len() {
        let attempt = attempt.to_string();
        let mut parts = vec![metadata.uid(), metadata.name(), &revision, remediation, &attempt];
        parts.extend(&existing);
        // No machine has the empty name, so the last one is never taken for an existing one.
        parts.extend(state.annotation(LAST_CREATED).into_iter().flat_map(|last| ["", last]));
        let random = derived_suffix(&parts);
        let names = Names {
            cluster: &state.cluster_name,
            control_plane: metadata.name(),
            random: &random,
        };
        let name = evaluate(template, &names)?;
        // A Node or an etcd member of this name belonged to a machine that is gone. kubeadm refuses
        // to join while the Node exists.
        let is_used = state.remains.contains(&name);
        if !existing.contains(&name.as_str()) && !is_used {
            return Ok(name);
        }
    }
    Err(String::from(
        "must result in different names for different values of .random",
    ))
}
