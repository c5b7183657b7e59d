//! Reads the infrastructure objects of Cluster API that a conversion needs.

use serde_json::{Map, Value};

use super::metadata;
use super::pass::rule::Rule;
use super::pass::{Env, Pass};
use super::platforms::{self, Platform};
use super::tree::{self, Tree};
use super::{Api, Context, Converted, Issue};
use crate::api::cluster_x_k8s_io::label::CLUSTER;
use crate::api::infrastructure_cluster_x_k8s_io::GROUP;
use crate::api::machine_openshift_io::label::CLUSTER as MACHINE_API_CLUSTER;
use crate::api::machine_openshift_io::{machine, machine_set};
use crate::model::FieldPath;

/// Metadata of any object that a conversion does not read: the API server and controllers write it.
pub(super) const IDENTITY: &[&str] = &[
    "name",
    "generateName",
    "namespace",
    "uid",
    "resourceVersion",
    "generation",
    "creationTimestamp",
    "deletionTimestamp",
    "deletionGracePeriodSeconds",
    "managedFields",
    "selfLink",
    "finalizers",
    "ownerReferences",
];

/// The path of the provider spec in an object of the Machine API, if it has one.
fn provider_spec_of(object: &Value) -> Option<(&'static Platform, &Value)> {
    if super::api_of(object) != Some(Api::MachineApi) {
        return None;
    }
    let path = match tree::text(object, "kind")? {
        machine::KIND => "spec.providerSpec.value",
        machine_set::KIND => "spec.template.spec.providerSpec.value",
        _ => return None,
    };
    let spec = tree::get(object, path)?;
    Some((platforms::of_provider_spec(tree::text(spec, "kind")?)?, spec))
}

/// The kind of the infrastructure cluster that this object of the Machine API is compared with.
/// `None` if it sets none of the fields that the cluster sets for all machines.
pub fn cluster_of(object: &Value) -> Option<&'static str> {
    let (platform, spec) = provider_spec_of(object)?;
    let is_set = |rule: &Rule| match rule {
        Rule::Shared { at, .. } => tree::text(spec, at).is_some(),
        _ => false,
    };
    platform.rules.iter().any(is_set).then_some(platform.cluster)
}

/// The kind of the infrastructure cluster of an object of either API. `None` for a
/// MachineHealthCheck, and on an unknown platform.
pub fn cluster_kind(object: &Value) -> Option<&'static str> {
    if let Some((platform, _)) = provider_spec_of(object) {
        return Some(platform.cluster);
    }
    let (kind, _) = infrastructure_of(object)?;
    let machine = kind.strip_suffix("Template").unwrap_or(&kind);
    Some(platforms::of_machine(machine)?.cluster)
}

/// The name of the cluster that an object of either API names: in the label of the Machine API,
/// also of the machines of a MachineSet, or in `spec.clusterName`.
pub fn cluster_name_of(object: &Value) -> Option<&str> {
    let of_label = |path: &str| {
        let label = tree::get(object, path)?.get(MACHINE_API_CLUSTER)?.as_str();
        label.filter(|name| !name.is_empty())
    };
    match super::api_of(object)? {
        Api::ClusterApi => tree::text(object, "spec.clusterName"),
        Api::MachineApi => of_label("metadata.labels").or_else(|| of_label("spec.template.metadata.labels")),
    }
}

/// The name of the cluster that an infrastructure cluster belongs to: Cluster API writes it in a
/// label, and on OpenShift both have one name.
pub fn cluster_of_object(cluster: &Value) -> Option<&str> {
    let labels = tree::get(cluster, "metadata.labels");
    let of_label = labels.and_then(|labels| labels.get(CLUSTER)).and_then(Value::as_str);
    of_label
        .filter(|name| !name.is_empty())
        .or_else(|| tree::text(cluster, "metadata.name"))
}

/// The kind of the infrastructure cluster of the platform that an Infrastructure names.
pub fn cluster_kind_of_infrastructure(infrastructure: &Value) -> Option<&'static str> {
    Some(platforms::of_infrastructure(infrastructure)?.cluster)
}

/// The issue of a platform whose machines can be converted but not handed over. A migration is
/// prevented, and a conversion is not.
pub fn hand_over(object: &Value) -> Option<Issue> {
    let kind = tree::text(object, "kind").unwrap_or_default();
    let (platform, path) = match provider_spec_of(object) {
        Some((platform, _)) if kind == machine::KIND => (platform, "spec.providerSpec.value.kind"),
        Some((platform, _)) => (platform, "spec.template.spec.providerSpec.value.kind"),
        None => {
            let (kind, _) = infrastructure_of(object)?;
            let machine = kind.strip_suffix("Template").unwrap_or(&kind).to_owned();
            let template = kind.ends_with("Template");
            let path = if template {
                "spec.template.spec.infrastructureRef.kind"
            } else {
                "spec.infrastructureRef.kind"
            };
            (platforms::of_machine(&machine)?, path)
        }
    };
    let (reason, way_out) = platform.hand_over?;
    Some(Issue::blocks(path, reason, way_out))
}

/// The kind and the name of the infrastructure object that an object of Cluster API refers to.
pub fn infrastructure_of(object: &Value) -> Option<(String, String)> {
    if super::api_of(object) != Some(Api::ClusterApi) {
        return None;
    }
    let reference = ["spec.infrastructureRef", "spec.template.spec.infrastructureRef"]
        .iter()
        .find_map(|path| tree::get(object, path))?;
    Some((
        tree::text(reference, "kind")?.to_owned(),
        tree::text(reference, "name")?.to_owned(),
    ))
}

/// The spec of an infrastructure machine, or of the machines of a template, and the issues of the
/// rest of the object. Paths start with the kind of the object.
pub(super) fn spec_of(object: &Value) -> (Tree, Vec<Issue>) {
    let kind = tree::text(object, "kind").unwrap_or_default();
    rooted(object, &format!("{kind} "))
}

fn rooted(object: &Value, prefix: &str) -> (Tree, Vec<Issue>) {
    let mut issues = Vec::new();
    let kind = tree::text(object, "kind").unwrap_or_default();
    let mut whole = Tree::new(prefix, object.clone());
    whole.take("kind");
    whole.take("status");
    version(&mut whole, kind, &mut issues);
    let mut meta = whole.branch("metadata");
    for field in IDENTITY.iter().chain(&["labels", "annotations"]) {
        meta.take(field);
    }
    metadata::report_rest(&meta, Api::MachineApi, &mut issues);
    let mut spec = whole.branch("spec");
    if kind.ends_with("Template") {
        let mut template = spec.branch("template");
        let mut meta = template.branch("metadata");
        for field in ["labels", "annotations"] {
            if let Some(value) = meta.take(field)
                && !super::pass::is_empty(&value)
            {
                issues.push(Issue::loses(
                    meta.path(field),
                    "the Machine API has no metadata for the infrastructure of a machine",
                    "set it in the template of the MachineSet",
                ));
            }
        }
        metadata::report_rest(&meta, Api::MachineApi, &mut issues);
        let inner = template.branch("spec");
        metadata::report_rest(&template, Api::MachineApi, &mut issues);
        metadata::report_rest(&spec, Api::MachineApi, &mut issues);
        spec = inner;
    }
    metadata::report_rest(&whole, Api::MachineApi, &mut issues);
    if spec.value.is_null() {
        spec.value = Value::Object(Map::new());
    }
    (spec, issues)
}

fn version(whole: &mut Tree, kind: &str, issues: &mut Vec<Issue>) {
    let Some(platform) = platforms::of_machine(kind.strip_suffix("Template").unwrap_or(kind)) else {
        return;
    };
    let known = format!("{GROUP}/{}", platform.version);
    let path = whole.path("apiVersion");
    let version = whole.take("apiVersion");
    if version.as_ref().and_then(Value::as_str) != Some(known.as_str()) {
        issues.push(Issue::blocks(
            path,
            format!("must be {known}"),
            format!("read the object from the API server as {known}"),
        ));
    }
}

/// Finds labels and annotations of an infrastructure machine that its Machine does not have. They
/// are lost, because the Machine API has no infrastructure object.
pub(super) fn metadata_of(object: &Value, machine: &Value, issues: &mut Vec<Issue>) {
    let kind = tree::text(object, "kind").unwrap_or_default();
    for field in ["labels", "annotations"] {
        let of = |object: &Value| {
            let entries = tree::get(object, "metadata").and_then(|metadata| metadata.get(field));
            entries.and_then(Value::as_object).cloned().unwrap_or_default()
        };
        let (entries, known) = (of(object), of(machine));
        for (key, value) in entries {
            let is_lost = known.get(&key) != Some(&value) && !metadata::is_mechanism(&key);
            if is_lost {
                let path = FieldPath::new(format!("{kind} metadata.{field}")).key(&key);
                issues.push(Issue::loses(
                    path.as_str(),
                    "the Machine API has no object for the infrastructure of a machine",
                    "set it on the Machine, or remove it",
                ));
            }
        }
    }
}

/// Checks an infrastructure machine, or a template, without its Machine.
pub(super) fn alone(object: &Value, context: &Context<'_>) -> Converted {
    let kind = tree::text(object, "kind").unwrap_or_default();
    let Some(platform) = platforms::of_machine(kind.strip_suffix("Template").unwrap_or(kind)) else {
        return Converted::default();
    };
    let (mut spec, mut issues) = rooted(object, "");
    let provider_id = spec.take_text("providerID");
    let env = Env {
        context,
        to: Api::MachineApi,
        template: kind.ends_with("Template"),
        control_plane: false,
        provider_id: provider_id.as_deref(),
        cluster_kind: platform.cluster,
        restored: None,
    };
    let mut pass = Pass::new(env, spec, Tree::default());
    pass.apply(platform.rules);
    pass.finish(platform.rules);
    issues.append(&mut pass.issues);
    Converted::new(Vec::new(), issues)
}
