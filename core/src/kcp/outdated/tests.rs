use serde_json::{Value, json};

use crate::kcp::samples::{World, kubeadm};

/// The reasons of the first machine.
fn reasons(world: &World) -> Vec<String> {
    let state = world.state();
    let differences = &state.machines[0].differences;
    differences.iter().map(|difference| difference.reason.clone()).collect()
}

fn config_of(world: &mut World) -> &mut Value {
    let mut configs = world.others.iter_mut();
    configs.find(|other| other["kind"] == "KubeadmConfig").unwrap()
}

#[test]
fn a_machine_without_a_difference_is_up_to_date() {
    assert_eq!(reasons(&World::new("abc")), Vec::<String>::new());
}

#[test]
fn a_difference_names_its_fields_and_the_version_is_first() {
    let mut world = World::new("abc");
    world.spec()["version"] = json!("v1.31.0");
    world.spec()["kubeadmConfigSpec"]["clusterConfiguration"]["imageRepository"] = json!("example.org");
    world.spec()["machineTemplate"]["spec"]["infrastructureRef"]["name"] = json!("t2");
    assert_eq!(
        reasons(&world),
        [
            "Version v1.30.0, v1.31.0 required",
            "KubeadmConfig is not up-to-date: \
             kubeadmConfigSpec.clusterConfiguration.featureGates: nothing → {\"ControlPlaneKubeletLocalMode\":true}; \
             kubeadmConfigSpec.clusterConfiguration.imageRepository: \"registry.k8s.io\" → \"example.org\"",
            "DevMachine is not up-to-date: machineTemplate.spec.infrastructureRef: \
             \"DevMachineTemplate.infrastructure.cluster.x-k8s.io/t1\" → \
             \"DevMachineTemplate.infrastructure.cluster.x-k8s.io/t2\"",
        ]
    );
}

#[test]
fn bug_7_8_a_machine_is_compared_by_its_config_and_not_by_an_annotation() {
    // The proposal stored the configuration in an annotation of the machine.
    let annotation = "controlplane.cluster.x-k8s.io/kubeadm-cluster-configuration";
    let mut world = World::new("abc");
    for machine in &mut world.machines {
        machine["metadata"]["annotations"][annotation] = json!("{\"imageRepository\": \"other.example.org\"}");
    }
    assert_eq!(reasons(&world), Vec::<String>::new());
    config_of(&mut world)["spec"]["clusterConfiguration"]["imageRepository"] = json!("other.example.org");
    assert!(reasons(&world)[0].starts_with("KubeadmConfig is not up-to-date"));
}

#[test]
fn a_secret_is_not_shown() {
    let mut world = World::new("abc");
    world.spec()["kubeadmConfigSpec"]["files"] = json!([{"path": "/a", "content": "pw1"}]);
    world.spec()["kubeadmConfigSpec"]["users"] = json!([{"name": "u", "passwd": "pw2"}]);
    let reasons = reasons(&world).join("\n");
    assert!(
        reasons.contains("kubeadmConfigSpec.files") && reasons.contains("/a"),
        "{reasons}"
    );
    assert!(!reasons.contains("pw1") && !reasons.contains("pw2"), "{reasons}");
}

#[test]
fn v60_a_field_that_is_not_known_makes_no_machine_outdated() {
    let mut world = World::new("abc");
    let spec = &mut config_of(&mut world)["spec"];
    spec["zzz"] = json!(1);
    spec["clusterConfiguration"]["zzz"] = json!({"a": "b"});
    spec["joinConfiguration"]["nodeRegistration"]["zzz"] = json!([1]);
    spec["joinConfiguration"]["nodeRegistration"]["kubeletExtraArgs"][0]["zzz"] = json!("x");
    assert_eq!(reasons(&world), Vec::<String>::new());
    // Every known field counts, also one that Capstan has no use for.
    config_of(&mut world)["spec"]["files"] = json!([{"path": "/a", "permissions": "0600"}]);
    assert_eq!(reasons(&world).len(), 1);
}

#[test]
fn v61_no_value_that_can_be_a_secret_is_shown() {
    let secret = "s3cret";
    let configurations = |value: &str| {
        let env = json!([{"name": "HTTPS_PROXY", "value": value}]);
        [
            json!({"ignition": {"containerLinuxConfig": {"additionalConfig": value}}}),
            json!({"clusterConfiguration": {"apiServer": {"extraEnvs": env}}}),
            json!({"clusterConfiguration": {"etcd": {"local": {"extraEnvs": env}}}}),
            json!({"bootCommands": [value]}),
            json!({"preKubeadmCommands": ["a", value]}),
            json!({"postKubeadmCommands": [value]}),
            json!({"files": [{"path": "/a", "content": value}]}),
            json!({"users": [{"name": "u", "passwd": value}]}),
        ]
    };
    // A value that is added, and one that is replaced.
    for before in ["", "0ther"] {
        for (old, new) in configurations(before).into_iter().zip(configurations(secret)) {
            let mut world = World::new("abc");
            if !before.is_empty() {
                json_patch::merge(&mut config_of(&mut world)["spec"], &old);
            }
            json_patch::merge(&mut world.spec()["kubeadmConfigSpec"], &new);
            // The reason is a shortened form of the changes.
            let state = world.state();
            let shown = format!("{:?}", state.machines[0].differences);
            assert!(shown.contains("(hidden)"), "{shown}");
            assert!(!shown.contains(secret) && !shown.contains("0ther"), "{shown}");
        }
    }
}

#[test]
fn a_machine_is_rolled_before_its_certificates_expire() {
    let mut world = World::new("abc");
    world.spec()["rollout"] = json!({"before": {"certificatesExpiryDays": 10}});
    assert!(reasons(&world).is_empty(), "no expiry is known");
    for (expiry, is_soon) in [("2026-06-11T11:59:59Z", true), ("2026-06-11T12:00:00Z", false)] {
        world.machines[0]["status"]["certificatesExpiryDate"] = json!(expiry);
        assert_eq!(
            reasons(&world) == ["Certificates will expire soon"],
            is_soon,
            "{expiry}"
        );
    }
    world.spec()["rollout"] = json!({});
    world.machines[0]["status"]["certificatesExpiryDate"] = json!("2026-01-01T00:00:00Z");
    assert!(reasons(&world).is_empty(), "rollout.before is not set");
}

#[test]
fn a_machine_is_rolled_after_a_time_that_is_past_if_it_is_older() {
    // The machine is from 2026-01-01T00:00:00Z, and now is 2026-06-01T12:00:00Z.
    for (after, is_rolled) in [
        ("2025-12-31T00:00:00Z", false),
        ("2026-01-01T00:00:00Z", false),
        ("2026-01-01T00:00:01Z", true),
        ("2026-06-01T11:59:59Z", true),
        ("2026-06-01T12:00:00Z", false),
        ("2026-07-01T00:00:00Z", false),
    ] {
        let mut world = World::new("abc");
        world.spec()["rollout"] = json!({"after": after});
        assert_eq!(!reasons(&world).is_empty(), is_rolled, "{after}");
    }
}

#[test]
fn fields_that_the_bootstrap_provider_sets_and_fields_of_the_join_do_not_count() {
    let mut world = World::new("abc");
    let config = &mut config_of(&mut world)["spec"];
    config["clusterConfiguration"]["controlPlaneEndpoint"] = json!("10.0.0.1:6443");
    config["clusterConfiguration"]["dns"] = json!({"imageTag": "v1"});
    config["joinConfiguration"]["discovery"] = json!({"bootstrapToken": {"token": "t"}});
    config["joinConfiguration"]["timeouts"] = json!({"controlPlaneComponentHealthCheckSeconds": 5});
    config["format"] = json!("cloud-config");
    config["files"] = json!([]);
    config["clusterConfiguration"]["apiServer"] = json!({"extraEnvs": [], "extraArgs": []});
    assert_eq!(reasons(&world), Vec::<String>::new());
}

#[test]
fn v233_a_default_value_that_cluster_api_stored_replaces_no_machine() {
    for part in ["initConfiguration", "joinConfiguration"] {
        let registration = json!({(part): {"nodeRegistration": {"imagePullPolicy": "IfNotPresent"}}});
        let mut stored = World::new("abc");
        json_patch::merge(&mut config_of(&mut stored)["spec"], &registration);
        assert_eq!(reasons(&stored), Vec::<String>::new(), "{part}");
        let mut wanted = World::new("abc");
        json_patch::merge(&mut wanted.spec()["kubeadmConfigSpec"], &registration);
        assert_eq!(reasons(&wanted), Vec::<String>::new(), "{part}");
    }
    let mut other = World::new("abc");
    let always = json!({"joinConfiguration": {"nodeRegistration": {"imagePullPolicy": "Always"}}});
    json_patch::merge(&mut other.spec()["kubeadmConfigSpec"], &always);
    assert_eq!(reasons(&other).len(), 1, "another value replaces machines");
}

#[test]
fn an_empty_list_of_taints_differs_from_no_list() {
    let mut world = World::new("abc");
    config_of(&mut world)["spec"]["joinConfiguration"]["nodeRegistration"]["taints"] = json!([]);
    assert_eq!(
        reasons(&world),
        ["KubeadmConfig is not up-to-date: kubeadmConfigSpec.joinConfiguration.nodeRegistration.taints: [] → nothing"]
    );
}

#[test]
fn the_first_machine_is_compared_as_if_it_had_joined_and_then_as_it_is() {
    let init = || {
        let mut world = World::new("abc");
        let mut config = kubeadm();
        config["joinConfiguration"] = json!({});
        config_of(&mut world)["spec"] = config;
        world
    };
    assert!(reasons(&init()).is_empty());

    let mut only_join_changed = init();
    only_join_changed.spec()["kubeadmConfigSpec"]["joinConfiguration"]["nodeRegistration"] = json!({"name": "x"});
    assert!(
        reasons(&only_join_changed).is_empty(),
        "the init configuration is the same"
    );

    let mut ca_path = init();
    ca_path.spec()["kubeadmConfigSpec"]["joinConfiguration"]["caCertPath"] = json!("/ca.crt");
    assert!(reasons(&ca_path).is_empty());

    let mut both_changed = init();
    for part in ["initConfiguration", "joinConfiguration"] {
        both_changed.spec()["kubeadmConfigSpec"][part]["skipPhases"] = json!(["addon"]);
    }
    assert_eq!(
        reasons(&both_changed),
        ["KubeadmConfig is not up-to-date: kubeadmConfigSpec.initConfiguration.skipPhases: nothing → [\"addon\"]"]
    );
}

#[test]
fn a_missing_config_or_infrastructure_machine_starts_no_rollout() {
    let mut world = World::new("abc");
    world.spec()["kubeadmConfigSpec"]["clusterConfiguration"]["imageRepository"] = json!("example.org");
    world.spec()["machineTemplate"]["spec"]["infrastructureRef"]["name"] = json!("t2");
    world.others.clear();
    assert!(reasons(&world).is_empty());
}

#[test]
fn an_infrastructure_machine_without_the_name_of_its_template_starts_no_rollout() {
    let mut world = World::new("abc");
    world.spec()["machineTemplate"]["spec"]["infrastructureRef"]["name"] = json!("t2");
    for other in &mut world.others {
        other["metadata"]["annotations"] = json!({"cluster.x-k8s.io/cloned-from-name": "t1"});
    }
    assert!(reasons(&world).is_empty());
}

#[test]
fn v64_values_that_mean_the_same_make_no_machine_outdated() {
    let divisor = |divisor: Value| json!([{"name": "CPUS", "valueFrom": {"resourceFieldRef": {"resource": "limits.cpu", "divisor": divisor}}}]);
    let cases = [
        // Cluster API writes an absent divisor as "0".
        ("extraEnvs", divisor(Value::Null), divisor(json!("0")), true),
        ("extraEnvs", divisor(json!("1")), divisor(json!("1000m")), true),
        ("extraEnvs", divisor(json!(1)), divisor(json!("1")), true),
        ("extraEnvs", divisor(json!("1Ki")), divisor(json!("1024")), true),
        ("extraEnvs", divisor(json!("1Ki")), divisor(json!("1000")), false),
        (
            "extraEnvs",
            json!([{"name": "P", "value": ""}]),
            json!([{"name": "P"}]),
            true,
        ),
        (
            "extraEnvs",
            json!([{"name": "P", "value": "x"}]),
            json!([{"name": "P"}]),
            false,
        ),
        (
            "extraVolumes",
            json!([{"name": "v", "hostPath": "/a", "mountPath": "/b", "pathType": ""}]),
            json!([{"name": "v", "hostPath": "/a", "mountPath": "/b"}]),
            true,
        ),
    ];
    for (field, wanted, stored, is_current) in cases {
        let mut world = World::new("abc");
        world.spec()["kubeadmConfigSpec"]["clusterConfiguration"]["apiServer"] = json!({ field: wanted });
        for config in world.others.iter_mut().filter(|other| other["kind"] == "KubeadmConfig") {
            config["spec"]["clusterConfiguration"]["apiServer"] = json!({ field: stored });
        }
        let is_config = |reason: &String| reason.starts_with("KubeadmConfig");
        assert_eq!(
            !reasons(&world).iter().any(is_config),
            is_current,
            "{field} {wanted} {stored}"
        );
    }
}
