//! What is installed in a cluster, as text: the files of `webhooks/` and `manifests/`, built in, and the admission policies,
//! made out of the rules. `capstan manifests` prints it.
//!
//! Nothing is decided here; tests hold the files against the server's routes and against the rules.

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
/// The command that writes `webhooks/policies` anew.
const REGENERATE: &str = "cargo run -p capstan -- manifests policies --out webhooks/policies";

/// The webhook configurations, as files: name and text of each.
#[must_use]
pub fn webhook_files() -> Vec<(String, String)> {
    files(&[("mutating.yaml", MUTATING), ("validating.yaml", VALIDATING)])
}

/// What the server may do, as a file.
#[must_use]
pub fn rbac_files() -> Vec<(String, String)> {
    files(&[("rbac.yaml", RBAC)])
}

/// The server itself, and the address under which the API server finds it, as files.
#[must_use]
pub fn deployment_files() -> Vec<(String, String)> {
    files(&[("service.yaml", SERVICE), ("deployment.yaml", DEPLOYMENT)])
}

/// What the controllers may do, as a file.
#[must_use]
pub fn controllers_rbac_files() -> Vec<(String, String)> {
    files(&[("controllers-rbac.yaml", CONTROLLERS_RBAC)])
}

/// The Deployment of the controllers, as a file.
#[must_use]
pub fn controllers_files() -> Vec<(String, String)> {
    files(&[("controllers.yaml", CONTROLLERS)])
}

/// The admission policies with their bindings, a file for each kind: what the API server refuses by itself, also while the
/// webhook is down.
///
/// # Errors
/// A policy cannot be written as YAML; a test keeps that from happening.
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

/// Files as one text, as `kubectl apply -f -` reads it.
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
