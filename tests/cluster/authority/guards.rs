//! Guards on update, in both directions, by the webhook and by the policies: a plain user and the
//! administrator are refused, the sync controller is not.

use serde_json::{Value, json};

use super::objects::{
    CLUSTER_API, FINALIZER, KINDS, MACHINE_API, PAUSED, aws_machine, aws_template, cluster_api, cluster_api_resource,
    machine_api, machine_api_resource,
};
use super::world::{AWS_CONTROLLERS, CLUSTER_API_CONTROLLERS, MACHINE_API_CONTROLLERS, SYNC, USERS, World};

/// Expects that a merge patch is refused for users and allowed for the sync controller (dry run).
async fn guarded(world: &World, target: &[&str], patch: &Value, rule: &str) {
    let patch = patch.to_string();
    let arguments = [&["patch", "--dry-run=server", "--type=merge", "-p", &patch], target].concat();
    for user in USERS {
        world.refuses(user, &arguments, "", rule).await;
    }
    world.allows(SYNC, &arguments, "").await;
}

/// Expects that a merge patch is allowed for users (dry run).
async fn allowed(world: &World, target: &[&str], patch: &Value) {
    let patch = patch.to_string();
    let arguments = [&["patch", "--dry-run=server", "--type=merge", "-p", &patch], target].concat();
    for user in USERS {
        world.allows(user, &arguments, "").await;
    }
}

/// The guards of every mirror, in either API.
async fn mirror_is_guarded(world: &World, target: &[&str], prefix: &str) {
    let rule = |name: &str| format!("{prefix}-{name}");
    let meta = |field: &str, value: Value| json!({"metadata": {field: value}});
    guarded(
        world,
        target,
        &json!({"spec": {"fieldOfTomorrow": {"a": 1}}}),
        &rule("spec-locked"),
    )
    .await;
    for key in [
        "machine.openshift.io/zone",
        "node-role.kubernetes.io/infra",
        "topology.kubernetes.io/zone",
    ] {
        guarded(
            world,
            target,
            &meta("labels", json!({key: "x"})),
            &rule("reserved-labels"),
        )
        .await;
    }
    guarded(
        world,
        target,
        &meta("annotations", json!({"machine.openshift.io/delete-machine": "x"})),
        &rule("reserved-annotations"),
    )
    .await;
    allowed(world, target, &meta("labels", json!({"example.com/mine": "x"}))).await;
    allowed(world, target, &meta("annotations", json!({"example.com/mine": "x"}))).await;
    let owner =
        json!([{"apiVersion": "v1", "kind": "ConfigMap", "name": "a", "uid": "00000000-0000-0000-0000-000000000009"}]);
    guarded(
        world,
        target,
        &meta("ownerReferences", owner),
        &rule("owner-references"),
    )
    .await;
    guarded(
        world,
        target,
        &meta("finalizers", json!([FINALIZER])),
        &rule("sync-finalizer"),
    )
    .await;
    let status = [target, &["--subresource=status"]].concat();
    guarded(
        world,
        &status,
        &json!({"status": {"phase": "Failed"}}),
        &rule("status-locked"),
    )
    .await;
}

#[tokio::test]
async fn a_mirror_in_the_machine_api_is_guarded() {
    for world in [World::whole().await, World::webhook_only().await] {
        for kind in KINDS {
            world.pair(kind, "guard-machine-api", "ClusterAPI").await;
            let resource = machine_api_resource(kind);
            let target = ["-n", MACHINE_API, &resource, "guard-machine-api"];
            mirror_is_guarded(world, &target, "authority").await;
            let conflict = json!({"metadata": {"labels": {"team": "red"}}});
            guarded(world, &target, &conflict, "authority-label-conflict").await;
            // Users may request a migration.
            if kind != "Machine" {
                allowed(world, &target, &json!({"spec": {"authoritativeAPI": "MachineAPI"}})).await;
            }
        }
        let scale = [
            "scale",
            "-n",
            MACHINE_API,
            "machinesets.machine.openshift.io",
            "guard-machine-api",
            "--replicas=7",
        ];
        if std::ptr::eq(world, World::webhook_only().await) {
            for user in USERS {
                let output = world.refuses(user, &scale, "", "authority-spec-locked").await;
                assert!(output.stderr.contains("spec.replicas"), "{output}");
            }
        }
    }
}

#[tokio::test]
async fn a_mirror_in_cluster_api_is_guarded() {
    let world = World::whole().await;
    for kind in KINDS {
        world.pair(kind, "guard-cluster-api", "MachineAPI").await;
        let resource = cluster_api_resource(kind);
        let target = ["-n", CLUSTER_API, &resource, "guard-cluster-api"];
        mirror_is_guarded(world, &target, "authority-capi").await;
        let conflict = json!({"metadata": {"labels": {"team": "red"}}});
        guarded(world, &target, &conflict, "authority-label-conflict").await;
        let unpause = json!({"metadata": {"annotations": {PAUSED: null}}});
        guarded(world, &target, &unpause, "authority-capi-reserved-annotations").await;
    }
    let scale = [
        "scale",
        "-n",
        CLUSTER_API,
        "machinesets.cluster.x-k8s.io",
        "guard-cluster-api",
        "--replicas=7",
    ];
    for user in USERS {
        world.refuses(user, &scale, "", "authority-capi-spec-locked").await;
    }
}

#[tokio::test]
async fn the_infrastructure_of_a_mirror_is_guarded() {
    let world = World::whole().await;
    world.pair("Machine", "guard-infrastructure", "MachineAPI").await;
    world.pair("MachineSet", "guard-infrastructure", "MachineAPI").await;
    world.store(&aws_machine("guard-infrastructure", true)).await;
    world
        .store(&aws_template("guard-infrastructure-1a2b", "guard-infrastructure"))
        .await;
    let machine = [
        "-n",
        CLUSTER_API,
        "awsmachines.infrastructure.cluster.x-k8s.io",
        "guard-infrastructure",
    ];
    mirror_is_guarded(world, &machine, "authority-capi").await;
    let template = "awsmachinetemplates.infrastructure.cluster.x-k8s.io";
    let template = ["-n", CLUSTER_API, template, "guard-infrastructure-1a2b"];
    mirror_is_guarded(world, &template, "authority-capi").await;
    // The labels of the infrastructure must equal those of the authoritative object, too.
    let red = json!({"metadata": {"labels": {"team": "red"}}});
    guarded(world, &machine, &red, "authority-label-conflict").await;
    guarded(world, &template, &red, "authority-label-conflict").await;
    allowed(world, &machine, &json!({"metadata": {"labels": {"team": "blue"}}})).await;
}

/// Before the server has read which API is authoritative, edits are refused, except the removal of
/// finalizers.
#[tokio::test]
async fn edits_are_refused_before_the_authority_was_read() {
    let world = World::with_empty_caches().await;
    for kind in KINDS {
        let resource = cluster_api_resource(kind);
        let target = ["-n", CLUSTER_API, &resource, "guard-unknown"];
        let mut cluster_api_object = cluster_api(kind, "guard-unknown", true);
        cluster_api_object["metadata"]["finalizers"] = json!(["example.com/stays"]);
        world.store(&cluster_api_object).await;
        for patch in [
            json!({"spec": {"fieldOfTomorrow": 1}}),
            json!({"metadata": {"labels": {"team": "red"}}}),
            json!({"metadata": {"annotations": {PAUSED: null}}}),
        ] {
            guarded(world, &target, &patch, "authority-lead-known").await;
        }
        let create = ["create", "--dry-run=server", "-f", "-"];
        let unpaused = cluster_api(kind, "guard-unknown-2", false).to_string();
        let machine_api_object = machine_api(kind, "guard-unknown-2", "MachineAPI").to_string();
        for user in USERS {
            world
                .refuses(user, &create, &unpaused, "authority-capi-create-unpaused")
                .await;
            world
                .refuses(
                    user,
                    &create,
                    &machine_api_object,
                    "authority-create-beside-cluster-api",
                )
                .await;
        }
        let delete = [&["delete", "--dry-run=server"], &target[..]].concat();
        world.warns("alice", &delete, "", "it is not known whether").await;
        // A finalizer may protect the instance of the authoritative object.
        let removed = json!({"metadata": {"finalizers": null}});
        guarded(world, &target, &removed, "authority-lead-known").await;
        // The finalizers of an object that is being deleted can be removed.
        let delete = [&["delete", "--wait=false"], &target[..]].concat();
        world.allows("alice", &delete, "").await;
        allowed(world, &target, &json!({"metadata": {"finalizers": null}})).await;
    }
}

#[tokio::test]
async fn users_change_the_authoritative_object_but_not_the_authority_in_its_status() {
    let world = World::whole().await;
    for kind in KINDS {
        world.pair(kind, "guard-free", "MachineAPI").await;
        world.pair(kind, "guard-free-capi", "ClusterAPI").await;
        let (machine_api_object, cluster_api_object) = (machine_api_resource(kind), cluster_api_resource(kind));
        let machine_api_object = ["-n", MACHINE_API, &machine_api_object, "guard-free"];
        let cluster_api_object = ["-n", CLUSTER_API, &cluster_api_object, "guard-free-capi"];
        for target in [&machine_api_object, &cluster_api_object] {
            allowed(world, target, &json!({"spec": {"fieldOfTomorrow": {"a": 1}}})).await;
            allowed(
                world,
                target,
                &json!({"metadata": {"labels": {"node-role.kubernetes.io/infra": ""}}}),
            )
            .await;
            allowed(world, target, &json!({"metadata": {"annotations": {PAUSED: "mine"}}})).await;
        }
        let prefix = |target: &[&str]| {
            if target[1] == MACHINE_API {
                "authority"
            } else {
                "authority-capi"
            }
        };
        for target in [&machine_api_object, &cluster_api_object] {
            let finalizer = json!({"metadata": {"finalizers": [FINALIZER]}});
            guarded(
                world,
                target,
                &finalizer,
                &format!("{}-sync-finalizer", prefix(&target[..])),
            )
            .await;
        }
        let status = [&machine_api_object[..], &["--subresource=status"]].concat();
        for forged in [
            json!({"authoritativeAPI": "Migrating"}),
            json!({"synchronizedAPI": "ClusterAPI"}),
            json!({"synchronizedGeneration": 9}),
            json!({"conditions": [{"type": "Synchronized", "status": "False"}]}),
        ] {
            guarded(world, &status, &json!({"status": forged}), "authority-status-forged").await;
        }
        let signed = json!({"metadata": {"annotations": {PAUSED: "sync.machine.openshift.io"}}});
        guarded(world, &cluster_api_object, &signed, "authority-capi-pause-signed").await;
    }
}

#[tokio::test]
async fn a_migration_locks_both_objects() {
    let world = World::whole().await;
    for kind in KINDS {
        world.pair(kind, "guard-migrating", "Migrating").await;
        let (machine_api_object, cluster_api_object) = (machine_api_resource(kind), cluster_api_resource(kind));
        let spec = json!({"spec": {"fieldOfTomorrow": {"a": 1}}});
        let machine_api_object = ["-n", MACHINE_API, &machine_api_object, "guard-migrating"];
        guarded(world, &machine_api_object, &spec, "authority-spec-locked").await;
        let cluster_api_object = ["-n", CLUSTER_API, &cluster_api_object, "guard-migrating"];
        guarded(world, &cluster_api_object, &spec, "authority-capi-spec-locked").await;
        // The migration can be cancelled.
        allowed(
            world,
            &machine_api_object,
            &json!({"spec": {"authoritativeAPI": "MachineAPI"}}),
        )
        .await;
    }
}

#[tokio::test]
async fn the_schema_enforces_the_order_of_the_states() {
    let world = World::whole().await;
    for kind in KINDS {
        world.pair(kind, "guard-states", "MachineAPI").await;
        let resource = machine_api_resource(kind);
        let target = ["-n", MACHINE_API, &resource, "guard-states"];
        let write = async |status: Value| {
            let patch = json!({"status": status}).to_string();
            let arguments = [
                &["patch", "--subresource=status", "--type=merge", "-p", &patch],
                &target[..],
            ]
            .concat();
            world.run(SYNC, &arguments, "").await
        };
        let output = write(json!({"authoritativeAPI": "ClusterAPI"})).await;
        assert!(
            !output.success() && output.stderr.contains("must be Migrating between"),
            "{output}"
        );
        write(json!({"synchronizedGeneration": 4})).await.checked().unwrap();
        let output = write(json!({"synchronizedGeneration": 3})).await;
        assert!(
            !output.success() && output.stderr.contains("must not decrease synchronizedGeneration"),
            "{output}"
        );
        let output = write(json!({"authoritativeAPI": null})).await;
        assert!(
            !output.success() && output.stderr.contains("must keep status.authoritativeAPI"),
            "{output}"
        );
        let migrating = json!({"authoritativeAPI": "Migrating", "synchronizedAPI": "MachineAPI"});
        write(migrating).await.checked().unwrap();
        let done = json!({"authoritativeAPI": "ClusterAPI", "synchronizedGeneration": 0});
        write(done).await.checked().unwrap();
        let columns = world
            .run("alice", &[&["get"], &target[..]].concat(), "")
            .await
            .checked()
            .unwrap()
            .stdout;
        let mut lines = columns.lines();
        assert!(
            lines.next().unwrap().contains("AUTHORITY") && columns.contains("SYNCED"),
            "{columns}"
        );
        assert!(lines.next().unwrap().contains("ClusterAPI"), "{columns}");
    }
}

/// The webhook does not review other requests of these controllers.
#[tokio::test]
async fn h10_controllers_cannot_scale_a_mirror() {
    let world = World::whole().await;
    for (name, authority, namespace, resource, rule) in [
        (
            "guard-scale-machine-api",
            "ClusterAPI",
            MACHINE_API,
            machine_api_resource("MachineSet"),
            "authority-spec-locked",
        ),
        (
            "guard-scale-cluster-api",
            "MachineAPI",
            CLUSTER_API,
            cluster_api_resource("MachineSet"),
            "authority-capi-spec-locked",
        ),
    ] {
        world.pair("MachineSet", name, authority).await;
        let scale = ["scale", "-n", namespace, &resource, name, "--replicas=7"];
        let controllers = if namespace == MACHINE_API {
            &[MACHINE_API_CONTROLLERS][..]
        } else {
            &[CLUSTER_API_CONTROLLERS, AWS_CONTROLLERS]
        };
        for user in controllers {
            world.refuses(user, &scale, "", rule).await;
        }
    }
}
