//! Port-forwards to members of the in-memory infrastructure provider. Its API servers accept SPDY
//! only.

use capstan::workload::{Endpoint, Etcd as _, EtcdClient, Forward, credentials};
use k8s_openapi::api::core::v1::{Pod, Secret};
use kube::api::ListParams;
use kube::config::{KubeConfigOptions, Kubeconfig};
use kube::{Api, Client, Config};

use crate::world::World;

/// The port at which kubeadm serves etcd.
const PORT: u16 = 2379;

/// The number of members that answer by port-forward, each with the members that it knows.
pub(crate) async fn members(world: &World, cluster: &str) -> Vec<usize> {
    let management = world.plane.client().await.unwrap();
    let secrets: Api<Secret> = Api::namespaced(management, "clusters");
    let text = async |name: String, key: &str| {
        let mut secret = secrets.get(&name).await.unwrap();
        String::from_utf8(secret.data.as_mut().unwrap().remove(key).unwrap().0).unwrap()
    };
    let authority = format!("{cluster}-etcd");
    let certificate = text(authority.clone(), "tls.crt").await;
    let own = credentials(&certificate, &text(authority, "tls.key").await).unwrap();
    let kubeconfig = Kubeconfig::from_yaml(&text(format!("{cluster}-kubeconfig"), "value").await).unwrap();
    let options = KubeConfigOptions::default();
    let config = Config::from_custom_kubeconfig(kubeconfig, &options).await.unwrap();
    let managed = Client::try_from(config).unwrap();
    let pods: Api<Pod> = Api::namespaced(managed.clone(), "kube-system");
    let selector = ListParams::default().labels("component=etcd,tier=control-plane");
    let mut known = Vec::new();
    for pod in pods.list(&selector).await.unwrap() {
        let pod = pod.metadata.name.unwrap();
        let endpoint = Endpoint {
            address: format!("{pod}:{PORT}"),
            forward: Some(Forward::new(managed.clone(), "kube-system", &pod, PORT)),
            server_name: pod,
        };
        let member = EtcdClient::connect(&endpoint, &own).await.unwrap();
        known.push(member.members().await.unwrap().len());
    }
    known
}
