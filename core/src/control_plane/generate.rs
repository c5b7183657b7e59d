//! The ControlPlane that describes the machines of a ControlPlaneMachineSet, so that the machines
//! change their owner and none is replaced.
//!
//! It takes the template and the failure domains as they are. It must never ask for fewer machines
//! than there are.

use std::sync::Arc;

use serde_json::{Value, json};

use crate::api::machine_openshift_io::control_plane::{API_VERSION, KIND, NAME, SIZES};
use crate::api::machine_openshift_io::control_plane_machine_set::ControlPlaneMachineSet;
use crate::api::machine_openshift_io::machine::Machine;
use crate::cpms::selector::is_control_plane;

/// The ControlPlane of a set and of the machines of the control plane; `None` for a set without a
/// template of the Machine API.
pub fn of_set(set: &ControlPlaneMachineSet, machines: &[Arc<Machine>]) -> Option<Value> {
    let template = set.spec.template.machine.as_ref()?;
    let (leaving, standing): (Vec<&Arc<Machine>>, Vec<&Arc<Machine>>) = machines
        .iter()
        .filter(|machine| is_control_plane(&machine.metadata.labels))
        .partition(|machine| machine.metadata.is_deleting());
    // Without a machine that stays, the number of those that stayed is the best known one.
    let of_set = set.spec.replicas.and_then(|replicas| usize::try_from(replicas).ok());
    let count = match (standing.len(), leaving.len()) {
        (0, 0) => of_set?,
        (0, leaving) => leaving,
        (standing, _) => standing,
    };
    let sizes = SIZES.into_iter().filter_map(|size| usize::try_from(size).ok());
    let replicas = sizes.filter(|size| *size >= count).min()?;
    let mut spec = json!({
        "replicas": replicas,
        "enableautorepair": true,
        "providerSpec": template.spec.provider_spec,
    });
    if let (Some(domains), Some(spec)) = (&template.failure_domains, spec.as_object_mut()) {
        spec.insert("failureDomains".to_owned(), json!(domains));
    }
    Some(json!({
        "apiVersion": API_VERSION,
        "kind": KIND,
        "metadata": {"name": NAME, "namespace": set.metadata.namespace},
        "spec": spec,
    }))
}
