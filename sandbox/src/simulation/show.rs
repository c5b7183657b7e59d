//! What people read of it.

use std::fmt::Write as _;

use super::engine::exhaustive::Exhausted;
use super::engine::options::WriteFault;
use super::engine::run::{Finding, Summary};
use super::mutants::Caught;
use super::scenarios::scenarios;

/// A violation, with its story.
pub fn found(found: &Finding) -> String {
    let mut text = format!(
        "seed {} ({}) violates {}\n  {}\n",
        found.seed, found.scenario, found.violation.invariant, found.violation.text
    );
    for line in &found.trace {
        let _written = writeln!(text, "  | {line}");
    }
    let (seed, commit) = (found.seed, commit());
    let again = if scenarios().any(|name| name == found.scenario) {
        format!("capstan-sandbox simulate --from {seed} --seeds 1 --trace")
    } else {
        format!("Simulation::run({seed}..{})", seed + 1)
    };
    let _written = writeln!(text, "  again: {again} (at {commit})");
    text
}

/// What single faults came to.
pub fn exhausted(all: &[Exhausted]) -> String {
    let mut text = String::new();
    for one in all {
        for violation in one.violations.iter().take(3) {
            text.push_str(&found(violation));
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

/// The commit that is checked out where this was built, as far as anybody can tell.
fn commit() -> String {
    let asked = std::process::Command::new("git")
        .args(["-C", env!("CARGO_MANIFEST_DIR"), "describe", "--always", "--dirty"])
        .output();
    let said = asked.ok().filter(|said| said.status.success());
    let said = said.and_then(|said| String::from_utf8(said.stdout).ok());
    said.map_or_else(
        || format!("version {}", env!("CARGO_PKG_VERSION")),
        |said| format!("commit {}", said.trim()),
    )
}

/// What many seeds came to.
#[expect(clippy::cast_precision_loss, reason = "rough numbers for people")]
pub fn summary(sum: &Summary) -> String {
    let mut text = String::new();
    for violation in sum.violations.iter().take(5) {
        text.push_str(&found(violation));
    }
    let seconds = sum.seconds.max(0.001);
    let per_second = |count: u64| count as f64 / seconds;
    let _written = write!(
        text,
        "{} schedules, {} violation(s), {} steps, {} whole rollouts, {:.1} control plane years in {:.1} seconds of one core\n\
         each second on one core: {:.0} schedules, {:.0} whole rollouts, {:.2} control plane years\n",
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
    text
}

/// Which bugs were caught.
pub fn mutants(all: &[Caught]) -> String {
    let mut text = String::new();
    for caught in all {
        let end = match caught.caught_by {
            Some(invariant) => format!("{invariant} after {} seed(s)", caught.seeds),
            None => "SURVIVES".to_owned(),
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
