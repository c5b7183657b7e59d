//! Inserts the seeded bugs into the controller, and hunts them: each must violate an invariant that
//! describes it.
//!
//! A bug changes what the controller reads, from its caches and live, or what it writes.

use std::sync::Arc;

use anyhow::{Context as _, Result};
use capstan::runtime::View;
use capstan_core::api::config_openshift_io::cluster_operator::{ClusterOperator, ClusterOperatorCondition};
use capstan_core::api::core_v1::config_map::ConfigMap;
use capstan_core::api::machine_openshift_io::control_plane::{ControlPlane, FINALIZER};
use capstan_core::api::machine_openshift_io::machine::Machine;
use capstan_core::api::objects::CachedObject;
use capstan_core::control_plane::plan::REBALANCING;
use capstan_core::control_plane::spec::{ACKNOWLEDGED, RISK};
use capstan_core::cpms::created_from::CREATED_FROM;
use capstan_core::model::NamespacedName;
use capstan_core::model::PENDING_CREATIONS;
use serde_json::{Value, json};

use crate::simulation::engine::kinds::{KindId, Typed, Version};
use crate::simulation::engine::options::RunOptions;
use crate::simulation::engine::port::{Answer, Call};
use crate::simulation::engine::world::World;
use crate::simulation::hunted::Hunted;

use super::bugs::{BUGS, Bug};
use super::kinds::{CONFIG_MAP, CONTROL_PLANE, HEALTH_CHECK, MACHINE, OPERATOR};
use super::scenarios::schedule;
use super::state::Plane;

impl Bug {
    /// `leaves`: the ControlPlane is being deleted. Returns whether the controller sees the
    /// machine.
    fn machine(self, machine: &mut Machine, leaves: bool) -> bool {
        match self {
            Self::GoingUncounted => return !machine.metadata.is_deleting(),
            Self::GoingStands => machine.metadata.deletion_timestamp = None,
            Self::TakesForeign => machine
                .metadata
                .owner_references
                .retain(|owner| owner.kind == "ControlPlane"),
            Self::FinalizerFirst if leaves => machine.metadata.owner_references.clear(),
            Self::Swapped => swap_types(machine),
            Self::TemplateAsSent => {
                machine.metadata.annotations.remove(CREATED_FROM);
                set_type(machine, "m1.small");
            }
            _ => {}
        }
        true
    }

    fn object(self, object: &mut ControlPlane) {
        let spec = object.spec.clone();
        let replicas = spec.replicas.unwrap_or(1);
        let mut changed = (*spec).clone();
        match self {
            Self::EvenNumbers => changed.replicas = Some((replicas + 2).min(7)),
            Self::OneLess => changed.replicas = Some((replicas - 2).max(1)),
            Self::EditUnseen => {
                let value = changed.provider_spec.value.as_mut();
                if let Some(type_) = value.and_then(|value| value.pointer_mut("/instanceType")) {
                    *type_ = "m6i.xlarge".into();
                }
            }
            Self::Unasked => {
                let annotations = &mut object.metadata.annotations;
                annotations.insert(ACKNOWLEDGED.to_owned(), RISK.to_owned());
            }
            Self::NoFinalizer if !object.metadata.is_deleting() && object.metadata.finalizers.is_empty() => {
                object.metadata.finalizers.push(FINALIZER.to_owned());
            }
            Self::RandomNames => drop(object.metadata.annotations.remove(PENDING_CREATIONS)),
            Self::NeverEven => drop(object.metadata.annotations.remove(REBALANCING)),
            Self::Restarts => {
                if let Some(text) = object.metadata.annotations.get_mut(REBALANCING)
                    && let Ok(mut records) = serde_json::from_str::<Value>(text)
                {
                    put(&mut records, "", "tried", json!([]));
                    *text = records.to_string();
                }
            }
            Self::Restless => {
                if let Some(status) = &mut object.status {
                    status.replicas = None;
                }
            }
            _ => return,
        }
        object.spec = changed.into();
    }

    fn operator(self, operator: &mut ClusterOperator, machines: usize) {
        if self != Self::EtcdIgnored {
            return;
        }
        let condition = |type_: &str, status: &str, message: String| ClusterOperatorCondition {
            type_: type_.to_owned(),
            status: status.to_owned(),
            message: Some(message),
            reason: None,
            last_transition_time: None,
        };
        operator.status.conditions = vec![
            condition(
                "Available",
                "True",
                format!("EtcdMembersAvailable: {machines} members are available"),
            ),
            condition(
                "Degraded",
                "False",
                "EtcdMembersDegraded: No unhealthy members found".to_owned(),
            ),
        ];
    }

    /// What the caches show to a controller with the bug.
    pub(super) fn view(self, view: &View) -> View {
        let mut view = view.clone();
        let machines = count(&view);
        let leaves = is_leaving(&view);
        alter::<Machine>(&mut view, MACHINE, |machine| self.machine(machine, leaves));
        alter::<ControlPlane>(&mut view, CONTROL_PLANE, |object| {
            self.object(object);
            true
        });
        alter::<ClusterOperator>(&mut view, OPERATOR, |operator| {
            self.operator(operator, machines);
            true
        });
        alter::<ConfigMap>(&mut view, CONFIG_MAP, |_endpoints| self != Self::LearnersVote);
        view
    }

    /// Alters the answer to a read.
    pub(super) fn answer(self, answer: &mut kube::Result<Answer>, call: &Call, cached: Option<&View>) {
        let (machines, leaves) = (cached.map_or(0, count), cached.is_some_and(is_leaving));
        let keep = |version: &mut Version| {
            let typed = &mut version.typed;
            match call.kind() {
                kind if kind == MACHINE => altered::<Machine>(typed, |machine| self.machine(machine, leaves)),
                kind if kind == CONTROL_PLANE => altered::<ControlPlane>(typed, |object| {
                    self.object(object);
                    true
                }),
                kind if kind == OPERATOR => altered::<ClusterOperator>(typed, |operator| {
                    self.operator(operator, machines);
                    true
                }),
                _ => true,
            }
        };
        match answer {
            Ok(Answer::Object(Some(version))) => drop(keep(version)),
            Ok(Answer::List(all)) => all.retain_mut(keep),
            _ => {}
        }
    }

    /// Alters a write, the one with this number. Returns whether it is executed at all.
    pub(super) fn write(self, call: &mut Call, plane: &Plane, number: u64) -> bool {
        match call {
            Call::Create(key, machine) if key.kind == MACHINE => match self {
                Self::RandomNames => {
                    let name = format!("{}-{number}", key.name);
                    put(machine, "/metadata", "name", json!(name));
                    key.name = name;
                }
                Self::OneZone => put(
                    machine,
                    "/spec/providerSpec/value/placement",
                    "availabilityZone",
                    json!("us-east-1a"),
                ),
                _ => {}
            },
            Call::Create(key, _) if key.kind == HEALTH_CHECK && self == Self::NoHealthCheck => return false,
            Call::Create(key, body) | Call::Patch { key, patch: body, .. }
                if key.kind == HEALTH_CHECK && self == Self::WeakHealthCheck =>
            {
                let most = body.pointer("/spec/maxUnhealthy").and_then(Value::as_u64);
                put(body, "/spec", "maxUnhealthy", json!(most.unwrap_or(0) + 1));
            }
            Call::Patch {
                key,
                status: false,
                patch,
            } if key.kind == MACHINE
                && self == Self::DropsHooks
                && patch.pointer("/metadata/annotations").is_some() =>
            {
                put(patch, "", "spec", json!({"lifecycleHooks": null}));
            }
            Call::Patch {
                key,
                status: false,
                patch,
            } if key.kind == CONTROL_PLANE => match self {
                Self::Overwrites if patch.pointer("/metadata/annotations").is_none() => {
                    put(patch, "", "spec", json!({"enableautorepair": false}));
                }
                Self::RandomNames => return false,
                _ => {}
            },
            Call::Patch {
                key,
                status: true,
                patch,
            } if key.kind == CONTROL_PLANE && self == Self::EarlyGeneration => {
                let generation = plane.object.as_ref().and_then(|object| object.metadata.generation);
                put(
                    patch,
                    "/status",
                    "observedGeneration",
                    json!(generation.unwrap_or(0) + 1),
                );
            }
            _ => {}
        }
        true
    }

    /// Whether every replica takes itself for the leader.
    pub(super) fn always_leads(self) -> bool {
        self == Self::RandomNames
    }

    /// Whether the controller forgets everything between two reconciles.
    pub(super) fn forgets(self) -> bool {
        self == Self::RandomNames
    }

    /// Whether no event is published.
    pub(super) fn is_silent(self) -> bool {
        self == Self::Silent
    }
}

/// Makes outdated machines look current, and current ones outdated.
fn swap_types(machine: &mut Machine) {
    let value = machine.spec.provider_spec.value.as_ref();
    let type_ = value
        .and_then(|value| value.pointer("/instanceType")?.as_str())
        .map(str::to_owned);
    machine.metadata.annotations.remove(CREATED_FROM);
    let other = if type_.as_deref() == Some("m6i.xlarge") {
        "m6i.2xlarge"
    } else {
        "m6i.xlarge"
    };
    set_type(machine, other);
}

fn set_type(machine: &mut Machine, type_: &str) {
    if let Some(value) = machine.spec.provider_spec.value.as_mut()
        && let Some(field) = value.pointer_mut("/instanceType")
    {
        *field = type_.into();
    }
}

fn put(object: &mut Value, pointer: &str, field: &str, value: Value) {
    if let Some(fields) = object.pointer_mut(pointer).and_then(Value::as_object_mut) {
        fields.insert(field.to_owned(), value);
    }
}

fn count(view: &View) -> usize {
    let machines = view.objects.all::<Machine>(MACHINE.info());
    machines.into_iter().flatten().count()
}

/// Whether the ControlPlane is being deleted.
fn is_leaving(view: &View) -> bool {
    let objects = view.objects.all::<ControlPlane>(CONTROL_PLANE.info());
    let mut objects = objects.into_iter().flatten();
    objects.any(|object| object.metadata.is_deleting())
}

/// Alters the objects of a kind in a view, and hides those for which this returns false.
fn alter<T: CachedObject + Clone>(view: &mut View, kind: KindId, change: impl Fn(&mut T) -> bool) {
    let all: Vec<Arc<T>> = view
        .objects
        .all::<T>(kind.info())
        .into_iter()
        .flatten()
        .cloned()
        .collect();
    let shown = all.into_iter().filter_map(|object| {
        let mut object = (*object).clone();
        let key = {
            let meta = object.metadata()?;
            NamespacedName::new(meta.namespace.as_deref().unwrap_or_default(), meta.name())
        };
        change(&mut object).then(|| (key, Arc::new(object)))
    });
    view.objects.insert(kind.info(), shown.collect());
}

/// Alters an object of an answer. Returns whether the answer contains it.
fn altered<T: Clone + Send + Sync + 'static>(typed: &mut Typed, change: impl FnOnce(&mut T) -> bool) -> bool {
    let Some(object) = typed.get::<T>() else { return true };
    let mut object = object.clone();
    let stays = change(&mut object);
    *typed = Typed::new(Arc::new(object));
    stays
}

/// Hunts every bug in at most `limit` seeds of the scenario that meets it.
///
/// # Errors
/// When the environment cannot be set up.
pub fn hunt(limit: u64) -> Result<Vec<Hunted>> {
    BUGS.iter().map(|bug| one(bug, limit)).collect()
}

fn one((bug, id, _, scenario, fits): &(Bug, &'static str, &str, &str, &[&str]), limit: u64) -> Result<Hunted> {
    let mut hunted = Hunted {
        id: (*id).to_owned(),
        found: None,
        accidents: Vec::new(),
    };
    for seed in 0..limit {
        let clean = schedule(seed, Some(scenario)).context("finding the scenario")?;
        let mut schedule = clean.clone();
        schedule.setup.bug = Some(*bug);
        let Some(violation) = World::<Plane>::new(schedule, RunOptions::default())?.run().violation else {
            continue;
        };
        let is_clean = || {
            anyhow::Ok(
                World::<Plane>::new(clean, RunOptions::default())?
                    .run()
                    .violation
                    .is_none(),
            )
        };
        if fits.contains(&violation.invariant) && is_clean()? {
            hunted.found = Some((violation.invariant, seed));
            break;
        }
        hunted.accidents.push(format!("seed {seed}: {violation}"));
    }
    Ok(hunted)
}
