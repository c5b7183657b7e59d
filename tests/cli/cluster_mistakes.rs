//! Clusters that cannot be read, for the commands that read one: a missing permission, a wrong
//! kubeconfig, a kind that is not served.

use std::time::{Duration, Instant};

use serde_json::json;

use super::stub::{Stub, not_served, status, version};
use super::{capstan, path, stderr, stdout};

const FORBIDDEN: &str = "controlplanemachinesets.machine.openshift.io is forbidden: User \"reader\" cannot list it";

fn without_permissions() -> Stub {
    Stub::new(|_, path| match path {
        "/version" => version(),
        _ => status(403, "Forbidden", FORBIDDEN),
    })
}

#[test]
fn w53_a_missing_permission_is_reported_at_once_in_one_sentence() {
    let stub = without_permissions();
    let config = stub.usual();
    for command in [
        &["wait", "--timeout", "60s"][..],
        &["status"],
        &["status", "-o", "html"],
        &["dashboard"],
        &["plan"],
    ] {
        let started = Instant::now();
        let output = capstan(&[command, &["--kubeconfig", path(&config)]].concat(), "");
        let error = stderr(&output);
        assert_eq!(output.status.code(), Some(2), "{command:?}: {error}");
        assert!(started.elapsed() < Duration::from_secs(30), "{command:?} waits");
        assert!(error.ends_with(&format!("{FORBIDDEN}\n")), "{command:?}: {error}");
        assert_eq!(error.matches(FORBIDDEN).count(), 1, "{command:?}: {error}");
        assert!(!error.contains("Status {"), "{command:?}: {error}");
    }
}

#[test]
fn w173_credentials_that_are_not_accepted_are_reported_with_a_remedy() {
    let stub = Stub::new(|_, path| match path {
        "/version" => version(),
        _ => status(401, "Unauthorized", "Unauthorized"),
    });
    let config = stub.usual();
    for command in [
        &["status"][..],
        &["plan"],
        &["plan", "--kubeadm-control-plane", "default/a"],
        &["wait", "--timeout", "60s"],
    ] {
        let output = capstan(&[command, &["--kubeconfig", path(&config)]].concat(), "");
        let error = stderr(&output);
        assert_eq!(output.status.code(), Some(2), "{command:?}: {error}");
        assert!(error.contains("renew them, or log in again"), "{command:?}: {error}");
        assert!(!error.contains("Status {"), "{command:?}: {error}");
    }
}

#[test]
fn w54_a_server_without_a_scheme_is_reached_as_kubectl_reaches_it() {
    let stub = without_permissions();
    let config = stub.kubeconfig(&stub.address, &json!({}));
    let output = capstan(&["plan", "--kubeconfig", path(&config)], "");
    assert_eq!(output.status.code(), Some(2));
    assert!(stderr(&output).contains(FORBIDDEN), "{}", stderr(&output));
}

#[test]
fn w54_a_credential_plugin_that_is_missing_is_named_once() {
    let stub = without_permissions();
    let exec = json!({"exec": {"apiVersion": "client.authentication.k8s.io/v1", "command": "no-such-plugin",
        "interactiveMode": "Never"}});
    let config = stub.kubeconfig(&format!("http://{}", stub.address), &exec);
    for command in ["plan", "status", "wait"] {
        let output = capstan(&[command, "--kubeconfig", path(&config)], "");
        let error = stderr(&output);
        assert_eq!(output.status.code(), Some(2), "{error}");
        assert!(error.contains("the credential plugin \"no-such-plugin\""), "{error}");
        assert_eq!(error.matches("No such file").count(), 1, "{error}");
    }
}

#[test]
fn w54_a_server_that_is_no_api_server_is_called_so() {
    for body in ["", "<!DOCTYPE HTML>\n<html>no</html>\n"] {
        for code in [404, 200] {
            let stub = Stub::new(move |_, _| (code, body.to_owned()));
            let output = capstan(&["plan", "--kubeconfig", path(&stub.usual())], "");
            let error = stderr(&output);
            assert_eq!(output.status.code(), Some(2), "{error}");
            assert!(error.contains("is no API server of Kubernetes"), "{error}");
            assert!(!error.contains("DOCTYPE"), "{error}");
        }
    }
}

/// An installation whose CRDs have objects.
fn with_objects() -> Stub {
    Stub::new(|method, path| {
        let crds = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions/";
        let crd = path.strip_prefix(crds);
        let list = |items: serde_json::Value| {
            let list = json!({"apiVersion": "v1", "kind": "List", "metadata": {}, "items": items});
            (200, list.to_string())
        };
        match (method, path) {
            (_, "/version") => version(),
            // A dry run sends them too, and this server cannot tell one.
            ("DELETE", _) => status(500, "InternalError", "nothing must be deleted"),
            (_, "/apis/machine.openshift.io/v1/controlplanemachinesets") => list(json!([
                {"metadata": {"namespace": "a", "name": "cluster"}, "spec": {"state": "Active"}}])),
            (_, "/apis/machine.openshift.io/v1beta1/machines") => list(json!([
                {"metadata": {"namespace": "a", "name": "m-0"}}, {"metadata": {"namespace": "a", "name": "m-1"}}])),
            _ if crd.is_some_and(|name| name.ends_with(".machine.openshift.io") && !name.contains("/")) => {
                let name = crd.unwrap_or_default();
                let object = json!({"apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
                    "metadata": {"name": name, "labels": {"app.kubernetes.io/name": "capstan"}}});
                (200, object.to_string())
            }
            _ => not_served(),
        }
    })
}

#[test]
fn w55_uninstall_deletes_no_crd_with_objects_without_a_second_flag() {
    let stub = with_objects();
    let config = stub.usual();
    let run = |more: &[&str]| {
        let output = capstan(&[&["uninstall", "--kubeconfig", path(&config)], more].concat(), "");
        (output.status.code(), stdout(&output), stderr(&output))
    };
    let (code, text, error) = run(&["--crds"]);
    assert_eq!(code, Some(2), "{text}{error}");
    let set = "CustomResourceDefinition controlplanemachinesets.machine.openshift.io with 1 object: a/cluster (Active)";
    assert!(text.contains(set), "{text}");
    assert!(
        text.contains("machines.machine.openshift.io with 2 objects: a/m-0, a/m-1\n"),
        "{text}"
    );
    assert!(
        error.contains("--delete-objects to delete the objects of the CRDs"),
        "{error}"
    );
    for flag in ["--yes", "--dry-run"] {
        let (code, text, error) = run(&["--crds", flag]);
        assert_eq!(code, Some(1), "{text}{error}");
        assert!(
            text.contains("1 object: a/cluster (Active), so nothing is deleted"),
            "{text}"
        );
        assert!(!text.contains("nothing must be deleted"), "{text}");
    }
    let (_, text, _) = run(&["--crds", "--yes", "--delete-objects"]);
    assert!(text.contains("nothing must be deleted"), "the deletion is sent: {text}");
    let (code, _, error) = run(&["--delete-objects", "--yes"]);
    assert_eq!(code, Some(2), "{error}");
}

#[test]
fn w56_the_service_ca_must_run_if_it_is_to_issue_the_certificate() {
    let verdict = |runs: bool| {
        let stub = Stub::new(move |_, path| match path {
            "/version" => version(),
            "/apis/apps/v1/namespaces/openshift-service-ca/deployments/service-ca" if runs => (
                200,
                json!({"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "service-ca"}}).to_string(),
            ),
            _ => not_served(),
        });
        let arguments = [
            "preflight",
            "--certificates",
            "service-ca",
            "-o",
            "json",
            "--kubeconfig",
        ];
        let output = capstan(&[&arguments[..], &[path(&stub.usual())]].concat(), "");
        let report: serde_json::Value = serde_json::from_str(&stdout(&output)).unwrap();
        report.to_string()
    };
    let remedy = "--certificates=self-managed, or --certificates=cert-manager";
    assert!(verdict(false).contains(remedy), "{}", verdict(false));
    assert!(!verdict(true).contains(remedy), "{}", verdict(true));
}

/// A cluster without CRDs, or without the namespace.
fn bare(serves_sets: bool) -> Stub {
    Stub::new(move |_, path| {
        let resources = json!([{"name": "controlplanemachinesets", "singularName": "", "namespaced": true,
            "kind": "ControlPlaneMachineSet", "verbs": ["list"]}]);
        let group = json!({"kind": "APIResourceList", "apiVersion": "v1", "groupVersion": "machine.openshift.io/v1",
            "resources": resources});
        match path {
            "/version" => version(),
            "/apis/machine.openshift.io/v1" if serves_sets => (200, group.to_string()),
            _ if path.starts_with("/api/v1/namespaces/") => status(404, "NotFound", "namespaces not found"),
            _ => not_served(),
        }
    })
}

#[test]
fn w66_a_missing_crd_and_a_missing_namespace_are_named() {
    for (serves_sets, part) in [
        (
            false,
            "the cluster does not serve ControlPlaneMachineSets: their CRD is missing",
        ),
        (true, "the namespace openshift-machine-api does not exist"),
    ] {
        let stub = bare(serves_sets);
        let config = stub.usual();
        for command in ["plan", "status", "wait"] {
            let output = capstan(&[command, "--kubeconfig", path(&config)], "");
            assert_eq!(output.status.code(), Some(2), "{command}: {}", stderr(&output));
            assert!(stderr(&output).contains(part), "{command}: {}", stderr(&output));
        }
    }
    let stub = bare(false);
    let config = stub.usual();
    for (flag, kind) in [
        ("--kubeadm-control-plane", "KubeadmControlPlane"),
        ("--machine-pool", "MachinePool"),
    ] {
        for command in ["plan", "status"] {
            let output = capstan(&[command, flag, "a/b", "--kubeconfig", path(&config)], "");
            let error = stderr(&output);
            assert_eq!(output.status.code(), Some(2), "{error}");
            assert!(
                error.contains(&format!("the cluster must serve the kind {kind}")),
                "{error}"
            );
            assert!(!error.contains("Status {"), "{error}");
        }
    }
}

#[test]
fn w68_a_migration_to_an_api_that_the_cluster_does_not_serve_is_not_requested() {
    let machine = json!({"apiVersion": "machine.openshift.io/v1beta1", "kind": "Machine",
        "metadata": {"name": "m", "namespace": "openshift-machine-api", "uid": "u", "resourceVersion": "1"},
        "spec": {"providerSpec": {"value": {"kind": "AWSMachineProviderConfig"}}}});
    let stub = Stub::new(move |method, path| match (method, path) {
        ("GET", "/version") => version(),
        ("GET", path) if path.ends_with("/machines/m") && path.contains("machine.openshift.io") => {
            (200, machine.to_string())
        }
        ("GET", _) => not_served(),
        _ => status(500, "InternalError", "nothing may be written"),
    });
    let config = stub.usual();
    let output = capstan(
        &[
            "migrate",
            "machine",
            "m",
            "--to",
            "clusterAPI",
            "--kubeconfig",
            path(&config),
        ],
        "",
    );
    assert_eq!(output.status.code(), Some(1), "{}", stderr(&output));
    assert!(
        stdout(&output).contains("refused: the cluster does not serve Machine of Cluster API"),
        "{}",
        stdout(&output)
    );
}

/// The status does not tell which API was authoritative before the request.
#[test]
fn v142_the_cancellation_of_a_request_that_no_controller_has_seen_is_refused() {
    let machine = json!({"apiVersion": "machine.openshift.io/v1beta1", "kind": "Machine",
        "metadata": {"name": "m", "namespace": "openshift-machine-api", "uid": "u", "resourceVersion": "1"},
        "spec": {"authoritativeAPI": "ClusterAPI", "providerSpec": {"value": {"kind": "AWSMachineProviderConfig"}}}});
    let stub = Stub::new(move |method, path| match (method, path) {
        ("GET", "/version") => version(),
        ("GET", path) if path.ends_with("/machines/m") && path.contains("machine.openshift.io") => {
            (200, machine.to_string())
        }
        ("GET", _) => not_served(),
        _ => status(500, "InternalError", "nothing may be written"),
    });
    let config = stub.usual();
    for more in [&[][..], &["--dry-run"], &["--wait", "--timeout", "1s"]] {
        let arguments = [
            &["migrate", "machine", "m", "--cancel", "--kubeconfig", path(&config)],
            more,
        ];
        let output = capstan(&arguments.concat(), "");
        assert_eq!(output.status.code(), Some(1), "{}", stderr(&output));
        assert!(
            stdout(&output).contains("refused: status.authoritativeAPI is empty") && stdout(&output).contains("--to"),
            "{}",
            stdout(&output)
        );
    }
}
