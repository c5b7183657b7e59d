//! The next step for the Machines of a pool.
//!
//! A plan has at most one deletion. It never deletes a Machine while the provider cannot delete a
//! single instance, while a strategy cannot be read, or while the pool is paused. It never deletes
//! a Machine because there are too many: the provider does, and two deletions for one surplus
//! instance would make the pool too small. Capstan marks the Machines that the provider is to
//! delete first. Source: the MachinePool Machines proposal.

use jiff::Timestamp;
use serde_json::{Value, json};

pub use super::action::{Action, Mode, Plan, Step, Wait, WaitReason};
use super::action::{about, delete, machine_ref, precondition};
use super::order::in_deletion_order;
use super::state::{MARKED_BY_US, Member, State};
use super::strategy::{Strategy, strategy};
use super::{deferral, desired, own, records, removal, rollout, status};
use crate::api::cluster_x_k8s_io::annotation::DELETE_MACHINE;
use crate::api::cluster_x_k8s_io::control_plane::Machine;
use crate::model::Degradation;

/// The next steps for this pool.
pub fn plan(state: &State, mode: Mode, now: Timestamp) -> Plan {
    let mut plan = undelayed(state, mode, now);
    deferral::defer(state, now, &mut plan);
    plan
}

/// The next steps, among them creations that are repeated too soon.
fn undelayed(state: &State, mode: Mode, now: Timestamp) -> Plan {
    let mut plan = Plan::default();
    if state.is_paused() {
        plan.notes
            .push(String::from("the MachinePool or its Cluster is paused"));
        return plan;
    }
    if state.pool.metadata.is_deleting() {
        if mode == Mode::Own {
            own::delete_objects(state, &mut plan);
        }
        deletion_timeouts(state, &mut plan);
        removal::decide(state, now, &mut plan);
        return plan;
    }
    if let Some(degradation) = other_pool(state) {
        plan.degraded.push(degradation);
        return plan;
    }
    plan.steps.extend(removal::add_finalizer(state));
    if mode == Mode::Own && plan.steps.is_empty() {
        own::objects(state, &mut plan);
    }
    if !state.foreign.is_empty() {
        let names = state.foreign.join(", ");
        plan.notes.push(format!(
            "another object controls Machines with the labels of the pool: {names}"
        ));
    }
    if !state.unrelated.is_empty() {
        let names = state.unrelated.join(", ");
        plan.notes.push(format!(
            "Machines with the labels of the pool refer to another kind than its instances, and are left alone: {names}"
        ));
    }
    let not_ready = infrastructure(state);
    if state.infrastructure.is_some() {
        machines(state, mode, &mut plan);
    }
    if let Some(wait) = not_ready {
        plan.waits.push(wait);
        return plan;
    }
    records::decide(state, removal::has_finalizer(state), &mut plan);
    match strategy(&state.pool.metadata.annotations, state.replicas()) {
        Ok(strategy) => deletions(state, strategy, &mut plan),
        Err(degradation) => plan.degraded.push(degradation),
    }
    for member in state.members.iter().filter(|member| member.is_deleting()) {
        let message = format!("Machine {} is being deleted", member.name);
        plan.waits
            .push(about(state, member, WaitReason::MachineRemoved, message));
    }
    pending(state, now, &mut plan);
    plan.waits.sort_by(|left, right| {
        let key = |wait: &Wait| (wait.reason, wait.message.clone());
        key(left).cmp(&key(right))
    });
    plan.reconcile_at = plan.waits.iter().filter_map(|wait| wait.until).min();
    plan
}

/// Whether another MachinePool controls the infrastructure object.
fn other_pool(state: &State) -> Option<Degradation> {
    let owner = state.other_pool()?;
    let reference = &state.pool.spec.template.spec.infrastructure_ref;
    Some(Degradation {
        reason: "InfrastructureOfAnotherPool",
        message: format!(
            "{} {:?} belongs to MachinePool {}: name another object in spec.template.spec.infrastructureRef, or \
             delete this MachinePool, which deletes nothing else",
            reference.kind, reference.name, owner.name
        ),
    })
}

/// What the infrastructure of the pool lacks.
fn infrastructure(state: &State) -> Option<Wait> {
    let reference = &state.pool.spec.template.spec.infrastructure_ref;
    let missing = match &state.infrastructure {
        None => "does not exist",
        Some(_) if !state.is_provisioned() => "is not provisioned yet",
        Some(_) => return None,
    };
    let message = format!("{} {:?} {missing}", reference.kind, reference.name);
    Some(Wait::new(WaitReason::Infrastructure, message))
}

/// Adds the patches of Machines that are being deleted and lack the timeouts of the template.
fn deletion_timeouts(state: &State, plan: &mut Plan) {
    let leaving = state
        .members
        .iter()
        .filter(|member| member.is_deleting() && !member.is_record());
    plan.steps.extend(leaving.filter_map(|member| {
        let because = format!("Machine {} lacks the timeouts of the template", member.name);
        patch_step(state, member, desired::deletion_patch(state, member)?, because)
    }));
}

/// Adds the Machines that are missing, and the fields that Machines lack.
fn machines(state: &State, mode: Mode, plan: &mut Plan) {
    deletion_timeouts(state, plan);
    if mode == Mode::Own {
        plan.degraded
            .extend([strays(state), misreferring(state)].into_iter().flatten());
    }
    for member in state.staying().filter(|member| !member.is_record()) {
        match (&member.machine, &member.instance) {
            (None, Some(_)) if mode == Mode::Own && is_taken(state, &member.name) => {}
            (None, Some(instance)) if mode == Mode::Own => plan.steps.push(Step {
                action: Action::Create(Box::new(desired::machine(state, instance))),
                subject: machine_ref(state.namespace(), &member.name),
                index: None,
                because: format!("instance {} has no Machine", member.name),
                precondition: None,
            }),
            (None, Some(_)) => {
                let message = format!("the core manager of Cluster API must create Machine {}", member.name);
                plan.waits.push(about(state, member, WaitReason::Provider, message));
            }
            _ => plan.steps.extend(desired::patch(state, member, mode).and_then(|patch| {
                let because = format!("Machine {} lacks fields of the template", member.name);
                patch_step(state, member, patch, because)
            })),
        }
    }
}

/// Whether a Machine that is not the one of the instance has the name of an instance.
fn is_taken(state: &State, name: &String) -> bool {
    state.strays.contains(name) || state.misreferring.contains_key(name)
}

/// Why instances get no Machine: the Machine of the name refers to something else. A webhook or a
/// policy may have changed it at its creation, so it would be changed again.
fn misreferring(state: &State) -> Option<Degradation> {
    let (name, refers_to) = state.misreferring.first_key_value()?;
    let more = match state.misreferring.len() {
        1 => String::new(),
        all => format!(" (and {} more)", all - 1),
    };
    Some(Degradation {
        reason: "MachineNameTaken",
        message: format!(
            "Machine {name}{more} refers to {refers_to} in spec.infrastructureRef, and not to the instance of its \
             name, which gets no Machine: find the webhook or the policy that changes the reference, and correct it; \
             then delete the Machine"
        ),
    })
}

/// Why instances get no Machine: another Machine has the name.
fn strays(state: &State) -> Option<Degradation> {
    let names = state.strays.join(", ");
    (!state.strays.is_empty()).then(|| Degradation {
        reason: "MachineNameTaken",
        message: format!(
            "Machine {names} exists without the labels {}, so that the instance of this name gets no Machine: delete \
             the Machine, or set the labels if it is the Machine of the instance",
            status::selector(state)
        ),
    })
}

/// Why no Machine is deleted: an infrastructure machine lost its labels, so that neither the
/// provider nor the core manager may see it.
fn unlabelled(state: &State, kind: &str) -> Option<Degradation> {
    let names = state.unlabelled.join(", ");
    (!state.unlabelled.is_empty()).then(|| Degradation {
        reason: "InstancesWithoutLabels",
        message: format!(
            "{kind} {names} exists without the labels {}: set them. No Machine is deleted until then",
            status::selector(state)
        ),
    })
}

/// Adds the marks and the one deletion of the plan.
fn deletions(state: &State, strategy: Strategy, plan: &mut Plan) {
    let Some(kind) = state.machine_kind() else {
        let message = "the provider cannot delete a single instance (status.infrastructureMachineKind of the \
                       infrastructure object is empty), so no Machine is deleted";
        return plan
            .waits
            .push(Wait::new(WaitReason::ProviderSupport, message.to_owned()));
    };
    if !state.knows_instances {
        let note = format!("no {kind} of the pool is known, so no Machine is deleted");
        return plan.notes.push(note);
    }
    if let Some(degradation) = unlabelled(state, kind) {
        return plan.degraded.push(degradation);
    }
    match dangling(state, kind, strategy.max_in_flight) {
        Some(Ok(step)) => return plan.steps.push(step),
        Some(Err(wait)) => plan.waits.push(wait),
        None => {}
    }
    match remediation(state, strategy.max_in_flight) {
        Some(Ok(step)) => return plan.steps.push(step),
        Some(Err(wait)) => plan.waits.push(wait),
        None => {}
    }
    if state.is_scaled_outside() {
        plan.notes.push(String::from(
            "something outside of the cluster sets the number of instances",
        ));
    } else {
        marks(state, plan);
    }
    rollout::decide(state, strategy.rollout, plan);
}

/// The deletion of a Machine whose infrastructure machine is gone, or why it is deferred. The
/// provider must not list the instance any more: an infrastructure machine may be lost while its
/// instance runs. Only a few are deleted at once, because many that vanish together may return.
fn dangling(state: &State, kind: &str, max_in_flight: usize) -> Option<Result<Step, Wait>> {
    let group = &state.pool.spec.template.spec.infrastructure_ref.api_group;
    let is_gone = |member: &&Member| {
        let mut machines = member.machine.iter();
        // The pool's Machines are created after their infrastructure machines. Another Machine that
        // never had an instance waits for one. The instance of a Machine that refers to another
        // kind is not known.
        let is_known = |machine: &Machine| {
            let reference = &machine.spec.infrastructure_ref;
            let had_instance = machine.metadata.controller().is_some() || !machine.spec.provider_id.is_empty();
            reference.kind == kind && reference.api_group == *group && had_instance
        };
        // A Machine with the name of an instance may be the one of that instance (V270).
        let is_other = state.misreferring.contains_key(&member.name);
        member.instance.is_none() && !is_other && machines.any(|machine| is_known(machine))
    };
    let ids = state.provider_ids();
    let id = |member: &Member| {
        let machine = member.machine.as_ref()?;
        Some(machine.spec.provider_id.clone()).filter(|id| ids.contains(&id.as_str()))
    };
    let gone: Vec<&Member> = state.staying().filter(is_gone).collect();
    let first = *gone.first()?;
    let Some(next) = gone.into_iter().find(|member| id(member).is_none()) else {
        let message = format!(
            "the infrastructure machine of Machine {} does not exist, and the provider still lists its instance {}",
            first.name,
            id(first).unwrap_or_default()
        );
        return Some(Err(about(state, first, WaitReason::Provider, message)));
    };
    let leaving = state.members.iter().filter(|member| member.is_deleting());
    let in_flight = leaving.filter(|member| member.instance.is_none()).count();
    if in_flight >= max_in_flight.max(1) {
        let message = format!(
            "Machine {} lost its infrastructure machine, and is not deleted yet: {in_flight} such Machine(s) are being \
             deleted",
            next.name
        );
        return Some(Err(about(state, next, WaitReason::MachineRemoved, message)));
    }
    let because = String::from("its infrastructure machine does not exist any more");
    delete(state, next, because).map(Ok)
}

/// The deletion of a Machine that a health check reports, or why it is deferred.
fn remediation(state: &State, max_in_flight: usize) -> Option<Result<Step, Wait>> {
    let unhealthy = in_deletion_order(state.staying().filter(|member| member.is_unhealthy()));
    let first = *unhealthy.first()?;
    let missing = state.replicas().saturating_sub(state.staying().count());
    let deleting = state.members.iter().filter(|member| member.is_deleting());
    // A remediation ends when its replacement exists.
    let in_flight = missing.max(deleting.filter(|member| member.is_unhealthy()).count());
    if in_flight < max_in_flight {
        let because = String::from("a health check reports it as unhealthy");
        return delete(state, first, because).map(Ok);
    }
    let message = format!(
        "Machine {} is unhealthy, and is not deleted yet: {in_flight} remediation(s) have no replacement yet, and at \
         most {max_in_flight} may be in flight",
        first.name
    );
    Some(Err(about(state, first, WaitReason::RemediationDeferred, message)))
}

/// Marks as many Machines as the provider is to delete, and removes Capstan's own marks from
/// others.
fn marks(state: &State, plan: &mut Plan) {
    let surplus = state.staying().count().saturating_sub(state.replicas());
    let ordered = in_deletion_order(state.staying());
    for (place, member) in ordered.into_iter().enumerate() {
        let (value, because) = match (place < surplus, member.is_marked()) {
            (true, false) => (json!(MARKED_BY_US), "the pool has more instances than replicas"),
            (false, true) if member.is_marked_by_us() => (Value::Null, "the pool has no surplus instance"),
            _ => continue,
        };
        // A second patch of one Machine in one plan would be in conflict with the first.
        let subject = machine_ref(state.namespace(), &member.name);
        if plan.steps.iter().any(|step| step.subject == subject) {
            continue;
        }
        let patch = annotation(member, &value);
        plan.steps
            .extend(patch.and_then(|patch| patch_step(state, member, patch, because.to_owned())));
    }
    if surplus > 0 {
        let message = format!("the provider must delete {surplus} instance(s)");
        plan.waits.push(Wait::new(WaitReason::Provider, message));
    }
}

fn annotation(member: &Member, value: &Value) -> Option<Value> {
    let mut metadata = precondition(member.machine.as_ref()?).metadata();
    metadata.insert(String::from("annotations"), json!({ DELETE_MACHINE: value }));
    Some(json!({ "metadata": metadata }))
}

/// What the instances lack.
fn pending(state: &State, now: Timestamp, plan: &mut Plan) {
    for member in state.staying().filter(|member| !member.is_available) {
        let until = member.available_at.filter(|until| *until > now);
        let message = match (member.node.as_str(), until) {
            ("", _) => format!("Machine {} has no Node yet", member.name),
            (_, Some(until)) => format!("the Node of Machine {} must stay ready until {until}", member.name),
            (_, None) => format!("the Node of Machine {} is not ready", member.name),
        };
        plan.waits.push(Wait {
            until,
            ..about(state, member, WaitReason::MachineReady, message)
        });
    }
    let missing = state.replicas().saturating_sub(state.staying().count());
    if missing > 0 && !state.is_scaled_outside() {
        let message = format!("the provider must create {missing} instance(s)");
        plan.waits.push(Wait::new(WaitReason::Provider, message));
    }
}

fn patch_step(state: &State, member: &Member, patch: Value, because: String) -> Option<Step> {
    let machine = member.machine.as_ref()?;
    Some(Step {
        action: Action::Patch(patch),
        subject: machine_ref(state.namespace(), machine.metadata.name()),
        index: None,
        because,
        precondition: Some(precondition(machine)),
    })
}

#[cfg(test)]
mod tests;
