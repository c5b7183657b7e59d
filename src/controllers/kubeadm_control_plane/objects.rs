//! What the controller of KubeadmControlPlanes watches, and the types in which it keeps the
//! objects.

use std::sync::OnceLock;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use capstan_core::api::cluster_x_k8s_io::label;
use capstan_core::api::kind::KindInfo;
use capstan_core::api::kinds::{self, Reader};
use capstan_core::api::meta::ObjectMeta;
use capstan_core::api::objects::{CachedObject, Undecodable};
use capstan_core::kcp::certificates::FoundSecret;
use capstan_core::kcp::observed::{ReadObject, SnapshotError};
use jiff::Timestamp;
use serde::{Deserialize, Deserializer};
use serde_json::{Value, json};

use crate::runtime::Watch;
use crate::workload;

/// Secrets.
pub static SECRETS: KindInfo = KindInfo::namespaced("", "v1", "Secret", "secrets");

/// A whole object, as JSON, and read once it is needed.
#[derive(Clone, Debug)]
pub struct WholeObject {
    pub(super) metadata: ObjectMeta,
    pub(super) value: Value,
    read: OnceLock<Result<ReadObject, SnapshotError>>,
}

impl PartialEq for WholeObject {
    fn eq(&self, other: &Self) -> bool {
        self.value == other.value
    }
}

impl CachedObject for WholeObject {
    fn metadata(&self) -> Option<&ObjectMeta> {
        Some(&self.metadata)
    }

    fn decode(object: Value) -> Result<Self, Undecodable> {
        Ok(Self::of(object))
    }
}

impl<'de> Deserialize<'de> for WholeObject {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        Value::deserialize(deserializer).map(Self::of)
    }
}

impl WholeObject {
    /// Never fails for an object: what cannot be decoded stays in the JSON.
    fn of(value: Value) -> Self {
        let metadata = value
            .get("metadata")
            .and_then(|known| ObjectMeta::deserialize(known).ok());
        Self {
            metadata: metadata.unwrap_or_default(),
            value,
            read: OnceLock::new(),
        }
    }

    /// The object as core reads it. A version of an object is read once.
    pub(super) fn read(&self, kind: &KindInfo) -> Result<ReadObject, SnapshotError> {
        self.read.get_or_init(|| ReadObject::of(&self.of_kind(kind))).clone()
    }

    /// The object as the API server stores it. Items of a list have no `apiVersion` and `kind`.
    pub fn value(&self) -> &Value {
        &self.value
    }

    /// The object with its `apiVersion` and `kind`, which the items of a list do not have.
    pub(super) fn of_kind(&self, kind: &KindInfo) -> Value {
        let mut value = self.value.clone();
        if let Some(fields) = value.as_object_mut() {
            fields.insert(String::from("apiVersion"), json!(kind.api_version()));
            fields.insert(String::from("kind"), json!(kind.kind));
        }
        value
    }

    /// The name of the Cluster that it belongs to: its own field, or else its label.
    pub(super) fn cluster(&self) -> &str {
        let field = self.value.pointer("/spec/clusterName").and_then(Value::as_str);
        let label = self.metadata.labels.get(label::CLUSTER).map(String::as_str);
        field.filter(|name| !name.is_empty()).or(label).unwrap_or_default()
    }
}

/// A Secret of a Cluster without its contents: they are dropped before it is kept.
#[derive(Clone, Debug, PartialEq, Deserialize)]
pub struct SecretSummary {
    pub(super) metadata: ObjectMeta,
    #[serde(default, rename = "type")]
    pub(super) type_: String,
    #[serde(default)]
    pub(super) has_certificate: bool,
    #[serde(default)]
    pub(super) has_key: bool,
    /// When the client certificate of a kubeconfig expires.
    #[serde(default)]
    pub(super) expires: Option<Timestamp>,
}

impl CachedObject for SecretSummary {
    fn metadata(&self) -> Option<&ObjectMeta> {
        Some(&self.metadata)
    }

    fn slim(object: &mut Value) {
        let has = |key: &str| {
            let value = object.pointer(&format!("/data/{key}")).and_then(Value::as_str);
            value.is_some_and(|text| !text.is_empty())
        };
        let (has_certificate, has_key) = (has("tls.crt"), has("tls.key"));
        let kubeconfig = object.pointer("/data/value").and_then(Value::as_str);
        let kubeconfig = kubeconfig.and_then(|encoded| STANDARD.decode(encoded).ok());
        let expires = kubeconfig.and_then(|bytes| workload::kubeconfig_expiry(&bytes));
        if let Some(fields) = object.as_object_mut() {
            fields.retain(|field, _| field == "metadata" || field == "type");
            fields.insert(String::from("has_certificate"), json!(has_certificate));
            fields.insert(String::from("has_key"), json!(has_key));
            fields.insert(String::from("expires"), json!(expires));
        }
    }
}

impl SecretSummary {
    /// The version: that of a Secret which is created again is another one.
    pub(super) fn version(&self) -> String {
        let version = self.metadata.resource_version.as_deref().unwrap_or_default();
        format!("{} {version}", self.metadata.uid())
    }

    /// As core reads it.
    pub(super) fn found(&self) -> FoundSecret {
        FoundSecret {
            name: self.metadata.name().to_owned(),
            type_: self.type_.clone(),
            has_certificate: self.has_certificate,
            has_key: self.has_key,
            controller: self.metadata.controller().cloned(),
        }
    }
}

/// A Secret with a certificate and its key. It is read for one use and kept nowhere.
#[derive(Clone, PartialEq)]
pub(super) struct KeySecret {
    pub(super) certificate: String,
    pub(super) key: String,
}

impl std::fmt::Debug for KeySecret {
    /// Never prints the key.
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.write_str("KeySecret")
    }
}

impl CachedObject for KeySecret {
    fn metadata(&self) -> Option<&ObjectMeta> {
        None
    }
}

impl<'de> Deserialize<'de> for KeySecret {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let object = Value::deserialize(deserializer)?;
        let text = |key: &str| {
            let encoded = object.pointer(&format!("/data/{key}")).and_then(Value::as_str);
            let bytes = encoded.and_then(|encoded| STANDARD.decode(encoded).ok());
            bytes
                .and_then(|bytes| String::from_utf8(bytes).ok())
                .unwrap_or_default()
        };
        Ok(Self {
            certificate: text("tls.crt"),
            key: text("tls.key"),
        })
    }
}

/// What is watched, in all namespaces.
pub(super) fn watches() -> Vec<Watch> {
    let entries = kinds::all().filter(|entry| entry.is_read_by(Reader::KubeadmControlPlaneControllers));
    let mut watches: Vec<Watch> = entries.map(|entry| Watch::of::<WholeObject>(&entry.kind)).collect();
    watches.push(Watch::of::<SecretSummary>(&SECRETS).labelled(label::CLUSTER));
    watches
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_contents_of_a_secret_are_not_kept() {
        let mut object = json!({"metadata": {"name": "c-ca"}, "type": "cluster.x-k8s.io/secret",
            "data": {"tls.crt": "Zm9v", "tls.key": ""}});
        SecretSummary::slim(&mut object);
        assert!(!object.to_string().contains("Zm9v"));
        let found = SecretSummary::deserialize(&object).unwrap().found();
        assert!(found.has_certificate && !found.has_key);
        assert_eq!(found.type_, "cluster.x-k8s.io/secret");
    }

    #[test]
    fn a_key_is_decoded_and_never_printed() {
        let object = json!({"data": {"tls.crt": "Zm9v", "tls.key": "YmFy"}});
        let secret = KeySecret::deserialize(&object).unwrap();
        assert_eq!((secret.certificate.as_str(), secret.key.as_str()), ("foo", "bar"));
        assert_eq!(format!("{secret:?}"), "KeySecret");
    }
}
