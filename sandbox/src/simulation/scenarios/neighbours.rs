//! The scenario of the neighbours: other components act on the machines of the set.

use crate::random::Random;
use crate::simulation::engine::schedule::{MINUTE, SECOND};
use crate::simulation::machine_api::act::{ClusterFault, MachineFault, UserAction};
use crate::simulation::machine_api::state::ClusterSchedule;

use super::control_plane_machine_set::rollout;
use super::draw::{minute, position, time};

/// A webhook of another component adds labels to new machines, and another one refuses new machines
/// for a time. Nodes are ready long before the machines name them. Users delete machines.
pub(super) fn neighbours(random: &mut Random, schedule: &mut ClusterSchedule) {
    schedule.setup.has_foreign_webhooks = true;
    for _ in 0..random.between(0, 3) {
        let at = minute(random, 30);
        schedule.at_ms(at, ClusterFault::Machine(MachineFault::EarlyNode));
    }
    rollout(random, schedule);
    for _ in 0..random.between(0, 3) {
        let act = ClusterFault::Refusals(time(random, 10 * SECOND, 30 * MINUTE));
        let at = minute(random, 60);
        schedule.at_ms(at, act);
    }
    if random.permille(400) {
        let act = UserAction::Delete(position(random, 5), 1);
        let at = minute(random, 60);
        schedule.at_ms(at, act);
    }
    if random.permille(300) {
        let at = minute(random, 60);
        schedule.at_ms(at, UserAction::EditTemplate);
    }
}
