//! A restore of etcd under running watches.

use capstan::controllers::{Caches, snapshot};
use capstan_core::admission::rule_files;
use capstan_core::schema::crd;
use capstan_sandbox::control_plane::{ControlPlane, Options, wait_until};
use capstan_sandbox::installation::{Cluster, NAMESPACE};
use serde_json::Value;

use super::fixtures;
use super::world::SOON;

const SETS: &str = "controlplanemachinesets.machine.openshift.io";

/// Waits until the caches are complete and show the set with this value of
/// the label `step`; none if it has no such label.
async fn wait_for_step(caches: &Caches, step: Option<&str>) {
    let mut views = caches.views();
    let what = format!("the caches to show step {step:?}");
    let shown = wait_until(&what, SOON, async || {
        let view = views.borrow_and_update().clone();
        let sets = snapshot(&view.objects).control_plane_machine_sets.unwrap_or_default();
        let label = |set: &str| -> Option<String> {
            let set = sets.iter().find(|known| known.metadata.name() == set)?;
            set.metadata.labels.get("step").cloned()
        };
        let is_known = sets.iter().any(|set| set.metadata.name() == "cluster");
        Ok((view.synced && is_known && label("cluster").as_deref() == step).then_some(()))
    });
    shown.await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn w22_a_restore_of_etcd_is_noticed_by_running_watches() {
    let options = Options {
        no_controllers: true,
        ..Options::default()
    };
    let mut plane = ControlPlane::start(options).await.unwrap();
    let cluster = Cluster::of(&plane).unwrap();
    let mut crds: Vec<Value> = crd::crds(&rule_files().unwrap()).unwrap();
    crds.extend(crd::foreign_crds());
    let crds: Vec<String> = crds.iter().map(Value::to_string).collect();
    cluster.apply(&crds.join("\n---\n")).await.unwrap();
    let run = async |arguments: &[&str]| cluster.run(arguments, "").await.unwrap().checked().unwrap();
    run(&["create", "namespace", NAMESPACE]).await;
    cluster.apply(&fixtures::surroundings()).await.unwrap();
    cluster.apply(&fixtures::set().to_string()).await.unwrap();
    let caches = Caches::start(&plane.client().await.unwrap(), NAMESPACE);
    wait_for_step(&caches, None).await;

    let backup = plane.back_up("backup").await.unwrap();
    let label = async |step: &str| {
        let label = format!("step={step}");
        run(&["label", SETS, "cluster", "-n", NAMESPACE, "--overwrite", &label]).await;
    };
    label("new").await;
    // The server itself writes objects when it starts, so the backup must be much older.
    for number in 0..200 {
        label(&format!("new-{number}")).await;
    }
    wait_for_step(&caches, Some("new-199")).await;
    plane.restore(&backup).await.unwrap();
    // The process was not restarted: it shows the restored set, and what happens to it.
    wait_for_step(&caches, None).await;
    label("after").await;
    wait_for_step(&caches, Some("after")).await;
}
