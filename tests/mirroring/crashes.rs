//! Controllers that stop at each write of a migration.

use capstan_core::authority::spec::Api;

use crate::cluster::{Cluster, Machine};

/// Lets the controllers of both APIs act until the gate is closed or the migration has ended.
/// Returns whether the gate is closed.
async fn until_closed(machine: &mut Machine<'_>, api: Api) -> bool {
    machine
        .until("the gate is closed, or the migration ends", async |machine| {
            let done = machine.authority().await == api.as_str() && machine.condition("Synchronized").await == "True";
            done || machine.cluster.gate.is_closed()
        })
        .await;
    let closed = machine.cluster.gate.is_closed();
    // The controllers of both APIs act while the sync controller is down.
    for _ in 0..4 {
        machine.controllers().await;
    }
    closed
}

/// The controllers lose their connection after the n-th write of a migration was stored, and do not
/// receive the answer. Controllers that know nothing of it start, and end the migration.
pub(crate) async fn a_migration_ends_after_a_crash_at_every_write(cluster: &Cluster) {
    let mut machine = cluster.machine("crashes", Api::MachineApi, None).await;
    let mut running = cluster.controllers().await;
    machine.synchronized(Api::MachineApi).await;
    let mut api = Api::MachineApi;
    let mut crashes = 0;
    for writes in 1..40 {
        let mut closed = false;
        for _ in 0..2 {
            api = api.other();
            cluster.gate.close_after(writes);
            machine.request(api).await;
            let crashed = until_closed(&mut machine, api).await;
            if crashed {
                running.stop().await;
                cluster.gate.open();
                running = cluster.controllers().await;
                crashes += 1;
            }
            machine.agrees(api).await;
            assert_eq!(machine.instances, 1, "{api:?} after {writes} writes");
            closed |= crashed;
        }
        if !closed {
            break;
        }
    }
    cluster.gate.open();
    machine.settle().await;
    running.stop().await;
    assert!(crashes >= 10, "{crashes}");
}

/// A migration is cancelled after its n-th write.
pub(crate) async fn a_migration_is_cancelled_after_each_write(cluster: &Cluster) {
    let running = cluster.controllers().await;
    let mut machine = cluster.machine("cancelled", Api::MachineApi, None).await;
    machine.synchronized(Api::MachineApi).await;
    for source in [Api::MachineApi, Api::ClusterApi] {
        machine.request(source).await;
        machine.synchronized(source).await;
        for writes in 1..40 {
            cluster.gate.close_after(writes);
            machine.request(source.other()).await;
            let closed = until_closed(&mut machine, source.other()).await;
            machine.request(source).await;
            cluster.gate.open();
            machine.agrees(source).await;
            if !closed {
                break;
            }
        }
        machine.settle().await;
        assert_eq!(machine.instances, 1, "{source:?}");
    }
    running.stop().await;
}
