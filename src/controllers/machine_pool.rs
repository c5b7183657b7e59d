//! The controller of the Machines of MachinePools of Cluster API.
//!
//! It observes a pool with its Machines and its infrastructure machines, hands them to core, and
//! turns the plan of core into writes. A Machine is deleted only if the caches and a live read
//! agree, and an infrastructure machine is gone only if a read by its name does not find it. The
//! kinds of the infrastructure are known only at run time: the controller discovers and watches
//! them (decision 61). It never deletes an infrastructure machine: the Machine controller does,
//! after it drained the Node.

mod hidden;
mod kinds;
mod metrics;
mod nodes;
mod orphans;
mod running;
mod unchanged;
mod unlabelled;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use capstan_core::api::cluster_x_k8s_io::control_plane::{Cluster as ClusterObject, Machine};
use capstan_core::api::cluster_x_k8s_io::machine_pool::MachinePool;
use capstan_core::api::cluster_x_k8s_io::{label, label_value};
use capstan_core::api::infrastructure_cluster_x_k8s_io::Infrastructure;
use capstan_core::api::kind::KindInfo;
use capstan_core::api::kinds::{CLUSTER_API_CLUSTERS, CLUSTER_API_MACHINES, MACHINE_POOLS, NODES};
use capstan_core::api::meta::ObjectMeta;
use capstan_core::model::{NamespacedName, ObjectRef};
use capstan_core::pool::action::{Action, Plan, Step as CoreStep};
use capstan_core::pool::observed::Observed;
use capstan_core::pool::plan::{WaitReason, plan};
use capstan_core::pool::state::State as PoolState;
use capstan_core::pool::{Mode, Recreations, deferral, records, removal, status};
use jiff::SignedDuration;
use serde_json::json;

use crate::controllers::planned::lasting_error;
use crate::controllers::stored_parts::StoredParts;
use crate::runtime::{
    Cluster, EventSpec, Moment, Observation, Reconcile, Reconciled, Report, Source, Step, StepError, Verb, View, Watch,
    Write,
};
use crate::workload::{ManagedCluster, ManagedClusters};
use kinds::{Kinds, Needed};
use nodes::KnownNodes;
use unlabelled::{Names, Unlabelled};

pub use kinds::{WatchKinds, WatchedKind};
pub use metrics::MachinePoolMetrics;
pub use running::{LEASE, caches, settings, start, watch_with};

/// When a pool whose infrastructure is not known yet is reconciled again.
const UNKNOWN: SignedDuration = SignedDuration::from_secs(1);
/// When a pool is reconciled again whose Nodes are read from its cluster, or one of whose objects
/// lacks a label. They are not watched.
const NODES_AGE: SignedDuration = SignedDuration::from_secs(30);

/// The controller.
pub struct MachinePools<W> {
    managed: W,
    mode: Mode,
    kinds: Kinds,
    nodes: Mutex<BTreeMap<ObjectRef, KnownNodes>>,
    unlabelled: Unlabelled,
    metrics: MachinePoolMetrics,
}

/// What is kept of a pool between reconciles.
#[derive(Debug, Default)]
pub struct State {
    /// What the API server does not store of the status of the pool and of its records.
    not_stored: StoredParts,
    /// The Machines that were created again.
    recreations: Recreations,
}

/// A pool at one moment, and what is to be done about it.
#[derive(Debug)]
pub struct Found {
    key: ObjectRef,
    pool: Arc<MachinePool>,
    needed: Needed,
    names: Names,
    /// The state and the plan; `None` while the infrastructure is not known.
    assessed: Option<(PoolState, Plan)>,
    /// The releases of records whose pool does not exist.
    orphans: Vec<CoreStep>,
    /// The cluster whose Nodes decide, if any.
    nodes_of: Option<ManagedCluster>,
}

impl Found {
    /// A pool that does not exist, with what is left of it.
    fn gone(key: &ObjectRef, orphans: Vec<CoreStep>) -> Self {
        Self {
            key: key.clone(),
            pool: Arc::default(),
            needed: Needed::default(),
            names: Names::default(),
            assessed: None,
            orphans,
            nodes_of: None,
        }
    }

    /// The steps of core.
    fn steps(&self) -> impl Iterator<Item = &CoreStep> {
        let planned = self.assessed.iter().flat_map(|(_, plan)| &plan.steps);
        planned.chain(&self.orphans)
    }
}

impl<W> MachinePools<W> {
    /// The controller of all pools. `watch` starts the watches of kinds that become known.
    pub fn new(managed: W, mode: Mode, watch: WatchKinds, metrics: MachinePoolMetrics) -> Self {
        Self {
            managed,
            mode,
            kinds: Kinds::new(watch),
            nodes: Mutex::default(),
            unlabelled: Unlabelled::default(),
            metrics,
        }
    }

    fn nodes(&self) -> MutexGuard<'_, BTreeMap<ObjectRef, KnownNodes>> {
        // Every change is one operation of the map.
        self.nodes.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The objects of a pool in a view, and the names of the machines that it shows; `None` while a
    /// part is not known.
    fn observed(
        &self,
        pool: &Arc<MachinePool>,
        key: &ObjectRef,
        view: &View,
        needed: &Needed,
    ) -> Option<(Observed, Names)> {
        let (namespace, template) = (key.namespace.as_str(), &pool.spec.template.spec);
        let of = |role: &Option<(String, String)>, name: &str| {
            let Some((group, kind)) = role else { return Some(None) };
            let kind = self.kinds.known(group, kind)?;
            view.objects.of::<Infrastructure>(&kind)?;
            let object = view.objects.get::<Infrastructure>(&kind, namespace, name);
            Some(object.map(|object| named(object, &kind)))
        };
        let mut observed = Observed {
            pool: pool.as_ref().clone(),
            cluster: view
                .objects
                .get::<ClusterObject>(&CLUSTER_API_CLUSTERS, namespace, &pool.spec.cluster_name)
                .cloned(),
            infrastructure: of(&needed.infrastructure, &template.infrastructure_ref.name)?,
            bootstrap: of(&needed.bootstrap, &template.bootstrap.config_ref.name)?,
            ..Observed::default()
        };
        if let Some((group, kind)) = &needed.machines {
            let kind = self.kinds.known(group, kind)?;
            view.objects.of::<Infrastructure>(&kind)?;
            let instances = view.within::<Infrastructure>(&kind, namespace);
            let own = instances.filter(|instance| observed.is_of_pool(&instance.metadata.labels));
            observed.instances = own.map(|instance| named(instance, &kind)).collect();
            observed.knows_instances = true;
        }
        let machines = view.within::<Machine>(&CLUSTER_API_MACHINES, namespace);
        let own = machines.filter(|machine| observed.is_of_pool(&machine.metadata.labels));
        observed.machines = own.cloned().collect();
        let shown = observed.machines.iter().map(|machine| machine.metadata.name());
        let shown: BTreeSet<String> = shown.map(str::to_owned).collect();
        let instances = observed.instances.iter().map(|one| one.metadata.name());
        let without = instances.filter(|name| !shown.contains(*name)).map(str::to_owned);
        let names = Names {
            without: without.collect(),
            machines: shown,
        };
        let unlabelled = self.unlabelled.of(key).into_iter();
        let hidden = unlabelled.filter(|machine| !names.machines.contains(machine.metadata.name()));
        observed.machines.extend(hidden);
        if let Some((group, kind)) = &needed.machines {
            hidden::add(&mut observed, view, namespace, &self.kinds.known(group, kind)?);
        }
        if let Some(nodes) = self.nodes().get(key).and_then(|known| known.nodes.clone()) {
            observed.nodes = nodes;
            observed.knows_nodes = true;
        }
        Some((observed, names))
    }

    /// The kind of the object that a step writes.
    fn kind_of(&self, step: &CoreStep) -> Option<KindInfo> {
        let subject = &step.subject;
        let known = [&CLUSTER_API_MACHINES, &MACHINE_POOLS, &NODES];
        let known = known.into_iter().find(|kind| kind.is_kind_of(subject));
        known
            .cloned()
            .or_else(|| self.kinds.known(&subject.group, &subject.kind))
    }

    /// A step of core as a write. `None` if the kind is no longer known.
    fn write(&self, step: &CoreStep) -> Option<Write> {
        let kind = self.kind_of(step)?;
        let precondition = step.precondition.as_ref();
        let precondition = precondition.map(|there| (there.uid.clone(), there.resource_version.clone()));
        let verb = match &step.action {
            Action::Create(machine) => match serde_json::to_value(machine) {
                Ok(body) => Verb::Create { body, purpose: &[] },
                Err(error) => {
                    tracing::error!(%error, machine = step.subject.name, "the new Machine cannot be encoded");
                    return None;
                }
            },
            Action::Patch(patch) => Verb::Patch(patch.clone()),
            Action::Delete | Action::DeleteOwned => Verb::Delete { precondition },
            Action::DeleteNode => Verb::Perform(format!("deleting Node {}", step.subject.name)),
        };
        Some(Write::new(&kind, &step.subject.namespace, &step.subject.name, verb))
    }
}

/// An infrastructure object with the version and the kind that the items of some lists lack.
fn named(object: &Arc<Infrastructure>, kind: &KindInfo) -> Arc<Infrastructure> {
    if !object.kind.is_empty() {
        return Arc::clone(object);
    }
    let mut object = object.as_ref().clone();
    object.api_version = kind.api_version();
    object.kind = kind.kind.to_string();
    Arc::new(object)
}

/// The cluster whose Nodes decide about a pool: one whose Machines are records, and one that is
/// deleted and has no instance any more.
fn nodes_of(state: &PoolState) -> Option<ManagedCluster> {
    let cluster = state.cluster.as_ref()?;
    let is_recorded = state.machine_kind().is_none() && state.is_provisioned() && !state.provider_ids().is_empty();
    let is_last = state.pool.metadata.is_deleting()
        && removal::has_finalizer(state)
        && state.infrastructure.is_none()
        && state.members.is_empty();
    let decides = is_recorded || is_last;
    (decides && !cluster.metadata.is_deleting()).then(|| ManagedCluster {
        namespace: state.namespace().to_owned(),
        name: cluster.metadata.name().to_owned(),
        uid: cluster.metadata.uid().to_owned(),
    })
}

impl<W: ManagedClusters> Reconcile for MachinePools<W> {
    const NAME: &'static str = "machine-pool";

    type State = State;
    type Observed = Found;

    fn kind(&self) -> &KindInfo {
        &MACHINE_POOLS
    }

    fn watches(&self) -> Vec<Watch> {
        kinds::watches()
    }

    /// All pools, and those of orphaned records.
    fn all(&self, view: &View) -> Vec<ObjectRef> {
        let mut all = view.objects.keys(&MACHINE_POOLS);
        all.extend(orphans::pools(view));
        all
    }

    /// The pools of the object: of a Cluster by its name, of a machine by its controller, its label
    /// or that of its counterpart, and of an infrastructure object by its name. All pools of the
    /// namespace if the object is gone, and nothing tells its pool.
    fn affected(&self, changed: &ObjectRef, view: &View) -> Vec<ObjectRef> {
        if MACHINE_POOLS.is_kind_of(changed) {
            return vec![changed.clone()];
        }
        let (namespace, name) = (changed.namespace.as_str(), changed.name.as_str());
        let metadata = view.objects.metadata(changed);
        let label = metadata.and_then(|metadata| metadata.labels.get(label::POOL_NAME));
        let counterpart = self.kinds.counterparts(changed).into_iter().find_map(|object| {
            let metadata = view.objects.metadata(&object)?;
            metadata.labels.get(label::POOL_NAME).cloned()
        });
        let is_cluster = CLUSTER_API_CLUSTERS.is_kind_of(changed);
        let controller = metadata.and_then(ObjectMeta::controller);
        let concerns = |pool: &&Arc<MachinePool>| {
            // A label that names another pool does not hide the Machine from its own.
            if controller.is_some_and(|owner| owner.uid == pool.metadata.uid()) {
                return true;
            }
            let template = &pool.spec.template.spec;
            if is_cluster {
                return pool.spec.cluster_name == name;
            }
            let references = [&template.infrastructure_ref, &template.bootstrap.config_ref];
            let is_referred = references.into_iter().any(|reference| reference.name == name);
            match (metadata, label.or(counterpart.as_ref())) {
                (Some(_), Some(label)) => *label == label_value(pool.metadata.name()),
                (None, Some(label)) => is_referred || *label == label_value(pool.metadata.name()),
                (Some(_), None) => is_referred,
                (None, None) => true,
            }
        };
        view.within::<MachinePool>(&MACHINE_POOLS, namespace)
            .filter(concerns)
            .map(|pool| MACHINE_POOLS.object(namespace, pool.metadata.name()))
            .chain(orphans::pool(changed, view))
            .collect()
    }

    fn is_gone(&self, object: &ObjectRef, view: &View) -> bool {
        let is_gone = view.objects.metadata(object).is_none() && orphans::releases(object, view).is_empty();
        if is_gone {
            self.nodes().remove(object);
            self.unlabelled.forget(object);
            self.kinds.forget(object);
            self.metrics.gone(object);
        }
        is_gone
    }

    fn leadership(&self, is_leader: bool) {
        // Another leader may have made Machines that lost a label since.
        self.unlabelled.repeat_all();
        if !is_leader {
            self.metrics.forget();
        }
    }

    fn observe(
        &self,
        key: &ObjectRef,
        view: &View,
        source: Source,
        state: &mut State,
        moment: Moment,
    ) -> Observation<Found> {
        let pool = view
            .objects
            .get::<MachinePool>(&MACHINE_POOLS, &key.namespace, &key.name);
        let orphans = orphans::releases(key, view);
        let (Some(pool), true) = (pool, view.synced) else {
            return match view.synced && !orphans.is_empty() {
                true => Observation::Found(Found::gone(key, orphans)),
                false => Observation::Nothing,
            };
        };
        let infrastructure = self.kinds.infrastructure_of(pool, view);
        let needed = Needed::of(pool, infrastructure.as_deref(), self.mode);
        let observed = self.observed(pool, key, view, &needed);
        let (observed, names) = observed.unzip();
        let assessed = observed.map(|observed| {
            let mut pool = PoolState::observe(&observed, moment.time);
            deferral::observe(&mut state.recreations, &mut pool);
            let plan = plan(&pool, self.mode, moment.time);
            (pool, plan)
        });
        if let (Source::Live, Some((_, plan)), Some(names)) = (source, &assessed, &names) {
            // The caches may not show such a Machine before it loses a label.
            let created = plan
                .steps
                .iter()
                .filter(|step| matches!(step.action, Action::Create(_)));
            let created = created.map(|step| &step.subject.name);
            self.unlabelled.note(key, names.machines.iter().chain(created));
        }
        let nodes_of = assessed.as_ref().and_then(|(state, _)| nodes_of(state));
        Observation::Found(Found {
            key: key.clone(),
            pool: Arc::clone(pool),
            needed,
            names: names.unwrap_or_default(),
            assessed,
            orphans,
            nodes_of,
        })
    }

    async fn inquire<C: Cluster>(&self, cluster: &C, observed: &Found) -> bool {
        if observed.pool.metadata.uid().is_empty() {
            return false;
        }
        let is_unknown = observed.assessed.is_none();
        let mut discovered = self
            .kinds
            .discover(cluster, &observed.key, &observed.needed, is_unknown)
            .await;
        if self.mode == Mode::Own && !is_unknown {
            let searched = self
                .unlabelled
                .search(cluster, &observed.key, &observed.pool, &observed.names);
            discovered |= searched.await;
        }
        let Some(of) = &observed.nodes_of else {
            self.nodes().remove(&observed.key);
            return discovered;
        };
        let known = self.nodes().get(&observed.key).cloned();
        let now = cluster.instant();
        if known.as_ref().is_some_and(|known| known.is_fresh(now)) {
            return discovered;
        }
        let read = nodes::read(&self.managed, of, now).await;
        let is_new = known.is_none_or(|known| known.nodes != read.nodes);
        self.nodes().insert(observed.key.clone(), read);
        discovered || is_new
    }

    /// The Machines are read before the infrastructure machines: a Machine is created after its
    /// infrastructure machine, so that none seems to have lost its instance.
    async fn read_live<C: Cluster>(
        &self,
        key: &ObjectRef,
        cluster: &C,
        view: &View,
        _observed: &Found,
    ) -> Result<Option<View>, StepError> {
        let named = |name: &str| NamespacedName::new(key.namespace.as_str(), name);
        let live = view
            .refreshed::<MachinePool>(cluster, &MACHINE_POOLS, &named(&key.name))
            .await?;
        // What the pool and its infrastructure object say now decides what is read.
        let pool = match live
            .objects
            .get::<MachinePool>(&MACHINE_POOLS, &key.namespace, &key.name)
        {
            Some(pool) => Arc::clone(pool),
            None => return Ok(Some(live)),
        };
        let cluster_key = named(&pool.spec.cluster_name);
        let mut live = live
            .refreshed::<ClusterObject>(cluster, &CLUSTER_API_CLUSTERS, &cluster_key)
            .await?;
        let selector = format!(
            "{}={},{}={}",
            label::CLUSTER,
            pool.spec.cluster_name,
            label::POOL_NAME,
            label_value(&key.name)
        );
        relist::<Machine, C>(&mut live, cluster, &CLUSTER_API_MACHINES, key, &pool, &selector).await?;
        let template = &pool.spec.template.spec;
        let whole = Needed::of(&pool, None, self.mode);
        let objects = [
            (&whole.infrastructure, &template.infrastructure_ref.name),
            (&whole.bootstrap, &template.bootstrap.config_ref.name),
        ];
        for (role, name) in objects {
            let kind = role.as_ref().and_then(|(group, kind)| self.kinds.known(group, kind));
            if let Some(kind) = kind {
                live = live.refreshed::<Infrastructure>(cluster, &kind, &named(name)).await?;
            }
        }
        let infrastructure = self.kinds.infrastructure_of(&pool, &live);
        let needed = Needed::of(&pool, infrastructure.as_deref(), self.mode);
        let machines = needed.machines.as_ref();
        if let Some(kind) = machines.and_then(|(group, kind)| self.kinds.known(group, kind)) {
            relist::<Infrastructure, C>(&mut live, cluster, &kind, key, &pool, &selector).await?;
            if let Some((labelled, _)) = self.observed(&pool, key, &live, &needed) {
                hidden::read(&mut live, cluster, key, &labelled, &kind, self.mode).await?;
            }
        }
        if self.mode == Mode::Own
            && let Some((_, names)) = self.observed(&pool, key, &live, &needed)
        {
            // The pool is released once no Machine of it is left. One that lost its labels is in no
            // list with them, and the search from the caches may have failed or be too old.
            // Otherwise those that the caches showed are enough.
            let is_last = pool.metadata.is_deleting() && infrastructure.is_none();
            let names = Names {
                without: BTreeSet::new(),
                ..names
            };
            let searched = self.unlabelled.search_live(cluster, key, &pool, &names, is_last).await;
            searched.map_err(|error| StepError::new(format!("reading {}", CLUSTER_API_MACHINES.title()), error))?;
        }
        unchanged::check(&live, cluster, key).await?;
        Ok(Some(live))
    }

    fn plan(&self, observed: &Found, _state: &mut State, _moment: Moment) -> Vec<Step> {
        // The positions of the steps must stay those of the plan.
        let steps = observed.steps().map_while(|step| {
            Some(Step {
                disruptive: step.is_disruptive(),
                // A Machine that cannot be patched delays no other one.
                needs_success: false,
                optional: !step.is_disruptive(),
                ..Step::disruptive(self.write(step)?, step.verb(), step.because.clone())
            })
        });
        steps.collect()
    }

    async fn perform(&self, observed: &Found, step: usize) -> Result<(), StepError> {
        let Some((state, plan)) = &observed.assessed else {
            return Ok(());
        };
        let step = plan
            .steps
            .get(step)
            .filter(|step| matches!(step.action, Action::DeleteNode));
        let (Some(step), Some(cluster)) = (step, nodes_of(state)) else {
            return Ok(());
        };
        let name = step.subject.name.as_str();
        let uid = step.precondition.as_ref().map_or("", |there| there.uid.as_str());
        let deleted = self.managed.delete(&cluster, &NODES, "", name, uid).await;
        // It is read again before the next decision.
        self.nodes().remove(&observed.key);
        deleted.map_err(|error| {
            let error = kube::Error::Service(error.to_string().into());
            StepError::new(format!("deleting Node {name}"), error)
        })
    }

    fn status(&self, reconciled: &Reconciled<'_, Found>, state: &mut State) -> Vec<Write> {
        let observed = reconciled.observed;
        let Some((pool, plan)) = &observed.assessed else {
            return Vec::new();
        };
        let written: BTreeSet<&ObjectRef> = reconciled
            .taken
            .iter()
            .filter_map(|at| observed.steps().nth(*at))
            .map(|step| &step.subject)
            .collect();
        // An object that was patched in this reconcile has another version by now.
        let is_current = |object: &ObjectRef| !written.contains(object);
        let now = reconciled.moment.time;
        let mut writes = Vec::new();
        // The spec is not read.
        let stored = json!({"metadata": observed.pool.metadata, "status": observed.pool.status});
        let members: BTreeSet<&str> = pool.members.iter().map(|member| member.name.as_str()).collect();
        let is_known = |object: &ObjectRef| MACHINE_POOLS.is_kind_of(object) || members.contains(object.name.as_str());
        state.not_stored.retain(is_known);
        let not_stored = |object: &ObjectRef| state.not_stored.of(object);
        let error = lasting_error(reconciled.failing, status::reports_failing(&stored), now);
        let reported = error.map(|error| status::with_failing(plan, error));
        let plan = reported.as_ref().unwrap_or(plan);
        let patch = status::patch(&stored, pool, self.mode, plan, not_stored(&observed.key), now);
        if let Some(patch) = patch.filter(|_| is_current(&observed.key)) {
            let verb = Verb::PatchStatus(patch);
            writes.push(Write::new(
                &MACHINE_POOLS,
                &observed.key.namespace,
                &observed.key.name,
                verb,
            ));
        }
        if !pool.is_paused() {
            for member in &pool.members {
                let object = CLUSTER_API_MACHINES.object(&observed.key.namespace, &member.name);
                let patch = records::status(member, not_stored(&object), now).filter(|_| is_current(&object));
                writes.extend(patch.map(|patch| {
                    let verb = Verb::PatchStatus(patch);
                    Write::new(&CLUSTER_API_MACHINES, &object.namespace, &object.name, verb)
                }));
            }
        }
        writes
    }

    fn stored(&self, _observed: &Found, write: &Write, written: &crate::runtime::Written, state: &mut State) {
        state.not_stored.learn(write, written);
    }

    fn report<'a>(&self, reconciled: &Reconciled<'a, Found>, state: &mut State) -> Report<'a> {
        let observed = reconciled.observed;
        let now = reconciled.moment.time;
        let about = Some(observed.pool.metadata.clone());
        let Some((pool, plan)) = &observed.assessed else {
            let is_unknown = !observed.pool.metadata.uid().is_empty();
            return Report {
                requeue_at: now.checked_add(UNKNOWN).ok().filter(|_| is_unknown),
                ..Report::default()
            };
        };
        self.metrics.pool(&observed.key, pool);
        let shown = [
            WaitReason::CreationDeferred,
            WaitReason::RemediationDeferred,
            WaitReason::MaxUnavailable,
            WaitReason::OnDelete,
            WaitReason::ProviderSupport,
        ];
        let waits = plan.waits.iter().filter(|wait| shown.contains(&wait.reason));
        let waits = waits.map(|wait| EventSpec {
            warning: false,
            reason: wait.reason.name(),
            message: wait.message.as_str().into(),
            key: wait.message.clone(),
        });
        let stops = plan.degraded.iter().map(|reason| EventSpec {
            warning: true,
            reason: reason.reason,
            message: reason.message.as_str().into(),
            key: format!("{:?}", observed.pool.metadata.generation),
        });
        let errors = reconciled.errors.iter().filter(|error| !error.is_conflict());
        let failures = errors.map(|error| EventSpec {
            warning: true,
            reason: "Failed",
            message: error.to_string().into(),
            key: error.to_string(),
        });
        let taken = reconciled.taken.iter().filter_map(|at| observed.steps().nth(*at));
        deferral::taken(&mut state.recreations, taken.clone(), now);
        let is_unwatched = !pool.unlabelled.is_empty() || !pool.strays.is_empty();
        let is_unwatched = is_unwatched || self.unlabelled.is_unwatched(&observed.key);
        let is_polled = observed.nodes_of.is_some() || is_unwatched;
        let polled = now.checked_add(NODES_AGE).ok().filter(|_| is_polled);
        Report {
            about,
            lasting: waits.chain(stops).chain(failures).collect(),
            once: taken.filter_map(event).collect(),
            requeue_at: polled.into_iter().chain(plan.reconcile_at).min(),
        }
    }
}

/// Replaces what is known of the machines of a pool by a live list.
async fn relist<T: capstan_core::api::objects::CachedObject, C: Cluster>(
    live: &mut View,
    cluster: &C,
    kind: &KindInfo,
    key: &ObjectRef,
    pool: &MachinePool,
    selector: &str,
) -> Result<(), StepError> {
    let read = cluster.list::<T>(kind, &key.namespace, &[selector]).await;
    let read = read.map_err(|error| StepError::new(format!("listing {}", kind.title()), error))?;
    let label = label_value(pool.metadata.name());
    live.retain::<T>(kind, |object| {
        object.metadata().is_none_or(|metadata| {
            let has = |key: &str, value: &str| metadata.labels.get(key).map(String::as_str) == Some(value);
            metadata.namespace.as_deref() != Some(key.namespace.as_str())
                || !has(label::CLUSTER, &pool.spec.cluster_name)
                || !has(label::POOL_NAME, &label)
        })
    });
    for object in read {
        let key = object.key();
        live.put(kind, &key, Some(object));
    }
    Ok(())
}

/// The event about a step. Patches are no events.
fn event(step: &CoreStep) -> Option<EventSpec<'static>> {
    let (reason, verb) = match &step.action {
        Action::Create(_) => ("Created", "created"),
        Action::Delete | Action::DeleteOwned | Action::DeleteNode => ("Deleted", "deleted"),
        Action::Patch(_) => return None,
    };
    let version = step.precondition.as_ref().map_or("", |there| there.uid.as_str());
    let subject = &step.subject;
    Some(EventSpec {
        warning: false,
        reason,
        message: format!("{verb} {} {}: {}", subject.kind, subject.name, step.because).into(),
        key: format!("{} {version}", subject.name),
    })
}
