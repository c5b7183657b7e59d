//! When the certificate of an API server of a managed cluster expires.
//!
//! The certificate must be signed by the authority of the cluster, and must contain the address.
//! Nothing is sent after the handshake.

use std::sync::Arc;
use std::time::Duration;

use jiff::Timestamp;
use rustls::crypto::aws_lc_rs;
use rustls::pki_types::{CertificateDer, ServerName};
use rustls::{ClientConfig, RootCertStore};
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;

/// The deadline for the connection with its handshake.
const DEADLINE: Duration = Duration::from_secs(5);

/// When the certificate expires of the server at `address`, which is an IP address or a name with a
/// port.
///
/// # Errors
/// The server does not answer, or it has no certificate of one of the authorities.
pub(super) async fn serving_expiry(address: &str, authorities: Vec<Vec<u8>>) -> Result<Timestamp, String> {
    let mut roots = RootCertStore::empty();
    for authority in authorities {
        let added = roots.add(CertificateDer::from(authority));
        added.map_err(|error| format!("the authority of the cluster must be valid: {error}"))?;
    }
    let config = ClientConfig::builder_with_provider(Arc::new(aws_lc_rs::default_provider()))
        .with_protocol_versions(&[&rustls::version::TLS13, &rustls::version::TLS12])
        .map_err(|error| error.to_string())?
        .with_root_certificates(roots)
        .with_no_client_auth();
    let host = address.rsplit_once(':').map_or(address, |(host, _port)| host);
    let host = host.trim_matches(['[', ']']).to_owned();
    let name = ServerName::try_from(host).map_err(|error| error.to_string())?;
    let handshake = async {
        let stream = TcpStream::connect(address).await?;
        TlsConnector::from(Arc::new(config)).connect(name, stream).await
    };
    let stream = match tokio::time::timeout(DEADLINE, handshake).await {
        Ok(connected) => connected.map_err(|error| error.to_string())?,
        Err(_elapsed) => return Err(format!("no connection within {DEADLINE:?}")),
    };
    let (_, session) = stream.get_ref();
    let leaf = session.peer_certificates().and_then(<[_]>::first);
    let parsed = leaf.map(|leaf| x509_parser::parse_x509_certificate(leaf));
    let seconds = match parsed {
        Some(Ok((_, certificate))) => certificate.validity().not_after.timestamp(),
        _ => return Err(String::from("the server must have a certificate")),
    };
    Timestamp::from_second(seconds).map_err(|error| error.to_string())
}
