//! Defects of the guards that attackers and OpenShift's own components showed. The name of a test
//! starts with the id of the defect.

use serde_json::{Value, json};

use super::world::*;
use capstan_core::admission::Snapshot;

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

/// On OpenShift the core of Cluster API is capi-manager, and capi-controllers is the sync controller.
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
