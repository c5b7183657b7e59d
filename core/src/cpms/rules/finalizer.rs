//! The finalizer of an object that owns control plane machines. Without the finalizer, the garbage
//! collector deletes the machines together with their owner.
//!
//! The controllers release the machines, and then remove the finalizer. This module must never let
//! anyone else remove it while a machine still has the object as its owner.

use std::sync::Arc;

use serde_json::Value;

use super::lookup::Lookup;
use crate::api::machine_openshift_io::machine::Machine;
use crate::api::meta::OwnerReference;
use crate::model::{Edit, Operation, Propagation, RuleInfo, Stored, Verdict, Violation, ViolationKind};

const PATH: &str = "metadata.finalizers";

/// A finalizer, and the rules about it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Finalizer {
    /// The finalizer.
    pub(crate) name: &'static str,
    /// What an object with it is called in a text.
    pub(crate) owner: &'static str,
    /// The rule about a deletion without it.
    pub(crate) at_deletion: &'static str,
    /// The rule about its removal during a deletion.
    pub(crate) at_removal: &'static str,
}

impl Finalizer {
    /// Refuses a deletion after which the garbage collector would delete the machines.
    pub(crate) fn require(&self, edit: &Edit<'_>, old: &dyn Stored, lookup: &Lookup<'_>, verdict: &mut Verdict) {
        let keeps_machines = self.is_in(old) || edit.propagation == Some(Propagation::Orphan);
        if keeps_machines || edit.is_deleting() {
            return;
        }
        let Some(count) = self.owned(old, lookup, self.at_deletion, verdict) else {
            return;
        };
        let allowed = format!(
            "must contain {} while the {} owns {count} machine(s): without it, the garbage collector deletes the machines \
             together with the {}",
            self.name, self.owner, self.owner
        );
        verdict.deny(
            Violation::new(self.at_deletion, PATH, ViolationKind::Required, allowed).advice(
                "add the finalizer, or start Capstan's controllers, which add it; or delete with propagationPolicy Orphan",
            ),
        );
    }

    /// Refuses the removal of the finalizer from an object that is being deleted and owns machines.
    pub(crate) fn keep(&self, edit: &Edit<'_>, object: &dyn Stored, lookup: &Lookup<'_>, verdict: &mut Verdict) {
        let Some(old) = edit.old.filter(|_| edit.is_deleting()) else {
            return;
        };
        if !self.is_in(old) || self.is_in(object) {
            return;
        }
        let Some(count) = self.owned(old, lookup, self.at_removal, verdict) else {
            return;
        };
        let allowed = format!(
            "must contain {} while the {} is being deleted and owns {count} machine(s): without it, the garbage collector \
             deletes the machines",
            self.name, self.owner
        );
        verdict.deny(
            Violation::new(self.at_removal, PATH, ViolationKind::Required, allowed).advice(
                "start Capstan's controllers, which release the machines and remove the finalizer; if this is impossible, \
                 first release the machines by hand (\"Remove Capstan\" in docs/operations.md)",
            ),
        );
    }

    /// The rules about the finalizer of objects of a kind.
    pub(crate) fn table(&self, kind: &'static str) -> Vec<RuleInfo> {
        let rule = |id, operation, message: &'static str| RuleInfo::webhook(id, kind, PATH, operation, message);
        vec![
            rule(
                self.at_deletion,
                &[Operation::Delete],
                "refuses the deletion of an object that owns machines and has no finalizer",
            ),
            rule(
                self.at_removal,
                &[Operation::Update],
                "keeps the finalizer of an object that is being deleted and owns machines",
            ),
        ]
    }

    fn is_in(&self, object: &dyn Stored) -> bool {
        let finalizers = object.at(PATH);
        let mut finalizers = finalizers.iter().filter_map(|found| found.as_array()).flatten();
        finalizers.any(|name| name == self.name)
    }

    /// The number of machines that an object owns; `None` if it owns none, or if nothing is known.
    fn owned(&self, owner: &dyn Stored, lookup: &Lookup<'_>, rule: &str, verdict: &mut Verdict) -> Option<usize> {
        let text = |path: &str| owner.at(path).and_then(Value::as_str);
        let (uid, kind, name) = (text("metadata.uid"), text("kind"), text("metadata.name"));
        let namespace = text("metadata.namespace");
        let Some(machines) = lookup.machines else {
            let why = "the garbage collector deletes the machines that the object owns";
            lookup.unknown(verdict, rule, PATH, "the Machines", why);
            return None;
        };
        // A manifest has no uid. An owner has the namespace of its dependents.
        let is_near = |machine: &Arc<Machine>| {
            let own = machine.metadata.namespace.as_deref();
            uid.is_some() || namespace.is_none() || own.is_none() || own == namespace
        };
        let is_owner = |owner: &OwnerReference| match uid {
            Some(uid) => owner.uid == uid,
            None => Some(owner.kind.as_str()) == kind && Some(owner.name.as_str()) == name,
        };
        let is_owned = |owners: &[OwnerReference]| owners.iter().any(is_owner);
        let owned = machines
            .iter()
            .filter(|machine| is_near(machine) && is_owned(&machine.metadata.owner_references));
        Some(owned.count()).filter(|count| *count > 0)
    }
}
