//! A scale-in is refused if etcd would lose its quorum as things are.
//!
//! The members that leave are taken to be healthy ones, which is the worst case: an unhealthy
//! member stays. A member whose health is unknown is not healthy.

use serde_json::Value;

use crate::api::config_openshift_io::cluster_operator::ETCD;
use crate::api::machine_openshift_io::control_plane::KIND;
use crate::cpms::etcd::members;
use crate::cpms::rules::Lookup;
use crate::model::{
    EtcdMember, MembershipChange, Operation, RuleInfo, Verdict, Violation, ViolationKind, quorum_after,
};

const RULE: &str = "cp-scale-in-quorum";
const PATH: &str = "spec.replicas";

/// Judges a change of the number of machines.
pub(super) fn judge(before: i64, after: i64, lookup: &Lookup<'_>, verdict: &mut Verdict) {
    if after >= before || !verdict.allowed() {
        return;
    }
    let Some(operators) = lookup.cluster_operators else {
        let why = "a scale-in must not cost etcd its quorum";
        return lookup.unknown(verdict, RULE, PATH, "the ClusterOperator etcd", why);
    };
    let refused = |allowed: String| {
        let violation = Violation::new(RULE, PATH, ViolationKind::Forbidden, allowed);
        violation
            .got(&Value::from(after))
            .advice("repair the etcd members first, or keep the number of machines")
    };
    let Some(mut left) = operators.get(ETCD).and_then(|operator| members(operator)) else {
        let allowed = "must not be lowered while the etcd operator does not report the health of its members";
        return verdict.deny(refused(allowed.to_owned()));
    };
    let wanted = usize::try_from(after).unwrap_or_default();
    while left.len() > wanted {
        let Some(name) = healthy(&left) else {
            return verdict.deny(refused(String::from(
                "must not be lowered while no etcd member is healthy",
            )));
        };
        let quorum = quorum_after(&left, MembershipChange::Remove(&name));
        if !quorum.is_safe() {
            let allowed = format!(
                "must stay {before}: with {} etcd members, {} would be healthy of {} that are needed",
                quorum.voting,
                quorum.voting.saturating_sub(quorum.unhealthy),
                quorum.needed()
            );
            return verdict.deny(refused(allowed));
        }
        left.retain(|member| member.name != name);
    }
}

/// The name of a healthy member.
fn healthy(members: &[EtcdMember]) -> Option<String> {
    let found = members
        .iter()
        .find(|member| member.is_healthy && !member.name.is_empty());
    found.map(|member| member.name.clone())
}

pub(super) fn table() -> Vec<RuleInfo> {
    let message = "a scale-in keeps the quorum of etcd as its members are now";
    vec![RuleInfo::webhook(RULE, KIND, PATH, &[Operation::Update], message)]
}
