//! Rolling updates, from the edit to the last replaced machine.

use std::sync::{Arc, Mutex};

use capstan_core::api::machine_openshift_io::control_plane_machine_set::ControlPlaneMachineSetStatus;
use futures::StreamExt as _;
use kube::runtime::watcher::{self, Event};
use serde_json::Value;

use crate::world::{Setup, World};

/// Every status of the set, from a watch.
struct Statuses {
    seen: Arc<Mutex<Vec<Value>>>,
    task: tokio::task::JoinHandle<()>,
}

impl Statuses {
    async fn follow(world: &World) -> Self {
        let seen: Arc<Mutex<Vec<Value>>> = Arc::default();
        let recorder = Arc::clone(&seen);
        let mut events = Box::pin(watcher::watcher(
            world.api("controlplanemachinesets"),
            watcher::Config::default(),
        ));
        let task = tokio::spawn(async move {
            while let Some(event) = events.next().await {
                if let Ok(Event::Apply(set) | Event::InitApply(set)) = event {
                    let status = set.data["status"].clone();
                    let mut seen = recorder.lock().unwrap();
                    if seen.last() != Some(&status) {
                        seen.push(status);
                    }
                }
            }
        });
        let statuses = Self { seen, task };
        world
            .wait_for("the first status", async |_| {
                Ok((!statuses.seen.lock().unwrap().is_empty()).then_some(()))
            })
            .await
            .unwrap();
        statuses
    }

    /// The number of changes of the status until now.
    async fn count(self, world: &World) -> usize {
        let now = serde_json::to_value(world.set().await.unwrap().status).unwrap();
        world
            .wait_for("the last status", async |_| {
                let seen = self.seen.lock().unwrap();
                let last: Option<ControlPlaneMachineSetStatus> = seen
                    .last()
                    .and_then(|status| serde_json::from_value(status.clone()).ok());
                Ok((serde_json::to_value(last)? == now).then_some(()))
            })
            .await
            .unwrap();
        self.task.abort();
        self.seen.lock().unwrap().len() - 1
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn three_machines_are_replaced_one_by_one_with_the_fewest_writes() {
    let (world, running) = World::settled().await.unwrap();
    let statuses = Statuses::follow(&world).await;
    world.set_instance_type("m6i.2xlarge").await.unwrap();
    world.wait_for_rollout("m6i.2xlarge").await.unwrap();
    world
        .wait_for_condition("Progressing=False/AllReplicasUpdated")
        .await
        .unwrap();
    running.controllers.stop().await;
    let writes = world.writes_since_edit().unwrap();
    let count = |what: &str| writes.iter().filter(|write| write.starts_with(what)).count();
    assert_eq!(count("create machines "), 3, "{writes:?}");
    assert_eq!(count("delete machines "), 3, "{writes:?}");
    assert_eq!(count("patch machines "), 0, "{writes:?}");
    // Each creation is recorded in the set before it is sent, and the record is removed after it.
    assert_eq!(count("patch controlplanemachinesets "), 6, "{writes:?}");
    // Each status write changes the status.
    let seen = statuses.count(&world).await;
    assert_eq!(count("patch controlplanemachinesets/status "), seen, "{writes:?}");
    world.check_invariants().unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn five_machines_are_replaced_and_an_unhealthy_etcd_member_blocks_the_rollout() {
    let setup = Setup {
        replicas: 5,
        ..Setup::default()
    };
    let world = World::new(setup).await.unwrap();
    world
        .etcd(
            true,
            "EtcdMembersAvailable: 2 of 3 members are available, m-1 is unhealthy",
        )
        .await
        .unwrap();
    let running = world.start_controllers("one").await.unwrap();
    world.wait_for_condition("Degraded=False/AsExpected").await.unwrap();
    world.set_instance_type("m6i.2xlarge").await.unwrap();
    world
        .wait_for_condition("Progressing=True/WaitingForEtcd")
        .await
        .unwrap();
    assert_eq!(world.machines().await.unwrap().len(), 5);
    world
        .etcd(true, "EtcdMembersAvailable: 5 members are available")
        .await
        .unwrap();
    world.wait_for_rollout("m6i.2xlarge").await.unwrap();
    world
        .wait_for_condition("Progressing=False/AllReplicasUpdated")
        .await
        .unwrap();
    running.controllers.stop().await;
    world.check_invariants().unwrap();
}

/// With the feature gate and a CRD that allows it, Recreate deletes the old machine first, and only
/// while all others are ready.
#[tokio::test(flavor = "multi_thread")]
async fn recreate_deletes_each_machine_before_it_creates_its_replacement() {
    let world = World::new(Setup::default()).await.unwrap();
    world.allow_missing(1);
    let allowed = serde_json::json!(["RollingUpdate", "OnDelete", "Recreate"]);
    world
        .redefine(|schema| {
            *schema
                .pointer_mut("/properties/spec/properties/strategy/properties/type/enum")
                .unwrap() = allowed;
        })
        .await
        .unwrap();
    let running = world.start_controllers_with_gate("CPMSRecreate").await.unwrap();
    world
        .wait_for_condition("Progressing=False/AllReplicasUpdated")
        .await
        .unwrap();
    let recreate = serde_json::json!({"spec": {"strategy": {"type": "Recreate"}}});
    world
        .wait_for("the CRD that allows Recreate", async |world| {
            Ok(world.edit(&recreate).await.ok())
        })
        .await
        .unwrap();
    // Without the acknowledgement of the risk, the set is degraded.
    world.wait_for_condition("Degraded=True/InvalidSpec").await.unwrap();
    world.set_instance_type("m6i.2xlarge").await.unwrap();
    let acknowledged =
        serde_json::json!({"metadata": {"annotations": {"capstan.dev/recreate-acknowledged": "etcd-quorum-at-risk"}}});
    world.edit(&acknowledged).await.unwrap();
    // The etcd operator keeps its hook until another machine has a member, which Recreate cannot
    // provide. So a user removes the hook each time.
    world
        .wait_for("the rollout, with hooks removed by hand", async |world| {
            for machine in world.machines().await? {
                if machine.metadata.is_deleting() && machine.spec.lifecycle_hooks.is_some() {
                    let patch = kube::api::Patch::Merge(serde_json::json!({"spec": {"lifecycleHooks": null}}));
                    let params = kube::api::PatchParams::default();
                    // The machine may already be deleted.
                    let _result = world
                        .api("machines")
                        .patch(machine.metadata.name(), &params, &patch)
                        .await;
                }
            }
            Ok(world.is_rolled_out("m6i.2xlarge").await?.then_some(()))
        })
        .await
        .unwrap();
    world
        .wait_for_condition("Progressing=False/AllReplicasUpdated")
        .await
        .unwrap();
    running.controllers.stop().await;
    let writes = world.writes_since_edit().unwrap();
    let actions: Vec<&str> = writes
        .iter()
        .filter(|write| write.contains(" machines "))
        .map(|write| write.split(' ').next().unwrap())
        .collect();
    assert_eq!(
        actions,
        ["delete", "create", "delete", "create", "delete", "create"],
        "{writes:?}"
    );
    // The monitor checks that at most one machine was missing at a time.
    world.check_invariants().unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn two_leaders_at_once_create_no_second_machine() {
    let world = World::new(Setup::default()).await.unwrap();
    // The Leases have different names, so both controllers lead all the time.
    let one = world.start_controllers_with_lease("one", "capstan").await.unwrap();
    let two = world.start_controllers_with_lease("two", "other").await.unwrap();
    world
        .wait_for_condition("Progressing=False/AllReplicasUpdated")
        .await
        .unwrap();
    world.set_instance_type("m6i.2xlarge").await.unwrap();
    world.wait_for_rollout("m6i.2xlarge").await.unwrap();
    world.set_instance_type("m6i.4xlarge").await.unwrap();
    world.wait_for_rollout("m6i.4xlarge").await.unwrap();
    one.controllers.stop().await;
    two.controllers.stop().await;
    let created = world.writes().unwrap();
    let created: Vec<&String> = created
        .iter()
        .filter(|write| write.starts_with("create machines "))
        .collect();
    assert_eq!(created.len(), 6, "{created:?}");
    world.check_invariants().unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_leader_that_stops_during_a_rollout_hands_over_at_once() {
    let world = World::new(Setup::default()).await.unwrap();
    // The Lease is so long that the test cannot wait for it to expire.
    let one = world.start_controllers_for("one", "capstan", 600).await.unwrap();
    world
        .wait_for_condition("Progressing=False/AllReplicasUpdated")
        .await
        .unwrap();
    let two = world.start_controllers_for("two", "capstan", 600).await.unwrap();
    world
        .wait_for("the caches of the second process to be filled", async |_| {
            Ok(two.caches.synced().is_ok().then_some(()))
        })
        .await
        .unwrap();
    world.set_instance_type("m6i.2xlarge").await.unwrap();
    world
        .wait_for("a replacement", async |world| {
            Ok((world.machines().await?.len() > 3).then_some(()))
        })
        .await
        .unwrap();
    one.controllers.stop().await;
    world.wait_for_rollout("m6i.2xlarge").await.unwrap();
    two.controllers.stop().await;
    world.check_invariants().unwrap();
}

/// B16: the upstream operator never updates labels and annotations of machines.
#[tokio::test(flavor = "multi_thread")]
async fn b16_labels_and_annotations_of_the_template_are_updated_in_place() {
    let (world, running) = World::settled().await.unwrap();
    let metadata = serde_json::json!({"labels": {"team": "a"}, "annotations": {"example.com/note": "b"}});
    let template = serde_json::json!({"machines_v1beta1_machine_openshift_io": {"metadata": metadata}});
    world
        .edit(&serde_json::json!({"spec": {"template": template}}))
        .await
        .unwrap();
    world
        .wait_for("the labels on all machines", async |world| {
            let machines = world.machines().await?;
            let all = machines.iter().all(|machine| {
                let meta = &machine.metadata;
                meta.labels.contains_key("team") && meta.annotations.contains_key("example.com/note")
            });
            Ok(all.then_some(()))
        })
        .await
        .unwrap();
    running.controllers.stop().await;
    let writes = world.writes_since_edit().unwrap();
    let machines: Vec<&String> = writes.iter().filter(|write| write.contains(" machines ")).collect();
    assert_eq!(machines.len(), 3, "{machines:?}");
    assert!(machines.iter().all(|write| write.starts_with("patch ")), "{machines:?}");
    world.check_invariants().unwrap();
}
