//! The report of a command that checks a cluster: a table of checks, or the same as JSON, and the
//! exit code. This module decides nothing about a cluster.

use std::fmt::Write as _;
use std::io::Write as _;
use std::process::ExitCode;

use anyhow::Context as _;
use serde_json::{Value, json};

use super::cluster::Cluster;
use super::output::{Output, pretty, yaml};

/// The result of a check.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Outcome {
    /// The state is as it must be.
    Ok,
    /// The state can be right. A user decides.
    Warning,
    /// The state is wrong.
    Failed,
}

impl Outcome {
    fn word(self) -> &'static str {
        match self {
            Self::Ok => "ok",
            Self::Warning => "warning",
            Self::Failed => "failed",
        }
    }
}

/// One row of the table.
#[derive(Clone, Debug)]
struct Row {
    section: &'static str,
    outcome: Outcome,
    check: String,
    /// What was found; empty if the check says it.
    found: String,
    /// What to do; empty for a check that is ok.
    remedy: String,
}

impl Row {
    /// The lines of the row, after a row of the section `before`, which is empty for the first row.
    fn text(&self, before: &str) -> String {
        let mut text = String::new();
        if self.section != before {
            let blank = if before.is_empty() { "" } else { "\n" };
            let _infallible = writeln!(text, "{blank}{}", self.section);
        }
        let found = if self.found.is_empty() {
            String::new()
        } else {
            format!(": {}", self.found)
        };
        let _infallible = writeln!(text, "  {:<8} {}{found}", self.outcome.word(), self.check);
        if !self.remedy.is_empty() {
            let _infallible = writeln!(text, "           {}", self.remedy);
        }
        text
    }
}

/// The checks of a command, in the order in which they were made.
#[derive(Clone, Debug, Default)]
pub(super) struct Report {
    rows: Vec<Row>,
    /// Whether each check is printed when it is made.
    is_streamed: bool,
    /// Whether the command ended before its last check.
    is_interrupted: bool,
    /// The flags that select the cluster, for the commands of remedies (W131).
    selection: String,
}

impl Report {
    /// Adds a check that is ok.
    pub(super) fn ok(&mut self, section: &'static str, check: impl Into<String>, found: impl Into<String>) {
        self.add(section, Outcome::Ok, check.into(), found.into(), "");
    }

    /// Adds a check that a user must judge.
    pub(super) fn warn(
        &mut self,
        section: &'static str,
        check: impl Into<String>,
        found: impl Into<String>,
        remedy: impl Into<String>,
    ) {
        self.add(section, Outcome::Warning, check.into(), found.into(), &remedy.into());
    }

    /// Adds a check that failed.
    pub(super) fn fail(
        &mut self,
        section: &'static str,
        check: impl Into<String>,
        found: impl Into<String>,
        remedy: impl Into<String>,
    ) {
        self.add(section, Outcome::Failed, check.into(), found.into(), &remedy.into());
    }

    fn add(&mut self, section: &'static str, outcome: Outcome, check: String, found: String, remedy: &str) {
        let row = Row {
            section,
            outcome,
            check,
            found,
            // Without the flags, a command would act on the current context.
            remedy: remedy.replace("kubectl ", &format!("kubectl{} ", self.selection)),
        };
        if self.is_streamed {
            let section = self.rows.last().map_or("", |row| row.section);
            // A closed output does not stop an installation.
            let _closed = std::io::stdout().write_all(row.text(section).as_bytes());
        }
        self.rows.push(row);
    }

    /// The checks of a cluster. The commands of their remedies select the same cluster.
    pub(super) fn of(cluster: &Cluster) -> Self {
        Self {
            selection: cluster.selection(),
            ..Self::default()
        }
    }

    /// Prints each check when it is made, for a command that waits.
    pub(super) fn streamed(self, output: Output) -> Self {
        Self {
            is_streamed: output == Output::Text,
            ..self
        }
    }

    /// Notes that the command ended before its last check.
    pub(super) fn interrupted(&mut self) {
        self.is_interrupted = true;
    }

    /// Whether a check of a section failed.
    pub(super) fn has_failed(&self, section: &str) -> bool {
        self.rows
            .iter()
            .any(|row| row.section == section && row.outcome == Outcome::Failed)
    }

    /// Whether any check failed.
    pub(super) fn any_failed(&self) -> bool {
        self.count(Outcome::Failed) > 0
    }

    fn count(&self, outcome: Outcome) -> usize {
        self.rows.iter().filter(|row| row.outcome == outcome).count()
    }

    /// The report as text.
    pub(super) fn text(&self) -> String {
        let mut text = String::new();
        if !self.is_streamed {
            let mut section = "";
            for row in &self.rows {
                text.push_str(&row.text(section));
                section = row.section;
            }
        }
        let [ok, warnings, failed] =
            [Outcome::Ok, Outcome::Warning, Outcome::Failed].map(|outcome| self.count(outcome));
        let _infallible = writeln!(text, "\n{ok} ok, {warnings} warnings, {failed} failed");
        text
    }

    fn json(&self) -> Value {
        let checks: Vec<Value> = self
            .rows
            .iter()
            .map(|row| {
                json!({
                    "section": row.section,
                    "result": row.outcome.word(),
                    "check": row.check,
                    "found": row.found,
                    "remedy": row.remedy,
                })
            })
            .collect();
        let is_ok = self.count(Outcome::Failed) == 0 && !self.is_interrupted;
        let mut report = json!({"ok": is_ok, "checks": checks});
        if let Some(fields) = report.as_object_mut().filter(|_| self.is_interrupted) {
            fields.insert(String::from("interrupted"), Value::Bool(true));
        }
        report
    }

    /// Prints a text of a report.
    ///
    /// # Errors
    /// Standard output cannot be written.
    pub(super) fn print_text(text: &str) -> anyhow::Result<()> {
        std::io::stdout()
            .write_all(text.as_bytes())
            .context("writing the report")
    }

    /// Prints the report. The exit code is 1 if a check failed.
    ///
    /// # Errors
    /// Standard output cannot be written.
    pub(super) fn print(&self, output: Output) -> anyhow::Result<ExitCode> {
        let text = match output {
            Output::Text => self.text(),
            Output::Json => pretty(&self.json())?,
            Output::Yaml => yaml(&self.json())?,
        };
        std::io::stdout()
            .write_all(text.as_bytes())
            .context("writing the report")?;
        Ok(ExitCode::from(u8::from(self.any_failed())))
    }
}

#[cfg(test)]
mod tests {
    use super::super::cluster::Cluster;
    use super::Report;

    /// A kubeconfig with several contexts: the command of a remedy must not change another cluster.
    #[test]
    fn w131_the_commands_of_remedies_select_the_cluster_of_the_report() {
        let report = |kubeconfig: Option<&str>, context: Option<&str>| {
            let cluster = Cluster {
                kubeconfig: kubeconfig.map(Into::into),
                context: context.map(ToOwned::to_owned),
            };
            let mut report = Report::of(&cluster);
            report.warn(
                "s",
                "c",
                "f",
                "Run kubectl get nodes -o json | jq . | kubectl apply -f -.",
            );
            report.rows[0].remedy.clone()
        };
        assert_eq!(
            report(None, None),
            "Run kubectl get nodes -o json | jq . | kubectl apply -f -."
        );
        assert_eq!(
            report(Some("/tmp/two"), Some("admin@staging")),
            "Run kubectl --kubeconfig /tmp/two --context admin@staging get nodes -o json | jq . | kubectl --kubeconfig \
             /tmp/two --context admin@staging apply -f -."
        );
        assert!(report(None, Some("it's")).starts_with(r"Run kubectl --context 'it'\''s' get nodes"));
    }

    #[test]
    fn a_report_lists_each_check_with_its_remedy_and_counts_the_results() {
        let mut report = Report::default();
        report.ok("cluster", "the API server responds", "v1.36.3");
        report.fail("namespaces", "the namespace a exists", "", "kubectl create namespace a");
        assert_eq!(
            report.text(),
            "cluster\n  ok       the API server responds: v1.36.3\n\nnamespaces\n  failed   the namespace a exists\n           \
             kubectl create namespace a\n\n1 ok, 0 warnings, 1 failed\n"
        );
        assert!(report.has_failed("namespaces") && !report.has_failed("cluster"));
        assert_eq!(report.json()["ok"], false);
        assert_eq!(report.json()["checks"][1]["result"], "failed");
    }
}
