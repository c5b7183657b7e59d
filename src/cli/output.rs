//! The output formats that several subcommands share.

use std::borrow::Cow;

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

/// A text without control characters, which a terminal would obey: names of etcd members and
/// messages of conditions may contain any text.
pub(super) fn plain(text: &str) -> Cow<'_, str> {
    let is_control = |letter: char| letter.is_control() && !matches!(letter, '\n' | '\t');
    match text.contains(is_control) {
        true => Cow::Owned(text.replace(is_control, "\u{fffd}")),
        false => Cow::Borrowed(text),
    }
}

/// The same value as YAML.
///
/// # Errors
/// The value cannot be written; that would be a defect.
pub(super) fn yaml(value: &Value) -> anyhow::Result<String> {
    Ok(serde_saphyr::to_string(value)?)
}
