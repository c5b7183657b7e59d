//! Reads the managed cluster: its control plane Nodes and pods, its etcd members, and the
//! configuration that `kubeadm init` stores. It writes the version in this configuration.
//!
//! A part that cannot be read is a failure with a reason. The reason has no times, so that the same
//! failure gives the same conditions.

use std::collections::BTreeMap;

use capstan_core::api::core_v1::node::{CONTROL_PLANE_LABEL, Node};
use capstan_core::api::core_v1::pod::Pod;
use capstan_core::api::kind::KindInfo;
use capstan_core::api::kinds::NODES;
use capstan_core::api::meta::ObjectMeta;
use capstan_core::kcp::inspection::{Failure, Inspection};
use capstan_core::kcp::kubeadm_configuration::{KEY, NAME, NAMESPACE, with_version};
use capstan_core::kcp::observed::{EtcdMembers, ReportedMember};
use capstan_core::kcp::state::State;
use serde::Deserialize;
use serde_json::json;

use crate::workload::{AccessError, ManagedCluster, ManagedClusters, ManagedEtcd, ManagedEtcdError, MembersReport};

/// Pods of a managed cluster.
static PODS: KindInfo = KindInfo::namespaced("", "v1", "Pod", "pods");
/// ConfigMaps of a managed cluster.
static CONFIG_MAPS: KindInfo = KindInfo::namespaced("", "v1", "ConfigMap", "configmaps");
/// The label of the static pods of kubeadm.
const STATIC_PODS: &str = "tier=control-plane";

/// What was read of a managed cluster.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Inspected {
    pub(super) inspection: Inspection,
    /// The ConfigMap that `kubeadm init` stores; `None` if it does not exist or cannot be read.
    pub(super) configuration: Option<ConfigMap>,
}

/// A ConfigMap.
#[derive(Clone, Debug, PartialEq, Deserialize)]
pub(super) struct ConfigMap {
    #[serde(default)]
    metadata: ObjectMeta,
    #[serde(default)]
    data: BTreeMap<String, String>,
}

/// Stores the version of the control plane in the configuration that new machines read. A machine
/// that joined with another version would start the components of that version.
///
/// # Errors
/// There is no configuration, or it cannot be written.
pub(super) async fn store_version<M: ManagedClusters>(
    clusters: &M,
    cluster: &ManagedCluster,
    state: &State,
    configuration: Option<&ConfigMap>,
) -> Result<(), String> {
    let Some(known) = configuration else {
        return Err(format!("the ConfigMap {NAMESPACE}/{NAME} must exist and be readable"));
    };
    let text = known.data.get(KEY).map(String::as_str).unwrap_or_default();
    let Some(new) = with_version(state, text) else {
        return Ok(());
    };
    let precondition = json!({"resourceVersion": known.metadata.resource_version});
    let patch = json!({"metadata": precondition, "data": {KEY: new}});
    let written = clusters.patch(cluster, &CONFIG_MAPS, NAMESPACE, NAME, &patch).await;
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
        }
    }
}

/// Reads the managed cluster. With external etcd, its members are not read.
pub(super) async fn inspect<M: ManagedClusters + ManagedEtcd>(
    clusters: &M,
    cluster: &ManagedCluster,
    etcd_is_managed: bool,
) -> Inspected {
    let members = async {
        if etcd_is_managed {
            clusters.members(cluster).await.map(|report| members(&report))
        } else {
            Ok(EtcdMembers::default())
        }
    };
    let (nodes, pods, configuration, etcd) = tokio::join!(
        clusters.list::<Node>(cluster, &NODES, "", CONTROL_PLANE_LABEL),
        clusters.list::<Pod>(cluster, &PODS, NAMESPACE, STATIC_PODS),
        clusters.get::<ConfigMap>(cluster, &CONFIG_MAPS, NAMESPACE, NAME),
        members,
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
    }
}

fn failure(error: &AccessError) -> Failure {
    match error {
        // The time of the next attempt is left out: it changes with every reconcile.
        AccessError::Unreachable { cluster, reason, .. } => {
            Failure::ConnectionDown(format!("cluster {cluster} does not respond: {reason}"))
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
