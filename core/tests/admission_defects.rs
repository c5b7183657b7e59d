//! Edits that admission judged wrongly. The id of each defect is that of `docs/defects.md`.

#![allow(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    reason = "a test fails if it cannot build its own review"
)]
mod edits;
mod judged;
mod sets;

use capstan_core::api::machine_openshift_io::machine_health_check::MachineHealthCheck;
use capstan_core::schema::crd;
use serde_json::{Value, json};
use sets::set_of;

use edits::{
    Answer, ZONES, aws_set, edited, judge, judge_beside, judge_in, judge_with, machine_template, machines, one_zone,
    platforms, provider_spec,
};

/// The gate `CPMSMachineNamePrefix` is off.
fn prefix_gate_off() -> Value {
    json!({"apiVersion": "config.openshift.io/v1", "kind": "FeatureGate", "metadata": {"name": "cluster"},
        "status": {"featureGates": [{"version": "4.20", "enabled": [], "disabled": [{"name": "CPMSMachineNamePrefix"}]}]}})
}

#[test]
fn a1_a_tolerated_violation_does_not_switch_off_domain_checks() {
    let old = aws_set(|set| set["spec"]["machineNamePrefix"] = json!("prod"));
    let gate = [prefix_gate_off()];
    let answer = judge_beside(&old, &edited(&old, one_zone), &gate);
    assert!(!answer.allowed, "three zones must not become one");
    assert!(
        answer.denied_by.contains(&"cpms-spread-reduced".to_owned()),
        "{}",
        answer.message
    );
    // The gate of the strategy is off as well.
    let old = aws_set(|set| set["spec"]["strategy"]["type"] = json!("Recreate"));
    let answer = judge(&old, &edited(&old, one_zone));
    assert!(
        answer.denied_by.contains(&"cpms-spread-reduced".to_owned()),
        "{}",
        answer.message
    );
}

#[test]
fn a1_a_tolerated_violation_does_not_switch_off_rollout_warnings() {
    let old = aws_set(|set| set["spec"]["machineNamePrefix"] = json!("prod"));
    let larger = |set: &mut Value| provider_spec(set)["instanceType"] = json!("m6i.4xlarge");
    let answer = judge_beside(&old, &edited(&old, larger), &[prefix_gate_off()]);
    assert!(answer.allowed, "{}", answer.message);
    assert!(answer.warnings.contains("replaces 3 machine(s)"), "{}", answer.warnings);
    // The violation itself is still refused in a new set.
    let answer = judge_beside(&Value::Null, &old, &[prefix_gate_off()]);
    assert!(answer.denied_by.contains(&"cpms-name-prefix-gate".to_owned()));
}

#[test]
fn a2_the_activation_of_a_set_checks_its_provider_spec() {
    let mut spec = platforms().remove(1);
    spec.as_object_mut().unwrap().remove("internalLoadBalancer");
    let old = edited(&set_of(&spec), |set| set["spec"]["state"] = json!("Inactive"));
    let answer = judge(&old, &edited(&old, |set| set["spec"]["state"] = json!("Active")));
    assert!(
        answer
            .denied_by
            .contains(&"cpms-azure-internal-load-balancer".to_owned()),
        "{}",
        answer.message
    );
}

/// An Infrastructure with a failure domain of vSphere.
fn vsphere_infrastructure() -> Value {
    json!({"apiVersion": "config.openshift.io/v1", "kind": "Infrastructure", "metadata": {"name": "cluster"},
        "spec": {"platformSpec": {"type": "VSphere", "vsphere": {"failureDomains": [{"name": "east", "region": "r",
            "zone": "z", "server": "vcenter", "topology": {"datacenter": "dc", "computeCluster": "/dc/host/c",
            "datastore": "/dc/datastore/d", "networks": ["segment"]}}]}}},
        "status": {"infrastructureName": "prod-x7k2p", "platform": "VSphere"}})
}

#[test]
fn a2_added_failure_domains_check_the_provider_spec() {
    let old = set_of(&platforms()[6]);
    let new = edited(&old, |set| {
        machine_template(set)["failureDomains"] = json!({"platform": "VSphere", "vsphere": [{"name": "east"}]});
    });
    let answer = judge_beside(&old, &new, &[vsphere_infrastructure()]);
    assert!(
        answer.denied_by.contains(&"cpms-vsphere-workspace".to_owned()),
        "{}",
        answer.message
    );
    assert!(
        answer.denied_by.contains(&"cpms-vsphere-network".to_owned()),
        "{}",
        answer.message
    );
}

#[test]
fn a3_provider_spec_rules_do_not_judge_what_an_edit_leaves_unchanged() {
    let mut spec = platforms().remove(1);
    spec.as_object_mut().unwrap().remove("internalLoadBalancer");
    spec["tags"] = json!(["a list is not a map"]);
    let old = set_of(&spec);
    let larger = |set: &mut Value| provider_spec(set)["vmSize"] = json!("Standard_D16s_v3");
    let answer = judge(&old, &edited(&old, larger));
    assert!(answer.allowed, "{}", answer.message);
    // Neither is a field that the platform does not know reported again.
    let old = aws_set(|set| provider_spec(set)["colour"] = json!("red"));
    let larger = |set: &mut Value| provider_spec(set)["instanceType"] = json!("m6i.4xlarge");
    let answer = judge(&old, &edited(&old, larger));
    assert!(!answer.warnings.contains("colour"), "{}", answer.warnings);
}

#[test]
fn a4_a_value_of_another_type_is_refused() {
    let old = aws_set(|_| {});
    for (field, value, expected) in [
        (
            "instanceType",
            json!(5),
            "instanceType: Invalid value: 5: must be a string",
        ),
        (
            "deviceIndex",
            json!("1"),
            "deviceIndex: Invalid value: \"1\": must be an integer",
        ),
        (
            "publicIp",
            json!("yes"),
            "publicIp: Invalid value: \"yes\": must be a boolean",
        ),
        (
            "securityGroups",
            json!({}),
            "securityGroups: Invalid value: {}: must be a list",
        ),
        (
            "blockDevices",
            json!([{"ebs": {"volumeSize": "120"}}]),
            "blockDevices[0].ebs.volumeSize: Invalid value: \"120\": must be an integer",
        ),
    ] {
        let answer = judge(&old, &edited(&old, |set| provider_spec(set)[field] = value));
        assert_eq!(
            answer.denied_by,
            ["cpms-provider-spec-type"],
            "{field}: {}",
            answer.message
        );
        assert!(answer.message.contains(expected), "{}", answer.message);
    }
}

#[test]
fn a4_a_misspelt_required_field_is_refused_with_the_correct_name() {
    let old = aws_set(|_| {});
    for (wrong, right) in [
        ("instancetype", "instanceType"),
        ("instanceTyp", "instanceType"),
        ("amii", "ami"),
    ] {
        let rename = |set: &mut Value| {
            let spec = provider_spec(set).as_object_mut().unwrap();
            let value = spec.remove(right).unwrap();
            spec.insert(wrong.to_owned(), value);
        };
        let answer = judge(&old, &edited(&old, rename));
        assert_eq!(answer.denied_by, ["cpms-provider-spec-required"], "{wrong}");
        let advice = format!("rename {wrong} to {right}");
        assert!(answer.message.contains(&advice), "{}", answer.message);
    }
    let misspelt = |set: &mut Value| provider_spec(set)["placement"]["tenanci"] = json!("default");
    let answer = judge(&old, &edited(&old, misspelt));
    assert!(
        answer.warnings.contains("placement.tenanci (did you mean tenancy?)"),
        "{}",
        answer.warnings
    );
}

#[test]
fn v90_a_misspelt_annotation_of_capstan_is_warned_of() {
    let old = aws_set(|_| {});
    let annotated = |key: &str| {
        edited(&old, |set: &mut Value| {
            set["metadata"]["annotations"][key] = json!("true");
        })
    };
    let answer = judge(&old, &annotated("capstan.dev/paused-rolout"));
    let expected = "did you mean capstan.dev/paused-rollout?";
    assert!(
        answer.denied_by.is_empty() && answer.warnings.contains(expected),
        "{}",
        answer.warnings
    );
    for known in ["capstan.dev/paused-rollout", "example.com/paused-rolout"] {
        let answer = judge(&old, &annotated(known));
        assert!(!answer.warnings.contains("knows no such"), "{}", answer.warnings);
    }
}

#[test]
fn v87_a_field_that_is_written_twice_in_different_case_is_refused() {
    let old = aws_set(|_| {});
    for (wrong, right) in [("instancetype", "instanceType"), ("AMI", "ami")] {
        let twice = |set: &mut Value| provider_spec(set)[wrong] = provider_spec(set)[right].clone();
        let answer = judge(&old, &edited(&old, twice));
        assert_eq!(
            answer.denied_by,
            ["cpms-provider-spec-type"],
            "{wrong}: {}",
            answer.message
        );
        assert!(
            answer.message.contains(&format!("must be written {right}")),
            "{}",
            answer.message
        );
    }
}

#[test]
fn a4_a_missing_required_field_is_refused_on_every_platform() {
    let required: [&[&str]; 7] = [
        &["/ami", "/ami/id", "/instanceType"],
        &["/vmSize", "/osDisk/diskSizeGB"],
        &["/machineType", "/region"],
        &[
            "/cluster",
            "/image",
            "/subnets",
            "/memorySize",
            "/systemDiskSize",
            "/vcpuSockets",
            "/vcpusPerSocket",
        ],
        &["/cloudName", "/cloudsSecret", "/flavor", "/image"],
        &["/image", "/keyPairName", "/network", "/serviceInstance"],
        &["/template", "/workspace", "/network/devices"],
    ];
    for (spec, pointers) in platforms().into_iter().zip(required) {
        let set = set_of(&spec);
        let answer = judge(
            &set,
            &edited(&set, |set| set["spec"]["strategy"]["type"] = json!("OnDelete")),
        );
        assert!(answer.allowed, "{}: {}", spec["kind"], answer.message);
        for pointer in pointers {
            let remove = |set: &mut Value| {
                let (parent, field) = pointer.rsplit_once('/').unwrap();
                let parent = provider_spec(set).pointer_mut(parent).unwrap();
                parent.as_object_mut().unwrap().remove(field);
            };
            let answer = judge(&set, &edited(&set, remove));
            assert!(
                answer.denied_by.contains(&"cpms-provider-spec-required".to_owned()),
                "{} {pointer}: {}",
                spec["kind"],
                answer.message
            );
        }
    }
}

#[test]
fn a5_a_template_of_vsphere_may_be_in_folders() {
    let old = set_of(&platforms()[6]);
    for (template, allowed) in [
        ("rhcos", true),
        ("/dc/vm/rhcos", true),
        ("/folder/dc/vm/rhcos", true),
        ("/folder/dc/vm/templates/rhcos", true),
        ("dc/vm/rhcos", false),
        ("/vm/rhcos", false),
        ("/dc/rhcos", false),
        ("/dc/vm/", false),
    ] {
        let answer = judge(
            &old,
            &edited(&old, |set| provider_spec(set)["template"] = json!(template)),
        );
        assert_eq!(answer.allowed, allowed, "{template}: {}", answer.message);
    }
}

#[test]
fn a6_the_annotation_for_image_changes_must_be_true_or_false() {
    let old = aws_set(|_| {});
    for (value, allowed) in [
        ("true", true),
        ("false", true),
        ("yes", false),
        ("True", false),
        ("", false),
    ] {
        let annotate = |set: &mut Value| {
            set["metadata"]["annotations"] = json!({"capstan.dev/roll-on-image-change": value});
        };
        let answer = judge(&old, &edited(&old, annotate));
        assert_eq!(answer.allowed, allowed, "{value}: {}", answer.message);
        if !allowed {
            assert_eq!(answer.denied_by, ["cpms-rollout-annotations"]);
            assert!(
                answer.message.contains(r#"must be "true" or "false""#),
                "{}",
                answer.message
            );
        }
    }
}

fn three_subnets_of_one_zone(set: &mut Value) {
    let domain =
        |subnet: &str| json!({"placement": {"availabilityZone": ZONES[0]}, "subnet": {"type": "ID", "id": subnet}});
    machine_template(set)["failureDomains"]["aws"] = json!(["subnet-1", "subnet-2", "subnet-3"].map(domain));
}

#[test]
fn a6_several_failure_domains_of_one_zone_cause_a_warning() {
    let set = aws_set(|set| {
        three_subnets_of_one_zone(set);
        set["spec"]["state"] = json!("Inactive");
        set["metadata"]["annotations"] = json!({"capstan.dev/acknowledge-failure-domains":
            "us-east-1a/subnet-1,us-east-1a/subnet-2,us-east-1a/subnet-3"});
    });
    let answer = judge(&Value::Null, &set);
    assert!(answer.allowed, "{}", answer.message);
    assert!(
        answer
            .warnings
            .contains("3 failure domains are in 1 zone(s) (us-east-1a)"),
        "{}",
        answer.warnings
    );
    let answer = judge(&Value::Null, &aws_set(|_| {}));
    assert!(!answer.warnings.contains("zone(s)"), "{}", answer.warnings);
}

#[test]
fn a6_several_failure_domains_of_one_zone_are_not_a_spread() {
    let old = aws_set(|_| {});
    let answer = judge(&old, &edited(&old, three_subnets_of_one_zone));
    assert!(
        answer.denied_by.contains(&"cpms-spread-reduced".to_owned()),
        "{}",
        answer.message
    );
}

#[test]
fn a7_a_machine_health_check_needs_neither_selector_nor_conditions() {
    let crds = crd::crds(&capstan_core::admission::rule_files().unwrap()).unwrap();
    let crd = crds
        .iter()
        .find(|crd| crd::name(crd).starts_with("machinehealthchecks"))
        .unwrap();
    let schema = crd::schema(crd).unwrap();
    assert_eq!(schema.pointer("/properties/spec/required"), None);
    let field = |name: &str| schema.pointer(&format!("/properties/spec/properties/{name}")).unwrap();
    assert_eq!(field("maxUnhealthy")["default"], "100%");
    assert_eq!(field("nodeStartupTimeout")["default"], "10m");
    assert_eq!(field("unhealthyConditions")["items"].get("required"), None);
    let check: MachineHealthCheck = serde_json::from_value(json!({"spec": {}})).unwrap();
    assert!(check.spec.unhealthy_conditions.is_empty());
}

// W2

/// The machines of a set, with the set as their owner.
fn owned_machines(set: &Value) -> Vec<Value> {
    let owned = machines(set).into_iter().filter(|object| object["kind"] == "Machine");
    let owned = owned.map(|mut machine| {
        let name = format!("owned-{}", machine["metadata"]["name"].as_str().unwrap());
        machine["metadata"]["name"] = json!(name);
        machine["metadata"]["ownerReferences"] = json!([{"apiVersion": "machine.openshift.io/v1",
            "kind": "ControlPlaneMachineSet", "name": "cluster", "uid": "set-uid", "controller": true}]);
        machine
    });
    owned.collect()
}

#[test]
fn w2_a_set_that_owns_machines_is_not_deleted_without_its_finalizer() {
    let set = aws_set(|_| {});
    let owned = owned_machines(&set);
    let refused = judge_with(&set, &Value::Null, &owned, "Background");
    assert_eq!(refused.denied_by, ["cpms-deletion-without-finalizer"]);
    assert!(
        refused.message.contains("the set owns 3 machine(s)"),
        "{}",
        refused.message
    );
    assert!(judge_with(&set, &Value::Null, &owned, "Orphan").allowed);
    assert!(judge_with(&set, &Value::Null, &[], "Background").allowed);
    let mut kept = set;
    kept["metadata"]["finalizers"] = json!(["controlplanemachineset.machine.openshift.io"]);
    assert!(judge_with(&kept, &Value::Null, &owned, "Background").allowed);
}

/// The usual reaction to a deletion that waits for the controllers.
#[test]
fn w127_the_finalizer_of_a_deleted_set_stays_while_the_set_owns_machines() {
    let mut kept = aws_set(|_| {});
    let owned = owned_machines(&kept);
    kept["metadata"]["finalizers"] = json!(["controlplanemachineset.machine.openshift.io"]);
    kept["metadata"]["deletionTimestamp"] = json!("2026-01-01T00:00:00Z");
    let mut released = kept.clone();
    released["metadata"]["finalizers"] = json!([]);
    let refused = judge_with(&kept, &released, &owned, "");
    assert_eq!(refused.denied_by, ["cpms-removal-of-finalizer"]);
    let text = "the set is being deleted and owns 3 machine(s)";
    assert!(refused.message.contains(text), "{}", refused.message);
    assert!(refused.message.contains("Remove Capstan"), "{}", refused.message);
    assert!(judge_with(&kept, &released, &[], "").allowed);
    let mut other = kept.clone();
    other["metadata"]["finalizers"] = json!(["controlplanemachineset.machine.openshift.io", "x"]);
    assert!(judge_with(&other, &kept, &owned, "").allowed);
}

/// The machines of a set, and the set with another instance type.
fn machines_that_are_outdated() -> (Vec<Value>, Value) {
    let mut set = aws_set(|_| {});
    let all = machines(&set);
    set["spec"]["template"]["machines_v1beta1_machine_openshift_io"]["spec"]["providerSpec"]["value"]["instanceType"] =
        json!("m6i.8xlarge");
    (all, set)
}

/// During a rollout, a user who pauses it wants that nothing is replaced.
#[test]
fn w130_an_edit_that_pauses_a_rollout_is_not_said_to_replace_machines() {
    let (all, outdated) = machines_that_are_outdated();
    let mut paused = outdated.clone();
    paused["metadata"]["annotations"] = json!({"capstan.dev/paused-rollout": "true"});
    let warnings = judge_in(&outdated, &paused, &all, "").warnings;
    assert!(!warnings.contains("replaces"), "{warnings}");
    let text = "3 machine(s) stay outdated while the annotation capstan.dev/paused-rollout pauses the rollout";
    assert!(warnings.contains(text), "{warnings}");
    // The end of the pause replaces machines.
    let warnings = judge_in(&paused, &outdated, &all, "").warnings;
    assert!(warnings.contains("replaces 3 machine(s)"), "{warnings}");
}

/// A limit stops a rollout, so the warning about an edit of the limit must not count the machines
/// that it keeps.
#[test]
fn w133_an_edit_of_the_limit_counts_only_the_machines_that_it_replaces() {
    let (all, outdated) = machines_that_are_outdated();
    let with = |key: &str, value: &str| {
        let mut set = outdated.clone();
        set["metadata"]["annotations"] = json!({key: value});
        set
    };
    let limit = |number: &str| with("capstan.dev/rollout-limit", number);
    let stay = |count: usize, limit: usize| {
        format!(
            "{count} machine(s) stay outdated: the annotation capstan.dev/rollout-limit limits the rollout to {limit}"
        )
    };
    let warnings = |old: &Value, new: &Value| judge_in(old, new, &all, "").warnings;
    for (old, new, replaced, held) in [
        (outdated.clone(), limit("0"), None, Some(stay(3, 0))),
        (outdated.clone(), limit("1"), None, Some(stay(2, 1))),
        (
            limit("0"),
            limit("1"),
            Some("this edit replaces 1 machine(s)"),
            Some(stay(2, 1)),
        ),
        (
            limit("1"),
            outdated.clone(),
            Some("this edit replaces 2 machine(s)"),
            None,
        ),
        // The machines were outdated before the edit.
        (
            outdated.clone(),
            with("capstan.dev/progress-deadline", "1h"),
            None,
            None,
        ),
    ] {
        let warnings = warnings(&old, &new);
        assert_eq!(warnings.contains(" replaces "), replaced.is_some(), "{warnings}");
        assert_eq!(warnings.contains("stay outdated"), held.is_some(), "{warnings}");
        assert!(!warnings.contains("this edit changes"), "{warnings}");
        for text in replaced.into_iter().map(String::from).chain(held) {
            assert!(warnings.contains(&text), "{text}: {warnings}");
        }
    }
    // A change of the template says how many machines the limit keeps.
    let mut smaller = limit("1");
    smaller["spec"] = aws_set(|_| {})["spec"].clone();
    let warnings = warnings(&smaller, &limit("1"));
    assert!(
        warnings.contains("this edit changes instanceType and replaces 1 machine(s)"),
        "{warnings}"
    );
    assert!(warnings.contains(&stay(2, 1)), "{warnings}");
}

#[test]
fn w20_a_record_of_capstan_that_cannot_be_read_is_refused() {
    let creation = |at: &str| {
        json!([{"index": 0, "machine": "a-0", "requestedBy": "p", "requestedAt": at, "newField": 1}]).to_string()
    };
    let names = r#"{"0":"prod-x7k2p-master-1"}"#;
    let (pending, last) = ("capstan.dev/pending-creations", "capstan.dev/last-created");
    let cases = [
        (pending, creation("2026-01-01T00:00:00Z"), true),
        (pending, creation("2999-01-01T00:00:00Z"), true),
        (pending, String::from("[]"), true),
        (pending, String::from("junk"), false),
        (pending, String::new(), false),
        (pending, creation("tomorrow"), false),
        (pending, creation("2026-01-01T00:00:00Z").replace("a-0", "A 0"), false),
        (pending, String::from("{}"), false),
        (last, names.to_owned(), true),
        (last, String::from("{}"), true),
        (last, String::from("junk"), false),
        (last, String::from("[]"), false),
        (last, String::from(r#"{"first":"a-0"}"#), false),
        (last, String::from(r#"{"0":"A 0"}"#), false),
    ];
    for (key, value, allowed) in &cases {
        let annotate = |set: &mut Value| set["metadata"]["annotations"] = json!({*key: value});
        let old = aws_set(|_| {});
        let answer = judge(&old, &edited(&old, annotate));
        assert_eq!(answer.allowed, *allowed, "{key}: {value}: {}", answer.message);
        if *allowed {
            continue;
        }
        assert_eq!(answer.denied_by, ["cpms-records"]);
        // A value that was stored while the webhook was down does not prevent other edits.
        let stored = aws_set(annotate);
        let labelled = edited(&stored, |set| set["metadata"]["labels"] = json!({"a": "b"}));
        assert!(judge(&stored, &labelled).allowed);
        let removed = edited(&stored, |set| set["metadata"]["annotations"] = json!({}));
        assert!(judge(&stored, &removed).allowed);
    }
}

/// The Infrastructure of a cluster on a platform.
fn infrastructure(platform: &str) -> Value {
    json!({"apiVersion": "config.openshift.io/v1", "kind": "Infrastructure", "metadata": {"name": "cluster"},
        "status": {"infrastructureName": "prod-x7k2p", "platformStatus": {"type": platform}}})
}

fn azure_set(state: &str) -> Value {
    let azure = platforms().remove(1);
    aws_set(|set| {
        set["spec"]["state"] = json!(state);
        *provider_spec(set) = azure;
        machine_template(set)["failureDomains"] =
            json!({"platform": "Azure", "azure": [{"zone": "1"}, {"zone": "2"}, {"zone": "3"}]});
        set["metadata"]["annotations"] = json!({"capstan.dev/acknowledge-failure-domains": "1,2,3"});
    })
}

#[test]
fn w113_a_set_of_another_platform_than_the_cluster_is_not_created() {
    const RULE: &str = "cpms-provider-spec-kind-of-machines";
    let (none, of_aws) = (Value::Null, machines(&aws_set(|_| {})));
    let with = |objects: &[Value], more: Value| [objects, &[more]].concat();
    let aws_cluster = with(&of_aws, infrastructure("AWS"));
    for state in ["Active", "Inactive"] {
        for objects in [&of_aws, &aws_cluster] {
            let answer = judge_in(&none, &azure_set(state), objects, "");
            assert_eq!(answer.denied_by, [RULE], "{}", answer.message);
            let message = &answer.message;
            let expected = "must be AWSMachineProviderConfig, the kind of the control plane Machines: \
                            AzureMachineProviderSpec is the kind of another platform";
            assert!(message.contains(expected), "{message}");
            assert!(message.contains("cannot move to another platform"), "{message}");
            assert!(!message.contains("acknowledge"), "{message}");
        }
        // Without machines, the platform of the cluster decides.
        let answer = judge_in(&none, &azure_set(state), &[infrastructure("AWS")], "");
        assert!(answer.denied_by.contains(&RULE.to_owned()), "{}", answer.message);
        assert!(answer.message.contains("the kind of AWS, the platform of the cluster"));
    }
    let answer = judge_in(&azure_set("Inactive"), &azure_set("Active"), &aws_cluster, "");
    assert!(answer.denied_by.contains(&RULE.to_owned()), "{}", answer.message);

    // The machines decide before the Infrastructure, and a platform without provider spec decides
    // nothing.
    for platform in ["AWS", "Azure", "None", "External", ""] {
        let objects = with(&of_aws, infrastructure(platform));
        let answer = judge_in(&none, &aws_set(|_| {}), &objects, "");
        assert!(answer.allowed, "{platform}: {}", answer.message);
    }
}

const CLUSTER_LABEL: &str = "machine.openshift.io/cluster-api-cluster";

fn set_of_other_cluster(state: &str) -> Value {
    aws_set(|set| {
        set["spec"]["state"] = json!(state);
        set["spec"]["selector"]["matchLabels"][CLUSTER_LABEL] = json!("prod-zzzzz");
        machine_template(set)["metadata"]["labels"][CLUSTER_LABEL] = json!("prod-zzzzz");
    })
}

#[test]
fn w114_an_active_set_whose_selector_matches_no_machine_is_refused() {
    const RULE: &str = "cpms-selector-matches-machines";
    let (none, cluster) = (Value::Null, machines(&aws_set(|_| {})));
    let (active, inactive) = (set_of_other_cluster("Active"), set_of_other_cluster("Inactive"));
    for old in [&none, &inactive] {
        let answer = judge_in(old, &active, &cluster, "");
        assert_eq!(answer.denied_by, [RULE], "{}", answer.message);
        let expected = "the selector matches none of prod-x7k2p-master-0, prod-x7k2p-master-1, prod-x7k2p-master-2, \
                        because machine.openshift.io/cluster-api-cluster=prod-zzzzz is required, and Machine \
                        prod-x7k2p-master-0 has the value \"prod-x7k2p\"";
        assert!(answer.message.contains(expected), "{}", answer.message);
    }
    let answer = judge_in(&none, &inactive, &cluster, "");
    assert!(answer.allowed, "{}", answer.message);
    assert!(
        answer.warnings.contains("the set cannot become active"),
        "{}",
        answer.warnings
    );

    // A cluster without machines, and edits of a stored set.
    let answer = judge_in(&none, &active, &[], "");
    assert!(!answer.denied_by.contains(&RULE.to_owned()), "{}", answer.message);
    for stored in [&active, &inactive] {
        let new = edited(stored, |set| provider_spec(set)["instanceType"] = json!("m6i.2xlarge"));
        let answer = judge_in(stored, &new, &cluster, "");
        assert!(
            answer.allowed && !answer.warnings.contains("selector matches none"),
            "{}",
            answer.message
        );
    }
}

#[test]
fn w114_only_machines_that_the_selector_matches_count_as_replicas() {
    let mut cluster = machines(&aws_set(|_| {}));
    cluster[2]["metadata"]["labels"][CLUSTER_LABEL] = json!("prod-zzzzz");
    let answer = judge_in(&Value::Null, &aws_set(|_| {}), &cluster, "");
    assert_eq!(answer.denied_by, ["cpms-replicas-match-machines"], "{}", answer.message);
    let expected = "replicas is 3, and the selector matches 2 of 3 Machines: not prod-x7k2p-master-2";
    assert!(answer.message.contains(expected), "{}", answer.message);
}

#[test]
fn w115_an_owner_of_a_set_is_warned_of() {
    let owner = json!([{"apiVersion": "v1", "kind": "ConfigMap", "name": "gone", "uid": "u"}]);
    let owned = aws_set(|set| set["metadata"]["ownerReferences"] = owner);
    for old in [Value::Null, aws_set(|_| {})] {
        let answer = judge(&old, &owned);
        assert!(answer.allowed, "{}", answer.message);
        let expected = "metadata.ownerReferences: ConfigMap gone becomes an owner of the set";
        assert!(answer.warnings.contains(expected), "{}", answer.warnings);
    }
    for (old, new) in [
        (&owned, owned.clone()),
        (&owned, aws_set(|_| {})),
        (&Value::Null, aws_set(|_| {})),
    ] {
        let answer = judge(old, &new);
        assert!(!answer.warnings.contains("ownerReferences"), "{}", answer.warnings);
    }
}

#[test]
fn w117_labels_and_taints_that_a_node_cannot_have_are_refused() {
    let invalid = |set: &mut Value| {
        machine_template(set)["spec"]["taints"] = json!([
            {"key": "dedicated", "value": "etcd", "effect": "NoSchedule"}, {"key": "a b c", "effect": "noschedule"},
            {"key": "a", "value": "x y", "effect": "NoSchedule"}]);
        machine_template(set)["spec"]["metadata"] = json!({
            "labels": {"node-role.kubernetes.io/master": "x y", "good": "value"}, "annotations": {"a b": "", "a": "x y"}});
    };
    let path = "spec.template.machines_v1beta1_machine_openshift_io.spec";
    let (old, new) = (aws_set(|_| {}), aws_set(invalid));
    for old in [&old, &Value::Null] {
        let answer = judge(old, &new);
        let mut denied_by = answer.denied_by.clone();
        denied_by.sort_unstable();
        denied_by.dedup();
        assert_eq!(
            denied_by,
            ["cpms-node-metadata", "cpms-node-taints"],
            "{}",
            answer.message
        );
        for field in [
            "taints[1].key: Invalid value: \"a b c\"",
            "taints[1].effect: Invalid value: \"noschedule\"",
            "taints[2].value: Invalid value: \"x y\"",
            "metadata.labels[node-role.kubernetes.io/master]: Invalid value: \"x y\"",
            "metadata.annotations[a b]",
        ] {
            assert!(
                answer.message.contains(&format!("{path}.{field}")),
                "{field}: {}",
                answer.message
            );
        }
        assert_eq!(answer.message.matches("Invalid value").count(), 5, "{}", answer.message);
    }
    // What is stored is tolerated until the set is activated.
    let edit = edited(&new, |set| provider_spec(set)["instanceType"] = json!("m6i.2xlarge"));
    assert!(judge(&new, &edit).allowed);
    let inactive = edited(&new, |set| set["spec"]["state"] = json!("Inactive"));
    assert!(!judge(&inactive, &new).allowed);
}

#[test]
fn w117_a_taint_that_evicts_pods_of_all_machines_is_warned_of() {
    let taint = json!([{"key": "maint", "effect": "NoExecute"}]);
    let tainted = aws_set(|set| machine_template(set)["spec"]["taints"] = taint.clone());
    let warned = |answer: &Answer| {
        answer
            .warnings
            .contains("maint:NoExecute reaches the Nodes of all machines")
    };
    let answer = judge(&aws_set(|_| {}), &tainted);
    assert!(
        answer.allowed && warned(&answer),
        "{} {}",
        answer.message,
        answer.warnings
    );

    let inactive = edited(&tainted, |set| set["spec"]["state"] = json!("Inactive"));
    assert!(!warned(&judge(&aws_set(|_| {}), &inactive)));
    assert!(warned(&judge(&inactive, &tainted)));
    let edit = edited(&tainted, |set| {
        provider_spec(set)["instanceType"] = json!("m6i.2xlarge");
    });
    assert!(!warned(&judge(&tainted, &edit)));
    let soft = aws_set(|set| {
        machine_template(set)["spec"]["taints"] = json!([{"key": "maint", "effect": "NoSchedule"}]);
    });
    assert!(!warned(&judge(&aws_set(|_| {}), &soft)));
    // The activation of a set whose machines have the taint already.
    let mut cluster = machines(&tainted);
    for machine in &mut cluster[..3] {
        machine["spec"]["taints"] = taint.clone();
    }
    assert!(!warned(&judge_in(&inactive, &tainted, &cluster, "")));
}

#[test]
fn w119_the_id_of_an_instance_in_the_template_is_warned_of() {
    let with_id = aws_set(|set| machine_template(set)["spec"]["providerID"] = json!("aws:///us-east-1a/i-1"));
    for old in [aws_set(|_| {}), Value::Null] {
        let answer = judge(&old, &with_id);
        assert!(answer.allowed, "{}", answer.message);
        assert!(
            answer.warnings.contains("spec.providerID: no machine gets this value"),
            "{}",
            answer.warnings
        );
    }
    let edit = edited(&with_id, |set| {
        provider_spec(set)["instanceType"] = json!("m6i.2xlarge");
    });
    assert!(!judge(&with_id, &edit).warnings.contains("providerID"));
}

#[test]
fn w120_an_edit_during_a_rollout_counts_the_two_machines_of_an_index_once() {
    let old = aws_set(|_| {});
    let mut objects = machines(&old);
    let mut created = objects[0].clone();
    created["metadata"]["name"] = json!("prod-x7k2p-master-new-0");
    created["metadata"]["uid"] = json!("uid-new");
    created["status"] = json!({"phase": "Provisioning"});
    objects.push(created);
    let larger = |set: &mut Value| provider_spec(set)["instanceType"] = json!("m6i.4xlarge");
    let answer = judge_in(&old, &edited(&old, larger), &objects, "Background");
    assert!(answer.warnings.contains("replaces 3 machine(s)"), "{}", answer.warnings);
}

#[test]
fn w121_the_value_false_in_capitals_pauses_no_rollout() {
    let paused = |value: &str| {
        let old = aws_set(|set| set["metadata"]["annotations"] = json!({"capstan.dev/paused-rollout": value}));
        let larger = |set: &mut Value| provider_spec(set)["instanceType"] = json!("m6i.4xlarge");
        judge(&old, &edited(&old, larger)).warnings.contains("paused")
    };
    assert!(paused("true") && paused(""));
    assert!(!paused("false") && !paused("False"));
}
