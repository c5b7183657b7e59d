//! What happens in a run, decided by its seed before it begins: who does what when, and how often which write fails.

mod later;

use crate::api::PatchKind;
use crate::random::Random;
use capstan_core::model::Propagation;

use super::objects::Sort;

/// Milliseconds of a second.
pub(super) const SECOND: i64 = 1000;
/// Milliseconds of a minute.
pub(super) const MINUTE: i64 = 60 * SECOND;
/// Milliseconds of an hour.
pub(super) const HOUR: i64 = 60 * MINUTE;
/// How far behind an API server may be that a process lists from.
pub(super) const BEHIND: i64 = 10 * MINUTE;
/// A request arrives this late, or never.
pub(super) const LATEST: i64 = 3 * MINUTE;

/// Something that happens by itself at a time.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Act {
    /// A user changes the instance type of the template.
    EditTemplate,
    /// A user lists one more zone, or one less.
    Domains(usize),
    /// A user pauses the rollout, or goes on.
    Pause(bool),
    /// A user limits the rollout, or lifts the limit.
    Limit(bool),
    /// A user deletes this many machines at once, the first of which has this position.
    Delete(usize, usize),
    /// A user deletes the set.
    DeleteSet(Propagation),
    /// A user makes a set.
    CreateSet,
    /// A user changes the strategy.
    Strategy(&'static str),
    /// A user takes the hook off a machine.
    RemoveHook(usize),
    /// A user takes the label off a machine that the set selects it by.
    Deselect(usize),
    /// A user takes every owner reference off a machine.
    Disown(usize),
    /// Somebody writes to a machine what matters to nobody.
    Touch(usize),
    /// Somebody writes to the set what matters to nobody.
    TouchSet,
    /// A user activates the set.
    Activate,
    /// A user tries what admission refuses: to stop the set, to scale it.
    Forbidden,
    /// The health check deletes every machine whose node is not ready.
    Remediate,
    /// A kind stands still in the caches of a replica.
    Freeze(usize, Sort, i64),
    /// A watch breaks, and the kind is read anew from an API server that is this much behind.
    Relist(usize, Sort, i64),
    /// A replica is killed, and comes back.
    Kill(usize),
    /// A replica stands still.
    Hang(usize, i64),
    /// Which replicas believe that they lead.
    Lead(bool, bool),
    /// The clock of a replica jumps.
    Jump(usize, i64),
    /// A node is not ready for a while.
    NodeDown(usize, i64),
    /// An instance vanishes, and its node.
    InstanceGone(usize),
    /// What goes wrong with the next machine that is made.
    Machine(Trouble),
    /// A control plane node that belongs to no machine, for a while.
    Stranger(i64),
    /// The etcd operator reports a member that is not healthy.
    EtcdSick(i64),
    /// The garbage collector is late by so much.
    GarbageLate(i64),
    /// A person changes a machine under the set: what the newest one is, a generated set follows.
    EditMachine(usize),
    /// A person makes a current machine for the index of another, or today's operator did before Capstan took over.
    AddMachine(usize),
    /// A user keeps a generated set as it is.
    Unmark,
    /// Capstan may not write a kind for a while.
    Denied(Sort, i64),
    /// The webhook cannot be reached for a while: no replica, no certificate, no route.
    WebhookDown(i64),
    /// The definition of the set is exchanged: for the one that keeps what is said of each machine, or for one that drops it.
    Definition(bool),
    /// No member of etcd that learns is promoted for a while.
    Unpromoted(i64),
    /// The etcd operator says nothing of its members for a while.
    EtcdMute(i64),
}

/// After this without a sign of life of the leader another one leads.
pub(super) const LEASE: i64 = 137 * SECOND;

/// What goes wrong with a machine.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Trouble {
    /// Its instance cannot be made.
    Fails,
    /// Its node never joins.
    NeverJoins,
    /// Its node never becomes ready.
    NeverReady,
    /// Everything takes an hour.
    Slow,
    /// Its node has another name.
    OtherName,
    /// Once it is deleted, its instance is not terminated.
    NeverEnds,
    /// It is said to have failed, and its instance comes up all the same.
    Ghost,
}

/// How often requests fail, in thousandths.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Mix {
    /// Answered with an error, and not done.
    pub refuse: u64,
    /// Never arrives.
    pub drop: u64,
    /// Done, and the answer is lost.
    pub lose: u64,
    /// Done long after the client gave up.
    pub late: u64,
    /// The replica is killed before it is done.
    pub crash_before: u64,
    /// The replica is killed after it is done.
    pub crash_after: u64,
    /// Reads that fail.
    pub read: u64,
    /// The replica stands still while it waits for the answer.
    pub stall: u64,
    /// Takes up to a minute, and its sender waits.
    pub slow: u64,
}

/// A whole run.
#[derive(Clone, Debug)]
pub struct Schedule {
    /// The seed of everything that is not decided here.
    pub seed: u64,
    /// The name of the scenario.
    pub scenario: &'static str,
    /// How many machines.
    pub replicas: u32,
    /// The strategy of the set.
    pub strategy: &'static str,
    /// The state that the set is made with; `None`: there is no set at first.
    pub state: &'static str,
    /// Whether the generator of sets runs.
    pub generates: bool,
    /// Whether the definition of the set keeps what is said of each machine at first.
    pub keeps_machines: bool,
    /// How often requests fail.
    pub mix: Mix,
    /// The longest usual lag of a cache, in milliseconds.
    pub lag: u64,
    /// What happens when.
    pub acts: Vec<(i64, Act)>,
    /// From when on nothing goes wrong any more.
    pub calm: i64,
}

type Plan = fn(&mut Random, &mut Schedule);

/// As many scenarios decide what the seeds of old play; the later ones have a stream of their own.
const FIRST: usize = 17;

/// A swarm with one of the later scenarios in it. No seed chooses it by itself, since something is known to go wrong:
/// `docs/simulation.md` says what.
pub(super) const MELEE: &str = "melee";

/// The scenarios, by name.
pub const SCENARIOS: [(&str, Plan); 24] = [
    ("rollout", rollout),
    ("requests", requests),
    ("stale", stale),
    ("crashes", crashes),
    ("leaders", leaders),
    ("deletions", deletions),
    ("set-deleted", set_deleted),
    ("on-delete", on_delete),
    ("edits", edits),
    ("inactive", inactive),
    ("nodes", nodes),
    ("machines", machines),
    ("etcd", etcd),
    ("clocks", clocks),
    ("pauses", pauses),
    ("strangers", strangers),
    ("swarm", swarm),
    ("generator", later::generator),
    ("learners", later::learners),
    ("outages", later::outages),
    ("upgrades", later::upgrades),
    ("by-hand", later::by_hand),
    ("standstill", later::standstill),
    (MELEE, swarm),
];

impl Schedule {
    /// The schedule of a seed; of one scenario, or of the one that the seed chooses.
    pub fn of(seed: u64, scenario: Option<&str>) -> Option<Self> {
        let mut random = Random::new(seed);
        let mut later = later::stream(seed);
        let (first, rest) = SCENARIOS.split_at_checked(FIRST)?;
        let (_, rest) = rest.split_last()?;
        let chosen = match scenario {
            Some(name) => SCENARIOS.iter().find(|(known, _)| *known == name)?,
            None if later.permille(250) => later.pick(rest)?,
            // Half of the others mix everything.
            None if random.permille(500) => first.last()?,
            None => random.pick(first)?,
        };
        let mut schedule = Self {
            seed: random.next(),
            scenario: chosen.0,
            replicas: if random.permille(150) { 5 } else { 3 },
            strategy: "RollingUpdate",
            state: "Active",
            generates: false,
            keeps_machines: true,
            mix: Mix::default(),
            lag: 400,
            acts: Vec::new(),
            calm: 4 * HOUR,
        };
        (chosen.1)(&mut random, &mut schedule);
        if chosen.0 == MELEE {
            schedule.mingle(&mut later, rest);
        }
        schedule.acts.sort_by_key(|(at, _)| *at);
        Some(schedule)
    }

    /// Mixes one of these scenarios into what was planned.
    fn mingle(&mut self, random: &mut Random, scenarios: &[(&str, Plan)]) {
        let (mix, lag, strategy) = (self.mix, self.lag, self.strategy);
        if let Some((_, plan)) = random.pick(scenarios) {
            plan(random, self);
        }
        self.mix = self.mix.or(mix);
        self.lag = self.lag.max(lag);
        self.strategy = strategy;
    }

    /// Who believes to lead. That two do lasts for minutes at most: a lease that is not renewed is given up within two,
    /// and a clock that goes wrong stretches that, but not for ever.
    fn lead(&mut self, random: &mut Random, minute: u64, first: bool, second: bool) {
        self.at(minute, Act::Lead(first, second));
        if first && second {
            let later = minute + random.between(1, 5);
            let stays = random.permille(500);
            self.at(later, Act::Lead(stays, !stays));
        }
    }

    fn at(&mut self, minute: u64, act: Act) {
        self.acts.push((i64::try_from(minute).unwrap_or(0) * MINUTE, act));
    }
}

/// A rollout in which nothing goes wrong.
fn rollout(_: &mut Random, schedule: &mut Schedule) {
    schedule.at(1, Act::EditTemplate);
}

/// Every sort of request fails now and then.
fn requests(random: &mut Random, schedule: &mut Schedule) {
    rollout(random, schedule);
    let mut share = || if random.permille(500) { random.between(5, 80) } else { 0 };
    schedule.mix = Mix {
        refuse: share(),
        drop: share(),
        lose: share(),
        late: share(),
        read: share(),
        ..Mix::default()
    };
}

/// Caches lag, stand still, and go back in time.
fn stale(random: &mut Random, schedule: &mut Schedule) {
    rollout(random, schedule);
    schedule.lag = 4000;
    for _ in 0..random.between(2, 10) {
        let sort = random.pick(&Sort::ALL).copied().unwrap_or(Sort::Machine);
        let process = position(random, 2);
        let act = if random.permille(500) {
            Act::Freeze(process, sort, time(random, 5 * SECOND, 20 * MINUTE))
        } else {
            Act::Relist(process, sort, time(random, SECOND, BEHIND))
        };
        let minute = random.between(1, 60);
        schedule.at(minute, act);
    }
    if random.permille(300) {
        let minute = random.between(5, 50);
        schedule.at(minute, Act::EditTemplate);
    }
}

/// Replicas are killed between any two writes, and stand still.
fn crashes(random: &mut Random, schedule: &mut Schedule) {
    rollout(random, schedule);
    schedule.mix.crash_before = random.between(10, 150);
    schedule.mix.crash_after = random.between(10, 150);
    schedule.mix.lose = random.between(0, 30);
    for _ in 0..random.below(5) {
        let act = if random.permille(600) {
            Act::Kill(position(random, 2))
        } else {
            Act::Hang(position(random, 2), time(random, 60 * SECOND, 78 * SECOND))
        };
        let minute = random.between(1, 60);
        schedule.at(minute, act);
    }
}

/// Two lead at once, or nobody does.
fn leaders(random: &mut Random, schedule: &mut Schedule) {
    rollout(random, schedule);
    schedule.lag = random.between(200, 5000);
    schedule.mix.lose = random.between(0, 40);
    schedule.mix.late = random.between(0, 40);
    for _ in 0..random.between(2, 12) {
        let (first, second) = (random.permille(750), random.permille(750));
        let minute = random.between(0, 60);
        schedule.lead(random, minute, first, second);
    }
    if random.permille(500) {
        let act = Act::Freeze(1, Sort::Machine, time(random, MINUTE, 15 * MINUTE));
        let minute = random.between(1, 30);
        schedule.at(minute, act);
    }
}

/// Users and health checks delete machines, one or several at once.
fn deletions(random: &mut Random, schedule: &mut Schedule) {
    if random.permille(700) {
        rollout(random, schedule);
    }
    for _ in 0..random.between(1, 4) {
        let act = Act::Delete(position(random, 5), position(random, 3) + 1);
        let minute = random.between(1, 60);
        schedule.at(minute, act);
    }
    if random.permille(200) {
        let (node, act) = (position(random, 5), time(random, 10 * MINUTE, 30 * MINUTE));
        schedule.at(20, Act::NodeDown(node, act));
        schedule.at(28, Act::Remediate);
    }
    if random.permille(150) {
        let act = Act::RemoveHook(position(random, 5));
        let minute = random.between(1, 50);
        schedule.at(minute, act);
    }
}

/// The set is deleted at a bad moment, and perhaps made again.
fn set_deleted(random: &mut Random, schedule: &mut Schedule) {
    rollout(random, schedule);
    let how = [Propagation::Background, Propagation::Orphan, Propagation::Foreground];
    let how = random.pick(&how).copied().unwrap_or(Propagation::Background);
    let minute = random.between(0, 50);
    schedule.at(minute, Act::DeleteSet(how));
    if random.permille(400) {
        let act = Act::Deselect(position(random, 3));
        schedule.at(minute.saturating_sub(1), act);
    }
    if random.permille(500) {
        let minute = minute + random.between(1, 20);
        schedule.at(minute, Act::CreateSet);
    }
    if random.permille(400) {
        let late = time(random, SECOND, 10 * MINUTE);
        schedule.at(0, Act::GarbageLate(late));
    }
    schedule.mix.lose = random.between(0, 60);
    schedule.mix.crash_after = random.between(0, 60);
    schedule.mix.refuse = random.between(0, 60);
    if random.permille(300) {
        let act = Act::Freeze(0, Sort::Machine, time(random, MINUTE, 10 * MINUTE));
        schedule.at(minute.saturating_sub(1), act);
    }
    if random.permille(300) {
        schedule.lead(random, minute, true, true);
    }
}

/// Strategy OnDelete: nothing moves but by the user's deletions.
fn on_delete(random: &mut Random, schedule: &mut Schedule) {
    schedule.strategy = "OnDelete";
    rollout(random, schedule);
    for _ in 0..random.between(0, 4) {
        let act = Act::Delete(position(random, 5), position(random, 3) + 1);
        let minute = random.between(2, 90);
        schedule.at(minute, act);
    }
    if random.permille(200) {
        let minute = random.between(10, 60);
        schedule.at(minute, Act::Strategy("RollingUpdate"));
    }
    schedule.mix.lose = random.between(0, 30);
}

/// Users change their minds in the middle of it.
fn edits(random: &mut Random, schedule: &mut Schedule) {
    for _ in 0..random.between(1, 5) {
        let act = match random.below(7) {
            0 => Act::Domains(position(random, 2) + 3),
            1 => Act::Strategy("OnDelete"),
            2 => Act::Strategy("RollingUpdate"),
            3 => Act::Forbidden,
            4 if random.permille(500) => Act::Touch(position(random, 5)),
            4 => Act::Disown(position(random, 5)),
            _ => Act::EditTemplate,
        };
        let minute = random.between(1, 60);
        schedule.at(minute, act);
    }
}

/// A set that only describes, until somebody activates it.
fn inactive(random: &mut Random, schedule: &mut Schedule) {
    schedule.state = "Inactive";
    if random.permille(700) {
        let minute = random.between(1, 20);
        schedule.at(minute, Act::EditTemplate);
    }
    if random.permille(300) {
        let act = Act::NodeDown(position(random, 3), time(random, MINUTE, 10 * MINUTE));
        schedule.at(5, act);
    }
    let minute = random.between(10, 40);
    schedule.at(minute, Act::Activate);
}

/// Nodes go away, come back, and vanish.
fn nodes(random: &mut Random, schedule: &mut Schedule) {
    rollout(random, schedule);
    for _ in 0..random.between(1, 4) {
        let act = if random.permille(750) {
            Act::NodeDown(position(random, 5), time(random, 5 * SECOND, 40 * MINUTE))
        } else {
            Act::InstanceGone(position(random, 5))
        };
        let minute = random.between(0, 60);
        schedule.at(minute, act);
    }
    if random.permille(300) {
        let minute = random.between(10, 60);
        schedule.at(minute, Act::Remediate);
    }
}

/// Machines are slow, fail, and never join.
fn machines(random: &mut Random, schedule: &mut Schedule) {
    let all = [
        Trouble::Fails,
        Trouble::NeverJoins,
        Trouble::NeverReady,
        Trouble::Slow,
        Trouble::OtherName,
        Trouble::NeverEnds,
    ];
    for _ in 0..random.between(1, 3) {
        let trouble = random.pick(&all).copied().unwrap_or(Trouble::Slow);
        let minute = random.between(0, 30);
        schedule.at(minute, Act::Machine(trouble));
    }
    rollout(random, schedule);
    if random.permille(400) {
        let minute = random.between(10, 60);
        schedule.at(minute, Act::EditTemplate);
    }
    if random.permille(300) {
        let act = Act::Delete(position(random, 5), 1);
        let minute = random.between(10, 60);
        schedule.at(minute, act);
    }
}

/// Etcd members are not healthy.
fn etcd(random: &mut Random, schedule: &mut Schedule) {
    rollout(random, schedule);
    for _ in 0..random.between(1, 4) {
        let act = Act::EtcdSick(time(random, 10 * SECOND, 30 * MINUTE));
        let minute = random.between(0, 60);
        schedule.at(minute, act);
    }
    if random.permille(300) {
        let act = Act::Freeze(0, Sort::Operator, time(random, MINUTE, 20 * MINUTE));
        let minute = random.between(0, 30);
        schedule.at(minute, act);
    }
}

/// Clocks jump.
fn clocks(random: &mut Random, schedule: &mut Schedule) {
    rollout(random, schedule);
    for _ in 0..random.between(1, 4) {
        let ahead = time(random, SECOND, 2 * HOUR);
        let jump = if random.permille(500) { ahead } else { -ahead };
        let act = Act::Jump(position(random, 2), jump);
        let minute = random.between(0, 60);
        schedule.at(minute, act);
    }
    if random.permille(500) {
        schedule.lead(random, 20, true, true);
    }
}

/// Rollouts are paused and limited.
fn pauses(random: &mut Random, schedule: &mut Schedule) {
    rollout(random, schedule);
    for _ in 0..random.between(1, 4) {
        let on = random.permille(600);
        let act = if random.permille(700) {
            Act::Pause(on)
        } else {
            Act::Limit(on)
        };
        let minute = random.between(0, 50);
        schedule.at(minute, act);
    }
    if random.permille(300) {
        let act = Act::Delete(position(random, 3), 1);
        let minute = random.between(2, 50);
        schedule.at(minute, act);
    }
}

/// Control plane nodes that no machine claims, and machines that lose their labels.
fn strangers(random: &mut Random, schedule: &mut Schedule) {
    rollout(random, schedule);
    for _ in 0..random.between(1, 3) {
        let act = if random.permille(700) {
            Act::Stranger(time(random, 10 * SECOND, 30 * MINUTE))
        } else {
            Act::Deselect(position(random, 5))
        };
        let minute = random.between(0, 50);
        schedule.at(minute, act);
    }
}

/// Everything, in a mixture of its own for each seed.
fn swarm(random: &mut Random, schedule: &mut Schedule) {
    let plans: Vec<Plan> = SCENARIOS
        .iter()
        .take(FIRST)
        .filter(|(name, _)| *name != "swarm" && *name != "inactive")
        .map(|(_, plan)| *plan)
        .collect();
    let mut mix = Mix::default();
    let (mut lag, mut strategy) = (schedule.lag, schedule.strategy);
    for _ in 0..random.between(2, 5) {
        if let Some(plan) = random.pick(&plans) {
            schedule.mix = Mix::default();
            plan(random, schedule);
            mix = mix.or(schedule.mix);
            lag = lag.max(schedule.lag);
            if random.permille(500) {
                strategy = schedule.strategy;
            }
        }
    }
    let strategy_acts = schedule
        .acts
        .iter()
        .filter(|(_, act)| *act == Act::EditTemplate)
        .count();
    // One first edit is enough.
    let mut first = strategy_acts.saturating_sub(2);
    schedule.acts.retain(|(_, act)| {
        let spare = *act == Act::EditTemplate && first > 0;
        first = first.saturating_sub(usize::from(spare));
        !spare
    });
    (schedule.mix, schedule.lag, schedule.strategy) = (mix, lag, strategy);
}

impl Mix {
    fn or(self, other: Self) -> Self {
        Self {
            refuse: self.refuse.max(other.refuse),
            drop: self.drop.max(other.drop),
            lose: self.lose.max(other.lose),
            late: self.late.max(other.late),
            crash_before: self.crash_before.max(other.crash_before),
            crash_after: self.crash_after.max(other.crash_after),
            read: self.read.max(other.read),
            stall: self.stall.max(other.stall),
            slow: self.slow.max(other.slow),
        }
    }
}

fn position(random: &mut Random, bound: u64) -> usize {
    usize::try_from(random.below(bound)).unwrap_or(0)
}

fn time(random: &mut Random, least: i64, most: i64) -> i64 {
    let (least, most) = (least.unsigned_abs(), most.unsigned_abs());
    i64::try_from(random.between(least, most)).unwrap_or(0)
}

/// Merge patches are all that this world writes besides whole objects.
pub(super) const MERGE: PatchKind = PatchKind::Merge;
