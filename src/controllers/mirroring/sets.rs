//! The objects of one mirrored MachineSet in a view, and the live reads that refresh them.
//!
//! An object of a kind that is not known yet must never count as absent. Then there is no pair.

use std::collections::BTreeSet;

use capstan_core::api::kind::KindInfo;
use capstan_core::api::kinds;
use capstan_core::authority::TEMPLATE_SET;
use capstan_core::authority::pair::{FullObject, Member, Pair};
use capstan_core::authority::spec::{Api, Kind};
use capstan_core::authority::state::template_set;

use super::objects::{LEASES, StoredObject, is_check};
use super::pairs::{Pairs, Unknown, machines_of};
use crate::runtime::{Cluster, StepError, View};

const SETS: [&KindInfo; 2] = [&kinds::MACHINE_SETS, &kinds::CLUSTER_API_MACHINE_SETS];

impl Pairs {
    /// The MachineSets of a name, and what belongs to them.
    pub(super) fn set_pair(&self, view: &View, name: &str) -> Result<Pair, Unknown> {
        let machine_api = self.full(view, &kinds::MACHINE_SETS, name)?;
        let cluster_api = self.full(view, &kinds::CLUSTER_API_MACHINE_SETS, name)?;
        let reference = cluster_api.as_ref().and_then(|set| set.member.infrastructure.clone());
        let mut templates = self.templates_of(view, name);
        if let Some((kind, name)) = &reference
            && let Some(kind) = self.templates.get(kind.as_str())
            && !templates.iter().any(|known| is_named(known, &kind.kind, name))
        {
            templates.extend(self.full(view, kind, name)?);
        }
        let referenced = reference
            .as_ref()
            .and_then(|(kind, name)| templates.iter().position(|known| is_named(known, kind, name)));
        let infrastructure = referenced.map(|at| templates.swap_remove(at));
        Ok(Pair {
            kind: Kind::MachineSet,
            name: name.to_owned(),
            machine_api,
            cluster_api,
            infrastructure,
            templates,
            templates_in_use: self.templates_in_use(view)?,
            members: self.members(view, name)?,
            surroundings: self.surroundings(view)?,
            ..Pair::default()
        })
    }

    /// The infrastructure templates that were made for a MachineSet. A kind that the cluster does
    /// not serve has none.
    fn templates_of(&self, view: &View, set: &str) -> Vec<FullObject> {
        let all = self.templates.values();
        let stored = all.flat_map(|kind| view.objects.all::<StoredObject>(kind).into_iter().flatten());
        let is_made = |object: &&std::sync::Arc<StoredObject>| {
            let label = object.metadata.labels.get(TEMPLATE_SET).map(String::as_str);
            label == Some(set) || template_set(object.metadata.name()) == Some(set)
        };
        let mut found: Vec<FullObject> = stored.filter(is_made).map(|object| object.full()).collect();
        found.sort_by(|one, other| one.text("/metadata/name").cmp(&other.text("/metadata/name")));
        found
    }

    /// The names of the templates that a MachineSet of Cluster API refers to.
    fn templates_in_use(&self, view: &View) -> Result<Vec<String>, Unknown> {
        let known = view
            .objects
            .of::<StoredObject>(&kinds::CLUSTER_API_MACHINE_SETS)
            .ok_or(Unknown)?;
        let sets = known.objects.values().map(|set| set.member());
        let names: BTreeSet<String> = sets
            .filter_map(|set| Some(set.infrastructure.as_ref()?.1.clone()))
            .collect();
        Ok(names.into_iter().collect())
    }

    /// The Machines of both APIs that a MachineSet of this name owns.
    fn members(&self, view: &View, set: &str) -> Result<Vec<Member>, Unknown> {
        let mut members = Vec::new();
        for api in [Api::MachineApi, Api::ClusterApi] {
            let known = view.objects.of::<StoredObject>(machines_of(api)).ok_or(Unknown)?;
            for object in known.objects.values() {
                let mut owners = object.metadata.owner_references.iter();
                if owners.any(|owner| owner.kind == "MachineSet" && owner.name == set) {
                    let machine_api = self.full(view, &kinds::MACHINES, object.metadata.name())?;
                    let object = object.full();
                    members.push(Member::new(api, object, machine_api.as_ref()));
                }
            }
        }
        Ok(members)
    }

    /// The view with both MachineSets, the template of the mirror, the Cluster, and the Lease of
    /// another sync controller as live reads show them. If a MachineSet is being deleted, the
    /// Machines are read live too: the garbage collector deletes what it owns, and caches that were
    /// filled from a server that lags do not show which Machines became authoritative (V238).
    pub(super) async fn refreshed_set<C: Cluster>(
        &self,
        cluster: &C,
        view: &View,
        name: &str,
    ) -> Result<View, StepError> {
        let template = |view: &View| {
            let mirror = self.find(view, &kinds::CLUSTER_API_MACHINE_SETS, name).ok().flatten();
            let reference = mirror.and_then(|set| set.member().infrastructure.clone());
            let template = reference.and_then(|(kind, name)| Some((self.templates.get(kind.as_str())?, name)));
            template.into_iter().collect()
        };
        let mut live = self.live(cluster, view, SETS, name, template).await?;
        if self.is_deleting(&live, name) {
            for api in [Api::MachineApi, Api::ClusterApi] {
                self.list(cluster, &mut live, machines_of(api)).await?;
            }
        }
        Ok(live)
    }

    /// Reads all objects of a kind live. A kind whose objects are unknown stays unknown.
    async fn list<C: Cluster>(&self, cluster: &C, view: &mut View, kind: &KindInfo) -> Result<(), StepError> {
        if view.objects.of::<StoredObject>(kind).is_none() {
            return Ok(());
        }
        let found = cluster.list::<StoredObject>(kind, self.home(kind), &[]).await;
        let found = found.map_err(|error| StepError::new(format!("listing {} of {}", kind.kind, kind.group), error))?;
        view.replace(kind, found);
        Ok(())
    }

    /// The names of the MachineSets that an object of a kind belongs to. `None`: all of them.
    pub(super) fn affected_sets(&self, view: &View, kind: &str, group: &str, name: &str) -> Option<BTreeSet<String>> {
        let is_kind = |known: &KindInfo| known.group == group && known.kind == kind;
        if SETS.into_iter().any(is_kind) {
            return Some(BTreeSet::from([name.to_owned()]));
        }
        for api in [Api::MachineApi, Api::ClusterApi] {
            if is_kind(machines_of(api)) {
                // A Machine matters only while its MachineSet is being deleted.
                let machine = self.find(view, machines_of(api), name).ok().flatten();
                let owners = machine.into_iter().flat_map(|object| &object.metadata.owner_references);
                let sets = owners
                    .filter(|owner| owner.kind == "MachineSet")
                    .map(|owner| owner.name.clone());
                return Some(sets.filter(|set| self.is_deleting(view, set)).collect());
            }
        }
        if group == LEASES.group
            || is_check(kind, group)
            || self
                .infrastructure_kind(kind)
                .is_some_and(|_| !self.templates.contains_key(kind))
        {
            return Some(BTreeSet::new());
        }
        if let Some(template) = self.templates.get(kind) {
            let object = self.find(view, template, name).ok().flatten();
            let label = object.and_then(|object| object.metadata.labels.get(TEMPLATE_SET).cloned());
            let mut sets: BTreeSet<String> = label.into_iter().collect();
            sets.extend(template_set(name).map(str::to_owned));
            let stored = view.objects.all::<StoredObject>(&kinds::CLUSTER_API_MACHINE_SETS);
            let users = stored.into_iter().flatten().filter(|set| {
                let reference = set.member().infrastructure.clone();
                reference.is_some_and(|(of, used)| of == kind && used == name)
            });
            sets.extend(users.map(|set| set.metadata.name().to_owned()));
            return Some(sets);
        }
        None
    }

    fn is_deleting(&self, view: &View, set: &str) -> bool {
        SETS.into_iter().any(|kind| {
            let found = self.find(view, kind, set).ok().flatten();
            found.is_some_and(|set| set.member().deleting)
        })
    }
}

fn is_named(object: &FullObject, kind: &str, name: &str) -> bool {
    object.text("/kind") == Some(kind) && object.text("/metadata/name") == Some(name)
}
