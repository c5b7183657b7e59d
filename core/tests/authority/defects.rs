//! Defects of the guards that attackers and OpenShift's own components showed. The name of a test
//! starts with the id of the defect.

use serde_json::{Value, json};

use super::world::*;
use capstan_core::admission::{Snapshot, Source};

const CORE: &str = "system:serviceaccount:openshift-cluster-api:capi-manager";
const AWS: &str = "system:serviceaccount:openshift-cluster-api:capa-controller-manager";
const OPENSHIFT_SYNC: &str = "system:serviceaccount:openshift-cluster-api:capi-controllers";
const MACHINE_API_CONTROLLERS: &str = "system:serviceaccount:openshift-machine-api:machine-api-controllers";
const ETCD_OPERATOR: &str = "system:serviceaccount:openshift-etcd-operator:etcd-operator";
const CONTROLLER_MANAGER: &str = "system:kube-controller-manager";
const SIGNATURE: &str = "sync.machine.openshift.io";
const DELETED_AT: &str = "2026-01-01T00:00:00Z";

/// A cluster in which one API is authoritative for all three pairs.
fn authoritative(api: &str) -> Snapshot {
    let paused = api == "MachineAPI";
    cluster(&[
        machine(api, api),
        machine_set(api, api),
        check(api, api),
        capi_machine(paused),
        capi_set(paused),
        capi_check(paused),
    ])
}

fn deleting(object: Value) -> Value {
    with(object, "/metadata/deletionTimestamp", json!(DELETED_AT))
}

fn signed(object: Value) -> Value {
    with(object, "/metadata/annotations", json!({PAUSED: SIGNATURE}))
}

fn annotated(object: &Value, key: &str, value: Value) -> Value {
    let mut object = object.clone();
    if object["metadata"]["annotations"].is_null() {
        object["metadata"]["annotations"] = json!({});
    }
    object["metadata"]["annotations"][key] = value;
    object
}

/// The collector deletes an object whose owner does not exist.
#[test]
fn h1_a_user_cannot_create_a_mirror_with_an_owner_or_the_sync_finalizer() {
    let owner = json!([{"apiVersion": "cluster.x-k8s.io/v1beta2", "kind": "MachineSet", "name": "gone", "uid": "x"}]);
    let cluster_api_mirrors = [capi_machine(true), capi_set(true), capi_check(true), aws_machine()];
    let machine_api_mirrors = [machine("ClusterAPI", ""), machine_set("ClusterAPI", "")];
    for (objects, api) in [
        (&cluster_api_mirrors[..], "MachineAPI"),
        (&machine_api_mirrors[..], "ClusterAPI"),
    ] {
        for object in objects.iter().cloned().map(new) {
            let snapshot = authoritative(api);
            assert!(Edit::create(object.clone()).allowed(&snapshot), "{object}");
            let owned = Edit::create(with(object.clone(), "/metadata/ownerReferences", owner.clone()));
            assert_eq!(owned.refused_by(&snapshot), ["authority-create-owner-references"]);
            let held = Edit::create(with(object.clone(), "/metadata/finalizers", json!([FINALIZER])));
            assert_eq!(held.refused_by(&snapshot), ["authority-create-sync-finalizer"]);
            for edit in [owned, held] {
                assert!(edit.clone().by(SYNC).allowed(&snapshot), "{object}");
                assert!(edit.allowed(&cluster(&[])), "an object that is not mirrored: {object}");
            }
        }
    }
}

#[test]
fn h1_the_authoritative_object_decides_whether_a_machine_has_an_owner() {
    let owned = owned_by(capi_machine(true), "MachineSet", "gone");
    let response = Edit::delete(&owned).response_text(&authoritative("MachineAPI"));
    assert!(response.contains("only this mirror is deleted"), "{response}");
    let owned = owned_by(machine("ClusterAPI", "ClusterAPI"), "MachineSet", "gone");
    let response = Edit::delete(&owned).response_text(&authoritative("ClusterAPI"));
    assert!(response.contains("only this mirror is deleted"), "{response}");
    // The owner of the authoritative object counts, whichever object is deleted.
    let owned = owned_by(machine("MachineAPI", "MachineAPI"), "MachineSet", "workers");
    let response = Edit::delete(&capi_machine(true)).response_text(&cluster(&[owned, capi_machine(true)]));
    assert!(response.contains("its instance is deleted"), "{response}");
}

#[test]
fn h1_the_collector_does_not_delete_a_mirror_while_the_authoritative_object_exists() {
    let owned = owned_by(capi_machine(true), "MachineSet", "gone");
    for snapshot in [
        cluster(&[machine("MachineAPI", "MachineAPI")]),
        cluster(&[machine("ClusterAPI", "Migrating")]),
    ] {
        let edit = Edit::delete(&owned).by(COLLECTOR);
        assert_eq!(edit.refused_by(&snapshot), ["authority-garbage-collector"]);
    }
    for snapshot in [cluster(&[]), cluster(&[deleting(machine("MachineAPI", "MachineAPI"))])] {
        assert!(Edit::delete(&owned).by(COLLECTOR).allowed(&snapshot));
    }
}

fn capi_cluster(name: &str) -> Value {
    json!({"apiVersion": "cluster.x-k8s.io/v1beta2", "kind": "Cluster",
        "metadata": {"name": name, "namespace": "openshift-cluster-api"},
        "spec": {"infrastructureRef": {"apiGroup": INFRASTRUCTURE, "kind": "AWSCluster", "name": name}}})
}

fn aws_cluster(name: &str) -> Value {
    json!({"apiVersion": "infrastructure.cluster.x-k8s.io/v1beta2", "kind": "AWSCluster",
        "metadata": {"name": name, "namespace": "openshift-cluster-api"}, "spec": {"region": "us-east-1"}})
}

#[test]
fn h3_a_cluster_with_mirrored_objects_cannot_be_deleted() {
    for object in [capi_cluster("prod"), aws_cluster("prod")] {
        let edit = Edit::delete(&object);
        for api in ["MachineAPI", "ClusterAPI"] {
            for user in ["alice", "kube:admin", COLLECTOR] {
                let refused = edit.clone().by(user).refused_by(&authoritative(api));
                assert_eq!(refused, ["authority-cluster-in-use"], "{user}");
            }
            assert!(edit.clone().by(SYNC).allowed(&authoritative(api)));
        }
        // A cluster whose Machines exist in Cluster API only.
        assert!(edit.allowed(&cluster(&[capi_machine(false), capi_set(false)])));
        let unknown = Snapshot {
            source: Source::Cluster,
            ..Snapshot::default()
        };
        assert_eq!(edit.refused_by(&unknown), ["authority-cluster-in-use"]);
    }
    for object in [capi_cluster("another"), aws_cluster("another")] {
        assert!(Edit::delete(&object).allowed(&authoritative("MachineAPI")));
    }
}

#[test]
fn h3_the_collector_does_not_delete_mirrors_of_a_deleted_cluster() {
    for mirror in [capi_machine(true), capi_set(true), capi_check(true)] {
        let owned = owned_by(mirror, "Cluster", "prod");
        let edit = Edit::delete(&owned).by(COLLECTOR);
        assert_eq!(
            edit.refused_by(&authoritative("MachineAPI")),
            ["authority-garbage-collector"],
            "{owned}"
        );
    }
}

#[test]
fn h4_a_group_does_not_make_a_user_a_controller() {
    let group = "system:serviceaccounts:openshift-cluster-api";
    let status = Edit::set(&capi_machine(true), "/status/phase", json!("Failed")).of("status");
    let snapshot = authoritative("MachineAPI");
    let refused = status.clone().in_group(group).refused_by(&snapshot);
    assert_eq!(refused, ["authority-capi-status-locked"]);
    let label = Edit::set(
        &capi_machine(true),
        "/metadata/labels/machine.openshift.io~1zone",
        json!("a"),
    );
    let refused = label.in_group(group).refused_by(&snapshot);
    assert_eq!(refused, ["authority-capi-reserved-labels"]);
    let elsewhere = "system:serviceaccount:openshift-cluster-api-x:capa-controller-manager";
    assert!(!status.clone().by(elsewhere).allowed(&snapshot));
    assert!(status.by(AWS).allowed(&snapshot));
}

#[test]
fn h4_an_impersonated_controller_manager_has_no_rights_of_the_collector() {
    for (mirror, api) in [
        (machine("ClusterAPI", "ClusterAPI"), "ClusterAPI"),
        (capi_machine(true), "MachineAPI"),
    ] {
        let owned = owned_by(mirror, "MachineSet", "workers");
        let orphaned = Edit::set(&owned, "/metadata/ownerReferences", Value::Null).by(CONTROLLER_MANAGER);
        assert!(!orphaned.allowed(&authoritative(api)), "{api}");
        assert!(orphaned.with_credential().allowed(&authoritative(api)), "{api}");
    }
}

#[test]
fn h5_a_health_check_of_the_machine_api_is_created_paused_beside_cluster_api() {
    let beside = authoritative("ClusterAPI");
    let object = new(check("ClusterAPI", ""));
    assert_eq!(
        Edit::create(object.clone()).refused_by(&beside),
        ["authority-create-unpaused"]
    );
    assert!(Edit::create(annotated(&object, PAUSED, json!(""))).allowed(&beside));
    for object in [object, new(check("", ""))] {
        let response = Edit::create(object).mutating().response_text(&beside);
        assert!(
            response.starts_with("allowed\npatch:") && response.contains("cluster.x-k8s.io~1paused")
                || response.contains(r#"{"cluster.x-k8s.io/paused":"sync.machine.openshift.io"}"#),
            "{response}"
        );
    }
    // A Machine has the condition Paused instead.
    let response = Edit::create(new(machine("ClusterAPI", "")))
        .mutating()
        .response_text(&beside);
    assert_eq!(response, "allowed\n");
}

#[test]
fn h5_a_health_check_of_cluster_api_is_created_unpaused_only_beside_a_paused_one() {
    let active = check("ClusterAPI", "ClusterAPI");
    let paused = annotated(&active, PAUSED, json!(""));
    let edit = Edit::create(new(capi_check(false)));
    assert_eq!(edit.refused_by(&cluster(&[active])), ["authority-capi-create-unpaused"]);
    assert!(edit.allowed(&cluster(&[paused])));
}

#[test]
fn h6_users_cannot_change_the_finalizers_of_a_mirror() {
    let foreign = json!([FINALIZER, "example.com/a"]);
    for (mirror, api, controllers, rule) in [
        (
            machine("ClusterAPI", "ClusterAPI"),
            "ClusterAPI",
            MACHINE_API_CONTROLLERS,
            "authority-finalizers",
        ),
        (capi_machine(true), "MachineAPI", CORE, "authority-capi-finalizers"),
    ] {
        let snapshot = authoritative(api);
        let added = Edit::set(&mirror, "/metadata/finalizers", foreign.clone());
        let held = with(mirror.clone(), "/metadata/finalizers", foreign.clone());
        let removed = Edit::set(&held, "/metadata/finalizers", json!([FINALIZER]));
        for edit in [added, removed] {
            for user in ["alice", "kube:admin"] {
                assert_eq!(edit.clone().by(user).refused_by(&snapshot), [rule], "{user}");
            }
            for user in [SYNC, controllers, COLLECTOR] {
                assert!(edit.clone().by(user).allowed(&snapshot), "{user}");
            }
        }
        // A deletion can always finish.
        let held = deleting(held);
        assert!(Edit::set(&held, "/metadata/finalizers", json!([FINALIZER])).allowed(&snapshot));
        // Users own the finalizers of the authoritative object.
        let authoritative_object = if api == "ClusterAPI" {
            capi_machine(false)
        } else {
            machine("MachineAPI", "MachineAPI")
        };
        assert!(Edit::set(&authoritative_object, "/metadata/finalizers", foreign.clone()).allowed(&snapshot));
    }
}

#[test]
fn h7_an_infrastructure_machine_is_guarded_by_its_name_whatever_its_owner() {
    let snapshot = authoritative("MachineAPI");
    let invented = owned_by(
        with(aws_machine(), "/metadata/annotations", Value::Null),
        "Machine",
        "invented",
    );
    let mut unowned = invented.clone();
    unowned["metadata"].as_object_mut().unwrap().remove("ownerReferences");
    for object in [&invented, &unowned] {
        let refused = Edit::create(object.clone()).refused_by(&snapshot);
        assert!(
            refused.contains(&String::from("authority-capi-create-unpaused")),
            "{refused:?}"
        );
        let edit = Edit::set(object, "/spec/instanceType", json!("x"));
        assert_eq!(edit.refused_by(&snapshot), ["authority-capi-spec-locked"]);
    }
    // The owner counts too: the Machine may have an infrastructure machine of another name.
    let renamed = with(aws_machine(), "/metadata/name", json!("another"));
    let edit = Edit::set(&renamed, "/spec/instanceType", json!("x"));
    assert_eq!(edit.refused_by(&snapshot), ["authority-capi-spec-locked"]);
}

#[test]
fn h7_a_template_is_guarded_by_its_derived_name_without_a_label() {
    let snapshot = authoritative("MachineAPI");
    let labelled = with(aws_template(), "/metadata/annotations", Value::Null);
    let unlabelled = with(labelled.clone(), "/metadata/labels", Value::Null);
    let mislabelled = with(
        labelled.clone(),
        "/metadata/labels",
        json!({"machine.openshift.io/cluster-api-machineset": "another"}),
    );
    for template in [labelled, unlabelled, mislabelled] {
        let create = Edit::create(template.clone());
        assert_eq!(create.refused_by(&snapshot), ["authority-capi-create-template"]);
        assert!(create.clone().by(SYNC).allowed(&snapshot));
        assert!(create.allowed(&authoritative("ClusterAPI")));
        let edit = Edit::set(&template, "/spec/template/spec/instanceType", json!("x"));
        assert_eq!(edit.refused_by(&snapshot), ["authority-capi-spec-locked"]);
    }
}

#[test]
fn h8_a_user_cannot_forge_the_condition_paused() {
    let paused = json!([{"type": "Paused", "status": "True"}]);
    let ours = machine("MachineAPI", "MachineAPI");
    let mut forged = ours.clone();
    forged["status"]["conditions"][0]["status"] = json!("True");
    let edit = Edit::update(&ours, forged).of("status");
    let snapshot = authoritative("MachineAPI");
    assert_eq!(edit.refused_by(&snapshot), ["authority-status-forged"]);
    for user in [SYNC, MACHINE_API_CONTROLLERS] {
        assert!(edit.clone().by(user).allowed(&snapshot), "{user}");
    }
    let snapshot = authoritative("ClusterAPI");
    for pointer in ["/status/conditions", "/status/v1beta2"] {
        for object in [
            capi_machine(false),
            capi_set(false),
            with(aws_machine(), "/metadata/annotations", Value::Null),
        ] {
            let object = with(object, "/status", json!({"ready": true}));
            let value = if pointer.ends_with("v1beta2") {
                json!({ "conditions": paused })
            } else {
                paused.clone()
            };
            let edit = Edit::set(&object, pointer, value).of("status");
            assert_eq!(edit.refused_by(&snapshot), ["authority-capi-status-forged"], "{object}");
            for user in [SYNC, CORE, AWS] {
                assert!(edit.clone().by(user).allowed(&snapshot), "{user}");
            }
        }
    }
}

#[test]
fn h9_users_cannot_change_the_bare_metal_host_of_a_mirror() {
    let key = "metal3.io/BareMetalHost";
    for (mirror, api, controllers, rule) in [
        (
            machine("ClusterAPI", "ClusterAPI"),
            "ClusterAPI",
            MACHINE_API_CONTROLLERS,
            "authority-reserved-annotations",
        ),
        (
            capi_machine(true),
            "MachineAPI",
            CORE,
            "authority-capi-reserved-annotations",
        ),
        (aws_machine(), "MachineAPI", CORE, "authority-capi-reserved-annotations"),
    ] {
        let edit = Edit::update(&mirror, annotated(&mirror, key, json!("openshift-machine-api/host-0")));
        assert_eq!(edit.refused_by(&authoritative(api)), [rule]);
        assert!(edit.by(controllers).allowed(&authoritative(api)));
    }
}

/// On OpenShift the core of Cluster API is capi-manager, and capi-controllers is the sync
/// controller.
#[test]
fn f1_the_controllers_of_openshift_are_recognised() {
    let snapshot = authoritative("MachineAPI");
    let status = Edit::set(&capi_machine(true), "/status/phase", json!("Failed")).of("status");
    for user in [CORE, AWS, OPENSHIFT_SYNC] {
        assert!(status.clone().by(user).allowed(&snapshot), "{user}");
        assert!(!status.clone().impersonating(user).allowed(&snapshot), "{user}");
    }
    for (edit, api) in [
        (
            Edit::set(&capi_machine(true), "/spec/clusterName", json!("x")),
            "MachineAPI",
        ),
        (
            Edit::set(&machine("ClusterAPI", "ClusterAPI"), "/spec/providerID", json!("x")),
            "ClusterAPI",
        ),
    ] {
        assert!(edit.clone().by(OPENSHIFT_SYNC).allowed(&authoritative(api)));
        assert!(!edit.clone().impersonating(OPENSHIFT_SYNC).allowed(&authoritative(api)));
        assert!(!edit.by(CORE).allowed(&authoritative(api)));
    }
}

#[test]
fn f3_the_etcd_operator_sets_and_removes_its_hook_on_a_mirror() {
    let hook = json!({"name": "EtcdQuorumOperator", "owner": "clusteroperator/etcd"});
    let foreign = json!({"name": "Backup", "owner": "alice"});
    let snapshot = authoritative("ClusterAPI");
    let plain = machine("ClusterAPI", "ClusterAPI");
    let hooked = with(plain.clone(), "/spec/lifecycleHooks", json!({"preDrain": [hook]}));
    let both = with(
        plain.clone(),
        "/spec/lifecycleHooks",
        json!({"preDrain": [foreign, hook]}),
    );
    let other = with(plain.clone(), "/spec/lifecycleHooks", json!({"preDrain": [foreign]}));
    for (old, new) in [(&plain, &hooked), (&hooked, &plain), (&other, &both), (&both, &other)] {
        let edit = Edit::update(old, new.clone());
        assert!(edit.clone().by(ETCD_OPERATOR).allowed(&snapshot), "{new}");
        assert!(!edit.clone().impersonating(ETCD_OPERATOR).allowed(&snapshot));
        assert!(!edit.by("alice").allowed(&snapshot));
    }
    for (old, new) in [(&plain, &other), (&both, &hooked), (&other, &plain)] {
        let edit = Edit::update(old, new.clone()).by(ETCD_OPERATOR);
        assert_eq!(edit.refused_by(&snapshot), ["authority-spec-locked"], "{new}");
    }
    let more = with(hooked, "/spec/providerID", json!("x"));
    assert!(!Edit::update(&plain, more).by(ETCD_OPERATOR).allowed(&snapshot));
    // In Cluster API a hook is an annotation.
    let key = "pre-drain.delete.hook.machine.cluster.x-k8s.io/EtcdQuorumOperator";
    for mirror in [capi_machine(true), signed(capi_machine(true))] {
        let set = annotated(&mirror, key, json!("clusteroperator/etcd"));
        for edit in [Edit::update(&mirror, set.clone()), Edit::update(&set, mirror.clone())] {
            assert!(edit.clone().by(ETCD_OPERATOR).allowed(&authoritative("MachineAPI")));
            assert!(!edit.by("alice").allowed(&authoritative("MachineAPI")));
        }
    }
}

#[test]
fn f4_the_machine_set_controller_sets_in_place_fields_of_its_machines() {
    let child = owned_by(signed(capi_machine(true)), "MachineSet", "workers");
    let snapshot = authoritative("MachineAPI");
    for (pointer, value) in [
        ("/spec/minReadySeconds", json!(10)),
        (
            "/spec/taints",
            json!([{"key": "a", "effect": "NoSchedule", "propagation": "Always"}]),
        ),
        ("/spec/readinessGates", json!([{"conditionType": "x"}])),
        ("/spec/deletion", json!({"nodeDrainTimeoutSeconds": 60})),
    ] {
        let edit = Edit::set(&child, pointer, value.clone());
        assert!(edit.clone().by(CORE).allowed(&snapshot), "{pointer}");
        assert_eq!(edit.refused_by(&snapshot), ["authority-capi-spec-locked"], "{pointer}");
        let unowned = Edit::set(&signed(capi_machine(true)), pointer, value);
        assert!(!unowned.by(CORE).allowed(&snapshot), "{pointer}");
    }
    for (pointer, value) in [("/spec/providerID", json!("x")), ("/spec/clusterName", json!("x"))] {
        assert!(
            !Edit::set(&child, pointer, value).by(CORE).allowed(&snapshot),
            "{pointer}"
        );
    }
}

#[test]
fn f5_the_collector_works_after_the_deletion_of_an_authoritative_set() {
    // The MachineSet of the Machine API was authoritative, and was deleted at once, because it had
    // no finalizer. Its mirror shows by its pause that it is a mirror.
    let own = owned_by(machine("MachineAPI", "MachineAPI"), "MachineSet", "workers");
    for mirror in [capi_set(true), signed(capi_set(true))] {
        let snapshot = cluster(&[own.clone(), capi_machine(true), mirror]);
        assert!(Edit::delete(&own).by(COLLECTOR).allowed(&snapshot));
    }
    // The opposite direction: the status of the mirror names the authoritative API.
    let own = owned_by(capi_machine(false), "MachineSet", "workers");
    let snapshot = cluster(&[
        machine("ClusterAPI", "ClusterAPI"),
        machine_set("ClusterAPI", "ClusterAPI"),
        own.clone(),
    ]);
    assert!(Edit::delete(&own).by(COLLECTOR).allowed(&snapshot));
}

#[test]
fn f6_a_pause_of_the_sync_controller_can_be_removed_after_its_original_is_deleted() {
    let mirror = signed(capi_machine(true));
    let released = |name: &str| {
        with(
            mirror.clone(),
            "/metadata/annotations",
            json!({"capstan.dev/unmirrored": name}),
        )
    };
    let edit = Edit::update(&mirror, released("worker-a"));
    assert!(edit.allowed(&cluster(&[])));
    // The refusal of a plain removal names the annotation.
    let unpaused = Edit::set(&mirror, "/metadata/annotations", Value::Null);
    let response = unpaused.response_text(&cluster(&[]));
    assert!(
        response.starts_with("refused") && response.contains("capstan.dev/unmirrored"),
        "{response}"
    );
    // The annotation must name the object, and the authoritative object must not exist.
    assert!(!Edit::update(&mirror, released("worker-b")).allowed(&cluster(&[])));
    for api in ["MachineAPI", "ClusterAPI"] {
        assert!(!edit.allowed(&authoritative(api)), "{api}");
    }
    let unknown = Snapshot {
        source: Source::Cluster,
        ..Snapshot::default()
    };
    assert!(!edit.allowed(&unknown));
    // The same annotation lets a user remove the sync finalizer: no sync controller removes it.
    let object = released("worker-a");
    let finalizers = Edit::set(&object, "/metadata/finalizers", Value::Null);
    assert!(finalizers.allowed(&cluster(&[])));
    for api in ["MachineAPI", "ClusterAPI"] {
        assert!(!finalizers.allowed(&authoritative(api)), "{api}");
    }
}

/// The condition of a stopped migration asks a user for the source.
#[test]
fn v210_a_user_can_state_the_source_of_a_migration_that_records_none() {
    let stopped = machine("ClusterAPI", "Migrating");
    let stopped = with(stopped, "/status/synchronizedAPI", Value::Null);
    let state = |object: &Value, path: &str, value: &str| Edit::set(object, path, json!(value)).of("status");
    let snapshot = cluster(&[capi_machine(true)]);
    for api in ["MachineAPI", "ClusterAPI"] {
        let edit = state(&stopped, "/status/synchronizedAPI", api);
        assert!(edit.allowed(&snapshot), "{api}: {:?}", edit.refused_by(&snapshot));
    }
    assert!(!state(&stopped, "/status/authoritativeAPI", "MachineAPI").allowed(&snapshot));
    assert!(!state(&stopped, "/status/phase", "Failed").allowed(&snapshot));
    // A source that is recorded stays.
    let recorded = with(stopped, "/status/synchronizedAPI", json!("MachineAPI"));
    assert!(!state(&recorded, "/status/synchronizedAPI", "ClusterAPI").allowed(&snapshot));
}

/// The mirroring controllers of a cluster may be gone.
#[test]
fn v211_a_user_can_remove_the_finalizer_of_a_deleted_object_without_a_counterpart() {
    for authority in ["MachineAPI", "ClusterAPI"] {
        let kept = machine(authority, authority);
        let deleting = with(
            kept.clone(),
            "/metadata/deletionTimestamp",
            json!("2026-01-01T00:00:00Z"),
        );
        let released = |object: &Value, name: &str| {
            let object = with(
                object.clone(),
                "/metadata/annotations",
                json!({"capstan.dev/unmirrored": name}),
            );
            with(object, "/metadata/finalizers", Value::Null)
        };
        let edit = Edit::update(&deleting, released(&deleting, "worker-a"));
        assert!(
            edit.allowed(&cluster(&[])),
            "{authority}: {:?}",
            edit.refused_by(&cluster(&[]))
        );
        // The object in Cluster API must not exist, and must be known.
        assert!(
            !edit.allowed(&cluster(&[capi_machine(authority == "MachineAPI")])),
            "{authority}"
        );
        let unknown = Snapshot {
            source: Source::Cluster,
            ..Snapshot::default()
        };
        assert!(!edit.allowed(&unknown));
        // The annotation must name the object, and the object must be in deletion.
        assert!(!Edit::update(&deleting, released(&deleting, "worker-b")).allowed(&cluster(&[])));
        assert!(!Edit::update(&kept, released(&kept, "worker-a")).allowed(&cluster(&[])));
        let plain = Edit::set(&deleting, "/metadata/finalizers", Value::Null);
        let response = plain.response_text(&cluster(&[]));
        assert!(
            response.starts_with("refused") && response.contains("capstan.dev/unmirrored"),
            "{response}"
        );
    }
}

#[test]
fn f7_an_object_can_be_restored_with_its_status() {
    for object in [
        machine("MachineAPI", "MachineAPI"),
        machine_set("ClusterAPI", "ClusterAPI"),
        check("MachineAPI", "MachineAPI"),
    ] {
        let response = Edit::create(object).mutating().response_text(&cluster(&[]));
        assert!(
            response.starts_with("allowed") && response.contains("warning: status.authoritativeAPI: "),
            "{response}"
        );
    }
}

#[test]
fn f7_an_authoritative_object_can_be_restored_beside_its_mirror() {
    let beside = |object: Value| cluster(&[object]);
    let object = new(machine("MachineAPI", ""));
    assert!(Edit::create(object.clone()).allowed(&beside(signed(capi_machine(true)))));
    assert!(!Edit::create(object).allowed(&beside(capi_machine(true))));
    let response = Edit::create(new(machine("", "")))
        .mutating()
        .response_text(&beside(signed(capi_machine(true))));
    assert!(response.contains("MachineAPI"), "{response}");
}

#[test]
fn f8_a_migration_can_be_cancelled_at_any_time() {
    let to_machine_api = |object: &Value| Edit::set(object, "/spec/authoritativeAPI", json!("MachineAPI"));
    // A request that has not begun, and a migration in progress.
    let requested = machine("ClusterAPI", "MachineAPI");
    let migrating = with(
        machine("ClusterAPI", "Migrating"),
        "/status/synchronizedAPI",
        json!("MachineAPI"),
    );
    for object in [requested, migrating] {
        let provisioning = with(object.clone(), "/status/phase", json!("Provisioning"));
        assert!(to_machine_api(&provisioning).allowed(&authoritative("MachineAPI")));
        assert!(to_machine_api(&deleting(object.clone())).allowed(&authoritative("MachineAPI")));
        let snapshot = cluster(&[object.clone(), deleting(capi_machine(true))]);
        assert!(to_machine_api(&object).allowed(&snapshot));
    }
    // The opposite direction, while Cluster API provisions.
    let object = machine("MachineAPI", "ClusterAPI");
    let edit = Edit::set(&object, "/spec/authoritativeAPI", json!("ClusterAPI"));
    let provisioning = with(capi_machine(false), "/status", json!({}));
    assert!(edit.allowed(&cluster(&[object, provisioning])));
    // A request is still refused.
    let object = with(
        machine("MachineAPI", "MachineAPI"),
        "/status/phase",
        json!("Provisioning"),
    );
    assert!(!Edit::set(&object, "/spec/authoritativeAPI", json!("ClusterAPI")).allowed(&authoritative("MachineAPI")));
}

#[test]
fn f9_an_object_in_another_namespace_does_not_replace_a_mirror() {
    let elsewhere = |object: Value| with(object, "/metadata/namespace", json!("elsewhere"));
    let edit = Edit::create(new(machine("MachineAPI", "")));
    let mirror = capi_machine(false);
    for objects in [
        [mirror.clone(), elsewhere(mirror.clone())],
        [elsewhere(mirror.clone()), mirror.clone()],
    ] {
        assert_eq!(
            edit.refused_by(&cluster(&objects)),
            ["authority-create-beside-cluster-api"]
        );
    }
    // The infrastructure and its cluster, too.
    let object = machine("ClusterAPI", "ClusterAPI");
    let back = Edit::set(&object, "/spec/authoritativeAPI", json!("MachineAPI"));
    let blocking = with(aws_machine(), "/spec/cloudInit", json!({"secretCount": 1}));
    let response = back.response_text(&cluster(&[mirror, blocking, elsewhere(aws_machine())]));
    assert!(
        response.contains("cannot migrate: AWSMachine spec.cloudInit"),
        "{response}"
    );
    let placed = with(
        machine("MachineAPI", "MachineAPI"),
        "/spec/providerSpec/value/placement",
        json!({"region": "eu-west-1"}),
    );
    let forth = Edit::set(&placed, "/spec/authoritativeAPI", json!("ClusterAPI"));
    let response = forth.response_text(&cluster(&[aws_cluster("prod"), elsewhere(aws_cluster("prod"))]));
    assert!(response.contains("spec.region of the AWSCluster"), "{response}");
}

/// No controller acts on an infrastructure template, so a pause has no meaning for it.
#[test]
fn f10_a_template_needs_no_pause() {
    let template = with(aws_template(), "/metadata/annotations", Value::Null);
    let own_name = with(template, "/metadata/name", json!("workers-large"));
    assert!(Edit::create(own_name).allowed(&authoritative("MachineAPI")));
}
