//! `capstan manifests`: prints the manifests of the repository for the configured namespaces.

use std::io::Write as _;
use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::Context as _;
use capstan_core::admission::rule_files;
use capstan_core::api::cluster_x_k8s_io;
use capstan_core::api::machine_openshift_io::NAMESPACE;
use capstan_core::schema::crd;

use super::cluster::Authority;
use crate::manifests;

/// Print the manifests to install, for `kubectl apply -f -`.
#[derive(Debug, clap::Args)]
pub struct Args {
    /// Which manifests to print.
    #[arg(value_enum)]
    what: What,
    /// Namespace of the Machine API, which is also that of Capstan.
    #[arg(long, default_value = NAMESPACE, value_name = "NAMESPACE")]
    namespace: String,
    #[command(flatten)]
    authority: Authority,
    /// Write each manifest to a file in this folder instead of printing it.
    #[arg(long, value_name = "DIR")]
    out: Option<PathBuf>,
}

impl Args {
    /// A built-in manifest for the configured namespaces. Manifests that are generated from the
    /// rules have them already.
    fn place(&self, text: String) -> String {
        let placed = match self.what {
            What::Crds | What::Policies => return text,
            What::Webhooks | What::Rbac | What::Deployment => text,
        };
        let cluster_api = &self.authority.cluster_api_namespace;
        let mut flags = String::new();
        if self.namespace != NAMESPACE {
            flags.push_str(&format!("        - --namespace={}\n", self.namespace));
        }
        if cluster_api != cluster_x_k8s_io::NAMESPACE {
            flags.push_str(&format!("        - --cluster-api-namespace={cluster_api}\n"));
        }
        for identity in &self.authority.autoscaler_identity {
            flags.push_str(&format!("        - --autoscaler-identity={identity}\n"));
        }
        for identity in &self.authority.sync_identity {
            flags.push_str(&format!("        - --sync-identity={identity}\n"));
        }
        placed
            .replace(NAMESPACE, &self.namespace)
            .replace(cluster_x_k8s_io::NAMESPACE, cluster_api)
            .replace(SERVE, &format!("{SERVE}{flags}"))
    }
}

/// The line of a Deployment after which the server's flags start.
const SERVE: &str = "        - serve\n";

#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
enum What {
    /// The CustomResourceDefinitions.
    Crds,
    /// The webhook configurations.
    Webhooks,
    /// The ValidatingAdmissionPolicies, which work without the webhook.
    Policies,
    /// The ServiceAccounts and their permissions.
    Rbac,
    /// The Deployments and the Service.
    Deployment,
}

/// Prints or writes the manifests.
///
/// # Errors
/// A file cannot be written.
pub fn run(args: &Args) -> anyhow::Result<ExitCode> {
    let files = match args.what {
        What::Crds => crd::crd_files(&rule_files()?)?,
        What::Webhooks => manifests::webhook_files(),
        What::Policies => {
            let config = args.authority.config(&args.namespace);
            let mut files = rule_files()?;
            files.iter_mut().for_each(|file| config.configure(file));
            manifests::policy_files(&files)?
        }
        What::Rbac => [manifests::rbac_files(), manifests::controllers_rbac_files()].concat(),
        What::Deployment => [manifests::deployment_files(), manifests::controllers_files()].concat(),
    };
    let files: Vec<(String, String)> = files.into_iter().map(|(name, text)| (name, args.place(text))).collect();
    match &args.out {
        Some(folder) => {
            std::fs::create_dir_all(folder).with_context(|| format!("creating the folder {}", folder.display()))?;
            for (name, text) in &files {
                let path = folder.join(name);
                std::fs::write(&path, text).with_context(|| format!("writing {}", path.display()))?;
            }
        }
        None => {
            std::io::stdout()
                .write_all(manifests::join(&files).as_bytes())
                .context("writing the manifests")?;
        }
    }
    Ok(ExitCode::SUCCESS)
}
