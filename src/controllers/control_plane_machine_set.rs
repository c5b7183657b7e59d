//! The controller of ControlPlaneMachineSets: look, plan, check against a live read, write, and say so.
//!
//! One worker for the one set. It wakes when the caches change, or when a wait of the plan ends with time; nothing is
//! polled. Every write follows from one live snapshot, and only a step that cache and live read agree on removes or
//! makes a machine. A failure of one object is told with the object, and stops no other.

mod report;
mod rest;
#[cfg(test)]
mod tests;
mod unreadable;

use std::sync::Arc;
use std::time::Duration;

use capstan_core::admission::Options;
use capstan_core::api::config_openshift_io::cluster_operator::{self, ClusterOperatorStatus};
use capstan_core::api::machine_openshift_io::control_plane_machine_set::{ControlPlaneMachineSet, NAME};
use capstan_core::cpms::observed::{Observed, Settings};
use capstan_core::cpms::plan::{Action, Step};
use capstan_core::cpms::reconcile_cache::ReconcileCache;
use jiff::{SignedDuration, Timestamp};
use tokio::sync::watch;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use super::assess::{Assessment, assess};
use super::caches::View;
use super::cluster::{Cluster, Object};
use super::events::Events;
use super::follow::Pauses;
use super::live::{observed, read};
use super::metrics::Metrics;
use super::step_error::StepError;
use super::write::Writer;
use super::write_tracker::CachedVersion;
use rest::Rest;

/// While a node is away, what is reported of it changes with time alone.
const AWAY: SignedDuration = SignedDuration::from_mins(1);

/// What is configured.
#[derive(Clone, Debug)]
pub struct Configuration {
    /// Namespace, gates, version.
    pub options: Options,
    /// What decides the pace.
    pub settings: Settings,
    /// Who this process is, in events.
    pub identity: String,
}

/// The controller.
pub struct Controller<C> {
    configuration: Configuration,
    leading: watch::Receiver<bool>,
    writer: Writer<C>,
    events: Events,
    metrics: Metrics,
    /// What the last look left for the next.
    cache: ReconcileCache,
    /// What the last look came to rest on.
    rest: Option<Rest>,
    /// What our ClusterOperator says of Capstan itself.
    parts: ClusterOperatorStatus,
    /// What was written there last.
    said: Option<report::Said>,
    /// Since when something fails, and what.
    failure: Option<(Timestamp, String)>,
    /// Whether the definition in the cluster does not keep what is said of each machine.
    drops_machines: bool,
}

/// What came of a turn.
#[derive(Clone, Copy, Debug, Default)]
pub struct ReconcileResult {
    /// Whether there was a look.
    pub looked: bool,
    /// When to look again although nothing changed.
    pub at: Option<Timestamp>,
    /// Whether something failed, and is to be tried again after a pause.
    pub failed: bool,
    /// Until when the caches are waited for.
    pub behind: Option<Instant>,
}

/// When to look again although nothing changed.
#[derive(Debug, Default)]
struct Outcome {
    at: Option<Timestamp>,
    failed: bool,
}

impl<C: Cluster> Controller<C> {
    /// A controller of a cluster, which has written nothing yet. It acts while `leading` says so.
    pub fn new(cluster: C, configuration: Configuration, leading: watch::Receiver<bool>, metrics: Metrics) -> Self {
        Self {
            writer: Writer::new(cluster),
            events: Events::new(configuration.identity.clone()),
            cache: ReconcileCache::default(),
            rest: None,
            parts: report::parts(&configuration.options),
            said: None,
            configuration,
            leading,
            metrics,
            failure: None,
            drops_machines: false,
        }
    }

    /// Works until `stop`. A write that has begun is finished; none is begun after.
    pub(super) async fn run(mut self, mut views: watch::Receiver<Arc<View>>, stop: CancellationToken) {
        let mut pauses = Pauses::new();
        let mut due: Option<Instant> = Some(Instant::now());
        loop {
            tokio::select! {
                biased;
                () = stop.cancelled() => return,
                changed = self.leading.changed() => if changed.is_err() { return },
                changed = views.changed() => if changed.is_err() { return },
                () = until(due) => {}
            }
            let leads = *self.leading.borrow_and_update();
            self.metrics.leads(leads);
            let view = Arc::clone(&views.borrow_and_update());
            if !leads {
                due = None;
                continue;
            }
            let turn = self.turn(&view, &stop).await;
            let mut next = turn.at.map(instant);
            if turn.behind.is_some() && !turn.looked {
                due = turn.behind;
                continue;
            }
            if turn.failed {
                let pause = Instant::now() + pauses.next().unwrap_or(Duration::from_secs(30));
                next = Some(next.map_or(pause, |next| next.min(pause)));
            } else {
                pauses.reset();
            }
            due = [next, turn.behind].into_iter().flatten().min();
        }
    }

    /// One turn with what the caches show: nothing while they do not show what was written, and one look otherwise. The
    /// simulation takes turns with this function.
    pub async fn turn(&mut self, view: &View, stop: &CancellationToken) -> ReconcileResult {
        let began = self.writer.cluster.instant();
        self.writer.writes.settle(began, |object| cached_version(view, object));
        let behind = self.writer.writes.waits_until();
        if behind.is_some() {
            self.metrics.behind();
            return ReconcileResult {
                behind,
                ..ReconcileResult::default()
            };
        }
        let outcome = self.look(view, stop).await;
        self.metrics.looked(self.writer.cluster.instant().duration_since(began));
        ReconcileResult {
            looked: true,
            at: outcome.at,
            failed: outcome.failed,
            behind: self.writer.writes.waits_until(),
        }
    }

    /// One look at the cluster, and what follows from it.
    async fn look(&mut self, view: &View, stop: &CancellationToken) -> Outcome {
        if let Some(reason) = view.unreadable_sets.get(NAME).filter(|_| view.known) {
            let now = self.writer.cluster.now();
            return self.unreadable(view, reason, now, stop).await;
        }
        let Some(set) = set_of(view) else {
            return Outcome::default();
        };
        let now = self.writer.cluster.now();
        let Some(set) = set else {
            self.metrics.forget();
            let told = self.operator(view, None, false, now).await;
            return self.outcome(&Vec::from_iter(told.err()), None);
        };
        let last = self.rest.take().filter(|last| last.holds(view, &set, now));
        if let Some(last) = last
            && self.unsaid(view, Some(&last.status), last.active, now).is_none()
        {
            let at = last.at;
            self.rest = Some(last);
            return self.outcome(&[], at);
        }
        let mut seen = observed(view);
        self.writer.recall(&mut seen, &set, false);
        let mut current = self.assess(Arc::clone(&set), seen, view, now);
        let calm = current.plan.steps.is_empty() && rest::is_readable(view);
        let mut errors = Vec::new();
        let mut taken = Vec::new();
        if !current.plan.steps.is_empty() {
            let began = self.writer.cluster.instant();
            match read(&self.writer.cluster, view, current.decisive_nodes().as_deref()).await {
                Ok((Some(Ok(set)), mut fresh)) => {
                    self.writer.recall(&mut fresh, &set, true);
                    let expected = current.plan.disruptive().map(|step| Expected {
                        step: identity(step),
                        read: began,
                    });
                    current = self.assess(set, fresh, view, now);
                    taken = self.act(&current, expected.as_ref(), stop, &mut errors).await;
                }
                Ok((None | Some(Err(_)), _)) => {
                    // Gone or broken since; the caches will say so.
                    return Outcome::default();
                }
                Err(failure) => errors.push(failure),
            }
        }
        if stop.is_cancelled() {
            return Outcome::default();
        }
        if !taken.is_empty() && errors.is_empty() {
            // The caches will show what was done, and the next look reports that; now there is nothing new to say.
            self.tell(&current, &taken, &errors);
            return self.outcome(&errors, current.plan.reconcile_at);
        }
        let (status, failed) = self.report(view, &current, &taken, &errors, now).await;
        errors.extend(failed);
        self.count(&current, now);
        self.tell(&current, &taken, &errors);
        let away = current
            .state()
            .is_some_and(|state| state.each_machine().any(|machine| machine.is_restarting(now)));
        let at = [
            current.plan.reconcile_at,
            away.then(|| now.checked_add(AWAY).ok()).flatten(),
        ];
        let at = at.into_iter().flatten().min();
        self.rest = (calm && errors.is_empty()).then(|| Rest {
            snapshot: Arc::clone(&view.snapshot),
            set,
            status,
            active: current.is_active(),
            looked: now,
            at,
        });
        self.outcome(&errors, at)
    }

    fn assess(
        &mut self,
        set: Arc<ControlPlaneMachineSet>,
        observed: Observed,
        view: &View,
        now: Timestamp,
    ) -> Assessment {
        let gate = view.snapshot.feature_gate.as_deref();
        let Configuration { options, settings, .. } = &self.configuration;
        assess(set, observed, gate, options, *settings, now, &mut self.cache)
    }

    /// Takes the steps of a plan that was made from a live read. A failed repair does not keep the next from being
    /// tried, but nothing is made or removed after it.
    async fn act<'a>(
        &mut self,
        current: &'a Assessment,
        expected: Option<&Expected>,
        stop: &CancellationToken,
        errors: &mut Vec<StepError>,
    ) -> Vec<&'a Step> {
        let mut taken = Vec::new();
        for step in &current.plan.steps {
            if stop.is_cancelled() || !*self.leading.borrow() {
                break;
            }
            // What makes the others safe: the finalizer goes only when nothing else is left to do.
            let last = step.is_disruptive() || (matches!(step.action, Action::PatchSet(_)) && step.machine().is_none());
            if last && !errors.is_empty() {
                break;
            }
            let expected = expected.filter(|expected| expected.step == identity(step));
            if step.is_disruptive() && expected.is_none() {
                tracing::debug!(
                    step = step.verb(),
                    "the caches see it differently; looking again when they change"
                );
                break;
            }
            let (action, machine) = (step.verb(), step.machine().unwrap_or(NAME));
            let taking = async {
                // The next process or leader must know of a creation before it is sent.
                let identity = self.configuration.identity.as_str();
                self.writer.record(identity, &current.set, step).await?;
                if let Some(expected) = expected {
                    self.writer.fresh(step, expected.read)?;
                }
                self.writer.take(step).await
            };
            match taking.await {
                Ok(()) => {
                    tracing::info!(action, machine, index = step.index, because = step.because, "step");
                    self.metrics.step(action, "done");
                    taken.push(step);
                }
                Err(failure) if failure.is_conflict() => {
                    tracing::debug!(action, machine, %failure, "it changed in the meantime");
                    self.metrics.step(action, "conflict");
                    errors.push(failure);
                }
                Err(failure) => {
                    tracing::warn!(action, machine, %failure, "step");
                    self.metrics.step(action, "failed");
                    errors.push(failure);
                }
            }
            // A set that nothing holds must own no machine: the garbage collector would take them along.
            if matches!(step.action, Action::PatchSet(_)) && !errors.is_empty() {
                break;
            }
        }
        taken
    }

    fn outcome(&mut self, errors: &[StepError], at: Option<Timestamp>) -> Outcome {
        for failure in errors.iter().filter(|failure| !failure.is_conflict()) {
            tracing::warn!(%failure, "trying again");
        }
        Outcome {
            at,
            failed: !errors.is_empty(),
        }
    }
}

/// The step that makes or removes a machine as the caches have it, and when the live read began that it is held to.
struct Expected {
    step: Identity,
    read: Instant,
}

/// What makes two steps the same: what is done to which machine of which index.
type Identity = (&'static str, Option<String>, Option<u32>);

fn identity(step: &Step) -> Identity {
    (step.verb(), step.machine().map(str::to_owned), step.index)
}

/// The set; `None` while it is not known whether there is one, or what it depends on.
fn set_of(view: &View) -> Option<Option<Arc<ControlPlaneMachineSet>>> {
    let snapshot = &view.snapshot;
    let sets = snapshot.control_plane_machine_sets.as_ref()?;
    let complete = snapshot.machines.is_some() && snapshot.nodes.is_some() && snapshot.cluster_operators.is_some();
    // A set that cannot be read is there, but there is nothing to be done about it.
    let known = complete && view.known && !view.unreadable_sets.contains_key(NAME);
    known.then(|| sets.iter().find(|set| set.metadata.name() == NAME).cloned())
}

/// How the caches show an object that was written.
fn cached_version<'a>(view: &'a View, object: &Object) -> Option<CachedVersion<'a>> {
    let snapshot = &view.snapshot;
    let meta = match object {
        Object::Set(name) => {
            let sets = snapshot.control_plane_machine_sets.as_ref()?;
            &sets.iter().find(|set| set.metadata.name() == name)?.metadata
        }
        Object::Machine(name) => {
            let machines = snapshot.machines.as_ref()?;
            &machines
                .iter()
                .find(|machine| machine.metadata.name() == name)?
                .metadata
        }
        Object::ClusterOperator => {
            &snapshot
                .cluster_operators
                .as_ref()?
                .get(cluster_operator::NAME)?
                .metadata
        }
    };
    Some(CachedVersion {
        uid: meta.uid(),
        version: meta.resource_version.as_deref().unwrap_or_default(),
    })
}

fn instant(at: Timestamp) -> Instant {
    let left = at.duration_since(Timestamp::now());
    Instant::now() + Duration::try_from(left).unwrap_or(Duration::ZERO)
}

async fn until(due: Option<Instant>) {
    match due {
        Some(due) => tokio::time::sleep_until(due).await,
        None => std::future::pending().await,
    }
}
