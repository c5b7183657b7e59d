//! Tests of `make run`: the tour succeeds and shows the expected output, and leaves a cluster of
//! the user unchanged.

use std::io::{self, Write};
use std::sync::{Arc, Mutex, PoisonError};

use capstan_sandbox::control_plane::{ControlPlane, Options};
use capstan_sandbox::installation::Cluster;
use capstan_sandbox::tour::{Guest, Home, Screen, play};

use super::world::{World, capstan};

/// A writer that keeps the output of the tour.
#[derive(Clone, Default)]
struct Kept(Arc<Mutex<Vec<u8>>>);

impl Kept {
    fn text(&self) -> String {
        let bytes = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        String::from_utf8(bytes.clone()).unwrap()
    }
}

impl Write for Kept {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

#[tokio::test]
async fn the_tour_shows_a_refused_a_warned_and_an_accepted_edit_and_the_next_steps() {
    let kept = Kept::default();
    let mut screen = Screen::to(kept.clone());
    let home = Home::start(capstan(), &mut screen).await.unwrap();
    play(home.cluster(), &mut screen).await.unwrap();
    home.follow(&mut screen).await.unwrap();
    home.migrate(&mut screen).await.unwrap();
    home.show_next_steps(&mut screen).unwrap();
    let text = kept.text();
    for words in [
        "$ kubectl scale cpms cluster --replicas=5\nThe ControlPlaneMachineSet \"cluster\" is invalid: spec.replicas: Invalid \
         value: 5: replicas is immutable",
        "[cpms-spread-reduced]",
        "[cpms-foreground-deletion]",
        "Warning: this edit changes instanceType and replaces 3 machine(s)",
        "controlplanemachineset.machine.openshift.io/cluster edited\n",
        "controlplanemachineset.machine.openshift.io/cluster patched\n",
        "$ kubectl get machines --watch\n",
        "control-plane-",
        "Provisioning",
        "Deleting",
        "$ capstan status\n",
        "$ capstan migrate machine prod-x7k2p-worker-a --to clusterAPI --wait\n",
        "Machine openshift-machine-api/prod-x7k2p-worker-a: Cluster API is authoritative\n",
        "the Machine API as the authoritative API: refused\n",
        "spec.readinessGates",
        "$ capstan migrate machine prod-x7k2p-worker-a --cancel --wait\n",
        "\n  export KUBECONFIG=/",
        "Ctrl-C stops everything",
        "Open this page in a browser and watch the control plane: http://127.0.0.1:",
    ] {
        assert!(text.contains(words), "the output must contain {words:?}: {text}");
    }
    assert!(!text.contains('\x1b'), "there must be no colours without a terminal");
}

/// The names of all objects of the kinds that the tour creates outside its namespace.
async fn inventory(plane: &ControlPlane) -> String {
    let kinds = "customresourcedefinitions,namespaces,mutatingwebhookconfigurations,validatingwebhookconfigurations,\
                 validatingadmissionpolicies,validatingadmissionpolicybindings,clusterroles,clusterrolebindings";
    let get = ["get", kinds, "-o", "name"];
    plane.kubectl().args(get).run().await.unwrap().checked().unwrap().stdout
}

#[tokio::test]
async fn the_tour_leaves_a_cluster_of_the_user_unchanged() {
    let plane = ControlPlane::start(Options::default()).await.unwrap();
    let before = inventory(&plane).await;
    let kubeconfig = Some(plane.kubeconfig().unwrap());
    let cluster = Cluster::of_context(plane.binaries().kubectl.clone(), "capstan-sandbox", kubeconfig);
    let kept = Kept::default();
    let mut screen = Screen::to(kept.clone());
    let mut guest = Guest::new(cluster.clone()).unwrap();
    guest.settle(capstan(), None, &mut screen).await.unwrap();
    assert_ne!(inventory(&plane).await, before);
    play(guest.cluster(), &mut screen).await.unwrap();
    guest.leave(&mut screen).await.unwrap();
    assert_eq!(inventory(&plane).await, before);
    let command = "$ kubectl --context capstan-sandbox -n openshift-machine-api scale cpms cluster --replicas=5";
    assert!(kept.text().contains(command), "{}", kept.text());
    let address = "Open this page in a browser and watch the control plane: http://127.0.0.1:";
    assert!(kept.text().contains(address), "{}", kept.text());

    // The tour fails half-way, because no machine has this address, which is reserved for
    // documentation.
    let mut guest = Guest::new(cluster).unwrap();
    let nowhere = Some("192.0.2.1");
    guest.settle(capstan(), nowhere, &mut screen).await.unwrap_err();
    assert_ne!(inventory(&plane).await, before);
    guest.leave(&mut screen).await.unwrap();
    assert_eq!(inventory(&plane).await, before);
}

#[tokio::test]
async fn the_tour_does_not_start_where_control_plane_machine_sets_exist() {
    let taken = World::openshift().await.with_set(3, "Active").await;
    let plane = taken.plane();
    let before = inventory(plane).await;
    let kubeconfig = Some(plane.kubeconfig().unwrap());
    let cluster = Cluster::of_context(plane.binaries().kubectl.clone(), "capstan-sandbox", kubeconfig);
    let mut guest = Guest::new(cluster).unwrap();
    let mut screen = Screen::to(io::sink());
    let error = guest.settle(capstan(), None, &mut screen).await.unwrap_err();
    assert!(
        error.to_string().contains(
            "CustomResourceDefinition controlplanemachinesets.machine.openshift.io must not exist in this cluster"
        ),
        "{error:#}"
    );
    guest.leave(&mut screen).await.unwrap();
    assert_eq!(inventory(plane).await, before);
    assert_eq!(taken.get().await["spec"]["replicas"], 3);
}
