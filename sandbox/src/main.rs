//! `capstan-sandbox`: the tour, and the control plane of the tests by hand.

use std::io::IsTerminal as _;
use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::{Context, Result};
use capstan_sandbox::bench;
use capstan_sandbox::control_plane::{Binaries, ControlPlane, Options};
use capstan_sandbox::installation::Cluster;
use capstan_sandbox::simulation;
use capstan_sandbox::tour::{self, Guest, Home, Screen};
use clap::{Parser, Subcommand};
use tokio::signal::unix::{SignalKind, signal};

/// What ships, with a count: the benchmark says how often a decision allocates.
#[global_allocator]
static ALLOCATOR: bench::Counting<mimalloc::MiMalloc> = bench::Counting(mimalloc::MiMalloc);

/// A real Kubernetes control plane on this machine's loopback, for trying things out.
#[derive(Parser)]
#[command(name = "capstan-sandbox", version)]
struct Arguments {
    #[command(subcommand)]
    command: Command,
}

/// How an outcome is printed.
#[derive(Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
enum Output {
    /// For people
    Text,
    /// For programs
    Json,
}

/// The same, and as a page of the documentation.
#[derive(Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
enum TableOutput {
    /// For people
    Text,
    /// For programs
    Json,
    /// For docs/mutants.md
    Markdown,
}

#[derive(Subcommand)]
enum Command {
    /// Bring up a cluster with Capstan in it and show what it refuses, warns of and accepts
    ///
    /// On a terminal the cluster stays up until Ctrl-C; otherwise the end of the tour is the end of it.
    Run {
        /// Use the cluster of this context of your kubeconfig instead; what is created there is removed again
        #[arg(long, value_name = "NAME")]
        context: Option<String>,
        /// Address of this machine, as the API server of that cluster reaches it
        #[arg(long, value_name = "ADDRESS", requires = "context")]
        address: Option<String>,
        /// The capstan to run; the one beside this program by default
        #[arg(long, value_name = "FILE")]
        capstan: Option<PathBuf>,
    },
    /// Print the folder with etcd, kube-apiserver and the rest; build them first if they are not there
    Kube,
    /// Start a control plane, print how to reach it, and keep it until Ctrl-C; nothing is left running after that
    ControlPlane {
        /// Write an audit log into the control plane's folder
        #[arg(long)]
        audit: bool,
    },
    /// Attack the controllers in simulated control planes; exits 1 on a violation
    Simulate {
        /// The first seed
        #[arg(long, default_value_t = 0)]
        from: u64,
        /// How many seeds
        #[arg(long, default_value_t = 1000)]
        seeds: u64,
        /// Only this scenario
        #[arg(long, value_name = "NAME", value_parser = scenario)]
        scenario: Option<String>,
        /// Show what happens in the first seed, step by step
        #[arg(long)]
        trace: bool,
        /// Instead of seeds: every write of each scenario, each with every single fault
        #[arg(long, conflicts_with = "trace")]
        exhaustive: bool,
        /// Print a hash of what happens in each seed, the same on every machine
        #[arg(long, conflicts_with_all = ["trace", "exhaustive"])]
        digest: bool,
        /// Threads; one for each core by default
        #[arg(long)]
        cores: Option<u64>,
        /// How the outcome is printed
        #[arg(short, long, value_enum, default_value = "text")]
        output: Output,
    },
    /// Plant known bugs in the controllers, and look whether the simulation finds them; exits 1 if one survives
    Mutants {
        /// At most so many seeds for each
        #[arg(long, default_value_t = simulation::LIMIT)]
        seeds: u64,
        /// Show the story of each
        #[arg(long)]
        trace: bool,
        /// How the outcome is printed
        #[arg(short, long, value_enum, default_value = "text")]
        output: TableOutput,
    },
    /// Measure the server beside it against one that allows everything; both binaries must be release builds
    Bench {
        /// The server; by default the `capstan` beside this program
        #[arg(long, value_name = "FILE")]
        capstan: Option<PathBuf>,
        /// Another build of the server: compare with it instead of the server that allows everything
        #[arg(long, value_name = "FILE")]
        against: Option<PathBuf>,
        /// The folder of summary.json
        #[arg(long, value_name = "DIR", default_value = "target/bench")]
        folder: PathBuf,
        /// Only this part; may be repeated
        #[arg(long, value_enum)]
        only: Vec<bench::Part>,
        /// Let the servers and the client share all cores; the p99 then depends mostly on the scheduler
        #[arg(long)]
        shared: bool,
    },
    /// Make one decision again and again, for a profiler
    #[command(hide = true)]
    Decide {
        /// How often
        times: u32,
        /// Which one
        #[arg(long, value_enum, default_value = "update")]
        what: bench::What,
    },
}

fn main() -> ExitCode {
    let outcome = match Arguments::parse().command {
        Command::Run {
            context: None, capstan, ..
        } => until_signal(at_home(capstan)),
        Command::Run {
            context: Some(context),
            address,
            capstan,
        } => as_guest(&context, address.as_deref(), capstan),
        Command::Kube => kube(),
        Command::ControlPlane { audit } => control_plane(Options {
            audit,
            ..Options::default()
        }),
        Command::Simulate {
            from,
            scenario,
            trace: true,
            ..
        } => show_trace(from, scenario.as_deref()),
        Command::Simulate {
            scenario,
            exhaustive: true,
            cores,
            ..
        } => exhaust(scenario.as_deref(), cores),
        Command::Simulate {
            from,
            seeds,
            scenario,
            digest: true,
            ..
        } => digest(from, seeds, scenario.as_deref()),
        Command::Simulate {
            from,
            seeds,
            scenario,
            cores,
            output,
            ..
        } => simulate(from, seeds, scenario.as_deref(), cores, output),
        Command::Mutants { seeds, trace, output } => mutants(seeds, trace, output),
        Command::Bench {
            capstan,
            against,
            folder,
            only,
            shared,
        } => capstan.map_or_else(tour::capstan_beside, Ok).and_then(|capstan| {
            measure(&bench::Plan {
                capstan,
                against,
                folder,
                parts: only,
                shared,
            })
        }),
        Command::Decide { times, what } => bench::repeat(times, what),
    };
    match outcome {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            say_error(&error);
            ExitCode::FAILURE
        }
    }
}

#[expect(clippy::print_stderr, reason = "the one place where this program says why it failed")]
fn say_error(error: &anyhow::Error) {
    eprintln!("capstan-sandbox: {error:#}");
}

#[expect(clippy::print_stdout, reason = "the folder is the answer")]
fn kube() -> Result<()> {
    println!("{}", Binaries::locate()?.folder().display());
    Ok(())
}

fn scenario(name: &str) -> Result<String, String> {
    let known: Vec<&str> = simulation::SCENARIOS.iter().map(|(name, _)| *name).collect();
    if known.contains(&name) {
        return Ok(name.to_owned());
    }
    Err(format!("there are {}", known.join(", ")))
}

fn threads(cores: Option<u64>) -> u64 {
    cores.unwrap_or_else(|| std::thread::available_parallelism().map_or(1, |cores| cores.get() as u64))
}

#[expect(clippy::print_stdout, reason = "the trace is the answer")]
fn show_trace(seed: u64, scenario: Option<&str>) -> Result<()> {
    let outcome = simulation::trace(seed, scenario)?;
    outcome.trace.iter().for_each(|line| println!("{line}"));
    if let Some(violation) = outcome.violation {
        anyhow::bail!("seed {seed} violates {violation}");
    }
    Ok(())
}

#[expect(clippy::print_stdout, reason = "the digests are the answer")]
fn digest(from: u64, seeds: u64, scenario: Option<&str>) -> Result<()> {
    for seed in from..from.saturating_add(seeds) {
        println!("{}", simulation::digest(seed, scenario)?);
    }
    Ok(())
}

#[expect(clippy::print_stdout, reason = "the outcome is the answer")]
fn exhaust(scenario: Option<&str>, cores: Option<u64>) -> Result<()> {
    let all = simulation::exhaust_all(scenario, usize::try_from(threads(cores)).unwrap_or(1))?;
    print!("{}", simulation::show::exhausted(&all));
    let violations: usize = all.iter().map(|one| one.violations.len()).sum();
    if violations > 0 {
        anyhow::bail!("{violations} single fault(s) violate an invariant");
    }
    Ok(())
}

#[expect(clippy::print_stdout, reason = "the outcome is the answer")]
fn simulate(from: u64, seeds: u64, scenario: Option<&str>, cores: Option<u64>, output: Output) -> Result<()> {
    let sum = simulation::simulate(from, seeds, scenario, threads(cores))?;
    match output {
        Output::Text => print!("{}", simulation::show::summary(&sum)),
        Output::Json => println!("{:#}", sum.to_value()),
    }
    if !sum.violations.is_empty() {
        anyhow::bail!("{} seed(s) violate an invariant", sum.violations.len());
    }
    Ok(())
}

#[expect(clippy::print_stdout, reason = "the outcome is the answer")]
fn mutants(seeds: u64, trace: bool, output: TableOutput) -> Result<()> {
    let cores = std::thread::available_parallelism().map_or(1, std::num::NonZero::get);
    let all = simulation::hunt(seeds, trace, cores)?;
    match output {
        TableOutput::Text => print!("{}", simulation::show::mutants(&all)),
        TableOutput::Markdown => print!("{}", simulation::page(&all)),
        TableOutput::Json => {
            let list: Vec<serde_json::Value> = all.iter().map(simulation::Caught::to_value).collect();
            println!("{:#}", serde_json::Value::from(list));
        }
    }
    let survivors: Vec<&str> = all
        .iter()
        .filter(|one| one.caught_by.is_none())
        .map(|one| one.about.id)
        .collect();
    if !survivors.is_empty() {
        anyhow::bail!("not caught: {}", survivors.join(", "));
    }
    Ok(())
}

fn measure(plan: &bench::Plan) -> Result<()> {
    // One thread, because the client has one core.
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .context("starting the runtime")?;
    runtime.block_on(bench::run(plan))
}

fn control_plane(options: Options) -> Result<()> {
    until_signal(hold(options))
}

/// Runs until it ends, or until Ctrl-C or SIGTERM: then it is dropped, and what it started ends with it.
fn until_signal(running: impl Future<Output = Result<()>>) -> Result<()> {
    let runtime = tokio::runtime::Runtime::new().context("starting the runtime")?;
    let outcome = runtime.block_on(async {
        let (mut interrupt, mut terminate) = (signal(SignalKind::interrupt())?, signal(SignalKind::terminate())?);
        tokio::select! {
            outcome = running => outcome,
            _ = interrupt.recv() => Ok(()),
            _ = terminate.recv() => Ok(()),
        }
    });
    // A build with Go that was interrupted ends with this process; waiting for it would undo the interruption.
    runtime.shutdown_background();
    outcome
}

/// The tour in a cluster of our own.
async fn at_home(capstan: Option<PathBuf>) -> Result<()> {
    let capstan = capstan.map_or_else(tour::capstan_beside, Ok)?;
    let mut screen = Screen::stdout();
    let home = Home::start(&capstan, &mut screen).await?;
    tour::play(home.cluster(), &mut screen).await?;
    home.follow(&mut screen).await?;
    if std::io::stdout().is_terminal() {
        home.say_next(&mut screen)?;
        std::future::pending::<()>().await;
    }
    Ok(())
}

/// The tour in a cluster of the user's. Whatever ends it, what was created is removed.
fn as_guest(context: &str, address: Option<&str>, capstan: Option<PathBuf>) -> Result<()> {
    let capstan = capstan.map_or_else(tour::capstan_beside, Ok)?;
    let runtime = tokio::runtime::Runtime::new().context("starting the runtime")?;
    runtime.block_on(async {
        let (mut interrupt, mut terminate) = (signal(SignalKind::interrupt())?, signal(SignalKind::terminate())?);
        let mut screen = Screen::stdout();
        let mut guest = Guest::new(Cluster::of_context("kubectl".into(), context, None))?;
        let stay = async {
            guest.settle(&capstan, address, &mut screen).await?;
            tour::play(guest.cluster(), &mut screen).await?;
            if std::io::stdout().is_terminal() {
                screen.blank();
                screen.plain(&format!(
                    "It stays until Ctrl-C, which removes it: kubectl --context {context} -n openshift-machine-api edit cpms \
                     cluster"
                ));
                std::future::pending::<()>().await;
            }
            Ok(())
        };
        let outcome = tokio::select! {
            outcome = stay => outcome,
            _ = interrupt.recv() => Ok(()),
            _ = terminate.recv() => Ok(()),
        };
        // A second signal ends the program at once, with what is left in the cluster.
        let left = tokio::select! {
            left = guest.leave(&mut screen) => left,
            _ = interrupt.recv() => Err(anyhow::anyhow!("interrupted while removing: look for what is left in {context}")),
            _ = terminate.recv() => Err(anyhow::anyhow!("terminated while removing: look for what is left in {context}")),
        };
        outcome.and(left)
    })
}

#[expect(
    clippy::print_stdout,
    reason = "the lines are the answer, and can be given to `eval`"
)]
async fn hold(options: Options) -> Result<()> {
    let plane = ControlPlane::start(options).await?;
    println!("export KUBECONFIG={}", plane.kubeconfig()?.display());
    println!(
        "export PATH={}:$PATH",
        plane
            .binaries()
            .kubectl
            .parent()
            .context("kubectl without a folder")?
            .display()
    );
    println!("# {} is ready; Ctrl-C ends it", plane.url());
    std::future::pending().await
}
