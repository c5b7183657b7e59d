//! Objects that exist in the Machine API and in Cluster API, in a real cluster. The tests use
//! kubectl as a user, as an administrator and as the service account of the sync controller, in
//! both directions. Each test has its own objects in one shared cluster.

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
