//! CEL: expressions that are compiled once and evaluated often, over JSON without a conversion.
//!
//! This is the only module that uses the CEL library (decision 16). Expressions come from the rule
//! files or from a CRD. They must never come from a request, because the library has no cost limit.

mod format;
mod json;
mod program;
mod request;
pub mod rules;

pub use program::{CelError, Program};
pub use request::VariableOverride;
