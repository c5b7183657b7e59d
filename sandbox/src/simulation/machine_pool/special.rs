//! Simulations of one situation each, without faults: a user who deletes the Machines of a pool at
//! once, a CRD that drops fields of the status, a rollout for which the provider surges, and a
//! record that is created after its pool is gone.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use anyhow::Result;
use capstan::runtime::Reconcile;
use capstan_core::api::kinds::{CLUSTER_API_MACHINES, MACHINE_POOLS};
use capstan_core::pool::Mode;
use capstan_core::pool::records::RECORD;
use serde_json::{Value, json};

use super::actors::{self, QUIET, act_once, instances};
use super::objects::{self, GROUPS, NAMESPACE, POOL, has, is_deleting, name, text};
use super::{LAST, REST, TURN, declared, invariants};
use crate::simulation::declared::{Change, Simulation, Stored, Users};

/// When a user begins and ends to delete Machines, in seconds.
const FIGHT: std::ops::Range<u32> = 120..20 * 60;
/// So many creations of Machines of three instances in that time are few.
const FEW: usize = 50;
/// So many writes of the status of the pool in that time are few.
const FEW_WRITES: usize = 60;
/// When the version of the template changes, in seconds.
const EDIT: u32 = 5 * 60;
/// When a request arrives that was sent before the pool was gone, in seconds.
const LATE: u32 = 15 * 60;

/// The actors take all of their steps, and nothing fails.
fn with_turns(mut simulation: Simulation, mode: Mode) -> Simulation {
    for second in (TURN..=LAST).step_by(10) {
        simulation = simulation.at(second, move |users| act_once(users, mode, second + QUIET));
    }
    simulation.at(REST + 1, actors::note_versions)
}

/// What happened during a fight.
#[derive(Debug, Default)]
struct Counts {
    creations: AtomicUsize,
    writes: AtomicUsize,
    reports: AtomicUsize,
}

/// For 18 minutes, a user deletes each Machine within a second, and the instances stay.
///
/// # Errors
/// A definition cannot be read.
pub fn fight<R: Reconcile>(mode: Mode, make: impl Fn() -> R + Send + Sync + 'static) -> Result<Simulation> {
    let mut simulation = declared("machine-pool-fight", &objects::definitions(), objects::pool(mode), make)?
        .companion(|| Arc::new(Counts::default()))
        .always("M10", repetitions_are_few)
        .at_end("M4", invariants::each_instance_has_a_machine)
        .at_end("M5", move |now| invariants::the_pool_is_as_wanted(now, mode))
        .at_end("M9", invariants::nothing_is_written_at_rest)
        .at_end("M10", the_fight_was_reported);
    for second in FIGHT {
        simulation = simulation.at(second, delete_all);
    }
    Ok(with_turns(simulation, mode))
}

/// Deletes all Machines at once: their finalizers do not hold them.
fn delete_all(users: &mut Users<'_>) {
    for machine in users.stored().all(&CLUSTER_API_MACHINES) {
        let patch = json!({"metadata": {"finalizers": null}});
        users.patch(&CLUSTER_API_MACHINES, NAMESPACE, name(machine), patch);
        users.delete(&CLUSTER_API_MACHINES, NAMESPACE, name(machine));
    }
}

/// M10: a Machine that a user deletes again and again is created less and less often, and the
/// status is written as seldom.
fn repetitions_are_few(change: &Change<'_>) -> Result<(), String> {
    let Some(counts) = change.companion::<Counts>().filter(|_| change.by_controller) else {
        return Ok(());
    };
    let is_creation = change.kind == &CLUSTER_API_MACHINES && change.before.is_none();
    let creations = counts.creations.fetch_add(usize::from(is_creation), Ordering::Relaxed);
    let is_write = change.kind == &MACHINE_POOLS;
    let writes = counts.writes.fetch_add(usize::from(is_write), Ordering::Relaxed);
    let is_reported = change
        .after
        .is_some_and(|after| is_write && has(after, "Degraded", "True"));
    counts.reports.fetch_add(usize::from(is_reported), Ordering::Relaxed);
    if creations > FEW || writes > FEW_WRITES {
        return Err(format!(
            "{creations} Machines are created, and the pool is written {writes} times"
        ));
    }
    Ok(())
}

/// M10: the pool was degraded, and is not any more.
fn the_fight_was_reported(now: &Stored) -> Result<(), String> {
    let reports = now
        .companion::<Counts>()
        .map(|counts| counts.reports.load(Ordering::Relaxed));
    let pool = now.get(&MACHINE_POOLS, NAMESPACE, POOL);
    let is_over = pool.is_some_and(|pool| has(pool, "Degraded", "False"));
    if reports.is_none_or(|reports| reports == 0) || !is_over {
        return Err(format!("{reports:?} reports, and over is {is_over}"));
    }
    Ok(())
}

/// The CRD of MachinePools drops most fields of the status.
///
/// # Errors
/// A definition cannot be read.
pub fn few_fields<R: Reconcile>(mode: Mode, make: impl Fn() -> R + Send + Sync + 'static) -> Result<Simulation> {
    let simulation = declared(
        "machine-pool-few-fields",
        &objects::definitions_with_few_fields(),
        objects::pool(mode),
        make,
    )?
    .writes_after_restart(1)
    .at_end("M4", invariants::each_instance_has_a_machine)
    .at_end("M9", invariants::nothing_is_written_at_rest)
    .at_end("M11", |now| {
        let pool = now.get(&MACHINE_POOLS, NAMESPACE, POOL);
        let stored = pool.is_some_and(|pool| has(pool, "Available", "True") && has(pool, "MachinesReady", "True"));
        if stored { Ok(()) } else { Err(format!("{pool:?}")) }
    });
    Ok(with_turns(simulation, mode))
}

/// The provider may add one instance while some are outdated, and no machine may be unavailable.
///
/// # Errors
/// A definition cannot be read.
pub fn surge<R: Reconcile>(mode: Mode, make: impl Fn() -> R + Send + Sync + 'static) -> Result<Simulation> {
    let strategy = json!({"type": "RollingUpdate", "rollingUpdate": {"maxUnavailable": 0, "maxSurge": 1}});
    let mut pool = objects::pool(mode);
    if let Some(metadata) = pool.get_mut("metadata").and_then(Value::as_object_mut) {
        let text = json!({ "strategy": strategy }).to_string();
        metadata.insert(String::from("annotations"), json!({ "capstan.dev/rollout": text }));
    }
    let mut simulation = declared("machine-pool-surge", &objects::definitions(), pool, make)?
        .companion(|| Arc::new(Missing::default()))
        .at_end("M4", invariants::each_instance_has_a_machine)
        .at_end("M5", move |now| invariants::the_pool_is_as_wanted(now, mode))
        .at_end("M9", invariants::nothing_is_written_at_rest)
        .at_end("M12", no_machine_was_missing)
        .at(EDIT, |users| {
            let patch = json!({"spec": {"template": {"spec": {"version": "v1.1.0"}}}});
            users.patch(&MACHINE_POOLS, NAMESPACE, POOL, patch);
        });
    for second in EDIT - TURN..REST {
        simulation = simulation.at(second, |users| {
            let available = available(&users.stored());
            if let Some(missing) = users.companion::<Missing>() {
                let now_missing = 3_usize.saturating_sub(available);
                missing.0.fetch_max(now_missing, Ordering::Relaxed);
            }
        });
    }
    Ok(with_turns(simulation, mode))
}

/// The pool is deleted, and the creation of a record of it arrives after it is gone. The Machine
/// controller adds its finalizer, and the garbage collector deletes the record.
///
/// # Errors
/// A definition cannot be read.
pub fn late_record<R: Reconcile>(mode: Mode, make: impl Fn() -> R + Send + Sync + 'static) -> Result<Simulation> {
    let definitions = objects::definitions();
    let simulation = declared("machine-pool-late-record", &definitions, objects::pool(mode), make)?
        .at_end("M5", move |now| invariants::the_pool_is_as_wanted(now, mode))
        .at(EDIT, |users| users.delete(&MACHINE_POOLS, NAMESPACE, POOL))
        .at(LATE, |users| {
            let labels = json!({"cluster.x-k8s.io/cluster-name": "c", "cluster.x-k8s.io/pool-name": POOL});
            let owner = json!({"apiVersion": MACHINE_POOLS.api_version(), "kind": "MachinePool", "name": POOL,
                "uid": "of-the-deleted-pool", "controller": true});
            let record = json!({
                "apiVersion": CLUSTER_API_MACHINES.api_version(), "kind": "Machine",
                "metadata": {"name": "p-late", "namespace": NAMESPACE, "labels": labels, "ownerReferences": [owner],
                    "annotations": {RECORD: "true", "cluster.x-k8s.io/paused": "true"},
                    "finalizers": ["machine.cluster.x-k8s.io"]},
                "spec": {"clusterName": "c", "providerID": "simulated://pools/p/1", "bootstrap": {},
                    "infrastructureRef": {"apiGroup": GROUPS.group, "kind": "SimulatedMachine", "name": "p-late"}},
            });
            users.create(&CLUSTER_API_MACHINES, NAMESPACE, record);
        });
    Ok(with_turns(simulation, mode))
}

/// The most machines that were missing at a moment of a rollout.
#[derive(Debug, Default)]
struct Missing(AtomicUsize);

fn available(stored: &Stored) -> usize {
    let machines = stored.all(&CLUSTER_API_MACHINES);
    let is_available = |machine: &&crate::api::Object| !is_deleting(machine) && has(machine, "Available", "True");
    machines.filter(is_available).count()
}

/// M12: the rollout replaced all machines, and never was one missing.
fn no_machine_was_missing(now: &Stored) -> Result<(), String> {
    let cloud = now.get(&GROUPS, NAMESPACE, POOL).map(instances).unwrap_or_default();
    let version = now
        .get(&MACHINE_POOLS, NAMESPACE, POOL)
        .map(|pool| text(pool, "/spec/template/spec/version"));
    let is_new = cloud.values().all(|one| Some(one.version.as_str()) == version);
    let missing = now
        .companion::<Missing>()
        .map(|missing| missing.0.load(Ordering::Relaxed));
    if !is_new || missing != Some(0) {
        return Err(format!("{missing:?} of 3 were missing, and {cloud:?}"));
    }
    Ok(())
}
