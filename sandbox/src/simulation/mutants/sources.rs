//! A copy of the sources of the repository, with some files changed, and its build.
//!
//! Mutants are compiled in a copy, so that the sources contain no code for them. A file is written
//! only if it differs, so that a second build compiles what changed.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context as _, Result, ensure};

/// The names of the files of a repository.
pub(super) fn names(repository: &Path) -> Result<Vec<String>> {
    let listed = Command::new("git").arg("-C").arg(repository).arg("ls-files").output();
    let listed = listed.context("listing the files of the repository")?;
    ensure!(
        listed.status.success(),
        "git must list the files of {}",
        repository.display()
    );
    let text = String::from_utf8(listed.stdout).context("reading the names of the files")?;
    Ok(text.lines().map(str::to_owned).collect())
}

/// Copies a repository. `changed` returns the new text of a file, or `None` if the file stays as it
/// is.
pub(super) fn copy(
    repository: &Path,
    folder: &Path,
    mut changed: impl FnMut(&str, &dyn Fn() -> Result<String>) -> Result<Option<String>>,
) -> Result<()> {
    for name in names(repository)? {
        let (from, to) = (repository.join(&name), folder.join(&name));
        let parent = to.parent().context("a file must have a folder")?;
        fs::create_dir_all(parent).with_context(|| format!("creating {}", parent.display()))?;
        let read = || fs::read_to_string(&from).with_context(|| format!("reading {name}"));
        let new = match changed(&name, &read)? {
            Some(text) => text.into_bytes(),
            None => fs::read(&from).with_context(|| format!("reading {name}"))?,
        };
        if fs::read(&to).is_ok_and(|old| old == new) {
            continue;
        }
        fs::write(&to, new).with_context(|| format!("writing {name}"))?;
    }
    Ok(())
}

/// Builds a copy with the dependencies of this build, if there is a common folder for them. Returns
/// the path of its `capstan-sandbox`, which no later build replaces. The profile is `fast` or
/// `release`.
pub(super) fn build(folder: &Path, profile: &str) -> Result<PathBuf> {
    let target = std::env::var_os("CARGO_TARGET_DIR").map_or_else(|| folder.join("target"), PathBuf::from);
    let arguments =
        format!("build --quiet --locked --profile {profile} --package capstan-sandbox --bin capstan-sandbox");
    let status = cargo(folder, &target).args(arguments.split(' ')).status();
    ensure!(status.context("starting cargo")?.success(), "the mutants must compile");
    let program = folder.join("capstan-sandbox");
    fs::copy(target.join(profile).join("capstan-sandbox"), &program).context("copying the program")?;
    Ok(program)
}

/// Cargo in a copy.
pub(super) fn cargo(folder: &Path, target: &Path) -> Command {
    let mut cargo = Command::new(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
    cargo.current_dir(folder).env("CARGO_TARGET_DIR", target);
    cargo
}
