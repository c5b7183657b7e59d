//! etcd quorum: whether a change of the membership keeps a majority of healthy members.
//!
//! The function is for every controller that adds or deletes a control plane machine. It must never
//! take an unknown member for a healthy one. Source: the target quorum of KubeadmControlPlane in
//! Cluster API.

use std::fmt;

use super::plan::Degradation;

/// A member of an etcd cluster.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EtcdMember {
    /// The name; empty for a member that has not started yet.
    pub name: String,
    /// Whether the member does not vote yet.
    pub is_learner: bool,
    /// Whether the member is known to be healthy. A member with an alarm is not. The caller decides
    /// about a member that belongs to no machine.
    pub is_healthy: bool,
}

/// Why the members of an etcd cluster are not known.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum UnknownMembers {
    /// They do not answer, for this reason.
    NoAnswer(String),
    /// Only a user can tell which they are.
    Undecided(Degradation),
}

impl fmt::Display for UnknownMembers {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NoAnswer(reason) => formatter.write_str(reason),
            Self::Undecided(degradation) => formatter.write_str(&degradation.message),
        }
    }
}

/// A change of the membership.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MembershipChange<'a> {
    /// A member joins.
    Add,
    /// The member with this name is removed. A name that no member has removes nothing.
    Remove(&'a str),
}

/// The members after a change.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Quorum {
    /// The members that vote.
    pub voting: usize,
    /// The members that are not known to be healthy, learners included.
    pub unhealthy: usize,
    /// The members that do not vote.
    pub learners: usize,
}

impl Quorum {
    /// The number of healthy voting members that etcd needs.
    pub fn needed(self) -> usize {
        self.voting / 2 + 1
    }

    /// Whether etcd has a majority of healthy members, and no learner.
    pub fn is_safe(self) -> bool {
        self.learners == 0 && self.voting.saturating_sub(self.unhealthy) >= self.needed()
    }
}

/// The members after a change.
///
/// A member that joins counts as unhealthy, unless it joins at most one member: the second member
/// has to become healthy before anything else can happen.
pub fn quorum_after(members: &[EtcdMember], change: MembershipChange<'_>) -> Quorum {
    let mut quorum = Quorum::default();
    if change == MembershipChange::Add {
        quorum.voting = 1;
        quorum.unhealthy = usize::from(members.len() > 1);
    }
    for member in members {
        if member.name.is_empty() {
            quorum.learners += 1;
            quorum.unhealthy += 1;
            continue;
        }
        if change == MembershipChange::Remove(&member.name) {
            continue;
        }
        if member.is_learner {
            quorum.learners += 1;
        } else {
            quorum.voting += 1;
        }
        quorum.unhealthy += usize::from(!member.is_healthy);
    }
    quorum
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Members `0`, `1`, …, the last of which are not healthy.
    fn members(count: usize, unhealthy: usize) -> Vec<EtcdMember> {
        let member = |index: usize| EtcdMember {
            name: index.to_string(),
            is_learner: false,
            is_healthy: index + unhealthy < count,
        };
        (0..count).map(member).collect()
    }

    /// The most unhealthy members with which a change is safe; `None` if it is never safe.
    fn most_unhealthy(count: usize, change: MembershipChange<'_>) -> Option<usize> {
        // The member `0` is the one to remove, so it stays healthy here.
        let others = if change == MembershipChange::Add {
            count
        } else {
            count - 1
        };
        (0..=others)
            .filter(|unhealthy| quorum_after(&members(count, *unhealthy), change).is_safe())
            .max()
    }

    #[test]
    fn a_removal_is_safe_while_the_rest_has_a_healthy_majority() {
        for (count, most) in [
            (1, None),
            (2, Some(0)),
            (3, Some(0)),
            (4, Some(1)),
            (5, Some(1)),
            (6, Some(2)),
            (7, Some(2)),
        ] {
            assert_eq!(most_unhealthy(count, MembershipChange::Remove("0")), most, "{count}");
        }
    }

    #[test]
    fn an_addition_is_safe_while_all_have_a_healthy_majority_without_the_new_member() {
        for (count, most) in [
            (0, Some(0)),
            (1, Some(0)),
            (2, Some(0)),
            (3, Some(0)),
            (4, Some(1)),
            (5, Some(1)),
            (6, Some(2)),
        ] {
            assert_eq!(most_unhealthy(count, MembershipChange::Add), most, "{count}");
        }
    }

    #[test]
    fn a_safe_change_stays_safe_with_fewer_unhealthy_members() {
        for (count, change) in
            (1..8).flat_map(|count| [(count, MembershipChange::Add), (count, MembershipChange::Remove("0"))])
        {
            let safe: Vec<bool> = (0..count)
                .map(|unhealthy| quorum_after(&members(count, unhealthy), change).is_safe())
                .collect();
            assert!(
                safe.is_sorted_by(|earlier, later| earlier >= later),
                "{count} {change:?}"
            );
        }
    }

    #[test]
    fn the_unhealthy_member_is_removed_while_the_others_are_healthy() {
        let three = members(3, 1);
        assert!(quorum_after(&three, MembershipChange::Remove("2")).is_safe());
        assert!(!quorum_after(&three, MembershipChange::Remove("1")).is_safe());
    }

    #[test]
    fn no_change_is_safe_while_there_is_a_learner_or_a_member_without_a_name() {
        for (name, is_learner) in [("", false), ("2", true)] {
            let mut three = members(3, 0);
            three[2] = EtcdMember {
                name: name.to_owned(),
                is_learner,
                is_healthy: true,
            };
            for change in [MembershipChange::Add, MembershipChange::Remove("0")] {
                assert!(!quorum_after(&three, change).is_safe());
            }
        }
        let mut three = members(3, 0);
        three[2].is_learner = true;
        assert!(quorum_after(&three, MembershipChange::Remove("2")).is_safe());
    }

    #[test]
    fn the_numbers_are_those_of_the_formula() {
        let quorum = quorum_after(&members(4, 1), MembershipChange::Add);
        assert_eq!((quorum.voting, quorum.unhealthy, quorum.needed()), (5, 2, 3));
        let quorum = quorum_after(&members(5, 1), MembershipChange::Remove("0"));
        assert_eq!((quorum.voting, quorum.unhealthy, quorum.needed()), (4, 1, 3));
    }
}
