//! What `status` and `wait` look at: a cluster that is watched, and the set in it as the controller would see it.

use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context as _, bail};
use capstan_core::api::machine_openshift_io::control_plane_machine_set::{ControlPlaneMachineSet, NAME};
use capstan_core::cpms::observed::Settings;
use capstan_core::cpms::reconcile_cache::ReconcileCache;
use jiff::{SignedDuration, Timestamp};
use tokio::sync::watch;

use super::cluster::{Cluster, Scope};
use crate::controllers::{Assessment, Caches, View, assess, observed};

/// How long the first read of a cluster may take.
const FIRST: Duration = Duration::from_secs(60);

/// Where to look, and what decides what is seen.
#[derive(Clone, Debug, clap::Args)]
pub(super) struct Where {
    #[command(flatten)]
    cluster: Cluster,
    #[command(flatten)]
    scope: Scope,
    /// What `capstan serve` was given as --min-ready.
    #[arg(long, default_value = "10s", value_name = "TIME", help_heading = "Cluster")]
    min_ready: SignedDuration,
}

impl Where {
    /// What the controller would make of this picture now.
    pub(super) fn assess(&self, view: &View, now: Timestamp) -> anyhow::Result<Assessment> {
        let set = set_of(view)?;
        let settings = Settings {
            min_ready: self.min_ready,
        };
        let gate = view.snapshot.feature_gate.as_deref();
        let options = self.scope.options();
        Ok(assess(
            Arc::new(set),
            observed(view),
            gate,
            &options,
            settings,
            now,
            &mut ReconcileCache::default(),
        ))
    }

    /// Pictures of the cluster, from the first complete one on, for as long as the caches are kept.
    pub(super) async fn watch(&self) -> anyhow::Result<(Arc<Caches>, watch::Receiver<Arc<View>>)> {
        let caches = Caches::start(&self.cluster.client().await?, &self.scope.namespace);
        let mut views = caches.views();
        let first = tokio::time::timeout(FIRST, views.wait_for(|view| view.known))
            .await
            .is_ok();
        if !first {
            let missing = caches.synced().err().unwrap_or_default();
            bail!("reading the cluster took longer than {FIRST:?}: {missing}");
        }
        Ok((caches, views))
    }

    /// One picture of the cluster.
    pub(super) async fn view(&self) -> anyhow::Result<Arc<View>> {
        let (_caches, views) = self.watch().await?;
        let view = Arc::clone(&views.borrow());
        Ok(view)
    }
}

fn set_of(view: &View) -> anyhow::Result<ControlPlaneMachineSet> {
    if let Some(reason) = view.unreadable_sets.get(NAME) {
        bail!("the ControlPlaneMachineSet {NAME} cannot be read: {reason}");
    }
    let sets = view.snapshot.control_plane_machine_sets.as_deref().unwrap_or_default();
    match sets {
        [only] => Ok((**only).clone()),
        [] => bail!("there is no ControlPlaneMachineSet; `capstan generate` makes one from machines"),
        many => {
            let named = many.iter().find(|set| set.metadata.name() == NAME);
            named
                .map(|set| (**set).clone())
                .with_context(|| format!("{} ControlPlaneMachineSets, and none is named {NAME}", many.len()))
        }
    }
}

/// A runtime for commands that watch a cluster.
pub(super) fn runtime() -> anyhow::Result<tokio::runtime::Runtime> {
    tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .context("starting the runtime")
}
