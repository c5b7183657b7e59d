//! The rows of the document's table for creation.

use super::objects::{KINDS, aws_machine, aws_template, cluster_api, machine_api, status};
use super::world::{PEOPLE, SYNC, World};

const CREATE: [&str; 4] = ["create", "--dry-run=server", "-f", "-"];
const AS_YAML: [&str; 6] = ["create", "--dry-run=server", "-o", "yaml", "-f", "-"];

#[tokio::test]
async fn the_machine_api_half_is_created_by_the_table() {
    let world = World::whole().await;
    for kind in KINDS {
        world.store(&cluster_api(kind, "create-mirrored", false)).await;
        for user in [PEOPLE[0], PEOPLE[1], SYNC] {
            let of = |name: &str, authority: &str| machine_api(kind, name, authority).to_string();
            // MachineAPI, no mirror; MachineAPI, mirror.
            world.allows(user, &CREATE, &of("create-alone", "MachineAPI")).await;
            let refused = of("create-mirrored", "MachineAPI");
            let output = world
                .refuses(user, &CREATE, &refused, "authority-create-beside-cluster-api")
                .await;
            assert!(
                output.stderr.contains("spec.authoritativeAPI: Invalid value"),
                "{output}"
            );
            // ClusterAPI, mirror; ClusterAPI, no mirror.
            world.allows(user, &CREATE, &of("create-mirrored", "ClusterAPI")).await;
            world.allows(user, &CREATE, &of("create-alone", "ClusterAPI")).await;
            // Nothing said, mirror; nothing said, no mirror.
            for (name, filled) in [("create-mirrored", "ClusterAPI"), ("create-alone", "MachineAPI")] {
                let output = world.allows(user, &AS_YAML, &of(name, "")).await;
                let line = format!("\n  authoritativeAPI: {filled}\n");
                assert!(output.stdout.contains(&line), "{user} {kind} {name}: {output}");
            }
        }
    }
}

#[tokio::test]
async fn the_cluster_api_half_is_created_by_the_table() {
    let world = World::whole().await;
    for kind in KINDS {
        for (name, authority) in [("create-led", "MachineAPI"), ("create-handed", "ClusterAPI")] {
            let ours = machine_api(kind, name, authority);
            world.store(&ours).await;
            world.decide(&ours, &status(authority)).await;
        }
        for user in PEOPLE {
            let of = |name: &str, paused: bool| cluster_api(kind, name, paused).to_string();
            world.allows(user, &CREATE, &of("create-capi-alone", false)).await;
            world.allows(user, &CREATE, &of("create-led", true)).await;
            let unpaused = of("create-led", false);
            world
                .refuses(user, &CREATE, &unpaused, "authority-capi-create-unpaused")
                .await;
            world.allows(user, &CREATE, &of("create-handed", false)).await;
        }
        world
            .allows(SYNC, &CREATE, &cluster_api(kind, "create-led", false).to_string())
            .await;
    }
}

#[tokio::test]
async fn infrastructure_beside_a_leading_machine_api_half_is_created_paused() {
    let world = World::whole().await;
    for kind in ["Machine", "MachineSet"] {
        let ours = machine_api(kind, "create-infrastructure", "MachineAPI");
        world.store(&ours).await;
        world.decide(&ours, &status("MachineAPI")).await;
    }
    let mut template = aws_template("create-infrastructure-1a2b", "create-infrastructure");
    for user in PEOPLE {
        let machine = aws_machine("create-infrastructure", false).to_string();
        world
            .refuses(user, &CREATE, &machine, "authority-capi-create-unpaused")
            .await;
        world
            .allows(user, &CREATE, &aws_machine("create-infrastructure", true).to_string())
            .await;
        world.allows(user, &CREATE, &template.to_string()).await;
    }
    template["metadata"]["annotations"] = serde_json::json!({});
    for user in PEOPLE {
        world
            .refuses(user, &CREATE, &template.to_string(), "authority-capi-create-unpaused")
            .await;
    }
    world.allows(SYNC, &CREATE, &template.to_string()).await;
}

#[tokio::test]
async fn a_status_that_says_who_leads_is_refused_at_creation_and_dropped_for_the_sync_controller() {
    let world = World::whole().await;
    for kind in KINDS {
        let mut forged = machine_api(kind, "create-forged", "MachineAPI");
        forged["status"] = serde_json::json!({"authoritativeAPI": "ClusterAPI", "synchronizedGeneration": 7});
        for user in PEOPLE {
            let output = world
                .refuses(user, &CREATE, &forged.to_string(), "authority-status-at-creation")
                .await;
            assert!(output.stderr.contains("status.synchronizedGeneration"), "{output}");
        }
        let output = world.allows(SYNC, &AS_YAML, &forged.to_string()).await;
        assert!(!output.stdout.contains("synchronizedGeneration"), "{output}");
    }
}
