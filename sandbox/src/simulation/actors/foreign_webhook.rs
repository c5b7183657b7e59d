//! Admission webhooks of other components: they add labels and a default to new machines, drop a
//! field of them for a time, and refuse new machines and new labels for a time.
//!
//! With [`Neighbours::machine_webhook`], the webhooks of OpenShift's Machine API store new machines
//! before, as it was recorded.
//!
//! Only a schedule with [`Neighbours::webhooks`] calls the others. They must not treat Capstan's
//! machines differently from the machines of users. The installer is exempt, because its requests
//! are recorded once for all schedules.
//!
//! [`Neighbours::webhooks`]: crate::simulation::machine_api::neighbours::Neighbours::webhooks

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use capstan_core::admission::Phase;
use capstan_core::model::{Edit, Stored};
use serde_json::{Map, Value, json};

use crate::api::{Failure, Kind, Part};
use crate::simulation::engine::schedule::SECOND;
use crate::simulation::engine::world::World;
use crate::simulation::foreign::machine_webhook;
use crate::simulation::machine_api::neighbours::Neighbours;
use crate::simulation::machine_api::objects::DROPPED;
use crate::simulation::machine_api::state::{ControlPlane, Event, Webhook};

/// The name of the webhook that refuses machines.
pub(crate) const POLICY: &str = "policy.example.com";

/// The labels that the webhook adds.
const LABELS: [(&str, &str); 2] = [
    ("policy.example.com/team", "platform"),
    ("policy.example.com/cost-center", "4711"),
];
/// The field of the provider spec that the webhook adds, and its value.
const DEFAULT: (&str, &str) = ("capacityReservationId", "cr-0123456789abcdef0");

/// The webhooks of other components.
pub(super) struct ForeignWebhooks {
    are_installed: bool,
    is_openshift: bool,
    refuse: Arc<AtomicBool>,
    drop_field: Arc<AtomicBool>,
}

impl ForeignWebhooks {
    /// The webhooks of one world.
    pub(super) fn new(state: &Webhook, neighbours: Neighbours) -> Self {
        Self {
            are_installed: neighbours.webhooks,
            is_openshift: neighbours.machine_webhook,
            refuse: Arc::clone(&state.refuses_machines),
            drop_field: Arc::clone(&state.drops_field),
        }
    }

    /// Whether the API server calls the webhooks for this part of a kind.
    pub(super) fn match_part(&self, kind: &Kind, part: Part) -> bool {
        (self.are_installed || self.is_openshift) && kind.kind == "Machine" && part == Part::Main
    }

    /// Judges one write in one pass. The mutating pass returns the machine as it is stored.
    ///
    /// # Errors
    /// The new machine, or its new labels, are refused.
    pub(super) fn judge(&self, phase: Phase, edit: &Edit<'_>) -> Result<Option<Value>, Failure> {
        let Some(machine) = edit.object else { return Ok(None) };
        let is_new = edit.old.is_none();
        let mut stored = None;
        if self.is_openshift && is_new && phase == Phase::Mutate {
            stored = Some(stored_by_openshift(machine)?);
        }
        if !self.are_installed || edit.user.name == "installer" {
            return Ok(stored);
        }
        if phase == Phase::Mutate {
            let machine = stored.as_ref().unwrap_or(machine);
            return Ok(is_new.then(|| self.stored(machine)));
        }
        let labels = |object: &dyn Stored| object.at("metadata.labels").cloned();
        let what = match edit.old {
            None => "no machine may be created now",
            Some(old) if labels(old) != machine.pointer("/metadata/labels").cloned() => {
                "the labels of machines may not change now"
            }
            Some(_) => return Ok(None),
        };
        if self.refuse.load(Ordering::Relaxed) {
            let text = format!("admission webhook \"{POLICY}\" denied the request: {what}");
            return Err(Failure::new(403, "Forbidden", text));
        }
        Ok(None)
    }

    /// A new machine, as the webhooks change it.
    fn stored(&self, machine: &Value) -> Value {
        let mut machine = machine.clone();
        if let Some(labels) = fields(&mut machine, "/metadata", "labels") {
            let added = LABELS.map(|(name, value)| (name.to_owned(), value.into()));
            labels.extend(added);
        }
        if let Some(value) = fields(&mut machine, "/spec/providerSpec", "value") {
            let (name, default) = DEFAULT;
            value.entry(name).or_insert_with(|| default.into());
            if self.drop_field.load(Ordering::Relaxed) {
                value.remove(DROPPED);
            }
        }
        machine
    }
}

/// A new machine, as the webhooks of OpenShift store it.
///
/// # Errors
/// They refuse its provider spec.
fn stored_by_openshift(machine: &Value) -> Result<Value, Failure> {
    let labels = machine.pointer("/metadata/labels").unwrap_or(&Value::Null);
    let sent = machine.pointer("/spec/providerSpec/value").unwrap_or(&Value::Null);
    let outcome = machine_webhook::create(labels, sent);
    let Some(value) = outcome.stored else {
        let text = format!(
            "admission webhook \"validation.machine.machine.openshift.io\" denied the request: {}",
            outcome.refusals.join(", ")
        );
        return Err(Failure::new(403, "Forbidden", text));
    };
    let mut machine = machine.clone();
    if let Some(there) = machine.pointer_mut("/spec/providerSpec/value") {
        *there = value;
    }
    Ok(machine)
}

/// The fields of an object in an object.
fn fields<'a>(object: &'a mut Value, parent: &str, name: &str) -> Option<&'a mut Map<String, Value>> {
    let parent = object.pointer_mut(parent)?.as_object_mut()?;
    parent.entry(name).or_insert_with(|| json!({})).as_object_mut()
}

impl World<ControlPlane> {
    /// The webhook of another component refuses new machines and new labels for a time.
    pub(crate) fn refuse_machines(&mut self, time: i64) {
        let webhook = &mut self.environment.webhook;
        webhook.refusals += 1;
        webhook.refuses_machines.store(true, Ordering::Relaxed);
        self.trace(|| format!("   new machines are refused for {}s", time / SECOND));
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

    /// The webhook of another component drops a field of new machines for a time.
    pub(crate) fn drop_field(&mut self, time: i64) {
        let webhook = &mut self.environment.webhook;
        webhook.drops += 1;
        webhook.drops_field.store(true, Ordering::Relaxed);
        self.trace(|| format!("   a webhook drops {DROPPED} for {}s", time / SECOND));
        self.schedule(time, Event::FieldStored);
    }

    /// The webhook of another component does not drop the field any more.
    pub(crate) fn store_field(&mut self) {
        let webhook = &mut self.environment.webhook;
        webhook.drops = webhook.drops.saturating_sub(1);
        let drops = webhook.drops > 0;
        webhook.drops_field.store(drops, Ordering::Relaxed);
        if !drops {
            self.trace(|| format!("   {DROPPED} is stored again"));
        }
    }
}
