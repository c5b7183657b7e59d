//! Golden reviews of objects that exist in the Machine API and in Cluster API: the rows of the
//! table in the Converting Machine API to Cluster API enhancement, the guards, and the gaps of the
//! policies that OpenShift ships. The snapshots contain what a user of `kubectl` reads.

#![allow(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    reason = "a test that cannot read its own fixture should stop"
)]

#[path = "authority/world.rs"]
mod world;

#[path = "authority/creation.rs"]
mod creation;
#[path = "authority/defects.rs"]
mod defects;
#[path = "authority/deletion.rs"]
mod deletion;
#[path = "authority/guards.rs"]
mod guards;
#[path = "authority/holes.rs"]
mod holes;
#[path = "authority/live.rs"]
mod live;
#[path = "authority/migration.rs"]
mod migration;
