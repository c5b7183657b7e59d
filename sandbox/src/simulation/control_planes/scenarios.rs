//! The scenarios: what happens in a run. A seed draws the details.

use capstan_core::model::Propagation;

use crate::random::Random;
use crate::simulation::engine::faults::FaultRates;
use crate::simulation::engine::kinds::KindId;
use crate::simulation::engine::schedule::{BEHIND, Disruption, HOUR, MINUTE, SECOND};

use super::act::{Act, MachineFault};
use super::kinds::{CONTROL_PLANE, HEALTH_CHECK, KINDS, MACHINE, NODE, OPERATOR};
use super::state::{PlaneSchedule, Setup};

type Plan = fn(&mut Random, &mut PlaneSchedule);

/// The scenarios by name. The last one mixes the others.
const PLANS: [(&str, Plan); 14] = [
    ("scale", scale),
    ("shape", shape),
    ("both", both),
    ("deletions", deletions),
    ("failures", failures),
    ("members", members),
    ("health-check", health_check),
    ("removal", removal),
    ("owners", owners),
    ("bootstrap", bootstrap),
    ("single", single),
    ("domains", domains),
    ("processes", processes),
    ("melee", melee),
];

/// The scenario in which the controller manages the etcd members. Seeds do not choose it by
/// themselves.
const OWN_MEMBERS: (&str, Plan) = ("own-members", own_members);

/// The names of the scenarios.
pub fn scenarios() -> impl Iterator<Item = &'static str> {
    PLANS.iter().chain([&OWN_MEMBERS]).map(|(name, _)| *name)
}

/// The schedule of a seed: of the named scenario, or of the one that the seed chooses.
pub(super) fn schedule(seed: u64, scenario: Option<&str>) -> Option<PlaneSchedule> {
    let mut random = Random::new(seed);
    let (name, plan) = *match scenario {
        Some(name) => PLANS.iter().chain([&OWN_MEMBERS]).find(|(known, _)| *known == name)?,
        None if random.permille(300) => PLANS.last()?,
        None => random.pick(&PLANS)?,
    };
    let installed = if random.permille(250) { 5 } else { 3 };
    let setup = Setup {
        installed,
        replicas: installed,
        repairs: true,
        own_members: false,
        bug: None,
    };
    let mut schedule = PlaneSchedule::quiet(random.next(), name, setup, 5 * HOUR);
    plan(&mut random, &mut schedule);
    schedule.incidents.sort_by_key(|(at, _)| *at);
    Some(schedule)
}

fn position(random: &mut Random, bound: u64) -> usize {
    usize::try_from(random.below(bound)).unwrap_or(0)
}

fn time(random: &mut Random, least: i64, most: i64) -> i64 {
    i64::try_from(random.between(least.unsigned_abs(), most.unsigned_abs())).unwrap_or(least)
}

/// A number of machines; 7 and the numbers that admission refuses are rare.
fn size(random: &mut Random) -> u32 {
    let sizes = [1, 1, 3, 3, 3, 5, 5, 7, 4];
    random.pick(&sizes).copied().unwrap_or(3)
}

fn at(random: &mut Random, schedule: &mut PlaneSchedule, minutes: u64, act: impl Into<super::act::Act>) {
    let moment = time(random, 0, i64::try_from(minutes).unwrap_or(1) * MINUTE);
    schedule.at_ms(moment, act.into());
}

/// Users change the number of machines.
fn scale(random: &mut Random, schedule: &mut PlaneSchedule) {
    for _ in 0..random.between(1, 3) {
        let act = Act::Scale(size(random));
        at(random, schedule, 120, act);
    }
}

/// Users change the shape of the machines.
fn shape(random: &mut Random, schedule: &mut PlaneSchedule) {
    for _ in 0..random.between(1, 2) {
        at(random, schedule, 60, Act::EditShape);
    }
    if random.permille(300) {
        let act = Act::Unmark(position(random, 6));
        at(random, schedule, 60, act);
    }
    if random.permille(300) {
        let act = Act::Touch(position(random, 6));
        at(random, schedule, 60, act);
    }
}

/// Users change shape and number at once.
fn both(random: &mut Random, schedule: &mut PlaneSchedule) {
    let act = Act::EditBoth(size(random));
    at(random, schedule, 10, act);
    if random.permille(400) {
        let act = Act::EditBoth(size(random));
        at(random, schedule, 120, act);
    }
}

/// Users delete machines, one or several at once.
fn deletions(random: &mut Random, schedule: &mut PlaneSchedule) {
    match random.below(3) {
        0 => scale(random, schedule),
        1 => shape(random, schedule),
        _ => {}
    }
    for _ in 0..random.between(1, 3) {
        let act = Act::Delete(position(random, 6), position(random, 3) + 1);
        at(random, schedule, 90, act);
    }
    if random.permille(200) {
        let act = Act::RemoveHook(position(random, 5));
        at(random, schedule, 60, act);
    }
}

/// Machines, nodes, and instances fail, also during changes.
fn failures(random: &mut Random, schedule: &mut PlaneSchedule) {
    match random.below(4) {
        0 => scale(random, schedule),
        1 => shape(random, schedule),
        2 => both(random, schedule),
        _ => {}
    }
    for _ in 0..random.between(1, 3) {
        let act = match random.below(6) {
            0 | 1 => Act::NodeDown(position(random, 6), time(random, MINUTE, 40 * MINUTE)),
            2 | 3 => Act::InstanceGone(position(random, 6)),
            _ => {
                let faults = [
                    MachineFault::Fails,
                    MachineFault::NeverJoins,
                    MachineFault::NeverReady,
                    MachineFault::Slow,
                ];
                Act::Machine(random.pick(&faults).copied().unwrap_or(MachineFault::Slow))
            }
        };
        at(random, schedule, 90, act);
    }
}

/// Etcd members are not healthy, are not promoted, or are not reported.
fn members(random: &mut Random, schedule: &mut PlaneSchedule) {
    match random.below(3) {
        0 => scale(random, schedule),
        1 => shape(random, schedule),
        _ => both(random, schedule),
    }
    for _ in 0..random.between(1, 3) {
        let duration = time(random, 30 * SECOND, 40 * MINUTE);
        let act = match random.below(4) {
            0 => Act::Unpromoted(duration),
            1 => Act::Mute(duration),
            _ => Act::MemberSick(position(random, 6), duration),
        };
        at(random, schedule, 90, act);
    }
}

/// Users change and delete the health check, and turn repairs on and off.
fn health_check(random: &mut Random, schedule: &mut PlaneSchedule) {
    schedule.setup.repairs = random.permille(700);
    for _ in 0..random.between(1, 3) {
        let act = match random.below(4) {
            0 => Act::Repairs(false),
            1 => Act::Repairs(true),
            2 => Act::DeleteHealthCheck,
            _ => Act::WeakenHealthCheck,
        };
        at(random, schedule, 60, act);
    }
    if random.permille(500) {
        failures(random, schedule);
    } else {
        scale(random, schedule);
    }
}

/// Users delete the ControlPlane during a change, and sometimes create it again.
fn removal(random: &mut Random, schedule: &mut PlaneSchedule) {
    if random.permille(500) {
        shape(random, schedule);
    } else {
        scale(random, schedule);
    }
    let policies = [Propagation::Background, Propagation::Orphan];
    let policy = random.pick(&policies).copied().unwrap_or(Propagation::Background);
    let minute = random.between(0, 60);
    schedule.at(minute, Act::DeleteObject(policy));
    if random.permille(600) {
        let later = minute + random.between(1, 30);
        schedule.at(later, Act::CreateObject(7));
        schedule.at(later + 1, Act::CreateObject(5));
        schedule.at(later + 2, Act::Scale(3));
    }
    if random.permille(400) {
        let late = time(random, SECOND, 10 * MINUTE);
        schedule.at(0, Disruption::GarbageLate(late));
    }
    schedule.rates.lose = random.between(0, 60);
    schedule.rates.crash_after = random.between(0, 60);
}

/// Machines lose their labels or owners, or get another owner.
fn owners(random: &mut Random, schedule: &mut PlaneSchedule) {
    if random.permille(500) {
        shape(random, schedule);
    } else {
        scale(random, schedule);
    }
    for _ in 0..random.between(1, 3) {
        let act = match random.below(4) {
            0 => Act::Deselect(position(random, 6)),
            1 => Act::Disown(position(random, 6)),
            2 => Act::Take(position(random, 6)),
            _ => Act::Touch(position(random, 6)),
        };
        at(random, schedule, 60, act);
    }
}

/// The ControlPlane creates all machines, beside the etcd member of a bootstrap host.
fn bootstrap(random: &mut Random, schedule: &mut PlaneSchedule) {
    schedule.setup.installed = 0;
    schedule.setup.replicas = random.pick(&[1, 3, 3, 5]).copied().unwrap_or(3);
    if random.permille(400) {
        let act = Act::Machine(MachineFault::Slow);
        at(random, schedule, 1, act);
    }
    schedule.rates.crash_after = random.between(0, 30);
}

/// A control plane of one machine: it is scaled, replaced, and deleted.
fn single(random: &mut Random, schedule: &mut PlaneSchedule) {
    schedule.setup.installed = 1;
    schedule.setup.replicas = 1;
    if random.permille(600) {
        at(random, schedule, 30, Act::EditShape);
    }
    if random.permille(300) {
        at(random, schedule, 90, Act::Acknowledge);
    }
    if random.permille(500) {
        let act = Act::Scale(size(random));
        at(random, schedule, 60, act);
    }
    if random.permille(200) {
        at(random, schedule, 60, Act::Delete(0, 1));
    }
}

/// Users change the failure domains, and some have no capacity.
fn domains(random: &mut Random, schedule: &mut PlaneSchedule) {
    let act = Act::Domains(position(random, 3) + 2);
    at(random, schedule, 30, act);
    if random.permille(400) {
        let duration = time(random, 10 * MINUTE, 4 * HOUR);
        let act = Act::NoCapacity(position(random, 4), duration);
        at(random, schedule, 30, act);
    }
    if random.permille(300) {
        let act = Act::Domains(position(random, 3) + 2);
        at(random, schedule, 120, act);
    }
    if random.permille(500) {
        shape(random, schedule);
    } else {
        scale(random, schedule);
    }
}

/// Requests fail, processes are killed, caches lag, and two replicas lead.
fn processes(random: &mut Random, schedule: &mut PlaneSchedule) {
    match random.below(4) {
        0 => scale(random, schedule),
        1 => shape(random, schedule),
        2 => both(random, schedule),
        _ => deletions(random, schedule),
    }
    schedule.rates = FaultRates::drawn(random, 80);
    schedule.lag = random.between(200, 5000);
    for _ in 0..random.between(0, 6) {
        let moment = time(random, 0, 90 * MINUTE);
        let replica = position(random, 2);
        let kind: KindId = random.pick(&KINDS).map_or(MACHINE, |kind| kind.id);
        let disruption = match random.below(8) {
            0 => Disruption::Freeze(replica, kind, time(random, 5 * SECOND, 20 * MINUTE)),
            1 => Disruption::Relist(replica, kind, time(random, SECOND, BEHIND)),
            2 => Disruption::Hang(replica, time(random, SECOND, MINUTE)),
            3 => Disruption::Jump(replica, time(random, 0, HOUR)),
            4 => Disruption::Denied(denied(random), time(random, MINUTE, 20 * MINUTE)),
            5 => {
                let end = moment + time(random, MINUTE, 5 * MINUTE);
                schedule.at_ms(end, Disruption::Lead(replica == 0, replica == 1));
                Disruption::Lead(true, true)
            }
            6 => {
                let duration = time(random, 10 * SECOND, 20 * MINUTE);
                schedule.at_ms(moment, Act::WebhookDown(duration));
                continue;
            }
            _ => Disruption::Kill(replica),
        };
        schedule.at_ms(moment, disruption);
    }
}

/// A kind that the controller writes.
fn denied(random: &mut Random) -> KindId {
    let kinds = [MACHINE, CONTROL_PLANE, HEALTH_CHECK, NODE, OPERATOR];
    random.pick(&kinds).copied().unwrap_or(MACHINE)
}

/// One of the other scenarios, without an etcd operator.
fn own_members(random: &mut Random, schedule: &mut PlaneSchedule) {
    let plans: [Plan; 9] = [
        scale, shape, both, deletions, failures, members, single, domains, processes,
    ];
    schedule.setup.own_members = true;
    // The controller asks for the members until an hour after this time.
    schedule.calm = 3 * HOUR;
    if let Some(plan) = random.pick(&plans) {
        plan(random, schedule);
    }
}

/// Several of the other scenarios.
fn melee(random: &mut Random, schedule: &mut PlaneSchedule) {
    let setup = schedule.setup.clone();
    let mut rates = FaultRates::default();
    let mut lag = schedule.lag;
    let others: Vec<Plan> = PLANS
        .iter()
        .filter(|(name, _)| !matches!(*name, "melee" | "bootstrap" | "single" | "removal"))
        .map(|(_, plan)| *plan)
        .collect();
    for _ in 0..random.between(2, 3) {
        if let Some(plan) = random.pick(&others) {
            schedule.rates = FaultRates::default();
            plan(random, schedule);
            rates = rates.max(schedule.rates);
            lag = lag.max(schedule.lag);
        }
    }
    (schedule.rates, schedule.lag, schedule.setup) = (rates, lag, setup);
}
