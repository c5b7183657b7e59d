//! Edits of a ControlPlane, judged as `capstan check` and the webhook judge them: schema, rules,
//! and the objects around it.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "a panic fails the test"
)]

use std::sync::LazyLock;

use capstan_core::admission::{Admission, Check, Checked, Checker, Options, Snapshot, Source};
use capstan_core::model::{Operation, Propagation, User};
use serde_json::{Value, json};

/// Compiling the schemas takes seconds in a test build.
static CHECKER: LazyLock<Checker> =
    LazyLock::new(|| Checker::new(Admission::new(Options::default()).unwrap()).unwrap());

fn control_plane(replicas: i64) -> Value {
    json!({
        "apiVersion": "machine.openshift.io/v1alpha1", "kind": "ControlPlane",
        "metadata": {"name": "cluster", "namespace": "openshift-machine-api"},
        "spec": {
            "replicas": replicas,
            "providerSpec": {"value": {
                "apiVersion": "machine.openshift.io/v1beta1", "kind": "AWSMachineProviderConfig",
                "ami": {"id": "ami-0123"}, "instanceType": "m6i.xlarge",
                "credentialsSecret": {"name": "aws-cloud-credentials"},
                "userDataSecret": {"name": "master-user-data"},
                "iamInstanceProfile": {"id": "profile"},
                "placement": {"region": "us-east-1"},
            }},
            "failureDomains": {"platform": "AWS", "aws": [
                {"placement": {"availabilityZone": "us-east-1a"}, "subnet": {"type": "ID", "id": "subnet-a"}},
                {"placement": {"availabilityZone": "us-east-1b"}, "subnet": {"type": "ID", "id": "subnet-b"}}]},
        },
    })
}

fn set(state: &str) -> Value {
    let labels = json!({"machine.openshift.io/cluster-api-cluster": "c",
        "machine.openshift.io/cluster-api-machine-role": "master",
        "machine.openshift.io/cluster-api-machine-type": "master"});
    let plane = control_plane(3);
    json!({
        "apiVersion": "machine.openshift.io/v1", "kind": "ControlPlaneMachineSet",
        "metadata": {"name": "cluster", "namespace": "openshift-machine-api"},
        "spec": {"state": state, "replicas": 3, "strategy": {"type": "RollingUpdate"},
            "selector": {"matchLabels": labels},
            "template": {"machineType": "machines_v1beta1_machine_openshift_io",
                "machines_v1beta1_machine_openshift_io": {"metadata": {"labels": labels},
                    "spec": {"providerSpec": plane["spec"]["providerSpec"]}}}},
    })
}

/// The ClusterOperator of the etcd operator with this count of members.
fn etcd(report: &str) -> Value {
    json!({
        "apiVersion": "config.openshift.io/v1", "kind": "ClusterOperator", "metadata": {"name": "etcd"},
        "status": {"conditions": [
            {"type": "Available", "status": "True", "message": format!("EtcdMembersAvailable: {report}")},
            {"type": "Degraded", "status": "False"}]},
    })
}

/// An edit and the objects around it.
struct Case<'a> {
    operation: Operation,
    object: &'a Value,
    old: Option<&'a Value>,
    propagation: Option<Propagation>,
    around: Vec<Value>,
    in_cluster: bool,
}

impl<'a> Case<'a> {
    fn create(object: &'a Value) -> Self {
        Self {
            operation: Operation::Create,
            object,
            old: None,
            propagation: None,
            around: vec![set("Inactive"), etcd("3 members are available")],
            in_cluster: true,
        }
    }

    fn update(old: &'a Value, object: &'a Value) -> Self {
        Self {
            operation: Operation::Update,
            old: Some(old),
            ..Self::create(object)
        }
    }

    fn around(self, around: Vec<Value>) -> Self {
        Self { around, ..self }
    }

    fn checked(&self) -> Checked {
        let user = User::named("kube:admin", Vec::new());
        let check = Check {
            operation: self.operation,
            object: self.object,
            old: self.old,
            propagation: self.propagation,
            user: &user,
        };
        let mut snapshot = Snapshot::of_files(&self.around).unwrap();
        if self.in_cluster {
            snapshot.source = Source::Cluster;
            // The cluster was read, and may have no machine.
            snapshot.machines.get_or_insert_default();
        }
        CHECKER.check(&check, &snapshot)
    }

    /// The ids of the rules that refuse, in the order of the refusal.
    fn refused_by(&self) -> Vec<String> {
        let violations = self.checked().violations;
        violations.into_iter().map(|violation| violation.rule).collect()
    }
}

fn scale(replicas: Option<i64>) -> Value {
    let mut scale = json!({"apiVersion": "autoscaling/v1", "kind": "Scale",
        "metadata": {"name": "cluster", "namespace": "openshift-machine-api"}, "spec": {}});
    if let Some(replicas) = replicas {
        scale["spec"]["replicas"] = json!(replicas);
    }
    scale
}

#[test]
fn a_valid_control_plane_is_allowed_and_its_defaults_are_set() {
    for replicas in [1, 3, 5, 7] {
        let object = control_plane(replicas);
        assert_eq!(Case::create(&object).refused_by(), [""; 0], "{replicas}");
    }
    let mut object = control_plane(3);
    object["spec"]["providerSpec"]["value"]
        .as_object_mut()
        .unwrap()
        .remove("userDataSecret");
    let checked = Case::create(&object).checked();
    assert!(checked.status.is_none(), "{:?}", checked.status);
    let patch = serde_json::to_value(checked.patch.unwrap()).unwrap();
    assert_eq!(patch[0]["path"], "/spec/providerSpec/value/userDataSecret", "{patch}");
}

/// A change of a valid object.
type Change = fn(&mut Value);

#[test]
fn an_invalid_control_plane_is_refused_with_the_field_and_the_rule() {
    let cases: [(&str, Change, &str); 8] = [
        (
            "cp-replicas-odd",
            |object| object["spec"]["replicas"] = json!(4),
            "spec.replicas",
        ),
        (
            "cp-name",
            |object| object["metadata"]["name"] = json!("other"),
            "metadata.name",
        ),
        (
            "cp-namespace",
            |object| object["metadata"]["namespace"] = json!("default"),
            "metadata.namespace",
        ),
        (
            "cp-failure-domains-aws",
            |object| object["spec"]["failureDomains"] = json!({"platform": "AWS"}),
            "spec.failureDomains",
        ),
        (
            "cp-platform-agrees",
            |object| object["spec"]["failureDomains"] = json!({"platform": "GCP", "gcp": [{"zone": "a"}]}),
            "spec.failureDomains.platform",
        ),
        (
            "cp-provider-spec",
            |object| object["spec"]["providerSpec"] = json!({}),
            "spec.providerSpec.value",
        ),
        (
            "cp-provider-spec-type",
            |object| object["spec"]["providerSpec"]["value"]["instanceType"] = json!(4),
            "spec.providerSpec.value.instanceType",
        ),
        (
            "cp-foreground-finalizer",
            |object| object["metadata"]["finalizers"] = json!(["foregroundDeletion"]),
            "metadata.finalizers",
        ),
    ];
    for (rule, edit, path) in cases {
        let mut object = control_plane(3);
        edit(&mut object);
        let checked = Case::create(&object).checked();
        let found = checked.violations.iter().find(|violation| violation.rule == rule);
        let found = found.unwrap_or_else(|| panic!("{rule}: {:?}", checked.violations));
        assert_eq!(found.path.as_str(), path);
        assert!(
            !format!("{:?}", checked.violations).contains("machines_v1beta1"),
            "{rule}"
        );
    }
}

#[test]
fn the_kind_of_the_provider_spec_stays() {
    let (before, mut after) = (control_plane(3), control_plane(3));
    after["spec"]["providerSpec"]["value"]["kind"] = json!("GCPMachineProviderSpec");
    let rules = Case::update(&before, &after).refused_by();
    assert!(
        rules.contains(&String::from("cp-provider-spec-kind-immutable")),
        "{rules:?}"
    );
}

#[test]
fn a_control_plane_and_an_active_set_exclude_each_other() {
    let object = control_plane(3);
    let beside = |around: Vec<Value>| Case::create(&object).around(around).refused_by();
    assert_eq!(beside(vec![set("Active")]), ["cp-active-set"]);
    assert_eq!(beside(vec![set("Inactive")]), [""; 0]);
    // A cluster that was not read yet may have an Active set.
    assert_eq!(beside(Vec::new()), ["cp-active-set"]);
    let active = set("Active");
    let rules = Case::create(&active).around(vec![control_plane(3)]).refused_by();
    assert!(rules.contains(&String::from("cpms-control-plane-exists")), "{rules:?}");
    let inactive = set("Inactive");
    let rules = Case::update(&inactive, &active)
        .around(vec![control_plane(3)])
        .refused_by();
    assert!(rules.contains(&String::from("cpms-control-plane-exists")), "{rules:?}");
    let rules = Case::create(&inactive).around(vec![control_plane(3)]).refused_by();
    assert!(!rules.contains(&String::from("cpms-control-plane-exists")), "{rules:?}");
}

#[test]
fn a_scale_in_that_would_cost_etcd_its_quorum_is_refused() {
    for (before, after, report, refused) in [
        (5, 3, "5 members are available", false),
        (5, 3, "4 of 5 members are available, a is unhealthy", false),
        (
            5,
            3,
            "3 of 5 members are available, a is unhealthy, b is unhealthy",
            true,
        ),
        (3, 1, "3 members are available", false),
        (3, 1, "2 of 3 members are available, a is unhealthy", true),
        (5, 3, "4 of 5 members are available, a has not started", true),
        (5, 3, "nothing is known", true),
        // A scale-out takes no member away.
        (3, 5, "2 of 3 members are available, a is unhealthy", false),
    ] {
        let around = || vec![set("Inactive"), etcd(report)];
        let (old, new) = (control_plane(before), control_plane(after));
        let expected: &[&str] = if refused { &["cp-scale-in-quorum"] } else { &[] };
        assert_eq!(
            Case::update(&old, &new).around(around()).refused_by(),
            expected,
            "{before} {report}"
        );
        let scale = scale(Some(after));
        assert_eq!(
            Case::update(&old, &scale).around(around()).refused_by(),
            expected,
            "{before} {report}"
        );
    }
    let (old, new) = (control_plane(5), control_plane(3));
    let without = Case::update(&old, &new).around(vec![set("Inactive")]);
    assert_eq!(
        without.refused_by(),
        ["cp-scale-in-quorum"],
        "the operator was not read"
    );
    let from_files = Case {
        in_cluster: false,
        ..without
    };
    let checked = from_files.checked();
    assert!(checked.status.is_none() && checked.warnings.iter().any(|warning| warning.not_judged));
}

#[test]
fn a_scale_is_judged_like_the_object() {
    let old = control_plane(3);
    for (replicas, allowed) in [
        (Some(1), true),
        (Some(4), false),
        (Some(5), true),
        (Some(0), false),
        (None, false),
    ] {
        let scale = scale(replicas);
        let rules = Case::update(&old, &scale).refused_by();
        let expected: &[&str] = if allowed { &[] } else { &["cp-replicas-odd"] };
        assert_eq!(rules, expected, "{replicas:?}");
    }
}

#[test]
fn a_foreground_deletion_is_refused_and_another_deletion_warns() {
    let object = control_plane(3);
    let deletion = |propagation| Case {
        operation: Operation::Delete,
        propagation,
        ..Case::create(&object)
    };
    assert_eq!(
        deletion(Some(Propagation::Foreground)).refused_by(),
        ["cp-foreground-deletion"]
    );
    let checked = deletion(Some(Propagation::Background)).checked();
    assert!(checked.status.is_none());
    assert_eq!(checked.warnings[0].rule, "cp-deletion-leaves-machines");
}

/// A control plane machine in a zone, and its ready node.
fn machine(number: usize) -> [Value; 2] {
    let mut spec = control_plane(3)["spec"]["providerSpec"].clone();
    let zone = ["a", "b"][number % 2];
    spec["value"]["placement"]["availabilityZone"] = json!(format!("us-east-1{zone}"));
    spec["value"]["subnet"] = json!({"id": format!("subnet-{zone}")});
    let labels = json!({"machine.openshift.io/cluster-api-cluster": "c",
        "machine.openshift.io/cluster-api-machine-role": "master",
        "machine.openshift.io/cluster-api-machine-type": "master"});
    let node = format!("node-{number}");
    [
        json!({"apiVersion": "machine.openshift.io/v1beta1", "kind": "Machine",
            "metadata": {"name": format!("c-master-{number}"), "namespace": "openshift-machine-api", "labels": labels,
                "uid": node, "creationTimestamp": format!("2026-01-0{}T00:00:00Z", number + 1)},
            "spec": {"providerSpec": spec}, "status": {"nodeRef": {"kind": "Node", "name": node}}}),
        json!({"apiVersion": "v1", "kind": "Node", "metadata": {"name": node},
            "status": {"conditions": [{"type": "Ready", "status": "True"}]}}),
    ]
}

#[test]
fn an_edit_is_answered_with_its_whole_plan() {
    let around = |report: &str| -> Vec<Value> {
        let machines = (0..3).flat_map(machine);
        machines.chain([set("Inactive"), etcd(report)]).collect()
    };
    let warnings = |old: &Value, new: &Value, report: &str| -> Vec<String> {
        let checked = Case::update(old, new).around(around(report)).checked();
        assert!(checked.status.is_none(), "{:?}", checked.status);
        checked.warnings.into_iter().map(|warning| warning.text).collect()
    };
    let (three, five, healthy) = (control_plane(3), control_plane(5), "3 members are available");
    let texts = warnings(&three, &five, healthy);
    assert_eq!(texts.len(), 2, "{texts:?}");
    assert!(
        texts[0].starts_with("1 of 2: create c-master-") && texts[0].contains("us-east-1b"),
        "{texts:?}"
    );
    assert_eq!(warnings(&three, &scale(Some(5)), healthy), texts);
    let texts = warnings(&three, &scale(Some(1)), healthy);
    assert!(texts[0].starts_with("1 of 2: delete c-master-0"), "{texts:?}");
    let mut resized = control_plane(3);
    resized["spec"]["providerSpec"]["value"]["instanceType"] = json!("m6i.2xlarge");
    let texts = warnings(&three, &resized, healthy);
    assert_eq!(texts.len(), 6, "{texts:?}");
    let texts = warnings(&three, &five, "2 of 3 members are available, a is unhealthy");
    assert!(texts[0].starts_with("the first step waits: "), "{texts:?}");
}

/// The objects around a healthy control plane of three machines.
fn three_machines() -> Vec<Value> {
    let machines = (0..3).flat_map(machine);
    machines
        .chain([set("Inactive"), etcd("3 members are available")])
        .collect()
}

#[test]
fn v80_a_new_control_plane_without_a_number_deletes_no_machine() {
    let mut unstated = control_plane(3);
    unstated["spec"].as_object_mut().unwrap().remove("replicas");
    for object in [unstated, control_plane(1)] {
        let checked = Case::create(&object).around(three_machines()).checked();
        let violation = &checked.violations[0];
        assert_eq!(violation.rule, "cp-replicas-below-machines");
        assert!(violation.to_string().contains("must be at least 3"), "{violation}");
    }
    for replicas in [3, 5] {
        let object = control_plane(replicas);
        let rules = Case::create(&object).around(three_machines()).refused_by();
        assert_eq!(rules, [""; 0], "{replicas}");
    }
}

#[test]
fn v80_a_scale_in_to_one_machine_is_warned_of() {
    let (old, new) = (control_plane(3), control_plane(1));
    for edited in [new, scale(Some(1))] {
        let checked = Case::update(&old, &edited).around(three_machines()).checked();
        let warned = checked
            .warnings
            .iter()
            .any(|warning| warning.rule == "cp-single-machine");
        assert!(checked.status.is_none() && warned, "{:?}", checked.warnings);
    }
}

#[test]
fn v81_failure_domains_with_machines_are_not_removed_without_an_acknowledgement() {
    let old = control_plane(3);
    let (mut none, mut one, mut misspelt) = (old.clone(), old.clone(), old.clone());
    none["spec"].as_object_mut().unwrap().remove("failureDomains");
    let listed = one["spec"]["failureDomains"]["aws"].as_array_mut().unwrap();
    listed.truncate(1);
    misspelt["spec"]["failureDomains"]["aws"][0]["placement"]["availabilityZone"] = json!("us-east-1z");
    for (edited, expected) in [
        (&none, &["cp-failure-domains-in-use", "cp-spread-reduced"][..]),
        (&one, &["cp-failure-domains-in-use", "cp-spread-reduced"]),
        (&misspelt, &["cp-failure-domains-in-use"]),
    ] {
        let checked = Case::update(&old, edited).around(three_machines()).checked();
        let mut rules: Vec<&str> = checked.violations.iter().map(|found| found.rule.as_str()).collect();
        rules.sort_unstable();
        assert_eq!(rules, expected);
        let text = format!("{:?}", checked.violations);
        assert!(
            text.contains("spec.failureDomains") && !text.contains("machines_v1beta1"),
            "{text}"
        );
    }
    // The acknowledgement that the refusal names is accepted.
    one["metadata"]["annotations"] = json!({"capstan.dev/acknowledge-failure-domains": "us-east-1a/subnet-a"});
    let refused = Case::update(&old, &one).around(three_machines()).checked();
    assert!(refused.status.is_none(), "{:?}", refused.violations);
}

#[test]
fn v80_an_edit_without_a_number_keeps_the_number() {
    let old = control_plane(3);
    let mut unstated = old.clone();
    unstated["spec"].as_object_mut().unwrap().remove("replicas");
    let checked = Case::update(&old, &unstated).around(three_machines()).checked();
    assert!(checked.status.is_none(), "{:?}", checked.violations);
    let patch = serde_json::to_value(checked.patch.unwrap()).unwrap();
    assert_eq!(
        patch[0],
        json!({"op": "add", "path": "/spec/replicas", "value": 3}),
        "{patch}"
    );
    let checked = Case::create(&unstated).checked();
    let patch = serde_json::to_value(checked.patch.unwrap()).unwrap();
    assert_eq!(patch[0]["value"], 1, "{patch}");
}
