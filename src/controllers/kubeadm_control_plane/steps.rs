//! The steps of core's plan as writes, in the order in which they are made.
//!
//! Nothing here decides whether something is written; `capstan_core::kcp` does.

use std::sync::Arc;

use capstan_core::api::kinds::{CLUSTER_API_MACHINES, KUBEADM_CONFIGS, KUBEADM_CONTROL_PLANES};
use capstan_core::api::meta::ObjectMeta;
use capstan_core::kcp::action::{Action, Step as CoreStep};
use capstan_core::kcp::clone::clone;
use capstan_core::kcp::propagation::{Desired, machine_patch, metadata_patch};
use capstan_core::kcp::state::MachineState;
use capstan_core::kcp::{deletion, expiry};
use capstan_core::model::Precondition;
use serde_json::{Map, Value, json};

use super::Found;
use super::known::{Known, reference};
use super::objects::SECRETS;
use crate::runtime::{Source, Step, Verb, Write};

/// A write, and the step of core that it belongs to.
#[derive(Clone, Debug)]
pub(super) struct Planned {
    pub(super) step: Step,
    pub(super) origin: Origin,
}

/// Where a write comes from. A number is the position of the step in core's plan.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Origin {
    /// A Secret of the Cluster.
    Secret,
    /// The first write of a creation, before which the creation is recorded.
    BeginCreation(usize),
    /// The second write of a creation.
    Configuration(usize),
    /// The last write of a creation.
    Machine(usize),
    /// Any other step of core's plan.
    Core(usize),
    /// A field that an existing machine gets, or a change of an addon.
    Upkeep,
}

impl Origin {
    /// The position of the step in core's plan.
    pub(super) fn position(self) -> Option<usize> {
        match self {
            Self::Secret | Self::Upkeep => None,
            Self::BeginCreation(at) | Self::Configuration(at) | Self::Machine(at) | Self::Core(at) => Some(at),
        }
    }
}

/// All writes.
pub(super) fn planned(found: &Found, known: &Known, source: Source) -> Vec<Planned> {
    let steps = found.assessment.plan.steps.iter().enumerate();
    let (own, others): (Vec<_>, Vec<_>) =
        steps.partition(|(_, step)| matches!(step.action, Action::PatchControlPlane(_)));
    let mut all: Vec<Planned> = own.into_iter().map(|(at, step)| single(found, at, step)).collect();
    if found.may_write_secrets() {
        all.extend(secrets(found, known));
    }
    for (at, step) in others {
        match &step.action {
            Action::Create { .. } => all.extend(creation(found, known, source, at, step)),
            Action::Delete { .. } => all.push(permitted(found, step).unwrap_or_else(|| single(found, at, step))),
            _ => all.push(single(found, at, step)),
        }
    }
    all.extend(upkeep(found, known));
    all
}

/// What no other step waits for: fields that existing machines get, and one change of an addon.
fn upkeep(found: &Found, known: &Known) -> Vec<Planned> {
    let state = &found.assessment.state;
    if state.is_paused() || state.cluster.is_none() {
        return Vec::new();
    }
    let mut writes = Vec::new();
    // A machine that another step changes has another version then.
    let steps = &found.assessment.plan.steps;
    let is_changed = |name: &str| steps.iter().any(|step| step.machine_of_control_plane() == Some(name));
    let desired = Desired::of(state);
    for machine in state.machines.iter().filter(|machine| !is_changed(machine.name())) {
        writes.extend(propagated(found, known, &desired, machine));
    }
    if let Ok(Some(change)) = &found.addon {
        let verb = Verb::Perform(change.title().to_owned());
        let own = Write::new(&KUBEADM_CONTROL_PLANES, state.namespace(), &found.key.name, verb);
        writes.push((own, "the addons follow the control plane"));
    }
    writes
        .into_iter()
        .map(|(write, because)| upkeep_step(write, because))
        .collect()
}

fn upkeep_step(write: Write, because: &'static str) -> Planned {
    Planned {
        step: Step {
            disruptive: false,
            needs_success: false,
            ..Step::disruptive(write, "patch", because)
        },
        origin: Origin::Upkeep,
    }
}

/// What comes before the deletion of a Machine that a policy may refuse. The deletion follows in
/// the next reconcile.
fn permitted(found: &Found, step: &CoreStep) -> Option<Planned> {
    let state = &found.assessment.state;
    let machine = state.machine(step.machine_of_control_plane()?)?;
    let patch = deletion::permit(machine)?;
    let write = Write::new(
        &CLUSTER_API_MACHINES,
        state.namespace(),
        machine.name(),
        Verb::Patch(patch),
    );
    Some(upkeep_step(write, "the control plane deletes this machine"))
}

/// The patches of the objects of a machine. Its own is the last one, because it records the fields.
fn propagated(found: &Found, known: &Known, desired: &Desired, machine: &MachineState) -> Vec<(Write, &'static str)> {
    let state = &found.assessment.state;
    let namespace = state.namespace();
    let mut writes = Vec::new();
    let infrastructure = known
        .infrastructure
        .get(&reference(&machine.machine))
        .and_then(Option::as_ref);
    if let Some((object, kind)) = infrastructure.map(Arc::as_ref)
        && let Some(patch) = metadata_patch(desired, machine, object)
    {
        let name = &machine.machine.spec.infrastructure_ref.name;
        writes.push(Write::new(kind, namespace, name, Verb::Patch(patch)));
    }
    let config = &machine.machine.spec.bootstrap.config_ref.name;
    if let Some(object) = found.configs.get(config)
        && let Some(patch) = metadata_patch(desired, machine, &object.value).or_else(|| {
            let (expires, _) = known.expiries.get(machine.name())?;
            expiry::api_server(machine, &object.value)?;
            Some(expiry::patch(&object.value, (*expires)?))
        })
    {
        writes.push(Write::new(&KUBEADM_CONFIGS, namespace, config, Verb::Patch(patch)));
    }
    if let Some(patch) = machine_patch(desired, machine).or_else(|| deletion::machine_patch(state, machine, found.now))
    {
        let name = machine.name();
        writes.push(Write::new(&CLUSTER_API_MACHINES, namespace, name, Verb::Patch(patch)));
    }
    let because = "the control plane gives its machines this field";
    writes.into_iter().map(|write| (write, because)).collect()
}

fn secrets<'a>(found: &'a Found, known: &'a Known) -> impl Iterator<Item = Planned> + 'a {
    let namespace = found.assessment.state.namespace();
    let certificates = &found.assessment.certificates;
    let wanted = certificates.generate.iter().map(|generation| generation.secret.clone());
    let kubeconfig = found.needs_kubeconfig().map(|_| found.kubeconfig_secret());
    let issued = wanted.chain(kubeconfig).filter_map(move |name| {
        let body = known.issued.get(&name)?;
        let (verb, action) = match found.labelled_secret(&name) {
            // Only a kubeconfig is issued again.
            Some(stored) => {
                let patch = json!({"metadata": precondition(&stored.metadata), "stringData": body.get("stringData")});
                (Verb::Patch(patch), "patch")
            }
            None => (Verb::Ensure(body.as_ref().clone()), "create"),
        };
        let write = Write::new(&SECRETS, namespace, &name, verb);
        Some(plain(write, action, String::from("the cluster needs the Secret")))
    });
    let owned = certificates.own.iter().filter_map(move |name| {
        let patch = own(found, name)?;
        let write = Write::new(&SECRETS, namespace, name, Verb::Patch(patch));
        Some(plain(
            write,
            "patch",
            String::from("the control plane manages the Secret"),
        ))
    });
    issued.chain(owned).map(|step| Planned {
        step,
        origin: Origin::Secret,
    })
}

/// The patch that makes the control plane the controller of a Secret. Other owners stay.
fn own(found: &Found, name: &str) -> Option<Value> {
    let secret = found.secrets.iter().find(|secret| secret.metadata.name() == name)?;
    let owners = secret.metadata.owner_references.iter();
    let mut owners: Vec<Value> = owners
        .filter(|owner| owner.controller != Some(true) && owner.uid != found.object.metadata.uid())
        .map(|owner| json!(owner))
        .collect();
    owners.push(found.owner());
    let mut metadata = precondition(&secret.metadata);
    metadata.insert(String::from("ownerReferences"), json!(owners));
    Some(json!({ "metadata": metadata }))
}

/// The metadata of a patch that fails if the object changed since it was read.
fn precondition(metadata: &ObjectMeta) -> Map<String, Value> {
    let precondition = Precondition {
        uid: metadata.uid().to_owned(),
        resource_version: metadata.resource_version.clone().unwrap_or_default(),
    };
    precondition.metadata()
}

/// A step that no other step depends on.
fn plain(write: Write, action: &'static str, because: String) -> Step {
    Step {
        disruptive: false,
        gates_others: true,
        ..Step::disruptive(write, action, because)
    }
}

/// A step of one write.
fn single(found: &Found, at: usize, step: &CoreStep) -> Planned {
    let namespace = found.assessment.state.namespace();
    let name = step.machine_of_control_plane().unwrap_or_default();
    let machine = |verb| Write::new(&CLUSTER_API_MACHINES, namespace, name, verb);
    let own = |verb| Write::new(&KUBEADM_CONTROL_PLANES, namespace, &found.key.name, verb);
    let write = match &step.action {
        Action::PatchControlPlane(patch) => own(Verb::Patch(patch.clone())),
        Action::RemoveMember { member } => own(Verb::Perform(format!("removing etcd member {member:?}"))),
        Action::Patch(patch) | Action::RemoveHook { patch, .. } => machine(Verb::Patch(patch.clone())),
        // A creation has several writes.
        Action::Delete { .. } | Action::Create { .. } => machine(Verb::Delete {
            precondition: step
                .precondition
                .as_ref()
                .map(|there| (there.uid.clone(), there.resource_version.clone())),
        }),
    };
    let step = Step {
        disruptive: step.is_disruptive(),
        gates_others: matches!(step.action, Action::PatchControlPlane(_)),
        ..Step::disruptive(write, step.verb(), step.because.clone())
    };
    Planned {
        step,
        origin: Origin::Core(at),
    }
}

/// The writes of a creation: the clone of the template, the configuration, and the Machine. From
/// the caches, the clone has no body, because the template is read live.
fn creation(found: &Found, known: &Known, source: Source, at: usize, step: &CoreStep) -> Vec<Planned> {
    let Action::Create { machine, config, .. } = &step.action else {
        return Vec::new();
    };
    let state = &found.assessment.state;
    let (namespace, name) = (state.namespace(), machine.metadata.name());
    let template = known.template.as_ref().filter(|(reference, _, _)| {
        let wanted = &state.control_plane.spec.machine_template.spec.infrastructure_ref;
        reference[..] == [wanted.api_group.as_str(), wanted.kind.as_str(), wanted.name.as_str()]
    });
    let machine_write = |body| {
        let verb = Verb::Create { body, purpose: &[] };
        Write::new(&CLUSTER_API_MACHINES, namespace, name, verb)
    };
    let (clone, kind) = match (template, source) {
        (Some((_, template, kind)), Source::Live) => match clone(state, machine, template) {
            Ok(clone) => (clone, kind.clone()),
            Err(problem) => {
                tracing::warn!(problem, control_plane = %found.key, "the template cannot be cloned");
                return Vec::new();
            }
        },
        (None, Source::Live) => return Vec::new(),
        // The live read decides. This stands for the creation until then.
        (_, Source::Caches) => {
            return vec![Planned {
                step: Step::disruptive(machine_write(Value::Null), "create", step.because.clone()),
                origin: Origin::BeginCreation(at),
            }];
        }
    };
    let bodies = (serde_json::to_value(config), serde_json::to_value(machine));
    let (Ok(config), Ok(machine)) = bodies else {
        tracing::error!(machine = name, "the new machine cannot be encoded");
        return Vec::new();
    };
    let of_config = Verb::Create {
        body: config,
        purpose: &[],
    };
    let needed = |write| Step {
        disruptive: false,
        ..Step::disruptive(write, "create", step.because.clone())
    };
    vec![
        Planned {
            step: needed(Write::new(&kind, namespace, name, Verb::CreateUnwatched(clone))),
            origin: Origin::BeginCreation(at),
        },
        Planned {
            step: needed(Write::new(&KUBEADM_CONFIGS, namespace, name, of_config)),
            origin: Origin::Configuration(at),
        },
        Planned {
            step: Step::disruptive(machine_write(machine), "create", step.because.clone()),
            origin: Origin::Machine(at),
        },
    ]
}
