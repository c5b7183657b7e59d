//! What the failure of a connection to a managed cluster says: whether no server runs, or one that
//! cannot be used.
//!
//! Silence permits a new etcd cluster (decision 99), so each failure that is not known counts as a
//! server that runs.

use std::io;
use std::time::Duration;

use hyper_util::client::legacy;
use tokio::io::AsyncReadExt as _;
use tokio::net::TcpStream;

use super::kubeconfig;

/// Whether no server runs, as far as the failure of an attempt to connect can tell: the connection
/// is refused, reset, or closed, as by a load balancer without back ends, or nothing answers. The
/// failures of this process, such as a failed lookup of a name, are no silence, and neither is a
/// server that is not trusted.
pub(super) fn is_silence(error: &(dyn std::error::Error + 'static)) -> bool {
    let is_of_connection = |error: &&(dyn std::error::Error + 'static)| {
        let error = error.downcast_ref::<legacy::Error>();
        error.is_some_and(legacy::Error::is_connect)
    };
    let is_about_address = |error: &&(dyn std::error::Error + 'static)| {
        let kind = error.downcast_ref::<io::Error>().map(io::Error::kind);
        let silent = [
            io::ErrorKind::ConnectionRefused,
            io::ErrorKind::ConnectionReset,
            io::ErrorKind::ConnectionAborted,
            io::ErrorKind::HostUnreachable,
            io::ErrorKind::TimedOut,
            io::ErrorKind::UnexpectedEof,
        ];
        kind.is_some_and(|kind| silent.contains(&kind))
    };
    let all: Vec<_> = chain(error).collect();
    let fails_in_tls = all.iter().any(|error| error.is::<rustls::Error>());
    !fails_in_tls && all.iter().any(is_of_connection) && all.iter().any(is_about_address)
}

/// An error and its causes. An I/O error contains its cause, and names the cause of that one.
fn chain<'e>(
    error: &'e (dyn std::error::Error + 'static),
) -> impl Iterator<Item = &'e (dyn std::error::Error + 'static)> {
    std::iter::successors(Some(error), |error| {
        let inner = error.downcast_ref::<io::Error>().and_then(io::Error::get_ref);
        match inner {
            Some(inner) => Some(inner as &(dyn std::error::Error + 'static)),
            None => error.source(),
        }
    })
}

/// Whether a server accepts connections and keeps them open for a moment. One that hangs in the TLS
/// handshake would otherwise look like no server. `limit` is for each of the two.
pub(super) async fn accepts(kubeconfig: &[u8], limit: Duration) -> bool {
    let Ok(config) = kubeconfig::parse(kubeconfig).await else {
        return true;
    };
    let host = config.cluster_url.host().unwrap_or_default();
    let host = host.trim_start_matches('[').trim_end_matches(']').to_owned();
    let port = config.cluster_url.port_u16().unwrap_or(443);
    let connected = tokio::time::timeout(limit, TcpStream::connect((host, port))).await;
    let Ok(Ok(mut stream)) = connected else { return false };
    // A server waits for its client. A load balancer without back ends closes the connection.
    match tokio::time::timeout(limit, stream.read(&mut [0])).await {
        Ok(Ok(0) | Err(_)) => false,
        Ok(Ok(_)) | Err(_) => true,
    }
}

/// As [`causes`], without times: the same failure has the same text.
pub(super) fn stable_causes(error: &(dyn std::error::Error + 'static)) -> String {
    use rustls::CertificateError::{Expired, ExpiredContext, NotValidYet, NotValidYetContext};
    let certificate = chain(error).find_map(|error| match error.downcast_ref::<rustls::Error>() {
        Some(rustls::Error::InvalidCertificate(reason)) => Some(reason),
        _ => None,
    });
    match certificate {
        Some(Expired | ExpiredContext { .. }) => String::from("the certificate of the API server is expired"),
        Some(NotValidYet | NotValidYetContext { .. }) => {
            String::from("the certificate of the API server is not valid yet")
        }
        _ => causes(error),
    }
}

/// An error with its causes, of which the last names the failure.
pub(super) fn causes(error: &dyn std::error::Error) -> String {
    let mut text = error.to_string();
    let mut current = error;
    while let Some(source) = current.source() {
        let cause = source.to_string();
        if !text.contains(&cause) {
            text.push_str(": ");
            text.push_str(&cause);
        }
        current = source;
    }
    text
}
