//! A plan: what a controller does next, what it waits for, and why nothing else happens.
//!
//! Every kind of controller plans with these types; `A` is what a step of that controller does, and
//! `R` are the reasons for which it waits. A plan is a value. Nothing here writes to a cluster, and
//! nothing here decides which steps a plan has.

use jiff::Timestamp;
use serde_json::{Map, Value};

use super::ObjectRef;

/// What a step does to its object.
pub trait Act {
    /// The verb, as commands, metrics and log lines print it: `create`, `delete`, `patch`.
    fn verb(&self) -> &'static str;

    /// Whether the step creates or deletes a machine. A plan has at most one such step.
    fn is_disruptive(&self) -> bool;
}

/// What to do next.
#[derive(Clone, Debug, PartialEq)]
pub struct Plan<A, R> {
    /// The steps, in the order in which they are taken. The first step that fails ends the plan.
    /// Only the last step may be disruptive.
    pub steps: Vec<Step<A>>,
    /// What the controller waits for.
    pub waits: Vec<Wait<R>>,
    /// What a person should know besides: why nothing happens, what is overdue.
    pub notes: Vec<String>,
    /// Why the controller creates and deletes nothing until a person acts; the most important
    /// reason first. Empty while it is not degraded.
    pub degraded: Vec<Degradation>,
    /// When to reconcile although no object changed, because a wait ends with time.
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
    /// What is written.
    pub action: A,
    /// The object that is written.
    pub subject: ObjectRef,
    /// The index in the control plane that the object has or is to have; `None` for an object
    /// without an index.
    pub index: Option<u32>,
    /// Why, as a sentence without a capital and without a full stop.
    pub because: String,
    /// What must still be true of the object. `None` for a creation: its derived name guards it.
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
    /// The uid: an object that was deleted and created again under the same name has another.
    pub uid: String,
    /// The version that the plan was made from.
    pub resource_version: String,
}

impl Precondition {
    /// The metadata of a JSON merge patch that the API server refuses with a conflict unless the
    /// precondition holds. The caller adds the metadata that it changes.
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
    /// What for.
    pub reason: R,
    /// The same as a sentence, with names.
    pub message: String,
    /// When the wait ends by itself; `None` if only a change of an object ends it.
    pub until: Option<Timestamp>,
}

/// A reason to create and delete nothing until a person acts.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Degradation {
    /// Stable and in CamelCase: the reason of the condition `Degraded`.
    pub reason: &'static str,
    /// What is wrong, with names, and what to do.
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
    fn the_disruptive_step_is_found_among_the_others() {
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
