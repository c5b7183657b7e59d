//! The output formats that several subcommands share.

/// The output format of a subcommand.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub(super) enum Output {
    Text,
    Json,
}
