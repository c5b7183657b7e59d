//! Seeded bugs: the simulation must find known bugs, each from a real report.
//!
//! A bug is implemented between the production controller and the world. It hides objects from the
//! controller, alters its calls, or removes its state between reconciles. So the decisions stay
//! those of the production code.
//!
//! A bug counts as caught only if an invariant that describes it is violated, on a seed on which
//! the controller without the bug violates nothing.

mod behaviour;
pub(crate) mod catalogue;
pub mod decisions;
pub mod generated;
mod hunt;
mod page;
mod reads;
mod sources;
mod writes;

pub use catalogue::{CATALOGUE, KnownBug, Mutant};
pub use hunt::{Caught, LIMIT, hunt};
pub use page::{page, row, sections};
