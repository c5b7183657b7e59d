//! Runs the test suites of OpenShift's CRDs on a real API server: on our CRDs, and on theirs to
//! check the runner itself.
//!
//! A case creates an object, may update it, and compares the stored object or the refusal with what
//! the suite expects. The suites leave the name to their runner. Every object is called `cluster`
//! here, in a namespace of its own, because our CRD accepts no other name of a set.

use std::collections::BTreeSet;

use axum::http::Request;
use capstan_sandbox::control_plane::{ControlPlane, Options};
use capstan_sandbox::neighbours::openshift_api::{OpenShiftApi, Variant};
use capstan_sandbox::neighbours::suite::{Case, Suite};
use futures::StreamExt as _;
use kube::Client;
use serde_json::{Value, json};

use crate::deviations::{DEVIATIONS, Deviation};

/// The resources that have suites, by group and version.
const RESOURCES: [(&str, &str); 4] = [
    ("machine/v1", "controlplanemachinesets"),
    ("machine/v1beta1", "machines"),
    ("machine/v1beta1", "machinesets"),
    ("machine/v1beta1", "machinehealthchecks"),
];

/// The name of every object.
const NAME: &str = "cluster";

/// Concurrent cases.
const CONCURRENCY: usize = 8;

/// A case that did not hold.
#[derive(Debug)]
struct Failure {
    suite: String,
    case: String,
    why: String,
}

/// A control plane that serves CRDs.
async fn serve(crds: &[Value]) -> (ControlPlane, Client) {
    let options = Options {
        no_controllers: true,
        ..Options::default()
    };
    let plane = ControlPlane::start(options).await.unwrap();
    let crds: Vec<String> = crds.iter().map(Value::to_string).collect();
    plane.apply_yaml(&crds.join("\n---\n")).await.unwrap();
    let client = plane.client().await.unwrap();
    (plane, client)
}

/// The suites of all resources that apply with all feature gates on, or with all off.
fn suites(api: &OpenShiftApi, gates_on: bool) -> Vec<Suite> {
    let suites =
        RESOURCES.map(|(version, plural)| api.suites(version, &format!("{plural}.machine.openshift.io")).unwrap());
    suites
        .into_iter()
        .flatten()
        .filter(|suite| suite.applies(gates_on))
        .collect()
}

/// Runs suites. Returns the number of cases and those that do not hold.
async fn run(plane: &ControlPlane, client: &Client, suites: &[Suite]) -> (usize, Vec<Failure>) {
    let cases: Vec<(&Suite, &Case)> = suites
        .iter()
        .flat_map(|suite| {
            suite
                .on_create()
                .iter()
                .chain(suite.on_update())
                .map(move |case| (suite, case))
        })
        .collect();
    let count = cases.len();
    let outcomes = futures::stream::iter(cases.into_iter().map(|(suite, case)| async move {
        let namespace = plane.namespace("suite").await.unwrap();
        let why = hold(client, suite, case, &namespace).await.err()?;
        Some(Failure {
            suite: suite.name.clone(),
            case: case.name.clone(),
            why,
        })
    }));
    let failures: Vec<Option<Failure>> = outcomes.buffered(CONCURRENCY).collect().await;
    (count, failures.into_iter().flatten().collect())
}

/// Runs one case. The error says how it differs from what the suite expects.
async fn hold(client: &Client, suite: &Suite, case: &Case, namespace: &str) -> Result<(), String> {
    assert!(
        case.initial_crd_patches.is_empty(),
        "{}: patches of the CRD are not supported",
        case.name
    );
    let objects = Objects::new(client, suite, case, namespace);
    let initial = Case::object(&case.initial).unwrap();
    let is_update = !case.updated.is_empty();
    let created = objects.create(&initial).await;
    let mut stored = match (created, is_update) {
        (created, false) if !case.expected_error.is_empty() => return refused(created, &case.expected_error),
        (created, _) => created.map_err(|error| format!("the creation is refused: {error}"))?,
    };
    if initial.get("status").is_some() {
        let written = objects.update("/status", &stored, &initial).await;
        stored = written.map_err(|error| format!("the initial status is refused: {error}"))?;
    }
    if is_update {
        let updated = Case::object(&case.updated).unwrap();
        let written = objects.update("", &stored, &updated).await;
        if !case.expected_error.is_empty() {
            return refused(written, &case.expected_error);
        }
        stored = written.map_err(|error| format!("the update is refused: {error}"))?;
        if updated.get("status").is_some() {
            let written = objects.update("/status", &stored, &updated).await;
            if !case.expected_status_error.is_empty() {
                return refused(written, &case.expected_status_error);
            }
            stored = written.map_err(|error| format!("the status is refused: {error}"))?;
        }
    }
    let mut expected = Case::object(&case.expected).unwrap();
    for object in [&mut stored, &mut expected] {
        object.as_object_mut().unwrap().remove("metadata");
    }
    if stored == expected {
        return Ok(());
    }
    Err(format!("stored {stored}, expected {expected}"))
}

fn refused(written: Result<Value, String>, expected: &str) -> Result<(), String> {
    match written {
        Ok(_) => Err(format!("must be refused with {expected:?}")),
        Err(message) if without_values(&message).contains(&without_values(expected)) => Ok(()),
        Err(message) => Err(format!("refused with {message:?}, expected {expected:?}")),
    }
}

/// A message without the invalid values. The suites were written for versions of Kubernetes that
/// print the type of an invalid value, and newer versions print the value itself, or nothing for an
/// object.
fn without_values(message: &str) -> String {
    let mut parts = message.split("Invalid value: ");
    let mut text = parts.next().unwrap_or_default().to_owned();
    for part in parts {
        let quoted = part
            .strip_prefix('"')
            .and_then(|rest| rest.find('"').map(|end| &rest[end + 1..]));
        let rest = match quoted {
            Some(rest) => rest,
            None => part
                .trim_start_matches("null")
                .trim_start_matches(|letter: char| letter.is_ascii_digit()),
        };
        text.push_str("Invalid value: ");
        text.push_str(rest.strip_prefix(": ").unwrap_or(rest));
    }
    text
}

#[test]
fn messages_are_compared_without_invalid_values() {
    for (expected, message) in [
        (
            "a: Invalid value: \"object\": wrong",
            "B is invalid: a: Invalid value: wrong",
        ),
        ("a: Invalid value: \"integer\": wrong", "a: Invalid value: 5: wrong"),
        ("a: Invalid value: \"string\": wrong", "a: Invalid value: \"x\": wrong"),
        (
            "<nil>: Invalid value: \"null\"",
            "<nil>: Invalid value: null: some rules",
        ),
    ] {
        assert!(without_values(message).contains(&without_values(expected)), "{message}");
    }
    assert!(
        !without_values("a: Invalid value: 5: other").contains(&without_values("a: Invalid value: \"integer\": wrong"))
    );
}

/// Writes the objects of one case.
struct Objects<'a> {
    client: &'a Client,
    namespace: &'a str,
    collection: String,
}

impl<'a> Objects<'a> {
    fn new(client: &'a Client, suite: &Suite, case: &Case, namespace: &'a str) -> Self {
        let initial = Case::object(&case.initial).unwrap();
        let version = initial["apiVersion"].as_str().unwrap();
        let plural = suite.crd_name.split('.').next().unwrap();
        Self {
            client,
            namespace,
            collection: format!("/apis/{version}/namespaces/{namespace}/{plural}"),
        }
    }

    async fn create(&self, object: &Value) -> Result<Value, String> {
        let mut object = object.clone();
        object["metadata"] = json!({"name": NAME, "namespace": self.namespace});
        self.send("POST", &self.collection, &object).await
    }

    async fn update(&self, part: &str, stored: &Value, object: &Value) -> Result<Value, String> {
        let mut object = object.clone();
        object["metadata"] = stored["metadata"].clone();
        self.send("PUT", &format!("{}/{NAME}{part}", self.collection), &object)
            .await
    }

    async fn send(&self, method: &str, path: &str, object: &Value) -> Result<Value, String> {
        let request = Request::builder()
            .method(method)
            .uri(path)
            .header("content-type", "application/json")
            .body(object.to_string().into_bytes())
            .unwrap();
        match self.client.request(request).await {
            Ok(stored) => Ok(stored),
            Err(kube::Error::Api(status)) => Err(status.message.clone()),
            Err(error) => panic!("{error}"),
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn the_suites_of_openshift_hold_on_their_crds() {
    let api = OpenShiftApi::locate().unwrap();
    for (variant, gates_on) in [(Variant::Default, false), (Variant::CustomNoUpgrade, true)] {
        let crds = RESOURCES.map(|(version, plural)| api.crd(version, plural, variant).unwrap());
        let (plane, client) = serve(&crds).await;
        let (count, failures) = run(&plane, &client, &suites(&api, gates_on)).await;
        assert!(count > 50, "{count}");
        assert!(failures.is_empty(), "{variant:?}: {failures:#?}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn the_suites_of_openshift_hold_on_our_crds_except_for_listed_deviations() {
    let api = OpenShiftApi::locate().unwrap();
    let crds = RESOURCES.map(|(_, plural)| {
        let path = format!(
            "{}/manifests/crds/machine.openshift.io_{plural}.yaml",
            env!("CARGO_MANIFEST_DIR")
        );
        serde_saphyr::from_str(&std::fs::read_to_string(path).unwrap()).unwrap()
    });
    let (plane, client) = serve(&crds).await;
    // Our CRDs are the same for all feature gates, so the suites for both states are run.
    let mut suites_of_both = suites(&api, true);
    let known: BTreeSet<String> = suites_of_both.iter().map(|suite| suite.name.clone()).collect();
    suites_of_both.extend(
        suites(&api, false)
            .into_iter()
            .filter(|suite| !known.contains(&suite.name)),
    );
    let (count, failures) = run(&plane, &client, &suites_of_both).await;
    assert!(count > 100, "{count}");
    let is_listed = |deviation: &Deviation, failure: &Failure| {
        deviation.suites.contains(&&*failure.suite)
            && deviation.cases.contains(&&*failure.case)
            && failure.why.contains(deviation.shows)
    };
    let unlisted: Vec<&Failure> = failures
        .iter()
        .filter(|failure| !DEVIATIONS.iter().any(|deviation| is_listed(deviation, failure)))
        .collect();
    assert!(
        unlisted.is_empty(),
        "{count} cases, deviations that are not listed: {unlisted:#?}"
    );
    for deviation in DEVIATIONS {
        let occurs = |case: &str| {
            let mut same = failures.iter().filter(|failure| failure.case == case);
            same.any(|failure| is_listed(deviation, failure))
        };
        let absent: Vec<&&str> = deviation.cases.iter().filter(|case| !occurs(case)).collect();
        assert!(absent.is_empty(), "listed deviations that do not occur: {absent:#?}");
    }
}
