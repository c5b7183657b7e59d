//! The rows of the document's table about creation, for each kind, and the deletions of Machines
//! without an owner. `docs/both-apis.md` lists which test covers which row.
//!
//! The objects of both APIs are created while no sync controller runs, so that it meets them as
//! they are. Each object has a value that tells from which API it was copied.

use capstan_core::authority::finalizers;
use capstan_core::authority::pair::Part;
use capstan_core::authority::spec::Api;
use capstan_core::authority::{FINALIZER, PAUSED_BY_SYNC};
use capstan_core::conversion::{Context, Lookup, to_cluster_api};
use serde_json::{Value, json};

use crate::cluster::{AWS, CLUSTER_API, Cluster, send};
use crate::health_checks::Check;
use crate::sets::Set;

/// The value of the object of the Machine API, and of the one of Cluster API.
const IN_MACHINE_API: i64 = 1;
const IN_CLUSTER_API: i64 = 2;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    Machine,
    MachineSet,
    MachineHealthCheck,
}

/// A row: what is created in the Machine API, whether an object of Cluster API is created, and
/// whose value both have in the end.
struct Row {
    id: &'static str,
    machine_api: Option<Api>,
    in_cluster_api: bool,
    value: i64,
}

const ROWS: [Row; 6] = [
    Row {
        id: "t1",
        machine_api: Some(Api::MachineApi),
        in_cluster_api: false,
        value: IN_MACHINE_API,
    },
    Row {
        id: "t3",
        machine_api: Some(Api::ClusterApi),
        in_cluster_api: true,
        value: IN_CLUSTER_API,
    },
    Row {
        id: "t4",
        machine_api: Some(Api::ClusterApi),
        in_cluster_api: false,
        value: IN_MACHINE_API,
    },
    Row {
        id: "t9",
        machine_api: None,
        in_cluster_api: true,
        value: IN_CLUSTER_API,
    },
    Row {
        id: "t10",
        machine_api: Some(Api::MachineApi),
        in_cluster_api: true,
        value: IN_MACHINE_API,
    },
    Row {
        id: "t11",
        machine_api: Some(Api::ClusterApi),
        in_cluster_api: true,
        value: IN_CLUSTER_API,
    },
];

const KINDS: [Kind; 3] = [Kind::Machine, Kind::MachineSet, Kind::MachineHealthCheck];

impl Kind {
    fn name(self, row: &Row) -> String {
        format!("{}-{self:?}", row.id).to_lowercase()
    }

    fn body(self, name: &str, authority: Api, value: i64) -> Value {
        match self {
            Self::Machine => {
                let mut body = Cluster::machine_body(name, authority);
                body["spec"]["providerSpec"]["value"]["instanceType"] = json!(format!("m6i.{value}xlarge"));
                body
            }
            Self::MachineSet => {
                let mut body = Cluster::set_body(name, authority);
                body["spec"]["replicas"] = json!(value);
                body
            }
            Self::MachineHealthCheck => {
                let mut body = Check::body(name, authority);
                body["spec"]["maxUnhealthy"] = json!(value);
                body
            }
        }
    }

    /// The value of the object of an API. The infrastructure machine has the one of a Machine of
    /// Cluster API.
    async fn value(self, cluster: &Cluster, name: &str, api: Api) -> Option<i64> {
        let (path, at) = match (self, api) {
            (Self::Machine, Api::MachineApi) => ("machines", "/spec/providerSpec/value/instanceType"),
            (Self::Machine, Api::ClusterApi) => ("awsmachines", "/spec/instanceType"),
            (Self::MachineSet, _) => ("machinesets", "/spec/replicas"),
            (Self::MachineHealthCheck, Api::MachineApi) => ("machinehealthchecks", "/spec/maxUnhealthy"),
            (Self::MachineHealthCheck, Api::ClusterApi) => (
                "machinehealthchecks",
                "/spec/remediation/triggerIf/unhealthyLessThanOrEqualTo",
            ),
        };
        let root = match (self, api) {
            (_, Api::MachineApi) => crate::cluster::MACHINE_API,
            (Self::Machine, Api::ClusterApi) => AWS,
            (_, Api::ClusterApi) => CLUSTER_API,
        };
        let object = cluster.find(&format!("{root}/{path}/{name}")).await?;
        let value = object.pointer(at)?;
        let digits = value
            .to_string()
            .replace("m6i.", "")
            .replace("xlarge", "")
            .replace('"', "");
        digits.parse().ok()
    }
}

/// The objects of Cluster API that correspond to one of the Machine API.
async fn in_cluster_api(cluster: &Cluster, body: &Value, paused: bool) -> Vec<Value> {
    let infrastructure = cluster
        .find("/apis/config.openshift.io/v1/infrastructures/cluster")
        .await
        .unwrap();
    let of_provider = cluster.find(&format!("{AWS}/awsclusters/prod-x7k2p")).await.unwrap();
    let context = Context {
        infrastructure: Lookup::Found(&infrastructure),
        infrastructure_cluster: Lookup::Found(&of_provider),
        ..Context::default()
    };
    let converted = to_cluster_api(body, &context);
    assert!(!converted.is_blocked(), "{:?}", converted.issues);
    let mut objects = converted.objects;
    for object in &mut objects {
        object.as_object_mut().unwrap().remove("status");
        let metadata = object["metadata"].as_object_mut().unwrap();
        metadata.remove("namespace");
        if paused && object["kind"] != "AWSMachineTemplate" {
            object["metadata"]["annotations"]["cluster.x-k8s.io/paused"] = json!(PAUSED_BY_SYNC);
        }
    }
    objects
}

/// Creates the objects of all rows. No sync controller runs.
pub(crate) async fn create_the_objects_of_each_row(cluster: &Cluster) {
    for kind in KINDS {
        for row in &ROWS {
            let name = kind.name(row);
            if row.in_cluster_api {
                let body = kind.body(&name, Api::ClusterApi, IN_CLUSTER_API);
                let paused = row.machine_api == Some(Api::MachineApi);
                for object in in_cluster_api(cluster, &body, paused).await {
                    cluster.create("openshift-cluster-api", &object).await;
                }
            }
            if let Some(authority) = row.machine_api {
                let body = kind.body(&name, authority, IN_MACHINE_API);
                cluster.create("openshift-machine-api", &body).await;
            }
        }
    }
}

/// Waits until the objects of all rows are as the document says. The sync controller runs.
pub(crate) async fn each_row_of_creation_ends_as_the_document_says(cluster: &Cluster) {
    for kind in KINDS {
        for row in &ROWS {
            let name = kind.name(row);
            match (row.machine_api, kind) {
                (None, _) => a_lone_object_is_left_alone(cluster, kind, &name).await,
                (Some(api), Kind::Machine) => {
                    let mut machine = cluster.known(&name);
                    machine.agrees(api).await;
                    machine.settle().await;
                    assert_eq!(machine.instances, 1, "{name}");
                }
                (Some(api), Kind::MachineSet) => {
                    let set = Set {
                        cluster,
                        name: name.clone(),
                    };
                    set.agrees(api).await;
                }
                (Some(api), Kind::MachineHealthCheck) => Check { cluster, name: &name }.agrees(api).await,
            }
            if row.machine_api.is_some() {
                let copied = kind.value(cluster, &name, Api::MachineApi).await;
                assert_eq!(copied, Some(row.value), "{name} in the Machine API");
            }
            let copied = kind.value(cluster, &name, Api::ClusterApi).await;
            assert_eq!(copied, Some(row.value), "{name} in Cluster API");
        }
    }
}

/// An object of Cluster API alone is not copied, paused, or held.
async fn a_lone_object_is_left_alone(cluster: &Cluster, kind: Kind, name: &str) {
    let plural = format!("{kind:?}s").to_lowercase();
    let path = format!("{}/{plural}/{name}", crate::cluster::MACHINE_API);
    assert_eq!(cluster.find(&path).await, None, "{name}");
    let lone = cluster.find(&format!("{CLUSTER_API}/{plural}/{name}")).await.unwrap();
    assert_eq!(lone["metadata"]["annotations"]["cluster.x-k8s.io/paused"], json!(null));
    let finalizers = lone["metadata"]["finalizers"].to_string();
    assert!(!finalizers.contains(FINALIZER), "{name}: {finalizers}");
}

/// The deletion of the authoritative Machine without an owner deletes its instance, and nothing
/// else. `main` tests the deletion of the mirror.
pub(crate) async fn the_deletion_of_an_authoritative_machine_without_an_owner_stays_in_its_api(cluster: &Cluster) {
    let mut machine = cluster.machine("lone-mapi", Api::MachineApi, None).await;
    machine.synchronized(Api::MachineApi).await;
    machine.delete(Part::MachineApi).await;
    machine
        .until("the Machine is deleted", async |machine| {
            machine.get(Part::MachineApi).await.is_none()
        })
        .await;
    machine.settle().await;
    let left = machine.object(Part::ClusterApi).await.unwrap();
    assert!(!left.member.deleting && left.member.is_paused(), "{:#}", left.value);
    assert_eq!((machine.instance.as_deref(), machine.instances), (None, 1));

    let mut machine = cluster.machine("lone-capi", Api::MachineApi, None).await;
    machine.synchronized(Api::MachineApi).await;
    machine.request(Api::ClusterApi).await;
    machine.synchronized(Api::ClusterApi).await;
    let uid = machine.object(Part::ClusterApi).await.unwrap().uid().to_owned();
    machine.delete(Part::ClusterApi).await;
    machine
        .until("the Machine is made again", async |machine| {
            let again = machine.object(Part::ClusterApi).await;
            again.is_some_and(|again| again.uid() != uid)
        })
        .await;
    machine.settle().await;
    let kept = machine.object(Part::MachineApi).await.unwrap();
    assert!(!kept.member.deleting);
    assert_eq!(machine.instances, 1, "no second instance is made silently");
}

/// A paused MachineSet of Cluster API that lost the one of the Machine API does not stay in
/// deletion, and its deletion reaches no instance.
pub(crate) async fn a_left_over_mirror_of_a_machine_set_can_be_deleted(cluster: &Cluster) {
    let body = Kind::MachineSet.body("left-over", Api::ClusterApi, 1);
    for mut object in in_cluster_api(cluster, &body, true).await {
        if object["kind"] == "MachineSet" {
            object["metadata"]["finalizers"] = json!([FINALIZER, finalizers::CLUSTER_API_SET]);
        }
        cluster.create("openshift-cluster-api", &object).await;
    }
    let path = format!("{CLUSTER_API}/machinesets/left-over");
    let set = cluster.find(&path).await.unwrap();
    let body = Kind::Machine.body("left-over", Api::ClusterApi, 1);
    for mut object in in_cluster_api(cluster, &body, false).await {
        // The infrastructure machine belongs to the Machine.
        if object["kind"] == "Machine" {
            object["metadata"]["ownerReferences"] = json!([{"apiVersion": set["apiVersion"], "kind": "MachineSet",
                "name": "left-over", "uid": set["metadata"]["uid"], "controller": true, "blockOwnerDeletion": true}]);
        }
        cluster.create("openshift-cluster-api", &object).await;
    }
    let mut machine = cluster.known("left-over");
    machine
        .until("the instance runs", async |machine| machine.instance.is_some())
        .await;
    let delete = ["delete", "machinesets.cluster.x-k8s.io", "left-over", "--timeout=60s"];
    cluster
        .kubectl(&[&delete[..], &["-n", "openshift-cluster-api"]].concat())
        .await;
    machine.settle().await;
    let kept = machine.object(Part::ClusterApi).await.unwrap();
    assert!(!kept.member.deleting, "{:#}", kept.value);
    assert_eq!((machine.instance.is_some(), machine.instances), (true, 1));
    // Nothing owns it any more, and a user can delete it.
    send(
        &cluster.client,
        "DELETE",
        &format!("{CLUSTER_API}/machines/left-over"),
        None,
    )
    .await
    .unwrap();
    machine.gone().await;
}
