//! The boot diagnostics of Azure machines: the values of an absent field differ between the APIs.

use crate::conversion::pass::rule::Hand;
use crate::conversion::tree;

/// The place of the account that stores the diagnostics, in both APIs.
pub(super) const DIAGNOSTICS: &str = "diagnostics.boot.storageAccountType";

/// The values of absent diagnostics.
pub(super) const BOOT_DIAGNOSTICS: Hand = Hand {
    machine_api: &[],
    cluster_api: &[],
    about: "absent diagnostics are off in the Machine API, which is `Disabled` in Cluster API; absent in Cluster API is \
            `Managed`",
    to: |pass| pass.put_default(DIAGNOSTICS, DIAGNOSTICS, "Disabled".into()),
    back: |pass| match tree::text(&pass.source.value, DIAGNOSTICS) {
        None => pass.put_default(DIAGNOSTICS, DIAGNOSTICS, "AzureManaged".into()),
        Some("Disabled") => {
            pass.take(DIAGNOSTICS);
        }
        Some(_) => {}
    },
};
