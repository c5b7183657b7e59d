//! Controllers that stop at each write of the creation, the migration, and the deletion of a
//! MachineSet.

use capstan_core::authority::pair::Part;
use capstan_core::authority::spec::Api;

use crate::cluster::{Cluster, MACHINE_API, Machine, send};
use crate::sets::{Set, set};

/// Lets the controllers of both APIs act until the gate is closed or the request has ended. Returns
/// whether the gate is closed.
async fn until_closed(set: &Set<'_>, api: Api) -> bool {
    set.until("the gate is closed, or the migration ends", async |set| {
        let object = set.get(Api::MachineApi).await.unwrap();
        let done = object.text("/status/authoritativeAPI") == Some(api.as_str())
            && object.condition("Synchronized") == Some("True");
        done || set.cluster.gate.is_closed()
    })
    .await;
    let closed = set.cluster.gate.is_closed();
    for _ in 0..3 {
        set.controllers().await;
    }
    closed
}

/// The MachineSet refers to a template that exists, and the core would create no Machine twice: one
/// of the two MachineSets is closed at every moment.
async fn is_sound(set: &Set<'_>) {
    let machine_api = set.get(Api::MachineApi).await.unwrap();
    let cluster_api = set.get(Api::ClusterApi).await.unwrap();
    let open = machine_api.text("/status/authoritativeAPI") == Some("MachineAPI");
    assert!(!open || cluster_api.member.is_paused(), "both MachineSets may act");
    let reference = cluster_api.text("/spec/template/spec/infrastructureRef/name").unwrap();
    assert!(
        set.templates().await.iter().any(|name| name == reference),
        "{reference}"
    );
}

/// The controllers lose their connection after the n-th write of a migration was stored, and do not
/// receive the answer.
pub(crate) async fn a_migration_ends_after_a_crash_at_every_write(cluster: &Cluster) {
    let mut running = cluster.controllers().await;
    let set = set(cluster, "crashing", Api::MachineApi).await;
    let mut api = Api::MachineApi;
    let mut crashes = 0;
    for writes in 1..30 {
        let mut closed = false;
        for _ in 0..2 {
            api = api.other();
            cluster.gate.close_after(writes);
            set.request(api).await;
            let crashed = until_closed(&set, api).await;
            is_sound(&set).await;
            if crashed {
                running.stop().await;
                cluster.gate.open();
                running = cluster.controllers().await;
                crashes += 1;
            }
            set.agrees(api).await;
            is_sound(&set).await;
            closed |= crashed;
        }
        if !closed {
            break;
        }
    }
    cluster.gate.open();
    set.settles().await;
    running.stop().await;
    assert!(crashes >= 6, "{crashes}");
}

/// A migration is cancelled after its n-th write.
pub(crate) async fn a_migration_is_cancelled_after_each_write(cluster: &Cluster) {
    let running = cluster.controllers().await;
    let set = set(cluster, "taken-back", Api::MachineApi).await;
    for source in [Api::MachineApi, Api::ClusterApi] {
        set.request(source).await;
        set.agrees(source).await;
        set.settles().await;
        for writes in 1..30 {
            cluster.gate.close_after(writes);
            set.request(source.other()).await;
            let closed = until_closed(&set, source.other()).await;
            set.request(source).await;
            cluster.gate.open();
            set.agrees(source).await;
            is_sound(&set).await;
            if !closed {
                break;
            }
        }
        set.settles().await;
    }
    running.stop().await;
}

/// Every so many writes of a creation and of a deletion, the controllers stop.
fn stride() -> usize {
    std::env::var("CAPSTAN_CRASH_STRIDE").map_or(3, |text| text.parse().unwrap())
}

/// The controllers stop at the n-th write of the creation of a mirror, and then at the n-th write
/// of the deletion of the authoritative MachineSet, which has a Machine.
pub(crate) async fn a_creation_and_a_deletion_end_after_a_crash_at_every_write(cluster: &Cluster) {
    for authority in [Api::MachineApi, Api::ClusterApi] {
        for writes in (1..30).step_by(stride()) {
            let name = format!("ends-{authority:?}-{writes}").to_lowercase();
            cluster.gate.close_after(writes);
            let mut running = cluster.controllers().await;
            let body = Cluster::set_body(&name, authority);
            let path = format!("{MACHINE_API}/machinesets");
            send(&cluster.client, "POST", &path, Some(&body)).await.unwrap();
            let set = Set {
                cluster,
                name: name.clone(),
            };
            let created = until_closed(&set, authority).await;
            running.stop().await;
            cluster.gate.open();
            running = cluster.controllers().await;
            set.agrees(authority).await;
            set.settles().await;
            let owner = set.get(Api::MachineApi).await.unwrap().value;
            let mut machine = cluster.machine(&name, authority, Some(&owner)).await;
            machine.synchronized(authority).await;
            cluster.gate.close_after(writes);
            cluster.delete_set(authority, &name).await;
            let deleted = until_gone_or_closed(&set, &mut machine).await;
            running.stop().await;
            cluster.gate.open();
            running = cluster.controllers().await;
            set.until("both MachineSets and the templates are deleted", async |set| {
                let gone = [set.get(Api::MachineApi).await, set.get(Api::ClusterApi).await];
                gone.iter().all(Option::is_none) && set.templates().await.is_empty()
            })
            .await;
            machine.gone().await;
            assert_eq!((machine.instance.as_deref(), machine.instances), (None, 1), "{name}");
            running.stop().await;
            if !created && !deleted {
                break;
            }
        }
    }
}

/// Lets the controllers of both APIs act until the gate is closed or nothing is left. Returns
/// whether the gate is closed.
async fn until_gone_or_closed(set: &Set<'_>, machine: &mut Machine<'_>) -> bool {
    for _ in 0..400 {
        set.controllers().await;
        machine.controllers().await;
        let left = [machine.get(Part::MachineApi).await, machine.get(Part::ClusterApi).await];
        let sets = [set.get(Api::MachineApi).await, set.get(Api::ClusterApi).await];
        let gone = left.iter().all(Option::is_none) && sets.iter().all(Option::is_none);
        if gone || set.cluster.gate.is_closed() {
            break;
        }
        tokio::time::sleep(std::time::Duration::from_millis(20)).await;
    }
    set.cluster.gate.is_closed()
}
