//! What a bug changes in the reads of the controller: in its caches, and in its live reads, which
//! must agree with each other.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use capstan::controllers::GENERATED;
use capstan::runtime::View;
use capstan_core::api::config_openshift_io::cluster_operator::{ClusterOperator, ClusterOperatorCondition, ETCD};
use capstan_core::api::core_v1::node::Node;
use capstan_core::api::machine_openshift_io::control_plane_machine_set::{ControlPlaneMachineSet, FINALIZER};
use capstan_core::api::machine_openshift_io::machine::Machine;
use capstan_core::api::objects::CachedObject;
use capstan_core::cpms::created_from::CREATED_FROM;
use capstan_core::cpms::indexes::REPLACES;
use capstan_core::cpms::selector::{MASTER, MEMBER_LABELS};
use capstan_core::cpms::spec::PAUSED_ROLLOUT;
use capstan_core::model::NamespacedName;
use serde::Serialize;
use serde_json::{Value, json};

use crate::api::Object;
use crate::simulation::engine::kinds::{KindId, Typed, Version};
use crate::simulation::engine::port::{Answer, Call};
use crate::simulation::machine_api::kinds::{MACHINE, NAMESPACE, NODE, OPERATOR, SET, SET_NAME};
use crate::simulation::machine_api::objects::SELECTED;

use super::catalogue::Mutant;

type Nodes = BTreeMap<String, Arc<Node>>;

/// What the caches of a controller show, by the kinds that bugs alter.
#[derive(Clone, Debug, Default)]
struct Shown {
    sets: Vec<Arc<ControlPlaneMachineSet>>,
    machines: Vec<Arc<Machine>>,
    nodes: Nodes,
    operators: Vec<Arc<ClusterOperator>>,
}

impl Shown {
    fn of(view: &View) -> Self {
        let nodes = all::<Node>(view, NODE).into_iter();
        Self {
            sets: all(view, SET),
            machines: all(view, MACHINE),
            nodes: nodes.map(|node| (node.metadata.name().to_owned(), node)).collect(),
            operators: all(view, OPERATOR),
        }
    }

    /// A view that shows this.
    fn in_view(self, view: &View) -> View {
        let mut view = view.clone();
        show(&mut view, SET, self.sets);
        show(&mut view, MACHINE, self.machines);
        show(&mut view, NODE, self.nodes.into_values());
        show(&mut view, OPERATOR, self.operators);
        view
    }

    fn is_set_deleting(&self) -> bool {
        self.sets.iter().any(|set| set.metadata.is_deleting())
    }

    /// The number of machines that are being deleted.
    fn lost(&self) -> usize {
        let machines = self.machines.iter();
        machines.filter(|machine| machine.metadata.is_deleting()).count()
    }

    /// The names of the nodes of machines.
    fn claimed(&self) -> BTreeSet<String> {
        let machines = self.machines.iter();
        machines
            .filter_map(|machine| machine.node_name().map(str::to_owned))
            .collect()
    }
}

fn all<T: CachedObject>(view: &View, kind: KindId) -> Vec<Arc<T>> {
    view.objects
        .all::<T>(kind.info())
        .into_iter()
        .flatten()
        .cloned()
        .collect()
}

fn show<T: CachedObject>(view: &mut View, kind: KindId, objects: impl IntoIterator<Item = Arc<T>>) {
    let named = objects.into_iter().filter_map(|object| {
        let meta = object.metadata()?;
        let key = NamespacedName::new(meta.namespace.as_deref().unwrap_or_default(), meta.name());
        Some((key, object))
    });
    view.objects.insert(kind.info(), named.collect());
}

impl Mutant {
    /// What the caches show to a ControlPlaneMachineSet controller with the bug.
    pub(crate) fn view(self, view: &View) -> View {
        let mut shown = Shown::of(view);
        let (lost, nodes) = (shown.lost(), shown.nodes.clone());
        shown.sets.iter_mut().for_each(|set| self.set(Arc::make_mut(set), lost));
        let deleting = shown.is_set_deleting();
        self.alter_machines(&mut shown.machines, deleting, &nodes);
        let claimed = shown.claimed();
        shown.nodes.values_mut().for_each(|node| self.node(Arc::make_mut(node)));
        if self == Self::NodesJoinForever {
            let unclaimed = shown.nodes.iter_mut().filter(|(name, _)| !claimed.contains(*name));
            unclaimed.for_each(|(_, node)| Arc::make_mut(node).metadata.creation_timestamp = None);
        }
        shown
            .nodes
            .retain(|name, _| !self.hides_unmanaged_nodes() || claimed.contains(name));
        let etcd = shown.operators.iter_mut();
        etcd.filter(|operator| operator.metadata.name() == ETCD)
            .for_each(|operator| self.operator(Arc::make_mut(operator)));
        shown.in_view(view)
    }

    /// What the caches show to a generator with the bug.
    pub(crate) fn view_of_generator(self, view: &View) -> View {
        let mut shown = Shown::of(view);
        match self {
            Self::ForeignTaken => {
                for set in &mut shown.sets {
                    let annotations = &mut Arc::make_mut(set).metadata.annotations;
                    annotations.entry(GENERATED.to_owned()).or_default();
                }
            }
            Self::GeneratedOnce => {
                for set in &mut shown.sets {
                    Arc::make_mut(set).metadata.annotations.remove(GENERATED);
                }
            }
            Self::DeletionOfSetUnseen if shown.sets.is_empty() => {
                let mut set = ControlPlaneMachineSet::default();
                set.metadata.name = Some(SET_NAME.to_owned());
                set.metadata.namespace = Some(NAMESPACE.to_owned());
                shown.sets.push(Arc::new(set));
            }
            _ => {}
        }
        shown.in_view(view)
    }

    /// Alters the answer to a call; `cached` is what the caches of the controller show.
    pub(crate) fn answer(self, answer: &mut kube::Result<Answer>, call: &Call, cached: Option<&View>) {
        let Ok(answer) = answer else { return };
        let cached = cached.map(Shown::of).unwrap_or_default();
        if let (Self::TemplateAsSent | Self::DomainMisread, Call::DryRun(..)) = (self, call) {
            *answer = Answer::Gone;
        }
        if self.trusts_caches(call) {
            from_caches(answer, call, &cached);
        }
        match answer {
            Answer::Object(Some(version)) => self.object(version, call, &cached),
            Answer::List(all) => self.list(all, call, &cached),
            Answer::Written(object) if self == Self::SelectorTrusted => {
                let status = Arc::make_mut(object).get_mut("status").and_then(Value::as_object_mut);
                let is_status = matches!(call, Call::Patch { key, status: true, .. } if key.kind == SET);
                if let (Some(status), true) = (status, is_status) {
                    status.entry("selector").or_insert_with(|| "pruned".into());
                }
            }
            Answer::Written(object) if self == Self::DefinitionTrusted => {
                let status = Arc::make_mut(object).get_mut("status").and_then(Value::as_object_mut);
                let is_status = matches!(call, Call::Patch { key, status: true, .. } if key.kind == SET);
                if let (Some(status), true) = (status, is_status) {
                    status.insert("machines".to_owned(), json!([]));
                }
            }
            _ => {}
        }
    }

    fn object(self, version: &mut Version, call: &Call, cached: &Shown) {
        let typed = &mut version.typed;
        match call.kind() {
            kind if kind == SET => altered(typed, |set| self.set(set, cached.lost())),
            kind if kind == NODE => altered(typed, |node| self.node(node)),
            kind if kind == OPERATOR => altered(typed, |operator| self.operator(operator)),
            _ => {}
        }
    }

    fn list(self, all: &mut Vec<Version>, call: &Call, cached: &Shown) {
        if call.kind() == MACHINE {
            let mut machines: Vec<Arc<Machine>> = all.iter().filter_map(|version| version.typed.shared()).collect();
            self.alter_machines(&mut machines, cached.is_set_deleting(), &cached.nodes);
            *all = machines.into_iter().filter_map(version).collect();
        } else if call.kind() == NODE {
            let mut shown = cached.clone();
            self.alter_machines(&mut shown.machines, false, &Nodes::new());
            let claimed = shown.claimed();
            all.iter_mut()
                .for_each(|version| altered(&mut version.typed, |node| self.node(node)));
            all.retain(|version| {
                let name = version.typed.get::<Node>().map_or("", |node| node.metadata.name());
                !self.hides_unmanaged_nodes() || claimed.contains(name)
            });
        }
    }

    /// Whether the controller sees only the nodes of the machines that it sees.
    fn hides_unmanaged_nodes(self) -> bool {
        matches!(
            self,
            Self::UnmanagedNodesIgnored | Self::ShortList | Self::GoingUncounted
        )
    }

    fn set(self, set: &mut ControlPlaneMachineSet, lost: usize) {
        match self {
            Self::InactiveActs => set.spec.state = Some("Active".to_owned()),
            Self::TwoLost if lost > 1 => set.spec.state = Some("Inactive".to_owned()),
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
            Self::NoFinalizer if !set.metadata.is_deleting() && set.metadata.finalizers.is_empty() => {
                set.metadata.finalizers.push(FINALIZER.to_owned());
            }
            // With four failure domains, the mapping begins with the last one.
            Self::DomainChurn => alter_template(set, "/failureDomains/aws", |domains| {
                if let Some(domains) = domains.as_array_mut().filter(|domains| domains.len() > 3) {
                    domains.drain(..1);
                }
            }),
            // The controller sees the first edit of the template, and no later one.
            Self::EditUnseen => alter_template(set, "/spec/providerSpec/value/instanceType", |type_| {
                if !matches!(type_.as_str(), Some("m6i.xlarge" | "m6i.2xlarge")) {
                    *type_ = "m6i.2xlarge".into();
                }
            }),
            _ => {}
        }
    }

    fn node(self, node: &mut Node) {
        if matches!(self, Self::ReadinessIgnored | Self::OthersIgnored) {
            for condition in node.status.conditions.iter_mut().filter(|one| one.type_ == "Ready") {
                // `OthersIgnored` concerns nodes that were ready before, and not those that join.
                if self == Self::ReadinessIgnored || condition.status == "False" {
                    condition.status = "True".to_owned();
                    condition.last_transition_time = node.metadata.creation_timestamp;
                }
            }
        }
    }

    fn operator(self, operator: &mut ClusterOperator) {
        if matches!(self, Self::EtcdIgnored | Self::OthersIgnored) {
            let conditions = &mut operator.status.conditions;
            conditions.retain(|condition| condition.type_ != "Available");
            conditions.extend(healthy_report());
        }
        if self == Self::NotStartedUnseen {
            let available = operator.condition("Available");
            let is_seen = available.is_none_or(|one| {
                let message = one.message.as_deref().unwrap_or_default();
                one.status != "True" || message.contains("unhealthy")
            });
            if !is_seen {
                operator.status.conditions = healthy_report();
            }
        }
    }

    fn alter_machines(self, machines: &mut Vec<Arc<Machine>>, deleting: bool, nodes: &Nodes) {
        let mut altered: Vec<Machine> = machines.iter().map(|machine| (**machine).clone()).collect();
        self.machines(&mut altered, deleting, nodes);
        *machines = altered.into_iter().map(Arc::new).collect();
    }

    fn machines(self, machines: &mut Vec<Machine>, deleting: bool, nodes: &Nodes) {
        match self {
            Self::ShortList => machines.truncate(1),
            Self::UnreadyUncounted => machines.retain(|machine| is_ready(machine, nodes)),
            Self::SurgeMiscounted => hide_surge(machines, nodes),
            Self::NodeNotAwaited => lend_nodes(machines, nodes),
            Self::HandmadeUncounted => machines.retain(|machine| {
                let made = machine.metadata.name().contains("-h0");
                !made
                    || machine
                        .metadata
                        .owner_references
                        .iter()
                        .any(|owner| !owner.uid.is_empty())
            }),
            Self::GoingUncounted => machines.retain(|machine| !machine.metadata.is_deleting()),
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
                machines.retain(|machine| machine.metadata.labels.contains_key(SELECTED));
            }
            Self::NodeByName => {
                for machine in machines {
                    let name = machine.metadata.name().to_owned();
                    if machine.node_name().is_some_and(|node| node != name) {
                        set_node(machine, &name);
                    }
                }
            }
            Self::TemplateAsSent => {
                for machine in machines {
                    machine.metadata.annotations.remove(CREATED_FROM);
                }
            }
            Self::DomainMisread => {
                for machine in machines {
                    machine.metadata.annotations.remove(CREATED_FROM);
                    misread_domain(machine);
                }
            }
            Self::WorkersTaken => {
                for machine in machines {
                    let labels = &mut machine.metadata.labels;
                    for key in MEMBER_LABELS {
                        labels.insert(key.to_owned(), MASTER.to_owned());
                    }
                }
            }
            Self::FailureIgnored => machines.retain(|machine| machine.phase() != Some("Failed")),
            _ => {}
        }
    }
}

/// What the etcd operator reports while all members are healthy.
fn healthy_report() -> Vec<ClusterOperatorCondition> {
    let message = "EtcdMembersAvailable: 3 members are available";
    let condition = json!({"type": "Available", "status": "True", "message": message,
        "lastTransitionTime": "2026-01-01T00:00:00Z"});
    serde_json::from_value(condition).into_iter().collect()
}

/// Shows a machine of the second failure domain in the first one.
fn misread_domain(machine: &mut Machine) {
    let value = machine.spec.provider_spec.value.as_mut();
    let zone = value.and_then(|value| value.pointer_mut("/placement/availabilityZone"));
    if let Some(zone) = zone.filter(|zone| **zone == "us-east-1b") {
        *zone = "us-east-1a".into();
    }
}

fn is_ready(machine: &Machine, nodes: &Nodes) -> bool {
    let node = machine.node_name().and_then(|name| nodes.get(name));
    node.is_some_and(|node| node.is_ready())
}

/// Alters a copy of an object.
fn altered<T: Clone + Send + Sync + 'static>(typed: &mut Typed, alter: impl FnOnce(&mut T)) {
    if let Some(mut object) = typed.shared::<T>() {
        alter(Arc::make_mut(&mut object));
        *typed = Typed::new(object);
    }
}

/// A version of an object that is not stored.
fn version<T: CachedObject + Serialize>(object: Arc<T>) -> Option<Version> {
    let stored = Object::of(serde_json::to_value(&*object).ok()?)?;
    Some(Version {
        typed: Typed::new(object),
        stored: Arc::new(stored),
    })
}

/// Replaces an answer by what the caches show.
fn from_caches(answer: &mut Answer, call: &Call, cached: &Shown) {
    match (answer, call) {
        (Answer::Object(set), Call::Get(key)) if key.kind == SET => {
            *set = cached.sets.first().cloned().and_then(version);
        }
        (Answer::Object(node), Call::Get(key)) if key.kind == NODE => {
            *node = cached.nodes.get(&key.name).cloned().and_then(version);
        }
        (Answer::List(all), Call::List { .. }) if call.kind() == MACHINE => {
            *all = cached.machines.iter().cloned().filter_map(version).collect();
        }
        (Answer::List(all), Call::List { .. }) if call.kind() == NODE => {
            let nodes = cached.nodes.values().filter(|node| node.is_control_plane());
            *all = nodes.cloned().filter_map(version).collect();
        }
        _ => {}
    }
}

/// Alters a part of the template.
fn alter_template(set: &mut ControlPlaneMachineSet, pointer: &str, alter: impl FnOnce(&mut Value)) {
    let Some(template) = &mut set.spec.template.machine else {
        return;
    };
    let Ok(mut value) = serde_json::to_value(&*template) else {
        return;
    };
    if let Some(part) = value.pointer_mut(pointer) {
        alter(part);
    }
    if let Ok(altered) = serde_json::from_value(value) {
        *template = altered;
    }
}

/// Hides replacements that are not ready, and makes what they replace look current, so that the
/// next index follows.
fn hide_surge(machines: &mut Vec<Machine>, nodes: &Nodes) {
    let hidden: Vec<(String, Option<Value>)> = machines
        .iter()
        .filter(|machine| !is_ready(machine, nodes))
        .filter_map(|machine| {
            let replaced = machine.metadata.annotations.get(REPLACES)?.clone();
            Some((replaced, machine.spec.provider_spec.value.clone()))
        })
        .collect();
    machines.retain(|machine| is_ready(machine, nodes) || !machine.metadata.annotations.contains_key(REPLACES));
    for machine in machines {
        if let Some((_, value)) = hidden.iter().find(|(uid, _)| uid == machine.metadata.uid()) {
            machine.spec.provider_spec.value.clone_from(value);
        }
    }
}

/// Takes the node of a machine for that of its replacement. The old machine has no node then: a
/// node counts for one machine only.
fn lend_nodes(machines: &mut [Machine], nodes: &Nodes) {
    let serving: Vec<(String, String)> = machines
        .iter()
        .filter(|machine| is_ready(machine, nodes))
        .filter_map(|machine| Some((machine.metadata.uid().to_owned(), machine.node_name()?.to_owned())))
        .collect();
    let mut taken = Vec::new();
    for machine in machines.iter_mut().filter(|machine| machine.node_name().is_none()) {
        let replaced = machine.metadata.annotations.get(REPLACES);
        if let Some((uid, node)) = serving.iter().find(|(uid, _)| Some(uid) == replaced) {
            machine.status = serde_json::from_value(json!({"phase": "Running"})).ok();
            set_node(machine, node);
            taken.push(uid);
        }
    }
    let is_taken = |machine: &&mut Machine| taken.iter().any(|uid| *uid == machine.metadata.uid());
    for machine in machines.iter_mut().filter(is_taken) {
        machine.status = serde_json::from_value(json!({"phase": machine.phase()})).ok();
    }
}

fn set_node(machine: &mut Machine, node: &str) {
    let status = json!({"phase": machine.phase(), "nodeRef": {"kind": "Node", "name": node}});
    machine.status = serde_json::from_value(status).ok();
}
