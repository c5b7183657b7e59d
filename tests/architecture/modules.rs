//! The top-level modules of each crate, and the modules that each may name. `ARCHITECTURE.md` gives
//! the reason for each dependency.

use std::collections::{BTreeMap, BTreeSet};

use crate::imports::{Crate, Named};
use crate::source::sources;

/// The modules of core. Before you add a dependency, describe the decision in `ARCHITECTURE.md`.
const CORE: &[(&str, &[&str])] = &[
    ("model", &[]),
    ("api", &["model"]),
    // A rule about a request reads the edit.
    ("cel", &["model"]),
    ("schema", &["model", "api", "cel"]),
    ("scaling", &["model", "api"]),
    ("platforms", &["model", "api"]),
    ("cpms", &["model", "api", "cel", "platforms", "scaling"]),
    // A ControlPlane describes its machines as a ControlPlaneMachineSet does.
    ("control_plane", &["model", "api", "cel", "cpms"]),
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
            "control_plane",
            "kcp",
            "pool",
            "health",
            "authority",
            "conversion",
        ],
    ),
];

/// All modules of core, for modules of the shell that may name all of them.
const ALL_OF_CORE: &str = "core::*";

/// The modules of the shell, and the modules of the shell and `core::<module>` that each may name.
const SHELL: &[(&str, &[&str])] = &[
    ("tls", &[]),
    ("server", &["tls", "core::admission"]),
    ("manifests", &["core::admission", "core::cel", "core::schema"]),
    ("workload", &["core::api", "core::model"]),
    // The page shows the JSON reports, so that it names no module of core.
    ("dashboard", &[]),
    // The runtime works for any kind, so that it names no feature module.
    ("runtime", &["core::api", "core::model"]),
    ("controllers", &["runtime", "workload", ALL_OF_CORE]),
    // The command line assembles the parts and decides nothing.
    (
        "cli",
        &[
            "tls",
            "server",
            "manifests",
            "workload",
            "runtime",
            "controllers",
            "dashboard",
            ALL_OF_CORE,
        ],
    ),
    ("main", &["cli"]),
];

/// Checks the dependencies of one crate. `others` are the names of our other crates, with the
/// prefix of their modules in the table.
fn check(folder: &str, name: &str, table: &[(&str, &[&str])], others: &[(&str, &str)]) {
    let allowed: BTreeMap<&str, BTreeSet<&str>> = table
        .iter()
        .map(|(module, targets)| (*module, targets.iter().copied().collect()))
        .collect();
    let sources = sources(folder);
    let modules: BTreeSet<&str> = sources
        .iter()
        .filter_map(|source| source.module.first().map(String::as_str))
        .collect();
    for module in &modules {
        assert!(
            allowed.contains_key(module),
            "{folder}/{module} must have its dependencies in tests/architecture/modules.rs and a line in ARCHITECTURE.md"
        );
    }
    for named in Crate::new(name, &sources).named() {
        // lib.rs declares the modules, which is not a dependency.
        let Some(module) = named.source.module.first() else {
            continue;
        };
        let Some(target) = target(&named, &modules, others).filter(|target| target != module) else {
            continue;
        };
        let everything = format!("{}*", target.split_inclusive("::").next().unwrap_or_default());
        let allowed = &allowed[module.as_str()];
        assert!(
            allowed.contains(target.as_str()) || allowed.contains(everything.as_str()),
            "{}:{}: {module} must not name {target}; see ARCHITECTURE.md, \"Imports\"",
            named.source.path,
            named.reference.line
        );
    }
}

/// The module of a path, as the table names it.
fn target(named: &Named<'_>, modules: &BTreeSet<&str>, others: &[(&str, &str)]) -> Option<String> {
    if let Some(path) = &named.within {
        return path.first().filter(|module| modules.contains(module.as_str())).cloned();
    }
    let [first, module, ..] = named.reference.segments.as_slice() else {
        return None;
    };
    let (_, prefix) = others.iter().find(|(name, _)| name == first)?;
    Some(format!("{prefix}{module}"))
}

#[test]
fn modules_of_core_name_only_the_modules_in_the_table() {
    check("core/src", "capstan_core", CORE, &[]);
}

#[test]
fn modules_of_the_shell_name_only_the_modules_in_the_table() {
    check("src", "capstan", SHELL, &[("capstan_core", "core::")]);
}
