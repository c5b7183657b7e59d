//! Observes a cluster for `status` and `wait`: watches its objects, and assesses the set as the
//! controller does.

use std::io::Write as _;
use std::process::ExitCode;
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context as _, bail};
use capstan_core::api::kind::KindInfo;
use capstan_core::api::kinds::{CONFIG_MAPS, CONTROL_PLANE_MACHINE_SETS, CONTROL_PLANES, Reader};
use capstan_core::api::machine_openshift_io::control_plane_machine_set::{ControlPlaneMachineSet, NAME};
use capstan_core::cpms::observed::Settings;
use capstan_core::cpms::reconcile_cache::ReconcileCache;
use jiff::{SignedDuration, Timestamp};
use kube::api::{ApiResource, GroupVersionKind};
use tokio::sync::watch;

use super::cluster::{CONNECT, Cluster, Scope};
use super::gather;
use super::output::Output;
use super::refusal::refusal;
use super::report::Report;
use crate::controllers::{
    Assessment, Caches, assess, control_plane, control_plane_machine_sets, observed, snapshot, watches,
};
use crate::runtime::{Caches as RuntimeCaches, View, Watch};

/// The timeout of the first read of a cluster.
const FIRST_READ: Duration = Duration::from_secs(60);

/// The cluster to observe, and the settings of the controller that runs there.
#[derive(Clone, Debug, clap::Args)]
pub(super) struct ObservedCluster {
    #[command(flatten)]
    cluster: Cluster,
    #[command(flatten)]
    scope: Scope,
    /// The --min-ready of `capstan serve` in the cluster.
    #[arg(long, default_value = "10s", value_parser = super::serve::signed_duration, value_name = "TIME",
        help_heading = "Cluster")]
    min_ready: SignedDuration,
}

impl ObservedCluster {
    /// How to connect to the cluster.
    pub(super) fn connection(&self) -> &Cluster {
        &self.cluster
    }

    /// The objects that Capstan manages there.
    pub(super) fn scope(&self) -> &Scope {
        &self.scope
    }

    /// The settings of the controller.
    pub(super) fn settings(&self) -> Settings {
        Settings {
            min_ready: self.min_ready,
        }
    }

    /// The controller's assessment of the set in this snapshot.
    pub(super) fn assess(&self, view: &View, now: Timestamp) -> anyhow::Result<Assessment> {
        let set = set_of(view, &self.scope.namespace)?;
        let snapshot = snapshot(&view.objects);
        let gate = snapshot.feature_gate.as_deref();
        let options = self.scope.options();
        Ok(assess(
            Arc::new(set),
            observed(view),
            gate,
            &options,
            self.settings(),
            now,
            &mut ReconcileCache::default(),
        ))
    }

    /// Whether a ControlPlane manages the machines: there is one, and no set is Active beside it.
    pub(super) async fn has_control_plane(&self) -> anyhow::Result<bool> {
        let client = self.cluster.connect(CONNECT).await?.client;
        let resource = |kind: &KindInfo| {
            let gvk = GroupVersionKind::gvk(&kind.group, &kind.version, &kind.kind);
            ApiResource::from_gvk_with_plural(&gvk, &kind.plural)
        };
        let all = async |kind: &KindInfo| gather::list(&client, &resource(kind), Some(&self.scope.namespace)).await;
        let found = match all(&CONTROL_PLANES).await {
            // A reader of sets may lack this permission, also where the kind is not served.
            Err(error) if gather::is_forbidden(&error) => return Ok(false),
            found => found?,
        };
        if found.is_empty() {
            return Ok(false);
        }
        let sets = all(&CONTROL_PLANE_MACHINE_SETS).await?;
        Ok(!sets.iter().any(|set| set.text("/spec/state") == "Active"))
    }

    /// Returns the views of the objects around a ControlPlane, from the first complete one.
    pub(super) async fn watch_control_plane(&self) -> anyhow::Result<(Arc<RuntimeCaches>, watch::Receiver<Arc<View>>)> {
        let watches = self.readable(Reader::ControlPlaneControllers).await?;
        let caches = RuntimeCaches::start(&self.cluster.client().await?, &watches);
        let views = first_complete(caches.views(), || caches.synced()).await?;
        Ok((caches, views))
    }

    /// The controller's assessment of the ControlPlane in this snapshot.
    pub(super) fn assess_control_plane(&self, view: &View) -> anyhow::Result<control_plane::Assessment> {
        control_plane::of_view(view, &self.scope.options()).context("there must be a ControlPlane")
    }

    /// Returns the views of the cluster from the first complete one. They change as long as the
    /// caches exist.
    pub(super) async fn watch(&self) -> anyhow::Result<(Arc<Caches>, watch::Receiver<Arc<View>>)> {
        // A watch retries without end, so an API server that does not respond is reported first.
        self.cluster.connect(CONNECT).await?;
        self.readable(Reader::Controllers).await?;
        let caches = Caches::start(&self.cluster.client().await?, &self.scope.namespace);
        let views = first_complete(caches.views(), || caches.synced()).await?;
        Ok((caches, views))
    }

    /// Checks that the user may read what this part of Capstan watches: a watch tries again without
    /// end, so that a missing permission would look like an API server that does not respond.
    /// Returns the watches. Without the permission to read the list of the etcd members that vote,
    /// the list is left out.
    async fn readable(&self, reader: Reader) -> anyhow::Result<Vec<Watch>> {
        let client = self.cluster.client().await?;
        let cluster_api = &self.scope.authority.cluster_api_namespace;
        let mut readable = Vec::new();
        for watch in watches(&[reader], &self.scope.namespace, cluster_api) {
            match watch.probe(&client).await {
                Err(kube::Error::Api(status)) if status.code == 403 && *watch.kind() == CONFIG_MAPS => continue,
                Err(kube::Error::Api(status)) if [401, 403].contains(&status.code) => {
                    bail!("listing {}: {}", watch.kind().plural, refusal(&status));
                }
                // The caches tell which kinds are not served, and try again after a failure.
                _ => readable.push(watch),
            }
        }
        Ok(readable)
    }

    /// Checks that the cluster can have a ControlPlaneMachineSet.
    ///
    /// # Errors
    /// The kind is not served, or the namespace does not exist.
    pub(super) async fn can_have_set(&self) -> anyhow::Result<()> {
        let client = self.cluster.connect(CONNECT).await?.client;
        match gather::absence(&client, &self.scope.namespace).await {
            Some(why) => bail!("there must be a ControlPlaneMachineSet, but {why}"),
            None => Ok(()),
        }
    }

    /// Returns one complete view of the cluster.
    pub(super) async fn view(&self) -> anyhow::Result<Arc<View>> {
        self.can_have_set().await?;
        let (_caches, views) = self.watch().await?;
        let view = Arc::clone(&views.borrow());
        Ok(view)
    }
}

/// The views, from the first complete one.
async fn first_complete(
    mut views: watch::Receiver<Arc<View>>,
    synced: impl Fn() -> Result<(), String>,
) -> anyhow::Result<watch::Receiver<Arc<View>>> {
    let is_late = tokio::time::timeout(FIRST_READ, views.wait_for(|view| view.synced))
        .await
        .is_err();
    if is_late {
        let missing = synced().err().unwrap_or_default();
        bail!("the caches of the cluster must be filled within {FIRST_READ:?}: {missing}");
    }
    Ok(views)
}

fn set_of(view: &View, namespace: &str) -> anyhow::Result<ControlPlaneMachineSet> {
    let (sets, undecodable) = control_plane_machine_sets(view);
    if let Some(reason) = undecodable {
        bail!("the ControlPlaneMachineSet {NAME} cannot be decoded: {reason}");
    }
    match sets.as_slice() {
        [only] => Ok((**only).clone()),
        [] => bail!(
            "there must be a ControlPlaneMachineSet in the namespace {namespace}; `capstan generate` prints one for the \
             existing machines"
        ),
        many => {
            let named = many.iter().find(|set| set.metadata.name() == NAME);
            named
                .map(|set| (**set).clone())
                .with_context(|| format!("one of the {} ControlPlaneMachineSets must be named {NAME}", many.len()))
        }
    }
}

/// The exit code of a command that Ctrl-C ends.
const INTERRUPTED: u8 = 130;

/// Runs a command that changes a cluster, and prints its report. Ctrl-C ends it, and prints
/// what the user can do then. As JSON and YAML, the report so far is printed too.
///
/// # Errors
/// The errors of the command, and a runtime that cannot start.
pub(super) fn run_interruptible(
    cluster: &Cluster,
    output: Output,
    hint: &str,
    command: impl AsyncFnOnce(&mut Report) -> anyhow::Result<()>,
) -> anyhow::Result<ExitCode> {
    let mut report = Report::of(cluster).streamed(output);
    let result = runtime()?.block_on(async {
        tokio::select! {
            result = command(&mut report) => Some(result),
            _interrupted = tokio::signal::ctrl_c() => None,
        }
    });
    if let Some(result) = result {
        result?;
        return report.print(output);
    }
    // Nothing else can be done if standard error is closed.
    let _closed = writeln!(std::io::stderr(), "\n{hint}");
    if output != Output::Text {
        report.interrupted();
        report.print(output)?;
    }
    Ok(ExitCode::from(INTERRUPTED))
}

/// A runtime for the commands that watch a cluster.
pub(super) fn runtime() -> anyhow::Result<tokio::runtime::Runtime> {
    tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .context("starting the runtime")
}
