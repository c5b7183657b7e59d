//! `capstan convert`: output formats, exit codes, and the report of issues.

use serde_json::{Value, json};

use super::{Folder, capstan, path, stderr, stdout};

fn machine(name: &str, change: &Value) -> Value {
    let mut spec = json!({
        "apiVersion": "machine.openshift.io/v1beta1", "kind": "AWSMachineProviderConfig", "ami": {"id": "ami-1"},
        "instanceType": "m6i.xlarge", "deviceIndex": 0, "credentialsSecret": {"name": "aws-cloud-credentials"},
        "placement": {"availabilityZone": "us-east-1a", "region": "us-east-1"}, "subnet": {"id": "subnet-1"},
        "blockDevices": [{"ebs": {"volumeSize": 120}}], "userDataSecret": {"name": "worker-user-data"},
    });
    for (field, value) in change.as_object().unwrap() {
        spec[field] = value.clone();
    }
    json!({
        "apiVersion": "machine.openshift.io/v1beta1", "kind": "Machine",
        "metadata": {"name": name, "namespace": "openshift-machine-api"},
        "spec": {"providerSpec": {"value": spec}},
    })
}

fn cluster() -> [Value; 2] {
    [
        json!({"apiVersion": "config.openshift.io/v1", "kind": "Infrastructure", "metadata": {"name": "cluster"},
            "status": {"infrastructureName": "prod-x7k2p", "platformStatus": {"aws": {"region": "us-east-1"}}}}),
        json!({"apiVersion": "infrastructure.cluster.x-k8s.io/v1beta2", "kind": "AWSCluster",
            "metadata": {"name": "prod-x7k2p"}, "spec": {"region": "us-east-1"}}),
    ]
}

fn lossy() -> Value {
    machine(
        "lossy",
        &json!({"blockDevices": [{"ebs": {"volumeSize": 120, "deleteOnTermination": false}}]}),
    )
}

#[test]
fn a_machine_converts_there_and_back_through_yaml() {
    let folder = Folder::new();
    let with = folder.objects("cluster.yaml", &cluster());
    let file = folder.objects("machine.yaml", &[machine("a", &json!({}))]);
    let there = capstan(&["convert", "--with", path(&with), path(&file)], "");
    assert_eq!(there.status.code(), Some(0), "{}", stderr(&there));
    assert_eq!(stderr(&there), "");
    let back = capstan(&["convert", "--with", path(&with), "-o", "json", "-"], &stdout(&there));
    assert_eq!(back.status.code(), Some(0), "{}", stderr(&back));
    let rows: Value = serde_json::from_str(&stdout(&back)).unwrap();
    let rows = rows.as_array().unwrap();
    assert_eq!(rows.len(), 1, "the AWSMachine is part of the context");
    let spec = &rows[0]["objects"][0]["spec"]["providerSpec"]["value"];
    assert_eq!(spec["blockDevices"], json!([{"ebs": {"volumeSize": 120}}]));
    assert_eq!(spec["placement"]["region"], "us-east-1");
}

#[test]
fn json_output_has_the_source_the_objects_and_the_issues() {
    let folder = Folder::new();
    let with = folder.objects("cluster.yaml", &cluster());
    let file = folder.objects("machine.yaml", &[machine("a", &json!({"ami": {"arn": "x"}}))]);
    let output = capstan(&["convert", "-o", "json", "--with", path(&with), path(&file)], "");
    assert_eq!(output.status.code(), Some(1));
    let rows: Value = serde_json::from_str(&stdout(&output)).unwrap();
    let keys: Vec<&str> = rows[0].as_object().unwrap().keys().map(String::as_str).collect();
    assert_eq!(keys, ["issues", "objects", "source"]);
    assert_eq!(
        rows[0]["source"],
        json!({"apiVersion": "machine.openshift.io/v1beta1", "kind": "Machine",
            "namespace": "openshift-machine-api", "name": "a"})
    );
    assert_eq!(rows[0]["objects"].as_array().unwrap().len(), 2);
    let keys: Vec<&str> = rows[0]["issues"][0]
        .as_object()
        .unwrap()
        .keys()
        .map(String::as_str)
        .collect();
    assert_eq!(keys, ["path", "reason", "severity", "wayOut"]);
    assert_eq!(rows[0]["issues"][0]["severity"], "Blocks");
    assert!(stderr(&output).contains("error: Machine openshift-machine-api/a: spec.providerSpec.value.ami.arn"));
}

#[test]
fn a_loss_fails_unless_it_is_allowed() {
    let folder = Folder::new();
    let with = folder.objects("cluster.yaml", &cluster());
    let file = folder.objects("machine.yaml", &[lossy(), machine("whole", &json!({}))]);
    let output = capstan(&["convert", "--with", path(&with), path(&file)], "");
    assert_eq!(output.status.code(), Some(1));
    assert!(!stdout(&output).contains("lossy") && stdout(&output).contains("whole"));
    assert!(stderr(&output).contains("warning: Machine openshift-machine-api/lossy"));
    assert!(stderr(&output).contains("help: set it to true"));
    let allowed = capstan(&["convert", "--allow-loss", "--with", path(&with), path(&file)], "");
    assert_eq!(allowed.status.code(), Some(0));
    assert!(stdout(&allowed).contains("lossy"));
    let blocked = folder.objects("blocked.yaml", &[machine("b", &json!({"deviceIndex": 1}))]);
    let blocked = capstan(&["convert", "--allow-loss", "--with", path(&with), path(&blocked)], "");
    assert_eq!((blocked.status.code(), stdout(&blocked).as_str()), (Some(1), ""));
}

#[test]
fn a_missing_infrastructure_object_is_an_issue_that_names_it() {
    let machine = json!({"apiVersion": "cluster.x-k8s.io/v1beta2", "kind": "Machine",
        "metadata": {"name": "a", "namespace": "openshift-cluster-api"},
        "spec": {"clusterName": "c", "bootstrap": {"dataSecretName": "worker-user-data"}, "infrastructureRef":
            {"apiGroup": "infrastructure.cluster.x-k8s.io", "kind": "AWSMachine", "name": "missing"}}});
    let output = capstan(&["convert", "-o", "json", "-"], &machine.to_string());
    assert_eq!(output.status.code(), Some(1));
    assert!(
        stdout(&output).contains("the AWSMachine \\\"missing\\\" was not given"),
        "{}",
        stdout(&output)
    );
}

#[test]
fn the_target_can_be_given_and_unreadable_input_exits_with_2() {
    let folder = Folder::new();
    let file = folder.objects("machine.yaml", &[machine("a", &json!({}))]);
    let output = capstan(&["convert", "--to", "machine-api", path(&file)], "");
    assert_eq!((output.status.code(), stdout(&output).as_str()), (Some(0), ""));
    assert!(stderr(&output).contains("is in the target API already"));
    for arguments in [
        &["convert", "/no/such/file"][..],
        &["convert", "-"],
        &["convert"],
        &["convert", "-", "-"],
    ] {
        assert_eq!(capstan(arguments, "kind: [").status.code(), Some(2), "{arguments:?}");
    }
}

#[test]
fn a_kind_without_a_counterpart_is_an_issue() {
    let set = json!({"apiVersion": "machine.openshift.io/v1", "kind": "ControlPlaneMachineSet",
        "metadata": {"name": "cluster"}});
    let output = capstan(&["convert", "-"], &set.to_string());
    assert_eq!(output.status.code(), Some(1));
    assert!(
        stderr(&output).contains("ControlPlaneMachineSet has no counterpart"),
        "{}",
        stderr(&output)
    );
}

#[test]
fn a_field_is_explained() {
    let output = capstan(&["convert", "--explain", "placement.tenancy"], "");
    assert_eq!(output.status.code(), Some(0));
    assert!(stdout(&output).contains("AWSMachineProviderConfig placement.tenancy <-> AWSMachine tenancy"));
    let unknown = capstan(&["convert", "--explain", "noSuchField"], "");
    assert_eq!(unknown.status.code(), Some(1));
}

/// A machine of another platform than AWS.
fn machine_of(name: &str, provider_spec: &Value) -> Value {
    let mut machine = machine(name, &json!({}));
    machine["spec"]["providerSpec"]["value"] = provider_spec.clone();
    machine
}

/// Fifty machines of four platforms. Three of them have a mistake.
fn fifty_machines() -> Vec<Value> {
    const UUID: &str = "0005b0f1-8f43-a0f2-02b7-3cecef193712";
    let power_vs = json!({"apiVersion": "machine.openshift.io/v1", "kind": "PowerVSMachineProviderConfig",
        "serviceInstance": {"type": "ID", "id": "s"}, "image": {"type": "Name", "name": "rhcos"},
        "network": {"type": "RegEx", "regex": "^DHCP"}, "keyPairName": "k", "systemType": "s1022",
        "processorType": "Shared", "processors": "0.5", "memoryGiB": 32,
        "userDataSecret": {"name": "worker-user-data"}, "credentialsSecret": {"name": "powervs-credentials"}});
    let openstack = json!({"apiVersion": "machine.openshift.io/v1alpha1", "kind": "OpenstackProviderSpec",
        "flavor": "m1.xlarge", "image": "rhcos", "cloudName": "openstack", "cloudsSecret":
            {"name": "openstack-cloud-credentials", "namespace": "openshift-machine-api"},
        "networks": [{"subnets": [{"filter": {"name": "nodes"}}]}], "userDataSecret": {"name": "worker-user-data"}});
    let nutanix = json!({"apiVersion": "machine.openshift.io/v1", "kind": "NutanixMachineProviderConfig",
        "cluster": {"type": "uuid", "uuid": UUID}, "image": {"type": "name", "name": "rhcos"},
        "subnets": [{"type": "uuid", "uuid": UUID}], "vcpusPerSocket": 1, "vcpuSockets": 4, "memorySize": "16Gi",
        "systemDiskSize": "120Gi", "credentialsSecret": {"name": "nutanix-credentials"},
        "userDataSecret": {"name": "worker-user-data"}});
    let mut machines: Vec<Value> = (0..50)
        .map(|index| {
            let name = format!("worker-{index}");
            match index % 4 {
                0 => machine(&name, &json!({})),
                1 => machine_of(&name, &power_vs),
                2 => machine_of(&name, &openstack),
                _ => machine_of(&name, &nutanix),
            }
        })
        .collect();
    for (index, field, value) in [
        (8, "keyNam", json!("admin")),
        (17, "loadBalancers", json!([{"name": "x", "type": "Application"}])),
        (30, "floatingIP", json!("203.0.113.5")),
    ] {
        machines[index]["spec"]["providerSpec"]["value"][field] = value;
    }
    machines
}

#[test]
fn a_folder_of_fifty_machines_converts_except_those_with_mistakes() {
    let (folder, inputs) = (Folder::new(), Folder::new());
    let with = folder.objects("cluster.yaml", &cluster());
    for (index, machine) in fifty_machines().iter().enumerate() {
        inputs.objects(&format!("{index:02}.yaml"), std::slice::from_ref(machine));
    }
    let output = capstan(&["convert", "--with", path(&with), path(inputs.0.path())], "");
    assert_eq!(output.status.code(), Some(1));
    let report = stderr(&output);
    for part in [
        "error: Machine openshift-machine-api/worker-8: spec.providerSpec.value.keyNam\n",
        "error: Machine openshift-machine-api/worker-17: spec.providerSpec.value.loadBalancers\n",
        "error: Machine openshift-machine-api/worker-30: spec.providerSpec.value.floatingIP\n",
        "help: correct the spelling, or remove the field",
        "note: 47 of 50 objects converted without loss, 0 lose values, 3 cannot be converted",
    ] {
        assert!(report.contains(part), "{part} is missing in\n{report}");
    }
    let text = stdout(&output);
    assert_eq!(text.matches("\nkind: Machine\n").count(), 47);
    for kind in ["AWSMachine", "IBMPowerVSMachine", "OpenStackMachine", "NutanixMachine"] {
        assert!(text.contains(&format!("\nkind: {kind}\n")), "{kind}");
    }
}
