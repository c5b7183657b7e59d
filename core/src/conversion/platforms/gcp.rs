//! GCP: `GCPMachineProviderSpec` and `GCPMachine` (v1beta1).

use serde_json::{Map, Value, json};

use super::Platform;
use super::aws::{SHORT, short};
use super::gcp_disks::{ADDITIONAL, BOOT, DISK, DISKS};
use crate::conversion::Api::{self, ClusterApi, MachineApi};
use crate::conversion::metadata::{INSTANCE_TYPE, REGION, ZONE};
use crate::conversion::pass::keep::Described;
use crate::conversion::pass::rule::{
    Hand, Literal, Rule, cluster_api_only, constant, inner, list, moved, only, required, same, shared,
};
use crate::conversion::pass::{Pass, is_empty};
use crate::conversion::shape::{Converted, Fault, Shape, fault, pairs};
use crate::conversion::{Lookup, Severity, tree};
use crate::model::is_label_name;

/// GCP.
pub(super) const PLATFORM: Platform = Platform {
    id: "gcp",
    title: "GCP",
    platform_type: "GCP",
    provider_spec: "GCPMachineProviderSpec",
    provider_spec_version: "machine.openshift.io/v1beta1",
    machine: "GCPMachine",
    version: "v1beta1",
    crd: "sigs.k8s.io/cluster-api-provider-gcp v1.13.1",
    cluster: "GCPCluster",
    user_data: "userDataSecret",
    rules: RULES,
    computed: &[(INSTANCE_TYPE, "machineType"), (REGION, "region"), (ZONE, "zone")],
    has_instance_state: false,
    has_provider_id: true,
    hand_over: None,
    normal,
};

const ZONE_IN_REGION: Hand = Hand {
    machine_api: &[],
    cluster_api: &[],
    about: "the name of a zone starts with the name of its region",
    to: |pass| {
        let source = &pass.source.value;
        let (zone, region) = (tree::text(source, "zone"), tree::text(source, "region"));
        if !is_in_region(zone, region) {
            pass.block("zone", OUTSIDE, USE_A_ZONE_OF_THE_REGION);
        }
    },
    back: |pass| {
        let cluster = pass.cluster().found();
        let region = cluster.and_then(|cluster| tree::text(cluster, "region"));
        if !is_in_region(tree::text(&pass.machine.value, "failureDomain"), region) {
            pass.block("Machine.failureDomain", OUTSIDE, USE_A_ZONE_OF_THE_REGION);
        }
    },
};

const OUTSIDE: &str = "the zone is outside of the region of the cluster";
const USE_A_ZONE_OF_THE_REGION: &str = "use a zone of the region, for example us-east1-b of us-east1";

/// True if one of the two is not known.
fn is_in_region(zone: Option<&str>, region: Option<&str>) -> bool {
    let (Some(zone), Some(region)) = (zone, region) else {
        return true;
    };
    zone.strip_prefix(region).is_some_and(|rest| rest.starts_with('-'))
}

const SWITCH: Shape = Shape::Words(&[("Enabled", "Enabled"), ("Disabled", "Disabled")]);

const RULES: &[Rule] = &[
    required(
        MachineApi,
        "machineType",
        "Cluster API requires the type of the instance",
        "set it",
    ),
    moved("machineType", "instanceType", Shape::Text),
    // Before the zone and the region are taken.
    Rule::Hand(&ZONE_IN_REGION),
    moved("zone", "Machine.failureDomain", Shape::TextThat(short, SHORT)),
    Rule::Hand(&DISKS),
    inner("disks[]", "", DISK),
    inner("disks[]", "", BOOT),
    inner("disks[]", "additionalDisks[]", ADDITIONAL),
    Rule::Hand(&NETWORK),
    shared("region", &["region"], "gcp.region"),
    shared("projectID", &["project"], "gcp.projectID"),
    moved("labels", "additionalLabels", Shape::TextMap),
    moved("tags", "additionalNetworkTags", Shape::Texts),
    moved(
        "gcpMetadata",
        "additionalMetadata",
        Shape::Codec {
            to: entries,
            back: entries,
            about: "list of key and value, each key once",
        },
    ),
    Rule::Hand(&SERVICE_ACCOUNT),
    inner("serviceAccounts[]", "serviceAccounts", ACCOUNT),
    Rule::Hand(&FORWARDING),
    list("gpus", "guestAccelerators", GPU),
    same("preemptible", Shape::Flag),
    same(
        "provisioningModel",
        Shape::Codec {
            to: |value| match value.as_str() {
                Some("" | "Spot") => crate::conversion::shape::text(value),
                _ => Err(MODEL),
            },
            back: |value| match value.as_str() {
                Some("Standard" | "") => Ok(None),
                Some("Spot") => Ok(Some(value.clone())),
                _ => Err(MODEL),
            },
            about: "`Spot`; `Standard` is the same as absent",
        },
    ),
    same(
        "onHostMaintenance",
        Shape::Words(&[("Migrate", "Migrate"), ("Terminate", "Terminate")]),
    ),
    same("shieldedInstanceConfig.secureBoot", SWITCH),
    same("shieldedInstanceConfig.virtualizedTrustedPlatformModule", SWITCH),
    same("shieldedInstanceConfig.integrityMonitoring", SWITCH),
    same(
        "confidentialCompute",
        Shape::Words(&[
            ("Enabled", "Enabled"),
            ("Disabled", "Disabled"),
            ("AMDEncryptedVirtualization", "AMDEncryptedVirtualization"),
            (
                "AMDEncryptedVirtualizationNestedPaging",
                "AMDEncryptedVirtualizationNestedPaging",
            ),
            ("IntelTrustedDomainExtensions", "IntelTrustedDomainExtensions"),
        ]),
    ),
    list("resourceManagerTags", "resourceManagerTags", TAG),
    constant(
        MachineApi,
        "credentialsSecret.name",
        Literal::Text("gcp-cloud-credentials"),
        "Cluster API uses the credentials of the cluster",
        "use the Secret gcp-cloud-credentials",
    ),
    only(
        MachineApi,
        "deletionProtection",
        &[Literal::Bool(false)],
        Severity::Blocks,
        "Cluster API does not protect instances from deletion",
        "set it to false",
    ),
    only(
        MachineApi,
        "restartPolicy",
        &[Literal::Text("Always")],
        Severity::Blocks,
        "Cluster API always restarts an instance",
        "set it to Always",
    ),
    Rule::Hand(&TARGET_POOLS),
    cluster_api_only(
        "imageFamily",
        "the Machine API selects an image by its name",
        "set image",
    ),
    cluster_api_only("aliasIPRanges", "the Machine API has no alias IP ranges", "remove them"),
];

const MODEL: Fault = fault(
    "the other API does not support this model",
    "use Spot, or remove the field",
);

const GPU: &[Rule] = &[
    same("count", Shape::Count(0, i32::MAX as i64)),
    same("type", Shape::Text),
];

const TAG: &[Rule] = &[
    required(
        MachineApi,
        "parentID",
        "a tag has a parent, a key and a value",
        "set it",
    ),
    required(MachineApi, "key", "a tag has a parent, a key and a value", "set it"),
    required(MachineApi, "value", "a tag has a parent, a key and a value", "set it"),
    same(
        "parentID",
        Shape::TextThat(is_parent, "must be the ID of an organization or of a project"),
    ),
    same(
        "key",
        Shape::TextThat(is_label_name, "must be a name of at most 63 characters"),
    ),
    same(
        "value",
        Shape::TextThat(
            is_tag_value,
            "must start and end with a letter or digit, and have at most 63 characters",
        ),
    ),
];

fn is_parent(text: &str) -> bool {
    let organization = text.len() <= 32 && !text.starts_with('0') && text.bytes().all(|byte| byte.is_ascii_digit());
    let project = (6..=30).contains(&text.len())
        && text.starts_with(|letter: char| letter.is_ascii_lowercase())
        && !text.ends_with('-')
        && text
            .bytes()
            .all(|byte| matches!(byte, b'a'..=b'z' | b'0'..=b'9' | b'-'));
    organization || project
}

fn is_tag_value(text: &str) -> bool {
    let is_end = |letter: char| letter.is_ascii_alphanumeric();
    let inner = |letter: char| is_end(letter) || letter.is_ascii_whitespace() || "_.@%=+:,*#&()[]{}-".contains(letter);
    text.len() <= 63 && text.starts_with(is_end) && text.ends_with(is_end) && text.chars().all(inner)
}

/// A list of keys and values, in which each key stands once.
fn entries(value: &Value) -> Converted {
    let items = value.as_array().ok_or(fault("must be a list", "correct the value"))?;
    let items = items.iter().map(|item| {
        let mut item = item.clone();
        if let Some(fields) = item.as_object_mut() {
            fields.retain(|_, value| !value.is_null());
        }
        item
    });
    let items: Vec<Value> = items.collect();
    let complete = items.iter().map(|item| {
        let mut item = item.clone();
        if let Some(fields) = item.as_object_mut() {
            fields.entry("value").or_insert_with(|| "".into());
        }
        item
    });
    // An entry may have no value, but each key stands once.
    pairs(&complete.collect(), "key", "value")?;
    Ok((!items.is_empty()).then_some(items.into()))
}

const NETWORK: Hand = Hand {
    machine_api: &["networkInterfaces"],
    cluster_api: &["subnet", "publicIP"],
    about: "one interface; its network and project must be those of the GCPCluster",
    to: network_to_cluster_api,
    back: network_to_machine_api,
};

/// The network of the GCPCluster, and the project that hosts it if it is another one.
fn network_of(cluster: &Value) -> (&str, Option<&str>) {
    (
        tree::text(cluster, "network.name").unwrap_or("default"),
        tree::text(cluster, "network.hostProject"),
    )
}

/// The fields of a network interface that are fields of the machine in Cluster API.
const INTERFACE: &[Rule] = &[
    moved("subnetwork", "subnet", Shape::Text),
    same("publicIP", Shape::Flag),
];

fn network_to_cluster_api(pass: &mut Pass<'_>) {
    let project = tree::text(&pass.source.value, "projectID").map(str::to_owned);
    let mut interfaces = pass.take_list("networkInterfaces");
    if interfaces.len() != 1 {
        pass.block(
            "networkInterfaces",
            "Cluster API supports exactly one network interface",
            "use one",
        );
    }
    if interfaces.is_empty() {
        return;
    }
    let mut interface = interfaces.swap_remove(0);
    let network = interface.take_text("network").unwrap_or_default();
    let host = interface.take_text("projectID");
    match pass.cluster() {
        Lookup::Unknown => {}
        Lookup::Absent => {
            if !network.is_empty() || host.is_some() {
                pass.report(
                    Severity::Blocks,
                    interface.path("network"),
                    "Cluster API sets the network in the GCPCluster, and no GCPCluster was given",
                    "give the GCPCluster of the cluster",
                );
            }
        }
        Lookup::Found(cluster) => {
            let (of_cluster, host_of_cluster) = network_of(cluster);
            if network.rsplit('/').next() != Some(of_cluster) {
                pass.report(
                    Severity::Blocks,
                    interface.path("network"),
                    format!("it is {network:?}, but spec.network.name of the GCPCluster is {of_cluster:?}"),
                    format!("set it to {of_cluster:?}, or keep the object in the Machine API"),
                );
            } else if network != of_cluster {
                pass.report(
                    Severity::Blocks,
                    interface.path("network"),
                    "Cluster API names the network without its project",
                    format!("set it to {of_cluster:?}, and projectID to the project"),
                );
            }
            let own = host.is_none() || host == project;
            if host.as_deref() != host_of_cluster && !(host_of_cluster.is_none() && own) {
                let of_cluster = host_of_cluster.or(project.as_deref()).unwrap_or_default().to_owned();
                pass.report(
                    Severity::Blocks,
                    interface.path("projectID"),
                    format!("the network of the GCPCluster is in the project {of_cluster:?} for all machines"),
                    format!("use a network in the project {of_cluster:?}"),
                );
            }
        }
    }
    let converted = pass.item(INTERFACE, interface);
    for (field, value) in converted {
        pass.put(&field, value);
    }
}

fn network_to_machine_api(pass: &mut Pass<'_>) {
    let mut interface = Map::new();
    if let Lookup::Found(cluster) = pass.cluster() {
        let (network, host) = network_of(cluster);
        interface.insert(String::from("network"), network.into());
        if let Some(host) = host {
            interface.insert(String::from("projectID"), host.into());
        }
    }
    if let Some(subnet) = pass.take_text("subnet") {
        interface.insert(String::from("subnetwork"), subnet.into());
    }
    match pass.take("publicIP") {
        None | Some(Value::Bool(false)) => {}
        Some(Value::Bool(true)) => {
            interface.insert(String::from("publicIP"), true.into());
        }
        Some(_) => pass.block("publicIP", "must be true or false", "correct the value"),
    }
    pass.put("networkInterfaces", json!([interface]));
}

const SERVICE_ACCOUNT: Hand = Hand {
    machine_api: &["serviceAccounts"],
    cluster_api: &["serviceAccounts"],
    about: "a list with one service account is an object in Cluster API; absent in Cluster API is the default account \
            with access to all services",
    to: |pass| {
        let accounts = pass.take_list("serviceAccounts");
        if accounts.len() > 1 {
            pass.block(
                "serviceAccounts",
                "Cluster API supports one service account",
                "keep one",
            );
        }
        let account = accounts.into_iter().next();
        let converted = account.map_or_else(Map::new, |account| pass.item(ACCOUNT, account));
        if converted.is_empty() {
            pass.block(
                "serviceAccounts",
                "Cluster API gives a machine without a service account the default one, with access to all services",
                "set the service account that the machine needs",
            );
        } else {
            pass.put("serviceAccounts", converted.into());
        }
    },
    back: |pass| {
        let account = pass.source.branch("serviceAccounts");
        let converted = match account.value {
            Value::Null => Map::new(),
            _ => pass.item(ACCOUNT, account),
        };
        let converted = match converted.is_empty() {
            true => default_account(),
            false => converted.into(),
        };
        pass.put("serviceAccounts", json!([converted]));
    },
};

/// The service account of a machine of Cluster API that does not name one.
fn default_account() -> Value {
    json!({"email": "default", "scopes": ["https://www.googleapis.com/auth/cloud-platform"]})
}

const ACCOUNT: &[Rule] = &[same("email", Shape::Text), same("scopes", Shape::Texts)];

const FORWARDING: Hand = Hand {
    machine_api: &["canIPForward"],
    cluster_api: &["ipForwarding"],
    about: "true is `Enabled`, false or absent is `Disabled`; absent in Cluster API is `Enabled`",
    to: |pass| {
        let value = pass.take("canIPForward").unwrap_or(Value::Bool(false));
        match value.as_bool() {
            Some(true) => pass.put("ipForwarding", "Enabled".into()),
            Some(false) => pass.put("ipForwarding", "Disabled".into()),
            None => pass.block("canIPForward", "must be true or false", "correct the value"),
        }
    },
    back: |pass| match pass.take_text("ipForwarding").as_deref() {
        None | Some("Enabled") => pass.put("canIPForward", true.into()),
        Some("Disabled") => pass.put("canIPForward", false.into()),
        Some(_) => pass.block("ipForwarding", "must be Enabled or Disabled", "correct the value"),
    },
};

/// The Machine API adds an instance to its target pools when it creates it. Cluster API leaves the
/// pools alone, so an instance that exists stays in them, and a new one would be in none.
const TARGET_POOLS: Hand = Hand {
    machine_api: &["targetPools"],
    cluster_api: &[],
    about: "carried along for a control plane machine with a provider ID, whose instance stays in its target pools; \
            blocks otherwise, because Cluster API adds no new instance to target pools",
    to: |pass| {
        let Some(pools) = pass.take("targetPools") else { return };
        if is_empty(&pools) {
            return;
        }
        match pass.env.provider_id {
            Some(id) if pass.env.control_plane && is_pools(&pools) => {
                pass.keep("targetPools", pools, Described::Value(id.into()));
            }
            Some(_) if pass.env.control_plane => pass.block("targetPools", POOLS, "correct the list"),
            _ => pass.block(
                "targetPools",
                "Cluster API adds no new instance to target pools",
                "remove them, and register the machine with a load balancer that Cluster API manages",
            ),
        }
    },
    back: |pass| {
        let Some(id) = pass.env.provider_id else { return };
        let pools = pass.restored("targetPools", &Described::Value(id.into()));
        if let Some(pools) = pools.filter(is_pools) {
            pass.put("targetPools", pools);
        }
    },
};

const POOLS: &str = "must be a list of names of target pools";

fn is_pools(value: &Value) -> bool {
    let names = value.as_array().map(|pools| pools.iter().all(Value::is_string));
    names.unwrap_or_default()
}

fn normal(side: Api, spec: &mut Map<String, Value>) {
    let metadata = match side {
        MachineApi => "gcpMetadata",
        ClusterApi => "additionalMetadata",
    };
    for entry in spec
        .get_mut(metadata)
        .and_then(Value::as_array_mut)
        .into_iter()
        .flatten()
    {
        if let Some(fields) = entry.as_object_mut() {
            fields.retain(|_, value| !value.is_null());
        }
    }
    if side == ClusterApi {
        spec.entry("ipForwarding").or_insert_with(|| "Enabled".into());
        spec.entry("serviceAccounts").or_insert_with(default_account);
        if spec.get("publicIP") == Some(&Value::Bool(false)) {
            spec.remove("publicIP");
        }
        super::gcp_disks::normal_machine(spec);
        return;
    }
    spec.entry("canIPForward").or_insert(Value::Bool(false));
    let project = spec.get("projectID").cloned();
    if let Some(Value::Array(interfaces)) = spec.get_mut("networkInterfaces") {
        for interface in interfaces.iter_mut().filter_map(Value::as_object_mut) {
            interface.retain(|field, value| match field.as_str() {
                "projectID" => Some(&*value) != project.as_ref(),
                "publicIP" => value.as_bool() != Some(false),
                _ => true,
            });
        }
    }
    super::gcp_disks::normal(spec);
}
