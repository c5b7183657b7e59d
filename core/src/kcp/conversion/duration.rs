//! Durations as Go writes them: `1h30m0s`.

/// The units of a duration, in nanoseconds.
const UNITS: &[(&str, u64)] = &[
    ("ns", 1),
    ("us", 1_000),
    ("µs", 1_000),
    ("ms", 1_000_000),
    ("s", SECOND),
    ("m", 60 * SECOND),
    ("h", 3600 * SECOND),
];
const SECOND: u64 = 1_000_000_000;

/// Reads a duration, in nanoseconds. A negative duration cannot be read.
pub(super) fn nanoseconds(text: &str) -> Option<u64> {
    if text == "0" {
        return Some(0);
    }
    let mut rest = text.strip_prefix('+').unwrap_or(text);
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

/// The whole seconds of a duration, at most what 32 bits can hold.
pub(super) fn to_seconds(text: &str) -> Option<i32> {
    nanoseconds(text).map(|duration| i32::try_from(duration / SECOND).unwrap_or(i32::MAX))
}

/// A duration of so many seconds; `None` for a negative number.
pub(super) fn from_seconds(seconds: i64) -> Option<String> {
    let seconds = u64::try_from(seconds).ok()?;
    let (hours, minutes, rest) = (seconds / 3600, seconds / 60 % 60, seconds % 60);
    Some(match (hours, minutes) {
        (0, 0) => format!("{rest}s"),
        (0, _) => format!("{minutes}m{rest}s"),
        _ => format!("{hours}h{minutes}m{rest}s"),
    })
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
        ] {
            assert_eq!(to_seconds(text), Some(seconds), "{text}");
        }
        for text in ["", "5", "m", "-1s", "1d", "1s ", "."] {
            assert_eq!(to_seconds(text), None, "{text}");
        }
    }

    #[test]
    fn seconds_are_written_in_the_form_of_go() {
        for (seconds, text) in [(0, "0s"), (90, "1m30s"), (600, "10m0s"), (36_000, "10h0m0s")] {
            assert_eq!(from_seconds(seconds).as_deref(), Some(text));
        }
        assert_eq!(from_seconds(-1), None);
    }
}
