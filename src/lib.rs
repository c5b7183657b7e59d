//! The shell of Capstan: it carries bytes in and writes out, and leaves every decision to [`capstan_core`].

pub mod cli;
pub mod controllers;
pub mod manifests;
pub mod runtime;
pub mod server;
pub mod tls;
