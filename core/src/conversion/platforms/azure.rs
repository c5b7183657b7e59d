//! Azure: `AzureMachineProviderSpec` and `AzureMachine` (v1beta1).

use serde_json::{Map, Value, json};

use super::Platform;
use super::aws::{SHORT, short};
use super::azure_diagnostics::{BOOT_DIAGNOSTICS, DIAGNOSTICS};
use crate::conversion::Api::{self, ClusterApi, MachineApi};
use crate::conversion::metadata::{INSTANCE_TYPE, REGION, ZONE};
use crate::conversion::pass::rule::{
    Hand, Literal, Rule, cluster_api_only, constant, inner, list, machine_api_only, moved, only, required, same, shared,
};
use crate::conversion::pass::{Pass, Shared};
use crate::conversion::shape::{Converted, Shape, fault};
use crate::conversion::{Lookup, Severity, tree};

/// Azure.
pub(super) const PLATFORM: Platform = Platform {
    id: "azure",
    title: "Azure",
    platform_type: "Azure",
    provider_spec: "AzureMachineProviderSpec",
    provider_spec_version: "machine.openshift.io/v1beta1",
    machine: "AzureMachine",
    version: "v1beta1",
    crd: "kubernetes-sigs/cluster-api-provider-azure, August 2026",
    cluster: "AzureCluster",
    user_data: "userDataSecret",
    rules: RULES,
    computed: &[(INSTANCE_TYPE, "vmSize"), (REGION, "location"), (ZONE, "zone")],
    has_instance_state: false,
    has_provider_id: true,
    hand_over: None,
    normal,
};

const CACHING: Shape = Shape::Words(&[("None", "None"), ("ReadOnly", "ReadOnly"), ("ReadWrite", "ReadWrite")]);
const GALLERY: &str = "use image.id or a marketplace image";
const ONE_IDENTITY: &str = "the Machine API supports user-assigned identities only";

const fn ignoring_case(at: &'static str, cluster: &'static [&'static str], infrastructure: &'static str) -> Rule {
    Rule::Shared {
        at,
        cluster,
        infrastructure,
        ignores_case: true,
    }
}

const RULES: &[Rule] = &[
    required(
        MachineApi,
        "vmSize",
        "Cluster API requires the size of the virtual machine",
        "set it",
    ),
    same("vmSize", Shape::Text),
    moved("zone", "Machine.failureDomain", Shape::TextThat(short, SHORT)),
    Rule::Hand(&IMAGE),
    Rule::Hand(&IDENTITY),
    Rule::Hand(&INTERFACE),
    Rule::Hand(&BALANCERS),
    shared("location", &["location"], ""),
    ignoring_case("resourceGroup", &["resourceGroup"], "azure.resourceGroupName"),
    ignoring_case(
        "networkResourceGroup",
        &["networkSpec.vnet.resourceGroup", "resourceGroup"],
        "azure.networkResourceGroupName",
    ),
    shared("vnet", &["networkSpec.vnet.name"], ""),
    moved("publicIP", "allocatePublicIP", Shape::Flag),
    required(
        MachineApi,
        "osDisk.osType",
        "Cluster API requires the type of the operating system",
        "set it",
    ),
    required(
        ClusterApi,
        "osDisk.osType",
        "the Machine API requires the type of the operating system",
        "set it to Linux",
    ),
    same("osDisk.osType", Shape::Text),
    same("osDisk.diskSizeGB", Shape::Count(0, i32::MAX as i64)),
    same("osDisk.cachingType", CACHING),
    same("osDisk.managedDisk.storageAccountType", Shape::Text),
    same("osDisk.managedDisk.diskEncryptionSet.id", Shape::Text),
    same("osDisk.managedDisk.securityProfile.diskEncryptionSet.id", Shape::Text),
    same(
        "osDisk.managedDisk.securityProfile.securityEncryptionType",
        Shape::Words(&[
            ("VMGuestStateOnly", "VMGuestStateOnly"),
            ("DiskWithVMGuestState", "DiskWithVMGuestState"),
        ]),
    ),
    moved(
        "osDisk.diskSettings.ephemeralStorageLocation",
        "osDisk.diffDiskSettings.option",
        Shape::Words(&[("Local", "Local")]),
    ),
    cluster_api_only(
        "osDisk.diffDiskSettings.placement",
        "the Machine API does not place ephemeral disks",
        "remove it",
    ),
    list("dataDisks", "dataDisks", DATA_DISK),
    moved("tags", "additionalTags", Shape::TextMap),
    same("sshPublicKey", Shape::Text),
    Rule::Hand(&SPOT),
    inner("spotVMOptions", "spotVMOptions", SPOT_OPTIONS),
    same("securityProfile.encryptionAtHost", Shape::Bool),
    Rule::Hand(&SECURITY),
    moved(
        "ultraSSDCapability",
        "additionalCapabilities.ultraSSDEnabled",
        Shape::Codec {
            to: |value| enabled(value).map(|on| on.map(Value::Bool)),
            back: |value| switch(value),
            about: "`Enabled` is true, and `Disabled` is false",
        },
    ),
    Rule::Hand(&BOOT_DIAGNOSTICS),
    moved(
        "diagnostics.boot.storageAccountType",
        "diagnostics.boot.storageAccountType",
        Shape::Words(&[("AzureManaged", "Managed"), ("CustomerManaged", "UserManaged")]),
    ),
    moved(
        "diagnostics.boot.customerManaged.storageAccountURI",
        "diagnostics.boot.userManaged.storageAccountURI",
        Shape::TextThat(is_https, "must start with https:// and have at most 1024 characters"),
    ),
    same("capacityReservationGroupID", Shape::Text),
    constant(
        MachineApi,
        "credentialsSecret.name",
        Literal::Text("azure-cloud-credentials"),
        "Cluster API uses the credentials of the cluster",
        "use the Secret azure-cloud-credentials",
    ),
    only(
        MachineApi,
        "credentialsSecret.namespace",
        &[Literal::Text("openshift-machine-api")],
        Severity::Blocks,
        "Cluster API uses the credentials of the cluster",
        "remove it",
    ),
    machine_api_only(
        "natRule",
        "Cluster API creates no inbound NAT rules for a machine",
        "remove it",
    ),
    machine_api_only(
        "applicationSecurityGroups",
        "Cluster API has no application security groups",
        "remove them",
    ),
    machine_api_only(
        "availabilitySet",
        "Cluster API assigns availability sets itself",
        "remove it",
    ),
    constant(
        ClusterApi,
        "disableVMBootstrapExtension",
        Literal::Bool(true),
        "the Machine API installs no VM extensions",
        "set it to true",
    ),
    constant(
        ClusterApi,
        "disableExtensionOperations",
        Literal::Bool(true),
        "the Machine API installs no VM extensions",
        "set it to true",
    ),
    cluster_api_only(
        "image.sharedGallery",
        "the Machine API does not support images of a shared gallery",
        GALLERY,
    ),
    cluster_api_only(
        "image.computeGallery",
        "the Machine API does not support images of a compute gallery",
        GALLERY,
    ),
    cluster_api_only("vmExtensions", "the Machine API has no VM extensions", "remove them"),
    cluster_api_only(
        "dnsServers",
        "the Machine API uses the DNS servers of the network",
        "remove them",
    ),
    only(
        ClusterApi,
        "enableIPForwarding",
        &[Literal::Bool(false)],
        Severity::Blocks,
        "the Machine API has no IP forwarding",
        "remove it",
    ),
    cluster_api_only("systemAssignedIdentityRole", ONE_IDENTITY, "use userAssignedIdentities"),
    cluster_api_only("roleAssignmentName", ONE_IDENTITY, "use userAssignedIdentities"),
    cluster_api_only(
        "failureDomain",
        "Cluster API reads it from the Machine",
        "set it in the Machine",
    ),
    cluster_api_only("subnetName", "networkInterfaces replaces it", "set networkInterfaces"),
    cluster_api_only(
        "acceleratedNetworking",
        "networkInterfaces replaces it",
        "set networkInterfaces",
    ),
    cluster_api_only(
        "virtualMachineScaleSetID",
        "the Machine API has no scale sets",
        "remove it",
    ),
];

const DATA_DISK: &[Rule] = &[
    required(MachineApi, "nameSuffix", "a data disk has a name", "set it"),
    required(MachineApi, "diskSizeGB", "a data disk has a size", "set it"),
    same("nameSuffix", Shape::Text),
    same("diskSizeGB", Shape::Int(1, i32::MAX as i64)),
    Rule::Hand(&LUN),
    same("cachingType", CACHING),
    same("managedDisk.storageAccountType", Shape::Text),
    same("managedDisk.diskEncryptionSet.id", Shape::Text),
    cluster_api_only(
        "managedDisk.securityProfile",
        "the Machine API has a security profile for the OS disk only",
        "remove it",
    ),
    constant(
        MachineApi,
        "deletionPolicy",
        Literal::Text("Delete"),
        "Cluster API deletes data disks with the machine",
        "set it to Delete, and store the data elsewhere",
    ),
];

const LUN: Hand = Hand {
    machine_api: &["lun"],
    cluster_api: &["lun"],
    about: "same; absent in the Machine API is 0",
    to: |pass| match pass.take("lun").unwrap_or_else(|| json!(0)) {
        lun if lun.as_i64().is_some_and(|lun| (0..=63).contains(&lun)) => pass.put("lun", lun),
        _ => pass.block("lun", "must be an integer from 0 to 63", "correct the value"),
    },
    back: |pass| match pass.take("lun") {
        Some(lun) if lun.as_i64().is_some_and(|lun| (0..=63).contains(&lun)) => pass.put("lun", lun),
        _ => pass.block(
            "lun",
            "the Machine API requires the LUN of a disk, from 0 to 63",
            "set it",
        ),
    },
};

fn is_https(text: &str) -> bool {
    text.starts_with("https://") && text.chars().count() <= 1024
}

/// A policy that is `Enabled` or `Disabled`.
fn enabled(value: &Value) -> Result<Option<bool>, crate::conversion::shape::Fault> {
    match value.as_str() {
        Some("") => Ok(None),
        Some("Enabled") => Ok(Some(true)),
        Some("Disabled") => Ok(Some(false)),
        _ => Err(fault("must be Enabled or Disabled", "correct the value")),
    }
}

fn switch(value: &Value) -> Converted {
    match value.as_bool() {
        Some(on) => Ok(Some(if on { "Enabled" } else { "Disabled" }.into())),
        None => Err(fault("must be true or false", "correct the value")),
    }
}

const SPOT: Hand = Hand {
    machine_api: &["spotVMOptions"],
    cluster_api: &["spotVMOptions"],
    about: "same in both; an empty object requests a spot machine without a maximum price",
    to: spot,
    back: spot,
};

const SPOT_OPTIONS: &[Rule] = &[
    same("maxPrice", Shape::Quantity),
    only(
        ClusterApi,
        "evictionPolicy",
        &[Literal::Text("Deallocate")],
        Severity::Blocks,
        "the Machine API has no eviction policy",
        "remove it",
    ),
];

fn spot(pass: &mut Pass<'_>) {
    let options = pass.source.branch("spotVMOptions");
    if !options.value.is_null() {
        let converted = pass.item(SPOT_OPTIONS, options);
        pass.put("spotVMOptions", converted.into());
    }
}

const SECURITY: Hand = Hand {
    machine_api: &["securityProfile.settings"],
    cluster_api: &["securityProfile.securityType", "securityProfile.uefiSettings"],
    about: "the UEFI settings of the security type; `Enabled` is true",
    to: security_to_cluster_api,
    back: security_to_machine_api,
};

/// The security types, and the fields of their settings in the Machine API.
const SECURITY_TYPES: [(&str, &str); 2] = [("ConfidentialVM", "confidentialVM"), ("TrustedLaunch", "trustedLaunch")];
/// The UEFI settings of both APIs.
const UEFI: [(&str, &str); 2] = [
    ("secureBoot", "secureBootEnabled"),
    ("virtualizedTrustedPlatformModule", "vTpmEnabled"),
];

fn security_to_cluster_api(pass: &mut Pass<'_>) {
    let Some(kind) = pass.take_text("securityProfile.settings.securityType") else {
        return;
    };
    let Some((_, field)) = SECURITY_TYPES.iter().find(|(known, _)| *known == kind) else {
        pass.block(
            "securityProfile.settings.securityType",
            "Cluster API does not support this type",
            "use ConfidentialVM or TrustedLaunch",
        );
        return;
    };
    for (setting, to) in UEFI {
        let path = format!("securityProfile.settings.{field}.uefiSettings.{setting}");
        let Some(value) = pass.take(&path) else { continue };
        match enabled(&value) {
            Ok(Some(on)) => pass.put(&format!("securityProfile.uefiSettings.{to}"), on.into()),
            Ok(None) => {}
            Err(fault) => pass.block(&path, fault.reason, fault.way_out),
        }
    }
    pass.put("securityProfile.securityType", kind.into());
}

fn security_to_machine_api(pass: &mut Pass<'_>) {
    let Some(kind) = pass.take_text("securityProfile.securityType") else {
        return;
    };
    let Some((_, field)) = SECURITY_TYPES.iter().find(|(known, _)| *known == kind) else {
        pass.block(
            "securityProfile.securityType",
            "the Machine API does not support this type",
            "use ConfidentialVM or TrustedLaunch",
        );
        return;
    };
    for (to, setting) in UEFI {
        let path = format!("securityProfile.uefiSettings.{setting}");
        let Some(value) = pass.take(&path) else { continue };
        match switch(&value) {
            Ok(Some(word)) => pass.put(&format!("securityProfile.settings.{field}.uefiSettings.{to}"), word),
            Ok(None) => {}
            Err(fault) => pass.block(&path, fault.reason, fault.way_out),
        }
    }
    pass.put("securityProfile.settings.securityType", kind.into());
}

/// What the AzureCluster sets for all machines.
fn of_cluster<'a>(pass: &Pass<'a>, paths: &[&str], infrastructure: &str) -> Option<&'a str> {
    match pass.env.context.shared("AzureCluster", paths, infrastructure) {
        Shared::Value { value, .. } => Some(value),
        _ => None,
    }
}

const IMAGE: Hand = Hand {
    machine_api: &["image"],
    cluster_api: &["image.id", "image.marketplace"],
    about: "resourceID is id, completed by the subscription of the AzureCluster; publisher, offer, sku and version are \
            marketplace, with a plan if thirdPartyImage is true",
    to: image_to_cluster_api,
    back: image_to_machine_api,
};

const RESOURCE_ID: &str = "must be the ID of an Azure resource, which starts with a slash";

/// Whether the ID of a resource names its subscription.
fn is_absolute(id: &str) -> bool {
    id.to_ascii_lowercase().starts_with("/subscriptions/")
}

/// The fields of a marketplace image.
const MARKETPLACE: [&str; 4] = ["publisher", "offer", "sku", "version"];

fn image_to_cluster_api(pass: &mut Pass<'_>) {
    let mut image = pass.source.branch("image");
    let kind = image.take_text("type").unwrap_or_default();
    let id = image.take_text("resourceID");
    let fields = MARKETPLACE.map(|field| (field, image.take_text(field)));
    for field in MARKETPLACE.iter().chain(&["resourceID"]) {
        if image.get(field).is_some_and(|value| value.as_str() == Some("")) {
            image.take(field);
        }
    }
    let any = fields.iter().any(|(_, value)| value.is_some());
    match (id, kind.as_str()) {
        (Some(id), "" | "ID") if !any => {
            let subscription = of_cluster(pass, &["subscriptionID"], "");
            let relative = !is_absolute(&id);
            match subscription {
                _ if !id.starts_with('/') => pass.block("image.resourceID", RESOURCE_ID, "correct the ID"),
                Some(subscription) if relative => {
                    pass.put("image.id", format!("/subscriptions/{subscription}{id}").into());
                }
                None if relative && pass.cluster() != Lookup::Unknown => pass.block(
                    "image.resourceID",
                    "Cluster API requires the subscription of the image, and no AzureCluster with subscriptionID was given",
                    "give the AzureCluster of the cluster, or start the ID with /subscriptions/",
                ),
                _ => pass.put("image.id", id.into()),
            }
        }
        (None, "" | "MarketplaceNoPlan" | "MarketplaceWithPlan") => {
            for (field, value) in fields {
                match value {
                    Some(value) => pass.put(&format!("image.marketplace.{field}"), value.into()),
                    None => pass.block(
                        &format!("image.{field}"),
                        "an image needs a resource ID, or publisher, offer, sku and version",
                        "set it",
                    ),
                }
            }
            pass.put(
                "image.marketplace.thirdPartyImage",
                (kind == "MarketplaceWithPlan").into(),
            );
        }
        (_, kind) if !["", "ID", "MarketplaceNoPlan", "MarketplaceWithPlan"].contains(&kind) => pass.block(
            "image.type",
            "Cluster API does not support this type of image",
            "use MarketplaceNoPlan or MarketplaceWithPlan, or set resourceID",
        ),
        _ => pass.block(
            "image",
            "an image has either a resource ID or the fields of the marketplace, and the type of it",
            "remove the other fields",
        ),
    }
    crate::conversion::metadata::report_rest(&image, ClusterApi, &mut pass.issues);
}

fn image_to_machine_api(pass: &mut Pass<'_>) {
    let id = pass.take_text("image.id");
    let mut market = pass.source.branch("image.marketplace");
    if let Some(id) = id {
        if !is_absolute(&id) {
            pass.block("image.id", RESOURCE_ID, "start the ID with /subscriptions/");
        }
        let subscription = of_cluster(pass, &["subscriptionID"], "").map(|known| format!("/subscriptions/{known}"));
        let relative = subscription.and_then(|prefix| {
            let start = id.get(..prefix.len())?;
            start
                .eq_ignore_ascii_case(&prefix)
                .then(|| id.get(prefix.len()..))
                .flatten()
                .filter(|rest| rest.starts_with('/'))
        });
        pass.put("image.resourceID", relative.unwrap_or(&id).into());
        if !market.value.is_null() {
            pass.block(
                "image.marketplace",
                "an image has either an ID or a marketplace",
                "remove one of them",
            );
        }
        return;
    }
    if market.value.is_null() {
        let other = pass.source.get("image").is_some();
        if !other {
            pass.block(
                "image",
                "the Machine API requires an image",
                "set image.id or image.marketplace",
            );
        }
        return;
    }
    for field in MARKETPLACE {
        match market.take_text(field) {
            Some(value) => pass.put(&format!("image.{field}"), value.into()),
            None => pass.block(&format!("image.marketplace.{field}"), "must be set", "set it"),
        }
    }
    let plan = market.take("thirdPartyImage").unwrap_or(Value::Bool(false));
    match plan.as_bool() {
        Some(plan) => {
            let kind = if plan {
                "MarketplaceWithPlan"
            } else {
                "MarketplaceNoPlan"
            };
            pass.put("image.type", kind.into());
        }
        None => pass.block(
            "image.marketplace.thirdPartyImage",
            "must be true or false",
            "correct the value",
        ),
    }
    crate::conversion::metadata::report_rest(&market, MachineApi, &mut pass.issues);
}

const IDENTITY: Hand = Hand {
    machine_api: &["managedIdentity"],
    cluster_api: &["identity", "userAssignedIdentities"],
    about: "the name of one identity is its full ID in Cluster API, in the subscription and resource group of the \
            AzureCluster",
    to: identity_to_cluster_api,
    back: identity_to_machine_api,
};

/// What the ID of an identity of the cluster starts with.
fn identity_prefix(pass: &Pass<'_>) -> Option<String> {
    let subscription = of_cluster(pass, &["subscriptionID"], "")?;
    let group = of_cluster(pass, &["resourceGroup"], "azure.resourceGroupName")?;
    Some(format!(
        "/subscriptions/{subscription}/resourceGroups/{group}/providers/Microsoft.ManagedIdentity/userAssignedIdentities/"
    ))
}

fn identity_to_cluster_api(pass: &mut Pass<'_>) {
    let Some(identity) = pass.take_text("managedIdentity") else {
        return;
    };
    let full = if identity.starts_with('/') {
        Some(identity)
    } else if pass.cluster() == Lookup::Unknown {
        return;
    } else {
        identity_prefix(pass).map(|prefix| format!("{prefix}{identity}"))
    };
    match full {
        Some(full) => {
            pass.put("identity", "UserAssigned".into());
            pass.put("userAssignedIdentities", json!([{"providerID": format!("azure://{full}")}]));
        }
        None => pass.block(
            "managedIdentity",
            "Cluster API requires the full ID of the identity, and no AzureCluster with subscriptionID and resourceGroup was given",
            "give the AzureCluster of the cluster, or set the full ID",
        ),
    }
}

fn identity_to_machine_api(pass: &mut Pass<'_>) {
    let kind = pass.take_text("identity");
    let mut identities = pass.take_list("userAssignedIdentities");
    match (kind.as_deref(), identities.len()) {
        (None | Some("None"), 0) => {}
        (Some("UserAssigned"), 1) => {
            let mut identity = identities.swap_remove(0);
            let id = identity.take_text("providerID").unwrap_or_default();
            let path = identity.path("providerID");
            crate::conversion::metadata::report_rest(&identity, MachineApi, &mut pass.issues);
            let id = id.strip_prefix("azure://").unwrap_or(&id).to_owned();
            if !id.starts_with('/') {
                pass.report(
                    Severity::Blocks,
                    path,
                    "must be azure:///subscriptions/…",
                    "correct the ID",
                );
            }
            let prefix = identity_prefix(pass);
            let name = prefix.and_then(|prefix| id.strip_prefix(&prefix).map(str::to_owned));
            pass.put("managedIdentity", name.unwrap_or(id).into());
        }
        (Some("UserAssigned"), _) => pass.block(
            "userAssignedIdentities",
            "the Machine API supports one identity",
            "keep one",
        ),
        _ => pass.block("identity", ONE_IDENTITY, "use userAssignedIdentities"),
    }
}

const INTERFACE: Hand = Hand {
    machine_api: &["subnet", "acceleratedNetworking", "securityGroup"],
    cluster_api: &["networkInterfaces"],
    about: "one network interface; the security group must be that of the subnet in the AzureCluster",
    to: interface_to_cluster_api,
    back: interface_to_machine_api,
};

/// The security group of a subnet of the AzureCluster.
fn group_of<'v>(cluster: &'v Value, subnet: &str) -> Option<&'v str> {
    let subnets = tree::get(cluster, "networkSpec.subnets")?.as_array()?;
    let subnet = subnets.iter().find(|known| tree::text(known, "name") == Some(subnet))?;
    tree::text(subnet, "securityGroup.name")
}

fn interface_to_cluster_api(pass: &mut Pass<'_>) {
    let subnet = pass.take_text("subnet").unwrap_or_default();
    let fast = pass.take("acceleratedNetworking").unwrap_or(Value::Bool(false));
    if !fast.is_boolean() {
        pass.block("acceleratedNetworking", "must be true or false", "correct the value");
    }
    let mut interface = Map::new();
    interface.insert(String::from("acceleratedNetworking"), fast);
    if !subnet.is_empty() {
        interface.insert(String::from("subnetName"), subnet.as_str().into());
    }
    pass.put("networkInterfaces", json!([interface]));
    let Some(group) = pass.take_text("securityGroup") else {
        return;
    };
    match pass.cluster() {
        Lookup::Unknown => {}
        Lookup::Found(cluster) if group_of(cluster, &subnet) == Some(group.as_str()) => {}
        _ => pass.block(
            "securityGroup",
            "Cluster API uses the security group of the subnet in the AzureCluster, which is another one or not known",
            "give the AzureCluster with that security group on the subnet, or remove the field",
        ),
    }
}

fn interface_to_machine_api(pass: &mut Pass<'_>) {
    const RULES: &[Rule] = &[only(
        ClusterApi,
        "privateIPConfigs",
        &[Literal::Int(1)],
        Severity::Blocks,
        "the Machine API assigns one private address",
        "set it to 1",
    )];
    let mut interfaces = pass.take_list("networkInterfaces");
    if interfaces.len() != 1 {
        pass.block(
            "networkInterfaces",
            "the Machine API supports exactly one network interface",
            "use one",
        );
        return;
    }
    let mut interface = interfaces.swap_remove(0);
    let subnet = interface.take_text("subnetName");
    match interface.take("acceleratedNetworking") {
        Some(Value::Bool(true)) => pass.put("acceleratedNetworking", true.into()),
        Some(Value::Bool(false)) => {}
        _ => pass.report(
            Severity::Blocks,
            interface.path("acceleratedNetworking"),
            "the Machine API does not let Azure choose",
            "set it to true or false",
        ),
    }
    pass.item(RULES, interface);
    let Some(subnet) = subnet else { return };
    if let Lookup::Found(cluster) = pass.cluster()
        && let Some(group) = group_of(cluster, &subnet)
    {
        pass.put("securityGroup", group.into());
    }
    pass.put("subnet", subnet.into());
}

const BALANCERS: Hand = Hand {
    machine_api: &["publicLoadBalancer", "internalLoadBalancer"],
    cluster_api: &[],
    about: "those of the AzureCluster: for control plane machines apiServerLB and controlPlaneOutboundLB, for workers \
            nodeOutboundLB",
    to: balancers_to_cluster_api,
    back: |pass| {
        if let Lookup::Found(cluster) = pass.cluster() {
            let [public, internal] = balancers(cluster, pass.env.control_plane);
            for (field, name) in [("publicLoadBalancer", public), ("internalLoadBalancer", internal)] {
                if let Some(name) = name {
                    pass.put(field, name.into());
                }
            }
        }
    },
};

/// The public and the internal load balancer of a machine.
fn balancers(cluster: &Value, control_plane: bool) -> [Option<String>; 2] {
    let name = |path: &str| tree::text(cluster, path).map(str::to_owned);
    if !control_plane {
        return [name("networkSpec.nodeOutboundLB.name"), None];
    }
    let api_server = name("networkSpec.apiServerLB.name");
    if tree::text(cluster, "networkSpec.apiServerLB.type") == Some("Internal") {
        return [name("networkSpec.controlPlaneOutboundLB.name"), api_server];
    }
    let internal = api_server.as_ref().map(|name| format!("{name}-internal"));
    [api_server, internal]
}

fn balancers_to_cluster_api(pass: &mut Pass<'_>) {
    let found = ["publicLoadBalancer", "internalLoadBalancer"].map(|field| (field, pass.take_text(field)));
    let known = match pass.cluster() {
        Lookup::Unknown => return,
        Lookup::Absent => [None, None],
        Lookup::Found(cluster) => balancers(cluster, pass.env.control_plane),
    };
    for ((field, found), known) in found.into_iter().zip(known) {
        if found == known {
            continue;
        }
        let Some(found) = found else {
            let name = known.unwrap_or_default();
            pass.block(
                field,
                format!("it is not set, but Cluster API adds the machine to {name:?} of the AzureCluster"),
                format!("set it to {name:?}, or keep the object in the Machine API"),
            );
            continue;
        };
        let other = known.map_or_else(|| String::from("none"), |known| format!("{known:?}"));
        pass.block(
            field,
            format!("it is {found:?}, but Cluster API takes it from the AzureCluster, where it is {other}"),
            "give the AzureCluster with this load balancer, or remove the field",
        );
    }
}

fn normal(side: Api, spec: &mut Map<String, Value>) {
    let default = |spec: &mut Map<String, Value>, path: &str, value: &str| {
        if tree::text(&Value::Object(spec.clone()), path).is_none() {
            tree::put(spec, path, value.into());
        }
    };
    default(spec, "osDisk.cachingType", "None");
    if let Some(Value::Object(options)) = spec.get_mut("spotVMOptions") {
        options.retain(|field, value| field != "evictionPolicy" || value.as_str() != Some("Deallocate"));
        let price = options.get("maxPrice").and_then(Value::as_i64);
        if let Some(price) = price {
            options.insert(String::from("maxPrice"), price.to_string().into());
        }
    }
    if side == ClusterApi {
        default(spec, "identity", "None");
        default(spec, DIAGNOSTICS, "Managed");
        let id = |spec: &Map<String, Value>| tree::text(&Value::Object(spec.clone()), "image.id").map(str::to_owned);
        if let Some(id) = id(spec).and_then(|id| relative(&id)) {
            tree::put(spec, "image.id", id.into());
        }
        if let Some(Value::Object(market)) = spec.get_mut("image").and_then(|image| image.get_mut("marketplace")) {
            market.entry("thirdPartyImage").or_insert(Value::Bool(false));
        }
        return;
    }
    if let Some(Value::Array(disks)) = spec.get_mut("dataDisks") {
        for disk in disks.iter_mut().filter_map(Value::as_object_mut) {
            disk.entry("lun").or_insert_with(|| json!(0));
        }
    }
    spec.retain(|field, value| field != "acceleratedNetworking" || value.as_bool() != Some(false));
    let identity = spec.get("managedIdentity").and_then(Value::as_str).map(str::to_owned);
    if let Some(name) = identity.and_then(|id| Some(id.rsplit_once('/')?.1.to_owned())) {
        spec.insert(String::from("managedIdentity"), name.into());
    }
    let Some(Value::Object(image)) = spec.get_mut("image") else {
        return;
    };
    image.retain(|_, value| value.as_str() != Some(""));
    if image.get("type").and_then(Value::as_str) == Some("ID") {
        image.remove("type");
    }
    if image.contains_key("publisher") {
        image.entry("type").or_insert_with(|| "MarketplaceNoPlan".into());
    }
    let id = image.get("resourceID").and_then(Value::as_str).and_then(relative);
    if let Some(id) = id {
        image.insert(String::from("resourceID"), id.into());
    }
}

/// The ID of an image without its subscription.
fn relative(id: &str) -> Option<String> {
    let mut segments = id.strip_prefix('/')?.splitn(3, '/');
    let (first, _, rest) = (segments.next()?, segments.next()?, segments.next()?);
    first.eq_ignore_ascii_case("subscriptions").then(|| format!("/{rest}"))
}
