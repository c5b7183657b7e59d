//! The programs in `sandbox/neighbours`, each built once for each state of its sources.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result};
use sha2::{Digest as _, Sha256};

use crate::control_plane::{ControlPlane, Process, free_port};
use crate::environment::{Places, workspace};
use crate::go::{self, Program, report};

/// Identifies the way of building. Change it when a change in this file changes the programs.
const RECIPE: &str = "1: trimpath, no cgo, stripped\n";

/// The folder of a Go module in `sandbox/neighbours`.
pub(super) fn module(name: &str) -> PathBuf {
    workspace().join("sandbox/neighbours").join(name)
}

/// The program of a module, which is built if it is missing.
///
/// # Errors
/// Go is not installed, or the build fails.
pub(super) fn program(name: &str) -> Result<PathBuf> {
    program_of(name, ".")
}

/// As [`program`], from a package of a dependency that the module requires.
///
/// # Errors
/// Go is not installed, or the build fails.
pub(super) fn program_of(name: &str, package: &str) -> Result<PathBuf> {
    program_in(name, name, package)
}

/// As [`program_of`], for a module with several programs.
///
/// # Errors
/// Go is not installed, or the build fails.
pub(super) fn program_in(module_name: &str, name: &str, package: &str) -> Result<PathBuf> {
    let module = module(module_name);
    let cache = Places::from_environment().target.join("neighbours").join(key(&module)?);
    let built = cache.join(name);
    if built.is_file() {
        return Ok(built);
    }
    let go = go::locate(name)?;
    fs::create_dir_all(&cache).with_context(|| format!("creating {}", cache.display()))?;
    let _only_builder = go::lock(&cache)?;
    // Another process may have built it while this one waited.
    if !built.is_file() {
        report(&format!("building {name} with Go (once, up to ten minutes)"));
        let program = Program {
            name,
            package,
            linker_flags: "-s -w",
        };
        go::build(&go, &module, &program, &cache)?;
    }
    Ok(built)
}

/// A program that serves HTTPS on loopback beside a control plane. It stops when this is dropped.
#[derive(Debug)]
pub(super) struct Server {
    /// Its port.
    pub(super) port: u16,
    /// The certificate of the authority that signed its certificate, in PEM.
    pub(super) authority: String,
    _process: Process,
}

/// Starts the program of a module, which is built if it is missing, and waits until it is ready.
///
/// # Errors
/// The program cannot be built, or does not become ready.
pub(super) async fn serve(plane: &ControlPlane, name: &'static str, arguments: &[String]) -> Result<Server> {
    let program = tokio::task::spawn_blocking(move || program(name))
        .await
        .with_context(|| format!("building {name}"))??;
    let files = plane.serving_certificate(name)?;
    let port = free_port()?;
    let mut command = Command::new(program);
    command
        .arg(format!("--listen=127.0.0.1:{port}"))
        .arg(format!("--certificate={}", files.certificate.display()))
        .arg(format!("--key={}", files.key.display()))
        .args(arguments);
    let ready = format!("https://127.0.0.1:{port}/readyz");
    // A program can run several times beside one control plane, each time with a log.
    let process = plane.start_server(&format!("{name}-{port}"), command, &ready).await?;
    Ok(Server {
        port,
        authority: files.authority,
        _process: process,
    })
}

/// A hash of the sources of a module.
fn key(module: &Path) -> Result<String> {
    let mut files: Vec<PathBuf> = fs::read_dir(module)
        .and_then(|entries| entries.map(|entry| Ok(entry?.path())).collect())
        .with_context(|| format!("reading {}", module.display()))?;
    files.sort();
    let mut hash = Sha256::new();
    hash.update(RECIPE);
    for file in files {
        let text = fs::read(&file).with_context(|| format!("reading {}", file.display()))?;
        hash.update(file.file_name().unwrap_or_default().as_encoded_bytes());
        hash.update(text.len().to_le_bytes());
        hash.update(text);
    }
    Ok(hash
        .finalize()
        .iter()
        .take(6)
        .map(|byte| format!("{byte:02x}"))
        .collect())
}
