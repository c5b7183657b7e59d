//! A rule as an expression of an admission policy, over `object`, `oldObject` and `request`.
//!
//! A rule about a field is rewritten from `self` at its path to `object`. The expression is true if
//! a field of the path is absent. It is also true for a value that an update did not change. A
//! transition rule, which compares with the old value, is evaluated for such a value too.

use crate::cel::rules::{Rule, Scope, Segment};

/// The expression of a rule.
pub(super) fn expression(rule: &Rule) -> String {
    if rule.scope == Scope::Request {
        let operations: Vec<String> = rule
            .operations
            .iter()
            .map(|operation| format!("'{operation}'"))
            .collect();
        return format!(
            "!(request.operation in [{}]) || ({})",
            operations.join(", "),
            rule.expression
        );
    }
    format!(
        "object == null || {}",
        at_path(rule, &rule.segments(), "object", Some("oldObject"), 0)
    )
}

/// The expression for the rest of the path of a rule. `this` and `old` are the expressions of the
/// values where `path` begins. `old` is `None` below the items of a list, which have no old value.
/// `depth` is the number of lists above.
fn at_path(rule: &Rule, path: &[Segment], this: &str, old: Option<&str>, depth: usize) -> String {
    let fields: Vec<&str> = path
        .iter()
        .map_while(|segment| match segment {
            Segment::Field(field) => Some(field.as_str()),
            Segment::Items | Segment::ItemsBy(_) => None,
        })
        .collect();
    let value = Selected::new(this, &fields);
    let before = old.map(|old| Selected::new(old, &fields));
    let judged = match path.get(fields.len()) {
        None => {
            let expression = rename(&rule.expression, "self", &value.path);
            match &before {
                Some(before) => rename(&expression, "oldSelf", &before.path),
                None => expression,
            }
        }
        Some(items) => {
            let rest = path.get(fields.len() + 1..).unwrap_or_default();
            let item = format!("item{depth}");
            let inner = at_path(rule, rest, &item, None, depth + 1);
            match (items, &before) {
                (Segment::ItemsBy(_), Some(before)) => {
                    let unchanged = before.exists_and(&format!("{item} in {}", before.path));
                    format!("{}.all({item}, ({unchanged}) || ({inner}))", value.path)
                }
                _ => format!("{}.all({item}, {inner})", value.path),
            }
        }
    };
    let mut alternatives: Vec<String> = value.exists.iter().map(|exists| format!("!{exists}")).collect();
    match before {
        Some(before) if names(&rule.expression, "oldSelf") => {
            alternatives.push(format!("{} == null", before.root));
            alternatives.extend(before.exists.iter().map(|exists| format!("!{exists}")));
        }
        Some(before) => {
            let unchanged = before.exists_and(&format!("{} == {}", before.path, value.path));
            alternatives.push(format!("({unchanged})"));
        }
        None => {}
    }
    alternatives.push(format!("({judged})"));
    alternatives.join(" || ")
}

/// The value at a path of fields.
struct Selected<'r> {
    root: &'r str,
    /// The expression of the value.
    path: String,
    /// For each field of the path, the expression that it exists.
    exists: Vec<String>,
}

impl<'r> Selected<'r> {
    fn new(root: &'r str, fields: &[&str]) -> Self {
        let mut path = root.to_owned();
        let mut exists = Vec::new();
        for field in fields {
            path = format!("{path}.{field}");
            exists.push(format!("has({path})"));
        }
        Self { root, path, exists }
    }

    /// The expression that the value exists and a condition holds.
    fn exists_and(&self, condition: &str) -> String {
        let root = format!("{} != null", self.root);
        let exists = self.exists.iter().map(String::as_str);
        let all: Vec<&str> = std::iter::once(root.as_str())
            .chain(exists)
            .chain([condition])
            .collect();
        all.join(" && ")
    }
}

/// Whether an expression uses an identifier.
fn names(expression: &str, identifier: &str) -> bool {
    rename(expression, identifier, "") != expression
}

/// Renames an identifier. A part of a longer identifier, a field and text in a string are not the
/// identifier.
fn rename(expression: &str, from: &str, to: &str) -> String {
    let is_word = |letter: char| letter.is_alphanumeric() || letter == '_';
    let mut renamed = String::new();
    let mut before = ' ';
    let mut quote: Option<char> = None;
    let mut rest = expression;
    while let Some(letter) = rest.chars().next() {
        let begins = quote.is_none() && !is_word(before) && before != '.';
        if begins && let Some(after) = rest.strip_prefix(from).filter(|after| !after.starts_with(is_word)) {
            renamed.push_str(to);
            rest = after;
            before = from.chars().next_back().unwrap_or(' ');
            continue;
        }
        match quote {
            Some(open) if open == letter => quote = None,
            None if letter == '\'' || letter == '"' => quote = Some(letter),
            _ => {}
        }
        renamed.push(letter);
        before = letter;
        rest = rest.get(letter.len_utf8()..).unwrap_or_default();
    }
    renamed
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cel::rules::RuleFile;

    #[test]
    fn only_the_whole_identifier_is_renamed() {
        assert_eq!(
            rename("self == oldSelf && myself.self == 'self'", "self", "object.spec"),
            "object.spec == oldSelf && myself.self == 'self'"
        );
    }

    fn rule(path: &str, expression: &str) -> Rule {
        let text = format!(
            "group: g\nkind: K\nrules:\n- {{id: r, path: '{path}', expression: \"{expression}\", message: m}}\n"
        );
        RuleFile::parse("test", &text).unwrap().rules.remove(0)
    }

    #[test]
    fn a_transition_rule_is_true_if_the_old_value_is_absent() {
        assert_eq!(
            expression(&rule("spec.a", "self == oldSelf")),
            "object == null || !has(object.spec) || !has(object.spec.a) || oldObject == null || !has(oldObject.spec) || \
             !has(oldObject.spec.a) || (object.spec.a == oldObject.spec.a)"
        );
    }

    #[test]
    fn a_rule_about_items_is_true_for_an_unchanged_list() {
        assert_eq!(
            expression(&rule("spec.list[].x", "self > 0")),
            "object == null || !has(object.spec) || !has(object.spec.list) || (oldObject != null && has(oldObject.spec) && \
             has(oldObject.spec.list) && oldObject.spec.list == object.spec.list) || \
             (object.spec.list.all(item0, !has(item0.x) || (item0.x > 0)))"
        );
    }
}
