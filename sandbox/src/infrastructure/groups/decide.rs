//! What the reference provider does next for a group. It is pure.
//!
//! Duties of a provider: an infrastructure machine for each instance; instances up to the number of
//! replicas, and `surge` more while some are outdated; a deletion only through the owner Machine,
//! so that the Node is drained; for a surplus, marked machines first, then outdated ones, then the
//! oldest. A deletion is requested only for machines that are surplus besides those that are being
//! deleted.

use std::collections::{BTreeMap, BTreeSet};

use super::cloud::Instance;

/// The group that is wanted.
#[derive(Clone, Debug, Default)]
pub struct Group {
    /// The number of instances.
    pub replicas: usize,
    /// The version of the kubelets.
    pub version: String,
    /// The model.
    pub model: String,
    /// How many instances may be added while some are outdated.
    pub surge: usize,
    /// Whether the group is being deleted.
    pub is_deleting: bool,
}

/// An infrastructure machine, with its owner Machine.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct MachineOf {
    /// The provider ID of its instance.
    pub provider_id: String,
    /// Whether the deletion of the infrastructure machine was requested.
    pub is_deleting: bool,
    /// The owner Machine; empty before it exists.
    pub owner: String,
    /// Whether the deletion of the owner was requested.
    pub owner_is_deleting: bool,
    /// Whether the owner has the annotation `delete-machine`.
    pub is_marked: bool,
}

/// What exists.
#[derive(Clone, Debug, Default)]
pub struct Inventory {
    /// The instances, the oldest first.
    pub instances: Vec<Instance>,
    /// The infrastructure machines, by name.
    pub machines: BTreeMap<String, MachineOf>,
    /// The provider IDs of instances whose Machine is available.
    pub available: BTreeSet<String>,
}

/// A step of the provider.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Act {
    /// Launches so many instances.
    Launch(usize),
    /// Creates the infrastructure machine of an instance.
    Represent(Instance),
    /// Deletes an owner Machine.
    DeleteOwner(String),
    /// Deletes an infrastructure machine that has no owner.
    Delete(String),
    /// Terminates the instance of a deleted infrastructure machine, and releases the object.
    Release(String),
}

/// The next steps.
pub fn decide(group: &Group, seen: &Inventory) -> Vec<Act> {
    let mut acts = Vec::new();
    let instances: BTreeMap<String, &Instance> = seen
        .instances
        .iter()
        .map(|instance| (instance.provider_id(), instance))
        .collect();
    for (name, machine) in &seen.machines {
        if machine.is_deleting {
            acts.push(Act::Release(name.clone()));
        } else if group.is_deleting || !instances.contains_key(&machine.provider_id) {
            acts.extend(removal(name, machine));
        }
    }
    if group.is_deleting {
        return acts;
    }
    let known: BTreeSet<&str> = seen
        .machines
        .values()
        .map(|machine| machine.provider_id.as_str())
        .collect();
    let unknown = seen.instances.iter().filter(|one| !known.contains(&*one.provider_id()));
    acts.extend(unknown.cloned().map(Act::Represent));
    let leaving: BTreeSet<&str> = seen
        .machines
        .values()
        .filter(|machine| machine.is_deleting || machine.owner_is_deleting)
        .map(|machine| machine.provider_id.as_str())
        .collect();
    let staying: Vec<&Instance> = seen
        .instances
        .iter()
        .filter(|one| !leaving.contains(&*one.provider_id()))
        .collect();
    let outdated = staying.iter().filter(|one| is_outdated(group, one)).count();
    let wanted = group.replicas + outdated.min(group.surge);
    if staying.len() < wanted {
        acts.push(Act::Launch(wanted - staying.len()));
    }
    acts.extend(surplus(group, seen, &staying));
    acts
}

fn is_outdated(group: &Group, instance: &Instance) -> bool {
    instance.version != group.version || instance.model != group.model
}

fn removal(name: &str, machine: &MachineOf) -> Option<Act> {
    if machine.owner.is_empty() {
        return Some(Act::Delete(name.to_owned()));
    }
    (!machine.owner_is_deleting).then(|| Act::DeleteOwner(machine.owner.clone()))
}

/// The deletion of owners while more instances are available than wanted. An instance that is not
/// available may become so, so it counts only if the group has too many in any case.
fn surplus(group: &Group, seen: &Inventory, staying: &[&Instance]) -> Vec<Act> {
    let is_available = |instance: &&&Instance| seen.available.contains(&instance.provider_id());
    let available = staying.iter().filter(is_available).count();
    let outdated = staying.iter().any(|instance| is_outdated(group, instance));
    let count = if outdated { available } else { staying.len() };
    let surplus = count.saturating_sub(group.replicas);
    let mut candidates: Vec<(&Instance, &MachineOf)> = staying
        .iter()
        .filter_map(|instance| {
            let mut machines = seen.machines.values();
            let machine = machines.find(|machine| machine.provider_id == instance.provider_id())?;
            // Without an owner, the core manager has not seen it yet.
            (!machine.owner.is_empty()).then_some((*instance, machine))
        })
        .collect();
    candidates.sort_by_key(|(instance, machine)| (!machine.is_marked, !is_outdated(group, instance), instance.number));
    let first = candidates.into_iter().take(surplus);
    first
        .map(|(_, machine)| Act::DeleteOwner(machine.owner.clone()))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::super::cloud::Cloud;
    use super::*;

    fn group(replicas: usize) -> Group {
        Group {
            replicas,
            version: String::from("v1"),
            surge: 1,
            ..Group::default()
        }
    }

    /// So many instances of the group, each with its objects, and available.
    fn seen(count: usize) -> Inventory {
        let cloud = Cloud::default();
        (0..count).for_each(|_| cloud.launch("ns/g", "v1", ""));
        let instances = cloud.of_group("ns/g");
        let machine = |instance: &Instance| MachineOf {
            provider_id: instance.provider_id(),
            owner: instance.name(),
            ..MachineOf::default()
        };
        Inventory {
            machines: instances.iter().map(|one| (one.name(), machine(one))).collect(),
            available: instances.iter().map(Instance::provider_id).collect(),
            instances,
        }
    }

    #[test]
    fn a_complete_group_needs_nothing_and_an_incomplete_one_is_filled() {
        assert_eq!(decide(&group(3), &seen(3)), []);
        assert_eq!(decide(&group(3), &seen(1)), [Act::Launch(2)]);
    }

    #[test]
    fn a_marked_machine_goes_before_older_ones_and_a_deletion_that_was_requested_counts() {
        let mut world = seen(3);
        world.machines.get_mut("g-0002").unwrap().is_marked = true;
        assert_eq!(decide(&group(2), &world), [Act::DeleteOwner("g-0002".to_owned())]);
        world.machines.get_mut("g-0002").unwrap().owner_is_deleting = true;
        assert_eq!(decide(&group(2), &world), []);
    }

    #[test]
    fn outdated_instances_are_replaced_after_one_more_is_available() {
        let mut world = seen(2);
        let newer = Group {
            version: String::from("v2"),
            ..group(2)
        };
        assert_eq!(decide(&newer, &world), [Act::Launch(1)]);
        let cloud = Cloud::default();
        (0..2).for_each(|_| cloud.launch("ns/g", "v1", ""));
        cloud.launch("ns/g", "v2", "");
        world.instances = cloud.of_group("ns/g");
        let new = world.instances[2].clone();
        assert_eq!(decide(&newer, &world), [Act::Represent(new.clone())]);
        let machine = MachineOf {
            provider_id: new.provider_id(),
            owner: new.name(),
            ..MachineOf::default()
        };
        world.machines.insert(new.name(), machine);
        assert_eq!(decide(&newer, &world), []);
        world.available.insert(new.provider_id());
        assert_eq!(decide(&newer, &world), [Act::DeleteOwner("g-0001".to_owned())]);
    }

    #[test]
    fn an_instance_that_vanished_takes_its_owner_with_it_and_is_replaced() {
        let mut world = seen(2);
        world.instances.remove(0);
        assert_eq!(
            decide(&group(2), &world),
            [Act::DeleteOwner("g-0001".to_owned()), Act::Launch(1)]
        );
    }
}
