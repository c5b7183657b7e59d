//! The objects that a run begins with, and what is served.

use std::sync::{Arc, LazyLock};

use anyhow::Result;
use capstan::controllers::WatchedObject;
use capstan_core::api::config_openshift_io::cluster_operator::{self, ClusterOperator};
use capstan_core::api::core_v1::node::{Node, NodeStatus};
use capstan_core::api::machine_openshift_io::control_plane_machine_set::ControlPlaneMachineSet;
use capstan_core::api::machine_openshift_io::machine::Machine;
use capstan_core::api::meta::ObjectMeta;
use serde::Deserialize as _;
use serde::de::DeserializeOwned;
use serde::de::value::MapDeserializer;
use serde_json::{Value, json};

use crate::api::{Kind, Object, Part, Target};
use crate::infrastructure::FINALIZER;

/// The namespace of the Machine API.
pub(super) const NAMESPACE: &str = "openshift-machine-api";
/// The first part of machine names.
pub(super) const PREFIX: &str = "ocp-x7k2p-master";
/// The zones that a set lists at first, in its order; a user may add the last.
pub(super) const ZONES: [&str; 4] = ["us-east-1a", "us-east-1b", "us-east-1c", "us-east-1d"];
/// The hook of the etcd operator.
pub(super) const HOOK: &str = "EtcdQuorumOperator";

/// Which kind of object, as far as a run cares.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Sort {
    /// Machines.
    Machine,
    /// The set.
    Set,
    /// Nodes.
    Node,
    /// ClusterOperators.
    Operator,
}

impl Sort {
    pub(super) const ALL: [Self; 4] = [Self::Machine, Self::Set, Self::Node, Self::Operator];

    pub(super) fn position(self) -> usize {
        match self {
            Self::Machine => 0,
            Self::Set => 1,
            Self::Node => 2,
            Self::Operator => 3,
        }
    }

    /// As it stands in a URL.
    pub(super) fn place(self) -> (&'static str, &'static str, &'static str) {
        match self {
            Self::Machine => ("machine.openshift.io", "machines", NAMESPACE),
            Self::Set => ("machine.openshift.io", "controlplanemachinesets", NAMESPACE),
            Self::Node => ("", "nodes", ""),
            Self::Operator => ("config.openshift.io", cluster_operator::PLURAL, ""),
        }
    }

    pub(super) fn target(self, name: &str, part: Part) -> Target {
        let (group, plural, namespace) = self.place();
        Target {
            group: group.to_owned(),
            plural: plural.to_owned(),
            namespace: namespace.to_owned(),
            name: name.to_owned(),
            part,
        }
    }
}

/// An object as programs read it.
#[derive(Clone, Debug)]
pub(super) enum Typed {
    Machine(Arc<Machine>),
    Set(Arc<ControlPlaneMachineSet>),
    Node(Arc<Node>),
    Operator(Arc<ClusterOperator>),
}

impl Typed {
    /// Reads an object, as the caches of the shell do. What cannot be read is nothing that this world makes.
    pub(super) fn read(sort: Sort, object: &Object) -> Option<Self> {
        Self::read_over(sort, object, None)
    }

    /// The same where the version before was read: the fields that both share are not read again.
    pub(super) fn read_over(sort: Sort, object: &Object, old: Option<(&Object, &Self)>) -> Option<Self> {
        let (before, old) = old.unzip();
        let new = New { object, before };
        let seldom = object.fields().any(|(name, _)| !USUAL.contains(&name));
        // Three kinds have the same fields; only their types differ.
        macro_rules! of {
            ($kind:ident, $type:ident) => {{
                let old = old.and_then(|old| match old {
                    Self::$kind(old) => Some(&**old),
                    _ => None,
                });
                Some(Self::$kind(Arc::new($type {
                    api_version: new.text("apiVersion"),
                    kind: new.text("kind"),
                    metadata: new.metadata(old.map(|old| &old.metadata))?,
                    spec: new.field("spec", old.map(|old| &old.spec))?,
                    status: new.field("status", old.map(|old| &old.status))?,
                    ..$type::default()
                })))
            }};
        }
        match sort {
            _ if seldom => Self::whole(sort, object),
            Sort::Machine => of!(Machine, Machine),
            Sort::Set => of!(Set, ControlPlaneMachineSet),
            Sort::Operator => of!(Operator, ClusterOperator),
            Sort::Node => {
                let old = old.and_then(|old| match old {
                    Self::Node(old) => Some(&**old),
                    _ => None,
                });
                new.node(old).map(Arc::new).map(Self::Node)
            }
        }
    }

    fn whole(sort: Sort, object: &Object) -> Option<Self> {
        match sort {
            Sort::Machine => object.read::<WatchedObject<_>>().ok()?.content.ok().map(Self::Machine),
            Sort::Set => object.read::<WatchedObject<_>>().ok()?.content.ok().map(Self::Set),
            Sort::Node => object.read::<WatchedObject<_>>().ok()?.content.ok().map(Self::Node),
            Sort::Operator => object.read::<WatchedObject<_>>().ok()?.content.ok().map(Self::Operator),
        }
    }
}

/// The fields of most objects.
const USUAL: [&str; 5] = ["apiVersion", "kind", "metadata", "spec", "status"];

/// A version that is read after the one before.
struct New<'a> {
    object: &'a Object,
    before: Option<&'a Object>,
}

impl New<'_> {
    fn text(&self, name: &str) -> String {
        let value = self.object.get(name).and_then(Value::as_str);
        value.unwrap_or_default().to_owned()
    }

    fn field<T: DeserializeOwned + Default + Clone>(&self, name: &str, old: Option<&T>) -> Option<T> {
        if let (Some(before), Some(old)) = (self.before, old)
            && self.object.has_same(before, name)
        {
            return Some(old.clone());
        }
        let Some(value) = self.object.get(name) else {
            return Some(T::default());
        };
        T::deserialize(value).ok()
    }

    /// A node, without what the caches of the shell drop of one: its version, and of its status all but conditions and
    /// addresses.
    fn node(&self, old: Option<&Node>) -> Option<Node> {
        let shares = |name: &str| self.before.is_some_and(|before| self.object.has_same(before, name));
        let status = match (old, self.object.get("status")) {
            (Some(old), _) if shares("status") => old.status.clone(),
            (_, Some(status)) => {
                let kept = ["conditions", "addresses"].into_iter();
                let kept = kept.filter_map(|field| Some((field, status.get(field)?)));
                let mut status = NodeStatus::deserialize(MapDeserializer::<_, serde_json::Error>::new(kept)).ok()?;
                for condition in &mut status.conditions {
                    condition.unknown_fields.remove("lastHeartbeatTime");
                }
                status
            }
            (_, None) => NodeStatus::default(),
        };
        let unknown_fields = match (old, self.object.get("spec")) {
            (Some(old), _) if shares("spec") => old.unknown_fields.clone(),
            (_, spec) => spec.map(|spec| ("spec".to_owned(), spec.clone())).into_iter().collect(),
        };
        let mut metadata = self.metadata(old.map(|old| &old.metadata))?;
        metadata.resource_version = None;
        metadata.unknown_fields.remove("managedFields");
        Some(Node {
            api_version: self.text("apiVersion"),
            kind: self.text("kind"),
            metadata,
            status,
            unknown_fields,
        })
    }

    /// Most versions differ in their number alone.
    fn metadata(&self, old: Option<&ObjectMeta>) -> Option<ObjectMeta> {
        const VERSION: &str = "resourceVersion";
        let now = self.object.get("metadata").and_then(Value::as_object);
        let then = self.before.and_then(|before| before.get("metadata")?.as_object());
        if let (Some(now), Some(then), Some(old)) = (now, then, old)
            && now.len() == then.len()
            && now
                .iter()
                .zip(then)
                .all(|(now, then)| now == then || (now.0 == VERSION && then.0 == VERSION))
        {
            let version = now.get(VERSION).and_then(Value::as_str).map(str::to_owned);
            return Some(ObjectMeta {
                resource_version: version,
                ..old.clone()
            });
        }
        // As the caches of the shell do: nobody reads who set which field.
        let mut metadata: ObjectMeta = self.field("metadata", None)?;
        metadata.unknown_fields.remove("managedFields");
        Some(metadata)
    }
}

static KINDS: LazyLock<Option<Arc<Vec<Kind>>>> = LazyLock::new(|| load(true).ok().map(Arc::new));
static OTHER_KINDS: LazyLock<Option<Arc<Vec<Kind>>>> = LazyLock::new(|| load(false).ok().map(Arc::new));

/// What is served, parsed once.
///
/// # Errors
/// When a definition that is built in cannot be used, which a test would have found.
pub(super) fn kinds() -> Result<Arc<Vec<Kind>>> {
    kinds_with(true)
}

/// The same with a definition of the set that keeps what is said of each machine, or with one that drops it.
///
/// # Errors
/// As [`kinds`].
pub(super) fn kinds_with(keeps_machines: bool) -> Result<Arc<Vec<Kind>>> {
    let known = if keeps_machines { &KINDS } else { &OTHER_KINDS };
    let known: Option<Arc<Vec<Kind>>> = Option::clone(known);
    known.map_or_else(|| load(keeps_machines).map(Arc::new), Ok)
}

fn load(keeps_machines: bool) -> Result<Vec<Kind>> {
    let mut kinds = Kind::built_ins()?;
    for text in [
        include_str!("../../../manifests/crds/machine.openshift.io_machines.yaml"),
        include_str!("../../../manifests/crds/machine.openshift.io_controlplanemachinesets.yaml"),
    ] {
        let mut definition: Value = serde_saphyr::from_str(text)?;
        if !keeps_machines {
            forget_machines(&mut definition);
        }
        kinds.push(Kind::of_definition(&definition)?);
    }
    let open = |field: &str| {
        (
            field.to_owned(),
            json!({"type": "object", "x-kubernetes-preserve-unknown-fields": true}),
        )
    };
    let properties: Value = [open("spec"), open("status")]
        .into_iter()
        .collect::<serde_json::Map<_, _>>()
        .into();
    kinds.push(Kind::of_definition(&json!({
        "metadata": {"name": "clusteroperators.config.openshift.io"},
        "spec": {"group": "config.openshift.io", "scope": "Cluster",
            "names": {"kind": "ClusterOperator", "plural": "clusteroperators"},
            "versions": [{"name": "v1", "storage": true, "subresources": {"status": {}},
                "schema": {"openAPIV3Schema": {"type": "object", "properties": properties}}}]},
    }))?);
    Ok(kinds)
}

/// As OpenShift's definition of the set stands, which knows nothing of what is said of each machine.
fn forget_machines(definition: &mut Value) {
    let versions = definition.pointer_mut("/spec/versions").and_then(Value::as_array_mut);
    for version in versions.into_iter().flatten() {
        let status = version.pointer_mut("/schema/openAPIV3Schema/properties/status/properties");
        if let Some(status) = status.and_then(Value::as_object_mut) {
            status.remove("machines");
        }
    }
}

pub(super) fn labels() -> Value {
    json!({
        "machine.openshift.io/cluster-api-cluster": "ocp-x7k2p",
        "machine.openshift.io/cluster-api-machine-role": "master",
        "machine.openshift.io/cluster-api-machine-type": "master",
    })
}

pub(super) fn provider_spec(instance_type: &str, zone: Option<&str>) -> Value {
    let mut placement = json!({"region": "us-east-1"});
    if let (Some(zone), Some(placement)) = (zone, placement.as_object_mut()) {
        placement.insert("availabilityZone".into(), zone.into());
    }
    json!({
        "apiVersion": "machine.openshift.io/v1beta1", "kind": "AWSMachineProviderConfig",
        "ami": {"id": "ami-0123"}, "instanceType": instance_type,
        "credentialsSecret": {"name": "aws-cloud-credentials"}, "userDataSecret": {"name": "master-user-data"},
        "placement": placement,
    })
}

pub(super) fn domains(count: usize) -> Value {
    let zones = ZONES
        .iter()
        .take(count)
        .map(|zone| json!({"placement": {"availabilityZone": zone}}));
    json!({"platform": "AWS", "aws": zones.collect::<Vec<_>>()})
}

pub(super) fn set(replicas: u32, strategy: &str, state: &str, instance_type: &str) -> Value {
    json!({
        "apiVersion": "machine.openshift.io/v1", "kind": "ControlPlaneMachineSet",
        "metadata": {"name": "cluster", "namespace": NAMESPACE},
        "spec": {
            "state": state, "replicas": replicas, "strategy": {"type": strategy},
            "selector": {"matchLabels": labels()},
            "template": {"machineType": "machines_v1beta1_machine_openshift_io", "machines_v1beta1_machine_openshift_io": {
                "failureDomains": domains(3), "metadata": {"labels": labels()},
                "spec": {"providerSpec": {"value": provider_spec(instance_type, None)}}}},
        },
    })
}

/// A machine that an installer made.
pub(super) fn machine(index: u32, instance_type: &str) -> Value {
    let zone = ZONES.iter().take(3).cycle().nth(index as usize).copied();
    json!({
        "apiVersion": "machine.openshift.io/v1beta1", "kind": "Machine",
        "metadata": {"name": format!("{PREFIX}-{index}"), "namespace": NAMESPACE, "labels": labels(), "finalizers": [FINALIZER]},
        "spec": {"providerSpec": {"value": provider_spec(instance_type, zone)}, "providerID": format!("aws:///i-{index}"),
            "lifecycleHooks": {"preDrain": [{"name": HOOK, "owner": "clusteroperator/etcd"}]}},
    })
}

/// A machine that somebody makes beside Capstan.
pub(super) fn new_machine(name: &str, instance_type: &str, zone: Option<&str>) -> Value {
    json!({
        "apiVersion": "machine.openshift.io/v1beta1", "kind": "Machine",
        "metadata": {"name": name, "namespace": NAMESPACE, "labels": labels()},
        "spec": {"providerSpec": {"value": provider_spec(instance_type, zone)}},
    })
}

pub(super) fn node(name: &str, provider_id: &str) -> Value {
    json!({
        "apiVersion": "v1", "kind": "Node",
        "metadata": {"name": name, "labels": {"node-role.kubernetes.io/master": "", "node-role.kubernetes.io/control-plane": ""}},
        "spec": {"providerID": provider_id},
    })
}

pub(super) fn operator(name: &str) -> Value {
    json!({"apiVersion": "config.openshift.io/v1", "kind": "ClusterOperator", "metadata": {"name": name}, "spec": {}})
}
