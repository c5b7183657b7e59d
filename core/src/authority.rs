//! Which API is authoritative for each object that exists in both the Machine API and Cluster API.
//!
//! `spec` reads an object of either API into the fields that this module needs. `state` looks up
//! the object in the other API and determines which API is authoritative. `plan` computes the next
//! step of a migration from one API to the other. `rules` judge an edit. The object that is not
//! authoritative is the mirror. Only the sync controller changes the spec of a mirror.
//!
//! `reconcile` computes the next action of a sync controller for a Machine, a MachineSet, or a
//! MachineHealthCheck of both APIs. Its `pair` is the full objects, `sync` copies, `templates`
//! chooses the infrastructure template of a MachineSet, `removal` and `set_removal` carry out
//! deletions, `migration` carries out the plan, and `finalizers`, `pause` and `report` compute the
//! writes of these. `recording` tells what the status must have before a migration begins.
//! `hooks` keeps the hook of the etcd operator, and `words` the words of a user. `foreign` finds
//! objects of Cluster API that are not mirrors. `other` finds another sync controller, and
//! `progress` is what metrics and events report. `request` tells a user how far a migration is,
//! `overview` shows all pairs, and `wide` tells whether the synchronization fails for many.
//!
//! Must never: assume anything about an object in the other API that has not been read.
//!
//! Source: the Converting Machine API to Cluster API enhancement; decisions 9 to 13.

pub mod config;
mod difference;
pub mod finalizers;
mod foreign;
mod hooks;
pub mod live;
pub mod migration;
pub mod other;
pub mod overview;
pub mod pair;
mod pause;
pub mod plan;
pub mod platforms;
pub mod progress;
pub mod reconcile;
mod record;
pub mod recording;
pub mod removal;
pub mod report;
pub mod request;
pub mod rules;
mod set_removal;
pub mod spec;
pub mod state;
pub mod sync;
mod sync_status;
mod templates;
#[cfg(test)]
mod tests;
pub mod wide;
mod words;

/// The finalizer with which the sync controller coordinates the deletion of a mirrored pair.
pub const FINALIZER: &str = "sync.machine.openshift.io/finalizer";
/// The value that the sync controller gives to the annotation `cluster.x-k8s.io/paused` of a
/// mirror. A policy recognises a mirror by this value without reading the authoritative object.
/// Any other value belongs to the user who set it.
pub const PAUSED_BY_SYNC: &str = "sync.machine.openshift.io";
/// The annotation with which a user confirms that the authoritative object of a mirror in Cluster
/// API does not exist any more. Its value is the name of the object. It lets users remove the pause
/// and the finalizer of the sync controller.
pub const UNMIRRORED: &str = "capstan.dev/unmirrored";
/// The label on an infrastructure template that names the MachineSet it was created for.
pub const TEMPLATE_SET: &str = "machine.openshift.io/cluster-api-machineset";
