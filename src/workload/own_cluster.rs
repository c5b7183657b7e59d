//! The cluster that Capstan runs in, as a managed cluster: the etcd members of the control plane
//! itself are found by their pods.
//!
//! The client is that of the process. The module executes single requests and decides nothing.

use capstan_core::api::kind::KindInfo;
use jiff::Timestamp;
use kube::api::{DeleteParams, ListParams, Patch, PatchParams, PostParams, Preconditions, Request};
use kube::{Client, Error};
use serde::Deserialize;
use serde::de::{DeserializeOwned, IgnoredAny};
use serde_json::Value;

use super::cluster::{AccessError, ManagedCluster, ManagedClusters};
use super::connections::path;

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

impl ManagedClusters for OwnCluster {
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
        #[derive(Deserialize)]
        struct List<T> {
            items: Option<Vec<T>>,
        }
        let what = || format!("list {}", kind.plural);
        let params = match selector {
            "" => ListParams::default(),
            selector => ListParams::default().labels(selector),
        };
        let request = Request::new(path(kind, namespace)).list(&params);
        let request = request.map_err(|error| failed(what(), Error::BuildRequest(error)))?;
        let list = self.0.request::<List<T>>(request).await;
        Ok(list.map_err(|error| failed(what(), error))?.items.unwrap_or_default())
    }

    async fn delete(
        &self,
        _cluster: &ManagedCluster,
        kind: &KindInfo,
        namespace: &str,
        name: &str,
        uid: &str,
    ) -> Result<(), AccessError> {
        let what = || format!("delete {} {name}", kind.plural);
        let params = DeleteParams {
            preconditions: Some(Preconditions {
                uid: Some(uid.to_owned()),
                resource_version: None,
            }),
            ..DeleteParams::default()
        };
        let request = Request::new(path(kind, namespace)).delete(name, &params);
        let request = request.map_err(|error| failed(what(), Error::BuildRequest(error)))?;
        match self.0.request::<IgnoredAny>(request).await {
            Ok(_) => Ok(()),
            Err(Error::Api(status)) if status.code == 404 => Ok(()),
            Err(error) => Err(failed(what(), error)),
        }
    }

    async fn ensure(
        &self,
        _cluster: &ManagedCluster,
        kind: &KindInfo,
        namespace: &str,
        object: &Value,
    ) -> Result<(), AccessError> {
        let what = || format!("create {}", kind.plural);
        let params = PostParams {
            field_manager: Some(String::from("capstan")),
            ..PostParams::default()
        };
        let request = Request::new(path(kind, namespace)).create(&params, object.to_string().into_bytes());
        let request = request.map_err(|error| failed(what(), Error::BuildRequest(error)))?;
        match self.0.request::<IgnoredAny>(request).await {
            Ok(_) => Ok(()),
            Err(Error::Api(status)) if status.code == 409 => Ok(()),
            Err(error) => Err(failed(what(), error)),
        }
    }

    /// The etcd operator of this cluster renews its certificates, so nothing reads their expiry.
    async fn serving_expiry(&self, _cluster: &ManagedCluster, address: &str) -> Result<Timestamp, AccessError> {
        Err(AccessError::Unreachable {
            cluster: Self::name().to_string(),
            reason: format!("the certificate of the API server at {address} is read for managed clusters only"),
            retry_after: std::time::Duration::ZERO,
        })
    }

    async fn patch(
        &self,
        _cluster: &ManagedCluster,
        kind: &KindInfo,
        namespace: &str,
        name: &str,
        patch: &Value,
    ) -> Result<(), AccessError> {
        let what = || format!("patch {} {name}", kind.plural);
        let request = Request::new(path(kind, namespace)).patch(name, &PatchParams::default(), &Patch::Merge(patch));
        let request = request.map_err(|error| failed(what(), Error::BuildRequest(error)))?;
        let patched = self.0.request::<Value>(request).await;
        patched.map(drop).map_err(|error| failed(what(), error))
    }
}
