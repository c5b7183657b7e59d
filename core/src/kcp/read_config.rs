//! A KubeadmConfig as the decisions read it.
//!
//! The form in which a config is compared is computed once for each version of the object. This
//! module decides nothing.

use std::ops::Deref;
use std::sync::OnceLock;

use serde_json::Value;

use crate::api::bootstrap_cluster_x_k8s_io::kubeadm_config::KubeadmConfig;

/// A KubeadmConfig, and the form in which it is compared, computed once.
#[derive(Clone, Debug, Default)]
pub struct ReadConfig {
    config: KubeadmConfig,
    pub(super) comparable: OnceLock<Value>,
}

impl From<KubeadmConfig> for ReadConfig {
    fn from(config: KubeadmConfig) -> Self {
        let comparable = OnceLock::new();
        Self { config, comparable }
    }
}

impl Deref for ReadConfig {
    type Target = KubeadmConfig;

    fn deref(&self) -> &KubeadmConfig {
        &self.config
    }
}
