//! The finalizers of a mirrored Machine: which are added, and which are removed.
//!
//! Both Machines and the infrastructure machine have the finalizer of the sync controller, so that
//! no deletion is missed. The object that becomes authoritative gets the finalizer of its own
//! controllers before the switch: a deletion right after the switch would otherwise find an object
//! that no controller holds, and the instance would be lost.
//!
//! The finalizer of the former controllers stays until the deletion. The Machine controller of
//! Cluster API adds its finalizer before it looks at the pause, so a removal would not last. And
//! without it, a deletion in the middle of a migration could not be carried out by the former
//! controllers.
//!
//! Must never: add a finalizer to an object that is being deleted, because an API server refuses
//! that, or remove a finalizer that belongs to another component.
//!
//! Source: the Converting Machine API to Cluster API enhancement, "Deletion of Machines".

use super::FINALIZER;
use super::pair::{FullObject, Pair, Part, Write};
use super::spec::Api;
use crate::api::cluster_x_k8s_io::machine;

/// The finalizer of the Machine controllers of the Machine API.
pub const MACHINE_API: &str = "machine.machine.openshift.io";
/// The finalizer of the Machine controller of Cluster API.
pub const CLUSTER_API: &str = machine::FINALIZER;
/// The finalizer of the MachineSet controller of Cluster API.
pub const CLUSTER_API_SET: &str = "cluster.x-k8s.io/machineset";
/// The domain of the finalizers of infrastructure providers.
const PROVIDERS: &str = "infrastructure.cluster.x-k8s.io";

/// The finalizer with which the controllers of an object hold it.
pub fn of_controllers(part: Part, object: &FullObject) -> String {
    match part {
        Part::MachineApi | Part::Member(_) => MACHINE_API.to_owned(),
        Part::ClusterApi => CLUSTER_API.to_owned(),
        Part::Infrastructure | Part::Template(_) => {
            let kind = object.text("/kind").unwrap_or_default().to_lowercase();
            match kind.as_str() {
                // The only provider whose finalizer has the domain in front.
                "nutanixmachine" => format!("{PROVIDERS}/{kind}"),
                _ => format!("{kind}.{PROVIDERS}"),
            }
        }
    }
}

/// Whether a finalizer belongs to the controllers of an object.
pub fn is_of_controllers(part: Part, name: &str) -> bool {
    match part {
        Part::MachineApi => name == MACHINE_API,
        Part::ClusterApi => [CLUSTER_API, CLUSTER_API_SET].contains(&name),
        // The sync controller removes no finalizer of these.
        Part::Template(_) | Part::Member(_) => false,
        Part::Infrastructure => {
            let domain = name.split('/').next().unwrap_or_default();
            domain == PROVIDERS || domain.ends_with(&format!(".{PROVIDERS}"))
        }
    }
}

/// Whether the controllers of an object hold it.
pub fn is_held(part: Part, object: &FullObject) -> bool {
    object.finalizers().iter().any(|name| is_of_controllers(part, name))
}

/// Adds the finalizer of the sync controller to the next object that has none.
pub fn protect(pair: &Pair) -> Option<Write> {
    let parts = [Part::MachineApi, Part::ClusterApi, Part::Infrastructure];
    // No instance depends on an infrastructure template.
    let count = if pair.is_parent() { 2 } else { parts.len() };
    parts.into_iter().take(count).find_map(|part| {
        let because = "its deletion must not be missed";
        add(part, pair.part(part)?, FINALIZER, because)
    })
}

/// Adds the finalizer of its controllers to the next object of the API that becomes authoritative.
/// A MachineSet or a MachineHealthCheck holds no instance: the Machines have finalizers of their
/// own.
pub fn hand_over(pair: &Pair, to: Api) -> Option<Write> {
    if pair.is_parent() {
        return None;
    }
    let parts: &[Part] = match to {
        Api::MachineApi => &[Part::MachineApi],
        Api::ClusterApi => &[Part::ClusterApi, Part::Infrastructure],
    };
    parts.iter().find_map(|part| {
        let object = pair.part(*part)?;
        if is_held(*part, object) {
            return None;
        }
        let because = "its controllers must hold it before they become responsible";
        add(*part, object, &of_controllers(*part, object), because)
    })
}

fn add(part: Part, object: &FullObject, name: &str, because: &str) -> Option<Write> {
    if object.member.deleting || object.has_finalizer(name) {
        return None;
    }
    let mut finalizers = object.finalizers();
    finalizers.push(name);
    Some(Write::finalizers(part, object, &finalizers, because))
}

/// Which finalizers are removed from an object.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Removed {
    /// The finalizer of the sync controller.
    Own,
    /// The finalizer of the sync controller and those of the object's controllers, which are paused
    /// and would never remove them.
    OwnAndControllers,
}

/// Removes finalizers from an object. `None` if it has none of them.
pub fn release(part: Part, object: &FullObject, removed: Removed, because: &str) -> Option<Write> {
    let goes = |name: &str| {
        let by_controllers = removed == Removed::OwnAndControllers && is_of_controllers(part, name);
        name == FINALIZER || by_controllers
    };
    let finalizers = object.finalizers();
    let kept: Vec<&str> = finalizers.iter().copied().filter(|name| !goes(name)).collect();
    (kept.len() < finalizers.len()).then(|| Write::finalizers(part, object, &kept, because))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::authority::pair::Verb;

    fn object(kind: &str, finalizers: &[&str]) -> FullObject {
        FullObject::from(json!({"kind": kind, "metadata": {"uid": "u", "resourceVersion": "1",
            "finalizers": finalizers}}))
    }

    fn stored(write: Option<Write>) -> Option<serde_json::Value> {
        match write?.verb {
            Verb::Patch(patch) => patch.pointer("/metadata/finalizers").cloned(),
            _ => None,
        }
    }

    #[test]
    fn each_provider_has_its_own_finalizer() {
        for (kind, finalizer) in [
            ("AWSMachine", "awsmachine.infrastructure.cluster.x-k8s.io"),
            ("NutanixMachine", "infrastructure.cluster.x-k8s.io/nutanixmachine"),
        ] {
            let machine = object(kind, &[]);
            assert_eq!(of_controllers(Part::Infrastructure, &machine), finalizer);
            assert!(is_of_controllers(Part::Infrastructure, finalizer));
        }
        assert!(!is_of_controllers(Part::Infrastructure, FINALIZER));
        assert!(!is_of_controllers(Part::Infrastructure, CLUSTER_API));
    }

    #[test]
    fn a_hand_over_adds_the_finalizers_of_the_new_controllers_and_removes_none() {
        let mut pair = Pair {
            machine_api: Some(object("Machine", &[MACHINE_API])),
            cluster_api: Some(object("Machine", &["a"])),
            infrastructure: Some(object("AWSMachine", &[])),
            ..Pair::default()
        };
        let added = stored(hand_over(&pair, Api::ClusterApi));
        assert_eq!(added, Some(json!(["a", CLUSTER_API])));
        pair.cluster_api = Some(object("Machine", &[CLUSTER_API]));
        let added = stored(hand_over(&pair, Api::ClusterApi));
        assert_eq!(added, Some(json!(["awsmachine.infrastructure.cluster.x-k8s.io"])));
        assert_eq!(hand_over(&pair, Api::MachineApi), None);
    }

    #[test]
    fn a_release_keeps_the_finalizers_of_other_components() {
        let machine = object("Machine", &["other", CLUSTER_API, FINALIZER]);
        let own = stored(release(Part::ClusterApi, &machine, Removed::Own, ""));
        assert_eq!(own, Some(json!(["other", CLUSTER_API])));
        let all = stored(release(Part::ClusterApi, &machine, Removed::OwnAndControllers, ""));
        assert_eq!(all, Some(json!(["other"])));
        let other = object("Machine", &["other"]);
        assert_eq!(release(Part::ClusterApi, &other, Removed::OwnAndControllers, ""), None);
    }

    #[test]
    fn no_finalizer_is_added_to_an_object_that_is_being_deleted() {
        let deleting = json!({"metadata": {"deletionTimestamp": "2026-01-01T00:00:00Z"}});
        let pair = Pair {
            machine_api: Some(FullObject::from(deleting)),
            ..Pair::default()
        };
        assert_eq!(protect(&pair), None);
        assert_eq!(hand_over(&pair, Api::MachineApi), None);
    }
}
