//! What must hold once everything has come to rest: nothing is stuck, nothing is left over, and the set says so.

use std::collections::BTreeSet;

use capstan_core::api::machine_openshift_io::machine::Machine;

use super::{World, index, is_current, spread, text, unevenness, zone};

impl World {
    /// What must hold once everything came to rest.
    pub(in crate::simulation) fn judge_the_end(&mut self) {
        if let Err((invariant, text)) = self.at_rest() {
            self.truth.violate(invariant, text);
            return;
        }
        let writes = self.look_once_more(true);
        // Where the definition drops what is said of each machine, a process that has just begun learns it by one write.
        let free = u64::from(!self.keeps_machines);
        let writes = writes.saturating_sub(free) + self.look_once_more(false);
        if writes > 0 {
            let text = format!("{writes} write(s) although nothing changed");
            self.truth.violate("G4", text);
        }
    }

    fn at_rest(&self) -> Result<(), (&'static str, String)> {
        let moment = self.moment();
        for (name, machine) in self.machines.iter() {
            if machine.metadata.is_deleting() {
                return Err(("G8", format!("machine {name} is never gone")));
            }
        }
        let known: BTreeSet<&str> = self.machines.values().map(|machine| machine.metadata.uid()).collect();
        if let Some(uid) = self.instances().find(|uid| !known.contains(uid)) {
            return Err((
                "G7",
                format!("the instance of machine uid {uid} runs, and nobody knows it"),
            ));
        }
        self.generated_at_rest()?;
        let Some(set) = &self.set else { return Ok(()) };
        if set.metadata.is_deleting() {
            return Err(("G8", "the set is never gone".to_owned()));
        }
        if !moment.acts() {
            let status = set.status.as_ref();
            let mut conditions = status.into_iter().flat_map(|status| &status.conditions);
            let progressing = conditions.find(|condition| condition.type_ == "Progressing");
            let says_so = progressing.is_some_and(|there| {
                there.status == "False" && matches!(there.reason.as_str(), "Inactive" | "OperatorDegraded")
            });
            let observed = status.and_then(|status| status.observed_generation);
            if !says_so || observed != set.metadata.generation {
                return Err(("ESR", format!("the set is Inactive, and at the end {progressing:?}")));
            }
            return Ok(());
        }
        if set.metadata.finalizers.is_empty() {
            return Err((
                "ESR",
                "nothing holds the set until its machines are released".to_owned(),
            ));
        }
        let owned = |machine: &Machine| {
            machine
                .metadata
                .owner_references
                .iter()
                .any(|owner| owner.uid == set.metadata.uid())
        };
        if let Some((name, _)) = self.machines.iter().find(|(_, machine)| !owned(machine)) {
            return Err(("ESR", format!("machine {name} does not name the set as its owner")));
        }
        let on_delete = moment.on_delete();
        let indexes: BTreeSet<Option<u32>> = self.machines.keys().map(|name| index(name)).collect();
        if indexes.len() != self.truth.replicas {
            return Err((
                "ESR",
                format!("{} indexes have machines: {:?}", indexes.len(), self.machines.keys()),
            ));
        }
        if !on_delete && self.machines.len() != self.truth.replicas {
            return Err((
                "ESR",
                format!("there are {} machines: {:?}", self.machines.len(), self.machines.keys()),
            ));
        }
        for (name, machine) in self.machines.iter() {
            if !moment.is_ready(machine) {
                return Err(("ESR", format!("machine {name} is not ready")));
            }
            if !on_delete && !is_current(set, machine, &self.machines) {
                return Err((
                    "ESR",
                    format!(
                        "machine {name} is outdated: {:?} in {:?}",
                        text(machine, "instanceType"),
                        zone(machine)
                    ),
                ));
            }
        }
        // What stands, stays: a zone that a user adds takes over only what is more than another's share (the mapping of
        // today's operator), so five machines in three zones stay where they are beside a fourth.
        let counts = spread(set, &self.machines);
        if !on_delete && !self.truth.rezoned && unevenness(&counts) > 1 {
            return Err(("C8", format!("the zones are not balanced: {counts:?}")));
        }
        let Some(status) = &set.status else {
            return Err(("ESR", "the set has no status".to_owned()));
        };
        if self.keeps_machines && status.machines.len() < self.truth.replicas {
            return Err(("ESR", "the status does not tell of each machine".to_owned()));
        }
        if status.observed_generation != set.metadata.generation {
            return Err(("ESR", "the last generation of the set is not observed".to_owned()));
        }
        for (type_, wanted) in [("Degraded", "False"), ("Available", "True"), ("Error", "False")] {
            let there = status.conditions.iter().find(|condition| condition.type_ == type_);
            if there.is_none_or(|there| there.status != wanted) {
                return Err(("ESR", format!("at the end {there:?}")));
            }
        }
        let progressing = status
            .conditions
            .iter()
            .find(|condition| condition.type_ == "Progressing");
        if !on_delete && progressing.is_none_or(|there| there.status != "False" || there.reason != "AllReplicasUpdated")
        {
            return Err(("ESR", format!("at the end {progressing:?}")));
        }
        Ok(())
    }
}
