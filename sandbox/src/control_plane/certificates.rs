//! The certificate authority of one control plane: the serving certificate, the client certificates
//! of users, and the key that signs service account tokens. The keys are written to the folder of
//! the control plane only, which is removed with it.

use anyhow::{Context, Result, bail};
use rcgen::{
    BasicConstraints, CertificateParams, CertifiedIssuer, DistinguishedName, DnType, ExtendedKeyUsagePurpose, IsCa,
    KeyPair, KeyUsagePurpose,
};
use time::{Duration, OffsetDateTime};

/// Signs the certificates of the API server and of its users.
pub(super) struct Authority {
    issuer: CertifiedIssuer<'static, KeyPair>,
}

/// A certificate and its private key in PEM.
pub(super) struct Pair {
    pub(super) certificate: String,
    pub(super) key: String,
}

impl Authority {
    pub(super) fn new() -> Result<Self> {
        let mut params = params("capstan-sandbox", &[])?;
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        params.key_usages = vec![KeyUsagePurpose::KeyCertSign, KeyUsagePurpose::CrlSign];
        let issuer = CertifiedIssuer::self_signed(params, key()?).context("signing the authority's certificate")?;
        Ok(Self { issuer })
    }

    /// The certificate of the authority in PEM.
    pub(super) fn certificate(&self) -> String {
        self.issuer.pem()
    }

    /// The certificate of the API server, which is valid for loopback only.
    pub(super) fn server(&self) -> Result<Pair> {
        let mut params = params("kube-apiserver", &[])?;
        params.subject_alt_names = [
            "127.0.0.1",
            "localhost",
            "kubernetes",
            "kubernetes.default",
            "kubernetes.default.svc",
        ]
        .into_iter()
        .map(|name| match name.parse() {
            Ok(address) => Ok(rcgen::SanType::IpAddress(address)),
            Err(_) => Ok(rcgen::SanType::DnsName(name.try_into().context("a server name")?)),
        })
        .collect::<Result<_>>()?;
        self.sign(params, ExtendedKeyUsagePurpose::ServerAuth)
    }

    /// The client certificate of a user. The API server reads the name from CN and the groups from
    /// O.
    pub(super) fn user(&self, name: &str, groups: &[&str]) -> Result<Pair> {
        self.sign(params(name, groups)?, ExtendedKeyUsagePurpose::ClientAuth)
    }

    fn sign(&self, mut params: CertificateParams, usage: ExtendedKeyUsagePurpose) -> Result<Pair> {
        params.key_usages = vec![KeyUsagePurpose::DigitalSignature];
        params.extended_key_usages = vec![usage];
        let key = key()?;
        let certificate = params.signed_by(&key, &self.issuer).context("signing a certificate")?;
        Ok(Pair {
            certificate: certificate.pem(),
            key: key.serialize_pem(),
        })
    }
}

/// A key pair for service account tokens: the private and the public key in PEM.
pub(super) fn token_key() -> Result<(String, String)> {
    let key = key()?;
    Ok((key.serialize_pem(), key.public_key_pem()))
}

fn key() -> Result<KeyPair> {
    KeyPair::generate_for(&rcgen::PKCS_ECDSA_P256_SHA256).context("generating a key")
}

fn params(name: &str, groups: &[&str]) -> Result<CertificateParams> {
    let mut params = CertificateParams::default();
    let now = OffsetDateTime::now_utc();
    params.not_before = now - Duration::hours(1);
    params.not_after = now + Duration::days(365);
    params.distinguished_name = DistinguishedName::new();
    params.distinguished_name.push(DnType::CommonName, name);
    // rcgen keeps one value for each type of attribute. The organisation by name and by OID are two
    // types for rcgen, and the same attribute in the certificate. So a certificate can hold two
    // groups.
    let attributes = [DnType::OrganizationName, DnType::CustomDnType(vec![2, 5, 4, 10])];
    if groups.len() > attributes.len() {
        bail!(
            "the user {name} must be in at most two groups; it is in {}",
            groups.len()
        );
    }
    for (attribute, group) in attributes.into_iter().zip(groups) {
        params.distinguished_name.push(attribute, *group);
    }
    Ok(params)
}
