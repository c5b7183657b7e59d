//! A certificate for this machine, made at the start and gone at the end: for `make run`, for trying things out, never
//! for a cluster. The key never touches the disk; only the authority's certificate is written, for clients to trust.

use std::path::Path;

use super::Certificates;
use super::issue::{Authority, DAY, Names};

/// For how long it holds, in a folder: longer than anybody leaves it running.
const LIFETIME: i64 = 30 * DAY;
/// For how long it holds in memory alone, where nobody can come to trust it: longer than any process runs. The controllers
/// have one for their listener on loopback, and must not become unready for it.
const LIFETIME_IN_MEMORY: i64 = 3650 * DAY;

/// Serves a new certificate for localhost and `names`, and writes the authority to `ca.crt` in `folder`, if one is given.
///
/// # Errors
///
/// A name that can stand in no certificate, or a folder that cannot be written.
pub fn serve(certificates: &Certificates, folder: Option<&Path>, names: &[String]) -> anyhow::Result<()> {
    use anyhow::Context as _;
    let now = jiff::Timestamp::now().as_second();
    let local = ["localhost", "127.0.0.1", "::1"].map(ToOwned::to_owned);
    let names = Names::new(local.into_iter().chain(names.iter().cloned()))?;
    let lifetime = if folder.is_some() { LIFETIME } else { LIFETIME_IN_MEMORY };
    let authority = Authority::issue("capstan development", now, lifetime)?;
    let leaf = authority.leaf(&names, now, lifetime)?;
    certificates.serve(leaf.certificate.as_bytes(), leaf.key.as_bytes(), now)?;
    if let Some(folder) = folder {
        let file = folder.join("ca.crt");
        std::fs::create_dir_all(folder).with_context(|| format!("creating {}", folder.display()))?;
        std::fs::write(&file, &authority.certificate).with_context(|| format!("writing {}", file.display()))?;
    }
    Ok(())
}
