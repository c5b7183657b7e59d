//! Many Machines at once: what the first copy, a steady state, a restart, an edit, and a migration
//! there and back cost. The shipped binary runs as a process, and the test plays the controllers of
//! both APIs.
//!
//! `CAPSTAN_FLEET` is the number of Machines, and `CAPSTAN_FLEET_MIGRATES=0` leaves the migrations
//! out. Figures are printed and not asserted; what is asserted depends on no time.

#![allow(clippy::print_stdout, reason = "the figures are the output")]

mod objects;
mod seen;

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use capstan_core::authority::spec::Api;
use capstan_sandbox::control_plane::{Process, free_port, wait_until};
use futures::StreamExt as _;
use serde_json::json;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;

use crate::cluster::{Cluster, MACHINE_API, send};
use crate::killed::process;
use seen::Fleet;

/// How many requests of the test run at once.
const AT_ONCE: usize = 16;
/// How many edits are measured.
const EDITS: usize = 41;
/// The writes of the sync controller that a migration from the Machine API needs: the begin, the
/// end, and the condition Synchronized in the status, the finalizer of the infrastructure, the ends
/// of two pauses, and the record that the Machine API is the mirror now.
const LEAST_THERE: usize = 7;
/// The writes that a migration to the Machine API needs: the begin, the end, and the condition, two
/// pauses, the records that two objects of Cluster API are mirrors now, and the end of the record
/// of the Machine API.
const LEAST_BACK: usize = 8;
/// How many writes more a Machine may need on average: what the new controllers changed in the
/// status.
const MORE: usize = 1;
/// The longest time of a wait, with any number of Machines.
const DEADLINE: Duration = Duration::from_secs(3600);

fn setting(name: &str, default: usize) -> usize {
    std::env::var(name).map_or(default, |text| text.parse().unwrap())
}

#[tokio::test(flavor = "multi_thread")]
async fn many_machines_are_copied_edited_and_migrated_there_and_back_with_few_writes() {
    let number = setting("CAPSTAN_FLEET", 12);
    let cluster = Cluster::start().await;
    let names: Vec<String> = (0..number).map(|at| format!("fleet-{at:05}")).collect();
    each(&names, |name| objects::create(&cluster.client, name)).await;
    let fleet = Fleet::start(&cluster.client, &names);

    cluster.gate.close_after(usize::MAX);
    let began = Instant::now();
    let running = start(&cluster, 1);
    fleet.agree(Api::MachineApi).await;
    report("first copy", began.elapsed(), &cluster, number);
    settle(&cluster, &fleet).await;
    report(
        "first copy, and the controllers are calm",
        began.elapsed(),
        &cluster,
        number,
    );
    memory(&running, "after the first copy");

    let before = objects::snapshot(&cluster.client, &names).await;
    let second = restarted(&cluster, running, &fleet, number).await;
    assert_eq!(objects::snapshot(&cluster.client, &names).await, before);
    edits(&cluster, &fleet, &names).await;
    settle(&cluster, &fleet).await;

    if setting("CAPSTAN_FLEET_MIGRATES", 1) == 1 {
        migrations(&cluster, &fleet, &names).await;
        memory(&second, "after the migrations");
    }
    fleet.stop(&names).await;
}

/// Does something for each name, several at once.
async fn each<'a, F: Future<Output = ()>>(names: &'a [String], work: impl Fn(&'a str) -> F) {
    futures::stream::iter(names)
        .map(|name| work(name))
        .buffer_unordered(AT_ONCE)
        .collect::<Vec<()>>()
        .await;
}

/// The shipped binary, and the port of its metrics.
struct Running {
    process: Process,
    port: u16,
}

fn start(cluster: &Cluster, life: usize) -> Running {
    let port = free_port().unwrap();
    let process = process(cluster, &cluster.proxy, "fleet", &format!("fleet-{life}"), port);
    Running { process, port }
}

/// How many Machines a process knows to be synchronized.
async fn synchronized(port: u16) -> Option<usize> {
    let mut stream = TcpStream::connect(("127.0.0.1", port)).await.ok()?;
    stream
        .write_all(b"GET /metrics HTTP/1.0\r\nHost: localhost\r\n\r\n")
        .await
        .ok()?;
    let mut text = String::new();
    stream.read_to_string(&mut text).await.ok()?;
    let line = text
        .lines()
        .find_map(|line| line.strip_prefix("capstan_mirrored_machines{state=\"synchronized\"} "))?;
    line.parse().ok()
}

/// A line with the time since the last reset, and the writes of the sync controller.
fn report(what: &str, took: Duration, cluster: &Cluster, number: usize) {
    let writes = cluster.gate.writes();
    let mut kinds: BTreeMap<String, usize> = BTreeMap::new();
    for write in &writes {
        *kinds.entry(kind_of(write)).or_default() += 1;
    }
    println!(
        "{what}: {number} Machines, {:.2} s, {} writes ({:.2} each): {kinds:?}",
        took.as_secs_f64(),
        writes.len(),
        writes.len() as f64 / number as f64
    );
}

/// A recorded write without the names of objects: the code, the method, the resource, and the
/// subresource.
fn kind_of(write: &str) -> String {
    let mut words = write.split([' ', '?']);
    let (code, method) = (words.next().unwrap_or_default(), words.next().unwrap_or_default());
    let parts: Vec<&str> = words.next().unwrap_or_default().split('/').collect();
    let at = |position: usize| parts.get(position).copied().unwrap_or_default();
    format!("{code} {method} {}/{} {}", at(2), at(6), at(8))
}

/// Prints the memory of a process.
fn memory(running: &Running, when: &str) {
    let status = std::fs::read_to_string(format!("/proc/{}/status", running.process.id())).unwrap_or_default();
    let lines = status
        .lines()
        .filter(|line| line.starts_with("VmHWM") || line.starts_with("VmRSS"));
    let lines: Vec<String> = lines
        .map(|line| line.split_whitespace().collect::<Vec<_>>().join(" "))
        .collect();
    println!("memory {when}: {}", lines.join(", "));
}

/// Waits until the sync controller has not written for a while.
async fn settle(cluster: &Cluster, fleet: &Fleet) {
    let mut quiet = 0;
    let state = || (cluster.gate.count(), fleet.steps());
    let mut before = state();
    while quiet < 40 {
        tokio::time::sleep(Duration::from_millis(50)).await;
        let now = state();
        quiet = if now == before { quiet + 1 } else { 0 };
        before = now;
    }
}

/// The steady state writes nothing, and neither does a process that has just started.
async fn restarted(cluster: &Cluster, running: Running, fleet: &Fleet, number: usize) -> Running {
    cluster.gate.close_after(usize::MAX);
    settle(cluster, fleet).await;
    assert_eq!(cluster.gate.writes(), Vec::<String>::new(), "a steady state");
    drop(running);
    let began = Instant::now();
    let second = start(cluster, 2);
    wait_until("a new process has compared all Machines", DEADLINE, async || {
        let counted = synchronized(second.port).await;
        Ok(counted.filter(|counted| *counted >= number))
    })
    .await
    .unwrap();
    println!(
        "restart: all Machines are compared after {:.2} s",
        began.elapsed().as_secs_f64()
    );
    settle(cluster, fleet).await;
    assert_eq!(cluster.gate.writes(), Vec::<String>::new(), "after a restart");
    memory(&second, "after a restart");
    second
}

/// Edits Machines one after the other, and measures how soon each mirror has the edit.
async fn edits(cluster: &Cluster, fleet: &Fleet, names: &[String]) {
    cluster.gate.close_after(usize::MAX);
    let mut took = Vec::new();
    for (at, name) in names.iter().cycle().take(EDITS).enumerate() {
        let value = format!("edit-{at}");
        let patch = json!({"metadata": {"labels": {"example.com/edit": value}}});
        send(
            &cluster.client,
            "PATCH",
            &format!("{MACHINE_API}/machines/{name}"),
            Some(&patch),
        )
        .await
        .unwrap();
        let stored = Instant::now();
        let observed = fleet.mirror_has(name, &value).await;
        took.push(observed.saturating_duration_since(stored).as_secs_f64() * 1000.0);
    }
    took.sort_by(f64::total_cmp);
    println!(
        "from the answer to an edit until the mirror has it: median {:.1} ms, 90 % {:.1} ms, longest {:.1} ms",
        took[took.len() / 2],
        took[took.len() * 9 / 10],
        took[took.len() - 1]
    );
    report("edits", Duration::ZERO, cluster, EDITS);
}

/// Requests an API for a Machine.
async fn request(client: &kube::Client, name: &str, api: Api) {
    let patch = json!({"spec": {"authoritativeAPI": api.as_str()}});
    let path = format!("{MACHINE_API}/machines/{name}");
    send(client, "PATCH", &path, Some(&patch)).await.unwrap();
}

/// All Machines migrate to Cluster API and back, and are as before.
async fn migrations(cluster: &Cluster, fleet: &Fleet, names: &[String]) {
    let before = objects::snapshot(&cluster.client, names).await;
    for (api, least) in [(Api::ClusterApi, LEAST_THERE), (Api::MachineApi, LEAST_BACK)] {
        cluster.gate.close_after(usize::MAX);
        let began = Instant::now();
        each(names, |name| request(&cluster.client, name, api)).await;
        fleet.agree(api).await;
        let took = began.elapsed();
        settle(cluster, fleet).await;
        report(
            &format!("migration to {}, at least {least} writes each", api.title()),
            took,
            cluster,
            names.len(),
        );
        let stored = cluster.gate.writes();
        let stored = stored.iter().filter(|write| write.starts_with('2')).count();
        assert!(
            stored <= names.len() * (least + MORE),
            "{stored} writes for {} Machines",
            names.len()
        );
    }
    let after = objects::snapshot(&cluster.client, names).await;
    for (name, object) in &before {
        assert_eq!(&after[name], object, "{name}");
    }
    assert_eq!(after.len(), before.len());
}
