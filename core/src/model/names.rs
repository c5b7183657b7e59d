//! The syntax of names as Kubernetes defines it: DNS subdomains (RFC 1123), label keys and label
//! values.

/// The largest number of characters of a subdomain.
const LONGEST_SUBDOMAIN: usize = 253;
/// The largest number of characters of the name of a label.
const LONGEST_NAME: usize = 63;

/// Whether the text is a lowercase RFC 1123 subdomain.
pub fn is_subdomain(text: &str) -> bool {
    let inner = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit();
    text.len() <= LONGEST_SUBDOMAIN
        && text.split('.').all(|label| {
            label.starts_with(inner) && label.ends_with(inner) && label.chars().all(|c| inner(c) || c == '-')
        })
}

/// Whether the text is the key of a label, an annotation or a taint: a name with an optional DNS
/// prefix before a slash.
pub fn is_label_key(key: &str) -> bool {
    match key.split_once('/') {
        None => is_label_name(key),
        Some((prefix, name)) => is_subdomain(prefix) && is_label_name(name),
    }
}

/// Whether the text is a label value: empty, or a name.
pub fn is_label_value(value: &str) -> bool {
    value.is_empty() || is_label_name(value)
}

/// Whether the text is the name in a label key, without the prefix.
pub fn is_label_name(text: &str) -> bool {
    let outer = |c: char| c.is_ascii_alphanumeric();
    text.len() <= LONGEST_NAME
        && text.starts_with(outer)
        && text.ends_with(outer)
        && text.chars().all(|c| outer(c) || matches!(c, '-' | '_' | '.'))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_subdomain_is_lowercase_labels_between_dots() {
        for valid in ["a", "a-b.c1", "0", &"a".repeat(253)] {
            assert!(is_subdomain(valid), "{valid}");
        }
        for invalid in ["", "-a", "a-", "a..b", ".a", "A", "a_b", "ä", &"a".repeat(254)] {
            assert!(!is_subdomain(invalid), "{invalid}");
        }
    }

    #[test]
    fn a_label_key_is_a_name_with_an_optional_prefix() {
        let longest = "a".repeat(63);
        for valid in ["a", "A.b_c-d", "example.com/a", longest.as_str()] {
            assert!(is_label_key(valid), "{valid}");
        }
        let long = "a".repeat(64);
        for invalid in ["", "/a", "a/", "a/b/c", "-a", "a b", long.as_str()] {
            assert!(!is_label_key(invalid), "{invalid}");
        }
    }

    #[test]
    fn a_label_value_is_empty_or_a_name() {
        assert!(is_label_value("") && is_label_value("a.b"));
        assert!(!is_label_value("$a") && !is_label_value("a/b") && !is_label_value(&"a".repeat(64)));
    }
}
