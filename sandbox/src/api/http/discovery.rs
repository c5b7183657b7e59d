//! Discovery: which groups, versions and resources are served.

use serde_json::{Value, json};

use crate::api::kinds::Scope;
use crate::api::store::Api;

/// The answer to `/version`.
pub(super) fn version() -> Value {
    json!({"major": "1", "minor": "33", "gitVersion": "v1.33.0"})
}

/// The answer to `/api`.
pub(super) fn core_versions() -> Value {
    json!({"kind": "APIVersions", "versions": ["v1"]})
}

/// The answer to `/apis`.
pub(super) fn groups(api: &Api) -> Value {
    let mut names: Vec<(&str, &str)> = api
        .kinds()
        .iter()
        .filter(|kind| !kind.group.is_empty())
        .map(|kind| (kind.group.as_str(), kind.version.as_str()))
        .collect();
    names.sort_unstable();
    names.dedup();
    let versions: Vec<Value> = names
        .iter()
        .map(|(group, version)| {
            let one = json!({"groupVersion": format!("{group}/{version}"), "version": version});
            json!({"name": group, "versions": [one], "preferredVersion": one})
        })
        .collect();
    json!({"kind": "APIGroupList", "apiVersion": "v1", "groups": versions})
}

/// The resources of a group and version; none if nothing of it is served.
pub(super) fn resources(api: &Api, group: &str, version: &str) -> Option<Value> {
    let served = api
        .kinds()
        .iter()
        .filter(|kind| kind.group == group && kind.version == version);
    let mut list = Vec::new();
    for kind in served {
        let namespaced = kind.scope == Scope::Namespaced;
        let verbs = json!([
            "create",
            "delete",
            "deletecollection",
            "get",
            "list",
            "patch",
            "update",
            "watch"
        ]);
        list.push(
            json!({"name": kind.plural, "singularName": kind.kind.to_lowercase(), "namespaced": namespaced,
            "kind": kind.kind, "verbs": verbs}),
        );
        if kind.status {
            list.push(
                json!({"name": format!("{}/status", kind.plural), "singularName": "", "namespaced": namespaced,
                "kind": kind.kind, "verbs": ["get", "patch", "update"]}),
            );
        }
    }
    let group_version = if group.is_empty() {
        version.to_owned()
    } else {
        format!("{group}/{version}")
    };
    (!list.is_empty()).then(
        || json!({"kind": "APIResourceList", "apiVersion": "v1", "groupVersion": group_version, "resources": list}),
    )
}
