//! What the generator may write: an Inactive set where there is none, and in one of its own only what nobody else has set.

use std::collections::BTreeSet;

use capstan::controllers::GENERATED;
use serde_json::{Map, Value};

use super::{Moment, Truth, World, index, template_type, text};
use crate::api::{Change, ChangeKind, Object};

/// Where the type of the instances stands in a set.
const TYPE: &str = "/spec/template/machines_v1beta1_machine_openshift_io/spec/providerSpec/value/instanceType";

fn state(object: &Object) -> &str {
    object
        .pointer("/spec/state")
        .and_then(Value::as_str)
        .unwrap_or_default()
}

fn is_generated(object: &Object) -> bool {
    let annotations = object.pointer("/metadata/annotations").and_then(Value::as_object);
    annotations.is_some_and(|annotations| annotations.contains_key(GENERATED))
}

/// Where two objects differ, down to what is no object; a list counts as one.
fn differences(path: &str, old: &Value, new: &Value, found: &mut BTreeSet<String>) {
    match (old, new) {
        (old, new) if old == new => {}
        (Value::Object(before), Value::Object(after)) => {
            let nothing = Value::Null;
            let names: BTreeSet<&String> = before.keys().chain(after.keys()).collect();
            for name in names {
                let (before, after) = (before.get(name), after.get(name));
                let path = format!("{path}/{}", name.replace('~', "~0").replace('/', "~1"));
                differences(&path, before.unwrap_or(&nothing), after.unwrap_or(&nothing), found);
            }
        }
        // An object that comes or goes is all its fields.
        (Value::Object(_), Value::Null) => differences(path, old, &Map::new().into(), found),
        (Value::Null, Value::Object(_)) => differences(path, &Map::new().into(), new, found),
        _ => drop(found.insert(path.to_owned())),
    }
}

impl Truth {
    /// Somebody wrote the set: what is different by it is his from now on.
    pub(super) fn note_edit(&mut self, change: &Change) {
        match (&change.old, change.kind) {
            (Some(old), ChangeKind::Modified) if change.object.has_same(old, "spec") => {}
            (Some(old), ChangeKind::Modified) => {
                let nothing = Value::Null;
                let (before, after) = (old.get("spec"), change.object.get("spec"));
                let (before, after) = (before.unwrap_or(&nothing), after.unwrap_or(&nothing));
                differences("/spec", before, after, &mut self.of_users);
            }
            (_, ChangeKind::Added) => {
                // What he makes it with is his too: a set that the generator finds in the milliseconds after it saw none
                // has fields of both (seed 1178 of the scenario `melee`).
                self.of_users.clear();
                let spec = change.object.get("spec").cloned().unwrap_or_default();
                differences("/spec", &Map::new().into(), &spec, &mut self.of_users);
            }
            _ => self.of_users.clear(),
        }
    }
}

impl World {
    /// Judges what the generator wrote.
    pub(super) fn check_generated(
        &mut self,
        change: &Change,
        moments: &[Moment],
    ) -> Result<(), (&'static str, String)> {
        let wrong = |text: String| Err(("C11", text));
        if state(&change.object) != "Inactive" {
            return wrong(format!("the generated set is {:?}", state(&change.object)));
        }
        let old = match (&change.old, change.kind) {
            (Some(old), ChangeKind::Modified) => old,
            (_, ChangeKind::Added) => {
                self.truth.of_users.clear();
                return Ok(());
            }
            _ => return wrong("the generator deletes a set".to_owned()),
        };
        if state(old) == "Active" {
            return wrong("the generator writes to an Active set".to_owned());
        }
        // Whoever makes a set while the generator's is on its way finds both in one, and what he has set is his.
        let first = moments.iter().any(|moment| moment.set.is_none());
        if !first && !is_generated(old) {
            return wrong("the generator writes to a set that is not its own".to_owned());
        }
        if !first && old.pointer("/metadata/deletionTimestamp").is_some() {
            return wrong("the generator writes to a set that is being deleted".to_owned());
        }
        let taken = self
            .truth
            .of_users
            .iter()
            .find(|path| old.pointer(path) != change.object.pointer(path));
        match taken {
            Some(path) => wrong(format!("the generator writes over {path}, which a user has set")),
            None => Ok(()),
        }
    }

    /// What must hold of a generated set at the end.
    pub(super) fn generated_at_rest(&self) -> Result<(), (&'static str, String)> {
        if !self.generates() {
            return Ok(());
        }
        let machines = self.machines.values().filter(|machine| Moment::selected(machine));
        let Some(set) = &self.set else {
            // One machine alone is no control plane that a set could look after.
            if machines.count() < 2 {
                return Ok(());
            }
            return Err(("C11", "no set is generated".to_owned()));
        };
        let ours = set.metadata.annotations.contains_key(GENERATED);
        if !ours || set.spec.state.as_deref() == Some("Active") || self.truth.of_users.contains(TYPE) {
            return Ok(());
        }
        let wanted = set.spec.replicas.and_then(|wanted| usize::try_from(wanted).ok());
        // Of two machines of one index one stands for the other: a number of machines alone would hide that an index has
        // none (seed 68988).
        let indexes: BTreeSet<_> = machines.clone().map(|machine| index(machine.metadata.name())).collect();
        if Some(indexes.len()) < wanted {
            // Which one is missing is nobody's to know.
            return Ok(());
        }
        let newest = machines.max_by_key(|machine| {
            let name = machine.metadata.name().to_owned();
            (machine.metadata.creation_timestamp, name)
        });
        let wanted = newest.and_then(|machine| text(machine, "instanceType"));
        if wanted != template_type(set) {
            let text = format!(
                "the newest machine is {wanted:?}, and the set says {:?}",
                template_type(set)
            );
            return Err(("C11", text));
        }
        Ok(())
    }
}
