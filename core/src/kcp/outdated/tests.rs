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
