//! The CRDs and the test suites of `github.com/openshift/api`, read from Go's module cache.

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail};
use serde_json::Value;

use super::programs;
use super::suite::Suite;
use crate::go;

/// The Go module.
const MODULE: &str = "github.com/openshift/api";

/// The feature set for which a CRD is generated.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Variant {
    /// The features that every cluster has.
    Default,
    /// All features, which a cluster can enable one by one.
    CustomNoUpgrade,
}

impl Variant {
    /// The name in the files of the module.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Default => "Default",
            Self::CustomNoUpgrade => "CustomNoUpgrade",
        }
    }
}

/// The module in the module cache.
#[derive(Clone, Debug)]
pub struct OpenShiftApi {
    folder: PathBuf,
}

impl OpenShiftApi {
    /// Finds the module, and downloads it if it is missing.
    ///
    /// # Errors
    /// Go is not installed, or cannot download the module.
    pub fn locate() -> Result<Self> {
        let go = go::locate("reading the CRDs of OpenShift")?;
        let folder = go::dependency(&go, &programs::module("machine-webhook"), MODULE)?;
        Ok(Self { folder })
    }

    /// A CRD by its group and version, such as `machine/v1`, its plural name and its variant. A CRD
    /// that is the same for all feature sets has one file without a variant.
    ///
    /// # Errors
    /// The module does not have the CRD.
    pub fn crd(&self, version: &str, plural: &str, variant: Variant) -> Result<Value> {
        let folder = self.folder.join(version).join("zz_generated.crd-manifests");
        let files = files(&folder)?;
        let endings = [
            format!("_{plural}.crd.yaml"),
            format!("_{plural}-{}.crd.yaml", variant.as_str()),
            format!("_{plural}-SelfManagedHA-{}.crd.yaml", variant.as_str()),
        ];
        let named = |file: &&PathBuf| endings.iter().any(|ending| file.to_string_lossy().ends_with(ending));
        let Some(file) = files.iter().find(named) else {
            bail!("{} must contain a CRD of {plural}", folder.display());
        };
        serde_saphyr::from_str(&read(file)?).with_context(|| format!("parsing {}", file.display()))
    }

    /// The test suites of a resource, such as `machines.machine.openshift.io` of `machine/v1beta1`.
    ///
    /// # Errors
    /// The module does not have suites of the resource, or a suite cannot be parsed.
    pub fn suites(&self, version: &str, resource: &str) -> Result<Vec<Suite>> {
        let folder = self.folder.join(version).join("tests").join(resource);
        files(&folder)?
            .iter()
            .map(|file| Suite::parse(&read(file)?).with_context(|| format!("parsing {}", file.display())))
            .collect()
    }
}

/// The YAML files in a folder, ordered by name.
fn files(folder: &Path) -> Result<Vec<PathBuf>> {
    let entries = fs::read_dir(folder).with_context(|| format!("reading {}", folder.display()))?;
    let mut files = entries
        .map(|entry| Ok(entry?.path()))
        .collect::<std::io::Result<Vec<PathBuf>>>()
        .with_context(|| format!("reading {}", folder.display()))?;
    files.retain(|file| file.extension().is_some_and(|extension| extension == "yaml"));
    files.sort();
    Ok(files)
}

fn read(file: &Path) -> Result<String> {
    fs::read_to_string(file).with_context(|| format!("reading {}", file.display()))
}
