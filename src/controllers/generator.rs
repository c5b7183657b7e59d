//! The generator: an Inactive set for a cluster that has none, kept up to date until a user
//! activates it.
//!
//! It applies on the server's side, under a field manager of its own and without force: a field
//! that a user has edited stays the user's. It writes only when what it would generate has changed,
//! which an annotation of the set records. It never touches a set without that annotation, an
//! Active set, or a set that is being deleted. Before it creates a set it asks the API server
//! whether there is one, because an apply cannot require that the object is new. A set that a rule
//! refuses is reported in an event, and is not applied again until something changes.

mod refused;
#[cfg(test)]
mod tests;

use std::sync::Arc;

use capstan_core::api::core_v1::node::Node;
use capstan_core::api::kind::KindInfo;
use capstan_core::api::kinds;
use capstan_core::api::machine_openshift_io::control_plane_machine_set::{ControlPlaneMachineSet, NAME};
use capstan_core::api::machine_openshift_io::machine_set::MachineSet;
use capstan_core::api::objects::{CachedObject, Objects};
use capstan_core::cpms::generate::{Existing, generate, update};
use capstan_core::model::{NamespacedName, ObjectRef, canonical_json};
use serde_json::{Value, json};
use sha2::{Digest, Sha256};

use super::caches::controller_watches;
use super::observed::{control_plane_machine_set, infrastructure, is_decodable};
use crate::runtime::{
    self, EventSpec, Moment, Observation, Reconcile, Reconciled, Report, Source, Step, StepError, Verb, View, Watch,
    Write,
};
use refused::{Basis, Refused, basis};

/// The field manager of the generated set.
pub const FIELD_MANAGER: &str = "capstan-generator";

/// The annotation of every generated set. Its value is a hash of what was generated last.
pub const GENERATED: &str = "capstan.dev/generated";

/// The reason of the event about a set that a rule refuses.
pub const REFUSED: &str = "GenerationRefused";

/// The generator.
#[derive(Debug)]
pub struct Generator {
    namespace: String,
}

/// What is kept between reconciles.
#[derive(Debug, Default)]
pub struct State {
    /// Why no set can be generated, as it was last logged.
    unsupported: String,
    /// What a rule refused.
    refused: Refused,
    /// The message about a refusal that is repeated no more.
    believed: Option<String>,
}

/// A set that should be applied.
#[derive(Debug)]
pub struct Observed {
    /// The set that exists.
    existing: Option<ControlPlaneMachineSet>,
    /// The set that is wanted, if it differs; with its hash.
    wanted: Option<(ControlPlaneMachineSet, String)>,
    basis: Basis,
}

impl Generator {
    /// The generator of the set in a namespace.
    pub fn new(namespace: &str) -> Self {
        Self {
            namespace: namespace.to_owned(),
        }
    }

    /// The key of the set that is generated.
    pub fn object(&self) -> ObjectRef {
        kinds::CONTROL_PLANE_MACHINE_SETS.object(&self.namespace, NAME)
    }

    fn wanted(
        &self,
        view: &View,
        existing: Option<&ControlPlaneMachineSet>,
        state: &mut State,
    ) -> Option<ControlPlaneMachineSet> {
        let machines: Vec<_> = all(&view.objects, &kinds::MACHINES);
        let machine_sets: Vec<_> = all::<MachineSet>(&view.objects, &kinds::MACHINE_SETS);
        let nodes = view.objects.of::<Node>(&kinds::NODES).map(|known| {
            let nodes = known.objects.iter();
            nodes.map(|(key, node)| (key.name.clone(), node.clone())).collect()
        });
        let known = Existing {
            machines: &machines,
            machine_sets: &machine_sets,
            nodes: nodes.as_ref(),
            infrastructure: infrastructure(&view.objects).map(|one| &**one),
        };
        let wanted = match existing {
            Some(existing) => update(&known, existing),
            None => generate(&known).map(Some),
        };
        match wanted {
            Ok(wanted) => {
                if wanted.is_some() {
                    state.unsupported.clear();
                }
                wanted
            }
            Err(reason) => {
                let reason = reason.to_string();
                if reason != state.unsupported {
                    tracing::info!(reason, "no set is generated");
                    state.unsupported = reason;
                }
                None
            }
        }
    }

    /// The object to apply.
    fn body(&self, observed: &Observed) -> Option<Value> {
        let (wanted, hash) = observed.wanted.as_ref()?;
        let mut wanted = wanted.clone();
        let meta = &mut wanted.metadata;
        meta.annotations.insert(GENERATED.to_owned(), hash.clone());
        if let Some(existing) = &observed.existing {
            // The apply fails if the set was activated in the meantime.
            meta.uid.clone_from(&existing.metadata.uid);
            meta.resource_version.clone_from(&existing.metadata.resource_version);
        }
        serde_json::to_value(wanted).ok()
    }

    fn apply(&self, body: Value) -> Write {
        let verb = Verb::Apply {
            manager: FIELD_MANAGER,
            body,
        };
        Write::new(&kinds::CONTROL_PLANE_MACHINE_SETS, &self.namespace, NAME, verb)
    }
}

fn all<T: CachedObject>(objects: &Objects, kind: &KindInfo) -> Vec<Arc<T>> {
    objects.all::<T>(kind).into_iter().flatten().cloned().collect()
}

impl Reconcile for Generator {
    const NAME: &'static str = "control-plane-machine-set-generator";

    type State = State;
    type Observed = Observed;

    fn kind(&self) -> &KindInfo {
        &kinds::CONTROL_PLANE_MACHINE_SETS
    }

    fn watches(&self) -> Vec<Watch> {
        controller_watches(&self.namespace)
    }

    fn all(&self, _view: &View) -> Vec<ObjectRef> {
        vec![self.object()]
    }

    /// What is generated depends on machines, MachineSets, nodes and the Infrastructure.
    fn affected(&self, _changed: &ObjectRef, _view: &View) -> Vec<ObjectRef> {
        vec![self.object()]
    }

    /// A missing set is generated.
    fn is_gone(&self, _object: &ObjectRef, _view: &View) -> bool {
        false
    }

    fn observe(
        &self,
        object: &ObjectRef,
        view: &View,
        source: Source,
        state: &mut State,
        _moment: Moment,
    ) -> Observation<Observed> {
        if !view.synced || !is_decodable(&view.objects) {
            return Observation::Nothing;
        }
        let existing = control_plane_machine_set(view, &object.namespace);
        if existing.is_some_and(|set| !is_ours(set)) {
            return Observation::Nothing;
        }
        if source == Source::Live && existing.is_some() {
            // The set was created since the caches were read. They will show it.
            return Observation::Nothing;
        }
        let existing = existing.map(|set| &**set);
        let wanted = self.wanted(view, existing, state).and_then(|wanted| {
            let hash = hash(&wanted);
            let recorded = existing.and_then(|set| set.metadata.annotations.get(GENERATED));
            (recorded != Some(&hash)).then_some((wanted, hash))
        });
        let hash = wanted.as_ref().map_or("", |(_, hash)| hash);
        Observation::Found(Observed {
            basis: basis(&view.objects, hash),
            existing: existing.cloned(),
            wanted,
        })
    }

    async fn read_live<C: runtime::Cluster>(
        &self,
        _object: &ObjectRef,
        cluster: &C,
        view: &View,
        observed: &Observed,
    ) -> Result<Option<View>, StepError> {
        if observed.existing.is_some() {
            return Ok(None);
        }
        let (kind, key) = (
            &kinds::CONTROL_PLANE_MACHINE_SETS,
            NamespacedName::new(self.namespace.as_str(), NAME),
        );
        view.refreshed::<ControlPlaneMachineSet>(cluster, kind, &key)
            .await
            .map(Some)
    }

    fn plan(&self, observed: &Observed, state: &mut State, moment: Moment) -> Vec<Step> {
        if observed.wanted.is_none() || state.refused.stands(&observed.basis, moment.instant) {
            return Vec::new();
        }
        let Some(body) = self.body(observed) else {
            return Vec::new();
        };
        let creates = observed.existing.is_none();
        vec![Step {
            write: self.apply(body),
            action: "apply",
            because: if creates {
                "there is no set".to_owned()
            } else {
                "the machines of the generated set changed".to_owned()
            },
            disruptive: false,
            needs_success: true,
            gates_others: true,
            optional: false,
        }]
    }

    fn failed(
        &self,
        observed: &Observed,
        _step: usize,
        error: &StepError,
        _state: &mut State,
        _moment: Moment,
    ) -> Option<Write> {
        let theirs = error.field_conflicts();
        if theirs.is_empty() || theirs.iter().any(|path| path == ".spec.state") {
            return None;
        }
        tracing::info!(fields = theirs.join(", "), "other field managers keep these fields");
        let mut body = self.body(observed)?;
        for path in &theirs {
            remove(&mut body, path);
        }
        Some(self.apply(body))
    }

    fn status(&self, _reconciled: &Reconciled<'_, Observed>, _state: &mut State) -> Vec<Write> {
        Vec::new()
    }

    fn tolerated(&self, observed: &Observed, error: &StepError, state: &mut State, moment: Moment) -> bool {
        if !error.is_by_rule() {
            state.refused.forget();
            return false;
        }
        if !state.refused.again(observed.basis.clone(), moment.instant) {
            return false;
        }
        let message = format!("{error}; it is applied again when the machines, the set or the Infrastructure change");
        tracing::warn!(message, "the generated set is refused");
        state.believed = Some(message);
        true
    }

    fn report<'a>(&self, reconciled: &Reconciled<'a, Observed>, state: &mut State) -> Report<'a> {
        let observed = reconciled.observed;
        if !reconciled.taken.is_empty() {
            state.refused.forget();
        }
        let (Some(message), Some((wanted, hash))) = (state.believed.take(), &observed.wanted) else {
            return Report::default();
        };
        let about = observed.existing.as_ref().unwrap_or(wanted);
        let event = EventSpec {
            warning: true,
            reason: REFUSED,
            key: format!("{hash} {message}"),
            message: message.into(),
        };
        Report {
            about: Some(about.metadata.clone()),
            lasting: vec![event],
            ..Report::default()
        }
    }
}

/// Whether the generator may change a set: it generated the set, and no user has activated it.
fn is_ours(set: &ControlPlaneMachineSet) -> bool {
    let active = set.spec.state.as_deref() == Some("Active");
    !active && !set.metadata.is_deleting() && set.metadata.annotations.contains_key(GENERATED)
}

fn hash(set: &ControlPlaneMachineSet) -> String {
    let text = canonical_json(&json!(set.spec));
    let digest = Sha256::digest(text.as_bytes());
    digest.iter().take(8).map(|byte| format!("{byte:02x}")).collect()
}

/// Removes a field by a path such as `.spec.strategy.type`. A field inside a list removes the whole
/// list, because a list has one owner.
fn remove(object: &mut Value, path: &str) {
    let path = path.split('[').next().unwrap_or_default();
    let mut parts: Vec<&str> = path.split('.').filter(|part| !part.is_empty()).collect();
    let Some(last) = parts.pop() else { return };
    let parent = parts.into_iter().try_fold(object, |value, part| value.get_mut(part));
    if let Some(parent) = parent.and_then(Value::as_object_mut) {
        parent.remove(last);
    }
}
