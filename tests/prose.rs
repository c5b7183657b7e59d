//! Checks the language of the project: line lengths, a list of constructions that are not plain
//! technical English, and a list of former names. CONTRIBUTING.md describes the rules.
//!
//! The tests read sources and pages, and need no API server. They do not judge style beyond these
//! lists.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "a panic fails the test"
)]

mod prose {
    pub(crate) mod lists;
    pub(crate) mod markdown;
    pub(crate) mod rust;
    pub(crate) mod words;
}

use std::path::{Path, PathBuf};

use prose::lists::{FORMER_NAMES, FORMER_WORDS, PHRASES};
use prose::words::{Word, find, is_comment_too_long};
use prose::{markdown, rust, words};

/// The largest number of columns of a line of prose.
const COLUMNS: usize = 100;

/// The folders with Rust sources.
const SOURCES: [&str; 4] = ["core", "sandbox", "src", "tests"];

/// The lists themselves contain every phrase and every former name.
const LISTS: &str = "tests/prose";

/// A file of the repository: its path from the root, and its text.
struct File {
    path: String,
    text: String,
}

fn root() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR"))
}

/// The files of a folder and its subfolders whose names end in one of `endings`. It skips build
/// output and folders such as `.git`.
fn files(folder: &str, endings: &[&str]) -> Vec<File> {
    let mut paths = Vec::new();
    collect(&root().join(folder), endings, &mut paths);
    paths.sort();
    let file = |path: PathBuf| {
        let text = std::fs::read_to_string(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
        let path = path.strip_prefix(root()).unwrap().to_string_lossy().into_owned();
        File { path, text }
    };
    paths
        .into_iter()
        .map(file)
        .filter(|file| !file.path.starts_with(LISTS))
        .collect()
}

fn collect(folder: &Path, endings: &[&str], found: &mut Vec<PathBuf>) {
    for entry in std::fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        let name = path.file_name().unwrap().to_string_lossy().into_owned();
        if path.is_dir() {
            let skipped = name == "target" || (name.starts_with('.') && name != ".ci");
            if !skipped {
                collect(&path, endings, found);
            }
        } else if endings.iter().any(|ending| path.to_string_lossy().ends_with(ending)) {
            found.push(path);
        }
    }
}

fn rust_files() -> Vec<File> {
    SOURCES.iter().flat_map(|folder| files(folder, &[".rs"])).collect()
}

/// The files whose comments begin with `#`, without generated files.
fn hash_files() -> Vec<File> {
    const GENERATED: [&str; 8] = [
        "charts/capstan/templates/",
        "manifests/crds/",
        "manifests/namespace/replacements.yaml",
        "manifests/crds-kubeadm-control-plane/",
        "manifests/crds-control-plane/",
        "webhooks/control-plane/policies/",
        "webhooks/admission/policies/",
        "webhooks/mirroring/policies/",
    ];
    let mut found = files("", &[".yaml", ".toml", "Makefile", ".ci/run"]);
    found.retain(|file| !GENERATED.iter().any(|folder| file.path.starts_with(folder)));
    found
}

/// Fails with one line for each finding.
fn report(title: &str, findings: &[String]) {
    assert!(
        findings.is_empty(),
        "{} {title}:\n{}",
        findings.len(),
        findings.join("\n")
    );
}

/// One finding for each phrase of the list that the words contain.
fn phrases(path: &str, words: &[Word], findings: &mut Vec<String>) {
    for (phrase, instead) in PHRASES {
        for line in find(words, phrase) {
            findings.push(format!("{path}:{line}: {phrase:?}: {instead}"));
        }
    }
}

fn find_long_lines_of_pages() -> Vec<String> {
    let mut findings = Vec::new();
    for file in files("", &[".md"]) {
        for (line, text) in markdown::long_lines(&file.text, COLUMNS) {
            findings.push(format!(
                "{}:{line}: {} columns: {text}",
                file.path,
                text.chars().count()
            ));
        }
    }
    findings
}

#[test]
fn lines_of_pages_have_at_most_100_columns() {
    report("lines of pages are too long", &find_long_lines_of_pages());
}

fn find_long_lines_of_comments() -> Vec<String> {
    let mut findings = Vec::new();
    let mut check = |path: &str, line: usize, text: &str| {
        if is_comment_too_long(text, COLUMNS) {
            findings.push(format!("{path}:{line}: {} columns", text.chars().count()));
        }
    };
    for file in rust_files() {
        for (line, text) in rust::comment_lines(&file.text) {
            check(&file.path, line, text);
        }
    }
    for file in hash_files() {
        for (at, text) in file.text.lines().enumerate() {
            if text.trim_start().starts_with('#') {
                check(&file.path, at + 1, text);
            }
        }
    }
    findings
}

#[test]
fn lines_of_comments_have_at_most_100_columns() {
    report("lines of comments are too long", &find_long_lines_of_comments());
}

fn find_phrases_in_pages() -> Vec<String> {
    let mut findings = Vec::new();
    for file in files("", &[".md"]) {
        phrases(&file.path, &markdown::words(&file.text), &mut findings);
    }
    findings
}

#[test]
fn pages_contain_no_listed_phrase() {
    report("phrases in pages", &find_phrases_in_pages());
}

fn find_phrases_in_comments() -> Vec<String> {
    let mut findings = Vec::new();
    for file in rust_files() {
        phrases(&file.path, &rust::words_of_comments(&file.text), &mut findings);
    }
    for file in hash_files() {
        phrases(&file.path, &words::of_hash_comments(&file.text), &mut findings);
    }
    findings
}

#[test]
fn comments_contain_no_listed_phrase() {
    report("phrases in comments", &find_phrases_in_comments());
}

fn find_phrases_in_messages() -> Vec<String> {
    let mut findings = Vec::new();
    for file in rust_files() {
        phrases(&file.path, &rust::words_of_strings(&file.text), &mut findings);
    }
    for file in files("webhooks/rules", &[".yaml"]) {
        phrases(&file.path, &words::of(&file.text, 1), &mut findings);
    }
    findings
}

#[test]
fn messages_contain_no_listed_phrase() {
    report("phrases in messages", &find_phrases_in_messages());
}

fn find_former_names() -> Vec<String> {
    let mut findings = Vec::new();
    for file in rust_files() {
        let tokens = rust::tokens(&file.text);
        for (folder, name, instead) in FORMER_NAMES {
            let lines = if file.path.starts_with(folder) {
                rust::find(&tokens, name)
            } else {
                Vec::new()
            };
            findings.extend(
                lines
                    .iter()
                    .map(|line| format!("{}:{line}: {name:?}: {instead}", file.path)),
            );
        }
        for (word, instead) in FORMER_WORDS {
            let lines = rust::find_part(&tokens, word);
            let finding =
                |(line, name): &(usize, &str)| format!("{}:{line}: {word:?} in {name:?}: {instead}", file.path);
            findings.extend(lines.iter().map(finding));
        }
    }
    findings
}

#[test]
fn sources_contain_no_former_name() {
    report("former names", &find_former_names());
}
