//! The writes in a steady state, counted in the audit log of the API server.

use std::time::Duration;

use kube::api::{Patch, PatchParams};
use serde_json::json;

use crate::world::{CONTROLLERS, World};

/// How long nothing may be written. `make test-long` uses the ten minutes of the requirement.
fn window() -> Duration {
    let seconds = std::env::var("CAPSTAN_STEADY_SECONDS").ok();
    Duration::from_secs(seconds.map_or(60, |seconds| seconds.parse().unwrap()))
}

/// B8, B9, B10: the upstream operator writes its status 14 times a minute with a changed time, and
/// makes 63 dry runs.
#[tokio::test(flavor = "multi_thread")]
async fn b8_b9_b10_nothing_is_written_while_nothing_changes() {
    let (world, running) = World::settled().await.unwrap();
    world
        .wait_for("the ClusterOperator", async |world| {
            let operator = world.operator().await?;
            Ok(operator.condition("Upgradeable").map(|_| ()))
        })
        .await
        .unwrap();
    // The first writes (adoption, finalizer, status, ClusterOperator) finish within a moment.
    let writes_when_idle = async || {
        let mut last = world.writes().unwrap().len();
        loop {
            tokio::time::sleep(std::time::Duration::from_millis(500)).await;
            let now = world.writes().unwrap().len();
            if now == last {
                return now;
            }
            last = now;
        }
    };
    let before = writes_when_idle().await;
    // Changes of a steady state: heartbeats of nodes and annotations of other clients.
    for round in 0..20 {
        let nodes = world.api("nodes");
        let heartbeat = json!({"metadata": {"annotations": {"beat": round.to_string()}}});
        let params = PatchParams::default();
        nodes
            .patch("prod-x7k2p-master-0", &params, &Patch::Merge(heartbeat.clone()))
            .await
            .unwrap();
        let machines = world.api("machines");
        machines
            .patch("prod-x7k2p-master-1", &params, &Patch::Merge(heartbeat))
            .await
            .unwrap();
    }
    let after = writes_when_idle().await;
    let writes = world.writes().unwrap();
    assert_eq!(after, before, "{:?}", &writes[before..]);
    // A new process has nothing to change.
    running.controllers.stop().await;
    let again = world.start_controllers("two").await.unwrap();
    world
        .wait_for("the caches of the new process to be filled", async |_| {
            Ok(again.caches.synced().is_ok().then_some(()))
        })
        .await
        .unwrap();
    assert_eq!(
        writes_when_idle().await,
        before,
        "{:?}",
        &world.writes().unwrap()[before..]
    );
    again.controllers.stop().await;
    world.check_invariants().unwrap();
}

/// The same over a minute or more: no polling causes a write, and no time in a status changes.
#[tokio::test(flavor = "multi_thread")]
async fn b8_b9_b10_a_steady_state_makes_no_write() {
    let (world, running) = World::settled().await.unwrap();
    world
        .wait_for("the ClusterOperator", async |world| {
            let operator = world.operator().await?;
            Ok(operator.condition("Upgradeable").map(|_| ()))
        })
        .await
        .unwrap();
    // Every write but that of the Lease, which the leader renews. Events are counted too.
    let written = || -> Vec<String> {
        let events = world.plane.audit_events().unwrap();
        let of = |event: &&capstan_sandbox::control_plane::AuditEvent| {
            let resource = event.object_ref.clone().unwrap_or_default().resource;
            event.is_write() && event.user.username == CONTROLLERS && resource != "leases"
        };
        let shown = |event: &capstan_sandbox::control_plane::AuditEvent| {
            let object = event.object_ref.clone().unwrap_or_default();
            format!("{} {} {}", event.verb, object.resource, object.name)
        };
        events.iter().filter(of).map(shown).collect()
    };
    let before = loop {
        let last = written().len();
        tokio::time::sleep(Duration::from_millis(500)).await;
        if written().len() == last {
            break last;
        }
    };
    let set = world.set().await.unwrap();
    let end = tokio::time::Instant::now() + window();
    while tokio::time::Instant::now() < end {
        // Every node sends a heartbeat, as a kubelet does.
        for index in 0..3 {
            let beat = json!({"status": {"conditions": [{"type": "Ready", "status": "True",
                "lastHeartbeatTime": jiff::Timestamp::now().to_string()}]}});
            let name = format!("prod-x7k2p-master-{index}");
            let nodes = world.api("nodes");
            let beat = Patch::Strategic(beat);
            nodes.patch_status(&name, &PatchParams::default(), &beat).await.unwrap();
        }
        tokio::time::sleep(Duration::from_secs(5)).await;
    }
    let writes = written();
    assert_eq!(writes.len(), before, "{:?}", &writes[before..]);
    let after = world.set().await.unwrap();
    assert_eq!(after.metadata.resource_version, set.metadata.resource_version);
    running.controllers.stop().await;
    world.check_invariants().unwrap();
}
