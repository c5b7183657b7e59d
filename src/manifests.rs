//! The manifests to install, as text: the files of `webhooks/` and `manifests/` by feature, and the
//! admission policies, which are generated from the rules. `capstan manifests` prints them.
//!
//! Components change an installation: the source of the certificates, or a single node. Their
//! patches are those of the kustomize components in `manifests/components`.
//!
//! This module decides nothing. Tests compare the files with the server's routes, with the rules,
//! and with what kustomize builds from the same files.

use anyhow::Context;
use capstan_core::admission::{Feature, policies};
use capstan_core::cel::rules::RuleFile;

mod component;
mod namespace;

/// A file in the binary: its name, which is unique within a kind of manifest, and its text.
type File = (&'static str, &'static str);

const ADMISSION_WEBHOOKS: &[File] = &[
    ("mutating.yaml", include_str!("../webhooks/admission/mutating.yaml")),
    ("validating.yaml", include_str!("../webhooks/admission/validating.yaml")),
];
const MIRRORING_WEBHOOKS: &[File] = &[
    (
        "mirroring-mutating.yaml",
        include_str!("../webhooks/mirroring/mutating.yaml"),
    ),
    (
        "mirroring-validating.yaml",
        include_str!("../webhooks/mirroring/validating.yaml"),
    ),
];
const KUBEADM_WEBHOOKS: &[File] = &[
    (
        "kubeadm-control-plane-mutating.yaml",
        include_str!("../webhooks/kubeadm-control-plane/mutating.yaml"),
    ),
    (
        "kubeadm-control-plane-validating.yaml",
        include_str!("../webhooks/kubeadm-control-plane/validating.yaml"),
    ),
];
const CONTROL_PLANE_WEBHOOKS: &[File] = &[
    (
        "control-plane-mutating.yaml",
        include_str!("../webhooks/control-plane/mutating.yaml"),
    ),
    (
        "control-plane-validating.yaml",
        include_str!("../webhooks/control-plane/validating.yaml"),
    ),
];
const MACHINE_POOL_WEBHOOKS: &[File] = &[
    (
        "machine-pools-mutating.yaml",
        include_str!("../webhooks/machine-pools/mutating.yaml"),
    ),
    (
        "machine-pools-validating.yaml",
        include_str!("../webhooks/machine-pools/validating.yaml"),
    ),
];
/// Policies that are written by hand: they are about deletions, and no rule file is.
const KUBEADM_POLICIES: &[File] = &[(
    "control-plane-machines.yaml",
    include_str!("../webhooks/kubeadm-control-plane/policies/control-plane-machines.yaml"),
)];
const MACHINE_POOL_POLICIES: &[File] = &[(
    "machine-pool-machines.yaml",
    include_str!("../webhooks/machine-pools/policies/machine-pool-machines.yaml"),
)];
const ADMISSION_RBAC: &[File] = &[
    ("rbac.yaml", include_str!("../manifests/base/rbac.yaml")),
    ("certificates.yaml", include_str!("../manifests/base/certificates.yaml")),
    (
        REGISTRATION_FILES[0],
        include_str!("../manifests/base/registration-rbac.yaml"),
    ),
];
/// The files of the Deployment that registers the webhooks. An installation with static webhooks
/// has none of them.
pub const REGISTRATION_FILES: [&str; 2] = ["registration-rbac.yaml", "registration.yaml"];
/// What the Deployment that registers the webhooks may do in addition in a bundle for OLM.
pub const BUNDLE_RBAC: &str = include_str!("../manifests/bundle/rbac.yaml");
const CONTROLLERS_RBAC: &[File] = &[(
    "controllers-rbac.yaml",
    include_str!("../manifests/components/controllers/rbac.yaml"),
)];
const MIRRORING_RBAC: &[File] = &[
    (
        "mirroring-rbac.yaml",
        include_str!("../manifests/components/mirroring/rbac.yaml"),
    ),
    (
        "mirroring-certificates.yaml",
        include_str!("../manifests/components/mirroring/certificates.yaml"),
    ),
];
const MIRRORING_CONTROLLERS_RBAC: &[File] = &[(
    "mirroring-controllers-rbac.yaml",
    include_str!("../manifests/components/mirroring-controllers/rbac.yaml"),
)];
const KUBEADM_RBAC: &[File] = &[
    (
        "kubeadm-control-plane-rbac.yaml",
        include_str!("../manifests/components/kubeadm-control-plane/rbac.yaml"),
    ),
    (
        "kubeadm-control-plane-certificates.yaml",
        include_str!("../manifests/components/kubeadm-control-plane/certificates.yaml"),
    ),
];
const CONTROL_PLANE_RBAC: &[File] = &[
    (
        "control-plane-rbac.yaml",
        include_str!("../manifests/components/control-plane/rbac.yaml"),
    ),
    (
        "control-plane-certificates.yaml",
        include_str!("../manifests/components/control-plane/certificates.yaml"),
    ),
];
const MACHINE_POOL_RBAC: &[File] = &[(
    "machine-pools-certificates.yaml",
    include_str!("../manifests/components/machine-pools/certificates.yaml"),
)];
const ADMISSION_DEPLOYMENT: &[File] = &[
    ("service.yaml", include_str!("../manifests/base/service.yaml")),
    ("deployment.yaml", include_str!("../manifests/base/deployment.yaml")),
    (
        REGISTRATION_FILES[1],
        include_str!("../manifests/base/registration.yaml"),
    ),
];
const CONTROLLERS_DEPLOYMENT: &[File] = &[(
    "controllers.yaml",
    include_str!("../manifests/components/controllers/deployment.yaml"),
)];
const MIRRORING_CONTROLLERS_DEPLOYMENT: &[File] = &[(
    "mirroring-controllers.yaml",
    include_str!("../manifests/components/mirroring-controllers/deployment.yaml"),
)];
const KUBEADM_CONTROLLERS_RBAC: &[File] = &[(
    "kubeadm-control-plane-controllers-rbac.yaml",
    include_str!("../manifests/components/kubeadm-control-plane-controllers/rbac.yaml"),
)];
const KUBEADM_CONTROLLERS_DEPLOYMENT: &[File] = &[(
    "kubeadm-control-plane-controllers.yaml",
    include_str!("../manifests/components/kubeadm-control-plane-controllers/deployment.yaml"),
)];
const MACHINE_POOL_CONTROLLERS_RBAC: &[File] = &[(
    "machine-pool-controllers-rbac.yaml",
    include_str!("../manifests/components/machine-pool-controllers/rbac.yaml"),
)];
const MACHINE_POOL_CONTROLLERS_DEPLOYMENT: &[File] = &[(
    "machine-pool-controllers.yaml",
    include_str!("../manifests/components/machine-pool-controllers/deployment.yaml"),
)];
const CONTROL_PLANE_CONTROLLERS_RBAC: &[File] = &[(
    "control-plane-controllers-rbac.yaml",
    include_str!("../manifests/components/control-plane-controllers/rbac.yaml"),
)];
const CONTROL_PLANE_CONTROLLERS_DEPLOYMENT: &[File] = &[(
    "control-plane-controllers.yaml",
    include_str!("../manifests/components/control-plane-controllers/deployment.yaml"),
)];
const CERT_MANAGER: &[File] = &[(
    "cert-manager.yaml",
    include_str!("../manifests/components/cert-manager/certificates.yaml"),
)];
const NETWORK_POLICIES: &[File] = &[(
    "network-policies.yaml",
    include_str!("../manifests/components/network-policies/networkpolicies.yaml"),
)];
const SECURE_METRICS: &[File] = &[(
    "secure-metrics.yaml",
    include_str!("../manifests/components/secure-metrics/rbac.yaml"),
)];

/// A folder of `manifests/components` that changes the objects of the features.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Component {
    /// What the feature `mirroring` changes in the webhook server.
    Mirroring,
    /// What the feature `kubeadm-control-plane` changes in the webhook server.
    KubeadmControlPlane,
    /// What the feature `control-plane` changes in the webhook server.
    ControlPlane,
    /// What the feature `machine-pools` changes in the webhook server.
    MachinePools,
    /// The webhook server reads its certificate from files that another program writes.
    CertificateFiles,
    /// cert-manager issues the certificate, and writes the `caBundle`s.
    CertManager,
    /// OpenShift's service CA issues the certificate, and writes the `caBundle`s.
    ServiceCa,
    /// One replica of each Deployment.
    SingleNode,
    /// Limits the connections of the pods.
    NetworkPolicies,
    /// The metrics over TLS, for clients with a token.
    SecureMetrics,
    /// The webhook configurations have no webhooks: Capstan registers them itself.
    Registration,
}

impl Component {
    /// The text of its `kustomization.yaml`.
    fn kustomization(self) -> &'static str {
        match self {
            Self::Mirroring => include_str!("../manifests/components/mirroring/kustomization.yaml"),
            Self::KubeadmControlPlane => {
                include_str!("../manifests/components/kubeadm-control-plane/kustomization.yaml")
            }
            Self::ControlPlane => include_str!("../manifests/components/control-plane/kustomization.yaml"),
            Self::MachinePools => include_str!("../manifests/components/machine-pools/kustomization.yaml"),
            Self::CertificateFiles => include_str!("../manifests/components/certificate-files/kustomization.yaml"),
            Self::CertManager => include_str!("../manifests/components/cert-manager/kustomization.yaml"),
            Self::ServiceCa => include_str!("../manifests/components/service-ca/kustomization.yaml"),
            Self::SingleNode => include_str!("../manifests/components/single-node/kustomization.yaml"),
            Self::NetworkPolicies => include_str!("../manifests/components/network-policies/kustomization.yaml"),
            Self::Registration => include_str!("../manifests/components/registration/kustomization.yaml"),
            Self::SecureMetrics => include_str!("../manifests/components/secure-metrics/kustomization.yaml"),
        }
    }

    /// The objects that it adds to the Deployments.
    #[must_use]
    pub fn files(self) -> Vec<(String, String)> {
        files(match self {
            Self::CertManager => CERT_MANAGER,
            Self::NetworkPolicies => NETWORK_POLICIES,
            Self::SecureMetrics => SECURE_METRICS,
            _ => &[],
        })
    }

    /// Applies its patches to files. A file without objects is removed.
    ///
    /// # Errors
    /// A patch does not fit; tests prevent that.
    pub fn patch(self, files: Vec<(String, String)>) -> anyhow::Result<Vec<(String, String)>> {
        component::apply(self.kustomization(), files)
    }

    /// As [`Component::patch`], with patches that `place` adapts, for example to another namespace.
    ///
    /// # Errors
    /// A patch does not fit; tests prevent that.
    pub fn patch_placed(
        self,
        files: Vec<(String, String)>,
        place: impl Fn(&str) -> String,
    ) -> anyhow::Result<Vec<(String, String)>> {
        component::apply(&place(self.kustomization()), files)
    }
}

/// The webhook configurations of a feature: file names and texts.
#[must_use]
pub fn webhook_files(feature: Feature) -> Vec<(String, String)> {
    files(match feature {
        Feature::Admission => ADMISSION_WEBHOOKS,
        Feature::Mirroring => MIRRORING_WEBHOOKS,
        Feature::KubeadmControlPlane => KUBEADM_WEBHOOKS,
        Feature::ControlPlane => CONTROL_PLANE_WEBHOOKS,
        Feature::MachinePools => MACHINE_POOL_WEBHOOKS,
        Feature::Controllers
        | Feature::MirroringControllers
        | Feature::KubeadmControlPlaneControllers
        | Feature::ControlPlaneControllers
        | Feature::MachinePoolControllers => &[],
    })
}

/// The ServiceAccounts and the permissions of a feature.
#[must_use]
pub fn rbac_files(feature: Feature) -> Vec<(String, String)> {
    files(match feature {
        Feature::Admission => ADMISSION_RBAC,
        Feature::Controllers => CONTROLLERS_RBAC,
        Feature::Mirroring => MIRRORING_RBAC,
        Feature::MirroringControllers => MIRRORING_CONTROLLERS_RBAC,
        Feature::KubeadmControlPlane => KUBEADM_RBAC,
        Feature::ControlPlane => CONTROL_PLANE_RBAC,
        Feature::KubeadmControlPlaneControllers => KUBEADM_CONTROLLERS_RBAC,
        Feature::ControlPlaneControllers => CONTROL_PLANE_CONTROLLERS_RBAC,
        Feature::MachinePoolControllers => MACHINE_POOL_CONTROLLERS_RBAC,
        Feature::MachinePools => MACHINE_POOL_RBAC,
    })
}

/// The Deployments of a feature, and the Service of the webhook server. The features `mirroring`,
/// `kubeadm-control-plane`, `control-plane`, and `machine-pools` have none: the components of the
/// same names add flags to the webhook server.
#[must_use]
pub fn deployment_files(feature: Feature) -> Vec<(String, String)> {
    files(match feature {
        Feature::Admission => ADMISSION_DEPLOYMENT,
        Feature::Controllers => CONTROLLERS_DEPLOYMENT,
        Feature::MirroringControllers => MIRRORING_CONTROLLERS_DEPLOYMENT,
        Feature::KubeadmControlPlaneControllers => KUBEADM_CONTROLLERS_DEPLOYMENT,
        Feature::ControlPlaneControllers => CONTROL_PLANE_CONTROLLERS_DEPLOYMENT,
        Feature::MachinePoolControllers => MACHINE_POOL_CONTROLLERS_DEPLOYMENT,
        Feature::Mirroring | Feature::KubeadmControlPlane | Feature::ControlPlane | Feature::MachinePools => &[],
    })
}

/// The admission policies of a feature with their bindings, one file for each of its rule files.
/// The API server enforces them itself, also while the webhook is down.
///
/// # Errors
/// A policy cannot be serialized as YAML; tests prevent that.
pub fn policy_files(feature: Feature, rules: &[RuleFile]) -> anyhow::Result<Vec<(String, String)>> {
    let by_hand = match feature {
        Feature::KubeadmControlPlane => KUBEADM_POLICIES,
        Feature::MachinePools => MACHINE_POOL_POLICIES,
        _ => &[],
    };
    let feature = feature.name();
    let generated = rules
        .iter()
        .map(|file| {
            let documents: Vec<String> = policies(std::slice::from_ref(file))
                .iter()
                .map(|policy| serde_saphyr::to_string(policy).context("writing a policy as YAML"))
                .collect::<anyhow::Result<_>>()?;
            let text = format!(
                "# Generated from webhooks/rules:\n\
                 # cargo run -p capstan -- manifests policies --feature {feature} --out webhooks/{feature}/policies\n{}",
                documents.join("---\n")
            );
            Ok((format!("{}.yaml", file.title()), text))
        });
    let by_hand = files(by_hand).into_iter().map(Ok);
    generated.chain(by_hand).collect()
}

/// The kustomize transformer that moves all manifests from their namespace to another one: its file
/// name and text.
///
/// # Errors
/// A manifest contains the namespace where no replacement can reach it; tests prevent that.
pub fn namespace_transformer(manifests: &[(String, String)], namespace: &str) -> anyhow::Result<(String, String)> {
    Ok((
        "replacements.yaml".to_owned(),
        namespace::transformer(&join(manifests), namespace)?,
    ))
}

/// Joins files into one text for `kubectl apply -f -`.
#[must_use]
pub fn join(files: &[(String, String)]) -> String {
    let texts: Vec<&str> = files.iter().map(|(_, text)| text.as_str()).collect();
    texts.join("---\n")
}

fn files(built_in: &[File]) -> Vec<(String, String)> {
    built_in
        .iter()
        .map(|(name, text)| ((*name).to_owned(), (*text).to_owned()))
        .collect()
}
