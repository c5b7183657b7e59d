//! Capstan's own admission webhook, as the API server calls it: it fails closed, and sometimes
//! the API server cannot reach it.

use std::sync::atomic::Ordering;
use std::sync::{Arc, LazyLock};

use anyhow::{Context as _, Result};
use capstan_core::admission::{Admission, Options, Phase};
use capstan_core::model::Edit;
use serde_json::Value;

use crate::api::Admit;
use crate::api::admission::Capstan;
use crate::api::registration::{Judged, Registration};
use crate::api::{Api, Failure, Kind, Part};
use crate::simulation::engine::world::World;
use crate::simulation::machine_api::neighbours::Neighbours;
use crate::simulation::machine_api::state::{self, ControlPlane, Event};

use super::foreign_webhook::ForeignWebhooks;

static ADMISSION: LazyLock<Option<Arc<Admission>>> =
    LazyLock::new(|| Some(Arc::new(Admission::new(Options::default()).ok()?)));

/// The webhooks of sets, as they are registered, and the webhooks of other components.
struct Webhook {
    capstan: Registration,
    foreign: ForeignWebhooks,
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
    let is_controller: fn(&str) -> bool = match exempts {
        true => |name| name.starts_with("capstan-") || name.starts_with("generator-"),
        false => |_| false,
    };
    let capstan = Registration::new(
        Judged::Sets,
        Capstan::new(admission),
        Arc::clone(&state.is_down),
        is_controller,
    );
    Ok(Arc::new(Webhook {
        capstan,
        foreign: ForeignWebhooks::new(state, neighbours),
    }))
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
