//! Client certificates: which clients the webhook server answers. Without them, every program that
//! reaches the port gets verdicts. It never decides a review.

use std::sync::Arc;

use rustls::client::danger::HandshakeSignatureValid;
use rustls::crypto::CryptoProvider;
use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, UnixTime};
use rustls::server::WebPkiClientVerifier;
use rustls::server::danger::{ClientCertVerified, ClientCertVerifier};
use rustls::{CertificateError, DigitallySignedStruct, DistinguishedName, RootCertStore, SignatureScheme};

use super::inspect;

/// Clients that authenticate by a certificate.
#[derive(Clone, Debug)]
pub struct Clients {
    roots: Arc<RootCertStore>,
    names: Vec<String>,
}

/// Why client certificates cannot be verified.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// A PEM block is not a certificate, or is not one of a CA.
    #[error("certificate {number} cannot be used as a CA: {reason}")]
    Certificate {
        /// The position of the block, from 1.
        number: usize,
        /// The error of the parser.
        reason: String,
    },
    /// There is no certificate.
    #[error("the file must contain the certificate of at least one CA, as PEM")]
    Empty,
}

impl Clients {
    /// The clients with a certificate of one of the CAs in `pem`. If `names` are given, the common
    /// name or a subject alternative name of the certificate must be one of them.
    ///
    /// # Errors
    /// The text contains no CA, or something else than CAs.
    pub fn new(pem: &[u8], names: Vec<String>) -> Result<Self, Error> {
        let mut roots = RootCertStore::empty();
        for (index, certificate) in CertificateDer::pem_slice_iter(pem).enumerate() {
            let unusable = |reason: String| Error::Certificate {
                number: index + 1,
                reason,
            };
            let certificate = certificate.map_err(|error| unusable(error.to_string()))?;
            roots.add(certificate).map_err(|error| unusable(error.to_string()))?;
        }
        if roots.is_empty() {
            return Err(Error::Empty);
        }
        Ok(Self {
            roots: Arc::new(roots),
            names,
        })
    }

    /// The verification in handshakes. A client without a certificate is refused.
    ///
    /// # Errors
    /// The crypto provider cannot verify certificates.
    pub(super) fn verifier(&self, provider: Arc<CryptoProvider>) -> Result<Arc<dyn ClientCertVerifier>, rustls::Error> {
        let chain = WebPkiClientVerifier::builder_with_provider(Arc::clone(&self.roots), provider)
            .build()
            .map_err(|error| rustls::Error::General(error.to_string()))?;
        Ok(Arc::new(Named {
            chain,
            names: self.names.clone(),
        }))
    }
}

/// Verifies the chain of a client certificate, and then its names.
#[derive(Debug)]
struct Named {
    chain: Arc<dyn ClientCertVerifier>,
    names: Vec<String>,
}

impl Named {
    fn is_allowed(&self, certificate: &CertificateDer<'_>) -> bool {
        let names = || inspect::client_names(certificate);
        self.names.is_empty() || names().iter().any(|name| self.names.contains(name))
    }
}

impl ClientCertVerifier for Named {
    fn root_hint_subjects(&self) -> &[DistinguishedName] {
        self.chain.root_hint_subjects()
    }

    fn verify_client_cert(
        &self,
        end_entity: &CertificateDer<'_>,
        intermediates: &[CertificateDer<'_>],
        now: UnixTime,
    ) -> Result<ClientCertVerified, rustls::Error> {
        let verified = self.chain.verify_client_cert(end_entity, intermediates, now)?;
        if self.is_allowed(end_entity) {
            Ok(verified)
        } else {
            Err(CertificateError::ApplicationVerificationFailure.into())
        }
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        self.chain.verify_tls12_signature(message, certificate, signature)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        self.chain.verify_tls13_signature(message, certificate, signature)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.chain.supported_verify_schemes()
    }
}

#[cfg(test)]
mod tests {
    use super::Clients;
    use crate::tls::issue::{Authority, DAY};

    #[test]
    fn a_file_without_a_ca_is_an_error() {
        let empty = Clients::new(b"nothing", Vec::new()).unwrap_err().to_string();
        assert!(empty.contains("at least one CA"), "{empty}");
        let broken = b"-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n";
        let broken = Clients::new(broken, Vec::new()).unwrap_err().to_string();
        assert!(broken.starts_with("certificate 1 "), "{broken}");
        let authority = Authority::issue("a", 1_800_000_000, DAY).unwrap();
        assert!(Clients::new(authority.certificate.as_bytes(), Vec::new()).is_ok());
    }
}
