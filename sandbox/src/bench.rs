//! `make bench`: what an admission verdict costs, as a ratio to a baseline server.
//!
//! The baseline is the binary with the cargo feature `bench` and `--null-reviewer`: the same TLS,
//! HTTP, logs and metrics, but it reads only the envelope of a review and allows everything. With
//! `--against`, the baseline is another build of Capstan, which judges the same review. Both
//! servers take turns in one run, so that other load on the machine affects both. The servers share
//! one core; the client has another.
//!
//! Absolute figures depend on the machine. Only ratios are compared with a goal. The benchmark must
//! never decide anything but whether its own goals are met.

mod allocations;
mod conversion;
mod cores;
mod decision;
mod guarded;
mod kubeadm_fleet;
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
use serde_json::Value;

pub use allocations::Counting;
use cores::Cores;
pub use decision::{What, repeat};
pub use kubeadm_fleet::measure as measure_kubeadm_fleet;
use load::Connection;
use report::{Ratio, Report, median, percentile};
use server::Server;

/// Numbers of concurrent connections.
const CONCURRENCIES: [usize; 3] = [1, 16, 64];
/// Turns of each server at each concurrency.
const ROUNDS: usize = 14;
/// The length of a turn.
const TURN: Duration = Duration::from_millis(600);
/// The length of the warm-up of each server.
const WARM_UP: Duration = Duration::from_millis(1500);
/// The largest allowed ratio to the null server.
const NULL_GOAL: f64 = 2.0;
/// The largest allowed ratio to another build.
const BUILD_GOAL: f64 = 1.1;
/// The largest allowed resident memory of an idle server, in MiB.
const MEMORY_GOAL: f64 = 25.0;
/// The longest allowed time from a ready replacement to the deletion of the old machine, in
/// milliseconds.
const REACTION_GOAL: f64 = 100.0;

/// A part of the benchmark.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub enum Part {
    /// A decision in this process, without a server.
    Decision,
    /// An update of a ControlPlaneMachineSet.
    Update,
    /// Updates of Machines that exist in both APIs, with ten thousand pairs in the caches.
    Guarded,
    /// The memory of an idle server.
    Memory,
    /// The conversion between the Machine API and Cluster API.
    Conversion,
    /// How soon a rollout continues, on a real API server.
    Reaction,
}

/// What is measured, and how.
#[derive(Clone, Debug)]
pub struct Plan {
    /// The server.
    pub capstan: PathBuf,
    /// Another build of the server to compare with, instead of the null server.
    pub against: Option<PathBuf>,
    /// The folder of `summary.json`.
    pub folder: PathBuf,
    /// The parts to measure; empty for all.
    pub parts: Vec<Part>,
    /// Whether the servers and the client share all cores, instead of one core each.
    pub shared: bool,
}

/// Measures the parts of a plan and writes `summary.json`. The figures of a part are printed and
/// written as soon as they are known, because a later part may fail.
///
/// # Errors
/// A server does not start or does not answer.
#[expect(clippy::print_stdout, reason = "the figures are the output")]
pub async fn run(plan: &Plan) -> Result<()> {
    let Plan { capstan, folder, .. } = plan;
    std::fs::create_dir_all(folder).with_context(|| format!("creating {}", folder.display()))?;
    let parts = if plan.parts.is_empty() {
        Part::value_variants()
    } else {
        &plan.parts
    };
    let files = tempfile::tempdir().context("creating a folder for the servers")?;
    let mut report = Report::new(folder.join("summary.json"));
    let bench = Bench {
        plan,
        files: files.path(),
    };
    for part in parts {
        match part {
            Part::Decision => decisions(folder)?,
            Part::Update => bench.update(&mut report).await?,
            Part::Guarded => bench.guarded_updates(&mut report).await?,
            Part::Memory => {
                let idle = idle_memory(capstan, files.path()).await?;
                let shown = format!("{idle:.1} of {MEMORY_GOAL} MiB");
                report.add(Ratio::new("memory-idle", idle / MEMORY_GOAL, 1.0, shown))?;
            }
            Part::Conversion => {
                for ratio in conversion::machines()? {
                    report.add(ratio)?;
                }
                report.add(conversion::file(capstan, files.path())?)?;
            }
            Part::Reaction => report.add(reaction(capstan, files.path()).await?)?,
        }
    }
    println!("# written to {}", report.file().display());
    Ok(())
}

#[expect(clippy::print_stdout, reason = "the figures are the output")]
fn decisions(folder: &Path) -> Result<()> {
    println!("# the decision alone, in this process");
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
            None => println!("instructions are not counted: valgrind is not installed"),
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

    /// Checks that the server allows the review, so that an error is not what is measured.
    async fn check(&self) -> Result<()> {
        let mut connection = self.server.target.connect().await?;
        let answer = connection.ask(&self.request).await?;
        let answer: Value = serde_json::from_slice(answer).context("the answer is not JSON")?;
        let allowed = answer.pointer("/response/allowed").and_then(Value::as_bool);
        anyhow::ensure!(
            allowed == Some(true),
            "the review of the benchmark was refused: {answer}"
        );
        Ok(())
    }
}

/// The server under measurement, and the baseline.
struct Pair {
    baseline: Contender,
    full: Contender,
    /// The largest allowed ratio.
    goal: f64,
}

struct Bench<'a> {
    plan: &'a Plan,
    /// A folder for the files of the servers.
    files: &'a Path,
}

impl Bench<'_> {
    /// An update of a ControlPlaneMachineSet, at each concurrency.
    #[expect(clippy::print_stdout, reason = "the figures are the output")]
    async fn update(&self, report: &mut Report) -> Result<()> {
        let (body, objects) = (review::review()?, review::surroundings()?);
        let cores = self.cores()?;
        let pair = self
            .start(cores.as_ref(), &body, &objects, decision::route()?.path)
            .await?;
        println!("# an update of a set, {} bytes in a review", body.len());
        for concurrency in CONCURRENCIES {
            compare(&pair, concurrency, "", report).await?;
        }
        println!("{:.1} MiB resident after the load", pair.full.server.resident()?);
        Ok(())
    }

    /// Updates of objects that exist in both APIs, at each concurrency. The memory of the server is
    /// printed.
    #[expect(clippy::print_stdout, reason = "the figures are the output")]
    async fn guarded_updates(&self, report: &mut Report) -> Result<()> {
        let objects = guarded::surroundings();
        for edit in guarded::EDITS {
            let body = guarded::review(*edit)?;
            let cores = self.cores()?;
            let route = guarded::route(*edit)?.path;
            let pair = self.start(cores.as_ref(), &body, &objects, route).await?;
            println!(
                "# {}, {} bytes in a review; {} objects in the caches, {:.1} MiB resident",
                edit.title(),
                body.len(),
                objects.len(),
                pair.full.server.resident()?
            );
            for concurrency in CONCURRENCIES {
                compare(&pair, concurrency, edit.prefix(), report).await?;
            }
            println!("{:.1} MiB resident after the load", pair.full.server.resident()?);
        }
        Ok(())
    }

    fn cores(&self) -> Result<Option<Cores>> {
        if self.plan.shared { Ok(None) } else { Cores::split() }
    }

    /// Starts both servers, on a core of their own if the machine has two.
    async fn start(&self, cores: Option<&Cores>, body: &[u8], objects: &[Value], route: &str) -> Result<Pair> {
        let snapshot = self.files.join("cluster.json");
        let list = serde_json::json!({"apiVersion": "v1", "kind": "List", "items": objects});
        std::fs::write(&snapshot, list.to_string()).context("writing the objects of the cluster")?;
        let snapshot = snapshot.to_string_lossy().into_owned();
        let judging = ["--snapshot", snapshot.as_str()];
        if let Some(cores) = cores {
            cores.for_servers()?;
        }
        let (capstan, files) = (&self.plan.capstan, self.files);
        let (server, path, goal) = match &self.plan.against {
            None => {
                let server = Server::start(capstan, files, "null", &["--null-reviewer"]).await?;
                (server, "/null", NULL_GOAL)
            }
            Some(build) => {
                let server = Server::start(build, files, "against", &judging).await?;
                (server, route, BUILD_GOAL)
            }
        };
        let baseline = Contender {
            server,
            request: load::request(path, body).into(),
        };
        let full = Contender {
            server: Server::start(capstan, files, "full", &judging).await?,
            request: load::request(route, body).into(),
        };
        if let Some(cores) = cores {
            cores.for_client()?;
        }
        baseline.check().await?;
        full.check().await?;
        Ok(Pair { baseline, full, goal })
    }
}

/// The figures of the turns of one server.
#[derive(Default)]
struct Turns {
    cpu: Vec<f64>,
    p50: Vec<f64>,
    p99: Vec<f64>,
    reviews: Vec<usize>,
}

impl Turns {
    /// One run: processor time and latencies.
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
        self.reviews.push(took.len());
        self.cpu.push(used);
        #[expect(clippy::cast_precision_loss, reason = "latencies are far below 2^52 nanoseconds")]
        let micros = |hundredths| percentile(&took, hundredths).map(|nanos| nanos as f64 / 1000.0);
        self.p50.extend(micros(50));
        self.p99.extend(micros(99));
        Ok(connections)
    }

    fn reviews(&self) -> usize {
        self.reviews.iter().sum()
    }

    /// Microseconds of processor time per review, over all turns.
    fn cpu(&self) -> f64 {
        #[expect(clippy::cast_precision_loss, reason = "far below 2^52 reviews")]
        let reviews = self.reviews() as f64;
        self.cpu.iter().sum::<f64>() * 1e6 / reviews
    }
}

/// Compares the two servers at one concurrency. The names of the ratios begin with `prefix`.
async fn compare(pair: &Pair, concurrency: usize, prefix: &str, report: &mut Report) -> Result<()> {
    let Pair { baseline, full, goal } = pair;
    let mut to_baseline = baseline.connect(concurrency).await?;
    let mut to_full = full.connect(concurrency).await?;
    let mut warm_up = Turns::default();
    to_baseline = warm_up.take(baseline, to_baseline, WARM_UP).await?;
    to_full = warm_up.take(full, to_full, WARM_UP).await?;
    let (mut of_baseline, mut of_full) = (Turns::default(), Turns::default());
    for _ in 0..ROUNDS {
        to_baseline = of_baseline.take(baseline, to_baseline, TURN).await?;
        to_full = of_full.take(full, to_full, TURN).await?;
    }
    let (before, after) = (of_baseline.cpu(), of_full.cpu());
    report.add(Ratio::new(
        format!("{prefix}cpu-per-review@{concurrency}"),
        after / before,
        *goal,
        format!(
            "{before:.1} → {after:.1} µs ({} → {} reviews)",
            of_baseline.reviews(),
            of_full.reviews()
        ),
    ))?;
    let middle = |samples: &[f64]| median(&mut samples.to_vec()).unwrap_or_default();
    for (name, baseline, full) in [
        ("latency-p50", &of_baseline.p50, &of_full.p50),
        ("latency-p99", &of_baseline.p99, &of_full.p99),
    ] {
        let shown = format!("{:.0} → {:.0} µs", middle(baseline), middle(full));
        let ratio = paired(full, baseline).context("no turn was measured")?;
        report.add(Ratio::new(format!("{prefix}{name}@{concurrency}"), ratio, *goal, shown))?;
    }
    Ok(())
}

/// The median of the ratios of neighbouring turns: a pause of the machine affects one pair of turns
/// only.
fn paired(full: &[f64], baseline: &[f64]) -> Option<f64> {
    let mut ratios: Vec<f64> = full.iter().zip(baseline).map(|(full, base)| full / base).collect();
    median(&mut ratios)
}

/// Resident memory, in MiB, of the server as it runs in a cluster, with its client and caches,
/// before it has read any object: its API server does not answer.
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
