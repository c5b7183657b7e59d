//! What is counted of the pools, in OpenMetrics text.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};

use capstan_core::model::ObjectRef;
use capstan_core::pool::state::State;
use prometheus_client::encoding::EncodeLabelSet;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::registry::Registry;

use crate::runtime;

/// The states in which machines are counted.
const STATES: [&str; 5] = ["desired", "current", "available", "outdated", "unhealthy"];

/// Prometheus sets labels `namespace` and `name` of its own.
#[derive(Clone, Debug, Hash, PartialEq, Eq, EncodeLabelSet)]
struct PoolLabels {
    pool_namespace: String,
    pool: String,
    state: &'static str,
}

/// The metrics of the controller of MachinePools. Clones count together.
#[derive(Clone, Debug)]
pub struct MachinePoolMetrics {
    /// The metrics that every controller has.
    pub(super) runtime: runtime::Metrics,
    machines: Family<PoolLabels, Gauge>,
    known: Arc<Mutex<BTreeMap<ObjectRef, [i64; STATES.len()]>>>,
}

impl MachinePoolMetrics {
    /// Metrics at zero, listed in `registry`. `runtime` are the metrics that all controllers of the
    /// process share.
    pub fn register(registry: &mut Registry, runtime: runtime::Metrics) -> Self {
        let metrics = Self {
            runtime,
            machines: Family::default(),
            known: Arc::default(),
        };
        registry.register(
            "capstan_machine_pool_machines",
            "Machines of a MachinePool by state: desired, current, available, outdated, unhealthy",
            metrics.machines.clone(),
        );
        metrics
    }

    /// The state of a pool.
    pub(super) fn pool(&self, key: &ObjectRef, state: &State) {
        let count = |members: usize| i64::try_from(members).unwrap_or(i64::MAX);
        let of = |is: fn(&capstan_core::pool::state::Member) -> bool| {
            count(state.staying().filter(|member| is(member)).count())
        };
        let counts = [
            count(state.replicas()),
            count(state.staying().count()),
            of(|member| member.is_available),
            of(|member| member.outdated.is_some()),
            of(capstan_core::pool::state::Member::is_unhealthy),
        ];
        let mut known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        known.insert(key.clone(), counts);
        for (state, count) in STATES.into_iter().zip(counts) {
            self.machines.get_or_create(&labels(key, state)).set(count);
        }
    }

    /// A pool is gone.
    pub(super) fn gone(&self, key: &ObjectRef) {
        let mut known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        if known.remove(key).is_some() {
            for state in STATES {
                self.machines.remove(&labels(key, state));
            }
        }
    }

    /// Forgets all pools: this process is not the leader.
    pub(super) fn forget(&self) {
        self.known.lock().unwrap_or_else(PoisonError::into_inner).clear();
        self.machines.clear();
    }
}

fn labels(key: &ObjectRef, state: &'static str) -> PoolLabels {
    PoolLabels {
        pool_namespace: key.namespace.clone(),
        pool: key.name.clone(),
        state,
    }
}
