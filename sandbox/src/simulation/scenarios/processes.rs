//! Scenarios in which the processes under test are disturbed during a rollout.

use crate::random::Random;
use crate::simulation::engine::faults::FaultRates;
use crate::simulation::engine::schedule::{BEHIND, Disruption, HOUR, Incident, MINUTE, SECOND};
use crate::simulation::machine_api::act::{Act, ClusterFault, MachineFault, UserAction};
use crate::simulation::machine_api::kinds::{KINDS, MACHINE};
use crate::simulation::machine_api::state::ClusterSchedule;

use super::control_plane_machine_set::rollout;
use super::draw::{lead, minute, position, time};

/// Requests of every kind fail now and then.
pub(super) fn requests(random: &mut Random, schedule: &mut ClusterSchedule) {
    rollout(random, schedule);
    let mut share = || if random.permille(500) { random.between(5, 80) } else { 0 };
    schedule.rates = FaultRates {
        refuse: share(),
        drop: share(),
        lose: share(),
        late: share(),
        read: share(),
        ..FaultRates::default()
    };
}

/// Caches lag, stop, and go back in time.
pub(super) fn stale(random: &mut Random, schedule: &mut ClusterSchedule) {
    rollout(random, schedule);
    schedule.lag = 4000;
    for _ in 0..random.between(2, 10) {
        let kind = random.pick(&KINDS).map_or(MACHINE, |kind| kind.id);
        let process = position(random, 2);
        let act = if random.permille(500) {
            Disruption::Freeze(process, kind, time(random, 5 * SECOND, 20 * MINUTE))
        } else {
            Disruption::Relist(process, kind, time(random, SECOND, BEHIND))
        };
        let minute = random.between(1, 60);
        schedule.at(minute, act);
    }
    if random.permille(300) {
        let minute = random.between(5, 50);
        schedule.at(minute, UserAction::EditTemplate);
    }
}

/// Replicas are killed before and after writes, and stop.
pub(super) fn crashes(random: &mut Random, schedule: &mut ClusterSchedule) {
    rollout(random, schedule);
    schedule.rates.crash_before = random.between(10, 150);
    schedule.rates.crash_after = random.between(10, 150);
    schedule.rates.lose = random.between(0, 30);
    for _ in 0..random.below(5) {
        let act = if random.permille(600) {
            Disruption::Kill(position(random, 2))
        } else {
            Disruption::Hang(position(random, 2), time(random, 60 * SECOND, 78 * SECOND))
        };
        let minute = random.between(1, 60);
        schedule.at(minute, act);
    }
}

/// Both replicas lead, or none does.
pub(super) fn leaders(random: &mut Random, schedule: &mut ClusterSchedule) {
    rollout(random, schedule);
    schedule.lag = random.between(200, 5000);
    schedule.rates.lose = random.between(0, 40);
    schedule.rates.late = random.between(0, 40);
    for _ in 0..random.between(2, 12) {
        let (first, second) = (random.permille(750), random.permille(750));
        let minute = random.between(0, 60);
        lead(schedule, random, minute, first, second);
    }
    if random.permille(500) {
        let act = Disruption::Freeze(1, MACHINE, time(random, MINUTE, 15 * MINUTE));
        let minute = random.between(1, 30);
        schedule.at(minute, act);
    }
}

/// The clocks of the replicas jump.
pub(super) fn clocks(random: &mut Random, schedule: &mut ClusterSchedule) {
    rollout(random, schedule);
    for _ in 0..random.between(1, 4) {
        let ahead = time(random, SECOND, 2 * HOUR);
        let jump = if random.permille(500) { ahead } else { -ahead };
        let act = Disruption::Jump(position(random, 2), jump);
        let minute = random.between(0, 60);
        schedule.at(minute, act);
    }
    if random.permille(500) {
        lead(schedule, random, 20, true, true);
    }
}

/// The leader stops between two requests for longer than its lease, so the other replica leads, and
/// for a time afterwards both believe that they lead. Requests are slow. Meanwhile machines are
/// deleted, fail, and lose their nodes.
pub(super) fn standstill(random: &mut Random, schedule: &mut ClusterSchedule) {
    rollout(random, schedule);
    schedule.lag = random.between(200, 3000);
    schedule.rates = FaultRates {
        stall: random.between(20, 150),
        slow: random.between(0, 100),
        late: random.between(0, 30),
        lose: random.between(0, 30),
        ..FaultRates::default()
    };
    for _ in 0..random.between(1, 6) {
        let at = minute(random, 60) + time(random, 0, MINUTE);
        let incident: Incident<Act> = match random.below(5) {
            0 => UserAction::Delete(position(random, 5), 1).into(),
            1 => ClusterFault::NodeDown(position(random, 5), time(random, 5 * MINUTE, 20 * MINUTE)).into(),
            2 => ClusterFault::Machine(MachineFault::Fails).into(),
            3 => ClusterFault::Machine(MachineFault::Ghost).into(),
            _ => UserAction::EditTemplate.into(),
        };
        schedule.at_ms(at, incident);
    }
}
