//! Follows a certificate and a key in files that somebody else writes (cert-manager, service-ca, a person).
//!
//! The content is compared, not the modification time: a Secret volume swaps a symlink, and a copy may keep its times. A
//! change is served only when it holds together; while files are being replaced they may not, and then the next look
//! decides. A directory watch would not tell when both are complete, so the files are looked at every few seconds.

use std::io;
use std::path::PathBuf;
use std::time::Duration;

use super::{Certificates, Invalid};

/// How often the files are looked at.
pub const INTERVAL: Duration = Duration::from_secs(5);

/// Where certificate and key are.
#[derive(Clone, Debug)]
pub struct Files {
    /// The certificate and its chain, PEM.
    pub certificate: PathBuf,
    /// The private key, PEM.
    pub key: PathBuf,
}

/// The files cannot be served.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// One cannot be read.
    #[error("{}: {source}", path.display())]
    Read {
        /// Which.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
    /// Their content is not to be served.
    #[error(transparent)]
    Invalid(#[from] Invalid),
}

/// Serves the files and notes what they held.
#[derive(Debug)]
pub struct Follower {
    files: Files,
    certificates: Certificates,
    /// What was looked at last, whether it was served or refused, so that one bad content is reported once.
    seen: Option<(Vec<u8>, Vec<u8>)>,
}

impl Follower {
    /// Nothing is read yet.
    #[must_use]
    pub fn new(files: Files, certificates: Certificates) -> Self {
        Self {
            files,
            certificates,
            seen: None,
        }
    }

    async fn read(&self) -> Result<(Vec<u8>, Vec<u8>), Error> {
        let read = async |path: &PathBuf| {
            tokio::fs::read(path).await.map_err(|source| Error::Read {
                path: path.clone(),
                source,
            })
        };
        Ok((read(&self.files.certificate).await?, read(&self.files.key).await?))
    }

    /// Looks once. `true` when a new certificate is served.
    ///
    /// # Errors
    ///
    /// What the files hold is not to be served; what was served before stays. The same content is refused once, then it
    /// is passed over until it changes.
    pub async fn look(&mut self) -> Result<bool, Error> {
        let read = match self.read().await {
            Ok(read) => read,
            Err(error) => {
                // Missing files are reported on every look: nothing tells one absence from the next.
                self.certificates.count_failure();
                return Err(error);
            }
        };
        if self.seen.as_ref() == Some(&read) {
            return Ok(false);
        }
        let now = jiff::Timestamp::now().as_second();
        let outcome = self.certificates.serve(&read.0, &read.1, now);
        // A certificate of tomorrow becomes right by waiting, so it is looked at again.
        if !matches!(outcome, Err(Invalid::Time(_))) {
            self.seen = Some(read);
        }
        outcome?;
        Ok(true)
    }

    /// Looks every `interval`, for ever.
    pub async fn follow(mut self, interval: Duration) {
        loop {
            tokio::time::sleep(interval).await;
            match self.look().await {
                Ok(true) => tracing::info!(file = %self.files.certificate.display(), "certificate reloaded"),
                Ok(false) => {}
                Err(error) => tracing::error!(%error, "certificate not reloaded; the former one is served on"),
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::{Error, Files, Follower};
    use crate::tls::issue::{Authority, DAY, Leaf, Names};
    use crate::tls::{Certificates, Invalid};
    use std::path::Path;

    fn leaf() -> Leaf {
        let now = jiff::Timestamp::now().as_second();
        let authority = Authority::issue("test", now, 10 * DAY).unwrap();
        authority
            .leaf(&Names::new(["localhost".to_owned()]).unwrap(), now, DAY)
            .unwrap()
    }

    fn write(folder: &Path, leaf: &Leaf) {
        std::fs::create_dir_all(folder).unwrap();
        std::fs::write(folder.join("tls.crt"), &leaf.certificate).unwrap();
        std::fs::write(folder.join("tls.key"), &leaf.key).unwrap();
    }

    #[tokio::test]
    async fn the_symlink_swap_of_a_secret_volume_is_seen_and_garbage_is_not_served() {
        let folder = tempfile::tempdir().unwrap();
        let root = folder.path();
        // As kubelet lays it out: tls.crt -> ..data/tls.crt, ..data -> ..1
        write(&root.join("..1"), &leaf());
        std::os::unix::fs::symlink("..1", root.join("..data")).unwrap();
        for name in ["tls.crt", "tls.key"] {
            std::os::unix::fs::symlink(format!("..data/{name}"), root.join(name)).unwrap();
        }
        let files = Files {
            certificate: root.join("tls.crt"),
            key: root.join("tls.key"),
        };
        let mut follower = Follower::new(files, Certificates::new());
        assert!(follower.look().await.unwrap());
        assert!(!follower.look().await.unwrap());

        let swap = |to: &str| {
            std::os::unix::fs::symlink(to, root.join("..data_tmp")).unwrap();
            std::fs::rename(root.join("..data_tmp"), root.join("..data")).unwrap();
        };
        write(&root.join("..2"), &leaf());
        swap("..2");
        assert!(follower.look().await.unwrap());

        let mut torn = leaf();
        torn.key = leaf().key;
        write(&root.join("..3"), &torn);
        swap("..3");
        assert!(matches!(
            follower.look().await,
            Err(Error::Invalid(Invalid::Mismatch(_)))
        ));
        assert!(!follower.look().await.unwrap(), "reported once");
        swap("..4");
        assert!(matches!(follower.look().await, Err(Error::Read { .. })));
        swap("..1");
        assert!(follower.look().await.unwrap());
    }
}
