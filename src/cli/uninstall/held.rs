//! Objects whose deletion waits for a controller of Capstan. `capstan uninstall` reports them
//! before it deletes the controllers.
//!
//! It must never report an object that another running controller releases, and it writes nothing.

use capstan_core::admission::Feature;
use capstan_core::api::cluster_x_k8s_io;
use capstan_core::api::controlplane_cluster_x_k8s_io::{
    API_VERSION, FINALIZER as FINALIZER_OF_CONTROL_PLANE, kubeadm_control_plane,
};
use capstan_core::api::infrastructure_cluster_x_k8s_io::{self as infrastructure, PLATFORMS};
use capstan_core::api::kind::KindInfo;
use capstan_core::api::kinds;
use capstan_core::api::machine_openshift_io::machine::Machine;
use capstan_core::authority::FINALIZER;
use capstan_core::control_plane::hook::{HOOK, is_hooked};
use kube::Client;
use kube::api::{ApiResource, DynamicObject, GroupVersionKind, ListParams};
use serde::Deserialize as _;
use serde_json::Value;

use super::super::documents::Document;
use super::super::gather;
use super::super::installed::{self, named, text, title};
use super::super::refusal::sentence;
use super::super::report::Report;
use super::{Args, KEPT};

const SECTION: &str = "before the deletion";
/// The kinds whose controllers release their machines, with the features of the controllers.
const OWNERS: [(&KindInfo, Feature); 2] = [
    (&kinds::CONTROL_PLANE_MACHINE_SETS, Feature::Controllers),
    (&kinds::CONTROL_PLANES, Feature::ControlPlaneControllers),
];
/// The kinds of both APIs that have the finalizer of the sync controller, beside the infrastructure
/// machines.
const MIRRORED: [&KindInfo; 6] = [
    &kinds::MACHINES,
    &kinds::MACHINE_SETS,
    &kinds::MACHINE_HEALTH_CHECKS,
    &kinds::CLUSTER_API_MACHINES,
    &kinds::CLUSTER_API_MACHINE_SETS,
    &kinds::CLUSTER_API_MACHINE_HEALTH_CHECKS,
];
/// The versions of Cluster API and of infrastructure machines, the newest first.
const VERSIONS: [&str; 2] = ["v1beta2", "v1beta1"];

/// What waits for a controller.
pub(super) struct Held {
    /// Whether the controllers release machines at this moment.
    pub(super) is_blocking: bool,
    /// The number of Machines with the hook of the controller of ControlPlanes.
    hooked: usize,
    namespace: String,
    /// The objects that keep the finalizer of the sync controller, and the command that releases
    /// them.
    mirrored: Option<(String, String)>,
}

impl Held {
    /// Finds and reports what waits for a controller.
    pub(super) async fn find(args: &Args, client: &Client, found: &[Value], report: &mut Report) -> Self {
        let removes = |feature: Feature| {
            let name = installed::controllers(feature, &args.lease).map(|(_, deployment)| deployment);
            let is_named = |object: &&Value| Some(text(object, "/metadata/name")) == name;
            let deployments = found.iter().filter(|object| text(object, "/kind") == "Deployment");
            deployments.filter(is_named).count() > 0
        };
        let removed = OWNERS.into_iter().filter(|(_, feature)| removes(*feature));
        let removed: Vec<(&KindInfo, Feature)> = removed.collect();
        let (is_blocking, hooked) = machines(args, client, &removed, report).await.unwrap_or_else(|error| {
            unknown(report, &error);
            (false, 0)
        });
        let is_blocking = match removes(Feature::KubeadmControlPlaneControllers) {
            true => deleted_control_planes(client, report).await || is_blocking,
            false => is_blocking,
        };
        let mirrored = mirrored(client).await.unwrap_or_else(|error| {
            unknown(report, &error);
            None
        });
        let held = Self {
            is_blocking,
            hooked,
            namespace: args.namespace.clone(),
            mirrored,
        };
        held.report(SECTION, report);
        if removes(Feature::MachinePoolControllers) {
            super::held_pools(SECTION, client, report).await;
        }
        held
    }

    /// Repeats after the deletion what a user must do.
    pub(super) fn repeat(&self, report: &mut Report) {
        self.report(KEPT, report);
    }

    fn report(&self, section: &'static str, report: &mut Report) {
        self.report_mirrored(section, report);
        if self.hooked > 0 {
            let released = commands(
                &format!("-n {} machines.machine.openshift.io", self.namespace),
                &format!("any(.spec.lifecycleHooks.preDrain[]?; .name == \"{HOOK}\")"),
                &format!(
                    "spec: {{lifecycleHooks: {{preDrain: (.spec.lifecycleHooks.preDrain | map(select(.name != \
                     \"{HOOK}\")))}}}}"
                ),
            );
            report.warn(
                section,
                format!("{} Machines have the hook {HOOK}", self.hooked),
                "without the controller of ControlPlanes, their deletion waits for ever",
                format!(
                    "Before uninstall, delete the ControlPlane and wait until it is gone: this removes the hooks. After \
                     uninstall, first remove the etcd member of each machine that is being deleted. Then this removes \
                     the hooks: {released}"
                ),
            );
        }
    }

    fn report_mirrored(&self, section: &'static str, report: &mut Report) {
        if let Some((counts, command)) = &self.mirrored {
            report.warn(
                section,
                format!("{counts} have the finalizer {FINALIZER}"),
                "without the mirroring controllers, their deletion waits for ever",
                format!("Read \"Stop mirroring\" in docs/both-apis.md. After uninstall, this releases them: {command}"),
            );
        }
    }
}

fn unknown(report: &mut Report, error: &anyhow::Error) {
    report.warn(
        SECTION,
        "no object waits for a controller",
        format!("not known: {}", sentence(error)),
        "Repeat the command as a user who may list Machines, MachineSets and MachineHealthChecks.",
    );
}

/// Reports the owners of machines whose controllers are removed. Whether one of them is being
/// deleted, and the number of Machines with the hook of the controller of ControlPlanes.
async fn machines(
    args: &Args,
    client: &Client,
    removed: &[(&KindInfo, Feature)],
    report: &mut Report,
) -> anyhow::Result<(bool, usize)> {
    if removed.is_empty() {
        return Ok((false, 0));
    }
    let list = async |kind: &KindInfo| gather::list(client, &resource(kind), Some(&args.namespace)).await;
    let machines = list(&kinds::MACHINES).await?;
    let mut is_blocking = false;
    for (kind, _) in removed {
        is_blocking |= owning(&list(kind).await?, &machines, report);
    }
    let is_hooked =
        |machine: &&Document| Machine::deserialize(&machine.object).is_ok_and(|machine| is_hooked(&machine));
    let hooks = removed
        .iter()
        .any(|(_, feature)| *feature == Feature::ControlPlaneControllers);
    let hooked = machines.iter().filter(|machine| hooks && is_hooked(machine)).count();
    Ok((is_blocking, hooked))
}

/// Reports the KubeadmControlPlanes that are being deleted. Whether there is one: only its
/// controller removes the hooks of its Machines and its finalizer.
async fn deleted_control_planes(client: &Client, report: &mut Report) -> bool {
    let all = named(API_VERSION, kubeadm_control_plane::KIND, "", "");
    // A cluster without the CRD has no control planes.
    let Ok(list) = installed::api(client, &all).list(&ListParams::default()).await else {
        return false;
    };
    let is_held = |object: &&DynamicObject| {
        let mut finalizers = object.metadata.finalizers.iter().flatten();
        object.metadata.deletion_timestamp.is_some() && finalizers.any(|name| name == FINALIZER_OF_CONTROL_PLANE)
    };
    let deleted: Vec<&DynamicObject> = list.items.iter().filter(is_held).collect();
    for object in &deleted {
        let [namespace, name] =
            [&object.metadata.namespace, &object.metadata.name].map(|field| field.as_deref().unwrap_or_default());
        report.fail(
            SECTION,
            format!("{} {namespace}/{name}", kubeadm_control_plane::KIND),
            "it is being deleted, and only its controller ends that, so nothing is deleted",
            "Wait until it is gone. If no controller of Capstan runs, start that of Cluster API, and wait.",
        );
    }
    !deleted.is_empty()
}

/// Reports the owners of machines. Whether one of them is being deleted.
fn owning(owners: &[Document], machines: &[Document], report: &mut Report) -> bool {
    let mut blocks = false;
    for owner in owners {
        let owned = machines.iter().filter(|machine| is_owned(machine, owner)).count();
        let is_held = owner.object.pointer("/metadata/finalizers").is_some();
        if owned == 0 && is_held && !owner.text("/metadata/deletionTimestamp").is_empty() {
            blocks = true;
            report.fail(
                SECTION,
                title(&owner.object),
                "it is being deleted and has finalizers, so nothing is deleted",
                "Wait until its controller has removed the finalizers. If no controller runs, and no Machine names it as \
                 an owner, remove the finalizers.",
            );
        }
        if owned == 0 {
            continue;
        }
        let noun = if owned == 1 { "machine" } else { "machines" };
        if owner.text("/metadata/deletionTimestamp").is_empty() {
            report.warn(
                SECTION,
                title(&owner.object),
                format!("it owns {owned} {noun}, and only its controllers release them when it is deleted"),
                "To hand the machines over, delete it before uninstall, and wait until it is gone: the machines stay. If you \
                 keep it, do not remove its finalizer later: the garbage collector would delete the machines.",
            );
            continue;
        }
        blocks = true;
        report.fail(
            SECTION,
            title(&owner.object),
            format!("it is being deleted, and owns {owned} {noun}, so nothing is deleted"),
            "Wait until its controller has released the machines and the object is gone. Without the controller, it \
             stays, and the garbage collector deletes its machines when its finalizer is removed. If no controller \
             runs, release the machines by hand (\"Remove Capstan\" in docs/operations.md).",
        );
    }
    blocks
}

/// Reports the sets and the ControlPlanes whose deletion waits for a controller of Capstan.
pub(super) async fn owners(args: &Args, client: &Client, report: &mut Report) {
    for (kind, _) in OWNERS {
        let objects = named(&kind.api_version(), &kind.kind, &args.namespace, "");
        // A cluster without the CRD has no objects.
        let Ok(list) = installed::api(client, &objects).list(&ListParams::default()).await else {
            continue;
        };
        for owner in list.items.iter().filter(|owner| owner.metadata.finalizers.is_some()) {
            let name = owner.metadata.name.clone().unwrap_or_default();
            let (is, remedy) = match owner.metadata.deletion_timestamp {
                None => (
                    "",
                    "Before you delete it, read \"Remove Capstan\" in docs/operations.md.",
                ),
                Some(_) => (
                    "is being deleted, it ",
                    "Release its machines first, as \"Remove Capstan\" in docs/operations.md says: without the finalizers, \
                     the garbage collector deletes them.",
                ),
            };
            report.warn(
                KEPT,
                format!("{} {}/{name}", kind.kind, args.namespace),
                format!("it {is}has finalizers, and no controller of Capstan removes them"),
                remedy,
            );
        }
    }
}

fn is_owned(machine: &Document, set: &Document) -> bool {
    let uid = set.text("/metadata/uid");
    let owners = machine
        .object
        .pointer("/metadata/ownerReferences")
        .and_then(Value::as_array);
    owners.into_iter().flatten().any(|owner| text(owner, "/uid") == uid)
}

/// The numbers of objects with the finalizer of the sync controller, and the command that removes
/// it. None if OpenShift's sync controller runs, which removes it.
async fn mirrored(client: &Client) -> anyhow::Result<Option<(String, String)>> {
    let (mut counts, mut names) = (Vec::new(), Vec::new());
    for (group, kind, plural) in kinds_of_both_apis() {
        let mut number = 0;
        for version in VERSIONS {
            let resource = ApiResource::from_gvk_with_plural(&GroupVersionKind::gvk(group, version, kind), plural);
            let objects = gather::list(client, &resource, None).await?;
            if !objects.is_empty() {
                number = objects.iter().filter(|object| has_finalizer(object)).count();
                break;
            }
        }
        if number > 0 {
            let name = format!("{plural}.{group}");
            counts.push(format!("{number} {name}"));
            names.push(name);
        }
    }
    if names.is_empty() || installed::openshift_syncs(client, cluster_x_k8s_io::NAMESPACE).await? {
        return Ok(None);
    }
    let released = commands(
        &format!("{} -A", names.join(",")),
        &format!(".metadata.finalizers // [] | index(\"{FINALIZER}\")"),
        &format!("metadata: {{finalizers: (.metadata.finalizers - [\"{FINALIZER}\"])}}"),
    );
    Ok(Some((counts.join(", "), released)))
}

/// The shell command that patches the objects which meet a condition. `kubectl replace` would store
/// the whole object as the last applied one, and later calls of `kubectl apply` would fail (W126).
/// The version is a part of each patch, so that it removes nothing that another client adds.
///
/// `resources`: arguments of `kubectl get`. `condition`, `patch`: expressions of `jq` about an
/// object; the second one gives fields of an object.
fn commands(resources: &str, condition: &str, patch: &str) -> String {
    format!(
        "kubectl get {resources} -o json | jq -r '.items[] | select({condition}) | (.apiVersion / \"/\") as [$group, \
         $version] | ({{{patch}}} * {{metadata: {{resourceVersion: .metadata.resourceVersion}}}} | tojson) as $patch | \
         @sh \"-n \\(.metadata.namespace) \\(.kind + \".\" + $version + \".\" + $group) \
         \\(.metadata.name) --type merge -p \\($patch)\"' | xargs -r -L 1 kubectl patch"
    )
}

/// Group, kind and plural of what has the finalizer of the sync controller.
fn kinds_of_both_apis() -> impl Iterator<Item = (&'static str, &'static str, &'static str)> {
    let machines = PLATFORMS
        .iter()
        .map(|platform| (infrastructure::GROUP, platform.machine, platform.machines));
    MIRRORED
        .into_iter()
        .map(|kind| (&*kind.group, &*kind.kind, &*kind.plural))
        .chain(machines)
}

fn has_finalizer(object: &Document) -> bool {
    let finalizers = object.object.pointer("/metadata/finalizers").and_then(Value::as_array);
    finalizers.into_iter().flatten().any(|one| one == FINALIZER)
}

fn resource(kind: &KindInfo) -> ApiResource {
    ApiResource::from_gvk_with_plural(
        &GroupVersionKind::gvk(&kind.group, &kind.version, &kind.kind),
        &kind.plural,
    )
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn w185_a_deleted_owner_with_a_finalizer_and_without_machines_blocks_the_uninstallation() {
        let blocks = |metadata: Value| {
            let object = json!({"apiVersion": "machine.openshift.io/v1", "kind": "ControlPlaneMachineSet",
                "metadata": metadata});
            let owner = Document {
                file: String::from("-"),
                line: 0,
                object,
            };
            owning(&[owner], &[], &mut Report::default())
        };
        let deleted = "2026-06-01T12:00:00Z";
        assert!(blocks(
            json!({"name": "cluster", "deletionTimestamp": deleted, "finalizers": ["a/b"]})
        ));
        assert!(!blocks(json!({"name": "cluster", "finalizers": ["a/b"]})));
    }
}
