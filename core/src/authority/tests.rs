//! Tests of the decisions about a mirrored Machine, in a simulated cluster.

mod checks;
mod creation;
mod deletion;
mod mirror;
mod moving;
mod random;
mod world;
