//! The real etcd client: gRPC over TLS, with a client certificate.
//!
//! The certificate of the member must be signed by the CA and must contain the name that the caller
//! expects. A kubeadm member has the name of its Node there, so a client cannot be connected to
//! another member than the one it names.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use hyper::http::Uri;
use hyper::http::uri::PathAndQuery;
use hyper_util::rt::TokioIo;
use rustls::ClientConfig;
use rustls::RootCertStore;
use rustls::crypto::aws_lc_rs;
use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;
use tonic::transport::Channel;

use super::forward::Forward;
use super::messages;
use super::{Alarm, AlarmKind, Etcd, EtcdError, Member, MemberId, MemberStatus};

/// The deadline for a connection with its handshake.
const CONNECT: Duration = Duration::from_secs(5);
/// The deadline for a call.
const CALL: Duration = Duration::from_secs(15);

/// The certificates of a client.
#[derive(Clone)]
pub struct Credentials(Arc<ClientConfig>);

impl fmt::Debug for Credentials {
    /// Never prints the key.
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("Credentials")
    }
}

impl Credentials {
    /// The certificates from PEM: the CA of the members, the certificate of the client with its
    /// chain, and its private key.
    ///
    /// # Errors
    /// A certificate or the key cannot be read, or they do not belong together.
    pub fn from_pem(ca: &[u8], certificate: &[u8], key: &[u8]) -> Result<Self, EtcdError> {
        let refusal = |text: &str| EtcdError::Credentials(text.to_owned());
        let mut roots = RootCertStore::empty();
        for root in certificates(ca).ok_or_else(|| refusal("must contain a CA certificate in PEM"))? {
            let added = roots.add(root);
            added.map_err(|error| EtcdError::Credentials(format!("must contain a valid CA: {error}")))?;
        }
        let chain = certificates(certificate).ok_or_else(|| refusal("must contain a client certificate in PEM"))?;
        // The message of the parser could quote the key.
        let key = PrivateKeyDer::from_pem_slice(key)
            .map_err(|_quotes_key| refusal("must contain the private key of the client in PEM"))?;
        let config = ClientConfig::builder_with_provider(Arc::new(aws_lc_rs::default_provider()))
            .with_protocol_versions(&[&rustls::version::TLS13, &rustls::version::TLS12])
            .and_then(|builder| builder.with_root_certificates(roots).with_client_auth_cert(chain, key));
        let mut config =
            config.map_err(|error| EtcdError::Credentials(format!("must be a valid client certificate: {error}")))?;
        config.alpn_protocols = vec![b"h2".to_vec()];
        Ok(Self(Arc::new(config)))
    }
}

/// All certificates of a PEM text; `None` if it contains no certificate, or an unreadable one.
fn certificates(pem: &[u8]) -> Option<Vec<CertificateDer<'static>>> {
    let certificates: Result<Vec<_>, _> = CertificateDer::pem_slice_iter(pem).collect();
    certificates.ok().filter(|certificates| !certificates.is_empty())
}

/// Where a member answers.
#[derive(Clone, Debug)]
pub struct Endpoint {
    /// The host and the port, for example `10.0.0.7:2379`.
    pub address: String,
    /// The name that the certificate of the member must contain: a DNS name or an IP address.
    pub server_name: String,
    /// The port-forward that leads to the member, if any. The address is only shown then.
    pub forward: Option<Forward>,
}

/// A stream to a member, over TCP or through an API server.
trait Stream: AsyncRead + AsyncWrite + Send + Unpin {}

impl<S: AsyncRead + AsyncWrite + Send + Unpin> Stream for S {}

/// The name that a member must prove, and the client of TLS that demands it.
#[derive(Clone)]
struct Secured(ServerName<'static>, TlsConnector);

impl Secured {
    async fn over(self, stream: impl Stream + 'static) -> std::io::Result<Box<dyn Stream>> {
        let stream = self.1.connect(self.0, stream).await?;
        Ok(Box::new(stream))
    }

    async fn dial(self, address: String, forward: Option<Forward>) -> std::io::Result<Box<dyn Stream>> {
        if let Some(forward) = forward {
            return forward.with(|stream| self.over(stream)).await;
        }
        let stream = TcpStream::connect(&address).await?;
        stream.set_nodelay(true)?;
        self.over(stream).await
    }
}

/// A client that is connected to one member.
#[derive(Clone, Debug)]
pub struct EtcdClient {
    endpoint: String,
    channel: Channel,
}

impl EtcdClient {
    /// Connects to a member.
    ///
    /// # Errors
    /// The member cannot be reached in time, or one of the two does not accept the certificate of
    /// the other. With TLS 1.3, a member reports that it refuses ours only at the first call.
    pub async fn connect(endpoint: &Endpoint, credentials: &Credentials) -> Result<Self, EtcdError> {
        let address = endpoint.address.clone();
        let failed = |reason: String| EtcdError::Connect {
            endpoint: endpoint.address.clone(),
            reason,
        };
        let name = ServerName::try_from(endpoint.server_name.clone()).map_err(|error| failed(error.to_string()))?;
        let secured = Secured(name, TlsConnector::from(Arc::clone(&credentials.0)));
        let forward = endpoint.forward.clone();
        let dial = tower::service_fn(move |_uri: Uri| {
            let dialled = secured.clone().dial(address.clone(), forward.clone());
            async move { dialled.await.map(TokioIo::new) }
        });
        // The connector dials `address`; the URI gives only the HTTP authority.
        let uri = format!("https://{}", endpoint.address);
        let target = Channel::from_shared(uri).map_err(|error| failed(error.to_string()))?;
        let connecting = tokio::time::timeout(CONNECT, target.connect_with_connector(dial)).await;
        match connecting {
            Ok(Ok(channel)) => Ok(Self {
                endpoint: endpoint.address.clone(),
                channel,
            }),
            Ok(Err(error)) => Err(failed(last_cause(&error))),
            Err(_elapsed) => Err(failed(format!("no connection within {CONNECT:?}"))),
        }
    }

    /// The address of the member that this client is connected to.
    pub fn endpoint(&self) -> &str {
        &self.endpoint
    }

    async fn call<Q, A>(&self, path: &'static str, call: &'static str, request: Q) -> Result<A, EtcdError>
    where
        Q: prost::Message + 'static,
        A: prost::Message + Default + 'static,
    {
        let refused = |status: &tonic::Status| EtcdError::Refused {
            endpoint: self.endpoint.clone(),
            call,
            code: format!("{:?}", status.code()),
            message: match std::error::Error::source(status) {
                Some(source) => format!("{}: {}", status.message(), last_cause(source)),
                None => status.message().to_owned(),
            },
        };
        let exchange = async {
            let mut grpc = tonic::client::Grpc::new(self.channel.clone());
            let ready = grpc.ready().await;
            ready.map_err(|error| EtcdError::Connect {
                endpoint: self.endpoint.clone(),
                reason: last_cause(&error),
            })?;
            let codec = tonic_prost::ProstCodec::<Q, A>::default();
            let path = PathAndQuery::from_static(path);
            let answer = grpc.unary(tonic::Request::new(request), path, codec).await;
            answer
                .map(tonic::Response::into_inner)
                .map_err(|status| refused(&status))
        };
        let late = |_elapsed| EtcdError::Late {
            endpoint: self.endpoint.clone(),
            call,
        };
        tokio::time::timeout(CALL, exchange).await.map_err(late)?
    }
}

impl Etcd for EtcdClient {
    async fn status(&self) -> Result<MemberStatus, EtcdError> {
        let path = "/etcdserverpb.Maintenance/Status";
        let answer: messages::StatusResponse = self.call(path, "Status", messages::StatusRequest {}).await?;
        let header = answer.header.unwrap_or_default();
        Ok(MemberStatus {
            cluster: header.cluster,
            member: MemberId(header.member),
            version: answer.version,
            leader: (answer.leader != 0).then_some(MemberId(answer.leader)),
            is_learner: answer.is_learner,
            errors: answer.errors,
        })
    }

    async fn members(&self) -> Result<Vec<Member>, EtcdError> {
        let path = "/etcdserverpb.Cluster/MemberList";
        let request = messages::MemberListRequest { linearizable: true };
        let answer: messages::Members = self.call(path, "MemberList", request).await?;
        Ok(answer.members.into_iter().map(Member::from).collect())
    }

    async fn alarms(&self) -> Result<Vec<Alarm>, EtcdError> {
        let path = "/etcdserverpb.Maintenance/Alarm";
        let answer: messages::AlarmResponse = self.call(path, "AlarmList", messages::AlarmRequest {}).await?;
        let alarms = answer.alarms.into_iter().map(|alarm| Alarm {
            member: MemberId(alarm.member),
            kind: match alarm.alarm {
                1 => AlarmKind::NoSpace,
                2 => AlarmKind::Corrupt,
                other => AlarmKind::Other(other),
            },
        });
        Ok(alarms.collect())
    }

    async fn move_leader(&self, to: MemberId) -> Result<(), EtcdError> {
        let path = "/etcdserverpb.Maintenance/MoveLeader";
        let request = messages::MoveLeaderRequest { target: to.0 };
        let _moved: messages::MoveLeaderResponse = self.call(path, "MoveLeader", request).await?;
        Ok(())
    }

    async fn remove_member(&self, member: MemberId) -> Result<Vec<Member>, EtcdError> {
        let path = "/etcdserverpb.Cluster/MemberRemove";
        let request = messages::MemberRemoveRequest { id: member.0 };
        let answer: messages::Members = self.call(path, "MemberRemove", request).await?;
        Ok(answer.members.into_iter().map(Member::from).collect())
    }
}

impl From<messages::Member> for Member {
    fn from(member: messages::Member) -> Self {
        Self {
            id: MemberId(member.id),
            name: member.name,
            is_learner: member.is_learner,
            peer_urls: member.peer_urls,
            client_urls: member.client_urls,
        }
    }
}

/// The cause that names the failure, without the layers of the client.
fn last_cause(error: &(dyn std::error::Error + 'static)) -> String {
    let mut last = error;
    while let Some(source) = last.source() {
        last = source;
    }
    last.to_string()
}
