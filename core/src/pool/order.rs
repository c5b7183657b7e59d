//! The order in which the machines of a pool are deleted.
//!
//! One order covers all machines, so that a machine that a user marked goes before an outdated one
//! without a mark. Source: the MachinePool Machines proposal, "InfraMachinePoolMachine
//! deletion".

use super::state::Member;

/// Members in the order in which they are deleted: marked ones, then outdated ones, then unhealthy
/// ones, then ones that are not available, then the oldest, then by name.
pub(super) fn in_deletion_order<'a>(members: impl Iterator<Item = &'a Member>) -> Vec<&'a Member> {
    let mut members: Vec<&Member> = members.collect();
    members.sort_by_key(|member| {
        (
            !member.is_marked(),
            member.outdated.is_none(),
            !member.is_unhealthy(),
            member.is_available,
            member.created(),
            member.name.clone(),
        )
    });
    members
}
