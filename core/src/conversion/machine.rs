//! Converts Machines.

use serde_json::{Map, Value, json};

use super::carried::Carried;
use super::infrastructure::IDENTITY;
use super::metadata::{self, Entries, INSTANCE_STATE, REGION};
use super::parts::{self, Source, Work};
use super::status;
use super::tree::{self, Tree};
use super::{Api, Context, Converted, Issue};
use crate::api::cluster_x_k8s_io::label::CLUSTER as CLUSTER_NAME;
use crate::api::machine_openshift_io::machine as machine_api;
use crate::api::{cluster_x_k8s_io, infrastructure_cluster_x_k8s_io, machine_openshift_io};
use crate::model::{is_label_value, is_subdomain};

/// The finalizers that the controllers of Machines add. A converted Machine has them from the
/// start, so that its deletion cannot be missed.
const CLUSTER_API_FINALIZER: &str = cluster_x_k8s_io::machine::FINALIZER;
const MACHINE_API_FINALIZER: &str = "machine.machine.openshift.io";

/// The object as trees of its metadata and its spec. Everything else is reported.
pub(super) fn open(object: &Value, to: Api, work: &mut Work) -> (Tree, Tree) {
    let mut whole = Tree::new("", object.clone());
    for field in ["apiVersion", "kind", "status"] {
        whole.take(field);
    }
    let mut metadata = whole.branch("metadata");
    let spec = whole.branch("spec");
    if let Some(name) = metadata.get("name")
        && !name.as_str().is_some_and(is_subdomain)
    {
        let must = "must be a DNS subdomain: at most 253 lower-case letters, digits, hyphens and dots";
        work.issues
            .push(Issue::blocks("metadata.name", must, "use another name"));
    }
    for field in IDENTITY {
        metadata.take(field);
    }
    metadata::report_rest(&whole, to, &mut work.issues);
    if !matches!(spec.value, Value::Null | Value::Object(_)) {
        work.issues
            .push(Issue::blocks("spec", "must be an object", "correct the value"));
    }
    let annotations = metadata.get("annotations").and_then(Value::as_object);
    work.restored = Carried::take(&mut annotations.cloned().unwrap_or_default());
    (metadata, spec)
}

/// The name of an object.
pub(super) fn name(object: &Value) -> &str {
    tree::text(object, "metadata.name").unwrap_or_default()
}

/// The metadata of a converted object.
pub(super) fn metadata(name: &str, namespace: &str, labels: &Entries, annotations: &Entries) -> Map<String, Value> {
    let mut metadata = Map::new();
    if !name.is_empty() {
        metadata.insert(String::from("name"), name.into());
    }
    metadata.insert(String::from("namespace"), namespace.into());
    for (field, entries) in [("labels", labels), ("annotations", annotations)] {
        if !entries.is_empty() {
            metadata.insert(field.to_owned(), entries.clone().into());
        }
    }
    metadata
}

/// Adds the owner of a converted Machine, with the flags that the source has for its owner.
fn own(metadata: &mut Map<String, Value>, object: &Value, context: &Context<'_>) {
    let Some(parent) = context.parent else { return };
    let field = |path: &str| tree::text(parent, path).unwrap_or_default();
    let of_source = tree::get(object, "metadata.ownerReferences").and_then(|owners| owners.get(0));
    let flag = |name: &str| {
        of_source
            .and_then(|owner| owner.get(name))
            .and_then(Value::as_bool)
            .unwrap_or(true)
    };
    let owner = json!({
        "apiVersion": field("apiVersion"), "kind": field("kind"), "name": field("metadata.name"),
        "uid": field("metadata.uid"), "controller": flag("controller"),
        "blockOwnerDeletion": flag("blockOwnerDeletion"),
    });
    metadata.insert(String::from("ownerReferences"), json!([owner]));
}

/// Converts a Machine of the Machine API.
pub(super) fn to_cluster_api(object: &Value, context: &Context<'_>) -> Converted {
    let mut work = Work::default();
    let (metadata_tree, spec) = open(object, Api::ClusterApi, &mut work);
    let cluster = parts::cluster_name(object, &["metadata.labels"], context, &mut work.issues);
    let source = Source {
        metadata: metadata_tree.clone(),
        spec,
        template: false,
    };
    let control_plane = parts::is_control_plane(object, context);
    let mut parts = parts::to_cluster_api(source, &cluster, control_plane, context, &mut work);
    rest_of_metadata(metadata_tree, Api::ClusterApi, &mut work);
    if !cluster.is_empty() {
        parts.labels.insert(CLUSTER_NAME.to_owned(), cluster.into());
    }
    if context.parent.and_then(|parent| tree::text(parent, "kind")) == Some("MachineSet") {
        let set = context.parent.map(name).unwrap_or_default();
        parts
            .labels
            .insert(String::from("cluster.x-k8s.io/set-name"), set.into());
    }
    let plain = parts.annotations.clone();
    work.carried.write(&mut parts.annotations);
    metadata::check_size(&parts.annotations, "metadata.annotations", &mut work.issues);
    let status = status::to_cluster_api(object, context);
    let infrastructure_name = context
        .mirror
        .and_then(|mirror| tree::text(mirror, "spec.infrastructureRef.name"))
        .unwrap_or_else(|| name(object));
    let mut objects = Vec::new();
    if let Some((platform, spec)) = parts.infrastructure.take() {
        parts.spec.insert(
            String::from("infrastructureRef"),
            json!({"apiGroup": infrastructure_cluster_x_k8s_io::GROUP, "kind": platform.machine,
                "name": infrastructure_name}),
        );
        let mut machine = json!({
            "apiVersion": format!("{}/{}", infrastructure_cluster_x_k8s_io::GROUP, platform.version),
            "kind": platform.machine,
            "metadata": metadata(infrastructure_name, cluster_x_k8s_io::NAMESPACE, &parts.labels, &plain),
            "spec": spec,
        });
        status::infrastructure_to_cluster_api(platform, object, &mut machine);
        objects.push(machine);
    }
    bootstrap(&mut parts.spec);
    let mut meta = metadata(
        name(object),
        cluster_x_k8s_io::NAMESPACE,
        &parts.labels,
        &parts.annotations,
    );
    meta.insert(String::from("finalizers"), json!([CLUSTER_API_FINALIZER]));
    own(&mut meta, object, context);
    let mut machine = json!({
        "apiVersion": cluster_x_k8s_io::API_VERSION,
        "kind": cluster_x_k8s_io::machine::KIND,
        "metadata": meta,
        "spec": parts.spec,
    });
    status::put(&mut machine, status);
    objects.insert(0, machine);
    Converted::new(objects, work.issues)
}

/// Cluster API requires the field, even if nothing is known of the bootstrap data.
pub(super) fn bootstrap(spec: &mut Map<String, Value>) {
    spec.entry("bootstrap").or_insert_with(|| json!({}));
}

/// Reports metadata that is neither converted nor written by an API server.
pub(super) fn rest_of_metadata(mut metadata: Tree, to: Api, work: &mut Work) {
    metadata.take("labels");
    metadata.take("annotations");
    metadata::report_rest(&metadata, to, &mut work.issues);
}

/// Converts a Machine of Cluster API.
pub(super) fn to_machine_api(object: &Value, context: &Context<'_>) -> Converted {
    let mut work = Work::default();
    let (metadata_tree, spec) = open(object, Api::MachineApi, &mut work);
    let source = Source {
        metadata: metadata_tree.clone(),
        spec,
        template: false,
    };
    let control_plane = parts::is_control_plane(object, context);
    let mut parts = parts::to_machine_api(source, None, control_plane, context, &mut work);
    rest_of_metadata(metadata_tree, Api::MachineApi, &mut work);
    if let Some(infrastructure) = context.infrastructure_machine.found() {
        super::infrastructure::metadata_of(infrastructure, object, &mut work.issues);
        if let Some(state) = tree::text(infrastructure, "status.instanceState") {
            parts.annotations.own.insert(INSTANCE_STATE.to_owned(), state.into());
        }
        if let Some(region) = tree::text(infrastructure, "status.region").filter(|region| is_label_value(region)) {
            parts.labels.own.insert(REGION.to_owned(), region.into());
        }
    }
    for (label, value) in std::mem::take(&mut parts.computed) {
        parts.labels.own.insert(label, value);
    }
    work.carried.write(&mut parts.annotations.own);
    metadata::check_size(&parts.annotations.own, "metadata.annotations", &mut work.issues);
    node_metadata(&mut parts.spec, &parts.labels.node, &parts.annotations.node);
    let authority = context
        .mirror
        .and_then(|mirror| tree::text(mirror, "spec.authoritativeAPI"))
        .unwrap_or("ClusterAPI");
    parts.spec.insert(String::from("authoritativeAPI"), authority.into());
    let mut meta = metadata(
        name(object),
        machine_openshift_io::NAMESPACE,
        &parts.labels.own,
        &parts.annotations.own,
    );
    meta.insert(String::from("finalizers"), json!([MACHINE_API_FINALIZER]));
    own(&mut meta, object, context);
    let mut machine = json!({
        "apiVersion": machine_api::API_VERSION,
        "kind": machine_api::KIND,
        "metadata": meta,
        "spec": parts.spec,
    });
    status::put(&mut machine, status::to_machine_api(object, context));
    Converted::new(vec![machine], work.issues)
}

/// Writes the labels and annotations of the node.
pub(super) fn node_metadata(spec: &mut Map<String, Value>, labels: &Entries, annotations: &Entries) {
    for (field, entries) in [("labels", labels), ("annotations", annotations)] {
        if !entries.is_empty() {
            tree::put(spec, &format!("metadata.{field}"), entries.clone().into());
        }
    }
}
