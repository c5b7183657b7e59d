//! What the controllers count, in OpenMetrics text. Labels come from fixed sets only: reasons, actions, results.

use prometheus_client::encoding::EncodeLabelSet;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::metrics::histogram::Histogram;
use prometheus_client::registry::{Registry, Unit};

#[derive(Clone, Debug, Hash, PartialEq, Eq, EncodeLabelSet)]
struct Reason {
    reason: &'static str,
}

#[derive(Clone, Debug, Hash, PartialEq, Eq, EncodeLabelSet)]
struct Step {
    action: &'static str,
    result: &'static str,
}

#[derive(Clone, Debug, Hash, PartialEq, Eq, EncodeLabelSet)]
struct Sort {
    sort: &'static str,
}

/// All counters of the controllers. Clones count together.
#[derive(Clone, Debug)]
pub struct Metrics {
    machines: Family<Sort, Gauge>,
    waits: Family<Reason, Gauge>,
    overdue: Gauge,
    degraded: Family<Reason, Gauge>,
    degraded_since: Gauge,
    steps: Family<Step, Counter>,
    rollouts: Histogram,
    looks: Histogram,
    behind: Counter,
    leader: Gauge,
}

impl Metrics {
    /// Counters at zero, listed in `registry`.
    pub fn register(registry: &mut Registry) -> Self {
        let metrics = Self {
            machines: Family::default(),
            waits: Family::default(),
            overdue: Gauge::default(),
            degraded: Family::default(),
            degraded_since: Gauge::default(),
            steps: Family::default(),
            rollouts: Histogram::new([60.0, 300.0, 600.0, 1200.0, 1800.0, 3600.0, 5400.0, 7200.0, 14400.0]),
            looks: Histogram::new([0.000_1, 0.000_5, 0.001, 0.005, 0.01, 0.05, 0.1, 0.5, 1.0, 5.0]),
            behind: Counter::default(),
            leader: Gauge::default(),
        };
        registry.register(
            "capstan_control_plane_machines",
            "Machines of the set by sort: wanted, all, ready, updated, unavailable indexes",
            metrics.machines.clone(),
        );
        registry.register(
            "capstan_rollout_waits",
            "What the rollout waits for, by reason",
            metrics.waits.clone(),
        );
        registry.register(
            "capstan_rollout_overdue",
            "Machines that take longer than the progress deadline to come or to go",
            metrics.overdue.clone(),
        );
        registry.register(
            "capstan_degraded",
            "1 for each reason that stops the care of the machines",
            metrics.degraded.clone(),
        );
        registry.register_with_unit(
            "capstan_degraded_since",
            "When the control plane became degraded, as a Unix time; 0 while it is not",
            Unit::Seconds,
            metrics.degraded_since.clone(),
        );
        registry.register(
            "capstan_rollout_steps",
            "Writes to machines and sets, by action and result",
            metrics.steps.clone(),
        );
        registry.register_with_unit(
            "capstan_rollout_duration",
            "From the first machine in need of an update to the last one updated",
            Unit::Seconds,
            metrics.rollouts.clone(),
        );
        registry.register_with_unit(
            "capstan_reconcile_duration",
            "From a change in the cluster to the end of what followed from it",
            Unit::Seconds,
            metrics.looks.clone(),
        );
        registry.register(
            "capstan_cache_behind",
            "Looks that were put off because the caches did not show the last write yet",
            metrics.behind.clone(),
        );
        registry.register(
            "capstan_leader",
            "1 while this process is the one that works",
            metrics.leader.clone(),
        );
        metrics
    }

    /// Whether this process leads. One that does not has nothing to say of the machines.
    pub(super) fn leads(&self, leads: bool) {
        self.leader.set(i64::from(leads));
        if !leads {
            self.forget();
        }
    }

    /// There is no set, or it is somebody else's to look after.
    pub(super) fn forget(&self) {
        self.machines.clear();
        self.waits.clear();
        self.overdue.set(0);
        self.degraded.clear();
        self.degraded_since.set(0);
    }

    pub(super) fn behind(&self) {
        self.behind.inc();
    }

    pub(super) fn looked(&self, duration: std::time::Duration) {
        self.looks.observe(duration.as_secs_f64());
    }

    pub(super) fn step(&self, action: &'static str, result: &'static str) {
        self.steps.get_or_create(&Step { action, result }).inc();
    }

    pub(super) fn machines(&self, counts: &[(&'static str, i64)]) {
        for (sort, count) in counts {
            self.machines.get_or_create(&Sort { sort }).set(*count);
        }
    }

    pub(super) fn waits(&self, reasons: impl Iterator<Item = &'static str>) {
        self.waits.clear();
        for reason in reasons {
            self.waits.get_or_create(&Reason { reason }).inc();
        }
    }

    pub(super) fn overdue(&self, count: usize) {
        self.overdue.set(i64::try_from(count).unwrap_or(i64::MAX));
    }

    /// `since` is a Unix time in seconds.
    pub(super) fn degraded(&self, reasons: impl Iterator<Item = &'static str>, since: Option<i64>) {
        self.degraded.clear();
        for reason in reasons {
            self.degraded.get_or_create(&Reason { reason }).set(1);
        }
        self.degraded_since.set(since.unwrap_or(0));
    }

    pub(super) fn rolled_out(&self, seconds: f64) {
        self.rollouts.observe(seconds);
    }
}
