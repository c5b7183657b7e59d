//! A client of etcd: the five calls that a controller of a control plane needs.
//!
//! A call goes to the member that the client is connected to, has a deadline, and is never retried.
//! After a removal or a move without an answer, the caller reads the members again.

mod access;
mod client;
mod forward;
mod identity;
mod messages;

use std::collections::BTreeMap;
use std::fmt;
use std::future::Future;

use super::cluster::{AccessError, ManagedCluster};

pub use access::{CLIENT_URLS, EtcdAccess, EtcdRoute, MembersReport, Way};
pub use client::{Credentials, Endpoint, EtcdClient};
pub use forward::Forward;
pub use identity::credentials;

/// The ID of a member.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct MemberId(pub u64);

impl fmt::Display for MemberId {
    /// As `etcdctl` prints it.
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{:x}", self.0)
    }
}

/// A member as the members agreed on it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Member {
    /// The ID.
    pub id: MemberId,
    /// The name; empty until the member has started.
    pub name: String,
    /// Whether the member does not vote yet.
    pub is_learner: bool,
    /// The URLs for other members.
    pub peer_urls: Vec<String>,
    /// The URLs for clients; empty until the member has started.
    pub client_urls: Vec<String>,
}

/// What one member reports of itself.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MemberStatus {
    /// The ID of the etcd cluster, which all its members have in common.
    pub cluster: u64,
    /// The ID of the member that answered.
    pub member: MemberId,
    /// The version of etcd, for example `3.6.4`.
    pub version: String,
    /// The leader that the member knows; `None` while no member leads.
    pub leader: Option<MemberId>,
    /// Whether the member does not vote yet.
    pub is_learner: bool,
    /// Errors such as alarms and `etcdserver: no leader`.
    pub errors: Vec<String>,
}

/// The kind of an alarm.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AlarmKind {
    /// The database has reached its quota, and etcd refuses writes.
    NoSpace,
    /// The data of the member differs from that of the others.
    Corrupt,
    /// An alarm that this version of Capstan does not know.
    Other(i32),
}

impl fmt::Display for AlarmKind {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NoSpace => formatter.write_str("NOSPACE"),
            Self::Corrupt => formatter.write_str("CORRUPT"),
            Self::Other(number) => write!(formatter, "ALARM{number}"),
        }
    }
}

/// An alarm that is raised.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Alarm {
    /// The member that raised it.
    pub member: MemberId,
    /// The kind.
    pub kind: AlarmKind,
}

/// Why a call failed.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum EtcdError {
    /// The certificates cannot be used.
    #[error("the certificates for etcd {0}")]
    Credentials(String),
    /// There is no connection to the member.
    #[error("connecting to etcd at {endpoint}: {reason}")]
    Connect {
        /// The address.
        endpoint: String,
        /// The failure of the connection or of the handshake.
        reason: String,
    },
    /// No member answered.
    #[error("no etcd member responds: {0}")]
    NoMember(String),
    /// The member did not answer in time. A write may have been executed.
    #[error("etcd at {endpoint} did not answer {call} in time; whether it was executed is unknown")]
    Late {
        /// The address.
        endpoint: String,
        /// The call.
        call: &'static str,
    },
    /// The member answered with an error.
    #[error("etcd at {endpoint} refused {call}: {message} ({code})")]
    Refused {
        /// The address.
        endpoint: String,
        /// The call.
        call: &'static str,
        /// The code of gRPC, for example `NotFound`.
        code: String,
        /// The message, for example `etcdserver: not leader`.
        message: String,
    },
    /// Pods of more than one etcd cluster have the labels of the members, so none of them is used
    /// (V236).
    #[error(
        "pods of different etcd clusters have the labels component=etcd and tier=control-plane: {0}; remove these labels \
         from the pods that are no members of the control plane's etcd"
    )]
    DifferentClusters(String),
    /// The members that answered contradict each other.
    #[error("the leader {0} must be one of the members that etcd lists; read the members again")]
    UnknownLeader(MemberId),
}

impl EtcdError {
    /// Whether etcd answered that there is no such member.
    pub fn is_member_not_found(&self) -> bool {
        matches!(self, Self::Refused { message, .. } if message.contains("member not found"))
    }

    /// Whether etcd refuses changes of its members for now: for some seconds after a change, until
    /// its members have been connected for that time.
    pub fn is_unhealthy_cluster(&self) -> bool {
        matches!(self, Self::Refused { message, .. } if message.contains("unhealthy cluster"))
    }

    /// Whether the call must be sent to the leader instead.
    pub fn is_not_leader(&self) -> bool {
        matches!(self, Self::Refused { message, .. } if message.contains("not leader"))
    }
}

/// An etcd member that answers calls.
pub trait Etcd: Send + Sync {
    /// What the member reports of itself.
    fn status(&self) -> impl Future<Output = Result<MemberStatus, EtcdError>> + Send;

    /// The members, as a quorum of them confirms.
    fn members(&self) -> impl Future<Output = Result<Vec<Member>, EtcdError>> + Send;

    /// The alarms that are raised, as a quorum of the members confirms.
    fn alarms(&self) -> impl Future<Output = Result<Vec<Alarm>, EtcdError>> + Send;

    /// Moves the leadership to another voting member. Only the leader accepts the call.
    fn move_leader(&self, to: MemberId) -> impl Future<Output = Result<(), EtcdError>> + Send;

    /// Removes a member. Returns the members that remain.
    fn remove_member(&self, member: MemberId) -> impl Future<Output = Result<Vec<Member>, EtcdError>> + Send;
}

/// Why the members of a managed cluster did not answer.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ManagedEtcdError {
    /// The managed cluster did not answer.
    #[error(transparent)]
    Access(#[from] AccessError),
    /// The members did not answer.
    #[error(transparent)]
    Etcd(#[from] EtcdError),
}

/// The etcd members of managed clusters, as a controller of control planes uses them. A simulation
/// can answer the same calls.
pub trait ManagedEtcd: Clone + Send + Sync + 'static {
    /// What the members report.
    fn members(&self, cluster: &ManagedCluster)
    -> impl Future<Output = Result<MembersReport, ManagedEtcdError>> + Send;

    /// Moves the leadership away from a member, to the first of the others that accepts it. Nothing
    /// happens if the member does not lead.
    fn move_leader(
        &self,
        cluster: &ManagedCluster,
        from: &str,
        to: &[String],
    ) -> impl Future<Output = Result<(), ManagedEtcdError>> + Send;

    /// Removes a member. Nothing happens if it is gone.
    fn remove_member(
        &self,
        cluster: &ManagedCluster,
        member: &str,
    ) -> impl Future<Output = Result<(), ManagedEtcdError>> + Send;
}

/// The members of an etcd cluster with their alarms, as one member and a quorum report them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Survey {
    /// The leader; `None` while no member leads.
    pub leader: Option<MemberId>,
    /// The members with the alarms of each, in the order of their names.
    pub members: Vec<(Member, Vec<AlarmKind>)>,
}

/// Reads the status, the members and the alarms through one member.
///
/// # Errors
/// A call fails, or the leader is not one of the members.
pub async fn survey(etcd: &impl Etcd) -> Result<Survey, EtcdError> {
    let status = etcd.status().await?;
    let mut members = etcd.members().await?;
    let mut alarms: BTreeMap<MemberId, Vec<AlarmKind>> = BTreeMap::new();
    for alarm in etcd.alarms().await? {
        alarms.entry(alarm.member).or_default().push(alarm.kind);
    }
    if let Some(leader) = status.leader
        && !members.iter().any(|member| member.id == leader)
    {
        return Err(EtcdError::UnknownLeader(leader));
    }
    members.sort_by(|left, right| (&left.name, left.id).cmp(&(&right.name, right.id)));
    let members = members.into_iter().map(|member| {
        let own = alarms.remove(&member.id).unwrap_or_default();
        (member, own)
    });
    Ok(Survey {
        leader: status.leader,
        members: members.collect(),
    })
}
