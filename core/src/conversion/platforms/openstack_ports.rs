//! The networks and ports of OpenStack machines.
//!
//! The Machine API has ports, which name their network by its ID, and networks, which may be
//! selected by a filter and become ports. Cluster API has ports only. The ports of the Machine API
//! come first, then its networks; the order of ports is the order of network interfaces.
//!
//! On the way back, a port that names its network by ID is a port, until the first one that only a
//! network can express. From there on, all must be networks, so that the order is kept.

use serde_json::{Map, Value, json};

use super::openstack_filters::{PROJECT as PROJECT_OF_FILTER, TAGS, UUID, normal_project, project, unique};
use crate::conversion::Api::{self, ClusterApi, MachineApi};
use crate::conversion::Severity;
use crate::conversion::pass::Pass;
use crate::conversion::pass::rule::{
    Hand, Rule, cluster_api_only, list, machine_api_only, moved, only, required, same,
};
use crate::conversion::shape::{Converted, Shape, fault, is_uuid};
use crate::conversion::tree::Tree;

/// The networks and ports.
pub(super) const PORTS: Hand = Hand {
    machine_api: &["ports", "networks"],
    cluster_api: &["ports"],
    about: "ports come first, then networks; a network is a port with its subnets as fixed IPs, and without a network \
            each subnet is a port",
    to: to_cluster_api,
    back: to_machine_api,
};

const ID: Shape = Shape::TextThat(is_uuid, UUID);
const UNIQUE: Shape = Shape::Codec {
    to: unique,
    back: unique,
    about: "list of strings, each once",
};
const BINDING: &str = "Cluster API does not bind a port to a host";
const PROJECT: &str = "Cluster API creates ports in the project of the cluster";
const SECURITY: Shape = Shape::Codec {
    to: |value| negated(value),
    back: |value| negated(value),
    about: "the opposite",
};

/// What ports and networks of the Machine API have in common.
pub(super) const COMMON: &[Rule] = &[
    same("vnicType", Shape::Text),
    moved("portSecurity", "disablePortSecurity", SECURITY),
    Rule::Hand(&PROFILE),
];

/// The rules of a port that names its network by its ID.
pub(super) const PORT: &[Rule] = &[
    required(MachineApi, "networkID", "a port belongs to a network", "set it"),
    moved("networkID", "network.id", ID),
    same("nameSuffix", Shape::Text),
    same("description", Shape::Text),
    same("adminStateUp", Shape::Bool),
    same("macAddress", Shape::Text),
    same("tags", UNIQUE),
    same("trunk", Shape::Bool),
    list("allowedAddressPairs", "allowedAddressPairs", PAIR),
    list("fixedIPs", "fixedIPs", FIXED_IP),
    Rule::Hand(&GROUPS),
    only(MachineApi, "hostID", &[], Severity::Loses, BINDING, "remove it"),
    only(MachineApi, "projectID", &[], Severity::Loses, PROJECT, "remove it"),
    only(MachineApi, "tenantID", &[], Severity::Loses, PROJECT, "remove it"),
    only(
        ClusterApi,
        "hostID",
        &[],
        Severity::Loses,
        "the Machine API does not bind a port to a host",
        "remove it",
    ),
    only(
        ClusterApi,
        "propagateUplinkStatus",
        &[],
        Severity::Loses,
        "the Machine API does not propagate the uplink status",
        "remove it",
    ),
    only(
        ClusterApi,
        "valueSpecs",
        &[],
        Severity::Loses,
        "the Machine API has no additional values for a port",
        "remove them",
    ),
];

const PAIR: &[Rule] = &[
    required(
        MachineApi,
        "ipAddress",
        "Cluster API requires the address of a pair",
        "set it",
    ),
    same("ipAddress", Shape::Text),
    same("macAddress", Shape::Text),
];

const FIXED_IP: &[Rule] = &[
    required(MachineApi, "subnetID", "a fixed IP belongs to a subnet", "set it"),
    moved("subnetID", "subnet.id", ID),
    same("ipAddress", Shape::Text),
];

/// A network of the Machine API, without its subnets, as a port.
pub(super) const NETWORK: &[Rule] = &[
    moved("uuid", "network.id", ID),
    Rule::Hand(&NETWORK_ID),
    moved("filter.name", "network.filter.name", Shape::Text),
    moved("filter.description", "network.filter.description", Shape::Text),
    Rule::Hand(&NETWORK_PROJECT),
    moved("filter.tags", "network.filter.tags", TAGS),
    moved("filter.tagsAny", "network.filter.tagsAny", TAGS),
    moved("filter.notTags", "network.filter.notTags", TAGS),
    moved("filter.notTagsAny", "network.filter.notTagsAny", TAGS),
    moved("portTags", "tags", UNIQUE),
    only(
        MachineApi,
        "fixedIp",
        &[],
        Severity::Loses,
        "Cluster API sets it on ports only",
        "use ports with fixedIPs instead",
    ),
    Rule::Hand(&NO_PAIRS),
    cluster_api_only("nameSuffix", ON_PORTS, WITH_ID),
    cluster_api_only("description", ON_PORTS, WITH_ID),
    cluster_api_only("adminStateUp", ON_PORTS, WITH_ID),
    cluster_api_only("macAddress", ON_PORTS, WITH_ID),
    cluster_api_only("trunk", ON_PORTS, WITH_ID),
    cluster_api_only("securityGroups", ON_PORTS, WITH_ID),
    cluster_api_only("hostID", ON_PORTS, WITH_ID),
    cluster_api_only("propagateUplinkStatus", ON_PORTS, WITH_ID),
    cluster_api_only("valueSpecs", ON_PORTS, WITH_ID),
];

const ON_PORTS: &str = "the Machine API sets it only on ports that name their network by its ID";
const WITH_ID: &str = "set network.id, and put the port before those without a network ID";

const NETWORK_PROJECT: Hand = Hand {
    machine_api: &["filter.projectId", "filter.tenantId"],
    cluster_api: &["network.filter.projectID"],
    about: "filter.tenantId is the former name of filter.projectId, which wins",
    to: |pass| project(pass, "network.filter.projectID"),
    back: |pass| {
        if let Some(id) = pass.take_text("network.filter.projectID") {
            pass.put("filter.projectId", id.into());
        }
    },
};

const NETWORK_ID: Hand = Hand {
    machine_api: &["filter.id"],
    cluster_api: &[],
    about: "the same as uuid",
    to: |pass| {
        if let Some(id) = pass.take_text("filter.id") {
            if !is_uuid(&id) {
                pass.block("filter.id", UUID, "correct the ID");
            } else if pass.target.contains_key("network") {
                pass.block("filter.id", "the network has two IDs", "remove one of them");
            }
            pass.put("network.id", id.into());
        }
    },
    back: |_| {},
};

/// A network without allowed address pairs is a port with an empty list of them.
const NO_PAIRS: Hand = Hand {
    machine_api: &["noAllowedAddressPairs"],
    cluster_api: &["allowedAddressPairs"],
    about: "true is an empty list of allowed address pairs; pairs are set only on ports that name their network by ID",
    to: |pass| match pass.take("noAllowedAddressPairs") {
        None | Some(Value::Bool(false)) => {}
        Some(Value::Bool(true)) => pass.put(PAIRS, json!([])),
        Some(_) => pass.block("noAllowedAddressPairs", "must be true or false", "correct the value"),
    },
    back: |pass| match pass.take(PAIRS) {
        None => {}
        Some(Value::Array(pairs)) if pairs.is_empty() => pass.put("noAllowedAddressPairs", true.into()),
        Some(_) => pass.block(PAIRS, ON_PORTS, WITH_ID),
    },
};

const PAIRS: &str = "allowedAddressPairs";

/// Leaves out empty lists of allowed address pairs of ports that are ports of the Machine API too,
/// where they mean the same as no list.
fn without_empty_pairs(ports: &mut [Value]) {
    for port in ports {
        if !is_port(&Tree::new("", port.clone())) {
            return;
        }
        if let Some(fields) = port.as_object_mut() {
            fields.retain(|field, value| field != PAIRS || !crate::conversion::pass::is_empty(value));
        }
    }
}

/// A subnet of a network of the Machine API, as the subnet of a fixed IP.
pub(super) const SUBNET: &[Rule] = &[
    moved("uuid", "id", ID),
    Rule::Hand(&SUBNET_ID),
    moved("filter.name", "filter.name", Shape::Text),
    moved("filter.description", "filter.description", Shape::Text),
    Rule::Hand(&PROJECT_OF_FILTER),
    moved("filter.ipVersion", "filter.ipVersion", Shape::Count(0, 6)),
    moved("filter.gateway_ip", "filter.gatewayIP", Shape::Text),
    moved("filter.cidr", "filter.cidr", Shape::Text),
    moved("filter.ipv6AddressMode", "filter.ipv6AddressMode", Shape::Text),
    moved("filter.ipv6RaMode", "filter.ipv6RAMode", Shape::Text),
    moved("filter.tags", "filter.tags", TAGS),
    moved("filter.tagsAny", "filter.tagsAny", TAGS),
    moved("filter.notTags", "filter.notTags", TAGS),
    moved("filter.notTagsAny", "filter.notTagsAny", TAGS),
    only(
        MachineApi,
        "filter.networkId",
        &[],
        Severity::Loses,
        "the Machine API ignores it, and Cluster API selects the network of a subnet on the port",
        "set the UUID of the network",
    ),
    machine_api_only(
        "filter.subnetpoolId",
        "Cluster API does not select a subnet by its pool",
        "select the subnet by its UUID",
    ),
    machine_api_only(
        "portSecurity",
        "Cluster API sets port security for a port, not for a subnet",
        "set portSecurity of the network",
    ),
];

const SUBNET_ID: Hand = Hand {
    machine_api: &["filter.id"],
    cluster_api: &[],
    about: "the same as uuid",
    to: |pass| {
        if let Some(id) = pass.take_text("filter.id") {
            if !is_uuid(&id) || pass.target.contains_key("id") {
                pass.block("filter.id", "must be the only UUID of the subnet", "correct the ID");
            }
            pass.put("id", id.into());
        }
    },
    back: |_| {},
};

const GROUPS: Hand = Hand {
    machine_api: &["securityGroups"],
    cluster_api: &["securityGroups"],
    about: "a list of IDs is a list of objects with an ID",
    to: |pass| {
        let Some(groups) = pass.take("securityGroups") else {
            return;
        };
        let ids = groups
            .as_array()
            .map(|groups| groups.iter().map(Value::as_str).collect::<Option<Vec<_>>>());
        match ids {
            Some(Some(ids)) if ids.is_empty() => pass.block(
                "securityGroups",
                "Cluster API uses the security groups of the machine if a port names none",
                "name the security groups, or set portSecurity to false",
            ),
            Some(Some(ids)) if ids.iter().all(|id| is_uuid(id)) => {
                let groups = ids.into_iter().map(|id| json!({"id": id})).collect();
                pass.put("securityGroups", groups);
            }
            _ => pass.block("securityGroups", "must be a list of UUIDs", "correct the list"),
        }
    },
    back: |pass| {
        let mut ids = Vec::new();
        for mut group in pass.take_list("securityGroups") {
            let path = group.path("");
            match group.take_text("id") {
                Some(id) if is_uuid(&id) && group.value.as_object().is_some_and(Map::is_empty) => {
                    ids.push(Value::from(id));
                }
                _ => pass.report(
                    Severity::Blocks,
                    path,
                    "the Machine API selects the security groups of a port by their UUIDs",
                    "use the UUID of the security group",
                ),
            }
        }
        if !ids.is_empty() {
            pass.put("securityGroups", ids.into());
        }
    },
};

fn negated(value: &Value) -> Converted {
    match value.as_bool() {
        Some(value) => Ok(Some((!value).into())),
        None => Err(fault("must be true or false", "correct the value")),
    }
}

const PROFILE: Hand = Hand {
    machine_api: &["profile"],
    cluster_api: &["profile"],
    about: "capabilities with switchdev is ovsHWOffload, and trusted is trustedVF; other keys are refused",
    to: |pass| {
        let mut profile = pass.source.branch("profile");
        if profile.value.is_null() {
            return;
        }
        let capabilities = profile.take("capabilities");
        match capabilities.as_ref().map(Value::as_str) {
            None => {}
            Some(Some(text)) if SWITCHDEV.contains(&text) => pass.put("profile.ovsHWOffload", true.into()),
            Some(_) => pass.report(
                Severity::Blocks,
                profile.path("capabilities"),
                "Cluster API supports the capability switchdev only",
                "set it to [\"switchdev\"]",
            ),
        }
        let trusted = profile.take("trusted");
        match trusted.as_ref().map(Value::as_str) {
            // Cluster API does not distinguish false from an absent field.
            None | Some(Some("false")) => {}
            Some(Some("true")) => pass.put("profile.trustedVF", true.into()),
            Some(_) => pass.report(
                Severity::Blocks,
                profile.path("trusted"),
                "must be the text true or false",
                "correct the value",
            ),
        }
        crate::conversion::metadata::report_rest(&profile, ClusterApi, &mut pass.issues);
    },
    back: |pass| {
        let mut profile = pass.source.branch("profile");
        if profile.value.is_null() {
            return;
        }
        match profile.take("ovsHWOffload").map(|value| value.as_bool()) {
            None | Some(Some(false)) => {}
            Some(Some(true)) => pass.put("profile.capabilities", "switchdev".into()),
            Some(None) => pass.block("profile.ovsHWOffload", "must be true or false", "correct the value"),
        }
        match profile.take("trustedVF").map(|value| value.as_bool()) {
            None | Some(Some(false)) => {}
            Some(Some(true)) => pass.put("profile.trusted", "true".into()),
            Some(None) => pass.block("profile.trustedVF", "must be true or false", "correct the value"),
        }
        crate::conversion::metadata::report_rest(&profile, MachineApi, &mut pass.issues);
    },
};

/// The ways to write the capability switchdev.
const SWITCHDEV: [&str; 3] = ["[\"switchdev\"]", "[switchdev]", "switchdev"];

/// Applies the common rules and those of a port or a network to an item.
fn convert(pass: &mut Pass<'_>, rules: &'static [Rule], item: Tree) -> Map<String, Value> {
    if !item.value.is_object() {
        return pass.item(rules, item);
    }
    let mut common = pass.nested(item);
    common.apply(COMMON);
    pass.issues.append(&mut common.issues);
    let mut converted = pass.item(rules, common.source);
    converted.append(&mut common.target);
    converted
}

fn to_cluster_api(pass: &mut Pass<'_>) {
    let mut ports = Vec::new();
    for port in pass.take_list("ports") {
        ports.push(Value::Object(convert(pass, PORT, port)));
    }
    for mut network in pass.take_list("networks") {
        let root = network.root.clone();
        let mut items = Vec::new();
        if network.value.is_object() {
            let mut nested = pass.nested(std::mem::take(&mut network));
            items = nested.take_list("subnets");
            pass.issues.append(&mut nested.issues);
            network = nested.source;
        }
        let mut tags = Vec::new();
        let mut subnets = Vec::new();
        for mut subnet in items {
            tags.extend(port_tags(pass, &mut subnet));
            let path = subnet.root.clone();
            let subnet = pass.item(SUBNET, subnet);
            if subnet.contains_key("id") == subnet.contains_key("filter") {
                pass.report(
                    Severity::Blocks,
                    path,
                    "Cluster API selects a subnet either by its ID or by a filter",
                    "set exactly one of them",
                );
            }
            subnets.push(json!({"subnet": subnet}));
        }
        let mut port = convert(pass, NETWORK, network);
        add_tags(&mut port, tags);
        network_to_ports(pass, root, &port, subnets, &mut ports);
    }
    without_empty_pairs(&mut ports);
    if !ports.is_empty() {
        pass.put("ports", ports.into());
    }
}

/// Takes the tags that a subnet adds to its port.
fn port_tags(pass: &mut Pass<'_>, subnet: &mut Tree) -> Vec<Value> {
    let Some(tags) = subnet.take("portTags") else {
        return Vec::new();
    };
    // A tag of several subnets is one tag of the port, so that a repeated tag is no issue.
    match Shape::Texts.convert(MachineApi, &tags) {
        Ok(Some(Value::Array(tags))) => tags,
        Ok(_) => Vec::new(),
        Err(fault) => {
            let path = format!("{}{}", subnet.path("portTags"), fault.within);
            pass.report(Severity::Blocks, path, fault.reason, fault.way_out);
            Vec::new()
        }
    }
}

/// Adds the tags of subnets to those of a port, each once.
fn add_tags(port: &mut Map<String, Value>, tags: Vec<Value>) {
    if tags.is_empty() {
        return;
    }
    let all = port.entry("tags").or_insert_with(|| json!([]));
    if let Value::Array(all) = all {
        for tag in tags {
            if !all.contains(&tag) {
                all.push(tag);
            }
        }
    }
}

/// Adds the ports of a network: one with all subnets, or without a network one for each subnet.
fn network_to_ports(
    pass: &mut Pass<'_>,
    root: String,
    port: &Map<String, Value>,
    subnets: Vec<Value>,
    ports: &mut Vec<Value>,
) {
    let network = port.get("network").and_then(Value::as_object);
    let selections = network.map_or(0, |network| network.len());
    if selections > 1 || (selections == 0 && subnets.is_empty()) {
        pass.report(
            Severity::Blocks,
            root,
            "Cluster API selects a network either by its ID or by a filter",
            "set exactly one of them, or subnets",
        );
        return;
    }
    let mut add = |fixed: Vec<Value>| {
        let mut port = port.clone();
        if !fixed.is_empty() {
            port.insert(String::from("fixedIPs"), fixed.into());
        }
        ports.push(port.into());
    };
    if selections == 1 {
        add(subnets);
    } else {
        for subnet in subnets {
            add(vec![subnet]);
        }
    }
}

/// Whether a port of Cluster API is a port of the Machine API: it names its network by its ID.
fn is_port(port: &Tree) -> bool {
    let fixed = port.get("fixedIPs").and_then(Value::as_array);
    let by_id = fixed
        .into_iter()
        .flatten()
        .all(|fixed| fixed.get("subnet").is_some_and(|subnet| subnet.get("id").is_some()));
    match port.get("network") {
        None => fixed.is_none(),
        Some(network) => by_id && network.get("id").is_some(),
    }
}

fn to_machine_api(pass: &mut Pass<'_>) {
    let (mut ports, mut networks) = (Vec::new(), Vec::new());
    for port in pass.take_list("ports") {
        if networks.is_empty() && is_port(&port) {
            let missing = port.value.is_object() && port.get("network.id").is_none();
            if missing {
                pass.report(
                    Severity::Blocks,
                    port.path("network"),
                    "the Machine API requires the network of a port, or its subnet",
                    "set network.id",
                );
            }
            ports.push(Value::Object(convert(pass, PORT, port)));
        } else {
            networks.push(network_to_machine_api(pass, port));
        }
    }
    if !ports.is_empty() {
        pass.put("ports", ports.into());
    }
    if !networks.is_empty() {
        pass.put("networks", networks.into());
    }
}

/// A port of Cluster API as a network of the Machine API.
fn network_to_machine_api(pass: &mut Pass<'_>, port: Tree) -> Value {
    let mut nested = pass.nested(port);
    let items = nested.take_list("fixedIPs");
    pass.issues.append(&mut nested.issues);
    let without_network = nested.source.get("network").is_none();
    if without_network && items.len() > 1 {
        pass.report(
            Severity::Blocks,
            nested.source.path("fixedIPs"),
            "the Machine API creates a port for each subnet if the network is not set",
            "set the network",
        );
    }
    let mut subnets = Vec::new();
    for mut item in items {
        if item.take("ipAddress").is_some() {
            pass.report(Severity::Blocks, item.path("ipAddress"), ON_PORTS, WITH_ID);
        }
        let subnet = item.branch("subnet");
        let root = item.root.clone();
        crate::conversion::metadata::report_rest(&item, MachineApi, &mut pass.issues);
        if subnet.value.is_null() {
            pass.report(
                Severity::Blocks,
                root,
                "the Machine API requires the subnet",
                "set subnet",
            );
            continue;
        }
        let path = subnet.root.clone();
        let subnet = pass.item(SUBNET, subnet);
        one_selection(pass, path, subnet.contains_key("uuid"), subnet.contains_key("filter"));
        subnets.push(Value::Object(subnet));
    }
    let path = nested.source.path("network");
    let mut network = convert(pass, NETWORK, nested.source);
    let (by_id, by_filter) = (network.contains_key("uuid"), network.contains_key("filter"));
    if subnets.is_empty() || (by_id && by_filter) {
        one_selection(pass, path, by_id, by_filter);
    }
    if !subnets.is_empty() {
        network.insert(String::from("subnets"), subnets.into());
    }
    network.into()
}

/// Reports a network or a subnet that is not selected in exactly one way.
fn one_selection(pass: &mut Pass<'_>, path: String, by_id: bool, by_filter: bool) {
    if by_id == by_filter {
        pass.report(
            Severity::Blocks,
            path,
            "must be selected either by an ID or by a filter",
            "set exactly one of them",
        );
    }
}

/// Writes networks of the Machine API as the way back writes them.
pub(super) fn normal(side: Api, spec: &mut Map<String, Value>) {
    if side == ClusterApi {
        if let Some(Value::Array(ports)) = spec.get_mut("ports") {
            without_empty_pairs(ports);
        }
        for port in spec
            .get_mut("ports")
            .and_then(Value::as_array_mut)
            .into_iter()
            .flatten()
        {
            if let Some(Value::Object(profile)) = port.get_mut("profile") {
                profile.retain(|_, value| value.as_bool() != Some(false));
            }
            let is_empty = port.get("profile").is_some_and(crate::conversion::pass::is_empty);
            if let Some(fields) = port.as_object_mut().filter(|_| is_empty) {
                fields.remove("profile");
            }
        }
        return;
    }
    let networks = match spec.remove("networks") {
        Some(Value::Array(networks)) => networks,
        _ => Vec::new(),
    };
    let mut ports = match spec.remove("ports") {
        Some(Value::Array(ports)) => ports,
        _ => Vec::new(),
    };
    let mut kept = Vec::new();
    for mut network in networks.into_iter().flat_map(normal_network) {
        let subnets = network.get("subnets").and_then(Value::as_array);
        let by_id =
            network.get("uuid").is_some() && subnets.into_iter().flatten().all(|subnet| subnet.get("uuid").is_some());
        let fields = network.as_object_mut();
        match fields {
            Some(fields) if by_id && kept.is_empty() => ports.push(network_as_port(fields).into()),
            _ => kept.push(network),
        }
    }
    for port in &mut ports {
        if let Some(fields) = port.as_object_mut() {
            fields.retain(|field, value| field != PAIRS || !crate::conversion::pass::is_empty(value));
        }
    }
    for port in ports.iter_mut().chain(kept.iter_mut()) {
        let capabilities = port
            .get_mut("profile")
            .and_then(|profile| profile.get_mut("capabilities"));
        if let Some(text) = capabilities.filter(|text| text.as_str().is_some_and(|text| SWITCHDEV.contains(&text))) {
            *text = "switchdev".into();
        }
        if let Some(Value::Object(profile)) = port.get_mut("profile") {
            profile.retain(|field, value| field != "trusted" || value.as_str() != Some("false"));
        }
        let is_empty = port.get("profile").is_some_and(crate::conversion::pass::is_empty);
        if let Some(fields) = port.as_object_mut().filter(|_| is_empty) {
            fields.remove("profile");
        }
    }
    for (field, list) in [("ports", ports), ("networks", kept)] {
        if !list.is_empty() {
            spec.insert(field.to_owned(), list.into());
        }
    }
}

/// A network with its tags in one place, or one network for each subnet.
fn normal_network(network: Value) -> Vec<Value> {
    let Value::Object(mut fields) = network else {
        return vec![network];
    };
    fields.retain(|field, value| field != "noAllowedAddressPairs" || value.as_bool() != Some(false));
    let lift = |fields: &mut Map<String, Value>| {
        normal_project(fields);
        let id = fields
            .get_mut("filter")
            .and_then(Value::as_object_mut)
            .and_then(|filter| filter.remove("id"));
        if let Some(id) = id.filter(|id| id.as_str() != Some("")) {
            fields.insert(String::from("uuid"), id);
        }
        if fields
            .get("filter")
            .is_some_and(|filter| filter.as_object().is_some_and(Map::is_empty))
        {
            fields.remove("filter");
        }
    };
    lift(&mut fields);
    let mut subnets = Vec::new();
    let mut tags = match fields.remove("portTags") {
        Some(Value::Array(tags)) => tags,
        _ => Vec::new(),
    };
    for mut subnet in fields
        .remove("subnets")
        .as_ref()
        .and_then(Value::as_array)
        .cloned()
        .unwrap_or_default()
    {
        if let Some(subnet) = subnet.as_object_mut() {
            lift(subnet);
            if let Some(Value::Object(filter)) = subnet.get_mut("filter") {
                filter.retain(|field, value| field != "ipVersion" || value.as_i64() != Some(0));
            }
            if let Some(Value::Array(more)) = subnet.remove("portTags") {
                for tag in more {
                    if !tags.contains(&tag) {
                        tags.push(tag);
                    }
                }
            }
        }
        subnets.push(subnet);
    }
    if !tags.is_empty() {
        fields.insert(String::from("portTags"), tags.into());
    }
    let selected = fields.contains_key("uuid") || fields.contains_key("filter");
    if selected || subnets.len() < 2 {
        if !subnets.is_empty() {
            fields.insert(String::from("subnets"), subnets.into());
        }
        return vec![fields.into()];
    }
    let with = |subnet: Value| {
        let mut fields = fields.clone();
        fields.insert(String::from("subnets"), json!([subnet]));
        Value::Object(fields)
    };
    subnets.into_iter().map(with).collect()
}

/// A network with a UUID as a port.
fn network_as_port(fields: &mut Map<String, Value>) -> Map<String, Value> {
    let mut port = Map::new();
    for (field, to) in [
        ("uuid", "networkID"),
        ("portTags", "tags"),
        ("vnicType", "vnicType"),
        ("profile", "profile"),
        ("portSecurity", "portSecurity"),
    ] {
        if let Some(value) = fields.remove(field) {
            port.insert(to.to_owned(), value);
        }
    }
    let subnets = fields.remove("subnets");
    let fixed: Vec<Value> = subnets
        .as_ref()
        .and_then(Value::as_array)
        .into_iter()
        .flatten()
        .map(|subnet| json!({"subnetID": subnet.get("uuid").cloned().unwrap_or_default()}))
        .collect();
    if !fixed.is_empty() {
        port.insert(String::from("fixedIPs"), fixed.into());
    }
    port
}
