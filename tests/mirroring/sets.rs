//! MachineSets of both APIs. The test plays the MachineSet controllers: their pauses, the finalizer
//! of Cluster API, and the deletion of the Machines of a MachineSet of Cluster API.

use std::time::{Duration, Instant};

use capstan_core::authority::finalizers;
use capstan_core::authority::pair::FullObject;
use capstan_core::authority::spec::Api;
use serde_json::{Value, json};

use crate::cluster::{AWS, CLUSTER_API, Cluster, MACHINE_API, SOON, send};

/// A MachineSet of both APIs.
pub(crate) struct Set<'a> {
    pub(crate) cluster: &'a Cluster,
    pub(crate) name: String,
}

impl Set<'_> {
    fn path(&self, api: Api) -> String {
        let namespace = match api {
            Api::MachineApi => MACHINE_API,
            Api::ClusterApi => CLUSTER_API,
        };
        format!("{namespace}/machinesets/{}", self.name)
    }

    pub(crate) async fn get(&self, api: Api) -> Option<FullObject> {
        self.cluster.find(&self.path(api)).await.map(FullObject::from)
    }

    async fn patch(&self, path: &str, patch: &Value) {
        send(&self.cluster.client, "PATCH", path, Some(patch)).await.unwrap();
    }

    /// The names of the infrastructure templates of the set.
    pub(crate) async fn templates(&self) -> Vec<String> {
        let list = self.cluster.find(&format!("{AWS}/awsmachinetemplates")).await.unwrap();
        let names = list["items"].as_array().unwrap().iter();
        let names = names.map(|item| item["metadata"]["name"].as_str().unwrap().to_owned());
        names
            .filter(|name| name.starts_with(&format!("{}-", self.name)))
            .collect()
    }

    /// The template that the MachineSet of Cluster API refers to.
    async fn reference(&self) -> String {
        let set = self.get(Api::ClusterApi).await;
        let name = set.and_then(|set| {
            set.text("/spec/template/spec/infrastructureRef/name")
                .map(str::to_owned)
        });
        name.unwrap_or_default()
    }

    /// One step of the MachineSet controllers of both APIs. Returns whether they changed anything.
    pub(crate) async fn controllers(&self) -> bool {
        let mut acted = false;
        if let Some(set) = self.get(Api::MachineApi).await
            && let Some(authority) = set.text("/status/authoritativeAPI")
        {
            let paused = if authority == "MachineAPI" { "False" } else { "True" };
            acted |= self.report(Api::MachineApi, &set, paused).await;
        }
        let Some(set) = self.get(Api::ClusterApi).await else {
            return acted;
        };
        let held = set.has_finalizer(finalizers::CLUSTER_API_SET);
        if !held && !set.member.deleting {
            let mut list = set.finalizers();
            list.push(finalizers::CLUSTER_API_SET);
            self.patch(&self.path(Api::ClusterApi), &json!({"metadata": {"finalizers": list}}))
                .await;
            return true;
        }
        let paused = if set.member.is_paused() { "True" } else { "False" };
        acted |= self.report(Api::ClusterApi, &set, paused).await;
        if held && set.member.deleting && !set.member.is_paused() {
            let mut list = set.finalizers();
            list.retain(|name| *name != finalizers::CLUSTER_API_SET);
            self.patch(&self.path(Api::ClusterApi), &json!({"metadata": {"finalizers": list}}))
                .await;
            return true;
        }
        acted
    }

    async fn report(&self, api: Api, set: &FullObject, status: &str) -> bool {
        if set.condition("Paused") == Some(status) {
            return false;
        }
        let mut conditions = set.value["status"]["conditions"]
            .as_array()
            .cloned()
            .unwrap_or_default();
        conditions.retain(|condition| condition["type"] != "Paused");
        conditions.push(
            json!({"type": "Paused", "status": status, "reason": "Test", "message": "",
            "lastTransitionTime": "2026-01-01T00:00:00Z"}),
        );
        let path = format!("{}/status", self.path(api));
        // Another controller may have written in between.
        let body =
            json!({"metadata": {"resourceVersion": set.resource_version()}, "status": {"conditions": conditions}});
        send(&self.cluster.client, "PATCH", &path, Some(&body)).await.ok();
        true
    }

    /// Lets the controllers of both APIs act until something holds.
    pub(crate) async fn until(&self, what: &str, holds: impl AsyncFn(&Self) -> bool) {
        let deadline = Instant::now() + SOON;
        loop {
            let acted = self.controllers().await;
            if holds(self).await {
                return;
            }
            if Instant::now() >= deadline {
                let objects = [self.get(Api::MachineApi).await, self.get(Api::ClusterApi).await];
                let objects = objects.map(|object| object.map(|object| Value::clone(&object.value)));
                let (objects, templates) = (serde_json::to_string_pretty(&objects).unwrap(), self.templates().await);
                panic!("{}: {what}: {objects}\n{templates:?}", self.name);
            }
            if !acted {
                tokio::time::sleep(Duration::from_millis(20)).await;
            }
        }
    }

    pub(crate) async fn agrees(&self, api: Api) {
        self.until("the MachineSet is synchronized", async |set| {
            let Some(object) = set.get(Api::MachineApi).await else {
                return false;
            };
            object.text("/status/authoritativeAPI") == Some(api.as_str())
                && object.condition("Synchronized") == Some("True")
        })
        .await;
    }

    pub(crate) async fn request(&self, api: Api) {
        let patch = json!({"spec": {"authoritativeAPI": api.as_str()}}).to_string();
        let set = ["patch", "machinesets.machine.openshift.io", &self.name];
        let options = ["-n", "openshift-machine-api", "--type=merge", "-p", &patch];
        self.cluster.kubectl(&[&set[..], &options].concat()).await;
    }

    /// Lets everything run until nothing has changed for a while, and checks that the controllers
    /// write nothing from then on.
    pub(crate) async fn settles(&self) {
        let versions = async || {
            let mut versions = Vec::new();
            for api in [Api::MachineApi, Api::ClusterApi] {
                versions.push(self.get(api).await.map(|set| set.resource_version().to_owned()));
            }
            versions
        };
        let deadline = Instant::now() + SOON;
        let (mut quiet, mut before) = (0, versions().await);
        while quiet < 12 {
            assert!(Instant::now() < deadline, "{} does not settle", self.name);
            let acted = self.controllers().await;
            tokio::time::sleep(Duration::from_millis(25)).await;
            let now = versions().await;
            quiet = if acted || now != before { 0 } else { quiet + 1 };
            before = now;
        }
    }
}

pub(crate) async fn set<'a>(cluster: &'a Cluster, name: &str, authority: Api) -> Set<'a> {
    cluster.sets(name, authority).await;
    let set = Set {
        cluster,
        name: name.to_owned(),
    };
    set.agrees(authority).await;
    set.settles().await;
    set
}

fn instance_type(value: &str) -> Value {
    json!({"spec": {"template": {"spec": {"providerSpec": {"value": {"instanceType": value}}}}}})
}

pub(crate) async fn a_change_makes_a_new_template_and_the_old_one_goes(cluster: &Cluster) {
    let set = set(cluster, "templates", Api::MachineApi).await;
    let mirror = set.get(Api::ClusterApi).await.unwrap();
    assert!(mirror.member.is_paused_by_sync());
    let first = set.reference().await;
    assert_eq!(set.templates().await, std::slice::from_ref(&first));
    let mut edit = instance_type("m6i.8xlarge");
    edit["spec"]["replicas"] = json!(3);
    set.patch(&set.path(Api::MachineApi), &edit).await;
    set.until("the mirror refers to a new template", async |set| {
        set.reference().await != first
    })
    .await;
    let second = set.reference().await;
    set.until("the old template is deleted", async |set| {
        set.templates().await == [second.clone()]
    })
    .await;
    set.settles().await;
    let mirror = set.get(Api::ClusterApi).await.unwrap();
    assert_eq!(mirror.value["spec"]["replicas"], json!(3));
    cluster.gate.close_after(1000);
    set.settles().await;
    assert_eq!(cluster.gate.writes(), Vec::<String>::new());
    cluster.gate.open();
    // The first content has the first name again.
    set.patch(&set.path(Api::MachineApi), &instance_type("m6i.xlarge"))
        .await;
    set.until("the second template is deleted", async |set| {
        set.templates().await == [set.reference().await] && set.reference().await != second
    })
    .await;
}

/// Cluster API rolls out a template of its own, and the way back keeps it.
pub(crate) async fn a_machine_set_is_migrated_there_and_back(cluster: &Cluster) {
    let set = set(cluster, "moved", Api::MachineApi).await;
    let before = set.get(Api::MachineApi).await.unwrap();
    set.request(Api::ClusterApi).await;
    set.agrees(Api::ClusterApi).await;
    set.settles().await;
    assert!(!set.get(Api::ClusterApi).await.unwrap().member.is_paused());
    assert_eq!(
        set.get(Api::MachineApi).await.unwrap().condition("Paused"),
        Some("True")
    );
    let template = cluster
        .find(&format!("{AWS}/awsmachinetemplates/{}", set.reference().await))
        .await;
    let mut spec = template.unwrap()["spec"].clone();
    spec["template"]["spec"]["instanceType"] = json!("m6i.12xlarge");
    let own = json!({"apiVersion": "infrastructure.cluster.x-k8s.io/v1beta2", "kind": "AWSMachineTemplate",
        "metadata": {"name": "moved-by-hand"}, "spec": spec});
    send(
        &cluster.client,
        "POST",
        &format!("{AWS}/awsmachinetemplates"),
        Some(&own),
    )
    .await
    .unwrap();
    let edit = json!({"spec": {"replicas": 2, "template": {"spec": {"infrastructureRef": {"name": "moved-by-hand"}}}}});
    set.patch(&set.path(Api::ClusterApi), &edit).await;
    set.until("the change is copied", async |set| {
        let object = set.get(Api::MachineApi).await.unwrap();
        let instance = object.text("/spec/template/spec/providerSpec/value/instanceType");
        instance == Some("m6i.12xlarge") && object.value["spec"]["replicas"] == json!(2)
    })
    .await;
    set.settles().await;
    set.request(Api::MachineApi).await;
    set.agrees(Api::MachineApi).await;
    set.settles().await;
    assert!(set.get(Api::ClusterApi).await.unwrap().member.is_paused_by_sync());
    assert_eq!(set.reference().await, "moved-by-hand", "the content is the same");
    let after = set.get(Api::MachineApi).await.unwrap();
    for unchanged in [
        "/spec/selector",
        "/spec/template/metadata",
        "/spec/template/spec/authoritativeAPI",
    ] {
        assert_eq!(
            after.value.pointer(unchanged),
            before.value.pointer(unchanged),
            "{unchanged}"
        );
    }
    assert_eq!(after.value["spec"]["replicas"], json!(2));
    // A request that is taken back leaves the authority where it was.
    set.request(Api::ClusterApi).await;
    set.request(Api::MachineApi).await;
    set.agrees(Api::MachineApi).await;
    set.settles().await;
}

/// The mirror of a MachineSet owns a Machine that its own API is authoritative for. Its deletion
/// does not reach the instance, also not through the garbage collector.
pub(crate) async fn the_machines_of_a_deleted_mirror_stay(cluster: &Cluster) {
    for (authority, mirror) in [(Api::MachineApi, Api::ClusterApi), (Api::ClusterApi, Api::MachineApi)] {
        let name = format!("mirror-{mirror:?}").to_lowercase();
        let set = set(cluster, &name, authority).await;
        let owner = set.get(Api::MachineApi).await.unwrap().value;
        let mut machine = cluster.machine(&name, mirror, Some(&owner)).await;
        machine.synchronized(mirror).await;
        let uid = set.get(mirror).await.unwrap().uid().to_owned();
        cluster.delete_set(mirror, &name).await;
        set.until("the mirror is gone", async |set| {
            set.get(mirror).await.is_none_or(|set| set.uid() != uid)
        })
        .await;
        if mirror == Api::ClusterApi {
            set.until("the mirror is made again", async |set| set.get(mirror).await.is_some())
                .await;
        }
        machine.settle().await;
        let kept = machine
            .object(capstan_core::authority::pair::Part::of(mirror))
            .await
            .unwrap();
        assert!(!kept.member.deleting && machine.instance.is_some(), "{name}");
        assert_eq!(machine.instances, 1, "{name}");
        assert!(!set.get(authority).await.unwrap().member.deleting, "{name}");
    }
}

pub(crate) async fn the_deletion_of_an_authoritative_machine_set_leaves_nothing(cluster: &Cluster) {
    for authority in [Api::MachineApi, Api::ClusterApi] {
        let name = format!("removed-{authority:?}").to_lowercase();
        let set = set(cluster, &name, authority).await;
        let owner = set.get(Api::MachineApi).await.unwrap().value;
        let mut machine = cluster.machine(&name, authority, Some(&owner)).await;
        machine.synchronized(authority).await;
        cluster.delete_set(authority, &name).await;
        set.until("both MachineSets and the templates are deleted", async |set| {
            let gone = [set.get(Api::MachineApi).await, set.get(Api::ClusterApi).await];
            gone.iter().all(Option::is_none) && set.templates().await.is_empty()
        })
        .await;
        machine.gone().await;
        assert_eq!((machine.instance.as_deref(), machine.instances), (None, 1), "{name}");
    }
}
