//! Every write that a controller makes: its preconditions, what an answer means, and what is
//! tracked of it.

use std::collections::BTreeMap;
use std::time::Duration;

use capstan_core::api::kind::KindInfo;
use capstan_core::api::meta::ObjectMeta;
use capstan_core::model::ObjectRef;
use kube::api::{DeleteParams, Preconditions, PropagationPolicy};
use serde::Deserialize;
use serde_json::{Map, Value};
use tokio::time::Instant;

use super::cluster::{Cluster, Written};
use super::step_error::StepError;
use super::write_tracker::WriteTracker;

/// How long a patch that was accepted and not stored is not sent again. An administrator who
/// corrects the policy waits no longer than this.
const REPEAT: Duration = Duration::from_secs(120);

/// How often the same patch is stored in a row before it counts as undone by another program.
const UNDONE: u32 = 5;

/// A write, as data.
#[derive(Clone, Debug, PartialEq)]
pub struct Write {
    /// The kind of the object.
    pub kind: KindInfo,
    /// The object.
    pub object: ObjectRef,
    /// What is written.
    pub verb: Verb,
}

/// What is written.
#[derive(Clone, Debug, PartialEq)]
pub enum Verb {
    /// The object is created under a derived name. If an object of that name exists and belongs to
    /// the same owner for the same purpose, the creation has already happened.
    Create {
        /// The object.
        body: Value,
        /// Annotations that must agree, besides the controlling owner.
        purpose: &'static [&'static str],
    },
    /// As [`Create`](Self::Create), for an object of a kind that is not watched. The caches never
    /// show it, so nothing waits for that.
    CreateUnwatched(Value),
    /// The object is created unless there is one.
    Ensure(Value),
    /// The object is deleted in the background.
    Delete {
        /// The uid and the resource version that the object must still have.
        precondition: Option<(String, String)>,
    },
    /// A JSON merge patch. The metadata of the patch carries a precondition.
    Patch(Value),
    /// A JSON merge patch of the status subresource.
    PatchStatus(Value),
    /// The object is applied on the server's side, without force.
    Apply {
        /// The field manager.
        manager: &'static str,
        /// The fields.
        body: Value,
    },
    /// Nothing is written: the step is what [`Reconcile::perform`](super::Reconcile::perform) does.
    /// The text says what that is, for an error.
    Perform(String),
}

impl Write {
    /// A write to an object of a kind.
    pub fn new(kind: &KindInfo, namespace: &str, name: &str, verb: Verb) -> Self {
        Self {
            kind: kind.clone(),
            object: kind.object(namespace, name),
            verb,
        }
    }

    /// The creation of an object under a derived name.
    pub fn create(kind: &KindInfo, namespace: &str, name: &str, body: Value) -> Self {
        Self::new(kind, namespace, name, Verb::Create { body, purpose: &[] })
    }

    /// A merge patch of the status of an object.
    pub fn status(kind: &KindInfo, namespace: &str, name: &str, status: &Value) -> Self {
        let patch = serde_json::json!({ "status": status });
        Self::new(kind, namespace, name, Verb::PatchStatus(patch))
    }

    /// What is being done, for an error: `deleting Thing home/a`.
    pub fn title(&self) -> String {
        let (kind, name) = (&self.object.kind, &self.object.name);
        match &self.verb {
            Verb::Create { .. } | Verb::CreateUnwatched(_) | Verb::Ensure(_) => format!("creating {kind} {name}"),
            Verb::Delete { .. } => format!("deleting {kind} {name}"),
            Verb::Patch(_) => format!("patching {kind} {name}"),
            Verb::PatchStatus(_) => format!("writing the status of {kind} {name}"),
            Verb::Apply { .. } => format!("applying {kind} {name}"),
            Verb::Perform(what) => what.clone(),
        }
    }
}

/// Writes, and tracks what it wrote until the caches show it.
#[derive(Debug)]
pub struct Writer<C> {
    pub(super) cluster: C,
    pub(super) tracker: WriteTracker,
    patches: BTreeMap<ObjectRef, LastPatch>,
}

/// The last patch of the metadata or the spec of an object that the API server accepted.
#[derive(Debug)]
struct LastPatch {
    sent: Value,
    outcome: Outcome,
    at: Instant,
}

/// What came of a patch that the API server accepted.
#[derive(Debug)]
enum Outcome {
    /// It was stored, so many times in a row.
    Stored(u32),
    /// These fields were not stored.
    NotStored(Vec<String>),
}

impl<C: Cluster> Writer<C> {
    /// A writer that has written nothing yet.
    pub fn new(cluster: C) -> Self {
        Self {
            cluster,
            tracker: WriteTracker::default(),
            patches: BTreeMap::new(),
        }
    }

    /// Carries out a write. Doing it twice has the effect of doing it once.
    ///
    /// # Errors
    /// When the API server refuses the write, or does not answer.
    pub async fn write(&mut self, write: &Write) -> Result<Written, StepError> {
        let Write { kind, object, verb } = write;
        let failed = |error| StepError::new(write.title(), error);
        let written = match verb {
            Verb::Create { body, purpose } => self.create(write, body, purpose).await?,
            Verb::CreateUnwatched(body) => return self.create(write, body, &[]).await,
            Verb::Ensure(body) => {
                return match self.cluster.create(kind, object, body.clone()).await {
                    Ok(written) => Ok(written),
                    Err(kube::Error::Api(status)) if status.code == 409 => Ok(Written::default()),
                    Err(error) => Err(failed(error)),
                };
            }
            Verb::Delete { precondition } => return self.delete(write, precondition.as_ref()).await,
            Verb::Patch(patch) => {
                self.known_as_lost(write, patch)?;
                let patched = self.cluster.patch(kind, object, false, patch.clone()).await;
                patched.map_err(failed)?
            }
            Verb::PatchStatus(patch) => {
                let patched = self.cluster.patch(kind, object, true, patch.clone()).await;
                patched.map_err(failed)?
            }
            Verb::Perform(_) => return Ok(Written::default()),
            Verb::Apply { manager, body } => {
                let applied = self.cluster.apply(kind, object, manager, body.clone()).await;
                applied.map_err(failed)?
            }
        };
        let now = self.cluster.instant();
        let (uid, version) = (written.uid.as_str(), written.version.as_str());
        if matches!(verb, Verb::Create { .. } | Verb::Apply { .. }) {
            self.tracker.created(object.clone(), uid, version, now);
        } else {
            self.tracker.changed(object.clone(), uid, version, now);
        }
        if let Verb::Patch(patch) = verb {
            self.check_stored(write, patch, &written)?;
        }
        Ok(written)
    }

    /// Fails if the same patch was not stored a short time ago, or if it was stored again and
    /// again, because another program undoes it (decision 95). Each patch can change the version of
    /// the object although nothing is stored. A repetition would never end, and the status would
    /// always be in conflict with it.
    fn known_as_lost(&self, write: &Write, patch: &Value) -> Result<(), StepError> {
        let Some(known) = self.patches.get(&write.object) else {
            return Ok(());
        };
        if self.cluster.instant().duration_since(known.at) >= REPEAT {
            return Ok(());
        }
        let sent = sent(patch);
        match &known.outcome {
            Outcome::NotStored(fields) if is_same(&known.sent, &sent) => {
                Err(StepError::not_stored(write.title(), fields))
            }
            // A record with another content is another patch.
            Outcome::Stored(count) if *count >= UNDONE && known.sent == sent => {
                Err(StepError::undone(write.title(), &fields(&sent)))
            }
            Outcome::NotStored(_) | Outcome::Stored(_) => Ok(()),
        }
    }

    /// Fails if the API server did not store what a patch sets in the metadata or in the spec. A
    /// webhook or a policy of the cluster may have changed it, or the CRD does not have the field.
    fn check_stored(&mut self, write: &Write, patch: &Value, written: &Written) -> Result<(), StepError> {
        let sent = sent(patch);
        let mut lost = Vec::new();
        for (part, stored) in [("metadata", &written.metadata), ("spec", &written.spec)] {
            if let Some(wanted) = sent.get(part).filter(|_| !stored.is_null()) {
                compare(part, wanted, stored, &mut lost);
            }
        }
        let at = self.cluster.instant();
        // Objects that are gone must not stay here for ever, and a patch that is needed again after
        // a long time was not undone at once.
        self.patches.retain(|_, known| at.duration_since(known.at) < 2 * REPEAT);
        let error = (!lost.is_empty()).then(|| StepError::not_stored(write.title(), &lost));
        let outcome = match self.patches.get(&write.object) {
            _ if !lost.is_empty() => Outcome::NotStored(lost),
            Some(LastPatch {
                sent: before,
                outcome: Outcome::Stored(count),
                ..
            }) if *before == sent => Outcome::Stored(count.saturating_add(1)),
            _ => Outcome::Stored(1),
        };
        self.patches
            .insert(write.object.clone(), LastPatch { sent, outcome, at });
        error.map_or(Ok(()), Err)
    }

    /// The caches may not show the object yet that a write changed: it was created just before.
    pub(super) fn expect(&mut self, write: &Write, written: &Written) {
        let now = self.cluster.instant();
        self.tracker
            .created(write.object.clone(), &written.uid, &written.version, now);
    }

    async fn create(&self, write: &Write, body: &Value, purpose: &[&str]) -> Result<Written, StepError> {
        let Write { kind, object, .. } = write;
        let failed = |error| StepError::new(write.title(), error);
        match self.cluster.create(kind, object, body.clone()).await {
            Ok(created) => Ok(created),
            Err(kube::Error::Api(status)) if status.code == 409 && status.reason == "AlreadyExists" => {
                // The name is derived from what the object is for. So this is the object of a
                // request whose answer was lost, or of another leader, unless a third party took
                // the name.
                let existing = self.cluster.get::<Existing>(kind, &object.namespace, &object.name);
                let existing = existing
                    .await
                    .map_err(failed)?
                    .and_then(|existing| existing.content.ok());
                let wanted = Existing::deserialize(body).ok();
                match existing.zip(wanted) {
                    Some((existing, wanted)) if existing.is_for(&wanted, purpose) => Ok(Written {
                        uid: existing.metadata.uid().to_owned(),
                        version: existing.metadata.resource_version.clone().unwrap_or_default(),
                        ..Written::default()
                    }),
                    _ => Err(failed(kube::Error::Api(status))),
                }
            }
            Err(error) => Err(failed(error)),
        }
    }

    async fn delete(&mut self, write: &Write, precondition: Option<&(String, String)>) -> Result<Written, StepError> {
        let params = DeleteParams {
            preconditions: precondition.map(|(uid, version)| Preconditions {
                uid: Some(uid.clone()),
                resource_version: Some(version.clone()),
            }),
            propagation_policy: Some(PropagationPolicy::Background),
            ..DeleteParams::default()
        };
        match self.cluster.delete(&write.kind, &write.object, &params).await {
            Ok(Some(deleting)) => {
                let now = self.cluster.instant();
                let (uid, version) = (deleting.uid.as_str(), deleting.version.as_str());
                self.tracker.changed(write.object.clone(), uid, version, now);
                Ok(deleting)
            }
            // An answer without the object says that the object is gone.
            Ok(None) => Ok(Written::default()),
            Err(kube::Error::Api(status)) if status.code == 404 => Ok(Written::default()),
            Err(error) => Err(StepError::new(write.title(), error)),
        }
    }
}

/// What a merge patch sets in the metadata and in the spec of the object with the uid of its
/// precondition, without the resource version. An object that was deleted and created again is
/// another object.
fn sent(patch: &Value) -> Value {
    let part = |name: &str| Some((name.to_owned(), patch.get(name)?.clone()));
    let mut sent: Map<String, Value> = ["metadata", "spec"].into_iter().filter_map(part).collect();
    if let Some(fields) = sent.get_mut("metadata").and_then(Value::as_object_mut) {
        fields.retain(|field, _| field != "resourceVersion");
    }
    Value::Object(sent)
}

/// The fields that a patch sets or removes, other than the uid of its precondition.
fn fields(sent: &Value) -> Vec<String> {
    fn add(path: &str, value: &Value, fields: &mut Vec<String>) {
        match value.as_object().filter(|parts| !parts.is_empty()) {
            None => fields.push(path.to_owned()),
            Some(parts) => {
                for (name, part) in parts {
                    add(&format!("{path}.{name}"), part, fields);
                }
            }
        }
    }
    let mut fields = Vec::new();
    for (part, value) in sent.as_object().into_iter().flatten() {
        add(part, value, &mut fields);
    }
    fields.retain(|field| field != "metadata.uid");
    fields
}

/// Whether two patches set the same fields. The content of a record, which is an annotation with
/// a JSON document, does not count: it can contain the time, so that each patch has another one.
fn is_same(left: &Value, right: &Value) -> bool {
    let without_records = |sent: &Value| {
        let mut sent = sent.clone();
        let annotations = sent.pointer_mut("/metadata/annotations").and_then(Value::as_object_mut);
        for (_, value) in annotations.into_iter().flatten() {
            if value.as_str().is_some_and(|text| text.starts_with(['{', '['])) {
                *value = Value::Bool(true);
            }
        }
        sent
    };
    without_records(left) == without_records(right)
}

/// Adds the fields that are stored with another value than the wanted one.
fn compare(path: &str, wanted: &Value, stored: &Value, fields: &mut Vec<String>) {
    let is_empty = |value: &Value| value.is_null() || value.as_array().is_some_and(Vec::is_empty);
    match wanted {
        Value::Object(wanted) => {
            for (key, wanted) in wanted {
                let stored = stored.get(key).unwrap_or(&Value::Null);
                compare(&format!("{path}.{key}"), wanted, stored, fields);
            }
        }
        wanted if wanted == stored || (is_empty(wanted) && is_empty(stored)) => {}
        // The API server adds the default values of the fields of an item.
        Value::Array(items) if is_same_length(items, stored) && items.iter().all(|item| holds(item, stored)) => {}
        _ => fields.push(path.to_owned()),
    }
}

fn is_same_length(wanted: &[Value], stored: &Value) -> bool {
    stored.as_array().is_some_and(|stored| stored.len() == wanted.len())
}

/// Whether a list contains an item with these fields.
fn holds(wanted: &Value, stored: &Value) -> bool {
    let has_fields = |item: &Value| match (wanted.as_object(), item.as_object()) {
        (Some(wanted), Some(item)) => wanted.iter().all(|(field, value)| item.get(field) == Some(value)),
        _ => item == wanted,
    };
    stored.as_array().is_some_and(|items| items.iter().any(has_fields))
}

/// An existing object of a wanted name.
#[derive(Clone, Debug, PartialEq, Deserialize)]
struct Existing {
    metadata: ObjectMeta,
}

impl capstan_core::api::objects::CachedObject for Existing {
    fn metadata(&self) -> Option<&ObjectMeta> {
        Some(&self.metadata)
    }
}

impl Existing {
    /// Whether the object is the wanted one: of the same owner, for the same purpose. Without a
    /// controller, the first owner counts.
    fn is_for(&self, wanted: &Self, purpose: &[&str]) -> bool {
        let owner = wanted.metadata.controller();
        let owner = owner.or(wanted.metadata.owner_references.first());
        let owner = owner.map(|owner| owner.uid.as_str());
        let mut owners = self.metadata.owner_references.iter().map(|owner| owner.uid.as_str());
        let (existing, wanted) = (&self.metadata.annotations, &wanted.metadata.annotations);
        owner.is_some_and(|owner| owners.any(|existing| existing == owner))
            && purpose.iter().all(|key| existing.get(*key) == wanted.get(*key))
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn not_stored(wanted: &Value, stored: &Value) -> Vec<String> {
        let mut fields = Vec::new();
        compare("spec", wanted, stored, &mut fields);
        fields
    }

    #[test]
    fn v116_an_item_that_is_dropped_from_the_spec_or_put_back_is_not_stored() {
        let hooks = |hooks: Value| json!({"lifecycleHooks": {"preDrain": hooks}});
        let one = json!({"name": "a", "owner": "b"});
        let wanted = hooks(json!([one]));
        let field = ["spec.lifecycleHooks.preDrain"];
        assert_eq!(not_stored(&wanted, &json!({"replicas": 3})), field);
        assert_eq!(not_stored(&wanted, &hooks(json!([{"name": "a", "owner": "c"}]))), field);
        assert_eq!(not_stored(&hooks(json!([])), &wanted), field);
        assert_eq!(
            not_stored(&wanted, &hooks(json!([{"name": "a", "owner": "b", "default": 1}]))),
            [] as [&str; 0]
        );
        assert_eq!(not_stored(&hooks(json!([])), &json!({})), [] as [&str; 0]);
    }

    #[test]
    fn the_same_patch_of_a_newer_version_is_the_same_and_another_spec_is_another_patch() {
        let patch = |version: &str, replicas: u32| {
            sent(&json!({"metadata": {"uid": "u", "resourceVersion": version}, "spec": {"replicas": replicas}}))
        };
        assert!(is_same(&patch("1", 3), &patch("2", 3)));
        assert!(!is_same(&patch("1", 3), &patch("1", 5)));
    }

    #[test]
    fn v235_a_removal_that_is_undone_names_the_fields_that_it_removes() {
        let patch = json!({"metadata": {"uid": "u", "resourceVersion": "1", "labels": {"a": null, "b": "c"}},
            "spec": {"taints": []}});
        let named = ["metadata.labels.a", "metadata.labels.b", "spec.taints"];
        assert_eq!(fields(&sent(&patch)), named);
    }
}
