//! A ControlPlane for the tests of this module: AWS over three zones.

use serde_json::{Value, json};

pub(crate) fn control_plane(replicas: i64) -> Value {
    json!({
        "apiVersion": "machine.openshift.io/v1alpha1",
        "kind": "ControlPlane",
        "metadata": {"name": "cluster", "namespace": "openshift-machine-api", "uid": "cp-uid",
            "resourceVersion": "100", "generation": 1,
            "finalizers": ["controlplane.machine.openshift.io"]},
        "spec": {
            "replicas": replicas,
            "enableautorepair": true,
            "providerSpec": {"value": {
                "apiVersion": "machine.openshift.io/v1beta1",
                "kind": "AWSMachineProviderConfig",
                "ami": {"id": "ami-0123"},
                "instanceType": "m6i.xlarge",
                "blockDevices": [{"ebs": {"volumeSize": 120, "volumeType": "gp3"}}],
                "credentialsSecret": {"name": "aws-cloud-credentials"},
                "userDataSecret": {"name": "master-user-data"},
                "placement": {"region": "us-east-1"},
            }},
            "failureDomains": {"platform": "AWS", "aws": [
                {"placement": {"availabilityZone": "us-east-1a"}},
                {"placement": {"availabilityZone": "us-east-1b"}},
                {"placement": {"availabilityZone": "us-east-1c"}}]},
        },
    })
}
