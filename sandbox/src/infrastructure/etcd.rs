//! Simulates the part of the etcd operator that acts on Machines. It sets a deletion hook on every
//! Machine with a member, and removes the hook when enough healthy members remain without that
//! member.

use std::collections::BTreeMap;

use capstan_core::api::core_v1::node::Node;
use capstan_core::api::machine_openshift_io::label;
use capstan_core::api::machine_openshift_io::machine::{LifecycleHook, Machine};

/// The name of the hook.
pub(super) const HOOK: &str = "EtcdQuorumOperator";
/// The owner of the hook.
pub(super) const OWNER: &str = "clusteroperator/etcd";

/// A change of the hooks of one machine.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Act {
    /// Sets the hook: a member was added on this machine.
    Hook(String),
    /// Removes the hook: the member of this machine was removed.
    Unhook(String),
}

/// The next change, if any. `members` is the number of members that etcd must have.
pub(super) fn act(machines: &BTreeMap<String, Machine>, nodes: &BTreeMap<String, Node>, members: usize) -> Option<Act> {
    let ready = |machine: &Machine| {
        let node = machine.node_name().and_then(|name| nodes.get(name));
        node.is_some_and(Node::is_ready)
    };
    let control_plane = |machine: &&Machine| {
        let role = machine.metadata.labels.get(label::ROLE);
        role.is_some_and(|role| role == "master")
    };
    let mut all = machines.values().filter(control_plane);
    let joining = all
        .clone()
        .find(|machine| !machine.metadata.is_deleting() && !is_hooked(machine) && ready(machine));
    if let Some(machine) = joining {
        return Some(Act::Hook(machine.metadata.name().to_owned()));
    }
    let healthy = all
        .clone()
        .filter(|machine| is_hooked(machine) && ready(machine))
        .count();
    // A member is removed only if the required number of healthy members remains.
    let leaving = all.find(|machine| {
        let remaining = healthy.saturating_sub(usize::from(ready(machine)));
        machine.metadata.is_deleting() && is_hooked(machine) && remaining >= members
    })?;
    Some(Act::Unhook(leaving.metadata.name().to_owned()))
}

fn hooks(machine: &Machine) -> &[LifecycleHook] {
    let hooks = machine.spec.lifecycle_hooks.as_ref();
    hooks.map_or(&[], |hooks| hooks.pre_drain.as_slice())
}

/// Whether the machine has the hook of the operator.
pub(super) fn is_hooked(machine: &Machine) -> bool {
    hooks(machine).iter().any(|hook| hook.name == HOOK)
}

/// The hooks of the machine, with or without the hook of the operator.
pub(super) fn with_hook(machine: &Machine, hooked: bool) -> Vec<LifecycleHook> {
    let others = hooks(machine).iter().filter(|hook| hook.name != HOOK).cloned();
    let own = LifecycleHook {
        name: HOOK.to_owned(),
        owner: OWNER.to_owned(),
    };
    others.chain(hooked.then_some(own)).collect()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn world(machines: &[(&str, bool, bool, bool)]) -> (BTreeMap<String, Machine>, BTreeMap<String, Node>) {
        let objects = machines.iter().map(|(name, hooked, deleting, _)| {
            let hooks = if *hooked {
                json!([{"name": HOOK, "owner": OWNER}])
            } else {
                json!([])
            };
            let mut machine = json!({"metadata": {"name": name, "labels": {label::ROLE: "master"}},
                "spec": {"lifecycleHooks": {"preDrain": hooks}}, "status": {"nodeRef": {"name": name}}});
            if *deleting {
                machine["metadata"]["deletionTimestamp"] = json!("2026-01-01T00:00:00Z");
            }
            ((*name).to_owned(), serde_json::from_value(machine).unwrap())
        });
        let nodes = machines.iter().map(|(name, _, _, ready)| {
            let status = if *ready { "True" } else { "False" };
            let node =
                json!({"metadata": {"name": name}, "status": {"conditions": [{"type": "Ready", "status": status}]}});
            ((*name).to_owned(), serde_json::from_value(node).unwrap())
        });
        (objects.collect(), nodes.collect())
    }

    #[test]
    fn a_member_joins_on_a_ready_node_of_a_machine_that_is_not_being_deleted() {
        let (machines, nodes) = world(&[
            ("a", false, false, false),
            ("b", false, true, true),
            ("c", false, false, true),
        ]);
        assert_eq!(act(&machines, &nodes, 3), Some(Act::Hook("c".into())));
    }

    #[test]
    fn a_member_leaves_only_when_enough_members_remain() {
        let mut all = vec![
            ("a", true, true, true),
            ("b", true, false, true),
            ("c", true, false, true),
        ];
        let (machines, nodes) = world(&all);
        assert_eq!(act(&machines, &nodes, 3), None);
        all.push(("d", true, false, true));
        let (machines, nodes) = world(&all);
        assert_eq!(act(&machines, &nodes, 3), Some(Act::Unhook("a".into())));
        // All three machines are being deleted, and one replacement has joined: exactly one member
        // leaves.
        let all = [
            ("a", true, true, true),
            ("b", true, true, true),
            ("c", true, true, true),
            ("d", true, false, true),
        ];
        let (machines, nodes) = world(&all);
        assert_eq!(act(&machines, &nodes, 3), Some(Act::Unhook("a".into())));
        let all = [
            ("b", true, true, true),
            ("c", true, true, true),
            ("d", true, false, true),
        ];
        let (machines, nodes) = world(&all);
        assert_eq!(act(&machines, &nodes, 3), None);
        // A member whose node is not ready does not count as healthy.
        let all = [
            ("a", true, true, false),
            ("b", true, false, true),
            ("c", true, false, true),
            ("d", true, false, true),
        ];
        let (machines, nodes) = world(&all);
        assert_eq!(act(&machines, &nodes, 3), Some(Act::Unhook("a".into())));
    }
}
