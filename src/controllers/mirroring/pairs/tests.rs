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
