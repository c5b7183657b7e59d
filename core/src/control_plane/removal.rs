//! The removal of a ControlPlane. It removes no machine: the steps are those of a
//! ControlPlaneMachineSet, see `cpms::removal`. They also work for a ControlPlane that does not
//! parse.

use super::action::Plan;
use crate::api::kinds::CONTROL_PLANES;
use crate::api::machine_openshift_io::control_plane::{ControlPlane, FINALIZER};
use crate::api::machine_openshift_io::machine;
use crate::cpms::degraded::unparsable;
use crate::cpms::observed::Observed;
use crate::cpms::removal::{Leaving, orphan};
use crate::cpms::selector::is_control_plane;

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
    let machines = observed.unparsable.iter().filter(|object| object.kind == machine::KIND);
    if let Some(reason) = unparsable(&machines.cloned().collect::<Vec<_>>()) {
        plan.steps.retain(|step| step.machine().is_some());
        plan.notes
            .push("the finalizer stays while machines cannot be read".to_owned());
        plan.degraded.push(reason);
    }
    plan
}
