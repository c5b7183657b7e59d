//! Reads a KubeadmControlPlane or a template of one into its wire type.
//!
//! Both versions are read; an object of `v1beta1` is converted first. The result is canonical: two
//! objects that mean the same have the same JSON.

use std::borrow::Cow;
use std::collections::BTreeMap;

use serde::de::DeserializeOwned;
use serde_json::Value;

use super::canonical::without_empty_fields;
use super::conversion::to_v1beta2;
use crate::api::controlplane_cluster_x_k8s_io::{API_VERSION, API_VERSION_V1BETA1};
use crate::model::{FieldPath, Violation, ViolationKind};

/// The feature gates of Cluster API that admission depends on.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Gates {
    /// `ClusterTopology`: ClusterClasses and their templates.
    pub cluster_topology: bool,
    /// `KubeadmBootstrapFormatIgnition`: the format `ignition`.
    pub ignition: bool,
    /// `MachineTaintPropagation`: taints in templates of machines.
    pub taints: bool,
}

impl Gates {
    /// The name of the gate of ClusterClasses and their templates.
    pub const CLUSTER_TOPOLOGY: &'static str = "ClusterTopology";
    /// The name of the gate of the format `ignition`.
    pub const IGNITION: &'static str = "KubeadmBootstrapFormatIgnition";
    /// The name of the gate of taints in templates of machines.
    pub const MACHINE_TAINTS: &'static str = "MachineTaintPropagation";

    /// Reads the gates from their names. A gate that is not listed is off, as in Cluster API.
    pub fn of(gates: &BTreeMap<String, bool>) -> Self {
        let is_on = |name: &str| gates.get(name).copied().unwrap_or(false);
        Self {
            cluster_topology: is_on(Self::CLUSTER_TOPOLOGY),
            ignition: is_on(Self::IGNITION),
            taints: is_on(Self::MACHINE_TAINTS),
        }
    }
}

/// The id of the rule about versions.
pub(super) const VERSION_RULE: &str = "kcp-api-version";
/// The id of the rule about types.
pub(super) const TYPE_RULE: &str = "kcp-field-types";

/// Reads an object in either version for the rules. No rule reads conditions, so one that lacks a
/// field must not hide the spec (V304).
///
/// # Errors
/// As for [`read`].
pub(super) fn read_for_rules<T: DeserializeOwned>(object: &Value) -> Result<T, Box<Violation>> {
    read(object).or_else(|violation| {
        let mut without = object.clone();
        let status = without.get_mut("status").and_then(Value::as_object_mut);
        match status.and_then(|status| status.remove("conditions")) {
            Some(_) => read(&without),
            None => Err(violation),
        }
    })
}

/// Reads an object in either version.
///
/// # Errors
/// The version is not served, or a field has a wrong type.
pub(super) fn read<T: DeserializeOwned>(object: &Value) -> Result<T, Box<Violation>> {
    let api_version = object.get("apiVersion").and_then(Value::as_str).unwrap_or_default();
    let current = match api_version {
        API_VERSION => Cow::Borrowed(object),
        API_VERSION_V1BETA1 => Cow::Owned(to_v1beta2(object)),
        other => {
            let allowed = format!("must be {API_VERSION} or {API_VERSION_V1BETA1}");
            let problem = Violation::new(VERSION_RULE, "apiVersion", ViolationKind::NotSupported, allowed);
            let advice = "convert the object to v1beta2";
            return Err(Box::new(problem.got(&Value::from(other)).advice(advice)));
        }
    };
    let object = without_empty_fields(&current);
    serde_path_to_error::deserialize(object).map_err(|error| {
        let path = FieldPath::new(error.path().to_string());
        let is_duration = path.as_str().ends_with("Seconds");
        let (allowed, advice) = if is_duration {
            let allowed = "must be a number of seconds, or in v1beta1 a duration such as 10m0s";
            (allowed.to_owned(), "write the duration with the units h, m, and s")
        } else {
            let allowed = format!("must have the type that the API defines: {}", error.inner());
            (allowed, "kubectl explain shows the type of each field")
        };
        Box::new(Violation::new(TYPE_RULE, path, ViolationKind::TypeInvalid, allowed).advice(advice))
    })
}
