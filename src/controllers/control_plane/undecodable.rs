//! A ControlPlane that cannot be decoded. Nothing is done with it, and its conditions report the
//! reason.
//!
//! Only its conditions are written, so that every other field of its status stays. Once it is being
//! deleted, its machines are released as those of any other ControlPlane.

use capstan_core::api::machine_openshift_io::control_plane::{ControlPlane, ControlPlaneStatus};
use capstan_core::api::meta::Condition;
use serde::Deserialize as _;
use serde_json::Value;

use crate::controllers::control_plane_machine_set::undecodable::{conditions_of, named, part};

/// Metadata and conditions, each if it can be decoded.
pub(super) fn decodable_parts(raw: &Value) -> ControlPlane {
    let conditions = conditions_of(raw);
    let conditions = conditions.as_array().into_iter().flatten();
    ControlPlane {
        metadata: part(raw, "/metadata").unwrap_or_else(|| named(raw)),
        status: Some(ControlPlaneStatus {
            conditions: conditions
                .filter_map(|there| Condition::deserialize(there).ok())
                .collect(),
            ..ControlPlaneStatus::default()
        }),
        ..ControlPlane::default()
    }
}
