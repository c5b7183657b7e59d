//! Structural schemas: what an API server does with an object of a CustomResourceDefinition, as
//! pure functions.
//!
//! A [`Definition`] is parsed once and applied to many objects. Its [`Schema`] has these steps:
//! `prune` drops unknown fields, `set_defaults` adds defaults, and `validate` returns the
//! violations in the words of the API server. Validation ratchets: a value that an update leaves
//! unchanged is not an error. The offline check uses these steps to give the result of the cluster.
//! Source: the behaviour of kube-apiserver 1.33 to 1.36, which golden files from real API servers
//! record.
//!
//! Known gaps: `messageExpression` is not evaluated, and the message or the rule is returned
//! instead. Rules under `allOf` are not evaluated. Formats that `format` does not list accept any
//! text. There is no cost limit, because rules come from this repository or from an installed CRD.
//!
//! Nothing here decides beyond the schema. Webhooks run after it.

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

/// The result of a write.
#[derive(Clone, Debug, PartialEq)]
pub struct Outcome {
    /// The object as it is stored: pruned, with defaults.
    pub object: Value,
    /// The pruned fields. `kubectl` asks the API server to refuse them (`--validate=strict`, its
    /// default).
    pub unknown: Vec<FieldPath>,
    /// Why the object is refused, ordered by path.
    pub violations: Vec<Violation>,
}

/// The violation that an API server with strict validation returns for an unknown field.
pub fn unknown_field(path: &FieldPath) -> Violation {
    Violation::new(
        "schema-unknown-field",
        path.clone(),
        ViolationKind::Forbidden,
        format!("unknown field {:?}", path.as_str()),
    )
}
