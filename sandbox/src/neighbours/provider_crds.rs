//! The CRDs of Cluster API and of its infrastructure providers that are published as Go modules,
//! read from Go's module cache.

use std::path::PathBuf;

use anyhow::Result;

use super::programs;
use crate::go;

/// The modules, each with its version and the folder of its CRDs. The hashes are in
/// `sandbox/neighbours/provider-crds/go.sum`.
const MODULES: [(&str, &str); 3] = [
    ("sigs.k8s.io/cluster-api@v1.14.0", "core/config/crd/bases"),
    ("sigs.k8s.io/cluster-api-provider-aws/v2@v2.13.0", "config/crd/bases"),
    ("sigs.k8s.io/cluster-api-provider-gcp@v1.13.1", "config/crd/bases"),
];

/// The folders with CRDs. Modules that are missing are downloaded.
///
/// # Errors
/// Go is not installed, or cannot download a module.
pub fn folders() -> Result<Vec<PathBuf>> {
    let go = go::locate("reading the CRDs of Cluster API's providers")?;
    let module = programs::module("provider-crds");
    let folder = |(path, crds): (&str, &str)| Ok(go::dependency(&go, &module, path)?.join(crds));
    MODULES.into_iter().map(folder).collect()
}
