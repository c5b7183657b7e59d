//! `capstan register`: registers the webhooks of the webhook server in a cluster, and keeps them
//! registered. It runs in the cluster. It adds the webhooks to the webhook configurations of the
//! manifests; in a bundle for OLM, it creates these configurations and the policies too.
//!
//! What is registered follows from the flags of the server. This module must never register a
//! webhook before all replicas of the server are ready. In a bundle, a ClusterRole owns what is
//! registered, and nothing is registered while it is being deleted.

use std::process::ExitCode;
use std::time::Duration;

use capstan_core::admission::Feature;
use capstan_core::api::machine_openshift_io::NAMESPACE;
use serde_json::{Value, json};
use tokio::signal::unix::{SignalKind, signal};
use tokio::time::Instant;

use super::cluster::{Authority, Enforcement, namespace};
use super::installed::{self, Flags, named, text};
use super::manifests::{Certificates, Choices};
use super::observe::runtime;
use super::refusal::sentence;
use super::registration::{Registration, STEPS, ready, remove_others};
use super::report::Report;
use super::server_flags::ServerFlags;

/// The Deployment and the Service of the webhook server.
const SERVER: &str = "capstan-webhook";

/// Register the webhooks in a cluster, and keep them registered.
///
/// This command runs in the cluster, in the Deployment `capstan-registration` of the
/// manifests. The flags of the webhook server tell what to register. The command adds
/// the webhooks to the webhook configurations of the manifests after all replicas of
/// the server are ready, with `failurePolicy: Ignore`. After the API server has called
/// the server, they get `failurePolicy: Fail`. If a step fails, the command removes
/// the webhooks that it added, and tries again.
#[derive(Debug, clap::Args)]
pub struct Args {
    /// Namespace of Capstan.
    #[arg(short, long, default_value = NAMESPACE, value_name = "NAMESPACE", value_parser = namespace)]
    namespace: String,
    /// Create the webhook configurations and the policies, which this ClusterRole owns:
    /// when it is deleted, they are. Without it, the manifests must contain them.
    #[arg(long, value_name = "NAME")]
    owner: Option<String>,
    /// Register once, and exit with 1 if a step failed.
    #[arg(long)]
    once: bool,
    /// The time between two attempts.
    #[arg(long, default_value = "1m", value_parser = super::serve::duration, value_name = "TIME")]
    interval: Duration,
    /// How long an attempt waits until a replica is ready, and until the API server calls
    /// it.
    #[arg(long, default_value = "5m", value_parser = super::serve::duration, value_name = "TIME")]
    wait: Duration,
    /// Call the webhooks at this URL instead of the Service: for tests, in which no pod runs.
    #[arg(long, hide = true, value_name = "URL")]
    webhook_url: Option<String>,
    #[command(flatten)]
    flags: Flags,
}

/// Registers until a signal stops the process.
///
/// # Errors
/// The cluster cannot be reached in the only attempt.
pub fn run(args: &Args) -> anyhow::Result<ExitCode> {
    runtime()?.block_on(async {
        if args.once {
            return attempt(args).await?.print(args.flags.output);
        }
        let mut terminate = signal(SignalKind::terminate())?;
        let mut interrupt = signal(SignalKind::interrupt())?;
        let keep = async {
            let mut last = String::new();
            loop {
                let outcome = match attempt(args).await {
                    Ok(report) => report.text(),
                    Err(error) => sentence(&error) + "\n",
                };
                if outcome != last {
                    Report::print_text(&outcome)?;
                    last = outcome;
                }
                tokio::time::sleep(args.interval).await;
            }
        };
        tokio::select! {
            ended = keep => ended,
            _ = terminate.recv() => Ok(ExitCode::SUCCESS),
            _ = interrupt.recv() => Ok(ExitCode::SUCCESS),
        }
    })
}

async fn attempt(args: &Args) -> anyhow::Result<Report> {
    let client = args.flags.cluster.connect(args.flags.timeout).await?.client;
    let mut report = Report::of(&args.flags.cluster);
    let find = async |api_version, kind, namespace, name| {
        installed::get(&client, &named(api_version, kind, namespace, name)).await
    };
    let mut owner = None;
    if let Some(name) = &args.owner {
        let found = find("rbac.authorization.k8s.io/v1", "ClusterRole", "", name.as_str()).await?;
        let Some(found) = found.filter(|role| text(role, "/metadata/deletionTimestamp").is_empty()) else {
            let remedy = "It owns what is registered. Apply the manifests again.";
            report.fail(STEPS, format!("ClusterRole {name} exists"), "it does not", remedy);
            return Ok(report);
        };
        owner = Some(
            json!({"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRole",
            "name": name, "uid": text(&found, "/metadata/uid")}),
        );
    }
    let home = args.namespace.as_str();
    let Some(server) = find("apps/v1", "Deployment", home, SERVER).await? else {
        let check = format!("Deployment {home}/{SERVER} exists");
        report.fail(
            STEPS,
            check,
            "it does not",
            "Apply the manifests again (manifests/README.md).",
        );
        return Ok(report);
    };
    let service = find("v1", "Service", home, SERVER).await?.unwrap_or_default();
    let known = ServerFlags::of(&server).and_then(|flags| Ok((of_server(home, &flags, &service)?, flags)));
    let (mut registration, flags) = match known {
        Ok(known) => known,
        Err(reason) => {
            let check = format!("the flags of Deployment {home}/{SERVER} are known");
            let remedy = "The webhooks stay as they are. Apply the manifests again (manifests/README.md).";
            report.fail(STEPS, check, reason, remedy);
            return Ok(report);
        }
    };
    registration.url.clone_from(&args.webhook_url);
    registration.creates = owner.is_some();
    registration.owner = owner;
    let deadline = Instant::now() + args.wait;
    if ready(&client, &server, deadline, &mut report).await? {
        registration.register(&client, deadline, &mut report).await?;
        remove_others(&client, &flags, home, &mut report).await?;
    }
    Ok(report)
}

/// What is to be registered for a server with these flags.
///
/// # Errors
/// The value of a flag that the webhooks depend on is not known.
fn of_server(namespace: &str, flags: &ServerFlags<'_>, service: &Value) -> Result<Registration, String> {
    let issued_by_service_ca = service
        .pointer("/metadata/annotations/service.beta.openshift.io~1serving-cert-secret-name")
        .is_some();
    let mut authority = Authority::default();
    if let Some(cluster_api) = flags.values("--cluster-api-namespace")?.pop() {
        authority.cluster_api_namespace = cluster_api;
    }
    authority.sync_identity = flags.values("--sync-identity")?;
    authority.autoscaler_identity = flags.values("--autoscaler-identity")?;
    authority.hook_identity = flags.values("--hook-identity")?;
    Ok(Registration {
        features: Feature::ALL
            .into_iter()
            .filter(|feature| flags.serve(*feature))
            .collect(),
        choices: Choices {
            namespace: namespace.to_owned(),
            certificates: match (flags.has_value("--self-managed-secret"), issued_by_service_ca) {
                (true, _) => Certificates::SelfManaged,
                (false, true) => Certificates::ServiceCa,
                (false, false) => Certificates::CertManager,
            },
            enforcement: if flags.values("--enforcement")?.iter().any(|value| value == "warn") {
                Enforcement::Warn
            } else {
                Enforcement::Deny
            },
            authority,
            single_node: false,
            network_policies: false,
            secure_metrics: false,
            static_webhooks: false,
        },
        url: None,
        owner: None,
        creates: false,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cli::manifests::{Installation, What};

    fn choices() -> Choices {
        Choices {
            namespace: "home".to_owned(),
            certificates: Certificates::ServiceCa,
            single_node: true,
            network_policies: true,
            secure_metrics: true,
            static_webhooks: false,
            enforcement: Enforcement::Warn,
            authority: Authority {
                cluster_api_namespace: "capi".to_owned(),
                sync_identity: vec!["a$(b)".to_owned(), "c".to_owned()],
                autoscaler_identity: vec!["d".to_owned()],
                hook_identity: vec!["e".to_owned()],
            },
        }
    }

    /// What is registered is what the other ways to install register.
    #[test]
    fn the_flags_of_the_server_tell_what_is_registered() {
        let features = [Feature::Admission, Feature::Mirroring, Feature::ControlPlane];
        for certificates in [
            Certificates::ServiceCa,
            Certificates::CertManager,
            Certificates::SelfManaged,
        ] {
            let mut choices = choices();
            choices.certificates = certificates;
            let installed = Installation::new(&features, &choices)
                .objects(What::Deployment)
                .unwrap();
            let find = |kind: &str| {
                let found = installed
                    .iter()
                    .find(|object| text(object, "/kind") == kind && text(object, "/metadata/name") == SERVER);
                found.unwrap().clone()
            };
            let server = find("Deployment");
            let flags = ServerFlags::of(&server).unwrap();
            let registration = of_server("home", &flags, &find("Service")).unwrap();
            assert_eq!(registration.features, features);
            let wanted = Installation::new(&features, &choices);
            let registered = Installation::new(&registration.features, &registration.choices);
            for what in [What::Webhooks, What::Policies] {
                assert_eq!(registered.objects(what).unwrap(), wanted.objects(what).unwrap());
            }
        }
    }
}
