//! The cluster that Capstan runs in, as a managed cluster: the etcd members of the control plane
//! itself are found by their pods.
//!
//! The client is that of the process. The module executes single requests and decides nothing.

use capstan_core::api::kind::KindInfo;
use kube::api::Request;
use kube::{Client, Error};
use serde::de::DeserializeOwned;

use super::cluster::{AccessError, ClusterReader, ManagedCluster};
use super::connections::{List, list_request, path};

/// The cluster that Capstan runs in.
#[derive(Clone)]
pub struct OwnCluster(Client);

impl std::fmt::Debug for OwnCluster {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.write_str("OwnCluster")
    }
}

impl OwnCluster {
    /// The cluster of this client.
    pub fn new(client: &Client) -> Self {
        Self(client.clone())
    }

    /// A name for it, which no request contains.
    pub fn name() -> ManagedCluster {
        ManagedCluster {
            namespace: String::new(),
            name: String::from("of Capstan"),
            uid: String::new(),
        }
    }
}

fn failed(request: String, error: Error) -> AccessError {
    let cluster = OwnCluster::name().to_string();
    match error {
        Error::Api(status) => AccessError::Refused {
            cluster,
            request,
            code: status.code,
            message: status.message,
        },
        other => AccessError::Unreachable {
            cluster,
            reason: other.to_string(),
            retry_after: std::time::Duration::ZERO,
        },
    }
}

impl ClusterReader for OwnCluster {
    async fn get<T: DeserializeOwned + Send>(
        &self,
        _cluster: &ManagedCluster,
        kind: &KindInfo,
        namespace: &str,
        name: &str,
    ) -> Result<Option<T>, AccessError> {
        let what = || format!("get {} {name}", kind.plural);
        let request = Request::new(path(kind, namespace)).get(name, &kube::api::GetParams::default());
        let request = request.map_err(|error| failed(what(), Error::BuildRequest(error)))?;
        match self.0.request::<T>(request).await {
            Ok(found) => Ok(Some(found)),
            Err(Error::Api(status)) if status.code == 404 => Ok(None),
            Err(error) => Err(failed(what(), error)),
        }
    }

    async fn list<T: DeserializeOwned + Send>(
        &self,
        _cluster: &ManagedCluster,
        kind: &KindInfo,
        namespace: &str,
        selector: &str,
    ) -> Result<Vec<T>, AccessError> {
        let what = || format!("list {}", kind.plural);
        let request = list_request(kind, namespace, selector);
        let request = request.map_err(|error| failed(what(), Error::BuildRequest(error)))?;
        let list = self.0.request::<List<T>>(request).await;
        Ok(list.map_err(|error| failed(what(), error))?.items.unwrap_or_default())
    }
}
