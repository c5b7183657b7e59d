//! `capstan dashboard` beside a rollout: the page follows the cluster, judges edits, and writes
//! nothing.

use std::process::Stdio;
use std::time::Duration;

use serde_json::json;
use tokio::io::{AsyncBufReadExt as _, AsyncReadExt as _, AsyncWriteExt as _, BufReader};
use tokio::net::TcpStream;
use tokio::process::{Child, Command};

use crate::world::World;

/// The deadline of each answer, also on a loaded machine.
const SOON: Duration = Duration::from_secs(240);

/// The user of the page. It may write everything, so that only the page itself prevents writes.
const USER: &str = "the-user-of-the-page";

struct Page {
    _process: Child,
    host: String,
    path: String,
}

async fn open(world: &World) -> Page {
    let mut command = Command::new(env!("CARGO_BIN_EXE_capstan"));
    command
        .args(["dashboard", "--min-ready=0s", "--kubeconfig"])
        .arg(world.plane.kubeconfig_for(USER, &["system:masters"]).unwrap());
    let mut process = command.stdout(Stdio::piped()).kill_on_drop(true).spawn().unwrap();
    let mut line = String::new();
    let mut output = BufReader::new(process.stdout.take().unwrap());
    tokio::time::timeout(SOON, output.read_line(&mut line))
        .await
        .unwrap()
        .unwrap();
    let (host, token) = line.trim().strip_prefix("http://").unwrap().split_once('/').unwrap();
    Page {
        _process: process,
        host: host.to_owned(),
        path: format!("/{token}"),
    }
}

impl Page {
    async fn request(&self, head: &str, body: &str) -> TcpStream {
        let mut stream = TcpStream::connect(&self.host).await.unwrap();
        let (host, length) = (&self.host, body.len());
        let head = format!("{head} HTTP/1.1\r\nHost: {host}\r\nConnection: close\r\nContent-Length: {length}\r\n\r\n");
        stream.write_all(format!("{head}{body}").as_bytes()).await.unwrap();
        stream
    }

    /// The answer to an edit that is tried in the page.
    async fn judge(&self, manifest: &str) -> String {
        let mut stream = self.request(&format!("POST {}try", self.path), manifest).await;
        let mut answer = String::new();
        tokio::time::timeout(SOON, stream.read_to_string(&mut answer))
            .await
            .unwrap()
            .unwrap();
        answer
    }

    async fn events(&self) -> Events {
        Events {
            stream: self.request(&format!("GET {}events", self.path), "").await,
            read: String::new(),
        }
    }
}

struct Events {
    stream: TcpStream,
    read: String,
}

impl Events {
    /// Waits until the page shows a text.
    async fn show(&mut self, text: &str) {
        let shown = async {
            let mut buffer = [0; 4096];
            while !self.read.contains(text) {
                let length = self.stream.read(&mut buffer).await.unwrap();
                assert!(length > 0, "the events end without {text:?}: {}", self.read);
                self.read.push_str(&String::from_utf8_lossy(&buffer[..length]));
            }
        };
        let in_time = tokio::time::timeout(SOON, shown).await.is_ok();
        assert!(in_time, "the page must show {text:?}: {}", self.read);
        self.read.clear();
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn the_dashboard_follows_a_rollout_judges_edits_and_writes_nothing() {
    let (world, running) = World::settled().await.unwrap();
    running.controllers.stop().await;

    let page = open(&world).await;
    let mut events = page.events().await;
    events.show("All machines are up to date").await;
    let get = [
        "get",
        "controlplanemachineset",
        "cluster",
        "-n",
        "openshift-machine-api",
        "-o",
        "json",
    ];
    let stored = world.plane.kubectl().args(get).run().await.unwrap();
    let mut set: serde_json::Value = serde_json::from_str(&stored.stdout).unwrap();
    let pointer = "/spec/template/machines_v1beta1_machine_openshift_io/spec/providerSpec/value/instanceType";
    *set.pointer_mut(pointer).unwrap() = json!("m6i.4xlarge");
    let rolls = page.judge(&set.to_string()).await;
    assert!(
        rolls.contains("Would be allowed") && rolls.contains("m6i.4xlarge") && rolls.contains("create"),
        "{rolls}"
    );
    set["spec"]["replicas"] = json!(5);
    let refused = page.judge(&set.to_string()).await;
    assert!(
        refused.contains("Would be refused") && refused.contains("cpms-replicas-immutable"),
        "{refused}"
    );
    assert!(page.judge("a: [").await.contains("must be valid YAML"));

    world.set_instance_type("m6i.2xlarge").await.unwrap();
    events.show("Rolling out a change: 0 of 3 up to date").await;
    let running = world.start_controllers("one").await.unwrap();
    events.show("All machines are up to date").await;
    running.controllers.stop().await;
    // A write that the API server refuses is a write request as well.
    let sent = world.plane.audit_events().unwrap();
    let sent: Vec<(String, String)> = sent
        .into_iter()
        .filter(|event| event.user.username == USER)
        .map(|event| (event.verb, event.request_uri))
        .collect();
    let is_read = |(verb, _): &&(String, String)| ["get", "list", "watch"].contains(&verb.as_str());
    let (reads, writes): (Vec<_>, Vec<_>) = sent.iter().partition(is_read);
    assert!(reads.iter().any(|(verb, _)| verb == "watch"), "the log has the page");
    assert!(writes.is_empty(), "the page must write nothing: {writes:?}");
    world.check_invariants().unwrap();
}
