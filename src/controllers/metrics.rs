//! What is counted of the machines of a control plane, in OpenMetrics text. Labels come from fixed
//! sets: states and reasons.

use prometheus_client::encoding::EncodeLabelSet;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::metrics::histogram::Histogram;
use prometheus_client::registry::{Registry, Unit};

use crate::runtime;

#[derive(Clone, Debug, Hash, PartialEq, Eq, EncodeLabelSet)]
struct Reason {
    reason: &'static str,
}

#[derive(Clone, Debug, Hash, PartialEq, Eq, EncodeLabelSet)]
struct State {
    state: &'static str,
}

/// All metrics of the controllers. Clones count together.
#[derive(Clone, Debug)]
pub struct Metrics {
    /// The metrics that every controller has.
    pub runtime: runtime::Metrics,
    machines: Family<State, Gauge>,
    waits: Family<Reason, Gauge>,
    overdue: Gauge,
    degraded: Family<Reason, Gauge>,
    degraded_since: Gauge,
    rollouts: Histogram,
}

impl Metrics {
    /// Metrics at zero, listed in `registry`.
    pub fn register(registry: &mut Registry) -> Self {
        let metrics = Self {
            runtime: runtime::Metrics::register(registry),
            machines: Family::default(),
            waits: Family::default(),
            overdue: Gauge::default(),
            degraded: Family::default(),
            degraded_since: Gauge::default(),
            rollouts: Histogram::new([60.0, 300.0, 600.0, 1200.0, 1800.0, 3600.0, 5400.0, 7200.0, 14400.0]),
        };
        registry.register(
            "capstan_control_plane_machines",
            "Machines of the set by state: wanted, all, ready, updated, unavailable indexes",
            metrics.machines.clone(),
        );
        registry.register(
            "capstan_rollout_waits",
            "What the rollout waits for, by reason",
            metrics.waits.clone(),
        );
        registry.register(
            "capstan_rollout_overdue",
            "Machines that exceed the progress deadline",
            metrics.overdue.clone(),
        );
        registry.register(
            "capstan_degraded",
            "1 for each reason that stops the replacement of machines",
            metrics.degraded.clone(),
        );
        registry.register_with_unit(
            "capstan_degraded_since",
            "When the control plane became degraded, as a Unix time; 0 while it is not",
            Unit::Seconds,
            metrics.degraded_since.clone(),
        );
        registry.register_with_unit(
            "capstan_rollout_duration",
            "From the first outdated machine to the last updated one",
            Unit::Seconds,
            metrics.rollouts.clone(),
        );
        metrics
    }

    /// Forgets what was counted: there is no set, or this process is not the leader.
    pub(super) fn forget(&self) {
        self.machines.clear();
        self.waits.clear();
        self.overdue.set(0);
        self.degraded.clear();
        self.degraded_since.set(0);
    }

    pub(super) fn machines(&self, counts: &[(&'static str, i64)]) {
        for (state, count) in counts {
            self.machines.get_or_create(&State { state }).set(*count);
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
