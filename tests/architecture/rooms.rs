//! The rooms of each crate, and the rooms that each may name. `ARCHITECTURE.md` gives the reason
//! for each arrow.

use std::collections::{BTreeMap, BTreeSet};

use crate::imports::{Crate, Named};
use crate::source::sources;

/// The rooms of core. A new arrow is a decision: write it down in `ARCHITECTURE.md` first.
const CORE: &[(&str, &[&str])] = &[
    ("model", &[]),
    ("api", &["model"]),
    // A rule about a request reads the edit.
    ("cel", &["model"]),
    ("schema", &["model", "api", "cel"]),
    ("scaling", &["model", "api"]),
    ("platforms", &["model", "api"]),
    ("cpms", &["model", "api", "cel", "platforms", "scaling"]),
    ("kcp", &["model", "api", "cel", "scaling"]),
    ("pool", &["model", "api", "cel"]),
    ("health", &["model", "api", "cel"]),
    ("authority", &["model", "api", "cel", "conversion"]),
    ("conversion", &["model", "api", "cel", "platforms"]),
    (
        "admission",
        &[
            "model",
            "api",
            "cel",
            "schema",
            "scaling",
            "cpms",
            "kcp",
            "pool",
            "health",
            "authority",
            "conversion",
        ],
    ),
];

/// Every room of core, for rooms of the shell that may name all of them.
const ALL_OF_CORE: &str = "core::*";

/// Rooms of the shell, and what each may name: rooms of the shell, and `core::<room>`.
const SHELL: &[(&str, &[&str])] = &[
    ("tls", &[]),
    ("server", &["tls", "core::admission"]),
    ("manifests", &["core::admission", "core::cel", "core::schema"]),
    ("workload", &["core::api", "core::model"]),
    // It works for any kind, so it names no feature module.
    ("runtime", &["core::api", "core::model"]),
    ("controllers", &["runtime", "workload", ALL_OF_CORE]),
    // It assembles the parts and decides nothing.
    (
        "cli",
        &[
            "tls",
            "server",
            "manifests",
            "workload",
            "runtime",
            "controllers",
            ALL_OF_CORE,
        ],
    ),
    ("main", &["cli"]),
];

/// Checks the arrows of one crate. `others` are the names of our other crates, with the prefix of
/// their rooms in the table.
fn check(folder: &str, name: &str, table: &[(&str, &[&str])], others: &[(&str, &str)]) {
    let allowed: BTreeMap<&str, BTreeSet<&str>> = table
        .iter()
        .map(|(room, arrows)| (*room, arrows.iter().copied().collect()))
        .collect();
    let sources = sources(folder);
    let rooms: BTreeSet<&str> = sources
        .iter()
        .filter_map(|source| source.module.first().map(String::as_str))
        .collect();
    for room in &rooms {
        assert!(
            allowed.contains_key(room),
            "{folder}/{room} must have its arrows in tests/architecture/rooms.rs and a line in ARCHITECTURE.md"
        );
    }
    for named in Crate::new(name, &sources).named() {
        // lib.rs declares the rooms, which is no arrow.
        let Some(room) = named.source.module.first() else {
            continue;
        };
        let Some(arrow) = arrow(&named, &rooms, others).filter(|arrow| arrow != room) else {
            continue;
        };
        let everything = format!("{}*", arrow.split_inclusive("::").next().unwrap_or_default());
        let allowed = &allowed[room.as_str()];
        assert!(
            allowed.contains(arrow.as_str()) || allowed.contains(everything.as_str()),
            "{}:{}: {room} must not name {arrow}; see ARCHITECTURE.md, \"Arrows\"",
            named.source.path,
            named.reference.line
        );
    }
}

/// The room that a path leads to, as the table names it.
fn arrow(named: &Named<'_>, rooms: &BTreeSet<&str>, others: &[(&str, &str)]) -> Option<String> {
    if let Some(path) = &named.within {
        return path.first().filter(|room| rooms.contains(room.as_str())).cloned();
    }
    let [first, room, ..] = named.reference.segments.as_slice() else {
        return None;
    };
    let (_, prefix) = others.iter().find(|(name, _)| name == first)?;
    Some(format!("{prefix}{room}"))
}

#[test]
fn the_rooms_of_core_name_only_the_rooms_that_they_may() {
    check("core/src", "capstan_core", CORE, &[]);
}

#[test]
fn the_rooms_of_the_shell_name_only_the_rooms_that_they_may() {
    check("src", "capstan", SHELL, &[("capstan_core", "core::")]);
}
