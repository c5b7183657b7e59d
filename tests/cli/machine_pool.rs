//! `capstan plan`, `capstan status`, and `capstan check` with the files of a MachinePool.

use serde_json::{Value, json};

use super::{capstan, stderr, stdout};

/// A pool of three instances with the strategy that one may be unavailable.
fn objects() -> Vec<Value> {
    let strategy = json!({"strategy": {"type": "RollingUpdate", "rollingUpdate": {"maxUnavailable": 1}}});
    let progress = json!({"version": "v1.34.0", "newest": "2026-02-01T00:00:00Z"});
    let labels = json!({"cluster.x-k8s.io/cluster-name": "c", "cluster.x-k8s.io/pool-name": "workers"});
    let group = "infrastructure.cluster.x-k8s.io";
    let mut objects = vec![
        json!({
            "apiVersion": "cluster.x-k8s.io/v1beta2", "kind": "MachinePool",
            "metadata": {"name": "workers", "namespace": "ns", "finalizers": ["capstan.dev/machine-pool"],
                "annotations": {"capstan.dev/rollout": strategy.to_string(),
                    "capstan.dev/rollout-progress": progress.to_string()}},
            "spec": {"clusterName": "c", "replicas": 3, "template": {"spec": {"version": "v1.34.0",
                "infrastructureRef": {"apiGroup": group, "kind": "DockerMachinePool", "name": "workers"}}}},
        }),
        json!({
            "apiVersion": format!("{group}/v1beta2"), "kind": "DockerMachinePool",
            "metadata": {"name": "workers", "namespace": "ns"},
            "status": {"ready": true, "infrastructureMachineKind": "DockerMachine"},
        }),
    ];
    for number in 0..3 {
        let (name, id) = (format!("workers-{number}"), format!("docker:////{number}"));
        objects.push(json!({
            "apiVersion": "cluster.x-k8s.io/v1beta2", "kind": "Machine",
            "metadata": {"name": name, "namespace": "ns", "labels": labels,
                "creationTimestamp": format!("2026-01-0{}T00:00:00Z", number + 1)},
            "spec": {"clusterName": "c", "providerID": id,
                "infrastructureRef": {"apiGroup": group, "kind": "DockerMachine", "name": name}},
        }));
        objects.push(json!({
            "apiVersion": format!("{group}/v1beta2"), "kind": "DockerMachine",
            "metadata": {"name": name, "namespace": "ns", "labels": labels}, "spec": {"providerID": id},
        }));
        objects.push(json!({
            "apiVersion": "v1", "kind": "Node", "metadata": {"name": name}, "spec": {"providerID": id},
            "status": {"nodeInfo": {"kubeletVersion": "v1.33.0"},
                "conditions": [{"type": "Ready", "status": "True"}]},
        }));
    }
    objects
}

fn run(arguments: &[&str], objects: &[Value]) -> String {
    let texts: Vec<String> = objects.iter().map(Value::to_string).collect();
    let output = capstan(&[arguments, &["-f", "-"]].concat(), &texts.join("\n---\n"));
    assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
    stdout(&output)
}

#[test]
fn a_plan_of_a_pool_has_the_keys_of_a_set_and_the_kind() {
    let plan: Value = serde_json::from_str(&run(&["plan", "-o", "json"], &objects())).unwrap();
    assert_eq!(
        (&plan["set"], &plan["kind"]),
        (&json!("workers"), &json!("MachinePool"))
    );
    let step = &plan["next"][0];
    assert_eq!(
        (&step["action"], &step["machine"]),
        (&json!("delete"), &json!("workers-0"))
    );
    assert_eq!(plan["rollout"].as_array().unwrap().len(), 3);
    assert_eq!(
        plan["changes"],
        json!([{"field": "version", "old": "v1.33.0", "new": "v1.34.0"}])
    );
    let text = run(&["plan"], &objects());
    assert!(text.starts_with("MachinePool workers, revision "), "{text}");
    assert!(text.contains("workers-0 (ready, outdated)"), "{text}");
}

#[test]
fn the_mode_decides_whether_capstan_creates_the_machine_of_an_instance() {
    let mut objects = objects();
    objects.remove(2);
    let plan: Value = serde_json::from_str(&run(&["plan", "-o", "json"], &objects)).unwrap();
    assert!(
        plan["waits"]
            .as_array()
            .unwrap()
            .iter()
            .any(|wait| wait["for"] == "Provider")
    );
    let plan: Value = serde_json::from_str(&run(&["plan", "--machinepools", "own", "-o", "json"], &objects)).unwrap();
    let mut steps = plan["next"].as_array().unwrap().iter();
    assert_eq!(plan["mode"], "own");
    assert!(steps.any(|step| step["action"] == "create" && step["machine"] == "workers-0"));
}

#[test]
fn two_pools_are_refused_with_their_names() {
    let mut objects = objects();
    let mut other = objects[0].clone();
    other["metadata"]["name"] = json!("others");
    objects.push(other);
    let texts: Vec<String> = objects.iter().map(Value::to_string).collect();
    let output = capstan(&["plan", "-f", "-"], &texts.join("\n---\n"));
    assert_eq!(output.status.code(), Some(2));
    assert!(stderr(&output).contains("workers, others"), "{}", stderr(&output));
}

#[test]
fn the_state_of_a_pool_shows_its_machines_and_conditions() {
    let text = run(&["status"], &objects());
    for line in [
        "MachinePool workers  revision ",
        "0 of 3 up to date and available",
        "└─ workers-2  v1.33.0  available, outdated, Node workers-2",
        "MachinesUpToDate: False (NotUpToDate): 3 machine(s) are outdated: workers-0, workers-1, workers-2",
        "Next: delete Machine/workers-0: it runs v1.33.0, and the template has v1.34.0",
    ] {
        assert!(text.contains(line), "{line}\n{text}");
    }
    let report: Value = serde_json::from_str(&run(&["status", "-o", "json"], &objects())).unwrap();
    assert_eq!(report["machines"][0]["current"], false);
    assert_eq!(report["progress"], json!({"updated": 0, "total": 3}));
}

#[test]
fn a_pool_that_breaks_a_rule_is_refused_offline() {
    let folder = std::path::Path::new(env!("CARGO_TARGET_TMPDIR")).join("machine-pool-check");
    std::fs::create_dir_all(&folder).unwrap();
    let file = folder.join("pool.json");
    let mut pool = objects().remove(0);
    pool["metadata"]["annotations"]["capstan.dev/rollout"] = json!("RollingUpdate");
    std::fs::write(&file, pool.to_string()).unwrap();
    let output = capstan(&["check", file.to_str().unwrap()], "");
    assert_eq!(output.status.code(), Some(1));
    let text = stdout(&output);
    for rule in ["[mp-strategy]", "[mp-bootstrap]", "[mp-cluster-name]"] {
        assert!(text.contains(rule), "{rule}\n{text}");
    }
}

#[test]
fn the_page_of_the_files_of_a_pool_shows_the_pool() {
    let page = run(&["status", "-o", "html"], &objects());
    for part in ["MachinePool workers", "workers-2", "From files"] {
        assert!(page.contains(part), "{part} is not in {page}");
    }
    let image = run(&["status", "-o", "svg"], &objects());
    assert!(image.starts_with("<svg"), "{image}");
}

#[test]
fn w195_a_pool_without_a_namespace_is_not_given_the_machines_of_several() {
    let mut objects = objects();
    objects[0]["metadata"].as_object_mut().unwrap().remove("namespace");
    run(&["plan"], &objects);
    let machine = objects.iter_mut().find(|object| object["kind"] == "Machine").unwrap();
    machine["metadata"]["namespace"] = json!("other");
    let texts: Vec<String> = objects.iter().map(Value::to_string).collect();
    let output = capstan(&["plan", "-f", "-"], &texts.join("\n---\n"));
    assert_eq!(output.status.code(), Some(2));
    assert!(
        stderr(&output).contains("MachinePool workers must have a namespace"),
        "{}",
        stderr(&output)
    );
}

#[test]
fn w210_machines_in_another_namespace_than_the_pool_are_noted() {
    let mut objects = objects();
    let home = objects[0]["metadata"]["namespace"].clone();
    let machine = objects.iter_mut().find(|object| object["kind"] == "Machine").unwrap();
    assert_eq!(machine["metadata"]["namespace"], home);
    machine["metadata"]["namespace"] = json!("other");
    let texts: Vec<String> = objects.iter().map(Value::to_string).collect();
    let output = capstan(&["plan", "-f", "-"], &texts.join("\n---\n"));
    assert_eq!(output.status.code(), Some(0));
    let notes = stderr(&output);
    assert!(
        notes.contains("these objects do not belong to it: Machine other/"),
        "{notes}"
    );
}
