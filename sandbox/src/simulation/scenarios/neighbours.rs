//! The scenario of the neighbours: other components act on the machines of the set, and another
//! installer chose the names of its machines.

use crate::random::Random;
use crate::simulation::engine::schedule::{Incident, MINUTE, SECOND};
use crate::simulation::machine_api::act::{Act, ClusterFault, MachineFault, UserAction};
use crate::simulation::machine_api::neighbours::{Names, Neighbours};
use crate::simulation::machine_api::state::ClusterSchedule;

use super::control_plane_machine_set::rollout;
use super::draw::{minute, position, time};

/// Webhooks of other components change and refuse machines, nodes register early, there are nodes
/// without a machine, and users delete machines. No fault stops a process or delays a cache.
pub(super) fn neighbours(random: &mut Random, schedule: &mut ClusterSchedule) {
    surround(random, schedule);
    schedule.setup.neighbours.judges_status = true;
    rollout(random, schedule);
}

/// Adds neighbours to a schedule.
pub(super) fn surround(random: &mut Random, schedule: &mut ClusterSchedule) {
    schedule.setup.neighbours = Neighbours {
        webhooks: random.permille(700),
        machine_webhook: false,
        workers: random.permille(400),
        names: match random.below(10) {
            0 => Names::OtherNumbers,
            1 => Names::SameNumber,
            2 => Names::Letters,
            _ => Names::Numbered,
        },
        prunes_selector: random.permille(300),
        etcd_messages: random.permille(600),
        judges_status: false,
    };
    for _ in 0..random.between(0, 3) {
        let at = minute(random, 30);
        let fault = match random.below(6) {
            0 | 1 => MachineFault::EarlyNode,
            2 | 3 => MachineFault::EarlyUnknownNode,
            4 => MachineFault::Fails,
            _ => MachineFault::NeverJoins,
        };
        schedule.at_ms(at, ClusterFault::Machine(fault));
    }
    for _ in 0..random.between(1, 5) {
        let at = minute(random, 60) + time(random, 0, MINUTE);
        let duration = time(random, 10 * SECOND, 30 * MINUTE);
        let index = u32::try_from(position(random, 3)).unwrap_or(0);
        let incident: Incident<Act> = match random.below(11) {
            0 | 1 => ClusterFault::Refusals(duration).into(),
            2 | 3 => ClusterFault::Drops(duration).into(),
            4 | 5 => ClusterFault::EtcdSick(duration).into(),
            6 => UserAction::EditLabels.into(),
            7 => UserAction::EditTemplate.into(),
            8 => UserAction::Delete(position(random, 5), 1).into(),
            _ => {
                // The next machine of the index is deleted too.
                let later = at + time(random, MINUTE, 30 * MINUTE);
                schedule.at_ms(later, UserAction::ForceDelete(index));
                UserAction::ForceDelete(index).into()
            }
        };
        schedule.at_ms(at, incident);
    }
    combine(random, schedule);
}

/// Adds faults that matter only together.
fn combine(random: &mut Random, schedule: &mut ClusterSchedule) {
    let at = time(random, 2 * MINUTE, 30 * MINUTE);
    let later = at + time(random, 10 * SECOND, 10 * MINUTE);
    let index = u32::try_from(position(random, 3)).unwrap_or(0);
    match random.below(8) {
        0 => schedule.at_ms(at, ClusterFault::ForeignNode),
        // The foreign node may be the node of the machine that never joins.
        1 => {
            schedule.at_ms(0, ClusterFault::Machine(MachineFault::NeverJoins));
            schedule.at_ms(at, ClusterFault::ForeignNode);
        }
        // One machine fails, and another index has none.
        2 => {
            schedule.at_ms(0, ClusterFault::Machine(MachineFault::Fails));
            schedule.at_ms(at, UserAction::ForceDelete(index));
        }
        // Labels are refused, and an index has no machine.
        3 => {
            schedule.at_ms(at, ClusterFault::Refusals(5 * MINUTE));
            schedule.at_ms(at + SECOND, UserAction::EditLabels);
            schedule.at_ms(later, UserAction::ForceDelete(index));
        }
        // A new image reaches only machines that are created for another reason.
        4 => schedule.at_ms(later, UserAction::EditImage),
        _ => {}
    }
}
