//! The removal of a set. It removes no machine.
//!
//! The owner references to the set are removed from all machines of the namespace, also from
//! machines that lost the labels that the set selects (defect B3). So are those to a former set of
//! its name, which the garbage collector would not find (V316). The finalizer is removed only after
//! no machine refers to the set, so that the garbage collector deletes no machine. The removal also
//! works for a set that does not parse: see [`steps`].
//!
//! A machine that the set could adopt and has not adopted gets a mark first. A pending adoption, by
//! a process that was killed or by a second leader, has the version from before the mark and is
//! refused. A process that reads the mark does not adopt the machine. Without the mark, an adoption
//! could arrive after the set is deleted, and the garbage collector would delete the machine.

use std::collections::BTreeMap;
use std::sync::Arc;

use serde_json::{Value, json};

use super::action::{Action, Plan, Step, machine_ref, set_ref};
use super::degraded;
use super::indexes::RELEASED;
use super::observed::Observed;
use super::selector::Selector;
use super::spec::{SetState, Spec};
use crate::api::machine_openshift_io::control_plane_machine_set::{ControlPlaneMachineSet, FINALIZER};
use crate::api::machine_openshift_io::machine::{self, Machine};
use crate::api::meta::OwnerReference;
use crate::model::{self, ObjectRef, Precondition};

/// The plan for a set that is being deleted.
pub(super) fn plan(spec: &Spec, machines: &[Arc<Machine>]) -> Plan {
    let adopts = |labels: &Labels| spec.state == SetState::Active && spec.selector.selects_member(labels);
    let set = Leaving {
        what: "set",
        finalizer: FINALIZER,
        subject: set_ref(&spec.namespace, &spec.name),
        uid: &spec.uid,
        resource_version: &spec.resource_version,
        finalizers: &spec.finalizers,
        adopts: &adopts,
    };
    orphan(&set, machines)
}

/// The plan for a set that is being deleted. While a machine cannot be decoded, the finalizer
/// stays: that machine may refer to the set, and the garbage collector would delete it.
pub fn leave(set: &ControlPlaneMachineSet, observed: &Observed) -> Plan {
    let mut plan = steps(set, &observed.machines);
    let machines = observed.unparsable.iter().filter(|object| object.kind == machine::KIND);
    if let Some(reason) = degraded::unparsable(&machines.cloned().collect::<Vec<_>>()) {
        plan.steps.retain(|step| step.machine().is_some());
        plan.notes
            .push("the finalizer stays while machines cannot be read".to_owned());
        plan.degraded.push(reason);
    }
    plan
}

/// All steps until the set is deleted, in order. Empty for a set that is not being deleted.
pub fn whole(set: &ControlPlaneMachineSet, observed: &Observed) -> Vec<Step> {
    let mut plan = leave(set, observed);
    if plan.degraded.is_empty() && plan.steps.iter().any(|step| step.machine().is_some()) {
        plan.steps.extend(steps(set, &[]).steps);
    }
    plan.steps
}

/// The plan for a set that is being deleted, also if it does not parse. Empty for a set that is not
/// being deleted.
pub fn steps(set: &ControlPlaneMachineSet, machines: &[Arc<Machine>]) -> Plan {
    if !set.metadata.is_deleting() {
        return Plan::default();
    }
    // Only an Active set adopts machines, and it stays Active.
    let active = set.spec.state.as_deref() == Some("Active");
    let selector = Selector::parse(&set.spec.selector).ok().filter(|_| active);
    let adopts = |labels: &Labels| {
        selector
            .as_ref()
            .is_some_and(|selector| selector.selects_member(labels))
    };
    let set = Leaving {
        what: "set",
        finalizer: FINALIZER,
        subject: subject(set),
        uid: set.metadata.uid(),
        resource_version: set.metadata.resource_version.as_deref().unwrap_or_default(),
        finalizers: &set.metadata.finalizers,
        adopts: &adopts,
    };
    orphan(&set, machines)
}

fn subject(set: &ControlPlaneMachineSet) -> ObjectRef {
    set_ref(
        set.metadata.namespace.as_deref().unwrap_or_default(),
        set.metadata.name(),
    )
}

type Labels = BTreeMap<String, String>;

/// A set, or another object that owns machines, that is being deleted.
pub(crate) struct Leaving<'a> {
    /// What it is called in messages.
    pub(crate) what: &'static str,
    pub(crate) finalizer: &'static str,
    pub(crate) subject: ObjectRef,
    pub(crate) uid: &'a str,
    pub(crate) resource_version: &'a str,
    pub(crate) finalizers: &'a [String],
    /// Whether it could adopt a machine with these labels. Never for an object that adopts none, or
    /// whose selector is not valid.
    pub(crate) adopts: &'a dyn Fn(&Labels) -> bool,
}

/// The steps that release the machines, and then remove the finalizer.
pub(crate) fn orphan<R>(set: &Leaving<'_>, machines: &[Arc<Machine>]) -> model::Plan<Action, R> {
    let held = set.finalizers.iter().any(|finalizer| finalizer == set.finalizer);
    let mut steps: Vec<Step> = machines
        .iter()
        .filter_map(|machine| strip(set, machine).or_else(|| release(set, machine).filter(|_| held)))
        .collect();
    let mut notes = vec![format!("the {} is being deleted; its machines are kept", set.what)];
    if steps.is_empty() && held {
        let rest: Vec<&String> = set
            .finalizers
            .iter()
            .filter(|finalizer| *finalizer != set.finalizer)
            .collect();
        steps.push(finalizers(
            set.subject.clone(),
            set.uid,
            set.resource_version,
            &json!(rest),
            &format!("no machine names the {} as its owner", set.what),
        ));
    } else if steps.is_empty() && !set.finalizers.is_empty() {
        notes.push(format!("it waits for other finalizers: {}", set.finalizers.join(", ")));
    } else if !steps.is_empty() {
        notes.push(format!("{} machine(s) must still be released", steps.len()));
    }
    model::Plan {
        steps,
        notes,
        ..model::Plan::default()
    }
}

fn strip(set: &Leaving<'_>, machine: &Machine) -> Option<Step> {
    let (meta, uid) = (&machine.metadata, set.uid);
    // An owner with another UID is a former set, which does not exist for the garbage collector.
    let is_set = |owner: &OwnerReference| owner.kind == set.subject.kind && owner.name == set.subject.name;
    let is_owner = |owner: &&OwnerReference| owner.uid == uid || is_set(owner);
    if uid.is_empty() || !meta.owner_references.iter().any(|owner| is_owner(&owner)) {
        return None;
    }
    let rest: Vec<_> = meta.owner_references.iter().filter(|owner| !is_owner(owner)).collect();
    let because = format!("machine {} must not be collected with the {}", meta.name(), set.what);
    Some(patch(machine, uid, Some(json!(rest)), because))
}

/// Marks a machine that the set could still adopt.
fn release(set: &Leaving<'_>, machine: &Machine) -> Option<Step> {
    let meta = &machine.metadata;
    let adoptable = (set.adopts)(&meta.labels) && meta.controller().is_none() && !meta.is_deleting();
    let marked = meta.annotations.get(RELEASED).is_some_and(|uid| uid == set.uid);
    let because = format!(
        "machine {} must not be adopted by the {} any more",
        meta.name(),
        set.what
    );
    (adoptable && !marked && !set.uid.is_empty()).then(|| patch(machine, set.uid, None, because))
}

/// A released machine gets the mark, so that no process adopts it for this set again.
fn patch(machine: &Machine, uid: &str, owners: Option<Value>, because: String) -> Step {
    let meta = &machine.metadata;
    let precondition = Precondition {
        uid: meta.uid().to_owned(),
        resource_version: meta.resource_version.clone().unwrap_or_default(),
    };
    let mut metadata = precondition.metadata();
    metadata.insert("annotations".to_owned(), json!({ RELEASED: uid }));
    if let Some(owners) = owners {
        metadata.insert("ownerReferences".to_owned(), owners);
    }
    Step {
        action: Action::Patch {
            patch: json!({ "metadata": metadata }),
            failure_domain: None,
        },
        subject: machine_ref(meta.namespace.as_deref().unwrap_or_default(), meta.name()),
        index: super::indexes::of_name(meta.name()),
        because,
        precondition: Some(precondition),
    }
}

/// Writes the finalizers of the set.
pub(super) fn patch_finalizers(spec: &Spec, list: &[String], because: &str) -> Step {
    let set = set_ref(&spec.namespace, &spec.name);
    finalizers(set, &spec.uid, &spec.resource_version, &json!(list), because)
}

/// Writes the finalizers of an object that owns machines.
pub(crate) fn finalizers(set: ObjectRef, uid: &str, resource_version: &str, list: &Value, because: &str) -> Step {
    let precondition = Precondition {
        uid: uid.to_owned(),
        resource_version: resource_version.to_owned(),
    };
    let mut meta = precondition.metadata();
    meta.insert("finalizers".to_owned(), list.clone());
    let patch = Action::PatchSet(json!({ "metadata": meta }));
    Step::of_set(set, patch, because.to_owned(), precondition)
}

#[cfg(test)]
mod tests;
