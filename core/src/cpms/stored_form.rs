//! The form in which a provider spec is compared: as the webhook of the Machine API stores it.
//!
//! The webhook brings a provider spec into the Go type of its platform and fills what is absent. A
//! template that relies on that must equal the machine that was stored. Values that depend on the
//! cluster, such as the region, cannot be computed from a template alone; they are compared only if
//! both sides have one. The module never fills a provider spec that is sent; see `defaults` for
//! that.
//!
//! Source: the webhooks of OpenShift's Machine API, as observed; `tests/fixtures` has pairs of sent
//! and stored provider specs.

use serde_json::{Value, json};

use super::defaults::provider_spec_defaults;
use super::domains::Platform;
use super::fields::{self, get, remove, set, text};
use crate::platforms::power_vs;
use crate::platforms::schema::{self, UnknownFields};

/// The secret that the webhook fills in also for control plane machines.
const WORKER_USER_DATA: &str = "worker-user-data";

/// The provider spec in the normal form of the Go type of its platform. A provider spec without a
/// known type stays as it is.
pub(super) fn normalized(provider_spec: Value, unknown: UnknownFields) -> Value {
    match text(&provider_spec, &["kind"]).and_then(schema::of_kind) {
        Some(fields) => schema::normalize(fields, unknown, provider_spec),
        None => provider_spec,
    }
}

/// Whether the platform of the provider spec has a known Go type.
pub(super) fn is_typed(provider_spec: &Value) -> bool {
    text(provider_spec, &["kind"]).is_some_and(|kind| schema::of_kind(kind).is_some())
}

/// Whether a provider spec has fields that its type does not have.
pub(super) fn has_unknown_fields(provider_spec: &Value) -> bool {
    let form = |unknown| normalized(provider_spec.clone(), unknown);
    form(UnknownFields::Keep) != form(UnknownFields::Drop)
}

/// Fields whose form depends on one another: where one is compared, all are.
pub(super) const COMPANIONS: [[&str; 2]; 2] = [["processorType", "processors"], ["subnet", "vnet"]];

/// Fills what the webhook fills with the same value on every cluster. Idempotent.
pub(super) fn fill(spec: &mut Value) {
    let platform = Platform::of(spec);
    provider_spec_defaults(platform, spec);
    match platform {
        Some(Platform::Aws) => absent(spec, &["instanceType"], json!("m5.large")),
        Some(Platform::Azure) => absent(spec, &["vmSize"], json!("Standard_D4s_V3")),
        Some(Platform::Gcp) => fill_gcp(spec),
        None if text(spec, &["kind"]) == Some(power_vs::PROVIDER_SPEC.kind) => fill_power_vs(spec),
        _ => {}
    }
}

fn absent(spec: &mut Value, path: &[&str], default: Value) {
    if spec.is_object() && get(spec, path).is_none() {
        set(spec, path, default);
    }
}

fn items<'a>(spec: &'a mut Value, field: &str) -> impl Iterator<Item = &'a mut Value> {
    let list = spec.get_mut(field).and_then(Value::as_array_mut);
    list.into_iter().flatten().filter(|item| item.is_object())
}

fn fill_gcp(spec: &mut Value) {
    absent(spec, &["machineType"], json!("n1-standard-4"));
    for disk in items(spec, "disks") {
        absent(disk, &["type"], json!("pd-standard"));
    }
    if let Some(gpu) = items(spec, "gpus").next() {
        absent(gpu, &["count"], json!(1));
    }
}

fn fill_power_vs(spec: &mut Value) {
    absent(spec, &["userDataSecret", "name"], json!("master-user-data"));
    absent(spec, &["credentialsSecret", "name"], json!("powervs-credentials"));
    absent(spec, &["systemType"], json!("s922"));
    absent(spec, &["processorType"], json!("Shared"));
    let zero = text(spec, &["processors"]).is_none_or(|processors| processors == "0");
    if zero {
        let dedicated = text(spec, &["processorType"]) == Some("Dedicated");
        set(spec, &["processors"], json!(if dedicated { "1" } else { "0.5" }));
    }
    absent(spec, &["memoryGiB"], json!(32));
}

/// Takes out of both sides what a template leaves to the webhook and the webhook fills by the
/// cluster. Both sides are in their normal form.
pub(super) fn leave_out_cluster_defaults(template: &mut Value, machine: &mut Value) {
    if text(template, &["userDataSecret", "name"]).is_none()
        && text(machine, &["userDataSecret", "name"]) == Some(WORKER_USER_DATA)
    {
        remove(machine, &["userDataSecret", "name"]);
    }
    match Platform::of(template).filter(|platform| Platform::of(machine) == Some(*platform)) {
        Some(Platform::Aws) => {
            const REGION: [&str; 2] = ["placement", "region"];
            if text(template, &REGION).is_none() || text(machine, &REGION).is_none() {
                remove(template, &REGION);
                remove(machine, &REGION);
            }
        }
        Some(Platform::Azure) => {
            leave_out_azure_network(template, machine);
            if get(template, &["image"]).is_none() {
                remove(machine, &["image"]);
            }
        }
        Some(Platform::Gcp) => leave_out_gcp_defaults(template, machine),
        _ => {}
    }
}

/// The network that the webhook of Azure fills in where a template names neither network nor
/// subnet. It is no failure domain.
pub(super) fn leave_out_azure_network(template: &Value, machine: &mut Value) {
    let azure = Platform::of(machine) == Some(Platform::Azure);
    let names_none = ["vnet", "subnet"]
        .iter()
        .all(|field| text(template, &[field]).is_none());
    let network = text(machine, &["vnet"]).and_then(|network| network.strip_suffix("-vnet"));
    let subnet = text(machine, &["subnet"]).and_then(|subnet| subnet.strip_suffix("-worker-subnet"));
    if azure && names_none && network.is_some() && network == subnet {
        remove(machine, &["vnet"]);
        remove(machine, &["subnet"]);
    }
}

fn leave_out_gcp_defaults(template: &mut Value, machine: &mut Value) {
    if get(template, &["disks"]).is_none() && is_gcp_default_disk(machine) {
        remove(machine, &["disks"]);
    }
    let wanted = get(template, &["disks"])
        .and_then(Value::as_array)
        .cloned()
        .unwrap_or_default();
    for (wanted, disk) in wanted.iter().zip(items(machine, "disks")) {
        if text(wanted, &["image"]).is_none() {
            remove(disk, &["image"]);
        }
    }
    let only = |value: &Value, field: &str| -> Option<Value> {
        match get(value, &[field])?.as_array()?.as_slice() {
            [one] => Some(one.clone()),
            _ => None,
        }
    };
    let tag = only(machine, "tags");
    let tag = tag.as_ref().and_then(Value::as_str);
    if get(template, &["tags"]).is_none() && tag.is_some_and(|tag| tag.ends_with("-worker")) {
        remove(machine, &["tags"]);
    }
    let interface = only(machine, "networkInterfaces").unwrap_or_default();
    let network = text(&interface, &["network"]).and_then(|name| name.strip_suffix("-network"));
    let subnet = text(&interface, &["subnetwork"]).and_then(|name| name.strip_suffix("-worker-subnet"));
    let plain = interface.as_object().is_some_and(|interface| interface.len() == 2);
    if get(template, &["networkInterfaces"]).is_none() && plain && network.is_some() && network == subnet {
        remove(machine, &["networkInterfaces"]);
    }
}

/// The disk that the webhook of Google Cloud fills in where a provider spec has none.
fn is_gcp_default_disk(machine: &Value) -> bool {
    let Some([disk]) = get(machine, &["disks"]).and_then(Value::as_array).map(Vec::as_slice) else {
        return false;
    };
    let mut disk = disk.clone();
    for field in ["image", "type"] {
        fields::remove(&mut disk, &[field]);
    }
    disk == json!({"autoDelete": true, "boot": true, "sizeGb": 128})
}

#[cfg(test)]
mod tests;
