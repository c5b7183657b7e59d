//! Creations that the caches do not show yet: the objects that are read from the API server.

use std::sync::Arc;

use capstan_core::admission::Snapshot;
use capstan_core::authority::live::{LiveObject, LiveResult};
use capstan_core::authority::spec::{Api, Kind, PairMember};
use serde_json::{Value, json};

use crate::world::{
    Edit, SYNC, aws_machine, aws_template, capi_check, capi_machine, capi_set, check, cluster, machine, machine_set,
    new, with,
};

/// The snapshot with the results of the reads of an edit.
fn with_results(edit: &Edit, snapshot: &Snapshot, result: &LiveResult) -> Snapshot {
    let mut snapshot = snapshot.clone();
    let reads = edit.live_reads(&snapshot).into_iter();
    snapshot.mirrors.live = reads
        .map(|read| LiveObject {
            read,
            result: result.clone(),
        })
        .collect();
    assert!(!snapshot.mirrors.live.is_empty());
    snapshot
}

fn found(object: &Value) -> LiveResult {
    LiveResult::Found(Arc::new(PairMember::keep(object)))
}

fn unpaused(mut object: Value) -> Value {
    object["metadata"].as_object_mut().unwrap().remove("annotations");
    object
}

fn names(edit: &Edit) -> Vec<(Api, Kind, String)> {
    let reads = edit.live_reads(&cluster(&[])).into_iter();
    reads.map(|read| (read.api, read.kind, read.name)).collect()
}

#[test]
fn h2_a_creation_is_judged_by_an_object_that_the_caches_do_not_have_yet() {
    let caches = cluster(&[]);
    for (mirror, original, rule) in [
        (
            capi_machine(false),
            machine("MachineAPI", "MachineAPI"),
            "authority-capi-create-unpaused",
        ),
        (
            capi_set(false),
            machine_set("MachineAPI", "MachineAPI"),
            "authority-capi-create-unpaused",
        ),
        (
            capi_check(false),
            check("MachineAPI", ""),
            "authority-capi-create-unpaused",
        ),
        (
            unpaused(aws_machine()),
            machine("MachineAPI", "MachineAPI"),
            "authority-capi-create-unpaused",
        ),
        (
            unpaused(aws_template()),
            machine_set("MachineAPI", "MachineAPI"),
            "authority-capi-create-template",
        ),
        (
            machine("MachineAPI", ""),
            capi_machine(false),
            "authority-create-beside-cluster-api",
        ),
        (
            machine_set("MachineAPI", ""),
            capi_set(false),
            "authority-create-beside-cluster-api",
        ),
    ] {
        let edit = Edit::create(new(mirror));
        assert!(edit.allowed(&caches), "the caches do not have the other object");
        assert_eq!(
            edit.refused_by(&with_results(&edit, &caches, &found(&original))),
            [rule]
        );
        assert!(edit.allowed(&with_results(&edit, &caches, &LiveResult::Absent)));
        let unknown = edit.response_text(&with_results(&edit, &caches, &LiveResult::Unknown));
        assert!(unknown.contains("before Capstan has read whether"), "{unknown}");
    }
}

#[test]
fn h2_a_live_read_replaces_an_object_that_was_deleted_meanwhile() {
    let caches = cluster(&[capi_machine(false)]);
    let edit = Edit::create(new(machine("ClusterAPI", "")));
    let absent = with_results(&edit, &caches, &LiveResult::Absent);
    let (api, kind, name) = (Api::ClusterApi, Kind::Machine, "worker-a");
    let config = Default::default();
    assert!(caches.mirrors.find(api, kind, name, &config).found().is_some());
    assert!(absent.mirrors.find(api, kind, name, &config).found().is_none());
}

#[test]
fn h2_the_counterparts_of_a_creation_are_read_and_no_others() {
    let own = |api, kind, name: &str| vec![(api, kind, name.to_owned())];
    assert_eq!(
        names(&Edit::create(machine("", ""))),
        own(Api::ClusterApi, Kind::Machine, "worker-a")
    );
    assert_eq!(
        names(&Edit::create(machine("", "")).mutating()),
        own(Api::ClusterApi, Kind::Machine, "worker-a")
    );
    assert_eq!(
        names(&Edit::create(capi_set(true))),
        own(Api::MachineApi, Kind::MachineSet, "workers")
    );
    // Invented owners do not crowd out the machine of the same name.
    let mut infrastructure = unpaused(aws_machine());
    let owner = |index: u32| json!({"apiVersion": "cluster.x-k8s.io/v1beta2", "kind": "Machine", "name": format!("o-{index}"), "uid": "u"});
    infrastructure["metadata"]["ownerReferences"] = (0..20).map(owner).collect();
    let edit = Edit::create(infrastructure);
    let read = names(&edit);
    assert_eq!(read.len(), 4);
    assert_eq!(read[0], (Api::MachineApi, Kind::Machine, String::from("worker-a")));
    // The sync controller reads both objects itself. A deletion is judged by the caches.
    assert!(names(&Edit::create(capi_machine(true)).by(SYNC)).is_empty());
    assert!(names(&Edit::delete(&capi_machine(true))).is_empty());
    let mut elsewhere = capi_machine(false);
    elsewhere["metadata"]["namespace"] = json!("default");
    assert!(names(&Edit::create(elsewhere)).is_empty());
}

#[test]
fn h2_an_update_of_a_mirror_is_judged_by_an_object_that_the_caches_do_not_have_yet() {
    let (caches, mirror) = (cluster(&[]), capi_machine(true));
    let original = machine("MachineAPI", "MachineAPI");
    let unpause = Edit::set(&mirror, "/metadata/annotations", Value::Null);
    let respec = Edit::set(&mirror, "/spec/clusterName", json!("another"));
    let scale = json!({"apiVersion": "autoscaling/v1", "kind": "Scale",
        "metadata": {"name": "workers", "namespace": "openshift-cluster-api"}, "spec": {"replicas": 3}});
    let scale = Edit::set(&scale, "/spec/replicas", json!(5)).of("scale");
    for (edit, original, rule) in [
        (unpause, &original, "authority-capi-reserved-annotations"),
        (respec, &original, "authority-capi-spec-locked"),
        (
            scale,
            &machine_set("MachineAPI", "MachineAPI"),
            "authority-capi-spec-locked",
        ),
    ] {
        assert!(edit.allowed(&caches), "the caches do not have the authoritative object");
        assert_eq!(edit.refused_by(&with_results(&edit, &caches, &found(original))), [rule]);
        assert!(edit.allowed(&with_results(&edit, &caches, &LiveResult::Absent)));
        assert!(!edit.allowed(&with_results(&edit, &caches, &LiveResult::Unknown)));
        // An object that the caches have is not read.
        let known = cluster(&[with(original.clone(), "/spec/authoritativeAPI", json!("ClusterAPI"))]);
        assert!(edit.live_reads(&known).is_empty());
    }
    // An object of the Machine API names its authority itself.
    let old = machine("MachineAPI", "MachineAPI");
    assert!(names(&Edit::set(&old, "/spec/providerID", json!("x"))).is_empty());
}
