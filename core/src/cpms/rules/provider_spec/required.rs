//! The fields without which no control plane machine starts.
//!
//! A field is required if the webhook of the Machine API refuses a Machine without it, or if the
//! webhook would fill in the size of a worker. A field that a failure domain decides is not
//! required in a set with failure domains.
//!
//! Source: the Go types of OpenShift, and the webhook of the Machine API as observed. The providers
//! of bare metal and IBM Cloud are not in either, so that nothing is required of them.

use serde_json::Value;

use super::{Template, path};
use crate::model::distance;
use crate::model::{Verdict, Violation, ViolationKind};
use crate::platforms::{aws, azure, gcp, nutanix, openstack, power_vs, vsphere};

const RULE: &str = "cpms-provider-spec-required";

pub(super) const RULES: &[(&str, &str, &str)] = &[(
    RULE,
    "",
    "the fields without which the platform starts no machine are set",
)];

/// A required field.
struct Required {
    path: &'static [&'static str],
    /// What the field contains.
    meaning: &'static str,
    /// Whether a failure domain decides the field.
    by_domain: bool,
}

const fn required(path: &'static [&'static str], meaning: &'static str) -> Required {
    Required {
        path,
        meaning,
        by_domain: false,
    }
}

const fn by_domain(path: &'static [&'static str], meaning: &'static str) -> Required {
    Required {
        path,
        meaning,
        by_domain: true,
    }
}

const AWS: &[Required] = &[
    required(&["ami", "id"], "the id of the AMI"),
    required(&["instanceType"], "the instance type"),
];
const AZURE: &[Required] = &[
    required(&["osDisk", "diskSizeGB"], "the size of the disk in GB"),
    required(&["vmSize"], "the size of the virtual machine"),
];
const GCP: &[Required] = &[
    required(&["machineType"], "the machine type"),
    required(&["region"], "the region of the cluster"),
];
const NUTANIX: &[Required] = &[
    by_domain(&["cluster"], "the Prism Element cluster"),
    required(&["image"], "the image of the disk"),
    required(&["memorySize"], "the memory, such as 16Gi"),
    by_domain(&["subnets"], "the subnets"),
    required(&["systemDiskSize"], "the size of the disk, such as 120Gi"),
    required(&["vcpuSockets"], "the number of sockets"),
    required(&["vcpusPerSocket"], "the number of processors of a socket"),
];
const OPENSTACK: &[Required] = &[
    required(&["cloudName"], "the name of the cloud in the secret"),
    required(&["cloudsSecret", "name"], "the name of the secret with clouds.yaml"),
    required(&["flavor"], "the flavor"),
];
const POWER_VS: &[Required] = &[
    required(&["image"], "the image"),
    required(&["keyPairName"], "the name of the SSH key pair"),
    required(&["network"], "the network"),
    required(&["serviceInstance"], "the service instance"),
];
const VSPHERE: &[Required] = &[
    by_domain(&["network", "devices"], "the network devices"),
    by_domain(&["template"], "the name of the template"),
    by_domain(&["workspace", "server"], "the name of the vCenter server"),
];

/// The required fields of each kind.
const KINDS: [(&str, &[Required]); 7] = [
    (aws::PROVIDER_SPEC.kind, AWS),
    (azure::PROVIDER_SPEC.kind, AZURE),
    (gcp::PROVIDER_SPEC.kind, GCP),
    (nutanix::PROVIDER_SPEC.kind, NUTANIX),
    (openstack::PROVIDER_SPEC.kind, OPENSTACK),
    (power_vs::PROVIDER_SPEC.kind, POWER_VS),
    (vsphere::PROVIDER_SPEC.kind, VSPHERE),
];

pub(super) fn judge(template: &Template<'_>, verdict: &mut Verdict) {
    let kind = KINDS.iter().find(|(kind, _)| *kind == template.kind.kind);
    let fields = kind.map_or(&[][..], |(_, fields)| *fields);
    for field in fields.iter().filter(|field| !field.by_domain || !template.has_domains) {
        let Some(missing) = missing(template.value, field.path) else {
            continue;
        };
        let advice = match missing {
            Missing {
                misspelt: Some(key),
                name,
            } => format!("rename {key} to {name}"),
            Missing { misspelt: None, .. } => String::from("copy it from a control plane Machine"),
        };
        let at = path(&field.path.join("."));
        let allowed = format!("must be set to {}", field.meaning);
        verdict.deny(Violation::new(RULE, at.as_str(), ViolationKind::Required, allowed).advice(advice));
    }
    if template.kind.kind == openstack::PROVIDER_SPEC.kind {
        judge_openstack_image(template.value, verdict);
    }
}

/// A server boots from an image, or from a volume of an image.
fn judge_openstack_image(value: &Value, verdict: &mut Verdict) {
    let Some(absent) = missing(value, &["image"]) else {
        return;
    };
    if missing(value, &["rootVolume", "sourceUUID"]).is_some() {
        let advice = absent.misspelt.map_or_else(
            || String::from("copy it from a control plane Machine"),
            |key| format!("rename {key} to image"),
        );
        let at = path("image");
        let allowed = "must be set to the name of the image";
        verdict.deny(Violation::new(RULE, at.as_str(), ViolationKind::Required, allowed).advice(advice));
    }
}

/// A field that is absent.
struct Missing<'v> {
    /// The name of the first absent field of the path.
    name: &'static str,
    /// A field beside it with a similar name.
    misspelt: Option<&'v str>,
}

/// The first part of a path that is absent, null, or empty; `None` if the field is set. A value of
/// another type counts as set, because the rule for types refuses it.
fn missing<'v>(value: &'v Value, path: &[&'static str]) -> Option<Missing<'v>> {
    let (name, below) = path.split_first()?;
    let object = value.as_object()?;
    let misspelt = || {
        let keys = object.keys().map(String::as_str).filter(|key| key != name);
        keys.filter_map(|key| Some((distance(name, key)?, key)))
            .min()
            .map(|(_, key)| key)
    };
    match object.get(*name) {
        Some(value) if !is_empty(value) && below.is_empty() => None,
        Some(value) if !value.is_null() && !below.is_empty() => missing(value, below),
        _ => Some(Missing {
            name,
            misspelt: misspelt(),
        }),
    }
}

fn is_empty(value: &Value) -> bool {
    match value {
        Value::Null => true,
        Value::String(text) => text.is_empty(),
        Value::Array(items) => items.is_empty(),
        Value::Object(fields) => fields.is_empty(),
        Value::Number(number) => number.as_i64() == Some(0),
        Value::Bool(_) => false,
    }
}
