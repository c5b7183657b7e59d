//! The controller of MachinePools in simulated clusters, and mutants of it.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "a test that fails may panic"
)]

use capstan::runtime::{
    Cluster, Moment, Observation, Reconcile, Reconciled, Report, Source, Step, StepError, Verb, View, Watch, Write,
    Written,
};
use capstan_core::api::kind::KindInfo;
use capstan_core::model::ObjectRef;
use capstan_sandbox::simulation::machine_pool::{controller, simulation};
use capstan_sandbox::simulation::show;

/// How many schedules run; `CAPSTAN_POOL_SEEDS` sets another number.
fn seeds() -> u64 {
    let text = std::env::var("CAPSTAN_POOL_SEEDS").ok();
    text.and_then(|text| text.parse().ok()).unwrap_or(40)
}

#[test]
fn a_pool_keeps_its_promises_while_groups_lag_lie_and_vanish() {
    let summary = simulation(controller).unwrap().run(0..seeds()).unwrap();
    assert!(summary.violations.is_empty(), "{}", show::summary(&summary, None));
    assert!(summary.faults > seeds(), "{} faults", summary.faults);
}

/// A seeded bug.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Bug {
    /// A deletion is sent without its precondition, and without a live read.
    NoLiveRead,
    /// Every deletion of the plan is a deletion of the next Machine.
    WrongMachine,
    /// No Machine is ever deleted.
    NeverDeletes,
    /// No Machine is ever patched.
    NeverPatches,
}

/// The controller with a bug.
struct Broken<R>(R, Bug);

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
        self.0.observe(object, view, source, state, moment)
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
        match self.1 {
            Bug::NeverDeletes => steps.retain(|step| !step.disruptive),
            Bug::NeverPatches => steps.retain(|step| step.disruptive),
            Bug::NoLiveRead => {
                for step in &mut steps {
                    if let Verb::Delete { precondition } = &mut step.write.verb {
                        *precondition = None;
                    }
                }
            }
            Bug::WrongMachine => {
                for step in steps.iter_mut().filter(|step| step.disruptive) {
                    let number: u64 = step.write.object.name.rsplit('-').next().unwrap().parse().unwrap();
                    step.write.object.name = format!("p-{:04}", number + 1);
                    if let Verb::Delete { precondition } = &mut step.write.verb {
                        *precondition = None;
                    }
                }
            }
        }
        steps
    }

    fn status(&self, reconciled: &Reconciled<'_, R::Observed>, state: &mut R::State) -> Vec<Write> {
        self.0.status(reconciled, state)
    }

    fn stored(&self, observed: &R::Observed, write: &Write, written: &Written, state: &mut R::State) {
        self.0.stored(observed, write, written, state);
    }

    fn report<'a>(&self, reconciled: &Reconciled<'a, R::Observed>, state: &mut R::State) -> Report<'a> {
        self.0.report(reconciled, state)
    }
}

#[test]
fn the_simulation_finds_seeded_bugs() {
    for (bug, expected) in [
        (Bug::NoLiveRead, "M1"),
        (Bug::WrongMachine, "M1"),
        (Bug::NeverDeletes, "M5"),
        (Bug::NeverPatches, "M5"),
    ] {
        let simulation = simulation(move || Broken(controller(), bug)).unwrap();
        let found = simulation.first_violation(0..40).unwrap();
        let (_seed, violation) = found.unwrap_or_else(|| panic!("{bug:?} is not found"));
        assert_eq!(violation.invariant, expected, "{bug:?}: {violation}");
    }
}
