//! What a plan does in one pass: the strategy vectors of today's operator, and those that it lacks.

mod leaders;
mod traces;
mod vectors;
