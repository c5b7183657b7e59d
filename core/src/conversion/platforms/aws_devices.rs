//! The block devices of AWS machines.
//!
//! The Machine API has one list of devices, in which the root volume has no name. Cluster API has
//! `rootVolume` and `nonRootVolumes`.

use serde_json::{Map, Value};

use crate::conversion::Api::{self, ClusterApi, MachineApi};
use crate::conversion::Severity;
use crate::conversion::pass::Pass;
use crate::conversion::pass::rule::{Hand, Literal, Rule, machine_api_only, moved, only, required};
use crate::conversion::shape::Shape;
use crate::conversion::tree::{self, Tree};

/// The block devices.
pub(super) const BLOCK_DEVICES: Hand = Hand {
    machine_api: &["blockDevices"],
    cluster_api: &["rootVolume", "nonRootVolumes"],
    about: "the device without deviceName is rootVolume, and the others are nonRootVolumes",
    to: to_cluster_api,
    back: to_machine_api,
};

/// The smallest size of a volume in Cluster API, in GiB.
const SMALLEST: i64 = 8;
const MANY: i64 = i64::MAX;
const THROUGHPUT: i64 = i32::MAX as i64;

/// The rules of every volume.
pub(super) const VOLUME: &[Rule] = &[
    required(
        MachineApi,
        "ebs.volumeSize",
        "Cluster API requires the size of a volume, at least 8 GiB",
        "set ebs.volumeSize",
    ),
    required(
        ClusterApi,
        "size",
        "the size of a volume must be at least 8 GiB",
        "set the size",
    ),
    moved("ebs.volumeSize", "size", Shape::Int(SMALLEST, MANY)),
    moved("ebs.volumeType", "type", Shape::Text),
    moved("ebs.iops", "iops", Shape::Count(0, MANY)),
    moved("ebs.throughputMib", "throughput", Shape::Count(0, THROUGHPUT)),
    moved("ebs.encrypted", "encrypted", Shape::Bool),
    Rule::Hand(&KEY),
    machine_api_only(
        "ebs.kmsKey.filters",
        "Cluster API selects a key by ID or ARN",
        "set its ID or ARN",
    ),
    machine_api_only(
        "noDevice",
        "Cluster API cannot omit a device of the image",
        "remove the entry",
    ),
    machine_api_only(
        "virtualName",
        "Cluster API has no instance store volumes",
        "remove the entry",
    ),
];

const KEPT: &str = "Cluster API deletes volumes with the instance";
const STORE: &str = "set it to true, and store the data elsewhere";

/// The Machine API ignores the field on the root volume, and respects it on the others.
pub(super) const ROOT_VOLUME: &[Rule] = &[only(
    MachineApi,
    "ebs.deleteOnTermination",
    &[Literal::Bool(true)],
    Severity::Loses,
    KEPT,
    STORE,
)];

/// The rules of a volume other than the root volume.
pub(super) const OTHER_VOLUME: &[Rule] = &[only(
    MachineApi,
    "ebs.deleteOnTermination",
    &[Literal::Bool(true)],
    Severity::Blocks,
    KEPT,
    STORE,
)];

/// Applies the rules of a kind of volume, then those of every volume.
fn volume(pass: &mut Pass<'_>, rules: &'static [Rule], item: Tree) -> Map<String, Value> {
    let mut nested = pass.nested(item);
    nested.apply(rules);
    pass.issues.append(&mut nested.issues);
    pass.item(VOLUME, nested.source)
}

const KEY: Hand = Hand {
    machine_api: &["ebs.kmsKey.id", "ebs.kmsKey.arn"],
    cluster_api: &["encryptionKey"],
    about: "one field; a value that starts with `arn:` is an ARN",
    to: |pass| {
        let (id, arn) = (pass.take_text("ebs.kmsKey.id"), pass.take_text("ebs.kmsKey.arn"));
        match (id, arn) {
            (Some(id), Some(_)) => {
                let path = pass.path("ebs.kmsKey.arn");
                let reason = "Cluster API selects a key by its ID or by its ARN, and the Machine API prefers the ID";
                pass.report(Severity::Loses, path, reason, "remove the ARN");
                pass.put("encryptionKey", id.into());
            }
            (Some(id), None) if id.starts_with("arn:") => {
                pass.block(
                    "ebs.kmsKey.id",
                    "an ID must not be an ARN",
                    "set ebs.kmsKey.arn instead",
                );
            }
            (None, Some(arn)) if !arn.starts_with("arn:") => {
                pass.block(
                    "ebs.kmsKey.arn",
                    "an ARN starts with arn:",
                    "correct the ARN, or set ebs.kmsKey.id",
                );
            }
            (Some(key), None) | (None, Some(key)) => pass.put("encryptionKey", key.into()),
            (None, None) => {}
        }
    },
    back: |pass| {
        if let Some(key) = pass.take_text("encryptionKey") {
            let field = if key.starts_with("arn:") { "arn" } else { "id" };
            pass.put(&format!("ebs.kmsKey.{field}"), key.into());
        }
    },
};

fn to_cluster_api(pass: &mut Pass<'_>) {
    let mut roots = 0;
    let mut others = Vec::new();
    for mut device in pass.take_list("blockDevices") {
        if device.value.is_object() && device.get("ebs").is_none() && !is_refused(&device) {
            pass.report(
                Severity::Loses,
                device.path("ebs"),
                "Cluster API has EBS volumes only, and the Machine API ignores a device without ebs",
                "set ebs, or remove the entry",
            );
            continue;
        }
        match device.take_text("deviceName") {
            Some(name) => {
                let mut volume = volume(pass, OTHER_VOLUME, device);
                volume.insert(String::from("deviceName"), name.into());
                others.push(Value::Object(volume));
            }
            None => {
                if device.get("deviceName").is_some_and(|name| name.as_str() == Some("")) {
                    device.take("deviceName");
                }
                roots += 1;
                let volume = volume(pass, ROOT_VOLUME, device);
                pass.put("rootVolume", volume.into());
            }
        }
    }
    if roots > 1 {
        pass.block(
            "blockDevices",
            "a device without a name is the root volume, of which only one is possible",
            "set the names of the other devices",
        );
    }
    if !others.is_empty() {
        pass.put("nonRootVolumes", others.into());
    }
}

/// Whether the rules for a volume report another field of the device.
fn is_refused(device: &Tree) -> bool {
    ["noDevice", "virtualName"]
        .iter()
        .any(|field| device.get(field).is_some())
}

fn to_machine_api(pass: &mut Pass<'_>) {
    let mut devices = Vec::new();
    let mut root = pass.source.branch("rootVolume");
    if !root.value.is_null() {
        if root.take_text("deviceName").is_some() {
            pass.report(
                Severity::Loses,
                root.path("deviceName"),
                "the Machine API recognises the root volume by its missing device name",
                "remove the name",
            );
        }
        devices.push(Value::Object(pass.item(VOLUME, root)));
    }
    for mut volume in pass.take_list("nonRootVolumes") {
        let Some(name) = volume.take_text("deviceName") else {
            pass.report(
                Severity::Blocks,
                volume.path("deviceName"),
                "the Machine API takes a volume without a device name for the root volume",
                "set the name",
            );
            continue;
        };
        let mut device = pass.item(VOLUME, volume);
        device.insert(String::from("deviceName"), name.into());
        devices.push(Value::Object(device));
    }
    if !devices.is_empty() {
        pass.put("blockDevices", devices.into());
    }
}

/// Puts the root volume first, and removes what means the same as absent.
pub(super) fn normal(side: Api, spec: &mut Map<String, Value>) {
    if side == ClusterApi {
        let root = spec.get("rootVolume").cloned();
        let others = spec.get("nonRootVolumes").and_then(Value::as_array).cloned();
        let without_zeros = |mut volume: Value| {
            if let Some(fields) = volume.as_object_mut() {
                fields.retain(|field, value| {
                    !["iops", "throughput"].contains(&field.as_str()) || value.as_i64() != Some(0)
                });
            }
            volume
        };
        if let Some(root) = root {
            spec.insert(String::from("rootVolume"), without_zeros(root));
        }
        if let Some(others) = others {
            let others = others.into_iter().map(without_zeros).collect();
            spec.insert(String::from("nonRootVolumes"), others);
        }
        return;
    }
    let Some(Value::Array(devices)) = spec.get_mut("blockDevices") else {
        return;
    };
    devices.sort_by_key(|device| tree::text(device, "deviceName").is_some());
    for device in devices {
        let Some(ebs) = device.get_mut("ebs").and_then(Value::as_object_mut) else {
            continue;
        };
        ebs.retain(|field, value| match field.as_str() {
            "iops" | "throughputMib" => value.as_i64() != Some(0),
            "deleteOnTermination" => value.as_bool() != Some(true),
            _ => true,
        });
    }
}
