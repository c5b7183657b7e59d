//! The removal of a ControlPlane. It removes no machine: the steps are those of a
//! ControlPlaneMachineSet, see `cpms::removal`. They also work for a ControlPlane that does not
//! parse.
//!
//! The hooks of Capstan are removed first, because no controller would remove them later. A machine
//! that is already being deleted must never lose its hook before its etcd member is removed: etcd
//! would lose its quorum (V226).

use serde_json::json;

use super::action::{Plan, Step};
use super::hook::{hooks_patch, is_hooked};
use super::members;
use super::step::about;
use crate::api::kinds::{CONTROL_PLANES, MACHINES};
use crate::api::machine_openshift_io::control_plane::{ControlPlane, FINALIZER};
use crate::api::machine_openshift_io::machine::{self, Machine};
use crate::cpms::action::Action;
use crate::cpms::degraded::unparsable;
use crate::cpms::observed::Observed;
use crate::cpms::removal::{Leaving, orphan};
use crate::cpms::selector::is_control_plane;
use crate::model::Precondition;

/// The plan for a ControlPlane that is being deleted. While a machine cannot be decoded, the
/// finalizer stays: that machine may refer to the ControlPlane, and the garbage collector would
/// delete it. Empty for a ControlPlane that is not being deleted.
pub fn leave(object: &ControlPlane, observed: &Observed) -> Plan {
    let meta = &object.metadata;
    if !meta.is_deleting() {
        return Plan::default();
    }
    let leaving = Leaving {
        what: "ControlPlane",
        finalizer: FINALIZER,
        subject: CONTROL_PLANES.object(meta.namespace.as_deref().unwrap_or_default(), meta.name()),
        uid: meta.uid(),
        resource_version: meta.resource_version.as_deref().unwrap_or_default(),
        finalizers: &meta.finalizers,
        adopts: &is_control_plane,
    };
    let mut plan: Plan = orphan(&leaving, &observed.machines);
    release(observed, &mut plan);
    let machines = observed.unparsable.iter().filter(|object| object.kind == machine::KIND);
    if let Some(reason) = unparsable(&machines.cloned().collect::<Vec<_>>()) {
        plan.steps.retain(|step| step.machine().is_some());
        plan.notes
            .push("the finalizer stays while machines cannot be read".to_owned());
        plan.degraded.push(reason);
    }
    plan
}

/// Removes the hooks: first those of deleted machines, one at a time, each after its etcd member.
/// The other steps follow, because they change the same machines.
fn release(observed: &Observed, plan: &mut Plan) {
    let (next, held) = members::released_last(observed);
    if let Some(machine) = next {
        plan.steps = vec![unhook(machine, "its etcd member is removed, or it has none")];
        return;
    }
    if !held.is_empty() {
        plan.steps.clear();
        plan.waits = held
            .into_iter()
            .map(|(machine, blocked)| about(Some(machine), blocked))
            .collect();
        return;
    }
    let hooked = observed.machines.iter().filter(|machine| is_hooked(machine));
    let because = "no controller would remove its hook after the deletion of the ControlPlane";
    let hooked: Vec<Step> = hooked.map(|machine| unhook(machine, because)).collect();
    if !hooked.is_empty() {
        plan.steps = hooked;
    }
}

/// Removes the hook of Capstan from a machine.
fn unhook(machine: &Machine, because: &str) -> Step {
    let meta = &machine.metadata;
    let precondition = Precondition {
        uid: meta.uid().to_owned(),
        resource_version: meta.resource_version.clone().unwrap_or_default(),
    };
    let patch = json!({"metadata": precondition.metadata(), "spec": hooks_patch(machine, false)});
    Step {
        action: Action::Patch {
            patch,
            failure_domain: None,
        },
        subject: MACHINES.object(meta.namespace.as_deref().unwrap_or_default(), meta.name()),
        index: None,
        because: because.to_owned(),
        precondition: Some(precondition),
    }
}
