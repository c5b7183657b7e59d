//! The CRDs on a real API server: they install without warnings, kubectl shows their objects, and
//! the offline engine judges every golden object as the server does.

use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

use capstan_core::cel::rules::RuleFile;
use capstan_core::model::Violation;
use capstan_core::schema::{Definition, crd};
use capstan_sandbox::control_plane::{ControlPlane, wait_until};
use serde_json::{Value, json};
use tokio::sync::OnceCell;

const SOON: Duration = Duration::from_secs(240);

fn repository() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR"))
}

fn read_json(file: &str) -> Value {
    serde_json::from_str(&fs::read_to_string(repository().join("core/tests/golden/schema").join(file)).unwrap())
        .unwrap()
}

async fn kubectl(plane: &ControlPlane, arguments: &[&str]) -> String {
    let output = plane.kubectl().args(arguments.iter().copied()).run().await.unwrap();
    output.checked().unwrap().stdout
}

/// The shared control plane with everything installed, once.
async fn installed() -> &'static ControlPlane {
    static INSTALLED: OnceCell<()> = OnceCell::const_new();
    let plane = ControlPlane::shared().await.unwrap();
    INSTALLED
        .get_or_init(|| async {
            install(plane, &repository().join("manifests/crds")).await;
        })
        .await;
    plane
}

async fn install(plane: &ControlPlane, folder: &Path) {
    let output = plane
        .kubectl()
        .args(["apply", "-f", &folder.display().to_string()])
        .run()
        .await
        .unwrap();
    assert!(output.success(), "{output}");
    assert_eq!(output.stderr, "", "the API server must not warn");
    let mut others: Vec<String> = crd::foreign_crds().iter().map(Value::to_string).collect();
    others.push(read_json("widget.json").to_string());
    for other in others {
        let output = plane.apply_yaml(&other).await.unwrap();
        assert!(output.success(), "{output}");
        assert_eq!(output.stderr, "", "the API server must not warn");
    }
    let names = ["wait", "--for=condition=Established", "crd", "--all", "--timeout=60s"];
    kubectl(plane, &names).await;
    // A kind is served a moment after its CRD is established.
    let resources = ["controlplanemachinesets", "widgets", "machines", "clusteroperators"];
    wait_until("the kinds are served", SOON, async || {
        let names = kubectl(plane, &["api-resources", "-o", "name"]).await;
        Ok(resources.iter().all(|kind| names.contains(kind)).then_some(()))
    })
    .await
    .unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn the_schemas_are_structural_and_have_no_failed_condition() {
    let plane = installed().await;
    let definitions: Value = serde_json::from_str(&kubectl(plane, &["get", "crd", "-o", "json"]).await).unwrap();
    let definitions = definitions["items"].as_array().unwrap();
    assert!(definitions.len() >= 8);
    for definition in definitions {
        for condition in definition["status"]["conditions"].as_array().unwrap() {
            let type_ = condition["type"].as_str().unwrap();
            assert!(
                ["NamesAccepted", "Established"].contains(&type_),
                "{} of {}",
                condition,
                crd::name(definition)
            );
            assert_eq!(
                condition["status"],
                "True",
                "{} of {}",
                condition,
                crd::name(definition)
            );
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn b20_kubectl_explains_lists_and_scales_a_set() {
    let plane = installed().await;
    let namespace = plane.namespace("crds").await.unwrap();
    let explained = kubectl(plane, &["explain", "cpms.spec.replicas"]).await;
    assert!(
        explained.contains("The number of machines of the control plane: 3 or 5."),
        "{explained}"
    );
    let output = plane
        .kubectl()
        .args(["apply", "-n", &namespace, "-f", "-"])
        .stdin(read_json("verdicts.json")[0]["object"].to_string())
        .run()
        .await
        .unwrap();
    assert!(output.success(), "{output}");
    let status = json!({"status": {"selector": "role=master", "replicas": 3, "readyReplicas": 2}}).to_string();
    let patch = [
        "patch",
        "cpms",
        "cluster",
        "-n",
        &namespace,
        "--subresource=status",
        "--type=merge",
        "-p",
        &status,
    ];
    kubectl(plane, &patch).await;
    let listed = kubectl(plane, &["get", "cpms", "-n", &namespace]).await;
    let columns: Vec<Vec<&str>> = listed.lines().map(|line| line.split_whitespace().collect()).collect();
    assert_eq!(
        columns[0],
        [
            "NAME",
            "DESIRED",
            "CURRENT",
            "READY",
            "UPDATED",
            "UNAVAILABLE",
            "STATE",
            "AGE"
        ]
    );
    assert_eq!(columns[1][..5], ["cluster", "3", "3", "2", "Active"]);
    let path = format!("/apis/machine.openshift.io/v1/namespaces/{namespace}/controlplanemachinesets/cluster/scale");
    let scale: Value = serde_json::from_str(&kubectl(plane, &["get", "--raw", &path]).await).unwrap();
    assert_eq!(scale["status"], json!({"replicas": 3, "selector": "role=master"}));
    let scaled = plane
        .kubectl()
        .args(["scale", "cpms", "cluster", "-n", &namespace, "--replicas=5"])
        .run()
        .await
        .unwrap();
    assert_eq!(
        scaled.stderr,
        "The ControlPlaneMachineSet \"cluster\" is invalid: spec.replicas: Invalid value: 5: replicas is immutable\n"
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn the_offline_engine_and_the_api_server_agree_on_creations() {
    let plane = installed().await;
    let namespace = plane.namespace("engine").await.unwrap();
    let client = plane.client().await.unwrap();
    let files = capstan_core::admission::rule_files().unwrap();
    let own = crd::crds(&files).unwrap();
    let cpms = Definition::parse(&own[0], None, &files[0]).unwrap();
    let widget = Definition::parse(&read_json("widget.json"), None, &RuleFile::default()).unwrap();
    let cases = read_json("verdicts.json");
    let mut compared = 0;
    for case in cases
        .as_array()
        .unwrap()
        .iter()
        .filter(|case| case.get("old").is_none())
    {
        let (definition, resource) = match case["crd"].as_str() {
            Some("cpms") => (&cpms, ["machine.openshift.io/v1", "controlplanemachinesets"]),
            _ => (&widget, ["test.capstan.dev/v1", "widgets"]),
        };
        let path = format!("/apis/{}/namespaces/{namespace}/{}", resource[0], resource[1]);
        let request = axum::http::Request::post(format!("{path}?dryRun=All&fieldValidation=Ignore"))
            .header("content-type", "application/json")
            .body(case["object"].to_string().into_bytes())
            .unwrap();
        let server = match client.request::<Value>(request).await {
            Ok(_) => Vec::new(),
            Err(kube::Error::Api(status)) => {
                assert_eq!((status.code, status.reason.as_str()), (422, "Invalid"), "{status:?}");
                let causes = status.details.into_iter().flat_map(|details| details.causes);
                causes.map(|cause| (cause.field, cause.reason, cause.message)).collect()
            }
            Err(error) => panic!("{}: {error}", case["name"]),
        };
        let outcome = definition.apply(&case["object"], None);
        let engine = outcome.violations.iter().map(cause).collect();
        assert_eq!(sorted(engine), sorted(server), "{}", case["name"]);
        compared += 1;
    }
    assert!(compared > 100, "{compared}");
}

fn cause(violation: &Violation) -> (String, String, String) {
    (
        violation.path.to_string(),
        violation.kind.reason().to_owned(),
        violation.server_detail(),
    )
}

fn sorted(mut causes: Vec<(String, String, String)>) -> Vec<(String, String, String)> {
    causes.sort();
    causes
}
