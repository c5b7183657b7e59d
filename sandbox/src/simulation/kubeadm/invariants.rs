//! What must hold of a control plane. The text of a violation names the Machine.
//!
//! K1 to K4 are judged where a change of etcd arrives, in `managed`.

use capstan::controllers::kubeadm_control_plane::SECRETS;
use capstan_core::api::kinds::{CLUSTER_API_MACHINES, KUBEADM_CONTROL_PLANES};
use serde_json::Value;

use super::managed::SimulatedClusters;
use super::objects::{
    DELETE_MACHINE, DOMAINS, HOOK, HOOKS, INSTANCES, NAME, NAMESPACE, PAUSED, PAUSED_ROLLOUT, annotations, has,
    is_deleting, is_outdated, is_unhealthy, name, node_of, replicas, surge, text,
};
use crate::api::Object;
use crate::simulation::declared::{Change, Stored};

type Judged = Result<(), String>;

/// For so long may the conditions say that all is well although it is not, in seconds: a settled
/// control plane is inspected every minute, and a write may fail.
const UNEXPLAINED: u32 = 4 * 60;

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

fn one_stays(moment: &Stored) -> bool {
    moment.all(&CLUSTER_API_MACHINES).any(|machine| !is_deleting(machine))
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
    let usual = replicas(control_plane) + if rolls { surge(control_plane) } else { 0 };
    // A machine takes over from machines that are all being deleted.
    let all_leave = machines(moment) > 0 && moment.all(&CLUSTER_API_MACHINES).all(is_deleting);
    if all_leave {
        usual.max(machines(moment) + 1)
    } else {
        usual
    }
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
/// rollout. Two machines for one purpose are one too many. No machine has a lower version than
/// another one.
pub(super) fn a_creation_is_wanted(change: &Change<'_>) -> Judged {
    let (Some(machine), None) = (machine(change), change.before) else {
        return Ok(());
    };
    let version = text(machine, "/spec/version");
    let has_newer = |moment: &Stored| {
        let mut all = moment.all(&CLUSTER_API_MACHINES);
        all.any(|other| name(other) != name(machine) && text(other, "/spec/version") > version)
    };
    check(!change.moments.iter().all(has_newer), || {
        format!(
            "machine {} has the version {version}, and another one a higher version",
            name(machine)
        )
    })?;
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
/// machine is outdated, or there are too many machines. No other machine is leaving, unless it
/// keeps its member and this one is repaired. Etcd keeps its quorum without its member.
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
        let others = moment.all(&CLUSTER_API_MACHINES).filter(|other| name(other) != own);
        let mut leaving = others.filter(|other| is_deleting(other));
        let count = machines(moment);
        let is_surplus = count > replicas(control_plane);
        // A user can mark a machine that goes first.
        let is_marked = annotations(stored, DELETE_MACHINE).next().is_some();
        let rolls = moment
            .all(&CLUSTER_API_MACHINES)
            .any(|one| outdated(moment, one, control_plane));
        let goes = outdated(moment, stored, control_plane) || (is_marked && rolls);
        let is_replaced = count >= replicas(control_plane) + surge(control_plane) && goes;
        // A user may have deleted a machine, whose member must stay until this one is repaired.
        let may_wait = |other: &Object| annotations(other, HOOK).next().is_some();
        match is_unhealthy(stored) {
            true => leaving.all(may_wait),
            false => leaving.next().is_none() && (is_surplus || is_replaced),
        }
    };
    check(change.moments.iter().any(has_reason), || {
        format!("machine {own} is deleted without a reason")
    })?;
    let clusters = change.companion::<SimulatedClusters>().map(SimulatedClusters::lock);
    let Some(managed) = clusters else { return Ok(()) };
    // Before anyone has seen that the cluster serves, it has no data.
    let serves = |moment: &Stored| {
        let initialized = "/status/initialization/controlPlaneInitialized";
        let by_status = control_plane(moment).is_some_and(|one| one.pointer(initialized) == Some(&Value::Bool(true)));
        let mut all = moment.all(&CLUSTER_API_MACHINES);
        by_status || all.any(|one| !text(one, "/status/nodeRef/name").is_empty())
    };
    if !change.moments.iter().all(serves) {
        return Ok(());
    }
    let node = node_of(own);
    let keeps = !managed.members.contains_key(&node) || managed.can_lose(&node);
    check(keeps, || {
        format!(
            "machine {own} is deleted, and etcd cannot lose its member: {:?}",
            managed.members
        )
    })
}

/// K7: the hook of a machine goes after all other hooks. It goes after its member, if that was
/// reported before the last live read, unless the control plane is removed, or the machine is the
/// only one and the status does not say yet that the control plane was initialized.
pub(super) fn a_member_goes_before_the_hook(change: &Change<'_>) -> Judged {
    let (Some(machine), Some(before), Some(after)) = (machine(change), change.before, change.after) else {
        return Ok(());
    };
    let is_released = annotations(before, HOOK).next().is_some() && annotations(after, HOOK).next().is_none();
    let mut controls = change.moments.iter().map(control_plane);
    if !is_released || controls.any(|one| one.is_none_or(is_deleting)) {
        return Ok(());
    }
    let has_other = |moment: &Stored| {
        let stored = moment.get(&CLUSTER_API_MACHINES, NAMESPACE, name(machine));
        stored.is_some_and(|stored| annotations(stored, HOOKS).any(|hook| hook != HOOK))
    };
    check(!change.moments.iter().all(has_other), || {
        format!(
            "machine {} loses its hook before that of another controller",
            name(machine)
        )
    })?;
    let clusters = change.companion::<SimulatedClusters>().map(SimulatedClusters::lock);
    let Some(managed) = clusters else { return Ok(()) };
    let own = name(machine);
    let node = node_of(own);
    // The last moment is that of the write, which may arrive late.
    let decided = change.moments.iter().rev().nth(1).map_or(0, Stored::second);
    let is_left = managed.members.contains_key(&node) && managed.was_reported(&node, decided);
    let is_young = |moment: &Stored| {
        let initialized = "/status/initialization/controlPlaneInitialized";
        let is_initialized =
            control_plane(moment).is_some_and(|one| one.pointer(initialized) == Some(&Value::Bool(true)));
        machines(moment) <= 1 && !is_initialized
    };
    check(!is_left || change.moments.iter().any(is_young), || {
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

/// K9: the controller writes no spec of the control plane, changes no existing machine to another
/// one, and deletes only Machines.
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
    if change.kind == &CLUSTER_API_MACHINES
        && let Some(after) = change.after
    {
        let fields = [
            "version",
            "failureDomain",
            "bootstrap",
            "infrastructureRef",
            "providerID",
        ];
        let changed = fields.into_iter().find(|field| {
            let pointer = format!("/spec/{field}");
            before.pointer(&pointer) != after.pointer(&pointer)
        });
        check(changed.is_none(), || {
            format!(
                "spec.{} of machine {} changes",
                changed.unwrap_or_default(),
                name(before)
            )
        })?;
    }
    // The removal of the last finalizer removes the object.
    let is_deleted = !is_deleting(before) && change.after.is_none_or(is_deleting);
    let is_machine = change.kind == &CLUSTER_API_MACHINES;
    check(!is_deleted || is_machine, || {
        format!("{} {} is deleted", change.kind.kind, name(before))
    })
}

/// K11: no machine is created or deleted while the control plane is paused. While its rollout is
/// paused, none is created or deleted only because one is outdated. If all are being deleted, a new
/// one must take over the data of etcd.
pub(super) fn a_pause_holds(change: &Change<'_>) -> Judged {
    let Some(machine) = machine(change) else { return Ok(()) };
    let is_created = change.before.is_none();
    if !is_created && !is_request_to_delete(change) {
        return Ok(());
    }
    let own = name(machine);
    let has = |moment: &Stored, annotation: &'static str| {
        control_plane(moment).is_some_and(|one| annotations(one, annotation).next().is_some())
    };
    let paused = change.moments.iter().all(|moment| has(moment, PAUSED));
    check(!paused, || {
        format!("machine {own} is created or deleted during a pause")
    })?;
    let is_for_rollout = |moment: &Stored| {
        let Some(control_plane) = control_plane(moment).filter(|one| !is_deleting(one)) else {
            return false;
        };
        let stored = moment.get(&CLUSTER_API_MACHINES, NAMESPACE, own);
        let (count, wanted) = (machines(moment), replicas(control_plane));
        has(moment, PAUSED_ROLLOUT)
            && match is_created {
                true => count >= wanted && one_stays(moment),
                false => count <= wanted && stored.is_some_and(|stored| !is_unhealthy(stored)),
            }
    };
    check(!change.moments.iter().all(is_for_rollout), || {
        format!("machine {own} is created or deleted during a pause of the rollout")
    })
}

/// K12: a machine is created in a failure domain without a machine, if there is one.
pub(super) fn a_machine_goes_where_none_is(change: &Change<'_>) -> Judged {
    let (Some(machine), None) = (machine(change), change.before) else {
        return Ok(());
    };
    let domain = text(machine, "/spec/failureDomain");
    let has_machine = |moment: &Stored, domain: &str| {
        let mut all = moment.all(&CLUSTER_API_MACHINES);
        all.any(|one| text(one, "/spec/failureDomain") == domain)
    };
    let is_uneven = |moment: &Stored| {
        let is_empty = |other: &str| !has_machine(moment, other);
        has_machine(moment, domain) && DOMAINS.into_iter().any(is_empty)
    };
    check(!change.moments.iter().all(is_uneven), || {
        format!(
            "machine {} is created in the failure domain {domain}, and another one has none",
            name(machine)
        )
    })
}

/// K13: while the control plane is not as it should be, a condition reports it. A violation is
/// noted. Nothing can report while no process runs.
pub(super) fn a_condition_says_why(now: &Stored, second: u32, is_led: bool) {
    let Some(clusters) = now.companion::<SimulatedClusters>() else {
        return;
    };
    let differs = machines_are_as_wanted(now)
        .and_then(|()| members_are_those_of_machines(now))
        .err();
    let silent =
        differs.filter(|_| is_led && control_plane(now).is_some() && conditions_say_that_all_is_well(now).is_ok());
    let mut managed = clusters.lock();
    let Some(text) = silent else {
        managed.unexplained_since = None;
        return;
    };
    let since = *managed.unexplained_since.get_or_insert(second);
    if second - since >= UNEXPLAINED {
        managed.violate("K13", format!("no condition says that {text}"));
    }
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
    let conditions = || control_plane.pointer("/status/conditions").cloned().unwrap_or_default();
    machines_are_as_wanted(now)
        .and_then(|()| members_are_those_of_machines(now))
        .and_then(|()| conditions_say_that_all_is_well(now))
        .map_err(|text| format!("{text}; {}", conditions()))?;
    let left = text(control_plane, "/metadata/annotations/capstan.dev~1pending-creations");
    check(left.is_empty() || left == "[]", || {
        format!("a creation is recorded: {left}")
    })
}

fn machines_are_as_wanted(now: &Stored) -> Judged {
    let Some(control_plane) = control_plane(now) else {
        return Ok(());
    };
    check(!is_deleting(control_plane), || {
        "the control plane is never removed".to_owned()
    })?;
    let all: Vec<&Object> = now.all(&CLUSTER_API_MACHINES).collect();
    let wanted = replicas(control_plane);
    check(all.len() == wanted, || {
        format!("{} of {wanted} machines exist", all.len())
    })?;
    for machine in &all {
        let own = name(machine);
        let team = "/metadata/labels/team";
        let label = control_plane.pointer("/spec/machineTemplate/metadata/labels/team");
        for (holds, problem) in [
            (!outdated(now, machine, control_plane), "is outdated"),
            (!is_deleting(machine), "is being deleted"),
            (!is_unhealthy(machine), "is unhealthy"),
            (annotations(machine, HOOK).next().is_some(), "has no hook"),
            (machine.pointer(team) == label, "lacks the label of the template"),
        ] {
            check(holds, || format!("machine {own} {problem}"))?;
        }
    }
    Ok(())
}

fn members_are_those_of_machines(now: &Stored) -> Judged {
    let Some(clusters) = now.companion::<SimulatedClusters>() else {
        return Ok(());
    };
    let members: Vec<String> = clusters.lock().members.keys().cloned().collect();
    let mut nodes: Vec<String> = now
        .all(&CLUSTER_API_MACHINES)
        .map(|machine| node_of(name(machine)))
        .collect();
    nodes.sort_unstable();
    check(members == nodes, || {
        format!("the members are {members:?}, and the Nodes {nodes:?}")
    })
}

fn conditions_say_that_all_is_well(now: &Stored) -> Judged {
    let Some(control_plane) = control_plane(now) else {
        return Ok(());
    };
    for type_ in [
        "Available",
        "CertificatesAvailable",
        "EtcdClusterHealthy",
        "MachinesReady",
        "MachinesUpToDate",
    ] {
        check(has(control_plane, type_, "True"), || format!("{type_} is not True"))?;
    }
    for type_ in [
        "RollingOut",
        "ScalingUp",
        "ScalingDown",
        "Remediating",
        "Deleting",
        "Paused",
        "Stalled",
    ] {
        check(has(control_plane, type_, "False"), || format!("{type_} is not False"))?;
    }
    Ok(())
}
