//! `capstan certs`: issues certificates into files, and shows the certificates of a PEM file.

use std::fs;
use std::io::{self, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use anyhow::Context;
use capstan_core::model::is_subdomain;

use crate::tls::inspect::{self, Facts};
use crate::tls::issue::{Authority, DAY, Names};

/// Issue certificates into files, and inspect them.
///
/// In a cluster, prefer certificates that are renewed automatically: those of
/// cert-manager, of the service CA, or of `capstan serve --self-managed-secret`.
#[derive(Debug, clap::Args)]
pub struct Args {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, clap::Subcommand)]
enum Command {
    Issue(Issue),
    Inspect(Inspect),
}

/// Issue a CA and a serving certificate: ca.crt, ca.key, tls.crt, tls.key.
///
/// If the folder holds a CA, that CA is used again: a second run renews the
/// certificate, and clients that trust ca.crt continue to work. Only the owner can
/// read the keys.
#[derive(Debug, clap::Args)]
struct Issue {
    /// Folder for the files; it is created if it does not exist.
    #[arg(long, value_name = "DIR")]
    dir: PathBuf,
    /// DNS name or IP address of the server; may be repeated.
    #[arg(long, required = true, value_name = "NAME", value_delimiter = ',', value_parser = server_name)]
    dns: Vec<String>,
    /// Validity of the certificate in days.
    #[arg(long, default_value_t = 90, value_name = "DAYS", value_parser = clap::value_parser!(i64).range(1..=3650))]
    days: i64,
    /// Validity of a new CA in days.
    #[arg(long, default_value_t = 730, value_name = "DAYS", value_parser = clap::value_parser!(i64).range(1..=3650))]
    ca_days: i64,
}

/// Show names, validity and fingerprint of every certificate in a PEM file.
///
/// The exit code is 1 if a certificate is not valid at present.
#[derive(Debug, clap::Args)]
struct Inspect {
    /// The PEM file; "-" is standard input.
    file: PathBuf,
}

/// Runs the command.
///
/// # Errors
///
/// A file cannot be read or written, or its content is not a certificate.
pub fn run(args: &Args) -> anyhow::Result<ExitCode> {
    let now = jiff::Timestamp::now().as_second();
    let mut out = io::stdout().lock();
    match &args.command {
        Command::Issue(issue) => {
            issue.run(now, &mut out)?;
            Ok(ExitCode::SUCCESS)
        }
        Command::Inspect(inspect) => inspect.run(now, &mut out),
    }
}

/// Parses a name of a server. A client compares it with the host that it connects to, so that a
/// URL, a port, or a space can never match.
fn server_name(text: &str) -> Result<String, &'static str> {
    let name = text.strip_prefix("*.").unwrap_or(text).to_ascii_lowercase();
    if text.parse::<std::net::IpAddr>().is_ok() || is_subdomain(&name) {
        Ok(text.to_owned())
    } else {
        Err(
            "must be a DNS name such as capstan-webhook.openshift-machine-api.svc, or an IP address, without scheme and \
             port",
        )
    }
}

/// Writes a file atomically, with these permissions.
fn write(path: &Path, text: &str, mode: u32) -> anyhow::Result<()> {
    let temporary = path.with_extension("new");
    let context = || format!("writing {}", path.display());
    // A file that an interrupted run left may have other permissions.
    match fs::remove_file(&temporary) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error).with_context(context),
        _ => {}
    }
    let mut file = fs::OpenOptions::new()
        .write(true)
        .create_new(true)
        .mode(mode)
        .open(&temporary)
        .with_context(context)?;
    file.write_all(text.as_bytes()).with_context(context)?;
    fs::rename(&temporary, path).with_context(context)
}

fn read(path: &Path) -> anyhow::Result<Option<String>> {
    match fs::read_to_string(path) {
        Ok(text) => Ok(Some(text)),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(error).with_context(|| format!("reading {}", path.display())),
    }
}

impl Issue {
    fn run(&self, now: i64, out: &mut impl Write) -> anyhow::Result<()> {
        fs::create_dir_all(&self.dir).with_context(|| format!("creating {}", self.dir.display()))?;
        let names = Names::new(self.dns.iter().cloned())?;
        let authority = self.authority(now, out)?;
        let end = one(&authority.certificate)?.not_after;
        anyhow::ensure!(
            end > now,
            "the CA in {} has expired; remove ca.crt and ca.key to issue a new one",
            self.dir.display()
        );
        let leaf = authority.leaf(&names, now, (self.days * DAY).min(end - now))?;
        write(&self.dir.join("tls.key"), &leaf.key, 0o600)?;
        write(&self.dir.join("tls.crt"), &leaf.certificate, 0o644)?;
        let until = date(one(&leaf.certificate)?.not_after);
        writeln!(
            out,
            "{}: {} valid until {until}",
            self.dir.join("tls.crt").display(),
            names.as_slice().join(", ")
        )?;
        Ok(())
    }

    fn authority(&self, now: i64, out: &mut impl Write) -> anyhow::Result<Authority> {
        let (certificate, key) = (self.dir.join("ca.crt"), self.dir.join("ca.key"));
        match (read(&certificate)?, read(&key)?) {
            (Some(certificate), Some(key)) => {
                let authority = Authority { certificate, key };
                anyhow::ensure!(
                    authority
                        .is_pair()
                        .with_context(|| format!("reading ca.crt and ca.key in {}", self.dir.display()))?,
                    "ca.key in {} is not the key of ca.crt; restore the key, or remove both to issue a new CA",
                    self.dir.display()
                );
                Ok(authority)
            }
            (None, None) => {
                let authority = Authority::issue("capstan authority", now, self.ca_days * DAY)?;
                write(&key, &authority.key, 0o600)?;
                write(&certificate, &authority.certificate, 0o644)?;
                writeln!(out, "{}: new CA; clients must trust it", certificate.display())?;
                Ok(authority)
            }
            _ => anyhow::bail!(
                "{} must hold both ca.crt and ca.key or neither; remove the one that is there",
                self.dir.display()
            ),
        }
    }
}

fn one(pem: &str) -> anyhow::Result<Facts> {
    inspect::certificates(pem.as_bytes())?
        .into_iter()
        .next()
        .context("ca.crt holds no certificate")
}

fn date(seconds: i64) -> String {
    jiff::Timestamp::from_second(seconds).map_or_else(|_| "an unknown date".to_owned(), |date| date.to_string())
}

impl Inspect {
    fn run(&self, now: i64, out: &mut impl Write) -> anyhow::Result<ExitCode> {
        let pem = if self.file.as_os_str() == "-" {
            io::read_to_string(io::stdin())?.into_bytes()
        } else {
            fs::read(&self.file).with_context(|| format!("reading {}", self.file.display()))?
        };
        let all = inspect::certificates(&pem).with_context(|| self.file.display().to_string())?;
        anyhow::ensure!(!all.is_empty(), "{} holds no certificate", self.file.display());
        for facts in &all {
            describe(facts, now, out)?;
        }
        let holds = all
            .iter()
            .all(|facts| (facts.not_before..=facts.not_after).contains(&now));
        Ok(if holds { ExitCode::SUCCESS } else { ExitCode::from(1) })
    }
}

fn describe(facts: &Facts, now: i64, out: &mut impl Write) -> io::Result<()> {
    let days = (facts.not_after - now) / DAY;
    let state = if now < facts.not_before {
        "not valid yet".to_owned()
    } else if now > facts.not_after {
        "expired".to_owned()
    } else {
        format!("{days} days left")
    };
    let kind = if facts.authority { "CA" } else { "certificate" };
    writeln!(out, "{kind} {}", facts.subject)?;
    writeln!(out, "  issuer       {}", facts.issuer)?;
    if !facts.names.is_empty() {
        writeln!(out, "  names        {}", facts.names.join(", "))?;
    }
    writeln!(
        out,
        "  valid        {} to {} ({state})",
        date(facts.not_before),
        date(facts.not_after)
    )?;
    writeln!(out, "  fingerprint  sha256:{}", facts.fingerprint)
}

#[cfg(test)]
mod tests {
    use super::{Inspect, Issue};
    use crate::tls::Certificates;
    use crate::tls::issue::DAY;
    use std::os::unix::fs::PermissionsExt;

    #[test]
    fn keys_are_private_and_a_second_run_keeps_the_ca() {
        let folder = tempfile::tempdir().unwrap();
        let dir = folder.path().join("pki");
        let now = 1_800_000_000;
        let issue = Issue {
            dir: dir.clone(),
            dns: vec!["a.b.svc".to_owned()],
            days: 90,
            ca_days: 730,
        };
        let mut output = Vec::new();
        issue.run(now, &mut output).unwrap();
        assert!(
            String::from_utf8(output)
                .unwrap()
                .contains("a.b.svc valid until 2027-04-15")
        );
        let read = |name: &str| std::fs::read(dir.join(name)).unwrap();
        let (authority, first) = (read("ca.crt"), read("tls.crt"));
        issue.run(now + DAY, &mut Vec::new()).unwrap();
        assert_eq!(read("ca.crt"), authority);
        assert_ne!(read("tls.crt"), first);
        for key in ["ca.key", "tls.key"] {
            assert_eq!(
                std::fs::metadata(dir.join(key)).unwrap().permissions().mode() & 0o777,
                0o600,
                "{key}"
            );
        }
        Certificates::new()
            .serve(&read("tls.crt"), &read("tls.key"), now + DAY)
            .unwrap();

        std::fs::remove_file(dir.join("ca.key")).unwrap();
        assert!(
            issue.run(now, &mut Vec::new()).is_err(),
            "a CA without its key is not overwritten"
        );
    }

    #[test]
    fn w165_a_ca_signs_nothing_with_the_key_of_another_ca() {
        let now = 1_800_000_000;
        let issue = |dir: &std::path::Path| Issue {
            dir: dir.to_path_buf(),
            dns: vec!["a.b.svc".to_owned()],
            days: 90,
            ca_days: 730,
        };
        let (first, second) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        for folder in [&first, &second] {
            issue(folder.path()).run(now, &mut Vec::new()).unwrap();
        }
        std::fs::copy(second.path().join("ca.key"), first.path().join("ca.key")).unwrap();
        std::fs::remove_file(first.path().join("tls.crt")).unwrap();
        let refused = issue(first.path()).run(now, &mut Vec::new()).unwrap_err();
        assert!(refused.to_string().contains("is not the key of ca.crt"), "{refused}");
        assert!(!first.path().join("tls.crt").exists());
    }

    #[test]
    fn inspect_shows_the_names_and_the_end_of_the_validity() {
        let folder = tempfile::tempdir().unwrap();
        let dir = folder.path().to_path_buf();
        let now = 1_800_000_000;
        Issue {
            dir: dir.clone(),
            dns: vec!["a.b.svc".to_owned(), "10.0.0.1".to_owned()],
            days: 9,
            ca_days: 730,
        }
        .run(now, &mut Vec::new())
        .unwrap();
        let mut output = Vec::new();
        Inspect {
            file: dir.join("tls.crt"),
        }
        .run(now, &mut output)
        .unwrap();
        let output = String::from_utf8(output).unwrap();
        assert!(
            output.contains("names        10.0.0.1, a.b.svc\n") && output.contains("(9 days left)"),
            "{output}"
        );
        assert!(
            Inspect {
                file: dir.join("tls.key")
            }
            .run(now, &mut Vec::new())
            .is_err()
        );
    }
}
