//! Creations and deletions: to the number of replicas, and to replace outdated machines.

use super::{Plan, Step, WaitReason};
use crate::api::controlplane_cluster_x_k8s_io::annotation::PRE_TERMINATE_HOOK;
use crate::kcp::action::{Action, about, machine_ref};
use crate::kcp::create::create;
use crate::kcp::desired::Bootstrap;
use crate::kcp::domains;
use crate::kcp::membership::{leaders_after, precondition};
use crate::kcp::preflight::{self, Change};
use crate::kcp::selection;
use crate::kcp::state::{MachineState, State};
use crate::kcp::version::Version;
use crate::model::{Degradation, PAUSED_ROLLOUT, pauses_rollout};

/// The fewest machines of a rollout that deletes before it creates.
const FEWEST_WITHOUT_SURGE: usize = 3;

/// Adds the next creation or deletion to the plan, or what it waits for.
pub(super) fn decide(state: &State, plan: &mut Plan) {
    let Some(replicas) = state.replicas() else {
        plan.notes
            .push(String::from("spec.replicas is not set to a number of machines"));
        return;
    };
    let (count, outdated) = (state.machines.len(), state.outdated());
    if state.all_leave() {
        // A machine that stays must take over the data of etcd (V172).
        return add(state, plan, String::from("all machines are being deleted"));
    }
    let is_paused = pauses_rollout(&state.control_plane.metadata.annotations);
    if is_paused {
        for machine in &outdated {
            let message = format!(
                "machine {} is outdated, and annotation {PAUSED_ROLLOUT} pauses the rollout",
                machine.name()
            );
            plan.waits.push(about(state, machine, WaitReason::Pause, message));
        }
    }
    // Each replacement would differ from the revision, as the machines that exist do.
    let deviates = state.machines.iter().any(|machine| !machine.deviations.is_empty());
    if outdated.is_empty() || is_paused || deviates {
        // A replacement that was created before the pause stays beside its outdated machine.
        let has_replacement = state.machines.iter().any(MachineState::is_current);
        let surge = if outdated.is_empty() || !has_replacement {
            0
        } else {
            state.max_surge()
        };
        if count < replicas {
            add(state, plan, format!("{count} of {replicas} machines exist"));
        } else if count > replicas + surge {
            remove(state, plan);
        }
        return;
    }
    if state.max_surge() == 0 && replicas < FEWEST_WITHOUT_SURGE {
        plan.degraded.push(Degradation {
            reason: "InvalidMaxSurge",
            message: format!(
                "spec.rollout.strategy.rollingUpdate.maxSurge must be 1 with {replicas} replicas: a rollout would \
                 delete a machine that the control plane needs"
            ),
        });
        return;
    }
    let most = replicas + state.max_surge();
    if count < most {
        let names: Vec<&str> = outdated.iter().map(|machine| machine.name()).collect();
        let reason = outdated.first().and_then(|machine| machine.differences.first());
        let reason = reason.map_or("", |difference| difference.reason.as_str());
        add(state, plan, format!("{} must be replaced: {reason}", names.join(", ")));
    } else {
        remove(state, plan);
    }
}

/// Machines with a higher version than the spec: the webhook refuses a downgrade, and can be down
/// (V307).
pub(super) fn version_lowered(state: &State) -> Option<Degradation> {
    let version = &state.control_plane.spec.version;
    let wanted = Version::tolerant(version)?;
    let is_newer =
        |machine: &&MachineState| Version::tolerant(&machine.machine.spec.version).is_some_and(|of| wanted < of);
    let newer: Vec<&str> = state.machines.iter().filter(is_newer).map(MachineState::name).collect();
    (!newer.is_empty()).then(|| Degradation {
        reason: "VersionLowered",
        message: format!(
            "spec.version {version} is lower than the version of {}: Kubernetes and etcd do not support a downgrade, so \
             no machine is created or deleted. Set spec.version to the highest version of the machines",
            newer.join(", ")
        ),
    })
}

fn add(state: &State, plan: &mut Plan, because: String) {
    let waits = preflight::waits(state, Change::Create);
    if !waits.is_empty() {
        return plan.waits.extend(waits);
    }
    let bootstrap = if state.machines.is_empty() {
        Bootstrap::Init
    } else {
        Bootstrap::Join
    };
    let machines: Vec<&MachineState> = state.machines.iter().collect();
    let domain = domains::for_new_machine(&state.failure_domains, &machines);
    match create(state, domain, bootstrap, because) {
        Ok(step) => plan.steps.push(step),
        Err(problem) => plan.degraded.push(Degradation {
            reason: "InvalidMachineNaming",
            message: format!("spec.machineNaming.template {problem}"),
        }),
    }
}

fn remove(state: &State, plan: &mut Plan) {
    let Some((machine, why)) = selection::to_delete(state) else {
        return;
    };
    let waits = preflight::waits(state, Change::Delete(machine));
    if !waits.is_empty() {
        return plan.waits.extend(waits);
    }
    let because = match machine.differences.first() {
        Some(difference) => format!("{why}: {}", difference.reason),
        None => why.to_owned(),
    };
    plan.steps.push(delete(state, machine, because));
}

/// The deletion of a machine of a control plane that stays.
///
/// The hook delays the end of the machine until its etcd member is removed. Another webhook or
/// policy may remove the hook. Then the member is removed before the machine is deleted, because a
/// member that stays votes and does not answer any more.
pub(super) fn delete(state: &State, machine: &MachineState, because: String) -> Step {
    let leaves_first = state.is_etcd_managed() && !machine.has(PRE_TERMINATE_HOOK);
    // If the deletion was refused after the removal, the member is gone already.
    let is_listed = |name: &String| {
        let reported = state.reported.as_ref();
        reported.is_none_or(|reported| reported.members.iter().any(|member| member.name == *name))
    };
    let member = machine.member.clone().filter(|name| leaves_first && is_listed(name));
    deletion(state, machine, because, member, leaders_after(state, machine))
}

/// The deletion of a machine together with its control plane. etcd is not changed any more: its
/// last members could not answer (V119).
pub(super) fn delete_with_control_plane(state: &State, machine: &MachineState, because: String) -> Step {
    deletion(state, machine, because, None, Vec::new())
}

fn deletion(
    state: &State,
    machine: &MachineState,
    because: String,
    member: Option<String>,
    move_leader_to: Vec<String>,
) -> Step {
    Step {
        action: Action::Delete {
            failure_domain: machine.failure_domain().to_owned(),
            member,
            move_leader_to,
        },
        subject: machine_ref(state.namespace(), machine.name()),
        index: None,
        because,
        precondition: Some(precondition(machine)),
    }
}
