//! Etcd members behind port-forwards: a real API server, the streaming server of a kubelet, and
//! real members at addresses that only the kubelet knows.

use std::time::Duration;

use capstan::workload::{
    CLIENT_URLS, Connections, EtcdRoute, ManagedCluster, ManagedClusters as _, ManagedEtcd as _, ManagedEtcdError,
    Settings,
};
use capstan_core::model::ApiServer;
use capstan_sandbox::control_plane::{ControlPlane, Options, free_port, wait_until};
use capstan_sandbox::neighbours::kubelet::Kubelet;
use serde_json::{Value, json};

use super::members::{Members, NAMES, base64};

/// An address without a route, as the machines of a cloud have it.
const NOWHERE: &str = "192.0.2.1";

async fn create(plane: &ControlPlane, objects: &[Value]) {
    let list = json!({"apiVersion": "v1", "kind": "List", "items": objects}).to_string();
    plane.apply_yaml(&list).await.unwrap();
}

/// The objects of the cluster `c`: its Secrets, and the Nodes and the pods of the members.
async fn prepare(plane: &ControlPlane, members: &Members) {
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
        let mut api_server = pod.clone();
        api_server["metadata"]["name"] = format!("kube-apiserver-{name}").into();
        api_server["metadata"]["labels"] = json!({"component": "kube-apiserver", "tier": "control-plane"});
        create(plane, &[node, pod, api_server]).await;
    }
}

/// Moves the Nodes of all members to a kubelet.
async fn move_to(plane: &ControlPlane, kubelet: &Kubelet) {
    let status = json!({
        "addresses": [{"type": "InternalIP", "address": "127.0.0.1"}],
        "daemonEndpoints": {"kubeletEndpoint": {"Port": kubelet.port}},
    });
    for name in NAMES {
        plane.patch_status(["node", name], &[], &status).await.unwrap();
    }
}

/// The number of port-forwards by SPDY inside of WebSocket that the API server has accepted.
async fn tunnels(plane: &ControlPlane) -> usize {
    let arguments = ["get", "--raw", "/metrics"];
    let metrics = plane.kubectl().args(arguments).run().await.unwrap().checked().unwrap();
    let name = "apiserver_stream_tunnel_requests_total{code=\"101\"} ";
    let count = metrics.stdout.lines().find_map(|line| line.strip_prefix(name));
    count.map_or(0, |count| count.parse().unwrap())
}

/// The pod of each member stands for one of an API server, too: the kubelet forwards each port.
async fn the_certificate_of_an_api_server_is_read(
    plane: &ControlPlane,
    connections: &Connections,
    cluster: &ManagedCluster,
) {
    let (host, port) = plane.url().rsplit_once(':').unwrap();
    let mut server = ApiServer {
        node: NAMES[0].to_owned(),
        host: host.trim_start_matches("https://").to_owned(),
        port: port.parse().unwrap(),
    };
    let before = tunnels(plane).await;
    let forwarded = connections.serving_expiry(cluster, &server).await.unwrap();
    assert_eq!(tunnels(plane).await, before + 1);
    let direct = Connections::new(&plane.client().await.unwrap(), Settings::default());
    assert_eq!(direct.serving_expiry(cluster, &server).await.unwrap(), forwarded);

    server.host = NOWHERE.to_owned();
    let other = connections
        .serving_expiry(cluster, &server)
        .await
        .unwrap_err()
        .to_string();
    assert!(other.contains("not valid for name"), "{other}");
    server.port = free_port().unwrap();
    let silent = connections
        .serving_expiry(cluster, &server)
        .await
        .unwrap_err()
        .to_string();
    assert!(silent.contains("port-forward to pod kube-apiserver-"), "{silent}");
}

#[tokio::test(flavor = "multi_thread")]
async fn members_without_a_route_are_reached_through_the_api_server_and_the_kubelet() {
    let mut members = Members::start().await;
    let plane = ControlPlane::start(Options::default()).await.unwrap();
    let kubelet = Kubelet::start(&plane, true).await.unwrap();
    let without_websocket = Kubelet::start(&plane, false).await.unwrap();
    prepare(&plane, &members).await;
    move_to(&plane, &kubelet).await;
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
    assert_eq!(tunnels(&plane).await, 0);

    // The API server passes a WebSocket on to a kubelet, which refuses it, and then accepts SPDY.
    move_to(&plane, &without_websocket).await;
    assert_eq!(connections.members(&cluster).await.unwrap(), report);
    assert_eq!(tunnels(&plane).await, 3, "one for each member");
    the_certificate_of_an_api_server_is_read(&plane, &connections, &cluster).await;
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
    for kubelet in [&without_websocket, &kubelet] {
        move_to(&plane, kubelet).await;
        for _ in 0..5 {
            let report = connections.members(&cluster).await.unwrap();
            let reason = report.silent.get(&others[1]).unwrap();
            assert!(reason.contains("port-forward to pod etcd-"), "{reason}");
        }
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
