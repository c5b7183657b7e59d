//! Guards on update, in both directions.

use serde_json::{Value, json};

use super::world::*;
use capstan_core::admission::{Snapshot, Source};

const ADMIN: &str = "kube:admin";
const MAPI_CONTROLLERS: &str = "system:serviceaccount:openshift-machine-api:machine-api-controllers";
const CAPI_CONTROLLERS: &str = "system:serviceaccount:openshift-cluster-api:capi-manager";

/// Every mirror in Cluster API, with a field of its spec.
fn mirrors_in_cluster_api() -> Vec<(Value, &'static str)> {
    vec![
        (capi_machine(true), "/spec/clusterName"),
        (capi_set(true), "/spec/replicas"),
        (capi_check(true), "/spec/selector"),
        (aws_machine(), "/spec/instanceType"),
        (aws_template(), "/spec/template"),
    ]
}

/// Every mirror in the Machine API, with a field of its spec.
fn mirrors_in_machine_api(status: &str) -> Vec<(Value, &'static str)> {
    vec![
        (machine("ClusterAPI", status), "/spec/providerID"),
        (machine_set("ClusterAPI", status), "/spec/replicas"),
        (check("ClusterAPI", status), "/spec/maxUnhealthy"),
    ]
}

fn authoritative(status: &str) -> Snapshot {
    let paused = status != "ClusterAPI";
    cluster(&[
        machine("ClusterAPI", status),
        machine_set("ClusterAPI", status),
        check("ClusterAPI", status),
        capi_machine(paused),
        capi_set(paused),
        capi_check(paused),
        aws_machine(),
        aws_template(),
    ])
}

golden! {
    a_refusal_for_a_mirror_in_the_machine_api_names_the_field_and_the_remedy:
        Edit::set(&machine_set("ClusterAPI", "ClusterAPI"), "/spec/replicas", json!(5)), authoritative("ClusterAPI");
    a_refusal_for_a_mirror_in_cluster_api_names_the_fields_and_the_remedy:
        Edit::update(&capi_machine(true), with(with(capi_machine(true), "/spec/clusterName", json!("x")), "/spec/failureDomain", json!("a"))),
        authoritative("MachineAPI");
    a_label_that_differs_from_the_authoritative_object_is_refused:
        Edit::set(&capi_machine(true), "/metadata/labels/team", json!("red")), authoritative("MachineAPI");
    a_user_cannot_unpause_a_mirror:
        Edit::set(&capi_machine(true), "/metadata/annotations", Value::Null), authoritative("MachineAPI");
    an_edit_is_refused_before_the_authority_was_read:
        Edit::set(&capi_machine(true), "/spec/clusterName", json!("x")),
        Snapshot { source: Source::Cluster, ..Snapshot::default() };
    an_edit_warns_offline_when_the_authority_was_not_given: Edit::set(&capi_machine(true), "/spec/clusterName", json!("x")), Snapshot::default();
    a_field_that_the_machine_api_cannot_express_is_reported_on_update:
        Edit::set(&capi_machine(false), "/spec/readinessGates", json!([{"conditionType": "Ready"}])), authoritative("ClusterAPI");
}

#[test]
fn only_the_sync_controller_changes_the_spec_of_a_mirror() {
    let cases = mirrors_in_cluster_api()
        .into_iter()
        .map(|case| (case, authoritative("MachineAPI"), "authority-capi-spec-locked"))
        .chain(
            mirrors_in_machine_api("ClusterAPI")
                .into_iter()
                .map(|case| (case, authoritative("ClusterAPI"), "authority-spec-locked")),
        );
    for ((object, pointer), snapshot, rule) in cases {
        let edit = Edit::set(&object, pointer, json!({"changed": true}));
        for user in ["alice", ADMIN, MAPI_CONTROLLERS, CAPI_CONTROLLERS] {
            assert_eq!(edit.clone().by(user).refused_by(&snapshot), [rule], "{user}: {object}");
        }
        assert!(edit.by(SYNC).allowed(&snapshot), "{object}");
    }
}

#[test]
fn users_change_the_authoritative_object() {
    for (object, pointer) in mirrors_in_cluster_api() {
        let free = with(object, "/metadata/annotations", Value::Null);
        let edit = Edit::set(&free, pointer, json!({"changed": true}));
        assert!(edit.allowed(&authoritative("ClusterAPI")), "{free}");
        // An object that is not mirrored.
        assert!(edit.allowed(&cluster(&[])), "{free}");
    }
    for (object, pointer) in mirrors_in_machine_api("MachineAPI") {
        assert!(Edit::set(&object, pointer, json!({"changed": true})).allowed(&authoritative("MachineAPI")));
    }
    // A user who paused the authoritative object may edit and unpause it.
    let paused = with(capi_machine(false), "/metadata/annotations", json!({PAUSED: "by me"}));
    assert!(Edit::set(&paused, "/spec/failureDomain", json!("b")).allowed(&authoritative("ClusterAPI")));
    assert!(Edit::set(&paused, "/metadata/annotations", Value::Null).allowed(&authoritative("ClusterAPI")));
}

#[test]
fn users_set_labels_and_annotations_of_their_own_on_a_mirror_and_no_reserved_ones() {
    let mirrors = [
        (capi_machine(true), authoritative("MachineAPI")),
        (machine("ClusterAPI", "ClusterAPI"), authoritative("ClusterAPI")),
    ];
    for (object, snapshot) in mirrors {
        for part in ["labels", "annotations"] {
            let set = |key: &str, value: Value| {
                let mut changed = object.clone();
                if changed["metadata"][part].is_null() {
                    changed["metadata"][part] = json!({});
                }
                changed["metadata"][part][key] = value;
                Edit::update(&object, changed)
            };
            for key in [
                "note",
                "example.com/a",
                "kubernetes.ioXYZ/a",
                "notopenshift.io/a",
                "cost-center",
            ] {
                assert!(set(key, json!("x")).allowed(&snapshot), "{part} {key}");
            }
            for key in [
                "machine.openshift.io/a",
                "openshift.io/a",
                "node-role.kubernetes.io/infra",
                "topology.kubernetes.io/zone",
                "kubernetes.io/a",
                "a.k8s.io/b",
                "k8s.io/b",
                "cluster.x-k8s.io/a",
                "pre-drain.delete.hook.machine.cluster.x-k8s.io/a",
                "x-k8s.io/a",
                "capstan.dev/a",
            ] {
                let refused = set(key, json!("x")).refused_by(&snapshot);
                assert!(
                    refused.len() == 1 && refused[0].ends_with(&format!("reserved-{part}")),
                    "{part} {key}: {refused:?}"
                );
                assert!(set(key, json!("x")).by(SYNC).allowed(&snapshot));
            }
        }
        let record = "kubectl.kubernetes.io~1last-applied-configuration";
        let mut applied = object.clone();
        applied["metadata"]["annotations"][record.replace("~1", "/")] = json!("{}");
        assert!(Edit::update(&object, applied).allowed(&snapshot), "kubectl apply");
    }
}

#[test]
fn labels_and_annotations_of_a_mirror_must_equal_those_of_the_authoritative_object() {
    let authoritative = with(
        machine("MachineAPI", "MachineAPI"),
        "/metadata/annotations",
        json!({"note": "a"}),
    );
    let snapshot = cluster(&[authoritative]);
    let mirror = capi_machine(true);
    let annotate = |value: &str| {
        let mut changed = mirror.clone();
        changed["metadata"]["annotations"]["note"] = json!(value);
        Edit::update(&mirror, changed)
    };
    assert!(annotate("a").allowed(&snapshot));
    assert_eq!(annotate("b").refused_by(&snapshot), ["authority-annotation-conflict"]);
    let removed = Edit::set(&mirror, "/metadata/labels/team", Value::Null);
    assert_eq!(removed.refused_by(&snapshot), ["authority-label-conflict"]);
    let label = |value: &str| Edit::set(&mirror, "/metadata/labels/team", json!(value));
    assert_eq!(label("red").refused_by(&snapshot), ["authority-label-conflict"]);
    // A label that differs can be corrected.
    let astray = with(mirror.clone(), "/metadata/labels/team", json!("red"));
    assert!(Edit::set(&astray, "/metadata/labels/team", json!("blue")).allowed(&snapshot));
}

#[test]
fn the_controllers_of_an_api_write_the_metadata_and_the_status_of_its_mirrors() {
    let mirror = machine("ClusterAPI", "ClusterAPI");
    let status = |user| {
        Edit::set(&mirror, "/status/phase", json!("Failed"))
            .of("status")
            .by(user)
    };
    assert!(status(MAPI_CONTROLLERS).allowed(&authoritative("ClusterAPI")));
    assert_eq!(
        status(CAPI_CONTROLLERS).refused_by(&authoritative("ClusterAPI")),
        ["authority-status-locked"]
    );
    let zone = Edit::set(&mirror, "/metadata/labels/machine.openshift.io~1zone", json!("a"));
    assert!(zone.clone().by(MAPI_CONTROLLERS).allowed(&authoritative("ClusterAPI")));
    assert!(!zone.by(CAPI_CONTROLLERS).allowed(&authoritative("ClusterAPI")));
    let mirror = capi_machine(true);
    let status = |user| {
        Edit::set(&mirror, "/status/phase", json!("Failed"))
            .of("status")
            .by(user)
    };
    assert!(status(CAPI_CONTROLLERS).allowed(&authoritative("MachineAPI")));
    assert_eq!(
        status(MAPI_CONTROLLERS).refused_by(&authoritative("MachineAPI")),
        ["authority-capi-status-locked"]
    );
    // They cannot remove the pause.
    let unpause = Edit::set(&mirror, "/metadata/annotations", Value::Null).by(CAPI_CONTROLLERS);
    assert_eq!(
        unpause.refused_by(&authoritative("MachineAPI")),
        ["authority-capi-reserved-annotations"]
    );
}

#[test]
fn the_controllers_of_the_machine_api_may_only_initialize_the_authority_in_the_status() {
    let old = machine("ClusterAPI", "");
    let decide = |word: &str| {
        Edit::update(
            &old,
            with(
                with(old.clone(), "/status", json!({})),
                "/status/authoritativeAPI",
                json!(word),
            ),
        )
        .of("status")
        .by(MAPI_CONTROLLERS)
    };
    assert!(decide("ClusterAPI").allowed(&cluster(&[])));
    assert_eq!(
        decide("MachineAPI").refused_by(&cluster(&[])),
        ["authority-status-forged"]
    );
    assert!(!decide("ClusterAPI").by("alice").allowed(&cluster(&[])));
}

#[test]
fn only_the_sync_controller_sets_its_pause_value() {
    let sign = Edit::set(
        &capi_machine(false),
        "/metadata/annotations",
        json!({PAUSED: "sync.machine.openshift.io"}),
    );
    assert_eq!(sign.refused_by(&cluster(&[])), ["authority-capi-pause-signed"]);
    assert!(sign.by(SYNC).allowed(&cluster(&[])));
    // The same applies to a mirror that is paused with another value, and to the controllers of the
    // API. The policies enforce the same rule.
    let sign = Edit::set(
        &capi_machine(true),
        "/metadata/annotations",
        json!({PAUSED: "sync.machine.openshift.io"}),
    );
    for user in ["alice", CAPI_CONTROLLERS] {
        let refused = sign.clone().by(user).refused_by(&authoritative("MachineAPI"));
        assert!(
            refused.contains(&"authority-capi-pause-signed".to_owned()),
            "{user}: {refused:?}"
        );
    }
    assert!(sign.by(SYNC).allowed(&authoritative("MachineAPI")));
}

#[test]
fn the_garbage_collector_may_remove_owner_references_to_finish_orphaning() {
    let owned = owned_by(machine("ClusterAPI", "ClusterAPI"), "MachineSet", "workers");
    let orphaned = Edit::set(&owned, "/metadata/ownerReferences", Value::Null);
    assert!(orphaned.clone().by(COLLECTOR).allowed(&authoritative("ClusterAPI")));
    assert_eq!(
        orphaned.refused_by(&authoritative("ClusterAPI")),
        ["authority-owner-references"]
    );
}

/// The follow-up enhancement lets the autoscaler write to Cluster API only, also to mirrors.
#[test]
fn a_configured_autoscaler_sets_replicas_and_the_deletion_mark_in_cluster_api() {
    let scale = |replicas: i32| {
        json!({"apiVersion": "autoscaling/v1", "kind": "Scale",
            "metadata": {"name": "workers", "namespace": "openshift-cluster-api"}, "spec": {"replicas": replicas}})
    };
    let mark = |machine: &Value| {
        let mut marked = machine.clone();
        marked["metadata"]["annotations"]["cluster.x-k8s.io/delete-machine"] = json!("yes");
        marked
    };
    let both = |object: Value, change: &dyn Fn(&Value) -> Value| {
        let signed = with(
            object.clone(),
            "/metadata/annotations",
            json!({PAUSED: "sync.machine.openshift.io"}),
        );
        [object, signed].map(|object| Edit::update(&object, change(&object)))
    };
    let resized = |set: &Value| with(set.clone(), "/spec/replicas", json!(5));
    let unmarked = Edit::update(&mark(&capi_machine(true)), capi_machine(true));
    let allowed = [Edit::update(&scale(3), scale(5)).of("scale"), unmarked]
        .into_iter()
        .chain(both(capi_set(true), &resized))
        .chain(both(capi_machine(true), &mark));
    for edit in allowed {
        assert!(
            edit.clone().by(AUTOSCALER).allowed(&authoritative("MachineAPI")),
            "{}",
            edit.object
        );
        assert!(
            !edit
                .clone()
                .impersonating(AUTOSCALER)
                .allowed(&authoritative("MachineAPI"))
        );
        assert!(!edit.by("alice").allowed(&authoritative("MachineAPI")));
    }
    for (object, pointer, value) in [
        (capi_set(true), "/spec/clusterName", json!("x")),
        (capi_set(true), "/spec/template/spec/version", json!("v1")),
        (capi_machine(true), "/spec/providerID", json!("x")),
        (capi_machine(true), "/metadata/annotations", json!({})),
        (machine_set("ClusterAPI", "ClusterAPI"), "/spec/replicas", json!(5)),
    ] {
        let api = if pointer == "/spec/replicas" {
            "ClusterAPI"
        } else {
            "MachineAPI"
        };
        let edit = Edit::set(&object, pointer, value).by(AUTOSCALER);
        assert!(!edit.allowed(&authoritative(api)), "{pointer}");
    }
}

#[test]
fn the_scale_subresource_of_a_mirror_is_guarded() {
    let scale = |namespace: &str, replicas: i32| {
        json!({"apiVersion": "autoscaling/v1", "kind": "Scale",
            "metadata": {"name": "workers", "namespace": namespace}, "spec": {"replicas": replicas}})
    };
    for (namespace, api, rule) in [
        ("openshift-machine-api", "ClusterAPI", "authority-spec-locked"),
        ("openshift-cluster-api", "MachineAPI", "authority-capi-spec-locked"),
        ("openshift-machine-api", "Migrating", "authority-spec-locked"),
        ("openshift-cluster-api", "Migrating", "authority-capi-spec-locked"),
    ] {
        let edit = Edit::update(&scale(namespace, 3), scale(namespace, 5)).of("scale");
        assert_eq!(edit.refused_by(&authoritative(api)), [rule], "{namespace} {api}");
        assert!(edit.by(SYNC).allowed(&authoritative(api)));
    }
    for (namespace, api) in [
        ("openshift-machine-api", "MachineAPI"),
        ("openshift-cluster-api", "ClusterAPI"),
    ] {
        let edit = Edit::update(&scale(namespace, 3), scale(namespace, 5)).of("scale");
        assert!(edit.allowed(&authoritative(api)), "{namespace}");
    }
}

#[test]
fn objects_in_other_namespaces_are_not_guarded() {
    let old = with(
        machine("ClusterAPI", "ClusterAPI"),
        "/metadata/namespace",
        json!("elsewhere"),
    );
    assert!(Edit::set(&old, "/spec/providerID", json!("x")).allowed(&authoritative("ClusterAPI")));
}

#[test]
fn a_finalizer_of_a_deleting_object_can_be_removed_before_the_authority_was_read() {
    let old = with(capi_machine(true), "/metadata/finalizers", json!(["example.com/a"]));
    let deleting = with(
        old.clone(),
        "/metadata/deletionTimestamp",
        json!("2026-01-01T00:00:00Z"),
    );
    let edit = Edit::set(&deleting, "/metadata/finalizers", Value::Null);
    let unknown = Snapshot {
        source: Source::Cluster,
        ..Snapshot::default()
    };
    assert!(edit.allowed(&unknown));
    let edit = Edit::set(&old, "/metadata/finalizers", Value::Null);
    assert_eq!(edit.refused_by(&unknown), ["authority-lead-known"]);
}
