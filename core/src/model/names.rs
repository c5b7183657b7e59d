//! The syntax of names as Kubernetes defines it: DNS subdomains (RFC 1123), label keys and label
//! values.

/// Whether the text is a lowercase RFC 1123 subdomain of any length.
pub(super) fn is_subdomain(text: &str) -> bool {
    let inner = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit();
    text.split('.')
        .all(|label| label.starts_with(inner) && label.ends_with(inner) && label.chars().all(|c| inner(c) || c == '-'))
}

/// Whether the text is a label key: a name with an optional DNS prefix before a slash.
pub(super) fn is_label_key(key: &str) -> bool {
    let (prefix, name) = key
        .rsplit_once('/')
        .map_or((None, key), |(prefix, name)| (Some(prefix), name));
    let prefix_ok = prefix.is_none_or(|prefix| !prefix.is_empty() && prefix.len() <= 253 && is_subdomain(prefix));
    prefix_ok && is_label_name(name)
}

/// Whether the text is a label value: empty, or a name.
pub(super) fn is_label_value(value: &str) -> bool {
    value.is_empty() || is_label_name(value)
}

fn is_label_name(text: &str) -> bool {
    text.len() <= 63
        && text.starts_with(|c: char| c.is_ascii_alphanumeric())
        && text.ends_with(|c: char| c.is_ascii_alphanumeric())
        && text
            .chars()
            .all(|c| c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.'))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_subdomain_is_lowercase_labels_between_dots() {
        for valid in ["a", "a-b.c1", "0"] {
            assert!(is_subdomain(valid), "{valid}");
        }
        for invalid in ["", "-a", "a-", "a..b", ".a", "A", "a_b", "ä"] {
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
        assert!(is_label_value("") && is_label_value("a.b") && !is_label_value("a/b"));
    }
}
