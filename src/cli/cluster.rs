//! Which cluster a command speaks to, and which of its parts: flags that several commands share.

use std::collections::BTreeMap;
use std::path::PathBuf;

use anyhow::Context;
use capstan_core::admission::Options;
use capstan_core::api::cluster_x_k8s_io;
use capstan_core::api::machine_openshift_io::NAMESPACE;
use capstan_core::authority::config::Config;
use kube::config::{KubeConfigOptions, Kubeconfig};

/// Which cluster.
#[derive(Clone, Debug, Default, clap::Args)]
pub struct Cluster {
    /// How to reach the API server; by default KUBECONFIG, ~/.kube/config, or the service account of the pod.
    #[arg(long, value_name = "FILE", help_heading = "Cluster")]
    pub kubeconfig: Option<PathBuf>,
    /// A context of the kubeconfig; by default its current one.
    #[arg(long, value_name = "NAME", help_heading = "Cluster")]
    pub context: Option<String>,
}

impl Cluster {
    /// A client for it.
    ///
    /// # Errors
    /// The configuration cannot be read, or names nothing that can be reached.
    pub async fn client(&self) -> anyhow::Result<kube::Client> {
        let options = KubeConfigOptions {
            context: self.context.clone(),
            ..KubeConfigOptions::default()
        };
        let config = match (&self.kubeconfig, &self.context) {
            (None, None) => kube::Config::infer().await.context("finding a cluster")?,
            (None, Some(_)) => kube::Config::from_kubeconfig(&options)
                .await
                .context("reading the kubeconfig")?,
            (Some(path), _) => {
                let reading = || format!("reading {}", path.display());
                let kubeconfig = Kubeconfig::read_from(path).with_context(reading)?;
                kube::Config::from_custom_kubeconfig(kubeconfig, &options)
                    .await
                    .with_context(reading)?
            }
        };
        kube::Client::try_from(config).context("connecting to the API server")
    }
}

/// What is judged and acted on.
#[derive(Clone, Debug, clap::Args)]
pub struct Scope {
    /// Namespace of the Machine API.
    #[arg(long, default_value = NAMESPACE, value_name = "NAMESPACE", help_heading = "Cluster")]
    pub namespace: String,
    /// Feature gates over what the cluster says of them: CPMSMachineNamePrefix=true,CPMSRecreate=true.
    #[arg(long, value_name = "NAME=BOOL", value_delimiter = ',', value_parser = feature_gate, help_heading = "Cluster")]
    pub feature_gates: Vec<(String, bool)>,
    /// Version whose entry in the FeatureGate counts, and that the ClusterOperator reports.
    #[arg(
        long,
        env = "RELEASE_VERSION",
        default_value = "",
        hide_default_value = true,
        value_name = "VERSION",
        help_heading = "Cluster"
    )]
    pub release_version: String,
    /// What exists in both APIs.
    #[command(flatten)]
    pub authority: Authority,
}

/// Where the two halves of what exists in both APIs live, and who keeps the copies as the originals.
#[derive(Clone, Debug, clap::Args)]
pub struct Authority {
    /// Namespace of Cluster API.
    #[arg(long, default_value = cluster_x_k8s_io::NAMESPACE, value_name = "NAMESPACE", help_heading = "Cluster")]
    pub cluster_api_namespace: String,
    /// User that keeps the copies in one API as the originals in the other, and may write them; may be repeated. By default
    /// the service account of Capstan's controllers.
    #[arg(long, value_name = "USER", help_heading = "Cluster")]
    pub sync_identity: Vec<String>,
    /// User that may write the number of machines of a MachineSet of Cluster API also while the Machine API leads it: an
    /// autoscaler that knows Cluster API only; may be repeated. Whoever keeps the copies has to carry the number over.
    #[arg(long, value_name = "USER", help_heading = "Cluster")]
    pub autoscaler_identity: Vec<String>,
}

impl Authority {
    /// As core takes it.
    pub fn config(&self, machine_api_namespace: &str) -> Config {
        let mut config = Config::of_namespaces(machine_api_namespace, &self.cluster_api_namespace);
        if !self.sync_identity.is_empty() {
            config.sync_identities.clone_from(&self.sync_identity);
        }
        config.autoscalers.clone_from(&self.autoscaler_identity);
        config
    }
}

impl Scope {
    /// As core takes it.
    pub fn options(&self) -> Options {
        Options {
            authority: self.authority.config(&self.namespace),
            namespace: self.namespace.clone(),
            feature_gates: self.feature_gates.iter().cloned().collect::<BTreeMap<_, _>>(),
            release_version: self.release_version.clone(),
        }
    }
}

/// Reads `NAME=true` or `NAME=false`.
///
/// # Errors
/// When it is neither.
pub fn feature_gate(text: &str) -> Result<(String, bool), String> {
    match text.split_once('=') {
        Some((name, "true")) if !name.is_empty() => Ok((name.to_owned(), true)),
        Some((name, "false")) if !name.is_empty() => Ok((name.to_owned(), false)),
        _ => Err(String::from("expected NAME=true or NAME=false")),
    }
}

#[cfg(test)]
mod tests {
    use super::feature_gate;

    #[test]
    fn a_gate_is_named_with_its_state() {
        assert_eq!(feature_gate("CPMSRecreate=true"), Ok(("CPMSRecreate".to_owned(), true)));
        assert!(
            feature_gate("CPMSRecreate").is_err()
                && feature_gate("CPMSRecreate=yes").is_err()
                && feature_gate("=true").is_err()
        );
    }
}
