//! Decides where the binaries come from: `KUBEBUILDER_ASSETS`, the cache under `target/kube`, or a
//! build with Go.
//!
//! It must never replace a folder that the user named by another one without an error, and never
//! start a build that cannot finish.

use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail};
use sha2::{Digest, Sha256};

use super::build;
use super::tool::Tool;
use crate::environment::{Places, workspace};

/// The paths of the binaries; each file exists.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Binaries {
    /// etcd.
    pub etcd: PathBuf,
    /// The API server.
    pub kube_apiserver: PathBuf,
    /// The controller manager, which runs the garbage collector and the namespace controller.
    pub kube_controller_manager: PathBuf,
    /// The command line client.
    pub kubectl: PathBuf,
    /// The same client, for many calls in one process. `None` if `KUBEBUILDER_ASSETS` names a
    /// folder, whose kubectl may have another version, and if it cannot be built without Go.
    pub kubectl_session: Option<PathBuf>,
}

impl Binaries {
    /// Finds the binaries, and builds those that are missing. A build takes about four minutes and
    /// is repeated only when the pinned versions change. The call blocks and reports progress on
    /// standard error. Only one process builds at a time.
    ///
    /// # Errors
    /// Neither the binaries nor Go are installed, in which case one line names what to install; or
    /// a step of the build fails.
    pub fn locate() -> Result<Self> {
        Self::locate_in(&Places::from_environment())
    }

    pub(super) fn locate_in(places: &Places) -> Result<Self> {
        let cache = cache_folder(places)?;
        let candidates = Tool::REQUIRED
            .into_iter()
            .map(|tool| candidate(tool, places, &cache))
            .collect::<Result<Vec<PathBuf>>>()?;
        let mut missing: Vec<Tool> = Tool::REQUIRED
            .into_iter()
            .zip(&candidates)
            .filter(|(_, path)| !path.is_file())
            .map(|(tool, _)| tool)
            .collect();
        let go = places.on_path("go");
        if go.is_none() && !missing.is_empty() {
            let names: Vec<&str> = missing.iter().map(|tool| tool.file_name()).collect();
            bail!(
                "the control plane needs {}: install Go 1.26 or newer (https://go.dev/dl), which builds them once, or set \
                 KUBEBUILDER_ASSETS to a folder that holds them",
                names.join(", ")
            );
        }
        let session = cache.join(Tool::KubectlSession.file_name());
        let can_have_session = places.assets.is_none() && (go.is_some() || session.is_file());
        let kubectl_session = can_have_session.then_some(session);
        if kubectl_session.as_ref().is_some_and(|path| !path.is_file()) {
            missing.push(Tool::KubectlSession);
        }
        if let Some(go) = go.filter(|_| !missing.is_empty()) {
            build::build(&go, &module_folder(), &cache, &missing)?;
        }
        match <[PathBuf; 4]>::try_from(candidates) {
            Ok([etcd, kube_apiserver, kube_controller_manager, kubectl]) => Ok(Self {
                etcd,
                kube_apiserver,
                kube_controller_manager,
                kubectl,
                kubectl_session,
            }),
            Err(paths) => bail!("expected one path for each tool, got {paths:?}"),
        }
    }

    /// The folder of the binaries; the folder of etcd if they are in several folders.
    pub fn folder(&self) -> &Path {
        self.etcd.parent().unwrap_or(Path::new("/"))
    }
}

/// The Go module that pins the versions: `tests/kube`.
pub(super) fn module_folder() -> PathBuf {
    workspace().join("tests/kube")
}

/// The expected path of a binary. In a folder that the user named the file must exist; in the cache
/// it can be missing.
fn candidate(tool: Tool, places: &Places, cache: &Path) -> Result<PathBuf> {
    let Some(assets) = &places.assets else {
        return Ok(cache.join(tool.file_name()));
    };
    let asset = assets.join(tool.file_name());
    if asset.is_file() {
        return Ok(asset);
    }
    // The published bundles of envtest do not contain the controller manager.
    if tool == Tool::ControllerManager {
        return Ok(places
            .on_path(tool.file_name())
            .unwrap_or_else(|| cache.join(tool.file_name())));
    }
    bail!(
        "KUBEBUILDER_ASSETS is {}, which does not contain {}: point it at a folder with etcd, kube-apiserver and kubectl, or unset it",
        assets.display(),
        tool.file_name()
    )
}

/// `target/kube/<key>`. The key is a hash of the recipe, of `go.mod`, of `go.sum`, and of the
/// program of sessions, without their comments.
fn cache_folder(places: &Places) -> Result<PathBuf> {
    let mut hash = Sha256::new();
    hash.update(build::RECIPE);
    for name in ["go.mod", "go.sum", "session/main.go"] {
        let path = module_folder().join(name);
        let text = std::fs::read_to_string(&path).with_context(|| format!("reading {}", path.display()))?;
        for line in text.lines().filter(|line| !line.trim_start().starts_with("//")) {
            hash.update(line);
            hash.update("\n");
        }
    }
    let key: String = hash
        .finalize()
        .iter()
        .take(6)
        .map(|byte| format!("{byte:02x}"))
        .collect();
    Ok(places.target.join("kube").join(key))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn folder_with(names: &[&str]) -> tempfile::TempDir {
        let folder = tempfile::tempdir().unwrap();
        for name in names {
            std::fs::write(folder.path().join(name), "").unwrap();
        }
        folder
    }

    fn places(assets: Option<&Path>, path: &[&Path], target: &Path) -> Places {
        Places {
            assets: assets.map(Path::to_path_buf),
            path: path.iter().map(|folder| folder.to_path_buf()).collect(),
            target: target.to_path_buf(),
        }
    }

    #[test]
    fn the_named_folder_is_used_and_the_controller_manager_can_come_from_the_path() {
        let assets = folder_with(&["etcd", "kube-apiserver", "kubectl"]);
        let path = folder_with(&["kube-controller-manager", "kubectl"]);
        let target = folder_with(&[]);
        let found = Binaries::locate_in(&places(Some(assets.path()), &[path.path()], target.path())).unwrap();
        assert_eq!(found.kubectl, assets.path().join("kubectl"));
        assert_eq!(found.kubectl_session, None);
        assert_eq!(
            found.kube_controller_manager,
            path.path().join("kube-controller-manager")
        );
        assert_eq!(found.folder(), assets.path());
    }

    #[test]
    fn a_named_folder_that_lacks_a_binary_is_an_error_and_starts_no_build() {
        let assets = folder_with(&["etcd", "kube-apiserver"]);
        let path = folder_with(&["go"]);
        let target = folder_with(&[]);
        let error = Binaries::locate_in(&places(Some(assets.path()), &[path.path()], target.path())).unwrap_err();
        assert!(error.to_string().contains("does not contain kubectl"), "{error}");
        assert!(std::fs::read_dir(target.path()).unwrap().next().is_none());
    }

    #[test]
    fn without_binaries_and_go_one_line_names_what_to_install() {
        let target = folder_with(&[]);
        let error = Binaries::locate_in(&places(None, &[], target.path()))
            .unwrap_err()
            .to_string();
        assert!(
            error.starts_with(
                "the control plane needs etcd, kube-apiserver, kube-controller-manager, kubectl: install Go"
            )
        );
        assert_eq!(error.lines().count(), 1);
    }

    #[test]
    fn a_cached_binary_is_not_built_again() {
        let target = folder_with(&[]);
        let here = places(None, &[], target.path());
        let cache = cache_folder(&here).unwrap();
        std::fs::create_dir_all(&cache).unwrap();
        for tool in Tool::REQUIRED.into_iter().chain([Tool::KubectlSession]) {
            std::fs::write(cache.join(tool.file_name()), "").unwrap();
        }
        assert_eq!(Binaries::locate_in(&here).unwrap().folder(), cache);
    }
}
