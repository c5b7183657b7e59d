//! Capstan's own admission webhook, as the API server calls it: it fails closed, and sometimes
//! the API server cannot reach it.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, LazyLock};

use anyhow::{Context as _, Result};
use capstan_core::admission::{Admission, Options, Phase};
use capstan_core::model::{Edit, Stored};
use serde_json::Value;

use crate::api::Admit;
use crate::api::admission::Capstan;
use crate::api::{Api, Failure, Kind, Part};
use crate::simulation::engine::world::World;
use crate::simulation::machine_api::neighbours::Neighbours;
use crate::simulation::machine_api::state::{self, ControlPlane, Event};

use super::foreign_webhook::ForeignWebhooks;

/// What the API server reports when it cannot reach the webhook.
pub(crate) const OUT_OF_REACH: &str = "failed calling webhook";

static ADMISSION: LazyLock<Option<Arc<Admission>>> =
    LazyLock::new(|| Some(Arc::new(Admission::new(Options::default()).ok()?)));

/// The webhook, as `webhooks/` registers it, and the webhooks of other components.
struct Webhook {
    capstan: Capstan,
    foreign: ForeignWebhooks,
    is_down: Arc<AtomicBool>,
    /// Whether changes of metadata alone by Capstan's controllers are exempt, as registered.
    exempts: bool,
}

/// Capstan's admission. Its rules are compiled once; what it caches belongs to one world. It is out
/// of reach while `is_down` of the state is set. A seeded bug drops the exemption of Capstan's
/// controllers. The neighbours may have webhooks, too.
///
/// # Errors
/// When the rules that are built in cannot be compiled.
pub(crate) fn admission(state: &state::Webhook, exempts: bool, neighbours: Neighbours) -> Result<Arc<dyn Admit>> {
    let admission = ADMISSION
        .clone()
        .context("compiling the admission rules that are built in")?;
    let capstan = Capstan::new(admission);
    Ok(Arc::new(Webhook {
        capstan,
        foreign: ForeignWebhooks::new(state, neighbours),
        is_down: Arc::clone(&state.is_down),
        exempts,
    }))
}

fn finalizers(object: &dyn Stored) -> &[Value] {
    let list = object.at("metadata.finalizers").and_then(Value::as_array);
    list.map(Vec::as_slice).unwrap_or_default()
}

/// Whether the match condition of the registration exempts an edit: an object that is being deleted
/// loses finalizers, and its spec stays as it is.
fn removes_finalizers(edit: &Edit<'_>) -> bool {
    let (Some(old), Some(new)) = (edit.old, edit.object) else {
        return false;
    };
    let (before, after) = (finalizers(old), finalizers(new));
    old.at("metadata.deletionTimestamp").is_some()
        && old.field("spec") == new.get("spec")
        && after.iter().all(|name| before.contains(name))
}

/// Whether the other match condition exempts an edit: Capstan's controllers change metadata alone.
fn is_metadata_of_capstan(edit: &Edit<'_>) -> bool {
    let (Some(old), Some(new)) = (edit.old, edit.object) else {
        return false;
    };
    let capstan = ["capstan-", "generator-"];
    capstan.iter().any(|name| edit.user.name.starts_with(name)) && old.field("spec") == new.get("spec")
}

impl Admit for Webhook {
    fn asks(&self, kind: &Kind, part: Part) -> bool {
        self.foreign.match_part(kind, part) || self.capstan.asks(kind, part)
    }

    fn judge(
        &self,
        api: &Api,
        kind: &Kind,
        phase: Phase,
        edit: &Edit<'_>,
        warnings: &mut Vec<String>,
    ) -> Result<Option<Value>, Failure> {
        if kind.kind == "Machine" {
            return self.foreign.judge(phase, edit);
        }
        if self.exempts && is_metadata_of_capstan(edit) {
            return Ok(None);
        }
        if self.is_down.load(Ordering::Relaxed) && !removes_finalizers(edit) {
            let text = format!("Internal error occurred: {OUT_OF_REACH} \"capstan\": connect: connection refused");
            return Err(Failure::new(500, "InternalError", text));
        }
        self.capstan.judge(api, kind, phase, edit, warnings)
    }
}

impl World<ControlPlane> {
    /// The webhook is out of reach for a time.
    pub(crate) fn webhook_down(&mut self, time: i64) {
        let webhook = &mut self.environment.webhook;
        webhook.outages += 1;
        webhook.is_down.store(true, Ordering::Relaxed);
        self.schedule(time, Event::WebhookBack);
    }

    /// An outage of the webhook ends.
    pub(crate) fn webhook_back(&mut self) {
        let webhook = &mut self.environment.webhook;
        webhook.outages = webhook.outages.saturating_sub(1);
        let is_down = webhook.outages > 0;
        webhook.is_down.store(is_down, Ordering::Relaxed);
        if !is_down {
            self.trace(|| "   the webhook can be called again".to_owned());
        }
    }
}
