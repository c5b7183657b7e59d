//! A cluster behind a Kubernetes client.

use capstan_core::api::kind::{KindInfo, Scope};
use capstan_core::api::objects::CachedObject;
use capstan_core::model::ObjectRef;
use jiff::Timestamp;
use k8s_openapi::api::core::v1::Event;
use kube::Api;
use kube::api::{ApiResource, DeleteParams, DynamicObject, ListParams, Patch, PatchParams, PostParams};
use kube::discovery::{ApiCapabilities, ApiGroup};
use serde_json::Value;
use tokio::time::Instant;

use super::backoff::Backoff;
use super::cluster::{Cluster, FIELD_MANAGER, Written};
use super::object::WatchedObject;

/// Attempts to publish an event.
const PUBLISHED: u32 = 4;

/// A cluster behind a client.
#[derive(Clone)]
pub struct Client(kube::Client);

impl Client {
    /// The cluster that this client talks to.
    pub fn new(client: &kube::Client) -> Self {
        Self(client.clone())
    }

    fn api<K>(&self, kind: &KindInfo, namespace: &str) -> Api<K>
    where
        K: kube::Resource<DynamicType = ApiResource, Scope = kube::core::DynamicResourceScope>,
    {
        api(&self.0, kind, Some(namespace))
    }
}

/// Where an API server serves a kind, as the client needs it.
pub(super) fn resource(kind: &KindInfo) -> ApiResource {
    ApiResource {
        group: kind.group.to_string(),
        version: kind.version.to_string(),
        api_version: kind.api_version(),
        kind: kind.kind.to_string(),
        plural: kind.plural.to_string(),
    }
}

/// The objects of a kind in a namespace, or in all namespaces.
pub(crate) fn api<K>(client: &kube::Client, kind: &KindInfo, namespace: Option<&str>) -> Api<K>
where
    K: kube::Resource<DynamicType = ApiResource, Scope = kube::core::DynamicResourceScope>,
{
    match (kind.scope, namespace) {
        (Scope::Namespaced, Some(namespace)) => Api::namespaced_with(client.clone(), namespace, &resource(kind)),
        _ => Api::all_with(client.clone(), &resource(kind)),
    }
}

impl From<DynamicObject> for Written {
    fn from(mut object: DynamicObject) -> Self {
        Self {
            spec: object.data.get_mut("spec").map(Value::take).unwrap_or_default(),
            metadata: serde_json::to_value(&object.metadata).unwrap_or_default(),
            status: object.data.get("status").cloned().unwrap_or_default(),
            uid: object.metadata.uid.unwrap_or_default(),
            version: object.metadata.resource_version.unwrap_or_default(),
        }
    }
}

fn dynamic(body: Value) -> kube::Result<DynamicObject> {
    serde_json::from_value(body).map_err(kube::Error::SerdeError)
}

impl Cluster for Client {
    fn now(&self) -> Timestamp {
        Timestamp::now()
    }

    fn instant(&self) -> Instant {
        Instant::now()
    }

    async fn get<T: CachedObject>(
        &self,
        kind: &KindInfo,
        namespace: &str,
        name: &str,
    ) -> kube::Result<Option<WatchedObject<T>>> {
        self.api(kind, namespace).get_opt(name).await
    }

    async fn list<T: CachedObject>(
        &self,
        kind: &KindInfo,
        namespace: &str,
        selectors: &[&str],
    ) -> kube::Result<Vec<WatchedObject<T>>> {
        let api: Api<WatchedObject<T>> = self.api(kind, namespace);
        if selectors.is_empty() {
            return Ok(api.list(&ListParams::default()).await?.items);
        }
        // A label selector cannot say "or". An object that fits two selectors is in the answer
        // twice.
        let params: Vec<ListParams> = selectors.iter().map(|one| ListParams::default().labels(one)).collect();
        let lists = futures::future::try_join_all(params.iter().map(|one| api.list(one))).await?;
        Ok(lists.into_iter().flat_map(|list| list.items).collect())
    }

    async fn discover(&self, group: &str, kind: &str) -> kube::Result<Option<KindInfo>> {
        let served = kube::discovery::group(&self.0, group).await;
        let served = match served {
            Ok(served) => served,
            Err(kube::Error::Discovery(kube::error::DiscoveryError::MissingApiGroup(_))) => return Ok(None),
            Err(error) => return Err(error),
        };
        Ok(served_kind(&served, kind).map(|(found, capabilities)| KindInfo {
            group: found.group.into(),
            version: found.version.into(),
            kind: found.kind.into(),
            plural: found.plural.into(),
            scope: match capabilities.scope {
                kube::discovery::Scope::Namespaced => Scope::Namespaced,
                kube::discovery::Scope::Cluster => Scope::Cluster,
            },
        }))
    }

    async fn create(&self, kind: &KindInfo, object: &ObjectRef, body: Value) -> kube::Result<Written> {
        let params = PostParams {
            field_manager: Some(FIELD_MANAGER.to_owned()),
            ..PostParams::default()
        };
        let api: Api<DynamicObject> = self.api(kind, &object.namespace);
        Ok(api.create(&params, &dynamic(body)?).await?.into())
    }

    async fn dry_run(&self, kind: &KindInfo, object: &ObjectRef, body: Value) -> kube::Result<Option<Value>> {
        let params = PostParams {
            field_manager: Some(FIELD_MANAGER.to_owned()),
            dry_run: true,
        };
        let api: Api<DynamicObject> = self.api(kind, &object.namespace);
        let stored = api.create(&params, &dynamic(body)?).await?;
        serde_json::to_value(stored).map(Some).map_err(kube::Error::SerdeError)
    }

    async fn patch(&self, kind: &KindInfo, object: &ObjectRef, status: bool, patch: Value) -> kube::Result<Written> {
        let params = PatchParams {
            field_manager: Some(FIELD_MANAGER.to_owned()),
            ..PatchParams::default()
        };
        let api: Api<DynamicObject> = self.api(kind, &object.namespace);
        let patch = Patch::Merge(patch);
        let patched = if status {
            api.patch_status(&object.name, &params, &patch).await?
        } else {
            api.patch(&object.name, &params, &patch).await?
        };
        Ok(patched.into())
    }

    async fn apply(&self, kind: &KindInfo, object: &ObjectRef, manager: &str, body: Value) -> kube::Result<Written> {
        let api: Api<DynamicObject> = self.api(kind, &object.namespace);
        let params = PatchParams::apply(manager);
        Ok(api.patch(&object.name, &params, &Patch::Apply(body)).await?.into())
    }

    async fn delete(
        &self,
        kind: &KindInfo,
        object: &ObjectRef,
        params: &DeleteParams,
    ) -> kube::Result<Option<Written>> {
        let api: Api<DynamicObject> = self.api(kind, &object.namespace);
        Ok(api.delete(&object.name, params).await?.left().map(Written::from))
    }

    fn publish(&self, namespace: &str, events: Vec<Event>) {
        let api: Api<Event> = Api::namespaced(self.0.clone(), namespace);
        tokio::spawn(async move {
            for event in events {
                let mut backoff = Backoff::default();
                for left in (0..PUBLISHED).rev() {
                    match api.create(&PostParams::default(), &event).await {
                        Ok(_) => break,
                        // This process before a restart, or another replica, published the same.
                        Err(kube::Error::Api(status)) if status.code == 409 => break,
                        Err(error) if left == 0 => {
                            tracing::debug!(%error, reason = event.reason, "the event was not published");
                        }
                        Err(_) => {
                            backoff.wait().await;
                        }
                    }
                }
            }
        });
    }
}

/// A kind of an API group: in the preferred version of the group, or else in the most stable
/// version that has the kind. The CRDs of one group can belong to different projects, and have
/// different versions, such as those of the infrastructure providers of Cluster API.
pub(crate) fn served_kind(group: &ApiGroup, kind: &str) -> Option<(ApiResource, ApiCapabilities)> {
    let other = || {
        group
            .resources_by_stability()
            .into_iter()
            .find(|(found, _)| found.kind == kind)
    };
    group.recommended_kind(kind).or_else(other)
}

#[cfg(test)]
mod tests {
    use http::{Request, Response};
    use kube::client::Body;
    use serde_json::json;

    use super::*;

    /// A cluster with two providers in one group. The group prefers a version that the older
    /// provider does not have.
    async fn answer(request: Request<Body>) -> Result<Response<Body>, std::convert::Infallible> {
        let group = "infrastructure.cluster.x-k8s.io";
        let version = |name: &str| json!({"groupVersion": format!("{group}/{name}"), "version": name});
        let resources = |name: &str, kinds: &[&str]| {
            let kinds = kinds.iter().map(|kind| {
                json!({"name": format!("{}s", kind.to_lowercase()), "singularName": "", "namespaced": true,
                    "kind": kind, "verbs": ["get", "list", "watch"]})
            });
            json!({"kind": "APIResourceList", "groupVersion": format!("{group}/{name}"), "resources": kinds.collect::<Vec<_>>()})
        };
        let body = match request.uri().path().rsplit('/').next() {
            Some("v1beta3") => resources("v1beta3", &["NewPool", "BothPool"]),
            Some("v1beta2") => resources("v1beta2", &["OldPool", "BothPool"]),
            Some("v1alpha1") => resources("v1alpha1", &["OldPool"]),
            _ => json!({"kind": "APIGroupList", "groups": [{"name": group, "preferredVersion": version("v1beta3"),
                "versions": [version("v1beta3"), version("v1beta2"), version("v1alpha1")]}]}),
        };
        Ok(Response::new(Body::from(body.to_string().into_bytes())))
    }

    #[tokio::test]
    async fn v269_a_kind_is_found_in_a_version_that_its_group_does_not_prefer() {
        let client = Client(kube::Client::new(tower::service_fn(answer), "default"));
        let found = async |kind: &str| {
            let found = client.discover("infrastructure.cluster.x-k8s.io", kind).await.unwrap();
            found.map(|found| found.version.into_owned())
        };
        assert_eq!(found("OldPool").await.as_deref(), Some("v1beta2"));
        assert_eq!(found("BothPool").await.as_deref(), Some("v1beta3"));
        assert_eq!(found("NewPool").await.as_deref(), Some("v1beta3"));
        assert_eq!(found("NoPool").await, None);
    }
}
