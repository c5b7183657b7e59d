//! MachineHealthChecks of both APIs, by every row of the document's tables. The test plays the
//! controller of Cluster API. The one of the Machine API reads the pause annotation only.

use std::time::{Duration, Instant};

use capstan_core::authority::pair::FullObject;
use capstan_core::authority::spec::Api;
use serde_json::{Value, json};

use crate::cluster::{CLUSTER_API, Cluster, MACHINE_API, SOON, send};

const PAUSED: &str = "cluster.x-k8s.io/paused";

pub(crate) struct Check<'a> {
    pub(crate) cluster: &'a Cluster,
    pub(crate) name: &'a str,
}

impl<'a> Check<'a> {
    /// Creates a MachineHealthCheck of the Machine API as a user does.
    async fn create(cluster: &'a Cluster, name: &'a str, authority: Api) -> Self {
        cluster
            .create("openshift-machine-api", &Self::body(name, authority))
            .await;
        let check = Self { cluster, name };
        check.agrees(authority).await;
        check
    }

    /// A MachineHealthCheck of the Machine API.
    pub(crate) fn body(name: &str, authority: Api) -> Value {
        json!({"apiVersion": "machine.openshift.io/v1beta1", "kind": "MachineHealthCheck",
            "metadata": {"name": name}, "spec": {"authoritativeAPI": authority.as_str(), "maxUnhealthy": "40%",
                "selector": {"matchLabels": {"set": "workers"}},
                "unhealthyConditions": [{"type": "Ready", "status": "False", "timeout": "300s"}]}})
    }

    fn path(&self, api: Api) -> String {
        let namespace = if api == Api::MachineApi {
            MACHINE_API
        } else {
            CLUSTER_API
        };
        format!("{namespace}/machinehealthchecks/{}", self.name)
    }

    async fn get(&self, api: Api) -> Option<FullObject> {
        self.cluster.find(&self.path(api)).await.map(FullObject::from)
    }

    async fn patch(&self, api: Api, patch: &Value) {
        let path = self.path(api);
        send(&self.cluster.client, "PATCH", &path, Some(patch)).await.unwrap();
    }

    /// One step of the controller of Cluster API.
    async fn controller(&self) {
        let Some(check) = self.get(Api::ClusterApi).await else {
            return;
        };
        let status = if check.member.is_paused() { "True" } else { "False" };
        if check.condition("Paused") == Some(status) {
            return;
        }
        let condition = json!([{"type": "Paused", "status": status, "reason": "Test", "message": "",
            "lastTransitionTime": "2026-01-01T00:00:00Z"}]);
        let patch = json!({"metadata": {"resourceVersion": check.resource_version()},
            "status": {"conditions": condition}});
        let path = format!("{}/status", self.path(Api::ClusterApi));
        send(&self.cluster.client, "PATCH", &path, Some(&patch)).await.ok();
    }

    async fn until(&self, what: &str, holds: impl AsyncFn(&Self) -> bool) {
        let deadline = Instant::now() + SOON;
        loop {
            self.controller().await;
            let both = [self.get(Api::MachineApi).await, self.get(Api::ClusterApi).await];
            let open = both.iter().flatten().filter(|check| !check.member.is_paused());
            let judged = both[0]
                .as_ref()
                .is_some_and(|check| check.text("/status/authoritativeAPI").is_some() && !check.member.deleting);
            assert!(!judged || open.count() <= 1, "{}: both checks act", self.name);
            if holds(self).await {
                return;
            }
            let shown = both.map(|check| check.map(|check| check.value));
            assert!(Instant::now() < deadline, "{}: {what}: {shown:#?}", self.name);
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    }

    pub(crate) async fn agrees(&self, api: Api) {
        self.until("the check is synchronized", async |check| {
            let Some(object) = check.get(Api::MachineApi).await else {
                return false;
            };
            let Some(mirror) = check.get(Api::ClusterApi).await else {
                return false;
            };
            let acts = if api == Api::MachineApi { &object } else { &mirror };
            object.text("/status/authoritativeAPI") == Some(api.as_str())
                && object.condition("Synchronized") == Some("True")
                && !acts.member.is_paused()
                && mirror.condition("Paused") == Some(if api == Api::ClusterApi { "False" } else { "True" })
        })
        .await;
    }

    async fn migrate(&self, api: Api) {
        self.patch(Api::MachineApi, &json!({"spec": {"authoritativeAPI": api.as_str()}}))
            .await;
        self.agrees(api).await;
    }

    async fn delete(&self, api: Api) {
        let (resource, namespace) = match api {
            Api::MachineApi => ("machinehealthchecks.machine.openshift.io", "openshift-machine-api"),
            Api::ClusterApi => ("machinehealthchecks.cluster.x-k8s.io", "openshift-cluster-api"),
        };
        let delete = ["delete", resource, self.name, "-n", namespace, "--wait=false"];
        self.cluster.kubectl(&delete).await;
    }
}

pub(crate) async fn a_check_is_copied_migrated_and_deleted(cluster: &Cluster) {
    let check = Check::create(cluster, "moved", Api::MachineApi).await;
    check
        .patch(Api::MachineApi, &json!({"spec": {"maxUnhealthy": 2}}))
        .await;
    check
        .until("the edit is copied", async |check| {
            let mirror = check.get(Api::ClusterApi).await.unwrap();
            mirror.value["spec"]["remediation"]["triggerIf"]["unhealthyLessThanOrEqualTo"] == json!(2)
        })
        .await;
    let columns = cluster
        .kubectl(&[
            "get",
            "machinehealthchecks.machine.openshift.io",
            "-n",
            "openshift-machine-api",
        ])
        .await;
    assert!(
        columns.contains("AUTHORITY") && columns.contains("MachineAPI"),
        "{columns}"
    );
    check.migrate(Api::ClusterApi).await;
    check.migrate(Api::MachineApi).await;
    // A pause of a user delays the migration, and stays.
    let pause = json!({"metadata": {"annotations": {PAUSED: ""}}});
    check.patch(Api::MachineApi, &pause).await;
    check
        .patch(Api::MachineApi, &json!({"spec": {"authoritativeAPI": "ClusterAPI"}}))
        .await;
    check
        .until("the pause is reported", async |check| {
            let events = ["get", "events", "-n", "openshift-machine-api", "-o", "json"];
            let events = check.cluster.kubectl(&events).await;
            events.contains("MigrationWaiting") && events.contains("has the annotation cluster.x-k8s.io/paused")
        })
        .await;
    let unpause = json!({"metadata": {"annotations": {PAUSED: null}}});
    check.patch(Api::MachineApi, &unpause).await;
    check.agrees(Api::ClusterApi).await;
    the_deletion_of_a_check_follows_the_table(cluster).await;
}

async fn the_deletion_of_a_check_follows_the_table(cluster: &Cluster) {
    for (name, authority) in [("gone-with-mapi", Api::MachineApi), ("gone-with-capi", Api::ClusterApi)] {
        let check = Check::create(cluster, name, authority).await;
        check.delete(authority).await;
        check
            .until("both are deleted", async |check| {
                check.get(Api::MachineApi).await.is_none() && check.get(Api::ClusterApi).await.is_none()
            })
            .await;
    }
    let check = Check::create(cluster, "made-again", Api::MachineApi).await;
    let uid = check.get(Api::ClusterApi).await.unwrap().uid().to_owned();
    check.delete(Api::ClusterApi).await;
    check
        .until("the mirror is made again", async |check| {
            check
                .get(Api::ClusterApi)
                .await
                .is_some_and(|mirror| mirror.uid() != uid)
        })
        .await;
    check.agrees(Api::MachineApi).await;
    let check = Check::create(cluster, "left", Api::ClusterApi).await;
    check.delete(Api::MachineApi).await;
    check
        .until("the one of Cluster API is alone", async |check| {
            let left = check.get(Api::ClusterApi).await.unwrap();
            check.get(Api::MachineApi).await.is_none() && !left.member.deleting && !left.member.is_paused()
        })
        .await;
}

/// Half of all objects are not synchronized, and then all are.
pub(crate) async fn a_failure_of_all_objects_is_a_condition_of_the_operator(cluster: &Cluster) {
    const OPERATORS: &str = "/apis/config.openshift.io/v1/clusteroperators";
    let body = json!({"apiVersion": "config.openshift.io/v1", "kind": "ClusterOperator",
        "metadata": {"name": "machine-api"}, "spec": {}});
    send(&cluster.client, "POST", OPERATORS, Some(&body)).await.unwrap();
    let path = format!("{OPERATORS}/machine-api");
    let available = json!({"status": {"conditions": [{"type": "Available", "status": "True",
        "lastTransitionTime": "2026-01-01T00:00:00Z"}]}});
    send(&cluster.client, "PATCH", &format!("{path}/status"), Some(&available))
        .await
        .unwrap();
    let strategy = "machine.openshift.io/remediation-strategy";
    let checks = [
        Check::create(cluster, "wide-a", Api::MachineApi).await,
        Check::create(cluster, "wide-b", Api::MachineApi).await,
    ];
    let until = async |status: &str| {
        let deadline = Instant::now() + SOON;
        loop {
            let operator = cluster.find(&path).await.unwrap();
            let conditions = operator["status"]["conditions"].as_array().unwrap();
            assert!(conditions.iter().any(|condition| condition["type"] == "Available"));
            let own = conditions
                .iter()
                .find(|condition| condition["type"] == "MirroringDegraded");
            if own.is_some_and(|condition| condition["status"] == status) {
                return;
            }
            assert!(Instant::now() < deadline, "{status}: {conditions:?}");
            tokio::time::sleep(Duration::from_millis(100)).await;
        }
    };
    for check in &checks {
        check
            .patch(
                Api::MachineApi,
                &json!({"metadata": {"annotations": {strategy: "external-baremetal"}}}),
            )
            .await;
    }
    // A failure counts once it lasts for five minutes.
    for check in &checks {
        let path = format!("{}/status", check.path(Api::MachineApi));
        let deadline = Instant::now() + SOON;
        loop {
            let stored = check.get(Api::MachineApi).await.unwrap();
            if stored.condition("Synchronized") == Some("False") {
                let mut conditions = stored.value["status"]["conditions"].clone();
                for condition in conditions.as_array_mut().unwrap() {
                    condition["lastTransitionTime"] = json!("2026-01-01T00:00:00Z");
                }
                let patch = json!({"metadata": {"resourceVersion": stored.resource_version()},
                    "status": {"conditions": conditions}});
                if send(&cluster.client, "PATCH", &path, Some(&patch)).await.is_ok() {
                    break;
                }
            }
            assert!(Instant::now() < deadline, "{}: the check is not blocked", check.name);
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
    }
    until("True").await;
    for check in &checks {
        check
            .patch(Api::MachineApi, &json!({"metadata": {"annotations": {strategy: null}}}))
            .await;
    }
    until("False").await;
}
