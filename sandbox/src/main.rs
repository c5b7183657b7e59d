//! `capstan-sandbox`: the command line of the tour, the test control plane, the simulation and the
//! benchmark.

mod kubeadm;

use std::io::IsTerminal as _;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::{Mutex, PoisonError};

use anyhow::{Context, Result};
use capstan_sandbox::bench;
use capstan_sandbox::control_plane::{Binaries, ControlPlane, Options};
use capstan_sandbox::installation::Cluster;
use capstan_sandbox::simulation::machine_pool::command;
use capstan_sandbox::simulation::{both_apis, control_planes, generated};
use capstan_sandbox::tour::{self, Guest, Home, Neighbourhood, Screen};
use capstan_sandbox::{neighbours, release, simulation};
use clap::{Parser, Subcommand};
use tokio::signal::unix::{SignalKind, signal};

/// The allocator of the `capstan` binary. It counts allocations for the benchmark.
#[global_allocator]
static ALLOCATOR: bench::Counting<mimalloc::MiMalloc> = bench::Counting(mimalloc::MiMalloc);

/// Runs a real Kubernetes control plane on loopback, the simulation and the benchmark
#[derive(Parser)]
#[command(name = "capstan-sandbox", version)]
struct Arguments {
    #[command(subcommand)]
    command: Command,
}

/// A tour of `run`.
#[derive(Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
enum Tour {
    /// The control plane machines of the Machine API
    Machines,
    /// A KubeadmControlPlane beside the controllers of Cluster API, which Go builds
    Kubeadm,
}

/// The format of a result.
#[derive(Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
enum Output {
    /// Text for reading
    Text,
    /// JSON for programs
    Json,
}

/// The format of a result that can also be a page of the documentation.
#[derive(Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
enum TableOutput {
    /// Text for reading
    Text,
    /// JSON for programs
    Json,
    /// Markdown for docs/mutants.md
    Markdown,
}

/// The arguments of the simulation of the controller of ControlPlanes.
#[derive(clap::Args)]
struct ControlPlanes {
    /// The first seed
    #[arg(long, default_value_t = 0)]
    from: u64,
    /// The number of seeds
    #[arg(long, default_value_t = 1000)]
    seeds: u64,
    /// Run only this scenario
    #[arg(long, value_name = "NAME")]
    scenario: Option<String>,
    /// Print each step of the first seed
    #[arg(long)]
    trace: bool,
    /// Instead of seeds, inject each single fault at each write of the scenario
    #[arg(long, conflicts_with = "trace", requires = "scenario")]
    exhaustive: bool,
    /// Instead of seeds, insert known bugs, and check that the invariants find them
    #[arg(long, conflicts_with_all = ["trace", "exhaustive"])]
    mutants: bool,
    /// The number of threads; by default one for each core
    #[arg(long)]
    cores: Option<u64>,
}

/// The arguments of the simulation of the controllers of objects in both APIs.
#[derive(clap::Args)]
struct BothApis {
    /// The first seed
    #[arg(long, default_value_t = 0)]
    from: u64,
    /// The number of seeds
    #[arg(long, default_value_t = 1000)]
    seeds: u64,
    /// Print each step of the first seed
    #[arg(long)]
    trace: bool,
    /// Instead of seeds, inject each single fault at each write of a fixed schedule
    #[arg(long, conflicts_with = "trace")]
    exhaustive: bool,
    /// Instead of seeds, insert known bugs, and check that the invariants find them
    #[arg(long, conflicts_with_all = ["trace", "exhaustive"])]
    mutants: bool,
    /// The number of threads; by default one for each core
    #[arg(long)]
    cores: Option<u64>,
}

#[derive(Subcommand)]
enum Command {
    /// Start a cluster with Capstan and show edits that it refuses, warns about and accepts
    ///
    /// On a terminal, the cluster runs until Ctrl-C. Otherwise it stops at the end of the tour.
    Run {
        /// Use the cluster of this kubeconfig context instead; the tour deletes the objects that it
        /// creates there
        #[arg(long, value_name = "NAME")]
        context: Option<String>,
        /// Address at which the API server of that cluster reaches this machine
        #[arg(long, value_name = "ADDRESS", requires = "context")]
        address: Option<String>,
        /// What the tour shows
        #[arg(long, value_enum, default_value = "machines", conflicts_with = "context")]
        tour: Tour,
        /// The capstan binary; by default the one in the folder of this program
        #[arg(long, value_name = "FILE")]
        capstan: Option<PathBuf>,
    },
    /// Print the folder of etcd, kube-apiserver, kube-controller-manager and kubectl; build them if
    /// they are missing
    Kube,
    /// Build the components of other projects that the tests run, if they are missing
    Neighbours,
    /// Write the files of a release: manifests, chart, bundle, binary, components, provenance,
    /// checksums
    Release {
        /// The capstan binary
        #[arg(long, value_name = "FILE")]
        capstan: PathBuf,
        /// Another file of the release, such as an image; may be repeated
        #[arg(long, value_name = "FILE")]
        file: Vec<PathBuf>,
        /// The folder, which must be empty
        #[arg(long, value_name = "DIR")]
        out: PathBuf,
    },
    /// Start a control plane, print its kubeconfig, and stop it at Ctrl-C
    ControlPlane {
        /// Write an audit log to the folder of the control plane
        #[arg(long)]
        audit: bool,
    },
    /// Run the controllers in simulated control planes with faults; exits 1 if an invariant is
    /// violated
    Simulate {
        /// The first seed
        #[arg(long, default_value_t = 0)]
        from: u64,
        /// The number of seeds
        #[arg(long, default_value_t = 1000)]
        seeds: u64,
        /// Run only this scenario
        #[arg(long, value_name = "NAME", value_parser = scenario)]
        scenario: Option<String>,
        /// Print each step of the first seed
        #[arg(long)]
        trace: bool,
        /// Instead of seeds, inject each single fault at each write of each scenario
        #[arg(long, conflicts_with = "trace")]
        exhaustive: bool,
        /// Print a hash of the events of each seed, which is the same on every machine
        #[arg(long, conflicts_with_all = ["trace", "exhaustive"])]
        digest: bool,
        /// Print what each scenario reaches, as in docs/simulation-coverage.md; exits 1 if a branch
        /// of a decision is not reached
        #[arg(long, conflicts_with_all = ["trace", "exhaustive", "digest"])]
        coverage: bool,
        /// Run the schedule of a file, as in sandbox/regressions
        #[arg(long, value_name = "FILE", conflicts_with_all = ["exhaustive", "digest", "coverage"])]
        schedule: Option<PathBuf>,
        /// Instead of seeds, run so many schedules that coverage guides
        #[arg(long, value_name = "COUNT", conflicts_with_all = ["trace", "exhaustive", "digest", "coverage", "schedule"])]
        guided: Option<u64>,
        /// The number of threads; by default one for each core
        #[arg(long)]
        cores: Option<u64>,
        /// The format of the result
        #[arg(short, long, value_enum, default_value = "text")]
        output: Output,
    },
    /// The same for the controller of ControlPlanes, in clusters of its own
    SimulateControlPlanes(ControlPlanes),
    /// The same for the controller of MachinePools, beside a core manager and in its place
    SimulateMachinePools(command::Arguments),
    /// The same for the controllers of objects in both APIs
    SimulateBothApis(BothApis),
    /// The same for the controller of KubeadmControlPlanes, with a managed cluster
    SimulateKubeadm(kubeadm::Arguments),
    /// Measure the memory and the CPU of the controller of KubeadmControlPlanes, beside the
    /// controllers of Cluster API
    KubeadmFleet {
        /// The numbers of control planes, in ascending order
        #[arg(long, value_delimiter = ',', default_value = "10,20")]
        sizes: Vec<usize>,
        /// The number of machines of each
        #[arg(long, default_value_t = 1)]
        replicas: usize,
        /// How long a fleet rests while it is measured, in seconds
        #[arg(long, default_value_t = 60)]
        seconds: u64,
    },
    /// Insert known bugs into the controllers, and check that the simulation finds them; exits 1 if
    /// it misses one
    Mutants {
        /// The largest number of seeds for each bug
        #[arg(long, default_value_t = simulation::LIMIT)]
        seeds: u64,
        /// Print the trace that finds each bug
        #[arg(long)]
        trace: bool,
        /// The format of the result
        #[arg(short, long, value_enum, default_value = "text")]
        output: TableOutput,
    },
    /// Insert mutants of decisions into a copy of the sources, and check that the simulation finds
    /// them; exits 1 if a result differs from docs/mutants.md
    Decisions {
        /// The folder for the copy and its build
        #[arg(long, value_name = "DIR", default_value = "target/decisions")]
        folder: PathBuf,
    },
    /// Change each point of the decisions of core in a copy of the sources, and hunt each change in
    /// all scenarios; writes docs/generated-mutants.md, and exits 1 if nothing finds a change that
    /// has no reason
    GeneratedMutants {
        /// The folder for the copy
        #[arg(long, value_name = "DIR", default_value = "target/generated-mutants")]
        folder: PathBuf,
        /// The profile of the build: `fast` or `release`
        #[arg(long, default_value = "fast")]
        profile: String,
        /// The number of seeds of each scenario
        #[arg(long, default_value_t = 10)]
        rounds: u64,
        /// Hunt only so many changes, in the scenarios that the page names, and write nothing
        #[arg(long, value_name = "COUNT")]
        sample: Option<usize>,
        /// Hunt the changes that the page contains, too
        #[arg(long, conflicts_with = "sample")]
        again: bool,
        /// The number of processes; by default one for each core
        #[arg(long)]
        cores: Option<u64>,
    },
    /// Run seeds until one violates an invariant, and print it as JSON
    #[command(hide = true)]
    FirstViolation {
        /// The first seed
        #[arg(long, default_value_t = 0)]
        from: u64,
        /// The number of seeds
        #[arg(long, default_value_t = 10)]
        seeds: u64,
        /// The scenario, or `all` for all in turn
        #[arg(long, value_name = "NAME")]
        scenario: String,
    },
    /// Measure the server against one that allows everything; both binaries must be release builds
    Bench {
        /// The capstan binary; by default the one in the folder of this program
        #[arg(long, value_name = "FILE")]
        capstan: Option<PathBuf>,
        /// Another build of the server: compare with it instead of the server that allows
        /// everything
        #[arg(long, value_name = "FILE")]
        against: Option<PathBuf>,
        /// The folder for summary.json
        #[arg(long, value_name = "DIR", default_value = "target/bench")]
        folder: PathBuf,
        /// Run only this part; can be repeated
        #[arg(long, value_enum)]
        only: Vec<bench::Part>,
        /// Let servers and clients share all cores; the p99 then mainly measures the scheduler
        #[arg(long)]
        shared: bool,
    },
    /// Repeat one decision for a profiler
    #[command(hide = true)]
    Decide {
        /// The number of repetitions
        times: u32,
        /// The decision
        #[arg(long, value_enum, default_value = "update")]
        what: bench::What,
    },
}

fn main() -> ExitCode {
    let outcome = match Arguments::parse().command {
        Command::Run {
            context: None,
            tour: Tour::Kubeadm,
            capstan,
            ..
        } => until_signal(tour_of_kubeadm(capstan)),
        Command::Run {
            context: None, capstan, ..
        } => until_signal(tour_in_sandbox(capstan)),
        Command::Run {
            context: Some(context),
            address,
            capstan,
            ..
        } => tour_in_context(&context, address.as_deref(), capstan),
        Command::Kube => kube(),
        Command::Neighbours => neighbours::build(),
        Command::Release { capstan, file, out } => release::assemble(&capstan, &file, &out),
        Command::ControlPlane { audit } => control_plane(Options {
            audit,
            ..Options::default()
        }),
        command @ Command::Simulate { .. } => simulate_command(command),
        Command::SimulateControlPlanes(arguments) => simulate_control_planes(&arguments),
        Command::SimulateMachinePools(arguments) => simulate_machine_pools(&arguments),
        Command::SimulateBothApis(arguments) => simulate_both_apis(&arguments),
        Command::SimulateKubeadm(arguments) => kubeadm::simulate(&arguments),
        Command::KubeadmFleet {
            sizes,
            replicas,
            seconds,
        } => kubeadm::fleet(&sizes, replicas, seconds),
        Command::Mutants { seeds, trace, output } => mutants(seeds, trace, output),
        Command::Decisions { folder } => decisions(&folder),
        Command::GeneratedMutants {
            folder,
            profile,
            rounds,
            sample,
            again,
            cores,
        } => generated_mutants(&generated::Options {
            folder,
            profile,
            rounds,
            processes: usize::try_from(threads(cores)).unwrap_or(1),
            sample,
            again,
        }),
        Command::FirstViolation { from, seeds, scenario } => first_violation(from, seeds, &scenario),
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
            print_error(&error);
            ExitCode::FAILURE
        }
    }
}

/// Runs seeds, a file, or a search, as the options of `simulate` say.
fn simulate_command(command: Command) -> Result<()> {
    match command {
        Command::Simulate {
            schedule: Some(file),
            trace,
            ..
        } => run_file(&file, trace),
        Command::Simulate {
            from,
            guided: Some(runs),
            cores,
            ..
        } => guided(runs, from, cores),
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
            coverage: true, cores, ..
        } => coverage(cores),
        Command::Simulate {
            from,
            seeds,
            scenario,
            cores,
            output,
            ..
        } => simulate(from, seeds, scenario.as_deref(), cores, output),
        _ => Ok(()),
    }
}

#[expect(clippy::print_stderr, reason = "the program reports its failure on standard error")]
fn print_error(error: &anyhow::Error) {
    eprintln!("capstan-sandbox: {error:#}");
}

#[expect(clippy::print_stdout, reason = "the folder is the result of the command")]
fn kube() -> Result<()> {
    println!("{}", Binaries::locate()?.folder().display());
    Ok(())
}

fn scenario(name: &str) -> Result<String, String> {
    let known: Vec<&str> = simulation::scenarios().collect();
    if known.contains(&name) {
        return Ok(name.to_owned());
    }
    Err(format!("must be one of {}", known.join(", ")))
}

fn threads(cores: Option<u64>) -> u64 {
    cores.unwrap_or_else(|| std::thread::available_parallelism().map_or(1, |cores| cores.get() as u64))
}

fn show_trace(seed: u64, scenario: Option<&str>) -> Result<()> {
    print_trace(seed, simulation::trace(seed, scenario)?)
}

fn simulate_control_planes(arguments: &ControlPlanes) -> Result<()> {
    let (from, scenario) = (arguments.from, arguments.scenario.as_deref());
    if arguments.mutants {
        show_hunted(&control_planes::hunt(arguments.seeds)?)
    } else if arguments.exhaustive {
        exhaust_control_planes(scenario.unwrap_or_default(), from)
    } else if arguments.trace {
        print_trace(from, control_planes::trace(from, scenario)?)
    } else {
        let sum = control_planes::simulate(from, arguments.seeds, scenario, threads(arguments.cores))?;
        print_summary(&sum, scenario, Output::Text)
    }
}

fn simulate_both_apis(arguments: &BothApis) -> Result<()> {
    let threads = threads(arguments.cores);
    if arguments.mutants {
        both_apis_mutants(arguments.seeds, threads)
    } else if arguments.exhaustive {
        exhausted(&both_apis::exhaust(threads)?)
    } else if arguments.trace {
        print_trace(arguments.from, both_apis::trace(arguments.from)?)
    } else {
        let sum = both_apis::simulate(arguments.from, arguments.seeds, threads)?;
        print_summary(&sum, None, Output::Text)
    }
}

#[expect(clippy::print_stdout, reason = "the result of the command")]
fn simulate_machine_pools(arguments: &command::Arguments) -> Result<()> {
    command::run(arguments, threads(arguments.cores), &|text| print!("{text}"))
}

#[expect(clippy::print_stdout, reason = "the result of the command")]
fn both_apis_mutants(seeds: u64, threads: u64) -> Result<()> {
    let all = both_apis::hunt_all(seeds, threads)?;
    for (mutant, found) in &all {
        match found {
            Some((invariant, seeds)) => println!("{mutant:?}: {invariant} after {seeds} seed(s)"),
            None => println!("{mutant:?}: NOT FOUND"),
        }
    }
    let known = both_apis::Mutant::SURVIVORS;
    let survivors = all
        .iter()
        .filter(|(mutant, found)| found.is_none() && !known.contains(mutant));
    let survivors = survivors.count();
    anyhow::ensure!(survivors == 0, "{survivors} bug(s) are not found");
    Ok(())
}

fn exhaust_control_planes(scenario: &str, seed: u64) -> Result<()> {
    exhausted(&[control_planes::exhaust(scenario, seed)?])
}

#[expect(clippy::print_stdout, reason = "the result of the command")]
fn exhausted(all: &[simulation::Exhausted]) -> Result<()> {
    print!("{}", simulation::show::exhausted(all));
    let violations: usize = all.iter().map(|one| one.violations.len()).sum();
    anyhow::ensure!(violations == 0, "{violations} single fault(s) violate an invariant");
    Ok(())
}

#[expect(clippy::print_stdout, reason = "the result of the command")]
fn show_hunted(all: &[simulation::hunted::Hunted]) -> Result<()> {
    print!("{}", simulation::hunted::show(all));
    simulation::hunted::none_survives(all)
}

#[expect(clippy::print_stdout, reason = "the trace is the result of the command")]
fn print_trace(seed: u64, outcome: simulation::Outcome) -> Result<()> {
    outcome.trace.iter().for_each(|line| println!("{line}"));
    if let Some(violation) = outcome.violation {
        anyhow::bail!("seed {seed} violates {violation}");
    }
    Ok(())
}

/// Runs the schedule of a file.
#[expect(clippy::print_stdout, reason = "the trace is the result of the command")]
fn run_file(path: &Path, trace: bool) -> Result<()> {
    let lines = simulation::Regression::read(path)?.check()?;
    lines.iter().filter(|_| trace).for_each(|line| println!("{line}"));
    Ok(())
}

#[expect(clippy::print_stdout, reason = "the result of the command")]
fn guided(runs: u64, seed: u64, cores: Option<u64>) -> Result<()> {
    let found = simulation::guided(runs, seed, threads(cores))?;
    print!("{}", simulation::show::guidance(&found)?);
    anyhow::ensure!(
        found.violations.is_empty(),
        "{} schedule(s) violate an invariant",
        found.violations.len()
    );
    Ok(())
}

#[expect(clippy::print_stdout, reason = "the digests are the result of the command")]
fn digest(from: u64, seeds: u64, scenario: Option<&str>) -> Result<()> {
    for seed in from..from.saturating_add(seeds) {
        println!("{}", simulation::digest(seed, scenario)?);
    }
    Ok(())
}

fn exhaust(scenario: Option<&str>, cores: Option<u64>) -> Result<()> {
    exhausted(&simulation::exhaust_all(
        scenario,
        usize::try_from(threads(cores)).unwrap_or(1),
    )?)
}

fn simulate(from: u64, seeds: u64, scenario: Option<&str>, cores: Option<u64>, output: Output) -> Result<()> {
    let sum = simulation::simulate(from, seeds, scenario, threads(cores))?;
    print_summary(&sum, scenario, output)
}

#[expect(clippy::print_stdout, reason = "the result of the command")]
fn print_summary(sum: &simulation::Summary, scenario: Option<&str>, output: Output) -> Result<()> {
    match output {
        Output::Text => print!("{}", simulation::show::summary(sum, scenario)),
        Output::Json => println!("{:#}", sum.to_value()),
    }
    if !sum.violations.is_empty() {
        anyhow::bail!("{} seed(s) violate an invariant", sum.violations.len());
    }
    Ok(())
}

#[expect(clippy::print_stdout, reason = "the result of the command")]
fn coverage(cores: Option<u64>) -> Result<()> {
    let matrix = simulation::coverage::matrix(simulation::coverage::SEEDS, threads(cores))?;
    print!("{}", matrix.page());
    let wrong = matrix.wrong();
    anyhow::ensure!(
        wrong.is_empty(),
        "not reached, or reached and listed as unreached in sandbox/src/simulation/coverage/branches.rs: {}",
        wrong.join(", ")
    );
    Ok(())
}

#[expect(clippy::print_stdout, reason = "the result of the command")]
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

#[expect(clippy::print_stdout, reason = "the result of the command")]
fn decisions(folder: &Path) -> Result<()> {
    let repository = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
    let lines = simulation::decisions::hunt(&repository, folder)?;
    lines.iter().for_each(|(line, _)| println!("{line}"));
    let differs = lines.iter().filter(|(_, agrees)| !agrees).count();
    anyhow::ensure!(differs == 0, "{differs} result(s) differ from docs/mutants.md");
    Ok(())
}

/// Hunts generated mutants, and writes the pages after each of them unless it hunts a sample.
#[expect(clippy::print_stdout, reason = "the result of the command")]
fn generated_mutants(options: &generated::Options) -> Result<()> {
    let repository = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
    let path = repository.join("docs/generated-mutants.md");
    let known = std::fs::read_to_string(&path).map_or_else(|_| Vec::new(), |page| generated::rows(&page));
    let all = generated::mutants(&repository)?;
    println!("{} mutants", all.len());
    let results = Mutex::new(Vec::new());
    let found = generated::hunt(&repository, &known, options, &|row| {
        println!("{}", row.line());
        let mut results = results.lock().unwrap_or_else(PoisonError::into_inner);
        results.push(row.clone());
        if options.sample.is_some() {
            return Ok(());
        }
        let rows = generated::merge(&all, &known, &results);
        std::fs::write(&path, generated::page(&rows)).context("writing docs/generated-mutants.md")?;
        let path = repository.join("docs/mutants.md");
        let text = std::fs::read_to_string(&path).context("reading docs/mutants.md")?;
        let section = generated::section(&rows);
        let title = section.lines().nth(1).unwrap_or_default();
        let before = text.split(title).next().unwrap_or_default().trim_end();
        std::fs::write(&path, format!("{before}\n{section}")).context("writing docs/mutants.md")
    })?;
    let wrong = if options.sample.is_some() {
        found.iter().filter(|result| !result.agrees).count()
    } else {
        found.iter().filter(|result| result.row.is_unexplained()).count()
    };
    println!("{} mutants hunted", found.len());
    anyhow::ensure!(wrong == 0, "{wrong} mutant(s) are not found");
    Ok(())
}

#[expect(clippy::print_stdout, reason = "the result of the command")]
fn first_violation(from: u64, seeds: u64, scenario: &str) -> Result<()> {
    let scenario = Some(scenario).filter(|name| *name != "all");
    let found = simulation::first_violation(from, seeds, scenario)?;
    let evaluated = simulation::evaluated();
    let line = match found {
        Some((scenario, seed, violation)) => serde_json::json!({"scenario": scenario, "seed": seed,
            "invariant": violation.invariant, "text": violation.text, "evaluated": evaluated}),
        None => serde_json::json!({"evaluated": evaluated}),
    };
    println!("{line}");
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
    until_signal(run_control_plane(options))
}

/// Runs a future until it completes, or drops it at Ctrl-C or SIGTERM. Dropping it stops what it
/// started.
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
    // A running Go build ends with this process. Waiting for it would ignore the interruption.
    runtime.shutdown_background();
    outcome
}

/// Runs the tour in a cluster of the sandbox.
async fn tour_in_sandbox(capstan: Option<PathBuf>) -> Result<()> {
    let capstan = capstan.map_or_else(tour::capstan_beside, Ok)?;
    let mut screen = Screen::stdout();
    let home = Home::start(&capstan, &mut screen).await?;
    tour::play(home.cluster(), &mut screen).await?;
    home.follow(&mut screen).await?;
    home.migrate(&mut screen).await?;
    if std::io::stdout().is_terminal() {
        home.show_next_steps(&mut screen)?;
        std::future::pending::<()>().await;
    }
    Ok(())
}

/// Runs the tour of a KubeadmControlPlane.
async fn tour_of_kubeadm(capstan: Option<PathBuf>) -> Result<()> {
    let capstan = capstan.map_or_else(tour::capstan_beside, Ok)?;
    let mut screen = Screen::stdout();
    let neighbourhood = Neighbourhood::start(&capstan, &mut screen).await?;
    neighbourhood.play(&mut screen).await?;
    if std::io::stdout().is_terminal() {
        neighbourhood.show_next_steps(&mut screen)?;
        std::future::pending::<()>().await;
    }
    Ok(())
}

/// Runs the tour in a cluster of the user. The created objects are deleted however the tour ends.
fn tour_in_context(context: &str, address: Option<&str>, capstan: Option<PathBuf>) -> Result<()> {
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
                guest.show_page(&mut screen);
                screen.plain(&format!(
                    "Capstan stays installed until Ctrl-C, which removes it. Try: kubectl --context {context} -n \
                     openshift-machine-api edit cpms cluster"
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
// A second signal ends the program at once. Created objects may then be left in the cluster.
        let left = tokio::select! {
            left = guest.leave(&mut screen) => left,
            _ = interrupt.recv() => Err(anyhow::anyhow!("interrupted while deleting the created objects: check which ones are left in {context}")),
            _ = terminate.recv() => Err(anyhow::anyhow!("terminated while deleting the created objects: check which ones are left in {context}")),
        };
        outcome.and(left)
    })
}

#[expect(clippy::print_stdout, reason = "the lines are the result of the command, for `eval`")]
async fn run_control_plane(options: Options) -> Result<()> {
    let plane = ControlPlane::start(options).await?;
    println!("export KUBECONFIG={}", plane.kubeconfig()?.display());
    println!(
        "export PATH={}:$PATH",
        plane
            .binaries()
            .kubectl
            .parent()
            .context("the path of kubectl must have a folder")?
            .display()
    );
    println!("# {} is ready; Ctrl-C stops it", plane.url());
    std::future::pending().await
}
