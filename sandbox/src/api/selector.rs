//! Label and field selectors.

use serde_json::Value;

use super::failure::Failure;
use super::object::Fields;

/// Selects the objects that satisfy every requirement.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Selector {
    labels: Vec<Requirement>,
    fields: Vec<(String, bool, String)>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum Requirement {
    In(String, Vec<String>),
    NotIn(String, Vec<String>),
    Exists(String),
    Absent(String),
}

impl Selector {
    /// Reads the two query parameters.
    ///
    /// # Errors
    /// 400 if a text is not a selector, or if it names a field other than name and namespace.
    pub fn parse(labels: &str, fields: &str) -> Result<Self, Failure> {
        let labels = split(labels).into_iter().map(requirement).collect::<Result<_, _>>()?;
        let mut parsed = Vec::new();
        for text in fields.split(',').filter(|text| !text.is_empty()) {
            let (field, negated, value) = if let Some((field, value)) = text.split_once("!=") {
                (field, true, value)
            } else if let Some((field, value)) = text.split_once("==").or_else(|| text.split_once('=')) {
                (field, false, value)
            } else {
                return Err(Failure::bad_request(format!("invalid selector: '{text}'")));
            };
            if !matches!(field, "metadata.name" | "metadata.namespace") {
                return Err(Failure::bad_request(format!("field label not supported: {field}")));
            }
            parsed.push((field.to_owned(), negated, value.to_owned()));
        }
        Ok(Self { labels, fields: parsed })
    }

    /// Whether every object matches.
    pub fn is_empty(&self) -> bool {
        self.labels.is_empty() && self.fields.is_empty()
    }

    /// Whether an object matches.
    pub fn matches(&self, object: &impl Fields) -> bool {
        let Some(meta) = object.field("metadata") else {
            return self.is_empty();
        };
        let label = |key: &str| meta.get("labels").and_then(|labels| labels.get(key)?.as_str());
        let labels = self.labels.iter().all(|requirement| match requirement {
            Requirement::In(key, values) => label(key).is_some_and(|value| values.iter().any(|v| v == value)),
            Requirement::NotIn(key, values) => label(key).is_none_or(|value| values.iter().all(|v| v != value)),
            Requirement::Exists(key) => label(key).is_some(),
            Requirement::Absent(key) => label(key).is_none(),
        });
        labels
            && self.fields.iter().all(|(field, negated, wanted)| {
                let short = field.trim_start_matches("metadata.");
                let value = meta.get(short).and_then(Value::as_str).unwrap_or_default();
                (value == wanted) != *negated
            })
    }
}

/// Splits a text at the commas outside parentheses.
fn split(text: &str) -> Vec<&str> {
    let (mut parts, mut depth, mut start) = (Vec::new(), 0_usize, 0);
    for (at, character) in text.char_indices() {
        match character {
            '(' => depth += 1,
            ')' => depth = depth.saturating_sub(1),
            ',' if depth == 0 => {
                parts.push(text.get(start..at).unwrap_or_default());
                start = at + 1;
            }
            _ => {}
        }
    }
    parts.push(text.get(start..).unwrap_or_default());
    parts
        .into_iter()
        .map(str::trim)
        .filter(|part| !part.is_empty())
        .collect()
}

fn requirement(text: &str) -> Result<Requirement, Failure> {
    let bad = || Failure::bad_request(format!("unable to parse requirement: {text:?}"));
    let set = |rest: &str| -> Result<Vec<String>, Failure> {
        let inner = rest.trim().strip_prefix('(').and_then(|rest| rest.strip_suffix(')'));
        Ok(inner
            .ok_or_else(bad)?
            .split(',')
            .map(|value| value.trim().to_owned())
            .collect())
    };
    if text.starts_with('=') || text.starts_with("!=") {
        return Err(bad());
    }
    if let Some((key, rest)) = text.split_once(" notin ") {
        return Ok(Requirement::NotIn(key.trim().to_owned(), set(rest)?));
    }
    if let Some((key, rest)) = text.split_once(" in ") {
        return Ok(Requirement::In(key.trim().to_owned(), set(rest)?));
    }
    let one = |value: &str| vec![value.trim().to_owned()];
    if let Some((key, value)) = text.split_once("!=") {
        return Ok(Requirement::NotIn(key.trim().to_owned(), one(value)));
    }
    if let Some((key, value)) = text.split_once("==").or_else(|| text.split_once('=')) {
        return Ok(Requirement::In(key.trim().to_owned(), one(value)));
    }
    let valid = |key: &str| !key.is_empty() && !key.contains([' ', '(', ')', '!']);
    match text.strip_prefix('!') {
        Some(key) if valid(key.trim()) => Ok(Requirement::Absent(key.trim().to_owned())),
        None if valid(text) => Ok(Requirement::Exists(text.to_owned())),
        _ => Err(bad()),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn every_form_of_a_requirement_is_parsed() {
        let object = json!({"metadata": {"name": "x", "labels": {"a": "1", "b": "2"}}});
        for (text, matches) in [
            ("", true),
            ("a=1", true),
            ("a==1,b!=3", true),
            ("a in (1,2),c notin (1)", true),
            ("a,!c", true),
            ("!a", false),
            ("b in (1)", false),
            ("c", false),
        ] {
            assert_eq!(Selector::parse(text, "").unwrap().matches(&object), matches, "{text}");
        }
        assert!(Selector::parse("", "metadata.name=x").unwrap().matches(&object));
        assert!(!Selector::parse("", "metadata.name!=x").unwrap().matches(&object));
        assert_eq!(Selector::parse("", "spec.x=1").unwrap_err().code, 400);
        assert_eq!(Selector::parse("a in 1", "").unwrap_err().code, 400);
    }
}
