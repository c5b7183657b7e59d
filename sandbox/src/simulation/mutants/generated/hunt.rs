//! The hunt for generated mutants: each runs in processes of its own, first in the schedule that
//! found it before, then in the first schedules of all scenarios.

use std::io::Read as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, ensure};
use serde_json::Value;

use super::super::sources;
use super::Mutant;
use super::page::{End, Row};

/// The environment variable that selects a mutant.
const SELECTED: &str = "CAPSTAN_POINT";
/// A mutant that runs for longer does not end.
const LONGEST: Duration = Duration::from_secs(600);

/// How mutants are hunted.
#[derive(Clone, Debug)]
pub struct Options {
    /// The folder for the copy.
    pub folder: PathBuf,
    /// The profile of the build: `fast` or `release`.
    pub profile: String,
    /// The number of seeds of each scenario that a mutant must survive.
    pub rounds: u64,
    /// The number of processes at once.
    pub processes: usize,
    /// Hunt only so many of the mutants that the page lists as found by the simulation, and only in
    /// their scenarios.
    pub sample: Option<usize>,
    /// Hunt mutants that the page lists again, and not only new ones.
    pub again: bool,
}

/// The result for one mutant.
#[derive(Clone, Debug)]
pub struct MutantResult {
    /// The row of the page.
    pub row: Row,
    /// Whether the result agrees with the row that the page has.
    pub agrees: bool,
}

/// Builds the mutants of a repository and hunts them. `known` is what the page lists. `report`
/// gets each result when it is known, because a hunt takes hours and may be interrupted.
///
/// # Errors
/// When the mutants cannot be built or run, or `report` fails.
pub fn hunt(
    repository: &Path,
    known: &[Row],
    options: &Options,
    report: &(dyn Fn(&Row) -> Result<()> + Sync),
) -> Result<Vec<MutantResult>> {
    let all = super::write_sources(repository, &options.folder)?;
    let programs = Programs {
        simulator: sources::build(&options.folder, &options.profile)?,
        tests: if options.sample.is_some() {
            None
        } else {
            Some(build_tests(&options.folder)?)
        },
    };
    let tasks: Vec<(usize, &Mutant, Option<&Row>)> = all
        .iter()
        .enumerate()
        .map(|(number, mutant)| (number, mutant, known.iter().find(|row| row.is_of(mutant))))
        .filter(|(_, _, row)| options.sample.is_none() || row.is_some_and(|row| matches!(row.end, End::Found { .. })))
        .collect();
    let tasks = sample(tasks, options.sample);
    let (next, found) = (AtomicUsize::new(0), Mutex::new(Vec::new()));
    let work = || -> Result<()> {
        while let Some((number, mutant, row)) = tasks.get(next.fetch_add(1, Ordering::Relaxed)) {
            let result = one(&programs, *number, mutant, *row, options)?;
            report(&result.row)?;
            found
                .lock()
                .unwrap_or_else(PoisonError::into_inner)
                .push((*number, result));
        }
        Ok(())
    };
    std::thread::scope(|scope| {
        let workers: Vec<_> = (0..options.processes.max(1)).map(|_| scope.spawn(work)).collect();
        workers
            .into_iter()
            .try_for_each(|worker| worker.join().ok().context("a thread of the hunt panicked").flatten())
    })?;
    let mut found = found.into_inner().unwrap_or_else(PoisonError::into_inner);
    found.sort_by_key(|(number, _)| *number);
    Ok(found.into_iter().map(|(_, result)| result).collect())
}

/// So many tasks, evenly from the whole list.
fn sample<T>(tasks: Vec<T>, count: Option<usize>) -> Vec<T> {
    let Some(count) = count.filter(|count| *count < tasks.len()) else {
        return tasks;
    };
    let length = tasks.len();
    let chosen = |position: usize| position * count / length != (position + 1) * count / length;
    let tasks = tasks.into_iter().enumerate();
    tasks
        .filter(|(position, _)| chosen(*position))
        .map(|(_, task)| task)
        .collect()
}

struct Programs {
    simulator: PathBuf,
    tests: Option<PathBuf>,
}

fn one(
    programs: &Programs,
    number: usize,
    mutant: &Mutant,
    row: Option<&Row>,
    options: &Options,
) -> Result<MutantResult> {
    let before = row.map(|row| &row.end);
    if let Some(end) = before.filter(|end| !options.again && !matches!(end, End::Survives(_)))
        && options.sample.is_none()
    {
        let row = Row::new(mutant, end.clone());
        return Ok(MutantResult { row, agrees: true });
    }
    let mut end = None;
    if let Some(End::Found { scenario, seed, .. }) = before {
        end = simulate(&programs.simulator, number, scenario, *seed, 1)?.end();
        if end.is_none() && options.sample.is_some() {
            // The schedules of the seeds have changed since the page was made.
            end = simulate(&programs.simulator, number, scenario, 0, options.rounds)?.end();
        }
    }
    if options.sample.is_some() {
        let agrees = end.is_some();
        let end = end.unwrap_or_else(|| End::Survives(String::new()));
        return Ok(MutantResult {
            row: Row::new(mutant, end),
            agrees,
        });
    }
    let end = match end {
        Some(end) => end,
        None => everywhere(programs, number, mutant, options.rounds)?,
    };
    let agrees = before.is_some_and(|before| before.kind() == end.kind());
    Ok(MutantResult {
        row: Row::new(mutant, end),
        agrees,
    })
}

/// Hunts a mutant in all scenarios, and then with the tests of core.
fn everywhere(programs: &Programs, number: usize, mutant: &Mutant, rounds: u64) -> Result<End> {
    let run = simulate(&programs.simulator, number, "all", 0, rounds)?;
    if let Some(end) = run.end() {
        return Ok(end);
    }
    if let Some(tests) = &programs.tests
        && let Some(test) = failing_test(tests, number)?
    {
        return Ok(End::Tested(test));
    }
    let reason = super::reason_of(mutant).map(str::to_owned);
    Ok(match reason {
        Some(reason) => End::Survives(reason),
        None if run.evaluated == 0 => End::Unreached,
        None => End::Survives(String::new()),
    })
}

/// What a process printed about a mutant.
#[derive(Debug, Default)]
struct Run {
    /// Scenario, seed, and invariant of the first violation.
    violation: Option<(String, u64, String)>,
    /// How often the mutated point was evaluated.
    evaluated: u64,
    /// How the process ended, if it printed nothing.
    failure: Option<&'static str>,
}

impl Run {
    fn end(&self) -> Option<End> {
        if let Some(failure) = self.failure {
            return Some(End::Fails(failure.to_owned()));
        }
        let (scenario, seed, by) = self.violation.clone()?;
        Some(End::Found { scenario, seed, by })
    }
}

fn simulate(program: &Path, number: usize, scenario: &str, from: u64, seeds: u64) -> Result<Run> {
    let arguments = format!("first-violation --scenario {scenario} --from {from} --seeds {seeds}");
    let mut command = Command::new(program);
    command.args(arguments.split(' ')).env(SELECTED, number.to_string());
    let Some(output) = output(&mut command)? else {
        let failure = Some("the run does not end");
        return Ok(Run {
            failure,
            ..Run::default()
        });
    };
    let Ok(value) = serde_json::from_str::<Value>(&output.1) else {
        let failure = Some("the controller panics");
        return Ok(Run {
            failure,
            ..Run::default()
        });
    };
    let text = |field: &str| value.get(field).and_then(Value::as_str).map(str::to_owned);
    let seed = value.get("seed").and_then(Value::as_u64);
    let violation = text("scenario").zip(seed).zip(text("invariant"));
    Ok(Run {
        violation: violation.map(|((scenario, seed), by)| (scenario, seed, by)),
        evaluated: value.get("evaluated").and_then(Value::as_u64).unwrap_or_default(),
        failure: None,
    })
}

/// The first test of core that a mutant fails.
fn failing_test(program: &Path, number: usize) -> Result<Option<String>> {
    let mut command = Command::new(program);
    command.args(["cpms::", "model::", "--test-threads", "1"]);
    command.env(SELECTED, number.to_string()).env("INSTA_UPDATE", "no");
    let Some((success, text)) = output(&mut command)? else {
        return Ok(Some("the tests do not end".to_owned()));
    };
    if success {
        return Ok(None);
    }
    let failed = text
        .lines()
        .filter_map(|line| line.strip_prefix("test ")?.strip_suffix(" ... FAILED"));
    Ok(failed
        .min_by_key(|name| name.contains("::simulation::"))
        .map(str::to_owned))
}

/// Whether a process succeeded, and what it printed; `None` if it runs for too long.
fn output(command: &mut Command) -> Result<Option<(bool, String)>> {
    let child = command
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn();
    let mut child = child.context("starting a mutant")?;
    let mut stdout = child.stdout.take().context("a mutant must have an output")?;
    let reader = std::thread::spawn(move || {
        let mut text = String::new();
        let _read = stdout.read_to_string(&mut text);
        text
    });
    let began = Instant::now();
    let status = loop {
        if let Some(status) = child.try_wait().context("waiting for a mutant")? {
            break status;
        }
        if began.elapsed() > LONGEST {
            child.kill().context("ending a mutant that runs for too long")?;
            child.wait().context("waiting for a mutant")?;
            return Ok(None);
        }
        std::thread::sleep(Duration::from_millis(10));
    };
    let text = reader.join().ok().context("reading the output of a mutant")?;
    Ok(Some((status.success(), text)))
}

/// Builds the tests of core in the copy.
fn build_tests(folder: &Path) -> Result<PathBuf> {
    let target = std::env::var_os("CARGO_TARGET_DIR").map_or_else(|| folder.join("target"), PathBuf::from);
    let arguments = "test --quiet --locked --package capstan-core --lib --no-run --message-format json";
    let output = sources::cargo(folder, &target)
        .args(arguments.split(' '))
        .stderr(Stdio::inherit())
        .output()
        .context("starting cargo")?;
    ensure!(
        output.status.success(),
        "the tests of core must compile with the mutants"
    );
    let text = String::from_utf8_lossy(&output.stdout);
    let messages = text.lines().filter_map(|line| serde_json::from_str::<Value>(line).ok());
    let mut programs = messages.filter_map(|message| {
        let is_core = message.pointer("/target/name")?.as_str()? == "capstan_core";
        let program = message.get("executable")?.as_str()?;
        is_core.then(|| PathBuf::from(program))
    });
    programs.next_back().context("cargo must name the program of the tests")
}
