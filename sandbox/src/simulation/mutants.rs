//! Seeded bugs: the simulation must find known bugs, each from a real report.
//!
//! A bug is a lie between the production controller and the world. What the buggy controller overlooked is hidden from it, what
//! it did wrong is done in its name, and what it forgot is removed from its memory. So the decisions stay those of the
//! production code.
//!
//! A bug counts as caught only if an invariant that describes it is violated, on a seed on which the controller without the bug
//! violates nothing.

mod behaviour;
pub(crate) mod catalogue;
mod hunt;
mod page;
mod reads;
mod writes;

pub use catalogue::{CATALOGUE, KnownBug, Mutant};
pub use hunt::{Caught, LIMIT, hunt};
pub use page::{page, row};
