//! The kinds that are served, and the rules that apply to some of them only.
//!
//! A custom kind behaves as its CustomResourceDefinition defines, through the schema engine of
//! core. The built-in kinds are those that the controllers of Capstan use. Their schemas contain
//! the fields that the controllers read and write, and the fields that the API server sets.

use std::sync::Arc;

use anyhow::Context as _;
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use capstan_core::cel::rules::RuleFile;
use capstan_core::schema::{Definition, Schema};
use serde_json::{Value, json};

use super::object::{Object, put};

/// The scope of a kind.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Scope {
    /// The objects are in namespaces.
    Namespaced,
    /// The objects are in no namespace.
    Cluster,
}

/// A kind that is served.
#[derive(Debug)]
pub struct Kind {
    /// Group; empty for the core group.
    pub group: String,
    /// Version.
    pub version: String,
    /// Group and version, as in the `apiVersion` of an object.
    pub api_version: String,
    /// Kind.
    pub kind: String,
    /// Plural name, as in a URL.
    pub plural: String,
    /// Its scope.
    pub scope: Scope,
    /// Whether the status is a subresource.
    pub status: bool,
    /// The paths of the scale subresource.
    pub(super) scale: Option<ScalePaths>,
    /// Whether an update can omit the resource version.
    pub(super) unconditional: bool,
    /// Whether an update of an object that does not exist creates it.
    pub(super) create_on_update: bool,
    pub(super) shape: Shape,
}

/// The paths of the scale subresource as JSON pointers.
#[derive(Clone, Debug)]
pub(super) struct ScalePaths {
    pub(super) spec: String,
    pub(super) status: String,
    pub(super) selector: Option<String>,
}

#[derive(Debug)]
pub(super) enum Shape {
    Custom(Box<Definition>),
    BuiltIn(Box<Schema>),
}

impl Kind {
    /// The kind of a CustomResourceDefinition, in its storage version.
    ///
    /// # Errors
    /// The CRD cannot be used.
    pub fn of_definition(definition: &Value) -> anyhow::Result<Self> {
        let text = |pointer: &str| -> anyhow::Result<String> {
            let text = definition.pointer(pointer).and_then(Value::as_str);
            Ok(text.with_context(|| format!("the CRD must have {pointer}"))?.to_owned())
        };
        let versions = definition.pointer("/spec/versions").and_then(Value::as_array);
        let version = versions
            .into_iter()
            .flatten()
            .find(|version| version.get("storage") == Some(&Value::Bool(true)))
            .context("the CRD must have a storage version")?;
        let scale = version.pointer("/subresources/scale").map(|scale| {
            let pointer = |field: &str| {
                let path = scale.get(field).and_then(Value::as_str).filter(|path| !path.is_empty());
                path.map(|path| path.replace('.', "/"))
            };
            ScalePaths {
                spec: pointer("specReplicasPath").unwrap_or_default(),
                status: pointer("statusReplicasPath").unwrap_or_default(),
                selector: pointer("labelSelectorPath"),
            }
        });
        let shape = Definition::parse(definition, None, &RuleFile::default())?;
        let group = text("/spec/group")?;
        let version = version.get("name").and_then(Value::as_str).unwrap_or_default();
        Ok(Self {
            api_version: api_version(&group, version),
            group,
            version: version.to_owned(),
            kind: text("/spec/names/kind")?,
            plural: text("/spec/names/plural")?,
            scope: if text("/spec/scope")? == "Cluster" {
                Scope::Cluster
            } else {
                Scope::Namespaced
            },
            status: shape.status_apart(),
            scale,
            unconditional: false,
            create_on_update: false,
            shape: Shape::Custom(Box::new(shape)),
        })
    }

    fn built_in(group: &str, kind: &str, plural: &str, scope: Scope, schema: &Value) -> anyhow::Result<Self> {
        let version = "v1";
        Ok(Self {
            group: group.to_owned(),
            version: version.to_owned(),
            api_version: api_version(group, version),
            kind: kind.to_owned(),
            plural: plural.to_owned(),
            scope,
            status: schema.pointer("/properties/status").is_some(),
            scale: None,
            unconditional: true,
            create_on_update: false,
            shape: Shape::BuiltIn(Box::new(Schema::parse(schema, &RuleFile::default())?)),
        })
    }

    /// Namespace, ConfigMap, Secret, Node, Event and Lease.
    ///
    /// # Errors
    /// Never: the schemas are constants, which a test parses.
    pub fn built_ins() -> anyhow::Result<Vec<Self>> {
        let (cluster, namespaced) = (Scope::Cluster, Scope::Namespaced);
        let mut lease = Self::built_in("coordination.k8s.io", "Lease", "leases", namespaced, &lease())?;
        lease.unconditional = false;
        lease.create_on_update = true;
        let mut event = Self::built_in("", "Event", "events", namespaced, &event())?;
        event.create_on_update = true;
        Ok(vec![
            Self::built_in("", "Namespace", "namespaces", cluster, &namespace())?,
            Self::built_in("", "ConfigMap", "configmaps", namespaced, &config_map())?,
            Self::built_in("", "Secret", "secrets", namespaced, &secret())?,
            Self::built_in("", "Node", "nodes", cluster, &node())?,
            event,
            lease,
        ])
    }

    /// Whether a CustomResourceDefinition defines it.
    pub fn is_custom(&self) -> bool {
        matches!(self.shape, Shape::Custom(_))
    }

    /// The name in messages, such as `machines.machine.openshift.io`.
    pub fn resource(&self) -> String {
        if self.group.is_empty() {
            self.plural.clone()
        } else {
            format!("{}.{}", self.plural, self.group)
        }
    }

    pub(super) fn schema(&self) -> &Schema {
        match &self.shape {
            Shape::Custom(definition) => &definition.schema,
            Shape::BuiltIn(schema) => schema,
        }
    }

    /// Sets what the API server sets in a new object of a built-in kind, beyond the defaults of its
    /// schema.
    pub(super) fn on_create(&self, object: &mut Object) {
        match self.plural.as_str() {
            "namespaces" => {
                let name = object.pointer("/metadata/name").cloned().unwrap_or_default();
                object.insert("spec", json!({"finalizers": ["kubernetes"]}));
                object.insert("status", json!({"phase": "Active"}));
                label_namespace(object, &name);
            }
            // The admission plugin TaintNodesByCondition.
            "nodes" => {
                let taint = json!({"key": "node.kubernetes.io/not-ready", "effect": "NoSchedule"});
                if let Some(spec) = object.get_mut("spec").and_then(Value::as_object_mut) {
                    let taints = spec.entry("taints").or_insert_with(|| json!([]));
                    if let Some(taints) = taints.as_array_mut()
                        && !taints.contains(&taint)
                    {
                        taints.push(taint);
                    }
                }
            }
            _ => {}
        }
    }

    /// An empty object of the kind. One of a built-in kind has the fields that its Go type always
    /// encodes.
    pub(super) fn empty(&self) -> Value {
        let mut empty = json!({"apiVersion": self.api_version, "kind": self.kind, "metadata": {}});
        if !self.is_custom() {
            self.schema().set_defaults(&mut empty);
            if self.plural == "namespaces" {
                put(&mut empty, "spec", json!({}));
                put(&mut empty, "status", json!({}));
            }
        }
        empty
    }

    /// Sets the fields that the Go type of a built-in kind encodes even when they are empty.
    pub(super) fn finish(&self, object: &mut Object) {
        if self.plural == "namespaces" {
            let name = object.pointer("/metadata/name").cloned().unwrap_or_default();
            label_namespace(object, &name);
        }
        if self.plural == "configmaps" {
            for field in ["data", "binaryData"] {
                let map = object.get(field).and_then(Value::as_object);
                if map.is_some_and(serde_json::Map::is_empty) {
                    object.remove(field);
                }
            }
        }
        if self.plural == "secrets" {
            finish_secret(object);
        }
        if self.plural == "nodes" {
            finish_node(object);
        }
        if self.plural == "events" {
            for field in ["eventTime", "firstTimestamp", "lastTimestamp"] {
                if object.get(field).is_none() {
                    object.insert(field, Value::Null);
                }
            }
        }
    }

    /// Whether `metadata.generation` is set.
    pub(super) fn has_generation(&self) -> bool {
        self.is_custom()
    }
}

fn api_version(group: &str, version: &str) -> String {
    if group.is_empty() {
        version.to_owned()
    } else {
        format!("{group}/{version}")
    }
}

/// The times of a condition that its Go type encodes as null when they are unset.
const CONDITION_TIMES: [&str; 2] = ["lastHeartbeatTime", "lastTransitionTime"];

fn finish_node(node: &mut Object) {
    let finished = |condition: &Value| {
        CONDITION_TIMES.iter().all(|field| condition.get(field).is_some())
            && condition
                .as_object()
                .is_some_and(|fields| fields.values().all(|value| value.as_str() != Some("")))
    };
    let is_finished = node.get("status").is_none_or(|status| {
        let conditions = status.get("conditions").and_then(Value::as_array);
        (status.get("capacity").is_none() || status.get("allocatable").is_some())
            && conditions.into_iter().flatten().all(finished)
    });
    if is_finished {
        return;
    }
    let Some(status) = node.get_mut("status").and_then(Value::as_object_mut) else {
        return;
    };
    if let (Some(capacity), None) = (status.get("capacity").cloned(), status.get("allocatable")) {
        status.insert("allocatable".into(), capacity);
    }
    let conditions = status.get_mut("conditions").and_then(Value::as_array_mut);
    for condition in conditions.into_iter().flatten().filter_map(Value::as_object_mut) {
        for field in CONDITION_TIMES {
            condition.entry(field).or_insert(Value::Null);
        }
        condition.retain(|_, value| value.as_str() != Some(""));
    }
}

fn label_namespace(object: &mut Object, name: &Value) {
    if object.pointer("/metadata/labels/kubernetes.io~1metadata.name") == Some(name) {
        return;
    }
    let labels = object
        .get_mut("metadata")
        .and_then(Value::as_object_mut)
        .map(|meta| meta.entry("labels").or_insert_with(|| json!({})));
    if let Some(labels) = labels.and_then(Value::as_object_mut) {
        labels.insert("kubernetes.io/metadata.name".into(), name.clone());
    }
}

fn object(properties: &Value) -> Value {
    json!({"type": "object", "properties": properties})
}

fn strings() -> Value {
    json!({"type": "object", "additionalProperties": {"type": "string"}})
}

fn namespace() -> Value {
    object(&json!({
        "spec": object(&json!({"finalizers": {"type": "array", "items": {"type": "string"}}})),
        "status": object(&json!({"phase": {"type": "string"}})),
    }))
}

fn config_map() -> Value {
    object(&json!({"data": strings(), "binaryData": strings(), "immutable": {"type": "boolean"}}))
}

fn secret() -> Value {
    let text = json!({"type": "string"});
    object(&json!({"data": strings(), "stringData": strings(), "type": text, "immutable": {"type": "boolean"}}))
}

/// The API server encodes `stringData` into `data`, and sets the type.
fn finish_secret(secret: &mut Object) {
    if let Some(Value::Object(texts)) = secret.remove("stringData").map(Arc::unwrap_or_clone) {
        let mut data = match secret.get("data") {
            Some(Value::Object(data)) => data.clone(),
            _ => serde_json::Map::new(),
        };
        let encoded = texts.into_iter().map(|(key, text)| {
            let text = text.as_str().unwrap_or_default();
            (key, Value::from(STANDARD.encode(text)))
        });
        data.extend(encoded);
        secret.insert("data", Value::Object(data));
    }
    if secret.get("type").is_none() {
        secret.insert("type", json!("Opaque"));
    }
}

fn node() -> Value {
    let text = json!({"type": "string"});
    let keyed = |keys: &[&str], properties: &Value| {
        json!({"type": "array", "x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": keys,
               "items": object(properties)})
    };
    let info: Vec<&str> = vec![
        "architecture",
        "bootID",
        "containerRuntimeVersion",
        "kernelVersion",
        "kubeProxyVersion",
        "kubeletVersion",
        "machineID",
        "operatingSystem",
        "osImage",
        "systemUUID",
    ];
    let empty: Value = info
        .iter()
        .map(|field| ((*field).to_owned(), json!("")))
        .collect::<serde_json::Map<_, _>>()
        .into();
    let fields: Value = info
        .iter()
        .map(|field| ((*field).to_owned(), json!({"type": "string", "default": ""})))
        .collect::<serde_json::Map<_, _>>()
        .into();
    let endpoints = json!({"kubeletEndpoint": {"Port": 0}});
    let mut spec = object(&json!({
        "podCIDR": text, "podCIDRs": {"type": "array", "x-kubernetes-list-type": "set", "items": text},
        "providerID": text, "unschedulable": {"type": "boolean"},
        "taints": {"type": "array", "items": object(&json!({"key": text, "value": text, "effect": text, "timeAdded": text}))},
    }));
    let condition = json!({"type": text, "status": text, "reason": text, "message": text,
        "lastHeartbeatTime": {"type": "string", "nullable": true}, "lastTransitionTime": {"type": "string", "nullable": true}});
    let mut status = object(&json!({
        "addresses": keyed(&["type"], &json!({"type": text, "address": text})),
        "conditions": keyed(&["type"], &condition),
        "capacity": strings(), "allocatable": strings(),
        "daemonEndpoints": {"type": "object", "default": endpoints, "x-kubernetes-preserve-unknown-fields": true},
        "nodeInfo": {"type": "object", "default": empty, "properties": fields},
    }));
    for (part, default) in [
        (&mut spec, json!({})),
        (&mut status, json!({"daemonEndpoints": endpoints, "nodeInfo": empty})),
    ] {
        if let Some(part) = part.as_object_mut() {
            part.insert("default".into(), default);
        }
    }
    object(&json!({"spec": spec, "status": status}))
}

fn event() -> Value {
    let text = json!({"type": "string"});
    let source = json!({"component": text, "host": text});
    let reference = json!({"apiVersion": text, "kind": text, "name": text, "namespace": text, "uid": text,
        "resourceVersion": text, "fieldPath": text});
    let always = json!({"type": "string", "default": ""});
    let time = json!({"type": "string", "nullable": true});
    object(&json!({
        "involvedObject": {"type": "object", "default": {}, "properties": reference}, "related": object(&reference),
        "source": {"type": "object", "default": {}, "properties": source},
        "reason": text, "message": text, "type": text, "action": text, "count": {"type": "integer"},
        "eventTime": time, "firstTimestamp": time, "lastTimestamp": time,
        "reportingComponent": always, "reportingInstance": always,
    }))
}

fn lease() -> Value {
    let text = json!({"type": "string"});
    let mut spec = object(&json!({
        "holderIdentity": text, "leaseDurationSeconds": {"type": "integer", "minimum": 1},
        "leaseTransitions": {"type": "integer", "minimum": 0}, "acquireTime": text, "renewTime": text,
        "preferredHolder": text, "strategy": text,
    }));
    if let Some(spec) = spec.as_object_mut() {
        spec.insert("default".into(), json!({}));
    }
    object(&json!({"spec": spec}))
}
