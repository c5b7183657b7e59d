//! Whether a kubelet runs the version of a template.
//!
//! Vendors add a suffix to the version of the kubelet, and images carry build metadata. Neither
//! makes a machine outdated.

/// Whether a kubelet runs another version than the wanted one: another major, minor, or patch
/// number, or another pre-release if the wanted version has one. A version that cannot be read
/// differs from none.
pub(super) fn is_other(running: &str, wanted: &str) -> bool {
    let (Some((running, running_pre)), Some((wanted, wanted_pre))) = (parts(running), parts(wanted)) else {
        return false;
    };
    running != wanted || (!wanted_pre.is_empty() && running_pre != wanted_pre)
}

/// The numbers and the pre-release of a version.
fn parts(text: &str) -> Option<([u64; 3], &str)> {
    let text = text.strip_prefix('v').unwrap_or(text);
    let text = text.split('+').next()?;
    let (numbers, pre) = text.split_once('-').unwrap_or((text, ""));
    let mut numbers = numbers.split('.').map(|number| number.parse().ok());
    let core = [numbers.next()??, numbers.next()??, numbers.next()??];
    numbers.next().is_none().then_some((core, pre))
}

#[cfg(test)]
mod tests {
    use super::is_other;

    #[test]
    fn v98_build_metadata_and_suffixes_of_vendors_are_no_other_version() {
        for running in [
            "v1.33.1",
            "v1.33.1-eks-5e0fdde",
            "v1.33.1+k3s1",
            "v1.33.1-gke.100+x",
            "",
        ] {
            assert!(!is_other(running, "v1.33.1"), "{running}");
        }
        for running in ["v1.33.0", "v1.32.1", "v2.33.1", "v1.33.0-eks-5e0fdde", "v1.33.10"] {
            assert!(is_other(running, "v1.33.1"), "{running}");
        }
        assert!(is_other("v1.34.0-rc.0", "v1.34.0-rc.1"));
        assert!(is_other("v1.34.0", "v1.34.0-rc.1"));
        assert!(!is_other("v1.34.0-rc.1+k3s1", "v1.34.0-rc.1+k3s2"));
    }

    #[test]
    fn a_version_that_cannot_be_read_is_no_other_version() {
        for (running, wanted) in [("unknown", "v1.33.1"), ("v1.33", "v1.33.1"), ("v1.33.1", "latest")] {
            assert!(!is_other(running, wanted), "{running} {wanted}");
        }
    }
}
