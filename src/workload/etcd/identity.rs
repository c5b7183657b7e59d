//! The certificate with which Capstan calls etcd members.
//!
//! A member accepts every client certificate of its authority. The key of the authority is in the
//! management cluster, so the certificate is signed for one use and stored nowhere.

use rcgen::{CertificateParams, DistinguishedName, DnType, ExtendedKeyUsagePurpose, Issuer, KeyPair, KeyUsagePurpose};
use time::{Duration, OffsetDateTime};

use super::EtcdError;
use super::client::Credentials;

/// The name in the certificate. Cluster API uses the same name, so that a member logs one client.
const NAME: &str = "cluster-api.x-k8s.io";
/// How long before now the certificate is valid, for members whose clock is slow.
const LAG: Duration = Duration::hours(1);
/// How long the certificate is valid.
const VALIDITY: Duration = Duration::hours(24);

/// The credentials of a client, signed by the authority of the members. Both arguments are PEM.
///
/// # Errors
/// The certificate or the key of the authority cannot be used.
pub fn credentials(authority: &str, key: &str) -> Result<Credentials, EtcdError> {
    // The messages of the library could quote the key.
    let unusable = |what: &'static str| move |_quotes_key| EtcdError::Credentials(what.to_owned());
    let key =
        KeyPair::from_pem(key).map_err(unusable("must be signed with the private key of the authority in PEM"))?;
    let issuer = Issuer::from_ca_cert_pem(authority, key)
        .map_err(unusable("must be signed by the certificate of an authority in PEM"))?;
    let signed = sign(&issuer).map_err(unusable("cannot be signed with the key of the authority"))?;
    Credentials::from_pem(authority.as_bytes(), signed.0.as_bytes(), signed.1.as_bytes())
}

fn sign(issuer: &Issuer<'_, KeyPair>) -> Result<(String, String), rcgen::Error> {
    let now = OffsetDateTime::now_utc();
    let own = KeyPair::generate()?;
    let mut params = CertificateParams::default();
    params.not_before = now - LAG;
    params.not_after = now + VALIDITY;
    params.distinguished_name = DistinguishedName::new();
    params.distinguished_name.push(DnType::CommonName, NAME);
    params.key_usages = vec![KeyUsagePurpose::DigitalSignature];
    params.extended_key_usages = vec![ExtendedKeyUsagePurpose::ClientAuth];
    params.use_authority_key_identifier_extension = true;
    let certificate = params.signed_by(&own, issuer)?;
    Ok((certificate.pem(), own.serialize_pem()))
}
