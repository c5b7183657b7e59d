//! A line of a table: a field, when its value is an issue, why, and what to do.

use serde_json::Value;

use super::{ConversionIssue, Severity};
use crate::model::FieldPath;

/// When the value of a field is an issue. An absent field is one only for `Missing`.
#[derive(Clone, Copy, Debug)]
pub(super) enum When {
    /// Whenever it says anything: empty values say nothing.
    Present,
    /// When it is absent or empty.
    Missing,
    /// When it is text other than these.
    NotOneOf(&'static [&'static str]),
    /// When it is a number other than this.
    Not(i64),
    /// When it is this truth value.
    Is(bool),
    /// When it is a list of more than this many.
    MoreThan(usize),
    /// When it has a field that is not one of these.
    UnknownFields(&'static [&'static str]),
    /// When it is an object without any of these fields.
    WithoutAny(&'static [&'static str]),
    /// When more than one item of the list lacks this field.
    TwoWithout(&'static str),
    /// When two items of the list have the same value of this field.
    Twice(&'static str),
}

/// A line of a table.
#[derive(Clone, Copy, Debug)]
pub(super) struct Row {
    /// The field: dotted, `[]` is each item of a list. Empty for the value itself.
    at: &'static str,
    when: When,
    severity: Severity,
    reason: &'static str,
    way_out: &'static str,
}

/// A field that keeps the object from being converted.
pub(super) const fn blocks(at: &'static str, when: When, reason: &'static str, way_out: &'static str) -> Row {
    Row {
        at,
        when,
        severity: Severity::Blocks,
        reason,
        way_out,
    }
}

/// A field that is lost.
pub(super) const fn loses(at: &'static str, when: When, reason: &'static str, way_out: &'static str) -> Row {
    Row {
        at,
        when,
        severity: Severity::Loses,
        reason,
        way_out,
    }
}

/// Holds a value against a table; `root` is the path of the value in its object.
pub(super) fn judge(rows: &[Row], root: &str, value: &Value, found: &mut Vec<ConversionIssue>) {
    for row in rows {
        let steps: Vec<&str> = row.at.split('.').filter(|step| !step.is_empty()).collect();
        walk(row, &steps, FieldPath::new(root), value, found);
    }
}

fn walk(row: &Row, steps: &[&str], path: FieldPath, value: &Value, found: &mut Vec<ConversionIssue>) {
    let Some((step, rest)) = steps.split_first() else {
        return look(row, path, value, found);
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

fn look(row: &Row, path: FieldPath, value: &Value, found: &mut Vec<ConversionIssue>) {
    let mut report = |path: FieldPath| {
        found.push(ConversionIssue {
            severity: row.severity,
            path,
            reason: row.reason.to_owned(),
            way_out: row.way_out.to_owned(),
        });
    };
    let items = || value.as_array().map(Vec::as_slice).unwrap_or_default();
    let is_issue = match row.when {
        When::Present => !says_nothing(value),
        When::Missing => says_nothing(value),
        When::NotOneOf(words) => value.as_str().is_some_and(|word| !words.contains(&word)),
        When::Not(number) => value.as_i64().is_some_and(|found| found != number),
        When::Is(truth) => value.as_bool() == Some(truth),
        When::MoreThan(count) => items().len() > count,
        When::WithoutAny(fields) => {
            value.is_object() && fields.iter().all(|field| value.get(field).is_none_or(says_nothing))
        }
        When::TwoWithout(field) => items().iter().filter(|item| item.get(field).is_none()).count() > 1,
        When::Twice(field) => {
            let mut seen: Vec<&Value> = items().iter().filter_map(|item| item.get(field)).collect();
            let all = seen.len();
            seen.sort_by_key(|value| value.to_string());
            seen.dedup();
            seen.len() < all
        }
        When::UnknownFields(known) => {
            let fields = value.as_object().into_iter().flatten();
            for (field, _) in fields.filter(|(field, value)| !known.contains(&field.as_str()) && !says_nothing(value)) {
                report(path.child(field));
            }
            false
        }
    };
    if is_issue {
        report(path);
    }
}

/// Whether a value means the same as none.
fn says_nothing(value: &Value) -> bool {
    match value {
        Value::Null => true,
        Value::Bool(_) | Value::Number(_) => false,
        Value::String(text) => text.is_empty(),
        Value::Array(items) => items.is_empty(),
        Value::Object(map) => map.values().all(says_nothing),
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
    fn a_row_finds_each_item_and_names_it_by_its_position() {
        let row = blocks("list[].x", When::Present, "", "");
        let value = json!({"list": [{"x": ""}, {"x": 1}, {}, {"x": {"a": null}}, {"x": false}]});
        assert_eq!(paths(row, &value), ["spec.list[1].x", "spec.list[4].x"]);
    }

    #[test]
    fn each_condition_tells_an_issue_from_what_is_none() {
        for (when, fine, issue) in [
            (When::Missing, json!("a"), json!("")),
            (When::NotOneOf(&["a", ""]), json!("a"), json!("b")),
            (When::Not(0), json!(0), json!(1)),
            (When::Is(true), json!(false), json!(true)),
            (When::MoreThan(1), json!([1]), json!([1, 2])),
            (When::WithoutAny(&["id"]), json!({"id": "x"}), json!({"arn": "x"})),
            (When::TwoWithout("n"), json!([{"n": 1}, {}]), json!([{}, {}])),
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
