//! Objects of Cluster API with the name of a Machine or MachineSet of the Machine API that are not
//! its mirror: a user or another component made them, and their controllers act on them.
//!
//! An object is a mirror if the sync controller has left its finalizer or its record on it, or if
//! nothing can act on it: it is paused, has no other owner, and has no other instance. Restores,
//! and objects that were created before the webhooks, lead to others.
//!
//! Must never: take an object over whose instance is not that of the Machine.

use serde_json::Value;

use super::FINALIZER;
use super::pair::{FullObject, Pair, Part};
use super::pause::title;
use crate::api::machine_openshift_io::authority::MIRRORED;

/// The reason of the condition Synchronized beside such an object.
pub(super) const REASON: &str = "NotAMirror";

/// Why the objects of Cluster API are not the mirror of this object of the Machine API; `None` if
/// they are, or if there are none.
pub(super) fn in_the_way(pair: &Pair, machine: &FullObject) -> Option<String> {
    // A Machine that is or was a mirror itself has its counterpart in Cluster API.
    if machine.annotation(MIRRORED).is_some() {
        return None;
    }
    // An infrastructure template holds no instance, and is used only if its content fits.
    let parts: &[Part] = match pair.is_parent() {
        true => &[Part::ClusterApi],
        false => &[Part::ClusterApi, Part::Infrastructure],
    };
    parts.iter().find_map(|part| {
        let object = pair.part(*part).filter(|object| !is_known(object))?;
        let why = why(pair, *part, object, machine)?;
        Some(format!(
            "{} in Cluster API is not the mirror: {why}; rename or delete one of the two, or hand the object over: \
             pause it with the annotation {}, without another owner and another instance",
            title(object),
            crate::api::cluster_x_k8s_io::annotation::PAUSED
        ))
    })
}

/// Whether the sync controller has written the object before.
fn is_known(object: &FullObject) -> bool {
    object.annotation(MIRRORED).is_some() || object.has_finalizer(FINALIZER)
}

fn why(pair: &Pair, part: Part, object: &FullObject, machine: &FullObject) -> Option<String> {
    let owner = object.member.owner().filter(|owner| {
        let is_own_machine = part == Part::Infrastructure && owner.kind == "Machine" && owner.name == pair.name;
        let set = pair.cluster_api_set.as_ref().filter(|_| !pair.is_parent());
        let is_own_set = owner.kind == "MachineSet" && set.is_some_and(|set| set.member.name == owner.name);
        !is_own_machine && !is_own_set
    });
    if let Some(owner) = owner {
        return Some(format!("{} {} owns it", owner.kind, owner.name));
    }
    let instance = object.text("/spec/providerID");
    if let Some(id) = instance.filter(|id| machine.text("/spec/providerID") != Some(id)) {
        return Some(format!("its instance is {id}"));
    }
    // The provider acts on an infrastructure machine that a Machine owns.
    let is_owned = object.value.pointer("/metadata/ownerReferences");
    let is_idle = part == Part::Infrastructure && is_owned.and_then(Value::as_array).is_none_or(Vec::is_empty);
    (!object.member.is_paused() && !is_idle).then(|| String::from("it is not paused"))
}
