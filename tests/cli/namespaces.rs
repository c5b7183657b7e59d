//! Files with objects of several namespaces, and a Scale of a control plane.

use serde_json::{Value, json};

use super::control_plane::{cluster, control_plane, list};
use super::{Folder, capstan, machine, path, set, stderr, stdout};

const HEALTHY: &str = "3 members are available";

fn in_namespace(mut object: Value, namespace: &str) -> Value {
    object["metadata"]["namespace"] = json!(namespace);
    object
}

fn without_namespace(mut object: Value) -> Value {
    object["metadata"].as_object_mut().unwrap().remove("namespace");
    object
}

fn scale(replicas: i64) -> Value {
    json!({"apiVersion": "autoscaling/v1", "kind": "Scale",
        "metadata": {"name": "cluster", "namespace": "openshift-machine-api"}, "spec": {"replicas": replicas}})
}

#[test]
fn w196_a_set_does_not_own_the_machines_of_another_namespace() {
    let folder = Folder::new();
    let reference = json!({"apiVersion": "machine.openshift.io/v1", "kind": "ControlPlaneMachineSet",
        "name": "cluster", "uid": "u-1", "controller": true});
    let owned: Vec<Value> = (0..3)
        .map(|index| {
            let mut machine = machine(index, "a");
            machine["metadata"]["ownerReferences"] = json!([reference]);
            machine
        })
        .collect();
    let machines = folder.objects("machines.json", &owned);
    let code = |set: Value| {
        let set = folder.objects("set.json", &[set]);
        let arguments = ["check", "--operation", "delete", path(&set), "--with", path(&machines)];
        capstan(&arguments, "").status.code()
    };
    assert_eq!(code(set()), Some(1));
    assert_eq!(code(without_namespace(set())), Some(1));
    assert_eq!(code(in_namespace(set(), "foo")), Some(0));
}

#[test]
fn w197_a_generated_control_plane_is_that_of_the_machines() {
    let machines: Vec<Value> = (0..3).map(|index| machine(index, "a")).collect();
    let generate = |known: Value| {
        let objects = [machines.clone(), vec![known]].concat();
        let output = capstan(&["generate", "--kind", "ControlPlane", "-f", "-"], &list(&objects));
        assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
        stdout(&output)
    };
    let text = generate(without_namespace(set()));
    assert!(text.contains("\n  namespace: openshift-machine-api\n"), "{text}");
    let mut other = in_namespace(set(), "other");
    other["spec"]["template"][super::MACHINE]["spec"]["providerSpec"]["value"]["machineType"] = json!("e2-micro");
    let text = generate(other);
    assert!(text.contains("n2-standard-4") && !text.contains("e2-micro"), "{text}");
    let output = capstan(&["generate", "-n", "other", "-f", "-"], &list(&machines));
    assert!(
        stderr(&output).contains("all Machines are in the namespace openshift-machine-api, and --namespace is other"),
        "{}",
        stderr(&output)
    );
}

#[test]
fn w198_a_scale_finds_its_control_plane_and_changes_nothing_if_its_number_is_the_same() {
    let folder = Folder::new();
    let none = json!({"apiVersion": "machine.openshift.io/v1", "kind": "ControlPlaneMachineSetList", "items": []});
    let none = folder.objects("none.json", &[none]);
    let stored = folder.objects("stored.json", &[without_namespace(control_plane(3))]);
    let checked = |replicas: i64, more: &[&str]| {
        let scale = folder.objects("scale.json", &[scale(replicas)]);
        let files = ["check", path(&scale), "--with", path(&stored), "--with", path(&none)];
        capstan(&[&files, more].concat(), "")
    };
    let output = checked(4, &[]);
    assert_eq!(output.status.code(), Some(1), "{}", stdout(&output));
    let output = checked(3, &["--strict"]);
    assert_eq!(output.status.code(), Some(0), "{}", stdout(&output));
    for operation in ["create", "delete"] {
        let output = checked(3, &["--operation", operation]);
        assert_eq!(output.status.code(), Some(2), "{}", stdout(&output));
        assert!(
            stderr(&output).contains("a Scale is only updated"),
            "{}",
            stderr(&output)
        );
    }
}

#[test]
fn w199_an_active_set_of_another_namespace_is_not_beside_a_control_plane() {
    let folder = Folder::new();
    let changed = folder.objects("changed.json", &[scale(5)]);
    let code = |set: Value| {
        let with = [vec![control_plane(3), set], cluster(HEALTHY)].concat();
        let with = folder.objects("with.json", &with);
        let output = capstan(&["check", path(&changed), "--with", path(&with)], "");
        (output.status.code(), stdout(&output))
    };
    let (allowed, text) = code(in_namespace(set(), "other"));
    assert_eq!(allowed, Some(0), "{text}");
    assert_eq!(code(set()).0, Some(1));
    let planned = |set: Value| {
        let objects = [vec![control_plane(5), set], cluster(HEALTHY)].concat();
        let output = capstan(&["plan", "-o", "json", "-f", "-"], &list(&objects));
        let report: Value = serde_json::from_str(&stdout(&output)).unwrap();
        (report["kind"].clone(), report["next"][0]["action"].clone())
    };
    let elsewhere = planned(in_namespace(set(), "other"));
    assert_eq!(elsewhere, (json!("ControlPlane"), json!("create")));
    assert_ne!(planned(set()).0, json!("ControlPlane"));
}

#[test]
fn w200_a_plan_of_a_set_names_the_objects_that_it_leaves_out() {
    let machines = (0..4).map(|index| {
        let machine = machine(index, "a");
        if index == 3 {
            in_namespace(machine, "other")
        } else {
            machine
        }
    });
    let more = [
        set(),
        in_namespace(set(), "other"),
        json!({"apiVersion": "v1", "kind": "NodeList", "items": []}),
    ];
    let objects: Vec<Value> = machines.chain(more).collect();
    let output = capstan(&["plan", "-f", "-"], &list(&objects));
    let notes = stderr(&output);
    assert!(
        notes.contains("1 Machine(s), such as prod-x7k2p-master-3, are not in the namespace openshift-machine-api"),
        "{notes}"
    );
    assert!(
        notes.contains("2 ControlPlaneMachineSets; only cluster in openshift-machine-api is planned"),
        "{notes}"
    );
}

#[test]
fn w201_a_manifest_of_a_folder_that_is_no_file_is_an_error() {
    let folder = Folder::new();
    folder.objects("set.json", &[set()]);
    let link = folder.0.path().join("machines.yaml");
    std::os::unix::fs::symlink("/nonexistent/machines.yaml", link).unwrap();
    let output = capstan(&["check", path(folder.0.path())], "");
    assert_eq!(output.status.code(), Some(2), "{}", stdout(&output));
    assert!(
        stderr(&output).contains("machines.yaml must be a file"),
        "{}",
        stderr(&output)
    );
}

#[test]
fn w202_three_dots_end_a_document() {
    let objects = format!("---\n{}\n...\n---\n{}\n...\n", set(), machine(0, "a"));
    let output = capstan(&["check", "-o", "json", "-"], &objects);
    let rows: Value = serde_json::from_str(&stdout(&output)).unwrap();
    assert_eq!(rows.as_array().map(Vec::len), Some(2), "{}", stderr(&output));
}

#[test]
fn w203_manifests_without_content_create_no_folder() {
    let folder = Folder::new();
    let out = folder.0.path().join("out");
    let arguments = ["manifests", "webhooks", "--feature", "controllers", "--out", path(&out)];
    let output = capstan(&arguments, "");
    assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
    assert!(!out.exists());
}

#[test]
fn w204_an_object_with_and_without_a_namespace_is_not_given_twice() {
    let folder = Folder::new();
    let machines: Vec<Value> = (0..3).map(|index| machine(index, "a")).collect();
    let again: Vec<Value> = machines.iter().cloned().map(without_namespace).collect();
    let (set, machines, again) = (
        folder.objects("set.json", &[set()]),
        folder.objects("machines.json", &machines),
        folder.objects("again.json", &again),
    );
    for arguments in [
        ["plan", "-f", path(&set), "-f", path(&machines), "-f", path(&again)].as_slice(),
        &["generate", "-f", path(&machines), "-f", path(&again)],
        &["check", path(&set), "--with", path(&machines), "--with", path(&again)],
    ] {
        let output = capstan(arguments, "");
        assert_eq!(output.status.code(), Some(2), "{}", stdout(&output));
        let error = stderr(&output);
        assert!(error.contains("may be one object"), "{error}");
    }
    // A plan does not read these.
    let other = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "a", "namespace": "b"}});
    let others = folder.objects("others.json", &[other.clone(), without_namespace(other)]);
    let output = capstan(&["generate", "-f", path(&machines), "-f", path(&others)], "");
    assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
}

#[test]
fn w205_the_objects_of_the_namespace_are_planned_before_others() {
    let plan = |namespace: &str, objects: &[Value]| {
        let all = [objects, cluster(HEALTHY).as_slice()].concat();
        let output = capstan(&["plan", "-o", "json", "-n", namespace, "-f", "-"], &list(&all));
        let report: Value = serde_json::from_str(&stdout(&output)).unwrap_or_default();
        (report, stderr(&output))
    };
    const HOME: &str = "openshift-machine-api";
    // A set of the namespace, and a ControlPlane elsewhere.
    let elsewhere = in_namespace(control_plane(5), "other");
    for state in ["Active", "Inactive"] {
        let mut set = set();
        set["spec"]["state"] = json!(state);
        let (report, notes) = plan(HOME, &[elsewhere.clone(), set]);
        assert_ne!(report["kind"], "ControlPlane", "{notes}");
        assert!(
            notes.contains("the ControlPlane cluster is not planned, because it is in the namespace other"),
            "{notes}"
        );
    }
    // Two ControlPlanes, in either order.
    let mut objects = [elsewhere, control_plane(5)];
    for _ in 0..2 {
        objects.reverse();
        let (report, notes) = plan(HOME, &objects);
        assert_eq!(report["next"][0]["action"], "create", "{notes}");
        let note = "2 ControlPlanes; only cluster in openshift-machine-api is planned";
        assert!(notes.contains(note), "{notes}");
        assert!(plan("other", &objects).1.contains("only cluster in other is planned"));
    }
    // Two sets.
    for objects in [[set(), in_namespace(set(), "a")], [in_namespace(set(), "a"), set()]] {
        let notes = plan(HOME, &objects).1;
        assert!(
            notes.contains("only cluster in openshift-machine-api is planned"),
            "{notes}"
        );
        assert!(!notes.contains("contain no Machine"), "{notes}");
    }
}

#[test]
fn w206_a_control_plane_is_generated_from_the_set_cluster_alone() {
    let mut machines: Vec<Value> = (0..3).map(|index| machine(index, "a")).collect();
    let mut other = set();
    other["metadata"]["name"] = json!("other");
    other["spec"]["template"][super::MACHINE]["spec"]["providerSpec"]["value"]["machineType"] = json!("e2-micro");
    let generate = |objects: &[Value]| {
        let output = capstan(&["generate", "--kind", "ControlPlane", "-f", "-"], &list(objects));
        assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
        (stdout(&output), stderr(&output))
    };
    let (text, notes) = generate(&[&[other, set()], machines.as_slice()].concat());
    assert!(text.contains("n2-standard-4") && text.contains("replicas: 3"), "{text}");
    assert!(!notes.contains("replicas"), "{notes}");
    machines.push(machine(3, "a"));
    let (text, notes) = generate(&[&[set()], machines.as_slice()].concat());
    assert!(text.contains("replicas: 5"), "{text}");
    assert!(
        notes.contains("the set has 3 replicas, and the ControlPlane has 5"),
        "{notes}"
    );
}

#[test]
fn w207_a_scale_of_two_kinds_is_that_of_the_control_plane() {
    let folder = Folder::new();
    let mut inactive = set();
    inactive["spec"]["state"] = json!("Inactive");
    let (inactive, stored) = (
        folder.objects("inactive.json", &[inactive]),
        folder.objects("stored.json", &[control_plane(3)]),
    );
    let wanted = folder.objects("scale.json", &[scale(5)]);
    for [one, two] in [[&inactive, &stored], [&stored, &inactive]] {
        let arguments = ["check", path(&wanted), "--with", path(one), "--with", path(two)];
        let output = capstan(&arguments, "");
        assert_eq!(output.status.code(), Some(0), "{}", stdout(&output));
        let notes = stderr(&output);
        assert!(
            notes.contains("as that of the ControlPlane cluster, and not of the ControlPlaneMachineSet"),
            "{notes}"
        );
    }
    let chosen = [
        "check",
        path(&wanted),
        "--old",
        path(&inactive),
        "--with",
        path(&stored),
    ];
    assert_eq!(capstan(&chosen, "").status.code(), Some(1));
    let mut null = scale(3);
    null["spec"]["replicas"] = Value::Null;
    let null = folder.objects("null.json", &[null]);
    let output = capstan(&["check", path(&null), "--old", path(&inactive)], "");
    assert_eq!(output.status.code(), Some(1), "{}", stdout(&output));
    let output = capstan(&["check", path(&wanted), "--old", path(&null)], "");
    assert!(
        stderr(&output).contains("--old holds no control plane of this name"),
        "{}",
        stderr(&output)
    );
}

#[test]
fn w208_the_deletion_of_a_set_in_another_namespace_is_not_judged_by_the_machines_of_this_one() {
    let folder = Folder::new();
    let machines: Vec<Value> = (0..3).map(|index| machine(index, "a")).collect();
    let machines = folder.objects("machines.json", &machines);
    let set = folder.objects("set.json", &[in_namespace(set(), "other")]);
    let arguments = ["check", "--operation", "delete", path(&set), "--with", path(&machines)];
    let output = capstan(&[&arguments, ["--strict"].as_slice()].concat(), "");
    let text = stdout(&output);
    assert_eq!(output.status.code(), Some(1), "{text}");
    assert!(
        text.contains("not checked, because the set is in the namespace other"),
        "{text}"
    );
    assert!(!text.contains("running and unmanaged"), "{text}");
}

#[test]
fn w209_a_control_plane_of_another_namespace_does_not_prevent_an_activation() {
    let folder = Folder::new();
    let (set, machines) = (folder.objects("set.json", &[set()]), folder.machines());
    let code = |control_plane: Value| {
        let beside = folder.objects("beside.json", &[control_plane]);
        let files = ["check", path(&set), "--with", path(&machines), "--with", path(&beside)];
        let output = capstan(&files, "");
        (output.status.code(), stdout(&output))
    };
    assert_eq!(code(control_plane(3)).0, Some(1));
    let (allowed, text) = code(in_namespace(control_plane(3), "other"));
    assert_eq!(allowed, Some(0), "{text}");
}
