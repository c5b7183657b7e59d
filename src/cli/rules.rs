//! `capstan rules`: lists all rules, or shows some.

use std::io::Write as _;
use std::process::ExitCode;

use anyhow::{Context as _, ensure};
use capstan_core::admission::{Admission, Options};
use capstan_core::model::{RuleInfo, rule_link};
use serde_json::{Value, json};

use super::output::{pretty, yaml};

/// The text above the table.
const HEAD: &str = "# Rules

All rules that Capstan enforces. A refusal names its rule in brackets and ends with a link to this
page, except one of the schema, which the API server words itself. `capstan check -o json` and
`-o sarif` have the links of warnings too. The metric `capstan_decisions_total` has the rule as a
label. The enforcers are `schema`, the CRD; `policy`, the ValidatingAdmissionPolicies, which work
without the webhook; `webhook`, the server; and `offline`, `capstan check`.
`capstan rules -o markdown` prints this page.

";

/// List all rules, or those with the given ids, with their fields, demands and enforcers.
#[derive(Debug, clap::Args)]
pub struct Args {
    /// The ids of rules, as a refusal names them in brackets. The default is all rules.
    #[arg(value_name = "RULE-ID")]
    ids: Vec<String>,
    /// The output format.
    #[arg(short, long, value_enum, default_value = "text")]
    output: Output,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
enum Output {
    Text,
    Json,
    Yaml,
    Markdown,
}

/// Prints the list.
///
/// # Errors
/// A rule does not exist, or standard output cannot be written.
pub fn run(args: &Args) -> anyhow::Result<ExitCode> {
    let mut table = Admission::new(Options::default())
        .context("loading the built-in rules")?
        .table();
    for id in &args.ids {
        ensure!(
            table.iter().any(|rule| rule.id == *id),
            "{id} must be the id of a rule; `capstan rules` lists all ids"
        );
    }
    if !args.ids.is_empty() {
        table.retain(|rule| args.ids.contains(&rule.id));
    }
    let text = match args.output {
        Output::Text => table.iter().map(as_text).collect(),
        Output::Json => pretty(&as_values(&table))?,
        Output::Yaml => yaml(&as_values(&table))?,
        Output::Markdown => as_markdown(&table),
    };
    std::io::stdout()
        .write_all(text.as_bytes())
        .context("writing the list")?;
    Ok(ExitCode::SUCCESS)
}

fn as_values(table: &[RuleInfo]) -> Value {
    Value::from(table.iter().map(as_json).collect::<Vec<_>>())
}

fn operations(rule: &RuleInfo) -> Vec<&'static str> {
    rule.operations.iter().map(|operation| operation.as_str()).collect()
}

fn as_text(rule: &RuleInfo) -> String {
    format!(
        "{}\n  {} {}\n  {}\n  on {}; enforced by {}\n",
        rule.id,
        rule.kind,
        rule.path,
        rule.message,
        operations(rule).join(", "),
        rule.enforced_by.join(", ")
    )
}

fn as_json(rule: &RuleInfo) -> Value {
    json!({
        "id": rule.id,
        "kind": rule.kind,
        "path": rule.path,
        "message": rule.message,
        "operations": operations(rule),
        "enforcedBy": rule.enforced_by,
        "link": rule_link(&rule.id),
    })
}

/// The table of `docs/rules.md`.
fn as_markdown(table: &[RuleInfo]) -> String {
    let mut text = String::from(HEAD);
    text.push_str("| rule | field | demands | on | enforced by |\n|---|---|---|---|---|\n");
    for rule in table {
        text.push_str(&format!(
            "| <a id=\"{}\"></a>`{}` | {} `{}` | {} | {} | {} |\n",
            rule.id,
            rule.id,
            rule.kind,
            rule.path,
            rule.message.replace('|', "\\|"),
            operations(rule).join(", "),
            rule.enforced_by.join(", ")
        ));
    }
    text
}
