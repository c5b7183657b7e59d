//! The rows of the conversion tables: a field, the condition that makes its value an issue, the
//! reason and the remedy.

use serde_json::Value;

use super::{ConversionIssue, Severity};
use crate::model::FieldPath;

/// The condition that makes the value of a field an issue. An absent field is an issue only for
/// `Missing`.
#[derive(Clone, Copy, Debug)]
pub(super) enum When {
    /// The value is not empty.
    Present,
    /// The value is absent or empty.
    Missing,
    /// The value is a string other than these.
    NotOneOf(&'static [&'static str]),
    /// The value is a number other than this.
    Not(i64),
    /// The value is this boolean.
    Is(bool),
    /// The value is a list with more than this many items.
    MoreThan(usize),
    /// The value has a field that is not one of these.
    UnknownFields(&'static [&'static str]),
    /// The value is an object without any of these fields.
    WithoutAny(&'static [&'static str]),
    /// More than one item of the list lacks this field.
    SeveralWithout(&'static str),
    /// Two items of the list have the same value in this field.
    Twice(&'static str),
}

/// A row of a table.
#[derive(Clone, Copy, Debug)]
pub(super) struct Row {
    /// The dotted path of the field; `[]` stands for each item of a list. Empty for the value
    /// itself.
    at: &'static str,
    when: When,
    severity: Severity,
    reason: &'static str,
    remedy: &'static str,
}

/// A row for a field that prevents the conversion of the object.
pub(super) const fn blocks(at: &'static str, when: When, reason: &'static str, remedy: &'static str) -> Row {
    Row {
        at,
        when,
        severity: Severity::Blocks,
        reason,
        remedy,
    }
}

/// A row for a field whose value is lost.
pub(super) const fn loses(at: &'static str, when: When, reason: &'static str, remedy: &'static str) -> Row {
    Row {
        at,
        when,
        severity: Severity::Loses,
        reason,
        remedy,
    }
}

/// Finds the rows that apply to a value; `root` is the path of the value in its object.
pub(super) fn judge(rows: &[Row], root: &str, value: &Value, found: &mut Vec<ConversionIssue>) {
    for row in rows {
        let steps: Vec<&str> = row.at.split('.').filter(|step| !step.is_empty()).collect();
        walk(row, &steps, FieldPath::new(root), value, found);
    }
}

fn walk(row: &Row, steps: &[&str], path: FieldPath, value: &Value, found: &mut Vec<ConversionIssue>) {
    let Some((step, rest)) = steps.split_first() else {
        return apply(row, path, value, found);
    };
    let (field, items) = match step.strip_suffix("[]") {
        Some(field) => (field, true),
        None => (*step, false),
    };
    let path = if field.is_empty() { path } else { path.child(field) };
    let next = if field.is_empty() {
        value
    } else {
        value.get(field).unwrap_or(&Value::Null)
    };
    if !items {
        return walk(row, rest, path, next, found);
    }
    for (index, item) in next.as_array().into_iter().flatten().enumerate() {
        walk(row, rest, path.index(index), item, found);
    }
}

fn apply(row: &Row, path: FieldPath, value: &Value, found: &mut Vec<ConversionIssue>) {
    let mut report = |path: FieldPath| {
        found.push(ConversionIssue {
            severity: row.severity,
            path,
            reason: row.reason.to_owned(),
            remedy: row.remedy.to_owned(),
        });
    };
    let items = || value.as_array().map(Vec::as_slice).unwrap_or_default();
    let is_issue = match row.when {
        When::Present => !is_empty(value),
        When::Missing => is_empty(value),
        When::NotOneOf(words) => value.as_str().is_some_and(|word| !words.contains(&word)),
        When::Not(number) => value.as_i64().is_some_and(|found| found != number),
        When::Is(truth) => value.as_bool() == Some(truth),
        When::MoreThan(count) => items().len() > count,
        When::WithoutAny(fields) => {
            value.is_object() && fields.iter().all(|field| value.get(field).is_none_or(is_empty))
        }
        When::SeveralWithout(field) => items().iter().filter(|item| item.get(field).is_none()).count() > 1,
        When::Twice(field) => {
            let mut seen: Vec<&Value> = items().iter().filter_map(|item| item.get(field)).collect();
            let all = seen.len();
            seen.sort_by_key(|value| value.to_string());
            seen.dedup();
            seen.len() < all
        }
        When::UnknownFields(known) => {
            let fields = value.as_object().into_iter().flatten();
            for (field, _) in fields.filter(|(field, value)| !known.contains(&field.as_str()) && !is_empty(value)) {
                report(path.child(field));
            }
            false
        }
    };
    if is_issue {
        report(path);
    }
}

/// Whether a value means the same as an absent field.
fn is_empty(value: &Value) -> bool {
    match value {
        Value::Null => true,
        Value::Bool(_) | Value::Number(_) => false,
        Value::String(text) => text.is_empty(),
        Value::Array(items) => items.is_empty(),
        Value::Object(map) => map.values().all(is_empty),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn paths(row: Row, value: &Value) -> Vec<String> {
        let mut found = Vec::new();
        judge(&[row], "spec", value, &mut found);
        found.iter().map(|issue| issue.path.as_str().to_owned()).collect()
    }

    #[test]
    fn a_row_applies_to_each_list_item_and_names_its_index() {
        let row = blocks("list[].x", When::Present, "", "");
        let value = json!({"list": [{"x": ""}, {"x": 1}, {}, {"x": {"a": null}}, {"x": false}]});
        assert_eq!(paths(row, &value), ["spec.list[1].x", "spec.list[4].x"]);
    }

    #[test]
    fn each_condition_separates_issues_from_allowed_values() {
        for (when, fine, issue) in [
            (When::Missing, json!("a"), json!("")),
            (When::NotOneOf(&["a", ""]), json!("a"), json!("b")),
            (When::Not(0), json!(0), json!(1)),
            (When::Is(true), json!(false), json!(true)),
            (When::MoreThan(1), json!([1]), json!([1, 2])),
            (When::WithoutAny(&["id"]), json!({"id": "x"}), json!({"arn": "x"})),
            (When::SeveralWithout("n"), json!([{"n": 1}, {}]), json!([{}, {}])),
            (
                When::Twice("n"),
                json!([{"n": 1}, {"n": 2}]),
                json!([{"n": 1}, {"n": 1}]),
            ),
        ] {
            let row = blocks("x", when, "", "");
            assert_eq!(paths(row, &json!({"x": fine})), Vec::<String>::new(), "{when:?}");
            assert_eq!(paths(row, &json!({"x": issue})), ["spec.x"], "{when:?}");
        }
        let row = blocks("", When::UnknownFields(&["a"]), "", "");
        assert_eq!(paths(row, &json!({"a": 1, "b": 2, "c": null})), ["spec.b"]);
    }
}
