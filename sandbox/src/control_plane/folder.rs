//! The folder of one running control plane, with data, certificates and logs. It is removed with
//! its owner. If the owner was killed, the next control plane removes it.

use std::fs::{self, File, TryLockError};
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};

/// A folder that is removed when it is dropped.
#[derive(Debug)]
pub(super) struct Folder {
    folder: tempfile::TempDir,
    /// Locked while the owner is alive. The kernel unlocks it when the owner dies, which marks the
    /// folder as abandoned.
    _alive: File,
}

const ALIVE: &str = ".alive";

impl Folder {
    /// Creates a folder under `runs` that only its owner can read, and removes abandoned folders
    /// first.
    pub(super) fn create(runs: &Path) -> Result<Self> {
        fs::create_dir_all(runs).with_context(|| format!("creating {}", runs.display()))?;
        // A folder looks abandoned until its lock is taken. So only one process at a time creates
        // and removes folders.
        let gate = runs.join(".lock");
        let gate = File::create(&gate).with_context(|| format!("creating {}", gate.display()))?;
        gate.lock().context("locking the folder of running control planes")?;
        remove_abandoned(runs);
        let folder = tempfile::Builder::new()
            .prefix("plane-")
            .tempdir_in(runs)
            .context("creating a folder")?;
        let alive = File::create(folder.path().join(ALIVE)).context("creating the lock of a folder")?;
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

fn remove_abandoned(runs: &Path) {
    for entry in fs::read_dir(runs).into_iter().flatten().flatten() {
        let is_abandoned = match File::open(entry.path().join(ALIVE)) {
            Ok(alive) => !matches!(alive.try_lock(), Err(TryLockError::WouldBlock)),
            // A folder without a lock file is abandoned: its owner died before it created the file,
            // or an earlier removal was interrupted.
            Err(_) => entry.file_name().to_string_lossy().starts_with("plane-"),
        };
        if is_abandoned {
            // A failed removal is ignored, because the next start tries again.
            let _ = fs::remove_dir_all(entry.path());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_abandoned_folder_is_removed_and_one_in_use_is_kept() {
        let runs = tempfile::tempdir().unwrap();
        let used = Folder::create(runs.path()).unwrap();
        let left = Folder::create(runs.path()).unwrap();
        let left_path = left.path().to_path_buf();
        // The state after its owner was killed: unlocked and not removed.
        let Folder { folder, _alive: alive } = left;
        let _ = folder.keep();
        drop(alive);
        let new = Folder::create(runs.path()).unwrap();
        assert!(!left_path.exists());
        assert!(used.path().exists() && new.path().exists());
    }
}
