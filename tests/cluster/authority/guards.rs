//! Guards on update, in both directions, by the webhook and by the policies before it: a plain user and the administrator are
//! refused, the sync controller is not.

use serde_json::{Value, json};

use super::objects::{
    CLUSTER_API, FINALIZER, KINDS, MACHINE_API, PAUSED, aws_machine, aws_template, cluster_api, cluster_api_resource,
    machine_api, machine_api_resource,
};
use super::world::{PEOPLE, SYNC, World};

/// Tries a merge patch as everybody; nothing is stored.
async fn guarded(world: &World, target: &[&str], patch: &Value, rule: &str) {
    let patch = patch.to_string();
    let arguments = [&["patch", "--dry-run=server", "--type=merge", "-p", &patch], target].concat();
    for user in PEOPLE {
        world.refuses(user, &arguments, "", rule).await;
    }
    world.allows(SYNC, &arguments, "").await;
}

async fn free(world: &World, target: &[&str], patch: &Value) {
    let patch = patch.to_string();
    let arguments = [&["patch", "--dry-run=server", "--type=merge", "-p", &patch], target].concat();
    for user in PEOPLE {
        world.allows(user, &arguments, "").await;
    }
}

/// The guards that hold of every copy, whichever API it is of.
async fn judge_copy(world: &World, target: &[&str], prefix: &str) {
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
    free(world, target, &meta("labels", json!({"example.com/mine": "x"}))).await;
    free(world, target, &meta("annotations", json!({"example.com/mine": "x"}))).await;
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
async fn a_copy_in_the_machine_api_changes_only_with_its_original() {
    for world in [World::whole().await, World::webhook_only().await] {
        for kind in KINDS {
            world.pair(kind, "guard-ours", "ClusterAPI").await;
            let resource = machine_api_resource(kind);
            let target = ["-n", MACHINE_API, &resource, "guard-ours"];
            judge_copy(world, &target, "authority").await;
            let conflict = json!({"metadata": {"labels": {"team": "red"}}});
            guarded(world, &target, &conflict, "authority-label-conflict").await;
            // Who should lead is its users' to say.
            if kind != "Machine" {
                free(world, &target, &json!({"spec": {"authoritativeAPI": "MachineAPI"}})).await;
            }
        }
        let scale = [
            "scale",
            "-n",
            MACHINE_API,
            "machinesets.machine.openshift.io",
            "guard-ours",
            "--replicas=7",
        ];
        if std::ptr::eq(world, World::webhook_only().await) {
            for user in PEOPLE {
                let output = world.refuses(user, &scale, "", "authority-spec-locked").await;
                assert!(output.stderr.contains("spec.replicas"), "{output}");
            }
        }
    }
}

#[tokio::test]
async fn a_copy_in_cluster_api_changes_only_with_its_original() {
    let world = World::whole().await;
    for kind in KINDS {
        world.pair(kind, "guard-theirs", "MachineAPI").await;
        let resource = cluster_api_resource(kind);
        let target = ["-n", CLUSTER_API, &resource, "guard-theirs"];
        judge_copy(world, &target, "authority-capi").await;
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
        "guard-theirs",
        "--replicas=7",
    ];
    for user in PEOPLE {
        world.refuses(user, &scale, "", "authority-capi-spec-locked").await;
    }
}

#[tokio::test]
async fn the_infrastructure_of_a_copy_changes_only_with_its_original() {
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
    judge_copy(world, &machine, "authority-capi").await;
    let template = "awsmachinetemplates.infrastructure.cluster.x-k8s.io";
    let template = ["-n", CLUSTER_API, template, "guard-infrastructure-1a2b"];
    judge_copy(world, &template, "authority-capi").await;
    // It follows the half that leads, also in its labels.
    let red = json!({"metadata": {"labels": {"team": "red"}}});
    guarded(world, &machine, &red, "authority-label-conflict").await;
    guarded(world, &template, &red, "authority-label-conflict").await;
    free(world, &machine, &json!({"metadata": {"labels": {"team": "blue"}}})).await;
}

/// Until the server has heard who leads, nobody is let through by luck, and nobody is kept from the last step of a deletion.
#[tokio::test]
async fn what_is_not_known_yet_is_not_guessed() {
    let world = World::that_knows_nothing().await;
    for kind in KINDS {
        let resource = cluster_api_resource(kind);
        let target = ["-n", CLUSTER_API, &resource, "guard-unknown"];
        let mut theirs = cluster_api(kind, "guard-unknown", true);
        theirs["metadata"]["finalizers"] = json!(["example.com/stays"]);
        world.store(&theirs).await;
        for patch in [
            json!({"spec": {"fieldOfTomorrow": 1}}),
            json!({"metadata": {"labels": {"team": "red"}}}),
            json!({"metadata": {"annotations": {PAUSED: null}}}),
        ] {
            guarded(world, &target, &patch, "authority-lead-known").await;
        }
        let create = ["create", "--dry-run=server", "-f", "-"];
        let unpaused = cluster_api(kind, "guard-unknown-2", false).to_string();
        let ours = machine_api(kind, "guard-unknown-2", "MachineAPI").to_string();
        for user in PEOPLE {
            world
                .refuses(user, &create, &unpaused, "authority-capi-create-unpaused")
                .await;
            world
                .refuses(user, &create, &ours, "authority-create-beside-cluster-api")
                .await;
        }
        let delete = [&["delete", "--dry-run=server"], &target[..]].concat();
        world.warns("alice", &delete, "", "it is not known whether").await;
        free(world, &target, &json!({"metadata": {"finalizers": null}})).await;
    }
}

#[tokio::test]
async fn what_leads_is_its_users_to_change_and_only_who_leads_is_not_theirs_to_say() {
    let world = World::whole().await;
    for kind in KINDS {
        world.pair(kind, "guard-free", "MachineAPI").await;
        world.pair(kind, "guard-free-capi", "ClusterAPI").await;
        let (ours, theirs) = (machine_api_resource(kind), cluster_api_resource(kind));
        let ours = ["-n", MACHINE_API, &ours, "guard-free"];
        let theirs = ["-n", CLUSTER_API, &theirs, "guard-free-capi"];
        for target in [&ours, &theirs] {
            free(world, target, &json!({"spec": {"fieldOfTomorrow": {"a": 1}}})).await;
            free(
                world,
                target,
                &json!({"metadata": {"labels": {"node-role.kubernetes.io/infra": ""}}}),
            )
            .await;
            free(world, target, &json!({"metadata": {"annotations": {PAUSED: "mine"}}})).await;
        }
        let prefix = |target: &[&str]| {
            if target[1] == MACHINE_API {
                "authority"
            } else {
                "authority-capi"
            }
        };
        for target in [&ours, &theirs] {
            let finalizer = json!({"metadata": {"finalizers": [FINALIZER]}});
            guarded(
                world,
                target,
                &finalizer,
                &format!("{}-sync-finalizer", prefix(&target[..])),
            )
            .await;
        }
        let status = [&ours[..], &["--subresource=status"]].concat();
        for forged in [
            json!({"authoritativeAPI": "Migrating"}),
            json!({"synchronizedAPI": "ClusterAPI"}),
            json!({"synchronizedGeneration": 9}),
            json!({"conditions": [{"type": "Synchronized", "status": "False"}]}),
        ] {
            guarded(world, &status, &json!({"status": forged}), "authority-status-forged").await;
        }
        let signed = json!({"metadata": {"annotations": {PAUSED: "sync.machine.openshift.io"}}});
        guarded(world, &theirs, &signed, "authority-capi-pause-signed").await;
    }
}

#[tokio::test]
async fn a_hand_over_locks_both_sides() {
    let world = World::whole().await;
    for kind in KINDS {
        world.pair(kind, "guard-migrating", "Migrating").await;
        let (ours, theirs) = (machine_api_resource(kind), cluster_api_resource(kind));
        let spec = json!({"spec": {"fieldOfTomorrow": {"a": 1}}});
        let ours = ["-n", MACHINE_API, &ours, "guard-migrating"];
        guarded(world, &ours, &spec, "authority-spec-locked").await;
        let theirs = ["-n", CLUSTER_API, &theirs, "guard-migrating"];
        guarded(world, &theirs, &spec, "authority-capi-spec-locked").await;
        // The request can be taken back.
        free(world, &ours, &json!({"spec": {"authoritativeAPI": "MachineAPI"}})).await;
    }
}

#[tokio::test]
async fn the_order_of_the_states_is_the_schemas() {
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
            !output.success() && output.stderr.contains("through Migrating"),
            "{output}"
        );
        write(json!({"synchronizedGeneration": 4})).await.checked().unwrap();
        let output = write(json!({"synchronizedGeneration": 3})).await;
        assert!(
            !output.success() && output.stderr.contains("never becomes smaller"),
            "{output}"
        );
        let output = write(json!({"authoritativeAPI": null})).await;
        assert!(
            !output.success() && output.stderr.contains("cannot be removed"),
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
