//! A set beside a ControlPlane: both would create and delete the machines of the control plane, so
//! a set is not activated while a ControlPlane exists.

use std::sync::Arc;

use super::lookup::Lookup;
use crate::api::machine_openshift_io::control_plane::ControlPlane;
use crate::api::machine_openshift_io::control_plane_machine_set::KIND;
use crate::model::{Operation, RuleInfo, Verdict, Violation, ViolationKind};

const RULE: &str = "cpms-control-plane-exists";

/// Refuses the activation. ControlPlanes are unknown while the feature `control-plane` is not
/// installed: then none exists.
pub(super) fn judge(lookup: &Lookup<'_>, verdict: &mut Verdict) {
    // A ControlPlane of another namespace has no controller.
    let is_here = |found: &&Arc<ControlPlane>| {
        let own = found.metadata.namespace.as_deref();
        own.is_none_or(|own| own == lookup.namespace)
    };
    let Some(found) = lookup.control_planes.and_then(|known| known.iter().find(is_here)) else {
        return;
    };
    let allowed = format!(
        "must be Inactive while the ControlPlane {} exists: both would manage the control plane machines",
        found.metadata.name()
    );
    let violation = Violation::new(RULE, "spec.state", ViolationKind::Forbidden, allowed);
    verdict.deny(violation.advice("delete the ControlPlane first: its machines stay"));
}

pub(super) fn table() -> Vec<RuleInfo> {
    const BOTH: &[Operation] = &[Operation::Create, Operation::Update];
    let message = "a set does not become active while a ControlPlane exists";
    vec![RuleInfo::webhook(RULE, KIND, "spec.state", BOTH, message)]
}
