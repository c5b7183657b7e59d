//! What the controllers of mirrored Machines and MachineSets watch, and the types in which it keeps
//! the objects.

use std::collections::BTreeMap;
use std::sync::{Arc, OnceLock};

use capstan_core::api::infrastructure_cluster_x_k8s_io::{CLUSTERS, GROUP, PLATFORMS};
use capstan_core::api::kind::KindInfo;
use capstan_core::api::kinds::{self, Reader};
use capstan_core::api::meta::ObjectMeta;
use capstan_core::api::objects::{CachedObject, Undecodable};
use capstan_core::authority::other::{self, FieldManager, LEASE};
use capstan_core::authority::pair::FullObject;
use capstan_core::authority::spec::PairMember;
use capstan_core::authority::wide::OPERATOR;
use serde::{Deserialize, Deserializer};
use serde_json::Value;

use crate::controllers::caches::within;
use crate::runtime::Watch;

/// Leases.
pub static LEASES: KindInfo = KindInfo::namespaced("coordination.k8s.io", "v1", "Lease", "leases");
/// Secrets.
pub static SECRETS: KindInfo = KindInfo::namespaced("", "v1", "Secret", "secrets");

/// The MachineHealthChecks of both APIs.
pub(super) const CHECKS: [&KindInfo; 2] = [&kinds::MACHINE_HEALTH_CHECKS, &kinds::CLUSTER_API_MACHINE_HEALTH_CHECKS];

/// Whether an object is a MachineHealthCheck, which no other kind of pair depends on.
pub(super) fn is_check(kind: &str, group: &str) -> bool {
    CHECKS.iter().any(|known| known.group == group && known.kind == kind)
}

/// Where [`StoredObject::slim`] keeps the field managers until the object is decoded.
const FIELD_MANAGERS: &str = "fieldManagers";

/// A whole object.
#[derive(Clone, Debug)]
pub struct StoredObject {
    pub(super) metadata: ObjectMeta,
    pub(super) value: Arc<Value>,
    /// The fields that decide which API is authoritative, read once they are needed.
    member: OnceLock<Arc<PairMember>>,
    /// The writes of other sync controllers.
    pub(super) managers: Vec<FieldManager>,
}

impl PartialEq for StoredObject {
    fn eq(&self, other: &Self) -> bool {
        self.value == other.value && self.managers == other.managers
    }
}

impl StoredObject {
    /// An object that the API server stores.
    pub fn of(value: Value) -> Self {
        let metadata = value
            .get("metadata")
            .and_then(|known| ObjectMeta::deserialize(known).ok());
        Self {
            metadata: metadata.unwrap_or_default(),
            managers: Vec::new(),
            member: OnceLock::new(),
            value: Arc::new(value),
        }
    }

    pub(super) fn member(&self) -> &Arc<PairMember> {
        self.member.get_or_init(|| Arc::new(PairMember::read(&*self.value)))
    }

    /// The object as core reads it.
    pub fn full(&self) -> FullObject {
        FullObject {
            value: Arc::clone(&self.value),
            member: Arc::clone(self.member()),
        }
    }

    /// The object as JSON.
    pub fn value(&self) -> &Value {
        &self.value
    }
}

impl CachedObject for StoredObject {
    fn metadata(&self) -> Option<&ObjectMeta> {
        Some(&self.metadata)
    }

    fn slim(object: &mut Value) {
        let managers: BTreeMap<String, String> = other::field_managers(object)
            .into_iter()
            .map(|known| (known.manager, known.time.to_string()))
            .collect();
        if let (Some(fields), false) = (object.as_object_mut(), managers.is_empty()) {
            fields.insert(FIELD_MANAGERS.to_owned(), serde_json::json!(managers));
        }
    }

    /// Never fails for an object: what cannot be decoded stays in the JSON.
    fn decode(object: Value) -> Result<Self, Undecodable> {
        Ok(Self::slimmed(object))
    }
}

impl StoredObject {
    /// An object that [`StoredObject::slim`] prepared.
    fn slimmed(mut value: Value) -> Self {
        let managers = value
            .as_object_mut()
            .and_then(|fields| fields.remove(FIELD_MANAGERS))
            .and_then(|known| serde_json::from_value::<BTreeMap<String, String>>(known).ok());
        let managers = managers.into_iter().flatten().filter_map(|(manager, time)| {
            let time = time.parse().ok()?;
            Some(FieldManager { manager, time })
        });
        let managers = managers.collect();
        Self {
            managers,
            ..Self::of(value)
        }
    }
}

impl<'de> Deserialize<'de> for StoredObject {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        Value::deserialize(deserializer).map(Self::slimmed)
    }
}

/// An object of which only the name counts. The content of a Secret is dropped before it is kept.
#[derive(Clone, Debug, PartialEq, Deserialize)]
pub struct NamedObject {
    pub(super) metadata: ObjectMeta,
}

impl CachedObject for NamedObject {
    fn metadata(&self) -> Option<&ObjectMeta> {
        Some(&self.metadata)
    }

    fn slim(object: &mut Value) {
        let name = object.pointer("/metadata/name").cloned().unwrap_or_default();
        let namespace = object.pointer("/metadata/namespace").cloned().unwrap_or_default();
        *object = serde_json::json!({"metadata": {"name": name, "namespace": namespace}});
    }
}

/// What is watched for the objects of both namespaces.
pub(super) fn watches(machine_api: &str, cluster_api: &str) -> Vec<Watch> {
    let entries = kinds::all().filter(|entry| entry.is_read_by(Reader::Mirroring));
    let mut watches: Vec<Watch> = entries
        .map(|entry| {
            let watch = Watch::of::<StoredObject>(&entry.kind).named(entry.names);
            within(watch, &entry, machine_api, cluster_api)
        })
        .collect();
    watches.push(Watch::of::<StoredObject>(&kinds::CLUSTER_OPERATORS).named(&[OPERATOR]));
    watches.push(Watch::of::<NamedObject>(&SECRETS).within(cluster_api));
    watches.push(Watch::of::<StoredObject>(&LEASES).within(cluster_api).named(&[LEASE]));
    watches
}

/// The kinds of infrastructure machines, by kind.
pub(super) fn machines() -> BTreeMap<&'static str, KindInfo> {
    let platforms = PLATFORMS.iter();
    let kind = |name| Some(kinds::find(GROUP, name)?.kind.into_owned());
    platforms
        .filter_map(|platform| Some((platform.machine, kind(platform.machine)?)))
        .collect()
}

/// The kinds of infrastructure templates, by kind.
pub(super) fn templates() -> BTreeMap<&'static str, KindInfo> {
    let platforms = PLATFORMS.iter();
    let kind = |name| Some(kinds::find(GROUP, name)?.kind.into_owned());
    platforms
        .filter_map(|platform| Some((platform.template, kind(platform.template)?)))
        .collect()
}

/// The kinds of infrastructure clusters with which machines are compared, by kind.
pub(super) fn clusters() -> BTreeMap<&'static str, KindInfo> {
    let clusters = CLUSTERS.iter();
    let kind = |name| Some(kinds::find(GROUP, name)?.kind.into_owned());
    clusters
        .filter_map(|cluster| Some((cluster.kind, kind(cluster.kind)?)))
        .collect()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn kept<T: CachedObject>(mut object: Value) -> T {
        T::slim(&mut object);
        T::deserialize(&object).unwrap()
    }

    #[test]
    fn the_field_managers_of_other_sync_controllers_are_kept_apart_from_the_object() {
        let mut object = json!({"metadata": {"name": "a", "managedFields": [
            {"manager": "MachineSyncController-SynchronizedCondition", "time": "2026-01-01T00:01:00Z"},
            {"manager": "kubectl", "time": "2026-01-01T00:01:00Z"}]}, "spec": {"x": 1}});
        StoredObject::slim(&mut object);
        object["metadata"].as_object_mut().unwrap().remove("managedFields");
        let stored = StoredObject::deserialize(&object).unwrap();
        assert_eq!(stored.managers.len(), 1);
        assert_eq!(*stored.value(), json!({"metadata": {"name": "a"}, "spec": {"x": 1}}));
        assert_eq!(stored.metadata.name(), "a");
    }

    #[test]
    fn only_the_name_of_a_secret_is_kept() {
        let secret: NamedObject = kept(
            json!({"metadata": {"name": "a", "namespace": "n", "labels": {"b": "c"}},
            "data": {"value": "c2VjcmV0"}}),
        );
        assert_eq!((secret.metadata.name(), secret.metadata.labels.len()), ("a", 0));
    }

    #[test]
    fn every_platform_has_kinds_of_infrastructure_machines_and_templates() {
        assert_eq!(machines().len(), PLATFORMS.len());
        assert_eq!(templates().len(), PLATFORMS.len());
        assert_eq!(clusters().len(), CLUSTERS.len());
    }
}
