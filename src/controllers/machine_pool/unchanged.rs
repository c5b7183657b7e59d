//! Whether a pool is still what it was before its objects were read.
//!
//! The reads of a live view take time. A pool that was paused in between, and objects that were
//! read after that, have no moment in common, so nothing may be decided from both.

use capstan_core::api::cluster_x_k8s_io::machine_pool::MachinePool;
use capstan_core::api::kinds::MACHINE_POOLS;
use capstan_core::model::{NamespacedName, ObjectRef};

use crate::runtime::{Cluster, StepError, View};

/// Fails if what decides about the pool of a live view changed since it was read. The status, the
/// labels, and the finalizers of a pool do not decide.
pub(super) async fn check<C: Cluster>(live: &View, cluster: &C, key: &ObjectRef) -> Result<(), StepError> {
    let name = NamespacedName::new(key.namespace.as_str(), key.name.as_str());
    let now = live.refreshed::<MachinePool>(cluster, &MACHINE_POOLS, &name).await?;
    let decides = |view: &View| {
        let pool = view
            .objects
            .get::<MachinePool>(&MACHINE_POOLS, &key.namespace, &key.name)?;
        let metadata = &pool.metadata;
        let identity = (metadata.uid.clone(), metadata.deletion_timestamp);
        Some((identity, metadata.annotations.clone(), pool.spec.clone()))
    };
    match decides(live) == decides(&now) {
        true => Ok(()),
        false => Err(StepError::changed(format!("reading MachinePool {name}"))),
    }
}

#[cfg(test)]
mod tests {
    use capstan_core::api::kind::KindInfo;
    use capstan_core::api::objects::CachedObject;
    use serde_json::{Value, json};

    use super::*;
    use crate::runtime::{ReadOnly, Reads, WatchedObject};

    /// An API server with one object, or none.
    #[derive(Clone, Default)]
    struct Fake(Option<Value>);

    impl Reads for Fake {
        fn get<T: CachedObject>(&self, _: &KindInfo, _: &str, _: &str) -> kube::Result<Option<WatchedObject<T>>> {
            Ok(self.0.clone().map(WatchedObject::of))
        }
    }

    fn pool(change: &Value) -> Value {
        let mut pool = json!({
            "apiVersion": "cluster.x-k8s.io/v1beta2", "kind": "MachinePool",
            "metadata": {"name": "p", "namespace": "ns", "uid": "one", "resourceVersion": "1"},
            "spec": {"clusterName": "c", "replicas": 3},
        });
        json_patch::merge(&mut pool, change);
        pool
    }

    #[tokio::test]
    async fn v262_a_pool_that_changed_while_its_objects_were_read_decides_nothing() {
        let key = MACHINE_POOLS.object("ns", "p");
        let mut live = View::default();
        let read = WatchedObject::<MachinePool>::of(pool(&json!({})));
        live.put(&MACHINE_POOLS, &NamespacedName::new("ns", "p"), Some(read));
        let same = json!({"metadata": {"resourceVersion": "2"}, "status": {"replicas": 1}});
        let checked = check(&live, &ReadOnly(Fake(Some(pool(&same)))), &key).await;
        assert!(checked.is_ok(), "{checked:?}");
        let changes = [
            json!({"metadata": {"annotations": {"cluster.x-k8s.io/paused": ""}}}),
            json!({"metadata": {"deletionTimestamp": "2026-01-01T00:00:00Z"}}),
            json!({"metadata": {"uid": "two"}}),
            json!({"spec": {"replicas": 2}}),
        ];
        let changed = changes.iter().map(|change| Some(pool(change)));
        for stored in changed.chain([None]) {
            let error = check(&live, &ReadOnly(Fake(stored)), &key).await.unwrap_err();
            assert!(error.is_conflict(), "{error}");
        }
    }
}
