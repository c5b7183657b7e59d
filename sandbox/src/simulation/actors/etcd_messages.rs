//! The messages that cluster-etcd-operator writes to its ClusterOperator.
//!
//! Source: cluster-etcd-operator, `pkg/etcdcli/health.go` and
//! `pkg/operator/etcdmemberscontroller`; library-go, `pkg/operator/status/condition.go`. The
//! conditions of the ClusterOperator join conditions of the operator, one line for each. The list
//! must not follow what Capstan can parse.

use crate::infrastructure::etcd::Report;

/// A status and a message.
type Condition = (&'static str, &'static str);

/// The conditions of the ClusterOperator.
#[derive(Clone, Copy, Debug)]
pub(super) struct Message {
    pub(super) available: Condition,
    pub(super) degraded: Condition,
}

const fn message(available: Condition, degraded: Condition) -> Message {
    Message { available, degraded }
}

const NOT_DEGRADED: Condition = (
    "False",
    "NodeControllerDegraded: All master nodes are ready\nEtcdMembersDegraded: No unhealthy members found",
);

/// While all members are healthy.
const HEALTHY: [Message; 4] = [
    message(("True", "EtcdMembersAvailable: 3 members are available"), ("False", "")),
    message(("True", "EtcdMembersAvailable: 4 members are available"), NOT_DEGRADED),
    message(
        (
            "True",
            "StaticPodsAvailable: 3 nodes are active; 3 nodes are at revision 7\nEtcdMembersAvailable: 3 members are available",
        ),
        NOT_DEGRADED,
    ),
    message(
        (
            "True",
            "EtcdMembersAvailable: 5 members are available\nStaticPodsAvailable: 5 nodes are active; 3 nodes are at revision 6; 2 nodes are at revision 7",
        ),
        ("False", "EtcdMembersDegraded: No unhealthy members found"),
    ),
];

/// While a member is not healthy, or has not started.
const UNHEALTHY: [Message; 12] = [
    message(
        (
            "True",
            "EtcdMembersAvailable: 2 of 3 members are available, a member is unhealthy",
        ),
        ("False", ""),
    ),
    message(
        (
            "True",
            "EtcdMembersAvailable: 3 of 4 members are available, ip-10-0-3-7 has not started",
        ),
        NOT_DEGRADED,
    ),
    message(
        (
            "True",
            "EtcdMembersAvailable: 3 of 4 members are available, NAME-PENDING-10.0.0.9 has not started",
        ),
        NOT_DEGRADED,
    ),
    message(
        (
            "True",
            "EtcdMembersAvailable: 2 of 4 members are available, master-2 is unhealthy, NAME-PENDING-10.0.0.9 has not started",
        ),
        NOT_DEGRADED,
    ),
    message(
        ("True", "EtcdMembersAvailable: 2 of 3 members are available"),
        NOT_DEGRADED,
    ),
    message(
        (
            "False",
            "EtcdMembersAvailable: 1 of 3 members are available, master-1 is unhealthy, master-2 is unhealthy",
        ),
        (
            "True",
            "EtcdMembersDegraded: 1 of 3 members are available, master-1 is unhealthy, master-2 is unhealthy",
        ),
    ),
    message(
        ("True", "EtcdMembersAvailable: 3 members are available"),
        (
            "False",
            "EtcdMembersDegraded: 2 of 3 members are available, master-2 is unhealthy",
        ),
    ),
    message(
        ("True", "EtcdMembersAvailable: 3 members are available"),
        (
            "False",
            "EtcdMembersControllerDegraded: getting cache client: context deadline exceeded",
        ),
    ),
    message(
        ("True", "EtcdMembersAvailable: 3 members are available"),
        (
            "True",
            "EtcdMembersDegraded: 2 of 3 members are available, master-0 has not started",
        ),
    ),
    message(
        (
            "True",
            "StaticPodsAvailable: 2 nodes are active; 1 node is at revision 0; 2 nodes are at revision 7",
        ),
        NOT_DEGRADED,
    ),
    message(
        ("True", "EtcdMembersAvailable: 3 members are available"),
        (
            "True",
            "ClusterMemberControllerDegraded: could not get list of unhealthy members: context deadline exceeded",
        ),
    ),
    message(
        ("Unknown", "EtcdMembersAvailable: 3 members are available"),
        NOT_DEGRADED,
    ),
];

/// The message that all scenarios but one use. `None`: the operator has no conditions.
pub(super) fn usual(report: Report) -> Option<Message> {
    any(report, 0)
}

/// One of the messages of a report. `None`: the operator has no conditions.
pub(super) fn any(report: Report, number: usize) -> Option<Message> {
    let all: &[Message] = match report {
        Report::Healthy => &HEALTHY,
        Report::Unhealthy => &UNHEALTHY,
        Report::Nothing => &[],
    };
    all.iter().cycle().nth(number.checked_rem(all.len())?).copied()
}
