//! What a KubeadmControlPlane costs the process that manages it, beside the controllers of Cluster
//! API with machines in memory: resident memory, and CPU while nothing changes.
//!
//! The controller runs in this process, so that the figures include the benchmark itself, which
//! does nothing while it measures.

use std::ops::Range;
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result};
use serde_json::{Value, json};

use crate::control_plane::{ControlPlane, Options, wait_until};
use crate::installation::Cluster;
use crate::neighbours::cluster_api::{ClusterApi, NAMESPACE, cluster_objects};
use crate::tour::kubeadm::{controller, prepare};

const VERSION: &str = "v1.34.0";
/// So many control planes are created at once.
const BATCH: usize = 50;
/// The deadline of a batch of creations, for each control plane.
const DEADLINE: Duration = Duration::from_secs(20);

/// What this process has used.
#[derive(Clone, Copy, Debug)]
struct Usage {
    /// Resident memory, in KiB.
    resident: f64,
    /// CPU, in milliseconds.
    cpu: f64,
}

impl Usage {
    #[expect(clippy::cast_precision_loss, reason = "the output shows rough numbers")]
    fn now() -> Result<Self> {
        let status = std::fs::read_to_string("/proc/self/status").context("reading /proc/self/status")?;
        let resident = status.lines().find_map(|line| line.strip_prefix("VmRSS:"));
        let resident = resident.and_then(|text| text.trim().trim_end_matches(" kB").parse::<u64>().ok());
        let stat = std::fs::read_to_string("/proc/self/stat").context("reading /proc/self/stat")?;
        // The name of the program is in parentheses. User and system time are the 12th and 13th
        // field after it, in hundredths of a second.
        let fields = stat.rsplit_once(')').map_or("", |(_, fields)| fields);
        let ticks = fields.split_whitespace().skip(11).take(2);
        let ticks: u64 = ticks.filter_map(|text| text.parse::<u64>().ok()).sum();
        Ok(Self {
            resident: resident.context("VmRSS is not known")? as f64,
            cpu: ticks as f64 * 10.0,
        })
    }
}

/// Measures fleets of these sizes, one after the other, during a `window` without changes.
///
/// # Errors
/// A component does not start, or the machines are not complete in time.
#[expect(clippy::print_stdout, reason = "the figures are the output")]
#[expect(clippy::cast_precision_loss, reason = "the output shows rough numbers")]
pub async fn measure(sizes: &[usize], replicas: usize, window: Duration) -> Result<()> {
    let plane = ControlPlane::start(Options::default()).await?;
    let cluster = Cluster::of(&plane)?;
    prepare(&cluster).await?;
    let _neighbours = ClusterApi::start(&plane).await?;
    let _running = controller(&plane).await?;
    let base = Usage::now()?;
    println!(
        "# {replicas} machine(s) each; {:.1} MiB resident without control planes",
        base.resident / 1024.0
    );
    let mut created = 0;
    for size in sizes {
        let began = Instant::now();
        while created < *size {
            let (first, end) = (created, (created + BATCH).min(*size));
            let objects: Vec<Value> = (first..end)
                .flat_map(|number| cluster_objects(&name(number), replicas, VERSION))
                .collect();
            let list = json!({"apiVersion": "v1", "kind": "List", "items": objects});
            cluster.apply(&list.to_string()).await?;
            created = end;
            let deadline = DEADLINE * u32::try_from(BATCH).unwrap_or(1);
            let waiting = wait_until("all control planes to be complete", deadline, async || {
                let complete = complete(&cluster, first..end, replicas).await?;
                anyhow::ensure!(complete == end - first, "{complete} of {}", end - first);
                Ok(Some(()))
            });
            waiting.await?;
        }
        let took = began.elapsed().as_secs();
        let before = Usage::now()?;
        tokio::time::sleep(window).await;
        let after = Usage::now()?;
        let minutes = window.as_secs_f64() / 60.0;
        let count = *size as f64;
        println!(
            "{size:>5} control planes, complete after {took} s more: {:.1} MiB resident, {:.0} KiB and {:.1} ms of CPU a minute for each",
            after.resident / 1024.0,
            (after.resident - base.resident) / count,
            (after.cpu - before.cpu) / count / minutes,
        );
    }
    Ok(())
}

fn name(number: usize) -> String {
    format!("fleet-{number}")
}

/// How many of these control planes have all machines.
async fn complete(cluster: &Cluster, numbers: Range<usize>, replicas: usize) -> Result<usize> {
    let names: Vec<String> = numbers.map(name).collect();
    let names = names.iter().map(String::as_str);
    let ready = "custom-columns=READY:.status.readyReplicas";
    let get = [
        "get",
        "kubeadmcontrolplanes",
        "-n",
        NAMESPACE,
        "--no-headers",
        "-o",
        ready,
    ];
    let get: Vec<&str> = get.into_iter().chain(names).collect();
    let output = cluster.run(&get, "").await?.checked()?.stdout;
    let wanted = replicas.to_string();
    Ok(output.split_whitespace().filter(|ready| *ready == wanted).count())
}
