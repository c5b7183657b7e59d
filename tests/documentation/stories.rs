//! Compares the table of user stories in docs/control-plane.md with the tests that it names.

use std::collections::BTreeSet;

use crate::text;

#[test]
fn every_user_story_of_control_planes_has_a_test() {
    let page = text("docs/control-plane.md");
    let (_, section) = page.split_once("## Tests of the user stories").unwrap();
    let section = section.split("\n## ").next().unwrap();
    let mut stories = BTreeSet::new();
    for row in section.lines().filter(|line| line.contains("::")) {
        let cells: Vec<&str> = row.trim_matches('|').split('|').map(str::trim).collect();
        let [story, test] = cells.as_slice() else {
            panic!("the row must have two cells: {row}")
        };
        let (file, name) = test.trim_matches('`').split_once("::").unwrap();
        let source = text(file);
        let (before, _) = source
            .split_once(&format!("fn {name}()"))
            .unwrap_or_else(|| panic!("{file} has no test {name}"));
        let attribute = before.lines().rev().nth(1).unwrap();
        assert!(attribute.starts_with("#[tokio::test"), "{name} is no test: {attribute}");
        assert!(stories.insert((*story).to_owned()), "{story} has two rows");
    }
    for number in 1..=7 {
        let is_listed = stories.iter().any(|story| story.starts_with(&format!("{number}: ")));
        assert!(is_listed, "story {number} has no row");
    }
    let changes = [
        "3 → 5",
        "5 → 3",
        "1 → 3 → 1",
        "one unhealthy node",
        "number and shape in one edit",
    ];
    for change in changes {
        assert!(stories.contains(change), "{change} has no row");
    }
}
