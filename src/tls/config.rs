//! The TLS settings: versions, key exchange, application protocols.

use std::sync::Arc;

use rustls::ServerConfig;
use rustls::crypto::aws_lc_rs;

use super::Certificates;

/// The oldest TLS version that the server accepts. TLS 1.1 and older are never accepted.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, clap::ValueEnum)]
pub enum MinVersion {
    /// TLS 1.2 and 1.3.
    #[default]
    #[value(name = "1.2")]
    Tls12,
    /// TLS 1.3 only.
    #[value(name = "1.3")]
    Tls13,
}

/// The settings of every handshake. The certificate does not depend on the requested server name,
/// because API servers also connect by address.
///
/// X25519MLKEM768 is preferred (rustls' feature `prefer-post-quantum`), then X25519, P-256 and
/// P-384.
///
/// # Errors
///
/// The crypto provider does not support the versions.
pub fn server_config(certificates: &Certificates, min_version: MinVersion) -> Result<Arc<ServerConfig>, rustls::Error> {
    let versions: &[&rustls::SupportedProtocolVersion] = match min_version {
        MinVersion::Tls12 => &[&rustls::version::TLS13, &rustls::version::TLS12],
        MinVersion::Tls13 => &[&rustls::version::TLS13],
    };
    // The provider is named instead of taken from the process default, so that a second provider
    // in the dependencies cannot change the settings.
    let mut config = ServerConfig::builder_with_provider(Arc::new(aws_lc_rs::default_provider()))
        .with_protocol_versions(versions)?
        .with_no_client_auth()
        .with_cert_resolver(Arc::new(certificates.clone()));
    config.alpn_protocols = vec![b"h2".to_vec(), b"http/1.1".to_vec()];
    Ok(Arc::new(config))
}
