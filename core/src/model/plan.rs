//! A plan: the next steps of a controller, what it waits for, and why it takes no other step.
//!
//! The controllers of all kinds plan with these types. `A` is the type of their actions, and `R` is
//! the type of the reasons for which they wait. A plan is a value. Nothing here writes to a cluster
//! or decides which steps a plan has.

use jiff::Timestamp;
use serde_json::{Map, Value};

use super::ObjectRef;

/// The action of a step.
pub trait Act {
    /// The verb in commands, metrics and log lines: `create`, `delete`, `patch`.
    fn verb(&self) -> &'static str;

    /// Whether the step creates or deletes a machine. A plan has at most one such step.
    fn is_disruptive(&self) -> bool;
}

/// The next steps of a controller.
#[derive(Clone, Debug, PartialEq)]
pub struct Plan<A, R> {
    /// The steps, in order. The first step that fails ends the plan. Only the last step may be
    /// disruptive.
    pub steps: Vec<Step<A>>,
    /// What the controller waits for.
    pub waits: Vec<Wait<R>>,
    /// Other information for the user: why nothing happens, or what is overdue.
    pub notes: Vec<String>,
    /// Why the controller creates and deletes nothing until a user acts, the most important reason
    /// first. Empty while the object is not degraded.
    pub degraded: Vec<Degradation>,
    /// When to reconcile without a change of an object, because a wait ends at that time.
    pub reconcile_at: Option<Timestamp>,
}

impl<A, R> Default for Plan<A, R> {
    fn default() -> Self {
        Self {
            steps: Vec::new(),
            waits: Vec::new(),
            notes: Vec::new(),
            degraded: Vec::new(),
            reconcile_at: None,
        }
    }
}

impl<A: Act, R> Plan<A, R> {
    /// The step that creates or deletes a machine, if the plan has one.
    pub fn disruptive(&self) -> Option<&Step<A>> {
        self.steps.iter().find(|step| step.is_disruptive())
    }
}

/// One write.
#[derive(Clone, Debug, PartialEq)]
pub struct Step<A> {
    /// The action.
    pub action: A,
    /// The object that is written.
    pub subject: ObjectRef,
    /// The index in the control plane that the object has or is to have; `None` for an object
    /// without an index.
    pub index: Option<u32>,
    /// The reason, as a clause without a capital and a full stop.
    pub because: String,
    /// What must still be true of the object. `None` for a creation: its derived name prevents a
    /// second machine.
    pub precondition: Option<Precondition>,
}

impl<A: Act> Step<A> {
    /// The verb of the action.
    pub fn verb(&self) -> &'static str {
        self.action.verb()
    }

    /// Whether the step creates or deletes a machine.
    pub fn is_disruptive(&self) -> bool {
        self.action.is_disruptive()
    }
}

/// What must still be true of an object when it is written, so that a plan which is out of date
/// changes nothing.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Precondition {
    /// The UID. An object that was deleted and created again with the same name has another UID.
    pub uid: String,
    /// The version from which the plan was made.
    pub resource_version: String,
}

impl Precondition {
    /// The metadata of a JSON merge patch that the API server refuses with a conflict unless the
    /// precondition holds. The caller adds the metadata to change.
    pub fn metadata(&self) -> Map<String, Value> {
        let fields = [("uid", &self.uid), ("resourceVersion", &self.resource_version)];
        fields
            .into_iter()
            .map(|(field, value)| (field.to_owned(), Value::from(value.as_str())))
            .collect()
    }
}

/// Something that the controller waits for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Wait<R> {
    /// The index in the control plane that waits; `None` if the wait concerns no single index.
    pub index: Option<u32>,
    /// The object that waits, or for which the controller waits.
    pub subject: Option<ObjectRef>,
    /// The reason.
    pub reason: R,
    /// The explanation for users, with names.
    pub message: String,
    /// When the wait ends without a change of an object; `None` if only a change ends it.
    pub until: Option<Timestamp>,
}

impl<R> Wait<R> {
    /// A wait that concerns no single object, and that only a change of an object ends.
    pub fn new(reason: R, message: impl Into<String>) -> Self {
        Self {
            index: None,
            subject: None,
            reason,
            message: message.into(),
            until: None,
        }
    }
}

/// A reason to create and delete nothing until a user acts.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Degradation {
    /// The reason of the condition `Degraded`: stable, in CamelCase.
    pub reason: &'static str,
    /// The problem, with names, and the remedy.
    pub message: String,
}

#[cfg(test)]
mod tests {
    use std::borrow::Cow;

    use super::*;

    #[derive(Debug, PartialEq)]
    enum Toy {
        Paint,
        Break,
    }

    impl Act for Toy {
        fn verb(&self) -> &'static str {
            match self {
                Self::Paint => "patch",
                Self::Break => "delete",
            }
        }

        fn is_disruptive(&self) -> bool {
            *self == Self::Break
        }
    }

    fn step(action: Toy) -> Step<Toy> {
        Step {
            action,
            subject: ObjectRef {
                group: Cow::Borrowed("example.org"),
                kind: Cow::Borrowed("Toy"),
                namespace: "home".to_owned(),
                name: "bear".to_owned(),
            },
            index: None,
            because: "it is old".to_owned(),
            precondition: None,
        }
    }

    #[test]
    fn a_plan_returns_its_disruptive_step() {
        let mut plan: Plan<Toy, ()> = Plan {
            steps: vec![step(Toy::Paint)],
            ..Plan::default()
        };
        assert_eq!(plan.disruptive(), None);
        plan.steps.push(step(Toy::Break));
        assert_eq!(plan.disruptive().map(Step::verb), Some("delete"));
    }

    #[test]
    fn a_precondition_is_the_uid_and_the_version_of_a_patch() {
        let precondition = Precondition {
            uid: "u".to_owned(),
            resource_version: "7".to_owned(),
        };
        let expected = serde_json::json!({"uid": "u", "resourceVersion": "7"});
        assert_eq!(Value::Object(precondition.metadata()), expected);
    }
}
