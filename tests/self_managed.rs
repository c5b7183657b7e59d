//! Self-managed certificates with a real API server, under the permissions of
//! `manifests/base/certificates.yaml`.
// A failed test panics.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::indexing_slicing)]

use std::sync::Arc;
use std::time::Duration;

use anyhow::Context as _;
use capstan::server::{Lifecycle, Limits, NullReviewer, Server, Settings};
use capstan::tls::issue::Names;
use capstan::tls::rotation::Profile;
use capstan::tls::self_managed::{self, SelfManaged};
use capstan::tls::{Certificates, MinVersion, Policy};
use capstan_sandbox::control_plane::{ControlPlane, Options, Output, wait_until};
use prometheus_client::registry::Registry;

const USER: &str = "system:serviceaccount:openshift-machine-api:capstan-webhook";
/// A timeout that also suffices on a loaded machine.
const LONG: Duration = Duration::from_secs(60);

/// Starts a server that allows everything and manages its certificates. Returns its port.
async fn replica(plane: &ControlPlane) -> u16 {
    let any = "127.0.0.1:0".parse().unwrap();
    let settings = Settings {
        listen: any,
        health: any,
        metrics: None,
        tls: Policy {
            min_version: MinVersion::Tls13,
            ..Policy::default()
        },
        limits: Limits::default(),
        shutdown_delay: Duration::ZERO,
        drain_timeout: Duration::ZERO,
    };
    let certificates = Certificates::new();
    let reviewer = Arc::new(NullReviewer::new(vec!["/null".to_owned()]));
    let server = Server::bind(
        settings,
        certificates.clone(),
        reviewer,
        Registry::default(),
        Lifecycle::new(),
    );
    let server = server.await.unwrap();
    let port = server.address().unwrap().port();
    tokio::spawn(server.run());
    let settings = self_managed::Settings {
        namespace: "openshift-machine-api".to_owned(),
        secret: "capstan-webhook-tls".to_owned(),
        configurations: vec!["capstan".to_owned()],
        definitions: Vec::new(),
        names: Names::new(["127.0.0.1".to_owned()]).unwrap(),
        profile: Profile::default(),
    };
    let client = plane.client_for(USER, &[]).await.unwrap();
    tokio::spawn(SelfManaged::new(client, settings, certificates).run());
    port
}

/// One webhook for each replica. A request succeeds only if the API server trusts both.
fn webhooks(ports: [u16; 2]) -> String {
    let webhook = |port: u16| {
        format!(
            "
- name: replica-{port}.capstan.dev
  admissionReviewVersions: [v1]
  sideEffects: None
  failurePolicy: Fail
  timeoutSeconds: 5
  namespaceSelector: {{matchLabels: {{kubernetes.io/metadata.name: trial}}}}
  rules: [{{apiGroups: [''], apiVersions: [v1], operations: [CREATE], resources: [configmaps]}}]
  clientConfig: {{url: 'https://127.0.0.1:{port}/null'}}"
        )
    };
    let head = "
apiVersion: v1
kind: Namespace
metadata: {name: trial}
---
apiVersion: admissionregistration.k8s.io/v1
kind: ValidatingWebhookConfiguration
metadata: {name: capstan}
webhooks:";
    format!("{head}{}{}", webhook(ports[0]), webhook(ports[1]))
}

async fn kubectl(plane: &ControlPlane, arguments: &[&str]) -> anyhow::Result<Output> {
    plane.kubectl().args(arguments.iter().copied()).run().await?.checked()
}

/// The number of CAs in each bundle.
async fn trusted(plane: &ControlPlane) -> anyhow::Result<Vec<usize>> {
    let path = "jsonpath={.webhooks[*].clientConfig.caBundle}";
    let output = kubectl(plane, &["get", "validatingwebhookconfiguration", "capstan", "-o", path]).await?;
    output
        .stdout
        .split_whitespace()
        .map(|bundle| {
            let bytes: k8s_openapi::ByteString = serde_json::from_value(bundle.into()).context("a bundle")?;
            Ok(String::from_utf8(bytes.0)?.matches("BEGIN CERTIFICATE").count())
        })
        .collect()
}

async fn called(plane: &ControlPlane) {
    wait_until("both replicas allow a request", LONG, async || {
        // Only the webhooks can refuse this ConfigMap.
        kubectl(plane, &["create", "configmap", "a", "-n", "trial", "--dry-run=server"])
            .await
            .map(Some)
    })
    .await
    .unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn two_replicas_maintain_secret_and_bundles_with_the_permissions_of_the_manifest() {
    // Another test may have installed the same provider already.
    let _ignored = rustls::crypto::aws_lc_rs::default_provider().install_default();
    let options = Options {
        audit: true,
        no_controllers: true,
        ..Options::default()
    };
    let plane = ControlPlane::start(options).await.unwrap();
    kubectl(&plane, &["create", "namespace", "openshift-machine-api"])
        .await
        .unwrap();
    let rights = concat!(env!("CARGO_MANIFEST_DIR"), "/manifests/base/certificates.yaml");
    plane
        .apply_yaml(&std::fs::read_to_string(rights).unwrap())
        .await
        .unwrap();
    for may in [
        [
            "update",
            "secret/capstan-webhook-tls",
            "--namespace=openshift-machine-api",
        ],
        ["patch", "validatingwebhookconfiguration/capstan", "--all-namespaces"],
    ] {
        wait_until("the permissions are in effect", LONG, async || {
            let ask = plane.kubectl().as_user(USER, &[]).args(["auth", "can-i"]).args(may);
            ask.run().await?.checked().map(Some)
        })
        .await
        .unwrap();
    }
    let ports = [replica(&plane).await, replica(&plane).await];
    plane.apply_yaml(&webhooks(ports)).await.unwrap();
    called(&plane).await;
    assert_eq!(trusted(&plane).await.unwrap(), [1, 1]);

    // A chart that is applied again removes the bundle.
    let empty = r#"[{"op": "remove", "path": "/webhooks/1/clientConfig/caBundle"}]"#;
    let patch = [
        "patch",
        "validatingwebhookconfiguration",
        "capstan",
        "--type=json",
        "-p",
        empty,
    ];
    kubectl(&plane, &patch).await.unwrap();
    wait_until("the bundle is filled again", LONG, async || {
        Ok((trusted(&plane).await? == [1, 1]).then_some(()))
    })
    .await
    .unwrap();
    called(&plane).await;

    // The Secret loses its data; the bundles still hold the CA.
    let empty = r#"[{"op": "remove", "path": "/data"}]"#;
    kubectl(
        &plane,
        &[
            "-n",
            "openshift-machine-api",
            "patch",
            "secret",
            "capstan-webhook-tls",
            "--type=json",
            "-p",
            empty,
        ],
    )
    .await
    .unwrap();
    wait_until("the bundles hold a second CA beside the first", LONG, async || {
        Ok((trusted(&plane).await? == [2, 2]).then_some(()))
    })
    .await
    .unwrap();
    called(&plane).await;

    let forbidden: Vec<_> = plane
        .audit_events()
        .unwrap()
        .into_iter()
        .filter(|event| event.user.username == USER && event.response_status.as_ref().is_some_and(|s| s.code == 403))
        .collect();
    assert!(forbidden.is_empty(), "{forbidden:?}");
}
