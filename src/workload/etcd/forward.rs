//! Connections to an etcd member through the API server of its cluster: a port-forward to its pod.
//!
//! The API server forwards the bytes to the kubelet, and the kubelet to the port of the pod on
//! loopback. So Capstan needs no route to the machines. The TLS of the member is inside of it. One
//! port-forward carries one connection and ends with it.
//!
//! There are three protocols: WebSocket with channels, SPDY inside of WebSocket, and SPDY. No
//! server tells beforehand which of them it accepts. If a server refuses a protocol, the next one
//! is tried. An answer that says something else, such as that the user is forbidden, ends the
//! attempts.

mod spdy;
mod upgrade;

use std::fmt;
use std::io::{Error, Result};
use std::pin::pin;

use futures::FutureExt as _;
use futures::future::BoxFuture;
use k8s_openapi::api::core::v1::Pod;
use kube::Api;
use tokio::io::{AsyncRead, AsyncWrite, DuplexStream};
use tokio::sync::oneshot;

/// Bytes between the connection and the port-forward.
const BUFFER: usize = 64 << 10;

/// A port of a pod.
#[derive(Clone)]
pub struct Forward {
    client: kube::Client,
    namespace: String,
    pod: String,
    port: u16,
}

/// An open port-forward: its stream, and a future that ends with it.
type Opened = (DuplexStream, BoxFuture<'static, Option<Error>>);

impl fmt::Debug for Forward {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{}:{}", self.pod, self.port)
    }
}

impl Forward {
    /// A port of a pod in a namespace, through a client of the cluster of the pod.
    pub fn new(client: kube::Client, namespace: &str, pod: &str, port: u16) -> Self {
        Self {
            client,
            namespace: namespace.to_owned(),
            pod: pod.to_owned(),
            port,
        }
    }

    /// Opens a connection. The second value ends with the port-forward: with what the kubelet
    /// reports if it cannot reach the port, or with nothing. The report comes before the end of the
    /// stream.
    ///
    /// # Errors
    /// The API server or the kubelet refuses the connection.
    async fn open(&self) -> Result<Opened> {
        let refusal = match self.in_channels().await {
            Ok(opened) => return Ok(opened),
            Err(error) if refuses_protocol(&error) => error,
            Err(error) => return Err(self.failed(error)),
        };
        let path = format!("/api/v1/namespaces/{}/pods/{}/portforward", self.namespace, self.pod);
        let tunnel = match upgrade::in_websocket(&self.client, &path).await {
            Ok(transport) => return Ok(self.over(transport)),
            Err(error) => error,
        };
        match upgrade::to_spdy(&self.client, &path).await {
            Ok(transport) => Ok(self.over(transport)),
            Err(error) => Err(self.failed(format_args!(
                "WebSocket: {refusal}; SPDY in WebSocket: {tunnel}; SPDY: {error}"
            ))),
        }
    }

    /// Opens a connection, and does the first exchange on it, such as a handshake.
    ///
    /// # Errors
    /// As for [`Self::open`], or the exchange fails. The error is what the kubelet reports, if it
    /// reports something.
    pub(in crate::workload) async fn with<T, F: Future<Output = Result<T>>>(
        &self,
        exchange: impl FnOnce(DuplexStream) -> F,
    ) -> Result<T> {
        let (stream, report) = self.open().await?;
        let mut report = pin!(report.fuse());
        let done = tokio::select! {
            Some(failure) = &mut report => return Err(failure),
            done = exchange(stream) => done,
        };
        // The stream ends with the port-forward, and the report says why, unless it was lost in the
        // library because the kubelet had closed the connection before our first bytes.
        let reported = |end: &Error| report.now_or_never().flatten().unwrap_or_else(|| self.failed(end));
        done.map_err(|end| reported(&end))
    }

    /// Opens a connection by the protocol of WebSocket with channels.
    async fn in_channels(&self) -> kube::Result<Opened> {
        let pods: Api<Pod> = Api::namespaced(self.client.clone(), &self.namespace);
        let mut forwarding = pods.portforward(&self.pod, &[self.port]).await?;
        let (stream, report) = (forwarding.take_stream(self.port), forwarding.take_error(self.port));
        let (Some(stream), Some(report)) = (stream, report) else {
            let missing = Error::other("there is no stream");
            return Err(kube::Error::Service(missing.into()));
        };
        let forward = self.clone();
        let report = async move { report.await.map(|reason| forward.failed(reason.trim())) };
        Ok((stream, report.boxed()))
    }

    /// Opens a connection by SPDY over a stream.
    fn over<T: AsyncRead + AsyncWrite + Send + 'static>(&self, transport: T) -> Opened {
        let (stream, local) = tokio::io::duplex(BUFFER);
        let (sender, report) = oneshot::channel();
        tokio::spawn(spdy::run(transport, self.port, local, sender));
        let forward = self.clone();
        let report = async move { report.await.ok().map(|reason| forward.failed(reason.trim())) };
        (stream, report.boxed())
    }

    /// The failure of a connection, with the pod.
    fn failed(&self, reason: impl fmt::Display) -> Error {
        Error::other(format!("port-forward to pod {}: {reason}", self.pod))
    }
}

/// Whether a server refuses the protocol, and not the port-forward.
fn refuses_protocol(error: &kube::Error) -> bool {
    match error {
        kube::Error::Api(status) => matches!(status.code, 400 | 405 | 426 | 501),
        kube::Error::UpgradeConnection(_) => true,
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use kube::core::Status;

    use super::*;

    #[test]
    fn only_an_answer_about_the_protocol_leads_to_the_next_one() {
        let refuses =
            |code: u16| refuses_protocol(&kube::Error::Api(Box::new(Status::failure("", "").with_code(code))));
        assert!([400, 405, 426, 501].into_iter().all(refuses));
        assert!(![401, 403, 404, 500, 502, 503].into_iter().any(refuses));
    }
}
