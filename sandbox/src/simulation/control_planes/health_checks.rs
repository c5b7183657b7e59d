//! The controller of MachineHealthChecks: it deletes unhealthy machines, unless too many are
//! unhealthy.
//!
//! Source: machine-api-operator, `pkg/controller/machinehealthcheck`. A machine that is starting
//! counts as unhealthy, and is deleted only when its time is over.

use capstan_core::api::machine_openshift_io::machine::Machine;
use capstan_core::api::machine_openshift_io::machine_health_check::MachineHealthCheck;
use capstan_core::cpms::selector::is_control_plane;
use jiff::Timestamp;
use serde_json::Value;

use crate::simulation::engine::schedule::{MINUTE, SECOND};
use crate::simulation::engine::world::{Actor, World};

use super::kinds;
use super::state::{Event, Plane};

const HEALTH_CHECKS: Actor = Actor::Named("health-checks");
/// A node may be unhealthy for this long.
const UNHEALTHY: i64 = 5 * MINUTE;
/// A new machine may take this long to become a node.
const STARTUP: i64 = 20 * MINUTE;

/// When a machine becomes unhealthy, if nothing changes: how many milliseconds from now.
fn unhealthy_in(environment: &Plane, machine: &Machine, now: Timestamp) -> Option<i64> {
    if machine.metadata.is_deleting() || !is_control_plane(&machine.metadata.labels) {
        return None;
    }
    let after = |since: Option<Timestamp>, time: i64| {
        let age = since.map_or(0, |since| now.as_millisecond() - since.as_millisecond());
        Some((time - age).max(0))
    };
    if machine.phase() == Some("Failed") {
        return Some(0);
    }
    match (machine.node_name(), environment.node_of(machine)) {
        (None, _) => after(machine.metadata.creation_timestamp, STARTUP),
        (Some(_), None) => Some(0),
        (Some(_), Some(node)) if node.is_ready() => None,
        (Some(_), Some(node)) => {
            let condition = node.ready_condition();
            after(
                condition.and_then(|condition| condition.last_transition_time),
                UNHEALTHY,
            )
        }
    }
}

/// The number of machines that may be unhealthy while one is deleted.
fn limit(check: &MachineHealthCheck, machines: usize) -> usize {
    match &check.spec.max_unhealthy {
        Some(Value::Number(number)) => number
            .as_u64()
            .and_then(|number| usize::try_from(number).ok())
            .unwrap_or(0),
        _ => machines,
    }
}

impl World<Plane> {
    /// Queues the next round, if a machine is unhealthy or may become so.
    pub(super) fn plan_check(&mut self) {
        if self.environment.check_is_due || self.environment.health_check.is_none() {
            return;
        }
        let (environment, now) = (&self.environment, self.timestamp());
        let machines = environment.machines.values();
        let next = machines
            .filter_map(|machine| unhealthy_in(environment, machine, now))
            .min();
        if let Some(time) = next {
            self.environment.check_is_due = true;
            let delay = time + self.between(&["health check", "check"], SECOND, 30 * SECOND);
            self.schedule(delay, Event::Check);
        }
    }

    /// One round: every machine whose time is over is deleted, unless too many are unhealthy.
    pub(super) fn check_machines(&mut self) {
        self.environment.check_is_due = false;
        let (environment, now) = (&self.environment, self.timestamp());
        let check = environment
            .health_check
            .as_ref()
            .filter(|check| !check.metadata.is_deleting());
        let Some(check) = check.cloned() else { return };
        let controlled: Vec<&String> = environment
            .machines
            .iter()
            .filter(|(_, machine)| is_control_plane(&machine.metadata.labels))
            .map(|(name, _)| name)
            .collect();
        let unhealthy = controlled
            .iter()
            .filter(|name| !environment.has_ready_node(name))
            .count();
        let times = environment.machines.iter();
        let times = times.filter_map(|(name, machine)| Some((name, unhealthy_in(environment, machine, now)?)));
        let (over, waiting): (Vec<_>, Vec<_>) = times.partition(|(_, time)| *time == 0);
        let over: Vec<String> = over.into_iter().map(|(name, _)| name.clone()).collect();
        let next = waiting.into_iter().map(|(_, time)| time).min();
        if unhealthy <= limit(&check, controlled.len()) {
            for name in over {
                self.trace(|| format!("   the health check deletes machine {name}"));
                let _gone = self.delete(HEALTH_CHECKS, &kinds::machine(&name));
            }
        }
        // A machine that stays because too many others are unhealthy is checked after the next
        // change.
        if let Some(time) = next.filter(|_| !self.environment.check_is_due) {
            self.environment.check_is_due = true;
            let delay = time + self.between(&["health check", "again"], SECOND, 30 * SECOND);
            self.schedule(delay, Event::Check);
        }
    }
}
