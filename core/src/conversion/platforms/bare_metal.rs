//! Bare metal: `BareMetalMachineProviderSpec` and `Metal3Machine` (v1beta1).
//!
//! The specs are convertible. The BareMetalHost would have to be handed over too, which is not
//! implemented, so a machine of bare metal cannot migrate.

use super::{Platform, unchanged};
use crate::conversion::Api::MachineApi;
use crate::conversion::Severity;
use crate::conversion::pass::Pass;
use crate::conversion::pass::rule::{Hand, Rule, cluster_api_only, list, required, same};
use crate::conversion::shape::Shape;

/// Bare metal.
pub(super) const PLATFORM: Platform = Platform {
    id: "bare-metal",
    title: "Bare metal (Metal3)",
    platform_type: "BareMetal",
    provider_spec: "BareMetalMachineProviderSpec",
    provider_spec_version: "baremetal.cluster.k8s.io/v1alpha1",
    machine: "Metal3Machine",
    version: "v1beta1",
    crd: "metal3-io/cluster-api-provider-metal3, August 2026",
    cluster: "Metal3Cluster",
    user_data: "userData",
    rules: RULES,
    computed: &[],
    has_instance_state: false,
    has_provider_id: true,
    hand_over: Some((
        "the BareMetalHost of a machine cannot be handed over yet",
        "keep the Machine in the API that it is in",
    )),
    normal: unchanged,
};

const RULES: &[Rule] = &[
    same("image.url", Shape::Text),
    same("image.checksum", Shape::Text),
    Rule::Hand(&IMAGE),
    same("customDeploy.method", Shape::Text),
    same("hostSelector.matchLabels", Shape::TextMap),
    list(
        "hostSelector.matchExpressions",
        "hostSelector.matchExpressions",
        EXPRESSION,
    ),
    Rule::Hand(&PROVIDER_ID),
    cluster_api_only(
        "image.checksumType",
        "the Machine API detects the type of the checksum",
        "remove it",
    ),
    cluster_api_only(
        "image.format",
        "the Machine API detects the format of the image",
        "remove it",
    ),
    cluster_api_only("dataTemplate", "the Machine API has no data templates", "remove it"),
    cluster_api_only("metaData", "the Machine API has no instance metadata", "remove it"),
    cluster_api_only("networkData", "the Machine API has no network data", "remove it"),
    cluster_api_only(
        "automatedCleaningMode",
        "the Machine API has no cleaning mode",
        "remove it",
    ),
    cluster_api_only(
        "failureDomain",
        "the Machine API has no failure domains of hosts",
        "remove it",
    ),
    cluster_api_only(
        "userData",
        "the Machine API reads the user data from the Secret of the Machine",
        "set bootstrap.dataSecretName of the Machine",
    ),
];

const EXPRESSION: &[Rule] = &[
    required(MachineApi, "key", "a requirement has a key", "set it"),
    required(MachineApi, "operator", "a requirement has an operator", "set it"),
    required(
        MachineApi,
        "values",
        "Cluster API requires the values of a requirement",
        "set them",
    ),
    same("key", Shape::Text),
    same("operator", Shape::Text),
    same("values", Shape::Texts),
];

const IMAGE: Hand = Hand {
    machine_api: &[],
    cluster_api: &[],
    about: "an image needs a URL",
    to: image,
    back: image,
};

fn image(pass: &mut Pass<'_>) {
    let image = pass.target.get("image");
    if image.is_some_and(|image| image.get("url").is_none()) {
        pass.block("image.url", "Cluster API requires the URL of the image", "set it");
    }
}

const PROVIDER_ID: Hand = Hand {
    machine_api: &[],
    cluster_api: &[],
    about: "spec.providerID of a Machine differs in the APIs and cannot be converted",
    to: provider_id,
    back: provider_id,
};

fn provider_id(pass: &mut Pass<'_>) {
    if pass.env.provider_id.is_some() {
        pass.report(
            Severity::Blocks,
            String::from("spec.providerID"),
            "the provider ID of a host differs in the APIs, and that of a node cannot change",
            "keep the Machine in the API that it is in",
        );
    }
}
