//! The load: each connection sends the same review, waits for the answer, and sends it again.
//!
//! HTTP/1.1 is written by hand. The client may share processors with the server, so a cheap client
//! leaves more of them to the server.

use std::net::SocketAddr;
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, bail};
use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, ServerName};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;
use tokio_rustls::client::TlsStream;

/// One connection, which stays open between requests.
pub(super) struct Connection {
    stream: TlsStream<TcpStream>,
    buffer: Vec<u8>,
}

/// The address of a server, and the certificate authority that the client trusts.
pub(super) struct Target {
    address: SocketAddr,
    tls: TlsConnector,
}

impl Target {
    /// A server at an address, with a certificate of this authority.
    pub(super) fn new(address: SocketAddr, authority: &Path) -> Result<Self> {
        let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
        let mut roots = rustls::RootCertStore::empty();
        let certificate =
            CertificateDer::from_pem_file(authority).with_context(|| format!("reading {}", authority.display()))?;
        roots.add(certificate)?;
        let mut config = rustls::ClientConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()?
            .with_root_certificates(roots)
            .with_no_client_auth();
        config.alpn_protocols = vec![b"http/1.1".to_vec()];
        Ok(Self {
            address,
            tls: TlsConnector::from(Arc::new(config)),
        })
    }

    /// Connects.
    pub(super) async fn connect(&self) -> Result<Connection> {
        let stream = TcpStream::connect(self.address).await.context("connecting")?;
        stream.set_nodelay(true)?;
        let name = ServerName::try_from("localhost")?;
        let stream = self.tls.connect(name, stream).await.context("in the TLS handshake")?;
        Ok(Connection {
            stream,
            buffer: Vec::with_capacity(4096),
        })
    }
}

/// The bytes of a request that posts `body` to `path`.
pub(super) fn request(path: &str, body: &[u8]) -> Vec<u8> {
    let mut request = format!(
        "POST {path}?timeout=5s HTTP/1.1\r\nHost: localhost\r\nUser-Agent: kube-apiserver-admission\r\nAccept: \
         application/json, */*\r\nContent-Type: application/json\r\nContent-Length: {}\r\n\r\n",
        body.len()
    )
    .into_bytes();
    request.extend_from_slice(body);
    request
}

impl Connection {
    /// Sends a request, reads the whole answer and returns its body.
    pub(super) async fn ask(&mut self, request: &[u8]) -> Result<&[u8]> {
        self.stream.write_all(request).await.context("sending")?;
        self.stream.flush().await.context("sending")?;
        self.buffer.clear();
        loop {
            if self.stream.read_buf(&mut self.buffer).await.context("receiving")? == 0 {
                bail!("the server closed the connection");
            }
            if let Some((head, length)) = head(&self.buffer)? {
                while self.buffer.len() < head + length {
                    if self.stream.read_buf(&mut self.buffer).await.context("receiving")? == 0 {
                        bail!("the server closed the connection");
                    }
                }
                return self.buffer.get(head..head + length).context("the answer has no body");
            }
        }
    }
}

/// The lengths of the head and of the body; `None` until the head is complete.
fn head(received: &[u8]) -> Result<Option<(usize, usize)>> {
    let Some(end) = received.windows(4).position(|window| window == b"\r\n\r\n") else {
        return Ok(None);
    };
    let text = received.get(..end).map(String::from_utf8_lossy).unwrap_or_default();
    if !text.starts_with("HTTP/1.1 200") {
        bail!("the server answered {}", text.lines().next().unwrap_or_default());
    }
    let length = text.lines().find_map(|line| {
        let (name, value) = line.split_once(':')?;
        name.eq_ignore_ascii_case("content-length")
            .then(|| value.trim().parse().ok())?
    });
    Ok(Some((end + 4, length.context("the answer has no content-length")?)))
}

/// Keeps every connection busy for `time`. Returns the connections, and the latencies in
/// nanoseconds.
pub(super) async fn round(
    connections: Vec<Connection>,
    request: &Arc<[u8]>,
    time: Duration,
) -> Result<(Vec<Connection>, Vec<u64>)> {
    let end = Instant::now() + time;
    let tasks: Vec<_> = connections
        .into_iter()
        .map(|mut connection| {
            let request = Arc::clone(request);
            tokio::spawn(async move {
                let mut took = Vec::with_capacity(8192);
                let mut began = Instant::now();
                while began < end {
                    connection.ask(&request).await?;
                    let ended = Instant::now();
                    took.push(u64::try_from((ended - began).as_nanos()).unwrap_or(u64::MAX));
                    began = ended;
                }
                anyhow::Ok((connection, took))
            })
        })
        .collect();
    let (mut connections, mut all) = (Vec::new(), Vec::new());
    for task in tasks {
        let (connection, took) = task.await.context("a connection of the load failed")??;
        connections.push(connection);
        all.extend(took);
    }
    Ok((connections, all))
}

#[cfg(test)]
mod tests {
    use super::{head, request};

    #[test]
    fn a_head_without_length_or_with_another_status_than_200_is_an_error() {
        assert_eq!(head(b"HTTP/1.1 200 OK\r\nContent-Le").unwrap(), None);
        assert_eq!(
            head(b"HTTP/1.1 200 OK\r\ncontent-length: 3\r\n\r\nab").unwrap(),
            Some((38, 3))
        );
        assert!(head(b"HTTP/1.1 429 Busy\r\ncontent-length: 0\r\n\r\n").is_err());
        assert!(head(b"HTTP/1.1 200 OK\r\n\r\n").is_err());
    }

    #[test]
    fn a_request_states_the_length_of_its_body() {
        let request = String::from_utf8(request("/validate", b"{}")).unwrap();
        assert!(
            request.starts_with("POST /validate?timeout=5s HTTP/1.1\r\n"),
            "{request}"
        );
        assert!(
            request.contains("Content-Length: 2\r\n") && request.ends_with("\r\n\r\n{}"),
            "{request}"
        );
    }
}
