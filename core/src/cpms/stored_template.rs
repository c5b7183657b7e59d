//! A template as the API server stores it.
//!
//! The webhooks of a cluster can drop, change and add fields, and a newer API server can know
//! fields that Capstan does not. One dry-run creation for each template shows what a machine of the
//! template is stored as. A field of a machine outdates it only if it differs both from the
//! template and from what is stored of the template.
//!
//! The module sends no request. It must never take a field for up to date that the API server would
//! store otherwise.

use std::sync::Arc;

use serde_json::Value;

use super::changes::{self, Comparison, FieldChange, MAX_CHANGES};
use super::spec::Template;
use super::stored_form;
use crate::api::machine_openshift_io::machine::Machine;
use crate::model::hex_hash;

/// The answer of the API server to the dry-run creation of a machine.
#[derive(Clone, Debug, PartialEq)]
pub struct StoredTemplate {
    /// The key of the template, from [`TemplateQuestion`].
    pub template: String,
    /// The provider spec that would be stored.
    pub provider_spec: Value,
}

/// A machine whose creation the API server is to be tried with, without storing it.
#[derive(Clone, Debug, PartialEq)]
pub struct TemplateQuestion {
    /// The key of the template.
    pub template: String,
    /// The machine.
    pub machine: Machine,
    /// Whether the API server answered before, and stores the template with other values. The
    /// webhook that changes machines may have been corrected since.
    pub again: bool,
}

/// A template, and what is known of how it is stored.
#[derive(Clone, Debug)]
pub struct KnownTemplate {
    /// The hash of the provider spec as it is in the set.
    pub key: String,
    /// Whether the provider spec has fields that its Go type does not have. Only the API server
    /// knows whether they are stored.
    pub has_unknown_fields: bool,
    /// What the API server stores; `None` while that is not known.
    pub stored: Option<Arc<StoredTemplate>>,
    /// The fields of the template that the API server drops, or stores with another value.
    pub lost: Vec<FieldChange>,
}

impl KnownTemplate {
    /// A template with the answer to its question, if it is among the answers.
    pub(crate) fn of(template: &Template, comparison: Comparison, answers: &[Arc<StoredTemplate>]) -> Self {
        let provider_spec = &template.provider_spec;
        let key = hex_hash(provider_spec, 16);
        let stored = answers.iter().find(|answer| answer.template == key).cloned();
        let lost = stored
            .as_ref()
            .map(|stored| changes::lost(provider_spec, &stored.provider_spec, comparison));
        Self {
            has_unknown_fields: stored_form::has_unknown_fields(provider_spec),
            key,
            stored,
            lost: lost.unwrap_or_default(),
        }
    }

    /// The fields in which a machine differs from the template.
    pub(crate) fn changes(&self, template: &Template, machine: &Value, comparison: Comparison) -> Vec<FieldChange> {
        let template = &template.provider_spec;
        let Some(stored) = &self.stored else {
            return changes::changes(template, machine, comparison);
        };
        let from_stored = changes::changes_of_all_fields(&stored.provider_spec, machine, comparison);
        if from_stored.is_empty() {
            return from_stored;
        }
        let mut found = changes::changes_of_all_fields(template, machine, comparison);
        // A list that was cut does not have all fields.
        if from_stored.len() > MAX_CHANGES || found.len() > MAX_CHANGES {
            return found;
        }
        found.retain(|change| {
            from_stored
                .iter()
                .any(|other| is_same_or_part(&change.field, &other.field))
        });
        found
    }
}

/// Whether one path is the other, or is within it.
fn is_same_or_part(left: &str, right: &str) -> bool {
    let within = |whole: &str, part: &str| {
        let rest = part.strip_prefix(whole);
        rest.is_some_and(|rest| rest.is_empty() || rest.starts_with(['.', '[']))
    };
    within(left, right) || within(right, left)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn paths_overlap_when_one_is_within_the_other() {
        for (left, right, overlap) in [
            ("disks", "disks[0].image", true),
            ("disks[0]", "disks[0]", true),
            ("disks[0].image", "disks[0].type", false),
            ("tag", "tags", false),
        ] {
            assert_eq!(is_same_or_part(left, right), overlap, "{left} {right}");
            assert_eq!(is_same_or_part(right, left), overlap, "{left} {right}");
        }
    }

    /// The fields in which a machine differs from a template that is stored with `stored` added.
    fn changed(template: &Value, stored: &Value, machine: &Value) -> Vec<String> {
        let of_kind = |value: &Value| {
            let mut value = value.clone();
            value["kind"] = json!("AWSMachineProviderConfig");
            value
        };
        let template = Template {
            provider_spec: of_kind(template),
            ..crate::cpms::simulation::World::new("a b c", "x")
                .spec()
                .template
                .as_ref()
                .clone()
        };
        let comparison = Comparison {
            domains: false,
            images: false,
        };
        let mut known = KnownTemplate::of(&template, comparison, &[]);
        let answer = StoredTemplate {
            template: known.key.clone(),
            provider_spec: of_kind(stored),
        };
        known = KnownTemplate::of(&template, comparison, &[Arc::new(answer)]);
        let changes = known.changes(&template, &of_kind(machine), comparison);
        changes.into_iter().map(|change| change.field).collect()
    }

    #[test]
    fn a_field_outdates_a_machine_if_it_differs_from_the_template_and_from_what_is_stored() {
        let tag = json!([{"name": "a", "value": "b"}]);
        let none: [&str; 0] = [];
        // A webhook drops keyName and adds tags.
        let (template, stored) = (
            json!({"keyName": "k", "instanceType": "l"}),
            json!({"instanceType": "l", "tags": tag}),
        );
        assert_eq!(changed(&template, &stored, &stored), none);
        assert_eq!(changed(&template, &stored, &template), none);
        assert_eq!(changed(&template, &stored, &json!({"instanceType": "l"})), none);
        assert_eq!(
            changed(&template, &stored, &json!({"instanceType": "m"})),
            ["instanceType"]
        );
        // The API server stores a field that Capstan does not know.
        let template = json!({"newField": 1});
        assert_eq!(changed(&template, &template, &json!({})), ["newField"]);
        assert_eq!(changed(&template, &json!({}), &json!({})), none);
    }
}
