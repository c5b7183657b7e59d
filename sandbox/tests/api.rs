//! Tests of the in-memory API server through a client and through the garbage collector.
//! `tests/fidelity` compares it with a real API server.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "a test reports a failure by a panic"
)]

use std::sync::Arc;

use capstan_core::model::{Propagation, User};
use capstan_sandbox::api::garbage::Graph;
use capstan_sandbox::api::service::Server;
use capstan_sandbox::api::{Api, DeleteOptions, Kind, Options, Part, Request, Target, Verb, WriteOptions};
use futures::StreamExt as _;
use jiff::Timestamp;
use k8s_openapi::api::core::v1::{ConfigMap, Namespace};
use kube::api::{DeleteParams, ListParams, PostParams};
use kube::runtime::watcher::{self, Event};
use serde_json::{Value, json};

fn api() -> Api {
    Api::new(Arc::new(Kind::built_ins().unwrap()), Options::default())
}

fn request(plural: &str, name: &str, verb: Verb) -> Request {
    let namespace = if plural == "namespaces" { "" } else { "default" };
    Request {
        target: Target {
            group: String::new(),
            plural: plural.to_owned(),
            namespace: namespace.to_owned(),
            name: name.to_owned(),
            part: Part::Main,
        },
        verb,
        user: User::default(),
    }
}

fn create(api: &mut Api, plural: &str, object: Value) -> String {
    let made = api.apply(
        &request(plural, "", Verb::Create(object, WriteOptions::default())),
        Timestamp::UNIX_EPOCH,
    );
    made.0.unwrap();
    made.1[0].object["metadata"]["uid"].as_str().unwrap().to_owned()
}

fn names(api: &Api) -> Vec<String> {
    let kind = api.kind_of("", "configmaps").unwrap();
    api.of_kind(kind).map(|(key, _)| key.name.clone()).collect()
}

/// An API with an owner and two dependants, one of which has a finalizer.
fn owner_with_dependants() -> Api {
    let mut api = api();
    create(&mut api, "namespaces", json!({"metadata": {"name": "default"}}));
    let uid = create(&mut api, "configmaps", json!({"metadata": {"name": "owner"}}));
    let owners =
        json!([{"apiVersion": "v1", "kind": "ConfigMap", "name": "owner", "uid": uid, "blockOwnerDeletion": true}]);
    create(
        &mut api,
        "configmaps",
        json!({"metadata": {"name": "child", "ownerReferences": owners}}),
    );
    let held = json!({"metadata": {"name": "held", "ownerReferences": owners, "finalizers": ["example.com/held"]}});
    create(&mut api, "configmaps", held);
    api
}

fn delete(api: &mut Api, how: Propagation) {
    let options = DeleteOptions {
        propagation: Some(how),
        ..DeleteOptions::default()
    };
    api.apply(
        &request("configmaps", "owner", Verb::Delete(options)),
        Timestamp::UNIX_EPOCH,
    )
    .0
    .unwrap();
}

fn collect(api: &mut Api) {
    let mut graph = Graph::default();
    for _ in 0..100 {
        graph.refresh(api);
        let Some(request) = graph.next(api) else { return };
        api.apply(&request, Timestamp::UNIX_EPOCH).0.unwrap();
    }
    panic!("the garbage collector must finish within 100 requests");
}

#[test]
fn a_background_deletion_deletes_dependants_and_waits_for_their_finalizers() {
    let mut api = owner_with_dependants();
    delete(&mut api, Propagation::Background);
    assert_eq!(names(&api), ["child", "held"]);
    collect(&mut api);
    assert_eq!(names(&api), ["held"]);
}

#[test]
fn a_foreground_deletion_keeps_the_owner_until_its_dependants_are_deleted() {
    let mut api = owner_with_dependants();
    delete(&mut api, Propagation::Foreground);
    collect(&mut api);
    assert_eq!(names(&api), ["held", "owner"]);
    let patch = json!({"metadata": {"finalizers": []}});
    let patch = Verb::Patch(capstan_sandbox::api::PatchKind::Merge, patch, WriteOptions::default());
    api.apply(&request("configmaps", "held", patch), Timestamp::UNIX_EPOCH)
        .0
        .unwrap();
    collect(&mut api);
    assert_eq!(names(&api), Vec::<String>::new());
}

#[test]
fn an_orphaning_deletion_keeps_the_dependants_without_owner_references() {
    let mut api = owner_with_dependants();
    delete(&mut api, Propagation::Orphan);
    collect(&mut api);
    assert_eq!(names(&api), ["child", "held"]);
    let kind = api.kind_of("", "configmaps").unwrap();
    assert!(
        api.of_kind(kind)
            .all(|(_, object)| object["metadata"].get("ownerReferences").is_none())
    );
}

#[test]
fn a_stale_graph_deletes_no_object_whose_owners_changed() {
    let mut api = owner_with_dependants();
    let mut graph = Graph::default();
    graph.refresh(&api);
    delete(&mut api, Propagation::Background);
    let patch = json!({"metadata": {"ownerReferences": []}});
    for name in ["child", "held"] {
        let patch = Verb::Patch(
            capstan_sandbox::api::PatchKind::Merge,
            patch.clone(),
            WriteOptions::default(),
        );
        api.apply(&request("configmaps", name, patch), Timestamp::UNIX_EPOCH)
            .0
            .unwrap();
    }
    assert!(graph.next(&api).is_none());
}

#[tokio::test]
async fn a_watcher_continues_after_a_cut_and_after_a_compaction() {
    let server = Server::new(api(), Timestamp::now);
    let client = server.client("admin", &["system:masters"]);
    let namespaces: kube::Api<Namespace> = kube::Api::all(client.clone());
    let maps: kube::Api<ConfigMap> = kube::Api::default_namespaced(client);
    let named = |name: &str| json!({"metadata": {"name": name}});
    let make = |name: &str| serde_json::from_value::<ConfigMap>(named(name)).unwrap();
    namespaces
        .create(
            &PostParams::default(),
            &serde_json::from_value(named("default")).unwrap(),
        )
        .await
        .unwrap();
    maps.create(&PostParams::default(), &make("one")).await.unwrap();
    let mut events = Box::pin(watcher::watcher(maps.clone(), watcher::Config::default()));
    let mut seen = Vec::new();
    for (step, name) in ["one", "two", "three"].into_iter().enumerate() {
        if step > 0 {
            server.cut_watches();
            if step == 2 {
                maps.create(&PostParams::default(), &make("between")).await.unwrap();
                server.api().compact();
            }
            maps.create(&PostParams::default(), &make(name)).await.unwrap();
        }
        while !seen.contains(&name.to_owned()) {
            // A watch at a compacted version ends with an error, and the watcher lists again.
            if let Ok(Event::Apply(map) | Event::InitApply(map)) = events.next().await.unwrap() {
                seen.push(map.metadata.name.unwrap());
            }
        }
    }
    assert!(seen.contains(&"between".to_owned()));
}

#[test]
fn forgetting_changes_up_to_a_time_keeps_the_later_history() {
    let mut api = api();
    let at = |second| Timestamp::from_second(second).unwrap();
    create(&mut api, "namespaces", json!({"metadata": {"name": "default"}}));
    for (second, name) in [(10, "a"), (20, "b"), (30, "c")] {
        let object = json!({"metadata": {"name": name}});
        let made = request("configmaps", "", Verb::Create(object, WriteOptions::default()));
        api.apply(&made, at(second)).0.unwrap();
    }
    let maps = api.kind_of("", "configmaps").unwrap();
    let history = |api: &Api, second| {
        let version = api.version_at(at(second));
        let objects = api.objects_at(maps, version).into_iter().map(|(key, _)| key.name);
        let since = api.changes_since(maps, version).map(|change| change.key.name.clone());
        (objects.collect::<Vec<_>>(), since.collect::<Vec<_>>())
    };
    let before = [history(&api, 20), history(&api, 25), history(&api, 30)];
    assert_eq!(before[0].0, ["a", "b"]);
    assert_eq!(before[0].1, ["c"]);
    api.forget_until(at(20));
    assert_eq!([history(&api, 20), history(&api, 25), history(&api, 30)], before);
    assert_eq!(history(&api, 10).0, ["a", "b"], "the earlier change must be forgotten");
    api.forget_until(at(40));
    assert_eq!(history(&api, 30).0, ["a", "b", "c"]);
}

#[tokio::test]
async fn all_pages_of_a_list_show_one_version() {
    let server = Server::new(api(), Timestamp::now);
    let client = server.client("admin", &["system:masters"]);
    let maps: kube::Api<ConfigMap> = kube::Api::default_namespaced(client);
    create(
        &mut server.api(),
        "namespaces",
        json!({"metadata": {"name": "default"}}),
    );
    for name in ["a", "b", "c"] {
        create(&mut server.api(), "configmaps", json!({"metadata": {"name": name}}));
    }
    let first = maps.list(&ListParams::default().limit(1)).await.unwrap();
    maps.delete("b", &DeleteParams::default()).await.unwrap();
    create(&mut server.api(), "configmaps", json!({"metadata": {"name": "bb"}}));
    let rest = maps
        .list(&ListParams::default().continue_token(&first.metadata.continue_.unwrap()))
        .await
        .unwrap();
    let names: Vec<String> = rest.items.into_iter().filter_map(|map| map.metadata.name).collect();
    assert_eq!(names, ["b", "c"]);
}
