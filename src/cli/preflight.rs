//! `capstan preflight`: checks before an installation whether the cluster accepts it. It changes
//! nothing: the API server checks the manifests in dry runs.

use std::process::ExitCode;

use capstan_core::admission::Feature;
use capstan_core::api::machine_openshift_io::NAMESPACE;
use kube::Client;
use kube::api::{Patch, PatchParams};
use serde_json::Value;

use super::installed::{self, Flags, named, reason, text, title};
use super::manifests::{Certificates, Choices, Installation, What, features};
use super::observe::runtime;
use super::refusal::sentence;
use super::report::Report;
use super::verify;

/// The oldest minor version of Kubernetes that Capstan supports (docs/operations.md).
const OLDEST_MINOR: u32 = 33;
const WEBHOOKS_API: &str = "admissionregistration.k8s.io/v1";
/// The webhook configuration of OpenShift's operator.
const OPENSHIFT_WEBHOOK: &str = "controlplanemachineset.machine.openshift.io";
/// The Deployment of OpenShift's operator for ControlPlaneMachineSets.
const OPENSHIFT_OPERATOR: &str = "control-plane-machine-set-operator";

/// Check before an installation whether the cluster accepts it.
///
/// The checks are the version of Kubernetes, namespaces, CRDs, other operators, and
/// permissions: the API server checks each manifest in a dry run. Use the flags with
/// which you will run `capstan manifests`. The command changes nothing.
///
/// The exit code is 0 if no check failed, 1 if a check failed, and 2 if the cluster
/// cannot be checked.
#[derive(Debug, clap::Args)]
#[command(after_help = "Example:
  capstan preflight --feature admission,controllers &&
    capstan manifests all --feature admission,controllers | kubectl apply -f -")]
pub struct Args {
    /// Features to install; may be repeated.
    #[arg(long, value_parser = features(), value_delimiter = ',', default_value = Feature::Admission.name(),
        value_name = "FEATURE")]
    pub(super) feature: Vec<Feature>,
    #[command(flatten)]
    pub(super) choices: Choices,
    #[command(flatten)]
    pub(super) flags: Flags,
}

/// Checks the cluster, and prints the report.
///
/// # Errors
/// The cluster cannot be reached.
pub fn run(args: &Args) -> anyhow::Result<ExitCode> {
    let mut report = Report::of(&args.flags.cluster);
    runtime()?.block_on(check(args, &mut report))?;
    report.print(args.flags.output)
}

/// Checks the cluster.
///
/// # Errors
/// The cluster cannot be reached.
pub(super) async fn check(args: &Args, report: &mut Report) -> anyhow::Result<()> {
    let connection = args.flags.cluster.connect(args.flags.timeout).await?;
    report.ok("cluster", "the API server responds", &connection.version);
    let version = format!("Kubernetes is 1.{OLDEST_MINOR} or newer");
    match connection.minor {
        Some(minor) if minor >= OLDEST_MINOR => report.ok("cluster", version, ""),
        _ => report.fail("cluster", version, &connection.version, "Upgrade the cluster first."),
    }
    let client = &connection.client;
    namespaces(args, client, report).await?;
    definitions(args, client, report).await?;
    prerequisites(args, client, report).await?;
    left_out(args, client, report).await?;
    operators(args, client, report).await?;
    kubeadm_controller(args, client, report).await?;
    service_ca(args, client, report).await?;
    objects(args, client, report).await
}

async fn namespaces(args: &Args, client: &Client, report: &mut Report) -> anyhow::Result<()> {
    let mut namespaces = vec![&args.choices.namespace];
    let mirrors = [Feature::Mirroring, Feature::MirroringControllers];
    if args.feature.iter().any(|feature| mirrors.contains(feature)) {
        namespaces.push(&args.choices.authority.cluster_api_namespace);
    }
    for namespace in namespaces {
        let check = format!("the namespace {namespace} exists");
        match installed::get(client, &named("v1", "Namespace", "", namespace)).await? {
            None => report.fail(
                "namespaces",
                check,
                "it does not exist",
                format!("kubectl create namespace {namespace}"),
            ),
            Some(found) if text(&found, "/metadata/deletionTimestamp").is_empty() => report.ok("namespaces", check, ""),
            Some(_) => report.fail(
                "namespaces",
                check,
                "it is being deleted",
                "Wait until it is deleted, and create it again.",
            ),
        }
    }
    Ok(())
}

/// The API server serves the kinds that the features check and manage.
async fn definitions(args: &Args, client: &Client, report: &mut Report) -> anyhow::Result<()> {
    let mut needed: Vec<_> = args
        .feature
        .iter()
        .flat_map(|feature| installed::kinds(*feature))
        .collect();
    needed.sort_unstable();
    needed.dedup();
    let mut definitions = None;
    for (api_version, plural) in needed {
        let check = format!("the API server serves {plural} of {api_version}");
        match client.list_api_group_resources(api_version).await {
            Ok(list) if list.resources.iter().any(|resource| resource.name == *plural) => report.ok("CRDs", check, ""),
            Err(error) if !matches!(&error, kube::Error::Api(status) if status.code == 404) => {
                report.fail("CRDs", check, reason(&error), "Repeat the command.");
            }
            Ok(_) | Err(_) => {
                let definitions = match &mut definitions {
                    Some(definitions) => definitions,
                    none => none.insert(Definitions::new(args)?),
                };
                report.fail("CRDs", check, "", definitions.command(api_version, plural));
            }
        }
    }
    Ok(())
}

/// The names of the CRDs in the manifests, with the command that prints them.
struct Definitions(Vec<(String, Vec<String>)>);

impl Definitions {
    fn new(args: &Args) -> anyhow::Result<Self> {
        let mut all = Vec::new();
        for feature in [Feature::Admission, Feature::KubeadmControlPlane, Feature::ControlPlane] {
            let mut command = String::from("capstan manifests crds");
            if feature != Feature::Admission {
                command.push_str(&format!(" --feature {}", feature.name()));
            }
            if args.choices.namespace != NAMESPACE {
                command.push_str(&format!(" --namespace {}", args.choices.namespace));
            }
            let crds = Installation::new(&[feature], &args.choices).objects(What::Crds)?;
            let names = crds.iter().map(|crd| text(crd, "/metadata/name").to_owned()).collect();
            all.push((command, names));
        }
        Ok(Self(all))
    }

    /// How to install the CRD of a kind. Those of Cluster API are in no manifest.
    fn command(&self, api_version: &str, plural: &str) -> String {
        let group = api_version.split_once('/').map_or(api_version, |(group, _)| group);
        let name = format!("{plural}.{group}");
        let command = self.0.iter().find(|(_, names)| names.contains(&name));
        match command {
            Some((command, _)) => format!("{command} | kubectl apply --server-side -f -"),
            None => String::from("Install Cluster API first."),
        }
    }
}

/// Controllers are installed together with the webhooks that guard what they execute.
async fn prerequisites(args: &Args, client: &Client, report: &mut Report) -> anyhow::Result<()> {
    for guarded in installed::guarded(client, &args.feature).await? {
        if guarded.is_guarded {
            report.ok("features", guarded.check(), "");
        } else {
            report.fail("features", guarded.check(), "it is not", guarded.remedy());
        }
    }
    Ok(())
}

/// The server checks the requested features only. The webhooks of another installed feature would
/// stay in force, and each of their requests would fail.
async fn left_out(args: &Args, client: &Client, report: &mut Report) -> anyhow::Result<()> {
    let installed = match verify::installed_features(client, &args.choices.namespace, "").await {
        Ok(installed) => installed,
        Err(error) => {
            report.warn(
                "features",
                "all installed features are requested",
                sentence(&error),
                "Repeat the command as a user with the right to read the objects of the installation.",
            );
            return Ok(());
        }
    };
    let is_left_out = |feature: &Feature| !feature.is_controllers() && !args.feature.contains(feature);
    for feature in installed.into_iter().filter(is_left_out) {
        report.fail(
            "features",
            format!("the installed feature {} is requested too", feature.name()),
            "it is not, so that its webhooks would call a server that does not know them",
            format!("Add --feature {}, or run capstan uninstall first.", feature.name()),
        );
    }
    Ok(())
}

/// The controller of Cluster API for KubeadmControlPlanes does not run beside that of Capstan: both
/// would create and delete machines.
async fn kubeadm_controller(args: &Args, client: &Client, report: &mut Report) -> anyhow::Result<()> {
    if !args.feature.contains(&Feature::KubeadmControlPlaneControllers) {
        return Ok(());
    }
    let (namespace, name) = (
        "capi-kubeadm-control-plane-system",
        "capi-kubeadm-control-plane-controller-manager",
    );
    let other = named("apps/v1", "Deployment", namespace, name);
    let check = "no other controller manages KubeadmControlPlanes";
    match installed::get(client, &other).await? {
        Some(found) if found.pointer("/spec/replicas").and_then(Value::as_u64) != Some(0) => report.fail(
            "other operators",
            check,
            format!("the Deployment {namespace}/{name} runs"),
            format!("kubectl -n {namespace} scale deployment {name} --replicas=0"),
        ),
        _ => report.ok("other operators", check, ""),
    }
    Ok(())
}

/// The service CA issues the certificate if it is chosen. The manifests contain annotations for it
/// only, which each API server accepts.
async fn service_ca(args: &Args, client: &Client, report: &mut Report) -> anyhow::Result<()> {
    if args.choices.certificates != Certificates::ServiceCa {
        return Ok(());
    }
    let check = "the service CA of OpenShift runs";
    let deployment = named("apps/v1", "Deployment", "openshift-service-ca", "service-ca");
    match installed::get(client, &deployment).await? {
        Some(_) => report.ok("certificates", check, ""),
        None => report.fail(
            "certificates",
            check,
            format!("there is no {}", title(&deployment)),
            "--certificates=self-managed, or --certificates=cert-manager",
        ),
    }
    Ok(())
}

/// No other operator acts on the objects of the features.
async fn operators(args: &Args, client: &Client, report: &mut Report) -> anyhow::Result<()> {
    const SECTION: &str = "other operators";
    let namespace = &args.choices.namespace;
    let operator = named("apps/v1", "Deployment", namespace, OPENSHIFT_OPERATOR);
    let runs = installed::get(client, &operator)
        .await?
        .is_some_and(|found| found.pointer("/spec/replicas").and_then(Value::as_u64) != Some(0));
    let check = "no other operator manages ControlPlaneMachineSets";
    let found = format!("the Deployment {namespace}/{OPENSHIFT_OPERATOR} runs");
    if !runs {
        report.ok(SECTION, check, "");
        let left = named(WEBHOOKS_API, "ValidatingWebhookConfiguration", "", OPENSHIFT_WEBHOOK);
        let check = "no webhook of a stopped operator is registered";
        match installed::get(client, &left).await {
            Ok(None) => {}
            Ok(Some(_)) => {
                let remedy = "Delete it, or start the operator: its webhook refuses each change (docs/openshift.md).";
                report.fail(SECTION, check, title(&left), remedy);
            }
            Err(error) => report.warn(
                SECTION,
                check,
                sentence(&error),
                "Repeat the command as a user who may read it.",
            ),
        }
    } else if args.feature.contains(&Feature::Controllers) {
        let remedy = "Stop it first, or leave out the feature controllers (docs/openshift.md).";
        report.fail(SECTION, check, found, remedy);
    } else {
        report.ok(SECTION, "the operator of OpenShift stays in charge of machines", found);
    }
    if args.feature.contains(&Feature::KubeadmControlPlane) {
        let other = named(
            WEBHOOKS_API,
            "ValidatingWebhookConfiguration",
            "",
            "capi-kubeadm-control-plane-validating-webhook-configuration",
        );
        if args.choices.certificates == Certificates::SelfManaged {
            verify::injectors(&verify::converted(client).await?, report);
        }
        let check = "no webhooks of Cluster API check KubeadmControlPlanes";
        match installed::get(client, &other).await? {
            None => report.ok(SECTION, check, ""),
            Some(_) => report.warn(
                SECTION,
                check,
                title(&other),
                "Both will check each request (docs/kubeadm-control-plane.md).",
            ),
        }
    }
    Ok(())
}

/// The API server accepts each manifest from this user, in a dry run.
async fn objects(args: &Args, client: &Client, report: &mut Report) -> anyhow::Result<()> {
    const SECTION: &str = "manifests";
    if report.has_failed("namespaces") {
        let remedy = "Create the namespaces, and repeat the command.";
        report.warn(SECTION, "the API server accepts the manifests", "not checked", remedy);
        return Ok(());
    }
    let objects = Installation::new(&args.feature, &args.choices).complete()?;
    let parameters = PatchParams {
        dry_run: true,
        force: true,
        field_manager: Some("capstan".to_owned()),
        ..PatchParams::default()
    };
    let mut accepted = 0;
    for object in &objects {
        let (api, name) = (installed::api(client, object), text(object, "/metadata/name"));
        let stored = installed::get(client, object).await.ok().flatten();
        if stored
            .as_ref()
            .is_some_and(|stored| installed::is_foreign(object, stored))
        {
            report.fail(
                SECTION,
                format!("no other program has an object with the name of {}", title(object)),
                "it exists, without the label app.kubernetes.io/name=capstan",
                "Rename or delete that object. If it is Capstan's, add the label.",
            );
            continue;
        }
        let own_namespace = &args.choices.namespace;
        let elsewhere = stored
            .as_ref()
            .and_then(|stored| installed::elsewhere(stored, own_namespace));
        if let Some(other) = elsewhere {
            report.fail(
                SECTION,
                format!("{} belongs to no other installation", title(object)),
                format!("it belongs to Capstan in the namespace {other}"),
                format!("Repeat the command with --namespace {other}, or run capstan uninstall there first."),
            );
            continue;
        }
        match api.patch(name, &parameters, &Patch::Apply(object)).await {
            Ok(_) => accepted += 1,
            Err(error) => {
                let check = format!("the API server accepts {}", title(object));
                report.fail(SECTION, check, reason(&error), remedy(args, &error));
            }
        }
    }
    if accepted == objects.len() {
        let found = format!("{accepted} objects, in a dry run");
        report.ok(SECTION, "the API server accepts the manifests from this user", found);
    }
    Ok(())
}

fn remedy(args: &Args, error: &kube::Error) -> &'static str {
    match error {
        kube::Error::Api(status) if status.code == 403 => "Install as a user with the role cluster-admin.",
        kube::Error::Api(status) if status.code == 404 && args.choices.certificates == Certificates::CertManager => {
            "Install cert-manager first."
        }
        _ => "Resolve the cause, and repeat the command.",
    }
}
