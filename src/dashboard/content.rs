//! What the whole page shows: the control planes, the objects of both APIs, and the events.

use super::report::{Mood, Report};

/// Everything that the page shows at one moment.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Content {
    /// The control planes, in the order of the page.
    pub reports: Vec<Report>,
    /// The objects that exist in both APIs.
    pub mirrored: Vec<Mirrored>,
    /// The events, the newest first.
    pub events: Vec<SeenEvent>,
    /// What could not be read or shown, in sentences.
    pub notes: Vec<String>,
    /// Why there is nothing to show yet.
    pub empty: Option<String>,
}

impl Content {
    /// A page about one control plane.
    pub fn of(report: Report) -> Self {
        Self {
            reports: vec![report],
            ..Self::default()
        }
    }
}

/// An object of the Machine API with its counterpart in Cluster API.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Mirrored {
    /// The kind in both APIs.
    pub kind: String,
    /// The name in both APIs.
    pub name: String,
    /// Which object is authoritative.
    pub authority: String,
    /// Which object is the mirror, or that it does not exist.
    pub mirror: String,
    /// Whether the mirror is synchronized, with the reason if it is not.
    pub synchronized: String,
    /// The state of the migration; empty if none is requested.
    pub migration: String,
    /// Whether a user must act.
    pub mood: Mood,
}

/// An event of the cluster.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SeenEvent {
    /// When it was last observed, as RFC 3339 text; empty if it is not known.
    pub time: String,
    /// Whether it is a warning.
    pub warning: bool,
    /// The kind and the name of the object.
    pub subject: String,
    /// The message, or the reason in words if there is no message.
    pub message: String,
    /// How often it was observed.
    pub count: u64,
}
