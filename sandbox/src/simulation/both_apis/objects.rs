//! The kinds of the environment, and the objects that a run begins with.

use std::sync::{Arc, OnceLock};

use anyhow::{Context as _, Result};
use capstan::controllers::mirroring::simulated::{LEASES, StoredObject};
use capstan_core::api::kind::KindInfo;
use capstan_core::api::kinds as table;
use capstan_core::schema::crd;
use serde_json::{Value, json};

use crate::api::Kind;
use crate::simulation::engine::kinds::{CachedKind, KindId, ObjectKey};

pub(super) const MACHINE_API: &str = "openshift-machine-api";
pub(super) const CLUSTER_API: &str = "openshift-cluster-api";
/// The name of the cluster.
pub(super) const CLUSTER: &str = "prod-x7k2p";
/// The MachineSet.
pub(super) const WORKERS: &str = "workers";
/// The MachineHealthCheck.
pub(super) const CHECK: &str = "check";
const GROUP: &str = "infrastructure.cluster.x-k8s.io";

static AWS_MACHINES: KindInfo = KindInfo::namespaced(GROUP, "v1beta2", "AWSMachine", "awsmachines");
static AWS_TEMPLATES: KindInfo = KindInfo::namespaced(GROUP, "v1beta2", "AWSMachineTemplate", "awsmachinetemplates");
static AWS_CLUSTERS: KindInfo = KindInfo::namespaced(GROUP, "v1beta2", "AWSCluster", "awsclusters");

pub(super) const MACHINE: KindId = KindId::of(&table::MACHINES);
pub(super) const SET: KindId = KindId::of(&table::MACHINE_SETS);
pub(super) const HEALTH_CHECK: KindId = KindId::of(&table::MACHINE_HEALTH_CHECKS);
pub(super) const MIRROR: KindId = KindId::of(&table::CLUSTER_API_MACHINES);
pub(super) const MIRROR_SET: KindId = KindId::of(&table::CLUSTER_API_MACHINE_SETS);
pub(super) const MIRROR_CHECK: KindId = KindId::of(&table::CLUSTER_API_MACHINE_HEALTH_CHECKS);
pub(super) const INFRASTRUCTURE: KindId = KindId::of(&AWS_MACHINES);
pub(super) const TEMPLATE: KindId = KindId::of(&AWS_TEMPLATES);
const AWS_CLUSTER: KindId = KindId::of(&AWS_CLUSTERS);
const CLUSTERS: KindId = KindId::of(&table::CLUSTER_API_CLUSTERS);
const PLATFORM: KindId = KindId::of(&table::INFRASTRUCTURES);

/// The kinds that replicas cache.
pub(super) fn cached() -> Vec<CachedKind> {
    let owning = [MACHINE, SET, MIRROR, MIRROR_SET, CLUSTERS];
    let others = [
        HEALTH_CHECK,
        MIRROR_CHECK,
        INFRASTRUCTURE,
        TEMPLATE,
        AWS_CLUSTER,
        PLATFORM,
        KindId::of(&LEASES),
    ];
    let owning = owning.into_iter().map(|id| CachedKind::of::<StoredObject>(id).owning());
    owning
        .chain(others.into_iter().map(CachedKind::of::<StoredObject>))
        .collect()
}

/// The kinds that the API server serves.
pub(super) fn served() -> Result<Arc<Vec<Kind>>> {
    static SERVED: OnceLock<Arc<Vec<Kind>>> = OnceLock::new();
    if let Some(served) = SERVED.get() {
        return Ok(Arc::clone(served));
    }
    let mut kinds = Kind::built_ins()?;
    for text in [
        include_str!("../../../../manifests/crds/machine.openshift.io_machines.yaml"),
        include_str!("../../../../manifests/crds/machine.openshift.io_machinesets.yaml"),
        include_str!("../../../../manifests/crds/machine.openshift.io_machinehealthchecks.yaml"),
    ] {
        let definition = serde_saphyr::from_str(text).context("parsing a CustomResourceDefinition")?;
        kinds.push(Kind::of_definition(&definition)?);
    }
    let definitions = crd::cluster_api_crds().into_iter().chain(crd::foreign_crds());
    for definition in definitions {
        kinds.push(Kind::of_definition(&definition)?);
    }
    Ok(Arc::clone(SERVED.get_or_init(|| Arc::new(kinds))))
}

/// The key of an object of the Machine API.
pub(super) fn of_machine_api(kind: KindId, name: &str) -> ObjectKey {
    kind.key(MACHINE_API, name)
}

/// The key of an object of Cluster API.
pub(super) fn of_cluster_api(kind: KindId, name: &str) -> ObjectKey {
    kind.key(CLUSTER_API, name)
}

fn provider_spec(instance_type: &str) -> Value {
    json!({"apiVersion": "machine.openshift.io/v1beta1", "kind": "AWSMachineProviderConfig",
        "ami": {"id": "ami-0123456789abcdef0"}, "instanceType": instance_type,
        "placement": {"region": "us-east-1", "availabilityZone": "us-east-1a"},
        "subnet": {"id": "subnet-1"}, "userDataSecret": {"name": "worker-user-data"},
        "credentialsSecret": {"name": "aws-cloud-credentials"}})
}

fn labels() -> Value {
    json!({"set": WORKERS, "machine.openshift.io/cluster-api-cluster": CLUSTER})
}

/// A Machine of the Machine API without an owner.
pub(super) fn machine(name: &str, authority: &str) -> Value {
    json!({"apiVersion": "machine.openshift.io/v1beta1", "kind": "Machine",
        "metadata": {"name": name, "namespace": MACHINE_API,
            "labels": {"machine.openshift.io/cluster-api-cluster": CLUSTER}},
        "spec": {"authoritativeAPI": authority, "providerSpec": {"value": provider_spec("m6i.large")}}})
}

/// The MachineSet of the Machine API.
pub(super) fn set(authority: &str) -> Value {
    json!({"apiVersion": "machine.openshift.io/v1beta1", "kind": "MachineSet",
        "metadata": {"name": WORKERS, "namespace": MACHINE_API},
        "spec": {"authoritativeAPI": authority, "replicas": 2, "selector": {"matchLabels": {"set": WORKERS}},
            "template": {"metadata": {"labels": labels()}, "spec": {"authoritativeAPI": authority,
                "providerSpec": {"value": provider_spec("m6i.large")}}}}})
}

/// A template of a user.
pub(super) fn template(name: &str, spec: &Value) -> Value {
    json!({"apiVersion": "infrastructure.cluster.x-k8s.io/v1beta2", "kind": "AWSMachineTemplate",
        "metadata": {"name": name, "namespace": CLUSTER_API,
            "labels": {"cluster.x-k8s.io/cluster-name": CLUSTER}}, "spec": spec})
}

fn check(authority: &str) -> Value {
    json!({"apiVersion": "machine.openshift.io/v1beta1", "kind": "MachineHealthCheck",
        "metadata": {"name": CHECK, "namespace": MACHINE_API},
        "spec": {"authoritativeAPI": authority, "selector": {"matchLabels": {"set": WORKERS}},
            "unhealthyConditions": [{"type": "Ready", "status": "False", "timeout": "300s"}]}})
}

/// The first objects, with their keys and their statuses.
pub(super) fn first(authority: &str) -> Vec<(ObjectKey, Value, Option<Value>)> {
    let cluster = json!({"apiVersion": "cluster.x-k8s.io/v1beta2", "kind": "Cluster",
        "metadata": {"name": CLUSTER, "namespace": CLUSTER_API},
        "spec": {"infrastructureRef": {"apiGroup": GROUP, "kind": "AWSCluster", "name": CLUSTER}}});
    let aws = json!({"apiVersion": "infrastructure.cluster.x-k8s.io/v1beta2", "kind": "AWSCluster",
        "metadata": {"name": CLUSTER, "namespace": CLUSTER_API}, "spec": {"region": "us-east-1"}});
    let platform = json!({"apiVersion": "config.openshift.io/v1", "kind": "Infrastructure",
        "metadata": {"name": "cluster"}, "spec": {"platformSpec": {"type": "AWS"}}});
    let status = json!({"status": {"infrastructureName": CLUSTER, "platform": "AWS",
        "platformStatus": {"type": "AWS", "aws": {"region": "us-east-1"}}}});
    vec![
        (of_cluster_api(CLUSTERS, CLUSTER), cluster, None),
        (of_cluster_api(AWS_CLUSTER, CLUSTER), aws, None),
        (PLATFORM.key("", "cluster"), platform, Some(status)),
        (of_machine_api(MACHINE, "alone"), machine("alone", authority), None),
        (of_machine_api(SET, WORKERS), set(authority), None),
        (of_machine_api(HEALTH_CHECK, CHECK), check(authority), None),
    ]
}
