//! Quantities of Kubernetes in one form, such as `16Gi` for `16384Mi` and `17179869184`.
//!
//! Only amounts that are whole numbers of bytes or units have the form. The module never rounds.

/// The suffixes, each with its factor, the largest binary one first.
const SUFFIXES: [(&str, u128); 12] = [
    ("Ei", 1 << 60),
    ("Pi", 1 << 50),
    ("Ti", 1 << 40),
    ("Gi", 1 << 30),
    ("Mi", 1 << 20),
    ("Ki", 1 << 10),
    ("E", 1_000_000_000_000_000_000),
    ("P", 1_000_000_000_000_000),
    ("T", 1_000_000_000_000),
    ("G", 1_000_000_000),
    ("M", 1_000_000),
    ("k", 1_000),
];

/// The form of a quantity; `None` for a text that is no quantity, and for one that is not whole.
pub(super) fn normalize(text: &str) -> Option<String> {
    let (number, factor) = split(text.trim())?;
    let amount = scale(number, factor)?;
    let binary = SUFFIXES.iter().take(6);
    let suffix = binary.clone().find(|(_, factor)| amount > 0 && amount % factor == 0);
    Some(match suffix {
        Some((suffix, factor)) => format!("{}{suffix}", amount / factor),
        None => amount.to_string(),
    })
}

fn split(text: &str) -> Option<(&str, u128)> {
    for (suffix, factor) in SUFFIXES {
        if let Some(number) = text.strip_suffix(suffix) {
            return Some((number, factor));
        }
    }
    if let Some((number, exponent)) = text.split_once(['e', 'E']) {
        return Some((number, 10_u128.checked_pow(exponent.parse().ok()?)?));
    }
    Some((text, 1))
}

/// `1.5` times a factor, if that is a whole number.
fn scale(number: &str, factor: u128) -> Option<u128> {
    let (whole, fraction) = number.split_once('.').unwrap_or((number, ""));
    let digits = |text: &str| text.bytes().all(|byte| byte.is_ascii_digit());
    if whole.is_empty() || !digits(whole) || !digits(fraction) || fraction.len() > 18 {
        return None;
    }
    let whole = whole.parse::<u128>().ok()?.checked_mul(factor)?;
    let fraction = fraction.trim_end_matches('0');
    if fraction.is_empty() {
        return Some(whole);
    }
    let divisor = 10_u128.checked_pow(u32::try_from(fraction.len()).ok()?)?;
    let part = fraction.parse::<u128>().ok()?.checked_mul(factor)?;
    (part % divisor == 0).then(|| whole.checked_add(part / divisor))?
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn equal_amounts_have_the_same_form() {
        for (text, expected) in [
            ("16384Mi", Some("16Gi")),
            ("17179869184", Some("16Gi")),
            ("16Gi", Some("16Gi")),
            ("0.5Gi", Some("512Mi")),
            ("1.50Ki", Some("1536")),
            ("1G", Some("1000000000")),
            ("1e3", Some("1000")),
            ("0", Some("0")),
            ("1.1", None),
            ("-1", None),
            ("a lot", None),
            ("", None),
            ("Gi", None),
        ] {
            assert_eq!(normalize(text).as_deref(), expected, "{text}");
        }
    }
}
