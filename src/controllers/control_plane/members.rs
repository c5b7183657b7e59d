//! The etcd members of a control plane without an etcd operator (`--etcd-members capstan`).
//!
//! The members answer over their own client port. No watch reports their health, so the
//! controller asks them when a plan needs them. A member that does not answer is not healthy.
//! Nothing here decides which member is removed.

use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use capstan_core::control_plane::lost_members::several_clusters;
use capstan_core::model::{EtcdMember, UnknownMembers};
use futures::FutureExt as _;
use futures::future::BoxFuture;
use kube::Client;
use tokio::time::Instant;

use crate::workload::{Credentials, EtcdAccess, EtcdError, MembersReport, OwnCluster, Way};

/// An answer of the members is old after this time.
const OLD: Duration = Duration::from_secs(3);

/// The component that manages the members of etcd.
#[derive(Clone, Debug, Default)]
pub enum EtcdMembers {
    /// The etcd operator, which hooks the deletion of machines.
    #[default]
    Operator,
    /// Nodes add their own member, and Capstan removes it before the machine goes.
    Capstan {
        /// The folder with `ca.crt`, and with `tls.crt` and `tls.key` of a client.
        certificates: PathBuf,
    },
}

/// The members with their health, or why they do not answer.
pub type Answer = Result<Vec<EtcdMember>, UnknownMembers>;

/// The etcd of the control plane.
pub trait EtcdPort: std::fmt::Debug + Send + Sync {
    /// Asks the members.
    fn members(&self) -> BoxFuture<'_, Answer>;

    /// Removes a member, after one of the others leads in its place. Nothing happens if it is gone.
    fn remove<'a>(&'a self, member: &'a str, successors: &'a [String]) -> BoxFuture<'a, Result<(), String>>;
}

/// The members, and what they answered last.
#[derive(Debug)]
pub(super) struct OwnEtcd {
    port: Box<dyn EtcdPort>,
    answer: Mutex<Option<(Instant, Answer)>>,
}

impl OwnEtcd {
    pub(super) fn new(port: Box<dyn EtcdPort>) -> Self {
        Self {
            port,
            answer: Mutex::default(),
        }
    }

    /// What the members answered last.
    pub(super) fn answer(&self) -> Answer {
        let answer = self.answer.lock().unwrap_or_else(PoisonError::into_inner);
        match &*answer {
            Some((_, answer)) => answer.clone(),
            None => Err(UnknownMembers::NoAnswer(String::from("they have not been asked yet"))),
        }
    }

    /// Asks the members if the last answer is old. Returns whether there is another answer.
    pub(super) async fn refresh(&self, now: Instant) -> bool {
        let asked = {
            let answer = self.answer.lock().unwrap_or_else(PoisonError::into_inner);
            answer.as_ref().map(|(at, _)| *at)
        };
        if asked.is_some_and(|at| now.duration_since(at) < OLD) {
            return false;
        }
        let before = self.answer();
        self.ask(now).await;
        asked.is_none() || self.answer() != before
    }

    /// Asks the members.
    pub(super) async fn ask(&self, now: Instant) {
        let answer = self.port.members().await;
        *self.answer.lock().unwrap_or_else(PoisonError::into_inner) = Some((now, answer));
    }

    /// As [`EtcdPort::remove`].
    pub(super) async fn remove(&self, member: &str, successors: &[String]) -> Result<(), String> {
        self.port.remove(member, successors).await
    }
}

/// The client ports of the members of the own cluster.
pub(super) struct ClientPorts {
    cluster: OwnCluster,
    certificates: PathBuf,
}

impl std::fmt::Debug for ClientPorts {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter
            .debug_struct("ClientPorts")
            .field("certificates", &self.certificates)
            .finish_non_exhaustive()
    }
}

impl EtcdPort for ClientPorts {
    fn members(&self) -> BoxFuture<'_, Answer> {
        async {
            let access = self.access().await.map_err(UnknownMembers::NoAnswer)?;
            access.report().await.map(|report| members(&report)).map_err(unknown)
        }
        .boxed()
    }

    fn remove<'a>(&'a self, member: &'a str, successors: &'a [String]) -> BoxFuture<'a, Result<(), String>> {
        async move {
            let access = self.access().await?;
            let moved = access.move_leader(member, successors).await;
            // A member that does not answer cannot hand over its leadership, and needs not.
            if let Err(error) = moved {
                tracing::debug!(member, %error, "the leadership was not moved");
            }
            access.remove(member).await.map_err(|error| error.to_string())
        }
        .boxed()
    }
}

impl ClientPorts {
    /// The members of the cluster of this client.
    pub(super) fn new(client: &Client, certificates: &Path) -> Self {
        Self {
            cluster: OwnCluster::new(client),
            certificates: certificates.to_owned(),
        }
    }

    async fn access(&self) -> Result<EtcdAccess, String> {
        let read = async |name: &str| {
            let path = self.certificates.join(name);
            let content = tokio::fs::read(&path).await;
            content.map_err(|error| format!("reading {}: {error}", path.display()))
        };
        let (ca, certificate, key) = tokio::try_join!(read("ca.crt"), read("tls.crt"), read("tls.key"))?;
        let credentials = Credentials::from_pem(&ca, &certificate, &key).map_err(|error| error.to_string())?;
        let access = EtcdAccess::of(&self.cluster, &OwnCluster::name(), credentials, &Way::Advertised).await;
        access.map_err(|error| error.to_string())
    }
}

fn unknown(error: EtcdError) -> UnknownMembers {
    match error {
        EtcdError::DifferentClusters(_) => several_clusters(error.to_string()),
        error => UnknownMembers::NoAnswer(error.to_string()),
    }
}

/// The members as core reads them. A member with an alarm is not healthy, and without a leader none
/// is.
fn members(report: &MembersReport) -> Vec<EtcdMember> {
    let is_led = report.survey.leader.is_some();
    let members = report.survey.members.iter();
    members
        .map(|(member, alarms)| EtcdMember {
            name: member.name.clone(),
            is_learner: member.is_learner,
            is_healthy: is_led
                && !member.name.is_empty()
                && alarms.is_empty()
                && !report.silent.contains_key(&member.name),
        })
        .collect()
}
