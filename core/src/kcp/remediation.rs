//! Whether an unhealthy machine is replaced now: the retry limits, and the safety of etcd and of
//! the API.
//!
//! A health check requests the replacement. This module must never replace a machine if the others
//! could not serve the API without it, or if etcd would lose its quorum. With external etcd, only
//! the components of Kubernetes decide.

use std::cmp::Reverse;

use jiff::{SignedDuration, Timestamp};

use super::action::RemediationRecord;
use super::membership;
use super::safety;
use super::state::{MachineState, State, condition, possible_members};
use crate::api::cluster_x_k8s_io::annotation::REMEDIATE_MACHINE;
use crate::api::controlplane_cluster_x_k8s_io::annotation::{
    PRE_TERMINATE_HOOK, REMEDIATION_FOR, REMEDIATION_IN_PROGRESS,
};
use crate::model::MembershipChange;

/// After so many healthy seconds, a failure is not a retry.
const MIN_HEALTHY_SECONDS: i32 = 3600;

/// The decision about the machine whose replacement was begun, or else about the most broken one.
#[derive(Clone, Debug)]
pub(super) enum Decision<'a> {
    /// No machine has to be replaced.
    Nothing,
    /// The machine is being deleted, or the replacement of another machine does not exist yet.
    InProgress,
    /// The machine is replaced later.
    Deferred(Refusal<'a>),
    /// The machine cannot be replaced until a user acts.
    Impossible(Refusal<'a>),
    /// The machine is deleted now, and the control plane gets this record.
    Delete(&'a MachineState, RemediationRecord),
}

/// Why a machine is not replaced now.
#[derive(Clone, Debug)]
pub(super) struct Refusal<'a> {
    pub(super) machine: &'a MachineState,
    pub(super) message: String,
    /// When the machine may be replaced, if time alone decides.
    pub(super) until: Option<Timestamp>,
}

/// Whether the record of a remediation is out of date: its replacement exists, none is needed any
/// more, or its machine became healthy. No times are compared: they come from different clocks
/// (V133).
pub(super) fn is_stale(state: &State, record: &RemediationRecord) -> bool {
    let replaces = |machine: &MachineState| {
        let text = machine.machine.metadata.annotations.get(REMEDIATION_FOR);
        let known = text.and_then(|text| RemediationRecord::parse(text).ok());
        known.is_some_and(|known| known.machine == record.machine)
    };
    if state.machines.iter().any(replaces) {
        return true;
    }
    match state.machine(&record.machine) {
        Some(own) => !own.is_deleting() && !own.needs_remediation(),
        None => is_complete(state),
    }
}

/// Whether no machine is missing, neither for the wanted number nor for the surge of a rollout.
fn is_complete(state: &State) -> bool {
    let surge = if state.outdated().is_empty() {
        0
    } else {
        state.max_surge()
    };
    let wanted = state.replicas().map(|replicas| replicas + surge);
    wanted.is_some_and(|wanted| state.machines.len() >= wanted)
}

/// The record of the remediation whose replacement does not exist yet, as it is stored. An
/// annotation that cannot be read counts, so that nothing else is replaced until a user corrects
/// it.
pub(super) fn record_in_progress(state: &State) -> Option<&str> {
    let is_stale = |text: &&str| RemediationRecord::parse(text).is_ok_and(|record| is_stale(state, &record));
    state.annotation(REMEDIATION_IN_PROGRESS).filter(|text| !is_stale(text))
}

/// Decides about the machine whose replacement was begun, or else about the most broken one.
/// `repairs`: machines are being deleted, and wait only for this repair, so that they do not
/// prevent it.
pub(super) fn decide(state: &State, now: Timestamp, repairs: bool) -> Decision<'_> {
    let Some(machine) = most_broken(state, repairs) else {
        return Decision::Nothing;
    };
    if machine.is_deleting() {
        return Decision::InProgress;
    }
    let rests = repairs || state.deleting().next().is_none();
    match record_in_progress(state).map(RemediationRecord::parse) {
        None => {}
        Some(Ok(record)) if may_be_superseded(state, &record, repairs) => {}
        Some(Ok(record)) if rests => match state.machine(&record.machine) {
            // The deletion did not take effect after the record was written, so no replacement is
            // due, and the record must not wait for one (V240).
            Some(own) if !own.is_deleting() => match refusal(state, own, rests) {
                None => return Decision::Delete(own, record),
                Some(decision) if own.name() == machine.name() => return decision,
                Some(_) => {}
            },
            _ => return Decision::InProgress,
        },
        Some(Ok(_)) => return Decision::InProgress,
        Some(Err(error)) => {
            let message = format!(
                "annotation {REMEDIATION_IN_PROGRESS} of the control plane cannot be read ({error}); correct or remove \
                 it"
            );
            return impossible(machine, message);
        }
    }
    if let Some(version) = state.pending_version() {
        let message = format!("the Cluster is upgraded to {version}, which the control plane does not have yet");
        return deferred(machine, message, None);
    }
    let record = match retry(state, machine, now) {
        Ok(record) => record,
        Err(decision) => return *decision,
    };
    match refusal(state, machine, rests) {
        Some(decision) => decision,
        None => Decision::Delete(machine, record),
    }
}

/// Whether the record of a remediation does not prevent a repair that the control plane needs
/// before the replacement can be created: the machine of the record waits for the repair, or is
/// gone and was one of the surge, or the deletion of another machine waits for the repair, and the
/// replacement for that deletion (V265).
fn may_be_superseded(state: &State, record: &RemediationRecord, repairs: bool) -> bool {
    let mut replicas = state.replicas().into_iter();
    match state.machine(&record.machine) {
        Some(own) => repairs && own.is_deleting(),
        None => repairs || replicas.any(|replicas| state.machines.len() >= replicas) || no_member_can_join(state),
    }
}

/// Whether no member can join etcd before a machine is replaced: members do not work, so that etcd
/// would have no quorum with another one (V176), or a learner is that of a machine which fails to
/// join (V241).
fn no_member_can_join(state: &State) -> bool {
    let Some(members) = state.members().filter(|members| !members.is_empty()) else {
        return false;
    };
    let lost = safety::lost_quorum(&members, MembershipChange::Add);
    lost.is_some_and(|lost| lost.learners == 0 || membership::awaits_repair(state, &members))
}

fn deferred(machine: &MachineState, message: String, until: Option<Timestamp>) -> Decision<'_> {
    Decision::Deferred(Refusal {
        machine,
        message,
        until,
    })
}

fn impossible(machine: &MachineState, message: String) -> Decision<'_> {
    Decision::Impossible(Refusal {
        machine,
        message,
        until: None,
    })
}

/// The machine that is replaced first: the one that works least, so that the others can accept its
/// replacement. `repairs`: the machines that are being deleted wait for it.
fn most_broken(state: &State, repairs: bool) -> Option<&MachineState> {
    let mut order = Vec::new();
    if state.is_etcd_managed() {
        order.extend([condition::ETCD_MEMBER, condition::ETCD_POD]);
    }
    order.extend([
        condition::API_SERVER,
        condition::CONTROLLER_MANAGER,
        condition::SCHEDULER,
        condition::LABELS_AND_TAINTS,
    ]);
    let candidates = state.machines.iter().filter(|machine| machine.needs_remediation());
    let candidates = candidates.filter(|machine| !(repairs && machine.is_deleting()));
    candidates.min_by_key(|machine| {
        let broken: Vec<Reverse<bool>> = order.iter().map(|type_| Reverse(!machine.is_true(type_))).collect();
        (
            Reverse(machine.has(REMEDIATE_MACHINE)),
            Reverse(machine.node().is_none()),
            broken,
            machine.age(),
        )
    })
}

/// The record of this remediation, or why the retry limits do not allow it.
fn retry<'a>(state: &State, machine: &'a MachineState, now: Timestamp) -> Result<RemediationRecord, Box<Decision<'a>>> {
    let mut record = RemediationRecord {
        machine: machine.name().to_owned(),
        timestamp: Some(now),
        retry_count: 0,
    };
    let Some(text) = machine.machine.metadata.annotations.get(REMEDIATION_FOR) else {
        return Ok(record);
    };
    let last = RemediationRecord::parse(text).map_err(|error| {
        let message = format!("annotation {REMEDIATION_FOR} cannot be read ({error}); correct or remove it");
        Box::new(impossible(machine, message))
    })?;
    // A record without a time is from long ago.
    let Some(last_time) = last.timestamp else {
        return Ok(record);
    };
    // The clock that wrote a time in the future is ahead. The replacement was created soon after
    // that, by the clock of the API server (V258).
    let created = machine.machine.metadata.creation_timestamp;
    let last_time = created.filter(|_| last_time > now).unwrap_or(last_time);
    let limits = &state.control_plane.spec.remediation;
    let after = |seconds: i32| {
        let period = SignedDuration::from_secs(i64::from(seconds));
        last_time.checked_add(period).unwrap_or(Timestamp::MAX)
    };
    if after(limits.min_healthy_period_seconds.unwrap_or(MIN_HEALTHY_SECONDS)) <= now {
        return Ok(record);
    }
    let next = after(limits.retry_period_seconds.unwrap_or(0));
    if next > now {
        let message = format!(
            "the replacement of {} became unhealthy; spec.remediation.retryPeriodSeconds allows the next try at {next}",
            last.machine
        );
        return Err(Box::new(deferred(machine, message, Some(next))));
    }
    if let Some(most) = limits.max_retry.filter(|most| last.retry_count >= i64::from(*most)) {
        let retries = last.retry_count;
        let message = format!("the remediation was retried {retries} time(s), and spec.remediation.maxRetry is {most}");
        return Err(Box::new(impossible(machine, message)));
    }
    record.retry_count = last.retry_count.saturating_add(1);
    Ok(record)
}

/// Why the machine cannot be deleted now. Before the control plane is initialized, there is no data
/// to lose. `rests`: no other deletion is in progress.
fn refusal<'a>(state: &State, machine: &'a MachineState, rests: bool) -> Option<Decision<'a>> {
    if !state.has_data() {
        return None;
    }
    if state.machines.len() <= 1 {
        // Without the hook, the machine would be gone before another one has joined.
        let way = match machine.has(PRE_TERMINATE_HOOK) {
            true => {
                "While etcd works, delete it with the annotation capstan.dev/allow-quorum-loss: it keeps its hook until \
                 a new machine has joined. "
            }
            false => "",
        };
        let message = format!(
            "the only machine of a control plane cannot be replaced without another one. {way}{}",
            state.giving_up()
        );
        return Some(impossible(machine, message));
    }
    // Etcd admits no new member beside a voting one that does not answer, so a machine without a
    // Node would never join (V223).
    let prevents_joins =
        state.is_etcd_managed() && machine.member.is_some() && machine.is_false(condition::ETCD_MEMBER);
    let mut others = state.machines.iter().filter(|_| !prevents_joins);
    let joins = |other: &&MachineState| !other.is_unhealthy() && !other.is_deleting() && other.node().is_none();
    if let Some(other) = others.find(joins) {
        let message = format!("machine {} has no Node yet", other.name());
        return Some(deferred(machine, message, None));
    }
    if let Some(other) = state.deleting().next().filter(|_| !rests) {
        let message = format!("machine {} is being deleted", other.name());
        return Some(deferred(machine, message, None));
    }
    let members = state.members().unwrap_or_default();
    if state.is_etcd_managed() && members.is_empty() {
        let message = String::from("the etcd members are unknown");
        return Some(deferred(machine, message, None));
    }
    if !safety::serves_after(state, machine) {
        let message = String::from("no other machine has healthy components");
        return Some(impossible(machine, message));
    }
    // The hook on the machine checks the quorum again.
    possible_members(machine, state).into_iter().find_map(|member| {
        let lost = safety::lost_quorum(&members, MembershipChange::Remove(member))?;
        let what = format!("the removal of etcd member {member}");
        Some(impossible(machine, safety::why(lost, &what)))
    })
}

#[cfg(test)]
mod tests;
