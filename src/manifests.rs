//! The manifests to install, as text: the files of `webhooks/` and `manifests/`, and the admission
//! policies, which are generated from the rules. `capstan manifests` prints them.
//!
//! This module decides nothing. Tests compare the files with the server's routes and with the
//! rules.

use anyhow::Context;
use capstan_core::admission::policies;
use capstan_core::cel::rules::RuleFile;

const MUTATING: &str = include_str!("../webhooks/mutating.yaml");
const VALIDATING: &str = include_str!("../webhooks/validating.yaml");
const RBAC: &str = include_str!("../manifests/rbac.yaml");
const CONTROLLERS_RBAC: &str = include_str!("../manifests/controllers-rbac.yaml");
const CONTROLLERS: &str = include_str!("../manifests/controllers.yaml");
const SERVICE: &str = include_str!("../manifests/service.yaml");
const DEPLOYMENT: &str = include_str!("../manifests/deployment.yaml");
/// The command that regenerates `webhooks/policies`.
const REGENERATE: &str = "cargo run -p capstan -- manifests policies --out webhooks/policies";

/// The webhook configurations: file names and texts.
#[must_use]
pub fn webhook_files() -> Vec<(String, String)> {
    files(&[("mutating.yaml", MUTATING), ("validating.yaml", VALIDATING)])
}

/// The ServiceAccount and the permissions of the server.
#[must_use]
pub fn rbac_files() -> Vec<(String, String)> {
    files(&[("rbac.yaml", RBAC)])
}

/// The server's Service and Deployment.
#[must_use]
pub fn deployment_files() -> Vec<(String, String)> {
    files(&[("service.yaml", SERVICE), ("deployment.yaml", DEPLOYMENT)])
}

/// The ServiceAccount and the permissions of the controllers.
#[must_use]
pub fn controllers_rbac_files() -> Vec<(String, String)> {
    files(&[("controllers-rbac.yaml", CONTROLLERS_RBAC)])
}

/// The Deployment of the controllers.
#[must_use]
pub fn controllers_files() -> Vec<(String, String)> {
    files(&[("controllers.yaml", CONTROLLERS)])
}

/// The admission policies with their bindings, one file for each kind. The API server enforces them
/// itself, also while the webhook is down.
///
/// # Errors
/// A policy cannot be serialized as YAML; tests prevent that.
pub fn policy_files(rules: &[RuleFile]) -> anyhow::Result<Vec<(String, String)>> {
    rules
        .iter()
        .map(|file| {
            let documents: Vec<String> = policies(std::slice::from_ref(file))
                .iter()
                .map(|policy| serde_saphyr::to_string(policy).context("writing a policy as YAML"))
                .collect::<anyhow::Result<_>>()?;
            let text = format!(
                "# Generated from webhooks/rules: {REGENERATE}\n{}",
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

fn files(built_in: &[(&str, &str)]) -> Vec<(String, String)> {
    built_in
        .iter()
        .map(|(name, text)| ((*name).to_owned(), (*text).to_owned()))
        .collect()
}
