//! A user who takes the labels of infrastructure machines, gives them back, and deletes a Machine
//! that a condition of the pool names.

use capstan_core::api::kinds::{CLUSTER_API_MACHINES, MACHINE_POOLS};
use serde_json::{Value, json};

use super::actors::QUIET;
use super::objects::{INSTANCES, NAMESPACE, POOL, is_deleting, name, text};
use crate::simulation::declared::Users;

const LABEL: &str = "/metadata/labels/cluster.x-k8s.io~1pool-name";

/// The user acts once.
pub(super) fn act_once(users: &mut Users<'_>, second: u32) {
    let is_quiet = second > QUIET;
    let stored = users.stored();
    for instance in stored.all(&INSTANCES) {
        let is_labelled = !text(instance, LABEL).is_empty();
        let label = match is_labelled {
            true if !is_quiet && users.random().permille(8) => Value::Null,
            false if is_quiet || users.random().permille(100) => json!(POOL),
            _ => continue,
        };
        let patch = json!({"metadata": {"labels": {"cluster.x-k8s.io/pool-name": label}}});
        users.patch(&INSTANCES, NAMESPACE, name(instance), patch);
    }
    if !is_quiet {
        return;
    }
    let Some(pool) = stored.get(&MACHINE_POOLS, NAMESPACE, POOL) else {
        return;
    };
    let conditions = pool.pointer("/status/conditions").and_then(Value::as_array);
    let advice = conditions
        .into_iter()
        .flatten()
        .find(|one| one.get("reason") == Some(&json!("NewMachinesOutdated")));
    let message = advice.and_then(|one| one.get("message")?.as_str()).unwrap_or_default();
    let named = stored
        .all(&CLUSTER_API_MACHINES)
        .find(|machine| message.split(' ').any(|word| word == name(machine)) && !is_deleting(machine));
    if let Some(machine) = named {
        users.delete(&CLUSTER_API_MACHINES, NAMESPACE, name(machine));
    }
}
