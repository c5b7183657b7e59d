//! The process: it logs its addresses, shuts down on a signal, and stops at once on a second
//! signal.

use std::io::{BufRead, BufReader};
use std::process::{Child, Command, ExitStatus, Stdio};

use serde_json::{Value, json};

use crate::client::{Client, config, connect, send_all_but_last_byte};
use crate::harness::{eventually, get};

const ROUTE: &str = "/mutate-machine-openshift-io-v1beta1";

/// A review that the rules allow: a Machine outside the home namespaces.
fn review(uid: &str) -> bytes::Bytes {
    let machine = json!({"group": "machine.openshift.io", "version": "v1beta1"});
    let with = |key: &str, value: &str| {
        let mut machine = machine.clone();
        machine[key] = json!(value);
        machine
    };
    let object = json!({"apiVersion": "machine.openshift.io/v1beta1", "kind": "Machine",
        "metadata": {"name": "a", "namespace": "elsewhere"}, "spec": {"providerID": "x".repeat(3000)}});
    let request = json!({"uid": uid, "kind": with("kind", "Machine"), "resource": with("resource", "machines"),
        "namespace": "elsewhere", "name": "a", "operation": "CREATE", "userInfo": {"username": "user"},
        "object": object});
    let review = json!({"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview", "request": request});
    review.to_string().into()
}

struct Process {
    child: Child,
    webhooks: std::net::SocketAddr,
    health: std::net::SocketAddr,
    trust: String,
    lines: std::io::Lines<BufReader<std::process::ChildStdout>>,
}

impl Drop for Process {
    fn drop(&mut self) {
        // The process may have ended already.
        let _ignored = self.child.kill();
        let _reaped = self.child.wait();
    }
}

impl Process {
    fn start(folder: &std::path::Path) -> Self {
        Self::spawn(&mut Command::new(env!("CARGO_BIN_EXE_capstan")), folder)
    }

    /// Adds the arguments to a command that runs the program.
    fn spawn(command: &mut Command, folder: &std::path::Path) -> Self {
        let snapshot = folder.join("objects.json");
        std::fs::write(&snapshot, r#"{"apiVersion": "v1", "kind": "List", "items": []}"#).unwrap();
        let mut child = command
            .args(["serve", "--snapshot"])
            .arg(snapshot)
            .args(["--listen", "127.0.0.1:0", "--health-addr", "127.0.0.1:0"])
            .args([
                "--log-format",
                "json",
                "--shutdown-delay",
                "0s",
                "--drain-timeout",
                "1h",
            ])
            .arg("--dev-certificate")
            .arg(folder)
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
        let mut line = Value::Null;
        while line["message"] != "serving" {
            line = serde_json::from_str(&lines.next().unwrap().unwrap()).unwrap();
        }
        let address = |name: &str| line[name].as_str().unwrap().parse().unwrap();
        let (webhooks, health) = (address("webhooks"), address("health"));
        let trust = std::fs::read_to_string(folder.join("ca.crt")).unwrap();
        Self {
            child,
            webhooks,
            health,
            trust,
            lines,
        }
    }

    fn signal(&self, name: &str) {
        let pid = self.child.id().to_string();
        assert!(
            Command::new("kill")
                .args(["-s", name, &pid])
                .status()
                .unwrap()
                .success()
        );
    }

    async fn end(&mut self) -> ExitStatus {
        let mut status = None;
        eventually("the process ends", async || {
            status = self.child.try_wait().unwrap();
            status.is_some()
        })
        .await;
        status.unwrap()
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_signal_shuts_the_process_down_and_every_review_is_logged() {
    let folder = tempfile::tempdir().unwrap();
    let mut process = Process::start(folder.path());
    let stream = connect(process.webhooks, config(&process.trust, "h2", rustls::ALL_VERSIONS))
        .await
        .unwrap();
    let mut client = Client::new(stream).await.unwrap();
    assert_eq!(client.post(ROUTE, review("the-uid")).await.unwrap().status(), 200);
    process.signal("TERM");
    assert_eq!(process.end().await.code(), Some(0));
    let lines: Vec<Value> = (&mut process.lines)
        .map(|line| serde_json::from_str(&line.unwrap()).unwrap())
        .collect();
    let review = lines.iter().find(|line| line["message"] == "review").unwrap();
    assert_eq!(
        (&review["uid"], &review["allowed"], &review["code"]),
        (&"the-uid".into(), &true.into(), &200.into())
    );
    assert!(
        lines.iter().all(|line| !line.to_string().contains("xxxx")),
        "the log contains a part of an object: {lines:?}"
    );
    assert_eq!(lines.last().unwrap()["message"], "shut down");
}

#[tokio::test(flavor = "multi_thread")]
async fn n5_connections_leave_file_descriptors_for_health_checks_and_reviews() {
    let folder = tempfile::tempdir().unwrap();
    let mut limited = Command::new("sh");
    limited.args([
        "-c",
        "ulimit -Sn 64; ulimit -Hn 300; exec \"$0\" \"$@\"",
        env!("CARGO_BIN_EXE_capstan"),
    ]);
    let process = Process::spawn(&mut limited, folder.path());
    let limits = std::fs::read_to_string(format!("/proc/{}/limits", process.child.id())).unwrap();
    let files = limits.lines().find(|line| line.starts_with("Max open files")).unwrap();
    assert_eq!(
        files.split_whitespace().nth(3),
        Some("300"),
        "the soft limit is raised: {files}"
    );
    let mut idle = Vec::new();
    for _ in 0..320 {
        idle.push(tokio::net::TcpStream::connect(process.webhooks).await.unwrap());
    }
    // Idle connections are closed after seconds. So the test counts before, and not only whether
    // the process answers in the end.
    let opened = || {
        std::fs::read_dir(format!("/proc/{}/fd", process.child.id()))
            .unwrap()
            .count()
    };
    let mut counts = [0; 5];
    eventually("the process accepts no more connections", async || {
        counts.rotate_left(1);
        counts[4] = opened();
        counts[0] > 100 && counts.iter().all(|count| *count == counts[0])
    })
    .await;
    assert!(counts[0] < 250, "{} of 300 descriptors are in use", counts[0]);
    let served = tokio::time::timeout(std::time::Duration::from_secs(60), async {
        assert_eq!(get(process.health, "/livez").await.0, 200);
        let config = config(&process.trust, "h2", rustls::ALL_VERSIONS);
        let mut client = Client::new(connect(process.webhooks, config).await.unwrap())
            .await
            .unwrap();
        assert_eq!(client.post(ROUTE, review("n5")).await.unwrap().status(), 200);
    });
    served.await.expect("the server does not respond");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_second_signal_interrupts_active_requests() {
    let folder = tempfile::tempdir().unwrap();
    let mut process = Process::start(folder.path());
    let config = config(&process.trust, "http/1.1", rustls::ALL_VERSIONS);
    let mut stream = connect(process.webhooks, config).await.unwrap();
    send_all_but_last_byte(&mut stream, "stuck", ROUTE).await;
    let health = process.health;
    eventually("the review is in flight", async || {
        get(health, "/metrics").await.1.contains("reviews_in_flight 1")
    })
    .await;
    process.signal("INT");
    eventually("the server is not ready", async || {
        get(health, "/readyz").await.0 == 503
    })
    .await;
    process.signal("TERM");
    assert_eq!(process.end().await.code(), Some(2));
}
