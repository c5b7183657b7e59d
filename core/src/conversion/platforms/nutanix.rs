//! Nutanix: `NutanixMachineProviderConfig` and `NutanixMachine` (v1beta1).

use serde_json::{Map, Value};

use super::Platform;
use super::aws::{SHORT, short};
use crate::conversion::Api::{self, ClusterApi, MachineApi};
use crate::conversion::pass::Pass;
use crate::conversion::pass::rule::{
    Hand, Literal, Rule, cluster_api_only, constant, inner, list, local, moved, object, only, required, same,
};
use crate::conversion::shape::{Shape, is_uuid};
use crate::conversion::{Severity, tree};

/// Nutanix.
pub(super) const PLATFORM: Platform = Platform {
    id: "nutanix",
    title: "Nutanix",
    platform_type: "Nutanix",
    provider_spec: "NutanixMachineProviderConfig",
    provider_spec_version: "machine.openshift.io/v1",
    machine: "NutanixMachine",
    version: "v1beta1",
    crd: "nutanix-cloud-native/cluster-api-provider-nutanix, August 2026",
    cluster: "NutanixCluster",
    user_data: "userDataSecret",
    rules: RULES,
    computed: &[],
    has_instance_state: false,
    has_provider_id: true,
    hand_over: None,
    normal,
};

const POSITIVE: Shape = Shape::Int(1, i32::MAX as i64);
const ID: Shape = Shape::TextThat(is_uuid, "must be a UUID");

const RULES: &[Rule] = &[
    required(MachineApi, "cluster.type", "a machine runs in a cluster", "set cluster"),
    required(
        ClusterApi,
        "cluster.type",
        "the Machine API requires a cluster",
        "set cluster",
    ),
    object("cluster", "cluster", IDENTIFIER),
    required(MachineApi, "image.type", "a machine starts from an image", "set image"),
    required(
        ClusterApi,
        "image.type",
        "the Machine API requires an image",
        "set image",
    ),
    object("image", "image", IDENTIFIER),
    object("project", "project", IDENTIFIER),
    required(MachineApi, "subnets", "a machine has a subnet", "set subnets"),
    required(ClusterApi, "subnet", "the Machine API requires a subnet", "set subnet"),
    Rule::Hand(&SUBNETS),
    inner("subnets[]", "subnet[]", IDENTIFIER),
    required(MachineApi, "vcpusPerSocket", "Cluster API requires it", "set it"),
    same("vcpusPerSocket", POSITIVE),
    required(MachineApi, "vcpuSockets", "Cluster API requires it", "set it"),
    same("vcpuSockets", POSITIVE),
    required(MachineApi, "memorySize", "Cluster API requires it", "set it"),
    same("memorySize", Shape::Quantity),
    required(MachineApi, "systemDiskSize", "Cluster API requires it", "set it"),
    same("systemDiskSize", Shape::Quantity),
    same("bootType", Shape::Words(&[("Legacy", "legacy"), ("UEFI", "uefi")])),
    list("categories", "additionalCategories", CATEGORY),
    list("gpus", "gpus", GPU),
    list("dataDisks", "dataDisks", DATA_DISK),
    moved(
        "failureDomain.name",
        "Machine.failureDomain",
        Shape::TextThat(short, SHORT),
    ),
    constant(
        MachineApi,
        "credentialsSecret.name",
        Literal::Text("nutanix-credentials"),
        "Cluster API uses the credentials of the cluster",
        "use the Secret nutanix-credentials",
    ),
    cluster_api_only("imageLookup", "the Machine API has no image lookup", "set image"),
    only(
        ClusterApi,
        "bootstrapRef.kind",
        &[Literal::Text("Secret")],
        Severity::Blocks,
        "the Machine API bootstraps a machine from a Secret",
        "set the bootstrap Secret of the Machine",
    ),
    local(ClusterApi, "bootstrapRef.apiVersion", BOOTSTRAP),
    local(ClusterApi, "bootstrapRef.name", BOOTSTRAP),
    local(ClusterApi, "bootstrapRef.namespace", BOOTSTRAP),
    local(ClusterApi, "bootstrapRef.uid", BOOTSTRAP),
    local(ClusterApi, "bootstrapRef.resourceVersion", BOOTSTRAP),
    local(ClusterApi, "bootstrapRef.fieldPath", BOOTSTRAP),
];

const BOOTSTRAP: &str = "not converted: the controller of Cluster API sets it to the Secret of the Machine";

const IDENTIFIER: &[Rule] = &[
    same("type", Shape::Words(&[("uuid", "uuid"), ("name", "name")])),
    same("uuid", ID),
    same("name", Shape::Text),
    Rule::Hand(&ONE_IDENTIFIER),
];

const CATEGORY: &[Rule] = &[same("key", Shape::Text), same("value", Shape::Text)];

const GPU: &[Rule] = &[
    required(
        MachineApi,
        "type",
        "a GPU is selected by its name or its device ID",
        "set the type",
    ),
    same("type", Shape::Words(&[("Name", "name"), ("DeviceID", "deviceID")])),
    same("deviceID", Shape::Int(0, i32::MAX as i64)),
    same("name", Shape::Text),
];

const DATA_DISK: &[Rule] = &[
    required(MachineApi, "diskSize", "a disk has a size", "set it"),
    same("diskSize", Shape::Quantity),
    object("deviceProperties", "deviceProperties", DEVICE),
    object("storageConfig", "storageConfig", STORAGE),
    object("dataSource", "dataSource", IDENTIFIER),
];

const DEVICE: &[Rule] = &[
    required(
        MachineApi,
        "adapterType",
        "Cluster API requires the type of the adapter",
        "set it",
    ),
    required(
        MachineApi,
        "deviceType",
        "Cluster API requires the type of the device",
        "set it",
    ),
    same("deviceType", Shape::Words(&[("Disk", "Disk"), ("CDRom", "CDRom")])),
    same(
        "adapterType",
        Shape::Words(&[
            ("SCSI", "SCSI"),
            ("IDE", "IDE"),
            ("PCI", "PCI"),
            ("SATA", "SATA"),
            ("SPAPR", "SPAPR"),
        ]),
    ),
    same("deviceIndex", Shape::Count(0, i32::MAX as i64)),
];

const STORAGE: &[Rule] = &[
    required(
        MachineApi,
        "diskMode",
        "Cluster API requires the mode of the disk",
        "set it",
    ),
    same(
        "diskMode",
        Shape::Words(&[("Standard", "Standard"), ("Flash", "Flash")]),
    ),
    object("storageContainer", "storageContainer", CONTAINER),
];

const CONTAINER: &[Rule] = &[
    same("type", Shape::Words(&[("uuid", "uuid")])),
    same("uuid", ID),
    cluster_api_only(
        "name",
        "the Machine API selects a storage container by its UUID only",
        "use its UUID",
    ),
    Rule::Hand(&ONE_IDENTIFIER),
];

const ONE_IDENTIFIER: Hand = Hand {
    machine_api: &[],
    cluster_api: &[],
    about: "the field that the type names must be set, and no other",
    to: one_identifier,
    back: one_identifier,
};

fn one_identifier(pass: &mut Pass<'_>) {
    let set = |field: &str| pass.target.contains_key(field);
    let fits = match pass.target.get("type").and_then(Value::as_str) {
        Some("uuid") => set("uuid") && !set("name"),
        Some("name") => set("name") && !set("uuid"),
        _ => pass.target.is_empty(),
    };
    if !fits && pass.issues.is_empty() {
        pass.block(
            "type",
            "must be uuid or name, with exactly that field set",
            "correct the identifier",
        );
    }
}

const SUBNETS: Hand = Hand {
    machine_api: &["subnets"],
    cluster_api: &["subnet"],
    about: "same items, at most 32",
    to: |pass| subnets(pass, "subnets", "subnet"),
    back: |pass| subnets(pass, "subnet", "subnets"),
};

fn subnets(pass: &mut Pass<'_>, from: &str, to: &str) {
    let items = pass.take_list(from);
    if items.len() > 32 {
        pass.block(from, "Cluster API allows at most 32 subnets", "use fewer subnets");
    }
    let mut converted: Vec<Value> = Vec::new();
    for item in items {
        let path = item.root.clone();
        let item = Value::Object(pass.item(IDENTIFIER, item));
        if crate::conversion::pass::is_empty(&item) {
            let reason = "a subnet must be selected by its name or its UUID";
            pass.report(Severity::Blocks, path, reason, "set type, and name or uuid");
        } else if converted.contains(&item) {
            pass.report(
                Severity::Blocks,
                path,
                "Cluster API accepts each subnet once",
                "remove the duplicate",
            );
        }
        converted.push(item);
    }
    if !converted.is_empty() {
        pass.put(to, converted.into());
    }
}

/// The fields with a default in the schema of Cluster API.
fn normal(side: Api, spec: &mut Map<String, Value>) {
    if side == ClusterApi {
        spec.remove("bootstrapRef");
    }
    if let Some(Value::Array(disks)) = spec.get_mut("dataDisks") {
        for disk in disks.iter_mut().filter_map(Value::as_object_mut) {
            let index = disk
                .get("deviceProperties")
                .and_then(|device| tree::get(device, "deviceIndex"));
            if index.and_then(Value::as_i64) == Some(0)
                && let Some(Value::Object(device)) = disk.get_mut("deviceProperties")
            {
                device.remove("deviceIndex");
            }
        }
    }
}
