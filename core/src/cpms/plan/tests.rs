//! The result of one plan: the strategy vectors of the operator that OpenShift ships, and further
//! cases.

mod leaders;
mod traces;
mod vectors;
