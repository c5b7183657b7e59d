//! What generated machines are made of: for each platform the fields of the provider spec and of
//! the infrastructure machine, with values to choose from.
//!
//! `{"$or": […]}` is one of the values, `{"$list": x}` up to three items, and
//! `{"$bad": [good, bad]}` nearly always the first. A field whose name ends with `!` is always
//! present.

use serde_json::{Value, json};

const UUID: &str = "c7938dc6-7659-453e-a688-e26020c68e43";
const OTHER: &str = "0005b0f1-8f43-a0f2-02b7-3cecef193712";

fn or(values: Value) -> Value {
    json!({"$or": values})
}

fn list(item: Value) -> Value {
    json!({"$list": item})
}

fn bad(good: Value, bad: Value) -> Value {
    json!({"$bad": [good, bad]})
}

/// The menus of a platform: of the provider spec, and of the infrastructure machine.
pub(super) fn of(platform: &str) -> (Value, Value) {
    match platform {
        "aws" => (aws(), aws_machine()),
        "azure" => (azure(), azure_machine()),
        "bare-metal" => (bare_metal(), bare_metal_machine()),
        "gcp" => (gcp(), gcp_machine()),
        "ibm-vpc" => (ibm_vpc(), ibm_vpc_machine()),
        "nutanix" => (nutanix(), nutanix_machine()),
        "openstack" => (openstack(), openstack_machine()),
        "power-vs" => (power_vs(), power_vs_machine()),
        _ => (vsphere(), vsphere_machine()),
    }
}

fn filters() -> Value {
    list(json!({"name!": or(json!(["tag:Name", "x"])), "values!": or(json!([["a"], ["a", "b"]]))}))
}

fn aws() -> Value {
    let ebs = json!({"volumeSize!": bad(or(json!([8, 120, 16384])), or(json!([7, 0, "120"]))),
        "volumeType": or(json!(["gp3", "io1", ""])), "iops": or(json!([0, 3000])),
        "throughputMib": or(json!([125, 1000])), "encrypted": or(json!([true, false])),
        "kmsKey": or(json!([{}, {"id": "k"}, {"arn": "arn:aws:kms:k"}, {"arn": ""}])),
        "deleteOnTermination": bad(json!(true), json!(false))});
    let tag = json!({"name!": or(json!(["a", "b", "c"])), "value!": or(json!(["", "x", "y"]))});
    json!({
        "ami": bad(json!({"id": "ami-2"}), or(json!([{"arn": "a"}, {"filters": [{"name": "a"}]}, {"id": 5}]))),
        "instanceType": or(json!(["m5.large", "m6i.xlarge"])),
        "cpuOptions": {"confidentialCompute": bad(or(json!(["Disabled", "AMDEncryptedVirtualizationNestedPaging"])),
            json!("New"))},
        "tags": or(json!([[{"name": "b", "value": ""}, {"name": "a", "value": "x"}], [tag]])),
        "iamInstanceProfile": bad(json!({"id": "p"}), or(json!([{"arn": "a"}, {"filters": []}]))),
        "keyName": or(json!(["", "key"])), "deviceIndex": bad(json!(0), json!(1)),
        "publicIp": or(json!([true, false])),
        "networkInterfaceType": bad(or(json!(["", "ENA", "EFA"])), json!("ENB")),
        "securityGroups": list(json!({"id": or(json!(["sg-1", "sg-2"])), "filters": filters()})),
        "subnet": bad(json!({"id": "subnet-1", "filters": filters()}), json!({"arn": "a"})),
        "placement": {"region": bad(json!("us-east-1"), json!("eu-west-1")), "availabilityZone": json!("us-east-1b"),
            "tenancy": or(json!(["", "default", "dedicated", "host"])),
            "host": or(json!([{"affinity": "AnyAvailable"},
                {"affinity": "DedicatedHost", "dedicatedHost": {"id": "h-0123456789abcdef0"}},
                {"affinity": "DedicatedHost", "dedicatedHost": {"allocationStrategy": "UserProvided",
                    "id": "h-0123456789abcdef0"}},
                {"affinity": "DedicatedHost", "dedicatedHost": {"allocationStrategy": "Dynamic",
                    "dynamicHostAllocation": {"tags": [{"name": "a", "value": "b"}]}}},
                {"affinity": "DedicatedHost", "dedicatedHost": {"id": "h-01234567"}}, {"affinity": "x"}]))},
        "loadBalancers": bad(json!([]), json!([{"name": "x", "type": "network"}])),
        "blockDevices": or(json!([[{"ebs": ebs}], [{"deviceName": "/dev/sdb", "ebs": ebs}, {"ebs": ebs}],
            [{"ebs": ebs}, {"deviceName": "/dev/sdb", "ebs": ebs}, {"deviceName": "/dev/sdc", "ebs": ebs}]])),
        "spotMarketOptions": {"maxPrice": or(json!(["0.5", ""]))},
        "metadataServiceOptions": {"authentication": bad(or(json!(["", "Optional", "Required"])), json!("No"))},
        "placementGroupName": or(json!(["", "pg"])), "placementGroupPartition": bad(or(json!([1, 7])), json!(8)),
        "capacityReservationId": or(json!(["", "cr-1"])),
        "marketType": bad(or(json!(["", "OnDemand", "Spot", "CapacityBlock"])), json!("x")),
    })
}

fn aws_machine() -> Value {
    let volume = json!({"size!": bad(or(json!([8, 200])), json!(7)), "type": "gp3", "iops": or(json!([100, 0])),
        "throughput": json!(200), "encrypted": or(json!([true, false])),
        "encryptionKey": or(json!(["k", "arn:aws:kms:k", ""]))});
    let named = json!({"deviceName!": or(json!(["/dev/sdb", "/dev/sdc"])), "size!": or(json!([8, 9])), "type": "io1"});
    json!({
        "instanceType": json!("c5.large"), "additionalTags": or(json!([{}, {"a": "", "b": "x"}])),
        "iamInstanceProfile": json!("p"), "sshKeyName": or(json!(["", "k"])), "publicIP": or(json!([true, false])),
        "networkInterfaceType": or(json!(["interface", "efa"])),
        "additionalSecurityGroups": list(json!({"id": "sg-1", "filters": filters()})),
        "subnet": {"id": "s", "filters": filters()}, "tenancy": or(json!(["default", "dedicated", "host"])),
        "hostAffinity": or(json!(["default", "host"])), "hostID": bad(json!("h-0123456789abcdef0"), json!("h-1")),
        "dynamicHostAllocation": or(json!([{}, {"tags": {"a": "b"}}])),
        "rootVolume": volume, "nonRootVolumes": list(named),
        "spotMarketOptions": {"maxPrice": "1"},
        "instanceMetadataOptions": {"httpTokens": or(json!(["optional", "required"])),
            "httpEndpoint": bad(json!("enabled"), json!("disabled")),
            "httpPutResponseHopLimit": bad(json!(1), json!(2)),
            "instanceMetadataTags": bad(json!("disabled"), json!("enabled")),
            "httpProtocolIpv6": bad(json!("disabled"), json!("enabled"))},
        "placementGroupName": "pg", "placementGroupPartition": or(json!([1, 0])), "capacityReservationId": "cr",
        "marketType": or(json!(["OnDemand", "Spot"])), "cpuOptions": {"confidentialCompute": "Disabled"},
        "ignition": bad(json!({"storageType": "UnencryptedUserData"}),
            or(json!([{"storageType": "ClusterObjectStore"}, {"version": "3.4"}, {"proxy": {"a": 1}}, {"tls": {"a": 1}}]))),
        "ami": bad(json!({"id": "ami-3"}), json!({"eksLookupType": "AmazonLinux"})),
        "cloudInit": bad(json!({}), json!({"secretCount": 1})),
        "imageLookupOrg": bad(json!(""), json!("x")), "imageLookupFormat": bad(json!(""), json!("x")),
        "imageLookupBaseOS": bad(json!(""), json!("x")), "uncompressedUserData": bad(json!(null), json!(true)),
        "networkInterfaces": bad(json!([]), json!(["eni-1"])),
        "securityGroupOverrides": bad(json!({}), json!({"node": "x"})),
        "elasticIpPool": bad(json!({}), json!({"publicIpv4Pool": "x"})),
        "capacityReservationPreference": bad(json!(""), json!("Open")),
        "privateDnsName": bad(json!({}), json!({"hostnameType": "ip-name"})),
        "assignPrimaryIPv6": bad(json!(""), json!("enabled")), "instanceID": bad(json!(""), json!("i-1")),
    })
}

fn azure() -> Value {
    let key = json!({"id": or(json!(["", "/des"]))});
    let settings = |kind: &str, field: &str| {
        json!({"securityType!": kind, field: {"uefiSettings": {"secureBoot": or(json!(["", "Enabled", "Disabled"])),
            "virtualizedTrustedPlatformModule": or(json!(["Enabled", "Disabled"]))}}})
    };
    let market = json!({"publisher!": "p", "offer!": "o", "sku!": "s", "version!": "v",
        "type": or(json!(["MarketplaceNoPlan", "MarketplaceWithPlan"]))});
    let disk = |name: &str| {
        json!({"nameSuffix!": name, "diskSizeGB!": or(json!([4, 1024])), "lun!": or(json!([0, 1, 63])),
            "cachingType": or(json!(["", "None", "ReadOnly"])), "deletionPolicy": bad(json!("Delete"), json!("Detach")),
            "managedDisk": {"storageAccountType": "Premium_LRS", "diskEncryptionSet": key}})
    };
    json!({
        "vmSize": "Standard_D2s_v3", "location": bad(json!("centralus"), json!("westus")),
        "resourceGroup": bad(or(json!(["PROD-X7K2P-RG", "prod-x7k2p-rg"])), json!("other")),
        "networkResourceGroup": bad(json!("Prod-x7k2p-rg"), json!("other")),
        "vnet": bad(json!("prod-x7k2p-vnet"), json!("other")), "zone": or(json!(["", "2"])),
        "image": or(json!([{"resourceID": "/resourceGroups/g/providers/x"},
            {"resourceID": "/subscriptions/s/resourceGroups/g/x", "type": "ID"}, market])),
        "managedIdentity": or(json!(["", "id"])), "subnet": "s", "acceleratedNetworking": or(json!([true, false])),
        "securityGroup": bad(json!(""), json!("nsg")), "publicLoadBalancer": bad(json!("prod-x7k2p"), json!("x")),
        "internalLoadBalancer": bad(json!(""), json!("x")), "publicIP": or(json!([true, false])),
        "osDisk": {"osType!": "Linux", "diskSizeGB": or(json!([0, 64])),
            "cachingType": or(json!(["", "None", "ReadOnly", "ReadWrite"])),
            "managedDisk": {"storageAccountType": "Standard_LRS", "diskEncryptionSet": key, "securityProfile": {
                "diskEncryptionSet": key, "securityEncryptionType": or(json!(["VMGuestStateOnly", ""]))}},
            "diskSettings": {"ephemeralStorageLocation": or(json!(["", "Local"]))}},
        "dataDisks": or(json!([[], [disk("a")], [disk("a"), disk("b")]])), "tags": or(json!([{}, {"a": "", "b": "c"}])),
        "sshPublicKey": or(json!(["", "key"])), "spotVMOptions": {"maxPrice": or(json!(["0.5", 1, ""]))},
        "securityProfile": {"encryptionAtHost": or(json!([true, false])),
            "settings": or(json!([settings("ConfidentialVM", "confidentialVM"), settings("TrustedLaunch", "trustedLaunch"),
                {}, {"securityType": ""}]))},
        "ultraSSDCapability": or(json!(["", "Enabled", "Disabled"])),
        "diagnostics": {"boot": or(json!([{"storageAccountType": "AzureManaged"},
            {"storageAccountType": "CustomerManaged", "customerManaged": {"storageAccountURI": "https://x"}}]))},
        "capacityReservationGroupID": or(json!(["", "/g"])), "natRule": bad(json!(null), json!(1)),
        "applicationSecurityGroups": bad(json!([]), json!(["a"])), "availabilitySet": bad(json!(""), json!("a")),
    })
}

fn azure_machine() -> Value {
    json!({
        "vmSize": "Standard_D8s_v3", "allocatePublicIP": or(json!([true, false])),
        "networkInterfaces": bad(json!([{"subnetName": "s", "acceleratedNetworking": true}]),
            or(json!([[], [{"subnetName": "a"}], [{"acceleratedNetworking": true, "privateIPConfigs": 2}]]))),
        "image": or(json!([{"id": "/subscriptions/11111111-2222-3333-4444-555555555555/resourceGroups/x"},
            {"marketplace": {"publisher": "p", "offer": "o", "sku": "s", "version": "v", "thirdPartyImage": true}},
            {"marketplace": {"publisher": "p", "offer": "o", "sku": "s", "version": "v"}}])),
        "identity": bad(json!("UserAssigned"), or(json!(["SystemAssigned", "None"]))),
        "additionalCapabilities": {"ultraSSDEnabled": or(json!([true, false]))},
        "dataDisks": list(json!({"nameSuffix!": or(json!(["a", "b"])), "diskSizeGB!": 10, "lun!": or(json!([1, 2])),
            "managedDisk": {"storageAccountType": "x", "securityProfile": bad(json!({}), json!({"a": "b"}))}})),
        "spotVMOptions": {"evictionPolicy": bad(json!("Deallocate"), json!("Delete"))},
        "securityProfile": or(json!([{"encryptionAtHost": true},
            {"securityType": "TrustedLaunch", "uefiSettings": {"vTpmEnabled": true, "secureBootEnabled": false}}])),
        "osDisk": {"osType!": "Linux", "diffDiskSettings": or(json!([{"option": "Local"}])),
            "diskSizeGB": 30, "cachingType": or(json!(["None", "ReadOnly"]))},
        "diagnostics": {"boot": or(json!([{"storageAccountType": "Managed"}, {"storageAccountType": "UserManaged",
            "userManaged": {"storageAccountURI": "https://x"}}]))},
        "disableExtensionOperations": bad(json!(true), json!(false)),
        "disableVMBootstrapExtension": bad(json!(true), json!(false)),
        "vmExtensions": bad(json!([]), json!([{"name": "x"}])), "dnsServers": bad(json!([]), json!(["1.1.1.1"])),
        "enableIPForwarding": bad(json!(false), json!(true)), "subnetName": bad(json!(""), json!("x")),
        "acceleratedNetworking": bad(json!(null), json!(true)), "failureDomain": bad(json!(""), json!("1")),
        "roleAssignmentName": bad(json!(""), json!("x")), "virtualMachineScaleSetID": bad(json!(""), json!("x")),
        "systemAssignedIdentityRole": bad(json!({}), json!({"name": "x"})),
    })
}

fn bare_metal() -> Value {
    json!({
        "image": or(json!([{"url": "http://x", "checksum": "abc"}, {"url": "", "checksum": ""}])),
        "customDeploy": {"method": or(json!(["", "install_coreos"]))},
        "hostSelector": {"matchLabels": or(json!([{}, {"a": "b", "c": ""}])),
            "matchExpressions": list(json!({"key!": "k", "operator!": or(json!(["in", "notin"])), "values!": ["a"]}))},
    })
}

fn bare_metal_machine() -> Value {
    json!({
        "image": bad(json!({"url": "http://y", "checksum": "abc"}),
            or(json!([{"url": "http://y", "checksumType": "md5"}, {"url": "http://y", "format": "raw"}]))),
        "customDeploy": {"method": "x"}, "dataTemplate": bad(json!({}), json!({"name": "x"})),
        "metaData": bad(json!({}), json!({"name": "x"})), "networkData": bad(json!({}), json!({"name": "x"})),
        "automatedCleaningMode": bad(json!(""), json!("metadata")), "failureDomain": bad(json!(""), json!("x")),
        "userData": bad(json!({}), json!({"name": "x"})),
        "hostSelector": {"matchLabels": {"a": "b"},
            "matchExpressions": list(json!({"key!": "k", "operator!": "in", "values!": ["a", "b"]}))},
    })
}

fn gcp() -> Value {
    let key = or(json!([{"kmsKey": {"name": "n", "keyRing": "r", "location": "global"}},
        {"kmsKey": {"name": "n", "keyRing": "r", "location": "global", "projectID": "other-project"},
            "kmsKeyServiceAccount": "a@b.iam.gserviceaccount.com"}]));
    let disk = |boot: bool, image: &str| {
        json!({"boot!": boot, "autoDelete!": bad(json!(true), json!(false)), "sizeGb!": or(json!([16, 128])),
            "type!": "pd-ssd", "image!": image, "labels": bad(json!(null), json!({"a": "b"})), "encryptionKey": key})
    };
    let switch = or(json!(["", "Enabled", "Disabled"]));
    json!({
        "machineType": "n1-standard-1", "zone": bad(or(json!(["", "us-central1-b"])), json!("us-east1-b")),
        "region": bad(json!("us-central1"), json!("us-east1")), "projectID": bad(json!("my-project"), json!("other")),
        "disks": or(json!([[disk(true, "i")], [disk(false, ""), disk(true, "i")], [disk(true, "i"), disk(false, "")]])),
        "networkInterfaces": or(json!([[{"network": "prod-x7k2p-network", "subnetwork": "s", "publicIP": true}],
            [{"network": "prod-x7k2p-network", "projectID": "my-project", "subnetwork": "s", "publicIP": false}]])),
        "labels": or(json!([{}, {"a": "", "b": "c"}])), "tags": or(json!([[], ["a", "b"]])),
        "gcpMetadata": or(json!([[], [{"key": "a", "value": null}, {"key": "b", "value": "x"}], [{"key": "a", "value": ""}]])),
        "serviceAccounts!": bad(json!([{"email": "a@b", "scopes": ["x"]}]), or(json!([null, []]))),
        "canIPForward": or(json!([true, false])), "gpus": list(json!({"count!": or(json!([0, 1])), "type!": "nvidia"})),
        "preemptible": or(json!([true, false])), "provisioningModel": or(json!(["Spot", ""])),
        "onHostMaintenance": or(json!(["", "Migrate", "Terminate"])),
        "restartPolicy": bad(or(json!(["", "Always"])), json!("Never")),
        "shieldedInstanceConfig": {"secureBoot": switch, "virtualizedTrustedPlatformModule": switch,
            "integrityMonitoring": switch},
        "confidentialCompute": or(json!(["", "Enabled", "IntelTrustedDomainExtensions"])),
        "resourceManagerTags": list(json!({"parentID!": bad(json!("12345"), json!("X")), "key!": "k", "value!": "v"})),
        "deletionProtection": bad(json!(false), json!(true)), "targetPools": bad(json!([]), json!(["a"])),
        "credentialsSecret": bad(json!({"name": "gcp-cloud-credentials"}), json!({"name": "x"})),
    })
}

fn gcp_machine() -> Value {
    let key = or(json!([{"keyType": "Managed", "managedKey": {"kmsKeyName":
        "projects/p/locations/global/keyRings/r/cryptoKeys/k"}}]));
    json!({
        "instanceType": "e2", "image": or(json!(["i", "j"])), "imageFamily": bad(json!(""), json!("x")),
        "subnet": "s", "publicIP": or(json!([true, false])), "ipForwarding": or(json!(["Enabled", "Disabled"])),
        "rootDeviceSize": or(json!([0, 64])), "rootDeviceType": "pd-standard",
        "rootDiskEncryptionKey": bad(key.clone(), json!({"keyType": "Supplied", "suppliedKey": {"rawKey": "x"}})),
        "additionalDisks": list(json!({"deviceType": "pd-ssd", "size": or(json!([10, 20])), "encryptionKey": key})),
        "additionalMetadata": or(json!([[{"key": "a", "value": "b"}], [{"key": "a"}]])),
        "additionalNetworkTags": or(json!([["x"], []])), "additionalLabels": {"a": "b"},
        "aliasIPRanges": bad(json!([]), json!([{"ipCidrRange": "/24"}])),
        "serviceAccounts": {"email": "a", "scopes": or(json!([["x"], []]))}, "preemptible": or(json!([true, false])),
        "provisioningModel": or(json!(["Standard", "Spot"])),
        "guestAccelerators": list(json!({"count": 1, "type": "t"})),
    })
}

fn ibm_vpc() -> Value {
    json!({
        "image": "i", "profile": or(json!(["", "p"])), "zone": "us-south-2", "region": bad(json!("us-south"), json!("x")),
        "vpc": bad(json!("prod-x7k2p-vpc"), json!("x")), "resourceGroup": bad(json!("prod-x7k2p"), json!("x")),
        "networkResourceGroup": bad(json!("prod-x7k2p"), json!("x")),
        "bootVolume": {"encryptionKey": or(json!(["", "crn:x"]))}, "dedicatedHost": or(json!(["", "h"])),
        "primaryNetworkInterface": {"subnet": "s", "securityGroups": or(json!([[], ["a", "b"]]))},
        "bandwidth": bad(json!(null), json!(5)), "tags": bad(json!([]), json!([{"name": "a", "value": "b"}])),
        "loadBalancers": bad(json!([]), json!([{"name": "x"}])),
    })
}

fn ibm_vpc_machine() -> Value {
    json!({
        "image": bad(json!({"name": "i"}), json!({"id": "x"})), "profile": "p",
        "bootVolume": bad(json!({"encryptionKeyCRN": "crn", "profile": "general-purpose",
            "deleteVolumeOnInstanceDelete": true}), or(json!([{"name": "x"}, {"sizeGiB": 5}, {"iops": 5}, {"bandwidth": 1},
            {"profile": "custom"}, {"deleteVolumeOnInstanceDelete": false}]))),
        "placementTarget": bad(json!({"dedicatedHost": {"name": "h"}}), or(json!([{"dedicatedHost": {"id": "h"}},
            {"dedicatedHostGroup": {"name": "x"}}, {"placementGroup": {"name": "x"}}]))),
        "primaryNetworkInterface": {"subnet": "s", "securityGroups": bad(list(json!({"name!": or(json!(["a", "b"]))})),
            json!([{"id": "x"}]))},
        "name": bad(json!(""), json!("x")), "catalogOffering": bad(json!({}), json!({"offeringCRN": "x"})),
        "sshKeys": bad(json!([]), json!([{"name": "x"}])), "additionalVolumes": bad(json!([]), json!([{"name": "x"}])),
        "loadBalancerPoolMembers": bad(json!([]), json!([{"port": 1}])),
    })
}

fn nutanix() -> Value {
    let id = or(json!([{"type": "uuid", "uuid": UUID}, {"type": "name", "name": "n"}]));
    json!({
        "cluster": id, "image": bad(id.clone(), json!({"type": "uuid", "name": "n"})), "project": or(json!([{"type": ""}, id])),
        "subnets": or(json!([[id], [id, id]])), "vcpusPerSocket": bad(json!(2), json!(0)), "vcpuSockets": 2,
        "memorySize": bad(or(json!(["16384Mi", "16Gi", 17_179_869_184_i64])), json!("x")),
        "systemDiskSize": or(json!(["120Gi", "128849018880"])),
        "bootType": bad(or(json!(["", "Legacy", "UEFI"])), json!("SecureBoot")),
        "categories": list(json!({"key!": or(json!(["a", "b"])), "value!": "v"})),
        "gpus": or(json!([null, [{"type": "Name", "name": "g"}], [{"type": "DeviceID", "deviceID": 5}]])),
        "dataDisks": list(json!({"diskSize!": "10Gi",
            "deviceProperties": {"deviceType!": or(json!(["Disk", "CDRom"])), "adapterType!": or(json!(["SCSI", "PCI"])),
                "deviceIndex": or(json!([0, 1]))},
            "storageConfig": {"diskMode!": or(json!(["Standard", "Flash"])),
                "storageContainer": {"type!": "uuid", "uuid!": OTHER}},
            "dataSource": id})),
        "failureDomain": or(json!([null, {"name": "fd"}])),
    })
}

fn nutanix_machine() -> Value {
    let id = or(json!([{"type": "uuid", "uuid": UUID}, {"type": "name", "name": "n"}]));
    json!({
        "cluster": id, "image": id, "project": id, "subnet": list(id), "bootType": or(json!(["legacy", "uefi"])),
        "additionalCategories": list(json!({"key": "a", "value": "b"})),
        "gpus": list(or(json!([{"type": "name", "name": "g"}, {"type": "deviceID", "deviceID": 5}]))),
        "dataDisks": list(json!({"diskSize!": or(json!(["10Gi", 5])), "storageConfig": {"diskMode!": "Flash",
            "storageContainer": bad(json!({"type": "uuid", "uuid": OTHER}), json!({"type": "name", "name": "x"}))}})),
        "imageLookup": bad(json!({}), json!({"baseOS": "x"})),
        "bootstrapRef": bad(json!({"kind": "Secret", "name": "x", "apiVersion": "v1", "namespace": "n"}),
            json!({"kind": "Image", "name": "x"})),
        "memorySize": or(json!(["1Gi", 5])), "systemDiskSize": "1Gi", "vcpuSockets": 1, "vcpusPerSocket": 3,
    })
}

fn subnet() -> Value {
    let filter = json!({"name": "s", "description": "d", "projectId": "p", "ipVersion": or(json!([0, 4, 6])),
        "gateway_ip": "10.0.0.1", "cidr": "10.0.0.0/8", "ipv6AddressMode": "slaac", "ipv6RaMode": "slaac",
        "tags!": or(json!(["a", "a,b"])), "tagsAny": "c", "notTags": "d", "notTagsAny": "e",
        "tenantId": bad(json!(""), json!("t")), "networkId": bad(json!(""), json!("t")),
        "subnetpoolId": bad(json!(""), json!("t"))});
    or(
        json!([{"uuid": UUID}, {"filter": {"id": UUID}}, {"filter": filter}, {"filter": filter, "portTags": ["x", "y"]},
        {"uuid": UUID, "portSecurity": bad(json!(null), json!(true))}]),
    )
}

fn openstack() -> Value {
    let port = json!({"networkID!": or(json!([UUID, OTHER])), "nameSuffix": "n", "description": "d",
        "adminStateUp": or(json!([true, false])), "macAddress": "00:00:00:00:00:01",
        "fixedIPs": list(json!({"subnetID!": UUID, "ipAddress": "10.0.0.1"})),
        "tenantID": bad(json!(""), json!("t")), "projectID": bad(json!(""), json!("t")),
        "hostID": bad(json!(""), json!("t")),
        "securityGroups": bad(or(json!([[UUID], [UUID, OTHER]])), or(json!([[], ["x"]]))),
        "allowedAddressPairs": list(json!({"ipAddress!": "10.0.0.1", "macAddress": "00:00:00:00:00:01"})),
        "tags": or(json!([[], ["a", "b"]])), "vnicType": or(json!(["direct", ""])), "trunk": or(json!([true, false])),
        "profile": bad(or(json!([{"capabilities": "[switchdev]"}, {"trusted": "true"}, {"trusted": "false",
            "capabilities": "[\"switchdev\"]"}, {}])), json!({"other": "x"})),
        "portSecurity": or(json!([true, false]))});
    let network = |by: Value| {
        let mut network = json!({"subnets": list(subnet()), "portTags": or(json!([[], ["t"]])),
            "vnicType": or(json!(["direct", "normal"])), "portSecurity": or(json!([true, false])),
            "profile": {"trusted": "true"}, "noAllowedAddressPairs": bad(json!(false), json!(true)),
            "fixedIp": bad(json!(""), json!("x"))});
        for (field, value) in by.as_object().unwrap() {
            network[field] = value.clone();
        }
        network
    };
    let filter = json!({"name!": or(json!(["n", "m"])), "description": "d", "projectId": "p", "tags": "a,b", "tagsAny": "c",
        "notTags": "d", "notTagsAny": "e", "tenantId": bad(json!(""), json!("t"))});
    json!({
        "flavor": "m1.small", "image": "rhcos", "keyName": or(json!(["", "k"])), "trunk": or(json!([true, false])),
        "tags": bad(or(json!([[], ["a", "b"]])), json!(["a", "a"])), "configDrive": or(json!([true, false])),
        "serverMetadata": or(json!([{}, {"b": "", "a": "x"}])),
        "serverGroupID": bad(json!(""), json!(UUID)), "serverGroupName": or(json!(["", "g"])),
        "securityGroups": list(or(json!([{"uuid": UUID}, {"name": "n"}, {"filter": {"id": UUID}}, {"filter": filter},
            {"name": "n", "filter": {"description": "d"}}]))),
        "rootVolume": {"diskSize!": bad(json!(30), json!(0)), "volumeType": "ssd", "availabilityZone": or(json!(["", "z"])),
            "sourceUUID": bad(json!(""), json!("x")), "sourceType": bad(json!(""), json!("x")),
            "deviceType": bad(json!(""), json!("x"))},
        "additionalBlockDevices": or(json!([[{"name": "a", "sizeGiB": 5, "storage": {"type": "Local"}}],
            [{"name": "a", "sizeGiB": 5, "storage": {"type": "Volume", "volume": {"type": "ssd", "availabilityZone": "z"}}},
             {"name": "b", "sizeGiB": 5, "storage": {"type": "Volume", "volume": {}}}]])),
        "ports": list(port), "networks": list(or(json!([network(json!({"uuid!": UUID})),
            network(json!({"filter!": filter})), network(json!({"subnets!": [subnet()]}))]))),
        "availabilityZone": or(json!(["", "az"])), "primarySubnet": bad(json!(""), json!("x")),
        "floatingIP": bad(json!(""), json!("x")), "sshUserName": bad(json!(""), json!("x")),
        "cloudsSecret": bad(json!({"name": "openstack-cloud-credentials"}), or(json!([{"name": "x"},
            {"name": "openstack-cloud-credentials", "namespace": "other"}]))),
    })
}

fn openstack_machine() -> Value {
    let subnet = or(json!([{"id": UUID}, {"filter": {"name": "s", "tags": ["a", "b"], "ipVersion": 4}}]));
    let port = or(
        json!([{"network": {"id": UUID}, "nameSuffix": "x", "fixedIPs": [{"subnet": {"id": UUID},
            "ipAddress": "10.0.0.1"}], "securityGroups": [{"id": UUID}], "disablePortSecurity": true},
        {"network": {"filter": {"name": "n", "tags": ["a"]}}, "fixedIPs": list(json!({"subnet!": subnet})), "tags": ["x"]},
        {"fixedIPs": [{"subnet": subnet}], "vnicType": "direct",
            "profile": {"ovsHWOffload": or(json!([true, false])), "trustedVF": or(json!([true, false]))}},
        {"network": {"id": OTHER}, "valueSpecs": bad(json!([]), json!([{"name": "a", "key": "b", "value": "c"}])),
            "propagateUplinkStatus": bad(json!(null), json!(true)), "hostID": bad(json!(""), json!("x"))}]),
    );
    json!({
        "flavor": "f", "flavorID": bad(json!(""), json!("x")),
        "image": bad(json!({"filter": {"name": "i"}}), or(json!([{"id": UUID}, {"imageRef": {"name": "x"}},
            {"filter": {"name": "i", "tags": ["a"]}}]))),
        "ports": list(port), "serverMetadata": or(json!([[{"key": "b", "value": "x"}, {"key": "a", "value": ""}], []])),
        "serverGroup": or(json!([{"id": UUID}, {"filter": {"name": "g"}}])), "tags": or(json!([["a"], []])),
        "securityGroups": list(or(json!([{"id": UUID}, {"filter": {"name": "n"}}, {"filter": {"description": "d",
            "tags": ["a", "b"]}}]))),
        "rootVolume": {"sizeGiB!": 5, "type": "t", "availabilityZone": bad(or(json!([{"name": "z"}, {"from": "Name",
            "name": "z"}])), json!({"from": "Machine"}))},
        "identityRef": bad(json!({"type": "Secret", "name": "openstack-cloud-credentials", "cloudName": "openstack"}),
            or(json!([{"type": "ClusterIdentity", "name": "x", "cloudName": "y"}, {"name": "openstack-cloud-credentials",
                "cloudName": "y", "region": "r"}]))),
        "floatingIPPoolRef": bad(json!({}), json!({"kind": "a", "name": "b"})),
        "schedulerHintAdditionalProperties": bad(json!([]), json!([{"name": "x"}])),
        "sshKeyName": "k", "trunk": or(json!([true, false])), "configDrive": or(json!([true, false])),
        "additionalBlockDevices": or(json!([[{"name": "a", "sizeGiB": 1, "storage": {"type": "Volume",
            "volume": {"type": "t", "availabilityZone": {"name": "z"}}}}]])),
    })
}

fn power_vs() -> Value {
    let reference = bad(
        or(
            json!([{"type": "ID", "id": "i"}, {"type": "Name", "name": "n"}, {"type": "RegEx", "regex": "^r"}, {"id": "i"}]),
        ),
        or(json!([{"type": "ID", "name": "n"}, {"type": "x", "id": "i"}, {"type": "ID", "id": "i", "name": "n"}])),
    );
    json!({
        "serviceInstance": reference, "image": reference, "network": reference, "keyPairName": "k",
        "systemType": bad(or(json!(["", "e980", "s1022", "e1080"])), json!("s922")),
        "processorType": or(json!(["", "Dedicated", "Shared", "Capped"])), "processors": or(json!(["0.5", 1, ""])),
        "memoryGiB": or(json!([0, 32])), "loadBalancers": bad(json!([]), json!([{"name": "x", "type": "Application"}])),
    })
}

fn power_vs_machine() -> Value {
    let reference = bad(
        or(json!([{"id": "i"}, {"name": "n"}, {"regex": "r"}])),
        or(json!([{}, {"id": "i", "name": "n"}])),
    );
    json!({
        "serviceInstance": reference, "image": reference, "network": reference, "sshKey": "k",
        "serviceInstanceID": bad(json!(""), json!("x")), "imageRef": bad(json!({}), json!({"name": "x"})),
        "systemType": or(json!(["", "e980"])), "processors": or(json!([2, "0.25"])), "memoryGiB": 4,
        "processorType": or(json!(["Capped", ""])),
    })
}

fn vsphere() -> Value {
    let device = or(
        json!([{"networkName": "n"}, {"networkName": "n", "ipAddrs": ["10.0.0.1/24"], "gateway": "10.0.0.254",
            "nameservers": ["1.1.1.1"]},
        {"networkName": "n", "ipAddrs": ["fd00::1/64"], "gateway": "fd00::ff"},
        {"networkName": "n", "addressesFromPools": [{"group": "ipam.cluster.x-k8s.io",
            "resource": bad(json!("inclusterippools"), json!("x")), "name": "p"}]},
        {"networkName": "n", "gateway": bad(json!("10.0.0.1"), json!("x"))}]),
    );
    json!({
        "template": "t", "snapshot": or(json!(["", "s"])),
        "cloneMode": bad(or(json!(["", "fullClone", "linkedClone"])), json!("x")),
        "numCPUs": or(json!([0, 2])), "numCoresPerSocket": or(json!([0, 2])), "memoryMiB": 8192, "diskGiB": 30,
        "tagIDs": or(json!([[], ["a"]])),
        "dataDisks": list(json!({"name!": or(json!(["a", "b"])), "sizeGiB!": 5,
            "provisioningMode": or(json!(["", "Thin", "EagerlyZeroed"]))})),
        "workspace": {"server": bad(json!("vc.example.com"), json!("x")), "datacenter": "d", "folder": "f", "datastore": "s",
            "resourcePool": "r", "vmGroup": bad(json!(""), json!("g"))},
        "network": {"devices!": or(json!([[device], [device, device]]))},
    })
}

fn vsphere_machine() -> Value {
    let device = bad(
        or(
            json!([{"networkName": "n", "dhcp4": true}, {"networkName": "n", "ipAddrs": ["10.0.0.1/24"], "gateway4": "10.0.0.9"},
            {"networkName": "n", "ipAddrs": ["fd00::1/64"], "gateway6": "fd00::9", "dhcp6": false},
            {"networkName": "n", "addressesFromPools": [{"apiGroup": "g", "kind": "InClusterIPPool", "name": "p"}]}]),
        ),
        or(
            json!([{"networkName": "n"}, {"networkName": "n", "dhcp4": true, "mtu": 9000}, {"networkName": "n", "dhcp6": true},
            {"networkName": "n", "dhcp4": true, "macAddr": "x"}, {"networkName": "n", "dhcp4": true, "routes": [{}]},
            {"networkName": "n", "dhcp4": true, "searchDomains": ["x"]}, {"networkName": "n", "dhcp4": true, "deviceName": "x"},
            {"networkName": "n", "dhcp4": true, "dhcp4Overrides": {"a": 1}, "dhcp6Overrides": {"a": 1}},
            {"networkName": "n", "dhcp4": true, "skipIPAllocation": true}]),
        ),
    );
    let refused = |value: Value| bad(json!(null), value);
    json!({
        "template": "t", "network": {"devices!": [device], "routes": refused(json!([{}])),
            "preferredAPIServerCidr": refused(json!("x"))},
        "server": bad(json!("vc.example.com"), json!("other")), "datacenter": "d", "folder": "f", "datastore": "s",
        "numCPUs": 2, "os": bad(json!("Linux"), json!("Windows")), "powerOffMode": bad(json!("hard"), json!("soft")),
        "storagePolicyName": refused(json!("x")), "additionalDisksGiB": refused(json!([1])),
        "customVMXKeys": refused(json!({"a": "b"})), "pciDevices": refused(json!([{"deviceId": 1}])),
        "hardwareVersion": refused(json!("x")), "resources": refused(json!({"shares": {"cpu": 1}})),
        "guestSoftPowerOffTimeout": refused(json!("5m")), "guestSoftPowerOffTimeoutSeconds": refused(json!(5)),
        "namingStrategy": refused(json!({"template": "x"})), "failureDomain": refused(json!("x")),
        "cryptoKeyID": refused(json!("x")), "cryptoProfile": refused(json!("x")), "ftEncryptionMode": refused(json!("x")),
        "migrateEncryption": refused(json!("x")), "thumbprint": refused(json!("x")),
        "nestedHV": bad(json!(false), json!(true)),
    })
}
