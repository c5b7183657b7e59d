//! The scenario of the corners: states that the other scenarios reach too rarely to test what the
//! controllers decide in them. Each is the smallest plan that leads to its state.

use crate::random::Random;
use crate::simulation::engine::schedule::{CallKind, MINUTE, SECOND, Trigger};
use crate::simulation::machine_api::act::{ClusterFault, MachineFault, UserAction};
use crate::simulation::machine_api::kinds::MACHINE;
use crate::simulation::machine_api::state::ClusterSchedule;

use super::control_plane_machine_set::rollout;
use super::draw::{delete_set, position, time};

/// One of the corners.
pub(super) fn corners(random: &mut Random, schedule: &mut ClusterSchedule) {
    match random.below(4) {
        0 => changed_before_deletion(random, schedule),
        1 => two_outdated(random, schedule),
        2 => etcd_reports(random, schedule),
        _ => late_adoption(random, schedule),
    }
}

/// A machine changes after the controller read it live, and before its deletion arrives.
fn changed_before_deletion(random: &mut Random, schedule: &mut ClusterSchedule) {
    rollout(random, schedule);
    schedule.setup.neighbours.judges_status = true;
    let number = random.between(1, 4);
    for machine in 0..6 {
        let touched = UserAction::Touch(machine);
        let trigger = Trigger::at_call(CallKind::Delete, MACHINE, number, touched);
        schedule.triggers.push(trigger);
    }
}

/// An index has two outdated machines, one of which is not ready, and an updated one. A user
/// creates machines while the rollout is paused.
fn two_outdated(random: &mut Random, schedule: &mut ClusterSchedule) {
    let index = position(random, 3);
    let fault = if random.permille(500) {
        MachineFault::NeverJoins
    } else {
        MachineFault::NeverReady
    };
    schedule.at_ms(0, UserAction::Pause(true));
    schedule.at_ms(SECOND, ClusterFault::Machine(fault));
    schedule.at_ms(2 * SECOND, UserAction::AddMachine(index));
    schedule.at_ms(time(random, MINUTE, 5 * MINUTE), UserAction::EditTemplate);
    schedule.at_ms(6 * MINUTE, UserAction::AddMachine(index));
    let resumed = time(random, 7 * MINUTE, 30 * MINUTE);
    schedule.at_ms(resumed, UserAction::Pause(false));
}

/// The etcd operator reports members that are not healthy, in any of its messages, during a
/// rollout.
fn etcd_reports(random: &mut Random, schedule: &mut ClusterSchedule) {
    rollout(random, schedule);
    schedule.setup.neighbours.judges_status = true;
    schedule.setup.neighbours.etcd_messages = true;
    let mut at = time(random, MINUTE, 5 * MINUTE);
    for _ in 0..random.between(4, 8) {
        let duration = time(random, 4 * MINUTE, 15 * MINUTE);
        schedule.at_ms(at, ClusterFault::EtcdSick(duration));
        at += duration + time(random, 30 * SECOND, 4 * MINUTE);
    }
}

/// A user deletes the set while its adoptions of machines are on the way.
fn late_adoption(random: &mut Random, schedule: &mut ClusterSchedule) {
    schedule.rates.late = random.between(300, 700);
    let at = time(random, SECOND / 5, 12 * SECOND);
    schedule.at_ms(at, delete_set(random));
    if random.permille(300) {
        schedule.at_ms(at + time(random, SECOND, 5 * MINUTE), UserAction::CreateSet);
    }
}
