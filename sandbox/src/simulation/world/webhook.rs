//! Capstan's own admission as the API server meets it: compiled in, and now and then out of reach.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, LazyLock};

use anyhow::{Context as _, Result};
use capstan_core::admission::{Admission, Options, Phase};
use capstan_core::model::{Edit, Stored};
use serde_json::Value;

use crate::api::admission::{Admit, Capstan};
use crate::api::{Api, Failure, Kind, Part};

use super::{Due, World};

static ADMISSION: LazyLock<Option<Arc<Admission>>> =
    LazyLock::new(|| Some(Arc::new(Admission::new(Options::default()).ok()?)));

/// What the API server says when nobody answers it.
pub(in crate::simulation) const OUT_OF_REACH: &str = "failed calling webhook";

/// The webhook, registered as in `webhooks/`: it fails closed.
struct Webhook {
    capstan: Capstan,
    /// Whether it is not asked about metadata that Capstan's controllers write.
    exempts: bool,
    down: Arc<AtomicBool>,
}

/// Capstan's own admission, compiled once; what it read is remembered world by world. It is out of reach while `down`.
pub(super) fn admission(down: Arc<AtomicBool>, exempts: bool) -> Result<Arc<dyn Admit>> {
    let admission = ADMISSION
        .clone()
        .context("the rules that are built in cannot be read")?;
    let capstan = Capstan::new(admission);
    Ok(Arc::new(Webhook { capstan, exempts, down }))
}

fn finalizers(object: &dyn Stored) -> &[Value] {
    let list = object.at("metadata.finalizers").and_then(Value::as_array);
    list.map(Vec::as_slice).unwrap_or_default()
}

/// The match condition of the registration: an object that is being deleted loses finalizers and keeps its spec.
fn removes_finalizers(edit: &Edit<'_>) -> bool {
    let (Some(old), Some(new)) = (edit.old, edit.object) else {
        return false;
    };
    let (before, after) = (finalizers(old), finalizers(new));
    old.at("metadata.deletionTimestamp").is_some()
        && old.field("spec") == new.get("spec")
        && after.iter().all(|name| before.contains(name))
}

/// The other match condition: Capstan's controllers change metadata alone.
fn is_metadata_of_capstan(edit: &Edit<'_>) -> bool {
    let (Some(old), Some(new)) = (edit.old, edit.object) else {
        return false;
    };
    let capstan = ["capstan-", "generator-"];
    capstan.iter().any(|name| edit.user.name.starts_with(name)) && old.field("spec") == new.get("spec")
}

impl Admit for Webhook {
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
        if self.exempts && is_metadata_of_capstan(edit) {
            return Ok(None);
        }
        if self.down.load(Ordering::Relaxed) && !removes_finalizers(edit) {
            let text = format!("Internal error occurred: {OUT_OF_REACH} \"capstan\": connect: connection refused");
            return Err(Failure::new(500, "InternalError", text));
        }
        self.capstan.judge(api, kind, phase, edit, warnings)
    }
}

impl World {
    pub(super) fn webhook_down(&mut self, time: i64) {
        self.outages += 1;
        self.webhook_down.store(true, Ordering::Relaxed);
        self.after_ms(time, Due::WebhookBack);
    }

    pub(super) fn webhook_back(&mut self) {
        self.outages = self.outages.saturating_sub(1);
        self.webhook_down.store(self.outages > 0, Ordering::Relaxed);
        if self.outages == 0 {
            self.trace(|| "   the webhook is back".to_owned());
        }
    }
}
