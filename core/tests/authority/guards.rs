//! Guards on update, in both directions.

use serde_json::{Value, json};

use super::world::*;
use capstan_core::admission::{Snapshot, Source};

const ADMIN: &str = "kube:admin";
const MAPI_CONTROLLERS: &str = "system:serviceaccount:openshift-machine-api:machine-api-controllers";
const CAPI_CONTROLLERS: &str = "system:serviceaccount:openshift-cluster-api:capi-controllers";

/// Every object that is a copy while the Machine API leads, with a change of its spec.
fn copies_in_cluster_api() -> Vec<(Value, &'static str)> {
    vec![
        (capi_machine(true), "/spec/clusterName"),
        (capi_set(true), "/spec/replicas"),
        (capi_check(true), "/spec/selector"),
        (aws_machine(), "/spec/instanceType"),
        (aws_template(), "/spec/template"),
    ]
}

/// Every object that is a copy while Cluster API leads.
fn copies_in_machine_api(status: &str) -> Vec<(Value, &'static str)> {
    vec![
        (machine("ClusterAPI", status), "/spec/providerID"),
        (machine_set("ClusterAPI", status), "/spec/replicas"),
        (check("ClusterAPI", status), "/spec/maxUnhealthy"),
    ]
}

fn led_by(status: &str) -> Snapshot {
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
    a_copy_in_the_machine_api_names_the_field_and_the_way_out:
        Edit::set(&machine_set("ClusterAPI", "ClusterAPI"), "/spec/replicas", json!(5)), led_by("ClusterAPI");
    a_copy_in_cluster_api_names_the_fields_and_the_way_out:
        Edit::update(&capi_machine(true), with(with(capi_machine(true), "/spec/clusterName", json!("x")), "/spec/failureDomain", json!("a"))),
        led_by("MachineAPI");
    a_label_that_conflicts_with_the_leading_side_is_refused:
        Edit::set(&capi_machine(true), "/metadata/labels/team", json!("red")), led_by("MachineAPI");
    the_pause_of_a_copy_is_not_its_users:
        Edit::set(&capi_machine(true), "/metadata/annotations", Value::Null), led_by("MachineAPI");
    what_leads_is_not_known_yet:
        Edit::set(&capi_machine(true), "/spec/clusterName", json!("x")),
        Snapshot { source: Source::Cluster, ..Snapshot::default() };
    what_leads_was_not_given: Edit::set(&capi_machine(true), "/spec/clusterName", json!("x")), Snapshot::default();
    a_feature_that_the_machine_api_lacks_is_named_where_cluster_api_leads:
        Edit::set(&capi_machine(false), "/spec/readinessGates", json!([{"conditionType": "Ready"}])), led_by("ClusterAPI");
}

#[test]
fn a_copy_changes_only_with_its_original_whoever_asks() {
    let cases = copies_in_cluster_api()
        .into_iter()
        .map(|case| (case, led_by("MachineAPI"), "authority-capi-spec-locked"))
        .chain(
            copies_in_machine_api("ClusterAPI")
                .into_iter()
                .map(|case| (case, led_by("ClusterAPI"), "authority-spec-locked")),
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
fn what_leads_is_its_users_to_change() {
    for (object, pointer) in copies_in_cluster_api() {
        let free = with(object, "/metadata/annotations", Value::Null);
        let edit = Edit::set(&free, pointer, json!({"changed": true}));
        assert!(edit.allowed(&led_by("ClusterAPI")), "{free}");
        // Neither does anybody else lead what stands for itself.
        assert!(edit.allowed(&cluster(&[])), "{free}");
    }
    for (object, pointer) in copies_in_machine_api("MachineAPI") {
        assert!(Edit::set(&object, pointer, json!({"changed": true})).allowed(&led_by("MachineAPI")));
    }
    // Who pauses what leads may go on with it, whatever the value of the pause.
    let paused = with(capi_machine(false), "/metadata/annotations", json!({PAUSED: "by me"}));
    assert!(Edit::set(&paused, "/spec/failureDomain", json!("b")).allowed(&led_by("ClusterAPI")));
    assert!(Edit::set(&paused, "/metadata/annotations", Value::Null).allowed(&led_by("ClusterAPI")));
}

#[test]
fn labels_and_annotations_of_ones_own_can_be_set_on_a_copy_and_reserved_ones_cannot() {
    let copies = [
        (capi_machine(true), led_by("MachineAPI")),
        (machine("ClusterAPI", "ClusterAPI"), led_by("ClusterAPI")),
    ];
    for (object, snapshot) in copies {
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
fn what_is_set_on_a_copy_agrees_with_the_leading_side() {
    let original = with(
        machine("MachineAPI", "MachineAPI"),
        "/metadata/annotations",
        json!({"note": "a"}),
    );
    let snapshot = cluster(&[original]);
    let copy = capi_machine(true);
    let annotate = |value: &str| {
        let mut changed = copy.clone();
        changed["metadata"]["annotations"]["note"] = json!(value);
        Edit::update(&copy, changed)
    };
    assert!(annotate("a").allowed(&snapshot));
    assert_eq!(annotate("b").refused_by(&snapshot), ["authority-annotation-conflict"]);
    let removed = Edit::set(&copy, "/metadata/labels/team", Value::Null);
    assert_eq!(removed.refused_by(&snapshot), ["authority-label-conflict"]);
    let label = |value: &str| Edit::set(&copy, "/metadata/labels/team", json!(value));
    assert_eq!(label("red").refused_by(&snapshot), ["authority-label-conflict"]);
    // A label that went astray can be put right.
    let astray = with(copy.clone(), "/metadata/labels/team", json!("red"));
    assert!(Edit::set(&astray, "/metadata/labels/team", json!("blue")).allowed(&snapshot));
}

#[test]
fn the_controllers_of_an_api_keep_the_metadata_and_the_status_of_their_own_copies() {
    let copy = machine("ClusterAPI", "ClusterAPI");
    let status = |user| Edit::set(&copy, "/status/phase", json!("Failed")).of("status").by(user);
    assert!(status(MAPI_CONTROLLERS).allowed(&led_by("ClusterAPI")));
    assert_eq!(
        status(CAPI_CONTROLLERS).refused_by(&led_by("ClusterAPI")),
        ["authority-status-locked"]
    );
    let zone = Edit::set(&copy, "/metadata/labels/machine.openshift.io~1zone", json!("a"));
    assert!(zone.clone().by(MAPI_CONTROLLERS).allowed(&led_by("ClusterAPI")));
    assert!(!zone.by(CAPI_CONTROLLERS).allowed(&led_by("ClusterAPI")));
    let copy = capi_machine(true);
    let status = |user| Edit::set(&copy, "/status/phase", json!("Failed")).of("status").by(user);
    assert!(status(CAPI_CONTROLLERS).allowed(&led_by("MachineAPI")));
    assert_eq!(
        status(MAPI_CONTROLLERS).refused_by(&led_by("MachineAPI")),
        ["authority-capi-status-locked"]
    );
    // A pause is none of their business.
    let unpause = Edit::set(&copy, "/metadata/annotations", Value::Null).by(CAPI_CONTROLLERS);
    assert_eq!(
        unpause.refused_by(&led_by("MachineAPI")),
        ["authority-capi-reserved-annotations"]
    );
}

#[test]
fn the_controllers_of_the_machine_api_may_decide_what_nobody_decided_and_nothing_else() {
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
fn a_signature_of_the_sync_controller_cannot_be_forged() {
    let sign = Edit::set(
        &capi_machine(false),
        "/metadata/annotations",
        json!({PAUSED: "sync.machine.openshift.io"}),
    );
    assert_eq!(sign.refused_by(&cluster(&[])), ["authority-capi-pause-signed"]);
    assert!(sign.by(SYNC).allowed(&cluster(&[])));
    // Nor on a copy that is paused without one, not even by the controllers that it belongs to: the policies say the same.
    let sign = Edit::set(
        &capi_machine(true),
        "/metadata/annotations",
        json!({PAUSED: "sync.machine.openshift.io"}),
    );
    for user in ["alice", CAPI_CONTROLLERS] {
        let refused = sign.clone().by(user).refused_by(&led_by("MachineAPI"));
        assert!(
            refused.contains(&"authority-capi-pause-signed".to_owned()),
            "{user}: {refused:?}"
        );
    }
    assert!(sign.by(SYNC).allowed(&led_by("MachineAPI")));
}

#[test]
fn the_garbage_collector_may_take_owners_away_so_that_orphaning_ends() {
    let owned = owned_by(machine("ClusterAPI", "ClusterAPI"), "MachineSet", "workers");
    let orphaned = Edit::set(&owned, "/metadata/ownerReferences", Value::Null);
    assert!(orphaned.clone().by(COLLECTOR).allowed(&led_by("ClusterAPI")));
    assert_eq!(
        orphaned.refused_by(&led_by("ClusterAPI")),
        ["authority-owner-references"]
    );
}

/// The follow-up of the document has the autoscaler write to Cluster API only, whoever leads.
#[test]
fn a_configured_autoscaler_writes_the_size_of_a_set_of_cluster_api_and_which_machine_goes_first() {
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
            edit.clone().by(AUTOSCALER).allowed(&led_by("MachineAPI")),
            "{}",
            edit.object
        );
        assert!(!edit.clone().acting_as(AUTOSCALER).allowed(&led_by("MachineAPI")));
        assert!(!edit.by("alice").allowed(&led_by("MachineAPI")));
    }
    for (object, pointer, value) in [
        (capi_set(true), "/spec/clusterName", json!("x")),
        (capi_set(true), "/spec/template/spec/version", json!("v1")),
        (capi_machine(true), "/spec/providerID", json!("x")),
        (capi_machine(true), "/metadata/annotations", json!({})),
        (machine_set("ClusterAPI", "ClusterAPI"), "/spec/replicas", json!(5)),
    ] {
        let leads = if pointer == "/spec/replicas" {
            "ClusterAPI"
        } else {
            "MachineAPI"
        };
        let edit = Edit::set(&object, pointer, value).by(AUTOSCALER);
        assert!(!edit.allowed(&led_by(leads)), "{pointer}");
    }
}

#[test]
fn the_size_of_a_copy_is_not_changed_by_way_of_its_scale() {
    let scale = |namespace: &str, replicas: i32| {
        json!({"apiVersion": "autoscaling/v1", "kind": "Scale",
            "metadata": {"name": "workers", "namespace": namespace}, "spec": {"replicas": replicas}})
    };
    for (namespace, leads, rule) in [
        ("openshift-machine-api", "ClusterAPI", "authority-spec-locked"),
        ("openshift-cluster-api", "MachineAPI", "authority-capi-spec-locked"),
        ("openshift-machine-api", "Migrating", "authority-spec-locked"),
        ("openshift-cluster-api", "Migrating", "authority-capi-spec-locked"),
    ] {
        let edit = Edit::update(&scale(namespace, 3), scale(namespace, 5)).of("scale");
        assert_eq!(edit.refused_by(&led_by(leads)), [rule], "{namespace} {leads}");
        assert!(edit.by(SYNC).allowed(&led_by(leads)));
    }
    for (namespace, leads) in [
        ("openshift-machine-api", "MachineAPI"),
        ("openshift-cluster-api", "ClusterAPI"),
    ] {
        let edit = Edit::update(&scale(namespace, 3), scale(namespace, 5)).of("scale");
        assert!(edit.allowed(&led_by(leads)), "{namespace}");
    }
}

#[test]
fn elsewhere_nobody_is_guarded() {
    let old = with(
        machine("ClusterAPI", "ClusterAPI"),
        "/metadata/namespace",
        json!("elsewhere"),
    );
    assert!(Edit::set(&old, "/spec/providerID", json!("x")).allowed(&led_by("ClusterAPI")));
}

#[test]
fn a_finalizer_of_somebody_else_can_go_from_a_copy_that_nobody_knows_yet() {
    let old = with(capi_machine(true), "/metadata/finalizers", json!(["example.com/a"]));
    let edit = Edit::set(&old, "/metadata/finalizers", Value::Null);
    let unknown = Snapshot {
        source: Source::Cluster,
        ..Snapshot::default()
    };
    assert!(edit.allowed(&unknown));
}
