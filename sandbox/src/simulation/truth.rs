//! The invariants, checked against the truth after every change of the store: not against what a controller believes.
//!
//! What a controller does is judged by what was true at some moment of its turn: when it began, when it read live, and
//! now. Nobody can know what changes while a request is on its way; but a reason that was true at none of these moments is
//! none. The comparison of machines with their template is written here a second time, in the few words that this world
//! needs, so that a mistake in core is not repeated by its judge.
//!
//! Source of the list: reliability page, 1.9. C1 to C13 and G1 to G9 are named as there; `P1` (a paused rollout starts
//! nothing) and `ESR` (everything comes to rest as it should) are ours.

mod end;
mod generated;

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::sync::Arc;

use capstan_core::api::core_v1::node::Node;
use capstan_core::api::machine_openshift_io::control_plane_machine_set::{ControlPlaneMachineSet, FINALIZER};
use capstan_core::api::machine_openshift_io::machine::Machine;
use capstan_core::api::meta::Condition;
use capstan_core::cpms::indexes::REPLACES;
use capstan_core::cpms::spec::PAUSED_ROLLOUT;
use serde_json::Value;

use crate::api::{Change, ChangeKind, Object};

use super::objects::{PREFIX, Typed};
use super::schedule::LATEST;
use super::world::{Actor, World};

/// The invariants, with what each says.
pub const INVARIANTS: [(&str, &str); 23] = [
    ("C1", "no more machines are made than replicas and one"),
    (
        "C2",
        "what serves is deleted only when another machine of its index serves and is current",
    ),
    (
        "C3",
        "nothing is made or deleted while a node belongs to nobody, or a replacement has failed",
    ),
    ("C4", "an Inactive set writes to no machine, and an Active one stays so"),
    (
        "C5",
        "the set is called cluster, and has three or five replicas that do not change",
    ),
    (
        "C6",
        "a set lets go of every machine before its finalizer goes, and the garbage collector deletes none",
    ),
    (
        "C7",
        "under OnDelete a machine is made only for one that a user deletes, and none is deleted",
    ),
    ("C8", "the zones are even once everything has come to rest"),
    (
        "C9",
        "a machine that replaces another has its index, and no index is new",
    ),
    ("C10", "the hooks of a machine are not touched"),
    (
        "C11",
        "a set is generated where there is none, Inactive, and follows the machines; what is a user's stays, and an Active one is not touched",
    ),
    (
        "C12",
        "etcd keeps its quorum: nothing that serves is deleted while another machine or a member is not well",
    ),
    ("C13", "C1 holds whatever the caches show"),
    ("G1", "no two machines are made for the same purpose"),
    (
        "G2",
        "no machine is made while another for the same purpose may be on its way",
    ),
    ("G4", "once nothing changes, nothing is written"),
    ("G5", "every machine that is made or deleted is told in an event"),
    (
        "G6",
        "no generation is observed before it is there, and a condition's time moves with its status",
    ),
    ("G7", "every instance belongs to a machine"),
    (
        "G8",
        "no finalizer goes before its time, and nothing that is deleted stays for ever",
    ),
    (
        "G9",
        "every creation and deletion has a reason that was true, and a user's spec stays as it is",
    ),
    ("P1", "a paused rollout begins nothing"),
    (
        "ESR",
        "once users and faults stop, everything comes to rest as the set asks, and the set says so",
    ),
];

/// More writes than this in a row that change nothing are no accident. A few come of answers that were lost, of processes that
/// were killed, and of caches that go back in time.
const IDLE_WRITES: u32 = 30;

/// An invariant that does not hold.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Violation {
    /// Which.
    pub invariant: &'static str,
    /// How.
    pub text: String,
}

impl fmt::Display for Violation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.invariant, self.text)
    }
}

/// Everything that matters, at one moment.
#[derive(Clone, Debug)]
pub(super) struct Moment {
    pub(super) machines: Arc<BTreeMap<String, Arc<Machine>>>,
    pub(super) nodes: Arc<BTreeMap<String, Arc<Node>>>,
    pub(super) set: Option<Arc<ControlPlaneMachineSet>>,
    pub(super) etcd_well: bool,
}

/// What is remembered to judge by.
#[derive(Debug, Default)]
pub(super) struct Truth {
    pub(super) replicas: usize,
    /// The first violation.
    pub(super) violation: Option<Violation>,
    /// Uids and names that users deleted: their absence is nobody's fault.
    deleted_by_user: BTreeSet<String>,
    /// Machines whose instance vanished.
    pub(super) vanished: BTreeSet<String>,
    /// A user changed the zones.
    pub(super) rezoned: bool,
    /// A user took the hook of etcd off a machine.
    pub(super) unhooked: bool,
    /// Machines that somebody made beside Capstan.
    pub(super) made_by_hand: BTreeSet<String>,
    /// Fields of the set that users wrote since it was made.
    pub(super) of_users: BTreeSet<String>,
    /// Creations on their way: index, replaced uid, name.
    in_flight: BTreeSet<Sent>,
    /// By uid, machines whose set had gone when their creation arrived: nobody counts on them, and they are collected.
    born_late: BTreeSet<String>,
    /// Writes of controllers in a row that changed nothing.
    idle_writes: u32,
    /// Every deletion by a controller, with its reason.
    pub(super) reasons: Vec<String>,
}

/// A creation that was sent: for which set and index, in place of which machine, under which name, and when.
#[derive(Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Sent {
    set: String,
    index: Option<u32>,
    replaced: String,
    name: String,
    at: i64,
}

impl Truth {
    pub(super) fn new(replicas: u32) -> Self {
        Self {
            replicas: usize::try_from(replicas).unwrap_or(3),
            ..Self::default()
        }
    }

    pub(super) fn violate(&mut self, invariant: &'static str, text: String) {
        self.violation.get_or_insert(Violation { invariant, text });
    }

    /// A controller wrote: whoever writes again and again what is there already never comes to rest.
    pub(super) fn count_write(&mut self, changes: bool) {
        self.idle_writes = if changes { 0 } else { self.idle_writes + 1 };
        if self.idle_writes > IDLE_WRITES {
            let text = format!("{} writes in a row change nothing", self.idle_writes);
            self.violate("G4", text);
        }
    }

    pub(super) fn deleted_by_user(&mut self, name: &str) {
        self.deleted_by_user.insert(name.to_owned());
    }
}

/// The index at the end of a machine's name.
pub(super) fn index(name: &str) -> Option<u32> {
    name.rsplit_once('-')?.1.parse().ok()
}

pub(super) fn template_type(set: &ControlPlaneMachineSet) -> Option<&str> {
    let template = set.spec.template.machine.as_ref()?;
    template
        .spec
        .provider_spec
        .value
        .as_ref()?
        .get("instanceType")?
        .as_str()
}

fn listed_zones(set: &ControlPlaneMachineSet) -> BTreeSet<String> {
    let template = set.spec.template.machine.iter();
    let domains = template.filter_map(|template| template.failure_domains.as_ref()?.aws.as_ref());
    let places = domains.flatten().filter_map(|one| one.placement.as_ref());
    places.map(|place| place.availability_zone.clone()).collect()
}

pub(super) fn zone(machine: &Machine) -> Option<&str> {
    machine
        .spec
        .provider_spec
        .value
        .as_ref()?
        .pointer("/placement/availabilityZone")?
        .as_str()
}

fn text<'v>(machine: &'v Machine, field: &str) -> Option<&'v str> {
    machine.spec.provider_spec.value.as_ref()?.get(field)?.as_str()
}

/// How many indexes stand in each listed zone: where their newest machine stands, and while none stays, where the one
/// that is going stands.
fn spread(set: &ControlPlaneMachineSet, machines: &BTreeMap<String, Arc<Machine>>) -> BTreeMap<String, usize> {
    let mut counts: BTreeMap<String, usize> = listed_zones(set).into_iter().map(|zone| (zone, 0)).collect();
    let mut newest: BTreeMap<Option<u32>, &Machine> = BTreeMap::new();
    let rank = |machine: &Machine| (!machine.metadata.is_deleting(), machine.metadata.creation_timestamp);
    for (name, machine) in machines {
        let place = newest.entry(index(name)).or_insert(machine);
        if rank(machine) >= rank(place) {
            *place = machine;
        }
    }
    for machine in newest.into_values() {
        if let Some(count) = zone(machine).and_then(|zone| counts.get_mut(zone)) {
            *count += 1;
        }
    }
    counts
}

/// How far apart the fullest and the emptiest zone are.
fn unevenness(counts: &BTreeMap<String, usize>) -> usize {
    let (least, most) = (counts.values().min(), counts.values().max());
    most.copied().unwrap_or(0) - least.copied().unwrap_or(0)
}

/// The most indexes that a zone may hold.
fn share(counts: &BTreeMap<String, usize>) -> usize {
    counts.values().sum::<usize>().div_ceil(counts.len().max(1))
}

/// Whether a machine is what its set asks for, as far as the machine itself can be.
pub(super) fn is_of_template(set: &ControlPlaneMachineSet, machine: &Machine) -> bool {
    let placed = zone(machine).is_some_and(|zone| listed_zones(set).contains(zone));
    text(machine, "instanceType") == template_type(set) && placed
}

/// Whether a machine is what its set asks for, and its zone holds no more than its share.
fn is_current(set: &ControlPlaneMachineSet, machine: &Machine, machines: &BTreeMap<String, Arc<Machine>>) -> bool {
    let counts = spread(set, machines);
    let crowded = zone(machine).and_then(|zone| counts.get(zone)) > Some(&share(&counts));
    is_of_template(set, machine) && !crowded
}

/// Whether every index has a machine of the template and no other.
pub(super) fn all_current(set: &ControlPlaneMachineSet, machines: &BTreeMap<String, Arc<Machine>>) -> bool {
    machines
        .values()
        .all(|machine| !machine.metadata.is_deleting() && text(machine, "instanceType") == template_type(set))
}

impl Moment {
    /// The machines of an index that are the set's. One that a user took out of it is the user's, whatever its name says.
    fn of_index(&self, wanted: Option<u32>) -> impl Iterator<Item = (&String, &Arc<Machine>)> {
        self.machines
            .iter()
            .filter(move |(name, machine)| index(name) == wanted && Self::is_of_the_set(machine))
    }

    /// A machine is the set's by the labels that it selects or by an owner reference: without both, nothing leads from the
    /// set to the machine, or back. Seeds 7177 and 42182: labels taken off before the machine was adopted, or before the
    /// set was deleted and made again.
    fn is_of_the_set(machine: &Machine) -> bool {
        Self::selected(machine) || !machine.metadata.owner_references.is_empty()
    }

    pub(super) fn is_ready(&self, machine: &Machine) -> bool {
        let node = machine.node_name().and_then(|name| self.nodes.get(name));
        machine.phase() != Some("Failed") && node.is_some_and(|node| node.is_ready())
    }

    fn live(&self, wanted: Option<u32>) -> Vec<(&String, &Arc<Machine>)> {
        self.of_index(wanted)
            .filter(|(_, machine)| !machine.metadata.is_deleting())
            .collect()
    }

    pub(super) fn acts(&self) -> bool {
        self.set
            .as_ref()
            .is_some_and(|set| set.spec.state.as_deref() == Some("Active") && !set.metadata.is_deleting())
    }

    fn on_delete(&self) -> bool {
        let strategy = self
            .set
            .as_ref()
            .and_then(|set| set.spec.strategy.as_ref()?.type_.as_deref());
        strategy == Some("OnDelete")
    }

    fn paused(&self) -> bool {
        self.set
            .as_ref()
            .is_some_and(|set| set.metadata.annotations.contains_key(PAUSED_ROLLOUT))
    }

    pub(super) fn selected(machine: &Machine) -> bool {
        machine
            .metadata
            .labels
            .contains_key("machine.openshift.io/cluster-api-machine-type")
    }

    /// Control plane nodes that no machine claims, beyond those of machines that may be joining.
    fn has_strangers(&self) -> bool {
        let selected = || self.machines.values().filter(|machine| Self::selected(machine));
        let claimed: BTreeSet<&str> = selected().filter_map(|machine| machine.node_name()).collect();
        let ids: BTreeSet<&str> = selected()
            .filter_map(|machine| machine.spec.provider_id.as_deref())
            .collect();
        let id = |node: &Node| {
            node.unknown_fields
                .get("spec")
                .and_then(|spec| spec.get("providerID")?.as_str().map(str::to_owned))
        };
        self.nodes.values().any(|node| {
            let known = claimed.contains(node.metadata.name()) || id(node).is_some_and(|id| ids.contains(id.as_str()));
            node.is_control_plane() && !known
        })
    }

    /// A replacement that failed, which a person is to look at.
    fn has_failed_replacement(&self) -> bool {
        let Some(set) = &self.set else { return false };
        self.machines.values().any(|machine| {
            machine.phase() == Some("Failed")
                && !machine.metadata.is_deleting()
                && Self::selected(machine)
                && text(machine, "instanceType") == template_type(set)
        })
    }

    /// Why an index needs a machine; `None`: it does not.
    fn needs(&self, wanted: Option<u32>) -> Option<&'static str> {
        let set = self.set.as_ref()?;
        let all: Vec<_> = self.of_index(wanted).collect();
        let live = self.live(wanted);
        if all.is_empty() {
            return Some("the index has no machine");
        }
        if live.is_empty() {
            return Some("the machine of the index is going");
        }
        let outdated = live
            .iter()
            .all(|(_, machine)| !is_current(set, machine, &self.machines));
        (outdated && !self.on_delete() && !self.paused()).then_some("the machine of the index is outdated")
    }

    /// Why a machine may be deleted; `None`: it may not.
    fn spares(&self, name: &str) -> Option<String> {
        let set = self.set.as_ref()?;
        let machine = self.machines.get(name)?;
        let others: Vec<_> = self
            .live(index(name))
            .into_iter()
            .filter(|(other, _)| *other != name)
            .collect();
        if !self.is_ready(machine) {
            return others
                .first()
                .map(|(other, _)| format!("it is not ready, and {other} is there"));
        }
        // Which zone suits the others best is no reason to keep the old machine beside a new one that serves.
        let stands_in = others
            .iter()
            .find(|(_, other)| self.is_ready(other) && is_of_template(set, other));
        if let Some((other, _)) = stands_in {
            return Some(format!("{other} is ready and current"));
        }
        // The template changed again before the old machine went: of two that are outdated one has to go before there
        // is room for a third, and the other serves on.
        let outdated = !is_of_template(set, machine);
        let serves = others.iter().find(|(_, other)| self.is_ready(other));
        serves
            .filter(|_| outdated)
            .map(|(other, _)| format!("both are outdated, and {other} serves"))
    }

    fn ready(&self) -> usize {
        let live = self.machines.values().filter(|machine| !machine.metadata.is_deleting());
        live.filter(|machine| self.is_ready(machine)).count()
    }
}

impl World {
    /// A creation that arrives minutes late may find that its set is gone: then its owner is nobody, and the garbage
    /// collector takes it (seeds 36974 and 77480).
    fn note_birth(&mut self, change: &Change, machine: &Machine) {
        let set = self.set.as_ref().map(|set| set.metadata.uid());
        let owner = machine.metadata.controller().map(|owner| owner.uid.as_str());
        if change.kind == ChangeKind::Added && owner != set {
            self.truth.born_late.insert(machine.metadata.uid().to_owned());
        }
    }

    /// Judges a change before it is taken in.
    pub(super) fn check(&mut self, actor: Actor, change: &Change, typed: &Typed, looked: &[Moment]) {
        if self.truth.violation.is_some() {
            return;
        }
        let mut moments = looked.to_vec();
        moments.push(self.moment());
        let found = match (typed, actor) {
            (Typed::Machine(machine), Actor::Replica(_)) => {
                self.note_birth(change, machine);
                self.check_machine(change, machine, &moments)
            }
            (Typed::Machine(machine), Actor::Garbage)
                if is_deletion(change) && !self.truth.born_late.contains(machine.metadata.uid()) =>
            {
                let name = machine.metadata.name();
                Err(("C6", format!("the garbage collector deletes machine {name}")))
            }
            (Typed::Set(set), Actor::Generator(_)) => self
                .check_generated(change, &moments)
                .and_then(|()| self.check_set(actor, change, set)),
            (Typed::Set(set), _) => {
                self.truth.note_edit(change);
                self.check_set(actor, change, set)
            }
            _ => Ok(()),
        };
        if let Err((invariant, text)) = found {
            self.truth.violate(invariant, text);
        }
    }

    fn check_machine(
        &mut self,
        change: &Change,
        machine: &Machine,
        moments: &[Moment],
    ) -> Result<(), (&'static str, String)> {
        let name = machine.metadata.name();
        let never = |holds: fn(&Moment) -> bool| !moments.iter().any(holds);
        let always = |holds: fn(&Moment) -> bool| moments.iter().all(holds);
        let inactive = |moment: &Moment| {
            moment
                .set
                .as_ref()
                .is_some_and(|set| set.spec.state.as_deref() != Some("Active"))
        };
        if always(inactive) {
            return Err(("C4", format!("the set is Inactive, and machine {name} is written")));
        }
        let creation = change.kind == ChangeKind::Added;
        if creation || is_deletion(change) {
            if never(Moment::acts) {
                return Err(("C4", format!("no set acts, and machine {name} is made or deleted")));
            }
            if always(Moment::has_strangers) {
                return Err((
                    "C3",
                    format!("a node belongs to nobody, and machine {name} is made or deleted"),
                ));
            }
            if always(Moment::has_failed_replacement) {
                return Err((
                    "C3",
                    format!("a replacement has failed, and machine {name} is made or deleted"),
                ));
            }
        }
        if creation {
            // It has arrived: what becomes of it afterwards is known.
            self.truth.in_flight.retain(|sent| sent.name != *name);
            self.check_creation(machine, moments)
        } else if is_deletion(change) {
            self.check_deletion(machine, moments)
        } else {
            Self::check_patch(change, name)
        }
    }

    fn check_creation(&mut self, machine: &Machine, moments: &[Moment]) -> Result<(), (&'static str, String)> {
        let name = machine.metadata.name();
        let wanted = index(name);
        let replaced = machine.metadata.annotations.get(REPLACES).cloned().unwrap_or_default();
        if !name.starts_with(PREFIX) || wanted.is_none() {
            return Err(("C9", format!("machine {name} has no name of a control plane machine")));
        }
        for moment in moments {
            let old = moment.machines.iter().find(|(_, one)| one.metadata.uid() == replaced);
            if let Some((old, _)) = old
                && index(old) != wanted
            {
                return Err(("C9", format!("machine {name} replaces {old}, of another index")));
            }
        }
        let known = |moment: &Moment| moment.of_index(wanted).next().is_some();
        let beyond = wanted.is_none_or(|wanted| usize::try_from(wanted).unwrap_or(usize::MAX) >= self.truth.replicas);
        if beyond && !moments.iter().any(known) {
            return Err(("C9", format!("machine {name} has an index that nobody had")));
        }
        let before = self.moment();
        let twin = before
            .live(wanted)
            .into_iter()
            .find(|(_, one)| !replaced.is_empty() && one.metadata.annotations.get(REPLACES) == Some(&replaced));
        if let Some((twin, _)) = twin {
            return Err(("G1", format!("machine {name} replaces what machine {twin} replaces")));
        }
        if moments.iter().all(|moment| moment.needs(wanted).is_none()) {
            let invariant = if moments.iter().all(Moment::on_delete) {
                "C7"
            } else if moments.iter().all(Moment::paused) {
                "P1"
            } else {
                "G9"
            };
            return Err((invariant, format!("machine {name} is made, and its index needs none")));
        }
        // OnDelete leaves outdated machines beside their replacements to the user, and whatever he made himself.
        let on_delete = before.on_delete();
        // Machines that serve, or may come to: what a user deletes is on his account, and so is what he took out of the
        // set before it was ours.
        let mut counted = 1;
        for (other, one) in before.machines.iter().filter(|(_, one)| Moment::is_of_the_set(one)) {
            let idle =
                one.metadata.is_deleting() && (!before.is_ready(one) || self.truth.deleted_by_user.contains(other));
            // Nobody can know of one that somebody makes while the request is on its way.
            let unseen = || moments.iter().any(|moment| !moment.machines.contains_key(other));
            let theirs = self.truth.made_by_hand.contains(other) && (on_delete || unseen());
            counted += usize::from(!idle && !theirs);
        }
        let most = if on_delete {
            self.truth.replicas * 2
        } else {
            self.truth.replicas + 1
        };
        if counted > most {
            let stale = moments
                .first()
                .is_some_and(|first| first.machines.len() != before.machines.len());
            let invariant = if stale { "C13" } else { "C1" };
            return Err((
                invariant,
                format!("machine {name} is number {counted} of {}", self.truth.replicas),
            ));
        }
        Ok(())
    }

    fn check_deletion(&mut self, machine: &Machine, moments: &[Moment]) -> Result<(), (&'static str, String)> {
        let name = machine.metadata.name();
        if moments.iter().all(Moment::on_delete) {
            return Err(("C7", format!("strategy OnDelete, and machine {name} is deleted")));
        }
        let Some(reason) = moments.iter().find_map(|moment| moment.spares(name)) else {
            let served = moments
                .iter()
                .any(|moment| moment.machines.get(name).is_some_and(|one| moment.is_ready(one)));
            let invariant = if served { "C2" } else { "G9" };
            return Err((
                invariant,
                format!("machine {name} is deleted, and nothing stands in for it"),
            ));
        };
        // While the request was on its way its node may have come back (seed 240046).
        let served = moments
            .iter()
            .all(|moment| moment.machines.get(name).is_some_and(|one| moment.is_ready(one)));
        let enough = moments.iter().any(|moment| moment.ready() >= self.truth.replicas);
        if served && !enough {
            return Err(("C12", format!("machine {name} is deleted while another is not ready")));
        }
        if served && moments.iter().all(|moment| !moment.etcd_well) {
            return Err((
                "C12",
                format!("machine {name} is deleted while an etcd member is not healthy"),
            ));
        }
        self.truth.reasons.push(format!("{name}: {reason}"));
        self.trace(|| format!("   reason to delete {name}: {reason}"));
        Ok(())
    }

    fn check_patch(change: &Change, name: &str) -> Result<(), (&'static str, String)> {
        let Some(old) = &change.old else { return Ok(()) };
        let spec_same = old.has_same(&change.object, "spec");
        let same = |pointer: &str| {
            (spec_same && pointer.starts_with("/spec")) || old.pointer(pointer) == change.object.pointer(pointer)
        };
        if !same("/spec/lifecycleHooks") {
            return Err(("C10", format!("the hooks of machine {name} are changed")));
        }
        if !same("/metadata/finalizers") {
            return Err(("G8", format!("the finalizers of machine {name} are changed")));
        }
        if !same("/spec") {
            return Err(("G9", format!("the spec of machine {name} is changed in place")));
        }
        Ok(())
    }

    fn check_set(
        &self,
        actor: Actor,
        change: &Change,
        set: &ControlPlaneMachineSet,
    ) -> Result<(), (&'static str, String)> {
        if set.metadata.name() != "cluster" || !matches!(set.spec.replicas, Some(3 | 5)) {
            return Err((
                "C5",
                format!(
                    "set {} with {:?} replicas is stored",
                    set.metadata.name(),
                    set.spec.replicas
                ),
            ));
        }
        let Some(old) = change.old.as_ref().filter(|_| change.kind == ChangeKind::Modified) else {
            return self.check_release(actor, change, set);
        };
        let same_spec = old.has_same(&change.object, "spec");
        if !same_spec
            && old.pointer("/spec/state").and_then(Value::as_str) == Some("Active")
            && set.spec.state.as_deref() != Some("Active")
        {
            return Err(("C4", "an Active set becomes Inactive".to_owned()));
        }
        if !same_spec && old.pointer("/spec/replicas") != change.object.pointer("/spec/replicas") {
            return Err(("C5", "the replicas change".to_owned()));
        }
        if let Actor::Replica(_) = actor {
            if !same_spec {
                return Err((
                    "G9",
                    "a controller changes the spec of the set, which is its user's".to_owned(),
                ));
            }
            let observed = set.status.as_ref().and_then(|status| status.observed_generation);
            if observed > set.metadata.generation {
                return Err((
                    "G6",
                    format!(
                        "generation {observed:?} is observed, and {:?} is the last",
                        set.metadata.generation
                    ),
                ));
            }
            for one in conditions(set) {
                let before = self.set.iter().flat_map(|set| conditions(set));
                let before = before.filter(|before| before.type_ == one.type_).find(|before| {
                    before.status == one.status && before.last_transition_time != one.last_transition_time
                });
                if before.is_some() {
                    let name = &one.type_;
                    return Err((
                        "G6",
                        format!("the time of condition {name} moves, and its status does not"),
                    ));
                }
            }
        }
        self.check_release(actor, change, set)
    }

    /// The finalizer of the set goes after the last owner reference.
    fn check_release(
        &self,
        actor: Actor,
        change: &Change,
        set: &ControlPlaneMachineSet,
    ) -> Result<(), (&'static str, String)> {
        let held = |object: &Object| {
            let list = object.pointer("/metadata/finalizers").and_then(Value::as_array);
            list.into_iter().flatten().any(|one| one.as_str() == Some(FINALIZER))
        };
        let had = change.old.as_ref().is_some_and(|old| held(old));
        let has = change.kind != ChangeKind::Deleted && held(&change.object);
        if let (Actor::Replica(_), true, false) = (actor, had, has) {
            let owned = self.machines.iter().find(|(_, machine)| {
                machine
                    .metadata
                    .owner_references
                    .iter()
                    .any(|owner| owner.uid == set.metadata.uid())
            });
            if let Some((name, _)) = owned {
                return Err((
                    "C6",
                    format!("the set lets go while machine {name} names it as its owner"),
                ));
            }
        }
        Ok(())
    }

    /// A creation is sent: none for the same purpose under another name may be on its way. A set that was made again has
    /// purposes of its own: what was sent for the one before names an owner that is gone, and is collected.
    pub(super) fn check_in_flight(&mut self, at: usize, machine: &Value) {
        let text = |pointer: &str| {
            machine
                .pointer(pointer)
                .and_then(Value::as_str)
                .unwrap_or_default()
                .to_owned()
        };
        let name = text("/metadata/name");
        let replaced = text(&format!("/metadata/annotations/{}", REPLACES.replace('/', "~1")));
        let sent = Sent {
            set: text("/metadata/ownerReferences/0/uid"),
            index: index(&name),
            replaced,
            name,
            at: self.now,
        };
        // What has not arrived by then never does.
        let now = self.now;
        self.truth.in_flight.retain(|sent| now - sent.at <= LATEST);
        let same = |other: &&Sent| {
            let purpose = |sent: &Sent| (sent.set.clone(), sent.index, sent.replaced.clone());
            purpose(other) == purpose(&sent) && other.name != sent.name && !self.machines.contains_key(&other.name)
        };
        if !sent.replaced.is_empty()
            && let Some(Sent { name: other, .. }) = self.truth.in_flight.iter().find(same)
        {
            let name = &sent.name;
            let text = format!("capstan-{at} makes {name}, while {other} for the same purpose may be on its way");
            self.truth.violate("G2", text);
            return;
        }
        self.truth.in_flight.insert(sent);
    }
}

fn conditions(set: &ControlPlaneMachineSet) -> &[Condition] {
    set.status.as_ref().map_or(&[], |status| status.conditions.as_slice())
}

/// Whether a change begins or ends the life of an object.
fn is_deletion(change: &Change) -> bool {
    let deleting = |object: &Object| object.pointer("/metadata/deletionTimestamp").is_some();
    let before = change.old.as_ref().is_some_and(|old| deleting(old));
    !before && (change.kind == ChangeKind::Deleted || deleting(&change.object))
}
