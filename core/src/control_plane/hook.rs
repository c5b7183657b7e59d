//! The hook that holds a deleted machine until its etcd member is removed, where Capstan manages
//! the members (`--etcd-members capstan`).
//!
//! Nothing here decides. `members` decides when the hook is removed.

use serde_json::json;

use crate::api::machine_openshift_io::machine::{LifecycleHook, Machine};

/// The name of the hook.
pub const HOOK: &str = "capstan.dev/EtcdMember";
/// The owner of the hook.
pub const HOOK_OWNER: &str = "capstan";

/// The hook.
pub(super) fn hook() -> LifecycleHook {
    LifecycleHook {
        name: HOOK.to_owned(),
        owner: HOOK_OWNER.to_owned(),
    }
}

/// Whether a machine carries the hook.
pub fn is_hooked(machine: &Machine) -> bool {
    hooks(machine).iter().any(|hook| hook.name == HOOK)
}

fn hooks(machine: &Machine) -> &[LifecycleHook] {
    let hooks = machine.spec.lifecycle_hooks.as_ref();
    hooks.map_or(&[], |hooks| hooks.pre_drain.as_slice())
}

/// The patch of the hooks of a machine, with or without the hook of Capstan. Other hooks stay.
pub(super) fn hooks_patch(machine: &Machine, hooked: bool) -> serde_json::Value {
    let others = hooks(machine).iter().filter(|one| one.name != HOOK).cloned();
    let all: Vec<LifecycleHook> = others.chain(hooked.then(hook)).collect();
    json!({"lifecycleHooks": {"preDrain": all}})
}
