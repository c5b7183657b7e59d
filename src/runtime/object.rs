//! An object as a watch or a live read gives it: the metadata that the client needs, and the wire
//! type that core reads.
//!
//! What no reader needs is dropped before the object is kept. An object that cannot be decoded is
//! kept as JSON with the reason: it must not stop the watch, because the care of all other objects
//! depends on the same watch.

use std::borrow::Cow;
use std::sync::Arc;

use capstan_core::api::objects::{CachedObject, Undecodable};
use capstan_core::model::NamespacedName;
use kube::api::{ApiResource, ObjectMeta};
use kube::core::DynamicResourceScope;
use serde::{Deserialize, Deserializer};
use serde_json::Value;

/// An object from a watch or a live read.
#[derive(Clone, Debug)]
pub struct WatchedObject<T> {
    /// Name, namespace, uid and resource version.
    pub meta: ObjectMeta,
    /// The object, or why it cannot be decoded.
    pub content: Result<Arc<T>, Undecodable>,
}

impl<T> WatchedObject<T> {
    /// The name of the object.
    pub fn name(&self) -> &str {
        self.meta.name.as_deref().unwrap_or_default()
    }

    /// Namespace and name of the object.
    pub fn key(&self) -> NamespacedName {
        NamespacedName::new(self.meta.namespace.as_deref().unwrap_or_default(), self.name())
    }
}

impl<T: CachedObject> WatchedObject<T> {
    /// An object as the API server gives it.
    pub fn of(mut object: Value) -> Self {
        let text = |object: &Value, field: &str| {
            let value = object.get("metadata")?.get(field)?.as_str()?;
            Some(value.to_owned())
        };
        let meta = ObjectMeta {
            name: text(&object, "name"),
            namespace: text(&object, "namespace"),
            uid: text(&object, "uid"),
            resource_version: text(&object, "resourceVersion"),
            ..ObjectMeta::default()
        };
        T::slim(&mut object);
        if let Some(metadata) = object.get_mut("metadata").and_then(Value::as_object_mut) {
            metadata.remove("managedFields");
        }
        let content = T::decode(object).map(Arc::new);
        Self { meta, content }
    }
}

impl<'de, T: CachedObject> Deserialize<'de> for WatchedObject<T> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        Value::deserialize(deserializer).map(Self::of)
    }
}

impl<T> kube::Resource for WatchedObject<T> {
    type DynamicType = ApiResource;
    type Scope = DynamicResourceScope;

    fn kind(resource: &ApiResource) -> Cow<'_, str> {
        resource.kind.as_str().into()
    }

    fn group(resource: &ApiResource) -> Cow<'_, str> {
        resource.group.as_str().into()
    }

    fn version(resource: &ApiResource) -> Cow<'_, str> {
        resource.version.as_str().into()
    }

    fn plural(resource: &ApiResource) -> Cow<'_, str> {
        resource.plural.as_str().into()
    }

    fn meta(&self) -> &ObjectMeta {
        &self.meta
    }

    fn meta_mut(&mut self) -> &mut ObjectMeta {
        &mut self.meta
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[derive(Clone, Debug, PartialEq, Deserialize)]
    struct Thing {
        spec: Vec<u8>,
    }

    impl CachedObject for Thing {
        fn metadata(&self) -> Option<&capstan_core::api::meta::ObjectMeta> {
            None
        }
    }

    #[test]
    fn an_object_that_cannot_be_decoded_keeps_its_name_and_the_reason() {
        let object = json!({"metadata": {"name": "a", "managedFields": []}, "spec": "none"});
        let watched: WatchedObject<Thing> = serde_json::from_value(object).unwrap();
        assert_eq!(watched.name(), "a");
        let undecodable = watched.content.unwrap_err();
        assert!(undecodable.reason.contains("expected a sequence"));
        assert_eq!(*undecodable.raw, json!({"metadata": {"name": "a"}, "spec": "none"}));
    }
}
