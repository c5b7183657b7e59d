//! The webhooks of Capstan for sets, or those for ControlPlanes, as `capstan manifests webhooks`
//! registers them: which requests the API server sends to them, and what it answers while it cannot
//! reach them.
//!
//! `tests/fidelity` compares those for sets with a real API server.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use capstan_core::admission::Phase;
use capstan_core::api::machine_openshift_io::{NAMESPACE, control_plane, control_plane_machine_set};
use capstan_core::model::{Edit, Operation, Stored};
use serde_json::Value;

use super::admission::Capstan;
use super::failure::Failure;
use super::kinds::Kind;
use super::request::Part;
use super::store::{Admit, Api};

/// What the API server reports when it cannot reach a webhook.
pub const OUT_OF_REACH: &str = "failed calling webhook";

/// The kind whose webhooks are registered.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Judged {
    /// ControlPlaneMachineSets.
    Sets,
    /// ControlPlanes.
    ControlPlanes,
}

impl Judged {
    fn kind(self) -> &'static str {
        match self {
            Self::Sets => control_plane_machine_set::KIND,
            Self::ControlPlanes => control_plane::KIND,
        }
    }

    /// The finalizer without which the garbage collector deletes the machines.
    fn finalizer(self) -> &'static str {
        match self {
            Self::Sets => control_plane_machine_set::FINALIZER,
            Self::ControlPlanes => control_plane::FINALIZER,
        }
    }
}

/// The registered webhooks.
#[derive(Debug)]
pub struct Registration {
    judged: Judged,
    capstan: Capstan,
    is_down: Arc<AtomicBool>,
    is_controller: fn(&str) -> bool,
}

impl Registration {
    /// The webhooks, which cannot be reached while `is_down` is set. `is_controller` says which
    /// users are controllers of the kind, by their names: their changes of metadata alone are
    /// exempt.
    pub fn new(judged: Judged, capstan: Capstan, is_down: Arc<AtomicBool>, is_controller: fn(&str) -> bool) -> Self {
        Self {
            judged,
            capstan,
            is_down,
            is_controller,
        }
    }

    /// The match conditions of the pass.
    fn matches(&self, phase: Phase, edit: &Edit<'_>) -> bool {
        match edit.operation {
            Operation::Delete => phase == Phase::Validate && edit.namespace == NAMESPACE,
            Operation::Update => {
                let is_metadata = (self.is_controller)(&edit.user.name) && keeps_spec(edit);
                !is_metadata && !self.removes_finalizers(phase, edit)
            }
            _ => true,
        }
    }

    /// Whether an object that is being deleted only loses finalizers. The validating pass reviews
    /// the removal of the finalizer of the kind in its namespace.
    fn removes_finalizers(&self, phase: Phase, edit: &Edit<'_>) -> bool {
        let Some((old, new)) = edit.old.zip(edit.object) else {
            return false;
        };
        let (before, after) = (finalizers(old), finalizers(new));
        let is_own = |name: &Value| name == self.judged.finalizer();
        let is_reviewed = phase == Phase::Validate
            && edit.namespace == NAMESPACE
            && before.iter().any(is_own)
            && !after.iter().any(is_own);
        old.at("metadata.deletionTimestamp").is_some()
            && keeps_spec(edit)
            && after.iter().all(|name| before.contains(name))
            && !is_reviewed
    }
}

fn keeps_spec(edit: &Edit<'_>) -> bool {
    edit.old
        .zip(edit.object)
        .is_some_and(|(old, new)| old.field("spec") == new.get("spec"))
}

fn finalizers(object: &dyn Stored) -> &[Value] {
    let list = object.at("metadata.finalizers").and_then(Value::as_array);
    list.map(Vec::as_slice).unwrap_or_default()
}

impl Admit for Registration {
    fn asks(&self, kind: &Kind, part: Part) -> bool {
        kind.kind == self.judged.kind() && self.capstan.asks(kind, part)
    }

    fn judge(
        &self,
        api: &Api,
        kind: &Kind,
        phase: Phase,
        edit: &Edit<'_>,
        warnings: &mut Vec<String>,
    ) -> Result<Option<Value>, Failure> {
        if !self.matches(phase, edit) {
            return Ok(None);
        }
        if self.is_down.load(Ordering::Relaxed) {
            let text = format!("Internal error occurred: {OUT_OF_REACH} \"capstan\": connect: connection refused");
            return Err(Failure::new(500, "InternalError", text));
        }
        self.capstan.judge(api, kind, phase, edit, warnings)
    }
}
