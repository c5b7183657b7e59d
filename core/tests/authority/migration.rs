//! A request for a migration is kept, and answered at once with what stands in its way.

use serde_json::{Value, json};

use super::world::*;
use capstan_core::admission::Snapshot;

fn to_cluster_api(old: &Value) -> Edit {
    Edit::set(old, "/spec/authoritativeAPI", json!("ClusterAPI"))
}

fn to_machine_api(old: &Value) -> Edit {
    Edit::set(old, "/spec/authoritativeAPI", json!("MachineAPI"))
}

fn led_by_machine_api() -> Snapshot {
    cluster(&[
        capi_machine(true),
        capi_set(true),
        capi_check(true),
        aws_machine(),
        aws_template(),
    ])
}

fn led_by_cluster_api(machine: Value, infrastructure: Value) -> Snapshot {
    cluster(&[machine, infrastructure, capi_set(false), aws_template()])
}

fn by_arn(machine: Value) -> Value {
    with(machine, "/spec/providerSpec/value/ami", json!({"arn": "arn:aws:x"}))
}

golden! {
    a_machine_that_converts_has_nothing_in_its_way: to_cluster_api(&machine("MachineAPI", "MachineAPI")), led_by_machine_api();
    a_machine_that_cannot_be_converted_names_the_field:
        to_cluster_api(&by_arn(machine("MachineAPI", "MachineAPI"))), led_by_machine_api();
    a_machine_of_another_platform_says_so:
        to_cluster_api(&with(machine("MachineAPI", "MachineAPI"), "/spec/providerSpec/value/kind", json!("OvirtMachineProviderSpec"))),
        led_by_machine_api();
    a_set_names_the_field_in_its_template_and_says_what_becomes_of_its_machines:
        to_cluster_api(&with(machine_set("MachineAPI", "MachineAPI"),
            "/spec/template/spec/providerSpec/value/subnet", json!({"arn": "arn:aws:y"}))),
        led_by_machine_api();
    what_blocks_comes_before_what_is_lost:
        to_cluster_api(&with(with(machine("MachineAPI", "MachineAPI"), "/spec/providerSpec/value/publicIpp", json!(true)),
            "/spec/providerSpec/value/blockDevices", json!([{"ebs": {"deleteOnTermination": false}}]))),
        led_by_machine_api();
    a_machine_that_is_not_synchronized_repeats_the_condition:
        to_cluster_api(&with(machine("MachineAPI", "MachineAPI"), "/status/conditions",
            json!([{"type": "Synchronized", "status": "False", "reason": "FailedToConvertMAPIMachineToCAPI",
                "message": "spec.providerSpec.value.tags: invalid"}]))),
        led_by_machine_api();
    a_machine_without_a_mirror_says_what_comes_first: to_cluster_api(&machine("MachineAPI", "MachineAPI")), cluster(&[]);
    the_way_back_names_the_field_of_cluster_api:
        to_machine_api(&machine("ClusterAPI", "ClusterAPI")),
        led_by_cluster_api(with(capi_machine(false), "/spec/readinessGates", json!([{"conditionType": "x"}])), aws_machine());
    the_way_back_names_the_field_of_the_infrastructure:
        to_machine_api(&machine("ClusterAPI", "ClusterAPI")),
        led_by_cluster_api(capi_machine(false), with(aws_machine(), "/spec/cloudInit", json!({"secretCount": 1})));
    the_way_back_says_what_was_not_given:
        to_machine_api(&machine("ClusterAPI", "ClusterAPI")),
        Snapshot::of_files(&[capi_machine(false)]).unwrap();
    a_hand_over_that_is_taken_back_is_cancelled:
        to_machine_api(&with(machine("ClusterAPI", "Migrating"), "/status/synchronizedAPI", json!("MachineAPI"))),
        led_by_machine_api();
    while_provisioning_it_is_refused:
        to_cluster_api(&with(machine("MachineAPI", "MachineAPI"), "/status/phase", json!("Provisioning"))), led_by_machine_api();
    while_deleting_it_is_refused:
        to_cluster_api(&with(machine("MachineAPI", "MachineAPI"), "/metadata/deletionTimestamp", json!("2026-01-01T00:00:00Z"))),
        led_by_machine_api();
    while_cluster_api_provisions_it_is_refused:
        to_machine_api(&machine("ClusterAPI", "ClusterAPI")),
        led_by_cluster_api(with(capi_machine(false), "/status", json!({})), aws_machine());
    a_check_that_says_more_than_the_machine_api_names_the_field:
        to_machine_api(&check("ClusterAPI", "ClusterAPI")),
        cluster(&[with(capi_check(false), "/spec/checks/unhealthyMachineConditions", json!([{"type": "x"}]))]);
}

#[test]
fn more_issues_than_fit_are_counted() {
    let mut ours = machine("MachineAPI", "MachineAPI");
    for number in 0..20 {
        ours["spec"]["providerSpec"]["value"][format!("unknown{number:02}")] = json!(number);
    }
    let told = to_cluster_api(&ours).told(&led_by_machine_api());
    assert_eq!(told.matches("cannot migrate").count(), 8, "{told}");
    assert!(told.contains("and 12 more"), "{told}");
}

#[test]
fn an_edit_that_asks_for_nothing_is_told_nothing() {
    let ours = by_arn(machine("MachineAPI", "MachineAPI"));
    let edit = Edit::set(&ours, "/metadata/labels/team", json!("red"));
    assert_eq!(edit.told(&led_by_machine_api()), "allowed\n");
    // Filling in what holds already is no request.
    let ours = with(
        by_arn(machine("", "MachineAPI")),
        "/status/phase",
        json!("Provisioning"),
    );
    let edit = Edit::set(&ours, "/spec/authoritativeAPI", json!("MachineAPI"));
    assert_eq!(edit.told(&led_by_machine_api()), "allowed\n");
}

/// Until the status says who leads, the spec does: with it the lead would change hands without a hand-over.
#[test]
fn what_exists_twice_does_not_change_hands_before_it_is_decided_who_leads() {
    for (from, to) in [
        ("ClusterAPI", "MachineAPI"),
        ("MachineAPI", "ClusterAPI"),
        ("", "ClusterAPI"),
    ] {
        for user in ["alice", "kube:admin", SYNC] {
            let pairs = [
                (machine(from, ""), capi_machine(from != "ClusterAPI")),
                (machine_set(from, ""), capi_set(from != "ClusterAPI")),
                (check(from, ""), capi_check(from != "ClusterAPI")),
            ];
            for (ours, theirs) in pairs {
                let edit = Edit::set(&ours, "/spec/authoritativeAPI", json!(to)).by(user);
                let refused = edit.refused_by(&cluster(&[ours.clone(), theirs]));
                assert_eq!(refused, ["authority-migration-undecided"], "{from} {to}");
                assert!(edit.allowed(&cluster(&[ours])), "{from} {to}");
            }
        }
    }
}

/// The region is the cluster's in Cluster API, and the machine's in the Machine API.
#[test]
fn a_machine_elsewhere_than_its_cluster_is_told_which_value_it_needs() {
    let ours = machine("MachineAPI", "MachineAPI");
    let ours = with(
        ours,
        "/spec/providerSpec/value/placement",
        json!({"region": "us-east-1"}),
    );
    let aws = |name: &str, region: &str| {
        json!({"apiVersion": "infrastructure.cluster.x-k8s.io/v1beta2", "kind": "AWSCluster",
            "metadata": {"name": name, "namespace": "openshift-cluster-api"}, "spec": {"region": region}})
    };
    let told = |objects: &[Value]| to_cluster_api(&ours).told(&cluster(objects));
    let elsewhere = told(&[
        capi_machine(true),
        aws("prod", "eu-west-1"),
        aws("another", "us-east-1"),
    ]);
    let expected = r#"cannot migrate: spec.providerSpec.value.placement.region: it is "us-east-1", and the AWSCluster says "eu-west-1""#;
    assert!(elsewhere.contains(expected), "{elsewhere}");
    // Without another half, the only one counts.
    assert!(told(&[aws("prod", "eu-west-1")]).contains(expected));
    let alike = told(&[capi_machine(true), aws("prod", "us-east-1")]);
    assert!(
        !alike.contains("cannot migrate") && !alike.contains("not checked"),
        "{alike}"
    );
    let none = told(&[capi_machine(true)]);
    assert!(
        none.contains("not checked: there is no one AWSCluster to compare with"),
        "{none}"
    );
    let mut unknown = cluster(&[capi_machine(true)]);
    unknown.mirrors.infrastructure.remove("AWSCluster");
    let unknown = to_cluster_api(&ours).told(&unknown);
    assert!(
        unknown.contains("not checked: the AWSCluster is not known"),
        "{unknown}"
    );
}
