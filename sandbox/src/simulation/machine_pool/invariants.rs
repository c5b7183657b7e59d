//! What must hold of a pool. The text of a violation names the Machine.

use capstan_core::api::cluster_x_k8s_io::annotation::DELETE_MACHINE;
use capstan_core::api::kinds::{CLUSTER_API_MACHINES, MACHINE_POOLS};
use serde_json::Value;

use super::actors::{Instances, instances};
use super::objects::{GROUPS, INSTANCES, NAMESPACE, POOL, has, is_deleting, is_unhealthy, name, replicas, text};
use crate::api::Object;
use crate::simulation::declared::{Change, Stored};

fn check(holds: bool, text: impl FnOnce() -> String) -> Result<(), String> {
    if holds { Ok(()) } else { Err(text()) }
}

/// M1: the controller deletes a Machine only if, at one moment of its reconcile, the instance was
/// gone, or a health check demanded it and no other remediation was under way, or the instance was
/// outdated and enough machines stayed available.
pub(super) fn a_deletion_has_a_reason(change: &Change<'_>) -> Result<(), String> {
    let deleted = change.after.filter(|after| is_deleting(after));
    let before = change.before.filter(|before| !is_deleting(before));
    let (true, true, Some(machine), Some(_)) = (
        change.by_controller,
        change.kind == &CLUSTER_API_MACHINES,
        deleted,
        before,
    ) else {
        return Ok(());
    };
    let has_reason = |moment: &Stored| {
        let Some(machine) = moment.get(&CLUSTER_API_MACHINES, NAMESPACE, name(machine)) else {
            return false;
        };
        let instance = moment.get(&INSTANCES, NAMESPACE, text(machine, "/spec/infrastructureRef/name"));
        let Some(instance) = instance else { return true };
        is_remediation(moment, machine) || is_rollout(moment, machine, instance)
    };
    check(change.moments.iter().any(has_reason), || {
        format!("Machine {} is deleted without a reason", name(machine))
    })
}

/// The Machines of which no deletion was requested.
fn staying(moment: &Stored) -> Vec<&Object> {
    let machines = moment.all(&CLUSTER_API_MACHINES);
    machines.filter(|machine| !is_deleting(machine)).collect()
}

fn wanted(moment: &Stored) -> usize {
    moment.get(&MACHINE_POOLS, NAMESPACE, POOL).map_or(0, replicas)
}

fn is_remediation(moment: &Stored, machine: &Object) -> bool {
    let mut leaving = moment.all(&CLUSTER_API_MACHINES).filter(|one| is_deleting(one));
    is_unhealthy(machine) && !leaving.any(is_unhealthy)
}

fn is_rollout(moment: &Stored, machine: &Object, instance: &Object) -> bool {
    let Some(pool) = moment.get(&MACHINE_POOLS, NAMESPACE, POOL) else {
        return false;
    };
    let running = text(machine, "/status/nodeInfo/kubeletVersion");
    let is_old = !running.is_empty() && running != text(pool, "/spec/template/spec/version");
    let is_outdated = is_old || has(instance, "UpToDate", "False");
    let Some(allowed) = max_unavailable(pool) else {
        return false;
    };
    let is_available = |machine: &&Object| has(machine, "Available", "True");
    let others = staying(moment).into_iter().filter(|one| name(one) != name(machine));
    let available = others.filter(is_available).count();
    // The deletion of a machine that is not available costs nothing.
    let costs_nothing = !has(machine, "Available", "True");
    is_outdated && (costs_nothing || available + allowed >= wanted(moment))
}

/// `maxUnavailable` of the strategy; `None` without a strategy.
fn max_unavailable(pool: &Object) -> Option<usize> {
    let strategy = text(pool, "/metadata/annotations/capstan.dev~1rollout");
    let strategy: Value = serde_json::from_str(strategy).ok()?;
    let number = strategy.pointer("/strategy/rollingUpdate/maxUnavailable")?.as_u64()?;
    usize::try_from(number).ok()
}

/// M2: the controller deletes Machines only, and removes no finalizer.
pub(super) fn only_machines_are_deleted(change: &Change<'_>) -> Result<(), String> {
    let Some(before) = change.before.filter(|_| change.by_controller) else {
        return Ok(());
    };
    let is_deleted = change
        .after
        .is_none_or(|after| is_deleting(after) && !is_deleting(before));
    let is_machine = change.kind == &CLUSTER_API_MACHINES;
    check(!is_deleted || is_machine, || {
        format!("{} {} is deleted by the controller", change.kind.kind, name(before))
    })?;
    let finalizers = |object: &Object| {
        let list = object.pointer("/metadata/finalizers").and_then(Value::as_array);
        list.map_or(0, Vec::len)
    };
    let removed = change.after.is_some_and(|after| finalizers(after) < finalizers(before));
    check(!removed, || format!("a finalizer of {} is removed", name(before)))
}

/// M3: an infrastructure machine is deleted after its Machine, so that the Node is drained.
pub(super) fn an_instance_goes_after_its_machine(change: &Change<'_>) -> Result<(), String> {
    if change.kind != &INSTANCES || !change.by_controller {
        return Ok(());
    }
    let is_deleted = change.after.is_none_or(is_deleting);
    check(!is_deleted, || {
        String::from("the controller deletes an infrastructure machine")
    })
}

fn cloud(now: &Stored) -> Instances {
    now.get(&GROUPS, NAMESPACE, POOL).map(instances).unwrap_or_default()
}

/// M4: at the end, each instance has a Machine, and each Machine has an instance.
pub(super) fn each_instance_has_a_machine(now: &Stored) -> Result<(), String> {
    let cloud = cloud(now);
    let mut instances: Vec<&str> = cloud.keys().map(String::as_str).collect();
    let mut machines: Vec<&str> = now
        .all(&CLUSTER_API_MACHINES)
        .map(|machine| text(machine, "/spec/providerID"))
        .collect();
    instances.sort_unstable();
    machines.sort_unstable();
    check(instances == machines, || {
        format!("the instances are {instances:?}, and the Machines have {machines:?}")
    })
}

/// M5: at the end, the pool has its replicas, all healthy and, with a rolling strategy, up to date.
/// No Machine has a mark of Capstan.
pub(super) fn the_pool_is_as_wanted(now: &Stored) -> Result<(), String> {
    let Some(pool) = now.get(&MACHINE_POOLS, NAMESPACE, POOL) else {
        return Err(String::from("the pool is gone"));
    };
    let cloud = cloud(now);
    check(cloud.len() == replicas(pool), || {
        format!("{} of {} instances", cloud.len(), replicas(pool))
    })?;
    let version = text(pool, "/spec/template/spec/version");
    let is_good = |instance: &super::actors::Instance| {
        instance.is_healthy && (instance.version == version || max_unavailable(pool).is_none_or(|allowed| allowed == 0))
    };
    check(cloud.values().all(is_good), || format!("{cloud:?} for {version}"))?;
    let mark = "/metadata/annotations/cluster.x-k8s.io~1delete-machine";
    debug_assert!(mark.contains(DELETE_MACHINE.rsplit('/').next().unwrap_or_default()));
    let mut marked = now
        .all(&CLUSTER_API_MACHINES)
        .filter(|machine| text(machine, mark) == "capstan.dev");
    let marked = marked.next().map(|machine| name(machine).to_owned());
    check(marked.is_none(), || format!("Machine {marked:?} is marked"))?;
    let timeout = "/spec/deletion/nodeDrainTimeoutSeconds";
    let lacks = now
        .all(&CLUSTER_API_MACHINES)
        .find(|machine| machine.pointer(timeout).is_none());
    check(lacks.is_none(), || {
        String::from("a Machine lacks a timeout of the template")
    })?;
    let ready = ["MachinesReady", "Available", "InstancesDeletable"];
    let false_one = ready.into_iter().find(|type_| !has(pool, type_, "True"));
    check(false_one.is_none(), || format!("{false_one:?} is not True"))
}
