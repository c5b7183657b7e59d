//! The runtime with a controller for a toy kind, on a real API server: any kind, any namespace,
//! many objects at once.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    clippy::print_stderr,
    reason = "a test may fail, and prints a figure"
)]

mod controller;
mod memory;
mod simulated;

use std::time::Duration;

use anyhow::Result;
use capstan::runtime::{Caches, Client, Cluster as _, Metrics, Reconcile as _, Shared, Worker};
use capstan_sandbox::control_plane::{ControlPlane, Options, wait_until};
use controller::{PARTS, TOYS, Thing, Toys};
use prometheus_client::registry::Registry;
use serde_json::json;
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;

const SOON: Duration = Duration::from_secs(90);

#[test]
fn a_toy_controller_has_fewer_than_sixty_lines() {
    let source = include_str!("controller.rs");
    let (_, controller) = source.split_once("// The controller begins here.").unwrap();
    let lines = controller
        .lines()
        .skip(1)
        .filter(|line| !line.trim().is_empty())
        .count();
    assert!(lines < 60, "{lines}");
}

#[tokio::test(flavor = "multi_thread")]
async fn toys_of_one_name_in_two_namespaces_are_reconciled_apart_and_a_steady_state_writes_nothing() -> Result<()> {
    let plane = ControlPlane::start(Options {
        audit: true,
        ..Options::default()
    })
    .await?;
    plane.apply_yaml(include_str!("definitions.yaml")).await?;
    let client = plane.client().await?;
    let cluster = Client::new(&client);
    let (home, away) = (plane.namespace("toys").await?, plane.namespace("toys").await?);
    for namespace in [&home, &away] {
        let toy =
            json!({"apiVersion": "example.org/v1", "kind": "Toy", "metadata": {"name": "toy", "namespace": namespace}});
        cluster.create(&TOYS, &TOYS.object(namespace, "toy"), toy).await?;
    }
    let stop = CancellationToken::new();
    let (_leads, leading) = watch::channel(true);
    let caches = Caches::start(&client, &Toys.watches());
    let shared = Shared {
        controller: Toys,
        identity: "test".to_owned(),
        leading,
        metrics: Metrics::register(&mut Registry::default()),
    };
    let worker = Worker::new(shared, cluster.clone());
    let running = tokio::spawn(worker.run(caches.subscribe(), stop.clone()));
    let ready = async |namespace: &str| -> Result<bool> {
        let toy = cluster.get::<Thing>(&TOYS, namespace, "toy").await?;
        let toy = toy.and_then(|toy| toy.content.ok());
        Ok(toy.is_some_and(|toy| toy.status == json!({"ready": true})))
    };
    wait_until("both toys to be ready", SOON, async || {
        Ok((ready(&home).await? && ready(&away).await?).then_some(()))
    })
    .await?;
    // The part of one toy is deleted; the other toy is left alone.
    let uid = async |namespace: &str| -> Result<Option<String>> {
        let part = cluster.get::<Thing>(&PARTS, namespace, "toy").await?;
        Ok(part.and_then(|part| part.meta.uid))
    };
    let (before, other) = (uid(&home).await?, uid(&away).await?);
    cluster
        .delete(&PARTS, &PARTS.object(&home, "toy"), &kube::api::DeleteParams::default())
        .await?;
    wait_until("another part", SOON, async || {
        let now = uid(&home).await?;
        Ok((now.is_some() && now != before).then_some(()))
    })
    .await?;
    assert_eq!(uid(&away).await?, other);
    stop.cancel();
    running.await?;
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn a_thousand_toys_are_in_flight_at_once() {
    // The cluster answers only once all of them have asked.
    memory::play(1000, 1000).await;
}

/// The number of objects for the measurement of memory. The share of the process itself is small
/// beside that of so many objects.
const OBJECTS: usize = 20_000;

#[tokio::test(flavor = "multi_thread")]
async fn the_memory_of_an_object_is_bounded() {
    let bytes = memory::play(OBJECTS, 1).await;
    eprintln!("{bytes} bytes of resident memory for each of {OBJECTS} reconciled objects");
    assert!(bytes < 16 * 1024, "{bytes}");
}
