//! What exists in the Machine API and in Cluster API, in a real cluster: `kubectl` as a plain user, as an administrator and as
//! the sync controller's service account, in both directions. Each test has objects of its own in one shared cluster.

mod creation;
mod deletion;
mod guards;
mod hostile;
mod impersonation;
mod migration;
mod objects;
mod policies;
mod table;
mod world;
