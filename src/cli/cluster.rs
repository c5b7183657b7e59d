//! Flags that several commands share: the cluster to connect to, and the namespaces and users in
//! it.

use std::collections::BTreeMap;
use std::path::PathBuf;

use anyhow::Context;
use capstan_core::admission::Options;
use capstan_core::api::cluster_x_k8s_io;
use capstan_core::api::machine_openshift_io::NAMESPACE;
use capstan_core::authority::config::Config;
use kube::config::{KubeConfigOptions, Kubeconfig};

/// The cluster to connect to.
#[derive(Clone, Debug, Default, clap::Args)]
pub struct Cluster {
    /// Kubeconfig file. The default is KUBECONFIG, ~/.kube/config, or the service
    /// account of the pod.
    #[arg(long, value_name = "FILE", help_heading = "Cluster")]
    pub kubeconfig: Option<PathBuf>,
    /// Context in the kubeconfig. The default is its current context.
    #[arg(long, value_name = "NAME", help_heading = "Cluster")]
    pub context: Option<String>,
}

impl Cluster {
    /// Returns a client for the cluster.
    ///
    /// # Errors
    /// The configuration cannot be read, or it does not describe a usable cluster.
    pub async fn client(&self) -> anyhow::Result<kube::Client> {
        let options = KubeConfigOptions {
            context: self.context.clone(),
            ..KubeConfigOptions::default()
        };
        let config = match (&self.kubeconfig, &self.context) {
            (None, None) => kube::Config::infer()
                .await
                .context("finding the configuration of the cluster")?,
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

/// The objects that Capstan guards and manages.
#[derive(Clone, Debug, clap::Args)]
pub struct Scope {
    /// Namespace of the Machine API.
    #[arg(long, default_value = NAMESPACE, value_name = "NAMESPACE", help_heading = "Cluster")]
    pub namespace: String,
    /// Override feature gates of the cluster, for example
    /// CPMSMachineNamePrefix=true,CPMSRecreate=true.
    #[arg(long, value_name = "NAME=BOOL", value_delimiter = ',', value_parser = feature_gate, help_heading = "Cluster")]
    pub feature_gates: Vec<(String, bool)>,
    /// Version of the platform: it selects the entry in the FeatureGate, and the
    /// ClusterOperator reports it.
    #[arg(
        long,
        env = "RELEASE_VERSION",
        default_value = "",
        hide_default_value = true,
        value_name = "VERSION",
        help_heading = "Cluster"
    )]
    pub release_version: String,
    /// Objects that exist in both APIs.
    #[command(flatten)]
    pub authority: Authority,
}

/// The location of mirrored objects, and the users that may write mirrors.
#[derive(Clone, Debug, clap::Args)]
pub struct Authority {
    /// Namespace of Cluster API.
    #[arg(long, default_value = cluster_x_k8s_io::NAMESPACE, value_name = "NAMESPACE", help_heading = "Cluster")]
    pub cluster_api_namespace: String,
    /// User that synchronizes mirrors and may write them; may be repeated. The default
    /// is the service account of Capstan's controllers.
    #[arg(long, value_name = "USER", help_heading = "Cluster")]
    pub sync_identity: Vec<String>,
    /// User, such as an autoscaler, that may scale a Cluster API MachineSet while the
    /// Machine API is authoritative; may be repeated. The synchronizing user must copy
    /// the number to the Machine API.
    #[arg(long, value_name = "USER", help_heading = "Cluster")]
    pub autoscaler_identity: Vec<String>,
}

impl Authority {
    /// The flags as core's configuration.
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
    /// The flags as core's options.
    pub fn options(&self) -> Options {
        Options {
            authority: self.authority.config(&self.namespace),
            namespace: self.namespace.clone(),
            feature_gates: self.feature_gates.iter().cloned().collect::<BTreeMap<_, _>>(),
            release_version: self.release_version.clone(),
        }
    }
}

/// Parses `NAME=true` or `NAME=false`.
///
/// # Errors
/// The text has another form.
pub fn feature_gate(text: &str) -> Result<(String, bool), String> {
    let (name, on) = match text.split_once('=') {
        Some((name, "true")) => (name, true),
        Some((name, "false")) => (name, false),
        _ => return Err(String::from("must be NAME=true or NAME=false")),
    };
    if !Options::FEATURE_GATES.contains(&name) {
        return Err(format!("must name one of {}", Options::FEATURE_GATES.join(", ")));
    }
    Ok((name.to_owned(), on))
}

#[cfg(test)]
mod tests {
    use super::feature_gate;

    #[test]
    fn a_feature_gate_is_a_name_with_true_or_false() {
        assert_eq!(feature_gate("CPMSRecreate=true"), Ok(("CPMSRecreate".to_owned(), true)));
        assert!(
            feature_gate("CPMSRecreate").is_err()
                && feature_gate("CPMSRecreate=yes").is_err()
                && feature_gate("=true").is_err()
        );
    }
}
