//! Scenarios in which users act on the set and on its machines.

use crate::random::Random;
use crate::simulation::engine::schedule::{Disruption, Incident, MINUTE, SECOND};
use crate::simulation::machine_api::act::{Act, ClusterFault, MachineFault, UserAction};
use crate::simulation::machine_api::kinds::{MACHINE, OPERATOR, SET};
use crate::simulation::machine_api::state::ClusterSchedule;

use super::draw::{delete_set, lead, minute, position, time};

/// A rollout without faults.
pub(super) fn rollout(_: &mut Random, schedule: &mut ClusterSchedule) {
    schedule.at(1, UserAction::EditTemplate);
}

/// Users and machine health checks delete machines, one or several at once.
pub(super) fn deletions(random: &mut Random, schedule: &mut ClusterSchedule) {
    if random.permille(700) {
        rollout(random, schedule);
    }
    for _ in 0..random.between(1, 4) {
        let act = UserAction::Delete(position(random, 5), position(random, 3) + 1);
        let minute = random.between(1, 60);
        schedule.at(minute, act);
    }
    if random.permille(200) {
        let node_down = ClusterFault::NodeDown(position(random, 5), time(random, 10 * MINUTE, 30 * MINUTE));
        schedule.at(20, node_down);
        schedule.at(28, UserAction::Remediate);
    }
    if random.permille(150) {
        let act = UserAction::RemoveHook(position(random, 5));
        let minute = random.between(1, 50);
        schedule.at(minute, act);
    }
}

/// A user deletes the set during a rollout, and sometimes creates it again.
pub(super) fn set_deleted(random: &mut Random, schedule: &mut ClusterSchedule) {
    rollout(random, schedule);
    let action = delete_set(random);
    let minute = random.between(0, 50);
    schedule.at(minute, action);
    if random.permille(400) {
        let act = UserAction::Deselect(position(random, 3));
        schedule.at(minute.saturating_sub(1), act);
    }
    if random.permille(500) {
        let minute = minute + random.between(1, 20);
        schedule.at(minute, UserAction::CreateSet);
    }
    if random.permille(400) {
        let late = time(random, SECOND, 10 * MINUTE);
        schedule.at(0, Disruption::GarbageLate(late));
    }
    schedule.rates.lose = random.between(0, 60);
    schedule.rates.crash_after = random.between(0, 60);
    schedule.rates.refuse = random.between(0, 60);
    if random.permille(300) {
        let act = Disruption::Freeze(0, MACHINE, time(random, MINUTE, 10 * MINUTE));
        schedule.at(minute.saturating_sub(1), act);
    }
    if random.permille(300) {
        lead(schedule, random, minute, true, true);
    }
}

/// Strategy OnDelete: a machine is replaced only after a user deletes it.
pub(super) fn on_delete(random: &mut Random, schedule: &mut ClusterSchedule) {
    schedule.setup.strategy = "OnDelete";
    rollout(random, schedule);
    for _ in 0..random.between(0, 4) {
        let act = UserAction::Delete(position(random, 5), position(random, 3) + 1);
        let minute = random.between(2, 90);
        schedule.at(minute, act);
    }
    if random.permille(200) {
        let minute = random.between(10, 60);
        schedule.at(minute, UserAction::Strategy("RollingUpdate"));
    }
    schedule.rates.lose = random.between(0, 30);
}

/// Users edit the set during a rollout.
pub(super) fn edits(random: &mut Random, schedule: &mut ClusterSchedule) {
    for _ in 0..random.between(1, 5) {
        let act = match random.below(7) {
            0 => UserAction::Domains(position(random, 2) + 3),
            1 => UserAction::Strategy("OnDelete"),
            2 => UserAction::Strategy("RollingUpdate"),
            3 => UserAction::Forbidden,
            4 if random.permille(500) => UserAction::Touch(position(random, 5)),
            4 => UserAction::Disown(position(random, 5)),
            _ => UserAction::EditTemplate,
        };
        let minute = random.between(1, 60);
        schedule.at(minute, act);
    }
}

/// The set is Inactive until a user activates it.
pub(super) fn inactive(random: &mut Random, schedule: &mut ClusterSchedule) {
    schedule.setup.state = Some("Inactive");
    if random.permille(700) {
        let minute = random.between(1, 20);
        schedule.at(minute, UserAction::EditTemplate);
    }
    if random.permille(300) {
        let act = ClusterFault::NodeDown(position(random, 3), time(random, MINUTE, 10 * MINUTE));
        schedule.at(5, act);
    }
    let minute = random.between(10, 40);
    schedule.at(minute, UserAction::Activate);
}

/// Users pause and limit rollouts.
pub(super) fn pauses(random: &mut Random, schedule: &mut ClusterSchedule) {
    rollout(random, schedule);
    for _ in 0..random.between(1, 4) {
        let on = random.permille(600);
        let act = if random.permille(700) {
            UserAction::Pause(on)
        } else {
            UserAction::Limit(on)
        };
        let minute = random.between(0, 50);
        schedule.at(minute, act);
    }
    if random.permille(300) {
        let act = UserAction::Delete(position(random, 3), 1);
        let minute = random.between(2, 50);
        schedule.at(minute, act);
    }
}

/// There are control plane nodes without a machine, and machines lose their labels.
pub(super) fn strangers(random: &mut Random, schedule: &mut ClusterSchedule) {
    rollout(random, schedule);
    for _ in 0..random.between(1, 3) {
        let incident: Incident<Act> = if random.permille(700) {
            ClusterFault::Stranger(time(random, 10 * SECOND, 30 * MINUTE)).into()
        } else {
            UserAction::Deselect(position(random, 5)).into()
        };
        let minute = random.between(0, 50);
        schedule.at(minute, incident);
    }
}

/// Users create and change machines, and the cloud reports failures of machines that start nevertheless.
pub(super) fn by_hand(random: &mut Random, schedule: &mut ClusterSchedule) {
    if random.permille(700) {
        rollout(random, schedule);
    }
    for _ in 0..random.between(1, 4) {
        let at = minute(random, 60) + time(random, 0, MINUTE);
        let incident: Incident<Act> = match random.below(8) {
            0..=3 => UserAction::AddMachine(position(random, 5)).into(),
            4 | 5 => UserAction::EditMachine(position(random, 5)).into(),
            6 => ClusterFault::Machine(MachineFault::Ghost).into(),
            _ => UserAction::Delete(position(random, 5), 1).into(),
        };
        schedule.at_ms(at, incident);
    }
    if random.permille(200) {
        schedule.setup.strategy = "OnDelete";
    }
}

/// Capstan replaces the ControlPlaneMachineSet operator during a rollout, and is upgraded and downgraded with its CRD.
pub(super) fn upgrades(random: &mut Random, schedule: &mut ClusterSchedule) {
    schedule.setup.keeps_machines = random.permille(300);
    if random.permille(600) {
        let replaced = position(random, 5);
        schedule.at_ms(0, UserAction::EditTemplate);
        schedule.at_ms(0, UserAction::AddMachine(replaced));
    } else {
        schedule.at_ms(minute(random, 40), UserAction::EditTemplate);
    }
    let mut keeps = schedule.setup.keeps_machines;
    let mut at = 0;
    for _ in 0..random.between(1, 3) {
        at += minute(random, 25) + MINUTE;
        keeps = !keeps;
        schedule.at_ms(at, ClusterFault::Definition(keeps));
        // Each version brings its CRD, and its processes restart before or after that.
        for process in 0..2 {
            let restart = time(random, 0, 4 * MINUTE);
            schedule.at_ms(at + restart, Disruption::Kill(process));
        }
    }
    if random.permille(300) {
        let at = minute(random, 60);
        schedule.at_ms(at, UserAction::EditTemplate);
    }
}

/// The webhook is out of reach, and permissions are missing, while users continue to edit the set.
pub(super) fn outages(random: &mut Random, schedule: &mut ClusterSchedule) {
    if random.permille(700) {
        schedule.at_ms(0, ClusterFault::WebhookDown(time(random, 10 * SECOND, 30 * MINUTE)));
    }
    let at = minute(random, 40);
    schedule.at_ms(at, UserAction::EditTemplate);
    for _ in 0..random.between(1, 5) {
        let at = minute(random, 60) + time(random, 0, MINUTE);
        let duration = time(random, 10 * SECOND, 30 * MINUTE);
        let incident: Incident<Act> = match random.below(7) {
            0 | 1 => ClusterFault::WebhookDown(duration).into(),
            2 => Disruption::Denied(MACHINE, duration).into(),
            3 => Disruption::Denied(SET, duration).into(),
            4 => Disruption::Denied(OPERATOR, duration).into(),
            5 => UserAction::Forbidden.into(),
            _ => UserAction::EditTemplate.into(),
        };
        schedule.at_ms(at, incident);
    }
    if random.permille(300) {
        let at = minute(random, 50);
        schedule.at_ms(at, delete_set(random));
        schedule.at_ms(at + time(random, MINUTE, 10 * MINUTE), UserAction::CreateSet);
    }
}
