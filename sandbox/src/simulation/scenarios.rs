//! The scenarios: each is a plan that a seed fills in.
//!
//! A scenario decides what happens and when, before the run begins. It must draw everything from
//! the random stream that it is given, and in a fixed order, so that a seed stays the same run.

mod control_plane_machine_set;
mod corners;
mod draw;
mod generator;
mod infrastructure;
mod neighbours;
mod processes;

use crate::random::Random;

use super::engine::faults::FaultRates;
use super::engine::schedule::{HOUR, Incident};
use super::machine_api::act::{Act, UserAction};
use super::machine_api::state::{ClusterSchedule, Setup};

type Plan = fn(&mut Random, &mut ClusterSchedule);

/// The number of scenarios that seeds choose from their first random stream. The scenarios after
/// them have a stream of their own, so that they did not change the runs of older seeds.
const FIRST: usize = 17;

/// The number of scenarios at the end of the list that no seed chooses.
const UNCHOSEN: usize = 3;

/// The name of the scenario that mixes one of the later scenarios into a swarm. No seed chooses it
/// by itself.
pub(crate) const MELEE: &str = "melee";
/// The name of the scenario that mixes all first scenarios.
const SWARM: &str = "swarm";
/// The name of the scenario in which the set is Inactive.
const INACTIVE: &str = "inactive";

/// The scenarios, by name.
const PLANS: [(&str, Plan); 26] = [
    ("rollout", control_plane_machine_set::rollout),
    ("requests", processes::requests),
    ("stale", processes::stale),
    ("crashes", processes::crashes),
    ("leaders", processes::leaders),
    ("deletions", control_plane_machine_set::deletions),
    ("set-deleted", control_plane_machine_set::set_deleted),
    ("on-delete", control_plane_machine_set::on_delete),
    ("edits", control_plane_machine_set::edits),
    (INACTIVE, control_plane_machine_set::inactive),
    ("nodes", infrastructure::nodes),
    ("machines", infrastructure::machines),
    ("etcd", infrastructure::etcd),
    ("clocks", processes::clocks),
    ("pauses", control_plane_machine_set::pauses),
    ("strangers", control_plane_machine_set::strangers),
    (SWARM, swarm),
    ("generator", generator::generator),
    ("learners", infrastructure::learners),
    ("outages", control_plane_machine_set::outages),
    ("upgrades", control_plane_machine_set::upgrades),
    ("by-hand", control_plane_machine_set::by_hand),
    ("standstill", processes::standstill),
    (MELEE, swarm),
    ("neighbours", neighbours::neighbours),
    ("corners", corners::corners),
];

/// The names of the scenarios.
pub fn scenarios() -> impl Iterator<Item = &'static str> {
    PLANS.iter().map(|(name, _)| *name)
}

/// The schedule of a seed: of the named scenario, or of the one that the seed chooses. `None`
/// without such a scenario.
pub fn schedule(seed: u64, scenario: Option<&str>) -> Option<ClusterSchedule> {
    let mut random = Random::new(seed);
    let mut later_random = Random::new(seed ^ 0x0bad_5eed_1a7e_0001);
    let (first, later) = PLANS.split_at_checked(FIRST)?;
    let (later, _) = later.split_at_checked(later.len().checked_sub(UNCHOSEN)?)?;
    let (name, plan) = *match scenario {
        Some(name) => PLANS.iter().find(|(known, _)| *known == name)?,
        None if later_random.permille(250) => later_random.pick(later)?,
        // Half of the others mix everything.
        None if random.permille(500) => first.last()?,
        None => random.pick(first)?,
    };
    let faults_seed = random.next();
    let setup = Setup {
        replicas: if random.permille(150) { 5 } else { 3 },
        ..Setup::default()
    };
    let mut schedule = ClusterSchedule::quiet(faults_seed, name, setup, 4 * HOUR);
    plan(&mut random, &mut schedule);
    if name == MELEE {
        mix_in(&mut schedule, &mut later_random, later);
        // Neighbours have a stream of their own, so that they did not change the runs of the other
        // seeds.
        let mut random = Random::new(seed ^ 0x0bad_5eed_1a7e_0002);
        if random.permille(250) {
            neighbours::surround(&mut random, &mut schedule);
        }
    }
    schedule.incidents.sort_by_key(|(at, _)| *at);
    Some(schedule)
}

/// Mixes one of these scenarios into a schedule.
fn mix_in(schedule: &mut ClusterSchedule, random: &mut Random, scenarios: &[(&str, Plan)]) {
    let (rates, lag, strategy) = (schedule.rates, schedule.lag, schedule.setup.strategy);
    if let Some((_, plan)) = random.pick(scenarios) {
        plan(random, schedule);
    }
    schedule.rates = schedule.rates.max(rates);
    schedule.lag = schedule.lag.max(lag);
    schedule.setup.strategy = strategy;
}

/// Several of the first scenarios, in a mixture of its own for each seed.
fn swarm(random: &mut Random, schedule: &mut ClusterSchedule) {
    let plans: Vec<Plan> = PLANS
        .iter()
        .take(FIRST)
        .filter(|(name, _)| *name != SWARM && *name != INACTIVE)
        .map(|(_, plan)| *plan)
        .collect();
    let mut rates = FaultRates::default();
    let (mut lag, mut strategy) = (schedule.lag, schedule.setup.strategy);
    for _ in 0..random.between(2, 5) {
        if let Some(plan) = random.pick(&plans) {
            schedule.rates = FaultRates::default();
            plan(random, schedule);
            rates = rates.max(schedule.rates);
            lag = lag.max(schedule.lag);
            if random.permille(500) {
                strategy = schedule.setup.strategy;
            }
        }
    }
    let is_edit = |incident: &Incident<Act>| *incident == UserAction::EditTemplate.into();
    let edits = schedule.incidents.iter().filter(|(_, incident)| is_edit(incident));
    // Most scenarios begin with an edit. Two edits are enough.
    let mut excess = edits.count().saturating_sub(2);
    schedule.incidents.retain(|(_, incident)| {
        let drop = is_edit(incident) && excess > 0;
        excess -= usize::from(drop);
        !drop
    });
    (schedule.rates, schedule.lag, schedule.setup.strategy) = (rates, lag, strategy);
}
