//! A set that cannot be read: nothing is done with it, and everybody hears so. Its conditions alone are written, so that
//! whatever else stands there stays; and once it is being deleted, its machines are let go as those of any other.

use std::borrow::Cow;
use std::sync::Arc;

use capstan_core::api::machine_openshift_io::control_plane_machine_set::{
    ControlPlaneMachineSet, ControlPlaneMachineSetStatus, KIND, NAME,
};
use capstan_core::api::meta::{Condition, ObjectMeta};
use capstan_core::cpms::degraded;
use capstan_core::cpms::observed::Unparsable;
use jiff::Timestamp;
use serde::Deserialize as _;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};
use tokio_util::sync::CancellationToken;

use super::{Controller, Outcome};
use crate::controllers::assess::stopped;
use crate::controllers::caches::View;
use crate::controllers::cluster::Cluster;
use crate::controllers::live::read;
use crate::controllers::step_error::StepError;

impl<C: Cluster> Controller<C> {
    /// What is done about a set that cannot be read, for this reason.
    pub(super) async fn unreadable(
        &mut self,
        view: &View,
        reason: &str,
        now: Timestamp,
        stop: &CancellationToken,
    ) -> Outcome {
        tracing::error!(
            reason,
            "the ControlPlaneMachineSet cannot be read; nothing is done with it"
        );
        let raw = match self.writer.cluster.set().await {
            Ok(seen) => seen.and_then(|seen| seen.raw),
            Err(error) => {
                let failure = StepError::new(format!("reading {KIND} {NAME}"), error);
                return self.outcome(&[failure], None);
            }
        };
        // Gone or corrected since; the caches will say so.
        let Some(raw) = raw else {
            return Outcome::default();
        };
        let set = Arc::new(what_can_be_read(&raw));
        let mut errors = Vec::new();
        if set.metadata.is_deleting() {
            let (current, taken) = match read(&self.writer.cluster, view, None).await {
                Ok((_, fresh)) => {
                    let current = self.assess(set, fresh, view, now);
                    let taken = self.act(&current, None, stop, &mut errors).await;
                    let taken: Vec<_> = taken.into_iter().cloned().collect();
                    (current, taken)
                }
                Err(failure) => return self.outcome(&[failure], None),
            };
            let taken: Vec<_> = taken.iter().collect();
            self.tell(&current, &taken, &errors);
            return self.outcome(&errors, None);
        }
        let unread = Unparsable {
            kind: KIND.to_owned(),
            name: NAME.to_owned(),
            message: reason.to_owned(),
        };
        let current = stopped(set, Vec::from_iter(degraded::unparsable(&[unread])), Vec::new());
        let seconds = Timestamp::from_second(now.as_second()).unwrap_or(now);
        let status = current.status(None, seconds);
        let said = json!(status.conditions);
        if Cow::Borrowed(&said) != conditions_of(&raw) {
            let written = self.writer.status(&current.set, json!({ "conditions": said })).await;
            errors.extend(written.err());
        }
        let told = self.operator(view, Some(&status), current.is_active(), now).await;
        errors.extend(told.err());
        self.count(&current, now);
        self.tell(&current, &[], &errors);
        self.outcome(&errors, None)
    }
}

fn conditions_of(raw: &Value) -> Cow<'_, Value> {
    raw.pointer("/status/conditions")
        .map_or_else(|| Cow::Owned(json!([])), Cow::Borrowed)
}

/// Metadata, state and conditions, each where it can be read.
fn what_can_be_read(raw: &Value) -> ControlPlaneMachineSet {
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

fn named(raw: &Value) -> ObjectMeta {
    ObjectMeta {
        name: part(raw, "/metadata/name"),
        namespace: part(raw, "/metadata/namespace"),
        uid: part(raw, "/metadata/uid"),
        resource_version: part(raw, "/metadata/resourceVersion"),
        generation: part(raw, "/metadata/generation"),
        ..ObjectMeta::default()
    }
}

fn part<T: DeserializeOwned>(raw: &Value, pointer: &str) -> Option<T> {
    T::deserialize(raw.pointer(pointer)?).ok()
}
