//! What happens in a run. A seed draws everything, in a fixed order.

use capstan_core::authority::spec::Api;

use crate::random::Random;
use crate::simulation::engine::faults::FaultRates;
use crate::simulation::engine::kinds::KindId;
use crate::simulation::engine::schedule::{BEHIND, Disruption, HOUR};

use super::objects::{HEALTH_CHECK, INFRASTRUCTURE, MACHINE, MIRROR, MIRROR_SET, SET};
use super::state::{Act, PairSchedule, Setup};

/// Users and faults stop after this many minutes.
const LAST: u64 = 40;

pub(super) fn schedule(seed: u64) -> PairSchedule {
    let mut random = Random::new(seed);
    let authority = if random.permille(500) {
        Api::MachineApi
    } else {
        Api::ClusterApi
    };
    let setup = Setup {
        authority,
        mutant: None,
    };
    let mut schedule = PairSchedule::quiet(random.next(), "both-apis", setup, HOUR);
    for _ in 0..random.between(2, 14) {
        let at = time(random.between(2 * 60_000, LAST * 60_000));
        let act = act(&mut random);
        schedule.at_ms(at, act);
    }
    if random.permille(750) {
        faults(&mut random, &mut schedule);
    }
    schedule.incidents.sort_by_key(|(at, _)| *at);
    schedule
}

/// The fixed schedules in which every write meets every fault: a migration of each kind there and
/// back with edits in between, and the deletions, from both APIs.
pub(super) fn fixed() -> Vec<PairSchedule> {
    let both = [Api::MachineApi, Api::ClusterApi];
    both.into_iter()
        .flat_map(|authority| [migrations(authority), deletions(authority)])
        .collect()
}

fn story(authority: Api, name: &'static str, acts: &[(u64, Act)]) -> PairSchedule {
    let setup = Setup {
        authority,
        mutant: None,
    };
    let mut schedule = PairSchedule::quiet(1, name, setup, HOUR);
    for (minute, act) in acts {
        schedule.at(*minute, act.clone());
    }
    schedule
}

fn migrations(authority: Api) -> PairSchedule {
    let (there, back) = (authority.other(), authority);
    let acts = [
        (3, Act::Migrate(0, there)),
        (3, Act::Migrate(1, there)),
        (6, Act::MigrateSet(there)),
        (6, Act::MigrateCheck(there)),
        (9, Act::Edit(0)),
        (10, Act::EditSet),
        (11, Act::Scale(3)),
        (12, Act::Autoscale(true, 1000)),
        (13, Act::Autoscale(false, 1000)),
        (15, Act::Migrate(0, back)),
        (15, Act::MigrateSet(back)),
        (15, Act::MigrateCheck(back)),
        (20, Act::Revert(0, 1500)),
    ];
    let name = match authority {
        Api::MachineApi => "migrations from the Machine API",
        Api::ClusterApi => "migrations from Cluster API",
    };
    story(authority, name, &acts)
}

fn deletions(authority: Api) -> PairSchedule {
    let acts = [
        (3, Act::Delete(0, authority.other())),
        (6, Act::Delete(1, authority.other())),
        (9, Act::Delete(1, authority)),
        (12, Act::DeleteMirrorSet),
        (16, Act::DeleteSet),
        (20, Act::Delete(0, authority)),
    ];
    let name = match authority {
        Api::MachineApi => "deletions of the Machine API",
        Api::ClusterApi => "deletions of Cluster API",
    };
    story(authority, name, &acts)
}

fn time(drawn: u64) -> i64 {
    i64::try_from(drawn).unwrap_or_default()
}

fn act(random: &mut Random) -> Act {
    let position = usize::try_from(random.below(8)).unwrap_or_default();
    let api = if random.permille(500) {
        Api::MachineApi
    } else {
        Api::ClusterApi
    };
    match random.below(23) {
        0..=4 => Act::Migrate(position, api),
        5..=6 => Act::MigrateSet(api),
        7 => Act::MigrateCheck(api),
        8..=9 => Act::Revert(position, time(random.between(100, 60_000))),
        10..=12 => Act::Edit(position),
        13 => Act::EditSet,
        14..=15 => Act::Scale(time(random.between(0, 4))),
        16 => Act::Break(position),
        17 => Act::Delete(position, api),
        18 => Act::DeleteMirrorSet,
        20..=22 => Act::Autoscale(random.permille(500), time(random.between(100, 30_000))),
        _ if random.permille(300) => Act::DeleteSet,
        _ => Act::Delete(position, api),
    }
}

fn faults(random: &mut Random, schedule: &mut PairSchedule) {
    schedule.rates = FaultRates::drawn(random, 60);
    schedule.lag = random.between(200, 5000);
    for _ in 0..random.between(0, 6) {
        let at = time(random.between(0, LAST * 60_000));
        let replica = usize::from(random.permille(500));
        let kinds: [KindId; 6] = [MACHINE, MIRROR, INFRASTRUCTURE, SET, MIRROR_SET, HEALTH_CHECK];
        let kind = random.pick(&kinds).copied().unwrap_or(MACHINE);
        let disruption = match random.below(6) {
            0 => Disruption::Freeze(replica, kind, time(random.between(5_000, 300_000))),
            1 => Disruption::Relist(replica, kind, time(random.between(1_000, BEHIND.unsigned_abs()))),
            2 => Disruption::Hang(replica, time(random.between(1_000, 60_000))),
            3 => Disruption::GarbageLate(time(random.between(1_000, 60_000))),
            4 => {
                let end = at + time(random.between(60_000, 300_000));
                schedule.at_ms(end, Disruption::Lead(replica == 0, replica == 1));
                Disruption::Lead(true, true)
            }
            _ => Disruption::Kill(replica),
        };
        schedule.at_ms(at, disruption);
    }
}
