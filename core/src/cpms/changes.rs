//! Changes: the differences of two provider specs, field by field, and the hash that names a
//! revision.
//!
//! Decision 8. Both provider specs are normalized first: defaults of the platform are added, values
//! that mean "not set" are removed, fields that failure domains set are removed if the set lists
//! failure domains, and image fields are removed unless images are compared. The order of keys does
//! not matter. The module decides neither whether a change is allowed nor when it is applied to a
//! machine.

use std::cmp::Ordering;

use serde_json::{Map, Value};

use super::defaults::{DEFAULTED, provider_spec_defaults};
use super::domains::{self, Platform};
use super::fields;
use crate::model::hex_hash;

/// Starts a rollout also for a change of the machine image, with the value `true` (decision 8).
pub const ROLL_ON_IMAGE_CHANGE: &str = "capstan.dev/roll-on-image-change";

/// The fields that a comparison includes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Comparison {
    /// Whether failure domains set some fields, which are then not compared.
    pub domains: bool,
    /// Whether image fields are compared.
    pub images: bool,
}

/// A field that differs.
#[derive(Clone, Debug, PartialEq)]
pub struct FieldChange {
    /// Path within the provider spec: `instanceType`, `blockDevices[0].ebs.volumeSize`.
    pub field: String,
    /// The value of the machine; `None` if it is absent.
    pub old: Option<Value>,
    /// The value of the template; `None` if it is absent.
    pub new: Option<Value>,
}

impl std::fmt::Display for FieldChange {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let show = |value: &Option<Value>| value.as_ref().map_or_else(|| "nothing".to_owned(), Value::to_string);
        write!(f, "{}: {} → {}", self.field, show(&self.old), show(&self.new))
    }
}

/// The fields in which `template` and `machine` differ, ordered by path.
pub fn changes(template: &Value, machine: &Value, comparison: Comparison) -> Vec<FieldChange> {
    Difference::between(template, machine).into_changes(comparison)
}

/// Whether any field differs. This is cheaper than a list of the fields.
pub fn differs(template: &Value, machine: &Value, comparison: Comparison) -> bool {
    let size = |spec| {
        Platform::of(spec)
            .and_then(size_field)
            .and_then(|field| fields::text(spec, &[field]))
    };
    // Provider specs of one kind that differ in a text field that no comparison changes.
    let plainly = Platform::of(template) == Platform::of(machine)
        && size(template)
            .zip(size(machine))
            .is_some_and(|(wanted, held)| wanted != held && !wanted.is_empty() && !held.is_empty());
    plainly || !changes(template, machine, comparison).is_empty()
}

/// The text field with the size of a machine. It has no default, no failure domain sets it, and it
/// is not an image.
fn size_field(platform: Platform) -> Option<&'static str> {
    match platform {
        Platform::Aws => Some("instanceType"),
        Platform::Azure => Some("vmSize"),
        Platform::Gcp => Some("machineType"),
        Platform::OpenStack => Some("flavor"),
        Platform::VSphere | Platform::Nutanix => None,
    }
}

/// Two provider specs without their equal fields. Each field is normalized independently of other
/// fields, so that an equal field is no change in any comparison.
#[derive(Clone, Debug)]
pub struct Difference {
    template: Value,
    machine: Value,
    /// Whether it contains a field that has defaults.
    defaulted: bool,
}

impl Difference {
    /// The fields in which `template` and `machine` differ.
    pub fn between(template: &Value, machine: &Value) -> Self {
        let whole = || Self {
            template: template.clone(),
            machine: machine.clone(),
            defaulted: true,
        };
        let (Value::Object(wanted), Value::Object(held)) = (template, machine) else {
            return whole();
        };
        let Some(kind) = wanted.get("kind").filter(|kind| held.get("kind") == Some(kind)) else {
            return whole();
        };
        let (mut template, mut machine) = (Map::new(), Map::new());
        let (mut left, mut right) = (wanted.iter().peekable(), held.iter().peekable());
        // Both maps are sorted by key.
        loop {
            let order = match (left.peek(), right.peek()) {
                (Some((wanted, _)), Some((held, _))) => wanted.cmp(held),
                (Some(_), None) => Ordering::Less,
                (None, Some(_)) => Ordering::Greater,
                (None, None) => break,
            };
            let wanted = order.is_le().then(|| left.next()).flatten();
            let held = order.is_ge().then(|| right.next()).flatten();
            if wanted == held {
                continue;
            }
            template.extend(wanted.map(|(field, value)| (field.clone(), value.clone())));
            machine.extend(held.map(|(field, value)| (field.clone(), value.clone())));
        }
        let defaulted = |field: &&str| template.contains_key(*field) || machine.contains_key(*field);
        let defaulted = DEFAULTED.iter().any(defaulted);
        for side in [&mut template, &mut machine] {
            // The kind gives the platform of the fields.
            side.insert("kind".to_owned(), kind.clone());
        }
        Self {
            template: Value::Object(template),
            machine: Value::Object(machine),
            defaulted,
        }
    }

    /// Whether a field differs that may contain an image.
    pub fn touches_images(&self) -> bool {
        let holds = |spec: &Value| match spec {
            Value::Object(fields) => IMAGE_FIELDS.iter().any(|field| fields.contains_key(*field)),
            _ => true,
        };
        holds(&self.template) || holds(&self.machine)
    }

    /// The fields that differ in this comparison, ordered by path.
    pub fn changes(&self, comparison: Comparison) -> Vec<FieldChange> {
        self.clone().into_changes(comparison)
    }

    /// The same, for the last comparison of a difference.
    pub fn into_changes(self, comparison: Comparison) -> Vec<FieldChange> {
        let machine = into_canonical(self.machine, comparison, self.defaulted);
        let template = into_canonical(self.template, comparison, self.defaulted);
        let mut found = Vec::new();
        diff("", Some(&machine), Some(&template), &mut found);
        found.sort_by(|left, right| left.field.cmp(&right.field));
        found
    }
}

/// Eight hexadecimal digits that name the revision of a template. Equal templates have equal names.
pub fn revision(template: &Value, comparison: Comparison) -> String {
    hex_hash(&canonical(template, comparison), 8)
}

/// The normalized provider spec of a comparison.
pub fn canonical(provider_spec: &Value, comparison: Comparison) -> Value {
    into_canonical(provider_spec.clone(), comparison, true)
}

fn into_canonical(mut spec: Value, comparison: Comparison, fill: bool) -> Value {
    let platform = Platform::of(&spec);
    if comparison.domains {
        domains::strip_in_place(&mut spec);
    }
    if fill {
        provider_spec_defaults(platform, &mut spec);
    }
    // The group of provider specs was renamed once, and their metadata is not used.
    for field in ["apiVersion", "metadata"] {
        fields::remove(&mut spec, &[field]);
    }
    if !comparison.images {
        leave_out_images(platform, &mut spec);
    }
    if platform == Some(Platform::VSphere) {
        machine_own_vsphere(&mut spec);
    }
    for field in zero_fields(platform) {
        let zero = spec
            .get(*field)
            .is_some_and(|value| value.as_bool() == Some(false) || value.as_f64() == Some(0.0));
        if zero {
            fields::remove(&mut spec, &[field]);
        }
    }
    tidy(&mut spec);
    spec
}

/// The fields of a provider spec that contain an image, on any platform.
const IMAGE_FIELDS: [&str; 3] = ["ami", "image", "disks"];

fn leave_out_images(platform: Option<Platform>, spec: &mut Value) {
    match platform {
        Some(Platform::Aws) => fields::remove(spec, &["ami"]),
        Some(Platform::Azure) => fields::remove(spec, &["image"]),
        Some(Platform::Gcp) => {
            let disks = spec.get_mut("disks").and_then(Value::as_array_mut);
            for disk in disks.into_iter().flatten() {
                fields::remove(disk, &["image"]);
            }
        }
        _ => {}
    }
}

/// The folder of the template is removed, and the addresses that belong to one machine.
fn machine_own_vsphere(spec: &mut Value) {
    if let Some(template) = fields::text(spec, &["template"]) {
        let name = fields::basename(template).to_owned();
        fields::set(spec, &["template"], Value::String(name));
    }
    let devices = spec
        .get_mut("network")
        .and_then(|network| network.get_mut("devices"))
        .and_then(Value::as_array_mut);
    for device in devices.into_iter().flatten() {
        for own in ["gateway", "ipAddrs"] {
            fields::remove(device, &[own]);
        }
    }
}

/// Fields that Go encodes with this value when they are not set.
fn zero_fields(platform: Option<Platform>) -> &'static [&'static str] {
    match platform {
        Some(Platform::Aws) => &["deviceIndex"],
        Some(Platform::Azure) => &["publicIP", "acceleratedNetworking"],
        Some(Platform::Gcp) => &["canIPForward", "deletionProtection"],
        Some(Platform::OpenStack) => &["trunk"],
        Some(Platform::VSphere) => &["numCPUs", "numCoresPerSocket", "memoryMiB", "diskGiB"],
        Some(Platform::Nutanix) | None => &[],
    }
}

/// Removes values that mean "not set": null, the empty string, the empty object, the empty list.
fn tidy(value: &mut Value) {
    let unset = |value: &Value| match value {
        Value::Null => true,
        Value::String(text) => text.is_empty(),
        Value::Array(items) => items.is_empty(),
        Value::Object(map) => map.is_empty(),
        Value::Bool(_) | Value::Number(_) => false,
    };
    match value {
        Value::Object(map) => {
            map.values_mut().for_each(tidy);
            map.retain(|_, value| !unset(value));
        }
        // Items of a list keep their positions, because the position of a disk has a meaning.
        Value::Array(items) => items.iter_mut().for_each(tidy),
        _ => {}
    }
}

fn diff(path: &str, old: Option<&Value>, new: Option<&Value>, found: &mut Vec<FieldChange>) {
    match (old, new) {
        (Some(Value::Object(old)), Some(Value::Object(new))) => diff_objects(path, old, new, found),
        (Some(Value::Array(old)), Some(Value::Array(new))) if old.len() == new.len() => {
            for (position, (old, new)) in old.iter().zip(new).enumerate() {
                diff(&format!("{path}[{position}]"), Some(old), Some(new), found);
            }
        }
        (old, new) if old == new => {}
        (old, new) => found.push(FieldChange {
            field: path.to_owned(),
            old: old.cloned(),
            new: new.cloned(),
        }),
    }
}

fn diff_objects(path: &str, old: &Map<String, Value>, new: &Map<String, Value>, found: &mut Vec<FieldChange>) {
    let added = new.keys().filter(|key| !old.contains_key(*key));
    for key in old.keys().chain(added) {
        let child = if path.is_empty() {
            key.clone()
        } else {
            format!("{path}.{key}")
        };
        diff(&child, old.get(key), new.get(key), found);
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    const PLAIN: Comparison = Comparison {
        domains: true,
        images: false,
    };
    const IMAGES: Comparison = Comparison {
        domains: true,
        images: true,
    };
    const ALL: Comparison = Comparison {
        domains: false,
        images: false,
    };

    fn shown(template: &Value, machine: &Value, comparison: Comparison) -> Vec<String> {
        changes(template, machine, comparison)
            .iter()
            .map(FieldChange::to_string)
            .collect()
    }

    #[test]
    fn a_change_names_the_field_and_both_values() {
        let machine = json!({"kind": "AWSMachineProviderConfig", "instanceType": "m6i.xlarge",
            "blockDevices": [{"ebs": {"volumeSize": 100, "encrypted": true}}]});
        let template = json!({"kind": "AWSMachineProviderConfig", "instanceType": "m6i.2xlarge",
            "blockDevices": [{"ebs": {"volumeSize": 200}}]});
        assert_eq!(
            shown(&template, &machine, PLAIN),
            [
                "blockDevices[0].ebs.encrypted: true → nothing",
                "blockDevices[0].ebs.volumeSize: 100 → 200",
                "instanceType: \"m6i.xlarge\" → \"m6i.2xlarge\""
            ]
        );
    }

    #[test]
    fn defaults_order_of_keys_and_unset_values_of_go_are_no_change() {
        let machine = json!({"kind": "AWSMachineProviderConfig", "apiVersion": "machine.openshift.io/v1beta1",
            "metadata": {"creationTimestamp": null}, "deviceIndex": 0, "instanceType": "m6i.xlarge", "keyName": "",
            "loadBalancers": [], "userDataSecret": {"name": "master-user-data"},
            "credentialsSecret": {"name": "aws-cloud-credentials"},
            "placement": {"region": "us-east-1", "availabilityZone": "us-east-1b"}, "subnet": {"id": "subnet-2"}});
        let template = json!({"instanceType": "m6i.xlarge", "apiVersion": "awsproviderconfig.openshift.io/v1beta1",
            "kind": "AWSMachineProviderConfig", "placement": {"region": "us-east-1"}});
        assert_eq!(shown(&template, &machine, PLAIN), [""; 0]);
        assert_eq!(revision(&template, PLAIN), revision(&machine, PLAIN));
        assert_eq!(revision(&template, PLAIN).len(), 8);
    }

    #[test]
    fn without_failure_domains_the_zone_of_the_template_is_a_change() {
        let machine = json!({"kind": "GCPMachineProviderSpec", "zone": "us-central1-a"});
        let template = json!({"kind": "GCPMachineProviderSpec", "zone": "us-central1-b"});
        assert_eq!(
            shown(&template, &machine, ALL),
            ["zone: \"us-central1-a\" → \"us-central1-b\""]
        );
        assert_eq!(shown(&template, &machine, PLAIN), [""; 0]);
    }

    #[test]
    fn images_are_a_change_only_if_they_are_compared() {
        let pairs = [
            (
                json!({"kind": "AWSMachineProviderConfig", "ami": {"id": "ami-1"}}),
                json!({"kind": "AWSMachineProviderConfig", "ami": {"id": "ami-2"}}),
                "ami.id: \"ami-2\" → \"ami-1\"",
            ),
            (
                json!({"kind": "AzureMachineProviderSpec", "image": {"resourceID": "1"}}),
                json!({"kind": "AzureMachineProviderSpec", "image": {"resourceID": "2"}}),
                "image.resourceID: \"2\" → \"1\"",
            ),
            (
                json!({"kind": "GCPMachineProviderSpec", "disks": [{"boot": true, "image": "1"}]}),
                json!({"kind": "GCPMachineProviderSpec", "disks": [{"boot": true, "image": "2"}]}),
                "disks[0].image: \"2\" → \"1\"",
            ),
        ];
        for (template, machine, change) in pairs {
            assert_eq!(shown(&template, &machine, PLAIN), [""; 0]);
            assert_eq!(shown(&template, &machine, IMAGES), [change]);
        }
    }

    #[test]
    fn a_vsphere_template_is_compared_by_name_and_without_addresses() {
        let machine = json!({"kind": "VSphereMachineProviderSpec", "template": "rhcos-1", "numCPUs": 8,
            "network": {"devices": [{"networkName": "n", "ipAddrs": ["10.0.0.4/24"], "gateway": "10.0.0.1"}]}});
        let template = json!({"kind": "VSphereMachineProviderSpec", "template": "/dc/vm/rhcos-1", "numCPUs": 8,
            "network": {"devices": [{"networkName": "n"}]}});
        assert_eq!(shown(&template, &machine, ALL), [""; 0]);
        let other = json!({"kind": "VSphereMachineProviderSpec", "template": "/dc/vm/rhcos-2", "numCPUs": 8,
            "network": {"devices": [{"networkName": "n"}]}});
        assert_eq!(shown(&other, &machine, ALL), ["template: \"rhcos-1\" → \"rhcos-2\""]);
    }

    #[test]
    fn specs_differ_if_they_have_changes_and_images_are_in_the_listed_fields() {
        let of = |kind: &str, field: &str, value: &Value| json!({"kind": kind, field: value, "other": 1});
        let values = [
            json!("a"),
            json!("b"),
            json!(""),
            json!(null),
            json!(7),
            json!({"id": "a"}),
        ];
        let fields = [
            "instanceType",
            "vmSize",
            "machineType",
            "flavor",
            "template",
            "ami",
            "image",
            "disks",
            "zone",
        ];
        let kinds = Platform::ALL.map(Platform::kind);
        let kinds = kinds.iter().chain(["Unknown"].iter());
        for kind in kinds {
            for field in fields {
                for (left, right) in values
                    .iter()
                    .flat_map(|left| values.iter().map(move |right| (left, right)))
                {
                    let (left, right) = (of(kind, field, left), of(kind, field, right));
                    for comparison in [PLAIN, IMAGES, ALL] {
                        let found = changes(&left, &right, comparison);
                        assert_eq!(differs(&left, &right, comparison), !found.is_empty(), "{left} {right}");
                        let difference = Difference::between(&left, &right);
                        let images = Comparison {
                            images: true,
                            ..comparison
                        };
                        if difference.changes(images) != difference.changes(comparison) {
                            assert!(difference.touches_images(), "{left} {right}");
                        }
                    }
                }
            }
        }
        let other = json!({"kind": "GCPMachineProviderSpec", "machineType": "a"});
        assert!(differs(&json!({"kind": "AWSMachineProviderConfig"}), &other, PLAIN));
    }

    #[test]
    fn a_provider_spec_of_an_unknown_kind_is_compared_without_normalization() {
        let machine = json!({"kind": "BareMetalMachineProviderSpec", "image": {"url": "a"}});
        let template = json!({"kind": "BareMetalMachineProviderSpec", "image": {"url": "b"}});
        assert_eq!(shown(&template, &machine, PLAIN), ["image.url: \"a\" → \"b\""]);
        assert_eq!(shown(&json!(null), &json!("text"), PLAIN).len(), 1);
    }
}
