//! The two formats of the configuration of kubeadm: `v1beta3`, and `v1beta4` from Kubernetes 1.31
//! on.
//!
//! They differ in the arguments of components, which are a map in the one and a list in the other,
//! and in fields that only the newer one has. Nothing here knows the spec of a control plane.

use serde_json::{Map, Value, json};

use crate::kcp::version::Version;

/// The group of both formats.
const GROUP: &str = "kubeadm.k8s.io";
/// Fields that only `v1beta4` has.
const NEWER: [&str; 4] = [
    "caCertificateValidityPeriod",
    "certificateValidityPeriod",
    "encryptionAlgorithm",
    "proxy",
];

/// A format.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Format {
    V1Beta3,
    V1Beta4,
}

impl Format {
    /// The format that kubeadm of a version writes; `None` before 1.22.
    pub(super) fn of(version: &Version) -> Option<Self> {
        match version.core {
            core if core < [1, 22, 0] => None,
            core if core < [1, 31, 0] => Some(Self::V1Beta3),
            _ => Some(Self::V1Beta4),
        }
    }

    fn api_version(self) -> String {
        let version = match self {
            Self::V1Beta3 => "v1beta3",
            Self::V1Beta4 => "v1beta4",
        };
        format!("{GROUP}/{version}")
    }

    /// Gives the options of a component, which may have either format, this format.
    pub(super) fn component(self, options: &mut Value) {
        let Some(fields) = options.as_object_mut() else { return };
        if let Some(arguments) = fields.get_mut("extraArgs") {
            *arguments = match self {
                Self::V1Beta3 => as_map(arguments),
                Self::V1Beta4 => as_list(arguments),
            };
        }
        match self {
            Self::V1Beta3 => fields.remove("extraEnvs"),
            Self::V1Beta4 => fields.remove("timeoutForControlPlane"),
        };
    }
}

/// Arguments as a map. The last value of a name counts.
fn as_map(arguments: &Value) -> Value {
    let Some(list) = arguments.as_array() else {
        return arguments.clone();
    };
    let pairs = list.iter().filter_map(|argument| {
        let name = argument.get("name")?.as_str()?.to_owned();
        Some((name, argument.get("value").cloned().unwrap_or_else(|| json!(""))))
    });
    pairs.collect()
}

/// Arguments as a list, ordered by name.
fn as_list(arguments: &Value) -> Value {
    let Some(map) = arguments.as_object() else {
        return arguments.clone();
    };
    map.iter()
        .map(|(name, value)| json!({"name": name, "value": value}))
        .collect()
}

/// Reads a configuration. An empty text is an empty configuration.
///
/// # Errors
/// What must be true of the text.
pub(super) fn read(text: &str) -> Result<(Map<String, Value>, Option<Format>), String> {
    let place = "the key ClusterConfiguration of the ConfigMap kube-system/kubeadm-config";
    if text.trim().is_empty() {
        return Ok((Map::new(), None));
    }
    let Ok(Value::Object(fields)) = serde_saphyr::from_str::<Value>(text) else {
        return Err(format!("{place} must contain an object in YAML"));
    };
    let api_version = fields.get("apiVersion").and_then(Value::as_str).unwrap_or_default();
    let mut known = [Format::V1Beta3, Format::V1Beta4].into_iter();
    match known.find(|format| format.api_version() == api_version) {
        Some(format) => Ok((fields, Some(format))),
        None => Err(format!(
            "{place} must have the apiVersion {GROUP}/v1beta3 or {GROUP}/v1beta4, not {api_version:?}"
        )),
    }
}

/// Converts a configuration.
pub(super) fn convert(fields: &mut Map<String, Value>, from: Option<Format>, to: Format) {
    fields.insert(String::from("apiVersion"), json!(to.api_version()));
    fields.insert(String::from("kind"), json!("ClusterConfiguration"));
    if from == Some(to) {
        return;
    }
    for component in super::COMPONENTS {
        if let Some(options) = fields.get_mut(component) {
            to.component(options);
        }
    }
    if let Some(local) = fields.get_mut("etcd").and_then(|etcd| etcd.get_mut("local")) {
        to.component(local);
    }
    if to == Format::V1Beta3 {
        for field in NEWER {
            fields.remove(field);
        }
        if let Some(dns) = fields.get_mut("dns").and_then(Value::as_object_mut) {
            dns.remove("disabled");
        }
    }
}

/// A configuration without empty fields: kubeadm writes them, and they mean nothing.
pub(super) fn meaning(fields: &Map<String, Value>) -> Value {
    let fields: Map<String, Value> = fields
        .iter()
        .map(|(name, value)| (name.clone(), without_empty(value)))
        .filter(|(_, value)| !is_empty(value))
        .collect();
    Value::Object(fields)
}

fn without_empty(value: &Value) -> Value {
    match value {
        Value::Object(fields) => meaning(fields),
        other => other.clone(),
    }
}

fn is_empty(value: &Value) -> bool {
    match value {
        Value::Null => true,
        Value::Object(fields) => fields.is_empty(),
        Value::Array(items) => items.is_empty(),
        Value::String(text) => text.is_empty(),
        _ => false,
    }
}
