//! The page `docs/generated-mutants.md`, and its rows.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use super::{FILES, Mutant};

/// How a mutant ends.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum End {
    /// An invariant finds it.
    Found {
        /// The scenario.
        scenario: String,
        /// The seed.
        seed: u64,
        /// The invariant.
        by: String,
    },
    /// The process of the simulation fails or does not end.
    Fails(String),
    /// A test of core finds it, and the simulation does not.
    Tested(String),
    /// The schedules never evaluate what it changes.
    Unreached,
    /// Nothing finds it, for this reason; empty without a reason.
    Survives(String),
}

impl End {
    /// The kind of the end.
    pub fn kind(&self) -> &'static str {
        match self {
            Self::Found { .. } | Self::Fails(_) => "simulation",
            Self::Tested(_) => "test",
            Self::Unreached => "unreached",
            Self::Survives(_) => "reason",
        }
    }

    /// The cell of the page.
    fn cell(&self) -> String {
        match self {
            Self::Found { scenario, seed, by } => format!("{by} in `{scenario}` {seed}"),
            Self::Fails(how) => format!("fails: {how}"),
            Self::Tested(test) => format!("test `{test}`"),
            Self::Unreached => "unreached".to_owned(),
            Self::Survives(reason) if reason.is_empty() => "NOT FOUND".to_owned(),
            Self::Survives(reason) => format!("reason: {reason}"),
        }
    }

    fn parse(cell: &str) -> Option<Self> {
        if cell == "NOT FOUND" {
            return Some(Self::Survives(String::new()));
        }
        if cell == "unreached" {
            return Some(Self::Unreached);
        }
        if let Some(reason) = cell.strip_prefix("reason: ") {
            return Some(Self::Survives(reason.to_owned()));
        }
        if let Some(how) = cell.strip_prefix("fails: ") {
            return Some(Self::Fails(how.to_owned()));
        }
        if let Some(test) = cell.strip_prefix("test `") {
            return Some(Self::Tested(test.strip_suffix('`')?.to_owned()));
        }
        let (by, rest) = cell.split_once(" in `")?;
        let (scenario, seed) = rest.split_once("` ")?;
        let (scenario, by) = (scenario.to_owned(), by.to_owned());
        let seed = seed.parse().ok()?;
        Some(Self::Found { scenario, seed, by })
    }
}

/// A row of the page.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Row {
    /// The file.
    pub file: String,
    /// The function.
    pub function: String,
    /// What the mutant changes.
    pub change: String,
    /// How it ends.
    pub end: End,
}

impl Row {
    /// The row of a mutant.
    pub fn new(mutant: &Mutant, end: End) -> Self {
        Self {
            file: mutant.file.to_owned(),
            function: mutant.point.function.clone(),
            change: mutant.point.change.clone(),
            end,
        }
    }

    /// Whether the row is that of a mutant.
    pub fn is_of(&self, mutant: &Mutant) -> bool {
        (&*self.file, &*self.function, &*self.change) == (mutant.file, &*mutant.point.function, &*mutant.point.change)
    }

    /// Whether nothing finds the mutant, without a reason.
    pub fn is_unexplained(&self) -> bool {
        self.end == End::Survives(String::new())
    }

    /// The row, as one line of text.
    pub fn line(&self) -> String {
        format!("{} {} {} => {}", self.file, self.function, self.change, self.end.cell())
    }
}

/// The rows of a page.
pub fn rows(page: &str) -> Vec<Row> {
    let (mut file, mut rows) = (String::new(), Vec::new());
    for line in page.lines() {
        if let Some(title) = line.strip_prefix("## `") {
            title.trim_end_matches('`').clone_into(&mut file);
        }
        let Some(cells) = line.strip_prefix("| `").and_then(|line| line.strip_suffix(" |")) else {
            continue;
        };
        let cells: Vec<&str> = cells.split(" | ").collect();
        if let [function, change, end] = cells[..]
            && let Some(end) = End::parse(&end.replace("\\|", "|"))
        {
            rows.push(Row {
                file: file.clone(),
                function: function.trim_end_matches('`').to_owned(),
                change: change.replace("\\|", "|"),
                end,
            });
        }
    }
    rows
}

/// The results, with the rows of the page for the mutants that were not hunted.
pub fn merge(mutants: &[Mutant], known: &[Row], found: &[Row]) -> Vec<Row> {
    let row = |mutant: &Mutant| {
        let mut all = found.iter().chain(known);
        all.find(|row| row.is_of(mutant)).cloned()
    };
    mutants.iter().filter_map(row).collect()
}

/// The number of rows by the kind of their end.
fn counts<'r>(rows: impl Iterator<Item = &'r Row>) -> BTreeMap<&'static str, usize> {
    let mut counts = BTreeMap::new();
    for row in rows {
        *counts.entry(row.end.kind()).or_default() += 1;
    }
    counts
}

/// A summary by file, for `docs/mutants.md`.
pub fn section(rows: &[Row]) -> String {
    let mut text = "\n## Generated mutants\n\n\
        `make mutants` changes every condition, comparison, term, arm, and effect in the decisions of core,\n\
        one at a time, and looks for each change in all scenarios. If the simulation does not find a\n\
        change, a test of core finds it, or the change has a reason.\n\
        [Generated mutants](generated-mutants.md) lists each change that was hunted.\n\n\
        | file | mutants | found by the simulation | found by a test of core | unreached | with a reason |\n|---|---|---|---|---|---|\n"
        .to_owned();
    let mut line = |title: &str, rows: Vec<&Row>| {
        let counts = counts(rows.iter().copied());
        let count = |kind: &str| counts.get(kind).copied().unwrap_or_default();
        let _written = writeln!(
            text,
            "| {title} | {} | {} | {} | {} | {} |",
            rows.len(),
            count("simulation"),
            count("test"),
            count("unreached"),
            count("reason")
        );
    };
    for file in FILES {
        line(
            &format!("`{file}`"),
            rows.iter().filter(|row| row.file == *file).collect(),
        );
    }
    line("all", rows.iter().collect());
    text
}

/// The whole page.
pub fn page(rows: &[Row]) -> String {
    let mut page = "# Generated mutants\n\n\
        Each row changes one point of a decision. The last column contains what finds the change: an\n\
        invariant of the [simulation](simulation.md), with the scenario and the seed; or a test of core. A\n\
        change is `unreached` if the schedules never evaluate the point, and no test of core finds the\n\
        change. Otherwise the column contains the reason why nothing finds it.\n\n\
        | column | change |\n|---|---|\n\
        | negated | a condition, or a comparison for equality, has the opposite value |\n\
        | true, false | a term has this value, so that it is dropped from `&&` or from a filter, or from `\\|\\|` |\n\
        | `<`, `<=`, `>`, `>=` | a comparison has this operator instead of its own |\n\
        | no arm | an arm of a match is removed |\n\
        | None | an optional value is absent |\n\
        | dropped, not chained | a statement or a part of a list is removed |\n\
        | one more | a number is larger by one |\n\n\
        This page is generated: `make mutants` hunts the changes that the page does not contain, and\n\
        `make mutants AGAIN=1` hunts all of them. `make mutants SAMPLE=40` hunts a part of those that the\n\
        simulation found.\n"
        .to_owned();
    for file in FILES {
        let _written = write!(
            page,
            "\n## `{file}`\n\n| function | change | found by |\n|---|---|---|\n"
        );
        for row in rows.iter().filter(|row| row.file == *file) {
            let escaped = |text: &str| text.replace('|', "\\|");
            let (change, end) = (escaped(&row.change), escaped(&row.end.cell()));
            let _written = writeln!(page, "| `{}` | {change} | {end} |", row.function);
        }
    }
    page
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_rows_of_a_page_are_read_as_they_were_written() {
        let row = |change: &str, end: End| Row {
            file: FILES[0].to_owned(),
            function: "plan".to_owned(),
            change: change.to_owned(),
            end,
        };
        let found = End::Found {
            scenario: "corners".to_owned(),
            seed: 3,
            by: "C2".to_owned(),
        };
        let all = vec![
            row("negated: `a || b`", found),
            row("true: `|it| it`", End::Tested("cpms::a::b".to_owned())),
            row("false: `c`", End::Unreached),
            row("None: `d`", End::Survives("a message only".to_owned())),
            row("dropped: `e`", End::Survives(String::new())),
            row("dropped: `f`", End::Fails("the controller panics".to_owned())),
        ];
        assert_eq!(rows(&page(&all)), all);
    }
}
