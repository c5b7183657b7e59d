//! The webhooks of Capstan for sets, as `capstan manifests webhooks` registers them: which requests
//! the API server sends to them, and what it answers while it cannot reach them.
//!
//! `tests/fidelity` compares it with a real API server.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use capstan_core::admission::Phase;
use capstan_core::api::machine_openshift_io::NAMESPACE;
use capstan_core::api::machine_openshift_io::control_plane_machine_set::FINALIZER;
use capstan_core::model::{Edit, Operation, Stored};
use serde_json::Value;

use super::admission::Capstan;
use super::failure::Failure;
use super::kinds::Kind;
use super::request::Part;
use super::store::{Admit, Api};

/// What the API server reports when it cannot reach a webhook.
pub const OUT_OF_REACH: &str = "failed calling webhook";

/// The registered webhooks.
#[derive(Debug)]
pub struct Registration {
    capstan: Capstan,
    is_down: Arc<AtomicBool>,
    is_controller: fn(&str) -> bool,
}

impl Registration {
    /// The webhooks, which cannot be reached while `is_down` is set. `is_controller` says which
    /// users are controllers of sets, by their names: their changes of metadata alone are exempt.
    pub fn new(capstan: Capstan, is_down: Arc<AtomicBool>, is_controller: fn(&str) -> bool) -> Self {
        Self {
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
                !is_metadata && !removes_finalizers(phase, edit)
            }
            _ => true,
        }
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

/// Whether an object that is being deleted only loses finalizers. The validating pass reviews the
/// removal of the finalizer of the set in its namespace.
fn removes_finalizers(phase: Phase, edit: &Edit<'_>) -> bool {
    let Some((old, new)) = edit.old.zip(edit.object) else {
        return false;
    };
    let (before, after) = (finalizers(old), finalizers(new));
    let is_of_set = |name: &Value| name == FINALIZER;
    let is_reviewed = phase == Phase::Validate
        && edit.namespace == NAMESPACE
        && before.iter().any(is_of_set)
        && !after.iter().any(is_of_set);
    old.at("metadata.deletionTimestamp").is_some()
        && keeps_spec(edit)
        && after.iter().all(|name| before.contains(name))
        && !is_reviewed
}

impl Admit for Registration {
    fn asks(&self, kind: &Kind, part: Part) -> bool {
        self.capstan.asks(kind, part)
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
