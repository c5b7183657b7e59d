//! What is recorded of a rollout, so that it ends if new machines are outdated too.
//!
//! An annotation of the pool contains the version of the template, a hash of what instances are
//! made from, and when the newest machine was created that existed when both were first seen. A
//! machine that was created later and is outdated shows that the provider does not make machines
//! that are up to date. The provider may have made it before the edit, so that one more attempt
//! follows, with the machines that exist then. After it, no outdated machine is deleted until a
//! user acts. All times are those of the API server, so that no clock is compared with another one.

use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use super::action::{Action, Plan, Step};
use super::state::{Member, State};
use crate::api::kinds::MACHINE_POOLS;
use crate::model::{Degradation, Precondition, hex_hash};

/// The annotation.
pub(super) const PROGRESS: &str = "capstan.dev/rollout-progress";

/// The fields of an infrastructure object that follow its instances.
const OF_INSTANCES: [&str; 3] = ["providerIDList", "providerID", "replicas"];

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
struct Progress {
    /// The version of the template.
    version: String,
    /// The hash of what instances are made from. A record without it fits every model.
    #[serde(default)]
    model: Option<String>,
    /// When the newest machine was created that counts as made for an older template.
    newest: Option<Timestamp>,
    /// Whether this is the second attempt.
    #[serde(default)]
    repeated: bool,
}

impl Progress {
    fn of(state: &State) -> Option<Self> {
        let text = state.pool.metadata.annotations.get(PROGRESS)?;
        let progress: Self = serde_json::from_str(text).ok()?;
        let is_version = progress.version == state.pool.spec.template.spec.version;
        let is_model = progress.model.as_ref().is_none_or(|known| *known == model(state));
        (is_version && is_model).then_some(progress)
    }

    /// Whether a machine was made for the present template.
    fn made(&self, member: &Member) -> bool {
        member.first_seen().is_some_and(|seen| Some(seen) > self.newest)
    }
}

/// The hash of what instances are made from, as far as the API server knows it: the references of
/// the template, and the spec of the infrastructure object without what follows the instances.
pub(super) fn model(state: &State) -> String {
    let template = &state.pool.spec.template.spec;
    let mut spec = state.infrastructure.as_ref().map(|object| json!(object.spec));
    if let Some(fields) = spec.as_mut().and_then(Value::as_object_mut) {
        fields.retain(|field, _| !OF_INSTANCES.contains(&field.as_str()));
    }
    hex_hash(&json!([template.infrastructure_ref, template.bootstrap, spec]), 8)
}

/// Whether outdated machines may be deleted. Adds the record of the rollout if it is missing, and
/// the reason if the rollout must stop.
pub(super) fn may_continue(state: &State, plan: &mut Plan) -> bool {
    let Some(progress) = Progress::of(state) else {
        record(state, false, plan);
        return false;
    };
    let mut staying = state.staying().filter(|member| !member.is_record());
    let Some((wrong, why)) = staying.find_map(|member| {
        let why = member.outdated.as_deref().filter(|_| progress.made(member))?;
        Some((member, why))
    }) else {
        return true;
    };
    if !progress.repeated {
        record(state, true, plan);
        return false;
    }
    let message = format!(
        "Machine {} was created for the present template, and is outdated ({why}), so that no outdated machine is \
         deleted: correct the image, the model, or the version, and delete the Machine. Without the annotation \
         {PROGRESS} of the MachinePool, the rollout begins again",
        wrong.name
    );
    plan.degraded.push(Degradation {
        reason: "NewMachinesOutdated",
        message,
    });
    false
}

/// Adds the patch of the pool that begins an attempt.
fn record(state: &State, repeated: bool, plan: &mut Plan) {
    let metadata = &state.pool.metadata;
    let version = state.pool.spec.template.spec.version.clone();
    let subject = MACHINE_POOLS.object(state.namespace(), state.name());
    // A second patch of the pool in one plan would be in conflict with the first.
    if plan.steps.iter().any(|step| step.subject == subject) {
        return;
    }
    let because = match repeated {
        false => String::from("the rollout of the template begins"),
        true => String::from("a new machine is outdated, and the rollout is attempted once more"),
    };
    let progress = Progress {
        version,
        model: Some(model(state)),
        newest: state.members.iter().filter_map(Member::first_seen).max(),
        repeated,
    };
    // The record always serialises.
    let text = serde_json::to_string(&progress).unwrap_or_default();
    let precondition = Precondition {
        uid: metadata.uid().to_owned(),
        resource_version: metadata.resource_version.clone().unwrap_or_default(),
    };
    let mut patch = precondition.metadata();
    patch.insert(String::from("annotations"), json!({ PROGRESS: text }));
    plan.steps.push(Step {
        action: Action::Patch(json!({ "metadata": patch })),
        subject,
        index: None,
        because,
        precondition: Some(precondition),
    });
}
