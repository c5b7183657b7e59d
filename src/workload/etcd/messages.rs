//! The messages of etcd's gRPC API that the client uses, with the fields that it reads. The numbers
//! are those of `etcdserverpb/rpc.proto` of etcd 3.6. Fields without a reader are left out:
//! protobuf skips them.

#[derive(Clone, Copy, PartialEq, prost::Message)]
pub(super) struct Header {
    #[prost(uint64, tag = "1")]
    pub(super) cluster: u64,
    #[prost(uint64, tag = "2")]
    pub(super) member: u64,
}

#[derive(Clone, PartialEq, prost::Message)]
pub(super) struct Member {
    #[prost(uint64, tag = "1")]
    pub(super) id: u64,
    #[prost(string, tag = "2")]
    pub(super) name: String,
    #[prost(string, repeated, tag = "3")]
    pub(super) peer_urls: Vec<String>,
    #[prost(string, repeated, tag = "4")]
    pub(super) client_urls: Vec<String>,
    #[prost(bool, tag = "5")]
    pub(super) is_learner: bool,
}

#[derive(Clone, Copy, PartialEq, prost::Message)]
pub(super) struct StatusRequest {}

#[derive(Clone, PartialEq, prost::Message)]
pub(super) struct StatusResponse {
    #[prost(message, optional, tag = "1")]
    pub(super) header: Option<Header>,
    #[prost(string, tag = "2")]
    pub(super) version: String,
    #[prost(uint64, tag = "4")]
    pub(super) leader: u64,
    #[prost(string, repeated, tag = "8")]
    pub(super) errors: Vec<String>,
    #[prost(bool, tag = "10")]
    pub(super) is_learner: bool,
}

#[derive(Clone, Copy, PartialEq, prost::Message)]
pub(super) struct MemberListRequest {
    #[prost(bool, tag = "1")]
    pub(super) linearizable: bool,
}

/// The answer to `MemberList` and to `MemberRemove`.
#[derive(Clone, PartialEq, prost::Message)]
pub(super) struct Members {
    #[prost(message, repeated, tag = "2")]
    pub(super) members: Vec<Member>,
}

#[derive(Clone, Copy, PartialEq, prost::Message)]
pub(super) struct MemberRemoveRequest {
    #[prost(uint64, tag = "1")]
    pub(super) id: u64,
}

/// Without an action, which means `GET`: the alarms of all members.
#[derive(Clone, Copy, PartialEq, prost::Message)]
pub(super) struct AlarmRequest {}

#[derive(Clone, PartialEq, prost::Message)]
pub(super) struct AlarmResponse {
    #[prost(message, repeated, tag = "2")]
    pub(super) alarms: Vec<AlarmMember>,
}

#[derive(Clone, Copy, PartialEq, prost::Message)]
pub(super) struct AlarmMember {
    #[prost(uint64, tag = "1")]
    pub(super) member: u64,
    #[prost(int32, tag = "2")]
    pub(super) alarm: i32,
}

#[derive(Clone, Copy, PartialEq, prost::Message)]
pub(super) struct MoveLeaderRequest {
    #[prost(uint64, tag = "1")]
    pub(super) target: u64,
}

#[derive(Clone, Copy, PartialEq, prost::Message)]
pub(super) struct MoveLeaderResponse {}
