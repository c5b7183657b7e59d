//! Checks the structure of the repository: the modules and files that each may name, what core must
//! not use, and the length of files and functions. The tests read the sources. `ARCHITECTURE.md`
//! gives the reasons.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "a panic fails the test"
)]

mod circles;
mod functions;
mod imports;
mod modules;
mod references;
mod source;

use std::fs;

use circles::{circles, describe};
use functions::functions;
use imports::Crate;
use references::contents;
use source::{root, sources};

/// The folders and the names of our crates.
const CRATES: [(&str, &str); 3] = [
    ("core/src", "capstan_core"),
    ("src", "capstan"),
    ("sandbox/src", "capstan_sandbox"),
];

/// The largest number of lines of a file.
const FILE_LINES: usize = 800;

/// A function outside tests must have fewer lines.
const FUNCTION_LINES: usize = 80;

/// Kinds of Kubernetes objects; the runtime must name none of them.
const KINDS: [&str; 7] = [
    "Machine",
    "MachineSet",
    "ControlPlaneMachineSet",
    "Node",
    "ClusterOperator",
    "Infrastructure",
    "FeatureGate",
];

#[test]
fn files_name_each_other_in_one_direction() {
    let mut report = String::new();
    for (folder, name) in CRATES {
        let sources = sources(folder);
        let edges = Crate::new(name, &sources).edges();
        for circle in circles(&edges) {
            report.push_str(&format!(
                "\n  {} files of {folder}:\n{}",
                circle.len(),
                describe(&circle)
            ));
        }
    }
    assert!(
        report.is_empty(),
        "files must not name each other in a circle:\n{report}"
    );
}

#[test]
fn a_function_is_shorter_than_eighty_lines() {
    let mut long = Vec::new();
    for (folder, _) in CRATES {
        for source in sources(folder) {
            for function in functions(&source)
                .iter()
                .filter(|function| function.lines >= FUNCTION_LINES)
            {
                long.push(format!(
                    "{}:{} {}: {} lines",
                    source.path, function.line, function.name, function.lines
                ));
            }
        }
    }
    assert!(
        long.is_empty(),
        "functions must be shorter than {FUNCTION_LINES} lines:\n{}",
        long.join("\n")
    );
}

#[test]
fn the_runtime_names_no_kind() {
    let mut found = Vec::new();
    for source in sources("src/runtime") {
        for (at, text) in source.text.lines().enumerate() {
            let words = text.split(|letter: char| !letter.is_ascii_alphanumeric());
            for word in words.filter(|word| KINDS.contains(&word.strip_suffix('s').unwrap_or(word))) {
                found.push(format!("{}:{}: {word}", source.path, at + 1));
            }
        }
    }
    assert!(
        found.is_empty(),
        "src/runtime must work for any kind:\n{}",
        found.join("\n")
    );
}

#[test]
fn core_uses_no_clock_no_socket_no_file_no_random_source_and_no_task() {
    let words = [
        "TcpStream",
        "TcpListener",
        "UdpSocket",
        "ToSocketAddrs",
        "SystemTime",
        "HashMap",
        "HashSet",
        "RandomState",
        "tokio",
        "k8s_openapi",
        "println",
        "tracing",
    ];
    let paths: [&[&str]; 10] = [
        &["std", "fs"],
        &["std", "env"],
        &["std", "process"],
        &["std", "thread"],
        &["std", "io"],
        // core::net has the addresses without the sockets.
        &["std", "net"],
        &["Instant", "now"],
        &["Timestamp", "now"],
        &["Zoned", "now"],
        &["kube"],
    ];
    // Tests in core are checked too: a test that reads files of the repository belongs to the
    // shell.
    for source in sources("core/src") {
        for word in source::idents(source.tokens()) {
            let forbidden = words.iter().find(|forbidden| word.contains(*forbidden));
            assert!(forbidden.is_none(), "{}: core must not name {word}", source.path);
        }
        for reference in contents(&source).references {
            let forbidden = paths.iter().find(|path| has(&reference.segments, path));
            assert!(
                forbidden.is_none(),
                "{}:{}: core must not name {}",
                source.path,
                reference.line,
                reference.segments.join("::")
            );
        }
    }
}

/// Whether a path contains these consecutive segments.
fn has(path: &[String], segments: &[&str]) -> bool {
    path.windows(segments.len()).any(|window| window == segments)
}

#[test]
fn the_binary_does_not_contain_the_sandbox() {
    let manifest = fs::read_to_string(root().join("Cargo.toml")).unwrap();
    let dependencies = manifest.split("\n[dependencies]").nth(1).unwrap();
    let dependencies = dependencies.split("\n[").next().unwrap();
    assert!(dependencies.contains("capstan-core"));
    assert!(!dependencies.contains("capstan-sandbox"));
}

#[test]
fn a_file_has_at_most_eight_hundred_lines_and_a_name_for_its_content() {
    for folder in ["core/src", "core/tests", "src", "sandbox/src", "sandbox/tests", "tests"] {
        for source in sources(folder) {
            let lines = source.text.lines().count();
            assert!(
                lines <= FILE_LINES,
                "{} must have at most {FILE_LINES} lines; it has {lines}",
                source.path
            );
            for part in &source.module {
                assert!(
                    !["utils", "util", "helpers", "helper", "manager", "common", "misc"].contains(&part.as_str()),
                    "{} must have a name for its content",
                    source.path
                );
            }
        }
    }
}
