//! What the runtime counts, in OpenMetrics text. Labels come from fixed sets: controllers, actions
//! and results.

use std::time::Duration;

use prometheus_client::encoding::EncodeLabelSet;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::metrics::histogram::Histogram;
use prometheus_client::registry::{Registry, Unit};

#[derive(Clone, Debug, Hash, PartialEq, Eq, EncodeLabelSet)]
struct Controller {
    controller: &'static str,
}

#[derive(Clone, Debug, Hash, PartialEq, Eq, EncodeLabelSet)]
struct Step {
    controller: &'static str,
    action: &'static str,
    result: &'static str,
}

/// The metrics that every controller has. Clones count together.
#[derive(Clone, Debug)]
pub struct Metrics {
    steps: Family<Step, Counter>,
    reconciles: Family<Controller, Histogram>,
    behind: Family<Controller, Counter>,
    queued: Family<Controller, Gauge>,
    leader: Gauge,
}

fn durations() -> Histogram {
    Histogram::new([0.000_1, 0.000_5, 0.001, 0.005, 0.01, 0.05, 0.1, 0.5, 1.0, 5.0])
}

impl Metrics {
    /// Metrics at zero, listed in `registry`.
    pub fn register(registry: &mut Registry) -> Self {
        let metrics = Self {
            steps: Family::default(),
            reconciles: Family::new_with_constructor(durations),
            behind: Family::default(),
            queued: Family::default(),
            leader: Gauge::default(),
        };
        registry.register(
            "capstan_rollout_steps",
            "Writes of a controller's plans, by controller, action and result",
            metrics.steps.clone(),
        );
        registry.register_with_unit(
            "capstan_reconcile_duration",
            "Time of one reconcile, from the observation to the last write",
            Unit::Seconds,
            metrics.reconciles.clone(),
        );
        registry.register(
            "capstan_cache_behind",
            "Reconciles that were put off because the caches did not show the last write yet",
            metrics.behind.clone(),
        );
        registry.register(
            "capstan_reconcile_queue",
            "Objects that wait for a reconcile",
            metrics.queued.clone(),
        );
        registry.register(
            "capstan_leader",
            "1 while this process is the leader",
            metrics.leader.clone(),
        );
        metrics
    }

    /// Whether this process is the leader.
    pub(super) fn is_leader(&self, is_leader: bool) {
        self.leader.set(i64::from(is_leader));
    }

    pub(super) fn queued(&self, controller: &'static str, objects: usize) {
        let queued = self.queued.get_or_create(&Controller { controller });
        queued.set(i64::try_from(objects).unwrap_or(i64::MAX));
    }

    pub(super) fn behind(&self, controller: &'static str) {
        self.behind.get_or_create(&Controller { controller }).inc();
    }

    pub(super) fn reconciled(&self, controller: &'static str, took: Duration) {
        let reconciles = self.reconciles.get_or_create(&Controller { controller });
        reconciles.observe(took.as_secs_f64());
    }

    pub(super) fn step(&self, controller: &'static str, action: &'static str, result: &'static str) {
        let step = Step {
            controller,
            action,
            result,
        };
        self.steps.get_or_create(&step).inc();
    }
}
