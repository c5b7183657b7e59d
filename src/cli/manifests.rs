//! `capstan manifests`: prints the manifests of the repository for the configured namespaces.

use std::io::Write as _;
use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::{Context as _, ensure};
use capstan_core::admission::{Feature, rule_files, rule_files_of};
use capstan_core::api::cluster_x_k8s_io;
use capstan_core::api::machine_openshift_io::NAMESPACE;
use capstan_core::authority::config::{Config, literal};
use capstan_core::model::is_subdomain;
use capstan_core::schema::crd;

use clap::builder::{PossibleValuesParser, TypedValueParser as _};

use super::cluster::Authority;
use crate::manifests;

/// Print the manifests to install, for `kubectl apply -f -`.
#[derive(Debug, clap::Args)]
pub struct Args {
    /// Which manifests to print.
    #[arg(value_enum)]
    what: What,
    /// Features to install; may be repeated. `admission` checks
    /// ControlPlaneMachineSets, `controllers` replaces machines, and `mirroring` guards
    /// objects that exist in both APIs.
    #[arg(long, value_parser = features(), value_delimiter = ',', default_value = Feature::Admission.name(),
        value_name = "FEATURE")]
    feature: Vec<Feature>,
    /// Namespace of the Machine API, which is also that of Capstan.
    #[arg(long, default_value = NAMESPACE, value_name = "NAMESPACE", value_parser = namespace)]
    namespace: String,
    #[command(flatten)]
    authority: Authority,
    /// Write each manifest to a file in this folder instead of printing it.
    #[arg(long, value_name = "DIR")]
    out: Option<PathBuf>,
}

fn namespace(text: &str) -> Result<String, &'static str> {
    if is_subdomain(text) && text.len() <= 63 && !text.contains('.') {
        Ok(text.to_owned())
    } else {
        Err("must be the name of a namespace: lowercase letters, digits and hyphens, at most 63")
    }
}

fn features() -> impl clap::builder::TypedValueParser<Value = Feature> {
    PossibleValuesParser::new(Feature::ALL.map(Feature::name))
        .try_map(|name| Feature::named(&name).ok_or("must be the name of a feature"))
}

impl Args {
    /// The selected features, each once, in the order in which they are installed.
    fn features(&self) -> impl Iterator<Item = Feature> {
        Feature::ALL
            .into_iter()
            .filter(|feature| self.feature.contains(feature))
    }

    /// The manifests of one kind, for the configured namespaces.
    fn files(&self, what: What) -> anyhow::Result<Vec<(String, String)>> {
        let of_features = |files: fn(Feature) -> Vec<(String, String)>| -> Vec<(String, String)> {
            let placed = self.features().flat_map(files);
            placed.map(|(name, text)| (name, self.place(&text))).collect()
        };
        Ok(match what {
            What::All => {
                let kinds = [What::Rbac, What::Deployment, What::Policies, What::Webhooks];
                let files: Vec<_> = kinds
                    .iter()
                    .map(|what| self.files(*what))
                    .collect::<anyhow::Result<_>>()?;
                files.concat()
            }
            What::Crds => crd::crd_files(&rule_files()?)?,
            What::Policies => self.policies()?,
            What::Webhooks => of_features(manifests::webhook_files),
            What::Rbac => of_features(manifests::rbac_files),
            What::Deployment => {
                let adds_flags = |feature: &Feature| !manifests::server_flags(*feature).is_empty();
                ensure!(
                    self.feature.contains(&Feature::Admission) || !self.features().any(|feature| adds_flags(&feature)),
                    "--feature must include admission: the feature mirroring adds flags to the webhook server; \
                     use --feature admission,mirroring"
                );
                of_features(manifests::deployment_files)
            }
        })
    }

    /// The policies, which are generated with the configured namespaces.
    fn policies(&self) -> anyhow::Result<Vec<(String, String)>> {
        let config = self.authority.config(&self.namespace);
        let mut files = Vec::new();
        for feature in self.features() {
            let mut rules = rule_files_of(feature)?;
            rules.iter_mut().for_each(|file| config.configure(file));
            files.extend(manifests::policy_files(feature, &rules)?);
        }
        Ok(files)
    }

    /// A built-in manifest for the configured namespaces and features. The webhook server and the
    /// controllers get the configured flags.
    fn place(&self, text: &str) -> String {
        let cluster_api = &self.authority.cluster_api_namespace;
        let mut flags = Vec::new();
        if self.namespace != NAMESPACE {
            flags.push(format!("--namespace={}", self.namespace));
        }
        if cluster_api != cluster_x_k8s_io::NAMESPACE {
            flags.push(format!("--cluster-api-namespace={cluster_api}"));
        }
        let identities = |flag: &str, users: &[String]| -> Vec<String> {
            users.iter().map(|user| format!("--{flag}={user}")).collect()
        };
        flags.extend(identities("autoscaler-identity", &self.authority.autoscaler_identity));
        flags.extend(identities("sync-identity", &self.authority.sync_identity));
        if !text.contains(CONTROLLERS) {
            let added = self.features().flat_map(manifests::server_flags);
            flags.extend(added.map(|flag| (*flag).to_owned()));
        }
        let flags: String = flags.iter().map(|flag| format!("        - {flag}\n")).collect();
        let identities = |config: &Config| -> String {
            let literals: Vec<String> = config.sync_identities.iter().map(|user| literal(user)).collect();
            format!("[{}]", literals.join(", "))
        };
        let defaults = Config::of_namespaces(&self.namespace, cluster_api);
        let configured = self.authority.config(&self.namespace);
        text.replace(NAMESPACE, &self.namespace)
            .replace(cluster_x_k8s_io::NAMESPACE, cluster_api)
            .replace(&identities(&defaults), &identities(&configured))
            .replace(SERVE, &format!("{SERVE}{flags}"))
    }
}

/// The line of a Deployment after which the flags of `capstan serve` start.
const SERVE: &str = "        - serve\n";
/// The line by which the Deployment of the controllers is recognised. It serves no webhooks.
const CONTROLLERS: &str = "        - --controllers-only\n";

#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
enum What {
    /// Everything but the CustomResourceDefinitions.
    All,
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
    let files = args.files(args.what)?;
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
