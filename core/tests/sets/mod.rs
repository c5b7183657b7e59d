//! A ControlPlaneMachineSet on AWS, for tests of admission.

use serde_json::{Value, json};

/// The type of the template, and its field in the spec.
pub(crate) const MACHINE: &str = "machines_v1beta1_machine_openshift_io";

/// The labels of control plane machines.
pub(crate) fn labels() -> Value {
    json!({
        "machine.openshift.io/cluster-api-cluster": "prod-x7k2p",
        "machine.openshift.io/cluster-api-machine-role": "master",
        "machine.openshift.io/cluster-api-machine-type": "master",
    })
}

/// A valid provider spec of AWS.
pub(crate) fn aws() -> Value {
    json!({
        "apiVersion": "machine.openshift.io/v1beta1",
        "kind": "AWSMachineProviderConfig",
        "ami": {"id": "ami-0c1"},
        "blockDevices": [{"ebs": {"volumeSize": 120, "volumeType": "gp3"}}],
        "credentialsSecret": {"name": "aws-cloud-credentials"},
        "iamInstanceProfile": {"id": "prod-x7k2p-master-profile"},
        "instanceType": "m6i.xlarge",
        "placement": {"region": "us-east-1"},
        "userDataSecret": {"name": "master-user-data"},
    })
}

/// An active set without failure domains.
pub(crate) fn set_of(provider_spec: &Value) -> Value {
    json!({
        "apiVersion": "machine.openshift.io/v1",
        "kind": "ControlPlaneMachineSet",
        "metadata": {"name": "cluster", "namespace": "openshift-machine-api", "uid": "set-uid"},
        "spec": {
            "replicas": 3,
            "state": "Active",
            "strategy": {"type": "RollingUpdate"},
            "selector": {"matchLabels": labels()},
            "template": {"machineType": MACHINE, MACHINE: {
                "metadata": {"labels": labels()},
                "spec": {"providerSpec": {"value": provider_spec}},
            }},
        },
    })
}
