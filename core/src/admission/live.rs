//! What a review reads from the API server before its answer may be sent: names and results.
//!
//! This module must never read anything itself. A result that is missing means that the object is
//! unknown, and never that it is absent.

use std::sync::Arc;

use serde_json::Value;

use crate::api::kind::KindInfo;
use crate::authority::live::{LiveObject, LiveRead};

/// The objects to read from the API server.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct LiveReads {
    /// The objects of mirrored pairs.
    pub pairs: Vec<LiveRead>,
    /// The object that a Scale is about. A review of a Scale contains only the Scale.
    pub scaled: Option<ScaledRead>,
}

impl LiveReads {
    /// Whether nothing must be read.
    pub fn is_empty(&self) -> bool {
        self.pairs.is_empty() && self.scaled.is_none()
    }
}

/// The object that a Scale is about.
#[derive(Clone, Debug, PartialEq)]
pub struct ScaledRead {
    /// The kind, in the version that the rules read.
    pub kind: KindInfo,
    /// The namespace.
    pub namespace: String,
    /// The name.
    pub name: String,
}

/// What was read.
#[derive(Clone, Debug, Default)]
pub struct LiveObjects {
    /// The objects of mirrored pairs.
    pub pairs: Vec<LiveObject>,
    /// The object that a Scale is about; `None` if it could not be read.
    pub scaled: Option<Arc<Value>>,
}
