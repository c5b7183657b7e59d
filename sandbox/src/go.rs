//! Builds programs and downloads modules with Go.
//!
//! A program gets its final name when it is complete, so an interrupted build leaves no program.

use std::fs::{self, File};
use std::io::{self, Write as _};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use anyhow::{Context, Result, bail};
use rustix::process::Signal;
use serde_json::Value;

use crate::control_plane::{Tether, spawn_tethered};
use crate::environment::Places;

/// A program to build.
pub(crate) struct Program<'a> {
    /// The name of its file.
    pub(crate) name: &'a str,
    /// Its Go package.
    pub(crate) package: &'a str,
    /// The flags of the linker.
    pub(crate) linker_flags: &'a str,
}

/// The Go command.
///
/// # Errors
/// Go is not on `PATH`; the error says what to install. `purpose` is what needs it.
pub(crate) fn locate(purpose: &str) -> Result<PathBuf> {
    let go = Places::from_environment().on_path("go");
    go.with_context(|| format!("{purpose} needs Go 1.26 or newer on PATH: install it (https://go.dev/dl)"))
}

/// A Go command in the folder of a module, without the settings of other projects.
fn command(go: &Path, module: &Path) -> Command {
    let mut command = Command::new(go);
    command
        .current_dir(module)
        .stdin(Stdio::null())
        .env("CGO_ENABLED", "0")
        .env("GOFLAGS", "")
        .env("GOWORK", "off");
    command
}

/// Builds a program into the folder `cache`. The caller holds the [`lock`] of the folder.
///
/// # Errors
/// The build fails. Go has printed its own messages on standard error.
pub(crate) fn build(go: &Path, module: &Path, program: &Program<'_>, cache: &Path) -> Result<()> {
    let name = program.name;
    let unfinished = cache.join(format!(".{name}.unfinished"));
    let temporary = Places::from_environment().target.join("tmp");
    fs::create_dir_all(&temporary).with_context(|| format!("creating {}", temporary.display()))?;
    let mut command = command(go, module);
    command
        .args(["build", "-trimpath", "-ldflags", program.linker_flags, "-o"])
        .arg(&unfinished)
        .arg(program.package)
        // A linker writes a gigabyte, and a folder for temporary files may be in memory.
        .env("GOTMPDIR", &temporary)
        // The standard output belongs to the result of the calling program.
        .stdout(Stdio::null());
    // Go removes its work folder when it is interrupted. It stays in our process group, so that
    // Ctrl-C reaches the compilers too.
    let tether = Tether {
        signal: Signal::INT,
        own_group: false,
    };
    let status = spawn_tethered(command, tether)
        .and_then(|mut child| child.wait())
        .with_context(|| format!("running {}", go.display()))?;
    if !status.success() {
        bail!("building {name} with {} failed ({status})", go.display());
    }
    fs::rename(&unfinished, cache.join(name)).with_context(|| format!("moving {name} into {}", cache.display()))
}

/// The folder of a dependency in the module cache. Go downloads it if it is missing, in the version
/// that `path` ends with, as in `example.com/a@v1.0.0`, or else in the version that `go.mod` in
/// `module` requires, and verifies it by `go.sum`.
///
/// # Errors
/// Go cannot download the dependency.
pub(crate) fn dependency(go: &Path, module: &Path, path: &str) -> Result<PathBuf> {
    let output = command(go, module)
        .args(["mod", "download", "-json", path])
        .output()
        .with_context(|| format!("running {}", go.display()))?;
    let answer: Value = serde_json::from_slice(&output.stdout).unwrap_or_default();
    match answer.get("Dir").and_then(Value::as_str) {
        Some(folder) => Ok(folder.into()),
        None => bail!(
            "downloading {path} with {} failed: {}{}",
            go.display(),
            answer.get("Error").and_then(Value::as_str).unwrap_or_default(),
            String::from_utf8_lossy(&output.stderr)
        ),
    }
}

/// Waits for the exclusive right to build, which ends when the file is closed or the process dies.
pub(crate) fn lock(cache: &Path) -> Result<File> {
    let path = cache.join(".lock");
    let file = File::create(&path).with_context(|| format!("creating {}", path.display()))?;
    match file.try_lock() {
        Ok(()) => {}
        Err(fs::TryLockError::WouldBlock) => {
            report("another process is building the same programs; waiting for it");
            file.lock().with_context(|| format!("locking {}", path.display()))?;
        }
        Err(fs::TryLockError::Error(error)) => {
            return Err(error).with_context(|| format!("locking {}", path.display()));
        }
    }
    Ok(file)
}

/// Prints a line of progress. It writes to the stream itself because the test harness captures what
/// `eprintln!` prints, and a build without output would look like a hang.
pub(crate) fn report(line: &str) {
    // The build does not fail because its progress cannot be shown.
    let _ = io::stderr().write_all(format!("capstan-sandbox: {line}\n").as_bytes());
}
