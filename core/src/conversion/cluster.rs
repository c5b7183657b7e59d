//! Compares a machine of the Machine API with the infrastructure cluster of Cluster API.
//!
//! The Machine API sets a region, a project or a resource group for each machine. Cluster API sets
//! it once, in the infrastructure cluster. A machine with another value cannot be converted.
//!
//! Source: the Converting Machine API to Cluster API enhancement, "MachineSet Synchronisation".

use serde_json::Value;

use super::{ConversionIssue, Severity, load_balancers};
use crate::api::machine_openshift_io::{self, machine, machine_set};
use crate::model::FieldPath;

/// A field of a provider spec, and the fields of the infrastructure cluster to compare it with. The
/// first of them that is set applies.
struct Shared {
    at: &'static str,
    with: &'static [&'static str],
}

const fn shared(at: &'static str, with: &'static [&'static str]) -> Shared {
    Shared { at, with }
}

/// The kind of the provider spec, the kind of the infrastructure cluster, and the fields that it
/// sets for all machines.
const SHARED: &[(&str, &str, &[Shared])] = &[
    (
        "AWSMachineProviderConfig",
        "AWSCluster",
        &[shared("placement.region", &["region"])],
    ),
    (
        "AzureMachineProviderSpec",
        "AzureCluster",
        &[
            shared("location", &["location"]),
            shared("resourceGroup", &["resourceGroup"]),
            shared(
                "networkResourceGroup",
                &["networkSpec.vnet.resourceGroup", "resourceGroup"],
            ),
            shared("vnet", &["networkSpec.vnet.name"]),
        ],
    ),
    (
        "GCPMachineProviderSpec",
        "GCPCluster",
        &[shared("region", &["region"]), shared("projectID", &["project"])],
    ),
    (
        "IBMCloudMachineProviderSpec",
        "IBMVPCCluster",
        &[
            shared("region", &["region"]),
            shared("resourceGroup", &["resourceGroup"]),
            shared("vpc", &["vpc"]),
        ],
    ),
    (
        "VSphereMachineProviderSpec",
        "VSphereCluster",
        &[shared("workspace.server", &["server"])],
    ),
];

/// The path and the value of the provider spec in a Machine or MachineSet of the Machine API.
fn provider_spec(object: &Value) -> Option<(&'static str, &Value)> {
    let text = |field: &str| object.get(field).and_then(Value::as_str);
    if text("apiVersion")?.split('/').next() != Some(machine_openshift_io::GROUP) {
        return None;
    }
    let (root, pointer) = match text("kind")? {
        machine::KIND => ("spec.providerSpec.value", "/spec/providerSpec/value"),
        machine_set::KIND => (
            "spec.template.spec.providerSpec.value",
            "/spec/template/spec/providerSpec/value",
        ),
        _ => return None,
    };
    Some((root, object.pointer(pointer)?))
}

fn at<'v>(value: &'v Value, path: &str) -> Option<&'v str> {
    let found = path.split('.').try_fold(value, |value, field| value.get(field))?;
    found.as_str().filter(|text| !text.is_empty())
}

/// The kind of the infrastructure cluster to compare this object with; `None` if the object sets
/// none of the shared fields.
pub fn cluster_of(object: &Value) -> Option<&'static str> {
    let (_, spec) = provider_spec(object)?;
    let kind = spec.get("kind").and_then(Value::as_str)?;
    let (_, cluster, fields) = SHARED.iter().find(|(provider_spec, _, _)| *provider_spec == kind)?;
    fields
        .iter()
        .any(|field| at(spec, field.at).is_some())
        .then_some(*cluster)
}

/// The fields in which this object differs from its infrastructure cluster. Fields that the cluster
/// does not set are not compared.
pub fn disagreements(object: &Value, cluster: &Value) -> Vec<ConversionIssue> {
    let Some((root, spec)) = provider_spec(object) else {
        return Vec::new();
    };
    let kind = cluster.get("kind").and_then(Value::as_str).unwrap_or_default();
    let of_cluster = cluster.get("spec").unwrap_or(&Value::Null);
    let fields = SHARED.iter().find(|(_, cluster, _)| *cluster == kind);
    let mut found = Vec::new();
    for field in fields.into_iter().flat_map(|(_, _, fields)| *fields) {
        let in_cluster = field.with.iter().find_map(|path| Some((path, at(of_cluster, path)?)));
        if let (Some(in_machine), Some((path, in_cluster))) = (at(spec, field.at), in_cluster)
            && in_machine != in_cluster
        {
            found.push(ConversionIssue {
                severity: Severity::Blocks,
                path: FieldPath::new(format!("{root}.{}", field.at).as_str()),
                reason: format!(
                    "it is {in_machine:?}, but spec.{path} of the {kind} is {in_cluster:?} for all machines"
                ),
                remedy: format!("set it to {in_cluster:?}, or keep the object in the Machine API"),
            });
        }
    }
    if kind == "AWSCluster" {
        let template = object.pointer("/spec/template");
        load_balancers::disagreements(root, template.unwrap_or(object), of_cluster, &mut found);
    }
    found
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn set(kind: &str, fields: Value) -> Value {
        let mut value = fields;
        value["kind"] = json!(kind);
        json!({"apiVersion": "machine.openshift.io/v1beta1", "kind": "MachineSet",
            "spec": {"template": {"spec": {"providerSpec": {"value": value}}}}})
    }

    #[test]
    fn a_value_that_differs_from_the_infrastructure_cluster_is_an_issue_with_its_field() {
        for (kind, fields, cluster, spec, path) in [
            (
                "AWSMachineProviderConfig",
                json!({"placement": {"region": "a"}}),
                "AWSCluster",
                json!({"region": "b"}),
                "placement.region",
            ),
            (
                "AzureMachineProviderSpec",
                json!({"resourceGroup": "a"}),
                "AzureCluster",
                json!({"resourceGroup": "b"}),
                "resourceGroup",
            ),
            (
                "AzureMachineProviderSpec",
                json!({"networkResourceGroup": "a"}),
                "AzureCluster",
                json!({"resourceGroup": "a", "networkSpec": {"vnet": {"resourceGroup": "b"}}}),
                "networkResourceGroup",
            ),
            (
                "GCPMachineProviderSpec",
                json!({"projectID": "a"}),
                "GCPCluster",
                json!({"project": "b"}),
                "projectID",
            ),
            (
                "IBMCloudMachineProviderSpec",
                json!({"vpc": "a"}),
                "IBMVPCCluster",
                json!({"vpc": "b"}),
                "vpc",
            ),
            (
                "VSphereMachineProviderSpec",
                json!({"workspace": {"server": "a"}}),
                "VSphereCluster",
                json!({"server": "b"}),
                "workspace.server",
            ),
        ] {
            let object = set(kind, fields.clone());
            assert_eq!(cluster_of(&object), Some(cluster));
            let elsewhere = json!({"kind": cluster, "spec": spec});
            let found = disagreements(&object, &elsewhere);
            let [issue] = found.as_slice() else { panic!("{found:?}") };
            assert_eq!(
                issue.path.as_str(),
                format!("spec.template.spec.providerSpec.value.{path}")
            );
            let silent = json!({"kind": cluster, "spec": {}});
            assert_eq!(disagreements(&object, &silent), []);
            let nothing = set(kind, json!({}));
            assert_eq!(
                (cluster_of(&nothing), disagreements(&nothing, &elsewhere).len()),
                (None, 0)
            );
        }
        let azure = set("AzureMachineProviderSpec", json!({"networkResourceGroup": "a"}));
        let alike = json!({"kind": "AzureCluster", "spec": {"resourceGroup": "a"}});
        assert_eq!(disagreements(&azure, &alike), []);
    }
}
