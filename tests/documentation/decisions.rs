//! Compares the design decisions in `docs/decisions` with the texts that cite them.

use std::collections::BTreeMap;
use std::path::PathBuf;

use crate::{files, pages, root};

/// The design decisions: the number of each, and its file.
fn decisions() -> BTreeMap<u32, PathBuf> {
    let mut decisions = BTreeMap::new();
    for path in files(&root().join("docs/decisions"), "md") {
        let name = path.file_stem().unwrap().to_string_lossy().into_owned();
        if name == "README" {
            continue;
        }
        let (number, _) = name.split_once('-').unwrap_or_else(|| panic!("{name} has no title"));
        assert_eq!(number.len(), 4, "{name}");
        let earlier = decisions.insert(number.parse().unwrap(), path);
        assert!(earlier.is_none(), "two decisions have the number {number}");
    }
    decisions
}

/// Removes the markers of a comment from the start of a line.
fn without_marker(line: &str) -> &str {
    line.trim_start().trim_start_matches(['/', '!', '#', '*']).trim()
}

/// The numbers of the decisions that a text cites, as in "decision 15", "decisions 15, 18", and
/// "decisions 4 to 6 and 17". A citation may continue on the next line of a comment.
fn cited(text: &str) -> Vec<u32> {
    let words: Vec<&str> = text
        .lines()
        .flat_map(|line| without_marker(line).split_whitespace())
        .collect();
    let is_citation = |word: &str| {
        let word = word.trim_matches(|c: char| !c.is_alphanumeric()).to_lowercase();
        word == "decision" || word == "decisions"
    };
    let starts = (0..words.len()).filter(|at| is_citation(words[*at]));
    starts.flat_map(|at| numbers(&words[at + 1..])).collect()
}

/// The numbers at the beginning of a list of words: `15, 18`, `4 to 6 and 17`, `9.`
fn numbers(words: &[&str]) -> Vec<u32> {
    let mut found: Vec<u32> = Vec::new();
    let mut range = false;
    let mut more = true;
    for word in words {
        let digits = word.trim_matches(|c: char| !c.is_ascii_alphanumeric());
        if let Ok(number) = digits.parse() {
            if !more {
                break;
            }
            let first = found.last().map_or(number, |last| last + 1);
            let first = if range { first } else { number };
            found.extend(first..=number);
            range = false;
            more = word.ends_with(',');
        } else if !found.is_empty() && ["and", "or", "to"].contains(word) {
            range = *word == "to";
            more = true;
        } else {
            break;
        }
    }
    found
}

/// The paths below `docs/decisions/` that a text contains.
fn cited_paths(text: &str) -> Vec<&str> {
    let parts = text.split("decisions/").skip(1);
    let paths = parts.map(|part| {
        let end = part.find(|c: char| !(c.is_ascii_alphanumeric() || c == '-' || c == '.'));
        part[..end.unwrap_or(part.len())].trim_end_matches('.')
    });
    paths
        .filter(|path| path.starts_with(|c: char| c.is_ascii_digit()))
        .collect()
}

#[test]
fn citations_of_decisions_are_found() {
    assert_eq!(cited("as decision 15 says. Decision 8: x"), [15, 8]);
    assert_eq!(cited("/// see (decisions 15, 18)."), [15, 18]);
    assert_eq!(cited("decisions 4 to 6 and 17, in 20 cases"), [4, 5, 6, 17]);
    assert_eq!(cited("//! enhancement; decision\n//! 12."), [12]);
    assert_eq!(cited("a decision of 3 people, indecision 4"), Vec::<u32>::new());
    assert_eq!(
        cited_paths("see docs/decisions/0010-empty-authority.md."),
        ["0010-empty-authority.md"]
    );
    assert_eq!(cited_paths("`docs/decisions/0015`, docs/decisions/README.md"), ["0015"]);
}

/// The files that can cite a decision: sources, manifests, and pages.
fn citing() -> Vec<PathBuf> {
    let folders = [
        "certs",
        "core",
        "docs",
        "manifests",
        "sandbox",
        "src",
        "tests",
        "webhooks",
    ];
    let extensions = ["rs", "toml", "yaml", "md"];
    let mut found = pages();
    found.extend(["Cargo.toml", "Makefile", "clippy.toml", "deny.toml", ".ci/run"].map(|file| root().join(file)));
    for folder in folders {
        for extension in extensions {
            found.extend(files(&root().join(folder), extension));
        }
    }
    found
}

#[test]
fn every_cited_decision_has_a_file() {
    let decisions = decisions();
    let mut citations = 0;
    for path in citing() {
        let text = std::fs::read_to_string(&path).unwrap();
        for number in cited(&text) {
            assert!(
                decisions.contains_key(&number),
                "{}: decision {number} has no file in docs/decisions",
                path.display()
            );
            citations += 1;
        }
        for cited in cited_paths(&text) {
            let exists = if cited.len() == 4 {
                cited.parse().is_ok_and(|number| decisions.contains_key(&number))
            } else {
                root().join("docs/decisions").join(cited).exists()
            };
            assert!(exists, "{}: docs/decisions/{cited} does not exist", path.display());
        }
    }
    assert!(citations > 20, "{citations}");
}

#[test]
fn every_decision_has_context_decision_and_consequence() {
    let decisions = decisions();
    let numbers: Vec<u32> = decisions.keys().copied().collect();
    let last = numbers.last().copied().unwrap();
    assert_eq!(numbers, (1..=last).collect::<Vec<u32>>(), "the numbers have no gap");
    for (number, path) in decisions {
        let text = std::fs::read_to_string(&path).unwrap();
        let headings: Vec<&str> = text.lines().filter(|line| line.starts_with('#')).collect();
        let [title, parts @ ..] = headings.as_slice() else {
            panic!("{} has no title", path.display())
        };
        assert!(title.starts_with(&format!("# {number}. ")), "{}", path.display());
        assert_eq!(
            parts,
            ["## Context", "## Decision", "## Consequence"],
            "{}",
            path.display()
        );
    }
}
