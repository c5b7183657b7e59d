//! The words that all rooms share. Nothing here knows a kind, a rule or an API server.

mod path;
mod revision;
mod violation;

pub use path::FieldPath;
pub use revision::{canonical_json, derived_suffix, hex_hash};
pub use violation::{Violation, ViolationKind, sort_violations};
