//! Issues what a managed cluster is created with: its certificate authorities, the key pair that
//! signs tokens of service accounts, and the kubeconfig of its administrator.
//!
//! Keys exist in memory and in the Secrets that the caller writes. An error never quotes a key. The
//! module decides nothing: whether something is issued is decided in `capstan_core::kcp`.

use std::fmt;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use rcgen::{
    BasicConstraints, CertificateParams, DistinguishedName, DnType, ExtendedKeyUsagePurpose, IsCa, Issuer,
    KeyUsagePurpose, PKCS_ECDSA_P256_SHA256, PKCS_ECDSA_P384_SHA384, PKCS_RSA_SHA256, PublicKeyData as _, RsaKeySize,
};
use time::{Duration, OffsetDateTime};

/// How long before now a certificate is valid, for machines whose clock is slow.
const LAG: Duration = Duration::hours(1);
/// How long the certificate of the administrator is valid.
const ADMINISTRATOR: Duration = Duration::days(365);

/// Why something could not be issued.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum AuthorityError {
    /// The algorithm is unknown.
    #[error("the algorithm {0:?} must be RSA-2048, RSA-3072, RSA-4096, ECDSA-P256, or ECDSA-P384")]
    Algorithm(String),
    /// The library refused.
    #[error("{0} cannot be issued")]
    Refused(&'static str),
}

/// The algorithm of a key, as a KubeadmControlPlane names it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Algorithm {
    /// RSA.
    Rsa(u16),
    /// ECDSA on P-256.
    EcdsaP256,
    /// ECDSA on P-384.
    EcdsaP384,
}

impl std::str::FromStr for Algorithm {
    type Err = AuthorityError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        match text {
            "RSA-2048" => Ok(Self::Rsa(2048)),
            "RSA-3072" => Ok(Self::Rsa(3072)),
            "RSA-4096" => Ok(Self::Rsa(4096)),
            "ECDSA-P256" => Ok(Self::EcdsaP256),
            "ECDSA-P384" => Ok(Self::EcdsaP384),
            other => Err(AuthorityError::Algorithm(other.to_owned())),
        }
    }
}

impl Algorithm {
    fn generate(self) -> Result<rcgen::KeyPair, AuthorityError> {
        let generated = match self {
            Self::Rsa(2048) => rcgen::KeyPair::generate_rsa_for(&PKCS_RSA_SHA256, RsaKeySize::_2048),
            Self::Rsa(3072) => rcgen::KeyPair::generate_rsa_for(&PKCS_RSA_SHA256, RsaKeySize::_3072),
            Self::Rsa(_) => rcgen::KeyPair::generate_rsa_for(&PKCS_RSA_SHA256, RsaKeySize::_4096),
            Self::EcdsaP256 => rcgen::KeyPair::generate_for(&PKCS_ECDSA_P256_SHA256),
            Self::EcdsaP384 => rcgen::KeyPair::generate_for(&PKCS_ECDSA_P384_SHA384),
        };
        generated.map_err(|_library| AuthorityError::Refused("a key"))
    }
}

/// A public part with its private key, both PEM.
#[derive(Clone, PartialEq, Eq)]
pub struct KeyPair {
    /// A certificate, or a public key.
    pub public: String,
    /// The private key (PKCS #8).
    pub key: String,
}

impl fmt::Debug for KeyPair {
    /// Never prints the key.
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("KeyPair")
    }
}

/// A new key pair without a certificate, as for the tokens of service accounts.
///
/// # Errors
/// The key cannot be generated.
pub fn key_pair(algorithm: Algorithm) -> Result<KeyPair, AuthorityError> {
    let key = algorithm.generate()?;
    Ok(KeyPair {
        public: pem("PUBLIC KEY", &key.subject_public_key_info()),
        key: key.serialize_pem(),
    })
}

/// A PEM text.
fn pem(label: &str, der: &[u8]) -> String {
    let text = STANDARD.encode(der);
    let mut lines = vec![format!("-----BEGIN {label}-----")];
    let mut rest = text.as_str();
    while !rest.is_empty() {
        let (line, tail) = rest.split_at_checked(64).unwrap_or((rest, ""));
        lines.push(line.to_owned());
        rest = tail;
    }
    lines.push(format!("-----END {label}-----\n"));
    lines.join("\n")
}

/// A new certificate authority.
pub struct Authority;

impl Authority {
    /// Issues an authority with this common name that is valid for these days.
    ///
    /// # Errors
    /// The certificate cannot be issued.
    pub fn issue(name: &str, algorithm: Algorithm, days: i32) -> Result<KeyPair, AuthorityError> {
        let key = algorithm.generate()?;
        let mut params = params(name, Duration::days(i64::from(days)))?;
        params.is_ca = IsCa::Ca(BasicConstraints::Constrained(0));
        params.key_usages = vec![
            KeyUsagePurpose::DigitalSignature,
            KeyUsagePurpose::KeyEncipherment,
            KeyUsagePurpose::KeyCertSign,
        ];
        let certificate = params.self_signed(&key);
        let certificate = certificate.map_err(|_library| AuthorityError::Refused("the certificate of an authority"))?;
        Ok(KeyPair {
            public: certificate.pem(),
            key: key.serialize_pem(),
        })
    }
}

fn params(name: &str, validity: Duration) -> Result<CertificateParams, AuthorityError> {
    let now = OffsetDateTime::now_utc();
    let until = now.checked_add(validity);
    let mut params = CertificateParams::default();
    params.not_before = now - LAG;
    params.not_after = until.ok_or(AuthorityError::Refused("a certificate with this period of validity"))?;
    params.distinguished_name = DistinguishedName::new();
    params.distinguished_name.push(DnType::CommonName, name);
    Ok(params)
}

/// The kubeconfig of the administrator of a cluster, with a new client certificate. `authority` is
/// that of the API server, and `server` its address with `https://`.
///
/// # Errors
/// The authority cannot sign the certificate.
pub fn kubeconfig(
    cluster: &str,
    server: &str,
    authority: &KeyPair,
    algorithm: Algorithm,
) -> Result<String, AuthorityError> {
    let refused = AuthorityError::Refused("the certificate of the administrator");
    // The messages of the library could quote the key.
    let key = rcgen::KeyPair::from_pem(&authority.key).map_err(|_quotes_key| refused.clone())?;
    let issuer = Issuer::from_ca_cert_pem(&authority.public, key).map_err(|_quotes_key| refused.clone())?;
    let own = algorithm.generate()?;
    let mut params = params("kubernetes-admin", ADMINISTRATOR)?;
    params
        .distinguished_name
        .push(DnType::OrganizationName, "system:masters");
    params.key_usages = vec![KeyUsagePurpose::DigitalSignature, KeyUsagePurpose::KeyEncipherment];
    params.extended_key_usages = vec![ExtendedKeyUsagePurpose::ClientAuth];
    params.use_authority_key_identifier_extension = true;
    let certificate = params.signed_by(&own, &issuer).map_err(|_library| refused)?;
    let user = format!("{cluster}-admin");
    let context = format!("{user}@{cluster}");
    let [authority, certificate, key] =
        [authority.public.as_str(), &certificate.pem(), &own.serialize_pem()].map(|text| STANDARD.encode(text));
    Ok(format!(
        "apiVersion: v1\nkind: Config\ncurrent-context: {context}\nclusters:\n- name: {cluster}\n  cluster:\n    server: \
         {server}\n    certificate-authority-data: {authority}\ncontexts:\n- name: {context}\n  context:\n    cluster: \
         {cluster}\n    user: {user}\nusers:\n- name: {user}\n  user:\n    client-certificate-data: \
         {certificate}\n    client-key-data: {key}\n"
    ))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::workload::{credentials, kubeconfig::parse};

    #[tokio::test]
    async fn the_kubeconfig_of_a_new_authority_can_be_used() {
        for algorithm in ["RSA-2048", "ECDSA-P256"] {
            let algorithm = algorithm.parse().unwrap();
            let authority = Authority::issue("kubernetes", algorithm, 10).unwrap();
            let text = kubeconfig("c", "https://127.0.0.1:6443", &authority, algorithm).unwrap();
            let config = parse(text.as_bytes()).await.unwrap();
            assert_eq!(config.cluster_url.to_string(), "https://127.0.0.1:6443/");
            assert!(kube::Client::try_from(config).is_ok());
            // The authority of etcd signs the same way.
            assert!(credentials(&authority.public, &authority.key).is_ok());
        }
    }

    #[test]
    fn a_key_pair_has_a_public_key_in_pem_and_its_debug_text_has_no_key() {
        let pair = key_pair(Algorithm::EcdsaP256).unwrap();
        assert!(pair.public.starts_with("-----BEGIN PUBLIC KEY-----\n"));
        assert!(pair.public.lines().all(|line| line.len() <= 64));
        assert_eq!(format!("{pair:?}"), "KeyPair");
        assert!("DSA".parse::<Algorithm>().is_err());
    }
}
