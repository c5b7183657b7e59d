//! Admission webhooks of other components: one adds labels to new machines, and one refuses new
//! machines for a time.
//!
//! Only a schedule that sets [`Setup::has_foreign_webhooks`] calls them. They must not treat
//! Capstan's machines differently from the machines of users. The installer is exempt, because its
//! requests are recorded once for all schedules.
//!
//! [`Setup::has_foreign_webhooks`]: crate::simulation::machine_api::state::Setup

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use capstan_core::admission::Phase;
use capstan_core::model::Edit;
use serde_json::{Value, json};

use crate::api::{Failure, Kind, Part};
use crate::simulation::engine::world::World;
use crate::simulation::machine_api::state::{ControlPlane, Event};

/// The name of the webhook that refuses machines.
pub(crate) const POLICY: &str = "policy.example.com";

/// The labels that the webhook adds.
const LABELS: [(&str, &str); 2] = [
    ("policy.example.com/team", "platform"),
    ("policy.example.com/cost-center", "4711"),
];

/// The webhooks of other components.
pub(super) struct ForeignWebhooks {
    pub(super) are_installed: bool,
    pub(super) refuse: Arc<AtomicBool>,
}

impl ForeignWebhooks {
    /// Whether the API server calls the webhooks for this part of a kind.
    pub(super) fn match_part(&self, kind: &Kind, part: Part) -> bool {
        self.are_installed && kind.kind == "Machine" && part == Part::Main
    }

    /// Judges one write in one pass. The mutating pass returns the machine with more labels.
    ///
    /// # Errors
    /// The new machine is refused.
    pub(super) fn judge(&self, phase: Phase, edit: &Edit<'_>) -> Result<Option<Value>, Failure> {
        let (None, Some(machine)) = (edit.old, edit.object) else {
            return Ok(None);
        };
        if edit.user.name == "installer" {
            return Ok(None);
        }
        if phase == Phase::Mutate {
            let mut labelled = machine.clone();
            if let Some(metadata) = labelled.get_mut("metadata").and_then(Value::as_object_mut) {
                let labels = metadata.entry("labels").or_insert_with(|| json!({}));
                for (name, value) in LABELS {
                    if let Some(labels) = labels.as_object_mut() {
                        labels.insert(name.to_owned(), value.into());
                    }
                }
            }
            return Ok(Some(labelled));
        }
        if self.refuse.load(Ordering::Relaxed) {
            let text = format!("admission webhook \"{POLICY}\" denied the request: no machine may be created now");
            return Err(Failure::new(403, "Forbidden", text));
        }
        Ok(None)
    }
}

impl World<ControlPlane> {
    /// The webhook of another component refuses new machines for a time.
    pub(crate) fn refuse_machines(&mut self, time: i64) {
        let webhook = &mut self.environment.webhook;
        webhook.refusals += 1;
        webhook.refuses_machines.store(true, Ordering::Relaxed);
        self.schedule(time, Event::MachinesAdmitted);
    }

    /// The webhook of another component admits new machines again.
    pub(crate) fn admit_machines(&mut self) {
        let webhook = &mut self.environment.webhook;
        webhook.refusals = webhook.refusals.saturating_sub(1);
        let refuses = webhook.refusals > 0;
        webhook.refuses_machines.store(refuses, Ordering::Relaxed);
        if !refuses {
            self.trace(|| "   new machines are admitted again".to_owned());
        }
    }
}
