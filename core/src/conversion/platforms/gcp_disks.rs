//! The disks of GCP machines.
//!
//! The Machine API has one list of disks. Cluster API has fields for the boot disk, and a list of
//! additional disks, which start empty.

use serde_json::{Map, Value, json};

use crate::conversion::Api::MachineApi;
use crate::conversion::Severity;
use crate::conversion::pass::rule::{
    Hand, Literal, Rule, cluster_api_only, constant, machine_api_only, moved, required, same,
};
use crate::conversion::pass::{Pass, is_empty};
use crate::conversion::shape::Shape;
use crate::conversion::tree::{self, Tree};

/// The disks.
pub(super) const DISKS: Hand = Hand {
    machine_api: &["disks"],
    cluster_api: &[
        "image",
        "rootDeviceSize",
        "rootDeviceType",
        "rootDiskEncryptionKey",
        "additionalDisks",
    ],
    about: "the boot disk is image, rootDeviceSize, rootDeviceType and rootDiskEncryptionKey; the others are \
            additionalDisks",
    to: to_cluster_api,
    back: to_machine_api,
};

/// In GB.
const DEFAULT_SIZE: i64 = 30;
const DEFAULT_TYPE: &str = "pd-standard";
const MANY: i64 = i64::MAX;

/// What every disk of the Machine API has.
pub(super) const DISK: &[Rule] = &[
    required(
        MachineApi,
        "autoDelete",
        "Cluster API deletes disks with the instance, and the Machine API keeps them without this field",
        "set it to true, and store the data elsewhere",
    ),
    constant(
        MachineApi,
        "autoDelete",
        Literal::Bool(true),
        "Cluster API deletes disks with the instance",
        "set it to true, and store the data elsewhere",
    ),
    machine_api_only("labels", "Cluster API does not label disks", "remove them"),
];

const SIZE: &str = "Cluster API makes a disk without a size as large as 30 GB";
const TYPE: &str = "Cluster API gives a disk without a type the type pd-standard";

/// Completes a disk of Cluster API with the size and the type that its provider chooses.
fn complete(disk: &mut Map<String, Value>, size: &str, kind: &str) {
    if disk
        .get(size)
        .is_none_or(|value| value.is_null() || value.as_i64() == Some(0))
    {
        disk.insert(size.to_owned(), DEFAULT_SIZE.into());
    }
    if disk.get(kind).is_none_or(is_empty) {
        disk.insert(kind.to_owned(), DEFAULT_TYPE.into());
    }
}

/// The rules of the boot disk.
pub(super) const BOOT: &[Rule] = &[
    required(
        MachineApi,
        "image",
        "without an image of its own, Cluster API starts a machine with another one",
        "set the image of the boot disk",
    ),
    moved("image", "image", Shape::Text),
    required(MachineApi, "sizeGb", SIZE, "set sizeGb"),
    required(MachineApi, "type", TYPE, "set the type of the disk"),
    moved("sizeGb", "rootDeviceSize", Shape::Count(0, MANY)),
    moved("type", "rootDeviceType", Shape::Text),
    Rule::Hand(&BOOT_KEY),
];

/// The rules of an additional disk.
pub(super) const ADDITIONAL: &[Rule] = &[
    required(MachineApi, "sizeGb", SIZE, "set sizeGb"),
    required(MachineApi, "type", TYPE, "set the type of the disk"),
    moved("sizeGb", "size", Shape::Count(0, MANY)),
    moved("type", "deviceType", Shape::Text),
    machine_api_only(
        "image",
        "an additional disk of Cluster API starts empty",
        "remove the image",
    ),
    Rule::Hand(&ADDITIONAL_KEY),
];

const BOOT_KEY: Hand = Hand {
    machine_api: &["encryptionKey"],
    cluster_api: &["rootDiskEncryptionKey"],
    about: "the full name of the key",
    to: |pass| key_to_cluster_api(pass, "rootDiskEncryptionKey"),
    back: |pass| key_to_machine_api(pass, "rootDiskEncryptionKey"),
};

const ADDITIONAL_KEY: Hand = Hand {
    machine_api: &["encryptionKey"],
    cluster_api: &["encryptionKey"],
    about: "the full name of the key",
    to: |pass| key_to_cluster_api(pass, "encryptionKey"),
    back: |pass| key_to_machine_api(pass, "encryptionKey"),
};

const ACCOUNT: Rule = same(
    "kmsKeyServiceAccount",
    Shape::TextThat(
        is_account,
        "must be the email address of a service account, with at most 85 characters",
    ),
);

fn is_account(text: &str) -> bool {
    text.len() <= 85
        && text
            .strip_suffix(".iam.gserviceaccount.com")
            .and_then(|rest| rest.split_once('@'))
            .is_some_and(|(name, domain)| is_segment(name) && is_segment(domain))
}

fn is_segment(text: &str) -> bool {
    !text.is_empty()
        && text
            .chars()
            .all(|letter| letter.is_ascii_alphanumeric() || "-_.".contains(letter))
}

/// A segment of the name of a key, without dots.
fn is_key_segment(text: &str) -> bool {
    is_segment(text) && !text.contains('.')
}

fn key_to_cluster_api(pass: &mut Pass<'_>, to: &str) {
    const RULES: &[Rule] = &[ACCOUNT];
    let mut key = pass.source.branch("encryptionKey");
    if key.value.is_null() {
        return;
    }
    let mut part = |field: &str| key.take_text(&format!("kmsKey.{field}"));
    let project = part("projectID").or_else(|| project(pass));
    let parts = (project, part("location"), part("keyRing"), part("name"));
    let (Some(project), Some(location), Some(ring), Some(name)) = parts else {
        pass.report(
            Severity::Blocks,
            key.path("kmsKey"),
            "Cluster API names a key by its project, location, key ring and name",
            "set projectID, location, keyRing and name",
        );
        return;
    };
    let is_project = project
        .chars()
        .all(|letter| letter.is_ascii_alphanumeric() || "-_:".contains(letter));
    let name = format!("projects/{project}/locations/{location}/keyRings/{ring}/cryptoKeys/{name}");
    let segments_fit = name.split('/').skip(2).all(is_key_segment);
    if !is_project || !segments_fit || name.len() > 160 {
        pass.report(
            Severity::Blocks,
            key.path("kmsKey"),
            "Cluster API accepts names of keys of letters, digits, hyphens and underscores, with at most 160 characters",
            "use another key",
        );
    }
    let mut converted = pass.item(RULES, key);
    converted.insert(String::from("keyType"), "Managed".into());
    converted.insert(String::from("managedKey"), json!({"kmsKeyName": name}));
    pass.put(to, converted.into());
}

/// The project that the machines of the cluster are in.
fn project(pass: &Pass<'_>) -> Option<String> {
    let shared = pass.env.context.shared("GCPCluster", &["project"], "gcp.projectID");
    match shared {
        crate::conversion::pass::Shared::Value { value, .. } => Some(value.to_owned()),
        _ => None,
    }
}

fn key_to_machine_api(pass: &mut Pass<'_>, from: &'static str) {
    const RULES: &[Rule] = &[
        ACCOUNT,
        cluster_api_only(
            "suppliedKey",
            "the Machine API supports managed keys only",
            "use managedKey",
        ),
    ];
    let mut key = pass.source.branch(from);
    if key.value.is_null() {
        return;
    }
    let kind = key.take_text("keyType");
    let name = key.take_text("managedKey.kmsKeyName").unwrap_or_default();
    let path = key.path("managedKey.kmsKeyName");
    let is_empty = |key: &Value| key.as_object().is_some_and(serde_json::Map::is_empty);
    let content = key.get("suppliedKey").filter(|key| !is_empty(key)).is_some();
    let supplied = kind.as_deref() == Some("Supplied") || key.get("suppliedKey").is_some();
    let without_content = (supplied && !content).then(|| key.path("keyType"));
    if kind
        .as_deref()
        .is_some_and(|kind| !["Managed", "Supplied"].contains(&kind))
    {
        pass.report(
            Severity::Blocks,
            key.path("keyType"),
            "the Machine API encrypts disks with managed keys",
            "set it to Managed",
        );
    }
    let mut converted = pass.item(RULES, key);
    let segments: Vec<&str> = name.split('/').collect();
    match segments.as_slice() {
        [
            "projects",
            project,
            "locations",
            location,
            "keyRings",
            ring,
            "cryptoKeys",
            name,
        ] => {
            let key = json!({"projectID": project, "location": location, "keyRing": ring, "name": name});
            converted.insert(String::from("kmsKey"), key);
        }
        // The rules report a key that is supplied.
        _ if content => {}
        _ if supplied => pass.report(
            Severity::Blocks,
            without_content.unwrap_or(path),
            "the Machine API supports managed keys only",
            "use managedKey",
        ),
        _ => pass.report(
            Severity::Blocks,
            path,
            "must be projects/P/locations/L/keyRings/R/cryptoKeys/K",
            "correct the name of the key",
        ),
    }
    pass.put("encryptionKey", converted.into());
}

fn to_cluster_api(pass: &mut Pass<'_>) {
    let mut boots = 0;
    let mut additional = Vec::new();
    let disks = pass.take_list("disks");
    let is_boot = |disk: &Tree| disk.get("boot") == Some(&Value::Bool(true));
    let has_boot = disks.iter().any(is_boot);
    for mut disk in disks {
        let boot = match disk.take("boot") {
            None | Some(Value::Bool(false)) => false,
            Some(Value::Bool(true)) => true,
            Some(_) => {
                let path = disk.path("boot");
                pass.report(Severity::Blocks, path, "must be true or false", "correct the value");
                continue;
            }
        };
        let rules = if boot { BOOT } else { ADDITIONAL };
        let mut disk = common(pass, disk);
        if !has_boot {
            // One of the disks is to boot, and an image is right on that one.
            disk.take("image");
        }
        let converted = pass.item(rules, disk);
        if boot {
            boots += 1;
            for (field, value) in converted {
                pass.put(&field, value);
            }
        } else {
            additional.push(Value::Object(converted));
        }
    }
    if boots != 1 {
        pass.block(
            "disks",
            "Cluster API has exactly one boot disk",
            "set boot to true on the disk with the operating system, and to false on the others",
        );
    }
    if !additional.is_empty() {
        pass.put("additionalDisks", additional.into());
    }
}

/// Applies the rules for every disk, and returns the rest.
fn common(pass: &mut Pass<'_>, disk: Tree) -> Tree {
    let mut nested = pass.nested(disk);
    nested.apply(DISK);
    pass.issues.append(&mut nested.issues);
    if nested.source.get("sizeGb").and_then(Value::as_i64) == Some(0) {
        // It means the same as an absent size, which is an issue.
        nested.source.take("sizeGb");
    }
    nested.source
}

fn to_machine_api(pass: &mut Pass<'_>) {
    let mut fields = Map::new();
    for field in ["image", "rootDeviceSize", "rootDeviceType", "rootDiskEncryptionKey"] {
        if let Some(value) = pass.take(field) {
            fields.insert(field.to_owned(), value);
        }
    }
    complete(&mut fields, "rootDeviceSize", "rootDeviceType");
    let root = pass.source.path("");
    let mut disks = vec![pass.item(BOOT, Tree::new(root, fields.into()))];
    for mut disk in pass.take_list("additionalDisks") {
        if let Some(fields) = disk.value.as_object_mut() {
            complete(fields, "size", "deviceType");
        }
        disks.push(pass.item(ADDITIONAL, disk));
    }
    let disks = disks.into_iter().enumerate().map(|(index, mut disk)| {
        disk.insert(String::from("boot"), Value::Bool(index == 0));
        disk.insert(String::from("autoDelete"), Value::Bool(true));
        Value::Object(disk)
    });
    let disks = disks.collect();
    pass.put("disks", disks);
}

/// Completes the type of a key, which is `Managed` for every key that can be converted.
pub(super) fn normal_machine(spec: &mut Map<String, Value>) {
    complete(spec, "rootDeviceSize", "rootDeviceType");
    let complete_key = |key: Option<&mut Value>| {
        if let Some(Value::Object(key)) = key {
            key.entry("keyType").or_insert_with(|| "Managed".into());
        }
    };
    complete_key(spec.get_mut("rootDiskEncryptionKey"));
    for disk in spec
        .get_mut("additionalDisks")
        .and_then(Value::as_array_mut)
        .into_iter()
        .flatten()
    {
        complete_key(disk.get_mut("encryptionKey"));
        if let Some(fields) = disk.as_object_mut() {
            complete(fields, "size", "deviceType");
        }
    }
}

/// Puts the boot disk first, and completes what has a default.
pub(super) fn normal(spec: &mut Map<String, Value>) {
    let project = spec.get("projectID").cloned();
    let Some(Value::Array(disks)) = spec.get_mut("disks") else {
        return;
    };
    disks.sort_by_key(|disk| disk.get("boot").and_then(Value::as_bool) != Some(true));
    for disk in disks.iter_mut().filter_map(Value::as_object_mut) {
        disk.entry("boot").or_insert(Value::Bool(false));
        disk.retain(|field, value| field != "sizeGb" || value.as_i64() != Some(0));
        let has_key = tree::get(&Value::Object(disk.clone()), "encryptionKey.kmsKey").is_some();
        if let Some(project) = project.clone().filter(|_| has_key)
            && disk
                .get("encryptionKey")
                .and_then(|key| tree::get(key, "kmsKey.projectID"))
                .is_none()
        {
            tree::put(disk, "encryptionKey.kmsKey.projectID", project);
        }
    }
}
