//! `make bench`: what a verdict costs, as ratios to a server that reads nothing but the envelope and allows everything.
//!
//! Both servers are the shipped binary, with the same TLS, HTTP, logs and metrics; they take turns every half second
//! in one run, so that whatever else the machine does hits both. They have one core, and whoever asks has another. Absolute numbers belong to the machine; ratios are
//! what is held to a goal. It measures, and judges nothing but its own goals.

mod allocations;
mod cores;
mod decision;
mod guarded;
mod load;
mod reaction;
mod report;
mod review;
mod server;

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context as _, Result};
use clap::ValueEnum as _;

pub use allocations::Counting;
use cores::Cores;
pub use decision::{What, repeat};
use load::Connection;
use report::{Ratio, Report, median, percentile};
use server::Server;

/// Connections at once.
const CONCURRENCIES: [usize; 3] = [1, 16, 64];
/// Turns of each server at each concurrency.
const ROUNDS: usize = 14;
/// The length of a turn.
const TURN: Duration = Duration::from_millis(600);
/// How long both are warmed up.
const WARM_UP: Duration = Duration::from_millis(1500);
/// Times the null server's.
const GOAL: f64 = 2.0;
/// Resident memory of an idle server, in MiB.
const MEMORY_GOAL: f64 = 25.0;

/// From a replacement that is ready to the deletion of what it replaces, in milliseconds.
const REACTION_GOAL: f64 = 100.0;

/// A part of the benchmark.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub enum Part {
    /// A decision without a server around it.
    Decision,
    /// An update of a ControlPlaneMachineSet.
    Update,
    /// Updates of Machines that exist in both APIs, ten thousand of them in the caches.
    Guarded,
    /// What an idle server takes.
    Memory,
    /// How soon a rollout goes on, on a real API server.
    Reaction,
}

/// Measures these parts, all for none, and writes `summary.json` into `folder`. What a part gave is printed and written
/// as soon as it is there: the next one may fail.
/// The servers have a core, and whoever asks another, unless all cores are `shared`.
///
/// # Errors
/// A server does not start or does not answer.
#[expect(clippy::print_stdout, reason = "the figures are the answer")]
pub async fn run(capstan: &Path, folder: &Path, parts: &[Part], shared: bool) -> Result<()> {
    std::fs::create_dir_all(folder).with_context(|| format!("creating {}", folder.display()))?;
    let parts = if parts.is_empty() {
        Part::value_variants()
    } else {
        parts
    };
    let files = tempfile::tempdir().context("creating a folder for the servers")?;
    let mut report = Report::new(folder.join("summary.json"));
    let split = || if shared { Ok(None) } else { Cores::split() };
    for part in parts {
        match part {
            Part::Decision => decisions(folder)?,
            Part::Update => update(split()?, capstan, files.path(), &mut report).await?,
            Part::Guarded => guarded_updates(split()?, capstan, files.path(), &mut report).await?,
            Part::Memory => {
                let idle = idle_memory(capstan, files.path()).await?;
                let shown = format!("{idle:.1} of {MEMORY_GOAL} MiB");
                report.add(Ratio::new("memory-idle", idle / MEMORY_GOAL, 1.0, shown))?;
            }
            Part::Reaction => report.add(reaction(capstan, files.path()).await?)?,
        }
    }
    println!("# written to {}", report.file().display());
    Ok(())
}

#[expect(clippy::print_stdout, reason = "the figures are the answer")]
fn decisions(folder: &Path) -> Result<()> {
    println!("# the decision alone");
    for (name, cost) in decision::costs()? {
        println!(
            "{:>7.1} µs {:>6} allocations {:>8} bytes   {name}",
            cost.nanoseconds / 1000.0,
            cost.allocations,
            cost.bytes
        );
    }
    for what in What::value_variants() {
        match decision::instructions(folder, *what)? {
            Some(count) => println!("{count:>9} instructions   {what:?}"),
            None => println!("instructions are not counted: there is no valgrind"),
        }
    }
    Ok(())
}

async fn reaction(capstan: &Path, files: &Path) -> Result<Ratio> {
    let mut took = reaction::samples(capstan, files).await?;
    let middle = median(&mut took).context("no machine was replaced")?;
    Ok(Ratio::new(
        "ready-to-deleted",
        middle / REACTION_GOAL,
        1.0,
        format!(
            "{middle:.1} of {REACTION_GOAL} ms, the median of {} machines",
            took.len()
        ),
    ))
}

/// A server, and the request that it gets.
struct Contender {
    server: Server,
    request: Arc<[u8]>,
}

impl Contender {
    async fn connect(&self, concurrency: usize) -> Result<Vec<Connection>> {
        let mut connections = Vec::new();
        for _ in 0..concurrency {
            connections.push(self.server.target.connect().await?);
        }
        Ok(connections)
    }
}

/// An update of a ControlPlaneMachineSet, at each concurrency.
#[expect(clippy::print_stdout, reason = "the figures are the answer")]
async fn update(cores: Option<Cores>, capstan: &Path, files: &Path, report: &mut Report) -> Result<()> {
    let (body, objects) = (review::review()?, review::surroundings()?);
    let (null, full) = contenders(cores.as_ref(), capstan, files, &body, &objects, decision::route()?.path).await?;
    println!("# an update of a set, {} bytes in a review", body.len());
    for concurrency in CONCURRENCIES {
        compare(&null, &full, concurrency, "", report).await?;
    }
    println!("{:.1} MiB resident after the load", full.server.resident()?);
    Ok(())
}

/// Guarded updates of what exists in both APIs, at each concurrency; the memory of the server is printed.
#[expect(clippy::print_stdout, reason = "the figures are the answer")]
async fn guarded_updates(cores: Option<Cores>, capstan: &Path, files: &Path, report: &mut Report) -> Result<()> {
    let objects = guarded::surroundings();
    for edit in guarded::EDITS {
        let body = guarded::review(*edit)?;
        let (null, full) = contenders(
            cores.as_ref(),
            capstan,
            files,
            &body,
            &objects,
            guarded::route(*edit)?.path,
        )
        .await?;
        println!(
            "# {}, {} bytes in a review; {} objects in the caches, {:.1} MiB resident",
            edit.title(),
            body.len(),
            objects.len(),
            full.server.resident()?
        );
        for concurrency in CONCURRENCIES {
            compare(&null, &full, concurrency, edit.prefix(), report).await?;
        }
        println!("{:.1} MiB resident after the load", full.server.resident()?);
    }
    Ok(())
}

/// Both servers, on a core of their own where there is one to spare.
async fn contenders(
    cores: Option<&Cores>,
    capstan: &Path,
    files: &Path,
    body: &[u8],
    objects: &[serde_json::Value],
    route: &str,
) -> Result<(Contender, Contender)> {
    let snapshot = files.join("cluster.json");
    let list = serde_json::json!({"apiVersion": "v1", "kind": "List", "items": objects});
    std::fs::write(&snapshot, list.to_string()).context("writing the cluster's objects")?;
    let snapshot = snapshot.to_string_lossy().into_owned();
    if let Some(cores) = cores {
        cores.for_servers()?;
    }
    let null = Contender {
        server: Server::start(capstan, files, "null", &["--null-reviewer"]).await?,
        request: load::request("/null", body).into(),
    };
    let full = Contender {
        server: Server::start(capstan, files, "full", &["--snapshot", &snapshot]).await?,
        request: load::request(route, body).into(),
    };
    if let Some(cores) = cores {
        cores.for_asker()?;
    }
    // What is measured must be what is meant.
    for contender in [&null, &full] {
        let mut connection = contender.server.target.connect().await?;
        let answer = connection.ask(&contender.request).await?;
        let answer: serde_json::Value = serde_json::from_slice(answer).context("an answer that is no JSON")?;
        let allowed = answer.pointer("/response/allowed").and_then(serde_json::Value::as_bool);
        anyhow::ensure!(
            allowed == Some(true),
            "the review of the benchmark was refused: {answer}"
        );
    }
    Ok((null, full))
}

/// What the turns of one server gave.
#[derive(Default)]
struct Turns {
    cpu: Vec<f64>,
    p50: Vec<f64>,
    p99: Vec<f64>,
    reviews: usize,
}

impl Turns {
    /// One turn: processor time a review in microseconds, and latencies in microseconds.
    async fn take(
        &mut self,
        contender: &Contender,
        connections: Vec<Connection>,
        time: Duration,
    ) -> Result<Vec<Connection>> {
        let before = contender.server.cpu()?;
        let (connections, mut took) = load::round(connections, &contender.request, time).await?;
        let used = contender.server.cpu()? - before;
        took.sort_unstable();
        self.reviews += took.len();
        self.cpu.push(used);
        #[expect(clippy::cast_precision_loss, reason = "latencies are far below 2^52 nanoseconds")]
        let micros = |hundredths| percentile(&took, hundredths).map(|nanos| nanos as f64 / 1000.0);
        self.p50.extend(micros(50));
        self.p99.extend(micros(99));
        Ok(connections)
    }

    /// Microseconds of processor time a review, over all turns.
    fn cpu(&self) -> f64 {
        #[expect(clippy::cast_precision_loss, reason = "far below 2^52 reviews")]
        let reviews = self.reviews as f64;
        self.cpu.iter().sum::<f64>() * 1e6 / reviews
    }
}

async fn compare(
    null: &Contender,
    full: &Contender,
    concurrency: usize,
    what: &str,
    report: &mut Report,
) -> Result<()> {
    let mut to_null = null.connect(concurrency).await?;
    let mut to_full = full.connect(concurrency).await?;
    let mut warm_up = Turns::default();
    to_null = warm_up.take(null, to_null, WARM_UP).await?;
    to_full = warm_up.take(full, to_full, WARM_UP).await?;
    let (mut of_null, mut of_full) = (Turns::default(), Turns::default());
    for _ in 0..ROUNDS {
        to_null = of_null.take(null, to_null, TURN).await?;
        to_full = of_full.take(full, to_full, TURN).await?;
    }
    // A turn is held against its neighbour, and the pair in the middle counts: a pause of the machine spoils one pair.
    let paired = |full: &[f64], null: &[f64]| -> Result<f64> {
        let mut ratios: Vec<f64> = full.iter().zip(null).map(|(full, null)| full / null).collect();
        median(&mut ratios).context("no turns")
    };
    let middle = |samples: &[f64]| median(&mut samples.to_vec()).unwrap_or_default();
    let latency = |name: &str, full: &[f64], null: &[f64]| -> Result<Ratio> {
        let shown = format!("{:.0} → {:.0} µs", middle(null), middle(full));
        Ok(Ratio::new(
            format!("{what}{name}@{concurrency}"),
            paired(full, null)?,
            GOAL,
            shown,
        ))
    };
    let (cpu_null, cpu_full) = (of_null.cpu(), of_full.cpu());
    report.add(Ratio::new(
        format!("{what}cpu-per-review@{concurrency}"),
        cpu_full / cpu_null,
        GOAL,
        format!(
            "{cpu_null:.1} → {cpu_full:.1} µs ({} → {} reviews)",
            of_null.reviews, of_full.reviews
        ),
    ))?;
    report.add(latency("latency-p50", &of_full.p50, &of_null.p50)?)?;
    report.add(latency("latency-p99", &of_full.p99, &of_null.p99)?)
}

/// Resident memory of the server as it runs in a cluster, client and caches included, before it has seen an object: its
/// API server does not answer.
async fn idle_memory(capstan: &Path, files: &Path) -> Result<f64> {
    let port = crate::control_plane::free_port()?;
    let kubeconfig: PathBuf = files.join("kubeconfig");
    let text = format!(
        "apiVersion: v1\nkind: Config\ncurrent-context: none\nclusters:\n- name: none\n  cluster: {{server: \
         \"https://127.0.0.1:{port}\"}}\nusers:\n- name: none\n  user: {{token: none}}\ncontexts:\n- name: none\n  context: \
         {{cluster: none, user: none}}\n"
    );
    std::fs::write(&kubeconfig, text).context("writing a kubeconfig")?;
    let arguments = ["--kubeconfig", &kubeconfig.to_string_lossy()];
    let server = Server::start(capstan, files, "idle", &arguments).await?;
    tokio::time::sleep(Duration::from_secs(3)).await;
    server.resident()
}
