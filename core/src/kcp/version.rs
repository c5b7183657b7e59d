//! Semantic versions, read as Cluster API reads them.
//!
//! Kubernetes versions of an object are read strictly, image tags and stored versions tolerantly.
//! Source: semver 2.0.0, and the tolerant parser of the Go library that Cluster API uses.

use std::cmp::Ordering;
use std::fmt;

/// A version without its build metadata.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Version {
    /// Major, minor and patch.
    pub(super) core: [u64; 3],
    pre_release: Vec<Identifier>,
}

/// A part of a pre-release. Numbers are lower than texts.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Identifier {
    Number(u64),
    Text(String),
}

impl Version {
    /// Reads `1.2.3`, `1.2.3-rc.1` or `1.2.3+build`. The numbers have no leading zeros.
    pub(super) fn strict(text: &str) -> Option<Self> {
        let (text, build) = split(text, '+');
        let (numbers, pre_release) = split(text, '-');
        let mut core = numbers.split('.').map(number);
        let [major, minor, patch] = [core.next()??, core.next()??, core.next()??];
        if core.next().is_some() || !build.is_none_or(|build| build.split('.').all(is_identifier)) {
            return None;
        }
        let pre_release = pre_release.map_or(Some(Vec::new()), |text| text.split('.').map(identifier).collect());
        Some(Self {
            core: [major, minor, patch],
            pre_release: pre_release?,
        })
    }

    /// Reads also `v1.2.3`, `1.2` and `1.02.3`. Surrounding blanks are ignored.
    pub(super) fn tolerant(text: &str) -> Option<Self> {
        let text = text.trim();
        let text = text.strip_prefix('v').unwrap_or(text);
        let mut parts: Vec<String> = text.splitn(3, '.').map(without_leading_zeros).collect();
        let is_short = parts.len() < 3;
        if is_short && parts.last().is_some_and(|last| last.contains(['+', '-'])) {
            return None;
        }
        while parts.len() < 3 {
            parts.push(String::from("0"));
        }
        Self::strict(&parts.join("."))
    }

    /// Reads the tag of an image, where `_` is used for `+`.
    pub(super) fn of_image_tag(tag: &str) -> Option<Self> {
        Self::tolerant(&tag.replace('_', "+"))
    }
}

impl Ord for Version {
    fn cmp(&self, other: &Self) -> Ordering {
        // A version without a pre-release is higher than its pre-releases.
        let is_release = |version: &Self| version.pre_release.is_empty();
        self.core
            .cmp(&other.core)
            .then(is_release(self).cmp(&is_release(other)))
            .then_with(|| self.pre_release.cmp(&other.pre_release))
    }
}

impl PartialOrd for Version {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl fmt::Display for Version {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let [major, minor, patch] = self.core;
        write!(f, "{major}.{minor}.{patch}")
    }
}

fn split(text: &str, separator: char) -> (&str, Option<&str>) {
    text.split_once(separator)
        .map_or((text, None), |(text, rest)| (text, Some(rest)))
}

fn number(text: &str) -> Option<u64> {
    let is_number = !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    let has_leading_zero = text.len() > 1 && text.starts_with('0');
    (is_number && !has_leading_zero).then(|| text.parse().ok())?
}

fn is_identifier(text: &str) -> bool {
    !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'-')
}

fn identifier(text: &str) -> Option<Identifier> {
    if !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit()) {
        return number(text).map(Identifier::Number);
    }
    is_identifier(text).then(|| Identifier::Text(text.to_owned()))
}

fn without_leading_zeros(part: &str) -> String {
    let trimmed = part.trim_start_matches('0');
    if part.len() > 1 && !trimmed.starts_with(|first: char| first.is_ascii_digit()) {
        return format!("0{trimmed}");
    }
    if part.len() > 1 { trimmed } else { part }.to_owned()
}

#[cfg(test)]
mod tests {
    use super::Version;

    #[test]
    fn a_strict_version_has_three_numbers() {
        for text in [
            "1.16.6",
            "1.20.0-alpha.0.734_x",
            "01.2.3",
            "1",
            "1.2",
            "v1.2.3",
            "1.2.3-",
            "1.2.3-01",
            "1.2.3+",
        ] {
            assert_eq!(Version::strict(text).is_some(), text == "1.16.6", "{text}");
        }
        assert!(Version::strict("1.20.0-alpha.0.734+ba502ee555924a").is_some());
    }

    #[test]
    fn a_tolerant_version_may_be_short_and_may_have_a_prefix() {
        for (text, core) in [
            ("v1.6.6", [1, 6, 6]),
            ("1.6", [1, 6, 0]),
            (" 1 ", [1, 0, 0]),
            ("1.06.0", [1, 6, 0]),
            ("1.6.6-rc.1", [1, 6, 6]),
        ] {
            assert_eq!(Version::tolerant(text).unwrap().core, core, "{text}");
        }
        for text in ["", "latest", "1-7", "1.6-rc.1", "invalid-version", "vv1.6.6"] {
            assert_eq!(Version::tolerant(text), None, "{text}");
        }
    }

    #[test]
    fn an_image_tag_has_an_underscore_before_its_build() {
        assert_eq!(Version::of_image_tag("v1.6.6_foobar.1").unwrap().core, [1, 6, 6]);
    }

    #[test]
    fn a_pre_release_is_lower_than_its_release() {
        let order = ["1.2.3-1", "1.2.3-alpha", "1.2.3-alpha.1", "1.2.3", "1.2.4-rc.0"];
        let versions: Vec<Version> = order.iter().map(|text| Version::strict(text).unwrap()).collect();
        assert!(versions.is_sorted());
        assert!(versions.windows(2).all(|pair| pair[0] != pair[1]));
    }
}
