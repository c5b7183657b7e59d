//! Clients of managed clusters, from the Secrets with their kubeconfigs.
//!
//! The number of clients is bounded: a new cluster takes the place of the one that was used least
//! recently. Each cluster has its own lock, deadline and back-off, so an unreachable cluster delays
//! only the calls for itself. A connection is checked when it is used and the last check is older
//! than [`Settings::check_every`]: the Secret is read again, and the API server must respond. No
//! task runs in the background.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use bytes::Bytes;
use capstan_core::api::kind::{KindInfo, Scope};
use capstan_core::model::ApiServer;
use http_body_util::{BodyExt as _, Limited};
use hyper::http;
use jiff::Timestamp;
use k8s_openapi::api::core::v1::Secret;
use kube::Api;
use kube::api::{DeleteParams, GetParams, ListParams, Patch, PatchParams, PostParams, Preconditions, Request};
use kube::client::Body;
use serde::Deserialize;
use serde::de::DeserializeOwned;
use serde_json::Value;
use tokio::time::Instant;

use super::cluster::{AccessError, ClusterReader, ManagedCluster, ManagedClusters};
use super::etcd::{EtcdAccess, EtcdRoute, ManagedEtcd, ManagedEtcdError, MembersReport, Way, credentials};
use super::failure::{accepts, causes, is_silence, stable_causes};
use super::{expiry, kubeconfig};

/// Limits of connections.
#[derive(Clone, Debug)]
pub struct Settings {
    /// The largest number of clusters with a client.
    pub capacity: usize,
    /// The deadline for the connection to a cluster, including the read of its Secret.
    pub connect_timeout: Duration,
    /// The deadline for a request.
    pub request_timeout: Duration,
    /// How old the last check of a connection may be.
    pub check_every: Duration,
    /// The delay after the first failed connection. It doubles with every further failure.
    pub first_delay: Duration,
    /// The longest delay.
    pub longest_delay: Duration,
    /// The largest answer that is read, in bytes.
    pub answer_limit: usize,
    /// How the etcd members are reached.
    pub etcd_route: EtcdRoute,
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            capacity: 1_000,
            connect_timeout: Duration::from_secs(10),
            request_timeout: Duration::from_secs(30),
            check_every: Duration::from_secs(30),
            first_delay: Duration::from_secs(1),
            longest_delay: Duration::from_secs(60),
            answer_limit: 64 << 20,
            etcd_route: EtcdRoute::Advertised,
        }
    }
}

/// Clients of managed clusters. A clone shares them.
#[derive(Clone)]
pub struct Connections {
    management: kube::Client,
    settings: Settings,
    entries: Arc<Mutex<Entries>>,
}

/// The connections by cluster.
#[derive(Default)]
struct Entries {
    by_cluster: BTreeMap<ManagedCluster, Entry>,
    /// Counts uses, for the order of use.
    uses: u64,
}

struct Entry {
    last_use: u64,
    connection: Arc<tokio::sync::Mutex<Connection>>,
}

/// The connection to one cluster.
#[derive(Default)]
struct Connection {
    /// The client, and the kubeconfig that it was created from.
    client: Option<(kube::Client, Vec<u8>)>,
    /// The last time that the cluster responded; `None` if a check must precede the next use.
    responded: Option<Instant>,
    /// The number of failures since the cluster responded.
    failures: u32,
    /// The last failure, and the time of the next attempt.
    failure: Option<(AccessError, Instant)>,
}

impl Connections {
    /// Connections to the clusters of a management cluster.
    pub fn new(management: &kube::Client, settings: Settings) -> Self {
        Self {
            management: management.clone(),
            settings,
            entries: Arc::default(),
        }
    }

    /// Closes the connection to a cluster, for example because its object is gone.
    pub fn forget(&self, cluster: &ManagedCluster) {
        self.entries().by_cluster.remove(cluster);
    }

    /// The number of clusters with a connection, including those in back-off.
    pub fn len(&self) -> usize {
        self.entries().by_cluster.len()
    }

    /// Whether there is no connection.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The etcd members of a cluster, with a client certificate that is signed with the key of
    /// their authority.
    ///
    /// # Errors
    /// The Secret with the authority cannot be used, or the cluster does not answer.
    pub async fn etcd(&self, cluster: &ManagedCluster) -> Result<EtcdAccess, AccessError> {
        let secret = cluster.etcd_secret();
        let unusable_authority = |reason: String| AccessError::EtcdAuthority {
            namespace: cluster.namespace.clone(),
            secret: secret.clone(),
            reason,
        };
        let secrets: Api<Secret> = Api::namespaced(self.management.clone(), &cluster.namespace);
        let stored = secrets.get_opt(&secret).await;
        let stored = stored.map_err(|error| unusable_authority(format!("must be readable: {}", causes(&error))))?;
        let stored =
            stored.ok_or_else(|| unusable_authority(String::from("must exist; it contains the authority of etcd")))?;
        let mut data = stored.data.unwrap_or_default();
        let mut pem = |key: &str| {
            let value = data.remove(key).and_then(|value| String::from_utf8(value.0).ok());
            value.ok_or_else(|| unusable_authority(format!("must contain {key} in PEM")))
        };
        let (authority, key) = (pem("tls.crt")?, pem("tls.key")?);
        let signed =
            credentials(&authority, &key).map_err(|error| unusable_authority(format!("must be usable: {error}")))?;
        let way = match self.settings.etcd_route {
            EtcdRoute::Advertised => Way::Advertised,
            EtcdRoute::PortForward => Way::PortForward(self.client(cluster, &self.connection(cluster)).await?),
            EtcdRoute::ApiServer => Way::ApiServer(self.api_server(cluster).await?),
        };
        EtcdAccess::of(self, cluster, signed, &way).await
    }

    /// The host and the port of the API server.
    async fn api_server(&self, cluster: &ManagedCluster) -> Result<String, AccessError> {
        let stored = self.kubeconfig(cluster).await?;
        let config = kubeconfig::parse(&stored).await;
        let url = config.map_err(|reason| bad_kubeconfig(cluster, reason))?.cluster_url;
        let address = url.authority().map(ToString::to_string);
        address.ok_or_else(|| bad_kubeconfig(cluster, String::from("must contain the address of the server")))
    }

    fn entries(&self) -> std::sync::MutexGuard<'_, Entries> {
        // A panic elsewhere leaves the map complete: no change of it has two steps.
        self.entries.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The connection of a cluster; a new one takes the place of the one used least recently.
    fn connection(&self, cluster: &ManagedCluster) -> Arc<tokio::sync::Mutex<Connection>> {
        let mut entries = self.entries();
        entries.uses += 1;
        let last_use = entries.uses;
        if let Some(entry) = entries.by_cluster.get_mut(cluster) {
            entry.last_use = last_use;
            return Arc::clone(&entry.connection);
        }
        while entries.by_cluster.len() >= self.settings.capacity.max(1) {
            let oldest = entries.by_cluster.iter().min_by_key(|(_, entry)| entry.last_use);
            let Some(oldest) = oldest.map(|(cluster, _)| cluster.clone()) else {
                break;
            };
            entries.by_cluster.remove(&oldest);
        }
        let connection = Arc::default();
        let entry = Entry {
            last_use,
            connection: Arc::clone(&connection),
        };
        entries.by_cluster.insert(cluster.clone(), entry);
        connection
    }

    /// A client of a cluster that responded recently.
    async fn client(
        &self,
        cluster: &ManagedCluster,
        connection: &tokio::sync::Mutex<Connection>,
    ) -> Result<kube::Client, AccessError> {
        let mut connection = connection.lock().await;
        let now = Instant::now();
        if let Some((error, next)) = &connection.failure
            && *next > now
        {
            return Err(with_delay(error, *next - now));
        }
        let is_fresh = |at: Instant| now.duration_since(at) < self.settings.check_every;
        if let (Some((client, _)), Some(at)) = (&connection.client, connection.responded)
            && is_fresh(at)
        {
            return Ok(client.clone());
        }
        let known = connection.client.take();
        let checked = self.check(cluster, known).await;
        match checked {
            Ok((client, kubeconfig)) => {
                *connection = Connection {
                    client: Some((client.clone(), kubeconfig)),
                    responded: Some(Instant::now()),
                    ..Connection::default()
                };
                Ok(client)
            }
            Err(error) => {
                let delay = self.delay(&error, connection.failures);
                *connection = Connection {
                    failures: connection.failures.saturating_add(1),
                    failure: Some((error.clone(), Instant::now() + delay)),
                    ..Connection::default()
                };
                Err(with_delay(&error, delay))
            }
        }
    }

    /// The delay after a failure that follows `failures` others. It grows only for a cluster that
    /// does not respond: another failure is found by reading one Secret.
    fn delay(&self, error: &AccessError, failures: u32) -> Duration {
        if !matches!(error, AccessError::Unreachable { .. } | AccessError::Unusable { .. }) {
            return self.settings.first_delay;
        }
        let delay = self.settings.first_delay.saturating_mul(1 << failures.min(16));
        delay.min(self.settings.longest_delay)
    }

    /// Reads the kubeconfig, and checks that the API server responds. `known` is the current client
    /// with its kubeconfig.
    async fn check(
        &self,
        cluster: &ManagedCluster,
        known: Option<(kube::Client, Vec<u8>)>,
    ) -> Result<(kube::Client, Vec<u8>), AccessError> {
        let limit = self.settings.connect_timeout;
        let late = || unusable(cluster, format!("there was no answer within {limit:?}"));
        let stored = tokio::time::timeout(limit, self.kubeconfig(cluster));
        let stored = stored.await.unwrap_or_else(|_elapsed| Err(late()))?;
        let client = match known {
            Some((client, kubeconfig)) if kubeconfig == stored => client,
            _ => self.connect(cluster, &stored).await?,
        };
        let request = http_get("/").map_err(|error| unusable(cluster, error))?;
        let answer = match tokio::time::timeout(limit, client.send(request)).await {
            Ok(Ok(answer)) => answer,
            Ok(Err(error)) if is_silence(&error) && !accepts(&stored, limit.mul_f32(0.25)).await => {
                return Err(unreachable_cluster(cluster, stable_causes(&error)));
            }
            Ok(Err(error)) => return Err(unusable(cluster, stable_causes(&error))),
            // The connection exists, because its own limit is shorter.
            Err(_elapsed) => return Err(late()),
        };
        let status = answer.status().as_u16();
        // A user may be forbidden to read this path, and the server still works.
        match status {
            401 => Err(unusable(cluster, String::from("it refused the credentials"))),
            500.. => Err(unusable(cluster, format!("it answered with status {status}"))),
            _ => Ok((client, stored)),
        }
    }

    async fn kubeconfig(&self, cluster: &ManagedCluster) -> Result<Vec<u8>, AccessError> {
        let secrets: Api<Secret> = Api::namespaced(self.management.clone(), &cluster.namespace);
        let secret = cluster.kubeconfig_secret();
        let stored = secrets.get_opt(&secret).await.map_err(|error| {
            let reason = format!("reading Secret {}/{secret}: {}", cluster.namespace, causes(&error));
            unusable(cluster, reason)
        })?;
        let Some(stored) = stored else {
            return Err(AccessError::NoKubeconfig {
                cluster: cluster.to_string(),
                namespace: cluster.namespace.clone(),
                secret,
            });
        };
        let value = stored.data.and_then(|mut data| data.remove(kubeconfig::KEY));
        value
            .map(|value| value.0)
            .ok_or_else(|| bad_kubeconfig(cluster, format!("must be under the key {:?}", kubeconfig::KEY)))
    }

    async fn connect(&self, cluster: &ManagedCluster, stored: &[u8]) -> Result<kube::Client, AccessError> {
        let mut config = kubeconfig::parse(stored)
            .await
            .map_err(|reason| bad_kubeconfig(cluster, reason))?;
        config.connect_timeout = Some(self.settings.connect_timeout.mul_f32(0.75));
        config.read_timeout = Some(self.settings.request_timeout);
        config.write_timeout = Some(self.settings.request_timeout);
        // The caller decides about a retry.
        config.default_retry = false;
        kube::Client::try_from(config).map_err(|_quotes_keys| {
            bad_kubeconfig(
                cluster,
                String::from("must contain a valid CA certificate, client certificate and key"),
            )
        })
    }

    /// Sends a request and reads the answer within the limits; `None` for status 404.
    async fn send<T: DeserializeOwned>(
        &self,
        cluster: &ManagedCluster,
        what: &str,
        request: http::Request<Vec<u8>>,
    ) -> Result<Option<T>, AccessError> {
        let connection = self.connection(cluster);
        let client = self.client(cluster, &connection).await?;
        let exchange = async {
            let answer = client.send(request.map(Body::from)).await;
            let answer = answer.map_err(|error| causes(&error))?;
            let status = answer.status().as_u16();
            let body = Limited::new(answer.into_body(), self.settings.answer_limit);
            let body = body.collect().await.map_err(|error| error.to_string())?.to_bytes();
            Ok::<_, String>((status, body))
        };
        let exchanged = tokio::time::timeout(self.settings.request_timeout, exchange).await;
        let exchanged =
            exchanged.unwrap_or_else(|_elapsed| Err(format!("no answer within {:?}", self.settings.request_timeout)));
        let (status, body) = match exchanged {
            Ok(answer) => answer,
            Err(reason) => {
                // The next call checks the connection first.
                connection.lock().await.responded = None;
                // The connection existed, so this failure does not say that no server answers.
                return Err(unusable(cluster, format!("{what}: {reason}")));
            }
        };
        match status {
            200..=299 => decode(cluster, what, &body).map(Some),
            404 => Ok(None),
            code => {
                if code == 401 {
                    connection.lock().await.responded = None;
                }
                Err(AccessError::Refused {
                    cluster: cluster.to_string(),
                    request: what.to_owned(),
                    code,
                    message: message(&body),
                })
            }
        }
    }
}

impl ClusterReader for Connections {
    async fn get<T: DeserializeOwned + Send>(
        &self,
        cluster: &ManagedCluster,
        kind: &KindInfo,
        namespace: &str,
        name: &str,
    ) -> Result<Option<T>, AccessError> {
        let what = format!("get {} {name}", kind.plural);
        let request = Request::new(path(kind, namespace)).get(name, &GetParams::default());
        let request = request.map_err(|error| unreadable(cluster, &what, error.to_string()))?;
        self.send(cluster, &what, request).await
    }

    async fn list<T: DeserializeOwned + Send>(
        &self,
        cluster: &ManagedCluster,
        kind: &KindInfo,
        namespace: &str,
        selector: &str,
    ) -> Result<Vec<T>, AccessError> {
        let what = format!("list {}", kind.plural);
        let request = list_request(kind, namespace, selector);
        let request = request.map_err(|error| unreadable(cluster, &what, error.to_string()))?;
        match self.send::<List<T>>(cluster, &what, request).await? {
            Some(list) => Ok(list.items.unwrap_or_default()),
            None => Err(AccessError::Refused {
                cluster: cluster.to_string(),
                request: what,
                code: 404,
                message: String::from("the kind is not served"),
            }),
        }
    }
}

impl ManagedClusters for Connections {
    async fn patch(
        &self,
        cluster: &ManagedCluster,
        kind: &KindInfo,
        namespace: &str,
        name: &str,
        patch: &Value,
    ) -> Result<(), AccessError> {
        let what = format!("patch {} {name}", kind.plural);
        let params = PatchParams {
            field_manager: Some(String::from("capstan")),
            ..PatchParams::default()
        };
        let request = Request::new(path(kind, namespace)).patch(name, &params, &Patch::Merge(patch));
        let request = request.map_err(|error| unreadable(cluster, &what, error.to_string()))?;
        match self.send::<serde::de::IgnoredAny>(cluster, &what, request).await? {
            Some(_) => Ok(()),
            None => Err(AccessError::Refused {
                cluster: cluster.to_string(),
                request: what,
                code: 404,
                message: String::from("the object must exist"),
            }),
        }
    }

    async fn delete(
        &self,
        cluster: &ManagedCluster,
        kind: &KindInfo,
        namespace: &str,
        name: &str,
        uid: &str,
    ) -> Result<(), AccessError> {
        let what = format!("delete {} {name}", kind.plural);
        let params = DeleteParams {
            preconditions: Some(Preconditions {
                uid: Some(uid.to_owned()),
                resource_version: None,
            }),
            ..DeleteParams::default()
        };
        let request = Request::new(path(kind, namespace)).delete(name, &params);
        let request = request.map_err(|error| unreadable(cluster, &what, error.to_string()))?;
        self.send::<serde::de::IgnoredAny>(cluster, &what, request)
            .await
            .map(|_| ())
    }

    async fn ensure(
        &self,
        cluster: &ManagedCluster,
        kind: &KindInfo,
        namespace: &str,
        object: &Value,
    ) -> Result<(), AccessError> {
        let what = format!("create {}", kind.plural);
        let params = PostParams {
            field_manager: Some(String::from("capstan")),
            ..PostParams::default()
        };
        let request = Request::new(path(kind, namespace)).create(&params, object.to_string().into_bytes());
        let request = request.map_err(|error| unreadable(cluster, &what, error.to_string()))?;
        match self.send::<serde::de::IgnoredAny>(cluster, &what, request).await {
            Ok(Some(_)) | Err(AccessError::Refused { code: 409, .. }) => Ok(()),
            Ok(None) => Err(AccessError::Refused {
                cluster: cluster.to_string(),
                request: what,
                code: 404,
                message: String::from("the kind is not served"),
            }),
            Err(error) => Err(error),
        }
    }

    async fn serving_expiry(&self, cluster: &ManagedCluster, server: &ApiServer) -> Result<Timestamp, AccessError> {
        let stored = self.kubeconfig(cluster).await?;
        let config = kubeconfig::parse(&stored).await;
        let config = config.map_err(|reason| bad_kubeconfig(cluster, reason))?;
        let forward = match self.settings.etcd_route {
            EtcdRoute::PortForward => {
                let client = self.client(cluster, &self.connection(cluster)).await?;
                Some(expiry::forward(client, server))
            }
            EtcdRoute::Advertised | EtcdRoute::ApiServer => None,
        };
        let asked = expiry::serving_expiry(server, forward, config.root_cert.unwrap_or_default()).await;
        asked.map_err(|reason| unreachable_cluster(cluster, format!("the API server at {server}: {reason}")))
    }
}

impl ManagedEtcd for Connections {
    async fn members(&self, cluster: &ManagedCluster) -> Result<MembersReport, ManagedEtcdError> {
        Ok(self.etcd(cluster).await?.report().await?)
    }

    async fn move_leader(&self, cluster: &ManagedCluster, from: &str, to: &[String]) -> Result<(), ManagedEtcdError> {
        Ok(self.etcd(cluster).await?.move_leader(from, to).await?)
    }

    async fn remove_member(&self, cluster: &ManagedCluster, member: &str) -> Result<(), ManagedEtcdError> {
        Ok(self.etcd(cluster).await?.remove(member).await?)
    }
}

/// The part of a list that is read.
#[derive(Deserialize)]
pub(super) struct List<T> {
    /// The objects; absent if there are none.
    pub(super) items: Option<Vec<T>>,
}

/// The request for a list. An empty selector selects all objects.
pub(super) fn list_request(
    kind: &KindInfo,
    namespace: &str,
    selector: &str,
) -> Result<http::Request<Vec<u8>>, kube::core::request::Error> {
    let params = match selector {
        "" => ListParams::default(),
        selector => ListParams::default().labels(selector),
    };
    Request::new(path(kind, namespace)).list(&params)
}

/// The path of a kind in a namespace, or in all namespaces if it is empty.
pub(super) fn path(kind: &KindInfo, namespace: &str) -> String {
    let root = if kind.group.is_empty() { "/api" } else { "/apis" };
    let namespace = match kind.scope {
        Scope::Namespaced if !namespace.is_empty() => format!("namespaces/{namespace}/"),
        _ => String::new(),
    };
    format!("{root}/{}/{namespace}{}", kind.api_version(), kind.plural)
}

fn http_get(path: &str) -> Result<http::Request<Body>, String> {
    http::Request::get(path)
        .body(Body::empty())
        .map_err(|error| error.to_string())
}

fn decode<T: DeserializeOwned>(cluster: &ManagedCluster, what: &str, body: &Bytes) -> Result<T, AccessError> {
    serde_json::from_slice(body).map_err(|error| {
        // The message of serde may quote a value of the answer.
        let reason = format!(
            "line {} column {}: {:?} error",
            error.line(),
            error.column(),
            error.classify()
        );
        unreadable(cluster, what, reason)
    })
}

/// The message of a Status, or else the start of the text.
fn message(body: &Bytes) -> String {
    #[derive(Deserialize)]
    struct Status {
        message: String,
    }
    let text = match serde_json::from_slice::<Status>(body) {
        Ok(status) => status.message,
        Err(_other_text) => String::from_utf8_lossy(body).into_owned(),
    };
    text.chars().take(500).collect()
}

fn unreachable_cluster(cluster: &ManagedCluster, reason: String) -> AccessError {
    AccessError::Unreachable {
        cluster: cluster.to_string(),
        reason,
        retry_after: Duration::ZERO,
    }
}

fn unusable(cluster: &ManagedCluster, reason: String) -> AccessError {
    AccessError::Unusable {
        cluster: cluster.to_string(),
        reason,
        retry_after: Duration::ZERO,
    }
}

fn bad_kubeconfig(cluster: &ManagedCluster, reason: String) -> AccessError {
    AccessError::Kubeconfig {
        namespace: cluster.namespace.clone(),
        secret: cluster.kubeconfig_secret(),
        reason,
    }
}

fn unreadable(cluster: &ManagedCluster, what: &str, reason: String) -> AccessError {
    AccessError::Unreadable {
        cluster: cluster.to_string(),
        request: what.to_owned(),
        reason,
    }
}

/// The same error with the time until the next attempt.
fn with_delay(error: &AccessError, delay: Duration) -> AccessError {
    let mut error = error.clone();
    if let AccessError::Unreachable { retry_after, .. } | AccessError::Unusable { retry_after, .. } = &mut error {
        *retry_after = delay;
    }
    error
}
