//! Records whose pool does not exist any more: the creation of a record may arrive after the pool
//! was released, and a user may remove the finalizer of the pool.
//!
//! The garbage collector deletes such a record. The Machine controller adds its finalizer before it
//! finds that a Machine is paused, and does not remove it then, so the record would stay in
//! deletion. Nothing here deletes.

use std::sync::Arc;

use capstan_core::api::cluster_x_k8s_io::control_plane::Machine;
use capstan_core::api::cluster_x_k8s_io::machine_pool::{KIND, MachinePool};
use capstan_core::api::kinds::{CLUSTER_API_MACHINES, MACHINE_POOLS};
use capstan_core::model::ObjectRef;
use capstan_core::pool::action::Step;
use capstan_core::pool::records;

use crate::runtime::View;

/// The pool that a Machine names as its controller, and the uid of it, if the Machine is a record
/// that waits for its release.
fn pool_of(machine: &Machine) -> Option<(ObjectRef, &str)> {
    records::release(machine)?;
    let owner = machine.metadata.controller().filter(|owner| owner.kind == KIND)?;
    let namespace = machine.metadata.namespace.as_deref().unwrap_or_default();
    Some((MACHINE_POOLS.object(namespace, &owner.name), &owner.uid))
}

/// Whether the pool with a uid does not exist.
fn is_gone(pool: &ObjectRef, uid: &str, view: &View) -> bool {
    let stored = view
        .objects
        .get::<MachinePool>(&MACHINE_POOLS, &pool.namespace, &pool.name);
    stored.is_none_or(|stored| stored.metadata.uid() != uid)
}

/// The pool of an orphaned record.
pub(super) fn pool(changed: &ObjectRef, view: &View) -> Option<ObjectRef> {
    let is_machine = CLUSTER_API_MACHINES.is_kind_of(changed);
    let machines = is_machine.then_some(&view.objects)?;
    let machine = machines.get::<Machine>(&CLUSTER_API_MACHINES, &changed.namespace, &changed.name)?;
    let (pool, uid) = pool_of(machine)?;
    is_gone(&pool, uid, view).then_some(pool)
}

/// The pools of all orphaned records.
pub(super) fn pools(view: &View) -> Vec<ObjectRef> {
    let machines = view.objects.keys(&CLUSTER_API_MACHINES);
    machines.iter().filter_map(|machine| pool(machine, view)).collect()
}

/// The releases of the orphaned records of a pool.
pub(super) fn releases(key: &ObjectRef, view: &View) -> Vec<Step> {
    let machines = view.within::<Machine>(&CLUSTER_API_MACHINES, &key.namespace);
    let orphans = machines.filter(|machine: &&Arc<Machine>| {
        pool_of(machine).is_some_and(|(pool, uid)| pool == *key && is_gone(&pool, uid, view))
    });
    orphans.filter_map(|machine| records::release(machine)).collect()
}
