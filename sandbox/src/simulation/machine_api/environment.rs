//! How the engine uses the environment: kinds, controllers, actors, seeded bugs, and invariants.

use std::sync::Arc;

use anyhow::Result;
use capstan::runtime::View;
use capstan_core::api::config_openshift_io::cluster_operator;
use capstan_core::api::kinds::MACHINE_SETS;
use capstan_core::api::machine_openshift_io::control_plane_machine_set::ControlPlaneMachineSet;
use capstan_core::api::machine_openshift_io::machine_set::MachineSet;
use capstan_core::api::objects::KindObjects;
use capstan_core::cpms::pending_creates;
use k8s_openapi::api::core::v1::Event as KubernetesEvent;
use tokio::sync::watch;

use crate::api::Admit;
use crate::api::{ChangeKind, Kind, Options};
use crate::simulation::actors::webhook;
use crate::simulation::coverage;
use crate::simulation::engine::kinds::{CachedKind, ObjectKey, Typed};
use crate::simulation::engine::options::Marks;
use crate::simulation::engine::port::{Answer, Call};
use crate::simulation::engine::replica::Controller;
use crate::simulation::engine::schedule::{MINUTE, StoredState};
use crate::simulation::engine::world::{Actor, Environment, Observation, World};
use crate::simulation::invariants::check::first_violation;
use crate::simulation::invariants::control_plane_machine_set::at_end::RunEnd;
use crate::simulation::invariants::control_plane_machine_set::conditions;
use crate::simulation::invariants::control_plane_machine_set::machines::{MachineWrite, is_deletion};
use crate::simulation::invariants::control_plane_machine_set::set::SetWrite;
use crate::simulation::invariants::generator::GeneratorWrite;
use crate::simulation::invariants::moment::{Moment, all_current, index_of};
use crate::simulation::mutants::catalogue::Mutant;
use crate::simulation::points;

use super::act::Act;
use super::controllers::{self, GENERATOR, SETS};
use super::guidance;
use super::kinds::{KINDS, MACHINE, NODE, OPERATOR, SET};
use super::neighbours::is_worker;
use super::objects;
use super::state::{ClusterSchedule, ControlPlane, Event, Setup};

/// The etcd operator reports a member that is not healthy within this time, in milliseconds.
const REPORTED_WITHIN: i64 = MINUTE;
/// An error is reported within this time, in milliseconds.
const ERROR_WITHIN: i64 = 10 * MINUTE;

impl Environment for ControlPlane {
    type Setup = Setup;
    type Act = Act;
    type Event = Event;
    type Moment = Moment;

    const ABBREVIATIONS: &'static [(&'static str, &'static str)] = &[(objects::PREFIX, "master")];

    fn new(setup: &Setup) -> Result<Self> {
        Ok(Self::new(setup))
    }

    fn served(&self) -> Result<Arc<Vec<Kind>>> {
        objects::kinds(objects::StatusFields::ALL)
    }

    fn kinds(&self) -> Vec<CachedKind> {
        KINDS.to_vec()
    }

    fn api_options(&self) -> Options {
        Options {
            // Only the generator depends on field managers.
            managed_fields: self.setup.generates,
            history: 4000,
        }
    }

    fn admission(&self) -> Result<Option<Arc<dyn Admit>>> {
        let exempts = self.setup.mutant != Some(Mutant::WebhookFinal);
        webhook::admission(&self.webhook, exempts, self.setup.neighbours).map(Some)
    }

    fn installation(&self) -> Option<String> {
        let Setup {
            replicas,
            strategy,
            state,
            generates,
            neighbours,
            ..
        } = &self.setup;
        Some(format!("{replicas} {strategy} {state:?} {generates} {neighbours:?}"))
    }

    fn install(world: &mut World<Self>) {
        world.install();
    }

    fn installed(world: &mut World<Self>) {
        let setup = &world.environment.setup;
        let (keeps_machines, prunes_selector) = (setup.keeps_machines, setup.neighbours.prunes_selector);
        if !keeps_machines || prunes_selector {
            world.exchange_definition(keeps_machines);
        }
    }

    fn controllers(&self) -> &[&'static str] {
        if self.setup.generates {
            &["capstan", "generator"]
        } else {
            &["capstan"]
        }
    }

    fn start(&self, replica: usize, leading: &watch::Receiver<bool>) -> Vec<Box<dyn Controller>> {
        controllers::start(replica, leading, self.setup.generates)
    }

    /// No environment has MachineSets.
    fn complete(&self, view: &mut View) {
        view.objects.insert(&MACHINE_SETS, KindObjects::<MachineSet>::default());
    }

    fn restarts_on_change(&self, controller: usize) -> bool {
        controller == SETS
    }

    fn is_decisive(&self, controller: usize, call: &Call) -> bool {
        match call {
            Call::List { all, .. } => controller == SETS && all.kind == MACHINE,
            Call::Get(key) => controller == GENERATOR && key.kind == SET,
            _ => false,
        }
    }

    fn altered_view(&self, controller: usize, view: &View) -> Option<View> {
        let mutant = self.setup.mutant?;
        Some(if controller == GENERATOR {
            mutant.view_of_generator(view)
        } else {
            mutant.view(view)
        })
    }

    fn leads(&self, elected: bool) -> bool {
        elected || self.has_bug(Mutant::always_leads)
    }

    fn alter_call(world: &mut World<Self>, call: &mut Call) -> bool {
        let (number, environment) = (world.outcome.writes, &world.environment);
        let Some(mutant) = environment.setup.mutant else {
            return true;
        };
        let given_up = environment.gave_up && mutant.gives_up(call);
        !given_up && mutant.write(call, environment, number)
    }

    fn alter_answer(world: &mut World<Self>, replica: usize, call: &Call, answer: &mut kube::Result<Answer>) {
        // The machine changed while its deletion was on the way.
        let is_stale = matches!((call, &*answer), (Call::Delete { key, .. }, Err(kube::Error::Api(status)))
            if key.kind == MACHINE && status.code == 409);
        world.environment.evidence.tests("P14", is_stale);
        let Some(mutant) = world.environment.setup.mutant else {
            return;
        };
        let cached = world.view_of(replica);
        world.environment.gave_up |= matches!(&*answer, Err(kube::Error::Api(status)) if mutant.is_final(call, status));
        mutant.answer(answer, call, cached.as_deref());
    }

    fn forgets(&self, controller: usize) -> bool {
        controller == SETS && self.has_bug(Mutant::forgets)
    }

    fn moment(world: &World<Self>) -> Moment {
        world.environment.moment()
    }

    fn judge_call(world: &mut World<Self>, replica: usize, call: &Call) {
        let Call::Create(key, machine) = call else { return };
        if key.kind != MACHINE {
            return;
        }
        let (now, environment) = (world.now(), &mut world.environment);
        if let Some((name, other)) = environment.evidence.send_creation(machine, now, &environment.machines) {
            let text = format!(
                "capstan-{replica} creates {name}, and the creation of {other} for the same purpose may still take effect"
            );
            world.violate("G2", text);
        }
        world.judge_refusal();
    }

    fn judge(world: &mut World<Self>, observation: Observation<'_>, moments: &[Moment]) {
        let violation = match observation.key.kind {
            kind if kind == MACHINE && is_worker(&observation.key.name) => judge_worker(observation),
            kind if kind == MACHINE => judge_machine(world, observation, moments),
            kind if kind == SET => judge_set(world, observation, moments),
            _ => None,
        };
        if let Some((invariant, text)) = violation {
            world.violate(invariant, text);
        }
    }

    fn store(world: &mut World<Self>, observation: Observation<'_>) {
        world.environment.put(observation);
        world.note(observation);
        world.count_rollouts();
    }

    fn react(world: &mut World<Self>, key: &ObjectKey) {
        if key.kind == MACHINE {
            world.plan_machine(&key.name);
        } else if key.kind == NODE {
            let mut machines = world.environment.machines.iter();
            let machine = machines.find(|(_, machine)| machine.node_name() == Some(&key.name));
            if let Some(name) = machine.map(|(name, _)| name.clone()) {
                world.plan_machine(&name);
            }
        } else {
            return;
        }
        world.plan_etcd();
    }

    /// G5: every machine that the controller created or deleted is named in an event.
    fn judge_reconcile(world: &mut World<Self>, controller: usize, written: &[ObjectKey], events: &[KubernetesEvent]) {
        let mutant = world.environment.setup.mutant;
        for event in events.iter().filter(|_| controller == SETS) {
            let (reason, message) = (event.reason.as_deref(), event.message.as_deref());
            let branches = coverage::of_event(reason.unwrap_or_default(), message.unwrap_or_default());
            world.reaches(branches);
        }
        if world.notes_keys() {
            let strategy = world.strategy();
            for side in points::take() {
                world.reach(&format!("side {side} with {strategy}"));
            }
        }
        if controller != SETS || mutant.is_some_and(Mutant::misnames) {
            return;
        }
        let silent = mutant.is_some_and(Mutant::is_silent);
        let is_named = |key: &&ObjectKey| {
            let names = |event: &KubernetesEvent| event.message.as_ref().is_some_and(|text| text.contains(&key.name));
            !silent && events.iter().any(names)
        };
        let mut machines = written.iter().filter(|key| key.kind == MACHINE);
        if let Some(key) = machines.find(|key| !is_named(key)) {
            let text = format!("machine {} was created or deleted, and no event names it", key.name);
            world.violate("G5", text);
        }
    }

    fn act(world: &mut World<Self>, act: &Act) {
        match act {
            Act::User(action) => world.act_as_user(action),
            Act::Fault(fault) => world.inject(fault),
        }
    }

    fn handle(world: &mut World<Self>, event: Event) {
        match event {
            Event::Machine(name, uid) => world.step_machine(&name, &uid),
            Event::Etcd => world.step_etcd(),
            Event::NodeBack(name) => world.node_back(&name),
            Event::StrangerGone(name) => world.stranger_gone(&name),
            Event::EtcdWell(ailment) => world.etcd_well(ailment),
            Event::EtcdRestored => {
                let _restored = world.restore_etcd();
            }
            Event::WebhookBack => world.webhook_back(),
            Event::MachinesAdmitted => world.admit_machines(),
            Event::FieldStored => world.store_field(),
        }
    }

    fn repair(world: &mut World<Self>) -> bool {
        world.repair_cluster()
    }

    fn states() -> Vec<StoredState> {
        guidance::states()
    }

    fn restrict(schedule: &mut ClusterSchedule) {
        guidance::restrict(schedule);
    }

    fn marks(&self) -> Marks {
        self.evidence.marks()
    }

    fn judge_end(world: &mut World<Self>) {
        let environment = &world.environment;
        let end = RunEnd {
            now: &environment.moment(),
            evidence: &environment.evidence,
            instances: &environment.provider.instances,
            // The world has no Infrastructure, which would name the cluster. Without it, no set is
            // generated beside a machine of another cluster (melee, seed 1193).
            generates: environment.setup.generates && !environment.setup.neighbours.workers,
            keeps_machines: environment.keeps_machines,
        };
        if let Some((invariant, text)) = first_violation(&RunEnd::CHECKS, &end) {
            world.violate(invariant, text);
        }
    }

    fn writes_after_restart(&self) -> u64 {
        // A process learns only from a write that the CRD of the set does not contain a field of
        // the status.
        u64::from(!self.keeps_machines || self.setup.neighbours.prunes_selector)
    }
}

impl ControlPlane {
    /// Stores a change.
    fn put(&mut self, observation: Observation<'_>) {
        let Observation { key, typed, .. } = observation;
        let (name, gone) = (key.name.clone(), observation.is_gone());
        match key.kind {
            kind if kind == MACHINE && is_worker(&name) => {
                self.evidence.tests("P2", true);
            }
            kind if kind == MACHINE => put(Arc::make_mut(&mut self.machines), name, typed, gone),
            kind if kind == NODE => put(Arc::make_mut(&mut self.nodes), name, typed, gone),
            kind if kind == SET => self.set = typed.shared().filter(|_| !gone),
            kind if kind == OPERATOR && name == cluster_operator::NAME => {
                self.operator = typed.shared().filter(|_| !gone);
            }
            _ => {}
        }
    }
}

fn put<T: Send + Sync + 'static>(
    objects: &mut std::collections::BTreeMap<String, Arc<T>>,
    name: String,
    typed: &Typed,
    gone: bool,
) {
    match typed.shared() {
        Some(object) if !gone => drop(objects.insert(name, object)),
        _ => drop(objects.remove(&name)),
    }
}

impl World<ControlPlane> {
    /// P12: while the creation of machines is refused, the set reports the error.
    fn judge_refusal(&mut self) {
        let environment = &mut self.environment;
        if environment.webhook.refusals == 0 || !environment.evidence.is_undisturbed() {
            return;
        }
        let reports = environment.moment().condition("Error") == Some("True");
        environment.evidence.tests("P12", true);
        let now = self.now();
        let time = self.environment.evidence.note_refusal(now, reports);
        if time > ERROR_WITHIN {
            let text = format!(
                "the creation of a machine has been refused for {}s, and the condition Error is not True",
                time / 1000
            );
            self.violate("P12", text);
        }
    }

    /// P13: nodes that may be those of machines that are starting are not reported.
    fn judge_joining(&mut self, moment: &Moment) {
        let (now, timestamp) = (self.now(), self.timestamp());
        let evidence = &mut self.environment.evidence;
        let judged = evidence.is_undisturbed() && moment.is_active() && moment.has_only_joining_nodes(timestamp);
        evidence.tests("P13", judged && moment.has_unmanaged_node());
        // The cache of the nodes may lag behind that of the machines for a moment (neighbours, seed
        // 565).
        let is_wrong = judged && moment.degraded_reason() == Some("UnmanagedNodes");
        evidence.misreported_since = evidence.misreported_since.or(Some(now)).filter(|_| is_wrong);
        let time = evidence.misreported_since.map_or(0, |since| now - since);
        if time > REPORTED_WITHIN && !self.has_single_fault() {
            let text = format!(
                "the set has reported UnmanagedNodes for {}s, and each node without a machine may be joining",
                time / 1000
            );
            self.violate("P13", text);
        }
    }

    /// Notes what later checks need to know of a change.
    fn note(&mut self, observation: Observation<'_>) {
        let moment = self.environment.moment();
        let is_complete = moment.is_complete();
        conditions::note(&moment, &self.environment.evidence);
        self.judge_joining(&moment);
        let (now, evidence) = (self.now(), &mut self.environment.evidence);
        evidence.incomplete_since = evidence.incomplete_since.or(Some(now)).filter(|_| !is_complete);
        if evidence.rezoned && moment.has_even_zones() {
            evidence.end_rezoning();
        }
        if observation.key.kind == SET
            && let Some(status) = self.environment.set.as_ref().and_then(|set| set.status.as_ref())
        {
            let branches: Vec<_> = coverage::of_conditions(&status.conditions).collect();
            self.reaches(branches.into_iter());
        }
        if !observation.is_gone() {
            return;
        }
        if observation.key.kind == MACHINE {
            let name = &observation.key.name;
            if let Some(machine) = observation.typed.get() {
                self.environment.evidence.end_machine(machine);
            }
            let recorded = self
                .environment
                .set
                .as_ref()
                .map(|set| pending_creates::recorded(&set.metadata));
            let mut recorded = recorded.into_iter().flatten().flatten();
            // Until the controller removes the record of a creation, it cannot know whether the
            // machine existed, and requests it again under its name (neighbours, seed 4287).
            if !recorded.any(|creation| creation.machine == *name) {
                self.environment.evidence.note_former_name(name);
            }
        } else if observation.key.kind == SET {
            let set = observation.typed.get::<ControlPlaneMachineSet>();
            self.environment.evidence.former_set = set.map(|set| set.metadata.uid().to_owned());
        }
    }

    /// Notes the branches that the controllers reached.
    fn reaches(&mut self, branches: impl Iterator<Item = &'static str>) {
        let branches: Vec<&'static str> = branches.collect();
        if self.notes_keys() {
            let strategy = self.strategy();
            for branch in &branches {
                self.reach(&format!("{branch} with {strategy}"));
            }
        }
        self.environment.evidence.reaches(branches.into_iter());
    }

    /// The strategy of the set; empty without a set.
    fn strategy(&self) -> String {
        let set = self.environment.set.as_ref();
        let strategy = set.and_then(|set| set.spec.strategy.as_ref()?.type_.clone());
        strategy.unwrap_or_default()
    }

    /// Counts rollouts: from an outdated machine to none.
    fn count_rollouts(&mut self) {
        let environment = &mut self.environment;
        let Some(set) = &environment.set else { return };
        let is_rolling = !all_current(set, &environment.machines);
        self.outcome.rollouts += u64::from(environment.is_rolling && !is_rolling);
        environment.is_rolling = is_rolling;
    }
}

type Found = Option<(&'static str, String)>;

/// P2: no controller writes to a machine that is not a control plane machine.
fn judge_worker(observation: Observation<'_>) -> Found {
    let wrong = matches!(observation.actor, Actor::Controller { .. } | Actor::GarbageCollector);
    let text = || {
        format!(
            "machine {} is written, and it is not a control plane machine",
            observation.key.name
        )
    };
    wrong.then(|| ("P2", text()))
}

fn judge_machine(world: &mut World<ControlPlane>, observation: Observation<'_>, moments: &[Moment]) -> Found {
    let Observation { change, typed, .. } = observation;
    let machine = typed.get()?;
    let now = moments.last()?;
    let (at, timestamp) = (world.now(), world.timestamp());
    let sick_since = world.environment.etcd.sick_since;
    let has_stale_cache = world.is_behind(observation.actor, MACHINE);
    let evidence = &mut world.environment.evidence;
    match observation.actor {
        Actor::Controller { controller: SETS, .. } => {
            if change.kind == ChangeKind::Added {
                evidence.note_birth(machine, now);
                evidence.receive_creation(machine.metadata.name(), index_of(machine), at);
            }
            let write = MachineWrite {
                change,
                machine,
                moments,
                now,
                evidence,
                at: timestamp,
                has_sick_member: sick_since.is_some_and(|since| at - since > REPORTED_WITHIN),
                has_stale_cache,
            };
            let violation = first_violation(&MachineWrite::CHECKS, &write);
            if violation.is_none()
                && let Some(reason) = write.reason_to_delete()
            {
                let name = machine.metadata.name();
                world.trace(|| format!("   reason to delete {name}: {reason}"));
            }
            violation
        }
        Actor::GarbageCollector if is_deletion(change) => {
            let is_late = evidence.born_late.contains(machine.metadata.uid());
            if evidence.exempts("born-late", is_late) {
                return None;
            }
            let name = machine.metadata.name();
            Some(("C6", format!("the garbage collector deletes machine {name}")))
        }
        _ => None,
    }
}

fn judge_set(world: &mut World<ControlPlane>, observation: Observation<'_>, moments: &[Moment]) -> Found {
    let Observation { change, typed, .. } = observation;
    let judges_status = world.environment.setup.neighbours.judges_status && !world.has_single_fault();
    let now = world.now();
    let evidence = &mut world.environment.evidence;
    let incomplete_for = evidence.incomplete_since.map(|since| now - since);
    evidence.tests(
        "P6",
        judges_status && incomplete_for.is_some_and(|time| time > REPORTED_WITHIN),
    );
    if matches!(
        observation.actor,
        Actor::Controller {
            controller: GENERATOR,
            ..
        }
    ) {
        evidence.tests("C11", true);
        let write = GeneratorWrite {
            change,
            moments,
            evidence,
        };
        let violation = first_violation(&GeneratorWrite::CHECKS, &write);
        if violation.is_some() {
            return violation;
        }
        evidence.note_generated(change);
    } else {
        evidence.note_edit(change);
    }
    let write = SetWrite {
        by_controller: matches!(observation.actor, Actor::Controller { controller: SETS, .. }),
        change,
        set: typed.get()?,
        now: moments.last()?,
        incomplete_for: incomplete_for.filter(|_| judges_status),
    };
    first_violation(&SetWrite::CHECKS, &write)
}
