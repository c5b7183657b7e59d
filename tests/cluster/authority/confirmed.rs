//! Gaps that attackers and components of OpenShift showed on a real API server. Other gaps have
//! their tests beside related ones. `docs/defects.md` lists them all.

use serde_json::{Value, json};

use super::objects::{
    CLUSTER_API, FINALIZER, KINDS, MACHINE_API, PAUSED, aws_machine, aws_template, cluster_api, cluster_api_resource,
    machine_api, machine_api_resource, status,
};
use super::world::{CLUSTER_API_CONTROLLERS, COLLECTOR, MACHINE_API_CONTROLLERS, SYNC, USERS, World};

const CREATE: [&str; 4] = ["create", "--dry-run=server", "-f", "-"];

/// The arguments of a patch that is not stored.
fn patch<'a>(target: &[&'a str], patch: &'a str) -> Vec<&'a str> {
    [&["patch", "--dry-run=server", "--type=merge", "-p", patch], target].concat()
}

fn owner(kind: &str) -> Value {
    json!([{"apiVersion": "cluster.x-k8s.io/v1beta2", "kind": kind, "name": "nothing",
        "uid": "00000000-0000-0000-0000-00000000000a"}])
}

#[tokio::test]
async fn h1_a_mirror_with_an_invented_owner_is_refused_and_not_collected() {
    let world = World::whole().await;
    for kind in KINDS {
        let authoritative = machine_api(kind, "confirmed-owner", "MachineAPI");
        world.store(&authoritative).await;
        world.set_status(&authoritative, &status("MachineAPI")).await;
        let mut owned = cluster_api(kind, "confirmed-owner", true);
        owned["metadata"]["ownerReferences"] = owner("MachineSet");
        let mut held = cluster_api(kind, "confirmed-owner", true);
        held["metadata"]["finalizers"] = json!([FINALIZER]);
        for user in USERS {
            for (object, rule) in [
                (&owned, "authority-create-owner-references"),
                (&held, "authority-create-sync-finalizer"),
            ] {
                world.refuses(user, &CREATE, &object.to_string(), rule).await;
            }
        }
        world.store(&cluster_api(kind, "confirmed-owner", true)).await;
        let resource = cluster_api_resource(kind);
        let delete = [
            "delete",
            "-n",
            CLUSTER_API,
            &resource,
            "confirmed-owner",
            "--dry-run=server",
        ];
        world
            .refuses(COLLECTOR, &delete, "", "authority-garbage-collector")
            .await;
    }
}

#[tokio::test]
async fn h5_only_one_health_check_of_a_pair_is_active() {
    let world = World::whole().await;
    let kind = "MachineHealthCheck";
    world.store(&cluster_api(kind, "confirmed-check", false)).await;
    // The mutating pass adds the pause.
    let second = machine_api(kind, "confirmed-check", "ClusterAPI").to_string();
    for user in USERS {
        let create = [&CREATE[..], &["-o", "json"]].concat();
        let stored = world.allows(user, &create, &second).await.stdout;
        let stored: Value = serde_json::from_str(&stored).unwrap();
        assert_eq!(
            stored["metadata"]["annotations"][PAUSED],
            json!("sync.machine.openshift.io"),
            "{stored}"
        );
    }
    // In the opposite order.
    let active = machine_api(kind, "confirmed-active", "ClusterAPI");
    world.store(&active).await;
    let resource = machine_api_resource(kind);
    let unpause = json!({"metadata": {"annotations": {PAUSED: null}}}).to_string();
    let target = ["-n", MACHINE_API, &resource, "confirmed-active"];
    let unpause = ["patch", "--type=merge", "-p", &unpause];
    world.allows(SYNC, &[&unpause[..], &target[..]].concat(), "").await;
    let second = cluster_api(kind, "confirmed-active", false).to_string();
    for user in USERS {
        world
            .refuses(user, &CREATE, &second, "authority-capi-create-unpaused")
            .await;
    }
}

#[tokio::test]
async fn h6_h8_h9_finalizers_the_condition_paused_and_the_bare_metal_host_are_guarded() {
    let world = World::whole().await;
    // A merge patch replaces the list, and only the sync controller removes Synchronized.
    let mut conditions = status("MachineAPI")["conditions"].clone();
    conditions[0]["status"] = json!("True");
    let paused = json!({"status": {"conditions": conditions}}).to_string();
    let finalizers = json!({"metadata": {"finalizers": ["example.com/stays"]}}).to_string();
    let host = json!({"metadata": {"annotations": {"metal3.io/BareMetalHost": "openshift-machine-api/a"}}}).to_string();
    let resources = [machine_api_resource("Machine"), cluster_api_resource("Machine")];
    for (authority, name) in [
        ("MachineAPI", "confirmed-machine-api"),
        ("ClusterAPI", "confirmed-cluster-api"),
    ] {
        world.pair("Machine", name, authority).await;
        let machine_api = ["-n", MACHINE_API, &resources[0], name];
        let cluster_api = ["-n", CLUSTER_API, &resources[1], name];
        let (mirror, authoritative, prefix, forged, controllers) = if authority == "MachineAPI" {
            (
                cluster_api,
                machine_api,
                "authority-capi",
                "authority-status-forged",
                MACHINE_API_CONTROLLERS,
            )
        } else {
            (
                machine_api,
                cluster_api,
                "authority",
                "authority-capi-status-forged",
                CLUSTER_API_CONTROLLERS,
            )
        };
        let status = [&authoritative[..], &["--subresource=status"]].concat();
        for user in USERS {
            let rule = format!("{prefix}-finalizers");
            world.refuses(user, &patch(&mirror, &finalizers), "", &rule).await;
            let rule = format!("{prefix}-reserved-annotations");
            world.refuses(user, &patch(&mirror, &host), "", &rule).await;
            world.refuses(user, &patch(&status, &paused), "", forged).await;
        }
        world.allows(controllers, &patch(&status, &paused), "").await;
        world.allows("alice", &patch(&authoritative, &finalizers), "").await;
    }
}

#[tokio::test]
async fn h7_f10_infrastructure_follows_its_name_and_a_template_needs_no_pause() {
    let world = World::whole().await;
    for kind in ["Machine", "MachineSet"] {
        let authoritative = machine_api(kind, "confirmed-infrastructure", "MachineAPI");
        world.store(&authoritative).await;
        world.set_status(&authoritative, &status("MachineAPI")).await;
    }
    let mut machine = aws_machine("confirmed-infrastructure", false);
    machine["metadata"]["ownerReferences"] = owner("Machine");
    let mut template = aws_template("confirmed-infrastructure-1a2b3c4d", "any");
    template["metadata"]["labels"] = Value::Null;
    template["metadata"]["annotations"] = Value::Null;
    for user in USERS {
        for (object, rule) in [
            (&machine, "authority-capi-create-unpaused"),
            (&template, "authority-capi-create-template"),
        ] {
            world.refuses(user, &CREATE, &object.to_string(), rule).await;
        }
    }
    template["metadata"]["name"] = json!("confirmed-infrastructure-large");
    world.allows("alice", &CREATE, &template.to_string()).await;
}

#[tokio::test]
async fn f5_the_collector_deletes_the_machines_of_a_deleted_authoritative_set() {
    let world = World::whole().await;
    let machine_set = "machinesets.machine.openshift.io";
    world.pair("MachineSet", "confirmed-set", "MachineAPI").await;
    let owner = world.owner(MACHINE_API, machine_set, "confirmed-set").await;
    // The set has no finalizer, so it is gone before its machines.
    let mut machine = machine_api("Machine", "confirmed-of-set", "MachineAPI");
    machine["metadata"]["finalizers"] = json!(["example.com/stays"]);
    world.store(&machine).await;
    world.set_status(&machine, &status("MachineAPI")).await;
    world.store(&cluster_api("Machine", "confirmed-of-set", true)).await;
    let resource = machine_api_resource("Machine");
    let owned = json!({"metadata": {"ownerReferences": [owner]}}).to_string();
    let target = ["-n", MACHINE_API, &resource, "confirmed-of-set"];
    let owned = [&["patch", "--type=merge", "-p", &owned], &target[..]].concat();
    world.allows(SYNC, &owned, "").await;
    let delete = [
        "delete",
        "-n",
        MACHINE_API,
        machine_set,
        "confirmed-set",
        "--cascade=orphan",
    ];
    world.allows("alice", &delete, "").await;
    let owned = json!({"metadata": {"ownerReferences": [owner]}}).to_string();
    let owned = [&["patch", "--type=merge", "-p", &owned], &target[..]].concat();
    world.allows(SYNC, &owned, "").await;
    let collect = [&["delete", "--dry-run=server"], &target[..]].concat();
    world.allows(COLLECTOR, &collect, "").await;
}

#[tokio::test]
async fn f7_a_set_is_restored_from_what_get_printed() {
    let world = World::whole().await;
    for kind in KINDS {
        let set = machine_api(kind, "confirmed-restored", "MachineAPI");
        world.store(&set).await;
        world.set_status(&set, &status("MachineAPI")).await;
        let mut mirror = cluster_api(kind, "confirmed-restored", true);
        mirror["metadata"]["annotations"][PAUSED] = json!("sync.machine.openshift.io");
        world.store(&mirror).await;
        let resource = machine_api_resource(kind);
        let target = ["-n", MACHINE_API, &resource, "confirmed-restored"];
        let get = [&["get", "-o", "json"], &target[..]].concat();
        let text = world.run("admin", &get, "").await.checked().unwrap().stdout;
        let mut backup: Value = serde_json::from_str(&text).unwrap();
        assert_eq!(backup["status"]["authoritativeAPI"], "MachineAPI");
        world.allows("alice", &[&["delete"], &target[..]].concat(), "").await;
        backup["metadata"]["resourceVersion"] = Value::Null;
        world
            .warns(
                "alice",
                &CREATE,
                &backup.to_string(),
                "status.authoritativeAPI: dropped",
            )
            .await;
    }
}

#[tokio::test]
async fn f8_a_migration_is_cancelled_while_the_other_object_is_deleted_and_while_it_is_provisioned() {
    let world = World::whole().await;
    let resource = machine_api_resource("Machine");
    for name in ["confirmed-deleting", "confirmed-provisioning"] {
        let machine = machine_api("Machine", name, "ClusterAPI");
        world.store(&machine).await;
        let mut state = status("Migrating");
        if name == "confirmed-provisioning" {
            state["phase"] = json!("Provisioning");
        }
        world.set_status(&machine, &state).await;
        let mut other = cluster_api("Machine", name, true);
        other["metadata"]["finalizers"] = json!(["example.com/stays"]);
        world.store(&other).await;
        if name == "confirmed-deleting" {
            let delete = [
                "delete",
                "-n",
                CLUSTER_API,
                "machines.cluster.x-k8s.io",
                name,
                "--wait=false",
            ];
            world.allows("alice", &delete, "").await;
        }
        let cancel = json!({"spec": {"authoritativeAPI": "MachineAPI"}}).to_string();
        let target = ["-n", MACHINE_API, &resource, name];
        for user in USERS {
            world.allows(user, &patch(&target, &cancel), "").await;
        }
    }
}

/// A cluster that serves Cluster API in an older version only. Its objects are not absent, and the
/// objects of the Machine API that have no counterpart there can be created.
#[tokio::test]
async fn f11_a_kind_in_an_older_version_only_is_unknown_and_guarded() {
    let world = World::with_an_older_version_only().await;
    for kind in KINDS {
        let mut existing = cluster_api(kind, "confirmed-older", false);
        existing["apiVersion"] = json!("cluster.x-k8s.io/v1beta1");
        world.store(&existing).await;
        let second = machine_api(kind, "confirmed-older", "MachineAPI").to_string();
        for user in USERS {
            let refused = world
                .refuses(user, &CREATE, &second, "authority-create-beside-cluster-api")
                .await;
            assert!(!refused.stderr.contains("before Capstan has read"), "{refused}");
        }
        let alone = machine_api(kind, "confirmed-older-alone", "MachineAPI").to_string();
        world.allows("alice", &CREATE, &alone).await;
        let authoritative = machine_api(kind, "confirmed-mirrored", "ClusterAPI");
        world.store(&authoritative).await;
        world.set_status(&authoritative, &status("MachineAPI")).await;
        let mut unpaused = cluster_api(kind, "confirmed-mirrored", false);
        unpaused["apiVersion"] = json!("cluster.x-k8s.io/v1beta1");
        world
            .refuses(
                "alice",
                &CREATE,
                &unpaused.to_string(),
                "authority-capi-create-unpaused",
            )
            .await;
    }
}
