//! MachineHealthChecks. Cluster API's say more than the Machine API's.

use super::row::{Row, When, blocks};

/// What Cluster API cannot say of a check of the Machine API.
pub(super) const MACHINE_API: &[Row] = &[
    blocks(
        "unhealthyConditions",
        When::MoreThan(100),
        "Cluster API takes at most 100 conditions",
        "use fewer conditions",
    ),
    blocks(
        "",
        When::UnknownFields(&[
            "selector",
            "unhealthyConditions",
            "maxUnhealthy",
            "nodeStartupTimeout",
            "remediationTemplate",
            "authoritativeAPI",
        ]),
        "Capstan does not know a field of Cluster API for it",
        "remove it, or keep the check with the Machine API",
    ),
];

/// What the Machine API cannot say of a check of Cluster API.
pub(super) const CLUSTER_API: &[Row] = &[
    blocks(
        "checks.unhealthyMachineConditions",
        When::Present,
        "the Machine API looks at conditions of nodes only",
        "remove them, or use conditions of the node",
    ),
    blocks(
        "checks.unhealthyNodeConditions",
        When::Missing,
        "the Machine API needs at least one condition of the node",
        "name a condition, such as Ready with the status Unknown",
    ),
    blocks(
        "remediation.triggerIf.unhealthyInRange",
        When::Present,
        "the Machine API takes a greatest number of unhealthy machines, and no range",
        "use unhealthyLessThanOrEqualTo",
    ),
    blocks(
        "",
        When::UnknownFields(&["clusterName", "selector", "checks", "remediation"]),
        "Capstan does not know a field of the Machine API for it",
        "remove it, or keep the check with Cluster API",
    ),
    blocks(
        "checks",
        When::UnknownFields(&[
            "nodeStartupTimeoutSeconds",
            "unhealthyNodeConditions",
            "unhealthyMachineConditions",
        ]),
        "Capstan does not know a field of the Machine API for it",
        "remove it, or keep the check with Cluster API",
    ),
    blocks(
        "remediation",
        When::UnknownFields(&["triggerIf", "templateRef"]),
        "Capstan does not know a field of the Machine API for it",
        "remove it, or keep the check with Cluster API",
    ),
];
