//! The rules that the parse checks, beyond the rules in CEL.

use super::TEMPLATE;
use crate::api::machine_openshift_io::control_plane_machine_set::KIND;
use crate::model::{Operation, RuleInfo};

/// Id, field, and what the rule requires. A field that begins with a dot is a field of the
/// template.
const RULES: [(&str, &str, &str); 16] = [
    ("cpms-state", "spec.state", "state is Active or Inactive"),
    ("cpms-replicas", "spec.replicas", "replicas is 3 or 5"),
    (
        "cpms-strategy",
        "spec.strategy.type",
        "the strategy is one that is known, and its gate is on",
    ),
    (
        "cpms-recreate-acknowledged",
        "metadata.annotations",
        "Recreate is acknowledged as a risk to etcd",
    ),
    (
        "cpms-name-prefix",
        "spec.machineNamePrefix",
        "the name prefix is an RFC 1123 subdomain of 1 to 245 characters",
    ),
    (
        "cpms-name-prefix-gate",
        "spec.machineNamePrefix",
        "a name prefix needs its feature gate",
    ),
    (
        "cpms-rollout-annotations",
        "metadata.annotations",
        "annotations that control a rollout can be read",
    ),
    ("cpms-selector-valid", "spec.selector", "the selector can be evaluated"),
    (
        "cpms-selector-matches",
        ".metadata.labels",
        "the selector matches the labels of the template",
    ),
    (
        "cpms-machine-type",
        "spec.template.machineType",
        "the machine type is one that is known",
    ),
    (
        "cpms-machine-template",
        "spec.template",
        "the template describes a machine",
    ),
    (
        "cpms-platform",
        ".failureDomains.platform",
        "the platform has failure domains",
    ),
    (
        "cpms-platform-agrees",
        ".failureDomains.platform",
        "failure domains and provider spec are of one platform",
    ),
    (
        "cpms-provider-spec",
        ".spec.providerSpec.value",
        "the provider spec is an object of a known kind",
    ),
    (
        "cpms-failure-domains",
        ".failureDomains",
        "failure domains that are given are not empty",
    ),
    (
        "cpms-failure-domain",
        ".failureDomains",
        "each failure domain is complete and can be used",
    ),
];

pub(super) fn table() -> Vec<RuleInfo> {
    let rule = |(id, field, message): (&str, &str, &str)| {
        let path = if field.starts_with('.') {
            format!("{TEMPLATE}{field}")
        } else {
            field.to_owned()
        };
        RuleInfo::webhook(id, KIND, &path, &[Operation::Create, Operation::Update], message)
    };
    RULES.into_iter().map(rule).collect()
}
