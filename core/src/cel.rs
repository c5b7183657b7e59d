//! CEL: expressions compiled once and evaluated often, over JSON as it stands, without converting it.
//!
//! This is the one room that names the CEL library (decision 16). Expressions come from our own rule files or from a CRD,
//! never from a request: the library has no cost limit.

mod format;
mod json;
mod program;
mod request;
pub mod rules;

pub use program::{CelError, Program};
pub use request::Told;
