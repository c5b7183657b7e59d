//! The etcd members of a managed cluster: where they answer, what they report, and the two changes
//! that a controller of a control plane makes.
//!
//! kubeadm runs each member as a static pod, and writes its address for clients into an annotation
//! of the pod. Either the address is reachable from Capstan, or the API server of the cluster
//! forwards the connection to the pod. External etcd has no such pods, so it has no members here.
//!
//! A cluster can have a second etcd, for example one for Events, with copies of these pods. This
//! module must never report or change the members of one etcd for those of another.

use std::collections::BTreeMap;

use capstan_core::api::kind::KindInfo;
use capstan_core::api::meta::ObjectMeta;
use futures::future::join_all;
use serde::Deserialize;

use super::client::{Credentials, Endpoint, EtcdClient};
use super::forward::Forward;
use super::{Etcd as _, EtcdError, Member, Survey, survey};
use crate::workload::cluster::{AccessError, ClusterReader, ManagedCluster, SYSTEM};

/// Pods of a managed cluster.
const PODS: KindInfo = KindInfo::namespaced("", "v1", "Pod", "pods");
/// The labels that kubeadm gives the pods of etcd members.
const SELECTOR: &str = "component=etcd,tier=control-plane";
/// The annotation of such a pod with the addresses for clients, separated by commas.
pub const CLIENT_URLS: &str = "kubeadm.kubernetes.io/etcd.advertise-client-urls";

#[derive(Deserialize)]
struct Pod {
    #[serde(default)]
    metadata: ObjectMeta,
    #[serde(default)]
    spec: PodSpec,
    #[serde(default)]
    status: PodStatus,
}

impl Pod {
    /// Whether its containers have ended for good, so that no member runs there.
    fn has_ended(&self) -> bool {
        matches!(self.status.phase.as_str(), "Failed" | "Succeeded")
    }
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct PodStatus {
    phase: String,
}

#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct PodSpec {
    node_name: String,
}

/// The members, as a quorum reports them, and which of them do not answer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MembersReport {
    /// The members with their alarms.
    pub survey: Survey,
    /// The members that do not answer themselves, by name, with the reason.
    pub silent: BTreeMap<String, String>,
}

impl MembersReport {
    /// The name of the member that leads; `None` while no member leads.
    pub fn leader(&self) -> Option<&str> {
        let leader = self.survey.leader?;
        let mut members = self.survey.members.iter().map(|(member, _)| member);
        members
            .find(|member| member.id == leader)
            .map(|member| member.name.as_str())
    }
}

/// How members are reached.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum EtcdRoute {
    /// At the address in the annotation [`CLIENT_URLS`] of their pods.
    #[default]
    Advertised,
    /// Through the API server, which forwards the connection to the pod of the member.
    PortForward,
    /// At the address of the API server, with the name of the pod as the name of the server. The
    /// in-memory infrastructure provider of Cluster API serves its members so.
    ApiServer,
}

/// The way to the members of one cluster.
#[derive(Clone)]
pub enum Way {
    /// See [`EtcdRoute::Advertised`].
    Advertised,
    /// See [`EtcdRoute::PortForward`]. The client is one of the cluster of the members.
    PortForward(kube::Client),
    /// See [`EtcdRoute::ApiServer`]: its host and port.
    ApiServer(String),
}

/// A member with the address at which it answers.
#[derive(Clone, Debug)]
struct Located {
    /// The name of the member, which is the name of its Node.
    member: String,
    /// The name of its pod.
    pod: String,
    endpoint: Endpoint,
}

/// What the members with a pod answer for themselves.
struct Answering {
    /// The members that answer, by name.
    clients: Vec<(String, EtcdClient)>,
    /// The ID of their etcd cluster; `None` if none answers.
    cluster: Option<u64>,
    /// The names of the others, with the reason.
    silent: BTreeMap<String, String>,
}

/// The members of one etcd cluster, by the names of their Nodes.
#[derive(Clone, Debug)]
pub struct EtcdAccess {
    credentials: Credentials,
    members: Vec<Located>,
    /// Whether members answer at the addresses that they advertise.
    is_direct: bool,
}

impl EtcdAccess {
    /// The members that have a pod in the managed cluster.
    ///
    /// # Errors
    /// The managed cluster does not answer.
    pub async fn of<M: ClusterReader>(
        clusters: &M,
        cluster: &ManagedCluster,
        credentials: Credentials,
        way: &Way,
    ) -> Result<Self, AccessError> {
        let pods: Vec<Pod> = clusters.list(cluster, &PODS, SYSTEM, SELECTOR).await?;
        let located = |pod: &Pod| match way {
            Way::Advertised => advertised(pod),
            Way::PortForward(client) => forwarded(pod, client),
            Way::ApiServer(address) => behind(pod, address),
        };
        let running = pods.iter().filter(|pod| !pod.has_ended());
        let mut members: Vec<Located> = running.filter_map(located).collect();
        members.sort_by(|left, right| left.member.cmp(&right.member));
        Ok(Self {
            credentials,
            members,
            is_direct: matches!(way, Way::Advertised),
        })
    }

    /// What the members report. It asks all members for their own status at the same time.
    ///
    /// # Errors
    /// No member answers, or there is no quorum, or the pods belong to several etcd clusters.
    pub async fn report(&self) -> Result<MembersReport, EtcdError> {
        let Answering {
            clients,
            cluster,
            mut silent,
        } = self.answering().await?;
        let mut refusals: Vec<String> = silent.values().cloned().collect();
        for (_, client) in &clients {
            match survey(client).await {
                Ok(survey) => {
                    silent.extend(self.without_pod(&survey, cluster).await);
                    return Ok(MembersReport { survey, silent });
                }
                Err(error) => refusals.push(error.to_string()),
            }
        }
        if self.members.is_empty() {
            refusals.push(format!("no pod in {SYSTEM} has the annotation {CLIENT_URLS}"));
        }
        Err(EtcdError::NoMember(refusals.join("; ")))
    }

    /// The members without a pod that do not answer, with the reason. The pod goes with its Node,
    /// also while etcd runs, so the request goes to the address that etcd knows (V224). A member
    /// that was initialised again there reports another cluster, and counts as silent (V248).
    async fn without_pod(&self, survey: &Survey, cluster: Option<u64>) -> Vec<(String, String)> {
        let members = survey.members.iter().map(|(member, _)| member);
        let is_unknown = |member: &&Member| {
            let mut known = self.members.iter();
            !member.name.is_empty() && known.all(|located| located.member != member.name)
        };
        let asked = members.filter(is_unknown).map(async |member| {
            let url = self
                .is_direct
                .then(|| first_with_tls(member.client_urls.iter()))
                .flatten();
            let Some(address) = url else {
                return Some((member.name.clone(), String::from("no pod names its address")));
            };
            let endpoint = Endpoint {
                address,
                server_name: member.name.clone(),
                forward: None,
            };
            let reason = match self.ask(&endpoint).await {
                Ok((_, other)) if Some(other) == cluster => return None,
                Ok((_, other)) => format!("its address answers for another etcd cluster, {other:x}"),
                Err(error) => error.to_string(),
            };
            Some((member.name.clone(), reason))
        });
        join_all(asked).await.into_iter().flatten().collect()
    }

    /// Moves the leadership away from a member, to the first of the others that accepts it. Nothing
    /// happens if the member does not lead. Only a member that answers itself gets the leadership.
    ///
    /// # Errors
    /// No member answers, or none of the others can lead.
    pub async fn move_leader(&self, from: &str, to: &[String]) -> Result<(), EtcdError> {
        let MembersReport { survey, silent } = self.report().await?;
        let Some(leader) = find(&survey, from).filter(|member| Some(member.id) == survey.leader) else {
            return Ok(());
        };
        let leader = leader.id;
        let located = self.members.iter().find(|located| located.member == from);
        let located = located.ok_or_else(|| EtcdError::NoMember(format!("no pod names the address of {from}")))?;
        let (client, _) = self.ask(&located.endpoint).await?;
        let mut refusals = Vec::new();
        for name in to.iter().filter(|name| !silent.contains_key(*name)) {
            let target = find(&survey, name).filter(|member| !member.is_learner && member.id != leader);
            let Some(target) = target else { continue };
            match client.move_leader(target.id).await {
                Ok(()) => return Ok(()),
                // The leadership moved by itself.
                Err(error) if error.is_not_leader() => return Ok(()),
                Err(error) => refusals.push(error.to_string()),
            }
        }
        refusals.push(format!("no other member can lead in the place of {from}"));
        Err(EtcdError::NoMember(refusals.join("; ")))
    }

    /// Removes a member, through another one. Nothing happens if it is gone. The empty name stands
    /// for a member that has not started.
    ///
    /// # Errors
    /// No other member answers, or the pods belong to several etcd clusters, or etcd refuses the
    /// removal. For some seconds after a change, etcd refuses every removal: see
    /// [`EtcdError::is_unhealthy_cluster`].
    pub async fn remove(&self, name: &str) -> Result<(), EtcdError> {
        let answering = self.answering().await?;
        let mut reasons: Vec<String> = answering.silent.into_values().collect();
        // A member that was just removed answers once more, and then closes its connections.
        for (_, client) in answering.clients.iter().filter(|(member, _)| member != name) {
            match client.members().await {
                Ok(members) => return remove_from(client, &members, name).await,
                Err(error) => reasons.push(error.to_string()),
            }
        }
        Err(EtcdError::NoMember(reasons.join("; ")))
    }

    /// Asks all members with a pod at the same time.
    async fn answering(&self) -> Result<Answering, EtcdError> {
        one_member_a_node(&self.members)?;
        let asked = self.members.iter().map(async |located| {
            let asked = self.ask(&located.endpoint).await;
            (located, asked)
        });
        let (mut clients, mut silent) = (Vec::new(), BTreeMap::new());
        let mut clusters: BTreeMap<u64, Vec<&str>> = BTreeMap::new();
        for (located, asked) in join_all(asked).await {
            match asked {
                Ok((client, cluster)) => {
                    clusters.entry(cluster).or_default().push(&located.pod);
                    clients.push((located.member.clone(), client));
                }
                Err(error) => {
                    silent.insert(located.member.clone(), error.to_string());
                }
            }
        }
        if clusters.len() > 1 {
            let listed = clusters
                .iter()
                .map(|(id, pods)| format!("{} (cluster {id:x})", pods.join(", ")));
            return Err(EtcdError::DifferentClusters(listed.collect::<Vec<_>>().join("; ")));
        }
        Ok(Answering {
            clients,
            cluster: clusters.into_keys().next(),
            silent,
        })
    }

    /// A client of a member, and the ID of its cluster.
    async fn ask(&self, endpoint: &Endpoint) -> Result<(EtcdClient, u64), EtcdError> {
        let client = EtcdClient::connect(endpoint, &self.credentials).await?;
        let status = client.status().await?;
        Ok((client, status.cluster))
    }
}

/// A Node has one member of an etcd cluster, so two pods with different addresses belong to
/// different clusters, also while one of them does not answer.
fn one_member_a_node(members: &[Located]) -> Result<(), EtcdError> {
    let is_other = |left: &Located, right: &Located| {
        let (here, there) = (&left.endpoint, &right.endpoint);
        left.member == right.member && (&here.address, &here.server_name) != (&there.address, &there.server_name)
    };
    // The members are in the order of their names.
    let mut neighbours = std::iter::zip(members, members.iter().skip(1));
    match neighbours.find(|(left, right)| is_other(left, right)) {
        Some((left, right)) => {
            let pods = format!("{} and {} on Node {}", left.pod, right.pod, left.member);
            Err(EtcdError::DifferentClusters(pods))
        }
        None => Ok(()),
    }
}

/// Removes a member of these, through another one.
async fn remove_from(through: &EtcdClient, members: &[Member], name: &str) -> Result<(), EtcdError> {
    let Some(member) = members.iter().find(|member| member.name == name) else {
        return Ok(());
    };
    if members.len() == 1 {
        return Err(EtcdError::NoMember(format!(
            "{name} is the only member, which is never removed"
        )));
    }
    removed(through.remove_member(member.id).await)
}

/// A member that is gone was removed by a call whose answer was lost.
fn removed(answer: Result<Vec<Member>, EtcdError>) -> Result<(), EtcdError> {
    match answer {
        Ok(_left) => Ok(()),
        Err(error) if error.is_member_not_found() => Ok(()),
        Err(error) => Err(error),
    }
}

fn find<'s>(survey: &'s Survey, name: &str) -> Option<&'s Member> {
    let mut members = survey.members.iter().map(|(member, _)| member);
    members.find(|member| member.name == name)
}

/// The first address with TLS of some URLs. An address without TLS is not used.
fn first_with_tls(urls: impl Iterator<Item = impl AsRef<str>>) -> Option<String> {
    let mut urls = urls;
    urls.find_map(|url| {
        let address = url.as_ref().trim().strip_prefix("https://")?;
        Some(address.trim_end_matches('/').to_owned())
    })
}

/// A member at the first address with TLS that its pod advertises.
fn advertised(pod: &Pod) -> Option<Located> {
    let urls = pod.metadata.annotations.get(CLIENT_URLS)?;
    let address = first_with_tls(urls.split(','))?;
    (!pod.spec.node_name.is_empty()).then(|| Located {
        member: pod.spec.node_name.clone(),
        pod: pod.metadata.name().to_owned(),
        endpoint: Endpoint {
            address,
            server_name: pod.spec.node_name.clone(),
            forward: None,
        },
    })
}

/// A member behind a port-forward to its pod, at the port of its address.
fn forwarded(pod: &Pod, client: &kube::Client) -> Option<Located> {
    let mut located = advertised(pod)?;
    let port = located.endpoint.address.rsplit_once(':')?.1.parse().ok()?;
    let forward = Forward::new(client.clone(), SYSTEM, pod.metadata.name(), port);
    located.endpoint.forward = Some(forward);
    Some(located)
}

/// A member that answers at the address of the API server.
fn behind(pod: &Pod, api_server: &str) -> Option<Located> {
    (!pod.spec.node_name.is_empty()).then(|| Located {
        member: pod.spec.node_name.clone(),
        pod: pod.metadata.name().to_owned(),
        endpoint: Endpoint {
            address: api_server.to_owned(),
            server_name: pod.metadata.name().to_owned(),
            forward: None,
        },
    })
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn address(urls: &str, node: &str) -> Option<Endpoint> {
        let pod = json!({"metadata": {"annotations": {(CLIENT_URLS): urls}}, "spec": {"nodeName": node}});
        advertised(&serde_json::from_value(pod).unwrap()).map(|located| located.endpoint)
    }

    #[test]
    fn the_address_of_a_member_is_the_first_one_with_tls() {
        let found = address(
            "http://10.0.0.1:1, https://10.0.0.1:2379/,https://10.0.0.2:2379",
            "node-a",
        )
        .unwrap();
        assert_eq!(
            (found.address.as_str(), found.server_name.as_str()),
            ("10.0.0.1:2379", "node-a")
        );
        assert!(address("http://10.0.0.1:1", "node-a").is_none());
        assert!(address("https://10.0.0.1:1", "").is_none(), "a pod without a Node");
        assert!(advertised(&serde_json::from_value(json!({})).unwrap()).is_none());
    }

    #[test]
    fn v236_two_pods_of_one_node_belong_to_different_etcd_clusters() {
        let pod = |name: &str, port: u16| {
            let urls = format!("https://10.0.0.1:{port}");
            let pod = json!({"metadata": {"name": name, "annotations": {(CLIENT_URLS): urls}},
                "spec": {"nodeName": "node-a"}});
            advertised(&serde_json::from_value(pod).unwrap()).unwrap()
        };
        let copy = [pod("etcd-node-a", 2379), pod("etcd-copy", 2379)];
        assert_eq!(one_member_a_node(&copy), Ok(()));
        let events = [pod("etcd-events-node-a", 2381), pod("etcd-node-a", 2379)];
        let refused = one_member_a_node(&events).unwrap_err().to_string();
        let pods = "etcd-events-node-a and etcd-node-a on Node node-a";
        assert!(refused.contains(pods), "{refused}");
    }

    #[test]
    fn a_member_behind_the_api_server_is_selected_by_the_name_of_its_pod() {
        let pod = json!({"metadata": {"name": "etcd-node-a"}, "spec": {"nodeName": "node-a"}});
        let located = behind(&serde_json::from_value(pod).unwrap(), "127.0.0.1:20000").unwrap();
        assert_eq!(
            (located.member.as_str(), located.endpoint.server_name.as_str()),
            ("node-a", "etcd-node-a")
        );
    }

    #[test]
    fn a_member_that_is_gone_counts_as_removed() {
        let refused = |message: &str| {
            removed(Err(EtcdError::Refused {
                endpoint: String::new(),
                call: "MemberRemove",
                code: String::from("NotFound"),
                message: message.to_owned(),
            }))
        };
        assert_eq!(refused("etcdserver: member not found"), Ok(()));
        assert!(
            refused("etcdserver: unhealthy cluster")
                .unwrap_err()
                .is_unhealthy_cluster()
        );
    }
}
