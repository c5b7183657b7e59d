//! `capstan check` and `capstan plan` with the files of a ControlPlane.

use serde_json::{Value, json};

use super::{Folder, MACHINE, capstan, machine, path, set, stderr, stdout};

pub(super) fn control_plane(replicas: i64) -> Value {
    let set = set();
    let template = &set["spec"]["template"][MACHINE];
    json!({
        "apiVersion": "machine.openshift.io/v1alpha1", "kind": "ControlPlane",
        "metadata": {"name": "cluster", "namespace": "openshift-machine-api"},
        "spec": {"replicas": replicas, "providerSpec": template["spec"]["providerSpec"],
            "failureDomains": template["failureDomains"]},
    })
}

/// A settled control plane of three machines, with this report of the etcd operator.
pub(super) fn cluster(report: &str) -> Vec<Value> {
    let mut objects = vec![json!({
        "apiVersion": "config.openshift.io/v1", "kind": "ClusterOperator", "metadata": {"name": "etcd"},
        "status": {"conditions": [
            {"type": "Available", "status": "True", "message": format!("EtcdMembersAvailable: {report}")}]},
    })];
    for (index, zone) in ["a", "b", "c"].into_iter().enumerate() {
        let mut machine = machine(index, zone);
        let node = format!("node-{index}");
        machine["status"] = json!({"nodeRef": {"name": node}});
        machine["metadata"]["uid"] = json!(node);
        machine["metadata"]["creationTimestamp"] = json!(format!("2026-01-0{}T00:00:00Z", index + 1));
        machine["metadata"]["ownerReferences"] = json!([{"apiVersion": "machine.openshift.io/v1alpha1",
            "kind": "ControlPlane", "name": "cluster", "uid": "u", "controller": true}]);
        objects.push(machine);
        objects.push(json!({"apiVersion": "v1", "kind": "Node", "metadata": {"name": node},
            "status": {"conditions": [{"type": "Ready", "status": "True"}]}}));
    }
    objects
}

/// The objects as one list, for standard input.
pub(super) fn list(objects: &[Value]) -> String {
    json!({"apiVersion": "v1", "kind": "List", "items": objects}).to_string()
}

fn planned(replicas: i64, report: &str) -> Value {
    let objects = [vec![control_plane(replicas)], cluster(report)].concat();
    let output = capstan(&["plan", "-o", "json", "-f", "-"], &list(&objects));
    assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
    serde_json::from_str(&stdout(&output)).unwrap()
}

#[test]
fn a_plan_of_a_control_plane_shows_the_next_step_and_all_steps() {
    let healthy = "3 members are available";
    let report = planned(3, healthy);
    assert_eq!(
        (&report["kind"], &report["set"]),
        (&json!("ControlPlane"), &json!("cluster"))
    );
    assert_eq!(
        (&report["next"], &report["waits"], &report["rollout"]),
        (&json!([]), &json!([]), &json!([]))
    );
    let report = planned(5, healthy);
    let actions = |list: &Value| -> Vec<Value> {
        let steps = list.as_array().unwrap();
        steps.iter().map(|step| step["action"].clone()).collect()
    };
    assert_eq!(actions(&report["next"]), ["create"]);
    assert_eq!(actions(&report["rollout"]), ["create", "create"]);
    let report = planned(1, healthy);
    assert_eq!(report["next"][0]["machine"], "prod-x7k2p-master-0");
    assert_eq!(actions(&report["rollout"]), ["delete", "delete"]);
    let report = planned(5, "2 of 3 members are available, a is unhealthy");
    assert_eq!(
        (&report["next"], &report["waits"][0]["for"]),
        (&json!([]), &json!("EtcdMembers"))
    );
    let objects = [vec![control_plane(5)], cluster(healthy)].concat();
    let text = stdout(&capstan(&["plan", "-f", "-"], &list(&objects)));
    assert!(
        text.starts_with("ControlPlane cluster, revision ") && text.contains("\nNext\n  create "),
        "{text}"
    );
}

#[test]
fn a_check_of_a_control_plane_applies_the_schema_and_the_rules() {
    let output = capstan(&["check", "-"], &control_plane(4).to_string());
    assert_eq!(output.status.code(), Some(1));
    assert!(stdout(&output).contains("cp-replicas-odd"), "{}", stdout(&output));
    let mut unknown = control_plane(3);
    unknown["spec"]["enableAutorepair"] = json!(true);
    let output = capstan(&["check", "-"], &unknown.to_string());
    assert!(
        stdout(&output).contains("spec.enableAutorepair: Invalid value: unknown field"),
        "{}",
        stdout(&output)
    );
    let output = capstan(&["check", "-"], &control_plane(3).to_string());
    assert_eq!(output.status.code(), Some(0), "{}", stdout(&output));
}

#[test]
fn v93_a_plan_beside_an_active_set_takes_no_step_and_says_why() {
    let mut changed = control_plane(5);
    let mut active = set();
    active["spec"]["state"] = json!("Active");
    let objects = [vec![changed.clone(), active], cluster("3 members are available")].concat();
    let output = capstan(&["status", "-o", "html", "-f", "-"], &list(&objects));
    let (page, error) = (stdout(&output), stderr(&output));
    assert!(
        page.contains("Unused: ControlPlaneMachineSet cluster manages the machines"),
        "{page}{error}"
    );
    assert!(!page.contains("remove that owner reference"), "{page}");
    changed["metadata"]["deletionTimestamp"] = json!("2026-01-05T00:00:00Z");
    let objects = [vec![changed], cluster("3 members are available")].concat();
    let output = capstan(&["plan", "-o", "json", "-f", "-"], &list(&objects));
    let report: Value = serde_json::from_str(&stdout(&output)).unwrap();
    assert_eq!(report["rollout"], json!([]), "{report}");
}

#[test]
fn w186_machines_of_another_namespace_are_not_those_of_a_control_plane() {
    let objects = [vec![control_plane(3)], cluster("3 members are available")].concat();
    let mut foreign: Vec<Value> = objects
        .iter()
        .filter(|object| object["kind"] == "Machine")
        .cloned()
        .collect();
    assert_eq!(foreign.len(), 3);
    for machine in &mut foreign {
        machine["metadata"]["namespace"] = json!("other");
        machine["metadata"]["name"] = json!(format!("stage-{}", machine["metadata"]["name"].as_str().unwrap()));
    }
    let plan = |objects: &[Value]| {
        let output = capstan(&["plan", "-o", "json", "-f", "-"], &list(objects));
        (String::from_utf8(output.stdout.clone()).unwrap(), stderr(&output))
    };
    let (alone, _) = plan(&objects);
    let (beside, notes) = plan(&[objects, foreign].concat());
    assert_eq!(alone, beside);
    assert!(notes.contains("3 Machine(s), such as stage-"), "{notes}");
}

#[test]
fn w193_a_scale_of_a_control_plane_is_refused_beside_an_active_set() {
    let folder = Folder::new();
    let with = [vec![control_plane(3)], cluster("3 members are available")].concat();
    let with = folder.objects("with.json", &with);
    let scale = json!({"apiVersion": "autoscaling/v1", "kind": "Scale",
        "metadata": {"name": "cluster", "namespace": "openshift-machine-api"}, "spec": {"replicas": 5}});
    let scale = folder.objects("scale.json", &[scale]);
    let none = json!({"apiVersion": "machine.openshift.io/v1", "kind": "ControlPlaneMachineSetList", "items": []});
    let (none, active) = (
        folder.objects("none.json", &[none]),
        folder.objects("active.json", &[set()]),
    );
    let checked = |more: &[&str]| {
        let output = capstan(&[&["check", path(&scale), "--with", path(&with)], more].concat(), "");
        (output.status.code(), stdout(&output))
    };
    let (code, text) = checked(&["--with", path(&none)]);
    assert_eq!(code, Some(0), "{text}");
    let (code, text) = checked(&["--strict"]);
    assert_eq!(code, Some(1), "{text}");
    assert!(text.contains("the ControlPlaneMachineSets are not given"), "{text}");
    let (code, text) = checked(&["--with", path(&active)]);
    assert_eq!(code, Some(1), "{text}");
    assert!(text.contains("[cp-active-set]"), "{text}");
}
