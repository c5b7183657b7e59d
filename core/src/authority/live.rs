//! Objects that are read from the API server during a review.
//!
//! The caches may lag behind by seconds. A user who creates an object in one API, and then the
//! object of the same name in the other API, would pass every rule, because the caches do not have
//! the first object yet. The same holds for an update of a mirror right after the creation of the
//! authoritative object. Such an edit therefore counts only after its counterparts were read. The
//! rules name those objects, and look up the results. This module must never read anything itself.

use std::sync::Arc;

use super::spec::{Api, Kind, PairMember};
use crate::api::kind::KindInfo;
use crate::api::kinds;

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
    /// Whether the edit stores a new object; false for a dry run and for an update.
    pub is_stored: bool,
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
