//! A certificate for the local machine, issued at the start of the process. It is for `make run`
//! and for trials, never for a cluster. The key is never written to disk; only the CA certificate
//! is written, for clients to trust.

use std::path::Path;

use super::Certificates;
use super::issue::{Authority, DAY, Names};

/// The validity of a certificate whose CA is written to a folder. It exceeds the length of a trial.
const LIFETIME: i64 = 30 * DAY;
/// The validity of a certificate that exists in memory only, so that no client can trust it. The
/// controllers have such a certificate for their listener on loopback; it must not expire while the
/// process runs, because the process would no longer be ready.
const LIFETIME_IN_MEMORY: i64 = 3650 * DAY;

/// Serves a new certificate for localhost and `names`. Writes the CA certificate to `ca.crt` in
/// `folder`, if a folder is given.
///
/// # Errors
///
/// A name is not allowed in a certificate, or the folder cannot be written.
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
