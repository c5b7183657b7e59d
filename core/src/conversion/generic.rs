//! The platform-independent fields of Machines and MachineSets.

use serde_json::Value;

use super::row::{Row, When, blocks, judge, loses};
use super::{ConversionIssue, platforms};

/// Fields of a Machine of the Machine API that Cluster API cannot express.
const MACHINE_API_MACHINE: &[Row] = &[
    blocks(
        "metadata.name",
        When::Present,
        "Cluster API does not pass this name to the node",
        "remove it: the Machine API does not use it either",
    ),
    blocks(
        "metadata.generateName",
        When::Present,
        "Cluster API does not pass this name to the node",
        "remove it: the Machine API does not use it either",
    ),
    blocks(
        "metadata.namespace",
        When::Present,
        "Cluster API does not pass this namespace to the node",
        "remove it: a node has no namespace",
    ),
    loses(
        "metadata.ownerReferences",
        When::Present,
        "Cluster API does not pass owner references to the node",
        "remove them: the Machine API does not use them either",
    ),
    blocks(
        "providerSpec.value",
        When::Missing,
        "the infrastructure machine is created from the provider spec",
        "set the provider spec",
    ),
    loses(
        "taints[].timeAdded",
        When::Present,
        "Cluster API does not store the time when a taint was added",
        "no action is needed: the taint itself is kept",
    ),
    blocks(
        "",
        When::UnknownFields(&[
            "metadata",
            "providerSpec",
            "providerID",
            "lifecycleHooks",
            "taints",
            "authoritativeAPI",
        ]),
        "Capstan knows no field of Cluster API for it",
        "remove it, or keep the Machine in the Machine API",
    ),
];

/// Fields of a MachineSet of the Machine API that Cluster API cannot express.
const MACHINE_API_SET: &[Row] = &[
    blocks(
        "template.metadata.name",
        When::Present,
        "Cluster API generates the names of Machines",
        "remove it from the template",
    ),
    blocks(
        "template.metadata.generateName",
        When::Present,
        "Cluster API generates the names of Machines",
        "remove it from the template",
    ),
    blocks(
        "template.metadata.namespace",
        When::Present,
        "Machines are created in the namespace of their MachineSet",
        "remove it from the template",
    ),
    blocks(
        "",
        When::UnknownFields(&[
            "replicas",
            "minReadySeconds",
            "selector",
            "deletePolicy",
            "template",
            "authoritativeAPI",
        ]),
        "Capstan knows no field of Cluster API for it",
        "remove it, or keep the MachineSet in the Machine API",
    ),
];

/// Fields of a Machine of Cluster API that the Machine API cannot express.
pub(super) const CLUSTER_API_MACHINE: &[Row] = &[
    blocks(
        "version",
        When::Present,
        "the Machine API does not set the Kubernetes version",
        "remove it: the MachineConfig of the cluster sets the version",
    ),
    blocks(
        "readinessGates",
        When::Present,
        "the Machine API has no readiness gates",
        "remove them",
    ),
    blocks(
        "bootstrap.configRef",
        When::Present,
        "the Machine API bootstraps a machine from a Secret, not with a bootstrap provider",
        "set bootstrap.dataSecretName instead",
    ),
    blocks(
        "minReadySeconds",
        When::Present,
        "a Machine of the Machine API has no minReadySeconds",
        "remove it; a MachineSet of the Machine API has spec.minReadySeconds",
    ),
    blocks(
        "deletion.nodeDrainTimeoutSeconds",
        When::Present,
        "the Machine API has no timeout for draining a node",
        "remove it",
    ),
    blocks(
        "deletion.nodeVolumeDetachTimeoutSeconds",
        When::Present,
        "the Machine API has no timeout for detaching volumes",
        "remove it",
    ),
    blocks(
        "deletion.nodeDeletionTimeoutSeconds",
        When::Not(10),
        "the Machine API always uses a timeout of 10 seconds for the deletion of a node",
        "set it to 10 or remove it",
    ),
    blocks(
        "taints[].propagation",
        When::NotOneOf(&["", "Always"]),
        "the Machine API always restores a removed taint",
        "set it to Always, or remove the taint",
    ),
    blocks(
        "",
        When::UnknownFields(&[
            "clusterName",
            "bootstrap",
            "infrastructureRef",
            "version",
            "providerID",
            "failureDomain",
            "minReadySeconds",
            "readinessGates",
            "deletion",
            "taints",
        ]),
        "Capstan knows no field of the Machine API for it",
        "remove it, or keep the Machine in Cluster API",
    ),
];

/// Fields of a MachineSet of Cluster API that the Machine API cannot express.
pub(super) const CLUSTER_API_SET: &[Row] = &[
    blocks(
        "machineNaming",
        When::Present,
        "the Machine API generates the names of Machines",
        "remove it",
    ),
    blocks(
        "machineNamingStrategy",
        When::Present,
        "the Machine API generates the names of Machines",
        "remove it",
    ),
    blocks(
        "",
        When::UnknownFields(&[
            "clusterName",
            "replicas",
            "selector",
            "template",
            "deletion",
            "machineNaming",
            "machineNamingStrategy",
        ]),
        "Capstan knows no field of the Machine API for it",
        "remove it, or keep the MachineSet in Cluster API",
    ),
    blocks(
        "deletion",
        When::UnknownFields(&["order"]),
        "Capstan knows no field of the Machine API for it",
        "remove it, or keep the MachineSet in Cluster API",
    ),
];

/// Whether a hook name fits into an annotation key: at most 63 characters, and no slash.
fn hook_fits(name: &str) -> bool {
    name.len() <= 63 && !name.contains('/')
}

/// Finds the issues of a Machine of the Machine API, or of a machine template at `root`.
pub(super) fn machine_api_machine(root: &str, spec: &Value, found: &mut Vec<ConversionIssue>) {
    judge(MACHINE_API_MACHINE, root, spec, found);
    for list in ["preDrain", "preTerminate"] {
        let hooks = spec
            .pointer(&format!("/lifecycleHooks/{list}"))
            .and_then(Value::as_array);
        for (index, hook) in hooks.into_iter().flatten().enumerate() {
            let name = hook.get("name").and_then(Value::as_str).unwrap_or_default();
            if !hook_fits(name) {
                let row = blocks(
                    "",
                    When::Present,
                    "Cluster API stores a hook as an annotation, whose name has at most 63 characters and no slash",
                    "let the owner of the hook use a shorter name",
                );
                let at = format!("{root}.lifecycleHooks.{list}[{index}].name");
                judge(&[row], &at, &Value::from(name), found);
            }
        }
    }
    if let Some(provider_spec) = spec.pointer("/providerSpec/value") {
        platforms::provider_spec(&format!("{root}.providerSpec.value"), provider_spec, found);
    }
}

/// Finds the issues of a MachineSet of the Machine API.
pub(super) fn machine_api_set(spec: &Value, found: &mut Vec<ConversionIssue>) {
    judge(MACHINE_API_SET, "spec", spec, found);
    let machine = spec.pointer("/template/spec").unwrap_or(&Value::Null);
    machine_api_machine("spec.template.spec", machine, found);
}
