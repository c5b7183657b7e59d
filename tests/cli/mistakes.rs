//! Files and flags with mistakes, for the commands that read them.

use std::process::Command;

use serde_json::json;

use super::control_plane::{cluster, control_plane, list};
use super::{Folder, capstan, path, set, stderr, stdout};

const HEALTHY: &str = "3 members are available";

#[test]
fn w39_a_plan_without_the_name_of_the_cluster_says_what_gives_it() {
    let output = capstan(&["plan", "-f", "-"], &control_plane(3).to_string());
    assert_eq!(output.status.code(), Some(2), "{}", stdout(&output));
    let must = "the names of the machines start with the name of the cluster, and no object has it; give the \
                Infrastructure too, or a Machine with the label machine.openshift.io/cluster-api-cluster\n";
    assert!(stderr(&output).contains(must), "{}", stderr(&output));
}

#[test]
fn w40_a_control_plane_that_is_not_planned_has_a_note() {
    let mut objects = [vec![control_plane(3), set()], cluster(HEALTHY)].concat();
    let output = capstan(&["plan", "-f", "-"], &list(&objects));
    assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
    let note = "the ControlPlane cluster is not planned, because a ControlPlaneMachineSet is Active and manages the \
                machines; delete the set first, its machines stay\n";
    assert!(stderr(&output).contains(note), "{}", stderr(&output));
    objects.remove(1);
    let output = capstan(&["plan", "-f", "-"], &list(&objects));
    assert_eq!(stderr(&output), "");
    objects[0]["metadata"]["namespace"] = json!("default");
    let output = capstan(&["plan", "-f", "-"], &list(&objects));
    let note = "the ControlPlane is in the namespace default; admission refuses it there, and the controller manages \
                only that of openshift-machine-api\n";
    assert!(stderr(&output).contains(note), "{}", stderr(&output));
}

#[test]
fn w41_an_empty_list_of_a_kind_tells_that_no_object_exists() {
    let folder = Folder::new();
    let file = folder.objects("control-plane.yaml", &[control_plane(3)]);
    let infrastructure = json!({"apiVersion": "config.openshift.io/v1", "kind": "Infrastructure",
        "metadata": {"name": "cluster"}, "status": {"infrastructureName": "prod-x7k2p",
            "platformStatus": {"type": "GCP"}}});
    let with = folder.objects("with.yaml", &[cluster(HEALTHY), vec![infrastructure]].concat());
    let strict = |more: &[&str]| {
        let arguments = ["check", "--strict", "--with", path(&with)];
        capstan(&[&arguments[..], more, &[path(&file)]].concat(), "")
    };
    let output = strict(&[]);
    assert_eq!(output.status.code(), Some(1));
    let warning = "spec: not checked, because the ControlPlaneMachineSets are not given";
    assert!(stdout(&output).contains(warning), "{}", stdout(&output));
    let empty = json!({"apiVersion": "machine.openshift.io/v1", "kind": "ControlPlaneMachineSetList", "items": []});
    let empty = folder.objects("sets.json", &[empty]);
    let output = strict(&["--with", path(&empty)]);
    assert_eq!(output.status.code(), Some(0), "{}{}", stdout(&output), stderr(&output));
    let output = capstan(&["check", path(&empty)], "");
    assert_eq!(output.status.code(), Some(2), "an empty list is no object to check");
}

#[test]
fn w42_without_a_kubeconfig_the_cause_is_named_once_with_a_way_out() {
    let folder = Folder::new();
    let output = Command::new(env!("CARGO_BIN_EXE_capstan"))
        .arg("status")
        .env("HOME", folder.0.path())
        .env_remove("KUBECONFIG")
        .env_remove("KUBERNETES_SERVICE_HOST")
        .output()
        .unwrap();
    assert_eq!(output.status.code(), Some(2));
    let error = stderr(&output);
    assert_eq!(error.matches("No such file or directory").count(), 1, "{error}");
    assert!(error.contains("set --kubeconfig or KUBECONFIG"), "{error}");
}

#[test]
fn w42_a_time_without_a_unit_is_answered_with_examples() {
    for arguments in [
        ["wait", "--timeout", "5"],
        ["plan", "--min-ready", "5"],
        ["status", "--min-ready", "5"],
    ] {
        let output = capstan(&arguments, "");
        assert_eq!(output.status.code(), Some(2));
        let must = "must be a duration such as 500ms, 4s or 1m";
        assert!(stderr(&output).contains(must), "{arguments:?}: {}", stderr(&output));
    }
}

#[test]
fn w44_all_files_and_documents_that_cannot_be_read_are_named_at_once() {
    let folder = Folder::new();
    folder.file("a.yaml", "apiVersion: v1\nkind: A\n---\nname: x\n---\nkind: [\n");
    folder.file("b.json", "{\"kind\":");
    folder.file("c.yaml", "apiVersion: v1\nkind: C\n");
    for command in [&["convert"][..], &["check"], &["plan", "-f"]] {
        let output = capstan(&[command, &[folder.0.path().to_str().unwrap()]].concat(), "");
        assert_eq!((output.status.code(), stdout(&output).as_str()), (Some(2), ""));
        let errors = stderr(&output);
        for part in ["a.yaml: document 2, line 3", "a.yaml: document 3", "b.json: document 1"] {
            assert!(errors.contains(part), "{part} is missing in\n{errors}");
        }
        assert_eq!(errors.matches("error: ").count(), 3, "{errors}");
    }
}

#[test]
fn w45_a_list_of_thousands_of_machines_is_read_from_yaml() {
    let mut text = String::from("apiVersion: v1\nkind: List\nitems:\n");
    for index in 0..6_000 {
        let fields: String = (0..20).map(|field| format!("    f{field}: x\n")).collect();
        text.push_str(&format!(
            "- apiVersion: v1\n  kind: A\n  metadata:\n    name: a{index}\n  spec:\n{fields}"
        ));
    }
    let output = capstan(&["convert", "-"], &text);
    assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
    assert!(
        stderr(&output).contains("the input contains no object to convert"),
        "{}",
        stderr(&output)
    );
    let bomb: String = (1..30)
        .map(|level| format!("a{level}: &a{level} [*a{0}, *a{0}, *a{0}]\n", level - 1))
        .collect();
    let output = capstan(
        &["convert", "-"],
        &format!("apiVersion: v1\nkind: A\na0: &a0 [x]\n{bomb}"),
    );
    assert_eq!(output.status.code(), Some(2));
    assert!(
        stderr(&output).contains("must be within the limits of Capstan's YAML parser"),
        "{}",
        stderr(&output)
    );
}

#[test]
fn w43_the_page_of_a_control_plane_does_not_say_that_it_has_no_controller() {
    let objects = [vec![control_plane(3)], cluster(HEALTHY)].concat();
    let output = capstan(&["status", "-o", "html", "-f", "-"], &list(&objects));
    assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
    let page = stdout(&output);
    assert!(page.contains("<span class=\"kind\">ControlPlane</span>"), "{page}");
    assert!(page.contains("only if its controller for this kind is installed"));
}
