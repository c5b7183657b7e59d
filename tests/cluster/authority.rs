//! Objects that exist in the Machine API and in Cluster API, on a real API server: `kubectl` as a
//! plain user, as an administrator and as the sync controller, in both directions. Each test has
//! its own objects in a shared cluster.

mod confirmed;
mod creation;
mod deletion;
mod guards;
mod hostile;
mod impersonation;
mod lag;
mod migration;
pub(crate) mod objects;
mod policies;
mod table;
mod world;
