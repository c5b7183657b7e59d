//! What the invariants remember of a run besides the objects that are stored.

use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet, VecDeque};

use capstan_core::api::machine_openshift_io::machine::Machine;
use capstan_core::cpms::indexes::REPLACES;
use serde_json::{Map, Value};

use crate::api::{Change, ChangeKind};
use crate::simulation::engine::faults::LATEST;
use crate::simulation::engine::options::Marks;
use crate::simulation::engine::schedule::{HOUR, MINUTE};

use super::moment::{Machines, Moment, index};

/// Creations that are further apart are not one error, in milliseconds.
const MOST_BETWEEN_TRIES: i64 = 2 * MINUTE;

/// The invariants that have no condition: each run checks them, whatever happens in it.
const ALWAYS: [&str; 5] = ["G4", "G6", "G7", "G9", "ESR"];

/// What the invariants remember.
#[derive(Debug, Default)]
pub(crate) struct Evidence {
    /// The number of machines that the set should have.
    pub(crate) replicas: usize,
    /// Names of machines that users deleted.
    pub(crate) deleted_by_user: BTreeSet<String>,
    /// Machines whose instance vanished, until etcd has its members again.
    pub(crate) vanished: BTreeSet<String>,
    /// A user changed the failure domains, and the zones have not been even since then.
    pub(crate) rezoned: bool,
    /// Machines from which a user removed the lifecycle hook of the etcd operator, until the hook
    /// is restored, or the machine is gone and etcd has its members again.
    pub(crate) unhooked: BTreeSet<String>,
    /// Machines that users created.
    pub(crate) made_by_hand: BTreeSet<String>,
    /// Paths of fields of the set that users wrote since the set was created.
    pub(crate) user_fields: BTreeSet<String>,
    /// Uids of machines whose creation arrived when their set was gone. The garbage collector
    /// deletes them.
    pub(crate) born_late: BTreeSet<String>,
    /// The provider specs that the controller sent, without their zones, by the names of the
    /// machines.
    sent: BTreeMap<String, Value>,
    /// When the controller created the last machines of each index.
    births: BTreeMap<Option<u32>, VecDeque<i64>>,
    /// No fault stops a process or delays a cache, and no request is lost.
    is_undisturbed: bool,
    /// Names of machines that are gone.
    former_names: BTreeSet<String>,
    /// Since when an index of the Active set has no machine of the template.
    pub(crate) incomplete_since: Option<i64>,
    /// Since when the set has reported unmanaged nodes although each of them may be joining.
    pub(crate) misreported_since: Option<i64>,
    /// The uid of the last set that is gone.
    pub(crate) former_set: Option<String>,
    /// When the first and the last of the creations were sent that have been refused in a row
    /// without the condition `Error`.
    refused: Option<(i64, i64)>,
    /// Creations that may still arrive.
    in_flight: BTreeSet<PendingCreate>,
    /// What the invariants met in this run. The checks only read the evidence, and note this.
    marks: RefCell<Marks>,
}

/// A creation that was sent.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct PendingCreate {
    /// The uid of the set.
    set: String,
    index: Option<u32>,
    /// The uid of the machine that is replaced.
    replaced: String,
    name: String,
    /// When it was sent.
    at: i64,
}

impl PendingCreate {
    fn of(machine: &Value, at: i64) -> Self {
        let text = |pointer: &str| {
            let value = machine.pointer(pointer).and_then(Value::as_str);
            value.unwrap_or_default().to_owned()
        };
        let name = text("/metadata/name");
        Self {
            set: text("/metadata/ownerReferences/0/uid"),
            index: index(&name),
            replaced: text(&format!("/metadata/annotations/{}", REPLACES.replace('/', "~1"))),
            name,
            at,
        }
    }

    /// A set that was created again has purposes of its own: the machine for the set before it has
    /// an owner that is gone, and the garbage collector deletes it.
    fn has_purpose_of(&self, other: &Self) -> bool {
        (&self.set, self.index, &self.replaced) == (&other.set, other.index, &other.replaced)
    }
}

impl Evidence {
    /// Evidence of a control plane of so many machines.
    pub(crate) fn new(replicas: u32, is_undisturbed: bool) -> Self {
        Self {
            is_undisturbed,
            replicas: usize::try_from(replicas).unwrap_or(3),
            ..Self::default()
        }
    }

    /// An exemption: without it, an invariant would have been violated, or its check would have
    /// been made. Returns whether it applies.
    pub(crate) fn exempts(&self, exemption: &'static str, applies: bool) -> bool {
        if applies {
            self.marks.borrow_mut().exemptions.insert(exemption);
        }
        applies
    }

    /// The condition of an invariant held: what the invariant forbids was possible. Returns whether
    /// it held.
    pub(crate) fn tests(&self, invariant: &'static str, holds: bool) -> bool {
        if holds {
            self.marks.borrow_mut().tested.insert(invariant);
        }
        holds
    }

    /// Whether the condition of an invariant has held in this run.
    pub(crate) fn has_tested(&self, invariant: &'static str) -> bool {
        self.marks.borrow().tested.contains(invariant)
    }

    /// The controller reached branches of its decisions.
    pub(crate) fn reaches(&self, branches: impl Iterator<Item = &'static str>) {
        self.marks.borrow_mut().branches.extend(branches);
    }

    /// What the invariants met in this run.
    pub(crate) fn marks(&self) -> Marks {
        let mut marks = self.marks.borrow().clone();
        marks.tested.extend(ALWAYS);
        marks
    }

    /// A creation is sent at a time. Returns the names of this machine and of another one for the
    /// same purpose that may still arrive, if there is one.
    pub(crate) fn send_creation(&mut self, machine: &Value, now: i64, machines: &Machines) -> Option<(String, String)> {
        let sent = PendingCreate::of(machine, now);
        if let Some(provider_spec) = machine.pointer("/spec/providerSpec/value") {
            let mut provider_spec = provider_spec.clone();
            if let Some(placement) = provider_spec.get_mut("placement").and_then(Value::as_object_mut) {
                placement.remove("availabilityZone");
            }
            self.sent.insert(sent.name.clone(), provider_spec);
        }
        // A request that has not arrived by then never does.
        self.in_flight.retain(|sent| now - sent.at <= LATEST);
        let is_twin = |other: &&PendingCreate| {
            other.has_purpose_of(&sent) && other.name != sent.name && !machines.contains_key(&other.name)
        };
        if !sent.replaced.is_empty()
            && let Some(other) = self.in_flight.iter().find(is_twin)
        {
            return Some((sent.name.clone(), other.name.clone()));
        }
        self.in_flight.insert(sent);
        None
    }

    /// The creation of a machine of an index has arrived.
    pub(crate) fn receive_creation(&mut self, name: &str, index: Option<u32>, now: i64) {
        self.in_flight.retain(|sent| sent.name != *name);
        self.refused = None;
        let births = self.births.entry(index).or_default();
        births.retain(|at| now - at < HOUR);
        births.push_back(now);
    }

    /// The provider spec that the controller sent for a machine, without its zone.
    pub(crate) fn sent(&self, name: &str) -> Option<&Value> {
        self.sent.get(name)
    }

    /// The number of machines of an index that the controller created in the hour before the last
    /// one, with the last one.
    pub(crate) fn births(&self, index: Option<u32>) -> usize {
        self.births.get(&index).map_or(0, VecDeque::len)
    }

    /// A machine has a name that no later machine may have.
    pub(crate) fn note_former_name(&mut self, name: &str) {
        self.former_names.insert(name.to_owned());
    }

    /// A machine is gone. The exemptions end that apply to it.
    pub(crate) fn end_machine(&mut self, machine: &Machine) {
        let name = machine.metadata.name();
        self.deleted_by_user.remove(name);
        self.made_by_hand.remove(name);
        self.born_late.remove(machine.metadata.uid());
    }

    /// As many etcd members as wanted vote and are healthy. A member that is missing later is not
    /// excused by what happened before. A machine without its hook still loses its member.
    pub(crate) fn end_missing_members(&mut self, is_unhooked: impl Fn(&str) -> bool) {
        self.vanished.clear();
        self.unhooked.retain(|name| is_unhooked(name));
    }

    /// The zones are even. They may not become uneven without another change of a user.
    pub(crate) fn end_rezoning(&mut self) {
        self.rezoned = false;
    }

    /// Whether no fault stops a process or delays a cache, and no request is lost.
    pub(crate) fn is_undisturbed(&self) -> bool {
        self.is_undisturbed
    }

    /// A creation is sent while new machines are refused, and `reports` tells whether the set has
    /// the condition `Error`. Returns for how many milliseconds creations have been refused without
    /// that condition.
    pub(crate) fn note_refusal(&mut self, now: i64, reports: bool) -> i64 {
        let since = match self.refused {
            Some((since, last)) if now - last < MOST_BETWEEN_TRIES && !reports => since,
            _ => now,
        };
        self.refused = Some((since, now));
        now - since
    }

    /// Whether a machine that is gone had this name. After a request without an answer, the same
    /// name is right.
    pub(crate) fn is_former_name(&self, name: &str) -> bool {
        self.is_undisturbed && self.former_names.contains(name)
    }

    /// Whether names of machines that are gone are judged, and there are some.
    pub(crate) fn has_former_names(&self) -> bool {
        self.is_undisturbed && !self.former_names.is_empty()
    }

    /// The controller created a machine. A creation that arrives minutes late may find that its set
    /// is gone: then nothing owns the machine, and the garbage collector deletes it (seeds 36974
    /// and 77480).
    pub(crate) fn note_birth(&mut self, machine: &Machine, now: &Moment) {
        let set = now.set.as_ref().map(|set| set.metadata.uid());
        let owner = machine.metadata.controller().map(|owner| owner.uid.as_str());
        if owner != set {
            self.born_late.insert(machine.metadata.uid().to_owned());
        }
    }

    /// A client other than the generator wrote the set. The fields that the write changed belong to
    /// the user.
    pub(crate) fn note_edit(&mut self, change: &Change) {
        match (&change.old, change.kind) {
            (Some(old), ChangeKind::Modified) if change.object.has_same(old, "spec") => {}
            (Some(old), ChangeKind::Modified) => {
                let nothing = Value::Null;
                let (before, after) = (old.get("spec"), change.object.get("spec"));
                let (before, after) = (before.unwrap_or(&nothing), after.unwrap_or(&nothing));
                differences("/spec", before, after, &mut self.user_fields);
            }
            (_, ChangeKind::Added) => {
                // So do the fields of the creation. A set that the generator applies in the
                // milliseconds after it read that there was none has fields of both (seed 1178 of
                // the scenario `melee`).
                self.user_fields.clear();
                let spec = change.object.get("spec").cloned().unwrap_or_default();
                differences("/spec", &Map::new().into(), &spec, &mut self.user_fields);
            }
            _ => self.user_fields.clear(),
        }
    }

    /// The generator wrote the set.
    pub(crate) fn note_generated(&mut self, change: &Change) {
        if change.kind == ChangeKind::Added {
            self.user_fields.clear();
        }
    }
}

/// Adds the paths at which two values differ. A list counts as one value.
fn differences(path: &str, old: &Value, new: &Value, found: &mut BTreeSet<String>) {
    match (old, new) {
        (old, new) if old == new => {}
        (Value::Object(before), Value::Object(after)) => {
            let nothing = Value::Null;
            let names: BTreeSet<&String> = before.keys().chain(after.keys()).collect();
            for name in names {
                let (before, after) = (before.get(name), after.get(name));
                let path = format!("{path}/{}", name.replace('~', "~0").replace('/', "~1"));
                differences(&path, before.unwrap_or(&nothing), after.unwrap_or(&nothing), found);
            }
        }
        // An object that is added or removed is all its fields.
        (Value::Object(_), Value::Null) => differences(path, old, &Map::new().into(), found),
        (Value::Null, Value::Object(_)) => differences(path, &Map::new().into(), new, found),
        _ => drop(found.insert(path.to_owned())),
    }
}
