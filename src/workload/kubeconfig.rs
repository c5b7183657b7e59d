//! The kubeconfig of a managed cluster.
//!
//! A user who can write the Secret chooses its contents, so a kubeconfig must contain everything
//! itself. A command (`exec`, `auth-provider`) would run in Capstan's container, and a file would
//! be read there. Both are refused. The identity of the API server is always verified.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use jiff::Timestamp;
use kube::config::{AuthInfo, KubeConfigOptions, Kubeconfig};

/// The key of the kubeconfig in the Secret.
pub(super) const KEY: &str = "value";

/// The configuration of a client.
///
/// # Errors
/// What must be true of the kubeconfig, as the end of a sentence that begins with it.
pub(super) async fn parse(bytes: &[u8]) -> Result<kube::Config, String> {
    let text = std::str::from_utf8(bytes).map_err(|_not_text| String::from("must be text in UTF-8"))?;
    // The messages of the parser quote the file, which contains keys.
    let kubeconfig =
        Kubeconfig::from_yaml(text).map_err(|_quotes_keys| String::from("must be a kubeconfig in YAML"))?;
    check(&kubeconfig)?;
    let mut config = kube::Config::from_custom_kubeconfig(kubeconfig, &KubeConfigOptions::default())
        .await
        .map_err(|_quotes_keys| String::from("must have a current context with a cluster and a user"))?;
    // The environment of this process must not redirect the connection.
    config.proxy_url = None;
    Ok(config)
}

/// When the first client certificate of a kubeconfig expires; `None` without a certificate.
pub fn expiry(bytes: &[u8]) -> Option<Timestamp> {
    let kubeconfig = Kubeconfig::from_yaml(std::str::from_utf8(bytes).ok()?).ok()?;
    let users = kubeconfig
        .auth_infos
        .iter()
        .filter_map(|named| named.auth_info.as_ref());
    let certificates = users.filter_map(|user| STANDARD.decode(user.client_certificate_data.as_deref()?).ok());
    let expiries = certificates.filter_map(|pem| {
        let (_, pem) = x509_parser::pem::parse_x509_pem(&pem).ok()?;
        let seconds = pem.parse_x509().ok()?.validity().not_after.timestamp();
        Timestamp::from_second(seconds).ok()
    });
    expiries.min()
}

/// Whether all that the current context names is inside of the kubeconfig.
fn check(kubeconfig: &Kubeconfig) -> Result<(), String> {
    for named in &kubeconfig.clusters {
        let Some(cluster) = &named.cluster else { continue };
        let is_https = cluster
            .server
            .as_deref()
            .is_some_and(|server| server.starts_with("https://"));
        let refusals = [
            (!is_https, "must have a server with an https:// address"),
            (
                cluster.certificate_authority.is_some(),
                "must contain certificate-authority-data instead of the name of a file",
            ),
            (
                cluster.certificate_authority_data.is_none(),
                "must contain certificate-authority-data",
            ),
            (
                cluster.insecure_skip_tls_verify == Some(true),
                "must not set insecure-skip-tls-verify",
            ),
            (cluster.proxy_url.is_some(), "must not set proxy-url"),
        ];
        first(&refusals)?;
    }
    for named in &kubeconfig.auth_infos {
        let Some(user) = &named.auth_info else { continue };
        check_user(user)?;
    }
    Ok(())
}

fn check_user(user: &AuthInfo) -> Result<(), String> {
    first(&[
        (
            user.exec.is_some() || user.auth_provider.is_some(),
            "must contain a certificate or a token instead of a command (exec, auth-provider)",
        ),
        (
            user.token_file.is_some() || user.client_certificate.is_some() || user.client_key.is_some(),
            "must contain the credentials instead of the names of files",
        ),
    ])
}

fn first(refusals: &[(bool, &str)]) -> Result<(), String> {
    match refusals.iter().find(|(is_refused, _)| *is_refused) {
        Some((_, reason)) => Err((*reason).to_owned()),
        None => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn kubeconfig(cluster: &Value, user: &Value) -> String {
        let mut cluster = cluster.clone();
        let fields = cluster.as_object_mut().unwrap();
        fields.entry("server").or_insert_with(|| json!("https://10.0.0.1:6443"));
        fields
            .entry("certificate-authority-data")
            .or_insert_with(|| json!("Zm9v"));
        json!({
            "apiVersion": "v1", "kind": "Config", "current-context": "c",
            "contexts": [{"name": "c", "context": {"cluster": "c", "user": "u"}}],
            "clusters": [{"name": "c", "cluster": cluster}],
            "users": [{"name": "u", "user": user}],
        })
        .to_string()
    }

    async fn refusal(cluster: Value, user: Value) -> String {
        parse(kubeconfig(&cluster, &user).as_bytes())
            .await
            .err()
            .unwrap_or_default()
    }

    #[tokio::test]
    async fn a_kubeconfig_that_runs_a_command_or_names_a_file_is_refused() {
        let token = json!({"token": "t"});
        assert_eq!(refusal(json!({}), token.clone()).await, "");
        let command = json!({"exec": {"apiVersion": "client.authentication.k8s.io/v1", "command": "sh"}});
        let provider = json!({"auth-provider": {"name": "gcp", "config": {}}});
        for user in [command, provider] {
            let refused = refusal(json!({}), user).await;
            assert!(refused.contains("instead of a command"), "{refused}");
        }
        for field in ["tokenFile", "client-certificate", "client-key"] {
            let refused = refusal(json!({}), json!({field: "/etc/shadow"})).await;
            assert!(refused.contains("instead of the names of files"), "{field}: {refused}");
        }
        let refused = refusal(json!({"certificate-authority": "/etc/shadow"}), token).await;
        assert!(refused.contains("instead of the name of a file"), "{refused}");
    }

    #[tokio::test]
    async fn the_identity_of_the_api_server_is_always_verified() {
        for (cluster, reason) in [
            (json!({"insecure-skip-tls-verify": true}), "insecure-skip-tls-verify"),
            (json!({"server": "http://10.0.0.1"}), "https://"),
            (
                json!({"certificate-authority-data": null}),
                "certificate-authority-data",
            ),
            (json!({"proxy-url": "http://10.0.0.1"}), "proxy-url"),
        ] {
            let refused = refusal(cluster, json!({"token": "t"})).await;
            assert!(refused.contains(reason), "{reason}: {refused}");
        }
    }

    #[test]
    fn the_expiry_is_that_of_the_client_certificate() {
        let algorithm = "ECDSA-P256".parse().unwrap();
        let authority = crate::workload::Authority::issue("kubernetes", algorithm, 10).unwrap();
        let text = crate::workload::admin_kubeconfig("c", "https://127.0.0.1", &authority, algorithm).unwrap();
        let days = expiry(text.as_bytes())
            .unwrap()
            .duration_since(Timestamp::now())
            .as_hours()
            / 24;
        assert!((364..=365).contains(&days), "{days}");
        assert_eq!(expiry(kubeconfig(&json!({}), &json!({"token": "t"})).as_bytes()), None);
        assert_eq!(expiry(b"users: [secret-key"), None);
    }

    #[tokio::test]
    async fn a_refusal_quotes_nothing_of_the_file() {
        for text in ["users: [secret-key", "secret-key", "{\"users\": \"secret-key\"}"] {
            let refused = parse(text.as_bytes()).await.unwrap_err();
            assert!(!refused.contains("secret-key"), "{refused}");
        }
    }
}
