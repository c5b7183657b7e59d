//! What the page shows: the fields of the JSON reports of `capstan plan` and `capstan status`.
//!
//! A field that a report does not have is empty. An unknown field is ignored, so that a report of
//! another kind of control plane can be shown as well.

use anyhow::Context as _;
use serde::Deserialize;
use serde_json::Value;

/// A control plane.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(default)]
pub struct Report {
    /// The kind of the object.
    #[serde(deserialize_with = "text")]
    pub kind: String,
    /// The name of the object.
    #[serde(rename = "set")]
    pub name: String,
    /// The hash of what all machines are to have; empty if it is not known.
    #[serde(deserialize_with = "text")]
    pub revision: String,
    /// The strategy of the rollout.
    #[serde(deserialize_with = "text")]
    pub strategy: String,
    /// Whether the controller acts on the object; `None` if it is not known.
    pub active: Option<bool>,
    /// Whether the object is being deleted.
    pub deleting: bool,
    /// The object that manages the machines in the place of this one; set when both are shown.
    #[serde(skip)]
    pub managed_by: Option<String>,
    /// How many machines or indexes are up to date.
    pub progress: Option<Progress>,
    /// The generation of the object; `None` if it is not known.
    pub generation: Option<i64>,
    /// The conditions in the status of the object.
    #[serde(deserialize_with = "list")]
    pub conditions: Vec<Condition>,
    /// The differences between the machines and the template.
    pub changes: Vec<Change>,
    /// The machines, by index or failure domain.
    pub placement: Vec<Place>,
    /// Why the rollout has stopped.
    pub degraded: Vec<Reason>,
    /// The steps that the controller takes now.
    pub next: Vec<Step>,
    /// What the controller waits for.
    pub waits: Vec<Wait>,
    /// What else a user must know.
    pub notes: Vec<String>,
    /// All steps up to the end of the rollout.
    pub rollout: Vec<Step>,
    /// The steps after an activation of the object.
    pub activation: Vec<Step>,
    /// The details of the machines.
    pub machines: Vec<Machine>,
    /// The etcd members; `None` if they are not known.
    pub etcd: Option<Etcd>,
    /// The conditions of the operator of etcd; empty without that operator.
    #[serde(rename = "etcdOperator")]
    pub etcd_operator: Vec<Condition>,
}

/// How many machines or indexes are up to date.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(default)]
pub struct Progress {
    /// Those that are up to date.
    pub updated: usize,
    /// All of them.
    pub total: usize,
}

/// A condition in the status.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(default)]
pub struct Condition {
    /// The type.
    #[serde(rename = "type")]
    pub type_: String,
    /// `True`, `False` or `Unknown`.
    pub status: String,
    /// The generation of the object that the condition is about; `None` if it is not known.
    #[serde(rename = "observedGeneration")]
    pub observed_generation: Option<i64>,
    /// The reason, in one word.
    #[serde(deserialize_with = "text")]
    pub reason: String,
    /// The reason, in a sentence.
    #[serde(deserialize_with = "text")]
    pub message: String,
}

/// A difference between a machine and the template.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(default)]
pub struct Change {
    /// The path of the field.
    pub field: String,
    /// The value in the machine; null if it is absent.
    pub old: Value,
    /// The value in the template; null if it is absent.
    pub new: Value,
}

/// The machines of an index, or of a failure domain.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(default)]
pub struct Place {
    /// The index.
    pub index: Option<u32>,
    /// The failure domain, as the object lists it.
    #[serde(rename = "failureDomain")]
    pub failure_domain: Value,
    /// The machines.
    pub machines: Vec<Placed>,
}

/// A machine in its place.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(default)]
pub struct Placed {
    /// The name.
    pub name: String,
    /// Whether it counts as ready.
    pub ready: bool,
    /// Whether it is up to date.
    pub current: bool,
    /// Whether it is being deleted.
    pub deleting: bool,
    /// Whether its readiness is not known, because its Node cannot be read.
    #[serde(skip)]
    pub unknown: bool,
}

/// Why the rollout has stopped.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(default)]
pub struct Reason {
    /// In one word.
    pub reason: String,
    /// In a sentence, with what to do.
    pub message: String,
}

/// A step of the controller.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(default)]
pub struct Step {
    /// What is done.
    pub action: String,
    /// The machine.
    #[serde(deserialize_with = "text")]
    pub machine: String,
    /// The etcd member.
    #[serde(deserialize_with = "text")]
    pub member: String,
    /// The failure domain of the machine.
    #[serde(rename = "failureDomain")]
    pub failure_domain: Value,
    /// Why.
    pub because: String,
}

/// What the controller waits for.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(default)]
pub struct Wait {
    /// The machine.
    #[serde(deserialize_with = "text")]
    pub machine: String,
    /// In one word.
    #[serde(rename = "for")]
    pub reason: String,
    /// In a sentence.
    pub message: String,
}

/// The details of a machine.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(default)]
pub struct Machine {
    /// The name.
    pub name: String,
    /// The phase, as its controller reports it.
    #[serde(deserialize_with = "text")]
    pub phase: String,
    /// The version of Kubernetes.
    #[serde(deserialize_with = "text")]
    pub version: String,
    /// The node.
    #[serde(deserialize_with = "text")]
    pub node: String,
    /// The lifecycle hooks that delay its deletion.
    pub hooks: Vec<String>,
    /// The differences from the template.
    pub changes: Vec<Change>,
    /// What this machine waits for.
    pub waits: Vec<String>,
}

/// The etcd members.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(default)]
pub struct Etcd {
    /// The members.
    pub members: Vec<Member>,
    /// How many members vote.
    pub voting: usize,
    /// How many of these are healthy.
    pub healthy: usize,
    /// How many of these are needed.
    pub quorum: usize,
}

/// An etcd member.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct Member {
    /// The name; empty for a member that has not started.
    pub name: String,
    /// Whether it is a learner.
    pub learner: bool,
    /// Whether it is healthy.
    pub healthy: bool,
    /// Whether etcd keeps its quorum without this member.
    pub removal_is_safe: bool,
}

/// What a reader of the page must know first.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mood {
    /// Nothing is left to do.
    Calm,
    /// The controller works, or waits for something that happens without a user.
    Busy,
    /// The controller continues when a user acts. Nothing is wrong.
    Paused,
    /// Another object manages the machines. A user may decide which of the two stays.
    Unused,
    /// A user must act.
    Alarm,
}

impl Report {
    /// Reads the report of a plan, with the report of the status if there is one.
    ///
    /// # Errors
    /// A field has another type than in these reports.
    pub fn of(plan: Value, status: Option<Value>) -> anyhow::Result<Self> {
        let mut all = plan;
        if let (Some(fields), Some(Value::Object(more))) = (all.as_object_mut(), status) {
            fields.extend(more);
        }
        let mut report: Self = serde_json::from_value(all).context("reading the report of a control plane")?;
        if report.kind.is_empty() {
            "ControlPlaneMachineSet".clone_into(&mut report.kind);
        }
        Ok(report)
    }

    /// Counts the machines that are up to date, if the report does not. `replicas` is how many the
    /// object is to have.
    pub fn count_towards(&mut self, replicas: usize) {
        if self.progress.is_none() {
            let updated = self.done().len().min(replicas);
            let total = replicas;
            self.progress = Some(Progress { updated, total });
        }
    }

    /// The page cannot read the Nodes, so the readiness of the machines is not known.
    pub fn without_nodes(&mut self) {
        let machines = self.placement.iter_mut().flat_map(|place| &mut place.machines);
        for machine in machines.filter(|machine| !machine.ready) {
            machine.unknown = true;
        }
    }

    /// Another object manages the machines. Its card has them, with what happens to them.
    pub fn leave_machines_to(&mut self, owner: String) {
        *self = Self {
            managed_by: Some(owner),
            progress: None,
            changes: Vec::new(),
            placement: Vec::new(),
            next: Vec::new(),
            waits: Vec::new(),
            rollout: Vec::new(),
            activation: Vec::new(),
            machines: Vec::new(),
            etcd: None,
            etcd_operator: Vec::new(),
            ..std::mem::take(self)
        };
    }

    /// The kind and the name.
    pub fn subject(&self) -> String {
        format!("{} {}", self.kind, self.title())
    }

    /// The name, or a text in its place.
    pub fn title(&self) -> &str {
        if self.name.is_empty() {
            "without a name"
        } else {
            &self.name
        }
    }

    /// The machines that are up to date and ready, while others are not.
    pub fn done(&self) -> Vec<&str> {
        let machines = self.placement.iter().flat_map(|place| &place.machines);
        let is_done = |machine: &&Placed| machine.current && machine.ready && !machine.deleting;
        machines.filter(is_done).map(|machine| machine.name.as_str()).collect()
    }

    /// The details of a machine.
    pub fn machine(&self, name: &str) -> Option<&Machine> {
        self.machines.iter().find(|machine| machine.name == name)
    }
}

/// The short name of a failure domain; empty if it is not known.
pub(super) fn domain(entry: &Value) -> String {
    const NAMES: [&str; 4] = ["/placement/availabilityZone", "/zone", "/availabilityZone", "/name"];
    match entry {
        Value::Null => String::new(),
        Value::String(name) => name.clone(),
        entry => {
            let name = NAMES.iter().find_map(|pointer| entry.pointer(pointer)?.as_str());
            name.map_or_else(|| entry.to_string(), str::to_owned)
        }
    }
}

/// Text, or null for no text.
fn text<'de, D: serde::Deserializer<'de>>(source: D) -> Result<String, D::Error> {
    Option::deserialize(source).map(Option::unwrap_or_default)
}

/// A list, or null for an empty one.
fn list<'de, D, T>(source: D) -> Result<Vec<T>, D::Error>
where
    D: serde::Deserializer<'de>,
    T: Deserialize<'de>,
{
    Option::deserialize(source).map(Option::unwrap_or_default)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn the_status_adds_to_the_plan_and_null_is_no_value() {
        let plan = json!({"set": "a", "revision": null, "next": [{"action": "delete", "machine": null}]});
        let status = json!({"set": "a", "conditions": null, "machines": [{"name": "m", "phase": null, "node": "n"}]});
        let report = Report::of(plan, Some(status)).unwrap();
        assert_eq!(
            (report.kind.as_str(), report.revision.as_str()),
            ("ControlPlaneMachineSet", "")
        );
        assert_eq!(report.machine("m").unwrap().node, "n");
        assert_eq!(report.next[0].subject(), "the object");
    }

    #[test]
    fn machines_are_counted_towards_the_replicas_if_the_report_does_not() {
        let machine = |ready: bool| json!({"name": "m", "ready": ready, "current": true});
        let plan = json!({"set": "a", "placement": [{"machines": [machine(true), machine(true), machine(false)]}]});
        let mut report = Report::of(plan, None).unwrap();
        report.count_towards(5);
        assert_eq!(report.progress, Some(Progress { updated: 2, total: 5 }));
        report.count_towards(1);
        assert_eq!(report.progress, Some(Progress { updated: 2, total: 5 }));
    }

    #[test]
    fn a_failure_domain_has_its_short_name_on_each_platform() {
        for (entry, name) in [
            (json!({"placement": {"availabilityZone": "us-east-1a"}}), "us-east-1a"),
            (json!({"zone": "1"}), "1"),
            (json!("a"), "a"),
            (json!(null), ""),
        ] {
            assert_eq!(domain(&entry), name);
        }
    }
}
