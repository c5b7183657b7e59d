//! Issues CA certificates and serving certificates. Both use ECDSA on P-256. A CA may sign serving
//! certificates but no further CA. A serving certificate is for server authentication, with its
//! names as subject alternative names. The validity starts one hour early, for clocks that are
//! slow.

use std::net::IpAddr;

use rcgen::{
    BasicConstraints, CertificateParams, DistinguishedName, DnType, ExtendedKeyUsagePurpose, IsCa, Issuer, KeyPair,
    KeyUsagePurpose, PublicKeyData as _, SanType,
};
use rustls::pki_types::CertificateDer;
use rustls::pki_types::pem::PemObject;
use time::OffsetDateTime;

/// Seconds in a day.
pub const DAY: i64 = 86_400;
/// How many seconds before the issuing the validity starts.
const LAG: i64 = 3_600;

/// Why a certificate could not be issued.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The certificate library refuses the names or the key.
    #[error(transparent)]
    Library(#[from] rcgen::Error),
    /// A date is out of range.
    #[error("a date out of range")]
    Date(#[from] time::error::ComponentRange),
    /// The CA certificate cannot be parsed or has no common name.
    #[error("the certificate of the authority cannot be read")]
    Authority,
    /// A serving certificate without names matches no client's request.
    #[error("a certificate needs at least one DNS name or address")]
    NoNames,
}

/// The DNS names and addresses of a serving certificate.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Names(Vec<String>);

impl Names {
    /// The names, sorted and without duplicates.
    ///
    /// # Errors
    ///
    /// There is no name.
    pub fn new(names: impl IntoIterator<Item = String>) -> Result<Self, Error> {
        let mut names: Vec<_> = names.into_iter().filter(|name| !name.is_empty()).collect();
        names.sort();
        names.dedup();
        if names.is_empty() {
            Err(Error::NoNames)
        } else {
            Ok(Self(names))
        }
    }

    /// The names under which clients in the cluster reach a Service.
    ///
    /// # Errors
    ///
    /// No error occurs if namespace and name are given.
    pub fn of_service(namespace: &str, name: &str) -> Result<Self, Error> {
        Self::new([
            format!("{name}.{namespace}.svc"),
            format!("{name}.{namespace}.svc.cluster.local"),
        ])
    }

    /// The names, sorted.
    #[must_use]
    pub fn as_slice(&self) -> &[String] {
        &self.0
    }
}

/// A serving certificate with its key, both PEM.
#[derive(Clone, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub struct Leaf {
    /// The certificate.
    pub certificate: String,
    /// Its private key (PKCS #8).
    pub key: String,
}

impl std::fmt::Debug for Leaf {
    /// Omits the key.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Leaf")
            .field("certificate", &self.certificate)
            .finish_non_exhaustive()
    }
}

/// A CA certificate with its key, both PEM.
#[derive(Clone, PartialEq, Eq)]
pub struct Authority {
    /// The certificate.
    pub certificate: String,
    /// Its private key (PKCS #8).
    pub key: String,
}

impl std::fmt::Debug for Authority {
    /// Omits the key.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Authority")
            .field("certificate", &self.certificate)
            .finish_non_exhaustive()
    }
}

fn validity(params: &mut CertificateParams, from: i64, to: i64) -> Result<(), Error> {
    params.not_before = OffsetDateTime::from_unix_timestamp(from)?;
    params.not_after = OffsetDateTime::from_unix_timestamp(to)?;
    Ok(())
}

impl Authority {
    /// Issues a CA certificate that is valid for `lifetime` seconds from `now` (seconds since
    /// 1970).
    ///
    /// # Errors
    ///
    /// The dates are out of range.
    pub fn issue(name: &str, now: i64, lifetime: i64) -> Result<Self, Error> {
        let key = KeyPair::generate()?;
        let mut params = CertificateParams::default();
        validity(&mut params, now - LAG, now + lifetime)?;
        params.distinguished_name = DistinguishedName::new();
        // The names of two CAs must differ. Otherwise, a client may build the chain with the wrong
        // one and then fail.
        params
            .distinguished_name
            .push(DnType::CommonName, format!("{name} {now}"));
        params.is_ca = IsCa::Ca(BasicConstraints::Constrained(0));
        params.key_usages = vec![KeyUsagePurpose::KeyCertSign, KeyUsagePurpose::CrlSign];
        let certificate = params.self_signed(&key)?;
        Ok(Self {
            certificate: certificate.pem(),
            key: key.serialize_pem(),
        })
    }

    fn common_name(&self) -> Result<String, Error> {
        let der = self.der()?;
        let (_, certificate) = x509_parser::parse_x509_certificate(&der).map_err(|_| Error::Authority)?;
        let name = certificate
            .subject()
            .iter_common_name()
            .next()
            .and_then(|name| name.as_str().ok());
        name.map(ToOwned::to_owned).ok_or(Error::Authority)
    }

    fn der(&self) -> Result<CertificateDer<'static>, Error> {
        CertificateDer::from_pem_slice(self.certificate.as_bytes()).map_err(|_| Error::Authority)
    }

    /// Whether the key is that of the certificate.
    ///
    /// # Errors
    ///
    /// One of them cannot be read.
    pub fn is_pair(&self) -> Result<bool, Error> {
        let der = self.der()?;
        let (_, certificate) = x509_parser::parse_x509_certificate(&der).map_err(|_| Error::Authority)?;
        let key = KeyPair::from_pem(&self.key)?;
        Ok(certificate.public_key().raw == key.subject_public_key_info())
    }

    /// Issues a serving certificate for `names` that is valid for `lifetime` seconds from `now`
    /// (seconds since 1970). The caller must keep it within the validity of the CA.
    ///
    /// # Errors
    ///
    /// A name is not allowed in a certificate, a date is out of range, or the CA cannot be read.
    pub fn leaf(&self, names: &Names, now: i64, lifetime: i64) -> Result<Leaf, Error> {
        // A serving certificate contains the CA's name and an identifier computed from the CA's
        // key.
        let mut own = CertificateParams::default();
        own.distinguished_name = DistinguishedName::new();
        own.distinguished_name.push(DnType::CommonName, self.common_name()?);
        own.key_usages = vec![KeyUsagePurpose::KeyCertSign, KeyUsagePurpose::CrlSign];
        let issuer = Issuer::new(own, KeyPair::from_pem(&self.key)?);
        let key = KeyPair::generate()?;
        let mut params = CertificateParams::default();
        validity(&mut params, now - LAG, now + lifetime)?;
        params.distinguished_name = DistinguishedName::new();
        params.distinguished_name.push(DnType::CommonName, "capstan webhook");
        for name in &names.0 {
            params.subject_alt_names.push(match name.parse::<IpAddr>() {
                Ok(address) => SanType::IpAddress(address),
                Err(_) => SanType::DnsName(name.as_str().try_into()?),
            });
        }
        params.key_usages = vec![KeyUsagePurpose::DigitalSignature];
        params.extended_key_usages = vec![ExtendedKeyUsagePurpose::ServerAuth];
        params.use_authority_key_identifier_extension = true;
        let certificate = params.signed_by(&key, &issuer)?;
        Ok(Leaf {
            certificate: certificate.pem(),
            key: key.serialize_pem(),
        })
    }
}
