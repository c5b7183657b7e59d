//! The TLS settings: versions, cipher suites, key exchange, application protocols, and clients.

use std::sync::Arc;

use rustls::ServerConfig;
use rustls::SupportedCipherSuite;
use rustls::crypto::aws_lc_rs;

use super::Certificates;
use super::clients::Clients;

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

/// What the server accepts in a handshake.
#[derive(Clone, Debug, Default)]
pub struct Policy {
    /// The oldest TLS version.
    pub min_version: MinVersion,
    /// The cipher suites; all that the server supports if it is empty.
    pub cipher_suites: Vec<CipherSuite>,
    /// The clients; every client if it is absent.
    pub clients: Option<Clients>,
}

impl Policy {
    /// Whether a cipher suite fits one of the versions.
    #[must_use]
    pub fn has_suite(&self) -> bool {
        let fits = |suite: &CipherSuite| self.min_version == MinVersion::Tls12 || suite.0.tls13().is_some();
        self.cipher_suites.is_empty() || self.cipher_suites.iter().any(fits)
    }
}

/// A cipher suite that the server supports.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct CipherSuite(SupportedCipherSuite);

impl CipherSuite {
    /// The suite with this name, of IANA or of OpenSSL, as in a TLS profile of OpenShift.
    ///
    /// # Errors
    /// The server does not support a suite of this name; the error lists all names.
    pub fn named(name: &str) -> Result<Self, String> {
        let suites = aws_lc_rs::ALL_CIPHER_SUITES.iter().copied();
        let mut named = suites.clone().map(|suite| (names(suite), suite));
        match named.find(|(names, _)| names.iter().any(|known| known == name)) {
            Some((_, suite)) => Ok(Self(suite)),
            None => {
                let known: Vec<String> = suites.flat_map(|suite| names(suite).into_iter().take(1)).collect();
                Err(format!("must be one of {}", known.join(", ")))
            }
        }
    }
}

/// The name of a suite by IANA, and by OpenSSL.
fn names(suite: SupportedCipherSuite) -> Vec<String> {
    let iana = format!("{:?}", suite.suite()).replace("TLS13_", "TLS_");
    let openssl = iana.strip_prefix("TLS_ECDHE_").map(|rest| {
        let rest = rest
            .replace("_WITH", "")
            .replace("CHACHA20_POLY1305_SHA256", "CHACHA20_POLY1305");
        format!("ECDHE-{}", rest.replace("AES_", "AES").replace('_', "-"))
    });
    [Some(iana), openssl].into_iter().flatten().collect()
}

/// The settings of every handshake. The certificate does not depend on the requested server name,
/// because API servers also connect by address.
///
/// X25519MLKEM768 is preferred (rustls' feature `prefer-post-quantum`), then X25519, P-256 and
/// P-384.
///
/// # Errors
///
/// The cipher suites do not support the versions, or the clients cannot be verified.
pub fn server_config(certificates: &Certificates, policy: &Policy) -> Result<Arc<ServerConfig>, rustls::Error> {
    let versions: &[&rustls::SupportedProtocolVersion] = match policy.min_version {
        MinVersion::Tls12 => &[&rustls::version::TLS13, &rustls::version::TLS12],
        MinVersion::Tls13 => &[&rustls::version::TLS13],
    };
    // The provider is named instead of taken from the process default, so that a second provider
    // in the dependencies cannot change the settings.
    let mut provider = aws_lc_rs::default_provider();
    if !policy.cipher_suites.is_empty() {
        let allowed = |suite: &SupportedCipherSuite| policy.cipher_suites.contains(&CipherSuite(*suite));
        provider.cipher_suites.retain(allowed);
    }
    let provider = Arc::new(provider);
    let builder = ServerConfig::builder_with_provider(Arc::clone(&provider)).with_protocol_versions(versions)?;
    let builder = match &policy.clients {
        Some(clients) => builder.with_client_cert_verifier(clients.verifier(provider)?),
        None => builder.with_no_client_auth(),
    };
    let mut config = builder.with_cert_resolver(Arc::new(certificates.clone()));
    config.alpn_protocols = vec![b"h2".to_vec(), b"http/1.1".to_vec()];
    Ok(Arc::new(config))
}

#[cfg(test)]
mod tests {
    use super::CipherSuite;

    #[test]
    fn a_cipher_suite_has_the_names_of_iana_and_of_openssl() {
        let same = [
            ("TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256", "ECDHE-RSA-AES128-GCM-SHA256"),
            (
                "TLS_ECDHE_ECDSA_WITH_AES_256_GCM_SHA384",
                "ECDHE-ECDSA-AES256-GCM-SHA384",
            ),
            (
                "TLS_ECDHE_ECDSA_WITH_CHACHA20_POLY1305_SHA256",
                "ECDHE-ECDSA-CHACHA20-POLY1305",
            ),
        ];
        for (iana, openssl) in same {
            assert_eq!(CipherSuite::named(iana).unwrap(), CipherSuite::named(openssl).unwrap());
        }
        assert!(CipherSuite::named("TLS_AES_128_GCM_SHA256").is_ok());
        let error = CipherSuite::named("ECDHE-RSA-AES128-SHA").unwrap_err();
        assert!(error.contains("TLS_AES_256_GCM_SHA384, "), "{error}");
    }
}
