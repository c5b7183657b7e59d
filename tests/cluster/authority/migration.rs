//! A migration request is stored, and the response to the same call of `kubectl` has the warnings.

use serde_json::json;

use super::objects::{CLUSTER_API, MACHINE_API, aws_machine, machine_api, status};
use super::world::{SYNC, USERS, World};

const MACHINES: &str = "machines.machine.openshift.io";

fn request(name: &str, api: &str) -> Vec<String> {
    let patch = json!({"spec": {"authoritativeAPI": api}}).to_string();
    ["patch", "-n", MACHINE_API, MACHINES, name, "--type=merge", "-p", &patch]
        .map(str::to_owned)
        .to_vec()
}

#[tokio::test]
async fn a_machine_that_cannot_be_converted_gets_the_field_in_the_same_call() {
    let world = World::whole().await;
    for user in USERS {
        let name = format!("migrate-{user}");
        let mut object = machine_api("Machine", &name, "MachineAPI");
        object["spec"]["providerSpec"]["value"]["subnet"] = json!({"arn": "arn:aws:ec2:::subnet/subnet-1"});
        world.store(&object).await;
        world.set_status(&object, &status("MachineAPI")).await;
        // One call is enough, because the request contains the object.
        let arguments = request(&name, "ClusterAPI");
        let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
        let output = world.run(user, &arguments, "").await.checked().unwrap();
        let first = output.stderr.lines().next().unwrap_or_default();
        assert!(
            first.starts_with("Warning: cannot migrate: spec.providerSpec.value.subnet.arn: "),
            "{output}"
        );
        let get = [
            "get",
            "-n",
            MACHINE_API,
            MACHINES,
            &name,
            "-o",
            "jsonpath={.spec.authoritativeAPI}",
        ];
        let stored = world.run("admin", &get, "").await.checked().unwrap();
        assert_eq!(stored.stdout, "ClusterAPI");
    }
}

/// Cluster API sets the region in the infrastructure cluster.
#[tokio::test]
async fn a_machine_in_another_region_than_its_cluster_gets_the_expected_value() {
    let world = World::whole().await;
    world
        .store(
            &json!({"apiVersion": "infrastructure.cluster.x-k8s.io/v1beta2", "kind": "AWSCluster",
            "metadata": {"name": "prod", "namespace": CLUSTER_API}, "spec": {"region": "eu-west-1"}}),
        )
        .await;
    let mut object = machine_api("Machine", "migrate-region", "MachineAPI");
    object["spec"]["providerSpec"]["value"]["placement"] = json!({"region": "us-east-1"});
    world.store(&object).await;
    world.set_status(&object, &status("MachineAPI")).await;
    let mut arguments = request("migrate-region", "ClusterAPI");
    arguments.push("--dry-run=server".into());
    let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
    for user in [USERS[0], USERS[1], SYNC] {
        let text = "cannot migrate: spec.providerSpec.value.placement.region: it is \"us-east-1\", but spec.region of the AWSCluster is \"eu-west-1\"";
        world.warns(user, &arguments, "", text).await;
    }
}

/// More warnings than the API server passes on: blocking issues come first, each line fits into a
/// header, and all lines fit into the limit of the API server.
#[tokio::test]
async fn many_warnings_stay_within_the_limits_and_start_with_the_most_important() {
    let world = World::whole().await;
    let long = "x".repeat(200);
    for kind in ["Machine", "MachineSet"] {
        let mut object = machine_api(kind, "migrate-much", "MachineAPI");
        let spec = if kind == "Machine" {
            &mut object["spec"]
        } else {
            &mut object["spec"]["template"]["spec"]
        };
        spec["taints"] = json!([{"key": "a", "effect": "NoSchedule", "timeAdded": "2026-01-01T00:00:00Z"}]);
        let hooks: Vec<_> = (0..5)
            .map(|number| json!({"name": format!("example.com/{number}{long}"), "owner": "somebody"}))
            .collect();
        spec["lifecycleHooks"] = json!({"preDrain": hooks, "preTerminate": hooks});
        let value = &mut spec["providerSpec"]["value"];
        value["ami"] = json!({"arn": long});
        value["subnet"] = json!({"arn": long});
        for number in 0..20 {
            value[format!("fieldOfTomorrow{number}{long}")] = json!(1);
        }
        world.store(&object).await;
        let mut written_status = status("MachineAPI");
        written_status["conditions"][1] = json!({"type": "Synchronized", "status": "False", "reason": "FailedToConvert",
            "message": "long ".repeat(400)});
        world.set_status(&object, &written_status).await;
        let resource = format!("{}s.machine.openshift.io", kind.to_lowercase());
        let patch = r#"{"spec": {"authoritativeAPI": "ClusterAPI"}}"#;
        for user in [USERS[0], USERS[1], SYNC] {
            let arguments = [
                "patch",
                "-n",
                MACHINE_API,
                &resource,
                "migrate-much",
                "--type=merge",
                "-p",
                patch,
            ];
            let arguments = [&arguments[..], &["--dry-run=server"]].concat();
            // One call.
            let output = world.run(user, &arguments, "").await.checked().unwrap();
            let warnings: Vec<&str> = output
                .stderr
                .lines()
                .filter_map(|line| line.strip_prefix("Warning: "))
                .collect();
            assert!(warnings.len() > 5, "{output}");
            assert!(warnings.iter().all(|warning| warning.len() <= 256), "{output}");
            assert!(
                warnings.iter().map(|warning| warning.len()).sum::<usize>() <= 4096,
                "{output}"
            );
            assert!(warnings[0].starts_with("cannot migrate: spec."), "{output}");
            let place = |text: &str| {
                let found = warnings.iter().position(|warning| warning.contains(text));
                found.unwrap_or_else(|| panic!("{text}: {output}"))
            };
            let last_field = warnings
                .iter()
                .rposition(|warning| warning.starts_with("cannot migrate: "))
                .unwrap();
            // Many issues of one reason do not hide other fields.
            for field in [
                "preDrain[0].name",
                "value.ami",
                "value.subnet.arn",
                "value.fieldOfTomorrow",
            ] {
                assert!(place(field) <= last_field, "{output}");
            }
            assert!(last_field < place("will be lost: "), "{output}");
            assert!(
                place("will be lost: ") < place("Synchronized is False: FailedToConvert"),
                "{output}"
            );
        }
    }
}

#[tokio::test]
async fn a_migration_to_the_machine_api_names_fields_of_cluster_api_and_of_its_infrastructure() {
    let world = World::whole().await;
    world.pair("Machine", "migrate-back", "ClusterAPI").await;
    let mut infrastructure = aws_machine("migrate-back", false);
    infrastructure["spec"]["cloudInit"] = json!({"secretCount": 1});
    world.store(&infrastructure).await;
    let gates = json!({"spec": {"readinessGates": [{"conditionType": "Ready"}]}}).to_string();
    let patch = [
        "patch",
        "-n",
        CLUSTER_API,
        "machines.cluster.x-k8s.io",
        "migrate-back",
        "--type=merge",
        "-p",
        &gates,
    ];
    // While Cluster API is authoritative, such a field is allowed with a warning.
    world
        .warns(
            "alice",
            &patch,
            "",
            "spec.readinessGates: the Machine API has no readiness gates",
        )
        .await;
    let mut arguments = request("migrate-back", "MachineAPI");
    arguments.push("--dry-run=server".into());
    let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
    for user in [USERS[0], USERS[1], SYNC] {
        let output = world
            .warns(user, &arguments, "", "cannot migrate: spec.readinessGates")
            .await;
        assert!(output.stderr.contains("AWSMachine spec.cloudInit"), "{output}");
    }
}

#[tokio::test]
async fn a_condition_that_prevents_a_migration_is_repeated() {
    let world = World::whole().await;
    for kind in ["Machine", "MachineSet"] {
        world.pair(kind, "migrate-condition", "MachineAPI").await;
        let object = machine_api(kind, "migrate-condition", "MachineAPI");
        let broken = json!({"conditions": [
            {"type": "Synchronized", "status": "False", "reason": "FailedToConvert", "message": "no such thing"}]});
        world.set_status(&object, &broken).await;
        let resource = format!("{}s.machine.openshift.io", kind.to_lowercase());
        let patch = r#"{"spec": {"authoritativeAPI": "ClusterAPI"}}"#;
        let arguments = [
            "patch",
            "-n",
            MACHINE_API,
            &resource,
            "migrate-condition",
            "--type=merge",
            "-p",
            patch,
        ];
        let output = world
            .warns("alice", &arguments, "", "FailedToConvert: no such thing")
            .await;
        assert!(output.stderr.contains("Synchronized is False"), "{output}");
    }
}

#[tokio::test]
async fn a_machine_that_is_provisioning_or_deleting_does_not_migrate() {
    let world = World::whole().await;
    world.pair("Machine", "migrate-provisioning", "MachineAPI").await;
    let object = machine_api("Machine", "migrate-provisioning", "MachineAPI");
    world.set_status(&object, &json!({"phase": "Provisioning"})).await;
    let mut deleting = machine_api("Machine", "migrate-deleting", "MachineAPI");
    deleting["metadata"]["finalizers"] = json!(["example.com/stays"]);
    world.store(&deleting).await;
    let delete = [
        "delete",
        "-n",
        MACHINE_API,
        MACHINES,
        "migrate-deleting",
        "--wait=false",
    ];
    world.allows("admin", &delete, "").await;
    for (name, rule) in [
        ("migrate-provisioning", "authority-migration-while-provisioning"),
        ("migrate-deleting", "authority-migration-while-deleting"),
    ] {
        let arguments = request(name, "ClusterAPI");
        let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
        for user in [USERS[0], USERS[1], SYNC] {
            world.refuses(user, &arguments, "", rule).await;
        }
    }
}
