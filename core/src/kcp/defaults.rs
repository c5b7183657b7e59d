//! The defaults of a KubeadmControlPlane, in both versions of the API.

use json_patch::Patch;
use serde_json::{Map, Value};

use crate::api::controlplane_cluster_x_k8s_io::API_VERSION_V1BETA1;
use crate::api::controlplane_cluster_x_k8s_io::kubeadm_control_plane::ROLLING_UPDATE;

/// The fields that a mutating webhook sets. The patch is empty if the object has all defaults.
pub(super) fn patch(object: &Value) -> Patch {
    json_patch::diff(object, &defaulted(object))
}

/// An object with all defaults. A field with a wrong type stays as it is: the validating pass
/// refuses it.
pub(super) fn defaulted(object: &Value) -> Value {
    let mut defaulted = object.clone();
    let _complete = set(&mut defaulted);
    defaulted
}

fn set(object: &mut Value) -> Option<()> {
    let is_v1beta1 = object.get("apiVersion").and_then(Value::as_str) == Some(API_VERSION_V1BETA1);
    let spec = child(object.as_object_mut()?, "spec")?;
    default(spec, "replicas", Value::from(1));
    let version = present(spec, "version").map_or(Some(""), Value::as_str);
    if let Some(version) = version.filter(|version| !version.starts_with('v')) {
        let version = format!("v{version}");
        spec.insert(String::from("version"), Value::from(version));
    }
    let strategy = if is_v1beta1 {
        child(spec, "rolloutStrategy")?
    } else {
        child(child(spec, "rollout")?, "strategy")?
    };
    strategy.insert(String::from("type"), Value::from(ROLLING_UPDATE));
    default(child(strategy, "rollingUpdate")?, "maxSurge", Value::from(1));
    Some(())
}

/// An object in a field, which is created if it is absent; `None` if the field has another type.
fn child<'v>(fields: &'v mut Map<String, Value>, name: &str) -> Option<&'v mut Map<String, Value>> {
    default(fields, name, Value::Object(Map::new()));
    fields.get_mut(name)?.as_object_mut()
}

fn present<'v>(fields: &'v Map<String, Value>, name: &str) -> Option<&'v Value> {
    fields.get(name).filter(|value| !value.is_null())
}

fn default(fields: &mut Map<String, Value>, name: &str, value: Value) {
    if present(fields, name).is_none() {
        fields.insert(name.to_owned(), value);
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn replicas_version_and_strategy_have_defaults() {
        let object = json!({"apiVersion": "controlplane.cluster.x-k8s.io/v1beta2", "spec": {"version": "1.33.1",
            "rollout": {"strategy": {"type": "OnDelete", "rollingUpdate": null}}}});
        let expected = json!({"apiVersion": "controlplane.cluster.x-k8s.io/v1beta2", "spec": {
            "replicas": 1, "version": "v1.33.1",
            "rollout": {"strategy": {"type": "RollingUpdate", "rollingUpdate": {"maxSurge": 1}}}}});
        assert_eq!(defaulted(&object), expected);
        assert!(patch(&expected).0.is_empty());
    }

    #[test]
    fn v1beta1_has_the_same_defaults_under_its_own_names() {
        let object = json!({"apiVersion": API_VERSION_V1BETA1, "spec": {"replicas": 3, "version": "v1.33.1",
            "rolloutStrategy": {"rollingUpdate": {"maxSurge": 0}}}});
        let spec = &defaulted(&object)["spec"];
        assert_eq!(
            spec["rolloutStrategy"],
            json!({"type": "RollingUpdate", "rollingUpdate": {"maxSurge": 0}})
        );
        assert_eq!(spec.get("rollout"), None);
    }

    #[test]
    fn a_field_with_a_wrong_type_is_left_to_the_validating_pass() {
        for spec in [json!("text"), json!({"version": 5, "rollout": []}), Value::Null] {
            let object = json!({"spec": spec});
            let _patch = patch(&object);
        }
        assert_eq!(defaulted(&json!({}))["spec"]["version"], "v");
    }
}
