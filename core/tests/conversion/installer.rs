//! Machines of the control plane as an installer makes them, and what they carry along.

use serde_json::{Value, json};

use super::generated::round_trip;
use super::samples::{Sample, samples};
use crate::conversion::{CARRIED, Context, Converted, Lookup, Role, convert};

const SECRETS: [&str; 1] = ["master-user-data-managed"];
const UUID: &str = "c7938dc6-7659-453e-a688-e26020c68e43";
const INSTANCE: &str = "gce://my-project/us-central1-a/prod-x7k2p-master-0";

fn sample(platform: &str) -> Sample {
    samples()
        .into_iter()
        .find(|sample| sample.platform == platform)
        .unwrap()
}

/// The sample of a platform as the installer makes it for the control plane.
fn master(platform: &str) -> Sample {
    let mut sample = sample(platform);
    let user_data = if platform == "bare-metal" {
        "userData"
    } else {
        "userDataSecret"
    };
    sample.provider_spec[user_data]["name"] = json!("master-user-data");
    let (spec, cluster) = (&mut sample.provider_spec, &mut sample.cluster["spec"]);
    let balancer = |suffix: &str, kind: &str| json!({"name": format!("prod-x7k2p-{suffix}"), "type": kind});
    match platform {
        "aws" => {
            spec["loadBalancers"] = json!([balancer("int", "network"), balancer("ext", "network")]);
            cluster["controlPlaneLoadBalancer"] = json!({"name": "prod-x7k2p-int", "loadBalancerType": "nlb"});
            cluster["secondaryControlPlaneLoadBalancer"] = json!({"name": "prod-x7k2p-ext", "loadBalancerType": "nlb"});
        }
        "azure" => spec["internalLoadBalancer"] = json!("prod-x7k2p-internal"),
        "bare-metal" => spec["userData"]["name"] = json!("master-user-data-managed"),
        "gcp" => spec["targetPools"] = json!(["prod-x7k2p-api"]),
        "ibm-vpc" => {
            spec["loadBalancers"] = json!([balancer("kubernetes-api-private", "Application")]);
            cluster["controlPlaneLoadBalancer"] = json!({"name": "prod-x7k2p-kubernetes-api-private"});
        }
        "openstack" => {
            spec.as_object_mut().unwrap().remove("image");
            spec["rootVolume"] = json!({"diskSize": 100, "volumeType": "fast", "sourceUUID": "prod-x7k2p-rhcos",
                "sourceType": "image"});
            spec["primarySubnet"] = json!(UUID);
            spec["networks"] = json!([{"filter": {}, "subnets": [{"filter": {"name": "prod-x7k2p-nodes"}}]},
                {"uuid": UUID, "noAllowedAddressPairs": true}]);
        }
        "power-vs" => {
            spec["loadBalancers"] = json!([
                balancer("loadbalancer-int", "Application"),
                balancer("loadbalancer", "Application")
            ]);
            cluster["loadBalancers"] = json!([{"name": "prod-x7k2p-loadbalancer", "public": true},
                {"name": "prod-x7k2p-loadbalancer-int", "public": false}]);
        }
        _ => {}
    }
    sample
}

/// The Machine of a sample, with the labels of the control plane.
fn machine(sample: &Sample) -> Value {
    let mut machine = sample.machine(&sample.provider_spec);
    for label in ["role", "type"] {
        machine["metadata"]["labels"][format!("machine.openshift.io/cluster-api-machine-{label}")] = json!("master");
    }
    if sample.platform == "gcp" {
        machine["spec"]["providerID"] = json!(INSTANCE);
    }
    machine
}

fn with_context<T>(sample: &Sample, secrets: &[String], work: impl FnOnce(&Context<'_>) -> T) -> T {
    work(&Context {
        role: Some(Role::ControlPlane),
        secrets,
        ..sample.context()
    })
}

#[test]
fn a_machine_of_the_control_plane_as_an_installer_makes_it_converts_without_loss_both_ways() {
    let secrets = SECRETS.map(str::to_owned);
    for sample in samples() {
        let sample = master(sample.platform);
        let machine = machine(&sample);
        with_context(&sample, &secrets, |context| {
            let (there, back) = round_trip(&machine, context);
            assert_eq!(there.issues, [], "{}", sample.platform);
            let again = convert(&back.unwrap().objects[0], context);
            assert_eq!(again.objects, there.objects, "{}: a second round trip", sample.platform);
        });
    }
}

#[test]
fn a_secret_of_the_machine_config_operator_must_be_copied() {
    let sample = master("bare-metal");
    let machine = machine(&sample);
    let found = with_context(&sample, &[], |context| convert(&machine, context));
    assert_eq!(paths(&found), ["spec.providerSpec.value.userData.name"]);
}

fn paths(converted: &Converted) -> Vec<String> {
    let paths = converted.issues.iter().map(|issue| issue.path.as_str().to_owned());
    paths.collect()
}

/// Converts a control plane machine, changes the result, and converts it back.
fn back_after(sample: &Sample, machine: &Value, edit: impl FnOnce(&mut Value, &mut Value)) -> Value {
    with_context(sample, &[], |context| {
        let there = convert(machine, context);
        assert_eq!(there.issues, []);
        let [mut object, mut infrastructure] = <[Value; 2]>::try_from(there.objects).unwrap();
        edit(&mut object, &mut infrastructure);
        let context = Context {
            infrastructure_machine: Lookup::Found(&infrastructure),
            ..*context
        };
        let back = convert(&object, &context);
        assert_eq!(back.issues, []);
        back.objects[0]["spec"]["providerSpec"]["value"].clone()
    })
}

#[test]
fn target_pools_of_an_instance_that_exists_are_carried_and_others_are_an_issue() {
    let sample = master("gcp");
    let running = machine(&sample);
    let restored = back_after(&sample, &running, |_, _| {});
    assert_eq!(restored["targetPools"], json!(["prod-x7k2p-api"]));
    let other = back_after(&sample, &running, |object, infrastructure| {
        let other = json!("gce://my-project/us-central1-a/another");
        object["spec"]["providerID"] = other.clone();
        infrastructure["spec"]["providerID"] = other;
    });
    assert_eq!(other.get("targetPools"), None);
    let mut new = running.clone();
    new["spec"].as_object_mut().unwrap().remove("providerID");
    let found = with_context(&sample, &[], |context| convert(&new, context));
    assert_eq!(paths(&found), ["spec.providerSpec.value.targetPools"]);
    let worker = convert(&running, &sample.context());
    assert_eq!(paths(&worker), ["spec.providerSpec.value.targetPools"]);
}

#[test]
fn the_primary_subnet_is_carried_while_the_ports_are_the_same() {
    let sample = master("openstack");
    let machine = machine(&sample);
    let restored = back_after(&sample, &machine, |_, _| {});
    assert_eq!(restored["primarySubnet"], UUID);
    let changed = back_after(&sample, &machine, |_, infrastructure| {
        infrastructure["spec"]["ports"][0]["fixedIPs"][0]["subnet"]["filter"]["name"] = json!("other");
    });
    assert_eq!(changed.get("primarySubnet"), None);
}

#[test]
fn the_image_of_a_root_volume_comes_back_where_it_was() {
    let sample = master("openstack");
    let machine = machine(&sample);
    let restored = back_after(&sample, &machine, |_, infrastructure| {
        assert_eq!(infrastructure["spec"]["image"]["filter"]["name"], "prod-x7k2p-rhcos");
    });
    assert_eq!(restored["rootVolume"]["sourceUUID"], "prod-x7k2p-rhcos");
    assert_eq!(restored.get("image"), None);
    let changed = back_after(&sample, &machine, |_, infrastructure| {
        infrastructure["spec"]["image"]["filter"]["name"] = json!("new");
    });
    assert_eq!(changed["image"], "new");
    let mut other = machine;
    other["spec"]["providerSpec"]["value"]["image"] = json!("another");
    let found = with_context(&sample, &[], |context| convert(&other, context));
    let expected = ["sourceType", "sourceUUID"].map(|field| format!("spec.providerSpec.value.rootVolume.{field}"));
    assert_eq!(paths(&found), expected);
}

#[test]
fn a_network_without_allowed_address_pairs_has_none_in_cluster_api() {
    let sample = master("openstack");
    let machine = machine(&sample);
    let restored = back_after(&sample, &machine, |_, infrastructure| {
        assert_eq!(infrastructure["spec"]["ports"][0].get("allowedAddressPairs"), None);
        assert_eq!(infrastructure["spec"]["ports"][1]["allowedAddressPairs"], json!([]));
    });
    assert_eq!(restored["networks"][1]["noAllowedAddressPairs"], true);
    assert_eq!(restored["networks"][0].get("noAllowedAddressPairs"), None);
}

#[test]
fn load_balancers_that_the_infrastructure_cluster_does_not_have_are_an_issue() {
    for platform in ["ibm-vpc", "power-vs"] {
        let mut sample = master(platform);
        let machine = machine(&sample);
        sample.cluster["spec"]["loadBalancers"] = json!([{"name": "another"}]);
        sample.cluster["spec"]["controlPlaneLoadBalancer"] = json!({"name": "another"});
        let found = with_context(&sample, &[], |context| convert(&machine, context));
        let field = "spec.providerSpec.value.loadBalancers";
        let found = paths(&found);
        assert!(
            found.contains(&format!("{field}[0].name")) && found.contains(&field.to_owned()),
            "{found:?}"
        );
        sample.cluster["spec"]["loadBalancers"] = json!([{"id": "r006-1"}]);
        sample.cluster["spec"]["controlPlaneLoadBalancer"] = json!({"id": "r006-1"});
        let found = paths(&with_context(&sample, &[], |context| convert(&machine, context)));
        assert!(
            found[0].contains("oadBalancer") && found[0].starts_with("IBM"),
            "{found:?}"
        );
    }
}

/// An AWSMachine with other settings of Ignition, converted to the Machine API and back.
fn ignition(settings: Value) -> (Converted, Option<Value>) {
    let sample = sample("aws");
    let there = convert(&sample.machine(&sample.provider_spec), &sample.context());
    let mut infrastructure = there.objects[1].clone();
    infrastructure["spec"]["ignition"] = settings;
    let context = Context {
        infrastructure_machine: Lookup::Found(&infrastructure),
        ..sample.context()
    };
    let back = convert(&there.objects[0], &context);
    if !back.issues.is_empty() {
        return (back, None);
    }
    let again = convert(&back.objects[0], &sample.context());
    let settings = again.objects[1]["spec"].get("ignition").cloned().unwrap_or_default();
    (back, Some(settings))
}

#[test]
fn settings_of_ignition_come_back_as_they_were() {
    let written = json!({"storageType": "UnencryptedUserData"});
    let (plain, settings) = ignition(written.clone());
    assert_eq!(settings, Some(written.clone()));
    assert_eq!(plain.objects[0]["metadata"]["annotations"].get(CARRIED), None);
    // The CRD of Cluster API adds the version.
    let (_, settings) = ignition(json!({"storageType": "UnencryptedUserData", "version": "2.3"}));
    assert_eq!(settings, Some(written));
    let (_, absent) = ignition(Value::Null);
    assert_eq!(absent, Some(Value::Null));
    let version = json!({"storageType": "UnencryptedUserData", "version": "3.4"});
    assert_eq!(ignition(version.clone()).1, Some(version));
    let (stored, _) = ignition(json!({"storageType": "ClusterObjectStore", "version": "3.4"}));
    assert_eq!(paths(&stored), ["AWSMachine spec.ignition.storageType"]);
}

#[test]
fn the_version_of_a_provider_spec_is_known() {
    for platform in samples() {
        let spec = "spec.providerSpec.value.apiVersion";
        for (version, expected) in [
            (json!("machine.openshift.io/v9"), vec![spec]),
            (json!("zzqx"), vec![spec]),
            (json!(7), vec![spec]),
            (json!({}), vec![spec]),
            (json!(""), vec![]),
            (Value::Null, vec![]),
        ] {
            let mut changed = platform.provider_spec.clone();
            changed["apiVersion"] = version;
            let found = convert(&platform.machine(&changed), &platform.context());
            assert_eq!(paths(&found), expected, "{}", platform.platform);
        }
    }
    let aws = sample("aws");
    let mut former = aws.provider_spec.clone();
    former["apiVersion"] = json!("awsproviderconfig.openshift.io/v1beta1");
    assert_eq!(convert(&aws.machine(&former), &aws.context()).issues, []);
}

#[test]
fn a_worker_that_azure_would_add_to_a_load_balancer_is_an_issue() {
    let azure = sample("azure");
    let mut spec = azure.provider_spec.clone();
    spec.as_object_mut().unwrap().remove("publicLoadBalancer");
    let found = convert(&azure.machine(&spec), &azure.context());
    assert_eq!(paths(&found), ["spec.providerSpec.value.publicLoadBalancer"]);
}

/// The paths of the issues of an infrastructure machine with a changed field.
fn issues_back(platform: &str, field: &str, value: Value) -> Vec<String> {
    let sample = sample(platform);
    let there = convert(&sample.machine(&sample.provider_spec), &sample.context());
    let mut infrastructure = there.objects[1].clone();
    infrastructure["spec"][field] = value;
    let context = Context {
        infrastructure_machine: Lookup::Found(&infrastructure),
        ..sample.context()
    };
    paths(&convert(&there.objects[0], &context))
}

#[test]
fn security_groups_that_the_way_back_would_refuse_are_an_issue() {
    let interface = json!({"subnet": "s", "securityGroups": [{"name": ""}]});
    let found = issues_back("ibm-vpc", "primaryNetworkInterface", interface);
    assert_eq!(found, ["IBMVPCMachine spec.primaryNetworkInterface.securityGroups"]);
    let ports = json!([{"network": {"id": UUID}, "securityGroups": [{"id": "no-uuid"}]}]);
    assert_eq!(
        issues_back("openstack", "ports", ports),
        ["OpenStackMachine spec.ports[0].securityGroups[0]"]
    );
}

#[test]
fn an_unknown_type_of_an_encryption_key_is_an_issue() {
    let key = json!({"keyType": "Tomorrow", "managedKey":
        {"kmsKeyName": "projects/p/locations/global/keyRings/r/cryptoKeys/k"}});
    let found = issues_back("gcp", "rootDiskEncryptionKey", key);
    assert_eq!(found, ["GCPMachine spec.rootDiskEncryptionKey.keyType"]);
}
