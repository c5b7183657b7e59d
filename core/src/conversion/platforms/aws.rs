//! AWS: `AWSMachineProviderConfig` and `AWSMachine` (v1beta2).

use serde_json::{Map, Value, json};

use super::Platform;
use super::aws_devices::{BLOCK_DEVICES, OTHER_VOLUME, ROOT_VOLUME, VOLUME};
use crate::conversion::Api::{self, ClusterApi, MachineApi};
use crate::conversion::load_balancers::{LOAD_BALANCERS, normal as normal_balancers};
use crate::conversion::metadata::{INSTANCE_TYPE, REGION, ZONE};
use crate::conversion::pass::keep::Described;
use crate::conversion::pass::rule::{
    Hand, Literal, Rule, cluster_api_only, constant, inner, list, machine_api_only, moved, only, required, same, shared,
};
use crate::conversion::pass::{Pass, Shared};
use crate::conversion::shape::Shape;
use crate::conversion::{Severity, tree};

/// AWS.
pub(super) const PLATFORM: Platform = Platform {
    id: "aws",
    title: "AWS",
    platform_type: "AWS",
    provider_spec: "AWSMachineProviderConfig",
    provider_spec_version: "machine.openshift.io/v1beta1",
    machine: "AWSMachine",
    version: "v1beta2",
    crd: "sigs.k8s.io/cluster-api-provider-aws/v2 v2.13.0",
    cluster: "AWSCluster",
    user_data: "userDataSecret",
    rules: RULES,
    computed: &[
        (INSTANCE_TYPE, "instanceType"),
        (REGION, "placement.region"),
        (ZONE, "placement.availabilityZone"),
    ],
    has_instance_state: true,
    has_provider_id: true,
    hand_over: None,
    normal,
};

const LOOKUP: &str = "the Machine API has no image lookup";
const METADATA: &str = "instanceMetadataOptions";

const RULES: &[Rule] = &[
    Rule::Hand(&IGNITION),
    required(
        MachineApi,
        "ami.id",
        "Cluster API selects an image by its ID only",
        "set ami.id",
    ),
    required(
        ClusterApi,
        "ami.id",
        "the Machine API selects an image by its ID",
        "set ami.id",
    ),
    same("ami.id", Shape::Text),
    machine_api_only(
        "ami.arn",
        "Cluster API selects an image by its ID only",
        "set ami.id and remove the ARN",
    ),
    machine_api_only(
        "ami.filters",
        "Cluster API selects an image by its ID only",
        "set ami.id and remove the filters",
    ),
    required(
        MachineApi,
        "instanceType",
        "Cluster API requires the type of the instance",
        "set instanceType",
    ),
    same(
        "instanceType",
        Shape::TextThat(|text| text.chars().count() >= 2, "must have at least 2 characters"),
    ),
    same(
        "cpuOptions.confidentialCompute",
        Shape::Words(&[
            ("Disabled", "Disabled"),
            (
                "AMDEncryptedVirtualizationNestedPaging",
                "AMDEncryptedVirtualizationNestedPaging",
            ),
        ]),
    ),
    moved("tags", "additionalTags", Shape::Tags),
    moved("iamInstanceProfile.id", "iamInstanceProfile", Shape::Text),
    machine_api_only(
        "iamInstanceProfile.arn",
        "Cluster API selects an instance profile by its name only",
        "set iamInstanceProfile.id to the name of the profile",
    ),
    machine_api_only(
        "iamInstanceProfile.filters",
        "Cluster API selects an instance profile by its name only",
        "set iamInstanceProfile.id to the name of the profile",
    ),
    constant(
        MachineApi,
        "credentialsSecret.name",
        Literal::Text("aws-cloud-credentials"),
        "Cluster API uses the credentials of the cluster",
        "use the Secret aws-cloud-credentials",
    ),
    moved("keyName", "sshKeyName", Shape::TextOrEmpty),
    constant(
        MachineApi,
        "deviceIndex",
        Literal::Int(0),
        "Cluster API always attaches the first network interface at index 0",
        "set deviceIndex to 0",
    ),
    moved("publicIp", "publicIP", Shape::Bool),
    same(
        "networkInterfaceType",
        Shape::Words(&[("ENA", "interface"), ("EFA", "efa")]),
    ),
    list("securityGroups", "additionalSecurityGroups", SECURITY_GROUP),
    same("subnet.id", Shape::Text),
    list("subnet.filters", "subnet.filters", FILTER),
    machine_api_only(
        "subnet.arn",
        "Cluster API selects a subnet by ID or filters",
        "set its ID or filters",
    ),
    moved(
        "placement.availabilityZone",
        "Machine.failureDomain",
        Shape::TextThat(short, SHORT),
    ),
    Rule::Hand(&REGION_REQUIRED),
    shared("placement.region", &["region"], "aws.region"),
    moved(
        "placement.tenancy",
        "tenancy",
        Shape::Words(&[("default", "default"), ("dedicated", "dedicated"), ("host", "host")]),
    ),
    Rule::Hand(&HOST),
    inner(
        "placement.host.dedicatedHost.dynamicHostAllocation",
        "dynamicHostAllocation",
        ALLOCATION,
    ),
    Rule::Hand(&LOAD_BALANCERS),
    Rule::Hand(&BLOCK_DEVICES),
    inner("blockDevices[]", "nonRootVolumes[]", VOLUME),
    inner("blockDevices[]", "rootVolume", ROOT_VOLUME),
    inner("blockDevices[]", "nonRootVolumes[]", OTHER_VOLUME),
    Rule::Hand(&SPOT),
    inner("spotMarketOptions", "spotMarketOptions", SPOT_OPTIONS),
    Rule::Hand(&TOKENS),
    constant(
        ClusterApi,
        "instanceMetadataOptions.httpEndpoint",
        Literal::Text("enabled"),
        "the Machine API always enables it",
        "set it to enabled",
    ),
    constant(
        ClusterApi,
        "instanceMetadataOptions.httpPutResponseHopLimit",
        Literal::Int(1),
        "the Machine API always uses 1",
        "set it to 1",
    ),
    constant(
        ClusterApi,
        "instanceMetadataOptions.httpProtocolIpv6",
        Literal::Text("disabled"),
        "the Machine API always disables it",
        "set it to disabled",
    ),
    constant(
        ClusterApi,
        "instanceMetadataOptions.instanceMetadataTags",
        Literal::Text("disabled"),
        "the Machine API always disables it",
        "set it to disabled",
    ),
    same("placementGroupName", Shape::Text),
    same("placementGroupPartition", Shape::Count(1, 7)),
    same("capacityReservationId", Shape::Text),
    same(
        "marketType",
        Shape::Words(&[
            ("OnDemand", "OnDemand"),
            ("Spot", "Spot"),
            ("CapacityBlock", "CapacityBlock"),
        ]),
    ),
    Rule::Hand(&RESERVATION),
    Rule::Hand(&ADDRESSES),
    Rule::Hand(&INSTANCE),
    Rule::Hand(&IDENTITY),
    cluster_api_only("ami.eksLookupType", LOOKUP, "set ami.id"),
    cluster_api_only("imageLookupFormat", LOOKUP, "set ami.id"),
    cluster_api_only("imageLookupOrg", LOOKUP, "set ami.id"),
    cluster_api_only("imageLookupBaseOS", LOOKUP, "set ami.id"),
    cluster_api_only(
        "networkInterfaces",
        "the Machine API creates the only network interface itself",
        "remove them",
    ),
    only(
        ClusterApi,
        "uncompressedUserData",
        &[],
        Severity::Blocks,
        "the Machine API does not set the compression of user data",
        "remove it",
    ),
    cluster_api_only("cloudInit", "the Machine API boots with Ignition", "remove it"),
    cluster_api_only(
        "ignition.proxy",
        "the Machine API has no proxy for Ignition",
        "remove it",
    ),
    cluster_api_only(
        "ignition.tls",
        "the Machine API has no TLS settings for Ignition",
        "remove it",
    ),
    cluster_api_only(
        "securityGroupOverrides",
        "the Machine API has no security groups by role",
        "remove them",
    ),
    cluster_api_only("elasticIpPool", "the Machine API has no address pools", "remove it"),
    cluster_api_only(
        "capacityReservationPreference",
        "the Machine API selects a capacity reservation by its ID only",
        "set capacityReservationId",
    ),
    cluster_api_only(
        "cpuOptions.nestedVirtualization",
        "the Machine API has no nested virtualization",
        "remove it",
    ),
];

const SECURITY_GROUP: &[Rule] = &[
    same("id", Shape::Text),
    list("filters", "filters", FILTER),
    machine_api_only(
        "arn",
        "Cluster API selects a security group by ID or filters",
        "set its ID or filters",
    ),
];

const FILTER: &[Rule] = &[
    required(MachineApi, "name", "a filter needs a name", "set it"),
    required(
        MachineApi,
        "values",
        "Cluster API requires the values of a filter",
        "set them",
    ),
    same("name", Shape::Text),
    same("values", Shape::Texts),
];

/// What a failure domain must be.
pub(super) const SHORT: &str = "must have at most 256 characters";

/// Whether a text fits into the failure domain of a Machine.
pub(super) fn short(text: &str) -> bool {
    text.chars().count() <= 256
}

const REGION_REQUIRED: Hand = Hand {
    machine_api: &[],
    cluster_api: &[],
    about: "a machine must name its region if the Infrastructure has one",
    to: |pass| {
        let known = pass.env.context.shared(pass.env.cluster_kind, &[], "aws.region");
        let is_set = pass
            .source
            .get("placement.region")
            .is_some_and(|region| region.as_str() != Some(""));
        if let Shared::Value { value, place } = known
            && !is_set
        {
            let way_out = format!("set it to {value:?}");
            pass.block(
                "placement.region",
                format!("{place} is {value:?} for all machines"),
                way_out,
            );
        }
    },
    back: |_| {},
};

const SPOT: Hand = Hand {
    machine_api: &["spotMarketOptions"],
    cluster_api: &["spotMarketOptions"],
    about: "same in both; an empty object requests a spot instance without a maximum price",
    to: spot,
    back: spot,
};

const SPOT_OPTIONS: &[Rule] = &[same("maxPrice", Shape::Text)];

fn spot(pass: &mut Pass<'_>) {
    let options = pass.source.branch("spotMarketOptions");
    if !options.value.is_null() {
        let converted = pass.item(SPOT_OPTIONS, options);
        pass.put("spotMarketOptions", converted.into());
    }
}

/// The schema of Cluster API has this rule.
const RESERVATION: Hand = Hand {
    machine_api: &[],
    cluster_api: &[],
    about: "a spot instance has no capacity reservation",
    to: reservation,
    back: reservation,
};

fn reservation(pass: &mut Pass<'_>) {
    let is_spot = pass.target.contains_key("spotMarketOptions")
        || pass.target.get("marketType").and_then(Value::as_str) == Some("Spot");
    if is_spot && pass.target.contains_key("capacityReservationId") {
        pass.block(
            "capacityReservationId",
            "Cluster API does not accept a capacity reservation for a spot instance",
            "remove capacityReservationId, or the spot request",
        );
    }
}

const TOKENS: Hand = Hand {
    machine_api: &["metadataServiceOptions.authentication"],
    cluster_api: &["instanceMetadataOptions.httpTokens"],
    about: "`Optional` is `optional`, and `Required` is `required`; absent means `Optional`",
    to: |pass| tokens(pass, "metadataServiceOptions.authentication", "httpTokens"),
    back: |pass| tokens(pass, "instanceMetadataOptions.httpTokens", "authentication"),
};

fn tokens(pass: &mut Pass<'_>, from: &'static str, to: &str) {
    const WORDS: Shape = Shape::Words(&[("Optional", "optional"), ("Required", "required")]);
    let of = pass.env.from();
    let default = match of {
        MachineApi => "Optional",
        ClusterApi => "optional",
    };
    let value = pass.take(from).filter(|value| value.as_str() != Some(""));
    if value.is_none() && of == ClusterApi {
        return;
    }
    let place = if of == MachineApi {
        METADATA
    } else {
        "metadataServiceOptions"
    };
    match WORDS.convert(of, &value.unwrap_or_else(|| default.into())) {
        Ok(Some(value)) => pass.put(&format!("{place}.{to}"), value),
        Ok(None) => {}
        Err(fault) => pass.block(from, fault.reason, fault.way_out),
    }
}

const HOST: Hand = Hand {
    machine_api: &["placement.host"],
    cluster_api: &["hostAffinity", "hostID", "dynamicHostAllocation"],
    about: "`AnyAvailable` is `default`, and `DedicatedHost` is `host` with hostID or dynamicHostAllocation",
    to: host_to_cluster_api,
    back: host_to_machine_api,
};

const ALLOCATION: &[Rule] = &[same("tags", Shape::Tags)];

const HOST_ID: &str = "placement.host.dedicatedHost.id";

/// Whether a text is the ID of a host with this number of digits: Cluster API accepts 17, and the
/// Machine API also 8, which older hosts have.
fn is_host_id(text: &str, count: usize) -> bool {
    let digits = text.strip_prefix("h-").unwrap_or_default();
    digits.len() == count && digits.bytes().all(|digit| matches!(digit, b'0'..=b'9' | b'a'..=b'f'))
}

fn host_to_cluster_api(pass: &mut Pass<'_>) {
    let affinity = pass.take_text("placement.host.affinity");
    let strategy = pass.take_text("placement.host.dedicatedHost.allocationStrategy");
    let id = pass.take_text(HOST_ID);
    let dynamic = pass.source.branch("placement.host.dedicatedHost.dynamicHostAllocation");
    let affinity = match affinity.as_deref() {
        Some("DedicatedHost") => "host",
        Some("AnyAvailable") => "default",
        None if strategy.is_none() && id.is_none() && dynamic.value.is_null() => "default",
        _ => {
            pass.block(
                "placement.host.affinity",
                "Cluster API supports no other affinity",
                "use AnyAvailable or DedicatedHost",
            );
            return;
        }
    };
    pass.put("hostAffinity", affinity.into());
    let is_dynamic = match strategy.as_deref() {
        Some("Dynamic") => true,
        None | Some("UserProvided") => false,
        Some(_) => {
            pass.block(
                "placement.host.dedicatedHost.allocationStrategy",
                "Cluster API supports no other strategy",
                "use UserProvided or Dynamic",
            );
            return;
        }
    };
    match (is_dynamic, &id) {
        (true, Some(_)) => pass.block(HOST_ID, "Cluster API allocates the host itself", "remove the ID"),
        (false, Some(id)) if !is_host_id(id, 17) => pass.block(
            HOST_ID,
            "Cluster API accepts only host IDs with 17 hexadecimal digits",
            "use such a host",
        ),
        (false, Some(id)) => pass.put("hostID", id.as_str().into()),
        (false, None) if affinity == "host" => pass.block(
            HOST_ID,
            "Cluster API requires an ID, or the dynamic allocation of a host",
            "set the ID of the host",
        ),
        _ => {}
    }
    dynamic_to_cluster_api(pass, dynamic, is_dynamic, affinity);
}

fn dynamic_to_cluster_api(pass: &mut Pass<'_>, dynamic: tree::Tree, is_dynamic: bool, affinity: &str) {
    if !is_dynamic && !dynamic.value.is_null() {
        pass.report(
            Severity::Blocks,
            dynamic.root,
            "Cluster API allocates a host only if the strategy is Dynamic",
            "set the allocation strategy to Dynamic",
        );
    } else if is_dynamic && affinity != "host" {
        pass.block(
            "placement.host.affinity",
            "Cluster API allocates a host only for DedicatedHost",
            "set it to DedicatedHost",
        );
    } else if is_dynamic {
        let converted = match dynamic.value {
            Value::Null => Map::new(),
            _ => pass.item(ALLOCATION, dynamic),
        };
        pass.put("dynamicHostAllocation", converted.into());
    }
}

fn host_to_machine_api(pass: &mut Pass<'_>) {
    let affinity = pass.take_text("hostAffinity");
    let id = pass.take_text("hostID");
    let dynamic = pass.source.branch("dynamicHostAllocation");
    let dedicated = match affinity.as_deref() {
        None | Some("default") => false,
        Some("host") => true,
        Some(_) => {
            pass.block(
                "hostAffinity",
                "the Machine API supports no other affinity",
                "use default or host",
            );
            return;
        }
    };
    let has_dynamic = !dynamic.value.is_null();
    if dedicated && id.is_some() == has_dynamic {
        pass.block(
            "hostAffinity",
            "the Machine API requires exactly one of hostID and dynamicHostAllocation for it",
            "set one of them",
        );
        return;
    }
    if !dedicated && has_dynamic {
        pass.block(
            "dynamicHostAllocation",
            "the Machine API allocates a host only for a dedicated host",
            "set hostAffinity to host",
        );
        return;
    }
    if let Some(id) = &id {
        if is_host_id(id, 8) {
            let path = pass.path("hostID");
            pass.report(
                Severity::Loses,
                path,
                "the Machine API accepts it, and Cluster API accepts only 17 hexadecimal digits on the way back",
                "use a host whose ID has 17 hexadecimal digits",
            );
        } else if !is_host_id(id, 17) {
            pass.block("hostID", "must be h- and 17 hexadecimal digits", "correct the ID");
        }
        pass.put(HOST_ID, id.as_str().into());
        pass.put("placement.host.dedicatedHost.allocationStrategy", "UserProvided".into());
    }
    if has_dynamic {
        pass.put("placement.host.dedicatedHost.allocationStrategy", "Dynamic".into());
        let converted = pass.item(ALLOCATION, dynamic);
        if !converted.is_empty() {
            pass.put("placement.host.dedicatedHost.dynamicHostAllocation", converted.into());
        }
    }
    let on_hosts = affinity.is_some()
        && tree::get(&Value::Object(pass.target.clone()), "placement.tenancy") == Some(&json!("host"));
    if dedicated || id.is_some() || on_hosts {
        let affinity = if dedicated { "DedicatedHost" } else { "AnyAvailable" };
        pass.put("placement.host.affinity", affinity.into());
    }
}

const IGNITION: Hand = Hand {
    machine_api: &[],
    cluster_api: &["ignition.storageType", "ignition.version"],
    about: "`UnencryptedUserData`, with any version, which has no effect on it; its absence and the version are carried \
            along while the image is the same",
    to: |pass| match pass.restored(IGNITION_SECTION, &IMAGE) {
        Some(Value::Object(original)) => {
            for field in ["storageType", "version"] {
                if let Some(text) = original.get(field).and_then(Value::as_str) {
                    pass.put(&format!("ignition.{field}"), text.into());
                }
            }
        }
        _ => pass.put("ignition.storageType", UNENCRYPTED.into()),
    },
    back: |pass| {
        let (storage, version) = (
            pass.take_text("ignition.storageType"),
            pass.take_text("ignition.version"),
        );
        if storage.as_deref().is_some_and(|storage| storage != UNENCRYPTED) {
            pass.block(
                "ignition.storageType",
                "the Machine API passes the user data unencrypted",
                "set it to UnencryptedUserData",
            );
        } else if storage.is_none() || version.as_deref().is_some_and(|version| version != IGNITION_VERSION) {
            let mut original = Map::new();
            for (field, value) in [("storageType", storage), ("version", version)] {
                original.extend(value.map(|value| (field.to_owned(), value.into())));
            }
            pass.keep(IGNITION_SECTION, original.into(), IMAGE);
        }
    },
};

/// The section of the annotation with the settings of Ignition.
const IGNITION_SECTION: &str = "ignition";
const UNENCRYPTED: &str = "UnencryptedUserData";
/// The version that the CRD of Cluster API sets by default.
const IGNITION_VERSION: &str = "2.3";
const IMAGE: Described = Described::Fields(&["ami"]);

const ADDRESSES: Hand = Hand {
    machine_api: &[],
    cluster_api: &["privateDnsName", "assignPrimaryIPv6"],
    about: "set from the IP family of the Infrastructure; another value is refused",
    to: |pass| {
        for (field, value) in addresses(pass) {
            pass.put(field, value);
        }
    },
    back: addresses_to_machine_api,
};

/// The fields that a dual-stack cluster sets on every machine.
fn addresses(pass: &Pass<'_>) -> Vec<(&'static str, Value)> {
    let infrastructure = pass.env.context.infrastructure.found();
    let family = infrastructure.and_then(|object| tree::text(object, "status.platformStatus.aws.ipFamily"));
    let primary = match family {
        Some("DualStackIPv6Primary") => "enabled",
        Some("DualStackIPv4Primary") => "disabled",
        _ => return Vec::new(),
    };
    let names = json!({"enableResourceNameDnsAAAARecord": true, "enableResourceNameDnsARecord": true,
        "hostnameType": "resource-name"});
    vec![("privateDnsName", names), ("assignPrimaryIPv6", primary.into())]
}

fn addresses_to_machine_api(pass: &mut Pass<'_>) {
    let known = addresses(pass);
    for field in ["privateDnsName", "assignPrimaryIPv6"] {
        let Some(value) = pass.take(field) else { continue };
        let expected = known.iter().find(|(name, _)| *name == field).map(|(_, value)| value);
        if expected != Some(&value) && !crate::conversion::pass::is_empty(&value) {
            pass.block(
                field,
                "the Machine API sets it from the IP family of the Infrastructure, which requires another value",
                "remove it, or keep the Machine in Cluster API",
            );
        }
    }
}

const INSTANCE: Hand = Hand {
    machine_api: &[],
    cluster_api: &["instanceID"],
    about: "the last part of `spec.providerID` of the Machine",
    to: |pass| {
        // The provider ID of a template is an issue of its own.
        let Some(id) = pass.env.provider_id.filter(|_| !pass.env.template) else {
            return;
        };
        match instance_id(id) {
            Some(instance) => pass.put("instanceID", instance.into()),
            None => pass.report(
                Severity::Blocks,
                String::from("spec.providerID"),
                "Cluster API requires an ID such as aws:///us-east-1a/i-0123456789abcdef0",
                "correct the provider ID",
            ),
        }
    },
    back: |pass| {
        let of_machine = pass.env.provider_id.and_then(instance_id);
        if let Some(id) = pass.take_text("instanceID")
            && of_machine != Some(id.as_str())
        {
            let way_out = match pass.env.provider_id {
                _ if pass.env.template => "remove it from the template",
                Some(_) => "correct the one that is wrong",
                None => "wait until Cluster API has set spec.providerID",
            };
            pass.block(
                "instanceID",
                "it differs from the instance in spec.providerID of the Machine",
                way_out,
            );
        }
    },
};

/// The ID of the instance in a provider ID.
fn instance_id(provider_id: &str) -> Option<&str> {
    provider_id.rsplit('/').next().filter(|last| last.starts_with("i-"))
}

const IDENTITY: Hand = Hand {
    machine_api: &[],
    cluster_api: &[],
    about: "the AWSCluster must use the AWSClusterControllerIdentity `default`",
    to: identity,
    back: identity,
};

fn identity(pass: &mut Pass<'_>) {
    let Some(cluster) = pass.cluster().found() else { return };
    let Some(reference) = tree::get(cluster, "identityRef") else {
        return;
    };
    let is_default = |field: &str, default: &str| tree::text(reference, field).is_none_or(|value| value == default);
    if !is_default("kind", "AWSClusterControllerIdentity") || !is_default("name", "default") {
        pass.report(
            Severity::Blocks,
            String::from("AWSCluster spec.identityRef"),
            "the Machine API always uses the credentials of the platform",
            "use the AWSClusterControllerIdentity named default",
        );
    }
}

fn normal(side: Api, spec: &mut Map<String, Value>) {
    super::aws_devices::normal(side, spec);
    let default = |spec: &mut Map<String, Value>, path: &str, value: &str| {
        let whole = Value::Object(spec.clone());
        if tree::text(&whole, path).is_none() {
            tree::put(spec, path, value.into());
        }
    };
    if side == ClusterApi {
        if let Some(Value::Object(ignition)) = spec.get_mut("ignition") {
            let is_unencrypted = ignition.get("storageType").and_then(Value::as_str) == Some(UNENCRYPTED);
            let is_default = |value: &Value| value.as_str() == Some(IGNITION_VERSION);
            ignition.retain(|field, value| !(is_unencrypted && field == "version" && is_default(value)));
        }
        default(spec, "instanceMetadataOptions.httpTokens", "optional");
        default(spec, "hostAffinity", "default");
        return;
    }
    default(spec, "metadataServiceOptions.authentication", "Optional");
    normal_balancers(spec);
    let Some(Value::Object(placement)) = spec.get_mut("placement") else {
        return;
    };
    let host = placement.get("host").cloned().unwrap_or_default();
    if host.get("dedicatedHost").is_none_or(Value::is_null) && tree::text(&host, "affinity") != Some("DedicatedHost") {
        placement.remove("host");
    } else {
        let mut host = host.as_object().cloned().unwrap_or_default();
        let dedicated = host.get("dedicatedHost").cloned().unwrap_or_default();
        if tree::text(&dedicated, "allocationStrategy").is_none() {
            tree::put(&mut host, "dedicatedHost.allocationStrategy", "UserProvided".into());
        }
        if let Some(Value::Object(dedicated)) = host.get_mut("dedicatedHost") {
            let is_empty = crate::conversion::pass::is_empty;
            dedicated.retain(|field, value| field != "dynamicHostAllocation" || !is_empty(value));
        }
        placement.insert(String::from("host"), host.into());
    }
}
