//! The map of each platform: the provider spec of the Machine API and the infrastructure machine of
//! Cluster API.

mod aws;
mod aws_devices;
mod azure;
mod azure_diagnostics;
mod bare_metal;
mod gcp;
mod gcp_disks;
mod ibm_vpc;
mod nutanix;
mod openstack;
mod openstack_filters;
mod openstack_ports;
mod power_vs;
mod vsphere;

use serde_json::{Map, Value};

use super::pass::rule::Rule;
use super::tree;
use super::{Api, Context};
use crate::api::machine_openshift_io;
use crate::model::distance;

/// The map of a platform.
#[derive(Debug)]
pub(super) struct Platform {
    /// The name of its page in the documentation.
    pub(super) id: &'static str,
    /// Its name in a sentence.
    pub(super) title: &'static str,
    /// Its name in `status.platformStatus.type` of the Infrastructure.
    pub(super) platform_type: &'static str,
    /// Kind of the provider spec.
    pub(super) provider_spec: &'static str,
    /// Group and version of the provider spec.
    pub(super) provider_spec_version: &'static str,
    /// Kind of the infrastructure machine. A template has the suffix `Template`.
    pub(super) machine: &'static str,
    /// Version of the infrastructure machine.
    pub(super) version: &'static str,
    /// Where the CRD of the infrastructure machine is from, for the documentation.
    pub(super) crd: &'static str,
    /// Kind of the infrastructure cluster.
    pub(super) cluster: &'static str,
    /// The reference to the user data in the provider spec.
    pub(super) user_data: &'static str,
    /// The map, between the provider spec and the spec of the infrastructure machine.
    pub(super) rules: &'static [Rule],
    /// The labels that the Machine API computes from the provider spec, with the field of each.
    pub(super) computed: &'static [(&'static str, &'static str)],
    /// Whether the status of the infrastructure machine has a state of the instance.
    pub(super) has_instance_state: bool,
    /// Whether a conversion writes the provider ID to the infrastructure machine. Some controllers
    /// find the instance by its name, and write the provider ID themselves.
    pub(super) has_provider_id: bool,
    /// Why a machine cannot be handed over although it can be converted, and what to do.
    pub(super) hand_over: Option<(&'static str, &'static str)>,
    /// Brings what the codecs written by hand read into the form that they write.
    pub(super) normal: fn(Api, &mut Map<String, Value>),
}

/// The platforms, in the order of their names.
pub(super) const PLATFORMS: &[&Platform] = &[
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

/// The platform of a kind of provider spec.
pub(super) fn of_provider_spec(kind: &str) -> Option<&'static Platform> {
    PLATFORMS
        .iter()
        .find(|platform| platform.provider_spec == kind)
        .copied()
}

/// The names of the platforms that have a conversion, as `status.platformStatus.type` of an
/// Infrastructure has them.
pub fn platform_types() -> impl Iterator<Item = &'static str> {
    PLATFORMS.iter().map(|platform| platform.platform_type)
}

/// The name of the platform of a cluster, from its Infrastructure.
pub fn platform_type(infrastructure: &Value) -> Option<&str> {
    tree::text(infrastructure, "status.platformStatus.type")
}

/// The platform of an Infrastructure.
pub(super) fn of_infrastructure(infrastructure: &Value) -> Option<&'static Platform> {
    let type_ = platform_type(infrastructure)?;
    let mut platforms = PLATFORMS.iter();
    platforms.find(|platform| platform.platform_type == type_).copied()
}

/// The platform of a provider spec. The Machine API reads one without a kind as a provider spec of
/// the platform of the cluster.
pub(super) fn of_spec(kind: Option<&str>, context: &Context<'_>) -> Option<&'static Platform> {
    match kind {
        Some(kind) => of_provider_spec(kind),
        None => context.infrastructure.found().and_then(of_infrastructure),
    }
}

/// The kind of a provider spec whose name is most similar, if one is similar. A kind that starts
/// with the name of a platform is of this platform, whatever follows.
pub(super) fn similar_spec(kind: &str) -> Option<&'static str> {
    let starts_as = |known: &&'static str| {
        let name = known.split("Provider").next().unwrap_or_default();
        kind.starts_with(name.trim_end_matches("Machine"))
    };
    let known = || PLATFORMS.iter().map(|platform| platform.provider_spec);
    let similar = known().filter_map(|known| Some((distance(known, kind)?, known)));
    let similar = similar.min().map(|(_, known)| known);
    known()
        .find(starts_as)
        .filter(|_| kind.contains("Provider"))
        .or(similar)
}

/// The kind of infrastructure machine, or of its template, whose name is most similar, if one is
/// similar.
pub(super) fn similar_machine(kind: &str, template: bool) -> Option<String> {
    let suffix = if template { "Template" } else { "" };
    let similar = PLATFORMS.iter().filter_map(|platform| {
        let known = format!("{}{suffix}", platform.machine);
        Some((distance(&known, kind)?, known))
    });
    similar.min().map(|(_, known)| known)
}

/// What the provider IDs of the platforms start with, by the names of their pages.
const SCHEMES: &[(&str, &str)] = &[
    ("aws", "aws:"),
    ("azure", "azure:"),
    ("bare-metal", "baremetalhost:"),
    ("bare-metal", "metal3:"),
    ("gcp", "gce:"),
    ("ibm-vpc", "ibm:"),
    ("nutanix", "nutanix:"),
    ("openstack", "openstack:"),
    ("power-vs", "ibmpowervs:"),
    ("vsphere", "vsphere:"),
];

/// The other platform whose provider IDs start like this one. `None` also for a text that is no ID
/// of a known platform.
pub(super) fn other_of_provider_id(platform: &Platform, id: &str) -> Option<&'static Platform> {
    let (of_id, _) = SCHEMES.iter().find(|(_, scheme)| id.starts_with(scheme))?;
    let other = PLATFORMS.iter().find(|platform| platform.id == *of_id)?;
    (other.id != platform.id).then_some(other)
}

/// The platform of a kind of infrastructure machine.
pub(super) fn of_machine(kind: &str) -> Option<&'static Platform> {
    PLATFORMS.iter().find(|platform| platform.machine == kind).copied()
}

/// Former groups of provider specs. Machines that were created long ago still have them.
const FORMER_GROUPS: [&str; 8] = [
    "awsproviderconfig.openshift.io",
    "azureproviderconfig.openshift.io",
    "gcpprovider.openshift.io",
    "gcpproviderconfig.openshift.io",
    "ibmcloudproviderconfig.openshift.io",
    "openstackproviderconfig.openshift.io",
    "vsphereprovider.openshift.io",
    "vsphereproviderconfig.openshift.io",
];

/// Whether a provider spec of this version has the fields of the platform: the version is the
/// present one, and the group is the present one, a former one, or `machine.openshift.io`.
pub(super) fn is_version(platform: &Platform, text: &str) -> bool {
    let (group, version) = text.split_once('/').unwrap_or(("", text));
    let (present, present_version) = platform.provider_spec_version.split_once('/').unwrap_or_default();
    let known = [present, machine_openshift_io::GROUP];
    let is_former = FORMER_GROUPS.contains(&group);
    version == present_version && (known.contains(&group) || is_former)
}

/// A platform whose codecs have one form only.
fn unchanged(_: Api, _: &mut Map<String, Value>) {}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;
    use crate::api::infrastructure_cluster_x_k8s_io as infrastructure;

    #[test]
    fn w62_the_hint_for_a_kind_of_provider_spec_stays_on_its_platform() {
        for (kind, hint) in [
            ("AWSMachineProviderSpec", Some("AWSMachineProviderConfig")),
            ("GCPMachineProviderConfig", Some("GCPMachineProviderSpec")),
            ("OpenStackProviderSpec", Some("OpenstackProviderSpec")),
            ("GPCMachineProviderSpec", Some("GCPMachineProviderSpec")),
            ("Pod", None),
        ] {
            assert_eq!(similar_spec(kind), hint, "{kind}");
        }
        for platform in PLATFORMS {
            let other = match platform.provider_spec.strip_suffix("Spec") {
                Some(name) => format!("{name}Config"),
                None => platform.provider_spec.replace("Config", "Spec"),
            };
            assert_eq!(similar_spec(&other), Some(platform.provider_spec), "{other}");
        }
    }

    #[test]
    fn every_platform_of_cluster_api_has_its_map() {
        let known: BTreeSet<&str> = PLATFORMS.iter().map(|platform| platform.machine).collect();
        let served: BTreeSet<&str> = infrastructure::PLATFORMS
            .iter()
            .map(|platform| platform.machine)
            .collect();
        assert_eq!(known, served);
        for served in infrastructure::PLATFORMS {
            let platform = of_machine(served.machine).unwrap();
            assert_eq!(platform.version, served.version, "{}", served.machine);
        }
    }
}
