//! The replacement of outdated machines.
//!
//! A deletion leaves at least `replicas - maxUnavailable` machines available. While the pool has
//! more instances than replicas, the provider deletes outdated ones itself, so that no deletion is
//! added. If new machines are outdated too, the rollout stops; see `progress`.

use super::action::{Plan, Wait, WaitReason, about, delete};
use super::order::in_deletion_order;
use super::progress;
use super::state::{Member, State};
use super::strategy::{Rollout, strategy};

/// The outdated machines in the order in which they are replaced.
pub(super) fn outdated(state: &State) -> Vec<&Member> {
    in_deletion_order(state.staying().filter(|member| member.outdated.is_some()))
}

/// The outdated machines that are deleted one after the other, for a report. The provider deletes
/// those of a surplus, and without a rolling strategy nothing deletes any.
pub(super) fn planned(state: &State) -> Vec<&Member> {
    let strategy = strategy(&state.pool.metadata.annotations, state.replicas());
    let Ok(Rollout::Rolling { max_unavailable, .. }) = strategy.map(|strategy| strategy.rollout) else {
        return Vec::new();
    };
    if state.is_paused() || state.pool.metadata.is_deleting() || state.machine_kind().is_none() {
        return Vec::new();
    }
    let surplus = match state.is_scaled_outside() {
        true => 0,
        false => state.staying().count().saturating_sub(state.replicas()),
    };
    let ordered = in_deletion_order(state.staying()).into_iter().skip(surplus);
    // Without unavailable machines, the provider replaces the available ones.
    let is_deleted = |member: &&Member| member.outdated.is_some() && (max_unavailable > 0 || !member.is_available);
    ordered.filter(is_deleted).collect()
}

/// Adds the deletion of an outdated machine, or what it waits for.
pub(super) fn decide(state: &State, rollout: Rollout, plan: &mut Plan) {
    let is_rolling = matches!(rollout, Rollout::Rolling { .. });
    if is_rolling && !progress::may_continue(state, plan) {
        return;
    }
    let outdated = outdated(state);
    let Some(first) = outdated.first().copied() else {
        return;
    };
    let count = outdated.len();
    let (max_unavailable, max_surge) = match rollout {
        Rollout::Provider => {
            let note = format!("{count} machine(s) are outdated; the provider replaces them in its own way");
            return plan.notes.push(note);
        }
        Rollout::OnDelete => {
            let message = format!("{count} machine(s) are outdated, and are replaced after a user deletes them");
            return plan.waits.push(Wait::new(WaitReason::OnDelete, message));
        }
        Rollout::Rolling {
            max_unavailable,
            max_surge,
        } => (max_unavailable, max_surge),
    };
    let (replicas, staying) = (state.replicas(), state.staying().count());
    if staying > replicas {
        // The wait for the provider is in the plan.
        return;
    }
    let available = state.staying().filter(|member| member.is_available).count();
    let unavailable = replicas.saturating_sub(available);
    // Unavailable machines go first: their deletion costs no availability.
    let Some(next) = outdated
        .iter()
        .copied()
        .find(|member| !member.is_available)
        .or(Some(first))
    else {
        return;
    };
    if let Some(until) = next.taken_up_until {
        let message = format!(
            "Machine {} is new, and the core manager must take it up before it is replaced",
            next.name
        );
        return plan.waits.push(Wait {
            until: Some(until),
            ..about(state, next, WaitReason::MachineReady, message)
        });
    }
    let limit = if next.is_available {
        // The deletion makes one more machine unavailable.
        unavailable < max_unavailable
    } else {
        // One replacement at a time is under way, or as many as may be unavailable.
        replicas.saturating_sub(staying) < max_unavailable.max(1)
    };
    if limit {
        let because = next.outdated.clone().unwrap_or_default();
        plan.steps.extend(delete(state, next, because));
        return;
    }
    let what = match (max_unavailable, max_surge) {
        (0, None) => String::from("and maxUnavailable is 0: the provider must create an instance first"),
        (0, Some(0)) => {
            String::from("and maxUnavailable and maxSurge are 0, so that nothing replaces it: increase one")
        }
        (0, Some(surge)) => {
            format!("and maxUnavailable is 0: the provider must create up to {surge} additional instance(s) first")
        }
        _ => format!(
            "and is not deleted yet: {unavailable} of {replicas} machine(s) are unavailable, and at most \
             {max_unavailable} may be"
        ),
    };
    let message = format!("Machine {} is outdated, {what}", next.name);
    plan.waits.push(about(state, next, WaitReason::MaxUnavailable, message));
}
