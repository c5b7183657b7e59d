//! An upgrade to manifests and CRDs of a later version, and back: at each step, stored sets stay,
//! and the webhooks are called. No later version exists, so the test derives one from the
//! manifests.

use capstan_sandbox::control_plane::{ControlPlane, wait_until};
use capstan_sandbox::installation::{Cluster, NAMESPACE, manifests_of};
use serde_json::{Value, json};

use super::fixtures;
use super::lifecycle::{all_objects, empty, kubectl, prepare, register, serve};
use super::world::{SOON, capstan};

/// The CRDs and the manifests of a version, without the webhooks: the API server cannot reach the
/// Service of the test.
struct Version {
    crds: Vec<Value>,
    objects: Vec<Value>,
}

impl Version {
    async fn this() -> Self {
        let objects = async |what| -> Vec<Value> {
            let printed = manifests_of(capstan(), what, "admission").await.unwrap();
            serde_saphyr::from_multiple(&printed).unwrap()
        };
        let mut all = objects("all").await;
        all.retain(|object| !object["kind"].as_str().unwrap().ends_with("WebhookConfiguration"));
        Self {
            crds: objects("crds").await,
            objects: all,
        }
    }

    /// A later version: a new field in the CRD of sets, a new permission, and another image.
    async fn later() -> Self {
        let mut version = Self::this().await;
        for crd in &mut version.crds {
            if crd["metadata"]["name"] == "controlplanemachinesets.machine.openshift.io" {
                let fields = "/spec/versions/0/schema/openAPIV3Schema/properties/spec/properties";
                crd.pointer_mut(fields).unwrap()["addedLater"] = json!({"type": "string"});
            }
        }
        for object in &mut version.objects {
            if object["kind"] == "ClusterRole" && object["metadata"]["name"] == "capstan-webhook" {
                let rule = json!({"apiGroups": [""], "resources": ["namespaces"], "verbs": ["get"]});
                object["rules"].as_array_mut().unwrap().push(rule);
            }
            if let Some(image) = object.pointer_mut("/spec/template/spec/containers/0/image") {
                *image = json!("ghcr.io/capstan-dev/capstan:later");
            }
        }
        version
    }

    /// Applies the CRDs before the manifests for an upgrade, and after them for a downgrade.
    async fn apply(&self, plane: &ControlPlane, is_upgrade: bool) {
        let cluster = Cluster::of(plane).unwrap();
        let groups = [&self.crds, &self.objects];
        let order = if is_upgrade { [0, 1] } else { [1, 0] };
        for objects in order.map(|index| groups[index]) {
            let texts: Vec<String> = objects.iter().map(Value::to_string).collect();
            cluster.apply(&texts.join("\n---\n")).await.unwrap();
        }
    }
}

async fn stored(plane: &ControlPlane) -> Value {
    let get = [
        "get",
        "controlplanemachineset",
        "cluster",
        "-n",
        NAMESPACE,
        "-o",
        "json",
    ];
    serde_json::from_str(&kubectl(plane, &get).await.checked().unwrap().stdout).unwrap()
}

async fn patched(plane: &ControlPlane, patch: &Value) {
    let set = [
        "patch",
        "controlplanemachineset",
        "cluster",
        "-n",
        NAMESPACE,
        "--type=merge",
        "-p",
    ];
    let patch = patch.to_string();
    kubectl(plane, &[&set[..], &[&patch]].concat()).await.checked().unwrap();
}

async fn image(plane: &ControlPlane) -> String {
    let path = "jsonpath={.spec.template.spec.containers[0].image}";
    let get = ["get", "deployment", "capstan-webhook", "-n", NAMESPACE, "-o", path];
    kubectl(plane, &get).await.checked().unwrap().stdout
}

#[tokio::test]
async fn sets_and_webhooks_survive_an_upgrade_and_a_downgrade_with_crds() {
    let plane = empty().await;
    prepare(&plane).await;
    plane.apply_yaml(&fixtures::surroundings()).await.unwrap();
    let (this, later) = (Version::this().await, Version::later().await);
    this.apply(&plane, true).await;
    let (server, port) = serve(&plane, "upgrade.log", &[]).await;
    register(&plane, port, &[]).await;
    let called = async || {
        let mut probe = fixtures::set_of(3, "Inactive");
        probe["metadata"]["namespace"] = json!("default");
        wait_until("the webhooks are called", SOON, async || {
            let create = plane.kubectl().args(["create", "--dry-run=server", "-f", "-"]);
            let output = create.stdin(probe.to_string()).run().await?;
            anyhow::ensure!(output.stderr.contains("cpms-namespace"), "{output}");
            Ok(Some(()))
        })
        .await
        .unwrap();
    };
    called().await;
    plane
        .apply_yaml(&fixtures::set_of(3, "Inactive").to_string())
        .await
        .unwrap();
    let (objects, released, before) = (all_objects(&plane).await, image(&plane).await, stored(&plane).await);

    later.apply(&plane, true).await;
    called().await;
    assert_eq!(stored(&plane).await["spec"], before["spec"]);
    assert_eq!(image(&plane).await, "ghcr.io/capstan-dev/capstan:later");
    wait_until("the API server serves the new field", SOON, async || {
        patched(&plane, &json!({"spec": {"addedLater": "a"}})).await;
        anyhow::ensure!(stored(&plane).await["spec"]["addedLater"] == "a");
        Ok(Some(()))
    })
    .await
    .unwrap();

    this.apply(&plane, false).await;
    called().await;
    assert_eq!((image(&plane).await, all_objects(&plane).await), (released, objects));
    wait_until("the API server drops the new field", SOON, async || {
        patched(
            &plane,
            &json!({"metadata": {"annotations": {"example.com/written": "yes"}}}),
        )
        .await;
        anyhow::ensure!(stored(&plane).await["spec"] == before["spec"]);
        Ok(Some(()))
    })
    .await
    .unwrap();
    server.stop(SOON).await.unwrap();
}
