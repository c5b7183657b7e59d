//! What the status of an object of the Machine API records of a migration, so that it can come
//! back: the API that was authoritative, and the generation that was copied.
//!
//! A CRD without these fields drops them. Then a migration that has begun has no source, and both
//! objects stay locked. So a migration begins only after both fields are stored. If the source of a
//! migration is not recorded, the records of the mirrors tell it, but only for the way back: while
//! an API is authoritative, the other object has the record of a mirror, and its own object has
//! none.
//!
//! Must never: name the source of a migration if the records of the two objects contradict each
//! other.

use serde_json::Value;

use super::record::Record;
use super::report::Synchronized;
use super::spec::{Api, Authority, Kind, PairMember};

/// The reason of the condition Synchronized while the CRD drops a field that a migration needs.
pub const NOT_STORED: &str = "StatusNotStored";
/// The fields of the status that a migration needs to come back.
const FIELDS: [&str; 2] = ["synchronizedAPI", "synchronizedGeneration"];

/// The fields that the status of an object does not have. `generation` is that of the authoritative
/// object.
pub(super) fn missing(machine_api: &PairMember, generation: Option<i64>) -> Vec<&'static str> {
    let is_missing = [
        machine_api.synchronized_api.is_none(),
        generation.is_some() && machine_api.synchronized_generation.is_none(),
    ];
    let fields = FIELDS.into_iter().zip(is_missing);
    fields
        .filter_map(|(field, is_missing)| is_missing.then_some(field))
        .collect()
}

/// Whether a write of the condition Synchronized stored no missing field: each write that changes
/// the condition has the fields too.
pub(super) fn is_tried(machine_api: &PairMember, agrees: &Synchronized) -> bool {
    let known = machine_api.synchronized.as_ref();
    known.is_some_and(|known| {
        let is_written = known.is_true() && known.reason == agrees.reason && known.message == agrees.message;
        is_written || known.reason == NOT_STORED
    })
}

/// Why a migration from an API does not begin while the status does not have these fields.
pub(super) fn not_stored(kind: Kind, from: Api, fields: &[&str]) -> String {
    let (kind, from) = (kind.title(), from.as_str());
    format!(
        "{}; set spec.authoritativeAPI back to {from}, and request the migration again",
        dropped(kind, fields)
    )
}

/// Which fields the CRD of a kind of the Machine API drops, and what to do.
pub fn dropped(kind: &str, fields: &[&str]) -> String {
    let fields: Vec<String> = fields.iter().map(|field| format!("status.{field}")).collect();
    format!(
        "the CRD of {kind}s in the Machine API does not store {}, which a migration needs to be taken \
         back; install a CRD that has the field: capstan manifests crds prints one",
        fields.join(" and ")
    )
}

/// The fields of the status that a CustomResourceDefinition drops from the objects of a version.
/// Empty if it does not serve the version.
pub fn dropped_by(definition: &Value, version: &str) -> Vec<&'static str> {
    let versions = definition.pointer("/spec/versions").and_then(Value::as_array);
    let mut versions = versions.into_iter().flatten();
    let version = versions.find(|known| known.get("name").and_then(Value::as_str) == Some(version));
    let Some(root) = version.and_then(|version| version.pointer("/schema/openAPIV3Schema")) else {
        return Vec::new();
    };
    let keeps = |schema: &Value| schema.get("x-kubernetes-preserve-unknown-fields") == Some(&Value::Bool(true));
    let status = root.pointer("/properties/status");
    if keeps(root) || status.is_some_and(keeps) {
        return Vec::new();
    }
    let has = |field: &&str| {
        let properties = status.and_then(|status| status.get("properties"));
        properties.is_some_and(|properties| properties.get(*field).is_some())
    };
    FIELDS.into_iter().filter(|field| !has(field)).collect()
}

/// The API that was authoritative before a migration began, if the status does not record it: the
/// one from which the object of the other API was copied last. `None` if the records do not tell.
pub fn source(machine_api: &PairMember, cluster_api: Option<&PairMember>) -> Option<Api> {
    if machine_api.status_authority != Some(Authority::Migrating) || machine_api.synchronized_api.is_some() {
        return None;
    }
    let cluster_api = cluster_api?;
    let copied = |copy: &PairMember, of: &PairMember, api: Api| Record::is_copy_from(copy, api) && !Record::is_on(of);
    if copied(cluster_api, machine_api, Api::MachineApi) {
        return Some(Api::MachineApi);
    }
    copied(machine_api, cluster_api, Api::ClusterApi).then_some(Api::ClusterApi)
}

/// Why a migration without a recorded source does not continue, and what a user does. `source` is
/// the API that [`source`] found.
pub fn stopped(source: Option<Api>) -> String {
    let stopped = "status.authoritativeAPI is Migrating and status.synchronizedAPI is empty";
    match source {
        Some(api) => format!(
            "{stopped}; the other object was copied from {}: set spec.authoritativeAPI to {}, and the migration is \
             taken back",
            api.title(),
            api.as_str()
        ),
        None => format!(
            "{stopped}, so it is not known which API was authoritative; find out whose controllers hold the \
             instance, and set status.synchronizedAPI to that API with kubectl patch --subresource=status; \
             if the field is not stored, install a CRD that has it first: capstan manifests crds prints one"
        ),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::api::machine_openshift_io::authority::MIRRORED;

    fn member(record: Option<&str>, status: &Value) -> PairMember {
        let record = record.map(|from| json!({ "from": from }).to_string());
        let annotations = record.map(|record| json!({ MIRRORED: record }));
        PairMember::read(&json!({"metadata": {"annotations": annotations}, "status": status}))
    }

    #[test]
    fn the_source_is_named_only_if_one_object_is_a_copy_of_the_other() {
        let migrating = json!({"authoritativeAPI": "Migrating"});
        let found = |here: Option<&str>, there: Option<&str>| {
            let (here, there) = (member(here, &migrating), member(there, &json!({})));
            source(&here, Some(&there))
        };
        assert_eq!(found(None, Some("MachineAPI")), Some(Api::MachineApi));
        assert_eq!(found(Some("ClusterAPI"), None), Some(Api::ClusterApi));
        for (here, there) in [
            (None, None),
            (Some("ClusterAPI"), Some("MachineAPI")),
            (Some("MachineAPI"), None),
            (None, Some("ClusterAPI")),
            (None, Some("?")),
            (Some("?"), Some("MachineAPI")),
        ] {
            assert_eq!(found(here, there), None, "{here:?} {there:?}");
        }
        let copy = member(Some("MachineAPI"), &json!({}));
        assert_eq!(source(&member(None, &migrating), None), None);
        assert_eq!(
            source(&member(None, &json!({"authoritativeAPI": "MachineAPI"})), Some(&copy)),
            None
        );
        let recorded = json!({"authoritativeAPI": "Migrating", "synchronizedAPI": "ClusterAPI"});
        assert_eq!(source(&member(None, &recorded), Some(&copy)), None);
    }

    #[test]
    fn a_definition_drops_the_fields_that_its_schema_does_not_have() {
        let definition = |status: Value| {
            json!({"spec": {"versions": [{"name": "v1beta1", "schema": {"openAPIV3Schema": {
                "properties": {"status": status}}}}]}})
        };
        let field = json!({"type": "string"});
        let none: [&str; 0] = [];
        for (status, expected) in [
            (json!({}), &FIELDS[..]),
            (json!({"properties": {"synchronizedGeneration": field}}), &FIELDS[..1]),
            (
                json!({"properties": {"synchronizedGeneration": field, "synchronizedAPI": field}}),
                &none[..],
            ),
            (json!({"x-kubernetes-preserve-unknown-fields": true}), &none[..]),
        ] {
            assert_eq!(dropped_by(&definition(status), "v1beta1"), expected);
        }
        assert_eq!(dropped_by(&definition(json!({})), "v1"), none);
    }
}
