//! `ConfigMap`: texts by key.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::api::meta::ObjectMeta;

/// Kind.
pub const KIND: &str = "ConfigMap";
/// The namespace of the etcd members that cluster-etcd-operator manages.
pub const ETCD_NAMESPACE: &str = "openshift-etcd";
/// The ConfigMap in which cluster-etcd-operator lists the IP addresses of the voting members.
pub const ETCD_ENDPOINTS: &str = "etcd-endpoints";

/// A ConfigMap.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct ConfigMap {
    /// Standard metadata.
    pub metadata: ObjectMeta,
    /// The texts.
    pub data: BTreeMap<String, String>,
}
