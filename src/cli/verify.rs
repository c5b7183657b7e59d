//! `capstan verify`: checks an installation in a cluster. It changes nothing: the webhooks are
//! called by a dry run.

use std::process::ExitCode;

use anyhow::Context as _;
use capstan_core::admission::Feature;
use jiff::Timestamp;
use kube::Client;
use kube::api::PostParams;
use serde_json::{Value, json};

use super::installed::{self, Flags, named, reason, text, title, webhooks_of};
use super::manifests::{Certificates, Choices, Installation, features};
use super::observe::runtime;
use super::report::Report;
use super::server_flags::ServerFlags;

mod certificates;
mod permissions;

pub(super) use certificates::{converted, injectors};

const ADMISSION_API: &str = "admissionregistration.k8s.io/v1";

/// Check an installation of Capstan in a cluster.
///
/// The checks are: all objects exist, the Deployments are ready, the certificates are
/// valid, the API server calls the webhooks, the policies are in force, the
/// controllers hold their Lease, and the service accounts have their permissions. A
/// pod is ready when its certificate is valid and its caches are filled. The command
/// changes nothing. Use the flags with which Capstan was installed.
///
/// The exit code is 0 if no check failed, 1 if a check failed, and 2 if the cluster
/// cannot be checked.
#[derive(Debug, clap::Args)]
pub struct Args {
    /// Features that must be installed; may be repeated. The default is those that are
    /// installed.
    #[arg(long, value_parser = features(), value_delimiter = ',', value_name = "FEATURE")]
    feature: Vec<Feature>,
    #[command(flatten)]
    choices: Choices,
    /// Lease of the controllers.
    #[arg(long, default_value = "capstan", value_name = "NAME")]
    lease: String,
    #[command(flatten)]
    flags: Flags,
}

/// Checks the installation, and prints the report.
///
/// # Errors
/// The cluster cannot be reached.
pub fn run(args: &Args) -> anyhow::Result<ExitCode> {
    let report = runtime()?.block_on(check(args))?;
    report.print(args.flags.output)
}

async fn check(args: &Args) -> anyhow::Result<Report> {
    let connection = args.flags.cluster.connect(args.flags.timeout).await?;
    let client = &connection.client;
    let mut report = Report::of(&args.flags.cluster);
    report.ok("cluster", "the API server responds", &connection.version);
    let features = match args.feature.as_slice() {
        [] => installed_features(client, &args.choices.namespace, &args.lease).await?,
        given => given.to_vec(),
    };
    let names: Vec<&str> = features.iter().map(|feature| feature.name()).collect();
    if names.is_empty() {
        let remedy = "Install Capstan (manifests/README.md), or name the namespace with --namespace.";
        report.fail("cluster", "Capstan is installed", "no feature is installed", remedy);
        return Ok(report);
    }
    report.ok("cluster", "features", names.join(", "));
    let objects = Installation::new(&features, &args.choices).complete()?;
    let Some(found) = existing(args, client, &objects, &mut report).await? else {
        return Ok(report);
    };
    deployments(&found, &mut report);
    leftovers(args, client, &mut report).await?;
    registered(args, &objects, &found, &mut report);
    for guarded in installed::guarded(client, &features).await? {
        if !guarded.is_guarded {
            report.warn("features", guarded.check(), "it is not", guarded.remedy());
        }
    }
    let has_server = features.iter().any(|feature| !feature.is_controllers());
    if has_server {
        certificates::check(args, client, (&features, &found), &mut report).await?;
    }
    if !has_server {
        // Controllers alone have no webhooks.
    } else if !found.iter().any(is_webhook_configuration) {
        report.warn(
            "webhooks",
            "the API server calls the webhooks",
            "none is registered",
            "",
        );
    } else if features.contains(&Feature::Admission) {
        webhooks(args, client, &mut report).await;
    }
    policies(&found, &mut report);
    for feature in &features {
        if let Some(workload) = installed::controllers(*feature, &args.lease) {
            lease(args, client, workload, &mut report).await?;
        }
    }
    permissions::check(client, &objects, &mut report).await?;
    Ok(report)
}

/// The features of which a characteristic object exists.
pub(super) async fn installed_features(client: &Client, namespace: &str, lease: &str) -> anyhow::Result<Vec<Feature>> {
    let mut features = Vec::new();
    for feature in Feature::ALL {
        let webhooks = feature.webhook_configuration();
        let webhooks = webhooks.map(|name| named(ADMISSION_API, "ValidatingWebhookConfiguration", "", &name));
        let workload = match feature {
            Feature::Admission => Some("capstan-webhook"),
            feature => installed::controllers(feature, lease).map(|(_, name)| name),
        };
        let workload = workload.map(|name| named("apps/v1", "Deployment", namespace, name));
        for sign in webhooks.into_iter().chain(workload) {
            let found = installed::get(client, &sign).await?;
            if found.is_some_and(|found| installed::is_own(&found)) {
                features.push(feature);
                break;
            }
        }
    }
    Ok(features)
}

/// Checks that all objects exist, and returns those that do; `None` if they belong to an
/// installation in another namespace. The other checks would then report what is missing, and the
/// remedies would install a second one (W134).
async fn existing(
    args: &Args,
    client: &Client,
    objects: &[Value],
    report: &mut Report,
) -> anyhow::Result<Option<Vec<Value>>> {
    let mut pairs = Vec::new();
    for object in objects {
        pairs.push((object, installed::get(client, object).await?));
    }
    let namespace = &args.choices.namespace;
    let elsewhere = pairs.iter().find_map(|(object, stored)| {
        let own = stored
            .as_ref()
            .filter(|stored| !installed::is_foreign(object, stored))?;
        Some((title(object), installed::elsewhere(own, namespace)?))
    });
    if let Some((object, other)) = elsewhere {
        report.fail(
            "cluster",
            format!("Capstan is installed in the namespace {namespace}"),
            format!("the {object} belongs to Capstan in the namespace {other}"),
            format!("Repeat the command with --namespace {other}."),
        );
        return Ok(None);
    }
    let mut found = Vec::new();
    for (object, stored) in pairs {
        match stored {
            Some(existing) if installed::is_foreign(object, &existing) => report.fail(
                "objects",
                format!("{} exists", title(object)),
                "an object of another program has this name",
                "Rename or delete that object, and apply the manifests again.",
            ),
            Some(existing) => found.push(existing),
            None => report.fail(
                "objects",
                format!("{} exists", title(object)),
                "it does not exist",
                "Apply the manifests again (manifests/README.md).",
            ),
        }
    }
    if found.len() == objects.len() {
        report.ok(
            "objects",
            "all objects of the manifests exist",
            format!("{}", found.len()),
        );
    }
    Ok(Some(found))
}

/// What stays of another choice: webhooks of a feature that the server does not have any more, and
/// a process that may patch static webhooks.
async fn leftovers(args: &Args, client: &Client, report: &mut Report) -> anyhow::Result<()> {
    const SECTION: &str = "webhooks";
    let namespace = &args.choices.namespace;
    let deployment = |name| named("apps/v1", "Deployment", namespace, name);
    if let Some(server) = installed::get(client, &deployment("capstan-webhook")).await? {
        match ServerFlags::of(&server) {
            Ok(flags) => {
                for configuration in installed::of_other_features(client, &flags, namespace).await? {
                    report.fail(
                        SECTION,
                        format!("the server has the webhooks of {}", title(&configuration)),
                        "it runs without their feature, so each of their requests fails",
                        "Apply the manifests of all installed features, or delete this object.",
                    );
                }
            }
            Err(reason) => report.fail(
                SECTION,
                format!("the flags of {} are known", title(&server)),
                reason,
                "Apply the manifests again (manifests/README.md).",
            ),
        }
    }
    if args.choices.static_webhooks {
        let registration = deployment("capstan-registration");
        if installed::get(client, &registration).await?.is_some() {
            report.fail(
                SECTION,
                "no process patches static webhooks",
                format!("{} exists", title(&registration)),
                format!("kubectl -n {namespace} delete deployment capstan-registration"),
            );
        }
    }
    Ok(())
}

fn deployments(found: &[Value], report: &mut Report) {
    let number = |object: &Value, pointer| object.pointer(pointer).and_then(Value::as_i64).unwrap_or(0);
    for deployment in found.iter().filter(|object| text(object, "/kind") == "Deployment") {
        let check = format!("{} is ready", title(deployment));
        let image = text(deployment, "/spec/template/spec/containers/0/image");
        let wanted = number(deployment, "/spec/replicas");
        let ready = number(deployment, "/status/readyReplicas");
        let observed = number(deployment, "/status/observedGeneration") >= number(deployment, "/metadata/generation");
        let state = format!("{ready} of {wanted} replicas, {image}");
        let name = text(deployment, "/metadata/name");
        let remedy = format!(
            "kubectl -n {} describe deployment {name}",
            text(deployment, "/metadata/namespace")
        );
        if wanted > 0 && ready >= wanted && observed {
            report.ok("Deployments", check, state);
        } else if ready > 0 && observed {
            report.warn("Deployments", check, state, remedy);
        } else {
            report.fail("Deployments", check, state, remedy);
        }
    }
}

fn is_webhook_configuration(object: &Value) -> bool {
    text(object, "/kind").ends_with("WebhookConfiguration")
}

/// Each webhook configuration has the webhooks of its feature, and they are in force.
fn registered(args: &Args, objects: &[Value], found: &[Value], report: &mut Report) {
    const SECTION: &str = "webhooks";
    let mut number = 0;
    let mut is_complete = true;
    for wanted in objects.iter().filter(|object| is_webhook_configuration(object)) {
        let Some(stored) = found.iter().find(|stored| title(stored) == title(wanted)) else {
            continue;
        };
        let fields = |webhook: &Value| {
            let field = |pointer| text(webhook, pointer).to_owned();
            (field("/name"), field("/failurePolicy"))
        };
        let stored: Vec<_> = webhooks_of(stored).map(fields).collect();
        let wanted_webhooks: Vec<_> = webhooks_of(wanted).map(fields).collect();
        number += wanted_webhooks.len();
        let Some((name, policy)) = wanted_webhooks.iter().find(|webhook| !stored.contains(webhook)) else {
            continue;
        };
        is_complete = false;
        let state = match stored.iter().find(|(stored, _)| stored == name) {
            Some((_, other)) => format!("{name} has failurePolicy {other}, not {policy}"),
            None => format!("{name} is not registered"),
        };
        let remedy = if args.choices.static_webhooks {
            "Apply the manifests again (manifests/README.md).".to_owned()
        } else {
            let namespace = &args.choices.namespace;
            format!("kubectl -n {namespace} logs deployment/capstan-registration")
        };
        report.fail(
            SECTION,
            format!("the webhooks of {} are in force", title(wanted)),
            state,
            remedy,
        );
    }
    if is_complete && number > 0 {
        report.ok(
            SECTION,
            "the webhooks of all features are in force",
            format!("{number}"),
        );
    }
}

/// A set outside of the home namespace, which only the validating webhook refuses. The API server
/// calls the mutating webhook first. The dry run stores nothing.
fn probe(home: &str) -> Value {
    let namespace = if home == "default" { "kube-system" } else { "default" };
    json!({
        "apiVersion": "machine.openshift.io/v1",
        "kind": "ControlPlaneMachineSet",
        "metadata": {"name": "cluster", "namespace": namespace},
        "spec": {
            "selector": {},
            "template": {
                "machineType": "machines_v1beta1_machine_openshift_io",
                "machines_v1beta1_machine_openshift_io": {
                    "metadata": {"labels": {
                        "machine.openshift.io/cluster-api-cluster": "capstan-verify",
                        "machine.openshift.io/cluster-api-machine-role": "master",
                        "machine.openshift.io/cluster-api-machine-type": "master",
                    }},
                    "spec": {},
                },
            },
        },
    })
}

/// How the API server answered the [`probe`].
pub(super) enum Probe {
    /// The webhook server refused it.
    Refused,
    /// Nothing refused it, so the webhook server was not called.
    Allowed,
    /// Another refusal, or the request failed.
    Failed(String),
}

/// Whether the webhook server refuses the [`probe`], in a dry run.
pub(super) async fn refused(client: &Client, home: &str) -> Probe {
    let probe = probe(home);
    let dry_run = PostParams {
        dry_run: true,
        ..PostParams::default()
    };
    let object = match serde_json::from_value(probe.clone()) {
        Ok(object) => object,
        Err(error) => return Probe::Failed(error.to_string()),
    };
    match installed::api(client, &probe).create(&dry_run, &object).await {
        Ok(_) => Probe::Allowed,
        Err(error) => match reason(&error) {
            reason if reason.contains("cpms-namespace") => Probe::Refused,
            reason => Probe::Failed(reason),
        },
    }
}

/// The API server calls both webhooks of the feature `admission`, and trusts their certificate.
async fn webhooks(args: &Args, client: &Client, report: &mut Report) {
    const SECTION: &str = "webhooks";
    let check = "the API server calls the webhooks, in a dry run";
    match refused(client, &args.choices.namespace).await {
        Probe::Refused => report.ok(SECTION, check, "they refuse a set in another namespace"),
        Probe::Allowed => report.fail(
            SECTION,
            check,
            "a ControlPlaneMachineSet in another namespace was allowed",
            "Apply the webhook configurations again; a new one takes effect within seconds.",
        ),
        Probe::Failed(reason) if reason.contains("failed calling webhook") => {
            report.fail(SECTION, check, reason, "docs/troubleshooting.md explains the causes.");
        }
        Probe::Failed(reason) => report.fail(
            SECTION,
            check,
            format!("another refusal came first: {reason}"),
            "Resolve its cause, and repeat the command.",
        ),
    }
}

/// The API server evaluates the policies, and can type-check their expressions.
fn policies(found: &[Value], report: &mut Report) {
    let policies = found
        .iter()
        .filter(|object| text(object, "/kind") == "ValidatingAdmissionPolicy");
    for policy in policies {
        let warnings = policy.pointer("/status/typeChecking/expressionWarnings");
        let check = format!("the expressions of {} are valid", title(policy));
        match warnings.and_then(Value::as_array).and_then(|list| list.first()) {
            None => report.ok("policies", check, ""),
            Some(warning) => report.warn(
                "policies",
                check,
                text(warning, "/warning"),
                "Install the CRDs of the same version.",
            ),
        }
    }
}

/// A process of the controllers renews its Lease.
async fn lease(
    args: &Args,
    client: &Client,
    (name, deployment): (&str, &str),
    report: &mut Report,
) -> anyhow::Result<()> {
    const SECTION: &str = "controllers";
    let namespace = &args.choices.namespace;
    let lease = named("coordination.k8s.io/v1", "Lease", namespace, name);
    let check = format!("a process holds the {}", title(&lease));
    let remedy = format!("kubectl -n {namespace} logs deployment/{deployment}");
    let Some(found) = installed::get(client, &lease).await? else {
        report.fail(SECTION, check, "the Lease does not exist", remedy);
        return Ok(());
    };
    let holder = text(&found, "/spec/holderIdentity");
    let renewed: Option<Timestamp> = text(&found, "/spec/renewTime").parse().ok();
    let seconds = found.pointer("/spec/leaseDurationSeconds").and_then(Value::as_i64);
    let age = renewed.map(|time| Timestamp::now().duration_since(time).as_secs());
    match (age, seconds) {
        (Some(age), Some(seconds)) if age <= seconds && !holder.is_empty() => {
            report.ok(SECTION, check, format!("{holder}, renewed {age} s ago"));
        }
        _ => report.fail(SECTION, check, "no process renewed it in time", remedy),
    }
    Ok(())
}

/// Whether the manifests contain the Secret of the certificate.
fn is_self_managed(args: &Args) -> bool {
    args.choices.certificates == Certificates::SelfManaged
}

/// The name of the Secret with the certificate.
fn secret_name(args: &Args) -> &'static str {
    if is_self_managed(args) {
        "capstan-webhook-tls"
    } else {
        installed::TLS_SECRET
    }
}

/// The Secret of the certificate; none if the user may not read it.
async fn secret(args: &Args, client: &Client) -> anyhow::Result<Option<Value>> {
    let secret = named("v1", "Secret", &args.choices.namespace, secret_name(args));
    installed::get(client, &secret)
        .await
        .context("reading the certificate of the webhook server")
}
