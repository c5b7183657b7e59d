//! The bundle for the Operator Lifecycle Manager (OLM), generated from the manifests, so that OLM
//! installs the same objects as the other ways.
//!
//! A bundle can contain neither admission policies nor webhook configurations with match
//! conditions. Therefore `capstan register`, which all installations run, creates them here. OLM
//! creates the service accounts and their roles from the ClusterServiceVersion. This module decides
//! nothing; a test compares the bundle with the manifests.

use anyhow::{Context as _, ensure};
use serde_json::{Value, json};

use super::{Installation, What};
use crate::cli::installed::{text, title};
use crate::manifests::BUNDLE_RBAC;

const VERSION: &str = env!("CARGO_PKG_VERSION");
/// The ClusterRole that owns what is registered. It is an object of the bundle under this name. The
/// roles that OLM creates have other names.
const OWNER: &str = "capstan-registration";

/// The files of the bundle: paths and texts.
///
/// # Errors
/// An object cannot be a part of a bundle; tests prevent that.
pub(super) fn files(installation: &Installation) -> anyhow::Result<Vec<(String, String)>> {
    let mut objects = installation.objects(What::All)?;
    objects.retain(|object| !is_registered(object));
    objects.extend(serde_saphyr::from_multiple::<Value>(BUNDLE_RBAC).context("reading the permissions of the bundle")?);
    for object in objects
        .iter_mut()
        .filter(|object| text(object, "/kind") == "Deployment" && text(object, "/metadata/name") == OWNER)
    {
        let flags = object.pointer_mut("/spec/template/spec/containers/0/args");
        let flags = flags
            .and_then(Value::as_array_mut)
            .context("the registration has flags")?;
        flags.push(json!(format!("--owner={OWNER}")));
    }
    let namespace = &installation.choices.namespace;
    for object in &mut objects {
        if text(object, "/kind") == "ClusterRole" && text(object, "/metadata/name") == OWNER {
            label(object, namespace);
        }
        // OLM installs into the namespace of its OperatorGroup.
        if let Some(metadata) = object.get_mut("metadata").and_then(Value::as_object_mut) {
            metadata.remove("namespace");
        }
    }
    let mut files = vec![
        (
            "manifests/capstan.clusterserviceversion.yaml".to_owned(),
            yaml(&service_version(&objects)?)?,
        ),
        ("metadata/annotations.yaml".to_owned(), yaml(&annotations())?),
        ("bundle.Containerfile".to_owned(), CONTAINERFILE.to_owned()),
    ];
    for object in &objects {
        let (kind, name) = (text(object, "/kind"), text(object, "/metadata/name"));
        match kind {
            "Service" | "PodDisruptionBudget" => {}
            "ClusterRole" if name == OWNER => {}
            "Deployment" | "ServiceAccount" | "Role" | "RoleBinding" | "ClusterRole" | "ClusterRoleBinding" => continue,
            _ => anyhow::bail!("{} cannot be a part of a bundle", title(object)),
        }
        files.push((format!("manifests/{name}.{}.yaml", kind.to_lowercase()), yaml(object)?));
    }
    Ok(files)
}

/// Adds the labels by which OLM deletes an object of the cluster together with the
/// ClusterServiceVersion. OLM sets them on the roles that it creates, but not on objects of a
/// bundle.
fn label(object: &mut Value, namespace: &str) {
    let labels = object.pointer_mut("/metadata/labels").and_then(Value::as_object_mut);
    if let Some(labels) = labels {
        labels.insert("olm.owner".to_owned(), json!(format!("capstan.v{VERSION}")));
        labels.insert("olm.owner.kind".to_owned(), json!("ClusterServiceVersion"));
        labels.insert("olm.owner.namespace".to_owned(), json!(namespace));
    }
}

/// Whether `capstan register` creates an object, because a bundle cannot contain it.
fn is_registered(object: &Value) -> bool {
    let kind = text(object, "/kind");
    kind.ends_with("WebhookConfiguration") || kind.starts_with("ValidatingAdmissionPolicy")
}

fn yaml(object: &Value) -> anyhow::Result<String> {
    serde_saphyr::to_string(object).context("writing a file of the bundle as YAML")
}

fn annotations() -> Value {
    json!({"annotations": {
        "operators.operatorframework.io.bundle.mediatype.v1": "registry+v1",
        "operators.operatorframework.io.bundle.manifests.v1": "manifests/",
        "operators.operatorframework.io.bundle.metadata.v1": "metadata/",
        "operators.operatorframework.io.bundle.package.v1": "capstan",
        "operators.operatorframework.io.bundle.channels.v1": "alpha",
        "operators.operatorframework.io.bundle.channel.default.v1": "alpha",
    }})
}

/// The image of the bundle. Its labels are the annotations.
const CONTAINERFILE: &str = "\
# The image of the bundle: buildah build --pull-never --file bundle.Containerfile .
FROM scratch
LABEL operators.operatorframework.io.bundle.mediatype.v1=registry+v1
LABEL operators.operatorframework.io.bundle.manifests.v1=manifests/
LABEL operators.operatorframework.io.bundle.metadata.v1=metadata/
LABEL operators.operatorframework.io.bundle.package.v1=capstan
LABEL operators.operatorframework.io.bundle.channels.v1=alpha
LABEL operators.operatorframework.io.bundle.channel.default.v1=alpha
COPY manifests /manifests/
COPY metadata /metadata/
";

const DESCRIPTION: &str = "\
Capstan checks every edit of a ControlPlaneMachineSet before it takes effect, and explains what the
edit does. Install it in the namespace `openshift-machine-api`. It changes no machine, and runs
beside OpenShift's own operator.

The webhooks are registered after the server is ready, and refuse nothing until the API server has
called it. They are deleted together with the operator.
";

fn service_version(objects: &[Value]) -> anyhow::Result<Value> {
    let of_kind = |kind: &'static str| objects.iter().filter(move |object| text(object, "/kind") == kind);
    let deployments: Vec<Value> = of_kind("Deployment")
        .map(|deployment| {
            json!({"name": deployment.pointer("/metadata/name"), "label": deployment.pointer("/metadata/labels"),
                "spec": deployment.get("spec")})
        })
        .collect();
    let image = objects
        .iter()
        .find_map(|object| object.pointer("/spec/template/spec/containers/0/image"));
    Ok(json!({
        "apiVersion": "operators.coreos.com/v1alpha1",
        "kind": "ClusterServiceVersion",
        "metadata": {
            "name": format!("capstan.v{VERSION}"),
            "annotations": {
                "capabilities": "Basic Install",
                "categories": "OpenShift Optional",
                "containerImage": image,
                "description": "Checks edits of the machines of a control plane",
                "operatorframework.io/suggested-namespace": "openshift-machine-api",
                "repository": "https://github.com/capstan-dev/capstan",
                "support": "The maintainers of Capstan",
            },
        },
        "spec": {
            "displayName": "Capstan",
            "description": DESCRIPTION,
            "version": VERSION,
            "maturity": "alpha",
            "minKubeVersion": "1.33.0",
            "provider": {"name": "The maintainers of Capstan", "url": "https://github.com/capstan-dev/capstan"},
            "keywords": ["control plane", "machines", "admission"],
            "links": [{"name": "Documentation", "url": "https://github.com/capstan-dev/capstan/tree/main/docs"}],
            "installModes": [
                {"type": "OwnNamespace", "supported": true},
                {"type": "SingleNamespace", "supported": true},
                {"type": "MultiNamespace", "supported": false},
                {"type": "AllNamespaces", "supported": false},
            ],
            "relatedImages": [{"name": "capstan", "image": image}],
            "install": {"strategy": "deployment", "spec": {
                "deployments": deployments,
                "permissions": permissions(objects, "RoleBinding", "Role")?,
                "clusterPermissions": permissions(objects, "ClusterRoleBinding", "ClusterRole")?,
            }},
        },
    }))
}

/// The rules of each service account that the bindings of a kind grant.
fn permissions(objects: &[Value], binding_kind: &str, role_kind: &str) -> anyhow::Result<Vec<Value>> {
    let mut accounts: Vec<(String, Vec<Value>)> = Vec::new();
    for binding in objects.iter().filter(|object| text(object, "/kind") == binding_kind) {
        let role = objects.iter().find(|object| {
            text(object, "/kind") == role_kind && text(object, "/metadata/name") == text(binding, "/roleRef/name")
        });
        let role = role.with_context(|| format!("the role of {} must be a manifest", title(binding)))?;
        let rules = role.get("rules").and_then(Value::as_array).cloned().unwrap_or_default();
        let subjects = binding.get("subjects").and_then(Value::as_array).into_iter().flatten();
        for account in subjects.map(|subject| text(subject, "/name").to_owned()) {
            ensure!(!account.is_empty(), "{} must name its service accounts", title(binding));
            match accounts.iter_mut().find(|(name, _)| *name == account) {
                Some((_, known)) => known.extend(rules.clone()),
                None => accounts.push((account, rules.clone())),
            }
        }
    }
    let entries = accounts.into_iter();
    Ok(entries
        .map(|(account, rules)| json!({"serviceAccountName": account, "rules": rules}))
        .collect())
}
