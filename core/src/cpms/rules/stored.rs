//! The stored set, parsed once for each snapshot of the cluster.
//!
//! Most edits change little of the stored set, and a parse of the rest gives the same result. An
//! edited set is compared with the stored set value by value. What differs is parsed; no
//! resourceVersion and no name is trusted. Nothing here decides whether an edit is allowed.

use std::sync::{Arc, OnceLock};

use serde::Deserialize as _;
use serde_json::Value;

use super::equivalence::{are_same_except_provider_spec, have_same_place};
use crate::api::config_openshift_io::infrastructure::Infrastructure;
use crate::api::machine_openshift_io::control_plane_machine_set::{
    API_VERSION, ControlPlaneMachineSet, KIND, MACHINE_TYPE, NAME,
};
use crate::cpms::spec::{Gates, ParseContext, Spec, into_spec};

/// The parsed set of a snapshot. The first review that needs it parses it. A clone is empty, so
/// that a clone of a snapshot can be changed.
#[derive(Debug, Default)]
pub struct ParsedOnce(OnceLock<Option<StoredSet>>);

impl Clone for ParsedOnce {
    fn clone(&self) -> Self {
        Self::default()
    }
}

/// The parts of a snapshot from which the stored set is parsed.
#[derive(Clone, Copy)]
pub(super) struct Surroundings<'a> {
    pub(super) sets: Option<&'a [Arc<ControlPlaneMachineSet>]>,
    pub(super) infrastructure: Option<&'a Arc<Infrastructure>>,
    pub(super) gates: Gates,
}

/// A stored set that is valid.
#[derive(Debug)]
struct StoredSet {
    /// What the set was parsed from. The references keep the objects alive, so that an object at
    /// the same address is the same object.
    set: Arc<ControlPlaneMachineSet>,
    infrastructure: Option<Arc<Infrastructure>>,
    gates: Gates,
    /// The set as a review contains it, without status and managed fields.
    tree: Value,
    /// The parsed set, without its provider spec.
    spec: Spec,
}

impl ParsedOnce {
    /// The parse result of an edited set that differs from the stored set in its provider spec
    /// only; `None` if the edited set must be parsed.
    pub(super) fn spec_of(
        &self,
        edited: &Value,
        provider_spec: Option<&Value>,
        surroundings: Surroundings<'_>,
    ) -> Option<Spec> {
        self.stored(surroundings)?.spec_of(edited, provider_spec?)
    }

    /// The stored set of these surroundings; `None` if it is unknown or not valid.
    fn stored(&self, surroundings: Surroundings<'_>) -> Option<&StoredSet> {
        let Surroundings {
            sets,
            infrastructure,
            gates,
        } = surroundings;
        let set = sets?.iter().find(|set| set.metadata.name() == NAME)?;
        let read = || StoredSet::read(set, infrastructure, gates);
        let stored = self.0.get_or_init(read).as_ref()?;
        let same_infrastructure = match (&stored.infrastructure, infrastructure) {
            (Some(then), Some(now)) => Arc::ptr_eq(then, now),
            (then, now) => then.is_none() && now.is_none(),
        };
        (Arc::ptr_eq(&stored.set, set) && same_infrastructure && stored.gates == gates).then_some(stored)
    }
}

impl StoredSet {
    fn read(
        set: &Arc<ControlPlaneMachineSet>,
        infrastructure: Option<&Arc<Infrastructure>>,
        gates: Gates,
    ) -> Option<Self> {
        let mut tree = serde_json::to_value(&**set).ok()?;
        let fields = tree.as_object_mut()?;
        // A list leaves these out of its items.
        fields.insert("apiVersion".to_owned(), Value::from(API_VERSION));
        fields.insert("kind".to_owned(), Value::from(KIND));
        // A review is read without these.
        fields.remove("status");
        fields.get_mut("metadata")?.as_object_mut()?.remove("managedFields");
        let context = ParseContext {
            infrastructure: infrastructure.map(|infrastructure| &**infrastructure),
            gates,
            ignore_gated_fields: false,
        };
        let mut spec = into_spec(ControlPlaneMachineSet::deserialize(&tree).ok()?, &context).ok()?;
        Arc::make_mut(&mut spec.template).provider_spec = Value::Null;
        Some(Self {
            set: Arc::clone(set),
            infrastructure: infrastructure.cloned(),
            gates,
            tree,
            spec,
        })
    }

    fn spec_of(&self, edited: &Value, provider_spec: &Value) -> Option<Spec> {
        let own = self.tree.get("spec")?.get("template")?.get(MACHINE_TYPE)?;
        let own = own.get("spec")?.get("providerSpec")?.get("value")?;
        if !have_same_place(own, provider_spec) || !are_same_except_provider_spec(&self.tree, edited) {
            return None;
        }
        let mut spec = self.spec.clone();
        let template = Arc::make_mut(&mut spec.template);
        template.provider_spec = provider_spec.clone();
        let metadata = edited.get("metadata");
        let generation = metadata.and_then(|metadata| metadata.get("generation")?.as_i64());
        spec.generation = generation.unwrap_or(spec.generation);
        Some(spec)
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::cpms::samples::json_set;

    const PROVIDER_SPEC: &str = "/spec/template/machines_v1beta1_machine_openshift_io/spec/providerSpec/value";

    fn surroundings(sets: &[Arc<ControlPlaneMachineSet>]) -> Surroundings<'_> {
        Surroundings {
            sets: Some(sets),
            infrastructure: None,
            gates: Gates::default(),
        }
    }

    fn sets(set: &Value) -> Vec<Arc<ControlPlaneMachineSet>> {
        vec![Arc::new(serde_json::from_value(set.clone()).unwrap())]
    }

    fn spec_of(parsed: &ParsedOnce, sets: &[Arc<ControlPlaneMachineSet>], edited: &Value) -> Option<Spec> {
        parsed.spec_of(edited, edited.pointer(PROVIDER_SPEC), surroundings(sets))
    }

    #[test]
    fn a_set_with_another_provider_spec_is_read_from_the_stored_set_as_a_parse_reads_it() {
        let mut set = json_set();
        set["metadata"]["generation"] = json!(3);
        set["status"] = json!({"replicas": 3});
        let (sets, parsed) = (sets(&set), ParsedOnce::default());
        set.as_object_mut().unwrap().remove("status");
        for (field, value) in [
            ("instanceType", json!("m6i.4xlarge")),
            ("userDataSecret", json!({})),
            ("new", json!([1])),
        ] {
            let mut edited = set.clone();
            edited.pointer_mut(PROVIDER_SPEC).unwrap()[field] = value;
            edited["metadata"]["generation"] = json!(4);
            let spec = spec_of(&parsed, &sets, &edited).expect("it is found");
            let context = ParseContext::default();
            let mut whole = into_spec(serde_json::from_value(edited).unwrap(), &context).unwrap();
            // A parse moves the provider spec out of this field.
            Arc::make_mut(&mut whole.template).machine_spec.provider_spec.value = None;
            assert_eq!(spec, whole, "{field}");
        }
    }

    #[test]
    fn a_set_that_differs_in_another_field_is_parsed() {
        let set = json_set();
        let (sets, parsed) = (sets(&set), ParsedOnce::default());
        let edits: [fn(&mut Value); 6] = [
            |set| set["metadata"]["annotations"] = json!({"a": "b"}),
            |set| set["metadata"]["generation"] = json!("4"),
            |set| set["spec"]["state"] = json!("Inactive"),
            |set| set["spec"]["more"] = json!(1),
            |set| set.pointer_mut(PROVIDER_SPEC).unwrap()["placement"] = json!({"availabilityZone": "elsewhere"}),
            |set| *set.pointer_mut(PROVIDER_SPEC).unwrap() = json!("text"),
        ];
        for edit in edits {
            let mut edited = set.clone();
            edit(&mut edited);
            assert_ne!(edited, set);
            assert!(spec_of(&parsed, &sets, &edited).is_none(), "{edited}");
        }
    }

    #[test]
    fn a_set_that_was_parsed_in_other_surroundings_is_not_used() {
        let (stored, parsed) = (sets(&json_set()), ParsedOnce::default());
        let then = surroundings(&stored);
        assert!(parsed.stored(then).is_some());
        let infrastructure = Arc::default();
        let known = Surroundings {
            infrastructure: Some(&infrastructure),
            ..then
        };
        assert!(parsed.stored(known).is_none());
        let gates = Gates {
            recreate: true,
            ..then.gates
        };
        assert!(parsed.stored(Surroundings { gates, ..then }).is_none());
        let others = sets(&json_set());
        assert!(parsed.stored(surroundings(&others)).is_none());
        let clone = parsed.clone();
        assert!(parsed.stored(then).is_some());
        assert!(clone.stored(surroundings(&others)).is_some(), "a clone is empty");
    }
}
