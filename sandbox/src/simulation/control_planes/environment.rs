//! How the engine uses the environment: kinds, the controller, actors, seeded bugs, and invariants.

use std::sync::{Arc, LazyLock};

use anyhow::{Context as _, Result};
use capstan::controllers::control_plane::{ControlPlanes, EtcdPort};
use capstan::runtime::{Metrics, Shared, View};
use capstan_core::admission::{Admission, Options as AdmissionOptions};
use capstan_core::api::config_openshift_io::cluster_operator;
use capstan_core::api::config_openshift_io::feature_gate::FeatureGate;
use capstan_core::api::core_v1::config_map::ETCD_NAMESPACE;
use capstan_core::api::kinds::FEATURE_GATES;
use capstan_core::api::objects::KindObjects;
use k8s_openapi::api::core::v1::Event as KubernetesEvent;
use prometheus_client::registry::Registry;
use tokio::sync::watch;

use crate::api::admission::Capstan;
use crate::api::registration::{Judged, Registration};
use crate::api::{Admit, Kind, Options, Part};
use crate::simulation::engine::kinds::{CachedKind, ObjectKey, Typed};
use crate::simulation::engine::options::Marks;
use crate::simulation::engine::port::{Answer, Call};
use crate::simulation::engine::replica::Controller;
use crate::simulation::engine::world::{Actor, Environment, Observation, World};
use crate::simulation::invariants::shared;

use super::act::Act;
use super::etcd::BOOTSTRAP;
use super::invariants::at_end;
use super::invariants::moment::Moment;
use super::kinds::{CONTROL_PLANE, HEALTH_CHECK, KINDS, MACHINE, NODE};
use super::state::{Event, Machines, Nodes, Plane, Setup};
use super::{kinds, objects};

/// All simulations count into the same metrics, which no test reads.
static METRICS: LazyLock<Metrics> = LazyLock::new(|| Metrics::register(&mut Registry::default()));
static ADMISSION: LazyLock<Option<Arc<Admission>>> =
    LazyLock::new(|| Some(Arc::new(Admission::new(AdmissionOptions::default()).ok()?)));

impl Environment for Plane {
    type Setup = Setup;
    type Act = Act;
    type Event = Event;
    type Moment = Moment;

    const ABBREVIATIONS: &'static [(&'static str, &'static str)] = &[(objects::PREFIX, "master")];

    fn new(setup: &Setup) -> Result<Self> {
        Ok(Self::empty(setup))
    }

    fn served(&self) -> Result<Arc<Vec<Kind>>> {
        objects::kinds()
    }

    fn kinds(&self) -> Vec<CachedKind> {
        KINDS.to_vec()
    }

    fn api_options(&self) -> Options {
        Options {
            managed_fields: false,
            history: 4000,
        }
    }

    fn admission(&self) -> Result<Option<Arc<dyn Admit>>> {
        let admission = ADMISSION
            .clone()
            .context("compiling the admission rules that are built in")?;
        Ok(Some(Arc::new(Registration::new(
            Judged::ControlPlanes,
            Capstan::new(admission),
            Arc::clone(&self.webhook_is_down),
            |name| name.starts_with("capstan-"),
        ))))
    }

    fn installation(&self) -> Option<String> {
        let Setup {
            installed,
            replicas,
            repairs,
            own_members,
            ..
        } = &self.setup;
        Some(format!("control planes {installed} {replicas} {repairs} {own_members}"))
    }

    fn install(world: &mut World<Self>) {
        world.create_namespace(kinds::NAMESPACE);
        let etcd = cluster_operator::ETCD;
        let _made = world.create(Actor::Installer, &kinds::operator(etcd), objects::operator(etcd));
        world.create_namespace(ETCD_NAMESPACE);
        let _made = world.create(Actor::Installer, &kinds::etcd_endpoints(), objects::etcd_endpoints());
        let infrastructure = kinds::infrastructure();
        let _made = world.create(Actor::Installer, &infrastructure, objects::infrastructure());
        let status = objects::infrastructure_status();
        let _written = world.patch(Actor::Installer, &infrastructure, Part::Status, status);
        let Setup {
            installed,
            replicas,
            repairs,
            ..
        } = world.environment.setup;
        for position in 0..installed {
            world.install_machine(position, &format!("{}-{position}", objects::PREFIX));
        }
        let etcd = &mut world.environment.etcd;
        etcd.has_bootstrap = installed == 0;
        etcd.members.voters = world.environment.machines.keys().cloned().collect();
        if installed == 0 {
            world.environment.etcd.members.voters.insert(BOOTSTRAP.to_owned());
        }
        world.write_report();
        world.create_object(Actor::Installer, replicas, repairs);
    }

    fn controllers(&self) -> &[&'static str] {
        &["capstan"]
    }

    fn start(&self, replica: usize, leading: &watch::Receiver<bool>) -> Vec<Box<dyn Controller>> {
        let identity = format!("capstan-{replica}");
        let etcd: Option<Box<dyn EtcdPort>> = match self.setup.own_members {
            true => Some(Box::new(self.own_members.clone())),
            false => None,
        };
        let controller = ControlPlanes::new(AdmissionOptions::default(), identity.clone()).with_etcd(etcd);
        vec![Box::new(Arc::new(Shared {
            controller,
            identity,
            leading: leading.clone(),
            metrics: METRICS.clone(),
        }))]
    }

    fn complete(&self, view: &mut View) {
        view.objects
            .insert(&FEATURE_GATES, KindObjects::<FeatureGate>::default());
    }

    fn restarts_on_change(&self, _controller: usize) -> bool {
        true
    }

    fn polls_until(&self) -> i64 {
        self.polls_until
    }

    fn is_decisive(&self, _controller: usize, call: &Call) -> bool {
        matches!(call, Call::List { all, .. } if all.kind == MACHINE)
    }

    fn altered_view(&self, _controller: usize, view: &View) -> Option<View> {
        Some(self.setup.bug?.view(view))
    }

    fn leads(&self, elected: bool) -> bool {
        elected || self.setup.bug.is_some_and(super::bugs::Bug::always_leads)
    }

    /// Without a quorum of etcd, there is no API server.
    fn answers(&self) -> bool {
        self.has_quorum()
    }

    /// No voter runs, and no machine could become one: etcd cannot be restored.
    fn is_lost(&self) -> bool {
        !self.has_quorum() && !self.etcd.has_bootstrap && self.provider.instances.is_empty()
    }

    fn alter_call(world: &mut World<Self>, call: &mut Call) -> bool {
        let number = world.outcome.writes;
        let Some(bug) = world.environment.setup.bug else {
            return true;
        };
        bug.write(call, &world.environment, number)
    }

    fn alter_answer(world: &mut World<Self>, replica: usize, call: &Call, answer: &mut kube::Result<Answer>) {
        if let (Call::Create(key, _), Err(kube::Error::Api(status))) = (call, &*answer)
            && status.code < 500
            && status.code != 429
        {
            world.environment.evidence.in_flight.remove(&key.name);
        }
        if let Some(bug) = world.environment.setup.bug {
            let cached = world.view_of(replica);
            bug.answer(answer, call, cached.as_deref());
        }
    }

    fn refused(world: &mut World<Self>, call: &Call) {
        if let Call::Create(key, _) = call {
            world.environment.evidence.in_flight.remove(&key.name);
        }
    }

    fn forgets(&self, _controller: usize) -> bool {
        self.setup.bug.is_some_and(super::bugs::Bug::forgets)
    }

    fn moment(world: &World<Self>) -> Moment {
        world.environment.moment(world.now())
    }

    fn judge_call(world: &mut World<Self>, replica: usize, call: &Call) {
        if let Call::Create(key, _) = call
            && key.kind == MACHINE
        {
            world.judge_creation_sent(replica, &key.name);
        }
    }

    fn judge(world: &mut World<Self>, observation: Observation<'_>, moments: &[Moment]) {
        world.judge_change(observation, moments);
    }

    fn store(world: &mut World<Self>, observation: Observation<'_>) {
        world.environment.put(observation);
        world.forget_moves();
        world.extend_polling();
    }

    fn react(world: &mut World<Self>, key: &ObjectKey) {
        if key.kind == MACHINE || key.kind == NODE {
            world.plan_machine(&key.name);
        }
        if key.kind == MACHINE || key.kind == NODE || key.kind == CONTROL_PLANE {
            world.plan_etcd();
        }
        world.plan_check();
    }

    fn judge_reconcile(world: &mut World<Self>, _controller: usize, written: &[ObjectKey], events: &[KubernetesEvent]) {
        world.take_removed();
        let is_silent = world.environment.setup.bug.is_some_and(super::bugs::Bug::is_silent);
        let is_named = |key: &&ObjectKey| {
            let names = |event: &KubernetesEvent| event.message.as_ref().is_some_and(|text| text.contains(&key.name));
            !is_silent && events.iter().any(names)
        };
        let mut machines = written.iter().filter(|key| key.kind == MACHINE);
        if let Some(key) = machines.find(|key| !is_named(key)) {
            let text = format!("machine {} was created or deleted, and no event names it", key.name);
            world.violate("G5", text);
        }
    }

    fn act(world: &mut World<Self>, act: &Act) {
        world.perform_act(act);
    }

    fn handle(world: &mut World<Self>, event: Event) {
        match event {
            Event::Machine(name, uid) => world.step_machine(&name, &uid),
            Event::Etcd => world.step_etcd(),
            Event::MemberStarts(name) => world.member_starts(&name),
            Event::MemberWell(name) => world.member_well(&name),
            Event::Promotes => {
                let count = &mut world.environment.etcd.unpromoted;
                *count = count.saturating_sub(1);
                world.plan_etcd();
            }
            Event::Reports => {
                let count = &mut world.environment.etcd.mute;
                *count = count.saturating_sub(1);
                world.plan_etcd();
            }
            Event::BootstrapEnds => {
                world.environment.etcd.has_bootstrap = false;
                world.environment.etcd.members.remove(BOOTSTRAP);
                world.plan_etcd();
            }
            Event::EtcdRestored => drop(world.restore_etcd()),
            Event::NodeBack(name) => world.node_back(&name),
            Event::HasCapacity(zone) => world.has_capacity(&zone),
            Event::Check => world.check_machines(),
            Event::WebhookBack => world.webhook_back(),
        }
    }

    fn repair(world: &mut World<Self>) -> bool {
        let any = world.repair_plane();
        if any && world.environment.setup.own_members {
            // No watch delivers a change of the members.
            world.extend_polling();
            world.wake_all_soon();
        }
        any
    }

    fn marks(&self) -> Marks {
        self.evidence.marks.borrow().clone()
    }

    fn judge_end(world: &mut World<Self>) {
        let objects = world.objects();
        let stored = objects.iter().map(|version| &*version.stored);
        let found = shared::stuck(stored).map(|text| ("G8", text));
        if let Some((invariant, text)) = found.or_else(|| at_end::violation(world)) {
            world.violate(invariant, text);
        }
    }
}

impl Plane {
    /// Stores a change.
    fn put(&mut self, observation: Observation<'_>) {
        let Observation { key, typed, .. } = observation;
        let (name, gone) = (key.name.clone(), observation.is_gone());
        match key.kind {
            kind if kind == MACHINE => put(Arc::make_mut(&mut self.machines), name, typed, gone),
            kind if kind == NODE => put(Arc::make_mut(&mut self.nodes), name, typed, gone),
            kind if kind == CONTROL_PLANE => self.object = typed.shared().filter(|_| !gone),
            kind if kind == HEALTH_CHECK && name == kinds::health_check().name => {
                self.health_check = typed.shared().filter(|_| !gone);
            }
            _ => {}
        }
    }

    /// What is true now.
    pub(super) fn moment(&self, now: i64) -> Moment {
        Moment::of(self, now)
    }

    /// The objects by name, for the moments.
    pub(super) fn objects(&self) -> (Arc<Machines>, Arc<Nodes>) {
        (Arc::clone(&self.machines), Arc::clone(&self.nodes))
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
