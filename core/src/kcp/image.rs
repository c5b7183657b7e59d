//! The name of a container image: its repository, its name, and its tag or digest.
//!
//! Nothing here asks a registry whether an image exists.

use std::fmt;

/// The longest tag of an image.
const LONGEST_TAG: usize = 128;

/// An image, such as `registry.k8s.io/coredns/coredns:v1.12.1`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Image {
    /// Everything before the last slash, for example `registry.k8s.io/coredns`.
    pub(super) repository: String,
    /// The last part of the path, for example `coredns`.
    pub(super) name: String,
    /// The tag.
    pub(super) tag: String,
}

impl Image {
    /// Reads an image.
    ///
    /// # Errors
    /// What must be true of the image. A digest names one build, so it has no version.
    pub(super) fn parse(text: &str) -> Result<Self, String> {
        let refused = |demand: &str| Err(format!("the image {text:?} {demand}"));
        if text.contains('@') {
            return refused("must have a tag instead of a digest");
        }
        let Some((repository, last)) = text.rsplit_once('/').filter(|(repository, _)| !repository.is_empty()) else {
            return refused("must have a repository");
        };
        match last.split_once(':') {
            Some((name, tag)) if !name.is_empty() && !tag.is_empty() => Ok(Self {
                repository: repository.to_owned(),
                name: name.to_owned(),
                tag: tag.to_owned(),
            }),
            _ => refused("must have a tag"),
        }
    }

    /// The tag of the image of a version of Kubernetes.
    pub(super) fn tag_of(version: &str) -> String {
        let is_allowed = |letter: char| letter.is_ascii_alphanumeric() || matches!(letter, '-' | '_' | '.');
        let tag = version
            .chars()
            .map(|letter| if is_allowed(letter) { letter } else { '_' });
        tag.take(LONGEST_TAG).collect()
    }
}

impl fmt::Display for Image {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{}/{}:{}", self.repository, self.name, self.tag)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_image_has_a_repository_a_name_and_a_tag() {
        for (text, parts) in [
            (
                "registry.k8s.io/kube-proxy:v1.30.0",
                ["registry.k8s.io", "kube-proxy", "v1.30.0"],
            ),
            ("a.example.org:5000/b/c:d", ["a.example.org:5000/b", "c", "d"]),
        ] {
            let image = Image::parse(text).unwrap();
            assert_eq!([image.repository.as_str(), &image.name, &image.tag], parts);
            assert_eq!(image.to_string(), text);
        }
        for text in [
            "",
            "coredns:v1",
            "a.example.org:5000/b",
            "a/b:",
            "a/b@sha256:12",
            "/b:c",
        ] {
            assert!(Image::parse(text).is_err(), "{text:?}");
        }
        assert_eq!(Image::tag_of("v1.30.0+build.1"), "v1.30.0_build.1");
    }
}
