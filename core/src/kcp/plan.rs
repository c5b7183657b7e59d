//! The next step for a KubeadmControlPlane.
//!
//! A plan has at most one step that creates or deletes a machine or changes the etcd membership. It
//! never deletes a machine while another one is missing or does not work, except to replace an
//! unhealthy machine that the others do not need. Source: the KubeadmControlPlane proposal.

mod cluster_deletion;
mod scale;

use std::sync::Arc;

use jiff::Timestamp;
use serde_json::{Value, json};

pub use super::action::{Action, Plan, Step, Wait, WaitReason};
use super::action::{RemediationRecord, about, control_plane_ref, machine_ref, precondition};
use super::adoption;
use super::create::owner;
use super::membership;
use super::remediation::{self, Decision};
use super::state::{MachineState, State, condition, members_without_machine};
use crate::api::cluster_x_k8s_io::control_plane::Machine;
use crate::api::cluster_x_k8s_io::label;
use crate::api::controlplane_cluster_x_k8s_io::FINALIZER;
use crate::api::controlplane_cluster_x_k8s_io::annotation::{PRE_TERMINATE_HOOK, REMEDIATION_IN_PROGRESS};
use crate::model::Degradation;

/// The next steps for this control plane.
pub fn plan(state: &State, now: Timestamp) -> Plan {
    let mut plan = Plan::default();
    if state.is_paused() {
        plan.notes
            .push(String::from("the control plane or its Cluster is paused"));
        return plan;
    }
    plan.steps.extend(cluster_deletion::releases(state));
    if state.is_deleting() {
        removal(state, &mut plan);
        return plan;
    }
    if !plan.steps.is_empty() {
        return plan;
    }
    plan.steps.extend(finalizer(state));
    if let Some(wait) = cluster_ready(state) {
        plan.waits.push(wait);
        return plan;
    }
    if !state.adoptable.is_empty() {
        if let Some(refusal) = adoption::refusal(state) {
            plan.degraded.push(refusal);
            return plan;
        }
        plan.steps
            .extend(state.adoptable.iter().map(|machine| adopt(state, machine)));
        return plan;
    }
    if !state.foreign.is_empty() {
        plan.degraded.push(foreign(state));
        return plan;
    }
    let stops = strayed(state).or_else(|| etcd_moved(state));
    if let Some(reason) = stops.or_else(|| machines_missing(state)) {
        plan.degraded.push(reason);
        return plan;
    }
    plan.steps.extend(stale_record(state));
    plan.degraded.extend(deviation(state));
    plan.degraded.extend(member_missing(state, now));
    decide(state, now, &mut plan);
    plan.degraded.extend(all_leave(state, &plan));
    plan.waits.sort_by(|left, right| {
        let key = |wait: &Wait| (wait.reason, wait.message.clone());
        key(left).cmp(&key(right))
    });
    plan.waits.dedup();
    let times = plan.waits.iter().filter_map(|wait| wait.until);
    plan.reconcile_at = times.filter(|until| *until > now).min();
    plan
}

/// Adds the one step that changes machines or etcd, or what the control plane waits for.
fn decide(state: &State, now: Timestamp, plan: &mut Plan) {
    match membership::surplus(state) {
        Some(Ok(step)) => return plan.steps.push(step),
        Some(Err(wait)) => plan.waits.push(wait),
        None => {}
    }
    match membership::hook(state, now) {
        Some(Ok(step)) => return plan.steps.push(step),
        Some(Err(wait)) => plan.waits.push(wait),
        None => {}
    }
    if let Some(reason) = scale::version_lowered(state) {
        return plan.degraded.push(reason);
    }
    match remediation::decide(state, now, membership::needs_repair(state, now)) {
        Decision::Nothing => {}
        Decision::InProgress => {
            let machine_is_gone = state.deleting().next().is_none();
            if machine_is_gone {
                let message = String::from("the replacement of a remediated machine must be created");
                plan.waits.push(Wait::new(WaitReason::Replacement, message));
            }
        }
        Decision::Deferred(refusal) => plan.waits.push(Wait {
            until: refusal.until,
            ..about(
                state,
                refusal.machine,
                WaitReason::RemediationDeferred,
                format!(
                    "machine {} is not replaced yet: {}",
                    refusal.machine.name(),
                    refusal.message
                ),
            )
        }),
        Decision::Impossible(refusal) => {
            if let Some(step) = membership::of_given_up_machine(state) {
                return plan.steps.push(step);
            }
            let (name, why) = (refusal.machine.name(), refusal.message);
            let message = format!("machine {name} cannot be replaced: {why}");
            plan.waits
                .push(about(state, refusal.machine, WaitReason::CannotBeRemediated, message));
        }
        Decision::Delete(machine, record) => {
            // The record is stored first. A crash after it repeats the deletion.
            plan.steps.extend(record_remediation(state, &record));
            let because = format!("a health check reports machine {} as unhealthy", machine.name());
            plan.steps.push(scale::delete(state, machine, because));
            return;
        }
    }
    scale::decide(state, plan);
}

/// The finalizer keeps the control plane until its machines are deleted.
fn finalizer(state: &State) -> Option<Step> {
    let metadata = &state.control_plane.metadata;
    if metadata.finalizers.iter().any(|finalizer| finalizer == FINALIZER) {
        return None;
    }
    let mut finalizers = metadata.finalizers.clone();
    finalizers.push(FINALIZER.to_owned());
    let because = "the finalizer keeps the control plane until its machines are deleted";
    Some(patch_control_plane(state, "finalizers", json!(finalizers), because))
}

/// What the Cluster lacks.
fn cluster_ready(state: &State) -> Option<Wait> {
    if let Some(other) = &state.referred {
        let message = format!(
            "Cluster {:?} has another control plane, {other}; correct its spec.controlPlaneRef, or the label of this \
             control plane",
            state.cluster_name
        );
        return Some(Wait::new(WaitReason::ClusterReady, message));
    }
    let missing = match state.cluster.as_deref() {
        None => "does not exist",
        Some(cluster) if cluster.status.initialization.infrastructure_provisioned != Some(true) => {
            "has no infrastructure yet"
        }
        Some(cluster)
            if cluster.spec.control_plane_endpoint.host.is_empty() || cluster.spec.control_plane_endpoint.port == 0 =>
        {
            "has no control plane endpoint yet"
        }
        Some(_) => return None,
    };
    let message = if state.cluster_name.is_empty() {
        format!(
            "the control plane has no owner of the kind Cluster, and no label {}",
            label::CLUSTER
        )
    } else {
        format!("Cluster {:?} {missing}", state.cluster_name)
    };
    Some(Wait::new(WaitReason::ClusterReady, message))
}

fn adopt(state: &State, machine: &Machine) -> Step {
    let mut owners = machine.metadata.owner_references.clone();
    owners.push(owner(state, Some(true)));
    let because = format!("control plane machine {} has no controller", machine.metadata.name());
    patch_machine(state, machine, "ownerReferences", json!(owners), because)
}

/// A change of one field of the metadata of a Machine.
fn patch_machine(state: &State, machine: &Machine, field: &str, value: Value, because: String) -> Step {
    let precondition = precondition(&machine.metadata);
    let mut metadata = precondition.metadata();
    metadata.insert(field.to_owned(), value);
    Step {
        action: Action::Patch(json!({ "metadata": metadata })),
        subject: machine_ref(state.namespace(), machine.metadata.name()),
        index: None,
        because,
        precondition: Some(precondition),
    }
}

/// The removal of the hook of a Machine that is deleted with everything else.
fn release(state: &State, machine: &Machine, because: &str) -> Step {
    let hook = json!({ PRE_TERMINATE_HOOK: Value::Null });
    patch_machine(state, machine, "annotations", hook, because.to_owned())
}

/// Without the machine, its etcd member would have none, and would be removed while it works.
fn strayed(state: &State) -> Option<Degradation> {
    (!state.strayed.is_empty()).then(|| Degradation {
        reason: "StrayedMachines",
        message: format!(
            "{} machine(s) have the control plane as their controller, but not the labels of a control plane machine of \
             its Cluster: {}; put the labels back. A single machine with the annotation {PRE_TERMINATE_HOOK} can \
             also be deleted",
            state.strayed.len(),
            state.strayed.join(", ")
        ),
    })
}

/// A new machine would use another etcd than the machines that exist, and a rollout would end with
/// the loss of the data. The webhook refuses such a change, and can be down.
fn etcd_moved(state: &State) -> Option<Degradation> {
    let machines = state.with_another_etcd();
    let (wanted, present) = match state.wants_external_etcd() {
        true => ("an external etcd", "run etcd themselves"),
        false => ("no external etcd", "use an external etcd"),
    };
    (!machines.is_empty()).then(|| Degradation {
        reason: "EtcdMoved",
        message: format!(
            "the spec names {wanted}, and machines {present}: {}. New machines would not have their data, so nothing \
             is changed. Restore spec.kubeadmConfigSpec.clusterConfiguration.etcd; to move the data, create another \
             cluster",
            machines.join(", ")
        ),
    })
}

/// Members of etcd work, and their machines are not known, for example after a restore. Every step
/// that counts machines would be wrong: a new first machine would start another etcd, and the last
/// known machine is not the last member.
fn machines_missing(state: &State) -> Option<Degradation> {
    let working = members_without_machine(state);
    if !working.is_empty() {
        return Some(Degradation {
            reason: "MachinesMissing",
            message: format!(
                "{} etcd member(s) work and have no machine of the control plane: {}; restore the Machines with \
                 their labels and their owner. Stop such an instance only while etcd keeps its quorum without it{}",
                working.len(),
                working.join(", "),
                other_provider_ids(state, &working)
            ),
        });
    }
    // While etcd responds, it tells which of them are members.
    let etcd_is_silent = state.is_etcd_managed() && state.members().is_none();
    if (state.machines.is_empty() || etcd_is_silent) && !state.orphans.is_empty() {
        return Some(Degradation {
            reason: "MachinesMissing",
            message: format!(
                "Machines of the Cluster have the hook of control plane machines, but no label {} and no owner that \
                 exists: {}, and may be members of etcd; restore the labels, and remove the owner references, and \
                 the machines are adopted. If none of them was a machine of this control plane, remove their annotation \
                 {PRE_TERMINATE_HOOK}",
                label::CONTROL_PLANE,
                names(&state.orphans).join(", ")
            ),
        });
    }
    if state.machines.is_empty() && !state.serving_nodes.is_empty() {
        let nodes: Vec<&str> = state.serving_nodes.iter().map(String::as_str).collect();
        return Some(Degradation {
            reason: "MachinesMissing",
            message: format!(
                "the control plane has no machine, and its Nodes are ready: {}; restore the Machines with their labels \
                 and their owner: a new first machine would start another etcd",
                nodes.join(", ")
            ),
        });
    }
    let members = state.members()?;
    let names: Vec<&str> = members.iter().map(|member| member.name.as_str()).collect();
    (state.machines.is_empty() && !names.is_empty()).then(|| Degradation {
        reason: "MachinesMissing",
        message: format!(
            "etcd has {} member(s) ({}), and the control plane has no machine; restore the Machines with their labels and \
             their owner: a new first machine would start another etcd",
            names.len(),
            names.join(", ")
        ),
    })
}

/// The provider IDs of machines without a Node, and of the Nodes of members without a machine. If
/// one of the IDs is wrong, no Machine is missing.
fn other_provider_ids(state: &State, members: &[&str]) -> String {
    let nodes = members
        .iter()
        .filter_map(|name| Some(format!("Node {name} has {}", state.provider_ids.get(*name)?)));
    let nodeless = state.machines.iter().filter(|machine| machine.member.is_none());
    let machines = nodeless.filter_map(|machine| {
        Some(format!(
            "machine {} has {}",
            machine.name(),
            machine.provider_id.as_ref()?
        ))
    });
    let (nodes, machines): (Vec<String>, Vec<String>) = (nodes.collect(), machines.collect());
    if nodes.is_empty() || machines.is_empty() {
        return String::new();
    }
    format!(
        ". The provider IDs differ: {}, {}; if these are one instance, delete the Node and restart its kubelet",
        nodes.join(", "),
        machines.join(", ")
    )
}

/// A machine of the current revision differs from it since its creation: a webhook changes what the
/// control plane creates. Each replacement would differ as well, so no machine is replaced.
fn deviation(state: &State) -> Option<Degradation> {
    let deviating = state.machines.iter().filter_map(|machine| {
        let difference = machine.deviations.first()?;
        Some(format!("{} ({})", machine.name(), difference.reason))
    });
    let deviating: Vec<String> = deviating.collect();
    (!deviating.is_empty()).then(|| Degradation {
        reason: "TemplateNotStored",
        message: format!(
            "machines of the current revision are not stored as the control plane creates them: {}. No outdated machine \
             is replaced. Give the spec the stored values, or correct the webhook that changes them",
            deviating.join(", ")
        ),
    })
}

/// A machine that should have joined long ago has no etcd member, so etcd tolerates fewer failures
/// than the number of machines says. Its member may have been removed before a deletion that the
/// API server then refused (V171).
fn member_missing(state: &State, now: Timestamp) -> Option<Degradation> {
    let members = state.members().filter(|members| !members.is_empty())?;
    let joins = members.iter().any(|member| member.name.is_empty() || member.is_learner);
    let is_old = |machine: &&MachineState| {
        let created = machine.machine.metadata.creation_timestamp;
        created.is_some_and(|created| now.duration_since(created) >= membership::JOINED)
    };
    let lacks = |machine: &&MachineState| {
        let node = machine.node();
        node.is_some_and(|node| members.iter().all(|member| member.name != node))
    };
    let staying = state.machines.iter().filter(|machine| !machine.is_deleting());
    let lacking: Vec<&str> = staying.filter(is_old).filter(lacks).map(MachineState::name).collect();
    let names: Vec<&str> = members.iter().map(|member| member.name.as_str()).collect();
    let fits = |machine: &MachineState| machine.node().is_some_and(|node| names.contains(&node));
    if !lacking.is_empty() && !state.machines.iter().any(fits) {
        return Some(Degradation {
            reason: "MemberMissing",
            message: format!(
                "no etcd member has the name of a Node: the members are {}, and the machines are {}. Give each member the \
                 name of its Node, or correct what lists the members",
                names.join(", "),
                lacking.join(", ")
            ),
        });
    }
    if joins || lacking.is_empty() {
        return None;
    }
    let lacking = lacking.join(", ");
    // The member of a machine may have another name than its Node, so its deletion is no remedy.
    let is_strange = |name: &&str| !state.has_machine_of(name) && !state.is_reported_to_fail(name);
    let strange: Vec<&str> = names.into_iter().filter(is_strange).collect();
    let message = if strange.is_empty() {
        format!("machines have a Node and no etcd member: {lacking}; delete them, and they are replaced")
    } else {
        format!(
            "machines have a Node and no etcd member of that name: {lacking}. The etcd members {} belong to no \
             machine. Find out whether they are those of the machines; do not delete the machines before",
            strange.join(", ")
        )
    };
    Some(Degradation {
        reason: "MemberMissing",
        message,
    })
}

/// All machines are being deleted, and none can take over before one of them is gone.
fn all_leave(state: &State, plan: &Plan) -> Option<Degradation> {
    let is_resolved = plan.steps.iter().any(Step::is_disruptive);
    let names: Vec<&str> = state.machines.iter().map(MachineState::name).collect();
    (state.all_leave() && !is_resolved).then(|| Degradation {
        reason: "AllMachinesDeleting",
        message: format!(
            "all machines are being deleted: {}. The last one keeps its hook, because the control plane would end with \
             it: a new machine must join first. If the cluster is not needed any more, delete the Cluster. {}",
            names.join(", "),
            state.giving_up()
        ),
    })
}

fn foreign(state: &State) -> Degradation {
    Degradation {
        reason: "MachinesAlreadyOwned",
        message: format!(
            "another controller manages control plane machines of the Cluster, or their spec.clusterName names another \
             Cluster: {}. If the controller does not exist any more, remove its owner reference from them, and the control \
             plane adopts them. Keep the labels of machines of this Cluster, and correct that of a machine of another Cluster",
            state.foreign.join(", ")
        ),
    }
}

/// Removes the record of a remediation that is complete.
fn stale_record(state: &State) -> Option<Step> {
    let record = RemediationRecord::parse(state.annotation(REMEDIATION_IN_PROGRESS)?).ok()?;
    remediation::is_stale(state, &record).then(|| {
        let annotations = json!({ REMEDIATION_IN_PROGRESS: Value::Null });
        let because = "the remediation is complete";
        patch_control_plane(state, "annotations", annotations, because)
    })
}

/// The record of a remediation, unless it is stored: its deletion may have to wait for a creation.
fn record_remediation(state: &State, record: &RemediationRecord) -> Option<Step> {
    let text = record.text();
    let is_stored = state.annotation(REMEDIATION_IN_PROGRESS) == Some(text.as_str());
    let annotations = json!({ REMEDIATION_IN_PROGRESS: text });
    let because = format!("machine {} is replaced", record.machine);
    (!is_stored).then(|| patch_control_plane(state, "annotations", annotations, &because))
}

fn patch_control_plane(state: &State, field: &str, value: Value, because: &str) -> Step {
    let precondition = precondition(&state.control_plane.metadata);
    let mut patch = precondition.metadata();
    patch.insert(field.to_owned(), value);
    Step {
        action: Action::PatchControlPlane(json!({ "metadata": patch })),
        subject: control_plane_ref(state.namespace(), state.name()),
        index: None,
        because: because.to_owned(),
        precondition: Some(precondition),
    }
}

/// The steps of a control plane that is being deleted: its machines are deleted together, after the
/// workers. The quorum does not matter any more.
fn removal(state: &State, plan: &mut Plan) {
    if state.machines.is_empty() && state.cluster_is_deleting() && !state.orphans.is_empty() {
        // Nothing else removes their hooks.
        let message = format!("machines must be deleted first: {}", names(&state.orphans).join(", "));
        return plan.waits.push(Wait::new(WaitReason::WorkersRemoved, message));
    }
    if state.machines.is_empty() {
        let others = state.control_plane.metadata.finalizers.iter();
        let others: Vec<&String> = others.filter(|finalizer| *finalizer != FINALIZER).collect();
        if others.len() < state.control_plane.metadata.finalizers.len() {
            let because = "all machines are deleted";
            plan.steps
                .push(patch_control_plane(state, "finalizers", json!(others), because));
        }
        return;
    }
    if !state.workers.is_empty() {
        let mut message = format!(
            "machines of workers must be deleted first: {}",
            state.workers.join(", ")
        );
        if !state.orphans.is_empty() {
            // Nothing else removes their hooks.
            message.push_str(&format!(
                ". {} have the hook of control plane machines: to delete them, remove their annotation \
                 {PRE_TERMINATE_HOOK}",
                names(&state.orphans).join(", ")
            ));
        }
        return plan.waits.push(Wait::new(WaitReason::WorkersRemoved, message));
    }
    for machine in &state.machines {
        if machine.has(PRE_TERMINATE_HOOK) {
            let because = "the control plane is being deleted";
            plan.steps.push(release(state, &machine.machine, because));
        } else if machine.is_deleting() {
            let message = format!("machine {} is being deleted", machine.name());
            plan.waits
                .push(about(state, machine, WaitReason::MachineRemoved, message));
        } else {
            let because = String::from("the control plane is being deleted");
            plan.steps
                .push(scale::delete_with_control_plane(state, machine, because));
        }
    }
}

fn names(machines: &[Arc<Machine>]) -> Vec<&str> {
    machines.iter().map(|machine| machine.metadata.name()).collect()
}

/// The machines whose condition `OwnerRemediated` must be removed: a health check requested their
/// replacement, and found them healthy again.
pub fn withdrawn_remediations(state: &State) -> Vec<&str> {
    let machines = state.machines.iter().filter(|machine| !machine.is_deleting());
    machines
        .filter(|machine| {
            machine.is_true(condition::HEALTH_CHECK_SUCCEEDED) && machine.is_false(condition::OWNER_REMEDIATED)
        })
        .map(MachineState::name)
        .collect()
}

#[cfg(test)]
mod tests;
