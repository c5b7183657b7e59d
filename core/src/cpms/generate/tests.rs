//! Generated sets of the six platforms. Activating a generated set starts no rollout.

use proptest::prelude::{ProptestConfig, any, prop, prop_assert, prop_assert_eq, proptest};

use super::*;
use crate::api::core_v1::node::Node;
use crate::cpms::domains::tests::infrastructure;
use crate::cpms::observed::{Observed, Settings};
use crate::cpms::plan::plan;
use crate::cpms::samples::labels;
use crate::cpms::spec::{ParseContext, Spec, parse};
use crate::cpms::state::State;

fn machines(specs: &[Value]) -> Vec<Arc<Machine>> {
    specs
        .iter()
        .enumerate()
        .map(|(index, spec)| {
            let machine: Machine = serde_json::from_value(json!({
                "apiVersion": "machine.openshift.io/v1beta1", "kind": "Machine",
                "metadata": {"name": format!("ocp-x7k2p-master-{index}"), "namespace": "openshift-machine-api",
                    "uid": format!("uid-{index}"), "resourceVersion": "1", "labels": labels(),
                    "creationTimestamp": format!("2026-01-01T00:00:0{index}Z")},
                "spec": {"providerID": format!("cloud:///{index}"), "providerSpec": {"value": spec},
                    "lifecycleHooks": {"preDrain": [{"name": "EtcdQuorumOperator", "owner": "clusteroperator/etcd"}]}},
                "status": {"phase": "Running", "nodeRef": {"name": format!("node-{index}")}},
            }))
            .unwrap();
            Arc::new(machine)
        })
        .collect()
}

fn machine_set(spec: &Value, role: &str) -> Arc<MachineSet> {
    let set: MachineSet = serde_json::from_value(json!({"metadata": {"name": "w"}, "spec": {"template": {
        "metadata": {"labels": {"machine.openshift.io/cluster-api-machine-role": role}},
        "spec": {"providerSpec": {"value": spec}}}}}))
    .unwrap();
    Arc::new(set)
}

fn on(platform: Platform) -> Infrastructure {
    let mut infrastructure = infrastructure();
    infrastructure.status.platform_status.as_mut().unwrap().type_ = platform.name().to_owned();
    infrastructure
}

fn generated(specs: &[Value], sets: &[Arc<MachineSet>], infrastructure: &Infrastructure) -> Result<Value, Unsupported> {
    let set = generate(&Existing {
        machines: &machines(specs),
        machine_sets: sets,
        nodes: None,
        infrastructure: Some(infrastructure),
    })?;
    Ok(serde_json::to_value(set).unwrap())
}

fn template(set: &Value) -> &Value {
    &set["spec"]["template"]["machines_v1beta1_machine_openshift_io"]
}

fn activated(set: &Value, infrastructure: &Infrastructure) -> Spec {
    let mut set = set.clone();
    set["spec"]["state"] = json!("Active");
    let context = ParseContext {
        infrastructure: Some(infrastructure),
        ..ParseContext::default()
    };
    let parsed = parse(&serde_json::from_value(set.clone()).unwrap(), &context);
    parsed.unwrap_or_else(|wrong| panic!("{wrong:?}\n{set:#}"))
}

/// The disruptive step after an activation.
fn rollout(set: &Value, specs: &[Value], infrastructure: &Infrastructure) -> Option<String> {
    let nodes = (0..specs.len())
        .map(|index| {
            let node: Node = serde_json::from_value(json!({"metadata": {"name": format!("node-{index}"),
                "labels": {"node-role.kubernetes.io/control-plane": ""}},
                "status": {"conditions": [{"type": "Ready", "status": "True"}]}}))
            .unwrap();
            Arc::new(node)
        })
        .collect();
    let observed = Observed {
        machines: machines(specs),
        nodes,
        infrastructure: Some(Arc::new(infrastructure.clone())),
        ..Observed::default()
    };
    let spec = activated(set, infrastructure);
    let state = State::observe(&spec, observed, Settings::default());
    let plan = plan(&spec, &state, "2026-02-01T00:00:00Z".parse().unwrap());
    assert!(plan.degraded.is_empty(), "{plan:?}");
    plan.disruptive()
        .map(|step| format!("{} {}", step.verb(), step.because))
}

/// A provider spec of each platform; the numbers select its failure domain.
fn spec_at(platform: Platform, zone: usize, other: usize) -> Value {
    let letter = ["a", "b", "c", "d"][zone % 4];
    match platform {
        Platform::Aws => json!({"kind": "AWSMachineProviderConfig", "instanceType": "m6i.xlarge", "deviceIndex": 0,
            "placement": {"region": "us-east-1", "availabilityZone": format!("us-east-1{letter}")},
            "subnet": {"filters": [{"name": "tag:Name", "values": [format!("private-{letter}-{other}")]}]}}),
        Platform::Azure => json!({"kind": "AzureMachineProviderSpec", "vmSize": "Standard_D8s_v3", "publicIP": false,
            "zone": zone.to_string(), "subnet": format!("masters-{other}"), "vnet": "v"}),
        Platform::Gcp => json!({"kind": "GCPMachineProviderSpec", "machineType": "n2-standard-4",
            "region": "us-central1", "zone": format!("us-central1-{letter}")}),
        Platform::OpenStack => json!({"kind": "OpenstackProviderSpec", "flavor": "m1.xlarge",
            "serverGroupName": "masters", "availabilityZone": format!("nova{zone}"),
            "rootVolume": {"diskSize": 100, "availabilityZone": format!("cinder{zone}"), "volumeType": format!("t{other}")}}),
        Platform::VSphere | Platform::Nutanix => {
            let infrastructure = infrastructure();
            let names = domains::defined_names(platform, &infrastructure);
            let name = &names[zone % names.len()];
            let plain = json!({"kind": platform.kind(), "memoryMiB": 16384});
            let domain = FailureDomain::new(platform, json!({ "name": name }));
            domains::inject(&plain, &domain, Some(&infrastructure)).unwrap()
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 300, failure_persistence: None, ..ProptestConfig::default() })]

    /// Invariant C11.
    #[test]
    fn activating_a_generated_set_rolls_nothing_out(
        platform in 0..6_usize,
        places in prop::collection::vec((0..4_usize, 0..2_usize), 5),
        five in any::<bool>(),
        workers in prop::collection::vec((0..5_usize, 0..3_usize), 0..4),
    ) {
        let platform = Platform::ALL[platform];
        let count = if five { 5 } else { 3 };
        let specs: Vec<Value> =
            places.iter().take(count).map(|(zone, other)| spec_at(platform, *zone, *other)).collect();
        let sets: Vec<Arc<MachineSet>> =
            workers.iter().map(|(zone, other)| machine_set(&spec_at(platform, *zone, *other), "worker")).collect();
        let infrastructure = on(platform);
        let set = generated(&specs, &sets, &infrastructure).unwrap();
        prop_assert_eq!(&set["spec"]["replicas"], &json!(count));
        // Only with five machines can one failure domain have more than its share. The set moves
        // these.
        let spec = activated(&set, &infrastructure);
        let share = count.div_ceil(spec.failure_domains.len().max(1));
        let crowded = specs.iter().any(|spec| {
            let at = domains::extract(spec, Some(&infrastructure));
            specs.iter().filter(|other| domains::extract(other, Some(&infrastructure)) == at).count() > share
        });
        prop_assert!(five || !crowded);
        if !crowded {
            prop_assert_eq!(rollout(&set, &specs, &infrastructure), None, "{:#}", set);
        }
    }

    #[test]
    fn machines_of_any_content_cause_no_panic(
        platform in 0..6_usize,
        field in prop::sample::select(vec!["placement", "zone", "subnet", "rootVolume", "workspace", "failureDomain", "kind"]),
        odd in prop::sample::select(vec!["null", "7", "[]", "{}", "\"\"", "[{}]", "{\"name\":3}"]),
    ) {
        let platform = Platform::ALL[platform];
        let mut spec = spec_at(platform, 0, 0);
        spec[field] = serde_json::from_str(odd).unwrap();
        let specs = [spec, spec_at(platform, 1, 0), spec_at(platform, 2, 0)];
        let result = generated(&specs, &[], &on(platform));
        prop_assert!(result.is_ok() || result.is_err());
    }
}

#[test]
fn a_set_on_aws_lists_zones_and_subnets_and_its_template_has_neither() {
    let specs = [
        spec_at(Platform::Aws, 1, 0),
        spec_at(Platform::Aws, 0, 0),
        spec_at(Platform::Aws, 2, 0),
    ];
    let set = generated(&specs, &[], &on(Platform::Aws)).unwrap();
    insta::assert_json_snapshot!(set);
}

#[test]
fn on_azure_the_template_has_the_values_that_all_machines_share() {
    let infrastructure = on(Platform::Azure);
    let at = |zone, subnet| spec_at(Platform::Azure, zone, subnet);
    let set = generated(&[at(1, 0), at(2, 0), at(3, 0)], &[], &infrastructure).unwrap();
    assert_eq!(
        template(&set)["failureDomains"]["azure"],
        json!([{"zone": "1"}, {"zone": "2"}, {"zone": "3"}])
    );
    let kept = |set: &Value| {
        let spec = &template(set)["spec"]["providerSpec"]["value"];
        [spec.get("zone").cloned(), spec.get("subnet").cloned()]
    };
    assert_eq!(kept(&set), [None, Some(json!("masters-0"))]);
    let set = generated(&[at(1, 0), at(1, 1), at(1, 2)], &[], &infrastructure).unwrap();
    assert_eq!(
        template(&set)["failureDomains"]["azure"][1],
        json!({"zone": "", "subnet": "masters-1"})
    );
    assert_eq!(kept(&set), [Some(json!("1")), None]);
    let set = generated(&[at(1, 0), at(1, 0), at(1, 0)], &[], &infrastructure).unwrap();
    assert!(template(&set).get("failureDomains").is_none());
}

#[test]
fn openstack_without_zones_has_no_failure_domains_and_with_two_server_groups_no_set() {
    let infrastructure = on(Platform::OpenStack);
    let plain = json!({"kind": "OpenstackProviderSpec", "flavor": "m1", "serverGroupName": "g"});
    let set = generated(&[plain.clone(), plain.clone(), plain.clone()], &[], &infrastructure).unwrap();
    assert!(template(&set).get("failureDomains").is_none());
    let mut other = plain.clone();
    other["serverGroupName"] = json!("h");
    let error = generated(&[plain.clone(), plain.clone(), other], &[], &infrastructure).unwrap_err();
    assert_eq!(
        error.to_string(),
        "machines differ in serverGroupName: \"g\", \"h\"; a set has one template"
    );
    let mut zoned = plain.clone();
    zoned["availabilityZone"] = json!("nova");
    let error = generated(&[plain.clone(), plain, zoned], &[], &infrastructure).unwrap_err();
    assert!(matches!(error, Unsupported::MixedDomains(machines) if machines.len() == 2));
}

#[test]
fn sets_on_vsphere_and_nutanix_list_names_of_the_infrastructure() {
    let at = |zone| spec_at(Platform::VSphere, zone, 0);
    let set = generated(&[at(0), at(1), at(0)], &[], &on(Platform::VSphere)).unwrap();
    assert_eq!(
        template(&set)["failureDomains"]["vsphere"],
        json!([{"name": "east-1"}, {"name": "east-2"}])
    );
    let spec = &template(&set)["spec"]["providerSpec"]["value"];
    assert_eq!(spec, &json!({"kind": "VSphereMachineProviderSpec", "memoryMiB": 16384}));
    let mut astray = at(0);
    astray["workspace"]["datacenter"] = json!("elsewhere");
    assert!(generated(&[at(0), at(1), astray], &[], &on(Platform::VSphere)).is_err());
    let at = |zone| spec_at(Platform::Nutanix, zone, 0);
    let set = generated(&[at(0), at(0), at(0)], &[], &on(Platform::Nutanix)).unwrap();
    assert_eq!(template(&set)["failureDomains"]["nutanix"], json!([{"name": "pe-1"}]));
}

#[test]
fn domains_of_machine_sets_are_added_if_they_move_no_machine() {
    let at = |zone| spec_at(Platform::Gcp, zone, 0);
    let workers = [machine_set(&at(3), "worker"), machine_set(&at(0), "worker")];
    let set = generated(&[at(0), at(1), at(2)], &workers, &on(Platform::Gcp)).unwrap();
    assert_eq!(template(&set)["failureDomains"]["gcp"].as_array().unwrap().len(), 4);
    let set = generated(&[at(0), at(1), at(1)], &workers, &on(Platform::Gcp)).unwrap();
    assert_eq!(template(&set)["failureDomains"]["gcp"].as_array().unwrap().len(), 2);
    let edge = [machine_set(&at(3), "edge")];
    let set = generated(&[at(0), at(1), at(2)], &edge, &on(Platform::Gcp)).unwrap();
    assert_eq!(template(&set)["failureDomains"]["gcp"].as_array().unwrap().len(), 3);
}

#[test]
fn a_generated_set_is_not_updated_while_a_machine_is_missing() {
    let spec = |zone| spec_at(Platform::Aws, zone, 0);
    let infrastructure = on(Platform::Aws);
    let existing = |machines: &[Arc<Machine>], before: &ControlPlaneMachineSet| {
        let existing = Existing {
            machines,
            infrastructure: Some(&infrastructure),
            ..Existing::default()
        };
        update(&existing, before).unwrap()
    };
    let three = machines(&[spec(0), spec(1), spec(2)]);
    let whole = Existing {
        machines: &three,
        infrastructure: Some(&infrastructure),
        ..Existing::default()
    };
    let set = generate(&whole).unwrap();
    assert_eq!(existing(&three, &set), Some(set.clone()));
    assert_eq!(existing(&three[..2], &set), None);
    let mut going = three.clone();
    Arc::make_mut(&mut going[1]).metadata.deletion_timestamp = Some("2026-02-01T00:00:00Z".parse().unwrap());
    assert_eq!(existing(&going, &set), None);
    // A set that is generated meanwhile lists the failure domain of the machine that is being
    // deleted. Admission would refuse a set without it.
    let anew = Existing {
        machines: &going,
        ..whole
    };
    assert_eq!(generate(&anew), generate(&whole));
    // Two machines of one index and none of another (seeds 9531, 14481 and eight more).
    let mut doubled = three.clone();
    Arc::make_mut(&mut doubled[0]).metadata.name = Some("ocp-x7k2p-master-h-1".to_owned());
    assert_eq!(existing(&doubled, &set), None);
    let five = machines(&[spec(0), spec(1), spec(2), spec(0), spec(1)]);
    assert_eq!(existing(&five, &set).unwrap().spec.replicas, Some(3));
}

/// Seed 79305: three of five machines were left, in two failure domains. A generated set of three
/// listed a third failure domain.
#[test]
fn a_generated_set_keeps_the_failure_domains_that_spread_its_machines() {
    let zones = |set: &ControlPlaneMachineSet| -> Vec<String> {
        let domains = set.spec.template.machine.as_ref().unwrap().failure_domains.as_ref();
        let list = domains::list(domains.unwrap());
        list.iter().map(FailureDomain::label).collect()
    };
    let at = |letters: &[&str]| machines(&letters.iter().map(|letter| zoned(letter)).collect::<Vec<_>>());
    let updated = |machines: &[Arc<Machine>], before: &ControlPlaneMachineSet| {
        let existing = Existing {
            machines,
            ..Existing::default()
        };
        update(&existing, before).unwrap().unwrap()
    };
    let three = at(&["a", "b", "c"]);
    let set = generate(&Existing {
        machines: &three,
        ..Existing::default()
    })
    .unwrap();
    let mut fewer = at(&["a", "a", "b"]);
    for machine in &mut fewer {
        let spec = &mut Arc::make_mut(machine).spec;
        spec.provider_spec.value.as_mut().unwrap()["machineType"] = json!("n3");
    }
    let after = updated(&fewer, &set);
    assert_eq!(zones(&after), ["a", "b", "c"]);
    let value = serde_json::to_value(&after).unwrap();
    assert_eq!(template(&value)["spec"]["providerSpec"]["value"]["machineType"], "n3");
    // An unchanged cluster generates the same set.
    assert_eq!(updated(&fewer, &after), after);
    // The machines are spread as far, over other failure domains.
    let moved = updated(&at(&["a", "b", "d"]), &set);
    assert_eq!(zones(&moved), ["a", "b", "d"]);
}

#[test]
fn the_template_is_the_newest_machine_without_its_own_values() {
    let mut specs = [
        spec_at(Platform::Gcp, 0, 0),
        spec_at(Platform::Gcp, 1, 0),
        spec_at(Platform::Gcp, 2, 0),
    ];
    specs[2]["machineType"] = json!("n2-standard-8");
    let set = generated(&specs, &[], &on(Platform::Gcp)).unwrap();
    let spec = &template(&set)["spec"];
    assert_eq!(spec["providerSpec"]["value"]["machineType"], "n2-standard-8");
    assert!(spec.get("providerID").is_none() && spec.get("lifecycleHooks").is_none());
    assert_eq!(set["spec"]["state"], "Inactive");
}

#[test]
fn an_unsupported_control_plane_is_refused_with_a_reason() {
    let aws = on(Platform::Aws);
    let spec = spec_at(Platform::Aws, 0, 0);
    assert_eq!(
        generated(std::slice::from_ref(&spec), &[], &aws),
        Err(Unsupported::TooFewMachines(1))
    );
    assert_eq!(generated(&[], &[], &aws), Err(Unsupported::NoMachine));
    assert_eq!(
        generated(&vec![spec.clone(); 6], &[], &aws),
        Err(Unsupported::TooManyMachines(6))
    );
    assert!(matches!(
        generated(&vec![spec.clone(); 3], &[], &on(Platform::Gcp)),
        Err(Unsupported::OtherKind { .. })
    ));
    let mut none = aws;
    none.status.platform_status.as_mut().unwrap().type_ = "None".to_owned();
    assert_eq!(
        generated(&vec![spec; 3], &[], &none),
        Err(Unsupported::Platform("None".to_owned()))
    );
}

/// Seed 78060: two of five machines had lost a label. A set of three was generated, and its
/// replicas could not be changed to five.
#[test]
fn no_set_is_generated_while_a_control_plane_node_belongs_to_no_selected_machine() {
    let specs: Vec<Value> = ["a", "b", "c", "a", "b"].map(zoned).to_vec();
    let mut all = machines(&specs);
    let node = |index: usize| {
        let name = format!("node-{index}");
        let node: Node = serde_json::from_value(json!({"metadata": {"name": name,
            "labels": {"node-role.kubernetes.io/master": ""}}}))
        .unwrap();
        (name, Arc::new(node))
    };
    let nodes: BTreeMap<String, Arc<Node>> = (0..5).map(node).collect();
    let made = |machines: &[Arc<Machine>], nodes| {
        let existing = Existing {
            machines,
            nodes,
            ..Existing::default()
        };
        generate(&existing).map(|set| set.spec.replicas)
    };
    assert_eq!(made(&all, Some(&nodes)), Ok(Some(5)));
    for index in [0, 2] {
        let labels = &mut Arc::make_mut(&mut all[index]).metadata.labels;
        labels.remove(label::TYPE);
    }
    let unclaimed = Unsupported::UnclaimedNodes(vec!["node-0".to_owned(), "node-2".to_owned()]);
    assert_eq!(made(&all, Some(&nodes)), Err(unclaimed));
    // Unknown nodes are not checked.
    assert_eq!(made(&all, None), Ok(Some(3)));
}

#[test]
fn a_machine_that_is_being_deleted_counts_until_it_is_gone() {
    let specs: Vec<Value> = ["a", "b", "c"].map(zoned).to_vec();
    let mut all = machines(&specs);
    let go = |machine: &mut Arc<Machine>| {
        Arc::make_mut(machine).metadata.deletion_timestamp = Some("2026-01-02T00:00:00Z".parse().unwrap());
    };
    let zones = |machines: &[Arc<Machine>]| {
        let set = generate(&Existing {
            machines,
            ..Existing::default()
        })
        .unwrap();
        let set = serde_json::to_value(set).unwrap();
        let domains = template(&set)["failureDomains"]["gcp"]
            .as_array()
            .cloned()
            .unwrap_or_default();
        let zones: Vec<String> = domains
            .iter()
            .map(|domain| domain["zone"].as_str().unwrap().to_owned())
            .collect();
        (set["spec"]["replicas"].as_i64().unwrap(), zones.join(" "))
    };
    // The newest machine, from which the template would be taken.
    go(&mut all[2]);
    assert_eq!(zones(&all), (3, "a b c".to_owned()));
    let mut successor = machines(&[zoned("d")]).remove(0);
    Arc::make_mut(&mut successor).metadata.name = Some("ocp-x7k2p-master-new-2".to_owned());
    all.push(successor);
    // A machine that is being deleted may be the only one that shows the failure domain of its
    // replacement (seed 210415).
    assert_eq!(zones(&all), (3, "a b c d".to_owned()));
    // A user who replaces a machine may choose another index.
    Arc::make_mut(&mut all[3]).metadata.name = Some("ocp-x7k2p-master-3".to_owned());
    assert_eq!(zones(&all), (3, "a b c d".to_owned()));
    all.remove(2);
    assert_eq!(zones(&all), (3, "a b d".to_owned()));
}

fn zoned(zone: &str) -> Value {
    json!({"kind": "GCPMachineProviderSpec", "machineType": "n2", "zone": zone})
}

#[test]
fn v62_a_machine_of_another_cluster_is_not_described_by_the_generated_set() {
    let spec = spec_at(Platform::Aws, 0, 0);
    let mut all = machines(&[spec.clone(), spec.clone(), spec.clone(), spec]);
    let newest = Arc::make_mut(all.last_mut().unwrap());
    let labels = &mut newest.metadata.labels;
    labels.insert(label::CLUSTER.to_owned(), "ocp-b4d1c".to_owned());
    let infrastructure = on(Platform::Aws);
    let known = Existing {
        machines: &all,
        infrastructure: Some(&infrastructure),
        ..Existing::default()
    };
    let set = generate(&known).unwrap();
    let selected = set.spec.selector.match_labels.get(label::CLUSTER).map(String::as_str);
    assert_eq!((selected, set.spec.replicas), (Some("ocp-x7k2p"), Some(3)));
    assert_eq!(update(&known, &set).unwrap(), Some(set));

    let unknown = Existing {
        infrastructure: None,
        ..known
    };
    let clusters = ["ocp-b4d1c", "ocp-x7k2p"].map(|name| format!("{name:?}"));
    assert_eq!(generate(&unknown), Err(Unsupported::SeveralClusters(clusters.to_vec())));

    let same = machines(&[spec_at(Platform::Aws, 0, 0), spec_at(Platform::Aws, 0, 0)]);
    let mut renamed = infrastructure.clone();
    renamed.status.infrastructure_name = "ocp-other".to_owned();
    let known = Existing {
        machines: &same,
        infrastructure: Some(&renamed),
        ..Existing::default()
    };
    assert!(generate(&known).is_ok());
}
