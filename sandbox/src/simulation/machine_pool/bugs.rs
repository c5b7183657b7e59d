//! Seeded bugs of the controller of MachinePools, each of which an invariant finds.
//!
//! A bug changes what the controller sees, plans, or writes. The controller itself is that of a
//! process.

use anyhow::Result;
use capstan::runtime::{
    Cluster, Moment, Observation, Reconcile, Reconciled, Report, Source, Step, StepError, Verb, View, Watch, Write,
    Written,
};
use capstan_core::api::cluster_x_k8s_io::annotation::{DELETE_MACHINE, PAUSED};
use capstan_core::api::cluster_x_k8s_io::control_plane::Machine;
use capstan_core::api::cluster_x_k8s_io::machine_pool::MachinePool;
use capstan_core::api::kind::KindInfo;
use capstan_core::api::kinds::{CLUSTER_API_MACHINES, MACHINE_POOLS};
use capstan_core::model::ObjectRef;
use capstan_core::pool::Mode;
use serde_json::{Value, json};

use super::objects::INSTANCES;
use super::{controller, simulation, special};
use crate::simulation::Violation;
use crate::simulation::views::edit;

/// A bug that the controller has on purpose.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Bug {
    /// A deletion is sent without its precondition, and without a live read.
    NoLiveRead,
    /// Every deletion is one of the next Machine.
    WrongMachine,
    /// No Machine is ever deleted.
    NeverDeletes,
    /// No Machine is ever patched.
    NeverPatches,
    /// The infrastructure machine is deleted in the place of the Machine.
    DeletesInstance,
    /// A Machine loses its finalizers in the place of a deletion.
    DropsFinalizers,
    /// Every machine may be unavailable.
    IgnoresMaxUnavailable,
    /// All remediations may be in flight.
    IgnoresMaxInFlight,
    /// A paused pool is not paused.
    IgnoresPause,
    /// The marks of users are not seen.
    OverwritesMarks,
    /// A mark is never removed.
    KeepsMarks,
    /// The timeouts of the template reach no Machine.
    IgnoresDeletionTimeouts,
    /// The status is written although it does not change.
    Restless,
    /// The finalizer of a deleted pool stays.
    KeepsPool,
    /// No Machine is created.
    NeverCreates,
    /// A Machine is created under a new name.
    CreatesUnderAnotherName,
    /// A Machine that others delete is created again at once.
    ForgetsDeletions,
    /// What the API server did not store is sent again.
    ForgetsAnswers,
}

/// All bugs: the mode that meets each, the first seed that is tried, and the invariants that
/// describe it. `ESR`, `G4`, and `G8` are invariants of every controller: the run ends, no write is
/// repeated, and no deletion hangs.
pub const BUGS: &[(Bug, Mode, u64, &[&str])] = &[
    (Bug::NoLiveRead, Mode::Extend, 0, &["M1"]),
    (Bug::WrongMachine, Mode::Extend, 0, &["M1", "M5"]),
    (Bug::NeverDeletes, Mode::Extend, 0, &["M4", "M5"]),
    (Bug::NeverPatches, Mode::Extend, 0, &["M4", "M5", "G8"]),
    (Bug::DeletesInstance, Mode::Extend, 0, &["M2", "M3", "M4"]),
    (Bug::DropsFinalizers, Mode::Extend, 0, &["M2"]),
    (Bug::IgnoresMaxUnavailable, Mode::Extend, 0, &["M1"]),
    (Bug::IgnoresMaxInFlight, Mode::Extend, 0, &["M1"]),
    (Bug::IgnoresPause, Mode::Extend, 0, &["M1", "M8"]),
    (Bug::OverwritesMarks, Mode::Extend, 0, &["M7"]),
    (Bug::KeepsMarks, Mode::Extend, 0, &["M5"]),
    (Bug::IgnoresDeletionTimeouts, Mode::Extend, 0, &["M4", "M5", "G4", "G8"]),
    (Bug::Restless, Mode::Extend, 0, &["M9", "ESR"]),
    (Bug::KeepsPool, Mode::Own, 0, &["M5", "G8", "ESR"]),
    (Bug::NeverCreates, Mode::Own, 0, &["M4", "M5"]),
    (Bug::CreatesUnderAnotherName, Mode::Own, 0, &["M6"]),
    (Bug::ForgetsDeletions, Mode::Own, 0, &["M10"]),
    (Bug::ForgetsAnswers, Mode::Own, 0, &["G4", "ESR", "M9"]),
];

/// A bug, the invariants that describe it, and the first violation with its seed.
pub type Hunted = (Bug, &'static [&'static str], Option<(u64, Violation)>);

/// The first violation of each bug within so many seeds, with its seed.
///
/// # Errors
/// A definition cannot be read.
pub fn hunt(seeds: u64) -> Result<Vec<Hunted>> {
    let all = BUGS.iter().map(|(bug, mode, from, fits)| {
        let (bug, mode, from) = (*bug, *mode, *from);
        let make = move || Broken(controller(mode), bug);
        let simulation = match bug {
            Bug::ForgetsDeletions => special::fight(mode, make),
            Bug::ForgetsAnswers => special::few_fields(mode, make),
            _ => simulation(mode, make),
        }?;
        Ok((
            bug,
            *fits,
            simulation.first_violation(from..from.saturating_add(seeds))?,
        ))
    });
    all.collect()
}

/// The controller with a bug.
struct Broken<R>(R, Bug);

impl<R> Broken<R> {
    /// What the controller sees.
    fn view(&self, view: &View) -> View {
        let annotate = |key: &'static str, value: Value| {
            edit::<MachinePool>(view, &MACHINE_POOLS, move |pool| {
                let annotations = &mut pool.metadata.annotations;
                // A strategy of another type stays.
                if annotations.get(key).is_none_or(|text| text.contains("RollingUpdate")) {
                    annotations.insert(key.to_owned(), value.to_string());
                }
            })
        };
        match self.1 {
            Bug::IgnoresMaxUnavailable => annotate(
                "capstan.dev/rollout",
                json!({"strategy": {"type": "RollingUpdate", "rollingUpdate": {"maxUnavailable": 100}}}),
            ),
            Bug::IgnoresMaxInFlight => annotate("capstan.dev/remediation", json!({"maxInFlight": 100})),
            Bug::IgnoresPause => edit::<MachinePool>(view, &MACHINE_POOLS, |pool| {
                pool.metadata.annotations.remove(PAUSED);
            }),
            Bug::OverwritesMarks => edit::<Machine>(view, &CLUSTER_API_MACHINES, |machine| {
                let annotations = &mut machine.metadata.annotations;
                annotations.retain(|key, value| key != DELETE_MACHINE || value == "capstan.dev");
            }),
            _ => view.clone(),
        }
    }

    fn break_steps(&self, steps: &mut Vec<Step>) {
        let mark = format!("/metadata/annotations/{}", DELETE_MACHINE.replace('/', "~1"));
        let removes_mark = |step: &Step| match &step.write.verb {
            Verb::Patch(patch) => patch.pointer(&mark).is_some_and(Value::is_null),
            _ => false,
        };
        match self.1 {
            Bug::NeverDeletes => steps.retain(|step| !step.disruptive),
            Bug::NeverPatches => steps.retain(|step| !matches!(step.write.verb, Verb::Patch(_))),
            Bug::NeverCreates => steps.retain(|step| !matches!(step.write.verb, Verb::Create { .. })),
            Bug::KeepsMarks => steps.retain(|step| !removes_mark(step)),
            Bug::KeepsPool => steps.retain(|step| !is_release(step)),
            _ => steps.iter_mut().for_each(|step| self.break_step(step)),
        }
    }

    fn break_step(&self, step: &mut Step) {
        let name = step.write.object.name.clone();
        match (self.1, &mut step.write.verb) {
            (Bug::NoLiveRead, Verb::Delete { precondition }) => *precondition = None,
            (Bug::WrongMachine, Verb::Delete { precondition }) if step.disruptive => {
                let number = name.rsplit('-').next().and_then(|number| number.parse::<u64>().ok());
                if let Some(number) = number {
                    *precondition = None;
                    step.write.object.name = format!("p-{:04}", number + 1);
                }
            }
            (Bug::DeletesInstance, Verb::Delete { .. }) if step.disruptive => {
                let delete = Verb::Delete { precondition: None };
                step.write = Write::new(&INSTANCES, &step.write.object.namespace, &name, delete);
            }
            (Bug::DropsFinalizers, verb @ Verb::Delete { .. }) if step.disruptive => {
                *verb = Verb::Patch(json!({"metadata": {"finalizers": []}}));
            }
            (Bug::IgnoresDeletionTimeouts, Verb::Patch(patch)) => {
                if let Some(spec) = patch.get_mut("spec").and_then(Value::as_object_mut) {
                    spec.remove("deletion");
                }
            }
            (Bug::CreatesUnderAnotherName, Verb::Create { body, .. }) => {
                let name = format!("{name}-x");
                if let Some(field) = body.pointer_mut("/metadata/name") {
                    *field = json!(name);
                }
                step.write.object.name = name;
            }
            _ => {}
        }
    }
}

/// Whether a step removes the finalizer of the pool.
fn is_release(step: &Step) -> bool {
    let Verb::Patch(patch) = &step.write.verb else {
        return false;
    };
    let finalizers = patch.pointer("/metadata/finalizers").and_then(Value::as_array);
    let is_own = |one: &Value| one.as_str().is_some_and(|one| one.starts_with("capstan.dev/"));
    MACHINE_POOLS.is_kind_of(&step.write.object) && finalizers.is_some_and(|all| !all.iter().any(is_own))
}

impl<R: Reconcile> Reconcile for Broken<R> {
    const NAME: &'static str = "broken-machine-pool";
    type State = R::State;
    type Observed = R::Observed;

    fn kind(&self) -> &KindInfo {
        self.0.kind()
    }

    fn watches(&self) -> Vec<Watch> {
        self.0.watches()
    }

    fn affected(&self, changed: &ObjectRef, view: &View) -> Vec<ObjectRef> {
        self.0.affected(changed, view)
    }

    fn observe(
        &self,
        object: &ObjectRef,
        view: &View,
        source: Source,
        state: &mut R::State,
        moment: Moment,
    ) -> Observation<R::Observed> {
        self.0.observe(object, &self.view(view), source, state, moment)
    }

    async fn inquire<C: Cluster>(&self, cluster: &C, observed: &R::Observed) -> bool {
        self.0.inquire(cluster, observed).await
    }

    async fn read_live<C: Cluster>(
        &self,
        object: &ObjectRef,
        cluster: &C,
        view: &View,
        observed: &R::Observed,
    ) -> Result<Option<View>, StepError> {
        match self.1 {
            Bug::NoLiveRead => Ok(None),
            _ => self.0.read_live(object, cluster, view, observed).await,
        }
    }

    fn plan(&self, observed: &R::Observed, state: &mut R::State, moment: Moment) -> Vec<Step> {
        let mut steps = self.0.plan(observed, state, moment);
        self.break_steps(&mut steps);
        steps
    }

    async fn perform(&self, observed: &R::Observed, step: usize) -> Result<(), StepError> {
        self.0.perform(observed, step).await
    }

    fn status(&self, reconciled: &Reconciled<'_, R::Observed>, state: &mut R::State) -> Vec<Write> {
        let mut writes = self.0.status(reconciled, state);
        if self.1 == Bug::Restless {
            let patch = json!({"status": {"checkedAt": reconciled.moment.time}});
            writes.push(Write::new(&MACHINE_POOLS, "pools", "p", Verb::PatchStatus(patch)));
        }
        writes
    }

    fn stored(&self, observed: &R::Observed, write: &Write, written: &Written, state: &mut R::State) {
        if self.1 != Bug::ForgetsAnswers {
            self.0.stored(observed, write, written, state);
        }
    }

    fn report<'a>(&self, reconciled: &Reconciled<'a, R::Observed>, state: &mut R::State) -> Report<'a> {
        match self.1 {
            Bug::ForgetsDeletions => self.0.report(reconciled, &mut R::State::default()),
            _ => self.0.report(reconciled, state),
        }
    }
}
