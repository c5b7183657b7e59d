//! Changes: the differences of two provider specs, field by field, and the hash that names a
//! revision.
//!
//! Decisions 8 and 23. Both sides are brought into one form first, in which equal values of the Go
//! type of their platform are equal; see `stored_form`. The form has the defaults of the platform.
//! It lacks the fields that failure domains decide, where the set lists failure domains, and image
//! fields, unless images are compared. The module decides neither whether a change is allowed nor
//! when it reaches a machine.

use std::borrow::Cow;
use std::cmp::Ordering;

use serde_json::{Map, Value};

use super::domains::{self, Platform};
use super::fields;
use super::stored_form::{self, COMPANIONS};
use crate::model::{hex_hash, shorten};
use crate::platforms::schema::UnknownFields;

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

/// How many differing fields are listed. One more entry counts the others.
pub const MAX_CHANGES: usize = 64;
/// The length in characters above which a value is cut, since it is only shown.
const LONGEST_VALUE: usize = 256;

/// A field that differs.
#[derive(Clone, Debug, PartialEq)]
pub struct FieldChange {
    /// Path within the provider spec: `instanceType`, `blockDevices[0].ebs.volumeSize`. The last
    /// entry of a list that was cut is "and 7 more fields", and has no values.
    pub field: String,
    /// The value of the machine; `None` if it is absent. A long value is its
    /// JSON text, cut with "…".
    pub old: Option<Value>,
    /// The value of the template; `None` if it is absent. A long value is its
    /// JSON text, cut with "…".
    pub new: Option<Value>,
}

impl std::fmt::Display for FieldChange {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let show = |value: &Option<Value>| value.as_ref().map_or_else(|| "nothing".to_owned(), Value::to_string);
        if self.old.is_none() && self.new.is_none() {
            return f.write_str(&self.field);
        }
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

/// The fields in which `template` asks for something else than `machine` has, also fields that the
/// type of the platform does not have.
pub(super) fn changes_of_all_fields(template: &Value, machine: &Value, comparison: Comparison) -> Vec<FieldChange> {
    Difference::between(template, machine).into_changes_with(comparison, UnknownFields::Keep)
}

/// The fields of `template` that `machine` lacks, or has with another value, also those that the
/// type of the platform does not have. What the machine has beyond the template is not listed.
pub(crate) fn lost(template: &Value, machine: &Value, comparison: Comparison) -> Vec<FieldChange> {
    let mut found = changes_of_all_fields(template, machine, comparison);
    found.retain(|change| change.new.is_some());
    found
}

/// Changes in one line.
pub(crate) fn in_words(changes: &[FieldChange]) -> String {
    let texts: Vec<String> = changes.iter().map(ToString::to_string).collect();
    texts.join("; ")
}

/// The provider spec of a machine without the network that a webhook filled in because the template
/// names none. It must not be taken for a failure domain.
pub(super) fn without_default_network<'a>(template: &Value, machine: &'a Value) -> Cow<'a, Value> {
    if Platform::of(machine) != Some(Platform::Azure) {
        return Cow::Borrowed(machine);
    }
    let mut own = machine.clone();
    stored_form::leave_out_azure_network(template, &mut own);
    Cow::Owned(own)
}

/// The text field with the size of a machine. No failure domain sets it, and it is not an image.
fn size_field(platform: Platform) -> Option<&'static str> {
    match platform {
        Platform::Aws => Some("instanceType"),
        Platform::Azure => Some("vmSize"),
        Platform::Gcp => Some("machineType"),
        Platform::OpenStack => Some("flavor"),
        Platform::VSphere | Platform::Nutanix => None,
    }
}

/// Two provider specs, without the fields in which they are the same. Such a field is no change in
/// any comparison, because a field takes its form from itself and its companions only.
#[derive(Clone, Debug)]
pub struct Difference {
    template: Value,
    machine: Value,
}

impl Difference {
    /// The fields in which `template` and `machine` differ.
    pub fn between(template: &Value, machine: &Value) -> Self {
        let whole = || Self {
            template: template.clone(),
            machine: machine.clone(),
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
        for companions in COMPANIONS {
            let compared = |side: &Map<String, Value>| companions.iter().any(|field| side.contains_key(*field));
            if compared(&template) || compared(&machine) {
                for (side, all) in [(&mut template, wanted), (&mut machine, held)] {
                    let fields = companions.iter().filter_map(|field| all.get_key_value(*field));
                    side.extend(fields.map(|(field, value)| (field.clone(), value.clone())));
                }
            }
        }
        for side in [&mut template, &mut machine] {
            // The kind determines the type of the fields.
            side.insert("kind".to_owned(), kind.clone());
        }
        Self {
            template: Value::Object(template),
            machine: Value::Object(machine),
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
        self.into_changes_with(comparison, UnknownFields::Drop)
    }

    /// The same. Fields that the type does not have are compared if they are kept.
    pub(super) fn into_changes_with(self, comparison: Comparison, unknown: UnknownFields) -> Vec<FieldChange> {
        let mut machine = stored_form::normalized(self.machine, unknown);
        let mut template = stored_form::normalized(self.template, unknown);
        stored_form::leave_out_cluster_defaults(&mut template, &mut machine);
        if comparison.domains {
            domains::leave_out_other_devices(&mut template, &mut machine);
        }
        let machine = into_canonical(machine, comparison);
        let template = into_canonical(template, comparison);
        let mut found = Found::default();
        diff("", Some(&machine), Some(&template), &mut found);
        found.into_changes()
    }
}

/// Eight hexadecimal digits that name the revision of a template. Equal templates have the same.
pub fn revision(template: &Value, comparison: Comparison) -> String {
    hex_hash(&canonical(template, comparison), 8)
}

/// The provider spec in the one form in which it is compared. Fields that the type does not have
/// are kept: they distinguish revisions.
pub fn canonical(provider_spec: &Value, comparison: Comparison) -> Value {
    let normalized = stored_form::normalized(provider_spec.clone(), UnknownFields::Keep);
    into_canonical(normalized, comparison)
}

/// Brings a provider spec that is normalized into the form in which it is compared.
fn into_canonical(mut spec: Value, comparison: Comparison) -> Value {
    let platform = Platform::of(&spec);
    let typed = stored_form::is_typed(&spec);
    if platform == Some(Platform::VSphere) {
        leave_out_addresses(&mut spec);
    }
    if comparison.domains {
        domains::strip_in_place(&mut spec);
    }
    stored_form::fill(&mut spec);
    // The group of a provider spec was renamed once; its metadata is never filled.
    for field in ["apiVersion", "metadata"] {
        fields::remove(&mut spec, &[field]);
    }
    if !comparison.images {
        leave_out_images(platform, &mut spec);
    }
    if typed {
        return spec;
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

/// Leaves out the folder of the template, and the addresses that belong to one machine. Name
/// servers are those of the template if a device takes its addresses from pools.
fn leave_out_addresses(spec: &mut Value) {
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
        if fields::get(device, &["addressesFromPools"]).is_none() {
            fields::remove(device, &["nameservers"]);
        }
    }
}

/// Fields without a known Go type that a provider writes also when they are not set, with zero as
/// the value.
fn zero_fields(platform: Option<Platform>) -> &'static [&'static str] {
    match platform {
        Some(Platform::OpenStack) => &["trunk"],
        _ => &[],
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

/// The fields that differ, and how many more there are.
#[derive(Default)]
struct Found {
    changes: Vec<FieldChange>,
    more: usize,
}

impl Found {
    fn add(&mut self, path: &str, old: Option<&Value>, new: Option<&Value>) {
        if self.changes.len() == MAX_CHANGES {
            self.more += 1;
            return;
        }
        self.changes.push(FieldChange {
            field: path.to_owned(),
            old: old.map(cut),
            new: new.map(cut),
        });
    }

    fn into_changes(self) -> Vec<FieldChange> {
        let mut changes = self.changes;
        changes.sort_by(|left, right| left.field.cmp(&right.field));
        changes.extend((self.more > 0).then(|| FieldChange {
            field: format!("and {} more fields", self.more),
            old: None,
            new: None,
        }));
        changes
    }
}

/// A copy of a value that is short enough to be shown.
fn cut(value: &Value) -> Value {
    if !matches!(value, Value::String(_) | Value::Array(_) | Value::Object(_)) {
        return value.clone();
    }
    let text = value.to_string();
    if text.len() <= LONGEST_VALUE {
        return value.clone();
    }
    Value::String(shorten(&text, LONGEST_VALUE))
}

fn diff(path: &str, old: Option<&Value>, new: Option<&Value>, found: &mut Found) {
    match (old, new) {
        (Some(Value::Object(old)), Some(Value::Object(new))) => diff_objects(path, old, new, found),
        (Some(Value::Array(old)), Some(Value::Array(new))) if old.len() == new.len() => {
            for (position, (old, new)) in old.iter().zip(new).enumerate() {
                diff(&format!("{path}[{position}]"), Some(old), Some(new), found);
            }
        }
        (old, new) if old == new => {}
        (old, new) => found.add(path, old, new),
    }
}

fn diff_objects(path: &str, old: &Map<String, Value>, new: &Map<String, Value>, found: &mut Found) {
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
    fn n2_a_long_difference_is_cut_and_counts_the_other_fields() {
        let spec = |size: u32| {
            let disks: Vec<Value> = (0..1000).map(|_| json!({"ebs": {"volumeSize": size}})).collect();
            json!({"kind": "AWSMachineProviderConfig", "blockDevices": disks, "tags": "x".repeat(10_000 + size as usize)})
        };
        let found = changes(&spec(1), &spec(2), PLAIN);
        assert_eq!(found.len(), MAX_CHANGES + 1);
        assert_eq!(found.last().unwrap().to_string(), "and 937 more fields");
        let shown: usize = found.iter().map(|change| change.to_string().len()).sum();
        assert!(shown < MAX_CHANGES * 2 * LONGEST_VALUE, "{shown}");
        let long = changes(
            &json!({"kind": "K", "tags": "x".repeat(10_000)}),
            &json!({"kind": "K"}),
            PLAIN,
        );
        assert!(long[0].to_string().chars().count() < 2 * LONGEST_VALUE, "{}", long[0]);
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
