//! The objects that a run begins with, and the kinds that its API server serves.

use std::net::Ipv4Addr;
use std::sync::{Arc, OnceLock};

use anyhow::Result;
use capstan_core::api::core_v1::config_map::{ETCD_ENDPOINTS, ETCD_NAMESPACE};
use serde_json::{Value, json};

use crate::api::Kind;
use crate::simulation::machine_api::objects::{self, StatusFields};

use super::kinds::NAMESPACE;

pub(super) use crate::simulation::machine_api::objects::{PREFIX, SELECTED, domains, labels, machine, node, operator};

/// The instance type that machines and template have at first.
pub(super) const FIRST_TYPE: &str = "m6i.xlarge";

static KINDS: OnceLock<Arc<Vec<Kind>>> = OnceLock::new();

/// The kinds that the API server serves, parsed once.
///
/// # Errors
/// When a CRD that is built in cannot be parsed.
pub(super) fn kinds() -> Result<Arc<Vec<Kind>>> {
    if let Some(kinds) = KINDS.get() {
        return Ok(Arc::clone(kinds));
    }
    let mut kinds = objects::load(StatusFields::ALL)?;
    for text in [
        include_str!("../../../../manifests/crds-control-plane/machine.openshift.io_controlplanes.yaml"),
        include_str!("../../../../manifests/crds/machine.openshift.io_machinehealthchecks.yaml"),
    ] {
        let definition: Value = serde_saphyr::from_str(text)?;
        kinds.push(Kind::of_definition(&definition)?);
    }
    let open = json!({"type": "object", "x-kubernetes-preserve-unknown-fields": true});
    kinds.push(Kind::of_definition(&json!({
        "metadata": {"name": "infrastructures.config.openshift.io"},
        "spec": {"group": "config.openshift.io", "scope": "Cluster",
            "names": {"kind": "Infrastructure", "plural": "infrastructures"},
            "versions": [{"name": "v1", "storage": true, "subresources": {"status": {}},
                "schema": {"openAPIV3Schema": {"type": "object", "properties": {"spec": open, "status": open}}}}]},
    }))?);
    Ok(Arc::clone(KINDS.get_or_init(|| Arc::new(kinds))))
}

/// The Infrastructure.
pub(super) fn infrastructure() -> Value {
    json!({"apiVersion": "config.openshift.io/v1", "kind": "Infrastructure", "metadata": {"name": "cluster"}, "spec": {}})
}

/// The status of the Infrastructure.
pub(super) fn infrastructure_status() -> Value {
    json!({"status": {"infrastructureName": objects::CLUSTER_NAME, "platform": "AWS",
        "platformStatus": {"type": "AWS", "aws": {"region": "us-east-1"}}}})
}

/// The instance type after so many edits.
pub(super) fn type_of(edition: u32) -> String {
    match edition {
        0 => FIRST_TYPE.to_owned(),
        edition => format!("m6i.{}xlarge", edition + 1),
    }
}

/// The provider spec of the template.
pub(super) fn template(edition: u32) -> Value {
    objects::provider_spec(&type_of(edition), None)
}

/// The address of the node of a machine.
pub(super) fn address(name: &str) -> Ipv4Addr {
    let hash = name
        .bytes()
        .fold(0_u32, |hash, byte| hash.wrapping_mul(31).wrapping_add(byte.into()));
    let [_, second, third, fourth] = hash.to_be_bytes();
    Ipv4Addr::new(10, second, third, fourth)
}

/// The list of the etcd members that vote.
pub(super) fn etcd_endpoints() -> Value {
    json!({"apiVersion": "v1", "kind": "ConfigMap",
        "metadata": {"name": ETCD_ENDPOINTS, "namespace": ETCD_NAMESPACE}})
}

/// A ControlPlane.
pub(super) fn control_plane(replicas: u32, repairs: bool, edition: u32, zones: usize) -> Value {
    json!({
        "apiVersion": "machine.openshift.io/v1alpha1", "kind": "ControlPlane",
        "metadata": {"name": "cluster", "namespace": NAMESPACE},
        "spec": {"replicas": replicas, "enableautorepair": repairs,
            "providerSpec": {"value": template(edition)}, "failureDomains": domains(zones)},
    })
}
