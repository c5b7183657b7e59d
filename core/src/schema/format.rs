//! Formats of strings that an API server checks.
//!
//! A format that `holds` does not list accepts any text. An offline check must not refuse an object
//! that a cluster accepts.

use core::net::{Ipv4Addr, Ipv6Addr};
use std::sync::LazyLock;

use base64::Engine;
use base64::alphabet;
use base64::engine::general_purpose::{GeneralPurpose, GeneralPurposeConfig};
use regex::Regex;

use super::node::Type;

/// The string formats of an API server, without their dashes.
const STRING_FORMATS: [&str; 26] = [
    "bsonobjectid",
    "byte",
    "cidr",
    "creditcard",
    "date",
    "datetime",
    "duration",
    "email",
    "hexcolor",
    "hostname",
    "ipv4",
    "ipv6",
    "isbn",
    "isbn10",
    "isbn13",
    "k8slongname",
    "k8sshortname",
    "mac",
    "password",
    "rgbcolor",
    "ssn",
    "uri",
    "uuid",
    "uuid3",
    "uuid4",
    "uuid5",
];

/// Whether an API server checks this format for these types. It ignores other formats.
pub(super) fn is_known(name: &str, types: &[Type]) -> bool {
    match types {
        [] | [Type::String] => STRING_FORMATS.contains(&name.replace('-', "").as_str()),
        [Type::Integer] => matches!(name, "int32" | "int64"),
        [Type::Number] => matches!(name, "float" | "double"),
        _ => false,
    }
}

/// Whether a text has a format.
pub(super) fn holds(name: &str, text: &str) -> bool {
    let bare;
    let name = if name.contains('-') && name != "date-time" {
        bare = name.replace('-', "");
        bare.as_str()
    } else {
        name
    };
    match name {
        "date" => is_date(text),
        "datetime" | "date-time" => is_date_time(text),
        "byte" => BYTES.decode(text.replace(['\r', '\n'], "")).is_ok(),
        "ipv4" => text.parse::<Ipv4Addr>().is_ok(),
        "ipv6" => text.parse::<Ipv6Addr>().is_ok(),
        "cidr" => is_cidr(text),
        "uuid" => matches(&UUID, text),
        "hexcolor" => matches(&HEX_COLOR, text),
        _ => true,
    }
}

/// Base64 as an API server reads it: with padding, and with any trailing bits.
const BYTES: GeneralPurpose = GeneralPurpose::new(
    &alphabet::STANDARD,
    GeneralPurposeConfig::new().with_decode_allow_trailing_bits(true),
);

type Pattern = LazyLock<Option<Regex>>;

static UUID: Pattern =
    LazyLock::new(|| Regex::new("(?i)^[0-9a-f]{8}-?[0-9a-f]{4}-?[0-9a-f]{4}-?[0-9a-f]{4}-?[0-9a-f]{12}$").ok());
static HEX_COLOR: Pattern = LazyLock::new(|| Regex::new("^#?([0-9a-fA-F]{3}|[0-9a-fA-F]{6})$").ok());
static TIME: Pattern =
    LazyLock::new(|| Regex::new("^([0-9]{2}):([0-9]{2}):([0-9]{2})(.[0-9]+)?(z|([+-][0-9]{2}:[0-9]{2}))$").ok());

fn matches(pattern: &Pattern, text: &str) -> bool {
    pattern.as_ref().is_none_or(|pattern| pattern.is_match(text))
}

fn is_date(text: &str) -> bool {
    text.len() == 10 && text.parse::<jiff::civil::Date>().is_ok()
}

/// Whether a text is a time in the usual notation of Kubernetes, `2026-01-01T00:00:00Z`.
fn is_usual_date_time(text: &str) -> bool {
    let shape = b"0000-00-00T00:00:00Z";
    let shaped = text.len() == shape.len()
        && text.bytes().zip(shape).all(|(byte, shape)| match shape {
            b'0' => byte.is_ascii_digit(),
            shape => byte == *shape,
        });
    let at_most = |from: usize, most: &str| text.get(from..from + 2).is_some_and(|part| part <= most);
    shaped && at_most(11, "23") && at_most(14, "59") && at_most(17, "59") && text.get(..10).is_some_and(is_date)
}

fn is_date_time(text: &str) -> bool {
    if is_usual_date_time(text) {
        return true;
    }
    let text = text.to_lowercase();
    let Some((date, time)) = text.split_once('t') else {
        return false;
    };
    let Some(pattern) = TIME.as_ref() else {
        return is_date(date);
    };
    // The API server's pattern reads the text between the first and the second `t`, and compares
    // the parts as text.
    let time = time.split('t').next().unwrap_or_default();
    is_date(date)
        && pattern.captures(time).is_some_and(|parts| {
            let at_most = |part: usize, most: &str| parts.get(part).is_some_and(|part| part.as_str() <= most);
            at_most(1, "23") && at_most(2, "59") && at_most(3, "59")
        })
}

fn is_cidr(text: &str) -> bool {
    let Some((address, bits)) = text.split_once('/') else {
        return false;
    };
    let Ok(bits) = bits.parse::<u8>() else { return false };
    (address.parse::<Ipv4Addr>().is_ok() && bits <= 32) || (address.parse::<Ipv6Addr>().is_ok() && bits <= 128)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn v67_bytes_may_have_trailing_bits_and_line_breaks_and_need_padding() {
        for (text, expected) in [
            ("eA==", true),
            ("eB==", true),
            ("eA=\n=", true),
            ("eA", false),
            ("e!==", false),
        ] {
            assert_eq!(holds("byte", text), expected, "{text:?}");
        }
    }

    #[test]
    fn a_date_time_is_one_of_rfc_3339() {
        for valid in [
            "2026-11-21T10:00:00Z",
            "2026-11-21t10:00:00.5+02:00",
            "2024-02-29T00:00:00z",
        ] {
            assert!(holds("date-time", valid), "{valid}");
        }
        for invalid in [
            "",
            "now",
            "2026-11-21",
            "2026-13-21T10:00:00Z",
            "2026-11-21T24:00:00Z",
            "2023-02-29T00:00:00Z",
        ] {
            assert!(!holds("date-time", invalid), "{invalid}");
        }
    }

    #[test]
    fn a_format_that_the_server_does_not_check_for_a_type_is_ignored() {
        assert!(is_known("date-time", &[Type::String]));
        assert!(!is_known("date-time", &[Type::Integer]));
        assert!(!is_known("int64", &[Type::String]));
        assert!(!is_known("made-up", &[Type::String]));
        assert!(!is_known("int32", &[Type::Integer, Type::String]));
    }

    #[test]
    fn addresses_and_ranges_are_read_as_the_standard_library_reads_them() {
        assert!(holds("ipv4", "10.0.0.1") && !holds("ipv4", "10.0.0"));
        assert!(holds("cidr", "10.0.0.0/8") && !holds("cidr", "10.0.0.0/33") && !holds("cidr", "10.0.0.0"));
    }
}
