//! The objects of an installation in a cluster, for `preflight`, `verify` and `uninstall`. This
//! module decides nothing: it addresses objects, and words the errors of the API server.

use anyhow::Context as _;
use capstan_core::admission::Feature;
use kube::api::{ApiResource, DynamicObject, GroupVersionKind, ListParams};
use kube::{Api, Client};
use serde_json::{Value, json};

use super::cluster::Cluster;
use super::output::Output;
use super::refusal::refusal;
use super::server_flags::ServerFlags;
use crate::controllers::{control_plane, kubeadm_control_plane, machine_pool, mirroring};

/// The flags of the commands that check or change an installation.
#[derive(Clone, Debug, clap::Args)]
pub(super) struct Flags {
    #[command(flatten)]
    pub(super) cluster: Cluster,
    /// Time limit of each request to the API server.
    #[arg(long, default_value = "10s", value_parser = super::serve::duration, value_name = "TIME",
        help_heading = "Cluster")]
    pub(super) timeout: std::time::Duration,
    /// The output format.
    #[arg(short, long, value_enum, default_value = "text")]
    pub(super) output: Output,
}

/// A text field of an object; empty if it is absent.
pub(super) fn text<'a>(object: &'a Value, pointer: &str) -> &'a str {
    object.pointer(pointer).and_then(Value::as_str).unwrap_or_default()
}

/// The webhooks of a configuration.
pub(super) fn webhooks_of(configuration: &Value) -> impl Iterator<Item = &Value> {
    let webhooks = configuration.get("webhooks").and_then(Value::as_array);
    webhooks.into_iter().flatten()
}

/// Kind and name of an object, and its namespace if it has one.
pub(super) fn title(object: &Value) -> String {
    let (kind, name) = (text(object, "/kind"), text(object, "/metadata/name"));
    match text(object, "/metadata/namespace") {
        "" => format!("{kind} {name}"),
        namespace => format!("{kind} {namespace}/{name}"),
    }
}

/// An object that only names one in a cluster.
pub(super) fn named(api_version: &str, kind: &str, namespace: &str, name: &str) -> Value {
    let mut object = json!({"apiVersion": api_version, "kind": kind, "metadata": {"name": name}});
    if !namespace.is_empty()
        && let Some(metadata) = object.get_mut("metadata").and_then(Value::as_object_mut)
    {
        metadata.insert("namespace".to_owned(), json!(namespace));
    }
    object
}

/// The resource of an object. The plural follows from the kind, which holds for all kinds that
/// Capstan installs.
pub(super) fn resource(object: &Value) -> ApiResource {
    let api_version = text(object, "/apiVersion");
    let (group, version) = api_version.split_once('/').unwrap_or(("", api_version));
    ApiResource::from_gvk(&GroupVersionKind::gvk(group, version, text(object, "/kind")))
}

/// The API for an object.
pub(super) fn api(client: &Client, object: &Value) -> Api<DynamicObject> {
    match text(object, "/metadata/namespace") {
        "" => Api::all_with(client.clone(), &resource(object)),
        namespace => Api::namespaced_with(client.clone(), namespace, &resource(object)),
    }
}

/// The object in the cluster; none if it or its kind does not exist.
///
/// # Errors
/// The API server refuses the request, or cannot be reached.
pub(super) async fn get(client: &Client, object: &Value) -> anyhow::Result<Option<Value>> {
    let name = text(object, "/metadata/name");
    match api(client, object).get_opt(name).await {
        Ok(Some(found)) => Ok(Some(serde_json::to_value(found)?)),
        Ok(None) => Ok(None),
        // For a kind that it does not serve, the API server answers without a Status.
        Err(kube::Error::Api(status)) if status.code == 404 => Ok(None),
        Err(error) => Err(anyhow::anyhow!(reason(&error))).with_context(|| format!("reading {}", title(object))),
    }
}

const NAME_LABEL: &str = "/metadata/labels/app.kubernetes.io~1name";

/// Whether an object of the cluster is Capstan's: it has the label that every installation sets, or
/// its webhooks have names of Capstan. A webhook configuration without the label must not be left
/// behind, because it would call a server that is gone.
pub(super) fn is_own(stored: &Value) -> bool {
    text(stored, NAME_LABEL) == "capstan"
        || webhooks_of(stored).any(|webhook| text(webhook, "/name").ends_with(".capstan.dev"))
}

/// Whether an object of the cluster only has the name of an object of Capstan. Objects that are
/// created at run time have no label.
pub(super) fn is_foreign(own: &Value, stored: &Value) -> bool {
    !text(own, NAME_LABEL).is_empty() && !is_own(stored)
}

/// The namespaces that a cluster-wide object of an installation refers to: that of the server of
/// its webhooks, or those of the ServiceAccounts that it binds.
pub(super) fn namespaces(stored: &Value) -> impl Iterator<Item = &str> {
    let (list, field) = match text(stored, "/kind") {
        "MutatingWebhookConfiguration" | "ValidatingWebhookConfiguration" => {
            ("/webhooks", "/clientConfig/service/namespace")
        }
        "ClusterRoleBinding" => ("/subjects", "/namespace"),
        _ => ("", ""),
    };
    let entries = stored.pointer(list).and_then(Value::as_array);
    let names = entries.into_iter().flatten().map(move |entry| text(entry, field));
    names.filter(|name| !name.is_empty())
}

/// Another namespace than this one that a stored object of an installation refers to.
pub(super) fn elsewhere<'s>(stored: &'s Value, namespace: &str) -> Option<&'s str> {
    namespaces(stored).find(|other| *other != namespace)
}

/// The webhook configurations with webhooks of features that the server does not have. The server
/// would refuse each of their requests.
pub(super) async fn of_other_features(
    client: &Client,
    flags: &ServerFlags<'_>,
    namespace: &str,
) -> anyhow::Result<Vec<Value>> {
    const KINDS: [&str; 2] = ["MutatingWebhookConfiguration", "ValidatingWebhookConfiguration"];
    let mut others = Vec::new();
    let absent = Feature::ALL.into_iter().filter(|feature| !flags.serve(*feature));
    for name in absent.filter_map(Feature::webhook_configuration) {
        for kind in KINDS {
            let wanted = named("admissionregistration.k8s.io/v1", kind, "", &name);
            let Some(found) = get(client, &wanted).await? else {
                continue;
            };
            let is_of_server = namespaces(&found).any(|home| home == namespace);
            if is_own(&found) && is_of_server {
                others.push(wanted);
            }
        }
    }
    Ok(others)
}

/// The error of the API server as one sentence.
pub(super) fn reason(error: &kube::Error) -> String {
    match error {
        kube::Error::Api(status) => refusal(status),
        other => {
            let mut last: &dyn std::error::Error = other;
            while let Some(source) = last.source() {
                last = source;
            }
            last.to_string()
        }
    }
}

/// The ServiceAccount of OpenShift's sync controller.
pub(super) const OPENSHIFT_SYNC: &str = "capi-controllers";

/// Whether the Deployment of OpenShift's sync controller runs.
///
/// # Errors
/// The Deployments cannot be listed.
pub(super) async fn openshift_syncs(client: &Client, cluster_api: &str) -> anyhow::Result<bool> {
    let deployments = api(client, &named("apps/v1", "Deployment", cluster_api, ""));
    let list = match deployments.list(&ListParams::default()).await {
        Err(kube::Error::Api(status)) if status.code == 404 => return Ok(false),
        list => list.with_context(|| format!("listing the Deployments of {cluster_api}"))?,
    };
    Ok(list.items.iter().any(|deployment| {
        let field = |pointer| deployment.data.pointer(pointer);
        field("/spec/template/spec/serviceAccountName").and_then(Value::as_str) == Some(OPENSHIFT_SYNC)
            && field("/spec/replicas").and_then(Value::as_u64) != Some(0)
    }))
}

/// Controllers of a selection of features, and the feature whose webhooks guard what they execute.
pub(super) struct Guarded {
    pub(super) controllers: Feature,
    pub(super) guard: Feature,
    /// Whether the guard is selected too, or its webhooks are registered.
    pub(super) is_guarded: bool,
}

impl Guarded {
    pub(super) fn check(&self) -> String {
        format!(
            "the feature {} is installed with {}",
            self.guard.name(),
            self.controllers.name()
        )
    }

    pub(super) fn remedy(&self) -> String {
        // The webhook server, which is admission, gets a flag for each other guard.
        let mut names = vec![Feature::Admission.name(), self.guard.name(), self.controllers.name()];
        names.dedup();
        format!("--feature {}", names.join(","))
    }
}

/// The controllers of these features with their guards.
///
/// # Errors
/// The API server refuses the request, or cannot be reached.
pub(super) async fn guarded(client: &Client, features: &[Feature]) -> anyhow::Result<Vec<Guarded>> {
    let mut all = Vec::new();
    for (controllers, guard) in features.iter().filter_map(|feature| Some((*feature, feature.guard()?))) {
        let name = guard.webhook_configuration().unwrap_or_default();
        let webhooks = named(
            "admissionregistration.k8s.io/v1",
            "ValidatingWebhookConfiguration",
            "",
            &name,
        );
        let is_guarded = features.contains(&guard) || get(client, &webhooks).await?.is_some();
        all.push(Guarded {
            controllers,
            guard,
            is_guarded,
        });
    }
    Ok(all)
}

/// The Secret of a certificate that another program issues.
pub(super) const TLS_SECRET: &str = "capstan-tls";

/// The Lease and the Deployment of the controllers of a feature; none for a feature without
/// controllers. `lease` is that of the feature `controllers`, whose name a flag changes.
pub(super) fn controllers(feature: Feature, lease: &str) -> Option<(&str, &'static str)> {
    match feature {
        Feature::Controllers => Some((lease, "capstan-controllers")),
        Feature::MirroringControllers => Some((mirroring::LEASE, "capstan-mirroring")),
        Feature::KubeadmControlPlaneControllers => {
            Some((kubeadm_control_plane::LEASE, "capstan-kubeadm-control-plane"))
        }
        Feature::ControlPlaneControllers => Some((control_plane::LEASE, "capstan-control-plane")),
        Feature::MachinePoolControllers => Some((machine_pool::LEASE, "capstan-machine-pool")),
        Feature::Admission
        | Feature::Mirroring
        | Feature::KubeadmControlPlane
        | Feature::ControlPlane
        | Feature::MachinePools => None,
    }
}

/// The resources of each API version that the features need, with the feature that needs them.
pub(super) fn kinds(feature: Feature) -> &'static [(&'static str, &'static str)] {
    match feature {
        Feature::Admission | Feature::Controllers => &[
            ("machine.openshift.io/v1", "controlplanemachinesets"),
            ("machine.openshift.io/v1beta1", "machines"),
        ],
        Feature::Mirroring | Feature::MirroringControllers => &[
            ("machine.openshift.io/v1beta1", "machines"),
            ("machine.openshift.io/v1beta1", "machinesets"),
            ("cluster.x-k8s.io/v1beta1", "machines"),
            ("cluster.x-k8s.io/v1beta1", "machinesets"),
        ],
        Feature::KubeadmControlPlane | Feature::KubeadmControlPlaneControllers => &[
            ("controlplane.cluster.x-k8s.io/v1beta2", "kubeadmcontrolplanes"),
            ("controlplane.cluster.x-k8s.io/v1beta2", "kubeadmcontrolplanetemplates"),
        ],
        Feature::ControlPlane | Feature::ControlPlaneControllers => &[
            ("machine.openshift.io/v1alpha1", "controlplanes"),
            ("machine.openshift.io/v1beta1", "machines"),
        ],
        Feature::MachinePools | Feature::MachinePoolControllers => &[
            ("cluster.x-k8s.io/v1beta2", "machinepools"),
            ("cluster.x-k8s.io/v1beta2", "machines"),
        ],
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn v91_the_namespace_of_an_installation_is_read_from_its_cluster_wide_objects() {
        let webhooks = json!({"kind": "ValidatingWebhookConfiguration", "webhooks": [
            {"clientConfig": {"service": {"name": "capstan-webhook", "namespace": "a"}}},
            {"clientConfig": {"url": "https://127.0.0.1"}}]});
        let binding = json!({"kind": "ClusterRoleBinding", "subjects": [
            {"kind": "ServiceAccount", "name": "capstan", "namespace": "b"}, {"kind": "User", "name": "c"}]});
        let role = json!({"kind": "ClusterRole", "rules": []});
        for (object, expected) in [(webhooks, vec!["a"]), (binding, vec!["b"]), (role, vec![])] {
            assert_eq!(namespaces(&object).collect::<Vec<_>>(), expected);
        }
    }
}
