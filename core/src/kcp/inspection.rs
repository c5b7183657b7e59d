//! What an inspection of the managed cluster says about each machine: the conditions of its pods,
//! of its etcd member, and of its Node.
//!
//! What could not be read is `Unknown`, never `True`. A condition that Cluster API defines keeps
//! its type and its reasons. Source: the KubeadmControlPlane controller of Cluster API.

use std::collections::BTreeMap;
use std::sync::Arc;

use super::observed::EtcdMembers;
use super::state::{CONTROL_PLANE_TAINT, MachineState, State, condition, is_taint};
use super::status::Condition;
use crate::api::core_v1::node::{CONTROL_PLANE_LABEL, Node};
use crate::api::core_v1::pod::Pod;

/// The pods of kubeadm on a machine, with the condition of each.
const PODS: [(&str, &str); 4] = [
    ("kube-apiserver", condition::API_SERVER),
    ("kube-controller-manager", condition::CONTROLLER_MANAGER),
    ("kube-scheduler", condition::SCHEDULER),
    ("etcd", condition::ETCD_POD),
];
/// The taint of a Node whose kubelet does not report.
const UNREACHABLE: &str = "node.kubernetes.io/unreachable";

/// Why a part of the managed cluster could not be read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Failure {
    /// No server answers at the address of the managed cluster.
    Silent(String),
    /// A server may run there, and it cannot be used; or the address is not known.
    ConnectionDown(String),
    /// The request failed, or its answer could not be used.
    InspectionFailed(String),
}

impl Failure {
    fn condition(&self, type_: &'static str) -> Condition {
        match self {
            Self::Silent(message) | Self::ConnectionDown(message) => {
                Condition::new(type_, "Unknown", "ConnectionDown", message)
            }
            Self::InspectionFailed(message) => Condition::new(type_, "Unknown", "InspectionFailed", message),
        }
    }
}

/// What was read of the managed cluster.
#[derive(Clone, Debug, PartialEq)]
pub struct Inspection {
    /// The Nodes of control plane machines, by name.
    pub nodes: Result<BTreeMap<String, Arc<Node>>, Failure>,
    /// The pods of control plane machines in `kube-system`, by name.
    pub pods: Result<BTreeMap<String, Pod>, Failure>,
    /// The members of etcd. Not used with external etcd.
    pub etcd: Result<EtcdMembers, Failure>,
}

/// The conditions of each machine, by the name of the machine.
pub fn conditions<'s>(state: &'s State, inspection: &Inspection) -> Vec<(&'s str, Vec<Condition>)> {
    let machines = state.machines.iter();
    machines
        .map(|machine| (machine.name(), of_machine(state, machine, inspection)))
        .collect()
}

fn of_machine(state: &State, machine: &MachineState, inspection: &Inspection) -> Vec<Condition> {
    let pods = PODS.iter().filter(|(_, type_)| state.components().contains(type_));
    let mut found: Vec<Condition> = pods
        .map(|(component, type_)| pod_condition(machine, inspection, component, type_))
        .collect();
    if state.is_etcd_managed() {
        found.push(member_condition(machine, inspection));
    }
    found.push(node_condition(machine, inspection));
    found
}

/// The Node of a machine, or the condition that explains why the machine has no Node.
fn node<'i>(
    machine: &MachineState,
    inspection: &'i Inspection,
    type_: &'static str,
) -> Result<(&'i str, &'i Node), Condition> {
    let nodes = inspection.nodes.as_ref().map_err(|failure| failure.condition(type_))?;
    let unknown = |message: String| Condition::new(type_, "Unknown", "InspectionFailed", message);
    let Some(name) = machine.node() else {
        return Err(unknown(String::from(
            "Waiting for a Node with the provider ID of the Machine",
        )));
    };
    let found = nodes.get_key_value(name);
    found
        .map(|(name, node)| (name.as_str(), node.as_ref()))
        .ok_or_else(|| unknown(format!("Node {name} does not exist")))
}

/// Whether the kubelet of a Node reports, so that the reports about its pods are not old.
fn reports(node: &Node) -> bool {
    let is_unreachable = taints(node).any(|taint| is_taint(taint, UNREACHABLE, "NoExecute"));
    let is_unknown = node.ready_condition().is_some_and(|ready| ready.status == "Unknown");
    !is_unreachable && !is_unknown
}

fn pod_condition(machine: &MachineState, inspection: &Inspection, component: &str, type_: &'static str) -> Condition {
    if machine.is_deleting() {
        return Condition::new(type_, "False", "Deleting", "Machine is deleting");
    }
    let (name, node) = match node(machine, inspection, type_) {
        Ok(found) => found,
        Err(unknown) => return unknown,
    };
    let unknown = |message: String| Condition::new(type_, "Unknown", "InspectionFailed", message);
    if !reports(node) {
        return unknown(format!("Node {name} does not report"));
    }
    let pods = match &inspection.pods {
        Ok(pods) => pods,
        Err(failure) => return failure.condition(type_),
    };
    let pod_name = format!("{component}-{name}");
    match pods.get(&pod_name) {
        None => Condition::new(type_, "False", "DoesNotExist", format!("Pod {pod_name} does not exist")),
        Some(pod) => state_of_pod(type_, &pod_name, pod),
    }
}

fn state_of_pod(type_: &'static str, name: &str, pod: &Pod) -> Condition {
    let is = |reason: &'static str, message: String| Condition::new(type_, "False", reason, message);
    match pod.status.phase.as_str() {
        "Pending" => is("Provisioning", format!("Pod {name} is starting")),
        "Running" if pod.is_ready() => Condition::new(type_, "True", "Running", ""),
        "Running" => {
            let mut containers = pod.status.container_statuses.iter();
            let stopped = containers.find_map(|container| {
                let state = &container.state;
                let crashed = container.last_state.terminated.as_ref();
                let crashed = crashed.filter(|last| state.waiting.is_some() && last.exit_code != 0);
                state
                    .terminated
                    .as_ref()
                    .or(crashed)
                    .map(|stopped| (container, stopped))
            });
            match stopped {
                Some((container, stopped)) => is(
                    "Failed",
                    format!(
                        "Container {} of Pod {name} ended: {} (exit code {})",
                        container.name, stopped.reason, stopped.exit_code
                    ),
                ),
                None => is("Provisioning", format!("Pod {name} is not ready yet")),
            }
        }
        "Succeeded" | "Failed" => is("Failed", format!("Pod {name} has ended")),
        phase => {
            let message = format!("Pod {name} has the phase {phase:?}");
            Condition::new(type_, "Unknown", "InspectionFailed", message)
        }
    }
}

/// The member of a machine. A machine that is being deleted has a member until the hook removes
/// it, and the quorum counts that member.
fn member_condition(machine: &MachineState, inspection: &Inspection) -> Condition {
    const TYPE: &str = condition::ETCD_MEMBER;
    let (name, _) = match node(machine, inspection, TYPE) {
        Ok(found) => found,
        Err(unknown) => return unknown,
    };
    let members = match &inspection.etcd {
        Ok(members) => &members.members,
        Err(failure) => return failure.condition(TYPE),
    };
    let not = |message: String| Condition::new(TYPE, "False", "NotHealthy", message);
    match members.iter().find(|member| member.name == name) {
        None => not(format!("etcd has no member {name}")),
        Some(member) if member.learner => not(format!("etcd member {name} does not vote yet")),
        Some(member) if !member.alarms.is_empty() => {
            not(format!("etcd member {name} has the alarm {}", member.alarms.join(", ")))
        }
        Some(member) if member.healthy == Some(false) => not(format!("etcd member {name} does not respond")),
        Some(_) => Condition::new(TYPE, "True", "Healthy", ""),
    }
}

/// The label and the taint that kubeadm sets.
fn node_condition(machine: &MachineState, inspection: &Inspection) -> Condition {
    const TYPE: &str = condition::LABELS_AND_TAINTS;
    let (name, node) = match node(machine, inspection, TYPE) {
        Ok(found) => found,
        Err(unknown) => return unknown,
    };
    let not = |what: &str| Condition::new(TYPE, "False", "NotSet", format!("Node {name} must have the {what}"));
    if !node.metadata.labels.contains_key(CONTROL_PLANE_LABEL) {
        return not(&format!("label {CONTROL_PLANE_LABEL}"));
    }
    let is_tainted = taints(node).any(|taint| is_taint(taint, CONTROL_PLANE_TAINT, "NoSchedule"));
    if machine.expects_taint && !is_tainted {
        return not(&format!("taint {CONTROL_PLANE_TAINT}:NoSchedule"));
    }
    Condition::new(TYPE, "True", "Set", "")
}

fn taints(node: &Node) -> impl Iterator<Item = &serde_json::Value> {
    let taints = node
        .unknown_fields
        .get("spec")
        .and_then(|spec| spec.get("taints")?.as_array());
    taints.into_iter().flatten()
}

/// The conditions of the control plane that summarize those of its machines:
/// `ControlPlaneComponentsHealthy`, and `EtcdClusterHealthy` unless etcd is external. Other tools
/// may report about external etcd.
pub fn summary(state: &State, machines: &[(&str, Vec<Condition>)]) -> Vec<Condition> {
    let (etcd, components): (Vec<_>, Vec<_>) = machines
        .iter()
        .flat_map(|(name, conditions)| conditions.iter().map(move |condition| (*name, condition)))
        .partition(|(_, condition)| condition.type_ == condition::ETCD_MEMBER);
    let mut found = vec![summarize(state, "ControlPlaneComponentsHealthy", &components)];
    if state.is_etcd_managed() {
        found.push(summarize(state, "EtcdClusterHealthy", &etcd));
    }
    found
}

fn summarize(state: &State, type_: &'static str, conditions: &[(&str, &Condition)]) -> Condition {
    // A machine without a provider ID is still being created.
    let is_created = |name: &str| {
        state
            .machine(name)
            .is_some_and(|machine| !machine.machine.spec.provider_id.is_empty())
    };
    let lines = |status: &str| -> Vec<String> {
        let bad = conditions
            .iter()
            .filter(|(name, condition)| condition.status == status && (status != "Unknown" || is_created(name)));
        bad.map(|(name, condition)| format!("* Machine {name}: {}: {}", condition.type_, condition.message))
            .collect()
    };
    let (bad, unknown) = (lines("False"), lines("Unknown"));
    if !bad.is_empty() {
        return Condition::new(type_, "False", "NotHealthy", [bad, unknown].concat().join("\n"));
    }
    if !unknown.is_empty() {
        return Condition::new(type_, "Unknown", "HealthUnknown", unknown.join("\n"));
    }
    if conditions.iter().any(|(_, condition)| condition.status == "True") {
        return Condition::new(type_, "True", "Healthy", "");
    }
    Condition::new(type_, "Unknown", "HealthUnknown", "No Machine reports its health yet")
}

#[cfg(test)]
mod tests;
