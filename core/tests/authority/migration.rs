//! A migration request is stored, and the response says what prevents the migration.

use serde_json::{Value, json};

use super::world::*;
use capstan_core::admission::Snapshot;

fn to_cluster_api(old: &Value) -> Edit {
    Edit::set(old, "/spec/authoritativeAPI", json!("ClusterAPI"))
}

fn to_machine_api(old: &Value) -> Edit {
    Edit::set(old, "/spec/authoritativeAPI", json!("MachineAPI"))
}

fn machine_api_authoritative() -> Snapshot {
    cluster(&[
        capi_machine(true),
        capi_set(true),
        capi_check(true),
        aws_machine(),
        aws_template(),
    ])
}

fn cluster_api_authoritative(machine: Value, infrastructure: Value) -> Snapshot {
    cluster(&[machine, infrastructure, capi_set(false), aws_template()])
}

fn by_arn(machine: Value) -> Value {
    with(machine, "/spec/providerSpec/value/ami", json!({"arn": "arn:aws:x"}))
}

golden! {
    a_convertible_machine_gets_no_warning: to_cluster_api(&machine("MachineAPI", "MachineAPI")), machine_api_authoritative();
    a_machine_that_cannot_be_converted_gets_the_field:
        to_cluster_api(&by_arn(machine("MachineAPI", "MachineAPI"))), machine_api_authoritative();
    a_machine_of_an_unsupported_platform_gets_a_warning:
        to_cluster_api(&with(machine("MachineAPI", "MachineAPI"), "/spec/providerSpec/value/kind", json!("OvirtMachineProviderSpec"))),
        machine_api_authoritative();
    a_set_gets_the_field_in_its_template_and_a_note_about_its_machines:
        to_cluster_api(&with(machine_set("MachineAPI", "MachineAPI"),
            "/spec/template/spec/providerSpec/value/subnet", json!({"arn": "arn:aws:y"}))),
        machine_api_authoritative();
    blocking_issues_come_before_losses:
        to_cluster_api(&with(with(machine("MachineAPI", "MachineAPI"), "/spec/providerSpec/value/publicIpp", json!(true)),
            "/spec/providerSpec/value/blockDevices", json!([{"ebs": {"deleteOnTermination": false}}]))),
        machine_api_authoritative();
    an_unsynchronized_machine_gets_the_message_of_its_condition:
        to_cluster_api(&with(machine("MachineAPI", "MachineAPI"), "/status/conditions",
            json!([{"type": "Synchronized", "status": "False", "reason": "FailedToConvertMAPIMachineToCAPI",
                "message": "spec.providerSpec.value.tags: invalid"}]))),
        machine_api_authoritative();
    a_machine_without_mirror_gets_the_next_step: to_cluster_api(&machine("MachineAPI", "MachineAPI")), cluster(&[]);
    a_migration_to_the_machine_api_names_the_field_of_cluster_api:
        to_machine_api(&machine("ClusterAPI", "ClusterAPI")),
        cluster_api_authoritative(with(capi_machine(false), "/spec/readinessGates", json!([{"conditionType": "x"}])), aws_machine());
    a_migration_to_the_machine_api_names_the_field_of_the_infrastructure:
        to_machine_api(&machine("ClusterAPI", "ClusterAPI")),
        cluster_api_authoritative(capi_machine(false), with(aws_machine(), "/spec/cloudInit", json!({"secretCount": 1})));
    a_migration_to_the_machine_api_names_what_was_not_given:
        to_machine_api(&machine("ClusterAPI", "ClusterAPI")),
        Snapshot::of_files(&[capi_machine(false)]).unwrap();
    a_migration_in_progress_can_be_cancelled:
        to_machine_api(&with(machine("ClusterAPI", "Migrating"), "/status/synchronizedAPI", json!("MachineAPI"))),
        machine_api_authoritative();
    a_migration_is_refused_while_provisioning:
        to_cluster_api(&with(machine("MachineAPI", "MachineAPI"), "/status/phase", json!("Provisioning"))), machine_api_authoritative();
    a_migration_is_refused_while_deleting:
        to_cluster_api(&with(machine("MachineAPI", "MachineAPI"), "/metadata/deletionTimestamp", json!("2026-01-01T00:00:00Z"))),
        machine_api_authoritative();
    a_migration_is_refused_while_cluster_api_provisions:
        to_machine_api(&machine("ClusterAPI", "ClusterAPI")),
        cluster_api_authoritative(with(capi_machine(false), "/status", json!({})), aws_machine());
    a_health_check_that_the_machine_api_cannot_express_gets_the_field:
        to_machine_api(&check("ClusterAPI", "ClusterAPI")),
        cluster(&[with(capi_check(false), "/spec/checks/unhealthyMachineConditions", json!([{"type": "x"}]))]);
}

#[test]
fn issues_beyond_the_limit_are_counted() {
    let mut object = machine("MachineAPI", "MachineAPI");
    for number in 0..20 {
        object["spec"]["providerSpec"]["value"][format!("unknown{number:02}")] = json!(number);
    }
    let response = to_cluster_api(&object).response_text(&machine_api_authoritative());
    assert_eq!(response.matches("cannot migrate").count(), 8, "{response}");
    assert!(response.contains("and 12 more"), "{response}");
}

#[test]
fn an_edit_without_a_migration_request_gets_no_warning() {
    let object = by_arn(machine("MachineAPI", "MachineAPI"));
    let edit = Edit::set(&object, "/metadata/labels/team", json!("red"));
    assert_eq!(edit.response_text(&machine_api_authoritative()), "allowed\n");
    // Writing the API that is already authoritative is not a request.
    let object = with(
        by_arn(machine("", "MachineAPI")),
        "/status/phase",
        json!("Provisioning"),
    );
    let edit = Edit::set(&object, "/spec/authoritativeAPI", json!("MachineAPI"));
    assert_eq!(edit.response_text(&machine_api_authoritative()), "allowed\n");
}

/// While the status is empty, the spec names the authoritative API. A change of the spec would
/// change the authority without a migration.
#[test]
fn an_object_in_both_apis_does_not_migrate_before_its_status_is_set() {
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
            for (object, mirror) in pairs {
                let edit = Edit::set(&object, "/spec/authoritativeAPI", json!(to)).by(user);
                let refused = edit.refused_by(&cluster(&[object.clone(), mirror]));
                assert_eq!(refused, ["authority-migration-undecided"], "{from} {to}");
                assert!(edit.allowed(&cluster(&[object])), "{from} {to}");
            }
        }
    }
}

/// Cluster API sets the region in the cluster, the Machine API in each machine.
#[test]
fn a_machine_in_another_region_than_its_cluster_gets_the_expected_value() {
    let object = machine("MachineAPI", "MachineAPI");
    let object = with(
        object,
        "/spec/providerSpec/value/placement",
        json!({"region": "us-east-1"}),
    );
    let aws = |name: &str, region: &str| {
        json!({"apiVersion": "infrastructure.cluster.x-k8s.io/v1beta2", "kind": "AWSCluster",
            "metadata": {"name": name, "namespace": "openshift-cluster-api"}, "spec": {"region": region}})
    };
    let response = |objects: &[Value]| to_cluster_api(&object).response_text(&cluster(objects));
    let elsewhere = response(&[
        capi_machine(true),
        aws("prod", "eu-west-1"),
        aws("another", "us-east-1"),
    ]);
    let expected = r#"cannot migrate: spec.providerSpec.value.placement.region: it is "us-east-1", but spec.region of the AWSCluster is "eu-west-1""#;
    assert!(elsewhere.contains(expected), "{elsewhere}");
    // Without a counterpart, the only infrastructure cluster applies.
    assert!(response(&[aws("prod", "eu-west-1")]).contains(expected));
    let equal = response(&[capi_machine(true), aws("prod", "us-east-1")]);
    assert!(
        !equal.contains("cannot migrate") && !equal.contains("not checked"),
        "{equal}"
    );
    let none = response(&[capi_machine(true)]);
    assert!(
        none.contains("not checked: namespace openshift-cluster-api has no AWSCluster for this cluster"),
        "{none}"
    );
    let mut unknown = cluster(&[capi_machine(true)]);
    unknown.mirrors.infrastructure.remove("AWSCluster");
    let unknown = to_cluster_api(&object).response_text(&unknown);
    assert!(
        unknown.contains("not checked: the AWSCluster, which sets some fields for all machines, is not known"),
        "{unknown}"
    );
}
