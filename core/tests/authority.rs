//! Golden reviews of what exists in the Machine API and in Cluster API: the tables of the Converting Machine API to Cluster API
//! enhancement row by row, the guards, and the holes of today's policies. What a user of `kubectl` gets to read is in the
//! snapshots.

#![allow(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    reason = "a test that cannot read its own fixture should stop"
)]

#[path = "authority/world.rs"]
mod world;

#[path = "authority/creation.rs"]
mod creation;
#[path = "authority/deletion.rs"]
mod deletion;
#[path = "authority/guards.rs"]
mod guards;
#[path = "authority/holes.rs"]
mod holes;
#[path = "authority/migration.rs"]
mod migration;
