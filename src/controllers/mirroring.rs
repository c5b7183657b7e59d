//! The controllers of Machines, MachineSets, and MachineHealthChecks that exist in the Machine API
//! and in Cluster API: they carry out the decisions of [`capstan_core::authority::reconcile`], one
//! write at a time.
//!
//! Before each write they read the objects of the pair, the MachineSets of Machines, the Cluster,
//! and the Lease of OpenShift's own sync controller from the API server, and decide again. They
//! write nothing while another sync controller runs (decision 22).

mod checks;
mod kind;
mod metrics;
mod objects;
mod operator;
mod pairs;
mod running;
mod sets;
pub mod simulated;

use std::marker::PhantomData;

use capstan_core::api::kind::KindInfo;
use capstan_core::authority::other::{self, Other};
use capstan_core::authority::pair::{self as pair, Decision, Pair, Part};
use capstan_core::authority::progress::{self, Notice};
use capstan_core::authority::spec::{Api, Kind};
use capstan_core::authority::{reconcile, report};
use capstan_core::model::ObjectRef;
use jiff::{SignedDuration, Timestamp};
use serde_json::Value;

use crate::runtime::{
    Cluster, EventSpec, Moment, Observation, Reconcile, Reconciled, Report, Source, Step, StepError, Verb, View, Watch,
    Write,
};
use kind::MirroredKind;
use pairs::{Pairs, Unknown};

pub use metrics::MirroringMetrics;
pub use running::{LEASE, MirroringConfiguration, caches, start};

/// How long after the last sign of another sync controller it is checked again.
const CHECK: SignedDuration = SignedDuration::from_secs(1);

/// The controller of the mirrored pairs of one kind.
#[derive(Debug)]
struct Mirrored<K> {
    pairs: Pairs,
    metrics: MirroringMetrics,
    kind: PhantomData<K>,
}

/// What was observed of one pair.
#[derive(Debug)]
struct Observed {
    pair: Pair,
    /// The next action. Nothing is done while something stops the controller.
    decision: Decision,
    stopped: Option<Stopped>,
}

/// Why nothing is mirrored.
#[derive(Debug)]
enum Stopped {
    /// Another sync controller runs.
    Other(Other),
    /// Mirroring is switched off for the platform of the cluster. Only deletions continue.
    Platform {
        /// Why, as a clause.
        evidence: String,
        /// Until when a deletion waits for another sync controller.
        waits_until: Option<Timestamp>,
    },
}

impl<K: MirroredKind> Mirrored<K> {
    /// The controller of the objects in the namespaces of the pairs.
    fn new(pairs: Pairs, metrics: MirroringMetrics) -> Self {
        Self {
            pairs,
            metrics,
            kind: PhantomData,
        }
    }

    fn pair(&self, view: &View, name: &str) -> Result<Pair, Unknown> {
        match K::PAIR {
            Kind::MachineSet => self.pairs.set_pair(view, name),
            Kind::MachineHealthCheck => self.pairs.check_pair(view, name),
            _ => self.pairs.pair(view, name),
        }
    }

    fn object(&self, name: &str) -> ObjectRef {
        K::MACHINE_API.object(&self.pairs.machine_api, name)
    }

    /// Kind and name of an object of a pair. An infrastructure machine that does not exist yet has
    /// the kind of the object that is created.
    fn target<'a>(&'a self, pair: &'a Pair, write: &'a pair::Write) -> Option<(&'a KindInfo, &'a str, &'a str)> {
        let (cluster_api, name) = (self.pairs.cluster_api.as_str(), pair.name.as_str());
        match write.part {
            Part::MachineApi => Some((K::MACHINE_API, &self.pairs.machine_api, name)),
            Part::ClusterApi => Some((K::CLUSTER_API, cluster_api, name)),
            Part::Member(at) => {
                let member = pair.members.get(at)?;
                let namespace = match member.api {
                    Api::MachineApi => self.pairs.machine_api.as_str(),
                    Api::ClusterApi => cluster_api,
                };
                Some((
                    pairs::machines_of(member.api),
                    namespace,
                    member.object.text("/metadata/name")?,
                ))
            }
            Part::Template(at) => {
                let template = pair.templates.get(at)?;
                let kind = self.pairs.infrastructure_kind(template.text("/kind")?)?;
                Some((kind, cluster_api, template.text("/metadata/name")?))
            }
            Part::Infrastructure => {
                let stored = pair.infrastructure.as_ref().map(|object| &*object.value);
                let object = match &write.verb {
                    pair::Verb::Create(body) => body,
                    _ => stored?,
                };
                let text = |at: &str| object.pointer(at).and_then(Value::as_str);
                let kind = self.pairs.infrastructure_kind(text("/kind")?)?;
                Some((kind, cluster_api, text("/metadata/name")?))
            }
        }
    }

    /// A write of core as one of the runtime, and the label of the metric.
    fn write(&self, pair: &Pair, write: &pair::Write) -> Option<(Write, &'static str)> {
        let (kind, namespace, name) = self.target(pair, write)?;
        let (verb, action) = match write.verb.clone() {
            pair::Verb::Create(body) => (Verb::Create { body, purpose: &[] }, "create"),
            pair::Verb::Patch(patch) => (Verb::Patch(patch), "patch"),
            pair::Verb::PatchStatus(patch) => (Verb::PatchStatus(patch), "patch_status"),
            pair::Verb::Delete { uid, resource_version } => {
                let precondition = Some((uid, resource_version));
                (Verb::Delete { precondition }, "delete")
            }
        };
        Some((Write::new(kind, namespace, name, verb), action))
    }
}

impl<K: MirroredKind> Reconcile for Mirrored<K> {
    const NAME: &'static str = K::NAME;

    type State = ();
    type Observed = Observed;

    fn kind(&self) -> &KindInfo {
        K::MACHINE_API
    }

    fn watches(&self) -> Vec<Watch> {
        objects::watches(&self.pairs.machine_api, &self.pairs.cluster_api)
    }

    fn all(&self, view: &View) -> Vec<ObjectRef> {
        let names = self.pairs.all::<K>(view);
        names.iter().map(|name| self.object(name)).collect()
    }

    fn affected(&self, changed: &ObjectRef, view: &View) -> Vec<ObjectRef> {
        let (kind, group, name) = (&changed.kind, &changed.group, &changed.name);
        let names = match K::PAIR {
            Kind::MachineSet => self.pairs.affected_sets(view, kind, group, name),
            Kind::MachineHealthCheck => Pairs::affected_checks(kind, group, name),
            _ => self.pairs.affected(view, kind, group, name),
        };
        let names = names.unwrap_or_else(|| self.pairs.all::<K>(view));
        names.iter().map(|name| self.object(name)).collect()
    }

    fn is_gone(&self, object: &ObjectRef, view: &View) -> bool {
        let gone = self.pairs.is_gone::<K>(view, &object.name);
        if gone {
            self.metrics.gone(K::PAIR, &object.name);
        }
        gone
    }

    fn leadership(&self, is_leader: bool) {
        if !is_leader {
            self.metrics.forget(K::PAIR);
        }
    }

    fn observe(
        &self,
        object: &ObjectRef,
        view: &View,
        _source: Source,
        _state: &mut (),
        moment: Moment,
    ) -> Observation<Observed> {
        let name = &object.name;
        let pair = self.pair(view, name);
        let (true, Ok(lease), Ok(pair)) = (view.synced, self.pairs.lease(view), pair) else {
            return Observation::Nothing;
        };
        if pair.machine_api.is_none() && pair.cluster_api.is_none() && pair.infrastructure.is_none() {
            return Observation::Nothing;
        }
        let managers = self
            .pairs
            .find(view, K::MACHINE_API, name)
            .ok()
            .flatten()
            .map(|machine| machine.managers.as_slice());
        let other = other::running(lease, managers.unwrap_or_default(), moment.time);
        let switched_off = self.pairs.switched_off(view);
        let decision = match &switched_off {
            Some(_) => reconcile::deletion(&pair, moment.time),
            None => reconcile::next(&pair, moment.time),
        };
        let is_due = decision != Decision::Idle;
        let decision = match &other {
            Some(_) => Decision::Idle,
            None => decision,
        };
        let stopped = match switched_off {
            Some(evidence) => Some(Stopped::Platform {
                evidence,
                waits_until: other.map(|other| other.until).filter(|_| is_due),
            }),
            None => other.map(Stopped::Other),
        };
        Observation::Found(Observed {
            pair,
            decision,
            stopped,
        })
    }

    async fn read_live<C: Cluster>(
        &self,
        object: &ObjectRef,
        cluster: &C,
        view: &View,
        _observed: &Observed,
    ) -> Result<Option<View>, StepError> {
        let view = match K::PAIR {
            Kind::MachineSet => self.pairs.refreshed_set(cluster, view, &object.name).await?,
            Kind::MachineHealthCheck => self.pairs.refreshed_check(cluster, view, &object.name).await?,
            _ => self.pairs.refreshed(cluster, view, &object.name).await?,
        };
        Ok(Some(view))
    }

    fn plan(&self, observed: &Observed, _state: &mut (), _moment: Moment) -> Vec<Step> {
        let Decision::Write(planned) = &observed.decision else {
            return Vec::new();
        };
        let Some((write, action)) = self.write(&observed.pair, planned) else {
            tracing::error!(name = observed.pair.name, "a write names an unknown kind");
            return Vec::new();
        };
        let disruptive = matches!(write.verb, Verb::Create { .. } | Verb::Delete { .. });
        vec![Step {
            disruptive,
            ..Step::disruptive(write, action, planned.because.clone())
        }]
    }

    /// A write that a rule of the cluster refuses is reported in the condition Synchronized. It is
    /// tried again after a delay. A conflict or an overloaded API server does not change the
    /// condition, because the next attempt can succeed.
    fn status(&self, reconciled: &Reconciled<'_, Observed>, _state: &mut ()) -> Vec<Write> {
        let observed = reconciled.observed;
        let (Decision::Write(planned), Some(machine), None) =
            (&observed.decision, &observed.pair.machine_api, &observed.stopped)
        else {
            return Vec::new();
        };
        let refusal = reconciled.errors.iter().find(|error| error.is_by_rule());
        let condition = refusal.and_then(|error| progress::refused(K::PAIR, planned, error.to_string()));
        let write = condition
            .and_then(|condition| report::synchronization(machine, &condition, None, reconciled.moment.time))
            .and_then(|write| self.write(&observed.pair, &write));
        write.map(|(write, _)| write).into_iter().collect()
    }

    fn report<'a>(&self, reconciled: &Reconciled<'a, Observed>, _state: &mut ()) -> Report<'a> {
        let observed = reconciled.observed;
        let pair = &observed.pair;
        if let Some(Stopped::Platform { evidence, waits_until }) = &observed.stopped {
            if self.metrics.switched_off(true) {
                tracing::warn!(evidence, "Capstan does not mirror");
            }
            return Report {
                requeue_at: waits_until.and_then(|until| until.checked_add(CHECK).ok()),
                ..Report::default()
            };
        }
        self.metrics.switched_off(false);
        if let Some(Stopped::Other(other)) = &observed.stopped {
            if self.metrics.other_controller(true) {
                tracing::warn!(
                    evidence = other.evidence,
                    "another sync controller runs; Capstan does not mirror"
                );
            }
            return Report {
                requeue_at: other.until.checked_add(CHECK).ok(),
                ..Report::default()
            };
        }
        if self.metrics.other_controller(false) {
            tracing::info!("no other sync controller runs; Capstan mirrors");
        }
        let state = progress::state(pair);
        self.metrics.object(K::PAIR, &pair.name, state, reconciled.moment.time);
        let about = pair.machine_api.as_ref().and_then(|machine| {
            let metadata = machine.value.get("metadata")?;
            serde::Deserialize::deserialize(metadata).ok()
        });
        let failing = reconciled.failing.map(|(_, message)| Notice {
            warning: true,
            reason: "SynchronizationFailing",
            message: message.clone(),
        });
        let lasting = progress::notice(pair, &observed.decision).into_iter().chain(failing);
        let change = match &observed.decision {
            Decision::Write(write) if !reconciled.taken.is_empty() => progress::change_of_authority(write),
            _ => None,
        };
        // Each change of the authority is an event of its own.
        let version = pair.machine_api.as_ref().map(|machine| machine.resource_version());
        let once = change.map(|notice| EventSpec {
            key: version.unwrap_or_default().to_owned(),
            ..event(notice)
        });
        Report {
            about,
            lasting: lasting.map(event).collect(),
            once: once.into_iter().collect(),
            requeue_at: None,
        }
    }
}

fn event(notice: Notice) -> EventSpec<'static> {
    EventSpec {
        warning: notice.warning,
        reason: notice.reason,
        key: notice.message.clone(),
        message: notice.message.into(),
    }
}
