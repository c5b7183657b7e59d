//! The checker is checked: known bugs, each from a real report, carried by the controller on purpose. The simulation has
//! to find every one of them.
//!
//! A bug is a lie at the seam between the controller that ships and the world: what the buggy controller overlooked is
//! hidden from it, what it did wrong is done in its name. So the decisions stay those of the shipped code, led astray in
//! the way of the report.

use std::collections::BTreeMap;
use std::sync::Arc;

use anyhow::Result;
use capstan::controllers::{Object, View};
use capstan_core::admission::Snapshot;
use capstan_core::api::config_openshift_io::cluster_operator::ClusterOperator;
use capstan_core::api::core_v1::node::Node;
use capstan_core::api::machine_openshift_io::control_plane_machine_set::ControlPlaneMachineSet;
use capstan_core::api::machine_openshift_io::machine::Machine;
use capstan_core::cpms::indexes::REPLACES;
use capstan_core::cpms::spec::PAUSED_ROLLOUT;
use serde_json::{Value, json};

use super::objects::PREFIX;
use super::port::{Answer, Question};
use super::run::shortest;
use super::schedule::Schedule;
use super::world::{Orders, World};

/// A bug.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Mutant {
    /// Machine names are rolled, not derived.
    RandomNames,
    /// The surge is counted without the machine that the cache does not show.
    SurgeMiscounted,
    /// Machines without a ready node are not counted.
    UnreadyUncounted,
    /// A node that is not ready counts as ready.
    ReadinessIgnored,
    /// A machine without a node counts as ready.
    NodeNotAwaited,
    /// Nodes that no machine claims are not looked at.
    StrangersIgnored,
    /// The state of the set is not looked at.
    InactiveActs,
    /// The strategy of the set is not looked at.
    OnDeleteRolls,
    /// Every replacement stands in the first failure domain.
    FirstDomain,
    /// Failure domains are mapped anew by their order.
    DomainChurn,
    /// The hooks of a machine are taken off before it is deleted.
    HookRemoved,
    /// The finalizer of the set goes before the owner references.
    FinalizerFirst,
    /// Only selected machines are released from the set.
    SelectedReleased,
    /// The finalizer of the set is never added.
    NoFinalizer,
    /// The status is written whether it differs or not.
    StatusAlwaysWritten,
    /// The time of a condition moves with every write.
    TransitionsMove,
    /// The next generation is reported as observed.
    GenerationAhead,
    /// No events.
    Silent,
    /// Machines that are being deleted are not counted.
    DeletingUncounted,
    /// The etcd operator is not asked.
    EtcdIgnored,
    /// Nobody asks whether the other machines are ready.
    OthersIgnored,
    /// A deletion that somebody else asked for is not seen.
    DeletionUnseen,
    /// The index of a replacement is the next free number.
    NextIndex,
    /// The finalizers of machines are written over.
    FinalizersOverwritten,
    /// The newer machine of an index is deleted, not the older.
    NewestDeleted,
    /// A paused rollout goes on.
    PauseIgnored,
    /// A node is looked for under the name of its machine.
    NodeByName,
    /// A deletion is taken for done, and is not.
    DeletionForgotten,
    /// The status is taken for written, and is not.
    StatusForgotten,
    /// Deleting the set deletes its machines.
    SetTakesMachines,
    /// What differs is written into the machine in place.
    EditedInPlace,
    /// A failed replacement does not stop the rollout.
    FailureIgnored,
}

/// What is known of a bug.
struct About {
    mutant: Mutant,
    id: &'static str,
    report: &'static str,
    /// The scenario that meets it.
    scenario: &'static str,
}

const fn about(mutant: Mutant, id: &'static str, report: &'static str, scenario: &'static str) -> About {
    About {
        mutant,
        id,
        report,
        scenario,
    }
}

const ALL: [About; 32] = [
    about(
        Mutant::RandomNames,
        "random-names",
        "CPMS operator: rand.String(5) names (1.4b.2)",
        "requests",
    ),
    about(
        Mutant::SurgeMiscounted,
        "surge-miscounted",
        "CPMS operator: surge 2 under a stale cache (1.4b.1)",
        "stale",
    ),
    about(
        Mutant::UnreadyUncounted,
        "unready-uncounted",
        "k0smotron #1534: one machine becomes six",
        "rollout",
    ),
    about(
        Mutant::ReadinessIgnored,
        "readiness-ignored",
        "OCPBUGS-7989: deletes before the replacement is ready",
        "rollout",
    ),
    about(
        Mutant::NodeNotAwaited,
        "node-not-awaited",
        "OCPBUGS-7516: deletes before the node joined",
        "rollout",
    ),
    about(
        Mutant::StrangersIgnored,
        "strangers-ignored",
        "CPMS enhancement: unmanaged nodes stop the rollout (C3)",
        "strangers",
    ),
    about(
        Mutant::InactiveActs,
        "inactive-acts",
        "CPMS enhancement: an Inactive set acts on no machine (C4)",
        "inactive",
    ),
    about(
        Mutant::OnDeleteRolls,
        "on-delete-rolls",
        "CPMS enhancement: OnDelete never starts by itself (C7)",
        "on-delete",
    ),
    about(
        Mutant::FirstDomain,
        "first-domain",
        "OCP 4.14: OnDelete replaces in a wrong failure domain",
        "rollout",
    ),
    about(
        Mutant::DomainChurn,
        "domain-churn",
        "OCP 4.14: a new failure domain churns the mapping",
        "edits",
    ),
    about(
        Mutant::HookRemoved,
        "hook-removed",
        "etcd-operator #923: the deletion hook is what keeps quorum",
        "rollout",
    ),
    about(
        Mutant::FinalizerFirst,
        "finalizer-first",
        "CPMS defect B2: machines collected with their set (C6)",
        "set-deleted",
    ),
    about(
        Mutant::SelectedReleased,
        "selected-released",
        "CPMS defect B3: deselected machines keep their owner (C6)",
        "set-deleted",
    ),
    about(
        Mutant::NoFinalizer,
        "no-finalizer",
        "CAPI #5483: nothing holds the parent until its children are released",
        "set-deleted",
    ),
    about(
        Mutant::StatusAlwaysWritten,
        "status-always-written",
        "kubewarden adm-controller #645: ten million requests a day",
        "rollout",
    ),
    about(
        Mutant::TransitionsMove,
        "transitions-move",
        "CPMS defect B8: transition times move (G6)",
        "rollout",
    ),
    about(
        Mutant::GenerationAhead,
        "generation-ahead",
        "capi-operator #313: a generation is taken for synchronized",
        "rollout",
    ),
    about(
        Mutant::Silent,
        "silent",
        "CAPI #10125: an action that nothing explains",
        "rollout",
    ),
    about(
        Mutant::DeletingUncounted,
        "deleting-uncounted",
        "CPMS operator: no surge limit under OnDelete (1.4b.3)",
        "rollout",
    ),
    about(
        Mutant::EtcdIgnored,
        "etcd-ignored",
        "etcd-operator #923: machines deleted while a member is unhealthy",
        "etcd",
    ),
    about(
        Mutant::OthersIgnored,
        "others-ignored",
        "CAPI #3001: control plane machines replaced while others are unhealthy",
        "nodes",
    ),
    about(
        Mutant::DeletionUnseen,
        "deletion-unseen",
        "CAPI #13649: a machine that is going is waited for",
        "deletions",
    ),
    about(
        Mutant::NextIndex,
        "next-index",
        "CPMS enhancement: a replacement keeps its index (C9)",
        "rollout",
    ),
    about(
        Mutant::FinalizersOverwritten,
        "finalizers-overwritten",
        "outscale #543: 3,325 machines leaked",
        "rollout",
    ),
    about(
        Mutant::NewestDeleted,
        "newest-deleted",
        "CAPI #8877: the wrong member goes",
        "rollout",
    ),
    about(
        Mutant::PauseIgnored,
        "pause-ignored",
        "capi-operator #288: a pause that is not honoured",
        "pauses",
    ),
    about(
        Mutant::NodeByName,
        "node-by-name",
        "CAPI #4239: a node has another name than its machine",
        "machines",
    ),
    about(
        Mutant::DeletionForgotten,
        "deletion-forgotten",
        "CAPI #5483: a machine that nobody deletes any more",
        "rollout",
    ),
    about(
        Mutant::StatusForgotten,
        "status-forgotten",
        "OCP 4.16: a status that is not what is (UnavailableReplicas)",
        "rollout",
    ),
    about(
        Mutant::SetTakesMachines,
        "set-takes-machines",
        "k0smotron #1623: what the parent must not take with it",
        "set-deleted",
    ),
    about(
        Mutant::EditedInPlace,
        "edited-in-place",
        "CAPZ #3244: a field that somebody else owns is written over",
        "rollout",
    ),
    about(
        Mutant::FailureIgnored,
        "failure-ignored",
        "CAPI #3978: goes on after a replacement failed",
        "machines",
    ),
];

/// Whether a mutant was caught.
#[derive(Clone, Debug)]
pub struct Caught {
    /// The bug.
    pub mutant: &'static str,
    /// Where it is from.
    pub report: &'static str,
    /// The invariant that caught it; `None`: it survived.
    pub caught_by: Option<&'static str>,
    /// How many seeds it took.
    pub seeds: u64,
    /// The story of it.
    pub trace: Vec<String>,
}

impl Caught {
    /// As `-o json` prints it.
    pub fn to_value(&self) -> Value {
        json!({"mutant": self.mutant, "report": self.report, "caughtBy": self.caught_by, "seeds": self.seeds})
    }
}

/// Looks for every bug, in at most `limit` seeds each of the scenario that meets it.
///
/// # Errors
/// When what is built in cannot be used.
pub fn hunt(limit: u64, traces: bool) -> Result<Vec<Caught>> {
    let mut all = Vec::new();
    for about in &ALL {
        let mut caught = Caught {
            mutant: about.id,
            report: about.report,
            caught_by: None,
            seeds: limit,
            trace: Vec::new(),
        };
        for seed in 0..limit {
            let Some(schedule) = Schedule::of(seed, Some(about.scenario)) else {
                break;
            };
            let orders = Orders {
                mutant: Some(about.mutant),
                ..Orders::default()
            };
            if let Some(violation) = World::new(schedule.clone(), orders.clone())?.run().violation {
                caught.caught_by = Some(violation.invariant);
                caught.seeds = seed + 1;
                if traces {
                    caught.trace = shortest(&schedule, &orders, violation.invariant)?;
                }
                break;
            }
        }
        all.push(caught);
    }
    Ok(all)
}

/// The table of the documentation.
pub fn table(all: &[Caught]) -> String {
    let mut page = String::from(
        "# Seeded bugs\n\nGenerated by `capstan-sandbox mutants`: known bugs, each from a real report, that the controller \
         carries on purpose. The simulation has to find every one of them within 200 seeds of the scenario that meets it.\n\n\
         | bug | report | caught by | seeds |\n|---|---|---|---|\n",
    );
    for caught in all {
        let by = caught.caught_by.unwrap_or("nothing");
        page.push_str(&format!(
            "| `{}` | {} | {by} | {} |\n",
            caught.mutant, caught.report, caught.seeds
        ));
    }
    page
}

impl Mutant {
    pub(super) fn is_silent(self) -> bool {
        self == Self::Silent
    }

    /// What the caches show to the controller that carries the bug.
    #[expect(clippy::needless_pass_by_value, reason = "as it came, or another")]
    pub(super) fn view(self, view: Arc<View>) -> Arc<View> {
        let mut snapshot: Snapshot = (*view.snapshot).clone();
        let nodes: BTreeMap<String, Arc<Node>> = snapshot.nodes.clone().unwrap_or_default();
        if let Some(sets) = &mut snapshot.control_plane_machine_sets {
            sets.iter_mut().for_each(|set| self.set(Arc::make_mut(set)));
        }
        let deleting = snapshot
            .control_plane_machine_sets
            .iter()
            .flatten()
            .any(|set| set.metadata.is_deleting());
        if let Some(machines) = &mut snapshot.machines {
            let mut lied: Vec<Machine> = machines.iter().map(|machine| (**machine).clone()).collect();
            self.machines(&mut lied, deleting, &nodes);
            *machines = lied.into_iter().map(Arc::new).collect();
        }
        let claimed: Vec<String> = snapshot
            .machines
            .iter()
            .flatten()
            .filter_map(|machine| machine.node_name().map(str::to_owned))
            .collect();
        if let Some(nodes) = &mut snapshot.nodes {
            nodes.values_mut().for_each(|node| self.node(Arc::make_mut(node)));
            if self == Self::StrangersIgnored {
                nodes.retain(|name, _| claimed.contains(name));
            }
        }
        if let Some(operator) = snapshot.cluster_operators.as_mut().and_then(|all| all.get_mut("etcd")) {
            self.operator(Arc::make_mut(operator));
        }
        Arc::new(View {
            snapshot: Arc::new(snapshot),
            ..(*view).clone()
        })
    }

    /// What a live read tells the controller that carries the bug.
    pub(super) fn answer(self, answer: &mut kube::Result<Answer>, _question: &Question, cached: Option<&View>) {
        let Ok(answer) = answer else { return };
        match answer {
            Answer::Set(Some(set)) => {
                let mut lied = (**set).clone();
                self.set(&mut lied);
                *set = Arc::new(lied);
            }
            Answer::Machines(all) => {
                let nodes = cached.and_then(|view| view.snapshot.nodes.clone()).unwrap_or_default();
                let sets = cached
                    .and_then(|view| view.snapshot.control_plane_machine_sets.clone())
                    .unwrap_or_default();
                let deleting = sets.iter().any(|set| set.metadata.is_deleting());
                let mut machines: Vec<Machine> = all.iter().map(|machine| (**machine).clone()).collect();
                self.machines(&mut machines, deleting, &nodes);
                *all = machines.into_iter().map(Arc::new).collect();
            }
            Answer::Node(Some(node)) => {
                let mut lied = (**node).clone();
                self.node(&mut lied);
                *node = Arc::new(lied);
            }
            Answer::Operator(Some(operator)) => {
                let mut lied = (**operator).clone();
                self.operator(&mut lied);
                *operator = Arc::new(lied);
            }
            _ => {}
        }
    }

    fn set(self, set: &mut ControlPlaneMachineSet) {
        match self {
            Self::InactiveActs => set.spec.state = Some("Active".to_owned()),
            Self::OnDeleteRolls => {
                if let Some(strategy) = &mut set.spec.strategy {
                    strategy.type_ = Some("RollingUpdate".to_owned());
                }
            }
            Self::PauseIgnored => drop(set.metadata.annotations.remove(PAUSED_ROLLOUT)),
            Self::StatusAlwaysWritten => {
                if let Some(status) = &mut set.status {
                    status.replicas = None;
                }
            }
            Self::NoFinalizer if !set.metadata.is_deleting() => {
                let finalizer = capstan_core::api::machine_openshift_io::control_plane_machine_set::FINALIZER;
                if set.metadata.finalizers.is_empty() {
                    set.metadata.finalizers.push(finalizer.to_owned());
                }
            }
            Self::DomainChurn => {
                let Some(template) = &mut set.spec.template.machine else {
                    return;
                };
                let Ok(mut value) = serde_json::to_value(&*template) else {
                    return;
                };
                let domains = value.pointer_mut("/failureDomains/aws").and_then(Value::as_array_mut);
                // Four domains: the mapping begins with the last.
                if let Some(domains) = domains.filter(|domains| domains.len() > 3) {
                    domains.drain(..1);
                }
                if let Ok(lied) = serde_json::from_value(value) {
                    *template = lied;
                }
            }
            _ => {}
        }
    }

    fn node(self, node: &mut Node) {
        if matches!(self, Self::ReadinessIgnored | Self::OthersIgnored) {
            for condition in node.status.conditions.iter_mut().filter(|one| one.type_ == "Ready") {
                // Others: those that have been there for long.
                if self == Self::ReadinessIgnored || condition.status == "False" {
                    condition.status = "True".to_owned();
                    condition.last_transition_time = node.metadata.creation_timestamp;
                }
            }
        }
    }

    fn operator(self, operator: &mut ClusterOperator) {
        if self == Self::EtcdIgnored {
            operator
                .status
                .conditions
                .retain(|condition| condition.type_ != "Available");
            let good = json!({"type": "Available", "status": "True", "lastTransitionTime": "2026-01-01T00:00:00Z"});
            operator.status.conditions.extend(serde_json::from_value(good));
        }
    }

    fn machines(self, machines: &mut Vec<Machine>, deleting: bool, nodes: &BTreeMap<String, Arc<Node>>) {
        let ready = |machine: &Machine| {
            machine
                .node_name()
                .and_then(|name| nodes.get(name))
                .is_some_and(|node| node.is_ready())
        };
        match self {
            Self::UnreadyUncounted => machines.retain(ready),
            Self::SurgeMiscounted => {
                let hidden: Vec<String> = machines
                    .iter()
                    .filter(|machine| !ready(machine))
                    .filter_map(|machine| machine.metadata.annotations.get(REPLACES).cloned())
                    .collect();
                let specs: Vec<(String, Option<Value>)> = machines
                    .iter()
                    .filter(|machine| !ready(machine))
                    .filter_map(|machine| {
                        let replaced = machine.metadata.annotations.get(REPLACES)?.clone();
                        Some((replaced, machine.spec.provider_spec.value.clone()))
                    })
                    .collect();
                machines.retain(|machine| {
                    !machine
                        .metadata
                        .annotations
                        .get(REPLACES)
                        .is_some_and(|uid| hidden.contains(uid) && !ready(machine))
                });
                for machine in machines {
                    // Its index is taken care of, so the loop goes on to the next.
                    if let Some((_, value)) = specs.iter().find(|(uid, _)| uid == machine.metadata.uid()) {
                        machine.spec.provider_spec.value.clone_from(value);
                    }
                }
            }
            Self::NodeNotAwaited => {
                let serving: Vec<(String, String)> = machines
                    .iter()
                    .filter(|machine| ready(machine))
                    .filter_map(|machine| Some((machine.metadata.uid().to_owned(), machine.node_name()?.to_owned())))
                    .collect();
                for machine in machines.iter_mut().filter(|machine| machine.node_name().is_none()) {
                    let replaced = machine.metadata.annotations.get(REPLACES);
                    let node = serving.iter().find(|(uid, _)| Some(uid) == replaced);
                    if let Some((_, node)) = node {
                        let status = json!({"phase": "Running", "nodeRef": {"kind": "Node", "name": node}});
                        machine.status = serde_json::from_value(status).ok();
                    }
                }
            }
            Self::DeletingUncounted => machines.retain(|machine| !machine.metadata.is_deleting()),
            Self::DeletionUnseen => {
                for machine in machines {
                    machine.metadata.deletion_timestamp = None;
                }
            }
            Self::FinalizerFirst if deleting => {
                for machine in machines {
                    machine.metadata.owner_references.clear();
                }
            }
            Self::SelectedReleased if deleting => {
                let label = "machine.openshift.io/cluster-api-machine-type";
                machines.retain(|machine| machine.metadata.labels.contains_key(label));
            }
            Self::NodeByName => {
                for machine in machines {
                    let name = machine.metadata.name().to_owned();
                    if machine.node_name().is_some_and(|node| node != name) {
                        let status = json!({"phase": machine.phase(), "nodeRef": {"kind": "Node", "name": name}});
                        machine.status = serde_json::from_value(status).ok();
                    }
                }
            }
            Self::FailureIgnored => {
                for machine in machines.iter_mut().filter(|machine| machine.phase() == Some("Failed")) {
                    machine.spec.provider_spec.value = None;
                }
                machines.retain(|machine| machine.spec.provider_spec.value.is_some());
            }
            _ => {}
        }
    }

    /// What the controller that carries the bug writes. Returns whether it is written at all.
    pub(super) fn write(self, question: &mut Question, machines: &BTreeMap<String, Arc<Machine>>, number: u64) -> bool {
        match (self, question) {
            (Self::RandomNames | Self::UnreadyUncounted, Question::Create(what @ Object::Machine(_), machine)) => {
                let name = machine
                    .pointer("/metadata/name")
                    .and_then(Value::as_str)
                    .unwrap_or_default();
                let index = name.rsplit_once('-').map_or("0", |(_, index)| index);
                let name = format!("{PREFIX}-r{number:04}-{index}");
                if let Some(meta) = machine.get_mut("metadata").and_then(Value::as_object_mut) {
                    meta.insert("name".into(), name.clone().into());
                }
                *what = Object::Machine(name);
            }
            (Self::NextIndex, Question::Create(what @ Object::Machine(_), machine)) => {
                let name = format!("{PREFIX}-next-{}", machines.len());
                if let Some(meta) = machine.get_mut("metadata").and_then(Value::as_object_mut) {
                    meta.insert("name".into(), name.clone().into());
                }
                *what = Object::Machine(name);
            }
            (Self::FirstDomain, Question::Create(Object::Machine(_), machine)) => {
                let zone = machine.pointer_mut("/spec/providerSpec/value/placement/availabilityZone");
                if let Some(zone) = zone {
                    *zone = "us-east-1a".into();
                }
            }
            (Self::HookRemoved, Question::Patch(Object::Machine(_), false, patch)) => {
                if let Some(patch) = patch.as_object_mut() {
                    patch.insert("spec".into(), json!({"lifecycleHooks": null}));
                }
            }
            (Self::EditedInPlace, Question::Patch(Object::Machine(_), false, patch)) => {
                if let Some(patch) = patch.as_object_mut() {
                    patch.insert(
                        "spec".into(),
                        json!({"providerSpec": {"value": {"instanceType": "m7i.xlarge"}}}),
                    );
                }
            }
            (Self::FinalizersOverwritten, Question::Patch(Object::Machine(_), false, patch)) => {
                if let Some(meta) = patch.get_mut("metadata").and_then(Value::as_object_mut) {
                    meta.insert("finalizers".into(), json!([]));
                }
            }
            (Self::TransitionsMove, Question::Patch(Object::Set(_), true, patch)) => {
                let conditions = patch.pointer_mut("/status/conditions").and_then(Value::as_array_mut);
                for (at, condition) in conditions.into_iter().flatten().enumerate() {
                    if let Some(condition) = condition.as_object_mut() {
                        let time = format!("2026-01-01T{:02}:{:02}:{:02}Z", number / 60 % 24, number % 60, at % 60);
                        condition.insert("lastTransitionTime".into(), time.into());
                    }
                }
            }
            (Self::GenerationAhead, Question::Patch(Object::Set(_), true, patch)) => {
                if let Some(generation) = patch.pointer_mut("/status/observedGeneration") {
                    *generation = json!(generation.as_i64().unwrap_or(0) + 1);
                }
            }
            (Self::NewestDeleted, Question::Delete(name, uid, version)) => {
                let index = |name: &str| name.rsplit_once('-').map(|(_, index)| index.to_owned());
                let same = machines
                    .values()
                    .filter(|machine| index(machine.metadata.name()) == index(name));
                if let Some(newest) = same.max_by_key(|machine| machine.metadata.creation_timestamp) {
                    *uid = newest.metadata.uid.clone();
                    version.clone_from(&newest.metadata.resource_version);
                    *name = newest.metadata.name().to_owned();
                }
            }
            (Self::DeletionForgotten, Question::Delete(..))
            | (Self::StatusForgotten, Question::Patch(Object::Set(_), true, _)) => {
                return false;
            }
            (Self::SetTakesMachines, question @ Question::Patch(Object::Machine(_), false, _)) => {
                let Question::Patch(Object::Machine(name), _, patch) = &*question else {
                    return true;
                };
                let released = patch
                    .pointer("/metadata/ownerReferences")
                    .is_some_and(|list| list == &json!([]));
                if released {
                    *question = Question::Delete(name.clone(), None, None);
                }
            }
            _ => {}
        }
        true
    }
}
