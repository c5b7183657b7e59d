//! The checks of one write, and of the etcd members after each change.

use capstan_core::api::machine_openshift_io::control_plane::{ControlPlane, FINALIZER};
use capstan_core::api::machine_openshift_io::machine::Machine;
use capstan_core::api::machine_openshift_io::machine_health_check::MachineHealthCheck;
use capstan_core::control_plane::hook::HOOK;
use capstan_core::cpms::selector::is_control_plane;
use serde_json::Value;

use super::moment::Moment;
use crate::api::{Change, ChangeKind};
use crate::simulation::control_planes::kinds::{CONTROL_PLANE, HEALTH_CHECK, MACHINE};
use crate::simulation::control_planes::state::Plane;
use crate::simulation::control_planes::users::FOREIGN;
use crate::simulation::engine::faults::LATEST;
use crate::simulation::engine::world::{Actor, Observation, World};
use crate::simulation::invariants::shared;

type Found = Option<(&'static str, String)>;

impl World<Plane> {
    /// H3: a creation is sent while another one may still take effect.
    pub(in crate::simulation::control_planes) fn judge_creation_sent(&mut self, replica: usize, name: &str) {
        let now = self.now();
        let machines = &self.environment.machines;
        let in_flight = &mut self.environment.evidence.in_flight;
        in_flight.retain(|_, at| now - *at <= LATEST);
        let mut others = in_flight
            .keys()
            .filter(|other| *other != name && !machines.contains_key(*other));
        let other = others.next().cloned();
        in_flight.insert(name.to_owned(), now);
        if let Some(other) = other {
            let text = format!("capstan-{replica} creates {name}, and the creation of {other} may still take effect");
            self.violate("H3", text);
        }
    }

    /// H1: most voters are healthy, unless something else is the cause.
    pub(in crate::simulation::control_planes) fn judge_members(&mut self) {
        let environment = &self.environment;
        let voters = &environment.etcd.members.voters;
        let healthy = voters.iter().filter(|voter| environment.is_healthy(voter)).count();
        let is_excused = !environment.evidence.disturbed.is_empty();
        if !is_excused && 2 * healthy <= voters.len() && !voters.is_empty() {
            let text = format!("{healthy} of {} voting etcd members are healthy", voters.len());
            self.violate("H1", text);
        }
    }

    /// Judges a change of an object.
    pub(in crate::simulation::control_planes) fn judge_change(
        &mut self,
        observation: Observation<'_>,
        moments: &[Moment],
    ) {
        let by_controller = matches!(observation.actor, Actor::Controller { .. });
        let by_collector = observation.actor == Actor::GarbageCollector;
        let change = observation.change;
        let found = match observation.key.kind {
            kind if kind == MACHINE && by_controller => {
                if change.kind == ChangeKind::Added {
                    let evidence = &mut self.environment.evidence;
                    evidence.in_flight.remove(&observation.key.name);
                    if self.environment.object.is_none() {
                        evidence.born_late.insert(observation.key.name.clone());
                    }
                    let machine = observation.typed.get::<Machine>();
                    if let Some(text) = machine.and_then(|machine| self.judge_move(machine, moments)) {
                        self.violate("H14", text);
                    }
                }
                observation
                    .typed
                    .get::<Machine>()
                    .and_then(|machine| self.judge_machine(change, machine, moments))
            }
            kind if kind == MACHINE && by_collector && is_deletion(change) => {
                let name = &observation.key.name;
                let is_late = self.environment.evidence.born_late.contains(name);
                (!is_late).then(|| ("H10", format!("the garbage collector deletes machine {name}")))
            }
            kind if kind == CONTROL_PLANE && by_controller => judge_object(change, moments),
            kind if kind == HEALTH_CHECK && by_controller => {
                self.environment.evidence.tests("H9");
                observation
                    .typed
                    .get::<MachineHealthCheck>()
                    .filter(|_| change.kind != ChangeKind::Deleted)
                    .and_then(|check| judge_check(check, moments))
            }
            _ => None,
        };
        if let Some((invariant, text)) = found {
            self.violate(invariant, text);
        }
    }

    fn judge_machine(&self, change: &Change, machine: &Machine, moments: &[Moment]) -> Found {
        if let Some(found) = judge_owner(change, machine, moments) {
            return Some(found);
        }
        if change.kind == ChangeKind::Added {
            return self.judge_creation(machine, moments);
        }
        if is_deletion(change) {
            return self.judge_deletion(machine, moments);
        }
        judge_patch(change, machine, self.environment.setup.own_members)
    }

    fn judge_creation(&self, machine: &Machine, moments: &[Moment]) -> Found {
        let name = machine.metadata.name();
        for invariant in ["H2", "H4"] {
            self.environment.evidence.tests(invariant);
        }
        if let Some(found) = self.judge_learners(name, moments) {
            return Some(found);
        }
        let now = moments.last()?;
        let is_replacement = |moment: &Moment| moment.count() == moment.replicas() && moment.has_outdated();
        let is_wanted = |moment: &Moment| {
            moment.count() < moment.replicas() || is_replacement(moment) || moment.only_spread_is_wrong()
        };
        let most = moments.iter().map(Moment::replicas).max().unwrap_or(0) + 1;
        if !moments.iter().any(is_wanted) || now.count() + 1 > most {
            let text = format!(
                "machine {name} is created beside {} others, and {} are wanted",
                now.count(),
                now.replicas()
            );
            return Some(("H2", text));
        }
        let blocks = |moment: &Moment, member: &String| {
            let mut standing = moment.standing();
            standing.any(|machine| machine.metadata.name() == member)
        };
        let own_members = self.environment.setup.own_members;
        let is_fit = |moment: &Moment| {
            let standing = moment.sick.iter().filter(|member| blocks(moment, member)).count();
            let is_lost = |member: &String| own_members && !moment.machines.contains_key(member);
            let lost = moment.sick.iter().any(is_lost);
            moment.all_ready() && standing == 0 && moment.sick.len() <= 1 && !lost
        };
        if !moments.iter().any(is_fit) {
            let text = format!(
                "machine {name} is created while a machine is not ready or members are not healthy: {:?}",
                now.sick
            );
            return Some(("H4", text));
        }
        let single = moments
            .iter()
            .all(|moment| moment.replicas() == 1 && moment.count() >= 1);
        if single && !moments.iter().any(Moment::is_acknowledged) {
            return Some((
                "H7",
                format!("machine {name} replaces the only machine, and no user accepted it"),
            ));
        }
        None
    }

    /// H15: a machine is created or deleted while a member is a learner.
    fn judge_learners(&self, name: &str, moments: &[Moment]) -> Found {
        if moments.iter().any(Moment::is_learning) {
            self.environment.evidence.tests("H15");
        }
        let is_early = !moments.is_empty() && moments.iter().all(Moment::is_learning);
        let text = || format!("machine {name} is created or deleted while an etcd member is a learner");
        is_early.then(|| ("H15", text()))
    }

    /// H14: the same move is made again. A process that is killed before it sees the machine, which
    /// then disappears, may repeat it once.
    fn judge_move(&mut self, machine: &Machine, moments: &[Moment]) -> Option<String> {
        let before = moments.last()?;
        if moments.is_empty() || !moments.iter().all(Moment::only_spread_is_wrong) {
            return None;
        }
        let evidence = &mut self.environment.evidence;
        evidence.tests("H14");
        let moved = before.move_to(machine);
        let times = evidence.moves.entry(moved.clone()).or_default();
        *times += 1;
        (*times > 2).then(|| format!("a machine is moved to {moved}, {times} times"))
    }

    fn judge_deletion(&self, machine: &Machine, moments: &[Moment]) -> Found {
        let name = machine.metadata.name();
        for invariant in ["H5", "H6"] {
            self.environment.evidence.tests(invariant);
        }
        if is_foreign(machine) || !is_control_plane(&machine.metadata.labels) {
            return Some((
                "H8",
                format!("machine {name} is deleted, and it is not of this control plane"),
            ));
        }
        if let Some(found) = self.judge_learners(name, moments) {
            return Some(found);
        }
        let is_fit = |moment: &Moment| {
            moment.count() > moment.replicas() && moment.all_ready() && !moment.has_leaving() && moment.sick.is_empty()
        };
        if !moments.iter().any(is_fit) {
            let now = moments.last()?;
            let text = format!(
                "machine {name} is deleted; {} machines stand, {} are wanted, all ready: {}, one leaves: {}, members \
                 that are not healthy: {:?}",
                now.count(),
                now.replicas(),
                now.all_ready(),
                now.has_leaving(),
                now.sick
            );
            return Some(("H5", text));
        }
        let is_in_order = |moment: &Moment| !moment.is_current(machine) || !moment.has_outdated();
        if !moments.iter().any(is_in_order) {
            return Some(("H6", format!("machine {name} is deleted, and another one is outdated")));
        }
        None
    }
}

/// H10: a machine gets the ControlPlane as its owner while the ControlPlane has no finalizer. The
/// webhook refuses the deletion of such a ControlPlane, but it does not review every deletion.
fn judge_owner(change: &Change, machine: &Machine, moments: &[Moment]) -> Found {
    let is_finalized = |object: &ControlPlane| object.metadata.finalizers.iter().any(|name| name == FINALIZER);
    let objects = moments.iter().filter_map(|moment| moment.object.as_ref());
    let uid = objects.clone().next_back()?.metadata.uid();
    let old = change.old.as_deref();
    let before = old
        .and_then(|old| old.pointer("/metadata/ownerReferences"))
        .and_then(Value::as_array);
    let mut before = before.into_iter().flatten();
    let was_owned = before.any(|owner| owner.get("uid").and_then(Value::as_str) == Some(uid));
    let mut owners = machine.metadata.owner_references.iter();
    let is_new = !was_owned && owners.any(|owner| owner.uid == uid);
    let is_early = is_new && !objects.into_iter().any(|object| is_finalized(object));
    let name = machine.metadata.name();
    is_early.then(|| {
        (
            "H10",
            format!("machine {name} gets the ControlPlane as its owner, and the ControlPlane has no finalizer"),
        )
    })
}

/// A write to a machine that neither creates nor deletes it.
///
/// `manages`: the controller manages the etcd members, and its own hook.
fn judge_patch(change: &Change, machine: &Machine, manages: bool) -> Found {
    let name = machine.metadata.name();
    let old = change.old.as_deref()?;
    let hooks = |object: &crate::api::Object| -> Vec<Value> {
        let hooks = object
            .pointer("/spec/lifecycleHooks/preDrain")
            .and_then(Value::as_array);
        let hooks = hooks.into_iter().flatten();
        let is_own = |hook: &&Value| manages && hook.get("name").and_then(Value::as_str) == Some(HOOK);
        hooks.filter(|hook| !is_own(hook)).cloned().collect()
    };
    if hooks(old) != hooks(&change.object) {
        return Some(("H8", format!("the hooks of machine {name} change")));
    }
    let was_foreign = old.pointer("/metadata/ownerReferences").and_then(Value::as_array);
    let mut owners = was_foreign.into_iter().flatten();
    let was_foreign = owners.any(|owner| owner.get("uid").and_then(Value::as_str) == Some(FOREIGN));
    was_foreign.then(|| {
        (
            "H8",
            format!("machine {name} is written, and another controller owns it"),
        )
    })
}

fn is_foreign(machine: &Machine) -> bool {
    let mut owners = machine.metadata.owner_references.iter();
    owners.any(|owner| owner.uid == FOREIGN)
}

/// Whether a change is the request to delete an object, or removes it.
fn is_deletion(change: &Change) -> bool {
    let deleting = |object: &crate::api::Object| object.pointer("/metadata/deletionTimestamp").is_some();
    let before = change.old.as_deref().is_some_and(deleting);
    !before && (change.kind == ChangeKind::Deleted || deleting(&change.object))
}

/// A write of the controller to the ControlPlane.
fn judge_object(change: &Change, moments: &[Moment]) -> Found {
    let old = change.old.as_deref()?;
    let new = &*change.object;
    if !old.has_same(new, "spec") && old.get("spec") != new.get("spec") {
        return Some((
            "H13",
            String::from("the controller changes the spec of the ControlPlane"),
        ));
    }
    let moved = shared::transition_time_moved(old, new);
    if let Some(text) = shared::generation_observed_early(new).or(moved) {
        return Some(("G6", text));
    }
    let finalizers = |object: &crate::api::Object| {
        let list = object.pointer("/metadata/finalizers").and_then(Value::as_array);
        list.map_or(0, Vec::len)
    };
    let now = moments.last()?;
    let uid = now.object.as_ref().map_or("", |object| object.metadata.uid());
    let released = finalizers(new) < finalizers(old) || change.kind == ChangeKind::Deleted;
    let mut owned = now.machines.values().filter(|machine| {
        let mut owners = machine.metadata.owner_references.iter();
        owners.any(|owner| owner.uid == uid)
    });
    let held = owned.next().filter(|_| released)?;
    let name = held.metadata.name();
    Some((
        "H10",
        format!("the finalizer is removed while machine {name} has the ControlPlane as its owner"),
    ))
}

/// H9: the health check that the controller wrote.
fn judge_check(check: &MachineHealthCheck, moments: &[Moment]) -> Found {
    if check.metadata.is_deleting() {
        return None;
    }
    let most = check.spec.max_unhealthy.as_ref().and_then(Value::as_u64);
    let allowed = moments.iter().map(Moment::most_unhealthy).max().unwrap_or(0);
    match most {
        Some(most) if most <= allowed && check.spec.unhealthy_conditions.len() == 2 => None,
        _ => Some((
            "H9",
            format!("the health check has maxUnhealthy {most:?}, and at most {allowed} is safe"),
        )),
    }
}
