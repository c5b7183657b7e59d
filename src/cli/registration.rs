//! The registration of the webhooks and the policies, for `capstan install` and `capstan register`.
//! The webhooks are registered after the server is ready, and refuse nothing until the API server
//! has called it. The manifests may contain the policies, and webhook configurations without
//! webhooks.
//!
//! It must never register a webhook that fails closed before the API server has called the server,
//! and never make a webhook fail open that is in force.

use std::time::Duration;

use capstan_core::admission::Feature;
use kube::Client;
use kube::api::{DeleteParams, Patch, PatchParams};
use serde_json::{Value, json};
use tokio::time::Instant;

use super::cluster::Enforcement;
use super::installed::{self, reason, text, title, webhooks_of};
use super::manifests::{Choices, Installation, What};
use super::report::Report;
use super::server_flags::ServerFlags;
use super::verify;

/// The pause between two reads of an object that the command waits for.
const PAUSE: Duration = Duration::from_millis(500);
pub(super) const STEPS: &str = "installation";

/// What is registered.
pub(super) struct Registration {
    pub(super) features: Vec<Feature>,
    pub(super) choices: Choices,
    /// The URL in place of the Service: for tests, in which no pod runs.
    pub(super) url: Option<String>,
    /// The owner of all objects, as an owner reference. They are deleted when it is deleted.
    pub(super) owner: Option<Value>,
    /// Whether the policies and the webhook configurations are created. Otherwise the manifests
    /// contain them.
    pub(super) creates: bool,
}

/// A webhook configuration without webhooks in force, and what it was before.
enum Before {
    /// It did not exist.
    Absent,
    /// It had no webhooks.
    Empty,
}

impl Registration {
    fn objects(&self, what: What) -> anyhow::Result<Vec<Value>> {
        let mut objects = Installation::new(&self.features, &self.choices).objects(what)?;
        let Some(owner) = &self.owner else {
            return Ok(objects);
        };
        for metadata in objects
            .iter_mut()
            .filter_map(|object| object.get_mut("metadata")?.as_object_mut())
        {
            metadata.insert("ownerReferences".to_owned(), json!([owner]));
        }
        Ok(objects)
    }

    /// Registers the policies and the webhooks. If a step fails, it deletes the webhook
    /// configurations that it created, and empties those that had no webhooks.
    ///
    /// # Errors
    /// The cluster cannot be reached.
    pub(super) async fn register(&self, client: &Client, deadline: Instant, report: &mut Report) -> anyhow::Result<()> {
        let added = self.register_all(client, deadline, report).await?;
        if report.any_failed() {
            for (configuration, before) in added {
                deregister(client, &configuration, &before, report).await;
            }
        }
        Ok(())
    }

    /// Executes the steps until one fails. Returns the webhook configurations that had no webhooks
    /// before.
    async fn register_all(
        &self,
        client: &Client,
        deadline: Instant,
        report: &mut Report,
    ) -> anyhow::Result<Vec<(Value, Before)>> {
        if self.creates {
            let policies = self.objects(What::Policies)?;
            if !apply(client, "the policies are applied", &policies, report).await {
                return Ok(Vec::new());
            }
        }
        let mut webhooks = self.objects(What::Webhooks)?;
        if webhooks.is_empty() {
            // These features have controllers only.
            return Ok(Vec::new());
        }
        if let Some(url) = &self.url {
            webhooks
                .iter_mut()
                .for_each(|configuration| address(configuration, url));
        }
        let mut added = Vec::new();
        let mut first = Vec::new();
        let mut foreign = Vec::new();
        for configuration in &webhooks {
            let existing = installed::get(client, configuration).await?;
            let found = existing.as_ref();
            if found.is_some_and(|found| installed::is_foreign(configuration, found)) {
                let check = format!(
                    "no other program has an object with the name of {}",
                    title(configuration)
                );
                let remedy = "Rename or delete that object. If it is Capstan's, add the label.";
                report.warn(
                    STEPS,
                    check,
                    "it exists, without the label app.kubernetes.io/name=capstan",
                    remedy,
                );
                foreign.push(title(configuration));
                continue;
            }
            let elsewhere = found.and_then(|found| installed::elsewhere(found, &self.choices.namespace));
            if let Some(other) = elsewhere {
                // Its server answers. That of this installation may not be reachable.
                let check = format!("{} belongs to no other installation", title(configuration));
                let state = format!("it belongs to Capstan in the namespace {other}");
                report.fail(
                    STEPS,
                    check,
                    state,
                    format!("capstan uninstall --namespace {other}, or remove this one"),
                );
                return Ok(Vec::new());
            }
            match &existing {
                None if self.creates => added.push((configuration.clone(), Before::Absent)),
                None => {
                    let check = format!("{} exists", title(configuration));
                    let remedy = "Apply the manifests again (manifests/README.md).";
                    report.fail(STEPS, check, "it does not", remedy);
                    return Ok(Vec::new());
                }
                Some(found) if webhooks_of(found).next().is_none() => {
                    added.push((configuration.clone(), Before::Empty));
                }
                Some(_) => {}
            }
            first.push(without_force(configuration, existing.as_ref()));
        }
        let step = "the webhooks are registered, and refuse nothing yet";
        webhooks.retain(|configuration| !foreign.contains(&title(configuration)));
        if apply(client, step, &first, report).await && self.called(client, &webhooks, deadline, report).await? {
            apply(client, "the webhooks are in force", &webhooks, report).await;
        }
        Ok(added)
    }

    /// Waits until each webhook has a `caBundle`, and until the API server has called the server.
    async fn called(
        &self,
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
                if let Some(webhook) = webhooks_of(&found).find(is_empty) {
                    last = format!("{} of {} has no caBundle", text(webhook, "/name"), title(configuration));
                }
            }
            // A trial refuses nothing, so the probe cannot tell whether the server was called.
            let is_probed =
                self.features.contains(&Feature::Admission) && self.choices.enforcement == Enforcement::Deny;
            if last.is_empty() && is_probed {
                last = match verify::refused(client, &self.choices.namespace).await {
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
}

/// Removes the webhooks of features that the server does not have any more.
pub(super) async fn remove_others(
    client: &Client,
    flags: &ServerFlags<'_>,
    namespace: &str,
    report: &mut Report,
) -> anyhow::Result<()> {
    for configuration in installed::of_other_features(client, flags, namespace).await? {
        deregister(client, &configuration, &Before::Empty, report).await;
    }
    Ok(())
}

/// Removes the webhooks from a configuration that had none before, or deletes it if it did not
/// exist. Its webhooks refuse nothing yet.
async fn deregister(client: &Client, configuration: &Value, before: &Before, report: &mut Report) {
    let (api, name) = (
        installed::api(client, configuration),
        text(configuration, "/metadata/name"),
    );
    let (check, result) = match before {
        Before::Absent => {
            let deleted = api.delete(name, &DeleteParams::default()).await;
            ("is deleted again", deleted.map(|_| ()))
        }
        Before::Empty => {
            let empty = Patch::Merge(json!({"webhooks": null}));
            let emptied = api.patch(name, &PatchParams::default(), &empty).await;
            ("has no webhooks", emptied.map(|_| ()))
        }
    };
    let check = format!("{} {check}", title(configuration));
    match result {
        Ok(()) => report.ok(STEPS, check, ""),
        Err(error) => report.fail(STEPS, check, reason(&error), "Delete it: capstan uninstall"),
    }
}

/// Applies objects. It reports the step, or the object that the API server refuses.
pub(super) async fn apply(client: &Client, step: &str, objects: &[Value], report: &mut Report) -> bool {
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
pub(super) async fn ready(
    client: &Client,
    deployment: &Value,
    deadline: Instant,
    report: &mut Report,
) -> anyhow::Result<bool> {
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
    let in_force: Vec<&str> = webhooks_of(existing.unwrap_or(&Value::Null))
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
