//! The alerts: promtool checks the rules, and evaluates them for the series of
//! `tests/fixtures/alerts.yaml`.

use std::path::Path;
use std::process::Command;

use capstan_sandbox::neighbours::tools;
use serde_json::Value;

fn read(path: &str) -> String {
    std::fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join(path)).unwrap()
}

#[test]
fn each_alert_fires_for_its_failure_only() {
    let rule: Value = serde_saphyr::from_str(&read("manifests/alerts/prometheusrule.yaml")).unwrap();
    let tests = read("tests/fixtures/alerts.yaml");
    let folder = tempfile::tempdir().unwrap();
    // JSON is YAML.
    std::fs::write(folder.path().join("rules.yaml"), rule["spec"].to_string()).unwrap();
    std::fs::write(folder.path().join("tests.yaml"), &tests).unwrap();
    let promtool = tools::promtool().unwrap();
    for arguments in [["check", "rules", "rules.yaml"], ["test", "rules", "tests.yaml"]] {
        let output = Command::new(&promtool)
            .args(arguments)
            .current_dir(folder.path())
            .output()
            .unwrap();
        let [stdout, stderr] = [&output.stdout, &output.stderr].map(|bytes| String::from_utf8_lossy(bytes));
        assert!(output.status.success(), "{arguments:?}: {stdout}{stderr}");
    }
    let groups = rule["spec"]["groups"].as_array().unwrap();
    for alert in groups.iter().flat_map(|group| group["rules"].as_array().unwrap()) {
        let fires = format!("alertname=\"{}\"", alert["alert"].as_str().unwrap());
        assert!(tests.contains(&fires), "{fires}");
    }
}
