//! The toy controller in the simulation: two replicas, failing requests, stale caches, crashes, and
//! two leaders. The same simulation must find the bugs of broken toy controllers.

use std::ops::Range;

use anyhow::Result;
use capstan::runtime::{
    Cluster, Moment, Observation, Reconcile, Reconciled, Source, Step, StepError, View, Watch, Write, Written,
};
use capstan_core::api::kind::KindInfo;
use capstan_core::model::ObjectRef;
use capstan_sandbox::api::Object;
use capstan_sandbox::simulation::{Change, Simulation, Stored, Summary, show};
use serde_json::{Value, json};

use crate::controller::{PARTS, TOYS, Thing, Toys};

/// Three names in two namespaces.
const COUNT: usize = 6;

fn toy(at: usize) -> Value {
    let namespace = if at.is_multiple_of(2) { "home" } else { "away" };
    json!({"apiVersion": "example.org/v1", "kind": "Toy",
        "metadata": {"name": format!("toy-{}", at / 2), "namespace": namespace}})
}

fn text<'a>(object: &'a Object, pointer: &str) -> &'a str {
    object.pointer(pointer).and_then(Value::as_str).unwrap_or_default()
}

/// Namespace, name.
fn key(object: &Object) -> (&str, &str) {
    (text(object, "/metadata/namespace"), text(object, "/metadata/name"))
}

fn check(holds: bool, text: impl FnOnce() -> String) -> Result<(), String> {
    if holds { Ok(()) } else { Err(text()) }
}

/// A part is created only for a toy of its namespace that existed during the reconcile.
fn part_has_a_toy(change: &Change<'_>) -> Result<(), String> {
    let (None, Some(part)) = (change.before, change.after.filter(|_| change.kind == &PARTS)) else {
        return Ok(());
    };
    let ((namespace, name), owner) = (key(part), text(part, "/metadata/ownerReferences/0/uid"));
    let has_toy = |moment: &Stored| {
        let toy = moment.get(&TOYS, namespace, name);
        toy.is_some_and(|toy| text(toy, "/metadata/uid") == owner)
    };
    check(change.moments.iter().any(has_toy), || {
        format!("part {namespace}/{name} is created without its toy")
    })
}

/// The part of one toy is deleted, and another toy is deleted. The other parts stay.
fn other_parts_stay(change: &Change<'_>) -> Result<(), String> {
    let part = change
        .before
        .filter(|_| change.kind == &PARTS && change.after.is_none());
    let Some((namespace, name)) = part.map(key) else {
        return Ok(());
    };
    let may_go = [("home", "toy-1"), ("away", "toy-2")];
    check(may_go.contains(&(namespace, name)), || {
        format!("part {namespace}/{name} is deleted")
    })
}

/// Every remaining toy has one part and is ready.
fn toys_are_ready(now: &Stored) -> Result<(), String> {
    let is_ready = |toy: &&Object| {
        let (namespace, name) = key(toy);
        let part = now.get(&PARTS, namespace, name);
        let owner = part.map(|part| text(part, "/metadata/ownerReferences/0/uid"));
        owner == Some(text(toy, "/metadata/uid")) && toy.pointer("/status/ready") == Some(&json!(true))
    };
    let (toys, ready) = (now.all(&TOYS).count(), now.all(&TOYS).filter(is_ready).count());
    let counts = (toys, ready, now.all(&PARTS).count());
    check(counts == (COUNT - 1, COUNT - 1, COUNT - 1), || {
        format!("(toys, ready toys, parts) is {counts:?}")
    })
}

/// Runs seeds of a controller of toys.
fn simulate<R: Reconcile>(seeds: Range<u64>, make: impl Fn() -> R + Send + Sync + 'static) -> Result<Summary> {
    Simulation::new("toys")
        .definitions(include_str!("definitions.yaml"))?
        .kind::<Thing>(&TOYS)
        .kind::<Thing>(&PARTS)
        .objects(&TOYS, (0..COUNT).map(toy))
        .controller(make)
        .at(600, |users| users.delete(&PARTS, "home", "toy-1"))
        .at(1200, |users| users.delete(&TOYS, "away", "toy-2"))
        .faults()
        .always("T1", part_has_a_toy)
        .always("T2", other_parts_stay)
        .at_end("T3", toys_are_ready)
        .run(seeds)
}

fn violated(summary: &Summary) -> Vec<&str> {
    let found = summary.violations.iter();
    found.map(|found| found.violation.invariant).collect()
}

#[test]
fn every_toy_gets_its_part_under_all_faults() -> Result<()> {
    let summary = simulate(0..400, || Toys)?;
    assert!(summary.violations.is_empty(), "{}", show::summary(&summary, None));
    assert_eq!(summary.schedules, 400);
    assert!(summary.faults > 400, "{} faults", summary.faults);
    Ok(())
}

/// A bug of a toy controller.
#[derive(Clone, Copy, PartialEq)]
enum Bug {
    /// A part of the same name in any namespace counts as the part of a toy.
    NamespaceIgnored,
    /// The controller decides on its caches alone.
    NeverReadsLive,
    /// The controller forgets which status it has written.
    WritesForgotten,
    /// Every reconcile writes another status.
    StatusFlips,
}

/// The toy controller with a bug.
struct Broken(Bug);

impl Reconcile for Broken {
    const NAME: &'static str = "broken-toy";
    type State = <Toys as Reconcile>::State;
    type Observed = <Toys as Reconcile>::Observed;

    fn kind(&self) -> &KindInfo {
        Toys.kind()
    }
    fn watches(&self) -> Vec<Watch> {
        Toys.watches()
    }
    fn affected(&self, changed: &ObjectRef, view: &View) -> Vec<ObjectRef> {
        Toys.affected(changed, view)
    }
    fn observe(
        &self,
        of: &ObjectRef,
        view: &View,
        source: Source,
        state: &mut Self::State,
        moment: Moment,
    ) -> Observation<Self::Observed> {
        match Toys.observe(of, view, source, state, moment) {
            Observation::Found((of, toy, _)) if self.0 == Bug::NamespaceIgnored => {
                let mut parts = view.objects.keys(&PARTS).into_iter();
                let has_part = parts.any(|part| part.name == of.name);
                Observation::Found((of, toy, has_part))
            }
            observation => observation,
        }
    }
    async fn read_live<C: Cluster>(
        &self,
        of: &ObjectRef,
        cluster: &C,
        view: &View,
        observed: &Self::Observed,
    ) -> Result<Option<View>, StepError> {
        match self.0 {
            Bug::NeverReadsLive => Ok(None),
            _ => Toys.read_live(of, cluster, view, observed).await,
        }
    }
    fn plan(&self, observed: &Self::Observed, state: &mut Self::State, moment: Moment) -> Vec<Step> {
        Toys.plan(observed, state, moment)
    }
    fn status(&self, reconciled: &Reconciled<'_, Self::Observed>, state: &mut Self::State) -> Vec<Write> {
        let mut writes = Toys.status(reconciled, state);
        if self.0 == Bug::StatusFlips {
            let (of, toy, part) = reconciled.observed;
            let flips = toy.status.get("flips") != Some(&json!(true));
            let status = json!({"ready": part, "flips": flips});
            writes = vec![Write::status(&TOYS, &of.namespace, &of.name, &status)];
        }
        writes
    }
    fn stored(&self, observed: &Self::Observed, write: &Write, written: &Written, state: &mut Self::State) {
        if self.0 != Bug::WritesForgotten {
            Toys.stored(observed, write, written, state);
        }
    }
}

#[test]
fn a_controller_that_ignores_namespaces_is_found() -> Result<()> {
    let summary = simulate(0..10, || Broken(Bug::NamespaceIgnored))?;
    assert!(violated(&summary).contains(&"T3"), "{}", show::summary(&summary, None));
    Ok(())
}

#[test]
fn a_controller_that_never_reads_live_is_found() -> Result<()> {
    let summary = simulate(0..400, || Broken(Bug::NeverReadsLive))?;
    assert!(violated(&summary).contains(&"T1"), "{}", show::summary(&summary, None));
    Ok(())
}

#[test]
fn a_controller_that_forgets_its_writes_is_found() -> Result<()> {
    let summary = simulate(390..400, || Broken(Bug::WritesForgotten))?;
    assert!(violated(&summary).contains(&"G4"), "{}", show::summary(&summary, None));
    Ok(())
}

#[test]
fn a_status_that_flips_is_found() -> Result<()> {
    let summary = simulate(0..2, || Broken(Bug::StatusFlips))?;
    assert_eq!(violated(&summary), ["ESR", "ESR"], "{}", show::summary(&summary, None));
    Ok(())
}

/// The trace of the smallest run and the seed are part of a finding.
#[test]
fn a_finding_names_its_seed_and_shows_its_trace() -> Result<()> {
    let summary = simulate(0..1, || Broken(Bug::NamespaceIgnored))?;
    let text = show::summary(&summary, None);
    assert!(text.contains("seed 0 (toys) violates T3"), "{text}");
    assert!(text.contains("broken-toy-0 creates part toy-"), "{text}");
    assert!(text.contains("repeat: Simulation::run(0..1)"), "{text}");
    Ok(())
}
