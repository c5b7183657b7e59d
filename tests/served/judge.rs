//! The invariants, which are checked after every request that the API server executes. They read
//! the stored objects, and not the state of a controller.

use std::collections::{BTreeMap, BTreeSet};

use capstan_core::cpms::indexes::REPLACES;
use capstan_sandbox::api::{Api, Object};
use serde_json::Value;
use tokio::time::Instant;

/// The number of lines of the trace that are kept.
const LINES: usize = 80;

pub(crate) struct Judge {
    began: Instant,
    replicas: usize,
    revision: u64,
    /// Machines that a user deleted.
    pub deleted_by_user: BTreeSet<String>,
    /// The name of the replacement of each replaced machine, by uid.
    replacements: BTreeMap<String, String>,
    /// The names of all machines that exist or existed.
    known: BTreeSet<String>,
    /// The names of all machines that are being deleted, or are gone.
    deleting: BTreeSet<String>,
    /// The number of machines that were created.
    pub created: usize,
    /// The number of machines that a controller or a user deleted.
    pub deleted: usize,
    /// The number of executed writes of controllers, without Leases and events.
    pub writes: u64,
    pub violation: Option<String>,
    /// The last lines of the trace.
    pub trace: Vec<String>,
}

fn text<'v>(object: &'v Object, pointer: &str) -> &'v str {
    object.pointer(pointer).and_then(Value::as_str).unwrap_or_default()
}

fn is_deleting(machine: &Object) -> bool {
    machine.pointer("/metadata/deletionTimestamp").is_some()
}

/// The number at the end of the name of a machine.
fn index(name: &str) -> &str {
    name.rsplit_once('-').map_or("", |(_, index)| index)
}

/// All objects of a kind.
pub(crate) fn all<'a>(api: &'a Api, group: &str, plural: &str) -> Vec<(&'a str, &'a Object)> {
    let kind = api.kind_of(group, plural).unwrap();
    api.of_kind(kind)
        .map(|(key, object)| (key.name.as_str(), &**object))
        .collect()
}

pub(crate) fn machines(api: &Api) -> Vec<(&str, &Object)> {
    all(api, "machine.openshift.io", "machines")
}

/// Nodes that are ready.
pub(crate) fn ready(api: &Api) -> BTreeSet<&str> {
    let is_ready = |node: &Object| {
        let conditions = node.pointer("/status/conditions").and_then(Value::as_array);
        conditions
            .into_iter()
            .flatten()
            .any(|one| one["type"] == "Ready" && one["status"] == "True")
    };
    all(api, "", "nodes")
        .into_iter()
        .filter(|(_, node)| is_ready(node))
        .map(|(name, _)| name)
        .collect()
}

impl Judge {
    pub(crate) fn new(replicas: usize) -> Self {
        Self {
            began: Instant::now(),
            replicas,
            revision: 0,
            deleted_by_user: BTreeSet::new(),
            replacements: BTreeMap::new(),
            known: BTreeSet::new(),
            deleting: BTreeSet::new(),
            created: 0,
            deleted: 0,
            writes: 0,
            violation: None,
            trace: Vec::new(),
        }
    }

    /// Adds a line to the trace.
    pub(crate) fn record(&mut self, line: &str) {
        if self.trace.len() >= LINES {
            self.trace.remove(0);
        }
        self.trace
            .push(format!("+{:.2}s {line}", self.began.elapsed().as_secs_f64()));
    }

    /// Checks the stored objects. The first violation is kept.
    pub(crate) fn check(&mut self, api: &Api) {
        if self.violation.is_some() || self.revision == api.revision() {
            return;
        }
        self.revision = api.revision();
        if let Err(violation) = self.find_violation(api) {
            self.violation = Some(violation);
        }
    }

    fn find_violation(&mut self, api: &Api) -> Result<(), String> {
        let (machines, ready) = (machines(api), ready(api));
        for (name, machine) in &machines {
            if self.known.insert((*name).to_owned()) {
                self.created += 1;
                self.check_creation(name, machine)?;
            }
            if is_deleting(machine) && self.deleting.insert((*name).to_owned()) {
                self.deleted += 1;
            }
        }
        let live: Vec<_> = machines.iter().filter(|(_, machine)| !is_deleting(machine)).collect();
        if live.len() > self.replicas + 1 {
            return Err(format!(
                "the surge is exceeded: {} machines instead of {} are not being deleted: {:?}",
                live.len(),
                self.replicas,
                names(&live)
            ));
        }
        for (name, machine) in &live {
            let kind = text(machine, "/spec/providerSpec/value/instanceType");
            let other = live.iter().find(|(other, one)| {
                other != name
                    && index(other) == index(name)
                    && text(one, "/spec/providerSpec/value/instanceType") == kind
            });
            if let Some((other, _)) = other {
                return Err(format!(
                    "two machines of one index and one template: {name} and {other}"
                ));
            }
        }
        let ready_machines = live
            .iter()
            .filter(|(_, machine)| ready.contains(text(machine, "/status/nodeRef/name")))
            .count();
        let required = self.replicas - self.deleted_by_user.len().min(1);
        if ready_machines < required && !self.known.is_empty() && self.known.len() >= self.replicas {
            return Err(format!(
                "only {ready_machines} of {} machines are ready and not being deleted: {:?}",
                self.replicas,
                names(&live)
            ));
        }
        if ready.len() < self.replicas / 2 + 1 && self.known.len() >= self.replicas {
            return Err(format!("the quorum is lost: only the nodes {ready:?} are ready"));
        }
        Ok(())
    }

    /// At most one machine is created to replace a machine.
    fn check_creation(&mut self, name: &str, machine: &Object) -> Result<(), String> {
        let annotation = format!("/metadata/annotations/{}", REPLACES.replace('/', "~1"));
        let replaces = text(machine, &annotation);
        if replaces.is_empty() {
            return Ok(());
        }
        match self.replacements.insert(replaces.to_owned(), name.to_owned()) {
            Some(other) => Err(format!("two replacements of one machine: {name} and {other}")),
            None => Ok(()),
        }
    }
}

fn names<'a>(machines: &[&(&'a str, &Object)]) -> Vec<&'a str> {
    machines.iter().map(|(name, _)| *name).collect()
}
