//! For which platforms the objects of both APIs are mirrored. An administrator tries mirroring on
//! one platform before the others. On a platform that is switched off, only deletions continue
//! (`reconcile::deletion`).
//!
//! Must never: mirror while the platform of the cluster is not known and not all platforms are
//! switched on.

use std::collections::BTreeSet;

use serde_json::Value;

use crate::conversion::{platform_type, platform_types};

/// The platforms for which mirroring is switched on. The default is all platforms.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct MirroredPlatforms(Option<BTreeSet<&'static str>>);

/// The platform of this name, which has a conversion. Upper and lower case are the same.
///
/// # Errors
/// No platform has the name; the text says which names there are.
pub fn named(name: &str) -> Result<&'static str, String> {
    platform_types()
        .find(|known| known.eq_ignore_ascii_case(name))
        .ok_or_else(|| format!("must be one of {}", Vec::from_iter(platform_types()).join(", ")))
}

impl MirroredPlatforms {
    /// Only these platforms; all platforms if there is no name.
    pub fn only(names: &[&'static str]) -> Self {
        Self((!names.is_empty()).then(|| names.iter().copied().collect()))
    }

    /// Why nothing is mirrored in the cluster of this Infrastructure; `None`: its objects are
    /// mirrored.
    pub fn obstacle(&self, infrastructure: Option<&Value>) -> Option<String> {
        let names = self.0.as_ref()?;
        match infrastructure.and_then(platform_type) {
            Some(platform) if names.contains(platform) => None,
            Some(platform) => Some(format!("mirroring is not switched on for the platform {platform}")),
            None => Some(String::from(
                "the Infrastructure cluster does not name the platform of the cluster",
            )),
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn only_the_objects_of_a_platform_that_is_switched_on_are_mirrored() {
        let of = |platform: &str| json!({"status": {"platformStatus": {"type": platform}}});
        let all = MirroredPlatforms::only(&[]);
        assert_eq!(all, MirroredPlatforms::default());
        assert_eq!((all.obstacle(Some(&of("KubeVirt"))), all.obstacle(None)), (None, None));
        let some = MirroredPlatforms::only(&[named("aws").unwrap(), "OpenStack"]);
        assert_eq!(some.obstacle(Some(&of("AWS"))), None);
        assert_eq!(some.obstacle(Some(&of("OpenStack"))), None);
        let why = some.obstacle(Some(&of("GCP"))).unwrap();
        assert_eq!(why, "mirroring is not switched on for the platform GCP");
        assert!(some.obstacle(Some(&json!({}))).is_some() && some.obstacle(None).is_some());
        let refusal = named("Azur").unwrap_err();
        assert!(refusal.starts_with("must be one of AWS, Azure,"), "{refusal}");
    }
}
