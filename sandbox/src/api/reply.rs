//! What an accepted request is answered with.

use std::sync::Arc;

use serde_json::{Value, json};

use super::object::{Object, put};

/// The answer to an accepted request.
#[derive(Clone, Debug, PartialEq)]
pub enum Reply {
    /// One object.
    Object {
        /// HTTP status code.
        code: u16,
        /// The object.
        object: Arc<Object>,
        /// Warnings for the client, without the prefix of the HTTP header.
        warnings: Vec<String>,
    },
    /// Several objects.
    List(List),
    /// A `Status` of an object that was deleted at once.
    Done(Value),
}

/// A page of objects.
#[derive(Clone, Debug, PartialEq)]
pub struct List {
    /// `apiVersion` of the list.
    pub api_version: String,
    /// `kind` of the list.
    pub kind: String,
    /// The version at which the objects were read.
    pub resource_version: u64,
    /// The objects, ordered by namespace and name.
    pub items: Vec<Arc<Object>>,
    /// The token of the next page; empty on the last page.
    pub continue_: String,
    /// Whether each item has `apiVersion` and `kind`; items of built-in kinds do not.
    pub typed: bool,
    /// The number of objects on the following pages; unknown if the list has a selector.
    pub remaining: Option<usize>,
}

impl List {
    /// The list as JSON.
    pub fn to_value(&self) -> Value {
        let mut meta = json!({"resourceVersion": self.resource_version.to_string()});
        if !self.continue_.is_empty() {
            put(&mut meta, "continue", self.continue_.clone().into());
            if let Some(remaining) = self.remaining {
                put(&mut meta, "remainingItemCount", remaining.into());
            }
        }
        if self.typed && self.continue_.is_empty() {
            put(&mut meta, "continue", "".into());
        }
        let mut items: Vec<Value> = self.items.iter().map(|item| item.to_value()).collect();
        if !self.typed {
            for item in items.iter_mut().filter_map(Value::as_object_mut) {
                item.remove("apiVersion");
                item.remove("kind");
            }
        }
        json!({"kind": self.kind, "apiVersion": self.api_version, "metadata": meta, "items": items})
    }
}
