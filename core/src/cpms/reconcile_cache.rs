//! The reconcile cache: results for objects that did not change since the previous reconcile.
//!
//! Usually one object changes at a time, and most changes are in a status. Results that depend on a
//! template, or on a machine and its template, are kept while both are unchanged. The cache
//! contains no information of its own: with an empty cache the results are the same.

use std::collections::BTreeMap;
use std::mem;
use std::sync::Arc;

use jiff::Timestamp;
use serde_json::Value;

use super::changes::{self, Comparison};
use super::created_from::{CREATED_FROM, CreatedFrom};
use super::domains::{self, FailureDomain};
use super::machine_state::{ComparedSpec, MachineInputs, MachineState};
use super::observed::Observed;
use super::placement::{self, PlacedMachine, Placement};
use super::spec::{Gates, ParseContext, Spec, Template, parse};
use super::stored_template::{KnownTemplate, StoredTemplate};
use crate::api::config_openshift_io::infrastructure::Infrastructure;
use crate::api::machine_openshift_io::control_plane_machine_set::ControlPlaneMachineSet;
use crate::api::machine_openshift_io::machine::Machine;
use crate::model::Violation;

/// What was computed in the previous reconcile of one set.
#[derive(Debug, Default)]
pub struct ReconcileCache {
    set: Option<CachedSet>,
    template: Option<CachedTemplate>,
    infrastructure: Option<Arc<Infrastructure>>,
    /// By name.
    machines: BTreeMap<String, CachedMachine>,
    placement: Option<CachedPlacement>,
}

/// A valid set, and the inputs of its parse.
#[derive(Debug)]
struct CachedSet {
    set: Arc<ControlPlaneMachineSet>,
    infrastructure: Option<Arc<Infrastructure>>,
    gates: Gates,
    ignore_gated_fields: bool,
    spec: Spec,
}

/// The template with which machines were compared.
#[derive(Debug)]
struct CachedTemplate {
    template: Arc<Template>,
    /// Name and uid of the set decide the owner of a machine.
    name: String,
    uid: String,
    comparison: Comparison,
    revision: String,
    /// What the API server answered.
    answers: Vec<Arc<StoredTemplate>>,
    known: Arc<KnownTemplate>,
}

impl CachedTemplate {
    fn compare(&self, machine: &Machine, infrastructure: Option<&Infrastructure>) -> ComparedSpec {
        let template = &self.template.provider_spec;
        let provider_spec = machine.spec.provider_spec.value.as_ref();
        let compared = provider_spec.unwrap_or(&Value::Null);
        let created_from = CreatedFrom::read(machine);
        let lost = created_from
            .as_ref()
            .map(|_| changes::lost(template, compared, self.comparison));
        ComparedSpec {
            domain: provider_spec.and_then(|value| {
                let own = changes::without_default_network(template, value);
                domains::extract(&own, infrastructure)
            }),
            changes: self.known.changes(&self.template, compared, self.comparison),
            created_from,
            lost: lost.unwrap_or_default(),
        }
    }
}

/// A machine that was compared with the template.
#[derive(Debug)]
struct CachedMachine {
    machine: Arc<Machine>,
    compared: Arc<ComparedSpec>,
    state: Option<CachedState>,
}

/// The state of a machine, and its inputs other than the machine and the set.
#[derive(Debug)]
struct CachedState {
    inputs: MachineInputs,
    state: Arc<MachineState>,
}

/// A placement and its inputs.
#[derive(Debug)]
struct CachedPlacement {
    replicas: usize,
    domains: Vec<FailureDomain>,
    machines: Vec<CachedPlacedMachine>,
    placement: Placement,
}

/// An owned [`PlacedMachine`].
#[derive(Debug)]
struct CachedPlacedMachine {
    index: u32,
    created: Option<Timestamp>,
    name: String,
    deleting: bool,
    domain: Option<FailureDomain>,
}

impl CachedPlacedMachine {
    fn of(machine: &PlacedMachine<'_>) -> Self {
        Self {
            index: machine.index,
            created: machine.created,
            name: machine.name.to_owned(),
            deleting: machine.deleting,
            domain: machine.domain.cloned(),
        }
    }

    fn is(&self, machine: &PlacedMachine<'_>) -> bool {
        (self.index, self.created, self.name.as_str(), self.deleting)
            == (machine.index, machine.created, machine.name, machine.deleting)
            && self.domain.as_ref() == machine.domain
    }
}

impl ReconcileCache {
    /// The parsed set, or every violation that [`parse`] finds.
    ///
    /// # Errors
    /// As [`parse`].
    pub fn parse(
        &mut self,
        set: &Arc<ControlPlaneMachineSet>,
        infrastructure: Option<&Arc<Infrastructure>>,
        gates: Gates,
        ignore_gated_fields: bool,
    ) -> Result<Spec, Vec<Violation>> {
        if let Some(known) = &mut self.set
            && known.gates == gates
            && known.ignore_gated_fields == ignore_gated_fields
            && same(known.infrastructure.as_ref(), infrastructure)
            && parses_alike(&known.set, set)
        {
            if !Arc::ptr_eq(&known.set, set) {
                known.set = Arc::clone(set);
                known.spec.set_metadata(&set.metadata);
            }
            return Ok(known.spec.clone());
        }
        let context = ParseContext {
            infrastructure: infrastructure.map(|infrastructure| &**infrastructure),
            gates,
            ignore_gated_fields,
        };
        let spec = parse(set, &context)?;
        self.set = Some(CachedSet {
            set: Arc::clone(set),
            infrastructure: infrastructure.cloned(),
            gates,
            ignore_gated_fields,
            spec: spec.clone(),
        });
        Ok(spec)
    }

    /// Sets the template with which machines are compared from now on. Returns the name of its
    /// revision, and what is known of how it is stored.
    pub(super) fn set_template(&mut self, spec: &Spec, observed: &Observed) -> (String, Arc<KnownTemplate>) {
        let comparison = spec.comparison();
        let (infrastructure, answers) = (observed.infrastructure.as_ref(), &observed.stored_templates);
        if let Some(known) = &self.template
            && known.comparison == comparison
            && Arc::ptr_eq(&known.template, &spec.template)
            && (&known.name, &known.uid) == (&spec.name, &spec.uid)
            && same(self.infrastructure.as_ref(), infrastructure)
            && have_same_items(&known.answers, answers)
        {
            return (known.revision.clone(), Arc::clone(&known.known));
        }
        self.machines.clear();
        self.placement = None;
        self.infrastructure = infrastructure.cloned();
        let revision = changes::revision(&spec.template.provider_spec, comparison);
        let known = Arc::new(KnownTemplate::of(&spec.template, comparison, answers));
        self.template = Some(CachedTemplate {
            template: Arc::clone(&spec.template),
            name: spec.name.clone(),
            uid: spec.uid.clone(),
            comparison,
            revision: revision.clone(),
            answers: answers.clone(),
            known: Arc::clone(&known),
        });
        (revision, known)
    }

    /// Compares machines with the template that was set last, in their order. Other machines are
    /// dropped from the cache.
    pub(super) fn compare(&mut self, machines: &[&Arc<Machine>]) -> Vec<Arc<ComparedSpec>> {
        let Some(template) = &self.template else {
            return Vec::new();
        };
        let mut before = mem::take(&mut self.machines);
        let mut all = Vec::with_capacity(machines.len());
        for machine in machines {
            let (name, known) = match before.remove_entry(machine.metadata.name()) {
                Some((name, known)) if Arc::ptr_eq(&known.machine, machine) => (name, known),
                Some((name, known)) if has_same_inputs(&known.machine, machine) => {
                    let known = CachedMachine {
                        machine: Arc::clone(machine),
                        state: None,
                        ..known
                    };
                    (name, known)
                }
                _ => {
                    let known = CachedMachine {
                        machine: Arc::clone(machine),
                        compared: Arc::new(template.compare(machine, self.infrastructure.as_deref())),
                        state: None,
                    };
                    (machine.metadata.name().to_owned(), known)
                }
            };
            all.push(Arc::clone(&known.compared));
            self.machines.insert(name, known);
        }
        all
    }

    /// The state of a machine that was compared: the cached state, or what `read` returns if the
    /// inputs changed.
    pub(super) fn machine_state(
        &mut self,
        machine: &Machine,
        inputs: MachineInputs,
        read: impl FnOnce(&MachineInputs) -> MachineState,
    ) -> Arc<MachineState> {
        let known = self.machines.get_mut(machine.metadata.name());
        if let Some(cached) = known.as_ref().and_then(|known| known.state.as_ref())
            && are_same(&cached.inputs, &inputs)
        {
            return Arc::clone(&cached.state);
        }
        let state = Arc::new(read(&inputs));
        if let Some(known) = known {
            known.state = Some(CachedState {
                inputs,
                state: Arc::clone(&state),
            });
        }
        state
    }

    /// The failure domain in which each index belongs; see [`placement::place`].
    pub(super) fn place(
        &mut self,
        replicas: usize,
        domains: &[FailureDomain],
        machines: &[PlacedMachine<'_>],
    ) -> &Placement {
        let known = self.placement.take().filter(|known| {
            let mut pairs = known.machines.iter().zip(machines);
            known.replicas == replicas
                && known.domains == domains
                && known.machines.len() == machines.len()
                && pairs.all(|(before, now)| before.is(now))
        });
        let placed = known.unwrap_or_else(|| CachedPlacement {
            replicas,
            domains: domains.to_vec(),
            machines: machines.iter().map(CachedPlacedMachine::of).collect(),
            placement: placement::place(replicas, domains, machines),
        });
        &self.placement.insert(placed).placement
    }
}

fn have_same_items<T>(left: &[Arc<T>], right: &[Arc<T>]) -> bool {
    left.len() == right.len() && left.iter().zip(right).all(|(left, right)| Arc::ptr_eq(left, right))
}

fn same<T>(left: Option<&Arc<T>>, right: Option<&Arc<T>>) -> bool {
    match (left, right) {
        (Some(left), Some(right)) => Arc::ptr_eq(left, right),
        (None, None) => true,
        _ => false,
    }
}

fn are_same(left: &MachineInputs, right: &MachineInputs) -> bool {
    same(left.node.as_ref(), right.node.as_ref())
        && left.node_owner == right.node_owner
        && left.index == right.index
        && left.domain == right.domain
        && left.belongs == right.belongs
}

/// Whether a parse of both gives the same result, apart from metadata that [`Spec::set_metadata`]
/// replaces.
fn parses_alike(left: &Arc<ControlPlaneMachineSet>, right: &Arc<ControlPlaneMachineSet>) -> bool {
    Arc::ptr_eq(left, right)
        || (left.metadata.annotations == right.metadata.annotations
            && left.metadata.name == right.metadata.name
            && left.spec == right.spec)
}

fn has_same_inputs(left: &Arc<Machine>, right: &Arc<Machine>) -> bool {
    let record = |machine: &Arc<Machine>| machine.metadata.annotations.get(CREATED_FROM).cloned();
    Arc::ptr_eq(left, right)
        || (left.spec.provider_spec.value == right.spec.provider_spec.value && record(left) == record(right))
}

#[cfg(test)]
mod tests;
