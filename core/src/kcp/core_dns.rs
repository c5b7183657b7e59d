//! CoreDNS in the managed cluster: the versions between which its configuration can be migrated,
//! the migration, and the changes of an upgrade.
//!
//! Source of the versions: corefile-migration 1.0.34. They form one chain, and a migration follows
//! the chain upwards.

mod corefile;
mod migration;
pub mod upgrade;

use super::version::Version;

/// The versions `1.MINOR.FIRST` to `1.MINOR.LAST`.
const KNOWN: &[(u64, u64, u64)] = &[
    (1, 3, 4),
    (2, 0, 6),
    (3, 0, 1),
    (4, 0, 0),
    (5, 0, 2),
    (6, 0, 7),
    (6, 9, 9),
    (7, 0, 1),
    (8, 0, 0),
    (8, 3, 7),
    (9, 0, 4),
    (10, 0, 1),
    (11, 0, 1),
    (11, 3, 4),
    (12, 0, 4),
    (13, 0, 2),
    (14, 0, 4),
    (14, 6, 6),
];

/// The highest version to which a migration leads.
pub(super) const NEWEST: &str = "1.14.6";

fn is_known(version: &Version) -> bool {
    let [major, minor, patch] = version.core;
    let mut known = KNOWN.iter();
    major == 1 && known.any(|(known, first, last)| *known == minor && (*first..=*last).contains(&patch))
}

/// Whether the configuration can be migrated upwards. Pre-releases are ignored.
pub(super) fn can_migrate(from: &Version, to: &Version) -> bool {
    is_known(from) && is_known(to) && from.core < to.core
}

#[cfg(test)]
mod tests {
    use super::*;

    fn path(from: &str, to: &str) -> bool {
        can_migrate(&Version::strict(from).unwrap(), &Version::strict(to).unwrap())
    }

    #[test]
    fn a_migration_goes_upwards_between_known_versions() {
        assert!(path("1.6.6", "1.6.7"));
        assert!(path("1.1.3", NEWEST));
        assert!(!path("1.6.6", "1.6.8"));
        assert!(!path("1.6.8", "1.6.9"));
        assert!(!path("1.6.7", "1.6.6"));
        assert!(!path("1.6.7", "99.99.99"));
        assert!(!path("1.11.1", "1.11.2"));
    }

    #[test]
    fn the_table_is_in_order_and_ends_with_the_newest_version() {
        assert!(KNOWN.is_sorted());
        let (minor, _, patch) = KNOWN[KNOWN.len() - 1];
        assert_eq!(NEWEST, format!("1.{minor}.{patch}"));
    }
}
