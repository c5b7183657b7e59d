//! Etcd members behind port-forwards: a real API server, a kubelet of the test, and real members at
//! addresses that only the kubelet knows.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use capstan::workload::{
    CLIENT_URLS, Connections, EtcdRoute, ManagedCluster, ManagedEtcd as _, ManagedEtcdError, Settings,
};
use capstan_sandbox::control_plane::{ControlPlane, Options, wait_until};
use futures::{SinkExt as _, StreamExt as _};
use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use serde_json::{Value, json};
use tokio::io::{AsyncRead, AsyncReadExt as _, AsyncWrite, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};
use tokio_rustls::TlsAcceptor;
use tokio_tungstenite::accept_hdr_async;
use tokio_tungstenite::tungstenite::Message;
use tokio_tungstenite::tungstenite::handshake::server::{Request, Response};

use super::members::{Authority, Members, NAMES, base64};

/// An address without a route, as the machines of a cloud have it.
const NOWHERE: &str = "192.0.2.1";

/// A kubelet that forwards ports to loopback, by the protocol of the kubelet for WebSocket.
struct Kubelet {
    port: u16,
    forwarded: Arc<AtomicUsize>,
}

impl Kubelet {
    async fn start() -> Self {
        let pair = Authority::new("kubelet-ca").sign("kubelet", &["127.0.0.1"]);
        let chain = vec![CertificateDer::from_pem_slice(pair.certificate.as_bytes()).unwrap()];
        let key = PrivateKeyDer::from_pem_slice(pair.key.as_bytes()).unwrap();
        let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
        let config = rustls::ServerConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()
            .unwrap()
            .with_no_client_auth()
            .with_single_cert(chain, key)
            .unwrap();
        let acceptor = TlsAcceptor::from(Arc::new(config));
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let port = listener.local_addr().unwrap().port();
        let forwarded = Arc::new(AtomicUsize::new(0));
        let count = Arc::clone(&forwarded);
        tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                let (acceptor, count) = (acceptor.clone(), Arc::clone(&count));
                tokio::spawn(async move {
                    if let Ok(stream) = acceptor.accept(stream).await {
                        forward(stream, &count).await;
                    }
                });
            }
        });
        Self { port, forwarded }
    }
}

/// Serves one port-forward: data in channel 0, and a failure in channel 1.
async fn forward<S: AsyncRead + AsyncWrite + Unpin>(stream: S, count: &AtomicUsize) {
    let mut target = 0_u16;
    #[allow(clippy::result_large_err, reason = "the type of the library")]
    let accepted = accept_hdr_async(stream, |request: &Request, mut response: Response| {
        assert!(
            request.uri().path().starts_with("/portForward/kube-system/etcd-"),
            "{request:?}"
        );
        let query = request.uri().query().unwrap_or_default();
        target = query.split('=').next_back().unwrap().parse().unwrap();
        let protocol = "v4.channel.k8s.io".parse().unwrap();
        response.headers_mut().insert("sec-websocket-protocol", protocol);
        Ok(response)
    });
    let Ok(socket) = accepted.await else { return };
    count.fetch_add(1, Ordering::SeqCst);
    let (mut sink, mut source) = socket.split();
    let [low, high] = target.to_le_bytes();
    for channel in [0, 1] {
        sink.send(Message::binary(vec![channel, low, high])).await.unwrap();
    }
    let Ok(member) = TcpStream::connect(("127.0.0.1", target)).await else {
        let _sent = sink.send(Message::binary(b"\x01connection refused".to_vec())).await;
        let _closed = sink.close().await;
        return;
    };
    let (mut read, mut write) = member.into_split();
    let to_member = async {
        while let Some(Ok(message)) = source.next().await {
            match message {
                Message::Binary(bytes) if bytes.len() > 1 => write.write_all(&bytes[1..]).await.unwrap(),
                Message::Close(_) => break,
                _ => {}
            }
        }
    };
    let from_member = async {
        let mut buffer = vec![0; 16 << 10];
        buffer[0] = 0;
        while let Ok(length @ 1..) = read.read(&mut buffer[1..]).await {
            if sink.send(Message::binary(buffer[..=length].to_vec())).await.is_err() {
                break;
            }
        }
    };
    tokio::select! { () = to_member => {}, () = from_member => {} }
}

async fn create(plane: &ControlPlane, objects: &[Value]) {
    let list = json!({"apiVersion": "v1", "kind": "List", "items": objects}).to_string();
    plane.apply_yaml(&list).await.unwrap();
}

/// The objects of the cluster `c`: its Secrets, and the Nodes and the pods of the members.
async fn prepare(plane: &ControlPlane, members: &Members, kubelet: u16) {
    let kubeconfig = std::fs::read_to_string(plane.kubeconfig().unwrap()).unwrap();
    let secret = |name: &str, data: Value| json!({"apiVersion": "v1", "kind": "Secret", "metadata": {"name": name, "namespace": "default"}, "data": data});
    create(
        plane,
        &[
            secret("c-kubeconfig", json!({"value": base64(&kubeconfig)})),
            secret(
                "c-etcd",
                json!({
                    "tls.crt": base64(&members.authority.certificate()), "tls.key": base64(&members.authority.key()),
                }),
            ),
        ],
    )
    .await;
    for (name, endpoint) in std::iter::zip(NAMES, &members.endpoints) {
        let port = endpoint.address.rsplit_once(':').unwrap().1;
        let pod = json!({
            "apiVersion": "v1", "kind": "Pod",
            "metadata": {"name": format!("etcd-{name}"), "namespace": "kube-system",
                "labels": {"component": "etcd", "tier": "control-plane"},
                "annotations": {
                    (CLIENT_URLS): format!("https://{NOWHERE}:{port}"), "kubernetes.io/config.mirror": "hash",
                }},
            "spec": {"nodeName": name, "containers": [{"name": "etcd", "image": "etcd"}]},
        });
        let node = json!({"apiVersion": "v1", "kind": "Node", "metadata": {"name": name}});
        create(plane, &[node, pod]).await;
        let status = json!({
            "addresses": [{"type": "InternalIP", "address": "127.0.0.1"}],
            "daemonEndpoints": {"kubeletEndpoint": {"Port": kubelet}},
        });
        plane.patch_status(["node", name], &[], &status).await.unwrap();
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn members_without_a_route_are_reached_through_the_api_server_and_the_kubelet() {
    let mut members = Members::start().await;
    let plane = ControlPlane::start(Options::default()).await.unwrap();
    let kubelet = Kubelet::start().await;
    prepare(&plane, &members, kubelet.port).await;
    let cluster = ManagedCluster {
        namespace: String::from("default"),
        name: String::from("c"),
        uid: String::from("u"),
    };
    let settings = Settings {
        etcd_route: EtcdRoute::PortForward,
        ..Settings::default()
    };
    let connections = Connections::new(&plane.client().await.unwrap(), settings);
    let report = connections.members(&cluster).await.unwrap();
    assert!(report.silent.is_empty(), "{report:?}");
    let names = report.survey.members.iter().map(|(member, _)| member.name.as_str());
    assert_eq!(names.collect::<Vec<_>>(), NAMES);
    assert_eq!(kubelet.forwarded.load(Ordering::SeqCst), 3, "one for each member");

    let old = report.leader().unwrap().to_owned();
    let others: Vec<String> = NAMES
        .iter()
        .filter(|name| **name != old)
        .map(|&name| name.to_owned())
        .collect();
    connections.move_leader(&cluster, &old, &others).await.unwrap();
    let report = connections.members(&cluster).await.unwrap();
    assert_eq!(report.leader(), Some(others[0].as_str()));

    let lost = NAMES.iter().position(|name| *name == others[1]).unwrap();
    members.kill(lost);
    // Either the report of the kubelet or the end of the stream comes first.
    for _ in 0..10 {
        let report = connections.members(&cluster).await.unwrap();
        let reason = report.silent.get(&others[1]).unwrap();
        assert!(reason.contains("port-forward to pod etcd-"), "{reason}");
    }

    // etcd refuses a removal until its members have been connected for five seconds.
    let removing = wait_until("the removal", Duration::from_secs(240), async || {
        match connections.remove_member(&cluster, &others[1]).await {
            Ok(()) => Ok(Some(())),
            Err(ManagedEtcdError::Etcd(error)) if error.is_unhealthy_cluster() => Ok(None),
            Err(error) => panic!("{error}"),
        }
    });
    removing.await.unwrap();
    let report = connections.members(&cluster).await.unwrap();
    assert_eq!(report.survey.members.len(), 2);
}
