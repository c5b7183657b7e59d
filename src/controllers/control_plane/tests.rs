//! The status of a ControlPlane, as it is written.

use capstan_core::api::config_openshift_io::infrastructure::Infrastructure;
use capstan_core::api::core_v1::node::Node;
use capstan_core::api::machine_openshift_io::control_plane_machine_set::ControlPlaneMachineSet;
use capstan_core::api::machine_openshift_io::machine::Machine;
use capstan_core::api::objects::{CachedObject, KindObjects};

use super::*;
use crate::runtime::WatchedObject;

const NAMESPACE: &str = "openshift-machine-api";

fn now() -> Timestamp {
    "2026-01-01T12:00:00Z".parse().unwrap()
}

fn put<T: CachedObject>(view: &mut View, kind: &KindInfo, object: Value) {
    let object: WatchedObject<T> = serde_json::from_value(object).unwrap();
    view.put(kind, &object.key(), Some(object));
}

fn view(object: &Value) -> View {
    let mut view = View::default();
    view.objects.insert(
        &kinds::CONTROL_PLANE_MACHINE_SETS,
        KindObjects::<ControlPlaneMachineSet>::default(),
    );
    view.objects.insert(&kinds::MACHINES, KindObjects::<Machine>::default());
    view.objects.insert(&kinds::NODES, KindObjects::<Node>::default());
    let infrastructure = json!({"metadata": {"name": "cluster"}, "status": {"infrastructureName": "c"}});
    put::<Infrastructure>(&mut view, &kinds::INFRASTRUCTURES, infrastructure);
    put::<ControlPlane>(&mut view, &kinds::CONTROL_PLANES, object.clone());
    view
}

fn written(controller: &ControlPlanes, object: &Value, state: &mut State) -> Vec<Write> {
    let view = view(object);
    let observed = of_view(&view, &controller.options).unwrap();
    controller.status(&Reconciled::calm(&view, &observed, now()), state)
}

#[test]
fn v222_a_status_that_the_crd_of_control_planes_prunes_is_written_once() {
    let controller = ControlPlanes::new(Options::default(), "test".to_owned());
    let provider_spec = json!({"apiVersion": "machine.openshift.io/v1beta1", "kind": "AWSMachineProviderConfig",
        "instanceType": "m6i.xlarge"});
    let mut object = json!({"apiVersion": "machine.openshift.io/v1alpha1", "kind": "ControlPlane",
        "metadata": {"name": NAME, "namespace": NAMESPACE, "uid": "u", "resourceVersion": "1", "generation": 1},
        "spec": {"replicas": 3, "providerSpec": {"value": provider_spec}}});
    let mut state = State::default();
    let first = written(&controller, &object, &mut state);
    let [write] = first.as_slice() else { panic!("{first:?}") };
    let Verb::PatchStatus(patch) = &write.verb else {
        panic!("{write:?}")
    };
    let mut answer = patch["status"].clone();
    let kept = answer.as_object_mut().unwrap();
    for field in ["updatedReplicas", "unavailableReplicas", "observedGeneration"] {
        assert!(kept.remove(field).is_some(), "{patch}");
    }
    kept.retain(|_, value| !value.is_null());
    object["status"] = answer.clone();
    assert_eq!(
        written(&controller, &object, &mut state).len(),
        1,
        "nothing is known of the answer"
    );
    let observed = of_view(&view(&object), &controller.options).unwrap();
    let stored = Written {
        status: answer,
        ..Written::default()
    };
    controller.stored(&observed, write, &stored, &mut state);
    assert_eq!(written(&controller, &object, &mut state), [], "nothing else differs");
    object["status"]["readyReplicas"] = json!(2);
    let again = written(&controller, &object, &mut state);
    let [
        Write {
            verb: Verb::PatchStatus(patch),
            ..
        },
    ] = again.as_slice()
    else {
        panic!("{again:?}")
    };
    assert_eq!(patch["status"]["readyReplicas"], 0);
}
