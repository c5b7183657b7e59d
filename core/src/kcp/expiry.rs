//! When the certificate of the API server of a machine expires: which API server it is, and how the
//! time is stored for `spec.rollout.before`.
//!
//! Cluster API copies the stored time into the status of the Machine. kubeadm issues the
//! certificate once, when the machine joins.

use jiff::Timestamp;
use serde_json::{Value, json};

use super::kube_proxy::precondition;
use super::state::MachineState;
use crate::api::cluster_x_k8s_io::annotation::CERTIFICATES_EXPIRY;
use crate::model::ApiServer;

/// The default port of an API server.
const PORT: u16 = 6443;

/// The API server of a machine whose certificate must be read; `None` if the time is stored, or if
/// the machine has no Node or no address.
pub fn api_server(machine: &MachineState, config: &Value) -> Option<ApiServer> {
    let annotations = config.pointer("/metadata/annotations");
    let is_known = annotations.is_some_and(|annotations| annotations.get(CERTIFICATES_EXPIRY).is_some());
    if is_known || machine.is_deleting() {
        return None;
    }
    let node = machine.node()?.to_owned();
    let addresses = machine.machine.status.unknown_fields.get("addresses")?.as_array()?;
    let is_internal = |address: &&Value| address.get("type").and_then(Value::as_str) == Some("InternalIP");
    let host = addresses.iter().find(is_internal)?.get("address")?.as_str()?;
    let ports = ["/spec/initConfiguration", "/spec/joinConfiguration/controlPlane"];
    let ports = ports.map(|side| config.pointer(&format!("{side}/localAPIEndpoint/bindPort"))?.as_u64());
    let set = ports.into_iter().flatten().find(|port| *port != 0);
    Some(ApiServer {
        node,
        host: host.to_owned(),
        port: set.map_or(Some(PORT), |port| u16::try_from(port).ok())?,
    })
}

/// The merge patch of a KubeadmConfig that stores the time.
pub fn patch(config: &Value, expires: Timestamp) -> Value {
    let seconds = Timestamp::from_second(expires.as_second()).unwrap_or(expires);
    let mut metadata = precondition(config);
    if let Some(fields) = metadata.as_object_mut() {
        let uid = config.pointer("/metadata/uid").cloned().unwrap_or_default();
        fields.insert(String::from("uid"), uid);
        fields.insert(
            String::from("annotations"),
            json!({ CERTIFICATES_EXPIRY: seconds.to_string() }),
        );
    }
    json!({ "metadata": metadata })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::kcp::samples::World;

    fn address_of(world: &World, config: &Value) -> Option<String> {
        api_server(&world.state().machines[0], config).map(|server| server.to_string())
    }

    #[test]
    fn a_machine_is_asked_at_its_internal_address_until_the_time_is_stored() {
        let mut world = World::new("a");
        let mut config = json!({"metadata": {"uid": "u", "resourceVersion": "1"}, "spec": {}});
        assert_eq!(address_of(&world, &config), None, "no address");
        world.machines[0]["status"]["addresses"] = json!([
            {"type": "Hostname", "address": "m-0"}, {"type": "InternalIP", "address": "10.0.0.1"},
        ]);
        assert_eq!(address_of(&world, &config).as_deref(), Some("10.0.0.1:6443"));
        config["spec"]["joinConfiguration"]["controlPlane"]["localAPIEndpoint"]["bindPort"] = json!(8443);
        assert_eq!(address_of(&world, &config).as_deref(), Some("10.0.0.1:8443"));
        world.machines[0]["status"]["addresses"][1]["address"] = json!("fd00::1");
        assert_eq!(address_of(&world, &config).as_deref(), Some("[fd00::1]:8443"));
        let expires = "2027-06-01T12:00:00.5Z".parse().unwrap();
        let change = patch(&config, expires);
        json_patch::merge(&mut config, &change);
        assert_eq!(
            config["metadata"]["annotations"][CERTIFICATES_EXPIRY],
            "2027-06-01T12:00:00Z"
        );
        assert_eq!(address_of(&world, &config), None);
    }

    #[test]
    fn a_machine_without_a_node_or_that_is_being_deleted_is_not_asked() {
        let mut world = World::new("ab");
        for machine in 0..2 {
            world.machines[machine]["status"]["addresses"] = json!([{"type": "InternalIP", "address": "10.0.0.1"}]);
        }
        world.delete(0);
        assert_eq!(address_of(&world, &json!({})), None);
        world.without_node(1);
        assert_eq!(api_server(&world.state().machines[1], &json!({})), None);
    }
}
