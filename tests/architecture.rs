//! Holds the walls of the house: who may name whom, and what core must never touch. It reads the sources; `ARCHITECTURE.md`
//! says why each arrow is there.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "a test that fails is what these are for"
)]

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};

/// Rooms of core, and the rooms that each may name. A new arrow is a decision: write it down in `ARCHITECTURE.md` first.
const CORE: &[(&str, &[&str])] = &[
    ("model", &[]),
    ("api", &["model"]),
    // A rule about a request reads the edit.
    ("cel", &["model"]),
    ("schema", &["model", "api", "cel"]),
    ("scaling", &["model", "api"]),
    ("cpms", &["model", "api", "cel", "scaling"]),
    ("kcp", &["model", "api", "cel", "scaling"]),
    ("pool", &["model", "api", "cel"]),
    ("health", &["model", "api", "cel"]),
    ("authority", &["model", "api", "cel", "conversion"]),
    ("conversion", &["model", "api", "cel"]),
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

/// Every room of core, for those of the shell that may name all of them.
const ALL_OF_CORE: &str = "core::*";

/// Rooms of the shell, and what each may name: rooms of the shell, and `core::<room>`.
const SHELL: &[(&str, &[&str])] = &[
    ("tls", &[]),
    ("server", &["tls", "core::admission"]),
    ("manifests", &["core::admission", "core::cel", "core::schema"]),
    ("workload", &["core::api", "core::model"]),
    ("controllers", &["workload", ALL_OF_CORE]),
    // Puts everything together, and decides nothing.
    (
        "cli",
        &["tls", "server", "manifests", "workload", "controllers", ALL_OF_CORE],
    ),
    ("main", &["cli"]),
];

fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

/// The Rust files below a folder, as paths from it, in order.
fn sources(folder: &str) -> Vec<(PathBuf, String)> {
    let base = root().join(folder);
    let mut found = Vec::new();
    let mut folders = vec![base.clone()];
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(&folder).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                folders.push(path);
            } else if path.extension().is_some_and(|extension| extension == "rs") {
                let text = fs::read_to_string(&path).unwrap();
                found.push((path.strip_prefix(&base).unwrap().to_path_buf(), text));
            }
        }
    }
    found.sort();
    assert!(!found.is_empty(), "no sources in {folder}");
    found
}

/// The path of the module that a file is: `cpms/rules.rs` is `cpms`, `rules`.
fn module(file: &Path) -> Vec<String> {
    file.with_extension("")
        .iter()
        .map(|part| part.to_string_lossy().into_owned())
        .filter(|part| part != "lib" && part != "mod")
        .collect()
}

/// The source without comments and without the text in string literals.
fn code(text: &str) -> String {
    let mut code = String::new();
    let mut before = ' ';
    let mut rest = text;
    while let Some(letter) = rest.chars().next() {
        // A raw string ends at a quote with as many hashes as it began with.
        let hashes = rest
            .strip_prefix('r')
            .map(|raw| raw.len() - raw.trim_start_matches('#').len());
        if let Some(hashes) = hashes.filter(|hashes| !is_word(before) && rest[1 + hashes..].starts_with('"')) {
            let end = format!("\"{}", "#".repeat(hashes));
            let inner = &rest[hashes + 2..];
            rest = &inner[inner.find(&end).expect("a raw string that does not end") + end.len()..];
            continue;
        }
        rest = &rest[letter.len_utf8()..];
        match letter {
            '/' if rest.starts_with('/') => rest = rest.find('\n').map_or("", |end| &rest[end..]),
            // A character literal of a quote.
            '"' if matches!(before, '\'' | '\\') && rest.starts_with('\'') => {}
            '"' => {
                let mut letters = rest.char_indices();
                while let Some((at, inner)) = letters.next() {
                    match inner {
                        '\\' => {
                            letters.next();
                        }
                        '"' => {
                            rest = &rest[at + 1..];
                            break;
                        }
                        _ => {}
                    }
                }
            }
            _ => code.push(letter),
        }
        before = letter;
    }
    code
}

fn is_word(letter: char) -> bool {
    letter.is_ascii_alphanumeric() || letter == '_'
}

fn first_word(text: &str) -> &str {
    let end = text.find(|letter: char| !is_word(letter)).unwrap_or(text.len());
    &text[..end]
}

/// What is named right behind each `prefix`, also as a list in braces: `crate::a::B`, `crate::{a::B, c}`.
fn named(code: &str, prefix: &str) -> BTreeSet<String> {
    let mut names = BTreeSet::new();
    for (at, _) in code.match_indices(prefix) {
        if code[..at].ends_with(is_word) {
            continue;
        }
        let rest = &code[at + prefix.len()..];
        let Some(list) = rest.strip_prefix('{') else {
            names.insert(first_word(rest).to_owned());
            continue;
        };
        let mut depth = 0;
        let mut starts = true;
        for (position, letter) in list.char_indices() {
            match letter {
                '{' => depth += 1,
                '}' if depth == 0 => break,
                '}' => depth -= 1,
                ',' if depth == 0 => starts = true,
                _ if starts && is_word(letter) => {
                    names.insert(first_word(&list[position..]).to_owned());
                    starts = false;
                }
                _ => {}
            }
        }
    }
    names
}

/// The rooms of its own crate that a file names: through `crate::`, or by climbing out of its room with `super::`.
fn rooms_named(code: &str, depth: usize, rooms: &BTreeSet<String>) -> BTreeSet<String> {
    let climb = "super::".repeat(depth.max(1));
    named(code, "crate::")
        .into_iter()
        .chain(named(code, &climb))
        .filter(|name| rooms.contains(name))
        .collect()
}

/// Checks the arrows of one crate; `others` are crates of ours and the prefix under which their rooms stand in the table.
fn check(folder: &str, table: &[(&str, &[&str])], others: &[(&str, &str)]) {
    let allowed: BTreeMap<&str, BTreeSet<&str>> = table
        .iter()
        .map(|(room, arrows)| (*room, arrows.iter().copied().collect()))
        .collect();
    let sources = sources(folder);
    let rooms: BTreeSet<String> = sources
        .iter()
        .filter_map(|(file, _)| module(file).first().cloned())
        .collect();
    for room in &rooms {
        assert!(
            allowed.contains_key(room.as_str()),
            "{folder}/{room} is a new room: give it its arrows in tests/architecture.rs, and a line in ARCHITECTURE.md"
        );
    }
    for (file, text) in &sources {
        let module = module(file);
        // lib.rs names its rooms, which is no arrow.
        let Some(room) = module.first() else { continue };
        let code = code(text);
        let mut arrows = rooms_named(&code, module.len(), &rooms);
        for (name, prefix) in others {
            let foreign = named(&code, &format!("{name}::"));
            arrows.extend(foreign.into_iter().map(|other| format!("{prefix}{other}")));
        }
        for arrow in arrows.iter().filter(|arrow| *arrow != room) {
            let everything = format!("{}*", arrow.split_inclusive("::").next().unwrap_or_default());
            let allowed = &allowed[room.as_str()];
            assert!(
                allowed.contains(arrow.as_str()) || allowed.contains(everything.as_str()),
                "{folder}/{}: {room} -> {arrow} is a new arrow; see ARCHITECTURE.md, \"Arrows\"",
                file.display()
            );
        }
    }
}

#[test]
fn the_rooms_of_core_name_only_those_that_they_may() {
    check("core/src", CORE, &[]);
}

#[test]
fn the_rooms_of_the_shell_name_only_those_that_they_may() {
    check("src", SHELL, &[("capstan_core", "core::"), ("capstan", "")]);
}

#[test]
fn core_touches_no_clock_no_socket_no_file_no_random_source_and_no_task() {
    let forbidden = [
        "std::fs",
        "TcpStream",
        "TcpListener",
        "UdpSocket",
        "ToSocketAddrs",
        "std::env",
        "std::process",
        "std::thread",
        "std::io",
        "SystemTime",
        "Instant::",
        "Timestamp::now",
        "Zoned::now",
        "HashMap",
        "HashSet",
        "RandomState",
        "tokio",
        "k8s_openapi",
        "kube::",
        "println!",
        "tracing",
    ];
    for (file, text) in sources("core/src") {
        // Its tests too: who compares with files of the repository is a test of the shell.
        let code = code(&text);
        for word in forbidden {
            assert!(!code.contains(word), "core/src/{}: names {word}", file.display());
        }
    }
}

#[test]
fn what_a_cluster_runs_does_not_hold_the_sandbox() {
    let manifest = fs::read_to_string(root().join("Cargo.toml")).unwrap();
    let dependencies = manifest.split("\n[dependencies]").nth(1).unwrap();
    let dependencies = dependencies.split("\n[").next().unwrap();
    assert!(dependencies.contains("capstan-core"));
    assert!(!dependencies.contains("capstan-sandbox"));
}

#[test]
fn a_file_tells_one_story_and_is_named_after_it() {
    for folder in ["core/src", "src", "sandbox/src", "tests"] {
        for (file, text) in sources(folder) {
            let lines = text.lines().count();
            assert!(lines <= 800, "{folder}/{} has {lines} lines", file.display());
            for part in module(&file) {
                assert!(
                    !["utils", "util", "helpers", "helper", "manager", "common", "misc"].contains(&part.as_str()),
                    "{folder}/{}: a name that says nothing",
                    file.display()
                );
            }
        }
    }
}

#[test]
fn an_import_is_found_in_every_form_and_not_in_text() {
    let source = r##"
        //! crate::comment
        use crate::api::meta::{A, B};
        use crate::{model::{X, Y}, cel};
        fn f() -> String { let quote = '"'; super::super::schema::g(); r#"crate::text "#; format!("crate::text \" {quote}") }
    "##;
    let rooms: BTreeSet<String> = ["api", "model", "cel", "schema", "comment", "text"]
        .map(str::to_owned)
        .into();
    assert_eq!(
        rooms_named(&code(source), 2, &rooms),
        ["api", "cel", "model", "schema"].map(str::to_owned).into()
    );
}
