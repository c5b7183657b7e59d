//! Follows a certificate and a key in files that another program writes, such as cert-manager or
//! OpenShift's service CA.
//!
//! The files are compared by content, not by modification time: the kubelet updates a Secret volume
//! by replacing a symbolic link, and a copy may keep its times. A change is served only if the
//! certificate matches the key. While the files are being replaced they may not match, and the next
//! reload tries again. A directory watch would not tell when both files are complete, so the files
//! are read every few seconds.

use std::io;
use std::path::PathBuf;
use std::time::Duration;

use super::{Certificates, Invalid};

/// How often the files are read.
pub const INTERVAL: Duration = Duration::from_secs(5);

/// The paths of certificate and key.
#[derive(Clone, Debug)]
pub struct Files {
    /// The certificate and its chain, PEM.
    pub certificate: PathBuf,
    /// The private key, PEM.
    pub key: PathBuf,
}

/// Why the files cannot be served.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// A file cannot be read.
    #[error("{}: {source}", path.display())]
    Read {
        /// The path of the file.
        path: PathBuf,
        /// The error of the operating system.
        source: io::Error,
    },
    /// The content must not be served.
    #[error(transparent)]
    Invalid(#[from] Invalid),
}

/// Serves the files and remembers their content.
#[derive(Debug)]
pub struct Follower {
    files: Files,
    certificates: Certificates,
    /// The content at the last reload, served or refused, so that the same invalid content is
    /// reported only once.
    last: Option<(Vec<u8>, Vec<u8>)>,
}

impl Follower {
    /// A follower that has read nothing yet.
    #[must_use]
    pub fn new(files: Files, certificates: Certificates) -> Self {
        Self {
            files,
            certificates,
            last: None,
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

    /// Reads the files once. Returns `true` if it serves a new certificate.
    ///
    /// # Errors
    ///
    /// The content must not be served; the current certificate stays. The same content is reported
    /// once, and then ignored until it changes.
    pub async fn reload(&mut self) -> Result<bool, Error> {
        let read = match self.read().await {
            Ok(read) => read,
            Err(error) => {
                // A missing file is reported at every reload.
                self.certificates.count_failure();
                return Err(error);
            }
        };
        if self.last.as_ref() == Some(&read) {
            return Ok(false);
        }
        let now = jiff::Timestamp::now().as_second();
        let outcome = self.certificates.serve(&read.0, &read.1, now);
        // A certificate that is not valid yet becomes valid later, so its content is tried again.
        if !matches!(outcome, Err(Invalid::Time(_))) {
            self.last = Some(read);
        }
        outcome?;
        Ok(true)
    }

    /// Reloads every `interval`, without end.
    pub async fn follow(mut self, interval: Duration) {
        loop {
            tokio::time::sleep(interval).await;
            match self.reload().await {
                Ok(true) => tracing::info!(file = %self.files.certificate.display(), "certificate reloaded"),
                Ok(false) => {}
                Err(error) => tracing::error!(%error, "certificate not reloaded; serving the current one"),
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
    async fn the_symlink_swap_of_a_secret_volume_is_noticed_and_invalid_content_is_not_served() {
        let folder = tempfile::tempdir().unwrap();
        let root = folder.path();
        // The layout of the kubelet: tls.crt -> ..data/tls.crt, ..data -> ..1
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
        assert!(follower.reload().await.unwrap());
        assert!(!follower.reload().await.unwrap());

        let swap = |to: &str| {
            std::os::unix::fs::symlink(to, root.join("..data_tmp")).unwrap();
            std::fs::rename(root.join("..data_tmp"), root.join("..data")).unwrap();
        };
        write(&root.join("..2"), &leaf());
        swap("..2");
        assert!(follower.reload().await.unwrap());

        let mut torn = leaf();
        torn.key = leaf().key;
        write(&root.join("..3"), &torn);
        swap("..3");
        assert!(matches!(
            follower.reload().await,
            Err(Error::Invalid(Invalid::Mismatch(_)))
        ));
        assert!(!follower.reload().await.unwrap(), "invalid content is reported once");
        swap("..4");
        assert!(matches!(follower.reload().await, Err(Error::Read { .. })));
        swap("..1");
        assert!(follower.reload().await.unwrap());
    }
}
