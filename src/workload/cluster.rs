//! What a controller asks of the API servers of managed clusters.
//!
//! [`Connections`](super::Connections) asks real API servers. A simulation can answer the same
//! calls.

use std::fmt;
use std::future::Future;
use std::time::Duration;

use capstan_core::api::kind::KindInfo;
use capstan_core::model::ApiServer;
use jiff::Timestamp;
use serde::de::DeserializeOwned;
use serde_json::Value;

/// The namespace of the pods that kubeadm runs.
pub(super) const SYSTEM: &str = "kube-system";

/// A managed cluster: its `Cluster` object in the management cluster.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct ManagedCluster {
    /// The namespace of the Cluster.
    pub namespace: String,
    /// The name of the Cluster.
    pub name: String,
    /// The UID of the Cluster. A Cluster that is created again under the same name is another
    /// cluster, and does not get the connection of the old one.
    pub uid: String,
}

impl ManagedCluster {
    /// The name of the Secret with the kubeconfig, which has the namespace of the Cluster.
    pub fn kubeconfig_secret(&self) -> String {
        format!("{}-kubeconfig", self.name)
    }

    /// The name of the Secret with the authority of the etcd members, in the same namespace.
    pub fn etcd_secret(&self) -> String {
        format!("{}-etcd", self.name)
    }
}

impl fmt::Display for ManagedCluster {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{}/{}", self.namespace, self.name)
    }
}

/// Why a managed cluster did not answer a request.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum AccessError {
    /// There is no kubeconfig yet.
    #[error("Secret {namespace}/{secret} must exist; it contains the kubeconfig of cluster {cluster}")]
    NoKubeconfig {
        /// The cluster.
        cluster: String,
        /// The namespace of the Secret.
        namespace: String,
        /// The name of the Secret.
        secret: String,
    },
    /// The authority of the etcd members cannot be used.
    #[error("Secret {namespace}/{secret} {reason}")]
    EtcdAuthority {
        /// The namespace of the Secret.
        namespace: String,
        /// The name of the Secret.
        secret: String,
        /// What must be true, for example `must contain tls.key`.
        reason: String,
    },
    /// The kubeconfig cannot be used.
    #[error("the kubeconfig in Secret {namespace}/{secret} {reason}")]
    Kubeconfig {
        /// The namespace of the Secret.
        namespace: String,
        /// The name of the Secret.
        secret: String,
        /// What must be true, for example `must contain certificate-authority-data`.
        reason: String,
    },
    /// A server may run, and it cannot be used: it refuses the credentials, is not trusted, fails,
    /// or accepted a connection and does not answer. Or the Secret cannot be read.
    #[error("cluster {cluster} cannot be used: {reason}; the next attempt is possible in {:.1}s", retry_after.as_secs_f32())]
    Unusable {
        /// The cluster.
        cluster: String,
        /// The failure of the last attempt.
        reason: String,
        /// After this time a call attempts a new connection. Earlier calls fail at once.
        retry_after: Duration,
    },
    /// No server answers: each attempt to connect failed.
    #[error("cluster {cluster} does not respond: {reason}; the next attempt is possible in {:.1}s", retry_after.as_secs_f32())]
    Unreachable {
        /// The cluster.
        cluster: String,
        /// The failure of the last attempt.
        reason: String,
        /// After this time a call attempts a new connection. Earlier calls fail at once.
        retry_after: Duration,
    },
    /// The API server refused a request.
    #[error("cluster {cluster} refused to {request}: {message} (status {code})")]
    Refused {
        /// The cluster.
        cluster: String,
        /// What was requested, for example `list nodes`.
        request: String,
        /// The HTTP status.
        code: u16,
        /// The message of the API server.
        message: String,
    },
    /// The answer cannot be read.
    #[error("the answer of cluster {cluster} to {request} cannot be read: {reason}")]
    Unreadable {
        /// The cluster.
        cluster: String,
        /// What was requested.
        request: String,
        /// The position and the expected type. It contains no value of the answer.
        reason: String,
    },
}

/// Reads from the API servers of managed clusters. Every read is live.
pub trait ClusterReader: Clone + Send + Sync + 'static {
    /// An object; `None` if no object has this name.
    fn get<T: DeserializeOwned + Send>(
        &self,
        cluster: &ManagedCluster,
        kind: &KindInfo,
        namespace: &str,
        name: &str,
    ) -> impl Future<Output = Result<Option<T>, AccessError>> + Send;

    /// The objects in a namespace that fit the label selector, or all objects with an empty
    /// selector. The namespace of a cluster-scoped kind is empty.
    fn list<T: DeserializeOwned + Send>(
        &self,
        cluster: &ManagedCluster,
        kind: &KindInfo,
        namespace: &str,
        selector: &str,
    ) -> impl Future<Output = Result<Vec<T>, AccessError>> + Send;
}

/// Writes to the API servers of managed clusters, and what else their machines answer.
///
/// A write is rare: the controllers of the managed cluster own what is in it.
pub trait ManagedClusters: ClusterReader {
    /// Sends a JSON merge patch for an object. The metadata of the patch carries a precondition. It
    /// is never retried.
    fn patch(
        &self,
        cluster: &ManagedCluster,
        kind: &KindInfo,
        namespace: &str,
        name: &str,
        patch: &Value,
    ) -> impl Future<Output = Result<(), AccessError>> + Send;

    /// Deletes an object if it has this UID. An object that does not exist is deleted. It is never
    /// retried.
    fn delete(
        &self,
        cluster: &ManagedCluster,
        kind: &KindInfo,
        namespace: &str,
        name: &str,
        uid: &str,
    ) -> impl Future<Output = Result<(), AccessError>> + Send;

    /// Creates an object, unless an object of its name exists. It is never retried.
    fn ensure(
        &self,
        cluster: &ManagedCluster,
        kind: &KindInfo,
        namespace: &str,
        object: &Value,
    ) -> impl Future<Output = Result<(), AccessError>> + Send;

    /// When the certificate of an API server of the cluster expires.
    fn serving_expiry(
        &self,
        cluster: &ManagedCluster,
        server: &ApiServer,
    ) -> impl Future<Output = Result<Timestamp, AccessError>> + Send;
}
