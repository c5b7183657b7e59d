//! The manifests to install, as text: the files of `webhooks/` and `manifests/` by feature, and the
//! admission policies, which are generated from the rules. `capstan manifests` prints them.
//!
//! This module decides nothing. Tests compare the files with the server's routes, with the rules,
//! and with what kustomize builds from the same files.

use anyhow::Context;
use capstan_core::admission::{Feature, policies};
use capstan_core::cel::rules::RuleFile;

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
const ADMISSION_RBAC: &[File] = &[("rbac.yaml", include_str!("../manifests/base/rbac.yaml"))];
const CONTROLLERS_RBAC: &[File] = &[(
    "controllers-rbac.yaml",
    include_str!("../manifests/components/controllers/rbac.yaml"),
)];
const MIRRORING_RBAC: &[File] = &[(
    "mirroring-rbac.yaml",
    include_str!("../manifests/components/mirroring/rbac.yaml"),
)];
const ADMISSION_DEPLOYMENT: &[File] = &[
    ("service.yaml", include_str!("../manifests/base/service.yaml")),
    ("deployment.yaml", include_str!("../manifests/base/deployment.yaml")),
];
const CONTROLLERS_DEPLOYMENT: &[File] = &[(
    "controllers.yaml",
    include_str!("../manifests/components/controllers/deployment.yaml"),
)];
/// The flags that a feature adds to the webhook server, as the component of kustomize does.
const MIRRORING_FLAGS: &[&str] = &["--mirroring", "--webhook-configuration=capstan-mirroring"];

/// The webhook configurations of a feature: file names and texts.
#[must_use]
pub fn webhook_files(feature: Feature) -> Vec<(String, String)> {
    files(match feature {
        Feature::Admission => ADMISSION_WEBHOOKS,
        Feature::Controllers => &[],
        Feature::Mirroring => MIRRORING_WEBHOOKS,
    })
}

/// The ServiceAccounts and the permissions of a feature.
#[must_use]
pub fn rbac_files(feature: Feature) -> Vec<(String, String)> {
    files(match feature {
        Feature::Admission => ADMISSION_RBAC,
        Feature::Controllers => CONTROLLERS_RBAC,
        Feature::Mirroring => MIRRORING_RBAC,
    })
}

/// The Deployments of a feature, and the Service of the webhook server. The feature `mirroring` has
/// none: it adds [`server_flags`] to the webhook server.
#[must_use]
pub fn deployment_files(feature: Feature) -> Vec<(String, String)> {
    files(match feature {
        Feature::Admission => ADMISSION_DEPLOYMENT,
        Feature::Controllers => CONTROLLERS_DEPLOYMENT,
        Feature::Mirroring => &[],
    })
}

/// The flags that a feature adds to the webhook server.
#[must_use]
pub fn server_flags(feature: Feature) -> &'static [&'static str] {
    match feature {
        Feature::Admission | Feature::Controllers => &[],
        Feature::Mirroring => MIRRORING_FLAGS,
    }
}

/// The admission policies of a feature with their bindings, one file for each of its rule files.
/// The API server enforces them itself, also while the webhook is down.
///
/// # Errors
/// A policy cannot be serialized as YAML; tests prevent that.
pub fn policy_files(feature: Feature, rules: &[RuleFile]) -> anyhow::Result<Vec<(String, String)>> {
    let feature = feature.name();
    rules
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
        })
        .collect()
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
