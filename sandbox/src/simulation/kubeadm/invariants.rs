//! What must hold of a control plane. The text of a violation names the Machine.
//!
//! K1 to K4 are judged where a change of etcd arrives, in `managed`.

use capstan::controllers::kubeadm_control_plane::SECRETS;
use capstan_core::api::kinds::{CLUSTER_API_MACHINES, KUBEADM_CONTROL_PLANES};
use serde_json::Value;

use super::managed::SimulatedClusters;
use super::objects::{
    HOOK, INSTANCES, NAME, NAMESPACE, annotations, has, is_deleting, is_outdated, is_unhealthy, name, node_of,
    replicas, surge, text,
};
use crate::api::Object;
use crate::simulation::declared::{Change, Stored};

type Judged = Result<(), String>;

fn check(holds: bool, text: impl FnOnce() -> String) -> Judged {
    if holds { Ok(()) } else { Err(text()) }
}

/// A violation that the managed cluster noted.
pub(super) fn noted(clusters: Option<&SimulatedClusters>, invariant: &str) -> Judged {
    clusters.map_or(Ok(()), |clusters| clusters.lock().violation(invariant))
}

fn control_plane(moment: &Stored) -> Option<&Object> {
    moment.get(&KUBEADM_CONTROL_PLANES, NAMESPACE, NAME)
}

fn machines(moment: &Stored) -> usize {
    moment.all(&CLUSTER_API_MACHINES).count()
}

fn outdated(moment: &Stored, machine: &Object, control_plane: &Object) -> bool {
    is_outdated(machine, moment.get(&INSTANCES, NAMESPACE, name(machine)), control_plane)
}

/// How many machines may exist at most.
fn most(moment: &Stored) -> usize {
    let Some(control_plane) = control_plane(moment) else {
        return 0;
    };
    let rolls = moment
        .all(&CLUSTER_API_MACHINES)
        .any(|one| outdated(moment, one, control_plane));
    replicas(control_plane) + if rolls { surge(control_plane) } else { 0 }
}

fn machine<'c>(change: &'c Change<'_>) -> Option<&'c Object> {
    change
        .after
        .or(change.before)
        .filter(|_| change.by_controller && change.kind == &CLUSTER_API_MACHINES)
}

fn is_request_to_delete(change: &Change<'_>) -> bool {
    let before = change.before.is_some_and(|before| !is_deleting(before));
    before && change.after.is_none_or(is_deleting)
}

/// K5: a machine is created only if one is missing: for the wanted number, or for the surge of a
/// rollout. Two machines for one purpose are one too many.
pub(super) fn a_creation_is_wanted(change: &Change<'_>) -> Judged {
    let (Some(machine), None) = (machine(change), change.before) else {
        return Ok(());
    };
    let is_wanted = |moment: &Stored| machines(moment) < most(moment);
    let now = change.moments.last().map_or(0, machines);
    let allowed = change.moments.iter().map(most).max().unwrap_or(0);
    check(change.moments.iter().any(is_wanted) && now < allowed, || {
        format!(
            "machine {} is created beside {now} others, and {allowed} are allowed",
            name(machine)
        )
    })
}

/// K6: a machine is deleted only if the control plane is removed, a health check demanded it, the
/// machine is outdated, or there are too many machines. No other machine is leaving, and etcd keeps
/// its quorum without its member.
pub(super) fn a_deletion_has_a_reason(change: &Change<'_>) -> Judged {
    let Some(machine) = machine(change).filter(|_| is_request_to_delete(change)) else {
        return Ok(());
    };
    let own = name(machine);
    let mut controls = change.moments.iter().map(control_plane);
    if controls.any(|one| one.is_none_or(is_deleting)) {
        return Ok(());
    }
    let has_reason = |moment: &Stored| {
        let stored = moment.get(&CLUSTER_API_MACHINES, NAMESPACE, own);
        let (Some(stored), Some(control_plane)) = (stored, control_plane(moment)) else {
            return false;
        };
        let mut others = moment.all(&CLUSTER_API_MACHINES).filter(|other| name(other) != own);
        let count = machines(moment);
        let is_surplus = count > replicas(control_plane);
        let is_replaced =
            count >= replicas(control_plane) + surge(control_plane) && outdated(moment, stored, control_plane);
        !others.any(is_deleting) && (is_unhealthy(stored) || is_surplus || is_replaced)
    };
    check(change.moments.iter().any(has_reason), || {
        format!("machine {own} is deleted without a reason")
    })?;
    let clusters = change.companion::<SimulatedClusters>().map(SimulatedClusters::lock);
    let Some(managed) = clusters else { return Ok(()) };
    let node = node_of(own);
    let keeps = !managed.members.contains_key(&node) || managed.can_lose(&node);
    check(keeps, || {
        format!(
            "machine {own} is deleted, and etcd cannot lose its member: {:?}",
            managed.members
        )
    })
}

/// K7: the hook of a machine goes after its member, if that was reported, unless the control plane
/// is removed or the machine is the last one.
pub(super) fn a_member_goes_before_the_hook(change: &Change<'_>) -> Judged {
    let (Some(machine), Some(before), Some(after)) = (machine(change), change.before, change.after) else {
        return Ok(());
    };
    let is_released = annotations(before, HOOK).next().is_some() && annotations(after, HOOK).next().is_none();
    let mut controls = change.moments.iter().map(control_plane);
    if !is_released || controls.any(|one| one.is_none_or(is_deleting)) {
        return Ok(());
    }
    let last = change.moments.iter().any(|moment| machines(moment) <= 1);
    let clusters = change.companion::<SimulatedClusters>().map(SimulatedClusters::lock);
    let Some(managed) = clusters else { return Ok(()) };
    let own = name(machine);
    let node = node_of(own);
    let is_left = managed.members.contains_key(&node) && managed.is_reported(&node);
    check(last || !is_left, || {
        format!("machine {own} loses its hook before its etcd member is removed")
    })
}

/// K8: a certificate authority never changes, and none is generated beside a machine.
pub(super) fn an_authority_never_changes(change: &Change<'_>) -> Judged {
    if change.kind != &SECRETS || !change.by_controller {
        return Ok(());
    }
    let Some(secret) = change.after else {
        let gone = change.before.map(|before| name(before).to_owned());
        return Err(format!("Secret {gone:?} is deleted"));
    };
    let own = name(secret);
    let data = |object: &Object| object.get("data").cloned().unwrap_or(Value::Null);
    let Some(before) = change.before else {
        let is_late = own != "c-kubeconfig" && change.moments.iter().all(|moment| machines(moment) > 0);
        return check(!is_late, || format!("Secret {own} is generated beside a machine"));
    };
    check(data(before) == data(secret), || {
        format!("the contents of Secret {own} change")
    })
}

/// K9: the controller writes no spec of the control plane, and deletes only Machines.
pub(super) fn the_spec_belongs_to_the_user(change: &Change<'_>) -> Judged {
    let (true, Some(before)) = (change.by_controller, change.before) else {
        return Ok(());
    };
    if change.kind == &KUBEADM_CONTROL_PLANES
        && let Some(after) = change.after
    {
        check(before.get("spec") == after.get("spec"), || {
            "the spec of the control plane changes".to_owned()
        })?;
    }
    // The removal of the last finalizer removes the object.
    let is_deleted = !is_deleting(before) && change.after.is_none_or(is_deleting);
    let is_machine = change.kind == &CLUSTER_API_MACHINES;
    check(!is_deleted || is_machine, || {
        format!("{} {} is deleted", change.kind.kind, name(before))
    })
}

/// K10: at the end, the control plane has its machines, of its version and of its template, each
/// with a healthy member, and nothing else is in etcd.
pub(super) fn the_control_plane_is_as_wanted(now: &Stored) -> Judged {
    let Some(control_plane) = control_plane(now) else {
        let left = machines(now);
        return check(left == 0, || {
            format!("the control plane is gone, and {left} machine(s) are left")
        });
    };
    check(!is_deleting(control_plane), || {
        "the control plane is never removed".to_owned()
    })?;
    let all: Vec<&Object> = now.all(&CLUSTER_API_MACHINES).collect();
    let conditions = || control_plane.pointer("/status/conditions").cloned().unwrap_or_default();
    check(all.len() == replicas(control_plane), || {
        format!(
            "{} of {} machines; {}",
            all.len(),
            replicas(control_plane),
            conditions()
        )
    })?;
    for machine in &all {
        let own = name(machine);
        check(!outdated(now, machine, control_plane), || {
            format!("machine {own} is outdated; {}", conditions())
        })?;
        check(!is_deleting(machine), || {
            format!("machine {own} is being deleted; {}", conditions())
        })?;
        check(!is_unhealthy(machine), || {
            format!("machine {own} is unhealthy; {}", conditions())
        })?;
        check(annotations(machine, HOOK).next().is_some(), || {
            format!("machine {own} has no hook")
        })?;
        let team = "/metadata/labels/team";
        let wanted = control_plane.pointer("/spec/machineTemplate/metadata/labels/team");
        check(machine.pointer(team) == wanted, || {
            format!("machine {own} lacks the label of the template")
        })?;
    }
    let Some(clusters) = now.companion::<SimulatedClusters>() else {
        return Ok(());
    };
    let members: Vec<String> = clusters.lock().members.keys().cloned().collect();
    let mut nodes: Vec<String> = all.iter().map(|machine| node_of(name(machine))).collect();
    nodes.sort_unstable();
    check(members == nodes, || {
        format!("the members are {members:?}, and the Nodes {nodes:?}")
    })?;
    for type_ in [
        "Available",
        "CertificatesAvailable",
        "EtcdClusterHealthy",
        "MachinesReady",
        "MachinesUpToDate",
    ] {
        check(has(control_plane, type_, "True"), || {
            format!("{type_} is not True; {}", conditions())
        })?;
    }
    for type_ in ["RollingOut", "ScalingUp", "ScalingDown", "Remediating", "Deleting"] {
        check(has(control_plane, type_, "False"), || {
            format!("{type_} is not False; {}", conditions())
        })?;
    }
    let left = text(control_plane, "/metadata/annotations/capstan.dev~1pending-creations");
    check(left.is_empty() || left == "[]", || {
        format!("a creation is recorded: {left}")
    })
}
