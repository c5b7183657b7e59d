//! The `capstan` binary: the allocator and the crypto provider of the process. Everything else is
//! in the library.

use std::process::ExitCode;

use clap::Parser;

/// Parsing a review mostly allocates; this allocator reduces its CPU time by a fifth to a half.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

fn main() -> ExitCode {
    // This comes first, because a TLS client that is built without a provider panics. An error
    // means that a provider is already installed.
    let _already_installed = rustls::crypto::aws_lc_rs::default_provider().install_default();
    capstan::cli::main(capstan::cli::Cli::parse())
}
