//! The scale subresource of custom kinds (`autoscaling/v1`).

use std::sync::Arc;

use serde_json::{Map, Value, json};

use super::failure::Failure;
use super::kinds::{Kind, ScalePaths};
use super::object::{Fields as _, Object};
use super::store::Api;

impl Api {
    fn scale_paths(&self, kind: usize) -> Result<&ScalePaths, Failure> {
        let scale = self.kind(kind)?.scale.as_ref();
        scale.ok_or_else(Failure::unknown_resource)
    }

    /// The scale of an object.
    pub(super) fn scale_of(&self, kind: usize, object: &Object) -> Result<Arc<Object>, Failure> {
        let paths = self.scale_paths(kind)?;
        let mut meta = Map::new();
        for field in ["name", "namespace", "uid", "resourceVersion", "creationTimestamp"] {
            if let Some(value) = object.get("metadata").and_then(|meta| meta.get(field)) {
                meta.insert(field.to_owned(), value.clone());
            }
        }
        let count = |pointer: &str| object.pointer(pointer).and_then(Value::as_i64).unwrap_or(0);
        let mut spec = Map::new();
        match count(&paths.spec) {
            0 => {}
            replicas => drop(spec.insert("replicas".into(), replicas.into())),
        }
        let mut status = Map::new();
        status.insert("replicas".into(), count(&paths.status).into());
        if let Some(selector) = paths
            .selector
            .as_ref()
            .and_then(|pointer| object.pointer(pointer)?.as_str())
            && !selector.is_empty()
        {
            status.insert("selector".into(), selector.into());
        }
        let scale =
            json!({"kind": "Scale", "apiVersion": "autoscaling/v1", "metadata": meta, "spec": spec, "status": status});
        Ok(Arc::new(Object::of(scale).unwrap_or_default()))
    }

    /// The object with the replicas of a scale. The version and uid of the scale become
    /// preconditions.
    pub(super) fn scaled(&self, kind: usize, object: &Object, scale: &Value) -> Result<Object, Failure> {
        let paths = self.scale_paths(kind)?.clone();
        let described = self.kind(kind)?;
        let text = |pointer: &str| scale.pointer(pointer).and_then(Value::as_str).unwrap_or_default();
        let name = object
            .pointer("/metadata/name")
            .and_then(Value::as_str)
            .unwrap_or_default();
        if !text("/metadata/name").is_empty() && text("/metadata/name") != name {
            return Err(Failure::bad_request(format!(
                "the name of the object ({}) does not match the name on the URL ({name})",
                text("/metadata/name")
            )));
        }
        let replicas = scale.pointer("/spec/replicas").cloned().unwrap_or_else(|| json!(0));
        if !replicas.is_i64() {
            return Err(invalid(described, name));
        }
        let mut new = object.clone();
        set(&mut new, &paths.spec, &replicas);
        let meta = new.get_mut("metadata").and_then(Value::as_object_mut);
        if let Some(meta) = meta {
            for field in ["resourceVersion", "uid"] {
                let given = text(&format!("/metadata/{field}"));
                if !given.is_empty() {
                    meta.insert(field.to_owned(), given.into());
                }
            }
        }
        new.share(object);
        Ok(new)
    }

    /// Checks the replicas of an object that was changed through its scale. The API server does so
    /// after it called the mutating webhooks.
    pub(super) fn check_scale(&self, kind: usize, object: &Object) -> Result<(), Failure> {
        let replicas = object.pointer(&self.scale_paths(kind)?.spec).and_then(Value::as_i64);
        if replicas.is_some_and(|replicas| replicas < 0) {
            let name = object.pointer("/metadata/name").and_then(Value::as_str);
            return Err(invalid(self.kind(kind)?, name.unwrap_or_default()));
        }
        Ok(())
    }
}

fn invalid(kind: &Kind, name: &str) -> Failure {
    let cause = (
        "spec.replicas".to_owned(),
        "must be greater than or equal to 0".to_owned(),
        "FieldValueInvalid",
    );
    Failure::invalid(kind, name, &[cause])
}

fn set(object: &mut Object, pointer: &str, value: &Value) {
    let mut path = pointer.trim_start_matches('/').split('/');
    let Some(mut at) = path.next().and_then(|first| object.field_mut(first)) else {
        return;
    };
    for field in path {
        if !at.is_object() {
            *at = json!({});
        }
        let Some(fields) = at.as_object_mut() else { return };
        at = fields.entry(field).or_insert(Value::Null);
    }
    *at = value.clone();
}
