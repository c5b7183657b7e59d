//! Checks that every defect of the upstream operator has a test that names it, and that
//! docs/defects.md lists existing tests.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "a test reports a failure by a panic"
)]

use std::collections::{BTreeMap, BTreeSet};

fn text(path: &str) -> String {
    let path = format!("{}/{path}", env!("CARGO_MANIFEST_DIR"));
    std::fs::read_to_string(&path).unwrap_or_else(|error| panic!("{path}: {error}"))
}

/// The text in backticks of a table cell.
fn quoted(cell: &str) -> &str {
    let cell = cell.trim();
    cell.strip_prefix('`')
        .and_then(|rest| rest.strip_suffix('`'))
        .unwrap_or_else(|| panic!("a cell must be one word in backticks: {cell:?}"))
}

/// Whether a source defines a test of this name, as a function or as a line in a table of golden
/// tests.
fn defines(source: &str, name: &str) -> bool {
    let mut before = "";
    for line in source.lines() {
        let code = line.trim();
        let golden = code.strip_prefix(name).is_some_and(|rest| rest.starts_with(['(', ':']));
        let function = code.contains(&format!("fn {name}(")) && before.contains("test");
        if golden || function {
            return true;
        }
        before = code;
    }
    false
}

#[test]
fn every_defect_has_a_test_that_names_it() {
    let page = text("docs/defects.md");
    let mut tests: BTreeMap<u32, BTreeSet<String>> = BTreeMap::new();
    let mut defect = 0;
    let upstream = page.split(IN_CAPSTAN).next().unwrap();
    for row in upstream.lines().filter(|line| line.starts_with("| ")).skip(1) {
        let cells: Vec<&str> = row.trim_matches('|').split('|').map(str::trim).collect();
        assert_eq!(cells.len(), 4, "{row}");
        if let Some(number) = cells[0].strip_prefix('B') {
            defect = number.parse().unwrap();
            assert!(!cells[1].is_empty(), "{row}");
        }
        let (path, name) = (quoted(cells[2]), quoted(cells[3]));
        assert!(defines(&text(path), name), "{path} must have the test {name}");
        let words: Vec<&str> = name.split('_').collect();
        assert!(
            words.contains(&format!("b{defect}").as_str()),
            "{name} must contain b{defect}"
        );
        tests.entry(defect).or_default().insert(name.to_owned());
    }
    let listed: Vec<u32> = tests.keys().copied().collect();
    assert_eq!(listed, (1..=24).collect::<Vec<u32>>());
}

/// The heading of the second table.
const IN_CAPSTAN: &str = "## Defects found in Capstan by neighbours and attackers";

#[test]
fn every_defect_of_capstan_has_a_test_whose_name_starts_with_its_id() {
    let page = text("docs/defects.md");
    let mut id = String::new();
    let mut count = 0;
    let table = page.split(IN_CAPSTAN).nth(1).unwrap();
    for row in table.lines().filter(|line| line.starts_with("| ")).skip(1) {
        let cells: Vec<&str> = row.trim_matches('|').split('|').map(str::trim).collect();
        assert_eq!(cells.len(), 4, "{row}");
        if !cells[0].is_empty() {
            id = cells[0].to_lowercase();
            assert!(!cells[1].is_empty(), "{row}");
        }
        let (path, name) = (quoted(cells[2]), quoted(cells[3]));
        assert!(defines(&text(path), name), "{path} has no test {name}");
        assert!(name.split('_').any(|part| part == id), "{name} does not contain {id}");
        count += 1;
    }
    assert!(count > 0, "the table has no rows");
}

/// Counts the rollout traces, so that none is lost.
#[test]
fn there_are_at_least_forty_rollout_traces() {
    let folder = format!("{}/core/src/cpms/plan/tests/snapshots", env!("CARGO_MANIFEST_DIR"));
    let traces = text("core/src/cpms/plan/tests/traces.rs");
    let mut count = 0;
    for entry in std::fs::read_dir(folder).unwrap() {
        let name = entry.unwrap().file_name().into_string().unwrap();
        let name = name.trim_end_matches(".snap");
        count += usize::from(defines(&traces, name));
    }
    assert!(count >= 40, "{count}");
}
