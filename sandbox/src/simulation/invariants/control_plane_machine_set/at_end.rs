//! What must hold at the end of a run, after faults have stopped: no deletion is stuck, no machine
//! is superfluous, and the set reports it.

use std::collections::BTreeSet;

use capstan_core::api::machine_openshift_io::control_plane_machine_set::ControlPlaneMachineSet;
use capstan_core::api::machine_openshift_io::machine::Machine;
use capstan_core::api::meta::Condition;

use crate::simulation::invariants::check::Check;
use crate::simulation::invariants::evidence::Evidence;
use crate::simulation::invariants::generator;
use crate::simulation::invariants::moment::{
    Moment, index_of, instance_type, is_current, share, spread, unevenness, zone,
};

/// A control plane at the end of a run, when no event is due.
pub(crate) struct RunEnd<'a> {
    pub(crate) now: &'a Moment,
    pub(crate) evidence: &'a Evidence,
    /// The uids of the machines whose instances run.
    pub(crate) instances: &'a BTreeSet<String>,
    /// The generator runs, and the machines are of one cluster.
    pub(crate) generates: bool,
    /// The CRD of the set contains the field `status.machines`.
    pub(crate) keeps_machines: bool,
}

impl<'a> RunEnd<'a> {
    /// The checks at the end of a run. The first one that fails counts.
    pub(crate) const CHECKS: [Check<Self>; 17] = [
        Check::new("G8", machine_stuck),
        Check::new("G7", instance_unknown),
        Check::new("C11", nothing_generated),
        Check::new("C11", generated_outdated),
        Check::new("G8", set_stuck),
        Check::new("ESR", inactive_unreported),
        Check::new("ESR", finalizer_missing),
        Check::new("ESR", machine_unowned),
        Check::new("ESR", index_empty),
        Check::new("ESR", machine_left_over),
        Check::new("ESR", machine_not_ready),
        Check::new("ESR", machine_outdated),
        Check::new("ESR", label_missing),
        Check::new("C8", zones_uneven),
        Check::new("ESR", status_incomplete),
        Check::new("ESR", condition_wrong),
        Check::new("ESR", progress_wrong),
    ];
}

impl RunEnd<'_> {
    /// The set, if it is Active.
    fn active(&self) -> Option<&ControlPlaneMachineSet> {
        self.now.set.as_deref().filter(|_| self.now.is_active())
    }

    /// The set, if it is Active and replaces outdated machines.
    fn rolling(&self) -> Option<&ControlPlaneMachineSet> {
        self.active().filter(|_| !self.now.is_on_delete())
    }
}

fn condition<'a>(set: &'a ControlPlaneMachineSet, type_: &str) -> Option<&'a Condition> {
    let status = set.status.as_ref()?;
    status.conditions.iter().find(|condition| condition.type_ == type_)
}

fn machine_stuck(end: &RunEnd<'_>) -> Option<String> {
    let mut machines = end.now.machines.iter();
    let (name, _) = machines.find(|(_, machine)| machine.metadata.is_deleting())?;
    Some(format!("machine {name} is never removed"))
}

fn instance_unknown(end: &RunEnd<'_>) -> Option<String> {
    let known: BTreeSet<&str> = end
        .now
        .machines
        .values()
        .map(|machine| machine.metadata.uid())
        .collect();
    let uid = end.instances.iter().find(|uid| !known.contains(uid.as_str()))?;
    Some(format!(
        "the instance of the machine with uid {uid} runs without its machine"
    ))
}

fn nothing_generated(end: &RunEnd<'_>) -> Option<String> {
    generator::nothing_generated(end.now).filter(|_| end.generates)
}

fn generated_outdated(end: &RunEnd<'_>) -> Option<String> {
    generator::generated_outdated(end.now, end.evidence).filter(|_| end.generates)
}

fn set_stuck(end: &RunEnd<'_>) -> Option<String> {
    let set = end.now.set.as_ref()?;
    set.metadata
        .is_deleting()
        .then(|| "the set is never removed".to_owned())
}

/// An Inactive set reports that it is Inactive. One that cannot be parsed reports that it is
/// degraded.
fn inactive_unreported(end: &RunEnd<'_>) -> Option<String> {
    let set = end.now.set.as_ref().filter(|_| !end.now.is_active())?;
    let progressing = condition(set, "Progressing");
    let reported = progressing.is_some_and(|there| {
        there.status == "False" && matches!(there.reason.as_str(), "Inactive" | "OperatorDegraded")
    });
    let observed = set.status.as_ref().and_then(|status| status.observed_generation);
    let current = observed == set.metadata.generation;
    (!reported || !current).then(|| format!("the set is Inactive, and its condition is {progressing:?}"))
}

fn finalizer_missing(end: &RunEnd<'_>) -> Option<String> {
    let missing = end.active()?.metadata.finalizers.is_empty();
    missing.then(|| "the set has no finalizer".to_owned())
}

fn machine_unowned(end: &RunEnd<'_>) -> Option<String> {
    let uid = end.active()?.metadata.uid();
    let mut machines = end.now.machines.iter();
    let (name, _) =
        machines.find(|(_, machine)| !machine.metadata.owner_references.iter().any(|owner| owner.uid == uid))?;
    Some(format!("machine {name} has no owner reference to the set"))
}

fn index_empty(end: &RunEnd<'_>) -> Option<String> {
    end.active()?;
    let names = end.now.machines.keys();
    let machines = end.now.machines.values();
    let indexes: BTreeSet<Option<u32>> = machines.map(|machine| index_of(machine)).collect();
    let text = || format!("{} indexes have machines: {names:?}", indexes.len());
    (indexes.len() != end.evidence.replicas).then(text)
}

fn machine_left_over(end: &RunEnd<'_>) -> Option<String> {
    end.rolling()?;
    let names = end.now.machines.keys();
    let text = || format!("there are {} machines: {names:?}", names.len());
    (names.len() != end.evidence.replicas).then(text)
}

fn machine_not_ready(end: &RunEnd<'_>) -> Option<String> {
    end.active()?;
    let mut machines = end.now.machines.iter();
    let (name, _) = machines.find(|(_, machine)| !end.now.is_ready(machine))?;
    Some(format!("machine {name} is not ready"))
}

fn machine_outdated(end: &RunEnd<'_>) -> Option<String> {
    let set = end.rolling()?;
    let mut machines = end.now.machines.iter();
    let (name, machine) = machines.find(|(_, machine)| !is_current(set, machine, &end.now.machines))?;
    let (type_, zone) = (instance_type(machine), zone(machine));
    Some(format!("machine {name} is outdated: {type_:?} in {zone:?}"))
}

/// Labels of the template are applied to existing machines.
fn label_missing(end: &RunEnd<'_>) -> Option<String> {
    let labels = &end.active()?.spec.template.machine.as_ref()?.metadata.labels;
    let lacks = |machine: &Machine| {
        labels
            .iter()
            .any(|(key, value)| machine.metadata.labels.get(key) != Some(value))
    };
    let mut machines = end.now.machines.iter();
    let (name, _) = machines.find(|(_, machine)| lacks(machine))?;
    Some(format!("machine {name} does not have the labels of the template"))
}

/// No zone has more than its share, whatever users did. A zone that a user adds takes over only
/// indexes that exceed the share of another zone, as the ControlPlaneMachineSet operator maps them.
/// So five machines in three zones stay where they are when a fourth zone is added.
fn zones_uneven(end: &RunEnd<'_>) -> Option<String> {
    let counts = spread(end.rolling()?, &end.now.machines);
    let uneven = unevenness(&counts) > 1;
    end.evidence.tests("C8", !end.evidence.rezoned);
    let is_rezoned = end.evidence.rezoned && counts.values().max() <= Some(&share(&counts));
    let is_excused = uneven && end.evidence.exempts("rezoned", is_rezoned);
    (uneven && !is_excused).then(|| format!("the zones are not balanced: {counts:?}"))
}

fn status_incomplete(end: &RunEnd<'_>) -> Option<String> {
    let set = end.active()?;
    let Some(status) = &set.status else {
        return Some("the set has no status".to_owned());
    };
    if end.keeps_machines && status.machines.len() < end.evidence.replicas {
        return Some("the status does not list every machine".to_owned());
    }
    let current = status.observed_generation == set.metadata.generation;
    (!current).then(|| "the status does not report the newest generation".to_owned())
}

fn condition_wrong(end: &RunEnd<'_>) -> Option<String> {
    let set = end.active()?;
    let wanted = [("Degraded", "False"), ("Available", "True"), ("Error", "False")];
    wanted.into_iter().find_map(|(type_, wanted)| {
        let there = condition(set, type_);
        let right = there.is_some_and(|there| there.status == wanted);
        (!right).then(|| format!("condition {type_} is {there:?}"))
    })
}

fn progress_wrong(end: &RunEnd<'_>) -> Option<String> {
    let there = condition(end.rolling()?, "Progressing");
    let right = there.is_some_and(|there| there.status == "False" && there.reason == "AllReplicasUpdated");
    (!right).then(|| format!("condition Progressing is {there:?}"))
}
