//! Inserts the seeded bugs into the controller, and hunts them: each must violate an invariant that
//! describes it. The controller without a bug violates none: random schedules show that.
//!
//! A bug changes what the controller sees, plans, or writes. What the managed cluster answers
//! wrongly is in `managed`.

use std::ops::Range;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};

use anyhow::{Context as _, Result};
use capstan::controllers::kubeadm_control_plane::{SECRETS, WholeObject};
use capstan::runtime::{
    Cluster, Moment, Observation, Reconcile, Reconciled, Report, Source, Step, StepError, Verb, View, Watch, Write,
    Written,
};
use capstan_core::api::kind::KindInfo;
use capstan_core::api::kinds::{CLUSTER_API_MACHINES, KUBEADM_CONFIGS, KUBEADM_CONTROL_PLANES};
use capstan_core::model::ObjectRef;
use serde_json::{Value, json};

use super::bugs::{BUGS, Bug, Listed};
use super::objects::{HOOK, HOOKS, INSTANCES, NAME, NAMESPACE};
use super::{controller, simulation};
use crate::simulation::hunted::Hunted;
use crate::simulation::{Violation, views};

/// Hunts every bug in at most `limit` seeds, on so many threads.
///
/// # Errors
/// A definition cannot be read.
pub fn hunt(limit: u64, threads: u64) -> Result<Vec<Hunted>> {
    let next = AtomicUsize::new(0);
    let share = || {
        let mut hunted = Vec::new();
        while let Some((at, bug)) = BUGS.iter().enumerate().nth(next.fetch_add(1, Ordering::Relaxed)) {
            hunted.push((at, one(bug, limit)?));
        }
        anyhow::Ok(hunted)
    };
    let shares = std::thread::scope(|scope| {
        let threads: Vec<_> = (0..threads.max(1)).map(|_| scope.spawn(share)).collect();
        let ended = threads.into_iter().map(|thread| {
            let hunted = thread.join().ok().context("a simulated world panicked");
            hunted.flatten()
        });
        ended.collect::<Result<Vec<_>>>()
    })?;
    let mut all: Vec<(usize, Hunted)> = shares.into_iter().flatten().collect();
    all.sort_by_key(|(at, _)| *at);
    Ok(all.into_iter().map(|(_, hunted)| hunted).collect())
}

fn one((bug, id, _, from, fits): &Listed, limit: u64) -> Result<Hunted> {
    let mut hunted = Hunted {
        id: (*id).to_owned(),
        found: None,
        accidents: Vec::new(),
    };
    let end = from.saturating_add(limit);
    let mut next = *from;
    while next < end && hunted.found.is_none() {
        let Some((seed, violation)) = first_violation(*bug, next..end)? else {
            break;
        };
        next = seed + 1;
        if fits.contains(&violation.invariant) {
            hunted.found = Some((violation.invariant, seed));
        } else {
            hunted.accidents.push(format!("seed {seed}: {violation}"));
        }
    }
    Ok(hunted)
}

/// The first seed on which the controller with a bug violates an invariant.
///
/// # Errors
/// A definition cannot be read.
pub fn first_violation(bug: Bug, seeds: Range<u64>) -> Result<Option<(u64, Violation)>> {
    let simulation = simulation(move |clusters, replica| Broken {
        inner: controller(clusters.with(bug), replica),
        bug,
        attempts: AtomicU64::new(0),
        is_silent: AtomicBool::new(false),
    })?;
    simulation.first_violation(seeds)
}

/// What the conditions say when all is well.
const WELL: [(&str, &str); 5] = [
    ("Available", "True"),
    ("MachinesReady", "True"),
    ("RollingOut", "False"),
    ("ScalingUp", "False"),
    ("Remediating", "False"),
];

/// The controller with a bug.
#[derive(Debug)]
struct Broken<R> {
    inner: R,
    bug: Bug,
    /// The number of attempts to create a machine.
    attempts: AtomicU64,
    /// Whether the status is not written any more.
    is_silent: AtomicBool,
}

/// Changes the objects of a kind in a view.
fn edit(view: &View, kind: &KindInfo, change: impl Fn(&mut Value)) -> View {
    views::edit::<WholeObject>(view, kind, |object| {
        let mut value = object.value().clone();
        change(&mut value);
        if let Ok(changed) = serde_json::from_value(value) {
            *object = changed;
        }
    })
}

/// Sets a field of an object; an object above it must exist.
fn set(object: &mut Value, pointer: &str, field: &str, value: Value) {
    if let Some(fields) = object.pointer_mut(pointer).and_then(Value::as_object_mut) {
        fields.insert(field.to_owned(), value);
    }
}

fn remove(object: &mut Value, pointer: &str, is_removed: impl Fn(&str) -> bool) {
    if let Some(fields) = object.pointer_mut(pointer).and_then(Value::as_object_mut) {
        fields.retain(|name, _| !is_removed(name));
    }
}

/// Sets the status of a condition.
fn condition(object: &mut Value, type_: &str, status: &str) {
    let conditions = object.pointer_mut("/status/conditions").and_then(Value::as_array_mut);
    let Some(conditions) = conditions else { return };
    for one in conditions
        .iter_mut()
        .filter(|one| one.get("type") == Some(&json!(type_)))
    {
        set(one, "", "status", json!(status));
    }
}

fn has_condition(object: &Value, type_: &str, status: &str) -> bool {
    let conditions = object.pointer("/status/conditions").and_then(Value::as_array);
    let mut conditions = conditions.into_iter().flatten();
    conditions.any(|one| one.get("type") == Some(&json!(type_)) && one.get("status") == Some(&json!(status)))
}

/// Demands the replacement of a machine that a health check found healthy.
fn demand(machine: &mut Value) {
    if !has_condition(machine, "HealthCheckSucceeded", "True") {
        return;
    }
    condition(machine, "HealthCheckSucceeded", "False");
    let conditions = machine.pointer_mut("/status/conditions").and_then(Value::as_array_mut);
    if let Some(conditions) = conditions {
        conditions.retain(|one| one.get("type") != Some(&json!("OwnerRemediated")));
        conditions.push(json!({"type": "OwnerRemediated", "status": "False", "reason": "WaitingForRemediation"}));
    }
}

impl<R> Broken<R> {
    /// What the controller sees.
    fn view(&self, view: &View) -> View {
        let of_plane = |change: &dyn Fn(&mut Value)| edit(view, &KUBEADM_CONTROL_PLANES, change);
        let of_machines = |change: &dyn Fn(&mut Value)| edit(view, &CLUSTER_API_MACHINES, change);
        let replicas = |add: i64| {
            of_plane(&|plane| {
                let wanted = plane.pointer("/spec/replicas").and_then(Value::as_i64).unwrap_or(1);
                set(plane, "/spec", "replicas", json!((wanted + add).max(1)));
            })
        };
        let pause = |annotation: &'static str| {
            of_plane(&move |plane| remove(plane, "/metadata/annotations", |name| name == annotation))
        };
        match self.bug {
            Bug::OneMore => replicas(2),
            Bug::OneLess => replicas(-1),
            Bug::AlwaysSurges => of_plane(&|plane| {
                set(plane, "/spec/rollout/strategy/rollingUpdate", "maxSurge", json!(1));
            }),
            Bug::EditUnseen => of_plane(&|plane| set(plane, "/spec", "version", super::objects::version(0).into())),
            Bug::Downgrades => {
                let planes = view.objects.of::<WholeObject>(&KUBEADM_CONTROL_PLANES);
                let mut planes = planes.into_iter().flat_map(|known| known.objects.iter());
                let version = |object: &Value| {
                    object
                        .pointer("/spec/version")
                        .and_then(Value::as_str)
                        .map(str::to_owned)
                };
                let wanted = planes.next().and_then(|(_, plane)| version(plane.value()));
                of_machines(&|machine| {
                    if version(machine) > wanted {
                        set(machine, "/spec", "version", super::objects::version(0).into());
                    }
                })
            }
            Bug::EtcdExternal => {
                let external = json!({"external": {"endpoints": ["https://e:2379"]}});
                let cluster = |object: &mut Value, pointer: &str| set(object, pointer, "etcd", external.clone());
                let view = of_plane(&|plane| cluster(plane, "/spec/kubeadmConfigSpec/clusterConfiguration"));
                edit(&view, &KUBEADM_CONFIGS, |config: &mut Value| {
                    cluster(config, "/spec/clusterConfiguration");
                })
            }
            Bug::IgnoresPause => pause("cluster.x-k8s.io/paused"),
            Bug::IgnoresRolloutPause => pause("capstan.dev/paused-rollout"),
            Bug::FinalizerFirst => {
                let is_removed = |plane: &WholeObject| plane.value().pointer("/metadata/deletionTimestamp").is_some();
                let planes = view.objects.of::<WholeObject>(&KUBEADM_CONTROL_PLANES);
                let mut planes = planes.into_iter().flat_map(|known| known.objects.iter());
                let mut view = view.clone();
                if planes.any(|(_, plane)| is_removed(plane)) {
                    view.retain::<WholeObject>(&CLUSTER_API_MACHINES, |_| false);
                }
                view
            }
            Bug::GoingStands => {
                of_machines(&|machine| remove(machine, "/metadata", |name| name == "deletionTimestamp"))
            }
            Bug::Swapped => of_machines(&demand),
            Bug::NoRemediation => of_machines(&|machine| condition(machine, "HealthCheckSucceeded", "True")),
            Bug::OtherHooks => of_machines(&|machine| {
                remove(machine, "/metadata/annotations", |name| {
                    name.starts_with(HOOKS) && name != HOOK
                });
            }),
            _ => view.clone(),
        }
    }

    fn break_steps(&self, steps: &mut [Step], observed_live: bool) {
        if self.bug == Bug::RandomNames && !observed_live {
            self.attempts.fetch_add(1, Ordering::Relaxed);
        }
        steps.iter_mut().for_each(|step| self.break_step(step));
        if self.bug == Bug::NoLabels {
            let labels = |step: &Step| match &step.write.verb {
                Verb::Patch(patch) => patch.pointer("/metadata/labels").is_some(),
                _ => false,
            };
            for step in steps.iter_mut().filter(|step| labels(step)) {
                if let Verb::Patch(patch) = &mut step.write.verb {
                    remove(patch, "/metadata", |name| name == "labels");
                }
            }
        }
    }

    fn break_step(&self, step: &mut Step) {
        let is_of = |kind: &KindInfo| kind.is_kind_of(&step.write.object);
        let (is_machine, is_plane) = (is_of(&CLUSTER_API_MACHINES), is_of(&KUBEADM_CONTROL_PLANES));
        let is_config = is_of(&KUBEADM_CONFIGS);
        let name = step.write.object.name.clone();
        match (self.bug, &mut step.write.verb) {
            (Bug::SecondInit, Verb::Create { body, .. }) if is_config => {
                remove(body, "/spec/joinConfiguration", |field| field == "controlPlane");
            }
            (Bug::RandomNames, Verb::Create { body, .. } | Verb::CreateUnwatched(body)) => {
                let name = format!("{name}-{}", self.attempts.load(Ordering::Relaxed));
                set(body, "/metadata", "name", json!(name));
                for reference in ["/spec/bootstrap/configRef", "/spec/infrastructureRef"] {
                    set(body, reference, "name", json!(name));
                }
                step.write.object.name = name;
            }
            (Bug::OneDomain, Verb::Create { body, .. }) if is_machine => {
                set(body, "/spec", "failureDomain", json!("a"));
            }
            (Bug::WrongKind, Verb::Delete { .. }) if is_machine => {
                step.write = Write::new(&INSTANCES, NAMESPACE, &name, Verb::Delete { precondition: None });
            }
            (Bug::NoLiveRead, Verb::Delete { precondition }) => *precondition = None,
            (Bug::SpecWritten, Verb::Patch(patch)) if is_plane => {
                set(patch, "", "spec", json!({"rollout": null}));
            }
            (Bug::InPlace, Verb::Patch(patch)) if is_machine => {
                set(patch, "", "spec", json!({"version": super::objects::version(5)}));
            }
            _ => {}
        }
    }

    fn break_status(&self, writes: &mut Vec<Write>, moment: Moment) {
        let own = |verb| Write::new(&KUBEADM_CONTROL_PLANES, NAMESPACE, NAME, verb);
        match self.bug {
            Bug::Restless => writes.push(own(Verb::PatchStatus(json!({"status": {"checkedAt": moment.time}})))),
            Bug::NewAuthorities => {
                let data = json!({"data": {"tls.crt": format!("certificate of {}", moment.time)}});
                writes.push(Write::new(&SECRETS, NAMESPACE, "c-ca", Verb::Patch(data)));
            }
            Bug::EarlyGeneration => {
                writes.push(own(Verb::PatchStatus(
                    json!({"status": {"observedGeneration": 999_999}}),
                )));
            }
            Bug::Unexplained => {
                let is_own = |write: &Write| KUBEADM_CONTROL_PLANES.is_kind_of(&write.object);
                if self.is_silent.load(Ordering::Relaxed) {
                    writes.retain(|write| !is_own(write));
                }
                let says_well = |write: &Write| match &write.verb {
                    Verb::PatchStatus(patch) => WELL.iter().all(|(type_, status)| has_condition(patch, type_, status)),
                    _ => false,
                };
                if writes.iter().any(|write| is_own(write) && says_well(write)) {
                    self.is_silent.store(true, Ordering::Relaxed);
                }
            }
            _ => {}
        }
    }
}

impl<R: Reconcile> Reconcile for Broken<R> {
    const NAME: &'static str = "broken-kubeadm-control-plane";
    type State = R::State;
    type Observed = R::Observed;

    fn kind(&self) -> &KindInfo {
        self.inner.kind()
    }

    fn watches(&self) -> Vec<Watch> {
        self.inner.watches()
    }

    fn affected(&self, changed: &ObjectRef, view: &View) -> Vec<ObjectRef> {
        self.inner.affected(changed, view)
    }

    fn is_gone(&self, object: &ObjectRef, view: &View) -> bool {
        self.inner.is_gone(object, view)
    }

    fn observe(
        &self,
        object: &ObjectRef,
        view: &View,
        source: Source,
        state: &mut R::State,
        moment: Moment,
    ) -> Observation<R::Observed> {
        self.inner.observe(object, &self.view(view), source, state, moment)
    }

    async fn inquire<C: Cluster>(&self, cluster: &C, observed: &R::Observed) -> bool {
        self.inner.inquire(cluster, observed).await
    }

    async fn read_live<C: Cluster>(
        &self,
        object: &ObjectRef,
        cluster: &C,
        view: &View,
        observed: &R::Observed,
    ) -> Result<Option<View>, StepError> {
        let live = self.inner.read_live(object, cluster, view, observed).await?;
        // The template is read, and nothing else is used.
        Ok(if self.bug == Bug::NoLiveRead {
            Some(view.clone())
        } else {
            live
        })
    }

    fn plan(&self, observed: &R::Observed, state: &mut R::State, moment: Moment) -> Vec<Step> {
        let mut steps = self.inner.plan(observed, state, moment);
        let is_live = steps
            .iter()
            .any(|step| matches!(step.write.verb, Verb::CreateUnwatched(_)));
        self.break_steps(&mut steps, is_live);
        steps
    }

    fn before(&self, observed: &R::Observed, step: usize, state: &mut R::State, moment: Moment) -> Option<Write> {
        let record = self.inner.before(observed, step, state, moment);
        record.filter(|_| self.bug != Bug::RandomNames)
    }

    async fn perform(&self, observed: &R::Observed, step: usize) -> Result<(), StepError> {
        self.inner.perform(observed, step).await
    }

    fn failed(
        &self,
        observed: &R::Observed,
        step: usize,
        error: &StepError,
        state: &mut R::State,
        moment: Moment,
    ) -> Option<Write> {
        self.inner.failed(observed, step, error, state, moment)
    }

    fn status(&self, reconciled: &Reconciled<'_, R::Observed>, state: &mut R::State) -> Vec<Write> {
        let mut writes = self.inner.status(reconciled, state);
        self.break_status(&mut writes, reconciled.moment);
        writes
    }

    fn stored(&self, observed: &R::Observed, write: &Write, written: &Written, state: &mut R::State) {
        self.inner.stored(observed, write, written, state);
    }

    fn report<'a>(&self, reconciled: &Reconciled<'a, R::Observed>, state: &mut R::State) -> Report<'a> {
        self.inner.report(reconciled, state)
    }
}
