//! Each rule, with an object that it allows and objects that it refuses.

use std::collections::BTreeSet;

use serde_json::json;

use super::*;
use crate::api::controlplane_cluster_x_k8s_io::{API_VERSION, API_VERSION_V1BETA1};
use crate::model::User;

mod scale;
mod verdicts;

const ALL_GATES: Gates = Gates {
    cluster_topology: true,
    ignition: true,
    taints: true,
};
const CLUSTER: &str = "/spec/kubeadmConfigSpec/clusterConfiguration";

fn valid() -> Value {
    json!({
        "apiVersion": API_VERSION,
        "kind": "KubeadmControlPlane",
        "metadata": {"name": "cp", "namespace": "ns"},
        "spec": {
            "replicas": 3,
            "version": "v1.33.1",
            "rollout": {"strategy": {"type": "RollingUpdate", "rollingUpdate": {"maxSurge": 1}}},
            "machineTemplate": {"spec": {"infrastructureRef": {"apiGroup": "example.org", "kind": "T", "name": "t"}}},
        },
    })
}

fn template() -> Value {
    let mut object = valid();
    let mut spec = object["spec"].take();
    for field in ["replicas", "version", "machineTemplate"] {
        spec.as_object_mut().unwrap().remove(field);
    }
    object["kind"] = json!("KubeadmControlPlaneTemplate");
    object["spec"] = json!({"template": {"spec": spec}});
    object
}

/// An object with other fields. Null removes a field.
fn with(object: &Value, fields: &[(&str, Value)]) -> Value {
    let mut object = object.clone();
    for (pointer, value) in fields {
        let mut place = &mut object;
        for name in pointer.trim_start_matches('/').split('/') {
            place = &mut place[name];
        }
        *place = value.clone();
    }
    object
}

type Found = Vec<(String, String)>;

fn found(object: &Value, old: Option<&Value>, subresource: &str, judge: impl FnOnce(&Edit<'_>) -> Verdict) -> Found {
    let edit = Edit {
        operation: if old.is_some() {
            Operation::Update
        } else {
            Operation::Create
        },
        subresource,
        namespace: "ns",
        name: "cp",
        object: Some(object),
        old: old.map(|old| old as &dyn Stored),
        propagation: None,
        user: &User::default(),
        dry_run: true,
    };
    let violations = judge(&edit).violations;
    for violation in &violations {
        assert!(violation.allowed.starts_with("must"), "{violation}");
        assert!(!violation.advice.is_empty(), "{violation}");
    }
    let pair = |violation: &Violation| (violation.rule.clone(), violation.path.to_string());
    violations.iter().map(pair).collect()
}

fn create(object: &Value, gates: Gates) -> Found {
    found(object, None, "", |edit| validate(edit, None, gates))
}

fn update(old: &Value, new: &Value) -> Found {
    found(new, Some(old), "", |edit| validate(edit, None, Gates::default()))
}

fn expected(expected: &[(&str, &str)]) -> Found {
    let pair = |(rule, path): &(&str, &str)| ((*rule).to_owned(), (*path).to_owned());
    let mut expected: Found = expected.iter().map(pair).collect();
    expected.sort_by(|left, right| left.1.cmp(&right.1));
    expected
}

/// Checks a creation with the given fields, with all feature gates on.
fn assert_create(fields: &[(&str, Value)], refusals: &[(&str, &str)]) {
    let found = create(&with(&valid(), fields), ALL_GATES);
    assert_eq!(found, expected(refusals), "{fields:?}");
}

/// Checks an update to the given fields.
fn assert_update(fields: &[(&str, Value)], refusals: &[(&str, &str)]) {
    assert_eq!(
        update(&valid(), &with(&valid(), fields)),
        expected(refusals),
        "{fields:?}"
    );
}

fn cluster(field: &str, value: Value) -> [(String, Value); 1] {
    [(format!("{CLUSTER}/{field}"), value)]
}

fn borrowed(fields: &[(String, Value)]) -> Vec<(&str, Value)> {
    fields
        .iter()
        .map(|(path, value)| (path.as_str(), value.clone()))
        .collect()
}

#[test]
fn a_valid_control_plane_is_allowed() {
    assert_create(&[], &[]);
    assert_eq!(create(&valid(), Gates::default()), []);
}

#[test]
fn replicas_are_positive_and_odd_unless_etcd_is_external() {
    let path = "spec.replicas";
    assert_create(&[("/spec/replicas", Value::Null)], &[("kcp-replicas-required", path)]);
    let both = [("kcp-replicas-odd", path), ("kcp-replicas-positive", path)];
    let mut found = create(&with(&valid(), &[("/spec/replicas", json!(0))]), ALL_GATES);
    found.sort();
    assert_eq!(found, expected(&both));
    assert_create(&[("/spec/replicas", json!(2))], &both[..1]);
    assert_create(&[("/spec/replicas", json!(-1))], &both[1..]);
    let external = (
        "/spec/kubeadmConfigSpec/clusterConfiguration/etcd/external/endpoints",
        json!(["https://192.0.2.1"]),
    );
    assert_create(&[("/spec/replicas", json!(2)), external.clone()], &[]);
    assert_create(&[("/spec/replicas", json!(0)), external], &both[1..]);
}

#[test]
fn d7_2_a_refusal_of_a_reference_names_the_field_of_the_reference() {
    for field in ["apiGroup", "kind", "name"] {
        let pointer = format!("/spec/machineTemplate/spec/infrastructureRef/{field}");
        let path = format!("spec.machineTemplate.spec.infrastructureRef.{field}");
        assert_create(&[(&pointer, json!(""))], &[("kcp-infrastructure-ref", &path)]);
    }
}

#[test]
fn taints_need_the_feature_gate_and_keys_that_are_free() {
    let taints = |key: &str| {
        [(
            "/spec/machineTemplate/spec/taints",
            json!([{"key": key, "effect": "NoSchedule"}]),
        )]
    };
    let path = "spec.machineTemplate.spec.taints";
    let off = create(&with(&valid(), &taints("a")), Gates::default());
    assert_eq!(off, expected(&[("kcp-taints-gate", path)]));
    for key in [
        "example.org/a",
        "node.kubernetes.io/out-of-service",
        "node-role.kubernetes.io/control-plane",
    ] {
        assert_create(&taints(key), &[]);
    }
    for key in [
        "node.cluster.x-k8s.io/uninitialized",
        "node.cluster.x-k8s.io/outdated-revision",
        "node.kubernetes.io/not-ready",
        "node.cloudprovider.kubernetes.io/uninitialized",
        "node-role.kubernetes.io/master",
        "/invalid",
    ] {
        assert_create(
            &taints(key),
            &[("kcp-taint-key", "spec.machineTemplate.spec.taints[0].key")],
        );
    }
}

#[test]
fn labels_and_annotations_of_machines_are_valid() {
    let path = |field: &str| format!("spec.machineTemplate.metadata.{field}");
    for (field, value) in [
        ("labels", json!({"foo": "$invalid"})),
        ("labels", json!({"foo": "a".repeat(64)})),
        ("labels", json!({"/invalid": "foo"})),
        ("annotations", json!({"/invalid": "foo"})),
        ("annotations", json!({"a": "a".repeat(300_000)})),
    ] {
        let pointer = format!("/spec/machineTemplate/metadata/{field}");
        assert_create(&[(&pointer, value)], &[("kcp-template-metadata", &path(field))]);
    }
    assert_create(
        &[(
            "/spec/machineTemplate/metadata",
            json!({"annotations": {"Example.org/A": "$"}}),
        )],
        &[],
    );
}

#[test]
fn a_version_is_v_and_three_numbers() {
    for version in ["v1.16.6", "v1.34.0-rc.1", "v1.33.1+build.1"] {
        assert_create(&[("/spec/version", json!(version))], &[]);
    }
    for version in ["1.16.6", "vv1.16.6", "v1", "v1.33", "v", "", "v01.2.3"] {
        assert_create(&[("/spec/version", json!(version))], &[("kcp-version", "spec.version")]);
    }
}

#[test]
fn a_rollout_adds_or_removes_one_machine_first() {
    let strategy = "spec.rollout.strategy";
    assert_create(
        &[("/spec/rollout/strategy/type", json!("OnDelete"))],
        &[("kcp-rollout-strategy", &format!("{strategy}.type"))],
    );
    let surge = "/spec/rollout/strategy/rollingUpdate/maxSurge";
    let path = format!("{strategy}.rollingUpdate.maxSurge");
    for value in [json!(0), json!("0"), json!("1")] {
        assert_create(&[(surge, value)], &[]);
    }
    for value in [json!(3), json!(-1), json!("2")] {
        assert_create(&[(surge, value)], &[("kcp-max-surge", &path)]);
    }
    assert_create(
        &[(surge, json!(0)), ("/spec/replicas", json!(1))],
        &[("kcp-scale-in-replicas", &format!("{strategy}.rollingUpdate"))],
    );
    assert_create(&[("/spec/rollout", Value::Null)], &[]);
}

#[test]
fn d7_2_a_max_surge_that_is_no_number_is_refused() {
    for value in ["50%", "abc", ""] {
        assert_create(
            &[("/spec/rollout/strategy/rollingUpdate/maxSurge", json!(value))],
            &[("kcp-max-surge", "spec.rollout.strategy.rollingUpdate.maxSurge")],
        );
    }
}

#[test]
fn certificates_expire_before_their_authority_and_after_their_rollout() {
    let path = "spec.kubeadmConfigSpec.clusterConfiguration.certificateValidityPeriodDays";
    let days = |certificate: i32, authority: i32| {
        let mut fields = cluster("certificateValidityPeriodDays", json!(certificate)).to_vec();
        fields.extend(cluster("caCertificateValidityPeriodDays", json!(authority)));
        fields
    };
    let refused = [("kcp-certificate-validity", path)];
    assert_create(&borrowed(&days(300, 300)), &[]);
    assert_create(&borrowed(&days(350, 300)), &refused);
    assert_create(&borrowed(&days(3650, 0)), &[]);
    assert_create(&borrowed(&days(3651, 0)), &refused);
    let expiry = ("/spec/rollout/before/certificatesExpiryDays", json!(7));
    assert_create(std::slice::from_ref(&expiry), &[]);
    let mut fields = borrowed(&days(7, 0))
        .into_iter()
        .map(|(path, value)| (path.to_owned(), value))
        .collect::<Vec<_>>();
    fields.push((expiry.0.to_owned(), expiry.1));
    assert_create(
        &borrowed(&fields),
        &[("kcp-certificates-expiry", "spec.rollout.before.certificatesExpiryDays")],
    );
}

#[test]
fn d7_2_a_strategy_that_is_absent_does_not_switch_off_the_rule_about_certificates() {
    let mut fields = cluster("certificateValidityPeriodDays", json!(4000)).to_vec();
    fields.push((String::from("/spec/rollout"), Value::Null));
    let path = "spec.kubeadmConfigSpec.clusterConfiguration.certificateValidityPeriodDays";
    assert_create(&borrowed(&fields), &[("kcp-certificate-validity", path)]);
}

#[test]
fn a_naming_template_results_in_names() {
    let template = "/spec/machineNaming/template";
    assert_create(&[(template, json!("{{ .cluster.name }}-{{ .random }}"))], &[]);
    for text in [
        "{{ .cluster.name }}",
        "{{ .random }}_",
        "{{ .random }}{{ .machineSet.name }}",
    ] {
        assert_create(
            &[(template, json!(text))],
            &[("kcp-machine-naming", "spec.machineNaming.template")],
        );
    }
}

#[test]
fn tags_are_tags_of_images_and_of_core_dns() {
    let dns = "spec.kubeadmConfigSpec.clusterConfiguration.dns.imageTag";
    for (tag, refusals) in [
        ("v1.6.6_foobar.1", &[][..]),
        ("1-7", &[("kcp-dns-image-tag", dns)][..]),
        ("latest", &[("kcp-dns-image-tag", dns)]),
        ("v0.20.0+build", &[("kcp-dns-image-tag", dns)]),
    ] {
        assert_create(&borrowed(&cluster("dns/imageTag", json!(tag))), refusals);
    }
    let etcd = "spec.kubeadmConfigSpec.clusterConfiguration.etcd.local.imageTag";
    assert_create(&borrowed(&cluster("etcd/local/imageTag", json!("v9.1.1_a"))), &[]);
    assert_create(
        &borrowed(&cluster("etcd/local/imageTag", json!("v9.1.1+a"))),
        &[("kcp-etcd-image-tag", etcd)],
    );
}

#[test]
fn a_control_plane_has_one_kind_of_etcd_and_keeps_it() {
    let path = "spec.kubeadmConfigSpec.clusterConfiguration.etcd";
    let both = json!({"local": {"dataDir": "/a"}, "external": {"endpoints": ["a"]}});
    assert_create(
        &borrowed(&cluster("etcd", both)),
        &[("kcp-etcd-local-and-external", &format!("{path}.local"))],
    );
    let external = borrowed(&cluster("etcd/external/endpoints", json!(["a"])))
        .into_iter()
        .map(|(path, value)| (path.to_owned(), value))
        .collect::<Vec<_>>();
    let refused = [("kcp-etcd-kind", &*format!("{path}.external"))];
    assert_update(&borrowed(&external), &refused);
    assert_eq!(
        update(&with(&valid(), &borrowed(&external)), &valid())
            .into_iter()
            .filter(|(rule, _)| rule == "kcp-etcd-kind")
            .count(),
        1
    );
}

#[test]
fn files_and_users_have_one_source() {
    let config = "/spec/kubeadmConfigSpec";
    let secret = json!({"secret": {"name": "a", "key": "b"}});
    let case = |list: &str, items: Value, refusals: &[(&str, &str)]| {
        let refusals: Vec<(&str, String)> = refusals
            .iter()
            .map(|(rule, path)| (*rule, format!("spec.kubeadmConfigSpec.{path}")))
            .collect();
        let refusals: Vec<(&str, &str)> = refusals.iter().map(|(rule, path)| (*rule, path.as_str())).collect();
        assert_create(&[(&format!("{config}/{list}"), items)], &refusals);
    };
    case(
        "files",
        json!([{"path": "a", "content": "x"}, {"path": "b", "contentFrom": secret}]),
        &[],
    );
    case(
        "files",
        json!([{"path": "a", "content": "x", "contentFrom": secret}]),
        &[("kcp-files", "files[0]")],
    );
    case(
        "files",
        json!([{"path": "a"}, {"path": "a"}]),
        &[("kcp-files", "files[1].path")],
    );
    let incomplete = json!({"secret": {"name": "a"}});
    case(
        "files",
        json!([{"path": "a", "contentFrom": incomplete}]),
        &[("kcp-files", "files[0].contentFrom.secret.key")],
    );
    case(
        "users",
        json!([{"name": "a", "passwd": "x"}, {"name": "b", "passwdFrom": secret}]),
        &[],
    );
    case(
        "users",
        json!([{"name": "a", "passwd": "x", "passwdFrom": secret}]),
        &[("kcp-users", "users[0]")],
    );
    case(
        "users",
        json!([{"name": "a", "passwdFrom": incomplete}]),
        &[("kcp-users", "users[0].passwdFrom.secret.key")],
    );
}

#[test]
fn ignition_needs_its_feature_gate_and_its_format() {
    let format = ("/spec/kubeadmConfigSpec/format", json!("ignition"));
    let block = (
        "/spec/kubeadmConfigSpec/ignition/containerLinuxConfig/additionalConfig",
        json!("a: b"),
    );
    let off = create(&with(&valid(), &[format.clone(), block.clone()]), Gates::default());
    let paths = ["spec.kubeadmConfigSpec.format", "spec.kubeadmConfigSpec.ignition"];
    assert_eq!(off, expected(&paths.map(|path| ("kcp-ignition", path))));
    assert_create(&[format.clone(), block.clone()], &[]);
    assert_create(&[block], &[("kcp-ignition", "spec.kubeadmConfigSpec.format")]);
    for (field, value, path) in [
        ("users", json!([{"name": "a", "inactive": true}]), "users[0].inactive"),
        ("files", json!([{"path": "a", "encoding": "gzip"}]), "files[0].encoding"),
        (
            "files",
            json!([{"path": "a", "encoding": "gzip+base64"}]),
            "files[0].encoding",
        ),
        ("bootCommands", json!(["a"]), "bootCommands"),
        (
            "diskSetup",
            json!({"partitions": [{"tableType": "mbr"}]}),
            "diskSetup.partitions[0].tableType",
        ),
        (
            "diskSetup",
            json!({"filesystems": [{"replaceFS": "a"}]}),
            "diskSetup.filesystems[0].replaceFS",
        ),
        (
            "diskSetup",
            json!({"filesystems": [{"partition": "a"}]}),
            "diskSetup.filesystems[0].partition",
        ),
    ] {
        let path = format!("spec.kubeadmConfigSpec.{path}");
        let pointer = format!("/spec/kubeadmConfigSpec/{field}");
        assert_create(&[format.clone(), (&pointer, value)], &[("kcp-ignition", &path)]);
    }
}

#[test]
fn disks_discovery_and_timeouts_are_consistent() {
    let layout = |last: i32| json!([{"diskLayout": [{"percentage": 60}, {"percentage": last}]}]);
    let partitions = "/spec/kubeadmConfigSpec/diskSetup/partitions";
    assert_create(&[(partitions, layout(40))], &[]);
    assert_create(
        &[(partitions, layout(41))],
        &[(
            "kcp-disk-layout",
            "spec.kubeadmConfigSpec.diskSetup.partitions[0].diskLayout",
        )],
    );
    let user = "/spec/kubeadmConfigSpec/joinConfiguration/discovery/file/kubeConfig/user";
    let (provider, exec) = (json!({"name": "a"}), json!({"command": "a"}));
    assert_create(&[(user, json!({"exec": exec}))], &[]);
    assert_create(
        &[(user, json!({"exec": exec, "authProvider": provider}))],
        &[(
            "kcp-kubeconfig-user",
            "spec.kubeadmConfigSpec.joinConfiguration.discovery.file.kubeConfig.user",
        )],
    );
    let timeout =
        |side: &str| format!("/spec/kubeadmConfigSpec/{side}/timeouts/controlPlaneComponentHealthCheckSeconds");
    let (init, join) = (timeout("initConfiguration"), timeout("joinConfiguration"));
    assert_create(&[(&init, json!(10)), (&join, json!(10))], &[]);
    let paths = [&init, &join].map(|pointer| pointer.trim_start_matches('/').replace('/', "."));
    let refused = [
        ("kcp-health-check-timeouts", &*paths[0]),
        ("kcp-health-check-timeouts", &*paths[1]),
    ];
    assert_create(&[(&init, json!(10))], &refused);
    assert_create(&[(&init, json!(10)), (&join, json!(11))], &refused);
}

#[test]
fn an_update_changes_only_listed_fields() {
    let refused = |field: &str| format!("spec.kubeadmConfigSpec.clusterConfiguration.{field}");
    for (field, value) in [
        ("certificatesDir", json!("/a")),
        ("controlPlaneEndpoint", json!("a:6443")),
        ("caCertificateValidityPeriodDays", json!(730)),
        ("unknown", json!("a")),
    ] {
        let path = refused(field);
        assert_update(&borrowed(&cluster(field, value)), &[("kcp-field-immutable", &path)]);
    }
    for (pointer, value) in [
        ("/metadata/labels/a", json!("b")),
        ("/spec/replicas", json!(5)),
        ("/spec/machineTemplate/metadata/labels/a", json!("b")),
        ("/spec/machineTemplate/spec/infrastructureRef/name", json!("other")),
        ("/spec/rollout/after", json!("2026-01-01T00:00:00Z")),
        ("/spec/remediation/maxRetry", json!(3)),
        ("/spec/kubeadmConfigSpec/ntp/servers", json!(["a"])),
        (
            "/spec/kubeadmConfigSpec/initConfiguration/patches/directory",
            json!("/a"),
        ),
        ("/spec/kubeadmConfigSpec/joinConfiguration/skipPhases", json!(["a"])),
        (
            "/spec/kubeadmConfigSpec/clusterConfiguration/imageRepository",
            json!("a"),
        ),
        (
            "/spec/kubeadmConfigSpec/clusterConfiguration/featureGates/a",
            json!(true),
        ),
        (
            "/spec/kubeadmConfigSpec/clusterConfiguration/etcd/local/dataDir",
            json!("/a"),
        ),
    ] {
        assert_update(&[(pointer, value)], &[]);
    }
}

#[test]
fn a_whole_part_of_the_configuration_is_not_removed() {
    for part in ["clusterConfiguration", "initConfiguration", "joinConfiguration"] {
        let pointer = format!("/spec/kubeadmConfigSpec/{part}/skipPhases");
        let old = with(
            &valid(),
            &[
                (&pointer, json!(["a"])),
                ("/spec/kubeadmConfigSpec/verbosity", json!(1)),
            ],
        );
        let new = with(&old, &[(&format!("/spec/kubeadmConfigSpec/{part}"), Value::Null)]);
        let path = format!("spec.kubeadmConfigSpec.{part}");
        assert_eq!(update(&old, &new), expected(&[("kcp-field-immutable", &path)]));
    }
    let old = with(&valid(), &[("/spec/kubeadmConfigSpec/verbosity", json!(1))]);
    assert_eq!(
        update(&old, &valid()),
        expected(&[("kcp-field-immutable", "spec.kubeadmConfigSpec")])
    );
}

#[test]
fn an_upgrade_skips_no_minor_version() {
    for version in ["v1.33.1", "v1.33.9", "v1.34.0", "v1.34.9-rc.1"] {
        assert_update(&[("/spec/version", json!(version))], &[]);
    }
    for version in ["v1.35.0", "v1.35.0-alpha.0", "v2.0.0"] {
        assert_update(
            &[("/spec/version", json!(version))],
            &[("kcp-version-skip", "spec.version")],
        );
    }
    let old = with(&valid(), &[("/spec/version", json!("invalid-version"))]);
    assert_eq!(
        update(&old, &valid()),
        expected(&[("kcp-version-skip", "spec.version")])
    );
}

#[test]
fn d7_2_a_downgrade_is_refused() {
    for version in ["v1.33.0", "v1.32.9", "v1.33.1-rc.0", "v0.40.0"] {
        assert_update(
            &[("/spec/version", json!(version))],
            &[("kcp-version-downgrade", "spec.version")],
        );
    }
}

#[test]
fn core_dns_follows_the_path_of_its_migration() {
    let path = "spec.kubeadmConfigSpec.clusterConfiguration.dns.imageTag";
    let base = with(&valid(), &borrowed(&cluster("imageRepository", json!("example.org"))));
    let tag = |tag: &str| with(&base, &borrowed(&cluster("dns/imageTag", json!(tag))));
    for (from, to, is_allowed) in [
        ("v1.6.6", "1.6.7", true),
        ("v1.6.6_foobar.1", "v1.6.6_foobar.2", true),
        ("v99.99.99", "99.99.99_a", true),
        ("1.6.6", "", true),
        ("", "v99.99.99", true),
        ("1.6.6", "v99.99.99", false),
        ("1.6.6", "1.6.5", false),
        ("1.6.8", "1.6.9", false),
    ] {
        let refused = [("kcp-core-dns-path", path)];
        let refused = if is_allowed { &[][..] } else { &refused[..] };
        assert_eq!(update(&tag(from), &tag(to)), expected(refused), "{from} to {to}");
        let annotation = json!({"controlplane.cluster.x-k8s.io/skip-coredns": ""});
        let skipping = with(&tag(to), &[("/metadata/annotations", annotation)]);
        assert_eq!(update(&tag(from), &skipping), [], "{from} to {to}");
    }
}

#[test]
fn v33_core_dns_can_be_migrated_to_every_version_of_its_migration() {
    let base = with(&valid(), &borrowed(&cluster("imageRepository", json!("example.org"))));
    let tag = |tag: &str| with(&base, &borrowed(&cluster("dns/imageTag", json!(tag))));
    let path = "spec.kubeadmConfigSpec.clusterConfiguration.dns.imageTag";
    for (from, to, is_allowed) in [
        ("v1.14.2", "v1.14.3", true),
        ("v1.14.3", "v1.14.4", true),
        ("v1.13.1", "v1.14.6", true),
        ("v1.14.2", "v1.14.5", false),
    ] {
        let refused = [("kcp-core-dns-path", path)];
        let refused = if is_allowed { &[][..] } else { &refused[..] };
        assert_eq!(update(&tag(from), &tag(to)), expected(refused), "{from} to {to}");
    }
}

#[test]
fn an_update_that_keeps_the_spec_passes_during_the_deletion_only() {
    let path = "spec.rollout.strategy.rollingUpdate.maxSurge";
    let broken = with(
        &valid(),
        &[("/spec/rollout/strategy/rollingUpdate/maxSurge", json!("50%"))],
    );
    let new = with(&broken, &[("/metadata/finalizers", json!([]))]);
    assert_eq!(update(&broken, &new), expected(&[("kcp-max-surge", path)]));
    let deleted = with(&new, &[("/metadata/deletionTimestamp", json!("2026-01-01T00:00:00Z"))]);
    assert_eq!(update(&broken, &deleted), []);
}

#[test]
fn an_update_that_replaces_machines_is_allowed_with_a_warning_that_names_the_changes() {
    let warnings = |old: &Value, new: &Value| -> Vec<String> {
        let mut texts = Vec::new();
        let refused = found(new, Some(old), "", |edit| {
            let verdict = validate(edit, None, Gates::default());
            texts.extend(verdict.warnings.iter().map(|warning| warning.text.clone()));
            verdict
        });
        assert_eq!(refused, []);
        texts
    };
    let old = with(&valid(), &[("/spec/version", json!("v1.33.1"))]);
    let files = json!([{"path": "/x"}]);
    let new = with(
        &old,
        &[
            ("/spec/version", json!("v1.34.0")),
            ("/spec/kubeadmConfigSpec/files", files),
        ],
    );
    let [warning] = warnings(&old, &new).try_into().unwrap();
    for part in ["this update replaces", "v1.34.0", "files"] {
        assert!(warning.contains(part), "{warning}");
    }
    // Scaling, and what applies to running machines, replaces none.
    let metadata = json!({"labels": {"a": "b"}});
    let new = with(
        &old,
        &[
            ("/spec/replicas", json!(5)),
            ("/spec/machineTemplate/metadata", metadata),
        ],
    );
    assert!(warnings(&old, &new).is_empty());
}

#[test]
fn an_object_of_v1beta1_is_judged_as_v1beta2() {
    let object = json!({"apiVersion": API_VERSION_V1BETA1, "kind": "KubeadmControlPlane",
        "metadata": {"name": "cp", "namespace": "ns"},
        "spec": {"replicas": 3, "version": "v1.33.1",
            "rolloutStrategy": {"type": "RollingUpdate", "rollingUpdate": {"maxSurge": 2}},
            "machineTemplate": {"nodeDrainTimeout": "soon",
                "infrastructureRef": {"apiVersion": "example.org/v1beta1", "kind": "T", "name": "t"}},
            "kubeadmConfigSpec": {}}});
    let path = "spec.machineTemplate.spec.deletion.nodeDrainTimeoutSeconds";
    assert_eq!(create(&object, ALL_GATES), expected(&[("kcp-field-types", path)]));
    let object = with(&object, &[("/spec/machineTemplate/nodeDrainTimeout", json!("10m"))]);
    let path = "spec.rollout.strategy.rollingUpdate.maxSurge";
    assert_eq!(create(&object, ALL_GATES), expected(&[("kcp-max-surge", path)]));
}

#[test]
fn another_version_or_a_wrong_type_is_refused() {
    for version in ["controlplane.cluster.x-k8s.io/v1alpha4", ""] {
        let object = with(&valid(), &[("/apiVersion", json!(version))]);
        assert_eq!(
            create(&object, ALL_GATES),
            expected(&[("kcp-api-version", "apiVersion")])
        );
    }
    for (pointer, value) in [
        ("/spec/replicas", json!("3")),
        ("/spec/rollout/strategy/type", json!(1)),
    ] {
        let path = pointer.trim_start_matches('/').replace('/', ".");
        assert_create(&[(pointer, value)], &[("kcp-field-types", &path)]);
    }
}

fn create_template(object: &Value, gates: Gates) -> Found {
    found(object, None, "", |edit| validate_template(edit, gates))
}

fn update_template(old: &Value, new: &Value) -> Found {
    found(new, Some(old), "", |edit| validate_template(edit, Gates::default()))
}

#[test]
fn a_template_is_judged_at_its_creation() {
    assert_eq!(create_template(&template(), ALL_GATES), []);
    let off = create_template(&template(), Gates::default());
    assert_eq!(off, expected(&[("kcpt-cluster-topology", "spec")]));
    let at = "spec.template.spec";
    for (pointer, value, rule, path) in [
        (
            "rollout/strategy/type",
            json!("OnDelete"),
            "kcp-rollout-strategy",
            "rollout.strategy.type",
        ),
        (
            "machineNaming/template",
            json!("a"),
            "kcp-machine-naming",
            "machineNaming.template",
        ),
        (
            "machineTemplate/metadata/labels",
            json!({"/a": "b"}),
            "kcp-template-metadata",
            "machineTemplate.metadata.labels",
        ),
        (
            "kubeadmConfigSpec/clusterConfiguration/dns/imageTag",
            json!("+"),
            "kcp-dns-image-tag",
            "kubeadmConfigSpec.clusterConfiguration.dns.imageTag",
        ),
    ] {
        let object = with(&template(), &[(&format!("/spec/template/spec/{pointer}"), value)]);
        let mut found = create_template(&object, ALL_GATES);
        found.dedup();
        assert_eq!(found, expected(&[(rule, &format!("{at}.{path}"))]));
    }
    let object = with(
        &template(),
        &[("/spec/template/metadata/annotations", json!({"/a": "b"}))],
    );
    let path = "spec.template.metadata.annotations";
    assert_eq!(
        create_template(&object, ALL_GATES),
        expected(&[("kcp-template-metadata", path)])
    );
    // The number of machines is unknown.
    let object = with(
        &template(),
        &[("/spec/template/spec/rollout/strategy/rollingUpdate/maxSurge", json!(0))],
    );
    assert_eq!(create_template(&object, ALL_GATES), []);
}

#[test]
fn a_template_is_immutable_apart_from_former_defaults() {
    let refused = expected(&[("kcpt-immutable", "spec.template.spec")]);
    let field = |field: &str, value: Value| with(&template(), &[(&format!("/spec/template/spec/{field}"), value)]);
    let commands = field("kubeadmConfigSpec/preKubeadmCommands", json!(["a"]));
    assert_eq!(update_template(&template(), &commands), refused);
    let format = field("kubeadmConfigSpec/format", json!("cloud-config"));
    assert_eq!(update_template(&template(), &format), []);
    assert_eq!(update_template(&format, &template()), []);
    let without = field("rollout", Value::Null);
    assert_eq!(update_template(&template(), &without), []);
    assert_eq!(update_template(&without, &template()), refused);
    let joins = field("kubeadmConfigSpec/joinConfiguration/controlPlane", json!({}));
    assert_eq!(update_template(&joins, &template()), refused);
    let text = field("rollout/strategy/rollingUpdate/maxSurge", json!("1"));
    assert_eq!(update_template(&text, &without), refused);
    let metadata = with(&template(), &[("/spec/template/metadata/labels/a", json!("b"))]);
    assert_eq!(update_template(&template(), &metadata), []);
}

#[test]
fn every_rule_is_in_the_table_once() {
    let ids: BTreeSet<String> = table().into_iter().map(|rule| rule.id).collect();
    assert_eq!(ids.len(), table().len());
}
