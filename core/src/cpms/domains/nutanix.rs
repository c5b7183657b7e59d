//! Nutanix: a name that the Infrastructure `cluster` defines as a Prism Element cluster and
//! subnets.

use serde_json::{Value, json};

use super::{DomainError, lookup_error};
use crate::api::config_openshift_io::infrastructure::{Infrastructure, NutanixFailureDomainSpec};
use crate::cpms::fields::{remove, set, text};

pub(super) fn normal(entry: &Value) -> Value {
    text(entry, &["name"]).map_or_else(|| json!({}), |name| json!({ "name": name }))
}

fn defined(infrastructure: &Infrastructure) -> &[NutanixFailureDomainSpec] {
    let platform = infrastructure.spec.platform_spec.as_ref();
    platform
        .and_then(|platform| platform.nutanix.as_ref())
        .map_or(&[], |nutanix| nutanix.failure_domains.as_slice())
}

pub(super) fn names(infrastructure: &Infrastructure) -> Vec<String> {
    let mut names: Vec<String> = defined(infrastructure)
        .iter()
        .map(|domain| domain.name.clone())
        .collect();
    names.sort();
    names
}

/// The failure domain that the provider spec names, if it is defined. The cluster and the subnets
/// alone do not name a failure domain.
pub(super) fn extract(spec: &Value, infrastructure: Option<&Infrastructure>) -> Option<Value> {
    let name = text(spec, &["failureDomain", "name"])?;
    let known = defined(infrastructure?).iter().any(|domain| domain.name == name);
    known.then(|| json!({ "name": name }))
}

pub(super) fn inject(
    spec: &mut Value,
    full: &Value,
    infrastructure: Option<&Infrastructure>,
) -> Result<(), DomainError> {
    let name = text(full, &["name"]).unwrap_or_default();
    let Some(domain) = infrastructure.and_then(|all| defined(all).iter().find(|domain| domain.name == name)) else {
        return Err(lookup_error(name, infrastructure.map(names)));
    };
    set(spec, &["failureDomain"], json!({ "name": name }));
    set(spec, &["cluster"], identifier(&domain.cluster));
    let subnets = domain.subnets.iter().map(identifier).collect();
    set(spec, &["subnets"], Value::Array(subnets));
    Ok(())
}

/// The Infrastructure writes the type of an identifier as `UUID` or `Name`, a provider spec as
/// `uuid` or `name`.
fn identifier(identifier: &Value) -> Value {
    let mut converted = identifier.clone();
    if let Some(type_) = text(identifier, &["type"]) {
        set(&mut converted, &["type"], json!(type_.to_lowercase()));
    }
    converted
}

pub(super) fn strip(spec: &mut Value) {
    for field in ["failureDomain", "cluster", "subnets"] {
        remove(spec, &[field]);
    }
}

pub(super) fn label(entry: &Value) -> String {
    text(entry, &["name"]).unwrap_or("unnamed").to_owned()
}
