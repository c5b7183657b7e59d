//! The objects that the tests start from: `tests/fixtures`.

use serde_json::{Value, json};

const SET: &str = include_str!("../fixtures/aws/set.yaml");
const MACHINES: &str = include_str!("../fixtures/aws/machines.yaml");
const MORE_MACHINES: &str = include_str!("../fixtures/aws-five/machines.yaml");
const NODES: &str = include_str!("../fixtures/aws/nodes.yaml");
const INFRASTRUCTURE: &str = include_str!("../fixtures/aws/infrastructure.yaml");
const GCP: &str = include_str!("../fixtures/gcp/provider-spec.yaml");

/// The definition that behaves as OpenShift's.
pub(crate) const OPENSHIFT_CRD: &str = include_str!("../fixtures/openshift/controlplanemachinesets.yaml");

/// The path of the machine template in a set.
pub(crate) const TEMPLATE: &str = "spec.template.machines_v1beta1_machine_openshift_io";

/// The same path as a JSON pointer.
pub(crate) const TEMPLATE_POINTER: &str = "/spec/template/machines_v1beta1_machine_openshift_io";

/// Nodes and Infrastructure.
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

/// A set of three machines, active.
pub(crate) fn set() -> Value {
    serde_saphyr::from_str(SET).unwrap()
}

/// The same, with as many replicas as said, and in this state.
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
