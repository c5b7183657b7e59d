//! Reads the fields of certificates: names, validity, fingerprint.

use sha2::{Digest, Sha256};
use x509_parser::extensions::GeneralName;

use rustls::pki_types::CertificateDer;
use rustls::pki_types::pem::PemObject;

/// The fields of one certificate that users and the rotation need.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Facts {
    /// The subject, as text.
    pub subject: String,
    /// The issuer, as text.
    pub issuer: String,
    /// DNS names and addresses, sorted.
    pub names: Vec<String>,
    /// Whether it is a CA certificate.
    pub authority: bool,
    /// The start of the validity, in seconds since 1970.
    pub not_before: i64,
    /// The end of the validity, in seconds since 1970.
    pub not_after: i64,
    /// The SHA-256 of the DER form, in hexadecimal digits. It identifies the certificate.
    pub fingerprint: String,
    /// The subject key identifier, in hexadecimal digits; empty if the certificate has none.
    pub key_id: String,
    /// The authority key identifier, in hexadecimal digits; empty if the certificate has none.
    pub authority_key_id: String,
}

/// A PEM block that is not a valid certificate.
#[derive(Debug, thiserror::Error)]
#[error("certificate {number}: {reason}")]
pub struct Unreadable {
    /// The position of the block, from 1.
    pub number: usize,
    /// The error of the parser.
    pub reason: String,
}

fn hex(bytes: &[u8]) -> String {
    use std::fmt::Write;
    bytes
        .iter()
        .fold(String::with_capacity(bytes.len() * 2), |mut text, byte| {
            // Writing to a String does not fail.
            let _ = write!(text, "{byte:02x}");
            text
        })
}

fn name(name: &GeneralName<'_>) -> Option<String> {
    match name {
        GeneralName::DNSName(name) => Some((*name).to_owned()),
        GeneralName::IPAddress(bytes) => {
            let four = <[u8; 4]>::try_from(*bytes).map(std::net::IpAddr::from);
            let six = <[u8; 16]>::try_from(*bytes).map(std::net::IpAddr::from);
            four.or(six).ok().map(|address| address.to_string())
        }
        _ => None,
    }
}

fn facts(der: &[u8]) -> Result<Facts, String> {
    let (_, certificate) = x509_parser::parse_x509_certificate(der).map_err(|error| error.to_string())?;
    let mut names: Vec<String> = match certificate
        .subject_alternative_name()
        .map_err(|error| error.to_string())?
    {
        Some(extension) => extension.value.general_names.iter().filter_map(name).collect(),
        None => Vec::new(),
    };
    names.sort();
    let (mut key_id, mut authority_key_id) = (String::new(), String::new());
    for extension in certificate.extensions() {
        use x509_parser::extensions::ParsedExtension;
        match extension.parsed_extension() {
            ParsedExtension::SubjectKeyIdentifier(id) => key_id = hex(id.0),
            ParsedExtension::AuthorityKeyIdentifier(id) => {
                authority_key_id = id.key_identifier.as_ref().map(|id| hex(id.0)).unwrap_or_default();
            }
            _ => {}
        }
    }
    Ok(Facts {
        subject: certificate.subject().to_string(),
        issuer: certificate.issuer().to_string(),
        names,
        authority: certificate.is_ca(),
        not_before: certificate.validity().not_before.timestamp(),
        not_after: certificate.validity().not_after.timestamp(),
        fingerprint: hex(&Sha256::digest(der)),
        key_id,
        authority_key_id,
    })
}

/// The names of a client certificate: the common names of its subject, and its DNS names and
/// addresses. Empty if it cannot be parsed.
pub(super) fn client_names(der: &[u8]) -> Vec<String> {
    let Ok((_, certificate)) = x509_parser::parse_x509_certificate(der) else {
        return Vec::new();
    };
    let common = certificate.subject().iter_common_name();
    let mut names: Vec<String> = common
        .filter_map(|name| name.as_str().ok().map(str::to_owned))
        .collect();
    if let Ok(Some(extension)) = certificate.subject_alternative_name() {
        names.extend(extension.value.general_names.iter().filter_map(name));
    }
    names
}

/// All certificates in a PEM text, in order. PEM blocks of other types are ignored.
///
/// # Errors
///
/// A certificate cannot be parsed.
pub fn certificates(pem: &[u8]) -> Result<Vec<Facts>, Unreadable> {
    CertificateDer::pem_slice_iter(pem)
        .enumerate()
        .map(|(index, der)| {
            let unreadable = |reason: String| Unreadable {
                number: index + 1,
                reason,
            };
            facts(&der.map_err(|error| unreadable(error.to_string()))?).map_err(unreadable)
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::certificates;
    use crate::tls::issue::{Authority, DAY, Names};

    #[test]
    fn the_names_and_the_issuer_of_a_leaf_are_read() {
        let now = 1_800_000_000;
        let authority = Authority::issue("capstan", now, 10 * DAY).unwrap();
        let names = Names::new(["b.example".to_owned(), "127.0.0.1".to_owned(), "::1".to_owned()]).unwrap();
        let leaf = authority.leaf(&names, now, DAY).unwrap();
        let both = certificates(format!("{}{}", leaf.certificate, authority.certificate).as_bytes()).unwrap();
        let [leaf, authority] = both.as_slice() else {
            panic!("{both:?}")
        };
        assert_eq!(leaf.names, ["127.0.0.1", "::1", "b.example"]);
        assert_eq!((leaf.not_before, leaf.not_after), (now - 3600, now + DAY));
        assert!(!leaf.authority && authority.authority);
        assert_eq!(leaf.issuer, authority.subject);
        assert_eq!(leaf.authority_key_id, authority.key_id);
        assert!(!authority.key_id.is_empty());
    }

    #[test]
    fn an_invalid_certificate_is_an_error_with_its_position() {
        let error = certificates(b"-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n").unwrap_err();
        assert_eq!(error.number, 1);
        assert!(certificates(b"nothing").unwrap().is_empty());
    }
}
