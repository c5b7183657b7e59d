//! What a user must do, in a few words, for each reason to stop.
//!
//! The message of a reason begins with the objects in question, and their names can be long. The
//! page shows these words before the message. They come from the reason; no message is read.

/// The action of a user for a reason of the condition `Degraded`; `None` if only the message says
/// it.
pub(super) fn action(reason: &str) -> Option<&'static str> {
    Some(match reason {
        "ActiveControlPlaneMachineSet" => "Not urgent: keep one of the two objects.",
        "AdoptionFailed" => "Correct the versions, or remove the label of machines that do not belong to it.",
        "AllMachinesDeleting" => "Wait for a new machine, or delete the Cluster.",
        "ExcessIndexes" => "Delete the machines that should not be there.",
        "ExcessUpdatedReplicas" => "Delete all machines but one of each index.",
        "EtcdMoved" => "Restore the etcd of the spec.",
        "FailedReplacement" => "Correct the cause, then delete the failed machine.",
        "FailureDomainUnusable" | "InvalidFailureDomain" => "Correct the failure domains.",
        "ForeignMachine" => "Remove the owner reference of the other controller.",
        "InfrastructureOfAnotherPool" => "Name another infrastructure object in the pool.",
        "InfrastructureUnknown" => "Restore the Infrastructure object named cluster.",
        "InstancesWithoutLabels" => "Set the labels of the instances.",
        "InvalidMachineNaming" | "InvalidMaxSurge" | "InvalidSpec" | "InvalidStrategy" => "Correct the object.",
        "InvalidTemplateMetadata" => "Correct the labels and annotations of the template.",
        "SeveralEtcdClusters" => "Remove the labels of etcd members from the pods of the other etcd.",
        "LostEtcdMember" => "Remove the etcd member that has no machine, or restore its machine.",
        "MachineNameTaken" => "Delete the Machine, or set its labels.",
        "MachinesAlreadyOwned" => "Decide which object manages the machines.",
        "MachinesMissing" => "Restore the Machines.",
        "MemberMissing" => "Delete the machine without an etcd member.",
        "NewMachinesDeleted" => "Find who deletes the Machines in the audit log, and stop that.",
        "NewMachinesOutdated" => "Correct the provider or the template.",
        "NoReadyMachines" => "Bring a control plane machine back.",
        "StrayedMachines" => "Put the labels of the machines back, or delete the machines.",
        "TemplateNotStored" => "Correct the template, or the webhook that changes machines.",
        "UnknownClusterName" => "Name the cluster in the Infrastructure object.",
        "UnmanagedNodes" => "Remove the nodes without a machine, or give them machines.",
        "UnparsableObjects" | "UnreadableControlPlane" => "Correct or remove what cannot be read.",
        "UnreadablePendingCreations" => "Wait five minutes, then remove the annotation.",
        "VersionLowered" => "Raise the version to that of the machines.",
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The modules of core that make reasons of the condition `Degraded`.
    const SOURCES: [&str; 10] = [
        include_str!("../../core/src/cpms/degraded.rs"),
        include_str!("../../core/src/cpms/plan/rollout.rs"),
        include_str!("../../core/src/control_plane/degraded.rs"),
        include_str!("../../core/src/control_plane/lost_members.rs"),
        include_str!("../../core/src/kcp/plan.rs"),
        include_str!("../../core/src/kcp/plan/scale.rs"),
        include_str!("../../core/src/kcp/adoption.rs"),
        include_str!("../../core/src/pool/plan.rs"),
        include_str!("../../core/src/pool/progress.rs"),
        include_str!("../../core/src/pool/deferral.rs"),
    ];

    #[test]
    fn each_reason_of_core_has_an_action() {
        let mut found = 0;
        for source in SOURCES {
            for (before, after) in [("reason: \"", "\""), ("&str = \"", "\"")] {
                for part in source.split(before).skip(1) {
                    let reason = part.split(after).next().unwrap_or_default();
                    let is_reason = reason.starts_with(char::is_uppercase) && reason.chars().all(char::is_alphanumeric);
                    if is_reason {
                        found += 1;
                        assert!(action(reason).is_some(), "{reason}");
                    }
                }
            }
        }
        assert!(found > 25, "{found} reasons");
        assert_eq!(action("AsExpected"), None);
    }
}
