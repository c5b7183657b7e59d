//! An object as it comes out of a watch: enough metadata for the client, and the wire type that core reads.
//!
//! What nobody reads is dropped before it is kept: managed fields, and of a node its images and heartbeats, which would
//! otherwise wake everybody every few seconds. An object that cannot be read is kept as the reason why: it must not
//! stop the watch, and with it the care of all others.

use std::borrow::Cow;
use std::fmt::Debug;
use std::sync::Arc;

use capstan_core::api::config_openshift_io::cluster_operator::ClusterOperator;
use capstan_core::api::config_openshift_io::feature_gate::FeatureGate;
use capstan_core::api::config_openshift_io::infrastructure::Infrastructure;
use capstan_core::api::core_v1::node::Node;
use capstan_core::api::machine_openshift_io::control_plane_machine_set::ControlPlaneMachineSet;
use capstan_core::api::machine_openshift_io::machine::Machine;
use capstan_core::api::machine_openshift_io::machine_set::MachineSet;
use capstan_core::authority::spec::PairMember;
use kube::api::{ApiResource, ObjectMeta};
use kube::core::DynamicResourceScope;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Deserializer};
use serde_json::Value;

/// A wire type that is kept in a cache.
pub trait Cacheable: DeserializeOwned + Clone + Debug + PartialEq + Send + Sync + 'static {
    /// Drops what nobody reads of this kind.
    fn slim(_object: &mut Value) {}
}

impl Cacheable for Machine {}
impl Cacheable for MachineSet {}
impl Cacheable for ControlPlaneMachineSet {}
impl Cacheable for Infrastructure {}
impl Cacheable for FeatureGate {}
impl Cacheable for ClusterOperator {}
impl Cacheable for PairMember {}

impl Cacheable for Node {
    fn slim(object: &mut Value) {
        // Changes with every heartbeat; nobody writes a node, so nobody needs its version.
        if let Some(metadata) = object.get_mut("metadata").and_then(Value::as_object_mut) {
            metadata.remove("resourceVersion");
        }
        let Some(status) = object.get_mut("status").and_then(Value::as_object_mut) else {
            return;
        };
        status.retain(|field, _| field == "conditions" || field == "addresses");
        let conditions = status.get_mut("conditions").and_then(Value::as_array_mut);
        for condition in conditions.into_iter().flatten() {
            if let Some(condition) = condition.as_object_mut() {
                condition.remove("lastHeartbeatTime");
            }
        }
    }
}

/// An object out of a watch or a read.
#[derive(Clone, Debug)]
pub struct WatchedObject<T> {
    /// Name and version: what the watch itself needs.
    pub meta: ObjectMeta,
    /// The object, or why it cannot be read.
    pub content: Result<Arc<T>, String>,
    /// The object as it stands, where it cannot be read.
    pub raw: Option<Value>,
}

impl<T> WatchedObject<T> {
    /// The name of the object.
    pub fn name(&self) -> &str {
        self.meta.name.as_deref().unwrap_or_default()
    }
}

impl<'de, T: Cacheable> Deserialize<'de> for WatchedObject<T> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let mut object = Value::deserialize(deserializer)?;
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
        if let Some(metadata) = object.get_mut("metadata").and_then(Value::as_object_mut) {
            metadata.remove("managedFields");
        }
        T::slim(&mut object);
        // By reference: the object is still there when it turns out that it cannot be read.
        let content = T::deserialize(&object).map(Arc::new).map_err(|error| error.to_string());
        let raw = content.is_err().then_some(object);
        Ok(Self { meta, content, raw })
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

    #[test]
    fn what_nobody_reads_is_dropped_and_a_heartbeat_changes_nothing() {
        let node = |heartbeat: &str, version: &str| -> WatchedObject<Node> {
            serde_json::from_value(json!({
                "apiVersion": "v1", "kind": "Node",
                "metadata": {"name": "a", "resourceVersion": version, "managedFields": [{"manager": "kubelet"}]},
                "status": {"images": [{"names": ["x"]}], "conditions": [
                    {"type": "Ready", "status": "True", "lastHeartbeatTime": heartbeat}]},
            }))
            .unwrap()
        };
        let (first, second) = (node("2026-01-01T00:00:00Z", "1"), node("2026-01-01T00:00:10Z", "2"));
        assert_eq!(first.content, second.content);
        assert_eq!(second.meta.resource_version.as_deref(), Some("2"));
        let node = first.content.unwrap();
        assert!(node.is_ready());
        assert!(node.status.unknown_fields.is_empty() && node.metadata.unknown_fields.is_empty());
    }

    #[test]
    fn an_object_that_cannot_be_read_keeps_its_name_and_says_why() {
        let seen: WatchedObject<Machine> =
            serde_json::from_value(json!({"metadata": {"name": "a"}, "spec": {"taints": "none"}})).unwrap();
        assert_eq!(seen.name(), "a");
        assert!(seen.content.unwrap_err().contains("expected a sequence"));
    }
}
