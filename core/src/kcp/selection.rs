//! Which machine is deleted when there are too many, or when an outdated machine is replaced.
//!
//! Nothing here decides whether a machine may be deleted now; see `preflight`.

use super::domains;
use super::state::{MachineState, State};
use crate::api::cluster_x_k8s_io::annotation::DELETE_MACHINE;

/// The machine to delete, and why it is this one; `None` if there is no machine.
pub(super) fn to_delete(state: &State) -> Option<(&MachineState, &'static str)> {
    let machines: Vec<&MachineState> = state.machines.iter().collect();
    let (eligible, why) = eligible(state, &machines);
    let domain = domains::for_deletion(&state.failure_domains, &machines, &eligible)?;
    let oldest = eligible
        .into_iter()
        .filter(|machine| machine.failure_domain() == domain)
        .min_by_key(|machine| machine.age());
    oldest.map(|machine| (machine, why))
}

/// The machines of which one is deleted: the first group that is not empty.
fn eligible<'a>(state: &'a State, machines: &[&'a MachineState]) -> (Vec<&'a MachineState>, &'static str) {
    let outdated = state.outdated();
    let annotated = |machines: &[&'a MachineState]| -> Vec<&'a MachineState> {
        let machines = machines.iter().copied();
        machines.filter(|machine| machine.has(DELETE_MACHINE)).collect()
    };
    let is_broken = |machine: &&MachineState| state.components().iter().any(|type_| machine.is_false(type_));
    let broken: Vec<&MachineState> = outdated.iter().copied().filter(is_broken).collect();
    let groups = [
        (
            annotated(&outdated),
            "it is outdated and has the annotation cluster.x-k8s.io/delete-machine",
        ),
        (
            annotated(machines),
            "it has the annotation cluster.x-k8s.io/delete-machine",
        ),
        (broken, "it is outdated and has an unhealthy component"),
        (outdated, "it is outdated"),
    ];
    let first = groups.into_iter().find(|(machines, _)| !machines.is_empty());
    first.unwrap_or_else(|| (machines.to_vec(), "there are more machines than replicas"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::kcp::samples::World;
    use crate::kcp::state::condition;

    fn chosen(world: &World) -> String {
        let state = world.state();
        to_delete(&state).map_or_else(String::new, |(machine, _)| machine.name().to_owned())
    }

    #[test]
    fn the_oldest_machine_of_the_fullest_failure_domain_is_deleted() {
        let mut world = World::new("abbcc");
        assert_eq!(chosen(&world), "m-1");
        world.created(2, "2025-01-01T00:00:00Z");
        assert_eq!(chosen(&world), "m-2");
        world.created(1, "2025-01-01T00:00:00Z");
        assert_eq!(chosen(&world), "m-1", "of the same age, the first by name");
        assert_eq!(chosen(&World::new("")), "");
    }

    #[test]
    fn without_failure_domains_the_oldest_machine_is_deleted() {
        let mut world = World::new("---");
        world.cluster["status"]["failureDomains"] = serde_json::json!([]);
        assert_eq!(chosen(&world), "m-0");
        // The oldest machine gives the value of the failure domain.
        let mut world = World::new("abb");
        world.cluster["status"]["failureDomains"] = serde_json::json!([]);
        assert_eq!(chosen(&world), "m-0");
    }

    #[test]
    fn the_groups_have_an_order() {
        let mut world = World::new("abcab");
        assert_eq!(chosen(&world), "m-0");
        world.outdated(4);
        world.outdated(2);
        assert_eq!(chosen(&world), "m-4", "outdated, and b has two machines");
        world.set(2, condition::SCHEDULER, "False");
        assert_eq!(chosen(&world), "m-2", "outdated with an unhealthy component");
        world.annotate(3, DELETE_MACHINE, "");
        assert_eq!(chosen(&world), "m-3", "annotated");
        world.annotate(4, DELETE_MACHINE, "");
        assert_eq!(chosen(&world), "m-4", "annotated and outdated");
    }

    #[test]
    fn a_component_is_unhealthy_only_if_its_condition_is_false() {
        let mut world = World::new("abc");
        for machine in 0..3 {
            world.outdated(machine);
        }
        world.set(1, condition::SCHEDULER, "Unknown");
        world.set(2, condition::API_SERVER, "");
        assert_eq!(chosen(&world), "m-0");
        world.set(1, condition::ETCD_MEMBER, "False");
        assert_eq!(chosen(&world), "m-1");
    }

    #[test]
    fn conditions_of_etcd_do_not_count_with_external_etcd() {
        let mut world = World::new("abc").external();
        for machine in 0..3 {
            world.outdated(machine);
        }
        world.set(1, condition::ETCD_MEMBER, "False");
        assert_eq!(chosen(&world), "m-0");
    }
}
