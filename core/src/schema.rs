//! Structural schemas: what an API server does with an object of a CustomResourceDefinition, as
//! pure functions.
//!
//! A [`Definition`] is parsed once and applied often. Its [`Schema`] has the steps: `prune` drops
//! the fields that it does not know, `set_defaults` fills in those that it has defaults for,
//! `validate` says what is wrong, in the API server's own words, with its ratcheting: what an
//! update left as it was is not an error. The offline check says with it what the cluster would
//! say. Source: the behaviour of kube-apiserver 1.33 to 1.36, held by golden files captured from a
//! real one.
//!
//! Known gaps: `messageExpression` is not evaluated (the message, or the rule, is shown instead);
//! rules below `allOf` are not judged; formats other than those in `format` accept any text; no
//! cost limit, since rules come from us or from a CRD.
//!
//! Must never: decide anything that is not in the schema. What a webhook says comes after.

pub mod crd;

mod accept;
mod correlate;
mod defaulting;
mod definition;
mod format;
mod lists;
mod node;
mod parse;
mod pruning;
mod rules;
mod structural;
mod trail;
mod validate;

pub use accept::Touched;
pub use definition::Definition;
pub use node::Schema;
pub use parse::SchemaError;

use serde_json::Value;

use crate::model::{FieldPath, Violation, ViolationKind};

/// What becomes of an object that is written.
#[derive(Clone, Debug, PartialEq)]
pub struct Outcome {
    /// The object as it would be stored: pruned, with defaults.
    pub object: Value,
    /// The fields that were pruned. `kubectl` asks the API server to refuse them
    /// (`--validate=strict`, its default).
    pub unknown: Vec<FieldPath>,
    /// Why the object is refused, ordered by path.
    pub violations: Vec<Violation>,
}

/// How a strict API server refuses a field that the schema does not know.
pub fn unknown_field(path: &FieldPath) -> Violation {
    Violation::new(
        "schema-unknown-field",
        path.clone(),
        ViolationKind::Forbidden,
        format!("unknown field {:?}", path.as_str()),
    )
}
