//! Registers webhooks that run on loopback. It uses the manifests for clusters and changes only the
//! address in them.

use std::path::PathBuf;

use anyhow::{Context, Result, bail};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Value, json};

use super::plane::ControlPlane;

/// The files of a serving certificate on loopback, and the CA certificate that signs it.
pub(crate) struct CertificateFiles {
    pub(crate) certificate: PathBuf,
    pub(crate) key: PathBuf,
    /// The CA certificate in PEM.
    pub(crate) authority: String,
}

impl ControlPlane {
    /// Writes a serving certificate for a server beside the control plane. `name` begins the names
    /// of its files.
    pub(crate) fn serving_certificate(&self, name: &str) -> Result<CertificateFiles> {
        let pair = self.authority.server()?;
        Ok(CertificateFiles {
            certificate: self.folder.write(&format!("{name}.crt"), &pair.certificate)?,
            key: self.folder.write(&format!("{name}.key"), &pair.key)?,
            authority: self.authority.certificate(),
        })
    }

    /// Applies webhook manifests after rewriting them by [`point_at`]. The API server uses them
    /// after about a second: use [`super::wait_until`] with a dry run that only the webhook
    /// refuses.
    ///
    /// # Errors
    /// The manifests cannot be parsed, or the API server refuses them.
    pub async fn register_webhooks(&self, manifests: &str, port: u16, ca_pem: &str) -> Result<()> {
        self.apply_yaml(&point_at(manifests, port, ca_pem)?).await?;
        Ok(())
    }
}

/// Replaces the `clientConfig.service` of every webhook in these documents by
/// `https://127.0.0.1:<port><path>` and the CA certificate `ca_pem`. Documents of other kinds stay
/// as they are.
///
/// # Errors
/// A document cannot be parsed, or a webhook has no `clientConfig.service`.
pub fn point_at(manifests: &str, port: u16, ca_pem: &str) -> Result<String> {
    let mut documents: Vec<Value> = serde_saphyr::from_multiple(manifests).context("reading webhook manifests")?;
    for document in &mut documents {
        let kind = document.get("kind").and_then(Value::as_str).unwrap_or_default();
        if !matches!(kind, "ValidatingWebhookConfiguration" | "MutatingWebhookConfiguration") {
            continue;
        }
        for webhook in document
            .get_mut("webhooks")
            .and_then(Value::as_array_mut)
            .into_iter()
            .flatten()
        {
            let Some(service) = webhook.pointer("/clientConfig/service") else {
                bail!(
                    "the webhook {} must have clientConfig.service",
                    webhook.get("name").unwrap_or(&Value::Null)
                );
            };
            let path = service.get("path").and_then(Value::as_str).unwrap_or("/");
            let url = format!("https://127.0.0.1:{port}{path}");
            if let Some(config) = webhook.get_mut("clientConfig") {
                *config = json!({"url": url, "caBundle": STANDARD.encode(ca_pem)});
            }
        }
    }
    serde_json::to_string_pretty(&json!({"apiVersion": "v1", "kind": "List", "items": documents}))
        .context("writing manifests")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_address_and_the_ca_bundle_of_a_webhook_change() {
        let manifests = "
apiVersion: v1
kind: Namespace
metadata: {name: capstan}
---
apiVersion: admissionregistration.k8s.io/v1
kind: ValidatingWebhookConfiguration
metadata: {name: capstan}
webhooks:
- name: cpms.capstan.dev
  failurePolicy: Fail
  clientConfig: {service: {name: capstan, namespace: capstan, path: /validate/cpms, port: 443}}
";
        let list: Value = serde_json::from_str(&point_at(manifests, 9443, "PEM").unwrap()).unwrap();
        assert_eq!(list["items"][0]["kind"], "Namespace");
        let webhook = &list["items"][1]["webhooks"][0];
        assert_eq!(
            webhook["clientConfig"],
            json!({"url": "https://127.0.0.1:9443/validate/cpms", "caBundle": "UEVN"})
        );
        assert_eq!(webhook["failurePolicy"], "Fail");
    }

    #[test]
    fn a_webhook_without_a_service_is_an_error() {
        let manifests =
            "{kind: MutatingWebhookConfiguration, webhooks: [{name: a.b.c, clientConfig: {url: 'https://x/'}}]}";
        assert!(point_at(manifests, 1, "").unwrap_err().to_string().contains("a.b.c"));
    }
}
