//! Runs the admission of Capstan in the in-memory API server.

use std::any::Any;
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};

use capstan_core::admission::{Admission, Phase, Snapshot, Source};
use capstan_core::api::config_openshift_io::cluster_operator::ClusterOperator;
use capstan_core::api::core_v1::node::Node;
use capstan_core::model::Edit;
use serde::de::DeserializeOwned;
use serde_json::Value;

use super::failure::Failure;
use super::kinds::Kind;
use super::object::Object;
use super::request::Part;
use super::store::{Admit, Api, Key};

/// The admission of Capstan. It looks up other objects in the API, or in a snapshot of caches.
#[derive(Debug)]
pub struct Capstan {
    admission: Arc<Admission>,
    read: Mutex<Read>,
    /// The caches for lookups; without them, lookups read the current objects of the API.
    seen: Option<Arc<Snapshot>>,
}

impl Capstan {
    /// Judges writes by the current objects of the API.
    pub fn new(admission: impl Into<Arc<Admission>>) -> Self {
        Self {
            admission: admission.into(),
            read: Mutex::default(),
            seen: None,
        }
    }

    /// Judges writes by these caches instead of the current objects.
    #[must_use]
    pub fn seeing(mut self, snapshot: Arc<Snapshot>) -> Self {
        self.seen = Some(snapshot);
        self
    }
}

impl Admit for Capstan {
    /// The same parts as in `webhooks/`: objects and their scale, but not their status.
    fn asks(&self, kind: &Kind, part: Part) -> bool {
        matches!(&*kind.kind, "ControlPlane" | "ControlPlaneMachineSet") && part != Part::Status
    }

    fn judge(
        &self,
        api: &Api,
        kind: &Kind,
        phase: Phase,
        edit: &Edit<'_>,
        warnings: &mut Vec<String>,
    ) -> Result<Option<Value>, Failure> {
        let fresh;
        let snapshot = match &self.seen {
            Some(seen) => &**seen,
            None => {
                fresh = self.read.lock().unwrap_or_else(PoisonError::into_inner).snapshot(api);
                &fresh
            }
        };
        let Some(outcome) = self.admission.judge(phase, &kind.group, &kind.kind, edit, snapshot) else {
            return Ok(None);
        };
        warnings.extend(outcome.verdict.warnings.iter().map(|warning| warning.text.clone()));
        if !outcome.verdict.allowed() {
            let text: Vec<String> = outcome.verdict.violations.iter().map(ToString::to_string).collect();
            let status = self
                .admission
                .status(&kind.group, &kind.kind, edit.name, &outcome.verdict);
            let mut failure = Failure::forbidden(kind, edit.name, &text.join("; "));
            if let Some(status) = status {
                failure.code = status.code;
                failure.reason = status.reason;
                failure.message = format!("admission webhook denied the request: {}", status.message);
            }
            return Err(failure);
        }
        let (Some(patch), Some(object)) = (outcome.patch, edit.object) else {
            return Ok(None);
        };
        let mut new = object.clone();
        let failed = |error: json_patch::PatchError| Failure::new(500, "InternalError", error.to_string());
        json_patch::patch(&mut new, &patch).map_err(failed)?;
        Ok(Some(new))
    }
}

/// Typed objects from earlier snapshots. Most objects are unchanged when the next write is judged,
/// and are not decoded again.
#[derive(Debug, Default)]
struct Read(BTreeMap<Key, (Arc<Object>, Arc<dyn Any + Send + Sync>)>);

impl Read {
    /// The caches of Capstan when they are up to date.
    fn snapshot(&mut self, api: &Api) -> Snapshot {
        let named = |name: &str| name.to_owned();
        Snapshot {
            source: Source::Cluster,
            machines: Some(self.all(api, "machine.openshift.io", "machines")),
            nodes: Some(
                self.all::<Node>(api, "", "nodes")
                    .into_iter()
                    .map(|node| (named(node.metadata.name()), node))
                    .collect(),
            ),
            infrastructure: self.all(api, "config.openshift.io", "infrastructures").pop(),
            feature_gate: self.all(api, "config.openshift.io", "featuregates").pop(),
            cluster_operators: Some(
                self.all::<ClusterOperator>(api, "config.openshift.io", "clusteroperators")
                    .into_iter()
                    .map(|operator| (named(operator.metadata.name()), operator))
                    .collect(),
            ),
            control_plane_machine_sets: Some(self.all(api, "machine.openshift.io", "controlplanemachinesets")),
            control_planes: Some(self.all(api, "machine.openshift.io", "controlplanes")),
            // The simulation has no kind that exists in both APIs.
            ..Snapshot::default()
        }
    }

    fn all<T: DeserializeOwned + Send + Sync + 'static>(
        &mut self,
        api: &Api,
        group: &str,
        plural: &str,
    ) -> Vec<Arc<T>> {
        let kind = api.kind_of(group, plural);
        let objects = kind.into_iter().flat_map(|kind| api.of_kind(kind));
        objects.filter_map(|(key, object)| self.one(key, object)).collect()
    }

    fn one<T: DeserializeOwned + Send + Sync + 'static>(&mut self, key: &Key, object: &Arc<Object>) -> Option<Arc<T>> {
        if let Some((known, read)) = self.0.get(key)
            && Arc::ptr_eq(known, object)
        {
            return Arc::clone(read).downcast().ok();
        }
        let read = Arc::new(object.read().ok()?);
        let kept: Arc<dyn Any + Send + Sync> = Arc::<T>::clone(&read);
        self.0.insert(key.clone(), (Arc::clone(object), kept));
        Some(read)
    }
}

/// The caches of Capstan when they are up to date.
pub fn snapshot(api: &Api) -> Snapshot {
    Read::default().snapshot(api)
}
