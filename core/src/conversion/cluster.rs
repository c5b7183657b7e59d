//! What a machine of the Machine API says for itself, and Cluster API says once for the whole cluster, in the
//! infrastructure cluster: a region, a project, a resource group. A machine that says otherwise cannot be converted.
//!
//! Source: the Converting Machine API to Cluster API enhancement, "MachineSet Synchronisation".

use serde_json::Value;

use super::{ConversionIssue, Severity, load_balancers};
use crate::api::machine_openshift_io::{self, machine, machine_set};
use crate::model::FieldPath;

/// A field of a provider spec, and where the infrastructure cluster has it: the first of these fields that is there.
struct Shared {
    at: &'static str,
    with: &'static [&'static str],
}

const fn shared(at: &'static str, with: &'static [&'static str]) -> Shared {
    Shared { at, with }
}

/// By kind of the provider spec, the kind of the infrastructure cluster, and what it says for all machines.
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

/// Where a provider spec stands in a Machine or MachineSet of the Machine API.
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

/// The kind of the infrastructure cluster with which this object has to agree; `None` where it says nothing that is said
/// there.
pub fn cluster_of(object: &Value) -> Option<&'static str> {
    let (_, spec) = provider_spec(object)?;
    let kind = spec.get("kind").and_then(Value::as_str)?;
    let (_, cluster, fields) = SHARED.iter().find(|(provider_spec, _, _)| *provider_spec == kind)?;
    fields
        .iter()
        .any(|field| at(spec, field.at).is_some())
        .then_some(*cluster)
}

/// In what this object and its infrastructure cluster do not agree. What the cluster does not say is not compared.
pub fn disagreements(object: &Value, cluster: &Value) -> Vec<ConversionIssue> {
    let Some((root, spec)) = provider_spec(object) else {
        return Vec::new();
    };
    let kind = cluster.get("kind").and_then(Value::as_str).unwrap_or_default();
    let of_cluster = cluster.get("spec").unwrap_or(&Value::Null);
    let fields = SHARED.iter().find(|(_, cluster, _)| *cluster == kind);
    let mut found = Vec::new();
    for field in fields.into_iter().flat_map(|(_, _, fields)| *fields) {
        let theirs = field.with.iter().find_map(|path| Some((path, at(of_cluster, path)?)));
        if let (Some(ours), Some((path, theirs))) = (at(spec, field.at), theirs)
            && ours != theirs
        {
            found.push(ConversionIssue {
                severity: Severity::Blocks,
                path: FieldPath::new(format!("{root}.{}", field.at).as_str()),
                reason: format!("it is {ours:?}, and the {kind} says {theirs:?} for all machines, in spec.{path}"),
                way_out: format!("set it to {theirs:?}, or keep it with the Machine API"),
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
    fn a_machine_elsewhere_than_its_cluster_is_an_issue_with_its_field() {
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
