//! The answer of the validating webhook of sets, for tests of admission.

use capstan_core::admission::{Admission, Answer, Options, Phase, Snapshot, routes};
use serde_json::{Value, json};

/// The answer to a request, the response in it, and the size of the request. The fields of the
/// request are those that differ between tests.
pub(crate) fn judged(request: &Value, snapshot: &Snapshot) -> (Answer, Value, usize) {
    let mut review = json!({"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview", "request": {
        "uid": "u-1",
        "kind": {"group": "machine.openshift.io", "version": "v1", "kind": "ControlPlaneMachineSet"},
        "resource": {"group": "machine.openshift.io", "version": "v1", "resource": "controlplanemachinesets"},
        "name": "cluster", "namespace": "openshift-machine-api", "userInfo": {"username": "alice"},
    }});
    for (field, value) in request.as_object().unwrap() {
        review["request"][field] = value.clone();
    }
    let admission = Admission::new(Options::default()).unwrap();
    let route = routes()
        .iter()
        .find(|route| route.phase == Phase::Validate && route.resources.contains(&"controlplanemachinesets"))
        .unwrap();
    let body = review.to_string();
    let answer = admission.answer(route, body.as_bytes(), snapshot).unwrap();
    let response = serde_json::from_slice::<Value>(&answer.body).unwrap()["response"].clone();
    (answer, response, body.len())
}
