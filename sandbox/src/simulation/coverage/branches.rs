//! The branches of the decisions about a ControlPlaneMachineSet, and how each is recognized.

/// What a branch writes, and no other branch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Sign {
    /// An event with this reason whose message contains this text.
    Event(&'static str, &'static str),
    /// A condition of the set with this type, status, and reason.
    Condition(&'static str, &'static str, &'static str),
}

/// A branch of a decision.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Branch {
    /// The id: what is decided, and the branch.
    pub id: &'static str,
    /// How the branch is recognized.
    pub sign: Sign,
}

const fn event(id: &'static str, reason: &'static str, text: &'static str) -> Branch {
    let sign = Sign::Event(reason, text);
    Branch { id, sign }
}

const fn condition(id: &'static str, type_: &'static str, status: &'static str, reason: &'static str) -> Branch {
    let sign = Sign::Condition(type_, status, reason);
    Branch { id, sign }
}

/// All branches.
pub const BRANCHES: &[Branch] = &[
    // What a rollout waits for.
    event("wait: a machine starts", "MachineReady", "to become ready: it"),
    event("wait: minimum time", "MinReady", "is ready, and counts as such from"),
    event("wait: a machine is removed", "MachineRemoved", "to be removed"),
    event("wait: a hook holds a machine", "MachineRemoved", "; held by "),
    event("wait: a node returns", "NodeReady", "a rollout does not go past it"),
    event(
        "wait: a node is claimed",
        "NodeClaimed",
        "is not yet claimed by its machine",
    ),
    event("wait: pause", "Pause", "the rollout is paused by annotation"),
    event("wait: etcd", "EtcdHealthy", "waits until etcd is healthy"),
    event("wait: too few ready machines", "OtherIndex", "are needed"),
    event(
        "wait: an index is not served",
        "OtherIndex",
        "no ready machine replaces this one",
    ),
    event("wait: another empty index", "OtherIndex", " gets one first"),
    event("wait: an empty index", "OtherIndex", "needs a machine first"),
    event("wait: another index is outdated", "OtherIndex", " goes first"),
    event(
        "wait: another index is not ready",
        "OtherIndex",
        "; the machine of index ",
    ),
    event(
        "wait: surge for an empty index",
        "SurgeFree",
        "waits for its machine: there are ",
    ),
    event(
        "wait: a creation may arrive",
        "SurgeFree",
        "was requested and may still be created",
    ),
    event(
        "wait: another replacement",
        "SurgeFree",
        "another replacement is under way",
    ),
    event("wait: limit, next index", "Limit", "the rollout is limited to "),
    event("wait: limit, other indexes", "Limit", "; the rollout is limited"),
    event(
        "wait: a user deletes",
        "UserDelete",
        "; delete the machine to have it replaced",
    ),
    // The steps.
    event("create: empty index", "Created", " has no machine"),
    event("create: a deleted machine", "Created", " is being deleted"),
    event("create: an outdated machine", "Created", " is outdated: "),
    event("delete: replaced", "Deleted", " is ready and up to date, and replaces "),
    event(
        "delete: oldest of several updated",
        "Deleted",
        "has more than one updated machine",
    ),
    event("delete: newest of several outdated", "Deleted", "this is the newest"),
    event(
        "delete: unready one of several outdated",
        "Deleted",
        "this one is not ready",
    ),
    event("delete: recreated", "Deleted", " is outdated: "),
    event("patch: owner", "Updated", "it has no owner"),
    event(
        "patch: owner of a former set",
        "Updated",
        "names a deleted set with UID",
    ),
    event("patch: index", "Updated", "its name has no index"),
    event(
        "patch: differs from the template",
        "Updated",
        " differs from the template",
    ),
    event(
        "patch: removed from the template",
        "Updated",
        " was removed from the template",
    ),
    event(
        "patch: record of template fields",
        "Updated",
        "the record of its template fields is out of date",
    ),
    event(
        "patch: finalizer of the set",
        "Updated",
        "the finalizer keeps the set until its machines are orphaned",
    ),
    event(
        "removal: a machine is released",
        "Updated",
        "must not be collected with the ",
    ),
    event(
        "removal: a machine is not adopted",
        "Updated",
        "must not be adopted by the ",
    ),
    // The reasons to stop.
    event("degraded: unreadable object", "UnparsableObjects", " cannot be read: "),
    event(
        "degraded: unreadable record",
        "UnreadablePendingCreations",
        "Wait five minutes",
    ),
    event("degraded: no Infrastructure", "InfrastructureUnknown", "restore it"),
    event(
        "degraded: failure domain",
        "InvalidFailureDomain",
        "correct failureDomains of the set",
    ),
    event(
        "degraded: no machine",
        "NoReadyMachines",
        "No machine is selected by the set",
    ),
    event(
        "degraded: no ready machine",
        "NoReadyMachines",
        "No control plane machine is ready",
    ),
    event(
        "degraded: unmanaged node",
        "UnmanagedNodes",
        "no machine of the set claims them",
    ),
    event("degraded: strayed machine", "StrayedMachines", "put the labels back"),
    event("degraded: excess index", "ExcessIndexes", " in excess of "),
    event(
        "degraded: foreign owner",
        "MachinesAlreadyOwned",
        "are controlled by another",
    ),
    event(
        "degraded: failed replacement",
        "FailedReplacement",
        "delete the machine to have it made again",
    ),
    event(
        "degraded: machine lost a field",
        "TemplateNotStored",
        "and do not have its fields",
    ),
    event(
        "degraded: template loses a field",
        "TemplateNotStored",
        "does not store the template as it is",
    ),
    event(
        "degraded: label of the template",
        "InvalidTemplateMetadata",
        "of the template: ",
    ),
    event(
        "degraded: several updated",
        "ExcessUpdatedReplicas",
        "more than one updated machine",
    ),
    event("degraded: invalid set", "InvalidSpec", "The set is not valid"),
    event("degraded: invalid strategy", "InvalidStrategy", "cannot be followed"),
    // The conditions.
    condition("status: available", "Available", "True", "AllReplicasAvailable"),
    condition("status: unavailable", "Available", "False", "UnavailableReplicas"),
    condition("status: updated", "Progressing", "False", "AllReplicasUpdated"),
    condition("status: updating", "Progressing", "True", "NeedsUpdateReplicas"),
    condition("status: removing", "Progressing", "True", "ExcessReplicas"),
    condition("status: stopped", "Progressing", "False", "OperatorDegraded"),
    condition("status: Inactive", "Progressing", "False", "Inactive"),
    condition("status: deleting", "Progressing", "False", "Deleting"),
    condition(
        "status: past the deadline",
        "Progressing",
        "False",
        "ProgressDeadlineExceeded",
    ),
    condition("status: paused", "Progressing", "False", "RolloutPaused"),
    condition("status: limited", "Progressing", "False", "RolloutLimitReached"),
    condition("status: waits for a user", "Progressing", "False", "WaitingForDelete"),
    condition("status: waits for etcd", "Progressing", "True", "WaitingForEtcd"),
    condition(
        "status: waits for machines",
        "Progressing",
        "True",
        "WaitingForReadyMachines",
    ),
    condition("status: error", "Error", "True", "ContinuousErrors"),
    condition("status: no error", "Error", "False", "AsExpected"),
    condition("status: creating", "Creating", "True", "MachineRequested"),
];

/// The branches that no scenario reaches, and what the schedules lack.
pub const UNREACHED: &[(&str, &str)] = &[
    ("delete: recreated", "no schedule has the strategy Recreate"),
    (
        "patch: owner of a former set",
        "a machine is released before its set is gone, and no user orphans it",
    ),
    (
        "patch: removed from the template",
        "no user removes a label from the template",
    ),
    (
        "patch: record of template fields",
        "no user edits the record of a machine",
    ),
    ("degraded: unreadable object", "no object is unreadable"),
    ("degraded: unreadable record", "no user edits the record of the set"),
    (
        "degraded: no Infrastructure",
        "no failure domain needs the Infrastructure",
    ),
    ("degraded: failure domain", "no failure domain is of another platform"),
    ("degraded: excess index", "no user creates a machine of a new index"),
    ("degraded: foreign owner", "no other object owns a machine"),
    ("degraded: label of the template", "no label of the template is invalid"),
    ("degraded: invalid set", "no invalid set is stored"),
    ("degraded: invalid strategy", "no invalid set is stored"),
    ("status: past the deadline", "no set has a progress deadline"),
];
