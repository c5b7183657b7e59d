//! Connections to an etcd member through the API server of its cluster: a port-forward to its pod.
//!
//! The API server forwards the bytes to the kubelet, and the kubelet to the port of the pod on
//! loopback. So Capstan needs no route to the machines. The TLS of the member is inside of it. One
//! port-forward carries one connection and ends with it.

use std::fmt;
use std::io::{Error, Result};

use k8s_openapi::api::core::v1::Pod;
use kube::Api;
use tokio::io::DuplexStream;

/// A port of a pod.
#[derive(Clone)]
pub struct Forward {
    pods: Api<Pod>,
    pod: String,
    port: u16,
}

impl fmt::Debug for Forward {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{}:{}", self.pod, self.port)
    }
}

impl Forward {
    /// A port of a pod in a namespace, through a client of the cluster of the pod.
    pub fn new(client: kube::Client, namespace: &str, pod: &str, port: u16) -> Self {
        Self {
            pods: Api::namespaced(client, namespace),
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
    pub(super) async fn open(&self) -> Result<(DuplexStream, impl Future<Output = Option<Error>> + Send + use<>)> {
        let forwarding = self.pods.portforward(&self.pod, &[self.port]).await;
        let mut forwarding = forwarding.map_err(|error| self.failed(error))?;
        let (stream, report) = (forwarding.take_stream(self.port), forwarding.take_error(self.port));
        let (Some(stream), Some(report)) = (stream, report) else {
            return Err(self.failed("there is no stream"));
        };
        let forward = self.clone();
        let report = async move { report.await.map(|reason| forward.failed(reason.trim())) };
        Ok((stream, report))
    }

    /// The failure of a connection, with the pod.
    pub(super) fn failed(&self, reason: impl fmt::Display) -> Error {
        Error::other(format!("port-forward to pod {}: {reason}", self.pod))
    }
}
