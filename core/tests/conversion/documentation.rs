//! The pages in `docs/conversion` are what the rules say. `CONVERSION_DOCS=write` writes them.

use std::path::{Path, PathBuf};

use capstan_core::conversion;

fn folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../docs/conversion")
}

#[test]
fn the_pages_of_the_platforms_are_generated_from_the_rules() {
    let write = std::env::var("CONVERSION_DOCS").is_ok_and(|value| value == "write");
    let mut wanted = vec![String::from("README.md")];
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
fn everything_that_must_not_happen_has_a_test() {
    let sources = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/conversion");
    let sources = std::fs::read_dir(sources).unwrap();
    let sources: String = sources
        .map(|entry| std::fs::read_to_string(entry.unwrap().path()).unwrap())
        .collect();
    let page = std::fs::read_to_string(folder().join("README.md")).unwrap();
    let rows = page.lines().filter(|line| line.starts_with("| ")).skip(1);
    let mut areas: Vec<(&str, usize)> = Vec::new();
    for row in rows {
        let cells: Vec<&str> = row.trim_matches('|').split('|').map(str::trim).collect();
        let [area, value, test] = cells[..] else {
            panic!("{row}")
        };
        let test = test.trim_matches('`');
        assert!(!value.is_empty(), "{row}");
        assert!(sources.contains(&format!("#[test]\nfn {test}()")), "no test {test}");
        match areas.last_mut() {
            Some((last, count)) if *last == area => *count += 1,
            _ => areas.push((area, 1)),
        }
    }
    let expected = [
        ("silent loss", 18),
        ("random result", 1),
        ("invented value", 1),
        ("false block", 2),
    ];
    assert_eq!(areas, expected);
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
        ("status", "converted for the sync controller"),
        ("metadata.finalizers", "those of the controllers of each API"),
        ("metadata.name", "also of the infrastructure machine"),
        ("spec.template.metadata.labels", "one set of labels in Cluster API"),
        ("spec.infrastructureRef.name", "made from the provider spec"),
        (
            "AWSMachine spec.ignition.tls",
            "the Machine API has no TLS settings for Ignition",
        ),
        (
            "spec.template.spec.providerSpec.value.blockDevices[0].ebs.iops",
            "blockDevices[].ebs.iops <-> AWSMachine nonRootVolumes[].iops",
        ),
    ] {
        let answers = conversion::explain(field, None);
        assert!(
            answers.iter().any(|answer| answer.contains(text)),
            "{field}: {answers:?}"
        );
    }
    for unknown in ["noSuchField", "spec.providerSpec.value.noSuchField"] {
        assert!(conversion::explain(unknown, None).is_empty(), "{unknown}");
    }
    let labels = conversion::explain("spec.template.metadata.labels", None);
    assert!(!labels.iter().any(|answer| answer.starts_with("vSphere")), "{labels:?}");
}
