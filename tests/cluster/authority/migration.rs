//! A request for a migration is stored, and answered within the same call of `kubectl`.

use serde_json::json;

use super::objects::{CLUSTER_API, MACHINE_API, aws_machine, machine_api, status};
use super::world::{PEOPLE, SYNC, World};

const OURS: &str = "machines.machine.openshift.io";

fn ask(name: &str, api: &str) -> Vec<String> {
    let patch = json!({"spec": {"authoritativeAPI": api}}).to_string();
    ["patch", "-n", MACHINE_API, OURS, name, "--type=merge", "-p", &patch]
        .map(str::to_owned)
        .to_vec()
}

#[tokio::test]
async fn a_machine_that_cannot_be_converted_names_the_field_in_the_call_that_asks() {
    let world = World::whole().await;
    for user in PEOPLE {
        let name = format!("migrate-{user}");
        let mut ours = machine_api("Machine", &name, "MachineAPI");
        ours["spec"]["providerSpec"]["value"]["subnet"] = json!({"arn": "arn:aws:ec2:::subnet/subnet-1"});
        world.store(&ours).await;
        world.decide(&ours, &status("MachineAPI")).await;
        // One call: what it asks about is in the request itself.
        let arguments = ask(&name, "ClusterAPI");
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
            OURS,
            &name,
            "-o",
            "jsonpath={.spec.authoritativeAPI}",
        ];
        let stored = world.run("admin", &get, "").await.checked().unwrap();
        assert_eq!(stored.stdout, "ClusterAPI");
    }
}

/// In Cluster API the region is the cluster's.
#[tokio::test]
async fn a_machine_elsewhere_than_its_cluster_is_told_which_value_it_needs() {
    let world = World::whole().await;
    world
        .store(
            &json!({"apiVersion": "infrastructure.cluster.x-k8s.io/v1beta2", "kind": "AWSCluster",
            "metadata": {"name": "prod", "namespace": CLUSTER_API}, "spec": {"region": "eu-west-1"}}),
        )
        .await;
    let mut ours = machine_api("Machine", "migrate-region", "MachineAPI");
    ours["spec"]["providerSpec"]["value"]["placement"] = json!({"region": "us-east-1"});
    world.store(&ours).await;
    world.decide(&ours, &status("MachineAPI")).await;
    let mut arguments = ask("migrate-region", "ClusterAPI");
    arguments.push("--dry-run=server".into());
    let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
    for user in [PEOPLE[0], PEOPLE[1], SYNC] {
        let words = "cannot migrate: spec.providerSpec.value.placement.region: it is \"us-east-1\", and the AWSCluster says \"eu-west-1\"";
        world.warns(user, &arguments, "", words).await;
    }
}

/// More than fits: what blocks comes first, each line fits into a header, and all of them into what the API server hands on.
#[tokio::test]
async fn many_warnings_at_once_stay_within_the_limits_and_begin_with_what_matters_most() {
    let world = World::whole().await;
    let long = "x".repeat(200);
    for kind in ["Machine", "MachineSet"] {
        let mut ours = machine_api(kind, "migrate-much", "MachineAPI");
        let spec = if kind == "Machine" {
            &mut ours["spec"]
        } else {
            &mut ours["spec"]["template"]["spec"]
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
        world.store(&ours).await;
        let mut decided = status("MachineAPI");
        decided["conditions"][1] = json!({"type": "Synchronized", "status": "False", "reason": "FailedToConvert",
            "message": "long ".repeat(400)});
        world.decide(&ours, &decided).await;
        let resource = format!("{}s.machine.openshift.io", kind.to_lowercase());
        let patch = r#"{"spec": {"authoritativeAPI": "ClusterAPI"}}"#;
        for user in [PEOPLE[0], PEOPLE[1], SYNC] {
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
            let place = |words: &str| {
                let found = warnings.iter().position(|warning| warning.contains(words));
                found.unwrap_or_else(|| panic!("{words}: {output}"))
            };
            let last_field = warnings
                .iter()
                .rposition(|warning| warning.starts_with("cannot migrate: "))
                .unwrap();
            // One long list does not hide the other fields.
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
async fn the_way_back_names_the_field_of_cluster_api_and_of_its_infrastructure() {
    let world = World::whole().await;
    world.pair("Machine", "migrate-back", "ClusterAPI").await;
    let mut infrastructure = aws_machine("migrate-back", false);
    infrastructure["spec"]["cloudInit"] = json!({"secretCount": 1});
    world.store(&infrastructure).await;
    let gates = json!({"spec": {"readinessGates": [{"conditionType": "Ready"}]}}).to_string();
    let theirs = [
        "patch",
        "-n",
        CLUSTER_API,
        "machines.cluster.x-k8s.io",
        "migrate-back",
        "--type=merge",
        "-p",
        &gates,
    ];
    // Where Cluster API leads, what the Machine API lacks is allowed, and named.
    world
        .warns(
            "alice",
            &theirs,
            "",
            "spec.readinessGates: the Machine API has no readiness gates",
        )
        .await;
    let mut arguments = ask("migrate-back", "MachineAPI");
    arguments.push("--dry-run=server".into());
    let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
    for user in [PEOPLE[0], PEOPLE[1], SYNC] {
        let output = world
            .warns(user, &arguments, "", "cannot migrate: spec.readinessGates")
            .await;
        assert!(output.stderr.contains("AWSMachine spec.cloudInit"), "{output}");
    }
}

#[tokio::test]
async fn a_condition_that_stands_in_the_way_is_repeated() {
    let world = World::whole().await;
    for kind in ["Machine", "MachineSet"] {
        world.pair(kind, "migrate-condition", "MachineAPI").await;
        let ours = machine_api(kind, "migrate-condition", "MachineAPI");
        let broken = json!({"conditions": [
            {"type": "Synchronized", "status": "False", "reason": "FailedToConvert", "message": "no such thing"}]});
        world.decide(&ours, &broken).await;
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
async fn while_provisioning_or_deleting_nothing_migrates() {
    let world = World::whole().await;
    world.pair("Machine", "migrate-provisioning", "MachineAPI").await;
    let ours = machine_api("Machine", "migrate-provisioning", "MachineAPI");
    world.decide(&ours, &json!({"phase": "Provisioning"})).await;
    let mut going = machine_api("Machine", "migrate-deleting", "MachineAPI");
    going["metadata"]["finalizers"] = json!(["example.com/stays"]);
    world.store(&going).await;
    let delete = ["delete", "-n", MACHINE_API, OURS, "migrate-deleting", "--wait=false"];
    world.allows("admin", &delete, "").await;
    for (name, rule) in [
        ("migrate-provisioning", "authority-migration-while-provisioning"),
        ("migrate-deleting", "authority-migration-while-deleting"),
    ] {
        let arguments = ask(name, "ClusterAPI");
        let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
        for user in [PEOPLE[0], PEOPLE[1], SYNC] {
            world.refuses(user, &arguments, "", rule).await;
        }
    }
}
