//! Compares the load balancers of AWS machines with those of the AWSCluster.
//!
//! The Machine API registers each machine with the load balancers in its provider spec. Cluster API
//! registers control plane machines with the load balancers of the AWSCluster, and no other
//! machines. A machine with other load balancers cannot be converted.
//!
//! Must never: report a difference from a load balancer that the AWSCluster does not name.
//!
//! Source: the fields that OpenShift's implementation of the Converting Machine API to Cluster API
//! enhancement drops.

use serde_json::Value;

use super::{ConversionIssue, Severity};
use crate::api::machine_openshift_io::control_plane_machine_set;
use crate::api::machine_openshift_io::label::ROLE;
use crate::model::FieldPath;

const PROVIDER_SPEC: &str = "AWSMachineProviderConfig";
const FIELD: &str = "loadBalancers";

fn text<'v>(value: &'v Value, pointer: &str) -> Option<&'v str> {
    value.pointer(pointer)?.as_str().filter(|text| !text.is_empty())
}

/// The path and the load balancers of an AWS Machine, or of a machine template; `None` on other
/// platforms.
fn named<'v>(root: &str, machine: &'v Value) -> Option<(FieldPath, &'v [Value])> {
    let spec = machine.pointer("/spec/providerSpec/value")?;
    let list = spec.get(FIELD).and_then(Value::as_array).map_or(&[][..], Vec::as_slice);
    let is_aws = text(spec, "/kind") == Some(PROVIDER_SPEC);
    is_aws.then(|| (FieldPath::new(format!("{root}.{FIELD}")), list))
}

fn issue(path: FieldPath, reason: String, remedy: &str) -> ConversionIssue {
    ConversionIssue {
        severity: Severity::Blocks,
        path,
        reason,
        remedy: remedy.to_owned(),
    }
}

/// Whether a Machine, or a machine template, belongs to the control plane.
fn is_control_plane(machine: &Value) -> bool {
    let metadata = machine.get("metadata").unwrap_or(&Value::Null);
    let role = metadata.get("labels").and_then(|labels| labels.get(ROLE)?.as_str());
    let mut owners = metadata
        .get("ownerReferences")
        .and_then(Value::as_array)
        .into_iter()
        .flatten();
    role == Some("master") || owners.any(|owner| text(owner, "/kind") == Some(control_plane_machine_set::KIND))
}

/// Finds the issue of a worker `machine`, a Machine or a machine template, that has load balancers.
pub(super) fn of_worker(root: &str, machine: &Value, found: &mut Vec<ConversionIssue>) {
    let Some((path, list)) = named(root, machine).filter(|_| !is_control_plane(machine)) else {
        return;
    };
    if !list.is_empty() {
        let reason = String::from("Cluster API registers only control plane machines with load balancers");
        found.push(issue(path, reason, "remove them"));
    }
}

/// Finds where a control plane Machine, or its template, differs from the load balancers of the
/// AWSCluster.
pub(super) fn disagreements(root: &str, machine: &Value, cluster: &Value, found: &mut Vec<ConversionIssue>) {
    let in_cluster: Vec<(&str, &str)> = ["controlPlaneLoadBalancer", "secondaryControlPlaneLoadBalancer"]
        .iter()
        .filter_map(|field| of_cluster(cluster.get(*field)?))
        .collect();
    let Some((path, in_machine)) = named(root, machine).filter(|_| !in_cluster.is_empty() && is_control_plane(machine))
    else {
        return;
    };
    let all: Vec<String> = in_cluster
        .iter()
        .map(|(name, type_)| format!("{name:?} ({type_})"))
        .collect();
    let all = all.join(" and ");
    for (position, in_machine) in in_machine.iter().enumerate() {
        let entry = path.index(position);
        let (name, type_) = (
            text(in_machine, "/name").unwrap_or_default(),
            text(in_machine, "/type").unwrap_or_default(),
        );
        match in_cluster.iter().find(|(in_cluster, _)| *in_cluster == name) {
            None => {
                let reason = format!("it is {name:?}, but the AWSCluster has {all} for all control plane machines");
                found.push(issue(entry.child("name"), reason, "use one of these load balancers"));
            }
            Some((_, in_cluster)) if *in_cluster != type_ => {
                let reason = format!("it is {type_:?}, but the type in the AWSCluster is {in_cluster:?}");
                found.push(issue(entry.child("type"), reason, "use the type of the AWSCluster"));
            }
            Some(_) => {}
        }
    }
    let missing = |(name, _): &&(&str, &str)| {
        in_machine
            .iter()
            .all(|in_machine| text(in_machine, "/name") != Some(*name))
    };
    for (name, _) in in_cluster.iter().filter(missing) {
        let reason = format!("the AWSCluster registers all control plane machines with {name:?} too");
        found.push(issue(path.clone(), reason, "add it"));
    }
}

/// Name and type of a load balancer of the AWSCluster, with the type as the Machine API names it.
/// `None` if it has no name, or a type that the Machine API does not have.
fn of_cluster(balancer: &Value) -> Option<(&str, &'static str)> {
    let type_ = match text(balancer, "/loadBalancerType") {
        None | Some("classic" | "elb") => "classic",
        Some("nlb") => "network",
        Some(_) => return None,
    };
    Some((text(balancer, "/name")?, type_))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use crate::conversion::{disagreements, issues};

    fn machine(role: &str, balancers: &serde_json::Value) -> serde_json::Value {
        json!({"apiVersion": "machine.openshift.io/v1beta1", "kind": "Machine",
            "metadata": {"labels": {"machine.openshift.io/cluster-api-machine-role": role}},
            "spec": {"providerSpec": {"value": {"kind": "AWSMachineProviderConfig", "ami": {"id": "a"},
                "loadBalancers": balancers}}}})
    }

    fn paths(found: &[crate::conversion::ConversionIssue]) -> Vec<&str> {
        found.iter().map(|issue| issue.path.as_str()).collect()
    }

    const AT: &str = "spec.providerSpec.value.loadBalancers";

    #[test]
    fn a_worker_with_load_balancers_is_an_issue() {
        let balancers = json!([{"name": "apps", "type": "network"}]);
        assert_eq!(paths(&issues(&machine("worker", &balancers))), [AT]);
        assert!(issues(&machine("worker", &json!([]))).is_empty());
        assert!(issues(&machine("master", &balancers)).is_empty());
        let mut owned = machine("", &balancers);
        owned["metadata"]["ownerReferences"] = json!([{"kind": "ControlPlaneMachineSet"}]);
        assert!(issues(&owned).is_empty());
        let template = machine("worker", &balancers);
        let set =
            json!({"apiVersion": "machine.openshift.io/v1beta1", "kind": "MachineSet", "spec": {"template": template}});
        assert_eq!(
            paths(&issues(&set)),
            ["spec.template.spec.providerSpec.value.loadBalancers"]
        );
    }

    #[test]
    fn a_control_plane_machine_must_name_the_load_balancers_of_the_cluster() {
        let cluster = json!({"kind": "AWSCluster", "spec": {
            "controlPlaneLoadBalancer": {"name": "int", "loadBalancerType": "nlb"},
            "secondaryControlPlaneLoadBalancer": {"name": "ext"}}});
        for (balancers, expected) in [
            (
                json!([{"name": "ext", "type": "classic"}, {"name": "int", "type": "network"}]),
                vec![],
            ),
            (json!([{"name": "int", "type": "network"}]), vec![AT.to_owned()]),
            (json!([]), vec![AT.to_owned(), AT.to_owned()]),
            (
                json!([{"name": "int", "type": "classic"}, {"name": "ext", "type": "classic"}]),
                vec![format!("{AT}[0].type")],
            ),
            (
                json!([{"name": "int", "type": "network"}, {"name": "ext", "type": "classic"}, {"name": "my"}]),
                vec![format!("{AT}[2].name")],
            ),
        ] {
            let found = disagreements(&machine("master", &balancers), &cluster);
            assert_eq!(paths(&found), expected, "{balancers}");
        }
        assert!(disagreements(&machine("worker", &json!([])), &cluster).is_empty());
        let silent = json!({"kind": "AWSCluster", "spec": {}});
        let balancers = json!([{"name": "my", "type": "network"}]);
        assert!(disagreements(&machine("master", &balancers), &silent).is_empty());
    }
}
