//! `capstan plan` and `capstan status` with the files of a KubeadmControlPlane.

use serde_json::{Value, json};

use super::{capstan, stderr, stdout};

const NOW: &str = "2026-06-01T12:00:00Z";

/// A healthy control plane of three machines in three failure domains.
fn objects() -> Vec<Value> {
    let domains = ["a", "b", "c"].map(|name| json!({"name": name, "controlPlane": true}));
    let mut objects = vec![
        json!({
            "apiVersion": "controlplane.cluster.x-k8s.io/v1beta2", "kind": "KubeadmControlPlane",
            "metadata": {
                "name": "cp", "namespace": "ns",
                "ownerReferences": [{
                    "apiVersion": "cluster.x-k8s.io/v1beta2", "kind": "Cluster", "name": "c", "uid": "c-uid",
                }],
            },
            "spec": {
                "replicas": 3, "version": "v1.33.0", "kubeadmConfigSpec": {},
                "machineTemplate": {"spec": {"infrastructureRef": {
                    "apiGroup": "infrastructure.cluster.x-k8s.io", "kind": "DevMachineTemplate", "name": "t",
                }}},
            },
            "status": {
                "initialization": {"controlPlaneInitialized": true},
                "conditions": [{"type": "CertificatesAvailable", "status": "True"}],
            },
        }),
        json!({
            "apiVersion": "cluster.x-k8s.io/v1beta2", "kind": "Cluster",
            "metadata": {"name": "c", "namespace": "ns"},
            "spec": {"controlPlaneEndpoint": {"host": "10.0.0.1", "port": 6443}},
            "status": {"initialization": {"infrastructureProvisioned": true}, "failureDomains": domains},
        }),
        json!({
            "apiVersion": "capstan.dev/v1", "kind": "EtcdMembers", "leader": "n-0",
            "members": [{"name": "n-0"}, {"name": "n-1"}, {"name": "n-2"}],
        }),
    ];
    for (index, domain) in ["a", "b", "c"].iter().enumerate() {
        let conditions = [
            "APIServerPodHealthy",
            "ControllerManagerPodHealthy",
            "SchedulerPodHealthy",
            "EtcdPodHealthy",
            "EtcdMemberHealthy",
        ]
        .map(|type_| json!({"type": type_, "status": "True"}));
        objects.push(json!({
            "apiVersion": "cluster.x-k8s.io/v1beta2", "kind": "Machine",
            "metadata": {
                "name": format!("m-{index}"), "namespace": "ns",
                "creationTimestamp": format!("2026-01-0{}T00:00:00Z", index + 1),
                "labels": {"cluster.x-k8s.io/cluster-name": "c", "cluster.x-k8s.io/control-plane": ""},
                "ownerReferences": [{
                    "apiVersion": "controlplane.cluster.x-k8s.io/v1beta2", "kind": "KubeadmControlPlane",
                    "name": "cp", "uid": "cp-uid", "controller": true,
                }],
            },
            "spec": {"clusterName": "c", "version": "v1.33.0", "failureDomain": domain, "providerID": "dev://x"},
            "status": {"nodeRef": {"name": format!("n-{index}")}, "conditions": conditions},
        }));
    }
    objects
}

fn run(arguments: &[&str], objects: &[Value]) -> String {
    let texts: Vec<String> = objects.iter().map(Value::to_string).collect();
    let output = capstan(
        &[arguments, &["-f", "-", "--now", NOW]].concat(),
        &texts.join("\n---\n"),
    );
    assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
    stdout(&output)
}

#[test]
fn w144_a_control_plane_that_an_api_server_would_not_store_has_a_note() {
    let notes = |objects: &[Value]| {
        let texts: Vec<String> = objects.iter().map(Value::to_string).collect();
        ["plan", "status"].map(|command| {
            let output = capstan(&[command, "-f", "-", "--now", NOW], &texts.join("\n---\n"));
            assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
            stderr(&output)
                .contains("`capstan check` refuses the KubeadmControlPlane ns/cp, so the result may be wrong: ")
        })
    };
    let valid = || {
        let mut objects = objects();
        objects[0]["spec"]["kubeadmConfigSpec"] = json!({"format": "cloud-config"});
        objects
    };
    assert_eq!(notes(&valid()), [false, false]);
    for (field, value) in [
        ("replicas", json!(-3)),
        ("replicas", json!(2)),
        ("version", json!("latest")),
        ("machineTemplate", json!({})),
    ] {
        let mut objects = valid();
        objects[0]["spec"][field] = value;
        assert_eq!(notes(&objects), [true, true], "{field}");
    }
    // The gates of the command count, and an object that is not planned is not checked.
    let mut gated = valid();
    gated[0]["spec"]["kubeadmConfigSpec"] = json!({"format": "ignition"});
    let pool = json!({"apiVersion": "cluster.x-k8s.io/v1beta2", "kind": "MachinePool",
        "metadata": {"name": "p", "namespace": "ns"}, "spec": {}});
    gated.push(pool);
    assert_eq!(notes(&gated), [true, true]);
    let texts: Vec<String> = gated.iter().map(Value::to_string).collect();
    let gate = "KubeadmBootstrapFormatIgnition=true";
    let arguments = ["plan", "-f", "-", "--now", NOW, "--feature-gates", gate];
    let notes = stderr(&capstan(&arguments, &texts.join("\n---\n")));
    assert!(notes.ends_with("plan it alone\n"), "{notes}");
    assert_eq!(notes.lines().count(), 1, "{notes}");
}

#[test]
fn w151_a_plan_without_machines_does_not_say_that_they_match() {
    let mut objects = objects();
    objects[0]["spec"]["replicas"] = json!(0);
    objects[0]["metadata"]["finalizers"] = json!(["kubeadm.controlplane.cluster.x-k8s.io"]);
    objects[2]["members"] = json!([]);
    objects[2]["leader"] = json!("");
    objects.truncate(3);
    let text = run(&["plan"], &objects);
    assert!(
        text.contains("Nothing to do: there is no machine, and none is wanted."),
        "{text}"
    );
}

#[test]
fn w152_the_status_without_a_number_of_replicas_does_not_show_null() {
    let mut objects = objects();
    objects[0]["spec"]["replicas"] = json!(-1);
    let text = run(&["status"], &objects);
    assert!(text.contains("3 of ? up to date and ready"), "{text}");
    let text = run(&["plan"], &objects);
    assert!(
        text.contains("spec.replicas is not set to a number of machines"),
        "{text}"
    );
}

fn planned(objects: &[Value]) -> Value {
    serde_json::from_str(&run(&["plan", "-o", "json"], objects)).unwrap()
}

#[test]
fn a_plan_has_the_keys_of_a_set_and_the_kind() {
    let mut objects = objects();
    objects[0]["spec"]["version"] = json!("v1.34.0");
    let plan = planned(&objects);
    assert_eq!(
        (&plan["set"], &plan["kind"]),
        (&json!("cp"), &json!("KubeadmControlPlane"))
    );
    assert_eq!(
        plan["changes"],
        json!([{"field": "version", "old": "v1.33.0", "new": "v1.34.0"}])
    );
    assert_eq!(
        (&plan["next"][0]["action"], &plan["next"][0]["failureDomain"]),
        (&json!("create"), &json!("a"))
    );
    let steps = plan["rollout"].as_array().unwrap().iter();
    let actions: Vec<&str> = steps.map(|step| step["action"].as_str().unwrap()).collect();
    assert_eq!(actions, ["create", "delete", "create", "delete", "create", "delete"]);
    assert_eq!(plan["rollout"][1]["machine"], "m-0");
    assert_eq!(plan["waits"], json!([]));
    let text = run(&["plan"], &objects);
    assert!(text.starts_with("KubeadmControlPlane cp, revision "), "{text}");
    assert!(text.contains("  in a: m-0 (ready, outdated)"), "{text}");
}

#[test]
fn a_plan_shows_the_quorum_and_what_a_step_waits_for() {
    let mut objects = objects();
    objects[0]["spec"]["replicas"] = json!(1);
    let plan = planned(&objects);
    assert_eq!(plan["next"][0]["machine"], "m-0");
    assert_eq!(plan["next"][0]["moveLeaderTo"], json!(["m-2", "m-1"]));
    assert_eq!(plan["etcd"]["quorum"], 2);
    objects[4]["status"]["conditions"][4]["status"] = json!("Unknown");
    let plan = planned(&objects);
    assert_eq!(plan["next"], json!([]));
    assert_eq!(
        (&plan["waits"][0]["for"], &plan["waits"][0]["machine"]),
        (&json!("EtcdHealthy"), &json!("m-1"))
    );
    let members = plan["etcd"]["members"].as_array().unwrap().iter();
    let safe: Vec<bool> = members
        .map(|member| member["removalIsSafe"].as_bool().unwrap())
        .collect();
    assert_eq!(safe, [false, true, false]);
}

#[test]
fn the_status_of_files_has_the_conditions() {
    let status: Value = serde_json::from_str(&run(&["status", "-o", "json"], &objects())).unwrap();
    assert_eq!(
        (&status["set"], &status["kind"]),
        (&json!("cp"), &json!("KubeadmControlPlane"))
    );
    assert_eq!(status["progress"], json!({"updated": 3, "total": 3}));
    let conditions = status["conditions"].as_array().unwrap();
    let available = conditions
        .iter()
        .find(|condition| condition["type"] == "Available")
        .unwrap();
    assert_eq!(available["status"], "True");
    let text = run(&["status"], &objects());
    assert!(text.contains("Available: True (Available)"), "{text}");
    assert!(
        text.contains("├─ m-0  in a  v1.33.0  ready, up to date, Node n-0"),
        "{text}"
    );
}

#[test]
fn an_object_that_cannot_be_read_is_named() {
    let mut objects = objects();
    objects[3]["spec"]["version"] = json!(5);
    let texts: Vec<String> = objects.iter().map(Value::to_string).collect();
    let output = capstan(&["plan", "-f", "-"], &texts.join("\n---\n"));
    assert_eq!(output.status.code(), Some(2));
    let error = stderr(&output);
    assert!(
        error.contains("Machine \"m-0\" must be readable: spec.version"),
        "{error}"
    );
}

/// The exit code and the text of standard error.
fn refused(command: &str, objects: &[Value]) -> (Option<i32>, String) {
    let texts: Vec<String> = objects.iter().map(Value::to_string).collect();
    let output = capstan(&[command, "-f", "-", "--now", NOW], &texts.join("\n---\n"));
    (output.status.code(), stderr(&output))
}

#[test]
fn w153_objects_that_do_not_belong_together_are_named() {
    let mut shared = objects();
    shared[4]["metadata"]["uid"] = json!("u");
    shared[5]["metadata"]["uid"] = json!("u");
    let mut nameless = objects();
    nameless[3]["metadata"].as_object_mut().unwrap().remove("name");
    let mut elsewhere = objects();
    elsewhere[3]["metadata"]["namespace"] = json!("other");
    for command in ["plan", "status"] {
        let (code, error) = refused(command, &shared);
        let same = "Machine \"m-1\" and \"m-2\" have the same. Correct metadata.uid";
        assert!(code == Some(2) && error.contains(same), "{error}");
        let (code, error) = refused(command, &nameless);
        let missing = "metadata.name of the Machine is missing";
        assert!(code == Some(2) && error.contains(missing), "{error}");
        let mut generated = nameless.clone();
        generated[3]["metadata"]["generateName"] = json!("m-");
        assert!(!refused(command, &generated).1.contains(missing));
        let (code, error) = refused(command, &elsewhere);
        let note = "the control plane is in namespace ns, so these objects do not belong to it: Machine other/m-0";
        assert!(code == Some(0) && error.contains(note), "{error}");
    }
}

#[test]
fn w154_the_status_of_files_shows_the_members_of_etcd() {
    let text = run(&["status"], &objects());
    assert!(
        text.contains("etcd: 3 of 3 voting members healthy; the quorum is 2"),
        "{text}"
    );
}

#[test]
fn v293_a_plan_of_objects_never_starts_a_second_etcd() {
    let plan = |objects: &[Value]| -> Value {
        serde_json::from_str(&run(&["plan", "-o", "json"], objects)).expect("the plan must be JSON")
    };
    let lost: Vec<Value> = objects()
        .into_iter()
        .filter(|object| object["kind"] != "Machine")
        .collect();
    // Neither the members nor the Nodes are known.
    let of_management_cluster = plan(&lost[..2]);
    let next = of_management_cluster["next"].as_array().expect("the steps");
    assert!(next.iter().all(|step| step["action"] != "create"), "{next:?}");
    assert_eq!(of_management_cluster["waits"][0]["for"], "EarlierControlPlaneGone");
    assert_eq!(of_management_cluster["rollout"], json!([]));
    // The status is lost too, and the members are known.
    let mut without_status = lost;
    without_status[0]["status"] = json!({});
    assert_eq!(plan(&without_status)["degraded"][0]["reason"], "MachinesMissing");
    // Only the status of the Cluster is left.
    without_status[1]["status"]["initialization"]["controlPlaneInitialized"] = json!(true);
    let waits = &plan(&without_status[..2])["waits"];
    assert_eq!(waits[0]["for"], "EarlierControlPlaneGone", "{waits}");
}

#[test]
fn w171_control_characters_of_names_and_messages_do_not_reach_the_terminal() {
    let mut strange = objects();
    strange[2]["members"][1]["name"] = json!("\u{1b}[31mn-1");
    let text = run(&["status"], &strange);
    assert!(text.contains("[31mn-1") && !text.contains('\u{1b}'), "{text:?}");
}

#[test]
fn w155_members_without_a_quorum_have_a_note() {
    let note = "note: etcd has no quorum: 1 of 3 voting members are healthy, and 2 are needed";
    let mut lost = objects();
    for member in [0, 1] {
        lost[2]["members"][member]["healthy"] = json!(false);
    }
    for command in ["plan", "status"] {
        assert!(refused(command, &lost).1.contains(note), "{command}");
        assert!(!refused(command, &objects()).1.contains("quorum"), "{command}");
    }
}

#[test]
fn w158_a_leader_that_is_no_member_is_refused() {
    let mut strange = objects();
    strange[2]["leader"] = json!("node-q");
    for command in ["plan", "status"] {
        let (code, error) = refused(command, &strange);
        assert_eq!(code, Some(2), "{error}");
        assert!(
            error.contains("leader \"node-q\" must be the name of a member"),
            "{error}"
        );
    }
}

#[test]
fn w159_an_object_that_is_planned_must_have_a_name() {
    let mut nameless = objects();
    nameless[0]["metadata"].as_object_mut().unwrap().remove("name");
    for command in ["plan", "status"] {
        let (code, error) = refused(command, &nameless);
        assert_eq!(code, Some(2), "{error}");
        assert!(
            error.contains("metadata.name of the KubeadmControlPlane is missing; add it"),
            "{error}"
        );
    }
}

#[test]
fn w156_objects_of_other_namespaces_have_a_note_whatever_their_kind() {
    for (object, title) in [(1, "Cluster other/c"), (2, "EtcdMembers other/")] {
        let mut elsewhere = objects();
        elsewhere[object]["metadata"]["namespace"] = json!("other");
        let (_, error) = refused("plan", &elsewhere);
        assert!(error.contains(&format!("do not belong to it: {title}")), "{error}");
    }
}

#[test]
fn w192_the_next_step_names_the_machine_and_its_member_apart() {
    let mut objects = objects();
    let is_first = |object: &&mut Value| object["metadata"]["name"] == "m-0";
    let machine = objects.iter_mut().find(is_first).unwrap();
    let metadata = &mut machine["metadata"];
    metadata["deletionTimestamp"] = json!("2026-06-01T11:00:00Z");
    metadata["finalizers"] = json!(["machine.cluster.x-k8s.io"]);
    metadata["annotations"] = json!({"pre-terminate.delete.hook.machine.cluster.x-k8s.io/kcp-cleanup": ""});
    let conditions = machine["status"]["conditions"].as_array_mut().unwrap();
    conditions.push(json!({"type": "Deleting", "status": "True", "reason": "WaitingForPreTerminateHook"}));
    let text = run(&["status"], &objects);
    assert!(text.contains(" m-0 n-0: machine m-0 is drained"), "{text}");
}

#[test]
fn w195_a_control_plane_without_a_namespace_is_not_given_the_machines_of_several() {
    let mut objects = objects();
    objects[0]["metadata"].as_object_mut().unwrap().remove("namespace");
    run(&["plan"], &objects);
    let is_machine = |object: &&mut Value| object["metadata"]["name"] == "m-2";
    objects.iter_mut().find(is_machine).unwrap()["metadata"]["namespace"] = json!("other");
    let (code, error) = refused("plan", &objects);
    assert_eq!(code, Some(2));
    assert!(
        error.contains("KubeadmControlPlane cp must have a namespace"),
        "{error}"
    );
    assert!(error.contains("in the namespaces ns, other;"), "{error}");
}
