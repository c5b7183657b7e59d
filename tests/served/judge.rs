//! What must hold after every request that was served, by what is stored, and not by what a
//! controller believes.

use std::collections::{BTreeMap, BTreeSet};

use capstan_core::cpms::indexes::REPLACES;
use capstan_sandbox::api::{Api, Object};
use serde_json::Value;
use tokio::time::Instant;

/// How many lines of the story are kept.
const KEPT: usize = 80;

pub(crate) struct Judge {
    began: Instant,
    replicas: usize,
    revision: u64,
    /// Machines that a user deleted.
    pub deleted_by_user: BTreeSet<String>,
    /// Which machine was made to replace which, by uid.
    replaced: BTreeMap<String, String>,
    /// Names of machines that were there before.
    known: BTreeSet<String>,
    going: BTreeSet<String>,
    /// How many machines were made.
    pub made: usize,
    /// How many machines were deleted, by whomever.
    pub deleted: usize,
    /// How many writes of controllers were served, but for Leases and events.
    pub writes: u64,
    pub violation: Option<String>,
    pub story: Vec<String>,
}

fn text<'v>(object: &'v Object, pointer: &str) -> &'v str {
    object.pointer(pointer).and_then(Value::as_str).unwrap_or_default()
}

fn is_going(machine: &Object) -> bool {
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
            replaced: BTreeMap::new(),
            known: BTreeSet::new(),
            going: BTreeSet::new(),
            made: 0,
            deleted: 0,
            writes: 0,
            violation: None,
            story: Vec::new(),
        }
    }

    pub(crate) fn tell(&mut self, line: &str) {
        if self.story.len() >= KEPT {
            self.story.remove(0);
        }
        self.story
            .push(format!("+{:.2}s {line}", self.began.elapsed().as_secs_f64()));
    }

    /// Judges what is stored now.
    pub(crate) fn look(&mut self, api: &Api) {
        if self.violation.is_some() || self.revision == api.revision() {
            return;
        }
        self.revision = api.revision();
        if let Err(violation) = self.check(api) {
            self.violation = Some(violation);
        }
    }

    fn check(&mut self, api: &Api) -> Result<(), String> {
        let (machines, ready) = (machines(api), ready(api));
        for (name, machine) in &machines {
            if self.known.insert((*name).to_owned()) {
                self.made += 1;
                self.arrived(name, machine)?;
            }
            if is_going(machine) && self.going.insert((*name).to_owned()) {
                self.deleted += 1;
            }
        }
        let live: Vec<_> = machines.iter().filter(|(_, machine)| !is_going(machine)).collect();
        if live.len() > self.replicas + 1 {
            return Err(format!(
                "surge: {} machines of {} stay: {:?}",
                live.len(),
                self.replicas,
                names(&live)
            ));
        }
        for (name, machine) in &live {
            let kind = text(machine, "/spec/providerSpec/value/instanceType");
            let twin = live.iter().find(|(other, one)| {
                other != name
                    && index(other) == index(name)
                    && text(one, "/spec/providerSpec/value/instanceType") == kind
            });
            if let Some((twin, _)) = twin {
                return Err(format!("two machines of one index and one template: {name} and {twin}"));
            }
        }
        let serving = live
            .iter()
            .filter(|(_, machine)| ready.contains(text(machine, "/status/nodeRef/name")))
            .count();
        let least = self.replicas - self.deleted_by_user.len().min(1);
        if serving < least && !self.known.is_empty() && self.known.len() >= self.replicas {
            return Err(format!(
                "only {serving} machines of {} serve and stay: {:?}",
                self.replicas,
                names(&live)
            ));
        }
        if ready.len() < self.replicas / 2 + 1 && self.known.len() >= self.replicas {
            return Err(format!("the quorum is lost: {ready:?} are ready"));
        }
        Ok(())
    }

    fn arrived(&mut self, name: &str, machine: &Object) -> Result<(), String> {
        let annotation = format!("/metadata/annotations/{}", REPLACES.replace('/', "~1"));
        let replaces = text(machine, &annotation);
        if replaces.is_empty() {
            return Ok(());
        }
        match self.replaced.insert(replaces.to_owned(), name.to_owned()) {
            Some(other) => Err(format!("two machines for one purpose: {name} and {other}")),
            None => Ok(()),
        }
    }
}

fn names<'a>(machines: &[&(&'a str, &Object)]) -> Vec<&'a str> {
    machines.iter().map(|(name, _)| *name).collect()
}
