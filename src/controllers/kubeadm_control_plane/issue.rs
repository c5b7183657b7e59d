//! The keys, the certificates, and the kubeconfig that a new cluster gets.
//!
//! A key takes seconds of a processor, so it is generated on a thread of its own. Core decides what
//! is generated. No error quotes a key.

use std::future::Future;

use capstan_core::kcp::certificates::{Generation, Purpose};

use crate::workload::{self, Authority, AuthorityError, Connections, KeyPair};

/// The kubeconfig of the administrator of a cluster.
#[derive(Clone)]
pub struct Kubeconfig {
    /// The name of the cluster.
    pub cluster: String,
    /// The address of its API server.
    pub server: String,
    /// The authority that signs the certificate.
    pub authority: KeyPair,
    /// The algorithm of the key.
    pub algorithm: String,
}

impl std::fmt::Debug for Kubeconfig {
    /// Never prints the key.
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(formatter, "Kubeconfig of {}", self.cluster)
    }
}

/// Issues what a new cluster needs. A simulation can issue texts without a key.
pub trait Issuer: Clone + Send + Sync + 'static {
    /// An authority, or a pair of keys.
    fn authority(&self, wanted: &Generation) -> impl Future<Output = Result<KeyPair, String>> + Send;

    /// A kubeconfig as YAML.
    fn kubeconfig(&self, wanted: Kubeconfig) -> impl Future<Output = Result<String, String>> + Send;
}

impl Issuer for Connections {
    async fn authority(&self, wanted: &Generation) -> Result<KeyPair, String> {
        let wanted = wanted.clone();
        on_a_thread(move || generate(&wanted)).await
    }

    async fn kubeconfig(&self, wanted: Kubeconfig) -> Result<String, String> {
        on_a_thread(move || {
            let algorithm = wanted.algorithm.parse()?;
            workload::admin_kubeconfig(&wanted.cluster, &wanted.server, &wanted.authority, algorithm)
        })
        .await
    }
}

async fn on_a_thread<T: Send + 'static>(
    work: impl FnOnce() -> Result<T, AuthorityError> + Send + 'static,
) -> Result<T, String> {
    match tokio::task::spawn_blocking(work).await {
        Ok(Ok(issued)) => Ok(issued),
        Ok(Err(error)) => Err(error.to_string()),
        Err(error) => Err(format!("the thread panicked: {error}")),
    }
}

/// The names of the authorities are those of kubeadm.
fn generate(wanted: &Generation) -> Result<KeyPair, AuthorityError> {
    let algorithm = wanted.algorithm.parse()?;
    let name = match wanted.purpose {
        Purpose::Cluster => "kubernetes",
        Purpose::Etcd => "etcd-ca",
        Purpose::FrontProxy => "front-proxy-ca",
        Purpose::ServiceAccount | Purpose::ApiServerEtcdClient => return workload::key_pair(algorithm),
    };
    Authority::issue(name, algorithm, wanted.days)
}
