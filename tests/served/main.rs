//! The production processes of the controllers, with their caches, election, and client, on the
//! in-memory API server: whole rollouts while requests, answers, and watches fail. The simulation
//! (`sandbox/src/simulation`) replaces caches, election, and transport; these tests do not.
//!
//! Time is the paused clock of tokio. It advances only while all tasks wait, so the hours of a run
//! take moments. A seed decides which faults occur. The runtime decides the order of the tasks, so
//! a seed repeats the faults and not every step. A violation is reported with its seed and the last
//! lines of the trace. `CAPSTAN_SERVED_FROM=7 CAPSTAN_SERVED_SEEDS=1` runs one seed.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    clippy::print_stdout,
    reason = "a panic fails the test"
)]

mod faults;
mod judge;
mod world;

use std::ops::Range;
use std::thread;

use capstan_sandbox::simulation::FaultRates;
use faults::Rates;
use world::{Disturbance, Outcome, Plan};

/// The number of seeds. Half of them have three machines, and half have five.
const SEEDS: u64 = 16;

fn number(name: &str, default: u64) -> u64 {
    let value = std::env::var(name).ok();
    value.and_then(|value| value.parse().ok()).unwrap_or(default)
}

/// Runs seeds on two threads. A world runs on one thread.
fn run_seeds(seeds: Range<u64>) -> Vec<(u64, Outcome)> {
    let share = |parity: u64| {
        let seeds = seeds.clone().filter(move |seed| seed % 2 == parity);
        move || {
            seeds
                .map(|seed| (seed, world::run(&Plan::of(seed))))
                .collect::<Vec<_>>()
        }
    };
    thread::scope(|scope| {
        let workers = [scope.spawn(share(0)), scope.spawn(share(1))];
        workers.into_iter().flat_map(|worker| worker.join().unwrap()).collect()
    })
}

#[test]
fn rollouts_end_while_requests_watches_and_processes_fail() {
    let from = number("CAPSTAN_SERVED_FROM", 0);
    let seeds = from..from + number("CAPSTAN_SERVED_SEEDS", SEEDS);
    let mut sum = Outcome::default();
    for (seed, outcome) in run_seeds(seeds.clone()) {
        if let Some(violation) = &outcome.violation {
            panic!("seed {seed}: {violation}\n{}", outcome.trace.join("\n"));
        }
        sum.add(&outcome);
    }
    println!(
        "{} rollouts, {} requests, {} faults, {} hours",
        seeds.count(),
        sum.requests,
        sum.faults,
        sum.seconds / 3600
    );
    assert!(sum.faults > 0, "no fault occurred");
}

#[test]
fn a_rollout_without_faults_replaces_every_machine_once() {
    for replicas in [3, 5] {
        let outcome = world::run(&Plan {
            rates: Rates::default(),
            disturbances: Vec::new(),
            replicas,
            ..Plan::of(0)
        });
        assert_eq!(outcome.violation, None, "{}", outcome.trace.join("\n"));
        assert_eq!(outcome.created, replicas, "{}", outcome.trace.join("\n"));
        assert_eq!(outcome.deleted, replicas, "{}", outcome.trace.join("\n"));
    }
}

#[test]
fn a_process_takes_the_lease_of_a_dead_holder_once_it_has_expired() {
    let outcome = world::run(&Plan {
        rates: Rates::default(),
        disturbances: vec![(60, Disturbance::DeadLeader)],
        ..Plan::of(0)
    });
    assert_eq!(outcome.violation, None, "{}", outcome.trace.join("\n"));
    assert_eq!((outcome.created, outcome.deleted), (3, 3));
}

#[test]
fn a_controller_with_random_names_is_found() {
    let found = (0..SEEDS).find_map(|seed| {
        let plan = Plan {
            random_names: true,
            rates: Rates {
                requests: FaultRates {
                    late: 250,
                    ..FaultRates::default()
                },
                ..Rates::default()
            },
            disturbances: Vec::new(),
            ..Plan::of(seed)
        };
        // A machine under another name than the requested one also counts as lost, so that the
        // next creations wait, and some rollouts do not end.
        let violation = world::run(&plan).violation;
        violation.filter(|found| found.starts_with("two replacements of one machine"))
    });
    assert!(found.is_some(), "no seed creates two replacements of one machine");
}
