//! Tests of the parse: the model of a valid set, and field, rule and kind of each violation.

use jiff::SignedDuration;
use serde_json::json;

use super::*;
use crate::api::config_openshift_io::feature_gate::FeatureGate;
use crate::api::config_openshift_io::infrastructure::Infrastructure;
use crate::api::machine_openshift_io::control_plane_machine_set::ControlPlaneMachineSet;
use crate::cpms::samples::{aws_set, json_set};

fn violations(change: impl FnOnce(&mut Value)) -> Vec<String> {
    violations_in(change, &ParseContext::default())
}

fn violations_in(change: impl FnOnce(&mut Value), context: &ParseContext<'_>) -> Vec<String> {
    let mut set = json_set();
    change(&mut set);
    match parse(&serde_json::from_value(set).unwrap(), context) {
        Ok(_) => Vec::new(),
        Err(wrong) => wrong
            .iter()
            .map(|violation| format!("{} {} {:?}", violation.path, violation.rule, violation.kind))
            .collect(),
    }
}

const T: &str = "spec.template.machines_v1beta1_machine_openshift_io";

fn template(set: &mut Value) -> &mut Value {
    &mut set["spec"]["template"]["machines_v1beta1_machine_openshift_io"]
}

#[test]
fn a_valid_set_parses_into_the_model() {
    let spec = parse(&aws_set(), &ParseContext::default()).unwrap();
    assert_eq!(spec.replicas, Replicas::Three);
    assert_eq!(spec.state, SetState::Active);
    assert_eq!(spec.strategy, Strategy::RollingUpdate);
    assert_eq!(spec.machine_name_prefix(), "ocp-x7k2p-master");
    assert_eq!(spec.template.platform, Some(Platform::Aws));
    let labels: Vec<String> = spec.failure_domains.iter().map(FailureDomain::label).collect();
    assert_eq!(labels, ["us-east-1a", "us-east-1b", "us-east-1c"]);
    assert!(spec.comparison().domains);
}

#[test]
fn fields_with_a_default_in_the_schema_have_the_same_default() {
    let mut set = json_set();
    for field in ["state", "replicas", "strategy"] {
        set["spec"].as_object_mut().unwrap().remove(field);
    }
    let spec = parse(&serde_json::from_value(set).unwrap(), &ParseContext::default()).unwrap();
    assert_eq!(spec.state, SetState::Inactive);
    assert_eq!(spec.replicas.count(), 3);
    assert_eq!(spec.strategy, Strategy::RollingUpdate);
}

#[test]
fn every_scalar_is_checked_and_all_violations_are_collected() {
    let found = violations(|set| {
        set["metadata"]["name"] = json!("other");
        set["spec"]["state"] = json!("On");
        set["spec"]["replicas"] = json!(4);
        set["spec"]["strategy"] = json!({"type": "Recreate"});
        set["spec"]["machineNamePrefix"] = json!("No_Good");
        set["spec"]["selector"] = json!({});
    });
    assert_eq!(
        found,
        [
            "metadata.name cpms-name Invalid",
            "spec.machineNamePrefix cpms-name-prefix Invalid",
            "spec.replicas cpms-replicas NotSupported",
            "spec.selector cpms-selector-valid Required",
            "spec.state cpms-state NotSupported",
            "spec.strategy.type cpms-strategy NotSupported",
        ]
    );
}

#[test]
fn the_name_prefix_is_a_subdomain_of_at_most_245_characters() {
    for good in ["a", "control-plane", "a.b-c.d0", &"x".repeat(245)] {
        assert!(
            violations(|set| set["spec"]["machineNamePrefix"] = json!(good)).is_empty(),
            "{good}"
        );
    }
    for bad in ["", "-a", "a-", "a..b", "A", "a_b", ".a", &"x".repeat(246)] {
        let found = violations(|set| set["spec"]["machineNamePrefix"] = json!(bad));
        assert_eq!(found.len(), 1, "{bad}");
    }
}

#[test]
fn a_prefix_without_its_gate_is_refused_by_admission_and_ignored_by_the_controller() {
    let mut context = ParseContext {
        gates: Gates {
            name_prefix: false,
            recreate: false,
        },
        ..ParseContext::default()
    };
    let prefix = |set: &mut Value| set["spec"]["machineNamePrefix"] = json!("masters");
    assert_eq!(
        violations_in(prefix, &context),
        ["spec.machineNamePrefix cpms-name-prefix-gate Forbidden"]
    );
    context.ignore_gated_fields = true;
    let mut set = json_set();
    prefix(&mut set);
    let spec = parse(&serde_json::from_value(set).unwrap(), &context).unwrap();
    assert_eq!(spec.machine_name_prefix(), "ocp-x7k2p-master");
}

#[test]
fn recreate_requires_its_gate_and_an_acknowledgement_that_names_the_risk() {
    let context = ParseContext {
        gates: Gates {
            recreate: true,
            ..Gates::default()
        },
        ..ParseContext::default()
    };
    let recreate = |set: &mut Value| set["spec"]["strategy"] = json!({"type": "Recreate"});
    let key = "metadata.annotations[capstan.dev/recreate-acknowledged]";
    let expected = [format!("{key} cpms-recreate-acknowledged Required")];
    assert_eq!(violations_in(recreate, &context), expected);
    let careless = |set: &mut Value| {
        recreate(set);
        set["metadata"]["annotations"] = json!({RECREATE_ACKNOWLEDGED: "true"});
    };
    assert_eq!(violations_in(careless, &context), expected);
    let acknowledged = |set: &mut Value| {
        recreate(set);
        set["metadata"]["annotations"] = json!({RECREATE_ACKNOWLEDGED: RECREATE_RISK});
    };
    assert!(violations_in(acknowledged, &context).is_empty());
    assert_eq!(
        violations_in(acknowledged, &ParseContext::default()).len(),
        1,
        "the gate is off by default"
    );
}

#[test]
fn labels_and_selector_must_agree() {
    let found = violations(|set| {
        template(set)["metadata"]["labels"] = json!({"machine.openshift.io/cluster-api-machine-role": "worker"});
    });
    let rules = [
        "cpms-label-cluster Required",
        "cpms-label-type Required",
        "cpms-label-role Invalid",
        "cpms-selector-matches Invalid",
    ];
    assert_eq!(found, rules.map(|rule| format!("{T}.metadata.labels {rule}")));
}

#[test]
fn the_provider_spec_must_be_an_object_of_the_platforms_kind() {
    let value = format!("{T}.spec.providerSpec.value");
    let found = violations(|set| template(set)["spec"]["providerSpec"] = json!({}));
    assert_eq!(found, [format!("{value} cpms-provider-spec Required")]);
    let found = violations(|set| template(set)["spec"]["providerSpec"]["value"] = json!("text"));
    assert_eq!(found, [format!("{value} cpms-provider-spec TypeInvalid")]);
    let found =
        violations(|set| template(set)["spec"]["providerSpec"]["value"]["kind"] = json!("GCPMachineProviderSpec"));
    assert_eq!(
        found,
        [format!("{T}.failureDomains.platform cpms-platform-agrees Invalid")]
    );
}

#[test]
fn only_the_platform_of_the_set_has_a_list() {
    let domains = format!("{T}.failureDomains");
    let with = |value: Value| violations(|set| template(set)["failureDomains"] = value);
    assert_eq!(
        with(json!({"platform": "AWS"})),
        [format!("{domains}.aws cpms-failure-domains Required")]
    );
    assert_eq!(
        with(json!({"platform": "AWS", "aws": []})),
        [format!("{domains}.aws cpms-failure-domains Required")]
    );
    assert_eq!(
        with(json!({"platform": "None"})),
        [format!("{domains}.platform cpms-platform NotSupported")]
    );
    assert_eq!(
        with(json!({"platform": "AWS", "aws": [{"placement": {"availabilityZone": "a"}}], "gcp": [{"zone": "b"}]})),
        [format!("{domains}.gcp cpms-failure-domains Forbidden")]
    );
    assert!(with(json!({"platform": ""})).is_empty());
    assert_eq!(
        with(json!({"platform": "", "gcp": []})),
        [format!("{domains}.gcp cpms-failure-domains Forbidden")]
    );
    assert!(with(Value::Null).is_empty());
}

#[test]
fn b17_each_failure_domain_is_validated_and_not_only_the_first() {
    let found = violations(|set| {
        template(set)["failureDomains"]["aws"] = json!([{"placement": {"availabilityZone": "a"}},
            {"subnet": {"type": "ID"}}, {"placement": {"availabilityZone": ""}, "subnet": {"type": "ID", "id": "s"}}]);
    });
    assert_eq!(
        found,
        [
            format!("{T}.failureDomains.aws[1].subnet.id cpms-failure-domain Required"),
            format!("{T}.failureDomains.aws[2].placement.availabilityZone cpms-failure-domain Required"),
        ]
    );
}

#[test]
fn a_repeated_zone_counts_once() {
    let mut set = json_set();
    template(&mut set)["failureDomains"]["aws"] = json!([{"placement": {"availabilityZone": "b"}}, {"placement": {"availabilityZone": "a"}}, {"placement": {"availabilityZone": "b"}}]);
    let spec = parse(&serde_json::from_value(set).unwrap(), &ParseContext::default()).unwrap();
    let labels: Vec<String> = spec.failure_domains.iter().map(FailureDomain::label).collect();
    assert_eq!(labels, ["a", "b"]);
}

#[test]
fn a_vsphere_name_must_be_defined_and_unique() {
    let change = |set: &mut Value| {
        let machine = template(set);
        machine["spec"]["providerSpec"]["value"] = json!({"kind": "VSphereMachineProviderSpec"});
        machine["failureDomains"] = json!({"platform": "VSphere", "vsphere": [{"name": "x"}, {"name": "x"}]});
    };
    let infrastructure = Infrastructure::default();
    let context = ParseContext {
        infrastructure: Some(&infrastructure),
        ..ParseContext::default()
    };
    let list = format!("{T}.failureDomains.vsphere");
    assert_eq!(
        violations_in(change, &context),
        [
            format!("{list}[0].name cpms-failure-domain Invalid"),
            format!("{list}[1] cpms-failure-domain Duplicate"),
            format!("{list}[1].name cpms-failure-domain Invalid"),
        ]
    );
}

#[test]
fn annotations_that_control_a_rollout_are_checked() {
    let annotated = |key: &str, value: &str| {
        let mut set = json_set();
        set["metadata"]["annotations"] = json!({key: value});
        parse(&serde_json::from_value(set).unwrap(), &ParseContext::default()).map(|spec| spec.rollout)
    };
    assert!(annotated(PAUSED_ROLLOUT, "").unwrap().paused);
    assert!(!annotated(PAUSED_ROLLOUT, "false").unwrap().paused);
    assert_eq!(annotated(ROLLOUT_LIMIT, "1").unwrap().limit, Some(1));
    assert!(annotated(ROLLOUT_LIMIT, "one").is_err());
    let deadline = |text| annotated(PROGRESS_DEADLINE, text).map(|rollout| rollout.deadline);
    assert_eq!(deadline("1h30m").unwrap(), Some(SignedDuration::from_secs(5400)));
    assert_eq!(deadline("90").unwrap(), Some(SignedDuration::from_secs(90)));
    for bad in ["", "0s", "1h30", "h", "-5m", "9999999999999999999h"] {
        assert!(deadline(bad).is_err(), "{bad}");
    }
}

#[test]
fn the_gates_are_those_of_the_running_version() {
    let gate: FeatureGate = serde_json::from_value(json!({"status": {"featureGates": [
        {"version": "1", "enabled": [{"name": "CPMSRecreate"}], "disabled": []},
        {"version": "2", "enabled": [], "disabled": [{"name": "CPMSMachineNamePrefix"}]}]}}))
    .unwrap();
    assert_eq!(
        Gates::of(&gate, "1"),
        Gates {
            name_prefix: true,
            recreate: true
        }
    );
    assert_eq!(
        Gates::of(&gate, "2"),
        Gates {
            name_prefix: false,
            recreate: false
        }
    );
    assert_eq!(Gates::of(&FeatureGate::default(), "3"), Gates::default());
}

#[test]
fn an_empty_object_gives_violations_and_no_panic() {
    assert!(parse(&ControlPlaneMachineSet::default(), &ParseContext::default()).is_err());
}
