//! The pictures of the documentation are drawn by the program, with `make pictures`.

use super::{capstan, stderr, stdout};

/// The pictures, as in the Makefile.
const PICTURES: [&str; 3] = ["rollout", "both-apis", "kubeadm-control-plane"];

fn read(path: &str) -> String {
    let path = format!("{}/{path}", env!("CARGO_MANIFEST_DIR"));
    std::fs::read_to_string(path).unwrap()
}

#[test]
fn the_pictures_of_the_documentation_are_up_to_date() {
    let makefile = read("Makefile");
    assert!(makefile.contains(&format!("PICTURES := {}\n", PICTURES.join(" "))));
    for name in PICTURES {
        let objects = format!("{}/tests/fixtures/pictures/{name}.yaml", env!("CARGO_MANIFEST_DIR"));
        let arguments = ["status", "-o", "svg", "--now", "2026-06-01T12:00:00Z", "-f", &objects];
        let output = capstan(&arguments, "");
        assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
        assert!(
            stdout(&output) == read(&format!("docs/pictures/live-{name}.svg")),
            "docs/pictures/live-{name}.svg is out of date; run `make pictures`"
        );
    }
}
