//! The text output of the commands of the simulation.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use anyhow::Result;

use super::engine::exhaustive::Exhausted;
use super::engine::guided::Guidance;
use super::engine::options::WriteFault;
use super::engine::run::{Finding, Summary};
use super::invariants::{EXEMPTIONS, invariants};
use super::machine_api::state::ClusterSchedule;
use super::mutants::Caught;
use super::regressions::Regression;
use super::scenarios::scenarios;

/// A violation, with its trace and the command that repeats it.
fn found(found: &Finding, repeat: &str) -> String {
    let mut text = format!(
        "seed {} ({}) violates {}\n  {}\n",
        found.seed, found.scenario, found.violation.invariant, found.violation.text
    );
    for line in &found.trace {
        let _written = writeln!(text, "  | {line}");
    }
    let _written = writeln!(text, "  repeat: {repeat} (at {})", commit());
    text
}

/// The command that repeats the run of a seed. A named scenario draws other numbers than the same
/// scenario that a seed chooses.
fn repeat(found: &Finding, scenario: Option<&str>) -> String {
    let seed = found.seed;
    let named = scenario.map(|name| format!(" --scenario {name}")).unwrap_or_default();
    if scenarios().any(|name| name == found.scenario) {
        format!("capstan-sandbox simulate{named} --from {seed} --seeds 1 --trace")
    } else {
        format!("Simulation::run({seed}..{})", seed + 1)
    }
}

/// The results of exhaustive runs.
pub fn exhausted(all: &[Exhausted]) -> String {
    let mut text = String::new();
    for one in all {
        for violation in one.violations.iter().take(3) {
            let repeat = format!("capstan-sandbox simulate --exhaustive --scenario {}", one.scenario);
            text.push_str(&found(violation, &repeat));
        }
        let _written = writeln!(
            text,
            "{:12} {:4} writes x {} faults: {:5} schedules, {} violation(s)",
            one.scenario,
            one.writes,
            WriteFault::ALL.len(),
            one.schedules,
            one.violations.len()
        );
    }
    text
}

/// The commit of the source tree of this build, or the version if there is no repository.
fn commit() -> String {
    let output = std::process::Command::new("git")
        .args(["-C", env!("CARGO_MANIFEST_DIR"), "describe", "--always", "--dirty"])
        .output();
    let output = output.ok().filter(|output| output.status.success());
    let text = output.and_then(|output| String::from_utf8(output.stdout).ok());
    text.map_or_else(
        || format!("version {}", env!("CARGO_PKG_VERSION")),
        |text| format!("commit {}", text.trim()),
    )
}

/// The sum of the runs of many seeds, of one scenario or of those that the seeds choose.
#[expect(clippy::cast_precision_loss, reason = "the output shows rough numbers")]
pub fn summary(sum: &Summary, scenario: Option<&str>) -> String {
    let mut text = String::new();
    for violation in sum.violations.iter().take(5) {
        text.push_str(&found(violation, &repeat(violation, scenario)));
    }
    let seconds = sum.seconds.max(0.001);
    let per_second = |count: u64| count as f64 / seconds;
    let _written = write!(
        text,
        "{} schedules, {} violation(s), {} steps, {} complete rollouts, {:.1} control plane years in {:.1} seconds of one core\n\
         each second on one core: {:.0} schedules, {:.0} complete rollouts, {:.2} control plane years\n",
        sum.schedules,
        sum.violations.len(),
        sum.steps,
        sum.rollouts,
        sum.years(),
        sum.seconds,
        per_second(sum.schedules),
        per_second(sum.rollouts),
        sum.years() / seconds,
    );
    // Only the worlds of ControlPlaneMachineSets count them. In the others, a seeded bug for each
    // invariant shows that it can fail.
    if sum.tested.is_empty() && sum.exemptions.is_empty() {
        return text;
    }
    let count = |counts: &BTreeMap<&'static str, u64>, id: &str| {
        let count = counts.get(id).copied().unwrap_or_default();
        format!("{id} {count}")
    };
    let tested: Vec<String> = invariants().map(|invariant| count(&sum.tested, invariant.id)).collect();
    let exemptions = EXEMPTIONS.iter().map(|exemption| count(&sum.exemptions, exemption.id));
    let exemptions: Vec<String> = exemptions.collect();
    let _written = write!(
        text,
        "schedules with the condition of an invariant: {}\nschedules with an exemption: {}\n",
        tested.join(", "),
        exemptions.join(", ")
    );
    text
}

/// The sum of the runs of a declared simulation.
#[expect(clippy::cast_precision_loss, reason = "the output shows rough numbers")]
pub fn declared(sum: &Summary) -> String {
    let mut text = String::new();
    for found in &sum.violations {
        let _written = writeln!(
            text,
            "seed {} of {} violates {}",
            found.seed, found.scenario, found.violation
        );
        for line in &found.trace {
            let _written = writeln!(text, "  {line}");
        }
    }
    let seconds = sum.seconds.max(0.001);
    let _written = writeln!(
        text,
        "{} schedules, {} violation(s), {} steps, {} faults in {seconds:.1} seconds of one core ({:.1} schedules each)",
        sum.schedules,
        sum.violations.len(),
        sum.steps,
        sum.faults,
        sum.schedules as f64 / seconds,
    );
    text
}

/// The result of a search for new schedules. A violation is shown as the regression that repeats
/// it.
///
/// # Errors
/// When a schedule cannot be run.
pub fn guidance(found: &Guidance<ClusterSchedule>) -> Result<String> {
    let mut text = String::new();
    for (schedule, violation) in &found.violations {
        let _written = writeln!(text, "{} violates {violation}", schedule.scenario);
        match Regression::of(violation, schedule)? {
            Some(regression) => text.push_str(&regression.text()?),
            None => text.push_str("the violation needs the draws of the whole schedule\n"),
        }
    }
    let _written = writeln!(
        text,
        "{} schedules, {} violation(s); {} keys, {} of them by the first schedules; {} changed schedules kept",
        found.runs,
        found.violations.len(),
        found.keys.len(),
        found.first.len(),
        found.kept
    );
    Ok(text)
}

/// The results of the hunt for known bugs.
pub fn mutants(all: &[Caught]) -> String {
    let mut text = String::new();
    for caught in all {
        let end = match caught.caught_by {
            Some(invariant) => format!("{invariant} after {} seed(s)", caught.seeds),
            None => "NOT FOUND".to_owned(),
        };
        let _written = writeln!(text, "{:24} {:24} {}", caught.about.id, end, caught.about.report);
        if caught.caught_by.is_none() {
            for accident in caught.accidents.iter().take(3) {
                let _written = writeln!(text, "  does not count: {accident}");
            }
        }
        for line in &caught.trace {
            let _written = writeln!(text, "  | {line}");
        }
    }
    text
}
