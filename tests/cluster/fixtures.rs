//! The objects in `tests/fixtures`, with which the tests start.

use serde_json::{Value, json};

const SET: &str = include_str!("../fixtures/aws/set.yaml");
const MACHINES: &str = include_str!("../fixtures/aws/machines.yaml");
const MORE_MACHINES: &str = include_str!("../fixtures/aws-five/machines.yaml");
const NODES: &str = include_str!("../fixtures/aws/nodes.yaml");
const INFRASTRUCTURE: &str = include_str!("../fixtures/aws/infrastructure.yaml");
const GCP: &str = include_str!("../fixtures/gcp/provider-spec.yaml");

/// A CRD that behaves like that of OpenShift.
pub(crate) const OPENSHIFT_CRD: &str = include_str!("../fixtures/openshift/controlplanemachinesets.yaml");

/// The path of the machine template in a set.
pub(crate) const TEMPLATE: &str = "spec.template.machines_v1beta1_machine_openshift_io";

/// The same path as a JSON pointer.
pub(crate) const TEMPLATE_POINTER: &str = "/spec/template/machines_v1beta1_machine_openshift_io";

/// The Nodes and the Infrastructure object.
pub(crate) fn surroundings() -> String {
    format!("{NODES}---\n{INFRASTRUCTURE}")
}

/// The first `count` of the five machines.
pub(crate) fn machines(count: usize) -> Vec<Value> {
    let mut machines: Vec<Value> = serde_saphyr::from_multiple(MACHINES).unwrap();
    machines.extend(serde_saphyr::from_multiple::<Value>(MORE_MACHINES).unwrap());
    machines.truncate(count);
    assert_eq!(machines.len(), count);
    machines
}

/// An Active set of three machines.
pub(crate) fn set() -> Value {
    serde_saphyr::from_str(SET).unwrap()
}

/// A set with this number of replicas and this state.
pub(crate) fn set_of(replicas: usize, state: &str) -> Value {
    let mut set = set();
    set["spec"]["replicas"] = json!(replicas);
    set["spec"]["state"] = json!(state);
    set
}

/// The provider spec of a machine on Google Cloud.
pub(crate) fn gcp_provider_spec() -> Value {
    serde_saphyr::from_str(GCP).unwrap()
}

/// A merge patch of the machine template.
pub(crate) fn template_patch(patch: &Value) -> String {
    json!({"spec": {"template": {"machines_v1beta1_machine_openshift_io": patch}}}).to_string()
}
