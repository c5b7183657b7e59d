//! Objects for the tests of this module: a set on AWS over three zones, in the form of an
//! installer.

use serde_json::{Value, json};

use crate::api::machine_openshift_io::control_plane_machine_set::ControlPlaneMachineSet;

pub(crate) const CLUSTER: &str = "ocp-x7k2p";

pub(crate) fn labels() -> Value {
    json!({
        "machine.openshift.io/cluster-api-cluster": CLUSTER,
        "machine.openshift.io/cluster-api-machine-role": "master",
        "machine.openshift.io/cluster-api-machine-type": "master",
    })
}

/// The provider spec of a template, without zone.
pub(crate) fn provider_spec(instance_type: &str) -> Value {
    json!({
        "apiVersion": "machine.openshift.io/v1beta1",
        "kind": "AWSMachineProviderConfig",
        "ami": {"id": "ami-0123"},
        "instanceType": instance_type,
        "blockDevices": [{"ebs": {"volumeSize": 120, "volumeType": "gp3"}}],
        "credentialsSecret": {"name": "aws-cloud-credentials"},
        "userDataSecret": {"name": "master-user-data"},
        "placement": {"region": "us-east-1"},
    })
}

pub(crate) fn json_set() -> Value {
    json!({
        "apiVersion": "machine.openshift.io/v1",
        "kind": "ControlPlaneMachineSet",
        "metadata": {"name": "cluster", "namespace": "openshift-machine-api", "uid": "set-uid", "generation": 1,
                     "resourceVersion": "100", "finalizers": ["controlplanemachineset.machine.openshift.io"]},
        "spec": {
            "state": "Active",
            "replicas": 3,
            "strategy": {"type": "RollingUpdate"},
            "selector": {"matchLabels": labels()},
            "template": {
                "machineType": "machines_v1beta1_machine_openshift_io",
                "machines_v1beta1_machine_openshift_io": {
                    "failureDomains": {"platform": "AWS", "aws": [
                        {"placement": {"availabilityZone": "us-east-1a"}},
                        {"placement": {"availabilityZone": "us-east-1b"}},
                        {"placement": {"availabilityZone": "us-east-1c"}}]},
                    "metadata": {"labels": labels()},
                    "spec": {"providerSpec": {"value": provider_spec("m6i.xlarge")}},
                },
            },
        },
    })
}

pub(crate) fn aws_set() -> ControlPlaneMachineSet {
    serde_json::from_value(json_set()).unwrap()
}

/// The name of a machine without the common prefix.
pub(crate) fn short(name: &str) -> String {
    name.replace("ocp-x7k2p-master-", "m-")
}
