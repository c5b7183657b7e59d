//! Rolling updates from the first edit to the last machine.

use std::sync::{Arc, Mutex};

use capstan_core::api::machine_openshift_io::control_plane_machine_set::ControlPlaneMachineSetStatus;
use futures::StreamExt as _;
use kube::runtime::watcher::{self, Event};
use serde_json::Value;

use crate::world::{Setup, World};

/// Every status that the set has had, as a watch shows it.
struct Statuses {
    seen: Arc<Mutex<Vec<Value>>>,
    task: tokio::task::JoinHandle<()>,
}

impl Statuses {
    async fn follow(world: &World) -> Self {
        let seen: Arc<Mutex<Vec<Value>>> = Arc::default();
        let noting = Arc::clone(&seen);
        let mut events = Box::pin(watcher::watcher(
            world.api("controlplanemachinesets"),
            watcher::Config::default(),
        ));
        let task = tokio::spawn(async move {
            while let Some(event) = events.next().await {
                if let Ok(Event::Apply(set) | Event::InitApply(set)) = event {
                    let status = set.data["status"].clone();
                    let mut seen = noting.lock().unwrap();
                    if seen.last() != Some(&status) {
                        seen.push(status);
                    }
                }
            }
        });
        let statuses = Self { seen, task };
        world
            .until("the first status", async |_| {
                Ok((!statuses.seen.lock().unwrap().is_empty()).then_some(()))
            })
            .await
            .unwrap();
        statuses
    }

    /// How often the status has changed until now.
    async fn until(self, world: &World) -> usize {
        let now = serde_json::to_value(world.set().await.unwrap().status).unwrap();
        world
            .until("the last status", async |_| {
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
async fn three_machines_are_replaced_one_by_one_with_exactly_the_writes_that_it_takes() {
    let world = World::new(Setup::default()).await.unwrap();
    let running = world.control("one").await.unwrap();
    world.says("Progressing=False/AllReplicasUpdated").await.unwrap();
    let statuses = Statuses::follow(&world).await;
    world.ask_for("m6i.2xlarge").await.unwrap();
    world.rolled_out("m6i.2xlarge").await.unwrap();
    world.says("Progressing=False/AllReplicasUpdated").await.unwrap();
    running.controllers.stop().await;
    let writes = world.writes_since_edit().unwrap();
    let count = |what: &str| writes.iter().filter(|write| write.starts_with(what)).count();
    assert_eq!(count("create machines "), 3, "{writes:?}");
    assert_eq!(count("delete machines "), 3, "{writes:?}");
    assert_eq!(count("patch machines "), 0, "{writes:?}");
    assert_eq!(count("patch controlplanemachinesets "), 0, "{writes:?}");
    // One write for each status that was to be seen, none that changed nothing.
    let seen = statuses.until(&world).await;
    assert_eq!(count("patch controlplanemachinesets/status "), seen, "{writes:?}");
    world.judge().unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn five_machines_are_replaced_and_an_etcd_member_that_is_unhealthy_holds_the_rollout_back() {
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
    let running = world.control("one").await.unwrap();
    world.says("Degraded=False/AsExpected").await.unwrap();
    world.ask_for("m6i.2xlarge").await.unwrap();
    world.says("Progressing=False/WaitingForEtcd").await.unwrap();
    assert_eq!(world.machines().await.unwrap().len(), 5);
    world
        .etcd(true, "EtcdMembersAvailable: 5 members are available")
        .await
        .unwrap();
    world.rolled_out("m6i.2xlarge").await.unwrap();
    world.says("Progressing=False/AllReplicasUpdated").await.unwrap();
    running.controllers.stop().await;
    world.judge().unwrap();
}

/// Behind its gate, and with a definition that lists it: the old machine goes first, and only while all others are ready.
#[tokio::test(flavor = "multi_thread")]
async fn recreate_removes_each_machine_before_it_makes_the_next() {
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
    let running = world.control_with_gate("CPMSRecreate").await.unwrap();
    world.says("Progressing=False/AllReplicasUpdated").await.unwrap();
    let recreate = serde_json::json!({"spec": {"strategy": {"type": "Recreate"}}});
    world
        .until("the definition that lists Recreate", async |world| {
            Ok(world.edit(&recreate).await.ok())
        })
        .await
        .unwrap();
    // Without the acknowledgement of the risk, nothing is done.
    world.says("Degraded=True/InvalidSpec").await.unwrap();
    world.ask_for("m6i.2xlarge").await.unwrap();
    let acknowledged =
        serde_json::json!({"metadata": {"annotations": {"capstan.dev/recreate-acknowledged": "etcd-quorum-at-risk"}}});
    world.edit(&acknowledged).await.unwrap();
    // The etcd operator holds a machine until another has a member, which Recreate cannot give it: a person looks at etcd and
    // removes the hook, each time.
    world
        .until("the rollout, with hooks removed by hand", async |world| {
            for machine in world.machines().await? {
                if machine.metadata.is_deleting() && machine.spec.lifecycle_hooks.is_some() {
                    let patch = kube::api::Patch::Merge(serde_json::json!({"spec": {"lifecycleHooks": null}}));
                    let params = kube::api::PatchParams::default();
                    // It may be gone by now.
                    let _gone = world
                        .api("machines")
                        .patch(machine.metadata.name(), &params, &patch)
                        .await;
                }
            }
            Ok(world.is_rolled_out("m6i.2xlarge").await?.then_some(()))
        })
        .await
        .unwrap();
    world.says("Progressing=False/AllReplicasUpdated").await.unwrap();
    running.controllers.stop().await;
    let writes = world.writes_since_edit().unwrap();
    let deeds: Vec<&str> = writes
        .iter()
        .filter(|write| write.contains(" machines "))
        .map(|write| write.split(' ').next().unwrap())
        .collect();
    assert_eq!(
        deeds,
        ["delete", "create", "delete", "create", "delete", "create"],
        "{writes:?}"
    );
    // The monitor has seen that never more than one was missing.
    world.judge().unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn two_leaders_at_once_make_no_second_machine() {
    let world = World::new(Setup::default()).await.unwrap();
    // Leases of different names: both lead, all the time.
    let one = world.control_as("one", "capstan").await.unwrap();
    let two = world.control_as("two", "other").await.unwrap();
    world.says("Progressing=False/AllReplicasUpdated").await.unwrap();
    world.ask_for("m6i.2xlarge").await.unwrap();
    world.rolled_out("m6i.2xlarge").await.unwrap();
    world.ask_for("m6i.4xlarge").await.unwrap();
    world.rolled_out("m6i.4xlarge").await.unwrap();
    one.controllers.stop().await;
    two.controllers.stop().await;
    let created = world.writes().unwrap();
    let created: Vec<&String> = created
        .iter()
        .filter(|write| write.starts_with("create machines "))
        .collect();
    assert_eq!(created.len(), 6, "{created:?}");
    world.judge().unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_leader_that_stops_in_the_middle_hands_over_at_once() {
    let world = World::new(Setup::default()).await.unwrap();
    // A Lease so long that nobody could wait for its end.
    let one = world.control_for("one", "capstan", 600).await.unwrap();
    world.says("Progressing=False/AllReplicasUpdated").await.unwrap();
    let two = world.control_for("two", "capstan", 600).await.unwrap();
    world
        .until("the second to know the cluster", async |_| {
            Ok(two.caches.synced().is_ok().then_some(()))
        })
        .await
        .unwrap();
    world.ask_for("m6i.2xlarge").await.unwrap();
    world
        .until("a replacement", async |world| {
            Ok((world.machines().await?.len() > 3).then_some(()))
        })
        .await
        .unwrap();
    one.controllers.stop().await;
    world.rolled_out("m6i.2xlarge").await.unwrap();
    two.controllers.stop().await;
    world.judge().unwrap();
}

/// B16: what does not concern the instance never reaches a machine.
#[tokio::test(flavor = "multi_thread")]
async fn b16_labels_and_annotations_of_the_template_reach_machines_in_place() {
    let world = World::new(Setup::default()).await.unwrap();
    let running = world.control("one").await.unwrap();
    world.says("Progressing=False/AllReplicasUpdated").await.unwrap();
    let metadata = serde_json::json!({"labels": {"team": "a"}, "annotations": {"example.com/note": "b"}});
    let template = serde_json::json!({"machines_v1beta1_machine_openshift_io": {"metadata": metadata}});
    world
        .edit(&serde_json::json!({"spec": {"template": template}}))
        .await
        .unwrap();
    world
        .until("the labels on all machines", async |world| {
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
    world.judge().unwrap();
}
