//! A set that cannot be decoded. Nothing is done with it, and its conditions report the
//! reason.
//!
//! Only its conditions are written, so that every other field of its status stays. Once it is being
//! deleted, its machines are released as those of any other set.

use std::borrow::Cow;
use std::sync::Arc;

use capstan_core::api::machine_openshift_io::control_plane_machine_set::{
    ControlPlaneMachineSet, ControlPlaneMachineSetStatus, KIND, NAME,
};
use capstan_core::api::meta::{Condition, ObjectMeta};
use capstan_core::api::objects::Undecodable;
use capstan_core::cpms::degraded;
use capstan_core::cpms::observed::Unparsable;
use serde::Deserialize as _;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};

use super::{ControlPlaneMachineSets, Observed, State};
use crate::controllers::assess::stopped;
use crate::controllers::observed::observed;
use crate::runtime::{Moment, Observation, Source, View};

impl ControlPlaneMachineSets {
    /// What is observed of a set that cannot be decoded.
    pub(super) fn observe_undecodable(
        &self,
        undecodable: &Undecodable,
        view: &View,
        source: Source,
        state: &mut State,
        moment: Moment,
    ) -> Observation<Observed> {
        let reason = &undecodable.reason;
        if source == Source::Caches {
            tracing::error!(reason, "the {KIND} cannot be decoded; nothing is done with it");
        }
        let set = Arc::new(decodable_parts(&undecodable.raw));
        let assessment = if set.metadata.is_deleting() {
            self.assess(set, observed(view), view, moment.time, state)
        } else {
            let unparsable = Unparsable {
                kind: KIND.to_owned(),
                name: NAME.to_owned(),
                message: reason.clone(),
            };
            stopped(set, Vec::from_iter(degraded::unparsable(&[unparsable])), Vec::new())
        };
        Observation::Found(Observed {
            assessment: Some(assessment),
            undecodable: Some(Arc::clone(&undecodable.raw)),
        })
    }
}

/// The conditions of an object, as JSON.
pub(in crate::controllers) fn conditions_of(raw: &Value) -> Cow<'_, Value> {
    raw.pointer("/status/conditions")
        .map_or_else(|| Cow::Owned(json!([])), Cow::Borrowed)
}

/// Metadata, state and conditions, each if it can be decoded.
fn decodable_parts(raw: &Value) -> ControlPlaneMachineSet {
    let mut set = ControlPlaneMachineSet {
        metadata: part(raw, "/metadata").unwrap_or_else(|| named(raw)),
        ..ControlPlaneMachineSet::default()
    };
    set.spec.state = part(raw, "/spec/state");
    let conditions = conditions_of(raw);
    let conditions = conditions.as_array().into_iter().flatten();
    set.status = Some(ControlPlaneMachineSetStatus {
        conditions: conditions
            .filter_map(|there| Condition::deserialize(there).ok())
            .collect(),
        ..ControlPlaneMachineSetStatus::default()
    });
    set
}

/// The metadata that identifies an object.
pub(in crate::controllers) fn named(raw: &Value) -> ObjectMeta {
    ObjectMeta {
        name: part(raw, "/metadata/name"),
        namespace: part(raw, "/metadata/namespace"),
        uid: part(raw, "/metadata/uid"),
        resource_version: part(raw, "/metadata/resourceVersion"),
        generation: part(raw, "/metadata/generation"),
        ..ObjectMeta::default()
    }
}

/// A part of an object, if it can be decoded.
pub(in crate::controllers) fn part<T: DeserializeOwned>(raw: &Value, pointer: &str) -> Option<T> {
    T::deserialize(raw.pointer(pointer)?).ok()
}
