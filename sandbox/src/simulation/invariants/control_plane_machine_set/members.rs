//! What must hold of the etcd members after every change.

use crate::simulation::invariants::check::Check;

/// The etcd members at one moment.
pub(crate) struct MemberState {
    /// The number of voters that etcd should have.
    pub(crate) size: usize,
    /// Whether etcd has a member at all.
    pub(crate) exists: bool,
    /// The number of voters on ready nodes.
    pub(crate) healthy: usize,
    /// A fault or a user explains a missing voter.
    pub(crate) is_excused: bool,
}

impl MemberState {
    /// The checks of the etcd members.
    pub(crate) const CHECKS: [Check<Self>; 1] = [Check::new("C12", too_few_healthy_voters)];
}

/// The controller never reduces the number of healthy voters. A learner is not a voter.
fn too_few_healthy_voters(state: &MemberState) -> Option<String> {
    let MemberState { size, healthy, .. } = state;
    let text = || format!("the etcd quorum is at risk: {healthy} of {size} members are healthy voters");
    (state.exists && healthy < size && !state.is_excused).then(text)
}
