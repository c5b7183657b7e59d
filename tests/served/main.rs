//! The controllers as they ship, caches, election and client included, on the API server of the
//! simulation: whole rollouts while requests, answers and watches fail. The simulation steps the
//! controller alone; here nothing of it is left out.
//!
//! Time is tokio's and stands still while anybody has something to do, so hours pass in moments and
//! nothing waits. A seed decides which faults happen; how tasks take turns is up to the runtime, so
//! a seed tells the faults again, and not every step. A violation names its seed and what happened
//! last; `CAPSTAN_SERVED_FROM=7 CAPSTAN_SERVED_SEEDS=1` plays one.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    clippy::print_stdout,
    reason = "a test that fails is what these are for"
)]

mod faults;
mod judge;
mod world;

use std::ops::Range;
use std::thread;

use faults::Mix;
use world::{End, Plan};

/// How many seeds are played, half of them with three machines and half with five.
const SEEDS: u64 = 16;

fn number(name: &str, usual: u64) -> u64 {
    let said = std::env::var(name).ok();
    said.and_then(|said| said.parse().ok()).unwrap_or(usual)
}

/// Plays seeds on two threads; a world keeps to one.
fn played(seeds: Range<u64>) -> Vec<(u64, End)> {
    let half = |odd: u64| {
        let seeds = seeds.clone().filter(move |seed| seed % 2 == odd);
        move || {
            seeds
                .map(|seed| (seed, world::play(&Plan::of(seed))))
                .collect::<Vec<_>>()
        }
    };
    thread::scope(|scope| {
        let workers = [scope.spawn(half(0)), scope.spawn(half(1))];
        workers.into_iter().flat_map(|worker| worker.join().unwrap()).collect()
    })
}

#[test]
fn rollouts_end_as_they_should_whatever_fails_on_the_wire() {
    let from = number("CAPSTAN_SERVED_FROM", 0);
    let seeds = from..from + number("CAPSTAN_SERVED_SEEDS", SEEDS);
    let mut sum = End::default();
    for (seed, end) in played(seeds.clone()) {
        if let Some(violation) = &end.violation {
            panic!("seed {seed}: {violation}\n{}", end.story.join("\n"));
        }
        sum.add(&end);
    }
    println!(
        "{} rollouts, {} requests, {} faults, {} hours",
        seeds.count(),
        sum.requests,
        sum.faults,
        sum.seconds / 3600
    );
    assert!(sum.faults > 0, "the faults never struck");
}

#[test]
fn without_faults_a_rollout_takes_the_writes_that_it_needs_and_no_more() {
    for replicas in [3, 5] {
        let end = world::play(&Plan {
            mix: Mix::default(),
            disturbances: Vec::new(),
            replicas,
            ..Plan::of(0)
        });
        assert_eq!(end.violation, None, "{}", end.story.join("\n"));
        assert_eq!(end.made, replicas, "{}", end.story.join("\n"));
        assert_eq!(end.deleted, replicas, "{}", end.story.join("\n"));
    }
}

#[test]
fn a_controller_that_rolls_its_names_is_found_out() {
    let found = (0..SEEDS).find_map(|seed| {
        let plan = Plan {
            rolls_names: true,
            mix: Mix {
                late: 250,
                ..Mix::default()
            },
            disturbances: Vec::new(),
            ..Plan::of(seed)
        };
        world::play(&plan).violation
    });
    let found = found.expect("two machines for one purpose in no seed");
    assert!(found.starts_with("two machines for one purpose"), "{found}");
}
