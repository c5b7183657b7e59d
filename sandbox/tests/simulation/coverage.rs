//! `docs/simulation-coverage.md` lists every branch, and every branch is reached or has a reason.
//! `make simulate` compares the page with what the simulation reaches.

use std::collections::BTreeSet;

use capstan_sandbox::simulation::coverage::{BRANCHES, Sign, UNREACHED};
use capstan_sandbox::simulation::{EXEMPTIONS, invariants, scenarios};

const PAGE: &str = include_str!("../../../docs/simulation-coverage.md");

/// The sources of the decisions, without the line breaks in their texts.
fn sources() -> String {
    let sources = [
        include_str!("../../../core/src/cpms/action.rs"),
        include_str!("../../../core/src/cpms/degraded.rs"),
        include_str!("../../../core/src/cpms/pending_creates.rs"),
        include_str!("../../../core/src/cpms/plan.rs"),
        include_str!("../../../core/src/cpms/plan/in_place.rs"),
        include_str!("../../../core/src/cpms/plan/machine.rs"),
        include_str!("../../../core/src/cpms/plan/rollout.rs"),
        include_str!("../../../core/src/cpms/removal.rs"),
        include_str!("../../../core/src/cpms/status.rs"),
        include_str!("../../../core/src/cpms/status/progressing.rs"),
    ];
    let mut joined = String::new();
    for line in sources.iter().flat_map(|source| source.lines()) {
        match line.trim().strip_suffix('\\') {
            Some(part) => joined.push_str(part),
            None => {
                joined.push_str(line.trim());
                joined.push('\n');
            }
        }
    }
    joined
}

/// The texts that follow a beginning, up to a character.
fn after<'a>(text: &'a str, beginning: &'a str, end: char) -> BTreeSet<&'a str> {
    let parts = text.split(beginning).skip(1);
    parts.filter_map(|part| part.split(end).next()).collect()
}

/// The cells of the rows of the page.
fn rows() -> impl Iterator<Item = Vec<&'static str>> {
    let rows = PAGE
        .lines()
        .filter_map(|line| line.strip_prefix("| ")?.strip_suffix(" |"));
    rows.map(|row| row.split(" | ").map(str::trim).collect())
}

#[test]
fn every_branch_is_reached_or_has_a_reason() {
    let unreached: BTreeSet<&str> = UNREACHED.iter().map(|(id, _)| *id).collect();
    let columns = scenarios().count();
    for id in BRANCHES.iter().map(|branch| branch.id) {
        let row = rows().find(|row| row[0] == id && row.len() == columns + 1);
        let row = row.unwrap_or_else(|| panic!("the page has no row {id:?}"));
        assert_ne!(row[1..].contains(&"x"), unreached.contains(id), "{id}");
    }
    for (id, reason) in UNREACHED {
        assert!(rows().any(|row| row == [*id, *reason]), "{id}");
    }
}

#[test]
fn the_page_has_a_row_for_each_invariant_and_exemption() {
    let ids = invariants()
        .map(|one| one.id)
        .chain(EXEMPTIONS.iter().map(|one| one.id));
    for id in ids {
        assert!(rows().any(|row| row[0] == id), "{id}");
    }
}

#[test]
fn the_texts_of_branches_are_those_of_the_sources() {
    let sources = sources() + include_str!("../../../core/src/cpms/machine_state.rs");
    for branch in BRANCHES {
        let text = match branch.sign {
            Sign::Event(_, text) => text,
            Sign::Condition(_, _, reason) => reason,
        };
        assert!(sources.contains(text), "{}: {text:?}", branch.id);
    }
    let ids: BTreeSet<&str> = BRANCHES.iter().map(|branch| branch.id).collect();
    assert_eq!(ids.len(), BRANCHES.len(), "two branches have the same id");
}

#[test]
fn every_reason_of_the_sources_has_a_branch() {
    let mut sources = sources();
    for constant in ["FAILED_REPLACEMENT", "TEMPLATE_NOT_STORED", "INVALID_TEMPLATE_METADATA"] {
        let beginning = format!("const {constant}: &str = \"");
        let value = after(&sources, &beginning, '"').pop_first().unwrap().to_owned();
        sources.push_str(&format!("reason: \"{value}\"\n"));
    }
    let waits = after(&sources, "=> \"", '"');
    let verbs = ["create", "delete", "patch"];
    let reasons = after(&sources, "reason: \"", '"').into_iter();
    let conditions = after(&sources, "new(false, \"", '"').into_iter();
    let conditions = conditions.chain(after(&sources, "new(true, \"", '"'));
    let blocked = after(&sources, "(\"", '"').into_iter();
    let blocked = blocked.filter(|reason| sources.contains(&format!("(\"{reason}\", WaitReason::")));
    let all: BTreeSet<&str> = reasons.chain(waits).chain(conditions).chain(blocked).collect();
    assert!(all.len() > 35, "{all:?}");
    let known: BTreeSet<&str> = BRANCHES
        .iter()
        .map(|branch| match branch.sign {
            Sign::Event(reason, _) | Sign::Condition(_, _, reason) => reason,
        })
        .collect();
    let missing = all.difference(&known).filter(|reason| !verbs.contains(reason));
    let missing: Vec<&&str> = missing.collect();
    assert!(missing.is_empty(), "no branch of {missing:?}");
}
