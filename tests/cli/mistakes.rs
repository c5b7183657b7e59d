//! Files and flags with mistakes, for the commands that read them.

use std::process::Command;

use serde_json::{Value, json};

use super::control_plane::{cluster, control_plane, list};
use super::{Folder, capstan, machine, path, set, stderr, stdout};

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
        stderr(&output).contains("must be within the limits of Capstan's YAML parser: at most 64 nested levels"),
        "{}",
        stderr(&output)
    );
}

#[test]
fn w135_json_that_is_nested_too_deeply_is_not_said_to_be_yaml_with_aliases() {
    let deep = format!("{{\"a\": {}1{}}}", "[".repeat(200), "]".repeat(200));
    let output = capstan(&["check", "-"], &deep);
    assert_eq!(output.status.code(), Some(2));
    let error = stderr(&output);
    assert!(
        error.contains("must be nested less deeply for Capstan to read it: recursion limit exceeded"),
        "{error}"
    );
    assert!(!error.contains("YAML") && !error.contains("Depth"), "{error}");
}

#[test]
fn an_empty_name_is_a_mistake_of_the_command_line() {
    let output = capstan(&["migrate", "machine", "", "--to", "clusterAPI"], "");
    assert_eq!(output.status.code(), Some(2));
    assert!(
        stderr(&output).contains("a value is required for '[NAME]...'"),
        "{}",
        stderr(&output)
    );
}

#[test]
fn w176_a_kubeadm_control_plane_beside_a_set_has_a_note_that_it_is_not_planned() {
    let other = json!({"apiVersion": "controlplane.cluster.x-k8s.io/v1beta2", "kind": "KubeadmControlPlane",
        "metadata": {"name": "other", "namespace": "ns"}, "spec": {}});
    let objects = [vec![other, set()], cluster(HEALTHY)].concat();
    let output = capstan(&["plan", "-f", "-"], &list(&objects));
    assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
    let note = "the KubeadmControlPlane other is not planned";
    assert!(stderr(&output).contains(note), "{}", stderr(&output));
}

#[test]
fn w180_a_pool_beside_a_kubeadm_control_plane_has_a_note_that_it_is_not_planned() {
    let spec = json!({"version": "v1.34.0", "replicas": 3, "kubeadmConfigSpec": {},
        "machineTemplate": {"spec": {"infrastructureRef": {"apiGroup": "i", "kind": "K", "name": "n"}}}});
    let objects = [
        json!({"apiVersion": "controlplane.cluster.x-k8s.io/v1beta2", "kind": "KubeadmControlPlane",
            "metadata": {"name": "cp", "namespace": "ns"}, "spec": spec}),
        json!({"apiVersion": "cluster.x-k8s.io/v1beta2", "kind": "MachinePool",
            "metadata": {"name": "workers", "namespace": "ns"}, "spec": {}}),
    ];
    let output = capstan(&["plan", "-f", "-"], &list(&objects));
    let note = "the MachinePool workers is not planned, because the files contain a KubeadmControlPlane";
    assert!(stderr(&output).contains(note), "{}", stderr(&output));
}

#[test]
fn w181_machines_of_another_namespace_are_not_those_of_a_set() {
    let folder = Folder::new();
    let machines = include_str!("../fixtures/aws/machines.yaml");
    let elsewhere = machines.replace("namespace: openshift-machine-api", "namespace: other");
    assert_ne!(machines, elsewhere);
    let set = folder.file("set.yaml", include_str!("../fixtures/aws/set.yaml"));
    let checked = |machines: &str, flags: &[&str]| {
        let machines = folder.file("machines.yaml", machines);
        let arguments = ["check", set.to_str().unwrap(), "--with", machines.to_str().unwrap()];
        let output = capstan(&[&arguments, flags].concat(), "");
        (output.status.code(), stdout(&output))
    };
    assert_eq!(checked(machines, &[]).0, Some(0));
    let both = format!("{machines}\n---\n{elsewhere}");
    assert_eq!(checked(&both, &[]).0, Some(0));
    // It is not known whether the namespace of the set has Machines.
    for flags in [&["--strict"][..], &["--strict", "--operation", "delete"]] {
        let (code, text) = checked(&elsewhere, flags);
        assert_eq!(code, Some(1), "{text}");
        assert!(text.contains("not checked"), "{text}");
    }
}

#[test]
fn w182_an_empty_file_is_no_stored_object() {
    let folder = Folder::new();
    let (set, empty) = (
        folder.file("set.yaml", include_str!("../fixtures/aws/set.yaml")),
        folder.file("empty.yaml", ""),
    );
    let arguments = ["check", "--old", empty.to_str().unwrap(), set.to_str().unwrap()];
    let output = capstan(&arguments, "");
    assert_eq!(output.status.code(), Some(2), "{}", stdout(&output));
    assert!(
        stderr(&output).contains("must contain an object"),
        "{}",
        stderr(&output)
    );
}

#[test]
fn w184_a_plan_of_a_set_notes_that_the_machines_are_missing() {
    let note = "the files contain no Machine in the namespace openshift-machine-api";
    let plan = |objects: &[Value]| stderr(&capstan(&["plan", "-f", "-"], &list(objects)));
    assert!(plan(&[set()]).contains(note));
    let mut elsewhere = set();
    elsewhere["metadata"]["namespace"] = json!("other");
    let machines = (0..3).map(|index| machine(index, "a"));
    let beside: Vec<Value> = machines
        .chain([elsewhere, json!({"apiVersion": "v1", "kind": "NodeList", "items": []})])
        .collect();
    assert!(
        plan(&beside).contains("no Machine in the namespace other"),
        "{}",
        plan(&beside)
    );
    let none = json!({"apiVersion": "machine.openshift.io/v1beta1", "kind": "MachineList", "items": []});
    let told = capstan(&["plan", "-f", "-"], &format!("{}\n---\n{none}", set()));
    assert!(!stderr(&told).contains(note), "{}", stderr(&told));
}

#[test]
fn w190_the_owner_of_machines_in_a_manifest_needs_no_uid() {
    let folder = Folder::new();
    let mut owner = set();
    let metadata = owner["metadata"].as_object_mut().unwrap();
    metadata.remove("uid");
    metadata.remove("finalizers");
    let checked = |name: &str| {
        let reference = json!({"apiVersion": "machine.openshift.io/v1", "kind": "ControlPlaneMachineSet",
            "name": name, "uid": "u-1", "controller": true});
        let machines: Vec<Value> = (0..3)
            .map(|index| {
                let mut machine = machine(index, "a");
                machine["metadata"]["ownerReferences"] = json!([reference]);
                machine
            })
            .collect();
        let machines = folder.objects("machines.json", &machines);
        let set = folder.objects("set.json", &[owner.clone()]);
        let output = capstan(
            &["check", "--operation", "delete", path(&set), "--with", path(&machines)],
            "",
        );
        (output.status.code(), stdout(&output))
    };
    let (code, text) = checked("cluster");
    assert_eq!(code, Some(1), "{text}");
    assert!(text.contains("the set owns 3 machine(s)"), "{text}");
    assert_eq!(checked("other").0, Some(0));
}

#[test]
fn w172_a_negative_timeout_is_a_mistake_of_the_command_line() {
    for arguments in [
        ["wait", "--for=rollout", "--timeout=-1s"].as_slice(),
        &["migrate", "machine", "m", "--to=clusterAPI", "--wait", "--timeout=-1s"],
    ] {
        let output = capstan(arguments, "");
        assert_eq!(output.status.code(), Some(2));
        let error = stderr(&output);
        assert!(error.contains("must not be negative"), "{error}");
    }
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

#[test]
fn w57_a_scale_of_a_set_is_refused_as_its_crd_refuses_it() {
    let folder = Folder::new();
    let with = folder.objects("set.yaml", &[set()]);
    let check = |replicas: u32| {
        let scale = json!({"apiVersion": "autoscaling/v1", "kind": "Scale",
            "metadata": {"name": "cluster", "namespace": "openshift-machine-api"}, "spec": {"replicas": replicas}});
        capstan(&["check", "-o", "json", "--with", path(&with), "-"], &scale.to_string())
    };
    let output = check(5);
    assert_eq!(output.status.code(), Some(1), "{}{}", stdout(&output), stderr(&output));
    let rows: serde_json::Value = serde_json::from_str(&stdout(&output)).unwrap();
    assert_eq!(rows[0]["causes"][0]["field"], "spec.replicas");
    assert_eq!(rows[0]["causes"][0]["rule"], "cpms-replicas-immutable");
    let output = check(3);
    assert_eq!(output.status.code(), Some(0), "{}{}", stdout(&output), stderr(&output));
}

#[test]
fn w58_the_objects_of_a_file_that_have_different_kinds_are_given_to_each_other() {
    let folder = Folder::new();
    let machines: Vec<_> = ["a", "b", "c"]
        .iter()
        .enumerate()
        .map(|(i, zone)| super::machine(i, zone))
        .collect();
    let file = folder.file("all.json", &list(&[vec![set()], machines].concat()));
    let output = capstan(&["check", path(&file)], "");
    assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
    assert!(
        !stdout(&output).contains("Machines are not given"),
        "{}",
        stdout(&output)
    );
    let output = capstan(&["check", "-"], &set().to_string());
    assert!(
        stdout(&output).contains("Machines are not given"),
        "{}",
        stdout(&output)
    );
}

#[test]
fn w58_a_plan_of_machines_with_nodes_needs_the_nodes() {
    let mut machine = super::machine(0, "a");
    machine["status"] = json!({"nodeRef": {"kind": "Node", "name": "node-0"}});
    let output = capstan(&["plan", "-f", "-"], &list(&[set(), machine.clone()]));
    assert_eq!(output.status.code(), Some(2), "{}", stdout(&output));
    let must = "the Nodes must be given too: the Machine prod-x7k2p-master-0 has the node node-0";
    assert!(stderr(&output).contains(must), "{}", stderr(&output));
    let none = json!({"apiVersion": "v1", "kind": "NodeList", "items": []});
    let folder = Folder::new();
    let none = folder.file("nodes.json", &none.to_string());
    let output = capstan(&["plan", "-f", "-", "-f", path(&none)], &list(&[set(), machine]));
    assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
}

/// A set on vSphere without failure domains, and its Machines with another kind of provider spec.
#[test]
fn w59_a_misspelt_kind_of_provider_spec_is_refused_and_can_be_corrected() {
    let folder = Folder::new();
    let of_kind = |mut object: serde_json::Value, pointer: &str, kind: &str| {
        *object.pointer_mut(pointer).unwrap() = json!({"kind": kind, "numCPUs": 4,
            "credentialsSecret": {"name": "c"}, "userDataSecret": {"name": "u"}, "template": "t",
            "workspace": {"datacenter": "d", "datastore": "s", "server": "v"},
            "network": {"devices": [{"networkName": "n"}]}, "memoryMiB": 16384, "diskGiB": 120});
        object
    };
    let spec = format!("/spec/template/{}/spec/providerSpec/value", super::MACHINE);
    let of_set = |kind: &str, replicas: u32| {
        let mut set = of_kind(set(), &spec, kind);
        let template = &mut set["spec"]["template"][super::MACHINE];
        template.as_object_mut().unwrap().remove("failureDomains");
        template["spec"]["providerSpec"]["value"]["numCPUs"] = json!(replicas);
        set
    };
    let machines: Vec<_> = (0..3)
        .map(|i| {
            of_kind(
                super::machine(i, "a"),
                "/spec/providerSpec/value",
                "VSphereMachineProviderSpec",
            )
        })
        .collect();
    let with = folder.objects("machines.yaml", &machines);
    let check = |more: &[&str], set: &serde_json::Value| {
        let output = capstan(
            &[&["check", "--with", path(&with)], more, &["-"]].concat(),
            &set.to_string(),
        );
        (output.status.code(), stdout(&output) + &stderr(&output))
    };
    let (wrong, right) = ("VSphereMachineProviderConfig", "VSphereMachineProviderSpec");
    let (code, text) = check(&[], &of_set(wrong, 4));
    assert_eq!(code, Some(1), "{text}");
    let must = "must be VSphereMachineProviderSpec, the kind of the control plane Machines: no platform has the kind \
                VSphereMachineProviderConfig; write VSphereMachineProviderSpec";
    assert!(text.contains(must), "{text}");
    let old = folder.objects("old.yaml", &[of_set(wrong, 4)]);
    let (code, text) = check(&["--old", path(&old)], &of_set(right, 4));
    assert_eq!(code, Some(0), "{text}");
    let (code, text) = check(&["--old", path(&old)], &of_set("VSphereMachine", 4));
    assert_eq!(code, Some(1), "{text}");
    assert!(
        text.contains("write VSphereMachineProviderSpec: no platform has the kind VSphereMachineProviderConfig"),
        "{text}"
    );
    let (code, text) = check(&["--old", path(&old)], &of_set(wrong, 8));
    assert_eq!(code, Some(0), "a stored kind is tolerated: {text}");
    let old = folder.objects("old.yaml", &[of_set(right, 4)]);
    let (code, text) = check(&["--old", path(&old)], &of_set(wrong, 4));
    assert_eq!(code, Some(1), "{text}");
    assert!(text.contains("must stay VSphereMachineProviderSpec"), "{text}");
}

#[test]
fn w64_a_name_that_no_client_asks_for_gets_no_certificate() {
    let folder = Folder::new();
    let issue = |name: &str| capstan(&["certs", "issue", "--dir", path(folder.0.path()), "--dns", name], "");
    for name in [
        "https://capstan-webhook.a.svc:443/",
        "bad name",
        "a..b",
        "a.svc.",
        "127.0.0.1:443",
    ] {
        let output = issue(name);
        assert_eq!(output.status.code(), Some(2), "{name}: {}", stdout(&output));
        assert!(stderr(&output).contains("must be a DNS name"), "{}", stderr(&output));
    }
    for name in [
        "capstan-webhook.a.svc",
        "*.example.org",
        "127.0.0.1",
        "::1",
        "localhost",
    ] {
        assert_eq!(issue(name).status.code(), Some(0), "{name}");
    }
}

#[test]
fn w65_a_flag_without_effect_is_refused_or_noted() {
    let output = capstan(&["check", "--propagation", "foreground", "-"], &set().to_string());
    assert_eq!(output.status.code(), Some(2), "{}", stdout(&output));
    assert!(stderr(&output).contains("--operation delete"), "{}", stderr(&output));
    let output = capstan(&["plan", "-n", "other", "-f", "-"], &set().to_string());
    let note = "the set is in the namespace openshift-machine-api, and --namespace is other";
    assert!(stderr(&output).contains(note), "{}", stderr(&output));
}

#[test]
fn w67_labels_and_annotations_are_refused_as_an_api_server_refuses_them() {
    let check = |change: &dyn Fn(&mut serde_json::Value)| {
        let mut set = set();
        change(&mut set["metadata"]);
        let output = capstan(&["check", "-"], &set.to_string());
        (output.status.code(), stdout(&output) + &stderr(&output))
    };
    let long = "a".repeat(64);
    for value in ["prod x7!", long.as_str(), "-a"] {
        let (code, text) = check(&|metadata| metadata["labels"] = json!({"a": value}));
        assert_eq!(code, Some(1), "{value}: {text}");
        assert!(text.contains("metadata.labels[a]: Invalid value"), "{text}");
    }
    for change in [
        json!({"labels": {"a/b/c": "x"}}),
        json!({"annotations": {"a/b/c": "x"}}),
        json!({"annotations": {"a": "x".repeat(256 * 1024)}}),
    ] {
        let (code, text) = check(&|metadata| json_patch::merge(metadata, &change));
        assert_eq!(code, Some(1), "{text}");
    }
    for change in [
        json!({"labels": {"example.org/Name_1": "a.B-c_9", "b": ""}}),
        json!({"annotations": {"EXAMPLE.org/A": "any text!"}}),
    ] {
        let (code, text) = check(&|metadata| json_patch::merge(metadata, &change));
        assert_eq!(code, Some(0), "{text}");
    }
    let (code, text) = check(&|metadata| metadata["labels"] = json!({"foo": null}));
    assert_eq!(code, Some(0), "a null is the empty text: {text}");
}

#[test]
fn w67_a_whole_number_with_a_point_or_an_exponent_is_an_integer() {
    let text = serde_json::to_string_pretty(&set()).unwrap();
    assert!(text.contains("\"replicas\": 3,"));
    for number in ["3.0", "3e0", "30e-1"] {
        let text = text.replace("\"replicas\": 3,", &format!("\"replicas\": {number},"));
        let output = capstan(&["check", "-"], &text);
        assert_eq!(output.status.code(), Some(0), "{number}: {}", stdout(&output));
    }
    let text = text.replace("\"replicas\": 3,", "\"replicas\": 3.5,");
    assert_eq!(capstan(&["check", "-"], &text).status.code(), Some(1));
}

/// Without the Machines that the files contain, each of these commands would give wrong advice.
#[test]
fn w77_a_known_kind_in_other_letters_is_an_error_and_not_left_out() {
    let folder = Folder::new();
    let mut misspelt = machine(0, "a");
    misspelt["kind"] = json!("machine");
    let file = folder.objects("machine.yaml", &[misspelt]);
    let set = folder.objects("set.yaml", &[set()]);
    for arguments in [
        &["plan", "-f", path(&set), "-f", path(&file)][..],
        &["generate", "-f", path(&file)],
        &["check", "--with", path(&file), path(&set)],
        &["status", "-f", path(&set), "-f", path(&file)],
    ] {
        let output = capstan(arguments, "");
        assert_eq!(output.status.code(), Some(2), "{arguments:?}: {}", stdout(&output));
        let reason = "no matches for kind \"machine\" in version \"machine.openshift.io/v1beta1\": upper and lower case \
                      matter; use \"Machine\"";
        assert!(stderr(&output).contains(reason), "{arguments:?}: {}", stderr(&output));
    }
}

#[test]
fn w84_a_kind_with_a_typing_error_is_an_error_and_not_left_out() {
    let folder = Folder::new();
    let set_file = folder.objects("set.yaml", &[set()]);
    let operator =
        |version: &str, kind: &str| json!({"apiVersion": version, "kind": kind, "metadata": {"name": "etcd"}});
    let mut machines = machine(0, "a");
    machines["kind"] = json!("Machines");
    let mut version = machine(0, "a");
    version["apiVersion"] = json!("machine.openshift.io/v1");
    for (object, known) in [
        (
            operator("config.openshift.io/v1", "ClusterOperators"),
            "\"ClusterOperator\" of config.openshift.io/v1",
        ),
        (
            operator("config.openshift.com/v1", "ClusterOperator"),
            "\"ClusterOperator\" of config.openshift.io/v1",
        ),
        (machines, "\"Machine\" of machine.openshift.io/v1beta1"),
        (version, "\"Machine\" of machine.openshift.io/v1beta1"),
    ] {
        let file = folder.objects("object.yaml", &[object]);
        for arguments in [
            &["plan", "-f", path(&set_file), "-f", path(&file)][..],
            &["generate", "-f", path(&file)],
            &["check", "--with", path(&file), path(&set_file)],
        ] {
            let output = capstan(arguments, "");
            assert_eq!(output.status.code(), Some(2), "{arguments:?}: {}", stdout(&output));
            assert!(stderr(&output).contains(&format!("use {known}")), "{}", stderr(&output));
        }
    }
    let mut misspelt = set();
    misspelt["kind"] = json!("ControlPlaneMachineSett");
    let output = capstan(&["check", "-"], &misspelt.to_string());
    assert_eq!(output.status.code(), Some(1), "{}", stdout(&output));
    assert!(
        stdout(&output).contains("use \"ControlPlaneMachineSet\""),
        "{}",
        stdout(&output)
    );
    // Other kinds stay unknown, also those that resemble a known one.
    let others = [
        ("v1", "Pod"),
        ("infrastructure.cluster.x-k8s.io/v1beta2", "OCIMachine"),
        ("example.com/v1", "Machine"),
    ];
    for (version, kind) in others {
        let output = capstan(&["check", "-"], &operator(version, kind).to_string());
        assert_eq!(output.status.code(), Some(0), "{kind}: {}", stdout(&output));
    }
}

#[test]
fn w85_a_page_of_machines_without_their_nodes_is_refused() {
    let mut machine = machine(0, "a");
    machine["status"] = json!({"nodeRef": {"kind": "Node", "name": "node-0"}});
    let objects = list(&[set(), machine]);
    let output = capstan(&["status", "-o", "html", "-f", "-"], &objects);
    assert_eq!(output.status.code(), Some(2), "{}", stdout(&output).len());
    assert!(
        stderr(&output).contains("the Nodes must be given too"),
        "{}",
        stderr(&output)
    );
}

#[test]
fn w78_a_set_whose_name_is_a_number_cannot_be_planned() {
    let mut numbered = set();
    numbered["metadata"]["name"] = json!(5);
    let output = capstan(&["plan", "-f", "-"], &numbered.to_string());
    assert_eq!(output.status.code(), Some(2), "{}", stdout(&output));
    let reason = "metadata.name must be a text, and is 5; put it in quotes";
    assert!(stderr(&output).contains(reason), "{}", stderr(&output));
}

#[test]
fn w80_the_node_of_a_machine_that_cannot_be_read_is_not_called_unmanaged() {
    let node = |index: usize| {
        json!({"apiVersion": "v1", "kind": "Node", "metadata": {"name": format!("node-{index}"),
            "creationTimestamp": "2026-01-01T00:00:00Z", "labels": {"node-role.kubernetes.io/master": ""}},
            "status": {"conditions": [{"type": "Ready", "status": "True"}]}})
    };
    let with_node = |index: usize| {
        let mut machine = machine(index, ["a", "b", "c"][index]);
        machine["status"] = json!({"phase": "Running", "nodeRef": {"kind": "Node", "name": format!("node-{index}")}});
        machine
    };
    let mut objects = vec![set()];
    objects.extend((0..3).map(node));
    objects.extend((0..3).map(with_node));
    objects[4]["metadata"]["labels"]["team"] = json!(1);
    let output = capstan(&["plan", "--now=2026-06-01T00:00:00Z", "-f", "-"], &list(&objects));
    assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
    let text = stdout(&output);
    assert!(
        text.contains("UnparsableObjects") && !text.contains("UnmanagedNodes"),
        "{text}"
    );
    objects[4]["metadata"]["labels"].as_object_mut().unwrap().remove("team");
    objects.remove(5);
    let output = capstan(&["plan", "--now=2026-06-01T00:00:00Z", "-f", "-"], &list(&objects));
    assert!(stdout(&output).contains("UnmanagedNodes"), "{}", stdout(&output));
}

#[test]
fn w76_check_refuses_metadata_that_an_api_server_refuses() {
    for (field, value) in [
        ("labels", json!({"team": 1})),
        (
            "ownerReferences",
            json!([{"apiVersion": "v1", "kind": "A", "name": "a"}]),
        ),
        ("name", json!(null)),
    ] {
        for mut object in [machine(0, "a"), set()] {
            object["metadata"][field] = value.clone();
            let output = capstan(&["check", "-"], &object.to_string());
            assert_eq!(
                output.status.code(),
                Some(1),
                "{field}: {}{}",
                stdout(&output),
                stderr(&output)
            );
            assert!(
                stdout(&output).contains(&format!("metadata.{field}")),
                "{}",
                stdout(&output)
            );
        }
    }
}

#[test]
fn w88_each_result_in_sarif_has_its_rule_and_none_names_a_field_that_does_not_exist() {
    let mut object = set();
    object["spec"]["replicas"] = json!("3");
    object["spec"].as_object_mut().unwrap().remove("selector");
    let output = capstan(&["check", "-o", "sarif", "-"], &object.to_string());
    assert_eq!(output.status.code(), Some(1), "{}", stderr(&output));
    let report: Value = serde_json::from_str(&stdout(&output)).unwrap();
    let run = &report["runs"][0];
    let list = |of: &Value| of.as_array().unwrap().clone();
    let rules: Vec<Value> = list(&run["tool"]["driver"]["rules"])
        .iter()
        .map(|rule| rule["id"].clone())
        .collect();
    let results = list(&run["results"]);
    let hints = results.iter().filter(|result| result["level"] == "note");
    assert_eq!(hints.count(), 1, "the rules that were not checked: {results:?}");
    for result in &results {
        assert!(rules.contains(&result["ruleId"]), "{result}");
        assert!(
            !result["message"]["text"].as_str().unwrap().contains("<nil>"),
            "{result}"
        );
    }
}

#[test]
fn w89_the_state_of_files_with_two_control_planes_names_both() {
    let kubeadm = json!({"apiVersion": "controlplane.cluster.x-k8s.io/v1beta2", "kind": "KubeadmControlPlane",
        "metadata": {"name": "a", "namespace": "default"}, "spec": {}});
    let output = capstan(&["status", "-f", "-"], &list(&[set(), kubeadm]));
    assert_eq!(output.status.code(), Some(2), "{}", stdout(&output));
    let must = "must not contain a ControlPlaneMachineSet beside a KubeadmControlPlane";
    assert!(stderr(&output).contains(must), "{}", stderr(&output));
}

#[test]
fn w157_flags_of_other_controllers_are_refused() {
    let controllers = [
        "--controllers",
        "--mirroring-controllers",
        "--control-plane-controllers",
        "--kubeadm-control-plane-controllers",
        "--machine-pool-controllers",
    ];
    let flags = [
        ("--machinepools=own", 4),
        ("--etcd-route=port-forward", 3),
        ("--etcd-members=operator", 2),
    ];
    for (flag, own) in flags {
        for controller in controllers.iter().filter(|controller| **controller != controllers[own]) {
            let output = capstan(&["serve", "--dev-certificate", "/nonexistent", controller, flag], "");
            let error = stderr(&output);
            assert_eq!(output.status.code(), Some(2), "{error}");
            assert!(
                error.contains("cannot be used with") && error.contains(controller),
                "{error}"
            );
        }
        let output = capstan(&["serve", "--dev-certificate", "/nonexistent", flag], "");
        let required = stderr(&output).contains(controllers[own]);
        assert!(output.status.code() == Some(2) && required, "{}", stderr(&output));
    }
}

#[test]
fn w160_leases_that_cannot_be_taken_and_certificates_without_a_user_are_refused() {
    let serve = [
        "serve",
        "--dev-certificate",
        "/nonexistent",
        "--control-plane-controllers",
    ];
    let cases = [
        ("--lease=", "must have at most 253 characters"),
        ("--control-plane-lease=A", "must have at most 253 characters"),
        ("--kubeadm-control-plane-lease=a_b", "must have at most 253 characters"),
        ("--machine-pool-lease=-a", "must have at most 253 characters"),
        ("--mirroring-lease=a/b", "must have at most 253 characters"),
        ("--lease-duration=1s", "must be at least 2s"),
        ("--lease-duration=2h", "must be at most 1h"),
        ("--etcd-certificates=/nonexistent", "--etcd-members"),
    ];
    for (flag, expected) in cases {
        let output = capstan(&[&serve[..], &[flag]].concat(), "");
        let error = stderr(&output);
        assert!(
            output.status.code() == Some(2) && error.contains(expected),
            "{flag}: {error}"
        );
    }
}

/// A Lease whose holder has no name is free for every process.
#[test]
fn v274_an_empty_identity_is_refused() {
    let serve = ["serve", "--dev-certificate", "memory", "--controllers"];
    for flag in ["--identity=", "--identity=a b"] {
        let output = capstan(&[&serve[..], &[flag]].concat(), "");
        let error = stderr(&output);
        let expected = "must not be empty, and must contain only letters, digits, and signs of ASCII";
        assert!(
            output.status.code() == Some(2) && error.contains(expected),
            "{flag}: {error}"
        );
    }
}

#[test]
fn w163_a_folder_of_etcd_certificates_that_does_not_exist_is_refused() {
    let serve = ["serve", "--dev-certificate", "memory", "--control-plane-controllers"];
    let folder = Folder::new();
    let file = folder.file("file", "");
    for (place, expected) in [
        ("/nonexistent", "reading --etcd-certificates /nonexistent: No such file"),
        (path(&file), "must be a folder with ca.crt, tls.crt, and tls.key"),
    ] {
        let flags = ["--etcd-members=capstan", "--etcd-certificates", place];
        let output = capstan(&[&serve[..], &flags].concat(), "");
        let error = stderr(&output);
        assert!(!output.status.success() && error.contains(expected), "{place}: {error}");
    }
}

#[test]
fn w164_cipher_suites_that_no_version_uses_are_refused() {
    let flags = [
        "serve",
        "--dev-certificate=memory",
        "--tls-min-version=1.3",
        "--tls-cipher-suite=ECDHE-RSA-AES128-GCM-SHA256",
    ];
    let output = capstan(&flags, "");
    let error = stderr(&output);
    let expected = "no --tls-cipher-suite is one of TLS 1.3, which --tls-min-version demands";
    assert!(!output.status.success() && error.contains(expected), "{error}");
}
