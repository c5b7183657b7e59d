//! What is counted of the mirrored Machines, MachineSets, and MachineHealthChecks, in OpenMetrics
//! text. Labels come from a fixed set of states.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use capstan_core::authority::progress::State;
use capstan_core::authority::spec::Kind;
use jiff::Timestamp;
use prometheus_client::encoding::EncodeLabelSet;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::registry::{Registry, Unit};

use crate::runtime;

#[derive(Clone, Debug, Hash, PartialEq, Eq, EncodeLabelSet)]
struct StateLabel {
    state: &'static str,
}

/// What is known of all objects. The cost of a change of one object does not depend on their
/// number.
#[derive(Debug, Default)]
struct Known {
    /// The states of the objects, by kind and name, with the time since when each has its state.
    states: BTreeMap<(Kind, String), (State, Timestamp)>,
    /// The objects whose migration has not ended, the oldest request first.
    waiting: BTreeSet<(Timestamp, Kind, String)>,
}

/// The metrics of the mirroring controllers. Clones count together.
#[derive(Clone, Debug)]
pub struct MirroringMetrics {
    /// The metrics that every controller has.
    pub(super) runtime: runtime::Metrics,
    machines: Family<StateLabel, Gauge>,
    sets: Family<StateLabel, Gauge>,
    checks: Family<StateLabel, Gauge>,
    waiting_since: Gauge,
    other_controller: Gauge,
    switched_off: Gauge,
    known: Arc<Mutex<Known>>,
}

impl MirroringMetrics {
    /// Metrics at zero, listed in `registry`. `runtime` are the metrics that all controllers of the
    /// process share.
    pub fn register(registry: &mut Registry, runtime: runtime::Metrics) -> Self {
        let metrics = Self {
            runtime,
            machines: Family::default(),
            sets: Family::default(),
            checks: Family::default(),
            waiting_since: Gauge::default(),
            other_controller: Gauge::default(),
            switched_off: Gauge::default(),
            known: Arc::default(),
        };
        for family in [&metrics.machines, &metrics.sets, &metrics.checks] {
            clear(family);
        }
        registry.register(
            "capstan_mirrored_machines",
            "Machines of both APIs by state: synchronized, blocked, migrating, and others",
            metrics.machines.clone(),
        );
        registry.register(
            "capstan_mirrored_machine_sets",
            "MachineSets of both APIs by state: synchronized, blocked, migrating, and others",
            metrics.sets.clone(),
        );
        registry.register(
            "capstan_mirrored_machine_health_checks",
            "MachineHealthChecks of both APIs by state: synchronized, blocked, migrating, and others",
            metrics.checks.clone(),
        );
        registry.register_with_unit(
            "capstan_migration_waiting_since",
            "Since when the oldest requested migration has not ended, as a Unix time; 0 without one",
            Unit::Seconds,
            metrics.waiting_since.clone(),
        );
        registry.register(
            "capstan_mirroring_other_controller",
            "1 while another sync controller runs, so that Capstan does not mirror",
            metrics.other_controller.clone(),
        );
        registry.register(
            "capstan_mirroring_switched_off",
            "1 while mirroring is switched off for the platform of the cluster",
            metrics.switched_off.clone(),
        );
        metrics
    }

    fn known(&self) -> MutexGuard<'_, Known> {
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The state of an object at a time.
    pub(super) fn object(&self, kind: Kind, name: &str, state: State, now: Timestamp) {
        let mut known = self.known();
        let key = (kind, name.to_owned());
        let since = match known.states.get(&key) {
            Some((before, _)) if *before == state => return,
            Some((before, since)) if before.is_migration() && state.is_migration() => *since,
            _ => now,
        };
        let before = known.states.insert(key, (state, since));
        self.moved(&mut known, kind, name, before, Some((state, since)));
    }

    /// An object does not exist any more.
    pub(super) fn gone(&self, kind: Kind, name: &str) {
        let mut known = self.known();
        let before = known.states.remove(&(kind, name.to_owned()));
        self.moved(&mut known, kind, name, before, None);
    }

    /// Forgets all objects of a kind: this process is not the leader.
    pub(super) fn forget(&self, kind: Kind) {
        let mut known = self.known();
        known.states.retain(|(of, _), _| *of != kind);
        known.waiting.retain(|(_, of, _)| *of != kind);
        if let Some(family) = self.family(kind) {
            clear(family);
        }
        self.publish_oldest(&known);
        self.other_controller.set(0);
        self.switched_off.set(0);
    }

    /// Whether another sync controller runs. Returns whether that is new.
    pub(super) fn other_controller(&self, runs: bool) -> bool {
        let value = i64::from(runs);
        self.other_controller.set(value) != value
    }

    /// Whether mirroring is switched off for the platform. Returns whether that is new.
    pub(super) fn switched_off(&self, is_off: bool) -> bool {
        let value = i64::from(is_off);
        self.switched_off.set(value) != value
    }

    fn family(&self, kind: Kind) -> Option<&Family<StateLabel, Gauge>> {
        match kind {
            Kind::Machine => Some(&self.machines),
            Kind::MachineSet => Some(&self.sets),
            Kind::MachineHealthCheck => Some(&self.checks),
            _ => None,
        }
    }

    /// Counts an object that had one state and has another one.
    fn moved(
        &self,
        known: &mut Known,
        kind: Kind,
        name: &str,
        before: Option<(State, Timestamp)>,
        after: Option<(State, Timestamp)>,
    ) {
        let of = |state: State| StateLabel { state: state.as_str() };
        if let (Some(family), Some((state, since))) = (self.family(kind), before) {
            family.get_or_create(&of(state)).dec();
            known.waiting.remove(&(since, kind, name.to_owned()));
        }
        if let (Some(family), Some((state, since))) = (self.family(kind), after) {
            family.get_or_create(&of(state)).inc();
            if state.is_migration() {
                known.waiting.insert((since, kind, name.to_owned()));
            }
        }
        self.publish_oldest(known);
    }

    fn publish_oldest(&self, known: &Known) {
        let oldest = known.waiting.first().map(|(since, _, _)| since.as_second());
        self.waiting_since.set(oldest.unwrap_or(0));
    }
}

/// Sets the number of objects in each state to zero.
fn clear(family: &Family<StateLabel, Gauge>) {
    for state in State::ALL {
        let state = state.as_str();
        family.get_or_create(&StateLabel { state }).set(0);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_migration_waits_since_its_request() {
        let mut registry = Registry::default();
        let runtime = runtime::Metrics::register(&mut registry);
        let metrics = MirroringMetrics::register(&mut registry, runtime);
        let at = |second| Timestamp::from_second(second).unwrap();
        metrics.object(Kind::Machine, "a", State::Synchronized, at(1));
        assert_eq!(metrics.waiting_since.get(), 0);
        metrics.object(Kind::Machine, "a", State::MigrationRequested, at(5));
        metrics.object(Kind::Machine, "a", State::Migrating, at(9));
        metrics.object(Kind::Machine, "b", State::MigrationRequested, at(7));
        assert_eq!(metrics.waiting_since.get(), 5);
        metrics.object(Kind::Machine, "a", State::Synchronized, at(11));
        assert_eq!(metrics.waiting_since.get(), 7);
        metrics.gone(Kind::Machine, "b");
        assert_eq!(metrics.waiting_since.get(), 0);
        let state = StateLabel { state: "synchronized" };
        assert_eq!(metrics.machines.get_or_create(&state).get(), 1);
        metrics.object(Kind::Machine, "b", State::Migrating, at(13));
        metrics.forget(Kind::Machine);
        assert_eq!(
            (
                metrics.waiting_since.get(),
                metrics.machines.get_or_create(&state).get()
            ),
            (0, 0)
        );
        assert!(metrics.other_controller(true));
        assert!(!metrics.other_controller(true));
    }
}
