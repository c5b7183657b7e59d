//! Quantities of Kubernetes in one form, such as `16Gi` for `16384Mi` and `17179869184`.
//!
//! Equal amounts have the same form. The module never rounds: an amount that is not a whole number
//! of billionths has no form.

/// The number of billionths in one.
const ONE: u128 = 1_000_000_000;

/// The binary suffixes, each with its factor, the largest one first.
const BINARY: [(&str, u128); 6] = [
    ("Ei", 1 << 60),
    ("Pi", 1 << 50),
    ("Ti", 1 << 40),
    ("Gi", 1 << 30),
    ("Mi", 1 << 20),
    ("Ki", 1 << 10),
];

/// The decimal suffixes, each with its factor in billionths.
const DECIMAL: [(&str, u128); 9] = [
    ("E", ONE * 1_000_000_000_000_000_000),
    ("P", ONE * 1_000_000_000_000_000),
    ("T", ONE * 1_000_000_000_000),
    ("G", ONE * 1_000_000_000),
    ("M", ONE * 1_000_000),
    ("k", ONE * 1_000),
    ("m", ONE / 1_000),
    ("u", ONE / 1_000_000),
    ("n", 1),
];

/// The form of a quantity; `None` for a text without a form.
pub fn normalize_quantity(text: &str) -> Option<String> {
    let (number, factor) = split(text.trim())?;
    let amount = scale(number, factor)?;
    if amount == 0 || amount % ONE != 0 {
        return Some(if amount == 0 {
            String::from("0")
        } else {
            format!("{amount}n")
        });
    }
    let amount = amount / ONE;
    let suffix = BINARY.iter().find(|(_, factor)| amount.is_multiple_of(*factor));
    Some(match suffix {
        Some((suffix, factor)) => format!("{}{suffix}", amount / factor),
        None => amount.to_string(),
    })
}

/// The number of a quantity, and its factor in billionths.
fn split(text: &str) -> Option<(&str, u128)> {
    for (suffix, factor) in BINARY {
        if let Some(number) = text.strip_suffix(suffix) {
            return Some((number, factor.checked_mul(ONE)?));
        }
    }
    for (suffix, factor) in DECIMAL {
        if let Some(number) = text.strip_suffix(suffix) {
            return Some((number, factor));
        }
    }
    if let Some((number, exponent)) = text.split_once(['e', 'E']) {
        let factor = 10_u128.checked_pow(exponent.parse().ok()?)?;
        return Some((number, factor.checked_mul(ONE)?));
    }
    Some((text, ONE))
}

/// `1.5` times a factor, if that is a whole number.
fn scale(number: &str, factor: u128) -> Option<u128> {
    let (whole, fraction) = number.split_once('.').unwrap_or((number, ""));
    let digits = |text: &str| text.bytes().all(|byte| byte.is_ascii_digit());
    if (whole.is_empty() && fraction.is_empty()) || !digits(whole) || !digits(fraction) {
        return None;
    }
    let whole = if whole.is_empty() {
        0
    } else {
        whole.parse::<u128>().ok()?
    };
    let whole = whole.checked_mul(factor)?;
    let fraction = fraction.trim_end_matches('0');
    if fraction.is_empty() {
        return Some(whole);
    }
    let divisor = 10_u128.checked_pow(u32::try_from(fraction.len()).ok()?)?;
    let part = fraction.parse::<u128>().ok()?.checked_mul(factor)?;
    if part % divisor != 0 {
        return None;
    }
    whole.checked_add(part / divisor)
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
            ("1.1", Some("1100000000n")),
            ("1100m", Some("1100000000n")),
            ("0.1Gi", Some("107374182400000000n")),
            (".5Gi", Some("512Mi")),
            ("1.1n", None),
            ("-1", None),
            ("a lot", None),
            ("", None),
            ("Gi", None),
        ] {
            assert_eq!(normalize_quantity(text).as_deref(), expected, "{text}");
        }
    }
}
