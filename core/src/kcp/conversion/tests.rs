//! Conversions of whole objects, and properties of all conversions.

use proptest::prelude::*;
use serde_json::json;

use super::*;

fn versions(_: &str, _: &str) -> Option<String> {
    Some(String::from("v1beta1"))
}

fn v1beta1() -> Value {
    json!({
        "apiVersion": API_VERSION_V1BETA1, "kind": "KubeadmControlPlane",
        "metadata": {"name": "cp", "namespace": "ns"},
        "spec": {
            "replicas": 3, "version": "v1.33.1",
            "rolloutBefore": {"certificatesExpiryDays": 30},
            "rolloutStrategy": {"type": "RollingUpdate", "rollingUpdate": {"maxSurge": 1}},
            "remediationStrategy": {"maxRetry": 5, "retryPeriod": "20m0s"},
            "machineNamingStrategy": {"template": "{{ .random }}"},
            "machineTemplate": {
                "infrastructureRef": {"apiVersion": "example.org/v1beta1", "kind": "Template", "name": "t",
                    "namespace": "ns"},
                "nodeDrainTimeout": "10m0s",
            },
            "kubeadmConfigSpec": {
                "clusterConfiguration": {
                    "kubernetesVersion": "v1.33.1",
                    "apiServer": {"extraArgs": {"b": "2", "a": "1"}, "timeoutForControlPlane": "1m30s"},
                },
                "joinConfiguration": {"discovery": {"timeout": "5m0s"}, "controlPlane": {}},
            },
        },
        "status": {"readyReplicas": 3, "ready": true, "initialized": true,
            "conditions": [{"type": "Ready"}], "v1beta2": {"conditions": [{"type": "Available"}]}},
    })
}

#[test]
fn fields_get_the_names_and_types_of_v1beta2() {
    let hub = to_v1beta2(&v1beta1());
    let spec = &hub["spec"];
    assert_eq!(spec["rollout"]["before"], json!({"certificatesExpiryDays": 30}));
    assert_eq!(spec["remediation"], json!({"maxRetry": 5, "retryPeriodSeconds": 1200}));
    assert_eq!(spec["machineNaming"], json!({"template": "{{ .random }}"}));
    assert_eq!(
        spec["machineTemplate"]["spec"],
        json!({"infrastructureRef": {"apiGroup": "example.org", "kind": "Template", "name": "t"},
            "deletion": {"nodeDrainTimeoutSeconds": 600}})
    );
    let config = &spec["kubeadmConfigSpec"];
    assert_eq!(
        config["clusterConfiguration"],
        json!({"apiServer": {"extraArgs": [{"name": "a", "value": "1"}, {"name": "b", "value": "2"}]}})
    );
    assert_eq!(
        config["joinConfiguration"],
        json!({"controlPlane": {}, "timeouts": {"controlPlaneComponentHealthCheckSeconds": 90, "tlsBootstrapSeconds": 300}})
    );
    assert_eq!(hub["status"]["conditions"], json!([{"type": "Available"}]));
    assert_eq!(hub["status"]["deprecated"]["v1beta1"]["readyReplicas"], 3);
    assert_eq!(hub["status"]["initialization"]["controlPlaneInitialized"], true);
}

#[test]
fn an_object_returns_from_v1beta2_as_it_was() {
    let spoke = v1beta1();
    let mut back = to_v1beta1(&to_v1beta2(&spoke), &versions);
    assert!(take_annotation(&mut back, HUB_DATA).is_some());
    assert_eq!(back, spoke);
}

#[test]
fn a_change_in_v1beta1_keeps_what_only_v1beta2_has() {
    let hub = json!({"apiVersion": API_VERSION, "metadata": {}, "spec": {"replicas": 3, "kubeadmConfigSpec": {
        "initConfiguration": {"timeouts": {"controlPlaneComponentHealthCheckSeconds": 10, "kubeletHealthCheckSeconds": 40}},
        "joinConfiguration": {"timeouts": {"controlPlaneComponentHealthCheckSeconds": 10, "discoverySeconds": 5}},
    }}});
    let mut spoke = to_v1beta1(&hub, &versions);
    spoke["spec"]["replicas"] = json!(5);
    spoke["spec"]["kubeadmConfigSpec"]["clusterConfiguration"]["apiServer"]["timeoutForControlPlane"] = json!("20s");
    let changed = to_v1beta2(&spoke);
    assert_eq!(changed["spec"]["replicas"], 5);
    let config = &changed["spec"]["kubeadmConfigSpec"];
    for (side, other, seconds) in [
        ("initConfiguration", "kubeletHealthCheckSeconds", 40),
        ("joinConfiguration", "discoverySeconds", 5),
    ] {
        assert_eq!(config[side]["timeouts"]["controlPlaneComponentHealthCheckSeconds"], 20);
        assert_eq!(config[side]["timeouts"][other], seconds);
    }
}

#[test]
fn f3_an_empty_object_that_appears_in_v1beta1_keeps_the_fields_that_only_v1beta2_has() {
    let config = json!({"initConfiguration": {"timeouts": {"discoverySeconds": 3}}});
    let hub = json!({"apiVersion": API_VERSION, "metadata": {}, "spec": {"kubeadmConfigSpec": config}});
    let mut spoke = to_v1beta1(&hub, &versions);
    set(
        &mut spoke,
        &["spec", "kubeadmConfigSpec", "initConfiguration"],
        json!({}),
    );
    let back = to_v1beta2(&spoke);
    assert_eq!(back["spec"]["kubeadmConfigSpec"], config);
    // The empty object itself is kept for readers of v1beta1.
    let again = to_v1beta1(&back, &versions);
    assert_eq!(again["spec"]["kubeadmConfigSpec"]["initConfiguration"], json!({}));
}

#[test]
fn a_template_is_converted_below_its_template() {
    let spoke = json!({"apiVersion": API_VERSION_V1BETA1, "kind": "KubeadmControlPlaneTemplate", "metadata": {},
        "spec": {"template": {"spec": {"rolloutAfter": "2026-01-01T00:00:00Z"}}}});
    let hub = to_v1beta2(&spoke);
    assert_eq!(
        hub["spec"]["template"]["spec"]["rollout"]["after"],
        "2026-01-01T00:00:00Z"
    );
}

/// Annotations that the conversion does not write.
const JUNK: &[&str] = &[
    "{not json",
    "[]",
    "7",
    "{\"spec\":5}",
    "{\"spec\":{\"replicas\":\"x\",\"rollout\":7}}",
    "{\"spec\":{\"remediation\":{\"maxRetry\":{}},\"kubeadmConfigSpec\":{\"initConfiguration\":{\"timeouts\":[]}}}}",
    "{\"spec\":{\"kubeadmConfigSpec\":{\"initConfiguration\":{\"timeouts\":{\"discoverySeconds\":\"x\"}}}}}",
    "{\"apiVersion\":\"v1\",\"kind\":\"Secret\",\"metadata\":{\"name\":\"b\"}}",
    "[{\"path\":[\"apiVersion\"],\"was\":\"controlplane.cluster.x-k8s.io/v1beta1\",\"is\":\"v1\"}]",
    "[{\"path\":[\"kind\"],\"was\":\"KubeadmControlPlane\"}]",
    "[{\"path\":[\"metadata\"],\"is\":{\"name\":\"b\"}}]",
    "[{\"path\":[\"spec\",\"replicas\"],\"was\":3,\"is\":\"x\"}]",
    "[{\"path\":[\"spec\"],\"is\":5}]",
    "[{\"path\":[],\"is\":5}]",
];

#[test]
fn v65_a_strategy_of_a_template_without_a_type_becomes_a_rolling_update() {
    let template = |strategy: Value| {
        json!({"apiVersion": API_VERSION_V1BETA1, "kind": "KubeadmControlPlaneTemplate", "metadata": {"name": "t"},
            "spec": {"template": {"spec": {"kubeadmConfigSpec": {}, "rolloutStrategy": strategy}}}})
    };
    for strategy in [
        json!({}),
        json!({"rollingUpdate": {"maxSurge": 0}}),
        json!({"type": ""}),
    ] {
        let object = template(strategy.clone());
        let converted = to_v1beta2(&object);
        assert_eq!(
            converted["spec"]["template"]["spec"]["rollout"]["strategy"]["type"],
            "RollingUpdate"
        );
        let back = to_v1beta1(&converted, &versions);
        assert_eq!(back["spec"], object["spec"], "{strategy}");
    }
    assert_eq!(
        to_v1beta2(&template(Value::Null)).pointer("/spec/template/spec/rollout/strategy/type"),
        None
    );
}

#[test]
fn v30_a_conversion_to_v1beta2_ignores_an_annotation_that_it_cannot_use() {
    let plain = to_v1beta2(&v1beta1());
    for junk in JUNK {
        let mut spoke = v1beta1();
        annotate_text(&mut spoke, HUB_DATA, junk);
        assert_eq!(to_v1beta2(&spoke), plain, "{junk}");
    }
}

#[test]
fn v31_a_conversion_to_v1beta1_ignores_an_annotation_that_it_cannot_use() {
    let mut hub = to_v1beta2(&v1beta1());
    take_annotation(&mut hub, LOST_DATA);
    let plain = to_v1beta1(&hub, &versions);
    for junk in JUNK {
        let mut poisoned = hub.clone();
        annotate_text(&mut poisoned, LOST_DATA, junk);
        assert_eq!(to_v1beta1(&poisoned, &versions), plain, "{junk}");
    }
}

fn annotate_text(object: &mut Value, name: &str, text: &str) {
    set(object, &["metadata", "annotations", name], Value::from(text));
}

/// A part of an object: some of the given fields.
fn some(fields: Vec<(&'static str, BoxedStrategy<Value>)>) -> BoxedStrategy<Value> {
    let fields = fields.into_iter().map(|(name, value)| {
        proptest::option::of(value).prop_map(move |value| value.map(|value| (name.to_owned(), value)))
    });
    let fields: Vec<_> = fields.collect();
    fields
        .prop_map(|fields| Value::Object(fields.into_iter().flatten().collect()))
        .boxed()
}

fn number() -> BoxedStrategy<Value> {
    (0_i32..100_000).prop_map(Value::from).boxed()
}

fn duration() -> BoxedStrategy<Value> {
    (-10_i64..100_000)
        .prop_map(|seconds| Value::from(duration::from_seconds(seconds)))
        .boxed()
}

fn word() -> BoxedStrategy<Value> {
    "[a-z]{0,4}".prop_map(Value::from).boxed()
}

fn switch() -> BoxedStrategy<Value> {
    any::<bool>().prop_map(Value::from).boxed()
}

fn any_v1beta1() -> impl Strategy<Value = Value> {
    let arguments = || {
        proptest::collection::btree_map("[a-z]{1,3}", "[a-z]{0,3}", 0..3)
            .prop_map(|map| json!(map))
            .boxed()
    };
    let component = || {
        some(vec![
            ("extraArgs", arguments()),
            ("timeoutForControlPlane", duration()),
            ("x", word()),
        ])
    };
    let cluster = some(vec![
        ("apiServer", component()),
        ("kubernetesVersion", word()),
        ("networking", some(vec![("dnsDomain", word())])),
        ("etcd", some(vec![("local", component())])),
    ]);
    let registration = || {
        some(vec![
            ("kubeletExtraArgs", arguments()),
            ("taints", Just(json!([])).boxed()),
        ])
    };
    let init = some(vec![("nodeRegistration", registration()), ("kind", word())]);
    let discovery = some(vec![("timeout", duration()), ("tlsBootstrapToken", word())]);
    let join = some(vec![
        ("nodeRegistration", registration()),
        ("discovery", discovery),
        ("controlPlane", some(vec![])),
    ]);
    let kubeadm = some(vec![
        ("clusterConfiguration", cluster),
        ("initConfiguration", init),
        ("joinConfiguration", join),
        ("useExperimentalRetryJoin", switch()),
    ]);
    let template = some(vec![
        ("metadata", some(vec![("labels", some(vec![("a", word())]))])),
        ("nodeDrainTimeout", duration()),
        ("taints", Just(json!([{"key": "a"}])).boxed()),
        (
            "infrastructureRef",
            Just(json!({"apiVersion": "example.org/v1alpha7", "kind": "T", "name": "t", "uid": "u"})).boxed(),
        ),
    ]);
    let spec = some(vec![
        ("replicas", number()),
        ("rolloutBefore", some(vec![("certificatesExpiryDays", number())])),
        ("rolloutAfter", word()),
        (
            "remediationStrategy",
            some(vec![("maxRetry", number()), ("retryPeriod", duration())]),
        ),
        ("machineTemplate", template),
        ("kubeadmConfigSpec", kubeadm),
    ]);
    let status = some(vec![
        ("ready", switch()),
        ("readyReplicas", number()),
        ("initialized", switch()),
        ("v1beta2", some(vec![("readyReplicas", number())])),
        (
            "lastRemediation",
            some(vec![("timestamp", word()), ("machine", word())]),
        ),
    ]);
    (spec, status).prop_map(|(spec, status)| {
        json!({"apiVersion": API_VERSION_V1BETA1, "metadata": {"name": "a"}, "spec": spec, "status": status})
    })
}

/// Any object of `v1beta2`: a converted one, with fields that only `v1beta2` has.
fn any_v1beta2() -> impl Strategy<Value = Value> {
    let timeouts = || {
        some(vec![
            ("kubeletHealthCheckSeconds", number()),
            ("tlsBootstrapSeconds", number()),
        ])
    };
    (any_v1beta1(), timeouts(), timeouts()).prop_map(|(spoke, init, join)| {
        let mut hub = to_v1beta2(&spoke);
        remove(&mut hub, &["metadata", "annotations"]);
        for (side, timeouts) in [("initConfiguration", init), ("joinConfiguration", join)] {
            set(&mut hub, &["spec", "kubeadmConfigSpec", side, "timeouts"], timeouts);
        }
        hub
    })
}

proptest! {
    #[test]
    fn v1beta1_survives_the_way_through_v1beta2(spoke in any_v1beta1()) {
        let mut back = to_v1beta1(&to_v1beta2(&spoke), &versions);
        take_annotation(&mut back, HUB_DATA);
        prop_assert_eq!(back, spoke);
    }

    #[test]
    fn v1beta2_survives_the_way_through_v1beta1(hub in any_v1beta2()) {
        let mut back = to_v1beta2(&to_v1beta1(&hub, &versions));
        take_annotation(&mut back, LOST_DATA);
        prop_assert_eq!(back, hub);
    }
}
