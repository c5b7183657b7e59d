//! The configuration that `kubeadm init` stores in the managed cluster, and that new machines read
//! when they join.
//!
//! The fields that the control plane owns get the values of its spec. Every other field stays as
//! it is, for example the networks and the name of the cluster. The result has the format that
//! kubeadm of the wanted version reads. A configuration that cannot be read is never written over.

mod format;

use serde_json::{Map, Value, json};

use self::format::Format;
use super::desired::{Bootstrap, config};
use super::state::State;
use super::version::Version;
use crate::api::bootstrap_cluster_x_k8s_io::kubeadm_config::ClusterConfiguration;

/// The namespace of the ConfigMap.
pub const NAMESPACE: &str = "kube-system";
/// The name of the ConfigMap.
pub const NAME: &str = "kubeadm-config";
/// The key of the configuration in the ConfigMap.
pub const KEY: &str = "ClusterConfiguration";
/// The components with their own options.
const COMPONENTS: [&str; 3] = ["apiServer", "controllerManager", "scheduler"];

/// The configuration with which new machines join; `None` if the stored one means the same.
///
/// # Errors
/// What must be true of the stored configuration, or of the version.
pub fn updated(state: &State, stored: &str) -> Result<Option<String>, String> {
    change(state, stored, |configuration, format| {
        let spec = &state.control_plane.spec.kubeadm_config_spec.cluster_configuration;
        let version = json!(state.control_plane.spec.version);
        configuration.insert(String::from("kubernetesVersion"), version);
        if *spec != ClusterConfiguration::default() {
            own_fields(state, configuration, format);
        }
    })
}

/// The ClusterRoleBindings that kubeadm expects and that an older kubeadm did not create. They are
/// created before a machine joins, unless they exist.
pub fn permissions(state: &State) -> Vec<Value> {
    let version = Version::tolerant(&state.control_plane.spec.version);
    // From this version on, every supported kubeadm has created them.
    if version.is_none_or(|version| version.core >= [1, 38, 0]) {
        return Vec::new();
    }
    let binding = |name: &str, role: &str, kind: &str, subject: &str| {
        let group = "rbac.authorization.k8s.io";
        json!({
            "apiVersion": format!("{group}/v1"), "kind": "ClusterRoleBinding", "metadata": {"name": name},
            "roleRef": {"apiGroup": group, "kind": "ClusterRole", "name": role},
            "subjects": [{"apiGroup": group, "kind": kind, "name": subject}],
        })
    };
    let (admins, kubelet_user) = ("kubeadm:cluster-admins", "kube-apiserver-kubelet-client");
    let kubelet_role = "system:kubelet-api-admin";
    vec![
        binding(admins, "cluster-admin", "Group", admins),
        binding("kubeadm:apiserver-kubelet-client", kubelet_role, "User", kubelet_user),
    ]
}

/// The configuration with the image of CoreDNS of the spec; `None` if the stored one has it.
///
/// # Errors
/// As [`updated`].
pub fn with_dns(state: &State, stored: &str) -> Result<Option<String>, String> {
    change(state, stored, |configuration, _| {
        let dns = &state.control_plane.spec.kubeadm_config_spec.cluster_configuration.dns;
        within(configuration, "dns", |fields| {
            set_text(fields, "imageRepository", &dns.image_repository);
            set_text(fields, "imageTag", &dns.image_tag);
        });
    })
}

/// Applies a change to the stored text.
fn change(
    state: &State,
    stored: &str,
    apply: impl FnOnce(&mut Map<String, Value>, Format),
) -> Result<Option<String>, String> {
    let wanted = Version::tolerant(&state.control_plane.spec.version)
        .and_then(|version| Format::of(&version))
        .ok_or_else(|| {
            format!(
                "spec.version must be at least v1.22.0, because kubeadm of {} reads no format that is written here",
                state.control_plane.spec.version
            )
        })?;
    let (before, known) = format::read(stored)?;
    let mut after = before.clone();
    format::convert(&mut after, known, wanted);
    apply(&mut after, wanted);
    if format::meaning(&before) == format::meaning(&after) {
        return Ok(None);
    }
    let text = serde_saphyr::to_string(&Value::Object(after));
    text.map(Some)
        .map_err(|error| format!("the configuration cannot be written as YAML: {error}"))
}

/// Sets the fields that the control plane owns.
fn own_fields(state: &State, configuration: &mut Map<String, Value>, format: Format) {
    // A wire type always serialises. Empty fields are absent.
    let whole = serde_json::to_value(&state.control_plane.spec.kubeadm_config_spec.cluster_configuration);
    let spec = whole.unwrap_or_default();
    let of = |field: &str| spec.get(field).cloned();
    if let Some(repository) = of("imageRepository") {
        configuration.insert(String::from("imageRepository"), repository);
    }
    let desired = config(&state.control_plane.spec, Bootstrap::Join).cluster_configuration;
    set(configuration, "featureGates", Some(json!(desired.feature_gates)));
    for component in COMPONENTS {
        let mut fields = of(component).unwrap_or_else(|| json!({}));
        format.component(&mut fields);
        // kubeadm of the older format keeps this timeout here. The spec has it elsewhere.
        let timeout = configuration
            .get(component)
            .and_then(|stored| stored.get("timeoutForControlPlane").cloned());
        if let (Some(fields), Some(timeout)) = (fields.as_object_mut(), timeout) {
            fields.insert(String::from("timeoutForControlPlane"), timeout);
        }
        set(configuration, component, Some(fields));
    }
    if format == Format::V1Beta4 {
        let days = desired.certificate_validity_period_days;
        let period = (days > 0).then(|| json!(format!("{}h0m0s", i64::from(days) * 24)));
        set(configuration, "certificateValidityPeriod", period);
        set(configuration, "encryptionAlgorithm", of("encryptionAlgorithm"));
    }
    etcd(state, configuration, &spec, format);
}

/// Sets the options of etcd. The folder of the data stays if the spec names none: a member would
/// lose its data. Nothing changes while the spec names another etcd than that of the machines.
fn etcd(state: &State, configuration: &mut Map<String, Value>, spec: &Value, format: Format) {
    if !state.with_another_etcd().is_empty() {
        return;
    }
    let wanted = |kind: &str| spec.pointer(&format!("/etcd/{kind}")).cloned();
    within(configuration, "etcd", |stored| {
        if !state.is_etcd_managed() {
            return set(stored, "external", wanted("external"));
        }
        let mut local = wanted("local").unwrap_or_else(|| json!({}));
        format.component(&mut local);
        let folder = stored.get("local").and_then(|local| local.get("dataDir")).cloned();
        if let (Some(local), Some(folder)) = (local.as_object_mut(), folder) {
            local.entry("dataDir").or_insert(folder);
        }
        stored.insert(String::from("local"), local);
    });
}

/// Changes the object in a field. A field of another type is replaced, and one that becomes empty
/// is removed.
fn within(fields: &mut Map<String, Value>, name: &str, apply: impl FnOnce(&mut Map<String, Value>)) {
    let mut below = match fields.remove(name) {
        Some(Value::Object(below)) => below,
        _ => Map::new(),
    };
    apply(&mut below);
    if !below.is_empty() {
        fields.insert(name.to_owned(), Value::Object(below));
    }
}

fn set_text(fields: &mut Map<String, Value>, name: &str, text: &str) {
    set(fields, name, (!text.is_empty()).then(|| json!(text)));
}

/// Sets a field, or removes it.
fn set(fields: &mut Map<String, Value>, name: &str, value: Option<Value>) {
    match value {
        Some(value) => fields.insert(name.to_owned(), value),
        None => fields.remove(name),
    };
}

#[cfg(test)]
mod tests;
