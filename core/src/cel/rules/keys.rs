//! Rules about the keys of a map: which keys, as data and as a CEL expression.
//!
//! The webhook evaluates such a rule for each changed key that the data selects. The API server
//! gets one expression that does the same. A test compares the two.

use serde::Deserialize;

/// A selection of keys of a map.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Keys {
    /// Selects the keys of these domains and of their subdomains: `DOMAIN/…` and `….DOMAIN/…`.
    pub domains: Vec<String>,
    /// Also selects the keys with these names.
    #[serde(default)]
    pub and: Vec<String>,
    /// Does not select the keys with these names.
    #[serde(default)]
    pub but: Vec<String>,
}

impl Keys {
    /// Whether a key is selected.
    pub(super) fn select(&self, key: &str) -> bool {
        let ends = |text: &str, domain: &str| {
            let before = text.strip_suffix(domain);
            before.is_some_and(|before| before.is_empty() || before.ends_with('.'))
        };
        let slashes = key.match_indices('/').filter_map(|(slash, _)| key.get(..slash));
        let in_domain = |domain: &String| slashes.clone().any(|text| ends(text, domain));
        let named = |names: &[String]| names.iter().any(|name| name == key);
        (self.domains.iter().any(in_domain) || named(&self.and)) && !named(&self.but)
    }

    /// The selection as a CEL expression over `key`.
    fn expression(&self) -> String {
        let list = |names: Vec<String>| format!("[{}]", names.join(", "));
        let quoted = |names: &[String]| list(names.iter().map(|name| format!("'{name}'")).collect());
        let domains = list(self.domains.iter().map(|domain| format!("'.{domain}/'")).collect());
        let mut expression = format!("{domains}.exists(domain, ('.' + key).contains(domain))");
        if !self.and.is_empty() {
            expression = format!("({expression} || key in {})", quoted(&self.and));
        }
        if !self.but.is_empty() {
            expression = format!("{expression} && !(key in {})", quoted(&self.but));
        }
        expression
    }

    /// The expression about a request that evaluates `expression` for each selected key of the map
    /// at `path` that an update adds, changes or removes.
    pub(super) fn request_expression(&self, path: &str, expression: &str) -> String {
        let [new, old] = ["object", "oldObject"].map(|root| format!("{root}.{path}"));
        let of_key = format!("!({}) || ({expression})", self.expression());
        format!(
            "(!has({new}) || {new}.all(key, (has({old}) && key in {old} && {old}[key] == {new}[key]) || {of_key}))\n\
             && (!has({old}) || {old}.all(key, (has({new}) && key in {new}) || {of_key}))"
        )
    }
}
