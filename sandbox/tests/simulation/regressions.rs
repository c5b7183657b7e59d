//! Defects that the simulation found in Capstan: each file of `sandbox/regressions` is a schedule
//! that once violated an invariant. It must violate nothing, and reach its state.

use std::path::{Path, PathBuf};

use capstan_sandbox::simulation::{Regression, invariants};

fn files() -> Vec<PathBuf> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("regressions");
    let mut files: Vec<PathBuf> = std::fs::read_dir(folder)
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .collect();
    files.sort();
    files
}

#[test]
fn every_regression_reaches_its_state_and_violates_nothing() {
    let files = files();
    assert!(files.len() >= 17, "{files:?}");
    let failures: Vec<String> = files
        .iter()
        .filter_map(|path| {
            let checked = Regression::read(path).and_then(|regression| regression.check());
            let error = checked.err()?;
            Some(format!("{}: {error:#}", path.display()))
        })
        .collect();
    assert!(failures.is_empty(), "{}", failures.join("\n\n"));
}

#[test]
fn every_regression_names_its_invariants_and_survives_serialization() {
    for path in files() {
        let regression = Regression::read(&path).unwrap();
        for id in &regression.violated {
            assert!(
                invariants().any(|invariant| invariant.id == id),
                "{}: {id}",
                path.display()
            );
        }
        let again: Regression = serde_saphyr::from_str(&regression.text().unwrap()).unwrap();
        assert_eq!(format!("{again:?}"), format!("{regression:?}"), "{}", path.display());
    }
}

/// A regression whose state is not reached any more must fail.
#[test]
fn a_regression_that_misses_its_state_fails() {
    let path = files().into_iter().find(|path| path.ends_with("rollout.yaml")).unwrap();
    let mut regression = Regression::read(&path).unwrap();
    regression.reaches.branches.insert("wait: pause".to_owned());
    let error = regression.check().unwrap_err().to_string();
    assert!(error.contains("branch \"wait: pause\" is not reached"), "{error}");
}
