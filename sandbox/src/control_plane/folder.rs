//! The folder of one running control plane: data, certificates, logs. It goes with its owner; what a killed owner left
//! behind, the next one removes.

use std::fs::{self, File, TryLockError};
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};

/// A folder that is removed when it is dropped.
#[derive(Debug)]
pub(super) struct Folder {
    folder: tempfile::TempDir,
    /// Locked as long as the owner lives; the kernel unlocks it when the owner dies. That is how a folder is known to
    /// be left behind.
    _alive: File,
}

const ALIVE: &str = ".alive";

impl Folder {
    /// Makes a folder under `runs`, readable by its owner only, after removing those whose owners are gone.
    pub(super) fn create(runs: &Path) -> Result<Self> {
        fs::create_dir_all(runs).with_context(|| format!("creating {}", runs.display()))?;
        // Between making a folder and locking it, it looks left behind. So one process at a time.
        let gate = runs.join(".lock");
        let gate = File::create(&gate).with_context(|| format!("creating {}", gate.display()))?;
        gate.lock().context("locking the folder of running control planes")?;
        remove_left_behind(runs);
        let folder = tempfile::Builder::new()
            .prefix("plane-")
            .tempdir_in(runs)
            .context("making a folder")?;
        let alive = File::create(folder.path().join(ALIVE)).context("making a folder's lock")?;
        alive.lock().context("locking a folder")?;
        Ok(Self { folder, _alive: alive })
    }

    pub(super) fn path(&self) -> &Path {
        self.folder.path()
    }

    /// Writes a file into the folder and returns its path.
    pub(super) fn write(&self, name: &str, text: &str) -> Result<PathBuf> {
        let path = self.path().join(name);
        fs::write(&path, text).with_context(|| format!("writing {}", path.display()))?;
        Ok(path)
    }
}

fn remove_left_behind(runs: &Path) {
    for entry in fs::read_dir(runs).into_iter().flatten().flatten() {
        let left_behind = match File::open(entry.path().join(ALIVE)) {
            Ok(alive) => !matches!(alive.try_lock(), Err(TryLockError::WouldBlock)),
            // No lock, while nobody makes folders: its owner died between the two steps, or half of it is removed
            // already.
            Err(_) => entry.file_name().to_string_lossy().starts_with("plane-"),
        };
        if left_behind {
            // Best effort: a folder that stays costs space, and the next start tries again.
            let _ = fs::remove_dir_all(entry.path());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_folder_that_was_left_behind_goes_and_one_in_use_stays() {
        let runs = tempfile::tempdir().unwrap();
        let used = Folder::create(runs.path()).unwrap();
        let left = Folder::create(runs.path()).unwrap();
        let left_path = left.path().to_path_buf();
        // As if its owner had been killed: unlocked, not removed.
        let Folder { folder, _alive: alive } = left;
        let _ = folder.keep();
        drop(alive);
        let new = Folder::create(runs.path()).unwrap();
        assert!(!left_path.exists());
        assert!(used.path().exists() && new.path().exists());
    }
}
