//! The CustomResourceDefinitions: the schemas of the wire types, with the CEL rules from
//! `webhooks/rules/` at their paths.
//!
//! A rule is data: its path selects the node of the schema. Nothing here depends on a single rule.

mod kubeadm;

use schemars::JsonSchema;
use serde_json::{Map, Value, json};
use thiserror::Error;

use super::structural::{Unknown, schema_of};
use super::{Definition, SchemaError};
use crate::api::cluster_x_k8s_io::cluster;
use crate::api::config_openshift_io::{cluster_operator, feature_gate, infrastructure};
use crate::api::machine_openshift_io::authority::{PAUSED, SYNCHRONIZED};
use crate::api::machine_openshift_io::control_plane::{self, ControlPlane};
use crate::api::machine_openshift_io::control_plane_machine_set::{self as cpms, ControlPlaneMachineSet};
use crate::api::machine_openshift_io::machine::{self, Machine};
use crate::api::machine_openshift_io::machine_health_check::{self, MachineHealthCheck};
use crate::api::machine_openshift_io::machine_set::{self, MachineSet};
use crate::api::{cluster_x_k8s_io, config_openshift_io, infrastructure_cluster_x_k8s_io, machine_openshift_io};
use crate::cel::rules::{Enforcer, Rule, RuleFile, Segment};

pub use self::kubeadm::CONVERSION_PATH;

/// Why CustomResourceDefinitions cannot be built.
#[derive(Debug, Error)]
pub enum CrdError {
    /// A rule names a path that its kind does not have.
    #[error("rule {id}: the schema of {kind} has no {path:?}")]
    NoSuchPath {
        /// The rule.
        id: String,
        /// The kind.
        kind: String,
        /// The path.
        path: String,
    },
    /// A CRD cannot be written as YAML.
    #[error("{name} cannot be written as YAML: {reason}")]
    Yaml {
        /// The CRD.
        name: String,
        /// The message of the serializer.
        reason: String,
    },
    /// The schema of a CRD is not valid. A test prevents this.
    #[error(transparent)]
    Schema(#[from] SchemaError),
}

/// The CRDs of the kinds that Capstan owns, with the rules that their schemas enforce.
///
/// # Errors
/// A rule names a path that its kind does not have.
pub fn crds(files: &[RuleFile]) -> Result<Vec<Value>, CrdError> {
    let mut definitions = vec![
        control_plane_machine_set(),
        machine(),
        machine_set(),
        machine_health_check(),
    ];
    inject_rules(&mut definitions, files)?;
    Ok(definitions)
}

/// The CRD of ControlPlane, with the rules that its schema enforces. It is installed only with the
/// feature `control-plane`.
///
/// # Errors
/// A rule names a path that its kind does not have.
pub fn control_plane_crds(files: &[RuleFile]) -> Result<Vec<Value>, CrdError> {
    let mut definitions = vec![control_plane_definition()];
    inject_rules(&mut definitions, files)?;
    Ok(definitions)
}

/// The CRDs of KubeadmControlPlane and of its template, with the rules that their schemas enforce.
/// They are installed only with the feature `kubeadm-control-plane`, because Cluster API has CRDs
/// of the same names.
///
/// # Errors
/// A rule names a path that its kind does not have.
pub fn kubeadm_crds(files: &[RuleFile]) -> Result<Vec<Value>, CrdError> {
    let mut definitions = kubeadm::crds();
    inject_rules(&mut definitions, files)?;
    Ok(definitions)
}

/// Adds the rules of the schemas to the stored version of each CRD.
fn inject_rules(definitions: &mut [Value], files: &[RuleFile]) -> Result<(), CrdError> {
    for file in files {
        for definition in &mut *definitions {
            let (group, kind) = (
                text_at(definition, "/spec/group"),
                text_at(definition, "/spec/names/kind"),
            );
            if !file.judges(group, kind) {
                continue;
            }
            let kind = kind.to_owned();
            let Some(schema) = definition.pointer_mut("/spec/versions/0/schema/openAPIV3Schema") else {
                continue;
            };
            for rule in file
                .rules
                .iter()
                .filter(|rule| rule.enforced_by.contains(&Enforcer::Schema))
            {
                inject(schema, rule).ok_or_else(|| CrdError::NoSuchPath {
                    id: rule.id.clone(),
                    kind: kind.clone(),
                    path: rule.path.clone(),
                })?;
            }
        }
    }
    Ok(())
}

/// The kinds that Capstan owns, for the offline check. The violations of a rule have the id of the
/// rule.
///
/// # Errors
/// The errors of `crds`.
pub fn definitions(files: &[RuleFile]) -> Result<Vec<Definition>, CrdError> {
    let nothing = RuleFile::default();
    crds(files)?
        .iter()
        .map(|definition| {
            let (group, kind) = (
                text_at(definition, "/spec/group"),
                text_at(definition, "/spec/names/kind"),
            );
            let known = files.iter().find(|file| file.judges(group, kind)).unwrap_or(&nothing);
            Ok(Definition::parse(definition, None, known)?)
        })
        .collect()
}

/// Kinds of OpenShift's configuration that Capstan reads and does not own, for clusters without
/// OpenShift, such as the clusters of the tests. The CRDs keep all fields.
pub fn foreign_crds() -> Vec<Value> {
    let open = |description: &str| {
        let part = json!({"type": "object", "x-kubernetes-preserve-unknown-fields": true});
        json!({"type": "object", "description": description, "properties": {"spec": part, "status": part}})
    };
    let config = |kind, plural, short_names| Names {
        group: config_openshift_io::GROUP,
        kind,
        plural,
        short_names,
        scope: "Cluster",
    };
    vec![
        definition(
            &config(infrastructure::KIND, infrastructure::PLURAL, &[]),
            &Version::new(
                "v1",
                open("The platform of the cluster."),
                &[column("Age", "date", AGE, 0)],
            ),
        ),
        definition(
            &config(cluster_operator::KIND, cluster_operator::PLURAL, &["co"]),
            &Version::new(
                "v1",
                open("The state of an operator of the cluster."),
                &[
                    condition("Available", "Available", 0),
                    condition("Progressing", "Progressing", 0),
                    condition("Degraded", "Degraded", 0),
                    condition("Upgradeable", "Upgradeable", 0),
                    column("Age", "date", AGE, 0),
                ],
            ),
        ),
        definition(
            &config(feature_gate::KIND, feature_gate::PLURAL, &[]),
            &Version::new(
                "v1",
                open("The feature gates that are on."),
                &[column("Age", "date", AGE, 0)],
            ),
        ),
    ]
}

/// The mirrored kinds of Cluster API and of its infrastructure, for clusters without Cluster API,
/// such as the clusters of the tests. The CRDs keep all fields.
pub fn cluster_api_crds() -> Vec<Value> {
    let open = || {
        let part = json!({"type": "object", "x-kubernetes-preserve-unknown-fields": true});
        json!({"type": "object", "properties": {"spec": part, "status": part}})
    };
    let names = |group, kind, plural| Names {
        group,
        kind,
        plural,
        short_names: &[],
        scope: "Namespaced",
    };
    let age = [column("Age", "date", AGE, 0)];
    let (core, group) = (cluster_x_k8s_io::GROUP, infrastructure_cluster_x_k8s_io::GROUP);
    let mut set = Version::new(cluster_x_k8s_io::VERSION, open(), &age);
    set.scale = Some(".status.selector");
    let mut definitions = vec![definition(&names(core, machine_set::KIND, machine_set::PLURAL), &set)];
    for (kind, plural) in [
        (cluster::KIND, cluster::PLURAL),
        (machine::KIND, machine::PLURAL),
        (machine_health_check::KIND, machine_health_check::PLURAL),
    ] {
        let version = Version::new(cluster_x_k8s_io::VERSION, open(), &age);
        definitions.push(definition(&names(core, kind, plural), &version));
    }
    for platform in infrastructure_cluster_x_k8s_io::PLATFORMS {
        for (kind, plural) in [
            (platform.machine, platform.machines),
            (platform.template, platform.templates),
        ] {
            let version = Version::new(platform.version, open(), &age);
            definitions.push(definition(&names(group, kind, plural), &version));
        }
    }
    for cluster in infrastructure_cluster_x_k8s_io::CLUSTERS {
        let version = Version::new(cluster.version, open(), &age);
        definitions.push(definition(&names(group, cluster.kind, cluster.plural), &version));
    }
    definitions
}

/// The command that generates `manifests/crds`.
const REGENERATE: &str = "cargo run -p capstan -- manifests crds --out manifests/crds";
/// The command that generates `manifests/crds-kubeadm-control-plane`.
const REGENERATE_KUBEADM: &str = "cargo run -p capstan -- manifests crds --feature kubeadm-control-plane --out \
                                  manifests/crds-kubeadm-control-plane";

/// The command that generates `manifests/crds-control-plane`.
const REGENERATE_CONTROL_PLANE: &str =
    "cargo run -p capstan -- manifests crds --feature control-plane --out manifests/crds-control-plane";

/// The CRDs of `control_plane_crds` as files for `manifests/crds-control-plane`: the name and the
/// text of each.
///
/// # Errors
/// The errors of `control_plane_crds`.
pub fn control_plane_crd_files(files: &[RuleFile]) -> Result<Vec<(String, String)>, CrdError> {
    as_files(&control_plane_crds(files)?, REGENERATE_CONTROL_PLANE)
}

/// The CRDs of `crds` as files for `manifests/crds`: the name and the text of each.
///
/// # Errors
/// The errors of `crds`.
pub fn crd_files(files: &[RuleFile]) -> Result<Vec<(String, String)>, CrdError> {
    as_files(&crds(files)?, REGENERATE)
}

/// The CRDs of `kubeadm_crds` as files for `manifests/crds-kubeadm-control-plane`: the name and the
/// text of each.
///
/// # Errors
/// The errors of `kubeadm_crds`.
pub fn kubeadm_crd_files(files: &[RuleFile]) -> Result<Vec<(String, String)>, CrdError> {
    as_files(&kubeadm_crds(files)?, REGENERATE_KUBEADM)
}

fn as_files(definitions: &[Value], command: &str) -> Result<Vec<(String, String)>, CrdError> {
    definitions
        .iter()
        .map(|definition| {
            let file = format!(
                "{}_{}.yaml",
                text_at(definition, "/spec/group"),
                text_at(definition, "/spec/names/plural")
            );
            Ok((
                file,
                format!(
                    "# Generated from core/src/api and webhooks/rules: {command}\n{}",
                    yaml(definition)?
                ),
            ))
        })
        .collect()
}

/// The CRDs of `crds` as one text, for `kubectl apply -f -`.
///
/// # Errors
/// The errors of `crds`.
pub fn crd_yaml(files: &[RuleFile]) -> Result<String, CrdError> {
    let texts: Vec<String> = crd_files(files)?.into_iter().map(|(_, text)| text).collect();
    Ok(texts.join("---\n"))
}

fn yaml(definition: &Value) -> Result<String, CrdError> {
    serde_saphyr::to_string(definition).map_err(|error| CrdError::Yaml {
        name: name(definition).to_owned(),
        reason: error.to_string(),
    })
}

/// The name of a CRD, such as `machines.machine.openshift.io`.
pub fn name(definition: &Value) -> &str {
    text_at(definition, "/metadata/name")
}

/// The served versions of a CRD with their schemas, for `Schema::parse`.
pub fn schemas(definition: &Value) -> impl Iterator<Item = (&str, &Value)> {
    let versions = definition.pointer("/spec/versions").and_then(Value::as_array);
    versions.into_iter().flatten().filter_map(|version| {
        let schema = version.pointer("/schema/openAPIV3Schema")?;
        Some((text_at(version, "/name"), schema))
    })
}

/// The schema of the stored version of a CRD, for `Schema::parse`.
pub fn schema(definition: &Value) -> Option<&Value> {
    definition.pointer("/spec/versions/0/schema/openAPIV3Schema")
}

fn text_at<'v>(value: &'v Value, pointer: &str) -> &'v str {
    value.pointer(pointer).and_then(Value::as_str).unwrap_or_default()
}

const AGE: &str = ".metadata.creationTimestamp";

/// An integer column with a description.
fn count(name: &str, field: &str, what: &str) -> Map<String, Value> {
    let mut column = column(name, "integer", field, 0);
    column.insert("description".into(), Value::from(what));
    column
}

fn control_plane_definition() -> Value {
    let mut version = Version::new(
        "v1alpha1",
        owned_schema::<ControlPlane>(Unknown::Prune),
        &[
            count("Desired", ".spec.replicas", "Desired number of machines"),
            count("Current", ".status.replicas", "Number of machines"),
            count("Ready", ".status.readyReplicas", "Number of ready machines"),
            count(
                "Updated",
                ".status.updatedReplicas",
                "Number of machines that match the provider spec",
            ),
            count(
                "Unavailable",
                ".status.unavailableReplicas",
                "Number of machines that are missing or not ready",
            ),
            column("Autorepair", "boolean", ".spec.enableautorepair", 0),
            column("Failure", "string", ".status.failureReason", 1),
            column("Age", "date", AGE, 0),
        ],
    );
    version.scale = Some(".status.selector");
    definition(
        &machine_api(control_plane::KIND, control_plane::PLURAL, &["cp"]),
        &version,
    )
}

fn control_plane_machine_set() -> Value {
    let mut state = column("State", "string", ".spec.state", 0);
    state.insert("description".into(), "Whether the set manages the machines".into());
    let mut version = Version::new(
        "v1",
        owned_schema::<ControlPlaneMachineSet>(Unknown::Prune),
        &[
            count("Desired", ".spec.replicas", "Desired number of machines"),
            count("Current", ".status.replicas", "Number of machines"),
            count("Ready", ".status.readyReplicas", "Number of ready machines"),
            count(
                "Updated",
                ".status.updatedReplicas",
                "Number of machines that are ready and match the template",
            ),
            count(
                "Unavailable",
                ".status.unavailableReplicas",
                "Number of indexes without a ready machine",
            ),
            state,
            column("Age", "date", AGE, 0),
        ],
    );
    version.scale = Some(".status.selector");
    definition(&machine_api(cpms::KIND, cpms::PLURAL, &["cpms"]), &version)
}

fn machine() -> Value {
    let label = |name, label: &str| {
        column(
            name,
            "string",
            &format!(".metadata.labels['machine\\.openshift\\.io/{label}']"),
            0,
        )
    };
    let version = Version::new(
        "v1beta1",
        owned_schema::<Machine>(Unknown::Keep),
        &[
            column("Phase", "string", ".status.phase", 0),
            label("Type", "instance-type"),
            label("Region", "region"),
            label("Zone", "zone"),
            authority(),
            synchronized(),
            column("Age", "date", AGE, 0),
            column("Node", "string", ".status.nodeRef.name", 1),
            column("ProviderID", "string", ".spec.providerID", 1),
            column(
                "State",
                "string",
                ".metadata.annotations['machine\\.openshift\\.io/instance-state']",
                1,
            ),
            paused(),
        ],
    );
    definition(&machine_api(machine::KIND, machine::PLURAL, &[]), &version)
}

fn machine_set() -> Value {
    let mut version = Version::new(
        "v1beta1",
        owned_schema::<MachineSet>(Unknown::Keep),
        &[
            column("Desired", "integer", ".spec.replicas", 0),
            column("Current", "integer", ".status.replicas", 0),
            column("Ready", "integer", ".status.readyReplicas", 0),
            column("Available", "integer", ".status.availableReplicas", 0),
            authority(),
            synchronized(),
            column("Age", "date", AGE, 0),
            paused(),
        ],
    );
    version.scale = Some(".status.labelSelector");
    definition(&machine_api(machine_set::KIND, machine_set::PLURAL, &[]), &version)
}

fn machine_health_check() -> Value {
    let version = Version::new(
        "v1beta1",
        owned_schema::<MachineHealthCheck>(Unknown::Keep),
        &[
            column("MaxUnhealthy", "string", ".spec.maxUnhealthy", 0),
            column("ExpectedMachines", "integer", ".status.expectedMachines", 0),
            column("CurrentHealthy", "integer", ".status.currentHealthy", 0),
            authority(),
            synchronized(),
            column("Age", "date", AGE, 0),
            paused(),
        ],
    );
    definition(
        &machine_api(
            machine_health_check::KIND,
            machine_health_check::PLURAL,
            &["mhc", "mhcs"],
        ),
        &version,
    )
}

struct Names {
    group: &'static str,
    kind: &'static str,
    plural: &'static str,
    short_names: &'static [&'static str],
    scope: &'static str,
}

fn machine_api(kind: &'static str, plural: &'static str, short_names: &'static [&'static str]) -> Names {
    Names {
        group: machine_openshift_io::GROUP,
        kind,
        plural,
        short_names,
        scope: "Namespaced",
    }
}

struct Version {
    name: &'static str,
    schema: Value,
    columns: Vec<Value>,
    /// The path of the selector for the scale subresource; `None` for a kind without one.
    scale: Option<&'static str>,
}

impl Version {
    fn new(name: &'static str, schema: Value, columns: &[Map<String, Value>]) -> Self {
        Self {
            name,
            schema: with_type_meta(schema),
            columns: columns.iter().cloned().map(Value::Object).collect(),
            scale: None,
        }
    }
}

fn column(name: &str, kind: &str, path: &str, priority: i32) -> Map<String, Value> {
    let mut column = Map::new();
    column.insert("name".into(), name.into());
    column.insert("type".into(), kind.into());
    column.insert("jsonPath".into(), path.into());
    if priority > 0 {
        column.insert("priority".into(), priority.into());
    }
    column
}

/// A column with the status of a condition.
fn condition(name: &str, type_: &str, priority: i32) -> Map<String, Value> {
    let path = format!(".status.conditions[?(@.type==\"{type_}\")].status");
    column(name, "string", &path, priority)
}

/// The column of the authoritative API.
fn authority() -> Map<String, Value> {
    let mut column = column("Authority", "string", ".status.authoritativeAPI", 0);
    column.insert("description".into(), "API whose object is authoritative".into());
    column
}

/// The column of the condition Synchronized.
fn synchronized() -> Map<String, Value> {
    let mut column = condition("Synced", SYNCHRONIZED, 0);
    column.insert(
        "description".into(),
        "Whether the mirror agrees with the authoritative object".into(),
    );
    column
}

/// The column of the condition Paused.
fn paused() -> Map<String, Value> {
    condition("Paused", PAUSED, 1)
}

/// The schema of a kind that Capstan owns. A kind without a status here keeps the status that it is
/// given.
fn owned_schema<T: JsonSchema>(unknown: Unknown) -> Value {
    let mut schema = schema_of::<T>(unknown);
    if let Some(properties) = schema.get_mut("properties").and_then(Value::as_object_mut) {
        properties
            .entry("status")
            .or_insert_with(|| json!({"type": "object", "x-kubernetes-preserve-unknown-fields": true}));
    }
    schema
}

/// The API server validates type and metadata. The schema only declares them.
fn with_type_meta(mut schema: Value) -> Value {
    if let Some(properties) = schema.get_mut("properties").and_then(Value::as_object_mut) {
        let text = |description: &str| json!({"type": "string", "description": description});
        properties.insert(
            "apiVersion".into(),
            text("Group and version of the schema that this object follows."),
        );
        properties.insert("kind".into(), text("The kind of this object, in CamelCase."));
        properties.insert("metadata".into(), json!({"type": "object"}));
    }
    schema
}

fn definition(names: &Names, version: &Version) -> Value {
    let mut subresources = json!({"status": {}});
    if let (Some(selector), Some(subresources)) = (version.scale, subresources.as_object_mut()) {
        subresources.insert(
            "scale".into(),
            json!({
                "specReplicasPath": ".spec.replicas",
                "statusReplicasPath": ".status.replicas",
                "labelSelectorPath": selector,
            }),
        );
    }
    let mut spoken = json!({
        "kind": names.kind,
        "listKind": format!("{}List", names.kind),
        "plural": names.plural,
        "singular": names.kind.to_lowercase(),
    });
    if let (false, Some(spoken)) = (names.short_names.is_empty(), spoken.as_object_mut()) {
        spoken.insert("shortNames".into(), names.short_names.into());
    }
    json!({
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {
            "name": format!("{}.{}", names.plural, names.group),
            // Without it, nothing tells the CRD from one of another program.
            "labels": {"app.kubernetes.io/name": "capstan"},
        },
        "spec": {
            "group": names.group,
            "names": spoken,
            "scope": names.scope,
            "versions": [{
                "name": version.name,
                "served": true,
                "storage": true,
                "schema": {"openAPIV3Schema": version.schema},
                "subresources": subresources,
                "additionalPrinterColumns": version.columns,
            }],
        },
    })
}

/// Adds a rule at its path; `None` if the schema has no such path.
fn inject(schema: &mut Value, rule: &Rule) -> Option<()> {
    let mut node = schema;
    let segments = rule.segments();
    for (position, segment) in segments.iter().enumerate() {
        node = match segment {
            Segment::Field(field) => {
                // The API server knows the schema of metadata. A rule about the name requires that
                // the schema declares the name.
                if position == 1 && field == "name" && segments.first() == Some(&Segment::Field("metadata".into())) {
                    node.as_object_mut()?
                        .entry("properties")
                        .or_insert_with(|| json!({"name": {"type": "string"}}));
                }
                node.get_mut("properties")?.get_mut(field)?
            }
            Segment::Items | Segment::ItemsBy(_) => node.get_mut("items")?,
        };
    }
    let validations = node
        .as_object_mut()?
        .entry("x-kubernetes-validations")
        .or_insert_with(|| json!([]));
    validations.as_array_mut()?.push(json!({
        "rule": rule.expression,
        "message": rule.message,
        "reason": rule.reason,
    }));
    Some(())
}
