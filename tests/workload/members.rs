//! Three real etcd processes on loopback that require client certificates.

use std::path::Path;
use std::process::Command;
use std::sync::Arc;
use std::time::Duration;

use capstan::workload::{Credentials, Endpoint, Etcd as _, EtcdClient};
use capstan_sandbox::control_plane::{Binaries, Process, free_port, wait_until};
use rcgen::{
    BasicConstraints, CertificateParams, CertifiedIssuer, DistinguishedName, DnType, ExtendedKeyUsagePurpose, IsCa,
    KeyPair, KeyUsagePurpose,
};

/// A CA, and the certificates that it signs. A clone signs with the same key.
#[derive(Clone)]
pub(crate) struct Authority(Arc<CertifiedIssuer<'static, KeyPair>>);

/// A certificate and its key in PEM.
pub(crate) struct Pair {
    pub(crate) certificate: String,
    pub(crate) key: String,
}

impl Authority {
    pub(crate) fn new(name: &str) -> Self {
        let mut params = params(name, &[]);
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        params.key_usages = vec![KeyUsagePurpose::KeyCertSign];
        Self(Arc::new(
            CertifiedIssuer::self_signed(params, KeyPair::generate().unwrap()).unwrap(),
        ))
    }

    pub(crate) fn certificate(&self) -> String {
        self.0.pem()
    }

    /// The private key in PEM.
    pub(crate) fn key(&self) -> String {
        self.0.key().serialize_pem()
    }

    /// A certificate for servers with these names, or for a client without names.
    pub(crate) fn sign(&self, name: &str, names: &[&str]) -> Pair {
        let mut params = params(name, names);
        // kubeadm signs the certificate of a member for both usages.
        params.extended_key_usages = vec![ExtendedKeyUsagePurpose::ClientAuth];
        if !names.is_empty() {
            params.extended_key_usages.push(ExtendedKeyUsagePurpose::ServerAuth);
        }
        let key = KeyPair::generate().unwrap();
        Pair {
            certificate: params.signed_by(&key, &*self.0).unwrap().pem(),
            key: key.serialize_pem(),
        }
    }

    /// The credentials of a client that trusts this CA.
    pub(crate) fn client(&self) -> Credentials {
        let pair = self.sign("capstan", &[]);
        Credentials::from_pem(
            self.certificate().as_bytes(),
            pair.certificate.as_bytes(),
            pair.key.as_bytes(),
        )
        .unwrap()
    }
}

fn params(name: &str, names: &[&str]) -> CertificateParams {
    let names: Vec<String> = names.iter().map(|&name| name.to_owned()).collect();
    let mut params = CertificateParams::new(names).unwrap();
    params.distinguished_name = DistinguishedName::new();
    params.distinguished_name.push(DnType::CommonName, name);
    params
}

/// A text as a kubeconfig contains it.
pub(crate) fn base64(text: &str) -> String {
    let encoded = serde_json::to_value(k8s_openapi::ByteString(text.as_bytes().to_vec())).unwrap();
    encoded.as_str().unwrap().to_owned()
}

/// The names of the members, which are the names of their Nodes.
pub(crate) const NAMES: [&str; 3] = ["node-a", "node-b", "node-c"];

/// An etcd cluster with three members.
pub(crate) struct Members {
    pub(crate) authority: Authority,
    pub(crate) credentials: Credentials,
    pub(crate) endpoints: Vec<Endpoint>,
    /// The ports of each member for clients and for the others.
    pub(crate) ports: Vec<[u16; 2]>,
    processes: Vec<Option<Process>>,
    _folder: tempfile::TempDir,
}

impl Members {
    /// Starts the members, and waits until each knows a leader.
    pub(crate) async fn start() -> Self {
        Self::of(Authority::new("etcd-ca")).await
    }

    /// As [`Self::start`], with certificates of this authority.
    pub(crate) async fn of(authority: Authority) -> Self {
        let binaries = tokio::task::spawn_blocking(Binaries::locate).await.unwrap().unwrap();
        let folder = tempfile::tempdir().unwrap();
        std::fs::write(folder.path().join("ca.crt"), authority.certificate()).unwrap();
        let ports: Vec<[u16; 2]> = NAMES
            .iter()
            .map(|_| [free_port().unwrap(), free_port().unwrap()])
            .collect();
        let peers: Vec<String> = std::iter::zip(NAMES, &ports)
            .map(|(name, [_, peer])| format!("{name}=http://127.0.0.1:{peer}"))
            .collect();
        let mut processes = Vec::new();
        for (name, ports) in std::iter::zip(NAMES, &ports) {
            let mut command = Command::new(&binaries.etcd);
            command.args(arguments(folder.path(), &authority, name, *ports, &peers.join(",")));
            let log = folder.path().join(format!("{name}.log"));
            processes.push(Some(Process::spawn(name, command, &log).unwrap()));
        }
        let endpoints = std::iter::zip(NAMES, &ports).map(|(name, [client, _])| Endpoint {
            address: format!("127.0.0.1:{client}"),
            server_name: name.to_owned(),
            forward: None,
        });
        let members = Self {
            credentials: authority.client(),
            authority,
            endpoints: endpoints.collect(),
            ports,
            processes,
            _folder: folder,
        };
        for at in 0..NAMES.len() {
            members.wait_for_leader(at).await;
        }
        members
    }

    /// Starts a member that is a cluster of its own, at this port for clients.
    pub(crate) async fn alone(authority: &Authority, name: &'static str, client: u16) -> Process {
        let binaries = tokio::task::spawn_blocking(Binaries::locate).await.unwrap().unwrap();
        let folder = tempfile::tempdir().unwrap().keep();
        std::fs::write(folder.join("ca.crt"), authority.certificate()).unwrap();
        let peer = free_port().unwrap();
        let mut command = Command::new(&binaries.etcd);
        let peers = format!("{name}=http://127.0.0.1:{peer}");
        command.args(arguments(&folder, authority, name, [client, peer], &peers));
        let process = Process::spawn(name, command, &folder.join("log")).unwrap();
        let endpoint = Endpoint {
            address: format!("127.0.0.1:{client}"),
            server_name: name.to_owned(),
            forward: None,
        };
        let credentials = authority.client();
        let waiting = wait_until("the member to lead", Duration::from_secs(240), async || {
            let Ok(client) = EtcdClient::connect(&endpoint, &credentials).await else {
                return Ok(None);
            };
            Ok(client.status().await.ok().and_then(|status| status.leader))
        });
        waiting.await.unwrap();
        process
    }

    async fn wait_for_leader(&self, at: usize) {
        let waiting = wait_until("the member to know a leader", Duration::from_secs(240), async || {
            Ok(self.client(at).await?.status().await?.leader)
        });
        waiting.await.unwrap();
    }

    /// A client of one member.
    pub(crate) async fn client(&self, at: usize) -> Result<EtcdClient, capstan::workload::EtcdError> {
        EtcdClient::connect(&self.endpoints[at], &self.credentials).await
    }

    /// Kills a member.
    pub(crate) fn kill(&mut self, at: usize) {
        self.processes[at] = None;
    }
}

/// The arguments of a member. `peers` are all members with their addresses for each other.
pub(crate) fn arguments(
    folder: &Path,
    authority: &Authority,
    name: &str,
    [client, peer]: [u16; 2],
    peers: &str,
) -> Vec<String> {
    let pair = authority.sign(name, &[name, "localhost", "127.0.0.1"]);
    let file = |end: &str| folder.join(format!("{name}.{end}"));
    std::fs::write(file("crt"), pair.certificate).unwrap();
    std::fs::write(file("key"), pair.key).unwrap();
    vec![
        format!("--name={name}"),
        format!("--data-dir={}", file("data").display()),
        String::from("--unsafe-no-fsync"),
        String::from("--log-level=warn"),
        format!("--listen-client-urls=https://127.0.0.1:{client}"),
        format!("--advertise-client-urls=https://127.0.0.1:{client}"),
        format!("--listen-peer-urls=http://127.0.0.1:{peer}"),
        format!("--initial-advertise-peer-urls=http://127.0.0.1:{peer}"),
        format!("--initial-cluster={peers}"),
        String::from("--client-cert-auth"),
        format!("--trusted-ca-file={}", folder.join("ca.crt").display()),
        format!("--cert-file={}", file("crt").display()),
        format!("--key-file={}", file("key").display()),
    ]
}
