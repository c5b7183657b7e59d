//! Clients of managed clusters against a real API server, which is both the management cluster and
//! the managed cluster.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use capstan::workload::{AccessError, ClusterReader as _, Connections, ManagedCluster, Settings};
use capstan_core::api::kind::KindInfo;
use capstan_sandbox::control_plane::ControlPlane;
use k8s_openapi::ByteString;
use k8s_openapi::api::core::v1::Secret;
use kube::Api;
use serde_json::{Value, json};

const NAMESPACES: KindInfo = KindInfo::cluster("", "v1", "Namespace", "namespaces");
const TOYS: KindInfo = KindInfo::namespaced("example.org", "v1", "Toy", "toys");
const CONFIG_MAPS: KindInfo = KindInfo::namespaced("", "v1", "ConfigMap", "configmaps");

/// The management cluster with a namespace of the test.
struct World {
    plane: &'static ControlPlane,
    client: kube::Client,
    namespace: String,
}

impl World {
    async fn new() -> Self {
        let plane = ControlPlane::shared().await.unwrap();
        Self {
            plane,
            client: plane.client().await.unwrap(),
            namespace: plane.namespace("workload").await.unwrap(),
        }
    }

    fn cluster(&self, name: &str) -> ManagedCluster {
        ManagedCluster {
            namespace: self.namespace.clone(),
            name: name.to_owned(),
            uid: format!("uid-of-{name}"),
        }
    }

    /// The kubeconfig of an administrator of the plane, changed.
    fn kubeconfig(&self, change: impl FnOnce(&mut Value)) -> String {
        let path = self.plane.kubeconfig().unwrap();
        let mut kubeconfig: Value = serde_json::from_str(&std::fs::read_to_string(path).unwrap()).unwrap();
        change(&mut kubeconfig);
        kubeconfig.to_string()
    }

    /// Stores the kubeconfig of a cluster.
    async fn store(&self, cluster: &ManagedCluster, kubeconfig: &str) {
        let secrets: Api<Secret> = Api::namespaced(self.client.clone(), &self.namespace);
        let mut secret = Secret::default();
        secret.metadata.name = Some(format!("{}-kubeconfig", cluster.name));
        secret.data = Some([("value".to_owned(), ByteString(kubeconfig.as_bytes().to_vec()))].into());
        let params = kube::api::PatchParams::apply("test").force();
        let name = secret.metadata.name.clone().unwrap();
        let body = json!({"apiVersion": "v1", "kind": "Secret", "metadata": {"name": name}, "data": secret.data});
        secrets
            .patch(&name, &params, &kube::api::Patch::Apply(body))
            .await
            .unwrap();
    }

    fn connections(&self, settings: Settings) -> Connections {
        Connections::new(&self.client, settings)
    }
}

/// The names of the namespaces that a cluster lists.
async fn namespaces(connections: &Connections, cluster: &ManagedCluster) -> Result<Vec<String>, AccessError> {
    let objects: Vec<Value> = connections.list(cluster, &NAMESPACES, "", "").await?;
    let name = |object: &Value| object["metadata"]["name"].as_str().unwrap().to_owned();
    Ok(objects.iter().map(name).collect())
}

/// A server that accepts connections and never answers. It counts them.
async fn silent_server() -> (String, Arc<AtomicUsize>) {
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("https://{}", listener.local_addr().unwrap());
    let connections = Arc::new(AtomicUsize::new(0));
    let counter = Arc::clone(&connections);
    tokio::spawn(async move {
        let mut held = Vec::new();
        while let Ok((stream, _)) = listener.accept().await {
            counter.fetch_add(1, Ordering::SeqCst);
            held.push(stream);
        }
    });
    (url, connections)
}

#[tokio::test(flavor = "multi_thread")]
async fn a_cluster_is_read_with_its_kubeconfig_and_an_absent_object_is_no_error() {
    let world = World::new().await;
    let cluster = world.cluster("good");
    let connections = world.connections(Settings::default());
    let missing = namespaces(&connections, &cluster).await.unwrap_err();
    assert!(matches!(missing, AccessError::NoKubeconfig { .. }), "{missing}");
    connections.forget(&cluster);
    world.store(&cluster, &world.kubeconfig(|_| {})).await;
    assert!(
        namespaces(&connections, &cluster)
            .await
            .unwrap()
            .contains(&world.namespace)
    );
    let found: Option<Value> = connections.get(&cluster, &NAMESPACES, "", "kube-system").await.unwrap();
    assert_eq!(found.unwrap()["metadata"]["name"], "kube-system");
    let absent: Option<Value> = connections
        .get(&cluster, &NAMESPACES, "", "no-such-name")
        .await
        .unwrap();
    assert_eq!(absent, None);
    // A kind that is not served is an error, because an empty list would mean that there is no
    // object.
    let toys = connections.list::<Value>(&cluster, &TOYS, "", "").await.unwrap_err();
    assert!(matches!(toys, AccessError::Refused { code: 404, .. }), "{toys}");
    let labelled: Vec<Value> = connections
        .list(&cluster, &NAMESPACES, "", "kubernetes.io/metadata.name=kube-system")
        .await
        .unwrap();
    assert_eq!(labelled.len(), 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn an_unreachable_cluster_delays_no_other_and_is_not_dialled_during_its_back_off() {
    let world = World::new().await;
    let (good, silent) = (world.cluster("good"), world.cluster("silent"));
    let (url, dialled) = silent_server().await;
    world.store(&good, &world.kubeconfig(|_| {})).await;
    let silent_kubeconfig = world.kubeconfig(|kubeconfig| kubeconfig["clusters"][0]["cluster"]["server"] = json!(url));
    world.store(&silent, &silent_kubeconfig).await;
    let connections = world.connections(Settings {
        connect_timeout: Duration::from_secs(4),
        first_delay: Duration::from_secs(60),
        ..Settings::default()
    });
    let waiting = {
        let (connections, silent) = (connections.clone(), silent.clone());
        tokio::spawn(async move { namespaces(&connections, &silent).await })
    };
    while dialled.load(Ordering::SeqCst) == 0 {
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    // The first call is still waiting for the silent cluster.
    namespaces(&connections, &good).await.unwrap();
    assert!(!waiting.is_finished(), "the other cluster must answer first");
    let failed = waiting.await.unwrap().unwrap_err();
    // It accepts connections, so a server runs.
    assert!(matches!(failed, AccessError::Unusable { .. }), "{failed}");
    let attempts = dialled.load(Ordering::SeqCst);
    let began = Instant::now();
    let again = namespaces(&connections, &silent).await.unwrap_err();
    assert!(began.elapsed() < Duration::from_secs(1), "{:?}", began.elapsed());
    let AccessError::Unusable { retry_after, .. } = again else {
        panic!("{again}");
    };
    assert!(retry_after > Duration::from_secs(30), "{retry_after:?}");
    assert_eq!(dialled.load(Ordering::SeqCst), attempts);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_changed_kubeconfig_is_used_after_the_next_check_and_a_cluster_recovers() {
    let world = World::new().await;
    let cluster = world.cluster("changing");
    let connections = world.connections(Settings {
        check_every: Duration::ZERO,
        first_delay: Duration::from_millis(50),
        ..Settings::default()
    });
    world.store(&cluster, &world.kubeconfig(|_| {})).await;
    namespaces(&connections, &cluster).await.unwrap();
    // The old server still runs, and must get no more requests.
    let closed = world.kubeconfig(|kubeconfig| {
        kubeconfig["clusters"][0]["cluster"]["server"] = json!("https://127.0.0.1:1");
    });
    world.store(&cluster, &closed).await;
    let failed = namespaces(&connections, &cluster).await.unwrap_err();
    assert!(matches!(failed, AccessError::Unreachable { .. }), "{failed}");
    world.store(&cluster, &world.kubeconfig(|_| {})).await;
    tokio::time::sleep(Duration::from_millis(100)).await;
    namespaces(&connections, &cluster).await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn wrong_credentials_and_another_ca_are_failures_that_name_the_cluster() {
    let world = World::new().await;
    let connections = world.connections(Settings::default());
    let no_rights = world.cluster("no-rights");
    let path = world.plane.kubeconfig_for("a-user", &["a-group"]).unwrap();
    world.store(&no_rights, &std::fs::read_to_string(path).unwrap()).await;
    let refused = connections
        .list::<Value>(&no_rights, &CONFIG_MAPS, "kube-system", "")
        .await;
    let refused = refused.unwrap_err();
    assert!(matches!(refused, AccessError::Refused { code: 403, .. }), "{refused}");
    assert!(refused.to_string().contains(&no_rights.to_string()), "{refused}");

    let unknown = world.cluster("unknown-user");
    let token = world.kubeconfig(|kubeconfig| kubeconfig["users"][0]["user"] = json!({"token": "unknown"}));
    world.store(&unknown, &token).await;
    let refused = namespaces(&connections, &unknown).await.unwrap_err();
    assert!(refused.to_string().contains("refused the credentials"), "{refused}");

    let impostor = world.cluster("impostor");
    let authority = super::members::Authority::new("another-ca");
    let ca = super::members::base64(&authority.certificate());
    let other_ca = world.kubeconfig(|kubeconfig| {
        kubeconfig["clusters"][0]["cluster"]["certificate-authority-data"] = json!(ca);
    });
    world.store(&impostor, &other_ca).await;
    let refused = namespaces(&connections, &impostor).await.unwrap_err();
    assert!(refused.to_string().contains("certificate"), "{refused}");
    assert!(matches!(refused, AccessError::Unusable { .. }), "{refused}");
}

/// Silence permits a new etcd cluster, so it is only what a missing server causes.
#[tokio::test(flavor = "multi_thread")]
async fn v292_only_a_connection_that_is_refused_or_closed_at_once_is_silence() {
    let world = World::new().await;
    let connections = world.connections(Settings::default());
    let closing = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let without_back_ends = format!("https://{}", closing.local_addr().unwrap());
    tokio::spawn(async move {
        while let Ok((stream, _)) = closing.accept().await {
            drop(stream);
        }
    });
    for (name, server, is_silent) in [
        ("closed", "https://127.0.0.1:1", true),
        ("without-back-ends", without_back_ends.as_str(), true),
        ("without-name", "https://name.invalid:6443", false),
    ] {
        let cluster = world.cluster(name);
        let kubeconfig = world.kubeconfig(|kubeconfig| kubeconfig["clusters"][0]["cluster"]["server"] = json!(server));
        world.store(&cluster, &kubeconfig).await;
        let failed = namespaces(&connections, &cluster).await.unwrap_err();
        let is_known = match is_silent {
            true => matches!(failed, AccessError::Unreachable { .. }),
            false => matches!(failed, AccessError::Unusable { .. }),
        };
        assert!(is_known, "{name}: {failed:?}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn the_number_of_connections_is_bounded_and_a_new_cluster_of_an_old_name_has_its_own() {
    let world = World::new().await;
    let connections = world.connections(Settings {
        capacity: 2,
        ..Settings::default()
    });
    let clusters = ["a", "b", "c"].map(|name| world.cluster(name));
    for cluster in &clusters {
        world.store(cluster, &world.kubeconfig(|_| {})).await;
        namespaces(&connections, cluster).await.unwrap();
    }
    assert_eq!(connections.len(), 2);
    // A cluster that lost its place gets a new connection.
    namespaces(&connections, &clusters[0]).await.unwrap();
    assert_eq!(connections.len(), 2);
    connections.forget(&clusters[0]);
    connections.forget(&clusters[2]);
    assert!(connections.is_empty());

    let old = &clusters[0];
    namespaces(&connections, old).await.unwrap();
    let closed = world.kubeconfig(|kubeconfig| {
        kubeconfig["clusters"][0]["cluster"]["server"] = json!("https://127.0.0.1:1");
    });
    world.store(old, &closed).await;
    let new = ManagedCluster {
        uid: String::from("another-uid"),
        ..old.clone()
    };
    let failed = namespaces(&connections, &new).await.unwrap_err();
    assert!(matches!(failed, AccessError::Unreachable { .. }), "{failed}");
}
