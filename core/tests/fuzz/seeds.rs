//! Valid objects from which the inputs are derived.

use serde_json::{Value, json};

pub(crate) const MACHINE: &str = "machines_v1beta1_machine_openshift_io";

fn yaml(text: &str) -> Vec<Value> {
    serde_saphyr::from_multiple(text).unwrap()
}

/// Active and inactive sets of several platforms.
pub(crate) fn sets() -> Vec<Value> {
    let aws = yaml(include_str!("../../../tests/fixtures/aws/set.yaml")).remove(0);
    let of = |platform: &str, member: &str, domains: Value, spec: Value| {
        let mut set = aws.clone();
        let machine = &mut set["spec"]["template"][MACHINE];
        machine["failureDomains"] = json!({"platform": platform, member: domains});
        machine["spec"]["providerSpec"]["value"] = spec;
        set
    };
    let mut inactive = aws.clone();
    inactive["spec"]["state"] = json!("Inactive");
    let mut bare = aws.clone();
    bare["spec"]["template"][MACHINE]
        .as_object_mut()
        .unwrap()
        .remove("failureDomains");
    bare["spec"]["machineNamePrefix"] = json!("control-plane");
    let gcp = yaml(include_str!("../../../tests/fixtures/gcp/provider-spec.yaml")).remove(0);
    vec![
        of("GCP", "gcp", json!([{"zone": "a"}, {"zone": "b"}]), gcp),
        of(
            "Azure",
            "azure",
            json!([{"zone": "1"}, {"zone": "2", "subnet": "s"}]),
            json!({"kind": "AzureMachineProviderSpec", "internalLoadBalancer": "i", "image": {"resourceID": "x"}}),
        ),
        of(
            "OpenStack",
            "openstack",
            json!([{"availabilityZone": "n1", "rootVolume": {"availabilityZone": "c1", "volumeType": "ssd"}}]),
            json!({"kind": "OpenstackProviderSpec", "flavor": "m", "rootVolume": {"diskSize": 30},
                "additionalBlockDevices": [{"name": "etcd", "sizeGiB": 10}]}),
        ),
        of(
            "VSphere",
            "vsphere",
            json!([{"name": "fd-1"}, {"name": "fd-2"}]),
            json!({"kind": "VSphereMachineProviderSpec", "template": "/dc/vm/rhcos", "network": {"devices": [{}]}}),
        ),
        of(
            "Nutanix",
            "nutanix",
            json!([{"name": "fd-1"}]),
            json!({"kind": "NutanixMachineProviderConfig", "subnets": [{"type": "uuid", "uuid": "u"}]}),
        ),
        inactive,
        bare,
        aws,
    ]
}

/// The machines of the AWS sets, and the Infrastructure.
pub(crate) fn cluster() -> Vec<Value> {
    [
        include_str!("../../../tests/fixtures/aws/machines.yaml"),
        include_str!("../../../tests/fixtures/aws/infrastructure.yaml"),
    ]
    .into_iter()
    .flat_map(yaml)
    .collect()
}

/// The nodes of these machines. With them, admission previews a rollout.
pub(crate) fn nodes() -> Vec<Value> {
    yaml(include_str!("../../../tests/fixtures/aws/nodes.yaml"))
}

/// An AdmissionReview of a set.
pub(crate) fn review(operation: &str, object: &Value, old: &Value) -> Value {
    json!({
        "apiVersion": "admission.k8s.io/v1",
        "kind": "AdmissionReview",
        "request": {
            "uid": "11111111-2222-3333-4444-555555555555",
            "kind": {"group": "machine.openshift.io", "version": "v1", "kind": "ControlPlaneMachineSet"},
            "resource": {"group": "machine.openshift.io", "version": "v1", "resource": "controlplanemachinesets"},
            "name": "cluster",
            "namespace": "openshift-machine-api",
            "operation": operation,
            "userInfo": {"username": "kube:admin", "groups": ["system:authenticated"]},
            "object": object,
            "oldObject": old,
            "dryRun": false,
            "options": {"kind": "DeleteOptions", "propagationPolicy": "Background"},
        },
    })
}

/// Reviews of every operation.
pub(crate) fn reviews() -> Vec<Value> {
    let sets = sets();
    let changed = |set: &Value| {
        let mut new = set.clone();
        new["spec"]["template"][MACHINE]["spec"]["providerSpec"]["value"]["instanceType"] = json!("m6i.8xlarge");
        new
    };
    let updates = sets.iter().map(|set| review("UPDATE", &changed(set), set));
    let creations = sets.iter().map(|set| review("CREATE", set, &Value::Null));
    let deletion = review("DELETE", &Value::Null, &sets[0]);
    updates.chain(creations).chain([deletion]).collect()
}
