//! Kubeconfig files and clients of the control plane.

use anyhow::{Context, Result};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use kube::config::{KubeConfigOptions, Kubeconfig};

use super::certificates::Authority;

/// The name of the administrator.
pub(super) const ADMIN: &str = "admin";
/// The group that the API server allows everything, before it asks RBAC.
pub(super) const MASTERS: &str = "system:masters";

/// The text of a kubeconfig file for a user with a client certificate. It names no other file.
pub(super) fn with_certificate(url: &str, authority: &Authority, user: &str, groups: &[&str]) -> Result<String> {
    let pair = authority.user(user, groups)?;
    let credentials = serde_json::json!({
        "client-certificate-data": STANDARD.encode(pair.certificate),
        "client-key-data": STANDARD.encode(pair.key),
    });
    with_credentials(url, authority, user, &credentials)
}

/// The text of a kubeconfig file with the `user` entry `credentials`.
pub(super) fn with_credentials(
    url: &str,
    authority: &Authority,
    user: &str,
    credentials: &serde_json::Value,
) -> Result<String> {
    // JSON is YAML, and its strings are quoted.
    let text = serde_json::to_string_pretty(&serde_json::json!({
        "apiVersion": "v1",
        "kind": "Config",
        "current-context": "capstan-sandbox",
        "clusters": [{"name": "capstan-sandbox", "cluster": {
            "server": url,
            "certificate-authority-data": STANDARD.encode(authority.certificate()),
        }}],
        "users": [{"name": user, "user": credentials}],
        "contexts": [{"name": "capstan-sandbox", "context": {"cluster": "capstan-sandbox", "user": user}}],
    }));
    text.context("writing a kubeconfig")
}

/// A client from the text of a kubeconfig file. It ignores the environment.
pub(super) async fn client(kubeconfig: &str) -> Result<kube::Client> {
    let kubeconfig = Kubeconfig::from_yaml(kubeconfig).context("reading a kubeconfig")?;
    let mut config = kube::Config::from_custom_kubeconfig(kubeconfig, &KubeConfigOptions::default())
        .await
        .context("reading a kubeconfig")?;
    // A proxy from the environment cannot reach this loopback address.
    config.proxy_url = None;
    // A test must see the first answer, not the answer to a retry.
    config.default_retry = false;
    kube::Client::try_from(config).context("creating a client")
}
