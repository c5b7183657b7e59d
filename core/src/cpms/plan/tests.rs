//! Tests of the plan: single plans, whole rollouts, stale planners, and defects.

mod defects;
mod leaders;
mod traces;
mod vectors;
