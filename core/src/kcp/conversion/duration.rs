//! Durations as Go writes them: `1h30m0s`.

/// The units of a duration, in nanoseconds.
const UNITS: &[(&str, u64)] = &[
    ("ns", 1),
    ("us", 1_000),
    ("µs", 1_000),
    ("μs", 1_000),
    ("ms", 1_000_000),
    ("s", SECOND),
    ("m", 60 * SECOND),
    ("h", 3600 * SECOND),
];
const SECOND: u64 = 1_000_000_000;

/// Reads a duration, in nanoseconds; `None` if it is not a duration, or needs more than 64 bits.
pub(super) fn nanoseconds(text: &str) -> Option<i64> {
    let is_negative = text.starts_with('-');
    let size = unsigned(text.strip_prefix(['-', '+']).unwrap_or(text))?;
    if is_negative {
        0_i64.checked_sub_unsigned(size)
    } else {
        i64::try_from(size).ok()
    }
}

/// Reads a duration without a sign.
fn unsigned(text: &str) -> Option<u64> {
    if text == "0" {
        return Some(0);
    }
    let mut rest = text;
    if rest.is_empty() {
        return None;
    }
    let mut total: u64 = 0;
    while !rest.is_empty() {
        let end = rest.find(|c: char| !c.is_ascii_digit() && c != '.')?;
        let (number, after) = rest.split_at(end);
        let unit_end = after
            .find(|c: char| c.is_ascii_digit() || c == '.')
            .unwrap_or(after.len());
        let (unit, after) = after.split_at(unit_end);
        let (_, size) = UNITS.iter().find(|(name, _)| *name == unit)?;
        total = total.checked_add(part(number, *size)?)?;
        rest = after;
    }
    Some(total)
}

/// A number with an optional fraction, in units of `size`.
fn part(number: &str, size: u64) -> Option<u64> {
    let (whole, fraction) = number.split_once('.').unwrap_or((number, ""));
    if whole.is_empty() && fraction.is_empty() {
        return None;
    }
    let whole: u64 = if whole.is_empty() { 0 } else { whole.parse().ok()? };
    let mut total = whole.checked_mul(size)?;
    let mut place = size;
    for digit in fraction.bytes() {
        place /= 10;
        total = total.checked_add(u64::from(digit.checked_sub(b'0')?).checked_mul(place)?)?;
    }
    Some(total)
}

/// The whole seconds of a duration, within what 32 bits can hold.
pub(super) fn to_seconds(text: &str) -> Option<i32> {
    let seconds = nanoseconds(text)? / 1_000_000_000;
    let limit = if seconds < 0 { i32::MIN } else { i32::MAX };
    Some(i32::try_from(seconds).unwrap_or(limit))
}

/// A duration of so many seconds.
pub(super) fn from_seconds(seconds: i64) -> String {
    let sign = if seconds < 0 { "-" } else { "" };
    let seconds = seconds.unsigned_abs();
    let (hours, minutes, rest) = (seconds / 3600, seconds / 60 % 60, seconds % 60);
    match (hours, minutes) {
        (0, 0) => format!("{sign}{rest}s"),
        (0, _) => format!("{sign}{minutes}m{rest}s"),
        _ => format!("{sign}{hours}h{minutes}m{rest}s"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_duration_is_read_in_the_form_that_go_writes() {
        for (text, seconds) in [
            ("10m0s", 600),
            ("1h", 3600),
            ("1.5h", 5400),
            ("90s", 90),
            ("1m30.9s", 90),
            ("0", 0),
            ("596523h14m8s", i32::MAX),
        ] {
            assert_eq!(to_seconds(text), Some(seconds), "{text}");
        }
        for text in ["", "5", "m", "1d", "1s ", "."] {
            assert_eq!(to_seconds(text), None, "{text}");
        }
    }

    #[test]
    fn seconds_are_written_in_the_form_of_go() {
        for (seconds, text) in [(0, "0s"), (90, "1m30s"), (600, "10m0s"), (36_000, "10h0m0s")] {
            assert_eq!(from_seconds(seconds), text);
        }
    }

    #[test]
    fn v45_a_duration_is_signed_and_has_at_most_64_bits() {
        for (text, seconds) in [
            ("-1s", -1),
            ("-0s", 0),
            ("-1.9s", -1),
            ("1000000μs", 1),
            ("2562047h47m16.854775807s", i32::MAX),
            ("-2562047h47m16.854775808s", i32::MIN),
        ] {
            assert_eq!(to_seconds(text), Some(seconds), "{text}");
        }
        for text in [
            "2562047h47m16.854775808s",
            "-2562047h47m16.854775809s",
            "--1s",
            "-+1s",
            "-",
        ] {
            assert_eq!(to_seconds(text), None, "{text}");
        }
        assert_eq!(from_seconds(-90), "-1m30s");
    }
}
