//! The objects of a pool that lost its labels, which neither the caches nor a list with the labels
//! show: infrastructure machines that Machines refer to, and Machines with the name of an instance.
//!
//! They are read by their names before a write, so that no object counts as gone because of a
//! label. Nothing here writes.

use std::collections::BTreeSet;
use std::sync::Arc;

use capstan_core::api::cluster_x_k8s_io::control_plane::Machine;
use capstan_core::api::cluster_x_k8s_io::{label, label_value};
use capstan_core::api::infrastructure_cluster_x_k8s_io::Infrastructure;
use capstan_core::api::kind::KindInfo;
use capstan_core::api::kinds::CLUSTER_API_MACHINES;
use capstan_core::api::objects::CachedObject;
use capstan_core::model::{NamespacedName, ObjectRef};
use capstan_core::pool::Mode;
use capstan_core::pool::observed::Observed;

use super::named;
use crate::runtime::{Cluster, StepError, View};

/// So many objects are read one by one. More are listed.
const FEW: usize = 16;

/// The names of the infrastructure machines of a kind that are not among the instances.
fn lost(observed: &Observed, kind: &KindInfo) -> BTreeSet<String> {
    let lost = observed.lost_instances().into_iter();
    lost.filter(|[group, name_of_kind, _]| kind.group == *group && kind.kind == *name_of_kind)
        .map(|[_, _, name]| name)
        .collect()
}

/// Adds the objects without the labels of the pool that a view shows.
pub(super) fn add(observed: &mut Observed, view: &View, namespace: &str, kind: &KindInfo) {
    for name in lost(observed, kind) {
        let instance = view.objects.get::<Infrastructure>(kind, namespace, &name);
        observed
            .instances
            .extend(instance.map(|instance| named(instance, kind)));
    }
    let mut machines = Vec::new();
    for name in observed.instances_without_machine() {
        machines.extend(view.objects.get::<Machine>(&CLUSTER_API_MACHINES, namespace, name));
    }
    for machine in machines {
        let is_controlled = (machine.metadata.controller())
            .is_some_and(|owner| owner.uid == observed.pool.metadata.uid() && !owner.uid.is_empty());
        if is_controlled {
            observed.machines.push(Arc::clone(machine));
        } else {
            let name = machine.metadata.name().to_owned();
            observed.unlabelled_machines.insert(name);
        }
    }
}

/// Reads what [`add`] adds. `observed` is what the live lists with the labels of the pool show.
pub(super) async fn read<C: Cluster>(
    live: &mut View,
    cluster: &C,
    key: &ObjectRef,
    observed: &Observed,
    kind: &KindInfo,
    mode: Mode,
) -> Result<(), StepError> {
    let selectors = [
        format!("{}!={}", label::POOL_NAME, label_value(&key.name)),
        format!("{}!={}", label::CLUSTER, observed.pool.spec.cluster_name),
    ];
    let selectors = selectors.each_ref().map(String::as_str);
    let instances = lost(observed, kind);
    by_name::<Infrastructure, C>(live, cluster, kind, &key.namespace, instances, &selectors).await?;
    if mode == Mode::Own {
        let names = observed.instances_without_machine().into_iter();
        let machines = names.map(str::to_owned).collect();
        by_name::<Machine, C>(
            live,
            cluster,
            &CLUSTER_API_MACHINES,
            &key.namespace,
            machines,
            &selectors,
        )
        .await?;
    }
    Ok(())
}

async fn by_name<T: CachedObject, C: Cluster>(
    live: &mut View,
    cluster: &C,
    kind: &KindInfo,
    namespace: &str,
    names: BTreeSet<String>,
    selectors: &[&str],
) -> Result<(), StepError> {
    if names.len() <= FEW {
        for name in names {
            let key = NamespacedName::new(namespace, name.as_str());
            *live = live.refreshed::<T>(cluster, kind, &key).await?;
        }
        return Ok(());
    }
    let read = cluster.list::<T>(kind, namespace, selectors).await;
    let read = read.map_err(|error| StepError::new(format!("listing {}", kind.title()), error))?;
    for object in read {
        let key = object.key();
        if names.contains(&key.name) {
            live.put(kind, &key, Some(object));
        }
    }
    Ok(())
}
