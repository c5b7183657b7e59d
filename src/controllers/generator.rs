//! The generator: an Inactive set for a cluster that has none, kept up to date in place until somebody activates it.
//!
//! It applies on the server's side, under a name of its own and without force: a field that a user has touched is the
//! user's. It writes only when what it would generate has changed, which an annotation of the set tells. A set without
//! that annotation is somebody else's and never touched; neither is one that is Active or on its way out.

use std::sync::Arc;
use std::time::Duration;

use capstan_core::api::machine_openshift_io::control_plane_machine_set::{ControlPlaneMachineSet, NAME};
use capstan_core::cpms::generate::{Existing, generate, in_place_of};
use capstan_core::model::canonical_json;
use kube::api::{DynamicObject, Patch, PatchParams};
use kube::{Api, Client};
use serde_json::{Value, json};
use sha2::{Digest, Sha256};
use tokio::sync::watch;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use super::caches::View;
use super::cluster::Object;
use super::follow::Pauses;
use super::kind::Kind;
use super::ledger::{Ledger, Sight};
use super::trouble::Trouble;

/// The name under which generated fields stand in `managedFields`.
const FIELD_MANAGER: &str = "capstan-generator";
/// What was generated last, as a hash: on every set that the generator made.
const GENERATED: &str = "capstan.dev/generated";

/// The generator.
pub(super) struct Generator {
    sets: Api<DynamicObject>,
    views: watch::Receiver<Arc<View>>,
    leading: watch::Receiver<bool>,
    ledger: Ledger,
    /// Why nothing could be generated, as it was last said.
    refused: String,
}

impl Generator {
    pub(super) fn new(
        client: &Client,
        namespace: &str,
        views: watch::Receiver<Arc<View>>,
        leading: watch::Receiver<bool>,
    ) -> Self {
        Self {
            sets: Kind::control_plane_machine_sets(namespace).dynamic(client.clone()),
            views,
            leading,
            ledger: Ledger::default(),
            refused: String::new(),
        }
    }

    /// Works until `stop`.
    pub(super) async fn run(mut self, stop: CancellationToken) {
        let mut pauses = Pauses::new();
        let mut due: Option<Instant> = Some(Instant::now());
        loop {
            let timer = async {
                match due {
                    Some(due) => tokio::time::sleep_until(due).await,
                    None => std::future::pending().await,
                }
            };
            tokio::select! {
                biased;
                () = stop.cancelled() => return,
                changed = self.leading.changed() => if changed.is_err() { return },
                changed = self.views.changed() => if changed.is_err() { return },
                () = timer => {}
            }
            let leads = *self.leading.borrow_and_update();
            let view = Arc::clone(&self.views.borrow_and_update());
            due = None;
            if !leads || !view.known {
                continue;
            }
            self.ledger.settle(Instant::now(), |_| {
                let meta = &there(&view)?.metadata;
                Some(Sight {
                    uid: meta.uid(),
                    version: meta.resource_version.as_deref().unwrap_or_default(),
                })
            });
            if let Some(until) = self.ledger.waits_until() {
                due = Some(until);
                continue;
            }
            match self.look(&view).await {
                Ok(()) => pauses.reset(),
                Err(trouble) => {
                    if !trouble.is_conflict() {
                        tracing::warn!(%trouble, "generating a set");
                    }
                    due = Some(Instant::now() + pauses.next().unwrap_or(Duration::from_secs(30)));
                }
            }
            due = [due, self.ledger.waits_until()].into_iter().flatten().min();
        }
    }

    async fn look(&mut self, view: &View) -> Result<(), Trouble> {
        let there = there(view);
        let ours = there.is_none_or(|set| {
            let active = set.spec.state.as_deref() == Some("Active");
            !active && !set.metadata.is_deleting() && set.metadata.annotations.contains_key(GENERATED)
        });
        // What cannot be read may be what makes the difference.
        let readable = view.unreadable_machines.is_empty() && view.unreadable_sets.is_empty();
        if !ours || !readable {
            return Ok(());
        }
        let existing = Existing {
            machines: view.snapshot.machines.as_deref().unwrap_or_default(),
            machine_sets: view.machine_sets.as_deref().unwrap_or_default(),
            infrastructure: view.snapshot.infrastructure.as_deref(),
        };
        let wanted = match generate(&existing) {
            Ok(wanted) => wanted,
            Err(reason) => {
                let reason = reason.to_string();
                if reason != self.refused {
                    tracing::info!(reason, "no set is generated");
                    self.refused = reason;
                }
                return Ok(());
            }
        };
        self.refused.clear();
        let wanted = match there {
            Some(there) => in_place_of(there, wanted),
            None => wanted,
        };
        let hash = hash(&wanted);
        let known = there.and_then(|set| set.metadata.annotations.get(GENERATED));
        if known == Some(&hash) {
            return Ok(());
        }
        self.apply(there, &wanted, &hash).await
    }

    async fn apply(
        &mut self,
        there: Option<&ControlPlaneMachineSet>,
        wanted: &ControlPlaneMachineSet,
        hash: &str,
    ) -> Result<(), Trouble> {
        let trouble = |error| Trouble::new(format!("applying the generated ControlPlaneMachineSet {NAME}"), error);
        let mut wanted = wanted.clone();
        let meta = &mut wanted.metadata;
        meta.annotations.insert(GENERATED.to_owned(), hash.to_owned());
        if let Some(there) = there {
            // Not if it was activated in the meantime.
            meta.uid.clone_from(&there.metadata.uid);
            meta.resource_version.clone_from(&there.metadata.resource_version);
        }
        let mut object = serde_json::to_value(wanted).map_err(|error| trouble(kube::Error::SerdeError(error)))?;
        let params = PatchParams::apply(FIELD_MANAGER);
        let applied = match self.sets.patch(NAME, &params, &Patch::Apply(&object)).await {
            Err(kube::Error::Api(status)) if status.code == 409 => {
                let theirs = conflicts(&status);
                if theirs.is_empty() || theirs.iter().any(|path| path == ".spec.state") {
                    return Err(trouble(kube::Error::Api(status)));
                }
                tracing::info!(fields = theirs.join(", "), "left to whoever set them");
                for path in &theirs {
                    remove(&mut object, path);
                }
                self.sets.patch(NAME, &params, &Patch::Apply(&object)).await
            }
            other => other,
        };
        let applied = applied.map_err(trouble)?;
        tracing::info!(hash, "applied the generated ControlPlaneMachineSet");
        let meta = &applied.metadata;
        let (uid, version) = (meta.uid.as_deref(), meta.resource_version.as_deref());
        self.ledger.created(
            Object::Set(NAME.to_owned()),
            uid.unwrap_or_default(),
            version.unwrap_or_default(),
            Instant::now(),
        );
        Ok(())
    }
}

fn there(view: &View) -> Option<&ControlPlaneMachineSet> {
    let sets = view.snapshot.control_plane_machine_sets.as_deref().unwrap_or_default();
    let named = sets.iter().find(|set| set.metadata.name() == NAME);
    named.map(|set| &**set)
}

fn hash(set: &ControlPlaneMachineSet) -> String {
    let text = canonical_json(&json!(set.spec));
    let digest = Sha256::digest(text.as_bytes());
    digest.iter().take(8).map(|byte| format!("{byte:02x}")).collect()
}

/// The fields that others own and that hold something else, as the API server names them.
fn conflicts(status: &kube::core::Status) -> Vec<String> {
    let causes = status.details.iter().flat_map(|details| &details.causes);
    causes
        .filter(|cause| cause.reason == "FieldManagerConflict")
        .map(|cause| cause.field.clone())
        .collect()
}

/// Removes a field by a path such as `.spec.strategy.type`. What stands in a list goes with the whole list: a list that
/// is half ours would be nobody's.
fn remove(object: &mut Value, path: &str) {
    let path = path.split('[').next().unwrap_or_default();
    let mut parts: Vec<&str> = path.split('.').filter(|part| !part.is_empty()).collect();
    let Some(last) = parts.pop() else { return };
    let parent = parts.into_iter().try_fold(object, |value, part| value.get_mut(part));
    if let Some(parent) = parent.and_then(Value::as_object_mut) {
        parent.remove(last);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_field_that_is_left_to_others_goes_with_its_whole_list() {
        let mut object = json!({"spec": {"strategy": {"type": "a"}, "list": [{"x": 1}], "replicas": 3}});
        remove(&mut object, ".spec.strategy.type");
        remove(&mut object, ".spec.list[0].x");
        remove(&mut object, ".spec.absent.field");
        assert_eq!(object, json!({"spec": {"strategy": {}, "replicas": 3}}));
    }

    #[test]
    fn the_hash_depends_on_the_spec_alone() {
        let mut set = ControlPlaneMachineSet::default();
        let before = hash(&set);
        set.metadata.name = Some("cluster".to_owned());
        assert_eq!(hash(&set), before);
        set.spec.replicas = Some(5);
        assert_ne!(hash(&set), before);
    }
}
