//! Values that other implementations lose or invent. Each must be an issue with its field.

use serde_json::{Value, json};

use super::samples::{aws, samples};
use crate::conversion::{Context, Converted, Lookup, convert};

/// A sample with changed fields of its provider spec, converted.
fn converted(platform: &str, change: &Value) -> Converted {
    let all = samples();
    let sample = all.iter().find(|sample| sample.platform == platform).unwrap();
    let mut spec = sample.provider_spec.clone();
    for (field, value) in change.as_object().unwrap() {
        spec[field] = value.clone();
    }
    convert(&sample.machine(&spec), &sample.context())
}

/// The infrastructure machine of a sample with changed fields of its provider spec.
fn infrastructure(platform: &str, change: &Value) -> Value {
    converted(platform, change).objects[1].clone()
}

/// The paths of the issues of a sample with changed fields of its provider spec.
fn issues(platform: &str, change: &Value) -> Vec<String> {
    let converted = converted(platform, change);
    let paths = converted.issues.iter().map(|issue| issue.path.as_str());
    paths
        .map(|path| path.trim_start_matches("spec.providerSpec.value.").to_owned())
        .collect()
}

fn reports(platform: &str, change: &Value, path: &str) {
    let found = issues(platform, change);
    assert!(
        found.iter().any(|found| found == path),
        "{platform} {change}: {found:?}"
    );
}

#[test]
fn an_instance_profile_by_arn_or_filters_is_not_lost() {
    reports(
        "aws",
        &json!({"iamInstanceProfile": {"arn": "a"}}),
        "iamInstanceProfile.arn",
    );
    let filters = json!({"iamInstanceProfile": {"filters": [{"name": "a", "values": ["b"]}]}});
    reports("aws", &filters, "iamInstanceProfile.filters");
}

#[test]
fn a_security_group_or_subnet_by_arn_is_not_lost() {
    reports(
        "aws",
        &json!({"securityGroups": [{"id": "a"}, {"arn": "b"}]}),
        "securityGroups[1].arn",
    );
    reports("aws", &json!({"subnet": {"arn": "a"}}), "subnet.arn");
}

#[test]
fn a_zone_outside_of_the_region_is_reported() {
    for zone in ["europe-west1-b", "us-central10-a", "us-central1"] {
        reports("gcp", &json!({"zone": zone}), "zone");
    }
    assert_eq!(issues("gcp", &json!({"zone": "us-central1-ai1b"})), [] as [&str; 0]);
    let all = samples();
    let sample = all.iter().find(|sample| sample.platform == "gcp").unwrap();
    let there = convert(&sample.machine(&sample.provider_spec), &sample.context());
    let mut machine = there.objects[0].clone();
    machine["spec"]["failureDomain"] = json!("us-east1-b");
    let context = Context {
        infrastructure_machine: Lookup::Found(&there.objects[1]),
        ..sample.context()
    };
    let back = convert(&machine, &context);
    let paths: Vec<&str> = back.issues.iter().map(|issue| issue.path.as_str()).collect();
    assert_eq!(paths, ["spec.failureDomain"]);
}

#[test]
fn an_address_without_the_length_of_its_prefix_is_reported() {
    let devices = |address: &str| {
        let device = json!({"networkName": "n", "ipAddrs": ["192.0.2.10/24", address]});
        json!({"network": {"devices": [device]}})
    };
    for address in [
        "192.0.2.1",
        "192.0.2.1/33",
        "192.0.2.1/+8",
        "192.0.2.1/",
        "fd00::1/129",
        "x/24",
    ] {
        reports("vsphere", &devices(address), "network.devices[0].ipAddrs[1]");
    }
    assert_eq!(issues("vsphere", &devices("fd00::1/64")), [] as [&str; 0]);
}

/// A sample without some fields of its provider spec, converted.
fn without(platform: &str, fields: &[&str]) -> Converted {
    let all = samples();
    let sample = all.iter().find(|sample| sample.platform == platform).unwrap();
    let mut spec = sample.provider_spec.clone();
    for field in fields {
        spec.as_object_mut().unwrap().remove(*field);
    }
    convert(&sample.machine(&spec), &sample.context())
}

/// The provider spec of an infrastructure machine with only what its CRD requires.
fn back(platform: &str, infrastructure: &Value) -> Value {
    let all = samples();
    let sample = all.iter().find(|sample| sample.platform == platform).unwrap();
    let there = convert(&sample.machine(&sample.provider_spec), &sample.context());
    let mut machine = there.objects[1].clone();
    machine["spec"] = infrastructure.clone();
    let context = Context {
        infrastructure_machine: Lookup::Found(&machine),
        ..sample.context()
    };
    convert(&there.objects[0], &context).objects[0]["spec"]["providerSpec"]["value"].clone()
}

#[test]
fn v110_a_machine_of_vsphere_without_a_clone_mode_keeps_the_mode_of_its_api() {
    assert_eq!(
        without("vsphere", &["cloneMode"]).objects[1]["spec"]["cloneMode"],
        "fullClone"
    );
    let machine = json!({"template": "t", "datacenter": "d",
        "network": {"devices": [{"networkName": "n", "dhcp4": true}]}});
    assert_eq!(back("vsphere", &machine)["cloneMode"], "linkedClone");
}

#[test]
fn v111_a_machine_of_gcp_does_not_get_access_to_all_services_unseen() {
    let converted = without("gcp", &["serviceAccounts"]);
    let blocked: Vec<&str> = converted.issues.iter().map(|issue| issue.path.as_str()).collect();
    assert_eq!(blocked, ["spec.providerSpec.value.serviceAccounts"]);
    let spec = back("gcp", &json!({"instanceType": "e2", "image": "i", "subnet": "s"}));
    let scopes = ["https://www.googleapis.com/auth/cloud-platform"];
    assert_eq!(spec["serviceAccounts"], json!([{"email": "default", "scopes": scopes}]));
    assert_eq!(
        (&spec["disks"][0]["sizeGb"], &spec["disks"][0]["type"]),
        (&json!(30), &json!("pd-standard"))
    );
    for size in [json!(null), json!(0)] {
        let disk = json!({"boot": true, "autoDelete": true, "image": "i", "sizeGb": size, "type": "pd-ssd"});
        reports("gcp", &json!({"disks": [disk]}), "disks[0].sizeGb");
    }
}

#[test]
fn v112_a_machine_of_power_vs_keeps_the_memory_and_processors_of_its_api() {
    let spec = without("power-vs", &["memoryGiB", "processors", "processorType"]).objects[1]["spec"].clone();
    assert_eq!((&spec["memoryGiB"], &spec["processors"]), (&json!(32), &json!("0.5")));
    let machine = json!({"serviceInstance": {"id": "i"}, "image": {"id": "i"}, "network": {"id": "n"}, "sshKey": "k"});
    let spec = back("power-vs", &machine);
    assert_eq!((&spec["memoryGiB"], &spec["processors"]), (&json!(2), &json!("0.25")));
    let mut dedicated = machine;
    dedicated["processorType"] = json!("Dedicated");
    assert_eq!(back("power-vs", &dedicated)["processors"], 1);
}

#[test]
fn v113_boot_diagnostics_of_azure_stay_off_or_on() {
    let boot = |spec: &Value| spec["diagnostics"]["boot"]["storageAccountType"].clone();
    assert_eq!(boot(&without("azure", &["diagnostics"]).objects[1]["spec"]), "Disabled");
    let machine = |diagnostics: Value| {
        let all = samples();
        let sample = all.iter().find(|sample| sample.platform == "azure").unwrap();
        let there = convert(&sample.machine(&sample.provider_spec), &sample.context());
        let mut spec = there.objects[1]["spec"].clone();
        spec["diagnostics"] = diagnostics;
        spec
    };
    let disabled = json!({"boot": {"storageAccountType": "Disabled"}});
    assert_eq!(boot(&back("azure", &machine(disabled))), Value::Null);
    assert_eq!(boot(&back("azure", &machine(Value::Null))), "AzureManaged");
}

#[test]
fn a_duplicate_tag_is_not_lost() {
    reports(
        "aws",
        &json!({"tags": [{"name": "a", "value": "1"}, {"name": "a", "value": "2"}]}),
        "tags[1].name",
    );
}

#[test]
fn a_second_boot_disk_is_not_lost() {
    let root = json!({"ebs": {"volumeSize": 120}});
    reports("aws", &json!({"blockDevices": [root, root]}), "blockDevices");
    let boot = json!({"boot": true, "autoDelete": true, "image": "i", "sizeGb": 128, "type": "pd-ssd"});
    reports("gcp", &json!({"disks": [boot, boot]}), "disks");
}

#[test]
fn an_unknown_confidential_compute_is_not_lost() {
    let change = json!({"cpuOptions": {"confidentialCompute": "New"}});
    reports("aws", &change, "cpuOptions.confidentialCompute");
}

#[test]
fn unknown_nested_fields_are_not_lost() {
    let device = json!({"blockDevices": [{"ebs": {"volumeSize": 120, "fieldOfTomorrow": 1}}]});
    reports("aws", &device, "blockDevices[0].ebs.fieldOfTomorrow");
    let host = json!({"placement": {"region": "us-east-1", "host": {"affinity": "Tomorrow"}}});
    reports("aws", &host, "placement.host.affinity");
    let spot = json!({"spotMarketOptions": {"fieldOfTomorrow": {"a": 1}}});
    reports("aws", &spot, "spotMarketOptions.fieldOfTomorrow");
}

#[test]
fn an_image_on_a_data_disk_is_not_lost() {
    let boot = json!({"boot": true, "autoDelete": true, "image": "i", "sizeGb": 128, "type": "pd-ssd"});
    let data = json!({"boot": false, "autoDelete": true, "image": "i", "sizeGb": 128, "type": "pd-ssd"});
    reports("gcp", &json!({"disks": [boot, data]}), "disks[1].image");
}

#[test]
fn a_network_of_another_project_is_not_lost() {
    let interface = json!([{"network": "prod-x7k2p-network", "projectID": "other", "subnetwork": "s"}]);
    reports(
        "gcp",
        &json!({"networkInterfaces": interface}),
        "networkInterfaces[0].projectID",
    );
}

#[test]
fn target_pools_are_not_lost() {
    reports("gcp", &json!({"targetPools": ["a"]}), "targetPools");
}

const UUID: &str = "c7938dc6-7659-453e-a688-e26020c68e43";

#[test]
fn the_subnet_of_a_fixed_ip_is_kept() {
    let all = samples();
    let sample = all.iter().find(|sample| sample.platform == "openstack").unwrap();
    let mut spec = sample.provider_spec.clone();
    spec["ports"] = json!([{"networkID": UUID, "fixedIPs": [{"subnetID": UUID, "ipAddress": "10.0.0.1"}],
        "profile": {"capabilities": "[switchdev]"}, "securityGroups": [UUID]}]);
    let (there, back) = super::generated::round_trip(&sample.machine(&spec), &sample.context());
    assert!(back.is_some(), "{:?}", there.issues);
    let port = &there.objects[1]["spec"]["ports"][0];
    assert_eq!(port["fixedIPs"][0]["subnet"]["id"], UUID);
    assert_eq!(port["profile"]["ovsHWOffload"], true);
}

#[test]
fn a_port_tag_of_a_subnet_that_is_no_string_is_an_issue() {
    for tags in [json!(["x", 0.5]), json!("x"), json!({}), json!([null])] {
        let networks = json!([{"uuid": UUID, "subnets": [{"uuid": UUID, "portTags": tags}]}]);
        reports(
            "openstack",
            &json!({"networks": networks}),
            "networks[0].subnets[0].portTags",
        );
    }
    let networks = json!([{"uuid": UUID, "subnets": [{"uuid": UUID, "portTags": ["x"]}, {"uuid": UUID,
        "portTags": ["x", "y"]}]}]);
    let machine = infrastructure("openstack", &json!({"networks": networks}));
    assert_eq!(machine["spec"]["ports"][0]["tags"], json!(["x", "y"]));
}

#[test]
fn an_unknown_port_profile_is_not_lost() {
    let ports = json!([{"networkID": UUID, "profile": {"other": "x"}}]);
    reports("openstack", &json!({"ports": ports}), "ports[0].profile.other");
}

#[test]
fn a_tenant_is_not_lost() {
    let groups = json!([{"name": "a", "filter": {"tenantId": "t"}}]);
    assert_eq!(issues("openstack", &json!({"securityGroups": groups})), [""; 0]);
    let machine = infrastructure("openstack", &json!({"securityGroups": groups}));
    assert_eq!(machine["spec"]["securityGroups"][0]["filter"]["projectID"], "t");
    let groups = json!([{"name": "a", "filter": {"tenantId": "t", "projectId": "p"}}]);
    reports(
        "openstack",
        &json!({"securityGroups": groups}),
        "securityGroups[0].filter.tenantId",
    );
    let ports = json!([{"networkID": UUID, "tenantID": "t"}]);
    reports("openstack", &json!({"ports": ports}), "ports[0].tenantID");
}

#[test]
fn other_credentials_are_not_lost() {
    reports(
        "openstack",
        &json!({"cloudsSecret": {"name": "mine"}}),
        "cloudsSecret.name",
    );
    reports(
        "aws",
        &json!({"credentialsSecret": {"name": "mine"}}),
        "credentialsSecret.name",
    );
}

#[test]
fn user_data_that_is_not_copied_is_an_issue() {
    reports(
        "aws",
        &json!({"userDataSecret": {"name": "mine"}}),
        "userDataSecret.name",
    );
    let sample = aws();
    let mut spec = sample.provider_spec.clone();
    spec["userDataSecret"]["name"] = json!("mine");
    let secrets = [String::from("mine")];
    let context = Context {
        secrets: &secrets,
        ..sample.context()
    };
    assert_eq!(convert(&sample.machine(&spec), &context).issues, []);
}

#[test]
fn no_size_of_a_root_volume_is_invented() {
    let sample = aws();
    let mut spec = sample.provider_spec.clone();
    spec.as_object_mut().unwrap().remove("blockDevices");
    let converted = convert(&sample.machine(&spec), &sample.context());
    assert_eq!(converted.issues, []);
    assert_eq!(converted.objects[1]["spec"].get("rootVolume"), None);
    reports(
        "aws",
        &json!({"blockDevices": [{"ebs": {"encrypted": true}}]}),
        "blockDevices[0].ebs.volumeSize",
    );
}

#[test]
fn min_ready_seconds_of_a_template_is_no_issue() {
    let sample = aws();
    let mut set = sample.set(&sample.provider_spec);
    set["spec"]["minReadySeconds"] = json!(30);
    let (there, back) = super::generated::round_trip(&set, &sample.context());
    assert_eq!(there.objects[0]["spec"]["template"]["spec"]["minReadySeconds"], 30);
    assert_eq!(back.unwrap().objects[0]["spec"]["minReadySeconds"], 30);
}

#[test]
fn resource_groups_that_differ_in_case_only_are_no_issue() {
    assert_eq!(issues("azure", &json!({"resourceGroup": "PROD-X7K2P-RG"})), [""; 0]);
    reports("azure", &json!({"resourceGroup": "other"}), "resourceGroup");
}

#[test]
fn the_role_among_several_and_the_order_of_hooks_are_always_the_same() {
    let sample = aws();
    let mut machine = sample.machine(&sample.provider_spec);
    machine["spec"]["metadata"]["labels"] = json!({"node-role.kubernetes.io/infra": ""});
    let hook = |name: &str| json!({"name": name, "owner": "owner"});
    machine["spec"]["lifecycleHooks"]["preDrain"] = json!([hook("zzz"), hook("bbb"), hook("aaa")]);
    let (there, back) = super::generated::round_trip(&machine, &sample.context());
    let mut edited = there.objects[0].clone();
    edited["metadata"]["annotations"]
        .as_object_mut()
        .unwrap()
        .remove(crate::conversion::CARRIED);
    let context = Context {
        infrastructure_machine: crate::conversion::Lookup::Found(&there.objects[1]),
        ..sample.context()
    };
    for converted in [back.unwrap(), convert(&edited, &context)] {
        let labels = &converted.objects[0]["metadata"]["labels"];
        assert_eq!(labels["machine.openshift.io/cluster-api-machine-role"], "worker");
        let hooks = converted.objects[0]["spec"]["lifecycleHooks"]["preDrain"]
            .as_array()
            .unwrap();
        let names: Vec<&str> = hooks.iter().map(|hook| hook["name"].as_str().unwrap()).collect();
        assert_eq!(names, ["aaa", "bbb", "zzz"]);
    }
}

#[test]
fn a_selector_of_roles_selects_the_same_machines() {
    let sample = aws();
    let mut set = sample.set(&sample.provider_spec);
    set["spec"]["selector"]["matchLabels"] = json!({"machine.openshift.io/cluster-api-machine-role": "worker",
        "machine.openshift.io/cluster-api-machine-type": "worker"});
    let (there, back) = super::generated::round_trip(&set, &sample.context());
    assert_eq!(
        there.objects[0]["spec"]["selector"]["matchLabels"],
        json!({"node-role.kubernetes.io/worker": ""})
    );
    assert_eq!(back.unwrap().objects[0]["spec"]["selector"], set["spec"]["selector"]);
}

#[test]
fn labels_of_machine_and_node_stay_apart_until_the_mirror_is_changed() {
    let sample = aws();
    let mut machine = sample.machine(&sample.provider_spec);
    machine["metadata"]["labels"]["mine"] = json!("machine");
    machine["spec"]["metadata"]["labels"] = json!({"mine": "node", "other": "x"});
    let (there, back) = super::generated::round_trip(&machine, &sample.context());
    assert_eq!(back.unwrap().objects[0]["metadata"]["labels"]["mine"], "machine");
    let mut edited = there.objects[0].clone();
    edited["metadata"]["labels"]["mine"] = json!("edited");
    let context = Context {
        infrastructure_machine: crate::conversion::Lookup::Found(&there.objects[1]),
        ..sample.context()
    };
    let converted = convert(&edited, &context);
    assert_eq!(converted.objects[0]["metadata"]["labels"]["mine"], "edited");
    assert_eq!(converted.objects[0]["spec"]["metadata"]["labels"]["mine"], "edited");
}

fn health_check() -> Value {
    json!({"apiVersion": "machine.openshift.io/v1beta1", "kind": "MachineHealthCheck",
        "metadata": {"name": "workers", "namespace": "openshift-machine-api", "labels":
            {"machine.openshift.io/cluster-api-cluster": "prod-x7k2p"}},
        "spec": {"selector": {"matchLabels": {"machine.openshift.io/cluster-api-machine-role": "worker"}},
            "unhealthyConditions": [{"type": "Ready", "status": "Unknown", "timeout": "300s"}],
            "nodeStartupTimeout": "10m", "maxUnhealthy": "40%"}})
}

#[test]
fn a_health_check_converts_and_fractions_and_namespaces_are_not_lost() {
    let sample = aws();
    let (there, back) = super::generated::round_trip(&health_check(), &sample.context());
    assert_eq!(there.issues, []);
    assert_eq!(back.unwrap().objects[0]["spec"], health_check()["spec"]);
    for (field, value, path) in [
        ("nodeStartupTimeout", json!("1500ms"), "spec.nodeStartupTimeout"),
        (
            "unhealthyConditions",
            json!([{"type": "Ready", "status": "Unknown", "timeout": "0.5s"}]),
            "spec.unhealthyConditions[0].timeout",
        ),
        (
            "remediationTemplate",
            json!({"apiVersion": "a.b/v1", "kind": "T", "name": "t", "namespace": "other"}),
            "spec.remediationTemplate.namespace",
        ),
    ] {
        let mut check = health_check();
        check["spec"][field] = value;
        let found = convert(&check, &sample.context()).issues;
        assert!(
            found.iter().any(|issue| issue.path.as_str() == path),
            "{path}: {found:?}"
        );
    }
}

/// The paths of the issues of the AWSMachine of a sample with changed fields.
fn issues_back(change: &Value) -> Vec<String> {
    let sample = aws();
    let there = convert(&sample.machine(&sample.provider_spec), &sample.context());
    let mut machine = there.objects[1].clone();
    for (field, value) in change.as_object().unwrap() {
        machine["spec"][field] = value.clone();
    }
    let context = Context {
        infrastructure_machine: crate::conversion::Lookup::Found(&machine),
        ..sample.context()
    };
    let back = convert(&there.objects[0], &context);
    let paths = back.issues.iter().map(|issue| issue.path.as_str().to_owned());
    paths.collect()
}

#[test]
fn names_and_addresses_of_a_host_ignition_and_affinity_are_not_lost() {
    assert_eq!(issues_back(&json!({})), [""; 0]);
    for (field, value) in [
        ("privateDnsName", json!({"hostnameType": "ip-name"})),
        ("assignPrimaryIPv6", json!("enabled")),
        ("ignition", json!({"storageType": "ClusterObjectStore"})),
        ("hostAffinity", json!("host")),
        ("hostAffinity", json!("other")),
        ("elasticIpPool", json!({"publicIpv4Pool": "p"})),
        ("capacityReservationPreference", json!("Open")),
    ] {
        let found = issues_back(&json!({ field: value }));
        let path = format!("AWSMachine spec.{field}");
        assert!(found.iter().any(|found| found.starts_with(&path)), "{field}: {found:?}");
    }
}

#[test]
fn a_dual_stack_cluster_sets_names_and_addresses_of_its_hosts() {
    let mut sample = aws();
    sample.infrastructure["status"]["platformStatus"]["aws"]["ipFamily"] = json!("DualStackIPv6Primary");
    let machine = sample.machine(&sample.provider_spec);
    let (there, back) = super::generated::round_trip(&machine, &sample.context());
    assert_eq!(there.objects[1]["spec"]["assignPrimaryIPv6"], "enabled");
    assert_eq!(
        there.objects[1]["spec"]["privateDnsName"]["hostnameType"],
        "resource-name"
    );
    assert!(back.is_some());
}

/// The machine of a platform in Cluster API, with a change of its spec, on the way back.
fn issues_of_machine_back(change: &Value) -> Vec<String> {
    let sample = aws();
    let there = convert(&sample.machine(&sample.provider_spec), &sample.context());
    let mut machine = there.objects[0].clone();
    for (field, value) in change.as_object().unwrap() {
        machine["spec"][field] = value.clone();
    }
    let context = Context {
        infrastructure_machine: Lookup::Found(&there.objects[1]),
        ..sample.context()
    };
    let issues = convert(&machine, &context).issues;
    issues.iter().map(|issue| issue.path.as_str().to_owned()).collect()
}

#[test]
fn v21_bootstrap_data_that_is_not_copied_is_an_issue_on_the_way_to_the_machine_api() {
    let change = json!({"bootstrap": {"dataSecretName": "other"}});
    assert_eq!(issues_of_machine_back(&change), ["spec.bootstrap.dataSecretName"]);
    let change =
        json!({"bootstrap": {"dataSecretName": "other"}, "providerID": "aws:///us-east-1a/i-0123456789abcdef0"});
    assert_eq!(issues_of_machine_back(&change), [""; 0], "a machine that runs");
}

#[test]
fn v22_a_reference_to_infrastructure_of_another_group_is_not_lost() {
    let change = json!({"infrastructureRef": {"apiGroup": "example.com", "kind": "AWSMachine", "name": "a"}});
    assert_eq!(issues_of_machine_back(&change), ["spec.infrastructureRef.apiGroup"]);
}

#[test]
fn v25_a_server_that_only_the_cluster_sets_gives_the_same_template_in_every_round_trip() {
    let all = samples();
    let sample = all.iter().find(|sample| sample.platform == "vsphere").unwrap();
    let mut provider_spec = sample.provider_spec.clone();
    provider_spec["workspace"].as_object_mut().unwrap().remove("server");
    let there = convert(&sample.set(&provider_spec), &sample.context());
    assert_eq!(there.issues, []);
    let context = Context {
        infrastructure_machine: Lookup::Found(&there.objects[1]),
        ..sample.context()
    };
    let back = convert(&there.objects[0], &context);
    let again = convert(&back.objects[0], &sample.context());
    assert_eq!(again.objects, there.objects);
}

#[test]
fn v24_a_label_that_an_api_server_refuses_is_not_computed() {
    let all = samples();
    let sample = all.iter().find(|sample| sample.platform == "openstack").unwrap();
    let mut provider_spec = sample.provider_spec.clone();
    provider_spec["flavor"] = json!("8 cores (large)");
    let there = convert(&sample.machine(&provider_spec), &sample.context());
    let context = Context {
        infrastructure_machine: Lookup::Found(&there.objects[1]),
        ..sample.context()
    };
    let back = convert(&there.objects[0], &context);
    assert_eq!(back.issues, []);
    let labels = back.objects[0]["metadata"]["labels"].as_object().unwrap();
    assert!(!labels.contains_key("machine.openshift.io/instance-type"), "{labels:?}");
}

#[test]
fn v23_an_image_id_of_azure_without_a_slash_does_not_become_an_id_of_another_resource() {
    let image = json!({"image": {"resourceID": "x", "publisher": "", "offer": "", "sku": "", "version": ""}});
    reports("azure", &image, "image.resourceID");
}

#[test]
fn v26_a_hook_beyond_the_limits_of_the_machine_api_is_an_issue() {
    let sample = aws();
    for (name, owner, field) in [
        ("ab", "owner", "name"),
        ("name", "me", "owner"),
        ("name", &"x".repeat(513), "owner"),
    ] {
        let mut machine = sample.machine(&sample.provider_spec);
        machine["spec"]["lifecycleHooks"]["preDrain"] = json!([{"name": name, "owner": owner}]);
        let issues = convert(&machine, &sample.context()).issues;
        assert_eq!(issues.len(), 1, "{name} {owner}");
        let path = format!("spec.lifecycleHooks.preDrain[0].{field}");
        assert_eq!(issues[0].path.as_str(), path);
    }
}

/// The CRD of Cluster API refuses it. A file may contain it.
#[test]
fn v27_metadata_of_a_server_that_is_too_long_is_an_issue_in_both_directions() {
    let long = "x".repeat(256);
    reports("openstack", &json!({"serverMetadata": {"a": long}}), "serverMetadata");
    let all = samples();
    let sample = all.iter().find(|sample| sample.platform == "openstack").unwrap();
    let there = convert(&sample.machine(&sample.provider_spec), &sample.context());
    let mut infrastructure = there.objects[1].clone();
    infrastructure["spec"]["serverMetadata"] = json!([{"key": "a", "value": long}]);
    let context = Context {
        infrastructure_machine: Lookup::Found(&infrastructure),
        ..sample.context()
    };
    let issues = convert(&there.objects[0], &context).issues;
    let paths: Vec<&str> = issues.iter().map(|issue| issue.path.as_str()).collect();
    assert_eq!(paths, ["OpenStackMachine spec.serverMetadata"], "{issues:?}");
}

/// The way back has no such profile, so that a second conversion gave another template, whose name
/// follows from its content.
#[test]
fn v39_a_port_that_is_not_trusted_is_converted_like_one_without_the_field() {
    let port =
        |profile: &Value| infrastructure("openstack", &json!({"ports": [{"networkID": "n", "profile": profile}]}));
    assert_eq!(port(&json!({"trusted": "false"})), port(&Value::Null));
    assert_ne!(port(&json!({"trusted": "true"})), port(&Value::Null));
}
