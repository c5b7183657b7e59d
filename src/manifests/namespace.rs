//! The kustomize transformer that moves Capstan to another namespace: it writes the namespace into
//! the fields that the namespace transformer of kustomize does not know, such as CEL expressions.
//!
//! The transformer is generated from the manifests, so no occurrence of the namespace is missed. An
//! occurrence that no replacement can reach is an error.

use anyhow::{Context as _, bail};
use serde_json::{Value, json};

/// The fields that the namespace transformer of kustomize replaces.
const KNOWN: [&str; 2] = ["metadata.namespace", "subjects.0.namespace"];
/// The characters that kustomize can split a value at.
const DELIMITERS: [char; 4] = ['\'', ':', '/', '.'];

/// The transformer for these manifests, as YAML.
///
/// # Errors
/// The manifests cannot be read, or contain the namespace where no replacement can reach it.
pub(super) fn transformer(manifests: &str, namespace: &str) -> anyhow::Result<String> {
    let objects: Vec<Value> = serde_saphyr::from_multiple(manifests).context("reading the manifests")?;
    let mut targets = Vec::new();
    for object in &objects {
        let mut fields = Vec::new();
        collect(object, namespace, &mut Vec::new(), &mut fields);
        for (path, text) in fields.into_iter().filter(|(path, _)| !KNOWN.contains(&path.as_str())) {
            let select = select(object, &path);
            for place in places(&text, namespace).with_context(|| format!("{select}: {path}"))? {
                let options = place.map(|(delimiter, index)| json!({"delimiter": delimiter, "index": index}));
                targets.push(
                    json!({"select": select, "fieldPaths": [path], "options": options.unwrap_or_else(|| json!({}))}),
                );
            }
        }
    }
    let transformer = json!({
        "apiVersion": "builtin",
        "kind": "ReplacementTransformer",
        "metadata": {"name": "namespace-of-capstan"},
        "replacements": [{
            "source": {"kind": "ServiceAccount", "name": "capstan-webhook", "fieldPath": "metadata.namespace"},
            "targets": targets,
        }],
    });
    let text = serde_saphyr::to_string(&transformer).context("writing the transformer as YAML")?;
    Ok(format!(
        "# Generated from the manifests:\n\
         # cargo run -p capstan -- manifests namespace-transformer --out manifests/namespace\n{text}"
    ))
}

/// The selector of an object with this field.
fn select(object: &Value, path: &str) -> Value {
    let [kind, name] = ["/kind", "/metadata/name"].map(|pointer| object.pointer(pointer));
    match path.strip_prefix("metadata.annotations.") {
        // A component adds the annotation, and a field that is absent would be an error.
        Some(annotation) => {
            let annotation = annotation.trim_matches(['[', ']']);
            json!({"kind": kind, "name": name, "annotationSelector": annotation})
        }
        None => json!({"kind": kind, "name": name}),
    }
}

/// Every string that contains the namespace, with its path in the notation of kustomize.
fn collect(value: &Value, namespace: &str, path: &mut Vec<String>, found: &mut Vec<(String, String)>) {
    match value {
        Value::String(text) if text.contains(namespace) => found.push((path.join("."), text.clone())),
        Value::Array(items) => {
            for (index, item) in items.iter().enumerate() {
                path.push(index.to_string());
                collect(item, namespace, path, found);
                path.pop();
            }
        }
        Value::Object(map) => {
            for (key, item) in map {
                // Brackets keep the dots of a key from separating fields.
                path.push(if key.contains('.') {
                    format!("[{key}]")
                } else {
                    key.clone()
                });
                collect(item, namespace, path, found);
                path.pop();
            }
        }
        _ => {}
    }
}

/// A delimiter, and the index of the part between two of them; none for the whole value.
type Place = Option<(char, usize)>;

/// Where the namespace is in a text.
fn places(text: &str, namespace: &str) -> anyhow::Result<Vec<Place>> {
    if text == namespace {
        return Ok(vec![None]);
    }
    let mut places = Vec::new();
    for delimiter in DELIMITERS {
        let parts = text.split(delimiter).enumerate();
        places.extend(
            parts
                .filter(|(_, part)| *part == namespace)
                .map(|(index, _)| Some((delimiter, index))),
        );
    }
    let occurrences = text.matches(namespace).count();
    if places.len() != occurrences {
        bail!("{occurrences} occurrences of the namespace must each be between two equal delimiters: {text}");
    }
    Ok(places)
}

#[cfg(test)]
mod tests {
    const HOME: &str = "openshift-machine-api";

    fn places(text: &str) -> anyhow::Result<Vec<super::Place>> {
        super::places(text, HOME)
    }

    #[test]
    fn each_occurrence_of_the_namespace_has_a_place() {
        assert_eq!(places("openshift-machine-api").unwrap(), [None]);
        assert_eq!(
            places("a in ['x:openshift-machine-api:b', 'x:openshift-machine-api:c']").unwrap(),
            [Some((':', 1)), Some((':', 3))]
        );
        assert_eq!(places("a.openshift-machine-api.svc").unwrap(), [Some(('.', 1))]);
        assert_eq!(places("openshift-machine-api/tls").unwrap(), [Some(('/', 0))]);
    }

    #[test]
    fn an_occurrence_that_no_delimiter_encloses_is_an_error() {
        assert!(places("the namespace openshift-machine-api").is_err());
    }
}
