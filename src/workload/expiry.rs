//! When the certificate of an API server of a managed cluster expires.
//!
//! The certificate must be signed by the authority of the cluster, and must contain the address.
//! Nothing is sent after the handshake. The connection goes to the address, or through the API
//! server of the cluster to the pod that kubeadm runs for this API server.

use std::io;
use std::sync::Arc;
use std::time::Duration;

use capstan_core::model::ApiServer;
use jiff::Timestamp;
use rustls::crypto::aws_lc_rs;
use rustls::pki_types::{CertificateDer, ServerName};
use rustls::{ClientConfig, RootCertStore};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;

use super::cluster::SYSTEM;
use super::etcd::Forward;

/// The deadline for the connection with its handshake.
const DEADLINE: Duration = Duration::from_secs(5);

/// A port-forward to an API server, with a client of its cluster.
pub(super) fn forward(client: kube::Client, server: &ApiServer) -> Forward {
    Forward::new(client, SYSTEM, &format!("kube-apiserver-{}", server.node), server.port)
}

/// When the certificate of an API server expires. Without `forward`, the connection goes to its
/// address.
///
/// # Errors
/// The server does not answer, or it has no certificate of one of the authorities.
pub(super) async fn serving_expiry(
    server: &ApiServer,
    forward: Option<Forward>,
    authorities: Vec<Vec<u8>>,
) -> Result<Timestamp, String> {
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
    let connector = TlsConnector::from(Arc::new(config));
    let name = ServerName::try_from(server.host.clone()).map_err(|error| error.to_string())?;
    let asked = async {
        match forward {
            Some(forward) => forward.with(|stream| not_after(connector, name, stream)).await,
            None => not_after(connector, name, TcpStream::connect(server.to_string()).await?).await,
        }
    };
    let seconds = match tokio::time::timeout(DEADLINE, asked).await {
        Ok(seconds) => seconds.map_err(|error| error.to_string())?,
        Err(_elapsed) => return Err(format!("no connection within {DEADLINE:?}")),
    };
    Timestamp::from_second(seconds).map_err(|error| error.to_string())
}

/// When the certificate of the server behind a stream expires, in seconds since 1970.
async fn not_after<S: AsyncRead + AsyncWrite + Unpin>(
    connector: TlsConnector,
    name: ServerName<'static>,
    stream: S,
) -> io::Result<i64> {
    let stream = connector.connect(name, stream).await?;
    let (_, session) = stream.get_ref();
    let leaf = session.peer_certificates().and_then(<[_]>::first);
    match leaf.map(|leaf| x509_parser::parse_x509_certificate(leaf)) {
        Some(Ok((_, certificate))) => Ok(certificate.validity().not_after.timestamp()),
        _ => Err(io::Error::other("the server must have a certificate")),
    }
}
