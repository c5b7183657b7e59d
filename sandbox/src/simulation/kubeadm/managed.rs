//! The simulated managed cluster: instances with their Nodes, and etcd members with a quorum.
//!
//! It answers the calls of the controller at once, and judges the two changes of etcd when they
//! arrive: K1, K2, and K3 of `invariants`. A change may take effect although its answer is lost.

use std::collections::{BTreeMap, VecDeque};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use capstan::controllers::kubeadm_control_plane::{Issuer, Kubeconfig};
use capstan::workload::{
    AccessError, AlarmKind, ClusterReader, EtcdError, KeyPair, ManagedCluster, ManagedClusters, ManagedEtcd,
    ManagedEtcdError, Member, MemberId, MembersReport, Survey,
};
use capstan_core::api::kind::KindInfo;
use capstan_core::kcp::certificates::Generation;
use capstan_core::model::ApiServer;
use jiff::Timestamp;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};

use super::bugs::Bug;
use super::objects::node_of;

/// So many reports are kept: a change is judged by what a controller can have known.
const REPORTS: usize = 8;

/// An instance with its Node.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Instance {
    /// The version of its kubelet.
    pub(super) version: String,
    /// How far it has booted.
    pub(super) stage: Stage,
    /// It never boots any further.
    pub(super) is_stuck: bool,
    /// It does not run until this second.
    pub(super) down_until: u32,
    /// It never runs again.
    pub(super) is_dead: bool,
    /// When it stopped, in seconds.
    pub(super) down_since: Option<u32>,
}

/// How far an instance has booted.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Stage {
    /// It is being created.
    #[default]
    Created,
    /// Its etcd member is a learner that has not started.
    Added,
    /// The learner runs.
    Learns,
    /// It is a member of the control plane.
    Joined,
}

/// An etcd member.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct EtcdMember {
    id: u64,
    pub(super) is_learner: bool,
    pub(super) is_started: bool,
    pub(super) has_alarm: bool,
    /// Whether its instance runs.
    pub(super) is_up: bool,
}

/// The Machines of the backup, and what the controller can read meanwhile.
#[derive(Clone, Debug)]
pub(super) struct Backup {
    pub(super) machines: Vec<Value>,
    /// The second at which the Machines come back.
    pub(super) until: u32,
    pub(super) access: Access,
}

/// How the managed cluster answers while the Machines are missing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Access {
    /// It answers.
    Works,
    /// It is silent until this second.
    SilentUntil(u32),
    /// It refuses the credentials.
    Refused,
}

/// What the members were at one moment.
type Members = BTreeMap<String, EtcdMember>;

/// The managed cluster.
#[derive(Debug, Default)]
pub(super) struct Managed {
    /// The seconds since the start of the run.
    pub(super) second: u32,
    /// The instances by Machine.
    pub(super) instances: BTreeMap<String, Instance>,
    /// The etcd members by Node.
    pub(super) members: Members,
    pub(super) leader: Option<String>,
    last_id: u64,
    /// The stored configuration of kubeadm, and its version.
    configuration: Option<(String, u64)>,
    /// The endpoint does not answer.
    pub(super) is_unreachable: bool,
    /// The Machines are missing, and come back.
    pub(super) backup: Option<Backup>,
    /// The next changes are made, and their answers are lost.
    pub(super) lost: u32,
    /// The next changes are refused.
    pub(super) refused: u32,
    /// A member that works, and does not answer the controller.
    pub(super) unreachable_member: Option<String>,
    /// What the last reports said, and the leader.
    reports: VecDeque<(Members, Option<String>)>,
    /// When a report named each member first, in seconds.
    named_since: BTreeMap<String, u32>,
    /// The number of changes of etcd that the controller made.
    pub(super) removals: u64,
    /// The violated invariants.
    violations: Vec<(&'static str, String)>,
    /// When each Machine was seen first.
    pub(super) first_seen: BTreeMap<String, u32>,
    /// Since when the conditions have said that all is well although it is not, in seconds.
    pub(super) unexplained_since: Option<u32>,
}

/// Whether most voting members run.
pub(super) fn has_quorum(members: &Members) -> bool {
    let voters = members.values().filter(|member| !member.is_learner);
    let (up, all) = voters.fold((0, 0), |(up, all), member| (up + usize::from(member.works()), all + 1));
    all > 0 && 2 * up > all
}

impl EtcdMember {
    fn works(&self) -> bool {
        self.is_up && self.is_started
    }
}

impl Managed {
    /// Whether an API server runs.
    fn runs(&self) -> bool {
        let mut instances = self.instances.values();
        instances.any(|one| one.stage == Stage::Joined && one.runs(self.second))
    }

    /// Whether the API servers answer.
    pub(super) fn serves(&self) -> bool {
        !self.is_unreachable && self.runs() && has_quorum(&self.members)
    }

    /// The first machine starts the cluster.
    pub(super) fn initialize(&mut self, machine: &str, running: &str) {
        let is_lost = |name: &String| {
            let own = self.instances.get(name.strip_prefix("n-").unwrap_or_default());
            own.is_none_or(|one| one.is_dead)
        };
        // What is left of a cluster whose only machine is gone is no cluster.
        if !self.members.keys().all(is_lost) {
            let text = format!(
                "machine {machine} starts a second etcd beside {:?}",
                self.members.keys()
            );
            self.violate("K4", text);
        }
        self.members.clear();
        self.add_member(machine, false);
        let text = json!({
            "apiVersion": "kubeadm.k8s.io/v1beta4", "kind": "ClusterConfiguration", "kubernetesVersion": running,
        });
        self.configuration = Some((text.to_string(), 1));
    }

    /// A member is added: a learner that has not started, or the only voter.
    pub(super) fn add_member(&mut self, machine: &str, is_learner: bool) {
        self.last_id += 1;
        let member = EtcdMember {
            id: self.last_id,
            is_learner,
            is_started: !is_learner,
            has_alarm: false,
            is_up: true,
        };
        self.members.insert(node_of(machine), member);
    }

    /// Updates which members run, and elects a leader if the last one does not run.
    pub(super) fn refresh(&mut self) {
        let second = self.second;
        for (name, member) in &mut self.members {
            let machine = name.strip_prefix("n-").unwrap_or_default();
            member.is_up = self.instances.get(machine).is_some_and(|one| one.runs(second));
        }
        let works = |name: &String| {
            let member = self.members.get(name);
            member.is_some_and(|member| member.works() && !member.is_learner)
        };
        if !has_quorum(&self.members) {
            self.leader = None;
        } else if !self.leader.as_ref().is_some_and(works) {
            let next = self.members.keys().find(|name| works(name));
            self.leader = next.cloned();
        }
    }

    pub(super) fn violate(&mut self, invariant: &'static str, text: String) {
        self.violations.push((invariant, text));
    }

    /// The violation of an invariant.
    pub(super) fn violation(&self, invariant: &str) -> Result<(), String> {
        let mut found = self.violations.iter().filter(|(id, _)| *id == invariant);
        found.next().map_or(Ok(()), |(_, text)| Err(text.clone()))
    }

    /// Whether etcd keeps its quorum without a member, now or by one of the last reports.
    pub(super) fn can_lose(&self, member: &str) -> bool {
        let without = |members: &Members| {
            let mut left = members.clone();
            left.remove(member);
            has_quorum(&left)
        };
        without(&self.members) || self.reports.iter().any(|(members, _)| without(members))
    }

    /// Whether a report named a member before this second.
    pub(super) fn was_reported(&self, member: &str, second: i64) -> bool {
        let named = self.named_since.get(member);
        named.is_some_and(|since| i64::from(*since) < second)
    }

    fn judge_removal(&mut self, name: &str) {
        if !self.can_lose(name) {
            let text = format!("the removal of member {name:?} leaves no quorum of {:?}", self.members);
            self.violate("K1", text);
        }
        let leads = |leader: &Option<String>| leader.as_deref() == Some(name);
        let has_led = self.reports.iter().all(|(_, leader)| leads(leader)) && !self.reports.is_empty();
        if leads(&self.leader) && has_led {
            self.violate("K2", format!("member {name} is removed, and it leads"));
        }
        let learns = |members: &Members| members.iter().any(|(other, member)| member.is_learner && other != name);
        if learns(&self.members) && self.reports.iter().all(|(members, _)| learns(members)) {
            self.violate(
                "K3",
                format!("member {name} is removed while another one does not vote yet"),
            );
        }
    }

    fn report(&mut self) -> MembersReport {
        self.reports.push_back((self.members.clone(), self.leader.clone()));
        if self.reports.len() > REPORTS {
            self.reports.pop_front();
        }
        let members = &self.members;
        let is_named = |name: &String| members.get(name).is_some_and(|member| member.is_started);
        self.named_since.retain(|name, _| is_named(name));
        for name in members.keys().filter(|name| is_named(name)) {
            self.named_since.entry(name.clone()).or_insert(self.second);
        }
        let leader = self.leader.as_ref().and_then(|leader| self.members.get(leader));
        let listed = |(name, member): (&String, &EtcdMember)| {
            let alarms = if member.has_alarm {
                vec![AlarmKind::NoSpace]
            } else {
                Vec::new()
            };
            let listed = Member {
                id: MemberId(member.id),
                name: if member.is_started { name.clone() } else { String::new() },
                is_learner: member.is_learner,
                peer_urls: Vec::new(),
                client_urls: Vec::new(),
            };
            (listed, alarms)
        };
        let silent = self.members.iter().filter(|(name, member)| {
            member.is_started && (!member.is_up || self.unreachable_member.as_ref() == Some(*name))
        });
        MembersReport {
            survey: Survey {
                leader: leader.map(|member| MemberId(member.id)),
                members: self.members.iter().map(listed).collect(),
            },
            silent: silent
                .map(|(name, _)| (name.clone(), "it does not answer".to_owned()))
                .collect(),
        }
    }

    /// A member by the name that etcd lists.
    fn listed(&self, name: &str) -> Option<String> {
        let mut members = self.members.iter();
        let is = |(own, member): &(&String, &EtcdMember)| match name {
            "" => !member.is_started,
            name => member.is_started && own.as_str() == name,
        };
        members.find(is).map(|(own, _)| own.clone())
    }

    fn nodes(&self, runs: impl Fn(&Instance) -> bool) -> Vec<Value> {
        let joined = self.instances.iter().filter(|(_, one)| one.stage == Stage::Joined);
        let node = |(machine, one): (&String, &Instance)| {
            let status = if runs(one) { "True" } else { "Unknown" };
            json!({
                "metadata": {
                    "name": node_of(machine), "labels": {"node-role.kubernetes.io/control-plane": ""},
                },
                "spec": {
                    "providerID": format!("dev://{machine}"),
                    "taints": [{"key": "node-role.kubernetes.io/control-plane", "effect": "NoSchedule"}],
                },
                "status": {
                    "conditions": [{"type": "Ready", "status": status}],
                    "nodeInfo": {"kubeletVersion": one.version},
                },
            })
        };
        joined.map(node).collect()
    }

    fn pods(&self) -> Vec<Value> {
        let joined = self.instances.iter().filter(|(_, one)| one.stage == Stage::Joined);
        let components = ["kube-apiserver", "kube-controller-manager", "kube-scheduler", "etcd"];
        let pods = joined.flat_map(|(machine, _)| {
            components.map(|component| {
                json!({
                    "metadata": {"name": format!("{component}-{}", node_of(machine)), "namespace": "kube-system"},
                    "status": {"phase": "Running", "conditions": [{"type": "Ready", "status": "True"}]},
                })
            })
        });
        pods.collect()
    }
}

impl Instance {
    pub(super) fn runs(&self, second: u32) -> bool {
        !self.is_dead && self.down_until <= second
    }
}

/// The port of a controller to the managed cluster.
#[derive(Clone, Debug, Default)]
pub struct SimulatedClusters(Arc<Mutex<Managed>>, Option<Bug>);

impl SimulatedClusters {
    /// The same port with a bug.
    #[must_use]
    pub fn with(self, bug: Bug) -> Self {
        Self(self.0, Some(bug))
    }

    pub(super) fn lock(&self) -> MutexGuard<'_, Managed> {
        // One thread steps a world, so no other thread can have panicked with the lock.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn answering(&self, cluster: &ManagedCluster) -> Result<MutexGuard<'_, Managed>, AccessError> {
        let managed = self.lock();
        let access = managed.backup.as_ref().map_or(Access::Works, |backup| backup.access);
        let is_silent = match access {
            Access::Works | Access::Refused => managed.is_unreachable || !managed.runs(),
            Access::SilentUntil(second) => managed.second < second,
        };
        let (cluster, retry_after) = (cluster.to_string(), Duration::ZERO);
        let is_refused = access == Access::Refused || !managed.serves();
        if is_silent || (is_refused && self.1 == Some(Bug::RefusalIsSilence)) {
            let reason = "connection refused".to_owned();
            return Err(AccessError::Unreachable {
                cluster,
                reason,
                retry_after,
            });
        }
        let reason = match access {
            Access::Refused => "it refused the credentials",
            _ if !managed.serves() => "no answer within 10s",
            _ => return Ok(managed),
        };
        let reason = reason.to_owned();
        Err(AccessError::Unusable {
            cluster,
            reason,
            retry_after,
        })
    }

    /// Makes a change, unless it is refused. The answer may be lost.
    fn change(&self, cluster: &ManagedCluster, apply: impl FnOnce(&mut Managed)) -> Result<(), AccessError> {
        let mut managed = self.answering(cluster)?;
        if managed.refused > 0 {
            managed.refused -= 1;
            return Err(AccessError::Refused {
                cluster: cluster.to_string(),
                request: "change".to_owned(),
                code: 500,
                message: "refused".to_owned(),
            });
        }
        apply(&mut managed);
        if managed.lost > 0 {
            managed.lost -= 1;
            return Err(AccessError::Unreachable {
                cluster: cluster.to_string(),
                reason: "the connection was reset".to_owned(),
                retry_after: Duration::ZERO,
            });
        }
        Ok(())
    }
}

fn decoded<T: DeserializeOwned>(value: Value) -> Result<T, AccessError> {
    serde_json::from_value(value).map_err(|error| AccessError::Unreadable {
        cluster: String::new(),
        request: String::new(),
        reason: error.to_string(),
    })
}

impl ClusterReader for SimulatedClusters {
    async fn get<T: DeserializeOwned + Send>(
        &self,
        cluster: &ManagedCluster,
        kind: &KindInfo,
        _namespace: &str,
        name: &str,
    ) -> Result<Option<T>, AccessError> {
        let managed = self.answering(cluster)?;
        match (kind.plural.as_ref(), name, &managed.configuration) {
            ("configmaps", "kubeadm-config", Some((text, version))) => {
                let object = json!({
                    "metadata": {"name": name, "resourceVersion": version.to_string()},
                    "data": {"ClusterConfiguration": text},
                });
                decoded(object).map(Some)
            }
            _ => Ok(None),
        }
    }

    async fn list<T: DeserializeOwned + Send>(
        &self,
        cluster: &ManagedCluster,
        kind: &KindInfo,
        _namespace: &str,
        _selector: &str,
    ) -> Result<Vec<T>, AccessError> {
        let managed = self.answering(cluster)?;
        let second = managed.second;
        let runs = |one: &Instance| one.runs(second) || self.1 == Some(Bug::AllHealthy);
        let objects = match kind.plural.as_ref() {
            "nodes" => managed.nodes(runs),
            "pods" => managed.pods(),
            _ => Vec::new(),
        };
        objects.into_iter().map(decoded).collect()
    }
}

impl ManagedClusters for SimulatedClusters {
    async fn patch(
        &self,
        cluster: &ManagedCluster,
        _kind: &KindInfo,
        _namespace: &str,
        _name: &str,
        patch: &Value,
    ) -> Result<(), AccessError> {
        let text = patch.pointer("/data/ClusterConfiguration").and_then(Value::as_str);
        let Some(text) = text else { return Ok(()) };
        let read = patch.pointer("/metadata/resourceVersion").and_then(Value::as_str);
        self.change(cluster, |managed| {
            if let Some((stored, version)) = &mut managed.configuration
                && read == Some(version.to_string().as_str())
            {
                text.clone_into(stored);
                *version += 1;
            }
        })
    }

    async fn delete(
        &self,
        _cluster: &ManagedCluster,
        _kind: &KindInfo,
        _namespace: &str,
        _name: &str,
        _uid: &str,
    ) -> Result<(), AccessError> {
        Ok(())
    }

    async fn ensure(
        &self,
        cluster: &ManagedCluster,
        _kind: &KindInfo,
        _namespace: &str,
        _object: &Value,
    ) -> Result<(), AccessError> {
        self.answering(cluster).map(drop)
    }

    async fn serving_expiry(&self, cluster: &ManagedCluster, _server: &ApiServer) -> Result<Timestamp, AccessError> {
        self.answering(cluster).map(|_serves| Timestamp::MAX)
    }
}

impl ManagedEtcd for SimulatedClusters {
    async fn members(&self, cluster: &ManagedCluster) -> Result<MembersReport, ManagedEtcdError> {
        let mut report = self.answering(cluster)?.report();
        match self.1 {
            Some(Bug::AllHealthy) => {
                report.silent.clear();
                report.survey.members.iter_mut().for_each(|(_, alarms)| alarms.clear());
            }
            Some(Bug::LearnersVote) => {
                let members = report.survey.members.iter_mut();
                members.for_each(|(member, _)| member.is_learner = false);
            }
            _ => {}
        }
        Ok(report)
    }

    async fn move_leader(&self, cluster: &ManagedCluster, from: &str, to: &[String]) -> Result<(), ManagedEtcdError> {
        if self.1 == Some(Bug::LeaderStays) {
            return Ok(());
        }
        let mut moved = Ok(());
        self.change(cluster, |managed| {
            if managed.leader.as_deref() != Some(from) {
                return;
            }
            let can_lead = |name: &&String| {
                let member = managed.members.get(*name);
                member.is_some_and(|member| member.works() && !member.is_learner && *name != from)
            };
            match to.iter().find(can_lead).cloned() {
                Some(next) => managed.leader = Some(next),
                None => moved = Err(EtcdError::NoMember("no other member can lead".to_owned())),
            }
        })?;
        Ok(moved?)
    }

    async fn remove_member(&self, cluster: &ManagedCluster, member: &str) -> Result<(), ManagedEtcdError> {
        if self.1 == Some(Bug::MembersStay) {
            return Ok(());
        }
        let mut removed = Ok(());
        self.change(cluster, |managed| {
            let Some(name) = managed.listed(member) else { return };
            if managed.members.len() == 1 {
                removed = Err(EtcdError::NoMember("the only member is never removed".to_owned()));
                return;
            }
            managed.judge_removal(&name);
            managed.members.remove(&name);
            managed.removals += 1;
            managed.refresh();
        })?;
        Ok(removed?)
    }
}

impl Issuer for SimulatedClusters {
    async fn authority(&self, wanted: &Generation) -> Result<KeyPair, String> {
        let mut managed = self.lock();
        managed.last_id += 1;
        Ok(KeyPair {
            public: format!("certificate {} of {}", managed.last_id, wanted.secret),
            key: "key".to_owned(),
        })
    }

    async fn kubeconfig(&self, wanted: Kubeconfig) -> Result<String, String> {
        Ok(format!(
            "kubeconfig for {} by {}",
            wanted.server, wanted.authority.public
        ))
    }
}
