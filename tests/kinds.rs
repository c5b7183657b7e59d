//! The permissions in the manifests follow from the kind table: what is read, what is written, and
//! which CustomResourceDefinitions are watched until a kind is served.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "a test may fail"
)]

use std::collections::{BTreeMap, BTreeSet};

use capstan_core::api::kind::Scope;
use capstan_core::api::kinds::{self, Home, KindEntry, Reader};
use serde_json::Value;

/// Group, resource and name (`*` for all objects), in a namespace or in the cluster; with the
/// verbs.
type Grants = BTreeMap<(Scoped, String, String, String), BTreeSet<String>>;

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Scoped {
    Namespace,
    Cluster,
}

/// Groups of the API server itself, which no controller reconciles.
const BUILT_IN: &[&str] = &["admissionregistration.k8s.io", "coordination.k8s.io"];

fn granted(manifest: &str) -> Grants {
    let text = std::fs::read_to_string(format!("{}/{manifest}", env!("CARGO_MANIFEST_DIR"))).unwrap();
    let mut grants = Grants::new();
    for document in text.split("\n---\n") {
        let document: Value = serde_saphyr::from_str(document).unwrap();
        let scoped = match document["kind"].as_str() {
            Some("Role") => Scoped::Namespace,
            Some("ClusterRole") => Scoped::Cluster,
            _ => continue,
        };
        for rule in document["rules"].as_array().unwrap() {
            let list = |field: &str| -> Vec<String> {
                let values = rule[field].as_array().cloned().unwrap_or_default();
                values.iter().map(|value| value.as_str().unwrap().to_owned()).collect()
            };
            let names = match list("resourceNames") {
                names if names.is_empty() => vec!["*".to_owned()],
                names => names,
            };
            for (group, resource) in list("apiGroups").into_iter().flat_map(|group| {
                list("resources")
                    .into_iter()
                    .map(move |resource| (group.clone(), resource))
            }) {
                // Secrets with certificates, and events, are no kinds that are reconciled.
                let own = resource == "secrets" || resource == "events" || resource.ends_with("/finalizers");
                if own || BUILT_IN.contains(&group.as_str()) {
                    continue;
                }
                for name in &names {
                    let key = (scoped, group.clone(), resource.clone(), name.clone());
                    grants.entry(key).or_default().extend(list("verbs"));
                }
            }
        }
    }
    grants
}

fn grant(grants: &mut Grants, key: (Scoped, &str, &str, &str), verbs: &[&str]) {
    let (scoped, group, resource, name) = key;
    let key = (scoped, group.to_owned(), resource.to_owned(), name.to_owned());
    grants
        .entry(key)
        .or_default()
        .extend(verbs.iter().map(|verb| (*verb).to_owned()));
}

/// What the kind table asks for. Only the namespace of the Machine API has a Role of its own.
fn wanted(is_reader: impl Fn(&KindEntry) -> bool, writes: bool) -> Grants {
    let mut grants = Grants::new();
    for entry in kinds::all().filter(|entry| is_reader(entry)) {
        let scoped = match entry.home {
            Home::MachineApi => Scoped::Namespace,
            Home::ClusterApi | Home::Etcd | Home::Cluster => Scoped::Cluster,
        };
        assert_eq!(
            entry.home == Home::Cluster,
            entry.kind.scope == Scope::Cluster,
            "{entry:?}"
        );
        let (group, plural) = (entry.kind.group.as_ref(), entry.kind.plural.as_ref());
        let names = if entry.names.is_empty() {
            &["*"][..]
        } else {
            entry.names
        };
        for name in names {
            grant(&mut grants, (scoped, group, plural, name), &["get", "list", "watch"]);
        }
        if let Some(definition) = entry.kind.definition() {
            let key = (
                Scoped::Cluster,
                "apiextensions.k8s.io",
                "customresourcedefinitions",
                &*definition,
            );
            grant(&mut grants, key, &["get", "list", "watch"]);
        }
        if !writes {
            continue;
        }
        for verb in entry.writes {
            grant(&mut grants, (scoped, group, plural, "*"), &[verb]);
        }
        if entry.writes_status {
            let status = format!("{plural}/status");
            // Of a kind with other owners, only our own object.
            let name = names.last().copied().unwrap_or("*");
            grant(&mut grants, (scoped, group, &status, name), &["patch"]);
        }
    }
    grants
}

#[test]
fn the_role_of_the_webhook_reads_what_the_kind_table_lists_and_nothing_else() {
    for (manifest, reader) in [
        ("manifests/base/rbac.yaml", Reader::Admission),
        ("manifests/components/mirroring/rbac.yaml", Reader::Guards),
        ("manifests/components/control-plane/rbac.yaml", Reader::ControlPlanes),
    ] {
        let wanted = wanted(|entry| entry.is_read_by(reader), false);
        assert_eq!(granted(manifest), wanted, "{manifest}");
    }
}

/// The Role in the namespace of Cluster API is one in a namespace too.
#[test]
fn the_roles_of_the_mirroring_controllers_write_mirrored_kinds_and_read_what_the_kind_table_lists() {
    let mut wanted = Grants::new();
    for ((scoped, group, resource, name), verbs) in self::wanted(|entry| entry.is_read_by(Reader::Mirroring), false) {
        let is_definition = resource == "customresourcedefinitions";
        let scoped = match group.ends_with("x-k8s.io") {
            true => Scoped::Namespace,
            false => scoped,
        };
        let scoped = if is_definition { Scoped::Cluster } else { scoped };
        let verbs: Vec<&str> = verbs.iter().map(String::as_str).collect();
        grant(&mut wanted, (scoped, &group, &resource, &name), &verbs);
        if resource.ends_with("machines") {
            grant(
                &mut wanted,
                (scoped, &group, &resource, "*"),
                &["create", "patch", "delete"],
            );
            let status = format!("{resource}/status");
            grant(&mut wanted, (scoped, &group, &status, "*"), &["patch"]);
        }
        // A MachineSet or a MachineHealthCheck of the Machine API is never created. Templates have
        // no status.
        let is_parent = ["machinesets", "machinehealthchecks"].contains(&resource.as_str());
        if is_parent || resource.ends_with("machinetemplates") {
            grant(&mut wanted, (scoped, &group, &resource, "*"), &["patch", "delete"]);
        }
        if resource.ends_with("machinetemplates") || (is_parent && group.ends_with("x-k8s.io")) {
            grant(&mut wanted, (scoped, &group, &resource, "*"), &["create"]);
        }
        if is_parent {
            let status = format!("{resource}/status");
            grant(&mut wanted, (scoped, &group, &status, "*"), &["patch"]);
        }
    }
    // A condition of the ClusterOperator of the Machine API.
    let config = "config.openshift.io";
    let operator = (Scoped::Cluster, config, "clusteroperators", "machine-api");
    grant(&mut wanted, operator, &["get", "list", "watch"]);
    let status = (Scoped::Cluster, config, "clusteroperators/status", "machine-api");
    grant(&mut wanted, status, &["patch"]);
    let definition = (
        Scoped::Cluster,
        "apiextensions.k8s.io",
        "customresourcedefinitions",
        "clusteroperators.config.openshift.io",
    );
    grant(&mut wanted, definition, &["get", "list", "watch"]);
    assert_eq!(granted("manifests/components/mirroring-controllers/rbac.yaml"), wanted);
}

#[test]
fn the_role_of_the_controllers_reads_and_writes_what_the_kind_table_lists_and_nothing_else() {
    let wanted = wanted(|entry| entry.is_read_by(Reader::Controllers), true);
    assert_eq!(granted("manifests/components/controllers/rbac.yaml"), wanted);
}

#[test]
fn the_role_of_the_controller_of_control_planes_writes_machines_health_checks_and_its_own_kind_only() {
    let mut wanted = wanted(|entry| entry.is_read_by(Reader::ControlPlaneControllers), false);
    let group = "machine.openshift.io";
    for (resource, verbs) in [
        ("machines", &["create", "patch", "delete"][..]),
        ("machinehealthchecks", &["create", "patch", "delete"]),
        ("controlplanes", &["patch"]),
        ("controlplanes/status", &["patch"]),
    ] {
        grant(&mut wanted, (Scoped::Namespace, group, resource, "*"), verbs);
    }
    let status = (
        Scoped::Cluster,
        "config.openshift.io",
        "clusteroperators/status",
        "control-plane-machine-set",
    );
    grant(&mut wanted, status, &["patch"]);
    // The addresses of etcd members, for --etcd-members=capstan.
    grant(&mut wanted, (Scoped::Namespace, "", "pods", "*"), &["list"]);
    assert_eq!(
        granted("manifests/components/control-plane-controllers/rbac.yaml"),
        wanted
    );
}

/// The controller manages clusters in all namespaces, and creates infrastructure machines of kinds
/// that are known at run time only.
#[test]
fn the_role_of_the_controller_of_kubeadm_control_planes_writes_what_machines_need() {
    let mut wanted = wanted(|entry| entry.is_read_by(Reader::KubeadmControlPlaneControllers), false);
    for (group, resource, verbs) in [
        ("cluster.x-k8s.io", "machines", &["create", "patch", "delete"][..]),
        ("cluster.x-k8s.io", "machines/status", &["patch"]),
        ("bootstrap.cluster.x-k8s.io", "kubeadmconfigs", &["create", "patch"]),
        ("controlplane.cluster.x-k8s.io", "kubeadmcontrolplanes", &["patch"]),
        (
            "controlplane.cluster.x-k8s.io",
            "kubeadmcontrolplanes/status",
            &["patch"],
        ),
        ("infrastructure.cluster.x-k8s.io", "*", &["get", "create", "patch"]),
    ] {
        grant(&mut wanted, (Scoped::Cluster, group, resource, "*"), verbs);
    }
    assert_eq!(
        granted("manifests/components/kubeadm-control-plane-controllers/rbac.yaml"),
        wanted
    );
}

/// The kinds of the infrastructure, and the CRDs that serve them, have names that are known at run
/// time only.
#[test]
fn the_role_of_the_controller_of_machine_pools_writes_machines_and_the_objects_of_pools() {
    let mut wanted = wanted(|entry| entry.is_read_by(Reader::MachinePoolControllers), false);
    wanted.retain(|(_, _, resource, _), _| resource != "customresourcedefinitions");
    for (group, resource, verbs) in [
        ("cluster.x-k8s.io", "machines", &["create", "patch", "delete"][..]),
        ("cluster.x-k8s.io", "machines/status", &["patch"]),
        ("cluster.x-k8s.io", "machinepools", &["patch"]),
        ("cluster.x-k8s.io", "machinepools/status", &["patch"]),
        (
            "infrastructure.cluster.x-k8s.io",
            "*",
            &["get", "list", "watch", "patch", "delete"],
        ),
        (
            "bootstrap.cluster.x-k8s.io",
            "*",
            &["get", "list", "watch", "patch", "delete"],
        ),
        (
            "apiextensions.k8s.io",
            "customresourcedefinitions",
            &["get", "list", "watch"],
        ),
    ] {
        grant(&mut wanted, (Scoped::Cluster, group, resource, "*"), verbs);
    }
    assert_eq!(
        granted("manifests/components/machine-pool-controllers/rbac.yaml"),
        wanted
    );
}
