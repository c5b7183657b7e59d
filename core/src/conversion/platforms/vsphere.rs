//! vSphere: `VSphereMachineProviderSpec` and `VSphereMachine` (v1beta1).

use core::net::IpAddr;

use serde_json::{Map, Value, json};

use super::Platform;
use crate::conversion::Api::{self, ClusterApi, MachineApi};
use crate::conversion::pass::Pass;
use crate::conversion::pass::rule::{
    Hand, Literal, Rule, cluster_api_only, constant, list, machine_api_only, moved, only, required, same, shared,
};
use crate::conversion::shape::{Converted, Fault, Shape, fault};
use crate::conversion::{Lookup, Severity, tree};

/// vSphere.
pub(super) const PLATFORM: Platform = Platform {
    id: "vsphere",
    title: "vSphere",
    platform_type: "VSphere",
    provider_spec: "VSphereMachineProviderSpec",
    provider_spec_version: "machine.openshift.io/v1beta1",
    machine: "VSphereMachine",
    version: "v1beta1",
    crd: "kubernetes-sigs/cluster-api-provider-vsphere, August 2026",
    cluster: "VSphereCluster",
    user_data: "userDataSecret",
    rules: RULES,
    computed: &[],
    has_instance_state: false,
    has_provider_id: true,
    hand_over: None,
    normal,
};

const NUMBER: Shape = Shape::Count(0, i32::MAX as i64);

const RULES: &[Rule] = &[
    required(
        MachineApi,
        "template",
        "Cluster API clones a virtual machine from a template",
        "set template",
    ),
    required(
        ClusterApi,
        "template",
        "the Machine API clones a virtual machine from a template",
        "set it",
    ),
    same("template", Shape::Text),
    same("snapshot", Shape::Text),
    Rule::Hand(&CLONE_MODE),
    same("cloneMode", Shape::Words(&[(FULL, FULL), (LINKED, LINKED)])),
    same("numCPUs", NUMBER),
    same("numCoresPerSocket", NUMBER),
    same("memoryMiB", Shape::Count(0, i64::MAX)),
    same("diskGiB", NUMBER),
    same("tagIDs", Shape::Texts),
    list("dataDisks", "dataDisks", DATA_DISK),
    Rule::Hand(&DISK_NAMES),
    Rule::Hand(&SERVER),
    shared("workspace.server", &["server"], ""),
    moved("workspace.datacenter", "datacenter", Shape::Text),
    moved("workspace.folder", "folder", Shape::Text),
    moved("workspace.datastore", "datastore", Shape::Text),
    moved("workspace.resourcePool", "resourcePool", Shape::Text),
    machine_api_only(
        "workspace.vmGroup",
        "Cluster API sets a VM group on a deployment zone, not on a machine",
        "use a failure domain of the Infrastructure object",
    ),
    required(
        MachineApi,
        "network.devices",
        "Cluster API requires a network device",
        "set network.devices",
    ),
    required(
        ClusterApi,
        "network.devices",
        "the Machine API requires a network device",
        "set it",
    ),
    list("network.devices", "network.devices", DEVICE),
    constant(
        MachineApi,
        "credentialsSecret.name",
        Literal::Text("vsphere-cloud-credentials"),
        "Cluster API uses the credentials of the cluster",
        "use the Secret vsphere-cloud-credentials",
    ),
    cluster_api_only(
        "storagePolicyName",
        "the Machine API has no storage policies",
        "remove it",
    ),
    cluster_api_only(
        "additionalDisksGiB",
        "the Machine API creates additional disks from dataDisks",
        "use dataDisks",
    ),
    cluster_api_only("customVMXKeys", "the Machine API sets no VMX keys", "remove them"),
    cluster_api_only("pciDevices", "the Machine API has no PCI passthrough", "remove them"),
    cluster_api_only(
        "hardwareVersion",
        "the Machine API uses the hardware version of the template",
        "remove it",
    ),
    cluster_api_only(
        "resources",
        "the Machine API has no resource shares and limits",
        "remove them",
    ),
    cluster_api_only("guestSoftPowerOffTimeout", TIMEOUT, "remove it"),
    cluster_api_only("guestSoftPowerOffTimeoutSeconds", TIMEOUT, "remove it"),
    cluster_api_only(
        "namingStrategy",
        "the Machine API generates the names of virtual machines",
        "remove it",
    ),
    cluster_api_only("network.routes", "the Machine API sets no routes", "remove them"),
    cluster_api_only(
        "network.preferredAPIServerCidr",
        "the Machine API has no preferred network for the API server",
        "remove it",
    ),
    cluster_api_only(
        "failureDomain",
        "the Machine API sets the workspace instead",
        "set the fields of the domain",
    ),
    only(
        ClusterApi,
        "os",
        &[Literal::Text("Linux")],
        Severity::Blocks,
        "the Machine API supports Linux only",
        "remove it",
    ),
    only(
        ClusterApi,
        "powerOffMode",
        &[Literal::Text("hard")],
        Severity::Blocks,
        "the Machine API supports a hard power-off only",
        "set it to hard",
    ),
    cluster_api_only("cryptoKeyID", ENCRYPTION, "remove it"),
    cluster_api_only("cryptoProfile", ENCRYPTION, "remove it"),
    cluster_api_only("ftEncryptionMode", ENCRYPTION, "remove it"),
    cluster_api_only("migrateEncryption", ENCRYPTION, "remove it"),
    cluster_api_only(
        "thumbprint",
        "the Machine API does not store the thumbprint of the server",
        "remove it",
    ),
    only(
        ClusterApi,
        "nestedHV",
        &[Literal::Bool(false)],
        Severity::Blocks,
        "the Machine API has no nested virtualization",
        "remove it",
    ),
];

const TIMEOUT: &str = "the Machine API has no timeout for a guest shutdown";
const ENCRYPTION: &str = "the Machine API does not encrypt virtual machines";
const DHCP: &str = "the Machine API does not override DHCP";

const DATA_DISK: &[Rule] = &[
    required(MachineApi, "name", "a disk has a name", "set it"),
    required(MachineApi, "sizeGiB", "a disk has a size", "set it"),
    same("name", Shape::Text),
    same("sizeGiB", Shape::Int(1, i32::MAX as i64)),
    same(
        "provisioningMode",
        Shape::Words(&[("Thin", "Thin"), ("Thick", "Thick"), ("EagerlyZeroed", "EagerlyZeroed")]),
    ),
];

const ADDRESSES: Shape = Shape::Codec {
    to: addresses,
    back: addresses,
    about: "list of addresses with the length of their prefix",
};

fn addresses(value: &Value) -> Converted {
    let list = Shape::Texts.convert(MachineApi, value)?;
    let texts = list.as_ref().and_then(Value::as_array).into_iter().flatten();
    let mut texts = texts.filter_map(Value::as_str).enumerate();
    match texts.find(|(_, text)| !is_address_with_prefix(text)) {
        None => Ok(list),
        Some((index, _)) => Err(Fault {
            within: format!("[{index}]"),
            ..fault(
                "must be an IP address with the length of its prefix",
                "write it like 192.0.2.10/24",
            )
        }),
    }
}

fn is_address_with_prefix(text: &str) -> bool {
    text.split_once('/').is_some_and(|(address, prefix)| {
        let longest = match address.parse() {
            Ok(IpAddr::V4(_)) => 32,
            Ok(IpAddr::V6(_)) => 128,
            Err(_) => return false,
        };
        let digits = prefix.bytes().all(|byte| byte.is_ascii_digit());
        digits && prefix.parse::<u8>().is_ok_and(|length| length <= longest)
    })
}

const DEVICE: &[Rule] = &[
    required(
        MachineApi,
        "networkName",
        "Cluster API requires the name of the network",
        "set it",
    ),
    same("networkName", Shape::Text),
    Rule::Hand(&ADDRESSING),
    same("ipAddrs", ADDRESSES),
    same("nameservers", Shape::Texts),
    Rule::Hand(&GATEWAY),
    list("addressesFromPools", "addressesFromPools", POOL),
    cluster_api_only("dhcp4Overrides", DHCP, "remove them"),
    cluster_api_only("dhcp6Overrides", DHCP, "remove them"),
    cluster_api_only("mtu", "the Machine API sets no MTU", "remove it"),
    cluster_api_only("macAddr", "the Machine API sets no MAC address", "remove it"),
    cluster_api_only("searchDomains", "the Machine API sets no search domains", "remove them"),
    cluster_api_only("routes", "the Machine API sets no routes", "remove them"),
    cluster_api_only("deviceName", "the Machine API does not name devices", "remove it"),
    only(
        ClusterApi,
        "dhcp6",
        &[Literal::Bool(false)],
        Severity::Blocks,
        "the Machine API uses DHCP for IPv4 only",
        "remove it",
    ),
    only(
        ClusterApi,
        "skipIPAllocation",
        &[Literal::Bool(false)],
        Severity::Blocks,
        "the Machine API always assigns an address",
        "remove it",
    ),
];

const POOL: &[Rule] = &[
    required(MachineApi, "name", "a pool has a name", "set it"),
    required(MachineApi, "resource", "a pool has a resource", "set it"),
    moved("group", "apiGroup", Shape::Text),
    moved(
        "resource",
        "kind",
        Shape::Words(&[
            ("inclusterippools", "InClusterIPPool"),
            ("globalinclusterippools", "GlobalInClusterIPPool"),
            ("infobloxippools", "InfobloxIPPool"),
            ("ippools", "IPPool"),
        ]),
    ),
    same("name", Shape::Text),
];

const FULL: &str = "fullClone";
const LINKED: &str = "linkedClone";

const CLONE_MODE: Hand = Hand {
    machine_api: &[],
    cluster_api: &[],
    about: "absent cloneMode is `fullClone` in the Machine API, and `linkedClone`, which ignores diskGiB, in Cluster API",
    to: |pass| pass.put_default("cloneMode", "cloneMode", FULL.into()),
    back: |pass| pass.put_default("cloneMode", "cloneMode", LINKED.into()),
};

fn normal(side: Api, spec: &mut Map<String, Value>) {
    let default = match side {
        MachineApi => FULL,
        ClusterApi => LINKED,
    };
    spec.entry("cloneMode").or_insert_with(|| default.into());
}

const DISK_NAMES: Hand = Hand {
    machine_api: &[],
    cluster_api: &[],
    about: "each name of a data disk stands once",
    to: disk_names,
    back: disk_names,
};

fn disk_names(pass: &mut Pass<'_>) {
    let disks = pass
        .target
        .get("dataDisks")
        .and_then(Value::as_array)
        .into_iter()
        .flatten();
    let mut names: Vec<&str> = disks.filter_map(|disk| tree::text(disk, "name")).collect();
    let all = names.len();
    names.sort_unstable();
    names.dedup();
    if names.len() < all {
        pass.block(
            "dataDisks",
            "the name of a data disk must stand once",
            "use another name",
        );
    }
}

const SERVER: Hand = Hand {
    machine_api: &[],
    cluster_api: &["server"],
    about: "workspace.server, or else the server of the VSphereCluster; both must be equal",
    to: |pass| {
        let of_cluster = pass.cluster().found().and_then(|cluster| tree::text(cluster, "server"));
        // The way back fills in the server of the cluster. With the same server here, the next
        // conversion gives the same template.
        if let Some(server) = tree::text(&pass.source.value, "workspace.server").or(of_cluster) {
            let server = Value::from(server);
            pass.put("server", server);
        }
    },
    back: |pass| {
        let Some(server) = pass.take_text("server") else { return };
        let of_cluster = match pass.cluster() {
            Lookup::Found(cluster) => tree::text(cluster, "server"),
            _ => None,
        };
        if of_cluster.is_some_and(|of_cluster| of_cluster != server) {
            pass.block(
                "server",
                "it differs from spec.server of the VSphereCluster, which all machines use",
                "remove it, or use the server of the VSphereCluster",
            );
        }
        pass.put("workspace.server", server.into());
    },
};

const ADDRESSING: Hand = Hand {
    machine_api: &[],
    cluster_api: &["dhcp4"],
    about: "true if the device has neither addresses nor pools",
    to: |pass| {
        if !has_addresses(pass) {
            pass.put("dhcp4", true.into());
        }
    },
    back: |pass| {
        let dhcp = match pass.take("dhcp4") {
            None => false,
            Some(value) => match value.as_bool() {
                Some(dhcp) => dhcp,
                None => return pass.block("dhcp4", "must be true or false", "correct the value"),
            },
        };
        if dhcp == has_addresses(pass) {
            pass.block(
                "dhcp4",
                "the Machine API uses DHCP exactly on devices without addresses and pools",
                "set it to true on a device without addresses, and remove it from one with addresses",
            );
        }
    },
};

fn has_addresses(pass: &Pass<'_>) -> bool {
    ["ipAddrs", "addressesFromPools"].iter().any(|field| {
        let list = pass.source.get(field).and_then(Value::as_array);
        list.is_some_and(|list| !list.is_empty())
    })
}

const GATEWAY: Hand = Hand {
    machine_api: &["gateway"],
    cluster_api: &["gateway4", "gateway6"],
    about: "gateway4 or gateway6, by the family of the address",
    to: |pass| {
        let Some(gateway) = pass.take_text("gateway") else {
            return;
        };
        match gateway.parse() {
            Ok(IpAddr::V4(_)) => pass.put("gateway4", json!(gateway)),
            Ok(IpAddr::V6(_)) => pass.put("gateway6", json!(gateway)),
            Err(_) => pass.block("gateway", "must be an IP address", "correct the address"),
        }
    },
    back: |pass| {
        let found = ["gateway4", "gateway6"].map(|field| pass.take_text(field));
        match found {
            [Some(_), Some(_)] => pass.block("gateway6", "the Machine API has one gateway for a device", "remove one"),
            [Some(gateway), None] if gateway.parse().is_ok_and(|address: IpAddr| address.is_ipv4()) => {
                pass.put("gateway", gateway.into());
            }
            [None, Some(gateway)] if gateway.parse().is_ok_and(|address: IpAddr| address.is_ipv6()) => {
                pass.put("gateway", gateway.into());
            }
            [None, None] => {}
            [four, _] => {
                let field = if four.is_some() { "gateway4" } else { "gateway6" };
                pass.block(field, "must be an IP address of its family", "correct the address");
            }
        }
    },
};
