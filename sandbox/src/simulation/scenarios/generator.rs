//! The scenario of the generator.

use crate::random::Random;
use crate::simulation::engine::faults::FaultRates;
use crate::simulation::engine::schedule::{BEHIND, Disruption, MINUTE, SECOND};
use crate::simulation::machine_api::act::UserAction;
use crate::simulation::machine_api::kinds::{MACHINE, SET};
use crate::simulation::machine_api::state::ClusterSchedule;

use super::draw::{delete_set, lead, minute, position, time};

/// The cluster has no set at first, or one that a user created. Users delete, create, edit, and activate sets.
pub(super) fn generator(random: &mut Random, schedule: &mut ClusterSchedule) {
    schedule.setup.generates = true;
    let states = [None, None, Some("Inactive"), Some("Active")];
    schedule.setup.state = random.pick(&states).copied().flatten();
    if random.permille(400) {
        let mut share = || if random.permille(500) { random.between(5, 60) } else { 0 };
        schedule.rates = FaultRates {
            refuse: share(),
            drop: share(),
            lose: share(),
            late: share(),
            crash_before: share(),
            crash_after: share(),
            stall: share(),
            ..FaultRates::default()
        };
    }
    if random.permille(400) {
        schedule.lag = random.between(400, 5000);
    }
    for _ in 0..random.between(2, 9) {
        let at = minute(random, 60) + time(random, 0, MINUTE);
        match random.below(13) {
            0 | 1 => {
                schedule.at_ms(at, delete_set(random));
                if random.permille(400) {
                    let soon = time(random, SECOND, 20 * SECOND);
                    schedule.at_ms(at + soon, UserAction::CreateSet);
                }
            }
            2 | 3 => schedule.at_ms(at, UserAction::Activate),
            4 => schedule.at_ms(at, UserAction::EditTemplate),
            5 => schedule.at_ms(at, UserAction::Strategy("OnDelete")),
            6 => schedule.at_ms(at, UserAction::Domains(position(random, 2) + 3)),
            7 => {
                let newest = newest(schedule);
                let position = if random.permille(700) {
                    newest
                } else {
                    position(random, 5)
                };
                schedule.at_ms(at, UserAction::EditMachine(position));
            }
            8 => schedule.at_ms(at, UserAction::Unmark),
            9 => {
                // A user creates a set that a replica does not see.
                let process = position(random, 2);
                let duration = time(random, 10 * SECOND, 10 * MINUTE);
                schedule.at_ms(at, Disruption::Freeze(process, SET, duration));
                schedule.at_ms(at + SECOND, delete_set(random));
                schedule.at_ms(at + time(random, 2 * SECOND, MINUTE), UserAction::CreateSet);
            }
            10 => {
                let kind = if random.permille(500) { SET } else { MACHINE };
                let process = position(random, 2);
                let act = if random.permille(500) {
                    Disruption::Freeze(process, kind, time(random, 5 * SECOND, 20 * MINUTE))
                } else {
                    Disruption::Relist(process, kind, time(random, SECOND, BEHIND))
                };
                schedule.at_ms(at, act);
            }
            11 => schedule.at_ms(at, Disruption::Kill(position(random, 2))),
            _ => {
                let minute = random.between(0, 60);
                lead(schedule, random, minute, true, true);
            }
        }
    }
    if random.permille(400) {
        // A generated set that is still Inactive must follow.
        let newest = newest(schedule);
        schedule.at_ms(70 * MINUTE, UserAction::EditMachine(newest));
    }
}

/// The position of the newest machine: the installer creates machines in the order of their names.
fn newest(schedule: &ClusterSchedule) -> usize {
    usize::try_from(schedule.setup.replicas).unwrap_or(3) - 1
}
