//! Self-managed certificates: the CA and the serving certificate are in a Secret, and the CA is in
//! the `caBundle` of the webhook configurations and of conversion webhooks.
//!
//! [`rotation::next`] decides each step; this module reads the objects and executes the step.
//! Several replicas may run at once: a write fails if its object has changed since it was read, and
//! the replica then reads all objects again.

use std::collections::BTreeSet;
use std::pin::Pin;
use std::time::Duration;

use futures::{Stream, StreamExt};
use k8s_openapi::ByteString;
use k8s_openapi::api::core::v1::Secret;
use kube::api::{ApiResource, DynamicObject, GroupVersionKind, Patch, PatchParams, PostParams};
use kube::runtime::{WatchStreamExt, watcher};
use kube::{Api, Client, ResourceExt};

use super::issue::Names;
use super::rotation::{self, Bundle, Held, Profile, Step};
use super::{Certificates, inspect};
use contested::Contested;
pub use contested::injector;
use stored::Stored;

mod contested;
mod stored;

/// How long to wait for an event before all objects are read again. Certificates age without
/// events.
const RESYNC: Duration = Duration::from_secs(60);
/// The pause between two steps. Steps are rare, and a defect must not overload the API server.
const STEP_PAUSE: Duration = Duration::from_millis(100);
/// The pause after a conflict with another replica. After an error, the pause is ten times as long.
const PAUSE: Duration = Duration::from_millis(500);

/// The objects and the names to manage.
#[derive(Clone, Debug)]
pub struct Settings {
    /// The namespace of the Secret.
    pub namespace: String,
    /// The name of the Secret. It is created if it does not exist and the permissions allow it.
    pub secret: String,
    /// The names of webhook configurations, validating or mutating. Those that do not exist are
    /// ignored until they do.
    pub configurations: Vec<String>,
    /// The names of CustomResourceDefinitions with a conversion webhook, as above.
    pub definitions: Vec<String>,
    /// The names that the serving certificate must contain.
    pub names: Names,
    /// The durations of the rotation.
    pub profile: Profile,
}

/// Why a step failed.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// A request to the API server failed.
    #[error("{doing}: {source}")]
    Api {
        /// The operation that failed.
        doing: &'static str,
        /// The response or the connection error.
        source: Box<kube::Error>,
    },
    /// The Secret holds data of another program. To start again, remove its data: the CAs in the
    /// bundles stay trusted.
    #[error("the Secret must hold capstan's rotation state: {0}; remove its data to issue new certificates")]
    Secret(String),
    /// A certificate could not be issued.
    #[error("issuing a certificate: {0}")]
    Issue(#[from] super::issue::Error),
    /// A certificate that was just issued, or that the Secret holds, cannot be served.
    #[error("serving the certificate of the Secret: {0}")]
    Serve(#[from] super::Invalid),
}

impl Error {
    fn api(doing: &'static str) -> impl FnOnce(kube::Error) -> Self {
        move |source| Self::Api {
            doing,
            source: Box::new(source),
        }
    }
}

/// The result of one pass.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// The step was executed, or there was none.
    Done(Step),
    /// Another replica changed an object first; read all objects again.
    Conflict,
}

/// A webhook configuration as it was read, or a CustomResourceDefinition with a conversion webhook.
struct Configuration {
    kind: ApiResource,
    object: DynamicObject,
    /// The `caBundle` of each webhook, as PEM, with its path.
    bundles: Vec<(String, Vec<u8>)>,
}

/// Keeps the Secret, the bundles and the serving certificate consistent.
pub struct SelfManaged {
    client: Client,
    settings: Settings,
    certificates: Certificates,
    /// The serving certificate, PEM, and the end of its validity in seconds since 1970.
    served: Option<(String, i64)>,
    /// The objects whose bundles another program writes too.
    contested: Contested,
}

impl Configuration {
    /// The kind and the name.
    fn title(&self) -> String {
        format!("{} {}", self.kind.kind, self.object.name_any())
    }
}

impl Settings {
    /// The kinds and names of the objects with a `caBundle`.
    fn targets(&self) -> Vec<(ApiResource, &str)> {
        let kind = |group, kind| ApiResource::from_gvk(&GroupVersionKind::gvk(group, "v1", kind));
        let configurations = ["ValidatingWebhookConfiguration", "MutatingWebhookConfiguration"]
            .map(|name| (kind("admissionregistration.k8s.io", name), &self.configurations));
        let definition = kind("apiextensions.k8s.io", "CustomResourceDefinition");
        let all = configurations.into_iter().chain([(definition, &self.definitions)]);
        all.flat_map(|(kind, names)| names.iter().map(move |name| (kind.clone(), name.as_str())))
            .collect()
    }
}

/// A stale replace or a second create fails with 409, a JSON patch with a failed test with 422.
fn is_conflict(error: &kube::Error) -> bool {
    matches!(error, kube::Error::Api(status) if status.code == 409 || status.code == 422)
}

impl SelfManaged {
    /// A manager that has read nothing yet.
    #[must_use]
    pub fn new(client: Client, settings: Settings, certificates: Certificates) -> Self {
        Self {
            client,
            settings,
            certificates,
            served: None,
            contested: Contested::default(),
        }
    }

    fn secrets(&self) -> Api<Secret> {
        Api::namespaced(self.client.clone(), &self.settings.namespace)
    }

    async fn configurations(&self) -> Result<Vec<Configuration>, Error> {
        let mut found = Vec::new();
        for (kind, name) in self.settings.targets() {
            let api: Api<DynamicObject> = Api::all_with(self.client.clone(), &kind);
            let object = api
                .get_opt(name)
                .await
                .map_err(Error::api("reading a webhook configuration"))?;
            if let Some(object) = object {
                let bundles = bundles(&object);
                found.push(Configuration { kind, object, bundles });
            }
        }
        Ok(found)
    }

    /// Reads all objects, serves the certificate of the Secret if it is new, and executes one step.
    /// `now` is in seconds since 1970.
    ///
    /// # Errors
    ///
    /// The step failed. The next pass observes any part of it that was stored.
    pub async fn pass(&mut self, now: i64) -> Result<Outcome, Error> {
        // The configurations are read first. A CA of Capstan in a bundle is then also in the
        // Secret that is read afterwards.
        let mut configurations = self.configurations().await?;
        configurations.retain(|one| {
            !self
                .contested
                .is_left_alone(&one.title(), one.object.annotations(), now)
        });
        let secret = self
            .secrets()
            .get_opt(&self.settings.secret)
            .await
            .map_err(Error::api("reading the Secret"))?;
        let mut stored = match &secret {
            Some(secret) => Stored::read(secret).map_err(Error::Secret)?,
            None => Stored::default(),
        };
        let held = stored.held(&self.settings.names).map_err(Error::Secret)?;
        self.serve(&stored, &held, now)?;

        let observed: Vec<Bundle> = configurations
            .iter()
            .flat_map(|one| &one.bundles)
            .map(|(_, pem)| observe(pem, now))
            .collect();
        let step = rotation::next(now, &self.settings.profile, &held, &observed, self.serves(now));
        let done = match &step {
            Step::Nothing => Ok(()),
            Step::Publish => self.publish(&stored, &configurations, now).await,
            change => {
                let trusted = configurations
                    .iter()
                    .flat_map(|one| one.bundles.iter().map(|(_, pem)| pem.as_slice()));
                stored.change(change, trusted, now, &self.settings)?;
                self.store(secret, &stored).await
            }
        };
        match done {
            Ok(()) => {
                if step != Step::Nothing {
                    tracing::info!(?step, "certificate rotation: step executed");
                    let held = stored.held(&self.settings.names).map_err(Error::Secret)?;
                    self.serve(&stored, &held, now)?;
                }
                Ok(Outcome::Done(step))
            }
            Err(Error::Api { source, .. }) if is_conflict(&source) => Ok(Outcome::Conflict),
            Err(error) => Err(error),
        }
    }

    /// Whether this replica serves a certificate that is still valid.
    fn serves(&self, now: i64) -> bool {
        self.served.as_ref().is_some_and(|(_, not_after)| *not_after > now)
    }

    /// Serves the certificate of the Secret if it is new and may be served. If the Secret holds
    /// none, the current certificate stays.
    fn serve(&mut self, stored: &Stored, held: &Held, now: i64) -> Result<(), Error> {
        let (Some(leaf), Some(facts)) = (stored.leaf(), &held.leaf) else {
            return Ok(());
        };
        let is_served = self
            .served
            .as_ref()
            .is_some_and(|(served, _)| *served == leaf.certificate);
        let is_due = held.may_be_served(now, &self.settings.profile, self.serves(now));
        if !is_served && facts.not_after > now && is_due {
            self.certificates
                .serve(leaf.certificate.as_bytes(), leaf.key.as_bytes(), now)?;
            self.served = Some((leaf.certificate.clone(), facts.not_after));
        }
        Ok(())
    }

    async fn store(&self, secret: Option<Secret>, stored: &Stored) -> Result<(), Error> {
        let api = self.secrets();
        match secret {
            Some(mut secret) => {
                stored.write(&mut secret).map_err(Error::Secret)?;
                let name = secret.name_any();
                // The object has the resourceVersion that was read, so the API server refuses the
                // write if the Secret has changed.
                api.replace(&name, &PostParams::default(), &secret)
                    .await
                    .map_err(Error::api("writing the Secret"))?;
            }
            None => {
                let mut secret = Secret::default();
                secret.metadata.name = Some(self.settings.secret.clone());
                secret.metadata.namespace = Some(self.settings.namespace.clone());
                stored.write(&mut secret).map_err(Error::Secret)?;
                api.create(&PostParams::default(), &secret).await.map_err(Error::api(
                    "creating the Secret; apply the manifests again, because only they may create it",
                ))?;
            }
        }
        Ok(())
    }

    async fn publish(&mut self, stored: &Stored, configurations: &[Configuration], now: i64) -> Result<(), Error> {
        let pem = stored.bundle();
        let wanted = observe(pem.as_bytes(), now);
        // A ByteString is serialized as a base64 string.
        let value = serde_json::json!(ByteString(pem.into_bytes()));
        for one in configurations {
            let test = serde_json::json!({
                "op": "test", "path": "/metadata/resourceVersion", "value": one.object.metadata.resource_version,
            });
            let changes = one
                .bundles
                .iter()
                .filter(|(_, bundle)| observe(bundle, now) != wanted)
                .map(|(path, _)| serde_json::json!({ "op": "add", "path": path, "value": value }));
            let operations: Vec<_> = std::iter::once(test).chain(changes).collect();
            if operations.len() == 1 {
                continue;
            }
            let patch: json_patch::Patch = serde_json::from_value(serde_json::Value::Array(operations))
                .map_err(|error| Error::Secret(error.to_string()))?;
            let api: Api<DynamicObject> = Api::all_with(self.client.clone(), &one.kind);
            api.patch(
                &one.object.name_any(),
                &PatchParams::default(),
                &Patch::<()>::Json(patch),
            )
            .await
            .map_err(Error::api("writing a caBundle"))?;
            self.contested.wrote(&one.title(), one.object.annotations(), now);
        }
        Ok(())
    }

    /// Yields when the Secret or a configuration changes. An event only starts a pass, which reads
    /// the objects again.
    fn events(&self) -> impl Stream<Item = ()> + Send + use<> {
        let named = |name: &str| watcher::Config::default().fields(&format!("metadata.name={name}"));
        let secret = watcher(self.secrets(), named(&self.settings.secret))
            .default_backoff()
            .map(|_| ());
        let mut streams: Vec<Pin<Box<dyn Stream<Item = ()> + Send>>> = vec![Box::pin(secret)];
        for (kind, name) in self.settings.targets() {
            let api: Api<DynamicObject> = Api::all_with(self.client.clone(), &kind);
            let events = kube::runtime::watcher(api, named(name)).default_backoff().map(|_| ());
            streams.push(Box::pin(events));
        }
        futures::stream::select_all(streams)
    }

    /// Keeps the certificates consistent, without end.
    pub async fn run(mut self) {
        let mut events = Box::pin(self.events());
        loop {
            let now = jiff::Timestamp::now().as_second();
            match self.pass(now).await {
                Ok(Outcome::Done(Step::Nothing)) => {
                    let _event_or_resync = tokio::time::timeout(RESYNC, events.next()).await;
                }
                Ok(Outcome::Done(_)) => tokio::time::sleep(STEP_PAUSE).await,
                Ok(Outcome::Conflict) => tokio::time::sleep(PAUSE).await,
                Err(error) => {
                    self.certificates.count_failure();
                    tracing::error!(%error, "certificate rotation: step failed; retrying");
                    tokio::time::sleep(PAUSE * 10).await;
                }
            }
        }
    }
}

/// The path of the `caBundle` of every webhook of Capstan in an object, and its content, which is
/// empty if it is missing or not base64. A webhook of another program has a CA of its own.
fn bundles(object: &DynamicObject) -> Vec<(String, Vec<u8>)> {
    let webhooks = object.data.get("webhooks").and_then(serde_json::Value::as_array);
    let is_own = |webhook: &serde_json::Value| {
        let name = webhook.get("name").and_then(serde_json::Value::as_str);
        name.is_some_and(|name| name.ends_with(".capstan.dev"))
    };
    let webhooks = webhooks.into_iter().flatten().enumerate();
    let admission = webhooks
        .filter(|(_, webhook)| is_own(webhook))
        .map(|(index, _)| format!("/webhooks/{index}/clientConfig"));
    let conversion = "/spec/conversion/webhook/clientConfig";
    let conversion = object.data.pointer(conversion).map(|_| conversion.to_owned());
    admission
        .chain(conversion)
        .map(|client| {
            let path = format!("{client}/caBundle");
            let text = object.data.pointer(&path).cloned().unwrap_or_default();
            let bundle = serde_json::from_value::<ByteString>(text).map(|bytes| bytes.0);
            (path, bundle.unwrap_or_default())
        })
        .collect()
}

/// The contents of a bundle at `now` (seconds since 1970).
fn observe(pem: &[u8], now: i64) -> Bundle {
    match inspect::certificates(pem) {
        Ok(all) => {
            let valid: BTreeSet<_> = all
                .iter()
                .filter(|one| one.authority && one.not_after > now)
                .map(|one| one.fingerprint.clone())
                .collect();
            // Text without any certificate, such as a placeholder, is other content too.
            let has_other_content = valid.len() != all.len() || (all.is_empty() && !pem.is_empty());
            Bundle {
                trusted: valid,
                has_other_content,
            }
        }
        Err(_) => Bundle {
            trusted: BTreeSet::new(),
            has_other_content: true,
        },
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn v182_only_the_webhooks_of_capstan_get_its_ca() {
        let object: DynamicObject = serde_json::from_value(serde_json::json!({
            "apiVersion": "admissionregistration.k8s.io/v1", "kind": "ValidatingWebhookConfiguration",
            "metadata": {"name": "capstan"}, "webhooks": [
                {"name": "x.example.com", "clientConfig": {"url": "https://127.0.0.1"}},
                {"name": "validate.machinepool.capstan.dev", "clientConfig": {"caBundle": "YQ=="}}]}))
        .unwrap();
        assert_eq!(
            bundles(&object),
            [("/webhooks/1/clientConfig/caBundle".to_owned(), b"a".to_vec())]
        );
    }
}
