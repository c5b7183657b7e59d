//! Formats the result of a check as SARIF 2.1.0, which code hosts show beside the lines.

use std::collections::BTreeSet;

use capstan_core::model::{RuleInfo, rule_link};
use serde_json::{Value, json};

use super::Row;

/// The hint of an API server that it did not judge every rule, because of other refusals.
const INCOMPLETE: &str = "schema-incomplete";

pub(super) fn report(rows: &[Row], rules: &[RuleInfo]) -> Value {
    let results: Vec<Value> = rows
        .iter()
        .flat_map(|row| {
            let refusals = row.checked.violations.iter().map(|violation| {
                let level = if violation.rule == INCOMPLETE { "note" } else { "error" };
                let text = match violation.has_field() {
                    true => violation.to_string(),
                    false => violation.plainly(),
                };
                result(row, &violation.rule, level, &text)
            });
            let bare = row
                .checked
                .status
                .as_ref()
                .filter(|_| row.checked.violations.is_empty());
            let bare = bare.map(|status| result(row, "check", "error", &status.message));
            let warnings = row
                .checked
                .warnings
                .iter()
                .map(|warning| result(row, &warning.rule, "warning", &warning.text));
            refusals.chain(bare).chain(warnings).collect::<Vec<_>>()
        })
        .collect();
    let mut rules: Vec<Value> = rules
        .iter()
        .map(|rule| {
            json!({ "id": rule.id, "shortDescription": { "text": rule.message }, "helpUri": rule_link(&rule.id) })
        })
        .collect();
    let known: BTreeSet<&str> = rules.iter().filter_map(|rule| rule["id"].as_str()).collect();
    let ids = results.iter().filter_map(|result| result["ruleId"].as_str());
    let others: BTreeSet<&str> = ids.filter(|id| !known.contains(id)).collect();
    rules.extend(others.into_iter().map(built_in).collect::<Vec<_>>());
    json!({
        "$schema": "https://json.schemastore.org/sarif-2.1.0.json",
        "version": "2.1.0",
        "runs": [{
            "tool": { "driver": { "name": "capstan", "version": env!("CARGO_PKG_VERSION"), "rules": rules } },
            "results": results,
        }],
    })
}

/// A rule of the API server, or of the command itself. It has no page.
fn built_in(id: &str) -> Value {
    let text = match id.starts_with("schema-") {
        true => "must fit the schema of the CustomResourceDefinition",
        false => "must be an object that the API server stores",
    };
    json!({ "id": id, "shortDescription": { "text": text } })
}

fn result(row: &Row, rule: &str, level: &str, text: &str) -> Value {
    json!({
        "ruleId": rule,
        "level": level,
        "message": { "text": text },
        "locations": [{
            "physicalLocation": {
                "artifactLocation": { "uri": row.document.file },
                "region": { "startLine": row.document.line },
            },
        }],
    })
}
