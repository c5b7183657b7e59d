//! The set as the cluster holds it, parsed once for a picture of the cluster.
//!
//! Most edits leave most of a set as it is stored, and a parse of that part says what it said
//! before. Nothing is taken on trust for it, neither a resourceVersion nor a name: the edited
//! object is compared with the stored one value by value, and what is not the same is parsed as
//! ever. Nothing here says whether an edit is allowed.

use std::sync::{Arc, OnceLock};

use serde::Deserialize as _;
use serde_json::Value;

use super::{Judged, Lookup, same_but_for_provider_spec, same_place};
use crate::api::config_openshift_io::infrastructure::Infrastructure;
use crate::api::machine_openshift_io::control_plane_machine_set::{
    API_VERSION, ControlPlaneMachineSet, KIND, MACHINE_TYPE, NAME,
};
use crate::cpms::defaults::provider_spec_defaults;
use crate::cpms::domains::Platform;
use crate::cpms::spec::{Gates, ParseContext, Spec, into_spec};

/// Room for the parsed set beside the objects of a picture. Filled by the first review that asks. A
/// copy of it is empty, so that a copy of a picture can be changed.
#[derive(Debug, Default)]
pub struct ParsedOnce(OnceLock<Option<Stored>>);

impl Clone for ParsedOnce {
    fn clone(&self) -> Self {
        Self::default()
    }
}

/// A stored set that is valid.
#[derive(Debug)]
pub(super) struct Stored {
    /// What it was parsed from. These are held, so that what is compared by its place is the same
    /// object.
    set: Arc<ControlPlaneMachineSet>,
    infrastructure: Option<Arc<Infrastructure>>,
    gates: Gates,
    /// The set as a review would hold it.
    tree: Value,
    /// The parsed set, with no provider spec in it.
    spec: Spec,
}

impl ParsedOnce {
    /// The parse result of an edited set that differs from the stored set in its provider spec
    /// only; `None` if the edited set must be parsed.
    pub(super) fn spec_of(&self, new: &Judged<'_>, lookup: &Lookup<'_>) -> Option<Spec> {
        self.stored(lookup)?.spec_of(new)
    }

    /// The set of these surroundings, if it is known and valid.
    fn stored(&self, lookup: &Lookup<'_>) -> Option<&Stored> {
        let set = lookup.sets?.iter().find(|set| set.metadata.name() == NAME)?;
        let stored = self.0.get_or_init(|| Stored::read(set, lookup)).as_ref()?;
        let infrastructure = match (&stored.infrastructure, lookup.infrastructure) {
            (Some(then), Some(now)) => Arc::ptr_eq(then, now),
            (then, now) => then.is_none() && now.is_none(),
        };
        (Arc::ptr_eq(&stored.set, set) && infrastructure && stored.gates == lookup.gates).then_some(stored)
    }
}

impl Stored {
    fn read(set: &Arc<ControlPlaneMachineSet>, lookup: &Lookup<'_>) -> Option<Self> {
        let mut tree = serde_json::to_value(&**set).ok()?;
        let fields = tree.as_object_mut()?;
        // A list leaves these out of its items.
        fields.insert("apiVersion".to_owned(), Value::from(API_VERSION));
        fields.insert("kind".to_owned(), Value::from(KIND));
        // As in what is read of a review.
        fields.remove("status");
        fields.get_mut("metadata")?.as_object_mut()?.remove("managedFields");
        let context = ParseContext {
            infrastructure: lookup.infrastructure(),
            gates: lookup.gates,
            ignore_gated_fields: false,
        };
        let mut spec = into_spec(ControlPlaneMachineSet::deserialize(&tree).ok()?, &context).ok()?;
        Arc::make_mut(&mut spec.template).provider_spec = Value::Null;
        Some(Self {
            set: Arc::clone(set),
            infrastructure: lookup.infrastructure.cloned(),
            gates: lookup.gates,
            tree,
            spec,
        })
    }

    /// What the parse would say of a set that differs from this one in its provider spec alone, and
    /// in nothing of it that the rest of the parse looks at; `None` of any other.
    fn spec_of(&self, new: &Judged<'_>) -> Option<Spec> {
        let own = self.tree.get("spec")?.get("template")?.get(MACHINE_TYPE)?;
        let own = own.get("spec")?.get("providerSpec")?.get("value")?;
        let wanted = new.provider_spec()?;
        if !same_place(own, wanted) || !same_but_for_provider_spec(&self.tree, new.object) {
            return None;
        }
        let mut spec = self.spec.clone();
        let template = Arc::make_mut(&mut spec.template);
        template.provider_spec = wanted.clone();
        provider_spec_defaults(Platform::of(wanted), &mut template.provider_spec);
        let generation = new
            .object
            .get("metadata")
            .and_then(|metadata| metadata.get("generation")?.as_i64());
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

    fn lookup<'a>(sets: &'a [Arc<ControlPlaneMachineSet>], parsed: &'a ParsedOnce) -> Lookup<'a> {
        Lookup {
            machines: None,
            sets: Some(sets),
            parsed,
            infrastructure: None,
            nodes: None,
            cluster_operators: None,
            gates: Gates::default(),
            feature_gate_unknown: false,
            namespace: "openshift-machine-api",
            wait_for_unknown: true,
        }
    }

    fn stored(set: &Value) -> Vec<Arc<ControlPlaneMachineSet>> {
        vec![Arc::new(serde_json::from_value(set.clone()).unwrap())]
    }

    #[test]
    fn a_set_that_differs_in_its_provider_spec_is_what_a_parse_makes_of_it() {
        let mut set = json_set();
        set["metadata"]["generation"] = json!(3);
        set["status"] = json!({"replicas": 3});
        let (sets, parsed) = (stored(&set), ParsedOnce::default());
        let lookup = lookup(&sets, &parsed);
        set.as_object_mut().unwrap().remove("status");
        for (field, value) in [
            ("instanceType", json!("m6i.4xlarge")),
            ("userDataSecret", json!({})),
            ("new", json!([1])),
        ] {
            let mut edited = set.clone();
            edited.pointer_mut(PROVIDER_SPEC).unwrap()[field] = value;
            edited["metadata"]["generation"] = json!(4);
            let judged = Judged::new(&edited, &lookup);
            let spec = parsed.stored(&lookup).unwrap().spec_of(&judged).expect("it is found");
            let mut whole = into_spec(serde_json::from_value(edited.clone()).unwrap(), &judged.context).unwrap();
            // A parse takes it out, and nobody reads it.
            Arc::make_mut(&mut whole.template).machine_spec.provider_spec.value = None;
            assert_eq!(spec, whole, "{field}");
        }
    }

    #[test]
    fn anything_else_that_differs_is_parsed() {
        let set = json_set();
        let (sets, parsed) = (stored(&set), ParsedOnce::default());
        let lookup = lookup(&sets, &parsed);
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
            let judged = Judged::new(&edited, &lookup);
            assert!(parsed.stored(&lookup).unwrap().spec_of(&judged).is_none(), "{edited}");
        }
    }

    #[test]
    fn what_was_parsed_in_other_surroundings_is_not_used() {
        let (sets, parsed) = (stored(&json_set()), ParsedOnce::default());
        let then = lookup(&sets, &parsed);
        assert!(parsed.stored(&then).is_some());
        let infrastructure = Arc::default();
        let known = Lookup {
            infrastructure: Some(&infrastructure),
            ..then
        };
        assert!(parsed.stored(&known).is_none());
        let gates = Gates {
            recreate: true,
            ..then.gates
        };
        assert!(parsed.stored(&Lookup { gates, ..then }).is_none());
        let others = stored(&json_set());
        assert!(
            parsed
                .stored(&Lookup {
                    sets: Some(&others),
                    ..then
                })
                .is_none()
        );
        // A copy begins anew.
        let copy = parsed.clone();
        assert!(
            copy.stored(&Lookup {
                sets: Some(&others),
                ..then
            })
            .is_some()
        );
    }
}
