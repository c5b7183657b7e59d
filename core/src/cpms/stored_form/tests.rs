use serde_json::json;

use super::*;
use crate::cpms::changes::{Comparison, changes};
use crate::cpms::domains::{self, FailureDomain};

const COMPARISONS: [Comparison; 4] = [
    Comparison {
        domains: true,
        images: false,
    },
    Comparison {
        domains: true,
        images: true,
    },
    Comparison {
        domains: false,
        images: false,
    },
    Comparison {
        domains: false,
        images: true,
    },
];

fn assert_no_change(case: &str, sent: &Value, stored: &Value) {
    for comparison in COMPARISONS {
        let found: Vec<String> = changes(sent, stored, comparison)
            .iter()
            .map(ToString::to_string)
            .collect();
        assert_eq!(found, [""; 0], "{case}: {comparison:?}");
    }
}

/// The recorded pairs of sent and stored provider specs.
fn pairs() -> Vec<Value> {
    let text = include_str!("../../../../tests/fixtures/machine-webhook-pairs.jsonl");
    text.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

#[test]
fn s1_a_machine_that_the_webhook_stored_has_no_change_against_what_was_sent() {
    let pairs = pairs();
    assert!(pairs.len() >= 25);
    for pair in pairs {
        let case = format!("{} {}", pair["platform"], pair["case"]);
        assert_no_change(&case, &pair["sent"], &pair["stored"]);
        // What was stored is sent again.
        assert_no_change(&case, &pair["stored"], &pair["stored"]);
    }
}

#[test]
fn s1_every_template_of_the_defects_has_no_change_against_what_is_stored() {
    let azure = |disks: Value| json!({"kind": "AzureMachineProviderSpec", "vmSize": "x", "dataDisks": disks});
    for (sent, stored) in [
        (
            azure(json!([{"nameSuffix": "a", "diskSizeGB": 4, "deletionPolicy": "Delete"}])),
            azure(
                json!([{"nameSuffix": "a", "diskSizeGB": 4, "deletionPolicy": "Delete", "lun": 0,
                "managedDisk": {"storageAccountType": ""}}]),
            ),
        ),
        (
            json!({"kind": "GCPMachineProviderSpec", "preemptible": false, "disks": [{"boot": true, "sizeGb": 128}],
                "networkInterfaces": [{"network": "n", "publicIP": false}]}),
            json!({"kind": "GCPMachineProviderSpec", "machineType": "n1-standard-4", "tags": ["x-worker"],
                "disks": [{"autoDelete": false, "boot": true, "sizeGb": 128, "type": "pd-standard", "image": "i", "labels": null}],
                "networkInterfaces": [{"network": "n"}], "serviceAccounts": null, "shieldedInstanceConfig": {},
                "canIPForward": false, "deletionProtection": false, "region": "", "zone": ""}),
        ),
        (
            json!({"kind": "GCPMachineProviderSpec"}),
            json!({"kind": "GCPMachineProviderSpec", "machineType": "n1-standard-4", "tags": ["x-worker"],
                "disks": [{"autoDelete": true, "boot": true, "sizeGb": 128, "type": "pd-standard", "image": "i", "labels": null}],
                "networkInterfaces": [{"network": "x-network", "subnetwork": "x-worker-subnet"}],
                "userDataSecret": {"name": "worker-user-data"}, "credentialsSecret": {"name": "gcp-cloud-credentials"}}),
        ),
        (
            json!({"kind": "PowerVSMachineProviderConfig", "processorType": "Dedicated"}),
            json!({"kind": "PowerVSMachineProviderConfig", "processorType": "Dedicated", "processors": 1, "memoryGiB": 32,
                "systemType": "s922", "userDataSecret": {"name": "worker-user-data"},
                "credentialsSecret": {"name": "powervs-credentials"}}),
        ),
        (
            json!({"kind": "AWSMachineProviderConfig", "InstanceType": "m6i.large"}),
            json!({"kind": "AWSMachineProviderConfig", "instanceType": "m6i.large", "placement": {"region": "us-east-1"}}),
        ),
    ] {
        assert_no_change(&sent.to_string(), &sent, &stored);
    }
}

#[test]
fn a_field_that_the_template_sets_or_no_longer_sets_is_a_change() {
    let plain = Comparison {
        domains: true,
        images: true,
    };
    for (kind, template, machine, field) in [
        (
            "AWSMachineProviderConfig",
            json!({}),
            json!({"instanceType": "m6i.large"}),
            "instanceType",
        ),
        (
            "AWSMachineProviderConfig",
            json!({"placement": {"region": "a"}}),
            json!({"placement": {"region": "b"}}),
            "placement.region",
        ),
        (
            "AWSMachineProviderConfig",
            json!({"userDataSecret": {"name": "master-user-data"}}),
            json!({"userDataSecret": {"name": "worker-user-data"}}),
            "userDataSecret.name",
        ),
        (
            "AWSMachineProviderConfig",
            json!({"spotMarketOptions": {}}),
            json!({}),
            "spotMarketOptions",
        ),
        (
            "AWSMachineProviderConfig",
            json!({"publicIp": false}),
            json!({}),
            "publicIp",
        ),
        (
            "AzureMachineProviderSpec",
            json!({"vnet": "x-vnet"}),
            json!({"vnet": "y-vnet"}),
            "vnet",
        ),
        (
            "AzureMachineProviderSpec",
            json!({"image": {"resourceID": "a"}}),
            json!({"image": {"resourceID": "b"}}),
            "image.resourceID",
        ),
        (
            "GCPMachineProviderSpec",
            json!({"disks": [{"autoDelete": true}]}),
            json!({"disks": [{}]}),
            "disks[0].autoDelete",
        ),
        (
            "GCPMachineProviderSpec",
            json!({}),
            json!({"tags": ["x-worker", "y"]}),
            "tags",
        ),
        (
            "PowerVSMachineProviderConfig",
            json!({"processors": "2"}),
            json!({"processors": "0.5"}),
            "processors",
        ),
        (
            "NutanixMachineProviderConfig",
            json!({"memorySize": "16Gi"}),
            json!({"memorySize": "8192Mi"}),
            "memorySize",
        ),
    ] {
        let of_kind = |mut value: Value| {
            value["kind"] = json!(kind);
            value
        };
        let found = changes(&of_kind(template), &of_kind(machine), plain);
        let fields: Vec<&str> = found.iter().map(|change| change.field.as_str()).collect();
        assert_eq!(fields, [field]);
    }
}

/// A vSphere template, the machine that is made of it in a failure domain, and whether it has no
/// change.
fn is_current_on_vsphere(devices: &Value, networks: &[&str]) -> bool {
    let infrastructure = json!({
        "spec": {"platformSpec": {"vsphere": {"failureDomains": [{"name": "a", "region": "r", "zone": "z", "server": "vc",
            "topology": {"computeCluster": "/dc/host/c", "datacenter": "dc", "datastore": "/dc/datastore/d",
                "networks": networks}}]}}},
        "status": {"infrastructureName": "x"}});
    let infrastructure = serde_json::from_value(infrastructure).unwrap();
    let template = json!({"kind": "VSphereMachineProviderSpec", "network": {"devices": devices}, "template": "t"});
    let domain = FailureDomain::new(Platform::VSphere, json!({"name": "a"}));
    let machine = domains::inject(&template, &domain, Some(&infrastructure)).unwrap();
    assert_eq!(domains::extract(&machine, Some(&infrastructure)), Some(domain));
    changes(&template, &machine, COMPARISONS[0]).is_empty()
}

#[test]
fn s2_addresses_and_devices_that_a_failure_domain_does_not_take_over_are_no_change() {
    let pool = json!([{"group": "ipam", "resource": "pools", "name": "p"}]);
    for devices in [
        json!([{"networkName": "n", "ipAddrs": ["192.168.1.10/24"], "nameservers": ["192.168.1.1"], "gateway": "192.168.1.1"}]),
        json!([{"networkName": "n"}, {"networkName": "m"}]),
        json!([{"networkName": "n"}, {"networkName": "m", "addressesFromPools": pool}]),
        json!([{"networkName": "n", "addressesFromPools": pool, "nameservers": ["1.1.1.1"]}]),
        json!([{"addressesFromPools": pool}, {"addressesFromPools": pool, "nameservers": ["1.1.1.1"]}, {"networkName": "o"}]),
        json!([]),
        Value::Null,
    ] {
        for networks in [&["n"][..], &["n", "m"], &["n", "m", "o", "p"]] {
            assert!(is_current_on_vsphere(&devices, networks), "{devices} {networks:?}");
        }
    }
}
