//! Reads the managed cluster: its control plane Nodes and pods, its etcd members, the
//! configuration that `kubeadm init` stores, kube-proxy, and CoreDNS. It writes what core decides.
//!
//! A part that cannot be read is a failure with a reason. The reason has no times, so that the same
//! failure gives the same conditions.

use std::collections::BTreeMap;

use capstan_core::api::core_v1::node::{CONTROL_PLANE_LABEL, Node};
use capstan_core::api::core_v1::pod::Pod;
use capstan_core::api::kind::KindInfo;
use capstan_core::api::kinds::NODES;
use capstan_core::api::meta::ObjectMeta;
use capstan_core::kcp::addons::{AddonChange, Addons};
use capstan_core::kcp::core_dns::upgrade;
use capstan_core::kcp::inspection::{Failure, Inspection};
use capstan_core::kcp::kube_proxy;
use capstan_core::kcp::kubeadm_configuration::{KEY, NAME, NAMESPACE, permissions, updated};
use capstan_core::kcp::observed::{EtcdMembers, ReportedMember};
use capstan_core::kcp::state::State;
use serde::Deserialize;
use serde_json::{Value, json};

use crate::workload::{AccessError, ManagedCluster, ManagedClusters, ManagedEtcd, ManagedEtcdError, MembersReport};

/// Pods of a managed cluster.
static PODS: KindInfo = KindInfo::namespaced("", "v1", "Pod", "pods");
/// ConfigMaps of a managed cluster.
static CONFIG_MAPS: KindInfo = KindInfo::namespaced("", "v1", "ConfigMap", "configmaps");
static DAEMON_SETS: KindInfo = KindInfo::namespaced("apps", "v1", "DaemonSet", "daemonsets");
static DEPLOYMENTS: KindInfo = KindInfo::namespaced("apps", "v1", "Deployment", "deployments");
static BINDINGS: KindInfo = KindInfo::cluster(
    "rbac.authorization.k8s.io",
    "v1",
    "ClusterRoleBinding",
    "clusterrolebindings",
);
/// The label of the static pods of kubeadm.
const STATIC_PODS: &str = "tier=control-plane";

/// What was read of a managed cluster.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Inspected {
    pub(super) inspection: Inspection,
    /// The ConfigMap that `kubeadm init` stores; `None` if it does not exist or cannot be read.
    pub(super) configuration: Option<ConfigMap>,
    /// The DaemonSet of kube-proxy.
    kube_proxy: Option<Value>,
    /// The ConfigMap and the Deployment of CoreDNS.
    core_dns: Option<(Value, Value)>,
}

/// What is read besides Nodes, pods, and the configuration.
#[derive(Clone, Copy, Debug)]
pub(super) struct Wanted {
    /// Etcd runs on the machines.
    pub(super) etcd: bool,
    /// kube-proxy and CoreDNS.
    pub(super) addons: bool,
}

impl Inspected {
    /// The addons as core reads them.
    pub(super) fn addons(&self) -> Addons<'_> {
        let configuration = self.configuration.as_ref();
        Addons {
            configuration: configuration.and_then(|map| Some(map.data.get(KEY)?.as_str())),
            kube_proxy: self.kube_proxy.as_ref(),
            core_dns: self.core_dns.as_ref().map(|(map, deployment)| (map, deployment)),
        }
    }
}

/// A ConfigMap.
#[derive(Clone, Debug, PartialEq, Deserialize)]
pub(super) struct ConfigMap {
    #[serde(default)]
    metadata: ObjectMeta,
    #[serde(default)]
    data: BTreeMap<String, String>,
}

/// Stores the configuration that new machines read, and the permissions that kubeadm expects. A
/// machine that joined with another version would start the components of that version.
///
/// # Errors
/// There is no configuration, it cannot be read, or something cannot be written.
pub(super) async fn prepare_join<M: ManagedClusters>(
    clusters: &M,
    cluster: &ManagedCluster,
    state: &State,
    configuration: Option<&ConfigMap>,
) -> Result<(), String> {
    let Some(known) = configuration else {
        return Err(format!("the ConfigMap {NAMESPACE}/{NAME} must exist and be readable"));
    };
    for binding in permissions(state) {
        let ensured = clusters.ensure(cluster, &BINDINGS, "", &binding).await;
        ensured.map_err(|error| error.to_string())?;
    }
    let text = known.data.get(KEY).map(String::as_str).unwrap_or_default();
    match updated(state, text)? {
        Some(new) => store(clusters, cluster, known, &new).await,
        None => Ok(()),
    }
}

async fn store<M: ManagedClusters>(
    clusters: &M,
    cluster: &ManagedCluster,
    known: &ConfigMap,
    text: &str,
) -> Result<(), String> {
    let precondition = json!({"resourceVersion": known.metadata.resource_version});
    let patch = json!({"metadata": precondition, "data": {KEY: text}});
    let written = clusters.patch(cluster, &CONFIG_MAPS, NAMESPACE, NAME, &patch).await;
    written.map_err(|error| error.to_string())
}

/// Makes one change of kube-proxy or of CoreDNS.
///
/// # Errors
/// It cannot be written.
pub(super) async fn change_addon<M: ManagedClusters>(
    clusters: &M,
    cluster: &ManagedCluster,
    change: &AddonChange,
    configuration: Option<&ConfigMap>,
) -> Result<(), String> {
    let (kind, name, patch) = match change {
        AddonChange::Configuration(text) => {
            let known = configuration.ok_or_else(|| format!("the ConfigMap {NAMESPACE}/{NAME} must exist"))?;
            return store(clusters, cluster, known, text).await;
        }
        AddonChange::KubeProxy(patch) => (&DAEMON_SETS, kube_proxy::NAME, patch),
        AddonChange::CoreDnsConfigMap(patch) => (&CONFIG_MAPS, upgrade::NAME, patch),
        AddonChange::CoreDnsDeployment(patch) => (&DEPLOYMENTS, upgrade::NAME, patch),
    };
    let written = clusters.patch(cluster, kind, NAMESPACE, name, patch).await;
    written.map_err(|error| error.to_string())
}

impl Inspected {
    /// Of a cluster that is not read yet.
    pub(super) fn nothing(reason: &str) -> Self {
        let failure = || Failure::InspectionFailed(reason.to_owned());
        Self {
            inspection: Inspection {
                nodes: Err(failure()),
                pods: Err(failure()),
                etcd: Err(failure()),
            },
            configuration: None,
            kube_proxy: None,
            core_dns: None,
        }
    }
}

/// Reads the managed cluster. With external etcd, its members are not read. An addon that cannot be
/// read stays as it is.
pub(super) async fn inspect<M: ManagedClusters + ManagedEtcd>(
    clusters: &M,
    cluster: &ManagedCluster,
    wanted: Wanted,
) -> Inspected {
    let addon = async |kind: &KindInfo, name: &str| {
        if !wanted.addons {
            return None;
        }
        let read = clusters.get::<Value>(cluster, kind, NAMESPACE, name).await;
        read.inspect_err(|error| tracing::debug!(%error, name, "an addon cannot be read"))
            .ok()
            .flatten()
    };
    let members = async {
        if wanted.etcd {
            clusters.members(cluster).await.map(|report| members(&report))
        } else {
            Ok(EtcdMembers::default())
        }
    };
    let (nodes, pods, configuration, etcd, kube_proxy, map_of_dns, core_dns) = tokio::join!(
        clusters.list::<Node>(cluster, &NODES, "", CONTROL_PLANE_LABEL),
        clusters.list::<Pod>(cluster, &PODS, NAMESPACE, STATIC_PODS),
        clusters.get::<ConfigMap>(cluster, &CONFIG_MAPS, NAMESPACE, NAME),
        members,
        addon(&DAEMON_SETS, kube_proxy::NAME),
        addon(&CONFIG_MAPS, upgrade::NAME),
        addon(&DEPLOYMENTS, upgrade::NAME),
    );
    let by_name = |node: Node| (node.metadata.name().to_owned(), node.into());
    let named = |pod: Pod| (pod.metadata.name().to_owned(), pod);
    Inspected {
        inspection: Inspection {
            nodes: nodes
                .map(|nodes| nodes.into_iter().map(by_name).collect())
                .map_err(|error| failure(&error)),
            pods: pods
                .map(|pods| pods.into_iter().map(named).collect())
                .map_err(|error| failure(&error)),
            etcd: etcd.map_err(|error| match error {
                ManagedEtcdError::Access(error) => failure(&error),
                ManagedEtcdError::Etcd(error) => Failure::InspectionFailed(error.to_string()),
            }),
        },
        configuration: configuration.ok().flatten(),
        kube_proxy,
        core_dns: map_of_dns.zip(core_dns),
    }
}

fn failure(error: &AccessError) -> Failure {
    match error {
        // The time of the next attempt is left out: it changes with every reconcile.
        AccessError::Unreachable { cluster, reason, .. } => {
            Failure::Silent(format!("cluster {cluster} does not respond: {reason}"))
        }
        AccessError::Unusable { cluster, reason, .. } => {
            Failure::ConnectionDown(format!("cluster {cluster} cannot be used: {reason}"))
        }
        AccessError::NoKubeconfig { .. } => Failure::ConnectionDown(error.to_string()),
        other => Failure::InspectionFailed(other.to_string()),
    }
}

/// The members as core reads them. A member that does not answer itself is not healthy.
fn members(report: &MembersReport) -> EtcdMembers {
    let members = report.survey.members.iter().map(|(member, alarms)| ReportedMember {
        name: member.name.clone(),
        learner: member.is_learner,
        alarms: alarms.iter().map(ToString::to_string).collect(),
        healthy: Some(!report.silent.contains_key(&member.name)),
    });
    EtcdMembers {
        leader: report.leader().unwrap_or_default().to_owned(),
        members: members.collect(),
    }
}
