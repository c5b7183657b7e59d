//! Tests of the real control plane: it starts, serves users, and leaves nothing behind.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "a test reports a failure by a panic"
)]

use std::fs;
use std::io::{BufRead as _, BufReader, Write as _};
use std::net::TcpListener;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use capstan_sandbox::control_plane::{ControlPlane, Editor, Options, free_port, wait_until};
use k8s_openapi::api::core::v1::ConfigMap;
use kube::api::{Api, DeleteParams, PostParams, PropagationPolicy};
use rustix::process::{Pid, Signal, kill_process};

/// The deadline of each wait, also on a loaded machine. No test succeeds because it is reached.
const SOON: Duration = Duration::from_secs(60);

fn config_map(name: &str, owner: Option<&ConfigMap>) -> ConfigMap {
    let owners = owner.map(|owner| {
        serde_json::json!([{"apiVersion": "v1", "kind": "ConfigMap", "name": owner.metadata.name, "uid": owner.metadata.uid}])
    });
    serde_json::from_value(serde_json::json!({"metadata": {"name": name, "ownerReferences": owners}})).unwrap()
}

/// The processes whose command line names `folder`.
fn processes_in(folder: &Path) -> Vec<String> {
    let folder = folder.display().to_string();
    fs::read_dir("/proc")
        .unwrap()
        .flatten()
        .filter_map(|entry| fs::read(entry.path().join("cmdline")).ok())
        .map(|line| String::from_utf8_lossy(&line).replace('\0', " "))
        .filter(|line| line.contains(&folder))
        .collect()
}

#[tokio::test]
async fn kubectl_applies_and_edits_as_at_a_terminal() {
    let plane = ControlPlane::shared().await.unwrap();
    let namespace = plane.namespace("kubectl").await.unwrap();
    let version = plane
        .kubectl()
        .args(["version"])
        .run()
        .await
        .unwrap()
        .checked()
        .unwrap();
    assert_eq!(version.stdout.matches("v1.36.3").count(), 2, "{version}");

    let yaml = "{apiVersion: v1, kind: ConfigMap, metadata: {name: a}, data: {colour: red}}";
    let applied = plane
        .kubectl()
        .args(["apply", "-n", &namespace, "-f", "-"])
        .stdin(yaml)
        .run()
        .await
        .unwrap();
    assert_eq!(applied.stdout, "configmap/a created\n");

    let edit = ["edit", "configmap", "a", "-n", &namespace];
    let edited = plane
        .kubectl()
        .args(edit)
        .editor(Editor::Sed("s/colour: red/colour: blue/".into()))
        .run()
        .await
        .unwrap();
    assert_eq!(edited.stdout, "configmap/a edited\n", "{edited}");
    assert_eq!(edited.opened.len(), 1);
    assert!(edited.opened[0].contains("colour: red"));

    // After a refusal, kubectl opens the editor again with the reason.
    let refused = plane
        .kubectl()
        .args(edit)
        .editor(Editor::Sed("s/^( *)colour: .*/\\1'a b': c/".into()))
        .run()
        .await
        .unwrap();
    assert!(!refused.success());
    assert_eq!(refused.opened.len(), 2, "{refused}");
    assert!(
        refused.opened[1].contains("a valid config key must consist of"),
        "{}",
        refused.opened[1]
    );
    assert!(refused.stderr.contains("configmaps \"a\" is invalid"), "{refused}");
}

/// Calls of kubectl run in sessions. This test compares them with kubectl in a process of its own.
#[tokio::test]
async fn a_session_answers_as_kubectl_in_its_own_process() {
    let plane = ControlPlane::shared().await.unwrap();
    let namespace = plane.namespace("session").await.unwrap();
    let kubeconfig = plane.kubeconfig_for("alice", &[]).unwrap();
    let home = tempfile::tempdir().unwrap();
    let calls: [(&[&str], &str); 9] = [
        (&["version", "--client"], ""),
        (&["auth", "can-i", "create", "pods"], ""),
        (&["get", "pods"], ""),
        (&["get", "nothing"], ""),
        (&["get", "--no-such-flag"], ""),
        (&["no-such-command"], ""),
        (
            &["create", "-f", "-", "--dry-run=client", "-o", "yaml"],
            "{kind: ConfigMap",
        ),
        (&["create", "configmap", "a", "--dry-run=client", "-o", "yaml"], ""),
        // A warning of kubectl itself.
        (
            &[
                "delete",
                "pods",
                "--all-namespaces",
                "-n",
                &namespace,
                "--all",
                "--dry-run=client",
            ],
            "",
        ),
    ];
    for (arguments, stdin) in calls {
        let call = plane.kubectl().with_kubeconfig(&kubeconfig).args(arguments.to_vec());
        let in_session = call.stdin(stdin).run().await.unwrap();
        let mut own = Command::new(&plane.binaries().kubectl);
        own.args(arguments)
            .env_clear()
            .env("HOME", home.path())
            .env("KUBECONFIG", &kubeconfig);
        let own = own.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut own = own.spawn().unwrap();
        own.stdin.take().unwrap().write_all(stdin.as_bytes()).unwrap();
        let own = own.wait_with_output().unwrap();
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        assert_eq!(
            (in_session.status, in_session.stdout, in_session.stderr),
            (own.status.code().unwrap(), text(&own.stdout), text(&own.stderr)),
            "{arguments:?}"
        );
    }
}

/// A session keeps nothing of a call for the next one.
#[tokio::test]
async fn sessions_keep_no_users_streams_and_warnings_of_earlier_calls() {
    let plane = ControlPlane::shared().await.unwrap();
    let namespace = plane.namespace("sessions").await.unwrap();
    let who = |user: &'static str| {
        plane
            .kubectl()
            .as_user(user, &[])
            .args(["auth", "whoami", "-o", "name"])
    };
    let pod = format!(
        "{{apiVersion: v1, kind: Pod, metadata: {{name: a, namespace: {namespace}}}, spec: {{\
         containers: [{{name: a, image: a}}], nodeSelector: {{beta.kubernetes.io/os: linux}}}}}}"
    );
    let create = ["create", "-f", "-", "--dry-run=server", "-o", "name"];
    // A session ends after 50 calls.
    for _ in 0..30 {
        let warned = plane.kubectl().args(create).stdin(pod.clone()).run();
        let (alice, bob, warned) = tokio::join!(who("alice").run(), who("bob").run(), warned);
        let (alice, bob, warned) = (alice.unwrap(), bob.unwrap(), warned.unwrap());
        for (user, output) in [("alice", alice), ("bob", bob)] {
            let whole = plane
                .kubectl()
                .as_user(user, &[])
                .args(["auth", "whoami", "-o", "json"])
                .run();
            let whole = whole.await.unwrap();
            assert!(whole.stdout.contains(&format!("\"username\": \"{user}\"")), "{whole}");
            assert!(output.success() && output.stderr.is_empty(), "{output}");
        }
        assert_eq!(warned.stdout, "pod/a\n", "{warned}");
        assert_eq!(warned.stderr.matches("Warning: ").count(), 1, "{warned}");
    }
}

#[tokio::test]
async fn a_call_that_is_given_up_does_not_disturb_the_next_one() {
    let plane = ControlPlane::shared().await.unwrap();
    let namespace = plane.namespace("given-up").await.unwrap();
    let watch = ["get", "configmaps", "--watch", "-n", &namespace];
    let watching = tokio::time::timeout(Duration::from_secs(3), plane.kubectl().args(watch).run()).await;
    assert!(watching.is_err(), "{watching:?}");
    let next = plane
        .kubectl()
        .args(["get", "namespace", &namespace, "-o", "name"])
        .run();
    assert_eq!(next.await.unwrap().stdout, format!("namespace/{namespace}\n"));
}

#[tokio::test]
async fn a_user_has_the_granted_permissions_only() {
    let plane = ControlPlane::shared().await.unwrap();
    let get = ["get", "configmaps", "-n", "kube-system"];
    let refused = plane
        .kubectl()
        .as_user("mallory", &["devs", "night-shift"])
        .args(get)
        .run()
        .await
        .unwrap();
    assert_eq!(refused.status, 1);
    assert_eq!(
        refused.stderr,
        "Error from server (Forbidden): configmaps is forbidden: User \"mallory\" cannot list resource \"configmaps\" in API \
         group \"\" in the namespace \"kube-system\"\n"
    );
    let whoami = plane
        .kubectl()
        .as_user("mallory", &["devs", "night-shift"])
        .args(["auth", "whoami", "-o", "json"]);
    let whoami: serde_json::Value = serde_json::from_str(&whoami.run().await.unwrap().stdout).unwrap();
    let groups = &whoami["status"]["userInfo"]["groups"];
    assert_eq!(
        *groups,
        serde_json::json!(["devs", "night-shift", "system:authenticated"])
    );

    plane.allow("alice", &["list"], "", &["configmaps"]).await.unwrap();
    // The authorizer uses a cache that sees new roles a moment later.
    wait_until("the permissions of alice", SOON, async || {
        Ok(plane
            .kubectl()
            .as_user("alice", &[])
            .args(get)
            .run()
            .await?
            .success()
            .then_some(()))
    })
    .await
    .unwrap();
    let client = plane.client_for("alice", &[]).await.unwrap();
    let maps: Api<ConfigMap> = Api::namespaced(client, "kube-system");
    maps.list(&Default::default()).await.unwrap();
    let error = maps
        .create(&PostParams::default(), &config_map("x", None))
        .await
        .unwrap_err();
    assert!(
        matches!(&error, kube::Error::Api(status) if status.code == 403),
        "{error}"
    );
}

#[tokio::test]
async fn the_garbage_collector_deletes_the_dependants_of_a_deleted_owner() {
    let plane = ControlPlane::shared().await.unwrap();
    let namespace = plane.namespace("gc").await.unwrap();
    let maps: Api<ConfigMap> = Api::namespaced(plane.client().await.unwrap(), &namespace);
    let owner = maps
        .create(&PostParams::default(), &config_map("owner", None))
        .await
        .unwrap();
    maps.create(&PostParams::default(), &config_map("dependant", Some(&owner)))
        .await
        .unwrap();
    let background = DeleteParams {
        propagation_policy: Some(PropagationPolicy::Background),
        ..DeleteParams::default()
    };
    maps.delete("owner", &background).await.unwrap();
    wait_until("the dependant to be deleted", SOON, async || {
        Ok(maps.get_opt("dependant").await?.is_none().then_some(()))
    })
    .await
    .unwrap();
}

#[tokio::test]
async fn the_audit_log_contains_all_requests_and_two_control_planes_are_independent() {
    let shared = ControlPlane::shared().await.unwrap();
    let options = Options {
        audit: true,
        no_controllers: true,
        ..Options::default()
    };
    let own = ControlPlane::start(options).await.unwrap();
    assert_ne!(own.url(), shared.url());
    let maps: Api<ConfigMap> = Api::namespaced(own.client().await.unwrap(), "default");
    maps.create(&PostParams::default(), &config_map("only-here", None))
        .await
        .unwrap();
    maps.create(
        &PostParams {
            dry_run: true,
            ..PostParams::default()
        },
        &config_map("dry", None),
    )
    .await
    .unwrap();
    maps.create(&PostParams::default(), &config_map("only-here", None))
        .await
        .unwrap_err();
    let elsewhere: Api<ConfigMap> = Api::namespaced(shared.client().await.unwrap(), "default");
    assert!(elsewhere.get_opt("only-here").await.unwrap().is_none());

    let by_admin = |event: &&capstan_sandbox::control_plane::AuditEvent| event.user.username == "admin";
    let requests = wait_until("three requests in the log", SOON, async || {
        let events: Vec<_> = own
            .audit_events()?
            .iter()
            .filter(by_admin)
            .filter(|e| e.verb == "create")
            .cloned()
            .collect();
        Ok((events.len() == 3).then_some(events))
    })
    .await
    .unwrap();
    let written: Vec<_> = requests.iter().filter(|event| event.is_write()).collect();
    assert_eq!(written.len(), 1);
    assert_eq!(written[0].object_ref.as_ref().unwrap().name, "only-here");

    let folder = own.folder().to_path_buf();
    assert_eq!(processes_in(&folder).len(), 2);
    drop(own);
    assert_eq!(processes_in(&folder), [""; 0]);
    assert!(!folder.exists());
}

#[tokio::test]
async fn an_applied_crd_is_served_when_apply_returns() {
    let plane = ControlPlane::shared().await.unwrap();
    let yaml = "
apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: {name: hoists.sandbox.capstan.dev}
spec:
  group: sandbox.capstan.dev
  scope: Cluster
  names: {kind: Hoist, plural: hoists}
  versions: [{name: v1, served: true, storage: true, schema: {openAPIV3Schema: {type: object}}}]
";
    plane.apply_yaml(yaml).await.unwrap();
    plane
        .apply_yaml("{apiVersion: sandbox.capstan.dev/v1, kind: Hoist, metadata: {name: h}}")
        .await
        .unwrap();
    plane
        .kubectl()
        .args(["get", "hoists", "h"])
        .run()
        .await
        .unwrap()
        .checked()
        .unwrap();
}

#[tokio::test]
async fn a_port_that_is_taken_leads_to_another_attempt() {
    let taken = TcpListener::bind("127.0.0.1:0").unwrap();
    let taken_port = taken.local_addr().unwrap().port();
    for position in [0, 1, 2] {
        let mut ports = [free_port().unwrap(), free_port().unwrap(), free_port().unwrap()];
        ports[position] = taken_port;
        let options = Options {
            no_controllers: true,
            ports: Some(ports),
            ..Options::default()
        };
        let plane = ControlPlane::start(options).await.unwrap();
        assert!(!plane.url().ends_with(&format!(":{taken_port}")));
        plane.client().await.unwrap().apiserver_version().await.unwrap();
    }
}

#[tokio::test]
async fn a_server_that_exits_at_once_is_reported_with_its_output() {
    let plane = ControlPlane::shared().await.unwrap();
    let mut command = Command::new("sh");
    command.args(["-c", "echo no certificate here; exit 3"]);
    let url = format!("http://127.0.0.1:{}/readyz", free_port().unwrap());
    let error = plane.start_server("stub", command, &url).await.unwrap_err();
    let text = format!("{error:#}");
    assert!(
        text.contains("stub exited (exit status: 3)") && text.contains("no certificate here"),
        "{text}"
    );
}

#[tokio::test]
async fn the_start_of_a_server_waits_for_http_or_https_and_its_stop_for_the_exit() {
    let plane = ControlPlane::shared().await.unwrap();
    let port = free_port().unwrap();
    for url in [
        format!("http://127.0.0.1:{port}/readyz"),
        format!("{}/readyz", plane.url()),
    ] {
        let mut command = Command::new(&plane.binaries().kubectl);
        command
            .arg("proxy")
            .arg(format!("--port={port}"))
            .env("KUBECONFIG", plane.kubeconfig().unwrap());
        let process = plane.start_server("proxy", command, &url).await.unwrap();
        let id = process.id();
        process.stop(SOON).await.unwrap();
        assert!(!Path::new(&format!("/proc/{id}")).exists());
    }
}

#[tokio::test]
async fn a_webhook_with_a_service_is_called_on_loopback() {
    let plane = ControlPlane::shared().await.unwrap();
    let namespace = plane.namespace("webhook").await.unwrap();
    // No server listens on this port, so the refusal names the address that was called.
    let port = free_port().unwrap();
    let manifest = format!(
        "
apiVersion: admissionregistration.k8s.io/v1
kind: ValidatingWebhookConfiguration
metadata: {{name: absent}}
webhooks:
- name: absent.sandbox.capstan.dev
  admissionReviewVersions: [v1]
  sideEffects: None
  failurePolicy: Fail
  clientConfig: {{service: {{name: absent, namespace: capstan, path: /validate}}}}
  namespaceSelector: {{matchLabels: {{kubernetes.io/metadata.name: {namespace}}}}}
  rules: [{{apiGroups: [''], apiVersions: [v1], operations: [CREATE], resources: [configmaps]}}]
"
    );
    let ca = fs::read_to_string(plane.folder().join("ca.crt")).unwrap();
    plane.register_webhooks(&manifest, port, &ca).await.unwrap();
    let create = ["create", "configmap", "probe", "--dry-run=server", "-n", &namespace];
    let refused = wait_until("the webhook to be called", SOON, async || {
        let output = plane.kubectl().args(create).run().await?;
        Ok((!output.success()).then_some(output))
    })
    .await
    .unwrap();
    let expected = format!(
        "failed calling webhook \"absent.sandbox.capstan.dev\": failed to call webhook: Post \"https://127.0.0.1:{port}/validate?timeout=10s\""
    );
    assert!(refused.stderr.contains(&expected), "{refused}");
}

/// Starts `capstan-sandbox control-plane`. Returns the process and the folder of the control plane.
fn started_by_a_process() -> (Child, PathBuf) {
    let mut child = Command::new(env!("CARGO_BIN_EXE_capstan-sandbox"))
        .arg("control-plane")
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
    let line = lines.next().unwrap().unwrap();
    let kubeconfig = PathBuf::from(line.strip_prefix("export KUBECONFIG=").unwrap());
    assert!(lines.nth(1).unwrap().unwrap().contains("is ready"));
    (child, kubeconfig.parent().unwrap().to_path_buf())
}

fn send(child: &Child, signal: Signal) {
    kill_process(Pid::from_raw(child.id().try_into().unwrap()).unwrap(), signal).unwrap();
}

#[tokio::test]
async fn a_killed_owner_leaves_no_process_behind_and_the_next_one_removes_its_folder() {
    let (mut child, folder) = started_by_a_process();
    assert_eq!(processes_in(&folder).len(), 3);
    send(&child, Signal::KILL);
    child.wait().unwrap();
    wait_until("the servers to exit", SOON, async || {
        Ok(processes_in(&folder).is_empty().then_some(()))
    })
    .await
    .unwrap();
    assert!(folder.exists());
    let options = Options {
        no_controllers: true,
        ..Options::default()
    };
    let _next = ControlPlane::start(options).await.unwrap();
    assert!(!folder.exists());
}

#[test]
fn an_interrupted_control_plane_leaves_nothing_behind() {
    for signal in [Signal::INT, Signal::TERM] {
        let (mut child, folder) = started_by_a_process();
        send(&child, signal);
        assert!(child.wait().unwrap().success());
        assert_eq!(processes_in(&folder), [""; 0]);
        assert!(!folder.exists());
    }
}

#[test]
fn without_binaries_and_go_one_line_names_what_to_install() {
    let empty = tempfile::tempdir().unwrap();
    let output = Command::new(env!("CARGO_BIN_EXE_capstan-sandbox"))
        .arg("kube")
        .env_remove("KUBEBUILDER_ASSETS")
        .env("PATH", empty.path())
        .env("CARGO_TARGET_DIR", empty.path())
        .output()
        .unwrap();
    assert_eq!(output.status.code(), Some(1));
    assert!(output.stdout.is_empty());
    assert_eq!(
        String::from_utf8(output.stderr).unwrap(),
        "capstan-sandbox: the control plane needs etcd, kube-apiserver, kube-controller-manager, kubectl: install Go 1.26 or newer \
         (https://go.dev/dl), which builds them once, or set KUBEBUILDER_ASSETS to a folder that holds them\n"
    );
}
