//! Machines and MachineSets, save what is their platform's.

use serde_json::Value;

use super::row::{Row, When, blocks, judge, loses};
use super::{ConversionIssue, platforms};

/// What Cluster API cannot say of the spec of a Machine of the Machine API.
const MACHINE_API_MACHINE: &[Row] = &[
    blocks(
        "metadata.name",
        When::Present,
        "Cluster API does not hand a name on to the node",
        "remove it: the Machine API does not use it either",
    ),
    blocks(
        "metadata.generateName",
        When::Present,
        "Cluster API does not hand a name on to the node",
        "remove it: the Machine API does not use it either",
    ),
    blocks(
        "metadata.namespace",
        When::Present,
        "Cluster API does not hand a namespace on to the node",
        "remove it: a node has none",
    ),
    loses(
        "metadata.ownerReferences",
        When::Present,
        "Cluster API does not hand owners on to the node",
        "remove them: the Machine API does not use them either",
    ),
    blocks(
        "providerSpec.value",
        When::Missing,
        "there is nothing to make the infrastructure machine from",
        "fill in the provider spec",
    ),
    loses(
        "taints[].timeAdded",
        When::Present,
        "Cluster API does not keep when a taint was added",
        "nothing is to be done: the taint itself is kept",
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
        "Capstan does not know a field of Cluster API for it",
        "remove it, or keep the machine with the Machine API",
    ),
];

const MACHINE_API_SET: &[Row] = &[
    blocks(
        "template.metadata.name",
        When::Present,
        "Cluster API names machines itself",
        "remove it from the template",
    ),
    blocks(
        "template.metadata.generateName",
        When::Present,
        "Cluster API names machines itself",
        "remove it from the template",
    ),
    blocks(
        "template.metadata.namespace",
        When::Present,
        "machines live in the namespace of their set",
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
        "Capstan does not know a field of Cluster API for it",
        "remove it, or keep the set with the Machine API",
    ),
];

/// What the Machine API cannot say of the spec of a Machine of Cluster API.
pub(super) const CLUSTER_API_MACHINE: &[Row] = &[
    blocks(
        "version",
        When::Present,
        "the Machine API does not choose the version of Kubernetes",
        "remove it: the machine config of the cluster decides",
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
        "the Machine API boots a machine with a Secret, not with a bootstrap provider",
        "set bootstrap.dataSecretName instead",
    ),
    blocks(
        "minReadySeconds",
        When::Present,
        "a Machine of the Machine API has no time until it counts as available",
        "remove it; on a MachineSet of the Machine API it stands at spec.minReadySeconds",
    ),
    blocks(
        "deletion.nodeDrainTimeoutSeconds",
        When::Present,
        "the Machine API drains a node for as long as it takes",
        "remove it",
    ),
    blocks(
        "deletion.nodeVolumeDetachTimeoutSeconds",
        When::Present,
        "the Machine API has no time limit for detaching volumes",
        "remove it",
    ),
    blocks(
        "deletion.nodeDeletionTimeoutSeconds",
        When::Not(10),
        "the Machine API always takes 10 seconds for the deletion of a node",
        "set it to 10 or remove it",
    ),
    blocks(
        "taints[].propagation",
        When::NotOneOf(&["", "Always"]),
        "the Machine API adds a taint back whenever it is gone",
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
        "Capstan does not know a field of the Machine API for it",
        "remove it, or keep the machine with Cluster API",
    ),
];

pub(super) const CLUSTER_API_SET: &[Row] = &[
    blocks(
        "machineNaming",
        When::Present,
        "the Machine API names machines itself",
        "remove it",
    ),
    blocks(
        "machineNamingStrategy",
        When::Present,
        "the Machine API names machines itself",
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
        "Capstan does not know a field of the Machine API for it",
        "remove it, or keep the set with Cluster API",
    ),
    blocks(
        "deletion",
        When::UnknownFields(&["order"]),
        "Capstan does not know a field of the Machine API for it",
        "remove it, or keep the set with Cluster API",
    ),
];

/// A label key or annotation key has a name of at most 63 characters behind one slash.
fn hook_fits(name: &str) -> bool {
    name.len() <= 63 && !name.contains('/')
}

/// A Machine of the Machine API, or a template of one at `root`.
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
                    "Cluster API keeps a hook as an annotation, whose name has at most 63 characters and no slash",
                    "have the owner of the hook give it a shorter name",
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

/// A MachineSet of the Machine API.
pub(super) fn machine_api_set(spec: &Value, found: &mut Vec<ConversionIssue>) {
    judge(MACHINE_API_SET, "spec", spec, found);
    let machine = spec.pointer("/template/spec").unwrap_or(&Value::Null);
    machine_api_machine("spec.template.spec", machine, found);
}
