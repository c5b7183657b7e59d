//! Verdicts that once differed from those of Cluster API.

use super::*;

/// A control plane of `v1beta1` with a field below the spec.
fn older(field: &str, value: Value) -> Value {
    let object = json!({
        "apiVersion": API_VERSION_V1BETA1, "kind": "KubeadmControlPlane", "metadata": {"name": "cp", "namespace": "ns"},
        "spec": {
            "replicas": 3, "version": "v1.33.1", "kubeadmConfigSpec": {},
            "machineTemplate": {"infrastructureRef": {"apiVersion": "example.org/v1", "kind": "T", "name": "t"}},
        },
    });
    with(&object, &[(&format!("/spec/{field}"), value)])
}

fn message(object: &Value) -> String {
    let edit = Edit {
        operation: Operation::Create,
        subresource: "",
        namespace: "ns",
        name: "cp",
        object: Some(object),
        old: None,
        propagation: None,
        user: &User::default(),
        dry_run: true,
    };
    let violations = validate(&edit, None, ALL_GATES).violations;
    violations.iter().map(ToString::to_string).collect()
}

#[test]
fn v40_a_bootstrap_token_has_the_form_that_clients_can_read() {
    let tokens = "/spec/kubeadmConfigSpec/initConfiguration/bootstrapTokens";
    let path = "spec.kubeadmConfigSpec.initConfiguration.bootstrapTokens[0].token";
    let valid_token = "abcdef.0123456789abcdef";
    assert_create(&[(tokens, json!([{"token": valid_token, "ttlSeconds": 5}]))], &[]);
    for token in [
        "x",
        "",
        "abcdef.0123456789abcde",
        "Abcdef.0123456789abcdef",
        "abcdef.0123456789abcdef\n",
        "abcdef-0123456789abcdef",
    ] {
        assert_create(&[(tokens, json!([{"token": token}]))], &[("kcp-bootstrap-token", path)]);
        let message = message(&with(&valid(), &[(tokens, json!([{"token": token}]))]));
        assert!(
            token.is_empty() || !message.contains(&format!("\"{token}\"")),
            "{message}"
        );
    }
}

#[test]
fn v41_the_time_to_live_of_a_token_is_a_duration() {
    let field = "kubeadmConfigSpec/initConfiguration/bootstrapTokens";
    let token = |ttl: &str| json!([{"token": "abcdef.0123456789abcdef", "ttl": ttl}]);
    assert_eq!(create(&older(field, token("24h")), ALL_GATES), []);
    for ttl in ["1d", "10", "", "10S", "1 s", "99999999h"] {
        let path = "spec.kubeadmConfigSpec.initConfiguration.bootstrapTokens[0].ttlSeconds";
        let object = older(field, token(ttl));
        assert_eq!(
            create(&object, ALL_GATES),
            expected(&[("kcp-field-types", path)]),
            "{ttl}"
        );
        let message = message(&object);
        assert!(
            message.contains("in v1beta1 a duration such as 10m0s") && !message.contains("i32"),
            "{message}"
        );
    }
}

#[test]
fn v44_a_template_cannot_become_one_of_machines_that_join_a_control_plane() {
    let refused = expected(&[("kcpt-immutable", "spec.template.spec")]);
    let joins = |value: Value| {
        let path = "/spec/template/spec/kubeadmConfigSpec/joinConfiguration/controlPlane";
        with(&template(), &[(path, value)])
    };
    assert_eq!(update_template(&template(), &joins(json!({}))), refused);
    assert_eq!(update_template(&joins(json!({})), &template()), refused);
    assert_eq!(update_template(&template(), &joins(Value::Null)), []);
    assert_update(
        &[("/spec/kubeadmConfigSpec/joinConfiguration/controlPlane", json!({}))],
        &[],
    );
}

#[test]
fn v45_a_negative_duration_is_allowed_in_v1beta1_and_one_of_more_than_64_bits_is_not() {
    for (field, path) in [
        (
            "machineTemplate/nodeDrainTimeout",
            "machineTemplate.spec.deletion.nodeDrainTimeoutSeconds",
        ),
        ("remediationStrategy/retryPeriod", "remediation.retryPeriodSeconds"),
    ] {
        for duration in ["-1s", "-0s", "0"] {
            assert_eq!(
                create(&older(field, json!(duration)), ALL_GATES),
                [],
                "{field} {duration}"
            );
        }
        let path = format!("spec.{path}");
        for duration in ["2562047h47m16.854775808s", "ten"] {
            let found = create(&older(field, json!(duration)), ALL_GATES);
            assert_eq!(found, expected(&[("kcp-field-types", &path)]), "{field} {duration}");
        }
    }
}

#[test]
fn d7_2_a_refusal_of_the_tag_of_core_dns_names_the_field_from_the_spec_on() {
    let found = create(
        &with(&valid(), &borrowed(&cluster("dns/imageTag", json!("latest")))),
        ALL_GATES,
    );
    let path = "spec.kubeadmConfigSpec.clusterConfiguration.dns.imageTag";
    assert_eq!(found, expected(&[("kcp-dns-image-tag", path)]));
}

#[test]
fn d7_2_an_update_that_gives_core_dns_to_the_controller_must_be_a_path_of_its_migration() {
    let base = with(&valid(), &borrowed(&cluster("imageRepository", json!("example.org"))));
    let tag = |tag: &str| with(&base, &borrowed(&cluster("dns/imageTag", json!(tag))));
    let annotation = json!({"controlplane.cluster.x-k8s.io/skip-coredns": ""});
    let skipping = with(&tag("1.6.6"), &[("/metadata/annotations", annotation)]);
    let path = "spec.kubeadmConfigSpec.clusterConfiguration.dns.imageTag";
    // Only the new object decides: after the update, the controller migrates CoreDNS.
    let refused = expected(&[("kcp-core-dns-path", path)]);
    assert_eq!(update(&skipping, &tag("1.6.5")), refused);
    assert_eq!(update(&skipping, &tag("1.6.7")), []);
}

#[test]
fn d7_8_a_control_plane_with_zero_machines_is_refused() {
    let found = create(&with(&valid(), &[("/spec/replicas", json!(0))]), ALL_GATES);
    let rules: Vec<&str> = found.iter().map(|(rule, _)| rule.as_str()).collect();
    assert!(rules.contains(&"kcp-replicas-positive"), "{rules:?}");
}

#[test]
fn v46_a_reference_with_more_than_one_slash_in_its_version_has_no_group() {
    let field = "machineTemplate/infrastructureRef/apiVersion";
    let path = "spec.machineTemplate.spec.infrastructureRef.apiGroup";
    assert_eq!(
        create(&older(field, json!("a/b/c")), ALL_GATES),
        expected(&[("kcp-infrastructure-ref", path)])
    );
    assert_eq!(create(&older(field, json!("a/b")), ALL_GATES), []);
}

#[test]
fn v47_a_switch_of_ignition_that_is_off_needs_no_ignition_in_v1beta1() {
    let strict = |value: bool| older("kubeadmConfigSpec/ignition/containerLinuxConfig/strict", json!(value));
    assert_eq!(create(&strict(false), ALL_GATES), []);
    assert_eq!(
        create(&strict(true), ALL_GATES),
        expected(&[("kcp-ignition", "spec.kubeadmConfigSpec.format")])
    );
}

#[test]
fn v48_a_whole_number_may_have_a_fraction_of_zero() {
    assert_create(&[("/spec/replicas", json!(3.0))], &[]);
    assert_create(
        &[("/spec/replicas", json!(2.0))],
        &[("kcp-replicas-odd", "spec.replicas")],
    );
    for number in [json!(2.5), json!(1e300), json!(-1e19)] {
        assert_create(&[("/spec/replicas", number)], &[("kcp-field-types", "spec.replicas")]);
    }
}

#[test]
fn v64_a_template_may_change_to_values_that_mean_the_same() {
    let template = |api_server: Value, taints: Value| {
        json!({"apiVersion": "controlplane.cluster.x-k8s.io/v1beta2", "kind": "KubeadmControlPlaneTemplate",
            "metadata": {"name": "t"}, "spec": {"template": {"spec": {"kubeadmConfigSpec": {
                "clusterConfiguration": {"apiServer": api_server},
                "initConfiguration": {"nodeRegistration": {"taints": taints}}}}}}})
    };
    let env = |divisor: Value| {
        json!({"extraEnvs": [{"name": "C", "valueFrom": {"resourceFieldRef": {"resource": "limits.cpu",
            "divisor": divisor}}}]})
    };
    let taint =
        |time: &str, value: &str| json!([{"key": "k", "value": value, "effect": "NoSchedule", "timeAdded": time}]);
    let judged = |old: &Value, new: &Value| found(new, Some(old), "", |edit| validate_template(edit, ALL_GATES)).len();
    let old = template(env(json!("1")), taint("2026-01-01T00:00:00Z", ""));
    let same = template(env(json!("1000m")), taint("2026-01-01T01:00:00+01:00", ""));
    assert_eq!(judged(&old, &same), 0);
    let other = template(env(json!("1000m")), taint("2026-01-01T01:00:00Z", ""));
    assert_eq!(judged(&old, &other), 1);
}

#[test]
fn v68_a_time_before_which_machines_are_outdated_is_warned_of() {
    let after = |time: Value| with(&valid(), &[("/spec/rollout/after", time)]);
    let warnings = |old: &Value, new: &Value| {
        let mut texts = Vec::new();
        found(new, Some(old), "", |edit| {
            let verdict = validate(edit, None, ALL_GATES);
            texts.extend(verdict.warnings.iter().map(|warning| warning.text.clone()));
            verdict
        });
        texts
    };
    let (old, new) = (valid(), after(json!("2026-11-22T00:00:00Z")));
    let text = warnings(&old, &new).join("");
    assert!(text.contains("from 2026-11-22T00:00:00Z on"), "{text}");
    assert!(warnings(&new, &new).is_empty());
    assert!(warnings(&new, &old).is_empty());
}

#[test]
fn v234_the_defaults_of_the_webhook_do_not_prevent_the_removal_of_a_finalizer() {
    let mut old = with(&valid(), &[("/spec/replicas", json!(2))]);
    old["spec"].as_object_mut().unwrap().remove("rollout");
    let mut new = defaults::defaulted(&old);
    assert_ne!(new["spec"], old["spec"]);
    new["metadata"]["finalizers"] = json!([]);
    assert!(!update(&old, &new).is_empty());
    new["metadata"]["deletionTimestamp"] = json!("2026-01-01T00:00:00Z");
    assert_eq!(update(&old, &new), []);
}
