//! Converts what a Machine and the template of a MachineSet have in common: labels, annotations,
//! hooks, taints, bootstrap data and the infrastructure.

use serde_json::{Map, Value, json};

use super::carried::Carried;
use super::metadata::{self, Entries, Hints, Pair, Sort};
use super::pass::rule::Rule;
use super::pass::{Env, Pass};
use super::platforms::{self, Platform};
use super::tree::{self, Tree};
use super::{Api, Context, Issue, Lookup, Role, Severity, taints};
use crate::api::cluster_x_k8s_io::label::CONTROL_PLANE;
use crate::api::infrastructure_cluster_x_k8s_io::GROUP;
use crate::api::machine_openshift_io::NAMESPACE;
use crate::api::machine_openshift_io::control_plane_machine_set;
use crate::api::machine_openshift_io::label::{CLUSTER, ROLE, TYPE};
use crate::model::{FieldPath, is_label_value};

/// The Secrets with user data that the platform copies to the namespace of Cluster API.
const COPIED: [&str; 2] = ["worker-user-data", "master-user-data"];

/// A machine of the Machine API: a Machine, or the template of a MachineSet.
#[derive(Debug, Default)]
pub(super) struct Source {
    /// `metadata` of the Machine or of the template.
    pub(super) metadata: Tree,
    /// `spec` of the Machine or of the template.
    pub(super) spec: Tree,
    /// Whether it is a template.
    pub(super) template: bool,
}

/// What both directions collect.
#[derive(Debug, Default)]
pub(super) struct Work {
    /// What cannot be converted.
    pub(super) issues: Vec<Issue>,
    /// What the source carries.
    pub(super) restored: Carried,
    /// What the target will carry.
    pub(super) carried: Carried,
}

/// The parts of a machine in Cluster API.
#[derive(Debug, Default)]
pub(super) struct ClusterApiParts {
    /// The labels of the Machine.
    pub(super) labels: Entries,
    /// The annotations of the Machine.
    pub(super) annotations: Entries,
    /// The spec of the Machine, without its infrastructure reference.
    pub(super) spec: Map<String, Value>,
    /// The platform and the spec of the infrastructure machine.
    pub(super) infrastructure: Option<(&'static Platform, Map<String, Value>)>,
}

/// The parts of a machine in the Machine API.
#[derive(Debug, Default)]
pub(super) struct MachineApiParts {
    /// The labels of the machine and of the node.
    pub(super) labels: Pair,
    /// The annotations of the machine and of the node.
    pub(super) annotations: Pair,
    /// The spec of the Machine, without its metadata.
    pub(super) spec: Map<String, Value>,
    /// The region, the zone and the instance type, as labels.
    pub(super) computed: Entries,
}

/// Whether a machine of either API, or a template of them, belongs to the control plane.
pub(super) fn is_control_plane(machine: &Value, context: &Context<'_>) -> bool {
    if let Some(role) = context.role {
        return role == Role::ControlPlane;
    }
    let metadata = machine.get("metadata").unwrap_or(&Value::Null);
    let label = |key: &str| metadata.get("labels").and_then(|labels| labels.get(key));
    let master = |key: &str| label(key).and_then(Value::as_str) == Some("master");
    let owners = metadata.get("ownerReferences").and_then(Value::as_array);
    let mut owners = owners.into_iter().flatten();
    master(ROLE)
        || master(TYPE)
        || label(CONTROL_PLANE).is_some()
        || label("node-role.kubernetes.io/master").is_some()
        || label("node-role.kubernetes.io/control-plane").is_some()
        || owners.any(|owner| tree::text(owner, "kind") == Some(control_plane_machine_set::KIND))
}

/// The name of the cluster: that of the Infrastructure, else that of the label. A label that is the
/// only source must agree with the infrastructure cluster.
pub(super) fn cluster_name(object: &Value, labels: &[&str], context: &Context<'_>, issues: &mut Vec<Issue>) -> String {
    let infrastructure = context.infrastructure.found();
    if let Some(name) = infrastructure.and_then(|object| tree::text(object, "status.infrastructureName")) {
        return name.to_owned();
    }
    let at = |path: &&str| {
        tree::get(object, path)?
            .get(CLUSTER)?
            .as_str()
            .filter(|name| !name.is_empty())
    };
    if let Some((path, name)) = labels.iter().find_map(|path| Some((path, at(path)?))) {
        let of_cluster = context.infrastructure_cluster.found();
        let of_cluster =
            of_cluster.and_then(|object| Some((tree::text(object, "kind")?, super::cluster_of_object(object)?)));
        if let Some((kind, known)) =
            of_cluster.filter(|(_, known)| *known != name && context.infrastructure == Lookup::Absent)
        {
            issues.push(Issue::blocks(
                FieldPath::new(*path).key(CLUSTER).as_str(),
                format!("it is {name:?}, but the {kind} that was given is {known:?}"),
                format!("set it to {known:?}, or give the {kind} of the cluster {name:?}, or its Infrastructure"),
            ));
        }
        return name.to_owned();
    }
    if context.infrastructure != Lookup::Unknown {
        issues.push(Issue::blocks(
            FieldPath::new("metadata.labels").key(CLUSTER).as_str(),
            "the name of the cluster is not known, because no Infrastructure object was given",
            "give the Infrastructure object of the cluster, or set this label to the name of its infrastructure",
        ));
    }
    String::new()
}

/// Converts a machine of the Machine API.
pub(super) fn to_cluster_api(
    mut source: Source,
    name: &str,
    control_plane: bool,
    context: &Context<'_>,
    work: &mut Work,
) -> ClusterApiParts {
    let mut parts = ClusterApiParts::default();
    let issues = &mut work.issues;
    let mut pair = |sort: Sort, issues: &mut Vec<Issue>| Pair {
        own: metadata::take(&mut source.metadata, sort, issues),
        node: {
            let mut node = source.spec.branch("metadata");
            let entries = metadata::take(&mut node, sort, issues);
            if !super::pass::is_empty(&node.value) {
                tree_put(&mut source.spec, "metadata", node.value);
            }
            entries
        },
    };
    let mut labels = pair(Sort::Labels, issues);
    let mut annotations = pair(Sort::Annotations, issues);
    if !source.template {
        metadata::remove_computed(&mut labels.own);
        metadata::remove_computed(&mut annotations.own);
    }
    let node = source.spec.path("metadata");
    metadata::check_node(Sort::Labels, &labels.node, &node, issues);
    metadata::check_node(Sort::Annotations, &annotations.node, &node, issues);
    metadata::check_control_plane(&labels.own, &source.metadata.path("labels"), issues);
    metadata::check_hooks(&annotations, &source.metadata.path("annotations"), issues);
    metadata::check_roles(&labels.own, &source.metadata.path("labels"), issues);
    parts.labels = metadata::to_cluster_api(Sort::Labels, "labels", labels, &work.restored, &mut work.carried);
    parts.annotations = metadata::to_cluster_api(
        Sort::Annotations,
        "annotations",
        annotations,
        &work.restored,
        &mut work.carried,
    );
    metadata::hooks_to_cluster_api(&mut source.spec, &mut parts.annotations, issues);
    node_metadata(&mut source.spec, issues);
    parts.spec.insert(String::from("clusterName"), name.into());
    tree::put(&mut parts.spec, "deletion.nodeDeletionTimeoutSeconds", json!(10));
    let provider_id = source.spec.take_text("providerID");
    if let Some(id) = &provider_id {
        provider_id_limits(source.spec.path("providerID"), id, source.template, issues);
        parts.spec.insert(String::from("providerID"), id.as_str().into());
    }
    let is_worker = source.template || !parts.labels.contains_key(CONTROL_PLANE);
    let taints = taints::to_cluster_api(&mut source.spec, is_worker, issues);
    if !taints.is_empty() {
        parts.spec.insert(String::from("taints"), taints.into());
    }
    source.spec.take("authoritativeAPI");
    let env = Env {
        context,
        to: Api::ClusterApi,
        template: source.template,
        control_plane,
        provider_id: provider_id.as_deref(),
        cluster_kind: "",
        restored: Some(&work.restored),
    };
    let provider_spec = source.spec.branch("providerSpec.value");
    provider_to_cluster_api(env, provider_spec, &mut parts, issues, &mut work.carried);
    metadata::report_rest(&source.spec, Api::ClusterApi, issues);
    parts
}

/// Converts a provider spec.
fn provider_to_cluster_api(
    env: Env<'_>,
    mut spec: Tree,
    parts: &mut ClusterApiParts,
    issues: &mut Vec<Issue>,
    carried: &mut Carried,
) {
    if !spec.value.is_object() {
        issues.push(Issue::blocks(
            spec.root,
            "the infrastructure machine is created from the provider spec",
            "set the provider spec",
        ));
        return;
    }
    let kind = spec.take_text("kind");
    let Some(platform) = platforms::of_spec(kind.as_deref(), env.context) else {
        let (reason, way_out) = match kind {
            Some(kind) => (
                format!("machines with a provider spec of the kind {kind:?} cannot be converted"),
                match platforms::similar_spec(&kind) {
                    Some(known) => format!("use {known}, or keep the Machine in the Machine API"),
                    None => String::from("keep the Machine in the Machine API"),
                },
            ),
            None => (
                String::from("neither the kind of the provider spec nor an Infrastructure object names the platform"),
                String::from("set the kind of the provider spec, or give the Infrastructure object"),
            ),
        };
        issues.push(Issue::blocks(spec.path("kind"), reason, way_out));
        return;
    };
    provider_version(platform, &mut spec, issues);
    let mut meta = spec.branch("metadata");
    meta.take("creationTimestamp");
    if !matches!(meta.value, Value::Null | Value::Object(_)) {
        issues.push(Issue::blocks(meta.path(""), "must be an object", "remove it"));
    }
    for field in meta.value.as_object().into_iter().flat_map(Map::keys) {
        issues.push(Issue::blocks(
            meta.path(field),
            "a provider spec is not an object and has no metadata",
            "remove it",
        ));
    }
    let mut user_data = spec.branch(platform.user_data);
    if let Some(name) = user_data_to_cluster_api(platform, &env, &mut user_data, issues) {
        tree::put(&mut parts.spec, "bootstrap.dataSecretName", name.into());
    }
    let env = Env {
        cluster_kind: platform.cluster,
        ..env
    };
    let mut pass = Pass::new(env, spec, Tree::default());
    pass.apply(platform.rules);
    pass.finish(platform.rules);
    pass.write_kept(carried);
    issues.append(&mut pass.issues);
    parts.spec.append(&mut pass.machine_target);
    provider_id_of_platform(platform, &env, issues);
    if let Some(id) = env.provider_id.filter(|_| platform.has_provider_id) {
        pass.target.insert(String::from("providerID"), id.into());
    }
    parts.infrastructure = Some((platform, pass.target));
}

/// Checks the version of a provider spec, which the Machine API itself ignores.
fn provider_version(platform: &Platform, spec: &mut Tree, issues: &mut Vec<Issue>) {
    let Some(version) = spec.take("apiVersion") else { return };
    let is_known = |text: &str| text.is_empty() || platforms::is_version(platform, text);
    if !version.as_str().is_some_and(is_known) {
        let known = platform.provider_spec_version;
        issues.push(Issue::blocks(
            spec.path("apiVersion"),
            format!("must be {known}; Capstan does not know the fields of another version"),
            format!("set it to {known}"),
        ));
    }
}

/// Checks the reference to the user data, and returns the name of the Secret.
fn user_data_to_cluster_api(
    platform: &Platform,
    env: &Env<'_>,
    user_data: &mut Tree,
    issues: &mut Vec<Issue>,
) -> Option<String> {
    let name = user_data.take_text("name");
    let namespace = user_data.take_text("namespace").unwrap_or_default();
    if !namespace.is_empty() && namespace != NAMESPACE {
        issues.push(Issue::blocks(
            user_data.path("namespace"),
            "Cluster API reads the Secret from the namespace of the Machine",
            format!("move the Secret to the namespace {NAMESPACE} and remove the field"),
        ));
    }
    metadata::report_rest(user_data, Api::ClusterApi, issues);
    let Some(name) = name else {
        issues.push(Issue::blocks(
            user_data.path("name"),
            "a Machine of Cluster API needs a Secret with bootstrap data",
            format!("set {}.name to the Secret with the user data", platform.user_data),
        ));
        return None;
    };
    let missing = env.context.missing_secret(&name, &COPIED, Api::ClusterApi);
    if let Some(reason) = missing.filter(|_| env.provider_id.is_none()) {
        issues.push(Issue::blocks(
            user_data.path("name"),
            reason,
            format!(
                "copy the Secret with its key userData renamed to value, and give the copy too; or use {}",
                COPIED.join(" or ")
            ),
        ));
    }
    Some(name)
}

/// Reports metadata of a node that Cluster API does not pass to it.
fn node_metadata(spec: &mut Tree, issues: &mut Vec<Issue>) {
    let mut node = spec.branch("metadata");
    for field in ["name", "generateName", "namespace"] {
        if let Some(value) = node.take(field)
            && !super::pass::is_empty(&value)
        {
            issues.push(Issue::blocks(
                node.path(field),
                "Cluster API does not pass this field to the node",
                "remove it: the Machine API does not use it either",
            ));
        }
    }
    node.take("creationTimestamp");
    if let Some(value) = node.take("ownerReferences")
        && !super::pass::is_empty(&value)
    {
        issues.push(Issue::loses(
            node.path("ownerReferences"),
            "Cluster API does not pass owner references to the node",
            "remove them: the Machine API does not use them either",
        ));
    }
    metadata::report_rest(&node, Api::ClusterApi, issues);
}

fn provider_id_limits(path: String, id: &str, template: bool, issues: &mut Vec<Issue>) {
    if template {
        issues.push(Issue::blocks(
            path,
            "a template of machines describes several machines, and a provider ID only one",
            "remove it from the template",
        ));
    } else if id.chars().count() > 512 {
        issues.push(Issue::blocks(
            path,
            "Cluster API accepts at most 512 characters",
            "correct the provider ID",
        ));
    }
}

/// Refuses the provider ID of another platform, which no controller of this one finds.
fn provider_id_of_platform(platform: &Platform, env: &Env<'_>, issues: &mut Vec<Issue>) {
    const PATH: &str = "spec.providerID";
    let id = env.provider_id.filter(|_| !env.template);
    let other = id.and_then(|id| platforms::other_of_provider_id(platform, id));
    let is_reported = issues.iter().any(|issue| issue.path.as_str() == PATH);
    if let Some(other) = other.filter(|_| !is_reported) {
        issues.push(Issue::blocks(
            PATH,
            format!(
                "it is the ID of an instance on {}, and the machine is on {}",
                other.title, platform.title
            ),
            "correct the provider ID",
        ));
    }
}

fn tree_put(tree: &mut Tree, path: &str, value: Value) {
    if let Value::Object(map) = &mut tree.value {
        tree::put(map, path, value);
    }
}

/// The labels that the selector of a MachineSet of Cluster API uses, and the preferred role.
pub(super) fn preferred_role<'a>(context: &Context<'a>) -> Option<&'a str> {
    let mirror = context.mirror?;
    ["metadata.labels", "spec.template.metadata.labels"]
        .iter()
        .find_map(|path| tree::get(mirror, path)?.get(ROLE)?.as_str())
}

/// Converts a machine of Cluster API.
pub(super) fn to_machine_api(
    mut source: Source,
    selected: Option<&Entries>,
    control_plane: bool,
    context: &Context<'_>,
    work: &mut Work,
) -> MachineApiParts {
    let mut parts = MachineApiParts::default();
    let issues = &mut work.issues;
    let cluster = source.spec.take_text("clusterName").unwrap_or_default();
    let cluster = cluster_to_machine_api(&cluster, &source.spec.path("clusterName"), context, issues);
    let hints = Hints {
        role: preferred_role(context),
        selected,
        cluster: cluster.filter(|_| !source.template),
        computed: !source.template,
    };
    let annotations_path = source.metadata.path("annotations");
    let labels = metadata::take(&mut source.metadata, Sort::Labels, issues);
    let mut annotations = metadata::take(&mut source.metadata, Sort::Annotations, issues);
    metadata::hooks_to_machine_api(&mut annotations, &annotations_path, &mut parts.spec, issues);
    let is_worker = source.template || !labels.contains_key(CONTROL_PLANE);
    let (restored, carried) = (&work.restored, &mut work.carried);
    parts.labels = metadata::to_machine_api(Sort::Labels, "labels", labels, hints, restored, carried);
    parts.annotations =
        metadata::to_machine_api(Sort::Annotations, "annotations", annotations, hints, restored, carried);
    let provider_id = source.spec.take_text("providerID");
    if let Some(id) = &provider_id {
        provider_id_limits(source.spec.path("providerID"), id, source.template, issues);
        parts.spec.insert(String::from("providerID"), id.as_str().into());
    }
    let taints = taints::to_machine_api(&mut source.spec, is_worker, issues);
    if !taints.is_empty() {
        parts.spec.insert(String::from("taints"), taints.into());
    }
    let has_reference = source
        .spec
        .get("bootstrap.configRef")
        .is_some_and(|value| !super::pass::is_empty(value));
    cluster_api_only(&mut source.spec, source.template, issues);
    let user_data = source.spec.take_text("bootstrap.dataSecretName");
    let path = source.spec.path("bootstrap.dataSecretName");
    user_data_to_machine_api(
        user_data.as_deref(),
        has_reference,
        provider_id.is_some(),
        path,
        context,
        issues,
    );
    let env = Env {
        context,
        to: Api::MachineApi,
        template: source.template,
        control_plane,
        provider_id: provider_id.as_deref(),
        cluster_kind: "",
        restored: Some(&work.restored),
    };
    infrastructure_to_machine_api(env, source.spec, user_data, &mut parts, issues, &mut work.carried);
    parts
}

/// Checks the Secret with the bootstrap data. A machine that runs has used it already.
fn user_data_to_machine_api(
    name: Option<&str>,
    has_reference: bool,
    runs: bool,
    path: String,
    context: &Context<'_>,
    issues: &mut Vec<Issue>,
) {
    let Some(name) = name else {
        if !has_reference {
            issues.push(Issue::loses(
                path,
                "Cluster API creates no instance without bootstrap data, and the Machine API does not wait for it",
                "set it to the name of the Secret with the bootstrap data",
            ));
        }
        return;
    };
    let missing = context.missing_secret(name, &COPIED, Api::MachineApi);
    if let Some(reason) = missing.filter(|_| !runs) {
        issues.push(Issue::blocks(
            path,
            reason,
            format!(
                "copy the Secret with its key value renamed to userData, and give the Secret too; or use {}",
                COPIED.join(" or ")
            ),
        ));
    }
}

/// Checks the name of the cluster, which the Machine API takes from the Infrastructure. Returns it
/// if only a label can hold it.
pub(super) fn cluster_to_machine_api<'n>(
    name: &'n str,
    path: &str,
    context: &Context<'_>,
    issues: &mut Vec<Issue>,
) -> Option<&'n str> {
    let infrastructure = context.infrastructure.found();
    match infrastructure.and_then(|object| tree::text(object, "status.infrastructureName")) {
        Some(known) if known != name => {
            issues.push(Issue::blocks(
                path,
                format!("it is {name:?}, but the name of this cluster is {known:?} in the Machine API"),
                format!("set it to {known:?}, or keep the object in Cluster API"),
            ));
            None
        }
        Some(_) => None,
        None => Some(name).filter(|name| !name.is_empty()),
    }
}

/// Reports the fields of a Machine of Cluster API that the Machine API does not have.
fn cluster_api_only(spec: &mut Tree, template: bool, issues: &mut Vec<Issue>) {
    const ONLY: &[(&str, &str, &str)] = &[
        (
            "version",
            "the Machine API does not set the Kubernetes version",
            "remove it: the MachineConfig of the cluster sets the version",
        ),
        (
            "readinessGates",
            "the Machine API has no readiness gates",
            "remove them",
        ),
        (
            "bootstrap.configRef",
            "the Machine API bootstraps a machine from a Secret, not with a bootstrap provider",
            "set bootstrap.dataSecretName instead",
        ),
        (
            "minReadySeconds",
            "a Machine of the Machine API has no minReadySeconds",
            "remove it; a MachineSet of the Machine API has spec.minReadySeconds",
        ),
        (
            "deletion.nodeDrainTimeoutSeconds",
            "the Machine API has no timeout for draining a node",
            "remove it",
        ),
        (
            "deletion.nodeVolumeDetachTimeoutSeconds",
            "the Machine API has no timeout for detaching volumes",
            "remove it",
        ),
    ];
    for (field, reason, way_out) in ONLY {
        // The MachineSet converts the field of its template itself.
        if template && *field == "minReadySeconds" {
            continue;
        }
        if let Some(value) = spec.take(field)
            && !super::pass::is_empty(&value)
        {
            issues.push(Issue::blocks(spec.path(field), *reason, *way_out));
        }
    }
    if let Some(seconds) = spec.take("deletion.nodeDeletionTimeoutSeconds")
        && seconds.as_i64() != Some(10)
    {
        issues.push(Issue::blocks(
            spec.path("deletion.nodeDeletionTimeoutSeconds"),
            "the Machine API always uses a timeout of 10 seconds for the deletion of a node",
            "set it to 10 or remove it",
        ));
    }
}

/// Converts the infrastructure machine, or its template, and what is left of the spec of the
/// Machine.
fn infrastructure_to_machine_api(
    env: Env<'_>,
    mut machine: Tree,
    user_data: Option<String>,
    parts: &mut MachineApiParts,
    issues: &mut Vec<Issue>,
    carried: &mut Carried,
) {
    let mut reference = machine.branch("infrastructureRef");
    let kind = reference.take_text("kind").unwrap_or_default();
    let name = reference.take_text("name").unwrap_or_default();
    if let Some(group) = reference.take_text("apiGroup").filter(|group| group != GROUP) {
        issues.push(Issue::blocks(
            reference.path("apiGroup"),
            format!("infrastructure of the group {group:?} cannot be converted"),
            format!("use {GROUP}, or keep the Machine in Cluster API"),
        ));
    }
    metadata::report_rest(&reference, Api::MachineApi, issues);
    let platform = platforms::of_machine(kind.strip_suffix("Template").unwrap_or(&kind));
    let Some(platform) = platform else {
        issues.push(Issue::blocks(
            reference.path("kind"),
            format!("machines of the infrastructure {kind:?} cannot be converted"),
            match platforms::similar_machine(&kind, env.template) {
                Some(known) => format!("use {known}, or keep the Machine in Cluster API"),
                None => String::from("keep the Machine in Cluster API"),
            },
        ));
        // The platform reads this field, so that it is no issue of its own.
        machine.take("failureDomain");
        metadata::report_rest(&machine, Api::MachineApi, issues);
        return;
    };
    let env = Env {
        cluster_kind: platform.cluster,
        ..env
    };
    let object = match env.context.infrastructure_machine {
        Lookup::Found(object) if tree::text(object, "kind") == Some(kind.as_str()) => Some(object),
        Lookup::Unknown => None,
        _ => {
            issues.push(Issue::blocks(
                reference.path("name"),
                format!("the {kind} {name:?} was not given"),
                format!("give the {kind} {name:?} too"),
            ));
            None
        }
    };
    let Some(object) = object else {
        machine.take("failureDomain");
        metadata::report_rest(&machine, Api::MachineApi, issues);
        return;
    };
    let (spec, rest) = super::infrastructure::spec_of(object);
    issues.extend(rest);
    let mut pass = Pass::new(env, spec, machine);
    infrastructure_provider_id(&mut pass);
    provider_spec(platform, user_data, &mut pass, parts, issues);
    provider_id_of_platform(platform, &env, issues);
    pass.write_kept(carried);
}

/// Runs the rules of a platform over an infrastructure machine, and adds what every provider spec
/// has.
fn provider_spec(
    platform: &'static Platform,
    user_data: Option<String>,
    pass: &mut Pass<'_>,
    parts: &mut MachineApiParts,
    issues: &mut Vec<Issue>,
) {
    pass.apply(platform.rules);
    let rules: &'static [Rule] = platform.rules;
    pass.finish(rules);
    metadata::report_rest(&pass.machine, Api::MachineApi, issues);
    issues.append(&mut pass.issues);
    if let Some(name) = user_data {
        tree::put(&mut pass.target, &format!("{}.name", platform.user_data), name.into());
    }
    pass.target
        .insert(String::from("apiVersion"), platform.provider_spec_version.into());
    pass.target.insert(String::from("kind"), platform.provider_spec.into());
    let value = Value::Object(pass.target.clone());
    for (label, field) in platform.computed {
        // A text that is no label value, such as a flavor with spaces, has no label.
        if let Some(text) = tree::text(&value, field).filter(|text| is_label_value(text)) {
            parts.computed.insert((*label).to_owned(), text.into());
        }
    }
    tree::put(&mut parts.spec, "providerSpec.value", value);
}

/// The provider ID of the infrastructure machine must be that of the Machine.
fn infrastructure_provider_id(pass: &mut Pass<'_>) {
    let Some(id) = pass.take_text("providerID") else { return };
    match pass.env.provider_id {
        None => {
            let path = pass.path("providerID");
            pass.report(
                Severity::Loses,
                path,
                "the Machine API reads the provider ID of the Machine, which has none",
                "wait until Cluster API has set it on the Machine too, or remove it from a template",
            );
        }
        Some(known) if pass.env.template || known != id => pass.block(
            "providerID",
            "it differs from spec.providerID of the Machine, and the Machine API has only one",
            "correct one of them, or remove it from a template",
        ),
        Some(_) => {}
    }
}
