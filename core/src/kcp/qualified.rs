//! Names of labels, annotations and taints, as apimachinery checks them.

const LONGEST_NAME: usize = 63;
const LONGEST_PREFIX: usize = 253;

/// What is wrong with a key such as `example.org/name`; `None` for a valid key.
pub(super) fn key_problem(key: &str) -> Option<&'static str> {
    let (prefix, name) = match key.split_once('/') {
        Some((prefix, name)) => (Some(prefix), name),
        None => (None, key),
    };
    if prefix.is_some_and(|prefix| !is_subdomain(prefix)) {
        return Some("the part before the slash must be a DNS name such as example.org");
    }
    if !is_name(name) {
        return Some(
            "the name must have 1 to 63 letters, digits, '-', '_' or '.', and begin and end with a letter or digit",
        );
    }
    None
}

/// Whether a text may be the value of a label.
pub(super) fn is_label_value(value: &str) -> bool {
    value.is_empty() || is_name(value)
}

fn is_name(name: &str) -> bool {
    let inner = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_' | b'.');
    let outer = |byte: Option<&u8>| byte.is_some_and(u8::is_ascii_alphanumeric);
    let bytes = name.as_bytes();
    bytes.len() <= LONGEST_NAME && outer(bytes.first()) && outer(bytes.last()) && bytes.iter().all(|byte| inner(*byte))
}

/// Whether a text is a DNS-1123 subdomain.
pub(super) fn is_subdomain(text: &str) -> bool {
    text.len() <= LONGEST_PREFIX && text.split('.').all(is_label)
}

fn is_label(label: &str) -> bool {
    let outer = |byte: &u8| byte.is_ascii_lowercase() || byte.is_ascii_digit();
    let bytes = label.as_bytes();
    bytes.first().is_some_and(outer)
        && bytes.last().is_some_and(outer)
        && bytes.iter().all(|byte| outer(byte) || *byte == b'-')
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

    #[test]
    fn a_label_value_is_empty_or_a_name() {
        assert!(is_label_value("") && is_label_value("a.b"));
        assert!(!is_label_value("$a") && !is_label_value(&"a".repeat(64)));
    }
}
