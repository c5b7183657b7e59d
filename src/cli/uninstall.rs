//! `capstan uninstall`: deletes what an installation created, in an order in which no step
//! endangers the cluster. The webhook configurations are deleted first, so no request waits for a
//! server that is gone.
//!
//! It must never delete a namespace, or an object that a user created. CRDs are deleted only on
//! request, because all their objects are deleted with them, and CRDs with objects only on a second
//! request.

use std::collections::BTreeMap;
use std::io::Write as _;
use std::process::ExitCode;
use std::time::Duration;

use anyhow::{Context as _, anyhow, bail};
use capstan_core::admission::Feature;
use capstan_core::api::cluster_x_k8s_io::API_VERSION;
use capstan_core::api::cluster_x_k8s_io::machine_pool::KIND;
use capstan_core::api::machine_openshift_io::NAMESPACE;
use capstan_core::pool::removal::FINALIZER;
use k8s_openapi::api::authorization::v1::{ResourceAttributes, SelfSubjectAccessReview, SelfSubjectAccessReviewSpec};
use kube::api::{ApiResource, DeleteParams, GroupVersionKind, ListParams, PostParams, PropagationPolicy};
use kube::{Api, Client};
use serde_json::Value;
use tokio::time::Instant;

use super::cluster::{Authority, Enforcement, namespace};
use super::documents::Document;
use super::gather;
use super::installed::{self, Flags, TLS_SECRET, named, reason, text, title};
use super::manifests::{Certificates, Choices, Installation, What};
use super::observe::run_interruptible;
use super::output::Output;
use super::report::Report;
use crate::runtime::FIELD_MANAGER;

mod held;

use held::Held;

const DELETED: &str = "deleted";
const KEPT: &str = "kept";
/// The Deployment that registers the webhooks.
const REGISTRATION: &str = "capstan-registration";

/// Delete Capstan from a cluster.
///
/// The webhook configurations are deleted first, then the policies, the Deployments,
/// and the other objects. Machines, ControlPlaneMachineSets, namespaces, and CRDs
/// stay. Nothing is deleted while the server converts the versions of a CRD, or while
/// the controllers release the machines of a set or a ControlPlane that is being
/// deleted. Objects whose deletion will wait for a controller are reported first.
/// Without --yes, the command only shows what it would delete.
///
/// The exit code is 0 if everything was deleted, or if nothing is installed; 1 if an
/// object was not deleted; and 2 if the cluster cannot be read, if an object belongs to
/// Capstan in another namespace, or if something is installed and --yes or --dry-run is
/// missing.
#[derive(Debug, clap::Args)]
pub struct Args {
    /// Delete without a question.
    #[arg(long, conflicts_with = "dry_run")]
    yes: bool,
    /// Show what would be deleted, and let the API server check each deletion.
    #[arg(long)]
    dry_run: bool,
    /// Also delete the CRDs of ControlPlaneMachineSets, ControlPlanes, Machines, and the
    /// other kinds of `capstan manifests crds`. Nothing is deleted while one of them has
    /// objects, unless --delete-objects is given. A CRD without the label
    /// app.kubernetes.io/name=capstan stays, because it belongs to another program. The
    /// CRDs of KubeadmControlPlanes stay too: they belong to Cluster API. Never use it on
    /// OpenShift.
    #[arg(long)]
    crds: bool,
    /// Also delete the objects of the CRDs that --crds deletes: Machines, sets, and the
    /// others. Their providers delete the instances of the Machines.
    #[arg(long, requires = "crds")]
    delete_objects: bool,
    /// Namespace of Capstan.
    #[arg(short, long, default_value = NAMESPACE, value_name = "NAMESPACE", value_parser = namespace)]
    namespace: String,
    /// Lease of the controllers.
    #[arg(long, default_value = "capstan", value_name = "NAME")]
    lease: String,
    /// How long to wait until all objects are gone.
    #[arg(long, default_value = "2m", value_parser = super::serve::duration, value_name = "TIME")]
    wait: Duration,
    #[command(flatten)]
    flags: Flags,
}

/// Deletes the objects, and prints the report.
///
/// # Errors
/// The cluster cannot be reached, or the user did not confirm.
pub fn run(args: &Args) -> anyhow::Result<ExitCode> {
    let hint = "interrupted: a part of the objects is deleted; repeat the command";
    run_interruptible(&args.flags.cluster, args.flags.output, hint, async |report| {
        uninstall(args, report).await
    })
}

async fn uninstall(args: &Args, report: &mut Report) -> anyhow::Result<()> {
    let client = &args.flags.cluster.connect(args.flags.timeout).await?.client;
    let Existing { found, foreign } = existing(args, client).await?;
    let contents = contents(client, &found).await?;
    let held = Held::find(args, client, &found, report).await;
    let converted = converted(args, client).await?;
    for crd in &converted {
        report.fail(
            KEPT,
            title(crd),
            "the webhook server converts its versions, so nothing is deleted",
            "Give the CRD back to Cluster API (docs/operations.md, \"Remove Capstan\"), and repeat the command.",
        );
    }
    let is_blocked = held.is_blocking || !converted.is_empty();
    if !args.yes && !args.dry_run && !found.is_empty() {
        return preview(args, &found, &contents, is_blocked);
    }
    if found.is_empty() {
        report.ok(
            DELETED,
            "nothing of Capstan is installed",
            format!("in the namespace {}", args.namespace),
        );
    }
    for (object, why) in &foreign {
        report.warn(KEPT, object, *why, "If it is Capstan's, delete it yourself.");
    }
    // The garbage collector deletes what a deleted object owns, such as the Machines of a set.
    let keeps_crd = foreign
        .iter()
        .any(|(title, _)| title.starts_with("CustomResourceDefinition "));
    let kept_objects = if args.delete_objects && !keeps_crd {
        None
    } else {
        Some(&contents)
    };
    for (crd, objects) in kept_objects.into_iter().flatten() {
        let remedy = match keeps_crd {
            true => "A CRD of another program is kept, and its objects may belong to these: delete the objects first.",
            false => "Delete the objects first, leave out --crds, or give --delete-objects too.",
        };
        let found = format!("it would be deleted with {objects}, so nothing is deleted");
        report.fail(KEPT, crd, found, remedy);
    }
    if is_blocked || kept_objects.is_some_and(|contents| !contents.is_empty()) {
        return Ok(());
    }
    if delete(args, client, (&found, &contents), report).await? {
        kept(args, client, report).await?;
        held.repeat(report);
    }
    Ok(())
}

/// Shows what would be deleted, and asks for the flag that deletes it.
fn preview(args: &Args, found: &[Value], contents: &BTreeMap<String, String>, is_blocked: bool) -> anyhow::Result<()> {
    let when = if is_blocked {
        ", after you correct what failed"
    } else {
        ""
    };
    let lines: Vec<String> = found
        .iter()
        .map(|object| format!("  {}\n", with_contents(object, contents)))
        .collect();
    if args.flags.output == Output::Text {
        std::io::stdout()
            .write_all(format!("would delete{when}, in this order:\n{}", lines.concat()).as_bytes())
            .context("writing the list")?;
    }
    let and_objects = if contents.is_empty() || args.delete_objects {
        ""
    } else {
        ", and --delete-objects to delete the objects of the CRDs"
    };
    bail!(
        "--yes is required to delete these {} objects{and_objects}; --dry-run checks the deletion",
        found.len()
    )
}

/// The title of an object, and with a CRD its objects, which are deleted with it.
fn with_contents(object: &Value, contents: &BTreeMap<String, String>) -> String {
    match contents.get(&title(object)) {
        Some(objects) => format!("{} with {objects}", title(object)),
        None => title(object),
    }
}

/// The step in which the webhook configurations are deleted.
const WEBHOOKS: usize = 1;

/// The step in which an object is deleted. Objects of one step are deleted together.
fn step(object: &Value) -> usize {
    const ORDER: [&[&str]; 5] = [
        // It would register the webhooks again.
        &[],
        &["MutatingWebhookConfiguration", "ValidatingWebhookConfiguration"],
        &["ValidatingAdmissionPolicyBinding", "ValidatingAdmissionPolicy"],
        // Controllers that still run would create their Lease again.
        &["Deployment"],
        // Its controller would create the Secret again.
        &["Certificate", "Issuer"],
    ];
    let kind = text(object, "/kind");
    if kind == "Deployment" && text(object, "/metadata/name") == REGISTRATION {
        return 0;
    }
    let last = if kind == "CustomResourceDefinition" { 1 } else { 0 };
    ORDER
        .iter()
        .position(|kinds| kinds.contains(&kind))
        .unwrap_or(ORDER.len() + last)
}

/// The CRDs whose versions the webhook server converts. Without the server, their objects cannot be
/// read.
async fn converted(args: &Args, client: &Client) -> anyhow::Result<Vec<Value>> {
    let mut converted = Vec::new();
    for name in super::serve::KUBEADM_DEFINITIONS {
        let crd = named("apiextensions.k8s.io/v1", "CustomResourceDefinition", "", name);
        let Some(found) = installed::get(client, &crd).await? else {
            continue;
        };
        let service = |field: &str| {
            text(
                &found,
                &format!("/spec/conversion/webhook/clientConfig/service/{field}"),
            )
        };
        if service("name") == "capstan-webhook" && service("namespace") == args.namespace {
            converted.push(crd);
        }
    }
    Ok(converted)
}

/// The choices of an installation with all objects.
fn choices(args: &Args, certificates: Certificates) -> Choices {
    Choices {
        namespace: args.namespace.clone(),
        certificates,
        single_node: false,
        network_policies: true,
        secure_metrics: true,
        static_webhooks: false,
        enforcement: Enforcement::Deny,
        authority: Authority::default(),
    }
}

/// What exists in a cluster.
struct Existing {
    /// The objects of all ways to install Capstan, in the order in which they are deleted.
    found: Vec<Value>,
    /// The titles of objects that only have the name of an object of Capstan, and how that is
    /// known.
    foreign: Vec<(String, &'static str)>,
}

async fn existing(args: &Args, client: &Client) -> anyhow::Result<Existing> {
    let mut objects = Vec::new();
    for certificates in [Certificates::SelfManaged, Certificates::CertManager] {
        let choices = choices(args, certificates);
        let installation = Installation::new(&Feature::ALL, &choices);
        for object in installation.objects(What::All)? {
            if !objects.iter().any(|other| title(other) == title(&object)) {
                objects.push(object);
            }
        }
        if args.crds && certificates == Certificates::SelfManaged {
            // The CRDs of KubeadmControlPlanes are those of Cluster API, which keeps its objects.
            let features = [Feature::Admission, Feature::ControlPlane];
            objects.extend(Installation::new(&features, &choices).objects(What::Crds)?);
        }
    }
    // These objects are created at run time: the Lease by the controllers, and the Secret by
    // cert-manager, by the service CA, or by an older version of the server.
    for (lease, _) in Feature::ALL
        .into_iter()
        .filter_map(|feature| installed::controllers(feature, &args.lease))
    {
        objects.push(named("coordination.k8s.io/v1", "Lease", &args.namespace, lease));
    }
    objects.push(named("v1", "Secret", &args.namespace, TLS_SECRET));
    objects.sort_by_key(step);
    let (mut found, mut foreign, mut moved) = (Vec::new(), Vec::new(), None);
    for object in objects {
        let Some(stored) = installed::get(client, &object).await? else {
            continue;
        };
        let is_certificate = text(&object, "/kind") == "Secret" && text(&object, "/metadata/name") == TLS_SECRET;
        if is_certificate && !is_issued(&stored) {
            continue;
        }
        if let Some(why) = of_other_program(&object, &stored) {
            foreign.push((title(&object), why));
            continue;
        }
        if let Some(other) = installed::elsewhere(&stored, &args.namespace) {
            moved = moved.or_else(|| Some((title(&object), other.to_owned())));
            continue;
        }
        found.push(object);
    }
    match moved {
        None => Ok(Existing { found, foreign }),
        Some((object, other)) => Err(elsewhere(&object, &other, &args.namespace, &found)),
    }
}

/// Why nothing is deleted while an object belongs to another namespace. If objects of this
/// namespace exist too, a second installation took over a part of the first one (W183).
fn elsewhere(object: &str, other: &str, namespace: &str, found: &[Value]) -> anyhow::Error {
    let remedy = match found
        .iter()
        .any(|found| text(found, "/metadata/namespace") == namespace)
    {
        false => format!("Repeat the command with --namespace {other}"),
        true => format!(
            "Objects of both namespaces exist, because a second installation took over a part of the first one. Apply \
             the manifests of {namespace} again with the features that are installed there, and repeat the command; \
             then repeat it with --namespace {other}"
        ),
    };
    anyhow!(
        "the {object} belongs to Capstan in the namespace {other}, not in {namespace}; nothing was deleted. {remedy}"
    )
}

/// Why a stored object is not Capstan's, if it is not. A Lease has no label; the leader election
/// that writes it is recorded in its managed fields.
fn of_other_program(own: &Value, stored: &Value) -> Option<&'static str> {
    const LEADER_ELECTION: &str = "kube-lease-manager";
    if text(own, "/kind") != "Lease" {
        return installed::is_foreign(own, stored)
            .then_some("it lacks the label app.kubernetes.io/name=capstan, so it belongs to another program");
    }
    let managers = stored.pointer("/metadata/managedFields").and_then(Value::as_array);
    let mut managers = managers.into_iter().flatten().map(|entry| text(entry, "/manager"));
    let is_own = managers.any(|manager| manager == FIELD_MANAGER || manager.starts_with(LEADER_ELECTION));
    (!is_own).then_some("Capstan's leader election did not write it, so it belongs to another program")
}

/// The objects of each CRD that is to be deleted, in words, by the title of the CRD. A CRD without
/// objects is not in the result.
///
/// # Errors
/// The objects cannot be listed. Without this list, no CRD is deleted.
async fn contents(client: &Client, found: &[Value]) -> anyhow::Result<BTreeMap<String, String>> {
    let mut contents = BTreeMap::new();
    for crd in found
        .iter()
        .filter(|object| text(object, "/kind") == "CustomResourceDefinition")
    {
        let versions = crd.pointer("/spec/versions").and_then(Value::as_array);
        let served = versions.and_then(|versions| {
            versions
                .iter()
                .find(|version| version.get("served") == Some(&Value::Bool(true)))
        });
        let version = served.map_or("", |version| text(version, "/name"));
        let gvk = GroupVersionKind::gvk(text(crd, "/spec/group"), version, text(crd, "/spec/names/kind"));
        let resource = ApiResource::from_gvk_with_plural(&gvk, text(crd, "/spec/names/plural"));
        let objects = gather::list(client, &resource, None).await?;
        if !objects.is_empty() {
            contents.insert(title(crd), in_words(&objects));
        }
    }
    Ok(contents)
}

/// The number of objects, and the names of the first ones. An Active set is marked.
fn in_words(objects: &[Document]) -> String {
    const NAMED: usize = 5;
    let name = |object: &Document| {
        let (_, namespace, name) = object.key();
        let active = if object.text("/spec/state") == "Active" {
            " (Active)"
        } else {
            ""
        };
        format!("{namespace}/{name}{active}")
    };
    let mut names: Vec<String> = objects.iter().take(NAMED).map(name).collect();
    if objects.len() > NAMED {
        names.push(String::from("…"));
    }
    let noun = if objects.len() == 1 { "object" } else { "objects" };
    format!("{} {noun}: {}", objects.len(), names.join(", "))
}

/// Whether cert-manager or the service CA wrote a Secret. One that a user created stays.
fn is_issued(secret: &Value) -> bool {
    const ISSUERS: [&str; 2] = [
        "cert-manager.io/certificate-name",
        "service.beta.openshift.io/originating-service-name",
    ];
    let annotations = secret.pointer("/metadata/annotations").and_then(Value::as_object);
    let has = |name: &str| annotations.is_some_and(|annotations| annotations.contains_key(name));
    text(secret, "/kind") == "Secret" && ISSUERS.into_iter().any(has)
}

/// Deletes the objects. Whether it was not given up.
async fn delete(
    args: &Args,
    client: &Client,
    (found, contents): (&[Value], &BTreeMap<String, String>),
    report: &mut Report,
) -> anyhow::Result<bool> {
    let parameters = DeleteParams {
        dry_run: args.dry_run,
        propagation_policy: Some(PropagationPolicy::Foreground),
        ..DeleteParams::default()
    };
    let end = Instant::now() + args.wait;
    // The registration goes before the webhooks, which must then go too.
    for object in found.iter().filter(|object| step(object) == WEBHOOKS) {
        if !may_delete(client, object).await? {
            let remedy = "Repeat the command as a user who may delete it.";
            report.fail(DELETED, title(object), "this user may not delete it", remedy);
            let remedy = "Nothing was deleted, because the webhooks still need the server.";
            report.fail(KEPT, "all objects", "", remedy);
            return Ok(false);
        }
    }
    for group in found.chunk_by(|left, right| step(left) == step(right)) {
        let mut accepted = Vec::new();
        for object in group {
            let name = text(object, "/metadata/name");
            match installed::api(client, object).delete(name, &parameters).await {
                Ok(_) => accepted.push(object),
                Err(kube::Error::Api(status)) if status.code == 404 => accepted.push(object),
                Err(error) => {
                    report.fail(
                        DELETED,
                        title(object),
                        reason(&error),
                        "Resolve the cause, and repeat the command.",
                    );
                    if step(object) <= WEBHOOKS {
                        // Without the server, the webhook would refuse requests.
                        let remedy = "The other objects stay, because the webhooks still need the server.";
                        report.fail(KEPT, "all other objects", "", remedy);
                        return Ok(false);
                    }
                }
            }
        }
        for object in accepted {
            let shown = with_contents(object, contents);
            gone(args, client, (object, &shown), end, report).await?;
        }
    }
    Ok(true)
}

/// Whether the user may delete an object of the whole cluster.
async fn may_delete(client: &Client, object: &Value) -> anyhow::Result<bool> {
    let resource = format!("{}s", text(object, "/kind").to_lowercase());
    let question = SelfSubjectAccessReview {
        spec: SelfSubjectAccessReviewSpec {
            resource_attributes: Some(ResourceAttributes {
                group: text(object, "/apiVersion")
                    .split_once('/')
                    .map(|(group, _)| group.to_owned()),
                name: Some(text(object, "/metadata/name").to_owned()),
                resource: Some(resource),
                verb: Some("delete".to_owned()),
                ..ResourceAttributes::default()
            }),
            ..SelfSubjectAccessReviewSpec::default()
        },
        ..SelfSubjectAccessReview::default()
    };
    let reviews: Api<SelfSubjectAccessReview> = Api::all(client.clone());
    let answer = reviews.create(&PostParams::default(), &question).await;
    let answer = answer.with_context(|| format!("asking whether this user may delete {}", title(object)))?;
    Ok(answer.status.is_some_and(|status| status.allowed))
}

/// Waits until an object is gone, at most until `end`.
async fn gone(
    args: &Args,
    client: &Client,
    (object, shown): (&Value, &str),
    end: Instant,
    report: &mut Report,
) -> anyhow::Result<()> {
    if args.dry_run {
        report.ok(DELETED, shown, "in a dry run");
        return Ok(());
    }
    while let Some(left) = installed::get(client, object).await? {
        if Instant::now() >= end {
            let finalizers = left
                .pointer("/metadata/finalizers")
                .map(Value::to_string)
                .unwrap_or_default();
            let remedy = "Its controller must remove the finalizers; then repeat the command.";
            report.fail(DELETED, shown, format!("still exists; finalizers {finalizers}"), remedy);
            return Ok(());
        }
        tokio::time::sleep(Duration::from_millis(200)).await;
    }
    report.ok(DELETED, shown, "");
    Ok(())
}

/// Reports what stays in the cluster, and what a user may have to do with it.
async fn kept(args: &Args, client: &Client, report: &mut Report) -> anyhow::Result<()> {
    let namespace = format!("the namespace {}", args.namespace);
    match installed::get(client, &named("v1", "Namespace", "", &args.namespace)).await {
        Ok(None) => report.warn(
            KEPT,
            format!("{namespace} does not exist"),
            "",
            "--namespace names another one.",
        ),
        Ok(Some(_)) | Err(_) => report.ok(KEPT, namespace, ""),
    }
    held_pools(KEPT, client, report).await;
    if !args.crds {
        report.ok(KEPT, "the CRDs and their objects", "delete the CRDs with --crds");
        held::owners(args, client, report).await;
    }
    Ok(())
}

/// Reports the MachinePools whose deletion waits for a controller of Capstan. The section tells
/// whether that controller still exists.
async fn held_pools(section: &'static str, client: &Client, report: &mut Report) {
    let pools = named(API_VERSION, KIND, "", "");
    // A cluster without the CRD has no pools.
    let Ok(list) = installed::api(client, &pools).list(&ListParams::default()).await else {
        return;
    };
    for pool in list.items {
        let finalizers = pool.metadata.finalizers.iter().flatten();
        if finalizers.into_iter().any(|one| one == FINALIZER) {
            let [namespace, name] =
                [&pool.metadata.namespace, &pool.metadata.name].map(|field| field.as_deref().unwrap_or_default());
            let is_deleted = pool.metadata.deletion_timestamp.is_some();
            let who = match section {
                KEPT => "no controller of Capstan removes it",
                _ => "only its controller removes it",
            };
            let (is, remedy) = match is_deleted && section != KEPT {
                true => (
                    "is being deleted, it ",
                    "Wait until it is gone before you delete the controller.",
                ),
                false => (
                    "",
                    "After the uninstallation, remove the finalizer as \"Deletion of a pool\" in docs/machine-pools.md says.",
                ),
            };
            report.warn(
                section,
                format!("MachinePool {namespace}/{name}"),
                format!("it {is}has the finalizer {FINALIZER}, and {who}"),
                remedy,
            );
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn w183_an_installation_in_two_namespaces_has_a_remedy() {
        let text = |found: &[Value]| elsewhere("ClusterRole a", "other", "here", found).to_string();
        assert!(text(&[]).ends_with("Repeat the command with --namespace other"));
        let both = text(&[json!({"metadata": {"namespace": "here"}})]);
        assert!(both.contains("Apply the manifests of here again"), "{both}");
    }
}
