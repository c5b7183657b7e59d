//! What is written for people is true: metrics, alerts, runbooks, dashboard, reasons, annotations, commands and links are held
//! against the program and against one another. No API server and no Prometheus is needed.
//!
//! Queries are not evaluated here: their brackets, functions, metrics and labels are checked.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "a test that fails is what these are for"
)]

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use capstan::cli::Cli;
use capstan::controllers;
use capstan::server::{Lifecycle, Limits, NullReviewer, Server, Settings};
use capstan::tls::{Certificates, MinVersion};
use clap::Parser as _;
use prometheus_client::registry::Registry;
use serde_json::Value;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};

const RUNBOOKS: &str = "https://github.com/capstan-dev/capstan/blob/main/docs/runbooks/";
const REFERENCE: &str = "docs/control-plane-machine-set.md";

fn root() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR"))
}

fn text(path: &str) -> String {
    std::fs::read_to_string(root().join(path)).unwrap_or_else(|error| panic!("{path}: {error}"))
}

/// The files of a folder with this ending, and of those below it.
fn files(folder: &Path, ending: &str) -> Vec<PathBuf> {
    let mut found = Vec::new();
    for entry in std::fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            found.extend(files(&path, ending));
        } else if path.extension().is_some_and(|extension| extension == ending) {
            found.push(path);
        }
    }
    found.sort();
    found
}

fn is_word(c: char) -> bool {
    c.is_ascii_alphanumeric() || c == '_'
}

/// What stands between backticks.
fn quoted(text: &str) -> Vec<&str> {
    text.split('`').skip(1).step_by(2).collect()
}

/// A metric as it is exposed, and what sort it is.
type Metrics = BTreeMap<String, &'static str>;

/// Every metric that the sources register. A family without a count is not in the text of `/metrics`, so the sources are asked.
fn registered() -> Metrics {
    let mut metrics = Metrics::new();
    for path in files(&root().join("src"), "rs") {
        let source = std::fs::read_to_string(&path).unwrap();
        let Some(code) = source.split("#[cfg(test)]").next() else {
            continue;
        };
        for call in code.split("registry.register").skip(1) {
            let call = call.split(");").next().unwrap();
            let name = call.split('"').nth(1).unwrap_or_default();
            assert!(name.starts_with("capstan_"), "{}: {call}", path.display());
            let field = call.rsplit(['.']).nth(1).unwrap().trim();
            let type_ = code
                .lines()
                .map(|line| line.trim().trim_start_matches("pub(super) "))
                .find_map(|line| line.strip_prefix(&format!("{field}: ")))
                .unwrap_or_else(|| panic!("{}: no field {field}", path.display()));
            let sort = ["Counter", "Gauge", "Histogram"]
                .into_iter()
                .find(|sort| type_.contains(sort));
            let sort = sort.unwrap_or_else(|| panic!("{field}: {type_}"));
            let unit = if call.contains("Unit::Seconds") { "_seconds" } else { "" };
            let total = if sort == "Counter" { "_total" } else { "" };
            assert!(
                metrics.insert(format!("{name}{unit}{total}"), sort).is_none(),
                "{name} twice"
            );
        }
    }
    assert!(metrics.len() > 15, "{metrics:?}");
    metrics
}

/// The names under which a query finds a metric.
fn series(metrics: &Metrics) -> BTreeMap<String, String> {
    let mut series = BTreeMap::new();
    for (name, sort) in metrics {
        let endings: &[&str] = if *sort == "Histogram" {
            &["_bucket", "_sum", "_count"]
        } else {
            &[""]
        };
        for ending in endings {
            series.insert(format!("{name}{ending}"), name.clone());
        }
    }
    series
}

/// The rows of the tables of docs/metrics.md: name, and labels.
fn documented() -> BTreeMap<String, BTreeSet<String>> {
    let mut rows = BTreeMap::new();
    for line in text("docs/metrics.md").lines().filter(|line| line.starts_with("| `")) {
        let cells: Vec<&str> = line.split('|').map(str::trim).collect();
        // The tables of our own have a column for the type before the labels.
        let own = cells[1].starts_with("`capstan_");
        let labels = cells[if own { 3 } else { 2 }];
        // In parentheses are values.
        let outside: String = labels.split('(').map(|part| part.rsplit(')').next().unwrap()).collect();
        let names = quoted(&outside).into_iter().map(str::to_owned).collect();
        rows.insert(quoted(cells[1])[0].to_owned(), names);
    }
    rows
}

#[test]
fn every_metric_is_documented_and_every_documented_metric_is_registered() {
    let documented: BTreeSet<String> = documented()
        .into_keys()
        .filter(|name| name.starts_with("capstan_"))
        .collect();
    let registered: BTreeSet<String> = registered().into_keys().collect();
    assert_eq!(registered, documented, "docs/metrics.md");
}

#[tokio::test(flavor = "multi_thread")]
async fn what_a_server_exposes_has_the_names_and_types_that_the_sources_give_it() {
    let mut registry = Registry::default();
    let _controllers = controllers::Metrics::register(&mut registry);
    let lifecycle = Lifecycle::new();
    let settings = Settings {
        listen: "127.0.0.1:0".parse().unwrap(),
        health: "127.0.0.1:0".parse().unwrap(),
        min_version: MinVersion::default(),
        limits: Limits::default(),
        shutdown_delay: Duration::ZERO,
        drain_timeout: Duration::from_secs(1),
    };
    let reviewer = Arc::new(NullReviewer::new(vec!["/review".to_owned()]));
    let server = Server::bind(settings, Certificates::new(), reviewer, registry, lifecycle.clone());
    let server = server.await.unwrap();
    let health = server.health_address();
    let running = tokio::spawn(server.run());
    let mut stream = tokio::net::TcpStream::connect(health).await.unwrap();
    let request = b"GET /metrics HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n";
    stream.write_all(request).await.unwrap();
    let mut page = String::new();
    stream.read_to_string(&mut page).await.unwrap();
    lifecycle.shut_down();
    running.await.unwrap();

    let registered = registered();
    let mut seen = 0;
    for line in page.lines().filter_map(|line| line.strip_prefix("# TYPE ")) {
        let (name, sort) = line.split_once(' ').unwrap();
        let name = if sort == "counter" {
            format!("{name}_total")
        } else {
            name.to_owned()
        };
        let known = registered
            .get(&name)
            .unwrap_or_else(|| panic!("{name} is not found in the sources"));
        assert_eq!(known.to_lowercase(), sort, "{name}");
        seen += 1;
    }
    assert!(seen > 8, "{page}");
}

/// A query, taken apart: the metrics that it reads, with the labels that it selects by.
fn reads(query: &str) -> Vec<(String, BTreeSet<String>)> {
    const WORDS: &[&str] = &[
        "and", "or", "unless", "bool", "offset", "by", "without", "on", "ignoring",
    ];
    const GROUPING: &[&str] = &["by", "without", "on", "ignoring", "group_left", "group_right"];
    const FUNCTIONS: &[&str] = &[
        "sum",
        "rate",
        "increase",
        "changes",
        "histogram_quantile",
        "time",
        "max",
        "min",
        "count",
        "absent",
    ];
    let chars: Vec<char> = query.chars().collect();
    let mut found: Vec<(String, BTreeSet<String>)> = Vec::new();
    let mut open = Vec::new();
    let mut grouping = None;
    let mut at = 0;
    let peek = |mut at: usize| {
        while chars.get(at).is_some_and(|c| c.is_whitespace()) {
            at += 1;
        }
        chars.get(at).copied()
    };
    while let Some(c) = chars.get(at).copied() {
        at += 1;
        match c {
            '(' | '{' | '[' => open.push(c),
            ')' | '}' | ']' => {
                let opened = open.pop().unwrap_or_else(|| panic!("nothing to close: {query}"));
                assert!(matches!((opened, c), ('(', ')') | ('{', '}') | ('[', ']')), "{query}");
                if grouping == Some(open.len()) {
                    grouping = None;
                }
            }
            '"' => {
                let length = chars[at..].iter().position(|c| *c == '"');
                at += length.unwrap_or_else(|| panic!("a string without end: {query}")) + 1;
            }
            // Numbers and durations.
            _ if c.is_ascii_digit() => {
                while chars.get(at).is_some_and(|c| is_word(*c) || *c == '.') {
                    at += 1;
                }
            }
            _ if is_word(c) => {
                let start = at - 1;
                while chars.get(at).is_some_and(|c| is_word(*c)) {
                    at += 1;
                }
                let word: String = chars[start..at].iter().collect();
                if open.last() == Some(&'{') {
                    found
                        .last_mut()
                        .unwrap_or_else(|| panic!("labels of nothing: {query}"))
                        .1
                        .insert(word);
                } else if grouping.is_some() {
                    // A label of `by (…)`.
                } else if GROUPING.contains(&word.as_str()) {
                    assert_eq!(peek(at), Some('('), "{word}: {query}");
                    grouping = Some(open.len());
                } else if FUNCTIONS.contains(&word.as_str()) {
                    let next = peek(at);
                    assert!(matches!(next, Some('(' | 'b' | 'w')), "{word}: {query}");
                } else if peek(at) == Some('(') && !WORDS.contains(&word.as_str()) {
                    panic!("{word} is no function that is known: {query}");
                } else if !WORDS.contains(&word.as_str()) {
                    found.push((word, BTreeSet::new()));
                }
            }
            _ => assert!(c.is_whitespace() || "+-*/<>=!,~.".contains(c), "{c:?}: {query}"),
        }
    }
    assert!(open.is_empty(), "not closed: {query}");
    assert!(!found.is_empty(), "reads nothing: {query}");
    found
}

fn check_query(query: &str) {
    // Given by the PodMonitor, or by the sort of the metric.
    const ANYWHERE: &[&str] = &["namespace", "pod", "instance", "le"];
    let documented = documented();
    let own = series(&registered());
    for (name, labels) in reads(query) {
        let row = own.get(&name).unwrap_or(&name);
        let known = documented
            .get(row)
            .unwrap_or_else(|| panic!("{name} does not exist: {query}"));
        for label in labels {
            let there = known.contains(&label) || ANYWHERE.contains(&label.as_str());
            assert!(there, "{name} has no label {label}: {query}");
        }
    }
}

#[test]
fn a_query_is_taken_apart() {
    let read = reads(r#"sum by (a) (rate(x_total{b="(", c!~"}"}[5m])) > 1 and on (d) y == 14 * 3600 - (z offset 6h)"#);
    let names: Vec<&str> = read.iter().map(|(name, _)| name.as_str()).collect();
    assert_eq!(names, ["x_total", "y", "z"]);
    assert_eq!(read[0].1, BTreeSet::from(["b".to_owned(), "c".to_owned()]));
    for broken in ["sum(x", "x)", "x{a=\"b}", "rat(x[5m])", "x[5m}"] {
        assert!(std::panic::catch_unwind(|| reads(broken)).is_err(), "{broken}");
    }
}

fn alerts() -> Vec<Value> {
    let rule: Value = serde_saphyr::from_str(&text("manifests/alerts/prometheusrule.yaml")).unwrap();
    let groups = rule["spec"]["groups"].as_array().unwrap();
    groups
        .iter()
        .flat_map(|group| group["rules"].as_array().unwrap().clone())
        .collect()
}

#[test]
fn every_alert_says_what_it_must_and_has_its_runbook() {
    let mut names = BTreeSet::new();
    for alert in alerts() {
        let name = alert["alert"].as_str().unwrap();
        assert!(names.insert(name.to_owned()), "{name} twice");
        check_query(alert["expr"].as_str().unwrap());
        let severity = alert["labels"]["severity"].as_str().unwrap_or_default();
        assert!(
            ["critical", "warning", "info"].contains(&severity),
            "{name}: {severity}"
        );
        assert_eq!(alert["labels"]["namespace"], "openshift-machine-api", "{name}");
        for field in ["summary", "description"] {
            let said = alert["annotations"][field].as_str().unwrap_or_default();
            assert!(said.ends_with('.'), "{name}: {field} is no sentence");
        }
        assert_eq!(
            alert["annotations"]["runbook_url"],
            format!("{RUNBOOKS}{name}.md"),
            "{name}"
        );
        let runbook = text(&format!("docs/runbooks/{name}.md"));
        let headings: Vec<&str> = runbook.lines().filter(|line| line.starts_with('#')).collect();
        let title = format!("# {name}");
        assert_eq!(
            headings,
            [&title, "## Meaning", "## Impact", "## Diagnosis", "## Mitigation"],
            "{name}"
        );
    }
    let runbooks: BTreeSet<String> = files(&root().join("docs/runbooks"), "md")
        .iter()
        .map(|path| path.file_stem().unwrap().to_string_lossy().into_owned())
        .collect();
    assert_eq!(runbooks, names, "a runbook without alert");
}

#[test]
fn the_dashboard_shows_what_exists() {
    let dashboard: Value = serde_json::from_str(&text("manifests/dashboards/capstan.json")).unwrap();
    let mut ids = BTreeSet::new();
    let mut shown = BTreeSet::new();
    for panel in dashboard["panels"].as_array().unwrap() {
        assert!(ids.insert(panel["id"].as_u64().unwrap()), "{}", panel["id"]);
        assert!(!panel["title"].as_str().unwrap().is_empty());
        for target in panel["targets"].as_array().into_iter().flatten() {
            let query = target["expr"].as_str().unwrap();
            check_query(query);
            shown.extend(reads(query).into_iter().map(|(name, _)| name));
        }
    }
    let own = series(&registered());
    let shown: BTreeSet<&String> = shown.iter().filter_map(|name| own.get(name)).collect();
    let all = registered();
    assert_eq!(shown, all.keys().collect(), "a metric that nobody is shown");
}

#[test]
fn the_reference_names_every_reason_wait_and_annotation() {
    let page = text(REFERENCE);
    let page: BTreeSet<&str> = quoted(&page).into_iter().collect();
    let source = |path: &str| text(path).split("#[cfg(test)]").next().unwrap().to_owned();
    let strings = |source: &str| -> Vec<String> {
        let lines = source.lines().filter(|line| !line.trim_start().starts_with("//"));
        lines
            .flat_map(|line| {
                line.split('"')
                    .skip(1)
                    .step_by(2)
                    .map(str::to_owned)
                    .collect::<Vec<_>>()
            })
            .collect()
    };
    let is_reason = |text: &String| {
        text.len() > 4 && text.starts_with(char::is_uppercase) && text.chars().all(|c| c.is_ascii_alphabetic())
    };
    let mut reasons: BTreeSet<String> = strings(&source("core/src/cpms/status.rs"))
        .into_iter()
        .filter(is_reason)
        .collect();
    // What a set that is leaving would say is not written: its status is left alone.
    for other in ["Deleting", "False"] {
        reasons.remove(other);
    }
    for (path, before) in [
        ("core/src/cpms/degraded.rs", "reason: \""),
        ("core/src/cpms/plan.rs", "=> \""),
    ] {
        let code = source(path);
        let found = code
            .split(before)
            .skip(1)
            .map(|rest| rest.split('"').next().unwrap().to_owned());
        reasons.extend(found.filter(is_reason));
    }
    assert!(reasons.len() > 30, "{reasons:?}");
    let missing: Vec<&String> = reasons
        .iter()
        .filter(|reason| !page.contains(reason.as_str()))
        .collect();
    assert!(missing.is_empty(), "{REFERENCE} does not name {missing:?}");

    let mut annotations = BTreeSet::new();
    let sources = ["core/src/cpms", "src"].map(|folder| files(&root().join(folder), "rs"));
    for path in sources.concat() {
        let code = std::fs::read_to_string(path).unwrap();
        let code = code.split("#[cfg(test)]").next().unwrap();
        let own = |line: &&str| line.contains("const ") && line.contains("\"capstan.dev/");
        annotations.extend(
            code.lines()
                .filter(own)
                .map(|line| line.split('"').nth(1).unwrap().to_owned()),
        );
    }
    assert!(annotations.len() >= 8, "{annotations:?}");
    let missing: Vec<&String> = annotations
        .iter()
        .filter(|name| !page.contains(name.as_str()))
        .collect();
    assert!(missing.is_empty(), "{REFERENCE} does not name {missing:?}");
}

fn pages() -> Vec<PathBuf> {
    files(&root().join("docs"), "md")
}

#[test]
fn every_command_of_capstan_in_the_documentation_is_one_that_it_knows() {
    let mut commands = 0;
    for page in pages() {
        for line in std::fs::read_to_string(&page)
            .unwrap()
            .lines()
            .filter(|line| line.starts_with("    "))
        {
            let line = line.split(" # ").next().unwrap();
            for part in line.split(['|', ';', '>']).flat_map(|part| part.split("&&")) {
                let words: Vec<&str> = part.split_whitespace().collect();
                if words.first() == Some(&"capstan") {
                    let parsed = Cli::try_parse_from(&words);
                    assert!(parsed.is_ok(), "{}: {part}\n{}", page.display(), parsed.unwrap_err());
                    commands += 1;
                }
            }
        }
    }
    assert!(commands > 20, "{commands}");
}

/// A heading as an anchor, as forges make it.
fn anchor(heading: &str) -> String {
    let lower = heading.trim_start_matches('#').trim().to_lowercase();
    let kept = lower
        .chars()
        .filter(|c| c.is_alphanumeric() || matches!(c, ' ' | '-' | '_'));
    kept.map(|c| if c == ' ' { '-' } else { c }).collect()
}

#[test]
fn every_link_in_the_documentation_leads_somewhere() {
    for page in pages() {
        let content = std::fs::read_to_string(&page).unwrap();
        for link in content.split("](").skip(1).map(|rest| rest.split(')').next().unwrap()) {
            if link.contains("://") {
                continue;
            }
            let (path, heading) = link.split_once('#').unwrap_or((link, ""));
            let target = if path.is_empty() {
                page.clone()
            } else {
                page.parent().unwrap().join(path)
            };
            assert!(target.exists(), "{}: {link}", page.display());
            if !heading.is_empty() {
                let text = std::fs::read_to_string(&target).unwrap();
                let found = text
                    .lines()
                    .filter(|line| line.starts_with('#'))
                    .any(|line| anchor(line) == heading);
                assert!(found, "{}: {link}: no such heading", page.display());
            }
        }
    }
}
