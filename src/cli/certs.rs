//! `capstan certs`: certificates as files, for those who bring their own; and a look at what any PEM file holds.

use std::fs;
use std::io::{self, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use anyhow::Context;

use crate::tls::inspect::{self, Facts};
use crate::tls::issue::{Authority, DAY, Names};

/// Issue certificates into files, and inspect them.
///
/// For a cluster, prefer what renews by itself: cert-manager, the service CA, or `capstan serve --self-managed-secret`.
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

/// Issue an authority and a certificate: ca.crt, ca.key, tls.crt, tls.key.
///
/// An authority that is already in the folder is used again, so that the second run renews the certificate and whoever
/// trusts ca.crt goes on to. Keys are readable by the owner alone.
#[derive(Debug, clap::Args)]
struct Issue {
    /// Folder to write to; created when it is missing.
    #[arg(long, value_name = "DIR")]
    dir: PathBuf,
    /// Name or address that the certificate is for; may be repeated.
    #[arg(long, required = true, value_name = "NAME", value_delimiter = ',')]
    dns: Vec<String>,
    /// Days that the certificate holds.
    #[arg(long, default_value_t = 90, value_name = "DAYS", value_parser = clap::value_parser!(i64).range(1..=3650))]
    days: i64,
    /// Days that a new authority holds.
    #[arg(long, default_value_t = 730, value_name = "DAYS", value_parser = clap::value_parser!(i64).range(1..=3650))]
    ca_days: i64,
}

/// Show names, time and fingerprint of every certificate in a PEM file.
///
/// Exit code 1: one of them does not hold now.
#[derive(Debug, clap::Args)]
struct Inspect {
    /// The file; "-" is standard input.
    file: PathBuf,
}

/// Runs the command.
///
/// # Errors
///
/// A file cannot be read or written, or holds something else than it should.
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

/// Writes a file at once or not at all, with the rights it keeps.
fn write(path: &Path, text: &str, mode: u32) -> anyhow::Result<()> {
    let temporary = path.with_extension("new");
    let doing = || format!("writing {}", path.display());
    // One left over from a run that was cut off may have other rights.
    match fs::remove_file(&temporary) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error).with_context(doing),
        _ => {}
    }
    let mut file = fs::OpenOptions::new()
        .write(true)
        .create_new(true)
        .mode(mode)
        .open(&temporary)
        .with_context(doing)?;
    file.write_all(text.as_bytes()).with_context(doing)?;
    fs::rename(&temporary, path).with_context(doing)
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
            "the authority in {} has expired; move it away",
            self.dir.display()
        );
        let leaf = authority.leaf(&names, now, (self.days * DAY).min(end - now))?;
        write(&self.dir.join("tls.key"), &leaf.key, 0o600)?;
        write(&self.dir.join("tls.crt"), &leaf.certificate, 0o644)?;
        let until = date(one(&leaf.certificate)?.not_after);
        writeln!(
            out,
            "{}: {} until {until}",
            self.dir.join("tls.crt").display(),
            names.as_slice().join(", ")
        )?;
        Ok(())
    }

    fn authority(&self, now: i64, out: &mut impl Write) -> anyhow::Result<Authority> {
        let (certificate, key) = (self.dir.join("ca.crt"), self.dir.join("ca.key"));
        match (read(&certificate)?, read(&key)?) {
            (Some(certificate), Some(key)) => Ok(Authority { certificate, key }),
            (None, None) => {
                let authority = Authority::issue("capstan authority", now, self.ca_days * DAY)?;
                write(&key, &authority.key, 0o600)?;
                write(&certificate, &authority.certificate, 0o644)?;
                writeln!(
                    out,
                    "{}: new authority, to be trusted by clients",
                    certificate.display()
                )?;
                Ok(authority)
            }
            _ => anyhow::bail!(
                "only one of ca.crt and ca.key is in {}; move it away",
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
    let kind = if facts.authority { "authority" } else { "certificate" };
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
    fn keys_are_private_and_the_second_run_keeps_the_authority() {
        let folder = tempfile::tempdir().unwrap();
        let dir = folder.path().join("pki");
        let now = 1_800_000_000;
        let issue = Issue {
            dir: dir.clone(),
            dns: vec!["a.b.svc".to_owned()],
            days: 90,
            ca_days: 730,
        };
        let mut said = Vec::new();
        issue.run(now, &mut said).unwrap();
        assert!(String::from_utf8(said).unwrap().contains("a.b.svc until 2027-04-15"));
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
            "half an authority is not overwritten"
        );
    }

    #[test]
    fn a_certificate_is_shown_with_its_names_and_its_end() {
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
        let mut said = Vec::new();
        Inspect {
            file: dir.join("tls.crt"),
        }
        .run(now, &mut said)
        .unwrap();
        let said = String::from_utf8(said).unwrap();
        assert!(
            said.contains("names        10.0.0.1, a.b.svc\n") && said.contains("(9 days left)"),
            "{said}"
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
