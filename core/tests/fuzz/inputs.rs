//! Inputs that are almost valid: valid objects with changed parts, and valid bytes with changed
//! bytes. A parser rejects random input at its first characters.

use proptest::prelude::*;
use serde_json::Value;

/// Strings that have a meaning in some object.
const WORDS: &[&str] = &[
    "",
    "a",
    "Active",
    "Inactive",
    "AWS",
    "Azure",
    "GCP",
    "OpenStack",
    "VSphere",
    "Nutanix",
    "ID",
    "ARN",
    "Filters",
    "master",
    "RollingUpdate",
    "OnDelete",
    "Recreate",
    "In",
    "Exists",
    "cluster",
    "true",
    "1h30m",
    "foregroundDeletion",
    "AWSMachineProviderConfig",
    "AzureMachineProviderSpec",
    "GCPMachineProviderSpec",
    "OpenstackProviderSpec",
    "VSphereMachineProviderSpec",
    "NutanixMachineProviderConfig",
    "2026-01-01T00:00:00Z",
    "/dc/vm/x",
    "ü",
    "\u{0}",
    "Bad_",
];

/// Names of fields of some object.
const FIELDS: &[&str] = &[
    "spec",
    "metadata",
    "status",
    "name",
    "labels",
    "annotations",
    "finalizers",
    "deletionTimestamp",
    "replicas",
    "state",
    "selector",
    "matchLabels",
    "matchExpressions",
    "key",
    "operator",
    "values",
    "strategy",
    "type",
    "template",
    "machineType",
    "machines_v1beta1_machine_openshift_io",
    "failureDomains",
    "platform",
    "aws",
    "azure",
    "gcp",
    "openstack",
    "vsphere",
    "nutanix",
    "placement",
    "availabilityZone",
    "subnet",
    "id",
    "arn",
    "filters",
    "zone",
    "rootVolume",
    "volumeType",
    "providerSpec",
    "value",
    "kind",
    "apiVersion",
    "ami",
    "image",
    "disks",
    "network",
    "devices",
    "networkName",
    "userDataSecret",
    "credentialsSecret",
    "instanceType",
    "machineNamePrefix",
    "capstan.dev/rollout-limit",
    "capstan.dev/progress-deadline",
    "capstan.dev/acknowledge-failure-domains",
    "capstan.dev/roll-on-image-change",
];

/// Any JSON. Most strings in it are from the lists.
pub(crate) fn json() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        4 => prop::sample::select(WORDS).prop_map(Value::from),
        1 => ".{0,12}".prop_map(Value::from),
        1 => Just(Value::Null),
        1 => any::<bool>().prop_map(Value::from),
        2 => (-3_i64..8).prop_map(Value::from),
        1 => prop_oneof![
            any::<i64>().prop_map(Value::from),
            any::<u64>().prop_map(Value::from),
            any::<f64>().prop_map(Value::from)
        ],
    ];
    leaf.prop_recursive(3, 16, 4, |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..4).prop_map(Value::from),
            prop::collection::btree_map(prop::sample::select(FIELDS), inner, 0..4)
                .prop_map(|map| map.into_iter().map(|(name, value)| (name.to_owned(), value)).collect()),
        ]
    })
}

/// A change of a tree: a position, as the child to take at each level, and the new value.
#[derive(Clone, Debug)]
pub(crate) struct Graft {
    turns: Vec<usize>,
    act: Act,
}

#[derive(Clone, Debug)]
enum Act {
    Replace(Value),
    Remove,
    Add(&'static str, Value),
}

impl Graft {
    /// Applies the change.
    pub(crate) fn apply(&self, value: &mut Value) {
        graft(value, &self.turns, &self.act);
    }
}

fn graft(value: &mut Value, turns: &[usize], act: &Act) {
    let place = match (turns.split_first(), &mut *value) {
        (Some((turn, rest)), Value::Object(map)) if !map.is_empty() => {
            let name = map.keys().nth(turn % map.len()).cloned().unwrap();
            if rest.is_empty() && matches!(act, Act::Remove) {
                map.remove(&name);
                return;
            }
            Some((map.get_mut(&name).unwrap(), rest))
        }
        (Some((turn, rest)), Value::Array(list)) if !list.is_empty() => {
            let at = turn % list.len();
            if rest.is_empty() && matches!(act, Act::Remove) {
                list.remove(at);
                return;
            }
            Some((&mut list[at], rest))
        }
        _ => None,
    };
    match (place, act) {
        (Some((child, rest)), act) => graft(child, rest, act),
        (None, Act::Replace(new)) => *value = new.clone(),
        (None, Act::Remove) => *value = Value::Null,
        (None, Act::Add(name, new)) => match value {
            Value::Object(map) => {
                map.insert((*name).to_owned(), new.clone());
            }
            Value::Array(list) => list.push(new.clone()),
            other => *other = new.clone(),
        },
    }
}

/// One change to a tree.
pub(crate) fn one_graft() -> impl Strategy<Value = Graft> {
    let act = prop_oneof![
        3 => json().prop_map(Act::Replace),
        1 => Just(Act::Remove),
        2 => (prop::sample::select(FIELDS), json()).prop_map(|(name, value)| Act::Add(name, value)),
    ];
    (prop::collection::vec(0_usize..24, 0..12), act).prop_map(|(turns, act)| Graft { turns, act })
}

/// One of `seeds` with a few changes.
pub(crate) fn mutated(seeds: Vec<Value>) -> impl Strategy<Value = Value> {
    (prop::sample::select(seeds), prop::collection::vec(one_graft(), 0..4)).prop_map(|(mut seed, grafts)| {
        grafts.iter().for_each(|graft| graft.apply(&mut seed));
        seed
    })
}

/// One of `seeds` with some changed bytes, or random bytes.
pub(crate) fn spoilt(seeds: Vec<Vec<u8>>) -> impl Strategy<Value = Vec<u8>> {
    let spoil = (any::<prop::sample::Index>(), 0_u8..6, any::<u8>(), 1_usize..40);
    let nearly = (prop::sample::select(seeds), prop::collection::vec(spoil, 0..6)).prop_map(|(mut bytes, spoils)| {
        for (at, how, byte, length) in spoils {
            if bytes.is_empty() {
                break;
            }
            let at = at.index(bytes.len());
            let end = (at + length).min(bytes.len());
            match how {
                0 => bytes[at] = byte,
                1 => bytes[at] ^= 1 << (byte % 8),
                2 => bytes.insert(at, byte),
                3 => bytes.truncate(at),
                4 => drop(bytes.drain(at..end)),
                _ => {
                    let again = bytes[at..end].to_vec();
                    bytes.splice(at..at, again);
                }
            }
        }
        bytes
    });
    prop_oneof![9 => nearly, 1 => prop::collection::vec(any::<u8>(), 0..300)]
}
