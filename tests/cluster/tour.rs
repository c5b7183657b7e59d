//! `make run`, as it goes: the tour ends well, says what it should, and a cluster of the user's is afterwards as it was.

use std::io::{self, Write};
use std::sync::{Arc, Mutex, PoisonError};

use capstan_sandbox::control_plane::{ControlPlane, Options};
use capstan_sandbox::installation::Cluster;
use capstan_sandbox::tour::{Guest, Home, Screen, play};

use super::world::{World, capstan};

/// Keeps what is shown.
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
async fn the_tour_shows_a_refused_a_warned_and_an_accepted_edit_and_what_to_type_next() {
    let kept = Kept::default();
    let mut screen = Screen::to(kept.clone());
    let home = Home::start(capstan(), &mut screen).await.unwrap();
    play(home.cluster(), &mut screen).await.unwrap();
    home.follow(&mut screen).await.unwrap();
    home.say_next(&mut screen).unwrap();
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
        "\n  export KUBECONFIG=/",
        "Ctrl-C ends all of it",
    ] {
        assert!(text.contains(words), "{words:?} is not in {text}");
    }
    assert!(!text.contains('\x1b'), "colours outside a terminal");
}

/// Everything that the tour could leave.
async fn inventory(plane: &ControlPlane) -> String {
    let kinds = "customresourcedefinitions,namespaces,mutatingwebhookconfigurations,validatingwebhookconfigurations,\
                 validatingadmissionpolicies,validatingadmissionpolicybindings,clusterroles,clusterrolebindings";
    let get = ["get", kinds, "-o", "name"];
    plane.kubectl().args(get).run().await.unwrap().checked().unwrap().stdout
}

#[tokio::test]
async fn a_cluster_of_the_users_is_afterwards_as_it_was() {
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

    // Given up half-way: the address is one for documentation, and no machine's.
    let mut guest = Guest::new(cluster).unwrap();
    let nowhere = Some("192.0.2.1");
    guest.settle(capstan(), nowhere, &mut screen).await.unwrap_err();
    assert_ne!(inventory(&plane).await, before);
    guest.leave(&mut screen).await.unwrap();
    assert_eq!(inventory(&plane).await, before);
}

#[tokio::test]
async fn where_control_plane_machine_sets_are_in_use_the_tour_does_not_begin() {
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
            "CustomResourceDefinition controlplanemachinesets.machine.openshift.io is in this cluster already"
        ),
        "{error:#}"
    );
    guest.leave(&mut screen).await.unwrap();
    assert_eq!(inventory(plane).await, before);
    assert_eq!(taken.get().await["spec"]["replicas"], 3);
}
