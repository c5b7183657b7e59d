//! The patches of a kustomize component, applied to manifests as kustomize does. The component's
//! `kustomization.yaml` is the only source of them, so `kubectl apply -k` and `capstan manifests`
//! install the same objects.
//!
//! Supported are JSON patches, the strategic merge patch `$patch: delete`, and a merge patch that
//! only removes fields. This module decides nothing about what to install.

use anyhow::{Context as _, bail};
use serde_json::Value;

/// The fields of a kustomization that Capstan's components use.
#[derive(serde::Deserialize)]
#[serde(deny_unknown_fields)]
#[allow(dead_code, reason = "an unknown field must be an error, so all fields are listed")]
struct Kustomization {
    #[serde(rename = "apiVersion")]
    api_version: String,
    kind: String,
    #[serde(default)]
    resources: Vec<String>,
    #[serde(default)]
    components: Vec<String>,
    #[serde(default)]
    patches: Vec<Entry>,
}

#[derive(serde::Deserialize)]
#[serde(deny_unknown_fields)]
struct Entry {
    target: Target,
    patch: String,
}

/// The objects to patch: all of a kind, the one with this name, or those whose label has another
/// value: `label!=value`.
#[derive(serde::Deserialize)]
#[serde(deny_unknown_fields)]
struct Target {
    kind: String,
    name: Option<String>,
    #[serde(rename = "labelSelector")]
    label_selector: Option<String>,
}

impl Target {
    fn selects(&self, object: &Value) -> bool {
        let named = |name: &String| object.pointer("/metadata/name").and_then(Value::as_str) == Some(name);
        let has_another = |selector: &String| {
            let labels = object.pointer("/metadata/labels");
            selector.split_once("!=").is_some_and(|(label, value)| {
                labels.and_then(|labels| labels.get(label)).and_then(Value::as_str) != Some(value)
            })
        };
        object.get("kind").and_then(Value::as_str) == Some(&self.kind)
            && self.name.as_ref().is_none_or(named)
            && self.label_selector.as_ref().is_none_or(has_another)
    }
}

/// The fields that a merge patch removes from an object, if it changes nothing else.
fn removed(patch: &Value) -> Option<Vec<&String>> {
    let fields = patch.as_object()?.iter();
    let fields = fields.filter(|(name, _)| !["apiVersion", "kind", "metadata"].contains(&name.as_str()));
    fields.map(|(name, value)| value.is_null().then_some(name)).collect()
}

/// Patches the objects of files, as the component with this `kustomization.yaml` does. The text of
/// a file without a selected object stays as it is. A file without objects is removed.
///
/// # Errors
/// The kustomization or a file cannot be read, or a patch does not fit an object. Tests prevent
/// both.
pub(super) fn apply(kustomization: &str, files: Vec<(String, String)>) -> anyhow::Result<Vec<(String, String)>> {
    let component: Kustomization = serde_saphyr::from_str(kustomization).context("reading a component")?;
    let mut patched = Vec::new();
    for (name, text) in files {
        let text = apply_to(&component.patches, &text).with_context(|| format!("patching {name}"))?;
        patched.extend(text.map(|text| (name, text)));
    }
    Ok(patched)
}

/// The text of a file after all patches; none if they delete all its objects.
fn apply_to(patches: &[Entry], text: &str) -> anyhow::Result<Option<String>> {
    let mut objects: Vec<Value> = serde_saphyr::from_multiple(text)?;
    let before = objects.clone();
    for Entry { target, patch } in patches {
        let content: Value = serde_saphyr::from_str(patch)?;
        if content.get("$patch").and_then(Value::as_str) == Some("delete") {
            objects.retain(|object| !target.selects(object));
        } else if content.is_array() {
            let operations: json_patch::Patch = serde_json::from_value(content)?;
            for object in objects.iter_mut().filter(|object| target.selects(object)) {
                json_patch::patch(object, &operations)?;
            }
        } else if let Some(fields) = removed(&content) {
            let selected = objects.iter_mut().filter(|object| target.selects(object));
            for object in selected.filter_map(Value::as_object_mut) {
                object.retain(|name, _| !fields.contains(&name));
            }
        } else {
            bail!("a patch must be a JSON patch, $patch: delete, or remove fields");
        }
    }
    if objects == before {
        return Ok(Some(text.to_owned()));
    }
    let texts: Vec<String> = objects.iter().map(serde_saphyr::to_string).collect::<Result<_, _>>()?;
    Ok((!texts.is_empty()).then(|| texts.join("---\n")))
}

#[cfg(test)]
mod tests {
    use super::apply;

    const FILE: &str = "# A comment.\nkind: A\nmetadata: {name: a}\nlist: [1, 2]\n---\nkind: B\nmetadata: {name: b}\n";

    fn component(patches: &str) -> String {
        format!("apiVersion: kustomize.config.k8s.io/v1alpha1\nkind: Component\npatches:\n{patches}")
    }

    fn applied(patches: &str) -> anyhow::Result<Vec<(String, String)>> {
        apply(&component(patches), vec![("file.yaml".to_owned(), FILE.to_owned())])
    }

    #[test]
    fn a_patch_changes_only_the_selected_object() {
        let files = applied("- target: {kind: A}\n  patch: '[{op: add, path: /list/-, value: 3}]'\n").unwrap();
        let objects: Vec<serde_json::Value> = serde_saphyr::from_multiple(&files[0].1).unwrap();
        assert_eq!(objects[0]["list"], serde_json::json!([1, 2, 3]));
        assert_eq!(objects[1], serde_json::json!({"kind": "B", "metadata": {"name": "b"}}));
    }

    #[test]
    fn a_file_without_a_selected_object_keeps_its_comments() {
        let files = applied("- target: {kind: A, name: other}\n  patch: '{$patch: delete}'\n").unwrap();
        assert_eq!(files[0].1, FILE);
    }

    #[test]
    fn a_file_whose_objects_are_deleted_is_removed() {
        let delete = |kind: &str| format!("- target: {{kind: {kind}}}\n  patch: '{{$patch: delete}}'\n");
        assert!(!applied(&delete("A")).unwrap()[0].1.contains("kind: A"));
        assert!(applied(&(delete("A") + &delete("B"))).unwrap().is_empty());
    }

    #[test]
    fn a_field_is_removed_also_twice() {
        let remove = "- target: {kind: A}\n  patch: '{kind: A, metadata: {name: all}, list: null}'\n";
        for patches in [remove.to_owned(), remove.repeat(2)] {
            let files = applied(&patches).unwrap();
            let objects: Vec<serde_json::Value> = serde_saphyr::from_multiple(&files[0].1).unwrap();
            assert_eq!(objects[0], serde_json::json!({"kind": "A", "metadata": {"name": "a"}}));
        }
    }

    #[test]
    fn an_object_with_the_excluded_label_is_not_patched() {
        let file = "kind: A\nmetadata: {name: a, labels: {b: c}}\n---\nkind: A\nmetadata: {name: d}\n";
        let patch =
            "- target: {kind: A, labelSelector: b!=c}\n  patch: '[{op: add, path: /metadata/labels, value: {}}]'\n";
        let files = apply(&component(patch), vec![("file.yaml".to_owned(), file.to_owned())]).unwrap();
        let objects: Vec<serde_json::Value> = serde_saphyr::from_multiple(&files[0].1).unwrap();
        assert_eq!(objects[0]["metadata"]["labels"], serde_json::json!({"b": "c"}));
        assert_eq!(objects[1]["metadata"]["labels"], serde_json::json!({}));
    }

    #[test]
    fn a_patch_that_does_not_fit_is_an_error() {
        for patch in [
            "'[{op: test, path: /list/0, value: 9}]'",
            "'[{op: replace, path: /absent, value: 9}]'",
            "'{spec: {}}'",
        ] {
            assert!(
                applied(&format!("- target: {{kind: A}}\n  patch: {patch}\n")).is_err(),
                "{patch}"
            );
        }
    }
}
