//! Creation, beyond the rows of the enhancement's table.

use super::objects::{aws_machine, aws_template, machine_api, status};
use super::world::{SYNC, USERS, World};

const CREATE: [&str; 4] = ["create", "--dry-run=server", "-f", "-"];

#[tokio::test]
async fn infrastructure_of_a_mirror_must_be_created_paused() {
    let world = World::whole().await;
    for kind in ["Machine", "MachineSet"] {
        let object = machine_api(kind, "create-infrastructure", "MachineAPI");
        world.store(&object).await;
        world.set_status(&object, &status("MachineAPI")).await;
    }
    let mut template = aws_template("create-infrastructure-1a2b", "create-infrastructure");
    for user in USERS {
        let machine = aws_machine("create-infrastructure", false).to_string();
        world
            .refuses(user, &CREATE, &machine, "authority-capi-create-unpaused")
            .await;
        world
            .allows(user, &CREATE, &aws_machine("create-infrastructure", true).to_string())
            .await;
        world.allows(user, &CREATE, &template.to_string()).await;
    }
    // A template needs no pause, but the name that the sync controller would derive is reserved.
    template["metadata"]["annotations"] = serde_json::json!({});
    for user in USERS {
        world.allows(user, &CREATE, &template.to_string()).await;
    }
    template["metadata"]["name"] = serde_json::json!("create-infrastructure-1a2b3c4d");
    for user in USERS {
        world
            .refuses(user, &CREATE, &template.to_string(), "authority-capi-create-template")
            .await;
    }
    world.allows(SYNC, &CREATE, &template.to_string()).await;
}
