//! `capstan manifests`: prints the manifests of the repository for the configured namespaces.

use std::io::Write as _;
use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::{Context as _, ensure};
use capstan_core::admission::{Feature, rule_files, rule_files_of};
use capstan_core::api::cluster_x_k8s_io;
use capstan_core::api::machine_openshift_io::NAMESPACE;
use capstan_core::authority::config::{Config, literal};
use capstan_core::schema::crd;

use serde_json::Value;

use clap::builder::{PossibleValuesParser, TypedValueParser as _};

mod bundle;
mod chart;

use super::cluster::{Authority, Enforcement, namespace};
use super::documents;
use crate::manifests::{self, Component};

/// Print the manifests to install, for `kubectl apply -f -`.
#[derive(Debug, clap::Args)]
pub struct Args {
    /// Which manifests to print.
    #[arg(value_enum)]
    what: What,
    /// Features to install; may be repeated. `admission` checks
    /// ControlPlaneMachineSets, `controllers` replaces machines, `mirroring` guards
    /// objects that exist in both APIs, `mirroring-controllers` mirrors and migrates
    /// their Machines, `kubeadm-control-plane` checks KubeadmControlPlanes in place of
    /// Cluster API, `control-plane` checks ControlPlanes, and `machine-pools` checks
    /// MachinePools. The controllers of these three are
    /// `kubeadm-control-plane-controllers`, `control-plane-controllers`, and
    /// `machine-pool-controllers`.
    #[arg(long, value_parser = features(), value_delimiter = ',', default_value = Feature::Admission.name(),
        value_name = "FEATURE")]
    feature: Vec<Feature>,
    #[command(flatten)]
    choices: Choices,
    /// Write each manifest to a file in this folder instead of printing it.
    #[arg(long, value_name = "DIR")]
    out: Option<PathBuf>,
}

/// The choices of an installation beside its features.
#[derive(Clone, Debug, clap::Args)]
pub(super) struct Choices {
    /// Namespace of the Machine API, which is also that of Capstan.
    #[arg(short, long, default_value = NAMESPACE, value_name = "NAMESPACE", value_parser = namespace)]
    pub(super) namespace: String,
    /// Source of the webhook server's certificate.
    #[arg(long, value_enum, default_value = "self-managed", value_name = "SOURCE")]
    pub(super) certificates: Certificates,
    /// Install one replica of each Deployment, for a control plane with one node.
    #[arg(long)]
    pub(super) single_node: bool,
    /// Install NetworkPolicies, which limit the connections of the pods.
    #[arg(long)]
    pub(super) network_policies: bool,
    /// Serve the metrics over TLS only, for clients with a token that may get /metrics.
    #[arg(long)]
    pub(super) secure_metrics: bool,
    /// Put the webhooks into the manifests. Without this flag, the webhook configurations
    /// have no webhooks, and a Deployment adds them when the server is ready. With it,
    /// nothing that the webhooks check can be edited until the server is ready.
    #[arg(long)]
    pub(super) static_webhooks: bool,
    /// What happens to a request that breaks a rule. With `warn`, nothing is refused,
    /// also while the webhook server is down.
    #[arg(long, value_enum, default_value = "deny", value_name = "ACTION")]
    pub(super) enforcement: Enforcement,
    #[command(flatten)]
    pub(super) authority: Authority,
}

/// An installation: its features and its choices.
#[derive(Clone, Debug)]
pub(super) struct Installation {
    feature: Vec<Feature>,
    choices: Choices,
}

pub(super) fn features() -> impl clap::builder::TypedValueParser<Value = Feature> {
    PossibleValuesParser::new(Feature::ALL.map(Feature::name))
        .try_map(|name| Feature::named(&name).ok_or("must be the name of a feature"))
}

impl Installation {
    /// An installation of these features.
    pub(super) fn new(feature: &[Feature], choices: &Choices) -> Self {
        Self {
            feature: feature.to_vec(),
            choices: choices.clone(),
        }
    }

    /// The objects of one kind of manifest.
    ///
    /// # Errors
    /// A manifest cannot be read; tests prevent that.
    pub(super) fn objects(&self, what: What) -> anyhow::Result<Vec<Value>> {
        let mut objects = Vec::new();
        for (name, text) in self.files(what)? {
            let read: Vec<Value> = serde_saphyr::from_multiple(&text).with_context(|| format!("reading {name}"))?;
            objects.extend(read);
        }
        Ok(objects)
    }

    /// All objects, with the webhooks in their configurations.
    ///
    /// # Errors
    /// A manifest cannot be read; tests prevent that.
    pub(super) fn complete(&self) -> anyhow::Result<Vec<Value>> {
        let kinds = [What::Rbac, What::Deployment, What::Policies, What::Webhooks];
        let objects: Vec<_> = kinds
            .into_iter()
            .map(|what| self.objects(what))
            .collect::<anyhow::Result<_>>()?;
        Ok(objects.concat())
    }

    /// The selected features, each once, in the order in which they are installed.
    fn features(&self) -> impl Iterator<Item = Feature> {
        Feature::ALL
            .into_iter()
            .filter(|feature| self.feature.contains(feature))
    }

    /// The webhook server is installed with the features that add flags to it.
    fn needs_server(&self) -> anyhow::Result<()> {
        let names = |all: &mut dyn Iterator<Item = Feature>| all.map(Feature::name).collect::<Vec<&str>>().join(",");
        ensure!(
            self.feature.contains(&Feature::Admission) || self.server_components().next().is_none(),
            "--feature must include admission, whose webhook server gets a flag for {}; use --feature admission,{}",
            names(&mut self.features().filter(|feature| !feature.is_controllers())),
            names(&mut self.features())
        );
        Ok(())
    }

    /// The components that change the objects of the features, in the order in which they apply.
    fn components(&self) -> Vec<Component> {
        let mut components: Vec<Component> = self.server_components().collect();
        components.extend(self.choices.certificates.components());
        if self.choices.single_node {
            components.push(Component::SingleNode);
        }
        if self.choices.network_policies {
            components.push(Component::NetworkPolicies);
        }
        if self.choices.secure_metrics {
            components.push(Component::SecureMetrics);
        }
        components
    }

    /// The components of the features that add flags to the webhook server.
    fn server_components(&self) -> impl Iterator<Item = Component> {
        self.features().filter_map(|feature| match feature {
            Feature::Mirroring => Some(Component::Mirroring),
            Feature::KubeadmControlPlane => Some(Component::KubeadmControlPlane),
            Feature::ControlPlane => Some(Component::ControlPlane),
            Feature::MachinePools => Some(Component::MachinePools),
            _ => None,
        })
    }

    /// The manifests of one kind, for the configured namespaces and components.
    fn files(&self, what: What) -> anyhow::Result<Vec<(String, String)>> {
        if what == What::Bundle {
            let choices = Choices {
                certificates: Certificates::ServiceCa,
                static_webhooks: false,
                ..self.choices.clone()
            };
            return bundle::files(&Self::new(&self.feature, &choices));
        }
        let mut files = self.unpatched(what)?;
        if matches!(what, What::Chart | What::NamespaceTransformer) {
            return Ok(files);
        }
        for component in self.components() {
            files = component.patch_placed(files, |text| self.place(text))?;
        }
        if self.choices.static_webhooks {
            files.retain(|(name, _)| !manifests::REGISTRATION_FILES.contains(&name.as_str()));
        } else if what == What::All {
            files = Component::Registration.patch(files)?;
        }
        if self.choices.enforcement == Enforcement::Warn {
            for (_, text) in &mut files {
                *text = for_trial(text);
            }
        }
        Ok(files)
    }

    fn unpatched(&self, what: What) -> anyhow::Result<Vec<(String, String)>> {
        let of_features = |files: fn(Feature) -> Vec<(String, String)>| -> Vec<(String, String)> {
            self.features().flat_map(files).collect()
        };
        let files = match what {
            What::All => {
                let kinds = [What::Rbac, What::Deployment, What::Policies, What::Webhooks];
                let files: Vec<_> = kinds
                    .iter()
                    .map(|what| self.unpatched(*what))
                    .collect::<anyhow::Result<_>>()?;
                return Ok(files.concat());
            }
            What::Crds => return self.crds(),
            What::Policies => return self.policies(),
            What::NamespaceTransformer => return Ok(vec![transformer()?]),
            What::Chart => return chart::templates(),
            What::Bundle => Vec::new(),
            What::Webhooks => of_features(manifests::webhook_files),
            What::Rbac => of_features(manifests::rbac_files),
            What::Deployment => {
                self.needs_server()?;
                let mut files = of_features(manifests::deployment_files);
                files.extend(self.components().into_iter().flat_map(Component::files));
                files
            }
        };
        Ok(files
            .into_iter()
            .map(|(name, text)| (name, self.place(&text)))
            .collect())
    }

    /// The CRDs of the Machine API and, with their features, those of KubeadmControlPlanes and of
    /// ControlPlanes.
    fn crds(&self) -> anyhow::Result<Vec<(String, String)>> {
        let rules = rule_files()?;
        let mut files = Vec::new();
        let kubeadm = [Feature::KubeadmControlPlane, Feature::KubeadmControlPlaneControllers];
        let control_plane = [Feature::ControlPlane, Feature::ControlPlaneControllers];
        let any = |group: [Feature; 2]| self.features().any(|feature| group.contains(&feature));
        // Cluster API installs the CRD of MachinePools.
        let pools = [Feature::MachinePools, Feature::MachinePoolControllers];
        let apart = [kubeadm, control_plane, pools].concat();
        if self.features().any(|feature| !apart.contains(&feature)) {
            files.extend(crd::crd_files(&rules)?);
        }
        if any(kubeadm) {
            let kubeadm = crd::kubeadm_crd_files(&rules)?;
            files.extend(kubeadm.into_iter().map(|(name, text)| (name, self.place(&text))));
        }
        if any(control_plane) {
            files.extend(crd::control_plane_crd_files(&rules)?);
        }
        Ok(files)
    }

    /// The policies, which are generated with the configured namespaces.
    fn policies(&self) -> anyhow::Result<Vec<(String, String)>> {
        let config = self.choices.authority.config(&self.choices.namespace);
        let mut files = Vec::new();
        for feature in self.features() {
            let mut rules = rule_files_of(feature)?;
            rules.iter_mut().for_each(|file| config.configure(file));
            files.extend(manifests::policy_files(feature, &rules)?);
        }
        Ok(files)
    }

    /// A built-in manifest for the configured namespaces and users. The webhook server and the
    /// controllers get the configured flags.
    fn place(&self, text: &str) -> String {
        let cluster_api = &self.choices.authority.cluster_api_namespace;
        let mut flags = Vec::new();
        if cluster_api != cluster_x_k8s_io::NAMESPACE {
            flags.push(format!("--cluster-api-namespace={cluster_api}"));
        }
        let identities = |flag: &str, users: &[String]| -> Vec<String> {
            users.iter().map(|user| quoted(&format!("--{flag}={user}"))).collect()
        };
        if self.choices.enforcement == Enforcement::Warn {
            flags.push("--enforcement=warn".to_owned());
        }
        flags.extend(identities(
            "autoscaler-identity",
            &self.choices.authority.autoscaler_identity,
        ));
        flags.extend(identities("sync-identity", &self.choices.authority.sync_identity));
        flags.extend(identities("hook-identity", &self.choices.authority.hook_identity));
        let flags: String = flags.iter().map(|flag| format!("        - {flag}\n")).collect();
        let identities = |config: &Config| -> String {
            let literals: Vec<String> = config.sync_identities.iter().map(|user| literal(user)).collect();
            format!("[{}]", literals.join(", "))
        };
        let defaults = Config::of_namespaces(&self.choices.namespace, cluster_api);
        let configured = self.choices.authority.config(&self.choices.namespace);
        text.replace(NAMESPACE, &self.choices.namespace)
            .replace(cluster_x_k8s_io::NAMESPACE, cluster_api)
            .replace(&identities(&defaults), &identities(&configured))
            .replace(LAST_FLAG, &format!("{LAST_FLAG}{flags}"))
    }
}

/// The last flag of each Deployment. Components find the first flags by their position.
const LAST_FLAG: &str = "        - --log-format=json\n";

/// A flag as a YAML string that the kubelet does not expand: JSON strings are YAML, and the kubelet
/// replaces `$$` by `$`.
fn quoted(flag: &str) -> String {
    Value::from(flag.replace('$', "$$")).to_string()
}

/// A manifest for a trial: policies warn, and a request does not wait for a server that is down.
/// `failurePolicy: Fail` and `- Deny` occur in no other field; a test compares the objects.
fn for_trial(text: &str) -> String {
    let line = |line: &str| match line.trim() {
        "failurePolicy: Fail" => line.replace("Fail", "Ignore"),
        "- Deny" => format!("{}\n{}", line.replace("Deny", "Warn"), line.replace("Deny", "Audit")),
        _ => line.to_owned(),
    };
    let lines: Vec<String> = text.lines().map(line).collect();
    lines.join("\n") + "\n"
}

/// The kustomize transformer for another namespace, of everything that can be installed.
fn transformer() -> anyhow::Result<(String, String)> {
    let all = |certificates| Installation {
        feature: Feature::ALL.to_vec(),
        choices: Choices {
            namespace: NAMESPACE.to_owned(),
            certificates,
            single_node: false,
            network_policies: true,
            secure_metrics: true,
            static_webhooks: false,
            enforcement: Enforcement::Deny,
            authority: Authority::default(),
        },
    };
    // cert-manager adds objects and annotations. The other sources add no namespace.
    let files = all(Certificates::CertManager).files(What::All)?;
    manifests::namespace_transformer(&files, NAMESPACE)
}

/// The program that issues the certificate and writes the `caBundle`s.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub(super) enum Certificates {
    /// The webhook server.
    SelfManaged,
    /// cert-manager, which must be installed.
    CertManager,
    /// The service CA of OpenShift.
    ServiceCa,
}

impl Certificates {
    fn components(self) -> &'static [Component] {
        match self {
            Self::SelfManaged => &[],
            Self::CertManager => &[Component::CertificateFiles, Component::CertManager],
            Self::ServiceCa => &[Component::CertificateFiles, Component::ServiceCa],
        }
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub(super) enum What {
    /// Everything but the CustomResourceDefinitions. The webhook configurations have no
    /// webhooks, unless --static-webhooks is given.
    All,
    /// The CustomResourceDefinitions.
    Crds,
    /// The webhook configurations, with their webhooks.
    Webhooks,
    /// The ValidatingAdmissionPolicies, which work without the webhook.
    Policies,
    /// The ServiceAccounts and their permissions.
    Rbac,
    /// The Deployments, the Service, and the certificates of cert-manager.
    Deployment,
    /// The kustomize transformer that moves Capstan to another namespace.
    NamespaceTransformer,
    /// The templates of the Helm chart; the other flags do not change them.
    Chart,
    /// The bundle for the Operator Lifecycle Manager, with the certificates of OpenShift.
    Bundle,
}

/// Prints or writes the manifests.
///
/// # Errors
/// A file cannot be written.
pub fn run(args: &Args) -> anyhow::Result<ExitCode> {
    let files = Installation::new(&args.feature, &args.choices).files(args.what)?;
    if files.is_empty() {
        let features: Vec<&str> = args.feature.iter().map(|feature| feature.name()).collect();
        documents::note(&format!(
            "no manifests of this kind belong to --feature {}, so nothing is printed",
            features.join(",")
        ));
    }
    match &args.out {
        Some(_) if files.is_empty() => {}
        Some(folder) => {
            std::fs::create_dir_all(folder).with_context(|| format!("creating the folder {}", folder.display()))?;
            for (name, text) in &files {
                let path = folder.join(name);
                if let Some(parent) = path.parent() {
                    std::fs::create_dir_all(parent).with_context(|| format!("creating {}", parent.display()))?;
                }
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
