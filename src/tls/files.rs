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

use tokio::time::Instant;

use super::{Certificates, Invalid};

/// How often the files are read.
pub const INTERVAL: Duration = Duration::from_secs(5);
/// How often an error that persists is logged again.
const REMINDER: Duration = Duration::from_secs(3600);

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
    /// Whether that content was refused for its validity, which may start later.
    not_valid_now: bool,
    log: FailureLog,
}

/// Decides when an error is logged: when it occurs, and then rarely while it persists.
#[derive(Debug, Default)]
struct FailureLog {
    logged: Option<(String, Instant)>,
}

impl FailureLog {
    /// Records the result of a reload, and returns the error to log.
    fn record(&mut self, result: &Result<bool, Error>, now: Instant) -> Option<&str> {
        let is_due = match (result, &self.logged) {
            (Ok(true), _) => {
                self.logged = None;
                false
            }
            (Ok(false), None) => false,
            (Ok(false), Some((_, logged))) => now.duration_since(*logged) >= REMINDER,
            (Err(error), logged) => {
                let error = error.to_string();
                let repeated = logged.as_ref().filter(|(text, _)| *text == error);
                let is_due = repeated.is_none_or(|(_, logged)| now.duration_since(*logged) >= REMINDER);
                if is_due {
                    self.logged = Some((error, now));
                }
                is_due
            }
        };
        let (text, logged) = self.logged.as_mut().filter(|_| is_due)?;
        *logged = now;
        Some(text)
    }
}

impl Follower {
    /// A follower that has read nothing yet.
    #[must_use]
    pub fn new(files: Files, certificates: Certificates) -> Self {
        Self {
            files,
            certificates,
            last: None,
            not_valid_now: false,
            log: FailureLog::default(),
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
        let now = jiff::Timestamp::now().as_second();
        // A certificate that is not valid yet becomes valid later, so its content is tried again.
        let is_known = self.last.as_ref() == Some(&read);
        if is_known && !(self.not_valid_now && Certificates::check(&read.0, &read.1, now).is_ok()) {
            return Ok(false);
        }
        let outcome = self.certificates.serve(&read.0, &read.1, now);
        self.not_valid_now = matches!(outcome, Err(Invalid::Time(_)));
        self.last = Some(read);
        outcome?;
        Ok(true)
    }

    /// Reloads once and logs the result.
    async fn reload_and_log(&mut self) {
        let result = self.reload().await;
        if matches!(result, Ok(true)) {
            tracing::info!(file = %self.files.certificate.display(), "certificate reloaded");
        }
        if let Some(error) = self.log.record(&result, Instant::now()) {
            tracing::error!(error, "certificate not reloaded; serving the current one");
        }
    }

    /// Reloads every `interval`, without end.
    pub async fn follow(mut self, interval: Duration) {
        loop {
            tokio::time::sleep(interval).await;
            self.reload_and_log().await;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::{Error, Files, Follower};
    use crate::tls::issue::{Authority, DAY, Leaf, Names};
    use crate::tls::{Certificates, Invalid};
    use std::io::Write;
    use std::path::Path;
    use std::sync::{Arc, Mutex};
    use std::time::Duration;

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

    /// The lines of a log.
    #[derive(Clone, Default)]
    struct Log(Arc<Mutex<Vec<u8>>>);

    impl Log {
        fn lines(&self) -> usize {
            String::from_utf8(self.0.lock().unwrap().clone())
                .unwrap()
                .lines()
                .count()
        }
    }

    impl Write for Log {
        fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
            self.0.lock().unwrap().extend_from_slice(bytes);
            Ok(bytes.len())
        }

        fn flush(&mut self) -> std::io::Result<()> {
            Ok(())
        }
    }

    #[tokio::test(start_paused = true)]
    async fn n8_an_expired_certificate_is_logged_once_and_then_every_hour() {
        let log = Log::default();
        let writer = log.clone();
        let subscriber = tracing_subscriber::fmt().with_writer(move || writer.clone()).finish();
        let _logging = tracing::subscriber::set_default(subscriber);
        let folder = tempfile::tempdir().unwrap();
        let now = jiff::Timestamp::now().as_second();
        let authority = Authority::issue("test", now - 3 * DAY, 10 * DAY).unwrap();
        let names = Names::new(["localhost".to_owned()]).unwrap();
        write(folder.path(), &authority.leaf(&names, now - 3 * DAY, DAY).unwrap());
        let files = Files {
            certificate: folder.path().join("tls.crt"),
            key: folder.path().join("tls.key"),
        };
        let mut follower = Follower::new(files, Certificates::new());
        for _ in 0..10 {
            follower.reload_and_log().await;
        }
        assert_eq!(log.lines(), 1);
        tokio::time::advance(Duration::from_secs(3600)).await;
        for _ in 0..10 {
            follower.reload_and_log().await;
        }
        assert_eq!(log.lines(), 2);
        // A missing file is another error, and a valid certificate ends it.
        std::fs::remove_file(folder.path().join("tls.key")).unwrap();
        for _ in 0..10 {
            follower.reload_and_log().await;
        }
        assert_eq!(log.lines(), 3);
        write(folder.path(), &leaf());
        follower.reload_and_log().await;
        assert_eq!(log.lines(), 4, "the reload is logged");
    }

    #[tokio::test]
    async fn a_certificate_that_is_not_valid_yet_is_tried_again() {
        let folder = tempfile::tempdir().unwrap();
        let now = jiff::Timestamp::now().as_second();
        // The validity starts one hour before the issuing.
        let authority = Authority::issue("test", now, 10 * DAY).unwrap();
        let names = Names::new(["localhost".to_owned()]).unwrap();
        write(folder.path(), &authority.leaf(&names, now + 3602, DAY).unwrap());
        let files = Files {
            certificate: folder.path().join("tls.crt"),
            key: folder.path().join("tls.key"),
        };
        let mut follower = Follower::new(files, Certificates::new());
        while !follower.reload().await.unwrap_or(false) {
            assert!(jiff::Timestamp::now().as_second() < now + 60);
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
    }
}
