//! Upgrades of a request for a port-forward to a stream of SPDY, through the API server.
//!
//! An API server accepts SPDY inside of WebSocket, and every one accepts SPDY itself. The first
//! passes proxies that know WebSocket only.

use std::io::{Error, Result};

use bytes::Bytes;
use futures::{SinkExt as _, StreamExt as _};
use hyper::http::header::{CONNECTION, SEC_WEBSOCKET_ACCEPT, SEC_WEBSOCKET_KEY, SEC_WEBSOCKET_PROTOCOL};
use hyper::http::header::{SEC_WEBSOCKET_VERSION, UPGRADE};
use hyper::http::{Method, Request, Response, StatusCode};
use hyper::upgrade::Upgraded;
use hyper_util::rt::TokioIo;
use kube::client::Body;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio_tungstenite::WebSocketStream;
use tokio_tungstenite::tungstenite::handshake::client::generate_key;
use tokio_tungstenite::tungstenite::handshake::derive_accept_key;
use tokio_tungstenite::tungstenite::protocol::{Message, Role};
use tokio_util::io::{CopyToBytes, SinkWriter, StreamReader};

use super::spdy;

/// The protocol of port-forwards inside of SPDY.
const PORT_FORWARD: &str = "portforward.k8s.io";
/// The header that names it without WebSocket.
const STREAM_PROTOCOL: &str = "x-stream-protocol-version";

/// A stream of SPDY inside of WebSocket.
///
/// # Errors
/// The API server cannot be reached, or refuses the upgrade.
pub(super) async fn in_websocket(client: &kube::Client, path: &str) -> Result<impl AsyncRead + AsyncWrite + use<>> {
    let protocol = format!("{}+{PORT_FORWARD}", spdy::PROTOCOL);
    let key = generate_key();
    let request = upgrade(Method::GET, path, "websocket")
        .header(SEC_WEBSOCKET_VERSION, "13")
        .header(SEC_WEBSOCKET_KEY, &key)
        .header(SEC_WEBSOCKET_PROTOCOL, &protocol);
    let answer = send(client, request).await?;
    expect(
        &answer,
        SEC_WEBSOCKET_ACCEPT.as_str(),
        &derive_accept_key(key.as_bytes()),
    )?;
    expect(&answer, SEC_WEBSOCKET_PROTOCOL.as_str(), &protocol)?;
    let socket = WebSocketStream::from_raw_socket(upgraded(answer).await?, Role::Client, None).await;
    let (sink, source) = socket.split();
    // The library answers pings. The end of the stream follows a message that closes it.
    let contents = source.filter_map(async |message| match message {
        Ok(Message::Binary(bytes)) => Some(Ok(bytes)),
        Ok(_) => None,
        Err(error) => Some(Err(Error::other(error))),
    });
    let messages = sink
        .with(async |bytes: Bytes| Ok(Message::Binary(bytes)))
        .sink_map_err(|error: tokio_tungstenite::tungstenite::Error| Error::other(error));
    Ok(tokio::io::join(
        StreamReader::new(Box::pin(contents)),
        SinkWriter::new(CopyToBytes::new(Box::pin(messages))),
    ))
}

/// A stream of SPDY.
///
/// # Errors
/// The API server cannot be reached, or refuses the upgrade.
pub(super) async fn to_spdy(client: &kube::Client, path: &str) -> Result<impl AsyncRead + AsyncWrite + use<>> {
    let request = upgrade(Method::POST, path, spdy::PROTOCOL).header(STREAM_PROTOCOL, PORT_FORWARD);
    let answer = send(client, request).await?;
    expect(&answer, STREAM_PROTOCOL, PORT_FORWARD)?;
    upgraded(answer).await
}

fn upgrade(method: Method, path: &str, protocol: &str) -> hyper::http::request::Builder {
    let request = Request::builder().method(method).uri(path);
    request.header(CONNECTION, "Upgrade").header(UPGRADE, protocol)
}

/// Sends a request, and expects that the API server changes the protocol.
async fn send(client: &kube::Client, request: hyper::http::request::Builder) -> Result<Response<Body>> {
    let request = request.body(Body::empty()).map_err(Error::other)?;
    let answer = client.send(request).await.map_err(Error::other)?;
    if answer.status() == StatusCode::SWITCHING_PROTOCOLS {
        return Ok(answer);
    }
    Err(Error::other(format!(
        "the API server answered with {}",
        answer.status()
    )))
}

/// Expects a value of a header.
fn expect(answer: &Response<Body>, header: &str, expected: &str) -> Result<()> {
    let value = answer.headers().get(header).map(hyper::http::HeaderValue::as_bytes);
    if value == Some(expected.as_bytes()) {
        return Ok(());
    }
    Err(Error::other(format!(
        "the API server accepted the upgrade without {header}: {expected}"
    )))
}

async fn upgraded(answer: Response<Body>) -> Result<TokioIo<Upgraded>> {
    let upgraded = hyper::upgrade::on(answer).await.map_err(Error::other)?;
    Ok(TokioIo::new(upgraded))
}
