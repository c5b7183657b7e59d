//! The sequence of one reconcile: observe, plan, check against a live read, write, report.
//!
//! Every write follows from one live snapshot, and only a step on which the caches and the live
//! read agree creates or deletes an object. The failure of one step is reported with its object,
//! and stops only what depends on it. The simulation steps this code.

use std::sync::Arc;

use capstan_core::model::ObjectRef;
use jiff::{SignedDuration, Timestamp};
use tokio::sync::watch;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use super::caches::View;
use super::cluster::Cluster;
use super::events::Events;
use super::metrics::Metrics;
use super::reconcile::{Moment, Observation, Reconcile, Reconciled, Report, Source, Step};
use super::step_error::StepError;
use super::undone::Undone;
use super::write::{Verb, Write, Writer};
use super::write_tracker::CachedVersion;

/// For how long a process writes on the basis of a live read. A process that was paused for longer
/// may no longer be the leader, and its object may have been replaced. It reads again.
pub const FRESH: SignedDuration = SignedDuration::from_mins(1);

/// What came of a reconcile.
#[derive(Clone, Copy, Debug, Default)]
pub struct ReconcileResult {
    /// Whether anything was observed. It is not while the caches are waited for.
    pub reconciled: bool,
    /// When to reconcile again although nothing changed.
    pub requeue_at: Option<Timestamp>,
    /// Whether something failed, and is to be retried after a delay.
    pub failed: bool,
    /// Until when the caches are waited for.
    pub behind: Option<Instant>,
}

/// What all objects of a controller share.
#[derive(Debug)]
pub struct Shared<R> {
    /// The controller.
    pub controller: R,
    /// The name of this process, in events and records.
    pub identity: String,
    /// Whether this process is the leader.
    pub leading: watch::Receiver<bool>,
    /// The metrics of the runtime.
    pub metrics: Metrics,
}

/// Reconciles one object, and keeps what is remembered of it.
pub struct Reconciler<R: Reconcile, C> {
    shared: Arc<Shared<R>>,
    object: ObjectRef,
    writer: Writer<C>,
    events: Events,
    state: R::State,
    /// What has been failing without a break, and since when.
    failing: Option<(Timestamp, String)>,
    undone: Undone,
}

#[derive(Debug, Default)]
struct Outcome {
    at: Option<Timestamp>,
    failed: bool,
}

/// The disruptive step of the plan from the caches, and when the live read began that confirms it.
struct Expected {
    step: Option<Write>,
    read: Instant,
}

impl<R: Reconcile, C: Cluster> Reconciler<R, C> {
    /// A reconciler that has observed and written nothing yet.
    pub fn new(shared: Arc<Shared<R>>, cluster: C, object: ObjectRef) -> Self {
        Self {
            writer: Writer::new(cluster),
            events: Events::new(shared.identity.clone()),
            state: R::State::default(),
            failing: None,
            undone: Undone::default(),
            object,
            shared,
        }
    }

    /// One reconcile with what the caches show. Nothing happens while they do not show the last
    /// write.
    pub async fn reconcile(&mut self, view: &View, stop: &CancellationToken) -> ReconcileResult {
        let began = self.writer.cluster.instant();
        self.writer.tracker.settle(began, |object| cached_version(view, object));
        let behind = self.writer.tracker.waits_until();
        if behind.is_some() {
            self.shared.metrics.behind(R::NAME);
            return ReconcileResult {
                behind,
                ..ReconcileResult::default()
            };
        }
        self.undone.observe(began, |object| {
            let meta = view.objects.metadata(object)?;
            (!meta.is_deleting()).then_some(meta.uid.as_deref().unwrap_or_default())
        });
        // Nothing enables this span, except the export of traces.
        let span = tracing::trace_span!(target: "capstan::traces", "reconcile", controller = R::NAME);
        let outcome = self.run(view, stop).await;
        drop(span);
        let took = self.writer.cluster.instant().duration_since(began);
        self.shared.metrics.reconciled(R::NAME, took);
        ReconcileResult {
            reconciled: true,
            requeue_at: outcome.at,
            failed: outcome.failed,
            behind: self.writer.tracker.waits_until(),
        }
    }

    fn moment(&self) -> Moment {
        let instant = self.writer.cluster.instant();
        Moment {
            time: self.writer.cluster.now(),
            instant,
            seen: instant,
        }
    }

    fn observe(&mut self, view: &View, source: Source, moment: Moment) -> Observation<R::Observed> {
        let controller = &self.shared.controller;
        controller.observe(&self.object, view, source, &mut self.state, moment)
    }

    fn plan(&mut self, observed: &R::Observed, moment: Moment) -> Vec<Step> {
        self.shared.controller.plan(observed, &mut self.state, moment)
    }

    async fn run(&mut self, view: &View, stop: &CancellationToken) -> Outcome {
        let moment = self.moment();
        let mut observed = match self.observe(view, Source::Caches, moment) {
            Observation::Nothing => return Outcome::default(),
            Observation::Idle(at) => return Outcome { at, failed: false },
            Observation::Found(observed) => observed,
        };
        let shared = Arc::clone(&self.shared);
        if shared.controller.inquire(&self.writer.cluster, &observed).await
            && let Observation::Found(now) = self.observe(view, Source::Caches, moment)
        {
            observed = now;
        }
        let mut steps = self.plan(&observed, moment);
        let calm = steps.is_empty();
        let (mut taken, mut errors) = (Vec::new(), Vec::new());
        if !calm {
            let read = self.writer.cluster.instant();
            let shared = Arc::clone(&self.shared);
            let live = shared
                .controller
                .read_live(&self.object, &self.writer.cluster, view, &observed);
            match live.await {
                Ok(live) => {
                    let step = steps.iter().find(|step| step.disruptive).map(identity);
                    let expected = Expected { step, read };
                    if let Some(live) = live {
                        // What expires is judged by the time before the read.
                        let moment = Moment {
                            seen: self.writer.cluster.instant(),
                            ..moment
                        };
                        let Observation::Found(now) = self.observe(&live, Source::Live, moment) else {
                            // Gone or broken since. The caches will show it.
                            return Outcome::default();
                        };
                        observed = now;
                        steps = self.plan(&observed, moment);
                    }
                    (taken, errors) = self.act(&observed, &steps, &expected, stop).await;
                }
                Err(error) => errors.push(error),
            }
        }
        if stop.is_cancelled() {
            return Outcome::default();
        }
        let reported = taken.is_empty() || !errors.is_empty();
        if reported {
            let failed = self.report_status(view, &observed, &taken, &errors, calm, moment).await;
            errors.extend(failed);
        }
        self.finish(view, &observed, &taken, &errors, (calm, reported), moment)
    }

    /// Takes steps that were planned from a live read.
    async fn act(
        &mut self,
        observed: &R::Observed,
        steps: &[Step],
        expected: &Expected,
        stop: &CancellationToken,
    ) -> (Vec<usize>, Vec<StepError>) {
        let (mut taken, mut errors) = (Vec::new(), Vec::new());
        let mut blocked = false;
        for (position, step) in steps.iter().enumerate() {
            if stop.is_cancelled() || !*self.shared.leading.borrow() {
                break;
            }
            if step.needs_success && blocked {
                break;
            }
            if step.disruptive && expected.step.as_ref() != Some(&identity(step)) {
                tracing::debug!(
                    step = step.action,
                    "the caches lead to another plan; waiting until they change"
                );
                break;
            }
            let (action, object) = (step.action, step.write.object.to_string());
            match self.take(observed, position, step, expected.read).await {
                Ok(()) => {
                    tracing::info!(action, object, because = step.because, "step");
                    self.shared.metrics.step(R::NAME, action, "done");
                    taken.push(position);
                }
                Err(error) if self.tolerates(observed, &error) => {
                    tracing::debug!(action, object, %error, "the refusal stands until something changes");
                    self.shared.metrics.step(R::NAME, action, "refused");
                }
                Err(error) if step.optional && error.is_by_rule() => {
                    tracing::warn!(action, object, %error, "step");
                    self.shared.metrics.step(R::NAME, action, "refused");
                    errors.push(error);
                }
                Err(error) if error.is_conflict() => {
                    tracing::debug!(action, object, %error, "the object changed in the meantime");
                    self.shared.metrics.step(R::NAME, action, "conflict");
                    errors.push(error);
                    blocked = true;
                }
                Err(error) => {
                    tracing::warn!(action, object, %error, "step");
                    self.shared.metrics.step(R::NAME, action, "failed");
                    errors.push(error);
                    blocked = true;
                }
            }
            if step.gates_others && blocked {
                break;
            }
        }
        (taken, errors)
    }

    fn tolerates(&mut self, observed: &R::Observed, error: &StepError) -> bool {
        let moment = self.moment();
        let controller = &self.shared.controller;
        controller.tolerated(observed, error, &mut self.state, moment)
    }

    async fn take(
        &mut self,
        observed: &R::Observed,
        position: usize,
        step: &Step,
        read: Instant,
    ) -> Result<(), StepError> {
        let moment = self.moment();
        self.deferred(step, moment.instant)?;
        let shared = Arc::clone(&self.shared);
        // A process that acts later must be able to know of the step before it is attempted.
        if let Some(record) = shared.controller.before(observed, position, &mut self.state, moment) {
            self.writer.write(&record).await?;
        }
        self.fresh(step, read)?;
        let written = match shared.controller.perform(observed, position).await {
            // It may have taken long.
            Ok(()) => match self.fresh(step, read) {
                Ok(()) => self.writer.write(&step.write).await.map(|_| ()),
                Err(error) => Err(error),
            },
            Err(error) => return Err(error),
        };
        let moment = self.moment();
        let Err(error) = written else {
            let object = &step.write.object;
            match &step.write.verb {
                Verb::Create { .. } => self.undone.created(object, step.disruptive, moment.instant),
                Verb::CreateUnwatched(_) | Verb::Ensure(_) | Verb::Apply { .. } => {
                    self.undone.created(object, false, moment.instant);
                }
                Verb::Delete { precondition } => {
                    let uid = precondition.as_ref().map_or("", |(uid, _)| uid);
                    self.undone.deleted(object, uid, moment.instant);
                }
                Verb::Patch(_) | Verb::PatchStatus(_) | Verb::Perform(_) => {}
            }
            return Ok(());
        };
        let controller = &shared.controller;
        let instead = controller.failed(observed, position, &error, &mut self.state, moment);
        let Some(instead) = instead else {
            return Err(error);
        };
        self.writer.write(&instead).await.map(|_| ())
    }

    /// Fails while a creation or a deletion waits, because others undid the last ones.
    fn deferred(&self, step: &Step, now: Instant) -> Result<(), StepError> {
        let title = step.write.title();
        match &step.write.verb {
            Verb::Create { .. } if step.disruptive => match self.undone.defers_creation(now) {
                Some(lost) => Err(StepError::deletes_again(title, &lost.name)),
                None => Ok(()),
            },
            Verb::Delete { .. } if step.disruptive => match self.undone.defers_deletion(now) {
                Some(returned) => Err(StepError::creates_again(title, &returned.name)),
                None => Ok(()),
            },
            _ => Ok(()),
        }
    }

    /// Fails if the live read is too old for a step.
    fn fresh(&self, step: &Step, read: Instant) -> Result<(), StepError> {
        let passed = self.writer.cluster.instant().duration_since(read);
        if SignedDuration::try_from(passed).is_ok_and(|passed| passed < FRESH) {
            return Ok(());
        }
        let seconds = passed.as_secs();
        let text = format!("the plan is {seconds} s old and leadership may have changed; retrying");
        Err(StepError::new(step.write.title(), kube::Error::Service(text.into())))
    }

    async fn report_status(
        &mut self,
        view: &View,
        observed: &R::Observed,
        taken: &[usize],
        errors: &[StepError],
        calm: bool,
        moment: Moment,
    ) -> Vec<StepError> {
        self.remember(errors, moment.time);
        let shared = Arc::clone(&self.shared);
        let reconciled = Reconciled {
            view,
            observed,
            taken,
            errors,
            failing: self.failing.as_ref(),
            calm,
            reported: true,
            moment,
        };
        let mut failed: Vec<StepError> = Vec::new();
        let mut given_up = Vec::new();
        for write in shared.controller.status(&reconciled, &mut self.state) {
            // A status cannot be written to an object that could not be created.
            if given_up.contains(&write.object) {
                continue;
            }
            match self.writer.write(&write).await {
                Ok(written) => {
                    if matches!(write.verb, Verb::PatchStatus(_)) && view.objects.metadata(&write.object).is_none() {
                        self.writer.expect(&write, &written);
                    }
                    let controller = &shared.controller;
                    controller.stored(observed, &write, &written, &mut self.state);
                }
                // Another object was deleted since the caches showed it. It needs no status.
                Err(error) if error.is_not_found() && self.is_other(view, &write.object) => {
                    given_up.push(write.object.clone());
                }
                Err(error) => {
                    failed.push(error);
                    given_up.push(write.object.clone());
                }
            }
        }
        failed
    }

    /// Whether an object is not the reconciled one, and the caches show it.
    fn is_other(&self, view: &View, object: &ObjectRef) -> bool {
        *object != self.object && view.objects.metadata(object).is_some()
    }

    /// Remembers since when something fails.
    fn remember(&mut self, errors: &[StepError], now: Timestamp) {
        let now = Timestamp::from_second(now.as_second()).unwrap_or(now);
        let lasting: Vec<String> = errors
            .iter()
            .filter(|error| !error.is_conflict())
            .map(ToString::to_string)
            .collect();
        self.failing = if lasting.is_empty() {
            None
        } else {
            let since = self.failing.as_ref().map_or(now, |(since, _)| *since);
            Some((since, lasting.join("; ")))
        };
    }

    fn finish(
        &mut self,
        view: &View,
        observed: &R::Observed,
        taken: &[usize],
        errors: &[StepError],
        (calm, reported): (bool, bool),
        moment: Moment,
    ) -> Outcome {
        let reconciled = Reconciled {
            view,
            observed,
            taken,
            errors,
            failing: self.failing.as_ref(),
            calm,
            reported,
            moment,
        };
        let Report {
            about,
            lasting,
            once,
            requeue_at,
        } = self.shared.controller.report(&reconciled, &mut self.state);
        if let Some(meta) = &about {
            let about = (self.shared.controller.kind(), meta);
            self.events.record(&self.writer.cluster, about, lasting, &once);
        }
        for error in errors.iter().filter(|error| !error.is_conflict()) {
            tracing::warn!(%error, object = %self.object, "reconcile failed; retrying");
        }
        Outcome {
            at: requeue_at,
            failed: !errors.is_empty(),
        }
    }
}

/// What makes two steps the same: the object, and what is done to it. What is created may differ in
/// its content, because the caches and the live read differ.
fn identity(step: &Step) -> Write {
    let verb = match &step.write.verb {
        Verb::Create { purpose, .. } => Verb::Create {
            body: serde_json::Value::Null,
            purpose,
        },
        Verb::Delete { .. } => Verb::Delete { precondition: None },
        Verb::Apply { manager, .. } => Verb::Apply {
            manager,
            body: serde_json::Value::Null,
        },
        other => other.clone(),
    };
    Write {
        kind: step.write.kind.clone(),
        object: step.write.object.clone(),
        verb,
    }
}

/// The version in which the caches show an object that was written.
fn cached_version<'a>(view: &'a View, object: &ObjectRef) -> Option<CachedVersion<'a>> {
    let meta = view.objects.metadata(object)?;
    Some(CachedVersion {
        uid: meta.uid(),
        version: meta.resource_version.as_deref().unwrap_or_default(),
    })
}
