//! Admission: answers an AdmissionReview with an AdmissionReview.
//!
//! This module reads the review, finds the gate of the kind, gives it the objects to look up, and
//! writes the answer of an API server. It must never judge a kind itself: its gate does.

mod answer;
mod caps;
mod envelope;
mod feature;
mod gate;
mod gates;
mod judge;
mod live;
mod mirrored_kinds;
mod offline;
mod options;
mod policy;
mod request;
mod response;
mod snapshot;

pub use crate::authority::live::{LiveObject, LiveRead};
pub use crate::kcp::{ConversionAnswer, answer_conversion};
pub use crate::schema::crd::CONVERSION_PATH;
pub use answer::{Answer, Record};
pub use feature::Feature;
pub use gate::{Outcome, Phase, Route};
pub use gates::{routes, routes_of, rule_files, rule_files_of};
pub use judge::Admission;
pub use live::{LiveObjects, LiveReads, ScaledRead};
pub use offline::{Check, CheckError, Checked, Checker, mistyped_kind};
pub use options::{Enforcement, Options};
pub use policy::policies;
pub use request::{NoReview, Request};
pub use response::Status;
pub use snapshot::{InfrastructureVersions, Snapshot, Source, Unreadable};
