//! Compares the documentation with the program: metrics, alerts, runbooks, dashboard, reasons,
//! annotations, commands, links, and cited decisions. The tests need no API server and no
//! Prometheus.
//!
//! The tests do not evaluate queries. They check brackets, functions, metrics, and labels.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "a panic fails the test"
)]

mod documentation {
    mod decisions;
    mod stories;
}

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use capstan::cli::Cli;
use capstan::controllers;
use capstan::server::{Lifecycle, Limits, NullReviewer, Server, Settings};
use capstan::tls::{Certificates, Policy};
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

/// The files with this extension in a folder and its subfolders.
fn files(folder: &Path, extension: &str) -> Vec<PathBuf> {
    let mut found = Vec::new();
    for entry in std::fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            found.extend(files(&path, extension));
        } else if path.extension().is_some_and(|found| found == extension) {
            found.push(path);
        }
    }
    found.sort();
    found
}

fn is_word(c: char) -> bool {
    c.is_ascii_alphanumeric() || c == '_'
}

/// The parts of a text between backticks.
fn quoted(text: &str) -> Vec<&str> {
    text.split('`').skip(1).step_by(2).collect()
}

/// The exposed name of each metric, and its type.
type Metrics = BTreeMap<String, &'static str>;

/// Every metric that the sources register. The text of `/metrics` does not contain a family without
/// a count, so this function reads the sources.
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
            let metric = ["Counter", "Gauge", "Histogram"]
                .into_iter()
                .find(|metric| type_.contains(metric));
            let metric = metric.unwrap_or_else(|| panic!("{field}: {type_}"));
            let unit = if call.contains("Unit::Seconds") { "_seconds" } else { "" };
            let total = if metric == "Counter" { "_total" } else { "" };
            assert!(
                metrics.insert(format!("{name}{unit}{total}"), metric).is_none(),
                "{name} is registered twice"
            );
        }
    }
    assert!(metrics.len() > 15, "{metrics:?}");
    metrics
}

/// The names of series that queries use, each with the name of its metric.
fn series(metrics: &Metrics) -> BTreeMap<String, String> {
    let mut series = BTreeMap::new();
    for (name, metric) in metrics {
        let endings: &[&str] = if *metric == "Histogram" {
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

/// The rows of the tables in docs/metrics.md: the name and the labels of each metric.
fn documented() -> BTreeMap<String, BTreeSet<String>> {
    let mut rows = BTreeMap::new();
    for line in text("docs/metrics.md").lines().filter(|line| line.starts_with("| `")) {
        let cells: Vec<&str> = line.split('|').map(str::trim).collect();
        // The tables of the metrics of Capstan have a column for the type before the labels.
        let own = cells[1].starts_with("`capstan_");
        let labels = cells[if own { 3 } else { 2 }];
        // Parentheses contain the values of a label.
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

/// The names of all labels: the fields of the structs that the sources encode as labels.
fn labels() -> BTreeSet<String> {
    let mut labels = BTreeSet::new();
    for path in files(&root().join("src"), "rs") {
        let source = std::fs::read_to_string(&path).unwrap();
        for label_set in source.split("EncodeLabelSet)]").skip(1) {
            let fields = label_set.split('{').nth(1).unwrap().split('}').next().unwrap();
            let code = fields.lines().filter(|line| !line.trim_start().starts_with("//"));
            let names = code.filter_map(|line| line.split_once(": ")?.0.rsplit(' ').next());
            labels.extend(names.map(str::to_owned));
        }
    }
    labels
}

#[test]
fn every_documented_label_of_capstan_exists_and_every_label_is_documented() {
    let own = documented()
        .into_iter()
        .filter(|(name, _)| name.starts_with("capstan_"));
    let documented: BTreeSet<String> = own.flat_map(|(_, labels)| labels).collect();
    assert_eq!(labels(), documented, "docs/metrics.md");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_server_exposes_metrics_with_the_names_and_types_of_the_sources() {
    let mut registry = Registry::default();
    let _controllers = controllers::Metrics::register(&mut registry);
    let lifecycle = Lifecycle::new();
    let settings = Settings {
        listen: "127.0.0.1:0".parse().unwrap(),
        health: "127.0.0.1:0".parse().unwrap(),
        metrics: None,
        tls: Policy::default(),
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
    let (mut exposed, mut process) = (0, 0);
    let documented = documented();
    for line in page.lines().filter_map(|line| line.strip_prefix("# TYPE ")) {
        let (name, metric) = line.split_once(' ').unwrap();
        // The names of these metrics are those of other exporters.
        if name.starts_with("process_") {
            let total = if metric == "counter" { "_total" } else { "" };
            assert!(documented.contains_key(&format!("{name}{total}")), "{name}");
            process += 1;
            continue;
        }
        let name = if metric == "counter" {
            format!("{name}_total")
        } else {
            name.to_owned()
        };
        let known = registered
            .get(&name)
            .unwrap_or_else(|| panic!("the sources do not register {name}"));
        assert_eq!(known.to_lowercase(), metric, "{name}");
        exposed += 1;
    }
    assert!(exposed > 8, "{page}");
    assert_eq!(process, 5, "{page}");
}

/// Parses a query: returns the metrics that it reads, with the labels of their selectors.
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
        "label_replace",
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
                let opened = open.pop().unwrap_or_else(|| panic!("unmatched {c}: {query}"));
                assert!(matches!((opened, c), ('(', ')') | ('{', '}') | ('[', ']')), "{query}");
                if grouping == Some(open.len()) {
                    grouping = None;
                }
            }
            '"' => {
                let length = chars[at..].iter().position(|c| *c == '"');
                at += length.unwrap_or_else(|| panic!("unterminated string: {query}")) + 1;
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
                        .unwrap_or_else(|| panic!("labels without a metric: {query}"))
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
                    panic!("unknown function {word}: {query}");
                } else if !WORDS.contains(&word.as_str()) {
                    found.push((word, BTreeSet::new()));
                }
            }
            _ => assert!(c.is_whitespace() || "+-*/<>=!,~.".contains(c), "{c:?}: {query}"),
        }
    }
    assert!(open.is_empty(), "unclosed bracket: {query}");
    assert!(!found.is_empty(), "no metric: {query}");
    found
}

fn check_query(query: &str) {
    // Labels that the PodMonitor adds, or that belong to the type of the metric.
    const ANYWHERE: &[&str] = &["namespace", "pod", "instance", "le"];
    let documented = documented();
    let own = series(&registered());
    for (name, labels) in reads(query) {
        let row = own.get(&name).unwrap_or(&name);
        let known = documented
            .get(row)
            .unwrap_or_else(|| panic!("docs/metrics.md does not contain {name}: {query}"));
        for label in labels {
            let exists = known.contains(&label) || ANYWHERE.contains(&label.as_str());
            assert!(exists, "{name} has no label {label}: {query}");
        }
    }
}

#[test]
fn a_query_is_parsed() {
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
fn every_alert_is_complete_and_has_a_runbook() {
    let mut names = BTreeSet::new();
    for alert in alerts() {
        let name = alert["alert"].as_str().unwrap();
        assert!(names.insert(name.to_owned()), "two alerts have the name {name}");
        check_query(alert["expr"].as_str().unwrap());
        let severity = alert["labels"]["severity"].as_str().unwrap_or_default();
        assert!(
            ["critical", "warning", "info"].contains(&severity),
            "{name}: {severity}"
        );
        assert_eq!(alert["labels"]["namespace"], "openshift-machine-api", "{name}");
        for field in ["summary", "description"] {
            let sentence = alert["annotations"][field].as_str().unwrap_or_default();
            assert!(sentence.ends_with('.'), "{name}: {field} is not a sentence");
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
    assert_eq!(runbooks, names, "every runbook has an alert");
}

#[test]
fn the_dashboard_shows_every_metric() {
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
    assert_eq!(shown, all.keys().collect(), "the dashboard shows every metric");
}

/// The code of a module of core and of its child modules, without tests.
fn module(name: &str) -> String {
    let path = root().join("core/src").join(name);
    let mut paths = vec![path.with_extension("rs")];
    if path.is_dir() {
        paths.extend(files(&path, "rs"));
    }
    let is_test = |path: &PathBuf| path.iter().any(|part| part == "tests" || part == "tests.rs");
    paths.retain(|path| !is_test(path));
    let without_tests = |path: &PathBuf| {
        let code = std::fs::read_to_string(path).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
        code.split("#[cfg(test)]").next().unwrap_or_default().to_owned()
    };
    paths.iter().map(without_tests).collect()
}

/// The string literals of a source, without those in comments.
fn strings(source: &str) -> Vec<String> {
    let lines = source.lines().filter(|line| !line.trim_start().starts_with("//"));
    let literals = |line: &str| -> Vec<String> { line.split('"').skip(1).step_by(2).map(str::to_owned).collect() };
    lines.flat_map(literals).collect()
}

/// Whether a string looks like the reason of a condition or of a wait.
fn is_reason(text: &str) -> bool {
    text.len() > 4 && text.starts_with(char::is_uppercase) && text.chars().all(|c| c.is_ascii_alphabetic())
}

#[test]
fn the_reference_names_every_reason_and_wait() {
    let page = text(REFERENCE);
    let page: BTreeSet<&str> = quoted(&page).into_iter().collect();
    let mut reasons: BTreeSet<String> = strings(&module("cpms/status"))
        .into_iter()
        .filter(|text| is_reason(text))
        .collect();
    // `False` is the status of a condition. A set that is being deleted keeps its status, so no
    // condition gets the reason `Deleting` from this literal.
    for other in ["Deleting", "False"] {
        reasons.remove(other);
    }
    for (name, before) in [("cpms/degraded", "reason: \""), ("cpms/action", "=> \"")] {
        let code = module(name);
        let found = code
            .split(before)
            .skip(1)
            .map(|rest| rest.split('"').next().unwrap().to_owned());
        reasons.extend(found.filter(|text| is_reason(text)));
    }
    assert!(reasons.len() > 30, "{reasons:?}");
    let missing: Vec<&String> = reasons
        .iter()
        .filter(|reason| !page.contains(reason.as_str()))
        .collect();
    assert!(missing.is_empty(), "{REFERENCE} does not name {missing:?}");
}

#[test]
fn the_reference_names_every_annotation() {
    let page = text(REFERENCE);
    let page: BTreeSet<&str> = quoted(&page).into_iter().collect();
    let mut annotations = BTreeSet::new();
    let sources = ["core/src/cpms", "core/src/model", "src"].map(|folder| files(&root().join(folder), "rs"));
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

/// The pages that users read: the folder `docs`, and the Markdown files outside of it.
fn pages() -> Vec<PathBuf> {
    let mut pages = files(&root().join("docs"), "md");
    pages.extend(OTHER_PAGES.map(|page| root().join(page)));
    pages
}

const OTHER_PAGES: [&str; 8] = [
    "ARCHITECTURE.md",
    "CHANGELOG.md",
    "CONTRIBUTING.md",
    "README.md",
    "SECURITY.md",
    "certs/README.md",
    "manifests/README.md",
    "webhooks/README.md",
];

/// The lines of a page that are code: they are indented by at least four spaces.
fn code_lines(page: &str) -> impl Iterator<Item = &str> {
    page.lines().filter(|line| line.starts_with("    "))
}

#[test]
fn capstan_knows_every_command_in_the_documentation() {
    let mut commands = 0;
    for page in pages() {
        for line in code_lines(&std::fs::read_to_string(&page).unwrap()) {
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

/// W103: both APIs have these kinds. kubectl takes a plural without a group for the group that is
/// first in the alphabet, so a command of a page could act on the objects of the other API.
#[test]
fn w103_commands_name_the_group_of_kinds_that_both_apis_have() {
    const SHARED: [&str; 6] = [
        "machine",
        "machines",
        "machineset",
        "machinesets",
        "machinehealthcheck",
        "machinehealthchecks",
    ];
    let mut sources = pages();
    sources.extend(files(&root().join("src"), "rs"));
    let mut commands = 0;
    for source in sources {
        let text = std::fs::read_to_string(&source).unwrap();
        for line in text.lines().filter(|line| line.contains("kubectl")) {
            // Text that kubectl prints is prose.
            let Some((_, command)) = line.split_once("kubectl ").filter(|_| !line.starts_with("Error from")) else {
                continue;
            };
            // The kinds of a command stand before its comment, and before the end of inline code.
            let command = command.split(['#', '`', '|']).next().unwrap();
            let words = command.split([' ', ',', '/', ')']);
            let shared: Vec<&str> = words.filter(|word| SHARED.contains(word)).collect();
            assert!(shared.is_empty(), "{}: {shared:?} in {line}", source.display());
            commands += usize::from(command.contains(" get "));
        }
    }
    assert!(commands > 20, "{commands}");
}

/// W126: `kubectl replace` stores what it writes as the last applied object, with its version and
/// status. A later `kubectl apply` of the manifest fails.
#[test]
fn w126_no_command_writes_live_objects_back_with_kubectl_replace() {
    let mut sources = pages();
    sources.extend(files(&root().join("src"), "rs"));
    for source in sources {
        let text = std::fs::read_to_string(&source).unwrap();
        assert!(!text.contains("kubectl replace -f -"), "{}", source.display());
        let lines: Vec<&str> = text.lines().map(str::trim).collect();
        let is_pipe = |pair: &[&str]| pair[0].ends_with('|') && pair[1].starts_with("kubectl replace");
        assert!(!lines.windows(2).any(is_pipe), "{}", source.display());
    }
}

/// The first pattern of each `grep` in a line: the text after its options.
fn searched(line: &str) -> Option<&str> {
    let (_, arguments) = line.split_once("grep '")?;
    arguments.split('\'').next()
}

#[test]
fn a_log_line_that_a_runbook_searches_for_exists() {
    let mut code = String::new();
    for path in files(&root().join("src"), "rs") {
        code += &std::fs::read_to_string(path).unwrap();
    }
    let mut found = 0;
    for page in files(&root().join("docs/runbooks"), "md") {
        let text = std::fs::read_to_string(&page).unwrap();
        for pattern in code_lines(&text).filter_map(searched) {
            assert!(code.contains(pattern), "{}: src logs no {pattern:?}", page.display());
            found += 1;
        }
    }
    assert!(found >= 4, "{found}");
}

#[test]
fn every_message_that_troubleshooting_explains_exists() {
    let mut code = String::new();
    for folder in ["src", "core/src"] {
        for path in files(&root().join(folder), "rs") {
            // A long literal continues in the next line.
            let text = std::fs::read_to_string(path).unwrap();
            let lines = text.lines().filter(|line| !line.trim_start().starts_with("//"));
            let lines: Vec<&str> = lines.map(|line| line.trim().trim_end_matches('\\')).collect();
            code += &lines.join("");
        }
    }
    let page = text("docs/troubleshooting.md");
    let messages: Vec<&str> = page.lines().filter_map(|line| line.strip_prefix("### `")).collect();
    for message in &messages {
        let message = message.trim_end_matches('`');
        assert!(code.contains(message), "the sources contain no message {message:?}");
    }
    assert!(messages.len() >= 10, "{messages:?}");
}

/// A heading as an anchor, as code hosting sites generate it.
fn anchor(heading: &str) -> String {
    let lower = heading.trim_start_matches('#').trim().to_lowercase();
    let kept = lower
        .chars()
        .filter(|c| c.is_alphanumeric() || matches!(c, ' ' | '-' | '_'));
    kept.map(|c| if c == ' ' { '-' } else { c }).collect()
}

/// Fails if a link of a page has no target.
fn check_link(page: &Path, link: &str) {
    let (path, heading) = link.split_once('#').unwrap_or((link, ""));
    let target = if path.is_empty() {
        page.to_owned()
    } else {
        page.parent().unwrap().join(path)
    };
    assert!(target.exists(), "{}: {link}", page.display());
    if heading.is_empty() {
        return;
    }
    let text = std::fs::read_to_string(&target).unwrap();
    let found = text
        .lines()
        .filter(|line| line.starts_with('#'))
        .any(|line| anchor(line) == heading);
    assert!(found, "{}: {link}: no such heading", page.display());
}

#[test]
fn every_link_in_the_documentation_has_a_target() {
    for page in pages() {
        let content = std::fs::read_to_string(&page).unwrap();
        let links = content.split("](").skip(1).map(|rest| rest.split(')').next().unwrap());
        for link in links.filter(|link| !link.contains("://")) {
            check_link(&page, link);
        }
    }
}

#[test]
fn every_page_of_the_documentation_is_linked() {
    let mut linked = BTreeSet::new();
    for page in pages() {
        let content = std::fs::read_to_string(&page).unwrap();
        for link in content.split("](").skip(1).map(|rest| rest.split(')').next().unwrap()) {
            let path = link.split('#').next().unwrap();
            if let Ok(target) = page.parent().unwrap().join(path).canonicalize() {
                linked.insert(target);
            }
        }
    }
    let folder = root().join("docs").canonicalize().unwrap();
    // The alerts link to the runbooks.
    let runbooks = folder.join("runbooks");
    for extension in ["md", "svg"] {
        for page in files(&folder, extension) {
            let found = linked.contains(&page) || page.starts_with(&runbooks);
            assert!(found, "no page links to {}", page.display());
        }
    }
}

/// The paths of sources and other files that a page names between backticks.
fn named_paths(page: &str) -> impl Iterator<Item = &str> {
    const FOLDERS: [&str; 8] = [
        "certs/",
        "core/",
        "docs/",
        "manifests/",
        "sandbox/",
        "src/",
        "tests/",
        "webhooks/",
    ];
    let is_path = |text: &&str| {
        let plain = text.chars().all(|c| c.is_ascii_alphanumeric() || "/._-".contains(c));
        plain && FOLDERS.iter().any(|folder| text.starts_with(folder))
    };
    quoted(page).into_iter().filter(is_path)
}

#[test]
fn every_path_in_the_documentation_exists() {
    for page in pages() {
        let text = std::fs::read_to_string(&page).unwrap();
        for path in named_paths(&text) {
            assert!(root().join(path).exists(), "{}: {path} does not exist", page.display());
        }
    }
}

#[test]
fn the_readme_has_at_most_80_lines() {
    let lines = text("README.md").lines().count();
    assert!(lines <= 80, "README.md has {lines} lines; move details to docs/");
}
