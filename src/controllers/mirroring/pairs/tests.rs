//! The order of the live reads, in a cluster in which objects change between them.

use std::sync::{Arc, Mutex};

use capstan_core::api::objects::{CachedObject, KindObjects};
use serde_json::json;

use super::*;
use crate::runtime::{ReadOnly, Reads, WatchedObject};

/// The versions of the Machine of the Machine API, one for each read, and the kinds that were read.
#[derive(Clone, Default)]
struct Changing(Arc<Mutex<(Vec<u32>, Vec<String>)>>);

impl Reads for Changing {
    fn get<T: CachedObject>(
        &self,
        kind: &KindInfo,
        namespace: &str,
        name: &str,
    ) -> kube::Result<Option<WatchedObject<T>>> {
        let mut known = self.0.lock().unwrap();
        known.1.push(kind.title());
        if kind.group != kinds::MACHINES.group {
            return Ok(None);
        }
        let version = match known.0.len() {
            0 | 1 => known.0.first().copied().unwrap_or_default(),
            _ => known.0.remove(0),
        };
        Ok(Some(machine(namespace, name, version)))
    }
}

fn machine<T: CachedObject>(namespace: &str, name: &str, version: u32) -> WatchedObject<T> {
    let metadata = json!({"namespace": namespace, "name": name, "uid": "u", "resourceVersion": version.to_string()});
    serde_json::from_value(json!({"metadata": metadata})).unwrap()
}

/// Reads a Machine that the caches show in version 1, and that has these versions at each read.
async fn read(versions: &[u32]) -> (Result<View, StepError>, Vec<String>) {
    let pairs = Pairs::new("machine-api", "cluster-api");
    let mut view = View::default();
    for kind in [&kinds::MACHINES, &kinds::CLUSTER_API_MACHINES, &LEASES] {
        view.objects.insert(kind, KindObjects::<StoredObject>::default());
    }
    let known: WatchedObject<StoredObject> = machine("machine-api", "a", 1);
    view.put(&kinds::MACHINES, &known.key(), Some(known));
    let changing = Changing::default();
    changing.0.lock().unwrap().0 = versions.to_vec();
    let live = pairs.refreshed(&ReadOnly(changing.clone()), &view, "a").await;
    let reads = changing.0.lock().unwrap().1.clone();
    (live, reads)
}

/// The authority of a pair must not be older than the pause of its mirror.
#[tokio::test]
async fn v148_the_object_that_names_the_authority_is_read_last_and_is_the_same_during_all_reads() {
    let title = kinds::MACHINES.title();
    let is_last = |reads: &[String]| reads.last() == Some(&title);
    let (live, reads) = read(&[1]).await;
    assert!(live.is_ok() && is_last(&reads), "{reads:?}");
    let count = |reads: &[String]| reads.iter().filter(|kind| **kind == title).count();
    assert_eq!(count(&reads), 1);
    // It changed since the caches were filled: the mirror is read again.
    let (live, reads) = read(&[2, 2]).await;
    assert!(live.is_ok() && is_last(&reads), "{reads:?}");
    assert_eq!((count(&reads), reads.len()), (2, 6), "{reads:?}");
    let (live, reads) = read(&[2, 3, 4, 5, 6]).await;
    assert!(live.is_err(), "{reads:?}");
}

/// A cluster in which the mirror of MachineSet `workers` is being deleted. It owns Machine `a`, for
/// which Cluster API is authoritative since a short time.
#[derive(Clone, Default)]
struct Deleted;

fn stored<T: CachedObject>(object: &serde_json::Value) -> WatchedObject<T> {
    serde_json::from_value(object.clone()).unwrap()
}

fn set(namespace: &str, deleted: Option<&str>) -> serde_json::Value {
    json!({"kind": "MachineSet", "metadata": {"namespace": namespace, "name": "workers", "uid": namespace,
        "resourceVersion": "1", "deletionTimestamp": deleted}, "status": {"authoritativeAPI": "MachineAPI"}})
}

fn member(namespace: &str, authority: &str) -> serde_json::Value {
    json!({"kind": "Machine", "metadata": {"namespace": namespace, "name": "a", "uid": "m", "resourceVersion": "1",
        "ownerReferences": [{"apiVersion": "v1", "kind": "MachineSet", "name": "workers", "uid": namespace}]},
        "status": {"authoritativeAPI": authority}})
}

impl Reads for Deleted {
    fn get<T: CachedObject>(
        &self,
        kind: &KindInfo,
        namespace: &str,
        _name: &str,
    ) -> kube::Result<Option<WatchedObject<T>>> {
        let deleted = (kind.group != kinds::MACHINES.group).then_some("2026-01-01T00:00:00Z");
        Ok((kind.kind == "MachineSet").then(|| stored(&set(namespace, deleted))))
    }

    fn list<T: CachedObject>(&self, kind: &KindInfo, _selectors: &[&str]) -> kube::Result<Vec<WatchedObject<T>>> {
        let is_ours = kind.group == kinds::MACHINES.group;
        let namespace = if is_ours { "machine-api" } else { "cluster-api" };
        Ok(vec![stored(&member(namespace, "ClusterAPI"))])
    }
}

/// Seed 985 of the simulation: a process restarted, and its caches were filled from a server that
/// lagged. The garbage collector deleted the instance of a Machine that had just migrated.
#[tokio::test]
async fn v238_the_machines_of_a_deleted_set_are_read_live() {
    let pairs = Pairs::new("machine-api", "cluster-api");
    let mut view = View::default();
    let templates = objects::templates();
    let kinds = [
        &kinds::MACHINES,
        &kinds::CLUSTER_API_MACHINES,
        &kinds::MACHINE_SETS,
        &LEASES,
    ];
    let others = [
        &kinds::CLUSTER_API_MACHINE_SETS,
        &kinds::INFRASTRUCTURES,
        &kinds::CLUSTER_API_CLUSTERS,
    ];
    view.objects
        .insert(&SECRETS, KindObjects::<objects::NamedObject>::default());
    let kinds = kinds.into_iter().chain(others);
    for kind in kinds.chain(templates.values()) {
        view.objects.insert(kind, KindObjects::<StoredObject>::default());
    }
    for (kind, namespace) in [
        (&kinds::MACHINES, "machine-api"),
        (&kinds::CLUSTER_API_MACHINES, "cluster-api"),
    ] {
        let old: WatchedObject<StoredObject> = stored(&member(namespace, "MachineAPI"));
        view.put(kind, &old.key(), Some(old));
    }
    for (kind, namespace) in [
        (&kinds::MACHINE_SETS, "machine-api"),
        (&kinds::CLUSTER_API_MACHINE_SETS, "cluster-api"),
    ] {
        let stays: WatchedObject<StoredObject> = stored(&set(namespace, None));
        view.put(kind, &stays.key(), Some(stays));
    }
    let cluster = ReadOnly(Deleted);
    let live = pairs.refreshed_set(&cluster, &view, "workers").await.unwrap();
    let pair = pairs.set_pair(&live, "workers").unwrap();
    let authoritative: Vec<bool> = pair.members.iter().map(|member| member.is_authoritative).collect();
    assert_eq!(authoritative, [false, true], "{:?}", pair.members);
}
