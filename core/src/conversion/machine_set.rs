//! Converts MachineSets.

use serde_json::{Map, Value, json};

use super::machine::{self, metadata as new_metadata, name, node_metadata};
use super::metadata::{self, Entries, Hints};
use super::own_metadata;
use super::parts::{self, Source, Work};
use super::platforms::Platform;
use super::selector::{Machines, Selector};
use super::shape::integer;
use super::status;
use super::tree::{self, Tree};
use super::{Api, Context, Converted, Issue};
use crate::api::cluster_x_k8s_io::label::CLUSTER as CLUSTER_NAME;
use crate::api::machine_openshift_io::{machine as machine_kind, machine_set as machine_api};
use crate::api::{cluster_x_k8s_io, infrastructure_cluster_x_k8s_io, machine_openshift_io};
use crate::model::hex_hash;

/// Digits of the hash in the name of an infrastructure template (decision 14).
const DIGITS: usize = 8;
/// The deletion policies of both APIs.
const POLICIES: [&str; 3] = ["Random", "Newest", "Oldest"];

/// Takes an integer of at least 0.
fn count(spec: &mut Tree, field: &str, work: &mut Work) -> Option<i64> {
    let value = spec.take(field)?;
    match integer(&value, 0, i64::from(i32::MAX)) {
        Ok(number) => Some(number),
        Err(fault) => {
            let (path, fault) = (spec.path(field), fault.of(&value));
            work.issues.push(Issue::blocks(path, fault.reason, fault.way_out));
            None
        }
    }
}

/// Takes a deletion policy.
fn policy(spec: &mut Tree, field: &str, work: &mut Work) -> Option<String> {
    let path = spec.path(field);
    let value = spec.take(field)?;
    match value.as_str() {
        Some(text) if text.is_empty() || POLICIES.contains(&text) => Some(text.to_owned()),
        _ => {
            let way_out = format!("use {}", POLICIES.join(", "));
            work.issues.push(Issue::blocks(path, "must be a known policy", way_out));
            None
        }
    }
}

/// The template of a set, and the issues of the rest of the field.
fn template(spec: &mut Tree, to: Api, work: &mut Work) -> Source {
    let mut template = spec.branch("template");
    let source = Source {
        metadata: template.branch("metadata"),
        spec: template.branch("spec"),
        template: true,
    };
    metadata::report_rest(&template, to, &mut work.issues);
    source
}

/// Reports metadata of the template that is not converted.
fn template_metadata(mut metadata: Tree, to: Api, work: &mut Work) {
    let block = |field: &str, reason: &str, metadata: &mut Tree, issues: &mut Vec<Issue>| {
        if let Some(value) = metadata.take(field)
            && !super::pass::is_empty(&value)
        {
            issues.push(Issue::blocks(
                metadata.path(field),
                reason,
                "remove it from the template",
            ));
        }
    };
    for (field, reason) in [
        ("name", "Cluster API generates the names of Machines"),
        ("generateName", "Cluster API generates the names of Machines"),
        ("namespace", "Machines are created in the namespace of their MachineSet"),
    ] {
        block(field, reason, &mut metadata, &mut work.issues);
    }
    metadata.take("creationTimestamp");
    block(
        "ownerReferences",
        "Machines are owned by their MachineSet",
        &mut metadata,
        &mut work.issues,
    );
    machine::rest_of_metadata(metadata, to, work);
}

fn entries(object: &Value, path: &str) -> Entries {
    tree::get(object, path)
        .and_then(Value::as_object)
        .cloned()
        .unwrap_or_default()
}

/// Converts a MachineSet of the Machine API.
pub(super) fn to_cluster_api(object: &Value, context: &Context<'_>) -> Converted {
    let mut work = Work::default();
    let (metadata_tree, mut spec) = machine::open(object, Api::ClusterApi, &mut work);
    let places = ["metadata.labels", "spec.template.metadata.labels"];
    let cluster = parts::cluster_name(object, &places, context, &mut work.issues);
    let mut set = Map::new();
    set.insert(String::from("clusterName"), cluster.as_str().into());
    if let Some(replicas) = count(&mut spec, "replicas", &mut work) {
        set.insert(String::from("replicas"), replicas.into());
    }
    let seconds = count(&mut spec, "minReadySeconds", &mut work).filter(|seconds| *seconds != 0);
    let policy = policy(&mut spec, "deletePolicy", &mut work).unwrap_or_default();
    if policy.is_empty() {
        work.carried.add("deletePolicy", "".into(), &"Random".into());
    }
    let order = if policy.is_empty() { "Random" } else { &policy };
    tree::put(&mut set, "deletion.order", order.into());
    let selector = Selector::convert(&mut spec, Api::ClusterApi, None, &mut work);
    spec.take("authoritativeAPI");
    let source = template(&mut spec, Api::ClusterApi, &mut work);
    metadata::report_rest(&spec, Api::ClusterApi, &mut work.issues);
    let control_plane = parts::is_control_plane(tree::get(object, "spec.template").unwrap_or(&Value::Null), context);
    let template_tree = source.metadata.clone();
    let mut parts = parts::to_cluster_api(source, &cluster, control_plane, context, &mut work);
    template_metadata(template_tree, Api::ClusterApi, &mut work);
    let label = (!cluster.is_empty()).then(|| (CLUSTER_NAME.to_owned(), Value::from(cluster.as_str())));
    parts.labels.extend(label.clone());
    let before = entries(object, "spec.template.metadata.labels");
    let machines = Machines::Template {
        before: &before,
        after: &parts.labels,
    };
    selector.check(machines, &mut work.issues);
    set.insert(String::from("selector"), selector.converted);
    let [mut labels, mut annotations] = own_metadata::to_cluster_api(metadata_tree, &mut work);
    labels.extend(label);
    if let Some(seconds) = seconds {
        parts.spec.insert(String::from("minReadySeconds"), seconds.into());
    }
    machine::bootstrap(&mut parts.spec);
    work.carried.write(&mut annotations);
    metadata::check_size(&annotations, "metadata.annotations", &mut work.issues);
    let mut objects = Vec::new();
    if let Some((platform, spec)) = parts.infrastructure.take() {
        objects.push(infrastructure_template(object, platform, &spec.into(), &mut parts.spec));
    }
    let template = machine_template(&parts.labels, &parts.annotations, parts.spec);
    set.insert(String::from("template"), template);
    let mut converted = json!({
        "apiVersion": cluster_x_k8s_io::API_VERSION,
        "kind": cluster_x_k8s_io::machine_set::KIND,
        "metadata": new_metadata(name(object), cluster_x_k8s_io::NAMESPACE, &labels, &annotations),
        "spec": set,
    });
    let status = status::set_to_cluster_api(object, &converted, context);
    status::put(&mut converted, status);
    objects.insert(0, converted);
    Converted::new(objects, work.issues)
}

/// The infrastructure template of a set, and the reference to it in the spec of the machines.
fn infrastructure_template(
    object: &Value,
    platform: &Platform,
    spec: &Value,
    machine: &mut Map<String, Value>,
) -> Value {
    let template_name = format!("{}-{}", name(object), hex_hash(spec, DIGITS));
    let kind = format!("{}Template", platform.machine);
    machine.insert(
        String::from("infrastructureRef"),
        json!({"apiGroup": infrastructure_cluster_x_k8s_io::GROUP, "kind": kind, "name": template_name}),
    );
    json!({
        "apiVersion": format!("{}/{}", infrastructure_cluster_x_k8s_io::GROUP, platform.version),
        "kind": kind,
        "metadata": new_metadata(&template_name, cluster_x_k8s_io::NAMESPACE, &template_labels(object), &Entries::new()),
        "spec": {"template": {"spec": spec}},
    })
}

/// The template of the machines of a set.
fn machine_template(labels: &Entries, annotations: &Entries, spec: Map<String, Value>) -> Value {
    let mut template = Map::new();
    for (field, entries) in [("labels", labels), ("annotations", annotations)] {
        if !entries.is_empty() {
            tree::put(&mut template, &format!("metadata.{field}"), entries.clone().into());
        }
    }
    template.insert(String::from("spec"), spec.into());
    template.into()
}

/// The label that connects an infrastructure template with its MachineSet.
fn template_labels(object: &Value) -> Entries {
    let label = String::from(metadata::TEMPLATE_SET);
    let name = name(object);
    // A label value has at most 63 characters, and a longer name cannot be a label.
    let fits = !name.is_empty() && name.len() <= 63;
    fits.then(|| (label, name.into())).into_iter().collect()
}

/// Takes the fields of a MachineSet of Cluster API that the Machine API does not have.
fn cluster_api_only(spec: &mut Tree, work: &mut Work) -> String {
    for field in ["machineNaming", "machineNamingStrategy"] {
        if let Some(value) = spec.take(field)
            && !super::pass::is_empty(&value)
        {
            work.issues.push(Issue::blocks(
                spec.path(field),
                "the Machine API generates the names of Machines",
                "remove it",
            ));
        }
    }
    let of_set = spec.take_text("clusterName").unwrap_or_default();
    let of_template = spec.get("template.spec.clusterName").and_then(Value::as_str);
    if of_template.is_some_and(|of_template| of_set != of_template) {
        work.issues.push(Issue::blocks(
            spec.path("clusterName"),
            "it differs from the cluster name of the template",
            "use one name",
        ));
    }
    of_set
}

/// Converts a MachineSet of Cluster API.
pub(super) fn to_machine_api(object: &Value, context: &Context<'_>) -> Converted {
    let mut work = Work::default();
    let (metadata_tree, mut spec) = machine::open(object, Api::MachineApi, &mut work);
    let cluster = cluster_api_only(&mut spec, &mut work);
    let mut set = Map::new();
    if let Some(replicas) = count(&mut spec, "replicas", &mut work) {
        set.insert(String::from("replicas"), replicas.into());
    }
    let order = policy(&mut spec, "deletion.order", &mut work).unwrap_or_default();
    let restored = work.restored.original("deletePolicy", &order.as_str().into()).cloned();
    if !order.is_empty() && restored.is_none() {
        set.insert(String::from("deletePolicy"), order.into());
    }
    let selector = Selector::convert(
        &mut spec,
        Api::MachineApi,
        tree::text(object, "spec.clusterName"),
        &mut work,
    );
    let mut source = template(&mut spec, Api::MachineApi, &mut work);
    metadata::report_rest(&spec, Api::MachineApi, &mut work.issues);
    if let Some(seconds) = count(&mut source.spec, "minReadySeconds", &mut work).filter(|seconds| *seconds != 0) {
        set.insert(String::from("minReadySeconds"), seconds.into());
    }
    let control_plane = parts::is_control_plane(tree::get(object, "spec.template").unwrap_or(&Value::Null), context);
    let template_tree = source.metadata.clone();
    let selected = entries(&selector.converted, "matchLabels");
    let mut parts = parts::to_machine_api(source, Some(&selected), control_plane, context, &mut work);
    template_metadata(template_tree, Api::MachineApi, &mut work);
    let before = entries(object, "spec.template.metadata.labels");
    let machines = Machines::Template {
        before: &before,
        after: &parts.labels.own,
    };
    selector.check(machines, &mut work.issues);
    set.insert(String::from("selector"), selector.converted);
    let hints = Hints {
        role: parts::preferred_role(context),
        selected: None,
        cluster: parts::cluster_to_machine_api(&cluster, "spec.clusterName", context, &mut Vec::new()),
        computed: false,
    };
    let [labels, mut annotations] = own_metadata::to_machine_api(metadata_tree, hints, &mut work);
    if let Some(infrastructure) = context.infrastructure_machine.found() {
        super::infrastructure::metadata_of(infrastructure, &Value::Null, &mut work.issues);
    }
    work.carried.write(&mut annotations);
    metadata::check_size(&annotations, "metadata.annotations", &mut work.issues);
    node_metadata(&mut parts.spec, &parts.labels.node, &parts.annotations.node);
    let authority = |path: &str| {
        let of_mirror = context.mirror.and_then(|mirror| tree::text(mirror, path));
        Value::from(of_mirror.unwrap_or("ClusterAPI"))
    };
    let of_machines = authority("spec.template.spec.authoritativeAPI");
    parts.spec.insert(String::from("authoritativeAPI"), of_machines);
    set.insert(String::from("authoritativeAPI"), authority("spec.authoritativeAPI"));
    let template = machine_template(&parts.labels.own, &parts.annotations.own, parts.spec);
    set.insert(String::from("template"), template);
    let mut converted = json!({
        "apiVersion": machine_kind::API_VERSION,
        "kind": machine_api::KIND,
        "metadata": new_metadata(name(object), machine_openshift_io::NAMESPACE, &labels, &annotations),
        "spec": set,
    });
    status::put(&mut converted, status::set_to_machine_api(object));
    Converted::new(vec![converted], work.issues)
}
