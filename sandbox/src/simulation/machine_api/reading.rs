//! Objects of the environment, read into wire types.
//!
//! Most versions of an object differ from the version before in one field, so only that field is
//! read again. The result must be what the caches of the shell contain: fields that nobody reads
//! are dropped in the same way.

use std::sync::Arc;

use capstan_core::api::config_openshift_io::cluster_operator::ClusterOperator;
use capstan_core::api::core_v1::node::{Node, NodeStatus};
use capstan_core::api::machine_openshift_io::control_plane_machine_set::ControlPlaneMachineSet;
use capstan_core::api::machine_openshift_io::machine::Machine;
use capstan_core::api::meta::ObjectMeta;
use serde::Deserialize as _;
use serde::de::DeserializeOwned;
use serde::de::value::MapDeserializer;
use serde_json::Value;

use crate::api::Object;
use crate::simulation::engine::kinds::{Typed, decode};

/// The version before, stored and read.
type Before<'a> = Option<(&'a Object, &'a Typed)>;

/// The fields that the reader below knows. An object with others is read as a whole.
const USUAL: [&str; 5] = ["apiVersion", "kind", "metadata", "spec", "status"];

fn is_usual(object: &Object) -> bool {
    object.fields().all(|(name, _)| USUAL.contains(&name))
}

macro_rules! reader {
    ($(#[$doc:meta])* $name:ident, $type:ident) => {
        $(#[$doc])*
        pub(super) fn $name(object: &Object, before: Before<'_>) -> Option<Typed> {
            if !is_usual(object) {
                return decode::<$type>(object, None);
            }
            let old = before.and_then(|(_, typed)| typed.get::<$type>());
            let new = Version { object, before: before.map(|(before, _)| before) };
            Some(Typed::new(Arc::new($type {
                api_version: new.text("apiVersion"),
                kind: new.text("kind"),
                metadata: new.metadata(old.map(|old| &old.metadata))?,
                spec: new.field("spec", old.map(|old| &old.spec))?,
                status: new.field("status", old.map(|old| &old.status))?,
                ..$type::default()
            })))
        }
    };
}

reader!(
    /// Reads a machine.
    machine,
    Machine
);
reader!(
    /// Reads a set.
    set,
    ControlPlaneMachineSet
);
reader!(
    /// Reads a ClusterOperator.
    operator,
    ClusterOperator
);

/// Reads a node.
pub(super) fn node(object: &Object, before: Before<'_>) -> Option<Typed> {
    if !is_usual(object) {
        return decode::<Node>(object, None);
    }
    let old = before.and_then(|(_, typed)| typed.get::<Node>());
    let new = Version {
        object,
        before: before.map(|(before, _)| before),
    };
    new.node(old).map(Arc::new).map(Typed::new)
}

/// A version of an object, and the version before it.
struct Version<'a> {
    object: &'a Object,
    before: Option<&'a Object>,
}

impl Version<'_> {
    fn text(&self, name: &str) -> String {
        let value = self.object.get(name).and_then(Value::as_str);
        value.unwrap_or_default().to_owned()
    }

    fn shares(&self, name: &str) -> bool {
        self.before.is_some_and(|before| self.object.has_same(before, name))
    }

    fn field<T: DeserializeOwned + Default + Clone>(&self, name: &str, old: Option<&T>) -> Option<T> {
        if let Some(old) = old
            && self.shares(name)
        {
            return Some(old.clone());
        }
        let Some(value) = self.object.get(name) else {
            return Some(T::default());
        };
        T::deserialize(value).ok()
    }

    /// A node without what the caches of the shell drop of it: its version, its managed fields, and
    /// all of its status but conditions and addresses.
    fn node(&self, old: Option<&Node>) -> Option<Node> {
        let status = match (old, self.object.get("status")) {
            (Some(old), _) if self.shares("status") => old.status.clone(),
            (_, Some(status)) => {
                let kept = ["conditions", "addresses"].into_iter();
                let kept = kept.filter_map(|field| Some((field, status.get(field)?)));
                let mut status = NodeStatus::deserialize(MapDeserializer::<_, serde_json::Error>::new(kept)).ok()?;
                for condition in &mut status.conditions {
                    condition.unknown_fields.remove("lastHeartbeatTime");
                }
                status
            }
            (_, None) => NodeStatus::default(),
        };
        let unknown_fields = match (old, self.object.get("spec")) {
            (Some(old), _) if self.shares("spec") => old.unknown_fields.clone(),
            (_, spec) => spec.map(|spec| ("spec".to_owned(), spec.clone())).into_iter().collect(),
        };
        let mut metadata = self.metadata(old.map(|old| &old.metadata))?;
        metadata.resource_version = None;
        metadata.unknown_fields.remove("managedFields");
        Some(Node {
            api_version: self.text("apiVersion"),
            kind: self.text("kind"),
            metadata,
            status,
            unknown_fields,
        })
    }

    /// The metadata. Most versions differ in the resource version alone.
    fn metadata(&self, old: Option<&ObjectMeta>) -> Option<ObjectMeta> {
        const VERSION: &str = "resourceVersion";
        let now = self.object.get("metadata").and_then(Value::as_object);
        let then = self.before.and_then(|before| before.get("metadata")?.as_object());
        if let (Some(now), Some(then), Some(old)) = (now, then, old)
            && now.len() == then.len()
            && now
                .iter()
                .zip(then)
                .all(|(now, then)| now == then || (now.0 == VERSION && then.0 == VERSION))
        {
            let version = now.get(VERSION).and_then(Value::as_str).map(str::to_owned);
            return Some(ObjectMeta {
                resource_version: version,
                ..old.clone()
            });
        }
        let mut metadata: ObjectMeta = self.field("metadata", None)?;
        metadata.unknown_fields.remove("managedFields");
        Some(metadata)
    }
}
