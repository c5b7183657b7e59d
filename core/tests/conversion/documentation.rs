//! The pages in `docs/conversion` are what the rules say. `CONVERSION_DOCS=write` writes them.

use std::path::{Path, PathBuf};

use capstan_core::conversion;

fn folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../docs/conversion")
}

#[test]
fn the_pages_of_the_platforms_are_generated_from_the_rules() {
    let write = std::env::var("CONVERSION_DOCS").is_ok_and(|value| value == "write");
    let mut wanted = Vec::new();
    for id in conversion::pages() {
        let page = conversion::page(id).unwrap();
        let name = format!("{id}.md");
        let path = folder().join(&name);
        if write {
            std::fs::write(&path, &page).unwrap();
        }
        let stored = std::fs::read_to_string(&path).unwrap_or_default();
        assert!(
            stored == page,
            "{} differs; write it with CONVERSION_DOCS=write cargo test -p capstan-core --test conversion",
            path.display()
        );
        wanted.push(name);
    }
    wanted.sort();
    let mut found: Vec<String> = std::fs::read_dir(folder())
        .unwrap()
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .collect();
    found.sort();
    assert_eq!(found, wanted);
}

#[test]
fn a_field_is_explained_in_both_directions() {
    for (field, text) in [
        (
            "placement.tenancy",
            "AWS: AWSMachineProviderConfig placement.tenancy <-> AWSMachine tenancy",
        ),
        ("spec.providerSpec.value.publicIp", "AWSMachine publicIP"),
        ("sshKeyName", "keyName <-> AWSMachine sshKeyName"),
        ("cloudInit", "the Machine API boots with Ignition"),
        ("spec.lifecycleHooks", "pre-drain.delete.hook.machine.cluster.x-k8s.io"),
        ("spec.deletePolicy", "spec.deletion.order"),
    ] {
        let answers = conversion::explain(field, None);
        assert!(
            answers.iter().any(|answer| answer.contains(text)),
            "{field}: {answers:?}"
        );
    }
    assert!(conversion::explain("noSuchField", None).is_empty());
}
