//! Scenarios in which nodes, machines, and etcd members fail during a rollout.

use crate::random::Random;
use crate::simulation::engine::schedule::{Disruption, MINUTE, SECOND};
use crate::simulation::machine_api::act::{ClusterFault, MachineFault, UserAction};
use crate::simulation::machine_api::kinds::OPERATOR;
use crate::simulation::machine_api::state::ClusterSchedule;

use super::control_plane_machine_set::rollout;
use super::draw::{minute, position, time};

/// Nodes are not ready for a time, or vanish with their instances.
pub(super) fn nodes(random: &mut Random, schedule: &mut ClusterSchedule) {
    rollout(random, schedule);
    for _ in 0..random.between(1, 4) {
        let act = if random.permille(750) {
            ClusterFault::NodeDown(position(random, 5), time(random, 5 * SECOND, 40 * MINUTE))
        } else {
            ClusterFault::InstanceGone(position(random, 5))
        };
        let minute = random.between(0, 60);
        schedule.at(minute, act);
    }
    if random.permille(300) {
        let minute = random.between(10, 60);
        schedule.at(minute, UserAction::Remediate);
    }
}

/// Machines are slow, fail, and never join.
pub(super) fn machines(random: &mut Random, schedule: &mut ClusterSchedule) {
    let all = [
        MachineFault::Fails,
        MachineFault::NeverJoins,
        MachineFault::NeverReady,
        MachineFault::Slow,
        MachineFault::OtherName,
        MachineFault::NeverEnds,
    ];
    for _ in 0..random.between(1, 3) {
        let fault = random.pick(&all).copied().unwrap_or(MachineFault::Slow);
        let minute = random.between(0, 30);
        schedule.at(minute, ClusterFault::Machine(fault));
    }
    rollout(random, schedule);
    if random.permille(400) {
        let minute = random.between(10, 60);
        schedule.at(minute, UserAction::EditTemplate);
    }
    if random.permille(300) {
        let act = UserAction::Delete(position(random, 5), 1);
        let minute = random.between(10, 60);
        schedule.at(minute, act);
    }
}

/// The etcd operator reports members that are not healthy.
pub(super) fn etcd(random: &mut Random, schedule: &mut ClusterSchedule) {
    rollout(random, schedule);
    for _ in 0..random.between(1, 4) {
        let act = ClusterFault::EtcdSick(time(random, 10 * SECOND, 30 * MINUTE));
        let minute = random.between(0, 60);
        schedule.at(minute, act);
    }
    if random.permille(300) {
        let act = Disruption::Freeze(0, OPERATOR, time(random, MINUTE, 20 * MINUTE));
        let minute = random.between(0, 30);
        schedule.at(minute, act);
    }
}

/// Etcd learners are not promoted for a time, and the etcd operator reports nothing.
pub(super) fn learners(random: &mut Random, schedule: &mut ClusterSchedule) {
    rollout(random, schedule);
    for _ in 0..random.between(1, 4) {
        let duration = time(random, MINUTE, 40 * MINUTE);
        let act = if random.permille(750) {
            ClusterFault::Unpromoted(duration)
        } else {
            ClusterFault::EtcdMute(duration)
        };
        let at = minute(random, 60);
        schedule.at_ms(at, act);
    }
    if random.permille(300) {
        let act = UserAction::Delete(position(random, 5), position(random, 3) + 1);
        let at = minute(random, 60);
        schedule.at_ms(at, act);
    }
    if random.permille(150) {
        let act = ClusterFault::InstanceGone(position(random, 5));
        let at = minute(random, 60);
        schedule.at_ms(at, act);
    }
}
