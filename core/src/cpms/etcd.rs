//! The health of etcd, as its operator reports it (decision 17).
//!
//! The etcd operator protects the quorum with a deletion hook, which Capstan never touches. This
//! module reads an additional gate from the ClusterOperator `etcd`. A report is healthy only if
//! this module can parse it and it says that all members are available. A report that does not
//! parse is not healthy, because a rollout that waits too long does no harm. A cluster without the
//! ClusterOperator has no gate.
//!
//! Source: cluster-etcd-operator, `pkg/etcdcli/health.go` and
//! `pkg/operator/etcdmemberscontroller`; library-go, `pkg/operator/status/condition.go`. The
//! conditions `Available` and `Degraded` of the ClusterOperator join conditions of the operator:
//! one line `<condition>: <message>` for each line of a message that is not empty.

use core::net::IpAddr;
use std::collections::BTreeSet;

use crate::api::config_openshift_io::cluster_operator::ClusterOperator;
use crate::api::core_v1::config_map::ConfigMap;
use crate::model::EtcdMember;

/// The operator's condition that counts the members.
const MEMBERS_AVAILABLE: &str = "EtcdMembersAvailable";
/// The operator's condition that lists unhealthy members.
const MEMBERS_DEGRADED: &str = "EtcdMembersDegraded";
/// The message of [`MEMBERS_DEGRADED`] while no member is unhealthy.
const NO_MEMBER_DEGRADED: &str = "No unhealthy members found";
/// The operator's condition that has a message only while the members cannot be queried. The
/// message of [`MEMBERS_AVAILABLE`] is then out of date.
const MEMBERS_UNKNOWN: &str = "EtcdMembersControllerDegraded";

/// What the etcd operator reports.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Etcd {
    /// The cluster has no etcd operator, and nothing waits for it.
    NotReported,
    /// All members are healthy.
    Healthy,
    /// A member is not healthy, or the operator does not report.
    Unhealthy {
        /// The message of the operator.
        message: String,
    },
}

impl Etcd {
    /// Reads the ClusterOperator `etcd`.
    pub fn of(operator: Option<&ClusterOperator>) -> Self {
        let Some(operator) = operator else {
            return Self::NotReported;
        };
        match complaint(operator) {
            Some(message) => Self::Unhealthy { message },
            None => Self::Healthy,
        }
    }
}

/// The members that the operator counts, for [`quorum_after`](crate::model::quorum_after). `None`
/// if its report does not parse or is out of date. The operator names only members that are not
/// available, so the names here are not those of the members.
pub fn members(operator: &ClusterOperator) -> Option<Vec<EtcdMember>> {
    let degraded = operator.condition("Degraded");
    let mut known = lines(degraded.and_then(|degraded| degraded.message.as_deref()));
    if known.any(|(type_, _)| type_ == MEMBERS_UNKNOWN) {
        return None;
    }
    let available = operator.condition("Available")?;
    let mut reports = lines(available.message.as_deref()).filter(|(type_, _)| *type_ == MEMBERS_AVAILABLE);
    let (Some((_, text)), None) = (reports.next(), reports.next()) else {
        return None;
    };
    let (count, unavailable) = text.split_once(" members are available")?;
    let (healthy, all) = count.split_once(" of ").unwrap_or((count, count));
    let (healthy, all): (usize, usize) = (healthy.parse().ok()?, all.parse().ok()?);
    if all == 0 || healthy > all || all > MOST_MEMBERS {
        return None;
    }
    let unstarted = unavailable.matches(" has not started").count().min(all - healthy);
    let parts = unavailable.split(", ");
    let unhealthy: Vec<&str> = parts.filter_map(|part| part.strip_suffix(" is unhealthy")).collect();
    let member = |number: usize| EtcdMember {
        name: if number < all - unstarted {
            let named = number.checked_sub(healthy).and_then(|at| unhealthy.get(at));
            named.map_or_else(|| format!("member {number}"), |name| (*name).to_owned())
        } else {
            String::new()
        },
        is_learner: false,
        is_healthy: number < healthy,
    };
    Some((0..all).map(member).collect())
}

/// The addresses of the members that vote, from the ConfigMap `etcd-endpoints`. The operator lists
/// a learner only after its promotion, and never the bootstrap host.
///
/// Source: cluster-etcd-operator, `pkg/operator/etcdendpointscontroller`.
pub fn voters(endpoints: &ConfigMap) -> BTreeSet<IpAddr> {
    let addresses = endpoints.data.values().filter_map(|address| address.parse().ok());
    addresses.collect()
}

/// More members than any etcd cluster has. A report of more does not parse.
const MOST_MEMBERS: usize = 64;

/// What the operator reports, if it is anything but that all members are available.
fn complaint(operator: &ClusterOperator) -> Option<String> {
    let message = |message: Option<&String>, otherwise: &str| {
        let text = message.filter(|text| !text.is_empty());
        Some(text.map_or_else(|| otherwise.to_owned(), Clone::clone))
    };
    if let Some(degraded) = operator.condition("Degraded") {
        match degraded.status.as_str() {
            "False" => {}
            "True" => return message(degraded.message.as_ref(), "it is degraded"),
            _ => return message(degraded.message.as_ref(), "it does not know whether it is degraded"),
        }
        // A condition of the operator is bad for two minutes before `Degraded` becomes True. Its
        // message is shown from the beginning.
        let reported = lines(degraded.message.as_deref()).find(|(type_, text)| match *type_ {
            MEMBERS_DEGRADED => *text != NO_MEMBER_DEGRADED,
            type_ => type_ == MEMBERS_UNKNOWN,
        });
        if let Some((type_, text)) = reported {
            return Some(format!("{type_}: {text}"));
        }
    }
    let Some(available) = operator.condition("Available") else {
        return message(None, "it does not report whether etcd is available");
    };
    if available.status != "True" {
        return message(available.message.as_ref(), "it is not available");
    }
    let mut reports = lines(available.message.as_deref()).filter(|(type_, _)| *type_ == MEMBERS_AVAILABLE);
    match (reports.next(), reports.next()) {
        (Some((_, text)), None) if all_members_available(text) => None,
        (Some((type_, text)), _) => Some(format!("{type_}: {text}")),
        (None, _) => message(available.message.as_ref(), "it does not report its members"),
    }
}

/// The lines of a joined message, as the type of the operator's condition and its text.
fn lines(message: Option<&str>) -> impl Iterator<Item = (&str, &str)> {
    let lines = message.unwrap_or_default().lines();
    lines.filter_map(|line| line.split_once(": "))
}

/// Whether the message of the condition [`MEMBERS_AVAILABLE`] says that all members are available.
///
/// The operator writes `3 members are available` if all members are healthy. Otherwise it writes
/// `2 of 4 members are available, a has not started, b is unhealthy`. It counts learners as
/// members. A list of no members is not healthy.
fn all_members_available(text: &str) -> bool {
    let count = text.strip_suffix(" members are available");
    let number = |count: &str| !count.is_empty() && count.bytes().all(|byte| byte.is_ascii_digit());
    count.is_some_and(|count| number(count) && count.parse().is_ok_and(|count: u32| count > 0))
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn read(available: &Value, degraded: &Value) -> Etcd {
        let condition = |type_: &str, fields: &Value| {
            let mut condition = json!({"type": type_, "lastTransitionTime": "2026-01-01T12:00:00Z"});
            json_patch::merge(&mut condition, fields);
            condition
        };
        let conditions = [condition("Available", available), condition("Degraded", degraded)];
        let operator = json!({"metadata": {"name": "etcd"}, "status": {"conditions": conditions}});
        Etcd::of(Some(&serde_json::from_value(operator).unwrap()))
    }

    /// The state while `Available` is True with this message, and `Degraded` is False.
    fn available(message: &str) -> Etcd {
        let members =
            "NodeControllerDegraded: All master nodes are ready\nEtcdMembersDegraded: No unhealthy members found";
        read(
            &json!({"status": "True", "reason": "AsExpected", "message": message}),
            &json!({"status": "False", "reason": "AsExpected", "message": members}),
        )
    }

    #[test]
    fn s8_only_a_report_that_all_members_are_available_is_healthy() {
        for healthy in [
            "EtcdMembersAvailable: 3 members are available",
            "EtcdMembersAvailable: 4 members are available",
            "StaticPodsAvailable: 3 nodes are active; 3 nodes are at revision 7\nEtcdMembersAvailable: 3 members are \
             available",
            "EtcdMembersAvailable: 5 members are available\nStaticPodsAvailable: 5 nodes are active; 3 nodes are at \
             revision 6; 2 nodes are at revision 7",
        ] {
            assert_eq!(available(healthy), Etcd::Healthy, "{healthy}");
        }
        for unhealthy in [
            "EtcdMembersAvailable: 3 of 4 members are available, ip-10-0-3-7 has not started",
            "EtcdMembersAvailable: 2 of 3 members are available, master-2 is unhealthy",
            "EtcdMembersAvailable: 2 of 4 members are available, master-2 is unhealthy, NAME-PENDING-10.0.0.9 has not \
             started",
            "EtcdMembersAvailable: 2 of 3 members are available",
            "EtcdMembersAvailable: 0 members are available",
            "EtcdMembersAvailable: master-0 is unhealthy, master-1 is unhealthy",
            "EtcdMembersAvailable: 3 members are available, master-2 has not started",
            "EtcdMembersAvailable: all members are available",
            "EtcdMembersAvailable: +3 members are available",
            "EtcdMembersAvailable: 3 members are available\nEtcdMembersAvailable: 2 of 3 members are available",
            "EtcdMembersAvailable: ",
        ] {
            let Etcd::Unhealthy { message } = available(unhealthy) else {
                panic!("{unhealthy}");
            };
            assert!(unhealthy.starts_with(&message), "{unhealthy}: {message}");
        }
    }

    #[test]
    fn s8_a_report_without_a_count_of_members_is_not_healthy() {
        for message in [
            "",
            "All is well",
            "3 members are available",
            "StaticPodsAvailable: 3 nodes are active; 3 nodes are at revision 7",
        ] {
            assert!(matches!(available(message), Etcd::Unhealthy { .. }), "{message}");
        }
        let nothing = read(&json!({"status": "True"}), &json!({"status": "False"}));
        let expected = "it does not report its members".to_owned();
        assert_eq!(nothing, Etcd::Unhealthy { message: expected });
    }

    /// The operator changes the status of its condition `Degraded` only after two minutes.
    #[test]
    fn s8_a_member_is_unhealthy_before_the_operator_is_degraded() {
        let healthy = json!({"status": "True", "message": "EtcdMembersAvailable: 3 members are available"});
        for (status, message) in [
            (
                "False",
                "EtcdMembersDegraded: 2 of 3 members are available, master-2 is unhealthy",
            ),
            (
                "False",
                "EtcdMembersControllerDegraded: getting cache client: context deadline exceeded",
            ),
            ("True", "EtcdMembersDegraded: No unhealthy members found"),
            ("Unknown", ""),
        ] {
            let degraded = json!({"status": status, "message": message});
            assert!(
                matches!(read(&healthy, &degraded), Etcd::Unhealthy { .. }),
                "{degraded}"
            );
        }
        let other = json!({"status": "False", "message": "NodeControllerDegraded: All master nodes are ready"});
        assert_eq!(read(&healthy, &other), Etcd::Healthy);
        assert_eq!(read(&healthy, &json!({"status": "False"})), Etcd::Healthy);
    }

    #[test]
    fn the_members_of_a_report_are_counted_by_their_health() {
        let members = |message: &str| {
            let operator = json!({"metadata": {"name": "etcd"}, "status": {"conditions": [
                {"type": "Available", "status": "True", "message": format!("EtcdMembersAvailable: {message}")}]}});
            let members = members(&serde_json::from_value(operator).unwrap())?;
            let healthy = members.iter().filter(|member| member.is_healthy).count();
            let unstarted = members.iter().filter(|member| member.name.is_empty()).count();
            Some((members.len(), healthy, unstarted))
        };
        assert_eq!(members("3 members are available"), Some((3, 3, 0)));
        assert_eq!(members("2 of 3 members are available, a is unhealthy"), Some((3, 2, 0)));
        let report = "2 of 4 members are available, a has not started, b is unhealthy";
        assert_eq!(members(report), Some((4, 2, 1)));
        for unreadable in [
            "0 members are available",
            "5 of 3 members are available",
            "all is well",
            "9999999 members are available",
        ] {
            assert_eq!(members(unreadable), None, "{unreadable}");
        }
    }

    #[test]
    fn a_cluster_without_the_operator_has_no_gate() {
        assert_eq!(Etcd::of(None), Etcd::NotReported);
    }
}
