//! Converts labels, annotations and lifecycle hooks.
//!
//! The Machine API keeps the labels of a machine apart from those of its node, and has labels for
//! the role and the type. Cluster API has one set of labels, and `node-role.kubernetes.io/<role>`.
//! What is lost in between is carried along (see `carried`).
//!
//! Must never: depend on the order of a map, or choose between two roles at random.

use serde_json::{Map, Value, json};

use super::carried::{CARRIED, Carried};
use super::shape::NO_TEXT;
use super::tree::Tree;
use super::{Api, Issue};
use crate::api::cluster_x_k8s_io::annotation::{self, PAUSED};
use crate::api::cluster_x_k8s_io::label::{CLUSTER as CLUSTER_NAME, CONTROL_PLANE};
use crate::api::machine_openshift_io::authority::MIRRORED;
use crate::api::machine_openshift_io::label::{CLUSTER, ROLE, TYPE};
use crate::api::machine_openshift_io::machine;
use crate::model::{FieldPath, is_label_key, is_label_name, is_label_value};

/// The prefix of the label with the role of a node.
pub(super) const NODE_ROLE: &str = "node-role.kubernetes.io/";
/// The domain of Cluster API. Keys of this domain describe objects of Cluster API only.
const CLUSTER_API_DOMAIN: &str = "cluster.x-k8s.io/";
/// The domain of labels and annotations of nodes, which Cluster API does not read on a Machine.
const NODE_DOMAIN: &str = "node.cluster.x-k8s.io/";
const SET_NAME: &str = "cluster.x-k8s.io/set-name";
const LAST_APPLIED: &str = "kubectl.kubernetes.io/last-applied-configuration";
const DELETE_MACHINE: (&str, &str) = (machine::DELETE_MACHINE, annotation::DELETE_MACHINE);
/// Labels and annotations that controllers of the Machine API compute for a Machine.
const COMPUTED: &[&str] = &[INSTANCE_TYPE, REGION, ZONE, INSTANCE_STATE];
/// The label of an infrastructure template with the name of its MachineSet.
pub(super) const TEMPLATE_SET: &str = "machine.openshift.io/cluster-api-machineset";
/// The label with the instance type.
pub(super) const INSTANCE_TYPE: &str = "machine.openshift.io/instance-type";
/// The label with the region.
pub(super) const REGION: &str = "machine.openshift.io/region";
/// The label with the zone.
pub(super) const ZONE: &str = "machine.openshift.io/zone";
/// The annotation with the state of the instance.
pub(super) const INSTANCE_STATE: &str = "machine.openshift.io/instance-state";
/// Keys that tools and controllers write for their own purposes on one object.
const MECHANISM: &[&str] = &[
    PAUSED,
    CARRIED,
    MIRRORED,
    LAST_APPLIED,
    "cluster.x-k8s.io/conversion-data",
];
/// Each list of lifecycle hooks, and the prefix of its annotations.
const HOOKS: [(&str, &str); 2] = [
    ("preDrain", "pre-drain.delete.hook.machine.cluster.x-k8s.io/"),
    ("preTerminate", "pre-terminate.delete.hook.machine.cluster.x-k8s.io/"),
];
/// The largest size of all annotations of an object that an API server accepts.
const MOST_ANNOTATIONS: usize = 256 * 1024;

/// Labels or annotations.
pub(super) type Entries = Map<String, Value>;

/// Which of the two maps of an object.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Sort {
    /// `labels`.
    Labels,
    /// `annotations`.
    Annotations,
}

impl Sort {
    /// The name of the field, which also names the section of the carried annotation.
    pub(super) fn field(self) -> &'static str {
        match self {
            Self::Labels => "labels",
            Self::Annotations => "annotations",
        }
    }
}

/// The labels, or the annotations, of a machine of the Machine API and of its node.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Pair {
    /// Those of the machine.
    pub(super) own: Entries,
    /// Those of the node, in `spec.metadata`.
    pub(super) node: Entries,
}

impl Pair {
    fn value(&self) -> Value {
        json!({"machine": self.own, "node": self.node})
    }

    fn read(value: &Value) -> Self {
        let part = |field: &str| value.get(field).and_then(Value::as_object).cloned().unwrap_or_default();
        Self {
            own: part("machine"),
            node: part("node"),
        }
    }
}

/// Takes `labels` or `annotations` out of a tree. An entry with a syntax that an API server refuses
/// is an issue.
pub(super) fn take(tree: &mut Tree, sort: Sort, issues: &mut Vec<Issue>) -> Entries {
    let path = tree.path(sort.field());
    let block = |path: String, reason: &str| Issue::blocks(path, reason, "correct the entry, or remove it");
    let entries = match tree.take(sort.field()) {
        None => return Entries::new(),
        Some(Value::Object(entries)) => entries,
        Some(_) => {
            issues.push(block(path, "must be a map of strings"));
            return Entries::new();
        }
    };
    for (key, value) in &entries {
        let at = || FieldPath::new(path.as_str()).key(key).as_str().to_owned();
        match value.as_str() {
            _ if !is_label_key(key) => issues.push(block(
                at(),
                "must be a qualified name: an optional DNS prefix and a name of at most 63 characters",
            )),
            None => issues.push(block(at(), "must be a string")),
            Some(text) if sort == Sort::Labels && !is_label_value(text) => issues.push(block(
                at(),
                "must be a label value: at most 63 letters, digits, hyphens, underscores and dots",
            )),
            Some(_) => {}
        }
    }
    entries
}

/// Converts the labels or annotations of the Machine API. `restored` is what the source carries,
/// and `carried` what the target will carry.
pub(super) fn to_cluster_api(
    sort: Sort,
    section: &str,
    pair: Pair,
    restored: &Carried,
    carried: &mut Carried,
) -> Entries {
    let pair = Pair {
        own: without(sort, pair.own, Api::MachineApi),
        node: pair.node,
    };
    let converted = match restored.original(section, &pair.value()) {
        Some(Value::Object(original)) => original.clone(),
        _ => forward(sort, &pair),
    };
    let back = backward(sort, &converted, None);
    let is_set = section.starts_with("set");
    if back.own != pair.own || (!is_set && back.node != pair.node) {
        carried.add(section, pair.value(), &Value::Object(hashed(sort, &converted)));
    }
    converted
}

/// What a conversion of labels to the Machine API has to respect.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Hints<'a> {
    /// The preferred role among several.
    pub(super) role: Option<&'a str>,
    /// Labels that a selector uses, so that they stay labels of the machine.
    pub(super) selected: Option<&'a Entries>,
    /// The name of the cluster, if only a label can hold it.
    pub(super) cluster: Option<&'a str>,
    /// Whether controllers of the Machine API compute labels and annotations of the object.
    pub(super) computed: bool,
}

impl Hints<'_> {
    /// Adds the label with the name of the cluster.
    fn name_cluster(&self, sort: Sort, own: &mut Entries) {
        if let Some(name) = self.cluster.filter(|_| sort == Sort::Labels) {
            own.entry(CLUSTER).or_insert_with(|| name.into());
        }
    }
}

/// Converts the labels or annotations of Cluster API.
pub(super) fn to_machine_api(
    sort: Sort,
    section: &str,
    entries: Entries,
    hints: Hints<'_>,
    restored: &Carried,
    carried: &mut Carried,
) -> Pair {
    let selected: Entries = hints.selected.cloned().unwrap_or_default();
    let mut kept = entries.clone();
    kept.retain(|key, value| key.contains(CLUSTER_API_DOMAIN) && selected.get(key) == Some(value));
    let entries = without(sort, entries, Api::ClusterApi);
    let converted = match restored.original(section, &Value::Object(hashed(sort, &entries))) {
        Some(original) => Pair::read(original),
        None => {
            let mut pair = backward(sort, &entries, hints.role);
            pair.own.extend(kept);
            if hints.computed {
                remove_computed(&mut pair.own);
            }
            hints.name_cluster(sort, &mut pair.own);
            pair
        }
    };
    if forward(sort, &converted) != entries {
        carried.add(section, Value::Object(entries), &converted.value());
    }
    converted
}

/// Converts the labels or annotations of a MachineSet of Cluster API itself, which has no node.
pub(super) fn set_to_machine_api(
    sort: Sort,
    section: &str,
    entries: Entries,
    hints: Hints<'_>,
    restored: &Carried,
    carried: &mut Carried,
) -> Entries {
    let entries = without(sort, entries, Api::ClusterApi);
    let converted = match restored.original(section, &Value::Object(hashed(sort, &entries))) {
        Some(original) => Pair::read(original),
        None => {
            let mut own = backward(sort, &entries, hints.role).own;
            hints.name_cluster(sort, &mut own);
            Pair {
                own,
                node: Entries::new(),
            }
        }
    };
    if forward(sort, &converted) != entries {
        carried.add(section, Value::Object(entries), &converted.value());
    }
    converted.own
}

/// The entries without those that are not converted.
fn without(sort: Sort, mut entries: Entries, of: Api) -> Entries {
    entries.retain(|key, _| {
        let mechanism = sort == Sort::Annotations && MECHANISM.contains(&key.as_str());
        let assigned = of == Api::ClusterApi && matches!(key.as_str(), CLUSTER_NAME | SET_NAME);
        let hook = of == Api::ClusterApi && HOOKS.iter().any(|(_, prefix)| key.starts_with(prefix));
        !mechanism && !assigned && !hook
    });
    entries
}

/// Removes the labels and annotations that controllers of the Machine API compute for a Machine.
/// They compute none for a node, a template, a MachineSet or a MachineHealthCheck.
pub(super) fn remove_computed(entries: &mut Entries) {
    entries.retain(|key, _| !COMPUTED.contains(&key.as_str()));
}

/// The entries of an object of Cluster API that the hash covers.
fn hashed(sort: Sort, entries: &Entries) -> Entries {
    without(sort, entries.clone(), Api::ClusterApi)
}

fn forward(sort: Sort, pair: &Pair) -> Entries {
    let mut entries = Entries::new();
    let mut roles = Vec::new();
    for (key, value) in &pair.own {
        match (sort, key.as_str()) {
            (Sort::Labels, ROLE | TYPE) => roles.extend(value.as_str().filter(|role| !role.is_empty())),
            (Sort::Annotations, key) if key == DELETE_MACHINE.0 => {
                entries.insert(DELETE_MACHINE.1.to_owned(), value.clone());
            }
            (_, key) => {
                entries.insert(key.to_owned(), value.clone());
            }
        }
    }
    entries.extend(pair.node.iter().map(|(key, value)| (key.clone(), value.clone())));
    for role in roles {
        entries.entry(format!("{NODE_ROLE}{role}")).or_insert_with(|| "".into());
    }
    entries
}

fn backward(sort: Sort, entries: &Entries, role: Option<&str>) -> Pair {
    let mut pair = Pair::default();
    let mut roles = Vec::new();
    for (key, value) in entries {
        if sort == Sort::Annotations && key == DELETE_MACHINE.1 {
            pair.own.insert(DELETE_MACHINE.0.to_owned(), value.clone());
            continue;
        }
        if key.contains(CLUSTER_API_DOMAIN) {
            continue;
        }
        pair.node.insert(key.clone(), value.clone());
        match key.strip_prefix(NODE_ROLE).filter(|_| sort == Sort::Labels) {
            Some(role) => roles.push(role),
            None => {
                pair.own.insert(key.clone(), value.clone());
            }
        }
    }
    if let Some(role) = choose(&roles, role) {
        for label in [ROLE, TYPE] {
            pair.own.entry(label).or_insert_with(|| role.into());
        }
    }
    pair
}

/// The role among several: the preferred one, else a control plane role, else worker, else the
/// first by name.
fn choose<'r>(roles: &[&'r str], preferred: Option<&str>) -> Option<&'r str> {
    let order = [preferred, Some("master"), Some("control-plane"), Some("worker")];
    let known = order
        .into_iter()
        .flatten()
        .find_map(|wanted| roles.iter().find(|role| **role == wanted));
    known.or_else(|| roles.iter().min()).copied()
}

/// Reports roles whose label Cluster API would refuse.
pub(super) fn check_roles(own: &Entries, path: &str, issues: &mut Vec<Issue>) {
    for label in [ROLE, TYPE] {
        let role = own.get(label).and_then(Value::as_str).unwrap_or_default();
        if !role.is_empty() && !is_label_name(role) {
            issues.push(Issue::blocks(
                FieldPath::new(path).key(label).as_str(),
                format!("Cluster API stores the role in the name of the label {NODE_ROLE}{role}, which is invalid"),
                "use a role of at most 63 letters, digits, hyphens, underscores and dots",
            ));
        }
    }
}

/// Reports labels and annotations of a node that Cluster API would read on the Machine, because it
/// has one set of them for both. `path` is that of the metadata of the node.
pub(super) fn check_node(sort: Sort, node: &Entries, path: &str, issues: &mut Vec<Issue>) {
    let is_hook = |key: &str| HOOKS.iter().any(|(_, prefix)| key.starts_with(prefix));
    for key in node.keys() {
        let of_cluster_api = key.contains(CLUSTER_API_DOMAIN) && !key.starts_with(NODE_DOMAIN);
        let mechanism = sort == Sort::Annotations && MECHANISM.contains(&key.as_str());
        // A hook has an issue of its own.
        if (of_cluster_api || mechanism) && !is_hook(key) {
            issues.push(Issue::blocks(
                FieldPath::new(path).child(sort.field()).key(key).as_str(),
                "it describes the node here, and would describe the Machine in Cluster API, whose controllers read it",
                "remove it, or use a key of your own",
            ));
        }
    }
}

/// Reports a label that would add a machine with another role to the control plane in Cluster API.
pub(super) fn check_control_plane(own: &Entries, path: &str, issues: &mut Vec<Issue>) {
    let role = |label: &str| own.get(label).and_then(Value::as_str).filter(|role| !role.is_empty());
    let mut roles = [ROLE, TYPE].into_iter().filter_map(role).peekable();
    if own.contains_key(CONTROL_PLANE)
        && roles.peek().is_some()
        && !roles.any(|role| matches!(role, "master" | "control-plane"))
    {
        issues.push(Issue::blocks(
            FieldPath::new(path).key(CONTROL_PLANE).as_str(),
            "it would add the machine to the control plane in Cluster API, and the role of the machine is another one",
            "remove the label, or correct the role",
        ));
    }
}

/// Reports annotations of the Machine API that would be lifecycle hooks in Cluster API.
pub(super) fn check_hooks(annotations: &Pair, path: &str, issues: &mut Vec<Issue>) {
    for key in annotations.own.keys().chain(annotations.node.keys()) {
        if HOOKS.iter().any(|(_, prefix)| key.starts_with(prefix)) {
            issues.push(Issue::blocks(
                FieldPath::new(path).key(key).as_str(),
                "the annotation would be a lifecycle hook in Cluster API, and the Machine API does not treat it as a hook",
                "remove it, or set spec.lifecycleHooks",
            ));
        }
    }
}

/// Reports annotations that are too large together.
pub(super) fn check_size(annotations: &Entries, path: &str, issues: &mut Vec<Issue>) {
    let size = annotations
        .iter()
        .map(|(key, value)| key.len() + value.as_str().unwrap_or_default().len());
    if size.sum::<usize>() > MOST_ANNOTATIONS {
        issues.push(Issue::blocks(
            path,
            "the annotations of the converted object would be larger than the 256 KiB that an API server accepts",
            "remove annotations",
        ));
    }
}

/// The most characters of the name and of the owner of a hook in the Machine API.
const LONGEST_HOOK: usize = 256;
const LONGEST_OWNER: usize = 512;
const HOOK: &str = "the Machine API requires a name of 3 to 256 characters and an owner of 3 to 512 characters";

fn is_hook_text(text: &str, most: usize) -> bool {
    (3..=most).contains(&text.chars().count())
}

/// Takes the lifecycle hooks of the Machine API and adds their annotations. `spec` is the spec of
/// the Machine.
pub(super) fn hooks_to_cluster_api(spec: &mut Tree, annotations: &mut Entries, issues: &mut Vec<Issue>) {
    let mut lists = spec.branch("lifecycleHooks");
    for (list, prefix) in HOOKS {
        let path = lists.path(list);
        let hooks = lists.take_items(list).unwrap_or_else(|_| {
            issues.push(Issue::blocks(path, "must be a list", "correct the value"));
            Vec::new()
        });
        for mut hook in hooks {
            let name = hook.take_text("name").unwrap_or_default();
            let owner = hook.take_text("owner").unwrap_or_default();
            report_rest(&hook, Api::ClusterApi, issues);
            let at = hook.path("name");
            if !is_label_name(&name) {
                issues.push(Issue::blocks(
                    at,
                    "Cluster API stores a hook as an annotation, whose name has at most 63 characters and no slash",
                    "let the owner of the hook use a shorter name without a slash",
                ));
            } else if !is_hook_text(&name, LONGEST_HOOK) {
                issues.push(Issue::blocks(at, HOOK, "let the owner of the hook correct it"));
            } else if !is_hook_text(&owner, LONGEST_OWNER) {
                let at = hook.path("owner");
                issues.push(Issue::blocks(at, HOOK, "let the owner of the hook correct it"));
            } else if annotations.insert(format!("{prefix}{name}"), owner.into()).is_some() {
                issues.push(Issue::blocks(
                    at,
                    "Cluster API stores a hook as an annotation, and this one exists already",
                    "remove the duplicate",
                ));
            }
        }
    }
    report_rest(&lists, Api::ClusterApi, issues);
}

/// Takes the annotations of hooks and adds the lifecycle hooks of the Machine API, in the order of
/// their names.
pub(super) fn hooks_to_machine_api(
    annotations: &mut Entries,
    path: &str,
    spec: &mut Map<String, Value>,
    issues: &mut Vec<Issue>,
) {
    for (list, prefix) in HOOKS {
        let keys: Vec<String> = annotations
            .keys()
            .filter(|key| key.starts_with(prefix))
            .cloned()
            .collect();
        let mut hooks = Vec::new();
        for key in keys {
            let owner = annotations.remove(&key).unwrap_or_default();
            let name = key.strip_prefix(prefix).unwrap_or_default();
            let owner = owner.as_str().unwrap_or_default();
            if !is_hook_text(name, LONGEST_HOOK) || !is_hook_text(owner, LONGEST_OWNER) {
                let at = FieldPath::new(path).key(&key);
                issues.push(Issue::blocks(at.as_str(), HOOK, "let the owner of the hook correct it"));
            }
            hooks.push(json!({"name": name, "owner": owner}));
        }
        if !hooks.is_empty() {
            super::tree::put(spec, &format!("lifecycleHooks.{list}"), hooks.into());
        }
    }
}

/// Fields whose parts are converted one by one, so that a part without a rule is reported itself.
const PARTLY_CONVERTED: &[&str] = &["bootstrap", "deletion", "providerSpec", "triggerIf"];

/// Reports everything that is left of a tree.
pub(super) fn report_rest(tree: &Tree, to: Api, issues: &mut Vec<Issue>) {
    let rest = match &tree.value {
        Value::Null => return,
        Value::Object(fields) => fields,
        _ => {
            issues.push(Issue::blocks(tree.path(""), "must be an object", "correct the value"));
            return;
        }
    };
    for (field, value) in rest.iter().filter(|(_, value)| !value.is_null()) {
        if PARTLY_CONVERTED.contains(&field.as_str()) {
            report_rest(&tree.rest_of(field, value.clone()), to, issues);
            continue;
        }
        let path = tree.path(field);
        issues.push(if tree.must_be_text(&path) {
            let fault = NO_TEXT.of(value);
            Issue::blocks(path, fault.reason, fault.way_out)
        } else {
            Issue::blocks(
                path,
                super::pass::unknown(to),
                "correct the spelling, or remove the field",
            )
        });
    }
}

/// The items of a list as trees. Another value is an issue.
pub(super) fn items(tree: &mut Tree, path: &str, issues: &mut Vec<Issue>) -> Vec<Tree> {
    tree.take_items(path).unwrap_or_else(|_| {
        issues.push(Issue::blocks(tree.path(path), "must be a list", "correct the value"));
        Vec::new()
    })
}

/// Removes the labels or annotations that are not converted, for a comparison.
pub(super) fn normalise(sort: Sort, entries: &mut Entries, of: Api) {
    entries.retain(|key, _| {
        let written = of == Api::ClusterApi && matches!(key.as_str(), CLUSTER_NAME | SET_NAME);
        !written && (sort == Sort::Labels || !MECHANISM.contains(&key.as_str()))
    });
}

/// Whether every machine keeps a label in a conversion, whatever its other labels are.
pub(super) fn is_kept(key: &str) -> bool {
    let is_dropped = key.contains(CLUSTER_API_DOMAIN) || COMPUTED.contains(&key) || MECHANISM.contains(&key);
    !is_dropped && !key.starts_with(NODE_ROLE)
}

/// Whether a label or annotation belongs to a controller or a tool, and not to a user.
pub(super) fn is_mechanism(key: &str) -> bool {
    key.contains(CLUSTER_API_DOMAIN) || key == TEMPLATE_SET || MECHANISM.contains(&key)
}
