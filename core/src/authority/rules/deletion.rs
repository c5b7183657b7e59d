//! Deletion: it is allowed, and says what goes with it and what stays. The garbage collector alone is held back, where it
//! would delete the machines of a set because somebody removed a copy of that set.
//!
//! Source: the table of the Converting Machine API to Cluster API enhancement; decision 9.

use super::Judged;
use crate::authority::config::COLLECTORS;
use crate::authority::spec::{Api, Decided, Kind, PairMember};
use crate::authority::state::{Lead, Seen};
use crate::model::{FieldPath, Propagation, Verdict, Violation, ViolationKind, Warning};

pub(super) const OUTLOOK: &str = "authority-deletion-outlook";
pub(super) const COLLECTOR: &str = "authority-garbage-collector";

pub(super) fn judge(judged: &Judged<'_>, verdict: &mut Verdict) {
    let Some(old) = judged.before() else { return };
    if COLLECTORS.contains(&judged.edit.user.name.as_str()) {
        return hold_back_the_collector(judged, old, verdict);
    }
    if judged.syncs() || judged.controls() || old.deleting {
        return;
    }
    match judged.counterpart() {
        Seen::Absent => {}
        Seen::Unknown => {
            // A deletion is never refused for this; what cannot be said is said to be so.
            let other = judged.subject.api.other();
            verdict.warn(Warning::new(
                OUTLOOK,
                format!(
                    "it is not known whether {} exists, and so what this deletion takes with it",
                    judged.title(other)
                ),
            ));
        }
        Seen::There(counterpart) => outlook(judged, old, counterpart, verdict),
    }
}

fn outlook(judged: &Judged<'_>, old: &PairMember, counterpart: &PairMember, verdict: &mut Verdict) {
    let here = judged.subject.api;
    let other = judged.title(here.other());
    let name = judged.edit.name;
    let leads = match judged.lead() {
        Lead::Decided(Decided::Leads(api)) => api == here,
        Lead::Decided(Decided::Migrating) | Lead::Unknown | Lead::Alone => false,
    };
    let text = match judged.subject.kind {
        Kind::Machine => {
            let control_plane = if old.is_control_plane() || counterpart.is_control_plane() {
                format!("{name} is a control plane machine: ")
            } else {
                format!("{name}: ")
            };
            let fate = match (here, old.owner(), leads) {
                (_, Some(_), _) => format!("its instance is deleted, and {other} with it"),
                (Api::MachineApi, None, true) => format!("its instance is deleted; {other} stays, without an instance"),
                (Api::MachineApi, None, false) => {
                    format!("only this copy is deleted; {other} stays, leads, and keeps the instance")
                }
                (Api::ClusterApi, None, true) => {
                    format!("its instance is deleted; {other} stays, and this Machine is made again from it")
                }
                (Api::ClusterApi, None, false) => {
                    format!("only this copy is deleted, and made again; {other} stays, leads, and keeps the instance")
                }
            };
            format!("{control_plane}{fate}")
        }
        Kind::MachineSet if leads && judged.edit.propagation != Some(Propagation::Orphan) => {
            format!("{other} is deleted with it, and so are its machines and their instances")
        }
        Kind::MachineSet | Kind::MachineHealthCheck if leads => format!("{other} is deleted with it"),
        Kind::MachineSet => {
            let again = match here {
                Api::MachineApi => "",
                Api::ClusterApi => ", and made again",
            };
            format!(
                "only this copy is deleted{again}: {other} leads and stays, with all of its machines and their instances"
            )
        }
        Kind::MachineHealthCheck => {
            let again = match here {
                Api::MachineApi => "",
                Api::ClusterApi => ", and made again",
            };
            format!("only this copy is deleted{again}: {other} leads, stays and goes on")
        }
        Kind::InfrastructureMachine | Kind::InfrastructureTemplate if leads => return,
        Kind::InfrastructureMachine | Kind::InfrastructureTemplate => {
            format!("only this copy is deleted, and made again: {other} leads and stays")
        }
    };
    verdict.warn(Warning::new(OUTLOOK, text));
    let cascades = judged.edit.propagation == Some(Propagation::Foreground);
    if judged.subject.kind == Kind::MachineSet && !leads && cascades {
        verdict.warn(Warning::new(
            OUTLOOK,
            "a foreground deletion waits for the machines, which stay: delete with --cascade=orphan or --cascade=background",
        ));
    }
}

/// A set that was deleted while the other API led it takes no machine with it: neither the copies, whose deletion would
/// carry over, nor the machines that its own API leads.
fn hold_back_the_collector(judged: &Judged<'_>, old: &PairMember, verdict: &mut Verdict) {
    if judged.subject.kind != Kind::Machine {
        return;
    }
    let Some(owner) = old.owner().filter(|owner| owner.kind == "MachineSet") else {
        return;
    };
    let here = judged.subject.api;
    let (mirrors, config) = (judged.lookup.mirrors, judged.lookup.config);
    let own = mirrors.find(here, Kind::MachineSet, &owner.name, config);
    let other = mirrors.find(here.other(), Kind::MachineSet, &owner.name, config);
    let machine_api = match here {
        Api::MachineApi => own,
        Api::ClusterApi => other,
    };
    let led_here = match Lead::of(machine_api) {
        Lead::Decided(decided) => decided == Decided::Leads(here),
        Lead::Alone => here == Api::ClusterApi,
        Lead::Unknown => false,
    };
    // A deletion of the set that leads is carried over: it finds the other one gone, or going.
    let stays = match other {
        Seen::Absent => return,
        Seen::Unknown => String::from("whether its MachineSet lives on in the other API is not known yet"),
        Seen::There(half) if half.deleting => return,
        Seen::There(_) if led_here && own.there().is_some() => return,
        Seen::There(_) => format!(
            "{}'s MachineSet {} lives on: what was deleted is only a copy of it",
            here.other().title(),
            owner.name
        ),
    };
    verdict.deny(
        Violation::new(
            COLLECTOR,
            FieldPath::root(),
            ViolationKind::Forbidden,
            format!("{stays}, and its machines stay"),
        )
        .advice("the sync controller takes the copies of its machines away"),
    );
}
