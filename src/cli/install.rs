//! `capstan install`: applies the manifests in an order in which no step endangers the cluster. An
//! installation that stops at any step leaves a working cluster.
//!
//! It must never register a webhook before all replicas of the server are ready. The module
//! `registration` does the rest.

use std::process::ExitCode;
use std::time::Duration;

use capstan_core::admission::Feature;
use kube::Client;
use tokio::time::Instant;

use super::installed::{self, Flags, text};
use super::manifests::{Choices, Installation, What, features};
use super::observe::run_interruptible;
use super::preflight;
use super::registration::{Registration, apply, ready};
use super::report::Report;

/// Install Capstan, or upgrade it, so that a failure endangers nothing.
///
/// The command checks the cluster (`capstan preflight`), applies permissions and
/// Deployments, and waits until all replicas are ready. Then it applies the policies,
/// and registers the webhooks with `failurePolicy: Ignore`. After the API server has
/// called the server, the webhooks get `failurePolicy: Fail`. If a step fails, the
/// webhooks that the command registered are removed. The command does not install
/// CRDs: see `capstan manifests crds`.
///
/// The exit code is 0 if Capstan is installed, 1 if a check or a step failed, and 2 if
/// the cluster cannot be reached.
#[derive(Debug, clap::Args)]
pub struct Args {
    /// Features to install; may be repeated.
    #[arg(long, value_parser = features(), value_delimiter = ',', default_value = Feature::Admission.name(),
        value_name = "FEATURE")]
    feature: Vec<Feature>,
    #[command(flatten)]
    choices: Choices,
    /// How long to wait until the replicas are ready, and until the API server calls
    /// them.
    #[arg(long, default_value = "5m", value_parser = super::serve::duration, value_name = "TIME")]
    wait: Duration,
    /// Do not run the checks of `capstan preflight`.
    #[arg(long)]
    skip_preflight: bool,
    /// Call the webhooks at this URL instead of the Service: for tests, in which no pod runs.
    #[arg(long, hide = true, value_name = "URL")]
    webhook_url: Option<String>,
    #[command(flatten)]
    flags: Flags,
}

/// Installs, and prints the report.
///
/// # Errors
/// The cluster cannot be reached.
pub fn run(args: &Args) -> anyhow::Result<ExitCode> {
    let hint = "interrupted: what was applied stays; repeat the command, or run capstan uninstall";
    run_interruptible(&args.flags.cluster, args.flags.output, hint, async |report| {
        install(args, report).await
    })
}

async fn install(args: &Args, report: &mut Report) -> anyhow::Result<()> {
    let client = args.flags.cluster.connect(args.flags.timeout).await?.client;
    let mut choices = args.choices.clone();
    if args.feature.contains(&Feature::Mirroring) && choices.authority.sync_identity.is_empty() {
        let user = sync_identity(&client, &choices).await?;
        report.ok("cluster", "the user that synchronizes mirrors", &user);
        choices.authority.sync_identity = vec![user];
    }
    if !args.skip_preflight {
        let preflight = preflight::Args {
            feature: args.feature.clone(),
            choices: choices.clone(),
            flags: args.flags.clone(),
        };
        preflight::check(&preflight, report).await?;
        if report.any_failed() {
            return Ok(());
        }
    }
    let deadline = Instant::now() + args.wait;
    let installation = Installation::new(&args.feature, &choices);
    if deploy(&client, &installation, deadline, report).await? {
        let registration = Registration {
            features: args.feature.clone(),
            choices,
            url: args.webhook_url.clone(),
            owner: None,
            creates: true,
        };
        registration.register(&client, deadline, report).await?;
    }
    Ok(())
}

/// The user that synchronizes mirrors in this cluster: OpenShift's sync controller if its
/// Deployment runs, otherwise Capstan's.
async fn sync_identity(client: &Client, choices: &Choices) -> anyhow::Result<String> {
    let cluster_api = &choices.authority.cluster_api_namespace;
    Ok(if installed::openshift_syncs(client, cluster_api).await? {
        format!("system:serviceaccount:{cluster_api}:{}", installed::OPENSHIFT_SYNC)
    } else {
        format!("system:serviceaccount:{}:capstan-mirroring", choices.namespace)
    })
}

/// Applies permissions and Deployments, and waits until all replicas are ready. Whether no step
/// failed.
async fn deploy(
    client: &Client,
    installation: &Installation,
    deadline: Instant,
    report: &mut Report,
) -> anyhow::Result<bool> {
    let deployments = installation.objects(What::Deployment)?;
    let groups = [
        ("the permissions are applied", installation.objects(What::Rbac)?),
        ("the Deployments are applied", deployments.clone()),
    ];
    for (step, objects) in groups {
        if !apply(client, step, &objects, report).await {
            return Ok(false);
        }
    }
    for deployment in deployments
        .iter()
        .filter(|object| text(object, "/kind") == "Deployment")
    {
        if !ready(client, deployment, deadline, report).await? {
            return Ok(false);
        }
    }
    Ok(true)
}
