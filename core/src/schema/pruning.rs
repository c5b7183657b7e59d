//! Pruning: unknown fields are dropped and reported.

use serde_json::{Map, Value};

use super::node::{Additional, Schema};
use super::trail::Trail;
use crate::model::FieldPath;

/// Type and metadata, which every object has.
const META: [&str; 3] = ["apiVersion", "kind", "metadata"];

/// The fields of `metadata`, which the API server validates without a schema.
const OBJECT_META: [&str; 15] = [
    "annotations",
    "creationTimestamp",
    "deletionGracePeriodSeconds",
    "deletionTimestamp",
    "finalizers",
    "generateName",
    "generation",
    "labels",
    "managedFields",
    "name",
    "namespace",
    "ownerReferences",
    "resourceVersion",
    "selfLink",
    "uid",
];

impl Schema {
    /// Drops the fields that the schema does not describe, and returns their paths in order.
    pub fn prune(&self, object: &mut Value) -> Vec<FieldPath> {
        let mut unknown = Vec::new();
        let path = Trail::ROOT;
        object_meta(object, &path, &mut unknown);
        if self.preserve {
            self.skip(object, true, &path, &mut unknown);
        } else {
            self.drop_unknown(object, true, &path, &mut unknown);
        }
        unknown.sort();
        unknown
    }

    fn prune_node(&self, value: &mut Value, path: &Trail<'_>, unknown: &mut Vec<FieldPath>) {
        if self.embedded {
            object_meta(value, path, unknown);
        }
        if self.preserve {
            self.skip(value, self.embedded, path, unknown);
        } else {
            self.drop_unknown(value, self.embedded, path, unknown);
        }
    }

    fn drop_unknown(&self, value: &mut Value, resource: bool, path: &Trail<'_>, unknown: &mut Vec<FieldPath>) {
        match value {
            Value::Object(map) => {
                let is_meta = |name: &str| resource && META.contains(&name);
                let known =
                    |name: &str| is_meta(name) || self.additional.is_some() || self.properties.contains_key(name);
                if !map.keys().all(|name| known(name)) {
                    map.retain(|name, _| {
                        let known = known(name);
                        if !known {
                            unknown.push(path.child(name).path());
                        }
                        known
                    });
                }
                for (name, value) in map.iter_mut().filter(|(name, _)| !is_meta(name)) {
                    let path = path.child(name);
                    match (self.properties.get(name), &self.additional) {
                        (Some(schema), _) => schema.prune_node(value, &path, unknown),
                        (None, Some(Additional::Schema(schema))) => schema.prune_node(value, &path, unknown),
                        (None, Some(Additional::Any)) => drop_all(value, &path, unknown),
                        (None, None) => {}
                    }
                }
            }
            Value::Array(list) => {
                for (index, item) in list.iter_mut().enumerate() {
                    let path = path.index(index);
                    match &self.items {
                        Some(schema) => schema.prune_node(item, &path, unknown),
                        None => drop_all(item, &path, unknown),
                    }
                }
            }
            _ => {}
        }
    }

    /// Keeps unknown fields of this object, and prunes its known fields.
    fn skip(&self, value: &mut Value, resource: bool, path: &Trail<'_>, unknown: &mut Vec<FieldPath>) {
        match value {
            Value::Object(map) => {
                for (name, value) in map.iter_mut() {
                    if resource && META.contains(&name.as_str()) {
                        continue;
                    }
                    let path = path.child(name);
                    match (self.properties.get(name), &self.additional) {
                        (Some(schema), _) => schema.prune_node(value, &path, unknown),
                        (None, Some(Additional::Schema(schema))) => schema.prune_node(value, &path, unknown),
                        (None, Some(Additional::Any)) => drop_all(value, &path, unknown),
                        (None, None) => {}
                    }
                }
            }
            Value::Array(list) => {
                let Some(schema) = &self.items else { return };
                for (index, item) in list.iter_mut().enumerate() {
                    schema.skip(item, schema.embedded, &path.index(index), unknown);
                }
            }
            _ => {}
        }
    }
}

/// Drops all fields of a value without a schema.
fn drop_all(value: &mut Value, path: &Trail<'_>, unknown: &mut Vec<FieldPath>) {
    match value {
        Value::Object(map) => {
            unknown.extend(map.keys().map(|name| path.child(name).path()));
            map.clear();
        }
        Value::Array(list) => {
            for (index, item) in list.iter_mut().enumerate() {
                drop_all(item, &path.index(index), unknown);
            }
        }
        _ => {}
    }
}

/// Whether pruning keeps all of `metadata`.
pub(super) fn knows_metadata(metadata: &Value) -> bool {
    let map = metadata.as_object();
    map.is_some_and(|map| map.keys().all(|name| OBJECT_META.contains(&name.as_str())))
}

fn object_meta(object: &mut Value, path: &Trail<'_>, unknown: &mut Vec<FieldPath>) {
    let Some(metadata) = object.get_mut("metadata").and_then(Value::as_object_mut) else {
        return;
    };
    let path = path.child("metadata");
    keep(metadata, &OBJECT_META, &path, unknown);
}

fn keep(map: &mut Map<String, Value>, known: &[&str], path: &Trail<'_>, unknown: &mut Vec<FieldPath>) {
    if map.keys().all(|name| known.contains(&name.as_str())) {
        return;
    }
    map.retain(|name, _| {
        let keep = known.contains(&name.as_str());
        if !keep {
            unknown.push(path.child(name).path());
        }
        keep
    });
}
