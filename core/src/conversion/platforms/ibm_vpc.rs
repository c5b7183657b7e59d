//! IBM Cloud VPC: `IBMCloudMachineProviderSpec` and `IBMVPCMachine` (v1beta2).

use serde_json::{Value, json};

use super::Platform;
use crate::conversion::Api::{ClusterApi, MachineApi};
use crate::conversion::Severity;
use crate::conversion::load_balancers::{LOAD_BALANCERS, normal as normal_balancers};
use crate::conversion::metadata::{INSTANCE_TYPE, REGION, ZONE};
use crate::conversion::pass::keep::Described;
use crate::conversion::pass::rule::{
    Hand, Literal, Rule, cluster_api_only, constant, machine_api_only, moved, only, required, same, shared,
};
use crate::conversion::shape::{Converted, Fault, Shape, fault};

/// IBM Cloud VPC.
pub(super) const PLATFORM: Platform = Platform {
    id: "ibm-vpc",
    title: "IBM Cloud VPC",
    platform_type: "IBMCloud",
    provider_spec: "IBMCloudMachineProviderSpec",
    provider_spec_version: "ibmcloudproviderconfig.openshift.io/v1beta1",
    machine: "IBMVPCMachine",
    version: "v1beta2",
    crd: "kubernetes-sigs/cluster-api-provider-ibmcloud, August 2026",
    cluster: "IBMVPCCluster",
    user_data: "userDataSecret",
    rules: RULES,
    computed: &[(INSTANCE_TYPE, "profile"), (REGION, "region"), (ZONE, "zone")],
    has_instance_state: true,
    has_provider_id: true,
    hand_over: None,
    normal: |_, spec| normal_balancers(spec),
};

const BOOT_ONLY: &str = "the Machine API has only an encryption key for the boot volume";

const RULES: &[Rule] = &[
    required(MachineApi, "image", "a machine starts from an image", "set it"),
    required(
        ClusterApi,
        "image.name",
        "the Machine API selects an image by its name",
        "use image.name",
    ),
    moved("image", "image.name", Shape::Text),
    cluster_api_only(
        "image.id",
        "the Machine API selects an image by its name",
        "use image.name",
    ),
    same("profile", Shape::Text),
    required(MachineApi, "zone", "Cluster API requires the zone", "set it"),
    required(ClusterApi, "zone", "the Machine API requires the zone", "set it"),
    Rule::Hand(&ZONES),
    moved("bootVolume.encryptionKey", "bootVolume.encryptionKeyCRN", Shape::Text),
    cluster_api_only("bootVolume.name", BOOT_ONLY, "remove it"),
    cluster_api_only("bootVolume.sizeGiB", BOOT_ONLY, "remove it"),
    cluster_api_only("bootVolume.iops", BOOT_ONLY, "remove it"),
    cluster_api_only("bootVolume.bandwidth", BOOT_ONLY, "remove it"),
    only(
        ClusterApi,
        "bootVolume.profile",
        &[Literal::Text("general-purpose")],
        Severity::Blocks,
        BOOT_ONLY,
        "set it to general-purpose",
    ),
    only(
        ClusterApi,
        "bootVolume.deleteVolumeOnInstanceDelete",
        &[Literal::Bool(true)],
        Severity::Blocks,
        "the Machine API deletes the volume with the instance",
        "set it to true",
    ),
    moved("dedicatedHost", "placementTarget.dedicatedHost.name", Shape::Text),
    cluster_api_only(
        "placementTarget.dedicatedHost.id",
        "the Machine API selects a dedicated host by its name",
        "use its name",
    ),
    cluster_api_only(
        "placementTarget.dedicatedHostGroup",
        "the Machine API has no groups of dedicated hosts",
        "use a dedicated host",
    ),
    cluster_api_only(
        "placementTarget.placementGroup",
        "the Machine API has no placement groups",
        "remove it",
    ),
    same("primaryNetworkInterface.subnet", Shape::Text),
    same(
        "primaryNetworkInterface.securityGroups",
        Shape::Codec {
            to: groups_to_cluster_api,
            back: groups_to_machine_api,
            about: "a list of names is a list of objects with a name",
        },
    ),
    shared("vpc", &["vpc"], ""),
    shared("region", &["region"], "ibmcloud.location"),
    shared("resourceGroup", &["resourceGroup"], "ibmcloud.resourceGroupName"),
    shared("networkResourceGroup", &["network.resourceGroup", "resourceGroup"], ""),
    constant(
        MachineApi,
        "credentialsSecret.name",
        Literal::Text("ibmcloud-credentials"),
        "Cluster API uses the credentials of the cluster",
        "use the Secret ibmcloud-credentials",
    ),
    machine_api_only("bandwidth", "Cluster API does not set the bandwidth", "remove it"),
    machine_api_only("tags", "Cluster API does not tag instances", "remove them"),
    Rule::Hand(&LOAD_BALANCERS),
    cluster_api_only(
        "name",
        "the Machine API names an instance after its Machine",
        "remove it",
    ),
    cluster_api_only(
        "catalogOffering",
        "the Machine API selects an image by its name",
        "set image",
    ),
    cluster_api_only("sshKeys", "the Machine API adds no SSH keys", "remove them"),
    cluster_api_only(
        "additionalVolumes",
        "the Machine API creates a boot volume only",
        "remove them",
    ),
    cluster_api_only(
        "loadBalancerPoolMembers",
        "the Machine API does not register pool members",
        "remove them",
    ),
];

const ZONES: Hand = Hand {
    machine_api: &["zone"],
    cluster_api: &["zone", "Machine.failureDomain"],
    about: "zone and the failure domain of the Machine, which must be equal; the absence of a failure domain is carried \
            along",
    to: |pass| {
        let without_domain = pass.restored(ZONE_SECTION, &OF_ZONE).is_some();
        if let Some(zone) = pass.take_text("zone") {
            if !without_domain {
                pass.put("Machine.failureDomain", zone.as_str().into());
            }
            pass.put("zone", zone.into());
        }
    },
    back: |pass| {
        let domain = pass.take_text("Machine.failureDomain");
        let zone = pass.take_text("zone");
        if domain.is_none() && zone.is_some() {
            pass.keep(ZONE_SECTION, true.into(), OF_ZONE);
        }
        if domain.is_some() && domain != zone {
            pass.block(
                "zone",
                "it differs from spec.failureDomain of the Machine, and the Machine API has one zone",
                "set both to the same zone",
            );
        }
        if let Some(zone) = zone {
            pass.put("zone", zone.into());
        }
    },
};

/// The section of the annotation about a Machine without a failure domain.
const ZONE_SECTION: &str = "withoutFailureDomain";
const OF_ZONE: Described = Described::Fields(&["zone"]);

const GROUPS: Fault = fault("must be a list of names of security groups", "correct the list");

fn groups_to_cluster_api(value: &Value) -> Converted {
    let names = value
        .as_array()
        .ok_or(GROUPS)?
        .iter()
        .map(|name| name.as_str().filter(|name| !name.is_empty()));
    let names: Vec<&str> = names.collect::<Option<_>>().ok_or(GROUPS)?;
    let groups: Vec<Value> = names.into_iter().map(|name| json!({"name": name})).collect();
    Ok((!groups.is_empty()).then_some(groups.into()))
}

fn groups_to_machine_api(value: &Value) -> Converted {
    const BY_NAME: Fault = fault(
        "the Machine API selects a security group by its name only",
        "use its name",
    );
    let mut names = Vec::new();
    for group in value.as_array().ok_or(GROUPS)? {
        let fields = group.as_object().ok_or(GROUPS)?;
        if fields.iter().any(|(field, value)| field != "name" && !value.is_null()) {
            return Err(BY_NAME);
        }
        names.push(
            fields
                .get("name")
                .filter(|name| name.as_str().is_some_and(|name| !name.is_empty()))
                .ok_or(BY_NAME)?
                .clone(),
        );
    }
    Ok((!names.is_empty()).then_some(names.into()))
}
