//! Objects that are read from the API server when an object is created.
//!
//! The caches may lag behind by seconds. A user who creates an object in one API, and then the
//! object of the same name in the other API, would pass every rule, because the caches do not have
//! the first object yet. A creation therefore counts only after its counterparts were read. This
//! module names those objects and keeps the results. It must never read anything itself.

use std::sync::Arc;

use super::config::Config;
use super::rules::Subject;
use super::spec::{Api, Kind, PairMember};
use super::state::{Counterpart, pair_names};
use crate::api::kind::KindInfo;
use crate::api::kinds;
use crate::model::{Edit, Operation};

/// The most objects that one creation reads. A user can invent any number of owners of an
/// infrastructure machine; the caches judge the others.
const MOST: usize = 4;

/// An object to read from the API server.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LiveRead {
    /// The API.
    pub api: Api,
    /// The mirrored kind: Machine, MachineSet or MachineHealthCheck.
    pub kind: Kind,
    /// The namespace of the API.
    pub namespace: String,
    /// The name.
    pub name: String,
}

impl LiveRead {
    /// The kind as the API server serves it.
    pub fn kind_info(&self) -> &'static KindInfo {
        match (self.api, self.kind.mirrored_kind()) {
            (Api::MachineApi, Kind::Machine) => &kinds::MACHINES,
            (Api::MachineApi, Kind::MachineSet) => &kinds::MACHINE_SETS,
            (Api::MachineApi, _) => &kinds::MACHINE_HEALTH_CHECKS,
            (Api::ClusterApi, Kind::Machine) => &kinds::CLUSTER_API_MACHINES,
            (Api::ClusterApi, Kind::MachineSet) => &kinds::CLUSTER_API_MACHINE_SETS,
            (Api::ClusterApi, _) => &kinds::CLUSTER_API_MACHINE_HEALTH_CHECKS,
        }
    }
}

/// What a live read found.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum LiveResult {
    /// The read failed.
    Unknown,
    /// The object does not exist.
    Absent,
    /// The object exists.
    Found(Arc<PairMember>),
}

/// An object that was read from the API server. It replaces what the caches hold.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LiveObject {
    /// The object that was read.
    pub read: LiveRead,
    /// The result.
    pub result: LiveResult,
}

impl LiveObject {
    /// The result, if this is the object of that API, kind and name.
    pub(super) fn find(&self, api: Api, kind: Kind, name: &str) -> Option<Counterpart<'_>> {
        let read = &self.read;
        let fits = read.api == api && read.kind.mirrored_kind() == kind.mirrored_kind() && read.name == name;
        fits.then(|| match &self.result {
            LiveResult::Unknown => Counterpart::Unknown,
            LiveResult::Absent => Counterpart::Absent,
            LiveResult::Found(member) => Counterpart::Found(member),
        })
    }
}

/// The objects of the other API that decide about a creation; empty for any other operation. The
/// sync controller reads both objects itself.
pub fn reads_of_creation(subject: Subject, edit: &Edit<'_>, config: &Config) -> Vec<LiveRead> {
    let created = edit
        .object
        .filter(|_| edit.operation == Operation::Create && edit.subresource.is_empty());
    let Some(object) = created else {
        return Vec::new();
    };
    if edit.namespace != config.namespace(subject.api) || config.syncs(edit.user) {
        return Vec::new();
    }
    let new = PairMember::read(object);
    let name = if edit.name.is_empty() { &new.name } else { edit.name };
    let mut names = pair_names(subject.kind, &new, name);
    // The own name is the last one. It must not be crowded out by invented owners.
    names.reverse();
    let mut reads: Vec<LiveRead> = Vec::new();
    let api = subject.api.other();
    for name in names {
        if reads.len() < MOST && !reads.iter().any(|read| read.name == name) {
            reads.push(LiveRead {
                api,
                kind: subject.kind.mirrored_kind(),
                namespace: config.namespace(api).to_owned(),
                name: name.to_owned(),
            });
        }
    }
    reads
}
