//! What must hold of a pool. The text of a violation names the Machine.
//!
//! The invariants compute from the stored objects what is allowed, and share no code with the
//! decisions of core.

use capstan_core::api::cluster_x_k8s_io::annotation::DELETE_MACHINE;
use capstan_core::api::kinds::{CLUSTER_API_MACHINES, MACHINE_POOLS};
use capstan_core::pool::Mode;
use capstan_core::pool::records::RECORD;
use capstan_core::pool::removal::FINALIZER;
use serde_json::Value;

use super::actors::{Instances, instances, versions};
use super::objects::{
    GROUPS, INSTANCES, NAMESPACE, POOL, finalizers, has, is_deleting, is_paused, is_unhealthy, name, replicas, text,
};
use crate::api::Object;
use crate::simulation::declared::{Change, Stored};

fn check(holds: bool, text: impl FnOnce() -> String) -> Result<(), String> {
    if holds { Ok(()) } else { Err(text()) }
}

/// The object whose deletion the controller requests with this change.
fn deleted<'a>(change: &'a Change<'_>) -> Option<&'a Object> {
    let before = change
        .before
        .filter(|before| change.by_controller && !is_deleting(before))?;
    change.after.is_none_or(is_deleting).then_some(before)
}

fn pool_of(moment: &Stored) -> Option<&Object> {
    moment.get(&MACHINE_POOLS, NAMESPACE, POOL)
}

fn annotation<'o>(object: &'o Object, key: &str) -> Option<&'o str> {
    object.pointer("/metadata/annotations")?.get(key)?.as_str()
}

fn is_record(machine: &Object) -> bool {
    annotation(machine, RECORD).is_some()
}

/// M1: the controller deletes a Machine only if, at one moment of its reconcile, the pool was not
/// paused, and one of these held: the pool and its group were deleted, the instance was gone, a
/// health check demanded it and fewer remediations than allowed were under way, or the instance was
/// outdated and enough machines stayed available.
pub(super) fn a_deletion_has_a_reason(change: &Change<'_>) -> Result<(), String> {
    let Some(machine) = deleted(change).filter(|_| change.kind == &CLUSTER_API_MACHINES) else {
        return Ok(());
    };
    let has_reason = |moment: &Stored| {
        let machine = moment.get(&CLUSTER_API_MACHINES, NAMESPACE, name(machine));
        let (Some(machine), Some(pool)) = (machine, pool_of(moment)) else {
            return false;
        };
        let group = moment.get(&GROUPS, NAMESPACE, POOL);
        if is_record(machine) {
            // Nothing is behind a record.
            return !is_paused(pool) && group.is_none_or(|group| !is_listed_alone(group, machine));
        }
        let instance = moment.get(&INSTANCES, NAMESPACE, text(machine, "/spec/infrastructureRef/name"));
        let needs = instance.is_none_or(|instance| {
            is_remediation(moment, pool, machine) || is_rollout(moment, pool, machine, instance)
        });
        let may = match is_deleting(pool) {
            true => group.is_none(),
            false => needs,
        };
        !is_paused(pool) && may
    };
    check(change.moments.iter().any(has_reason), || {
        format!("Machine {} is deleted without a reason", name(machine))
    })
}

/// Whether a group that cannot delete single instances lists the instance of a record.
fn is_listed_alone(group: &Object, machine: &Object) -> bool {
    let ids = group.pointer("/spec/providerIDList").and_then(Value::as_array);
    let mut ids = ids.into_iter().flatten().filter_map(Value::as_str);
    text(group, "/status/infrastructureMachineKind").is_empty() && ids.any(|id| id == text(machine, "/spec/providerID"))
}

/// The Machines of which no deletion was requested.
fn staying(moment: &Stored) -> Vec<&Object> {
    let machines = moment.all(&CLUSTER_API_MACHINES);
    machines
        .filter(|machine| !is_deleting(machine) && !is_record(machine))
        .collect()
}

fn is_remediation(moment: &Stored, pool: &Object, machine: &Object) -> bool {
    let allowed = annotation(pool, "capstan.dev/remediation").and_then(|text| {
        let remediation: Value = serde_json::from_str(text).ok()?;
        remediation.get("maxInFlight")?.as_u64()
    });
    let leaving = moment.all(&CLUSTER_API_MACHINES).filter(|one| is_deleting(one));
    let in_flight = leaving.filter(|one| is_unhealthy(one)).count() as u64;
    is_unhealthy(machine) && in_flight < allowed.unwrap_or(1)
}

fn is_rollout(moment: &Stored, pool: &Object, machine: &Object, instance: &Object) -> bool {
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
    is_outdated && (costs_nothing || available + allowed >= replicas(pool))
}

/// `maxUnavailable` of the strategy; `None` without a rolling strategy.
pub(super) fn max_unavailable(pool: &Object) -> Option<usize> {
    let strategy: Value = serde_json::from_str(annotation(pool, "capstan.dev/rollout")?).ok()?;
    let limit = strategy.pointer("/strategy/rollingUpdate/maxUnavailable")?;
    match limit.as_str() {
        Some(percent) => {
            let percent: usize = percent.trim_end_matches('%').parse().ok()?;
            Some(replicas(pool) * percent / 100)
        }
        None => usize::try_from(limit.as_u64()?).ok(),
    }
}

/// M2: the controller deletes Machines only, and the group of a pool that is being deleted. It
/// removes its own finalizer after the instances are gone, and the finalizers of records.
pub(super) fn only_machines_are_deleted(change: &Change<'_>) -> Result<(), String> {
    let Some(before) = change.before.filter(|_| change.by_controller) else {
        return Ok(());
    };
    let pool_is_deleting = |moment: &Stored| pool_of(moment).is_some_and(is_deleting);
    if deleted(change).is_some() && change.kind != &CLUSTER_API_MACHINES {
        let is_of_pool = change.kind == &GROUPS && change.moments.iter().any(pool_is_deleting);
        check(is_of_pool, || {
            format!("{} {} is deleted by the controller", change.kind.kind, name(before))
        })?;
    }
    // An object that is being deleted is gone with its last finalizer.
    let left = change.after.map(finalizers).unwrap_or_default();
    let removed: Vec<String> = finalizers(before)
        .into_iter()
        .filter(|one| !left.contains(one))
        .collect();
    let is_empty = |moment: &Stored| {
        moment.get(&GROUPS, NAMESPACE, POOL).is_none()
            && moment.all(&INSTANCES).next().is_none()
            && moment.all(&CLUSTER_API_MACHINES).next().is_none()
    };
    let is_own = change.kind == &MACHINE_POOLS && removed.iter().all(|one| one == FINALIZER);
    let is_allowed = removed.is_empty()
        || (is_own && is_deleting(before) && change.moments.iter().any(is_empty))
        || (change.kind == &CLUSTER_API_MACHINES && is_record(before) && is_deleting(before));
    check(is_allowed, || {
        format!("the finalizers {removed:?} of {} are removed", name(before))
    })
}

/// M3: an infrastructure machine is deleted after the Node was drained, unless the instance is
/// lost, or never had a Machine.
pub(super) fn a_node_is_drained_before_its_instance_goes(change: &Change<'_>) -> Result<(), String> {
    let begins = change.before.filter(|before| !is_deleting(before));
    let Some(before) = begins.filter(|_| change.kind == &INSTANCES && change.after.is_none_or(is_deleting)) else {
        return Ok(());
    };
    let has = |key: &str| annotation(before, key).is_some();
    check(has("drained") || has("lost") || !has("owned"), || {
        format!("instance {} is deleted before its Node was drained", name(before))
    })
}

/// M6: the controller creates a Machine only for an infrastructure machine that exists, with its
/// name, and one Machine for each instance.
pub(super) fn an_instance_gets_one_machine(change: &Change<'_>) -> Result<(), String> {
    let created = change.after.filter(|_| change.by_controller && change.before.is_none());
    let Some(machine) = created.filter(|_| change.kind == &CLUSTER_API_MACHINES) else {
        return Ok(());
    };
    let (reference, id) = (
        text(machine, "/spec/infrastructureRef/name"),
        text(machine, "/spec/providerID"),
    );
    let is_first = |moment: &Stored| {
        let mut others = moment
            .all(&CLUSTER_API_MACHINES)
            .filter(|one| name(one) != name(machine));
        let exists = is_record(machine) || moment.get(&INSTANCES, NAMESPACE, reference).is_some();
        // The caches do not show a Machine that lost a label; a record beside it is deleted later.
        let is_labelled = |one: &Object| {
            text(one, "/metadata/labels/cluster.x-k8s.io~1pool-name") == POOL
                && text(one, "/metadata/labels/cluster.x-k8s.io~1cluster-name") == "c"
        };
        let is_same = |one: &Object| {
            let is_shown = !is_record(machine) || is_labelled(one);
            let same_id = !id.is_empty() && text(one, "/spec/providerID") == id;
            is_shown && (text(one, "/spec/infrastructureRef/name") == reference || same_id)
        };
        let is_named = is_record(machine) || name(machine) == reference;
        exists && is_named && !others.any(is_same)
    };
    check(change.moments.iter().any(is_first), || {
        format!(
            "Machine {} is a second one, has another name, or has no instance",
            name(machine)
        )
    })
}

/// M7: the controller sets marks with its own value, and removes no others.
pub(super) fn marks_of_others_stay(change: &Change<'_>) -> Result<(), String> {
    let (Some(before), Some(after)) = (change.before, change.after) else {
        return Ok(());
    };
    let (old, new) = (annotation(before, DELETE_MACHINE), annotation(after, DELETE_MACHINE));
    let is_own = |mark: Option<&str>| mark.is_none_or(|mark| mark == "capstan.dev");
    let holds = !change.by_controller || old == new || (is_own(old) && is_own(new));
    check(holds, || {
        format!("the mark {old:?} of Machine {} becomes {new:?}", name(before))
    })
}

/// M8: a paused pool is left alone, except its status.
pub(super) fn a_paused_pool_is_left_alone(change: &Change<'_>) -> Result<(), String> {
    if !change.by_controller {
        return Ok(());
    }
    let spec = |object: Option<&Object>| object.and_then(|object| object.get("spec").cloned());
    let metadata = |object: Option<&Object>| {
        let mut metadata = object?.get("metadata")?.clone();
        let fields = metadata.as_object_mut()?;
        fields.retain(|field, _| field != "resourceVersion" && field != "managedFields");
        Some(metadata)
    };
    let is_same = spec(change.before) == spec(change.after) && metadata(change.before) == metadata(change.after);
    if is_same {
        return Ok(());
    }
    // A pool that is gone is not paused. What is left of it may be removed.
    let is_active = |moment: &Stored| pool_of(moment).is_none_or(|pool| !is_paused(pool));
    check(change.moments.iter().any(is_active), || {
        format!("{} is changed while the pool is paused", change.kind.kind)
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
/// No Machine has a mark of Capstan. Nothing of a deleted pool is left.
pub(super) fn the_pool_is_as_wanted(now: &Stored, mode: Mode) -> Result<(), String> {
    let Some(pool) = pool_of(now) else {
        let left = [&GROUPS, &INSTANCES, &CLUSTER_API_MACHINES].map(|kind| now.all(kind).count());
        return check(left == [0, 0, 0], || {
            format!("the pool is gone, and left are {left:?} of groups, instances, and Machines")
        });
    };
    check(!is_deleting(pool), || String::from("the pool is still being deleted"))?;
    let cloud = cloud(now);
    check(cloud.len() == replicas(pool), || {
        format!("{} of {} instances", cloud.len(), replicas(pool))
    })?;
    let version = text(pool, "/spec/template/spec/version");
    let is_good = |instance: &super::actors::Instance| {
        instance.is_healthy && (instance.version == version || max_unavailable(pool).is_none_or(|allowed| allowed == 0))
    };
    check(cloud.values().all(is_good), || format!("{cloud:?} for {version}"))?;
    the_machines_are_complete(now, pool)?;
    let ready = ["MachinesReady", "Available", "InstancesDeletable"];
    let false_one = ready.into_iter().find(|type_| !has(pool, type_, "True"));
    check(false_one.is_none(), || format!("{false_one:?} is not True"))?;
    if mode == Mode::Extend {
        return Ok(());
    }
    let counters =
        ["replicas", "readyReplicas", "availableReplicas"].map(|field| pool.pointer(&format!("/status/{field}")));
    let wanted = Value::from(replicas(pool));
    check(counters.iter().all(|counter| *counter == Some(&wanted)), || {
        format!("the counters are {counters:?}")
    })?;
    check(text(pool, "/status/phase") == "Running", || {
        format!("the phase is {:?}", text(pool, "/status/phase"))
    })
}

/// The Machines have what the template and the pool say, and no mark of Capstan.
fn the_machines_are_complete(now: &Stored, pool: &Object) -> Result<(), String> {
    let mut machines = now.all(&CLUSTER_API_MACHINES);
    let marked = machines.find(|machine| annotation(machine, DELETE_MACHINE) == Some("capstan.dev"));
    check(marked.is_none(), || format!("Machine {:?} is marked", marked.map(name)))?;
    let timeout = |object: &Object, pointer: &str| object.pointer(pointer).cloned();
    let wanted = timeout(pool, "/spec/template/spec/deletion/nodeDrainTimeoutSeconds");
    let lacks = now
        .all(&CLUSTER_API_MACHINES)
        .find(|machine| timeout(machine, "/spec/deletion/nodeDrainTimeoutSeconds") != wanted);
    check(lacks.is_none(), || {
        format!("Machine {:?} lacks a timeout of the template", lacks.map(name))
    })?;
    let label = "/metadata/labels/cluster.x-k8s.io~1pool-name";
    let lacks = now
        .all(&CLUSTER_API_MACHINES)
        .find(|machine| text(machine, label) != POOL);
    check(lacks.is_none(), || {
        format!("Machine {:?} lacks the label of the pool", lacks.map(name))
    })
}

/// M9: in the last minutes, nothing is written to the pool and its Machines.
pub(super) fn nothing_is_written_at_rest(now: &Stored) -> Result<(), String> {
    let Some(noted) = now
        .get(&GROUPS, NAMESPACE, POOL)
        .and_then(|group| annotation(group, "at-rest"))
    else {
        return Ok(());
    };
    let versions = versions(now);
    check(noted == versions, || format!("the versions {noted} become {versions}"))
}
