//! The generator: it creates a missing set and keeps the fields of users, and activating a
//! generated set replaces no machine.

use kube::api::{DeleteParams, Patch, PatchParams, PostParams};
use serde_json::{Value, json};

use crate::world::{Setup, World};

async fn generated(world: &World) -> Value {
    world
        .wait_for("a generated set", async |world| {
            let set = world.api("controlplanemachinesets").get_opt("cluster").await?;
            let set = set.map(|set| serde_json::to_value(set).unwrap());
            Ok(set.filter(|set| set["metadata"]["annotations"]["capstan.dev/generated"].is_string()))
        })
        .await
        .unwrap()
}

#[tokio::test(flavor = "multi_thread")]
async fn b13_a_cluster_without_a_set_gets_an_inactive_one_whose_activation_replaces_nothing() {
    let setup = Setup {
        set: false,
        ..Setup::default()
    };
    let world = World::new(setup).await.unwrap();
    let running = world.start_controllers("one").await.unwrap();
    let set = generated(&world).await;
    assert_eq!(set["spec"]["state"], "Inactive");
    assert_eq!(set["spec"]["replicas"], 3);
    // C4: an Inactive set writes to no machine.
    world.wait_for_condition("Progressing=False/Inactive").await.unwrap();
    let writes = world.writes().unwrap();
    assert!(writes.iter().all(|write| !write.contains(" machines ")), "{writes:?}");

    // B13: the generator keeps the fields that a user changed and updates the other fields from the
    // machines.
    let path = "machines_v1beta1_machine_openshift_io";
    world
        .edit(&json!({"spec": {"strategy": {"type": "OnDelete"}}}))
        .await
        .unwrap();
    let larger = json!({"spec": {"providerSpec": {"value": {"instanceType": "m6i.8xlarge"}}}});
    for index in 0..3 {
        let machines = world.api("machines");
        let patch = Patch::Merge(&larger);
        let name = format!("prod-x7k2p-master-{index}");
        machines.patch(&name, &PatchParams::default(), &patch).await.unwrap();
    }
    let set = world
        .wait_for("the template to be updated", async |world| {
            let set = serde_json::to_value(world.set().await?)?;
            let type_ = &set["spec"]["template"][path]["spec"]["providerSpec"]["value"]["instanceType"];
            Ok((type_ == "m6i.8xlarge").then_some(set))
        })
        .await
        .unwrap();
    assert_eq!(set["spec"]["strategy"]["type"], "OnDelete");

    // C11: activation replaces no machine.
    world.edit(&json!({"spec": {"state": "Active"}})).await.unwrap();
    world
        .wait_for_condition("Progressing=False/AllReplicasUpdated")
        .await
        .unwrap();
    let machines = world.machines().await.unwrap();
    assert!(machines.iter().all(|machine| machine.metadata.controller().is_some()));
    let writes = world.writes().unwrap();
    let disruptive = |write: &&String| write.starts_with("create machines") || write.starts_with("delete");
    assert_eq!(writes.iter().find(disruptive), None);

    // A deleted set is generated again as Inactive.
    let before = world.set().await.unwrap().metadata.uid;
    world
        .api("controlplanemachinesets")
        .delete("cluster", &DeleteParams::default())
        .await
        .unwrap();
    world
        .wait_for("another set", async |world| {
            let set = world.api("controlplanemachinesets").get_opt("cluster").await?;
            Ok(set.filter(|set| set.metadata.uid != before))
        })
        .await
        .unwrap();
    assert_eq!(generated(&world).await["spec"]["state"], "Inactive");
    assert_eq!(world.machines().await.unwrap().len(), 3);
    running.controllers.stop().await;
    world.check_invariants().unwrap();
}

/// What the refusal of another selector advises.
#[tokio::test(flavor = "multi_thread")]
async fn w116_a_set_with_another_selector_is_created_while_the_controllers_are_stopped() {
    let (world, running) = World::settled().await.unwrap();
    let sets = || world.api("controlplanemachinesets");
    let mut own = serde_json::to_value(world.set().await.unwrap()).unwrap();
    sets().delete("cluster", &DeleteParams::default()).await.unwrap();
    generated(&world).await;

    // The generated set is Inactive and has no finalizer, so that nothing holds its deletion.
    running.controllers.stop().await;
    sets().delete("cluster", &DeleteParams::default()).await.unwrap();
    assert!(sets().get_opt("cluster").await.unwrap().is_none());
    own["metadata"] = json!({"name": "cluster", "namespace": own["metadata"]["namespace"]});
    own["spec"]["selector"]["matchLabels"]
        .as_object_mut()
        .unwrap()
        .remove("machine.openshift.io/cluster-api-cluster");
    let created = serde_json::from_value(own.clone()).unwrap();
    sets().create(&PostParams::default(), &created).await.unwrap();

    let running = world.start_controllers("two").await.unwrap();
    world
        .wait_for_condition("Progressing=False/AllReplicasUpdated")
        .await
        .unwrap();
    let kept = serde_json::to_value(world.set().await.unwrap()).unwrap();
    assert_eq!(kept["spec"]["selector"], own["spec"]["selector"]);
    assert_eq!(world.machines().await.unwrap().len(), 3);
    running.controllers.stop().await;
    world.check_invariants().unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn the_generator_does_not_change_a_set_of_a_user() {
    let setup = Setup {
        state: "Inactive",
        ..Setup::default()
    };
    let world = World::new(setup).await.unwrap();
    let before = world.set().await.unwrap();
    let running = world.start_controllers("one").await.unwrap();
    world.wait_for_condition("Progressing=False/Inactive").await.unwrap();
    running.controllers.stop().await;
    let after = world.set().await.unwrap();
    assert_eq!(after.metadata.uid, before.metadata.uid);
    assert_eq!(after.spec, before.spec);
    assert_eq!(after.metadata.generation, before.metadata.generation);
    world.check_invariants().unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn machines_added_by_a_user_change_the_generated_template_but_not_its_replicas() {
    let setup = Setup {
        set: false,
        ..Setup::default()
    };
    let world = World::new(setup).await.unwrap();
    let running = world.start_controllers("one").await.unwrap();
    assert_eq!(generated(&world).await["spec"]["replicas"], 3);
    let pattern = serde_json::to_value(world.api("machines").get("prod-x7k2p-master-0").await.unwrap()).unwrap();
    for index in [3, 4] {
        let mut spec = pattern["spec"].clone();
        spec["providerSpec"]["value"]["instanceType"] = json!("m6i.8xlarge");
        let machine = json!({"apiVersion": "machine.openshift.io/v1beta1", "kind": "Machine", "spec": spec,
            "metadata": {"name": format!("prod-x7k2p-master-{index}"), "labels": pattern["metadata"]["labels"]}});
        let machine = serde_json::from_value(machine).unwrap();
        world
            .api("machines")
            .create(&PostParams::default(), &machine)
            .await
            .unwrap();
    }
    let set = world
        .wait_for("the template to be updated from the newest machine", async |world| {
            let set = serde_json::to_value(world.set().await?)?;
            let value = "/spec/template/machines_v1beta1_machine_openshift_io/spec/providerSpec/value/instanceType";
            Ok((set.pointer(value) == Some(&json!("m6i.8xlarge"))).then_some(set))
        })
        .await
        .unwrap();
    assert_eq!(set["spec"]["replicas"], 3, "replicas is immutable");
    // The invariants are not checked, because the user created two machines at once.
    running.controllers.stop().await;
}
