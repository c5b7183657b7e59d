//! Creation, beyond the rows of the document's table.

use super::objects::{aws_machine, aws_template, machine_api, status};
use super::world::{PEOPLE, SYNC, World};

const CREATE: [&str; 4] = ["create", "--dry-run=server", "-f", "-"];

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
