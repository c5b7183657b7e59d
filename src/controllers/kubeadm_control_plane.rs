//! The controller of KubeadmControlPlanes of Cluster API.
//!
//! It observes a control plane with its machines and with the cluster that it manages, hands them
//! to core, and turns the plan of core into writes. A creation and a deletion follow a live read of
//! both clusters, and a creation is recorded first (decisions 41, 46). It never generates a
//! certificate authority for a control plane that had a machine.

mod inspect;
mod issue;
mod known;
mod objects;
mod pending;
mod running;
mod statuses;
mod steps;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use capstan_core::api::cluster_x_k8s_io::control_plane::Machine;
use capstan_core::api::cluster_x_k8s_io::label;
use capstan_core::api::kind::KindInfo;
use capstan_core::api::kinds::{
    CLUSTER_API_CLUSTERS, CLUSTER_API_MACHINES, KUBEADM_CONFIGS, KUBEADM_CONTROL_PLANES, MACHINE_POOLS,
};
use capstan_core::api::meta::ObjectMeta;
use capstan_core::kcp::action::{Action, Step as CoreStep, Wait, WaitReason};
use capstan_core::kcp::addons::{self, AddonChange};
use capstan_core::kcp::assessment::{Assessment, Surroundings, assess};
use capstan_core::kcp::certificates::{FoundSecret, is_renewed};
use capstan_core::kcp::observed::{Observed, ReadObject, SnapshotError, cluster_of};
use capstan_core::kcp::{Bootstrap, pending as records};
use capstan_core::model::{NamespacedName, ObjectRef};
use jiff::{SignedDuration, Timestamp};
use serde_json::{Value, json};

use crate::controllers::stored_parts::StoredParts;
use crate::runtime::{
    Cluster, EventSpec, FRESH, Moment, Observation, Reconcile, Reconciled, Report, Source, Step, StepError, Verb, View,
    Watch, Write, Written,
};
use crate::workload::{ManagedCluster, ManagedClusters, ManagedEtcd};
use inspect::{Inspected, change_addon, prepare_join};
use known::Known;
use pending::{Creations, Leaving};
use statuses::Attempts;
use steps::{Origin, Planned, planned};

pub use issue::{Issuer, Kubeconfig};
pub use objects::{SECRETS, SecretSummary, WholeObject};
pub use running::{LEASE, caches, caches_of_shard, settings, start, start_shard};

/// How long after a reconcile a control plane that is not settled is inspected again. The managed
/// cluster is not watched.
const UNSETTLED: SignedDuration = SignedDuration::from_secs(5);
/// The same for a settled control plane.
const SETTLED: SignedDuration = SignedDuration::from_secs(60);

/// The managed clusters, their etcd members, and the keys of new ones.
pub trait Port: ManagedClusters + ManagedEtcd + Issuer {}

impl<W: ManagedClusters + ManagedEtcd + Issuer> Port for W {}

/// The controller.
#[derive(Debug)]
pub struct KubeadmControlPlanes<W> {
    managed: W,
    /// The name of this process, in events and in records of creations.
    identity: String,
    known: Mutex<BTreeMap<ObjectRef, Known>>,
}

/// What is kept of a control plane between reconciles.
#[derive(Debug, Default)]
pub struct State {
    creations: Creations,
    leaving: Leaving,
    /// The machine that the plan from the caches creates.
    expected: Option<String>,
    attempts: Attempts,
    /// What the API server does not store of the statuses of the control plane and its machines.
    stored: StoredParts,
}

/// A control plane at one moment, and what is to be done about it.
#[derive(Debug)]
pub struct Found {
    key: ObjectRef,
    object: Arc<WholeObject>,
    assessment: Assessment,
    /// The Secrets with the label of the Cluster.
    secrets: Vec<Arc<SecretSummary>>,
    /// The names of needed Secrets without the label.
    unlabelled: BTreeSet<String>,
    managed: Option<ManagedCluster>,
    /// Whether the managed cluster may respond: it has a kubeconfig, and has or had a machine.
    can_be_inspected: bool,
    source: Source,
    planned: Vec<Planned>,
    /// The KubeadmConfigs of the Cluster, by name.
    configs: BTreeMap<String, Arc<WholeObject>>,
    /// The next change of an addon, or why one stays as it is.
    addon: Result<Option<AddonChange>, String>,
    now: Timestamp,
}

impl<W> KubeadmControlPlanes<W> {
    /// The controller of all control planes.
    pub fn new(managed: W, identity: String) -> Self {
        Self {
            managed,
            identity,
            known: Mutex::default(),
        }
    }

    fn lock(&self) -> MutexGuard<'_, BTreeMap<ObjectRef, Known>> {
        // Every change is one operation of the map.
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// What is known of a control plane.
    fn known(&self, key: &ObjectRef, control_plane: &ObjectMeta) -> Known {
        let uid = control_plane.uid();
        let known = self.lock().get(key).filter(|known| known.uid == uid).cloned();
        known.unwrap_or_else(|| Known::nothing(uid))
    }

    fn remember(&self, key: &ObjectRef, known: Known) {
        self.lock().insert(key.clone(), known);
    }
}

/// The objects of a kind in a namespace.
fn within<'v>(view: &'v View, kind: &KindInfo, namespace: &str) -> impl Iterator<Item = &'v Arc<WholeObject>> {
    let known = view.objects.of::<WholeObject>(kind);
    let namespace = namespace.to_owned();
    known.into_iter().flat_map(move |known| {
        let first = NamespacedName::new(namespace.as_str(), "");
        let namespace = namespace.clone();
        let objects = known.objects.range(first..);
        objects
            .take_while(move |(key, _)| key.namespace == namespace)
            .map(|(_, object)| object)
    })
}

impl Found {
    /// Whether the plan creates a machine.
    fn creates(&self) -> bool {
        let mut steps = self.assessment.plan.steps.iter();
        steps.any(|step| matches!(step.action, Action::Create { .. }))
    }

    fn core_step(&self, position: usize) -> Option<(Origin, &CoreStep)> {
        let origin = self.planned.get(position)?.origin;
        Some((origin, self.assessment.plan.steps.get(origin.position()?)?))
    }

    /// The change of an addon that a step makes.
    fn addon_of(&self, position: usize) -> Option<&AddonChange> {
        let planned = self.planned.get(position)?;
        let performs = planned.origin == Origin::Upkeep && matches!(planned.step.write.verb, Verb::Perform(_));
        self.addon.as_ref().ok()?.as_ref().filter(|_| performs)
    }

    /// A Secret of the Cluster, as the caches show it.
    fn labelled_secret(&self, name: &str) -> Option<&SecretSummary> {
        let mut secrets = self.secrets.iter();
        let found = secrets.find(|secret| secret.metadata.name() == name)?;
        Some(found.as_ref())
    }

    /// Whether the caches show a Secret of the Cluster.
    fn has_labelled_secret(&self, name: &str) -> bool {
        self.labelled_secret(name).is_some()
    }

    /// Whether a Secret of the Cluster exists, with or without the label.
    fn has_secret(&self, name: &str) -> bool {
        self.has_labelled_secret(name) || self.unlabelled.contains(name)
    }

    /// Whether the Secrets of the Cluster are managed at this moment.
    fn may_write_secrets(&self) -> bool {
        let state = &self.assessment.state;
        state.cluster.is_some() && !state.is_deleting() && !state.is_paused()
    }

    fn kubeconfig_secret(&self) -> String {
        format!("{}-kubeconfig", self.assessment.state.cluster_name)
    }

    /// Whether the kubeconfig expires soon. A kubeconfig of a user is not renewed.
    fn renews_kubeconfig(&self) -> bool {
        let secret = self.labelled_secret(&self.kubeconfig_secret());
        let own = secret.filter(|secret| {
            let owner = secret.metadata.controller();
            owner.is_some_and(|owner| owner.uid == self.object.metadata.uid())
        });
        let expires = own.and_then(|secret| secret.expires);
        expires.is_some_and(|expires| is_renewed(expires, self.now))
    }

    /// The address of the API server, if the kubeconfig must be issued.
    fn needs_kubeconfig(&self) -> Option<String> {
        let state = &self.assessment.state;
        let certificates = &self.assessment.certificates;
        let endpoint = &state.cluster.as_ref()?.spec.control_plane_endpoint;
        let is_ready = certificates.generate.is_empty() && certificates.missing.is_empty();
        let is_known = !endpoint.host.is_empty() && endpoint.port != 0;
        if !is_ready || !is_known || !self.may_write_secrets() {
            return None;
        }
        let host = match endpoint.host.contains(':') {
            true => format!("[{}]", endpoint.host),
            false => endpoint.host.clone(),
        };
        let is_needed = !self.has_secret(&self.kubeconfig_secret()) || self.renews_kubeconfig();
        is_needed.then(|| format!("https://{host}:{}", endpoint.port))
    }

    /// The algorithm of keys.
    fn algorithm(&self) -> String {
        let spec = &self.assessment.state.control_plane.spec;
        match spec
            .kubeadm_config_spec
            .cluster_configuration
            .encryption_algorithm
            .as_str()
        {
            "" => String::from("RSA-2048"),
            algorithm => algorithm.to_owned(),
        }
    }

    /// The control plane as the controller of an object.
    fn owner(&self) -> Value {
        json!({
            "apiVersion": KUBEADM_CONTROL_PLANES.api_version(), "kind": KUBEADM_CONTROL_PLANES.kind,
            "name": self.key.name, "uid": self.object.metadata.uid(), "controller": true, "blockOwnerDeletion": true,
        })
    }

    /// Whether nothing is expected to change in the managed cluster.
    fn is_settled(&self) -> bool {
        let assessment = &self.assessment;
        let is_healthy = |type_: &str| {
            let mut conditions = assessment.status.conditions.iter();
            conditions.any(|one| one.type_ == type_ && one.status == "True")
        };
        let is_complete = assessment.state.replicas() == Some(assessment.state.machines.len());
        let plan = &assessment.plan;
        let is_calm = plan.steps.is_empty() && plan.waits.is_empty() && !matches!(self.addon, Ok(Some(_)));
        is_complete && is_healthy("Available") && is_calm
    }
}

impl<W: Port> KubeadmControlPlanes<W> {
    /// The objects of a control plane in a view, as core reads them.
    fn observed(&self, object: &WholeObject, view: &View, known: &Known) -> Option<Observed> {
        let namespace = object.metadata.namespace.as_deref().unwrap_or_default();
        let cluster = cluster_of(&object.metadata);
        let read = || {
            let mut objects = Vec::new();
            let owner = view
                .objects
                .get::<WholeObject>(&CLUSTER_API_CLUSTERS, namespace, &cluster);
            if let Some(owner) = owner {
                objects.push(owner.read(&CLUSTER_API_CLUSTERS)?);
            }
            for kind in [&CLUSTER_API_MACHINES, &KUBEADM_CONFIGS, &MACHINE_POOLS] {
                for own in within(view, kind, namespace).filter(|object| object.cluster() == cluster) {
                    objects.push(own.read(kind)?);
                }
            }
            for object in known.infrastructure.values().flatten() {
                objects.push(ReadObject::of(&object.0)?);
            }
            match object.read(&KUBEADM_CONTROL_PLANES)? {
                ReadObject::ControlPlane(control_plane) => Ok(Some(Observed::of_read(&control_plane, objects))),
                _ => Ok(None),
            }
        };
        read().unwrap_or_else(|error: SnapshotError| {
            tracing::error!(%error, namespace, name = object.metadata.name(), "nothing is done with the control plane");
            None
        })
    }
}

impl<W: Port> Reconcile for KubeadmControlPlanes<W> {
    const NAME: &'static str = "kubeadm-control-plane";

    type State = State;
    type Observed = Found;

    fn kind(&self) -> &KindInfo {
        &KUBEADM_CONTROL_PLANES
    }

    fn watches(&self) -> Vec<Watch> {
        objects::watches()
    }

    /// The control planes of the Cluster of the object; all of the namespace if it is gone.
    fn affected(&self, changed: &ObjectRef, view: &View) -> Vec<ObjectRef> {
        if KUBEADM_CONTROL_PLANES.is_kind_of(changed) {
            return vec![changed.clone()];
        }
        let (namespace, name) = (changed.namespace.as_str(), changed.name.as_str());
        let cluster = if CLUSTER_API_CLUSTERS.is_kind_of(changed) {
            Some(name.to_owned())
        } else if SECRETS.is_kind_of(changed) {
            let secret = view.objects.get::<SecretSummary>(&SECRETS, namespace, name);
            secret.and_then(|secret| secret.metadata.labels.get(label::CLUSTER).cloned())
        } else {
            let kinds = [&CLUSTER_API_MACHINES, &KUBEADM_CONFIGS, &MACHINE_POOLS];
            let kind = kinds.into_iter().find(|kind| kind.is_kind_of(changed));
            let object = kind.and_then(|kind| view.objects.get::<WholeObject>(kind, namespace, name));
            object.map(|object| object.cluster().to_owned())
        };
        within(view, &KUBEADM_CONTROL_PLANES, namespace)
            .filter(|object| {
                cluster
                    .as_ref()
                    .is_none_or(|cluster| *cluster == cluster_of(&object.metadata))
            })
            .map(|object| KUBEADM_CONTROL_PLANES.object(namespace, object.metadata.name()))
            .collect()
    }

    fn is_gone(&self, object: &ObjectRef, view: &View) -> bool {
        let is_gone = view.objects.metadata(object).is_none();
        if is_gone {
            self.lock().remove(object);
        }
        is_gone
    }

    fn observe(
        &self,
        key: &ObjectRef,
        view: &View,
        source: Source,
        state: &mut State,
        moment: Moment,
    ) -> Observation<Found> {
        let object = view
            .objects
            .get::<WholeObject>(&KUBEADM_CONTROL_PLANES, &key.namespace, &key.name);
        let (Some(object), true) = (object, view.synced) else {
            return Observation::Nothing;
        };
        let known = self.known(key, &object.metadata);
        let Some(mut observed) = self.observed(object, view, &known) else {
            return Observation::Nothing;
        };
        observed.leaving = state.leaving.ages(&observed.machines, moment);
        let cluster = cluster_of(&object.metadata);
        let managed = observed.cluster.as_ref().map(|owner| ManagedCluster {
            namespace: key.namespace.clone(),
            name: cluster.clone(),
            uid: owner.metadata.uid().to_owned(),
        });
        let secrets = secrets_of(view, &key.namespace, &cluster);
        let kubeconfig = managed.as_ref().map(ManagedCluster::kubeconfig_secret);
        let unlabelled: BTreeSet<String> = known.secrets.iter().map(|secret| secret.name.clone()).collect();
        let names = secrets.iter().map(|secret| secret.metadata.name());
        let has_kubeconfig = names
            .chain(unlabelled.iter().map(String::as_str))
            .any(|name| Some(name) == kubeconfig.as_deref());
        let records = records::recorded(&object.metadata);
        let recorded = state.creations.read(records, &self.identity, moment);
        let mut found: Vec<FoundSecret> = secrets.iter().map(|secret| secret.found()).collect();
        found.extend(known.secrets.iter().cloned());
        // A live read shows a kubeconfig without the label too.
        let by_name =
            view.objects
                .get::<SecretSummary>(&SECRETS, &key.namespace, kubeconfig.as_deref().unwrap_or_default());
        found.extend(by_name.map(|secret| secret.found()));
        let nothing = Arc::new(Inspected::nothing("the managed cluster is not read yet"));
        let inspected = known.inspected.as_ref().unwrap_or(&nothing);
        let surroundings = Surroundings {
            secrets: &found,
            inspection: &inspected.inspection,
            silent_for: known.silent_for(moment.instant),
            has_configuration: inspected.configuration.is_some(),
            recorded: &recorded,
        };
        let assessment = assess(observed, &surroundings, moment.time);
        let addon = addons::next(&assessment.state, &assessment.plan, &inspected.addons());
        let configs = within(view, &KUBEADM_CONFIGS, &key.namespace).filter(|object| object.cluster() == cluster);
        let mut found = Found {
            configs: configs
                .map(|object| (object.metadata.name().to_owned(), Arc::clone(object)))
                .collect(),
            addon,
            now: moment.time,
            can_be_inspected: has_kubeconfig && may_answer(&assessment),
            key: key.clone(),
            object: Arc::clone(object),
            assessment,
            secrets,
            unlabelled,
            managed,
            source,
            planned: Vec::new(),
        };
        found.planned = planned(&found, &known, source);
        Observation::Found(found)
    }

    async fn inquire<C: Cluster>(&self, cluster: &C, observed: &Found) -> bool {
        self.read_surroundings(cluster, observed).await
    }

    /// The control plane is read first. What another leader creates after this changes the version
    /// with which a creation is recorded.
    async fn read_live<C: Cluster>(
        &self,
        key: &ObjectRef,
        cluster: &C,
        view: &View,
        observed: &Found,
    ) -> Result<Option<View>, StepError> {
        let name = NamespacedName::new(key.namespace.as_str(), key.name.as_str());
        let live = view
            .refreshed::<WholeObject>(cluster, &KUBEADM_CONTROL_PLANES, &name)
            .await?;
        let of = cluster_of(&observed.object.metadata);
        if of.is_empty() {
            return Ok(Some(live));
        }
        let owner = NamespacedName::new(key.namespace.as_str(), of.as_str());
        let mut live = live
            .refreshed::<WholeObject>(cluster, &CLUSTER_API_CLUSTERS, &owner)
            .await?;
        if observed.creates() && observed.assessment.state.machines.is_empty() {
            // Its owner tells whether the control plane may have run before.
            let kubeconfig = NamespacedName::new(key.namespace.as_str(), observed.kubeconfig_secret().as_str());
            live = live.refreshed::<SecretSummary>(cluster, &SECRETS, &kubeconfig).await?;
        }
        let selector = format!("{}={of}", label::CLUSTER);
        for kind in [&CLUSTER_API_MACHINES, &KUBEADM_CONFIGS] {
            let read = cluster
                .list::<WholeObject>(kind, &key.namespace, &[selector.as_str()])
                .await;
            let read = read.map_err(|error| StepError::new(format!("listing {}", kind.title()), error))?;
            let is_other = |object: &WholeObject| {
                object.metadata.namespace.as_deref() != Some(key.namespace.as_str()) || object.cluster() != of
            };
            live.retain::<WholeObject>(kind, is_other);
            for object in read {
                let key = object.key();
                live.put(kind, &key, Some(object));
            }
        }
        let machines: Vec<Arc<Machine>> = within(&live, &CLUSTER_API_MACHINES, &key.namespace)
            .filter(|object| object.cluster() == of)
            .filter_map(|object| match object.read(&CLUSTER_API_MACHINES) {
                Ok(ReadObject::Machine(machine)) => Some(machine),
                _ => None,
            })
            .collect();
        self.read_before_a_step(cluster, observed, &machines).await?;
        Ok(Some(live))
    }

    fn plan(&self, observed: &Found, state: &mut State, _moment: Moment) -> Vec<Step> {
        let mut steps = observed.planned.iter();
        let created = observed.assessment.plan.steps.iter().find_map(|step| {
            let creates = matches!(step.action, Action::Create { .. });
            creates.then(|| step.machine_of_control_plane()).flatten()
        });
        if observed.source == Source::Caches {
            state.expected = created.map(str::to_owned);
        }
        let agrees = created.is_none() || state.expected.as_deref() == created;
        let is_creation = |origin: Origin| {
            matches!(
                origin,
                Origin::BeginCreation(_) | Origin::Configuration(_) | Origin::Machine(_)
            )
        };
        // The positions of the steps must stay those of `planned`.
        let taken = steps.by_ref().take_while(|one| agrees || !is_creation(one.origin));
        taken.map(|one| one.step.clone()).collect()
    }

    /// Records in the control plane, as it was read, that this process is about to create a
    /// machine. The record fails if the control plane changed since.
    fn before(&self, observed: &Found, step: usize, state: &mut State, moment: Moment) -> Option<Write> {
        let (Origin::BeginCreation(_), core) = observed.core_step(step)? else {
            return None;
        };
        let new = records::creation(core, &self.identity, moment.time)?;
        let metadata = &observed.object.metadata;
        let recorded = records::recorded(metadata).ok()?;
        state.creations.request(&new, &recorded);
        if Creations::is_recorded(&new, &recorded, FRESH) {
            return None;
        }
        let patch = records::record(metadata, &new).ok()?;
        Some(Write::new(
            &KUBEADM_CONTROL_PLANES,
            &observed.key.namespace,
            &observed.key.name,
            Verb::Patch(patch),
        ))
    }

    /// Moves the leadership of etcd, removes members, stores what a machine joins with, and changes
    /// the addons.
    async fn perform(&self, observed: &Found, step: usize) -> Result<(), StepError> {
        let failed = |what: String, error: String| StepError::new(what, kube::Error::Service(error.into()));
        let Some(managed) = &observed.managed else {
            return Ok(());
        };
        if let Some(change) = observed.addon_of(step) {
            let inspected = self.known(&observed.key, &observed.object.metadata).inspected;
            let configuration = inspected.as_ref().and_then(|known| known.configuration.as_ref());
            let changed = change_addon(&self.managed, managed, change, configuration).await;
            return changed.map_err(|error| failed(change.title().to_owned(), error));
        }
        let Some((origin, core)) = observed.core_step(step) else {
            return Ok(());
        };
        let move_leader_to = match &core.action {
            Action::Create {
                bootstrap: Bootstrap::Join,
                ..
            } if matches!(origin, Origin::BeginCreation(_)) => {
                let inspected = self.known(&observed.key, &observed.object.metadata).inspected;
                let configuration = inspected.as_ref().and_then(|known| known.configuration.as_ref());
                let state = &observed.assessment.state;
                let stored = prepare_join(&self.managed, managed, state, configuration).await;
                let what = "storing the configuration with which a machine joins";
                return stored.map_err(|error| failed(what.to_owned(), error));
            }
            Action::Delete { move_leader_to, .. } | Action::RemoveHook { move_leader_to, .. } => move_leader_to,
            Action::RemoveMember { .. } => &Vec::new(),
            _ => return Ok(()),
        };
        let machine = core
            .machine_of_control_plane()
            .and_then(|name| observed.assessment.state.machine(name));
        if let Some(member) = machine.and_then(|machine| machine.member.as_deref())
            && !move_leader_to.is_empty()
        {
            let state = &observed.assessment.state;
            let to: Vec<String> = move_leader_to
                .iter()
                .filter_map(|name| state.machine(name)?.member.clone())
                .collect();
            let moved = self.managed.move_leader(managed, member, &to).await;
            moved.map_err(|error| {
                failed(
                    format!("moving the leadership of etcd from {member}"),
                    error.to_string(),
                )
            })?;
        }
        if let Some(member) = core.action.member() {
            let removed = self.managed.remove_member(managed, member).await;
            removed.map_err(|error| failed(format!("removing etcd member {member:?}"), error.to_string()))?;
            tracing::info!(member, control_plane = %observed.key, "etcd member removed");
            self.forget_member(&observed.key, member);
        }
        Ok(())
    }

    fn failed(
        &self,
        observed: &Found,
        step: usize,
        error: &StepError,
        state: &mut State,
        _moment: Moment,
    ) -> Option<Write> {
        let (origin, core) = observed.core_step(step)?;
        let machine = core.machine_of_control_plane()?;
        match origin {
            Origin::Machine(_) if !error.is_refusal() => state.creations.never_answered(machine),
            // No request for the Machine can be carried out later.
            Origin::Machine(_) | Origin::Configuration(_) | Origin::BeginCreation(_) => {
                state.creations.answered(machine);
            }
            Origin::Core(_) | Origin::Secret | Origin::Upkeep => {}
        }
        None
    }

    fn status(&self, reconciled: &Reconciled<'_, Found>, state: &mut State) -> Vec<Write> {
        let failing = state.attempts.learn(reconciled);
        statuses::writes(reconciled, &mut state.stored, failing.as_ref())
    }

    fn stored(&self, _observed: &Found, write: &Write, written: &Written, state: &mut State) {
        state.stored.learn(write, written);
    }

    fn report<'a>(&self, reconciled: &Reconciled<'a, Found>, state: &mut State) -> Report<'a> {
        let observed = reconciled.observed;
        let plan = &observed.assessment.plan;
        let steps = reconciled.taken.iter().filter_map(|at| observed.core_step(*at));
        let steps: Vec<(Origin, &CoreStep)> = steps.collect();
        for (origin, step) in &steps {
            if let (Origin::Machine(_), Some(machine)) = (origin, step.machine_of_control_plane()) {
                state.creations.answered(machine);
            }
        }
        let is_progress = |(origin, step): &(Origin, &CoreStep)| {
            matches!(origin, Origin::Machine(_) | Origin::Core(_)) && step.is_disruptive()
        };
        if reconciled.errors.is_empty() && steps.iter().any(is_progress) {
            state.attempts.succeeded();
        }
        let waits = plan.waits.iter().map(|wait| EventSpec {
            warning: false,
            reason: wait.reason.name(),
            message: wait.message.as_str().into(),
            key: wait.message.clone(),
        });
        let stops = plan.degraded.iter().map(|reason| EventSpec {
            warning: true,
            reason: reason.reason,
            message: reason.message.as_str().into(),
            key: format!("{:?}", observed.object.metadata.generation),
        });
        let addons = observed.addon.as_ref().err().map(|problem| EventSpec {
            warning: true,
            reason: "AddonNotUpgraded",
            message: problem.as_str().into(),
            key: problem.clone(),
        });
        let errors = reconciled.errors.iter();
        let errors = errors.filter(|error| !error.is_conflict() || error.is_name_taken());
        let failures = errors.map(|error| EventSpec {
            warning: true,
            reason: "Failed",
            message: error.to_string().into(),
            key: error.to_string(),
        });
        let poll = if observed.is_settled() { SETTLED } else { UNSETTLED };
        // A kubeconfig that is corrected may have no label, so it is not watched.
        let waits_for_contact = |wait: &Wait| wait.reason == WaitReason::EarlierControlPlaneGone;
        let is_due = observed.can_be_inspected || plan.waits.iter().any(waits_for_contact);
        let poll = is_due.then(|| reconciled.moment.time + poll);
        let planned: Option<Timestamp> = plan.reconcile_at;
        Report {
            about: Some(observed.object.metadata.clone()),
            lasting: waits.chain(stops).chain(addons).chain(failures).collect(),
            once: steps.iter().filter_map(|(origin, step)| event(*origin, step)).collect(),
            requeue_at: poll.into_iter().chain(planned).min(),
        }
    }
}

/// Whether the managed cluster may have an API server. One without a known machine may have lost
/// its Machines only, so it is read before a first machine is created (V282).
fn may_answer(assessment: &Assessment) -> bool {
    let state = &assessment.state;
    !state.machines.is_empty() || (assessment.ran_before.is_some() && !state.is_deleting())
}

/// The Secrets with the label of a Cluster.
fn secrets_of(view: &View, namespace: &str, cluster: &str) -> Vec<Arc<SecretSummary>> {
    let known = view.objects.of::<SecretSummary>(&SECRETS);
    let first = NamespacedName::new(namespace, "");
    let secrets = known.into_iter().flat_map(|known| known.objects.range(first.clone()..));
    let is_own = |metadata: &ObjectMeta| metadata.labels.get(label::CLUSTER).map(String::as_str) == Some(cluster);
    secrets
        .take_while(|(key, _)| key.namespace == namespace)
        .filter(|(_, secret)| is_own(&secret.metadata))
        .map(|(_, secret)| Arc::clone(secret))
        .collect()
}

/// The event about a step. The bookkeeping of the control plane itself is no event.
fn event(origin: Origin, step: &CoreStep) -> Option<EventSpec<'static>> {
    let (reason, verb) = match (&step.action, origin) {
        (Action::Create { .. }, Origin::Machine(_)) => ("Created", "created"),
        (Action::Delete { .. }, _) => ("Deleted", "deleted"),
        (Action::RemoveMember { .. } | Action::RemoveHook { .. }, _) => ("MemberRemoved", "released"),
        _ => return None,
    };
    let version = step
        .precondition
        .as_ref()
        .map_or("", |precondition| &precondition.resource_version);
    let subject = &step.subject;
    Some(EventSpec {
        warning: false,
        reason,
        message: format!("{verb} {} {}: {}", subject.kind, subject.name, step.because).into(),
        key: format!("{} {version}", subject.name),
    })
}
