//! `capstan rules`: every rule there is.

use std::io::Write as _;
use std::process::ExitCode;

use anyhow::Context as _;
use capstan_core::admission::{Admission, Options};
use capstan_core::model::RuleInfo;
use serde_json::{Value, json};

use super::check::pretty;

/// What stands above the table.
const HEAD: &str = "# Rules

Every rule that Capstan enforces. A refusal names the rule in brackets, the metric `capstan_decisions_total` counts by it.
`schema`: the CRD; `policy`: the ValidatingAdmissionPolicies, which hold while the webhook is down; `webhook`: the server;
`offline`: `capstan check`. Printed by `capstan rules -o markdown`.

";

/// List every rule: what it demands, of which field, and who enforces it.
#[derive(Debug, clap::Args)]
pub struct Args {
    /// How the list is printed.
    #[arg(short, long, value_enum, default_value = "text")]
    output: Output,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
enum Output {
    Text,
    Json,
    Markdown,
}

/// Prints the list.
///
/// # Errors
/// When standard output is closed.
pub fn run(args: &Args) -> anyhow::Result<ExitCode> {
    let table = Admission::new(Options::default())
        .context("reading the rules that are built in")?
        .table();
    let text = match args.output {
        Output::Text => table.iter().map(as_text).collect(),
        Output::Json => pretty(&Value::from(table.iter().map(as_json).collect::<Vec<_>>()))?,
        Output::Markdown => as_markdown(&table),
    };
    std::io::stdout()
        .write_all(text.as_bytes())
        .context("writing the list")?;
    Ok(ExitCode::SUCCESS)
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
    })
}

/// The table of `docs/rules.md`.
fn as_markdown(table: &[RuleInfo]) -> String {
    let mut text = String::from(HEAD);
    text.push_str("| rule | field | demands | on | enforced by |\n|---|---|---|---|---|\n");
    for rule in table {
        text.push_str(&format!(
            "| `{}` | {} `{}` | {} | {} | {} |\n",
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
