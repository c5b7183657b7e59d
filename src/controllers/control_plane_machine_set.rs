//! The controller of ControlPlaneMachineSets: look, plan, check against a live read, write, and say so.
//!
//! One worker for the one set. It wakes when the caches change, or when a wait of the plan ends with time; nothing is
//! polled. Every write follows from one live snapshot, and only a step that cache and live read agree on removes or
//! makes a machine. A failure of one object is told with the object, and stops no other.

use std::sync::Arc;
use std::time::Duration;

use capstan_core::admission::Options;
use capstan_core::api::config_openshift_io::cluster_operator::{self, ClusterOperator};
use capstan_core::api::config_openshift_io::infrastructure;
use capstan_core::api::machine_openshift_io::control_plane_machine_set::{
    ControlPlaneMachineSet, ControlPlaneMachineSetStatus, NAME,
};
use capstan_core::api::meta::Condition;
use capstan_core::cpms::plan::{Action, Step};
use capstan_core::cpms::state::{Observed, Settings};
use capstan_core::cpms::status::{self, Counts, condition};
use jiff::{SignedDuration, Timestamp};
use kube::Client;
use serde_json::json;
use tokio::sync::watch;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use super::assess::{Assessment, Reading, assess};
use super::caches::View;
use super::events::{Events, News};
use super::follow::Pauses;
use super::ledger::{Object, Sight};
use super::live::{Live, observed};
use super::metrics::Metrics;
use super::trouble::Trouble;
use super::write::Writer;

/// How long the same trouble lasts before it becomes the condition `Error`.
const TROUBLED: SignedDuration = SignedDuration::from_secs(80);
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
pub(super) struct Controller {
    configuration: Configuration,
    views: watch::Receiver<Arc<View>>,
    leading: watch::Receiver<bool>,
    live: Live,
    writer: Writer,
    events: Events,
    metrics: Metrics,
    /// Since when something fails, and what.
    trouble: Option<(Timestamp, String)>,
}

/// When to look again although nothing changed.
#[derive(Debug, Default)]
struct Outcome {
    at: Option<Timestamp>,
    failed: bool,
}

impl Controller {
    pub(super) fn new(
        client: &Client,
        configuration: Configuration,
        views: watch::Receiver<Arc<View>>,
        leading: watch::Receiver<bool>,
        metrics: Metrics,
    ) -> Self {
        let namespace = &configuration.options.namespace;
        Self {
            live: Live::new(client, namespace),
            writer: Writer::new(client, namespace),
            events: Events::new(client.clone(), configuration.identity.clone()),
            configuration,
            views,
            leading,
            metrics,
            trouble: None,
        }
    }

    /// Works until `stop`. A write that has begun is finished; none is begun after.
    pub(super) async fn run(mut self, stop: CancellationToken) {
        let mut pauses = Pauses::new();
        let mut due: Option<Instant> = Some(Instant::now());
        loop {
            tokio::select! {
                biased;
                () = stop.cancelled() => return,
                changed = self.leading.changed() => if changed.is_err() { return },
                changed = self.views.changed() => if changed.is_err() { return },
                () = until(due) => {}
            }
            let leads = *self.leading.borrow_and_update();
            self.metrics.leads(leads);
            let view = Arc::clone(&self.views.borrow_and_update());
            if !leads {
                due = None;
                continue;
            }
            self.writer.ledger.settle(|object| sight(&view, object));
            if let Some(until) = self.writer.ledger.waits_until() {
                self.metrics.behind();
                due = Some(until);
                continue;
            }
            let began = Instant::now();
            let outcome = self.look(&view, &stop).await;
            self.metrics.looked(began.elapsed());
            let mut next = outcome.at.map(instant);
            if outcome.failed {
                let pause = Instant::now() + pauses.next().unwrap_or(Duration::from_secs(30));
                next = Some(next.map_or(pause, |next| next.min(pause)));
            } else {
                pauses.reset();
            }
            due = [next, self.writer.ledger.waits_until()].into_iter().flatten().min();
        }
    }

    /// One look at the cluster, and what follows from it.
    async fn look(&mut self, view: &View, stop: &CancellationToken) -> Outcome {
        if let Some(reason) = view.unreadable_sets.get(NAME) {
            tracing::error!(
                reason,
                "the ControlPlaneMachineSet cannot be read; nothing is done with it"
            );
        }
        let Some(set) = set_of(view) else {
            return Outcome::default();
        };
        let now = Timestamp::now();
        let Some(set) = set else {
            self.metrics.forget();
            let told = self.operator(view, None, false, now).await;
            return self.outcome(&Vec::from_iter(told.err()), None);
        };
        let mut current = self.assess(set, observed(view), view, now);
        let mut troubles = Vec::new();
        let mut taken = Vec::new();
        if !current.plan.steps.is_empty() {
            match self.live.read(view, &current.decisive_nodes()).await {
                Ok((Some(Ok(set)), fresh)) => {
                    let expected = current.plan.disruptive().map(identity);
                    current = self.assess(set, fresh, view, now);
                    taken = self.act(&current, expected.as_ref(), stop, &mut troubles).await;
                }
                Ok((None | Some(Err(_)), _)) => {
                    // Gone or broken since; the caches will say so.
                    return Outcome::default();
                }
                Err(trouble) => troubles.push(trouble),
            }
        }
        if stop.is_cancelled() {
            return Outcome::default();
        }
        if !taken.is_empty() && troubles.is_empty() {
            // The caches will show what was done, and the next look reports that; now there is nothing new to say.
            self.tell(&current, &taken, &troubles);
            return self.outcome(&troubles, current.plan.look_again);
        }
        let status = self.report(view, &current, &taken, &troubles, now).await;
        troubles.extend(status);
        self.count(&current, now);
        self.tell(&current, &taken, &troubles);
        let away = current
            .state()
            .is_some_and(|state| state.machines.iter().any(|machine| machine.is_restarting(now)));
        let at = [
            current.plan.look_again,
            away.then(|| now.checked_add(AWAY).ok()).flatten(),
        ];
        self.outcome(&troubles, at.into_iter().flatten().min())
    }

    fn assess(&self, set: ControlPlaneMachineSet, observed: Observed, view: &View, now: Timestamp) -> Assessment {
        let gate = view.snapshot.feature_gate.as_ref();
        let Configuration { options, settings, .. } = &self.configuration;
        assess(set, observed, gate, options, *settings, now)
    }

    /// Takes the steps of a plan that was made from a live read. A failed repair does not keep the next from being
    /// tried, but nothing is made or removed after it.
    async fn act<'a>(
        &mut self,
        current: &'a Assessment,
        expected: Option<&Identity>,
        stop: &CancellationToken,
        troubles: &mut Vec<Trouble>,
    ) -> Vec<&'a Step> {
        let mut taken = Vec::new();
        for step in &current.plan.steps {
            if stop.is_cancelled() || !*self.leading.borrow() {
                break;
            }
            // What makes the others safe: the finalizer goes only when nothing else is left to do.
            let last = step.is_disruptive() || (matches!(step.action, Action::PatchSet(_)) && step.machine.is_none());
            if last && !troubles.is_empty() {
                break;
            }
            if step.is_disruptive() && expected != Some(&identity(step)) {
                tracing::debug!(
                    step = step.action.name(),
                    "the caches see it differently; looking again when they change"
                );
                break;
            }
            let (action, machine) = (step.action.name(), step.machine.as_deref().unwrap_or(NAME));
            match self.writer.take(step).await {
                Ok(()) => {
                    tracing::info!(action, machine, index = step.index, because = step.because, "step");
                    self.metrics.step(action, "done");
                    taken.push(step);
                }
                Err(trouble) if trouble.is_conflict() => {
                    tracing::debug!(action, machine, %trouble, "it changed in the meantime");
                    self.metrics.step(action, "conflict");
                    troubles.push(trouble);
                }
                Err(trouble) => {
                    tracing::warn!(action, machine, %trouble, "step");
                    self.metrics.step(action, "failed");
                    troubles.push(trouble);
                }
            }
        }
        taken
    }

    /// Writes status and ClusterOperator, each only when it differs.
    async fn report(
        &mut self,
        view: &View,
        current: &Assessment,
        taken: &[&Step],
        troubles: &[Trouble],
        now: Timestamp,
    ) -> Vec<Trouble> {
        let mut failed = Vec::new();
        let now = Timestamp::from_second(now.as_second()).unwrap_or(now);
        self.remember(troubles, now);
        let error = self.error(now);
        let Some(status) = current.status(error.as_deref(), now) else {
            return failed;
        };
        let previous = current.set.status.as_ref();
        // A set that was patched in this look has another version by now; its own event brings us back.
        let patched = taken.iter().any(|step| matches!(step.action, Action::PatchSet(_)));
        if previous != Some(&status) && !patched {
            match self.writer.status(&current.set, &json!(status)).await {
                Ok(()) => self.measure(previous, &status, now),
                Err(trouble) => failed.push(trouble),
            }
        }
        if let Err(trouble) = self.operator(view, Some(&status), current.is_active(), now).await {
            failed.push(trouble);
        }
        failed
    }

    /// Writes the ClusterOperator.
    async fn operator(
        &mut self,
        view: &View,
        set: Option<&ControlPlaneMachineSetStatus>,
        active: bool,
        now: Timestamp,
    ) -> Result<(), Trouble> {
        if !view.serves_cluster_operators {
            return Ok(());
        }
        let now = Timestamp::from_second(now.as_second()).unwrap_or(now);
        let operators = view.snapshot.cluster_operators.as_ref();
        let there = operators.and_then(|operators| operators.get(cluster_operator::NAME));
        let none = ClusterOperator::default();
        let before = &there.unwrap_or(&none).status;
        let conditions = status::cluster_operator(set, active, &before.conditions, now);
        let mut wanted = before.clone();
        wanted.conditions = conditions;
        let version = match self.configuration.options.release_version.as_str() {
            "" => env!("CARGO_PKG_VERSION"),
            version => version,
        };
        let namespace = &self.configuration.options.namespace;
        let parts = json!({
            "versions": [{"name": "operator", "version": version}],
            "relatedObjects": [
                {"group": "", "resource": "namespaces", "name": namespace},
                {"group": "machine.openshift.io", "resource": "controlplanemachinesets", "namespace": namespace, "name": ""},
                {"group": "machine.openshift.io", "resource": "machines", "namespace": namespace, "name": ""},
                {"group": "config.openshift.io", "resource": infrastructure::PLURAL, "name": infrastructure::NAME},
            ],
        });
        if let Ok(parts) = serde_json::from_value::<cluster_operator::ClusterOperatorStatus>(parts) {
            wanted.versions = parts.versions;
            wanted.related_objects = parts.related_objects;
        }
        if there.is_some() && wanted == *before {
            return Ok(());
        }
        self.writer.operator(there.is_some(), &json!(wanted)).await
    }

    fn remember(&mut self, troubles: &[Trouble], now: Timestamp) {
        let lasting: Vec<String> = troubles
            .iter()
            .filter(|trouble| !trouble.is_conflict())
            .map(ToString::to_string)
            .collect();
        self.trouble = if lasting.is_empty() {
            None
        } else {
            let since = self.trouble.as_ref().map_or(now, |(since, _)| *since);
            Some((since, lasting.join("; ")))
        };
    }

    /// What keeps the controller from working, if something has for long enough.
    fn error(&self, now: Timestamp) -> Option<String> {
        let (since, text) = self.trouble.as_ref()?;
        (now.duration_since(*since) >= TROUBLED).then(|| text.clone())
    }

    fn outcome(&mut self, troubles: &[Trouble], at: Option<Timestamp>) -> Outcome {
        for trouble in troubles.iter().filter(|trouble| !trouble.is_conflict()) {
            tracing::warn!(%trouble, "trying again");
        }
        Outcome {
            at,
            failed: !troubles.is_empty(),
        }
    }

    fn measure(
        &self,
        previous: Option<&ControlPlaneMachineSetStatus>,
        status: &ControlPlaneMachineSetStatus,
        now: Timestamp,
    ) {
        let progressing = |status: &ControlPlaneMachineSetStatus| -> Option<Condition> {
            let mut conditions = status.conditions.iter();
            conditions.find(|there| there.type_ == condition::PROGRESSING).cloned()
        };
        let (Some(before), Some(after)) = (previous.and_then(progressing), progressing(status)) else {
            return;
        };
        if before.status == "True" && after.status == "False" && after.reason == "AllReplicasUpdated" {
            self.metrics
                .rolled_out(now.duration_since(before.last_transition_time).as_secs_f64());
        }
    }

    fn count(&self, current: &Assessment, now: Timestamp) {
        self.metrics
            .waits(current.plan.waits.iter().map(|wait| wait.reason.name()));
        let degraded = current.set.status.as_ref().and_then(|status| {
            let mut conditions = status.conditions.iter();
            let there = conditions.find(|there| there.type_ == condition::DEGRADED)?;
            (there.status == "True").then_some(there.last_transition_time)
        });
        let reasons: Vec<&'static str> = match &current.reading {
            Reading::Invalid(_) => vec!["InvalidSpec"],
            Reading::Valid(_) | Reading::Leaving => current.plan.degraded.iter().map(|reason| reason.reason).collect(),
        };
        let since = (!reasons.is_empty()).then(|| degraded.unwrap_or(now).as_second());
        self.metrics.degraded(reasons.into_iter(), since);
        if let Reading::Valid(read) = &current.reading {
            let (spec, state) = &**read;
            let counts = Counts::of(state, now);
            let number = |count: usize| i64::try_from(count).unwrap_or(i64::MAX);
            self.metrics.machines(&[
                ("wanted", number(spec.replicas.count())),
                ("all", number(counts.replicas)),
                ("ready", number(counts.ready)),
                ("updated", number(counts.updated)),
                ("unavailable", number(counts.unavailable)),
            ]);
        }
    }

    /// Events: what was done, what is waited for, what stops.
    fn tell(&mut self, current: &Assessment, taken: &[&Step], troubles: &[Trouble]) {
        let once = taken.iter().map(|step| {
            let machine = step.machine.as_deref().unwrap_or(NAME);
            let (reason, verb) = match &step.action {
                Action::Create(_) => ("Created", "created machine"),
                Action::Delete => ("Deleted", "deleted machine"),
                Action::Patch(_) => ("Updated", "updated machine"),
                Action::PatchSet(_) => ("Updated", "updated set"),
            };
            let version = step
                .precondition
                .as_ref()
                .map_or("", |precondition| &precondition.resource_version);
            News {
                warning: false,
                reason,
                message: format!("{verb} {machine}: {}", step.because),
                key: format!("{machine} {version}"),
            }
        });
        let waits = current.plan.waits.iter().map(|wait| News {
            warning: false,
            reason: wait.reason.name(),
            message: wait.message.clone(),
            key: format!("{:?} {}", wait.index, wait.machine.as_deref().unwrap_or_default()),
        });
        let stops = current.plan.degraded.iter().map(|reason| News {
            warning: true,
            reason: reason.reason,
            message: reason.message.clone(),
            key: format!("{:?}", current.set.metadata.generation),
        });
        let failures = troubles
            .iter()
            .filter(|trouble| !trouble.is_conflict())
            .map(|trouble| News {
                warning: true,
                reason: "Failed",
                message: trouble.to_string(),
                key: trouble.to_string(),
            });
        let lasting = waits.chain(stops).chain(failures).collect();
        self.events.say(&current.set, lasting, once.collect());
    }
}

/// What makes two steps the same: what is done to which machine of which index.
type Identity = (&'static str, Option<String>, Option<u32>);

fn identity(step: &Step) -> Identity {
    (step.action.name(), step.machine.clone(), step.index)
}

/// The set; `None` while it is not known whether there is one, or what it depends on.
fn set_of(view: &View) -> Option<Option<ControlPlaneMachineSet>> {
    let snapshot = &view.snapshot;
    let sets = snapshot.control_plane_machine_sets.as_ref()?;
    let complete = snapshot.machines.is_some() && snapshot.nodes.is_some() && snapshot.cluster_operators.is_some();
    // A set that cannot be read is there, but there is nothing to be done about it.
    let known = complete && view.known && !view.unreadable_sets.contains_key(NAME);
    known.then(|| sets.iter().find(|set| set.metadata.name() == NAME).cloned())
}

/// How the caches show an object that was written.
fn sight<'a>(view: &'a View, object: &Object) -> Option<Sight<'a>> {
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
    Some(Sight {
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
