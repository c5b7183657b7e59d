//! The platform-specific fields that the other API cannot express. Each platform has a file with
//! two tables.

mod aws;
mod azure;
mod bare_metal;
mod gcp;
mod ibm_vpc;
mod nutanix;
mod openstack;
mod power_vs;
mod vsphere;

use serde_json::Value;

use super::ConversionIssue;
use super::row::{Row, When, blocks, judge};

/// The tables of a platform.
pub(super) struct Platform {
    /// Kind of the provider spec.
    provider_spec: &'static str,
    /// Kind of the infrastructure machine.
    machine: &'static str,
    /// The table of the provider spec.
    to_cluster_api: &'static [Row],
    /// The table of the spec of the infrastructure machine.
    to_machine_api: &'static [Row],
}

const PLATFORMS: &[&Platform] = &[
    &aws::PLATFORM,
    &azure::PLATFORM,
    &bare_metal::PLATFORM,
    &gcp::PLATFORM,
    &ibm_vpc::PLATFORM,
    &nutanix::PLATFORM,
    &openstack::PLATFORM,
    &power_vs::PLATFORM,
    &vsphere::PLATFORM,
];

const NO_PLATFORM: &[Row] = &[blocks(
    "kind",
    When::Present,
    "machines of this platform cannot be converted",
    "keep the Machine in the Machine API",
)];

const NO_KIND: &[Row] = &[blocks(
    "kind",
    When::Missing,
    "the kind of the provider spec names the platform",
    "set the kind of the provider spec",
)];

/// Finds the issues of the provider spec at `root`.
pub(super) fn provider_spec(root: &str, value: &Value, found: &mut Vec<ConversionIssue>) {
    let kind = value.get("kind").and_then(Value::as_str);
    let platform = PLATFORMS.iter().find(|platform| Some(platform.provider_spec) == kind);
    let rows = match (platform, kind) {
        (Some(platform), _) => platform.to_cluster_api,
        (None, Some(_)) => NO_PLATFORM,
        (None, None) => NO_KIND,
    };
    judge(rows, root, value, found);
}

/// Finds the issues of the spec of an infrastructure machine, or of its template.
pub(super) fn infrastructure(kind: &str, spec: &Value, found: &mut Vec<ConversionIssue>) {
    let (machine, root, spec) = match kind.strip_suffix("Template") {
        Some(machine) => (
            machine,
            "spec.template.spec",
            spec.pointer("/template/spec").unwrap_or(&Value::Null),
        ),
        None => (kind, "spec", spec),
    };
    if let Some(platform) = PLATFORMS.iter().find(|platform| platform.machine == machine) {
        judge(platform.to_machine_api, root, spec, found);
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;
    use crate::api::infrastructure_cluster_x_k8s_io as infrastructure;

    #[test]
    fn every_platform_of_cluster_api_has_its_tables() {
        let known: BTreeSet<&str> = PLATFORMS.iter().map(|platform| platform.machine).collect();
        let served: BTreeSet<&str> = infrastructure::PLATFORMS
            .iter()
            .map(|platform| platform.machine)
            .collect();
        assert_eq!(known, served);
    }
}
