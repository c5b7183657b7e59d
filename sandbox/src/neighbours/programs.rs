//! The programs in `sandbox/neighbours`, each built once for each state of its sources.

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};
use sha2::{Digest as _, Sha256};

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
