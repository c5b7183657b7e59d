//! Which machines belong to a set: a label selector that is valid and not empty, and the labels of
//! a control plane machine (decision 24).

use std::collections::BTreeMap;
use std::fmt;

use crate::api::machine_openshift_io::label;
use crate::api::meta::LabelSelector;
use crate::model::{is_label_key, is_label_value};

/// The value of the role label and of the type label of a control plane machine.
pub const MASTER: &str = "master";

/// The labels of which each control plane machine has both, with the value [`MASTER`].
pub const MEMBER_LABELS: [&str; 2] = [label::ROLE, label::TYPE];

/// Whether a machine with these labels is a control plane machine.
pub fn is_control_plane(labels: &BTreeMap<String, String>) -> bool {
    MEMBER_LABELS
        .iter()
        .all(|key| labels.get(*key).is_some_and(|value| value == MASTER))
}

/// A label selector, parsed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Selector(Vec<Requirement>);

#[derive(Clone, Debug, PartialEq, Eq)]
enum Requirement {
    Equals(String, String),
    In(String, Vec<String>),
    NotIn(String, Vec<String>),
    Exists(String),
    DoesNotExist(String),
}

impl Selector {
    /// Parses a selector. The error is the path below the selector, and a clause that states what
    /// must be true.
    pub fn parse(selector: &LabelSelector) -> Result<Self, (String, String)> {
        let mut all: Vec<Requirement> = Vec::new();
        for (key, value) in &selector.match_labels {
            check_key(key).map_err(|text| (format!("matchLabels[{key}]"), text))?;
            check_value(value).map_err(|text| (format!("matchLabels[{key}]"), text))?;
            all.push(Requirement::Equals(key.clone(), value.clone()));
        }
        for (position, requirement) in selector.match_expressions.iter().enumerate() {
            let at = |field: &str| format!("matchExpressions[{position}].{field}");
            let (key, values) = (requirement.key.clone(), requirement.values.clone());
            check_key(&key).map_err(|text| (at("key"), text))?;
            values
                .iter()
                .try_for_each(|value| check_value(value))
                .map_err(|text| (at("values"), text))?;
            all.push(match (requirement.operator.as_str(), values.is_empty()) {
                ("In", false) => Requirement::In(key, values),
                ("NotIn", false) => Requirement::NotIn(key, values),
                ("Exists", true) => Requirement::Exists(key),
                ("DoesNotExist", true) => Requirement::DoesNotExist(key),
                ("In" | "NotIn", true) => {
                    return Err((at("values"), "must not be empty with operator In or NotIn".to_owned()));
                }
                ("Exists" | "DoesNotExist", false) => {
                    return Err((
                        at("values"),
                        "must be empty with operator Exists or DoesNotExist".to_owned(),
                    ));
                }
                _ => return Err((at("operator"), "must be In, NotIn, Exists or DoesNotExist".to_owned())),
            });
        }
        if all.is_empty() {
            // An empty selector matches all machines, including workers.
            return Err((String::new(), "must have at least one label or expression".to_owned()));
        }
        Ok(Self(all))
    }

    /// Whether a machine with these labels belongs to the set: it is a control plane machine, and
    /// the selector matches it.
    pub fn selects_member(&self, labels: &BTreeMap<String, String>) -> bool {
        is_control_plane(labels) && self.matches(labels)
    }

    /// Whether the selector matches only objects whose label `key` has this value.
    pub fn requires(&self, key: &str, value: &str) -> bool {
        self.0.iter().any(|requirement| match requirement {
            Requirement::Equals(there, only) => there == key && only == value,
            Requirement::In(there, values) => there == key && values.iter().all(|only| only == value),
            _ => false,
        })
    }

    /// Whether the selector matches these labels.
    pub fn matches(&self, labels: &BTreeMap<String, String>) -> bool {
        self.0.iter().all(|requirement| requirement.matches(labels))
    }

    /// The requirements that these labels do not meet: the key, and the requirement as text.
    pub fn failing(&self, labels: &BTreeMap<String, String>) -> impl Iterator<Item = (&str, String)> {
        let failing = self.0.iter().filter(|requirement| !requirement.matches(labels));
        failing.map(|requirement| (requirement.key(), requirement.to_string()))
    }
}

impl Requirement {
    fn key(&self) -> &str {
        match self {
            Self::Equals(key, _)
            | Self::In(key, _)
            | Self::NotIn(key, _)
            | Self::Exists(key)
            | Self::DoesNotExist(key) => key,
        }
    }

    fn matches(&self, labels: &BTreeMap<String, String>) -> bool {
        match self {
            Self::Equals(key, value) => labels.get(key) == Some(value),
            Self::In(key, values) => labels.get(key).is_some_and(|value| values.contains(value)),
            Self::NotIn(key, values) => labels.get(key).is_none_or(|value| !values.contains(value)),
            Self::Exists(key) => labels.contains_key(key),
            Self::DoesNotExist(key) => !labels.contains_key(key),
        }
    }
}

impl fmt::Display for Requirement {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Equals(key, value) => write!(f, "{key}={value}"),
            Self::In(key, values) => write!(f, "{key} in ({})", values.join(",")),
            Self::NotIn(key, values) => write!(f, "{key} notin ({})", values.join(",")),
            Self::Exists(key) => f.write_str(key),
            Self::DoesNotExist(key) => write!(f, "!{key}"),
        }
    }
}

/// The form of `kubectl get -l` and of the scale subresource.
impl fmt::Display for Selector {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (position, requirement) in self.0.iter().enumerate() {
            if position > 0 {
                f.write_str(",")?;
            }
            requirement.fmt(f)?;
        }
        Ok(())
    }
}

fn check_key(key: &str) -> Result<(), String> {
    if is_label_key(key) {
        Ok(())
    } else {
        Err(
            "must be a label key: a name of at most 63 letters, digits, '-', '_' and '.', with an optional DNS prefix"
                .to_owned(),
        )
    }
}

fn check_value(value: &str) -> Result<(), String> {
    if is_label_value(value) {
        Ok(())
    } else {
        Err("must be a label value: at most 63 letters, digits, '-', '_' and '.'".to_owned())
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn parse(selector: serde_json::Value) -> Result<Selector, (String, String)> {
        Selector::parse(&serde_json::from_value(selector).unwrap())
    }

    #[test]
    fn a_selector_matches_by_every_requirement() {
        let selector = parse(json!({"matchLabels": {"role": "master"}, "matchExpressions": [
            {"key": "type", "operator": "In", "values": ["master", "control-plane"]},
            {"key": "zone", "operator": "NotIn", "values": ["z"]},
            {"key": "cluster", "operator": "Exists"}, {"key": "old", "operator": "DoesNotExist"}]}))
        .unwrap();
        let labels = |pairs: &[(&str, &str)]| -> BTreeMap<String, String> {
            pairs
                .iter()
                .map(|(key, value)| ((*key).to_owned(), (*value).to_owned()))
                .collect()
        };
        assert!(selector.matches(&labels(&[("role", "master"), ("type", "master"), ("cluster", "c")])));
        assert!(!selector.matches(&labels(&[("role", "worker"), ("type", "master"), ("cluster", "c")])));
        assert!(!selector.matches(&labels(&[("role", "master"), ("type", "master")])));
        assert!(!selector.matches(&labels(&[
            ("role", "master"),
            ("type", "master"),
            ("cluster", "c"),
            ("zone", "z")
        ])));
        assert_eq!(
            selector.to_string(),
            "role=master,type in (master,control-plane),zone notin (z),cluster,!old"
        );
    }

    #[test]
    fn s3_only_machines_with_the_role_and_type_labels_are_members() {
        let wide = parse(json!({"matchLabels": {"cluster": "c"}})).unwrap();
        let labels = |role: &str, type_: &str| -> BTreeMap<String, String> {
            [(label::ROLE, role), (label::TYPE, type_), ("cluster", "c")]
                .map(|(key, value)| (key.to_owned(), value.to_owned()))
                .into()
        };
        assert!(wide.selects_member(&labels("master", "master")));
        for (role, type_) in [
            ("worker", "worker"),
            ("master", "worker"),
            ("infra", "master"),
            ("", ""),
        ] {
            assert!(wide.matches(&labels(role, type_)) && !wide.selects_member(&labels(role, type_)));
        }
        let narrow = parse(json!({"matchLabels": {label::ROLE: "master"},
            "matchExpressions": [{"key": label::TYPE, "operator": "In", "values": ["master"]}]}))
        .unwrap();
        assert!(MEMBER_LABELS.iter().all(|key| narrow.requires(key, MASTER)));
        let open = parse(json!({"matchExpressions": [
            {"key": label::TYPE, "operator": "In", "values": ["master", "worker"]},
            {"key": label::ROLE, "operator": "Exists"}]}))
        .unwrap();
        assert!(!MEMBER_LABELS.iter().any(|key| open.requires(key, MASTER)));
    }

    #[test]
    fn an_empty_or_invalid_selector_is_refused() {
        let path = |selector| parse(selector).unwrap_err().0;
        assert_eq!(path(json!({})), "");
        assert_eq!(
            path(json!({"matchExpressions": [{"key": "a", "operator": "In"}]})),
            "matchExpressions[0].values"
        );
        assert_eq!(
            path(json!({"matchExpressions": [{"key": "a", "operator": "Is"}]})),
            "matchExpressions[0].operator"
        );
        assert_eq!(
            path(json!({"matchExpressions": [{"key": "", "operator": "Exists"}]})),
            "matchExpressions[0].key"
        );
        assert_eq!(path(json!({"matchLabels": {"a": "b c"}})), "matchLabels[a]");
    }
}
