//! `capstan install`: applies the manifests in an order in which no step endangers the cluster. The
//! webhooks are registered after the server is ready, and refuse nothing until the API server has
//! called it. An installation that stops at any step leaves a working cluster.
//!
//! It must never register a webhook that fails closed before the API server has called the server,
//! and never make a webhook fail open that is in force.

use std::process::ExitCode;
use std::time::Duration;

use anyhow::Context as _;
use capstan_core::admission::Feature;
use kube::Client;
use kube::api::{DeleteParams, ListParams, Patch, PatchParams};
use serde_json::{Value, json};
use tokio::time::Instant;

use super::cluster::Enforcement;
use super::installed::{self, Flags, named, reason, text, title};
use super::manifests::{Choices, Installation, What, features};
use super::observe::runtime;
use super::report::Report;
use super::{preflight, verify};

/// The pause between two reads of an object that the command waits for.
const PAUSE: Duration = Duration::from_millis(500);
const STEPS: &str = "installation";

/// Install Capstan, or upgrade it, so that a failure endangers nothing.
///
/// The command checks the cluster (`capstan preflight`), applies permissions and
/// Deployments, and waits until all replicas are ready. Then it applies the policies,
/// and registers the webhooks with `failurePolicy: Ignore`. After the API server has
/// called the server, the webhooks get `failurePolicy: Fail`. If a step fails, the
/// webhook configurations that the command created are deleted. The command does not
/// install CRDs: see `capstan manifests crds`.
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
    let report = runtime()?.block_on(install(args))?;
    report.print(args.flags.output)
}

async fn install(args: &Args) -> anyhow::Result<Report> {
    let client = args.flags.cluster.connect(args.flags.timeout).await?.client;
    let mut choices = args.choices.clone();
    let mut report = Report::default();
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
        report.append(preflight::check(&preflight).await?);
        if report.any_failed() {
            return Ok(report);
        }
    }
    let installation = Installation::new(&args.feature, &choices);
    let created = apply_all(args, &client, &installation, &mut report).await?;
    if report.any_failed() {
        for configuration in created {
            deregister(&client, &configuration, &mut report).await;
        }
    }
    Ok(report)
}

/// Deletes a webhook configuration that refuses nothing.
async fn deregister(client: &Client, configuration: &Value, report: &mut Report) {
    let (api, name) = (
        installed::api(client, configuration),
        text(configuration, "/metadata/name"),
    );
    let check = format!("{} is deleted again", title(configuration));
    match api.delete(name, &DeleteParams::default()).await {
        Ok(_) => report.ok(STEPS, check, ""),
        Err(error) => report.fail(STEPS, check, reason(&error), "Delete it: capstan uninstall"),
    }
}

/// The user that synchronizes mirrors in this cluster: OpenShift's sync controller if its
/// Deployment runs, otherwise Capstan's.
async fn sync_identity(client: &Client, choices: &Choices) -> anyhow::Result<String> {
    const ACCOUNT: &str = "capi-controllers";
    let cluster_api = &choices.authority.cluster_api_namespace;
    let deployments = installed::api(client, &named("apps/v1", "Deployment", cluster_api, ""));
    let list = deployments.list(&ListParams::default()).await;
    let list = list.with_context(|| format!("listing the Deployments of {cluster_api}"))?;
    let runs = list.items.iter().any(|deployment| {
        let field = |pointer| deployment.data.pointer(pointer);
        field("/spec/template/spec/serviceAccountName").and_then(Value::as_str) == Some(ACCOUNT)
            && field("/spec/replicas").and_then(Value::as_u64) != Some(0)
    });
    Ok(if runs {
        format!("system:serviceaccount:{cluster_api}:{ACCOUNT}")
    } else {
        format!("system:serviceaccount:{}:capstan-mirroring", choices.namespace)
    })
}

/// Executes the steps until one fails. Returns the webhook configurations that it created.
async fn apply_all(
    args: &Args,
    client: &Client,
    installation: &Installation,
    report: &mut Report,
) -> anyhow::Result<Vec<Value>> {
    let deadline = Instant::now() + args.wait;
    let deployments = installation.objects(What::Deployment)?;
    let groups = [
        ("the permissions are applied", installation.objects(What::Rbac)?),
        ("the Deployments are applied", deployments.clone()),
    ];
    for (step, objects) in groups {
        if !apply(client, step, &objects, report).await {
            return Ok(Vec::new());
        }
    }
    for deployment in deployments
        .iter()
        .filter(|object| text(object, "/kind") == "Deployment")
    {
        if !ready(client, deployment, deadline, report).await? {
            return Ok(Vec::new());
        }
    }
    if !apply(
        client,
        "the policies are applied",
        &installation.objects(What::Policies)?,
        report,
    )
    .await
    {
        return Ok(Vec::new());
    }
    let mut webhooks = installation.objects(What::Webhooks)?;
    if let Some(url) = &args.webhook_url {
        webhooks
            .iter_mut()
            .for_each(|configuration| address(configuration, url));
    }
    let mut created = Vec::new();
    let mut first = Vec::new();
    for configuration in &webhooks {
        let existing = installed::get(client, configuration).await?;
        if existing.is_none() {
            created.push(configuration.clone());
        }
        first.push(without_force(configuration, existing.as_ref()));
    }
    if apply(
        client,
        "the webhooks are registered, and refuse nothing yet",
        &first,
        report,
    )
    .await
        && called(args, client, &webhooks, deadline, report).await?
    {
        apply(client, "the webhooks are in force", &webhooks, report).await;
    }
    Ok(created)
}

/// Applies objects. It reports the step, or the object that the API server refuses.
async fn apply(client: &Client, step: &str, objects: &[Value], report: &mut Report) -> bool {
    let parameters = PatchParams {
        force: true,
        field_manager: Some("capstan-install".to_owned()),
        ..PatchParams::default()
    };
    for object in objects {
        let (api, name) = (installed::api(client, object), text(object, "/metadata/name"));
        if let Err(error) = api.patch(name, &parameters, &Patch::Apply(object)).await {
            let remedy = "Resolve the cause, and repeat the command.";
            report.fail(STEPS, format!("{} is applied", title(object)), reason(&error), remedy);
            return false;
        }
    }
    report.ok(STEPS, step, format!("{} objects", objects.len()));
    true
}

/// Waits until all replicas of a Deployment run the applied version and are ready.
async fn ready(client: &Client, deployment: &Value, deadline: Instant, report: &mut Report) -> anyhow::Result<bool> {
    let check = format!("all replicas of {} are ready", title(deployment));
    loop {
        let found = installed::get(client, deployment).await?.unwrap_or_default();
        let number = |pointer| found.pointer(pointer).and_then(Value::as_i64).unwrap_or(0);
        let wanted = number("/spec/replicas");
        let observed = number("/status/observedGeneration") >= number("/metadata/generation");
        let counts = ["/status/replicas", "/status/updatedReplicas", "/status/readyReplicas"].map(number);
        if observed && wanted > 0 && counts == [wanted; 3] {
            report.ok(STEPS, check, format!("{wanted}"));
            return Ok(true);
        }
        if Instant::now() >= deadline {
            let [all, updated, ready] = counts;
            let state = format!("{wanted} wanted, {all} exist, {updated} updated, {ready} ready");
            let (namespace, name) = (
                text(deployment, "/metadata/namespace"),
                text(deployment, "/metadata/name"),
            );
            report.fail(
                STEPS,
                check,
                state,
                format!("kubectl -n {namespace} describe deployment {name}"),
            );
            return Ok(false);
        }
        tokio::time::sleep(PAUSE).await;
    }
}

/// A webhook configuration whose webhooks refuse nothing, except those that are in force already.
fn without_force(configuration: &Value, existing: Option<&Value>) -> Value {
    let mut configuration = configuration.clone();
    let in_force: Vec<&str> = webhooks(existing.unwrap_or(&Value::Null))
        .filter(|webhook| text(webhook, "/failurePolicy") == "Fail")
        .map(|webhook| text(webhook, "/name"))
        .collect();
    let webhooks = configuration.get_mut("webhooks").and_then(Value::as_array_mut);
    for webhook in webhooks.into_iter().flatten() {
        if !in_force.contains(&text(webhook, "/name"))
            && let Some(policy) = webhook.pointer_mut("/failurePolicy")
        {
            *policy = json!("Ignore");
        }
    }
    configuration
}

fn webhooks(configuration: &Value) -> impl Iterator<Item = &Value> {
    let webhooks = configuration.get("webhooks").and_then(Value::as_array);
    webhooks.into_iter().flatten()
}

/// Replaces the Service of each webhook by a URL.
fn address(configuration: &mut Value, url: &str) {
    let webhooks = configuration.get_mut("webhooks").and_then(Value::as_array_mut);
    for client in webhooks
        .into_iter()
        .flatten()
        .filter_map(|webhook| webhook.get_mut("clientConfig"))
    {
        let path = text(client, "/service/path").to_owned();
        *client = json!({"url": format!("{}{path}", url.trim_end_matches('/'))});
    }
}

/// Waits until each webhook has a `caBundle`, and until the API server has called the server.
async fn called(
    args: &Args,
    client: &Client,
    configurations: &[Value],
    deadline: Instant,
    report: &mut Report,
) -> anyhow::Result<bool> {
    let check = "the API server calls the webhooks";
    let mut last;
    loop {
        last = String::new();
        for configuration in configurations {
            let found = installed::get(client, configuration).await?.unwrap_or_default();
            let is_empty = |webhook: &&Value| text(webhook, "/clientConfig/caBundle").is_empty();
            if let Some(webhook) = webhooks(&found).find(is_empty) {
                last = format!("{} of {} has no caBundle", text(webhook, "/name"), title(configuration));
            }
        }
        // A trial refuses nothing, so the probe cannot tell whether the server was called.
        let is_probed = args.feature.contains(&Feature::Admission) && args.choices.enforcement == Enforcement::Deny;
        if last.is_empty() && is_probed {
            last = match verify::refused(client, &args.choices.namespace).await {
                verify::Probe::Refused => String::new(),
                verify::Probe::Allowed => "a ControlPlaneMachineSet in another namespace was allowed".to_owned(),
                verify::Probe::Failed(reason) => reason,
            };
        }
        if last.is_empty() {
            report.ok(STEPS, check, "");
            return Ok(true);
        }
        if Instant::now() >= deadline {
            report.fail(STEPS, check, last, "docs/troubleshooting.md explains the causes.");
            return Ok(false);
        }
        tokio::time::sleep(PAUSE).await;
    }
}

#[cfg(test)]
mod tests {
    use super::{address, without_force};
    use serde_json::json;

    #[test]
    fn only_a_new_webhook_is_registered_without_force() {
        let wanted =
            json!({"webhooks": [{"name": "a", "failurePolicy": "Fail"}, {"name": "b", "failurePolicy": "Fail"}]});
        let existing =
            json!({"webhooks": [{"name": "a", "failurePolicy": "Fail"}, {"name": "c", "failurePolicy": "Fail"}]});
        let first = without_force(&wanted, Some(&existing));
        assert_eq!(first["webhooks"][0]["failurePolicy"], "Fail");
        assert_eq!(first["webhooks"][1]["failurePolicy"], "Ignore");
        assert_eq!(without_force(&wanted, None)["webhooks"][0]["failurePolicy"], "Ignore");
    }

    #[test]
    fn a_url_replaces_the_service_and_keeps_the_path() {
        let mut configuration = json!({"webhooks": [{"clientConfig": {"service": {"name": "a", "path": "/p"}}}]});
        address(&mut configuration, "https://127.0.0.1:1/");
        assert_eq!(
            configuration["webhooks"][0]["clientConfig"],
            json!({"url": "https://127.0.0.1:1/p"})
        );
    }
}
