//! Checks that every defect has a test that names it, and that docs/defects.md lists existing tests
//! and files.

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

/// The heading of the third table.
const REMOVED: &str = "## Tests that fail without their fix";

/// The cells of each row of the table below a heading.
fn rows<'p>(page: &'p str, heading: &str) -> Vec<Vec<&'p str>> {
    let table = page.split(heading).nth(1).unwrap();
    let table = table.split("\n## ").next().unwrap();
    let rows = table.lines().filter(|line| line.starts_with("| ")).skip(1);
    rows.map(|row| row.trim_matches('|').split('|').map(str::trim).collect())
        .collect()
}

/// The tests of the defects in Capstan, by the id of the defect in lower case.
fn tests_of_capstan(page: &str) -> BTreeMap<String, BTreeSet<&str>> {
    let mut tests: BTreeMap<String, BTreeSet<&str>> = BTreeMap::new();
    let mut id = String::new();
    for cells in rows(page, IN_CAPSTAN) {
        assert_eq!(cells.len(), 4, "{cells:?}");
        if !cells[0].is_empty() {
            id = cells[0].to_lowercase();
            assert!(!cells[1].is_empty(), "{cells:?}");
        }
        let (path, name) = (quoted(cells[2]), quoted(cells[3]));
        assert!(defines(&text(path), name), "{path} has no test {name}");
        assert!(name.split('_').any(|part| part == id), "{name} does not contain {id}");
        tests.entry(id.clone()).or_default().insert(name);
    }
    tests
}

/// The ids of the defects whose fixes were removed to see the tests fail.
fn removed() -> BTreeSet<String> {
    let series = [("s", 1..=12), ("a", 1..=7), ("h", 1..=10), ("f", 1..=11), ("n", 1..=9)];
    let ids = series
        .into_iter()
        .flat_map(|(series, numbers)| numbers.map(move |number| format!("{series}{number}")));
    // No defect has the id F2.
    ids.filter(|id| id != "f2").collect()
}

#[test]
fn every_defect_of_capstan_has_a_test_whose_name_starts_with_its_id() {
    let page = text("docs/defects.md");
    let tests = tests_of_capstan(&page);
    let missing: Vec<String> = removed().into_iter().filter(|id| !tests.contains_key(id)).collect();
    assert_eq!(missing, [""; 0]);
}

#[test]
fn a_test_of_each_defect_fails_without_the_fix() {
    let page = text("docs/defects.md");
    let tests = tests_of_capstan(&page);
    let mut listed = BTreeSet::new();
    for cells in rows(&page, REMOVED) {
        assert_eq!(cells.len(), 5, "{cells:?}");
        let (id, test) = (cells[0].to_lowercase(), quoted(cells[3]));
        assert!(!text(quoted(cells[1])).is_empty(), "{cells:?}");
        assert!(tests[&id].contains(test), "{id} has no test {test}");
        listed.insert(id);
    }
    assert_eq!(listed, removed());
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
