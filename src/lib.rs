//! The shell of Capstan: server, TLS, controllers and command line. It does the I/O and leaves
//! every decision to [`capstan_core`].

pub mod cli;
pub mod controllers;
pub mod dashboard;
pub mod manifests;
pub mod runtime;
pub mod server;
pub mod tls;
pub mod workload;
