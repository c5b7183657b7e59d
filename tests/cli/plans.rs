//! `capstan plan` and `capstan generate` with files.

use serde_json::{Value, json};

use super::{Folder, MACHINE, capstan, machine, path, set, stderr, stdout};

pub(super) fn world(change: impl FnOnce(&mut Value)) -> String {
    let mut set = set();
    set["metadata"]["uid"] = json!("set-uid");
    set["metadata"]["finalizers"] = json!(["controlplanemachineset.machine.openshift.io"]);
    change(&mut set);
    let mut objects = vec![set];
    for (index, zone) in ["a", "b", "c"].iter().enumerate() {
        let mut machine = machine(index, zone);
        machine["metadata"]["uid"] = json!(format!("uid-{index}"));
        machine["metadata"]["resourceVersion"] = json!("1");
        machine["metadata"]["ownerReferences"] = json!([{
            "apiVersion": "machine.openshift.io/v1", "kind": "ControlPlaneMachineSet", "name": "cluster", "uid": "set-uid",
            "controller": true, "blockOwnerDeletion": true,
        }]);
        machine["status"] = json!({"phase": "Running", "nodeRef": {"name": format!("node-{index}")}});
        objects.push(machine);
        objects.push(json!({
            "apiVersion": "v1",
            "kind": "Node",
            "metadata": {"name": format!("node-{index}"), "labels": {"node-role.kubernetes.io/master": ""}},
            "status": {"conditions": [{"type": "Ready", "status": "True", "lastTransitionTime": "2026-01-01T00:00:00Z"}]},
        }));
    }
    let texts: Vec<String> = objects.iter().map(Value::to_string).collect();
    texts.join("\n---\n")
}

fn planned(input: &str) -> Value {
    let output = capstan(
        &["plan", "-f", "-", "--now", "2026-01-01T01:00:00Z", "-o", "json"],
        input,
    );
    assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
    serde_json::from_str(&stdout(&output)).unwrap()
}

#[test]
fn a_plan_contains_the_next_step_and_the_whole_rollout() {
    let value = format!("/spec/template/{MACHINE}/spec/providerSpec/value/machineType");
    let plan = planned(&world(|set| *set.pointer_mut(&value).unwrap() = json!("n2-standard-8")));
    assert_eq!(
        plan.as_object().unwrap().keys().map(String::as_str).collect::<Vec<_>>(),
        [
            "changes",
            "degraded",
            "next",
            "placement",
            "revision",
            "rollout",
            "set",
            "waits"
        ]
    );
    assert_eq!(
        plan["changes"],
        json!([{"field": "machineType", "old": "n2-standard-4", "new": "n2-standard-8"}])
    );
    let next = &plan["next"][0];
    assert_eq!(
        (&next["action"], &next["index"], &next["failureDomain"]),
        (&json!("create"), &json!(0), &json!({"zone": "a"}))
    );
    let rollout: Vec<(&str, i64)> = plan["rollout"]
        .as_array()
        .unwrap()
        .iter()
        .map(|step| (step["action"].as_str().unwrap(), step["index"].as_i64().unwrap()))
        .collect();
    assert_eq!(
        rollout,
        [
            ("create", 0),
            ("delete", 0),
            ("create", 1),
            ("delete", 1),
            ("create", 2),
            ("delete", 2)
        ]
    );
    assert_eq!(
        plan["placement"][1]["machines"],
        json!([{"name": "prod-x7k2p-master-1", "ready": true, "current": false, "deleting": false}])
    );
}

#[test]
fn a_set_whose_machines_match_has_an_empty_plan() {
    let plan = planned(&world(|_| {}));
    for part in ["changes", "next", "waits", "rollout", "degraded"] {
        assert_eq!(plan[part], json!([]), "{part}");
    }
    let page = stdout(&capstan(&["plan", "-f", "-"], &world(|_| {})));
    assert!(page.contains("Nothing to do"), "{page}");
}

#[test]
fn an_invalid_set_has_no_steps_and_a_reason() {
    let plan = planned(&world(|set| set["spec"]["replicas"] = json!(4)));
    assert_eq!(
        (&plan["next"], &plan["degraded"][0]["reason"]),
        (&json!([]), &json!("InvalidSpec"))
    );
}

#[test]
fn objects_that_cannot_be_parsed_are_reported_in_the_plan() {
    let text = world(|_| {});
    let (set, rest) = text.split_once("\n---\n").unwrap();
    let broken = format!("{set}\n---\n{}", rest.replacen("\"spec\":{", "\"spec\":7,\"was\":{", 1));
    let plan = planned(&broken);
    let reason = &plan["degraded"][0];
    assert_eq!(
        (&reason["reason"], &plan["next"]),
        (&json!("UnparsableObjects"), &json!([]))
    );
    assert!(
        reason["message"]
            .as_str()
            .unwrap()
            .contains("Machine prod-x7k2p-master-0")
    );
    let plan = planned(&world(|set| set["spec"] = json!("nonsense")));
    assert_eq!(
        (&plan["set"], &plan["degraded"][0]["reason"], &plan["revision"]),
        (&json!("cluster"), &json!("UnparsableObjects"), &Value::Null)
    );
    let node = json!({"apiVersion": "v1", "kind": "Node", "metadata": {"name": "n"}, "status": "nonsense"});
    let output = capstan(&["plan", "-f", "-"], &format!("{}\n---\n{node}", world(|_| {})));
    assert_eq!(output.status.code(), Some(2));
    assert!(stderr(&output).contains("-: document at line "), "{}", stderr(&output));
}

#[test]
fn machines_of_other_namespaces_and_conditions_without_times_are_accepted() {
    let mut other = machine(7, "a");
    other["metadata"]["namespace"] = json!("elsewhere");
    let etcd = json!({"apiVersion": "config.openshift.io/v1", "kind": "ClusterOperator", "metadata": {"name": "etcd"},
        "status": {"conditions": [{"type": "Available", "status": "True"}, {"type": "Degraded", "status": "False"}]}});
    let plan = planned(&format!("{}\n---\n{other}\n---\n{etcd}", world(|_| {})));
    assert_eq!(plan["degraded"], json!([]));
    assert_eq!(plan["placement"].as_array().unwrap().len(), 3);
}

#[test]
fn an_inactive_set_has_no_steps_and_shows_the_steps_after_activation() {
    let value = format!("/spec/template/{MACHINE}/spec/providerSpec/value/machineType");
    let input = world(|set| {
        *set.pointer_mut(&value).unwrap() = json!("n2-standard-8");
        set["spec"]["state"] = json!("Inactive");
    });
    let plan = planned(&input);
    for part in ["next", "waits", "rollout", "degraded"] {
        assert_eq!(plan[part], json!([]), "{part}");
    }
    let activation: Vec<&str> = plan["activation"]
        .as_array()
        .unwrap()
        .iter()
        .map(|step| step["action"].as_str().unwrap())
        .collect();
    let disruptive: Vec<&str> = activation.into_iter().filter(|action| *action != "patch").collect();
    assert_eq!(disruptive, ["create", "delete", "create", "delete", "create", "delete"]);
    let page = stdout(&capstan(&["plan", "-f", "-", "--now", "2026-01-01T01:00:00Z"], &input));
    assert!(
        page.contains("The set is Inactive. After activation, the controller would\n  1. "),
        "{page}"
    );
    assert!(
        !page.contains("\nRollout\n") && !page.contains("Nothing to do"),
        "{page}"
    );
    let matching = world(|set| set["spec"]["state"] = json!("Inactive"));
    let page = stdout(&capstan(
        &["plan", "-f", "-", "--now", "2026-01-01T01:00:00Z"],
        &matching,
    ));
    assert!(page.contains("Nothing to do: the set is Inactive"), "{page}");
}

#[test]
fn w212_a_time_that_cannot_be_read_is_refused_with_an_example() {
    for command in ["plan", "status"] {
        let output = capstan(&[command, "-f", "-", "--now", "soon"], "");
        assert_eq!(output.status.code(), Some(2));
        let message = stderr(&output);
        assert!(
            message.contains("in RFC 3339, such as 2026-01-31T12:00:00Z"),
            "{message}"
        );
    }
}

#[test]
fn the_plan_of_a_set_that_is_being_deleted_contains_every_patch() {
    let input = world(|set| {
        set["metadata"]["deletionTimestamp"] = json!("2026-01-01T00:59:00Z");
        set["metadata"]["finalizers"] = json!(["controlplanemachineset.machine.openshift.io"]);
        set["metadata"]["uid"] = json!("set-uid-2");
    });
    let plan = planned(&input);
    // The machines name a set with another UID, as after a restore. Those references are removed
    // first.
    let machine = |index: usize| {
        let name = format!("prod-x7k2p-master-{index}");
        json!({"action": "patch", "index": index, "machine": name, "failureDomain": null,
            "because": format!("machine {name} must not be collected with the set")})
    };
    let mut patches: Vec<Value> = (0..3).map(machine).collect();
    assert_eq!(plan["next"], json!(patches));
    patches.push(
        json!({"action": "patch", "index": null, "machine": null, "failureDomain": null,
        "because": "no machine names the set as its owner"}),
    );
    assert_eq!(plan["rollout"], json!(patches));
    let page = stdout(&capstan(&["plan", "-f", "-"], &input));
    assert!(page.contains("patch the set: no machine names the set"), "{page}");
    let without_finalizer = world(|set| {
        set["metadata"]["deletionTimestamp"] = json!("2026-01-01T00:59:00Z");
        set["metadata"]["finalizers"] = json!(["other/finalizer"]);
        set["metadata"]["uid"] = json!("set-uid-2");
    });
    let without_owners = without_finalizer.split("\n---\n").map(|text| {
        let mut object: Value = serde_json::from_str(text).unwrap();
        object["metadata"].as_object_mut().unwrap().remove("ownerReferences");
        object.to_string()
    });
    let without_owners = without_owners.collect::<Vec<_>>().join("\n---\n");
    let page = stdout(&capstan(&["plan", "-f", "-"], &without_owners));
    assert!(page.contains("Nothing to do: the set is being deleted"), "{page}");
}

#[test]
fn a_generated_set_is_valid_and_inactive_and_its_activation_replaces_no_machine() {
    let folder = Folder::new();
    let machines = folder.machines();
    let output = capstan(&["generate", "-f", path(&machines)], "");
    assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
    let generated = folder.file("set.yaml", &stdout(&output));
    assert!(stdout(&output).contains("state: Inactive"));
    let active = folder.file(
        "active.yaml",
        &stdout(&output).replace("state: Inactive", "state: Active"),
    );
    let checked = capstan(
        &[
            "check",
            "-o",
            "json",
            "--with",
            path(&machines),
            "--old",
            path(&generated),
            path(&active),
        ],
        "",
    );
    assert_eq!(checked.status.code(), Some(0), "{}", stdout(&checked));
    let rows: Value = serde_json::from_str(&stdout(&checked)).unwrap();
    assert!(!rows[0]["warnings"].to_string().contains("replaces"), "{rows}");
}

#[test]
fn generate_notes_that_vsphere_failure_domains_need_the_infrastructure() {
    let machines: Vec<String> = (0..3)
        .map(|index| {
            let mut machine = machine(index, "a");
            machine["spec"]["providerSpec"]["value"] = json!({"kind": "VSphereMachineProviderSpec", "numCPUs": 4});
            machine.to_string()
        })
        .collect();
    let output = capstan(&["generate", "-f", "-"], &machines.join("\n---\n"));
    assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
    assert!(
        stderr(&output).contains("the Infrastructure cluster must be given"),
        "{}",
        stderr(&output)
    );
}

#[test]
fn a_status_as_html_is_one_file_with_the_rollout() {
    let value = format!("/spec/template/{MACHINE}/spec/providerSpec/value/machineType");
    let input = world(|set| *set.pointer_mut(&value).unwrap() = json!("n2-standard-8"));
    let arguments = ["status", "-f", "-", "--now", "2026-01-01T01:00:00Z", "-o", "html"];
    let output = capstan(&arguments, &input);
    assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
    let page = stdout(&output);
    assert!(
        page.starts_with("<!DOCTYPE html>") && !page.contains("<script"),
        "{page}"
    );
    for part in [
        "0 of 3 up to date",
        "n2-standard-8",
        "index 2",
        "<dt>Node</dt><dd><bdi>node-1</bdi>",
        "<strong>delete</strong>",
    ] {
        assert!(page.contains(part), "{part}: {page}");
    }
    let followed = capstan(&["status", "--watch", "-o", "html"], "");
    assert_eq!(followed.status.code(), Some(2));
    assert!(stderr(&followed).contains("capstan dashboard"), "{}", stderr(&followed));
}

#[test]
fn w187_a_generated_set_describes_the_machines_of_one_namespace() {
    let machines = include_str!("../fixtures/aws/machines.yaml");
    let others = machines
        .replace("namespace: openshift-machine-api", "namespace: other")
        .replace("m6i.xlarge", "m5.large");
    let both = format!("{machines}\n---\n{others}");
    let generate = |namespace: &str| capstan(&["generate", "-n", namespace, "-f", "-"], &both);
    let output = generate("openshift-machine-api");
    assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
    let text = String::from_utf8(output.stdout.clone()).unwrap();
    assert!(text.contains("m6i.xlarge") && !text.contains("m5.large"), "{text}");
    assert!(
        stderr(&output).contains("only those in openshift-machine-api"),
        "{}",
        stderr(&output)
    );
    assert_eq!(generate("foo").status.code(), Some(2));
}

#[test]
fn w194_a_set_for_machines_without_a_namespace_has_that_of_the_command_line() {
    let machines = include_str!("../fixtures/aws/machines.yaml").replace("  namespace: openshift-machine-api\n", "");
    assert!(!machines.contains("namespace:"));
    for kind in ["ControlPlaneMachineSet", "ControlPlane"] {
        let output = capstan(&["generate", "--kind", kind, "-n", "other", "-f", "-"], &machines);
        assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
        let text = String::from_utf8(output.stdout.clone()).unwrap();
        assert!(text.contains("\n  namespace: other\n"), "{text}");
    }
}
