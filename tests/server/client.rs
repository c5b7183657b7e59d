//! Clients: one that works like an API server's, and helpers that send arbitrary bytes.

use std::net::SocketAddr;
use std::sync::Arc;

use bytes::Bytes;
use http_body_util::{BodyExt, Full};
use hyper::client::conn::{http1, http2};
use hyper::{Request, Response};
use hyper_util::rt::{TokioExecutor, TokioIo};
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, ServerName};
use rustls::{ClientConfig, RootCertStore, SupportedProtocolVersion};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;
use tokio_rustls::client::TlsStream;

use crate::harness::Running;

pub type Stream = TlsStream<TcpStream>;

/// A review that the stub reviewer allows.
pub fn review(uid: &str) -> Bytes {
    let object = "x".repeat(3000);
    format!(r#"{{"kind":"AdmissionReview","request":{{"uid":"{uid}","object":{{"a":"{object}"}}}}}}"#).into()
}

pub fn config(trust: &str, alpn: &str, versions: &[&'static SupportedProtocolVersion]) -> ClientConfig {
    let mut roots = RootCertStore::empty();
    for certificate in CertificateDer::pem_slice_iter(trust.as_bytes()) {
        roots.add(certificate.unwrap()).unwrap();
    }
    let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
    let mut config = ClientConfig::builder_with_provider(provider)
        .with_protocol_versions(versions)
        .unwrap()
        .with_root_certificates(roots)
        .with_no_client_auth();
    config.alpn_protocols = vec![alpn.as_bytes().to_vec()];
    // Without resumption, every connection checks the certificate.
    config.resumption = rustls::client::Resumption::disabled();
    config
}

pub async fn connect(address: SocketAddr, config: ClientConfig) -> std::io::Result<Stream> {
    let stream = TcpStream::connect(address).await?;
    let name = ServerName::try_from("localhost").unwrap();
    TlsConnector::from(Arc::new(config)).connect(name, stream).await
}

/// A TLS 1.3 connection for HTTP/1.1.
pub async fn open(running: &Running) -> Stream {
    connect(
        running.address,
        config(&running.trust, "http/1.1", rustls::ALL_VERSIONS),
    )
    .await
    .unwrap()
}

/// A client of either protocol.
pub enum Client {
    One(http1::SendRequest<Full<Bytes>>),
    Two(http2::SendRequest<Full<Bytes>>),
}

impl Client {
    pub async fn new(stream: Stream) -> hyper::Result<Self> {
        let two = stream.get_ref().1.alpn_protocol() == Some(b"h2");
        let io = TokioIo::new(stream);
        if two {
            let (sender, connection) = http2::handshake(TokioExecutor::new(), io).await?;
            tokio::spawn(connection);
            Ok(Self::Two(sender))
        } else {
            let (sender, connection) = http1::handshake(io).await?;
            tokio::spawn(connection);
            Ok(Self::One(sender))
        }
    }

    pub async fn send(&mut self, request: Request<Full<Bytes>>) -> hyper::Result<Response<Bytes>> {
        let response = match self {
            Self::One(sender) => {
                sender.ready().await?;
                sender.send_request(request).await?
            }
            Self::Two(sender) => {
                sender.ready().await?;
                sender.send_request(request).await?
            }
        };
        let (head, body) = response.into_parts();
        Ok(Response::from_parts(head, body.collect().await?.to_bytes()))
    }

    pub async fn post(&mut self, path: &str, body: Bytes) -> hyper::Result<Response<Bytes>> {
        let request = Request::post(format!("https://localhost{path}"))
            .header("host", "localhost")
            .header("content-type", "application/json")
            .body(Full::new(body))
            .unwrap();
        self.send(request).await
    }
}

/// The head of a POST with a body of `length` bytes.
pub fn head(path: &str, length: usize) -> String {
    format!("POST {path} HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\nContent-Length: {length}\r\n\r\n")
}

/// Sends all but the last byte of a review, and returns that byte. The review is in flight until
/// the byte arrives.
pub async fn send_all_but_last_byte(stream: &mut Stream, uid: &str, path: &str) -> u8 {
    let body = review(uid);
    let (last, first) = body.split_last().unwrap();
    stream.write_all(head(path, body.len()).as_bytes()).await.unwrap();
    stream.write_all(first).await.unwrap();
    stream.flush().await.unwrap();
    *last
}

pub async fn send(stream: &mut Stream, bytes: &[u8]) {
    stream.write_all(bytes).await.unwrap();
    stream.flush().await.unwrap();
}

/// Reads one response with its head, using the Content-Length.
pub async fn read_response(stream: &mut Stream) -> String {
    let mut text = Vec::new();
    loop {
        let all = String::from_utf8_lossy(&text).into_owned();
        if let Some((head, body)) = all.split_once("\r\n\r\n") {
            let length = head.to_lowercase().lines().find_map(|line| {
                line.strip_prefix("content-length: ")
                    .map(|length| length.parse::<usize>().unwrap())
            });
            if body.len() >= length.unwrap_or(0) {
                return all;
            }
        }
        let mut more = [0; 4096];
        let read = stream.read(&mut more).await.unwrap();
        assert!(read > 0, "the connection closed after {all:?}");
        text.extend_from_slice(&more[..read]);
    }
}

/// Waits until the server closes the connection, gracefully or not.
pub async fn wait_closed(stream: &mut (impl tokio::io::AsyncRead + Unpin)) {
    let mut discarded = Vec::new();
    let end = stream.read_to_end(&mut discarded);
    // A reset and a missing close_notify also end the connection.
    let _reset = tokio::time::timeout(std::time::Duration::from_secs(60), end)
        .await
        .expect("the server did not close the connection");
}
