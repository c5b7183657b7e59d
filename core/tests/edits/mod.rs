//! Edits of sets on AWS that tests judge, and the cluster around them.

use capstan_core::admission::{Snapshot, Source};
use serde_json::{Value, json};

use crate::judged::judged;
use crate::sets::{MACHINE, aws, labels, set_of};

pub(crate) const ZONES: [&str; 3] = ["us-east-1a", "us-east-1b", "us-east-1c"];

/// An active set on AWS over three zones.
pub(crate) fn aws_set(change: impl FnOnce(&mut Value)) -> Value {
    let mut set = set_of(&aws());
    set["spec"]["template"][MACHINE]["failureDomains"] = json!({
        "platform": "AWS",
        "aws": ZONES.map(|zone| json!({"placement": {"availabilityZone": zone}})),
    });
    change(&mut set);
    set
}

pub(crate) fn machine_template(set: &mut Value) -> &mut Value {
    &mut set["spec"]["template"][MACHINE]
}

pub(crate) fn provider_spec(set: &mut Value) -> &mut Value {
    &mut machine_template(set)["spec"]["providerSpec"]["value"]
}

pub(crate) fn one_zone(set: &mut Value) {
    machine_template(set)["failureDomains"]["aws"] = json!([{"placement": {"availabilityZone": ZONES[0]}}]);
}

/// A valid provider spec of each platform, for a set without failure domains.
pub(crate) fn platforms() -> Vec<Value> {
    vec![
        aws(),
        json!({"kind": "AzureMachineProviderSpec", "internalLoadBalancer": "lb", "vmSize": "Standard_D8s_v3",
            "osDisk": {"diskSizeGB": 1024}}),
        json!({"kind": "GCPMachineProviderSpec", "machineType": "n2-standard-4", "region": "us-central1",
            "targetPools": ["pool"]}),
        json!({"kind": "NutanixMachineProviderConfig", "cluster": {"type": "uuid", "uuid": "c"},
            "image": {"type": "name", "name": "rhcos"}, "subnets": [{"type": "uuid", "uuid": "s"}], "memorySize": "16Gi",
            "systemDiskSize": "120Gi", "vcpuSockets": 8, "vcpusPerSocket": 1}),
        json!({"kind": "OpenstackProviderSpec", "cloudName": "openstack", "cloudsSecret": {"name": "clouds"},
            "flavor": "m1.xlarge", "image": "rhcos"}),
        json!({"kind": "PowerVSMachineProviderConfig", "image": {"type": "Name", "name": "rhcos"}, "keyPairName": "key",
            "network": {"type": "RegEx", "regex": "^n"}, "serviceInstance": {"type": "ID", "id": "i"}}),
        json!({"kind": "VSphereMachineProviderSpec", "template": "rhcos", "workspace": {"server": "vcenter"},
            "network": {"devices": [{"networkName": "segment"}]}}),
    ]
}

/// Three machines, one in each zone, as the set describes them.
pub(crate) fn machines(set: &Value) -> Vec<Value> {
    let template = set.pointer("/spec/template").unwrap()[MACHINE].clone();
    let machine = |(index, zone): (usize, &str)| {
        let mut value = template["spec"]["providerSpec"]["value"].clone();
        if value["kind"] == "AWSMachineProviderConfig" {
            value["placement"]["availabilityZone"] = json!(zone);
        }
        json!({
            "apiVersion": "machine.openshift.io/v1beta1",
            "kind": "Machine",
            "metadata": {"name": format!("prod-x7k2p-master-{index}"), "namespace": "openshift-machine-api",
                "uid": format!("uid-{index}"), "labels": labels()},
            "spec": {"providerSpec": {"value": value}},
            "status": {"phase": "Running", "nodeRef": {"name": format!("node-{index}")}},
        })
    };
    let node = |index: usize| {
        json!({"apiVersion": "v1", "kind": "Node",
            "metadata": {"name": format!("node-{index}"), "labels": {"node-role.kubernetes.io/control-plane": ""}},
            "status": {"conditions": [{"type": "Ready", "status": "True",
                "lastTransitionTime": "2026-01-01T00:10:00Z"}]}})
    };
    let machines = ZONES.into_iter().enumerate().map(machine);
    machines.chain((0..3).map(node)).collect()
}

/// The answer to an edit.
pub(crate) struct Answer {
    pub(crate) allowed: bool,
    pub(crate) denied_by: Vec<String>,
    pub(crate) message: String,
    pub(crate) warnings: String,
}

/// Judges an edit beside three machines of the old set; a null old set is a creation. Further
/// objects are in the cluster.
pub(crate) fn judge_beside(old: &Value, new: &Value, objects: &[Value]) -> Answer {
    judge_with(old, new, objects, "Background")
}

/// The same. A null new set is a deletion with this propagation policy.
pub(crate) fn judge_with(old: &Value, new: &Value, objects: &[Value], propagation: &str) -> Answer {
    let mut all = machines(if old.is_null() { new } else { old });
    all.extend_from_slice(objects);
    judge_in(old, new, &all, propagation)
}

/// The same in a cluster with these objects.
pub(crate) fn judge_in(old: &Value, new: &Value, objects: &[Value], propagation: &str) -> Answer {
    let snapshot = Snapshot {
        source: Source::Cluster,
        ..Snapshot::of_files(objects).unwrap()
    };
    let request = json!({
        "operation": match (old.is_null(), new.is_null()) {
            (true, _) => "CREATE",
            (_, true) => "DELETE",
            _ => "UPDATE",
        },
        "options": {"propagationPolicy": propagation}, "object": new, "oldObject": old,
    });
    let (answer, response, _) = judged(&request, &snapshot);
    Answer {
        allowed: answer.record.allowed,
        denied_by: answer.record.denied_by,
        message: response["status"]["message"].as_str().unwrap_or_default().to_owned(),
        warnings: response["warnings"].to_string(),
    }
}

pub(crate) fn judge(old: &Value, new: &Value) -> Answer {
    judge_beside(old, new, &[])
}

pub(crate) fn edited(old: &Value, change: impl FnOnce(&mut Value)) -> Value {
    let mut new = old.clone();
    change(&mut new);
    new
}
