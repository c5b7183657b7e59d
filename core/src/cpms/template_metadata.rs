//! Labels and annotations of the template that the API server refuses.
//!
//! The API server refuses a machine that has one of them. Admission refuses them in an edit. If a
//! set with one of them is stored already, machines are created and repaired without it, and the
//! set reports it. The module must never refuse a label or an annotation that the API server
//! accepts.
//!
//! Source: the validation of object metadata in `k8s.io/apimachinery`.

use std::collections::BTreeMap;

use crate::model::{is_label_key, is_label_value};

/// A label or an annotation that the API server refuses.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct InvalidMetadata {
    /// `labels` or `annotations`.
    pub field: &'static str,
    /// The key.
    pub key: String,
    /// The value.
    pub value: String,
    /// The requirement, which begins with "must".
    pub allowed: &'static str,
}

impl InvalidMetadata {
    /// Whether it is the label of this key.
    pub fn is_label(&self, key: &str) -> bool {
        self.field == "labels" && self.key == key
    }

    /// Whether it is the annotation of this key.
    pub fn is_annotation(&self, key: &str) -> bool {
        self.field == "annotations" && self.key == key
    }
}

impl std::fmt::Display for InvalidMetadata {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let kind = self.field.trim_end_matches('s');
        write!(
            f,
            "{kind} {:?} with the value {:?} {}",
            self.key, self.value, self.allowed
        )
    }
}

const KEY: &str = "must have a key of 1 to 63 letters, digits, '-', '_' and '.', which begins and ends with a letter or \
                   digit; a DNS subdomain and '/' may precede it";
const VALUE: &str = "must have a value of at most 63 letters, digits, '-', '_' and '.', which is empty or begins and ends \
                     with a letter or digit";

/// The labels and annotations that the API server refuses: labels first, each by key.
pub fn invalid_metadata(
    labels: &BTreeMap<String, String>,
    annotations: &BTreeMap<String, String>,
) -> Vec<InvalidMetadata> {
    let invalid = |field, key: &String, value: &String, allowed| InvalidMetadata {
        field,
        key: key.clone(),
        value: value.clone(),
        allowed,
    };
    let labels = labels.iter().filter_map(|(key, value)| {
        let allowed = match (is_label_key(key), is_label_value(value)) {
            (true, true) => return None,
            (false, _) => KEY,
            (true, false) => VALUE,
        };
        Some(invalid("labels", key, value, allowed))
    });
    // The API server ignores the case of the keys of annotations.
    let annotations = annotations
        .iter()
        .filter(|(key, _)| !is_label_key(&key.to_lowercase()))
        .map(|(key, value)| invalid("annotations", key, value, KEY));
    labels.chain(annotations).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn map(pairs: &[(&str, &str)]) -> BTreeMap<String, String> {
        let pairs = pairs.iter();
        pairs
            .map(|(key, value)| ((*key).to_owned(), (*value).to_owned()))
            .collect()
    }

    #[test]
    fn s6_labels_and_annotations_that_the_api_server_refuses_are_found() {
        let labels = map(&[
            ("team", "Infra Team"),
            ("a b", "c"),
            ("ok", ""),
            ("example.com/ok", "A.b-c_d"),
        ]);
        let annotations = map(&[("a/b/c", ""), ("Example.com/ok", "any value"), ("-a", "")]);
        let found = invalid_metadata(&labels, &annotations);
        let keys: Vec<(&str, &str)> = found.iter().map(|one| (one.field, one.key.as_str())).collect();
        assert_eq!(
            keys,
            [
                ("labels", "a b"),
                ("labels", "team"),
                ("annotations", "-a"),
                ("annotations", "a/b/c")
            ]
        );
        let text = found[1].to_string();
        assert!(
            text.starts_with("label \"team\" with the value \"Infra Team\" must have a value"),
            "{text}"
        );
    }
}
