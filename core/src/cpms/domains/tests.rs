//! Failure domains of the six platforms, with provider specs of real clusters.

use serde_json::json;

use super::*;

pub(in crate::cpms) fn infrastructure() -> Infrastructure {
    serde_json::from_value(json!({
        "apiVersion": "config.openshift.io/v1", "kind": "Infrastructure", "metadata": {"name": "cluster"},
        "spec": {"platformSpec": {
            "vsphere": {"failureDomains": [
                {"name": "east-1", "region": "east", "zone": "1", "server": "vc.example",
                 "topology": {"computeCluster": "/dc1/host/c1", "datacenter": "dc1", "datastore": "/dc1/datastore/d1",
                              "networks": ["net-1"]}},
                {"name": "east-2", "region": "east", "zone": "2", "server": "vc.example",
                 "zoneAffinity": {"type": "HostGroup", "hostGroup": {"vmGroup": "g2", "hostGroup": "h2"}},
                 "topology": {"computeCluster": "/dc1/host/c2", "datacenter": "dc1", "datastore": "/dc1/datastore/d2",
                              "networks": ["net-2", "net-3"], "resourcePool": "/dc1/host/c2/Resources/masters",
                              "folder": "/dc1/vm/masters", "template": "/dc1/vm/images/rhcos-2"}}]},
            "nutanix": {"failureDomains": [
                {"name": "pe-1", "cluster": {"type": "UUID", "uuid": "0006-1"},
                 "subnets": [{"type": "Name", "name": "net-a"}]}]}}},
        "status": {"infrastructureName": "ocp-x7k2p", "platformStatus": {"type": "VSphere"}}
    }))
    .unwrap()
}

fn aws() -> Value {
    json!({"apiVersion": "machine.openshift.io/v1beta1", "kind": "AWSMachineProviderConfig",
        "ami": {"id": "ami-0123"}, "blockDevices": [{"ebs": {"volumeSize": 120, "volumeType": "gp3"}}],
        "credentialsSecret": {"name": "aws-cloud-credentials"}, "deviceIndex": 0,
        "iamInstanceProfile": {"id": "ocp-x7k2p-master-profile"}, "instanceType": "m6i.xlarge",
        "placement": {"availabilityZone": "us-east-1a", "region": "us-east-1"},
        "subnet": {"filters": [{"name": "tag:Name", "values": ["ocp-x7k2p-private-us-east-1a"]}]},
        "userDataSecret": {"name": "master-user-data"}})
}

fn vsphere() -> Value {
    json!({"kind": "VSphereMachineProviderSpec", "numCPUs": 8, "memoryMiB": 16384, "diskGiB": 120,
        "template": "ocp-x7k2p-rhcos-east-1", "network": {"devices": [{"networkName": "net-1"}]},
        "workspace": {"server": "vc.example", "datacenter": "dc1", "datastore": "/dc1/datastore/d1",
                      "resourcePool": "/dc1/host/c1//Resources/", "folder": "/dc1/vm/ocp-x7k2p"}})
}

#[test]
fn a_platform_is_found_by_its_name_and_by_the_kind_of_its_provider_spec() {
    for platform in Platform::ALL {
        assert_eq!(Platform::from_name(platform.name()), Some(platform));
        assert_eq!(Platform::from_kind(platform.kind()), Some(platform));
    }
    assert_eq!(Platform::from_kind("BareMetalMachineProviderSpec"), None);
    assert_eq!(Platform::from_name(""), None);
}

#[test]
fn the_list_of_a_set_is_the_list_of_its_platform() {
    let domains: FailureDomains = serde_json::from_value(json!({"platform": "Azure",
        "azure": [{"zone": "1"}, {"zone": "2", "subnet": "masters"}], "aws": [{"placement": {"availabilityZone": "a"}}]}))
    .unwrap();
    let labels: Vec<String> = list(&domains).iter().map(FailureDomain::label).collect();
    assert_eq!(labels, ["1", "2/masters"]);
    assert!(list(&FailureDomains::default()).is_empty());
}

#[test]
fn an_injected_domain_is_extracted_again_on_every_platform() {
    let infrastructure = infrastructure();
    let cases = [
        (
            aws(),
            json!({"placement": {"availabilityZone": "us-east-1b"}, "subnet": {"type": "ID", "id": "subnet-1"}}),
        ),
        (
            aws(),
            json!({"placement": {"availabilityZone": "us-east-1b"}, "subnet": {"type": "ARN", "arn": "arn:x"}}),
        ),
        (
            json!({"kind": "AzureMachineProviderSpec", "subnet": "s", "vmSize": "D8s"}),
            json!({"zone": "2", "subnet": "t"}),
        ),
        (
            json!({"kind": "GCPMachineProviderSpec", "zone": "us-central1-a"}),
            json!({"zone": "us-central1-f"}),
        ),
        (
            json!({"kind": "OpenstackProviderSpec", "flavor": "m1", "rootVolume": {"diskSize": 30, "volumeType": "slow"}}),
            json!({"availabilityZone": "nova1", "rootVolume": {"availabilityZone": "cinder1", "volumeType": "fast"}}),
        ),
        (vsphere(), json!({"name": "east-2"})),
        (
            json!({"kind": "NutanixMachineProviderConfig", "vcpusPerSocket": 4}),
            json!({"name": "pe-1"}),
        ),
    ];
    for (template, entry) in cases {
        let platform = Platform::of(&template).unwrap();
        let domain = FailureDomain::new(platform, entry.clone());
        let spec = inject(&template, &domain, Some(&infrastructure)).unwrap();
        let found = extract(&spec, Some(&infrastructure)).unwrap();
        assert_eq!(found, domain, "{platform}");
        assert_eq!(found.entry(), &entry, "{platform}");
        assert_eq!(
            strip(&spec),
            strip(&template),
            "{platform}: the rest must be equal to the template"
        );
    }
}

#[test]
fn an_aws_subnet_is_replaced_as_a_whole() {
    let domain = FailureDomain::new(
        Platform::Aws,
        json!({"placement": {"availabilityZone": "us-east-1b"}, "subnet": {"type": "ID", "id": "subnet-1"}}),
    );
    let spec = inject(&aws(), &domain, None).unwrap();
    assert_eq!(spec["subnet"], json!({"id": "subnet-1"}));
    assert_eq!(
        spec["placement"],
        json!({"availabilityZone": "us-east-1b", "region": "us-east-1"})
    );
    assert_eq!(domain.label(), "us-east-1b/subnet-1");
}

#[test]
fn the_id_of_a_subnet_has_precedence_over_other_references() {
    let spec = json!({"kind": "AWSMachineProviderConfig", "subnet": {"arn": "arn:x", "id": "subnet-1",
        "filters": [{"name": "tag:Name", "values": ["n"]}]}});
    assert_eq!(extract(&spec, None).unwrap().label(), "subnet-1");
}

#[test]
fn filters_in_another_order_are_the_same_subnet() {
    let domain = |filters: Value| {
        FailureDomain::new(
            Platform::Aws,
            json!({"subnet": {"type": "Filters", "filters": filters}}),
        )
    };
    let left = domain(json!([{"name": "a", "values": ["1", "2"]}, {"name": "b", "values": ["3"]}]));
    let right = domain(json!([{"values": ["3"], "name": "b"}, {"name": "a", "values": ["2", "1"]}]));
    assert_eq!(left, right);
    assert_eq!(left.label(), "1,2,3");
}

#[test]
fn a_domain_is_completed_with_the_values_of_the_template() {
    let only_subnet = FailureDomain::new(
        Platform::Aws,
        json!({"subnet": {"type": "Filters", "filters": [{"name": "tag:Name", "values": ["ocp-x7k2p-private-us-east-1a"]}]}}),
    );
    let complete = complete(&only_subnet, &aws());
    assert_eq!(Some(&complete), extract(&aws(), None).as_ref());
    assert_eq!(
        complete.entry(),
        only_subnet.entry(),
        "the entry of the set must be printed"
    );
    let azure = FailureDomain::new(Platform::Azure, json!({"zone": "1"}));
    let template = json!({"kind": "AzureMachineProviderSpec", "zone": "3", "subnet": "masters"});
    let azure = super::complete(&azure, &template);
    assert_eq!(azure.full(), &json!({"zone": "1", "subnet": "masters"}));
    assert_eq!(azure.label(), "1");
}

#[test]
fn an_openstack_root_volume_is_removed_if_the_template_has_none() {
    let entry = json!({"availabilityZone": "n1", "rootVolume": {"availabilityZone": "c1", "volumeType": "fast"}});
    let domain = FailureDomain::new(Platform::OpenStack, entry);
    let template = json!({"kind": "OpenstackProviderSpec", "flavor": "m1"});
    let spec = inject(&template, &domain, None).unwrap();
    assert_eq!(
        spec,
        json!({"kind": "OpenstackProviderSpec", "flavor": "m1", "availabilityZone": "n1"})
    );
    assert_eq!(extract(&spec, None).as_ref(), Some(&complete(&domain, &template)));
    let empty = json!({"kind": "OpenstackProviderSpec", "rootVolume": {"availabilityZone": "", "volumeType": ""}});
    assert_eq!(extract(&empty, None), None);
}

#[test]
fn a_vsphere_domain_takes_workspace_networks_and_template_from_the_infrastructure() {
    let infrastructure = infrastructure();
    let domain = |name: &str| FailureDomain::new(Platform::VSphere, json!({ "name": name }));
    let one = inject(&vsphere(), &domain("east-1"), Some(&infrastructure)).unwrap();
    assert_eq!(one["template"], "ocp-x7k2p-rhcos-east-1");
    assert_eq!(one["workspace"]["resourcePool"], "/dc1/host/c1/Resources");
    assert_eq!(one["workspace"]["folder"], "/dc1/vm/ocp-x7k2p");
    let two = inject(&vsphere(), &domain("east-2"), Some(&infrastructure)).unwrap();
    assert_eq!(two["template"], "rhcos-2");
    assert_eq!(two["workspace"]["vmGroup"], "g2");
    assert_eq!(
        two["network"]["devices"],
        json!([{"networkName": "net-2"}, {"networkName": "net-3"}])
    );
    assert_eq!(extract(&vsphere(), Some(&infrastructure)).unwrap().label(), "east-1");
}

#[test]
fn vsphere_devices_keep_their_address_pools() {
    let mut template = vsphere();
    template["network"]["devices"] = json!([{"addressesFromPools": [{"name": "p"}], "nameservers": ["1.1.1.1"]}]);
    let domain = FailureDomain::new(Platform::VSphere, json!({"name": "east-2"}));
    let spec = inject(&template, &domain, Some(&infrastructure())).unwrap();
    assert_eq!(
        spec["network"]["devices"],
        json!([{"addressesFromPools": [{"name": "p"}], "nameservers": ["1.1.1.1"], "networkName": "net-2"},
               {"networkName": "net-3"}])
    );
}

#[test]
fn b12_a_name_that_the_infrastructure_does_not_define_is_an_error_and_not_a_panic() {
    for (platform, known) in [(Platform::VSphere, "east-1, east-2"), (Platform::Nutanix, "pe-1")] {
        let domain = FailureDomain::new(platform, json!({"name": "nowhere"}));
        let spec = json!({"kind": platform.kind()});
        let error = inject(&spec, &domain, Some(&infrastructure())).unwrap_err();
        assert!(error.to_string().contains(known), "{error}");
        assert!(matches!(
            inject(&spec, &domain, None),
            Err(DomainError::NoInfrastructure { .. })
        ));
        // Defect B12: an Infrastructure without the section of the platform.
        let bare = Infrastructure::default();
        assert!(matches!(
            inject(&spec, &domain, Some(&bare)),
            Err(DomainError::Undefined { .. })
        ));
        assert_eq!(check(platform, domain.entry(), Some(&infrastructure())).len(), 1);
        assert_eq!(check(platform, domain.entry(), None), []);
    }
}

#[test]
fn a_nutanix_domain_writes_types_of_identifiers_as_the_provider_reads_them() {
    let domain = FailureDomain::new(Platform::Nutanix, json!({"name": "pe-1"}));
    let spec = inject(
        &json!({"kind": "NutanixMachineProviderConfig"}),
        &domain,
        Some(&infrastructure()),
    )
    .unwrap();
    assert_eq!(spec["cluster"], json!({"type": "uuid", "uuid": "0006-1"}));
    assert_eq!(spec["subnets"], json!([{"type": "name", "name": "net-a"}]));
}

#[test]
fn b12_a_domain_is_not_written_into_a_provider_spec_of_another_platform() {
    // Defect B12: Azure failure domains with an AWS provider spec, and failure domains without a
    // provider spec.
    let domain = FailureDomain::new(Platform::Azure, json!({"zone": "1"}));
    assert!(matches!(
        inject(&aws(), &domain, None),
        Err(DomainError::OtherPlatform { .. })
    ));
    assert_eq!(inject(&Value::Null, &domain, None), Err(DomainError::NotAnObject));
    assert_eq!(complete(&domain, &aws()), domain);
}

#[test]
fn no_json_causes_a_panic() {
    let odd = [
        json!(null),
        json!(7),
        json!("x"),
        json!([]),
        json!({}),
        json!({"placement": 3, "subnet": []}),
        json!({"subnet": {"filters": 3}}),
        json!({"zone": {}, "name": 5, "workspace": "w", "network": {"devices": 1}}),
        json!({"network": {"devices": [1, null]}, "rootVolume": "r", "failureDomain": [], "template": 9}),
    ];
    let infrastructure = infrastructure();
    for platform in Platform::ALL {
        for entry in &odd {
            let domain = FailureDomain::new(platform, entry.clone());
            domain.label();
            check(platform, entry, Some(&infrastructure));
            for spec in &odd {
                let mut spec = spec.clone();
                if let Value::Object(map) = &mut spec {
                    map.insert("kind".to_owned(), json!(platform.kind()));
                }
                let _ = inject(&spec, &domain, Some(&infrastructure));
                complete(&domain, &spec);
                extract(&spec, Some(&infrastructure));
                strip(&spec);
            }
        }
    }
}

#[test]
fn an_entry_is_checked_field_by_field() {
    let faults = |platform, entry: Value| -> Vec<(String, ViolationKind)> {
        check(platform, &entry, None)
            .into_iter()
            .map(|fault| (fault.path, fault.kind))
            .collect()
    };
    use ViolationKind::{Forbidden, Invalid, NotSupported, Required};
    assert_eq!(faults(Platform::Aws, json!({})), [(String::new(), Required)]);
    assert_eq!(
        faults(
            Platform::Aws,
            json!({"placement": {"availabilityZone": ""}, "subnet": {"type": "Id"}})
        ),
        [
            ("placement.availabilityZone".to_owned(), Required),
            ("subnet.type".to_owned(), NotSupported)
        ]
    );
    assert_eq!(
        faults(Platform::Aws, json!({"subnet": {"type": "ID", "arn": "a"}})),
        [("subnet.id".to_owned(), Required), ("subnet.arn".to_owned(), Forbidden)]
    );
    assert_eq!(faults(Platform::Azure, json!({"zone": ""})), []);
    assert_eq!(
        faults(Platform::Azure, json!({"zone": "1", "subnet": "-x"})),
        [("subnet".to_owned(), Invalid)]
    );
    assert_eq!(
        faults(Platform::Gcp, json!({"zone": ""})),
        [("zone".to_owned(), Required)]
    );
    assert_eq!(
        faults(
            Platform::OpenStack,
            json!({"availabilityZone": "a:b", "rootVolume": {"volumeType": "fast"}})
        ),
        [
            ("availabilityZone".to_owned(), Invalid),
            ("rootVolume.availabilityZone".to_owned(), Required)
        ]
    );
    assert_eq!(faults(Platform::VSphere, json!({})), [("name".to_owned(), Required)]);
}

#[test]
fn a_location_in_a_sentence_is_more_than_a_number() {
    let azure = FailureDomain::new(Platform::Azure, json!({"zone": "1", "subnet": "s"}));
    assert_eq!((azure.label().as_str(), azure.place().as_str()), ("1/s", "zone 1/s"));
    let gcp = FailureDomain::new(Platform::Gcp, json!({"zone": "us-central1-a"}));
    assert_eq!(gcp.place(), "us-central1-a");
}
