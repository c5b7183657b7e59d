//! The defaults of a MachinePool: the label of its Cluster, the number of replicas, the timeout of
//! the deletion of a Node, and the `v` of the version.

use std::collections::BTreeMap;

use json_patch::Patch;
use serde::Deserialize;
use serde_json::{Map, Value};

use super::{is_semantic, limits_violation};
use crate::api::cluster_x_k8s_io::annotation::{AUTOSCALER_MAX_SIZE, AUTOSCALER_MIN_SIZE};
use crate::api::cluster_x_k8s_io::label;
use crate::api::cluster_x_k8s_io::machine_pool::MachinePool;
use crate::model::Violation;

/// The default of `nodeDeletionTimeoutSeconds`.
const NODE_DELETION_TIMEOUT: u32 = 10;

/// The fields that the mutating pass sets. The patch is empty if the object has all defaults.
///
/// # Errors
/// The limits of the cluster autoscaler are no numbers, so that there is no default of the
/// replicas.
pub(super) fn patch(object: &Value, old: Option<&Value>) -> Result<Patch, Box<Violation>> {
    let mut defaulted = object.clone();
    // The validating pass reports a field of a wrong type.
    if let Ok(pool) = MachinePool::deserialize(object) {
        let old = old.and_then(|old| MachinePool::deserialize(old).ok());
        let replicas = match pool.spec.replicas {
            Some(_) => None,
            None => Some(replicas(&pool, old.as_ref())?),
        };
        let _complete = set(&mut defaulted, &pool, replicas);
    }
    Ok(json_patch::diff(object, &defaulted))
}

fn set(object: &mut Value, pool: &MachinePool, replicas: Option<i32>) -> Option<()> {
    let labels = child(child(object.as_object_mut()?, "metadata")?, "labels")?;
    labels.insert(label::CLUSTER.to_owned(), Value::from(pool.spec.cluster_name.as_str()));
    let spec = child(object.as_object_mut()?, "spec")?;
    if let Some(replicas) = replicas {
        spec.insert(String::from("replicas"), Value::from(replicas));
    }
    let template = child(child(spec, "template")?, "spec")?;
    let version = pool.spec.template.spec.version.as_str();
    // Another text is refused as it was written.
    if is_semantic(version) {
        template.insert(String::from("version"), Value::from(format!("v{version}")));
    }
    let deletion = child(template, "deletion")?;
    let timeout = "nodeDeletionTimeoutSeconds";
    if deletion.get(timeout).is_none_or(Value::is_null) {
        deletion.insert(timeout.to_owned(), Value::from(NODE_DELETION_TIMEOUT));
    }
    Some(())
}

/// An object in a field, which is created if it is absent; `None` if the field has another type.
fn child<'v>(fields: &'v mut Map<String, Value>, name: &str) -> Option<&'v mut Map<String, Value>> {
    let field = fields.entry(name).or_insert(Value::Null);
    if field.is_null() {
        *field = Value::Object(Map::new());
    }
    field.as_object_mut()
}

/// The default of the replicas: within the limits of the cluster autoscaler, or 1.
fn replicas(pool: &MachinePool, old: Option<&MachinePool>) -> Result<i32, Box<Violation>> {
    let before = old.and_then(|old| old.spec.replicas);
    let limits = match limits(&pool.metadata.annotations) {
        // What was stored may stay.
        Err(violation) if old.is_some_and(|old| is_stored(old, &violation)) => return Ok(before.unwrap_or(1)),
        limits => limits?,
    };
    let Some((least, most)) = limits else {
        return Ok(1);
    };
    Ok(before.map_or(least, |before| before.max(least).min(most)))
}

fn is_stored(old: &MachinePool, violation: &Violation) -> bool {
    limits(&old.metadata.annotations).is_err_and(|stored| *stored == *violation)
}

/// The least and the greatest number of replicas that the cluster autoscaler sets; `None` without
/// both annotations.
///
/// # Errors
/// An annotation is no number, or the numbers are not in order.
pub(super) fn limits(annotations: &BTreeMap<String, String>) -> Result<Option<(i32, i32)>, Box<Violation>> {
    let both = annotations
        .get(AUTOSCALER_MIN_SIZE)
        .zip(annotations.get(AUTOSCALER_MAX_SIZE));
    let Some((least, most)) = both else {
        return Ok(None);
    };
    let number = |key: &str, text: &str| {
        let number = text.parse::<i32>().ok().filter(|number| *number >= 0);
        number.ok_or_else(|| limits_violation(key, text, "write a whole number of at least 0"))
    };
    let numbers = (number(AUTOSCALER_MIN_SIZE, least)?, number(AUTOSCALER_MAX_SIZE, most)?);
    if numbers.0 > numbers.1 {
        let advice = format!("the maximum is {most}");
        return Err(limits_violation(AUTOSCALER_MIN_SIZE, least, &advice));
    }
    Ok(Some(numbers))
}
