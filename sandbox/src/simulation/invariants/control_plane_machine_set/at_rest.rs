//! What must hold once everything has come to rest: nothing is stuck, nothing is left over, and the set reports it.

use std::collections::BTreeSet;

use capstan_core::api::machine_openshift_io::control_plane_machine_set::ControlPlaneMachineSet;
use capstan_core::api::meta::Condition;

use crate::simulation::invariants::check::Check;
use crate::simulation::invariants::evidence::Evidence;
use crate::simulation::invariants::generator;
use crate::simulation::invariants::moment::{Moment, index, instance_type, is_current, spread, unevenness, zone};

/// A control plane that has come to rest.
pub(crate) struct AtRest<'a> {
    pub(crate) now: &'a Moment,
    pub(crate) evidence: &'a Evidence,
    /// The uids of the machines whose instances run.
    pub(crate) instances: &'a BTreeSet<String>,
    /// The generator runs.
    pub(crate) generates: bool,
    /// The CRD of the set contains the field `status.machines`.
    pub(crate) keeps_machines: bool,
}

impl<'a> AtRest<'a> {
    /// The checks of a control plane at rest. The first one that fails counts.
    pub(crate) const CHECKS: [Check<Self>; 16] = [
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
        Check::new("C8", zones_uneven),
        Check::new("ESR", status_incomplete),
        Check::new("ESR", condition_wrong),
        Check::new("ESR", progress_wrong),
    ];
}

impl AtRest<'_> {
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

fn machine_stuck(rest: &AtRest<'_>) -> Option<String> {
    let mut machines = rest.now.machines.iter();
    let (name, _) = machines.find(|(_, machine)| machine.metadata.is_deleting())?;
    Some(format!("machine {name} is never gone"))
}

fn instance_unknown(rest: &AtRest<'_>) -> Option<String> {
    let known: BTreeSet<&str> = rest
        .now
        .machines
        .values()
        .map(|machine| machine.metadata.uid())
        .collect();
    let uid = rest.instances.iter().find(|uid| !known.contains(uid.as_str()))?;
    Some(format!("the instance of machine uid {uid} runs, and nobody knows it"))
}

fn nothing_generated(rest: &AtRest<'_>) -> Option<String> {
    generator::nothing_generated(rest.now).filter(|_| rest.generates)
}

fn generated_outdated(rest: &AtRest<'_>) -> Option<String> {
    generator::generated_outdated(rest.now, rest.evidence).filter(|_| rest.generates)
}

fn set_stuck(rest: &AtRest<'_>) -> Option<String> {
    let set = rest.now.set.as_ref()?;
    set.metadata.is_deleting().then(|| "the set is never gone".to_owned())
}

/// An Inactive set reports that it is Inactive. One that cannot be parsed reports that it is degraded.
fn inactive_unreported(rest: &AtRest<'_>) -> Option<String> {
    let set = rest.now.set.as_ref().filter(|_| !rest.now.is_active())?;
    let progressing = condition(set, "Progressing");
    let reported = progressing.is_some_and(|there| {
        there.status == "False" && matches!(there.reason.as_str(), "Inactive" | "OperatorDegraded")
    });
    let observed = set.status.as_ref().and_then(|status| status.observed_generation);
    let current = observed == set.metadata.generation;
    (!reported || !current).then(|| format!("the set is Inactive, and at the end {progressing:?}"))
}

fn finalizer_missing(rest: &AtRest<'_>) -> Option<String> {
    let missing = rest.active()?.metadata.finalizers.is_empty();
    missing.then(|| "nothing holds the set until its machines are released".to_owned())
}

fn machine_unowned(rest: &AtRest<'_>) -> Option<String> {
    let uid = rest.active()?.metadata.uid();
    let mut machines = rest.now.machines.iter();
    let (name, _) =
        machines.find(|(_, machine)| !machine.metadata.owner_references.iter().any(|owner| owner.uid == uid))?;
    Some(format!("machine {name} does not name the set as its owner"))
}

fn index_empty(rest: &AtRest<'_>) -> Option<String> {
    rest.active()?;
    let names = rest.now.machines.keys();
    let indexes: BTreeSet<Option<u32>> = names.clone().map(|name| index(name)).collect();
    let text = || format!("{} indexes have machines: {names:?}", indexes.len());
    (indexes.len() != rest.evidence.replicas).then(text)
}

fn machine_left_over(rest: &AtRest<'_>) -> Option<String> {
    rest.rolling()?;
    let names = rest.now.machines.keys();
    let text = || format!("there are {} machines: {names:?}", names.len());
    (names.len() != rest.evidence.replicas).then(text)
}

fn machine_not_ready(rest: &AtRest<'_>) -> Option<String> {
    rest.active()?;
    let mut machines = rest.now.machines.iter();
    let (name, _) = machines.find(|(_, machine)| !rest.now.is_ready(machine))?;
    Some(format!("machine {name} is not ready"))
}

fn machine_outdated(rest: &AtRest<'_>) -> Option<String> {
    let set = rest.rolling()?;
    let mut machines = rest.now.machines.iter();
    let (name, machine) = machines.find(|(_, machine)| !is_current(set, machine, &rest.now.machines))?;
    let (type_, zone) = (instance_type(machine), zone(machine));
    Some(format!("machine {name} is outdated: {type_:?} in {zone:?}"))
}

/// A zone that a user adds takes over only indexes that exceed the share of another zone, as the ControlPlaneMachineSet operator
/// maps them. So five machines in three zones stay where they are when a fourth zone is added.
fn zones_uneven(rest: &AtRest<'_>) -> Option<String> {
    let counts = spread(rest.rolling()?, &rest.now.machines);
    let uneven = !rest.evidence.rezoned && unevenness(&counts) > 1;
    uneven.then(|| format!("the zones are not balanced: {counts:?}"))
}

fn status_incomplete(rest: &AtRest<'_>) -> Option<String> {
    let set = rest.active()?;
    let Some(status) = &set.status else {
        return Some("the set has no status".to_owned());
    };
    if rest.keeps_machines && status.machines.len() < rest.evidence.replicas {
        return Some("the status does not tell of each machine".to_owned());
    }
    let current = status.observed_generation == set.metadata.generation;
    (!current).then(|| "the last generation of the set is not observed".to_owned())
}

fn condition_wrong(rest: &AtRest<'_>) -> Option<String> {
    let set = rest.active()?;
    let wanted = [("Degraded", "False"), ("Available", "True"), ("Error", "False")];
    wanted.into_iter().find_map(|(type_, wanted)| {
        let there = condition(set, type_);
        let right = there.is_some_and(|there| there.status == wanted);
        (!right).then(|| format!("at the end {there:?}"))
    })
}

fn progress_wrong(rest: &AtRest<'_>) -> Option<String> {
    let there = condition(rest.rolling()?, "Progressing");
    let right = there.is_some_and(|there| there.status == "False" && there.reason == "AllReplicasUpdated");
    (!right).then(|| format!("at the end {there:?}"))
}
