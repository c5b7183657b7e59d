//! The fields of MachineHealthChecks.

use super::row::{Row, When, blocks};

/// Fields of a MachineHealthCheck of the Machine API that Cluster API cannot express.
pub(super) const MACHINE_API: &[Row] = &[
    blocks(
        "unhealthyConditions",
        When::MoreThan(100),
        "Cluster API allows at most 100 conditions",
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
        "Capstan knows no field of Cluster API for it",
        "remove it, or keep the MachineHealthCheck in the Machine API",
    ),
];

/// Fields of a MachineHealthCheck of Cluster API that the Machine API cannot express.
pub(super) const CLUSTER_API: &[Row] = &[
    blocks(
        "checks.unhealthyMachineConditions",
        When::Present,
        "the Machine API checks conditions of nodes only",
        "remove them, or use conditions of nodes",
    ),
    blocks(
        "checks.unhealthyNodeConditions",
        When::Missing,
        "the Machine API requires at least one condition of a node",
        "add a condition, such as Ready with the status Unknown",
    ),
    blocks(
        "remediation.triggerIf.unhealthyInRange",
        When::Present,
        "the Machine API has a maximum of unhealthy machines, and no range",
        "use unhealthyLessThanOrEqualTo",
    ),
    blocks(
        "",
        When::UnknownFields(&["clusterName", "selector", "checks", "remediation"]),
        "Capstan knows no field of the Machine API for it",
        "remove it, or keep the MachineHealthCheck in Cluster API",
    ),
    blocks(
        "checks",
        When::UnknownFields(&[
            "nodeStartupTimeoutSeconds",
            "unhealthyNodeConditions",
            "unhealthyMachineConditions",
        ]),
        "Capstan knows no field of the Machine API for it",
        "remove it, or keep the MachineHealthCheck in Cluster API",
    ),
    blocks(
        "remediation",
        When::UnknownFields(&["triggerIf", "templateRef"]),
        "Capstan knows no field of the Machine API for it",
        "remove it, or keep the MachineHealthCheck in Cluster API",
    ),
];
