//! The addresses of the documentation. All of them derive from one constant, and a test checks that
//! each target exists.

use std::collections::BTreeSet;

use super::Violation;

/// The folder `docs` of the repository.
pub const DOCUMENTATION: &str = concat!(env!("CARGO_PKG_REPOSITORY"), "/blob/main/docs");

/// The address of a rule in the list of all rules.
pub fn rule_link(rule: &str) -> String {
    format!("{DOCUMENTATION}/rules.md#{rule}")
}

/// Whether the list of all rules has an entry for an id. Violations of the schema of a CRD and
/// notes of `capstan check` have none.
pub fn has_link(rule: &str) -> bool {
    ["schema-", "check-"].iter().all(|prefix| !rule.starts_with(prefix))
}

/// The address with which a refusal ends: that of its rule, or of the list for several rules.
pub fn refusal_link(violations: &[Violation]) -> Option<String> {
    let rules: BTreeSet<&str> = violations
        .iter()
        .map(|violation| violation.rule.as_str())
        .filter(|rule| has_link(rule))
        .collect();
    match (rules.first(), rules.len()) {
        (Some(rule), 1) => Some(rule_link(rule)),
        (Some(_), _) => Some(format!("{DOCUMENTATION}/rules.md")),
        (None, _) => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::ViolationKind;

    #[test]
    fn a_refusal_has_one_link() {
        let of = |rules: &[&str]| {
            let violation = |rule: &&str| Violation::new(rule, "spec", ViolationKind::Invalid, "no");
            refusal_link(&rules.iter().map(violation).collect::<Vec<_>>())
        };
        let page = "https://github.com/capstan-dev/capstan/blob/main/docs/rules.md";
        assert_eq!(of(&["a", "a", "schema-type"]), Some(format!("{page}#a")));
        assert_eq!(of(&["a", "b"]), Some(page.to_owned()));
        assert_eq!(of(&["schema-type"]), None);
    }
}
