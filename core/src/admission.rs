//! Admission: an AdmissionReview in, an AdmissionReview out.
//!
//! This room reads the envelope, finds the gate of the kind, hands it what it may look up, and writes the answer as the
//! API server wants it. It decides nothing about a kind: that is the gate's.

mod envelope;
mod mirrored;
mod offline;
mod policy;
mod request;
mod response;
mod snapshot;
mod table;

pub use offline::{Check, CheckError, Checked, Checker};
pub use policy::policies;
pub use request::{NoReview, Request};
pub use response::{Status, deny_status, encode};
pub use snapshot::{Snapshot, Source, Unreadable};
pub use table::{Admission, Answer, Options, Outcome, Phase, ROUTES, Record, Route};
