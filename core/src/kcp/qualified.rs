//! What is wrong with the key of a label, an annotation or a taint, in words.

use crate::model::{is_label_name, is_subdomain};

/// What is wrong with a key such as `example.org/name`; `None` for a valid key.
pub(super) fn key_problem(key: &str) -> Option<&'static str> {
    let (prefix, name) = match key.split_once('/') {
        Some((prefix, name)) => (Some(prefix), name),
        None => (None, key),
    };
    if prefix.is_some_and(|prefix| !is_subdomain(prefix)) {
        return Some("the part before the slash must be a DNS name such as example.org");
    }
    if !is_label_name(name) {
        return Some(
            "the name must have 1 to 63 letters, digits, '-', '_' or '.', and begin and end with a letter or digit",
        );
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_key_is_a_name_with_an_optional_dns_prefix() {
        for key in ["foo", "example.org/Foo_1.x", "a"] {
            assert_eq!(key_problem(key), None, "{key}");
        }
        for key in ["", "/foo", "Example.org/foo", "a/b/c", "-a", "a/", &"x".repeat(64)] {
            assert!(key_problem(key).is_some(), "{key}");
        }
    }
}
