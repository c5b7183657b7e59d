//! The failure domain of the next machine, and the failure domain from which a machine is deleted.
//!
//! The choice depends on names if the numbers are equal, so that a plan shows the step that is
//! taken. Cluster API chooses at random then.

use std::cmp::Reverse;

use super::state::MachineState;

/// How many machines a failure domain has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Count<'a> {
    domain: &'a str,
    /// The machines that decide.
    preferred: usize,
    /// All machines.
    all: usize,
}

/// Counts machines of known failure domains. Other machines are not counted.
fn counts<'a>(domains: &'a [String], all: &[&MachineState], preferred: &[&MachineState]) -> Vec<Count<'a>> {
    let in_domain = |machines: &[&MachineState], domain: &str| {
        let machines = machines.iter();
        machines.filter(|machine| machine.failure_domain() == domain).count()
    };
    domains
        .iter()
        .map(|domain| Count {
            domain,
            preferred: in_domain(preferred, domain),
            all: in_domain(all, domain),
        })
        .collect()
}

/// The failure domain of a new machine: the one with the fewest machines that are up to date and
/// are not being deleted, then with the fewest machines, then the first by name. `None` if there
/// are no failure domains.
pub(super) fn for_new_machine<'a>(domains: &'a [String], machines: &[&MachineState]) -> Option<&'a str> {
    let stays = |machine: &&MachineState| machine.is_current() && !machine.is_deleting();
    let preferred: Vec<&MachineState> = machines.iter().copied().filter(|machine| stays(machine)).collect();
    let fewest = counts(domains, machines, &preferred)
        .into_iter()
        .min_by_key(|count| (count.preferred, count.all, count.domain));
    fewest.map(|count| count.domain)
}

/// The failure domain from which one of the eligible machines is deleted. Machines outside of the
/// known failure domains are first: the failure domain of the oldest of them. Otherwise the failure
/// domain with the most eligible machines, then with the most machines, then the first by name.
pub(super) fn for_deletion<'a>(
    domains: &'a [String],
    machines: &[&MachineState],
    eligible: &[&'a MachineState],
) -> Option<&'a str> {
    let is_unknown = |machine: &&&MachineState| !domains.iter().any(|domain| domain == machine.failure_domain());
    let outside = eligible.iter().filter(is_unknown).min_by_key(|machine| machine.age());
    if let Some(machine) = outside {
        return Some(machine.failure_domain());
    }
    let most = counts(domains, machines, eligible)
        .into_iter()
        .filter(|count| count.preferred > 0)
        .min_by_key(|count| (Reverse(count.preferred), Reverse(count.all), count.domain));
    most.map(|count| count.domain)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::kcp::samples::World;
    use crate::kcp::state::State;

    fn new_machine(world: &World) -> Option<String> {
        let state = world.state();
        let machines: Vec<&MachineState> = state.machines.iter().collect();
        for_new_machine(&state.failure_domains, &machines).map(str::to_owned)
    }

    /// The failure domain of a deletion if these machines are eligible.
    fn deletion(state: &State, eligible: &[usize]) -> Option<String> {
        let machines: Vec<&MachineState> = state.machines.iter().collect();
        let eligible: Vec<&MachineState> = eligible.iter().map(|index| &state.machines[*index]).collect();
        for_deletion(&state.failure_domains, &machines, &eligible).map(str::to_owned)
    }

    #[test]
    fn a_new_machine_is_in_the_failure_domain_with_the_fewest_machines_and_then_the_first_by_name() {
        for (machines, domain) in [
            ("", "a"),
            ("a", "b"),
            ("ab", "c"),
            ("abc", "a"),
            ("abca", "b"),
            ("bc", "a"),
            ("aabbc", "c"),
            ("---", "a"),
            ("xxa", "b"),
        ] {
            assert_eq!(
                new_machine(&World::new(machines)).as_deref(),
                Some(domain),
                "{machines}"
            );
        }
    }

    #[test]
    fn outdated_and_deleted_machines_count_only_in_a_tie() {
        let mut world = World::new("aab");
        world.outdated(0);
        world.outdated(1);
        world.set(2, "Ready", "True");
        // a has no current machine, like c, and more machines than c.
        assert_eq!(new_machine(&world).as_deref(), Some("c"));
        let mut world = World::new("abbcc");
        world.delete(0);
        assert_eq!(new_machine(&world).as_deref(), Some("a"));
    }

    #[test]
    fn only_failure_domains_for_control_planes_are_used() {
        let mut world = World::new("bc");
        let domains = world.cluster["status"]["failureDomains"].as_array_mut().unwrap();
        domains[0]["controlPlane"] = serde_json::json!(false);
        assert_eq!(new_machine(&world).as_deref(), Some("b"));
        world.cluster["status"]["failureDomains"] = serde_json::json!([]);
        assert_eq!(new_machine(&world), None);
    }

    #[test]
    fn a_machine_is_deleted_where_most_machines_are_eligible() {
        let state = World::new("aabbbc").state();
        assert_eq!(
            deletion(&state, &[0, 1, 2]).as_deref(),
            Some("a"),
            "two are eligible in a"
        );
        assert_eq!(deletion(&state, &[0, 2]).as_deref(), Some("b"), "b has more machines");
        assert_eq!(deletion(&state, &[5]).as_deref(), Some("c"));
        let tie = World::new("ccbbaa").state();
        assert_eq!(
            deletion(&tie, &[0, 1, 2, 3, 4, 5]).as_deref(),
            Some("a"),
            "first by name"
        );
    }

    #[test]
    fn machines_outside_of_the_failure_domains_are_deleted_first_and_the_oldest_decides() {
        let mut world = World::new("aax-y");
        assert_eq!(deletion(&world.state(), &[0, 1, 2, 3, 4]).as_deref(), Some("x"));
        world.created(3, "2025-01-01T00:00:00Z");
        assert_eq!(deletion(&world.state(), &[0, 1, 2, 3, 4]).as_deref(), Some(""));
        assert_eq!(
            deletion(&world.state(), &[0, 1]).as_deref(),
            Some("a"),
            "only eligible machines"
        );
    }
}
