//! The calls of etcd that the clients and the nodes of the test make, without TLS.

use hyper::http::uri::PathAndQuery;
use tonic::transport::{Channel, Endpoint};

#[derive(Clone, PartialEq, prost::Message)]
pub(super) struct Member {
    #[prost(uint64, tag = "1")]
    pub(super) id: u64,
    #[prost(string, tag = "2")]
    pub(super) name: String,
    #[prost(string, repeated, tag = "3")]
    pub(super) peer_urls: Vec<String>,
    #[prost(bool, tag = "5")]
    pub(super) is_learner: bool,
}

#[derive(Clone, PartialEq, prost::Message)]
struct MemberListRequest {
    #[prost(bool, tag = "1")]
    linearizable: bool,
}

#[derive(Clone, PartialEq, prost::Message)]
struct MemberListResponse {
    #[prost(message, repeated, tag = "2")]
    members: Vec<Member>,
}

#[derive(Clone, PartialEq, prost::Message)]
struct MemberAddRequest {
    #[prost(string, repeated, tag = "1")]
    peer_urls: Vec<String>,
    #[prost(bool, tag = "2")]
    is_learner: bool,
}

#[derive(Clone, PartialEq, prost::Message)]
struct MemberPromoteRequest {
    #[prost(uint64, tag = "1")]
    id: u64,
}

#[derive(Clone, PartialEq, prost::Message)]
struct PutRequest {
    #[prost(bytes = "vec", tag = "1")]
    key: Vec<u8>,
    #[prost(bytes = "vec", tag = "2")]
    value: Vec<u8>,
}

#[derive(Clone, PartialEq, prost::Message)]
struct RangeRequest {
    #[prost(bytes = "vec", tag = "1")]
    key: Vec<u8>,
    #[prost(bytes = "vec", tag = "2")]
    range_end: Vec<u8>,
    #[prost(bool, tag = "9")]
    count_only: bool,
}

#[derive(Clone, PartialEq, prost::Message)]
struct RangeResponse {
    #[prost(int64, tag = "4")]
    count: i64,
}

/// An answer without fields that the test reads.
#[derive(Clone, PartialEq, prost::Message)]
struct Done {}

/// A connection to one member.
#[derive(Clone)]
pub(super) struct Client(Channel);

impl Client {
    /// A connection that is made with the first call.
    pub(super) fn new(port: u16) -> Self {
        let endpoint = Endpoint::from_shared(format!("http://127.0.0.1:{port}")).unwrap();
        let limit = std::time::Duration::from_secs(5);
        Self(endpoint.timeout(limit).connect_timeout(limit).connect_lazy())
    }

    async fn call<Q, A>(&self, path: &'static str, request: Q) -> anyhow::Result<A>
    where
        Q: prost::Message + 'static,
        A: prost::Message + Default + 'static,
    {
        let mut grpc = tonic::client::Grpc::new(self.0.clone());
        grpc.ready().await?;
        let codec = tonic_prost::ProstCodec::<Q, A>::default();
        let path = PathAndQuery::from_static(path);
        let answer = grpc.unary(tonic::Request::new(request), path, codec).await?;
        Ok(answer.into_inner())
    }

    pub(super) async fn members(&self) -> anyhow::Result<Vec<Member>> {
        let request = MemberListRequest { linearizable: true };
        let answer: MemberListResponse = self.call("/etcdserverpb.Cluster/MemberList", request).await?;
        Ok(answer.members)
    }

    pub(super) async fn add_learner(&self, peer_url: &str) -> anyhow::Result<()> {
        let request = MemberAddRequest {
            peer_urls: vec![peer_url.to_owned()],
            is_learner: true,
        };
        let _added: Done = self.call("/etcdserverpb.Cluster/MemberAdd", request).await?;
        Ok(())
    }

    pub(super) async fn promote(&self, id: u64) -> anyhow::Result<()> {
        let request = MemberPromoteRequest { id };
        let _promoted: Done = self.call("/etcdserverpb.Cluster/MemberPromote", request).await?;
        Ok(())
    }

    pub(super) async fn put(&self, key: String) -> anyhow::Result<()> {
        let request = PutRequest {
            key: key.into_bytes(),
            value: vec![b'v'; 64],
        };
        let _put: Done = self.call("/etcdserverpb.KV/Put", request).await?;
        Ok(())
    }

    /// The number of keys with a prefix, as a quorum of the members confirms.
    pub(super) async fn count(&self, prefix: &str) -> anyhow::Result<u64> {
        let mut range_end = prefix.as_bytes().to_vec();
        *range_end.last_mut().unwrap() += 1;
        let request = RangeRequest {
            key: prefix.as_bytes().to_vec(),
            range_end,
            count_only: true,
        };
        let answer: RangeResponse = self.call("/etcdserverpb.KV/Range", request).await?;
        Ok(u64::try_from(answer.count)?)
    }
}
