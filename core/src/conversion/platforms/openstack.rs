//! OpenStack: `OpenstackProviderSpec` and `OpenStackMachine` (v1beta1).

use serde_json::{Map, Value, json};

use super::Platform;
use super::aws::{SHORT, short};
use super::openstack_filters::{ONE_SELECTION, PROJECT, TAGS, UUID, normal_project, unique};
use super::openstack_ports::{COMMON, NETWORK, PORT, PORTS, SUBNET};
use crate::conversion::Api::{self, ClusterApi, MachineApi};
use crate::conversion::Severity;
use crate::conversion::metadata::{self, ZONE};
use crate::conversion::pass::Pass;
use crate::conversion::pass::keep::Described;
use crate::conversion::pass::rule::{
    Hand, Literal, Rule, cluster_api_only, inner, machine_api_only, moved, object, only, required,
    required_of_cluster_api, same,
};
use crate::conversion::shape::{Converted, Fault, Shape, fault, is_uuid};
use crate::conversion::tree;

/// OpenStack.
pub(super) const PLATFORM: Platform = Platform {
    id: "openstack",
    title: "OpenStack",
    platform_type: "OpenStack",
    provider_spec: "OpenstackProviderSpec",
    provider_spec_version: "machine.openshift.io/v1alpha1",
    machine: "OpenStackMachine",
    version: "v1beta1",
    crd: "kubernetes-sigs/cluster-api-provider-openstack, August 2026",
    cluster: "OpenStackCluster",
    user_data: "userDataSecret",
    rules: RULES,
    computed: &[(metadata::INSTANCE_TYPE, "flavor"), (ZONE, "availabilityZone")],
    has_instance_state: true,
    has_provider_id: false,
    hand_over: None,
    normal,
};

const BY_NAME: &str = "the Machine API selects an image by its name";
const FROM_IMAGE: &str = "Cluster API creates the root volume from the image";
const RULES: &[Rule] = &[
    Rule::Hand(&IMAGE_OF_VOLUME),
    required(
        MachineApi,
        "image",
        "Cluster API selects an image by its name",
        "set image to the name of an image",
    ),
    required_of_cluster_api("image.filter.name", BY_NAME, "use image.filter.name"),
    moved("image", "image.filter.name", Shape::Text),
    cluster_api_only("image.id", BY_NAME, "use image.filter.name"),
    cluster_api_only("image.imageRef", BY_NAME, "use image.filter.name"),
    only(
        ClusterApi,
        "image.filter.tags",
        &[],
        Severity::Loses,
        BY_NAME,
        "remove the tags",
    ),
    required(MachineApi, "flavor", "Cluster API requires a flavor", "set flavor"),
    required(
        ClusterApi,
        "flavor",
        "the Machine API selects a flavor by its name",
        "set flavor",
    ),
    same("flavor", Shape::Text),
    cluster_api_only("flavorID", "the Machine API selects a flavor by its name", "set flavor"),
    Rule::Hand(&CREDENTIALS),
    moved("keyName", "sshKeyName", Shape::Text),
    same("trunk", Shape::Flag),
    same(
        "tags",
        Shape::Codec {
            to: unique,
            back: unique,
            about: "list of strings, each once",
        },
    ),
    same("configDrive", Shape::Bool),
    moved(
        "serverMetadata",
        "serverMetadata",
        Shape::Codec {
            to: metadata_to_cluster_api,
            back: metadata_to_machine_api,
            about: "a map is a list of key and value",
        },
    ),
    Rule::Hand(&SERVER_GROUP),
    moved(
        "availabilityZone",
        "Machine.failureDomain",
        Shape::TextThat(short, SHORT),
    ),
    Rule::Hand(&SECURITY_GROUPS),
    inner("securityGroups[]", "securityGroups[]", GROUP),
    object("rootVolume", "rootVolume", ROOT_VOLUME),
    Rule::Hand(&VOLUME_OF_IMAGE),
    Rule::Hand(&BLOCK_DEVICES),
    inner("additionalBlockDevices[]", "additionalBlockDevices[]", BLOCK_DEVICE),
    Rule::Hand(&PRIMARY_SUBNET),
    Rule::Hand(&PORTS),
    inner("ports[]", "ports[]", PORT),
    inner("ports[]", "ports[]", COMMON),
    inner("networks[]", "ports[]", NETWORK),
    inner("networks[].subnets[]", "ports[].fixedIPs[].subnet", SUBNET),
    machine_api_only(
        "floatingIP",
        "Cluster API does not assign a given floating IP",
        "remove it",
    ),
    machine_api_only("sshUserName", "Cluster API has no SSH user", "remove it"),
    cluster_api_only("floatingIPPoolRef", "the Machine API has no address pools", "remove it"),
    cluster_api_only(
        "schedulerHintAdditionalProperties",
        "the Machine API has no scheduler hints",
        "remove them",
    ),
];

/// The section of the annotation with the image of a root volume.
const VOLUME_SECTION: &str = "rootVolume";

/// A machine with a root volume names its image in the root volume; the Machine API ignores `image`
/// then.
const IMAGE_OF_VOLUME: Hand = Hand {
    machine_api: &["rootVolume.sourceUUID", "rootVolume.sourceType"],
    cluster_api: &[],
    about: "the name of the image of a root volume, if `image` is absent or the same; carried along",
    to: |pass| {
        let (Some(name), image) = (
            tree::text(&pass.source.value, "rootVolume.sourceUUID").map(str::to_owned),
            tree::text(&pass.source.value, "image").map(str::to_owned),
        ) else {
            return;
        };
        if image.as_ref().is_some_and(|image| *image != name) {
            return;
        }
        let mut original = Map::new();
        original.insert(String::from("image"), image.is_some().into());
        if let Some(kind) = tree::text(&pass.source.value, "rootVolume.sourceType").map(str::to_owned) {
            pass.take("rootVolume.sourceType");
            original.insert(String::from("sourceType"), kind.into());
        }
        pass.take("rootVolume.sourceUUID");
        if let Value::Object(spec) = &mut pass.source.value {
            spec.insert(String::from("image"), name.as_str().into());
        }
        pass.keep(VOLUME_SECTION, original.into(), Described::Value(name.into()));
    },
    back: |_| {},
};

/// Restores the image of a root volume.
const VOLUME_OF_IMAGE: Hand = Hand {
    machine_api: &[],
    cluster_api: &[],
    about: "the image of a root volume comes back where it was",
    to: |_| {},
    back: |pass| {
        let Some(image) = pass.target.get("image").cloned() else {
            return;
        };
        let Some(original) = pass.restored(VOLUME_SECTION, &Described::Value(image.clone())) else {
            return;
        };
        if !pass.target.contains_key("rootVolume") {
            return;
        }
        pass.put("rootVolume.sourceUUID", image);
        if let Some(kind) = tree::text(&original, "sourceType") {
            pass.put("rootVolume.sourceType", kind.into());
        }
        if original.get("image") == Some(&Value::Bool(false)) {
            pass.target.remove("image");
        }
    },
};

/// The Machine API accepts the field and ignores it.
const PRIMARY_SUBNET: Hand = Hand {
    machine_api: &["primarySubnet"],
    cluster_api: &[],
    about: "carried along while the ports are the same; the Machine API ignores it",
    to: |pass| {
        if let Some(subnet) = pass.take_text("primarySubnet") {
            pass.keep("primarySubnet", subnet.into(), PORTS_OF_MACHINE);
        }
    },
    back: |pass| {
        let subnet = pass.restored("primarySubnet", &PORTS_OF_MACHINE);
        if let Some(subnet) = subnet.filter(Value::is_string) {
            pass.put("primarySubnet", subnet);
        }
    },
};

const PORTS_OF_MACHINE: Described = Described::Fields(&["ports"]);

const ROOT_VOLUME: &[Rule] = &[
    required(
        MachineApi,
        "diskSize",
        "Cluster API requires the size of the root volume",
        "set it",
    ),
    required(
        ClusterApi,
        "sizeGiB",
        "the Machine API requires the size of the root volume",
        "set it",
    ),
    moved("diskSize", "sizeGiB", Shape::Int(1, i32::MAX as i64)),
    moved("volumeType", "type", Shape::Text),
    Rule::Hand(&ZONE_OF_VOLUME),
    only(
        MachineApi,
        "sourceUUID",
        &[],
        Severity::Loses,
        FROM_IMAGE,
        "set image instead",
    ),
    only(MachineApi, "sourceType", &[], Severity::Loses, FROM_IMAGE, "remove it"),
    only(
        MachineApi,
        "deviceType",
        &[],
        Severity::Loses,
        "Cluster API has no device type for the root volume",
        "remove it",
    ),
];

const BLOCK_DEVICE: &[Rule] = &[
    required(MachineApi, "name", "a block device has a name", "set it"),
    required(MachineApi, "sizeGiB", "a block device has a size", "set it"),
    same("name", Shape::Text),
    same("sizeGiB", Shape::Int(1, i32::MAX as i64)),
    required(MachineApi, "storage.type", "a block device has a type", "set it"),
    same(
        "storage.type",
        Shape::Words(&[("Volume", "Volume"), ("Local", "Local")]),
    ),
    object("storage.volume", "storage.volume", VOLUME),
];

const VOLUME: &[Rule] = &[same("type", Shape::Text), Rule::Hand(&ZONE_OF_VOLUME)];

const ZONE_OF_VOLUME: Hand = Hand {
    machine_api: &["availabilityZone"],
    cluster_api: &["availabilityZone"],
    about: "the name of the zone",
    to: |pass| {
        if let Some(zone) = pass.take_text("availabilityZone") {
            if zone.contains(' ') {
                pass.block("availabilityZone", "must not contain spaces", "correct the name");
            }
            pass.put("availabilityZone", json!({"from": "Name", "name": zone}));
        }
    },
    back: |pass| {
        let mut zone = pass.source.branch("availabilityZone");
        if zone.value.is_null() {
            return;
        }
        let from = zone.take_text("from");
        let path = zone.path("from");
        match (from.as_deref(), zone.take_text("name")) {
            (None | Some("Name"), Some(name)) if !name.contains(' ') => pass.put("availabilityZone", name.into()),
            (None | Some("Name"), Some(_)) => {
                let path = zone.path("name");
                pass.report(Severity::Blocks, path, "must not contain spaces", "correct the name");
            }
            _ => pass.report(
                Severity::Blocks,
                path,
                "the Machine API names the zone of a volume",
                "set from to Name, and the name of the zone",
            ),
        }
        metadata::report_rest(&zone, MachineApi, &mut pass.issues);
    },
};

fn metadata_to_cluster_api(value: &Value) -> Converted {
    let Some(Value::Object(map)) = Shape::TextMap.convert(MachineApi, value)? else {
        return Ok(None);
    };
    check_lengths(&map)?;
    Ok(Some(
        map.into_iter()
            .map(|(key, value)| json!({"key": key, "value": value}))
            .collect(),
    ))
}

/// The CRD of Cluster API limits the lengths. A file may contain longer ones.
fn check_lengths(map: &Map<String, Value>) -> Result<(), Fault> {
    let long = |text: &str| text.chars().count() > 255;
    let is_long = |(key, value): (&String, &Value)| long(key) || value.as_str().is_some_and(long);
    if map.iter().any(is_long) {
        return Err(fault(
            "keys and values must have at most 255 characters",
            "use shorter ones",
        ));
    }
    Ok(())
}

fn metadata_to_machine_api(value: &Value) -> Converted {
    let map = crate::conversion::shape::pairs(value, "key", "value")?;
    check_lengths(&map)?;
    Ok((!map.is_empty()).then_some(map.into()))
}

const CREDENTIALS: Hand = Hand {
    machine_api: &["cloudsSecret", "cloudName"],
    cluster_api: &["identityRef"],
    about: "the Secret and the cloud; another Secret than `openstack-cloud-credentials` must exist in the namespaces of \
            both APIs",
    to: credentials_to_cluster_api,
    back: credentials_to_machine_api,
};

/// The Secret that the platform provides in the namespaces of both APIs.
const SECRET: &str = "openstack-cloud-credentials";
const COPY: &str = "copy the Secret and give the copy too, or use openstack-cloud-credentials";

fn credentials_to_cluster_api(pass: &mut Pass<'_>) {
    const RULES: &[Rule] = &[
        moved("name", "name", Shape::Text),
        only(
            MachineApi,
            "namespace",
            &[Literal::Text("openshift-machine-api")],
            Severity::Blocks,
            "Cluster API reads the Secret from the namespace of the Machine",
            "move the Secret to the namespace openshift-machine-api and remove the field",
        ),
    ];
    let secret = pass.source.branch("cloudsSecret");
    let cloud = pass.take_text("cloudName");
    let mut reference = match secret.value {
        Value::Null => Map::new(),
        _ => pass.item(RULES, secret),
    };
    let name = reference.get("name").and_then(Value::as_str).map(str::to_owned);
    match (name, cloud) {
        (None, None) => {}
        (Some(name), Some(cloud)) => {
            if let Some(reason) = pass.env.context.missing_secret(&name, &[SECRET], ClusterApi) {
                pass.block("cloudsSecret.name", reason, COPY);
            }
            reference.insert(String::from("cloudName"), cloud.into());
            reference.insert(String::from("type"), "Secret".into());
            pass.put("identityRef", reference.into());
        }
        (Some(_), None) => pass.block(
            "cloudName",
            "Cluster API requires the name of the cloud",
            "set cloudName",
        ),
        (None, Some(_)) => pass.block(
            "cloudsSecret.name",
            "Cluster API requires the Secret with the cloud",
            "set cloudsSecret",
        ),
    }
}

fn credentials_to_machine_api(pass: &mut Pass<'_>) {
    let mut reference = pass.source.branch("identityRef");
    if reference.value.is_null() {
        return;
    }
    let kind = reference.take_text("type");
    let path = reference.path("type");
    if kind.is_some_and(|kind| kind != "Secret") {
        pass.report(
            Severity::Blocks,
            path,
            "the Machine API reads its credentials from a Secret",
            "use a Secret",
        );
    }
    for (field, to) in [("name", "cloudsSecret.name"), ("cloudName", "cloudName")] {
        match reference.take_text(field) {
            Some(text) => {
                let missing = pass.env.context.missing_secret(&text, &[SECRET], MachineApi);
                if let Some(reason) = missing.filter(|_| field == "name") {
                    pass.report(Severity::Blocks, reference.path(field), reason, COPY);
                }
                pass.put(to, text.into());
            }
            None => pass.report(
                Severity::Blocks,
                reference.path(field),
                "the Machine API requires the Secret and the name of the cloud",
                "set it",
            ),
        }
    }
    metadata::report_rest(&reference, MachineApi, &mut pass.issues);
}

const SERVER_GROUP: Hand = Hand {
    machine_api: &["serverGroupID", "serverGroupName"],
    cluster_api: &["serverGroup"],
    about: "serverGroup.id or serverGroup.filter.name",
    to: |pass| {
        let (id, name) = (pass.take_text("serverGroupID"), pass.take_text("serverGroupName"));
        match (id, name) {
            (Some(id), _) if !is_uuid(&id) => pass.block("serverGroupID", UUID, "correct the ID"),
            (Some(id), name) => {
                pass.put("serverGroup.id", id.into());
                if name.is_some() {
                    let path = pass.path("serverGroupName");
                    let reason = "Cluster API selects a server group by its ID or by its name, and the ID wins";
                    pass.report(Severity::Loses, path, reason, "remove the name");
                }
            }
            (None, Some(name)) => pass.put("serverGroup.filter.name", name.into()),
            (None, None) => {}
        }
    },
    back: |pass| {
        let mut group = pass.source.branch("serverGroup");
        let (id, name) = (group.take_text("id"), group.take_text("filter.name"));
        match (id, name) {
            (Some(id), None) if is_uuid(&id) => pass.put("serverGroupID", id.into()),
            (None, Some(name)) => pass.put("serverGroupName", name.into()),
            (None, None) if group.value.is_null() => {}
            _ => pass.block(
                "serverGroup",
                "must have either a UUID as id, or a name",
                "correct the reference",
            ),
        }
        metadata::report_rest(&group, MachineApi, &mut pass.issues);
    },
};

const BLOCK_DEVICES: Hand = Hand {
    machine_api: &["additionalBlockDevices"],
    cluster_api: &["additionalBlockDevices"],
    about: "same names, each once; the zone of a volume is an object in Cluster API",
    to: block_devices,
    back: block_devices,
};

fn block_devices(pass: &mut Pass<'_>) {
    let mut names: Vec<Value> = Vec::new();
    let mut devices: Vec<Value> = Vec::new();
    for device in pass.take_list("additionalBlockDevices") {
        let path = device.path("name");
        let converted = pass.item(BLOCK_DEVICE, device);
        let name = converted.get("name").cloned().unwrap_or_default();
        if names.contains(&name) {
            pass.report(
                Severity::Blocks,
                path,
                "must be the name of one device",
                "use another name",
            );
        }
        names.push(name);
        devices.push(converted.into());
    }
    if !devices.is_empty() {
        pass.put("additionalBlockDevices", devices.into());
    }
}

const SECURITY_GROUPS: Hand = Hand {
    machine_api: &["securityGroups"],
    cluster_api: &["securityGroups"],
    about: "uuid is id, name is filter.name; tags are a list in Cluster API",
    to: security_groups,
    back: security_groups,
};

fn security_groups(pass: &mut Pass<'_>) {
    let groups = pass.take_list("securityGroups");
    let groups: Vec<Value> = groups.into_iter().map(|group| pass.item(GROUP, group).into()).collect();
    if !groups.is_empty() {
        pass.put("securityGroups", groups.into());
    }
}

const GROUP: &[Rule] = &[
    Rule::Hand(&GROUP_NAME),
    moved("uuid", "id", Shape::TextThat(is_uuid, UUID)),
    moved("filter.description", "filter.description", Shape::Text),
    Rule::Hand(&PROJECT),
    moved("filter.tags", "filter.tags", TAGS),
    moved("filter.tagsAny", "filter.tagsAny", TAGS),
    moved("filter.notTags", "filter.notTags", TAGS),
    moved("filter.notTagsAny", "filter.notTagsAny", TAGS),
    Rule::Hand(&ONE_SELECTION),
];

const GROUP_NAME: Hand = Hand {
    machine_api: &["name", "filter.name", "filter.id"],
    cluster_api: &["filter.name"],
    about: "the name of the group",
    to: |pass| {
        let (name, filter) = (pass.take_text("name"), pass.take_text("filter.name"));
        if name.is_some() && filter.is_some() && name != filter {
            pass.block(
                "filter.name",
                "it differs from the name of the security group",
                "remove one of them",
            );
        }
        if let Some(name) = name.or(filter) {
            pass.put("filter.name", name.into());
        }
        if let Some(id) = pass.take_text("filter.id") {
            if !is_uuid(&id) {
                pass.block("filter.id", UUID, "correct the ID");
            }
            pass.put("id", id.into());
        }
    },
    back: |pass| {
        if let Some(name) = pass.take_text("filter.name") {
            pass.put("name", name.into());
        }
    },
};

fn normal(side: Api, spec: &mut Map<String, Value>) {
    super::openstack_ports::normal(side, spec);
    if side == ClusterApi {
        let fill = |volume: Option<&mut Value>| {
            if let Some(Value::Object(zone)) = volume.and_then(|volume| volume.get_mut("availabilityZone")) {
                zone.entry("from").or_insert_with(|| "Name".into());
            }
        };
        fill(spec.get_mut("rootVolume"));
        for device in spec
            .get_mut("additionalBlockDevices")
            .and_then(Value::as_array_mut)
            .into_iter()
            .flatten()
        {
            fill(device.get_mut("storage").and_then(|storage| storage.get_mut("volume")));
        }
        if let Some(Value::Array(entries)) = spec.get_mut("serverMetadata") {
            entries.sort_by_key(|entry| entry.get("key").and_then(Value::as_str).unwrap_or_default().to_owned());
        }
        if let Some(Value::Object(reference)) = spec.get_mut("identityRef") {
            reference.entry("type").or_insert_with(|| "Secret".into());
        }
        return;
    }
    if let Some(Value::Object(secret)) = spec.get_mut("cloudsSecret")
        && secret.contains_key("name")
    {
        secret.retain(|field, value| field != "namespace" || value.as_str() != Some("openshift-machine-api"));
    }
    for group in spec
        .get_mut("securityGroups")
        .and_then(Value::as_array_mut)
        .into_iter()
        .flatten()
    {
        let Some(fields) = group.as_object_mut() else { continue };
        normal_project(fields);
        for (from, to) in [("name", "name"), ("id", "uuid")] {
            let inner = fields
                .get_mut("filter")
                .and_then(Value::as_object_mut)
                .and_then(|filter| filter.remove(from));
            if let Some(inner) = inner.filter(|inner| inner.as_str() != Some("")) {
                fields.insert(to.to_owned(), inner);
            }
        }
        if fields
            .get("filter")
            .is_some_and(|filter| filter.as_object().is_some_and(Map::is_empty))
        {
            fields.remove("filter");
        }
    }
}
