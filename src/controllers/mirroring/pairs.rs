//! The objects of one mirrored Machine in a view, and the live reads that refresh them.
//!
//! An object of a kind that is not known yet, or that the cluster serves in another version only,
//! must never count as absent. Then there is no pair.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use capstan_core::api::config_openshift_io::infrastructure;
use capstan_core::api::kind::KindInfo;
use capstan_core::api::kinds;
use capstan_core::authority::other::LEASE;
use capstan_core::authority::pair::{FullObject, Pair, Surroundings};
use capstan_core::authority::platforms::MirroredPlatforms;
use capstan_core::authority::spec::{Api, Kind, PairMember};
use capstan_core::model::NamespacedName;
use futures::future::try_join_all;
use serde_json::Value;

use super::kind::MirroredKind;
use super::objects::{self, LEASES, NamedObject, SECRETS, StoredObject, is_check};
use crate::runtime::{Cluster, StepError, View};

/// How often the objects of a pair are read before the reconcile is given up.
const ATTEMPTS: usize = 4;

/// The namespaces of both APIs, and the kinds of their objects.
#[derive(Debug)]
pub(super) struct Pairs {
    pub(super) machine_api: String,
    pub(super) cluster_api: String,
    machines: BTreeMap<&'static str, KindInfo>,
    pub(super) templates: BTreeMap<&'static str, KindInfo>,
    clusters: BTreeMap<&'static str, KindInfo>,
    platforms: MirroredPlatforms,
}

/// The objects of a kind are not known.
#[derive(Debug)]
pub(super) struct Unknown;

impl Pairs {
    pub(super) fn new(machine_api: &str, cluster_api: &str) -> Self {
        Self {
            machine_api: machine_api.to_owned(),
            cluster_api: cluster_api.to_owned(),
            machines: objects::machines(),
            templates: objects::templates(),
            clusters: objects::clusters(),
            platforms: MirroredPlatforms::default(),
        }
    }

    /// The same, for these platforms only.
    pub(super) fn of_platforms(self, platforms: MirroredPlatforms) -> Self {
        Self { platforms, ..self }
    }

    /// Why nothing is mirrored on the platform of the cluster, if it is switched off.
    pub(super) fn switched_off(&self, view: &View) -> Option<String> {
        let found = view
            .objects
            .get::<StoredObject>(&kinds::INFRASTRUCTURES, "", infrastructure::NAME);
        self.platforms.obstacle(found.map(|found| found.value()))
    }

    pub(super) fn home(&self, kind: &KindInfo) -> &str {
        if kind.group == kinds::MACHINES.group {
            &self.machine_api
        } else {
            &self.cluster_api
        }
    }

    pub(super) fn find<'a>(
        &self,
        view: &'a View,
        kind: &KindInfo,
        name: &str,
    ) -> Result<Option<&'a StoredObject>, Unknown> {
        let known = view.objects.of::<StoredObject>(kind).ok_or(Unknown)?;
        let key = NamespacedName::new(self.home(kind), name);
        if known.undecodable.get(&key).is_some() {
            return Err(Unknown);
        }
        Ok(known.objects.get(&key).map(|object| &**object))
    }

    pub(super) fn full(&self, view: &View, kind: &KindInfo, name: &str) -> Result<Option<FullObject>, Unknown> {
        let found = self.find(view, kind, name)?;
        Ok(found.map(StoredObject::full))
    }

    /// The Lease of another sync controller.
    pub(super) fn lease<'a>(&self, view: &'a View) -> Result<Option<&'a Value>, Unknown> {
        Ok(self.find(view, &LEASES, LEASE)?.map(|lease| &*lease.value))
    }

    /// The infrastructure machine of a Machine in Cluster API. Without that Machine, one of the
    /// same name: it is what is left of a mirror.
    fn infrastructure_ref(
        &self,
        view: &View,
        name: &str,
        cluster_api: Option<&PairMember>,
    ) -> Result<Option<(&KindInfo, String)>, Unknown> {
        if let Some(member) = cluster_api {
            let Some((kind, name)) = &member.infrastructure else {
                return Ok(None);
            };
            let kind = self.machines.get(kind.as_str()).ok_or(Unknown)?;
            return Ok(Some((kind, name.clone())));
        }
        for kind in self.machines.values() {
            if self.find(view, kind, name)?.is_some() {
                return Ok(Some((kind, name.to_owned())));
            }
        }
        Ok(None)
    }

    /// The names of the MachineSets that own one of the Machines.
    fn sets(members: &[Option<&PairMember>]) -> BTreeSet<String> {
        let owners = members.iter().flatten().filter_map(|member| member.owner());
        let sets = owners.filter(|owner| owner.kind == "MachineSet");
        sets.map(|owner| owner.name.clone()).collect()
    }

    /// The objects of a Machine.
    pub(super) fn pair(&self, view: &View, name: &str) -> Result<Pair, Unknown> {
        let machine_api = self.full(view, &kinds::MACHINES, name)?;
        let cluster_api = self.full(view, &kinds::CLUSTER_API_MACHINES, name)?;
        let members = [&machine_api, &cluster_api].map(|object| object.as_ref().map(|object| &*object.member));
        let infrastructure = match self.infrastructure_ref(view, name, members.last().copied().flatten())? {
            Some((kind, name)) => self.full(view, kind, &name)?,
            None => None,
        };
        let mut sets = [None, None];
        for name in Self::sets(&members) {
            for (kind, slot) in [&kinds::MACHINE_SETS, &kinds::CLUSTER_API_MACHINE_SETS]
                .into_iter()
                .zip(&mut sets)
            {
                if slot.is_none() {
                    *slot = self.full(view, kind, &name)?;
                }
            }
        }
        let [machine_api_set, cluster_api_set] = sets;
        let surroundings = self.surroundings(view)?;
        Ok(Pair {
            kind: Kind::Machine,
            name: name.to_owned(),
            machine_api,
            cluster_api,
            infrastructure,
            machine_api_set,
            cluster_api_set,
            surroundings,
            ..Pair::default()
        })
    }

    /// The name of the Cluster, which OpenShift gives to the whole cluster.
    pub(super) fn cluster_name(view: &View) -> Option<&str> {
        let infrastructure = view
            .objects
            .get::<StoredObject>(&kinds::INFRASTRUCTURES, "", infrastructure::NAME)?;
        infrastructure.value.pointer("/status/infrastructureName")?.as_str()
    }

    pub(super) fn surroundings(&self, view: &View) -> Result<Surroundings, Unknown> {
        let infrastructure = view
            .objects
            .of::<StoredObject>(&kinds::INFRASTRUCTURES)
            .ok_or(Unknown)?;
        let infrastructure = infrastructure.objects.values().next();
        let cluster = match Self::cluster_name(view) {
            Some(name) => self.find(view, &kinds::CLUSTER_API_CLUSTERS, name)?,
            None => None,
        };
        let text = |at: &str| cluster.and_then(|cluster| cluster.value.pointer(at)?.as_str());
        let reference = text("/spec/infrastructureRef/kind").zip(text("/spec/infrastructureRef/name"));
        let infrastructure_cluster = match reference {
            Some((kind, name)) => match self.clusters.get(kind) {
                Some(kind) => self.find(view, kind, name)?,
                None => None,
            },
            None => None,
        };
        let secrets = view.objects.of::<NamedObject>(&SECRETS).ok_or(Unknown)?;
        Ok(Surroundings {
            machine_api_namespace: self.machine_api.clone(),
            cluster_api_namespace: self.cluster_api.clone(),
            cluster: cluster.map(|cluster| Arc::clone(&cluster.value)),
            infrastructure_cluster: infrastructure_cluster.map(|cluster| Arc::clone(&cluster.value)),
            infrastructure: infrastructure.map(|infrastructure| Arc::clone(&infrastructure.value)),
            secrets: secrets.objects.keys().map(|key| key.name.clone()).collect(),
        })
    }

    /// The view with all objects of a Machine, the Cluster, and the Lease of another sync
    /// controller as live reads show them. The other surroundings change seldom, and no write that
    /// they decide can harm an instance.
    pub(super) async fn refreshed<C: Cluster>(&self, cluster: &C, view: &View, name: &str) -> Result<View, StepError> {
        let pair = [&kinds::MACHINES, &kinds::CLUSTER_API_MACHINES];
        self.live(cluster, view, pair, name, |view| self.parts(view, name))
            .await
    }

    /// The infrastructure machine and the MachineSets of a Machine.
    fn parts(&self, view: &View, name: &str) -> Vec<(&KindInfo, String)> {
        let member = |kind: &KindInfo| {
            let found = self.find(view, kind, name).ok().flatten();
            found.map(|object| Arc::clone(object.member()))
        };
        let (machine_api, cluster_api) = (member(&kinds::MACHINES), member(&kinds::CLUSTER_API_MACHINES));
        let infrastructure = self.infrastructure_ref(view, name, cluster_api.as_deref());
        let mut parts: Vec<(&KindInfo, String)> = infrastructure.ok().flatten().into_iter().collect();
        for name in Self::sets(&[machine_api.as_deref(), cluster_api.as_deref()]) {
            parts.push((&kinds::MACHINE_SETS, name.clone()));
            parts.push((&kinds::CLUSTER_API_MACHINE_SETS, name));
        }
        parts
    }

    /// The view with the two objects of a pair, the Cluster, the Lease of another sync controller,
    /// and the parts of the pair as live reads show them. The names of the parts come from the
    /// caches; what the live objects name besides is read afterwards.
    ///
    /// The object of the Machine API, which names the authoritative API, is read last, and it must
    /// be the one that was known before the other reads. So it was the same during all of them.
    /// Otherwise, a migration by another process in between could make an object of Cluster API
    /// that this migration paused look like one to unpause.
    pub(super) async fn live<'a, C: Cluster>(
        &'a self,
        cluster: &C,
        view: &View,
        pair: [&'a KindInfo; 2],
        name: &str,
        parts: impl Fn(&View) -> Vec<(&'a KindInfo, String)>,
    ) -> Result<View, StepError> {
        let [machine_api, cluster_api] = pair.map(|kind| (kind, name.to_owned()));
        let version = |view: &View| {
            let found = self.find(view, machine_api.0, name).ok().flatten();
            found.map(|object| object.metadata.resource_version.clone())
        };
        let mut live = view.clone();
        for _ in 0..ATTEMPTS {
            let infrastructure = Self::cluster_name(view).map(|name| (&kinds::CLUSTER_API_CLUSTERS, name.to_owned()));
            let lease = (&LEASES, String::from(LEASE));
            let known = [cluster_api.clone(), lease].into_iter().chain(infrastructure);
            let known: Vec<(&KindInfo, String)> = known.chain(parts(&live)).collect();
            self.read(cluster, &mut live, &known).await?;
            let others = parts(&live).into_iter().filter(|part| !known.contains(part));
            let others: Vec<(&KindInfo, String)> = others.collect();
            self.read(cluster, &mut live, &others).await?;
            let before = version(&live);
            self.read(cluster, &mut live, std::slice::from_ref(&machine_api))
                .await?;
            if version(&live) == before {
                return Ok(live);
            }
        }
        let text = "it changes while its mirror is read; retrying";
        let title = format!("reading {} {name}", machine_api.0.kind);
        Err(StepError::new(title, kube::Error::Service(text.into())))
    }

    /// Reads objects live, all at once. A kind whose objects are unknown stays unknown.
    async fn read<C: Cluster>(
        &self,
        cluster: &C,
        view: &mut View,
        objects: &[(&KindInfo, String)],
    ) -> Result<(), StepError> {
        let known = objects
            .iter()
            .filter(|(kind, _)| view.objects.of::<StoredObject>(kind).is_some());
        let reads = known.map(async |(kind, name)| {
            let key = NamespacedName::new(self.home(kind), name);
            let read = cluster.get::<StoredObject>(kind, &key.namespace, &key.name).await;
            let read = read.map_err(|error| StepError::new(format!("reading {} {key}", kind.kind), error))?;
            Ok::<_, StepError>((*kind, key, read))
        });
        for (kind, key, read) in try_join_all(reads).await? {
            view.put(kind, &key, read);
        }
        Ok(())
    }

    /// The names of the Machines that an object of a kind belongs to. `None`: all of them.
    pub(super) fn affected(&self, view: &View, kind: &str, group: &str, name: &str) -> Option<BTreeSet<String>> {
        let is_machine = |known: &KindInfo| known.group == group && known.kind == kind;
        if is_machine(&kinds::MACHINES) || is_machine(&kinds::CLUSTER_API_MACHINES) {
            return Some(BTreeSet::from([name.to_owned()]));
        }
        if is_check(kind, group) {
            return Some(BTreeSet::new());
        }
        if group == LEASES.group {
            // It is renewed every few seconds. A Machine that waits for it is reconciled again when
            // it expires.
            return Some(BTreeSet::new());
        }
        if let Some(known) = self.machines.get(kind) {
            // Its own name, and the Machine that owns it.
            let object = self.find(view, known, name).ok().flatten();
            let owners = object.into_iter().flat_map(|object| &object.metadata.owner_references);
            let machines = owners
                .filter(|owner| owner.kind == "Machine")
                .map(|owner| owner.name.clone());
            return Some(machines.chain([name.to_owned()]).collect());
        }
        if kind == kinds::MACHINE_SETS.kind {
            return Some(self.members_of_set(view, name));
        }
        if self.templates.contains_key(kind) {
            return Some(BTreeSet::new());
        }
        None
    }

    fn members_of_set(&self, view: &View, set: &str) -> BTreeSet<String> {
        let machines = [Api::MachineApi, Api::ClusterApi].into_iter().flat_map(|api| {
            let kind = machines_of(api);
            view.objects.all::<StoredObject>(kind).into_iter().flatten()
        });
        let is_member = |object: &&Arc<StoredObject>| {
            let mut owners = object.metadata.owner_references.iter();
            owners.any(|owner| owner.kind == "MachineSet" && owner.name == set)
        };
        machines
            .filter(is_member)
            .map(|object| object.metadata.name().to_owned())
            .collect()
    }

    /// The kinds of the objects of a pair that have its name. The Machine of an infrastructure
    /// machine may be gone.
    fn kinds_of<K: MirroredKind>(&self) -> impl Iterator<Item = &KindInfo> {
        let infrastructure = self.machines.values().filter(|_| K::PAIR == Kind::Machine);
        [K::MACHINE_API, K::CLUSTER_API].into_iter().chain(infrastructure)
    }

    /// The names of all pairs of a kind.
    pub(super) fn all<K: MirroredKind>(&self, view: &View) -> BTreeSet<String> {
        self.kinds_of::<K>()
            .flat_map(|kind| view.objects.keys(kind))
            .map(|object| object.name)
            .collect()
    }

    /// Whether no object has the name of a pair of a kind.
    pub(super) fn is_gone<K: MirroredKind>(&self, view: &View, name: &str) -> bool {
        self.kinds_of::<K>()
            .all(|kind| matches!(self.find(view, kind, name), Ok(None)))
    }

    /// The kind of infrastructure machines or templates with this name.
    pub(super) fn infrastructure_kind(&self, kind: &str) -> Option<&KindInfo> {
        self.machines.get(kind).or_else(|| self.templates.get(kind))
    }
}

/// The Machines of an API.
pub(super) fn machines_of(api: Api) -> &'static KindInfo {
    match api {
        Api::MachineApi => &kinds::MACHINES,
        Api::ClusterApi => &kinds::CLUSTER_API_MACHINES,
    }
}

#[cfg(test)]
mod tests;
