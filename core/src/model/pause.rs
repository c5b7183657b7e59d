//! The annotation that pauses a rollout.

use std::collections::BTreeMap;

/// While a set or a control plane has this annotation, no machine is replaced because it is
/// outdated; every value except `false`, in any case of letters.
pub const PAUSED_ROLLOUT: &str = "capstan.dev/paused-rollout";

/// Whether annotations pause a rollout. YAML users also write `False`.
pub fn pauses_rollout(annotations: &BTreeMap<String, String>) -> bool {
    let value = annotations.get(PAUSED_ROLLOUT);
    value.is_some_and(|value| !value.eq_ignore_ascii_case("false"))
}
