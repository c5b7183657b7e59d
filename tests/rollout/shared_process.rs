//! Webhooks and controllers in one process, as in a cluster. The webhooks judge the writes of the
//! controllers.

use std::path::Path;

use capstan_sandbox::installation::{Cluster, Server};
use serde_json::json;

use crate::world::{CONTROLLERS, Setup, World};

#[tokio::test(flavor = "multi_thread")]
async fn the_process_rolls_machines_under_its_own_webhooks_and_b2_a_foreground_deletion_is_refused() {
    let world = World::new(Setup::default()).await.unwrap();
    let kubeconfig = world
        .plane
        .kubeconfig_for(CONTROLLERS, &["system:serviceaccounts"])
        .unwrap();
    // The account of the controllers also gets the roles of the webhooks.
    let webhooks = include_str!("../../manifests/base/rbac.yaml");
    world.plane.apply_yaml(webhooks).await.unwrap();
    world.plane.grant(CONTROLLERS, "capstan-webhook").await.unwrap();
    let flags = [
        format!("--kubeconfig={}", kubeconfig.display()),
        "--controllers".to_owned(),
        "--min-ready=0s".to_owned(),
    ];
    let binary = Path::new(env!("CARGO_BIN_EXE_capstan"));
    let folder = world.plane.folder().join("capstan");
    std::fs::create_dir(&folder).unwrap();
    let mut server = Server::start(binary, &flags, "127.0.0.1", &folder).await.unwrap();
    let cluster = Cluster::of(&world.plane).unwrap();
    server.register(&cluster).await.unwrap();
    world
        .wait_for_condition("Progressing=False/AllReplicasUpdated")
        .await
        .unwrap();

    // The edit gets a warning. The writes of its rollout go through the same webhooks.
    let value = json!({"instanceType": "m6i.2xlarge"});
    let patch = json!({"spec": {"template": {"machines_v1beta1_machine_openshift_io": {"spec": {"providerSpec": {"value": value}}}}}});
    let set = [
        "controlplanemachineset.machine.openshift.io",
        "cluster",
        "-n",
        "openshift-machine-api",
    ];
    let mut edit = vec!["patch"];
    edit.extend(set);
    let patch = patch.to_string();
    edit.extend(["--type=merge", "-p", &patch]);
    let edited = cluster.run(&edit, "").await.unwrap().checked().unwrap();
    assert!(edited.stderr.contains("instanceType"), "{edited}");
    world.wait_for_rollout("m6i.2xlarge").await.unwrap();

    // A foreground deletion is refused, because the garbage collector deletes the machines before
    // the finalizer takes effect.
    let mut delete = vec!["delete", "--cascade=foreground"];
    delete.extend(set);
    let refused = cluster.run(&delete, "").await.unwrap();
    assert!(
        !refused.success() && refused.stderr.contains("cpms-foreground-deletion"),
        "{refused}"
    );
    let uid = world.set().await.unwrap().metadata.uid;
    let mut delete = vec!["delete", "--wait=false"];
    delete.extend(set);
    cluster.run(&delete, "").await.unwrap().checked().unwrap();
    world
        .wait_for(
            "another set, which the generator creates through the webhooks",
            async |world| {
                let set = world.api("controlplanemachinesets").get_opt("cluster").await?;
                Ok(set.filter(|set| set.metadata.uid != uid))
            },
        )
        .await
        .unwrap();
    assert!(world.is_rolled_out("m6i.2xlarge").await.unwrap());
    server.process().still_runs().unwrap();
    world.check_invariants().unwrap();
}
