//! Judges a deletion. A deletion by a user is allowed, and the response says what else is deleted.
//! A deletion by the garbage collector is refused if it would delete a mirror, or the Machines of a
//! MachineSet of which only the mirror was deleted.
//!
//! Source: the table of the Converting Machine API to Cluster API enhancement; decision 9.

use super::{Context, machine_api};
use crate::api::cluster_x_k8s_io::annotation;
use crate::authority::config::COLLECTORS;
use crate::authority::spec::{Api, Authority, Kind, PairMember};
use crate::authority::state::{Counterpart, PairAuthority};
use crate::model::{FieldPath, Operation, Propagation, RuleInfo, Verdict, Violation, ViolationKind, Warning};

const OUTLOOK: &str = "authority-deletion-outlook";
const COLLECTOR: &str = "authority-garbage-collector";

/// The rules of this file.
pub(super) fn table() -> Vec<RuleInfo> {
    vec![
        machine_api(
            OUTLOOK,
            "",
            &[Operation::Delete],
            "warns of what a deletion deletes and of what stays",
        ),
        machine_api(
            COLLECTOR,
            "",
            &[Operation::Delete],
            "the garbage collector must not delete mirrors, or the Machines of a mirrored MachineSet",
        ),
    ]
}

pub(super) fn validate(context: &Context<'_>, verdict: &mut Verdict) {
    let Some(old) = context.before() else { return };
    if COLLECTORS.contains(&context.edit.user.name.as_str()) {
        return hold_back_the_collector(context, old, verdict);
    }
    if context.by_sync_controller() || context.by_api_controller() || old.deleting {
        return;
    }
    match context.counterpart() {
        Counterpart::Absent => {}
        Counterpart::Unknown => {
            // A deletion is not refused because of missing information.
            let other = context.subject.api.other();
            verdict.warn(Warning::not_judged(
                OUTLOOK,
                format!(
                    "not checked what else this deletion deletes: it is not known whether {} exists",
                    context.title(other)
                ),
            ));
        }
        Counterpart::Found(counterpart) => outlook(context, old, counterpart, verdict),
    }
}

/// Warns of what the deletion means for the counterpart and for the instances.
fn outlook(context: &Context<'_>, old: &PairMember, counterpart: &PairMember, verdict: &mut Verdict) {
    let here = context.subject.api;
    let other = context.title(here.other());
    let authoritative = context.authority() == PairAuthority::Known(Authority::Stable(here));
    // The sync controller recreates a mirror in Cluster API, but not one in the Machine API.
    let recreated = match here {
        Api::MachineApi => "",
        Api::ClusterApi => ", and the sync controller recreates it",
    };
    let text = match context.subject.kind {
        Kind::Machine => machine_outlook(context, old, counterpart, authoritative),
        Kind::MachineSet if authoritative && context.edit.propagation != Some(Propagation::Orphan) => {
            format!("{other} is deleted too, with all of its Machines and their instances")
        }
        Kind::MachineSet | Kind::MachineHealthCheck if authoritative => format!("{other} is deleted too"),
        Kind::MachineSet => format!(
            "only this mirror is deleted{recreated}; {other} stays authoritative and keeps its Machines and their instances"
        ),
        Kind::MachineHealthCheck => {
            format!("only this mirror is deleted{recreated}; {other} stays authoritative and active")
        }
        Kind::InfrastructureMachine | Kind::InfrastructureTemplate if authoritative => return,
        Kind::InfrastructureMachine | Kind::InfrastructureTemplate => {
            format!("only this mirror is deleted{recreated}; {other} stays authoritative")
        }
    };
    verdict.warn(Warning::new(OUTLOOK, text));
    let cascades = context.edit.propagation == Some(Propagation::Foreground);
    if context.subject.kind == Kind::MachineSet && !authoritative && cascades {
        verdict.warn(Warning::new(
            OUTLOOK,
            "a foreground deletion waits for the Machines, which stay; delete with --cascade=orphan or --cascade=background",
        ));
    }
}

/// What the deletion of a Machine means, by the rows of the enhancement's table.
fn machine_outlook(context: &Context<'_>, old: &PairMember, counterpart: &PairMember, authoritative: bool) -> String {
    let here = context.subject.api;
    let other = context.title(here.other());
    let name = context.edit.name;
    let prefix = if old.is_control_plane() || counterpart.is_control_plane() {
        format!("{name} is a control plane machine: ")
    } else {
        format!("{name}: ")
    };
    // A user can write an owner reference to a mirror at its creation, so only the owner of the
    // authoritative object counts.
    let decisive = match context.authority() {
        PairAuthority::Known(Authority::Stable(api)) if api != here => counterpart,
        _ => old,
    };
    let in_machine_api = match here {
        Api::MachineApi => old,
        Api::ClusterApi => counterpart,
    };
    let owner = PairMember::deciding_owner(Some(decisive), Some(in_machine_api));
    let outcome = match (here, owner, authoritative) {
        (_, Some(_), _) => format!("its instance is deleted, and so is {other}"),
        (Api::MachineApi, None, true) => format!("its instance is deleted; {other} stays without an instance"),
        (Api::MachineApi, None, false) => {
            format!("only this mirror is deleted; {other} stays authoritative and keeps the instance")
        }
        (Api::ClusterApi, None, true) => {
            format!("its instance is deleted; {other} stays, and the sync controller recreates this Machine from it")
        }
        (Api::ClusterApi, None, false) => format!(
            "only this mirror is deleted, and the sync controller recreates it; {other} stays authoritative and keeps the instance"
        ),
    };
    format!("{prefix}{outcome}")
}

/// Refuses the collection of a mirror while the authoritative object exists: its owner may not
/// exist, or may be a mirror that was deleted. The sync controller deletes mirrors.
fn hold_back_the_collector(context: &Context<'_>, old: &PairMember, verdict: &mut Verdict) {
    let here = context.subject.api;
    let other = context.title(here.other());
    let refusal = match (context.authority(), context.counterpart()) {
        (PairAuthority::Unknown, _) => Some(format!(
            "must not be deleted by the garbage collector before Capstan has read whether {other} exists"
        )),
        (authority, Counterpart::Unknown) if authority.locks(here) => Some(format!(
            "must not be deleted by the garbage collector before Capstan has read whether {other} exists"
        )),
        (authority, Counterpart::Found(counterpart)) if authority.locks(here) && !counterpart.deleting => Some(
            format!("must not be deleted by the garbage collector while {other} exists: this object is its mirror"),
        ),
        _ => None,
    };
    match refusal {
        Some(message) => verdict.deny(
            Violation::new(COLLECTOR, FieldPath::root(), ViolationKind::Forbidden, message)
                .advice("no action is needed: the sync controller deletes mirrors"),
        ),
        None if context.subject.kind == Kind::Machine => keep_machines_of_a_mirrored_set(context, old, verdict),
        None => {}
    }
}

/// Refuses the collection of Machines after the deletion of a mirrored MachineSet. This protects
/// Machines that their own API is authoritative for.
fn keep_machines_of_a_mirrored_set(context: &Context<'_>, old: &PairMember, verdict: &mut Verdict) {
    let Some(owner) = old.owner().filter(|owner| owner.kind == "MachineSet") else {
        return;
    };
    let here = context.subject.api;
    let (mirrors, config) = (context.lookup.mirrors, context.lookup.config);
    let own = mirrors.find(here, Kind::MachineSet, &owner.name, config);
    let other = mirrors.find(here.other(), Kind::MachineSet, &owner.name, config);
    let machine_api = match here {
        Api::MachineApi => own,
        Api::ClusterApi => other,
    };
    let authoritative_here = match PairAuthority::of(machine_api) {
        PairAuthority::Known(authority) => authority == Authority::Stable(here),
        PairAuthority::Unmirrored => {
            here == Api::ClusterApi || other.found().is_some_and(|set| is_mirror(context, set))
        }
        PairAuthority::Unknown => false,
    };
    let set = format!("MachineSet {} in {}", owner.name, here.other().title());
    // The deletion of an authoritative MachineSet propagates, so its mirror is absent or deleting.
    let message = match other {
        Counterpart::Absent => return,
        Counterpart::Unknown => {
            format!("must not be deleted by the garbage collector before Capstan has read whether {set} exists")
        }
        Counterpart::Found(member) if member.deleting => return,
        Counterpart::Found(_) if authoritative_here => return,
        Counterpart::Found(_) => {
            format!("must not be deleted by the garbage collector: {set} still exists, and only its mirror was deleted")
        }
    };
    verdict.deny(
        Violation::new(COLLECTOR, FieldPath::root(), ViolationKind::Forbidden, message)
            .advice("no action is needed: the sync controller removes the mirrors of its Machines"),
    );
}

/// Whether a MachineSet of Cluster API is a mirror although the MachineSet of the Machine API is
/// deleted already. Its pause tells: a value of Capstan's sync controller always, the empty value
/// of OpenShift's only for a Machine that the Machine API is authoritative for, because a user may
/// have set it.
fn is_mirror(context: &Context<'_>, set: &PairMember) -> bool {
    let pause = set.annotations.get(annotation::PAUSED).map(String::as_str);
    let machine_api = context.authority() == PairAuthority::Known(Authority::Stable(Api::MachineApi));
    set.is_paused_by_sync() || (pause == Some("") && machine_api)
}
