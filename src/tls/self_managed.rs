//! Certificates without anybody else: authority and leaf in a Secret, the trust in the webhook configurations.
//!
//! [`rotation::next`] says what to do; this carries it out, one step a reading. Any number of replicas may do so at once:
//! every write fails when what it changes was changed meanwhile, and then everything is read again.

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
use super::rotation::{self, Bundle, Profile, Step};
use super::{Certificates, inspect};
use stored::Stored;

mod stored;

/// Everything is looked at again after this long without an event: authorities and leaves age silently.
const TICK: Duration = Duration::from_secs(60);
/// Between two steps: they are few and rare, and a defect must not hammer the API server.
const STEP: Duration = Duration::from_millis(100);
/// Between a step that failed or met another replica, and the next reading.
const PAUSE: Duration = Duration::from_millis(500);

/// What is managed, for whom.
#[derive(Clone, Debug)]
pub struct Settings {
    /// Namespace of the Secret.
    pub namespace: String,
    /// Name of the Secret. It is created when it is missing.
    pub secret: String,
    /// Names of webhook configurations, of either kind. One that does not exist is passed over until it does.
    pub configurations: Vec<String>,
    /// The names that the leaf must have.
    pub names: Names,
    /// The times of rotation.
    pub profile: Profile,
}

/// The step could not be done.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The API server, while doing something.
    #[error("{doing}: {source}")]
    Api {
        /// What was being done.
        doing: &'static str,
        /// What came back.
        source: Box<kube::Error>,
    },
    /// What the Secret holds is not ours. To start anew, delete it: what the bundles trust is kept.
    #[error("the Secret cannot be read: {0}")]
    Secret(String),
    /// A certificate could not be issued.
    #[error("issuing: {0}")]
    Issue(#[from] super::issue::Error),
    /// A certificate just issued, or found in the Secret, cannot be served.
    #[error("serving: {0}")]
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

/// How a reading ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// The step was taken, or there was none.
    Done(Step),
    /// Another replica was faster; read again.
    Overtaken,
}

/// A configuration as it was read.
struct Configuration {
    kind: ApiResource,
    object: DynamicObject,
    /// The certificates of each webhook, in its order: PEM.
    bundles: Vec<Vec<u8>>,
}

/// Keeps Secret, bundles and the served certificate in step.
pub struct SelfManaged {
    client: Client,
    settings: Settings,
    certificates: Certificates,
    /// The leaf that is served.
    served: Option<String>,
}

fn kinds() -> [ApiResource; 2] {
    ["ValidatingWebhookConfiguration", "MutatingWebhookConfiguration"]
        .map(|kind| ApiResource::from_gvk(&GroupVersionKind::gvk("admissionregistration.k8s.io", "v1", kind)))
}

/// 409 is the answer to a stale replace or to a second create; 422 to a JSON patch whose test failed.
fn is_conflict(error: &kube::Error) -> bool {
    matches!(error, kube::Error::Api(status) if status.code == 409 || status.code == 422)
}

impl SelfManaged {
    /// Nothing is read yet.
    #[must_use]
    pub fn new(client: Client, settings: Settings, certificates: Certificates) -> Self {
        Self {
            client,
            settings,
            certificates,
            served: None,
        }
    }

    fn secrets(&self) -> Api<Secret> {
        Api::namespaced(self.client.clone(), &self.settings.namespace)
    }

    async fn configurations(&self) -> Result<Vec<Configuration>, Error> {
        let mut found = Vec::new();
        for kind in kinds() {
            let api: Api<DynamicObject> = Api::all_with(self.client.clone(), &kind);
            for name in &self.settings.configurations {
                let object = api
                    .get_opt(name)
                    .await
                    .map_err(Error::api("reading a webhook configuration"))?;
                if let Some(object) = object {
                    let bundles = bundles(&object);
                    found.push(Configuration {
                        kind: kind.clone(),
                        object,
                        bundles,
                    });
                }
            }
        }
        Ok(found)
    }

    /// Reads everything, serves the leaf if it is new, and takes one step. `now` is in seconds since 1970.
    ///
    /// # Errors
    ///
    /// The step could not be taken. Nothing is half-done that the next reading would not see.
    pub async fn pass(&mut self, now: i64) -> Result<Outcome, Error> {
        // In this order: an authority that stands in a bundle is then in the Secret as well, or was never there.
        let configurations = self.configurations().await?;
        let secret = self
            .secrets()
            .get_opt(&self.settings.secret)
            .await
            .map_err(Error::api("reading the Secret"))?;
        let mut stored = match &secret {
            Some(secret) => Stored::read(secret).map_err(Error::Secret)?,
            None => Stored::default(),
        };
        self.serve(&stored, now)?;

        let observed: Vec<Bundle> = configurations
            .iter()
            .flat_map(|one| &one.bundles)
            .map(|pem| observe(pem, now))
            .collect();
        let held = stored.held(&self.settings.names).map_err(Error::Secret)?;
        let step = rotation::next(now, &self.settings.profile, &held, &observed);
        let done = match &step {
            Step::Nothing => Ok(()),
            Step::Publish => self.publish(&stored, &configurations, now).await,
            change => {
                let trusted = configurations
                    .iter()
                    .flat_map(|one| one.bundles.iter().map(Vec::as_slice));
                stored.change(change, trusted, now, &self.settings)?;
                self.store(secret, &stored).await
            }
        };
        match done {
            Ok(()) => {
                if step != Step::Nothing {
                    tracing::info!(?step, "certificates: step taken");
                    self.serve(&stored, now)?;
                }
                Ok(Outcome::Done(step))
            }
            Err(Error::Api { source, .. }) if is_conflict(&source) => Ok(Outcome::Overtaken),
            Err(error) => Err(error),
        }
    }

    /// A Secret without a leaf changes nothing: what was served is served on.
    fn serve(&mut self, stored: &Stored, now: i64) -> Result<(), Error> {
        let Some(leaf) = stored.leaf() else { return Ok(()) };
        if self.served.as_ref() != Some(&leaf.certificate) && stored.leaf_holds(now) {
            self.certificates
                .serve(leaf.certificate.as_bytes(), leaf.key.as_bytes(), now)?;
            self.served = Some(leaf.certificate.clone());
        }
        Ok(())
    }

    async fn store(&self, secret: Option<Secret>, stored: &Stored) -> Result<(), Error> {
        let api = self.secrets();
        match secret {
            Some(mut secret) => {
                stored.write(&mut secret).map_err(Error::Secret)?;
                let name = secret.name_any();
                // With the resourceVersion that was read, so it fails when somebody else wrote.
                api.replace(&name, &PostParams::default(), &secret)
                    .await
                    .map_err(Error::api("writing the Secret"))?;
            }
            None => {
                let mut secret = Secret::default();
                secret.metadata.name = Some(self.settings.secret.clone());
                secret.metadata.namespace = Some(self.settings.namespace.clone());
                stored.write(&mut secret).map_err(Error::Secret)?;
                api.create(&PostParams::default(), &secret)
                    .await
                    .map_err(Error::api("creating the Secret"))?;
            }
        }
        Ok(())
    }

    async fn publish(&self, stored: &Stored, configurations: &[Configuration], now: i64) -> Result<(), Error> {
        let pem = stored.bundle();
        let wanted = observe(pem.as_bytes(), now);
        // A ByteString becomes a base64 string and nothing else.
        let value = serde_json::json!(ByteString(pem.into_bytes()));
        for one in configurations {
            let test = serde_json::json!({
                "op": "test", "path": "/metadata/resourceVersion", "value": one.object.metadata.resource_version,
            });
            let changes = one
                .bundles
                .iter()
                .enumerate()
                .filter(|(_, bundle)| observe(bundle, now) != wanted)
                .map(|(index, _)| {
                    let path = format!("/webhooks/{index}/clientConfig/caBundle");
                    serde_json::json!({ "op": "add", "path": path, "value": value })
                });
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
        }
        Ok(())
    }

    /// Fires when the Secret or a configuration changes. Only a trigger: what is decided on is read anew.
    fn events(&self) -> impl Stream<Item = ()> + Send + use<> {
        let named = |name: &str| watcher::Config::default().fields(&format!("metadata.name={name}"));
        let secret = watcher(self.secrets(), named(&self.settings.secret))
            .default_backoff()
            .map(|_| ());
        let mut streams: Vec<Pin<Box<dyn Stream<Item = ()> + Send>>> = vec![Box::pin(secret)];
        for kind in kinds() {
            for name in &self.settings.configurations {
                let api: Api<DynamicObject> = Api::all_with(self.client.clone(), &kind);
                let events = kube::runtime::watcher(api, named(name)).default_backoff().map(|_| ());
                streams.push(Box::pin(events));
            }
        }
        futures::stream::select_all(streams)
    }

    /// Keeps everything in step, for ever.
    pub async fn run(mut self) {
        let mut events = Box::pin(self.events());
        loop {
            let now = jiff::Timestamp::now().as_second();
            match self.pass(now).await {
                Ok(Outcome::Done(Step::Nothing)) => {
                    let _event_or_tick = tokio::time::timeout(TICK, events.next()).await;
                }
                Ok(Outcome::Done(_)) => tokio::time::sleep(STEP).await,
                Ok(Outcome::Overtaken) => tokio::time::sleep(PAUSE).await,
                Err(error) => {
                    self.certificates.count_failure();
                    tracing::error!(%error, "certificates: step failed");
                    tokio::time::sleep(PAUSE * 10).await;
                }
            }
        }
    }
}

/// The `caBundle` of every webhook of a configuration; empty where there is none or it is no base64.
fn bundles(object: &DynamicObject) -> Vec<Vec<u8>> {
    let webhooks = object.data.get("webhooks").and_then(serde_json::Value::as_array);
    let bundle = |webhook: &serde_json::Value| {
        let text = webhook.pointer("/clientConfig/caBundle")?;
        serde_json::from_value::<ByteString>(text.clone())
            .ok()
            .map(|bytes| bytes.0)
    };
    webhooks
        .into_iter()
        .flatten()
        .map(|webhook| bundle(webhook).unwrap_or_default())
        .collect()
}

/// What a bundle trusts now.
fn observe(pem: &[u8], now: i64) -> Bundle {
    match inspect::certificates(pem) {
        Ok(all) => {
            let valid: BTreeSet<_> = all
                .iter()
                .filter(|one| one.authority && one.not_after > now)
                .map(|one| one.fingerprint.clone())
                .collect();
            // Text that holds no certificate at all is rubbish too, such as a placeholder.
            let rest = valid.len() != all.len() || (all.is_empty() && !pem.is_empty());
            Bundle { trusted: valid, rest }
        }
        Err(_) => Bundle {
            trusted: BTreeSet::new(),
            rest: true,
        },
    }
}
