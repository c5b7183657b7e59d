//! The folders that the environment names, and the root of the workspace.

use std::env;
use std::ffi::OsStr;
use std::path::{Path, PathBuf};

/// The part of the environment that decides where binaries come from. Tests pass other values.
pub(crate) struct Places {
    /// `KUBEBUILDER_ASSETS`.
    pub(crate) assets: Option<PathBuf>,
    /// The folders of `PATH`.
    pub(crate) path: Vec<PathBuf>,
    /// The target folder of Cargo.
    pub(crate) target: PathBuf,
}

impl Places {
    /// Reads the environment.
    pub(crate) fn from_environment() -> Self {
        let set = |name: &str| env::var_os(name).filter(|value| !value.is_empty());
        Self {
            assets: set("KUBEBUILDER_ASSETS").map(PathBuf::from),
            path: env::var_os("PATH")
                .map(|path| env::split_paths(&path).collect())
                .unwrap_or_default(),
            // Cargo resolves a relative folder from the workspace, but runs a test in the folder of
            // its package. `join` of an absolute path is that path.
            target: workspace().join(set("CARGO_TARGET_DIR").unwrap_or_else(|| "target".into())),
        }
    }

    /// The file of a program on `PATH`.
    pub(crate) fn on_path(&self, name: impl AsRef<OsStr>) -> Option<PathBuf> {
        self.path
            .iter()
            .map(|folder| folder.join(name.as_ref()))
            .find(|file| file.is_file())
    }
}

/// The root of the workspace at compile time.
pub(crate) fn workspace() -> PathBuf {
    let package = Path::new(env!("CARGO_MANIFEST_DIR"));
    package.parent().unwrap_or(package).to_path_buf()
}
