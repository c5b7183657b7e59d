//! Compares the in-memory API server of the simulation with a real one. Both receive the same
//! generated requests through the same client, and the test compares their answers and watch
//! events.
//!
//! `known.rs` lists the known differences, and `docs/simulation-differences.md` is generated from
//! it. Any other difference fails the test. `CAPSTAN_UPDATE=1` writes the page.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    clippy::print_stdout,
    reason = "a test reports a failure by a panic"
)]

mod admission;
mod compare;
#[path = "../cluster/fixtures.rs"]
#[allow(dead_code, reason = "not every test needs every object")]
mod fixtures;
mod garbage;
mod generate;
mod known;
mod side;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use capstan_sandbox::api::service::Server;
use capstan_sandbox::api::{Api, Kind, Options};
use capstan_sandbox::control_plane::{ControlPlane, Options as PlaneOptions};
use capstan_sandbox::random::Random;
use compare::{Difference, differences};
use futures::StreamExt as _;
use jiff::Timestamp;
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kube::api::{Patch, PatchParams};
use serde_json::Value;
use side::{Side, Watches};

/// The number of requests in each sequence. Every sequence uses names of its own.
const LENGTH: usize = 40;
const SEQUENCES: u64 = 300;

fn crds() -> Vec<Value> {
    let mut all = Vec::new();
    for name in ["machines", "controlplanemachinesets"] {
        let path = format!("manifests/crds/machine.openshift.io_{name}.yaml");
        let text = std::fs::read_to_string(path).unwrap();
        all.push(serde_saphyr::from_str(&text).unwrap());
    }
    all
}

async fn install(client: &kube::Client, crds: &[Value]) {
    let api: kube::Api<CustomResourceDefinition> = kube::Api::all(client.clone());
    for definition in crds {
        let name = definition["metadata"]["name"].as_str().unwrap();
        let params = PatchParams::apply("fidelity").force();
        api.patch(name, &params, &Patch::Apply(definition)).await.unwrap();
        let established = kube::runtime::conditions::is_crd_established();
        kube::runtime::wait::await_condition(api.clone(), name, established)
            .await
            .unwrap();
    }
}

fn server(crds: &[Value]) -> Server {
    let mut kinds = Kind::built_ins().unwrap();
    kinds.extend(crds.iter().map(|definition| Kind::of_definition(definition).unwrap()));
    let options = Options {
        history: 1_000_000,
        ..Options::default()
    };
    Server::new(Api::new(Arc::new(kinds), options), Timestamp::now)
}

#[tokio::test]
async fn the_in_memory_api_answers_like_a_real_one_except_for_listed_differences() {
    let crds = crds();
    let plane = ControlPlane::start(PlaneOptions {
        no_controllers: true,
        ..PlaneOptions::default()
    })
    .await
    .unwrap();
    let real = plane.client().await.unwrap();
    install(&real, &crds).await;
    let server = server(&crds);
    let simulated = server.client("admin", &["system:masters"]);

    let first = std::env::var("CAPSTAN_FIDELITY_FROM")
        .ok()
        .and_then(|text| text.parse().ok())
        .unwrap_or(0);
    let sequences = std::env::var("CAPSTAN_FIDELITY")
        .ok()
        .and_then(|text| text.parse().ok())
        .unwrap_or(SEQUENCES);
    let (real_watches, simulated_watches) = (Watches::start(&real).await, Watches::start(&simulated).await);
    let found: Vec<Vec<Difference>> = futures::stream::iter(first..first + sequences)
        .map(|seed| sequence(seed, &real, &simulated))
        .buffer_unordered(6)
        .collect()
        .await;
    let mut found: Vec<Difference> = found.into_iter().flatten().collect();
    let cut: BTreeSet<u64> = found
        .iter()
        .filter(|difference| known::explain(difference).is_some_and(|known| known.cascades))
        .map(|difference| difference.seed)
        .collect();
    let watched = compare::watches(
        real_watches.finish(&real).await,
        simulated_watches.finish(&simulated).await,
    );
    found.extend(watched.into_iter().filter(|difference| !cut.contains(&difference.seed)));

    let requests = usize::try_from(sequences).unwrap() * LENGTH;
    let mut counts: BTreeMap<&str, usize> = BTreeMap::new();
    let mut unknown = Vec::new();
    for difference in &found {
        match known::explain(difference) {
            Some(known) => *counts.entry(known.id).or_default() += 1,
            None => unknown.push(difference),
        }
    }
    println!("{requests} requests, {} differences, known: {counts:?}", found.len());
    let kinds: BTreeMap<String, usize> = unknown.iter().fold(BTreeMap::new(), |mut sum, difference| {
        *sum.entry(difference.kind()).or_default() += 1;
        sum
    });
    for (kind, count) in &kinds {
        println!("{count:5} {kind}");
    }
    let shown: Vec<String> = unknown
        .iter()
        .take(std::env::var("CAPSTAN_FIDELITY_SHOW").map_or(25, |text| text.parse().unwrap_or(25)))
        .map(ToString::to_string)
        .collect();
    assert!(
        unknown.is_empty(),
        "{} differences are not listed:\n{}",
        unknown.len(),
        shown.join("\n")
    );
    if sequences >= SEQUENCES {
        let silent: Vec<&str> = known::ALL
            .iter()
            .map(|known| known.id)
            .filter(|id| !counts.contains_key(id))
            .collect();
        assert!(silent.is_empty(), "listed differences that were not found: {silent:?}");
    }
}

#[test]
fn the_page_lists_the_known_differences() {
    let (path, page) = ("docs/simulation-differences.md", known::page());
    if std::env::var_os("CAPSTAN_UPDATE").is_some() {
        std::fs::create_dir_all("docs").unwrap();
        std::fs::write(path, &page).unwrap();
    }
    let stored = std::fs::read_to_string(path).unwrap_or_default();
    assert_eq!(stored, page, "CAPSTAN_UPDATE=1 cargo test --test fidelity the_page");
}

/// How often a list from a cache is read until it has the last write.
const MOST_READS: usize = 100;

/// Sends one sequence of requests to both servers.
async fn sequence(seed: u64, real: &kube::Client, simulated: &kube::Client) -> Vec<Difference> {
    let (mut random, mut found) = (Random::new(seed), Vec::new());
    let (mut left, mut right) = (Side::new(real), Side::new(simulated));
    let space = generate::Space::new(seed);
    let mut log = Vec::new();
    for step in 0..LENGTH {
        let call = if step == 0 {
            space.namespace()
        } else {
            generate::next(&mut random, &space)
        };
        log.push(call.to_string());
        let (real, simulated) = (left.send(&call).await, right.send(&call).await);
        let mut new = differences(seed, step, &call, &real, &simulated);
        // A list from the cache of the real API server may be older than its last write.
        for _ in 0..MOST_READS {
            if new.is_empty() || call.query != "resourceVersion=0" {
                break;
            }
            tokio::time::sleep(std::time::Duration::from_millis(50)).await;
            new = differences(seed, step, &call, &left.send(&call).await, &simulated);
        }
        if !new.is_empty() && std::env::var_os("CAPSTAN_FIDELITY_TRACE").is_some() {
            println!("{}", log.join("\n"));
        }
        let cascades = new
            .iter()
            .any(|difference| known::explain(difference).is_some_and(|known| known.cascades));
        found.extend(new);
        if cascades {
            break;
        }
    }
    found
}
