//! The output formats that several subcommands share.

use serde_json::Value;

/// The output format of a subcommand.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub(super) enum Output {
    Text,
    Json,
    Yaml,
}

/// A value as formatted JSON.
///
/// # Errors
/// The value cannot be written; that would be a defect.
pub(super) fn pretty(value: &Value) -> anyhow::Result<String> {
    Ok(format!("{}\n", serde_json::to_string_pretty(value)?))
}

/// The same value as YAML.
///
/// # Errors
/// The value cannot be written; that would be a defect.
pub(super) fn yaml(value: &Value) -> anyhow::Result<String> {
    Ok(serde_saphyr::to_string(value)?)
}
