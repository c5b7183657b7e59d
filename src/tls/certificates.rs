//! The certificate that the server presents at present.

use std::sync::Arc;

use arc_swap::ArcSwapOption;
use prometheus_client::encoding::EncodeLabelSet;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::registry::Registry;
use rustls::crypto::aws_lc_rs;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::server::{ClientHello, ResolvesServerCert};
use rustls::sign::CertifiedKey;

/// Why a certificate must not be served.
#[derive(Debug, thiserror::Error)]
pub enum Invalid {
    /// The certificate file holds no valid PEM certificate.
    #[error("the certificate cannot be read: {0}")]
    Certificate(String),
    /// The key file holds no valid PEM private key.
    #[error("the private key cannot be read")]
    Key,
    /// The key belongs to another certificate, or its type is not supported.
    #[error("the private key does not match the certificate: {0}")]
    Mismatch(rustls::Error),
    /// The certificate has expired or is not valid yet.
    #[error("the certificate is {0}")]
    Time(String),
}

/// A certificate with its key and its validity, in seconds since 1970.
#[derive(Debug)]
pub(super) struct Served {
    key: Arc<CertifiedKey>,
    not_before: i64,
    not_after: i64,
}

#[derive(Clone, Debug, Hash, PartialEq, Eq, EncodeLabelSet)]
struct Outcome {
    outcome: &'static str,
}

/// The serving certificate. Clones share it. The next handshake uses a new certificate; open
/// connections continue with the certificate of their handshake.
#[derive(Clone, Debug, Default)]
pub struct Certificates {
    served: Arc<ArcSwapOption<Served>>,
    reloads: Family<Outcome, Counter>,
    expiry: Gauge,
}

impl Certificates {
    /// No certificate: handshakes fail until one is served.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Registers the metrics of the certificate.
    pub fn register(&self, registry: &mut Registry) {
        registry.register(
            "capstan_tls_reloads",
            "Certificates taken into service (ok) or refused (failed)",
            self.reloads.clone(),
        );
        registry.register(
            "capstan_tls_certificate_expiry_timestamp_seconds",
            "End of the served certificate's time, in seconds since 1970; 0 when there is none",
            self.expiry.clone(),
        );
    }

    /// Serves this certificate from now on, if it can be parsed, matches its key and is valid at
    /// `now` (seconds since 1970). Otherwise, the current certificate stays.
    ///
    /// # Errors
    ///
    /// Why the certificate is not served. The metric has counted the failure.
    pub fn serve(&self, chain_pem: &[u8], key_pem: &[u8], now: i64) -> Result<(), Invalid> {
        let outcome = Self::check(chain_pem, key_pem, now);
        let label = if outcome.is_ok() { "ok" } else { "failed" };
        self.reloads.get_or_create(&Outcome { outcome: label }).inc();
        let served = outcome?;
        self.expiry.set(served.not_after);
        self.served.store(Some(Arc::new(served)));
        Ok(())
    }

    /// Counts a failure to read a certificate in the metric.
    pub(super) fn count_failure(&self) {
        self.reloads.get_or_create(&Outcome { outcome: "failed" }).inc();
    }

    /// Parses a certificate that may be served at `now` (seconds since 1970).
    pub(super) fn check(chain_pem: &[u8], key_pem: &[u8], now: i64) -> Result<Served, Invalid> {
        let chain = CertificateDer::pem_slice_iter(chain_pem)
            .collect::<Result<Vec<_>, _>>()
            .map_err(|error| Invalid::Certificate(error.to_string()))?;
        let leaf = chain
            .first()
            .ok_or_else(|| Invalid::Certificate("the file holds no certificate".to_owned()))?;
        let (_, parsed) =
            x509_parser::parse_x509_certificate(leaf).map_err(|error| Invalid::Certificate(error.to_string()))?;
        let (not_before, not_after) = (
            parsed.validity().not_before.timestamp(),
            parsed.validity().not_after.timestamp(),
        );
        // The parser's error is not shown, because it may quote the key.
        let key = PrivateKeyDer::from_pem_slice(key_pem).map_err(|_| Invalid::Key)?;
        // This checks that the key matches the certificate. It also fails for a key type for which
        // rustls cannot compare the two.
        let key = CertifiedKey::from_der(chain, key, &aws_lc_rs::default_provider()).map_err(Invalid::Mismatch)?;
        let served = Served {
            key: Arc::new(key),
            not_before,
            not_after,
        };
        served.valid_at(now).map_err(Invalid::Time)?;
        Ok(served)
    }

    /// Whether a certificate is served that is valid at `now` (seconds since 1970).
    ///
    /// # Errors
    ///
    /// What is wrong, as text for `/readyz`.
    pub fn valid_at(&self, now: i64) -> Result<(), String> {
        match self.served.load().as_deref() {
            Some(served) => served.valid_at(now),
            None => Err("none yet".to_owned()),
        }
    }
}

impl Served {
    fn valid_at(&self, now: i64) -> Result<(), String> {
        let date =
            |seconds| jiff::Timestamp::from_second(seconds).map_or("an unknown date".to_owned(), |t| t.to_string());
        if now < self.not_before {
            Err(format!("not valid before {}", date(self.not_before)))
        } else if now > self.not_after {
            Err(format!("expired at {}", date(self.not_after)))
        } else {
            Ok(())
        }
    }
}

impl ResolvesServerCert for Certificates {
    fn resolve(&self, _client_hello: ClientHello<'_>) -> Option<Arc<CertifiedKey>> {
        self.served.load().as_ref().map(|served| Arc::clone(&served.key))
    }
}

#[cfg(test)]
mod tests {
    use super::{Certificates, Invalid};
    use crate::tls::issue::{Authority, DAY, Names};

    const NOW: i64 = 1_800_000_000;

    fn pair() -> (String, String) {
        let authority = Authority::issue("test", NOW, 10 * DAY).unwrap();
        let leaf = authority
            .leaf(&Names::new(["localhost".to_owned()]).unwrap(), NOW, DAY)
            .unwrap();
        (leaf.certificate, leaf.key)
    }

    #[test]
    fn validity_requires_a_certificate_that_has_not_expired() {
        let certificates = Certificates::new();
        assert_eq!(certificates.valid_at(NOW), Err("none yet".to_owned()));
        let (certificate, key) = pair();
        certificates.serve(certificate.as_bytes(), key.as_bytes(), NOW).unwrap();
        assert_eq!(certificates.valid_at(NOW), Ok(()));
        assert!(
            certificates
                .valid_at(NOW + 2 * DAY)
                .unwrap_err()
                .starts_with("expired at 2027-01-")
        );
    }

    #[test]
    fn an_invalid_certificate_is_refused_and_the_current_one_stays() {
        let certificates = Certificates::new();
        let (certificate, key) = pair();
        certificates.serve(certificate.as_bytes(), key.as_bytes(), NOW).unwrap();
        let (other_certificate, other_key) = pair();
        let serve = |certificate: &str, key: &str, now| certificates.serve(certificate.as_bytes(), key.as_bytes(), now);
        assert!(matches!(
            serve(&certificate, &other_key, NOW),
            Err(Invalid::Mismatch(_))
        ));
        assert!(matches!(serve("", &key, NOW), Err(Invalid::Certificate(_))));
        assert!(matches!(
            serve("-----BEGIN CERTIFICATE-----\nAAAA\n", &key, NOW),
            Err(Invalid::Certificate(_))
        ));
        assert!(matches!(
            serve(
                "-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n",
                &key,
                NOW
            ),
            Err(Invalid::Certificate(_))
        ));
        assert!(matches!(serve(&certificate, "garbage", NOW), Err(Invalid::Key)));
        assert!(matches!(
            serve(&other_certificate, &other_key, NOW + 3 * DAY),
            Err(Invalid::Time(_))
        ));
        assert!(matches!(
            serve(&other_certificate, &other_key, NOW - DAY),
            Err(Invalid::Time(_))
        ));
        assert_eq!(certificates.valid_at(NOW), Ok(()));
    }
}
