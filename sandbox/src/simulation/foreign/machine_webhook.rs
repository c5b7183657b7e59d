//! The webhooks of OpenShift's Machine API for AWS: what they store of the provider spec of a new
//! Machine, and what they refuse.
//!
//! The recordings are those of the stand-in in `sandbox/neighbours/machine-webhook`, which stores
//! what was observed on the real webhooks; `tests/neighbours` records them and compares them. The
//! actor replays them. It must not know what a controller requests.

use std::sync::LazyLock;

use anyhow::{Context as _, Result};
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};

/// The region of the cluster, from its Infrastructure.
pub const REGION: &str = "us-east-1";

/// A provider spec that a Machine was created with, and what the webhooks did.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Recording {
    /// The labels of the Machine.
    pub labels: Value,
    /// The provider spec of the request.
    pub sent: Value,
    /// The stored provider spec; none if the creation was refused.
    pub stored: Option<Value>,
    /// Why the creation was refused.
    pub refusals: Vec<String>,
    /// The warnings.
    pub warnings: Vec<String>,
}

/// The recordings, one on a line.
const RECORDED: &str = include_str!("machine-webhook/recordings.jsonl");

static RECORDINGS: LazyLock<Vec<Recording>> = LazyLock::new(|| read(RECORDED).unwrap_or_default());

/// Reads recordings.
///
/// # Errors
/// When a line is not a recording.
pub fn read(text: &str) -> Result<Vec<Recording>> {
    let lines = text.lines();
    lines
        .map(|line| serde_json::from_str(line).with_context(|| format!("parsing {line}")))
        .collect()
}

/// What was recorded.
pub fn recordings() -> &'static [Recording] {
    &RECORDINGS
}

/// Fields that users write, beside those of a usual provider spec: known ones, empty ones, unknown
/// ones, and known ones with other letters. The value null removes a field.
pub fn vocabulary() -> Vec<Value> {
    vec![
        json!({"tags": []}),
        json!({"tags": [{"name": "team", "value": "platform"}]}),
        json!({"securityGroups": []}),
        json!({"securityGroups": [{"filters": [{"name": "tag:Name", "values": ["masters"]}]}]}),
        json!({"networkInterfaceType": ""}),
        json!({"networkInterfaceType": "EFA"}),
        json!({"networkInterfaceType": "ENI"}),
        json!({"unknown": "x"}),
        json!({"placement": {"unknown": "x"}}),
        json!({"InstanceType": "m7i.large"}),
        json!({"blockDevices": [{"ebs": {"volumeSize": 120, "volumeType": "gp3"}}]}),
        json!({"blockDevices": [{"ebs": {"volumeSize": 120, "volumeType": "gp3", "unknown": true}}]}),
        json!({"metadataServiceOptions": {}}),
        json!({"metadataServiceOptions": {"authentication": "Required"}}),
        json!({"metadataServiceOptions": {"authentication": "Sometimes"}}),
        json!({"placement": {"tenancy": "dedicated"}}),
        json!({"placement": {"tenancy": "host"}}),
        json!({"placement": {"region": null}}),
        json!({"instanceType": null}),
        json!({"credentialsSecret": null}),
        json!({"userDataSecret": null}),
        json!({"ami": null}),
        json!({"ami": {"id": "ami-0456"}}),
        json!({"deviceIndex": 0}),
        json!({"capacityReservationId": ""}),
        json!({"publicIp": true}),
        json!({"keyName": "masters"}),
        json!({"subnet": {"id": "subnet-0123"}}),
        json!({"loadBalancers": [{"name": "int", "type": "network"}]}),
        json!({"iamInstanceProfile": {"id": "masters"}}),
    ]
}

/// The provider specs that are recorded: a usual one, and one with each part of the vocabulary.
pub fn cases(usual: &Value) -> Vec<Value> {
    let changed = |change: Value| {
        let mut value = usual.clone();
        json_patch::merge(&mut value, &change);
        value
    };
    let changes = std::iter::once(json!({})).chain(vocabulary());
    changes.map(changed).collect()
}

/// What the webhooks do with a provider spec.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Outcome {
    /// The stored provider spec; none if the creation is refused.
    pub stored: Option<Value>,
    /// Why the creation is refused.
    pub refusals: Vec<String>,
    /// The warnings.
    pub warnings: Vec<String>,
}

/// The fields of the type of the provider spec. A list stands for the fields of its items.
static TYPE: LazyLock<Value> = LazyLock::new(|| {
    let filtered = json!({"id": 0, "arn": 0, "filters": [{"name": 0, "values": 0}]});
    json!({
        "apiVersion": 0, "kind": 0,
        "metadata": {"name": 0, "namespace": 0, "creationTimestamp": 0},
        "ami": filtered, "instanceType": 0, "cpuOptions": {"confidentialCompute": 0},
        "tags": [{"name": 0, "value": 0}], "iamInstanceProfile": filtered,
        "userDataSecret": {"name": 0}, "credentialsSecret": {"name": 0},
        "keyName": 0, "deviceIndex": 0, "publicIp": 0, "networkInterfaceType": 0,
        "securityGroups": [filtered], "subnet": filtered,
        "placement": {"region": 0, "availabilityZone": 0, "tenancy": 0},
        "loadBalancers": [{"name": 0, "type": 0}],
        "blockDevices": [{"deviceName": 0, "noDevice": 0, "virtualName": 0, "ebs": {"deleteOnTermination": 0,
            "encrypted": 0, "kmsKey": filtered, "iops": 0, "throughputMib": 0, "volumeSize": 0, "volumeType": 0}}],
        "spotMarketOptions": {"maxPrice": 0}, "metadataServiceOptions": {"authentication": 0},
        "placementGroupName": 0, "placementGroupPartition": 0, "capacityReservationId": 0, "marketType": 0,
    })
});

/// Fields that vanish if they are empty.
const OMITTED: [&str; 4] = ["tags", "securityGroups", "networkInterfaceType", "loadBalancers"];

/// A value as its type stores it: unknown fields vanish, and names match regardless of their case.
/// The first unknown field is noted.
fn decoded(value: &Value, type_: &Value, unknown: &mut Option<String>) -> Value {
    match (value, type_) {
        (Value::Object(fields), Value::Object(known)) => {
            let mut stored = Map::new();
            for (name, value) in fields {
                let exact = known.get_key_value(name);
                let found = exact.or_else(|| known.iter().find(|(known, _)| known.eq_ignore_ascii_case(name)));
                if exact.is_none() {
                    unknown.get_or_insert_with(|| name.clone());
                }
                if let Some((name, type_)) = found
                    && !value.is_null()
                {
                    stored.insert(name.clone(), decoded(value, type_, unknown));
                }
            }
            stored.into()
        }
        (Value::Array(items), Value::Array(types)) => {
            let type_ = types.first().unwrap_or(&Value::Null);
            items.iter().map(|item| decoded(item, type_, unknown)).collect()
        }
        (value, _) => value.clone(),
    }
}

fn is_empty(value: &Value) -> bool {
    value.as_array().is_some_and(Vec::is_empty) || value.as_str().is_some_and(str::is_empty)
}

/// Fields that are always stored, and their values where they are absent.
fn set_defaults(spec: &mut Map<String, Value>) {
    let defaults = [
        ("instanceType", json!("m5.large")),
        ("userDataSecret", json!({"name": "worker-user-data"})),
        ("credentialsSecret", json!({"name": "aws-cloud-credentials"})),
        ("ami", json!({})),
        ("capacityReservationId", json!("")),
        ("deviceIndex", json!(0)),
        ("metadata", json!({})),
        ("metadataServiceOptions", json!({})),
        ("placement", json!({})),
        ("subnet", json!({})),
    ];
    for (name, default) in defaults {
        spec.entry(name).or_insert(default);
    }
    if let Some(placement) = spec.get_mut("placement").and_then(Value::as_object_mut) {
        let region = placement.entry("region").or_insert_with(|| json!(""));
        if is_empty(region) {
            *region = REGION.into();
        }
    }
    let devices = spec.get_mut("blockDevices").and_then(Value::as_array_mut);
    for device in devices.into_iter().flatten() {
        if let Some(disk) = device.get_mut("ebs").and_then(Value::as_object_mut) {
            disk.entry("kmsKey").or_insert_with(|| json!({}));
        }
    }
    spec.retain(|name, value| !(OMITTED.contains(&name.as_str()) && is_empty(value)));
}

/// What the webhooks do with the provider spec of a new Machine.
pub fn create(labels: &Value, sent: &Value) -> Outcome {
    let mut unknown = None;
    let mut stored = decoded(sent, &TYPE, &mut unknown);
    if let Some(spec) = stored.as_object_mut() {
        set_defaults(spec);
    }
    let refusals = refusals(labels, &stored);
    // The defaulting webhook has removed unknown fields before they are looked for.
    Outcome {
        stored: refusals.is_empty().then_some(stored),
        refusals,
        warnings: Vec::new(),
    }
}

fn refusals(labels: &Value, spec: &Value) -> Vec<String> {
    let text = |pointer: &str| spec.pointer(pointer).and_then(Value::as_str).unwrap_or_default();
    let mut refusals = Vec::new();
    let mut require = |holds: bool, field: &str, text: String| {
        if !holds {
            refusals.push(format!("providerSpec.{field}: {text}"));
        }
    };
    let required = || "Required value".to_owned();
    require(
        spec.pointer("/ami/id").is_some(),
        "ami",
        format!("{}: expected providerSpec.ami.id to be populated", required()),
    );
    require(!text("/placement/region").is_empty(), "placement.region", required());
    require(!text("/instanceType").is_empty(), "instanceType", required());
    let one_of = |value: &str, allowed: &[&str]| {
        let list = allowed.join("\", \"");
        let text = format!("Invalid value: \"{value}\": must be one of \"{list}\"");
        (allowed.contains(&value), text)
    };
    let tenancy = text("/placement/tenancy");
    let (holds, why) = one_of(tenancy, &["", "default", "dedicated", "host"]);
    require(holds, "placement.tenancy", why);
    let role = labels.pointer("/machine.openshift.io~1cluster-api-machine-role");
    require(
        tenancy != "host" || role != Some(&json!("master")),
        "placement.tenancy",
        "Forbidden: a control plane machine cannot run on a dedicated host".to_owned(),
    );
    let (holds, why) = one_of(text("/networkInterfaceType"), &["", "ENA", "EFA"]);
    require(holds, "networkInterfaceType", why);
    let (holds, why) = one_of(
        text("/metadataServiceOptions/authentication"),
        &["", "Optional", "Required"],
    );
    require(holds, "metadataServiceOptions.authentication", why);
    refusals
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_actor_reproduces_every_recording() {
        assert!(recordings().len() > vocabulary().len());
        for recording in recordings() {
            let Outcome {
                stored,
                refusals,
                warnings,
            } = create(&recording.labels, &recording.sent);
            assert_eq!(
                (stored, refusals, warnings),
                (
                    recording.stored.clone(),
                    recording.refusals.clone(),
                    recording.warnings.clone()
                ),
                "{}",
                recording.sent
            );
        }
    }
}
