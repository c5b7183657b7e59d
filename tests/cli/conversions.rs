//! `capstan convert`: output formats, exit codes, and the report of issues.

use serde_json::{Value, json};

use super::{Folder, capstan, path, stderr, stdout};

pub(super) fn machine(name: &str, change: &Value) -> Value {
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

pub(super) fn cluster() -> [Value; 2] {
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
pub(super) fn machine_of(name: &str, provider_spec: &Value) -> Value {
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
        "help: use keyName, or remove the field",
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

#[test]
fn an_object_that_is_given_twice_is_converted_once_and_another_of_its_name_is_an_issue() {
    let folder = Folder::new();
    let with = folder.objects("cluster.yaml", &cluster());
    let first = folder.objects("first.yaml", &[machine("a", &json!({}))]);
    let arguments = [
        "convert",
        "-o",
        "json",
        "--with",
        path(&with),
        path(&first),
        path(&first),
    ];
    let twice = capstan(&arguments, "");
    assert_eq!(twice.status.code(), Some(0), "{}", stderr(&twice));
    assert!(stderr(&twice).contains("is given more than once and is converted once"));
    let rows: Value = serde_json::from_str(&stdout(&twice)).unwrap();
    assert_eq!(rows.as_array().unwrap().len(), 1);
    let mut elsewhere = machine("a", &json!({"instanceType": "m5.large"}));
    elsewhere["metadata"]["namespace"] = json!("elsewhere");
    let second = folder.objects("second.yaml", &[elsewhere]);
    let other = capstan(&["convert", "--with", path(&with), path(&first), path(&second)], "");
    assert_eq!(other.status.code(), Some(1));
    assert!(stderr(&other).contains("would overwrite that of Machine openshift-machine-api/a"));
    assert!(stderr(&other).contains("is not in the namespace openshift-machine-api"));
    assert!(!stdout(&other).contains("m5.large"));
}

#[test]
fn infrastructure_is_looked_up_in_the_namespace_of_its_machine() {
    let folder = Folder::new();
    let with = folder.objects("cluster.yaml", &cluster());
    let file = folder.objects("machine.yaml", &[machine("a", &json!({}))]);
    let there = capstan(&["convert", "-o", "json", "--with", path(&with), path(&file)], "");
    let rows: Value = serde_json::from_str(&stdout(&there)).unwrap();
    let [object, infrastructure] = [0, 1].map(|index| rows[0]["objects"][index].clone());
    let mut other = infrastructure.clone();
    other["metadata"]["namespace"] = json!("default");
    other["spec"]["instanceType"] = json!("m5.large");
    let all = folder.objects("all.yaml", &[object.clone(), infrastructure.clone(), other.clone()]);
    let back = capstan(&["convert", "-o", "json", "--with", path(&with), path(&all)], "");
    assert_eq!(back.status.code(), Some(0), "{}", stderr(&back));
    assert!(stdout(&back).contains("m6i.xlarge") && !stdout(&back).contains("m5.large"));
    let only = folder.objects("only.yaml", &[object, other.clone()]);
    let missing = capstan(&["convert", "--with", path(&with), path(&only)], "");
    assert!(
        stderr(&missing).contains("the AWSMachine \"a\" was not given"),
        "{}",
        stderr(&missing)
    );
    other["metadata"]["namespace"] = infrastructure["metadata"]["namespace"].clone();
    let differ = folder.objects("differ.yaml", &[infrastructure, other]);
    let differ = capstan(&["convert", path(&differ)], "");
    assert_eq!(differ.status.code(), Some(2));
    assert!(
        stderr(&differ).contains("the result would depend on their order"),
        "{}",
        stderr(&differ)
    );
}

#[test]
fn a_kind_in_lower_case_is_an_issue_that_names_the_kind() {
    let mut lower = machine("a", &json!({}));
    lower["kind"] = json!("machine");
    let output = capstan(&["convert", "-"], &lower.to_string());
    assert_eq!(output.status.code(), Some(1));
    assert!(
        stderr(&output).contains("help: set it to Machine\n"),
        "{}",
        stderr(&output)
    );
}

#[test]
fn a_misspelt_field_suggests_the_field_and_an_object_without_a_name_is_an_issue() {
    let folder = Folder::new();
    let with = folder.objects("cluster.yaml", &cluster());
    let mut nameless = machine(
        "a",
        &json!({"keyNam": "admin", "placement": {"avalabilityZone": "us-east-1a"}}),
    );
    nameless["metadata"].as_object_mut().unwrap().remove("name");
    let file = folder.objects("machine.yaml", &[nameless]);
    let output = capstan(&["convert", "--with", path(&with), path(&file)], "");
    assert_eq!(output.status.code(), Some(1));
    assert_eq!(stdout(&output), "");
    let report = stderr(&output);
    for part in [
        "error: Machine without a name: metadata.name\n",
        "help: use keyName, or remove the field\n",
        "help: use availabilityZone, or remove the field\n",
    ] {
        assert!(report.contains(part), "{part} is missing in\n{report}");
    }
    assert!(!report.contains("were not given"), "{report}");
}

#[test]
fn a_misspelt_kind_and_a_wrong_value_are_named_with_what_is_right() {
    let wrong = json!({"kind": "AWSMachineProviderConfigg"});
    let report = stderr(&capstan(&["convert", "-"], &machine("a", &wrong).to_string()));
    assert!(report.contains("help: use AWSMachineProviderConfig, or keep the Machine in the Machine API\n"));
    let report = stderr(&capstan(
        &["convert", "-"],
        &machine("a", &json!({"instanceType": 5})).to_string(),
    ));
    assert!(report.contains("reason: must be a string; it is 5\n"), "{report}");
}

#[test]
fn cluster_objects_that_were_not_given_are_named_once() {
    let folder = Folder::new();
    let machines = [machine("a", &json!({})), machine("b", &json!({}))];
    let file = folder.objects("machines.yaml", &machines);
    let report = stderr(&capstan(&["convert", path(&file)], ""));
    let note = "note: these objects of the cluster were not given: AWSCluster, Infrastructure; pass them with --with\n";
    assert_eq!(report.matches(note).count(), 1, "{report}");
}

#[test]
fn v37_a_pause_that_is_not_converted_has_a_note() {
    let folder = Folder::new();
    let with = folder.objects("cluster.yaml", &cluster());
    let mut check = json!({"apiVersion": "machine.openshift.io/v1beta1", "kind": "MachineHealthCheck",
        "metadata": {"name": "workers", "namespace": "openshift-machine-api", "annotations":
            {"cluster.x-k8s.io/paused": ""}},
        "spec": {"selector": {"matchLabels": {"a": "b"}}, "nodeStartupTimeout": "10m",
            "unhealthyConditions": [{"type": "Ready", "status": "Unknown", "timeout": "5m"}]}});
    let file = folder.objects("check.yaml", std::slice::from_ref(&check));
    let paused = capstan(&["convert", "--with", path(&with), path(&file)], "");
    assert_eq!(paused.status.code(), Some(0), "{}", stderr(&paused));
    let note = "MachineHealthCheck openshift-machine-api/workers is paused with the annotation cluster.x-k8s.io/paused; \
                the converted object is not";
    assert_eq!(stderr(&paused).matches(note).count(), 1, "{}", stderr(&paused));
    assert!(!stdout(&paused).contains("paused"));
    check["metadata"].as_object_mut().unwrap().remove("annotations");
    let file = folder.objects("active.yaml", &[check]);
    assert_eq!(
        stderr(&capstan(&["convert", "--with", path(&with), path(&file)], "")),
        ""
    );
}

#[test]
fn v38_taints_have_a_note_about_the_feature_gate_that_they_need() {
    let folder = Folder::new();
    let with = folder.objects("cluster.yaml", &cluster());
    let mut tainted = machine("a", &json!({}));
    tainted["spec"]["taints"] = json!([{"key": "example.org/dedicated", "effect": "NoSchedule"}]);
    let file = folder.objects("machines.yaml", &[tainted, machine("b", &json!({}))]);
    let there = capstan(&["convert", "--with", path(&with), path(&file)], "");
    assert_eq!(there.status.code(), Some(0), "{}", stderr(&there));
    let note = "note: 1 of 2 objects have taints, which Cluster API refuses unless its feature gate \
                MachineTaintPropagation is on\n";
    assert_eq!(stderr(&there), note);
    let back = capstan(&["convert", "--with", path(&with), "-"], &stdout(&there));
    assert_eq!(stderr(&back), "", "the Machine API needs no feature gate");
}
