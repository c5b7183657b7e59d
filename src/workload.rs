//! Access to managed clusters: clients of their API servers, and a client of their etcd members.
//!
//! The module executes single requests and decides nothing. Every request has a deadline. A cluster
//! that does not respond is unknown, and an unknown cluster is not healthy. The module must never
//! retry a write: the caller reads the state again and plans again. It must never execute a command
//! or read a file that a kubeconfig names.

mod authority;
mod cluster;
mod connections;
mod etcd;
mod expiry;
mod failure;
mod kubeconfig;
mod own_cluster;

pub use authority::{Algorithm, Authority, AuthorityError, KeyPair, key_pair, kubeconfig as admin_kubeconfig};
pub use cluster::{AccessError, ClusterReader, ManagedCluster, ManagedClusters};
pub use connections::{Connections, Settings};
pub use etcd::{
    Alarm, AlarmKind, CLIENT_URLS, Credentials, Endpoint, Etcd, EtcdAccess, EtcdClient, EtcdError, EtcdRoute, Forward,
    ManagedEtcd, ManagedEtcdError, Member, MemberId, MemberStatus, MembersReport, Survey, Way, credentials, survey,
};
pub use kubeconfig::expiry as kubeconfig_expiry;
pub use own_cluster::OwnCluster;
