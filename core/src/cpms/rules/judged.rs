//! An edited set as the rules see it: the JSON of the review, parsed on demand.

use std::cell::OnceCell;

use serde::Deserialize as _;
use serde_json::Value;

use super::equivalence::{are_same_except_provider_spec, have_same_place};
use super::lookup::Lookup;
use crate::api::machine_openshift_io::control_plane_machine_set::{ControlPlaneMachineSet, MACHINE_TYPE};
use crate::cpms::changes::{Comparison, ROLL_ON_IMAGE_CHANGE};
use crate::cpms::domains::Platform;
use crate::cpms::spec::{ParseContext, Parsed, Spec, into_parsed};
use crate::model::{FieldPath, Violation, ViolationKind};

/// A set as JSON, with the result of its parse.
pub(super) struct Judged<'a> {
    object: &'a Value,
    /// The machine template; `None` if it is absent or null.
    machine: Option<&'a Value>,
    /// The provider spec of the template; `None` if it is absent or null.
    provider_spec: Option<&'a Value>,
    context: ParseContext<'a>,
    parsed: OnceCell<Parsed>,
}

impl<'a> Judged<'a> {
    fn new(object: &'a Value, lookup: &Lookup<'a>) -> Self {
        let context = ParseContext {
            infrastructure: lookup.infrastructure(),
            gates: lookup.gates,
            ignore_gated_fields: false,
        };
        let there = |value: &&Value| !value.is_null();
        let machine = object
            .get("spec")
            .and_then(|spec| spec.get("template")?.get(MACHINE_TYPE));
        let machine = machine.filter(there);
        let provider_spec = machine.and_then(|machine| machine.get("spec")?.get("providerSpec")?.get("value"));
        Self {
            object,
            machine,
            provider_spec: provider_spec.filter(there),
            context,
            parsed: OnceCell::new(),
        }
    }

    pub(super) fn read(object: &'a Value, lookup: &Lookup<'a>) -> Result<Self, Box<Violation>> {
        let judged = Self::new(object, lookup);
        if let Some(spec) = lookup
            .parsed
            .spec_of(object, judged.provider_spec, lookup.surroundings())
        {
            judged.parsed.get_or_init(|| Parsed {
                spec: Some(spec),
                violations: Vec::new(),
            });
            return Ok(judged);
        }
        let set = ControlPlaneMachineSet::deserialize(object).map_err(|_| Box::new(unreadable(object)))?;
        judged.parsed.get_or_init(|| into_parsed(set, &judged.context));
        Ok(judged)
    }

    /// The set before the edit; `None` if it cannot be decoded. A set that differs from the edited
    /// set in the provider spec only can be decoded as well, and is parsed on demand.
    pub(super) fn read_old(object: &'a Value, new: &Self, lookup: &Lookup<'a>) -> Option<Self> {
        if are_same_except_provider_spec(object, new.object) {
            return Some(Self::new(object, lookup));
        }
        Self::read(object, lookup).ok()
    }

    fn parsed(&self) -> &Parsed {
        let parse = || match ControlPlaneMachineSet::deserialize(self.object) {
            Ok(set) => into_parsed(set, &self.context),
            Err(_) => Parsed::default(),
        };
        self.parsed.get_or_init(parse)
    }

    /// The parsed set, with defaults for fields that are not valid; `None` if no rule can judge it.
    pub(super) fn spec(&self) -> Option<&Spec> {
        self.parsed().spec.as_ref()
    }

    /// The violations of the parse.
    pub(super) fn violations(&self) -> &[Violation] {
        &self.parsed().violations
    }

    /// The parsed set before the edit `new`; `None` if no rule can judge it.
    ///
    /// If only the provider spec differs, and both name the same place, the rest of both parsed
    /// sets is the same. No rule reads the provider spec of the old set from here, so that the new
    /// set is returned instead of parsing the old one.
    pub(super) fn known<'s>(&'s self, new: &'s Self) -> Option<&'s Spec> {
        let unparsed = self.parsed.get().is_none();
        let specs = self.provider_spec().zip(new.provider_spec());
        let is_same = unparsed && specs.is_some_and(|(own, new)| have_same_place(own, new));
        match new.spec() {
            Some(spec) if is_same => Some(spec),
            _ => self.spec(),
        }
    }

    pub(super) fn machine(&self) -> Option<&'a Value> {
        self.machine
    }

    pub(super) fn text(&self, field: &str) -> Option<&'a str> {
        self.object.get("spec")?.get(field)?.as_str()
    }

    pub(super) fn replicas(&self) -> Option<i64> {
        self.object.get("spec")?.get("replicas")?.as_i64()
    }

    pub(super) fn is_active(&self) -> bool {
        self.text("state") == Some("Active")
    }

    pub(super) fn provider_spec(&self) -> Option<&'a Value> {
        self.provider_spec
    }

    /// The number of failure domains that the set lists, including duplicates.
    pub(super) fn listed_domains(&self) -> usize {
        let domains = || self.machine()?.get("failureDomains");
        let list = |domains: &'a Value| {
            let platform = Platform::from_name(domains.get("platform")?.as_str()?)?;
            domains.get(platform.member())?.as_array()
        };
        domains().and_then(list).map_or(0, Vec::len)
    }

    /// The platform that the failure domains name, or else the platform of the provider spec.
    pub(super) fn platform(&self) -> Option<&'a str> {
        let named = self
            .machine()?
            .get("failureDomains")
            .and_then(|domains| domains.get("platform")?.as_str());
        named
            .filter(|platform| !platform.is_empty())
            .or_else(|| self.provider_spec().and_then(Platform::of).map(Platform::name))
    }

    pub(super) fn kind(&self) -> Option<&'a str> {
        self.provider_spec()?.get("kind")?.as_str()
    }

    pub(super) fn annotation(&self, key: &str) -> Option<&'a str> {
        self.object.get("metadata")?.get("annotations")?.get(key)?.as_str()
    }

    /// Which fields a comparison of machines with the template takes into account.
    pub(super) fn comparison(&self) -> Comparison {
        Comparison {
            domains: self.spec().is_some_and(|spec| !spec.failure_domains.is_empty()),
            images: self.annotation(ROLL_ON_IMAGE_CHANGE) == Some("true"),
        }
    }
}

/// The field of a set that has another type than the schema, and its value. The set is decoded a
/// second time for this, because recording the path costs time in every review.
fn unreadable(object: &Value) -> Violation {
    let (path, why) = match serde_path_to_error::deserialize::<_, ControlPlaneMachineSet>(object) {
        Ok(_) => (FieldPath::root(), String::new()),
        Err(error) => (field_path(error.path()), error.inner().to_string()),
    };
    Violation::new("cpms-readable", path, ViolationKind::TypeInvalid, why)
        .advice("correct the type of the field; kubectl explain cpms --recursive names all of them")
}

fn field_path(path: &serde_path_to_error::Path) -> FieldPath {
    use serde_path_to_error::Segment;
    path.iter().fold(FieldPath::root(), |path, segment| match segment {
        Segment::Map { key } if key.contains(['.', '/']) => path.key(key),
        Segment::Map { key } => path.child(key),
        Segment::Seq { index } => path.index(*index),
        Segment::Enum { .. } | Segment::Unknown => path,
    })
}
