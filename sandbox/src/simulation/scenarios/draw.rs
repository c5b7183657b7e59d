//! What scenarios draw from the random stream of a seed.

use capstan_core::model::Propagation;

use crate::random::Random;
use crate::simulation::engine::schedule::{Disruption, MINUTE};
use crate::simulation::machine_api::act::UserAction;
use crate::simulation::machine_api::state::ClusterSchedule;

/// A position below a bound.
pub(super) fn position(random: &mut Random, bound: u64) -> usize {
    usize::try_from(random.below(bound)).unwrap_or(0)
}

/// A time between two, in milliseconds.
pub(super) fn time(random: &mut Random, least: i64, most: i64) -> i64 {
    let (least, most) = (least.unsigned_abs(), most.unsigned_abs());
    i64::try_from(random.between(least, most)).unwrap_or(0)
}

/// A whole minute, in milliseconds, that is not later than `most` minutes.
pub(super) fn minute(random: &mut Random, most: u64) -> i64 {
    i64::try_from(random.between(0, most)).unwrap_or(0) * MINUTE
}

/// A deletion of the set with any propagation policy.
pub(super) fn delete_set(random: &mut Random) -> UserAction {
    let policies = [Propagation::Background, Propagation::Orphan, Propagation::Foreground];
    UserAction::DeleteSet(random.pick(&policies).copied().unwrap_or(Propagation::Background))
}

/// Sets which replicas believe that they lead. Both do so for minutes at most: a lease that is not renewed ends within two
/// minutes, and a wrong clock stretches that only a little.
pub(super) fn lead(schedule: &mut ClusterSchedule, random: &mut Random, minute: u64, first: bool, second: bool) {
    schedule.at(minute, Disruption::Lead(first, second));
    if first && second {
        let later = minute + random.between(1, 5);
        let stays = random.permille(500);
        schedule.at(later, Disruption::Lead(stays, !stays));
    }
}
