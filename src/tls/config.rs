//! How TLS is spoken: versions, key exchange, protocols.

use std::sync::Arc;

use rustls::ServerConfig;
use rustls::crypto::aws_lc_rs;

use super::Certificates;

/// The oldest version of TLS that is spoken. Older ones than these cannot be offered at all.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, clap::ValueEnum)]
pub enum MinVersion {
    /// TLS 1.2 and 1.3.
    #[default]
    #[value(name = "1.2")]
    Tls12,
    /// TLS 1.3 alone.
    #[value(name = "1.3")]
    Tls13,
}

/// The settings of every handshake. The certificate does not depend on the name that the client asks for: API servers
/// also call by address.
///
/// X25519MLKEM768 is preferred (rustls' feature `prefer-post-quantum`), then X25519, P-256 and P-384.
///
/// # Errors
///
/// The crypto provider does not support the versions.
pub fn server_config(certificates: &Certificates, min_version: MinVersion) -> Result<Arc<ServerConfig>, rustls::Error> {
    let versions: &[&rustls::SupportedProtocolVersion] = match min_version {
        MinVersion::Tls12 => &[&rustls::version::TLS13, &rustls::version::TLS12],
        MinVersion::Tls13 => &[&rustls::version::TLS13],
    };
    // Named, not the process's default: a second provider in the tree must not change what is offered here.
    let mut config = ServerConfig::builder_with_provider(Arc::new(aws_lc_rs::default_provider()))
        .with_protocol_versions(versions)?
        .with_no_client_auth()
        .with_cert_resolver(Arc::new(certificates.clone()));
    config.alpn_protocols = vec![b"h2".to_vec(), b"http/1.1".to_vec()];
    Ok(Arc::new(config))
}
