//! The life cycle of one simulated machine as a pure function: the next step, and the time until
//! it.

use std::time::Duration;

use capstan_core::api::core_v1::node::Node;
use capstan_core::api::machine_openshift_io::machine::Machine;

/// The finalizer of the machine controller, which it removes when the instance no longer exists.
pub(crate) const FINALIZER: &str = "machine.machine.openshift.io";

/// The duration of each step in the life of a machine.
#[derive(Clone, Copy, Debug)]
pub struct Speeds {
    /// From the creation of the Machine to an instance.
    pub provision: Duration,
    /// From the instance to a Node.
    pub boot: Duration,
    /// From the Node to a ready Node.
    pub ready: Duration,
    /// From the deletion of the Machine to a drained Node, once no hook holds it back.
    pub drain: Duration,
    /// From the drained Node to the termination of the instance, once no hook holds it back.
    pub terminate: Duration,
}

impl Speeds {
    /// For tests: 20 ms for each step.
    pub const FAST: Self = Self::all(Duration::from_millis(20));
    /// For the tour: slow enough to follow on a screen.
    pub const TOUR: Self = Self::all(Duration::from_millis(900));

    /// The same duration for every step.
    pub const fn all(each: Duration) -> Self {
        Self {
            provision: each,
            boot: each,
            ready: each,
            drain: each,
            terminate: each,
        }
    }
}

/// A fault of a machine.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Fault {
    /// No fault.
    #[default]
    None,
    /// The instance cannot be created: the machine fails with this message.
    Fails(String),
    /// The Node joins and never becomes ready.
    NeverReady,
    /// The instance never joins as a Node.
    NeverJoins,
    /// Every step takes this much longer.
    Slow(Duration),
    /// The instance never terminates.
    NeverEnds,
}

/// The next step in the life of a machine.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Next {
    /// The machine controller starts: finalizer, phase Provisioning.
    Adopt,
    /// The instance exists: provider id, phase Provisioned.
    Provision,
    /// The instance cannot be created: phase Failed.
    Fail,
    /// The node joins, not ready yet; phase Running.
    Join,
    /// The node becomes ready.
    Ready,
    /// The machine controller notices the deletion: phase Deleting.
    BeginDeletion,
    /// The node is drained.
    Drain,
    /// The instance and its node no longer exist.
    Terminate,
    /// The machine controller removes its finalizer.
    Release,
}

/// The next step of a machine, and how long after its last change it occurs; `None` if nothing
/// happens by itself.
pub(crate) fn next(
    machine: &Machine,
    node: Option<&Node>,
    drained: bool,
    fault: &Fault,
    speeds: &Speeds,
) -> Option<(Next, Duration)> {
    let now = Duration::ZERO;
    let slow = |time: Duration| match fault {
        Fault::Slow(more) => time + *more,
        _ => time,
    };
    let held = machine
        .metadata
        .finalizers
        .iter()
        .any(|finalizer| finalizer == FINALIZER);
    if machine.metadata.is_deleting() {
        if !held {
            return None;
        }
        if machine.phase() != Some("Deleting") {
            return Some((Next::BeginDeletion, now));
        }
        let hooks = machine.spec.lifecycle_hooks.as_ref();
        if !drained {
            let clear = hooks.is_none_or(|hooks| hooks.pre_drain.is_empty());
            return clear.then(|| (Next::Drain, slow(speeds.drain)));
        }
        let clear = hooks.is_none_or(|hooks| hooks.pre_terminate.is_empty());
        return match node {
            _ if !clear || *fault == Fault::NeverEnds => None,
            Some(_) => Some((Next::Terminate, slow(speeds.terminate))),
            None => Some((Next::Release, now)),
        };
    }
    match (machine.phase(), node) {
        (None, _) => Some((Next::Adopt, now)),
        _ if !held => Some((Next::Adopt, now)),
        (Some("Provisioning"), _) if matches!(fault, Fault::Fails(_)) => Some((Next::Fail, slow(speeds.provision))),
        (Some("Provisioning"), _) => Some((Next::Provision, slow(speeds.provision))),
        (Some("Provisioned"), _) if *fault == Fault::NeverJoins => None,
        (Some("Provisioned"), _) => Some((Next::Join, slow(speeds.boot))),
        (Some("Running"), Some(node)) if !node.is_ready() && *fault != Fault::NeverReady => {
            // Only a node that has just joined becomes ready. A node that a test made unready stays
            // unready.
            let joined = node
                .ready_condition()
                .is_some_and(|condition| condition.status == "Unknown");
            joined.then(|| (Next::Ready, slow(speeds.ready)))
        }
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn machine(phase: &str, deleting: bool, hooks: &Value) -> Machine {
        let mut object = json!({"metadata": {"name": "a", "finalizers": [FINALIZER]}, "status": {"phase": phase},
            "spec": {"lifecycleHooks": hooks}});
        if deleting {
            object["metadata"]["deletionTimestamp"] = json!("2026-01-01T00:00:00Z");
        }
        serde_json::from_value(object).unwrap()
    }

    fn node(ready: &str) -> Node {
        serde_json::from_value(
            json!({"metadata": {"name": "a"}, "status": {"conditions": [{"type": "Ready", "status": ready}]}}),
        )
        .unwrap()
    }

    fn after(machine: &Machine, node: Option<&Node>, drained: bool) -> Option<Next> {
        next(machine, node, drained, &Fault::None, &Speeds::FAST).map(|(next, _)| next)
    }

    #[test]
    fn a_machine_is_provisioned_joins_and_becomes_ready() {
        assert_eq!(after(&Machine::default(), None, false), Some(Next::Adopt));
        let at = |phase: &str| machine(phase, false, &Value::Null);
        assert_eq!(after(&at("Provisioning"), None, false), Some(Next::Provision));
        assert_eq!(after(&at("Provisioned"), None, false), Some(Next::Join));
        assert_eq!(after(&at("Running"), Some(&node("Unknown")), false), Some(Next::Ready));
        assert_eq!(after(&at("Running"), Some(&node("True")), false), None);
        assert_eq!(after(&at("Running"), Some(&node("False")), false), None);
    }

    #[test]
    fn hooks_hold_back_drain_and_termination() {
        let held = machine(
            "Deleting",
            true,
            &json!({"preDrain": [{"name": "abc", "owner": "etcd"}]}),
        );
        assert_eq!(after(&held, Some(&node("True")), false), None);
        let free = machine("Deleting", true, &Value::Null);
        assert_eq!(after(&free, Some(&node("True")), false), Some(Next::Drain));
        let held = machine(
            "Deleting",
            true,
            &json!({"preTerminate": [{"name": "abc", "owner": "x"}]}),
        );
        assert_eq!(after(&held, Some(&node("True")), true), None);
        assert_eq!(after(&free, Some(&node("True")), true), Some(Next::Terminate));
        assert_eq!(after(&free, None, true), Some(Next::Release));
    }

    #[test]
    fn a_fault_stops_the_machine_at_its_step() {
        let at = |phase: &str| machine(phase, false, &Value::Null);
        let next =
            |machine: &Machine, fault: Fault| next(machine, None, false, &fault, &Speeds::FAST).map(|(next, _)| next);
        assert_eq!(
            next(&at("Provisioning"), Fault::Fails("no quota".into())),
            Some(Next::Fail)
        );
        assert_eq!(next(&at("Failed"), Fault::Fails("no quota".into())), None);
        assert_eq!(next(&at("Provisioned"), Fault::NeverJoins), None);
    }
}
