//! The state of the environment: what its actors know, and what invariants need to know of the
//! past.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use capstan_core::authority::pair::FullObject;
use capstan_core::authority::spec::Api;
use serde_json::Value;

use crate::simulation::engine::kinds::{KindId, ObjectKey};
use crate::simulation::engine::schedule::{Incident, Schedule};
use crate::simulation::engine::world::World;

use super::mutants::Mutant;
use super::objects::{HEALTH_CHECK, MACHINE, MIRROR, MIRROR_CHECK, MIRROR_SET, SET, of_cluster_api, of_machine_api};

/// A schedule of this environment.
pub(super) type PairSchedule = Schedule<Setup, Act>;

/// What a schedule sets the environment up with.
#[derive(Clone, Debug)]
pub(crate) struct Setup {
    /// Which API is authoritative at first.
    pub(super) authority: Api,
    /// The bug that the controllers have.
    pub(super) mutant: Option<Mutant>,
}

/// Something that a user does. A Machine is given by its position among all Machines.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Act {
    /// Requests an API for a Machine.
    Migrate(usize, Api),
    /// Requests an API for the MachineSet.
    MigrateSet(Api),
    /// Requests an API for the MachineHealthCheck.
    MigrateCheck(Api),
    /// Requests the other API for a Machine, and takes it back after so many milliseconds, as a
    /// tool does that applies what a repository has.
    Revert(usize, i64),
    /// Sets a label of an authoritative Machine.
    Edit(usize),
    /// Changes the instance type of the authoritative MachineSet.
    EditSet,
    /// Scales the authoritative MachineSet.
    Scale(i64),
    /// Deletes a Machine of an API.
    Delete(usize, Api),
    /// Deletes the MachineSet of the API that is not authoritative.
    DeleteMirrorSet,
    /// Deletes the authoritative MachineSet.
    DeleteSet,
    /// The node of a Machine fails.
    Break(usize),
    /// The autoscaler asks for one Machine more, or less, so many milliseconds after it read the
    /// MachineSet.
    Autoscale(bool, i64),
}

impl From<Act> for Incident<Act> {
    fn from(act: Act) -> Self {
        Self::Act(act)
    }
}

/// A controller beside those under test.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Role {
    MachineApi,
    MachineApiSets,
    MachineApiChecks,
    ClusterApi,
    ClusterApiSets,
    ClusterApiChecks,
    Provider,
}

/// An event of an actor.
#[derive(Debug)]
pub(crate) enum Event {
    /// A controller reads an object.
    Read(Role, String),
    /// A controller acts on what it read.
    Act(Role, String, Box<ReadObjects>),
    /// A user requests an API for a Machine again.
    Request(String, Api),
    /// The autoscaler acts on the MachineSet of an API that it read: see [`Act::Autoscale`].
    Scale(Api, bool, i64),
}

/// What a controller read.
#[derive(Clone, Debug, Default)]
pub(crate) struct ReadObjects {
    pub(super) object: Option<Arc<FullObject>>,
    /// The infrastructure machine of a Machine of Cluster API, or the authoritative status of a
    /// MachineSet's Machines.
    pub(super) other: Option<Arc<FullObject>>,
    pub(super) machines: Vec<Arc<FullObject>>,
}

/// The instances.
#[derive(Debug, Default)]
pub(super) struct Cloud {
    /// The id of the instance of a Machine, by name.
    pub(super) instances: BTreeMap<String, String>,
    pub(super) created: BTreeSet<String>,
}

/// The environment.
#[derive(Debug)]
pub(crate) struct BothApis {
    pub(super) setup: Setup,
    /// What is stored, as the actors and the invariants read it.
    pub(super) stored: BTreeMap<ObjectKey, Arc<FullObject>>,
    pub(super) cloud: Cloud,
    /// What each controller is about to do.
    pub(super) pending: BTreeSet<(Role, String)>,
    /// What changed after a controller read it.
    pub(super) changed: BTreeSet<(Role, String)>,
    /// The Machines whose instance a request deletes, by name.
    pub(super) doomed: BTreeSet<String>,
    /// The authoritative Machines without an owner that a user deleted, by name, with their API. By
    /// the table, the other object stays without its instance.
    pub(super) lone: BTreeMap<String, Api>,
    /// The last value of the label that a user set on an authoritative Machine.
    pub(super) edits: BTreeMap<String, String>,
    /// Machines whose node does not work.
    pub(super) broken: BTreeSet<String>,
    pub(super) counter: u64,
}

/// What invariants know about one moment.
#[derive(Clone, Debug)]
pub(crate) struct Moment;

impl BothApis {
    pub(super) fn new(setup: &Setup) -> Self {
        Self {
            setup: setup.clone(),
            stored: BTreeMap::new(),
            cloud: Cloud::default(),
            pending: BTreeSet::new(),
            changed: BTreeSet::new(),
            doomed: BTreeSet::new(),
            lone: BTreeMap::new(),
            edits: BTreeMap::new(),
            broken: BTreeSet::new(),
            counter: 0,
        }
    }
}

/// Reading what is stored.
impl World<BothApis> {
    pub(super) fn get(&self, key: &ObjectKey) -> Option<Arc<FullObject>> {
        self.environment.stored.get(key).cloned()
    }

    pub(super) fn of_kind(&self, kind: KindId) -> Vec<Arc<FullObject>> {
        let all = self.environment.stored.range(ObjectKey::new(kind, "", "")..);
        let all = all.take_while(|(key, _)| key.kind == kind);
        all.map(|(_, object)| Arc::clone(object)).collect()
    }

    /// The Machine of the Machine API.
    pub(super) fn machine(&self, name: &str) -> Option<Arc<FullObject>> {
        self.get(&of_machine_api(MACHINE, name))
    }

    /// The Machine of Cluster API.
    pub(super) fn mirror(&self, name: &str) -> Option<Arc<FullObject>> {
        self.get(&of_cluster_api(MIRROR, name))
    }

    /// The names of all Machines of both APIs.
    pub(super) fn names(&self) -> Vec<String> {
        let all = [MACHINE, MIRROR].into_iter().flat_map(|kind| self.of_kind(kind));
        let names: BTreeSet<String> = all.map(|object| object.member.name.clone()).collect();
        names.into_iter().collect()
    }

    /// The name of the Machine at a position. Positions beyond the last one wrap around.
    pub(super) fn name_at(&self, position: usize) -> Option<String> {
        let names = self.names();
        names.get(position.checked_rem(names.len())?).cloned()
    }
}

/// The key of the object of a mirrored kind in an API.
pub(super) fn key(kind: KindId, api: Api, name: &str) -> ObjectKey {
    let mirror = match kind {
        kind if kind == MACHINE => MIRROR,
        kind if kind == SET => MIRROR_SET,
        kind if kind == HEALTH_CHECK => MIRROR_CHECK,
        kind => kind,
    };
    match api {
        Api::MachineApi => of_machine_api(kind, name),
        Api::ClusterApi => of_cluster_api(mirror, name),
    }
}

/// The API that `status.authoritativeAPI` names, or that was authoritative before the migration.
pub(super) fn source(object: &FullObject) -> Option<Api> {
    let text = |at| object.text(at);
    match text("/status/authoritativeAPI")? {
        "Migrating" => Api::parse(text("/status/synchronizedAPI")?),
        stable => Api::parse(stable),
    }
}

/// Whether an owner reference names an owner.
pub(super) fn is_owned(object: &FullObject, uid: &str) -> bool {
    let owners = object
        .value
        .pointer("/metadata/ownerReferences")
        .and_then(Value::as_array);
    let mut uids = owners
        .into_iter()
        .flatten()
        .filter_map(|owner| owner.get("uid")?.as_str());
    uids.any(|owner| owner == uid)
}
