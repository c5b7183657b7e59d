//! What was read before, of objects that still say the same: a look that follows another reads only what is new.
//!
//! A cluster changes one object at a time, and most changes are of a status. What follows from a template, and from a
//! machine and its template, is kept as long as they are the same. Nothing here is a fact of its own: with an empty
//! memory the answers are the same, and take longer.

use std::collections::BTreeMap;
use std::mem;
use std::sync::Arc;

use jiff::Timestamp;
use serde_json::Value;

use super::changes::{self, Comparison, FieldChange};
use super::domains::{self, FailureDomain};
use super::indexes::Index;
use super::placement::{self, Placement, Standing};
use super::spec::{Gates, ParseContext, Spec, Template, parse};
use super::state::MachineState;
use crate::api::config_openshift_io::infrastructure::Infrastructure;
use crate::api::core_v1::node::Node;
use crate::api::machine_openshift_io::control_plane_machine_set::ControlPlaneMachineSet;
use crate::api::machine_openshift_io::machine::Machine;
use crate::model::Violation;

/// What was read before.
#[derive(Debug, Default)]
pub struct ReconcileCache {
    set: Option<Parsed>,
    template: Option<Asked>,
    infrastructure: Option<Arc<Infrastructure>>,
    /// By name.
    machines: BTreeMap<String, Known>,
    placed: Option<Placed>,
}

/// Where everything belongs.
#[derive(Debug)]
struct Placed {
    replicas: usize,
    domains: Vec<FailureDomain>,
    standing: Vec<Stood>,
    placement: Placement,
}

/// What a placement looked at: index, age, name, whether it was going, and where it stood.
type Stood = (u32, Option<Timestamp>, String, bool, Option<FailureDomain>);

/// A set that was valid.
#[derive(Debug)]
struct Parsed {
    set: Arc<ControlPlaneMachineSet>,
    infrastructure: Option<Arc<Infrastructure>>,
    gates: Gates,
    ignore_gated_fields: bool,
    spec: Spec,
}

/// What machines were compared with.
#[derive(Debug)]
struct Asked {
    template: Arc<Template>,
    /// Name and uid of the set: they say whose a machine is.
    name: String,
    uid: String,
    comparison: Comparison,
    revision: String,
}

/// A machine that was compared.
#[derive(Debug)]
struct Known {
    machine: Arc<Machine>,
    compared: Arc<Compared>,
    state: Option<Told>,
}

/// What a provider spec says.
#[derive(Debug)]
pub(super) struct Compared {
    /// Where the machine stands.
    pub(super) domain: Option<FailureDomain>,
    /// In which fields it differs from the template.
    pub(super) changes: Vec<FieldChange>,
}

/// What a machine was said to be like, and what else that followed from.
#[derive(Debug)]
struct Told {
    seen: Seen,
    state: Arc<MachineState>,
}

/// What the state of a machine follows from, beside the machine and the set.
#[derive(Debug)]
pub(super) struct Seen {
    /// Its node, where there is one of the name that it says.
    pub(super) node: Option<Arc<Node>>,
    /// Its index.
    pub(super) index: Index,
    /// Where a machine of the index belongs, where that is known.
    pub(super) belongs: Option<FailureDomain>,
}

impl Seen {
    fn is_as(&self, other: &Self) -> bool {
        same(self.node.as_ref(), other.node.as_ref()) && self.index == other.index && self.belongs == other.belongs
    }
}

fn same<T>(left: Option<&Arc<T>>, right: Option<&Arc<T>>) -> bool {
    match (left, right) {
        (Some(left), Some(right)) => Arc::ptr_eq(left, right),
        (None, None) => true,
        _ => false,
    }
}

impl ReconcileCache {
    /// The set, or everything that is wrong with it: what [`parse`] says.
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
            && says_the_same(&known.set, set)
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
        self.set = Some(Parsed {
            set: Arc::clone(set),
            infrastructure: infrastructure.cloned(),
            gates,
            ignore_gated_fields,
            spec: spec.clone(),
        });
        Ok(spec)
    }

    /// Takes in what is asked for now. Returns the name of the revision.
    pub(super) fn ask(&mut self, spec: &Spec, infrastructure: Option<&Arc<Infrastructure>>) -> String {
        let comparison = spec.comparison();
        if let Some(known) = &self.template
            && known.comparison == comparison
            && Arc::ptr_eq(&known.template, &spec.template)
            && (&known.name, &known.uid) == (&spec.name, &spec.uid)
            && same(self.infrastructure.as_ref(), infrastructure)
        {
            return known.revision.clone();
        }
        self.machines.clear();
        self.placed = None;
        self.infrastructure = infrastructure.cloned();
        let revision = changes::revision(&spec.template.provider_spec, comparison);
        self.template = Some(Asked {
            template: Arc::clone(&spec.template),
            name: spec.name.clone(),
            uid: spec.uid.clone(),
            comparison,
            revision: revision.clone(),
        });
        revision
    }

    /// Where these machines stand and in which fields they differ from what was asked for last, in their order. Others
    /// are forgotten.
    pub(super) fn compare(&mut self, machines: &[&Arc<Machine>]) -> Vec<Arc<Compared>> {
        let Some(asked) = &self.template else {
            return Vec::new();
        };
        let mut before = mem::take(&mut self.machines);
        let mut all = Vec::with_capacity(machines.len());
        for machine in machines {
            let (name, known) = match before.remove_entry(machine.metadata.name()) {
                Some((name, known)) if Arc::ptr_eq(&known.machine, machine) => (name, known),
                Some((name, known)) if provides_the_same(&known.machine, machine) => {
                    let known = Known {
                        machine: Arc::clone(machine),
                        state: None,
                        ..known
                    };
                    (name, known)
                }
                _ => {
                    let provider_spec = machine.spec.provider_spec.value.as_ref();
                    let compared = Compared {
                        domain: provider_spec.and_then(|value| domains::extract(value, self.infrastructure.as_deref())),
                        changes: changes::changes(
                            &asked.template.provider_spec,
                            provider_spec.unwrap_or(&Value::Null),
                            asked.comparison,
                        ),
                    };
                    let known = Known {
                        machine: Arc::clone(machine),
                        compared: Arc::new(compared),
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

    /// What a machine that was compared is like: what `read` says of it where it follows from something else than before.
    pub(super) fn tell(
        &mut self,
        machine: &Machine,
        seen: Seen,
        read: impl FnOnce(&Seen) -> MachineState,
    ) -> Arc<MachineState> {
        let known = self.machines.get_mut(machine.metadata.name());
        if let Some(told) = known.as_ref().and_then(|known| known.state.as_ref())
            && told.seen.is_as(&seen)
        {
            return Arc::clone(&told.state);
        }
        let state = Arc::new(read(&seen));
        if let Some(known) = known {
            known.state = Some(Told {
                seen,
                state: Arc::clone(&state),
            });
        }
        state
    }

    /// Where the machine of each index belongs: what [`placement::place`] says.
    pub(super) fn place(
        &mut self,
        replicas: usize,
        domains: &[FailureDomain],
        machines: &[Standing<'_>],
    ) -> &Placement {
        let looked = |there: &Stood, now: &Standing<'_>| {
            (there.0, there.1, there.2.as_str(), there.3) == (now.index, now.created, now.name, now.deleting)
                && there.4.as_ref() == now.domain
        };
        let known = self.placed.take().filter(|known| {
            known.replicas == replicas
                && known.domains == domains
                && known.standing.len() == machines.len()
                && known
                    .standing
                    .iter()
                    .zip(machines)
                    .all(|(there, now)| looked(there, now))
        });
        let placed = known.unwrap_or_else(|| Placed {
            replicas,
            domains: domains.to_vec(),
            standing: machines
                .iter()
                .map(|one| {
                    let (name, domain) = (one.name.to_owned(), one.domain.cloned());
                    (one.index, one.created, name, one.deleting, domain)
                })
                .collect(),
            placement: placement::place(replicas, domains, machines),
        });
        &self.placed.insert(placed).placement
    }
}

/// Whether nothing that a parse looks at, beside plain metadata, is different.
fn says_the_same(left: &Arc<ControlPlaneMachineSet>, right: &Arc<ControlPlaneMachineSet>) -> bool {
    Arc::ptr_eq(left, right)
        || (left.metadata.annotations == right.metadata.annotations
            && left.metadata.name == right.metadata.name
            && left.spec == right.spec)
}

fn provides_the_same(left: &Arc<Machine>, right: &Arc<Machine>) -> bool {
    Arc::ptr_eq(left, right) || left.spec.provider_spec.value == right.spec.provider_spec.value
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cpms::simulation::{NEW, OLD, World};
    use crate::cpms::state::{Settings, State};

    /// A whole rollout, each look with what the one before it left and with nothing: both see the same.
    #[test]
    fn with_and_without_memory_a_look_sees_the_same() {
        let mut world = World::new("a b c", OLD);
        let mut cache = ReconcileCache::default();
        let mut looks = 0;
        let mut look = |world: &World| {
            let set: Arc<ControlPlaneMachineSet> = Arc::new(serde_json::from_value(world.set.clone()).unwrap());
            let spec = cache.parse(&set, None, world.gates, true).unwrap();
            assert_eq!(spec, world.spec());
            let state = State::observe_again(&spec, world.observed.clone(), Settings::default(), &mut cache);
            assert_eq!(format!("{state:?}"), format!("{:?}", world.state()));
            looks += 1;
        };
        look(&world);
        world.want(NEW);
        world.set["metadata"]["resourceVersion"] = "2001".into();
        for _ in 0..40 {
            look(&world);
            let plan = world.plan();
            for step in &plan.steps {
                world.apply(step);
                look(&world);
            }
            if let Some(event) = world.events().first() {
                world.happen(&event.clone());
                look(&world);
            }
            world.pass(60);
        }
        world.zones("a b d");
        look(&world);
        world.annotate(changes::ROLL_ON_IMAGE_CHANGE, "true");
        look(&world);
        assert!(looks > 50, "{looks}");
    }
}
